/* formats/parquet/file_int.h - the reader's state, shared by file.c, column.c and scan.c. Internal
 * to this folder. */
#pragma once
#include "base/slice.h"
#include "formats/parquet/codec.h"
#include "formats/parquet/meta.h"
#include "formats/parquet/reader.h"

/* The page index of a chunk, once loaded. */
struct ls_pq_chunk_index {
        bool loaded;
        struct ls_pq_offset_index offsets;
        struct ls_pq_column_index bounds; /* page_count 0: there is none */
};

struct ls_parquet_file {
        struct ls_parquet_source source;
        struct ls_parquet_limits limits;
        struct ls_schema schema;
        struct ls_pq_meta meta;
        struct ls_arena arena;
        uint64_t *first_rows;              /* a row group each */
        struct ls_pq_chunk_index *indexes; /* leaf_count a row group, in the arena */
        struct ls_slice *tail;             /* the end of the file, footer included */
        uint64_t tail_pos;
        struct ls_slice **held; /* index bytes that spans point into */
        size_t held_count, held_cap;
};

/* [pos, pos + bytes) of the file, which must lie inside (else LS_CORRUPT). */
LS_MUST_USE ls_err ls_pq_file_read(const struct ls_parquet_file *f, uint64_t pos, uint64_t bytes,
                                   struct ls_slice **ret_bytes);
static inline struct ls_pq_chunk_index *
ls_pq_file_index(const struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf)
{
        return &f->indexes[(size_t)row_group * f->schema.leaf_count + leaf];
}
/* First byte of a chunk: its dictionary page's, if it has one. */
uint64_t ls_pq_chunk_start(const struct ls_pq_chunk *c);

/* A decoded page: arrays of its slots and values, with a place in them. */
struct ls_pq_page {
        size_t slots, slot;  /* of the page; next one */
        size_t count, value; /* values; next one */
        uint8_t *def, *rep;  /* unused when their maximum is 0 */
        size_t slot_cap;
        uint8_t *values; /* value_bytes each */
        size_t value_cap;
        struct ls_slice *bytes; /* spans point into these; may be NULL */
        struct ls_slice *made;
};

/* Reads one column chunk in order. */
struct ls_pq_column {
        const struct ls_parquet_file *file;
        const struct ls_pq_chunk *chunk;
        const struct ls_schema_node *node;
        struct ls_pq_codec *codec; /* borrowed from the scan */
        uint32_t value_bytes;
        uint64_t next_pos, end_pos; /* of the next page header; of the pages to be read */
        uint64_t slots_left;        /* that the chunk may still have */
        struct ls_slice *window;    /* bytes read ahead */
        uint64_t window_pos;
        uint8_t *dictionary; /* value_bytes each */
        size_t dictionary_count;
        bool has_dictionary;
        struct ls_slice *dictionary_bytes;
        uint32_t *indexes; /* scratch */
        size_t index_cap;
        struct ls_pq_page page;
        const char *error; /* words for the last refusal */
};
/* Starts at the page that holds `first_row` and gives the rows to skip in it; reads no further than
 * the page that holds the last of `rows`. */
LS_MUST_USE ls_err ls_pq_column_open(struct ls_pq_column *c, const struct ls_parquet_file *f,
                                     uint32_t row_group, uint32_t leaf, struct ls_pq_codec *codec,
                                     uint64_t first_row, uint64_t rows, uint64_t *ret_skip);
void ls_pq_column_done(struct ls_pq_column *c);
/* Makes sure that the page has slots left. LS_END: the chunk has no more. */
LS_MUST_USE ls_err ls_pq_column_fill(struct ls_pq_column *c);
/* Moves `rows` rows into `out` (NULL: skips them). LS_CORRUPT: the chunk has fewer. */
LS_MUST_USE ls_err ls_pq_column_take(struct ls_pq_column *c, size_t rows, struct ls_vec *out);
