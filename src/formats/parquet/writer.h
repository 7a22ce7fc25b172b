/* formats/parquet/writer.h - writes a Parquet file, a row group at a time, to a sink.
 *
 * The caller fills a `struct ls_columns` with the rows of one row group (it decides their number,
 * by ls_columns_plain_bytes) and hands it over; the writer encodes the columns one after another,
 * page by page, and gives finished bytes to the sink, so a file of any size takes the memory of one
 * row group. Finish writes bloom filters, page indexes and footer. Byte layout and choices:
 * docs/formats/parquet.md.
 *
 *      ls_parquet_writer_new -> (row_group | kv)* -> finish -> free
 *
 * Threads: one owner; it may be handed to a worker between calls. The sink is called on the calling
 * thread.
 */
#pragma once
#include "formats/column/vec.h"
#include "formats/parquet/parquet.h"

struct ls_parquet_writer; /* opaque: defined in writer.c */

/* Appends `bytes` (borrowed until return) to the file. Anything but LS_OK ends the write and is
 * returned by the writer unchanged. */
struct ls_parquet_sink {
        ls_err (*append)(void *ctx, ls_span bytes);
        void *ctx;
};

struct ls_parquet_column_options {
        uint32_t encodings;       /* LS_PARQUET_BIT set allowed; 0: the writer's default */
        bool no_dictionary;       /* do not even try: opaque payloads */
        bool no_bounds;           /* no min and max (nor page index bounds): opaque payloads */
        bool bloom;               /* a split-block bloom filter a row group */
        uint32_t bloom_bytes_max; /* 0: LS_PARQUET_BLOOM_BYTES */
        size_t page_bytes;        /* 0: the writer's default */
};
struct ls_parquet_writer_options {
        enum ls_parquet_codec codec; /* pages that do not shrink are stored all the same: the codec
                                      * is per column chunk; a chunk that does not pay has none */
        int level;                   /* zstd level; 0: LS_PARQUET_ZSTD_LEVEL */
        uint32_t encodings;          /* 0: LS_PARQUET_ENCODINGS_COMMON */
        size_t page_bytes;           /* before compression; 0: LS_PARQUET_PAGE_BYTES */
        uint32_t page_rows;          /* 0: LS_PARQUET_PAGE_ROWS */
        uint32_t bound_bytes;        /* longest bound before it is cut; 0: LS_PARQUET_BOUND_BYTES */
        const uint32_t *sorted_leaves; /* rows ascend by these leaves; copied */
        uint32_t sorted_count;
        const struct ls_parquet_column_options *columns; /* a leaf each, or NULL; copied */
};
#define LS_PARQUET_ZSTD_LEVEL  1
#define LS_PARQUET_PAGE_BYTES  ((size_t)512 << 10)
#define LS_PARQUET_PAGE_ROWS   20000u
#define LS_PARQUET_BOUND_BYTES 64u
#define LS_PARQUET_BLOOM_BYTES (1u << 20)

/* Starts a file: gives the magic to the sink. `schema` is borrowed until free. Failures of the sink
 * only. `options` NULL: codec zstd, the rest as 0. */
LS_MUST_USE ls_err ls_parquet_writer_new(const struct ls_schema *schema,
                                         const struct ls_parquet_writer_options *options,
                                         struct ls_parquet_sink sink,
                                         struct ls_parquet_writer **ret_writer);
/* Accepts NULL; an unfinished file is simply left. */
void ls_parquet_writer_free(struct ls_parquet_writer *w);

/* Writes `columns` (of the writer's schema, borrowed, unchanged) as one row group. No rows: writes
 * nothing. LS_TOO_LARGE: one row of one column does not fit a page (2 GiB). */
LS_MUST_USE ls_err ls_parquet_writer_row_group(struct ls_parquet_writer *w,
                                               const struct ls_columns *columns);
/* Adds to the footer's key-value metadata; copied. Before finish. */
void ls_parquet_writer_kv(struct ls_parquet_writer *w, ls_str key, ls_str value);
/* Bytes given to the sink so far. */
uint64_t ls_parquet_writer_bytes(const struct ls_parquet_writer *w);
/* Writes indexes and footer. The file is complete when the sink took all. */
LS_MUST_USE ls_err ls_parquet_writer_finish(struct ls_parquet_writer *w);

/* What was written, for table metadata: valid after finish, until free. */
struct ls_parquet_column_info {
        int32_t field_id;
        uint64_t compressed_bytes; /* page headers and dictionary included */
        uint64_t plain_bytes;      /* before encoding and compression */
        uint64_t slots;            /* values, nulls included */
        uint64_t nulls;            /* slots without a value */
        uint64_t nans;             /* floats and doubles */
        /* Bounds of the values that are no NaN, PLAIN (little endian; byte strings as they are),
         * cut to bound_bytes: min is never above a value, max never below. ptr NULL: unknown. */
        ls_span min, max;
        bool min_exact, max_exact;
};
struct ls_parquet_row_group_info {
        uint64_t pos; /* of its first byte: an Iceberg split offset */
        uint64_t rows;
        uint64_t bytes;
};
struct ls_parquet_file_info {
        uint64_t bytes, rows;
        const struct ls_parquet_row_group_info *row_groups;
        size_t row_group_count;
        const struct ls_parquet_column_info *columns; /* a leaf each */
        uint32_t column_count;
};
const struct ls_parquet_file_info *ls_parquet_writer_info(const struct ls_parquet_writer *w);
