/* lake/load.c - table loads: the tail is committed first, so that who asks sees every record
 * acknowledged before.
 *
 * A load notes where each partition's last stable offset stood, and is fresh once every floor is
 * there: by a run of its own, or by one that was under way or that another load began. So loads
 * that come together share a run, and one without new records makes none. Bounded by time: past the
 * deadline the run commits what it has, and the load answers with what the table holds and says so.
 *
 * Several brokers: the view is brought to what all of them have acknowledged first. A load needs no
 * lease: versions protect, and who is overtaken looks again at what is missing. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "lake/table_int.h"

static LS_METRIC(metric_loads, COUNTER, "lakestream_table_loads_total", "Table loads.");
static LS_METRIC(metric_stale, COUNTER, "lakestream_table_loads_stale_total",
                 "Table loads that were answered before the tail was committed.");
static LS_METRIC_SECONDS(metric_seconds, "lakestream_table_load_seconds",
                         "Time of a table load, commit included.");

struct load {
        struct ls_lake_stream *s;
        int64_t *targets; /* last stable offsets, by partition */
        int32_t partitions;
        int64_t until_ms; /* monotonic */
        int64_t behind;   /* records below the targets that the table has not */
};

void
ls_lake_table_done(struct ls_lake_table *t)
{
        ls_free(t->metadata_key);
        ls_slice_unref(t->metadata);
        *t = (struct ls_lake_table){ 0 };
}

static ls_err
note_targets(struct load *l)
{
        LS_TRY(lake_refresh(l->s)); /* what other brokers acknowledged before is among it */
        l->partitions = ls_wal_stream_partitions(l->s->wal);
        l->targets = ls_calloc((size_t)l->partitions + 1, sizeof *l->targets);
        for (int32_t p = 0; p < l->partitions; p++) {
                struct ls_wal_view view;

                if (ls_wal_view(l->s->wal, p, &view) != LS_OK)
                        return LS_ABSENT;
                l->targets[p] = view.stable;
        }
        return LS_OK;
}

/* Counts what is missing. */
static ls_err
look(struct load *l)
{
        l->behind = 0;
        for (int32_t p = 0; p < l->partitions; p++) {
                struct ls_wal_view view;

                if (ls_wal_view(l->s->wal, p, &view) != LS_OK)
                        return LS_ABSENT;
                if (view.floor < l->targets[p])
                        l->behind += l->targets[p] - view.floor;
        }
        return LS_OK;
}

/* Whether the cached state is the newest: another broker may have committed. */
static bool
is_current(struct ls_lake_stream *s)
{
        uint64_t version = 0, cached = 0;

        if (!s->lake->o.shared)
                return true;
        if (lake_table_version(s, &version) != LS_OK)
                return false;
        pthread_mutex_lock(&s->lock);
        if (s->table != NULL)
                cached = ((const struct lake_table *)s->table)->version;
        pthread_mutex_unlock(&s->lock);
        return version > 0 && version == cached;
}

/* Copies the cached state; LS_ABSENT: it is not loaded, or there is no metadata yet. */
static ls_err
take_state(struct ls_lake_stream *s, struct ls_lake_table *ret)
{
        const struct lake_table *t;
        ls_err e = LS_ABSENT;

        pthread_mutex_lock(&s->lock);
        t = s->table;
        if (t != NULL && t->version > 0) {
                ret->metadata_key = ls_strdup(t->metadata_key);
                ret->metadata = ls_slice_ref(t->metadata);
                ret->version = t->version;
                s->used_ms = ls_clock_monotonic_ms();
                e = LS_OK;
        }
        pthread_mutex_unlock(&s->lock);
        return e;
}

/* Loads the state, and makes the first metadata of a table that never had any. */
static ls_err
ensure_metadata(struct ls_lake_stream *s)
{
        const struct lake_table *t;
        ls_err e;

        LS_TRY(lake_table_get(s, &t));
        if (t->version > 0)
                return LS_OK;
        e = lake_table_touch(s);
        if (!lake_is_elsewhere(s->lake, e))
                return e;
        LS_TRY(lake_table_get(s, &t)); /* another broker made it */
        return t->version > 0 ? LS_OK : LS_CONFLICT;
}

/* table.load.min.interval.ms: the last commit is so young that a load must not cause another. */
static bool
too_soon(struct ls_lake_stream *s)
{
        int64_t interval = ls_option_int(s->lake->o.options, LS_OPT_TABLE_LOAD_INTERVAL), last;

        pthread_mutex_lock(&s->lock);
        last = s->last_commit_ms;
        pthread_mutex_unlock(&s->lock);
        return interval > 0 && last > 0 && ls_clock_monotonic_ms() - last < interval;
}

