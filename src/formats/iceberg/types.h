/* iceberg/types.h - Iceberg types, schemas, partition specs and sort orders as plain structs, and
 * their JSON (Iceberg table specification, "Schemas", "Partitioning", "Sorting", Appendix C).
 *
 * Everything lies in an arena, or is static: nothing here is freed singly. Structs are read-only
 * once built. Threads: any that see the struct finished.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/span.h"

enum ls_iceberg_kind {
        LS_ICEBERG_BOOLEAN,
        LS_ICEBERG_INT,
        LS_ICEBERG_LONG,
        LS_ICEBERG_FLOAT,
        LS_ICEBERG_DOUBLE,
        LS_ICEBERG_DECIMAL,
        LS_ICEBERG_DATE,
        LS_ICEBERG_TIME,
        LS_ICEBERG_TIMESTAMP,
        LS_ICEBERG_TIMESTAMPTZ,
        LS_ICEBERG_TIMESTAMP_NS,   /* v3 */
        LS_ICEBERG_TIMESTAMPTZ_NS, /* v3 */
        LS_ICEBERG_STRING,
        LS_ICEBERG_UUID,
        LS_ICEBERG_FIXED,
        LS_ICEBERG_BINARY,
        LS_ICEBERG_UNKNOWN, /* v3 */
        LS_ICEBERG_VARIANT, /* v3 */
        LS_ICEBERG_STRUCT,
        LS_ICEBERG_LIST, /* one field, "element" */
        LS_ICEBERG_MAP,  /* two fields, "key" (required) and "value" */
};

struct ls_iceberg_field;
struct ls_iceberg_type {
        enum ls_iceberg_kind kind;
        int32_t precision, scale; /* decimal */
        int32_t fixed_bytes;
        uint32_t field_count; /* struct, list, map */
        const struct ls_iceberg_field *fields;
};
struct ls_iceberg_field {
        int32_t id;
        bool required;
        ls_str name;
        struct ls_iceberg_type type;
        ls_str doc;             /* null when absent */
        ls_str initial_default; /* v3: JSON text; null when absent */
        ls_str write_default;   /* v3: JSON text; null when absent */
};
struct ls_iceberg_schema {
        int32_t schema_id;
        uint32_t field_count;
        const struct ls_iceberg_field *fields;
        uint32_t identifier_count;
        const int32_t *identifier_ids;
};

enum ls_iceberg_transform_kind {
        LS_ICEBERG_IDENTITY,
        LS_ICEBERG_BUCKET,
        LS_ICEBERG_TRUNCATE,
        LS_ICEBERG_YEAR,
        LS_ICEBERG_MONTH,
        LS_ICEBERG_DAY,
        LS_ICEBERG_HOUR,
        LS_ICEBERG_VOID,
        LS_ICEBERG_OTHER, /* not known here: kept by its text, never applied */
};
struct ls_iceberg_transform {
        enum ls_iceberg_transform_kind kind;
        int32_t param; /* bucket count, truncation width */
        ls_str text;   /* of LS_ICEBERG_OTHER */
};
struct ls_iceberg_partition_field {
        int32_t source_id;
        int32_t field_id; /* from 1000 */
        ls_str name;
        struct ls_iceberg_transform transform;
};
struct ls_iceberg_spec {
        int32_t spec_id;
        uint32_t field_count; /* 0: unpartitioned */
        const struct ls_iceberg_partition_field *fields;
};
struct ls_iceberg_sort_field {
        int32_t source_id;
        struct ls_iceberg_transform transform;
        bool descending;
        bool nulls_last;
};
struct ls_iceberg_sort_order {
        int32_t order_id; /* 0: unsorted, no fields */
        uint32_t field_count;
        const struct ls_iceberg_sort_field *fields;
};

#define LS_ICEBERG_PARTITION_ID_FIRST 1000

/* Types by their text: "long", "decimal(9, 2)", "fixed[16]". LS_INVALID, also for nested ones. */
LS_MUST_USE ls_err ls_iceberg_type_parse(ls_str text, struct ls_iceberg_type *ret_type);
/* The text of a primitive type. */
void ls_iceberg_type_print(const struct ls_iceberg_type *t, struct ls_buf *out);
static inline bool
ls_iceberg_is_primitive(const struct ls_iceberg_type *t)
{
        return t->kind < LS_ICEBERG_VARIANT;
}
bool ls_iceberg_type_eq(const struct ls_iceberg_type *a, const struct ls_iceberg_type *b);
/* The format version a type first stands in: 2, or 3. */
int ls_iceberg_type_version(const struct ls_iceberg_type *t);

/* "bucket[16]", "hour", …; an unknown text is LS_ICEBERG_OTHER and kept (borrowed). LS_INVALID:
 * a known name with an impossible parameter. */
LS_MUST_USE ls_err ls_iceberg_transform_parse(ls_str text, struct ls_iceberg_transform *ret);
void ls_iceberg_transform_print(const struct ls_iceberg_transform *t, struct ls_buf *out);

/* JSON both ways. Parsing: the result lies in `arena`; LS_INVALID (reterr says what), LS_TOO_LARGE.
 * A schema is checked: ids unique, names unique in their struct, identifier fields exist. */
LS_MUST_USE ls_err ls_iceberg_schema_parse(ls_str json, struct ls_arena *arena,
                                           struct ls_iceberg_schema *ret_schema,
                                           struct ls_errinfo *reterr);
void ls_iceberg_schema_print(const struct ls_iceberg_schema *s, struct ls_buf *out);
LS_MUST_USE ls_err ls_iceberg_spec_parse(ls_str json, struct ls_arena *arena,
                                         struct ls_iceberg_spec *ret_spec,
                                         struct ls_errinfo *reterr);
void ls_iceberg_spec_print(const struct ls_iceberg_spec *s, struct ls_buf *out);
/* Only the array of fields, as the header of a manifest holds it. */
void ls_iceberg_spec_fields_print(const struct ls_iceberg_spec *s, struct ls_buf *out);
LS_MUST_USE ls_err ls_iceberg_sort_order_parse(ls_str json, struct ls_arena *arena,
                                               struct ls_iceberg_sort_order *ret_order,
                                               struct ls_errinfo *reterr);
void ls_iceberg_sort_order_print(const struct ls_iceberg_sort_order *s, struct ls_buf *out);

/* At any level; NULL when there is none. */
const struct ls_iceberg_field *ls_iceberg_field_by_id(const struct ls_iceberg_schema *s,
                                                      int32_t id);
/* At the top level. */
const struct ls_iceberg_field *ls_iceberg_field_by_name(const struct ls_iceberg_schema *s,
                                                        ls_str name);
/* The highest field id in use, 0 for none. */
int32_t ls_iceberg_schema_last_id(const struct ls_iceberg_schema *s);
/* Same fields, ids, types, nullability and docs; the schema ids may differ. */
bool ls_iceberg_schema_same(const struct ls_iceberg_schema *a, const struct ls_iceberg_schema *b);
bool ls_iceberg_spec_same(const struct ls_iceberg_spec *a, const struct ls_iceberg_spec *b);
/* Each field's source exists, is not in a list or map, and the transform takes its type; field
 * ids and names are unique. LS_INVALID, LS_UNSUPPORTED (unknown transform). */
LS_MUST_USE ls_err ls_iceberg_spec_check(const struct ls_iceberg_spec *spec,
                                         const struct ls_iceberg_schema *schema,
                                         struct ls_errinfo *reterr);
/* A name mapping (property schema.name-mapping.default) for files without field ids. */
void ls_iceberg_name_mapping_print(const struct ls_iceberg_schema *s, struct ls_buf *out);
