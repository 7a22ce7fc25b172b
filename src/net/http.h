/* net/http.h - an HTTP/1.1 server: connections, limits, routes; handlers may block.
 *
 * One thread (libmicrohttpd's, with poll) owns all connections. A request that has arrived whole
 * is looked up in the table of routes. Handlers marked LS_HTTP_INLINE run on that thread and must
 * not block; the others run on a pool of threads while their connection is suspended, so that any
 * number of waiting requests costs connections and no threads.
 *
 * Threads: start, stop: any but a handler's. Handlers: any number at once.
 */
#pragma once
#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "base/span.h"
#include "net/limits.h"

struct ls_http_pair {
        ls_str name, value;
};

/* A request target taken apart (RFC 3986, 9110). Everything is in the arena. */
struct ls_http_target {
        ls_str path;      /* as it came, without the query */
        ls_str *segments; /* decoded; "/a/b" has two, "/" none; one slash at the end is let pass */
        size_t segment_count;
        struct ls_http_pair *query; /* decoded, in order */
        size_t query_count;
};
/* `raw` is "/path?query". LS_INVALID: malformed (an escape that is none, NUL); LS_TOO_LARGE: more
 * segments or parameters than the limits, or past the arena. */
LS_MUST_USE ls_err ls_http_target_parse(ls_str raw, struct ls_arena *arena,
                                        struct ls_http_target *ret_target);

struct ls_http_request {
        const char *method; /* "GET" */
        struct ls_http_target target;
        struct ls_http_pair *headers;
        size_t header_count;
        ls_span body;
        ls_str params[LS_HTTP_PARAMS_MAX]; /* what stood for the {…} of the route, decoded */
        struct ls_arena *arena;            /* lives until the answer is sent */
};
/* The first value of that name, or null. */
ls_str ls_http_query(const struct ls_http_request *r, const char *name);
/* The same for a header; names compare without case. */
ls_str ls_http_header(const struct ls_http_request *r, const char *name);

/* What a handler fills in; starts as 200 without a body. */
struct ls_http_answer {
        int status;
        struct ls_slice *body; /* one reference, given away; NULL: none */
        struct ls_http_pair
                headers[LS_HTTP_ANSWER_HEADERS_MAX]; /* NUL-terminated texts that live in
                                                                  * the request's arena, or
                                                                  * constants */
        size_t header_count;
};
/* Adds a header; values with control characters, and those above the limit, are our bug (assert).
 * `name` and `value` must be NUL-terminated at their ends and live as long as the request. */
void ls_http_answer_header(struct ls_http_answer *a, const char *name, const char *value);
/* Replaces the body (takes the reference) and its Content-Type. */
void ls_http_answer_body(struct ls_http_answer *a, const char *content_type, struct ls_slice *body);
/* Releases what a handler left: for callers of ls_http_dispatch. */
void ls_http_answer_done(struct ls_http_answer *a);

enum ls_http_route_flag {
        LS_HTTP_INLINE = 1, /* never blocks: runs on the connections' thread */
};
struct ls_http_route {
        const char *method;
        const char *pattern; /* "/a/{x}/b"; {…} is one segment, not empty */
        void (*fn)(void *server, struct ls_http_request *r, struct ls_http_answer *a);
        unsigned flags;
        const char *doc; /* one line, for the page that lists them; NULL: not listed */
};
/* The first route that has method and path, with r->params set. NULL: none, and *ret_path_known
 * says whether another method has the path. */
const struct ls_http_route *ls_http_route_find(const struct ls_http_route *routes, size_t count,
                                               struct ls_http_request *r, bool *ret_path_known);

struct ls_http_options {
        const char *host;                   /* an address or a name; "" or "*": all */
        uint16_t port;                      /* 0: a free one */
        const struct ls_http_route *routes; /* outlive the server */
        size_t route_count;
        void *server; /* given to handlers */
        /* Writes the answer to a request that no handler gets: no route, too large, too busy. `r`
         * may be without a target. Inline. */
        void (*on_error)(void *server, const struct ls_http_request *r, int status,
                         const char *text, struct ls_http_answer *a);
        size_t threads;            /* for handlers that block */
        size_t connections_max;    /* above: new ones wait in the kernel's queue */
        size_t body_bytes_max;     /* of one request; above: 413 */
        int64_t bodies_bytes_max;  /* request bodies held at once; above: 503 */
        int64_t answers_bytes_max; /* answers held at once; above: 503 */
        unsigned idle_s;           /* a connection without progress is closed after this */
};
#define LS_HTTP_OPTIONS_DEFAULT                                                  \
        (struct ls_http_options)                                                 \
        {                                                                        \
                .host = "127.0.0.1", .threads = 8, .connections_max = 4096,      \
                .body_bytes_max = (size_t)1 << 20, .bodies_bytes_max = 64 << 20, \
                .answers_bytes_max = 256 << 20, .idle_s = 60                     \
        }

struct ls_http;
/* LS_EXISTS: the port is taken; LS_INVALID: no such host; LS_DENIED; LS_ENET; with words. */
LS_MUST_USE ls_err ls_http_start(const struct ls_http_options *options, struct ls_http **ret_http,
                                 uint16_t *ret_port, struct ls_errinfo *reterr);
/* Answers 503 to what comes from now on, waits for handlers that run and (LS_HTTP_STOP_MS_MAX) for
 * their answers to be taken, closes. Accepts NULL. */
void ls_http_stop(struct ls_http *http);

/* Runs a request through routes without a connection: for tests and fuzzers, and what the server
 * itself does. `r` has method, headers, body and arena; the target is parsed from `raw`. */
void ls_http_dispatch(const struct ls_http_options *options, ls_str raw, struct ls_http_request *r,
                      struct ls_http_answer *a);
/* "Not Found". */
const char *ls_http_status_text(int status);
