/* net/http.c - the HTTP server over libmicrohttpd. See http.h.
 *
 * libmicrohttpd runs one thread with poll, which parses requests and writes answers. A request
 * lives in a `struct exchange` from its first line (uri callback) to the end of its answer
 * (completed callback):
 *
 *   HEAD -> BODY -> INLINE ----------------------> ANSWERED
 *                 \-> QUEUED (suspended, on the pool) -> DONE (resumed) -> ANSWERED
 *
 * While an exchange is QUEUED only the pool's thread touches it; the connection's memory stays as
 * it is, so that headers may be read. Resuming hands it back.
 */
#include <errno.h>
#include <microhttpd.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/budget.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/metric.h"
#include "net/http.h"
#include "sys/dial.h"
#include "sys/jobs.h"

static LS_METRIC_BY(http_requests, COUNTER, "lakestream_http_requests_total",
                    "HTTP requests, by route");
static LS_METRIC_BY(http_answers, COUNTER, "lakestream_http_answers_total",
                    "HTTP answers, by status");
static LS_METRIC(http_connections, GAUGE, "lakestream_http_connections", "open HTTP connections");
static LS_METRIC_SECONDS(http_seconds, "lakestream_http_request_seconds",
                         "from a request that has arrived to its answer being ready");

struct ls_http {
        struct ls_http_options options;
        struct MHD_Daemon *daemon;
        struct ls_jobs *jobs;
        struct ls_budget bodies, answers;
        atomic_bool stopping;
        pthread_mutex_t lock; /* of what follows */
        struct ls_cond changed;
        size_t active; /* requests that have arrived whole and are not completed */
        size_t queued; /* of them, with a handler */
};

enum exchange_state {
        EXCHANGE_HEAD,
        EXCHANGE_BODY,
        EXCHANGE_QUEUED,
        EXCHANGE_DONE,
        EXCHANGE_ANSWERED
};

struct exchange {
        struct ls_http *http;
        struct MHD_Connection *connection;
        struct ls_arena arena;
        ls_str raw; /* the target as it came */
        struct ls_http_request r;
        struct ls_http_answer a;
        const struct ls_http_route *route;
        enum exchange_state state;
        bool active; /* counted in http->active */
        struct ls_buf body;
        uint64_t body_seen; /* bytes, kept or thrown away */
        int refused;        /* status to answer once the body has passed; 0: none */
        int64_t body_charged, answer_charged;
        int64_t began_ns;
        struct ls_job job;
};

/* --- routing and answers, with or without a connection --- */

static void
answer_error(const struct ls_http_options *o, const struct ls_http_request *r, int status,
             const char *text, struct ls_http_answer *a)
{
        ls_http_answer_done(a);
        a->status = status;
        o->on_error(o->server, r, status, text, a);
        a->status = status;
        if (status == 503)
                ls_http_answer_header(a, "Retry-After", "1");
}

static void
answer_allow(const struct ls_http_options *o, struct ls_http_request *r, struct ls_http_answer *a)
{
        ls_str list = LS_STR("");
        bool known;

        for (size_t i = 0; i < o->route_count; i++) {
                struct ls_http_request probe = *r;

                probe.method = o->routes[i].method;
                if (ls_http_route_find(&o->routes[i], 1, &probe, &known) != NULL)
                        list = ls_arena_printf(r->arena, "%.*s%s%s", LS_STR_ARG(list),
                                               list.len ? ", " : "", probe.method);
        }
        answer_error(o, r, 405, "this path does not have that method", a);
        ls_http_answer_header(a, "Allow", list.ptr);
}

/* The route of a request; NULL: it is answered. */
static const struct ls_http_route *
request_route(const struct ls_http_options *o, ls_str raw, struct ls_http_request *r,
              struct ls_http_answer *a)
{
        const struct ls_http_route *route;
        bool known;
        ls_err e = ls_http_target_parse(raw, r->arena, &r->target);

        if (e != LS_OK) {
                bool large = e == LS_TOO_LARGE;

                answer_error(o, r, large ? 414 : 400,
                             large ? "too many path segments or parameters"
                                   : "malformed request target",
                             a);
                return NULL;
        }
        route = ls_http_route_find(o->routes, o->route_count, r, &known);
        if (route == NULL && known)
                answer_allow(o, r, a);
        else if (route == NULL)
                answer_error(o, r, 404, "there is nothing at this path", a);
        return route;
}

void
ls_http_dispatch(const struct ls_http_options *options, ls_str raw, struct ls_http_request *r,
                 struct ls_http_answer *a)
{
        const struct ls_http_route *route;

        *a = (struct ls_http_answer){ .status = 200 };
        route = request_route(options, raw, r, a);
        if (route != NULL)
                route->fn(options->server, r, a);
}

