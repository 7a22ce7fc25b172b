/* net/route.c - request targets and routes: pure, no connection. See http.h. */
#include <strings.h>

#include "base/assert.h"
#include "base/mem.h"
#include "net/http.h"

static int
hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        c |= 0x20;
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes %XX, and '+' as a space in a query (HTML forms, which clients use there). NUL is
 * refused: it would end a text early wherever it is shown or kept as C text. */
static ls_err
text_decode(ls_str raw, bool is_query, struct ls_arena *arena, ls_str *ret_text)
{
        char *out = ls_arena_alloc(arena, raw.len + 1);
        size_t len = 0;

        if (out == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < raw.len; i++) {
                char c = raw.ptr[i];

                if (c == '%') {
                        int high, low;

                        if (raw.len - i < 3)
                                return LS_INVALID;
                        high = hex_digit(raw.ptr[i + 1]);
                        low = hex_digit(raw.ptr[i + 2]);
                        if (high < 0 || low < 0)
                                return LS_INVALID;
                        c = (char)(high << 4 | low);
                        i += 2;
                } else if (c == '+' && is_query) {
                        c = ' ';
                }
                if (c == '\0')
                        return LS_INVALID;
                out[len++] = c;
        }
        out[len] = '\0';
        *ret_text = ls_str_make(out, len);
        return LS_OK;
}

/* Takes from *rest what stands before `end`, and the end itself; true while there was something. */
static bool
text_split(ls_str *rest, char end, ls_str *ret_part)
{
        const char *at;

        if (rest->ptr == NULL)
                return false;
        at = rest->len > 0 ? memchr(rest->ptr, end, rest->len) : NULL;
        if (at == NULL) {
                *ret_part = *rest;
                *rest = LS_STR_NULL;
                return true;
        }
        *ret_part = ls_str_make(rest->ptr, (size_t)(at - rest->ptr));
        *rest = ls_str_make(at + 1, rest->len - ret_part->len - 1);
        return true;
}

static ls_err
target_query(ls_str rest, struct ls_arena *arena, struct ls_http_target *t)
{
        ls_str part, name;

        t->query = ls_arena_array(arena, LS_HTTP_QUERY_MAX, sizeof *t->query);
        if (t->query == NULL)
                return LS_TOO_LARGE;
        while (text_split(&rest, '&', &part)) {
                struct ls_http_pair *p;

                if (part.len == 0)
                        continue;
                if (t->query_count == LS_HTTP_QUERY_MAX)
                        return LS_TOO_LARGE;
                p = &t->query[t->query_count];
                text_split(&part, '=', &name);
                LS_TRY(text_decode(name, true, arena, &p->name));
                LS_TRY(text_decode(part.ptr ? part : LS_STR(""), true, arena, &p->value));
                t->query_count++;
        }
        return LS_OK;
}

ls_err
ls_http_target_parse(ls_str raw, struct ls_arena *arena, struct ls_http_target *ret_target)
{
        struct ls_http_target t = { 0 };
        ls_str rest = raw, part;

        if (raw.len == 0 || raw.ptr[0] != '/')
                return LS_INVALID;
        text_split(&rest, '?', &t.path);
        t.segments = ls_arena_array(arena, LS_HTTP_SEGMENTS_MAX, sizeof *t.segments);
        if (t.segments == NULL)
                return LS_TOO_LARGE;
        if (rest.ptr != NULL)
                LS_TRY(target_query(rest, arena, &t));
        rest = ls_str_make(t.path.ptr + 1, t.path.len - 1);
        while (text_split(&rest, '/', &part)) {
                if (part.len == 0 && rest.ptr == NULL)
                        break;
                if (t.segment_count == LS_HTTP_SEGMENTS_MAX)
                        return LS_TOO_LARGE;
                LS_TRY(text_decode(part, false, arena, &t.segments[t.segment_count]));
                t.segment_count++;
        }
        *ret_target = t;
        return LS_OK;
}

