/* meta/index_blob.c - see index_blob.h and docs/formats/index_blob.md.
 *
 * Numbers are varints of differences to the batch before: a batch of an idempotent producer takes
 * some 30 bytes, 16 of them the two sums, which are random and don't pack. */
#include "meta/index_blob.h"

#include "base/assert.h"
#include "base/crc32c.h"

/* The control byte of a batch. */
enum {
        BLOB_PRODUCER = 3,      /* mask: */
        BLOB_PRODUCER_NONE = 0, /* no producer id */
        BLOB_PRODUCER_NEXT = 1, /* as the batch before, its sequence follows */
        BLOB_PRODUCER_FULL = 2, /* id, epoch and sequence follow */
        BLOB_MOVED = 4,         /* not where the batch before ends: a position follows */
        BLOB_S1 = 8,            /* s1 is not 0 and follows */
        BLOB_FLAGS = 16,        /* flags differ from those of the batch before and follow */
        BLOB_KNOWN = 31,
};

/* The sequence after that of a batch: 2^31 - 1 is followed by 0. */
static int32_t
blob_sequence_after(const struct ls_meta_entry *e)
{
        return (int32_t)(((int64_t)e->base_sequence + e->records) & INT32_MAX);
}

static bool
blob_is_next(const struct ls_meta_entry *last, const struct ls_meta_entry *e)
{
        return last->producer_id >= 0 && last->producer_id == e->producer_id &&
               last->producer_epoch == e->producer_epoch && last->base_sequence >= 0 &&
               e->base_sequence == blob_sequence_after(last);
}

static void
blob_write_batch(struct ls_buf *out, const struct ls_meta_entry *last,
                 const struct ls_meta_entry *e)
{
        uint64_t expected = last->pos + last->bytes;
        uint8_t control = 0;

        if (e->producer_id >= 0)
                control = blob_is_next(last, e) ? BLOB_PRODUCER_NEXT : BLOB_PRODUCER_FULL;
        if (e->pos != expected)
                control |= BLOB_MOVED;
        if (e->s1 != 0)
                control |= BLOB_S1;
        if (e->flags != last->flags)
                control |= BLOB_FLAGS;
        ls_buf_put_u8(out, control);
        if (control & BLOB_FLAGS)
                ls_buf_put_u8(out, e->flags);
        if (control & BLOB_MOVED)
                ls_buf_put_varint(out, (int64_t)(e->pos - expected));
        ls_buf_put_uvarint(out, (uint64_t)e->records);
        ls_buf_put_uvarint(out, e->bytes);
        /* Differences wrap: timestamps are the producer's and may be anything. */
        ls_buf_put_varint(out,
                          (int64_t)((uint64_t)e->base_timestamp - (uint64_t)last->base_timestamp));
        ls_buf_put_varint(out, (int64_t)((uint64_t)e->max_timestamp - (uint64_t)e->base_timestamp));
        if ((control & BLOB_PRODUCER) == BLOB_PRODUCER_FULL) {
                ls_buf_put_uvarint(out, (uint64_t)e->producer_id);
                ls_buf_put_varint(out, e->producer_epoch);
                ls_buf_put_varint(out, e->base_sequence);
        }
        ls_buf_put_le64(out, e->s0);
        if (control & BLOB_S1)
                ls_buf_put_le64(out, e->s1);
}

/* Batches from `at` on that are of its partition and accepted; *ret_next: the first of another. */
static size_t
blob_group(const struct ls_meta_wal_batch *batches, size_t count, size_t at, size_t *ret_next)
{
        int32_t partition = batches[at].entry.partition;
        size_t accepted = 0;

        for (; at < count && batches[at].entry.partition == partition; at++)
                accepted += batches[at].outcome == LS_OK;
        *ret_next = at;
        return accepted;
}

size_t
ls_index_blob_write(struct ls_buf *out, const struct ls_index_header *header,
                    const struct ls_meta_wal_batch *batches, size_t count)
{
        struct ls_meta_entry last = { .partition = -1, .pos = header->pos, .producer_id = -1 };
        size_t begin = out->len, total = 0, next;

        last.base_timestamp = header->committed_ms;
        for (size_t at = 0; at < count; at = next) {
                size_t accepted = blob_group(batches, count, at, &next);

                if (accepted == 0)
                        continue;
                if (total == 0) {
                        ls_buf_put_u8(out, LS_INDEX_BLOB_MAGIC);
                        ls_buf_put_u8(out, LS_INDEX_BLOB_VERSION);
                        ls_buf_put_varint(out, header->committed_ms);
                        ls_buf_put_uvarint(out, header->segment);
                        ls_buf_put_uvarint(out, header->pos);
                }
                LS_ASSERT(batches[at].entry.partition > last.partition);
                ls_buf_put_uvarint(out, accepted);
                ls_buf_put_uvarint(out,
                                   (uint64_t)(batches[at].entry.partition - last.partition - 1));
                for (size_t i = at, first = 1; i < next; i++) {
                        const struct ls_meta_entry *e = &batches[i].entry;

                        if (batches[i].outcome != LS_OK)
                                continue;
                        if (first)
                                ls_buf_put_uvarint(out, (uint64_t)e->base_offset);
                        else
                                LS_ASSERT(e->base_offset == last.base_offset + last.records);
                        blob_write_batch(out, &last, e);
                        last = *e;
                        first = 0;
                }
                total += accepted;
        }
        if (total > 0) {
                ls_buf_put_u8(out, 0);
                ls_buf_put_le32(out, ls_crc32c(0, ls_span_of(out->ptr + begin, out->len - begin)));
        }
        return total;
}

