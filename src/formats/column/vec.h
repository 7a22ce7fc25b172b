/* formats/column/vec.h - column vectors: the values of one leaf with their levels, and the set of
 * vectors of a schema.
 *
 * A vector holds `slots`: for each a repetition level (when max_rep > 0), a definition level (when
 * max_def > 0), and a value when the definition level is max_def. Values are dense: nulls take no
 * place among them. Fixed-size values stand in one array; byte strings are spans into memory that
 * the vector copied, that a slice held by the vector owns, or that the caller keeps alive.
 *
 *      rows      {a}  {}  null {b,c}      of optional list<required>
 *      rep        0   0    0    0 1
 *      def        2   1    0    2 2
 *      values     a             b c
 *
 * Invariants: count <= slots; rows = slots with rep 0; def/rep are NULL exactly when their maximum
 * is 0. Memory is kept by ls_vec_clear, so that a vector is reused without allocating.
 * Threads: one owner.
 */
#pragma once
#include "base/slice.h"
#include "formats/column/schema.h"

#define LS_VEC_SLOTS_MAX ((size_t)1 << 31) /* slots of a vector; bounds level and value arrays */

struct ls_vec_chunk;

struct ls_vec {
        struct ls_col_type type;
        uint32_t value_bytes; /* in memory */
        uint8_t max_def, max_rep;
        size_t slots, rows, count;
        uint8_t *def, *rep;
        size_t slot_cap;
        union {
                uint8_t *u8; /* BOOL (0 or 1), FIXED and INT96 (value_bytes each) */
                int32_t *i32;
                int64_t *i64;
                float *f32;
                double *f64;
                ls_span *span; /* BYTES; never a NULL ptr */
        };
        size_t value_cap;
        uint64_t span_bytes; /* sum of the lengths of span[] */

        struct ls_vec_chunk *chunk, *chunk_free; /* copies of byte strings; spare chunks */
        size_t chunk_used;
        struct ls_slice **held;
        size_t held_count, held_cap;
};

void ls_vec_init(struct ls_vec *v, const struct ls_schema_node *leaf);
/* Frees all; accepts a zeroed one. */
void ls_vec_done(struct ls_vec *v);
/* Empties, keeps memory, lets go of held slices. */
void ls_vec_clear(struct ls_vec *v);

/* Room for more slots or values; they abort without memory (sizes are checked by the callers). */
void ls_vec_grow_slots(struct ls_vec *v, size_t more);
void ls_vec_grow_values(struct ls_vec *v, size_t more);
/* Keeps a reference to `slice` until clear: for spans that point into it. */
void ls_vec_hold(struct ls_vec *v, struct ls_slice *slice);
/* A copy of `bytes`, valid until clear; never NULL. */
uint8_t *ls_vec_copy(struct ls_vec *v, ls_span bytes);

/* Adds a slot: levels alone. The value, if def is max_def, is pushed by one of those below. */
static inline void
ls_vec_slot(struct ls_vec *v, uint8_t rep, uint8_t def)
{
        if (__builtin_expect(v->slots == v->slot_cap, 0))
                ls_vec_grow_slots(v, 1);
        if (v->rep != NULL)
                v->rep[v->slots] = rep;
        if (v->def != NULL)
                v->def[v->slots] = def;
        v->slots++;
        v->rows += rep == 0;
}
#define LS_VEC_PUSH_(v, member, value)                                 \
        do {                                                           \
                if (__builtin_expect((v)->count == (v)->value_cap, 0)) \
                        ls_vec_grow_values((v), 1);                    \
                (v)->member[(v)->count++] = (value);                   \
        } while (0)
static inline void
ls_vec_value_bool(struct ls_vec *v, bool x)
{
        LS_VEC_PUSH_(v, u8, x);
}
static inline void
ls_vec_value_i32(struct ls_vec *v, int32_t x)
{
        LS_VEC_PUSH_(v, i32, x);
}
static inline void
ls_vec_value_i64(struct ls_vec *v, int64_t x)
{
        LS_VEC_PUSH_(v, i64, x);
}
static inline void
ls_vec_value_f32(struct ls_vec *v, float x)
{
        LS_VEC_PUSH_(v, f32, x);
}
static inline void
ls_vec_value_f64(struct ls_vec *v, double x)
{
        LS_VEC_PUSH_(v, f64, x);
}
/* Borrowed: the bytes must stay until the vector is cleared. */
static inline void
ls_vec_value_ref(struct ls_vec *v, ls_span x)
{
        if (x.ptr == NULL)
                x = (ls_span){ (const uint8_t *)"", 0 };
        LS_VEC_PUSH_(v, span, x);
        v->span_bytes += x.len;
}
static inline void
ls_vec_value_copy(struct ls_vec *v, ls_span x)
{
        ls_vec_value_ref(v, (ls_span){ ls_vec_copy(v, x), x.len });
}
/* FIXED and INT96: value_bytes bytes are copied. */
void ls_vec_value_fixed(struct ls_vec *v, const void *bytes);

/* Flat leaves (max_rep 0) in one call: a row with a value, a row without. */
#define ls_vec_row_i32(v, x) (ls_vec_slot((v), 0, (v)->max_def), ls_vec_value_i32((v), (x)))
#define ls_vec_row_i64(v, x) (ls_vec_slot((v), 0, (v)->max_def), ls_vec_value_i64((v), (x)))
static inline void
ls_vec_row_null(struct ls_vec *v)
{
        ls_vec_slot(v, 0, (uint8_t)(v->max_def - 1));
}
/* A null span (ptr NULL) is a null, an empty one an empty value. Borrowed as by value_ref. */
static inline void
ls_vec_row_ref(struct ls_vec *v, ls_span x)
{
        if (x.ptr == NULL) {
                ls_vec_row_null(v);
                return;
        }
        ls_vec_slot(v, 0, v->max_def);
        ls_vec_value_ref(v, x);
}
static inline void
ls_vec_row_copy(struct ls_vec *v, ls_span x)
{
        if (x.ptr == NULL) {
                ls_vec_row_null(v);
                return;
        }
        ls_vec_slot(v, 0, v->max_def);
        ls_vec_value_copy(v, x);
}
/* Bytes of the values as PLAIN would store them (4 a byte string for its length). */
uint64_t ls_vec_plain_bytes(const struct ls_vec *v);
/* Asserts the invariants, walking levels: tests. */
void ls_vec_check(const struct ls_vec *v);

/* One vector for each leaf of a schema, in its order. */
struct ls_columns {
        const struct ls_schema *schema; /* borrowed, sealed */
        struct ls_vec *vecs;
        uint32_t count;
};
void ls_columns_init(struct ls_columns *c, const struct ls_schema *schema);
void ls_columns_done(struct ls_columns *c);
void ls_columns_clear(struct ls_columns *c);
/* Rows, which all vectors must agree on between rows (asserted). */
size_t ls_columns_rows(const struct ls_columns *c);
/* Sum of ls_vec_plain_bytes. */
uint64_t ls_columns_plain_bytes(const struct ls_columns *c);
