/* formats/compress/unpacker.c - decompression, as a stream of bounded memory.
 *
 * One object serves all codecs, so that a thread keeps one and reuses the contexts. Each codec has
 * a `fill` function: it writes up to `cap` bytes and says LS_OK (some, or none yet), LS_END or what
 * is wrong. ls_unpacker_read loops over it and counts against bytes_max, so no codec can pass it.
 * Snappy's unit is a block that must be decompressed whole: a bare stream is one block, the Java
 * stream has many; each goes into `scratch` and is handed out from there.
 */
#include "formats/compress/compress.h"

#include <lz4frame.h>
#include <snappy-c.h>
#include <zlib.h>
#include <zstd.h>

#include "base/assert.h"
#include "base/rd.h"
#include "formats/compress/limits.h"

struct ls_unpacker {
        enum ls_codec codec;
        struct ls_rd in;  /* what is not consumed yet */
        uint64_t left;    /* bytes that may still come out */
        ls_err state;     /* LS_OK while running, then the final answer */
        bool at_boundary; /* gzip, zstd: between two members or frames */
        ZSTD_DCtx *zstd;
        LZ4F_dctx *lz4;
        z_stream gzip;
        bool gzip_made;
        bool framed;           /* snappy: the Java stream */
        struct ls_buf scratch; /* snappy: one block */
        size_t scratch_pos;
};

static const uint8_t snappy_magic[8] = { 0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0 };

struct ls_unpacker *
ls_unpacker_new(void)
{
        struct ls_unpacker *u = ls_calloc(1, sizeof *u);

        ls_buf_init(&u->scratch, LS_BUF_MAX_DEFAULT);
        u->state = LS_END;
        return u;
}

static void
unpacker_drop(struct ls_unpacker *u)
{
        ZSTD_freeDCtx(u->zstd);
        u->zstd = NULL;
        LZ4F_freeDecompressionContext(u->lz4);
        u->lz4 = NULL;
        if (u->gzip_made)
                inflateEnd(&u->gzip);
        u->gzip_made = false;
        ls_buf_done(&u->scratch);
}

void
ls_unpacker_free(struct ls_unpacker *u)
{
        if (u == NULL)
                return;
        unpacker_drop(u);
        ls_free(u);
}

/* --- one codec each: start and fill ---------------------------------------------------------- */

static ls_err
gzip_start(struct ls_unpacker *u)
{
        if (u->gzip_made) {
                inflateReset(&u->gzip);
                return LS_OK;
        }
        u->gzip = (z_stream){ 0 };
        if (inflateInit2(&u->gzip, 15 + 16) != Z_OK)
                return LS_ELIMIT;
        u->gzip_made = true;
        return LS_OK;
}

static ls_err
gzip_fill(struct ls_unpacker *u, uint8_t *dst, size_t cap, size_t *ret_len)
{
        size_t in_len = LS_MIN(ls_rd_left(&u->in), COMPRESS_BYTES_MAX);
        size_t out_len = LS_MIN(cap, COMPRESS_BYTES_MAX);
        int rc;

        if (u->at_boundary) { /* a member ended: the end, or another one */
                if (in_len == 0)
                        return LS_END;
                inflateReset(&u->gzip);
                u->at_boundary = false;
        }
        u->gzip.next_in = (Bytef *)(uintptr_t)u->in.pos;
        u->gzip.avail_in = (uInt)in_len;
        u->gzip.next_out = dst;
        u->gzip.avail_out = (uInt)out_len;
        rc = inflate(&u->gzip, Z_NO_FLUSH);
        ls_rd_take(&u->in, in_len - u->gzip.avail_in);
        *ret_len = out_len - u->gzip.avail_out;
        if (rc == Z_STREAM_END) {
                u->at_boundary = true;
                return LS_OK;
        }
        /* Z_BUF_ERROR: no progress, so the input ended inside a member. */
        return rc == Z_OK ? LS_OK : LS_CORRUPT;
}

static ls_err
zstd_start(struct ls_unpacker *u)
{
        if (u->zstd != NULL && ZSTD_sizeof_DCtx(u->zstd) > ZSTD_CONTEXT_BYTES_KEPT) {
                ZSTD_freeDCtx(u->zstd);
                u->zstd = NULL;
        }
        if (u->zstd == NULL)
                u->zstd = ZSTD_createDCtx();
        if (u->zstd == NULL)
                return LS_ELIMIT;
        ZSTD_DCtx_reset(u->zstd, ZSTD_reset_session_only);
        ZSTD_DCtx_setParameter(u->zstd, ZSTD_d_windowLogMax, ZSTD_WINDOW_LOG_MAX);
        return LS_OK;
}

