/* base/map.h - a hash map from bytes to pointers. Open addressing, keys are copied.
 *
 * Threads: one owner, or the owner's lock. Iteration order is not defined.
 */
#pragma once
#include "base/span.h"

struct ls_map_entry {
        uint8_t *key; /* NULL: free place */
        size_t key_len;
        uint64_t hash;
        void *value;
};
struct ls_map {
        struct ls_map_entry *entries;
        size_t cap; /* a power of two, or 0 */
        size_t count;
};

void ls_map_init(struct ls_map *m);
/* Frees keys and places; values are the caller's. */
void ls_map_done(struct ls_map *m);
/* NULL when absent. */
void *ls_map_get(const struct ls_map *m, ls_span key);
/* Sets and returns the value that stood there before, or NULL. `value` is not NULL. */
void *ls_map_set(struct ls_map *m, ls_span key, void *value);
/* Removes and returns the value, or NULL when absent. */
void *ls_map_remove(struct ls_map *m, ls_span key);
/* Walks: start with *pos = 0; NULL at the end. The map must not change meanwhile. */
struct ls_map_entry *ls_map_next(const struct ls_map *m, size_t *pos);

static inline ls_span
ls_map_key_str(ls_str s)
{
        return (ls_span){ (const uint8_t *)s.ptr, s.len };
}
static inline ls_span
ls_map_key_u64(const uint64_t *v)
{
        return (ls_span){ (const uint8_t *)v, 8 };
}
