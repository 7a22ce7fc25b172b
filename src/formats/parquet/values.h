/* formats/parquet/values.h - encodings of the values of a page: vectors to bytes and back.
 * Levels are not here (rle.h), nor compression (codec.h). */
#pragma once
#include "base/buf.h"
#include "base/rd.h"
#include "formats/column/vec.h"
#include "formats/parquet/parquet.h"

/* Appends values [from, from + count) in `encoding`, which must suit the type. */
void ls_values_put(struct ls_buf *out, enum ls_parquet_encoding encoding, const struct ls_vec *v,
                   size_t from, size_t count);
/* The encodings besides PLAIN and dictionary that suit a type: LS_PARQUET_BIT set. */
uint32_t ls_values_encodings(const struct ls_col_type *type);

/* Where decoded values go: `count` elements of value_bytes at `out` (spans for BYTES). */
struct ls_values_get {
        const struct ls_col_type *type;
        uint32_t value_bytes;
        void *out;
        size_t count;
        size_t bytes_max;      /* of byte strings that must be put together (DELTA_BYTE_ARRAY) */
        struct ls_slice *made; /* result: those; owned by the caller, may stay NULL */
};
/* Decodes all `count` values from the front of `r`; spans point into r's bytes or into `made`.
 * LS_CORRUPT, LS_UNSUPPORTED (encoding does not suit the type), LS_TOO_LARGE (past bytes_max). */
LS_MUST_USE ls_err ls_values_get(struct ls_rd *r, int encoding, struct ls_values_get *g);
