/* formats/compress/packer.c - compression: codec names, one-shot calls, contexts that are kept.
 *
 * A packer makes a codec's context at its first use and keeps it, since zstd's and zlib's cost more
 * to make than a small batch costs to compress. zstd and zlib take their memory from the C library.
 */
#include "formats/compress/compress.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include "base/assert.h"
#include "formats/compress/limits.h"

struct ls_packer {
        ZSTD_CCtx *zstd;
        LZ4F_cctx *lz4;
        z_stream gzip;
        bool gzip_made;
        int gzip_level; /* the one `gzip` was made with */
};

static const char *const codec_names[LS_CODEC_COUNT] = { "none", "gzip", "snappy", "lz4", "zstd" };

const char *
ls_codec_name(int codec)
{
        return codec >= 0 && codec < LS_CODEC_COUNT ? codec_names[codec] : NULL;
}

ls_err
ls_codec_parse(ls_str name, enum ls_codec *ret_codec)
{
        for (int i = 0; i < LS_CODEC_COUNT; i++) {
                if (ls_str_is(name, codec_names[i])) {
                        *ret_codec = (enum ls_codec)i;
                        return LS_OK;
                }
        }
        if (ls_str_is(name, "uncompressed")) {
                *ret_codec = LS_CODEC_NONE;
                return LS_OK;
        }
        return LS_INVALID;
}

struct ls_packer *
ls_packer_new(void)
{
        return ls_calloc(1, sizeof(struct ls_packer));
}

void
ls_packer_free(struct ls_packer *p)
{
        if (p == NULL)
                return;
        ZSTD_freeCCtx(p->zstd);
        LZ4F_freeCompressionContext(p->lz4);
        if (p->gzip_made)
                deflateEnd(&p->gzip);
        ls_free(p);
}

static int
level_clamp(int level, int level_default, int min, int max)
{
        if (level == LS_LEVEL_DEFAULT)
                return level_default;
        return level < min ? min : level > max ? max : level;
}

static ls_err
pack_gzip(struct ls_packer *p, int level, ls_span in, struct ls_buf *out)
{
        uint8_t *dst;
        uLong bound;
        int rc;

        level = level_clamp(level, Z_DEFAULT_COMPRESSION, 1, 9);
        if (p->gzip_made && p->gzip_level != level) {
                deflateEnd(&p->gzip);
                p->gzip_made = false;
        }
        if (!p->gzip_made) {
                p->gzip = (z_stream){ 0 };
                if (deflateInit2(&p->gzip, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) !=
                    Z_OK)
                        return LS_ELIMIT;
                p->gzip_made = true;
                p->gzip_level = level;
        } else {
                deflateReset(&p->gzip);
        }
        bound = deflateBound(&p->gzip, (uLong)in.len);
        dst = ls_buf_add(out, bound);
        if (dst == NULL)
                return LS_TOO_LARGE;
        p->gzip.next_in = (Bytef *)(uintptr_t)in.ptr;
        p->gzip.avail_in = (uInt)in.len;
        p->gzip.next_out = dst;
        p->gzip.avail_out = (uInt)bound;
        rc = deflate(&p->gzip, Z_FINISH);
        LS_ASSERT(rc == Z_STREAM_END); /* the bound holds */
        out->len -= p->gzip.avail_out;
        return LS_OK;
}

static ls_err
pack_snappy(ls_span in, struct ls_buf *out)
{
        size_t bound = snappy_max_compressed_length(in.len), len = bound;
        uint8_t *dst = ls_buf_add(out, bound);

        if (dst == NULL)
                return LS_TOO_LARGE;
        if (snappy_compress((const char *)(in.ptr ? in.ptr : dst), in.len, (char *)dst, &len) !=
            SNAPPY_OK)
                return LS_EINTERNAL;
        LS_ASSERT(len <= bound);
        out->len -= bound - len;
        return LS_OK;
}

