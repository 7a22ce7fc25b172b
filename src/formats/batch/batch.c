/* formats/batch/batch.c - the batch's header: read it, check its CRC, change it in place. */
#include "formats/batch/batch.h"

#include "base/assert.h"
#include "base/crc32c.h"
#include "formats/batch/record_int.h"

#define BATCH_LENGTH_MIN (LS_BATCH_HEADER_BYTES - LS_BATCH_PREFIX_BYTES)

static uint64_t
batch_bytes(const uint8_t *batch)
{
        return (uint64_t)ls_get_be32(batch + BATCH_AT_LENGTH) + LS_BATCH_PREFIX_BYTES;
}

static uint16_t
batch_attributes(const uint8_t *batch)
{
        return ls_get_be16(batch + BATCH_AT_ATTRIBUTES);
}

ls_err
ls_batch_peek_bytes(ls_span s, uint64_t *ret_bytes)
{
        uint32_t length;

        if (s.len < LS_BATCH_PREFIX_BYTES)
                return LS_END;
        length = ls_get_be32(s.ptr + BATCH_AT_LENGTH);
        if (length > INT32_MAX || length < BATCH_LENGTH_MIN)
                return LS_CORRUPT;
        *ret_bytes = batch_bytes(s.ptr);
        return LS_OK;
}

ls_err
ls_batch_peek(ls_span s, struct ls_batch_header *ret_header)
{
        const uint8_t *p = s.ptr;
        uint64_t bytes = 0;

        if (s.len == 0)
                return LS_END;
        if (s.len <= BATCH_AT_MAGIC)
                return LS_CORRUPT;
        if (p[BATCH_AT_MAGIC] != 2) /* it stands at the same place in all versions */
                return LS_UNSUPPORTED;
        if (ls_batch_peek_bytes(s, &bytes) != LS_OK || bytes > s.len)
                return LS_CORRUPT;
        *ret_header = (struct ls_batch_header){
                .base_offset = (int64_t)ls_get_be64(p + BATCH_AT_BASE_OFFSET),
                .bytes = bytes,
                .leader_epoch = (int32_t)ls_get_be32(p + BATCH_AT_LEADER_EPOCH),
                .crc = ls_get_be32(p + BATCH_AT_CRC),
                .attributes = batch_attributes(p),
                .last_offset_delta = (int32_t)ls_get_be32(p + BATCH_AT_LAST_OFFSET_DELTA),
                .base_timestamp = (int64_t)ls_get_be64(p + BATCH_AT_BASE_TIMESTAMP),
                .max_timestamp = (int64_t)ls_get_be64(p + BATCH_AT_MAX_TIMESTAMP),
                .producer_id = (int64_t)ls_get_be64(p + BATCH_AT_PRODUCER_ID),
                .producer_epoch = (int16_t)ls_get_be16(p + BATCH_AT_PRODUCER_EPOCH),
                .base_sequence = (int32_t)ls_get_be32(p + BATCH_AT_BASE_SEQUENCE),
                .count = (int32_t)ls_get_be32(p + BATCH_AT_COUNT),
        };
        return LS_OK;
}

ls_err
ls_batch_next(ls_span *s, ls_span *ret_batch, struct ls_batch_header *ret_header)
{
        ls_err e = ls_batch_peek(*s, ret_header);

        if (e != LS_OK)
                return e;
        *ret_batch = (ls_span){ s->ptr, ret_header->bytes };
        s->ptr += ret_header->bytes;
        s->len -= ret_header->bytes;
        return LS_OK;
}

static uint32_t
batch_crc(const uint8_t *batch, size_t bytes)
{
        return ls_crc32c(0, (ls_span){ batch + BATCH_AT_ATTRIBUTES, bytes - BATCH_AT_ATTRIBUTES });
}

ls_err
ls_batch_check_crc(ls_span batch)
{
        LS_ASSERT(batch.len >= LS_BATCH_HEADER_BYTES);
        return batch_crc(batch.ptr, batch.len) == ls_get_be32(batch.ptr + BATCH_AT_CRC)
                       ? LS_OK
                       : LS_CORRUPT;
}

void
ls_batch_set_base_offset(uint8_t *batch, int64_t base_offset, int32_t leader_epoch)
{
        ls_set_be64(batch + BATCH_AT_BASE_OFFSET, (uint64_t)base_offset);
        ls_set_be32(batch + BATCH_AT_LEADER_EPOCH, (uint32_t)leader_epoch);
}

void
ls_batch_set_timestamps(uint8_t *batch, size_t bytes, bool log_append_time, int64_t max_timestamp)
{
        uint16_t attributes;

        LS_ASSERT(bytes >= LS_BATCH_HEADER_BYTES);
        LS_ASSERT(batch_bytes(batch) == bytes);
        attributes = batch_attributes(batch);
        if (log_append_time)
                attributes |= LS_BATCH_LOG_APPEND_TIME;
        else
                attributes &= (uint16_t)~LS_BATCH_LOG_APPEND_TIME;
        batch[BATCH_AT_ATTRIBUTES] = (uint8_t)(attributes >> 8);
        batch[BATCH_AT_ATTRIBUTES + 1] = (uint8_t)attributes;
        ls_set_be64(batch + BATCH_AT_MAX_TIMESTAMP, (uint64_t)max_timestamp);
        ls_set_be32(batch + BATCH_AT_CRC, batch_crc(batch, bytes));
}
