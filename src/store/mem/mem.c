/* store/mem/mem.c - objects in memory, for tests: a sorted array under one lock. See store.h. */
#include <pthread.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "store/store_int.h"

struct object {
        char *key;
        struct ls_slice *bytes;
        uint64_t version; /* never used twice: the etag */
        int64_t modified_ms;
};

struct mem {
        struct ls_store base;
        pthread_mutex_t lock; /* of all below */
        struct object *objects;
        size_t count, cap;
        uint64_t version_next;
};

static struct mem *
mem_of(struct ls_store *s)
{
        return LS_CONTAINER(s, struct mem, base);
}

/* The place of the first key that is not less than `key`. */
static size_t
mem_find(const struct mem *m, const char *key)
{
        size_t low = 0, high = m->count;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (strcmp(m->objects[middle].key, key) < 0)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low;
}

static struct object *
mem_get_object(const struct mem *m, const char *key)
{
        size_t i = mem_find(m, key);

        return i < m->count && strcmp(m->objects[i].key, key) == 0 ? &m->objects[i] : NULL;
}

/* Whether `key` is a folder of a key that is there, or the other way round. */
static bool
mem_clashes(const struct mem *m, const char *key)
{
        char *folder = ls_format("%s/", key);
        size_t i = mem_find(m, folder);
        bool clash = i < m->count && strncmp(m->objects[i].key, folder, strlen(folder)) == 0;

        for (char *slash; !clash && (slash = strrchr(folder, '/')) != NULL;) {
                *slash = '\0';
                clash = strcmp(folder, key) != 0 && mem_get_object(m, folder) != NULL;
        }
        ls_free(folder);
        return clash;
}

static struct ls_slice *
mem_join(const ls_span *spans, size_t count)
{
        struct ls_slice *all;
        size_t bytes = 0, pos = 0;

        for (size_t i = 0; i < count; i++)
                bytes += spans[i].len;
        all = ls_slice_new(bytes);
        for (size_t i = 0; i < count && all != NULL; i++) {
                if (spans[i].len > 0)
                        memcpy(all->ptr + pos, spans[i].ptr, spans[i].len);
                pos += spans[i].len;
        }
        return all;
}

/* Under the lock; takes `bytes`. */
static ls_err
mem_set(struct mem *m, const char *key, struct ls_slice *bytes)
{
        size_t i = mem_find(m, key);

        if (i == m->count || strcmp(m->objects[i].key, key) != 0) {
                if (mem_clashes(m, key)) {
                        ls_slice_unref(bytes);
                        return LS_INVALID;
                }
                m->objects = ls_grow(m->objects, m->count, &m->cap, sizeof *m->objects);
                memmove(&m->objects[i + 1], &m->objects[i], (m->count - i) * sizeof *m->objects);
                m->count++;
                m->objects[i] = (struct object){ .key = ls_strdup(key) };
        }
        ls_slice_unref(m->objects[i].bytes);
        m->objects[i].bytes = bytes;
        m->objects[i].version = m->version_next++;
        m->objects[i].modified_ms = ls_clock_wall_ms();
        return LS_OK;
}

static ls_err
mem_write(struct mem *m, const char *key, const ls_span *spans, size_t count, bool if_absent)
{
        struct ls_slice *bytes = mem_join(spans, count);
        ls_err e;

        if (bytes == NULL)
                return LS_ELIMIT;
        pthread_mutex_lock(&m->lock);
        if (if_absent && mem_get_object(m, key) != NULL) {
                ls_slice_unref(bytes);
                e = LS_EXISTS;
        } else {
                e = mem_set(m, key, bytes);
        }
        pthread_mutex_unlock(&m->lock);
        return e;
}

static ls_err
mem_put(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        return mem_write(mem_of(s), key, spans, count, false);
}

static ls_err
mem_put_if_absent(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        return mem_write(mem_of(s), key, spans, count, true);
}

static void
mem_info(const struct object *o, struct ls_store_info *ret_info)
{
        ret_info->bytes = o->bytes->len;
        ret_info->modified_ms = o->modified_ms;
        snprintf(ret_info->etag, sizeof ret_info->etag, "v%llu", (unsigned long long)o->version);
}

static ls_err
mem_put_if_match(struct ls_store *s, const char *key, const char *etag, ls_span span)
{
        struct mem *m = mem_of(s);
        struct ls_slice *bytes = ls_slice_copy(span);
        struct ls_store_info info;
        struct object *o;
        ls_err e = LS_OK;

        if (bytes == NULL)
                return LS_ELIMIT;
        pthread_mutex_lock(&m->lock);
        o = mem_get_object(m, key);
        if (o != NULL)
                mem_info(o, &info);
        if (o == NULL || strcmp(info.etag, etag) != 0) {
                ls_slice_unref(bytes);
                e = o == NULL ? LS_ABSENT : LS_EXISTS;
        } else {
                e = mem_set(m, key, bytes);
        }
        pthread_mutex_unlock(&m->lock);
        return e;
}

static ls_err
mem_get(struct ls_store *s, const char *key, uint64_t pos, size_t len, struct ls_slice **ret_bytes)
{
        struct mem *m = mem_of(s);
        struct object *o;
        ls_err e = LS_ABSENT;

        pthread_mutex_lock(&m->lock);
        o = mem_get_object(m, key);
        if (o != NULL)
                e = store_range(o->bytes->len, pos, &len);
        if (e == LS_OK)
                *ret_bytes = ls_slice_view(o->bytes, (size_t)pos, len);
        pthread_mutex_unlock(&m->lock);
        return e;
}

