/* iceberg/value.c - single values: binary and JSON forms, order, hash (Appendices B and D). */
#include "formats/iceberg/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/uuid.h"
#include "formats/iceberg/civil_int.h"

/* ---- UTF-8 ---------------------------------------------------------------------------------- */

/* Length of the strict UTF-8 sequence at `p`, or 0. */
size_t
ls_iceberg_utf8_next(const uint8_t *p, size_t left, uint32_t *ret_code)
{
        static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
        size_t n;
        uint32_t c;

        if (left == 0)
                return 0;
        if (p[0] < 0x80) {
                *ret_code = p[0];
                return 1;
        }
        if (p[0] < 0xc2 || p[0] > 0xf4)
                return 0;
        n = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
        if (left < n)
                return 0;
        c = p[0] & (0x7fu >> n);
        for (size_t i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                c = c << 6 | (p[i] & 0x3f);
        }
        if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
                return 0;
        *ret_code = c;
        return n;
}

bool
ls_iceberg_utf8_valid(ls_span s)
{
        size_t at = 0;

        while (at < s.len) {
                uint32_t code;
                size_t n = ls_iceberg_utf8_next(s.ptr + at, s.len - at, &code);

                if (n == 0)
                        return false;
                at += n;
        }
        return true;
}

/* ---- binary form ---------------------------------------------------------------------------- */

/* The fewest bytes of big-endian two's complement; `ret` has 16. */
static size_t
decimal_bytes(__int128 v, uint8_t ret[16])
{
        uint8_t all[16];
        size_t skip = 0;

        for (int i = 0; i < 16; i++)
                all[15 - i] = (uint8_t)((unsigned __int128)v >> (8 * i));
        while (skip < 15 && ((all[skip] == 0 && all[skip + 1] < 0x80) ||
                             (all[skip] == 0xff && all[skip + 1] >= 0x80)))
                skip++;
        memcpy(ret, all + skip, 16 - skip);
        return 16 - skip;
}

static void
float_put(float v, struct ls_buf *out)
{
        uint32_t bits;

        memcpy(&bits, &v, 4);
        ls_buf_put_le32(out, bits);
}

static void
double_put(double v, struct ls_buf *out)
{
        uint64_t bits;

        memcpy(&bits, &v, 8);
        ls_buf_put_le64(out, bits);
}

void
ls_iceberg_value_put(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
                     struct ls_buf *out)
{
        uint8_t bytes[16];

        LS_ASSERT(!v->null);
        switch (t->kind) {
        case LS_ICEBERG_BOOLEAN: ls_buf_put_u8(out, v->i != 0); return;
        case LS_ICEBERG_INT:
        case LS_ICEBERG_DATE: ls_buf_put_le32(out, (uint32_t)v->i); return;
        case LS_ICEBERG_LONG:
        case LS_ICEBERG_TIME:
        case LS_ICEBERG_TIMESTAMP:
        case LS_ICEBERG_TIMESTAMPTZ:
        case LS_ICEBERG_TIMESTAMP_NS:
        case LS_ICEBERG_TIMESTAMPTZ_NS: ls_buf_put_le64(out, (uint64_t)v->i); return;
        case LS_ICEBERG_FLOAT: float_put((float)v->d, out); return;
        case LS_ICEBERG_DOUBLE: double_put(v->d, out); return;
        case LS_ICEBERG_DECIMAL: ls_buf_put(out, bytes, decimal_bytes(v->dec, bytes)); return;
        case LS_ICEBERG_STRING:
        case LS_ICEBERG_UUID:
        case LS_ICEBERG_FIXED:
        case LS_ICEBERG_BINARY: ls_buf_put_span(out, v->bytes); return;
        case LS_ICEBERG_UNKNOWN:
        case LS_ICEBERG_VARIANT:
        case LS_ICEBERG_STRUCT:
        case LS_ICEBERG_LIST:
        case LS_ICEBERG_MAP: break;
        }
        LS_ASSERT(false); /* a type without a single-value form */
}

