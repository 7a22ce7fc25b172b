/* base/base_test.c - proves: buffers stop at their maximum, cursors never pass the end, varints
 * round-trip, CRC-32C matches RFC 3720, the map keeps what it was given through removals, arenas
 * are bounded, uuids round-trip. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/budget.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/map.h"
#include "base/metric.h"
#include "base/rd.h"
#include "base/slice.h"
#include "base/uuid.h"

static void
test_buf_stops_at_max(void **state)
{
        struct ls_buf b;

        ls_buf_init(&b, 10);
        ls_buf_put(&b, "123456789", 9);
        assert_false(ls_buf_failed(&b));
        ls_buf_put(&b, "ab", 2);
        assert_true(ls_buf_failed(&b));
        ls_buf_put_u8(&b, 1);
        assert_int_equal(b.len, 9);
        ls_buf_done(&b);
}

static void
test_varint_round_trip(void **state)
{
        const int64_t values[] = {
                0, -1, 1, 63, -64, 64, INT64_MAX, INT64_MIN, 1 << 20, -5000000000
        };

        for (size_t i = 0; i < LS_COUNT(values); i++) {
                struct ls_buf b;
                struct ls_rd r;

                ls_buf_init(&b, 100);
                ls_buf_put_varint(&b, values[i]);
                assert_int_equal(b.len, ls_varint_size(values[i]));
                r = ls_rd_of(ls_buf_span(&b));
                assert_true(ls_rd_varint(&r) == values[i]);
                assert_false(r.failed);
                assert_int_equal(ls_rd_left(&r), 0);
                r = ls_rd_of(ls_span_of(b.ptr, b.len - 1));
                ls_rd_varint(&r);
                assert_true(r.failed);
                ls_buf_done(&b);
        }
}

static void
test_varint_too_long(void **state)
{
        const uint8_t bad[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02 };
        struct ls_rd r = ls_rd_of(ls_span_of(bad, sizeof bad));

        ls_rd_uvarint(&r);
        assert_true(r.failed);
}

static void
test_crc32c_vectors(void **state)
{
        uint8_t bytes[32] = { 0 };

        /* RFC 3720, B.4 */
        assert_int_equal(ls_crc32c(0, ls_span_of(bytes, 32)), 0x8a9136aa);
        memset(bytes, 0xff, 32);
        assert_int_equal(ls_crc32c(0, ls_span_of(bytes, 32)), 0x62a8ab43);
        for (uint8_t i = 0; i < 32; i++)
                bytes[i] = i;
        assert_int_equal(ls_crc32c(0, ls_span_of(bytes, 32)), 0x46dd794e);
        assert_int_equal(ls_crc32c(ls_crc32c(0, ls_span_of(bytes, 5)), ls_span_of(bytes + 5, 27)),
                         0x46dd794e);
}

/* The definition, a bit at a time. */
static uint32_t
crc_by_bits(uint32_t crc, const uint8_t *p, size_t n)
{
        crc = ~crc;
        for (size_t i = 0; i < n; i++) {
                crc ^= p[i];
                for (int k = 0; k < 8; k++)
                        crc = crc & 1 ? (crc >> 1) ^ 0x82f63b78u : crc >> 1;
        }
        return ~crc;
}

/* Each way in which an input is cut into lanes, from places that are aligned and not. */
static void
test_crc32c_lengths(void **state)
{
        static uint8_t bytes[20000];
        uint32_t want = 0x12345678;

        for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (uint8_t)(i * 2654435761u >> 11);
        for (size_t at = 0; at < 3; at++) {
                want = 0x12345678;
                for (size_t n = 0; at + n < sizeof bytes; n++) {
                        if (n < 2500 || n % 97 == 0 || n % 6144 < 3)
                                assert_int_equal(ls_crc32c(0x12345678, ls_span_of(bytes + at, n)),
                                                 want);
                        want = crc_by_bits(want, bytes + at + n, 1);
                }
        }
}

static void
test_map_through_removals(void **state)
{
        struct ls_map m;
        size_t pos = 0, seen = 0;

        ls_map_init(&m);
        for (uint64_t i = 0; i < 1000; i++)
                assert_null(ls_map_set(&m, ls_map_key_u64(&i), (void *)(uintptr_t)(i + 1)));
        for (uint64_t i = 0; i < 1000; i += 3)
                assert_ptr_equal(ls_map_remove(&m, ls_map_key_u64(&i)), (void *)(uintptr_t)(i + 1));
        for (uint64_t i = 0; i < 1000; i++) {
                void *want = i % 3 ? (void *)(uintptr_t)(i + 1) : NULL;

                assert_ptr_equal(ls_map_get(&m, ls_map_key_u64(&i)), want);
        }
        while (ls_map_next(&m, &pos) != NULL)
                seen++;
        assert_int_equal(seen, m.count);
        ls_map_done(&m);
}

static void
test_arena_bounded(void **state)
{
        struct ls_arena a;

        ls_arena_init(&a, 10000);
        assert_non_null(ls_arena_alloc(&a, 100));
        assert_null(ls_arena_alloc(&a, 20000));
        assert_null(ls_arena_array(&a, SIZE_MAX / 2, 8));
        assert_non_null(ls_arena_alloc(&a, 100));
        ls_arena_reset(&a);
        assert_string_equal(ls_arena_printf(&a, "%d-%s", 7, "x").ptr, "7-x");
        ls_arena_done(&a);
}

