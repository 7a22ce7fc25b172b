/* store/local/local.c - objects as files under a folder. See store.h.
 *
 * A key is the path of its file. What is written goes into a file of the folder TMP first, is
 * synced there, gets its name by rename(2) or, if absent, link(2), and is answered when the
 * folder of the name is synced. '~' stands in no key, so nothing in TMP is an object.
 *
 * Etags: inode, time of modification, size. The times that we set are all different within a
 * process, and one process at a time has the data folder. Replacing and deleting hold the lock
 * file of the key's stripe (between threads and processes), so that "if match" is one step;
 * creating needs none.
 *
 * TMP/open is locked shared while the store is open: who gets it alone removes what crashes
 * left.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/mem.h"
#include "store/store_int.h"
#include "sys/tree.h"

#define TMP            ".tmp~"
#define TMP_NAME_BYTES 64
#define LOCK_STRIPES   64

struct local {
        struct ls_store base;
        struct ls_tree *tree;
        struct ls_file *open_lock;
        char *uri;
        uint64_t run;              /* random: part of the names in TMP */
        _Atomic uint64_t tmp_next; /* the same */
        _Atomic int64_t last_ns;   /* newest time given to a file */
};

static struct local *
local_of(struct ls_store *s)
{
        return LS_CONTAINER(s, struct local, base);
}

/* ---- write ---- */

static int64_t
local_time_ns(struct local *l)
{
        int64_t now = ls_clock_wall_ms() * 1000000, last = atomic_load(&l->last_ns);

        while (!atomic_compare_exchange_weak(&l->last_ns, &last, LS_MAX(now, last + 1)))
                ;
        return LS_MAX(now, last + 1);
}

static ls_err
tmp_create(struct local *l, char ret_name[TMP_NAME_BYTES], struct ls_file **ret_file)
{
        snprintf(ret_name, TMP_NAME_BYTES, TMP "/%016llx-%llu", (unsigned long long)l->run,
                 (unsigned long long)atomic_fetch_add(&l->tmp_next, 1));
        return ls_tree_create(l->tree, ret_name, ret_file);
}

static void
tmp_drop(struct local *l, const char *name)
{
        ls_err e = ls_tree_delete(l->tree, name); /* else the next open removes it */
        (void)e;
}

/* Makes a written file ready for its name. Closes it in any case; on failure it is gone. */
static ls_err
tmp_seal(struct local *l, const char *name, struct ls_file *f)
{
        ls_err e = ls_file_set_time(f, local_time_ns(l));

        if (e == LS_OK)
                e = ls_file_sync_all(f);
        ls_file_close(f);
        if (e != LS_OK)
                tmp_drop(l, name);
        return e;
}

static ls_err
tmp_write(struct local *l, const ls_span *spans, size_t count, char ret_name[TMP_NAME_BYTES])
{
        struct ls_file *f;
        ls_err e;

        LS_TRY(tmp_create(l, ret_name, &f));
        e = ls_file_write(f, 0, spans, count);
        if (e == LS_OK)
                return tmp_seal(l, ret_name, f);
        ls_file_close(f);
        tmp_drop(l, ret_name);
        return e;
}

static ls_err
key_lock(struct local *l, const char *key, struct ls_file **ret_lock)
{
        char name[TMP_NAME_BYTES];
        uint32_t hash = 2166136261u;

        for (const char *p = key; *p != '\0'; p++)
                hash = (hash ^ (uint8_t)*p) * 16777619u;
        snprintf(name, sizeof name, TMP "/lock-%02u", hash % LOCK_STRIPES);
        return ls_tree_lock(l->tree, name, LS_TREE_EXCLUSIVE, ret_lock);
}

static ls_err
local_put(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        struct local *l = local_of(s);
        char tmp[TMP_NAME_BYTES];
        struct ls_file *lock;
        ls_err e;

        LS_TRY(tmp_write(l, spans, count, tmp));
        e = key_lock(l, key, &lock);
        if (e == LS_OK) {
                e = ls_tree_publish(l->tree, tmp, key, true);
                ls_file_close(lock);
        }
        if (e != LS_OK) {
                tmp_drop(l, tmp);
                return e;
        }
        return ls_tree_sync_folder(l->tree, key);
}

/* Gives the name if there is no such object. What made it LS_EXISTS is durable then. */
static ls_err
local_publish_new(struct local *l, const char *tmp, const char *key)
{
        ls_err e = ls_tree_publish(l->tree, tmp, key, false);

        if (e != LS_OK)
                tmp_drop(l, tmp);
        if (e != LS_OK && e != LS_EXISTS)
                return e;
        LS_TRY(ls_tree_sync_folder(l->tree, key));
        return e;
}

