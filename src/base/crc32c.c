/* base/crc32c.c - see crc32c.h. A table of 8 x 256 words, or the crc instruction of SSE4.2.
 *
 * The instruction gives a result after three cycles, but can be begun in each: long inputs are
 * summed as three lanes side by side. Lanes are put together by what the sum of the one before
 * becomes when as many zeros follow as the next lane is long; since sums are linear, that is a
 * table of 4 x 256 words for each length of lanes. */
#include "base/crc32c.h"

#include <stdatomic.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

#define LANE_LONG  2048 /* bytes */
#define LANE_SHORT 256

static uint32_t crc_table[8][256];
static uint32_t crc_after_long[4][256], crc_after_short[4][256];

static uint32_t crc_software(uint32_t crc, const uint8_t *p, size_t n);

static void
crc_after_init(uint32_t table[4][256], size_t zeros)
{
        static const uint8_t zero[LANE_LONG];

        for (uint32_t i = 0; i < 4; i++)
                for (uint32_t b = 0; b < 256; b++)
                        table[i][b] = crc_software(b << (8 * i), zero, zeros);
}

__attribute__((constructor)) static void
crc_table_init(void)
{
        for (uint32_t i = 0; i < 256; i++) {
                uint32_t c = i;

                for (int k = 0; k < 8; k++)
                        c = c & 1 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
                crc_table[0][i] = c;
        }
        for (uint32_t i = 0; i < 256; i++) {
                for (int t = 1; t < 8; t++)
                        crc_table[t][i] = (crc_table[t - 1][i] >> 8) ^
                                          crc_table[0][crc_table[t - 1][i] & 0xff];
        }
        crc_after_init(crc_after_long, LANE_LONG);
        crc_after_init(crc_after_short, LANE_SHORT);
}

static uint32_t
crc_software(uint32_t crc, const uint8_t *p, size_t n)
{
        for (; n >= 8; n -= 8, p += 8) {
                uint64_t v;

                memcpy(&v, p, 8);
                v ^= crc;
                crc = 0;
                for (int t = 0; t < 8; t++)
                        crc ^= crc_table[7 - t][(v >> (8 * t)) & 0xff];
        }
        for (; n > 0; n--, p++)
                crc = (crc >> 8) ^ crc_table[0][(crc ^ *p) & 0xff];
        return crc;
}

#if defined(__x86_64__)
static inline uint64_t
crc_after(const uint32_t table[4][256], uint64_t c)
{
        return table[0][c & 0xff] ^ table[1][c >> 8 & 0xff] ^ table[2][c >> 16 & 0xff] ^
               table[3][c >> 24 & 0xff];
}

/* Three lanes from `p` on. */
__attribute__((target("sse4.2"))) static inline uint64_t
crc_lanes(uint64_t c, const uint8_t *p, size_t lane, const uint32_t after[4][256])
{
        uint64_t c1 = 0, c2 = 0;

        for (size_t i = 0; i < lane; i += 8) {
                uint64_t v[3];

                memcpy(&v[0], p + i, 8);
                memcpy(&v[1], p + lane + i, 8);
                memcpy(&v[2], p + 2 * lane + i, 8);
                c = _mm_crc32_u64(c, v[0]);
                c1 = _mm_crc32_u64(c1, v[1]);
                c2 = _mm_crc32_u64(c2, v[2]);
        }
        c = crc_after(after, c) ^ c1;
        return crc_after(after, c) ^ c2;
}

__attribute__((target("sse4.2"))) static uint32_t
crc_hardware(uint32_t crc, const uint8_t *p, size_t n)
{
        uint64_t c = crc;

        for (; n >= (size_t)3 * LANE_LONG; n -= (size_t)3 * LANE_LONG, p += 3 * LANE_LONG)
                c = crc_lanes(c, p, LANE_LONG, crc_after_long);
        for (; n >= (size_t)3 * LANE_SHORT; n -= (size_t)3 * LANE_SHORT, p += 3 * LANE_SHORT)
                c = crc_lanes(c, p, LANE_SHORT, crc_after_short);
        for (; n >= 8; n -= 8, p += 8) {
                uint64_t v;

                memcpy(&v, p, 8);
                c = _mm_crc32_u64(c, v);
        }
        for (; n > 0; n--, p++)
                c = _mm_crc32_u8((uint32_t)c, *p);
        return (uint32_t)c;
}
#endif

uint32_t
ls_crc32c(uint32_t crc, ls_span s)
{
        crc = ~crc;
#if defined(__x86_64__)
        if (__builtin_cpu_supports("sse4.2"))
                return ~crc_hardware(crc, s.ptr, s.len);
#endif
        return ~crc_software(crc, s.ptr, s.len);
}
