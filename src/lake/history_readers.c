/* lake/history_readers.c - open table files of consumers that read history, and what they will ask
 * for next.
 *
 * A reader (rows.h) keeps decoded pages where it stopped. It is kept between fetches, so that a
 * consumer that replays decodes nothing twice, and taken out of the list while it is used, so that
 * it needs no lock. When two reads of a reader followed each other, a job reads on behind the last
 * one: the next fetch finds its batches made. A fetch takes a reader whose job has not begun and
 * does the work itself; it waits only for one that runs.
 *
 *      kept ----take----> used --give--> kept
 *       |  ^                               |
 *       |  +---- done ---- running <-- queued (read ahead)
 *       +--> closed: oldest over HISTORY_READERS_MAX, unused for READERS_IDLE_MS, its stream freed
 *
 * Bounds: HISTORY_READERS_MAX readers of the lake, AHEAD_BYTES_MAX of batches made ahead.
 * Threads: any. Lock: history->lock, never held across I/O; a leaf.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/metric.h"
#include "lake/history_int.h"

#define READERS_IDLE_MS 15000
#define AHEAD_BYTES     ((size_t)2 << 20)  /* of one reader */
#define AHEAD_BYTES_MAX ((size_t)32 << 20) /* of all */

static LS_METRIC(metric_opens, COUNTER, "lakestream_history_opens_total",
                 "Table files opened for reading.");
static LS_METRIC(metric_ahead, COUNTER, "lakestream_history_ahead_total",
                 "Reads of table files that were made ahead of the fetch.");

struct ahead;

struct reader {
        struct reader *next;           /* of history->readers; newest first */
        struct ls_lake_stream *stream; /* borrowed: it forgets its readers when it is freed */
        uint64_t file_id;
        int32_t partition;
        struct ls_rows_reader *rows;
        int64_t place; /* the offset that it goes on with cheaply */
        int64_t used_ms;
        bool follows; /* the last read went on where the one before ended */
        /* reading ahead: batches of [place, made_next) as `how` says */
        struct ahead *job; /* NULL: none is queued or running */
        struct ls_meta_extent extent;
        struct ls_rows_batches how;
        struct ls_buf made;
        int64_t made_next;
        size_t charged; /* of history->ahead_bytes */
};
struct ahead {
        struct ls_job job;
        struct lake_history *history;
        struct ls_lake_stream *stream; /* a reference */
        struct reader *reader;         /* NULL: a fetch took it */
        bool running;
};
struct lake_history {
        atomic_int refs;
        struct ls_jobs *jobs; /* NULL: nothing is read ahead */
        pthread_mutex_t lock;
        struct ls_cond ran; /* a job ended */
        struct reader *readers;
        size_t count;
        size_t ahead_bytes;
};

struct lake_history *
lake_history_new(struct ls_jobs *jobs)
{
        struct lake_history *h = ls_calloc(1, sizeof *h);

        h->refs = 1;
        h->jobs = jobs;
        pthread_mutex_init(&h->lock, NULL);
        ls_cond_init(&h->ran);
        return h;
}

static void
reader_close(struct reader *r)
{
        LS_ASSERT(r->job == NULL && r->charged == 0);
        ls_rows_reader_close(r->rows);
        ls_buf_done(&r->made);
        ls_free(r);
}

/* --- under the lock --- */

static void
readers_unlink(struct lake_history *h, struct reader *r)
{
        struct reader **link = &h->readers;

        while (*link != r)
                link = &(*link)->next;
        *link = r->next;
        h->count--;
        h->ahead_bytes -= r->charged;
        r->charged = 0;
        if (r->job != NULL) {
                LS_ASSERT(!r->job->running);
                r->job->reader = NULL;
                r->job = NULL;
        }
}

/* One of this file and partition that stands at `from`, else one that follows nobody. */
static struct reader *
readers_find(struct lake_history *h, const struct ls_lake_stream *s, const struct ls_meta_extent *x,
             int64_t from)
{
        struct reader *other = NULL;

        for (struct reader *r = h->readers; r != NULL; r = r->next) {
                if (r->stream != s || r->file_id != x->file_id || r->partition != x->partition)
                        continue;
                if (r->place == from)
                        return r;
                if (!r->follows)
                        other = r;
        }
        return other;
}

