/* formats/parquet/stats.h - bounds of values: order by type, NaN and zero rules (B046), cutting of
 * long byte strings such that bounds stay bounds (B047). */
#pragma once
#include "formats/column/vec.h"

#define LS_STATS_BYTES_MAX 256 /* the largest bound_bytes a writer may ask for */

/* Bounds in PLAIN bytes, owned. Without values (or without an order) has_min, has_max are false. */
struct ls_stats {
        uint64_t nulls, nans;
        bool has_min, has_max, min_exact, max_exact;
        bool unbounded; /* there are values (not only NaN) that lack one of the bounds */
        uint16_t min_len, max_len;
        uint8_t min[LS_STATS_BYTES_MAX], max[LS_STATS_BYTES_MAX];
};

/* How values of a type compare. NONE: no bounds are kept or believed. */
enum ls_stats_order {
        LS_STATS_NONE,
        LS_STATS_BOOL,
        LS_STATS_SIGNED32,
        LS_STATS_SIGNED64,
        LS_STATS_UNSIGNED32,
        LS_STATS_UNSIGNED64,
        LS_STATS_FLOAT,
        LS_STATS_DOUBLE,
        LS_STATS_BYTES,      /* unsigned bytes, shorter first */
        LS_STATS_BIG_ENDIAN, /* two's complement of any length: decimals */
};
enum ls_stats_order ls_stats_order(const struct ls_col_type *type);
/* Compares two PLAIN values; sizes must be right for fixed-size orders. */
int ls_stats_compare(enum ls_stats_order order, ls_span a, ls_span b);
/* A FLOAT or DOUBLE that is NaN. */
bool ls_stats_is_nan(enum ls_stats_order order, ls_span value);

/* Statistics of values [from, from + count) and `nulls` empty slots. `bound_bytes` cuts. */
void ls_stats_of(struct ls_stats *ret, const struct ls_vec *v, size_t from, size_t count,
                 uint64_t nulls, uint32_t bound_bytes);
/* Adds `more` to `sum` (zeroed: nothing yet). Bounds that are cut stay correct. */
void ls_stats_merge(struct ls_stats *sum, const struct ls_stats *more,
                    const struct ls_col_type *type);

/* Lower and upper bounds of at most `bytes_max` bytes for a byte string; `utf8` cuts between code
 * points and increments them, other strings are cut and incremented by bytes. The length is given,
 * `out` has room for bytes_max. A lower bound always exists; false: there is no upper one (all
 * bytes 0xff, or a string that is no UTF-8). */
uint16_t ls_stats_cut_lower(ls_span value, uint32_t bytes_max, bool utf8, uint8_t *out);
bool ls_stats_cut_upper(ls_span value, uint32_t bytes_max, bool utf8, uint8_t *out,
                        uint16_t *ret_len);
