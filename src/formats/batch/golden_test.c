/* formats/batch/golden_test.c - batches of the Apache Kafka Java client: every record is what was
 * put in, all codecs agree, and the hash sums are those an independent program computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/batch/batch.h"
#include "formats/batch/batch_test.h"
#include "formats/batch/golden_batches.h"

#define T 1700000000000

static struct ls_buf
unhex(const char *hex)
{
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        for (; *hex != '\0'; hex += 2) {
                unsigned hi = (unsigned)(hex[0] <= '9' ? hex[0] - '0' : hex[0] - 'a' + 10);
                unsigned lo = (unsigned)(hex[1] <= '9' ? hex[1] - '0' : hex[1] - 'a' + 10);

                ls_buf_put_u8(&b, (uint8_t)(hi << 4 | lo));
        }
        return b;
}

static struct ls_batch_info
validate_ok(ls_span batch)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_info info;
        struct ls_batch_fault fault = { 0 };
        ls_err e = ls_batch_validate(NULL, batch, &check, &info, &fault);

        if (e != LS_OK)
                print_message("%s: %s\n", ls_err_name(e), fault.info.text);
        assert_int_equal(e, LS_OK);
        return info;
}

/* 0 null, 1 empty, 2 the byte `one`. */
static void
check_three(ls_span s, int which, char one)
{
        assert_int_equal(s.ptr == NULL, which == 0);
        assert_int_equal(s.len, which == 2);
        if (which == 2)
                assert_int_equal(s.ptr[0], one);
}

/* 27 combinations of null, empty and one byte in key, value and header value; then a record without
 * headers and the smallest timestamp; then one with a doubled header and an empty one (B007). */
static void
test_nulls(void **state)
{
        static const char *const golden[] = { golden_nulls_none, golden_nulls_gzip,
                                              golden_nulls_snappy, golden_nulls_lz4,
                                              golden_nulls_zstd };
        struct ls_batch_iter it;

        ls_batch_iter_init(&it, 0);
        for (size_t g = 0; g < LS_COUNT(golden); g++) {
                struct ls_buf b = unhex(golden[g]);
                struct ls_batch_info info = validate_ok(ls_buf_span(&b));
                struct ls_record r;
                struct ls_rd cursor;
                ls_str key = LS_STR_NULL;
                ls_span value;

                assert_int_equal(ls_batch_codec(&info.header), (int)g);
                assert_int_equal(info.header.count, 29);
                assert_int_equal(info.header.leader_epoch, 7);
                assert_int_equal(info.max_timestamp, T + 100);
                assert_int_equal(info.min_timestamp, T - 5);
                assert_int_equal(info.max_timestamp_delta, 28);
                assert_false(info.fix_timestamps);
                assert_true(info.sum0 == 0x0e9eeed2acecd5fcu);
                assert_true(info.sum1 == 0xd2600b8f18287497u);
                assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_OK);
                for (int i = 0; i < 27; i++) {
                        assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
                        assert_int_equal(r.offset, i);
                        assert_int_equal(r.timestamp, T + i);
                        check_three(r.key, i / 9, 'k');
                        check_three(r.value, i / 3 % 3, 'v');
                        assert_int_equal(r.header_count, 1);
                        cursor = ls_rd_of(r.headers);
                        assert_true(ls_record_header_next(&cursor, &key, &value));
                        assert_true(ls_str_is(key, "h"));
                        check_three(value, i % 3, 'x');
                        assert_false(ls_record_header_next(&cursor, &key, &value));
                }
                assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
                assert_int_equal(r.timestamp, T - 5);
                assert_int_equal(r.header_count, 0);
                assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
                assert_int_equal(r.header_count, 3);
                cursor = ls_rd_of(r.headers);
                assert_true(ls_record_header_next(&cursor, &key, &value));
                assert_true(ls_str_is(key, "a") && value.len == 1 && value.ptr[0] == '1');
                assert_true(ls_record_header_next(&cursor, &key, &value));
                assert_true(ls_str_is(key, "a") && value.len == 1 && value.ptr[0] == '2');
                assert_true(ls_record_header_next(&cursor, &key, &value));
                assert_true(key.ptr != NULL && key.len == 0 && value.ptr == NULL);
                assert_false(ls_record_header_next(&cursor, &key, &value));
                assert_int_equal(ls_batch_iter_next(&it, &r), LS_END);
                ls_buf_done(&b);
        }
        ls_batch_iter_done(&it);
}

