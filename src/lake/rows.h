/* lake/rows.h - record batches as rows of a Parquet file, and back. Raw mode's columns:
 *
 *   value binary? | __partition int | __offset long | __timestamp timestamptz (us) | __key binary?
 * | __headers list<…>
 *
 * Field ids are fixed (enum below) and are those of the Iceberg schema. Rows of a file are sorted
 * by (partition, offset). The footer says what a rebuild of the index needs:
 * docs/formats/parquet.md, "Keys in the footer". Timestamps are Kafka's milliseconds x 1000, exact;
 * -1 ("no timestamp") stays -1 ms.
 *
 * Threads: a writer or reader has one owner at a time.
 */
#pragma once
#include "base/buf.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "formats/column/schema.h"
#include "meta/meta.h"
#include "store/store.h"

enum {
        LS_ROWS_FIELD_VALUE = 1,
        LS_ROWS_FIELD_PARTITION = 2,
        LS_ROWS_FIELD_OFFSET = 3,
        LS_ROWS_FIELD_TIMESTAMP = 4,
        LS_ROWS_FIELD_KEY = 5,
        LS_ROWS_FIELD_HEADERS = 6,
        LS_ROWS_FIELD_HEADER = 7, /* the list's element */
        LS_ROWS_FIELD_HEADER_KEY = 8,
        LS_ROWS_FIELD_HEADER_VALUE = 9,
        LS_ROWS_FIELD_LAST = 9,
};

/* --- write --- */

/* A run of rows of one partition in a finished file: what becomes an extent. */
struct ls_rows_run {
        int32_t partition;
        int64_t first_row, rows;
        int64_t base_offset;                  /* of the first row */
        int64_t end_offset;                   /* last row's offset + 1 */
        int64_t min_timestamp, max_timestamp; /* ms */
        uint64_t hash;                        /* sum of h x (2 offset + 1) */
        uint64_t log_bytes;                   /* as given to ls_rows_writer_add */
        bool log_append_time; /* every record of the run has that type; a run never mixes the two */
};
struct ls_rows_column {
        int32_t field_id;
        int64_t column_bytes, values, nulls; /* nan does not occur */
        ls_span min, max; /* PLAIN bytes, ptr NULL: unknown; already cut, upper bounds never below a
                             value */
};
struct ls_rows_file {
        uint64_t bytes;
        int64_t rows;
        const struct ls_rows_run *runs;
        size_t run_count;
        const struct ls_rows_column *columns;
        size_t column_count;
        const int64_t *split_offsets;
        size_t split_count;
};

struct ls_rows_writer;
struct ls_rows_writer_options {
        struct ls_store *store;
        const char *key; /* copied; must not exist */
        uint64_t stream_id;
        ls_uuid topic_id;
        uint64_t row_group_bytes; /* record bytes of a row group; 0: 16 MiB */
        const char *compression;  /* as table.compression says; NULL: "zstd" */
};
LS_MUST_USE ls_err ls_rows_writer_new(const struct ls_rows_writer_options *options,
                                      struct ls_rows_writer **ret_writer);
/* Adds the records of one whole batch (offsets set, checksum right) that lie in [from, to);
 * partitions ascend, and offsets within them. log_bytes: what the batch counts as produced (0 when
 * only a part of it is taken here and was counted elsewhere). `take` (may be NULL) says for each
 * record whether it belongs into this file (table.partition.by); LS_CORRUPT: the batch does not
 * decode. The batch is borrowed until return. */
struct ls_record; /* formats/batch/batch.h */
LS_MUST_USE ls_err ls_rows_writer_add(struct ls_rows_writer *w, int32_t partition, ls_span batch,
                                      int64_t from, int64_t to, uint64_t log_bytes,
                                      bool log_append_time,
                                      bool (*take)(void *ctx, const struct ls_record *record),
                                      void *ctx);
/* Ends the open run: offsets between its last record and the next one are not this file's. */
void ls_rows_writer_cut(struct ls_rows_writer *w);
/* The same, and the open run's range is [base, end): together with runs of other files, which hold
 * the other rows of this range (a group). At least one row was added since the last cut. */
