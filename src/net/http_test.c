/* net/http_test.c - proves that targets are parsed strictly, that routes match exactly, and that
 * the server answers, refuses and ends as http.h says, whatever bytes arrive. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "net/http.h"
#include "sys/dial.h"
#include "sys/jobs.h"

#define WAIT_MS 30000

/* --- targets --- */

static ls_err
parse(struct ls_arena *arena, const char *raw, struct ls_http_target *t)
{
        ls_arena_init(arena, 1 << 20);
        return ls_http_target_parse(ls_str_of(raw), arena, t);
}

static void
test_target_parts(void **state)
{
        struct ls_http_target t;
        struct ls_arena arena;

        assert_int_equal(parse(&arena, "/a%2Fb/c%1fd/+?x=1%202&y&=z&x=+2&&q=a=b", &t), LS_OK);
        assert_int_equal(t.segment_count, 3);
        assert_true(ls_str_is(t.segments[0], "a/b"));
        assert_true(ls_str_is(t.segments[1], "c\x1f"
                                             "d"));
        assert_true(ls_str_is(t.segments[2], "+"));
        assert_int_equal(t.query_count, 5);
        assert_true(ls_str_is(t.query[0].value, "1 2"));
        assert_true(ls_str_is(t.query[1].name, "y") && ls_str_is(t.query[1].value, ""));
        assert_true(ls_str_is(t.query[2].name, "") && ls_str_is(t.query[2].value, "z"));
        assert_true(ls_str_is(t.query[3].value, " 2"));
        assert_true(ls_str_is(t.query[4].value, "a=b"));
        assert_true(ls_str_is(t.path, "/a%2Fb/c%1fd/+"));
        ls_arena_done(&arena);

        assert_int_equal(parse(&arena, "/", &t), LS_OK);
        assert_int_equal(t.segment_count, 0);
        ls_arena_done(&arena);
        assert_int_equal(parse(&arena, "/a/", &t), LS_OK);
        assert_int_equal(t.segment_count, 1);
        ls_arena_done(&arena);
        assert_int_equal(parse(&arena, "/a//b", &t), LS_OK);
        assert_int_equal(t.segment_count, 3);
        assert_int_equal(t.segments[1].len, 0);
        ls_arena_done(&arena);
        assert_int_equal(parse(&arena, "/?", &t), LS_OK);
        assert_int_equal(t.query_count, 0);
        ls_arena_done(&arena);
}

static void
test_target_refusals(void **state)
{
        static const char *bad[] = { "",     "a",      "/%",      "/%4",    "/%4x",
                                     "/%zz", "/a%00b", "/?x=%00", "/?%=1",  "/?x=%2",
                                     "*",    "/%%41",  "/a?b%g0", "http://" };
        struct ls_http_target t;
        struct ls_arena arena;
        char long_path[200] = "", long_query[400] = "/?";

        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                assert_int_equal(parse(&arena, bad[i], &t), LS_INVALID);
                ls_arena_done(&arena);
        }
        for (int i = 0; i <= LS_HTTP_SEGMENTS_MAX; i++)
                memcpy(long_path + 2 * i, "/a", 3);
        assert_int_equal(parse(&arena, long_path, &t), LS_TOO_LARGE);
        ls_arena_done(&arena);
        for (int i = 0; i <= LS_HTTP_QUERY_MAX; i++)
                memcpy(long_query + 2 + 2 * i, "a&", 3);
        assert_int_equal(parse(&arena, long_query, &t), LS_TOO_LARGE);
        ls_arena_done(&arena);
}

/* --- a server to try --- */

struct fixture {
        struct ls_http_options options;
        struct ls_http *http;
        uint16_t port;
        pthread_mutex_t lock;
        struct ls_cond changed;
        int waiting;
        bool go;
};

static void
answer_text(struct ls_http_answer *a, const char *text)
{
        ls_http_answer_body(a, "text/plain", ls_slice_copy(ls_span_of(text, strlen(text))));
}

static void
on_hello(void *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        answer_text(a, "hello");
}

static void
on_echo(void *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        ls_str text = ls_arena_printf(r->arena, "%.*s|%.*s|%.*s|%zu", LS_STR_ARG(r->params[0]),
                                      LS_STR_ARG(ls_http_query(r, "q")),
                                      LS_STR_ARG(ls_http_header(r, "x-test")), r->body.len);

        answer_text(a, text.ptr);
}

