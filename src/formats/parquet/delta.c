/* formats/parquet/delta.c - DELTA_BINARY_PACKED, see rle.h.
 *
 *      header: block size, miniblocks a block, count (uvarint each), first value (zigzag)
 *      block:  smallest delta (zigzag), a width byte a miniblock, the miniblocks:
 *              delta - smallest, so many bits each
 *
 * Arithmetic is modulo 2^64, or 2^32 for 32-bit values, so that no difference overflows.
 */
#include "base/assert.h"
#include "formats/parquet/bits.h"
#include "formats/parquet/rle.h"

#define DELTA_BLOCK     128
#define DELTA_MINIS     4
#define DELTA_MINI      (DELTA_BLOCK / DELTA_MINIS)
#define DELTA_BLOCK_MAX 65536 /* values of a block we read; others write 128 to 4096 */
#define DELTA_MINI_MAX  2048  /* of a miniblock: bounds the stack */

static void
delta_put_header(struct ls_buf *out, size_t count, int64_t first)
{
        ls_buf_put_uvarint(out, DELTA_BLOCK);
        ls_buf_put_uvarint(out, DELTA_MINIS);
        ls_buf_put_uvarint(out, count);
        ls_buf_put_varint(out, first);
}

/* Packs deltas[0..n), n <= 128; `mask` is all ones of the value's width. */
static void
delta_put_block(struct ls_buf *out, const int64_t *deltas, size_t n, uint64_t mask)
{
        int64_t min = deltas[0];
        uint8_t packed[DELTA_MINI * 8 + LS_BITS_SLACK];
        uint8_t widths[DELTA_MINIS] = { 0 };

        for (size_t i = 1; i < n; i++)
                min = deltas[i] < min ? deltas[i] : min;
        for (size_t i = 0; i < n; i++) {
                uint64_t v = ((uint64_t)deltas[i] - (uint64_t)min) & mask;
                unsigned width = ls_bits_width(v);

                if (width > widths[i / DELTA_MINI])
                        widths[i / DELTA_MINI] = (uint8_t)width;
        }
        ls_buf_put_varint(out, min);
        ls_buf_put(out, widths, sizeof widths);
        for (size_t m = 0; m * DELTA_MINI < n; m++) {
                size_t end = (m + 1) * DELTA_MINI < n ? (m + 1) * DELTA_MINI : n;

                memset(packed, 0, sizeof packed);
                for (size_t i = m * DELTA_MINI; i < end; i++)
                        ls_bits_set(packed, i - m * DELTA_MINI, widths[m],
                                    ((uint64_t)deltas[i] - (uint64_t)min) & mask);
                ls_buf_put(out, packed, (size_t)widths[m] * DELTA_MINI / 8);
        }
}

void
ls_delta_put_i64(struct ls_buf *out, const int64_t *values, size_t count)
{
        int64_t deltas[DELTA_BLOCK];

        delta_put_header(out, count, count > 0 ? values[0] : 0);
        for (size_t at = 1; at < count; at += DELTA_BLOCK) {
                size_t n = count - at < DELTA_BLOCK ? count - at : DELTA_BLOCK;

                for (size_t i = 0; i < n; i++)
                        deltas[i] =
                                (int64_t)((uint64_t)values[at + i] - (uint64_t)values[at + i - 1]);
                delta_put_block(out, deltas, n, UINT64_MAX);
        }
}

void
ls_delta_put_i32(struct ls_buf *out, const int32_t *values, size_t count)
{
        int64_t deltas[DELTA_BLOCK];

        delta_put_header(out, count, count > 0 ? values[0] : 0);
        for (size_t at = 1; at < count; at += DELTA_BLOCK) {
                size_t n = count - at < DELTA_BLOCK ? count - at : DELTA_BLOCK;

                for (size_t i = 0; i < n; i++)
                        deltas[i] =
                                (int32_t)((uint32_t)values[at + i] - (uint32_t)values[at + i - 1]);
                delta_put_block(out, deltas, n, UINT32_MAX);
        }
}

