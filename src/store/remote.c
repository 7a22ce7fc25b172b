/* store/remote.c - see remote.h. Over libcurl: a caller takes an own "multi" handle with two
 * transfers from a pool, so that a read can be asked twice; connections stay open in it. */
#include "store/remote.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/metric.h"
#include "base/rd.h"
#include "sys/jobs.h"
#include "sys/process.h"

static LS_METRIC_BY(metric_requests, COUNTER, "lakestream_store_requests_total",
                    "Requests sent to the object store, by method.");
static LS_METRIC_BY(metric_repeats, COUNTER, "lakestream_store_repeats_total",
                    "Requests sent again, by reason: throttled, conflict, error, no_answer, slow.");
static LS_METRIC(metric_sent, COUNTER, "lakestream_store_sent_bytes_total",
                 "Bytes of bodies sent to the object store.");
static LS_METRIC(metric_received, COUNTER, "lakestream_store_received_bytes_total",
                 "Bytes of bodies received from the object store.");
static LS_METRIC_SECONDS_BY(metric_seconds, "lakestream_store_request_seconds",
                            "Time of requests to the object store, with all tries, by method.");

enum remote_state { TRY_IDLE, TRY_RUNS, TRY_ENDED };

/* One transfer. */
struct remote_try {
        enum remote_state state;
        CURL *easy;
        CURLcode code;
        struct curl_slist *headers;
        const struct store_request *r;
        struct store_answer answer;
        size_t sent_span, sent_bytes; /* where the body is */
        bool too_large;
        int64_t started_ns, first_byte_ns;
};

struct remote_caller {
        struct remote_caller *next;
        CURLM *multi;
        struct remote_try tries[2];
};

struct store_remote {
        struct store_remote_options options;
        char *base, *ca_file, *keep[STORE_KEPT_MAX];
        pthread_mutex_t lock; /* leaf */
        struct ls_cond returned;
        struct remote_caller *idle;
        size_t in_use;
        atomic_int_least64_t budget;  /* in units of 1/STORE_BUDGET_REFUND tries */
        atomic_int_least64_t slow_ns; /* about the 95th percentile of the first byte of a read */
};

void
store_encode(struct ls_buf *out, const char *text, bool path)
{
        static const char digits[] = "0123456789ABCDEF";

        for (const char *c = text; *c != '\0'; c++) {
                uint8_t u = (uint8_t)*c;

                if ((u >= '0' && u <= '9') || ((u | 0x20) >= 'a' && (u | 0x20) <= 'z') ||
                    u == '-' || u == '_' || u == '.' || u == '~' || (path && u == '/')) {
                        ls_buf_put_u8(out, u);
                } else {
                        ls_buf_put_u8(out, '%');
                        ls_buf_put_u8(out, (uint8_t)digits[u >> 4]);
                        ls_buf_put_u8(out, (uint8_t)digits[u & 15]);
                }
        }
}

int64_t
store_time_of(const char *text)
{
        static const int days_before[] = { 0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334 };
        static const struct {
                size_t at, len;
                int64_t min, max;
        } parts[] = { { 0, 4, 1970, 9999 }, { 5, 2, 1, 12 },  { 8, 2, 1, 31 },
                      { 11, 2, 0, 23 },     { 14, 2, 0, 59 }, { 17, 2, 0, 60 } };
        int64_t v[LS_COUNT(parts)], year, days;

        if (text == NULL || strlen(text) < 20)
                return 0;
        for (size_t i = 0; i < LS_COUNT(parts); i++)
                if (!ls_str_to_i64(ls_str_make(text + parts[i].at, parts[i].len), parts[i].min,
                                   parts[i].max, &v[i]))
                        return 0;
        year = v[0] - (v[1] <= 2); /* leap days before this date */
        days = (v[0] - 1970) * 365 + year / 4 - year / 100 + year / 400 - 477 +
               days_before[v[1] - 1] + v[2] - 1;
        return (((days * 24 + v[3]) * 60 + v[4]) * 60 + v[5]) * 1000;
}

