/* iceberg/transform.c - partition transforms and bounds. */
#include <math.h>

#include "base/assert.h"
#include "base/mem.h"
#include "formats/iceberg/civil_int.h"
#include "formats/iceberg/limits.h"
#include "formats/iceberg/value.h"

#define US_PER_HOUR INT64_C(3600000000)
#define NS_PER_HOUR (US_PER_HOUR * 1000)

static bool
is_timestamp(enum ls_iceberg_kind kind)
{
        return kind == LS_ICEBERG_TIMESTAMP || kind == LS_ICEBERG_TIMESTAMPTZ ||
               kind == LS_ICEBERG_TIMESTAMP_NS || kind == LS_ICEBERG_TIMESTAMPTZ_NS;
}

static bool
is_hashed(enum ls_iceberg_kind kind)
{
        return ls_iceberg_is_primitive(&(struct ls_iceberg_type){ .kind = kind }) &&
               kind != LS_ICEBERG_BOOLEAN && kind != LS_ICEBERG_FLOAT &&
               kind != LS_ICEBERG_DOUBLE && kind != LS_ICEBERG_UNKNOWN;
}

bool
ls_iceberg_transform_takes(const struct ls_iceberg_transform *tr,
                           const struct ls_iceberg_type *source)
{
        enum ls_iceberg_kind kind = source->kind;

        switch (tr->kind) {
        case LS_ICEBERG_IDENTITY:
        case LS_ICEBERG_VOID: return ls_iceberg_is_primitive(source);
        case LS_ICEBERG_BUCKET: return is_hashed(kind);
        case LS_ICEBERG_TRUNCATE:
                return kind == LS_ICEBERG_INT || kind == LS_ICEBERG_LONG ||
                       kind == LS_ICEBERG_DECIMAL || kind == LS_ICEBERG_STRING ||
                       kind == LS_ICEBERG_BINARY;
        case LS_ICEBERG_YEAR:
        case LS_ICEBERG_MONTH:
        case LS_ICEBERG_DAY: return kind == LS_ICEBERG_DATE || is_timestamp(kind);
        case LS_ICEBERG_HOUR: return is_timestamp(kind);
        case LS_ICEBERG_OTHER: return false;
        }
        return false;
}

struct ls_iceberg_type
ls_iceberg_transform_result(const struct ls_iceberg_transform *tr,
                            const struct ls_iceberg_type *source)
{
        switch (tr->kind) {
        case LS_ICEBERG_BUCKET:
        case LS_ICEBERG_YEAR:
        case LS_ICEBERG_MONTH:
        case LS_ICEBERG_HOUR: return (struct ls_iceberg_type){ .kind = LS_ICEBERG_INT };
        case LS_ICEBERG_DAY: /* an int to the specification, a date to the reference: same bytes */
                return (struct ls_iceberg_type){ .kind = LS_ICEBERG_DATE };
        case LS_ICEBERG_IDENTITY:
        case LS_ICEBERG_TRUNCATE:
        case LS_ICEBERG_VOID:
        case LS_ICEBERG_OTHER: break;
        }
        return *source;
}

ls_err
ls_iceberg_spec_types(const struct ls_iceberg_spec *spec, const struct ls_iceberg_schema *schema,
                      struct ls_arena *arena, const struct ls_iceberg_type **ret_types)
{
        struct ls_iceberg_type *types =
                ls_arena_array(arena, LS_MAX(spec->field_count, 1u), sizeof *types);

        if (types == NULL)
                return LS_TOO_LARGE;
        for (uint32_t i = 0; i < spec->field_count; i++) {
                const struct ls_iceberg_partition_field *f = &spec->fields[i];
                const struct ls_iceberg_field *source =
                        ls_iceberg_field_by_id(schema, f->source_id);

                types[i].kind = LS_ICEBERG_UNKNOWN;
                if (source != NULL && ls_iceberg_transform_takes(&f->transform, &source->type))
                        types[i] = ls_iceberg_transform_result(&f->transform, &source->type);
        }
        *ret_types = types;
        return LS_OK;
}

/* ---- transforms ----------------------------------------------------------------------------- */

/* Results are 32 bits; a time of the year 200,000 must not come out as one of antiquity. */
static struct ls_iceberg_value
int_clamped(int64_t v)
{
        return ls_iceberg_int(LS_MIN(LS_MAX(v, INT32_MIN), INT32_MAX));
}

