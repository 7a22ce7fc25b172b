/* store/objects.c - see objects.h. */
#include "store/objects.h"

#include <assert.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sys/jobs.h"

static struct store_objects *
objects_of(struct ls_store *s)
{
        return LS_CONTAINER(s, struct store_objects, store);
}

static void
token_make(char ret_token[STORE_WRITE_TOKEN_TEXT])
{
        uint64_t random[2];

        ls_random(random, sizeof random);
        snprintf(ret_token, STORE_WRITE_TOKEN_TEXT, "%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
}

/* ---- reading ---- */

void
store_info_of(const struct store_answer *a, struct ls_store_info *ret_info)
{
        ret_info->bytes = a->object_bytes;
        ret_info->modified_ms = a->modified_ms;
        static_assert(sizeof ret_info->etag == sizeof a->etag, "an etag fits");
        memcpy(ret_info->etag, a->etag, sizeof a->etag);
}

static ls_err
look(struct store_objects *o, const char *key, struct ls_store_info *ret_info)
{
        char token[STORE_TOKEN_TEXT_MAX];

        return o->how->look(o, key, ret_info, token);
}

ls_err
store_objects_head(struct ls_store *s, const char *key, struct ls_store_info *ret_info)
{
        return look(objects_of(s), key, ret_info);
}

static void
body_free(void *ctx, uint8_t *ptr, size_t len)
{
        ls_free(ptr);
}

/* The answer to a ranged read, as a slice. */
static ls_err
get_take(struct store_answer *a, uint64_t pos, size_t len, struct ls_slice **ret_bytes)
{
        LS_TRY(store_range(a->object_bytes, pos, &len));
        if (a->body.len != len)
                return LS_EIO; /* the store does not keep to its own headers */
        if (len == 0) {
                *ret_bytes = ls_slice_copy(LS_SPAN_NULL);
                return LS_OK;
        }
        *ret_bytes = ls_slice_wrap(a->body.ptr, a->body.len, body_free, NULL);
        memset(&a->body, 0, sizeof a->body);
        return LS_OK;
}

ls_err
store_objects_get(struct ls_store *s, const char *key, uint64_t pos, size_t len,
                  struct ls_slice **ret_bytes)
{
        struct store_objects *o = objects_of(s);
        struct ls_store_info info;
        struct store_answer a = { 0 };
        char range[64] = { 0 };
        ls_err e;

        if (len > LS_BUF_MAX_DEFAULT) {
                LS_TRY(look(o, key, &info));
                return store_range(info.bytes, pos, &len) == LS_OK ? LS_ELIMIT : LS_OUT_OF_RANGE;
        }
        if (pos > UINT64_MAX - len)
                return LS_OUT_OF_RANGE;
        if (len > 0)
                snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)pos,
                         (unsigned long long)(pos + len - 1));
        else if (pos > 0)
                snprintf(range, sizeof range, "bytes=%llu-", (unsigned long long)pos);
        e = o->how->read(o, key, range[0] != '\0' ? range : NULL,
                         len > 0 ? len : LS_BUF_MAX_DEFAULT, &a);
        if (e == LS_TOO_LARGE)
                e = len > 0 ? LS_EIO : LS_ELIMIT;
        if (e == LS_OK)
                e = get_take(&a, pos, len, ret_bytes);
        store_answer_done(&a);
        /* Nothing from the very end on is no range for HTTP. */
        if (e == LS_OUT_OF_RANGE && len == 0 && look(o, key, &info) == LS_OK && info.bytes == pos) {
                *ret_bytes = ls_slice_copy(LS_SPAN_NULL);
                e = LS_OK;
        }
        return e;
}

/* ---- writing ---- */

/* A write with `token` has an outcome that is not known, or met an object: is that one ours? */
static ls_err
settle(struct store_objects *o, const char *key, const char *token, ls_err e, bool repeated)
{
        char there[STORE_TOKEN_TEXT_MAX];
        struct ls_store_info info;

        if (e != LS_UNKNOWN_OUTCOME && e != LS_EXISTS)
                return e;
        if (o->how->look(o, key, &info, there) != LS_OK)
                return LS_UNKNOWN_OUTCOME; /* absent: it may still come */
        if (strcmp(there, token) == 0)
                return LS_OK;
        return e == LS_EXISTS && !repeated ? LS_EXISTS : LS_UNKNOWN_OUTCOME;
}

static ls_err
write_whole(struct store_objects *o, const char *key, const ls_span *spans, size_t count,
            bool if_absent)
{
        struct store_write w = {
                .key = key, .spans = spans, .count = count, .if_absent = if_absent
        };
        bool repeated = false;
        ls_err e;

        token_make(w.token);
        e = o->how->write(o, &w, &repeated);
        return settle(o, key, w.token, e, repeated);
}