static void
test_uuid_round_trip(void **state)
{
        uint8_t random[16];
        char text[LS_UUID_TEXT_BYTES];
        ls_uuid u, again;

        ls_random(random, sizeof random);
        u = ls_uuid_v4(random);
        ls_uuid_text(u, text);
        assert_true(ls_uuid_parse(ls_str_of(text), &again));
        assert_true(ls_uuid_eq(u, again));
        text[8] = 'x';
        assert_false(ls_uuid_parse(ls_str_of(text), &again));
}

static void
test_str_to_i64(void **state)
{
        int64_t v;

        assert_true(ls_str_to_i64(LS_STR("-9223372036854775808"), INT64_MIN, INT64_MAX, &v));
        assert_true(v == INT64_MIN);
        assert_false(ls_str_to_i64(LS_STR("9223372036854775808"), INT64_MIN, INT64_MAX, &v));
        assert_false(ls_str_to_i64(LS_STR("12x"), INT64_MIN, INT64_MAX, &v));
        assert_false(ls_str_to_i64(LS_STR(""), INT64_MIN, INT64_MAX, &v));
        assert_false(ls_str_to_i64(LS_STR("11"), 0, 10, &v));
}

static void
test_budget(void **state)
{
        struct ls_budget whole, part;

        ls_budget_init(&whole, 100, NULL);
        ls_budget_init(&part, 80, &whole);
        assert_true(ls_budget_charge(&part, 60));
        assert_false(ls_budget_charge(&part, 30));
        assert_true(ls_budget_charge(&whole, 40));
        assert_false(ls_budget_charge(&part, 10));
        assert_int_equal(ls_budget_used(&part), 60);
        ls_budget_uncharge(&part, 60);
        assert_int_equal(ls_budget_used(&whole), 40);
}

static void
test_slice_views_hold_their_parent(void **state)
{
        struct ls_slice *s = ls_slice_copy(ls_span_of("hello world", 11));
        struct ls_slice *view = ls_slice_view(s, 6, 5);

        ls_slice_unref(s);
        assert_memory_equal(view->ptr, "world", 5);
        ls_slice_unref(view);
}

static void
test_metric_print(void **state)
{
        static LS_METRIC(m, COUNTER, "lakestream_test_total", "Test.");
        static LS_METRIC_SECONDS(h, "lakestream_test_seconds", "Test.");
        struct ls_buf b;

        ls_buf_init(&b, 1 << 20);
        ls_metric_add(&m, 3);
        ls_metric_series_add(ls_metric_with(&m, "topic", LS_STR("a\"b")), 4);
        ls_metric_observe(&h, 70000);
        ls_metric_print(&b);
        assert_non_null(strstr(ls_buf_cstr(&b), "lakestream_test_total 3\n"));
        assert_non_null(strstr(ls_buf_cstr(&b), "lakestream_test_total{topic=\"a\\\"b\"} 4\n"));
        assert_non_null(
                strstr(ls_buf_cstr(&b), "lakestream_test_seconds_bucket{le=\"0.0001\"} 1\n"));
        ls_buf_done(&b);
}

/* Past the bound a counter's labels share one series, a gauge's are not shown; what is there
 * already keeps its own; what is forgotten is not shown. */
static void
test_metric_series_bound(void **state)
{
        static LS_METRIC(counter, COUNTER, "test_bound_total", "of a test");
        static LS_METRIC(gauge, GAUGE, "test_bound", "of a test");
        struct ls_metric_series *first = ls_metric_with(&counter, "n", LS_STR("0")), *other;
        char name[16];
        struct ls_buf b;

        for (int i = 0; i < LS_METRIC_SERIES_MAX; i++) {
                snprintf(name, sizeof name, "%d", i);
                ls_metric_with(&counter, "n", ls_str_of(name));
                ls_metric_set_with(&gauge, "n", ls_str_of(name), i);
        }
        other = ls_metric_with(&counter, "n", LS_STR("above"));
        assert_string_equal(other->labels, "n=\"other\"");
        assert_ptr_equal(ls_metric_with(&counter, "n", LS_STR("above too")), other);
        assert_ptr_equal(ls_metric_with(&counter, "n", LS_STR("0")), first);
        ls_metric_set_with(&gauge, "n", LS_STR("above"), 7);
        ls_metric_set_with(&gauge, "n", LS_STR("5"), 55);
        ls_metric_forget(&gauge, "n", LS_STR("6"));
        ls_metric_forget(&gauge, "n", LS_STR("never there"));
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        ls_metric_print(&b);
        assert_non_null(strstr(ls_buf_cstr(&b), "test_bound{n=\"5\"} 55\n"));
        assert_null(strstr(ls_buf_cstr(&b), "test_bound{n=\"6\"}"));
        assert_null(strstr(ls_buf_cstr(&b), "test_bound{n=\"above\"}"));
        ls_metric_set_with(&gauge, "n", LS_STR("above"), 7); /* there is room again */
        ls_buf_clear(&b);
        ls_metric_print(&b);
        assert_non_null(strstr(ls_buf_cstr(&b), "test_bound{n=\"above\"} 7\n"));
        ls_buf_done(&b);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_buf_stops_at_max),
                cmocka_unit_test(test_varint_round_trip),
                cmocka_unit_test(test_varint_too_long),
                cmocka_unit_test(test_crc32c_vectors),
                cmocka_unit_test(test_crc32c_lengths),
                cmocka_unit_test(test_map_through_removals),
                cmocka_unit_test(test_arena_bounded),
                cmocka_unit_test(test_uuid_round_trip),
                cmocka_unit_test(test_str_to_i64),
                cmocka_unit_test(test_budget),
                cmocka_unit_test(test_slice_views_hold_their_parent),
                cmocka_unit_test(test_metric_print),
                cmocka_unit_test(test_metric_series_bound),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