/* The last one that nobody works on; NULL: there is none. */
static struct reader *
readers_oldest(struct lake_history *h)
{
        struct reader *oldest = NULL;

        for (struct reader *r = h->readers; r != NULL; r = r->next) {
                if (r->job == NULL || !r->job->running)
                        oldest = r;
        }
        return oldest;
}

/* --- closing --- */

void
lake_history_trim(struct lake_history *h, int64_t now_ms)
{
        struct reader *r;

        do {
                pthread_mutex_lock(&h->lock);
                r = readers_oldest(h);
                if (r != NULL && r->used_ms > now_ms - READERS_IDLE_MS)
                        r = NULL;
                if (r != NULL)
                        readers_unlink(h, r);
                pthread_mutex_unlock(&h->lock);
                if (r != NULL)
                        reader_close(r);
        } while (r != NULL);
}

void
lake_history_forget(struct lake_history *h, const struct ls_lake_stream *s)
{
        struct reader *r;

        do {
                pthread_mutex_lock(&h->lock);
                for (r = h->readers; r != NULL && r->stream != s; r = r->next)
                        ;
                if (r != NULL)
                        readers_unlink(h, r); /* no job runs: it would hold the stream */
                pthread_mutex_unlock(&h->lock);
                if (r != NULL)
                        reader_close(r);
        } while (r != NULL);
}

static bool
readers_any_running(const struct lake_history *h)
{
        for (const struct reader *r = h->readers; r != NULL; r = r->next) {
                if (r->job != NULL && r->job->running)
                        return true;
        }
        return false;
}

void
lake_history_close(struct lake_history *h)
{
        pthread_mutex_lock(&h->lock);
        while (readers_any_running(h))
                ls_cond_wait(&h->ran, &h->lock);
        pthread_mutex_unlock(&h->lock);
        lake_history_trim(h, INT64_MAX);
        LS_ASSERT(h->readers == NULL);
}

struct lake_history *
lake_history_ref(struct lake_history *h)
{
        atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
        return h;
}

void
lake_history_unref(struct lake_history *h)
{
        if (h == NULL || atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1)
                return;
        LS_ASSERT(h->readers == NULL);
        pthread_mutex_destroy(&h->lock);
        ls_cond_done(&h->ran);
        ls_free(h);
}

/* --- taking and giving --- */

static ls_err
reader_open(struct ls_lake_stream *s, const struct history_extent *x, struct reader **ret)
{
        struct reader *r = ls_calloc(1, sizeof *r);
        ls_err e = ls_rows_reader_open(s->lake->o.store, x->key, x->bytes, &r->rows);

        if (e != LS_OK) {
                ls_free(r);
                return e;
        }
        ls_metric_add(&metric_opens, 1);
        r->stream = s;
        r->file_id = x->extent.file_id;
        r->partition = x->extent.partition;
        r->place = -1;
        ls_buf_init(&r->made, LS_BUF_MAX_DEFAULT);
        *ret = r;
        return LS_OK;
}

static ls_err
reader_take(struct ls_lake_stream *s, const struct history_extent *x, int64_t from,
            struct reader **ret)
{
        struct lake_history *h = s->history;
        struct reader *r;

        pthread_mutex_lock(&h->lock);
        while ((r = readers_find(h, s, &x->extent, from)) != NULL && r->job != NULL &&
               r->job->running)
                ls_cond_wait(&h->ran, &h->lock);
        if (r != NULL)
                readers_unlink(h, r);
        pthread_mutex_unlock(&h->lock);
        if (r == NULL)
                return reader_open(s, x, ret);
        *ret = r;
        return LS_OK;
}

/* Keeps it for the next fetch; `job` (may be NULL) will read ahead. What is too much is closed. */
static void
reader_give(struct ls_lake_stream *s, struct reader *r, struct ahead *job)
{
        struct lake_history *h = s->history;
        struct reader *drop = NULL;

        r->used_ms = ls_clock_monotonic_ms();
        pthread_mutex_lock(&h->lock);
        r->next = h->readers;
        h->readers = r;
        if (++h->count > HISTORY_READERS_MAX && (drop = readers_oldest(h)) != NULL)
                readers_unlink(h, drop);
        if (drop != r && job != NULL && h->ahead_bytes + r->how.bytes_max <= AHEAD_BYTES_MAX) {
                r->job = job;
                job->reader = r;
                r->charged = r->how.bytes_max;
                job->stream = ls_lake_stream_ref(s);
        } else if (drop != r) {
                r->charged = r->made.len; /* made before, not taken yet */
        }
        h->ahead_bytes += r->charged;
        pthread_mutex_unlock(&h->lock);
        if (drop != NULL)
                reader_close(drop);
}

