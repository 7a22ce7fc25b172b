/* lake/history.c - fetches and time lookups below the floor: Parquet rows rebuilt as record
 * batches.
 *
 * A partition's history is its extents in order of offset. One extent is a run of rows of one file;
 * in a table that is partitioned by something else than time an offset range may lie in several
 * files: extents of the same [base, end), a group, whose rows are merged by offset.
 *
 * Readers of the files: history_readers.c. Damage: what lies before it is given, a read that begins
 * with it fails, what lies behind it is read as ever.
 */
#include "base/assert.h"
#include "base/log.h"
#include "base/metric.h"
#include "formats/batch/batch.h"
#include "lake/history_int.h"
#include "lake/split.h"

#define EXTENTS_LOOK      64 /* looked up at once, unless a group is larger */
#define EXTENTS_GROUP_MAX ((size_t)2 * LAKE_TUPLES_MAX) /* members of one group */
#define HISTORY_LEFT_MIN  ((size_t)4096) /* a batch is begun only for this much of the budget */
#define GROUP_STEP_FIRST  256            /* offsets; then as many as the budget has room for, */
#define GROUP_STEP_GROWTH 16             /* but this many times the last step at most */
#define GROUP_SKEW        2              /* a file may have so many times its share of a step */

static LS_METRIC(metric_reads, COUNTER, "lakestream_history_reads_total",
                 "Fetches answered from table files.");
static LS_METRIC(metric_bytes, COUNTER, "lakestream_history_bytes_total",
                 "Bytes of record batches rebuilt from table files.");

/* --- extents --- */

static ls_err
extents_add(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        struct history_extents *x = ctx;
        struct history_extent *f;

        LS_PUSH(x->items, x->count, x->cap,
                ((struct history_extent){ .extent = *e,
                                          .key = file ? ls_strdup(file->key) : NULL,
                                          .bytes = file ? file->bytes : 0 }));
        f = &x->items[x->count - 1];
        f->extent.inline_bytes = LS_SPAN_NULL; /* borrowed until return only */
        return LS_OK;
}

void
history_extents_free(struct history_extents *x)
{
        for (size_t i = 0; i < x->count; i++)
                ls_free(x->items[i].key);
        ls_free(x->items);
        *x = (struct history_extents){ 0 };
}

static bool
same_group(const struct history_extent *a, const struct history_extent *b)
{
        return a->extent.base_offset == b->extent.base_offset &&
               a->extent.end_offset == b->extent.end_offset;
}

ls_err
history_extents_load(struct ls_lake_stream *s, uint64_t stream_id, int32_t partition, int64_t from,
                     int64_t to, struct history_extents *x)
{
        struct ls_meta *meta = s->lake->o.meta;
        size_t last;
        int64_t base;

        *x = (struct history_extents){ 0 };
        LS_TRY(ls_meta_extents(meta, stream_id, partition, from, to, EXTENTS_LOOK, extents_add, x));
        if (x->count < EXTENTS_LOOK)
                return LS_OK;
        /* the last group may have more members */
        last = x->count - 1;
        while (last > 0 && same_group(&x->items[last - 1], &x->items[last]))
                last--;
        if (last > 0) {
                for (size_t i = last; i < x->count; i++)
                        ls_free(x->items[i].key);
                x->count = last;
                return LS_OK;
        }
        base = x->items[0].extent.base_offset;
        history_extents_free(x);
        return ls_meta_extents(meta, stream_id, partition, base, base + 1, EXTENTS_GROUP_MAX,
                               extents_add, x);
}

/* How many extents from i on are one group. */
static size_t
group_count(const struct history_extents *x, size_t i)
{
        size_t n = 1;

        while (i + n < x->count && same_group(&x->items[i], &x->items[i + n]))
                n++;
        return n;
}

/* --- reading --- */

struct reading {
        struct ls_lake_stream *s;
        struct ls_lake_spec spec;
        struct ls_lake_read *r;
        struct ls_buf out;
        bool last_plan; /* no other will be made when this one is overtaken */
};

