/* store/identity.h - who we are for a service: what the finders of keys and tokens share
 * (s3/credentials.c, azure/, gcs/). Requests to those that give them, the renewal of what ends, and
 * tokens of OAuth 2.0 (RFC 6749, RFC 6750).
 *
 * Threads: any.
 */
#pragma once
#include <pthread.h>

#include "store/remote.h"

static inline bool
store_text_there(const char *text)
{
        return text != NULL && text[0] != '\0';
}

/* One request to `base` for `what` ("keys for S3"), answered with 200. *ret_body is text, to be
 * freed. With words: LS_ENET, LS_DENIED. */
LS_MUST_USE ls_err store_ask(const char *base, const char *ca_file, const char *what,
                             struct store_request *r, char **ret_body, struct ls_errinfo *reterr);
/* The same with a form as the body, by POST to an address "https://host/path". */
LS_MUST_USE ls_err store_ask_form(const char *address, const char *ca_file, const char *what,
                                  ls_span form, char **ret_body, struct ls_errinfo *reterr);
/* Splits "https://host/path?x" before the path, "/" where there is none; both to be freed. */
void store_address_split(const char *address, char **ret_base, char **ret_path);
/* The whole text of a file that names who we are, to be freed. With words. */
LS_MUST_USE ls_err store_file_text(const char *path, char **ret_text, struct ls_errinfo *reterr);

/* Something that ends and is fetched anew before. */
struct store_renewal {
        const char *what; /* for the log */
        /* Called under the lock: who needs it waits. Sets ends_ms. NULL: it stays. */
        ls_err (*fetch)(void *ctx, struct ls_errinfo *reterr);
        void *ctx;
        int64_t ends_ms; /* wall clock; INT64_MAX: never */
        int64_t next_ms; /* monotonic: not fetched before */
        pthread_mutex_t lock;
};
void store_renewal_init(struct store_renewal *r, const char *what);
void store_renewal_done(struct store_renewal *r);
/* LS_OK: the lock is held, and what is there is good; give the lock back with store_renewal_end.
 * What `fetch` returned: it failed, and the old one has ended. */
LS_MUST_USE ls_err store_renewal_begin(struct store_renewal *r);
void store_renewal_end(struct store_renewal *r);

/* A token of OAuth. */
struct store_bearer;
/* `fetch` gives the body of an answer, { "access_token", "expires_in" or "expires_on" }. It is
 * called at once, and again before the token ends. `what` and `ctx` are borrowed until the free.
 * With words: LS_DENIED: no such answer. What `fetch` returned. */
LS_MUST_USE ls_err store_bearer_new(ls_err (*fetch)(void *ctx, char **ret_body,
                                                    struct ls_errinfo *reterr),
                                    void *ctx, const char *what, struct store_bearer **ret_bearer,
                                    struct ls_errinfo *reterr);
/* One that stays. */
struct store_bearer *store_bearer_of(const char *token);
/* Accepts NULL. */
void store_bearer_free(struct store_bearer *bearer);
/* Adds the header "authorization" to `r`, its text to `scratch`, to which nothing else may be added
 * afterwards. */
LS_MUST_USE ls_err store_bearer_sign(struct store_bearer *bearer, struct store_request *r,
                                     struct ls_buf *scratch);
