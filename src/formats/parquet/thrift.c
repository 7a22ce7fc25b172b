/* formats/parquet/thrift.c - see thrift.h. */
#include "formats/parquet/thrift.h"

#include "base/assert.h"

void
ls_thrift_wr_init(struct ls_thrift_wr *w, struct ls_buf *out)
{
        *w = (struct ls_thrift_wr){ .out = out };
}

void
ls_thrift_wr_stop(struct ls_thrift_wr *w)
{
        LS_ASSERT(w->depth == 0);
        ls_buf_put_u8(w->out, LS_THRIFT_STOP);
}

static void
thrift_header(struct ls_thrift_wr *w, int16_t id, enum ls_thrift_type type)
{
        int delta = id - w->last[w->depth];

        LS_ASSERT(delta > 0);
        if (delta <= 15) {
                ls_buf_put_u8(w->out, (uint8_t)(delta << 4 | (int)type));
        } else {
                ls_buf_put_u8(w->out, (uint8_t)type);
                ls_buf_put_varint(w->out, id);
        }
        w->last[w->depth] = id;
}

void
ls_thrift_put_bool(struct ls_thrift_wr *w, int16_t id, bool v)
{
        thrift_header(w, id, v ? LS_THRIFT_TRUE : LS_THRIFT_FALSE);
}

void
ls_thrift_put_i8(struct ls_thrift_wr *w, int16_t id, int8_t v)
{
        thrift_header(w, id, LS_THRIFT_BYTE);
        ls_buf_put_u8(w->out, (uint8_t)v);
}

void
ls_thrift_put_i16(struct ls_thrift_wr *w, int16_t id, int16_t v)
{
        thrift_header(w, id, LS_THRIFT_I16);
        ls_buf_put_varint(w->out, v);
}

void
ls_thrift_put_i32(struct ls_thrift_wr *w, int16_t id, int32_t v)
{
        thrift_header(w, id, LS_THRIFT_I32);
        ls_buf_put_varint(w->out, v);
}

void
ls_thrift_put_i64(struct ls_thrift_wr *w, int16_t id, int64_t v)
{
        thrift_header(w, id, LS_THRIFT_I64);
        ls_buf_put_varint(w->out, v);
}

void
ls_thrift_item_binary(struct ls_thrift_wr *w, ls_span v)
{
        ls_buf_put_uvarint(w->out, v.len);
        ls_buf_put_span(w->out, v);
}

void
ls_thrift_put_binary(struct ls_thrift_wr *w, int16_t id, ls_span v)
{
        thrift_header(w, id, LS_THRIFT_BINARY);
        ls_thrift_item_binary(w, v);
}

void
ls_thrift_begin_item(struct ls_thrift_wr *w)
{
        LS_ASSERT(w->depth + 1 < LS_THRIFT_DEPTH_MAX);
        w->last[++w->depth] = 0;
}

void
ls_thrift_end_item(struct ls_thrift_wr *w)
{
        LS_ASSERT(w->depth > 0);
        ls_buf_put_u8(w->out, LS_THRIFT_STOP);
        w->depth--;
}

void
ls_thrift_begin_struct(struct ls_thrift_wr *w, int16_t id)
{
        thrift_header(w, id, LS_THRIFT_STRUCT);
        ls_thrift_begin_item(w);
}

void
ls_thrift_end_struct(struct ls_thrift_wr *w)
{
        ls_thrift_end_item(w);
}

void
ls_thrift_put_empty(struct ls_thrift_wr *w, int16_t id)
{
        ls_thrift_begin_struct(w, id);
        ls_thrift_end_struct(w);
}

void
ls_thrift_begin_list(struct ls_thrift_wr *w, int16_t id, enum ls_thrift_type item, uint32_t count)
{
        thrift_header(w, id, LS_THRIFT_LIST);
        if (count < 15) {
                ls_buf_put_u8(w->out, (uint8_t)(count << 4 | (uint32_t)item));
        } else {
                ls_buf_put_u8(w->out, (uint8_t)(0xf0 | (uint32_t)item));
                ls_buf_put_uvarint(w->out, count);
        }
}

void
ls_thrift_item_int(struct ls_thrift_wr *w, int64_t v)
{
        ls_buf_put_varint(w->out, v);
}

void
ls_thrift_item_bool(struct ls_thrift_wr *w, bool v)
{
        ls_buf_put_u8(w->out, v ? LS_THRIFT_TRUE : LS_THRIFT_FALSE);
}

bool
ls_thrift_next(struct ls_thrift_rd *r, struct ls_thrift_field *f)
{
        uint8_t b = ls_rd_u8(&r->rd);

        if (r->rd.failed || (b & 0x0f) == LS_THRIFT_STOP)
                return false;
        f->type = b & 0x0f;
        if (b >> 4) {
                int id = f->id + (b >> 4);

                if (id > INT16_MAX)
                        r->rd.failed = true;
                f->id = (int16_t)id;
        } else {
                int64_t id = ls_rd_varint(&r->rd);

                if (id < INT16_MIN || id > INT16_MAX)
                        r->rd.failed = true;
                f->id = (int16_t)id;
        }
        return !r->rd.failed;
}

static bool
thrift_deeper(struct ls_thrift_rd *r)
{
        if (r->depth >= LS_THRIFT_DEPTH_MAX)
                r->rd.failed = true;
        else
                r->depth++;
        return !r->rd.failed;
}

static void thrift_skip_value(struct ls_thrift_rd *r, uint8_t type, bool item);

