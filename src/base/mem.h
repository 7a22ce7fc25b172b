/* base/mem.h - the only place that calls malloc.
 *
 * Fixed small allocations abort on out-of-memory. What a peer can size is charged to a budget
 * (base/budget.h) first and allocated with ls_try_malloc. Threads: any.
 */
#pragma once
#include <stddef.h>

#include "base/err.h"

/* Tells the allocator to keep little of what is freed: `arenas` pools at most, large blocks given
 * back at once. For a server, once, before it starts threads; no effect with other allocators. */
void ls_mem_keep_little(size_t arenas);

void *ls_malloc(size_t bytes) __attribute__((malloc, returns_nonnull));
void *ls_calloc(size_t count, size_t bytes) __attribute__((malloc, returns_nonnull));
/* Grows or makes an array of `count` elements of `bytes`; aborts on overflow. */
void *ls_realloc(void *p, size_t count, size_t bytes) __attribute__((returns_nonnull));
/* NULL when there is no memory: for sizes that come from outside. */
void *ls_try_malloc(size_t bytes) __attribute__((malloc));
void ls_free(void *p);
char *ls_strdup(const char *s) __attribute__((malloc, returns_nonnull));
/* printf into fresh memory; the caller frees it with ls_free. */
char *ls_format(const char *format, ...) LS_PRINTF(1, 2) __attribute__((malloc, returns_nonnull));

/* Makes room for one more element in a growing array (`*items`, `count` used, `*cap` there). */
void *ls_grow(void *items, size_t count, size_t *cap, size_t bytes);
#define LS_PUSH(items, count, cap, value)                                     \
        do {                                                                  \
                (items) = ls_grow((items), (count), &(cap), sizeof *(items)); \
                (items)[(count)++] = (value);                                 \
        } while (0)

/* Scope cleanup: LS_AUTO(x_free) struct x *p = NULL; the function takes the pointer itself. */
#define LS_AUTO(fn) __attribute__((cleanup(ls_auto_##fn)))
#define LS_DEFINE_AUTO(type, fn)                 \
        static inline void ls_auto_##fn(type *p) \
        {                                        \
                fn(*p);                          \
        }                                        \
        struct ls_semicolon_
#define LS_STEAL(p)                            \
        ({                                     \
                __typeof__(p) ls_steal_ = (p); \
                (p) = NULL;                    \
                ls_steal_;                     \
        })

static inline void
ls_auto_ls_free(void *p)
{
        ls_free(*(void **)p);
}
#define LS_COUNT(array)                 (sizeof(array) / sizeof((array)[0]))
#define LS_MIN(a, b)                    ((a) < (b) ? (a) : (b))
#define LS_MAX(a, b)                    ((a) > (b) ? (a) : (b))
#define LS_CONTAINER(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))
