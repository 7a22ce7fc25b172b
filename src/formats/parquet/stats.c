/* formats/parquet/stats.c - see stats.h. */
#include "formats/parquet/stats.h"

#include <math.h>

#include "base/assert.h"
#include "base/buf.h"

enum ls_stats_order
ls_stats_order(const struct ls_col_type *type)
{
        bool is_unsigned = type->logical == LS_COL_INT && !type->is_signed;

        switch (type->physical) {
        case LS_COL_BOOL: return LS_STATS_BOOL;
        case LS_COL_INT32: return is_unsigned ? LS_STATS_UNSIGNED32 : LS_STATS_SIGNED32;
        case LS_COL_INT64: return is_unsigned ? LS_STATS_UNSIGNED64 : LS_STATS_SIGNED64;
        case LS_COL_INT96: return LS_STATS_NONE;
        case LS_COL_FLOAT: return LS_STATS_FLOAT;
        case LS_COL_DOUBLE: return LS_STATS_DOUBLE;
        case LS_COL_BYTES:
                return type->logical == LS_COL_DECIMAL ? LS_STATS_BIG_ENDIAN : LS_STATS_BYTES;
        case LS_COL_FIXED:
                if (type->logical == LS_COL_FLOAT16)
                        return LS_STATS_NONE;
                return type->logical == LS_COL_DECIMAL ? LS_STATS_BIG_ENDIAN : LS_STATS_BYTES;
        }
        return LS_STATS_NONE;
}

/* Two's complement, big endian, of any lengths. */
static int
stats_compare_big_endian(ls_span a, ls_span b)
{
        int sign_a = a.len > 0 && a.ptr[0] & 0x80 ? -1 : 0;
        int sign_b = b.len > 0 && b.ptr[0] & 0x80 ? -1 : 0;
        size_t n = LS_MAX(a.len, b.len);

        if (sign_a != sign_b)
                return sign_a < sign_b ? -1 : 1;
        for (size_t i = 0; i < n; i++) {
                uint8_t x = i < n - a.len ? (uint8_t)sign_a : a.ptr[i - (n - a.len)];
                uint8_t y = i < n - b.len ? (uint8_t)sign_b : b.ptr[i - (n - b.len)];

                if (x != y)
                        return x < y ? -1 : 1;
        }
        return 0;
}

#define STATS_CMP(x, y) (((x) > (y)) - ((x) < (y)))

static int
stats_compare_float(ls_span a, ls_span b)
{
        float x, y;

        memcpy(&x, a.ptr, sizeof x);
        memcpy(&y, b.ptr, sizeof y);
        return STATS_CMP(x, y);
}

static int
stats_compare_double(ls_span a, ls_span b)
{
        double x, y;

        memcpy(&x, a.ptr, sizeof x);
        memcpy(&y, b.ptr, sizeof y);
        return STATS_CMP(x, y);
}

int
ls_stats_compare(enum ls_stats_order order, ls_span a, ls_span b)
{
        switch (order) {
        case LS_STATS_NONE: return 0;
        case LS_STATS_BOOL: return STATS_CMP(a.ptr[0], b.ptr[0]);
        case LS_STATS_SIGNED32:
                return STATS_CMP((int32_t)ls_get_le32(a.ptr), (int32_t)ls_get_le32(b.ptr));
        case LS_STATS_SIGNED64:
                return STATS_CMP((int64_t)ls_get_le64(a.ptr), (int64_t)ls_get_le64(b.ptr));
        case LS_STATS_UNSIGNED32: return STATS_CMP(ls_get_le32(a.ptr), ls_get_le32(b.ptr));
        case LS_STATS_UNSIGNED64: return STATS_CMP(ls_get_le64(a.ptr), ls_get_le64(b.ptr));
        case LS_STATS_FLOAT: return stats_compare_float(a, b);
        case LS_STATS_DOUBLE: return stats_compare_double(a, b);
        case LS_STATS_BYTES: return ls_span_cmp(a, b);
        case LS_STATS_BIG_ENDIAN: return stats_compare_big_endian(a, b);
        }
        return 0;
}

