/* avro/limits.h - every bound of the Avro reader, with its reason. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
        /* Nesting of a schema, and of a value: recursion in C stops here. */
        LS_AVRO_DEPTH_MAX = 128,
        /* Fields, branches and symbols of one type: a row of the widest tables seen. */
        LS_AVRO_CHILDREN_MAX = 10000,
        /* Types of one schema: keeps a small text from making a huge tree. */
        LS_AVRO_TYPES_MAX = 50000,
        /* Digits of a decimal: what 128 bits hold, and what Iceberg allows. */
        LS_AVRO_PRECISION_MAX = 38,
        /* Keys in the header of a container file: files have about ten. */
        LS_AVRO_META_MAX = 1000,
};
/* Text of a schema: registries refuse more. */
#define LS_AVRO_SCHEMA_BYTES_MAX ((size_t)4 << 20)
/* One block of a container file, decompressed: writers cut at 64 KiB to 16 MiB. */
#define LS_AVRO_BLOCK_BYTES_MAX ((size_t)64 << 20)
/* Items without bytes (null, empty records) in one array: nothing in the input pays for them. */
#define LS_AVRO_EMPTY_ITEMS_MAX ((uint64_t)1 << 20)
