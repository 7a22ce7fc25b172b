/* store/azure/sign.c - see sign.h. Hashes are OpenSSL's. */
#include "store/azure/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/mem.h"

#define SHA256_BYTES 32
#define SUM_TEXT     45 /* base64 of it, and a NUL */

ls_err
azure_key_of(const char *base64, struct azure_key *ret_key)
{
        size_t len = strlen(base64), padding = 0;
        int bytes;

        if (len == 0 || len % 4 != 0 || len / 4 * 3 > sizeof ret_key->bytes)
                return LS_INVALID;
        while (padding < 2 && base64[len - 1 - padding] == '=')
                padding++;
        if (strspn(base64, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") !=
            len - padding)
                return LS_INVALID;
        bytes = EVP_DecodeBlock(ret_key->bytes, (const uint8_t *)base64, (int)len);
        if (bytes < 0 || (size_t)bytes <= padding)
                return LS_INVALID;
        ret_key->len = (size_t)bytes - padding; /* it decodes the padding as zeros */
        return LS_OK;
}

static const char *
header_find(const struct store_request *r, const char *name)
{
        for (size_t i = 0; i < r->header_count; i++)
                if (strcmp(r->headers[i].name, name) == 0)
                        return r->headers[i].value;
        return "";
}

static int
header_order(const void *a, const void *b)
{
        return strcmp(((const struct store_header *)a)->name,
                      ((const struct store_header *)b)->name);
}

void
azure_text_to_sign(const struct store_request *r, const char *account, const char *params,
                   struct ls_buf *out)
{
        static const char *const standard[] = {
                "content-encoding",
                "content-language",
                "content-length",
                "content-md5",
                "content-type",
                "date",
                "if-modified-since",
                "if-match",
                "if-none-match",
                "if-unmodified-since",
                "range",
        };
        struct store_header sorted[STORE_HEADERS_MAX];
        uint64_t bytes = 0;

        for (size_t i = 0; i < r->body_count; i++)
                bytes += r->body[i].len;
        ls_buf_printf(out, "%s\n", r->method);
        for (size_t i = 0; i < LS_COUNT(standard); i++) {
                if (strcmp(standard[i], "content-length") == 0 && bytes > 0)
                        ls_buf_printf(out, "%llu", (unsigned long long)bytes);
                ls_buf_printf(out, "%s\n", header_find(r, standard[i]));
        }
        memcpy(sorted, r->headers, r->header_count * sizeof *sorted);
        qsort(sorted, r->header_count, sizeof *sorted, header_order);
        for (size_t i = 0; i < r->header_count; i++)
                if (strncmp(sorted[i].name, "x-ms-", 5) == 0)
                        ls_buf_printf(out, "%s:%s\n", sorted[i].name, sorted[i].value);
        ls_buf_printf(out, "/%s%s%s", account, r->path, params);
}

void
azure_sign(struct store_request *r, const char *account, const struct azure_key *key,
           const char *params, struct ls_buf *text)
{
        uint8_t sum[EVP_MAX_MD_SIZE], base64[SUM_TEXT];
        unsigned bytes = 0;
        struct ls_buf signed_text;
        size_t at = text->len;

        ls_buf_init(&signed_text, LS_BUF_MAX_DEFAULT);
        azure_text_to_sign(r, account, params, &signed_text);
        LS_ASSERT(!ls_buf_failed(&signed_text));
        LS_ASSERT(HMAC(EVP_sha256(), key->bytes, (int)key->len, signed_text.ptr, signed_text.len,
                       sum, &bytes) != NULL);
        LS_ASSERT(bytes == SHA256_BYTES);
        EVP_EncodeBlock(base64, sum, SHA256_BYTES);
        ls_buf_done(&signed_text);
        ls_buf_printf(text, "SharedKey %s:%s", account, (const char *)base64);
        ls_buf_put_u8(text, 0);
        LS_ASSERT(!ls_buf_failed(text) && r->header_count < STORE_HEADERS_MAX);
        r->headers[r->header_count++] =
                (struct store_header){ "authorization", (const char *)text->ptr + at };
}
