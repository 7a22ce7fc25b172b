/* formats/parquet/values.c - see values.h. Encodings.md of parquet-format. */
#include "formats/parquet/values.h"

#include "base/assert.h"
#include "formats/parquet/bits.h"
#include "formats/parquet/rle.h"

uint32_t
ls_values_encodings(const struct ls_col_type *type)
{
        switch (type->physical) {
        case LS_COL_BOOL: return LS_PARQUET_BIT(LS_PARQUET_RLE);
        case LS_COL_INT32:
        case LS_COL_INT64:
                return LS_PARQUET_BIT(LS_PARQUET_DELTA_BINARY_PACKED) |
                       LS_PARQUET_BIT(LS_PARQUET_BYTE_STREAM_SPLIT);
        case LS_COL_FLOAT:
        case LS_COL_DOUBLE: return LS_PARQUET_BIT(LS_PARQUET_BYTE_STREAM_SPLIT);
        case LS_COL_BYTES:
                return LS_PARQUET_BIT(LS_PARQUET_DELTA_LENGTH_BYTE_ARRAY) |
                       LS_PARQUET_BIT(LS_PARQUET_DELTA_BYTE_ARRAY);
        case LS_COL_FIXED: /* could be split too, but DuckDB does not read that */
        case LS_COL_INT96: break;
        }
        return 0;
}

/* --- writing ---------------------------------------------------------------------------------- */

static void
values_put_bools(struct ls_buf *out, const uint8_t *v, size_t count)
{
        uint8_t *p = ls_buf_add(out, (count + 7) / 8);

        if (p == NULL)
                return;
        memset(p, 0, (count + 7) / 8);
        for (size_t i = 0; i < count; i++)
                p[i / 8] = (uint8_t)(p[i / 8] | v[i] << i % 8);
}

static void
values_put_plain_spans(struct ls_buf *out, const ls_span *v, size_t count)
{
        size_t bytes = 0;
        uint8_t *p;

        for (size_t i = 0; i < count; i++)
                bytes += 4 + v[i].len;
        p = ls_buf_add(out, bytes);
        if (p == NULL)
                return;
        for (size_t i = 0; i < count; i++) {
                ls_set_le32(p, (uint32_t)v[i].len);
                memcpy(p + 4, v[i].ptr, v[i].len);
                p += 4 + v[i].len;
        }
}

static void
values_put_plain(struct ls_buf *out, const struct ls_vec *v, size_t from, size_t count)
{
        if (v->type.physical == LS_COL_BOOL)
                values_put_bools(out, v->u8 + from, count);
        else if (v->type.physical == LS_COL_BYTES)
                values_put_plain_spans(out, v->span + from, count);
        else
                ls_buf_put(out, v->u8 + from * v->value_bytes, count * v->value_bytes);
}

/* Byte k of all values, then byte k + 1 of all. */
static void
values_put_split(struct ls_buf *out, const struct ls_vec *v, size_t from, size_t count)
{
        size_t width = v->value_bytes;
        const uint8_t *in = v->u8 + from * width;
        uint8_t *p = ls_buf_add(out, count * width);

        if (p == NULL)
                return;
        for (size_t k = 0; k < width; k++) {
                for (size_t i = 0; i < count; i++)
                        p[k * count + i] = in[i * width + k];
        }
}

static void
values_put_lengths(struct ls_buf *out, const ls_span *v, size_t count)
{
        int32_t *lengths = ls_malloc((count ? count : 1) * sizeof *lengths);

        for (size_t i = 0; i < count; i++)
                lengths[i] = (int32_t)v[i].len;
        ls_delta_put_i32(out, lengths, count);
        ls_free(lengths);
}

static void
values_put_delta_lengths(struct ls_buf *out, const ls_span *v, size_t count)
{
        values_put_lengths(out, v, count);
        for (size_t i = 0; i < count; i++)
                ls_buf_put_span(out, v[i]);
}

static size_t
values_common_prefix(ls_span a, ls_span b)
{
        size_t n = LS_MIN(a.len, b.len), i = 0;

        while (i + 8 <= n && ls_get_le64(a.ptr + i) == ls_get_le64(b.ptr + i))
                i += 8;
        while (i < n && a.ptr[i] == b.ptr[i])
                i++;
        return i;
}

/* Lengths of the prefixes shared with the value before, then the rests. */
static void
values_put_delta_bytes(struct ls_buf *out, const ls_span *v, size_t count)
{
        int32_t *prefixes = ls_malloc((count ? count : 1) * sizeof *prefixes);
        ls_span *rests = ls_malloc((count ? count : 1) * sizeof *rests);

        for (size_t i = 0; i < count; i++) {
                size_t n = i > 0 ? values_common_prefix(v[i - 1], v[i]) : 0;

                prefixes[i] = (int32_t)n;
                rests[i] = ls_span_of(v[i].ptr + n, v[i].len - n);
        }
        ls_delta_put_i32(out, prefixes, count);
        values_put_delta_lengths(out, rests, count);
        ls_free(prefixes);
        ls_free(rests);
}

