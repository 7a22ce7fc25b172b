/* meta/publish.c - see publish.h.
 *
 * Per partition, with A the added and R the removed extents:
 *
 *   cover:  A covers what R covered and [old floor, new floor), each offset once; extents of the
 *           same [base, end) are a group and count as one, their rows are disjoint
 *   sums:   new floor_hash = floor_hash + sum(A) - sum(R)
 *           = hash - sum of the index entries from the new floor on
 *
 * The right side of the last line is known from the WAL commits alone, so a compaction that loses,
 * repeats or changes a record cannot be published.
 */
#include "meta/publish.h"

#include <stdlib.h>

#include "base/assert.h"
#include "meta/index_blob.h"

static int
extent_order(const void *a, const void *b)
{
        const struct ls_meta_extent *x = *(const struct ls_meta_extent *const *)a;
        const struct ls_meta_extent *y = *(const struct ls_meta_extent *const *)b;

        if (x->partition != y->partition)
                return x->partition < y->partition ? -1 : 1;
        if (x->base_offset != y->base_offset)
                return x->base_offset < y->base_offset ? -1 : 1;
        return (x->end_offset > y->end_offset) - (x->end_offset < y->end_offset);
}

static int
floor_order(const void *a, const void *b)
{
        const struct ls_meta_floor *x = *(const struct ls_meta_floor *const *)a;
        const struct ls_meta_floor *y = *(const struct ls_meta_floor *const *)b;

        return (x->partition > y->partition) - (x->partition < y->partition);
}

static const struct ls_meta_extent **
extents_sorted(const struct ls_meta_extent *extents, size_t count)
{
        const struct ls_meta_extent **sorted = ls_calloc(count + 1, sizeof *sorted);

        for (size_t i = 0; i < count; i++)
                sorted[i] = &extents[i];
        qsort(sorted, count, sizeof *sorted, extent_order);
        return sorted;
}

/* --- shape --- */

static bool
extent_shape_ok(const struct ls_meta_extent *x)
{
        bool has_file = x->kind == LS_META_EXTENT_PARQUET || x->kind == LS_META_EXTENT_RAW;

        return x->partition >= 0 && x->partition < LS_META_PARTITIONS_MAX && x->base_offset >= 0 &&
               x->end_offset > x->base_offset && x->kind > LS_META_EXTENT_WAL &&
               x->kind <= LS_META_EXTENT_HOLE && x->rows >= 0 && x->first_row >= 0 &&
               x->rows <= x->end_offset - x->base_offset && (x->file_id != 0) == has_file &&
               (x->kind != LS_META_EXTENT_HOLE || x->rows == 0) &&
               x->inline_bytes.len <= LS_META_INLINE_BYTES_MAX;
}

static ls_err
plan_check_added(struct meta_publish_plan *plan)
{
        const struct ls_meta_table_commit *c = plan->commit;

        for (size_t i = 0; i < c->add_extent_count; i++) {
                const struct ls_meta_extent *x = &c->add_extents[i];
                int64_t end_row;

                if (!extent_shape_ok(x))
                        return ls_fail(&plan->info, LS_INVALID,
                                       "added extent %zu (partition %d, offset %lld) is malformed",
                                       i, x->partition, (long long)x->base_offset);
                if (x->file_id == 0 || !c->file_is_new[i])
                        continue;
                if (x->file_id > c->add_file_count ||
                    __builtin_add_overflow(x->first_row, x->rows, &end_row) ||
                    end_row > c->add_files[x->file_id - 1].rows)
                        return ls_fail(&plan->info, LS_INVALID,
                                       "added extent %zu names rows that its file does not have",
                                       i);
        }
        return LS_OK;
}

static ls_err
plan_check_shape(struct meta_publish_plan *plan)
{
        const struct ls_meta_table_commit *c = plan->commit;

        LS_TRY(plan_check_added(plan));
        for (size_t i = 0; i < c->remove_extent_count; i++)
                if (c->remove_extents[i].partition < 0 ||
                    c->remove_extents[i].end_offset <= c->remove_extents[i].base_offset)
                        return ls_fail(&plan->info, LS_INVALID, "removed extent %zu is malformed",
                                       i);
        for (size_t i = 0; i < c->floor_count; i++)
                if (c->floors[i].partition < 0 || c->floors[i].floor < 0)
                        return ls_fail(&plan->info, LS_INVALID, "floor %zu is malformed", i);
        for (size_t i = 0; i < c->add_file_count; i++)
                if (c->add_files[i].key == NULL || c->add_files[i].key[0] == '\0' ||
                    c->add_files[i].rows < 0)
                        return ls_fail(&plan->info, LS_INVALID, "added file %zu is malformed", i);
        if (c->metadata.len > LS_META_JSON_BYTES_MAX ||
            (c->metadata_key == NULL) != (c->metadata.ptr == NULL))
                return ls_fail(&plan->info, LS_INVALID,
                               "table metadata is too large or has no key");
        return LS_OK;
}

