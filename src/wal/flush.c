/* wal/flush.c - the flush thread: takes what is queued, writes one WAL object, hands it to the
 * metadata store; and what happens on the meta thread once it is committed. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/metric.h"
#include "wal/segment.h"
#include "wal/wal_int.h"

static LS_METRIC(metric_bytes, COUNTER, "lakestream_wal_bytes_total",
                 "Bytes of record batches written to the WAL.");
static LS_METRIC(metric_objects, COUNTER, "lakestream_wal_objects_total", "WAL objects written.");
static LS_METRIC(metric_failures, COUNTER, "lakestream_wal_failures_total",
                 "WAL flushes that failed.");
static LS_METRIC_SECONDS(metric_write, "lakestream_wal_write_seconds",
                         "Time to write and sync a WAL object.");

/* --- answers --- */

static void
appends_finish(struct ls_wal_append *a)
{
        while (a != NULL) {
                struct ls_wal_append *next = a->next;

                a->done(a);
                a = next;
        }
}

static void
appends_fail(struct ls_wal_append *first, ls_err why)
{
        LS_ASSERT(why != LS_OK);
        for (struct ls_wal_append *a = first; a != NULL; a = a->next) {
                for (size_t i = 0; i < a->count; i++) {
                        a->items[i].outcome = why;
                        a->items[i].base_offset = -1;
                }
        }
        appends_finish(first);
}

/* --- the tail cache: the meta thread's --- */

static void
cache_pop(struct ls_wal *wal)
{
        struct wal_cached *c = &wal->cache[wal->cache_head];

        wal_log_uncache(c->stream, c->partition, c->base);
        ls_wal_stream_unref(c->stream);
        wal->cache_bytes -= (int64_t)c->bytes;
        wal->cache_head = (wal->cache_head + 1) & (wal->cache_cap - 1);
        wal->cache_count--;
}

static void
cache_push(struct ls_wal *wal, struct ls_wal_item *item)
{
        if (wal->cache_count == wal->cache_cap) {
                size_t cap = wal->cache_cap ? wal->cache_cap * 2 : 256;
                struct wal_cached *cache = ls_malloc(cap * sizeof *cache);

                for (size_t i = 0; i < wal->cache_count; i++)
                        cache[i] = wal->cache[(wal->cache_head + i) & (wal->cache_cap - 1)];
                ls_free(wal->cache);
                wal->cache = cache;
                wal->cache_head = 0;
                wal->cache_cap = cap;
        }
        wal->cache[(wal->cache_head + wal->cache_count++) & (wal->cache_cap - 1)] =
                (struct wal_cached){
                        .stream = ls_wal_stream_ref(item->stream),
                        .partition = item->partition,
                        .base = item->base_offset,
                        .bytes = item->batch->len,
                };
        wal->cache_bytes += (int64_t)item->batch->len;
}

/* --- after the commit: the meta thread --- */

static void
view_apply(struct wal_flush *flush, size_t i, int64_t now_ms)
{
        struct ls_wal_item *item = flush->items[i];
        const struct ls_meta_wal_batch *b = &flush->commit.batches[i];
        struct ls_wal_stream *s = item->stream;
        bool cache = flush->wal->options.cache_bytes > 0;
        struct wal_log *log;
        struct wal_entry e = { .base = item->base_offset,
                               .base_timestamp = item->base_timestamp,
                               .max_timestamp = item->max_timestamp,
                               .segment = flush->commit.segment,
                               .pos = b->entry.pos,
                               .s0 = item->s0,
                               .s1 = item->s1,
                               .append_ms = now_ms,
                               .records = item->records,
                               .bytes = (uint32_t)item->batch->len,
                               .flags = item->flags };

        /* The offset is under no checksum: set before readers can see the bytes. */
        ls_set_be64(item->batch->ptr, (uint64_t)item->base_offset);
        ls_set_be32(item->batch->ptr + 12, (uint32_t)s->leader_epoch);
        pthread_mutex_lock(&s->lock);
        if (!s->gone && item->partition < s->partitions) {
                log = &s->logs[item->partition];
                LS_ASSERT(log->end == item->base_offset);
                e.cached = cache ? ls_slice_ref(item->batch) : NULL;
                wal_log_push(log, &e);
                log->end = log->stable = item->base_offset + item->records;
                log->hash += (2 * (uint64_t)e.base + 1) * e.s0 + 2 * e.s1;
                s->backlog_bytes += e.bytes;
                s->backlog_entries++;
                s->backlog_records += e.records;
                if (s->oldest_ms == 0)
                        s->oldest_ms = now_ms;
                wal_log_fire(log, e.bytes);
        } else {
                cache = false;
        }
        pthread_mutex_unlock(&s->lock);
        if (cache)
                cache_push(flush->wal, item);
}

