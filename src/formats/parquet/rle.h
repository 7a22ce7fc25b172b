/* formats/parquet/rle.h - the RLE / bit-packed hybrid: levels and dictionary indexes; and the
 * delta-binary-packed integers. Bytes in, arrays out; every count is checked. */
#pragma once
#include "base/buf.h"
#include "base/rd.h"

/* Appends `count` values, each below 2^width (width 0..8 or 0..32), without a length prefix. */
void ls_rle_put_u8(struct ls_buf *out, const uint8_t *values, size_t count, unsigned width);
void ls_rle_put_u32(struct ls_buf *out, const uint32_t *values, size_t count, unsigned width);
/* Reads exactly `count` values from the front of `r`; false: malformed, too short, or a value above
 * `max`. */
bool ls_rle_get_u8(struct ls_rd *r, uint8_t *ret_values, size_t count, unsigned width, uint8_t max);
bool ls_rle_get_u32(struct ls_rd *r, uint32_t *ret_values, size_t count, unsigned width,
                    uint32_t max);
/* The old BIT_PACKED level encoding, most significant bit first: takes ceil(count*width/8) bytes.
 * */
bool ls_bitpacked_get_u8(struct ls_rd *r, uint8_t *ret_values, size_t count, unsigned width,
                         uint8_t max);

/* DELTA_BINARY_PACKED: blocks of 128 in 4 miniblocks. 32-bit values wrap at 32 bits. */
void ls_delta_put_i64(struct ls_buf *out, const int64_t *values, size_t count);
void ls_delta_put_i32(struct ls_buf *out, const int32_t *values, size_t count);
/* Reads a whole stream, which must hold exactly `count` values. */
bool ls_delta_get_i64(struct ls_rd *r, int64_t *ret_values, size_t count);
bool ls_delta_get_i32(struct ls_rd *r, int32_t *ret_values, size_t count);
/* The count that the stream at `r` says it has, without moving; false: malformed. */
bool ls_delta_peek_count(const struct ls_rd *r, uint64_t *ret_count);
