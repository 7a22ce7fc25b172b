/* avro/avro.h - Avro schemas and the binary encoding (Apache Avro 1.12 specification).
 *
 * A schema is parsed into types that point to each other; a named type used twice, or inside
 * itself, is one `struct ls_avro_type`. Values are trees of `struct ls_avro_value` in an arena,
 * which mean something only together with their type. Who reads many values of one type (columns)
 * walks type and bytes itself with ls_rd_varint, ls_avro_rd_bytes and ls_avro_skip and builds no
 * tree.
 * Bounds: limits.h. Bytes and schemas come from outside: nothing here asserts on them.
 * Threads: a parsed schema is immutable, any thread; the rest has one owner.
 */
#pragma once
#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rd.h"
#include "base/span.h"

enum ls_avro_kind {
        LS_AVRO_NULL,
        LS_AVRO_BOOLEAN,
        LS_AVRO_INT,
        LS_AVRO_LONG,
        LS_AVRO_FLOAT,
        LS_AVRO_DOUBLE,
        LS_AVRO_BYTES,
        LS_AVRO_STRING,
        LS_AVRO_RECORD, /* error types too */
        LS_AVRO_ENUM,
        LS_AVRO_ARRAY,
        LS_AVRO_MAP,
        LS_AVRO_UNION,
        LS_AVRO_FIXED,
};

/* A logical type stands only where the specification allows it; else it is ignored, as it says. */
enum ls_avro_logical {
        LS_AVRO_PLAIN,
        LS_AVRO_DECIMAL,
        LS_AVRO_BIG_DECIMAL,
        LS_AVRO_UUID,
        LS_AVRO_DATE,
        LS_AVRO_TIME_MILLIS,
        LS_AVRO_TIME_MICROS,
        LS_AVRO_TIMESTAMP_MILLIS,
        LS_AVRO_TIMESTAMP_MICROS,
        LS_AVRO_TIMESTAMP_NANOS,
        LS_AVRO_LOCAL_TIMESTAMP_MILLIS,
        LS_AVRO_LOCAL_TIMESTAMP_MICROS,
        LS_AVRO_LOCAL_TIMESTAMP_NANOS,
        LS_AVRO_DURATION,
        LS_AVRO_MAP_ARRAY, /* an array of (key, value) records: Iceberg's map */
};

#define LS_AVRO_NO_ID (-1)

struct ls_avro_type;
struct ls_avro_field {
        ls_str name;
        ls_str doc;          /* null when absent */
        ls_str default_json; /* compact JSON text; null when there is no default */
        const ls_str *aliases;
        uint32_t alias_count;
        int32_t field_id; /* "field-id", or LS_AVRO_NO_ID */
        const struct ls_avro_type *type;
};
struct ls_avro_type {
        enum ls_avro_kind kind;
        enum ls_avro_logical logical;
        ls_str name; /* full name ("a.b.C") of records, enums and fixed; else null */
        ls_str doc;
        const ls_str *aliases; /* full names */
        uint32_t alias_count;
        uint32_t count;                       /* of fields, symbols or branches */
        const struct ls_avro_field *fields;   /* record */
        const ls_str *symbols;                /* enum */
        ls_str default_symbol;                /* enum; null when absent */
        const struct ls_avro_type **branches; /* union */
        const struct ls_avro_type *items;     /* array, and the values of a map */
        uint32_t fixed_bytes;
        int32_t precision, scale; /* decimal */
        int32_t element_id;       /* array "element-id", or LS_AVRO_NO_ID */
        int32_t key_id, value_id; /* map "key-id", "value-id" */
        bool adjust_to_utc;       /* Iceberg's "adjust-to-utc"; false when absent */
        uint32_t bytes_min;       /* a value takes at least so many bytes (0: may take none) */
        uint32_t index;           /* position in the schema's list of types: key for side tables */
};

struct ls_avro_schema; /* owns its types */

/* Parses JSON text. LS_INVALID (reterr says where), LS_TOO_LARGE: limits.h. */
LS_MUST_USE ls_err ls_avro_schema_parse(ls_str json, struct ls_avro_schema **ret_schema,
                                        struct ls_errinfo *reterr);
