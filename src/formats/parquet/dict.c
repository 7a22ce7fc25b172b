/* formats/parquet/dict.c - see dict.h. */
#include "formats/parquet/dict.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/buf.h"

#define DICT_TABLE_MIN 1024
#define DICT_CHECK     1024 /* values between looks at whether it pays */

void
ls_pq_dict_done(struct ls_pq_dict *d)
{
        ls_vec_done(&d->values);
        ls_free(d->indexes);
        ls_free(d->table);
        *d = (struct ls_pq_dict){ 0 };
}

static uint64_t
dict_mix(uint64_t x)
{
        x = (x ^ x >> 32) * 0x9e3779b97f4a7c15ULL;
        return x ^ x >> 29;
}

static uint64_t
dict_hash(const struct ls_vec *v, size_t i)
{
        switch (v->type.physical) {
        case LS_COL_INT32:
        case LS_COL_FLOAT: return dict_mix(ls_get_le32(v->u8 + i * 4));
        case LS_COL_INT64:
        case LS_COL_DOUBLE: return dict_mix(ls_get_le64(v->u8 + i * 8));
        case LS_COL_BYTES: return XXH3_64bits(v->span[i].ptr, v->span[i].len);
        case LS_COL_BOOL:
        case LS_COL_INT96:
        case LS_COL_FIXED: break;
        }
        return XXH3_64bits(v->u8 + i * v->value_bytes, v->value_bytes);
}

/* Bit equality: NaN equals itself, the two zeros differ, so that values come back as they were. */
static bool
dict_same(const struct ls_vec *a, size_t i, const struct ls_vec *b, size_t j)
{
        if (a->type.physical == LS_COL_BYTES)
                return a->span[i].len == b->span[j].len &&
                       memcmp(a->span[i].ptr, b->span[j].ptr, a->span[i].len) == 0;
        return memcmp(a->u8 + i * a->value_bytes, b->u8 + j * b->value_bytes, a->value_bytes) == 0;
}

static void
dict_table_place(struct ls_pq_dict *d, uint32_t index)
{
        size_t at = dict_hash(&d->values, index) & (d->table_cap - 1);

        while (d->table[at] != 0)
                at = (at + 1) & (d->table_cap - 1);
        d->table[at] = index + 1;
}

static void
dict_table_grow(struct ls_pq_dict *d)
{
        d->table_cap = d->table_cap ? d->table_cap * 2 : DICT_TABLE_MIN;
        d->table = ls_realloc(d->table, d->table_cap, sizeof *d->table);
        memset(d->table, 0, d->table_cap * sizeof *d->table);
        for (size_t i = 0; i < d->values.count; i++)
                dict_table_place(d, (uint32_t)i);
}

static void
dict_reset(struct ls_pq_dict *d, const struct ls_vec *v)
{
        struct ls_schema_node node = { .type = v->type };

        if (d->values.value_bytes == v->value_bytes && d->values.slot_cap > 0) {
                ls_vec_clear(&d->values);
                d->values.type = v->type;
        } else {
                ls_vec_done(&d->values);
                ls_vec_init(&d->values, &node);
        }
        d->plain_bytes = 0;
        d->index_count = 0;
        if (d->table != NULL)
                memset(d->table, 0, d->table_cap * sizeof *d->table);
        else
                dict_table_grow(d);
}

/* The index of value `i` of `v`, added when it is new. */
static uint32_t
dict_intern(struct ls_pq_dict *d, const struct ls_vec *v, size_t i)
{
        size_t at = dict_hash(v, i) & (d->table_cap - 1);

        for (; d->table[at] != 0; at = (at + 1) & (d->table_cap - 1)) {
                if (dict_same(&d->values, d->table[at] - 1, v, i))
                        return d->table[at] - 1;
        }
        d->table[at] = (uint32_t)d->values.count + 1;
        if (v->type.physical == LS_COL_BYTES) {
                ls_vec_value_ref(&d->values, v->span[i]);
                d->plain_bytes += 4 + v->span[i].len;
        } else {
                ls_vec_value_fixed(&d->values, v->u8 + i * v->value_bytes);
                d->plain_bytes += v->value_bytes;
        }
        if (d->values.count * 2 > d->table_cap)
                dict_table_grow(d);
        return (uint32_t)d->values.count - 1;
}

bool
ls_pq_dict_build(struct ls_pq_dict *d, const struct ls_vec *v, uint64_t bytes_max)
{
        LS_ASSERT(v->count <= INT32_MAX);
        dict_reset(d, v);
        if (d->index_cap < v->count) {
                d->index_cap = v->count;
                d->indexes = ls_realloc(d->indexes, d->index_cap, sizeof *d->indexes);
        }
        for (size_t i = 0; i < v->count; i++) {
                d->indexes[i] = dict_intern(d, v, i);
                if (d->plain_bytes > bytes_max)
                        return false;
                if (i % DICT_CHECK == DICT_CHECK - 1 && d->values.count > i / 2)
                        return false;
        }
        d->index_count = v->count;
        return true;
}
