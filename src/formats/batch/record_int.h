/* formats/batch/record_int.h - inside formats/batch only: one record's bytes, and the pieces of its
 * hash, shared by the walk and the iterator. */
#pragma once
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "formats/batch/batch.h"

/* Offsets in the header. */
enum {
        BATCH_AT_BASE_OFFSET = 0,
        BATCH_AT_LENGTH = 8,
        BATCH_AT_LEADER_EPOCH = 12,
        BATCH_AT_MAGIC = 16,
        BATCH_AT_CRC = 17,
        BATCH_AT_ATTRIBUTES = 21, /* the CRC covers from here to the end */
        BATCH_AT_LAST_OFFSET_DELTA = 23,
        BATCH_AT_BASE_TIMESTAMP = 27,
        BATCH_AT_MAX_TIMESTAMP = 35,
        BATCH_AT_PRODUCER_ID = 43,
        BATCH_AT_PRODUCER_EPOCH = 51,
        BATCH_AT_BASE_SEQUENCE = 53,
        BATCH_AT_COUNT = 57,
};

/* Most numbers of a record take one byte. */
static inline int64_t
record_varint(struct ls_rd *rd)
{
        if (__builtin_expect(rd->pos < rd->end && *rd->pos < 0x80 && !rd->failed, 1)) {
                uint8_t v = *rd->pos++;

                return (v >> 1) ^ -(int64_t)(v & 1);
        }
        return ls_rd_varint(rd);
}
/* A length: -1 is null and allowed only then; anything that is no int32 fails. */
static inline int64_t
record_length(struct ls_rd *rd, int64_t min)
{
        int64_t v = record_varint(rd);

        if (__builtin_expect(v < min || v > INT32_MAX, 0))
                rd->failed = true;
        return v;
}
static inline ls_span
record_bytes(struct ls_rd *rd, int64_t len)
{
        return len < 0 ? LS_SPAN_NULL : ls_rd_span(rd, (size_t)len);
}

/* Parses a record's body (what stands behind its length), which must fill `body` exactly; sets all
 * but offset and timestamp. False: malformed. */
static inline bool
record_parse(ls_span body, int64_t *ret_timestamp_delta, int64_t *ret_offset_delta,
             struct ls_record *ret_record)
{
        struct ls_rd rd = ls_rd_of(body);
        int64_t count;

        ls_rd_u8(&rd); /* attributes: no bit has a meaning yet, any is allowed */
        *ret_timestamp_delta = record_varint(&rd);
        *ret_offset_delta = record_length(&rd, INT32_MIN);
        ret_record->key = record_bytes(&rd, record_length(&rd, -1));
        ret_record->value = record_bytes(&rd, record_length(&rd, -1));
        count = record_length(&rd, 0);
        if (rd.failed || (uint64_t)count * 2 > ls_rd_left(&rd)) /* a header takes two bytes */
                return false;
        ret_record->header_count = (uint32_t)count;
        ret_record->headers = (ls_span){ rd.pos, ls_rd_left(&rd) };
        for (int64_t i = 0; i < count; i++) {
                record_bytes(&rd, record_length(&rd, 0));
                record_bytes(&rd, record_length(&rd, -1));
        }
        return !rd.failed && ls_rd_left(&rd) == 0;
}

/* --- the hash, version 1: docs/formats/record_batch.md ---------------------------------------- */

static inline uint64_t
hash_bytes(ls_span s)
{
        return s.ptr == NULL ? 0 : XXH3_64bits(s.ptr, s.len);
}
static inline int64_t
hash_length(ls_span s)
{
        return s.ptr == NULL ? -1 : (int64_t)s.len;
}
/* The chain over headers so far, with one more. */
static inline uint64_t
hash_header(uint64_t chain, int64_t key_len, int64_t value_len, uint64_t key, uint64_t value)
{
        uint8_t block[40];

        ls_set_le64(block, chain);
        ls_set_le64(block + 8, (uint64_t)key_len);
        ls_set_le64(block + 16, (uint64_t)value_len);
        ls_set_le64(block + 24, key);
        ls_set_le64(block + 32, value);
        return XXH3_64bits(block, sizeof block);
}
struct hash_parts {
        int64_t timestamp, key_len, value_len;
        uint64_t header_count, key, value, headers;
};
static inline uint64_t
hash_record(const struct hash_parts *p)
{
        uint8_t block[56];

        ls_set_le64(block, (uint64_t)p->timestamp);
        ls_set_le64(block + 8, (uint64_t)p->key_len);
        ls_set_le64(block + 16, (uint64_t)p->value_len);
        ls_set_le64(block + 24, p->header_count);
        ls_set_le64(block + 32, p->key);
        ls_set_le64(block + 40, p->value);
        ls_set_le64(block + 48, p->headers);
        return XXH3_64bits(block, sizeof block);
}
