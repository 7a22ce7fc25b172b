/* wire/print.c - a message as JSON for people, and as random values for tests. See wire.h. */
#include <inttypes.h>

#include "base/assert.h"
#include "wire/wire_int.h"

enum {
        PRINT_BYTES_MAX = 64,  /* of one value; then the length is told instead */
        PRINT_ITEMS_MAX = 256, /* of one array */
};

struct printer {
        struct ls_buf *out;
        int16_t version;
};

static void print_struct(struct printer *p, const struct ls_wire_struct *s, const uint8_t *obj);

static void
print_text(struct ls_buf *out, const char *text, size_t len)
{
        size_t n = len < PRINT_BYTES_MAX ? len : PRINT_BYTES_MAX;

        ls_buf_put_u8(out, '"');
        for (size_t i = 0; i < n; i++) {
                unsigned char c = (unsigned char)text[i];

                if (c == '"' || c == '\\' || c < 0x20 || c >= 0x7f)
                        ls_buf_printf(out, "\\u%04x", c);
                else
                        ls_buf_put_u8(out, c);
        }
        if (n < len)
                ls_buf_printf(out, "… (%zu bytes)", len);
        ls_buf_put_u8(out, '"');
}

static void
print_bytes(struct ls_buf *out, ls_span bytes)
{
        size_t n = bytes.len < PRINT_BYTES_MAX ? bytes.len : PRINT_BYTES_MAX;

        ls_buf_put_u8(out, '"');
        for (size_t i = 0; i < n; i++)
                ls_buf_printf(out, "%02x", bytes.ptr[i]);
        if (n < bytes.len)
                ls_buf_printf(out, "… (%zu bytes)", bytes.len);
        ls_buf_put_u8(out, '"');
}

/* Where null is not allowed, no pointer is another way to be empty. */
static bool
print_nullable(const struct printer *p, const struct ls_wire_field *f)
{
        return p->version >= f->null_min && p->version <= f->null_max;
}

static void
print_scalar(struct printer *p, const struct ls_wire_field *f, enum ls_wire_type type,
             const uint8_t *at)
{
        const struct ls_wire_records *records = (const void *)at;
        const ls_span *span = (const void *)at;
        char text[LS_UUID_BASE64_BYTES];

        switch (type) {
        case LS_WIRE_BOOL: ls_buf_put_text(p->out, *(const bool *)at ? "true" : "false"); return;
        case LS_WIRE_INT8: ls_buf_printf(p->out, "%d", *(const int8_t *)at); return;
        case LS_WIRE_INT16: ls_buf_printf(p->out, "%d", *(const int16_t *)at); return;
        case LS_WIRE_UINT16: ls_buf_printf(p->out, "%d", *(const uint16_t *)at); return;
        case LS_WIRE_INT32: ls_buf_printf(p->out, "%" PRId32, *(const int32_t *)at); return;
        case LS_WIRE_INT64: ls_buf_printf(p->out, "%" PRId64, *(const int64_t *)at); return;
        case LS_WIRE_UUID:
                ls_uuid_base64(*(const ls_uuid *)at, text);
                ls_buf_printf(p->out, "\"%s\"", text);
                return;
        case LS_WIRE_STRING:
                if (span->ptr != NULL)
                        print_text(p->out, (const char *)span->ptr, span->len);
                break;
        case LS_WIRE_BYTES:
                if (span->ptr != NULL)
                        print_bytes(p->out, *span);
                break;
        case LS_WIRE_RECORDS:
                if (records->payload != NULL)
                        ls_buf_printf(p->out, "\"… (%zu bytes)\"", records->len);
                else if (records->ptr != NULL)
                        print_bytes(p->out, ls_span_of(records->ptr, records->len));
                break;
        case LS_WIRE_STRUCT:
        case LS_WIRE_ARRAY: LS_ASSERT(!"a scalar"); break;
        }
        if (span->ptr == NULL && (type != LS_WIRE_RECORDS || records->payload == NULL))
                ls_buf_put_text(p->out, print_nullable(p, f) ? "null" : "\"\"");
}

