/* formats/parquet/rle.c - see rle.h. Encodings.md of parquet-format: "RLE / Bit-Packing Hybrid". */
#include "formats/parquet/rle.h"

#include "base/assert.h"
#include "base/mem.h"
#include "formats/parquet/bits.h"

#define RLE_GROUP      8  /* values of a bit-packed group: they end on a byte */
#define RLE_GROUPS_MAX 63 /* groups of a packed run: their header stays one byte */
#define RLE_WIDTH_MAX  32

/* Values come one at a time: a run of 8 or more equal ones is written as such, others in packed
 * groups. `pending` values are not yet in `out`; while repeat >= 8 all of them equal `last`. */
struct rle_put {
        struct ls_buf *out;
        unsigned width;
        uint32_t last;
        size_t repeat;
        uint32_t pending[RLE_GROUP];
        unsigned pending_count;
        size_t header_pos; /* of the open packed run */
        unsigned groups;   /* in it; 0: none open */
};

static void
rle_put_packed_end(struct rle_put *p)
{
        if (p->groups > 0 && !ls_buf_failed(p->out))
                p->out->ptr[p->header_pos] = (uint8_t)(p->groups << 1 | 1);
        p->groups = 0;
}

static void
rle_put_group(struct rle_put *p)
{
        uint8_t packed[RLE_WIDTH_MAX + LS_BITS_SLACK] = { 0 };

        if (p->groups == RLE_GROUPS_MAX)
                rle_put_packed_end(p);
        if (p->groups == 0) {
                p->header_pos = p->out->len;
                ls_buf_put_u8(p->out, 0);
        }
        for (unsigned i = 0; i < RLE_GROUP; i++)
                ls_bits_set(packed, i, p->width, p->pending[i]);
        ls_buf_put(p->out, packed, p->width);
        p->groups++;
        p->pending_count = 0;
        p->repeat = 0;
}

static void
rle_put_run(struct rle_put *p)
{
        rle_put_packed_end(p);
        ls_buf_put_uvarint(p->out, (uint64_t)p->repeat << 1);
        ls_buf_put(p->out, &p->last, (p->width + 7) / 8);
        p->repeat = 0;
        p->pending_count = 0;
}

static inline void
rle_put_value(struct rle_put *p, uint32_t v)
{
        if (v == p->last && p->repeat > 0) {
                if (++p->repeat >= RLE_GROUP)
                        return;
        } else {
                if (p->repeat >= RLE_GROUP)
                        rle_put_run(p);
                p->repeat = 1;
                p->last = v;
        }
        p->pending[p->pending_count++] = v;
        if (p->pending_count == RLE_GROUP)
                rle_put_group(p);
}

static void
rle_put_end(struct rle_put *p)
{
        if (p->repeat >= RLE_GROUP) {
                rle_put_run(p);
        } else if (p->pending_count > 0) {
                while (p->pending_count < RLE_GROUP)
                        p->pending[p->pending_count++] = 0;
                rle_put_group(p);
        }
        rle_put_packed_end(p);
}

void
ls_rle_put_u8(struct ls_buf *out, const uint8_t *values, size_t count, unsigned width)
{
        struct rle_put p = { .out = out, .width = width };

        LS_ASSERT(width <= 8);
        if (count > RLE_GROUP && memcmp(values, values + 1, count - 1) == 0) {
                p.last = values[0]; /* levels mostly are all the same */
                p.repeat = count;
                rle_put_run(&p);
                return;
        }
        for (size_t i = 0; i < count; i++)
                rle_put_value(&p, values[i]);
        rle_put_end(&p);
}

void
ls_rle_put_u32(struct ls_buf *out, const uint32_t *values, size_t count, unsigned width)
{
        struct rle_put p = { .out = out, .width = width };

        LS_ASSERT(width <= RLE_WIDTH_MAX);
        for (size_t i = 0; i < count; i++)
                rle_put_value(&p, values[i]);
        rle_put_end(&p);
}

/* One run of the input: `count` values, all `value`, or packed at `bytes`. */
struct rle_run {
        size_t count;
        const uint8_t *bytes; /* NULL: a repeat */
        uint32_t value;
};

