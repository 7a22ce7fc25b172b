/* store/cache/cache.c - ranges of objects of a store that is far away, kept in memory.
 *
 * Objects are immutable and their names never used twice, so what was read stays true. An object is
 * cut into blocks; what one request brought is an *extent*, a run of blocks. A range is fetched by
 * whoever asks first, others that want it meanwhile wait for the same request. Where the blocks
 * before one are there, a reader goes from front to back: the blocks behind are fetched ahead, in
 * larger and larger requests, several at once, so that the reader waits for bytes, not for round
 * trips.
 *
 * absent --claim--> fetching --> ready --evict--> absent        (failed: absent at once)
 *
 * Bound: extents, also those under way, are counted; the longest unused go first, and nothing is
 * fetched ahead that does not fit. A read itself is never refused. Slices that callers hold live
 * on.
 *
 * Lock: one, never held across a request; a leaf.
 */
#include <stdatomic.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/metric.h"
#include "store/store_int.h"
#include "sys/jobs.h"

#define CACHE_BLOCK_BYTES ((uint64_t)1 << 20)
#define CACHE_RUN_MAX     8  /* blocks of one request that is made ahead */
#define CACHE_AHEAD_MAX   16 /* blocks ahead of a reader */
#define CACHE_THREADS     8
#define CACHE_READ_MAX    ((size_t)64 << 20) /* larger reads are not kept */

static LS_METRIC(metric_hits, COUNTER, "lakestream_store_cache_hits_total",
                 "Reads of the object store that were answered from memory.");
static LS_METRIC(metric_misses, COUNTER, "lakestream_store_cache_misses_total",
                 "Reads of the object store that waited for a request.");
static LS_METRIC(metric_ahead, COUNTER, "lakestream_store_cache_ahead_total",
                 "Requests to the object store made ahead of the reader.");
static LS_METRIC(metric_bytes, GAUGE, "lakestream_store_cache_bytes",
                 "Bytes of objects kept in memory, those under way included.");

enum extent_state { EXTENT_FETCHING, EXTENT_READY, EXTENT_FAILED };

struct object;
struct extent {
        struct extent *older, *newer; /* of the cache's list, when ready and not dropped */
        struct object *object;        /* a reference */
        size_t first, count;          /* blocks */
        unsigned refs;                /* the object's table; fetcher and waiters */
        enum extent_state state;
        ls_err error;
        uint64_t bytes;
        struct ls_slice *slice;
        bool listed;
};
struct object {
        char *key;
        uint64_t bytes;
        unsigned refs;    /* the cache's map; extents; readers */
        unsigned readers; /* it stays in the map while there is one */
        size_t block_count;
        struct extent **blocks; /* who covers each; NULL: nobody */
        size_t covered;         /* blocks that have one */
        bool gone;              /* not in the map any more */
};
struct cache {
        struct ls_store store;
        struct ls_store_ops ops;
        struct ls_store *inner;
        struct ls_jobs *jobs;
        uint64_t bytes_max;
        atomic_bool closing; /* what is queued is not fetched any more */

        pthread_mutex_t lock;
        struct ls_cond changed; /* an extent is not fetching any more */
        struct ls_map objects;  /* by key */
        struct ls_map writing;  /* keys of objects that are being replaced: count of calls */
        struct extent *newest, *oldest;
        uint64_t bytes;
};

static struct cache *
cache_of(struct ls_store *s)
{
        return LS_CONTAINER(s, struct cache, store);
}

/* ---- under the lock ---- */

static void
object_unref(struct object *o)
{
        if (--o->refs > 0)
                return;
        LS_ASSERT(o->covered == 0);
        ls_free(o->blocks);
        ls_free(o->key);
        ls_free(o);
}

static void
object_forget(struct cache *c, struct object *o)
{
        if (o->gone)
                return;
        o->gone = true;
        ls_map_remove(&c->objects, ls_map_key_str(ls_str_of(o->key)));
        object_unref(o);
}

static void
extent_unref(struct extent *x)
{
        if (--x->refs > 0)
                return;
        ls_slice_unref(x->slice);
        object_unref(x->object);
        ls_free(x);
}

