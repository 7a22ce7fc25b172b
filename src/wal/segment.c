/* wal/segment.c - see segment.h; every byte: docs/formats/wal_segment.md. */
#include "wal/segment.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/rd.h"

#define SEGMENT_MAGIC  0x4745534c41574c53ull /* "SLWALSEG" little-endian */
#define OBJECT_MAGIC   0x4a424f57u           /* "WOBJ" */
#define TRAILER_MAGIC  0x444e4557u           /* "WEND" */
#define FOOTER_VERSION 1
/* version, count and the smallest row: bounds a count before anything is allocated from it */
#define FOOTER_ROW_BYTES_MIN (1 + 1 + 1 + 8 + 8)

void
ls_segment_header_put(struct ls_buf *out, const struct ls_segment_header *h)
{
        size_t start = out->len;

        ls_buf_put_le64(out, SEGMENT_MAGIC);
        ls_buf_put_le16(out, LS_SEGMENT_VERSION);
        ls_buf_put_le16(out, 0);
        ls_buf_put_le32(out, LS_SEGMENT_HEADER_BYTES);
        ls_buf_put(out, h->cluster.bytes, 16);
        ls_buf_put_le32(out, (uint32_t)h->broker);
        ls_buf_put_le32(out, 0);
        ls_buf_put_le64(out, h->epoch);
        ls_buf_put_le64(out, h->number);
        ls_buf_put_le64(out, (uint64_t)h->created_ms);
        ls_buf_put_le64(out, 0);
        LS_ASSERT(out->failed || out->len - start == LS_SEGMENT_HEADER_BYTES - 8);
        if (!out->failed)
                ls_buf_put_le32(out, ls_crc32c(0, ls_span_of(out->ptr + start, out->len - start)));
        ls_buf_put_le32(out, 0);
}

ls_err
ls_segment_header_get(ls_span s, struct ls_segment_header *ret)
{
        struct ls_rd r = ls_rd_of(s);
        struct ls_segment_header h = { 0 };
        uint16_t version;

        if (s.len < LS_SEGMENT_HEADER_BYTES || ls_rd_le64(&r) != SEGMENT_MAGIC)
                return LS_CORRUPT;
        if (ls_crc32c(0, ls_span_of(s.ptr, LS_SEGMENT_HEADER_BYTES - 8)) !=
            ls_get_le32(s.ptr + LS_SEGMENT_HEADER_BYTES - 8))
                return LS_CORRUPT;
        version = (uint16_t)ls_rd_le32(&r);
        if (version > LS_SEGMENT_VERSION)
                return LS_NEWER_FORMAT;
        ls_rd_take(&r, 4);
        memcpy(h.cluster.bytes, ls_rd_take(&r, 16), 16);
        h.broker = (int32_t)ls_rd_le32(&r);
        ls_rd_take(&r, 4);
        h.epoch = ls_rd_le64(&r);
        h.number = ls_rd_le64(&r);
        h.created_ms = (int64_t)ls_rd_le64(&r);
        LS_ASSERT(!ls_rd_failed(&r));
        *ret = h;
        return LS_OK;
}

void
ls_object_header_put(struct ls_buf *out, const struct ls_object_header *h)
{
        size_t start = out->len;

        ls_buf_put_le32(out, OBJECT_MAGIC);
        ls_buf_put_le16(out, LS_SEGMENT_VERSION);
        ls_buf_put_le16(out, LS_OBJECT_HEADER_BYTES);
        ls_buf_put_le32(out, (uint32_t)h->broker);
        ls_buf_put_le32(out, h->attempt);
        ls_buf_put_le64(out, h->epoch);
        ls_buf_put_le64(out, h->sequence);
        ls_buf_put_le64(out, h->body_bytes);
        ls_buf_put_le64(out, h->footer_bytes);
        ls_buf_put_le64(out, h->last_commit);
        ls_buf_put_le64(out, 0);
        LS_ASSERT(out->failed || out->len - start == LS_OBJECT_HEADER_BYTES - 8);
        if (!out->failed)
                ls_buf_put_le32(out, ls_crc32c(0, ls_span_of(out->ptr + start, out->len - start)));
        ls_buf_put_le32(out, 0);
}

ls_err
ls_object_header_get(ls_span s, struct ls_object_header *ret)
{
        struct ls_rd r = ls_rd_of(s);
        struct ls_object_header h = { 0 };

        if (s.len < LS_OBJECT_HEADER_BYTES || ls_rd_le32(&r) != OBJECT_MAGIC)
                return LS_CORRUPT;
        if (ls_crc32c(0, ls_span_of(s.ptr, LS_OBJECT_HEADER_BYTES - 8)) !=
            ls_get_le32(s.ptr + LS_OBJECT_HEADER_BYTES - 8))
                return LS_CORRUPT;
        if ((uint16_t)ls_rd_le32(&r) > LS_SEGMENT_VERSION)
                return LS_NEWER_FORMAT;
        h.broker = (int32_t)ls_rd_le32(&r);
        h.attempt = ls_rd_le32(&r);
        h.epoch = ls_rd_le64(&r);
        h.sequence = ls_rd_le64(&r);
        h.body_bytes = ls_rd_le64(&r);
        h.footer_bytes = ls_rd_le64(&r);
        h.last_commit = ls_rd_le64(&r);
        if (h.body_bytes > (uint64_t)1 << 40 || h.footer_bytes > (uint64_t)1 << 40)
                return LS_CORRUPT;
        *ret = h;
        return LS_OK;
}

