/* iceberg/fields_int.h - the tables of manifest fields, and the walkers that make the Avro schema
 * of them, write structs and read structs. */
#pragma once
#include "formats/iceberg/manifest.h"

enum ls_ice_form {
        LS_ICE_INT,       /* int64_t, Avro int */
        LS_ICE_LONG,      /* int64_t, Avro long */
        LS_ICE_BOOL,      /* bool */
        LS_ICE_OPT_BOOL,  /* int64_t: 0, 1, LS_ICEBERG_NONE */
        LS_ICE_STR,       /* ls_str */
        LS_ICE_BYTES,     /* ls_span */
        LS_ICE_COUNTS,    /* struct ls_iceberg_counts: map<int, long> */
        LS_ICE_BOUNDS,    /* struct ls_iceberg_bounds: map<int, binary> */
        LS_ICE_LONGS,     /* struct ls_iceberg_longs: list<long> */
        LS_ICE_INTS,      /* struct ls_iceberg_longs: list<int> */
        LS_ICE_PARTITION, /* const struct ls_iceberg_value *: record r102 */
        LS_ICE_FILE,      /* struct ls_iceberg_data_file: record r2 */
        LS_ICE_SUMMARIES, /* summaries, summary_count of a manifest_file: list<r508> */
};
struct ls_ice_column {
        int32_t id;
        const char *name;
        enum ls_ice_form form;
        bool required;     /* by the specification of version 2 */
        bool must_read;    /* a file of any version without it is damaged */
        bool deletes_only; /* written only in manifests of deletes */
        size_t offset;
        int32_t key_id, value_id; /* maps; value_id alone: the element of a list */
};
struct ls_ice_table {
        const char *name; /* of the Avro record */
        const struct ls_ice_column *columns;
        size_t count;
};
extern const struct ls_ice_table ls_ice_entry_table, ls_ice_file_table, ls_ice_line_table,
        ls_ice_summary_table;

/* What a walk over one file needs. */
struct ls_ice_walk {
        const struct ls_iceberg_spec *spec;
        const struct ls_iceberg_type *types; /* of the partition fields */
        bool deletes;
        struct ls_arena *arena; /* reading */
};

/* Appends the Avro schema of a table. */
void ls_ice_schema_put(const struct ls_ice_walk *w, const struct ls_ice_table *t,
                       struct ls_buf *out);
/* Appends the Avro binary of a struct. LS_INVALID: something required is absent. */
LS_MUST_USE ls_err ls_ice_record_put(const struct ls_ice_walk *w, const struct ls_ice_table *t,
                                     const void *object, struct ls_buf *out);
/* Fills a struct (initialised by the caller) from a decoded record, copying into the arena.
 * LS_CORRUPT, LS_TOO_LARGE. */
LS_MUST_USE ls_err ls_ice_record_get(const struct ls_ice_walk *w, const struct ls_ice_table *t,
                                     const struct ls_avro_type *type, const struct ls_avro_value *v,
                                     void *object);
