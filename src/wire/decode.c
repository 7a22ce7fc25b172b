/* wire/decode.c - bytes to struct, see wire.h.
 *
 * One recursive walk over the field tables. The cursor cannot pass the end of the frame; a read
 * that would, marks it failed and gives zero, which is checked before anything is allocated from it
 * and once per struct. The depth of the recursion is the depth of the schema, never of the bytes.
 * Encodings: flexible versions are KIP-482, the others the original protocol.
 */
#include "base/assert.h"
#include "base/rd.h"
#include "wire/wire_int.h"

struct decoder {
        struct ls_rd rd;
        struct ls_arena *arena;
        int16_t version;
        bool flexible;
};

/* What an empty array of a decoded message points to: not null, and nothing to read. */
static uint64_t empty_items[2];

static ls_err decode_struct(struct decoder *d, const struct ls_wire_struct *s, uint8_t *obj);

/* Unsigned LEB128 of at most 32 bits, as lengths and tags are. */
static inline uint32_t
decode_uvarint32(struct decoder *d)
{
        uint64_t v;

        if (__builtin_expect(d->rd.pos < d->rd.end && *d->rd.pos < 0x80, 1))
                return *d->rd.pos++;
        v = ls_rd_uvarint(&d->rd);
        if (v > UINT32_MAX) {
                d->rd.failed = true;
                return 0;
        }
        return (uint32_t)v;
}

static inline bool
decode_null_allowed(const struct decoder *d, const struct ls_wire_field *f)
{
        return d->version >= f->null_min && d->version <= f->null_max;
}

/* A length or count: -1 for null. `wide` is the int32 form of versions that are not flexible. */
static inline ls_err
decode_count(struct decoder *d, const struct ls_wire_field *f, bool wide, int64_t *ret_count)
{
        int64_t n;

        if (d->flexible && !(f->flags & LS_WIRE_RIGID))
                n = (int64_t)decode_uvarint32(d) - 1;
        else if (wide)
                n = (int32_t)ls_rd_be32(&d->rd);
        else
                n = (int16_t)ls_rd_be16(&d->rd);
        if (d->rd.failed || n < -1 || (n == -1 && !decode_null_allowed(d, f)))
                return LS_CORRUPT;
        *ret_count = n;
        return LS_OK;
}

/* A length-prefixed run of bytes: string, bytes or records. */
static ls_err
decode_bytes(struct decoder *d, const struct ls_wire_field *f, bool wide, ls_span *ret_bytes)
{
        int64_t n = -1;

        LS_TRY(decode_count(d, f, wide, &n));
        if (n == -1) {
                *ret_bytes = LS_SPAN_NULL;
                return LS_OK;
        }
        if ((uint64_t)n > ls_rd_left(&d->rd))
                return LS_CORRUPT;
        /* The max of an array counts its elements, not the bytes of each. */
        if (n > (f->type == LS_WIRE_ARRAY ? INT16_MAX : (int64_t)f->max))
                return LS_TOO_LARGE;
        *ret_bytes = ls_rd_span(&d->rd, (size_t)n);
        return LS_OK;
}

static const uint8_t type_bytes_min[] = {
        [LS_WIRE_BOOL] = 1,  [LS_WIRE_INT8] = 1,    [LS_WIRE_INT16] = 2, [LS_WIRE_UINT16] = 2,
        [LS_WIRE_INT32] = 4, [LS_WIRE_INT64] = 8,   [LS_WIRE_UUID] = 16, [LS_WIRE_STRING] = 1,
        [LS_WIRE_BYTES] = 1, [LS_WIRE_RECORDS] = 1,
};

