/* formats/parquet/writer_int.h - the writer's state, shared by writer.c (files) and chunk.c (column
 * chunks). Internal to this folder. */
#pragma once
#include "formats/parquet/codec.h"
#include "formats/parquet/dict.h"
#include "formats/parquet/meta.h"
#include "formats/parquet/stats.h"
#include "formats/parquet/writer.h"

#define LS_PARQUET_DICT_BYTES_MAX ((uint64_t)1 << 20) /* a dictionary page, plain */

/* A page of the index being built: kept until finish. */
struct ls_pq_index_page {
        struct ls_pq_page_location location;
        uint64_t nulls;
        bool only_nulls, has_min, has_max;
        ls_span min, max; /* in the writer's arena */
};
struct ls_pq_index {
        struct ls_pq_index_page *pages;
        size_t count, cap;
};

struct ls_parquet_writer {
        const struct ls_schema *schema;
        struct ls_parquet_writer_options options; /* with defaults filled in */
        struct ls_parquet_column_options *columns;
        uint32_t *sorted_leaves;
        struct ls_parquet_sink sink;
        uint64_t pos; /* bytes given to the sink */
        bool finished;

        struct ls_pq_codec codec;
        struct ls_pq_dict dict;
        struct ls_buf body, packed, header; /* of a page: before and after compression */
        struct ls_vec sample;
        struct ls_buf sample_plain, sample_packed;
        struct ls_arena arena; /* bounds and page index entries */

        struct ls_pq_row_group *row_groups;
        size_t row_group_count, row_group_cap;
        struct ls_pq_index *indexes; /* leaf_count a row group */
        size_t index_count, index_cap;
        struct ls_parquet_kv *kvs;
        size_t kv_count, kv_cap;

        struct ls_stats *totals; /* a leaf each */
        struct ls_parquet_column_info *column_infos;
        struct ls_parquet_row_group_info *row_group_infos;
        size_t row_group_info_cap;
        struct ls_parquet_file_info info;
};

/* Gives bytes to the sink and counts them. */
LS_MUST_USE ls_err ls_pq_writer_append(struct ls_parquet_writer *w, ls_span bytes);
/* Encodes a vector as a column chunk at the current place. */
LS_MUST_USE ls_err ls_pq_chunk_write(struct ls_parquet_writer *w, uint32_t leaf,
                                     const struct ls_vec *v, struct ls_pq_chunk *ret_chunk,
                                     struct ls_pq_index *ret_index);

/* How a chunk is stored. */
struct ls_pq_choice {
        bool dictionary; /* w->dict is built */
        enum ls_parquet_encoding encoding;
        enum ls_parquet_codec codec;
};
/* Chooses by what a sample of the values costs, compressed, in each encoding that is allowed. */
void ls_pq_choose(struct ls_parquet_writer *w, uint32_t leaf, const struct ls_vec *v,
                  struct ls_pq_choice *ret_choice);