/* 200 kB in four records: with snappy several blocks, records lying across them (B004). */
static void
test_big(void **state)
{
        static const char *const golden[] = { golden_big_gzip, golden_big_snappy, golden_big_lz4,
                                              golden_big_zstd };
        struct ls_batch_iter it;

        ls_batch_iter_init(&it, 0);
        for (size_t g = 0; g < LS_COUNT(golden); g++) {
                struct ls_buf b = unhex(golden[g]);
                struct ls_batch_info info = validate_ok(ls_buf_span(&b));
                struct ls_record r;

                assert_int_equal(ls_batch_codec(&info.header), (int)g + 1);
                assert_true(info.sum0 == 0x0072cd0891b0046cu);
                assert_true(info.sum1 == 0xd1222111246f3697u);
                assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_OK);
                for (size_t i = 0; i < 4; i++) {
                        char text[] = "lakestream 0 ";

                        text[11] = (char)('0' + i);
                        assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
                        assert_int_equal(r.offset, 1000 + i);
                        assert_int_equal(r.value.len, 20000 * (i + 1));
                        for (size_t k = 0; k < r.value.len; k++)
                                assert_int_equal(r.value.ptr[k], text[k % 13]);
                }
                assert_int_equal(ls_batch_iter_next(&it, &r), LS_END);
                ls_buf_done(&b);
        }
        ls_batch_iter_done(&it);
}

static void
test_flags(void **state)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_info info;
        struct ls_batch_fault fault;
        struct ls_batch_iter it;
        struct ls_record r;
        struct ls_buf b = unhex(golden_producer);

        info = validate_ok(ls_buf_span(&b));
        assert_true(info.transactional);
        assert_int_equal(info.header.producer_id, 4711);
        assert_int_equal(info.header.producer_epoch, 3);
        assert_int_equal(info.header.base_sequence, 100);
        assert_true(info.sum0 == 0xc069e2cc3560d3beu && info.sum1 == 0xe58005be139f9b80u);
        ls_buf_done(&b);

        b = unhex(golden_control);
        assert_int_equal(ls_batch_validate(NULL, ls_buf_span(&b), &check, &info, &fault),
                         LS_INVALID);
        assert_int_equal(fault.record, -1);
        check.allow_control = true;
        assert_int_equal(ls_batch_validate(NULL, ls_buf_span(&b), &check, &info, NULL), LS_OK);
        assert_true(info.control && info.transactional);
        assert_int_equal(info.header.base_offset, 50);
        ls_buf_done(&b);

        b = unhex(golden_append_time);
        assert_int_equal(ls_batch_validate(NULL, ls_buf_span(&b), &check, &info, NULL),
                         LS_TIMESTAMP);
        ls_batch_iter_init(&it, 0);
        assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_OK);
        for (int i = 0; i < 2; i++) { /* both have the batch's time */
                assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
                assert_int_equal(r.timestamp, it.header.max_timestamp);
        }
        ls_batch_iter_done(&it);
        ls_buf_done(&b);
}

/* B009: refused, by every way in. */
static void
test_old_formats(void **state)
{
        static const char *const golden[] = { golden_magic0, golden_magic1 };
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_info info;
        struct ls_batch_iter it;

        ls_batch_iter_init(&it, 0);
        for (size_t g = 0; g < 2; g++) {
                struct ls_buf b = unhex(golden[g]);

                assert_int_equal(ls_batch_validate(NULL, ls_buf_span(&b), &check, &info, NULL),
                                 LS_UNSUPPORTED);
                assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_UNSUPPORTED);
                ls_buf_done(&b);
        }
        ls_batch_iter_done(&it);
}

/* The hash is a stored format: these numbers never change (independent program, XXH3 of PyPI). */
static void
test_hash_fixed(void **state)
{
        struct ls_buf headers;
        struct ls_record r = { .timestamp = T };

        ls_buf_init(&headers, LS_BUF_MAX_DEFAULT);
        ls_record_header_put(&headers, LS_STR("a"), ls_span_of("1", 1));
        ls_record_header_put(&headers, LS_STR("a"), ls_span_of("2", 1));
        ls_record_header_put(&headers, LS_STR(""), LS_SPAN_NULL);
        r.key = ls_span_of("key", 3);
        r.value = ls_span_of("value", 5);
        r.header_count = 3;
        r.headers = ls_buf_span(&headers);
        assert_true(ls_record_hash(&r) == 0x796bd46544d72f34u);
        ls_buf_done(&headers);
        r = (struct ls_record){ .timestamp = -1 };
        assert_true(ls_record_hash(&r) == 0x8130262fccdd4f0bu);
        r.key = r.value = ls_span_of("", 0);
        assert_true(ls_record_hash(&r) == 0x40ea46b4403f2567u);
}

int
golden_tests(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_nulls),      cmocka_unit_test(test_big),
                cmocka_unit_test(test_flags),      cmocka_unit_test(test_old_formats),
                cmocka_unit_test(test_hash_fixed),
        };

        return cmocka_run_group_tests_name("golden", tests, NULL, NULL);
}
