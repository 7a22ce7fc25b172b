/* base/buf.h - a byte buffer that grows up to a maximum given at init, and big- and little-endian
 * writers for it.
 *
 * A put past the maximum (or without memory) sets `failed` and writes nothing; callers check
 * ls_buf_failed once at the end. Threads: one owner.
 */
#pragma once
#include "base/err.h"
#include "base/span.h"

struct ls_buf {
        uint8_t *ptr;
        size_t len;
        size_t cap;
        size_t max;  /* bytes; len never passes it */
        bool failed; /* a put did not fit: the content is not usable */
};

#define LS_BUF_MAX_DEFAULT ((size_t)1 << 31)

void ls_buf_init(struct ls_buf *b, size_t bytes_max);
/* Frees the memory; the buffer may be used again. */
void ls_buf_done(struct ls_buf *b);
/* Empties it and keeps the memory. */
static inline void
ls_buf_clear(struct ls_buf *b)
{
        b->len = 0;
        b->failed = false;
}
static inline bool
ls_buf_failed(const struct ls_buf *b)
{
        return b->failed;
}
static inline ls_span
ls_buf_span(const struct ls_buf *b)
{
        return (ls_span){ b->ptr, b->len };
}

/* Adds `bytes` of room and returns where they start (valid until the next put), or NULL. */
uint8_t *ls_buf_add_slow(struct ls_buf *b, size_t bytes);
static inline uint8_t *
ls_buf_add(struct ls_buf *b, size_t bytes)
{
        if (!b->failed && b->cap - b->len >= bytes && b->max - b->len >= bytes && b->ptr) {
                b->len += bytes;
                return b->ptr + b->len - bytes;
        }
        return ls_buf_add_slow(b, bytes);
}
/* Makes sure that `bytes` more fit without moving; false sets failed. */
bool ls_buf_reserve(struct ls_buf *b, size_t bytes);

static inline void
ls_buf_put(struct ls_buf *b, const void *src, size_t bytes)
{
        uint8_t *p = ls_buf_add(b, bytes);

        if (p != NULL && bytes > 0)
                memcpy(p, src, bytes);
}
static inline void
ls_buf_put_span(struct ls_buf *b, ls_span s)
{
        ls_buf_put(b, s.ptr, s.len);
}
static inline void
ls_buf_put_str(struct ls_buf *b, ls_str s)
{
        ls_buf_put(b, s.ptr, s.len);
}
static inline void
ls_buf_put_text(struct ls_buf *b, const char *s)
{
        ls_buf_put(b, s, strlen(s));
}
void ls_buf_printf(struct ls_buf *b, const char *format, ...) LS_PRINTF(2, 3);
/* A NUL behind the content that does not count in len: ptr may then be read as a C string. */
const char *ls_buf_cstr(struct ls_buf *b);

static inline void
ls_buf_put_u8(struct ls_buf *b, uint8_t v)
{
        ls_buf_put(b, &v, 1);
}
static inline void
ls_buf_put_be16(struct ls_buf *b, uint16_t v)
{
        v = __builtin_bswap16(v);
        ls_buf_put(b, &v, 2);
}
static inline void
ls_buf_put_be32(struct ls_buf *b, uint32_t v)
{
        v = __builtin_bswap32(v);
        ls_buf_put(b, &v, 4);
}
static inline void
ls_buf_put_be64(struct ls_buf *b, uint64_t v)
{
        v = __builtin_bswap64(v);
        ls_buf_put(b, &v, 8);
}
static inline void
ls_buf_put_le16(struct ls_buf *b, uint16_t v)
{
        ls_buf_put(b, &v, 2);
}
static inline void
ls_buf_put_le32(struct ls_buf *b, uint32_t v)
{
        ls_buf_put(b, &v, 4);
}
static inline void
ls_buf_put_le64(struct ls_buf *b, uint64_t v)
{
        ls_buf_put(b, &v, 8);
}
/* Unsigned LEB128, and zigzag of it (Kafka varint, protobuf, thrift, Avro). */
void ls_buf_put_uvarint(struct ls_buf *b, uint64_t v);
static inline void
ls_buf_put_varint(struct ls_buf *b, int64_t v)
{
        ls_buf_put_uvarint(b, ((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}
/* Bytes that ls_buf_put_uvarint takes for v: 1 to 10. */
static inline size_t
ls_uvarint_size(uint64_t v)
{
        return v ? (size_t)(70 - __builtin_clzll(v)) / 7 : 1;
}
static inline size_t
ls_varint_size(int64_t v)
{
        return ls_uvarint_size(((uint64_t)v << 1) ^ (uint64_t)(v >> 63));
}

/* Loads and stores at a place that is known to be inside. */
static inline uint16_t
ls_get_be16(const void *p)
{
        uint16_t v;
        memcpy(&v, p, 2);
        return __builtin_bswap16(v);
}
static inline uint32_t
ls_get_be32(const void *p)
{
        uint32_t v;
        memcpy(&v, p, 4);
        return __builtin_bswap32(v);
}
static inline uint64_t
ls_get_be64(const void *p)
{
        uint64_t v;
        memcpy(&v, p, 8);
        return __builtin_bswap64(v);
}
static inline uint32_t
ls_get_le32(const void *p)
{
        uint32_t v;
        memcpy(&v, p, 4);
        return v;
}
static inline uint64_t
ls_get_le64(const void *p)
{
        uint64_t v;
        memcpy(&v, p, 8);
        return v;
}
static inline void
ls_set_be32(void *p, uint32_t v)
{
        v = __builtin_bswap32(v);
        memcpy(p, &v, 4);
}
static inline void
ls_set_be64(void *p, uint64_t v)
{
        v = __builtin_bswap64(v);
        memcpy(p, &v, 8);
}
static inline void
ls_set_le32(void *p, uint32_t v)
{
        memcpy(p, &v, 4);
}
static inline void
ls_set_le64(void *p, uint64_t v)
{
        memcpy(p, &v, 8);
}
