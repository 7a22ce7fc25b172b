/* iceberg/limits.h - every bound of the Iceberg readers, with its reason. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
        /* Nesting of types: recursion in C stops here; Parquet readers stop far earlier. */
        LS_ICEBERG_DEPTH_MAX = 64,
        /* Fields of one schema, at all levels. */
        LS_ICEBERG_FIELDS_MAX = 100000,
        /* Fields of a partition spec or a sort order. */
        LS_ICEBERG_PARTITION_FIELDS_MAX = 256,
        /* Entries of each list in a metadata file: schemas, snapshots, logs, refs. */
        LS_ICEBERG_LIST_MAX = 1000000,
        /* Bounds in manifests are cut to so many code points or bytes, as the reference does. */
        LS_ICEBERG_BOUND_LENGTH = 16,
        LS_ICEBERG_PRECISION_MAX = 38,
        /* Bucket count and truncation width. */
        LS_ICEBERG_TRANSFORM_PARAM_MAX = INT32_MAX,
};
/* A metadata file. The lake keeps its own far below; a foreign table may have a long history. */
#define LS_ICEBERG_METADATA_BYTES_MAX ((size_t)256 << 20)
/* Decoded entries of one manifest or manifest list. */
#define LS_ICEBERG_ARENA_BYTES_MAX ((size_t)1 << 30)