static ls_err
mem_head(struct ls_store *s, const char *key, struct ls_store_info *ret_info)
{
        struct mem *m = mem_of(s);
        struct object *o;

        pthread_mutex_lock(&m->lock);
        o = mem_get_object(m, key);
        if (o != NULL)
                mem_info(o, ret_info);
        pthread_mutex_unlock(&m->lock);
        return o != NULL ? LS_OK : LS_ABSENT;
}

/* The next listed object after `after`; false at the end. */
static bool
mem_next(struct mem *m, const char *prefix, const char *after, char *ret_key,
         struct ls_store_info *ret_info)
{
        bool found = false;
        size_t i;

        pthread_mutex_lock(&m->lock);
        i = mem_find(m, after != NULL && strcmp(after, prefix) > 0 ? after : prefix);
        if (i < m->count && after != NULL && strcmp(m->objects[i].key, after) == 0)
                i++;
        if (i < m->count && store_listed(m->objects[i].key, prefix, after)) {
                found = true;
                memcpy(ret_key, m->objects[i].key, strlen(m->objects[i].key) + 1);
                mem_info(&m->objects[i], ret_info);
        }
        pthread_mutex_unlock(&m->lock);
        return found;
}

static ls_err
mem_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
         ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info), void *ctx)
{
        char key[LS_STORE_KEY_BYTES_MAX + 1];
        struct ls_store_info info;

        /* No lock over fn: it may call the store. */
        for (; count_max > 0 && mem_next(mem_of(s), prefix, after, key, &info); count_max--) {
                LS_TRY(fn(ctx, key, &info));
                after = key;
        }
        return LS_OK;
}

static ls_err
mem_del(struct ls_store *s, const char *key)
{
        struct mem *m = mem_of(s);
        struct object *o;

        pthread_mutex_lock(&m->lock);
        o = mem_get_object(m, key);
        if (o != NULL) {
                size_t i = (size_t)(o - m->objects);

                ls_free(o->key);
                ls_slice_unref(o->bytes);
                m->count--;
                memmove(o, o + 1, (m->count - i) * sizeof *o);
        }
        pthread_mutex_unlock(&m->lock);
        return LS_OK;
}

/* ---- upload in parts ---- */

struct mem_writer {
        struct ls_store_writer base;
        struct mem *m;
        char *key;
        struct ls_slice **parts;
        size_t count, cap;
};

static ls_err
mem_writer_write(struct ls_store_writer *base, ls_span bytes)
{
        struct mem_writer *w = LS_CONTAINER(base, struct mem_writer, base);
        struct ls_slice *part = ls_slice_copy(bytes);

        if (part == NULL)
                return LS_ELIMIT;
        LS_PUSH(w->parts, w->count, w->cap, part);
        return LS_OK;
}

static void
mem_writer_cancel(struct ls_store_writer *base)
{
        struct mem_writer *w = LS_CONTAINER(base, struct mem_writer, base);

        for (size_t i = 0; i < w->count; i++)
                ls_slice_unref(w->parts[i]);
        ls_free(w->parts);
        ls_free(w->key);
        ls_free(w);
}

static ls_err
mem_writer_finish(struct ls_store_writer *base)
{
        struct mem_writer *w = LS_CONTAINER(base, struct mem_writer, base);
        ls_span *spans = ls_calloc(w->count + 1, sizeof *spans);
        ls_err e;

        for (size_t i = 0; i < w->count; i++)
                spans[i] = ls_slice_span(w->parts[i]);
        e = mem_write(w->m, w->key, spans, w->count, true);
        ls_free(spans);
        mem_writer_cancel(base);
        return e;
}

static ls_err
mem_writer_open(struct ls_store *s, const char *key, struct ls_store_writer **ret_writer)
{
        struct mem_writer *w = ls_calloc(1, sizeof *w);

        w->m = mem_of(s);
        w->key = ls_strdup(key);
        w->base = (struct ls_store_writer){ .write = mem_writer_write,
                                            .finish = mem_writer_finish,
                                            .cancel = mem_writer_cancel };
        *ret_writer = &w->base;
        return LS_OK;
}

static void
mem_close(struct ls_store *s)
{
        struct mem *m = mem_of(s);

        for (size_t i = 0; i < m->count; i++) {
                ls_free(m->objects[i].key);
                ls_slice_unref(m->objects[i].bytes);
        }
        ls_free(m->objects);
        pthread_mutex_destroy(&m->lock);
        ls_free(m);
}

static const struct ls_store_ops mem_ops = {
        .name = "mem",
        .put = mem_put,
        .put_if_absent = mem_put_if_absent,
        .put_if_match = mem_put_if_match,
        .get = mem_get,
        .head = mem_head,
        .list = mem_list,
        .del = mem_del,
        .writer_open = mem_writer_open,
        .close = mem_close,
};

struct ls_store *
ls_store_mem_new(void)
{
        struct mem *m = ls_calloc(1, sizeof *m);

        m->base = (struct ls_store){ .ops = &mem_ops, .uri = "mem://" };
        pthread_mutex_init(&m->lock, NULL);
        return &m->base;
}
