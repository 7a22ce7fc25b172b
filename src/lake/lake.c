/* lake/lake.c - the registry of streams, runs, and the background threads that start them. */
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "lake/lake_int.h"

#define LAKE_TICK_MS        100  /* how often a thread looks for a stream with work */
#define LAKE_IDLE_MS        1000 /* the same while nothing is appended */
#define LAKE_METRICS_MS     1000 /* how often the gauges of a stream are set */
#define LAKE_UPKEEP_MS      1000 /* how often retention and collection are looked at */
#define LAKE_SWEEP_MS       ((int64_t)6 * 3600 * 1000)
#define LAKE_SWEEP_BUSY_MS  60000  /* another broker sweeps: looked at again so much later */
#define LAKE_FIRST_LOOK_MS  600000 /* spread over so long after the start */
#define LAKE_BACKOFF_MS_MAX ((int64_t)60000)
#define LAKE_ENTRIES_MAX    100000 /* WAL entries of a stream: bounds the views in memory */

static LS_METRIC(metric_runs_failed, COUNTER, "lakestream_table_failures_total",
                 "Table runs that failed.");
static LS_METRIC_BY(metric_backlog_bytes, GAUGE, "lakestream_table_backlog_bytes",
                    "Bytes of records that are acknowledged and not yet in the table, by topic.");
static LS_METRIC_BY(metric_backlog_records, GAUGE, "lakestream_table_backlog_records",
                    "Records that are acknowledged and not yet in the table, by topic.");
static LS_METRIC_AGE_BY(metric_lag, "lakestream_table_lag_seconds",
                        "Age of the oldest record that is not yet in the table, by topic.");

static struct ls_metric metric_fresh = {
        .name = "lakestream_table_last_freshness_seconds",
        .help = "Time from acknowledgement of the oldest record of the last table commit to that "
                "commit, by topic.",
        .kind = LS_METRIC_GAUGE,
        .scale = 1e-3
};

/* --- streams --- */

/* A deleted topic leaves no series behind. */
static void
stream_metrics_forget(struct ls_lake_stream *s)
{
        ls_str topic = ls_str_of(lake_spec(s).kafka_name);

        ls_metric_forget(&metric_backlog_bytes, "topic", topic);
        ls_metric_forget(&metric_backlog_records, "topic", topic);
        ls_metric_forget(&metric_lag, "topic", topic);
        ls_metric_forget(&metric_fresh, "topic", topic);
}

struct ls_lake_spec
lake_spec(struct ls_lake_stream *s)
{
        struct ls_lake_spec spec;

        pthread_mutex_lock(&s->lock);
        spec = s->spec;
        pthread_mutex_unlock(&s->lock);
        return spec;
}

char *
lake_key(const struct ls_lake_spec *spec, const char *format, ...)
{
        char uuid[LS_UUID_TEXT_BYTES];
        struct ls_buf key;
        char *text;
        va_list ap;
        char rest[512];
        int len;

        va_start(ap, format);
        len = vsnprintf(rest, sizeof rest, format, ap);
        va_end(ap);
        LS_ASSERT(len >= 0 && (size_t)len < sizeof rest);
        ls_uuid_text(spec->topic_id, uuid);
        ls_buf_init(&key, 4096);
        ls_buf_printf(&key, "tables/%s/%s", uuid, rest);
        text = ls_strdup(ls_buf_cstr(&key));
        ls_buf_done(&key);
        return text;
}

struct ls_lake_stream *
ls_lake_stream_open(struct ls_lake *lake, const struct ls_lake_spec *spec,
                    struct ls_wal_stream *wal)
{
        struct ls_lake_stream *s = ls_calloc(1, sizeof *s);
        uint32_t random;

        s->lake = lake;
        s->refs = 2; /* the caller's and the registry's */
        s->wal = ls_wal_stream_ref(wal);
        s->history = lake_history_ref(lake->history);
        s->spec = *spec;
        if (spec->created_ms >= lake->opened_ms)
                atomic_store(&lake->catalog_changed, true);
        ls_random(&random, sizeof random);
        s->first_look_ms = ls_clock_monotonic_ms() + random % LAKE_FIRST_LOOK_MS;
        pthread_mutex_init(&s->lock, NULL);
        ls_cond_init(&s->changed);
        pthread_mutex_lock(&lake->lock);
        s->next = lake->streams;
        lake->streams = s;
        pthread_mutex_unlock(&lake->lock);
        return s;
}