static void
flush_free(struct wal_flush *flush)
{
        ls_free(flush->commit.batches);
        ls_free(flush->items);
        ls_free(flush);
}

/* wal->lock held. */
static struct ls_wal_append *
queue_take_all(struct ls_wal *wal)
{
        struct ls_wal_append *first = wal->queue;

        wal->queue = NULL;
        wal->queue_tail = &wal->queue;
        wal->queue_bytes = 0;
        return first;
}

/* What `ls_wal_ready` says from now on, unless a later flush has told already. Before the answers,
 * so that whoever is refused finds the reason. */
static void
flush_result(struct ls_wal *wal, uint64_t sequence, ls_err result, const char *what)
{
        pthread_mutex_lock(&wal->lock);
        if (sequence >= wal->error_sequence) {
                wal->error_sequence = sequence;
                wal->error = result;
                if (result != LS_OK)
                        ls_fail(&wal->error_info, result, "%s: %s", what, ls_err_text(result));
        }
        pthread_mutex_unlock(&wal->lock);
}

static void
flush_leave(struct ls_wal *wal)
{
        pthread_mutex_lock(&wal->lock);
        wal->flushes--;
        ls_cond_broadcast(&wal->wake);
        pthread_mutex_unlock(&wal->lock);
}

/* Where the segment is cut when it is given up. A commit that failed for want of space is known not
 * to be in the database; after others the process ends. What queued behind a failure is taken, to
 * fail with it. */
static struct ls_wal_append *
flush_note(struct ls_wal *wal, const struct wal_flush *flush, ls_err result)
{
        struct ls_wal_append *behind = NULL;

        pthread_mutex_lock(&wal->lock);
        if (result == LS_OK) {
                wal->committed_segment = flush->commit.segment;
                wal->committed_end = flush->commit.pos + flush->commit.bytes;
        } else {
                wal->refused |= result == LS_ENOSPC;
                wal->failures++;
                behind = queue_take_all(wal);
        }
        pthread_mutex_unlock(&wal->lock);
        return behind;
}

/* Whether no commit failed since the flush was begun. The meta thread's, between commits. */
static bool
flush_wanted(const struct ls_meta_wal_commit *commit)
{
        const struct wal_flush *flush = LS_CONTAINER(commit, const struct wal_flush, commit);
        struct ls_wal *wal = flush->wal;
        bool wanted;

        pthread_mutex_lock(&wal->lock);
        wanted = flush->failures == wal->failures;
        pthread_mutex_unlock(&wal->lock);
        return wanted;
}

static void
flush_committed(struct ls_meta_op *op, ls_err result)
{
        struct wal_flush *flush = LS_CONTAINER(op, struct wal_flush, commit.op);
        struct ls_wal *wal = flush->wal;
        int64_t now_ms = ls_clock_wall_ms();
        struct ls_wal_append *behind;

        if (result == LS_CANCELED) { /* with the one before it */
                pthread_mutex_lock(&wal->lock);
                result = wal->error != LS_OK ? wal->error : LS_EDB;
                pthread_mutex_unlock(&wal->lock);
        } else if (result > 0) {
                result = LS_EDB;
        }
        flush_result(wal, flush->commit.sequence, result, "the metadata store did not commit");
        behind = flush_note(wal, flush, result);
        if (result != LS_OK) {
                ls_log_error("wal", "event=commit_failed error=%s records are refused",
                             ls_err_name(result));
                ls_metric_add(&metric_failures, 1);
                appends_fail(flush->first, result);
                appends_fail(behind, result);
        } else {
                if (flush->commit.commit != 0) /* 0: every batch was refused */
                        atomic_store(&wal->last_commit, flush->commit.commit);
                for (size_t i = 0; i < flush->commit.batch_count; i++) {
                        const struct ls_meta_wal_batch *b = &flush->commit.batches[i];
                        struct ls_wal_item *item = flush->items[i];

                        item->outcome = b->outcome;
                        item->base_offset = b->outcome == LS_OK || b->outcome == LS_DUPLICATE
                                                    ? b->entry.base_offset
                                                    : -1;
                        item->log_start = b->log_start;
                        if (b->outcome == LS_OK)
                                view_apply(flush, i, now_ms);
                }
                appends_finish(flush->first);
        }
        while (wal->cache_bytes > wal->options.cache_bytes && wal->cache_count > 0)
                cache_pop(wal);
        flush_leave(wal);
        flush_free(flush);
}

