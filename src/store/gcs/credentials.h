/* store/gcs/credentials.h - tokens for Google Cloud Storage, found as Google's libraries find them
 * ("application default credentials").
 *
 * The first that is there: the token that was given; the file that was given; the file that
 * GOOGLE_APPLICATION_CREDENTIALS names; that of gcloud (CLOUDSDK_CONFIG or ~/.config/gcloud,
 * application_default_credentials.json); the machine's metadata server (GCE_METADATA_HOST). A file
 * holds the key of a service account or the login of a user. Source: Google Cloud, "How Application
 * Default Credentials works"; Google Identity, "Using OAuth 2.0 for server to server applications"
 * (a JWT of RFC 7519 signed with RS256).
 *
 * Threads: any; no state.
 */
#pragma once
#include "store/identity.h"

struct gcs_credentials_options {
        const char *token;   /* given; NULL or "": not */
        const char *file;    /* given; NULL or "": not */
        const char *ca_file; /* as of store_remote_options */
};

/* Where tokens come from. */
struct gcs_credentials;

/* Finds the source and the first token. With words: LS_INVALID: what is no token, or no such file;
 * LS_EIO: a file cannot be read; LS_ABSENT: there is nothing anywhere; LS_DENIED, LS_ENET. */
LS_MUST_USE ls_err gcs_credentials_new(const struct gcs_credentials_options *options,
                                       struct gcs_credentials **ret_credentials,
                                       struct ls_errinfo *reterr);
/* Accepts NULL. */
void gcs_credentials_free(struct gcs_credentials *c);
/* As store_bearer_sign. */
LS_MUST_USE ls_err gcs_credentials_sign(struct gcs_credentials *c, struct store_request *r,
                                        struct ls_buf *scratch);

/* The JWT by which a service account asks `audience` for a token, at `now_s` since 1970. `key` is a
 * private RSA key in PEM; `key_id` may be NULL. To be freed. LS_INVALID with words: no such key. */
LS_MUST_USE ls_err gcs_jwt_make(const char *email, const char *key, const char *key_id,
                                const char *audience, int64_t now_s, char **ret_jwt,
                                struct ls_errinfo *reterr);