struct ls_lake_stream *
ls_lake_stream_ref(struct ls_lake_stream *s)
{
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
        return s;
}

void
ls_lake_stream_unref(struct ls_lake_stream *s)
{
        if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
                return;
        lake_table_free(s->table);
        lake_history_forget(s->history, s);
        lake_history_unref(s->history);
        ls_wal_stream_unref(s->wal);
        ls_cond_done(&s->changed);
        pthread_mutex_destroy(&s->lock);
        if (s->release != NULL)
                s->release(s->release_ctx);
        ls_free(s);
}

void
ls_lake_stream_leave(struct ls_lake_stream *s, void (*release)(void *ctx), void *ctx)
{
        LS_ASSERT(s->release == NULL);
        s->release = release;
        s->release_ctx = ctx;
        ls_lake_stream_unref(s);
}

void
ls_lake_stream_update(struct ls_lake_stream *s, const struct ls_lake_spec *spec)
{
        pthread_mutex_lock(&s->lock);
        s->spec = *spec;
        s->maintained = false; /* the settings of upkeep may be others now */
        pthread_mutex_unlock(&s->lock);
        atomic_store(&s->lake->catalog_changed, true);
}

void
ls_lake_stream_gone(struct ls_lake_stream *s)
{
        struct ls_lake *lake = s->lake;
        struct ls_lake_stream **link;
        bool found;

        atomic_store(&s->gone, true);
        atomic_store(&lake->catalog_changed, true);
        atomic_store(&lake->purge_wanted, true);
        stream_metrics_forget(s);
        pthread_mutex_lock(&lake->lock);
        for (link = &lake->streams; *link != NULL && *link != s; link = &(*link)->next)
                ;
        found = *link == s;
        if (found)
                *link = s->next;
        pthread_mutex_unlock(&lake->lock);
        pthread_mutex_lock(&s->lock);
        ls_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        if (found)
                ls_lake_stream_unref(s);
}

/* References to all streams that are live. */
static struct ls_lake_stream **
registry_list(struct ls_lake *lake, size_t *ret_count)
{
        struct ls_lake_stream **list = NULL;
        size_t count = 0, cap = 0;

        pthread_mutex_lock(&lake->lock);
        for (struct ls_lake_stream *s = lake->streams; s != NULL; s = s->next) {
                struct ls_lake_stream *ref = ls_lake_stream_ref(s);

                LS_PUSH(list, count, cap, ref);
        }
        pthread_mutex_unlock(&lake->lock);
        *ret_count = count;
        return list;
}

static void
registry_list_free(struct ls_lake_stream **list, size_t count)
{
        for (size_t i = 0; i < count; i++)
                ls_lake_stream_unref(list[i]);
        ls_free(list);
}

/* --- runs --- */

bool
lake_stopping(struct ls_lake *lake)
{
        bool stopping;

        pthread_mutex_lock(&lake->lock);
        stopping = lake->stopping;
        pthread_mutex_unlock(&lake->lock);
        return stopping;
}

ls_err
lake_run_begin(struct ls_lake_stream *s, int64_t deadline_ms)
{
        ls_err e = LS_OK;

        pthread_mutex_lock(&s->lock);
        while (s->running && e == LS_OK) {
                if (deadline_ms == INT64_MAX)
                        ls_cond_wait(&s->changed, &s->lock);
                else if (!ls_cond_wait_until(&s->changed, &s->lock, deadline_ms))
                        e = LS_TIMEOUT;
        }
        if (e == LS_OK && atomic_load(&s->gone))
                e = LS_CANCELED;
        if (e == LS_OK) {
                s->running = true;
                s->runs_begun++;
        }
        pthread_mutex_unlock(&s->lock);
        return e;
}