static int64_t
hours_of(const struct ls_iceberg_type *t, int64_t v)
{
        bool nanos = t->kind == LS_ICEBERG_TIMESTAMP_NS || t->kind == LS_ICEBERG_TIMESTAMPTZ_NS;

        return floor_div(v, nanos ? NS_PER_HOUR : US_PER_HOUR);
}

static int64_t
days_of(const struct ls_iceberg_type *t, int64_t v)
{
        return t->kind == LS_ICEBERG_DATE ? v : floor_div(hours_of(t, v), 24);
}

static ls_span
text_prefix(ls_span s, int64_t code_points)
{
        size_t at = 0;

        /* Sequences that are no UTF-8 count as one each byte. */
        for (int64_t i = 0; i < code_points && at < s.len; i++) {
                uint32_t code;
                size_t n = ls_iceberg_utf8_next(s.ptr + at, s.len - at, &code);

                at += n > 0 ? n : 1;
        }
        return ls_span_of(s.ptr, at);
}

static struct ls_iceberg_value
truncate(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v, int32_t width)
{
        int64_t rest;

        if (t->kind == LS_ICEBERG_STRING)
                return ls_iceberg_bytes(text_prefix(v->bytes, width));
        if (t->kind == LS_ICEBERG_BINARY)
                return ls_iceberg_bytes(
                        ls_span_of(v->bytes.ptr, LS_MIN(v->bytes.len, (size_t)width)));
        if (t->kind == LS_ICEBERG_DECIMAL) {
                __int128 dec_rest = v->dec % width;

                if (dec_rest < 0)
                        dec_rest += width;
                return ls_iceberg_decimal(
                        (__int128)((unsigned __int128)v->dec - (unsigned __int128)dec_rest));
        }
        rest = v->i % width;
        if (rest < 0)
                rest += width;
        /* At the least value it wraps round, as in the reference. */
        rest = (int64_t)((uint64_t)v->i - (uint64_t)rest);
        return ls_iceberg_int(t->kind == LS_ICEBERG_INT ? (int32_t)rest : rest);
}

struct ls_iceberg_value
ls_iceberg_transform_apply(const struct ls_iceberg_transform *tr,
                           const struct ls_iceberg_type *source, const struct ls_iceberg_value *v)
{
        struct civil c;
        uint32_t hash;

        LS_ASSERT(ls_iceberg_transform_takes(tr, source));
        if (v->null)
                return LS_ICEBERG_NULL;
        switch (tr->kind) {
        case LS_ICEBERG_IDENTITY: return *v;
        case LS_ICEBERG_VOID: return LS_ICEBERG_NULL;
        case LS_ICEBERG_BUCKET:
                if (!ls_iceberg_value_hash(source, v, &hash))
                        return LS_ICEBERG_NULL;
                return ls_iceberg_int((int64_t)(hash & INT32_MAX) % tr->param);
        case LS_ICEBERG_TRUNCATE: return truncate(source, v, tr->param);
        case LS_ICEBERG_YEAR:
                c = civil_of(days_of(source, v->i));
                return int_clamped(c.year - 1970);
        case LS_ICEBERG_MONTH:
                c = civil_of(days_of(source, v->i));
                return int_clamped((c.year - 1970) * 12 + c.month - 1);
        case LS_ICEBERG_DAY: return int_clamped(days_of(source, v->i));
        case LS_ICEBERG_HOUR: return int_clamped(hours_of(source, v->i));
        case LS_ICEBERG_OTHER: break;
        }
        return LS_ICEBERG_NULL;
}

/* ---- bounds --------------------------------------------------------------------------------- */

static bool
span_keep(struct ls_arena *arena, ls_span s, ls_span *ret)
{
        uint8_t *copy = ls_arena_alloc(arena, s.len > 0 ? s.len : 1);

        if (copy == NULL)
                return false;
        if (s.len > 0)
                memcpy(copy, s.ptr, s.len);
        *ret = ls_span_of(copy, s.len);
        return true;
}

/* The binary form of what is not cut. */
static bool
value_keep(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
           struct ls_arena *arena, ls_span *ret)
{
        struct ls_buf b;
        bool kept;

        ls_buf_init(&b, 64);
        ls_iceberg_value_put(t, v, &b);
        kept = !ls_buf_failed(&b) && span_keep(arena, ls_buf_span(&b), ret);
        ls_buf_done(&b);
        return kept;
}

