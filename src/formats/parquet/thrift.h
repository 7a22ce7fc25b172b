/* formats/parquet/thrift.h - the Thrift compact protocol, as far as Parquet's metadata needs it.
 *
 * Writing: fields in ascending id; `last` ids are kept on a stack by begin and end.
 * Reading: a loop over fields; each get checks the wire type and sets `failed` on a mismatch; what
 * is not known is skipped, with a bound on nesting.
 *
 *      for (struct ls_thrift_field f = {0}; ls_thrift_next(r, &f);)
 *              switch (f.id) {
 *              case 1: version = ls_thrift_i32(r, &f); break;
 *              default: ls_thrift_skip(r, &f);
 *              }
 *
 * Threads: one owner.
 */
#pragma once
#include "base/rd.h"

#define LS_THRIFT_DEPTH_MAX 32 /* structs and lists inside each other; Parquet needs 7 */

enum ls_thrift_type {
        LS_THRIFT_STOP = 0,
        LS_THRIFT_TRUE = 1,
        LS_THRIFT_FALSE = 2,
        LS_THRIFT_BYTE = 3,
        LS_THRIFT_I16 = 4,
        LS_THRIFT_I32 = 5,
        LS_THRIFT_I64 = 6,
        LS_THRIFT_DOUBLE = 7,
        LS_THRIFT_BINARY = 8,
        LS_THRIFT_LIST = 9,
        LS_THRIFT_SET = 10,
        LS_THRIFT_MAP = 11,
        LS_THRIFT_STRUCT = 12,
};

struct ls_thrift_wr {
        struct ls_buf *out; /* borrowed */
        int16_t last[LS_THRIFT_DEPTH_MAX];
        int depth;
};
void ls_thrift_wr_init(struct ls_thrift_wr *w, struct ls_buf *out);
/* Ends the outermost struct. */
void ls_thrift_wr_stop(struct ls_thrift_wr *w);
void ls_thrift_put_bool(struct ls_thrift_wr *w, int16_t id, bool v);
void ls_thrift_put_i8(struct ls_thrift_wr *w, int16_t id, int8_t v);
void ls_thrift_put_i16(struct ls_thrift_wr *w, int16_t id, int16_t v);
void ls_thrift_put_i32(struct ls_thrift_wr *w, int16_t id, int32_t v);
void ls_thrift_put_i64(struct ls_thrift_wr *w, int16_t id, int64_t v);
void ls_thrift_put_binary(struct ls_thrift_wr *w, int16_t id, ls_span v);
static inline void
ls_thrift_put_str(struct ls_thrift_wr *w, int16_t id, ls_str v)
{
        ls_thrift_put_binary(w, id, (ls_span){ (const uint8_t *)v.ptr, v.len });
}
void ls_thrift_begin_struct(struct ls_thrift_wr *w, int16_t id);
void ls_thrift_end_struct(struct ls_thrift_wr *w);
/* An empty struct as a field: the members of Parquet's unions. */
void ls_thrift_put_empty(struct ls_thrift_wr *w, int16_t id);
/* `count` items follow: structs by item begin and end, others by the item puts. */
void ls_thrift_begin_list(struct ls_thrift_wr *w, int16_t id, enum ls_thrift_type item,
                          uint32_t count);
void ls_thrift_begin_item(struct ls_thrift_wr *w);
void ls_thrift_end_item(struct ls_thrift_wr *w);
void ls_thrift_item_int(struct ls_thrift_wr *w, int64_t v);
void ls_thrift_item_binary(struct ls_thrift_wr *w, ls_span v);
void ls_thrift_item_bool(struct ls_thrift_wr *w, bool v);

struct ls_thrift_rd {
        struct ls_rd rd; /* rd.failed: malformed */
        int depth;
};
struct ls_thrift_field {
        int16_t id;
        uint8_t type;
};
static inline struct ls_thrift_rd
ls_thrift_rd_of(ls_span s)
{
        return (struct ls_thrift_rd){ ls_rd_of(s), 0 };
}
/* The next field of the current struct; false at its end or on failure. Start with a zeroed `f`. */
bool ls_thrift_next(struct ls_thrift_rd *r, struct ls_thrift_field *f);
void ls_thrift_skip(struct ls_thrift_rd *r, const struct ls_thrift_field *f);
bool ls_thrift_bool(struct ls_thrift_rd *r, const struct ls_thrift_field *f);
/* i8, i16, i32 and i64 all come as their value; a value out of the 32 bits fails. */
int32_t ls_thrift_i32(struct ls_thrift_rd *r, const struct ls_thrift_field *f);
int64_t ls_thrift_i64(struct ls_thrift_rd *r, const struct ls_thrift_field *f);
/* Borrowed from the input; never a NULL ptr unless failed. */
ls_span ls_thrift_binary(struct ls_thrift_rd *r, const struct ls_thrift_field *f);
/* Fails unless the field is a struct, and goes in; its loop ends by ls_thrift_next's false, then
 * ls_thrift_out. */
bool ls_thrift_in(struct ls_thrift_rd *r, const struct ls_thrift_field *f);
void ls_thrift_out(struct ls_thrift_rd *r);
/* Items of a list of `item`s (LS_THRIFT_TRUE stands for booleans), never more than bytes are left.
 * Items are read by the functions below, structs by in and out with `f` NULL. */
uint32_t ls_thrift_list(struct ls_thrift_rd *r, const struct ls_thrift_field *f,
                        enum ls_thrift_type item);
int64_t ls_thrift_item_get_int(struct ls_thrift_rd *r);
ls_span ls_thrift_item_get_binary(struct ls_thrift_rd *r);
bool ls_thrift_item_get_bool(struct ls_thrift_rd *r);