/* Commits what is missing. Who is overtaken by another broker looks again: it may have committed
 * just that. */
static ls_err
catch_up(struct load *l)
{
        struct ls_lake_stream *s = l->s;
        ls_err e;

        do {
                e = look(l);
                if (e == LS_OK && l->behind > 0 && !too_soon(s))
                        e = lake_compact(s, l->until_ms);
        } while (lake_is_elsewhere(s->lake, e) && ls_clock_monotonic_ms() < l->until_ms &&
                 !lake_stopping(s->lake));
        return e;
}

/* A run of our own, unless another one did the work while we waited for it. */
static ls_err
run(struct load *l)
{
        struct ls_lake_stream *s = l->s;
        ls_err e = lake_run_begin(s, l->until_ms);

        if (e != LS_OK)
                return e;
        e = catch_up(l);
        if (e == LS_OK || lake_is_elsewhere(s->lake, e) ||
            e == LS_EBROKEN) { /* damage in one partition: the table still has the others */
                ls_err before = e;

                e = ensure_metadata(s);
                if (e == LS_OK)
                        e = before;
        }
        lake_run_end(s, e == LS_ABSENT ? LS_OK : e);
        return e;
}

static ls_err
load_fresh(struct load *l, struct ls_lake_table *ret)
{
        struct ls_lake_spec spec = lake_spec(l->s);
        ls_err e;

        e = note_targets(l);
        if (e == LS_CANCELED)
                return LS_ABSENT;
        LS_TRY(e);
        LS_TRY(look(l));
        if (l->behind == 0 && is_current(l->s) && take_state(l->s, ret) == LS_OK)
                return LS_OK;
        e = run(l);
        if (e == LS_CANCELED || e == LS_ABSENT || atomic_load(&l->s->gone))
                return lake_stopping(l->s->lake) && !atomic_load(&l->s->gone) ? LS_ESHUTDOWN
                                                                              : LS_ABSENT;
        if (e != LS_OK && e != LS_TIMEOUT)
                ls_log_warn(
                        "lake",
                        "event=load_behind topic=%s error=%s the load is answered without the tail",
                        spec.kafka_name, ls_err_name(e));
        LS_TRY(look(l));
        if (take_state(l->s, ret) == LS_OK)
                return LS_OK;
        return e == LS_OK ? LS_EINTERNAL : e;
}

ls_err
ls_lake_load(struct ls_lake_stream *s, int64_t deadline_ms, struct ls_lake_table *ret,
             struct ls_errinfo *reterr)
{
        int64_t started = ls_clock_monotonic_ns();
        struct load l = { .s = s, .until_ms = ls_clock_monotonic_ms() + LS_MAX(deadline_ms, 0) };
        ls_err e;

        *ret = (struct ls_lake_table){ 0 };
        e = load_fresh(&l, ret);
        ls_free(l.targets);
        if (e != LS_OK) {
                ls_lake_table_done(ret);
                return ls_fail(reterr, e, "the table cannot be loaded: %s", ls_err_text(e));
        }
        ret->fresh = l.behind == 0;
        ret->behind_records = l.behind;
        ls_metric_add(&metric_loads, 1);
        if (!ret->fresh)
                ls_metric_add(&metric_stale, 1);
        ls_metric_observe(&metric_seconds, ls_clock_monotonic_ns() - started);
        return LS_OK;
}

ls_err
ls_lake_version(struct ls_lake_stream *s, uint64_t *ret_version, bool *ret_fresh)
{
        struct ls_wal_backlog backlog;
        bool cached = false;
        ls_err e;

        if (atomic_load(&s->gone))
                return LS_ABSENT;
        e = lake_refresh(s);
        if (e != LS_OK)
                return e == LS_CANCELED ? LS_ABSENT : e;
        ls_wal_backlog(s->wal, &backlog);
        pthread_mutex_lock(&s->lock);
        if (s->table != NULL && !s->lake->o.shared) {
                *ret_version = ((const struct lake_table *)s->table)->version;
                cached = true;
        }
        pthread_mutex_unlock(&s->lock);
        if (!cached)
                LS_TRY(lake_table_version(s, ret_version));
        *ret_fresh = backlog.records == 0 && *ret_version > 0;
        return LS_OK;
}
