/* iceberg/value_test.c - proves: hashes, transforms and single-value forms are those of the
 * specification's examples; times before 1970 are floored (B042); bounds never hide a value (B047)
 * and never hold NaN (B046); types and transforms round-trip by their text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/mem.h"
#include "base/uuid.h"
#include "formats/iceberg/limits.h"
#include "formats/iceberg/value.h"

#define TYPE(k) ((struct ls_iceberg_type){ .kind = LS_ICEBERG_##k })
#define TEXT(s) ls_iceberg_bytes(ls_span_of((s), sizeof(s) - 1))

/* 2017-11-16 and 22:31:08 of it */
#define SPEC_DAY  17486
#define SPEC_TIME INT64_C(81068000000)
#define SPEC_US   (SPEC_DAY * INT64_C(86400000000) + SPEC_TIME)

static const struct ls_iceberg_type decimal_9_2 = { .kind = LS_ICEBERG_DECIMAL,
                                                    .precision = 9,
                                                    .scale = 2 };
static const struct ls_iceberg_type fixed_4 = { .kind = LS_ICEBERG_FIXED, .fixed_bytes = 4 };

static struct ls_iceberg_transform
transform(const char *text)
{
        struct ls_iceberg_transform tr;

        assert_int_equal(ls_iceberg_transform_parse(ls_str_of(text), &tr), LS_OK);
        return tr;
}

static struct ls_iceberg_value
apply(const char *text, struct ls_iceberg_type t, struct ls_iceberg_value v)
{
        struct ls_iceberg_transform tr = transform(text);

        assert_true(ls_iceberg_transform_takes(&tr, &t));
        return ls_iceberg_transform_apply(&tr, &t, &v);
}

/* ---- texts ---------------------------------------------------------------------------------- */

static void
test_type_texts(void **state)
{
        static const char *const good[] = {
                "boolean",        "int",
                "long",           "float",
                "double",         "date",
                "time",           "timestamp",
                "timestamptz",    "timestamp_ns",
                "timestamptz_ns", "string",
                "uuid",           "binary",
                "unknown",        "variant",
                "decimal(9, 2)",  "decimal(38, 38)",
                "fixed[16]",      "fixed[0]",
        };
        static const char *const bad[] = {
                "",
                "integer",
                "struct",
                "list",
                "map",
                "decimal",
                "decimal()",
                "decimal(9)",
                "decimal(0, 0)",
                "decimal(39, 0)",
                "decimal(4, 5)",
                "decimal(4, -1)",
                "decimal(4,2",
                "fixed",
                "fixed[]",
                "fixed[-1]",
                "fixed[x]",
                "fixed[99999999999]",
        };
        struct ls_iceberg_type t;
        struct ls_buf b;

        ls_buf_init(&b, 100);
        for (size_t i = 0; i < LS_COUNT(good); i++) {
                ls_buf_clear(&b);
                assert_int_equal(ls_iceberg_type_parse(ls_str_of(good[i]), &t), LS_OK);
                ls_iceberg_type_print(&t, &b);
                assert_string_equal(ls_buf_cstr(&b), good[i]);
        }
        for (size_t i = 0; i < LS_COUNT(bad); i++)
                assert_int_equal(ls_iceberg_type_parse(ls_str_of(bad[i]), &t), LS_INVALID);
        assert_int_equal(ls_iceberg_type_parse(LS_STR("decimal(9,2)"), &t), LS_OK);
        assert_true(ls_iceberg_type_eq(&t, &decimal_9_2));
        ls_buf_done(&b);
}

static void
test_transform_texts(void **state)
{
        static const char *const good[] = { "identity", "year",     "month",      "day",
                                            "hour",     "void",     "bucket[16]", "truncate[4]",
                                            "zorder",   "bucket[1]" };
        static const char *const bad[] = {
                "",          "bucket[0]",   "bucket[-1]",           "bucket[]",
                "bucket[x]", "truncate[0]", "truncate[99999999999]"
        };
        struct ls_iceberg_transform tr;
        struct ls_buf b;

        ls_buf_init(&b, 100);
        for (size_t i = 0; i < LS_COUNT(good); i++) {
                ls_buf_clear(&b);
                tr = transform(good[i]);
                ls_iceberg_transform_print(&tr, &b);
                assert_string_equal(ls_buf_cstr(&b), good[i]);
        }
        for (size_t i = 0; i < LS_COUNT(bad); i++)
                assert_int_equal(ls_iceberg_transform_parse(ls_str_of(bad[i]), &tr), LS_INVALID);
        ls_buf_done(&b);
}