ls_err
store_objects_put(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        return write_whole(objects_of(s), key, spans, count, false);
}

ls_err
store_objects_put_if_absent(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        return write_whole(objects_of(s), key, spans, count, true);
}

ls_err
store_objects_match(struct store_objects *o, const char *key, const char *etag, bool etag_plain,
                    ls_span bytes, bool *ret_same)
{
        struct store_write w = {
                .key = key, .spans = &bytes, .count = 1, .etag = etag, .etag_plain = etag_plain
        };
        char there[STORE_TOKEN_TEXT_MAX];
        struct ls_store_info info = { 0 };
        bool repeated = false;
        ls_err e;

        token_make(w.token);
        e = o->how->write(o, &w, &repeated);
        if (e == LS_UNKNOWN_OUTCOME)
                return settle(o, key, w.token, e, true);
        if (e != LS_EXISTS)
                return e;
        e = o->how->look(o, key, &info, there);
        *ret_same = e == LS_OK && strcmp(info.etag, etag) == 0;
        if (e == LS_OK && strcmp(there, w.token) != 0)
                e = repeated && !*ret_same ? LS_UNKNOWN_OUTCOME : LS_EXISTS;
        return e;
}

ls_err
store_objects_put_if_match(struct ls_store *s, const char *key, const char *etag, ls_span bytes)
{
        struct store_objects *o = objects_of(s);
        struct ls_store_info info;
        bool same;

        if (etag[0] == '\0' || strlen(etag) >= STORE_ETAG_TEXT_MAX) { /* never the current one */
                ls_err e = look(o, key, &info);

                return e == LS_OK ? LS_EXISTS : e;
        }
        return store_objects_match(o, key, etag, false, bytes, &same);
}

/* ---- listing ---- */

ls_err
store_page_add(struct store_page *page)
{
        if (page->next.key == NULL)
                return LS_CORRUPT;
        LS_PUSH(page->entries, page->count, page->cap, page->next);
        memset(&page->next, 0, sizeof page->next);
        return LS_OK;
}

static void
page_done(struct store_page *p)
{
        for (size_t i = 0; i < p->count; i++)
                ls_free(p->entries[i].key);
        ls_free(p->entries);
        ls_free(p->next.key);
        ls_free(p->marker);
}

/* What is out of order would be left out without a word: no such store can be used. */
static ls_err
page_check(const struct store_objects *o, const struct store_page *p)
{
        for (size_t i = 1; i < p->count; i++) {
                if (strcmp(p->entries[i - 1].key, p->entries[i].key) < 0)
                        continue;
                ls_log_warn("store", "event=list_not_in_order store=%s key=%s", o->uri,
                            p->entries[i].key);
                return LS_EIO;
        }
        return LS_OK;
}

ls_err
store_objects_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
                   ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info),
                   void *ctx)
{
        struct store_objects *o = objects_of(s);
        LS_AUTO(ls_free) char *whole = ls_format("%s%s", o->prefix, prefix);
        LS_AUTO(ls_free) char *last = after != NULL ? ls_format("%s%s", o->prefix, after) : NULL;
        LS_AUTO(ls_free) char *marker = NULL;
        size_t root = strlen(o->prefix), left = count_max;
        bool more = true;
        ls_err e = LS_OK;

        while (e == LS_OK && more && left > 0) {
                struct store_page page = { 0 };

                e = o->how->page(o, whole, last, marker, LS_MIN(left, o->how->page_max), &page);
                if (e == LS_OK)
                        e = page_check(o, &page);
                more = page.more;
                for (size_t i = 0; i < page.count && e == LS_OK && left > 0; i++) {
                        const char *key = page.entries[i].key;

                        if ((last != NULL && strcmp(key, last) <= 0) ||
                            strncmp(key, o->prefix, root) != 0 || !ls_store_key_ok(key + root))
                                continue; /* seen already, or not one of ours */
                        left--;
                        e = fn(ctx, key + root, &page.entries[i].info);
                }
                if (page.count > 0 &&
                    (last == NULL || strcmp(page.entries[page.count - 1].key, last) > 0)) {
                        ls_free(last);
                        last = LS_STEAL(page.entries[page.count - 1].key);
                }
                ls_free(marker);
                marker = LS_STEAL(page.marker);
                page_done(&page);
        }
        return e;
}

/* ---- an upload in parts ---- */

/* Nothing is visible of a part: not known is not done. */
static ls_err
upload_step(ls_err e)
{
        return e < 0 || e == LS_OK || e == LS_DENIED || e == LS_THROTTLED || e == LS_TOO_LARGE
                       ? e
                       : LS_EIO;
}

/* Of the pool. */
static ls_err
part_send(void *ctx, size_t number, ls_span part, char ret_etag[STORE_ETAG_TEXT_MAX])
{
        struct store_large *u = ctx;

        return upload_step(u->o->how->upload_part(u, number, part, ret_etag));
}