int64_t
store_http_time_of(const char *text)
{
        return LS_MAX((int64_t)curl_getdate(text, NULL), 0) * 1000;
}

void
store_http_time(int64_t wall_ms, char ret_text[STORE_HTTP_TIME_TEXT])
{
        static const char days[] = "ThuFriSatSunMonTueWed", /* 1970 began on a Thursday */
                months[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
        char text[LS_CLOCK_TEXT_BYTES]; /* 2026-12-01T10:20:30.123Z */
        int month;

        ls_clock_text(wall_ms, text);
        month = (text[5] - '0') * 10 + text[6] - '0';
        snprintf(ret_text, STORE_HTTP_TIME_TEXT, "%.3s, %.2s %.3s %.4s %.8s GMT",
                 days + wall_ms / 86400000 % 7 * 3, text + 8, months + (ptrdiff_t)(month - 1) * 3,
                 text, text + 11);
}

/* ---- budget of tries ---- */

/* Takes one further try; false: too many were needed lately. */
static bool
budget_take(struct store_remote *remote)
{
        int_least64_t have = atomic_load_explicit(&remote->budget, memory_order_relaxed);

        do {
                if (have < STORE_BUDGET_REFUND)
                        return false;
        } while (!atomic_compare_exchange_weak(&remote->budget, &have, have - STORE_BUDGET_REFUND));
        return true;
}

static void
budget_refund(struct store_remote *remote)
{
        int_least64_t have = atomic_load_explicit(&remote->budget, memory_order_relaxed);

        do {
                if (have >= (int_least64_t)STORE_BUDGET_TRIES * STORE_BUDGET_REFUND)
                        return;
        } while (!atomic_compare_exchange_weak(&remote->budget, &have, have + 1));
}

/* ---- one transfer ---- */

/* libcurl asks for bytes of the body. */
static size_t
try_on_read(char *to, size_t size, size_t count, void *ctx)
{
        struct remote_try *t = ctx;
        size_t room = size * count, put = 0;

        while (put < room && t->sent_span < t->r->body_count) {
                ls_span s = t->r->body[t->sent_span];
                size_t part = LS_MIN(s.len - t->sent_bytes, room - put);

                if (part > 0)
                        memcpy(to + put, s.ptr + t->sent_bytes, part);
                put += part;
                t->sent_bytes += part;
                if (t->sent_bytes == s.len) {
                        t->sent_span++;
                        t->sent_bytes = 0;
                }
        }
        ls_metric_add(&metric_sent, (int64_t)put);
        return put;
}

/* libcurl sends the body again, on a new connection, since an old one ended under it. */
static int
try_on_seek(void *ctx, curl_off_t offset, int origin)
{
        struct remote_try *t = ctx;

        if (offset != 0 || origin != SEEK_SET)
                return CURL_SEEKFUNC_FAIL;
        t->answer.repeated = true;
        t->sent_span = 0;
        t->sent_bytes = 0;
        return CURL_SEEKFUNC_OK;
}

static size_t
try_on_body(char *bytes, size_t size, size_t count, void *ctx)
{
        struct remote_try *t = ctx;
        struct ls_buf *body = &t->answer.body;
        size_t len = size * count, max = t->r->answer_bytes_max;
        long status = 0;

        if (t->first_byte_ns == 0) {
                curl_off_t expected = -1;

                t->first_byte_ns = ls_clock_monotonic_ns();
                curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &expected);
                if (expected > 0 && (uint64_t)expected <= max)
                        ls_buf_reserve(body, (size_t)expected);
        }
        ls_metric_add(&metric_received, (int64_t)len);
        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        if (status >= 300) { /* words: as many as we keep */
                ls_buf_put(body, bytes,
                           LS_MIN(len, STORE_ERROR_BYTES_MAX -
                                               LS_MIN(body->len, (size_t)STORE_ERROR_BYTES_MAX)));
                return len;
        }
        t->too_large |= len > max - LS_MIN(body->len, max);
        if (t->too_large)
                return 0;
        ls_buf_put(body, bytes, len);
        return ls_buf_failed(body) ? 0 : len;
}

