/* lake/purge.c - rows older than table.retention.ms leave the table, a file at a time.
 *
 * A file goes when all its rows are too old and the log shows none of them any more. Its extents
 * become holes, which keep their sum, so that log and table still add up. Holes that meet become
 * one; what is left of a group keeps a hole among its members. A step is bounded, so that a clock
 * that jumped cannot empty a table at once.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metric.h"
#include "lake/table_int.h"

static LS_METRIC(metric_rows, COUNTER, "lakestream_table_rows_deleted_total",
                 "Rows that left tables by table.retention.ms.");

/* A file with extents that the log does not show any more. */
struct old_file {
        uint64_t id;
        char *key;
        int64_t rows, seen; /* of the file, and of the extents that are old */
        struct ls_meta_extent *extents;
        size_t count, cap;
};
struct purge {
        struct ls_lake_stream *s;
        struct ls_lake_spec spec;
        int64_t before_ms;
        int64_t log_start; /* of the partition at hand */
        struct ls_map by_id;
        struct old_file **files; /* in the order of their rows */
        size_t file_count, file_cap;
        struct ls_map going; /* ids of files that leave */
        struct lake_change change;
        size_t old_file_cap;
        int64_t rows;
};

/* --- which files ------------------------------------------------------------------------------ */

static struct old_file *
purge_file(struct purge *p, const struct ls_meta_file *file)
{
        struct old_file *f = ls_map_get(&p->by_id, ls_map_key_u64(&file->id));

        if (f != NULL)
                return f;
        f = ls_calloc(1, sizeof *f);
        f->id = file->id;
        f->key = ls_strdup(file->key);
        f->rows = file->rows;
        ls_map_set(&p->by_id, ls_map_key_u64(&f->id), f);
        LS_PUSH(p->files, p->file_count, p->file_cap, f);
        return f;
}

/* Extents whose time is not known (-1), or that the log shows, are not old. */
static ls_err
take_extent(void *ctx, const struct ls_meta_extent *x, const struct ls_meta_file *file)
{
        struct purge *p = ctx;
        struct old_file *f;

        if (x->kind != LS_META_EXTENT_PARQUET || file == NULL || x->end_offset > p->log_start ||
            x->max_timestamp >= p->before_ms || x->max_timestamp == -1)
                return LS_OK;
        f = purge_file(p, file);
        f->seen += x->rows;
        LS_PUSH(f->extents, f->count, f->cap, *x);
        return LS_OK;
}

static ls_err
count_file(void *ctx, const struct ls_meta_file *file)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

static ls_err
find_files(struct purge *p)
{
        struct ls_meta *meta = p->s->lake->o.meta;
        size_t total = 0, most;

        for (int32_t i = 0; i < p->spec.partitions; i++) {
                struct ls_wal_view view;

                LS_TRY(ls_wal_view(p->s->wal, i, &view));
                p->log_start = view.start;
                if (view.start > 0)
                        LS_TRY(ls_meta_extents(meta, p->spec.stream_id, i, 0, view.start, SIZE_MAX,
                                               take_extent, p));
        }
        LS_TRY(ls_meta_files(meta, p->spec.stream_id, false, count_file, &total));
        most = LS_MAX(total / 4, 1u);
        for (size_t i = 0; i < p->file_count && p->change.old_file_count < most; i++) {
                struct old_file *f = p->files[i];
                struct lake_old_file old = { f->id, f->key };

                if (f->seen != f->rows)
                        continue; /* it has younger rows too */
                LS_PUSH(p->change.old_files, p->change.old_file_count, p->old_file_cap, old);
                ls_map_set(&p->going, ls_map_key_u64(&f->id), f);
                p->rows += f->rows;
                for (size_t k = 0; k < f->count; k++)
                        LS_PUSH(p->change.remove_extents, p->change.remove_extent_count,
                                p->change.remove_extent_cap, f->extents[k]);
        }
        return LS_OK;
}

/* --- holes ------------------------------------------------------------------------------------ */

static int
extent_order(const void *left, const void *right)
{
        const struct ls_meta_extent *a = left, *b = right;

        if (a->partition != b->partition)
                return a->partition < b->partition ? -1 : 1;
        return (a->base_offset > b->base_offset) - (a->base_offset < b->base_offset);
}

/* What stands at one range: how many files stay, and the hole that is there already. */
struct members {
        const struct purge *p;
        size_t staying, count;
        struct ls_meta_extent hole; /* kind WAL: none */
};
static ls_err
look_at(void *ctx, const struct ls_meta_extent *x, const struct ls_meta_file *file)
{
        struct members *m = ctx;

        m->count++;
        if (x->kind == LS_META_EXTENT_HOLE)
                m->hole = *x;
        else if (ls_map_get(&m->p->going, ls_map_key_u64(&x->file_id)) == NULL)
                m->staying++;
        return LS_OK;
}
static ls_err
members_of(struct purge *p, int32_t partition, int64_t offset, struct members *ret)
{
        *ret = (struct members){ .p = p };
        return ls_meta_extents(p->s->lake->o.meta, p->spec.stream_id, partition, offset, offset + 1,
                               SIZE_MAX, look_at, ret);
}