/* ---- hash ----------------------------------------------------------------------------------- */

static void
assert_hash(struct ls_iceberg_type t, struct ls_iceberg_value v, int32_t want)
{
        uint32_t hash;

        assert_true(ls_iceberg_value_hash(&t, &v, &hash));
        assert_int_equal((int32_t)hash, want);
}

/* The table of Appendix B. */
static void
test_hash(void **state)
{
        ls_uuid uuid;
        uint32_t hash;

        assert_hash(TYPE(INT), ls_iceberg_int(34), 2017239379);
        assert_hash(TYPE(LONG), ls_iceberg_int(34), 2017239379);
        assert_hash(decimal_9_2, ls_iceberg_decimal(1420), -500754589);
        assert_hash(TYPE(DATE), ls_iceberg_int(SPEC_DAY), -653330422);
        assert_hash(TYPE(TIME), ls_iceberg_int(SPEC_TIME), -662762989);
        assert_hash(TYPE(TIMESTAMP), ls_iceberg_int(SPEC_US), -2047944441);
        assert_hash(TYPE(TIMESTAMPTZ), ls_iceberg_int(SPEC_US), -2047944441);
        assert_hash(TYPE(TIMESTAMP), ls_iceberg_int(SPEC_US + 1), -1207196810);
        assert_hash(TYPE(STRING), TEXT("iceberg"), 1210000089);
        assert_true(ls_uuid_parse(LS_STR("f79c3e09-677c-4bbd-a479-3f349cb785e7"), &uuid));
        assert_hash(TYPE(UUID), ls_iceberg_bytes(ls_span_of(uuid.bytes, 16)), 1488055340);
        assert_hash(fixed_4, TEXT("\x00\x01\x02\x03"), -188683207);
        assert_hash(TYPE(BINARY), TEXT("\x00\x01\x02\x03"), -188683207);
        assert_false(
                ls_iceberg_value_hash(&TYPE(DOUBLE), &(struct ls_iceberg_value){ .d = 1 }, &hash));
        assert_false(ls_iceberg_value_hash(&TYPE(INT), &LS_ICEBERG_NULL, &hash));
        /* every length of tail, against the reference implementation's values */
        assert_int_equal(ls_iceberg_murmur3(ls_span_of("", 0)), 0);
        assert_int_equal(ls_iceberg_murmur3(ls_span_of("a", 1)), 0x3c2569b2);
        assert_int_equal(ls_iceberg_murmur3(ls_span_of("aa", 2)), 0x371091a9);
        assert_int_equal(ls_iceberg_murmur3(ls_span_of("aaa", 3)), 0xb4d05fb7);
        assert_int_equal(ls_iceberg_murmur3(ls_span_of("aaaa", 4)), 0x7eeed987);
}

/* ---- transforms ----------------------------------------------------------------------------- */

static void
test_bucket(void **state)
{
        struct ls_iceberg_value v = ls_iceberg_int(34);

        assert_int_equal(apply("bucket[16]", TYPE(INT), v).i, 2017239379 % 16);
        /* a negative hash loses its sign bit, it is not negated */
        assert_int_equal(apply("bucket[100]", TYPE(DATE), ls_iceberg_int(SPEC_DAY)).i,
                         (-653330422 & INT32_MAX) % 100);
        assert_true(apply("bucket[16]", TYPE(STRING), LS_ICEBERG_NULL).null);
        assert_false(ls_iceberg_transform_takes(
                &(struct ls_iceberg_transform){ .kind = LS_ICEBERG_BUCKET, .param = 4 },
                &TYPE(DOUBLE)));
        assert_false(ls_iceberg_transform_takes(
                &(struct ls_iceberg_transform){ .kind = LS_ICEBERG_BUCKET, .param = 4 },
                &TYPE(BOOLEAN)));
}