/* Item count and type of a list or set. */
static uint32_t
thrift_list_header(struct ls_thrift_rd *r, uint8_t *ret_item)
{
        uint8_t b = ls_rd_u8(&r->rd);
        uint64_t count = b >> 4;

        if (count == 15)
                count = ls_rd_uvarint(&r->rd);
        *ret_item = b & 0x0f;
        if (count > ls_rd_left(&r->rd)) /* an item takes a byte or more */
                r->rd.failed = true;
        return r->rd.failed ? 0 : (uint32_t)count;
}

static void
thrift_skip_nested(struct ls_thrift_rd *r, uint8_t type)
{
        uint8_t item, value;
        uint64_t count;

        if (!thrift_deeper(r))
                return;
        if (type == LS_THRIFT_STRUCT) {
                for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);)
                        thrift_skip_value(r, f.type, false);
        } else if (type == LS_THRIFT_MAP) {
                count = ls_rd_uvarint(&r->rd);
                value = count > 0 ? ls_rd_u8(&r->rd) : 0;
                if (count > ls_rd_left(&r->rd))
                        r->rd.failed = true;
                for (; count > 0 && !r->rd.failed; count--) {
                        thrift_skip_value(r, value >> 4, true);
                        thrift_skip_value(r, value & 0x0f, true);
                }
        } else {
                for (count = thrift_list_header(r, &item); count > 0 && !r->rd.failed; count--)
                        thrift_skip_value(r, item, true);
        }
        r->depth--;
}

static void
thrift_skip_value(struct ls_thrift_rd *r, uint8_t type, bool item)
{
        switch (type) {
        case LS_THRIFT_TRUE:
        case LS_THRIFT_FALSE:
                if (item) /* inside lists a boolean is a byte, as a field its type says it */
                        ls_rd_take(&r->rd, 1);
                break;
        case LS_THRIFT_BYTE: ls_rd_take(&r->rd, 1); break;
        case LS_THRIFT_I16:
        case LS_THRIFT_I32:
        case LS_THRIFT_I64: ls_rd_uvarint(&r->rd); break;
        case LS_THRIFT_DOUBLE: ls_rd_take(&r->rd, 8); break;
        case LS_THRIFT_BINARY: {
                uint64_t bytes = ls_rd_uvarint(&r->rd);

                ls_rd_take(&r->rd, bytes);
                break;
        }
        case LS_THRIFT_LIST:
        case LS_THRIFT_SET:
        case LS_THRIFT_MAP:
        case LS_THRIFT_STRUCT: thrift_skip_nested(r, type); break;
        default: r->rd.failed = true;
        }
}

void
ls_thrift_skip(struct ls_thrift_rd *r, const struct ls_thrift_field *f)
{
        thrift_skip_value(r, f->type, false);
}

bool
ls_thrift_bool(struct ls_thrift_rd *r, const struct ls_thrift_field *f)
{
        if (f->type != LS_THRIFT_TRUE && f->type != LS_THRIFT_FALSE)
                r->rd.failed = true;
        return f->type == LS_THRIFT_TRUE;
}

int64_t
ls_thrift_i64(struct ls_thrift_rd *r, const struct ls_thrift_field *f)
{
        if (f->type == LS_THRIFT_BYTE)
                return (int8_t)ls_rd_u8(&r->rd);
        if (f->type != LS_THRIFT_I16 && f->type != LS_THRIFT_I32 && f->type != LS_THRIFT_I64) {
                r->rd.failed = true;
                return 0;
        }
        return ls_rd_varint(&r->rd);
}

int32_t
ls_thrift_i32(struct ls_thrift_rd *r, const struct ls_thrift_field *f)
{
        int64_t v = ls_thrift_i64(r, f);

        if (v < INT32_MIN || v > INT32_MAX) {
                r->rd.failed = true;
                return 0;
        }
        return (int32_t)v;
}

ls_span
ls_thrift_item_get_binary(struct ls_thrift_rd *r)
{
        uint64_t bytes = ls_rd_uvarint(&r->rd);

        return ls_rd_span(&r->rd, bytes);
}

ls_span
ls_thrift_binary(struct ls_thrift_rd *r, const struct ls_thrift_field *f)
{
        if (f->type != LS_THRIFT_BINARY) {
                r->rd.failed = true;
                return LS_SPAN_NULL;
        }
        return ls_thrift_item_get_binary(r);
}

bool
ls_thrift_in(struct ls_thrift_rd *r, const struct ls_thrift_field *f)
{
        if (f != NULL && f->type != LS_THRIFT_STRUCT)
                r->rd.failed = true;
        return !r->rd.failed && thrift_deeper(r);
}

void
ls_thrift_out(struct ls_thrift_rd *r)
{
        LS_ASSERT(r->depth > 0);
        r->depth--;
}

uint32_t
ls_thrift_list(struct ls_thrift_rd *r, const struct ls_thrift_field *f, enum ls_thrift_type item)
{
        uint8_t got;
        uint32_t count;

        if (f->type != LS_THRIFT_LIST) {
                r->rd.failed = true;
                return 0;
        }
        count = thrift_list_header(r, &got);
        if (got != item && !(item == LS_THRIFT_TRUE && got == LS_THRIFT_FALSE) && count > 0)
                r->rd.failed = true;
        return r->rd.failed ? 0 : count;
}

int64_t
ls_thrift_item_get_int(struct ls_thrift_rd *r)
{
        return ls_rd_varint(&r->rd);
}

bool
ls_thrift_item_get_bool(struct ls_thrift_rd *r)
{
        return ls_rd_u8(&r->rd) == LS_THRIFT_TRUE;
}
