/* base/map.c - see map.h. Linear probing, at most 2/3 full, backward-shift removal. */
#include "base/map.h"

#include <xxhash.h>

#include "base/assert.h"
#include "base/mem.h"

void
ls_map_init(struct ls_map *m)
{
        *m = (struct ls_map){ 0 };
}

void
ls_map_done(struct ls_map *m)
{
        for (size_t i = 0; i < m->cap; i++)
                ls_free(m->entries[i].key);
        ls_free(m->entries);
        ls_map_init(m);
}

static struct ls_map_entry *
map_find(const struct ls_map *m, ls_span key, uint64_t hash)
{
        size_t i = hash & (m->cap - 1);

        while (m->entries[i].key != NULL) {
                struct ls_map_entry *e = &m->entries[i];

                if (e->hash == hash && e->key_len == key.len &&
                    memcmp(e->key, key.ptr, key.len) == 0)
                        return e;
                i = (i + 1) & (m->cap - 1);
        }
        return &m->entries[i];
}

void *
ls_map_get(const struct ls_map *m, ls_span key)
{
        if (m->count == 0)
                return NULL;
        return map_find(m, key, XXH3_64bits(key.ptr, key.len))->value;
}

static void
map_grow(struct ls_map *m)
{
        struct ls_map_entry *old = m->entries;
        size_t old_cap = m->cap;

        m->cap = old_cap ? old_cap * 2 : 16;
        m->entries = ls_calloc(m->cap, sizeof *m->entries);
        for (size_t i = 0; i < old_cap; i++) {
                size_t k = old[i].hash & (m->cap - 1);

                if (old[i].key == NULL)
                        continue;
                while (m->entries[k].key != NULL)
                        k = (k + 1) & (m->cap - 1);
                m->entries[k] = old[i];
        }
        ls_free(old);
}

void *
ls_map_set(struct ls_map *m, ls_span key, void *value)
{
        uint64_t hash = XXH3_64bits(key.ptr, key.len);
        struct ls_map_entry *e;
        void *before;

        LS_ASSERT(value != NULL);
        if ((m->count + 1) * 3 > m->cap * 2)
                map_grow(m);
        e = map_find(m, key, hash);
        if (e->key == NULL) {
                e->key = ls_malloc(key.len);
                if (key.len > 0)
                        memcpy(e->key, key.ptr, key.len);
                e->key_len = key.len;
                e->hash = hash;
                m->count++;
        }
        before = e->value;
        e->value = value;
        return before;
}

void *
ls_map_remove(struct ls_map *m, ls_span key)
{
        struct ls_map_entry *e;
        size_t hole, i;
        void *value;

        if (m->count == 0)
                return NULL;
        e = map_find(m, key, XXH3_64bits(key.ptr, key.len));
        if (e->key == NULL)
                return NULL;
        value = e->value;
        ls_free(e->key);
        hole = (size_t)(e - m->entries);
        for (i = (hole + 1) & (m->cap - 1); m->entries[i].key != NULL; i = (i + 1) & (m->cap - 1)) {
                size_t home = m->entries[i].hash & (m->cap - 1);

                /* an entry may move back to the hole only if its home is not between them */
                if (((i - home) & (m->cap - 1)) >= ((i - hole) & (m->cap - 1))) {
                        m->entries[hole] = m->entries[i];
                        hole = i;
                }
        }
        m->entries[hole] = (struct ls_map_entry){ 0 };
        m->count--;
        return value;
}

struct ls_map_entry *
ls_map_next(const struct ls_map *m, size_t *pos)
{
        while (*pos < m->cap) {
                struct ls_map_entry *e = &m->entries[(*pos)++];

                if (e->key != NULL)
                        return e;
        }
        return NULL;
}
