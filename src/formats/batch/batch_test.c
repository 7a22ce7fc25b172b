/* formats/batch/batch_test.c - what is built can be read back and passes validation in every codec
 * and shape; what is damaged, cut, inconsistent or against the topic's rules is refused with the
 * right outcome. The streaming walk and the iterator agree on every batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "formats/batch/batch.h"
#include "formats/batch/batch_test.h"
#include "formats/batch/limits.h"

#define NOW 1700000000000

struct rng {
        uint64_t x;
};
static uint32_t
rng_next(struct rng *r, uint32_t below)
{
        r->x = r->x * 6364136223846793005u + 1442695040888963407u;
        return (uint32_t)(r->x >> 33) % below;
}

/* A batch of `count` small records: keys k0.., values v0.., timestamps NOW + 10 i. */
static void
build_small(struct ls_buf *out, enum ls_codec codec, int32_t count)
{
        struct ls_batch_build cfg = { .codec = codec, .level = LS_LEVEL_DEFAULT };
        struct ls_batch_builder b;

        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, out, 0);
        for (int32_t i = 0; i < count; i++) {
                char key[16], value[16];
                struct ls_record r = { .offset = i, .timestamp = NOW + 10 * i };

                r.key = ls_span_of(key, (size_t)snprintf(key, sizeof key, "k%d", i));
                r.value = ls_span_of(value, (size_t)snprintf(value, sizeof value, "v%d", i));
                assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        }
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        ls_batch_builder_done(&b);
}

static void
crc_again(struct ls_buf *b)
{
        ls_set_be32(b->ptr + 17, ls_crc32c(0, (ls_span){ b->ptr + 21, b->len - 21 }));
}

static ls_err
validate(ls_span batch, const struct ls_batch_check *check, struct ls_batch_info *ret_info)
{
        struct ls_batch_check any = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_info info;
        struct ls_batch_fault fault = { .info = { "" } };
        ls_err e = ls_batch_validate(NULL, batch, check ? check : &any, ret_info ? ret_info : &info,
                                     &fault);

        if (e != LS_OK)
                assert_true(fault.info.text[0] != '\0'); /* a refusal has words */
        return e;
}

/* Uncompressed, hand-made: a header for `count` records over `records`. */
static void
make_batch(struct ls_buf *b, int32_t count, ls_span records)
{
        ls_buf_clear(b);
        ls_buf_put_be64(b, 0);
        ls_buf_put_be32(b, (uint32_t)(records.len + 49));
        ls_buf_put_be32(b, 0xffffffff);
        ls_buf_put_u8(b, 2);
        ls_buf_put_be32(b, 0);
        ls_buf_put_be16(b, 0);
        ls_buf_put_be32(b, (uint32_t)(count - 1));
        ls_buf_put_be64(b, NOW);
        ls_buf_put_be64(b, NOW);
        ls_buf_put(b, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 14);
        ls_buf_put_be32(b, (uint32_t)count);
        ls_buf_put_span(b, records);
        crc_again(b);
}

/* --- round trips ------------------------------------------------------------------------------ */

/* Records of random shapes, long ones among them, gaps in the offsets: read back the same. */
static void
random_record(struct rng *rng, struct ls_buf *bytes, struct ls_record *r)
{
        static const uint32_t sizes[] = { 1, 20, 200, 3000, 150000 };
        size_t at = bytes->len, len[5];
        bool headers = rng_next(rng, 3) == 0;

        *r = (struct ls_record){ .timestamp = (int64_t)rng_next(rng, 1000000) - 1000 };
        for (int i = 0; i < 4; i++) {
                uint32_t size = sizes[rng_next(rng, rng_next(rng, 20) == 0 ? 5 : 3)];

                len[i] = rng_next(rng, size);
                for (size_t k = 0; k < len[i]; k++)
                        ls_buf_put_u8(bytes, (uint8_t)rng_next(rng, 30));
        }
        if (rng_next(rng, 5) > 0)
                r->key = ls_span_of(bytes->ptr + at, len[0]);
        at += len[0];
        if (rng_next(rng, 5) > 0)
                r->value = ls_span_of(bytes->ptr + at, len[1]);
        at += len[1];
        if (headers) {
                struct ls_buf h;

                ls_buf_init(&h, LS_BUF_MAX_DEFAULT);
                for (r->header_count = 0; r->header_count < 1 + rng_next(rng, 4); r->header_count++)
                        ls_record_header_put(
                                &h, ls_str_make((const char *)bytes->ptr + at, len[2]),
                                rng_next(rng, 3) == 0
                                        ? LS_SPAN_NULL
                                        : ls_span_of(bytes->ptr + at + len[2], len[3]));
                at = bytes->len;
                ls_buf_put_span(bytes, ls_buf_span(&h));
                r->headers = ls_span_of(bytes->ptr + at, h.len);
                ls_buf_done(&h);
        }
}

static void
check_same(const struct ls_record *a, const struct ls_record *b)
{
        assert_int_equal(a->offset, b->offset);
        assert_int_equal(a->timestamp, b->timestamp);
        assert_true(ls_span_eq(a->key, b->key));
        assert_true(ls_span_eq(a->value, b->value));
        assert_int_equal(a->header_count, b->header_count);
        assert_int_equal(a->headers.len, b->headers.len);
        assert_true(a->headers.len == 0 ||
                    memcmp(a->headers.ptr, b->headers.ptr, a->headers.len) == 0);
        assert_true(ls_record_hash(a) == ls_record_hash(b));
}