static void
test_truncate(void **state)
{
        struct ls_iceberg_value v;

        assert_int_equal(apply("truncate[10]", TYPE(INT), ls_iceberg_int(1)).i, 0);
        assert_int_equal(apply("truncate[10]", TYPE(INT), ls_iceberg_int(-1)).i, -10);
        assert_int_equal(apply("truncate[10]", TYPE(LONG), ls_iceberg_int(-10)).i, -10);
        assert_int_equal(apply("truncate[10]", TYPE(LONG), ls_iceberg_int(-11)).i, -20);
        assert_true(apply("truncate[50]", decimal_9_2, ls_iceberg_decimal(1065)).dec == 1050);
        assert_true(apply("truncate[50]", decimal_9_2, ls_iceberg_decimal(-1)).dec == -50);
        v = apply("truncate[3]", TYPE(STRING), TEXT("iceberg"));
        assert_true(ls_span_eq(v.bytes, ls_span_of("ice", 3)));
        v = apply("truncate[2]", TYPE(STRING), TEXT("\xc3\xa9\xf0\x9f\x98\x80z")); /* é, a smile */
        assert_int_equal(v.bytes.len, 6);
        v = apply("truncate[2]", TYPE(BINARY), TEXT("\x01\x02\x03"));
        assert_int_equal(v.bytes.len, 2);
        v = apply("truncate[9]", TYPE(STRING), TEXT("ice"));
        assert_int_equal(v.bytes.len, 3);
        /* at the ends: no undefined overflow */
        apply("truncate[10]", TYPE(LONG), ls_iceberg_int(INT64_MIN));
        apply("truncate[10]", TYPE(INT), ls_iceberg_int(INT32_MIN));
        assert_true(apply("truncate[3]", TYPE(STRING), LS_ICEBERG_NULL).null);
}

/* B042 */
static void
test_times(void **state)
{
        static const struct {
                int64_t us;
                int32_t year, month, day, hour;
        } want[] = {
                { 0, 0, 0, 0, 0 },
                { -1, -1, -1, -1, -1 },                               /* 1 µs before */
                { -1000000, -1, -1, -1, -1 },                         /* 1 s before */
                { -3600000000, -1, -1, -1, -1 },                      /* exactly 1 h */
                { -3600000001, -1, -1, -1, -2 },                      /* and 1 µs */
                { INT64_C(-58060800000000), -2, -23, -672, -16128 },  /* 1968-02-29 */
                { SPEC_US, 47, 574, SPEC_DAY, SPEC_DAY * 24 + 22 },   /* 2017-11-16 */
                { INT64_C(951782400000000), 30, 361, 11016, 264384 }, /* 2000-02-29 */
                { INT64_C(-62135596800000000), -1969, -23628, -719162, -17259888 }, /* year 1 */
        };

        for (size_t i = 0; i < LS_COUNT(want); i++) {
                struct ls_iceberg_value v = ls_iceberg_int(want[i].us);

                for (int zone = 0; zone < 2; zone++) {
                        struct ls_iceberg_type t = zone ? TYPE(TIMESTAMPTZ) : TYPE(TIMESTAMP);

                        assert_int_equal(apply("year", t, v).i, want[i].year);
                        assert_int_equal(apply("month", t, v).i, want[i].month);
                        assert_int_equal(apply("day", t, v).i, want[i].day);
                        assert_int_equal(apply("hour", t, v).i, want[i].hour);
                }
                if (want[i].us > INT64_MIN / 1000 && want[i].us < INT64_MAX / 1000) {
                        v = ls_iceberg_int(want[i].us * 1000);
                        assert_int_equal(apply("hour", TYPE(TIMESTAMPTZ_NS), v).i, want[i].hour);
                        assert_int_equal(apply("day", TYPE(TIMESTAMP_NS), v).i, want[i].day);
                }
                v = ls_iceberg_int(want[i].day);
                assert_int_equal(apply("year", TYPE(DATE), v).i, want[i].year);
                assert_int_equal(apply("month", TYPE(DATE), v).i, want[i].month);
                assert_int_equal(apply("day", TYPE(DATE), v).i, want[i].day);
        }
        /* beyond what 32 bits hold: clamped, never wrapped to another age */
        assert_int_equal(apply("hour", TYPE(TIMESTAMP), ls_iceberg_int(INT64_MAX)).i, INT32_MAX);
        assert_int_equal(apply("hour", TYPE(TIMESTAMP), ls_iceberg_int(INT64_MIN)).i, INT32_MIN);
        assert_true(apply("year", TYPE(TIMESTAMP), ls_iceberg_int(INT64_MIN)).i < -290000);
        assert_true(apply("hour", TYPE(TIMESTAMP), LS_ICEBERG_NULL).null);
        assert_true(apply("void", TYPE(TIMESTAMP), ls_iceberg_int(1)).null);
        assert_int_equal(apply("identity", TYPE(TIMESTAMP), ls_iceberg_int(1)).i, 1);
        assert_false(ls_iceberg_transform_takes(
                &(struct ls_iceberg_transform){ .kind = LS_ICEBERG_HOUR }, &TYPE(DATE)));
        assert_false(ls_iceberg_transform_takes(
                &(struct ls_iceberg_transform){ .kind = LS_ICEBERG_DAY }, &TYPE(LONG)));
}