void
lake_run_end(struct ls_lake_stream *s, ls_err result)
{
        pthread_mutex_lock(&s->lock);
        LS_ASSERT(s->running);
        s->running = false;
        s->runs_ended = s->runs_begun;
        s->run_error = result;
        if (result == LS_OK) {
                s->failures = 0;
                s->failed_until_ms = 0;
        } else {
                int64_t wait = 500 << LS_MIN(s->failures, 10);

                s->failures++;
                s->failed_until_ms = ls_clock_monotonic_ms() + LS_MIN(wait, LAKE_BACKOFF_MS_MAX);
        }
        ls_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
}

/* --- background --- */

/* Gauges, at most once in LAKE_METRICS_MS: with 10,000 topics they would cost more than the rest.
 */
static void
stream_metrics(struct ls_lake_stream *s, const struct ls_wal_backlog *b,
               const struct ls_lake_spec *spec)
{
        ls_str topic = ls_str_of(spec->kafka_name);
        int64_t lag = b->oldest_ms > 0 ? ls_clock_wall_ms() - b->oldest_ms : 0;
        int64_t now = ls_clock_monotonic_ms();
        bool due;

        pthread_mutex_lock(&s->lock);
        due = now >= s->next_metrics_ms && (b->records > 0 || s->last_commit_ms > 0);
        if (due)
                s->next_metrics_ms = now + LAKE_METRICS_MS;
        pthread_mutex_unlock(&s->lock);
        if (!due)
                return; /* just set, or never written to: no series */
        ls_metric_set_with(&metric_backlog_bytes, "topic", topic, (int64_t)b->bytes);
        ls_metric_set_with(&metric_backlog_records, "topic", topic, b->records);
        ls_metric_set_with(&metric_lag, "topic", topic, LS_MAX(lag, 0));
        if (atomic_load(&s->gone)) /* deleted meanwhile */
                stream_metrics_forget(s);
}

void
lake_fresh_note(struct ls_lake_stream *s, int64_t ms)
{
        ls_metric_set_with(&metric_fresh, "topic", ls_str_of(lake_spec(s).kafka_name),
                           LS_MAX(ms, 0));
        if (atomic_load(&s->gone))
                stream_metrics_forget(s);
}

static bool
stream_wants_compaction(struct ls_lake_stream *s)
{
        struct ls_lake_spec spec = lake_spec(s);
        const struct ls_options *options = s->lake->o.options;
        struct ls_wal_backlog b;
        int64_t age;

        ls_wal_backlog(s->wal, &b);
        stream_metrics(s, &b, &spec);
        if (b.records == 0)
                return false;
        age = ls_clock_wall_ms() - b.oldest_ms;
        return b.bytes >= (uint64_t)ls_option_int(options, LS_OPT_LAKE_TRIGGER_BYTES) ||
               b.entries >= LAKE_ENTRIES_MAX ||
               age >= spec.settings->ints[LS_SET_TABLE_COMMIT_INTERVAL];
}

/* The orphan sweep lists the stream's folder: seldom, and of old objects only. */
static ls_err
stream_sweep(struct ls_lake_stream *s)
{
        int64_t age_ms = ls_option_int(s->lake->o.options, LS_OPT_TABLE_ORPHAN_AGE);
        int64_t now = ls_clock_monotonic_ms();
        ls_err e;

        pthread_mutex_lock(&s->lock);
        if (now < s->next_sweep_ms) {
                pthread_mutex_unlock(&s->lock);
                return LS_OK;
        }
        s->next_sweep_ms = now + LS_MIN(LAKE_SWEEP_MS, age_ms);
        pthread_mutex_unlock(&s->lock);
        e = lake_lease_upkeep(s->lake);
        if (e == LS_OK)
                return lake_sweep(s, age_ms);
        pthread_mutex_lock(&s->lock);
        s->next_sweep_ms = now + LS_MIN(LAKE_SWEEP_BUSY_MS, age_ms);
        pthread_mutex_unlock(&s->lock);
        return e;
}

static ls_err
stream_compact(struct ls_lake_stream *s, int64_t now)
{
        ls_err e;

        LS_TRY(lake_lease(s));
        e = lake_run_begin(s, now);
        if (e != LS_OK)
                return LS_CANCELED; /* another thread was faster */
        e = lake_compact(s, INT64_MAX);
        lake_run_end(s, e);
        return e;
}

