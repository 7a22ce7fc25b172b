/* formats/parquet/encoding_test.c - proves, below the level of files: Thrift structs round-trip and
 * lying counts fail; levels, deltas and every value encoding give back what was put in, at all
 * widths and lengths, and refuse short input; bounds stay bounds when they are cut (B047) and know
 * NaN and the two zeros (B046); bloom filters never say no to what is in them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "formats/parquet/bits.h"
#include "formats/parquet/bloom.h"
#include "formats/parquet/rle.h"
#include "formats/parquet/stats.h"
#include "formats/parquet/thrift.h"
#include "formats/parquet/values.h"

static uint64_t seed = 88172645463325252ULL;

static uint64_t
next_random(void)
{
        seed ^= seed << 13;
        seed ^= seed >> 7;
        return seed ^= seed << 17;
}

static void
test_thrift_round_trip(void **state)
{
        struct ls_buf b;
        struct ls_thrift_wr w;
        struct ls_thrift_rd r;
        int seen = 0;

        ls_buf_init(&b, 10000);
        ls_thrift_wr_init(&w, &b);
        ls_thrift_put_i32(&w, 1, -7);
        ls_thrift_put_bool(&w, 3, true);
        ls_thrift_begin_struct(&w, 40);
        ls_thrift_put_i64(&w, 1, INT64_MIN);
        ls_thrift_begin_list(&w, 2, LS_THRIFT_BINARY, 20);
        for (int i = 0; i < 20; i++)
                ls_thrift_item_binary(&w, ls_span_of("item", 4));
        ls_thrift_end_struct(&w);
        ls_thrift_put_str(&w, 41, LS_STR("end"));
        ls_thrift_wr_stop(&w);
        for (int skip = 0; skip < 2; skip++) {
                r = ls_thrift_rd_of(ls_buf_span(&b));
                for (struct ls_thrift_field f = { 0 }; ls_thrift_next(&r, &f);) {
                        if (skip) {
                                ls_thrift_skip(&r, &f);
                        } else if (f.id == 1) {
                                assert_int_equal(ls_thrift_i32(&r, &f), -7);
                        } else if (f.id == 3) {
                                assert_true(ls_thrift_bool(&r, &f));
                        } else if (f.id == 40) {
                                assert_true(ls_thrift_in(&r, &f));
                                for (struct ls_thrift_field g = { 0 }; ls_thrift_next(&r, &g);) {
                                        if (g.id == 1) {
                                                assert_true(ls_thrift_i64(&r, &g) == INT64_MIN);
                                                continue;
                                        }
                                        assert_int_equal(ls_thrift_list(&r, &g, LS_THRIFT_BINARY),
                                                         20);
                                        for (int i = 0; i < 20; i++)
                                                assert_int_equal(ls_thrift_item_get_binary(&r).len,
                                                                 4);
                                }
                                ls_thrift_out(&r);
                        } else {
                                assert_int_equal(ls_thrift_binary(&r, &f).len, 3);
                        }
                        seen++;
                }
                assert_false(r.rd.failed);
                assert_int_equal(ls_rd_left(&r.rd), 0);
        }
        assert_int_equal(seen, 8);
        for (size_t cut = 0; cut < b.len; cut++) { /* every truncation fails */
                r = ls_thrift_rd_of(ls_span_of(b.ptr, cut));
                for (struct ls_thrift_field f = { 0 }; ls_thrift_next(&r, &f);)
                        ls_thrift_skip(&r, &f);
                assert_true(r.rd.failed);
        }
        ls_buf_done(&b);
}

static void
test_thrift_refuses(void **state)
{
        static const uint8_t huge_list[] = { 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f };
        uint8_t deep[200];
        struct ls_thrift_rd r = ls_thrift_rd_of(ls_span_of(huge_list, sizeof huge_list));
        struct ls_thrift_field f = { 0 };

        assert_true(ls_thrift_next(&r, &f));
        assert_int_equal(ls_thrift_list(&r, &f, LS_THRIFT_STRUCT), 0);
        assert_true(r.rd.failed);
        memset(deep, 0x1c, sizeof deep); /* field 1: struct, inside struct, inside ... */
        r = ls_thrift_rd_of(ls_span_of(deep, sizeof deep));
        f = (struct ls_thrift_field){ 0 };
        assert_true(ls_thrift_next(&r, &f));
        ls_thrift_skip(&r, &f);
        assert_true(r.rd.failed);
        assert_true(ls_rd_left(&r.rd) > 100);
}