static const char *
try_header(struct remote_try *t, const char *name)
{
        struct curl_header *h;

        return curl_easy_header(t->easy, name, 0, CURLH_HEADER, -1, &h) == CURLHE_OK ? h->value
                                                                                     : NULL;
}

/* Copies a header without quotes; what does not fit is not kept. */
static void
try_header_copy(struct remote_try *t, const char *name, char *to, size_t room)
{
        const char *value = try_header(t, name);
        ls_str s = ls_str_of(value ? value : "");

        if (s.len >= 2 && s.ptr[0] == '"' && s.ptr[s.len - 1] == '"')
                s = ls_str_make(s.ptr + 1, s.len - 2);
        if (s.len >= room)
                s.len = 0;
        memcpy(to, s.ptr, s.len);
        to[s.len] = '\0';
}

/* What the headers tell, once a transfer has ended with an answer. */
static void
try_read_headers(struct store_remote *remote, struct remote_try *t)
{
        const char *range = try_header(t, "content-range"),
                   *modified = try_header(t, "last-modified");
        const char *total = range != NULL ? strrchr(range, '/') : NULL;
        struct store_answer *a = &t->answer;
        curl_off_t bytes = 0;
        int64_t number;
        long status = 0;

        curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
        curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &bytes);
        a->status = (int)status;
        a->object_bytes = bytes > 0 ? (uint64_t)bytes : 0;
        if (bytes < 0 && try_header(t, "transfer-encoding") != NULL)
                a->object_bytes = a->body.len; /* in chunks, whose end was seen */
        if (total != NULL && ls_str_to_i64(ls_str_of(total + 1), 0, INT64_MAX, &number))
                a->object_bytes = (uint64_t)number;
        if (modified != NULL)
                a->modified_ms = store_http_time_of(modified);
        try_header_copy(t, "etag", a->etag, sizeof a->etag);
        for (size_t i = 0; i < STORE_KEPT_MAX && remote->keep[i] != NULL; i++) {
                const char *value = try_header(t, remote->keep[i]);

                if (value != NULL && strlen(value) <= STORE_KEPT_TEXT_MAX)
                        a->kept[i] = ls_strdup(value);
        }
}

static void
try_reset(struct remote_caller *c, struct remote_try *t)
{
        if (t->state != TRY_IDLE)
                curl_multi_remove_handle(c->multi, t->easy);
        t->state = TRY_IDLE;
        curl_slist_free_all(t->headers);
        t->headers = NULL;
        store_answer_done(&t->answer);
}

static void
try_method(struct remote_try *t, const struct store_request *r)
{
        curl_off_t bytes = 0;

        for (size_t i = 0; i < r->body_count; i++)
                bytes += (curl_off_t)r->body[i].len;
        if (strcmp(r->method, "GET") == 0) {
                curl_easy_setopt(t->easy, CURLOPT_HTTPGET, 1L);
        } else if (strcmp(r->method, "HEAD") == 0) {
                curl_easy_setopt(t->easy, CURLOPT_NOBODY, 1L);
        } else if (strcmp(r->method, "DELETE") == 0) {
                curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, "DELETE");
        } else {
                curl_easy_setopt(t->easy, CURLOPT_UPLOAD, 1L);
                curl_easy_setopt(t->easy, CURLOPT_CUSTOMREQUEST, r->method);
                curl_easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, bytes);
        }
}