static ls_err
zstd_fill(struct ls_unpacker *u, uint8_t *dst, size_t cap, size_t *ret_len)
{
        ZSTD_inBuffer in = { u->in.pos, ls_rd_left(&u->in), 0 };
        ZSTD_outBuffer out = { dst, cap, 0 };
        size_t rc;

        if (u->at_boundary && in.size == 0)
                return LS_END;
        rc = ZSTD_decompressStream(u->zstd, &out, &in);
        ls_rd_take(&u->in, in.pos);
        *ret_len = out.pos;
        if (ZSTD_isError(rc))
                return LS_CORRUPT;
        u->at_boundary = rc == 0;
        if (in.pos == 0 && out.pos == 0 && !u->at_boundary)
                return LS_CORRUPT; /* the input ended inside a frame */
        return LS_OK;
}

static ls_err
lz4_start(struct ls_unpacker *u)
{
        if (u->lz4 == NULL && LZ4F_isError(LZ4F_createDecompressionContext(&u->lz4, LZ4F_VERSION)))
                return LS_ELIMIT;
        LZ4F_resetDecompressionContext(u->lz4);
        /* The frame's fifth byte, FLG: bit 5 says that blocks are independent. The Java client
         * reads no other, so such a batch would stop every Java consumer behind it. */
        if (ls_rd_left(&u->in) > 4 && (u->in.pos[4] & 0x20) == 0)
                u->state = LS_CORRUPT;
        return LS_OK;
}

static ls_err
lz4_fill(struct ls_unpacker *u, uint8_t *dst, size_t cap, size_t *ret_len)
{
        size_t in_len = ls_rd_left(&u->in), out_len = cap, rc;

        if (u->at_boundary)
                return in_len == 0 ? LS_END : LS_CORRUPT; /* one frame, nothing behind it */
        rc = LZ4F_decompress(u->lz4, dst, &out_len, u->in.pos, &in_len, NULL);
        if (LZ4F_isError(rc))
                return LS_CORRUPT;
        ls_rd_take(&u->in, in_len);
        *ret_len = out_len;
        u->at_boundary = rc == 0;
        if (in_len == 0 && out_len == 0 && !u->at_boundary)
                return LS_CORRUPT; /* the input ended inside the frame */
        return LS_OK;
}

static ls_err
snappy_start(struct ls_unpacker *u)
{
        if (u->scratch.cap > SNAPPY_SCRATCH_BYTES_KEPT)
                ls_buf_done(&u->scratch);
        ls_buf_clear(&u->scratch);
        u->scratch_pos = 0;
        u->framed = ls_rd_left(&u->in) >= sizeof snappy_magic &&
                    memcmp(u->in.pos, snappy_magic, sizeof snappy_magic) == 0;
        if (u->framed) {
                ls_rd_take(&u->in, sizeof snappy_magic);
                ls_rd_be32(&u->in); /* version and lowest compatible version: of no use, since */
                ls_rd_be32(&u->in); /* every writer has put 1 and 1 or garbage there */
                if (ls_rd_failed(&u->in))
                        u->state = LS_CORRUPT;
        }
        return LS_OK;
}

static ls_err
snappy_block(struct ls_unpacker *u, ls_span block)
{
        size_t len = 0, len_out;
        uint8_t *dst;

        if (snappy_uncompressed_length((const char *)block.ptr, block.len, &len) != SNAPPY_OK)
                return LS_CORRUPT;
        if (len > block.len * SNAPPY_RATIO_MAX) /* a length that cannot be true */
                return LS_CORRUPT;
        if (len > u->left)
                return LS_TOO_LARGE;
        ls_buf_clear(&u->scratch);
        u->scratch_pos = 0;
        dst = ls_buf_add(&u->scratch, len);
        if (dst == NULL)
                return LS_ELIMIT;
        len_out = len;
        if (snappy_uncompress((const char *)block.ptr, block.len, (char *)dst, &len_out) !=
                    SNAPPY_OK ||
            len_out != len)
                return LS_CORRUPT;
        return LS_OK;
}

static ls_err
snappy_fill(struct ls_unpacker *u, uint8_t *dst, size_t cap, size_t *ret_len)
{
        size_t len = u->scratch.len - u->scratch_pos;

        if (len > 0) {
                len = LS_MIN(len, cap);
                memcpy(dst, u->scratch.ptr + u->scratch_pos, len);
                u->scratch_pos += len;
                *ret_len = len;
                return LS_OK;
        }
        if (!u->framed) {
                if (u->at_boundary)
                        return LS_END;
                u->at_boundary = true;
                return snappy_block(u, ls_rd_span(&u->in, ls_rd_left(&u->in)));
        }
        if (ls_rd_left(&u->in) == 0)
                return LS_END;
        len = ls_rd_be32(&u->in);
        if (ls_rd_failed(&u->in) || len == 0 || len > ls_rd_left(&u->in))
                return LS_CORRUPT;
        return snappy_block(u, ls_rd_span(&u->in, len));
}

