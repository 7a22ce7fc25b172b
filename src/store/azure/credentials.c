/* store/azure/credentials.c - see credentials.h. */
#include "store/azure/credentials.h"

#include <openssl/crypto.h>

#include "base/mem.h"
#include "store/identity.h"
#include "sys/process.h"

#define WHAT              "a token for Azure Blob Storage"
#define RESOURCE          "https://storage.azure.com/"
#define AUTHORITY_DEFAULT "https://login.microsoftonline.com"
#define INSTANCE_DEFAULT  "http://169.254.169.254"
#define SAS_BYTES_MAX     4096

struct azure_credentials {
        char *account, *ca_file;
        char *sas; /* NULL: none */
        bool keyed;
        struct azure_key key;
        struct store_bearer *bearer; /* NULL: none */
};

/* ---- tokens ---- */

/* From the identity platform: by a token that the cluster gave, or by a secret. */
static ls_err
client_fetch(void *ctx, char **ret_body, struct ls_errinfo *reterr)
{
        const struct azure_credentials *c = ctx;
        const char *file = ls_process_env("AZURE_FEDERATED_TOKEN_FILE"),
                   *secret = ls_process_env("AZURE_CLIENT_SECRET"),
                   *authority = ls_process_env("AZURE_AUTHORITY_HOST");
        LS_AUTO(ls_free) char *assertion = NULL;
        LS_AUTO(ls_free) char *address = NULL;
        struct ls_buf form;
        size_t len;
        ls_err e;

        if (!store_text_there(authority))
                authority = AUTHORITY_DEFAULT;
        len = strlen(authority);
        address =
                ls_format("%s%s%s/oauth2/v2.0/token", authority,
                          authority[len - 1] == '/' ? "" : "/", ls_process_env("AZURE_TENANT_ID"));
        if (store_text_there(file)) { /* it changes: read each time */
                LS_TRY(store_file_text(file, &assertion, reterr));
                assertion[strcspn(assertion, "\r\n")] = '\0';
        }
        ls_buf_init(&form, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&form, "grant_type=client_credentials&scope=");
        store_encode(&form, RESOURCE ".default", false);
        ls_buf_put_text(&form, "&client_id=");
        store_encode(&form, ls_process_env("AZURE_CLIENT_ID"), false);
        if (assertion != NULL) {
                ls_buf_put_text(&form, "&client_assertion_type=");
                store_encode(&form, "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                             false);
                ls_buf_put_text(&form, "&client_assertion=");
                store_encode(&form, assertion, false);
        } else {
                ls_buf_put_text(&form, "&client_secret=");
                store_encode(&form, secret, false);
        }
        e = store_ask_form(address, c->ca_file, WHAT, ls_buf_span(&form), ret_body, reterr);
        OPENSSL_cleanse(form.ptr, form.len);
        ls_buf_done(&form);
        return e;
}

/* A managed identity: from the address that the platform gives, else from the machine's metadata.
 * */
static ls_err
managed_fetch(void *ctx, char **ret_body, struct ls_errinfo *reterr)
{
        const struct azure_credentials *c = ctx;
        const char *endpoint = ls_process_env("IDENTITY_ENDPOINT"),
                   *header = ls_process_env("IDENTITY_HEADER"),
                   *client = ls_process_env("AZURE_CLIENT_ID"),
                   *host = ls_process_env("AZURE_POD_IDENTITY_AUTHORITY_HOST");
        bool given = store_text_there(endpoint) && store_text_there(header);
        LS_AUTO(ls_free) char *base = NULL;
        LS_AUTO(ls_free) char *path = NULL;
        struct store_request r = { .method = "GET" };
        struct ls_buf query;
        ls_err e;

        if (given) {
                store_address_split(endpoint, &base, &path);
                r.headers[r.header_count++] = (struct store_header){ "x-identity-header", header };
        } else {
                base = ls_strdup(store_text_there(host) ? host : INSTANCE_DEFAULT);
                path = ls_strdup("/metadata/identity/oauth2/token");
                r.headers[r.header_count++] = (struct store_header){ "metadata", "true" };
        }
        ls_buf_init(&query, LS_BUF_MAX_DEFAULT);
        ls_buf_printf(&query, "api-version=%s&resource=", given ? "2019-08-01" : "2018-02-01");
        store_encode(&query, RESOURCE, false);
        if (store_text_there(client)) {
                ls_buf_put_text(&query, "&client_id=");
                store_encode(&query, client, false);
        }
        r.path = path;
        r.query = ls_buf_cstr(&query);
        e = store_ask(base, c->ca_file, WHAT, &r, ret_body, reterr);
        ls_buf_done(&query);
        return e;
}

/* ---- finding ---- */

/* A SAS stands in a query as it is: "sv=...&sig=...", with or without its question mark. */
static ls_err
sas_take(struct azure_credentials *c, const char *sas, struct ls_errinfo *reterr)
{
        if (*sas == '?')
                sas++;
        for (const char *at = sas; *at != '\0'; at++)
                if (*at <= ' ' || *at > '~' || *at == '#')
                        return ls_fail(reterr, LS_INVALID,
                                       "store.azure.sas.token holds bytes that no query has");
        if (strstr(sas, "sig=") == NULL || strlen(sas) > SAS_BYTES_MAX)
                return ls_fail(reterr, LS_INVALID,
                               "store.azure.sas.token is none: it is written sv=...&sig=...");
        c->sas = ls_strdup(sas);
        return LS_OK;
}

static ls_err
token_find(struct azure_credentials *c, bool plain, struct ls_errinfo *reterr)
{
        bool client = store_text_there(ls_process_env("AZURE_CLIENT_ID")) &&
                      store_text_there(ls_process_env("AZURE_TENANT_ID")) &&
                      (store_text_there(ls_process_env("AZURE_FEDERATED_TOKEN_FILE")) ||
                       store_text_there(ls_process_env("AZURE_CLIENT_SECRET")));
        ls_err e;

        if (plain)
                return ls_fail(reterr, LS_ABSENT,
                               "no key for Azure was found, and tokens are not sent to an http:// "
                               "endpoint: set store.azure.key or store.azure.sas.token");
        if (client)
                return store_bearer_new(client_fetch, c, WHAT, &c->bearer, reterr);
        e = store_bearer_new(managed_fetch, c, WHAT, &c->bearer, NULL);
        return e == LS_OK ? LS_OK
                          : ls_fail(reterr, LS_ABSENT,
                                    "no key for Azure was found: set store.azure.key or "
                                    "store.azure.sas.token, or AZURE_STORAGE_KEY or "
                                    "AZURE_STORAGE_SAS_TOKEN, or give this machine an identity");
}

static ls_err
find(struct azure_credentials *c, const struct azure_credentials_options *o,
     struct ls_errinfo *reterr)
{
        const char *key = o->key, *sas = o->sas;

        if (!store_text_there(key) && !store_text_there(sas)) {
                key = ls_process_env("AZURE_STORAGE_KEY");
                sas = ls_process_env("AZURE_STORAGE_SAS_TOKEN");
        }
        if (store_text_there(key)) {
                c->keyed = true;
                if (azure_key_of(key, &c->key) != LS_OK)
                        return ls_fail(reterr, LS_INVALID,
                                       "store.azure.key is no key: base64, as Azure shows it");
                return LS_OK;
        }
        return store_text_there(sas) ? sas_take(c, sas, reterr) : token_find(c, o->plain, reterr);
}

ls_err
azure_credentials_new(const struct azure_credentials_options *options,
                      struct azure_credentials **ret_credentials, struct ls_errinfo *reterr)
{
        struct azure_credentials *c = ls_calloc(1, sizeof *c);
        ls_err e;

        c->account = ls_strdup(options->account);
        if (store_text_there(options->ca_file))
                c->ca_file = ls_strdup(options->ca_file);
        e = find(c, options, reterr);
        if (e != LS_OK) {
                azure_credentials_free(c);
                return e;
        }
        *ret_credentials = c;
        return LS_OK;
}

void
azure_credentials_free(struct azure_credentials *c)
{
        if (c == NULL)
                return;
        store_bearer_free(c->bearer);
        OPENSSL_cleanse(&c->key, sizeof c->key);
        ls_free(c->account);
        ls_free(c->ca_file);
        ls_free(c->sas);
        ls_free(c);
}

const char *
azure_credentials_query(const struct azure_credentials *c)
{
        return c->sas != NULL ? c->sas : "";
}

ls_err
azure_credentials_sign(struct azure_credentials *c, struct store_request *r, const char *params,
                       struct ls_buf *text)
{
        if (c->bearer != NULL)
                return store_bearer_sign(c->bearer, r, text);
        if (c->keyed)
                azure_sign(r, c->account, &c->key, params, text);
        return LS_OK;
}
