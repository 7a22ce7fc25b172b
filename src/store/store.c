/* store/store.c - what all back ends share: checks of keys, the loop of a delete of many, the
 * probe. */
#include "store/store_int.h"

#include <ctype.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

static bool
key_char_ok(char c)
{
        return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr("._=%+-", c) != NULL);
}

/* The bytes of the level at `level`, or 0 when it is no level. `last` may be a part of one. */
static size_t
level_len(const char *level, bool part)
{
        size_t len = 0;

        while (key_char_ok(level[len]))
                len++;
        if (level[len] != '/' && level[len] != '\0')
                return 0;
        if (part && level[len] == '\0')
                return len <= LS_STORE_LEVEL_BYTES_MAX ? len : 0;
        if (len > LS_STORE_LEVEL_BYTES_MAX || (len == 1 && level[0] == '.') ||
            (len == 2 && level[0] == '.' && level[1] == '.'))
                return 0;
        return len;
}

bool
ls_store_key_ok(const char *key)
{
        if (strnlen(key, LS_STORE_KEY_BYTES_MAX + 1) > LS_STORE_KEY_BYTES_MAX)
                return false;
        for (;;) {
                size_t len = level_len(key, false);

                if (len == 0)
                        return false;
                if (key[len] == '\0')
                        return true;
                key += len + 1;
        }
}

/* Whether a key can begin so. */
static bool
prefix_ok(const char *prefix)
{
        if (strnlen(prefix, LS_STORE_KEY_BYTES_MAX + 1) > LS_STORE_KEY_BYTES_MAX)
                return false;
        while (*prefix != '\0') {
                size_t len = level_len(prefix, true);

                if (len == 0)
                        return false;
                prefix += len;
                if (*prefix == '/')
                        prefix++;
        }
        return true;
}

ls_err
ls_store_put(struct ls_store *s, const char *key, ls_span bytes)
{
        return ls_store_key_ok(key) ? s->ops->put(s, key, &bytes, 1) : LS_INVALID;
}

ls_err
ls_store_put_if_absent(struct ls_store *s, const char *key, ls_span bytes)
{
        return ls_store_key_ok(key) ? s->ops->put_if_absent(s, key, &bytes, 1) : LS_INVALID;
}

ls_err
ls_store_put_if_match(struct ls_store *s, const char *key, const char *etag, ls_span bytes)
{
        return ls_store_key_ok(key) ? s->ops->put_if_match(s, key, etag, bytes) : LS_INVALID;
}

ls_err
ls_store_get(struct ls_store *s, const char *key, uint64_t pos, size_t len,
             struct ls_slice **ret_bytes)
{
        return ls_store_key_ok(key) ? s->ops->get(s, key, pos, len, ret_bytes) : LS_INVALID;
}

ls_err
ls_store_head(struct ls_store *s, const char *key, struct ls_store_info *ret_info)
{
        return ls_store_key_ok(key) ? s->ops->head(s, key, ret_info) : LS_INVALID;
}

ls_err
ls_store_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
              ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info), void *ctx)
{
        if (!prefix_ok(prefix))
                return LS_INVALID;
        return count_max > 0 ? s->ops->list(s, prefix, after, count_max, fn, ctx) : LS_OK;
}

ls_err
ls_store_delete(struct ls_store *s, const char *key)
{
        ls_err e;

        if (!ls_store_key_ok(key))
                return LS_INVALID;
        e = s->ops->del(s, key);
        return e == LS_ABSENT ? LS_OK : e;
}

ls_err
ls_store_delete_many(struct ls_store *s, const char *const *keys, size_t count, size_t *ret_failed)
{
        size_t failed = 0;
        ls_err first = LS_OK;

        for (size_t i = 0; i < count; i++) {
                if (!ls_store_key_ok(keys[i]))
                        return LS_INVALID; /* our bug or an attack: none of them goes */
        }
        if (s->ops->del_many != NULL)
                return s->ops->del_many(s, keys, count, ret_failed != NULL ? ret_failed : &failed);
        for (size_t i = 0; i < count; i++) {
                ls_err e = ls_store_delete(s, keys[i]);

                if (e == LS_OK)
                        continue;
                failed++;
                if (first == LS_OK)
                        first = e;
        }
        if (ret_failed != NULL)
                *ret_failed = failed;
        return first;
}

ls_err
ls_store_writer_open(struct ls_store *s, const char *key, struct ls_store_writer **ret_writer)
{
        return ls_store_key_ok(key) ? s->ops->writer_open(s, key, ret_writer) : LS_INVALID;
}