/* --- reading ahead --- */

static void
ahead_run(struct ls_job *job)
{
        struct ahead *a = LS_CONTAINER(job, struct ahead, job);
        struct lake_history *h = a->history;
        struct reader *r, *drop = NULL;
        ls_err e;

        pthread_mutex_lock(&h->lock);
        r = a->reader;
        a->running = r != NULL;
        pthread_mutex_unlock(&h->lock);
        if (r != NULL) {
                e = ls_rows_read(r->rows, &r->extent, r->place, &r->how, &r->made, &r->made_next);
                pthread_mutex_lock(&h->lock);
                r->job = NULL;
                if (e != LS_OK) { /* the fetch will meet it itself, and say so */
                        readers_unlink(h, r);
                        drop = r;
                }
                ls_cond_broadcast(&h->ran);
                pthread_mutex_unlock(&h->lock);
                if (drop != NULL)
                        reader_close(drop);
        }
        ls_lake_stream_unref(a->stream);
        ls_free(a);
}

/* Gives the reader back and reads on behind `next` when somebody seems to go that way. */
static void
reader_give_ahead(struct ls_lake_stream *s, struct reader *r, const struct history_extent *x,
                  const struct ls_rows_batches *how)
{
        struct lake_history *h = s->history;
        struct ahead *a = NULL;

        if (r->follows && h->jobs != NULL) {
                a = ls_calloc(1, sizeof *a);
                a->job.run = ahead_run;
                a->history = h;
                r->extent = x->extent;
                r->how = *how;
                r->how.bytes_max = LS_MIN(how->bytes_max, AHEAD_BYTES);
        }
        reader_give(s, r, a);
        /* Not under the lock, and not before the reader is in the list. Only a job that is in the
         * list's hands has a stream. */
        if (a != NULL && a->stream != NULL)
                ls_jobs_submit(h->jobs, &a->job);
        else
                ls_free(a);
}

/* True when what was made ahead goes on at `from` in this way. */
static bool
made_goes_on(const struct reader *r, int64_t from, const struct ls_rows_batches *how)
{
        return r->made.len > 0 && r->place == from && r->how.codec == how->codec &&
               r->how.leader_epoch == how->leader_epoch &&
               r->how.log_append_time == how->log_append_time &&
               r->how.batch_bytes == how->batch_bytes;
}

static void
made_move(struct reader *r, struct ls_buf *out)
{
        if (out->ptr == NULL) {
                size_t max = out->max;

                *out = r->made;
                out->max = max;
                ls_buf_init(&r->made, LS_BUF_MAX_DEFAULT);
                return;
        }
        ls_buf_put_span(out, ls_buf_span(&r->made));
        ls_buf_clear(&r->made);
}

ls_err
history_read(struct ls_lake_stream *s, const struct history_extent *x, int64_t from, bool must,
             const struct ls_rows_batches *how, struct ls_buf *out, int64_t *ret_next)
{
        struct reader *r;
        int64_t next = from;
        bool made, fits;
        ls_err e = LS_OK;

        LS_TRY(reader_take(s, x, from, &r));
        made = made_goes_on(r, from, how);
        fits = made && (r->made.len <= how->bytes_max || r->how.bytes_max <= how->bytes_max);
        if (made && !fits && !must) { /* a later fetch has room for it */
                reader_give(s, r, NULL);
                *ret_next = from;
                return LS_OK;
        }
        r->follows = r->place == from;
        if (fits) {
                made_move(r, out);
                next = r->made_next;
                ls_metric_add(&metric_ahead, 1);
        } else {
                ls_buf_clear(&r->made);
                e = ls_rows_read(r->rows, &x->extent, from, how, out, &next);
        }
        r->place = next;
        if (e == LS_OK && next < x->extent.end_offset && how->offset_end > 0)
                reader_give(s, r, NULL); /* one of a group: what comes next is not known */
        else if (e == LS_OK && next < x->extent.end_offset)
                reader_give_ahead(s, r, x, how);
        else
                reader_close(r);
        *ret_next = next;
        return e;
}
