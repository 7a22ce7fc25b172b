/* formats/parquet/meta.h - the footer, page headers and page index as structs, and their Thrift
 * form (parquet.thrift). Shared by writer and reader; internal to this folder.
 *
 * Parsed structures live in an arena and point into the footer bytes where they hold text.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/rd.h"
#include "formats/column/schema.h"
#include "formats/parquet/parquet.h"

struct ls_pq_statistics {
        int64_t null_count;          /* -1: not there */
        ls_span min, max;            /* min_value, max_value; ptr NULL: not there */
        ls_span old_min, old_max;    /* the deprecated pair; trusted for signed numbers only */
        int8_t min_exact, max_exact; /* -1: not there */
};

#define LS_PQ_ENCODING_STATS_MAX 8
struct ls_pq_encoding_stats {
        int32_t page_type, encoding, count;
};

struct ls_pq_chunk {
        int32_t physical, codec;
        uint32_t encodings; /* LS_PARQUET_BIT set */
        int64_t values;     /* slots */
        int64_t uncompressed_bytes, compressed_bytes;
        int64_t data_page_pos, index_page_pos, dictionary_page_pos; /* -1: not there */
        int64_t bloom_pos, bloom_bytes;                             /* -1: not there */
        int64_t offset_index_pos, column_index_pos;                 /* -1: not there */
        int32_t offset_index_bytes, column_index_bytes;
        struct ls_pq_statistics statistics;
        struct ls_pq_encoding_stats encoding_stats[LS_PQ_ENCODING_STATS_MAX]; /* writer */
        uint32_t encoding_stats_count;
        bool foreign_file; /* file_path is set: the data is elsewhere */
        bool encrypted;
};

struct ls_pq_row_group {
        struct ls_pq_chunk *chunks; /* a leaf each */
        uint32_t chunk_count;
        int64_t rows, bytes; /* total_byte_size: uncompressed */
        int64_t compressed_bytes;
        int64_t pos;
        const uint32_t *sorted_leaves; /* writer */
        uint32_t sorted_count;
};

struct ls_pq_meta {
        int32_t version;
        int64_t rows;
        struct ls_pq_row_group *row_groups;
        uint32_t row_group_count;
        struct ls_parquet_kv *kvs;
        uint32_t kv_count;
        ls_str created_by;
        bool typed_order; /* column orders are there: min_value, max_value may be trusted */
        bool encrypted;
};

enum ls_pq_page_type {
        LS_PQ_DATA_PAGE = 0,
        LS_PQ_INDEX_PAGE = 1,
        LS_PQ_DICTIONARY_PAGE = 2,
        LS_PQ_DATA_PAGE_V2 = 3,
};
struct ls_pq_page_header {
        int32_t type;
        int32_t uncompressed_bytes, compressed_bytes;
        bool has_crc;
        uint32_t crc;
        int32_t values; /* data: slots; dictionary: entries */
        int32_t encoding;
        int32_t def_encoding, rep_encoding; /* V1 */
        int32_t nulls, rows;                /* V2 */
        int32_t def_bytes, rep_bytes;       /* V2 */
        bool is_compressed;                 /* V2 */
};

struct ls_pq_page_location {
        int64_t pos;
        int32_t bytes;
        int64_t first_row;
};
struct ls_pq_offset_index {
        struct ls_pq_page_location *pages;
        uint32_t page_count;
};
enum ls_pq_boundary_order { LS_PQ_UNORDERED = 0, LS_PQ_ASCENDING = 1, LS_PQ_DESCENDING = 2 };
struct ls_pq_column_index {
        uint32_t page_count;
        bool *null_pages;
        ls_span *min, *max;
        int64_t *null_counts; /* NULL: not there */
        int32_t boundary_order;
};

/* Writing: append one whole Thrift struct. */
void ls_pq_put_meta(struct ls_buf *out, const struct ls_schema *schema,
                    const struct ls_pq_meta *meta);
void ls_pq_put_page_header(struct ls_buf *out, const struct ls_pq_page_header *h);
void ls_pq_put_offset_index(struct ls_buf *out, const struct ls_pq_offset_index *index);
void ls_pq_put_column_index(struct ls_buf *out, const struct ls_pq_column_index *index);
void ls_pq_put_bloom_header(struct ls_buf *out, uint32_t bytes);

/* Reading: from the front of `r`. LS_CORRUPT, LS_UNSUPPORTED, LS_TOO_LARGE (the arena is full). */
LS_MUST_USE ls_err ls_pq_get_meta(ls_span footer, struct ls_arena *arena, struct ls_schema *schema,
                                  struct ls_pq_meta *ret_meta, struct ls_errinfo *reterr);
LS_MUST_USE ls_err ls_pq_get_page_header(struct ls_rd *r, struct ls_pq_page_header *ret_header);
LS_MUST_USE ls_err ls_pq_get_offset_index(ls_span bytes, struct ls_arena *arena,
                                          struct ls_pq_offset_index *ret_index);
LS_MUST_USE ls_err ls_pq_get_column_index(ls_span bytes, struct ls_arena *arena,
                                          struct ls_pq_column_index *ret_index);
/* Size of the filter, and that of the header. */
LS_MUST_USE ls_err ls_pq_get_bloom_header(struct ls_rd *r, uint32_t *ret_bytes);