static void
list_remove(struct cache *c, struct extent *x)
{
        if (!x->listed)
                return;
        *(x->newer != NULL ? &x->newer->older : &c->newest) = x->older;
        *(x->older != NULL ? &x->older->newer : &c->oldest) = x->newer;
        x->listed = false;
}

static void
list_add(struct cache *c, struct extent *x)
{
        x->newer = NULL;
        x->older = c->newest;
        *(c->newest != NULL ? &c->newest->newer : &c->oldest) = x;
        c->newest = x;
        x->listed = true;
}

static void
extent_use(struct cache *c, struct extent *x)
{
        if (x->listed && c->newest != x) {
                list_remove(c, x);
                list_add(c, x);
        }
}

/* Takes an extent out of its object's table. */
static void
extent_drop(struct cache *c, struct extent *x)
{
        struct object *o = x->object;

        list_remove(c, x);
        for (size_t i = x->first; i < x->first + x->count; i++) {
                LS_ASSERT(o->blocks[i] == x);
                o->blocks[i] = NULL;
        }
        o->covered -= x->count;
        c->bytes -= x->bytes;
        ls_metric_set(&metric_bytes, (int64_t)c->bytes);
        o->refs++; /* until the end of this function */
        extent_unref(x);
        if (o->covered == 0 && o->readers == 0)
                object_forget(c, o);
        object_unref(o);
}

/* Makes room for `bytes`, as far as there is something unused. */
static bool
cache_make_room(struct cache *c, uint64_t bytes)
{
        while (c->bytes + bytes > c->bytes_max && c->oldest != NULL)
                extent_drop(c, c->oldest);
        return c->bytes + bytes <= c->bytes_max;
}

/* Claims blocks that nobody covers. The reference is the caller's, who must fetch. */
static struct extent *
extent_claim(struct cache *c, struct object *o, size_t first, size_t count)
{
        struct extent *x = ls_calloc(1, sizeof *x);

        x->object = o;
        o->refs++;
        x->first = first;
        x->count = count;
        x->refs = 2;
        x->bytes =
                LS_MIN((first + count) * CACHE_BLOCK_BYTES, o->bytes) - first * CACHE_BLOCK_BYTES;
        for (size_t i = first; i < first + count; i++) {
                LS_ASSERT(o->blocks[i] == NULL);
                o->blocks[i] = x;
        }
        o->covered += count;
        c->bytes += x->bytes;
        ls_metric_set(&metric_bytes, (int64_t)c->bytes);
        return x;
}

/* Blocks from `first` on that nobody covers, at most `most`. */
static size_t
run_uncovered(const struct object *o, size_t first, size_t most)
{
        size_t n = 0;

        while (n < most && first + n < o->block_count && o->blocks[first + n] == NULL)
                n++;
        return n;
}

/* Blocks right before `at` that are covered, at most `most`: how long a reader has come from there.
 */
static size_t
run_before(const struct object *o, size_t at, size_t most)
{
        size_t n = 0;

        while (n < most && n < at && o->blocks[at - n - 1] != NULL)
                n++;
        return n;
}

/* ---- fetching ---- */

/* Fetches what was claimed; the caller's reference stays. Not under the lock. */
static void
extent_fetch(struct cache *c, struct extent *x)
{
        struct ls_slice *got = NULL;
        ls_err e = LS_CANCELED;

        if (!atomic_load(&c->closing))
                e = ls_store_get(c->inner, x->object->key, x->first * CACHE_BLOCK_BYTES,
                                 (size_t)x->bytes, &got);

        pthread_mutex_lock(&c->lock);
        x->slice = got;
        x->error = e;
        x->state = e == LS_OK ? EXTENT_READY : EXTENT_FAILED;
        if (e != LS_OK || x->object->gone)
                extent_drop(c, x);
        else
                list_add(c, x);
        ls_cond_broadcast(&c->changed);
        pthread_mutex_unlock(&c->lock);
}

struct ahead {
        struct ls_job job;
        struct cache *cache;
        struct extent *extent;
};

