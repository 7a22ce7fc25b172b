/* stream/follow.c - following what other brokers commit, and saying that this one is alive.
 *
 * A thread looks every fleet.poll.ms at the versions of all streams and chunks, one snapshot. Who
 * changed is read anew: a stream's row, or a stream's tail (ls_wal_stream_refresh, which wakes long
 * polls). The same look is made at once by ls_streams_refresh, for a request that must not answer
 * from what is a poll old.
 *
 * Versions that were seen stand in two sorted arrays. A stream whose refresh failed is forgotten
 * there, so that the next look takes it up again. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "stream/stream_int.h"

static LS_METRIC(metric_looks, COUNTER, "lakestream_follow_looks_total",
                 "Looks at the metadata store for what other brokers did.");
static LS_METRIC(metric_refreshed, COUNTER, "lakestream_follow_refreshed_total",
                 "Streams whose tail was read anew because of them.");
static LS_METRIC(metric_failures, COUNTER, "lakestream_follow_failures_total",
                 "Looks, refreshes and heartbeats that failed.");

struct seen_stream {
        uint64_t id, version;
};
struct seen_chunk {
        uint64_t stream_id, version;
        int32_t first_partition;
};
struct look {
        struct seen_stream *streams;
        size_t stream_count, stream_cap;
        struct seen_chunk *chunks;
        size_t chunk_count, chunk_cap;
};

struct follow {
        struct ls_streams *streams;
        struct ls_thread *thread;
        pthread_mutex_t lock; /* stop */
        struct ls_cond wake;
        bool stop;
        struct seen_stream *streams_seen; /* under the admin lock of the streams */
        size_t stream_count;
        struct seen_chunk *chunks_seen; /* the thread's */
        size_t chunk_count;
};

/* --- looking --- */

static void
look_done(struct look *l)
{
        ls_free(l->streams);
        ls_free(l->chunks);
        *l = (struct look){ 0 };
}

static ls_err
look_stream(void *ctx, uint64_t stream_id, uint64_t version)
{
        struct look *l = ctx;
        struct seen_stream s = { stream_id, version };

        LS_PUSH(l->streams, l->stream_count, l->stream_cap, s);
        return LS_OK;
}

static ls_err
look_chunk(void *ctx, uint64_t stream_id, int32_t first_partition, uint64_t version)
{
        struct look *l = ctx;
        struct seen_chunk c = { stream_id, version, first_partition };

        LS_PUSH(l->chunks, l->chunk_count, l->chunk_cap, c);
        return LS_OK;
}

static bool
same_streams(const struct follow *f, const struct look *l)
{
        return f->stream_count == l->stream_count &&
               (l->stream_count == 0 ||
                memcmp(f->streams_seen, l->streams, l->stream_count * sizeof *l->streams) == 0);
}

/* --- the catalog --- */

static int
id_order(const void *left, const void *right)
{
        const struct ls_stream *a = *(struct ls_stream *const *)left,
                               *b = *(struct ls_stream *const *)right;
        uint64_t x = ls_stream_info(a)->id, y = ls_stream_info(b)->id;

        return x < y ? -1 : x > y;
}

static ls_err
take_row(void *ctx, const struct ls_meta_stream *row)
{
        *(struct ls_meta_stream **)ctx = stream_row_copy(row);
        return LS_OK;
}

/* One that another broker made. */
static ls_err
catalog_add(struct ls_streams *s, uint64_t id)
{
        struct ls_meta_stream *row = NULL;
        struct ls_stream *stream = NULL;
        ls_err e = ls_meta_stream_get(s->meta, id, take_row, &row);

        if (e == LS_OK)
                e = stream_load(s, row, &stream);
        if (e == LS_ABSENT)
                return LS_OK; /* gone again: the next look has it no more */
        if (e != LS_OK)
                return e;
        streams_add(s, stream);
        ls_log_info("stream", "event=found topic=%s", ls_stream_info(stream)->kafka_name);
        ls_stream_unref(stream);
        return LS_OK;
}