static void
round_trip(struct rng *rng, enum ls_codec codec, bool gaps, struct ls_batch_iter *it,
           struct ls_batch_walker *walker, struct ls_buf *bytes)
{
        struct ls_batch_build cfg = { .codec = codec,
                                      .level = LS_LEVEL_DEFAULT,
                                      .records_bytes_max = 1 << 30 };
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_builder b;
        struct ls_batch_info info;
        struct ls_record records[60], r;
        struct ls_buf out;
        uint32_t count = 1 + rng_next(rng, 60);
        uint64_t sum0 = 0, sum1 = 0, sum = 0;
        int64_t offset = 5000000000, max_timestamp = INT64_MIN;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_buf_clear(bytes);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, -1);
        for (uint32_t i = 0; i < count; i++) {
                random_record(rng, bytes, &records[i]);
                offset += gaps ? 1 + rng_next(rng, 1000) : 1;
                records[i].offset = offset;
                assert_int_equal(ls_batch_builder_add(&b, &records[i]), LS_OK);
                uint64_t h = ls_record_hash(&records[i]);
                sum0 += h;
                sum1 += h * i;
                sum += ls_record_hash_at(h, records[i].offset);
                max_timestamp = LS_MAX(max_timestamp, records[i].timestamp);
        }
        assert_int_equal(ls_batch_builder_end(&b, gaps ? offset + 7 : -1, NULL), LS_OK);
        ls_batch_builder_done(&b);

        assert_int_equal(ls_batch_iter_open(it, ls_buf_span(&out), true), LS_OK);
        assert_int_equal(ls_batch_last_offset(&it->header), gaps ? offset + 7 : offset);
        for (uint32_t i = 0; i < count; i++) {
                assert_int_equal(ls_batch_iter_next(it, &r), LS_OK);
                check_same(&r, &records[i]);
        }
        assert_int_equal(ls_batch_iter_next(it, &r), LS_END);
        if (gaps) { /* no client sends such a batch */
                assert_int_equal(ls_batch_validate(walker, ls_buf_span(&out), &check, &info, NULL),
                                 LS_INVALID);
        } else {
                assert_int_equal(ls_batch_validate(walker, ls_buf_span(&out), &check, &info, NULL),
                                 LS_OK);
                assert_true(info.has_sums && info.sum0 == sum0 && info.sum1 == sum1);
                assert_true(ls_batch_hash_at(sum0, sum1, records[0].offset) == sum);
                assert_int_equal(info.max_timestamp, max_timestamp);
                assert_int_equal(records[info.max_timestamp_delta].timestamp, max_timestamp);
                assert_false(info.fix_timestamps);
        }
        ls_buf_done(&out);
}

static void
test_round_trips(void **state)
{
        LS_AUTO(ls_batch_walker_free) struct ls_batch_walker *walker = ls_batch_walker_new();
        struct rng rng = { 42 };
        struct ls_batch_iter it;
        struct ls_buf bytes;

        ls_buf_init(&bytes, LS_BUF_MAX_DEFAULT);
        assert_true(ls_buf_reserve(&bytes, (size_t)64 << 20)); /* so that spans into it stay */
        ls_batch_iter_init(&it, 0);
        for (int i = 0; i < 25; i++) {
                for (int codec = 0; codec < LS_CODEC_COUNT; codec++) {
                        round_trip(&rng, (enum ls_codec)codec, false, &it, walker, &bytes);
                        round_trip(&rng, (enum ls_codec)codec, true, &it, walker, &bytes);
                }
        }
        ls_batch_iter_done(&it);
        ls_buf_done(&bytes);
}

/* One record of n bytes around every edge of the walk's window: the walk's two ways of taking a
 * record and the iterator's give one hash. */
static void
test_window_edges(void **state)
{
        LS_AUTO(ls_batch_walker_free) struct ls_batch_walker *walker = ls_batch_walker_new();
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        size_t max = 3 * BATCH_WALK_BYTES;
        uint8_t *bytes = ls_malloc(max);
        struct ls_buf out, headers;

        for (size_t i = 0; i < max; i++)
                bytes[i] = (uint8_t)(i * 7 % 13);
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&headers, LS_BUF_MAX_DEFAULT);
        ls_record_header_put(&headers, LS_STR("h"), ls_span_of(bytes, BATCH_WALK_BYTES + 5));
        ls_record_header_put(&headers, LS_STR(""), LS_SPAN_NULL);
        for (int round = 0; round < 4 * 40; round++) {
                struct ls_batch_build cfg = { .codec = (enum ls_codec)(1 + round % 4),
                                              .level = 1,
                                              .records_bytes_max = 1 << 30 };
                struct ls_batch_builder b;
                struct ls_batch_info info;
                size_t len =
                        BATCH_WALK_BYTES * (size_t)(1 + round / 80) - 20 + (size_t)(round / 4 % 20);
                struct ls_record records[3] = {
                        { .timestamp = 1, .value = { bytes, len } },
                        { .offset = 1,
                          .timestamp = 3,
                          .key = { bytes, len },
                          .value = { bytes, 9 } },
                        { .offset = 2,
                          .timestamp = 2,
                          .key = { bytes, 0 },
                          .header_count = 2,
                          .headers = ls_buf_span(&headers) },
                };
                uint64_t sum0 = 0, sum1 = 0;

                ls_buf_clear(&out);
                ls_batch_builder_init(&b, &cfg);
                ls_batch_builder_begin(&b, &out, 0);
                for (size_t i = 0; i < 3; i++) {
                        assert_int_equal(ls_batch_builder_add(&b, &records[i]), LS_OK);
                        sum0 += ls_record_hash(&records[i]);
                        sum1 += ls_record_hash(&records[i]) * i;
                }
                assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
                ls_batch_builder_done(&b);
                assert_int_equal(ls_batch_validate(walker, ls_buf_span(&out), &check, &info, NULL),
                                 LS_OK);
                assert_true(info.sum0 == sum0 && info.sum1 == sum1);
                assert_int_equal(info.max_timestamp_delta, 1);
                check.need_keys = true;
                assert_int_equal(ls_batch_validate(walker, ls_buf_span(&out), &check, &info, NULL),
                                 LS_NO_KEY);
                check.need_keys = false;
        }
        ls_free(bytes);
        ls_buf_done(&out);
        ls_buf_done(&headers);
}