static enum ls_codec
spec_codec(const struct ls_lake_spec *spec)
{
        const char *name = spec->settings->texts[LS_SET_COMPRESSION_TYPE];

        if (strcmp(name, "gzip") == 0)
                return LS_CODEC_GZIP;
        if (strcmp(name, "snappy") == 0)
                return LS_CODEC_SNAPPY;
        if (strcmp(name, "lz4") == 0)
                return LS_CODEC_LZ4;
        if (strcmp(name, "zstd") == 0)
                return LS_CODEC_ZSTD;
        return LS_CODEC_NONE; /* "producer": what the producer chose is not kept */
}

void
history_log_damage(const struct ls_lake_spec *spec, const struct history_extent *x, ls_err e)
{
        ls_log_error("lake",
                     "event=history_damaged topic=%s partition=%d offsets=%lld-%lld file=%s "
                     "error=%s",
                     spec->kafka_name, x->extent.partition, (long long)x->extent.base_offset,
                     (long long)x->extent.end_offset - 1, x->key ? x->key : "none", ls_err_name(e));
}

static ls_err
read_one(struct reading *g, const struct history_extent *x, int64_t from, bool must,
         const struct ls_rows_batches *how, struct ls_buf *out, int64_t *ret_next)
{
        struct ls_rows_batches mine = *how;
        ls_err e;

        mine.log_append_time = (x->extent.flags & LS_META_BATCH_LOG_APPEND_TIME) != 0;
        e = history_read(g->s, x, from, must, &mine, out, ret_next);
        if (e != LS_OK && (e != LS_ABSENT || g->last_plan))
                history_log_damage(&g->spec, x, e);
        return e;
}

/* An empty batch that covers [from, to): positions pass over what was removed on purpose. */
static ls_err
put_hole(struct ls_buf *out, int64_t from, int64_t to, int32_t leader_epoch)
{
        struct ls_batch_build cfg = { .codec = LS_CODEC_NONE, .leader_epoch = leader_epoch };
        struct ls_batch_builder b;
        ls_err e = LS_OK;

        ls_batch_builder_init(&b, &cfg);
        while (from < to && e == LS_OK) {
                int64_t end = LS_MIN(to, from + INT32_MAX);

                ls_batch_builder_begin(&b, out, from);
                e = ls_batch_builder_end(&b, end - 1, NULL);
                from = end;
        }
        ls_batch_builder_done(&b);
        return e;
}

/* One of the files of a group, decoded as far as its budget went. */
struct source {
        struct ls_buf bytes;
        ls_span rest;
        struct ls_batch_iter it;
        struct ls_record record;
        bool open, has;
};

static ls_err
source_next(struct source *s)
{
        ls_err e = LS_END;

        for (;;) {
                ls_span batch;
                struct ls_batch_header header;

                if (s->open && (e = ls_batch_iter_next(&s->it, &s->record)) != LS_END) {
                        s->has = e == LS_OK;
                        return e;
                }
                s->open = s->has = false;
                e = ls_batch_next(&s->rest, &batch, &header);
                if (e != LS_OK)
                        return e; /* LS_END: no more */
                LS_TRY(ls_batch_iter_open(&s->it, batch, false));
                s->open = true;
        }
}

static ls_err
merge_add(struct ls_batch_builder *b, struct ls_buf *out, const struct ls_record *record)
{
        ls_err e = ls_batch_builder_add(b, record);

        if (e != LS_FULL)
                return e;
        LS_TRY(ls_batch_builder_end(b, -1, NULL));
        ls_batch_builder_begin(b, out, -1);
        return ls_batch_builder_add(b, record);
}