static bool
rle_next(struct ls_rd *r, unsigned width, size_t left, struct rle_run *ret)
{
        uint64_t header = ls_rd_uvarint(r), groups = header >> 1;
        uint8_t value[4] = { 0 };
        const uint8_t *p;

        if (r->failed)
                return false;
        if (header & 1) {
                if (width > 0 && groups > ls_rd_left(r) / width)
                        return false;
                ret->bytes = ls_rd_take(r, width > 0 ? groups * width : 0);
                ret->count = groups > left / RLE_GROUP ? left : groups * RLE_GROUP;
                return !r->failed;
        }
        p = ls_rd_take(r, (width + 7) / 8);
        if (p == NULL)
                return false;
        memcpy(value, p, (width + 7) / 8);
        ret->bytes = NULL;
        ret->value = ls_get_le32(value);
        ret->count = groups > left ? left : groups;
        return true;
}

/* The 8 values of a packed group; `bytes_left` readable from `bytes` on. */
static inline void
rle_unpack_group(const uint8_t *bytes, size_t bytes_left, unsigned width,
                 uint32_t ret_values[RLE_GROUP])
{
        uint8_t copy[RLE_WIDTH_MAX + LS_BITS_SLACK];

        if (bytes_left < width + 9u) {
                memset(copy, 0, sizeof copy);
                memcpy(copy, bytes, width);
                bytes = copy;
        }
        for (unsigned i = 0; i < RLE_GROUP; i++)
                ret_values[i] = (uint32_t)ls_bits_get(bytes, i, width);
}

bool
ls_rle_get_u32(struct ls_rd *r, uint32_t *ret_values, size_t count, unsigned width, uint32_t max)
{
        if (width > RLE_WIDTH_MAX)
                return false;
        for (size_t done = 0; done < count;) {
                struct rle_run run;
                uint32_t group[RLE_GROUP], top = 0;

                if (!rle_next(r, width, count - done, &run))
                        return false;
                if (run.bytes == NULL) {
                        if (run.value > max)
                                return false;
                        for (size_t i = 0; i < run.count; i++)
                                ret_values[done + i] = run.value;
                        done += run.count;
                        continue;
                }
                for (size_t i = 0; i < run.count; i += RLE_GROUP) {
                        const uint8_t *at = run.bytes + i / RLE_GROUP * width;
                        size_t n = LS_MIN(run.count - i, RLE_GROUP);

                        rle_unpack_group(at, (size_t)(r->end - at), width, group);
                        for (size_t j = 0; j < n; j++) {
                                ret_values[done + i + j] = group[j];
                                top = LS_MAX(top, group[j]);
                        }
                }
                if (top > max)
                        return false;
                done += run.count;
        }
        return true;
}

bool
ls_rle_get_u8(struct ls_rd *r, uint8_t *ret_values, size_t count, unsigned width, uint8_t max)
{
        if (width > 8)
                return false;
        for (size_t done = 0; done < count;) {
                struct rle_run run;
                uint32_t group[RLE_GROUP], top = 0;

                if (!rle_next(r, width, count - done, &run))
                        return false;
                if (run.bytes == NULL) {
                        if (run.value > max)
                                return false;
                        memset(ret_values + done, (int)run.value, run.count);
                        done += run.count;
                        continue;
                }
                for (size_t i = 0; i < run.count; i += RLE_GROUP) {
                        const uint8_t *at = run.bytes + i / RLE_GROUP * width;
                        size_t n = LS_MIN(run.count - i, RLE_GROUP);

                        rle_unpack_group(at, (size_t)(r->end - at), width, group);
                        for (size_t j = 0; j < n; j++) {
                                ret_values[done + i + j] = (uint8_t)group[j];
                                top = LS_MAX(top, group[j]);
                        }
                }
                if (top > max)
                        return false;
                done += run.count;
        }
        return true;
}

bool
ls_bitpacked_get_u8(struct ls_rd *r, uint8_t *ret_values, size_t count, unsigned width, uint8_t max)
{
        const uint8_t *p;

        if (width > 8 || count > SIZE_MAX / 8 - 1)
                return false;
        p = ls_rd_take(r, (count * width + 7) / 8);
        if (p == NULL)
                return false;
        for (size_t i = 0, bit = 0; i < count; i++) {
                unsigned v = 0;

                for (unsigned b = 0; b < width; b++, bit++)
                        v = v << 1 | (p[bit / 8] >> (7 - bit % 8) & 1);
                if (v > max)
                        return false;
                ret_values[i] = (uint8_t)v;
        }
        return true;
}