/* --- damage ----------------------------------------------------------------------------------- */

/* Every cut and every flipped bit of a batch is noticed: offset and leader epoch are not under the
 * CRC, nor is the length, but that then is not the length of the bytes. */
static void
test_truncation_and_bit_flips(void **state)
{
        struct ls_buf b;
        struct ls_batch_iter it;

        ls_batch_iter_init(&it, 0);
        for (int codec = 0; codec < LS_CODEC_COUNT; codec++) {
                ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
                build_small(&b, (enum ls_codec)codec, 9);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_OK);
                for (size_t cut = 0; cut < b.len; cut++) {
                        uint8_t *exact = ls_malloc(cut + 1);
                        ls_span s = { exact + 1, cut };

                        memcpy(exact + 1, b.ptr, cut);
                        assert_int_equal(validate(s, NULL, NULL), LS_CORRUPT);
                        assert_int_equal(ls_batch_iter_open(&it, s, true), LS_CORRUPT);
                        assert_int_equal(ls_batch_iter_open(&it, s, false), LS_CORRUPT);
                        ls_free(exact);
                }
                for (size_t bit = 8 * 8; bit < b.len * 8; bit++) {
                        ls_err e;

                        if (bit / 8 >= 12 && bit / 8 < 16)
                                continue; /* leader epoch */
                        b.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                        e = validate(ls_buf_span(&b), NULL, NULL);
                        assert_int_equal(e, bit / 8 == 16 ? LS_UNSUPPORTED : LS_CORRUPT);
                        b.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                }
                ls_buf_put_u8(&b, 0); /* a byte behind it */
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_CORRUPT);
                ls_buf_done(&b);
        }
        ls_batch_iter_done(&it);
}

/* The same flips with a CRC that matches again: never a crash; walk and iterator agree on what is
 * readable, and what the walk accepts the iterator reads with the same sums. */
static void
test_bit_flips_with_good_crc(void **state)
{
        struct ls_batch_iter it;
        struct ls_buf b;

        ls_batch_iter_init(&it, 1 << 20);
        for (int codec = 0; codec < LS_CODEC_COUNT; codec++) {
                ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
                build_small(&b, (enum ls_codec)codec, 9);
                for (size_t bit = 21 * 8; bit < b.len * 8; bit++) {
                        struct ls_batch_info info;
                        struct ls_record r;
                        uint64_t sum0 = 0;
                        ls_err e;

                        b.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                        crc_again(&b);
                        if (validate(ls_buf_span(&b), NULL, &info) == LS_OK) {
                                assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true),
                                                 LS_OK);
                                while ((e = ls_batch_iter_next(&it, &r)) == LS_OK)
                                        sum0 += ls_record_hash(&r);
                                assert_int_equal(e, LS_END);
                                assert_true(info.sum0 == sum0);
                        }
                        b.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                }
                ls_buf_done(&b);
        }
        ls_batch_iter_done(&it);
}