static bool
get_floating(const struct ls_iceberg_type *t, ls_span s, struct ls_iceberg_value *ret)
{
        if (s.len == 4) {
                uint32_t bits = ls_get_le32(s.ptr);
                float f;

                memcpy(&f, &bits, 4);
                *ret = ls_iceberg_double((double)f);
                return true;
        }
        if (s.len == 8 && t->kind == LS_ICEBERG_DOUBLE) {
                uint64_t bits = ls_get_le64(s.ptr);
                double d;

                memcpy(&d, &bits, 8);
                *ret = ls_iceberg_double(d);
                return true;
        }
        return false;
}

static bool
get_integer(const struct ls_iceberg_type *t, ls_span s, struct ls_iceberg_value *ret)
{
        bool narrow = t->kind == LS_ICEBERG_INT || t->kind == LS_ICEBERG_DATE;

        if (s.len == 4 && (narrow || t->kind == LS_ICEBERG_LONG)) {
                *ret = ls_iceberg_int((int32_t)ls_get_le32(s.ptr));
                return true;
        }
        if (s.len != 8 || narrow)
                return false;
        *ret = ls_iceberg_int((int64_t)ls_get_le64(s.ptr));
        return true;
}

bool
ls_iceberg_decimal_get(ls_span s, __int128 *ret)
{
        unsigned __int128 v;

        if (s.len == 0 || s.len > 16)
                return false;
        v = s.ptr[0] & 0x80 ? ~(unsigned __int128)0 : 0;
        for (size_t i = 0; i < s.len; i++)
                v = v << 8 | s.ptr[i];
        *ret = (__int128)v;
        return true;
}

ls_err
ls_iceberg_value_get(const struct ls_iceberg_type *t, ls_span s, struct ls_iceberg_value *ret_value)
{
        struct ls_iceberg_value v = ls_iceberg_bytes(s);
        bool good = false;

        switch (t->kind) {
        case LS_ICEBERG_BOOLEAN:
                good = s.len == 1;
                v = ls_iceberg_int(good && s.ptr[0] != 0);
                break;
        case LS_ICEBERG_INT:
        case LS_ICEBERG_DATE:
        case LS_ICEBERG_LONG:
        case LS_ICEBERG_TIME:
        case LS_ICEBERG_TIMESTAMP:
        case LS_ICEBERG_TIMESTAMPTZ:
        case LS_ICEBERG_TIMESTAMP_NS:
        case LS_ICEBERG_TIMESTAMPTZ_NS: good = get_integer(t, s, &v); break;
        case LS_ICEBERG_FLOAT:
        case LS_ICEBERG_DOUBLE: good = get_floating(t, s, &v); break;
        case LS_ICEBERG_DECIMAL: {
                __int128 unscaled = 0;

                good = ls_iceberg_decimal_get(s, &unscaled);
                v = ls_iceberg_decimal(unscaled);
                break;
        }
        case LS_ICEBERG_STRING: good = ls_iceberg_utf8_valid(s); break;
        case LS_ICEBERG_UUID: good = s.len == 16; break;
        case LS_ICEBERG_FIXED: /* a bound may be a cut one */
        case LS_ICEBERG_BINARY: good = true; break;
        case LS_ICEBERG_UNKNOWN:
        case LS_ICEBERG_VARIANT:
        case LS_ICEBERG_STRUCT:
        case LS_ICEBERG_LIST:
        case LS_ICEBERG_MAP: break;
        }
        if (!good)
                return LS_CORRUPT;
        *ret_value = v;
        return LS_OK;
}

/* ---- text forms ----------------------------------------------------------------------------- */

void
ls_iceberg_date_print(int64_t days, struct ls_buf *out)
{
        struct civil c = civil_of(days);

        ls_buf_printf(out, "%s%04lld-%02d-%02d", c.year < 0 ? "-" : "",
                      (long long)(c.year < 0 ? -c.year : c.year), c.month, c.day);
}