static ls_err
local_put_if_absent(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        struct local *l = local_of(s);
        char tmp[TMP_NAME_BYTES];

        LS_TRY(tmp_write(l, spans, count, tmp));
        return local_publish_new(l, tmp, key);
}

static ls_err
local_head(struct ls_store *s, const char *key, struct ls_store_info *ret_info)
{
        struct ls_tree_info info;

        LS_TRY(ls_tree_stat(local_of(s)->tree, key, &info));
        if (info.is_dir)
                return LS_ABSENT;
        ret_info->bytes = info.bytes;
        ret_info->modified_ms = info.modified_ns / 1000000;
        snprintf(ret_info->etag, sizeof ret_info->etag, "%llx-%llx-%llx",
                 (unsigned long long)info.inode, (unsigned long long)info.modified_ns,
                 (unsigned long long)info.bytes);
        return LS_OK;
}

static ls_err
local_publish_match(struct local *l, const char *tmp, const char *key, const char *etag)
{
        struct ls_store_info info;

        LS_TRY(local_head(&l->base, key, &info));
        if (strcmp(info.etag, etag) != 0)
                return LS_EXISTS;
        return ls_tree_publish(l->tree, tmp, key, true);
}

static ls_err
local_put_if_match(struct ls_store *s, const char *key, const char *etag, ls_span bytes)
{
        struct local *l = local_of(s);
        char tmp[TMP_NAME_BYTES];
        struct ls_file *lock;
        ls_err e;

        LS_TRY(tmp_write(l, &bytes, 1, tmp));
        e = key_lock(l, key, &lock);
        if (e == LS_OK) {
                e = local_publish_match(l, tmp, key, etag);
                ls_file_close(lock);
        }
        if (e != LS_OK)
                tmp_drop(l, tmp);
        if (e != LS_OK && e != LS_EXISTS)
                return e;
        LS_TRY(ls_tree_sync_folder(l->tree, key));
        return e;
}

/* ---- read ---- */

static ls_err
local_get(struct ls_store *s, const char *key, uint64_t pos, size_t len,
          struct ls_slice **ret_bytes)
{
        struct ls_slice *bytes = NULL;
        struct ls_file *f;
        uint64_t size;
        ls_err e;

        LS_TRY(ls_tree_open_file(local_of(s)->tree, key, &f));
        e = ls_file_size(f, &size);
        if (e == LS_OK)
                e = store_range(size, pos, &len);
        if (e == LS_OK) {
                bytes = ls_slice_new(len);
                e = bytes == NULL ? LS_ELIMIT : ls_file_read(f, pos, bytes->ptr, len);
        }
        ls_file_close(f);
        if (e == LS_OK) {
                *ret_bytes = bytes;
                return LS_OK;
        }
        ls_slice_unref(bytes);
        return e == LS_END ? LS_EIO : e; /* somebody cuts the file under us */
}

/* ---- list ---- */

struct lister {
        struct local *l;
        const char *prefix, *after;
        size_t left;
        ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info);
        void *ctx;
        char key[LS_STORE_KEY_BYTES_MAX + LS_STORE_LEVEL_BYTES_MAX + 3]; /* where we are */
};

/* The names in one folder; those of folders end in '/', which is how they sort among the keys. */
struct names {
        char **items;
        size_t count, cap;
};

static ls_err
names_on_entry(void *ctx, const char *name, bool is_dir)
{
        struct names *n = ctx;

        if (ls_store_key_ok(name)) /* anything else is not ours */
                LS_PUSH(n->items, n->count, n->cap, ls_format("%s%s", name, is_dir ? "/" : ""));
        return LS_OK;
}