/* B003 inside batches: lengths and counts that cannot be true, under a CRC that matches. */
static void
test_lengths_that_cannot_be_true(void **state)
{
        static const struct {
                const char *what;
                int32_t count;
                size_t len;
                const char *bytes;
                ls_err e;
        } cases[] = {
                { "a good record", 1, 7, "\x0c\0\0\0\1\1\0", LS_OK },
                { "a good record with a header", 1, 9, "\x10\0\0\0\1\1\2\0\1", LS_OK },
                { "no records", 0, 0, "", LS_INVALID },
                { "count above the bytes", 2, 7, "\x0c\0\0\0\1\1\0", LS_INVALID },
                { "count 2^31-1", INT32_MAX, 7, "\x0c\0\0\0\1\1\0", LS_INVALID },
                { "negative count", -5, 7, "\x0c\0\0\0\1\1\0", LS_INVALID },
                { "bytes behind", 1, 8, "\x0c\0\0\0\1\1\0\0", LS_INVALID },
                { "second record missing", 2, 14, "\x1a\0\0\0\1\x0f\0\0\0\0\0\0\0\0", LS_INVALID },
                { "length past the end", 1, 7, "\x0e\0\0\0\1\1\0", LS_INVALID },
                { "length too short", 1, 7, "\x0a\0\0\0\1\1\0", LS_INVALID },
                { "negative length", 1, 7, "\x0b\0\0\0\1\1\0", LS_INVALID },
                { "length 2^31-1", 1, 11, "\xfe\xff\xff\xff\x0f\0\0\0\1\1\0", LS_INVALID },
                { "length that never ends", 1, 11, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
                  LS_INVALID },
                { "key length -2", 1, 7, "\x0c\0\0\0\3\1\0", LS_INVALID },
                { "key past the record", 1, 7, "\x0c\0\0\0\x7e\1\0", LS_INVALID },
                { "value length -2", 1, 7, "\x0c\0\0\0\1\3\0", LS_INVALID },
                { "value past the record", 1, 7, "\x0c\0\0\0\1\x08\0", LS_INVALID },
                { "negative header count", 1, 7, "\x0c\0\0\0\1\1\1", LS_INVALID },
                { "headers missing", 1, 7, "\x0c\0\0\0\1\1\2", LS_INVALID },
                { "header count 2^31-1", 1, 11, "\x14\0\0\0\1\1\xfe\xff\xff\xff\x0f", LS_INVALID },
                { "null header key", 1, 9, "\x10\0\0\0\1\1\2\1\1", LS_INVALID },
                { "header value -2", 1, 9, "\x10\0\0\0\1\1\2\0\3", LS_INVALID },
                { "header value past the record", 1, 9, "\x10\0\0\0\1\1\2\0\4", LS_INVALID },
                { "bytes behind the headers", 1, 10, "\x12\0\0\0\1\1\2\0\1\0", LS_INVALID },
                { "offset delta 1 first", 1, 7, "\x0c\0\0\2\1\1\0", LS_INVALID },
                { "offset delta -1", 1, 7, "\x0c\0\0\1\1\1\0", LS_INVALID },
                { "timestamp overflow", 1, 16,
                  "\x1e\0\xfe\xff\xff\xff\xff\xff\xff\xff\xff\1\0\1\1\0", LS_INVALID },
        };
        LS_AUTO(ls_batch_walker_free) struct ls_batch_walker *walker = ls_batch_walker_new();
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_iter it;
        struct ls_buf b, packed;

        ls_batch_iter_init(&it, 0);
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&packed, LS_BUF_MAX_DEFAULT);
        for (size_t i = 0; i < LS_COUNT(cases); i++) {
                ls_span records = { (const uint8_t *)cases[i].bytes, cases[i].len };

                for (int codec = 0; codec < LS_CODEC_COUNT; codec++) {
                        struct ls_batch_info info;
                        struct ls_record r;
                        ls_err e;

                        ls_buf_clear(&packed);
                        assert_int_equal(ls_compress((enum ls_codec)codec, 1, records, &packed),
                                         LS_OK);
                        make_batch(&b, cases[i].count, ls_buf_span(&packed));
                        b.ptr[22] = (uint8_t)codec;
                        crc_again(&b);
                        e = ls_batch_validate(walker, ls_buf_span(&b), &check, &info, NULL);
                        if (e != cases[i].e)
                                print_message("%s, codec %d\n", cases[i].what, codec);
                        assert_int_equal(e, cases[i].e);
                        /* the iterator meets the same bytes on a disk */
                        e = ls_batch_iter_open(&it, ls_buf_span(&b), true);
                        while (e == LS_OK)
                                e = ls_batch_iter_next(&it, &r);
                        assert_int_equal(e == LS_END, cases[i].e == LS_OK);
                }
        }
        ls_batch_iter_done(&it);
        ls_buf_done(&b);
        ls_buf_done(&packed);
}

/* The same in a record that is longer than the walk's window. */
static void
test_long_record_refusals(void **state)
{
        static const struct {
                int64_t key_len, value_len, header_count;
                size_t extra;
                ls_err e;
        } cases[] = {
                { -1, 200000, 0, 0, LS_OK },           { -1, 200000, 0, 1, LS_INVALID },
                { -2, 200000, 0, 0, LS_INVALID },      { -1, 200001, 0, 0, LS_INVALID },
                { 3000000, 200000, 0, 0, LS_INVALID }, { -1, 200000, 1, 0, LS_INVALID },
                { -1, 200000, -1, 0, LS_INVALID },     { -1, 200000, 1000, 100, LS_INVALID },
                { -1, 200000, 1, 2, LS_OK },           { -1, (int64_t)1 << 40, 0, 0, LS_INVALID },
                { -1, -2, 0, 200000, LS_INVALID },
        };
        struct ls_buf records, body, b;
        uint8_t *zeros = ls_calloc(1, 200000);

        ls_buf_init(&records, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&body, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        for (size_t i = 0; i < LS_COUNT(cases); i++) {
                ls_buf_clear(&records);
                ls_buf_clear(&body);
                ls_buf_put(&body, "\0\0\0", 3);
                ls_buf_put_varint(&body, cases[i].key_len);
                ls_buf_put_varint(&body, cases[i].value_len);
                ls_buf_put(&body, zeros, 200000);
                ls_buf_put_varint(&body, cases[i].header_count);
                ls_buf_put(&body, zeros, cases[i].extra);
                ls_buf_put_varint(&records, (int64_t)body.len);
                ls_buf_put_span(&records, ls_buf_span(&body));
                ls_buf_clear(&body);
                assert_int_equal(ls_compress(LS_CODEC_ZSTD, 1, ls_buf_span(&records), &body),
                                 LS_OK);
                make_batch(&b, 1, ls_buf_span(&body));
                b.ptr[22] = LS_CODEC_ZSTD;
                crc_again(&b);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), cases[i].e);
                /* one with its end missing */
                ls_buf_clear(&body);
                assert_int_equal(ls_compress(LS_CODEC_ZSTD, 1,
                                             (ls_span){ records.ptr, records.len - 5000 }, &body),
                                 LS_OK);
                make_batch(&b, 1, ls_buf_span(&body));
                b.ptr[22] = LS_CODEC_ZSTD;
                crc_again(&b);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_INVALID);
        }
        ls_free(zeros);
        ls_buf_done(&records);
        ls_buf_done(&body);
        ls_buf_done(&b);
}