/* Time of day in units of which `per_second` make a second (10^digits). */
static void
time_print(int64_t units, int64_t per_second, int digits, struct ls_buf *out)
{
        int64_t seconds = units / per_second;

        ls_buf_printf(out, "%02d:%02d:%02d.%0*lld", (int)(seconds / 3600), (int)(seconds / 60 % 60),
                      (int)(seconds % 60), digits, (long long)(units % per_second));
}

static void
timestamp_print(const struct ls_iceberg_type *t, int64_t units, struct ls_buf *out)
{
        bool nanos = t->kind == LS_ICEBERG_TIMESTAMP_NS || t->kind == LS_ICEBERG_TIMESTAMPTZ_NS;
        int64_t per_second = nanos ? 1000000000 : 1000000;
        int64_t days = floor_div(units, 86400 * per_second);

        ls_iceberg_date_print(days, out);
        ls_buf_put_u8(out, 'T');
        time_print(units - days * 86400 * per_second, per_second, nanos ? 9 : 6, out);
        if (t->kind == LS_ICEBERG_TIMESTAMPTZ || t->kind == LS_ICEBERG_TIMESTAMPTZ_NS)
                ls_buf_put_text(out, "+00:00");
}

static void
decimal_print(__int128 v, int32_t scale, struct ls_buf *out)
{
        unsigned __int128 u = v < 0 ? 0 - (unsigned __int128)v : (unsigned __int128)v;
        char digits[48]; /* 39 digits of 128 bits, or the scale and a zero before it */
        int at = (int)sizeof digits, count = 0;

        while (u > 0 || count <= scale) {
                if (count == scale && scale > 0)
                        digits[--at] = '.';
                digits[--at] = (char)('0' + (int)(u % 10));
                u /= 10;
                count++;
        }
        if (v < 0)
                digits[--at] = '-';
        ls_buf_put(out, digits + at, sizeof digits - (size_t)at);
}

static void
hex_print(ls_span s, struct ls_buf *out)
{
        for (size_t i = 0; i < s.len; i++)
                ls_buf_printf(out, "%02x", s.ptr[i]);
}

static void
json_string_print(ls_span s, struct ls_buf *out)
{
        ls_buf_put_u8(out, '"');
        for (size_t i = 0; i < s.len; i++) {
                if (s.ptr[i] == '"' || s.ptr[i] == '\\')
                        ls_buf_put_u8(out, '\\');
                if (s.ptr[i] < 0x20)
                        ls_buf_printf(out, "\\u%04x", s.ptr[i]);
                else
                        ls_buf_put_u8(out, s.ptr[i]);
        }
        ls_buf_put_u8(out, '"');
}

/* The shortest text that reads back as the same number. */
static void
floating_print(const struct ls_iceberg_type *t, double d, struct ls_buf *out)
{
        char text[40];

        for (int digits = 1; digits <= 17; digits++) {
                double back;

                snprintf(text, sizeof text, "%.*g", digits, d);
                back = strtod(text, NULL);
                if (t->kind == LS_ICEBERG_FLOAT ? (float)back == (float)d : back == d)
                        break;
        }
        ls_buf_put_text(out, text);
        if (strpbrk(text, ".en") == NULL) /* not inf, nan, 1e5, 1.5 */
                ls_buf_put_text(out, ".0");
}

