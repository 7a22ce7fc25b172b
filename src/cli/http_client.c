/* cli/http_client.c - see http_client.h. Over libcurl. */
#include "cli/http_client.h"

#include <curl/curl.h>

#include "base/buf.h"
#include "base/mem.h"

#define ANSWER_BYTES_MAX ((size_t)1 << 30)
#define CONNECT_MS       5000L
#define LOW_SPEED_S      3600L /* a deep verify says nothing until it is done */

char *
http_path(const char *before, const char *text, const char *after)
{
        static const char digits[] = "0123456789ABCDEF";
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&out, before);
        for (const char *c = text; *c != '\0'; c++) {
                unsigned char u = (unsigned char)*c;

                if ((u >= '0' && u <= '9') || ((u | 0x20) >= 'a' && (u | 0x20) <= 'z') ||
                    u == '-' || u == '_' || u == '.' || u == '~') {
                        ls_buf_put_u8(&out, u);
                } else {
                        ls_buf_put_u8(&out, '%');
                        ls_buf_put_u8(&out, (uint8_t)digits[u >> 4]);
                        ls_buf_put_u8(&out, (uint8_t)digits[u & 15]);
                }
        }
        ls_buf_put_text(&out, after);
        ls_buf_put_u8(&out, 0);
        return (char *)out.ptr;
}

static size_t
on_bytes(char *bytes, size_t size, size_t count, void *ctx)
{
        ls_buf_put(ctx, bytes, size * count);
        return ls_buf_failed(ctx) ? 0 : size * count;
}

/* Words of our error model, or NULL. */
static const char *
error_words(const json_t *json)
{
        return json_string_value(json_object_get(json_object_get(json, "error"), "message"));
}

static ls_err
answer_read(const struct ls_buf *body, long status, json_t **ret_json, struct ls_errinfo *reterr)
{
        json_t *json = json_loadb((const char *)body->ptr, body->len, JSON_DECODE_ANY, NULL);
        ls_err e = LS_OK;

        if (json == NULL)
                return ls_fail(reterr, LS_CORRUPT, "the server's answer (status %ld) is not JSON",
                               status);
        if (status >= 400) {
                const char *words = error_words(json);

                e = ls_fail(reterr, status == 404 ? LS_ABSENT : LS_DENIED, "%.400s",
                            words ? words : "the server refuses");
                json_decref(json);
                return e;
        }
        *ret_json = json;
        return LS_OK;
}

ls_err
http_ask(const char *address, const char *method, const char *path, json_t **ret_json,
         struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *url = ls_format("http://%s%s", address, path);
        CURL *curl = curl_easy_init();
        struct ls_buf body;
        long status = 0;
        CURLcode failed;
        ls_err e;

        if (curl == NULL)
                return ls_fail(reterr, LS_EINTERNAL, "libcurl does not start");
        ls_buf_init(&body, ANSWER_BYTES_MAX);
        curl_easy_setopt(curl, CURLOPT_URL, url);
        curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http");
        curl_easy_setopt(curl, CURLOPT_PROXY, ""); /* the server is asked, nobody between */
        curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, LOW_SPEED_S);
        curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
        curl_easy_setopt(curl, CURLOPT_WRITEDATA, &body);
        if (method[0] == 'P') {
                curl_easy_setopt(curl, CURLOPT_POST, 1L);
                curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, 0L);
        }
        failed = curl_easy_perform(curl);
        curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
        if (failed != CURLE_OK)
                e = ls_fail(
                        reterr, LS_ENET,
                        "http://%s: %s\nIs a server running there? Give its address with --http "
                        "HOST:PORT",
                        address, curl_easy_strerror(failed));
        else
                e = answer_read(&body, status, ret_json, reterr);
        ls_buf_done(&body);
        curl_easy_cleanup(curl);
        return e;
}
