/* fuzz/batch_fuzz.c - record batches from outside: header, walk and iterator on any bytes.
 *
 * The first byte chooses: bit 0 mends the CRC (else nearly nothing gets past it), bit 1 takes the
 * header only, bit 2 needs keys, bit 3 log append time. What the walk accepts the iterator must read
 * to the end with the same sums; building it again must give the same records. */
#include <stdint.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "formats/batch/batch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
check_accepted(ls_span batch, const struct ls_batch_info *info, bool log_append_time)
{
        struct ls_batch_build cfg = { .records_bytes_max = 1 << 30 };
        struct ls_batch_builder builder;
        struct ls_batch_info again;
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_iter it;
        struct ls_record r;
        struct ls_buf out;
        uint64_t sum0 = 0, sum1 = 0, i = 0;
        ls_err e;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_batch_builder_init(&builder, &cfg);
        ls_batch_iter_init(&it, 1 << 20);
        LS_ASSERT(ls_batch_iter_open(&it, batch, true) == LS_OK);
        ls_batch_builder_begin(&builder, &out, 0);
        while ((e = ls_batch_iter_next(&it, &r)) == LS_OK) {
                uint64_t h;

                r.offset -= info->header.base_offset;
                if (log_append_time)
                        r.timestamp = info->max_timestamp;
                h = ls_record_hash(&r);
                sum0 += h;
                sum1 += h * i++;
                if (ls_batch_builder_add(&builder, &r) != LS_OK)
                        break; /* timestamps too far apart */
        }
        if (e == LS_END) {
                LS_ASSERT(sum0 == info->sum0 && sum1 == info->sum1);
                LS_ASSERT(ls_batch_builder_end(&builder, -1, NULL) == LS_OK);
                LS_ASSERT(ls_batch_validate(NULL, ls_buf_span(&out), &check, &again, NULL) ==
                          LS_OK);
                LS_ASSERT(again.sum0 == sum0 && again.sum1 == sum1);
                LS_ASSERT(again.max_timestamp == info->max_timestamp);
        } else {
                LS_ASSERT(e == LS_OK); /* the walk accepted it: the iterator finds no fault */
        }
        ls_batch_iter_done(&it);
        ls_batch_builder_done(&builder);
        ls_buf_done(&out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_fault fault;
        struct ls_batch_info info;
        struct ls_batch_header h;
        struct ls_batch_iter it;
        struct ls_record r;
        ls_span rest, batch;
        uint8_t *bytes;

        if (size == 0)
                return 0;
        check.depth = data[0] & 2 ? LS_BATCH_HEADER_ONLY : LS_BATCH_FULL;
        check.need_keys = (data[0] & 4) != 0;
        check.log_append_time = (data[0] & 8) != 0;
        check.now_ms = 1700000000000;
        check.unpacked_bytes_max = 1 << 20;
        bytes = ls_malloc(size);
        memcpy(bytes, data + 1, size - 1);
        rest = (ls_span){ bytes, size - 1 };
        while (ls_batch_next(&rest, &batch, &h) == LS_OK) {
                if (data[0] & 1)
                        ls_set_be32(bytes + (batch.ptr - bytes) + 17,
                                    ls_crc32c(0, (ls_span){ batch.ptr + 21, batch.len - 21 }));
                /* exact copies, so that a step past the end is seen */
                uint8_t *exact = ls_malloc(batch.len);
                memcpy(exact, batch.ptr, batch.len);
                batch.ptr = exact;
                if (ls_batch_validate(NULL, batch, &check, &info, &fault) == LS_OK &&
                    info.has_sums && h.base_offset >= 0 &&
                    h.base_offset <= INT64_MAX - h.last_offset_delta)
                        check_accepted(batch, &info, check.log_append_time);
                ls_batch_iter_init(&it, 1 << 20);
                if (ls_batch_iter_open(&it, batch, false) == LS_OK) {
                        while (ls_batch_iter_next(&it, &r) == LS_OK)
                                ls_record_hash(&r);
                }
                ls_batch_iter_done(&it);
                ls_free(exact);
        }
        ls_free(bytes);
        return 0;
}