/* RLE booleans have a length before them, unlike dictionary indexes. */
static void
values_put_rle_bools(struct ls_buf *out, const uint8_t *v, size_t count)
{
        size_t at = out->len;

        ls_buf_put_le32(out, 0);
        ls_rle_put_u8(out, v, count, 1);
        if (!ls_buf_failed(out))
                ls_set_le32(out->ptr + at, (uint32_t)(out->len - at - 4));
}

void
ls_values_put(struct ls_buf *out, enum ls_parquet_encoding encoding, const struct ls_vec *v,
              size_t from, size_t count)
{
        LS_ASSERT(from + count <= v->count);
        switch (encoding) {
        case LS_PARQUET_PLAIN: values_put_plain(out, v, from, count); break;
        case LS_PARQUET_RLE: values_put_rle_bools(out, v->u8 + from, count); break;
        case LS_PARQUET_DELTA_BINARY_PACKED:
                if (v->type.physical == LS_COL_INT32)
                        ls_delta_put_i32(out, v->i32 + from, count);
                else
                        ls_delta_put_i64(out, v->i64 + from, count);
                break;
        case LS_PARQUET_DELTA_LENGTH_BYTE_ARRAY:
                values_put_delta_lengths(out, v->span + from, count);
                break;
        case LS_PARQUET_DELTA_BYTE_ARRAY: values_put_delta_bytes(out, v->span + from, count); break;
        case LS_PARQUET_BYTE_STREAM_SPLIT: values_put_split(out, v, from, count); break;
        case LS_PARQUET_PLAIN_DICTIONARY:
        case LS_PARQUET_BIT_PACKED:
        case LS_PARQUET_RLE_DICTIONARY: LS_ASSERT(false); /* not for the values of a vector */
        }
}

/* --- reading ---------------------------------------------------------------------------------- */

static ls_err
values_get_bools(struct ls_rd *r, uint8_t *out, size_t count)
{
        const uint8_t *p = ls_rd_take(r, count / 8 + (count % 8 != 0));

        if (p == NULL)
                return LS_CORRUPT;
        for (size_t i = 0; i < count; i++)
                out[i] = p[i / 8] >> i % 8 & 1;
        return LS_OK;
}

static ls_err
values_get_spans(struct ls_rd *r, ls_span *out, size_t count)
{
        const uint8_t *p = r->pos;
        const uint8_t *end = r->end;

        for (size_t i = 0; i < count; i++) {
                uint32_t len;

                if ((size_t)(end - p) < 4)
                        return LS_CORRUPT;
                len = ls_get_le32(p);
                p += 4;
                if ((size_t)(end - p) < len)
                        return LS_CORRUPT;
                out[i] = (ls_span){ p, len };
                p += len;
        }
        r->pos = p;
        return LS_OK;
}

static ls_err
values_get_plain(struct ls_rd *r, struct ls_values_get *g)
{
        const uint8_t *p;

        if (g->type->physical == LS_COL_BOOL)
                return values_get_bools(r, g->out, g->count);
        if (g->type->physical == LS_COL_BYTES)
                return values_get_spans(r, g->out, g->count);
        p = ls_rd_take(r, g->count * g->value_bytes);
        if (p == NULL)
                return LS_CORRUPT;
        memcpy(g->out, p, g->count * g->value_bytes);
        return LS_OK;
}

static ls_err
values_get_split(struct ls_rd *r, struct ls_values_get *g)
{
        size_t width = g->value_bytes;
        const uint8_t *p = ls_rd_take(r, g->count * width);
        uint8_t *out = g->out;

        if (p == NULL)
                return LS_CORRUPT;
        for (size_t k = 0; k < width; k++) {
                for (size_t i = 0; i < g->count; i++)
                        out[i * width + k] = p[k * g->count + i];
        }
        return LS_OK;
}

/* Turns `lengths` into spans of the bytes that follow. */
static ls_err
values_get_lengths(struct ls_rd *r, int32_t *lengths, ls_span *out, size_t count)
{
        if (!ls_delta_get_i32(r, lengths, count))
                return LS_CORRUPT;
        for (size_t i = 0; i < count; i++) {
                if (lengths[i] < 0)
                        return LS_CORRUPT;
                out[i].ptr = ls_rd_take(r, (size_t)lengths[i]);
                out[i].len = (size_t)lengths[i];
                if (out[i].ptr == NULL)
                        return LS_CORRUPT;
        }
        return LS_OK;
}

