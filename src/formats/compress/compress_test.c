/* formats/compress/compress_test.c - each codec gives back what went in, by every way in and in
 * every piece size; and each damaged, cut, or too large input is refused without a crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "formats/compress/compress.h"

/* Text-like bytes (compressible), from a fixed generator. */
static void
fill(struct ls_buf *b, size_t bytes)
{
        uint32_t x = 12345;

        for (size_t i = 0; i < bytes; i++) {
                x = x * 1664525 + 1013904223;
                ls_buf_put_u8(b, (uint8_t)("etaoin shrdlu"[(x >> 24) % 13]));
        }
}

static void
check_round(enum ls_codec codec, ls_span in, int level)
{
        struct ls_buf packed, out;

        ls_buf_init(&packed, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&packed, "before"); /* both calls append */
        ls_buf_put_text(&out, "before");
        assert_int_equal(ls_compress(codec, level, in, &packed), LS_OK);
        ls_span body = { packed.ptr + 6, packed.len - 6 };
        assert_int_equal(ls_decompress(codec, body, &out, in.len), LS_OK);
        assert_int_equal(out.len, in.len + 6);
        assert_true(in.len == 0 || memcmp(out.ptr + 6, in.ptr, in.len) == 0);
        if (in.len > 0) {
                assert_int_equal(ls_decompress(codec, body, &out, in.len - 1), LS_TOO_LARGE);
                assert_int_equal(out.len, in.len + 6);
                assert_int_equal(ls_decompress(codec, body, &out, 0), LS_TOO_LARGE);
        }
        ls_buf_done(&packed);
        ls_buf_done(&out);
}

static void
test_round_trip(void **state)
{
        static const size_t sizes[] = { 0, 1, 2, 100, 65535, 65536, 65537, 300000 };
        struct ls_buf data;

        ls_buf_init(&data, LS_BUF_MAX_DEFAULT);
        fill(&data, 300000);
        for (int codec = 0; codec < LS_CODEC_COUNT; codec++) {
                for (size_t i = 0; i < LS_COUNT(sizes); i++)
                        check_round((enum ls_codec)codec, (ls_span){ data.ptr, sizes[i] },
                                    LS_LEVEL_DEFAULT);
                check_round((enum ls_codec)codec, ls_buf_span(&data), 1);
                check_round((enum ls_codec)codec, ls_buf_span(&data), 9);
                check_round((enum ls_codec)codec, (ls_span){ data.ptr, 100 }, -1000000);
                check_round((enum ls_codec)codec, (ls_span){ data.ptr, 100 }, 1000000);
        }
        ls_buf_done(&data);
}

/* Reads of 1, 7, 4096 and 70000 bytes; one object for all, also after a broken stream. */
static void
test_streaming(void **state)
{
        static const size_t steps[] = { 1, 7, 4096, 70000 };
        LS_AUTO(ls_unpacker_free) struct ls_unpacker *u = ls_unpacker_new();
        LS_AUTO(ls_packer_free) struct ls_packer *p = ls_packer_new();
        struct ls_buf data, packed;
        uint8_t *out = ls_malloc(200001);

        ls_buf_init(&data, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&packed, LS_BUF_MAX_DEFAULT);
        fill(&data, 200000);
        for (int codec = 0; codec < LS_CODEC_COUNT * 2; codec++) {
                ls_buf_clear(&packed);
                assert_int_equal(ls_packer_run(p, (enum ls_codec)(codec / 2), 1 + codec % 2,
                                               ls_buf_span(&data), &packed),
                                 LS_OK);
                for (size_t i = 0; i < LS_COUNT(steps); i++) {
                        size_t at = 0, len = 0;
                        ls_err e;

                        assert_int_equal(ls_unpacker_start(u, (enum ls_codec)(codec / 2),
                                                           ls_buf_span(&packed), 1 << 20),
                                         LS_OK);
                        while ((e = ls_unpacker_read(u, out + at, LS_MIN(steps[i], 200001 - at),
                                                     &len)) == LS_OK) {
                                assert_true(len > 0);
                                at += len;
                        }
                        assert_int_equal(e, LS_END);
                        assert_int_equal(ls_unpacker_read(u, out, 1, &len), LS_END);
                        assert_int_equal(at, 200000);
                        assert_memory_equal(out, data.ptr, at);
                }
        }
        ls_free(out);
        ls_buf_done(&data);
        ls_buf_done(&packed);
}