static ls_err
merge_sources(struct source *sources, size_t count, int64_t from, int64_t limit,
              const struct ls_rows_batches *how, struct ls_buf *out)
{
        struct ls_batch_build cfg = { .codec = (enum ls_codec)how->codec,
                                      .level = LS_ROWS_BATCH_LEVEL,
                                      .log_append_time = how->log_append_time,
                                      .leader_epoch = how->leader_epoch };
        struct ls_batch_builder b;
        ls_err e = LS_OK;

        for (size_t i = 0; i < count; i++) {
                e = source_next(&sources[i]);
                if (e != LS_OK && e != LS_END)
                        return e;
        }
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, out, from);
        e = LS_OK;
        while (e == LS_OK) {
                struct source *least = NULL;

                for (size_t i = 0; i < count; i++) {
                        if (sources[i].has &&
                            (least == NULL || sources[i].record.offset < least->record.offset))
                                least = &sources[i];
                }
                if (least == NULL || least->record.offset >= limit)
                        break;
                e = merge_add(&b, out, &least->record);
                if (e == LS_OK)
                        e = source_next(least);
                if (e == LS_END)
                        e = LS_OK;
        }
        if (e == LS_OK)
                e = ls_batch_builder_end(&b, limit - 1, NULL);
        ls_batch_builder_done(&b);
        return e;
}

/* One type a range: compaction ends a group where it changes. Holes have none. */
static bool
group_append_time(const struct history_extent *files, size_t count)
{
        uint8_t flags = 0;

        for (size_t i = 0; i < count; i++)
                flags |= files[i].extent.flags;
        return (flags & LS_META_BATCH_LOG_APPEND_TIME) != 0;
}

/* Reads each file of a group up to `limit`, or as far as its budget goes; *ret_limit: as far as all
 * of them went. */
static ls_err
read_sources(struct reading *g, const struct history_extent *files, struct source *sources,
             size_t count, int64_t from, int64_t limit, const struct ls_rows_batches *how,
             int64_t *ret_limit)
{
        struct ls_rows_batches plain = *how;

        plain.codec = LS_CODEC_NONE;
        plain.bytes_max = how->bytes_max / count; /* all of it may lie below the limit */
        plain.offset_end = limit;
        *ret_limit = limit;
        for (size_t i = 0; i < count; i++) {
                int64_t next = from;

                ls_buf_clear(&sources[i].bytes);
                sources[i].rest = LS_SPAN_NULL;
                sources[i].open = sources[i].has = false; /* what lay behind the last limit */
                if (files[i].extent.kind == LS_META_EXTENT_HOLE)
                        continue; /* its rows left the table */
                if (files[i].extent.kind != LS_META_EXTENT_PARQUET)
                        return LS_EBROKEN;
                LS_TRY(read_one(g, &files[i], from, true, &plain, &sources[i].bytes, &next));
                sources[i].rest = ls_buf_span(&sources[i].bytes);
                *ret_limit = LS_MIN(*ret_limit, next);
        }
        return LS_OK;
}

/* Reads a group in steps of as many offsets as are likely to fill the budget: all its files stop at
 * the same offset then, and go on from there the next time without decoding anything twice. */
static ls_err
read_steps(struct reading *g, const struct history_extent *files, struct source *sources,
           size_t count, int64_t from, const struct ls_rows_batches *how, int64_t *ret_next)
{
        int64_t end = files[0].extent.end_offset;
        /* Files that are not kept open would be opened for each step. */
        int64_t step = count <= HISTORY_READERS_MAX ? GROUP_STEP_FIRST : INT64_MAX;
        struct ls_rows_batches mine = *how; /* bytes_max: what is left of the budget */
        size_t start = g->out.len;
        ls_err e;

        *ret_next = from;
        do {
                size_t before = g->out.len;
                int64_t at = *ret_next, limit = end - at > step ? at + step : end;
                uint64_t bytes, left;

                e = read_sources(g, files, sources, count, at, limit, &mine, &limit);
                if (e == LS_OK)
                        e = merge_sources(sources, count, at, limit, how, &g->out);
                if (e != LS_OK) {
                        g->out.len = before;
                        return e;
                }
                *ret_next = limit;
                bytes = LS_MAX(g->out.len - before, (size_t)1);
                left = how->bytes_max - LS_MIN(g->out.len - start, how->bytes_max);
                if (left < how->bytes_max / 4)
                        break;
                if (step == INT64_MAX)
                        break;
                step = (int64_t)LS_MIN((uint64_t)(limit - at) * left / bytes,
                                       (uint64_t)step * GROUP_STEP_GROWTH);
                mine.bytes_max = (size_t)left * GROUP_SKEW;
        } while (step > 0 && *ret_next < end);
        return LS_OK;
}

