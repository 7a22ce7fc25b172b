/* base/mem.c - see mem.h and assert.h. */
#include "base/mem.h"

#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

/* Setting them also stops glibc from raising both when it sees large blocks come and go, after
 * which the buffers of one compaction stay for good. Frames of requests stay below the first:
 * mapping 1 MB anew for each costs half as much again as serving it. */
#define MEM_MAPPED_BYTES_MIN (2 << 20)
#define MEM_KEPT_BYTES_MAX   (8 << 20)

void
ls_mem_keep_little(size_t arenas)
{
#ifdef __GLIBC__
        (void)mallopt(M_ARENA_MAX, (int)LS_MIN(arenas, (size_t)INT_MAX));
        (void)mallopt(M_MMAP_THRESHOLD, MEM_MAPPED_BYTES_MIN);
        (void)mallopt(M_TRIM_THRESHOLD, MEM_KEPT_BYTES_MAX);
#endif
}

void
ls_assert_failed(const char *file, int line, const char *cond)
{
        fprintf(stderr, "lakestream: assertion failed: %s:%d: %s\n", file, line, cond);
        fflush(stderr);
        abort();
}

static void *
mem_check(void *p)
{
        if (p == NULL)
                ls_assert_failed(__FILE__, __LINE__, "out of memory");
        return p;
}

void *
ls_malloc(size_t bytes)
{
        return mem_check(malloc(bytes ? bytes : 1));
}

void *
ls_calloc(size_t count, size_t bytes)
{
        return mem_check(calloc(count ? count : 1, bytes ? bytes : 1));
}

void *
ls_realloc(void *p, size_t count, size_t bytes)
{
        size_t total;

        LS_ASSERT(!__builtin_mul_overflow(count, bytes, &total));
        return mem_check(realloc(p, total ? total : 1));
}

void *
ls_try_malloc(size_t bytes)
{
        return malloc(bytes ? bytes : 1);
}

void
ls_free(void *p)
{
        free(p);
}

char *
ls_strdup(const char *s)
{
        size_t len = strlen(s) + 1;

        return memcpy(ls_malloc(len), s, len);
}

char *
ls_format(const char *format, ...)
{
        va_list ap;
        char *text = NULL;
        int len;

        va_start(ap, format);
        len = vasprintf(&text, format, ap);
        va_end(ap);
        LS_ASSERT(len >= 0);
        return mem_check(text);
}

void *
ls_grow(void *items, size_t count, size_t *cap, size_t bytes)
{
        if (count < *cap)
                return items;
        *cap = *cap ? *cap * 2 : 8;
        return ls_realloc(items, *cap, bytes);
}
