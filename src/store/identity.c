/* store/identity.c - see identity.h. */
#include "store/identity.h"

#include <jansson.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sys/file.h"

#define FILE_BYTES_MAX       ((size_t)1 << 20)
#define ANSWER_BYTES_MAX     ((size_t)1 << 20)
#define TOKEN_BYTES_MAX      32768
#define RENEW_BEFORE_MS      300000 /* before their end */
#define RENEW_AGAIN_MS       10000  /* after a failure, while the old ones hold */
#define ENDPOINT_DEADLINE_MS 10000

/* ---- requests ---- */

ls_err
store_ask(const char *base, const char *ca_file, const char *what, struct store_request *r,
          char **ret_body, struct ls_errinfo *reterr)
{
        struct store_remote_options options = { .base = base,
                                                .name = "credentials",
                                                .ca_file = ca_file,
                                                .connections_max = 1,
                                                .deadline_ms = ENDPOINT_DEADLINE_MS };
        struct store_remote *remote;
        struct store_answer answer;
        ls_err e;

        LS_TRY(store_remote_new(&options, &remote, reterr));
        r->answer_bytes_max = ANSWER_BYTES_MAX;
        if (r->query == NULL)
                r->query = "";
        e = store_remote_call(remote, r, &answer);
        store_remote_free(remote);
        if (e != LS_OK)
                return ls_fail(reterr, LS_ENET, "no %s from %.200s: %s", what, base,
                               ls_err_text(e));
        if (answer.status == 200)
                *ret_body = ls_strdup(ls_buf_cstr(&answer.body));
        else
                e = ls_fail(reterr, LS_DENIED, "no %s from %.200s: it answers %d: %.300s", what,
                            base, answer.status, ls_buf_cstr(&answer.body));
        store_answer_done(&answer);
        return e;
}

void
store_address_split(const char *address, char **ret_base, char **ret_path)
{
        const char *host = strstr(address, "://");
        const char *path = host != NULL ? strchr(host + 3, '/') : NULL;

        *ret_base = path != NULL ? ls_str_dup(ls_str_make(address, (size_t)(path - address)))
                                 : ls_strdup(address);
        *ret_path = ls_strdup(path != NULL ? path : "/");
}

ls_err
store_ask_form(const char *address, const char *ca_file, const char *what, ls_span form,
               char **ret_body, struct ls_errinfo *reterr)
{
        struct store_request r = { .method = "POST", .body = &form, .body_count = 1 };
        LS_AUTO(ls_free) char *base = NULL;
        LS_AUTO(ls_free) char *path = NULL;

        store_address_split(address, &base, &path);
        r.path = path;
        r.headers[r.header_count++] =
                (struct store_header){ "content-type", "application/x-www-form-urlencoded" };
        return store_ask(base, ca_file, what, &r, ret_body, reterr);
}

ls_err
store_file_text(const char *path, char **ret_text, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        ls_err e = ls_file_read_all(path, FILE_BYTES_MAX, &bytes);

        if (e != LS_OK)
                return ls_fail(reterr, LS_EIO, "reading %.200s: %s", path, ls_err_text(e));
        *ret_text = ls_str_dup(ls_str_make((const char *)bytes->ptr, bytes->len));
        return LS_OK;
}

/* ---- renewal ---- */

void
store_renewal_init(struct store_renewal *r, const char *what)
{
        *r = (struct store_renewal){ .what = what, .ends_ms = INT64_MAX };
        pthread_mutex_init(&r->lock, NULL);
}

void
store_renewal_done(struct store_renewal *r)
{
        pthread_mutex_destroy(&r->lock);
}

/* Under the lock. */
static ls_err
renew(struct store_renewal *r)
{
        struct ls_errinfo info = { "" };
        ls_err e;

        if (r->fetch == NULL || ls_clock_wall_ms() < r->ends_ms - RENEW_BEFORE_MS ||
            ls_clock_monotonic_ms() < r->next_ms)
                return LS_OK;
        r->next_ms = ls_clock_monotonic_ms() + RENEW_AGAIN_MS;
        e = r->fetch(r->ctx, &info);
        if (e == LS_OK)
                return LS_OK;
        ls_log_warn("store", "event=keys_not_renewed what=\"%s\" error=\"%s\"", r->what, info.text);
        return ls_clock_wall_ms() < r->ends_ms ? LS_OK : e;
}

