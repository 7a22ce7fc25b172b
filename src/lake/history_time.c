/* lake/history_time.c - offsets of times, and bytes, below the floor.
 *
 * Extents carry their greatest timestamp, so only files that can hold the answer are opened; in
 * them the page index says which pages are read (rows.h).
 */
#include "base/assert.h"
#include "lake/history_int.h"

/* Walks all extents of [from, floor). fn: LS_OK goes on, LS_END is enough. */
static ls_err
each_extent(struct ls_lake_stream *s, int32_t partition, int64_t from,
            ls_err (*fn)(void *ctx, const struct history_extent *x), void *ctx)
{
        struct ls_lake_spec spec = lake_spec(s);
        struct ls_wal_view view;
        struct history_extents x;
        ls_err e = LS_OK;

        LS_TRY(ls_wal_view(s->wal, partition, &view));
        while (from < view.floor && e == LS_OK) {
                e = history_extents_load(s, spec.stream_id, partition, from, view.floor, &x);
                if (e == LS_OK && x.count == 0)
                        break;
                for (size_t i = 0; i < x.count && e == LS_OK; i++) {
                        from = LS_MAX(from, x.items[i].extent.end_offset);
                        e = fn(ctx, &x.items[i]);
                }
                history_extents_free(&x);
        }
        return e == LS_END ? LS_OK : e;
}

struct search {
        struct ls_lake_stream *s;
        int64_t from, timestamp; /* what is looked for */
        bool found;
        int64_t offset, found_timestamp;
        int64_t base; /* of the extent it was found in */
        bool last_plan;
};

/* A file that cannot be read: LS_ABSENT while a new plan may help, else damage. */
static ls_err
search_failed(const struct search *t, const struct history_extent *x, ls_err e)
{
        struct ls_lake_spec spec = lake_spec(t->s);

        if (e == LS_ABSENT && !t->last_plan)
                return e;
        history_log_damage(&spec, x, e);
        return e > 0 ? LS_EBROKEN : e;
}

static ls_err
search_time(void *ctx, const struct history_extent *x)
{
        struct search *t = ctx;
        struct ls_rows_reader *rows;
        int64_t offset, timestamp;
        ls_err e;

        /* the files of a group are all asked: the least offset wins */
        if (t->found && x->extent.base_offset != t->base)
                return LS_END;
        if (x->extent.kind != LS_META_EXTENT_PARQUET || x->extent.max_timestamp < t->timestamp)
                return LS_OK;
        e = ls_rows_reader_open(t->s->lake->o.store, x->key, x->bytes, &rows);
        if (e == LS_OK) {
                e = ls_rows_find_time(rows, &x->extent, t->from, t->timestamp, &offset, &timestamp);
                ls_rows_reader_close(rows);
        }
        if (e == LS_END)
                return LS_OK;
        if (e != LS_OK)
                return search_failed(t, x, e);
        if (!t->found || offset < t->offset) {
                t->offset = offset;
                t->found_timestamp = timestamp;
        }
        t->found = true;
        t->base = x->extent.base_offset;
        return LS_OK;
}

static ls_err
search_max_time(void *ctx, const struct history_extent *x)
{
        struct search *t = ctx;
        struct ls_rows_reader *rows;
        int64_t offset, timestamp;
        ls_err e;

        if (x->extent.kind != LS_META_EXTENT_PARQUET ||
            (t->found && x->extent.max_timestamp < t->found_timestamp))
                return LS_OK;
        e = ls_rows_reader_open(t->s->lake->o.store, x->key, x->bytes, &rows);
        if (e == LS_OK) {
                e = ls_rows_find_max_time(rows, &x->extent, t->from, &offset, &timestamp);
                ls_rows_reader_close(rows);
        }
        if (e == LS_END)
                return LS_OK;
        if (e != LS_OK)
                return search_failed(t, x, e);
        if (!t->found || timestamp > t->found_timestamp ||
            (timestamp == t->found_timestamp && offset < t->offset)) {
                t->found = true;
                t->offset = offset;
                t->found_timestamp = timestamp;
        }
        return LS_OK;
}

/* Asks the extents; again when a file was merged away and deleted meanwhile. */
static ls_err
search(struct ls_lake_stream *s, int32_t partition, int64_t from, int64_t timestamp_ms,
       ls_err (*fn)(void *ctx, const struct history_extent *x), int64_t *ret_offset,
       int64_t *ret_timestamp_ms)
{
        struct search t;
        ls_err e = LS_ABSENT;

        for (int plan = 1; plan <= HISTORY_PLANS_MAX && e == LS_ABSENT; plan++) {
                t = (struct search){ .s = s,
                                     .from = from,
                                     .timestamp = timestamp_ms,
                                     .last_plan = plan == HISTORY_PLANS_MAX };
                if (plan > 1) {
                        e = lake_refresh(s);
                        if (e != LS_OK)
                                return e == LS_CANCELED ? LS_ABSENT : e;
                }
                e = each_extent(s, partition, from, fn, &t);
        }
        LS_TRY(e);
        if (!t.found)
                return LS_ABSENT;
        *ret_offset = t.offset;
        *ret_timestamp_ms = t.found_timestamp;
        return LS_OK;
}

ls_err
ls_lake_find_time(struct ls_lake_stream *s, int32_t partition, int64_t from, int64_t timestamp_ms,
                  int64_t *ret_offset, int64_t *ret_timestamp_ms)
{
        return search(s, partition, from, timestamp_ms, search_time, ret_offset, ret_timestamp_ms);
}

ls_err
ls_lake_find_max_time(struct ls_lake_stream *s, int32_t partition, int64_t from,
                      int64_t *ret_offset, int64_t *ret_timestamp_ms)
{
        return search(s, partition, from, 0, search_max_time, ret_offset, ret_timestamp_ms);
}

struct byte_sum {
        int64_t from, bytes;
};

static ls_err
sum_bytes(void *ctx, const struct history_extent *x)
{
        struct byte_sum *sum = ctx;
        int64_t width = x->extent.end_offset - x->extent.base_offset;
        int64_t left = x->extent.end_offset - LS_MAX(x->extent.base_offset, sum->from);

        if (width > 0 && left > 0)
                sum->bytes +=
                        (int64_t)((double)x->extent.log_bytes * ((double)left / (double)width));
        return LS_OK;
}

ls_err
ls_lake_log_bytes(struct ls_lake_stream *s, int32_t partition, int64_t from, int64_t *ret_bytes)
{
        struct byte_sum sum = { .from = from };

        LS_TRY(each_extent(s, partition, from, sum_bytes, &sum));
        *ret_bytes = sum.bytes;
        return LS_OK;
}
