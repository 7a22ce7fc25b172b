/* formats/parquet/codec.h - page compression with contexts that are kept, and the page checksum.
 *
 * Pages know their size before compression, so that decompression goes into a block of exactly
 * that size. Raw LZ4 blocks exist in Parquet only, hence not in formats/compress.
 * Threads: a context has one owner; ls_codec_crc32 any.
 */
#pragma once
#include "base/buf.h"
#include "formats/parquet/parquet.h"

struct ls_pq_codec {
        void *zstd_pack, *zstd_unpack; /* ZSTD_CCtx, ZSTD_DCtx: made when first needed */
};
void ls_pq_codec_done(struct ls_pq_codec *c);
/* Replaces the content of `out` by the compressed `in`. LS_UNSUPPORTED: no such codec. */
LS_MUST_USE ls_err ls_pq_codec_pack(struct ls_pq_codec *c, enum ls_parquet_codec codec, int level,
                                    ls_span in, struct ls_buf *out);
/* Fills exactly `bytes` at `dst`. LS_CORRUPT: `in` is not that; LS_UNSUPPORTED: no such codec. */
LS_MUST_USE ls_err ls_pq_codec_unpack(struct ls_pq_codec *c, int codec, ls_span in, uint8_t *dst,
                                      size_t bytes);
/* CRC-32 (IEEE 802.3), as PageHeader.crc has it. */
uint32_t ls_pq_crc32(ls_span s);