/* --- an exchange --- */

static void *
exchange_start(void *ctx, const char *uri, struct MHD_Connection *connection)
{
        struct ls_http *http = ctx;
        struct exchange *x = ls_calloc(1, sizeof *x);

        x->http = http;
        x->connection = connection;
        ls_arena_init(&x->arena, LS_HTTP_ARENA_BYTES_MAX);
        ls_buf_init(&x->body, http->options.body_bytes_max);
        x->raw = ls_arena_str(&x->arena, ls_str_of(uri));
        x->r.arena = &x->arena;
        x->a.status = 200;
        return x;
}

static void
exchange_end(void *ctx, struct MHD_Connection *connection, void **con_cls,
             enum MHD_RequestTerminationCode why)
{
        struct ls_http *http = ctx;
        struct exchange *x = *con_cls;

        if (x == NULL)
                return;
        *con_cls = NULL;
        LS_ASSERT(x->state != EXCHANGE_QUEUED);
        ls_http_answer_done(&x->a);
        ls_budget_uncharge(&http->bodies, x->body_charged);
        ls_budget_uncharge(&http->answers, x->answer_charged);
        ls_buf_done(&x->body);
        ls_arena_done(&x->arena);
        if (x->active) {
                pthread_mutex_lock(&http->lock);
                http->active--;
                ls_cond_broadcast(&http->changed);
                pthread_mutex_unlock(&http->lock);
        }
        ls_free(x);
}

static enum MHD_Result
exchange_add_header(void *ctx, enum MHD_ValueKind kind, const char *name, size_t name_len,
                    const char *value, size_t value_len)
{
        struct exchange *x = ctx;

        if (x->r.header_count == LS_HTTP_HEADERS_MAX) {
                x->refused = 431;
                return MHD_NO;
        }
        x->r.headers[x->r.header_count++] =
                (struct ls_http_pair){ ls_str_make(name, name_len),
                                       ls_str_make(value ? value : "", value_len) };
        return MHD_YES;
}

/* The slice is freed when libmicrohttpd drops the response. */
static void
answer_body_free(void *slice)
{
        ls_slice_unref(slice);
}

static enum MHD_Result
exchange_answer(struct exchange *x)
{
        struct ls_http *http = x->http;
        struct ls_slice *body = LS_STEAL(x->a.body);
        int64_t bytes = body ? (int64_t)body->len : 0;
        struct MHD_Response *response;
        enum MHD_Result sent;
        char status[12];

        if (!ls_budget_charge(&http->answers, bytes)) {
                ls_slice_unref(body);
                answer_error(&http->options, &x->r, 503, "too many answers under way", &x->a);
                body = LS_STEAL(x->a.body);
                bytes = 0;
        }
        x->answer_charged = bytes;
        snprintf(status, sizeof status, "%d", x->a.status);
        ls_metric_series_add(ls_metric_with(&http_answers, "status", ls_str_of(status)), 1);
        ls_metric_observe(&http_seconds, ls_clock_monotonic_ns() - x->began_ns);

        if (body != NULL && body->len > 0)
                response = MHD_create_response_from_buffer_with_free_callback_cls(
                        body->len, body->ptr, answer_body_free, body);
        else
                response = MHD_create_response_from_buffer(0, "", MHD_RESPMEM_PERSISTENT);
        if (response == NULL || body == NULL || body->len == 0)
                ls_slice_unref(body);
        x->state = EXCHANGE_ANSWERED;
        if (response == NULL)
                return MHD_NO;
        for (size_t i = 0; i < x->a.header_count; i++)
                MHD_add_response_header(response, x->a.headers[i].name.ptr,
                                        x->a.headers[i].value.ptr);
        if (atomic_load(&http->stopping))
                MHD_add_response_header(response, "Connection", "close");
        sent = MHD_queue_response(x->connection, (unsigned)x->a.status, response);
        MHD_destroy_response(response);
        return sent;
}

static enum MHD_Result
exchange_refuse(struct exchange *x, int status, const char *text)
{
        answer_error(&x->http->options, &x->r, status, text, &x->a);
        return exchange_answer(x);
}

/* On the pool. */
static void
exchange_run(struct ls_job *job)
{
        struct exchange *x = LS_CONTAINER(job, struct exchange, job);
        struct ls_http *http = x->http;

        x->route->fn(http->options.server, &x->r, &x->a);
        x->state = EXCHANGE_DONE;
        /* The lock is held across the call so that a stop, which waits for `queued`, cannot take
         * the daemon away under it. Resuming only marks the connection and wakes its thread. */
        pthread_mutex_lock(&http->lock);
        MHD_resume_connection(x->connection);
        http->queued--;
        ls_cond_broadcast(&http->changed);
        pthread_mutex_unlock(&http->lock);
}