static void
on_wait(void *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct fixture *f = server;

        pthread_mutex_lock(&f->lock);
        f->waiting++;
        ls_cond_broadcast(&f->changed);
        while (!f->go)
                ls_cond_wait(&f->changed, &f->lock);
        pthread_mutex_unlock(&f->lock);
        a->status = 204;
}

#define LARGE_BYTES ((size_t)16 << 20) /* more than sockets take */

static void
on_large(void *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        uint8_t *bytes = ls_calloc(1, LARGE_BYTES);

        ls_http_answer_body(a, "text/plain", ls_slice_copy(ls_span_of(bytes, LARGE_BYTES)));
        ls_free(bytes);
}

static void
on_error(void *server, const struct ls_http_request *r, int status, const char *text,
         struct ls_http_answer *a)
{
        answer_text(a, text);
}

static const struct ls_http_route routes[] = {
        { "GET", "/", on_hello, LS_HTTP_INLINE, NULL },
        { "GET", "/inline", on_hello, LS_HTTP_INLINE, NULL },
        { "HEAD", "/inline", on_hello, LS_HTTP_INLINE, NULL },
        { "POST", "/echo/{name}", on_echo, 0, NULL },
        { "GET", "/echo/{name}", on_echo, 0, NULL },
        { "GET", "/echo/{name}/{more}", on_hello, 0, NULL },
        { "GET", "/wait", on_wait, 0, NULL },
        { "GET", "/large", on_large, 0, NULL },
};

static int
setup(void **state)
{
        struct fixture *f = ls_calloc(1, sizeof *f);
        struct ls_errinfo info;

        pthread_mutex_init(&f->lock, NULL);
        ls_cond_init(&f->changed);
        f->options = LS_HTTP_OPTIONS_DEFAULT;
        f->options.routes = routes;
        f->options.route_count = LS_COUNT(routes);
        f->options.server = f;
        f->options.on_error = on_error;
        f->options.threads = 2;
        f->options.body_bytes_max = 1000;
        *state = f;
        return ls_http_start(&f->options, &f->http, &f->port, &info);
}

static int
teardown(void **state)
{
        struct fixture *f = *state;

        ls_http_stop(f->http);
        pthread_mutex_destroy(&f->lock);
        ls_cond_done(&f->changed);
        ls_free(f);
        return 0;
}

static struct ls_dial *
dial(struct fixture *f)
{
        struct ls_dial *d = NULL;

        assert_int_equal(ls_dial_open("127.0.0.1", f->port, WAIT_MS, &d, NULL), LS_OK);
        return d;
}

/* Sends without minding a peer that closes early. */
static void
send_bytes(struct ls_dial *d, const char *bytes, size_t len)
{
        ls_span s = ls_span_of(bytes, len);
        ls_err e = ls_dial_send(d, &s, 1, WAIT_MS);

        assert_true(e == LS_OK || e == LS_ENET);
}

/* Reads one answer: its status; the body (Content-Length only) into ret. */
static int
read_answer(struct ls_dial *d, bool has_body, char *ret, size_t cap)
{
        char head[8192];
        size_t len = 0;
        const char *length;
        int status = 0;

        while (len < 4 || memcmp(head + len - 4, "\r\n\r\n", 4) != 0) {
                if (len == sizeof head - 1 || ls_dial_read(d, head + len, 1, WAIT_MS) != LS_OK)
                        return -1;
                len++;
        }
        head[len] = '\0';
        assert_int_equal(sscanf(head, "HTTP/1.1 %d", &status), 1);
        length = strcasestr(head, "content-length: ");
        ret[0] = '\0';
        if (has_body && length != NULL) {
                size_t bytes = 0;

                assert_int_equal(sscanf(length + 16, "%zu", &bytes), 1);
                assert_true(bytes < cap);
                assert_int_equal(ls_dial_read(d, ret, bytes, WAIT_MS), bytes ? LS_OK : LS_OK);
                ret[bytes] = '\0';
        }
        return status;
}

static int
ask(struct fixture *f, const char *request, char *ret, size_t cap)
{
        struct ls_dial *d = dial(f);
        int status;

        send_bytes(d, request, strlen(request));
        status = read_answer(d, strncmp(request, "HEAD", 4) != 0, ret, cap);
        ls_dial_close(d);
        return status;
}