static void
test_results(void **state)
{
        struct ls_iceberg_transform tr = transform("day");

        assert_int_equal(ls_iceberg_transform_result(&tr, &TYPE(TIMESTAMPTZ)).kind,
                         LS_ICEBERG_DATE);
        tr = transform("hour");
        assert_int_equal(ls_iceberg_transform_result(&tr, &TYPE(TIMESTAMPTZ)).kind, LS_ICEBERG_INT);
        tr = transform("bucket[3]");
        assert_int_equal(ls_iceberg_transform_result(&tr, &TYPE(STRING)).kind, LS_ICEBERG_INT);
        tr = transform("truncate[3]");
        assert_int_equal(ls_iceberg_transform_result(&tr, &decimal_9_2).precision, 9);
}

/* ---- single values -------------------------------------------------------------------------- */

static void
assert_binary(struct ls_iceberg_type t, struct ls_iceberg_value v, const void *bytes, size_t len)
{
        struct ls_iceberg_value back;
        struct ls_buf b;

        ls_buf_init(&b, 100);
        ls_iceberg_value_put(&t, &v, &b);
        assert_true(ls_span_eq(ls_buf_span(&b), ls_span_of(bytes, len)));
        assert_int_equal(ls_iceberg_value_get(&t, ls_buf_span(&b), &back), LS_OK);
        assert_int_equal(ls_iceberg_value_cmp(&t, &v, &back), 0);
        ls_buf_done(&b);
}

static void
test_binary_form(void **state)
{
        assert_binary(TYPE(BOOLEAN), ls_iceberg_int(1), "\x01", 1);
        assert_binary(TYPE(BOOLEAN), ls_iceberg_int(0), "\x00", 1);
        assert_binary(TYPE(INT), ls_iceberg_int(34), "\x22\0\0\0", 4);
        assert_binary(TYPE(INT), ls_iceberg_int(-2), "\xfe\xff\xff\xff", 4);
        assert_binary(TYPE(LONG), ls_iceberg_int(34), "\x22\0\0\0\0\0\0\0", 8);
        assert_binary(TYPE(DATE), ls_iceberg_int(SPEC_DAY), "\x4e\x44\0\0", 4);
        assert_binary(TYPE(FLOAT), ls_iceberg_double(1), "\0\0\x80\x3f", 4);
        assert_binary(TYPE(DOUBLE), ls_iceberg_double(-0.0), "\0\0\0\0\0\0\0\x80", 8);
        assert_binary(TYPE(STRING), TEXT("iceberg"), "iceberg", 7);
        assert_binary(decimal_9_2, ls_iceberg_decimal(1420), "\x05\x8c", 2);
        assert_binary(decimal_9_2, ls_iceberg_decimal(0), "\0", 1);
        assert_binary(decimal_9_2, ls_iceberg_decimal(127), "\x7f", 1);
        assert_binary(decimal_9_2, ls_iceberg_decimal(128), "\0\x80", 2);
        assert_binary(decimal_9_2, ls_iceberg_decimal(-128), "\x80", 1);
        assert_binary(decimal_9_2, ls_iceberg_decimal(-129), "\xff\x7f", 2);
        assert_binary(fixed_4, TEXT("\0\1\2\3"), "\0\1\2\3", 4);
}