/* Accepts NULL. */
void ls_avro_schema_free(struct ls_avro_schema *s);
LS_DEFINE_AUTO(struct ls_avro_schema *, ls_avro_schema_free);
const struct ls_avro_type *ls_avro_schema_root(const struct ls_avro_schema *s);
/* Types in the schema; each type's `index` is below it. */
uint32_t ls_avro_schema_type_count(const struct ls_avro_schema *s);
/* The text given to parse (borrowed until free). */
ls_str ls_avro_schema_text(const struct ls_avro_schema *s);

/* Of a record; NULL when there is none. */
const struct ls_avro_field *ls_avro_field_by_name(const struct ls_avro_type *record, ls_str name);
const struct ls_avro_field *ls_avro_field_by_id(const struct ls_avro_type *record, int32_t id);
/* The non-null branch of a union of null and one other; the type itself when it is no union; NULL
 * for other unions. *ret_null is the branch index of null, or -1. */
const struct ls_avro_type *ls_avro_unwrap(const struct ls_avro_type *t, int *ret_null);

/* A value. Which member counts is the type's matter:
 * null none · boolean, int, long, enum (symbol index) `i` · float, double `d` ·
 * bytes, string, fixed `bytes` (borrowed from the input) · record, array `items`, count in `n` ·
 * map `pairs`, `n` · union `branch`, its value `items[0]`. */
struct ls_avro_pair;
struct ls_avro_value {
        union {
                int64_t i;
                double d;
                const uint8_t *bytes;
                struct ls_avro_value *items;
                struct ls_avro_pair *pairs;
        };
        union {
                size_t n; /* bytes or items */
                uint32_t branch;
        };
};
struct ls_avro_pair {
        ls_str key;
        struct ls_avro_value value;
};

/* Decodes one value at `r`; byte strings borrow from its input, the rest lies in `arena`.
 * LS_CORRUPT: not a value of the type, or cut short. LS_TOO_LARGE: the arena is full or a bound of
 * limits.h was passed. Strings are not checked for UTF-8. */
LS_MUST_USE ls_err ls_avro_decode(const struct ls_avro_type *t, struct ls_rd *r,
                                  struct ls_arena *arena, struct ls_avro_value *ret_value);
/* Passes over one value without building anything; same outcomes. */
LS_MUST_USE ls_err ls_avro_skip(const struct ls_avro_type *t, struct ls_rd *r);
/* Appends one value. LS_INVALID: the value does not fit the type (branch or symbol out of range,
 * wrong fixed size, int out of range, wrong number of fields); `out` then ends in garbage. */
LS_MUST_USE ls_err ls_avro_encode(const struct ls_avro_type *t, const struct ls_avro_value *v,
                                  struct ls_buf *out);

/* Pieces of the encoding. int, long: ls_rd_varint, ls_buf_put_varint. */
ls_span ls_avro_rd_bytes(struct ls_rd *r); /* bytes, string; null and `failed` when cut short */
int32_t ls_avro_rd_int(struct ls_rd *r);   /* out of 32 bits fails */
bool ls_avro_rd_boolean(struct ls_rd *r);  /* other than 0 and 1 fails */
float ls_avro_rd_float(struct ls_rd *r);
double ls_avro_rd_double(struct ls_rd *r);
/* Starts or goes on with the blocks of an array or map: items of the next block, 0 at the end.
 * `bytes_min` of the item type bounds the count by what is left. */
uint64_t ls_avro_rd_block(struct ls_rd *r, uint32_t bytes_min);
void ls_avro_put_bytes(struct ls_buf *out, ls_span s);
static inline void
ls_avro_put_str(struct ls_buf *out, ls_str s)
{
        ls_avro_put_bytes(out, ls_span_of(s.ptr, s.len));
}
void ls_avro_put_float(struct ls_buf *out, float v);
void ls_avro_put_double(struct ls_buf *out, double v);

/* Decimal bytes (big-endian two's complement, any length with superfluous sign bytes) to 128 bits.
 * False: empty, or more than 128 significant bits. */
bool ls_avro_decimal(ls_span bytes, __int128 *ret_unscaled);