/* Sends what is gathered as the next part. */
static ls_err
part_next(struct store_large *u)
{
        const struct store_objects_ops *how = u->o->how;
        char etag[STORE_ETAG_TEXT_MAX];

        if (u->id == NULL)
                LS_TRY(upload_step(how->upload_begin(u)));
        if (u->part_count == how->parts_max)
                return LS_TOO_LARGE;
        if (how->in_order) {
                LS_TRY(part_send(u, u->part_count + 1, ls_buf_span(&u->part), etag));
                u->sent_bytes += u->part.len;
                ls_buf_clear(&u->part);
        } else {
                if (u->parts == NULL)
                        u->parts = store_upload_new(u->o->jobs, part_send, u);
                u->sent_bytes += u->part.len;
                LS_TRY(store_upload_add(u->parts, &u->part));
        }
        u->part_count++;
        return LS_OK;
}

/* A part goes when more follows it, so that the last one is never empty. */
static ls_err
writer_write(struct ls_store_writer *writer, ls_span bytes)
{
        struct store_large *u = LS_CONTAINER(writer, struct store_large, writer);

        while (bytes.len > 0) {
                size_t now = LS_MIN(bytes.len, u->o->how->part_bytes - u->part.len);

                if (now == 0) {
                        LS_TRY(part_next(u));
                        continue;
                }
                ls_buf_put(&u->part, bytes.ptr, now);
                bytes = ls_span_of(bytes.ptr + now, bytes.len - now);
        }
        return LS_OK;
}

static void
large_free(struct store_large *u)
{
        store_upload_free(u->parts);
        ls_buf_done(&u->part);
        ls_free(u->id);
        ls_free(u->key);
        ls_free(u);
}

static void
large_drop(struct store_large *u)
{
        store_upload_free(LS_STEAL(u->parts)); /* none may come after it */
        u->o->how->upload_drop(u);
}

static void
writer_cancel(struct ls_store_writer *writer)
{
        struct store_large *u = LS_CONTAINER(writer, struct store_large, writer);

        if (u->id != NULL)
                large_drop(u);
        large_free(u);
}

/* Of one that was begun. */
static ls_err
large_end(struct store_large *u)
{
        const struct store_objects_ops *how = u->o->how;
        bool repeated = false;
        ls_err e;

        LS_ASSERT(u->part.len > 0);
        if (!how->in_order) {
                LS_TRY(part_next(u));
                LS_TRY(store_upload_wait(u->parts));
        }
        e = how->upload_end(u, &repeated);
        return settle(u->o, u->key, u->token, e, repeated);
}

static ls_err
writer_finish(struct ls_store_writer *writer)
{
        struct store_large *u = LS_CONTAINER(writer, struct store_large, writer);
        ls_span all = ls_buf_span(&u->part);
        ls_err e;

        if (u->id == NULL) {
                e = write_whole(u->o, u->key, &all, 1, true);
        } else {
                e = large_end(u);
                if (e != LS_OK && e != LS_UNKNOWN_OUTCOME)
                        large_drop(u);
        }
        large_free(u);
        return e;
}

ls_err
store_objects_writer_open(struct ls_store *s, const char *key, struct ls_store_writer **ret_writer)
{
        struct store_large *u = ls_calloc(1, sizeof *u);

        u->writer = (struct ls_store_writer){ writer_write, writer_finish, writer_cancel };
        u->o = objects_of(s);
        u->key = ls_strdup(key);
        token_make(u->token);
        ls_buf_init(&u->part, u->o->how->part_bytes);
        *ret_writer = &u->writer;
        return LS_OK;
}

/* ---- life ---- */

ls_err
store_objects_init(struct store_objects *o, const struct ls_store_ops *ops,
                   const struct store_objects_ops *how, const char *root, const char *prefix,
                   struct ls_errinfo *reterr)
{
        bool some = prefix != NULL && prefix[0] != '\0';

        if (some && !ls_store_key_ok(prefix))
                return ls_fail(reterr, LS_INVALID,
                               "%.200s cannot be a prefix: letters, digits, . _ = %% + - and /",
                               prefix);
        o->prefix = some ? ls_format("%s/", prefix) : ls_strdup("");
        o->uri = some ? ls_format("%s/%s", root, prefix) : ls_strdup(root);
        o->how = how;
        o->store.ops = ops;
        o->store.uri = o->uri;
        return how->in_order ? LS_OK : ls_jobs_start("ls-upload", STORE_UPLOAD_THREADS, &o->jobs);
}

void
store_objects_done(struct store_objects *o)
{
        ls_jobs_stop(o->jobs);
        store_remote_free(o->remote);
        ls_free(o->uri);
        ls_free(o->prefix);
}
