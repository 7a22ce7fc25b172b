/* base/slice.h - refcounted immutable bytes: never copied between socket, WAL, cache and socket.
 *
 * A slice owns a block of memory, or is a view of a part of another slice (and holds it).
 * Threads: ref and unref from any; the bytes are written only before the slice is shared.
 */
#pragma once
#include <stdatomic.h>

#include "base/mem.h"
#include "base/span.h"

struct ls_slice {
        atomic_uint refs;
        struct ls_slice *parent; /* NULL: the bytes are ours */
        uint8_t *ptr;
        size_t len;
        void (*free_fn)(void *ctx, uint8_t *ptr, size_t len); /* NULL: ls_free of the whole */
        void *ctx;
};

/* A fresh slice of `bytes`, to be filled through ->ptr by its maker. NULL without memory. */
struct ls_slice *ls_slice_new(size_t bytes);
/* Copies `s`; NULL without memory. */
struct ls_slice *ls_slice_copy(ls_span s);
/* Takes over `ptr`, freed by free_fn(ctx, ptr, len) with the last reference. */
struct ls_slice *ls_slice_wrap(uint8_t *ptr, size_t len,
                               void (*free_fn)(void *ctx, uint8_t *ptr, size_t len), void *ctx);
/* A view of [pos, pos+len) of `s`; holds a reference to it. The range must be inside. */
struct ls_slice *ls_slice_view(struct ls_slice *s, size_t pos, size_t len);
struct ls_slice *ls_slice_ref(struct ls_slice *s);
/* Accepts NULL. */
void ls_slice_unref(struct ls_slice *s);
static inline ls_span
ls_slice_span(const struct ls_slice *s)
{
        return s ? (ls_span){ s->ptr, s->len } : LS_SPAN_NULL;
}
static inline void
ls_auto_ls_slice_unref(struct ls_slice **s)
{
        ls_slice_unref(*s);
}