static void
ahead_run(struct ls_job *job)
{
        struct ahead *a = LS_CONTAINER(job, struct ahead, job);
        struct cache *c = a->cache;

        extent_fetch(c, a->extent);
        pthread_mutex_lock(&c->lock);
        extent_unref(a->extent);
        pthread_mutex_unlock(&c->lock);
        ls_free(a);
}

/* A read of blocks [first, last] begins. When it goes on where others were, blocks behind it are
 * claimed: as many again as stand before it, at most CACHE_AHEAD_MAX, once half of these are used.
 * Under the lock. */
static void
ahead_start(struct cache *c, struct object *o, size_t first, size_t last)
{
        size_t ahead = LS_MIN(2 * run_before(o, first, CACHE_AHEAD_MAX), (size_t)CACHE_AHEAD_MAX),
               next = last + 1, count;
        struct ahead *a;

        while (next < o->block_count && next <= last + ahead && o->blocks[next] != NULL)
                next++;
        if (next > last + ahead / 2)
                return;
        count = run_uncovered(o, next, LS_MIN(last + ahead + 1 - next, (size_t)CACHE_RUN_MAX));
        if (count == 0 || !cache_make_room(c, count * CACHE_BLOCK_BYTES))
                return;
        a = ls_calloc(1, sizeof *a);
        a->cache = c;
        a->extent = extent_claim(c, o, next, count);
        a->job.run = ahead_run;
        ls_metric_add(&metric_ahead, 1);
        ls_jobs_submit(c->jobs, &a->job);
}

/* The object with its size, which is asked for when it is not known. The reference is the caller's.
 */
static ls_err
object_get(struct cache *c, const char *key, struct object **ret_object)
{
        ls_span name = ls_map_key_str(ls_str_of(key));
        struct ls_store_info info;
        struct object *o;

        pthread_mutex_lock(&c->lock);
        o = ls_map_get(&c->objects, name);
        if (o != NULL) {
                o->refs++;
                o->readers++;
        }
        pthread_mutex_unlock(&c->lock);
        if (o == NULL) {
                LS_TRY(ls_store_head(c->inner, key, &info));
                pthread_mutex_lock(&c->lock);
                o = ls_map_get(&c->objects, name);
                if (o == NULL) {
                        o = ls_calloc(1, sizeof *o);
                        o->key = ls_strdup(key);
                        o->bytes = info.bytes;
                        o->block_count =
                                (size_t)((info.bytes + CACHE_BLOCK_BYTES - 1) / CACHE_BLOCK_BYTES);
                        o->blocks = ls_calloc(LS_MAX(o->block_count, (size_t)1), sizeof *o->blocks);
                        o->refs = 1;
                        ls_map_set(&c->objects, name, o);
                }
                o->refs++;
                o->readers++;
                pthread_mutex_unlock(&c->lock);
        }
        *ret_object = o;
        return LS_OK;
}

/* The extent that covers block `at`, ready; fetched up to block `last` when nobody has it. The
 * reference is the caller's. */
static ls_err
extent_get(struct cache *c, struct object *o, size_t at, size_t last, struct extent **ret_extent)
{
        bool claimed = false;
        struct extent *x;
        ls_err e;

        pthread_mutex_lock(&c->lock);
        x = o->blocks[at];
        if (x == NULL) {
                size_t count = run_uncovered(o, at, last - at + 1);

                cache_make_room(c, count * CACHE_BLOCK_BYTES);
                x = extent_claim(c, o, at, count);
                claimed = true;
        } else {
                x->refs++;
        }
        ls_metric_add(x->state == EXTENT_READY ? &metric_hits : &metric_misses, 1);
        pthread_mutex_unlock(&c->lock);
        if (claimed)
                extent_fetch(c, x);
        pthread_mutex_lock(&c->lock);
        while (x->state == EXTENT_FETCHING)
                ls_cond_wait(&c->changed, &c->lock);
        e = x->error;
        if (e == LS_OK)
                extent_use(c, x);
        else
                extent_unref(x);
        pthread_mutex_unlock(&c->lock);
        if (e == LS_OK)
                *ret_extent = x;
        return e;
}

static void
extent_return(struct cache *c, struct extent *x)
{
        pthread_mutex_lock(&c->lock);
        extent_unref(x);
        pthread_mutex_unlock(&c->lock);
}

