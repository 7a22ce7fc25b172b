/* servers/kafka/request.c - one request: decode, hand to its handler, encode, cut into slices.
 *
 * Threads: on the connection's loop, but for the part of a KAFKA_ON_JOB handler that runs on a job,
 * which has the request to itself meanwhile.
 */
#include "servers/kafka/server_int.h"

static LS_METRIC_BY(metric_requests, COUNTER, "lakestream_kafka_requests_total",
                    "requests answered, by API");
static LS_METRIC_SECONDS_BY(metric_seconds, "lakestream_kafka_request_seconds",
                            "time from a request's start to its answer, by API");
static LS_METRIC(metric_refused, COUNTER, "lakestream_kafka_malformed_requests_total",
                 "requests that were not understood; their connections were closed");

struct kafka_request *
kafka_request_new(struct kafka_conn *c, struct ls_slice *frame, struct ls_budget *budget,
                  int64_t charged)
{
        struct kafka_loop *kl = c->kl;
        struct kafka_request *r = kl->spare;
        size_t arena_max = KAFKA_ARENA_BYTES + KAFKA_ARENA_FRAME_FACTOR * frame->len;

        if (r != NULL) {
                kl->spare = r->next;
                kl->spare_count--;
        } else {
                r = ls_calloc(1, sizeof *r);
                ls_arena_init(&r->arena, arena_max);
                ls_wire_out_init(&r->out, LS_BUF_MAX_DEFAULT);
        }
        r->next = NULL;
        r->conn = c;
        r->state = KAFKA_QUEUED;
        r->frame = frame;
        r->budget = budget;
        r->charged = charged;
        r->arena.bytes_max = LS_MAX(arena_max, r->arena.bytes);
        r->key = (int16_t)ls_get_be16(frame->ptr);
        return r;
}

void
kafka_request_free(struct kafka_request *r)
{
        struct kafka_loop *kl = r->conn->kl;
        struct kafka_request clean = { 0 };

        if (r->release != NULL)
                r->release(r);
        ls_brokers_unref(r->brokers);
        ls_slice_unref(r->frame);
        ls_budget_uncharge(r->budget, r->charged);
        ls_budget_uncharge(&kl->server->answers, r->answer_charged);
        kafka_loop_room(kl);
        if (kl->spare_count >= KAFKA_SPARE_REQUESTS_MAX) {
                ls_arena_done(&r->arena);
                ls_wire_out_done(&r->out);
                ls_free(r);
                return;
        }
        ls_arena_reset(&r->arena);
        ls_wire_out_clear(&r->out);
        clean.arena = r->arena;
        clean.out = r->out;
        *r = clean;
        r->next = kl->spare;
        kl->spare = r;
        kl->spare_count++;
}

void
kafka_request_drop_frame(struct kafka_request *r)
{
        LS_ASSERT(r->state == KAFKA_RUNNING);
        ls_slice_unref(r->frame);
        r->frame = NULL;
        ls_budget_uncharge(r->budget, r->charged);
        r->charged = 0;
        kafka_loop_room(r->conn->kl);
}

void
kafka_request_metrics(struct ls_kafka_server *s)
{
        for (size_t i = 0; i < LS_KAFKA_API_COUNT; i++) {
                ls_str api = ls_str_of(ls_kafka_apis[i].name);

                s->request_counts[i] = ls_metric_with(&metric_requests, "api", api);
                s->request_seconds[i] = ls_metric_with(&metric_seconds, "api", api);
        }
}

static void
request_observe(struct kafka_request *r)
{
        struct ls_kafka_server *s = kafka_server_of(r);
        int64_t ns = ls_clock_monotonic_ns() - r->started_ns;
        size_t i;

        if (r->req.api == NULL)
                return;
        i = (size_t)(r->req.api - ls_kafka_apis);
        ls_metric_series_add(s->request_counts[i], 1);
        ls_metric_series_observe(&metric_seconds, s->request_seconds[i], ns);
}

/* Encodes the answer; what can't be encoded (above 2 GiB, or an arena that was full) can't be
 * answered. */
static void
request_encode(struct kafka_request *r)
{
        ls_err e;

        if (r->no_answer || r->close_after)
                return;
        e = ls_kafka_response_encode(r->req.api, r->req.version, r->req.correlation_id, r->answer,
                                     &r->out);
        if (e != LS_OK) {
                ls_log_error("kafka", "answer could not be written api=%s error=%s",
                             r->req.api->name, ls_err_name(e));
                r->close_after = true;
        }
}

void
kafka_request_done(struct kafka_request *r)
{
        LS_ASSERT(r->state == KAFKA_RUNNING);
        LS_ASSERT(r->conn->kl->loop == NULL || ls_loop_is_current(r->conn->kl->loop));
        r->hurry = NULL;
        if (r->out.buf.len == 0)
                request_encode(r);
        request_observe(r);
        r->state = KAFKA_DONE;
        kafka_conn_request_done(r->conn);
}

static void
request_job_run(struct ls_job *job)
{
        struct kafka_request *r = LS_CONTAINER(job, struct kafka_request, job);

        r->handler->run(r);
        request_encode(r);
}

static void
request_job_done(struct ls_job *job)
{
        kafka_request_done(LS_CONTAINER(job, struct kafka_request, job));
}

