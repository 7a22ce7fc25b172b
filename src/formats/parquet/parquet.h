/* formats/parquet/parquet.h - what writer and reader share: encodings, codecs, limits.
 *
 * The layout of the files we write, and why: docs/formats/parquet.md.
 */
#pragma once
#include "base/err.h"
#include "base/span.h"

/* The values are those of the format. */
enum ls_parquet_encoding {
        LS_PARQUET_PLAIN = 0,
        LS_PARQUET_PLAIN_DICTIONARY = 2, /* read only */
        LS_PARQUET_RLE = 3,
        LS_PARQUET_BIT_PACKED = 4, /* read only: old levels */
        LS_PARQUET_DELTA_BINARY_PACKED = 5,
        LS_PARQUET_DELTA_LENGTH_BYTE_ARRAY = 6,
        LS_PARQUET_DELTA_BYTE_ARRAY = 7,
        LS_PARQUET_RLE_DICTIONARY = 8,
        LS_PARQUET_BYTE_STREAM_SPLIT = 9,
};
#define LS_PARQUET_BIT(encoding) (1u << (encoding))
/* What every reader takes. Iceberg's vectorized Spark reader refused all others up to 1.9 and the
 * byte-array deltas later still, and a table has to be readable by what people run. */
#define LS_PARQUET_ENCODINGS_COMMON \
        (LS_PARQUET_BIT(LS_PARQUET_PLAIN) | LS_PARQUET_BIT(LS_PARQUET_RLE_DICTIONARY))
#define LS_PARQUET_ENCODINGS_ALL                                        \
        (LS_PARQUET_ENCODINGS_COMMON | LS_PARQUET_BIT(LS_PARQUET_RLE) | \
         LS_PARQUET_BIT(LS_PARQUET_DELTA_BINARY_PACKED) |               \
         LS_PARQUET_BIT(LS_PARQUET_DELTA_LENGTH_BYTE_ARRAY) |           \
         LS_PARQUET_BIT(LS_PARQUET_DELTA_BYTE_ARRAY) |                  \
         LS_PARQUET_BIT(LS_PARQUET_BYTE_STREAM_SPLIT))

enum ls_parquet_codec {
        LS_PARQUET_UNCOMPRESSED = 0,
        LS_PARQUET_SNAPPY = 1,
        LS_PARQUET_GZIP = 2,
        LS_PARQUET_ZSTD = 6,
        LS_PARQUET_LZ4_RAW = 7,
};

/* A name and its value in the footer. */
struct ls_parquet_kv {
        ls_str key;
        ls_str value; /* may be null */
};