static ls_err
catalog_change(struct ls_streams *s, struct ls_stream *stream, uint64_t version)
{
        struct ls_meta_stream *row = NULL;
        ls_err e;

        if (ls_stream_info(stream)->version >= version)
                return LS_OK;
        e = ls_meta_stream_get(s->meta, ls_stream_info(stream)->id, take_row, &row);
        if (e == LS_OK)
                stream_set_row(stream, row);
        return e == LS_ABSENT ? LS_OK : e;
}

static void
catalog_remove(struct ls_streams *s, struct ls_stream *stream)
{
        ls_log_info("stream", "event=gone topic=%s", ls_stream_info(stream)->kafka_name);
        streams_remove(s, stream);
        ls_wal_stream_gone(stream->wal);
        ls_lake_stream_gone(stream->lake);
}

/* Brings the maps to what the look saw; `list` is sorted by id. Goes on behind a stream that fails,
 * and forgets its version in the look. */
static ls_err
catalog_merge(struct ls_streams *s, struct look *l, struct ls_stream **list, size_t count)
{
        ls_err failed = LS_OK;
        size_t i = 0;

        for (size_t k = 0; k < l->stream_count; k++) {
                struct seen_stream *seen = &l->streams[k];
                ls_err e;

                while (i < count && ls_stream_info(list[i])->id < seen->id)
                        catalog_remove(s, list[i++]);
                if (i < count && ls_stream_info(list[i])->id == seen->id)
                        e = catalog_change(s, list[i++], seen->version);
                else
                        e = catalog_add(s, seen->id);
                if (e != LS_OK) {
                        seen->version = 0;
                        failed = e;
                }
        }
        while (i < count)
                catalog_remove(s, list[i++]);
        return failed;
}

/* --- tails --- */

static bool
chunk_before(const struct seen_chunk *a, const struct seen_chunk *b)
{
        return a->stream_id < b->stream_id ||
               (a->stream_id == b->stream_id && a->first_partition < b->first_partition);
}

/* Whether the last look saw this version of the chunk; *io_at goes on through what it saw. */
static bool
chunk_seen(const struct follow *f, const struct seen_chunk *c, size_t *io_at)
{
        const struct seen_chunk *old = f->chunks_seen;
        size_t at = *io_at;

        while (at < f->chunk_count && chunk_before(&old[at], c))
                at++;
        *io_at = at;
        return at < f->chunk_count && !chunk_before(c, &old[at]) && old[at].version == c->version;
}

/* Reads anew the tails that changed since the last look. */
static ls_err
tails_refresh(struct follow *f, struct look *l, struct ls_stream **list, size_t count)
{
        ls_err failed = LS_OK;
        uint64_t done = 0;

        for (size_t k = 0, o = 0, i = 0; k < l->chunk_count; k++) {
                struct seen_chunk *c = &l->chunks[k];
                ls_err e;

                if (chunk_seen(f, c, &o) || c->stream_id == done)
                        continue;
                while (i < count && ls_stream_info(list[i])->id < c->stream_id)
                        i++;
                if (i == count || ls_stream_info(list[i])->id != c->stream_id)
                        continue; /* new since the list was made: it was loaded whole */
                done = c->stream_id;
                e = ls_stream_refresh(list[i]);
                if (e == LS_OK)
                        ls_metric_add(&metric_refreshed, 1);
                else if (e != LS_ABSENT)
                        failed = e;
                if (e != LS_OK)
                        c->version = 0;
        }
        return failed;
}

/* The catalog as of one look. The admin lock is held throughout: a stream that is made here
 * meanwhile is in both the list and the look, or in none. *ret_list: all streams, sorted by id. */
static ls_err
catalog_look(struct follow *f, struct look *l, struct ls_stream ***ret_list, size_t *ret_count)
{
        struct ls_streams *s = f->streams;
        ls_err e;

        ls_metric_add(&metric_looks, 1);
        pthread_mutex_lock(&s->admin);
        e = ls_meta_versions(s->meta, look_stream, look_chunk, l);
        if (e == LS_OK) {
                ls_stream_list(s, ret_list, ret_count);
                if (*ret_count > 1)
                        qsort(*ret_list, *ret_count, sizeof **ret_list, id_order);
                if (!same_streams(f, l))
                        e = catalog_merge(s, l, *ret_list, *ret_count);
                ls_free(f->streams_seen);
                f->streams_seen = LS_STEAL(l->streams);
                f->stream_count = l->stream_count;
        }
        pthread_mutex_unlock(&s->admin);
        return e;
}

