/* store/azure/credentials.h - who we are for Azure Blob Storage.
 *
 * The first that is there: the key or the shared access signature (SAS) that was given, those of
 * the environment (AZURE_STORAGE_KEY, AZURE_STORAGE_SAS_TOKEN), a workload identity
 * (AZURE_FEDERATED_TOKEN_FILE, AZURE_CLIENT_ID, AZURE_TENANT_ID), a client's secret
 * (AZURE_CLIENT_SECRET with the two), a managed identity (IDENTITY_ENDPOINT and IDENTITY_HEADER,
 * else the machine's metadata; AZURE_CLIENT_ID chooses one of several). Source: the Microsoft
 * identity platform, "OAuth 2.0 client credentials flow", and Entra's "How to use managed
 * identities to acquire an access token".
 *
 * Threads: any.
 */
#pragma once
#include "store/azure/sign.h"

struct azure_credentials;

struct azure_credentials_options {
        const char *account;
        const char *key, *sas; /* given; NULL or "": not */
        const char *ca_file;   /* as of store_remote_options */
        bool plain;            /* requests go without TLS: no token may go with them */
};

/* Finds the source and the first token. With words: LS_INVALID: what is no key; LS_ABSENT: there is
 * nothing anywhere; LS_DENIED, LS_ENET. */
LS_MUST_USE ls_err azure_credentials_new(const struct azure_credentials_options *options,
                                         struct azure_credentials **ret_credentials,
                                         struct ls_errinfo *reterr);
/* Accepts NULL. */
void azure_credentials_free(struct azure_credentials *c);
/* What is added to each query: a SAS, or "". Borrowed. */
const char *azure_credentials_query(const struct azure_credentials *c);
/* Adds authorization to `r` where it is a header; `params` as of azure_text_to_sign. The text is
 * put into `text`, to which nothing else may be added afterwards. */
LS_MUST_USE ls_err azure_credentials_sign(struct azure_credentials *c, struct store_request *r,
                                          const char *params, struct ls_buf *text);