/* Levels in a mix of runs and noise. */
static void
fill_levels(uint8_t *levels, size_t count, unsigned max)
{
        for (size_t i = 0; i < count;) {
                size_t run = next_random() % 4 == 0 ? next_random() % 40 : 1;
                uint8_t v = (uint8_t)(next_random() % (max + 1));

                while (run-- > 0 && i < count)
                        levels[i++] = v;
        }
}

static void
test_rle_levels(void **state)
{
        uint8_t in[3000], out[3000];
        struct ls_buf b;

        ls_buf_init(&b, 1 << 20);
        for (unsigned max = 1; max < 64; max = max * 2 + 1) {
                for (size_t count = 0; count < 3000; count += 1 + next_random() % 97) {
                        struct ls_rd r;
                        unsigned width = ls_bits_width(max);

                        fill_levels(in, count, max);
                        if (count % 3 == 0)
                                memset(in, (int)max, count);
                        ls_buf_clear(&b);
                        ls_rle_put_u8(&b, in, count, width);
                        r = ls_rd_of(ls_buf_span(&b));
                        assert_true(ls_rle_get_u8(&r, out, count, width, (uint8_t)max));
                        assert_memory_equal(in, out, count);
                        if (count > 0) {
                                r = ls_rd_of(ls_span_of(b.ptr, b.len - 1));
                                assert_false(ls_rle_get_u8(&r, out, count, width, (uint8_t)max));
                        }
                }
        }
        ls_buf_clear(&b);
        ls_rle_put_u8(&b, (const uint8_t *)"\3\3\3\3\3\3\3\3\3\3", 10, 2);
        struct ls_rd r = ls_rd_of(ls_buf_span(&b));
        assert_false(ls_rle_get_u8(&r, out, 10, 2, 2)); /* a level above the maximum */
        ls_buf_done(&b);
}

static void
test_rle_indexes(void **state)
{
        uint32_t in[5000], out[5000];
        struct ls_buf b;

        ls_buf_init(&b, 1 << 20);
        for (unsigned width = 0; width <= 32; width++) {
                size_t count = 1 + next_random() % 5000;
                uint32_t max = (uint32_t)ls_bits_mask(width);
                struct ls_rd r;

                for (size_t i = 0; i < count; i++)
                        in[i] = next_random() % 3 ? max : (uint32_t)next_random() & max;
                ls_buf_clear(&b);
                ls_rle_put_u32(&b, in, count, width);
                r = ls_rd_of(ls_buf_span(&b));
                assert_true(ls_rle_get_u32(&r, out, count, width, max));
                assert_memory_equal(in, out, count * 4);
                assert_int_equal(ls_rd_left(&r), 0);
        }
        ls_buf_done(&b);
}

static void
test_rle_refuses(void **state)
{
        static const uint8_t packed_huge[] = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 1 };
        uint32_t out[100];
        struct ls_rd r = ls_rd_of(ls_span_of(packed_huge, sizeof packed_huge));

        assert_false(ls_rle_get_u32(&r, out, 100, 3, 7));
        r = ls_rd_of(ls_span_of("\0\0\0\0", 4)); /* runs of nothing */
        assert_false(ls_rle_get_u32(&r, out, 100, 8, 255));
        r = ls_rd_of(ls_span_of("\x03", 1));
        assert_false(ls_rle_get_u32(&r, out, 8, 33, 255));
}

