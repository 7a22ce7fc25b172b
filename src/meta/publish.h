/* meta/publish.h - a table commit, sorted and checked on the caller's thread before the
 * transaction.
 *
 * What can be proved from one snapshot of the database is proved there, so that the meta thread
 * does not read a stream's index while producers wait: what a floor stands for never changes. The
 * transaction then only makes sure that the floors are still those of the snapshot. */
#pragma once
#include "meta/meta_int.h"

/* What a table commit does to one partition. */
struct meta_publish_part {
        int32_t partition;
        const struct ls_meta_extent *const *adds, *const *removes; /* sorted, of this partition */
        size_t add_count, remove_count;
        int64_t new_floor;          /* -1: stays */
        struct ls_meta_partition p; /* as of the snapshot */
        uint64_t floor_hash;        /* what it becomes */
        uint64_t above;             /* sum of the entries from the new floor on */
        bool split;                 /* an entry crosses the new floor: its part can't be known */
};
struct meta_publish_plan {
        const struct ls_meta_table_commit *commit;
        struct ls_errinfo info;
        struct meta_publish_part *parts; /* by partition */
        size_t part_count;
        const struct ls_meta_extent **adds, **removes; /* sorted */
        const struct ls_meta_floor **floors;
};

/* Sorts and checks. LS_INVALID, LS_CORRUPT, LS_ABSENT, LS_CONFLICT with words in plan->info.
 * meta_publish_done in any case. */
LS_MUST_USE ls_err meta_publish_plan(struct ls_meta *m, const struct ls_meta_table_commit *commit,
                                     struct meta_publish_plan *plan);
void meta_publish_done(struct meta_publish_plan *plan);