bool
ls_stats_is_nan(enum ls_stats_order order, ls_span value)
{
        float f;
        double d;

        if (order == LS_STATS_FLOAT && value.len == sizeof f) {
                memcpy(&f, value.ptr, sizeof f);
                return isnan(f);
        }
        if (order == LS_STATS_DOUBLE && value.len == sizeof d) {
                memcpy(&d, value.ptr, sizeof d);
                return isnan(d);
        }
        return false;
}

/* --- cutting ---------------------------------------------------------------------------------- */

/* Decodes the code point at p (< end): bytes taken, 0 when malformed. */
static unsigned
utf8_decode(const uint8_t *p, const uint8_t *end, uint32_t *ret_cp)
{
        unsigned n = p[0] < 0x80 ? 1 : p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc2 ? 2 : 0;
        static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
        uint32_t cp;

        if (n == 0 || p[0] > 0xf4 || (size_t)(end - p) < n)
                return 0;
        cp = n == 1 ? p[0] : p[0] & (0x7fu >> n);
        for (unsigned i = 1; i < n; i++) {
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
                cp = cp << 6 | (p[i] & 0x3f);
        }
        if (cp < least[n] || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
                return 0;
        *ret_cp = cp;
        return n;
}

static unsigned
utf8_encode(uint32_t cp, uint8_t ret_bytes[4])
{
        if (cp < 0x80) {
                ret_bytes[0] = (uint8_t)cp;
                return 1;
        }
        if (cp < 0x800) {
                ret_bytes[0] = (uint8_t)(0xc0 | cp >> 6);
                ret_bytes[1] = (uint8_t)(0x80 | (cp & 0x3f));
                return 2;
        }
        if (cp < 0x10000) {
                ret_bytes[0] = (uint8_t)(0xe0 | cp >> 12);
                ret_bytes[1] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
                ret_bytes[2] = (uint8_t)(0x80 | (cp & 0x3f));
                return 3;
        }
        ret_bytes[0] = (uint8_t)(0xf0 | cp >> 18);
        ret_bytes[1] = (uint8_t)(0x80 | (cp >> 12 & 0x3f));
        ret_bytes[2] = (uint8_t)(0x80 | (cp >> 6 & 0x3f));
        ret_bytes[3] = (uint8_t)(0x80 | (cp & 0x3f));
        return 4;
}

/* Bytes of the longest whole-code-point prefix within bytes_max; SIZE_MAX: malformed on the way. */
static size_t
utf8_prefix(ls_span value, size_t bytes_max)
{
        size_t at = 0;

        while (at < value.len) {
                uint32_t cp;
                unsigned n = utf8_decode(value.ptr + at, value.ptr + value.len, &cp);

                if (n == 0)
                        return SIZE_MAX;
                if (at + n > bytes_max)
                        break;
                at += n;
        }
        return at;
}

uint16_t
ls_stats_cut_lower(ls_span value, uint32_t bytes_max, bool utf8, uint8_t *out)
{
        size_t n = LS_MIN(value.len, bytes_max);

        if (utf8 && value.len > bytes_max) {
                size_t whole = utf8_prefix(value, bytes_max);

                n = whole == SIZE_MAX ? n : whole;
        }
        LS_ASSERT(n <= UINT16_MAX);
        if (n > 0)
                memcpy(out, value.ptr, n);
        return (uint16_t)n;
}

/* The smallest longer-prefix-free string above all that start with out[0..n), by code points. */
static size_t
utf8_increment(uint8_t *out, size_t n, size_t bytes_max)
{
        while (n > 0) {
                size_t start = n - 1;
                uint32_t cp = 0;
                uint8_t bytes[4];
                unsigned len;

                while (start > 0 && (out[start] & 0xc0) == 0x80)
                        start--;
                (void)utf8_decode(out + start, out + n, &cp);
                if (cp < 0x10ffff) {
                        cp = cp + 1 == 0xd800 ? 0xe000 : cp + 1;
                        len = utf8_encode(cp, bytes);
                        if (start + len <= bytes_max) {
                                memcpy(out + start, bytes, len);
                                return start + len;
                        }
                }
                n = start;
        }
        return 0;
}

bool
ls_stats_cut_upper(ls_span value, uint32_t bytes_max, bool utf8, uint8_t *out, uint16_t *ret_len)
{
        size_t n = LS_MIN(value.len, bytes_max);

        if (utf8) {
                n = utf8_prefix(value, bytes_max);
                if (n == SIZE_MAX)
                        return false;
        }
        if (n > 0)
                memcpy(out, value.ptr, n);
        if (n < value.len && utf8) {
                n = utf8_increment(out, n, bytes_max);
                if (n == 0)
                        return false;
        } else if (n < value.len) {
                while (n > 0 && out[n - 1] == 0xff)
                        n--;
                if (n == 0)
                        return false;
                out[n - 1]++;
        }
        *ret_len = (uint16_t)n;
        return true;
}

/* --- collecting ------------------------------------------------------------------------------- */

static void
stats_set(struct ls_stats *s, const void *min, const void *max, size_t bytes)
{
        memcpy(s->min, min, bytes);
        memcpy(s->max, max, bytes);
        s->min_len = s->max_len = (uint16_t)bytes;
        s->has_min = s->has_max = s->min_exact = s->max_exact = true;
}

#define STATS_MINMAX(ctype, array)                               \
        do {                                                     \
                const ctype *x_ = (const ctype *)(array) + from; \
                ctype min_ = x_[0], max_ = x_[0];                \
                                                                 \
                for (size_t i_ = 1; i_ < count; i_++) {          \
                        min_ = x_[i_] < min_ ? x_[i_] : min_;    \
                        max_ = x_[i_] > max_ ? x_[i_] : max_;    \
                }                                                \
                stats_set(ret, &min_, &max_, sizeof min_);       \
        } while (0)

/* NaN is no bound; a zero bound is the outer one of the two zeros, since readers disagree on which
 * is the smaller (B046). */
#define STATS_MINMAX_REAL(ctype, array)                                \
        do {                                                           \
                const ctype *x_ = (array) + from;                      \
                ctype min_ = (ctype)INFINITY, max_ = -(ctype)INFINITY; \
                uint64_t nans_ = 0;                                    \
                                                                       \
                for (size_t i_ = 0; i_ < count; i_++) {                \
                        nans_ += x_[i_] != x_[i_];                     \
                        min_ = x_[i_] < min_ ? x_[i_] : min_;          \
                        max_ = x_[i_] > max_ ? x_[i_] : max_;          \
                }                                                      \
                ret->nans = nans_;                                     \
                if (nans_ < count) {                                   \
                        min_ = min_ == 0 ? -(ctype)0 : min_;           \
                        max_ = max_ == 0 ? (ctype)0 : max_;            \
                        stats_set(ret, &min_, &max_, sizeof min_);     \
                }                                                      \
        } while (0)

/* Bounds from the extreme values, cut where they are too long. */
static void
stats_set_bytes(struct ls_stats *s, const struct ls_col_type *type, ls_span min, ls_span max,
                uint32_t bound_bytes)
{
        bool utf8 = type->logical == LS_COL_STRING || type->logical == LS_COL_ENUM ||
                    type->logical == LS_COL_JSON;
        bool whole = type->physical == LS_COL_FIXED || type->logical == LS_COL_DECIMAL;

        if (whole && (min.len > LS_STATS_BYTES_MAX || max.len > LS_STATS_BYTES_MAX)) {
                s->unbounded = true; /* a shortened number or fixed would be another value */
                return;
        }
        if (whole)
                bound_bytes = LS_STATS_BYTES_MAX;
        s->min_len = ls_stats_cut_lower(min, bound_bytes, utf8 && !whole, s->min);
        s->has_min = true;
        s->min_exact = s->min_len == min.len;
        s->has_max = ls_stats_cut_upper(max, bound_bytes, utf8 && !whole, s->max, &s->max_len);
        s->max_exact = s->has_max && max.len <= bound_bytes;
        s->unbounded = !s->has_max;
}

static void
stats_of_bytes(struct ls_stats *ret, const struct ls_vec *v, size_t from, size_t count,
               uint32_t bound_bytes)
{
        enum ls_stats_order order = ls_stats_order(&v->type);
        ls_span min = v->span[from], max = min;

        if (order == LS_STATS_BIG_ENDIAN) {
                for (size_t i = from + 1; i < from + count; i++) {
                        if (stats_compare_big_endian(v->span[i], min) < 0)
                                min = v->span[i];
                        if (stats_compare_big_endian(v->span[i], max) > 0)
                                max = v->span[i];
                }
        } else {
                for (size_t i = from + 1; i < from + count; i++) {
                        if (ls_span_cmp(v->span[i], min) < 0)
                                min = v->span[i];
                        else if (ls_span_cmp(v->span[i], max) > 0)
                                max = v->span[i];
                }
        }
        stats_set_bytes(ret, &v->type, min, max, bound_bytes);
}

static void
stats_of_fixed(struct ls_stats *ret, const struct ls_vec *v, size_t from, size_t count)
{
        enum ls_stats_order order = ls_stats_order(&v->type);
        size_t bytes = v->value_bytes;
        ls_span min = { v->u8 + from * bytes, bytes }, max = min;

        for (size_t i = from + 1; i < from + count; i++) {
                ls_span x = { v->u8 + i * bytes, bytes };

                if (ls_stats_compare(order, x, min) < 0)
                        min = x;
                if (ls_stats_compare(order, x, max) > 0)
                        max = x;
        }
        stats_set_bytes(ret, &v->type, min, max, LS_STATS_BYTES_MAX);
}

void
ls_stats_of(struct ls_stats *ret, const struct ls_vec *v, size_t from, size_t count, uint64_t nulls,
            uint32_t bound_bytes)
{
        LS_ASSERT(from + count <= v->count);
        LS_ASSERT(bound_bytes <= LS_STATS_BYTES_MAX);
        ret->nulls = nulls;
        ret->nans = 0;
        ret->has_min = ret->has_max = ret->min_exact = ret->max_exact = ret->unbounded = false;
        ret->min_len = ret->max_len = 0;
        if (count == 0)
                return;
        switch (ls_stats_order(&v->type)) {
        case LS_STATS_NONE: ret->unbounded = true; break;
        case LS_STATS_BOOL: STATS_MINMAX(uint8_t, v->u8); break;
        case LS_STATS_SIGNED32: STATS_MINMAX(int32_t, v->i32); break;
        case LS_STATS_SIGNED64: STATS_MINMAX(int64_t, v->i64); break;
        case LS_STATS_UNSIGNED32: STATS_MINMAX(uint32_t, v->i32); break;
        case LS_STATS_UNSIGNED64: STATS_MINMAX(uint64_t, v->i64); break;
        case LS_STATS_FLOAT: STATS_MINMAX_REAL(float, v->f32); break;
        case LS_STATS_DOUBLE: STATS_MINMAX_REAL(double, v->f64); break;
        case LS_STATS_BYTES:
        case LS_STATS_BIG_ENDIAN:
                if (v->type.physical == LS_COL_FIXED)
                        stats_of_fixed(ret, v, from, count);
                else
                        stats_of_bytes(ret, v, from, count, bound_bytes);
                break;
        }
}

/* Takes over one bound when it is the first, or reaches further (`sign` -1: lower, 1: upper). */
static void
stats_merge_bound(enum ls_stats_order order, int sign, bool first, bool *has, bool *exact,
                  uint16_t *len, uint8_t *bytes, const struct ls_stats *more)
{
        ls_span b = sign < 0 ? ls_span_of(more->min, more->min_len)
                             : ls_span_of(more->max, more->max_len);
        bool more_has = sign < 0 ? more->has_min : more->has_max;

        if (!more_has || (!first && !*has)) {
                *has = false; /* of some values none is known, so none of all */
                return;
        }
        if (!first && ls_stats_compare(order, b, ls_span_of(bytes, *len)) * sign <= 0)
                return;
        if (b.len > 0)
                memcpy(bytes, b.ptr, b.len);
        *len = (uint16_t)b.len;
        *exact = sign < 0 ? more->min_exact : more->max_exact;
        *has = true;
}

void
ls_stats_merge(struct ls_stats *sum, const struct ls_stats *more, const struct ls_col_type *type)
{
        enum ls_stats_order order = ls_stats_order(type);
        bool first = !sum->has_min && !sum->unbounded;

        sum->nulls += more->nulls;
        sum->nans += more->nans;
        if (!more->has_min && !more->unbounded)
                return; /* nulls and NaN only */
        sum->unbounded |= more->unbounded;
        stats_merge_bound(order, -1, first, &sum->has_min, &sum->min_exact, &sum->min_len, sum->min,
                          more);
        stats_merge_bound(order, 1, first, &sum->has_max, &sum->max_exact, &sum->max_len, sum->max,
                          more);
}