/* The text without quotes; strings as they are. */
static void
value_text(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v, struct ls_buf *out)
{
        char uuid[LS_UUID_TEXT_BYTES];
        ls_uuid id;

        switch (t->kind) {
        case LS_ICEBERG_BOOLEAN: ls_buf_put_text(out, v->i ? "true" : "false"); return;
        case LS_ICEBERG_INT:
        case LS_ICEBERG_LONG: ls_buf_printf(out, "%lld", (long long)v->i); return;
        case LS_ICEBERG_FLOAT:
        case LS_ICEBERG_DOUBLE: floating_print(t, v->d, out); return;
        case LS_ICEBERG_DECIMAL: decimal_print(v->dec, t->scale, out); return;
        case LS_ICEBERG_DATE: ls_iceberg_date_print(v->i, out); return;
        case LS_ICEBERG_TIME: time_print(v->i, 1000000, 6, out); return;
        case LS_ICEBERG_TIMESTAMP:
        case LS_ICEBERG_TIMESTAMPTZ:
        case LS_ICEBERG_TIMESTAMP_NS:
        case LS_ICEBERG_TIMESTAMPTZ_NS: timestamp_print(t, v->i, out); return;
        case LS_ICEBERG_STRING: ls_buf_put_span(out, v->bytes); return;
        case LS_ICEBERG_UUID:
                LS_ASSERT(v->bytes.len == 16);
                memcpy(id.bytes, v->bytes.ptr, 16);
                ls_uuid_text(id, uuid);
                ls_buf_put_text(out, uuid);
                return;
        case LS_ICEBERG_FIXED:
        case LS_ICEBERG_BINARY: hex_print(v->bytes, out); return;
        case LS_ICEBERG_UNKNOWN:
        case LS_ICEBERG_VARIANT:
        case LS_ICEBERG_STRUCT:
        case LS_ICEBERG_LIST:
        case LS_ICEBERG_MAP: ls_buf_put_text(out, "null"); return;
        }
}

void
ls_iceberg_value_json(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
                      struct ls_buf *out)
{
        bool floating = t->kind == LS_ICEBERG_FLOAT || t->kind == LS_ICEBERG_DOUBLE;

        if (v->null || (floating && !isfinite(v->d))) { /* JSON has no such number */
                ls_buf_put_text(out, "null");
        } else if (t->kind == LS_ICEBERG_STRING) {
                json_string_print(v->bytes, out);
        } else if (floating || t->kind < LS_ICEBERG_FLOAT) {
                value_text(t, v, out);
        } else {
                ls_buf_put_u8(out, '"');
                value_text(t, v, out);
                ls_buf_put_u8(out, '"');
        }
}

/* Year, month and hour in words of the calendar; the rest as it is. */
static void
path_text(const struct ls_iceberg_transform *tr, const struct ls_iceberg_type *t,
          const struct ls_iceberg_value *v, struct ls_buf *out)
{
        if (v->null) {
                ls_buf_put_text(out, "null");
        } else if (tr->kind == LS_ICEBERG_YEAR) {
                ls_buf_printf(out, "%lld", (long long)(v->i + 1970));
        } else if (tr->kind == LS_ICEBERG_MONTH) {
                int64_t year = floor_div(v->i, 12);

                ls_buf_printf(out, "%04lld-%02d", (long long)(year + 1970),
                              (int)(v->i - year * 12 + 1));
        } else if (tr->kind == LS_ICEBERG_HOUR) {
                int64_t day = floor_div(v->i, 24);

                ls_iceberg_date_print(day, out);
                ls_buf_printf(out, "-%02d", (int)(v->i - day * 24));
        } else {
                value_text(t, v, out);
        }
}

void
ls_iceberg_value_path(const struct ls_iceberg_transform *tr, const struct ls_iceberg_type *t,
                      const struct ls_iceberg_value *v, struct ls_buf *out)
{
        struct ls_buf text;

        ls_buf_init(&text, out->max);
        path_text(tr, t, v, &text);
        for (size_t i = 0; i < text.len; i++) {
                uint8_t c = text.ptr[i];

                if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                    c == '-' || c == '_' || (c == '.' && i > 0))
                        ls_buf_put_u8(out, c);
                else
                        ls_buf_printf(out, "%%%02X", c);
        }
        ls_buf_done(&text);
}

/* ---- order ---------------------------------------------------------------------------------- */

bool
ls_iceberg_value_is_nan(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v)
{
        return !v->null && (t->kind == LS_ICEBERG_FLOAT || t->kind == LS_ICEBERG_DOUBLE) &&
               isnan(v->d);
}

