/* base/arena.h - memory for one request: freed whole, nothing in it is freed singly.
 *
 * Bounded: past `bytes_max` an allocation gives NULL. Threads: one owner.
 */
#pragma once
#include <stddef.h>

#include "base/span.h"

struct ls_arena_block;
struct ls_arena {
        struct ls_arena_block *block; /* the newest */
        size_t used, cap;             /* of the newest block */
        size_t bytes, bytes_max;      /* of all blocks */
};

#define LS_ARENA_MAX_DEFAULT ((size_t)256 << 20)

void ls_arena_init(struct ls_arena *a, size_t bytes_max);
/* Frees everything; the arena may be used again. */
void ls_arena_done(struct ls_arena *a);
/* Frees all but the first block: for the next request. */
void ls_arena_reset(struct ls_arena *a);
/* 16-aligned, not cleared; NULL past the maximum. */
void *ls_arena_alloc(struct ls_arena *a, size_t bytes);
/* Cleared array; NULL past the maximum or on overflow. */
void *ls_arena_array(struct ls_arena *a, size_t count, size_t bytes);
/* Copies; the copy has a NUL behind it. Null stays null; NULL ptr with len>0 never. */
ls_str ls_arena_str(struct ls_arena *a, ls_str s);
/* printf into the arena; "" when past the maximum. */
ls_str ls_arena_printf(struct ls_arena *a, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
