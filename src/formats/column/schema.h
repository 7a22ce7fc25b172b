/* formats/column/schema.h - the schema of columnar data: a tree of groups and leaves in pre-order.
 *
 * The model is Dremel's as Parquet has it: each node is required, optional or repeated; a leaf has
 * a physical and a logical type; each node carries the field id of the table schema (B040). A list
 * is always three levels: group (LIST) > repeated group "list" > "element".
 *
 *      row (root, no name)
 *       +- value         optional bytes          max_def 1  max_rep 0
 *       +- __headers     required group (LIST)
 *           +- list      repeated group
 *               +- element  required group
 *                   +- key     required bytes    max_def 1  max_rep 1
 *                   +- value   optional bytes    max_def 2  max_rep 1
 *
 * A schema is built (add nodes in pre-order), sealed, then immutable.
 * Threads: one builder; sealed: any.
 */
#pragma once
#include "base/err.h"
#include "base/span.h"

#define LS_SCHEMA_DEPTH_MAX 64    /* nodes on a path; also bounds levels, which are uint8_t */
#define LS_SCHEMA_NODES_MAX 65536 /* nodes of a schema; wider tables are refused */
#define LS_FIELD_ID_NONE    (-1)
#define LS_SCHEMA_ROOT      0u
#define LS_NODE_NONE        UINT32_MAX

/* The values are those of Parquet's `Type`. */
enum ls_col_physical {
        LS_COL_BOOL = 0,
        LS_COL_INT32 = 1,
        LS_COL_INT64 = 2,
        LS_COL_INT96 = 3, /* read only: old Impala timestamps */
        LS_COL_FLOAT = 4,
        LS_COL_DOUBLE = 5,
        LS_COL_BYTES = 6,
        LS_COL_FIXED = 7,
};
/* The values are those of Parquet's `FieldRepetitionType`. */
enum ls_col_repetition { LS_COL_REQUIRED = 0, LS_COL_OPTIONAL = 1, LS_COL_REPEATED = 2 };

enum ls_col_logical {
        LS_COL_ANY = 0, /* no logical type: plain ints, floats, binary, fixed */
        LS_COL_STRING,
        LS_COL_MAP,
        LS_COL_LIST,
        LS_COL_ENUM,
        LS_COL_DECIMAL,   /* precision, scale */
        LS_COL_DATE,      /* days since 1970, int32 */
        LS_COL_TIME,      /* unit, utc */
        LS_COL_TIMESTAMP, /* unit, utc: true is Iceberg's timestamptz (B048) */
        LS_COL_INT,       /* bits, is_signed */
        LS_COL_JSON,
        LS_COL_BSON,
        LS_COL_UUID,    /* fixed 16 */
        LS_COL_FLOAT16, /* fixed 2 */
};
enum ls_col_unit { LS_COL_MILLIS, LS_COL_MICROS, LS_COL_NANOS };

struct ls_col_type {
        enum ls_col_physical physical;
        enum ls_col_logical logical;
        enum ls_col_unit unit;
        bool utc;          /* isAdjustedToUTC */
        bool is_signed;    /* LS_COL_INT */
        uint8_t bits;      /* LS_COL_INT: 8, 16, 32, 64 */
        int32_t precision; /* LS_COL_DECIMAL */
        int32_t scale;
        uint32_t fixed_bytes; /* LS_COL_FIXED */
};

#define LS_TYPE_BOOL   ((struct ls_col_type){ .physical = LS_COL_BOOL })
#define LS_TYPE_INT    ((struct ls_col_type){ .physical = LS_COL_INT32 })
#define LS_TYPE_LONG   ((struct ls_col_type){ .physical = LS_COL_INT64 })
#define LS_TYPE_FLOAT  ((struct ls_col_type){ .physical = LS_COL_FLOAT })
#define LS_TYPE_DOUBLE ((struct ls_col_type){ .physical = LS_COL_DOUBLE })
#define LS_TYPE_BINARY ((struct ls_col_type){ .physical = LS_COL_BYTES })
#define LS_TYPE_STRING ((struct ls_col_type){ .physical = LS_COL_BYTES, .logical = LS_COL_STRING })
#define LS_TYPE_DATE   ((struct ls_col_type){ .physical = LS_COL_INT32, .logical = LS_COL_DATE })