struct delta_get {
        uint64_t block, minis, mini, count;
        int64_t first;
};

static bool
delta_get_header(struct ls_rd *r, struct delta_get *d)
{
        d->block = ls_rd_uvarint(r);
        d->minis = ls_rd_uvarint(r);
        d->count = ls_rd_uvarint(r);
        d->first = ls_rd_varint(r);
        if (r->failed || d->block == 0 || d->block > DELTA_BLOCK_MAX || d->block % 128 != 0 ||
            d->minis == 0 || d->block % d->minis != 0 || d->block / d->minis % 32 != 0 ||
            d->block / d->minis > DELTA_MINI_MAX)
                return false;
        d->mini = d->block / d->minis;
        return true;
}

bool
ls_delta_peek_count(const struct ls_rd *r, uint64_t *ret_count)
{
        struct ls_rd copy = *r;
        struct delta_get d;

        if (!delta_get_header(&copy, &d))
                return false;
        *ret_count = d.count;
        return true;
}

/* Unpacks `n` (a multiple of 32 but for the last) values of `width` bits. */
static void
delta_unpack(const uint8_t *bytes, size_t bytes_left, unsigned width, size_t n, uint64_t *ret)
{
        uint8_t copy[32 * 8 + LS_BITS_SLACK];

        for (size_t i = 0; i < n; i += 32) {
                const uint8_t *at = bytes + i / 8 * width;
                size_t left = bytes_left - (size_t)(at - bytes), m = n - i < 32 ? n - i : 32;

                if (left < 4u * width + 9) {
                        memset(copy, 0, sizeof copy);
                        memcpy(copy, at, left < 4u * width ? left : 4u * width);
                        at = copy;
                }
                for (size_t j = 0; j < m; j++)
                        ret[i + j] = ls_bits_get(at, j, width);
        }
}

/* Reads one miniblock of `n` wanted values into deltas (without the block's smallest). */
static bool
delta_get_mini(struct ls_rd *r, const struct delta_get *d, unsigned width, size_t n,
               uint64_t *ret_deltas)
{
        const uint8_t *p;

        if (width > 64)
                return false;
        p = ls_rd_take(r, d->mini / 8 * width);
        if (p == NULL)
                return false;
        if (width == 0)
                memset(ret_deltas, 0, n * sizeof *ret_deltas);
        else
                delta_unpack(p, (size_t)(r->end - p), width, n, ret_deltas);
        return true;
}

/* Into `wide` or `narrow`, whichever is given. */
static bool
delta_get(struct ls_rd *r, size_t count, int64_t *wide, int32_t *narrow)
{
        struct delta_get d;
        uint64_t deltas[DELTA_MINI_MAX];
        uint64_t v;
        size_t done = 1;

        if (!delta_get_header(r, &d) || d.count != count)
                return false;
        if (count == 0)
                return true;
        v = (uint64_t)d.first;
        if (wide != NULL)
                wide[0] = (int64_t)v;
        else
                narrow[0] = (int32_t)(uint32_t)v;
        while (done < count) {
                uint64_t min = (uint64_t)ls_rd_varint(r);
                const uint8_t *widths = ls_rd_take(r, d.minis);

                if (widths == NULL)
                        return false;
                for (uint64_t m = 0; m < d.minis && done < count; m++) {
                        size_t n = count - done < d.mini ? count - done : d.mini;

                        if (!delta_get_mini(r, &d, widths[m], n, deltas))
                                return false;
                        for (size_t i = 0; i < n; i++) {
                                v += min + deltas[i];
                                if (wide != NULL)
                                        wide[done + i] = (int64_t)v;
                                else
                                        narrow[done + i] = (int32_t)(uint32_t)v;
                        }
                        done += n;
                }
        }
        return true;
}

bool
ls_delta_get_i64(struct ls_rd *r, int64_t *ret_values, size_t count)
{
        return delta_get(r, count, ret_values, NULL);
}

bool
ls_delta_get_i32(struct ls_rd *r, int32_t *ret_values, size_t count)
{
        return delta_get(r, count, NULL, ret_values);
}