/* --- the flush thread --- */

/* Waits for work and takes it, at most flush_bytes (one append always). NULL: stop. */
static struct ls_wal_append *
queue_take(struct ls_wal *wal, size_t *ret_items, size_t *ret_bytes, uint64_t *ret_failures)
{
        struct ls_wal_append *first, **link;
        size_t bytes = 0, items = 0;

        pthread_mutex_lock(&wal->lock);
        while ((wal->queue == NULL && !wal->stopping) || wal->flushes >= LS_WAL_FLUSHES_MAX)
                ls_cond_wait(&wal->wake, &wal->lock);
        first = wal->queue;
        link = &wal->queue;
        while (*link != NULL) {
                struct ls_wal_append *a = *link;
                size_t more = 0;

                for (size_t i = 0; i < a->count; i++)
                        more += a->items[i].batch->len;
                if (bytes > 0 && bytes + more > wal->options.flush_bytes)
                        break;
                bytes += more;
                items += a->count;
                link = &a->next;
        }
        wal->queue = *link;
        *link = NULL;
        if (wal->queue == NULL)
                wal->queue_tail = &wal->queue;
        wal->queue_bytes -= bytes;
        *ret_failures = wal->failures;
        if (first != NULL)
                wal->flushes++;
        pthread_mutex_unlock(&wal->lock);
        *ret_items = items;
        *ret_bytes = bytes;
        return first;
}

static int
item_order(const void *left, const void *right)
{
        const struct ls_wal_item *a = *(struct ls_wal_item *const *)left;
        const struct ls_wal_item *b = *(struct ls_wal_item *const *)right;

        if (a->stream->id != b->stream->id)
                return a->stream->id < b->stream->id ? -1 : 1;
        if (a->partition != b->partition)
                return a->partition < b->partition ? -1 : 1;
        /* arrival: base_offset holds the index until the commit */
        return a->base_offset < b->base_offset ? -1 : a->base_offset > b->base_offset;
}

static struct wal_flush *
flush_new(struct ls_wal *wal, struct ls_wal_append *first, size_t item_count)
{
        struct wal_flush *flush = ls_calloc(1, sizeof *flush);
        size_t n = 0;

        flush->wal = wal;
        flush->first = first;
        flush->items = ls_malloc(item_count * sizeof(struct ls_wal_item *));
        for (struct ls_wal_append *a = first; a != NULL; a = a->next) {
                for (size_t i = 0; i < a->count; i++) {
                        a->items[i].base_offset = (int64_t)n;
                        flush->items[n++] = &a->items[i];
                }
        }
        LS_ASSERT(n == item_count);
        if (n > 1)
                qsort(flush->items, n, sizeof(struct ls_wal_item *), item_order);
        flush->commit.op.done = flush_committed;
        flush->commit.wanted = flush_wanted;
        flush->commit.batches = ls_calloc(n, sizeof *flush->commit.batches);
        flush->commit.batch_count = n;
        flush->commit.now_ms = ls_clock_wall_ms();
        return flush;
}

/* Header, batches and footer of the object as spans of wal->spans; the bytes are in the batches and
 * in wal->scratch. */