static void
test_binary_refusals(void **state)
{
        struct ls_iceberg_value v;

        assert_int_equal(ls_iceberg_value_get(&TYPE(INT), ls_span_of("\0\0\0", 3), &v), LS_CORRUPT);
        assert_int_equal(ls_iceberg_value_get(&TYPE(INT), ls_span_of("\0\0\0\0\0\0\0\0", 8), &v),
                         LS_CORRUPT);
        assert_int_equal(ls_iceberg_value_get(&TYPE(TIME), ls_span_of("\0\0\0\0", 4), &v),
                         LS_CORRUPT);
        assert_int_equal(ls_iceberg_value_get(&TYPE(BOOLEAN), LS_SPAN_NULL, &v), LS_CORRUPT);
        assert_int_equal(ls_iceberg_value_get(&TYPE(UUID), ls_span_of("abc", 3), &v), LS_CORRUPT);
        assert_int_equal(ls_iceberg_value_get(&TYPE(STRING), ls_span_of("\xff", 1), &v),
                         LS_CORRUPT);
        assert_int_equal(ls_iceberg_value_get(&decimal_9_2, ls_span_of("", 0), &v), LS_CORRUPT);
        assert_int_equal(
                ls_iceberg_value_get(&decimal_9_2, ls_span_of("12345678901234567", 17), &v),
                LS_CORRUPT);
        assert_int_equal(ls_iceberg_value_get(&TYPE(STRUCT), ls_span_of("a", 1), &v), LS_CORRUPT);
        /* promoted columns: an int as long, a float as double */
        assert_int_equal(ls_iceberg_value_get(&TYPE(LONG), ls_span_of("\xff\xff\xff\xff", 4), &v),
                         LS_OK);
        assert_int_equal(v.i, -1);
        assert_int_equal(ls_iceberg_value_get(&TYPE(DOUBLE), ls_span_of("\0\0\x80\x3f", 4), &v),
                         LS_OK);
        assert_true(v.d == 1);
}

static void
assert_json(struct ls_iceberg_type t, struct ls_iceberg_value v, const char *want)
{
        struct ls_buf b;

        ls_buf_init(&b, 200);
        ls_iceberg_value_json(&t, &v, &b);
        assert_string_equal(ls_buf_cstr(&b), want);
        ls_buf_done(&b);
}

static void
test_json_form(void **state)
{
        struct ls_iceberg_type cents = { .kind = LS_ICEBERG_DECIMAL, .precision = 38, .scale = 38 };
        __int128 most = 1;

        for (int i = 0; i < 38; i++)
                most *= 10;
        assert_json(TYPE(BOOLEAN), ls_iceberg_int(1), "true");
        assert_json(TYPE(INT), ls_iceberg_int(-34), "-34");
        assert_json(TYPE(LONG), ls_iceberg_int(INT64_MIN), "-9223372036854775808");
        assert_json(TYPE(FLOAT), ls_iceberg_double(1), "1.0");
        assert_json(TYPE(FLOAT), ls_iceberg_double((double)0.1f), "0.1");
        assert_json(TYPE(DOUBLE), ls_iceberg_double(0.1), "0.1");
        assert_json(TYPE(DOUBLE), ls_iceberg_double(1e300), "1e+300");
        assert_json(TYPE(DOUBLE), ls_iceberg_double(NAN), "null");
        assert_json(decimal_9_2, ls_iceberg_decimal(1420), "\"14.20\"");
        assert_json(decimal_9_2, ls_iceberg_decimal(-5), "\"-0.05\"");
        assert_json(decimal_9_2, ls_iceberg_decimal(0), "\"0.00\"");
        assert_json(cents, ls_iceberg_decimal(-(most - 1)),
                    "\"-0.99999999999999999999999999999999999999\"");
        assert_json(TYPE(DATE), ls_iceberg_int(SPEC_DAY), "\"2017-11-16\"");
        assert_json(TYPE(DATE), ls_iceberg_int(-1), "\"1969-12-31\"");
        assert_json(TYPE(TIME), ls_iceberg_int(SPEC_TIME + 123456), "\"22:31:08.123456\"");
        assert_json(TYPE(TIMESTAMP), ls_iceberg_int(SPEC_US + 123456),
                    "\"2017-11-16T22:31:08.123456\"");
        assert_json(TYPE(TIMESTAMPTZ), ls_iceberg_int(-1), "\"1969-12-31T23:59:59.999999+00:00\"");
        assert_json(TYPE(TIMESTAMP_NS), ls_iceberg_int(1), "\"1970-01-01T00:00:00.000000001\"");
        assert_json(TYPE(STRING), TEXT("a\"\\\n\xc3\xa9"), "\"a\\\"\\\\\\u000a\xc3\xa9\"");
        assert_json(TYPE(UUID),
                    TEXT("\xf7\x9c\x3e\x09\x67\x7c\x4b\xbd\xa4\x79\x3f\x34\x9c\xb7\x85\xe7"),
                    "\"f79c3e09-677c-4bbd-a479-3f349cb785e7\"");
        assert_json(TYPE(BINARY), TEXT("\x00\x01\xff"), "\"0001ff\"");
        assert_json(TYPE(STRING), LS_ICEBERG_NULL, "null");
}