static void
test_bitpacked_levels(void **state)
{
        /* The example of Encodings.md: 0..7 in 3 bits, most significant first. */
        static const uint8_t in[] = { 0x05, 0x39, 0x77 };
        static const uint8_t want[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
        uint8_t out[8];
        struct ls_rd r = ls_rd_of(ls_span_of(in, sizeof in));

        assert_true(ls_bitpacked_get_u8(&r, out, 8, 3, 7));
        assert_memory_equal(out, want, 8);
        r = ls_rd_of(ls_span_of(in, 2));
        assert_false(ls_bitpacked_get_u8(&r, out, 8, 3, 7));
}

static int64_t
make_i64(int kind, size_t i)
{
        switch (kind) {
        case 0: return 7;
        case 1: return (int64_t)i * 3 - 100;
        case 2: return (int64_t)next_random();
        case 3: return i % 2 ? INT64_MIN : INT64_MAX;
        default: return 1700000000000000LL + (int64_t)(next_random() % 5000);
        }
}

static void
test_delta(void **state)
{
        int64_t in[1000], out[1000];
        int32_t in32[1000], out32[1000];
        struct ls_buf b;
        uint64_t peeked;

        ls_buf_init(&b, 1 << 20);
        for (int kind = 0; kind < 5; kind++) {
                for (size_t count = 0; count < 1000; count += 1 + count / 3) {
                        struct ls_rd r;

                        for (size_t i = 0; i < count; i++) {
                                in[i] = make_i64(kind, i);
                                in32[i] = kind == 3 ? (i % 2 ? INT32_MIN : INT32_MAX)
                                                    : (int32_t)in[i];
                        }
                        ls_buf_clear(&b);
                        ls_delta_put_i64(&b, in, count);
                        r = ls_rd_of(ls_buf_span(&b));
                        assert_true(ls_delta_peek_count(&r, &peeked) && peeked == count);
                        assert_true(ls_delta_get_i64(&r, out, count));
                        assert_memory_equal(in, out, count * 8);
                        assert_int_equal(ls_rd_left(&r), 0);
                        r = ls_rd_of(ls_buf_span(&b));
                        assert_false(ls_delta_get_i64(&r, out, count + 1));
                        ls_buf_clear(&b);
                        ls_delta_put_i32(&b, in32, count);
                        r = ls_rd_of(ls_buf_span(&b));
                        assert_true(ls_delta_get_i32(&r, out32, count));
                        assert_memory_equal(in32, out32, count * 4);
                        for (size_t cut = 0; cut < b.len; cut += 1 + cut / 8) {
                                r = ls_rd_of(ls_span_of(b.ptr, cut));
                                assert_false(ls_delta_get_i32(&r, out32, count));
                        }
                }
        }
        ls_buf_done(&b);
}

static const struct ls_col_type value_types[] = {
        { .physical = LS_COL_BOOL },  { .physical = LS_COL_INT32 },
        { .physical = LS_COL_INT64 }, { .physical = LS_COL_INT96 },
        { .physical = LS_COL_FLOAT }, { .physical = LS_COL_DOUBLE },
        { .physical = LS_COL_BYTES }, { .physical = LS_COL_FIXED, .fixed_bytes = 5 },
};

static void
fill_values(struct ls_vec *v, size_t count)
{
        uint8_t bytes[64];

        for (size_t i = 0; i < count; i++) {
                for (size_t j = 0; j < sizeof bytes; j++)
                        bytes[j] = (uint8_t)next_random();
                if (v->type.physical == LS_COL_BOOL)
                        ls_vec_value_bool(v, next_random() % 3 == 0);
                else if (v->type.physical == LS_COL_BYTES)
                        ls_vec_value_copy(v, ls_span_of(bytes, next_random() % 9 * 7));
                else
                        ls_vec_value_fixed(v, bytes);
        }
}

static void
check_values(const struct ls_vec *v, const uint8_t *got)
{
        for (size_t i = 0; i < v->count; i++) {
                if (v->type.physical == LS_COL_BYTES)
                        assert_true(ls_span_eq(v->span[i], ((const ls_span *)got)[i]));
                else
                        assert_memory_equal(got + i * v->value_bytes, v->u8 + i * v->value_bytes,
                                            v->value_bytes);
        }
}

/* Put, get, compare; then every shorter input must be refused. */
static void
round_trip_values(const struct ls_col_type *type, enum ls_parquet_encoding encoding, size_t count)
{
        struct ls_schema_node node = { .type = *type };
        struct ls_values_get g = { .type = type, .count = count, .bytes_max = 1 << 20 };
        struct ls_vec v;
        struct ls_buf b;
        struct ls_rd r;

        ls_vec_init(&v, &node);
        fill_values(&v, count);
        ls_buf_init(&b, 1 << 24);
        ls_values_put(&b, encoding, &v, 0, count);
        g.value_bytes = v.value_bytes;
        g.out = ls_malloc(count * v.value_bytes + 1);
        r = ls_rd_of(ls_buf_span(&b));
        assert_int_equal(ls_values_get(&r, encoding, &g), LS_OK);
        assert_int_equal(ls_rd_left(&r), 0);
        check_values(&v, g.out);
        ls_slice_unref(g.made);
        for (size_t cut = 0; cut < b.len; cut += 1 + b.len / 50) {
                g.made = NULL;
                r = ls_rd_of(ls_span_of(b.ptr, cut));
                assert_int_not_equal(ls_values_get(&r, encoding, &g), LS_OK);
                ls_slice_unref(g.made);
        }
        ls_free(g.out);
        ls_buf_done(&b);
        ls_vec_done(&v);
}

static void
test_value_encodings(void **state)
{
        int pairs = 0;

        for (size_t t = 0; t < LS_COUNT(value_types); t++) {
                uint32_t set =
                        ls_values_encodings(&value_types[t]) | LS_PARQUET_BIT(LS_PARQUET_PLAIN);

                if (value_types[t].physical == LS_COL_FIXED)
                        set |= LS_PARQUET_BIT(LS_PARQUET_BYTE_STREAM_SPLIT);
                for (int e = 0; e < 10; e++) {
                        if ((set >> e & 1) == 0)
                                continue;
                        pairs++;
                        for (size_t count = 0; count < 700; count = count * 2 + 1)
                                round_trip_values(&value_types[t], (enum ls_parquet_encoding)e,
                                                  count);
                }
        }
        assert_int_equal(pairs, 8 + 1 + 4 + 2 + 2 + 1);
}

static void
test_value_refusals(void **state)
{
        struct ls_col_type bytes = { .physical = LS_COL_BYTES };
        struct ls_schema_node node = { .type = bytes };
        struct ls_vec v;
        struct ls_buf b;
        ls_span out[3000];
        struct ls_values_get g = { .type = &bytes,
                                   .value_bytes = sizeof(ls_span),
                                   .out = out,
                                   .count = 3000,
                                   .bytes_max = 1 << 20 };
        struct ls_rd r;
        char big[1000];

        /* Prefixes make much of little: 3,000 values of 1,000 bytes in some hundred bytes. */
        memset(big, 'x', sizeof big);
        ls_vec_init(&v, &node);
        for (int i = 0; i < 3000; i++)
                ls_vec_value_ref(&v, ls_span_of(big, sizeof big));
        ls_buf_init(&b, 1 << 20);
        ls_values_put(&b, LS_PARQUET_DELTA_BYTE_ARRAY, &v, 0, v.count);
        assert_true(b.len < 2000);
        r = ls_rd_of(ls_buf_span(&b));
        assert_int_equal(ls_values_get(&r, LS_PARQUET_DELTA_BYTE_ARRAY, &g), LS_TOO_LARGE);
        r = ls_rd_of(ls_buf_span(&b));
        assert_int_equal(ls_values_get(&r, LS_PARQUET_BYTE_STREAM_SPLIT, &g), LS_UNSUPPORTED);
        assert_int_equal(ls_values_get(&r, 77, &g), LS_UNSUPPORTED);
        ls_buf_done(&b);
        ls_vec_done(&v);
}

/* --- bounds ----------------------------------------------------------------------------------- */

static struct ls_vec
make_doubles(const double *values, size_t count)
{
        struct ls_schema_node node = { .type = LS_TYPE_DOUBLE };
        struct ls_vec v;

        ls_vec_init(&v, &node);
        for (size_t i = 0; i < count; i++)
                ls_vec_value_f64(&v, values[i]);
        return v;
}

static void
expect_double_bounds(const double *values, size_t count, uint64_t nans, bool has, double min,
                     double max)
{
        struct ls_vec v = make_doubles(values, count);
        struct ls_stats s;

        ls_stats_of(&s, &v, 0, count, 3, 64);
        assert_int_equal(s.nulls, 3);
        assert_int_equal(s.nans, nans);
        assert_int_equal(s.has_min, has);
        assert_int_equal(s.has_max, has);
        if (has) {
                assert_memory_equal(s.min, &min, 8); /* the sign of zero counts */
                assert_memory_equal(s.max, &max, 8);
        }
        ls_vec_done(&v);
}

static void
test_bounds_nan_and_zero(void **state)
{
        expect_double_bounds((double[]){ NAN }, 1, 1, false, 0, 0);
        expect_double_bounds((double[]){ NAN, 1.0 }, 2, 1, true, 1.0, 1.0);
        expect_double_bounds((double[]){ 1.0, NAN }, 2, 1, true, 1.0, 1.0);
        expect_double_bounds((double[]){ -0.0, 0.0 }, 2, 0, true, -0.0, 0.0);
        expect_double_bounds((double[]){ 0.0, 2.0 }, 2, 0, true, -0.0, 2.0);
        expect_double_bounds((double[]){ -2.0, -0.0 }, 2, 0, true, -2.0, 0.0);
        expect_double_bounds((double[]){ INFINITY, -INFINITY }, 2, 0, true, -INFINITY, INFINITY);
        expect_double_bounds(NULL, 0, 0, false, 0, 0);
}

static void
test_bounds_merge(void **state)
{
        struct ls_col_type type = LS_TYPE_DOUBLE;
        struct ls_stats sum = { 0 }, part;
        struct ls_vec nan = make_doubles((double[]){ NAN }, 1);
        struct ls_vec two = make_doubles((double[]){ 5, -1 }, 2);
        double min = -1, max = 5;

        ls_stats_of(&part, &nan, 0, 1, 2, 64);
        ls_stats_merge(&sum, &part, &type);
        assert_false(sum.has_min);
        ls_stats_of(&part, &two, 0, 2, 1, 64);
        ls_stats_merge(&sum, &part, &type);
        ls_stats_of(&part, &nan, 0, 1, 0, 64);
        ls_stats_merge(&sum, &part, &type);
        assert_true(sum.has_min && sum.has_max);
        assert_memory_equal(sum.min, &min, 8);
        assert_memory_equal(sum.max, &max, 8);
        assert_int_equal(sum.nulls, 3);
        assert_int_equal(sum.nans, 2);
        ls_vec_done(&nan);
        ls_vec_done(&two);
}

/* Strings of code points of 1 to 4 bytes, many of them the last of their kind. */
static size_t
random_string(uint8_t *out, size_t code_points)
{
        static const char *const points[] = { "a",
                                              "z",
                                              "\x7f",
                                              "\xc2\x80",
                                              "\xdf\xbf",
                                              "\xe0\xa0\x80",
                                              "\xed\x9f\xbf",
                                              "\xef\xbf\xbf",
                                              "\xf0\x90\x80\x80",
                                              "\xf4\x8f\xbf\xbf" };
        size_t len = 0;

        for (size_t i = 0; i < code_points; i++) {
                const char *p = points[next_random() % LS_COUNT(points)];

                memcpy(out + len, p, strlen(p));
                len += strlen(p);
        }
        return len;
}

static void
check_cut_bounds(struct ls_vec *v, uint32_t bound_bytes)
{
        struct ls_stats s;

        ls_stats_of(&s, v, 0, v->count, 0, bound_bytes);
        assert_true(s.has_min);
        assert_true(s.min_len <= bound_bytes && s.max_len <= bound_bytes);
        for (size_t i = 0; i < v->count; i++) {
                assert_true(ls_span_cmp(ls_span_of(s.min, s.min_len), v->span[i]) <= 0);
                if (s.has_max)
                        assert_true(ls_span_cmp(ls_span_of(s.max, s.max_len), v->span[i]) >= 0);
                if (s.max_exact && ls_span_eq(v->span[i], ls_span_of(s.max, s.max_len)))
                        s.max_exact = false; /* seen */
                if (s.min_exact && ls_span_eq(v->span[i], ls_span_of(s.min, s.min_len)))
                        s.min_exact = false;
        }
        assert_false(s.min_exact || s.max_exact); /* "exact" bounds are values */
}

static void
test_bounds_cut(void **state)
{
        struct ls_schema_node string = { .type = LS_TYPE_STRING },
                              binary = { .type = LS_TYPE_BINARY };
        uint8_t bytes[200];

        for (int round = 0; round < 3000; round++) {
                struct ls_vec s, b;
                size_t n = 1 + next_random() % 6, shared = random_string(bytes, next_random() % 12);

                ls_vec_init(&s, &string);
                ls_vec_init(&b, &binary);
                for (size_t i = 0; i < n; i++) {
                        size_t len = shared + random_string(bytes + shared, next_random() % 12);

                        ls_vec_value_copy(&s, ls_span_of(bytes, len));
                        if (next_random() % 2)
                                memset(bytes + shared, 0xff, len - shared);
                        ls_vec_value_copy(&b, ls_span_of(bytes, len));
                }
                check_cut_bounds(&s, 16);
                check_cut_bounds(&b, 16);
                check_cut_bounds(&s, 1 + (uint32_t)(next_random() % 20));
                ls_vec_done(&s);
                ls_vec_done(&b);
        }
}

static void
test_bounds_cut_exactly(void **state)
{
        uint8_t out[16];
        uint16_t len;

        assert_true(ls_stats_cut_upper(ls_span_of("abcdef", 6), 3, true, out, &len));
        assert_int_equal(len, 3);
        assert_memory_equal(out, "abd", 3);
        /* the last code point goes up across the surrogates */
        assert_true(ls_stats_cut_upper(ls_span_of("\xed\x9f\xbfzz", 5), 3, true, out, &len));
        assert_memory_equal(out, "\xee\x80\x80", 3);
        /* U+10FFFF cannot be increased: the one before is */
        assert_true(ls_stats_cut_upper(ls_span_of("a\xf4\x8f\xbf\xbfzz", 7), 5, true, out, &len));
        assert_int_equal(len, 1);
        assert_memory_equal(out, "b", 1);
        assert_false(ls_stats_cut_upper(ls_span_of("\xf4\x8f\xbf\xbfzz", 6), 4, true, out, &len));
        assert_true(ls_stats_cut_upper(ls_span_of("a\xff\xff\xff", 4), 3, false, out, &len));
        assert_int_equal(len, 1);
        assert_memory_equal(out, "b", 1);
        assert_false(ls_stats_cut_upper(ls_span_of("\xff\xff\xff\xff", 4), 3, false, out, &len));
        assert_false(ls_stats_cut_upper(ls_span_of("abc\xc0", 4), 16, true, out, &len));
        assert_int_equal(ls_stats_cut_lower(ls_span_of("a\xf4\x8f\xbf\xbf", 5), 3, true, out), 1);
        assert_true(ls_stats_cut_upper(ls_span_of("", 0), 3, true, out, &len));
        assert_int_equal(len, 0);
}

static void
test_bounds_by_type(void **state)
{
        struct ls_col_type u32 = { .physical = LS_COL_INT32, .logical = LS_COL_INT, .bits = 32 };
        struct ls_col_type dec = { .physical = LS_COL_BYTES,
                                   .logical = LS_COL_DECIMAL,
                                   .precision = 20 };
        struct ls_schema_node node = { .type = u32 };
        struct ls_vec v;
        struct ls_stats s;

        ls_vec_init(&v, &node);
        ls_vec_value_i32(&v, 1);
        ls_vec_value_i32(&v, -1);
        ls_stats_of(&s, &v, 0, 2, 0, 64);
        assert_int_equal((int32_t)ls_get_le32(s.max), -1); /* 4,294,967,295 */
        ls_vec_done(&v);
        node.type = dec;
        ls_vec_init(&v, &node);
        ls_vec_value_ref(&v, ls_span_of("\x00\x80", 2)); /* 128 */
        ls_vec_value_ref(&v, ls_span_of("\x80", 1));     /* -128 */
        ls_vec_value_ref(&v, ls_span_of("\x05", 1));
        ls_stats_of(&s, &v, 0, 3, 0, 64);
        assert_int_equal(s.max_len, 2);
        assert_int_equal(s.min[0], 0x80);
        ls_vec_done(&v);
        assert_int_equal(ls_stats_order(&(struct ls_col_type){ .physical = LS_COL_INT96 }),
                         LS_STATS_NONE);
}

static void
test_bloom(void **state)
{
        uint32_t bytes = ls_bloom_bytes(1000, 1 << 20);
        uint8_t *bits = ls_calloc(1, bytes);
        unsigned wrong = 0;

        assert_int_equal(bytes, 2048);
        assert_int_equal(ls_bloom_bytes(0, 1 << 20), 32);
        assert_int_equal(ls_bloom_bytes(UINT64_MAX, 1 << 20), 1 << 20);
        for (uint64_t i = 0; i < 1000; i++)
                ls_bloom_add(bits, bytes, ls_bloom_hash(ls_span_of(&i, 8)));
        for (uint64_t i = 0; i < 1000; i++)
                assert_true(ls_bloom_maybe(bits, bytes, ls_bloom_hash(ls_span_of(&i, 8))));
        for (uint64_t i = 1000; i < 11000; i++)
                wrong += ls_bloom_maybe(bits, bytes, ls_bloom_hash(ls_span_of(&i, 8)));
        assert_true(wrong < 100); /* of 10,000 */
        ls_free(bits);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_thrift_round_trip),
                cmocka_unit_test(test_thrift_refuses),
                cmocka_unit_test(test_rle_levels),
                cmocka_unit_test(test_rle_indexes),
                cmocka_unit_test(test_rle_refuses),
                cmocka_unit_test(test_bitpacked_levels),
                cmocka_unit_test(test_delta),
                cmocka_unit_test(test_value_encodings),
                cmocka_unit_test(test_value_refusals),
                cmocka_unit_test(test_bounds_nan_and_zero),
                cmocka_unit_test(test_bounds_merge),
                cmocka_unit_test(test_bounds_cut),
                cmocka_unit_test(test_bounds_cut_exactly),
                cmocka_unit_test(test_bounds_by_type),
                cmocka_unit_test(test_bloom),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
