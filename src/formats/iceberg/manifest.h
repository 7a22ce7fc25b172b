/* iceberg/manifest.h - manifests and manifest lists (Iceberg specification, "Manifests",
 * "Manifest Lists"): Avro files with the exact names, field ids and nullability of the version.
 *
 * Names, ids, types and nullability come from one table a file kind (fields.c) that makes the Avro
 * schema, writes and reads. Readers take files of any writer: fields are matched by field id,
 * unknown ones are skipped, sequence numbers and snapshot ids are inherited as specified.
 * Threads: one owner.
 */
#pragma once
#include "formats/avro/file.h"
#include "formats/iceberg/value.h"

enum ls_iceberg_content {
        LS_ICEBERG_DATA = 0,
        LS_ICEBERG_POSITION_DELETES = 1,
        LS_ICEBERG_EQUALITY_DELETES = 2,
};
enum ls_iceberg_status {
        LS_ICEBERG_EXISTING = 0,
        LS_ICEBERG_ADDED = 1,
        LS_ICEBERG_DELETED = 2,
};
#define LS_ICEBERG_NONE INT64_MIN /* an absent optional number */

struct ls_iceberg_count {
        int32_t field_id;
        int64_t value;
};
struct ls_iceberg_bound {
        int32_t field_id;
        ls_span value; /* binary single-value form */
};
/* Maps by field id: NULL with count 0 means absent. */
struct ls_iceberg_counts {
        const struct ls_iceberg_count *items;
        size_t count;
};
struct ls_iceberg_bounds {
        const struct ls_iceberg_bound *items;
        size_t count;
};
struct ls_iceberg_longs {
        const int64_t *items;
        size_t count;
};

struct ls_iceberg_data_file {
        int64_t content; /* enum ls_iceberg_content */
        ls_str path;
        ls_str format;                            /* "PARQUET" */
        const struct ls_iceberg_value *partition; /* one a field of the spec */
        int64_t record_count;
        int64_t file_bytes;
        struct ls_iceberg_counts column_sizes, value_counts, null_counts, nan_counts;
        struct ls_iceberg_bounds lower_bounds, upper_bounds;
        ls_span key_metadata;                  /* null when absent */
        struct ls_iceberg_longs split_offsets; /* ascending */
        struct ls_iceberg_longs equality_ids;
        int64_t sort_order_id;       /* LS_ICEBERG_NONE when absent */
        ls_str referenced_data_file; /* null when absent */
        int64_t first_row_id;        /* v3 */
        int64_t content_offset;      /* v3 */
        int64_t content_bytes;       /* v3 */
};
/* All optional members absent. */
void ls_iceberg_data_file_init(struct ls_iceberg_data_file *f);

struct ls_iceberg_entry {
        int64_t status;               /* enum ls_iceberg_status */
        int64_t snapshot_id;          /* LS_ICEBERG_NONE: inherited */
        int64_t sequence_number;      /* LS_ICEBERG_NONE: inherited (ADDED only) */
        int64_t file_sequence_number; /* the same */
        struct ls_iceberg_data_file file;
};

/* One line of a manifest list. */
struct ls_iceberg_summary {
        bool contains_null;
        int64_t contains_nan; /* 0, 1, LS_ICEBERG_NONE */
        ls_span lower, upper; /* null when absent */
};
struct ls_iceberg_manifest_file {
        ls_str path;
        int64_t bytes;
        int64_t spec_id;
        int64_t content;             /* 0 data, 1 deletes */
        int64_t sequence_number;     /* LS_ICEBERG_NONE before it is known: the snapshot's */
        int64_t min_sequence_number; /* the same */
        int64_t added_snapshot_id;
        int64_t added_files, existing_files, deleted_files;
        int64_t added_rows, existing_rows, deleted_rows;
        const struct ls_iceberg_summary *summaries; /* one a field of the spec */
        size_t summary_count;
        ls_span key_metadata;
        int64_t first_row_id; /* v3 */
};

struct ls_iceberg_manifest_options {
        int format_version; /* 2 */
        enum ls_iceberg_content content;
        const struct ls_iceberg_schema *schema; /* borrowed until finish */
        const struct ls_iceberg_spec *spec;     /* borrowed until finish, checked against schema */
        int64_t snapshot_id;                    /* the one that adds the manifest */
        enum ls_avro_codec codec;
};
struct ls_iceberg_manifest_writer;

/* Starts a manifest in `out`. LS_INVALID, LS_UNSUPPORTED (format version, transform). */
LS_MUST_USE ls_err ls_iceberg_manifest_new(struct ls_buf *out,
                                           const struct ls_iceberg_manifest_options *o,
                                           struct ls_iceberg_manifest_writer **ret_writer);
void ls_iceberg_manifest_free(struct ls_iceberg_manifest_writer *w);
LS_DEFINE_AUTO(struct ls_iceberg_manifest_writer *, ls_iceberg_manifest_free);
/* Adds an entry (borrowed until return). EXISTING and DELETED entries carry their numbers; ADDED
 * ones may leave them to be inherited. LS_INVALID: they do not, or counts are negative. */
LS_MUST_USE ls_err ls_iceberg_manifest_add(struct ls_iceberg_manifest_writer *w,
                                           const struct ls_iceberg_entry *e);
/* Ends the file. *ret_file is its line for the manifest list but for `path`, in `arena`. */
LS_MUST_USE ls_err ls_iceberg_manifest_finish(struct ls_iceberg_manifest_writer *w,
                                              struct ls_arena *arena,
                                              struct ls_iceberg_manifest_file *ret_file);

struct ls_iceberg_manifest {
        int format_version;
        enum ls_iceberg_content content;
        struct ls_iceberg_schema schema;
        struct ls_iceberg_spec spec;
        const struct ls_iceberg_entry *entries;
        size_t count;
};
/* Reads a whole manifest into `arena` (nothing borrows from `file` afterwards). `line`, its line of
 * the manifest list, gives what is inherited; NULL leaves LS_ICEBERG_NONE. LS_CORRUPT,
 * LS_TOO_LARGE, LS_UNSUPPORTED (newer format, codec), LS_INVALID (schema or spec in the header). */
LS_MUST_USE ls_err ls_iceberg_manifest_read(ls_span file,
                                            const struct ls_iceberg_manifest_file *line,
                                            struct ls_arena *arena,
                                            struct ls_iceberg_manifest *ret_manifest,
                                            struct ls_errinfo *reterr);

struct ls_iceberg_list_options {
        int format_version; /* 2 */
        int64_t snapshot_id;
        int64_t parent_snapshot_id; /* LS_ICEBERG_NONE: none */
        int64_t sequence_number;    /* stands in for lines that have none yet */
        enum ls_avro_codec codec;
};
/* Appends a manifest list. LS_INVALID: a line lacks what is required. */
LS_MUST_USE ls_err ls_iceberg_list_write(struct ls_buf *out,
                                         const struct ls_iceberg_list_options *o,
                                         const struct ls_iceberg_manifest_file *lines,
                                         size_t count);
/* Reads one into `arena`; outcomes as above. */
LS_MUST_USE ls_err ls_iceberg_list_read(ls_span file, struct ls_arena *arena,
                                        const struct ls_iceberg_manifest_file **ret_lines,
                                        size_t *ret_count, struct ls_errinfo *reterr);
