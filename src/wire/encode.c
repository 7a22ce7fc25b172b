/* wire/encode.c - struct to bytes, and the size that takes. See wire.h.
 *
 * The output is a buffer plus a list of splices: record payloads that the caller sends from where
 * they are. Everything else is small and copied. Sizes are computed by a second walk of the same
 * shape, which the tagged fields need (their size comes before them).
 */
#include "base/assert.h"
#include "base/mem.h"
#include "wire/wire_int.h"

struct encoder {
        struct ls_wire_out *out;
        int16_t version;
        bool flexible;
        bool too_large; /* a string did not fit its length field */
};

void
ls_wire_out_init(struct ls_wire_out *out, size_t bytes_max)
{
        *out = (struct ls_wire_out){ 0 };
        ls_buf_init(&out->buf, bytes_max);
}

void
ls_wire_out_done(struct ls_wire_out *out)
{
        ls_buf_done(&out->buf);
        ls_free(out->splices);
        out->splices = NULL;
        out->splice_count = out->splice_cap = out->spliced_bytes = 0;
}

void
ls_wire_out_clear(struct ls_wire_out *out)
{
        ls_buf_clear(&out->buf);
        out->splice_count = out->spliced_bytes = 0;
}

static inline bool
encode_has(const struct encoder *e, const struct ls_wire_field *f)
{
        return e->version >= f->version_min && e->version <= f->version_max;
}

static inline bool
encode_nullable(const struct encoder *e, const struct ls_wire_field *f)
{
        return e->version >= f->null_min && e->version <= f->null_max;
}

static inline bool
encode_compact(const struct encoder *e, const struct ls_wire_field *f)
{
        return e->flexible && !(f->flags & LS_WIRE_RIGID);
}

static int64_t
value_int(enum ls_wire_type type, const uint8_t *at)
{
        switch (type) {
        case LS_WIRE_BOOL: return *(const bool *)at;
        case LS_WIRE_INT8: return *(const int8_t *)at;
        case LS_WIRE_INT16: return *(const int16_t *)at;
        case LS_WIRE_UINT16: return *(const uint16_t *)at;
        case LS_WIRE_INT32: return *(const int32_t *)at;
        case LS_WIRE_INT64: return *(const int64_t *)at;
        case LS_WIRE_UUID:
        case LS_WIRE_STRING:
        case LS_WIRE_BYTES:
        case LS_WIRE_RECORDS:
        case LS_WIRE_STRUCT:
        case LS_WIRE_ARRAY: break;
        }
        LS_ASSERT(!"an integer");
        return 0;
}

/* String, bytes or records as one view. */
static struct ls_wire_records
value_bytes(enum ls_wire_type type, const uint8_t *at)
{
        const ls_span *span = (const ls_span *)at;

        if (type == LS_WIRE_RECORDS)
                return *(const struct ls_wire_records *)at;
        return (struct ls_wire_records){ span->ptr, span->len, NULL };
}

static bool
value_is_bytes(enum ls_wire_type type)
{
        return type == LS_WIRE_STRING || type == LS_WIRE_BYTES || type == LS_WIRE_RECORDS;
}

static bool value_is_default(const struct encoder *e, const struct ls_wire_field *f,
                             const uint8_t *obj);

static bool
struct_is_default(const struct encoder *e, const struct ls_wire_struct *s, const uint8_t *obj)
{
        for (size_t i = 0; i < s->field_count; i++)
                if (encode_has(e, &s->fields[i]) && !value_is_default(e, &s->fields[i], obj))
                        return false;
        return true;
}

static bool
value_is_default(const struct encoder *e, const struct ls_wire_field *f, const uint8_t *obj)
{
        const uint8_t *at = obj + f->offset;
        bool null_default = (f->flags & LS_WIRE_DEFAULT_NULL) || !encode_nullable(e, f);

        if (f->type == LS_WIRE_ARRAY) {
                const struct ls_wire_any_array *a = (const void *)at;

                return a->count == 0 &&
                       (a->items == NULL ? null_default : !(f->flags & LS_WIRE_DEFAULT_NULL));
        }
        if (f->type == LS_WIRE_STRUCT)
                return f->flags & LS_WIRE_POINTER ? *(void *const *)at == NULL
                                                  : struct_is_default(e, f->sub, at);
        if (value_is_bytes(f->type)) {
                struct ls_wire_records r = value_bytes(f->type, at);

                return r.len == 0 &&
                       (r.ptr == NULL && r.payload == NULL ? null_default
                                                           : !(f->flags & LS_WIRE_DEFAULT_NULL));
        }
        if (f->type == LS_WIRE_UUID)
                return ls_uuid_is_zero(*(const ls_uuid *)at);
        return value_int(f->type, at) == f->value_default;
}

/* ---- sizes ---- */

static size_t size_struct(const struct encoder *e, const struct ls_wire_struct *s,
                          const uint8_t *obj);