static void
assert_path(const char *tr_text, struct ls_iceberg_type t, struct ls_iceberg_value v,
            const char *want)
{
        struct ls_iceberg_transform tr = transform(tr_text);
        struct ls_buf b;

        ls_buf_init(&b, 200);
        ls_iceberg_value_path(&tr, &t, &v, &b);
        assert_string_equal(ls_buf_cstr(&b), want);
        ls_buf_done(&b);
}

static void
test_path_form(void **state)
{
        assert_path("year", TYPE(INT), ls_iceberg_int(-1), "1969");
        assert_path("month", TYPE(INT), ls_iceberg_int(-1), "1969-12");
        assert_path("day", TYPE(DATE), ls_iceberg_int(-1), "1969-12-31");
        assert_path("hour", TYPE(INT), ls_iceberg_int(-1), "1969-12-31-23");
        assert_path("bucket[4]", TYPE(INT), ls_iceberg_int(3), "3");
        assert_path("identity", TYPE(STRING), TEXT("../a b"), "%2E.%2Fa%20b");
        assert_path("identity", TYPE(STRING), LS_ICEBERG_NULL, "null");
}

static void
test_order(void **state)
{
        struct ls_iceberg_value a = ls_iceberg_double(-0.0), b = ls_iceberg_double(0.0),
                                nan = ls_iceberg_double(NAN), inf = ls_iceberg_double(INFINITY);

        assert_true(ls_iceberg_value_cmp(&TYPE(DOUBLE), &a, &b) < 0);
        assert_true(ls_iceberg_value_cmp(&TYPE(DOUBLE), &nan, &inf) > 0);
        assert_int_equal(ls_iceberg_value_cmp(&TYPE(DOUBLE), &nan, &nan), 0);
        assert_true(ls_iceberg_value_cmp(&TYPE(DOUBLE), &LS_ICEBERG_NULL, &a) < 0);
        a = TEXT("\x7f");
        b = TEXT("\x80");
        assert_true(ls_iceberg_value_cmp(&TYPE(BINARY), &a, &b) < 0);
}

/* ---- bounds --------------------------------------------------------------------------------- */

static bool
bounds_of(struct ls_iceberg_type t, struct ls_iceberg_value v, struct ls_arena *a, ls_span *lower,
          ls_span *upper)
{
        assert_true(ls_iceberg_bound_lower(&t, &v, a, lower));
        return ls_iceberg_bound_upper(&t, &v, a, upper);
}

