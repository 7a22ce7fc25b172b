/* wal/flush_file.c - flushes to segment files: the flush thread takes what is queued, writes one
 * object behind the last one and syncs it. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "wal/wal_int.h"

static LS_METRIC_SECONDS(metric_write, "lakestream_wal_write_seconds",
                         "Time to write and sync a WAL object.");

/* Waits for work and takes it. NULL: stop. */
static struct ls_wal_append *
work_take(struct ls_wal *wal, size_t *ret_items, size_t *ret_bytes, uint64_t *ret_failures)
{
        struct ls_wal_append *first;

        pthread_mutex_lock(&wal->lock);
        while ((wal->queue == NULL && !wal->stopping) || wal->flushes >= LS_WAL_FLUSHES_MAX)
                ls_cond_wait(&wal->wake, &wal->lock);
        first = wal_queue_take(wal, ret_items, ret_bytes);
        *ret_failures = wal->failures;
        if (first != NULL)
                wal->flushes++;
        pthread_mutex_unlock(&wal->lock);
        return first;
}

/* Waits for what was handed to the metadata store. The present flush counts as one. -> whether one
 * of them failed, asked once. */
static bool
flush_settle(struct ls_wal *wal)
{
        bool refused;

        pthread_mutex_lock(&wal->lock);
        while (wal->flushes > 1)
                ls_cond_wait(&wal->wake, &wal->lock);
        refused = wal->refused;
        wal->refused = false;
        pthread_mutex_unlock(&wal->lock);
        return refused;
}

/* Ends the open segment. `broken`: something in it was refused or not written, and is cut, so that
 * a rebuild does not take it for committed; when even that fails, a rebuild may give back records
 * that were refused. */
static void
flush_leave_segment(struct ls_wal *wal, bool broken)
{
        struct wal_segment *s = wal->open;
        uint64_t end = LS_SEGMENT_HEADER_BYTES;
        ls_err e = LS_OK;

        broken |= flush_settle(wal);
        pthread_mutex_lock(&wal->lock);
        if (wal->committed_segment == s->number)
                end = wal->committed_end;
        pthread_mutex_unlock(&wal->lock);
        if (broken || s->zeroed > s->end)
                e = ls_file_truncate(s->file, broken ? end : s->end);
        if (broken && e == LS_OK && wal->options.sync)
                e = ls_file_sync(s->file);
        if (e != LS_OK)
                ls_log_warn("wal", "event=cut_failed file=%s error=%s", s->path, ls_err_name(e));
        wal_segment_unref(s);
        wal->open = NULL;
}

/* A segment with room for the object, made when there is none, it is full, or what it holds was
 * refused. */
static ls_err
flush_segment(struct ls_wal *wal, size_t bytes)
{
        bool refused;

        pthread_mutex_lock(&wal->lock);
        refused = wal->refused;
        pthread_mutex_unlock(&wal->lock);
        if (wal->open != NULL && (refused || (wal->open->end > LS_SEGMENT_HEADER_BYTES &&
                                              wal->open->end + bytes > wal->options.segment_bytes)))
                flush_leave_segment(wal, refused);
        if (wal->open == NULL)
                LS_TRY(wal_segment_new(wal, &wal->open));
        return LS_OK;
}

/* Zeros ahead of a small flush, so that most syncs are of bytes alone. When it fails, so does the
 * write, or there is just enough room for that. */
static void
flush_zero_ahead(struct ls_wal *wal, uint64_t bytes)
{
        static const uint8_t zeros[LS_WAL_ZERO_SPAN_BYTES];
        ls_span spans[LS_WAL_ZERO_BYTES / LS_WAL_ZERO_SPAN_BYTES + 1];
        struct wal_segment *s = wal->open;
        uint64_t from = LS_MAX(s->zeroed, s->end), to, left;
        size_t count = 0;

        if (!wal->options.sync || bytes > LS_WAL_ZERO_FLUSH_MAX || s->end + bytes <= s->zeroed)
                return;
        to = LS_MIN(from + LS_WAL_ZERO_BYTES, wal->options.segment_bytes);
        for (left = to > from ? to - from : 0; left > 0; left -= spans[count - 1].len) {
                LS_ASSERT(count < LS_COUNT(spans));
                spans[count++] = ls_span_of(zeros, (size_t)LS_MIN(left, sizeof zeros));
        }
        if (count > 0 && ls_file_write(s->file, from, spans, count) == LS_OK)
                s->zeroed = to;
}

static ls_err
flush_write(struct ls_wal *wal, struct wal_flush *flush, size_t bytes)
{
        struct ls_object_header header = { .broker = wal->options.broker_id,
                                           .epoch = wal->epoch,
                                           .last_commit = atomic_load(&wal->last_commit) };
        int64_t started = ls_clock_monotonic_ns();
        ls_err e;

        header.sequence = flush->commit.sequence = ++wal->sequence;
        LS_TRY(flush_segment(wal, bytes + (flush->commit.batch_count + 2) * 48));
        wal_flush_layout(flush, wal->open->number, wal->open->end, LS_SPAN_NULL, &header,
                         &wal->layout);
        flush_zero_ahead(wal, flush->commit.bytes);
        e = ls_file_write(wal->open->file, wal->open->end, wal->layout.spans, wal->layout.count);
        if (e == LS_OK && wal->options.sync)
                e = ls_file_sync(wal->open->file);
        if (e != LS_OK) {
                /* Never the same file again: after a failed sync the kernel may have dropped the
                 * pages. */
                flush_leave_segment(wal, true);
                return e;
        }
        wal->open->end += flush->commit.bytes;
        wal_flush_written(&header);
        ls_metric_observe(&metric_write, ls_clock_monotonic_ns() - started);
        return LS_OK;
}

/* What queued behind it must not overtake a retry, and a retry, which comes after the answer, is
 * not refused with them. */
static void
flush_failed(struct ls_wal *wal, struct wal_flush *flush, ls_err e)
{
        struct ls_wal_append *first = flush->first, *behind;

        ls_log_error("wal", "event=flush_failed error=%s segment is given up", ls_err_name(e));
        wal_flush_failed();
        if (e > 0) /* an outcome of making a file: nobody above expects it */
                e = e == LS_DENIED ? LS_EACCESS : LS_EIO;
        wal_flush_result(wal, wal->sequence, e, "writing the WAL failed");
        wal_flush_free(flush);
        pthread_mutex_lock(&wal->lock);
        behind = wal_queue_take_all(wal);
        pthread_mutex_unlock(&wal->lock);
        wal_appends_fail(first, e);
        wal_appends_fail(behind, e);
        wal_flush_leave(wal);
}

void
wal_file_run(void *arg)
{
        struct ls_wal *wal = arg;
        struct ls_wal_append *first;
        uint64_t failures;
        size_t items, bytes;

        while ((first = work_take(wal, &items, &bytes, &failures)) != NULL) {
                struct wal_flush *flush = wal_flush_new(wal, first, items, failures);
                ls_err e = flush_write(wal, flush, bytes);

                if (e != LS_OK)
                        flush_failed(wal, flush, e);
                else
                        wal_flush_submit(flush);
        }
}