static void
join(struct ls_meta_extent *hole, const struct ls_meta_extent *x)
{
        hole->base_offset = LS_MIN(hole->base_offset, x->base_offset);
        hole->end_offset = LS_MAX(hole->end_offset, x->end_offset);
        hole->min_timestamp = LS_MIN(hole->min_timestamp, x->min_timestamp);
        hole->max_timestamp = LS_MAX(hole->max_timestamp, x->max_timestamp);
        hole->hash += x->hash;
}

static void
remove_hole(struct purge *p, const struct ls_meta_extent *hole)
{
        struct ls_meta_extent copy = *hole;

        copy.inline_bytes = LS_SPAN_NULL;
        LS_PUSH(p->change.remove_extents, p->change.remove_extent_count,
                p->change.remove_extent_cap, copy);
}

/* `hole` covers a range that nothing else does: it joins the hole before it. */
static ls_err
add_free(struct purge *p, struct ls_meta_extent *hole, bool last_is_free)
{
        struct lake_change *c = &p->change;
        struct ls_meta_extent *last =
                c->add_extent_count > 0 ? &c->add_extents[c->add_extent_count - 1] : NULL;
        struct members before;

        if (last_is_free && last->partition == hole->partition &&
            last->end_offset == hole->base_offset) {
                join(last, hole);
                return LS_OK;
        }
        if (hole->base_offset > 0) {
                LS_TRY(members_of(p, hole->partition, hole->base_offset - 1, &before));
                if (before.count == 1 && before.hole.kind == LS_META_EXTENT_HOLE) {
                        remove_hole(p, &before.hole);
                        join(hole, &before.hole);
                }
        }
        LS_PUSH(c->add_extents, c->add_extent_count, c->add_extent_cap, *hole);
        return LS_OK;
}

/* The removed extents, sorted, become holes. */
static ls_err
make_holes(struct purge *p)
{
        struct lake_change *c = &p->change;
        size_t count = c->remove_extent_count; /* holes that go too come behind */
        bool free = false;

        qsort(c->remove_extents, count, sizeof *c->remove_extents, extent_order);
        for (size_t i = 0, next; i < count; i = next) {
                struct ls_meta_extent hole = c->remove_extents[i];
                struct members m;

                hole.kind = LS_META_EXTENT_HOLE;
                hole.file_id = 0;
                hole.first_row = hole.rows = 0;
                hole.log_bytes = 0;
                hole.flags = 0;
                for (next = i + 1;
                     next < count && extent_order(&c->remove_extents[next], &hole) == 0; next++)
                        join(&hole, &c->remove_extents[next]);
                LS_TRY(members_of(p, hole.partition, hole.base_offset, &m));
                if (m.hole.kind == LS_META_EXTENT_HOLE) {
                        remove_hole(p, &m.hole);
                        join(&hole, &m.hole);
                }
                if (m.staying == 0)
                        LS_TRY(add_free(p, &hole, free));
                else
                        LS_PUSH(c->add_extents, c->add_extent_count, c->add_extent_cap, hole);
                free = m.staying == 0;
        }
        c->file_is_new = ls_calloc(c->add_extent_count + 1, sizeof *c->file_is_new);
        return LS_OK;
}

/* --- all of it -------------------------------------------------------------------------------- */

static void
purge_done(struct purge *p)
{
        for (size_t i = 0; i < p->file_count; i++) {
                ls_free(p->files[i]->key);
                ls_free(p->files[i]->extents);
                ls_free(p->files[i]);
        }
        ls_free(p->files);
        ls_map_done(&p->by_id);
        ls_map_done(&p->going);
        ls_free(p->change.old_files);
        ls_free(p->change.remove_extents);
        ls_free(p->change.add_extents);
        ls_free(p->change.file_is_new);
}

ls_err
lake_purge(struct ls_lake_stream *s)
{
        struct purge p = { .s = s, .spec = lake_spec(s), .change = { .operation = "delete" } };
        int64_t retention = p.spec.settings->ints[LS_SET_TABLE_RETENTION_MS];
        ls_err e;

        if (retention < 0)
                return LS_OK;
        LS_TRY(lake_refresh(s));
        p.before_ms = lake_now_ms(s->lake) - retention;
        ls_map_init(&p.by_id);
        ls_map_init(&p.going);
        e = find_files(&p);
        if (e == LS_OK && p.change.old_file_count > 0)
                e = make_holes(&p);
        if (e == LS_OK && p.change.old_file_count > 0)
                e = lake_lease(s);
        if (e == LS_OK && p.change.old_file_count > 0) {
                e = lake_run_begin(s, INT64_MAX);
                if (e == LS_OK) {
                        e = lake_table_commit(s, &p.change);
                        lake_run_end(s, e);
                }
        }
        if (e == LS_OK && p.rows > 0) {
                ls_metric_add(&metric_rows, p.rows);
                ls_log_info("lake", "event=rows_deleted topic=%s files=%zu rows=%lld",
                            p.spec.kafka_name, p.change.old_file_count, (long long)p.rows);
        }
        purge_done(&p);
        return e;
}