static void
test_compressed_damage_and_bombs(void **state)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_iter it;
        struct ls_buf b, packed;
        uint8_t *zeros = ls_calloc(1, 1 << 20);

        ls_batch_iter_init(&it, 4000);
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&packed, LS_BUF_MAX_DEFAULT);
        for (int codec = 1; codec < LS_CODEC_COUNT; codec++) {
                ls_buf_clear(&b); /* bytes that are no stream at all */
                make_batch(&b, 1, ls_span_of("garbage, not compressed", 23));
                b.ptr[22] = (uint8_t)codec;
                crc_again(&b);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_CORRUPT);
                assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_CORRUPT);
                /* a stream that ends too early */
                ls_buf_clear(&b);
                build_small(&b, (enum ls_codec)codec, 50);
                b.len -= 3;
                ls_set_be32(b.ptr + 8, (uint32_t)b.len - 12);
                crc_again(&b);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_CORRUPT);
                /* more than is allowed, in a record that is otherwise good */
                ls_buf_clear(&packed);
                ls_buf_put_varint(&packed, (1 << 20) + 9);
                ls_buf_put(&packed, "\0\0\0\1", 4);
                ls_buf_put_varint(&packed, 1 << 20);
                ls_buf_put(&packed, zeros, 1 << 20);
                ls_buf_put_u8(&packed, 0);
                struct ls_buf stream;
                ls_buf_init(&stream, LS_BUF_MAX_DEFAULT);
                assert_int_equal(
                        ls_compress((enum ls_codec)codec, 1, ls_buf_span(&packed), &stream), LS_OK);
                make_batch(&b, 1, ls_buf_span(&stream));
                b.ptr[22] = (uint8_t)codec;
                crc_again(&b);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_OK);
                check.unpacked_bytes_max = (1 << 20) - 100;
                assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_TOO_LARGE);
                assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_TOO_LARGE);
                ls_buf_done(&stream);
        }
        /* codecs that do not exist */
        for (uint8_t codec = 5; codec < 8; codec++) {
                make_batch(&b, 1, ls_span_of("\x0c\0\0\0\1\1\0", 7));
                b.ptr[22] = codec;
                crc_again(&b);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_UNSUPPORTED);
                assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_UNSUPPORTED);
        }
        ls_free(zeros);
        ls_batch_iter_done(&it);
        ls_buf_done(&b);
        ls_buf_done(&packed);
}

/* --- the topic's rules ------------------------------------------------------------------------ */

/* B006: header max -1, 0, too small or too large: found, and mended in place; one record and
 * several, compressed and not. */
static void
test_max_timestamp(void **state)
{
        static const int64_t wrong[] = { -1, 0, NOW, NOW + 1000000 };
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_info info;
        struct ls_buf b;

        for (int codec = 0; codec < 2; codec++) {
                for (size_t i = 0; i < LS_COUNT(wrong); i++) {
                        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
                        build_small(&b, (enum ls_codec)codec, 3);
                        ls_batch_set_timestamps(b.ptr, b.len, false, wrong[i]);
                        for (int depth = 0; depth < 2; depth++) {
                                check.depth = (enum ls_batch_depth)depth;
                                assert_int_equal(validate(ls_buf_span(&b), &check, &info), LS_OK);
                                assert_int_equal(info.header.max_timestamp, wrong[i]);
                                if (depth == LS_BATCH_HEADER_ONLY && wrong[i] >= NOW) {
                                        assert_false(info.fix_timestamps || info.has_sums);
                                        assert_int_equal(info.max_timestamp, wrong[i]);
                                        continue;
                                }
                                assert_true(info.fix_timestamps && info.has_sums);
                                assert_int_equal(info.max_timestamp, NOW + 20);
                                assert_int_equal(info.max_timestamp_delta, 2);
                        }
                        ls_batch_set_timestamps(b.ptr, b.len, false, NOW + 20);
                        check.depth = LS_BATCH_FULL;
                        assert_int_equal(validate(ls_buf_span(&b), &check, &info), LS_OK);
                        assert_false(info.fix_timestamps);
                        ls_buf_done(&b);
                }
        }
        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        build_small(&b, LS_CODEC_NONE, 1);
        ls_batch_set_timestamps(b.ptr, b.len, false, -1);
        assert_int_equal(validate(ls_buf_span(&b), NULL, &info), LS_OK);
        assert_true(info.fix_timestamps && info.max_timestamp == NOW);
        ls_buf_done(&b);
}