static void
test_answers(void **state)
{
        struct fixture *f = *state;
        char body[4096];

        assert_int_equal(ask(f, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body), 200);
        assert_string_equal(body, "hello");
        assert_int_equal(ask(f, "GET /echo/a%20b?q=c+d HTTP/1.1\r\nHost: x\r\nX-Test: e\r\n\r\n",
                             body, sizeof body),
                         200);
        assert_string_equal(body, "a b|c d|e|0");
        assert_int_equal(ask(f,
                             "POST /echo/n HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n12345",
                             body, sizeof body),
                         200);
        assert_string_equal(body, "n|||5");
        assert_int_equal(
                ask(f,
                    "POST /echo/n HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                    "3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
                    body, sizeof body),
                200);
        assert_string_equal(body, "n|||5");
        assert_int_equal(ask(f, "HEAD /inline HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body),
                         200);
}

static void
test_refusals(void **state)
{
        struct fixture *f = *state;
        char body[4096], request[60000];
        size_t len;

        assert_int_equal(ask(f, "GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body),
                         404);
        assert_int_equal(ask(f, "GET /echo/ HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body), 404);
        assert_int_equal(ask(f, "GET /echo//x HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body),
                         404);
        assert_int_equal(ask(f, "PUT /inline HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body), 405);
        assert_int_equal(ask(f, "GET /a%0 HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body), 400);
        assert_int_equal(ask(f, "GET /a%00b HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body), 400);
        assert_int_equal(ask(f, "GET / HTTP/1.1\r\n\r\n", body, sizeof body), 400);
        /* Too large, as declared (thrown away), as declared (not even read), and as it turns out.
         * */
        len = (size_t)snprintf(
                request, sizeof request,
                "POST /echo/n HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n%01001d", 0);
        assert_true(len < sizeof request);
        assert_int_equal(ask(f, request, body, sizeof body), 413);
        assert_int_equal(
                ask(f, "POST /echo/n HTTP/1.1\r\nHost: x\r\nContent-Length: 999999999999\r\n\r\n",
                    body, sizeof body),
                413);
        snprintf(request, sizeof request,
                 "POST /echo/n HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                 "3e9\r\n%01001d\r\n0\r\n\r\n",
                 0);
        assert_int_equal(ask(f, request, body, sizeof body), 413);
        /* A header and a target above the head's bound; too many headers. */
        len = (size_t)snprintf(request, sizeof request,
                               "GET / HTTP/1.1\r\nHost: x\r\nA: %050000d\r\n\r\n", 0);
        assert_int_equal(ask(f, request, body, sizeof body), 431);
        snprintf(request, sizeof request, "GET /%050000d HTTP/1.1\r\nHost: x\r\n\r\n", 0);
        assert_int_equal(ask(f, request, body, sizeof body), 414);
        len = (size_t)snprintf(request, sizeof request, "GET / HTTP/1.1\r\nHost: x\r\n");
        for (int i = 0; i < LS_HTTP_HEADERS_MAX; i++)
                len += (size_t)snprintf(request + len, sizeof request - len, "H%d: 1\r\n", i);
        snprintf(request + len, sizeof request - len, "\r\n");
        assert_int_equal(ask(f, request, body, sizeof body), 431);
}

static void
test_keep_alive(void **state)
{
        struct fixture *f = *state;
        struct ls_dial *d = dial(f);
        static const char two[] = "GET /echo/1 HTTP/1.1\r\nHost: x\r\n\r\n"
                                  "GET /echo/2 HTTP/1.1\r\nHost: x\r\n\r\n";
        char body[4096];

        for (int i = 0; i < 3; i++) {
                send_bytes(d, two, sizeof two - 1);
                assert_int_equal(read_answer(d, true, body, sizeof body), 200);
                assert_string_equal(body, "1|||0");
                assert_int_equal(read_answer(d, true, body, sizeof body), 200);
                assert_string_equal(body, "2|||0");
        }
        ls_dial_close(d);
}

static void
wait_for(struct fixture *f, int waiting)
{
        pthread_mutex_lock(&f->lock);
        while (f->waiting < waiting)
                ls_cond_wait(&f->changed, &f->lock);
        pthread_mutex_unlock(&f->lock);
}

static void
let_go(struct fixture *f)
{
        pthread_mutex_lock(&f->lock);
        f->go = true;
        ls_cond_broadcast(&f->changed);
        pthread_mutex_unlock(&f->lock);
}

/* Many waiting requests take two threads only, inline routes go on, and all get their answers. */
static void
test_blocking_handlers(void **state)
{
        enum { COUNT = 100 };
        struct fixture *f = *state;
        struct ls_dial *d[COUNT];
        static const char request[] = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";
        char body[4096];

        for (int i = 0; i < COUNT; i++) {
                d[i] = dial(f);
                send_bytes(d[i], request, sizeof request - 1);
        }
        wait_for(f, 2);
        assert_int_equal(ask(f, "GET /inline HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body), 200);
        let_go(f);
        for (int i = 0; i < COUNT; i++) {
                assert_int_equal(read_answer(d[i], false, body, sizeof body), 204);
                ls_dial_close(d[i]);
        }
}

static void
stop_thread(void *arg)
{
        struct fixture *f = arg;

        ls_http_stop(f->http);
}

/* A stop answers what runs. */
static void
test_stop_drains(void **state)
{
        struct fixture *f = *state;
        struct ls_thread *thread;
        struct ls_dial *d = dial(f), *gone = dial(f), *half = dial(f);
        static const char request[] = "GET /wait HTTP/1.1\r\nHost: x\r\n\r\n";
        char body[4096];

        send_bytes(d, request, sizeof request - 1);
        wait_for(f, 1);
        send_bytes(gone, request, sizeof request - 1);
        wait_for(f, 2);
        ls_dial_close(gone); /* a client that goes away while its handler runs */
        send_bytes(half, "GET / HTTP/1.1\r\nHo", 18);
        assert_int_equal(ls_thread_start("stop", stop_thread, f, &thread), LS_OK);
        let_go(f);
        assert_int_equal(read_answer(d, false, body, sizeof body), 204);
        ls_dial_close(d);
        ls_dial_close(half);
        ls_thread_join(thread);
        f->http = NULL;
}

static void
test_port_taken(void **state)
{
        struct fixture *f = *state;
        struct ls_http_options o = f->options;
        struct ls_errinfo info = { "" };
        struct ls_http *http;
        uint16_t port;

        o.port = f->port;
        assert_int_equal(ls_http_start(&o, &http, &port, &info), LS_EXISTS);
        assert_non_null(strstr(info.text, "in use"));
        o.host = "no such host";
        assert_int_equal(ls_http_start(&o, &http, &port, &info), LS_INVALID);
}

/* Bytes of any kind: an answer or a closed connection, and the next client is served. */
static void
test_noise(void **state)
{
        static const char get[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
        static const char post[] =
                "POST /echo/a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc";
        static const char chunked[] = "POST /echo/a HTTP/1.1\r\nHost: x\r\n"
                                      "Transfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\nabc";
        static const char old[] = "GET /%25%1F?a=%41&b HTTP/1.0\r\nContent-Length: -5\r\n\r\n";
        static const char *const seeds[] = { get, post, chunked, old };
        struct fixture *f = *state;
        uint64_t random = 42;
        char body[4096];

        for (int round = 0; round < 400; round++) {
                struct ls_dial *d = dial(f);
                char bytes[512];
                size_t len = strlen(seeds[round % 4]);

                memcpy(bytes, seeds[round % 4], len);
                for (int i = 0; i < 3; i++) {
                        random = random * 6364136223846793005u + 1442695040888963407u;
                        bytes[(random >> 33) % len] = (char)(random >> 24);
                }
                if (round % 3 == 0)
                        len = (random >> 40) % len;
                send_bytes(d, bytes, len);
                ls_dial_close(d);
        }
        assert_int_equal(ask(f, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body), 200);
}

/* --- many, slow and greedy clients --- */

/* Value of a metric without labels. */
static long
metric(const char *name)
{
        char line[128];
        struct ls_buf page;
        const char *at;
        long value;

        snprintf(line, sizeof line, "\n%s ", name);
        ls_buf_init(&page, LS_BUF_MAX_DEFAULT);
        ls_metric_print(&page);
        at = strstr(ls_buf_cstr(&page), line);
        value = at != NULL ? strtol(at + strlen(line), NULL, 10) : 0;
        ls_buf_done(&page);
        return value;
}

/* Waits until no connection is left: what they held is given back. */
static void
wait_no_connections(void)
{
        int64_t deadline = ls_clock_monotonic_ms() + WAIT_MS;

        while (metric("lakestream_http_connections") != 0) {
                assert_true(ls_clock_monotonic_ms() < deadline);
                usleep(1000);
        }
}

/* Requests of one connection, inline and on the pool mixed, sent at once: answers in order. */
static void
test_pipelining(void **state)
{
        enum { COUNT = 300 };
        struct fixture *f = *state;
        struct ls_dial *d = dial(f);
        char *text = ls_malloc(COUNT * 160), body[4096];
        size_t len = 0;

        for (int i = 0; i < COUNT; i++) {
                if (i % 3 == 0)
                        len += (size_t)sprintf(text + len,
                                               "GET /inline HTTP/1.1\r\nHost: x\r\n\r\n");
                else if (i % 3 == 1)
                        len += (size_t)sprintf(text + len,
                                               "GET /echo/%d HTTP/1.1\r\nHost: x\r\n\r\n", i);
                else
                        len += (size_t)sprintf(text + len,
                                               "POST /echo/%d HTTP/1.1\r\nHost: x\r\n"
                                               "Transfer-Encoding: chunked\r\n\r\n"
                                               "1;ext=\"a\"\r\nx\r\n00\r\nTrailer: t\r\n\r\n",
                                               i);
        }
        send_bytes(d, text, len);
        for (int i = 0; i < COUNT; i++) {
                char expected[32];

                snprintf(expected, sizeof expected, i % 3 == 0 ? "hello" : "%d|||%d", i,
                         i % 3 == 2);
                assert_int_equal(read_answer(d, true, body, sizeof body), 200);
                assert_string_equal(body, expected);
        }
        ls_dial_close(d);
        ls_free(text);
        wait_no_connections();
}

/* 1,000 connections that stay open: each is answered, twice, and all is given back. */
static void
test_many_connections(void **state)
{
        enum { COUNT = 1000 };
        struct fixture *f = *state;
        struct ls_dial **d = ls_calloc(COUNT, sizeof(struct ls_dial *));
        static const char request[] = "GET /echo/1 HTTP/1.1\r\nHost: x\r\n\r\n";
        struct rlimit files;
        char body[4096];

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
        files.rlim_cur = files.rlim_max;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        assert_true(files.rlim_cur >= 2 * COUNT + 64);
        for (int i = 0; i < COUNT; i++)
                d[i] = dial(f);
        for (int round = 0; round < 2; round++) {
                for (int i = 0; i < COUNT; i++)
                        send_bytes(d[i], request, sizeof request - 1);
                for (int i = 0; i < COUNT; i++) {
                        assert_int_equal(read_answer(d[i], true, body, sizeof body), 200);
                        assert_string_equal(body, "1|||0");
                }
        }
        assert_int_equal(metric("lakestream_http_connections"), COUNT);
        for (int i = 0; i < COUNT; i++)
                ls_dial_close(d[i]);
        ls_free(d);
        wait_no_connections();
}

/* A client that sends a byte at a time gets its answer, others do not wait for it, and one that
 * stops in the middle is closed when its time is over. */
static void
test_slow_clients(void **state)
{
        static const char request[] = "POST /echo/slow HTTP/1.1\r\nHost: x\r\n"
                                      "Content-Length: 4\r\n\r\nbody";
        struct fixture *f = *state;
        struct ls_dial *slow = dial(f), *stuck;
        char body[4096], byte;

        for (size_t i = 0; i < sizeof request - 1; i++) {
                send_bytes(slow, request + i, 1);
                if (i % 16 == 0)
                        assert_int_equal(
                                ask(f, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body),
                                200);
        }
        assert_int_equal(read_answer(slow, true, body, sizeof body), 200);
        assert_string_equal(body, "slow|||4");
        ls_dial_close(slow);

        ls_http_stop(f->http);
        f->options.idle_s = 1;
        assert_int_equal(ls_http_start(&f->options, &f->http, &f->port, NULL), LS_OK);
        stuck = dial(f);
        send_bytes(stuck, request, sizeof request - 3);
        for (;;) { /* maybe an answer that says so, then the end */
                ls_err e = ls_dial_read(stuck, &byte, 1, WAIT_MS);

                if (e == LS_OK)
                        continue;
                assert_true(e == LS_END || e == LS_ENET);
                break;
        }
        ls_dial_close(stuck);
        wait_no_connections();
}

/* Clients that ask for much and take nothing hold no more than the bound; the rest are told to come
 * again, and what they held is given back when they go. */
static void
test_greedy_clients(void **state)
{
        enum { COUNT = 12 };
        static const char request[] = "GET /large HTTP/1.1\r\nHost: x\r\n\r\n";
        struct fixture *f = *state;
        struct ls_dial *d[COUNT];
        char body[64];
        int served = 0, refused = 0;

        ls_http_stop(f->http);
        f->options.answers_bytes_max = 5 * LARGE_BYTES;
        assert_int_equal(ls_http_start(&f->options, &f->http, &f->port, NULL), LS_OK);
        for (int i = 0; i < COUNT; i++) {
                int status;

                d[i] = dial(f);
                send_bytes(d[i], request, sizeof request - 1);
                status = read_answer(d[i], false, body, sizeof body);
                served += status == 200;
                refused += status == 503;
        }
        assert_int_equal(served, 5);
        assert_int_equal(refused, COUNT - 5);
        for (int i = 0; i < COUNT; i++)
                ls_dial_close(d[i]);
        wait_no_connections();
        d[0] = dial(f);
        send_bytes(d[0], request, sizeof request - 1);
        assert_int_equal(read_answer(d[0], false, body, sizeof body), 200);
        ls_dial_close(d[0]);
}

/* Bodies that come in pieces, at once from many, hold no more than the bound. */
static void
test_bodies_bound(void **state)
{
        enum { COUNT = 10, BYTES = 900 };
        struct fixture *f = *state;
        struct ls_dial *d[COUNT];
        char head[160], bytes[BYTES], body[4096];
        int served = 0, refused = 0;
        size_t len = (size_t)snprintf(head, sizeof head,
                                      "POST /echo/n HTTP/1.1\r\nHost: x\r\n"
                                      "Content-Length: %d\r\n\r\n",
                                      BYTES);

        ls_http_stop(f->http);
        f->options.bodies_bytes_max = 4 * BYTES;
        assert_int_equal(ls_http_start(&f->options, &f->http, &f->port, NULL), LS_OK);
        memset(bytes, 'x', sizeof bytes);
        for (int i = 0; i < COUNT; i++) {
                d[i] = dial(f);
                send_bytes(d[i], head, len);
                send_bytes(d[i], bytes, BYTES - 1);
                /* one connection's bytes are there before the next one's are sent */
                assert_int_equal(ask(f, "GET / HTTP/1.1\r\nHost: x\r\n\r\n", body, sizeof body),
                                 200);
        }
        for (int i = 0; i < COUNT; i++) {
                int status;

                send_bytes(d[i], bytes, 1);
                status = read_answer(d[i], true, body, sizeof body);
                served += status == 200;
                refused += status == 503;
                if (status == 200)
                        assert_string_equal(body, "n|||900");
        }
        assert_int_equal(served + refused, COUNT);
        assert_in_range(served, 4, COUNT - 1);
        assert_true(refused > 0);
        for (int i = 0; i < COUNT; i++)
                ls_dial_close(d[i]);
        wait_no_connections();
}

static void
test_host_port(void **state)
{
        ls_str host;
        uint16_t port;

        assert_int_equal(ls_host_port_split(LS_STR("h:1"), &host, &port, NULL), LS_OK);
        assert_true(ls_str_is(host, "h") && port == 1);
        assert_int_equal(ls_host_port_split(LS_STR("[::1]:65535"), &host, &port, NULL), LS_OK);
        assert_true(ls_str_is(host, "::1") && port == 65535);
        assert_int_equal(ls_host_port_split(LS_STR(":0"), &host, &port, NULL), LS_OK);
        assert_true(host.len == 0 && port == 0);
        assert_int_equal(ls_host_port_split(LS_STR("h"), &host, &port, NULL), LS_INVALID);
        assert_int_equal(ls_host_port_split(LS_STR("h:"), &host, &port, NULL), LS_INVALID);
        assert_int_equal(ls_host_port_split(LS_STR("h:65536"), &host, &port, NULL), LS_INVALID);
        assert_int_equal(ls_host_port_split(LS_STR("h:-1"), &host, &port, NULL), LS_INVALID);
        assert_int_equal(ls_host_port_split(LS_STR("::1:5"), &host, &port, NULL), LS_INVALID);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_target_parts),
                cmocka_unit_test(test_target_refusals),
                cmocka_unit_test(test_host_port),
                cmocka_unit_test_setup_teardown(test_answers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_refusals, setup, teardown),
                cmocka_unit_test_setup_teardown(test_keep_alive, setup, teardown),
                cmocka_unit_test_setup_teardown(test_blocking_handlers, setup, teardown),
                cmocka_unit_test_setup_teardown(test_stop_drains, setup, teardown),
                cmocka_unit_test_setup_teardown(test_port_taken, setup, teardown),
                cmocka_unit_test_setup_teardown(test_noise, setup, teardown),
                cmocka_unit_test_setup_teardown(test_pipelining, setup, teardown),
                cmocka_unit_test_setup_teardown(test_many_connections, setup, teardown),
                cmocka_unit_test_setup_teardown(test_slow_clients, setup, teardown),
                cmocka_unit_test_setup_teardown(test_greedy_clients, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bodies_bound, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
