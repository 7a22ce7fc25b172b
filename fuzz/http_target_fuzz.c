/* fuzz/http_target_fuzz.c - request targets and bodies through the parser and a table of routes. */
#include "base/mem.h"
#include "net/http.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
on_any(void *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        for (size_t i = 0; i < LS_HTTP_PARAMS_MAX && r->params[i].ptr != NULL; i++)
                if (r->params[i].len == 0 || memchr(r->params[i].ptr, 0, r->params[i].len) != NULL)
                        __builtin_trap();
        if (ls_http_query(r, "pageToken").ptr != NULL)
                a->status = 204;
}

static void
on_error(void *server, const struct ls_http_request *r, int status, const char *text,
         struct ls_http_answer *a)
{
        if (status < 400)
                __builtin_trap();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const struct ls_http_route routes[] = {
                { "GET", "/", on_any, 0, NULL },
                { "GET", "/v1/{prefix}/namespaces/{ns}", on_any, 0, NULL },
                { "GET", "/v1/{prefix}/namespaces/{ns}/tables/{table}", on_any, 0, NULL },
                { "POST", "/v1/{prefix}/namespaces/{ns}", on_any, 0, NULL },
        };
        struct ls_http_options options = { .routes = routes,
                                           .route_count = LS_COUNT(routes),
                                           .on_error = on_error };
        struct ls_http_request r = { .method = "GET" };
        struct ls_http_answer a;
        struct ls_arena arena;

        ls_arena_init(&arena, 1 << 20);
        r.arena = &arena;
        ls_http_dispatch(&options, ls_str_make((const char *)data, size), &r, &a);
        ls_http_answer_done(&a);
        ls_arena_done(&arena);
        return 0;
}