uint64_t
ls_object_bytes(const struct ls_object_header *h)
{
        uint64_t bytes =
                LS_OBJECT_HEADER_BYTES + h->body_bytes + h->footer_bytes + LS_OBJECT_TRAILER_BYTES;

        return (bytes + LS_OBJECT_ALIGN - 1) / LS_OBJECT_ALIGN * LS_OBJECT_ALIGN;
}

void
ls_object_footer_put(struct ls_buf *out, const struct ls_object_batch *batches, size_t count)
{
        ls_buf_put_u8(out, FOOTER_VERSION);
        ls_buf_put_uvarint(out, count);
        for (size_t i = 0; i < count; i++) {
                ls_buf_put_uvarint(out, batches[i].stream_id);
                ls_buf_put_uvarint(out, (uint32_t)batches[i].partition);
                ls_buf_put_uvarint(out, batches[i].bytes);
                ls_buf_put_le64(out, batches[i].s0);
                ls_buf_put_le64(out, batches[i].s1);
        }
}

void
ls_object_trailer_put(struct ls_buf *out, const struct ls_object_header *h, uint32_t body_crc,
                      ls_span footer)
{
        static const uint8_t zeros[LS_OBJECT_ALIGN];
        uint64_t plain =
                LS_OBJECT_HEADER_BYTES + h->body_bytes + h->footer_bytes + LS_OBJECT_TRAILER_BYTES;
        size_t start = out->len;
        uint32_t crc;

        LS_ASSERT(footer.len == h->footer_bytes);
        ls_buf_put_le32(out, body_crc);
        ls_buf_put_le32(out, (uint32_t)footer.len);
        ls_buf_put_le64(out, h->sequence);
        if (out->failed)
                return;
        crc = ls_crc32c(0, footer);
        crc = ls_crc32c(crc, ls_span_of(out->ptr + start, out->len - start));
        ls_buf_put_le32(out, crc);
        ls_buf_put_le32(out, TRAILER_MAGIC);
        ls_buf_put(out, zeros, (size_t)(ls_object_bytes(h) - plain));
}

static ls_err
footer_get(ls_span footer, uint64_t body_bytes, struct ls_object_batch **ret_batches,
           size_t *ret_count)
{
        LS_AUTO(ls_free) struct ls_object_batch *batches = NULL;
        struct ls_rd r = ls_rd_of(footer);
        uint64_t count, sum = 0;

        if (ls_rd_u8(&r) != FOOTER_VERSION)
                return LS_CORRUPT;
        count = ls_rd_uvarint(&r);
        if (ls_rd_failed(&r) || count > ls_rd_left(&r) / FOOTER_ROW_BYTES_MIN)
                return LS_CORRUPT;
        batches = ls_try_malloc((size_t)count * sizeof *batches);
        if (batches == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < count; i++) {
                uint64_t partition;

                batches[i].stream_id = ls_rd_uvarint(&r);
                partition = ls_rd_uvarint(&r);
                batches[i].bytes = ls_rd_uvarint(&r);
                batches[i].s0 = ls_rd_le64(&r);
                batches[i].s1 = ls_rd_le64(&r);
                if (ls_rd_failed(&r) || partition > INT32_MAX ||
                    batches[i].bytes > body_bytes - sum)
                        return LS_CORRUPT;
                batches[i].partition = (int32_t)partition;
                sum += batches[i].bytes;
        }
        if (ls_rd_left(&r) != 0 || sum != body_bytes)
                return LS_CORRUPT;
        *ret_batches = LS_STEAL(batches);
        *ret_count = (size_t)count;
        return LS_OK;
}

ls_err
ls_object_check(ls_span object, struct ls_object_header *ret_header, ls_span *ret_body,
                struct ls_object_batch **ret_batches, size_t *ret_count)
{
        struct ls_object_header h;
        ls_span footer, trailer;
        struct ls_rd r;
        uint32_t crc;

        LS_TRY(ls_object_header_get(object, &h));
        if (object.len < ls_object_bytes(&h))
                return LS_CORRUPT;
        r = ls_rd_of(object);
        ls_rd_take(&r, LS_OBJECT_HEADER_BYTES);
        *ret_body = ls_rd_span(&r, (size_t)h.body_bytes);
        footer = ls_rd_span(&r, (size_t)h.footer_bytes);
        trailer = ls_rd_span(&r, LS_OBJECT_TRAILER_BYTES);
        LS_ASSERT(!ls_rd_failed(&r));
        crc = ls_crc32c(ls_crc32c(0, footer), ls_span_of(trailer.ptr, 16));
        if (ls_get_le32(trailer.ptr + 20) != TRAILER_MAGIC ||
            ls_get_le32(trailer.ptr + 16) != crc ||
            ls_get_le32(trailer.ptr + 4) != (uint32_t)h.footer_bytes ||
            ls_get_le64(trailer.ptr + 8) != h.sequence ||
            ls_get_le32(trailer.ptr) != ls_crc32c(0, *ret_body))
                return LS_CORRUPT;
        LS_TRY(footer_get(footer, h.body_bytes, ret_batches, ret_count));
        *ret_header = h;
        return LS_OK;
}