static const char *
refusal_text(int status)
{
        switch (status) {
        case 413: return "the request body is larger than this server takes";
        case 431: return "too many header fields";
        default: return "the server holds too many requests; try again";
        }
}

/* The request is whole. */
static enum MHD_Result
exchange_dispatch(struct exchange *x)
{
        struct ls_http *http = x->http;

        x->active = true;
        pthread_mutex_lock(&http->lock);
        http->active++;
        pthread_mutex_unlock(&http->lock);
        if (atomic_load(&http->stopping))
                return exchange_refuse(x, 503, "the server is shutting down");
        x->r.body = x->body.len > 0 ? ls_buf_span(&x->body) : ls_span_of("", 0);
        x->route = request_route(&http->options, x->raw, &x->r, &x->a);
        ls_metric_series_add(
                ls_metric_with(&http_requests, "route",
                               x->route ? ls_str_of(x->route->pattern) : LS_STR("none")),
                1);
        if (x->route == NULL)
                return exchange_answer(x);
        if (x->route->flags & LS_HTTP_INLINE) {
                x->route->fn(http->options.server, &x->r, &x->a);
                return exchange_answer(x);
        }
        pthread_mutex_lock(&http->lock);
        http->queued++;
        pthread_mutex_unlock(&http->lock);
        x->state = EXCHANGE_QUEUED;
        x->job = (struct ls_job){ .run = exchange_run };
        MHD_suspend_connection(x->connection);
        ls_jobs_submit(http->jobs, &x->job);
        return MHD_YES;
}

static enum MHD_Result
exchange_head(struct exchange *x, const char *method)
{
        struct ls_http *http = x->http;
        ls_str length;
        int64_t bytes;

        x->began_ns = ls_clock_monotonic_ns();
        x->state = EXCHANGE_BODY;
        x->r.method = ls_arena_str(&x->arena, ls_str_of(method)).ptr;
        x->r.headers = ls_arena_array(&x->arena, LS_HTTP_HEADERS_MAX, sizeof *x->r.headers);
        if (x->r.method == NULL || x->r.headers == NULL)
                return MHD_NO;
        MHD_get_connection_values_n(x->connection, MHD_HEADER_KIND, exchange_add_header, x);
        length = ls_http_header(&x->r, "Content-Length");
        if (length.ptr == NULL)
                return MHD_YES;
        if (!ls_str_to_i64(length, 0, INT64_MAX, &bytes) ||
            bytes > (int64_t)LS_HTTP_DRAIN_BYTES_MAX)
                return exchange_refuse(x, 413, refusal_text(413));
        if ((size_t)bytes > http->options.body_bytes_max)
                x->refused = 413;
        return MHD_YES;
}

static enum MHD_Result
exchange_body(struct exchange *x, const char *bytes, size_t len)
{
        struct ls_http *http = x->http;

        x->body_seen += len;
        if (x->body_seen > LS_HTTP_DRAIN_BYTES_MAX)
                return MHD_NO;
        if (x->refused == 0 && x->body_seen > http->options.body_bytes_max)
                x->refused = 413;
        if (x->refused == 0 && !ls_budget_charge(&http->bodies, (int64_t)len))
                x->refused = 503;
        if (x->refused == 0) {
                x->body_charged += (int64_t)len;
                ls_buf_put(&x->body, bytes, len);
                if (ls_buf_failed(&x->body))
                        x->refused = 503;
        }
        return MHD_YES;
}

static enum MHD_Result
on_access(void *ctx, struct MHD_Connection *connection, const char *url, const char *method,
          const char *version, const char *upload, size_t *upload_len, void **con_cls)
{
        struct exchange *x = *con_cls;

        switch (x->state) {
        case EXCHANGE_HEAD: return exchange_head(x, method);
        case EXCHANGE_BODY: {
                size_t len = *upload_len;

                if (len > 0) {
                        *upload_len = 0;
                        return exchange_body(x, upload, len);
                }
                if (x->refused != 0)
                        return exchange_refuse(x, x->refused, refusal_text(x->refused));
                return exchange_dispatch(x);
        }
        case EXCHANGE_DONE: return exchange_answer(x);
        case EXCHANGE_QUEUED:
        case EXCHANGE_ANSWERED: break;
        }
        /* Already answered early: what the client still sends is thrown away. */
        *upload_len = 0;
        return MHD_YES;
}

static void
on_connection(void *ctx, struct MHD_Connection *connection, void **socket_ctx,
              enum MHD_ConnectionNotificationCode what)
{
        static atomic_int_least64_t open;
        int64_t step = what == MHD_CONNECTION_NOTIFY_STARTED ? 1 : -1;