static ls_err
read_group(struct reading *g, const struct history_extent *files, size_t count, int64_t from,
           const struct ls_rows_batches *how, int64_t *ret_next)
{
        struct source *sources = ls_calloc(count, sizeof *sources);
        struct ls_rows_batches mine = *how;
        int64_t next = from;
        ls_err e;

        mine.log_append_time = group_append_time(files, count);
        for (size_t i = 0; i < count; i++) {
                ls_buf_init(&sources[i].bytes, LS_BUF_MAX_DEFAULT);
                ls_batch_iter_init(&sources[i].it, 0);
        }
        e = read_steps(g, files, sources, count, from, &mine, &next);
        if (next > from) { /* what went before a failure is good */
                *ret_next = next;
                e = LS_OK;
        }
        for (size_t i = 0; i < count; i++) {
                ls_batch_iter_done(&sources[i].it);
                ls_buf_done(&sources[i].bytes);
        }
        ls_free(sources);
        return e;
}

static void
buf_free(void *ctx, uint8_t *ptr, size_t len)
{
        ls_free(ptr);
}

/* Hands what was built over as one slice. */
static void
read_push(struct ls_lake_read *r, struct ls_buf *out)
{
        struct ls_slice *slice;

        if (out->len == 0)
                return;
        r->bytes += out->len;
        slice = ls_slice_wrap(out->ptr, out->len, buf_free, NULL);
        *out = (struct ls_buf){ .max = out->max };
        LS_PUSH(r->slices, r->slice_count, r->slice_cap, slice);
}

/* The extents of one group, from r->next_offset on as far as the budget goes. */
static ls_err
read_extent(struct reading *g, const struct history_extent *x, size_t count,
            const struct ls_rows_batches *how)
{
        int64_t from = LS_MAX(g->r->next_offset, x->extent.base_offset);

        if (count > 1)
                return read_group(g, x, count, from, how, &g->r->next_offset);
        switch (x->extent.kind) {
        case LS_META_EXTENT_PARQUET:
                return read_one(g, x, from, g->r->min_one && g->out.len == 0, how, &g->out,
                                &g->r->next_offset);
        case LS_META_EXTENT_HOLE:
                g->r->next_offset = x->extent.end_offset;
                return put_hole(&g->out, from, x->extent.end_offset, g->spec.leader_epoch);
        case LS_META_EXTENT_WAL:
        case LS_META_EXTENT_MARKER:
        case LS_META_EXTENT_RAW: break; /* this version writes none */
        }
        history_log_damage(&g->spec, x, LS_UNSUPPORTED);
        return LS_EBROKEN;
}

/* Offsets that no extent covers: never passed over in silence. */
static ls_err
read_missing(const struct reading *g, int32_t partition)
{
        ls_log_error("lake", "event=history_missing topic=%s partition=%d offset=%lld",
                     g->spec.kafka_name, partition, (long long)g->r->next_offset);
        return LS_EBROKEN;
}