ls_err
store_renewal_begin(struct store_renewal *r)
{
        ls_err e;

        pthread_mutex_lock(&r->lock);
        e = renew(r);
        if (e != LS_OK)
                pthread_mutex_unlock(&r->lock);
        return e;
}

void
store_renewal_end(struct store_renewal *r)
{
        pthread_mutex_unlock(&r->lock);
}

/* ---- tokens ---- */

struct store_bearer {
        struct store_renewal renewal;
        ls_err (*fetch)(void *ctx, char **ret_body, struct ls_errinfo *reterr);
        void *ctx;
        char *token;
};

/* A number that some write as a text; 0: none. */
static int64_t
number_of(const json_t *json)
{
        int64_t number = json_integer_value(json);

        if (json_is_string(json) &&
            !ls_str_to_i64(ls_str_of(json_string_value(json)), 0, INT64_MAX / 1000, &number))
                return 0;
        return number > 0 && number < INT64_MAX / 4000 ? number : 0;
}

/* A header takes no other bytes. */
static bool
token_ok(const char *token)
{
        size_t len = token != NULL ? strlen(token) : 0;

        for (size_t i = 0; i < len; i++)
                if (token[i] <= ' ' || token[i] > '~')
                        return false;
        return len > 0 && len <= TOKEN_BYTES_MAX;
}

static ls_err
bearer_fetch(void *ctx, struct ls_errinfo *reterr)
{
        struct store_bearer *b = ctx;
        LS_AUTO(ls_free) char *body = NULL;
        const char *token;
        int64_t in_s, on_s;
        json_t *json;

        LS_TRY(b->fetch(b->ctx, &body, reterr));
        json = json_loads(body, 0, NULL);
        token = json_string_value(json_object_get(json, "access_token"));
        if (!token_ok(token)) {
                json_decref(json);
                return ls_fail(reterr, LS_DENIED, "what was answered for %s holds none",
                               b->renewal.what);
        }
        ls_free(b->token);
        b->token = ls_strdup(token);
        in_s = number_of(json_object_get(json, "expires_in"));
        on_s = number_of(json_object_get(json, "expires_on"));
        b->renewal.ends_ms = in_s > 0   ? ls_clock_wall_ms() + in_s * 1000
                             : on_s > 0 ? on_s * 1000
                                        : INT64_MAX;
        json_decref(json);
        return LS_OK;
}

ls_err
store_bearer_new(ls_err (*fetch)(void *ctx, char **ret_body, struct ls_errinfo *reterr), void *ctx,
                 const char *what, struct store_bearer **ret_bearer, struct ls_errinfo *reterr)
{
        struct store_bearer *b = ls_calloc(1, sizeof *b);
        ls_err e;

        store_renewal_init(&b->renewal, what);
        b->fetch = fetch;
        b->ctx = ctx;
        b->renewal.fetch = bearer_fetch;
        b->renewal.ctx = b;
        e = bearer_fetch(b, reterr);
        if (e != LS_OK) {
                store_bearer_free(b);
                return e;
        }
        *ret_bearer = b;
        return LS_OK;
}

struct store_bearer *
store_bearer_of(const char *token)
{
        struct store_bearer *b = ls_calloc(1, sizeof *b);

        store_renewal_init(&b->renewal, "a token");
        b->token = ls_strdup(token);
        return b;
}

void
store_bearer_free(struct store_bearer *b)
{
        if (b == NULL)
                return;
        store_renewal_done(&b->renewal);
        ls_free(b->token);
        ls_free(b);
}

ls_err
store_bearer_sign(struct store_bearer *b, struct store_request *r, struct ls_buf *scratch)
{
        size_t at = scratch->len;

        LS_TRY(store_renewal_begin(&b->renewal));
        ls_buf_printf(scratch, "Bearer %s", b->token);
        store_renewal_end(&b->renewal);
        ls_buf_put_u8(scratch, 0);
        LS_ASSERT(!ls_buf_failed(scratch) && r->header_count < STORE_HEADERS_MAX);
        r->headers[r->header_count++] =
                (struct store_header){ "authorization", (const char *)scratch->ptr + at };
        return LS_OK;
}
