/* avro/value.c - the binary encoding: decode, skip, encode.
 *
 * Work is bounded by the input: apart from LS_AVRO_EMPTY_ITEMS_MAX, each value visited must be paid
 * for by bytes read, so that records of nulls inside records of nulls cost nobody an hour.
 */
#include "base/assert.h"
#include "formats/avro/avro.h"
#include "formats/avro/limits.h"

/* Values a byte of input pays for: a union of null, and a record around it, are 3 values a byte. */
enum { VALUES_PER_BYTE = 16 };

struct walk {
        struct ls_rd *r;
        const uint8_t *start;
        struct ls_arena *arena; /* NULL: skip */
        uint64_t values;
        uint32_t depth;
};

/* ---- pieces --------------------------------------------------------------------------------- */

ls_span
ls_avro_rd_bytes(struct ls_rd *r)
{
        int64_t n = ls_rd_varint(r);

        if (n < 0 || (uint64_t)n > ls_rd_left(r)) {
                r->failed = true;
                return LS_SPAN_NULL;
        }
        return ls_rd_span(r, (size_t)n);
}

int32_t
ls_avro_rd_int(struct ls_rd *r)
{
        int64_t v = ls_rd_varint(r);

        if (v < INT32_MIN || v > INT32_MAX) {
                r->failed = true;
                return 0;
        }
        return (int32_t)v;
}

bool
ls_avro_rd_boolean(struct ls_rd *r)
{
        uint8_t v = ls_rd_u8(r);

        if (v > 1)
                r->failed = true;
        return v == 1;
}

float
ls_avro_rd_float(struct ls_rd *r)
{
        uint32_t bits = ls_rd_le32(r);
        float v;

        memcpy(&v, &bits, 4);
        return v;
}

double
ls_avro_rd_double(struct ls_rd *r)
{
        uint64_t bits = ls_rd_le64(r);
        double v;

        memcpy(&v, &bits, 8);
        return v;
}

/* *ret_bytes: of the block, or -1 when it does not say. */
static uint64_t
block_head(struct ls_rd *r, uint32_t bytes_min, int64_t *ret_bytes)
{
        int64_t n = ls_rd_varint(r);
        uint64_t count, most;

        *ret_bytes = -1;
        if (n < 0) {
                *ret_bytes = ls_rd_varint(r);
                if (*ret_bytes < 0 || (uint64_t)*ret_bytes > ls_rd_left(r))
                        r->failed = true;
        }
        count = n < 0 ? 0 - (uint64_t)n : (uint64_t)n;
        most = bytes_min > 0 ? ls_rd_left(r) / bytes_min : LS_AVRO_EMPTY_ITEMS_MAX;
        if (count > most)
                r->failed = true;
        return r->failed ? 0 : count;
}

uint64_t
ls_avro_rd_block(struct ls_rd *r, uint32_t bytes_min)
{
        int64_t bytes;

        return block_head(r, bytes_min, &bytes);
}

void
ls_avro_put_bytes(struct ls_buf *out, ls_span s)
{
        ls_buf_put_varint(out, (int64_t)s.len);
        ls_buf_put_span(out, s);
}

void
ls_avro_put_float(struct ls_buf *out, float v)
{
        uint32_t bits;

        memcpy(&bits, &v, 4);
        ls_buf_put_le32(out, bits);
}

void
ls_avro_put_double(struct ls_buf *out, double v)
{
        uint64_t bits;

        memcpy(&bits, &v, 8);
        ls_buf_put_le64(out, bits);
}

bool
ls_avro_decimal(ls_span bytes, __int128 *ret_unscaled)
{
        unsigned __int128 v;
        uint8_t sign;

        if (bytes.len == 0)
                return false;
        sign = bytes.ptr[0] & 0x80 ? 0xff : 0;
        while (bytes.len > 16) { /* superfluous sign bytes */
                if (bytes.ptr[0] != sign)
                        return false;
                bytes.ptr++;
                bytes.len--;
        }
        if ((bytes.ptr[0] & 0x80) != (sign & 0x80) && bytes.len == 16)
                return false;
        v = sign ? ~(unsigned __int128)0 : 0;
        for (size_t i = 0; i < bytes.len; i++)
                v = v << 8 | bytes.ptr[i];
        *ret_unscaled = (__int128)v;
        return true;
}

/* ---- decode --------------------------------------------------------------------------------- */

static ls_err walk_value(struct walk *w, const struct ls_avro_type *t, struct ls_avro_value *ret);

static ls_err
walk_record(struct walk *w, const struct ls_avro_type *t, struct ls_avro_value *ret)
{
        ret->n = t->count;
        ret->items = NULL;
        if (w->arena != NULL && t->count > 0) {
                ret->items = ls_arena_array(w->arena, t->count, sizeof *ret->items);
                if (ret->items == NULL)
                        return LS_TOO_LARGE;
        }
        for (uint32_t i = 0; i < t->count; i++) {
                struct ls_avro_value skipped;

                LS_TRY(walk_value(w, t->fields[i].type, ret->items ? &ret->items[i] : &skipped));
        }
        return LS_OK;
}