void ls_rows_writer_span(struct ls_rows_writer *w, int64_t base, int64_t end);
/* Record bytes added, and the file's size so far (an estimate while it is written). */
uint64_t ls_rows_writer_record_bytes(const struct ls_rows_writer *w);
uint64_t ls_rows_writer_file_bytes(const struct ls_rows_writer *w);
/* Writes the footer, makes the object durable. The result lives until the writer is freed. */
LS_MUST_USE ls_err ls_rows_writer_finish(struct ls_rows_writer *w,
                                         const struct ls_rows_file **ret_file);
/* Accepts NULL. Unfinished: what was uploaded is dropped. */
void ls_rows_writer_free(struct ls_rows_writer *w);

/* --- read --- */

struct ls_rows_reader;
/* Opens a file; `bytes` is its size as the metadata store has it. LS_ABSENT: it is gone (plan
 * again); LS_EBROKEN: damaged, with words in the log. `leader_epoch` goes into the batches. */
LS_MUST_USE ls_err ls_rows_reader_open(struct ls_store *store, const char *key, uint64_t bytes,
                                       struct ls_rows_reader **ret_reader);
/* Accepts NULL. */
void ls_rows_reader_close(struct ls_rows_reader *r);

/* Of the codec of rebuilt batches: they are compressed at every read, so speed counts. */
#define LS_ROWS_BATCH_LEVEL 1

struct ls_rows_batches {
        int codec; /* enum ls_codec (formats/compress) of the rebuilt batches */
        int32_t leader_epoch;
        size_t bytes_max;   /* stop when this much was built; one batch always */
        size_t batch_bytes; /* records of a batch before compression; 0: 1 MiB */
        bool log_append_time;
        int64_t offset_end; /* stop in front of this offset; 0: at the extent's end */
};
/* Rebuilds batches from the rows of `extent` (its partition, [first_row, first_row + rows)) with
 * offsets >= `from`; appends them to `out`. Records are byte for byte what the producer sent; a
 * hole inside, and one between the last record and extent->end_offset, is covered by a batch's last
 * offset. *ret_next: the offset to go on with (the end when all was given). Reading on
 * where the last call ended is the fast path: decoded pages are kept. The sum of what a whole run
 * holds is checked when it was read in one go: LS_EBROKEN. Before damage that is met on the way
 * what is good is given, LS_OK, and the next call meets it first. LS_ABSENT: the file is gone. */
LS_MUST_USE ls_err ls_rows_read(struct ls_rows_reader *r, const struct ls_meta_extent *extent,
                                int64_t from, const struct ls_rows_batches *how, struct ls_buf *out,
                                int64_t *ret_next);
/* In the extent's rows from offset `from` on: the first with timestamp >= t (ms). LS_END: none;
 * LS_ABSENT: the file is gone. */
LS_MUST_USE ls_err ls_rows_find_time(struct ls_rows_reader *r, const struct ls_meta_extent *extent,
                                     int64_t from, int64_t timestamp_ms, int64_t *ret_offset,
                                     int64_t *ret_timestamp_ms);
/* The first with the greatest timestamp; LS_END: no row. */
LS_MUST_USE ls_err ls_rows_find_max_time(struct ls_rows_reader *r,
                                         const struct ls_meta_extent *extent, int64_t from,
                                         int64_t *ret_offset, int64_t *ret_timestamp_ms);
/* Recomputes rows and hash sum of an extent from the file. */
LS_MUST_USE ls_err ls_rows_verify(struct ls_rows_reader *r, const struct ls_meta_extent *extent,
                                  int64_t *ret_rows, uint64_t *ret_hash);
/* Copies the rows of an extent into a writer (merging small files), column by column. */
LS_MUST_USE ls_err ls_rows_copy(struct ls_rows_reader *r, const struct ls_meta_extent *extent,
                                struct ls_rows_writer *w);
/* The stream whose rows they are, as the footer says; 0: it does not. */
uint64_t ls_rows_stream_id(const struct ls_rows_reader *r);
/* The runs that the footer names (rebuild of the index); live until the reader is closed. */
LS_MUST_USE ls_err ls_rows_runs(struct ls_rows_reader *r, const struct ls_rows_run **ret_runs,
                                size_t *ret_count);
