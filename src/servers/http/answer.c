/* servers/http/answer.c - JSON answers and the error model. */
#include <stdio.h>

#include "servers/http/http_int.h"

#define JSON_TYPE "application/json"

static void
body_free(void *ctx, uint8_t *ptr, size_t len)
{
        ls_free(ptr);
}

void
http_answer_buf(struct ls_http_answer *a, const char *content_type, struct ls_buf *body)
{
        if (ls_buf_failed(body)) {
                ls_buf_done(body);
                http_answer_error(a, 500, "InternalServerError", "the answer is too large");
                return;
        }
        ls_http_answer_body(a, content_type, ls_slice_wrap(body->ptr, body->len, body_free, NULL));
        ls_buf_init(body, body->max);
}

static int
dump_more(const char *bytes, size_t len, void *ctx)
{
        ls_buf_put(ctx, bytes, len);
        return ls_buf_failed(ctx) ? -1 : 0;
}

void
http_answer_json(struct ls_http_answer *a, int status, json_t *json)
{
        struct ls_buf body;

        if (json == NULL) {
                http_answer_failure(a, LS_EINTERNAL, "writing the answer", NULL);
                return;
        }
        ls_buf_init(&body, LS_BUF_MAX_DEFAULT);
        json_dump_callback(json, dump_more, &body, JSON_COMPACT | JSON_ENCODE_ANY);
        json_decref(json);
        a->status = status;
        http_answer_buf(a, JSON_TYPE, &body);
}

/* Texts may hold what a client sent: what is not UTF-8 becomes '?', so that the answer is JSON. */
json_t *
http_json_str(ls_str s)
{
        json_t *json = json_stringn(s.ptr ? s.ptr : "", s.len);
        struct ls_buf clean;

        if (json != NULL)
                return json;
        ls_buf_init(&clean, LS_BUF_MAX_DEFAULT);
        for (size_t i = 0; i < s.len; i++)
                ls_buf_put_u8(&clean, (uint8_t)s.ptr[i] < 0x80 ? (uint8_t)s.ptr[i] : '?');
        json = json_stringn((const char *)clean.ptr, clean.len);
        ls_buf_done(&clean);
        return json;
}

static void
answer_error_text(struct ls_http_answer *a, int status, const char *type, const char *text)
{
        http_answer_json(a, status,
                         json_pack("{s:{s:o,s:s,s:i}}", "error", "message",
                                   http_json_str(ls_str_of(text)), "type", type, "code", status));
}

void
http_answer_error(struct ls_http_answer *a, int status, const char *type, const char *format, ...)
{
        char text[1024];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof text, format, args);
        va_end(args);
        answer_error_text(a, status, type, text);
}

void
http_answer_failure(struct ls_http_answer *a, ls_err e, const char *what,
                    const struct ls_errinfo *info)
{
        const char *text = info != NULL && info->text[0] != '\0' ? info->text : ls_err_text(e);

        if (e < 0)
                ls_log_error("http", "event=request_failed what=\"%s\" error=%s text=\"%s\"", what,
                             ls_err_name(e), text);
        if (ls_err_retriable(e))
                http_answer_error(a, 503, "ServiceUnavailableException", "%s: %s; try again", what,
                                  text);
        else
                http_answer_error(a, 500, "InternalServerError", "%s: %s", what, text);
}

void
http_on_error(void *server, const struct ls_http_request *r, int status, const char *text,
              struct ls_http_answer *a)
{
        const char *type;

        switch (status) {
        case 404: type = "NotFoundException"; break;
        case 405: type = "MethodNotAllowedException"; break;
        case 413: type = "RequestTooLargeException"; break;
        case 503: type = "ServiceUnavailableException"; break;
        default: type = status < 500 ? "BadRequestException" : "InternalServerError"; break;
        }
        if (status == 404 && r->target.path.ptr != NULL)
                http_answer_error(a, status, type, "%s: %.*s (GET / lists what is served)", text,
                                  (int)LS_MIN(r->target.path.len, 200), r->target.path.ptr);
        else
                answer_error_text(a, status, type, text);
}

json_t *
http_body_object(const struct ls_http_request *r, struct ls_http_answer *a)
{
        json_error_t error;
        json_t *json;

        if (r->body.len == 0) {
                http_answer_error(a, 400, "BadRequestException", "the request needs a JSON body");
                return NULL;
        }
        json = json_loadb((const char *)r->body.ptr, r->body.len, JSON_REJECT_DUPLICATES, &error);
        if (json == NULL) {
                http_answer_error(a, 400, "BadRequestException", "Malformed request: %s (line %d)",
                                  error.text, error.line);
                return NULL;
        }
        if (!json_is_object(json)) {
                json_decref(json);
                http_answer_error(a, 400, "BadRequestException",
                                  "Malformed request: the body must be a JSON object");
                return NULL;
        }
        return json;
}