/* --- partitions --- */

/* Merges the three sorted lists into one list of partitions. */
static ls_err
plan_parts(struct meta_publish_plan *plan)
{
        const struct ls_meta_table_commit *c = plan->commit;
        size_t a = 0, r = 0, f = 0, cap = 0;

        while (a < c->add_extent_count || r < c->remove_extent_count || f < c->floor_count) {
                struct meta_publish_part part = { .partition = INT32_MAX, .new_floor = -1 };

                if (a < c->add_extent_count)
                        part.partition = plan->adds[a]->partition;
                if (r < c->remove_extent_count)
                        part.partition = LS_MIN(part.partition, plan->removes[r]->partition);
                if (f < c->floor_count)
                        part.partition = LS_MIN(part.partition, plan->floors[f]->partition);
                part.adds = plan->adds + a;
                while (a < c->add_extent_count && plan->adds[a]->partition == part.partition)
                        a++, part.add_count++;
                part.removes = plan->removes + r;
                while (r < c->remove_extent_count && plan->removes[r]->partition == part.partition)
                        r++, part.remove_count++;
                if (f < c->floor_count && plan->floors[f]->partition == part.partition)
                        part.new_floor = plan->floors[f++]->floor;
                if (f < c->floor_count && plan->floors[f]->partition == part.partition)
                        return ls_fail(&plan->info, LS_INVALID, "two floors for partition %d",
                                       part.partition);
                LS_PUSH(plan->parts, plan->part_count, cap, part);
        }
        return LS_OK;
}

static bool
extents_same(const struct ls_meta_extent *x, const struct ls_meta_extent *y)
{
        return x->base_offset == y->base_offset && x->end_offset == y->end_offset;
}

/* The next run of touching intervals of a sorted list, from *at on; false at its end. An overlap
 * of two that are not of one group sets *bad. */
static bool
extents_run(const struct ls_meta_extent *const *list, size_t count, size_t *at, int64_t *ret_base,
            int64_t *ret_end, bool *bad)
{
        if (*at == count)
                return false;
        *ret_base = list[*at]->base_offset;
        *ret_end = list[*at]->end_offset;
        for (++*at; *at < count && list[*at]->base_offset <= *ret_end; ++*at) {
                if (list[*at]->base_offset < *ret_end && !extents_same(list[*at], list[*at - 1]))
                        *bad = true;
                *ret_end = LS_MAX(*ret_end, list[*at]->end_offset);
        }
        return true;
}

/* A covers exactly what R covered and [floor, new floor). */
static bool
part_covers(const struct meta_publish_part *part)
{
        struct ls_meta_extent tail = { .base_offset = part->p.floor,
                                       .end_offset = part->new_floor };
        const struct ls_meta_extent **old = ls_calloc(part->remove_count + 1, sizeof *old);
        size_t old_count = part->remove_count, a = 0, r = 0;
        int64_t a_base = 0, a_end = 0, r_base = 0, r_end = 0;
        bool bad = false, more;

        if (part->remove_count > 0)
                memcpy(old, part->removes, part->remove_count * sizeof *old);
        if (part->remove_count > 0 && old[part->remove_count - 1]->end_offset > part->p.floor)
                bad = true; /* only what is below the floor stands in extents */
        if (part->new_floor >= 0)
                old[old_count++] = &tail;
        do {
                more = extents_run(part->adds, part->add_count, &a, &a_base, &a_end, &bad);
                if (extents_run(old, old_count, &r, &r_base, &r_end, &bad) != more ||
                    (more && (a_base != r_base || a_end != r_end)))
                        bad = true;
        } while (more && !bad);
        ls_free(old);
        return !bad;
}