static ls_err
pack_lz4(struct ls_packer *p, int level, ls_span in, struct ls_buf *out)
{
        LZ4F_preferences_t prefs = {
                .frameInfo = { .blockSizeID = LZ4F_max64KB,
                               .blockMode = LZ4F_blockIndependent, /* Kafka readers insist */
                               .contentSize = in.len },
                .compressionLevel = level_clamp(level, 0, 1, 12),
        };
        size_t bound = LZ4F_HEADER_SIZE_MAX + LZ4F_compressBound(in.len, &prefs), len, n;
        uint8_t *dst;

        if (p->lz4 == NULL && LZ4F_isError(LZ4F_createCompressionContext(&p->lz4, LZ4F_VERSION)))
                return LS_ELIMIT;
        dst = ls_buf_add(out, bound);
        if (dst == NULL)
                return LS_TOO_LARGE;
        len = LZ4F_compressBegin(p->lz4, dst, bound, &prefs);
        if (LZ4F_isError(len))
                return LS_EINTERNAL;
        n = in.len > 0 ? LZ4F_compressUpdate(p->lz4, dst + len, bound - len, in.ptr, in.len, NULL)
                       : 0;
        if (LZ4F_isError(n))
                return LS_EINTERNAL;
        len += n;
        n = LZ4F_compressEnd(p->lz4, dst + len, bound - len, NULL);
        if (LZ4F_isError(n))
                return LS_EINTERNAL;
        out->len -= bound - len - n;
        return LS_OK;
}

static ls_err
pack_zstd(struct ls_packer *p, int level, ls_span in, struct ls_buf *out)
{
        size_t bound = ZSTD_compressBound(in.len), len;
        uint8_t *dst;

        if (p->zstd == NULL)
                p->zstd = ZSTD_createCCtx();
        if (p->zstd == NULL)
                return LS_ELIMIT;
        dst = ls_buf_add(out, bound);
        if (dst == NULL)
                return LS_TOO_LARGE;
        level = level_clamp(level, ZSTD_CLEVEL_DEFAULT, ZSTD_minCLevel(), ZSTD_maxCLevel());
        len = ZSTD_compressCCtx(p->zstd, dst, bound, in.ptr, in.len, level);
        if (ZSTD_isError(len))
                return LS_EINTERNAL;
        out->len -= bound - len;
        return LS_OK;
}

ls_err
ls_packer_run(struct ls_packer *p, enum ls_codec codec, int level, ls_span in, struct ls_buf *out)
{
        size_t len_before = out->len;
        ls_err e = LS_EINTERNAL;

        LS_ASSERT(!ls_buf_failed(out));
        if (in.len > COMPRESS_BYTES_MAX)
                return LS_TOO_LARGE;
        switch (codec) {
        case LS_CODEC_NONE:
                ls_buf_put(out, in.ptr, in.len);
                e = ls_buf_failed(out) ? LS_TOO_LARGE : LS_OK;
                break;
        case LS_CODEC_GZIP: e = pack_gzip(p, level, in, out); break;
        case LS_CODEC_SNAPPY: e = pack_snappy(in, out); break;
        case LS_CODEC_LZ4: e = pack_lz4(p, level, in, out); break;
        case LS_CODEC_ZSTD: e = pack_zstd(p, level, in, out); break;
        }
        if (e != LS_OK) {
                out->len = len_before;
                out->failed = false; /* the outcome says it; the content before stays usable */
        }
        return e;
}

ls_err
ls_compress(enum ls_codec codec, int level, ls_span in, struct ls_buf *out)
{
        struct ls_packer p = { 0 };
        ls_err e = ls_packer_run(&p, codec, level, in, out);

        ZSTD_freeCCtx(p.zstd);
        LZ4F_freeCompressionContext(p.lz4);
        if (p.gzip_made)
                deflateEnd(&p.gzip);
        return e;
}
