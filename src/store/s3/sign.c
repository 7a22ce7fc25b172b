/* store/s3/sign.c - see sign.h. Hashes are OpenSSL's. */
#include "store/s3/sign.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

#define SHA256_BYTES 32

static void
hex_of(const uint8_t *bytes, size_t count, char *ret_hex)
{
        static const char digits[] = "0123456789abcdef";

        for (size_t i = 0; i < count; i++) {
                ret_hex[2 * i] = digits[bytes[i] >> 4];
                ret_hex[2 * i + 1] = digits[bytes[i] & 15];
        }
        ret_hex[2 * count] = '\0';
}

void
s3_sha256(const ls_span *spans, size_t count, char ret_hex[S3_SHA256_TEXT])
{
        uint8_t sum[SHA256_BYTES];
        EVP_MD_CTX *c = EVP_MD_CTX_new();
        bool ok = c != NULL && EVP_DigestInit_ex(c, EVP_sha256(), NULL);

        for (size_t i = 0; i < count && ok; i++)
                ok = EVP_DigestUpdate(c, spans[i].ptr, spans[i].len);
        ok = ok && EVP_DigestFinal_ex(c, sum, NULL);
        LS_ASSERT(ok); /* only memory can be missing */
        EVP_MD_CTX_free(c);
        hex_of(sum, sizeof sum, ret_hex);
}

void
s3_date(int64_t wall_ms, char ret_date[S3_DATE_TEXT])
{
        char text[LS_CLOCK_TEXT_BYTES]; /* 2026-12-01T10:20:30.123Z */

        ls_clock_text(wall_ms, text);
        snprintf(ret_date, S3_DATE_TEXT, "%.4s%.2s%.5s%.2s%.2sZ", text, text + 5, text + 8,
                 text + 14, text + 17);
}

static void
hmac(const void *key, size_t key_bytes, const char *text, size_t text_bytes,
     uint8_t ret_sum[SHA256_BYTES])
{
        unsigned bytes = SHA256_BYTES;
        uint8_t sum[EVP_MAX_MD_SIZE];

        LS_ASSERT(HMAC(EVP_sha256(), key, (int)key_bytes, (const uint8_t *)text, text_bytes, sum,
                       &bytes) != NULL);
        memcpy(ret_sum, sum, SHA256_BYTES);
}

static int
header_order(const void *a, const void *b)
{
        return strcmp(((const struct store_header *)a)->name,
                      ((const struct store_header *)b)->name);
}

/* "a;b;c" of the headers. */
static void
names_put(struct ls_buf *out, const struct store_header *headers, size_t count)
{
        for (size_t i = 0; i < count; i++)
                ls_buf_printf(out, "%s%s", i > 0 ? ";" : "", headers[i].name);
}

/* Hex of the hash of the canonical request. */
static void
canonical_hash(const struct store_request *r, const struct store_header *headers, size_t count,
               const char *payload, char ret_hex[S3_SHA256_TEXT])
{
        struct ls_buf c;
        ls_span span;

        ls_buf_init(&c, LS_BUF_MAX_DEFAULT);
        ls_buf_printf(&c, "%s\n%s\n%s\n", r->method, r->path, r->query);
        for (size_t i = 0; i < count; i++)
                ls_buf_printf(&c, "%s:%s\n", headers[i].name, headers[i].value);
        ls_buf_put_text(&c, "\n");
        names_put(&c, headers, count);
        ls_buf_printf(&c, "\n%s", payload);
        LS_ASSERT(!ls_buf_failed(&c));
        span = ls_buf_span(&c);
        s3_sha256(&span, 1, ret_hex);
        ls_buf_done(&c);
}

static void
signature(const struct s3_keys *keys, const char *region, const char *service, const char *date,
          const char *scope, const char *hash, char ret_hex[S3_SHA256_TEXT])
{
        LS_AUTO(ls_free) char *secret = ls_format("AWS4%s", keys->secret);
        LS_AUTO(ls_free) char *text = ls_format("AWS4-HMAC-SHA256\n%s\n%s\n%s", date, scope, hash);
        uint8_t key[SHA256_BYTES];

        hmac(secret, strlen(secret), date, 8, key);
        hmac(key, sizeof key, region, strlen(region), key);
        hmac(key, sizeof key, service, strlen(service), key);
        hmac(key, sizeof key, "aws4_request", 12, key);
        hmac(key, sizeof key, text, strlen(text), key);
        hex_of(key, sizeof key, ret_hex);
        OPENSSL_cleanse(secret, strlen(secret));
}

void
s3_sign(struct store_request *r, const char *host, const struct s3_keys *keys, const char *region,
        const char *service, int64_t wall_ms, const char *payload, struct ls_buf *text)
{
        const char *session = keys->session ? keys->session : "";
        char date[S3_DATE_TEXT], scope[160], hash[S3_SHA256_TEXT], sum[S3_SHA256_TEXT];
        struct store_header headers[STORE_HEADERS_MAX];
        size_t count, session_at, authorization_at;

        LS_ASSERT(r->header_count + 4 < STORE_HEADERS_MAX);
        /* Room for all, so that nothing moves that a header points to. */
        LS_ASSERT(ls_buf_reserve(text, 2048 + strlen(keys->access) + strlen(session)));
        s3_date(wall_ms, date);
        ls_buf_put(text, date, sizeof date);
        session_at = text->len;
        ls_buf_put(text, session, strlen(session) + 1);
        r->headers[r->header_count++] = (struct store_header){ "x-amz-content-sha256", payload };
        r->headers[r->header_count++] =
                (struct store_header){ "x-amz-date", (char *)text->ptr + session_at - sizeof date };
        if (session[0] != '\0')
                r->headers[r->header_count++] =
                        (struct store_header){ "x-amz-security-token",
                                               (char *)text->ptr + session_at };
        count = r->header_count;
        memcpy(headers, r->headers, count * sizeof *headers);
        headers[count++] = (struct store_header){ "host", host };
        qsort(headers, count, sizeof *headers, header_order);

        snprintf(scope, sizeof scope, "%.8s/%.64s/%.32s/aws4_request", date, region, service);
        canonical_hash(r, headers, count, payload, hash);
        signature(keys, region, service, date, scope, hash, sum);
        authorization_at = text->len;
        ls_buf_printf(text, "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=", keys->access,
                      scope);
        names_put(text, headers, count);
        ls_buf_printf(text, ", Signature=%s", sum);
        ls_buf_put_u8(text, 0);
        LS_ASSERT(!ls_buf_failed(text));
        r->headers[r->header_count++] =
                (struct store_header){ "authorization", (char *)text->ptr + authorization_at };
}