static void
try_options(struct store_remote *remote, struct remote_try *t, const char *url)
{
        CURL *easy = t->easy;

        curl_easy_reset(easy); /* connections stay */
        curl_easy_setopt(easy, CURLOPT_URL, url);
        curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
        curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
        curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
        curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
        curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, 262144L);
        curl_easy_setopt(easy, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
        curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)STORE_CONNECT_MS);
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)STORE_STALL_S);
        curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)remote->options.deadline_ms);
        if (remote->ca_file != NULL)
                curl_easy_setopt(easy, CURLOPT_CAINFO, remote->ca_file);
        curl_easy_setopt(easy, CURLOPT_READFUNCTION, try_on_read);
        curl_easy_setopt(easy, CURLOPT_READDATA, t);
        curl_easy_setopt(easy, CURLOPT_SEEKFUNCTION, try_on_seek);
        curl_easy_setopt(easy, CURLOPT_SEEKDATA, t);
        curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, try_on_body);
        curl_easy_setopt(easy, CURLOPT_WRITEDATA, t);
        curl_easy_setopt(easy, CURLOPT_PRIVATE, t);
}

static void
try_header_add(struct remote_try *t, const char *name, const char *value)
{
        LS_AUTO(ls_free) char *line = ls_format("%s: %s", name, value);

        t->headers = curl_slist_append(t->headers, line);
}

static ls_err
try_start(struct store_remote *remote, struct remote_caller *c, struct remote_try *t,
          struct store_request *r)
{
        LS_AUTO(ls_free)
        char *url = ls_format("%s%s%s%s", remote->base, r->path, r->query[0] != '\0' ? "?" : "",
                              r->query);
        size_t header_count = r->header_count;
        struct ls_buf scratch;
        ls_err e;

        try_reset(c, t);
        try_options(remote, t, url);
        try_method(t, r);
        t->r = r;
        t->sent_span = t->sent_bytes = 0;
        t->too_large = false;
        t->first_byte_ns = 0;
        ls_buf_init(&t->answer.body, LS_MAX(r->answer_bytes_max, (size_t)STORE_ERROR_BYTES_MAX));
        ls_buf_init(&scratch, LS_BUF_MAX_DEFAULT);
        e = r->sign != NULL ? r->sign(r->ctx, r, &scratch) : LS_OK;
        if (e == LS_OK) {
                for (size_t i = 0; i < r->header_count; i++)
                        try_header_add(t, r->headers[i].name, r->headers[i].value);
                if (r->host != NULL)
                        try_header_add(t, "host", r->host);
                t->headers = curl_slist_append(t->headers, "expect:"); /* none of these */
                t->headers = curl_slist_append(t->headers, "accept:");
                curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, t->headers);
                if (curl_multi_add_handle(c->multi, t->easy) != CURLM_OK)
                        e = LS_EINTERNAL;
        }
        r->header_count = header_count; /* what was signed belongs to this try */
        ls_buf_done(&scratch);
        LS_TRY(e);
        ls_metric_series_add(ls_metric_with(&metric_requests, "method", ls_str_of(r->method)), 1);
        t->state = TRY_RUNS;
        t->started_ns = ls_clock_monotonic_ns();
        return LS_OK;
}

/* Lets libcurl work; marks what has ended. Waits at most `wait_ms`. */
static ls_err
caller_work(struct store_remote *remote, struct remote_caller *c, int64_t wait_ms)
{
        int running, left;
        CURLMsg *m;

        if (curl_multi_perform(c->multi, &running) != CURLM_OK)
                return LS_EINTERNAL;
        while ((m = curl_multi_info_read(c->multi, &left)) != NULL) {
                struct remote_try *t = NULL;

                if (m->msg != CURLMSG_DONE)
                        continue;
                curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&t);
                t->state = TRY_ENDED;
                t->code = m->data.result;
                if (t->code == CURLE_OK)
                        try_read_headers(remote, t);
                wait_ms = 0;
        }
        if (wait_ms > 0)
                curl_multi_poll(c->multi, NULL, 0, (int)wait_ms, NULL);
        return LS_OK;
}

/* Whether the request of a transfer without an answer may have reached the store. */
static bool
try_may_have_happened(struct remote_try *t)
{
        curl_off_t begun_us = 0;

        curl_easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &begun_us);
        return begun_us > 0 || t->answer.repeated;
}