static ls_err
stream_maintain(struct ls_lake_stream *s, int64_t now)
{
        ls_err e = lake_maintain(s);

        if (e == LS_OK)
                e = stream_sweep(s);
        pthread_mutex_lock(&s->lock);
        s->next_upkeep_ms = ls_clock_monotonic_ms() +
                            ls_option_int(s->lake->o.options, LS_OPT_TABLE_UPKEEP_INTERVAL);
        pthread_mutex_unlock(&s->lock);
        lake_table_forget(s, now);
        return e;
}

/* Takes what is due on one stream; false: nothing was, or others are at it. */
static bool
stream_work(struct ls_lake_stream *s)
{
        int64_t now = ls_clock_monotonic_ms();
        bool compact, maintain;
        ls_err e = LS_OK;

        pthread_mutex_lock(&s->lock);
        maintain = now >= s->next_upkeep_ms && (s->last_commit_ms > 0 || now >= s->first_look_ms);
        if (s->running || now < s->failed_until_ms || atomic_load(&s->gone)) {
                pthread_mutex_unlock(&s->lock);
                return false;
        }
        pthread_mutex_unlock(&s->lock);
        compact = stream_wants_compaction(s);
        if (!compact)
                lake_lease_rest(s);
        if (!compact && !maintain)
                return false;
        if (compact)
                e = stream_compact(s, now);
        if (e == LS_OK && maintain)
                e = stream_maintain(s, now);
        if (lake_is_elsewhere(s->lake, e) || e == LS_CANCELED)
                return false;
        if (e != LS_OK && !atomic_load(&s->gone)) {
                struct ls_lake_spec spec = lake_spec(s);

                ls_metric_add(&metric_runs_failed, 1);
                ls_log_warn("lake", "event=run_failed topic=%s error=%s it is tried again",
                            spec.kafka_name, ls_err_name(e));
        }
        return true;
}

static bool
work_round(struct ls_lake *lake)
{
        struct ls_lake_stream **list;
        bool worked = false;
        size_t count;

        list = registry_list(lake, &count);
        for (size_t i = 0; i < count && !lake_stopping(lake); i++)
                worked |= stream_work(list[i]);
        registry_list_free(list, count);
        return worked;
}

/* Sleeps for `ms` or until the lake stops; false: it stops. */
static bool
lake_sleep(struct ls_lake *lake, int64_t ms)
{
        int64_t until = ls_clock_monotonic_ms() + ms;
        bool stopping;

        pthread_mutex_lock(&lake->lock);
        while (!lake->stopping && ls_cond_wait_until(&lake->wake, &lake->lock, until))
                ;
        stopping = lake->stopping;
        pthread_mutex_unlock(&lake->lock);
        return !stopping;
}

static void
work_thread(void *arg)
{
        struct ls_lake *lake = arg;
        int64_t wait_ms = LAKE_TICK_MS;
        uint64_t seen = 0;

        ls_thread_yield_to_others(); /* producers and consumers first */
        while (lake_sleep(lake, wait_ms)) {
                uint64_t commit = ls_wal_last_commit(lake->o.wal);
                bool worked = work_round(lake);

                wait_ms = worked || commit != seen ? LAKE_TICK_MS : LAKE_IDLE_MS;
                seen = commit;
        }
}

static ls_err
upkeep_round(struct ls_lake *lake, bool retention)
{
        struct ls_lake_stream **list;
        ls_err first = LS_OK, e;
        size_t count;

        list = registry_list(lake, &count);
        for (size_t i = 0; retention && i < count && !lake_stopping(lake); i++) {
                e = lake_retention(list[i]);
                if (e != LS_OK && first == LS_OK && !atomic_load(&list[i]->gone))
                        first = e;
        }
        registry_list_free(list, count);
        lake_history_trim(lake->history, ls_clock_monotonic_ms());
        e = lake_collect(lake, false);
        return first != LS_OK ? first : e;
}

