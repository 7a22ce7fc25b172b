/* formats/parquet/bits.h - packing of integers into so many bits each, least significant first. */
#pragma once
#include "base/buf.h"

/* Bits that `max` needs: 0 for 0. */
static inline unsigned
ls_bits_width(uint64_t max)
{
        return max ? (unsigned)(64 - __builtin_clzll(max)) : 0;
}
static inline uint64_t
ls_bits_mask(unsigned width)
{
        return width >= 64 ? UINT64_MAX : ((uint64_t)1 << width) - 1;
}
#define LS_BITS_SLACK 16 /* bytes that ls_bits_set may touch behind the last one it needs */

/* Ors `v` (< 2^width) into zeroed bytes as the value number `index`. */
static inline void
ls_bits_set(uint8_t *bytes, size_t index, unsigned width, uint64_t v)
{
        size_t bit = index * width;
        uint8_t *p = bytes + bit / 8;
        unsigned shift = bit % 8;

        ls_set_le64(p, ls_get_le64(p) | v << shift);
        if (shift + width > 64)
                p[8] = (uint8_t)(p[8] | v >> (64 - shift));
}
/* The value number `index`; at least 9 bytes from its first on must be readable. */
static inline uint64_t
ls_bits_get(const uint8_t *bytes, size_t index, unsigned width)
{
        size_t bit = index * width;
        const uint8_t *p = bytes + bit / 8;
        unsigned shift = bit % 8;
        uint64_t v = ls_get_le64(p) >> shift;

        if (shift + width > 64)
                v |= (uint64_t)p[8] << (64 - shift);
        return v & ls_bits_mask(width);
}