ls_str
ls_http_query(const struct ls_http_request *r, const char *name)
{
        for (size_t i = 0; i < r->target.query_count; i++)
                if (ls_str_is(r->target.query[i].name, name))
                        return r->target.query[i].value;
        return LS_STR_NULL;
}

ls_str
ls_http_header(const struct ls_http_request *r, const char *name)
{
        size_t len = strlen(name);

        for (size_t i = 0; i < r->header_count; i++)
                if (r->headers[i].name.len == len &&
                    strncasecmp(r->headers[i].name.ptr, name, len) == 0)
                        return r->headers[i].value;
        return LS_STR_NULL;
}

/* --- answers --- */

void
ls_http_answer_header(struct ls_http_answer *a, const char *name, const char *value)
{
        LS_ASSERT(a->header_count < LS_HTTP_ANSWER_HEADERS_MAX);
        for (const char *c = value; *c != '\0'; c++)
                LS_ASSERT((unsigned char)*c >= 0x20 && *c != 0x7f);
        a->headers[a->header_count++] = (struct ls_http_pair){ ls_str_of(name), ls_str_of(value) };
}

void
ls_http_answer_body(struct ls_http_answer *a, const char *content_type, struct ls_slice *body)
{
        ls_slice_unref(a->body);
        a->body = body;
        for (size_t i = 0; i < a->header_count; i++) {
                if (ls_str_is(a->headers[i].name, "Content-Type")) {
                        a->headers[i].value = ls_str_of(content_type);
                        return;
                }
        }
        ls_http_answer_header(a, "Content-Type", content_type);
}

void
ls_http_answer_done(struct ls_http_answer *a)
{
        ls_slice_unref(a->body);
        *a = (struct ls_http_answer){ 0 };
}

/* --- routes --- */

static bool
route_matches(const struct ls_http_route *route, struct ls_http_request *r)
{
        ls_str rest = ls_str_of(route->pattern + 1), part;
        size_t at = 0, params = 0;

        if (rest.len == 0)
                return r->target.segment_count == 0;
        while (text_split(&rest, '/', &part)) {
                ls_str segment;

                if (at == r->target.segment_count)
                        return false;
                segment = r->target.segments[at++];
                if (part.len > 0 && part.ptr[0] == '{') {
                        LS_ASSERT(params < LS_HTTP_PARAMS_MAX);
                        if (segment.len == 0)
                                return false;
                        r->params[params++] = segment;
                } else if (!ls_str_eq(part, segment)) {
                        return false;
                }
        }
        return at == r->target.segment_count;
}

const struct ls_http_route *
ls_http_route_find(const struct ls_http_route *routes, size_t count, struct ls_http_request *r,
                   bool *ret_path_known)
{
        *ret_path_known = false;
        for (size_t i = 0; i < count; i++) {
                if (!route_matches(&routes[i], r))
                        continue;
                if (strcmp(routes[i].method, r->method) == 0)
                        return &routes[i];
                *ret_path_known = true;
        }
        return NULL;
}

const char *
ls_http_status_text(int status)
{
        static const struct {
                int status;
                const char *text;
        } texts[] = {
                { 200, "OK" },
                { 204, "No Content" },
                { 304, "Not Modified" },
                { 400, "Bad Request" },
                { 404, "Not Found" },
                { 405, "Method Not Allowed" },
                { 406, "Not Acceptable" },
                { 409, "Conflict" },
                { 413, "Content Too Large" },
                { 414, "URI Too Long" },
                { 422, "Unprocessable Content" },
                { 431, "Request Header Fields Too Large" },
                { 500, "Internal Server Error" },
                { 501, "Not Implemented" },
                { 503, "Service Unavailable" },
        };

        for (size_t i = 0; i < LS_COUNT(texts); i++)
                if (texts[i].status == status)
                        return texts[i].text;
        return "Error";
}