static bool
is_cut(enum ls_iceberg_kind kind)
{
        return kind == LS_ICEBERG_STRING || kind == LS_ICEBERG_BINARY || kind == LS_ICEBERG_FIXED;
}

/* False: no bound of this value may be written. */
static bool
has_bound(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v)
{
        return !v->null && ls_iceberg_is_primitive(t) && t->kind != LS_ICEBERG_UNKNOWN &&
               !ls_iceberg_value_is_nan(t, v) &&
               (t->kind != LS_ICEBERG_STRING || ls_iceberg_utf8_valid(v->bytes));
}

static ls_span
cut(const struct ls_iceberg_type *t, ls_span s)
{
        if (t->kind == LS_ICEBERG_STRING)
                return text_prefix(s, LS_ICEBERG_BOUND_LENGTH);
        return ls_span_of(s.ptr, LS_MIN(s.len, LS_ICEBERG_BOUND_LENGTH));
}

bool
ls_iceberg_bound_lower(const struct ls_iceberg_type *t, const struct ls_iceberg_value *min,
                       struct ls_arena *arena, ls_span *ret)
{
        struct ls_iceberg_value v = *min;

        if (!has_bound(t, min))
                return false;
        if (is_cut(t->kind))
                return span_keep(arena, cut(t, v.bytes), ret);
        if ((t->kind == LS_ICEBERG_FLOAT || t->kind == LS_ICEBERG_DOUBLE) && v.d == 0)
                v.d = -0.0;
        return value_keep(t, &v, arena, ret);
}

/* The least byte string above every one that starts with `s` (writable), in place. */
static bool
bytes_increase(uint8_t *s, size_t *io_len)
{
        for (; *io_len > 0; (*io_len)--) {
                if (s[*io_len - 1] == 0xff)
                        continue; /* cannot grow: the one before does */
                s[*io_len - 1]++;
                return true;
        }
        return false;
}

static size_t
utf8_put(uint8_t *to, uint32_t c)
{
        if (c < 0x80) {
                to[0] = (uint8_t)c;
                return 1;
        }
        if (c < 0x800) {
                to[0] = (uint8_t)(0xc0 | c >> 6);
                to[1] = (uint8_t)(0x80 | (c & 0x3f));
                return 2;
        }
        if (c < 0x10000) {
                to[0] = (uint8_t)(0xe0 | c >> 12);
                to[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
                to[2] = (uint8_t)(0x80 | (c & 0x3f));
                return 3;
        }
        to[0] = (uint8_t)(0xf0 | c >> 18);
        to[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
        to[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
        to[3] = (uint8_t)(0x80 | (c & 0x3f));
        return 4;
}

/* The same by code points. `s` has room for one byte more than *io_len. */
static bool
text_increase(uint8_t *s, size_t *io_len)
{
        while (*io_len > 0) {
                size_t start = *io_len - 1;
                uint32_t code = 0;

                while (start > 0 && (s[start] & 0xc0) == 0x80)
                        start--;
                if (ls_iceberg_utf8_next(s + start, *io_len - start, &code) == 0)
                        return false;
                *io_len = start;
                if (code == 0x10ffff)
                        continue;
                code = code == 0xd7ff ? 0xe000 : code + 1; /* surrogates are no characters */
                *io_len += utf8_put(s + start, code);
                return true;
        }
        return false;
}

bool
ls_iceberg_bound_upper(const struct ls_iceberg_type *t, const struct ls_iceberg_value *max,
                       struct ls_arena *arena, ls_span *ret)
{
        struct ls_iceberg_value v = *max;
        uint8_t *copy;
        size_t len;
        ls_span s;

        if (!has_bound(t, max))
                return false;
        if (!is_cut(t->kind)) {
                if ((t->kind == LS_ICEBERG_FLOAT || t->kind == LS_ICEBERG_DOUBLE) && v.d == 0)
                        v.d = 0.0;
                return value_keep(t, &v, arena, ret);
        }
        s = cut(t, v.bytes);
        if (s.len == v.bytes.len)
                return span_keep(arena, s, ret);
        copy = ls_arena_alloc(arena, s.len + 4);
        if (copy == NULL)
                return false;
        memcpy(copy, s.ptr, s.len);
        len = s.len;
        if (t->kind == LS_ICEBERG_STRING ? !text_increase(copy, &len) : !bytes_increase(copy, &len))
                return false;
        *ret = ls_span_of(copy, len);
        return true;
}