/* An answer as it is before a handler has it. False: above the memory of one request. */
static bool
request_answer_new(struct kafka_request *r)
{
        r->answer = ls_arena_alloc(&r->arena, r->req.api->response->root->size);
        if (r->answer != NULL)
                ls_wire_init(r->req.api->response->root, r->answer);
        return r->answer != NULL;
}

static void request_run(struct kafka_request *r);

static void
request_looked(struct kafka_look_wait *w)
{
        struct kafka_request *r = LS_CONTAINER(w, struct kafka_request, look);

        r->looked = true;
        r->look_failed = w->result != LS_OK;
        kafka_conn_hold(r->conn, r, false);
        if (r->conn->peer == NULL || !request_answer_new(r)) {
                r->close_after = true;
                kafka_request_done(r);
                return;
        }
        request_run(r);
}

bool
kafka_request_look(struct kafka_request *r)
{
        if (!r->doubted || r->looked)
                return false;
        if (r->release != NULL)
                r->release(r);
        r->release = NULL;
        r->hurry = NULL;
        r->state_of_handler = NULL;
        r->doubted = r->close_after = r->no_answer = false;
        r->look = (struct kafka_look_wait){ .loop = kafka_loop_of(r), .done = request_looked };
        kafka_conn_hold(r->conn, r, true);
        kafka_look_start(kafka_server_of(r), &r->look);
        return true;
}

static void
request_run(struct kafka_request *r)
{
        enum kafka_mode mode = r->handler->pick != NULL ? r->handler->pick(r) : r->handler->mode;

        if (kafka_request_look(r)) /* `pick` missed something already */
                return;
        r->on_job = mode == KAFKA_ON_JOB;
        switch (mode) {
        case KAFKA_ON_LOOP:
                r->handler->run(r);
                if (!kafka_request_look(r))
                        kafka_request_done(r);
                break;
        case KAFKA_ON_JOB:
                r->job = (struct ls_job){ .run = request_job_run,
                                          .done = request_job_done,
                                          .loop = kafka_loop_of(r) };
                ls_jobs_submit(ls_streams_jobs(kafka_server_of(r)->streams), &r->job);
                break;
        case KAFKA_ASYNC: r->handler->run(r); break;
        }
}

/* Not understood: an ApiVersions request is answered so that the client can try again, everything
 * else closes the connection once what came before it is answered (B001, B003). */
static void
request_refuse(struct kafka_request *r, ls_err e)
{
        struct kafka_conn *c = r->conn;

        if (e == LS_UNSUPPORTED && r->req.key == LS_KAFKA_API_API_VERSIONS && r->req.api != NULL) {
                kafka_serve_api_versions_too_new(r);
                kafka_request_done(r);
                return;
        }
        ls_metric_add(&metric_refused, 1);
        ls_log_warn("kafka", "closing a connection peer=%s api=%d version=%d error=%s",
                    c->transport->name(c->peer), r->req.key, r->req.version, ls_err_name(e));
        r->close_after = true;
        kafka_request_done(r);
}

void
kafka_request_start(struct kafka_request *r)
{
        ls_err e;

        LS_ASSERT(r->state == KAFKA_RUNNING);
        r->started_ns = ls_clock_monotonic_ns();
        e = ls_kafka_request_decode(ls_slice_span(r->frame), &r->arena, &r->req);
        if (e == LS_OK) {
                r->handler = kafka_api_find(r->req.key);
                if (r->handler == NULL)
                        e = LS_UNSUPPORTED;
                else if (!request_answer_new(r))
                        e = LS_TOO_LARGE;
        }
        if (e != LS_OK) {
                request_refuse(r, e);
                return;
        }
        request_run(r);
}

/* ---- the answer as slices ---- */

static void
free_buffer(void *ctx, uint8_t *ptr, size_t len)
{
        ls_free(ptr);
}

/* Adds the part [*at, to) of the encoded answer. */
static size_t
add_view(struct ls_slice *whole, size_t *at, size_t to, struct ls_slice **ret)
{
        if (to == *at)
                return 0;
        *ret = ls_slice_view(whole, *at, to - *at);
        *at = to;
        return 1;
}

void
kafka_request_slices(struct kafka_request *r, struct ls_slice ***ret_slices, size_t *ret_count)
{
        struct ls_wire_out *out = &r->out;
        size_t count = 0, max = 1, at = 0;
        struct ls_slice *whole, **slices;

        LS_ASSERT(out->buf.len > 0);
        for (size_t i = 0; i < out->splice_count; i++)
                max += 1 + ((struct kafka_payload *)out->splices[i].payload)->count;
        slices = ls_calloc(max, sizeof *slices);
        /* The buffer moves into a slice. */
        whole = ls_slice_wrap(out->buf.ptr, out->buf.len, free_buffer, NULL);
        ls_buf_init(&out->buf, LS_BUF_MAX_DEFAULT);
        if (out->splice_count == 0) {
                slices[count++] = whole;
        } else {
                for (size_t i = 0; i < out->splice_count; i++) {
                        struct kafka_payload *p = out->splices[i].payload;

                        count += add_view(whole, &at, out->splices[i].at, &slices[count]);
                        for (size_t j = 0; j < p->count; j++)
                                slices[count++] = ls_slice_ref(p->slices[j]);
                }
                count += add_view(whole, &at, whole->len, &slices[count]);
                ls_slice_unref(whole);
        }
        LS_ASSERT(count <= max);
        *ret_slices = slices;
        *ret_count = count;
}
