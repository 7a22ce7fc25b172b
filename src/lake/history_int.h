/* lake/history_int.h - what history.c (fetches), history_time.c (times, sizes) and
 * history_readers.c (open files) share. */
#pragma once
#include "lake/lake_int.h"
#include "lake/rows.h"

#define HISTORY_READERS_MAX 64 /* open files kept between reads */
#define HISTORY_PLANS_MAX   4  /* a plan is overtaken when a file is merged away and deleted */

/* An extent of a partition, and where its file is. */
struct history_extent {
        struct ls_meta_extent extent;
        char *key; /* owned; NULL: no file (a hole) */
        uint64_t bytes;
};
struct history_extents {
        struct history_extent *items;
        size_t count, cap;
};
/* Extents that meet [from, to), by offset, as many as are worth one look: whole groups, and at
 * least one when there is any. *x is overwritten; free what it gave, also after a failure. */
LS_MUST_USE ls_err history_extents_load(struct ls_lake_stream *s, uint64_t stream_id,
                                        int32_t partition, int64_t from, int64_t to,
                                        struct history_extents *x);
void history_extents_free(struct history_extents *x);

/* As ls_rows_read on the file of `x`, with an open reader where there is one; reads on ahead when
 * reads follow each other. `out` gets at least one batch; when not `must`, none (*ret_next is
 * `from`) when what was read ahead is above how->bytes_max. LS_ABSENT: the file is gone. */
LS_MUST_USE ls_err history_read(struct ls_lake_stream *s, const struct history_extent *x,
                                int64_t from, bool must, const struct ls_rows_batches *how,
                                struct ls_buf *out, int64_t *ret_next);
/* Names the file and the range in the log, once a failed read. */
void history_log_damage(const struct ls_lake_spec *spec, const struct history_extent *x, ls_err e);
