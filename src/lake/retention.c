/* lake/retention.c - log starts by age and by size.
 *
 * The log of a partition is a row of units: extents (or groups of them) below the floor, WAL
 * entries from it on.
 * Retention moves the log start over whole units at the front. Bytes are those of batches as they
 * were produced. The table keeps its rows.
 *
 * A step is bounded (invariant 11): at most a quarter of the partition's bytes, or
 * RETENTION_STEP_BYTES when that is more, so that a clock that jumped can't empty a log at once.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "lake/lake_int.h"

#define RETENTION_STEP_BYTES  ((int64_t)256 << 20)
#define RETENTION_EXTENTS_MAX 4096 /* extents looked at in one step */

static LS_METRIC(metric_deleted, COUNTER, "lakestream_retention_records_total",
                 "Records that left the log by retention.ms or retention.bytes.");

struct unit {
        int64_t base, end; /* offsets [base, end) */
        int64_t bytes;
        int64_t max_timestamp;
};

struct plan {
        struct unit *units;
        size_t count, cap;
        size_t extents; /* looked at */
        int64_t start;
        int64_t bytes; /* of all units */
};

static ls_err
plan_extent(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        struct plan *p = ctx;
        int64_t width = e->end_offset - e->base_offset,
                left = e->end_offset - LS_MAX(e->base_offset, p->start);
        struct unit u = { .base = e->base_offset,
                          .end = e->end_offset,
                          .max_timestamp = e->max_timestamp };
        struct unit *last = p->count > 0 ? &p->units[p->count - 1] : NULL;

        p->extents++;
        if (left <= 0 || width <= 0)
                return LS_OK;
        /* the share of an extent that the log start already cut into */
        u.bytes = (int64_t)((double)e->log_bytes * ((double)left / (double)width));
        if (e->kind == LS_META_EXTENT_HOLE)
                u.max_timestamp = INT64_MIN; /* nothing in it: never holds the start back */
        p->bytes += u.bytes;
        if (last != NULL && last->base == u.base && last->end == u.end) { /* of one group */
                last->bytes += u.bytes;
                last->max_timestamp = LS_MAX(last->max_timestamp, u.max_timestamp);
                return LS_OK;
        }
        LS_PUSH(p->units, p->count, p->cap, u);
        return LS_OK;
}

static ls_err
plan_entry(void *ctx, const struct ls_meta_entry *e)
{
        struct plan *p = ctx;
        struct unit u = { .base = e->base_offset,
                          .end = e->base_offset + e->records,
                          .bytes = e->bytes,
                          .max_timestamp = e->max_timestamp };

        if (u.end <= p->start)
                return LS_OK;
        LS_PUSH(p->units, p->count, p->cap, u);
        p->bytes += u.bytes;
        return LS_OK;
}

/* How far the start may move: whole units at the front that are too old, or above the bound of
 * bytes. */
static int64_t
plan_start(const struct plan *p, int64_t oldest_ms, int64_t bytes_max)
{
        int64_t step_max = LS_MAX(RETENTION_STEP_BYTES, p->bytes / 4), left = p->bytes,
                start = p->start;

        for (size_t i = 0; i < p->count; i++) {
                const struct unit *u = &p->units[i];
                /* -1: the producer gave no time, so age can't decide */
                bool old = oldest_ms != INT64_MIN && u->max_timestamp != -1 &&
                           u->max_timestamp < oldest_ms;
                bool above = bytes_max >= 0 && left - u->bytes >= bytes_max;

                if (!old && !above)
                        break;
                if (p->bytes - left > 0 && p->bytes - (left - u->bytes) > step_max)
                        break;
                left -= u->bytes;
                start = u->end;
        }
        return start;
}

/* Where the log start may go by what stands now; *ret_view is that. */
static ls_err
find_start(struct ls_lake_stream *s, const struct ls_lake_spec *spec, int32_t partition,
           int64_t now_ms, struct ls_wal_view *ret_view, int64_t *ret_start)
{
        int64_t ms = spec->settings->ints[LS_SET_RETENTION_MS];
        int64_t bytes_max = spec->settings->ints[LS_SET_RETENTION_BYTES];
        struct ls_wal_view view;
        struct plan p = { 0 };
        ls_err e = LS_OK;

        LS_TRY(ls_wal_view(s->wal, partition, &view));
        *ret_view = view;
        *ret_start = p.start = view.start;
        if (view.start == view.end)
                return LS_OK;
        if (view.start < view.floor)
                e = ls_meta_extents(s->lake->o.meta, spec->stream_id, partition, view.start,
                                    view.floor, RETENTION_EXTENTS_MAX, plan_extent, &p);
        /* With a cut list of extents the rest is unknown: the last group may be cut in two, and the
         * WAL's part must not be looked at. */
        if (p.extents >= RETENTION_EXTENTS_MAX)
                p.count -= p.count > 0;
        else if (e == LS_OK)
                e = ls_wal_entries(s->wal, partition, LS_MAX(view.start, view.floor), view.end,
                                   plan_entry, &p);
        if (e == LS_OK)
                *ret_start = plan_start(&p, ms >= 0 ? now_ms - ms : INT64_MIN, bytes_max);
        ls_free(p.units);
        return e;
}

static ls_err
move_start(struct ls_lake_stream *s, const struct ls_lake_spec *spec, int32_t partition,
           int64_t before, int64_t start)
{
        LS_TRY(ls_meta_log_start(s->lake->o.meta, spec->stream_id, partition, start, &start));
        if (s->lake->o.shared) /* the view may not even know what it is moved over */
                LS_TRY(lake_refresh(s));
        else
                ls_wal_set_start(s->wal, partition, start);
        ls_metric_add(&metric_deleted, start - before);
        ls_log_info("lake", "event=retention topic=%s partition=%d start=%lld", spec->kafka_name,
                    partition, (long long)start);
        return LS_OK;
}

static ls_err
retention_partition(struct ls_lake_stream *s, const struct ls_lake_spec *spec, int32_t partition,
                    int64_t now_ms)
{
        struct ls_wal_view view;
        int64_t start;

        LS_TRY(find_start(s, spec, partition, now_ms, &view, &start));
        if (start <= view.start)
                return LS_OK;
        if (s->lake->o.shared) { /* one broker decides, from what stands now */
                LS_TRY(lake_lease(s));
                LS_TRY(lake_refresh(s));
                LS_TRY(find_start(s, spec, partition, now_ms, &view, &start));
                if (start <= view.start)
                        return LS_OK;
        }
        return move_start(s, spec, partition, view.start, start);
}

ls_err
lake_retention(struct ls_lake_stream *s)
{
        struct ls_lake_spec spec = lake_spec(s);
        int64_t now_ms = lake_now_ms(s->lake);

        if (spec.settings->ints[LS_SET_RETENTION_MS] < 0 &&
            spec.settings->ints[LS_SET_RETENTION_BYTES] < 0)
                return LS_OK;
        for (int32_t p = 0; p < spec.partitions && !atomic_load(&s->gone); p++) {
                ls_err e = retention_partition(s, &spec, p, now_ms);

                if (lake_is_elsewhere(s->lake, e))
                        return LS_OK; /* another broker does it */
                LS_TRY(e);
        }
        return LS_OK;
}
