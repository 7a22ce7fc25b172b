/* base/arena.c - see arena.h. */
#include "base/arena.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"

struct ls_arena_block {
        struct ls_arena_block *older;
        size_t bytes;
        _Alignas(16) uint8_t data[];
};

#define ARENA_BLOCK_BYTES     ((size_t)4096 - 32) /* first: a small request fits in one page */
#define ARENA_BLOCK_BYTES_MAX ((size_t)256 << 10)

void
ls_arena_init(struct ls_arena *a, size_t bytes_max)
{
        *a = (struct ls_arena){ .bytes_max = bytes_max };
}

void
ls_arena_done(struct ls_arena *a)
{
        struct ls_arena_block *b = a->block;

        while (b != NULL) {
                struct ls_arena_block *older = b->older;

                ls_free(b);
                b = older;
        }
        ls_arena_init(a, a->bytes_max);
}

void
ls_arena_reset(struct ls_arena *a)
{
        struct ls_arena_block *b = a->block;

        if (b == NULL)
                return;
        while (b->older != NULL) {
                struct ls_arena_block *older = b->older;

                ls_free(b);
                b = older;
        }
        a->block = b;
        a->used = 0;
        a->cap = b->bytes;
        a->bytes = b->bytes;
}

static bool
arena_grow(struct ls_arena *a, size_t bytes)
{
        size_t want = a->block ? a->block->bytes * 2 : ARENA_BLOCK_BYTES;
        struct ls_arena_block *b;

        if (want > ARENA_BLOCK_BYTES_MAX)
                want = ARENA_BLOCK_BYTES_MAX;
        if (want < bytes)
                want = bytes;
        if (want > a->bytes_max - a->bytes) {
                want = bytes;
                if (want > a->bytes_max - a->bytes)
                        return false;
        }
        b = ls_try_malloc(sizeof *b + want);
        if (b == NULL)
                return false;
        b->older = a->block;
        b->bytes = want;
        a->block = b;
        a->bytes += want;
        a->used = 0;
        a->cap = want;
        return true;
}

void *
ls_arena_alloc(struct ls_arena *a, size_t bytes)
{
        void *p;

        LS_ASSERT(a->bytes <= a->bytes_max);
        if (bytes > SIZE_MAX / 4)
                return NULL;
        bytes = (bytes + 15) & ~(size_t)15;
        if (bytes == 0)
                bytes = 16;
        if (a->cap - a->used < bytes && !arena_grow(a, bytes))
                return NULL;
        p = a->block->data + a->used;
        a->used += bytes;
        return p;
}

void *
ls_arena_array(struct ls_arena *a, size_t count, size_t bytes)
{
        size_t total;
        void *p;

        if (__builtin_mul_overflow(count, bytes, &total))
                return NULL;
        p = ls_arena_alloc(a, total);
        if (p != NULL)
                memset(p, 0, total);
        return p;
}

ls_str
ls_arena_str(struct ls_arena *a, ls_str s)
{
        char *copy;

        if (s.ptr == NULL)
                return LS_STR_NULL;
        copy = ls_arena_alloc(a, s.len + 1);
        if (copy == NULL)
                return LS_STR_NULL;
        if (s.len > 0)
                memcpy(copy, s.ptr, s.len);
        copy[s.len] = '\0';
        return (ls_str){ copy, s.len };
}

ls_str
ls_arena_printf(struct ls_arena *a, const char *format, ...)
{
        va_list ap, again;
        char *p;
        int len;

        va_start(ap, format);
        va_copy(again, ap);
        len = vsnprintf(NULL, 0, format, ap);
        va_end(ap);
        LS_ASSERT(len >= 0);
        p = ls_arena_alloc(a, (size_t)len + 1);
        if (p != NULL)
                vsnprintf(p, (size_t)len + 1, format, again);
        va_end(again);
        return p ? (ls_str){ p, (size_t)len } : LS_STR("");
}