/* What no column of microseconds can hold is refused at the door: behind it, it could never become
 * a row. */
static void
test_timestamps_of_no_table(void **state)
{
        static const struct {
                int64_t timestamp;
                ls_err want;
        } cases[] = {
                { LS_TIMESTAMP_MS_MAX, LS_OK },  { LS_TIMESTAMP_MS_MAX + 1, LS_TIMESTAMP },
                { -LS_TIMESTAMP_MS_MAX, LS_OK }, { -LS_TIMESTAMP_MS_MAX - 1, LS_TIMESTAMP },
                { INT64_MAX, LS_TIMESTAMP },     { INT64_MIN, LS_TIMESTAMP },
                { LS_NO_TIMESTAMP, LS_OK },      { 0, LS_OK },
        };

        for (size_t i = 0; i < LS_COUNT(cases); i++) {
                struct ls_batch_build cfg = { .codec = LS_CODEC_NONE };
                struct ls_record r = { .timestamp = cases[i].timestamp,
                                       .headers = ls_span_of("", 0) };
                struct ls_batch_builder b;
                struct ls_buf out;

                ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
                ls_batch_builder_init(&b, &cfg);
                ls_batch_builder_begin(&b, &out, 0);
                assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
                assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
                assert_int_equal(validate(ls_buf_span(&out), NULL, NULL), cases[i].want);
                ls_batch_builder_done(&b);
                ls_buf_done(&out);
        }
}

static void
test_timestamps(void **state)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_fault fault;
        struct ls_batch_info info, created;
        struct ls_batch_iter it;
        struct ls_record r;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        build_small(&b, LS_CODEC_GZIP, 3); /* NOW, NOW + 10, NOW + 20 */
        for (int depth = 0; depth < 2; depth++) {
                check = LS_BATCH_CHECK_DEFAULT;
                check.depth = (enum ls_batch_depth)depth;
                check.now_ms = NOW;
                check.after_ms_max = 20;
                assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_OK);
                check.after_ms_max = 19;
                assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_TIMESTAMP);
                check.now_ms = NOW + 100;
                check.before_ms_max = 100;
                assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_OK);
                check.before_ms_max = 99;
                assert_int_equal(ls_batch_validate(NULL, ls_buf_span(&b), &check, &info, &fault),
                                 LS_TIMESTAMP);
                assert_int_equal(fault.record, 0);
        }
        check.depth = LS_BATCH_FULL;
        check.now_ms = NOW;
        check.after_ms_max = 15;
        assert_int_equal(ls_batch_validate(NULL, ls_buf_span(&b), &check, &info, &fault),
                         LS_TIMESTAMP);
        assert_int_equal(fault.record, 2);

        /* log append time: bounds do not matter, every record has the broker's time */
        assert_int_equal(validate(ls_buf_span(&b), NULL, &created), LS_OK);
        check.log_append_time = true;
        check.before_ms_max = check.after_ms_max = 0;
        check.now_ms = NOW + 5000;
        assert_int_equal(validate(ls_buf_span(&b), &check, &info), LS_OK);
        assert_true(info.fix_timestamps);
        assert_int_equal(info.max_timestamp, NOW + 5000);
        assert_int_equal(info.max_timestamp_delta, 0);
        assert_true(info.sum0 != created.sum0);
        ls_batch_set_timestamps(b.ptr, b.len, true, info.max_timestamp);
        ls_batch_iter_init(&it, 0);
        assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&b), true), LS_OK);
        for (int i = 0; i < 3; i++) {
                assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
                assert_int_equal(r.timestamp, NOW + 5000);
                info.sum0 -= ls_record_hash(&r);
        }
        assert_true(info.sum0 == 0); /* the sums were those of the records as they are read */
        ls_batch_iter_done(&it);
        ls_buf_done(&b);
}

static void
test_rules(void **state)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_batch_fault fault;
        struct ls_batch_info info;
        struct ls_buf b;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        /* B008: the size as sent, header included */
        build_small(&b, LS_CODEC_NONE, 3);
        check.batch_bytes_max = b.len;
        assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_OK);
        check.batch_bytes_max = b.len - 1;
        assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_TOO_LARGE);
        check.batch_bytes_max = 0;
        /* keys; also where only the header was to be looked at */
        check.need_keys = true;
        assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_OK);
        make_batch(&b, 2, ls_span_of("\x0e\0\0\0\2k\1\0\x0c\0\0\2\1\1\0", 15));
        check.depth = LS_BATCH_HEADER_ONLY;
        assert_int_equal(ls_batch_validate(NULL, ls_buf_span(&b), &check, &info, &fault),
                         LS_NO_KEY);
        assert_int_equal(fault.record, 1);
        check = LS_BATCH_CHECK_DEFAULT;
        assert_int_equal(validate(ls_buf_span(&b), &check, NULL), LS_OK);
        /* producer fields: id at 43, epoch at 51, sequence at 53; transactional is bit 4 */
        b.ptr[22] = LS_BATCH_TRANSACTIONAL;
        crc_again(&b);
        assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_INVALID);
        ls_set_be64(b.ptr + 43, 9);
        crc_again(&b);
        assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_INVALID);
        b.ptr[51] = b.ptr[52] = 0;
        crc_again(&b);
        assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_INVALID);
        ls_set_be32(b.ptr + 53, 0);
        crc_again(&b);
        assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_OK);
        ls_set_be64(b.ptr + 43, (uint64_t)-2);
        crc_again(&b);
        assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_INVALID);
        ls_set_be64(b.ptr + 43, 9);
        b.ptr[22] = LS_BATCH_DELETE_HORIZON;
        crc_again(&b);
        assert_int_equal(validate(ls_buf_span(&b), NULL, NULL), LS_INVALID);
        /* last offset delta against the count, each way */
        b.ptr[22] = 0;
        for (uint32_t delta = 0; delta < 4; delta++) {
                ls_set_be32(b.ptr + 23, delta);
                crc_again(&b);
                assert_int_equal(validate(ls_buf_span(&b), NULL, NULL),
                                 delta == 1 ? LS_OK : LS_INVALID);
        }
        ls_buf_done(&b);
}