static int
names_cmp(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
names_done(struct names *n)
{
        for (size_t i = 0; i < n->count; i++)
                ls_free(n->items[i]);
        ls_free(n->items);
}

/* Whether keys under the folder `key`, which ends in '/', can be asked for. */
static bool
lister_wants_folder(const struct lister *lister, const char *key)
{
        size_t len = strlen(key), prefix_len = strlen(lister->prefix);

        return strncmp(key, lister->prefix, LS_MIN(len, prefix_len)) == 0 &&
               (lister->after == NULL || strncmp(key, lister->after, len) >= 0);
}

static ls_err lister_walk(struct lister *lister, size_t len);

/* lister->key holds a file or a folder, of `len` bytes. */
static ls_err
lister_on_name(struct lister *lister, size_t len)
{
        struct ls_store_info info;
        ls_err e;

        if (lister->key[len - 1] == '/')
                return lister_wants_folder(lister, lister->key) ? lister_walk(lister, len) : LS_OK;
        if (!store_listed(lister->key, lister->prefix, lister->after) ||
            !ls_store_key_ok(lister->key))
                return LS_OK;
        e = local_head(&lister->l->base, lister->key, &info);
        if (e == LS_ABSENT)
                return LS_OK; /* deleted meanwhile */
        LS_TRY(e);
        lister->left--;
        return lister->fn(lister->ctx, lister->key, &info);
}

/* Lists the folder of which the name, with its '/', is the first `len` bytes of lister->key. */
static ls_err
lister_walk(struct lister *lister, size_t len)
{
        struct names names = { 0 };
        ls_err e;

        lister->key[len > 0 ? len - 1 : 0] = '\0';
        e = ls_tree_walk(lister->l->tree, lister->key, names_on_entry, &names);
        if (len > 0)
                lister->key[len - 1] = '/';
        if (e == LS_ABSENT)
                e = LS_OK; /* emptied meanwhile */
        if (names.count > 0)
                qsort(names.items, names.count, sizeof *names.items, names_cmp);
        for (size_t i = 0; i < names.count && e == LS_OK && lister->left > 0; i++) {
                size_t name_len = strlen(names.items[i]);

                if (len + name_len > LS_STORE_KEY_BYTES_MAX)
                        continue; /* no key of ours */
                memcpy(lister->key + len, names.items[i], name_len + 1);
                e = lister_on_name(lister, len + name_len);
        }
        names_done(&names);
        return e;
}

static ls_err
local_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
           ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info), void *ctx)
{
        struct lister lister = { .l = local_of(s),
                                 .prefix = prefix,
                                 .after = after,
                                 .left = count_max,
                                 .fn = fn,
                                 .ctx = ctx };
        const char *slash = strrchr(prefix, '/');
        size_t len = slash != NULL ? (size_t)(slash - prefix) + 1 : 0;

        memcpy(lister.key, prefix, len);
        return lister_walk(&lister, len);
}

/* ---- delete ---- */

static ls_err
local_unlink(struct local *l, const char *key)
{
        struct ls_file *lock;
        ls_err e;

        LS_TRY(key_lock(l, key, &lock));
        e = ls_tree_delete(l->tree, key);
        ls_file_close(lock);
        return e == LS_ABSENT ? LS_OK : e;
}

static ls_err
local_del(struct ls_store *s, const char *key)
{
        LS_TRY(local_unlink(local_of(s), key));
        return ls_tree_sync_folder(local_of(s)->tree, key);
}

/* One sync a folder. When it fails, all that was in the folder counts as not deleted. */
static ls_err
local_del_many(struct ls_store *s, const char *const *keys, size_t count, size_t *ret_failed)
{
        struct local *l = local_of(s);
        struct folder {
                const char *key; /* one in it */
                size_t count;
        } *folders = ls_calloc(count > 0 ? count : 1, sizeof *folders);
        size_t folder_count = 0, failed = 0;
        ls_err first = LS_OK;
        struct ls_map seen;

        ls_map_init(&seen);
        for (size_t i = 0; i < count; i++) {
                const char *slash = strrchr(keys[i], '/');
                ls_span name = ls_span_of(keys[i], slash ? (size_t)(slash - keys[i]) : 0);
                ls_err e = local_unlink(l, keys[i]);
                struct folder *folder;

                if (e != LS_OK) {
                        failed++;
                        first = first == LS_OK ? e : first;
                        continue;
                }
                folder = ls_map_get(&seen, name);
                if (folder == NULL) {
                        folder = &folders[folder_count++];
                        folder->key = keys[i];
                        ls_map_set(&seen, name, folder);
                }
                folder->count++;
        }
        for (size_t i = 0; i < folder_count; i++) {
                ls_err e = ls_tree_sync_folder(l->tree, folders[i].key);

                if (e == LS_OK)
                        continue;
                failed += folders[i].count;
                first = first == LS_OK ? e : first;
        }
        ls_map_done(&seen);
        ls_free(folders);
        *ret_failed = failed;
        return first;
}

/* ---- upload in parts ---- */

struct local_writer {
        struct ls_store_writer base;
        struct local *l;
        struct ls_file *f;
        uint64_t pos;
        ls_err failed; /* of a write: finish gives it again */
        char tmp[TMP_NAME_BYTES];
        char key[LS_STORE_KEY_BYTES_MAX + 1];
};