static ls_err
none_fill(struct ls_unpacker *u, uint8_t *dst, size_t cap, size_t *ret_len)
{
        size_t len = LS_MIN(cap, ls_rd_left(&u->in));

        if (len == 0)
                return LS_END;
        memcpy(dst, ls_rd_take(&u->in, len), len);
        *ret_len = len;
        return LS_OK;
}

/* --- the same for all codecs ------------------------------------------------------------------ */

ls_err
ls_unpacker_start(struct ls_unpacker *u, enum ls_codec codec, ls_span in, uint64_t bytes_max)
{
        u->codec = codec;
        u->in = ls_rd_of(in);
        u->left = bytes_max;
        u->state = LS_OK;
        u->at_boundary = false;
        switch (codec) {
        case LS_CODEC_NONE: return LS_OK;
        case LS_CODEC_GZIP: return gzip_start(u);
        case LS_CODEC_SNAPPY: return snappy_start(u);
        case LS_CODEC_LZ4: return lz4_start(u);
        case LS_CODEC_ZSTD: return zstd_start(u);
        }
        u->state = LS_UNSUPPORTED; /* a number from outside */
        return LS_UNSUPPORTED;
}

static ls_err
unpacker_fill(struct ls_unpacker *u, uint8_t *dst, size_t cap, size_t *ret_len)
{
        switch (u->codec) {
        case LS_CODEC_NONE: return none_fill(u, dst, cap, ret_len);
        case LS_CODEC_GZIP: return gzip_fill(u, dst, cap, ret_len);
        case LS_CODEC_SNAPPY: return snappy_fill(u, dst, cap, ret_len);
        case LS_CODEC_LZ4: return lz4_fill(u, dst, cap, ret_len);
        case LS_CODEC_ZSTD: return zstd_fill(u, dst, cap, ret_len);
        }
        return LS_UNSUPPORTED;
}

ls_err
ls_unpacker_read(struct ls_unpacker *u, uint8_t *dst, size_t cap, size_t *ret_len)
{
        uint8_t beyond;
        bool at_max = u->left == 0;
        size_t len = 0;

        LS_ASSERT(cap > 0);
        if (at_max) { /* only the end may come now: one byte more is too much */
                dst = &beyond;
                cap = 1;
        } else if (cap > u->left) {
                cap = (size_t)u->left;
        }
        while (u->state == LS_OK && len == 0)
                u->state = unpacker_fill(u, dst, cap, &len);
        if (len > 0 && at_max)
                u->state = LS_TOO_LARGE;
        if (len == 0 || at_max)
                return u->state;
        u->left -= len;
        *ret_len = len; /* what came before a fault is still handed out */
        return LS_OK;
}

ls_err
ls_unpacker_read_all(struct ls_unpacker *u, struct ls_buf *out)
{
        size_t len_before = out->len, step = UNPACK_STEP_BYTES, len;
        ls_err e;

        LS_ASSERT(!ls_buf_failed(out));
        for (;;) {
                uint8_t byte, *dst;

                /* At the buffer's maximum one byte of our own tells the end from too much. */
                if (out->len == out->max) {
                        e = ls_unpacker_read(u, &byte, 1, &len);
                        if (e == LS_OK)
                                e = LS_TOO_LARGE;
                        break;
                }
                step = LS_MAX(step, out->cap - out->len);
                step = LS_MIN(step, out->max - out->len);
                if (!ls_buf_reserve(out, step)) {
                        e = LS_ELIMIT;
                        break;
                }
                dst = out->ptr + out->len;
                e = ls_unpacker_read(u, dst, step, &len);
                if (e != LS_OK)
                        break;
                out->len += len;
                step = UNPACK_STEP_BYTES;
        }
        if (e == LS_END)
                return LS_OK;
        out->len = len_before;
        out->failed = false;
        return e;
}

ls_err
ls_decompress(enum ls_codec codec, ls_span in, struct ls_buf *out, uint64_t bytes_max)
{
        struct ls_unpacker u = { .state = LS_END };
        ls_err e;

        ls_buf_init(&u.scratch, LS_BUF_MAX_DEFAULT);
        e = ls_unpacker_start(&u, codec, in, bytes_max);
        if (e == LS_OK)
                e = ls_unpacker_read_all(&u, out);
        unpacker_drop(&u);
        return e;
}
