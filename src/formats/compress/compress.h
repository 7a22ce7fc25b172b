/* formats/compress/compress.h - the codecs of Kafka and Parquet: gzip, snappy, lz4 frame, zstd.
 *
 * Three ways in: whole to whole (ls_compress, ls_decompress), the same with contexts kept between
 * calls (struct ls_packer), and a streaming decompressor of bounded memory (struct ls_unpacker) for
 * walks that only look. A decompression bomb ends at the caller's maximum.
 * What is accepted on input:
 *   gzip   RFC 1952, one or more members.
 *   snappy a bare block, or the Java stream (magic 0x82 'SNAPPY' 0, two be32, then be32-length
 *          blocks), told apart by the magic; all blocks are joined.
 *   lz4    one LZ4 frame of independent blocks (Kafka's own readers refuse linked ones).
 *   zstd   RFC 8878, one or more frames, windows up to 2^ZSTD_WINDOW_LOG_MAX.
 * Written are: one gzip member, a bare snappy block, one lz4 frame with content size, one zstd
 * frame.
 * Threads: an object has one owner at a time; the plain functions may be called from any thread.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/span.h"

/* The values are those of a Kafka batch's attributes (KIP-98). */
enum ls_codec {
        LS_CODEC_NONE = 0,
        LS_CODEC_GZIP = 1,
        LS_CODEC_SNAPPY = 2,
        LS_CODEC_LZ4 = 3,
        LS_CODEC_ZSTD = 4,
};
#define LS_CODEC_COUNT 5

/* "none", "gzip", "snappy", "lz4", "zstd"; NULL for any other number. */
const char *ls_codec_name(int codec);
/* LS_INVALID: no codec of that name ("uncompressed" is another name of none). */
LS_MUST_USE ls_err ls_codec_parse(ls_str name, enum ls_codec *ret_codec);

/* The level is the codec's own: gzip 1-9, lz4 1-12, zstd -131072..22; out of range is clamped.
 * Snappy has none. */
#define LS_LEVEL_DEFAULT INT32_MIN

/* Appends the compressed `in` (borrowed) to `out`. LS_TOO_LARGE: the worst case does not
 * fit under out's maximum, or the input is above COMPRESS_BYTES_MAX (1 GiB). On any error out's
 * length is as before. */
LS_MUST_USE ls_err ls_compress(enum ls_codec codec, int level, ls_span in, struct ls_buf *out);

/* Appends the decompressed `in` (borrowed) to `out`, at most `bytes_max` of it.
 * LS_CORRUPT: not a whole, valid stream of this codec; LS_TOO_LARGE: more than bytes_max, or past
 * out's maximum; LS_UNSUPPORTED: no such codec. On any error out's length is as before. */
LS_MUST_USE ls_err ls_decompress(enum ls_codec codec, ls_span in, struct ls_buf *out,
                                 uint64_t bytes_max);

/* --- contexts that are kept: for builders that compress many times -------------------------- */

struct ls_packer; /* opaque: packer.c */
struct ls_packer *ls_packer_new(void);
/* Accepts NULL. */
void ls_packer_free(struct ls_packer *p);
LS_DEFINE_AUTO(struct ls_packer *, ls_packer_free);
/* As ls_compress. */
LS_MUST_USE ls_err ls_packer_run(struct ls_packer *p, enum ls_codec codec, int level, ls_span in,
                                 struct ls_buf *out);

/* --- streaming ------------------------------------------------------------------------------ */

struct ls_unpacker; /* opaque: unpacker.c */
struct ls_unpacker *ls_unpacker_new(void);
/* Accepts NULL. */
void ls_unpacker_free(struct ls_unpacker *u);
LS_DEFINE_AUTO(struct ls_unpacker *, ls_unpacker_free);

/* Begins another stream; what was under way is dropped. `in` is borrowed until the next start or
 * free. Memory held is the codec's window (gzip 32 KiB, lz4 up to 4 MiB, zstd up to
 * 2^ZSTD_WINDOW_LOG_MAX), but for a snappy block, which has no streaming form: it is decompressed
 * whole into scratch of at most 64/3 of its compressed size and at most bytes_max.
 * LS_UNSUPPORTED: no such codec. */
LS_MUST_USE ls_err ls_unpacker_start(struct ls_unpacker *u, enum ls_codec codec, ls_span in,
                                     uint64_t bytes_max);
/* Fills 1 to `cap` bytes of dst (cap > 0). LS_END: the stream ended, and ended well;
 * LS_CORRUPT, LS_TOO_LARGE: as ls_decompress; the same again on each later call. */
LS_MUST_USE ls_err ls_unpacker_read(struct ls_unpacker *u, uint8_t *dst, size_t cap,
                                    size_t *ret_len);
/* The rest of the stream, appended to `out`: as ls_decompress. */
LS_MUST_USE ls_err ls_unpacker_read_all(struct ls_unpacker *u, struct ls_buf *out);
