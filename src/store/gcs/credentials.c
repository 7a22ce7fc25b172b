/* store/gcs/credentials.c - see credentials.h. Signatures are OpenSSL's. */
#include "store/gcs/credentials.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sys/file.h"
#include "sys/process.h"

#define WHAT              "a token for Google Cloud Storage"
#define SCOPE             "https://www.googleapis.com/auth/devstorage.read_write"
#define TOKEN_URI_DEFAULT "https://oauth2.googleapis.com/token"
#define METADATA_DEFAULT  "metadata.google.internal"
#define METADATA_PATH     "/computeMetadata/v1/instance/service-accounts/default/token"
#define JWT_S             3600 /* how long it may be used; the longest that is allowed */

struct gcs_credentials {
        char *ca_file;
        char *file; /* NULL: the metadata server */
        struct store_bearer *bearer;
};

/* ---- JWT ---- */

/* Base64 with '-' and '_' and without padding (RFC 4648, 5). */
static void
base64url_put(struct ls_buf *out, const void *bytes, size_t len)
{
        size_t room = (len + 2) / 3 * 4 + 1, at = out->len;
        uint8_t *text = ls_buf_add(out, room);

        LS_ASSERT(text != NULL && len <= INT32_MAX);
        at += (size_t)EVP_EncodeBlock(text, bytes, (int)len);
        for (uint8_t *c = text; *c != '\0'; c++)
                *c = *c == '+' ? '-' : *c == '/' ? '_' : *c;
        while (at > 0 && out->ptr[at - 1] == '=')
                at--;
        out->len = at;
}

static void
json_put(struct ls_buf *out, json_t *json)
{
        char *text = json_dumps(json, JSON_COMPACT);

        LS_ASSERT(text != NULL);
        base64url_put(out, text, strlen(text));
        ls_free(text); /* jansson was given our allocator, or has the same */
        json_decref(json);
}

/* Nobody is asked for a password. */
static int
no_password(char *buf, int size, int rwflag, void *ctx)
{
        return 0;
}

static EVP_PKEY *
rsa_of(const char *pem)
{
        BIO *bio = BIO_new_mem_buf(pem, -1);
        EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;

        BIO_free(bio);
        if (key != NULL && EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA) {
                EVP_PKEY_free(key);
                return NULL;
        }
        return key;
}

/* Adds ".signature" of what is in `out`. */
static ls_err
rs256_put(struct ls_buf *out, EVP_PKEY *key)
{
        EVP_MD_CTX *c = EVP_MD_CTX_new();
        uint8_t sum[1024]; /* a key of 8192 bits */
        size_t len = sizeof sum;
        bool ok = c != NULL && EVP_DigestSignInit(c, NULL, EVP_sha256(), NULL, key) == 1 &&
                  EVP_DigestSign(c, sum, &len, out->ptr, out->len) == 1;

        EVP_MD_CTX_free(c);
        if (!ok)
                return LS_INVALID;
        ls_buf_put_u8(out, '.');
        base64url_put(out, sum, len);
        return LS_OK;
}

ls_err
gcs_jwt_make(const char *email, const char *pem, const char *key_id, const char *audience,
             int64_t now_s, char **ret_jwt, struct ls_errinfo *reterr)
{
        EVP_PKEY *key = rsa_of(pem);
        struct ls_buf out;
        json_t *head;
        ls_err e;

        if (key == NULL)
                return ls_fail(reterr, LS_INVALID, "the private key of %.200s is no RSA key in PEM",
                               email);
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        head = json_pack("{s:s,s:s}", "alg", "RS256", "typ", "JWT");
        LS_ASSERT(head != NULL);
        if (key_id != NULL)
                json_object_set_new(head, "kid", json_string(key_id));
        json_put(&out, head);
        ls_buf_put_u8(&out, '.');
        json_put(&out,
                 json_pack("{s:s,s:s,s:s,s:I,s:I}", "iss", email, "scope", SCOPE, "aud", audience,
                           "iat", (json_int_t)now_s, "exp", (json_int_t)(now_s + JWT_S)));
        e = rs256_put(&out, key);
        EVP_PKEY_free(key);
        if (e == LS_OK)
                *ret_jwt = ls_strdup(ls_buf_cstr(&out));
        else
                e = ls_fail(reterr, e, "the private key of %.200s does not sign", email);
        ls_buf_done(&out);
        return e;
}

/* ---- tokens ---- */

static const char *
text_of(const json_t *json, const char *name)
{
        const char *text = json_string_value(json_object_get(json, name));

        return store_text_there(text) ? text : NULL;
}

static ls_err
account_form(const json_t *json, const char *token_uri, struct ls_buf *form,
             struct ls_errinfo *reterr)
{
        const char *email = text_of(json, "client_email"), *key = text_of(json, "private_key");
        LS_AUTO(ls_free) char *jwt = NULL;

        if (email == NULL || key == NULL)
                return ls_fail(reterr, LS_INVALID,
                               "a service account needs client_email and private_key");
        LS_TRY(gcs_jwt_make(email, key, text_of(json, "private_key_id"), token_uri,
                            ls_clock_wall_ms() / 1000, &jwt, reterr));
        ls_buf_put_text(form, "grant_type=");
        store_encode(form, "urn:ietf:params:oauth:grant-type:jwt-bearer", false);
        ls_buf_printf(form, "&assertion=%s", jwt);
        return LS_OK;
}

