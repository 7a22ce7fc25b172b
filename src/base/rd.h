/* base/rd.h - a read cursor that cannot pass the end.
 *
 * A get past the end (or a malformed varint) sets `failed`, gives 0 and leaves the place; check
 * ls_rd_failed once after a group of gets. Threads: one owner.
 */
#pragma once
#include "base/buf.h"
#include "base/span.h"

struct ls_rd {
        const uint8_t *pos;
        const uint8_t *end;
        bool failed;
};

static inline struct ls_rd
ls_rd_of(ls_span s)
{
        return (struct ls_rd){ s.ptr, s.ptr ? s.ptr + s.len : s.ptr, false };
}
static inline bool
ls_rd_failed(const struct ls_rd *r)
{
        return r->failed;
}
static inline size_t
ls_rd_left(const struct ls_rd *r)
{
        return (size_t)(r->end - r->pos);
}
/* Takes `bytes` or fails: NULL then. */
static inline const uint8_t *
ls_rd_take(struct ls_rd *r, size_t bytes)
{
        const uint8_t *p = r->pos;

        if (__builtin_expect(r->failed || ls_rd_left(r) < bytes, 0)) {
                r->failed = true;
                return NULL;
        }
        r->pos += bytes;
        return p;
}
static inline ls_span
ls_rd_span(struct ls_rd *r, size_t bytes)
{
        const uint8_t *p = ls_rd_take(r, bytes);

        return p ? (ls_span){ p, bytes } : LS_SPAN_NULL;
}
static inline uint8_t
ls_rd_u8(struct ls_rd *r)
{
        const uint8_t *p = ls_rd_take(r, 1);
        return p ? *p : 0;
}
static inline uint16_t
ls_rd_be16(struct ls_rd *r)
{
        const uint8_t *p = ls_rd_take(r, 2);
        return p ? ls_get_be16(p) : 0;
}
static inline uint32_t
ls_rd_be32(struct ls_rd *r)
{
        const uint8_t *p = ls_rd_take(r, 4);
        return p ? ls_get_be32(p) : 0;
}
static inline uint64_t
ls_rd_be64(struct ls_rd *r)
{
        const uint8_t *p = ls_rd_take(r, 8);
        return p ? ls_get_be64(p) : 0;
}
static inline uint32_t
ls_rd_le32(struct ls_rd *r)
{
        const uint8_t *p = ls_rd_take(r, 4);
        return p ? ls_get_le32(p) : 0;
}
static inline uint64_t
ls_rd_le64(struct ls_rd *r)
{
        const uint8_t *p = ls_rd_take(r, 8);
        return p ? ls_get_le64(p) : 0;
}
/* Unsigned LEB128 of at most 64 bits (10 bytes, canonical upper bits); longer fails. */
static inline uint64_t
ls_rd_uvarint(struct ls_rd *r)
{
        uint64_t v = 0;
        unsigned shift = 0;

        for (;;) {
                const uint8_t *p = ls_rd_take(r, 1);

                if (p == NULL)
                        return 0;
                if (shift == 63 && *p > 1) {
                        r->failed = true;
                        return 0;
                }
                v |= (uint64_t)(*p & 0x7f) << shift;
                if ((*p & 0x80) == 0)
                        return v;
                shift += 7;
        }
}
static inline int64_t
ls_rd_varint(struct ls_rd *r)
{
        uint64_t v = ls_rd_uvarint(r);

        return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}