static int
floating_cmp(double a, double b)
{
        bool a_nan = isnan(a), b_nan = isnan(b);

        if (a_nan || b_nan)
                return a_nan - b_nan;
        if (a == 0 && b == 0)
                return !signbit(a) - !signbit(b);
        return (a > b) - (a < b);
}

int
ls_iceberg_value_cmp(const struct ls_iceberg_type *t, const struct ls_iceberg_value *a,
                     const struct ls_iceberg_value *b)
{
        if (a->null || b->null)
                return b->null - a->null;
        if (t->kind == LS_ICEBERG_FLOAT || t->kind == LS_ICEBERG_DOUBLE)
                return floating_cmp(a->d, b->d);
        if (t->kind == LS_ICEBERG_DECIMAL)
                return (a->dec > b->dec) - (a->dec < b->dec);
        if (t->kind == LS_ICEBERG_STRING || t->kind == LS_ICEBERG_UUID ||
            t->kind == LS_ICEBERG_FIXED || t->kind == LS_ICEBERG_BINARY)
                return ls_span_cmp(a->bytes, b->bytes);
        return (a->i > b->i) - (a->i < b->i);
}

/* ---- hash ----------------------------------------------------------------------------------- */

static uint32_t
rotl(uint32_t x, int r)
{
        return x << r | x >> (32 - r);
}

/* MurmurHash3 x86 32, seed 0 (public domain algorithm of Austin Appleby). */
uint32_t
ls_iceberg_murmur3(ls_span s)
{
        size_t blocks = s.len / 4;
        uint32_t h = 0, k = 0;

        for (size_t i = 0; i < blocks; i++) {
                h ^= rotl(ls_get_le32(s.ptr + 4 * i) * 0xcc9e2d51u, 15) * 0x1b873593u;
                h = rotl(h, 13) * 5 + 0xe6546b64u;
        }
        for (size_t i = s.len; i > blocks * 4; i--)
                k = k << 8 | s.ptr[i - 1];
        if (s.len > blocks * 4)
                h ^= rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u;
        h ^= (uint32_t)s.len;
        h = (h ^ h >> 16) * 0x85ebca6bu;
        h = (h ^ h >> 13) * 0xc2b2ae35u;
        return h ^ h >> 16;
}

bool
ls_iceberg_value_hash(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
                      uint32_t *ret_hash)
{
        uint8_t bytes[16];

        if (v->null)
                return false;
        switch (t->kind) {
        case LS_ICEBERG_INT: /* as a long, so that promotion keeps the hash */
        case LS_ICEBERG_LONG:
        case LS_ICEBERG_DATE:
        case LS_ICEBERG_TIME:
        case LS_ICEBERG_TIMESTAMP:
        case LS_ICEBERG_TIMESTAMPTZ:
        case LS_ICEBERG_TIMESTAMP_NS:
        case LS_ICEBERG_TIMESTAMPTZ_NS:
                memcpy(bytes, &v->i, 8);
                *ret_hash = ls_iceberg_murmur3(ls_span_of(bytes, 8));
                return true;
        case LS_ICEBERG_DECIMAL:
                *ret_hash = ls_iceberg_murmur3(ls_span_of(bytes, decimal_bytes(v->dec, bytes)));
                return true;
        case LS_ICEBERG_STRING:
        case LS_ICEBERG_UUID:
        case LS_ICEBERG_FIXED:
        case LS_ICEBERG_BINARY: *ret_hash = ls_iceberg_murmur3(v->bytes); return true;
        case LS_ICEBERG_BOOLEAN:
        case LS_ICEBERG_FLOAT:
        case LS_ICEBERG_DOUBLE:
        case LS_ICEBERG_UNKNOWN:
        case LS_ICEBERG_VARIANT:
        case LS_ICEBERG_STRUCT:
        case LS_ICEBERG_LIST:
        case LS_ICEBERG_MAP: return false;
        }
        return false;
}