/* The value of a scalar at `at`, which has room for it. */
static ls_err
decode_scalar(struct decoder *d, const struct ls_wire_field *f, enum ls_wire_type type, uint8_t *at)
{
        struct ls_wire_records records = { 0 };
        const uint8_t *p;
        ls_span bytes;

        switch (type) {
        case LS_WIRE_BOOL: *(bool *)at = ls_rd_u8(&d->rd) != 0; break;
        case LS_WIRE_INT8: *at = ls_rd_u8(&d->rd); break;
        case LS_WIRE_INT16:
        case LS_WIRE_UINT16: *(uint16_t *)at = ls_rd_be16(&d->rd); break;
        case LS_WIRE_INT32: *(uint32_t *)at = ls_rd_be32(&d->rd); break;
        case LS_WIRE_INT64: *(uint64_t *)at = ls_rd_be64(&d->rd); break;
        case LS_WIRE_UUID:
                p = ls_rd_take(&d->rd, sizeof(ls_uuid));
                if (p != NULL)
                        memcpy(at, p, sizeof(ls_uuid));
                break;
        case LS_WIRE_STRING:
                LS_TRY(decode_bytes(d, f, false, &bytes));
                *(ls_str *)at = ls_str_make((const char *)bytes.ptr, bytes.len);
                break;
        case LS_WIRE_BYTES: return decode_bytes(d, f, true, (ls_span *)at);
        case LS_WIRE_RECORDS:
                LS_TRY(decode_bytes(d, f, true, &bytes));
                records.ptr = bytes.ptr;
                records.len = bytes.len;
                *(struct ls_wire_records *)at = records;
                break;
        case LS_WIRE_STRUCT:
        case LS_WIRE_ARRAY: LS_ASSERT(!"a scalar"); break;
        }
        return LS_OK;
}

static void
decode_int32_items(struct decoder *d, uint32_t *items, size_t count)
{
        const uint8_t *p = ls_rd_take(&d->rd, count * 4);

        if (p == NULL)
                return;
        for (size_t i = 0; i < count; i++)
                items[i] = ls_get_be32(p + i * 4);
}

static ls_err
decode_array(struct decoder *d, const struct ls_wire_field *f, struct ls_wire_any_array *ret)
{
        bool of_struct = f->elem == LS_WIRE_STRUCT;
        size_t bytes_min = of_struct ? f->sub->bytes_min : type_bytes_min[f->elem];
        size_t size = wire_elem_size(f);
        uint8_t *items;
        int64_t n = -1;

        *ret = (struct ls_wire_any_array){ NULL, 0 };
        LS_TRY(decode_count(d, f, true, &n));
        if (n == -1)
                return LS_OK;
        LS_ASSERT(bytes_min > 0 && size > 0);
        if ((uint64_t)n > ls_rd_left(&d->rd) / bytes_min)
                return LS_CORRUPT;
        if (n > f->max)
                return LS_TOO_LARGE;
        if (n == 0) {
                ret->items = empty_items;
                return LS_OK;
        }
        items = ls_arena_alloc(d->arena, (size_t)n * size);
        if (items == NULL)
                return LS_TOO_LARGE;
        ret->items = items;
        ret->count = (uint32_t)n;
        if (f->elem == LS_WIRE_INT32) {
                decode_int32_items(d, (uint32_t *)items, (size_t)n);
                return LS_OK;
        }
        for (int64_t i = 0; i < n; i++, items += size)
                LS_TRY(of_struct ? decode_struct(d, f->sub, items)
                                 : decode_scalar(d, f, f->elem, items));
        return LS_OK;
}

/* A struct that may be null: in versions where it may, an int8 before it tells (-1: null). */
static ls_err
decode_optional(struct decoder *d, const struct ls_wire_field *f, void **ret)
{
        *ret = NULL;
        if (decode_null_allowed(d, f)) {
                int8_t there = (int8_t)ls_rd_u8(&d->rd);

                if (d->rd.failed)
                        return LS_CORRUPT;
                if (there < 0)
                        return LS_OK;
        }
        *ret = ls_arena_alloc(d->arena, f->sub->size);
        if (*ret == NULL)
                return LS_TOO_LARGE;
        return decode_struct(d, f->sub, *ret);
}