static ls_err
values_get_delta_lengths(struct ls_rd *r, ls_span *out, size_t count)
{
        LS_AUTO(ls_free) int32_t *lengths = ls_try_malloc((count ? count : 1) * sizeof *lengths);

        if (lengths == NULL)
                return LS_TOO_LARGE;
        return values_get_lengths(r, lengths, out, count);
}

/* Puts values together from the prefix of the one before and the rest, which `out` holds. */
static ls_err
values_join(const int32_t *prefixes, ls_span *out, struct ls_values_get *g)
{
        uint64_t bytes = 0;
        ls_span before = LS_SPAN_NULL;
        uint8_t *p;

        for (size_t i = 0; i < g->count; i++) {
                if (prefixes[i] < 0 || (size_t)prefixes[i] > before.len)
                        return LS_CORRUPT;
                before.len = (size_t)prefixes[i] + out[i].len;
                bytes += before.len;
                if (bytes > g->bytes_max)
                        return LS_TOO_LARGE;
        }
        g->made = ls_slice_new(bytes ? bytes : 1);
        if (g->made == NULL)
                return LS_TOO_LARGE;
        p = g->made->ptr;
        for (size_t i = 0; i < g->count; i++) {
                size_t n = (size_t)prefixes[i];

                if (n > 0)
                        memcpy(p, before.ptr, n);
                memcpy(p + n, out[i].ptr, out[i].len);
                out[i] = before = ls_span_of(p, n + out[i].len);
                p += before.len;
        }
        return LS_OK;
}

static ls_err
values_get_delta_bytes(struct ls_rd *r, ls_span *out, struct ls_values_get *g)
{
        LS_AUTO(ls_free)
        int32_t *numbers = ls_try_malloc((g->count * 2 + 1) * sizeof *numbers);

        if (numbers == NULL)
                return LS_TOO_LARGE;
        if (!ls_delta_get_i32(r, numbers, g->count))
                return LS_CORRUPT;
        LS_TRY(values_get_lengths(r, numbers + g->count, out, g->count));
        return values_join(numbers, out, g);
}

/* DELTA_BYTE_ARRAY of fixed-size values: as byte strings, then copied. */
static ls_err
values_get_delta_fixed(struct ls_rd *r, struct ls_values_get *g)
{
        LS_AUTO(ls_free) ls_span *spans = ls_try_malloc((g->count + 1) * sizeof *spans);

        if (spans == NULL)
                return LS_TOO_LARGE;
        LS_TRY(values_get_delta_bytes(r, spans, g));
        for (size_t i = 0; i < g->count; i++) {
                if (spans[i].len != g->value_bytes)
                        return LS_CORRUPT;
                memcpy((uint8_t *)g->out + i * g->value_bytes, spans[i].ptr, g->value_bytes);
        }
        return LS_OK;
}

static ls_err
values_get_rle_bools(struct ls_rd *r, uint8_t *out, size_t count)
{
        uint32_t bytes = ls_rd_le32(r);
        ls_span s = ls_rd_span(r, bytes);
        struct ls_rd inner = ls_rd_of(s);

        if (r->failed || !ls_rle_get_u8(&inner, out, count, 1, 1))
                return LS_CORRUPT;
        return LS_OK;
}

ls_err
ls_values_get(struct ls_rd *r, int encoding, struct ls_values_get *g)
{
        enum ls_col_physical p = g->type->physical;

        switch (encoding) {
        case LS_PARQUET_PLAIN: return values_get_plain(r, g);
        case LS_PARQUET_RLE:
                return p == LS_COL_BOOL ? values_get_rle_bools(r, g->out, g->count)
                                        : LS_UNSUPPORTED;
        case LS_PARQUET_DELTA_BINARY_PACKED:
                if (p == LS_COL_INT32)
                        return ls_delta_get_i32(r, g->out, g->count) ? LS_OK : LS_CORRUPT;
                if (p == LS_COL_INT64)
                        return ls_delta_get_i64(r, g->out, g->count) ? LS_OK : LS_CORRUPT;
                return LS_UNSUPPORTED;
        case LS_PARQUET_DELTA_LENGTH_BYTE_ARRAY:
                return p == LS_COL_BYTES ? values_get_delta_lengths(r, g->out, g->count)
                                         : LS_UNSUPPORTED;
        case LS_PARQUET_DELTA_BYTE_ARRAY:
                if (p == LS_COL_BYTES)
                        return values_get_delta_bytes(r, g->out, g);
                return p == LS_COL_FIXED ? values_get_delta_fixed(r, g) : LS_UNSUPPORTED;
        case LS_PARQUET_BYTE_STREAM_SPLIT:
                return p == LS_COL_BOOL || p == LS_COL_BYTES ? LS_UNSUPPORTED
                                                             : values_get_split(r, g);
        default: return LS_UNSUPPORTED;
        }
}