#define LS_TYPE_FIXED(n) ((struct ls_col_type){ .physical = LS_COL_FIXED, .fixed_bytes = (n) })
#define LS_TYPE_UUID           \
        ((struct ls_col_type){ \
                .physical = LS_COL_FIXED, .logical = LS_COL_UUID, .fixed_bytes = 16 })
#define LS_TYPE_TIME           \
        ((struct ls_col_type){ \
                .physical = LS_COL_INT64, .logical = LS_COL_TIME, .unit = LS_COL_MICROS })
#define LS_TYPE_TIMESTAMP      \
        ((struct ls_col_type){ \
                .physical = LS_COL_INT64, .logical = LS_COL_TIMESTAMP, .unit = LS_COL_MICROS })
#define LS_TYPE_TIMESTAMPTZ                                 \
        ((struct ls_col_type){ .physical = LS_COL_INT64,    \
                               .logical = LS_COL_TIMESTAMP, \
                               .unit = LS_COL_MICROS,       \
                               .utc = true })

struct ls_schema_node {
        ls_str name; /* owned by the schema */
        int32_t field_id;
        enum ls_col_repetition repetition;
        bool is_group;
        uint8_t max_def, max_rep; /* at this node, itself included; set by seal */
        struct ls_col_type type;  /* groups: only `logical` (LIST, MAP or ANY) */
        uint32_t parent;          /* the root is its own */
        uint32_t child_count;     /* direct children; the first is at index + 1 */
        uint32_t end;             /* index past the subtree: the next sibling's, if there is one */
        uint32_t leaf;            /* index of the first leaf in the subtree (a leaf: its own) */
        uint32_t leaf_count;      /* leaves in the subtree */
};

struct ls_schema {
        struct ls_schema_node *nodes; /* pre-order; nodes[0] is the root */
        uint32_t node_count;
        uint32_t *leaves; /* node index of each leaf, in order; set by seal */
        uint32_t leaf_count;
        size_t node_cap;
        bool sealed;
};

/* An unsealed schema with a root group. */
void ls_schema_init(struct ls_schema *s);
/* Frees; accepts a half-built one and may be called twice. */
void ls_schema_done(struct ls_schema *s);

/* Add below group `parent`, which must be on the path to the newest node (pre-order). The name is
 * copied. Give the index of the new node, or LS_NODE_NONE past the limits (depth, count). */
uint32_t ls_schema_add_group(struct ls_schema *s, uint32_t parent, ls_str name,
                             enum ls_col_repetition repetition, enum ls_col_logical logical,
                             int32_t field_id);
uint32_t ls_schema_add_leaf(struct ls_schema *s, uint32_t parent, ls_str name,
                            enum ls_col_repetition repetition, struct ls_col_type type,
                            int32_t field_id);
/* A three-level list: gives the repeated group "list", below which the caller adds one node named
 * "element" (required or optional). The list's own group gets the field id. */
uint32_t ls_schema_add_list(struct ls_schema *s, uint32_t parent, ls_str name,
                            enum ls_col_repetition repetition, int32_t field_id);
/* A map: gives the repeated group "key_value", below which the caller adds required "key" and
 * "value". */
uint32_t ls_schema_add_map(struct ls_schema *s, uint32_t parent, ls_str name,
                           enum ls_col_repetition repetition, int32_t field_id);

/* Computes levels and leaves. LS_INVALID: a group without children, or a physical type that does
 * not go with its logical one; `reterr` (may be NULL) says which. */
LS_MUST_USE ls_err ls_schema_seal(struct ls_schema *s, struct ls_errinfo *reterr);

static inline const struct ls_schema_node *
ls_schema_leaf(const struct ls_schema *s, uint32_t leaf)
{
        return &s->nodes[s->leaves[leaf]];
}
/* The direct child of group `node` with that name, or LS_NODE_NONE. */
uint32_t ls_schema_child(const struct ls_schema *s, uint32_t node, ls_str name);
/* The node with that field id, or LS_NODE_NONE. */
uint32_t ls_schema_by_field_id(const struct ls_schema *s, int32_t field_id);
/* Equal names, types, repetition, ids and shape. */
bool ls_schema_equal(const struct ls_schema *a, const struct ls_schema *b);
/* True when the physical type can carry the logical one. */
bool ls_col_type_fits(const struct ls_col_type *type);
/* Bytes of one value in memory: BOOL 1, INT32/FLOAT 4, INT64/DOUBLE 8, INT96 12, FIXED its own,
 * BYTES sizeof(ls_span). */
uint32_t ls_col_value_bytes(const struct ls_col_type *type);
