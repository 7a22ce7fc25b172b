/* formats/batch/builder.c - build batches from records.
 *
 * An uncompressed batch grows in the caller's buffer behind the room for its header; a compressed
 * one grows in `body` and is compressed at the end. A record's size is computed first, then all of
 * it is written at once.
 */
#include "base/assert.h"
#include "base/crc32c.h"
#include "formats/batch/limits.h"
#include "formats/batch/record_int.h"

void
ls_batch_builder_init(struct ls_batch_builder *b, const struct ls_batch_build *cfg)
{
        *b = (struct ls_batch_builder){ .cfg = *cfg };
        if (b->cfg.records_bytes_max == 0)
                b->cfg.records_bytes_max = BATCH_BUILD_BYTES_DEFAULT;
        ls_buf_init(&b->body, LS_BUF_MAX_DEFAULT);
}

void
ls_batch_builder_done(struct ls_batch_builder *b)
{
        if (b == NULL)
                return;
        ls_packer_free(b->packer);
        ls_buf_done(&b->body);
        *b = (struct ls_batch_builder){ 0 };
}

void
ls_batch_builder_begin(struct ls_batch_builder *b, struct ls_buf *out, int64_t base_offset)
{
        LS_ASSERT(b->out == NULL);
        LS_ASSERT(!ls_buf_failed(out));
        LS_ASSERT(base_offset >= -1);
        b->out = out;
        b->out_start = out->len;
        b->base_offset = base_offset;
        b->last_offset = -1;
        b->base_timestamp = LS_NO_TIMESTAMP;
        b->max_timestamp = LS_NO_TIMESTAMP;
        b->count = 0;
        ls_buf_clear(&b->body);
        /* When even the header does not fit, add and end say so. */
        if (!ls_buf_reserve(out, LS_BATCH_HEADER_BYTES))
                out->failed = false;
        else
                out->len += LS_BATCH_HEADER_BYTES;
}

static bool
builder_has_header(const struct ls_batch_builder *b)
{
        return b->out->len >= b->out_start + LS_BATCH_HEADER_BYTES;
}

static struct ls_buf *
builder_target(struct ls_batch_builder *b)
{
        return b->cfg.codec == LS_CODEC_NONE ? b->out : &b->body;
}

static uint64_t
builder_records_bytes(const struct ls_batch_builder *b)
{
        return b->cfg.codec == LS_CODEC_NONE ? b->out->len - b->out_start - LS_BATCH_HEADER_BYTES
                                             : b->body.len;
}

static inline uint8_t *
put_varint(uint8_t *p, int64_t v)
{
        uint64_t u = ((uint64_t)v << 1) ^ (uint64_t)(v >> 63);

        for (; u > 0x7f; u >>= 7)
                *p++ = (uint8_t)(u | 0x80);
        *p++ = (uint8_t)u;
        return p;
}
static inline uint8_t *
put_bytes(uint8_t *p, ls_span s)
{
        if (s.len > 0)
                memcpy(p, s.ptr, s.len);
        return p + s.len;
}

/* False: the record cannot stand in the open batch. Sets its two deltas. */
static bool
builder_deltas(const struct ls_batch_builder *b, const struct ls_record *r,
               int64_t *ret_timestamp_delta, int64_t *ret_offset_delta)
{
        int64_t base = b->base_offset >= 0 ? b->base_offset : r->offset;

        *ret_offset_delta = r->offset - base;
        *ret_timestamp_delta = 0;
        if (*ret_offset_delta > INT32_MAX)
                return false;
        if (b->count == 0)
                return true;
        if (b->cfg.count_max > 0 && b->count >= b->cfg.count_max)
                return false;
        if (b->cfg.log_append_time)
                return r->timestamp == b->max_timestamp;
        return b->count < INT32_MAX &&
               !__builtin_sub_overflow(r->timestamp, b->base_timestamp, ret_timestamp_delta);
}

