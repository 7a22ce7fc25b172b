/* base/buf.c - see buf.h. */
#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

void
ls_buf_init(struct ls_buf *b, size_t bytes_max)
{
        *b = (struct ls_buf){ .max = bytes_max };
}

void
ls_buf_done(struct ls_buf *b)
{
        if (b == NULL)
                return;
        ls_free(b->ptr);
        *b = (struct ls_buf){ .max = b->max };
}

bool
ls_buf_reserve(struct ls_buf *b, size_t bytes)
{
        size_t cap;
        uint8_t *p;

        LS_ASSERT(b->len <= b->cap);
        if (b->failed || b->len > b->max || bytes > b->max - b->len) {
                b->failed = true;
                return false;
        }
        if (b->cap - b->len >= bytes && b->ptr != NULL)
                return true;
        cap = b->cap ? b->cap * 2 : 64;
        if (cap < b->len + bytes)
                cap = b->len + bytes;
        if (cap > b->max)
                cap = b->max ? b->max : 1;
        p = realloc(b->ptr, cap);
        if (p == NULL) {
                b->failed = true;
                return false;
        }
        b->ptr = p;
        b->cap = cap;
        return true;
}

uint8_t *
ls_buf_add_slow(struct ls_buf *b, size_t bytes)
{
        if (!ls_buf_reserve(b, bytes))
                return NULL;
        b->len += bytes;
        return b->ptr + b->len - bytes;
}

void
ls_buf_printf(struct ls_buf *b, const char *format, ...)
{
        va_list ap, again;
        int len;

        va_start(ap, format);
        va_copy(again, ap);
        len = vsnprintf(NULL, 0, format, ap);
        va_end(ap);
        LS_ASSERT(len >= 0);
        if (ls_buf_reserve(b, (size_t)len + 1)) {
                vsnprintf((char *)b->ptr + b->len, (size_t)len + 1, format, again);
                b->len += (size_t)len;
        }
        va_end(again);
}

const char *
ls_buf_cstr(struct ls_buf *b)
{
        if (!ls_buf_reserve(b, 1))
                return "";
        b->ptr[b->len] = '\0';
        return (const char *)b->ptr;
}

void
ls_buf_put_uvarint(struct ls_buf *b, uint64_t v)
{
        uint8_t bytes[10];
        size_t n = 0;

        do {
                bytes[n] = (uint8_t)(v & 0x7f) | (v > 0x7f ? 0x80 : 0);
                v >>= 7;
                n++;
        } while (v > 0);
        ls_buf_put(b, bytes, n);
}
