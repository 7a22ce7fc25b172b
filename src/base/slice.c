/* base/slice.c - see slice.h. */
#include "base/slice.h"

#include "base/assert.h"

struct ls_slice *
ls_slice_new(size_t bytes)
{
        struct ls_slice *s;

        if (bytes > SIZE_MAX / 2)
                return NULL;
        s = ls_try_malloc(sizeof *s + bytes);
        if (s == NULL)
                return NULL;
        *s = (struct ls_slice){ .refs = 1, .ptr = (uint8_t *)(s + 1), .len = bytes };
        return s;
}

struct ls_slice *
ls_slice_copy(ls_span span)
{
        struct ls_slice *s = ls_slice_new(span.len);

        if (s != NULL && span.len > 0)
                memcpy(s->ptr, span.ptr, span.len);
        return s;
}

struct ls_slice *
ls_slice_wrap(uint8_t *ptr, size_t len, void (*free_fn)(void *ctx, uint8_t *ptr, size_t len),
              void *ctx)
{
        struct ls_slice *s = ls_malloc(sizeof *s);

        LS_ASSERT(free_fn != NULL);
        *s = (struct ls_slice){ .refs = 1, .ptr = ptr, .len = len, .free_fn = free_fn, .ctx = ctx };
        return s;
}

struct ls_slice *
ls_slice_view(struct ls_slice *parent, size_t pos, size_t len)
{
        struct ls_slice *s;

        LS_ASSERT(pos <= parent->len && len <= parent->len - pos);
        s = ls_malloc(sizeof *s);
        *s = (struct ls_slice){ .refs = 1,
                                .parent = ls_slice_ref(parent->parent ? parent->parent : parent),
                                .ptr = parent->ptr + pos,
                                .len = len };
        return s;
}

struct ls_slice *
ls_slice_ref(struct ls_slice *s)
{
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
        return s;
}

void
ls_slice_unref(struct ls_slice *s)
{
        if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
                return;
        if (s->parent != NULL)
                ls_slice_unref(s->parent);
        else if (s->free_fn != NULL)
                s->free_fn(s->ctx, s->ptr, s->len);
        ls_free(s);
}
