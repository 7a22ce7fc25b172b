/* lake/rows_int.h - what rows.c (writing), rows_cursor.c (rows of a file as records) and
 * rows_read.c share. The columns and the keys in the footer: docs/formats/parquet.md. */
#pragma once
#include "base/arena.h"
#include "formats/batch/batch.h"
#include "formats/parquet/reader.h"
#include "formats/parquet/writer.h"
#include "lake/rows.h"

#define ROWS_FORMAT       1 /* of the footer keys and of the columns; newer ones are refused */
#define ROWS_KEY_FORMAT   "lakestream.format"
#define ROWS_KEY_STREAM   "lakestream.stream"
#define ROWS_KEY_TOPIC_ID "lakestream.topic_id"
#define ROWS_KEY_RUNS     "lakestream.runs"
#define ROWS_KEY_PIECES   "lakestream.pieces"

/* The leaves, in the order of the schema. */
enum rows_leaf {
        ROWS_VALUE,
        ROWS_PARTITION,
        ROWS_OFFSET,
        ROWS_TIMESTAMP,
        ROWS_KEY,
        ROWS_HEADER_KEY,
        ROWS_HEADER_VALUE,
        ROWS_LEAVES,
};
extern const int32_t rows_field_ids[ROWS_LEAVES];
void rows_schema_init(struct ls_schema *s);

/* The rows of one run in one row group: what a reader can check while it reads on. */
struct rows_piece {
        int64_t first_row, rows;
        uint64_t hash;
};

/* A header key is a string column, but Kafka takes any bytes: what is no UTF-8 (or looks like an
 * escape) is stored as ROWS_ESCAPE and hexadecimal digits. */
#define ROWS_ESCAPE "\xef\xbf\xbdhex:" /* U+FFFD, "hex:" */
void rows_escape(ls_span raw, struct ls_buf *out);
/* False: it was not escaped, use it as it is. LS_CORRUPT cases are kept as they are too. */
bool rows_unescape(ls_span stored, struct ls_buf *out);
bool rows_needs_escape(ls_span raw);

/* --- rows.c ----------------------------------------------------------------------------------- */

/* Appends one record to the writer, which is in a run of this kind or begins one. LS_CORRUPT: a
 * timestamp that no column can hold. */
LS_MUST_USE ls_err rows_writer_push(struct ls_rows_writer *w, int32_t partition,
                                    bool log_append_time, const struct ls_record *record);
/* Counts bytes as produced for the run at hand. */
void rows_writer_count(struct ls_rows_writer *w, int32_t partition, bool log_append_time,
                       uint64_t log_bytes);

/* --- rows_cursor.c ---------------------------------------------------------------------------- */

/* A place in the rows of a file, which moves forward. */
struct rows_cursor {
        struct ls_parquet_file *file; /* borrowed */
        const uint32_t *leaves;       /* leaf of the file for each of ours; borrowed */
        struct ls_parquet_scan *scan; /* NULL: not placed */
        uint32_t row_group;
        uint64_t row, end; /* of the file: the current one, and where the scan ends */
        const struct ls_vec *vecs;
        size_t rows, at;                   /* of the batch at hand */
        size_t value[ROWS_LEAVES];         /* next value of each leaf */
        size_t header_slot;                /* next slot of the two header leaves */
        struct ls_buf headers, key_buffer; /* of the current record */
        bool has;                          /* `record` is that of `row` */
        int32_t partition;
        struct ls_record record;
};
void rows_cursor_init(struct rows_cursor *c, struct ls_parquet_file *file, const uint32_t *leaves);
void rows_cursor_done(struct rows_cursor *c);
/* Goes to `row` and will go on up to `end` (not included). Cheap when it is there already. */
LS_MUST_USE ls_err rows_cursor_seek(struct rows_cursor *c, uint64_t row, uint64_t end);
/* The record at the place; its spans live until the next get. LS_END: at `end`. */
LS_MUST_USE ls_err rows_cursor_get(struct rows_cursor *c, const struct ls_record **ret_record);
/* Steps over the record that get gave. */
void rows_cursor_step(struct rows_cursor *c);

struct ls_rows_reader {
        struct ls_store *store;
        char *key;
        struct ls_parquet_file *file;
        uint32_t leaves[ROWS_LEAVES];
        struct ls_rows_run *runs;
        size_t run_count;
        struct rows_piece *pieces; /* ascending, they cover all rows */
        size_t piece_count;
        struct rows_cursor cursor;
        struct ls_batch_builder builder;
        bool builder_ready;
        /* The sum of the piece that is being read, as long as it is read from its first row on. */
        size_t piece;
        bool piece_whole;
        uint64_t piece_hash;
        /* Where the last read ended: the row of the first record at or after that offset. */
        int64_t next_offset;
        uint64_t next_row;
};
/* Turns what a damaged or foreign file gives into LS_EBROKEN, logged; passes other errors. */
ls_err rows_reader_error(const struct ls_rows_reader *r, ls_err e, const char *words);
