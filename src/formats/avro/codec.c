/* avro/codec.c - see codec.h. Avro's deflate is RFC 1951 without any frame, which formats/compress
 * does not have; zstandard comes from there. */
#include "formats/avro/codec.h"

#include <zlib.h>

#include "formats/avro/limits.h"
#include "formats/compress/compress.h"

#define DEFLATE_WINDOW_RAW (-15) /* negative: no zlib frame */
#define CHUNK_BYTES        ((size_t)64 << 10)

const char *
ls_avro_codec_name(enum ls_avro_codec codec)
{
        switch (codec) {
        case LS_AVRO_CODEC_NULL: return "null";
        case LS_AVRO_CODEC_DEFLATE: return "deflate";
        case LS_AVRO_CODEC_ZSTANDARD: return "zstandard";
        }
        return "?";
}

ls_err
ls_avro_codec_parse(ls_span name, enum ls_avro_codec *ret_codec)
{
        static const enum ls_avro_codec all[] = { LS_AVRO_CODEC_NULL, LS_AVRO_CODEC_DEFLATE,
                                                  LS_AVRO_CODEC_ZSTANDARD };
        ls_str text = ls_str_make((const char *)name.ptr, name.len);

        if (name.ptr == NULL)
                text = LS_STR("null");
        for (size_t i = 0; i < LS_COUNT(all); i++) {
                if (!ls_str_is(text, ls_avro_codec_name(all[i])))
                        continue;
                *ret_codec = all[i];
                return LS_OK;
        }
        return LS_UNSUPPORTED;
}

static ls_err
deflate_raw(ls_span in, struct ls_buf *out)
{
        z_stream z = { .next_in = (Bytef *)in.ptr, .avail_in = (uInt)in.len };
        uLong most;
        uint8_t *to;
        int rc;

        if (in.len > UINT32_MAX / 2)
                return LS_TOO_LARGE;
        if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, DEFLATE_WINDOW_RAW, 8,
                         Z_DEFAULT_STRATEGY) != Z_OK)
                return LS_TOO_LARGE; /* no memory */
        most = deflateBound(&z, (uLong)in.len);
        to = ls_buf_add(out, most);
        if (to == NULL) {
                deflateEnd(&z);
                return LS_TOO_LARGE;
        }
        z.next_out = to;
        z.avail_out = (uInt)most;
        rc = deflate(&z, Z_FINISH);
        out->len -= z.avail_out;
        deflateEnd(&z);
        return rc == Z_STREAM_END ? LS_OK : LS_TOO_LARGE;
}

/* Inflates chunk by chunk, since the size is not told beforehand. */
static ls_err
inflate_into(z_stream *z, struct ls_buf *out, size_t bytes_max)
{
        size_t start = out->len;

        for (;;) {
                uint8_t *to = ls_buf_add(out, CHUNK_BYTES);
                int rc;

                if (to == NULL)
                        return LS_TOO_LARGE;
                z->next_out = to;
                z->avail_out = (uInt)CHUNK_BYTES;
                rc = inflate(z, Z_NO_FLUSH);
                out->len -= z->avail_out;
                if (out->len - start > bytes_max)
                        return LS_TOO_LARGE;
                if (rc == Z_STREAM_END)
                        return z->avail_in == 0 ? LS_OK : LS_CORRUPT;
                if (rc != Z_OK || (z->avail_in == 0 && z->avail_out > 0))
                        return LS_CORRUPT;
        }
}

static ls_err
inflate_raw(ls_span in, struct ls_buf *out, size_t bytes_max)
{
        z_stream z = { .next_in = (Bytef *)in.ptr, .avail_in = (uInt)in.len };
        ls_err e;

        if (in.len > UINT32_MAX)
                return LS_TOO_LARGE;
        if (inflateInit2(&z, DEFLATE_WINDOW_RAW) != Z_OK)
                return LS_TOO_LARGE;
        e = inflate_into(&z, out, bytes_max);
        inflateEnd(&z);
        return e;
}

ls_err
ls_avro_compress(enum ls_avro_codec codec, ls_span in, struct ls_buf *out)
{
        switch (codec) {
        case LS_AVRO_CODEC_NULL:
                ls_buf_put_span(out, in);
                return ls_buf_failed(out) ? LS_TOO_LARGE : LS_OK;
        case LS_AVRO_CODEC_DEFLATE: return deflate_raw(in, out);
        case LS_AVRO_CODEC_ZSTANDARD: return ls_compress(LS_CODEC_ZSTD, LS_LEVEL_DEFAULT, in, out);
        }
        return LS_UNSUPPORTED;
}

ls_err
ls_avro_decompress(enum ls_avro_codec codec, ls_span in, struct ls_buf *out, size_t bytes_max)
{
        switch (codec) {
        case LS_AVRO_CODEC_NULL:
                if (in.len > bytes_max)
                        return LS_TOO_LARGE;
                ls_buf_put_span(out, in);
                return ls_buf_failed(out) ? LS_TOO_LARGE : LS_OK;
        case LS_AVRO_CODEC_DEFLATE: return inflate_raw(in, out, bytes_max);
        case LS_AVRO_CODEC_ZSTANDARD: return ls_decompress(LS_CODEC_ZSTD, in, out, bytes_max);
        }
        return LS_UNSUPPORTED;
}