/* On the thread: the catalog, then the tails. */
static ls_err
follow_look(struct follow *f)
{
        struct ls_stream **list = NULL;
        struct look l = { 0 };
        size_t count = 0;
        ls_err e = catalog_look(f, &l, &list, &count), tails = LS_OK;

        if (list != NULL) {
                tails = tails_refresh(f, &l, list, count);
                ls_free(f->chunks_seen);
                f->chunks_seen = LS_STEAL(l.chunks);
                f->chunk_count = l.chunk_count;
                ls_stream_list_free(list, count);
        }
        look_done(&l);
        return e != LS_OK ? e : tails;
}

ls_err
ls_streams_refresh(struct ls_streams *s)
{
        struct ls_stream **list = NULL;
        struct look l = { 0 };
        size_t count = 0;
        ls_err e;

        if (s->follow == NULL)
                return LS_OK;
        e = catalog_look(s->follow, &l, &list, &count);
        if (list != NULL)
                ls_stream_list_free(list, count);
        look_done(&l);
        return e;
}
ls_err
ls_stream_refresh(struct ls_stream *stream)
{
        return stream->streams->shared ? ls_wal_stream_refresh(stream->wal) : LS_OK;
}

bool
ls_streams_shared(const struct ls_streams *s)
{
        return s->shared;
}

/* --- the thread --- */

static void
follow_failed(const char *what, ls_err e, ls_err *io_last)
{
        if (e != LS_OK)
                ls_metric_add(&metric_failures, 1);
        if (e != LS_OK && *io_last == LS_OK)
                ls_log_warn("stream", "event=%s_failed error=%s", what, ls_err_name(e));
        else if (e == LS_OK && *io_last != LS_OK)
                ls_log_info("stream", "event=%s_again", what);
        *io_last = e;
}

static void
follow_run(void *arg)
{
        struct follow *f = arg;
        struct ls_streams *s = f->streams;
        int64_t interval = ls_option_int(s->options, LS_OPT_FOLLOW_INTERVAL);
        int64_t beat = ls_option_int(s->options, LS_OPT_BROKER_HEARTBEAT), beat_due = 0;
        ls_err look = LS_OK, heart = LS_OK, list = LS_OK;

        pthread_mutex_lock(&f->lock);
        while (!f->stop) {
                int64_t now;

                pthread_mutex_unlock(&f->lock);
                now = ls_clock_monotonic_ms();
                if (now >= beat_due) {
                        follow_failed("heartbeat", ls_meta_heartbeat(s->meta), &heart);
                        beat_due = now + beat;
                }
                follow_failed("look", follow_look(f), &look);
                follow_failed("brokers", brokers_refresh(s), &list);
                pthread_mutex_lock(&f->lock);
                if (!f->stop)
                        (void)ls_cond_wait_until(&f->wake, &f->lock, now + interval);
        }
        pthread_mutex_unlock(&f->lock);
}

ls_err
follow_start(struct ls_streams *s)
{
        struct follow *f = ls_calloc(1, sizeof *f);

        f->streams = s;
        pthread_mutex_init(&f->lock, NULL);
        ls_cond_init(&f->wake);
        s->follow = f;
        return ls_thread_start("ls-follow", follow_run, f, &f->thread);
}

void
follow_stop(struct ls_streams *s)
{
        struct follow *f = s->follow;

        if (f == NULL)
                return;
        pthread_mutex_lock(&f->lock);
        f->stop = true;
        ls_cond_signal(&f->wake);
        pthread_mutex_unlock(&f->lock);
        if (f->thread != NULL)
                ls_thread_join(f->thread);
        s->follow = NULL;
        ls_free(f->streams_seen);
        ls_free(f->chunks_seen);
        ls_cond_done(&f->wake);
        pthread_mutex_destroy(&f->lock);
        ls_free(f);
}
