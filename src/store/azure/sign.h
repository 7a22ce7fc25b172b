/* store/azure/sign.h - signatures of requests to Azure Blob Storage with an account's key.
 *
 * Source: the Azure Storage REST API reference, "Authorize with Shared Key" (string to sign of the
 * Blob service, version 2015-02-21 and later).
 * Threads: any; no state.
 */
#pragma once
#include "store/remote.h"

#define AZURE_VERSION       "2020-12-06" /* of the service, as each request names it */
#define AZURE_KEY_BYTES_MAX 256          /* an account's key is 64 */

struct azure_key {
        uint8_t bytes[AZURE_KEY_BYTES_MAX];
        size_t len;
};

/* Of the base64 that the service shows. LS_INVALID: it is none. */
LS_MUST_USE ls_err azure_key_of(const char *base64, struct azure_key *ret_key);
/* Appends what is signed: `r` as it stands; `params` is the query decoded, in ascending order, each
 * as "\nname:value". */
void azure_text_to_sign(const struct store_request *r, const char *account, const char *params,
                        struct ls_buf *out);
/* Adds authorization to `r`. The text is put into `text`, to which nothing else may be added
 * afterwards. */
void azure_sign(struct store_request *r, const char *account, const struct azure_key *key,
                const char *params, struct ls_buf *text);
