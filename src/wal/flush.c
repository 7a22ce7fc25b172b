/* wal/flush.c - what both ways of flushing share: the queue, and an object as bytes. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/metric.h"
#include "wal/wal_int.h"

static LS_METRIC(metric_bytes, COUNTER, "lakestream_wal_bytes_total",
                 "Bytes of record batches written to the WAL.");
static LS_METRIC(metric_objects, COUNTER, "lakestream_wal_objects_total", "WAL objects written.");

void
wal_flush_written(const struct ls_object_header *header)
{
        ls_metric_add(&metric_objects, 1);
        ls_metric_add(&metric_bytes, (int64_t)header->body_bytes);
}

/* --- the queue --- */

struct ls_wal_append *
wal_queue_take_all(struct ls_wal *wal)
{
        struct ls_wal_append *first = wal->queue;

        wal->queue = NULL;
        wal->queue_tail = &wal->queue;
        wal->queue_bytes = 0;
        return first;
}

struct ls_wal_append *
wal_queue_take(struct ls_wal *wal, size_t *ret_items, size_t *ret_bytes)
{
        struct ls_wal_append *first = wal->queue, **link = &wal->queue;
        size_t bytes = 0, items = 0;

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
        *ret_items = items;
        *ret_bytes = bytes;
        return first;
}

void
ls_wal_append(struct ls_wal *wal, struct ls_wal_append *append)
{
        bool store = wal->options.store != NULL, wakes = true;
        size_t bytes = 0;

        LS_ASSERT(append->count > 0);
        for (size_t i = 0; i < append->count; i++)
                bytes += append->items[i].batch->len;
        append->next = NULL;
        pthread_mutex_lock(&wal->lock);
        if (store && wal->queue == NULL)
                wal->puts.queued_ms = ls_clock_monotonic_ms();
        else if (store) /* the flush thread sleeps until it is time, or there is enough */
                wakes = wal->queue_bytes + bytes >= wal->options.flush_bytes;
        *wal->queue_tail = append;
        wal->queue_tail = &append->next;
        wal->queue_bytes += bytes;
        if (wakes)
                ls_cond_signal(&wal->wake);
        pthread_mutex_unlock(&wal->lock);
}

/* --- a flush --- */

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

struct wal_flush *
wal_flush_new(struct ls_wal *wal, struct ls_wal_append *first, size_t item_count, uint64_t failures)
{
        struct wal_flush *flush = ls_calloc(1, sizeof *flush);
        size_t n = 0;

        flush->wal = wal;
        flush->first = first;
        flush->failures = failures;
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
        flush->commit.batches = ls_calloc(n, sizeof *flush->commit.batches);
        flush->commit.batch_count = n;
        flush->commit.now_ms = ls_clock_wall_ms();
        return flush;
}

void
wal_flush_free(struct wal_flush *flush)
{
        ls_free(flush->commit.batches);
        ls_free(flush->items);
        ls_free(flush);
}

/* --- its bytes --- */

void
wal_layout_init(struct wal_layout *layout)
{
        *layout = (struct wal_layout){ 0 };
        ls_buf_init(&layout->scratch, LS_BUF_MAX_DEFAULT);
}

void
wal_layout_done(struct wal_layout *layout)
{
        ls_free(layout->spans);
        ls_buf_done(&layout->scratch);
}

/* The batches: their spans, their rows of the footer, their places. -> bytes of them. */
static uint64_t
layout_body(struct wal_flush *flush, struct wal_layout *layout, struct ls_object_batch *rows,
            uint32_t *ret_crc)
{
        uint64_t start = flush->commit.pos + LS_OBJECT_HEADER_BYTES, pos = start;
        uint32_t crc = 0;

        for (size_t i = 0; i < flush->commit.batch_count; i++) {
                const struct ls_wal_item *item = flush->items[i];
                ls_span bytes = ls_slice_span(item->batch);

                rows[i] = (struct ls_object_batch){ item->stream->id, item->partition, bytes.len,
                                                    item->s0, item->s1 };
                layout->spans[1 + i] = bytes;
                flush->commit.batches[i].stream_id = item->stream->id;
                flush->commit.batches[i].entry = (struct ls_meta_entry){
                        .partition = item->partition,
                        .records = item->records,
                        .segment = flush->commit.segment,
                        .pos = pos,
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
        *ret_crc = crc;
        return pos - start;
}

/* Scratch: prefix, header, footer, trailer. The first span is what stands before the batches, the
 * last one what stands behind them. */
void
wal_flush_layout(struct wal_flush *flush, uint64_t segment, uint64_t pos, ls_span prefix,
                 struct ls_object_header *header, struct wal_layout *layout)
{
        size_t n = flush->commit.batch_count, footer_start;
        struct ls_object_batch *rows = ls_malloc(n * sizeof *rows);
        struct ls_buf *scratch = &layout->scratch;
        struct ls_buf head;
        uint32_t crc;

        layout->count = n + 2;
        if (layout->count > layout->cap) {
                layout->cap = layout->count * 2;
                layout->spans = ls_realloc(layout->spans, layout->cap, sizeof *layout->spans);
        }
        flush->commit.segment = segment;
        flush->commit.pos = pos;
        header->body_bytes = layout_body(flush, layout, rows, &crc);
        ls_buf_clear(scratch);
        ls_buf_put_span(scratch, prefix);
        ls_buf_add(scratch, LS_OBJECT_HEADER_BYTES);
        footer_start = scratch->len;
        ls_object_footer_put(scratch, rows, n);
        ls_free(rows);
        header->footer_bytes = scratch->len - footer_start;
        ls_buf_reserve(scratch, 256);
        ls_object_trailer_put(
                scratch, header, crc,
                ls_span_of(scratch->ptr + footer_start, (size_t)header->footer_bytes));
        LS_ASSERT(!ls_buf_failed(scratch));
        ls_buf_init(&head, LS_OBJECT_HEADER_BYTES);
        ls_object_header_put(&head, header);
        memcpy(scratch->ptr + prefix.len, head.ptr, LS_OBJECT_HEADER_BYTES);
        ls_buf_done(&head);
        layout->spans[0] = ls_span_of(scratch->ptr, footer_start);
        layout->spans[1 + n] = ls_span_of(scratch->ptr + footer_start, scratch->len - footer_start);
        flush->commit.bytes = ls_object_bytes(header);
}