/* [pos, pos + len) of an object: a view when one extent has it all. */
static ls_err
range_get(struct cache *c, struct object *o, uint64_t pos, size_t len, struct ls_slice **ret_bytes)
{
        size_t last = (size_t)((pos + len - 1) / CACHE_BLOCK_BYTES), done = 0;
        LS_AUTO(ls_slice_unref) struct ls_slice *out = NULL;

        while (done < len) {
                uint64_t from = pos + done, base;
                struct extent *x;
                size_t part;

                LS_TRY(extent_get(c, o, (size_t)(from / CACHE_BLOCK_BYTES), last, &x));
                base = x->first * CACHE_BLOCK_BYTES;
                part = (size_t)LS_MIN(base + x->bytes - from, len - done);
                if (part == len) {
                        *ret_bytes = ls_slice_view(x->slice, (size_t)(from - base), len);
                        extent_return(c, x);
                        return LS_OK;
                }
                if (out == NULL)
                        out = ls_slice_new(len);
                if (out != NULL)
                        memcpy(out->ptr + done, x->slice->ptr + (from - base), part);
                extent_return(c, x);
                if (out == NULL)
                        return LS_ELIMIT;
                done += part;
        }
        *ret_bytes = LS_STEAL(out);
        return LS_OK;
}

/* ---- the store's calls ---- */

static ls_err
cache_get(struct ls_store *s, const char *key, uint64_t pos, size_t len,
          struct ls_slice **ret_bytes)
{
        struct cache *c = cache_of(s);
        struct object *o;
        bool past;
        ls_err e;

        pthread_mutex_lock(&c->lock);
        past = len == 0 || len > CACHE_READ_MAX ||
               ls_map_get(&c->writing, ls_map_key_str(ls_str_of(key))) != NULL;
        pthread_mutex_unlock(&c->lock);
        if (past)
                return ls_store_get(c->inner, key, pos, len, ret_bytes);
        LS_TRY(object_get(c, key, &o));
        e = store_range(o->bytes, pos, &len);
        if (e == LS_OK) {
                pthread_mutex_lock(&c->lock);
                ahead_start(c, o, (size_t)(pos / CACHE_BLOCK_BYTES),
                            (size_t)((pos + len - 1) / CACHE_BLOCK_BYTES));
                pthread_mutex_unlock(&c->lock);
                e = range_get(c, o, pos, len, ret_bytes);
        }
        pthread_mutex_lock(&c->lock);
        o->readers--;
        if (o->covered == 0 && o->readers == 0)
                object_forget(c, o);
        object_unref(o);
        pthread_mutex_unlock(&c->lock);
        return e;
}

/* What was kept of an object is not true any more. */
static void
cache_drop(struct cache *c, const char *key)
{
        struct object *o;

        pthread_mutex_lock(&c->lock);
        o = ls_map_get(&c->objects, ls_map_key_str(ls_str_of(key)));
        if (o != NULL) {
                o->refs++;
                object_forget(c, o);
                for (size_t i = 0; i < o->block_count; i++)
                        if (o->blocks[i] != NULL && o->blocks[i]->state == EXTENT_READY)
                                extent_drop(c, o->blocks[i]);
                object_unref(o);
        }
        pthread_mutex_unlock(&c->lock);
}

/* An object is about to be replaced: until that is over, reads of it go past the cache, so that
 * nobody who has seen the new one finds the old one. */
static void
write_begin(struct cache *c, const char *key)
{
        ls_span name = ls_map_key_str(ls_str_of(key));
        uintptr_t calls;

        pthread_mutex_lock(&c->lock);
        calls = (uintptr_t)ls_map_get(&c->writing, name);
        ls_map_set(&c->writing, name, (void *)(calls + 1));
        pthread_mutex_unlock(&c->lock);
        cache_drop(c, key);
}

static void
write_end(struct cache *c, const char *key)
{
        ls_span name = ls_map_key_str(ls_str_of(key));
        uintptr_t calls;

        cache_drop(c, key); /* what a read that had begun before has put there */
        pthread_mutex_lock(&c->lock);
        calls = (uintptr_t)ls_map_remove(&c->writing, name);
        if (calls > 1)
                ls_map_set(&c->writing, name, (void *)(calls - 1));
        pthread_mutex_unlock(&c->lock);
}