static ls_err
walk_union(struct walk *w, const struct ls_avro_type *t, struct ls_avro_value *ret)
{
        int64_t branch = ls_rd_varint(w->r);
        struct ls_avro_value skipped, *inner = &skipped;

        if (w->r->failed || branch < 0 || branch >= t->count)
                return LS_CORRUPT;
        if (w->arena != NULL) {
                inner = ls_arena_array(w->arena, 1, sizeof *inner);
                if (inner == NULL)
                        return LS_TOO_LARGE;
        }
        *ret = (struct ls_avro_value){ .items = inner, .branch = (uint32_t)branch };
        return walk_value(w, t->branches[branch], inner);
}

/* Makes room for `more` items of `bytes` behind `used`; the old array stays in the arena. */
static ls_err
items_grow(struct ls_arena *arena, void **items, size_t used, size_t *cap, uint64_t more,
           size_t bytes)
{
        size_t want;
        void *fresh;

        if (*cap - used >= more)
                return LS_OK;
        if (more > SIZE_MAX / 4 / bytes - used)
                return LS_TOO_LARGE;
        want = LS_MAX(used + (size_t)more, 2 * used);
        fresh = ls_arena_array(arena, want, bytes);
        if (fresh == NULL)
                return LS_TOO_LARGE;
        if (used > 0)
                memcpy(fresh, *items, used * bytes);
        *items = fresh;
        *cap = want;
        return LS_OK;
}

/* The items of one block, or those of a map. */
static ls_err
walk_block(struct walk *w, const struct ls_avro_type *t, struct ls_avro_value *ret, uint64_t count)
{
        for (uint64_t i = 0; i < count; i++, ret->n++) {
                struct ls_avro_value skipped, *to = &skipped;

                if (t->kind == LS_AVRO_MAP) {
                        ls_span key = ls_avro_rd_bytes(w->r);

                        if (w->r->failed)
                                return LS_CORRUPT;
                        if (w->arena != NULL) {
                                ret->pairs[ret->n].key =
                                        ls_str_make((const char *)key.ptr, key.len);
                                to = &ret->pairs[ret->n].value;
                        }
                } else if (w->arena != NULL) {
                        to = &ret->items[ret->n];
                }
                LS_TRY(walk_value(w, t->items, to));
        }
        return LS_OK;
}

static ls_err
walk_items(struct walk *w, const struct ls_avro_type *t, struct ls_avro_value *ret)
{
        bool map = t->kind == LS_AVRO_MAP;
        size_t bytes = map ? sizeof *ret->pairs : sizeof *ret->items, cap = 0;
        uint32_t bytes_min = t->items->bytes_min;

        if (map && bytes_min < UINT32_MAX)
                bytes_min++; /* the key's length */
        ret->n = 0;
        ret->items = NULL;
        for (;;) {
                int64_t block_bytes;
                uint64_t count = block_head(w->r, bytes_min, &block_bytes);
                const uint8_t *start = w->r->pos;
                void *items = ret->items;

                if (w->r->failed)
                        return LS_CORRUPT;
                if (count == 0)
                        return LS_OK;
                if (w->arena == NULL && block_bytes >= 0) {
                        ls_rd_take(w->r, (size_t)block_bytes);
                        continue;
                }
                if (w->arena != NULL) {
                        LS_TRY(items_grow(w->arena, &items, ret->n, &cap, count, bytes));
                        ret->items = items;
                }
                LS_TRY(walk_block(w, t, ret, count));
                if (block_bytes >= 0 && w->r->pos - start != block_bytes)
                        return LS_CORRUPT; /* who skips would go on elsewhere */
        }
}

static ls_err
walk_nested(struct walk *w, const struct ls_avro_type *t, struct ls_avro_value *ret)
{
        ls_err e;

        if (++w->depth > LS_AVRO_DEPTH_MAX)
                return LS_TOO_LARGE;
        if (t->kind == LS_AVRO_RECORD)
                e = walk_record(w, t, ret);
        else if (t->kind == LS_AVRO_UNION)
                e = walk_union(w, t, ret);
        else
                e = walk_items(w, t, ret);
        w->depth--;
        return e;
}

static void
set_bytes(struct ls_avro_value *v, ls_span s)
{
        v->bytes = s.ptr;
        v->n = s.len;
}