static void
print_array(struct printer *p, const struct ls_wire_field *f, const struct ls_wire_any_array *a)
{
        const uint8_t *item = a->items;

        if (a->items == NULL && print_nullable(p, f)) {
                ls_buf_put_text(p->out, "null");
                return;
        }
        ls_buf_put_u8(p->out, '[');
        for (uint32_t i = 0; i < a->count && i < PRINT_ITEMS_MAX; i++) {
                if (i > 0)
                        ls_buf_put_u8(p->out, ',');
                if (f->elem == LS_WIRE_STRUCT)
                        print_struct(p, f->sub, item);
                else
                        print_scalar(p, f, f->elem, item);
                item += wire_elem_size(f);
        }
        if (a->count > PRINT_ITEMS_MAX)
                ls_buf_printf(p->out, ",\"… (%u items)\"", a->count);
        ls_buf_put_u8(p->out, ']');
}

static void
print_field(struct printer *p, const struct ls_wire_field *f, const uint8_t *at)
{
        if (f->type == LS_WIRE_ARRAY) {
                print_array(p, f, (const struct ls_wire_any_array *)at);
        } else if (f->type != LS_WIRE_STRUCT) {
                print_scalar(p, f, f->type, at);
        } else if (!(f->flags & LS_WIRE_POINTER)) {
                print_struct(p, f->sub, at);
        } else if (*(void *const *)at == NULL) {
                ls_buf_put_text(p->out, "null");
        } else {
                print_struct(p, f->sub, *(uint8_t *const *)at);
        }
}

static void
print_struct(struct printer *p, const struct ls_wire_struct *s, const uint8_t *obj)
{
        const char *separator = "";

        ls_buf_put_u8(p->out, '{');
        for (size_t i = 0; i < s->field_count; i++) {
                const struct ls_wire_field *f = &s->fields[i];

                if (p->version < f->version_min || p->version > f->version_max)
                        continue;
                ls_buf_printf(p->out, "%s\"%s\":", separator, f->name);
                print_field(p, f, obj + f->offset);
                separator = ",";
        }
        ls_buf_put_u8(p->out, '}');
}

void
ls_wire_print(const struct ls_wire_message *m, int16_t version, const void *obj, struct ls_buf *out)
{
        struct printer p = { out, version };

        print_struct(&p, m->root, obj);
}

/* ---- random values ---- */

struct filler {
        struct ls_arena *arena;
        uint64_t *seed;
        int16_t version;
};

static ls_err fill_struct(struct filler *r, const struct ls_wire_struct *s, uint8_t *obj);

/* splitmix64 */
static uint64_t
fill_next(struct filler *r)
{
        uint64_t z = (*r->seed += 0x9e3779b97f4a7c15u);

        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
}

/* Small as a rule, now and then long enough for a length of two varint bytes. */
static size_t
fill_length(struct filler *r)
{
        uint64_t n = fill_next(r);

        return n % 16 == 0 ? n / 16 % 300 : n / 16 % 12;
}

static bool
fill_null(struct filler *r, const struct ls_wire_field *f)
{
        return r->version >= f->null_min && r->version <= f->null_max && fill_next(r) % 4 == 0;
}

static ls_err
fill_bytes(struct filler *r, const struct ls_wire_field *f, bool text, ls_span *ret)
{
        size_t n = fill_length(r);
        uint8_t *p;

        *ret = LS_SPAN_NULL;
        if (f->type != LS_WIRE_ARRAY && fill_null(r, f))
                return LS_OK;
        p = ls_arena_alloc(r->arena, n + 1);
        if (p == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < n; i++)
                p[i] = (uint8_t)(text ? 'a' + fill_next(r) % 26 : fill_next(r));
        *ret = ls_span_of(p, n);
        return LS_OK;
}

/* Any value, but often enough a small one, zero or -1. */
static int64_t
fill_int(struct filler *r)
{
        uint64_t v = fill_next(r);

        return v % 4 == 0 ? (int64_t)(v / 4 % 5) - 1 : (int64_t)fill_next(r);
}