static ls_err
read_extents(struct reading *g, const struct history_extents *x)
{
        struct ls_rows_batches how = { .codec = (int)spec_codec(&g->spec),
                                       .leader_epoch = g->spec.leader_epoch };
        struct ls_lake_read *r = g->r;
        ls_err e = LS_OK;
        size_t n;

        for (size_t i = 0; i < x->count && e == LS_OK; i += n) {
                if (g->out.len > 0 && g->out.len + HISTORY_LEFT_MIN > r->bytes_max)
                        break;
                if (x->items[i].extent.base_offset > r->next_offset)
                        return read_missing(g, x->items[i].extent.partition);
                n = group_count(x, i);
                how.bytes_max = r->bytes_max > g->out.len ? r->bytes_max - g->out.len : 0;
                e = read_extent(g, &x->items[i], n, &how);
                if (e == LS_OK && r->next_offset < x->items[i].extent.end_offset)
                        break; /* the budget is used up, or damage is next */
        }
        return e;
}

/* Whether the offset is in history. The WAL sends who reads here when it does not hold the offset;
 * when the view says it does, the view is behind other brokers, who have compacted and purged. */
static ls_err
find_floor(struct reading *g, int32_t partition, bool fresh, int64_t *ret_floor)
{
        struct ls_wal_view view;

        if (fresh)
                LS_TRY(lake_refresh(g->s));
        LS_TRY(ls_wal_view(g->s->wal, partition, &view));
        if (g->r->offset >= view.floor && !fresh && g->s->lake->o.shared) {
                LS_TRY(lake_refresh(g->s));
                LS_TRY(ls_wal_view(g->s->wal, partition, &view));
        }
        *ret_floor = view.floor;
        return g->r->offset >= view.floor ? LS_END : LS_OK;
}

/* Looks extents up and reads them; again, from the metadata store's present floor, when a file was
 * merged away and deleted meanwhile. */
static ls_err
read_plans(struct reading *g, int32_t partition)
{
        struct history_extents x = { 0 };
        int64_t floor = 0;
        ls_err e = LS_OK;

        for (int plan = 1; plan <= HISTORY_PLANS_MAX; plan++) {
                g->last_plan = plan == HISTORY_PLANS_MAX;
                g->r->next_offset = g->r->offset;
                ls_buf_clear(&g->out);
                e = find_floor(g, partition, plan > 1, &floor);
                if (e != LS_OK)
                        return e == LS_CANCELED ? LS_ABSENT : e;
                e = history_extents_load(g->s, g->spec.stream_id, partition, g->r->offset, floor,
                                         &x);
                if (e == LS_OK)
                        e = x.count > 0 ? read_extents(g, &x) : read_missing(g, partition);
                history_extents_free(&x);
                if (e != LS_ABSENT)
                        break;
        }
        if (e != LS_OK && g->out.len > 0)
                e = LS_OK; /* what was read is good; the next read meets the damage first */
        return e > 0 ? LS_EBROKEN : e;
}

ls_err
ls_lake_read(struct ls_lake_stream *s, int32_t partition, struct ls_lake_read *r)
{
        struct reading g = { .s = s, .spec = lake_spec(s), .r = r };
        int64_t floor;
        ls_err e;

        if (!r->min_one && r->bytes_max < HISTORY_LEFT_MIN) { /* not worth a batch */
                r->next_offset = r->offset;
                e = find_floor(&g, partition, false, &floor);
                return e == LS_CANCELED ? LS_ABSENT : e;
        }
        ls_buf_init(&g.out, LS_BUF_MAX_DEFAULT);
        e = read_plans(&g, partition);
        if (e == LS_OK && !r->min_one && g.out.len > r->bytes_max + HISTORY_LEFT_MIN) {
                ls_buf_clear(&g.out); /* one record above the budget: another answer's */
                r->next_offset = r->offset;
        }
        if (e == LS_OK && g.out.len > 0) {
                ls_metric_add(&metric_reads, 1);
                ls_metric_add(&metric_bytes, (int64_t)g.out.len);
                read_push(r, &g.out);
        }
        ls_buf_done(&g.out);
        return e;
}

void
ls_lake_read_done(struct ls_lake_read *r)
{
        for (size_t i = 0; i < r->slice_count; i++)
                ls_slice_unref(r->slices[i]);
        ls_free(r->slices);
        r->slices = NULL;
        r->slice_count = r->slice_cap = 0;
}