ls_err
ls_batch_builder_add(struct ls_batch_builder *b, const struct ls_record *r)
{
        struct ls_buf *target = builder_target(b);
        int64_t timestamp_delta, offset_delta;
        uint64_t body, all;
        uint8_t *p, *start;

        LS_ASSERT(b->out != NULL);
        LS_ASSERT(r->offset > b->last_offset && r->offset >= b->base_offset);
        if (!builder_deltas(b, r, &timestamp_delta, &offset_delta))
                return LS_FULL;
        body = 1 + ls_varint_size(timestamp_delta) + ls_varint_size(offset_delta) +
               ls_varint_size(hash_length(r->key)) + r->key.len +
               ls_varint_size(hash_length(r->value)) + r->value.len +
               ls_varint_size(r->header_count) + r->headers.len;
        all = ls_varint_size((int64_t)body) + body;
        if (b->count > 0 && all > b->cfg.records_bytes_max - LS_MIN(builder_records_bytes(b),
                                                                    b->cfg.records_bytes_max))
                return LS_FULL;
        if (all > INT32_MAX - LS_BATCH_HEADER_BYTES || !builder_has_header(b))
                return LS_TOO_LARGE;
        start = ls_buf_add(target, all);
        if (start == NULL) {
                target->failed = false;
                return b->count > 0 ? LS_FULL : LS_TOO_LARGE;
        }
        p = put_varint(start, (int64_t)body);
        *p++ = 0;
        p = put_varint(p, timestamp_delta);
        p = put_varint(p, offset_delta);
        p = put_varint(p, hash_length(r->key));
        p = put_bytes(p, r->key);
        p = put_varint(p, hash_length(r->value));
        p = put_bytes(p, r->value);
        p = put_varint(p, r->header_count);
        p = put_bytes(p, r->headers);
        LS_ASSERT(p == start + all);

        if (b->count++ == 0) {
                b->base_timestamp = r->timestamp;
                b->max_timestamp = r->timestamp;
                if (b->base_offset < 0)
                        b->base_offset = r->offset;
        }
        b->max_timestamp = LS_MAX(b->max_timestamp, r->timestamp);
        b->last_offset = r->offset;
        return LS_OK;
}

static void
builder_header(const struct ls_batch_builder *b, uint8_t *p, size_t bytes, int64_t last_offset)
{
        /* An empty batch has no stream, hence no codec. */
        uint16_t attributes = (uint16_t)((b->count > 0 ? b->cfg.codec : LS_CODEC_NONE) |
                                         (b->cfg.log_append_time ? LS_BATCH_LOG_APPEND_TIME : 0));

        ls_set_be64(p + BATCH_AT_BASE_OFFSET, (uint64_t)b->base_offset);
        ls_set_be32(p + BATCH_AT_LENGTH, (uint32_t)(bytes - LS_BATCH_PREFIX_BYTES));
        ls_set_be32(p + BATCH_AT_LEADER_EPOCH, (uint32_t)b->cfg.leader_epoch);
        p[BATCH_AT_MAGIC] = 2;
        p[BATCH_AT_ATTRIBUTES] = (uint8_t)(attributes >> 8);
        p[BATCH_AT_ATTRIBUTES + 1] = (uint8_t)attributes;
        ls_set_be32(p + BATCH_AT_LAST_OFFSET_DELTA, (uint32_t)(last_offset - b->base_offset));
        ls_set_be64(p + BATCH_AT_BASE_TIMESTAMP, (uint64_t)b->base_timestamp);
        ls_set_be64(p + BATCH_AT_MAX_TIMESTAMP, (uint64_t)b->max_timestamp);
        memset(p + BATCH_AT_PRODUCER_ID, 0xff, 14); /* no producer: id, epoch and sequence -1 */
        ls_set_be32(p + BATCH_AT_COUNT, (uint32_t)b->count);
        ls_set_be32(p + BATCH_AT_CRC, ls_crc32c(0, (ls_span){ p + BATCH_AT_ATTRIBUTES,
                                                              bytes - BATCH_AT_ATTRIBUTES }));
}

ls_err
ls_batch_builder_end(struct ls_batch_builder *b, int64_t last_offset, size_t *ret_bytes)
{
        struct ls_buf *out = b->out;
        size_t bytes;
        ls_err e = LS_OK;

        LS_ASSERT(out != NULL);
        LS_ASSERT(last_offset < 0 || last_offset >= b->last_offset);
        if (last_offset < 0)
                last_offset = b->last_offset;
        b->out = NULL;
        if (last_offset < 0) { /* neither a record nor a gap */
                out->len = b->out_start;
                if (ret_bytes != NULL)
                        *ret_bytes = 0;
                return LS_OK;
        }
        LS_ASSERT(b->base_offset >= 0);
        LS_ASSERT(last_offset >= b->base_offset && last_offset - b->base_offset <= INT32_MAX);
        if (out->len < b->out_start + LS_BATCH_HEADER_BYTES)
                return LS_TOO_LARGE;
        if (b->count > 0 && b->cfg.codec != LS_CODEC_NONE) {
                if (b->packer == NULL)
                        b->packer = ls_packer_new();
                e = ls_packer_run(b->packer, b->cfg.codec, b->cfg.level, ls_buf_span(&b->body),
                                  out);
        }
        bytes = out->len - b->out_start;
        if (e == LS_OK && bytes - LS_BATCH_PREFIX_BYTES > INT32_MAX)
                e = LS_TOO_LARGE;
        if (e != LS_OK) {
                out->len = b->out_start;
                return e;
        }
        builder_header(b, out->ptr + b->out_start, bytes, last_offset);
        if (ret_bytes != NULL)
                *ret_bytes = bytes;
        return LS_OK;
}