static size_t
size_count(const struct encoder *e, const struct ls_wire_field *f, bool wide, bool null, size_t n)
{
        if (encode_compact(e, f))
                return null ? 1 : ls_uvarint_size((uint64_t)n + 1);
        return wide ? 4 : 2;
}

static size_t
size_scalar(const struct encoder *e, const struct ls_wire_field *f, enum ls_wire_type type,
            const uint8_t *at)
{
        struct ls_wire_records r;
        bool null;

        switch (type) {
        case LS_WIRE_BOOL:
        case LS_WIRE_INT8: return 1;
        case LS_WIRE_INT16:
        case LS_WIRE_UINT16: return 2;
        case LS_WIRE_INT32: return 4;
        case LS_WIRE_INT64: return 8;
        case LS_WIRE_UUID: return sizeof(ls_uuid);
        case LS_WIRE_STRING:
        case LS_WIRE_BYTES:
        case LS_WIRE_RECORDS:
                r = value_bytes(type, at);
                null = r.ptr == NULL && r.payload == NULL && encode_nullable(e, f);
                return size_count(e, f, type != LS_WIRE_STRING, null, r.len) + r.len;
        case LS_WIRE_STRUCT:
        case LS_WIRE_ARRAY: break;
        }
        LS_ASSERT(!"a scalar");
        return 0;
}

static size_t
size_field(const struct encoder *e, const struct ls_wire_field *f, const uint8_t *obj)
{
        const uint8_t *at = obj + f->offset;

        if (f->type == LS_WIRE_ARRAY) {
                const struct ls_wire_any_array *a = (const void *)at;
                bool null = a->items == NULL && encode_nullable(e, f);
                size_t bytes = size_count(e, f, true, null, a->count);
                const uint8_t *item = a->items;

                for (uint32_t i = 0; i < a->count; i++, item += wire_elem_size(f))
                        bytes += f->elem == LS_WIRE_STRUCT ? size_struct(e, f->sub, item)
                                                           : size_scalar(e, f, f->elem, item);
                return bytes;
        }
        if (f->type != LS_WIRE_STRUCT)
                return size_scalar(e, f, f->type, at);
        if (f->flags & LS_WIRE_POINTER) {
                const uint8_t *p = *(uint8_t *const *)at;
                bool marked = encode_nullable(e, f);

                if (p == NULL && marked)
                        return 1;
                return (marked ? 1 : 0) + size_struct(e, f->sub, p ? p : f->sub->value_default);
        }
        return size_struct(e, f->sub, at);
}

static bool
encode_tag_wanted(const struct encoder *e, const struct ls_wire_field *f, const uint8_t *obj)
{
        return f->tag >= 0 && encode_has(e, f) && !value_is_default(e, f, obj);
}

static size_t
size_struct(const struct encoder *e, const struct ls_wire_struct *s, const uint8_t *obj)
{
        size_t bytes = 0, tags = 0;

        for (size_t i = 0; i < s->field_count; i++) {
                const struct ls_wire_field *f = &s->fields[i];
                size_t n;

                if (f->tag < 0) {
                        bytes += encode_has(e, f) ? size_field(e, f, obj) : 0;
                } else if (encode_tag_wanted(e, f, obj)) {
                        n = size_field(e, f, obj);
                        bytes += ls_uvarint_size((uint64_t)f->tag) + ls_uvarint_size(n) + n;
                        tags++;
                }
        }
        return bytes + (e->flexible ? ls_uvarint_size(tags) : 0);
}

size_t
ls_wire_size(const struct ls_wire_message *m, int16_t version, const void *obj)
{
        struct encoder e = { NULL, version, version >= m->flexible_min, false };

        LS_ASSERT(version >= m->version_min && version <= m->version_max);
        return size_struct(&e, m->root, obj);
}

/* ---- bytes ---- */

static void encode_struct(struct encoder *e, const struct ls_wire_struct *s, const uint8_t *obj);

static void
encode_uvarint(struct encoder *e, uint64_t v)
{
        if (v < 0x80)
                ls_buf_put_u8(&e->out->buf, (uint8_t)v);
        else
                ls_buf_put_uvarint(&e->out->buf, v);
}

static void
encode_count(struct encoder *e, const struct ls_wire_field *f, bool wide, bool null, size_t n)
{
        if (encode_compact(e, f)) {
                e->too_large |= n >= INT32_MAX;
                encode_uvarint(e, null ? 0 : (uint64_t)n + 1);
        } else if (wide) {
                e->too_large |= n > INT32_MAX;
                ls_buf_put_be32(&e->out->buf, null ? UINT32_MAX : (uint32_t)n);
        } else {
                e->too_large |= n > INT16_MAX;
                ls_buf_put_be16(&e->out->buf, null ? UINT16_MAX : (uint16_t)n);
        }
}

static void
encode_splice(struct ls_wire_out *out, const struct ls_wire_records *r)
{
        struct ls_wire_splice s = { out->buf.len, r->len, r->payload };

        LS_PUSH(out->splices, out->splice_count, out->splice_cap, s);
        out->spliced_bytes += r->len;
}