ls_err
ls_index_blob_open(struct ls_index_reader *r, ls_span blob)
{
        *r = (struct ls_index_reader){ 0 };
        if (blob.len < 6 || blob.ptr[0] != LS_INDEX_BLOB_MAGIC)
                return LS_CORRUPT;
        if (blob.ptr[1] > LS_INDEX_BLOB_VERSION)
                return LS_NEWER_FORMAT;
        if (blob.ptr[1] != LS_INDEX_BLOB_VERSION ||
            ls_get_le32(blob.ptr + blob.len - 4) !=
                    ls_crc32c(0, ls_span_of(blob.ptr, blob.len - 4)))
                return LS_CORRUPT;
        r->rd = ls_rd_of(ls_span_of(blob.ptr + 2, blob.len - 6));
        r->header.committed_ms = ls_rd_varint(&r->rd);
        r->header.segment = ls_rd_uvarint(&r->rd);
        r->header.pos = ls_rd_uvarint(&r->rd);
        r->last = (struct ls_meta_entry){ .partition = -1,
                                          .pos = r->header.pos,
                                          .producer_id = -1,
                                          .segment = r->header.segment,
                                          .base_timestamp = r->header.committed_ms };
        return ls_rd_failed(&r->rd) ? LS_CORRUPT : LS_OK;
}

/* A number that must fit into [0, max]. */
static bool
blob_take(struct ls_rd *rd, uint64_t max, uint64_t *ret_value)
{
        *ret_value = ls_rd_uvarint(rd);
        return !ls_rd_failed(rd) && *ret_value <= max;
}

/* Starts the next partition: LS_END after the last. */
static ls_err
blob_read_group(struct ls_index_reader *r)
{
        uint64_t step, base;

        r->left = ls_rd_uvarint(&r->rd);
        if (ls_rd_failed(&r->rd))
                return LS_CORRUPT;
        if (r->left == 0)
                return r->started && ls_rd_left(&r->rd) == 0 ? LS_END : LS_CORRUPT;
        if (!blob_take(&r->rd, LS_META_PARTITIONS_MAX, &step) ||
            step + 1 + (uint64_t)(int64_t)r->last.partition >= LS_META_PARTITIONS_MAX ||
            !blob_take(&r->rd, INT64_MAX, &base))
                return LS_CORRUPT;
        r->last.partition += (int32_t)step + 1;
        r->next_offset = (int64_t)base;
        r->started = true;
        return LS_OK;
}

static ls_err
blob_read_producer(struct ls_rd *rd, uint8_t control, const struct ls_meta_entry *last,
                   struct ls_meta_entry *e)
{
        uint64_t id;
        int64_t epoch, sequence;

        e->producer_id = -1;
        e->producer_epoch = -1;
        e->base_sequence = -1;
        switch (control & BLOB_PRODUCER) {
        case BLOB_PRODUCER_NONE: return LS_OK;
        case BLOB_PRODUCER_NEXT:
                if (last->producer_id < 0 || last->base_sequence < 0)
                        return LS_CORRUPT;
                e->producer_id = last->producer_id;
                e->producer_epoch = last->producer_epoch;
                e->base_sequence = blob_sequence_after(last);
                return LS_OK;
        case BLOB_PRODUCER_FULL: break;
        default: return LS_CORRUPT;
        }
        if (!blob_take(rd, INT64_MAX, &id))
                return LS_CORRUPT;
        epoch = ls_rd_varint(rd);
        sequence = ls_rd_varint(rd);
        if (epoch < -1 || epoch > INT16_MAX || sequence < -1 || sequence > INT32_MAX)
                return LS_CORRUPT;
        e->producer_id = (int64_t)id;
        e->producer_epoch = (int16_t)epoch;
        e->base_sequence = (int32_t)sequence;
        return LS_OK;
}

ls_err
ls_index_blob_next(struct ls_index_reader *r, struct ls_meta_entry *ret_entry)
{
        struct ls_meta_entry e = { .segment = r->header.segment,
                                   .committed_ms = r->header.committed_ms };
        const struct ls_meta_entry *last = &r->last;
        uint64_t records, bytes, end;
        uint8_t control;

        if (r->left == 0)
                LS_TRY(blob_read_group(r));
        control = ls_rd_u8(&r->rd);
        if (control & ~BLOB_KNOWN)
                return LS_CORRUPT;
        e.partition = last->partition;
        e.flags = control & BLOB_FLAGS ? ls_rd_u8(&r->rd) : last->flags;
        e.pos = last->pos + last->bytes;
        if (control & BLOB_MOVED)
                e.pos += (uint64_t)ls_rd_varint(&r->rd);
        if (!blob_take(&r->rd, INT32_MAX, &records) || records == 0 ||
            !blob_take(&r->rd, UINT32_MAX, &bytes))
                return LS_CORRUPT;
        e.records = (int32_t)records;
        e.bytes = (uint32_t)bytes;
        e.base_timestamp =
                (int64_t)((uint64_t)last->base_timestamp + (uint64_t)ls_rd_varint(&r->rd));
        e.max_timestamp = (int64_t)((uint64_t)e.base_timestamp + (uint64_t)ls_rd_varint(&r->rd));
        e.base_offset = r->next_offset;
        LS_TRY(blob_read_producer(&r->rd, control, last, &e));
        e.s0 = ls_rd_le64(&r->rd);
        e.s1 = control & BLOB_S1 ? ls_rd_le64(&r->rd) : 0;
        if (ls_rd_failed(&r->rd) || e.pos < r->header.pos ||
            __builtin_add_overflow(e.pos, e.bytes, &end) || e.base_offset > INT64_MAX - e.records)
                return LS_CORRUPT;
        r->left--;
        r->next_offset = e.base_offset + e.records;
        r->last = e;
        *ret_entry = e;
        return LS_OK;
}