/* ---- hedging ---- */

/* An estimate that rises by 19 steps for each read that was slower and falls by one for each that
 * was faster rests where one of twenty is slower. */
static void
slow_learn(struct store_remote *remote, int64_t first_byte_ns)
{
        int_least64_t slow = atomic_load_explicit(&remote->slow_ns, memory_order_relaxed);
        int64_t step = slow / 256 + 1000;

        slow = first_byte_ns > slow ? LS_MIN(slow + 19 * step, first_byte_ns) : slow - step;
        atomic_store_explicit(&remote->slow_ns, LS_MAX(slow, 0), memory_order_relaxed);
}

static int64_t
hedge_after_ns(struct store_remote *remote, const struct store_request *r)
{
        int64_t least = remote->options.hedge_ms * 1000000;

        if (!r->read_only || least == 0)
                return INT64_MAX;
        return LS_MAX(least, 2 * atomic_load_explicit(&remote->slow_ns, memory_order_relaxed));
}

static void
repeat_count(const char *reason)
{
        ls_metric_series_add(ls_metric_with(&metric_repeats, "reason", ls_str_of(reason)), 1);
}

/* Runs one try, and a second beside it when a read is slow. *ret_try: the one that counts. */
static ls_err
caller_run(struct store_remote *remote, struct remote_caller *c, struct store_request *r,
           struct remote_try **ret_try)
{
        struct remote_try *first = &c->tries[0], *second = &c->tries[1];
        int64_t hedge_ns = hedge_after_ns(remote, r);

        LS_TRY(try_start(remote, c, first, r));
        for (;;) {
                int64_t waited = ls_clock_monotonic_ns() - first->started_ns, wait_ms = 1000;

                if (second->state == TRY_IDLE && first->first_byte_ns == 0) {
                        if (waited >= hedge_ns && budget_take(remote)) {
                                repeat_count("slow");
                                LS_TRY(try_start(remote, c, second, r));
                        } else if (hedge_ns != INT64_MAX) {
                                wait_ms = LS_MAX((hedge_ns - waited) / 1000000 + 1, 1);
                        }
                }
                LS_TRY(caller_work(remote, c, LS_MIN(wait_ms, 1000)));
                for (int i = 0; i < 2; i++) {
                        struct remote_try *t = &c->tries[i], *other = &c->tries[!i];

                        if (t->state != TRY_ENDED ||
                            (t->code != CURLE_OK && other->state == TRY_RUNS))
                                continue;
                        *ret_try = t;
                        return LS_OK;
                }
        }
}

/* ---- callers ---- */

static void
caller_free(struct remote_caller *c)
{
        for (int i = 0; i < 2; i++) {
                try_reset(c, &c->tries[i]);
                curl_easy_cleanup(c->tries[i].easy);
        }
        curl_multi_cleanup(c->multi);
        ls_free(c);
}

static struct remote_caller *
caller_new(void)
{
        struct remote_caller *c = ls_calloc(1, sizeof *c);

        c->multi = curl_multi_init();
        for (int i = 0; i < 2; i++)
                c->tries[i].easy = curl_easy_init();
        if (c->multi != NULL && c->tries[0].easy != NULL && c->tries[1].easy != NULL)
                return c;
        caller_free(c);
        return NULL;
}

static struct remote_caller *
caller_take(struct store_remote *remote)
{
        struct remote_caller *c;

        pthread_mutex_lock(&remote->lock);
        while (remote->in_use >= remote->options.connections_max)
                ls_cond_wait(&remote->returned, &remote->lock);
        remote->in_use++;
        c = remote->idle;
        if (c != NULL)
                remote->idle = c->next;
        pthread_mutex_unlock(&remote->lock);
        return c != NULL ? c : caller_new();
}

