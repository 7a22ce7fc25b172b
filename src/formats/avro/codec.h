/* avro/codec.h - the codecs of container file blocks. Threads: any. */
#pragma once
#include "formats/avro/file.h"

/* "null", "deflate", "zstandard". */
const char *ls_avro_codec_name(enum ls_avro_codec codec);
/* LS_UNSUPPORTED: not one of ours. Null is LS_AVRO_CODEC_NULL, as the specification says. */
LS_MUST_USE ls_err ls_avro_codec_parse(ls_span name, enum ls_avro_codec *ret_codec);
/* Appends; LS_TOO_LARGE: past out's maximum. */
LS_MUST_USE ls_err ls_avro_compress(enum ls_avro_codec codec, ls_span in, struct ls_buf *out);
/* Appends at most `bytes_max`. LS_CORRUPT, LS_TOO_LARGE. */
LS_MUST_USE ls_err ls_avro_decompress(enum ls_avro_codec codec, ls_span in, struct ls_buf *out,
                                      size_t bytes_max);