static ls_err
decode_field(struct decoder *d, const struct ls_wire_field *f, uint8_t *obj)
{
        uint8_t *at = obj + f->offset;

        if (f->type == LS_WIRE_ARRAY)
                return decode_array(d, f, (struct ls_wire_any_array *)at);
        if (f->type != LS_WIRE_STRUCT)
                return decode_scalar(d, f, f->type, at);
        if (f->flags & LS_WIRE_POINTER)
                return decode_optional(d, f, (void **)at);
        return decode_struct(d, f->sub, at);
}

static const struct ls_wire_field *
decode_find_tag(const struct decoder *d, const struct ls_wire_struct *s, uint32_t tag)
{
        for (size_t i = 0; s->has_tags && i < s->field_count; i++) {
                const struct ls_wire_field *f = &s->fields[i];

                if (f->tag >= 0 && (uint32_t)f->tag == tag && d->version >= f->version_min &&
                    d->version <= f->version_max)
                        return f;
        }
        return NULL;
}

/* The tag section: count, then id, size and value of each. What this version does not define is
 * skipped by its size; what it defines must take exactly its size. */
static ls_err
decode_tags(struct decoder *d, const struct ls_wire_struct *s, uint8_t *obj)
{
        uint32_t count = decode_uvarint32(d);

        for (uint32_t i = 0; i < count && !d->rd.failed; i++) {
                uint32_t tag = decode_uvarint32(d);
                uint32_t bytes = decode_uvarint32(d);
                const struct ls_wire_field *f;
                const uint8_t *end = d->rd.end;

                if (d->rd.failed || bytes > ls_rd_left(&d->rd))
                        return LS_CORRUPT;
                f = decode_find_tag(d, s, tag);
                if (f == NULL) {
                        d->rd.pos += bytes;
                        continue;
                }
                d->rd.end = d->rd.pos + bytes;
                LS_TRY(decode_field(d, f, obj));
                if (d->rd.failed || d->rd.pos != d->rd.end)
                        return LS_CORRUPT;
                d->rd.end = end;
        }
        return LS_OK;
}

static ls_err
decode_struct(struct decoder *d, const struct ls_wire_struct *s, uint8_t *obj)
{
        const struct ls_wire_field *f = s->fields;

        memcpy(obj, s->value_default, s->size);
        for (size_t i = 0; i < s->field_count; i++, f++) {
                if (d->version < f->version_min || d->version > f->version_max || f->tag >= 0)
                        continue;
                LS_TRY(decode_field(d, f, obj));
        }
        if (d->flexible)
                LS_TRY(decode_tags(d, s, obj));
        return d->rd.failed ? LS_CORRUPT : LS_OK;
}

ls_err
ls_wire_decode_prefix(const struct ls_wire_message *m, int16_t version, ls_span bytes,
                      struct ls_arena *arena, void *obj, ls_span *ret_rest)
{
        struct decoder d = { ls_rd_of(bytes), arena, version, version >= m->flexible_min };

        LS_ASSERT(m->root->size > 0);
        if (version < m->version_min || version > m->version_max)
                return LS_UNSUPPORTED;
        LS_TRY(decode_struct(&d, m->root, obj));
        LS_ASSERT(d.rd.pos <= d.rd.end);
        *ret_rest = ls_span_of(d.rd.pos, ls_rd_left(&d.rd));
        return LS_OK;
}

ls_err
ls_wire_decode(const struct ls_wire_message *m, int16_t version, ls_span bytes,
               struct ls_arena *arena, void *obj)
{
        ls_span rest = LS_SPAN_NULL;

        LS_TRY(ls_wire_decode_prefix(m, version, bytes, arena, obj, &rest));
        return rest.len == 0 ? LS_OK : LS_CORRUPT;
}

void
ls_wire_init(const struct ls_wire_struct *s, void *obj)
{
        memcpy(obj, s->value_default, s->size);
}

void *
ls_wire_array(struct ls_arena *arena, const struct ls_wire_struct *s, size_t count)
{
        uint8_t *items;

        if (count == 0)
                return empty_items;
        items = ls_arena_array(arena, count, s->size);
        for (size_t i = 0; items != NULL && i < count; i++)
                memcpy(items + i * s->size, s->value_default, s->size);
        return items;
}