/* --- header ----------------------------------------------------------------------------------- */

static void
test_peek_and_next(void **state)
{
        struct ls_batch_header h;
        struct ls_buf b;
        ls_span rest, batch;
        uint64_t bytes = 0;
        size_t first;

        ls_buf_init(&b, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_batch_peek(LS_SPAN_NULL, &h), LS_END);
        build_small(&b, LS_CODEC_NONE, 2);
        first = b.len;
        build_small(&b, LS_CODEC_ZSTD, 5);
        ls_batch_set_base_offset(b.ptr + first, 2, 9);
        rest = ls_buf_span(&b);
        assert_int_equal(ls_batch_next(&rest, &batch, &h), LS_OK);
        assert_int_equal(batch.len, first);
        assert_int_equal(h.count, 2);
        assert_int_equal(ls_batch_next(&rest, &batch, &h), LS_OK);
        assert_int_equal(h.base_offset, 2);
        assert_int_equal(h.leader_epoch, 9);
        assert_int_equal(ls_batch_last_offset(&h), 6);
        assert_int_equal(ls_batch_codec(&h), LS_CODEC_ZSTD);
        assert_int_equal(ls_batch_check_crc(batch), LS_OK); /* not under the CRC */
        assert_int_equal(ls_batch_next(&rest, &batch, &h), LS_END);
        rest = (ls_span){ b.ptr, b.len - 1 };
        assert_int_equal(ls_batch_next(&rest, &batch, &h), LS_OK);
        assert_int_equal(ls_batch_next(&rest, &batch, &h), LS_CORRUPT);

        assert_int_equal(ls_batch_peek_bytes((ls_span){ b.ptr, 11 }, &bytes), LS_END);
        assert_int_equal(ls_batch_peek_bytes((ls_span){ b.ptr, 12 }, &bytes), LS_OK);
        assert_int_equal(bytes, first);
        for (uint32_t i = 0; i < 3; i++) {
                static const uint32_t lies[] = { 48, 0x80000000, 0xffffffff };

                ls_set_be32(b.ptr + 8, lies[i]);
                assert_int_equal(ls_batch_peek_bytes(ls_buf_span(&b), &bytes), LS_CORRUPT);
                assert_int_equal(ls_batch_peek(ls_buf_span(&b), &h), LS_CORRUPT);
        }
        ls_buf_done(&b);
}

/* --- builder ---------------------------------------------------------------------------------- */

static void
test_builder_full(void **state)
{
        struct ls_batch_build cfg = { .records_bytes_max = 100 };
        struct ls_batch_builder b;
        struct ls_batch_header h;
        struct ls_buf out;
        struct ls_record r = { .timestamp = 5,
                               .value = ls_span_of("0123456789012345678901234", 25) };
        size_t bytes = 0;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, -1);
        for (; r.offset < 3; r.offset++)
                assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_FULL); /* 4 x 32 bytes */
        assert_int_equal(ls_batch_builder_end(&b, -1, &bytes), LS_OK);
        assert_int_equal(bytes, 61 + 3 * 32);
        assert_int_equal(out.len, bytes);
        /* one record always fits, whatever the bound */
        cfg.records_bytes_max = 1;
        ls_batch_builder_done(&b);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, -1);
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        r.offset++;
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_FULL);
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        /* neither records nor a gap: nothing */
        bytes = out.len;
        ls_batch_builder_begin(&b, &out, -1);
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        assert_int_equal(out.len, bytes);
        /* an offset too far from the base */
        ls_batch_builder_begin(&b, &out, 0);
        r.offset = (int64_t)1 << 31;
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_FULL);
        r.offset = INT32_MAX;
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        assert_int_equal(ls_batch_peek((ls_span){ out.ptr + bytes, out.len - bytes }, &h), LS_OK);
        assert_int_equal(h.last_offset_delta, INT32_MAX);
        ls_batch_builder_done(&b);
        ls_buf_done(&out);
}

