/* formats/batch/iter.c - iterate the records of one batch.
 *
 * Bytes may come from a disk: everything is checked as it is read, and the checks that concern the
 * batch as a whole (count, last offset) are made at the end of the iteration.
 */
#include "base/assert.h"
#include "formats/batch/limits.h"
#include "formats/batch/record_int.h"

void
ls_batch_iter_init(struct ls_batch_iter *it, uint64_t unpacked_bytes_max)
{
        *it = (struct ls_batch_iter){
                .unpacked_bytes_max =
                        unpacked_bytes_max ? unpacked_bytes_max : BATCH_UNPACKED_BYTES_MAX,
        };
        ls_buf_init(&it->unpacked, LS_BUF_MAX_DEFAULT);
}

void
ls_batch_iter_done(struct ls_batch_iter *it)
{
        if (it == NULL)
                return;
        ls_buf_done(&it->unpacked);
        ls_unpacker_free(it->unpacker);
        *it = (struct ls_batch_iter){ 0 };
}

static ls_err
iter_unpack(struct ls_batch_iter *it, ls_span records)
{
        ls_err e;

        if (it->unpacker == NULL)
                it->unpacker = ls_unpacker_new();
        ls_buf_clear(&it->unpacked);
        e = ls_unpacker_start(it->unpacker, ls_batch_codec(&it->header), records,
                              it->unpacked_bytes_max);
        if (e == LS_OK)
                e = ls_unpacker_read_all(it->unpacker, &it->unpacked);
        if (e != LS_OK)
                return e;
        it->rd = ls_rd_of(ls_buf_span(&it->unpacked));
        return LS_OK;
}

ls_err
ls_batch_iter_open(struct ls_batch_iter *it, ls_span batch, bool check_crc)
{
        struct ls_batch_header *h = &it->header;
        ls_err e = ls_batch_peek(batch, h);
        ls_span records;

        it->rd = ls_rd_of(LS_SPAN_NULL);
        it->index = 0;
        if (e != LS_OK)
                return e == LS_END ? LS_CORRUPT : e;
        if (h->bytes != batch.len || h->count < 0 || h->last_offset_delta < 0 ||
            h->base_offset < 0 || h->base_offset > INT64_MAX - h->last_offset_delta)
                return LS_CORRUPT;
        if (check_crc && ls_batch_check_crc(batch) != LS_OK)
                return LS_CORRUPT;
        it->offset_last = h->base_offset - 1;
        records = (ls_span){ batch.ptr + LS_BATCH_HEADER_BYTES, batch.len - LS_BATCH_HEADER_BYTES };
        if (ls_batch_codec(h) == LS_CODEC_NONE)
                it->rd = ls_rd_of(records);
        else if (h->count > 0) /* an empty batch has no stream at all */
                e = iter_unpack(it, records);
        return e;
}

ls_err
ls_batch_iter_next(struct ls_batch_iter *it, struct ls_record *ret_record)
{
        const struct ls_batch_header *h = &it->header;
        int64_t timestamp_delta = 0, offset_delta = 0;
        ls_span body;

        if (it->index == h->count)
                return ls_rd_left(&it->rd) == 0 ? LS_END : LS_CORRUPT;
        body = record_bytes(&it->rd, record_length(&it->rd, 0));
        if (it->rd.failed || !record_parse(body, &timestamp_delta, &offset_delta, ret_record))
                return LS_CORRUPT;
        if (offset_delta < 0 || offset_delta > h->last_offset_delta ||
            h->base_offset + offset_delta <= it->offset_last)
                return LS_CORRUPT;
        if (h->attributes & LS_BATCH_LOG_APPEND_TIME)
                ret_record->timestamp = h->max_timestamp;
        else if (__builtin_add_overflow(h->base_timestamp, timestamp_delta, &ret_record->timestamp))
                return LS_CORRUPT;
        ret_record->offset = h->base_offset + offset_delta;
        it->offset_last = ret_record->offset;
        it->index++;
        return LS_OK;
}