static void
caller_return(struct store_remote *remote, struct remote_caller *c)
{
        if (c != NULL) {
                try_reset(c, &c->tries[0]);
                try_reset(c, &c->tries[1]);
        }
        pthread_mutex_lock(&remote->lock);
        remote->in_use--;
        if (c != NULL) {
                c->next = remote->idle;
                remote->idle = c;
        }
        ls_cond_signal(&remote->returned);
        pthread_mutex_unlock(&remote->lock);
}

/* ---- calls ---- */

/* What is known of a call so far. */
struct remote_call {
        int64_t deadline_ms;
        unsigned tries;
        bool repeated; /* some try was answered by a failure, or not at all */
        bool maybe;    /* some try may have happened, and nobody told */
        const char *reason;
};

/* Whether this answer says: try again. */
static bool
answer_again(struct remote_call *call, const struct store_request *r, const struct store_answer *a)
{
        int status = a->status;

        if (r->conflict != NULL && r->conflict(a)) {
                call->reason = "conflict";
                return true;
        }
        if (status == 429 || status == 503) {
                call->reason = "throttled";
                return true;
        }
        if (status == 500 || status == 502 || status == 504 || status == 408) {
                call->reason = "error";
                call->maybe = true;
                return true;
        }
        return false;
}

/* Waits before the next try; false: there is to be none. */
static bool
call_pause(struct store_remote *remote, struct remote_call *call)
{
        int64_t most = LS_MIN((int64_t)STORE_PAUSE_FIRST_MS << LS_MIN(call->tries, 16u),
                              (int64_t)STORE_PAUSE_MAX_MS);
        uint64_t random;
        int64_t pause;

        ls_random(&random, sizeof random);
        pause = (int64_t)(random % (uint64_t)most);
        call->tries++;
        if (call->tries >= STORE_TRIES_MAX ||
            ls_clock_monotonic_ms() + pause >= call->deadline_ms || !budget_take(remote))
                return false;
        repeat_count(call->reason);
        ls_pause_ms(pause);
        return true;
}

/* The end of a call whose last try gave nothing that can be told. */
static ls_err
call_given_up(const struct remote_call *call, const struct store_request *r)
{
        if (call->maybe && !r->read_only)
                return LS_UNKNOWN_OUTCOME;
        if (strcmp(call->reason, "conflict") == 0)
                return LS_CONFLICT;
        return strcmp(call->reason, "throttled") == 0 ? LS_THROTTLED : LS_ENET;
}

static ls_err
call_run(struct store_remote *remote, struct remote_caller *c, struct store_request *r,
         struct store_answer *ret_answer)
{
        struct remote_call call = { .deadline_ms =
                                            ls_clock_monotonic_ms() + remote->options.deadline_ms };

        for (;;) {
                struct remote_try *t = NULL;

                try_reset(c, &c->tries[1]);
                LS_TRY(caller_run(remote, c, r, &t));
                if (t->too_large)
                        return LS_TOO_LARGE;
                if (t->code == CURLE_OK && r->read_only && t->first_byte_ns != 0)
                        slow_learn(remote, t->first_byte_ns - t->started_ns);
                if (t->code == CURLE_OK && !answer_again(&call, r, &t->answer)) {
                        if (call.tries == 0)
                                budget_refund(remote);
                        *ret_answer = t->answer;
                        ret_answer->repeated |= call.repeated;
                        memset(&t->answer, 0, sizeof t->answer);
                        return LS_OK;
                }
                if (t->code != CURLE_OK) {
                        call.reason = "no_answer";
                        call.maybe |= try_may_have_happened(t);
                }
                call.repeated |= strcmp(call.reason, "conflict") != 0;
                if (!call_pause(remote, &call))
                        return call_given_up(&call, r);
        }
}

ls_err
store_remote_call(struct store_remote *remote, struct store_request *r,
                  struct store_answer *ret_answer)
{
        struct remote_caller *c = caller_take(remote);
        int64_t started = ls_clock_monotonic_ns();
        ls_err e = c != NULL ? call_run(remote, c, r, ret_answer) : LS_EINTERNAL;