/* Every cut of a stream is refused; every flipped bit is refused or gives some bounded answer. */
static void
test_damage(void **state)
{
        struct ls_buf data, packed, out;

        ls_buf_init(&data, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&packed, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        fill(&data, 500);
        for (int codec = 1; codec < LS_CODEC_COUNT; codec++) {
                ls_buf_clear(&packed);
                assert_int_equal(ls_compress((enum ls_codec)codec, 1, ls_buf_span(&data), &packed),
                                 LS_OK);
                for (size_t cut = 0; cut < packed.len; cut++) {
                        uint8_t *exact = ls_malloc(cut + 1); /* so that ASan sees a step beyond */

                        memcpy(exact + 1, packed.ptr, cut);
                        assert_int_equal(ls_decompress((enum ls_codec)codec,
                                                       (ls_span){ exact + 1, cut }, &out, 1000),
                                         LS_CORRUPT);
                        ls_free(exact);
                }
                for (size_t bit = 0; bit < packed.len * 8; bit++) {
                        packed.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                        ls_buf_clear(&out);
                        if (ls_decompress((enum ls_codec)codec, ls_buf_span(&packed), &out, 1000) ==
                            LS_OK)
                                assert_true(out.len <= 1000);
                        packed.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                }
                /* bytes behind the end */
                ls_buf_put_text(&packed, "x");
                assert_int_equal(
                        ls_decompress((enum ls_codec)codec, ls_buf_span(&packed), &out, 1000),
                        LS_CORRUPT);
        }
        ls_buf_done(&data);
        ls_buf_done(&packed);
        ls_buf_done(&out);
}

/* 64 MiB of zeros in a small stream: ends at the caller's maximum, not in memory. */
static void
test_bomb(void **state)
{
        LS_AUTO(ls_unpacker_free) struct ls_unpacker *u = ls_unpacker_new();
        struct ls_buf packed, out;
        size_t bytes = (size_t)64 << 20;
        uint8_t *zeros = ls_calloc(1, bytes);

        ls_buf_init(&packed, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&out, 5000); /* the buffer's own maximum ends it too */
        for (int codec = 1; codec < LS_CODEC_COUNT; codec++) {
                ls_buf_clear(&packed);
                ls_buf_clear(&out);
                assert_int_equal(
                        ls_compress((enum ls_codec)codec, 1, (ls_span){ zeros, bytes }, &packed),
                        LS_OK);
                assert_int_equal(
                        ls_unpacker_start(u, (enum ls_codec)codec, ls_buf_span(&packed), 4000),
                        LS_OK);
                assert_int_equal(ls_unpacker_read_all(u, &out), LS_TOO_LARGE);
                assert_int_equal(out.len, 0);
                if (codec != LS_CODEC_SNAPPY) { /* whose one block has no first part */
                        assert_int_equal(ls_unpacker_start(u, (enum ls_codec)codec,
                                                           ls_buf_span(&packed), bytes),
                                         LS_OK);
                        assert_int_equal(ls_unpacker_read_all(u, &out), LS_TOO_LARGE);
                }
        }
        ls_free(zeros);
        ls_buf_done(&packed);
        ls_buf_done(&out);
}

static void
snappy_frame_add(struct ls_buf *b, ls_span block)
{
        struct ls_buf packed;

        ls_buf_init(&packed, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_compress(LS_CODEC_SNAPPY, 0, block, &packed), LS_OK);
        ls_buf_put_be32(b, (uint32_t)packed.len);
        ls_buf_put_span(b, ls_buf_span(&packed));
        ls_buf_done(&packed);
}

/* B004: the Java stream: blocks of any size are joined; its bad shapes are refused. */
static void
test_snappy_java_stream(void **state)
{
        struct ls_buf data, framed, out;

        ls_buf_init(&data, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&framed, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        fill(&data, 70000);
        ls_buf_put(&framed, "\x82SNAPPY\0\0\0\0\1\0\0\0\1", 16);
        assert_int_equal(ls_decompress(LS_CODEC_SNAPPY, ls_buf_span(&framed), &out, 0), LS_OK);
        snappy_frame_add(&framed, (ls_span){ data.ptr, 10 });
        snappy_frame_add(&framed, (ls_span){ data.ptr + 10, 32768 });
        snappy_frame_add(&framed, (ls_span){ data.ptr + 32778, 70000 - 32778 });
        assert_int_equal(ls_decompress(LS_CODEC_SNAPPY, ls_buf_span(&framed), &out, 70000), LS_OK);
        assert_int_equal(out.len, 70000);
        assert_memory_equal(out.ptr, data.ptr, 70000);
        assert_int_equal(ls_decompress(LS_CODEC_SNAPPY, ls_buf_span(&framed), &out, 69999),
                         LS_TOO_LARGE);
        for (size_t cut = 1; cut < 16; cut++) /* inside the header */
                assert_int_equal(
                        ls_decompress(LS_CODEC_SNAPPY, (ls_span){ framed.ptr, cut }, &out, 70000),
                        LS_CORRUPT);
        framed.ptr[16] = 0x7f; /* a block length that cannot be true */
        assert_int_equal(ls_decompress(LS_CODEC_SNAPPY, ls_buf_span(&framed), &out, 70000),
                         LS_CORRUPT);
        /* a bare block that says it makes 2 GiB out of five bytes */
        static const uint8_t lie[] = { 0xff, 0xff, 0xff, 0xff, 0x07, 0, 'a' };
        assert_int_equal(ls_decompress(LS_CODEC_SNAPPY, (ls_span){ lie, sizeof lie }, &out,
                                       (uint64_t)4 << 30),
                         LS_CORRUPT);
        ls_buf_done(&data);
        ls_buf_done(&framed);
        ls_buf_done(&out);
}

/* Members of gzip and frames of zstd may follow each other; lz4 frames may not, nor have linked
 * blocks. */
static void
test_concatenated(void **state)
{
        struct ls_buf twice, out;
        ls_span word = { (const uint8_t *)"lake", 4 };

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        for (int codec = 1; codec < LS_CODEC_COUNT; codec++) {
                ls_buf_init(&twice, LS_BUF_MAX_DEFAULT);
                ls_buf_clear(&out);
                for (int i = 0; i < 2; i++)
                        assert_int_equal(ls_compress((enum ls_codec)codec, 1, word, &twice), LS_OK);
                ls_err e = ls_decompress((enum ls_codec)codec, ls_buf_span(&twice), &out, 8);
                if (codec == LS_CODEC_GZIP || codec == LS_CODEC_ZSTD) {
                        assert_int_equal(e, LS_OK);
                        assert_memory_equal(out.ptr, "lakelake", 8);
                } else {
                        assert_int_equal(e, LS_CORRUPT);
                }
                ls_buf_done(&twice);
        }
        ls_buf_init(&twice, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_compress(LS_CODEC_LZ4, 1, word, &twice), LS_OK);
        twice.ptr[4] &= (uint8_t)~0x20;
        assert_int_equal(ls_decompress(LS_CODEC_LZ4, ls_buf_span(&twice), &out, 100), LS_CORRUPT);
        ls_buf_done(&twice);
        ls_buf_done(&out);
}

static void
test_names(void **state)
{
        enum ls_codec codec = LS_CODEC_NONE;
        struct ls_buf out;

        for (int i = 0; i < LS_CODEC_COUNT; i++) {
                assert_int_equal(ls_codec_parse(ls_str_of(ls_codec_name(i)), &codec), LS_OK);
                assert_int_equal((int)codec, i);
        }
        assert_int_equal(ls_codec_parse(LS_STR("uncompressed"), &codec), LS_OK);
        assert_int_equal(codec, LS_CODEC_NONE);
        assert_int_equal(ls_codec_parse(LS_STR("brotli"), &codec), LS_INVALID);
        assert_int_equal(ls_codec_parse(LS_STR_NULL, &codec), LS_INVALID);
        assert_null(ls_codec_name(5));
        assert_null(ls_codec_name(-1));
        ls_buf_init(&out, 10);
        assert_int_equal(ls_decompress((enum ls_codec)7, LS_SPAN_NULL, &out, 1), LS_UNSUPPORTED);
        assert_int_equal(ls_compress(LS_CODEC_ZSTD, 1, (ls_span){ (const uint8_t *)"a", 1 }, &out),
                         LS_TOO_LARGE);
        assert_false(ls_buf_failed(&out));
        ls_buf_done(&out);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_streaming),
                cmocka_unit_test(test_damage),
                cmocka_unit_test(test_bomb),
                cmocka_unit_test(test_snappy_java_stream),
                cmocka_unit_test(test_concatenated),
                cmocka_unit_test(test_names),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
