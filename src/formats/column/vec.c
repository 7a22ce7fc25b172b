/* formats/column/vec.c - see vec.h. */
#include "formats/column/vec.h"

#include "base/assert.h"

#define VEC_CHUNK_BYTES ((size_t)256 << 10) /* bytes of copied strings a chunk; larger ones alone */

struct ls_vec_chunk {
        struct ls_vec_chunk *next;
        size_t bytes;
        uint8_t data[];
};

void
ls_vec_init(struct ls_vec *v, const struct ls_schema_node *leaf)
{
        LS_ASSERT(!leaf->is_group);
        *v = (struct ls_vec){
                .type = leaf->type,
                .value_bytes = ls_col_value_bytes(&leaf->type),
                .max_def = leaf->max_def,
                .max_rep = leaf->max_rep,
        };
        LS_ASSERT(v->value_bytes > 0);
        ls_vec_grow_slots(v, 1);
}

static void
vec_chunks_free(struct ls_vec_chunk *c)
{
        while (c != NULL) {
                struct ls_vec_chunk *next = c->next;

                ls_free(c);
                c = next;
        }
}

static void
vec_let_go(struct ls_vec *v)
{
        for (size_t i = 0; i < v->held_count; i++)
                ls_slice_unref(v->held[i]);
        v->held_count = 0;
}

void
ls_vec_done(struct ls_vec *v)
{
        vec_let_go(v);
        vec_chunks_free(v->chunk);
        vec_chunks_free(v->chunk_free);
        ls_free(v->held);
        ls_free(v->def);
        ls_free(v->rep);
        ls_free(v->u8);
        *v = (struct ls_vec){ 0 };
}

void
ls_vec_clear(struct ls_vec *v)
{
        v->slots = v->rows = v->count = 0;
        v->span_bytes = 0;
        vec_let_go(v);
        while (v->chunk != NULL) {
                struct ls_vec_chunk *c = v->chunk;

                v->chunk = c->next;
                if (c->bytes != VEC_CHUNK_BYTES) { /* one value's own */
                        ls_free(c);
                        continue;
                }
                c->next = v->chunk_free;
                v->chunk_free = c;
        }
        v->chunk_used = 0;
}

static size_t
vec_next_cap(size_t cap, size_t used, size_t more)
{
        size_t want = cap < 256 ? 256 : cap + cap / 2;

        return want < used + more ? used + more : want;
}

void
ls_vec_grow_slots(struct ls_vec *v, size_t more)
{
        if (v->slot_cap - v->slots >= more)
                return;
        LS_ASSERT(more <= LS_VEC_SLOTS_MAX - v->slots);
        v->slot_cap = vec_next_cap(v->slot_cap, v->slots, more);
        if (v->max_def > 0)
                v->def = ls_realloc(v->def, v->slot_cap, 1);
        if (v->max_rep > 0)
                v->rep = ls_realloc(v->rep, v->slot_cap, 1);
}

void
ls_vec_grow_values(struct ls_vec *v, size_t more)
{
        if (v->value_cap - v->count >= more)
                return;
        LS_ASSERT(more <= LS_VEC_SLOTS_MAX - v->count);
        v->value_cap = vec_next_cap(v->value_cap, v->count, more);
        v->u8 = ls_realloc(v->u8, v->value_cap, v->value_bytes);
}

void
ls_vec_hold(struct ls_vec *v, struct ls_slice *slice)
{
        if (v->held_count > 0 && v->held[v->held_count - 1] == slice)
                return; /* pages come in order: the last one is the only likely repeat */
        LS_PUSH(v->held, v->held_count, v->held_cap, ls_slice_ref(slice));
}

uint8_t *
ls_vec_copy(struct ls_vec *v, ls_span bytes)
{
        uint8_t *p;

        if (v->chunk == NULL || v->chunk->bytes - v->chunk_used < bytes.len) {
                struct ls_vec_chunk *c = v->chunk_free;
                size_t want = bytes.len > VEC_CHUNK_BYTES ? bytes.len : VEC_CHUNK_BYTES;

                if (c != NULL && want == VEC_CHUNK_BYTES) {
                        v->chunk_free = c->next;
                } else {
                        LS_ASSERT(want < SIZE_MAX - sizeof *c);
                        c = ls_malloc(sizeof *c + want);
                        c->bytes = want;
                }
                c->next = v->chunk;
                v->chunk = c;
                v->chunk_used = 0;
        }
        p = v->chunk->data + v->chunk_used;
        if (bytes.len > 0)
                memcpy(p, bytes.ptr, bytes.len);
        v->chunk_used += bytes.len;
        return p;
}

void
ls_vec_value_fixed(struct ls_vec *v, const void *bytes)
{
        if (v->count == v->value_cap)
                ls_vec_grow_values(v, 1);
        memcpy(v->u8 + v->count * v->value_bytes, bytes, v->value_bytes);
        v->count++;
}

uint64_t
ls_vec_plain_bytes(const struct ls_vec *v)
{
        if (v->type.physical == LS_COL_BYTES)
                return v->span_bytes + (uint64_t)v->count * 4;
        return (uint64_t)v->count * v->value_bytes;
}

void
ls_vec_check(const struct ls_vec *v)
{
        size_t rows = 0, count = 0;

        LS_ASSERT((v->def != NULL) == (v->max_def > 0));
        LS_ASSERT((v->rep != NULL) == (v->max_rep > 0));
        for (size_t i = 0; i < v->slots; i++) {
                LS_ASSERT(v->max_rep == 0 || v->rep[i] <= v->max_rep);
                LS_ASSERT(v->max_def == 0 || v->def[i] <= v->max_def);
                rows += v->max_rep == 0 || v->rep[i] == 0;
                count += v->max_def == 0 || v->def[i] == v->max_def;
        }
        LS_ASSERT(v->slots == 0 || v->max_rep == 0 || v->rep[0] == 0);
        LS_ASSERT(rows == v->rows);
        LS_ASSERT(count == v->count);
}

void
ls_columns_init(struct ls_columns *c, const struct ls_schema *schema)
{
        LS_ASSERT(schema->sealed);
        c->schema = schema;
        c->count = schema->leaf_count;
        c->vecs = ls_calloc(c->count, sizeof *c->vecs);
        for (uint32_t i = 0; i < c->count; i++)
                ls_vec_init(&c->vecs[i], ls_schema_leaf(schema, i));
}

void
ls_columns_done(struct ls_columns *c)
{
        for (uint32_t i = 0; i < c->count; i++)
                ls_vec_done(&c->vecs[i]);
        ls_free(c->vecs);
        *c = (struct ls_columns){ 0 };
}

void
ls_columns_clear(struct ls_columns *c)
{
        for (uint32_t i = 0; i < c->count; i++)
                ls_vec_clear(&c->vecs[i]);
}

size_t
ls_columns_rows(const struct ls_columns *c)
{
        LS_ASSERT(c->count > 0);
        for (uint32_t i = 1; i < c->count; i++)
                LS_ASSERT(c->vecs[i].rows == c->vecs[0].rows);
        return c->vecs[0].rows;
}

uint64_t
ls_columns_plain_bytes(const struct ls_columns *c)
{
        uint64_t bytes = 0;

        for (uint32_t i = 0; i < c->count; i++)
                bytes += ls_vec_plain_bytes(&c->vecs[i]);
        return bytes;
}