static size_t
flush_layout(struct ls_wal *wal, struct wal_flush *flush, struct ls_object_header *header)
{
        size_t n = flush->commit.batch_count;
        struct ls_object_batch *rows = ls_malloc(n * sizeof *rows);
        uint64_t pos = LS_OBJECT_HEADER_BYTES;
        uint32_t crc = 0;
        size_t footer_start;

        for (size_t i = 0; i < n; i++) {
                const struct ls_wal_item *item = flush->items[i];
                ls_span bytes = ls_slice_span(item->batch);

                rows[i] = (struct ls_object_batch){ item->stream->id, item->partition, bytes.len,
                                                    item->s0, item->s1 };
                wal->spans[1 + i] = bytes;
                flush->commit.batches[i].stream_id = item->stream->id;
                flush->commit.batches[i].entry = (struct ls_meta_entry){
                        .partition = item->partition,
                        .records = item->records,
                        .segment = wal->open->number,
                        .pos = wal->open->end + pos,
                        .bytes = (uint32_t)bytes.len,
                        .flags = item->flags,
                        .base_timestamp = item->base_timestamp,
                        .max_timestamp = item->max_timestamp,
                        .producer_id = item->producer_id,
                        .producer_epoch = item->producer_epoch,
                        .base_sequence = item->base_sequence,
                        .s0 = item->s0,
                        .s1 = item->s1,
                };
                crc = ls_crc32c(crc, bytes);
                pos += bytes.len;
        }
        ls_buf_clear(&wal->scratch);
        ls_buf_add(&wal->scratch, LS_OBJECT_HEADER_BYTES);
        footer_start = wal->scratch.len;
        ls_object_footer_put(&wal->scratch, rows, n);
        ls_free(rows);
        header->body_bytes = pos - LS_OBJECT_HEADER_BYTES;
        header->footer_bytes = wal->scratch.len - footer_start;
        ls_buf_reserve(&wal->scratch, 256);
        ls_object_trailer_put(
                &wal->scratch, header, crc,
                ls_span_of(wal->scratch.ptr + footer_start, (size_t)header->footer_bytes));
        LS_ASSERT(!ls_buf_failed(&wal->scratch));
        wal->spans[1 + n] =
                ls_span_of(wal->scratch.ptr + footer_start, wal->scratch.len - footer_start);
        {
                struct ls_buf head;

                ls_buf_init(&head, LS_OBJECT_HEADER_BYTES);
                ls_object_header_put(&head, header);
                memcpy(wal->scratch.ptr, head.ptr, LS_OBJECT_HEADER_BYTES);
                ls_buf_done(&head);
        }
        wal->spans[0] = ls_span_of(wal->scratch.ptr, LS_OBJECT_HEADER_BYTES);
        return n + 2;
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
        size_t count = flush->commit.batch_count + 2;
        ls_err e;

        header.sequence = flush->commit.sequence = ++wal->sequence;
        LS_TRY(flush_segment(wal, bytes + count * 48));
        if (count > wal->span_cap) {
                wal->spans = ls_realloc(wal->spans, count * 2, sizeof *wal->spans);
                wal->span_cap = count * 2;
        }
        count = flush_layout(wal, flush, &header);
        flush->commit.segment = wal->open->number;
        flush->commit.pos = wal->open->end;
        flush->commit.bytes = ls_object_bytes(&header);
        flush_zero_ahead(wal, flush->commit.bytes);
        e = ls_file_write(wal->open->file, wal->open->end, wal->spans, count);
        if (e == LS_OK && wal->options.sync)
                e = ls_file_sync(wal->open->file);
        if (e != LS_OK) {
                /* Never the same file again: after a failed sync the kernel may have dropped the
                 * pages. */
                flush_leave_segment(wal, true);
                return e;
        }
        wal->open->end += flush->commit.bytes;
        ls_metric_add(&metric_objects, 1);
        ls_metric_add(&metric_bytes, (int64_t)header.body_bytes);
        ls_metric_observe(&metric_write, ls_clock_monotonic_ns() - started);
        return LS_OK;
}

void
wal_flush_run(void *arg)
{
        struct ls_wal *wal = arg;
        struct ls_wal_append *first, *behind;
        uint64_t failures;
        size_t items, bytes;

        while ((first = queue_take(wal, &items, &bytes, &failures)) != NULL) {
                struct wal_flush *flush = flush_new(wal, first, items);
                ls_err e;

                flush->failures = failures;
                e = flush_write(wal, flush, bytes);

                if (e != LS_OK) {
                        ls_log_error("wal", "event=flush_failed error=%s segment is given up",
                                     ls_err_name(e));
                        ls_metric_add(&metric_failures, 1);
                        if (e > 0) /* an outcome of making a file: nobody above expects it */
                                e = e == LS_DENIED ? LS_EACCESS : LS_EIO;
                        flush_result(wal, wal->sequence, e, "writing the WAL failed");
                        flush_free(flush);
                        /* what queued behind it must not overtake a retry, and a retry, which
                         * comes after the answer, is not refused with them */
                        pthread_mutex_lock(&wal->lock);
                        behind = queue_take_all(wal);
                        pthread_mutex_unlock(&wal->lock);
                        appends_fail(first, e);
                        appends_fail(behind, e);
                        flush_leave(wal);
                        continue;
                }
                ls_meta_wal_submit(wal->options.meta, &flush->commit);
        }
}

void
ls_wal_append(struct ls_wal *wal, struct ls_wal_append *append)
{
        size_t bytes = 0;

        LS_ASSERT(append->count > 0);
        for (size_t i = 0; i < append->count; i++)
                bytes += append->items[i].batch->len;
        append->next = NULL;
        pthread_mutex_lock(&wal->lock);
        *wal->queue_tail = append;
        wal->queue_tail = &append->next;
        wal->queue_bytes += bytes;
        ls_cond_signal(&wal->wake);
        pthread_mutex_unlock(&wal->lock);
}