static ls_err
cache_put(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        struct ls_store *inner = cache_of(s)->inner;
        ls_err e;

        write_begin(cache_of(s), key);
        e = inner->ops->put(inner, key, spans, count);
        write_end(cache_of(s), key);
        return e;
}

static ls_err
cache_put_if_absent(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        struct ls_store *inner = cache_of(s)->inner;

        return inner->ops->put_if_absent(inner, key, spans, count);
}

static ls_err
cache_put_if_match(struct ls_store *s, const char *key, const char *etag, ls_span bytes)
{
        ls_err e;

        write_begin(cache_of(s), key);
        e = ls_store_put_if_match(cache_of(s)->inner, key, etag, bytes);
        write_end(cache_of(s), key);
        return e;
}

static ls_err
cache_head(struct ls_store *s, const char *key, struct ls_store_info *ret_info)
{
        return ls_store_head(cache_of(s)->inner, key, ret_info);
}

static ls_err
cache_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
           ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info), void *ctx)
{
        return ls_store_list(cache_of(s)->inner, prefix, after, count_max, fn, ctx);
}

static ls_err
cache_del(struct ls_store *s, const char *key)
{
        ls_err e = ls_store_delete(cache_of(s)->inner, key);

        cache_drop(cache_of(s), key);
        return e;
}

static ls_err
cache_del_many(struct ls_store *s, const char *const *keys, size_t count, size_t *ret_failed)
{
        ls_err e = ls_store_delete_many(cache_of(s)->inner, keys, count, ret_failed);

        for (size_t i = 0; i < count; i++)
                cache_drop(cache_of(s), keys[i]);
        return e;
}

static ls_err
cache_writer_open(struct ls_store *s, const char *key, struct ls_store_writer **ret_writer)
{
        return ls_store_writer_open(cache_of(s)->inner, key, ret_writer);
}

static void
cache_engine_config(struct ls_store *s, void (*fn)(void *ctx, const char *name, const char *value),
                    void *ctx)
{
        ls_store_engine_config(cache_of(s)->inner, fn, ctx);
}

static void
cache_close(struct ls_store *s)
{
        struct cache *c = cache_of(s);

        atomic_store(&c->closing, true);
        ls_jobs_stop(c->jobs); /* what is fetched ahead ends first */
        while (c->oldest != NULL)
                extent_drop(c, c->oldest);
        LS_ASSERT(c->objects.count == 0 && c->bytes == 0);
        ls_map_done(&c->objects);
        ls_map_done(&c->writing);
        ls_cond_done(&c->changed);
        pthread_mutex_destroy(&c->lock);
        ls_store_close(c->inner);
        ls_free(c);
}

static const struct ls_store_ops cache_ops = { .name = "cache",
                                               .put = cache_put,
                                               .put_if_absent = cache_put_if_absent,
                                               .put_if_match = cache_put_if_match,
                                               .get = cache_get,
                                               .head = cache_head,
                                               .list = cache_list,
                                               .del = cache_del,
                                               .del_many = cache_del_many,
                                               .writer_open = cache_writer_open,
                                               .engine_config = cache_engine_config,
                                               .close = cache_close };

ls_err
ls_store_cache_new(struct ls_store *inner, uint64_t bytes_max, struct ls_store **ret_store,
                   struct ls_errinfo *reterr)
{
        struct cache *c = ls_calloc(1, sizeof *c);
        ls_err e = ls_jobs_start("ls-fetch", CACHE_THREADS, &c->jobs);

        if (e != LS_OK) {
                ls_free(c);
                return ls_fail(reterr, e, "cannot start threads: %s", ls_err_text(e));
        }
        c->store = (struct ls_store){ .ops = &cache_ops, .uri = inner->uri };
        c->inner = inner;
        c->bytes_max = bytes_max;
        pthread_mutex_init(&c->lock, NULL);
        ls_cond_init(&c->changed);
        ls_map_init(&c->objects);
        ls_map_init(&c->writing);
        *ret_store = &c->store;
        return LS_OK;
}