static void
test_builder_timestamps(void **state)
{
        struct ls_batch_build cfg = { .count_max = 3 };
        struct ls_batch_header h;
        struct ls_batch_builder b;
        struct ls_batch_info info;
        struct ls_buf out;
        struct ls_record r = { .timestamp = 5 };

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, 0);
        r.timestamp = INT64_MIN;
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        r = (struct ls_record){ .offset = 1, .timestamp = 0 }; /* 2^63 above: no delta of 64 bits */
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_FULL);
        r.timestamp = -1;
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        r = (struct ls_record){ .offset = 2, .timestamp = -7 };
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        r.offset = 3;
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_FULL); /* count_max */
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        assert_int_equal(ls_batch_peek(ls_buf_span(&out), &h), LS_OK);
        assert_int_equal(h.max_timestamp, -1);
        assert_true(h.base_timestamp == INT64_MIN);
        /* Built, yet refused: no table can hold that time. */
        assert_int_equal(validate(ls_buf_span(&out), NULL, &info), LS_TIMESTAMP);
        ls_batch_builder_done(&b);

        cfg = (struct ls_batch_build){ .log_append_time = true };
        ls_batch_builder_init(&b, &cfg);
        ls_buf_clear(&out);
        ls_batch_builder_begin(&b, &out, -1);
        r = (struct ls_record){ .offset = 7, .timestamp = 1000 };
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        r.offset = 8;
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        r = (struct ls_record){ .offset = 9, .timestamp = 1001 }; /* another append */
        assert_int_equal(ls_batch_builder_add(&b, &r), LS_FULL);
        assert_int_equal(ls_batch_builder_end(&b, 9, NULL), LS_OK);
        struct ls_batch_iter it;
        ls_batch_iter_init(&it, 0);
        assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&out), true), LS_OK);
        assert_true(it.header.attributes & LS_BATCH_LOG_APPEND_TIME);
        assert_int_equal(ls_batch_last_offset(&it.header), 9);
        assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
        assert_int_equal(r.timestamp, 1000);
        assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
        assert_int_equal(ls_batch_iter_next(&it, &r), LS_END);
        ls_batch_iter_done(&it);
        ls_batch_builder_done(&b);
        ls_buf_done(&out);
}

/* An empty batch over a hole: readable, and its last offset is the hole's. */
static void
test_builder_empty(void **state)
{
        struct ls_batch_build cfg = { .codec = LS_CODEC_ZSTD, .level = LS_LEVEL_DEFAULT };
        struct ls_batch_builder b;
        struct ls_batch_iter it;
        struct ls_record r;
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, 100);
        assert_int_equal(ls_batch_builder_end(&b, 199, NULL), LS_OK);
        assert_int_equal(out.len, LS_BATCH_HEADER_BYTES);
        ls_batch_iter_init(&it, 0);
        assert_int_equal(ls_batch_iter_open(&it, ls_buf_span(&out), true), LS_OK);
        assert_int_equal(ls_batch_last_offset(&it.header), 199);
        assert_int_equal(ls_batch_iter_next(&it, &r), LS_END);
        assert_int_equal(validate(ls_buf_span(&out), NULL, NULL), LS_INVALID);
        ls_batch_iter_done(&it);
        ls_batch_builder_done(&b);
        ls_buf_done(&out);
}

/* Past the output's maximum: an outcome, the buffer's earlier content is whole. */
static void
test_builder_out_of_room(void **state)
{
        for (int codec = 0; codec < LS_CODEC_COUNT; codec++) {
                struct ls_batch_build cfg = { .codec = (enum ls_codec)codec, .level = 1 };
                struct ls_batch_builder b;
                struct ls_record r = { .value = ls_span_of("0123456789", 10) };
                struct ls_buf out;
                size_t max;

                for (max = 4; max < 90; max++) {
                        ls_err e;

                        ls_buf_init(&out, max);
                        ls_buf_put_text(&out, "abc");
                        ls_batch_builder_init(&b, &cfg);
                        ls_batch_builder_begin(&b, &out, 0);
                        r.offset = 0;
                        e = ls_batch_builder_add(&b, &r);
                        assert_true(e == LS_OK || e == LS_TOO_LARGE);
                        e = ls_batch_builder_end(&b, e == LS_OK ? -1 : 0, NULL);
                        assert_true(e == LS_OK || e == LS_TOO_LARGE);
                        assert_false(ls_buf_failed(&out));
                        assert_int_equal(out.len > 3, e == LS_OK);
                        assert_memory_equal(out.ptr, "abc", 3);
                        ls_batch_builder_done(&b);
                        ls_buf_done(&out);
                }
        }
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trips),
                cmocka_unit_test(test_window_edges),
                cmocka_unit_test(test_truncation_and_bit_flips),
                cmocka_unit_test(test_bit_flips_with_good_crc),
                cmocka_unit_test(test_lengths_that_cannot_be_true),
                cmocka_unit_test(test_long_record_refusals),
                cmocka_unit_test(test_compressed_damage_and_bombs),
                cmocka_unit_test(test_max_timestamp),
                cmocka_unit_test(test_timestamps_of_no_table),
                cmocka_unit_test(test_timestamps),
                cmocka_unit_test(test_rules),
                cmocka_unit_test(test_peek_and_next),
                cmocka_unit_test(test_builder_full),
                cmocka_unit_test(test_builder_timestamps),
                cmocka_unit_test(test_builder_empty),
                cmocka_unit_test(test_builder_out_of_room),
        };

        return cmocka_run_group_tests_name("batch", tests, NULL, NULL) + golden_tests();
}