static ls_err
part_check(struct meta_publish_plan *plan, struct meta_publish_part *part)
{
        uint64_t sum = 0;

        if (part->new_floor >= 0 &&
            (part->new_floor <= part->p.floor || part->new_floor > part->p.stable))
                return ls_fail(&plan->info, LS_CORRUPT,
                               "partition %d: floor %lld is not within (%lld, %lld]",
                               part->partition, (long long)part->new_floor,
                               (long long)part->p.floor, (long long)part->p.stable);
        if (!part_covers(part))
                return ls_fail(&plan->info, LS_CORRUPT,
                               "partition %d: the added extents do not cover what was removed and "
                               "offsets %lld to %lld, each once",
                               part->partition, (long long)part->p.floor,
                               (long long)LS_MAX(part->new_floor, part->p.floor));
        for (size_t i = 0; i < part->add_count; i++)
                sum += part->adds[i]->hash;
        for (size_t i = 0; i < part->remove_count; i++)
                sum -= part->removes[i]->hash;
        part->floor_hash = part->p.floor_hash + sum;
        if (part->new_floor < 0 ? sum != 0
                                : !part->split && part->floor_hash != part->p.hash - part->above)
                return ls_fail(&plan->info, LS_CORRUPT,
                               "partition %d: the records of the added extents are not those that "
                               "were appended (sum %016llx, expected %016llx)",
                               part->partition, (unsigned long long)part->floor_hash,
                               (unsigned long long)(part->new_floor < 0
                                                            ? part->p.floor_hash
                                                            : part->p.hash - part->above));
        return LS_OK;
}

/* --- the snapshot --- */

struct plan_read {
        struct meta_publish_plan *plan;
        struct meta_publish_part **by_partition;
        size_t count;
};

static ls_err
plan_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct plan_read *read = ctx;

        if ((size_t)partition < read->count && read->by_partition[partition] != NULL)
                read->by_partition[partition]->p = *p;
        return LS_OK;
}

static ls_err
plan_entry(void *ctx, const struct ls_meta_entry *e)
{
        struct plan_read *read = ctx;
        struct meta_publish_part *part;

        if ((size_t)e->partition >= read->count || read->by_partition[e->partition] == NULL)
                return LS_OK;
        part = read->by_partition[e->partition];
        if (part->new_floor < 0)
                return LS_OK;
        if (e->base_offset >= part->new_floor)
                part->above += ls_meta_entry_hash(e);
        else if (e->base_offset + e->records > part->new_floor)
                part->split = true;
        return LS_OK;
}

static ls_err
plan_read_snapshot(struct ls_meta *m, struct meta_publish_plan *plan)
{
        struct plan_read read = { .plan = plan };
        uint64_t version;
        ls_err e;

        if (plan->part_count == 0)
                return LS_OK;
        read.count = (size_t)plan->parts[plan->part_count - 1].partition + 1;
        read.by_partition = ls_calloc(read.count, sizeof *read.by_partition);
        for (size_t i = 0; i < plan->part_count; i++) {
                plan->parts[i].p.end = -1;
                read.by_partition[plan->parts[i].partition] = &plan->parts[i];
        }
        e = meta_entries_snapshot(m, plan->commit->stream_id, &version, plan_partition,
                                  plan->commit->floor_count > 0 ? plan_entry : NULL, &read);
        ls_free(read.by_partition);
        LS_TRY(e);
        if (version != plan->commit->version) /* what it was built on is not what stands there */
                return ls_fail(&plan->info, LS_CONFLICT, "another table commit came first");
        for (size_t i = 0; i < plan->part_count; i++)
                if (plan->parts[i].p.end < 0)
                        return ls_fail(&plan->info, LS_INVALID, "the stream has no partition %d",
                                       plan->parts[i].partition);
        return LS_OK;
}

ls_err
meta_publish_plan(struct ls_meta *m, const struct ls_meta_table_commit *commit,
                  struct meta_publish_plan *plan)
{
        *plan = (struct meta_publish_plan){ .commit = commit };
        LS_TRY(plan_check_shape(plan));
        plan->adds = extents_sorted(commit->add_extents, commit->add_extent_count);
        plan->removes = extents_sorted(commit->remove_extents, commit->remove_extent_count);
        plan->floors = ls_calloc(commit->floor_count + 1, sizeof *plan->floors);
        for (size_t i = 0; i < commit->floor_count; i++)
                plan->floors[i] = &commit->floors[i];
        qsort(plan->floors, commit->floor_count, sizeof *plan->floors, floor_order);
        LS_TRY(plan_parts(plan));
        LS_TRY(plan_read_snapshot(m, plan));
        for (size_t i = 0; i < plan->part_count; i++)
                LS_TRY(part_check(plan, &plan->parts[i]));
        return LS_OK;
}

void
meta_publish_done(struct meta_publish_plan *plan)
{
        ls_free(plan->parts);
        ls_free(plan->adds);
        ls_free(plan->removes);
        ls_free(plan->floors);
}