        ls_metric_set(&http_connections, atomic_fetch_add(&open, step) + step);
}

static void on_log(void *ctx, const char *format, va_list args) LS_PRINTF(2, 0);
static void
on_log(void *ctx, const char *format, va_list args)
{
        char text[512];

        if (!ls_log_on(LS_LOG_DEBUG))
                return;
        vsnprintf(text, sizeof text, format, args);
        ls_log_debug("net", "event=libmicrohttpd text=\"%s\"", text);
}

/* Targets are decoded by ls_http_target_parse alone: libmicrohttpd's own decoding ends texts at
 * %00. */
static size_t
on_unescape(void *ctx, struct MHD_Connection *connection, char *text)
{
        return strlen(text);
}

static struct MHD_Daemon *
daemon_start(struct ls_http *http, const struct sockaddr_storage *address)
{
        const struct ls_http_options *o = &http->options;
        /* Not with epoll: libmicrohttpd 0.9.75 then overlooks now and then that a peer closed, when
         * many do at once. */
        unsigned flags =
                MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;

        if (address->ss_family == AF_INET6)
                flags |= MHD_USE_IPv6;
        return MHD_start_daemon(flags, o->port, NULL, NULL, on_access, http,
                                MHD_OPTION_EXTERNAL_LOGGER, on_log, NULL, MHD_OPTION_SOCK_ADDR,
                                (const struct sockaddr *)address, MHD_OPTION_CONNECTION_LIMIT,
                                (unsigned)o->connections_max, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                                LS_HTTP_HEAD_BYTES_MAX, MHD_OPTION_CONNECTION_TIMEOUT, o->idle_s,
                                MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_LISTEN_BACKLOG_SIZE,
                                1024u, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL,
                                MHD_OPTION_URI_LOG_CALLBACK, exchange_start, http,
                                MHD_OPTION_NOTIFY_COMPLETED, exchange_end, http,
                                MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_END);
}

static void
http_free(struct ls_http *http)
{
        ls_jobs_stop(http->jobs);
        pthread_mutex_destroy(&http->lock);
        ls_cond_done(&http->changed);
        ls_free((char *)http->options.host);
        ls_free(http);
}

ls_err
ls_http_start(const struct ls_http_options *options, struct ls_http **ret_http, uint16_t *ret_port,
              struct ls_errinfo *reterr)
{
        const union MHD_DaemonInfo *info;
        struct sockaddr_storage address;
        socklen_t address_bytes;
        struct ls_jobs *jobs;
        struct ls_http *http;
        ls_err e;

        LS_ASSERT(options->on_error != NULL && options->threads > 0);
        LS_TRY(ls_resolve(options->host, options->port, &address, &address_bytes, reterr));
        LS_TRY(ls_jobs_start("ls-http", options->threads, &jobs));
        http = ls_calloc(1, sizeof *http);
        http->jobs = jobs;
        http->options = *options;
        http->options.host = ls_strdup(options->host);
        ls_budget_init(&http->bodies, options->bodies_bytes_max, NULL);
        ls_budget_init(&http->answers, options->answers_bytes_max, NULL);
        pthread_mutex_init(&http->lock, NULL);
        ls_cond_init(&http->changed);
        errno = 0;
        http->daemon = daemon_start(http, &address);
        if (http->daemon == NULL) {
                int failed = errno;

                e = failed == EADDRINUSE ? LS_EXISTS : failed == EACCES ? LS_DENIED : LS_ENET;
                e = ls_fail(reterr, e, "cannot serve HTTP on %s:%u: %s", options->host,
                            (unsigned)options->port,
                            failed == EADDRINUSE ? "the port is in use; stop the program that has "
                                                   "it or choose another port"
                                                 : strerror(failed));
                http_free(http);
                return e;
        }
        info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_BIND_PORT);
        *ret_port = info != NULL ? info->port : options->port;
        *ret_http = http;
        return LS_OK;
}

void
ls_http_stop(struct ls_http *http)
{
        int64_t deadline_ms;

        if (http == NULL)
                return;
        atomic_store(&http->stopping, true);
        deadline_ms = ls_clock_monotonic_ms() + LS_HTTP_STOP_MS_MAX;
        pthread_mutex_lock(&http->lock);
        while (http->queued > 0)
                ls_cond_wait(&http->changed, &http->lock);
        while (http->active > 0 && ls_cond_wait_until(&http->changed, &http->lock, deadline_ms))
                ;
        pthread_mutex_unlock(&http->lock);
        MHD_stop_daemon(http->daemon);
        http_free(http);
}