static ls_err
walk_value(struct walk *w, const struct ls_avro_type *t, struct ls_avro_value *ret)
{
        struct ls_rd *r = w->r;

        if (++w->values > LS_AVRO_EMPTY_ITEMS_MAX + VALUES_PER_BYTE * (uint64_t)(r->pos - w->start))
                return LS_TOO_LARGE;
        switch (t->kind) {
        case LS_AVRO_NULL: ret->i = 0; break;
        case LS_AVRO_BOOLEAN: ret->i = ls_avro_rd_boolean(r); break;
        case LS_AVRO_INT: ret->i = ls_avro_rd_int(r); break;
        case LS_AVRO_LONG: ret->i = ls_rd_varint(r); break;
        case LS_AVRO_FLOAT: ret->d = ls_avro_rd_float(r); break;
        case LS_AVRO_DOUBLE: ret->d = ls_avro_rd_double(r); break;
        case LS_AVRO_BYTES:
        case LS_AVRO_STRING: set_bytes(ret, ls_avro_rd_bytes(r)); break;
        case LS_AVRO_FIXED: set_bytes(ret, ls_rd_span(r, t->fixed_bytes)); break;
        case LS_AVRO_ENUM:
                ret->i = ls_rd_varint(r);
                if (ret->i < 0 || ret->i >= t->count)
                        return LS_CORRUPT;
                break;
        case LS_AVRO_RECORD:
        case LS_AVRO_UNION:
        case LS_AVRO_ARRAY:
        case LS_AVRO_MAP: return walk_nested(w, t, ret);
        }
        return r->failed ? LS_CORRUPT : LS_OK;
}

ls_err
ls_avro_decode(const struct ls_avro_type *t, struct ls_rd *r, struct ls_arena *arena,
               struct ls_avro_value *ret_value)
{
        struct walk w = { .r = r, .start = r->pos, .arena = arena };
        struct ls_avro_value v = { .i = 0 };

        LS_ASSERT(arena != NULL);
        LS_TRY(walk_value(&w, t, &v));
        *ret_value = v;
        return LS_OK;
}

ls_err
ls_avro_skip(const struct ls_avro_type *t, struct ls_rd *r)
{
        struct walk w = { .r = r, .start = r->pos };
        struct ls_avro_value v;

        return walk_value(&w, t, &v);
}

/* ---- encode --------------------------------------------------------------------------------- */

static ls_err encode(const struct ls_avro_type *t, const struct ls_avro_value *v,
                     struct ls_buf *out, uint32_t depth);

static ls_err
encode_items(const struct ls_avro_type *t, const struct ls_avro_value *v, struct ls_buf *out,
             uint32_t depth)
{
        if (v->n > 0)
                ls_buf_put_varint(out, (int64_t)v->n);
        for (size_t i = 0; i < v->n; i++) {
                if (t->kind == LS_AVRO_MAP) {
                        ls_avro_put_str(out, v->pairs[i].key);
                        LS_TRY(encode(t->items, &v->pairs[i].value, out, depth));
                } else {
                        LS_TRY(encode(t->items, &v->items[i], out, depth));
                }
        }
        ls_buf_put_varint(out, 0);
        return LS_OK;
}

static ls_err
encode_nested(const struct ls_avro_type *t, const struct ls_avro_value *v, struct ls_buf *out,
              uint32_t depth)
{
        if (depth > LS_AVRO_DEPTH_MAX)
                return LS_INVALID;
        if (t->kind == LS_AVRO_UNION) {
                if (v->branch >= t->count)
                        return LS_INVALID;
                ls_buf_put_varint(out, v->branch);
                return encode(t->branches[v->branch], &v->items[0], out, depth);
        }
        if (t->kind != LS_AVRO_RECORD)
                return encode_items(t, v, out, depth);
        if (v->n != t->count)
                return LS_INVALID;
        for (uint32_t i = 0; i < t->count; i++)
                LS_TRY(encode(t->fields[i].type, &v->items[i], out, depth));
        return LS_OK;
}

static ls_err
encode(const struct ls_avro_type *t, const struct ls_avro_value *v, struct ls_buf *out,
       uint32_t depth)
{
        switch (t->kind) {
        case LS_AVRO_NULL: return LS_OK;
        case LS_AVRO_BOOLEAN: ls_buf_put_u8(out, v->i != 0); return LS_OK;
        case LS_AVRO_INT:
                if (v->i < INT32_MIN || v->i > INT32_MAX)
                        return LS_INVALID;
                ls_buf_put_varint(out, v->i);
                return LS_OK;
        case LS_AVRO_LONG: ls_buf_put_varint(out, v->i); return LS_OK;
        case LS_AVRO_FLOAT: ls_avro_put_float(out, (float)v->d); return LS_OK;
        case LS_AVRO_DOUBLE: ls_avro_put_double(out, v->d); return LS_OK;
        case LS_AVRO_BYTES:
        case LS_AVRO_STRING: ls_avro_put_bytes(out, ls_span_of(v->bytes, v->n)); return LS_OK;
        case LS_AVRO_FIXED:
                if (v->n != t->fixed_bytes)
                        return LS_INVALID;
                ls_buf_put(out, v->bytes, v->n);
                return LS_OK;
        case LS_AVRO_ENUM:
                if (v->i < 0 || v->i >= t->count)
                        return LS_INVALID;
                ls_buf_put_varint(out, v->i);
                return LS_OK;
        case LS_AVRO_RECORD:
        case LS_AVRO_UNION:
        case LS_AVRO_ARRAY:
        case LS_AVRO_MAP: return encode_nested(t, v, out, depth + 1);
        }
        return LS_INVALID;
}

ls_err
ls_avro_encode(const struct ls_avro_type *t, const struct ls_avro_value *v, struct ls_buf *out)
{
        return encode(t, v, out, 0);
}