/* B047 */
static void
test_bounds_cut(void **state)
{
        static const struct {
                struct ls_iceberg_type type;
                const char *value, *lower, *upper; /* upper NULL: none may be written */
        } want[] = {
                { TYPE(STRING), "short", "short", "short" },
                { TYPE(STRING), "", "", "" },
                { TYPE(STRING), "0123456789abcdef", "0123456789abcdef", "0123456789abcdef" },
                { TYPE(STRING), "0123456789abcdefX", "0123456789abcdef", "0123456789abcdeg" },
                { TYPE(STRING), "0123456789abcde\x7fX", "0123456789abcde\x7f",
                  "0123456789abcde\xc2\x80" },
                /* U+10FFFF cannot grow: the character before it does */
                { TYPE(STRING), "0123456789abcde\xf4\x8f\xbf\xbfX",
                  "0123456789abcde\xf4\x8f\xbf\xbf", "0123456789abcdf" },
                /* the character after U+D7FF is U+E000 */
                { TYPE(STRING), "0123456789abcde\xed\x9f\xbfX", "0123456789abcde\xed\x9f\xbf",
                  "0123456789abcde\xee\x80\x80" },
                { TYPE(STRING), "0123456789abcde\xef\xbf\xbfX", "0123456789abcde\xef\xbf\xbf",
                  "0123456789abcde\xf0\x90\x80\x80" },
                { TYPE(BINARY), "0123456789abcde\xffX", "0123456789abcde\xff", "0123456789abcdf" },
                { TYPE(BINARY),
                  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
                  "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", NULL },
        };
        struct ls_iceberg_value v;
        ls_span lower, upper;
        struct ls_arena a;
        char most[17 * 4];

        ls_arena_init(&a, 1 << 20);
        for (size_t i = 0; i < LS_COUNT(want); i++) {
                bool has;

                v = ls_iceberg_bytes(ls_span_of(want[i].value, strlen(want[i].value)));
                has = bounds_of(want[i].type, v, &a, &lower, &upper);
                assert_true(ls_span_eq(lower, ls_span_of(want[i].lower, strlen(want[i].lower))));
                assert_int_equal(has, want[i].upper != NULL);
                if (has)
                        assert_true(ls_span_eq(upper,
                                               ls_span_of(want[i].upper, strlen(want[i].upper))));
        }
        for (size_t i = 0; i < sizeof most; i += 4)
                memcpy(most + i, "\xf4\x8f\xbf\xbf", 4);
        v = ls_iceberg_bytes(ls_span_of(most, sizeof most));
        assert_false(bounds_of(TYPE(STRING), v, &a, &lower, &upper));
        v = ls_iceberg_bytes(ls_span_of("\xff", 1)); /* no text: no bounds at all */
        assert_false(ls_iceberg_bound_lower(&TYPE(STRING), &v, &a, &lower));
        assert_false(ls_iceberg_bound_upper(&TYPE(STRING), &v, &a, &lower));
        ls_arena_done(&a);
}

/* B046 */
static void
test_bounds_numbers(void **state)
{
        struct ls_iceberg_value zero = ls_iceberg_double(0.0), minus = ls_iceberg_double(-0.0),
                                nan = ls_iceberg_double(NAN);
        ls_span lower, upper;
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        assert_false(ls_iceberg_bound_lower(&TYPE(DOUBLE), &nan, &a, &lower));
        assert_false(ls_iceberg_bound_upper(&TYPE(FLOAT), &nan, &a, &lower));
        assert_true(bounds_of(TYPE(DOUBLE), zero, &a, &lower, &upper));
        assert_int_equal(lower.ptr[7], 0x80);
        assert_int_equal(upper.ptr[7], 0);
        assert_true(bounds_of(TYPE(DOUBLE), minus, &a, &lower, &upper));
        assert_int_equal(lower.ptr[7], 0x80);
        assert_int_equal(upper.ptr[7], 0);
        assert_true(bounds_of(TYPE(LONG), ls_iceberg_int(5), &a, &lower, &upper));
        assert_true(ls_span_eq(lower, ls_span_of("\5\0\0\0\0\0\0\0", 8)));
        assert_false(ls_iceberg_bound_lower(&TYPE(LONG), &LS_ICEBERG_NULL, &a, &lower));
        assert_false(ls_iceberg_bound_lower(&TYPE(STRUCT), &zero, &a, &lower));
        ls_arena_done(&a);
}