static ls_err
local_writer_write(struct ls_store_writer *base, ls_span bytes)
{
        struct local_writer *w = LS_CONTAINER(base, struct local_writer, base);

        if (w->failed == LS_OK)
                w->failed = ls_file_write(w->f, w->pos, &bytes, 1);
        w->pos += bytes.len;
        return w->failed;
}

static void
local_writer_cancel(struct ls_store_writer *base)
{
        struct local_writer *w = LS_CONTAINER(base, struct local_writer, base);

        ls_file_close(w->f);
        tmp_drop(w->l, w->tmp);
        ls_free(w);
}

static ls_err
local_writer_finish(struct ls_store_writer *base)
{
        struct local_writer *w = LS_CONTAINER(base, struct local_writer, base);
        ls_err e = w->failed;

        if (e != LS_OK) {
                local_writer_cancel(base);
                return e;
        }
        e = tmp_seal(w->l, w->tmp, w->f);
        if (e == LS_OK)
                e = local_publish_new(w->l, w->tmp, w->key);
        ls_free(w);
        return e;
}

static ls_err
local_writer_open(struct ls_store *s, const char *key, struct ls_store_writer **ret_writer)
{
        struct local_writer *w = ls_calloc(1, sizeof *w);
        ls_err e;

        w->l = local_of(s);
        w->base = (struct ls_store_writer){ .write = local_writer_write,
                                            .finish = local_writer_finish,
                                            .cancel = local_writer_cancel };
        memcpy(w->key, key, strlen(key) + 1);
        e = tmp_create(w->l, w->tmp, &w->f);
        if (e != LS_OK) {
                ls_free(w);
                return e;
        }
        *ret_writer = &w->base;
        return LS_OK;
}

/* ---- open ---- */

static void
local_close(struct ls_store *s)
{
        struct local *l = local_of(s);

        ls_file_close(l->open_lock);
        ls_tree_close(l->tree);
        ls_free(l->uri);
        ls_free(l);
}

static const struct ls_store_ops local_ops = {
        .name = "local",
        .put = local_put,
        .put_if_absent = local_put_if_absent,
        .put_if_match = local_put_if_match,
        .get = local_get,
        .head = local_head,
        .list = local_list,
        .del = local_del,
        .del_many = local_del_many,
        .writer_open = local_writer_open,
        .close = local_close,
};

static ls_err
clean_on_entry(void *ctx, const char *name, bool is_dir)
{
        struct names *n = ctx;

        if (!is_dir && strncmp(name, "lock-", 5) != 0 && strcmp(name, "open") != 0)
                LS_PUSH(n->items, n->count, n->cap, ls_format(TMP "/%s", name));
        return LS_OK;
}

/* Removes what crashes left in TMP, unless somebody else has the store open. */
static ls_err
local_clean(struct local *l)
{
        struct names names = { 0 };
        struct ls_file *alone;
        ls_err e = ls_tree_lock(l->tree, TMP "/open", LS_TREE_EXCLUSIVE_TRY, &alone);

        if (e == LS_BUSY)
                return LS_OK;
        LS_TRY(e);
        e = ls_tree_walk(l->tree, TMP, clean_on_entry, &names);
        for (size_t i = 0; i < names.count && e == LS_OK; i++) {
                e = ls_tree_delete(l->tree, names.items[i]);
                if (e == LS_ABSENT)
                        e = LS_OK;
        }
        names_done(&names);
        ls_file_close(alone);
        return e;
}

static ls_err
local_prepare(struct local *l, const char *dir)
{
        char *absolute;

        LS_TRY(ls_tree_open(dir, &l->tree));
        LS_TRY(ls_path_absolute(dir, &absolute));
        l->uri = ls_format("file://%s", absolute);
        ls_free(absolute);
        l->base.uri = l->uri;
        LS_TRY(ls_tree_make_dir(l->tree, TMP));
        LS_TRY(local_clean(l));
        return ls_tree_lock(l->tree, TMP "/open", LS_TREE_SHARED, &l->open_lock);
}

ls_err
ls_store_local_open(const char *dir, struct ls_store **ret_store, struct ls_errinfo *reterr)
{
        struct local *l = ls_calloc(1, sizeof *l);
        ls_err e;

        l->base.ops = &local_ops;
        ls_random(&l->run, sizeof l->run);
        e = local_prepare(l, dir);
        if (e != LS_OK) {
                local_close(&l->base);
                return ls_fail(reterr, e, "cannot use the folder %s as a store: %s", dir,
                               ls_err_text(e));
        }
        *ret_store = &l->base;
        return LS_OK;
}
