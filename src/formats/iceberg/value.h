/* iceberg/value.h - single values: binary and JSON forms, order, transforms, bounds (Iceberg
 * specification, Appendices B and D, "Partition Transforms").
 *
 * A value means something only together with its type. Nothing here allocates, apart from the
 * functions that are given a buffer. Threads: any.
 */
#pragma once
#include "formats/iceberg/types.h"

struct ls_iceberg_value {
        bool null;
        union {
                int64_t i;     /* boolean, int, long, date (days), time (us), timestamps (us, ns) */
                double d;      /* float and double */
                __int128 dec;  /* decimal, unscaled */
                ls_span bytes; /* string (UTF-8), uuid (16, big-endian), fixed, binary: borrowed */
        };
};

#define LS_ICEBERG_NULL ((struct ls_iceberg_value){ .null = true })
static inline struct ls_iceberg_value
ls_iceberg_int(int64_t i)
{
        return (struct ls_iceberg_value){ .i = i };
}
static inline struct ls_iceberg_value
ls_iceberg_double(double d)
{
        return (struct ls_iceberg_value){ .d = d };
}
static inline struct ls_iceberg_value
ls_iceberg_decimal(__int128 unscaled)
{
        return (struct ls_iceberg_value){ .dec = unscaled };
}
static inline struct ls_iceberg_value
ls_iceberg_bytes(ls_span s)
{
        return (struct ls_iceberg_value){ .bytes = s };
}

/* The binary single-value form of a value that is not null (Appendix D). */
void ls_iceberg_value_put(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
                          struct ls_buf *out);
/* Reads it; bytes are borrowed. A long may be stored as int and a double as float (promoted
 * columns). LS_CORRUPT: wrong length, bad UTF-8, decimal beyond 128 bits. */
LS_MUST_USE ls_err ls_iceberg_value_get(const struct ls_iceberg_type *t, ls_span s,
                                        struct ls_iceberg_value *ret_value);
/* The JSON single-value form ("2017-11-16", "\"a\"", "14.20", null …), and the form in partition
 * paths ("2017-11-16", "a"; null is "null") as the reference writes it, percent-encoded. */
void ls_iceberg_value_json(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
                           struct ls_buf *out);
void ls_iceberg_value_path(const struct ls_iceberg_transform *tr, const struct ls_iceberg_type *t,
                           const struct ls_iceberg_value *v, struct ls_buf *out);
/* Order within a column: nulls first; -0.0 below +0.0, NaN above all; bytes unsigned. */
int ls_iceberg_value_cmp(const struct ls_iceberg_type *t, const struct ls_iceberg_value *a,
                         const struct ls_iceberg_value *b);
bool ls_iceberg_value_is_nan(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v);

/* Appendix B: murmur3 x86 32 with seed 0 of the value's form; not for null, float, double, boolean
 * (their hashes are not specified for partitioning): false. */
bool ls_iceberg_value_hash(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
                           uint32_t *ret_hash);
uint32_t ls_iceberg_murmur3(ls_span s);

/* Whether a transform takes values of a type, and the type of what it gives. */
bool ls_iceberg_transform_takes(const struct ls_iceberg_transform *tr,
                                const struct ls_iceberg_type *source);
struct ls_iceberg_type ls_iceberg_transform_result(const struct ls_iceberg_transform *tr,
                                                   const struct ls_iceberg_type *source);
/* Applies a transform that takes the type. Null gives null. Times before 1970 are floored. Bytes of
 * the result are a prefix of the value's: borrowed from it. */
struct ls_iceberg_value ls_iceberg_transform_apply(const struct ls_iceberg_transform *tr,
                                                   const struct ls_iceberg_type *source,
                                                   const struct ls_iceberg_value *v);

/* The result types of a spec's fields in `arena`, one a field. A field whose source is gone (void,
 * or an old spec) has LS_ICEBERG_UNKNOWN. LS_TOO_LARGE: the arena is full. */
LS_MUST_USE ls_err ls_iceberg_spec_types(const struct ls_iceberg_spec *spec,
                                         const struct ls_iceberg_schema *schema,
                                         struct ls_arena *arena,
                                         const struct ls_iceberg_type **ret_types);

/* Bounds in manifests: strings cut to LS_ICEBERG_BOUND_LENGTH code points, binary and fixed to as
 * many bytes; the upper bound is increased after the cut. False: no bound must be written (NaN, an
 * upper bound that cannot be increased, text that is no UTF-8). Zero: as lower -0.0, as upper +0.0.
 * `ret` is the binary form, in `arena`. */
bool ls_iceberg_bound_lower(const struct ls_iceberg_type *t, const struct ls_iceberg_value *min,
                            struct ls_arena *arena, ls_span *ret);
bool ls_iceberg_bound_upper(const struct ls_iceberg_type *t, const struct ls_iceberg_value *max,
                            struct ls_arena *arena, ls_span *ret);
/* Strict UTF-8: no surrogates, no overlong forms, at most U+10FFFF. */
bool ls_iceberg_utf8_valid(ls_span s);