static void
encode_bytes(struct encoder *e, const struct ls_wire_field *f, enum ls_wire_type type,
             const uint8_t *at)
{
        struct ls_wire_records r = value_bytes(type, at);
        bool null = r.ptr == NULL && r.payload == NULL && encode_nullable(e, f);

        LS_ASSERT(r.ptr != NULL || r.payload != NULL || r.len == 0);
        encode_count(e, f, type != LS_WIRE_STRING, null, r.len);
        if (r.payload != NULL)
                encode_splice(e->out, &r);
        else
                ls_buf_put(&e->out->buf, r.ptr, r.len);
}

static void
encode_scalar(struct encoder *e, const struct ls_wire_field *f, enum ls_wire_type type,
              const uint8_t *at)
{
        struct ls_buf *b = &e->out->buf;

        switch (type) {
        case LS_WIRE_BOOL: ls_buf_put_u8(b, *(const bool *)at); break;
        case LS_WIRE_INT8: ls_buf_put_u8(b, *at); break;
        case LS_WIRE_INT16:
        case LS_WIRE_UINT16: ls_buf_put_be16(b, *(const uint16_t *)at); break;
        case LS_WIRE_INT32: ls_buf_put_be32(b, *(const uint32_t *)at); break;
        case LS_WIRE_INT64: ls_buf_put_be64(b, *(const uint64_t *)at); break;
        case LS_WIRE_UUID: ls_buf_put(b, at, sizeof(ls_uuid)); break;
        case LS_WIRE_STRING:
        case LS_WIRE_BYTES:
        case LS_WIRE_RECORDS: encode_bytes(e, f, type, at); break;
        case LS_WIRE_STRUCT:
        case LS_WIRE_ARRAY: LS_ASSERT(!"a scalar"); break;
        }
}

static void
encode_array(struct encoder *e, const struct ls_wire_field *f, const struct ls_wire_any_array *a)
{
        const uint8_t *item = a->items;
        size_t size = wire_elem_size(f);

        LS_ASSERT(a->items != NULL || a->count == 0);
        encode_count(e, f, true, a->items == NULL && encode_nullable(e, f), a->count);
        if (f->elem == LS_WIRE_STRUCT) {
                for (uint32_t i = 0; i < a->count; i++, item += size)
                        encode_struct(e, f->sub, item);
                return;
        }
        for (uint32_t i = 0; i < a->count; i++, item += size)
                encode_scalar(e, f, f->elem, item);
}

static void
encode_field(struct encoder *e, const struct ls_wire_field *f, const uint8_t *obj)
{
        const uint8_t *at = obj + f->offset;

        if (f->type == LS_WIRE_ARRAY) {
                encode_array(e, f, (const struct ls_wire_any_array *)at);
        } else if (f->type != LS_WIRE_STRUCT) {
                encode_scalar(e, f, f->type, at);
        } else if (f->flags & LS_WIRE_POINTER) {
                const uint8_t *p = *(uint8_t *const *)at;

                if (encode_nullable(e, f))
                        ls_buf_put_u8(&e->out->buf, p ? 1 : 0xff);
                if (p != NULL || !encode_nullable(e, f))
                        encode_struct(e, f->sub, p ? p : f->sub->value_default);
        } else {
                encode_struct(e, f->sub, at);
        }
}

/* Tags in ascending order, as the protocol wants: the generator checks that the table has it. */
static void
encode_tags(struct encoder *e, const struct ls_wire_struct *s, const uint8_t *obj)
{
        size_t count = 0;

        for (size_t i = 0; s->has_tags && i < s->field_count; i++)
                count += encode_tag_wanted(e, &s->fields[i], obj);
        encode_uvarint(e, count);
        for (size_t i = 0; count > 0 && i < s->field_count; i++) {
                const struct ls_wire_field *f = &s->fields[i];

                if (!encode_tag_wanted(e, f, obj))
                        continue;
                encode_uvarint(e, (uint64_t)f->tag);
                encode_uvarint(e, size_field(e, f, obj));
                encode_field(e, f, obj);
                count--;
        }
}

static void
encode_struct(struct encoder *e, const struct ls_wire_struct *s, const uint8_t *obj)
{
        const struct ls_wire_field *f = s->fields;

        for (size_t i = 0; i < s->field_count; i++, f++)
                if (f->tag < 0 && encode_has(e, f))
                        encode_field(e, f, obj);
        if (e->flexible)
                encode_tags(e, s, obj);
}

ls_err
ls_wire_encode(const struct ls_wire_message *m, int16_t version, const void *obj,
               struct ls_wire_out *out)
{
        struct encoder e = { out, version, version >= m->flexible_min, false };

        LS_ASSERT(version >= m->version_min && version <= m->version_max);
        encode_struct(&e, m->root, obj);
        return e.too_large || ls_buf_failed(&out->buf) ? LS_TOO_LARGE : LS_OK;
}