static uint32_t
next_random(uint32_t *seed)
{
        *seed = *seed * 1664525u + 1013904223u;
        return *seed >> 8;
}

/* A string of 1 to 40 characters, many of them at the edges of UTF-8. */
static size_t
random_text(uint32_t *seed, uint8_t to[160])
{
        static const char *const chars[] = { "a",
                                             "\x7f",
                                             "\xc2\x80",
                                             "\xdf\xbf",
                                             "\xe0\xa0\x80",
                                             "\xed\x9f\xbf",
                                             "\xee\x80\x80",
                                             "\xef\xbf\xbf",
                                             "\xf0\x90\x80\x80",
                                             "\xf4\x8f\xbf\xbf" };
        size_t len = 0;

        for (uint32_t n = next_random(seed) % 40 + 1; n > 0; n--) {
                const char *c = chars[next_random(seed) % LS_COUNT(chars)];

                memcpy(to + len, c, strlen(c));
                len += strlen(c);
        }
        return len;
}

static void
test_bounds_random(void **state)
{
        uint32_t seed = 1, without = 0;
        uint8_t bytes[160];
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        for (int i = 0; i < 20000; i++) {
                struct ls_iceberg_type t = i % 2 ? TYPE(STRING) : TYPE(BINARY);
                struct ls_iceberg_value v;
                ls_span lower, upper;
                size_t len;

                if (t.kind == LS_ICEBERG_STRING) {
                        len = random_text(&seed, bytes);
                } else {
                        len = next_random(&seed) % 40;
                        for (size_t b = 0; b < len; b++)
                                bytes[b] = next_random(&seed) % 2 ? 0xff : (uint8_t)b;
                }
                v = ls_iceberg_bytes(ls_span_of(bytes, len));
                ls_arena_reset(&a);
                if (bounds_of(t, v, &a, &lower, &upper)) {
                        assert_true(ls_span_cmp(v.bytes, upper) <= 0);
                        assert_true(t.kind != LS_ICEBERG_STRING || ls_iceberg_utf8_valid(upper));
                        assert_true(upper.len <= LS_ICEBERG_BOUND_LENGTH * 4);
                } else {
                        without++;
                }
                assert_true(ls_span_cmp(lower, v.bytes) <= 0);
                assert_true(t.kind != LS_ICEBERG_STRING || ls_iceberg_utf8_valid(lower));
        }
        assert_true(without < 20); /* only all-highest prefixes have none */
        ls_arena_done(&a);
}

static void
test_utf8(void **state)
{
        static const char *const bad[] = {
                "\x80",
                "\xc0\x80",
                "\xc1\xbf",
                "\xc2",
                "\xe0\x9f\xbf",
                "\xed\xa0\x80",
                "\xed\xbf\xbf",
                "\xe1\x80",
                "\xf0\x8f\x80\x80",
                "\xf4\x90\x80\x80",
                "\xf5\x80\x80\x80",
                "a\xff",
                ("\xc2"
                 "a"),
        };

        for (size_t i = 0; i < LS_COUNT(bad); i++)
                assert_false(ls_iceberg_utf8_valid(ls_span_of(bad[i], strlen(bad[i]))));
        assert_true(ls_iceberg_utf8_valid(ls_span_of("", 0)));
        assert_true(ls_iceberg_utf8_valid(
                ls_span_of("a\xc2\x80\xe0\xa0\x80\xee\x80\x80\xf4\x8f\xbf\xbf", 13)));
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_type_texts),
                cmocka_unit_test(test_transform_texts),
                cmocka_unit_test(test_hash),
                cmocka_unit_test(test_bucket),
                cmocka_unit_test(test_truncate),
                cmocka_unit_test(test_times),
                cmocka_unit_test(test_results),
                cmocka_unit_test(test_binary_form),
                cmocka_unit_test(test_binary_refusals),
                cmocka_unit_test(test_json_form),
                cmocka_unit_test(test_path_form),
                cmocka_unit_test(test_order),
                cmocka_unit_test(test_bounds_cut),
                cmocka_unit_test(test_bounds_numbers),
                cmocka_unit_test(test_bounds_random),
                cmocka_unit_test(test_utf8),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