char *
ls_store_uri(const struct ls_store *s, const char *key)
{
        return ls_format("%s/%s", s->uri, key);
}

void
ls_store_engine_config(struct ls_store *s,
                       void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
        if (s->ops->engine_config != NULL)
                s->ops->engine_config(s, fn, ctx);
}

void
ls_store_close(struct ls_store *s)
{
        if (s != NULL)
                s->ops->close(s);
}

/* ---- probe ---- */

struct probe {
        struct ls_store *s;
        struct ls_errinfo *reterr;
        char key[64];
        size_t listed;
};

/* `got` of the step `what` has to be `want`. */
static ls_err
probe_want(struct probe *p, const char *what, ls_err got, ls_err want)
{
        if (got == want)
                return LS_OK;
        if (got < 0 || got == LS_DENIED)
                return ls_fail(p->reterr, got, "the store %s: %s failed: %s", p->s->uri, what,
                               ls_err_text(got));
        return ls_fail(p->reterr, LS_UNSUPPORTED,
                       "the store %s cannot be used: %s gave \"%s\" and must give \"%s\"",
                       p->s->uri, what, ls_err_text(got), ls_err_text(want));
}

static ls_err
probe_content(struct probe *p, const char *what, const char *want)
{
        struct ls_slice *bytes = NULL;
        bool same;

        LS_TRY(probe_want(p, what, ls_store_get(p->s, p->key, 0, 0, &bytes), LS_OK));
        same = ls_span_eq(ls_slice_span(bytes), ls_span_of(want, strlen(want)));
        ls_slice_unref(bytes);
        return same ? LS_OK
                    : ls_fail(p->reterr, LS_UNSUPPORTED,
                              "the store %s cannot be used: %s gave old or wrong bytes", p->s->uri,
                              what);
}

static ls_err
probe_on_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        struct probe *p = ctx;

        p->listed += strcmp(key, p->key) == 0;
        return LS_OK;
}

static ls_err
probe_list(struct probe *p, const char *what, size_t want)
{
        p->listed = 0;
        LS_TRY(probe_want(p, what, ls_store_list(p->s, p->key, NULL, 10, probe_on_key, p), LS_OK));
        if (p->listed != want)
                return ls_fail(p->reterr, LS_UNSUPPORTED,
                               "the store %s cannot be used: %s is not up to date", p->s->uri,
                               what);
        return LS_OK;
}

static ls_err
probe_run(struct probe *p)
{
        const ls_span one = ls_span_of("one", 3), two = ls_span_of("two", 3);
        struct ls_store_info info;
        struct ls_store *s = p->s;

        LS_TRY(probe_want(p, "a first conditional write", ls_store_put_if_absent(s, p->key, one),
                          LS_OK));
        LS_TRY(probe_want(p, "a second conditional write of the same key",
                          ls_store_put_if_absent(s, p->key, two), LS_EXISTS));
        LS_TRY(probe_content(p, "a read after a write", "one"));
        LS_TRY(probe_want(p, "a look at an object", ls_store_head(s, p->key, &info), LS_OK));
        LS_TRY(probe_list(p, "a list after a write", 1));
        LS_TRY(probe_want(p, "a replacing write with the current etag",
                          ls_store_put_if_match(s, p->key, info.etag, two), LS_OK));
        LS_TRY(probe_want(p, "a replacing write with an old etag",
                          ls_store_put_if_match(s, p->key, info.etag, one), LS_EXISTS));
        LS_TRY(probe_content(p, "a read after a replacing write", "two"));
        LS_TRY(probe_want(p, "a delete", ls_store_delete(s, p->key), LS_OK));
        LS_TRY(probe_want(p, "a look at a deleted object", ls_store_head(s, p->key, &info),
                          LS_ABSENT));
        return probe_list(p, "a list after a delete", 0);
}

ls_err
ls_store_probe(struct ls_store *s, struct ls_errinfo *reterr)
{
        struct probe p = { .s = s, .reterr = reterr };
        uint64_t random[2];
        ls_err e, gone;

        ls_random(random, sizeof random);
        snprintf(p.key, sizeof p.key, "probe-%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
        e = probe_run(&p);
        if (e == LS_OK)
                return LS_OK;
        gone = ls_store_delete(s, p.key); /* a failure of it adds nothing to the words */
        (void)gone;
        return e;
}