static void
upkeep_thread(void *arg)
{
        struct ls_lake *lake = arg;
        int64_t check = ls_option_int(lake->o.options, LS_OPT_RETENTION_CHECK);
        int64_t next = ls_clock_monotonic_ms() + LS_MIN(check, 10000);

        ls_thread_yield_to_others();
        while (lake_sleep(lake, LS_MIN(LAKE_UPKEEP_MS, check))) {
                bool retention = ls_clock_monotonic_ms() >= next;
                ls_err e = upkeep_round(lake, retention);

                if (retention)
                        next = ls_clock_monotonic_ms() + check;
                if (e != LS_OK)
                        ls_log_warn("lake", "event=upkeep_failed error=%s it is tried again",
                                    ls_err_name(e));
        }
}

ls_err
ls_lake_run(struct ls_lake *lake)
{
        struct ls_lake_stream **list;
        ls_err first = LS_OK, e;
        size_t count;

        list = registry_list(lake, &count);
        for (size_t i = 0; i < count; i++) {
                if (lake_run_begin(list[i], INT64_MAX) != LS_OK)
                        continue;
                e = lake_compact(list[i], INT64_MAX);
                lake_run_end(list[i], e);
                if (e == LS_OK)
                        e = lake_maintain(list[i]);
                if (e != LS_OK && !lake_is_elsewhere(lake, e) && first == LS_OK)
                        first = e;
        }
        registry_list_free(list, count);
        e = upkeep_round(lake, true);
        if (e == LS_OK)
                e = lake_collect(lake, true);
        return first != LS_OK ? first : e;
}

/* --- life --- */

ls_err
ls_lake_open(const struct ls_lake_options *options, struct ls_lake **ret_lake,
             struct ls_errinfo *reterr)
{
        size_t threads = (size_t)ls_option_int(options->options, LS_OPT_LAKE_THREADS);
        struct ls_lake *lake = ls_calloc(1, sizeof *lake);
        uint32_t random;
        ls_err e = LS_OK;

        lake->o = *options;
        lake->opened_ms = ls_clock_wall_ms();
        ls_random(&random, sizeof random);
        lake->next_wal_sweep_ms = ls_clock_monotonic_ms() + random % LAKE_FIRST_LOOK_MS;
        pthread_mutex_init(&lake->lock, NULL);
        ls_cond_init(&lake->wake);
        lake->history = lake_history_new(options->history_jobs);
        atomic_store(&lake->purge_wanted, true); /* what one before could not do any more */
        lake_clock_set(lake, true);
        lake->threads = ls_calloc(threads, sizeof *lake->threads);
        for (size_t i = 0; i < threads && e == LS_OK; i++) {
                e = ls_thread_start("ls-lake", work_thread, lake, &lake->threads[i]);
                if (e == LS_OK)
                        lake->thread_count++;
        }
        if (e == LS_OK && threads > 0)
                e = ls_thread_start("ls-upkeep", upkeep_thread, lake, &lake->upkeep_thread);
        if (e != LS_OK) {
                ls_lake_close(lake);
                return ls_fail(reterr, e, "cannot start the lake's threads: %s", ls_err_text(e));
        }
        *ret_lake = lake;
        return LS_OK;
}

void
ls_lake_close(struct ls_lake *lake)
{
        struct ls_lake_stream *next;

        if (lake == NULL)
                return;
        pthread_mutex_lock(&lake->lock);
        lake->stopping = true;
        ls_cond_broadcast(&lake->wake);
        pthread_mutex_unlock(&lake->lock);
        for (size_t i = 0; i < lake->thread_count; i++)
                ls_thread_join(lake->threads[i]);
        if (lake->upkeep_thread != NULL)
                ls_thread_join(lake->upkeep_thread);
        lake_leases_close(lake);
        for (struct ls_lake_stream *s = lake->streams; s != NULL; s = next) {
                next = s->next;
                ls_lake_stream_unref(s);
        }
        lake_history_close(lake->history);
        lake_history_unref(lake->history);
        ls_free(lake->threads);
        ls_cond_done(&lake->wake);
        pthread_mutex_destroy(&lake->lock);
        ls_free(lake);
}