static ls_err
user_form(const json_t *json, struct ls_buf *form, struct ls_errinfo *reterr)
{
        const char *id = text_of(json, "client_id"), *secret = text_of(json, "client_secret"),
                   *refresh = text_of(json, "refresh_token");

        if (id == NULL || secret == NULL || refresh == NULL)
                return ls_fail(reterr, LS_INVALID,
                               "a user needs client_id, client_secret and refresh_token");
        ls_buf_put_text(form, "grant_type=refresh_token&client_id=");
        store_encode(form, id, false);
        ls_buf_put_text(form, "&client_secret=");
        store_encode(form, secret, false);
        ls_buf_put_text(form, "&refresh_token=");
        store_encode(form, refresh, false);
        return LS_OK;
}

/* By what a file holds; read each time, since keys are replaced. */
static ls_err
file_ask(const struct gcs_credentials *c, const json_t *json, char **ret_body,
         struct ls_errinfo *reterr)
{
        const char *type = text_of(json, "type"), *uri = text_of(json, "token_uri");
        struct ls_buf form;
        ls_err e;

        if (uri == NULL)
                uri = TOKEN_URI_DEFAULT;
        ls_buf_init(&form, LS_BUF_MAX_DEFAULT);
        if (type != NULL && strcmp(type, "service_account") == 0)
                e = account_form(json, uri, &form, reterr);
        else if (type != NULL && strcmp(type, "authorized_user") == 0)
                e = user_form(json, &form, reterr);
        else
                e = ls_fail(reterr, LS_INVALID,
                            "%.200s is none that is known: \"type\" has to be service_account or "
                            "authorized_user",
                            c->file);
        if (e == LS_OK)
                e = store_ask_form(uri, c->ca_file, WHAT, ls_buf_span(&form), ret_body, reterr);
        if (form.ptr != NULL)
                OPENSSL_cleanse(form.ptr, form.len);
        ls_buf_done(&form);
        return e;
}

static ls_err
file_fetch(void *ctx, char **ret_body, struct ls_errinfo *reterr)
{
        const struct gcs_credentials *c = ctx;
        LS_AUTO(ls_free) char *text = NULL;
        json_t *json;
        ls_err e;

        LS_TRY(store_file_text(c->file, &text, reterr));
        json = json_loads(text, 0, NULL);
        OPENSSL_cleanse(text, strlen(text));
        if (json == NULL)
                return ls_fail(reterr, LS_INVALID, "%.200s is no JSON", c->file);
        e = file_ask(c, json, ret_body, reterr);
        json_decref(json);
        return e;
}

static ls_err
metadata_fetch(void *ctx, char **ret_body, struct ls_errinfo *reterr)
{
        const struct gcs_credentials *c = ctx;
        const char *host = ls_process_env("GCE_METADATA_HOST");
        LS_AUTO(ls_free)
        char *base = ls_format("http://%s", store_text_there(host) ? host : METADATA_DEFAULT);
        struct store_request r = { .method = "GET", .path = METADATA_PATH };

        r.headers[r.header_count++] = (struct store_header){ "metadata-flavor", "Google" };
        return store_ask(base, c->ca_file, WHAT, &r, ret_body, reterr);
}

/* ---- finding ---- */

/* The file of gcloud's login, if it is there; to be freed. */
static char *
gcloud_file(void)
{
        const char *home = ls_process_env("HOME"), *config = ls_process_env("CLOUDSDK_CONFIG");
        LS_AUTO(ls_free)
        char *dir = store_text_there(config)
                            ? ls_strdup(config)
                            : ls_format("%s/.config/gcloud", home != NULL ? home : "");
        LS_AUTO(ls_free) char *path = ls_format("%s/application_default_credentials.json", dir);
        LS_AUTO(ls_free) char *text = NULL;

        return store_file_text(path, &text, NULL) == LS_OK ? LS_STEAL(path) : NULL;
}

static ls_err
find(struct gcs_credentials *c, const struct gcs_credentials_options *o, struct ls_errinfo *reterr)
{
        const char *file = o->file;
        ls_err e;

        if (store_text_there(o->token)) {
                for (const char *at = o->token; *at != '\0'; at++)
                        if (*at <= ' ' || *at > '~')
                                return ls_fail(reterr, LS_INVALID,
                                               "store.gcs.token holds bytes that no token has");
                c->bearer = store_bearer_of(o->token);
                return LS_OK;
        }
        if (!store_text_there(file))
                file = ls_process_env("GOOGLE_APPLICATION_CREDENTIALS");
        c->file = store_text_there(file) ? ls_strdup(file) : gcloud_file();
        if (c->file != NULL)
                return store_bearer_new(file_fetch, c, WHAT, &c->bearer, reterr);
        e = store_bearer_new(metadata_fetch, c, WHAT, &c->bearer, NULL);
        return e == LS_OK ? LS_OK
                          : ls_fail(reterr, LS_ABSENT,
                                    "no credentials of Google were found: set "
                                    "store.gcs.credentials.file or GOOGLE_APPLICATION_CREDENTIALS, "
                                    "or give this machine a service account");
}

ls_err
gcs_credentials_new(const struct gcs_credentials_options *options,
                    struct gcs_credentials **ret_credentials, struct ls_errinfo *reterr)
{
        struct gcs_credentials *c = ls_calloc(1, sizeof *c);
        ls_err e;

        if (store_text_there(options->ca_file))
                c->ca_file = ls_strdup(options->ca_file);
        e = find(c, options, reterr);
        if (e != LS_OK) {
                gcs_credentials_free(c);
                return e;
        }
        *ret_credentials = c;
        return LS_OK;
}

void
gcs_credentials_free(struct gcs_credentials *c)
{
        if (c == NULL)
                return;
        store_bearer_free(c->bearer);
        ls_free(c->ca_file);
        ls_free(c->file);
        ls_free(c);
}

ls_err
gcs_credentials_sign(struct gcs_credentials *c, struct store_request *r, struct ls_buf *scratch)
{
        return store_bearer_sign(c->bearer, r, scratch);
}