        caller_return(remote, c);
        ls_metric_series_observe(&metric_seconds,
                                 ls_metric_with(&metric_seconds, "method", ls_str_of(r->method)),
                                 ls_clock_monotonic_ns() - started);
        return e;
}

void
store_answer_done(struct store_answer *answer)
{
        ls_buf_done(&answer->body);
        for (size_t i = 0; i < STORE_KEPT_MAX; i++)
                ls_free(answer->kept[i]);
        memset(answer, 0, sizeof *answer);
}

/* ---- a request, piece by piece ---- */

void
store_call_init(struct store_call *c, const char *method)
{
        memset(c, 0, sizeof *c);
        ls_buf_init(&c->path, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&c->query, LS_BUF_MAX_DEFAULT);
        c->r.method = method;
}

void
store_call_header(struct store_call *c, const char *name, const char *value)
{
        LS_ASSERT(c->r.header_count < STORE_HEADERS_MAX);
        c->r.headers[c->r.header_count++] = (struct store_header){ name, value };
}

void
store_call_query(struct store_call *c, const char *name, const char *value)
{
        ls_buf_printf(&c->query, "%s%s=", c->query.len > 0 ? "&" : "", name);
        store_encode(&c->query, value, false);
}

ls_err
store_call_send(struct store_call *c, struct store_remote *remote, const ls_span *body,
                size_t count)
{
        c->r.path = ls_buf_cstr(&c->path);
        c->r.query = c->query.len > 0 ? ls_buf_cstr(&c->query) : "";
        c->r.body = body;
        c->r.body_count = count;
        return store_remote_call(remote, &c->r, &c->answer);
}

void
store_call_done(struct store_call *c)
{
        store_answer_done(&c->answer);
        ls_buf_done(&c->path);
        ls_buf_done(&c->query);
}

/* ---- life ---- */

static void
curl_start(void)
{
        curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* "http://" or "https://", a host and a port: nothing that would make it another address. */
static bool
base_ok(const char *base)
{
        static const char bytes[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                    ".-_:[]";
        const char *host = strncmp(base, "http://", 7) == 0    ? base + 7
                           : strncmp(base, "https://", 8) == 0 ? base + 8
                                                               : "";

        return host[0] != '\0' && strspn(host, bytes) == strlen(host);
}

ls_err
store_remote_new(const struct store_remote_options *options, struct store_remote **ret_remote,
                 struct ls_errinfo *reterr)
{
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        struct store_remote *remote;

        pthread_once(&once, curl_start);
        if (!base_ok(options->base))
                return ls_fail(reterr, LS_INVALID, "%.200s is no http:// or https:// address",
                               options->base);
        remote = ls_calloc(1, sizeof *remote);
        remote->options = *options;
        remote->base = ls_strdup(options->base);
        if (options->ca_file != NULL && options->ca_file[0] != '\0')
                remote->ca_file = ls_strdup(options->ca_file);
        for (size_t i = 0; i < STORE_KEPT_MAX && options->keep[i] != NULL; i++)
                remote->keep[i] = ls_strdup(options->keep[i]);
        pthread_mutex_init(&remote->lock, NULL);
        ls_cond_init(&remote->returned);
        atomic_init(&remote->budget, STORE_BUDGET_TRIES * STORE_BUDGET_REFUND);
        *ret_remote = remote;
        return LS_OK;
}

void
store_remote_free(struct store_remote *remote)
{
        struct remote_caller *next;

        if (remote == NULL)
                return;
        for (struct remote_caller *c = remote->idle; c != NULL; c = next) {
                next = c->next;
                caller_free(c);
        }
        pthread_mutex_destroy(&remote->lock);
        ls_cond_done(&remote->returned);
        ls_free(remote->base);
        ls_free(remote->ca_file);
        for (size_t i = 0; i < STORE_KEPT_MAX; i++)
                ls_free(remote->keep[i]);
        ls_free(remote);
}