static ls_err
fill_scalar(struct filler *r, const struct ls_wire_field *f, enum ls_wire_type type, uint8_t *at)
{
        ls_span bytes;

        switch (type) {
        case LS_WIRE_BOOL: *(bool *)at = fill_next(r) & 1; break;
        case LS_WIRE_INT8: *(int8_t *)at = (int8_t)fill_int(r); break;
        case LS_WIRE_INT16:
        case LS_WIRE_UINT16: *(int16_t *)at = (int16_t)fill_int(r); break;
        case LS_WIRE_INT32: *(int32_t *)at = (int32_t)fill_int(r); break;
        case LS_WIRE_INT64: *(int64_t *)at = fill_int(r); break;
        case LS_WIRE_UUID:
                for (size_t i = 0; i < sizeof(ls_uuid); i++)
                        at[i] = (uint8_t)fill_next(r);
                break;
        case LS_WIRE_STRING:
        case LS_WIRE_BYTES: return fill_bytes(r, f, type == LS_WIRE_STRING, (ls_span *)at);
        case LS_WIRE_RECORDS:
                LS_TRY(fill_bytes(r, f, false, &bytes));
                *(struct ls_wire_records *)at =
                        (struct ls_wire_records){ bytes.ptr, bytes.len, NULL };
                break;
        case LS_WIRE_STRUCT:
        case LS_WIRE_ARRAY: LS_ASSERT(!"a scalar"); break;
        }
        return LS_OK;
}

static ls_err
fill_array(struct filler *r, const struct ls_wire_field *f, struct ls_wire_any_array *ret)
{
        size_t size = wire_elem_size(f), count = (size_t)(fill_next(r) % 4);
        uint8_t *item;

        *ret = (struct ls_wire_any_array){ NULL, 0 };
        if (fill_null(r, f))
                return LS_OK;
        item = ls_arena_array(r->arena, count + 1, size);
        if (item == NULL)
                return LS_TOO_LARGE;
        *ret = (struct ls_wire_any_array){ item, (uint32_t)count };
        for (size_t i = 0; i < count; i++, item += size)
                LS_TRY(f->elem == LS_WIRE_STRUCT ? fill_struct(r, f->sub, item)
                                                 : fill_scalar(r, f, f->elem, item));
        return LS_OK;
}

static ls_err
fill_field(struct filler *r, const struct ls_wire_field *f, uint8_t *at)
{
        void *p;

        if (f->type == LS_WIRE_ARRAY)
                return fill_array(r, f, (struct ls_wire_any_array *)at);
        if (f->type != LS_WIRE_STRUCT)
                return fill_scalar(r, f, f->type, at);
        if (!(f->flags & LS_WIRE_POINTER))
                return fill_struct(r, f->sub, at);
        if (fill_null(r, f))
                return LS_OK;
        p = ls_arena_array(r->arena, 1, f->sub->size);
        if (p == NULL)
                return LS_TOO_LARGE;
        *(void **)at = p;
        return fill_struct(r, f->sub, p);
}

static ls_err
fill_struct(struct filler *r, const struct ls_wire_struct *s, uint8_t *obj)
{
        ls_wire_init(s, obj);
        for (size_t i = 0; i < s->field_count; i++) {
                const struct ls_wire_field *f = &s->fields[i];

                if (r->version < f->version_min || r->version > f->version_max)
                        continue;
                if (f->tag >= 0 && fill_next(r) % 2 == 0)
                        continue;
                LS_TRY(fill_field(r, f, obj + f->offset));
        }
        return LS_OK;
}

ls_err
ls_wire_random(const struct ls_wire_message *m, int16_t version, uint64_t *seed,
               struct ls_arena *arena, void *obj)
{
        struct filler r = { arena, seed, version };

        LS_ASSERT(version >= m->version_min && version <= m->version_max);
        return fill_struct(&r, m->root, obj);
}
