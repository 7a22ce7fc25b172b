/* iceberg/metadata.h - table metadata, format version 2 (Iceberg specification, "Table Metadata",
 * Appendix C), as plain structs and as JSON.
 *
 * Everything lies in an arena. Structs are built by the caller or parsed; printing gives the JSON
 * that engines read. Threads: one owner.
 */
#pragma once
#include "formats/iceberg/manifest.h"

struct ls_iceberg_prop {
        ls_str key, value;
};
struct ls_iceberg_snapshot {
        int64_t snapshot_id;
        int64_t parent_id; /* LS_ICEBERG_NONE: none */
        int64_t sequence_number;
        int64_t timestamp_ms;
        ls_str manifest_list;
        ls_str operation;                      /* append, replace, overwrite, delete */
        const struct ls_iceberg_prop *summary; /* without the operation */
        size_t summary_count;
        int64_t schema_id;    /* LS_ICEBERG_NONE: absent */
        int64_t first_row_id; /* v3 */
        int64_t added_rows;   /* v3 */
};
struct ls_iceberg_ref {
        ls_str name; /* "main" */
        int64_t snapshot_id;
        bool tag;                                                   /* else a branch */
        int64_t snapshots_min, snapshot_age_ms_max, ref_age_ms_max; /* LS_ICEBERG_NONE: absent */
};
struct ls_iceberg_snapshot_log {
        int64_t timestamp_ms;
        int64_t snapshot_id;
};
struct ls_iceberg_metadata_log {
        int64_t timestamp_ms;
        ls_str metadata_file;
};

struct ls_iceberg_metadata {
        int format_version;
        ls_str table_uuid;
        ls_str location;
        int64_t last_sequence_number;
        int64_t last_updated_ms;
        int32_t last_column_id;
        int32_t current_schema_id;
        int32_t default_spec_id;
        int32_t last_partition_id;
        int32_t default_sort_order_id;
        int64_t current_snapshot_id; /* LS_ICEBERG_NONE: none */
        int64_t next_row_id;         /* v3 */
        const struct ls_iceberg_schema *schemas;
        size_t schema_count;
        const struct ls_iceberg_spec *specs;
        size_t spec_count;
        const struct ls_iceberg_sort_order *sort_orders;
        size_t sort_order_count;
        const struct ls_iceberg_prop *properties;
        size_t property_count;
        const struct ls_iceberg_snapshot *snapshots;
        size_t snapshot_count;
        const struct ls_iceberg_ref *refs;
        size_t ref_count;
        const struct ls_iceberg_snapshot_log *snapshot_log;
        size_t snapshot_log_count;
        const struct ls_iceberg_metadata_log *metadata_log;
        size_t metadata_log_count;
        ls_str statistics; /* JSON arrays kept as text; null: empty */
        ls_str partition_statistics;
};

/* An empty table: no snapshot, absent optionals, empty lists. */
void ls_iceberg_metadata_init(struct ls_iceberg_metadata *m);
/* Checks what the specification demands: required fields, ids that exist, known versions. Versions
 * 1 and 2 are read (1 becomes the structs of 2). LS_INVALID, LS_UNSUPPORTED (version),
 * LS_TOO_LARGE. */
LS_MUST_USE ls_err ls_iceberg_metadata_parse(ls_str json, struct ls_arena *arena,
                                             struct ls_iceberg_metadata *ret_metadata,
                                             struct ls_errinfo *reterr);
/* The same checks on a built struct. */
LS_MUST_USE ls_err ls_iceberg_metadata_check(const struct ls_iceberg_metadata *m,
                                             struct ls_errinfo *reterr);
/* Appends the JSON; the struct must pass the check. */
void ls_iceberg_metadata_print(const struct ls_iceberg_metadata *m, struct ls_buf *out);

/* NULL when there is none. */
const struct ls_iceberg_schema *ls_iceberg_metadata_schema(const struct ls_iceberg_metadata *m,
                                                           int64_t schema_id);
const struct ls_iceberg_spec *ls_iceberg_metadata_spec(const struct ls_iceberg_metadata *m,
                                                       int64_t spec_id);
const struct ls_iceberg_snapshot *ls_iceberg_metadata_snapshot(const struct ls_iceberg_metadata *m,
                                                               int64_t snapshot_id);
/* Value of a property or of a snapshot summary; null when absent. */
ls_str ls_iceberg_prop_get(const struct ls_iceberg_prop *props, size_t count, const char *key);

/* What a snapshot adds and removes, for its summary. Totals are carried from the parent's. */
struct ls_iceberg_delta {
        int64_t added_files, added_rows, added_bytes;
        int64_t deleted_files, deleted_rows, deleted_bytes;
        int64_t changed_partitions; /* LS_ICEBERG_NONE: not counted */
};
/* Builds the summary (added-data-files, total-records and so on) in `arena`: `parent` is NULL for
 * the first snapshot; then `extra` properties follow. LS_TOO_LARGE: the arena is full. */
LS_MUST_USE ls_err ls_iceberg_summary_make(const struct ls_iceberg_delta *delta,
                                           const struct ls_iceberg_snapshot *parent,
                                           const struct ls_iceberg_prop *extra, size_t extra_count,
                                           struct ls_arena *arena,
                                           struct ls_iceberg_snapshot *io_snapshot);
