/* servers/kafka/test_kit.c - see test_kit.h. */
#include "servers/kafka/test_kit.h"

#include <stdio.h>
#include <stdlib.h>

enum { WAIT_MS = 10000 };

/* ---- on the loop ---- */

struct call {
        struct ls_loop_msg msg;
        void (*fn)(void *ctx);
        void *ctx;
        pthread_mutex_t lock;
        struct ls_cond done_cond;
        bool done;
};

static void
call_run(struct ls_loop_msg *msg)
{
        struct call *c = LS_CONTAINER(msg, struct call, msg);

        c->fn(c->ctx);
        pthread_mutex_lock(&c->lock);
        c->done = true;
        ls_cond_signal(&c->done_cond);
        pthread_mutex_unlock(&c->lock);
}

void
kit_on_loop(struct kit *k, void (*fn)(void *ctx), void *ctx)
{
        struct call c = { .msg.fn = call_run, .fn = fn, .ctx = ctx };

        pthread_mutex_init(&c.lock, NULL);
        ls_cond_init(&c.done_cond);
        ls_loop_post(k->loop, &c.msg);
        pthread_mutex_lock(&c.lock);
        while (!c.done)
                ls_cond_wait(&c.done_cond, &c.lock);
        pthread_mutex_unlock(&c.lock);
        ls_cond_done(&c.done_cond);
        pthread_mutex_destroy(&c.lock);
}

/* ---- world ---- */

static void
kit_must(ls_err e, const char *what, const char *words)
{
        if (e == LS_OK)
                return;
        fprintf(stderr, "kit: %s: %s %s\n", what, ls_err_name(e), words);
        abort();
}

void
kit_open(struct kit *k)
{
        struct ls_errinfo info = { 0 };
        struct ls_kafka_config config = { .host = "127.0.0.1", .advertised_port = 9092 };

        *k = (struct kit){ 0 };
        strncpy(k->dir, "/tmp/ls-kafka-test-XXXXXX", sizeof k->dir - 1);
        if (mkdtemp(k->dir) == NULL)
                abort();
        ls_options_init(&k->options);
        kit_must(ls_options_set(&k->options, LS_STR("data.dir"), ls_str_of(k->dir), LS_OPTION_FLAG,
                                &info),
                 "data.dir", info.text);
        kit_must(ls_options_set(&k->options, LS_STR("group.initial.rebalance.delay.ms"),
                                LS_STR("1000"), LS_OPTION_FLAG, &info),
                 "delay", info.text);
        kit_must(ls_streams_open(&k->options, &k->streams, &info), "streams", info.text);
        kit_must(ls_loop_start("ls-kit", &k->loop), "loop", "");
        config.streams = k->streams;
        config.loops = &k->loop;
        config.loop_count = 1;
        k->server = kafka_server_new(&config);
}

static void
stop_timers(void *ctx)
{
        struct kit *k = ctx;

        ls_timer_clear(&k->server->loops[0].tick);
        ls_timer_clear(&k->server->loops[0].retry);
}

void
kit_close(struct kit *k)
{
        char command[96];

        kit_on_loop(k, stop_timers, k);
        LS_ASSERT(atomic_load(&k->server->conn_count) == 0);
        kafka_server_free(k->server);
        ls_streams_close(k->streams);
        ls_loop_stop(k->loop);
        ls_options_done(&k->options);
        snprintf(command, sizeof command, "rm -rf %s", k->dir);
        if (system(command) != 0)
                abort();
}

/* ---- the transport ---- */

static void
peer_write(void *peer, struct ls_slice **slices, size_t count)
{
        struct kit_peer *p = peer;

        pthread_mutex_lock(&p->lock);
        for (size_t i = 0; i < count; i++) {
                ls_buf_put_span(&p->written, ls_slice_span(slices[i]));
                ls_slice_unref(slices[i]);
        }
        ls_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
}

static size_t
peer_queued(void *peer)
{
        struct kit_peer *p = peer;
        size_t queued;

        pthread_mutex_lock(&p->lock);
        queued = p->queued;
        pthread_mutex_unlock(&p->lock);
        return queued;
}

static void
peer_set(struct kit_peer *p, bool *field, bool value)
{
        pthread_mutex_lock(&p->lock);
        *field = value;
        ls_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
}

static void
peer_pause(void *peer)
{
        struct kit_peer *p = peer;

        peer_set(p, &p->paused, true);
}

static void
peer_resume(void *peer)
{
        struct kit_peer *p = peer;

        peer_set(p, &p->paused, false);
}

static void
peer_close(void *peer, bool flush)
{
        struct kit_peer *p = peer;

        pthread_mutex_lock(&p->lock);
        p->closed = true;
        p->closed_flush = flush;
        ls_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
}

static const char *
peer_name(void *peer)
{
        return "127.0.0.1:1";
}

static const struct kafka_transport transport = { peer_write,  peer_queued, peer_pause,
                                                  peer_resume, peer_close,  peer_name };

/* ---- peers ---- */

static void
connect_on_loop(void *ctx)
{
        struct kit_peer *p = ctx;

        atomic_fetch_add(&p->kit->server->conn_count, 1);
        p->conn = kafka_conn_new(&p->kit->server->loops[0], &transport, p);
}

void
kit_connect(struct kit *k, struct kit_peer *p)
{
        *p = (struct kit_peer){ .kit = k };
        pthread_mutex_init(&p->lock, NULL);
        ls_cond_init(&p->changed);
        ls_buf_init(&p->written, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&p->frame, LS_BUF_MAX_DEFAULT);
        kit_on_loop(k, connect_on_loop, p);
}

static void
disconnect_on_loop(void *ctx)
{
        struct kit_peer *p = ctx;

        kafka_conn_closed(p->conn);
        p->conn = NULL;
}

void
kit_disconnect(struct kit_peer *p)
{
        struct ls_kafka_server *s = p->kit->server;
        int64_t deadline_ms = ls_clock_monotonic_ms() + WAIT_MS;
        size_t before = atomic_load(&s->conn_count);

        kit_on_loop(p->kit, disconnect_on_loop, p);
        pthread_mutex_lock(&s->lock);
        while (atomic_load(&s->conn_count) == before)
                LS_ASSERT(ls_cond_wait_until(&s->gone, &s->lock, deadline_ms));
        pthread_mutex_unlock(&s->lock);
        ls_buf_done(&p->written);
        ls_buf_done(&p->frame);
        ls_cond_done(&p->changed);
        pthread_mutex_destroy(&p->lock);
}

struct send_call {
        struct kit_peer *peer;
        ls_span bytes;
};

/* Through the room that the connection asks for, as the kernel would. */
static void
send_on_loop(void *ctx)
{
        struct send_call *call = ctx;
        ls_span left = call->bytes;

        while (left.len > 0) {
                uint8_t *room = NULL;
                size_t len = 0, n;

                kafka_conn_room(call->peer->conn, &room, &len);
                n = LS_MIN(len, left.len);
                memcpy(room, left.ptr, n);
                kafka_conn_bytes(call->peer->conn, room, n);
                left.ptr += n;
                left.len -= n;
        }
}

void
kit_send(struct kit_peer *p, ls_span bytes)
{
        struct send_call call = { p, bytes };

        if (bytes.len > 0)
                kit_on_loop(p->kit, send_on_loop, &call);
}

void
kit_request(struct kit_peer *p, int16_t key, int16_t version, int32_t correlation_id,
            const void *body)
{
        struct ls_wire_out out;

        ls_wire_out_init(&out, LS_BUF_MAX_DEFAULT);
        kit_must(ls_kafka_request_encode(ls_kafka_api_find(key), version, correlation_id,
                                         LS_STR("kit"), body, &out),
                 "request", "");
        kit_send(p, ls_buf_span(&out.buf));
        ls_wire_out_done(&out);
}

/* Under the lock: the next frame if it is whole. */
static bool
peer_frame(struct kit_peer *p, ls_span *ret)
{
        size_t left = p->written.len - p->read_pos;
        size_t bytes;

        if (left < 4)
                return false;
        bytes = ls_get_be32(p->written.ptr + p->read_pos);
        if (left - 4 < bytes)
                return false;
        ls_buf_clear(&p->frame);
        ls_buf_put(&p->frame, p->written.ptr + p->read_pos + 4, bytes);
        *ret = ls_buf_span(&p->frame);
        p->read_pos += 4 + bytes;
        return true;
}

ls_span
kit_recv(struct kit_peer *p)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + WAIT_MS;
        ls_span frame = LS_SPAN_NULL;

        pthread_mutex_lock(&p->lock);
        while (!peer_frame(p, &frame) && !p->closed)
                if (!ls_cond_wait_until(&p->changed, &p->lock, deadline_ms))
                        break;
        pthread_mutex_unlock(&p->lock);
        return frame;
}

bool
kit_answer(struct kit_peer *p, int16_t key, int16_t version, struct ls_arena *arena,
           int32_t *ret_correlation_id, void *ret_body)
{
        ls_span frame = kit_recv(p);

        return frame.ptr != NULL &&
               ls_kafka_response_decode(ls_kafka_api_find(key), version, frame, arena,
                                        ret_correlation_id, ret_body) == LS_OK;
}

bool
kit_wait_closed(struct kit_peer *p)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + WAIT_MS;
        bool closed;

        pthread_mutex_lock(&p->lock);
        while (!p->closed && ls_cond_wait_until(&p->changed, &p->lock, deadline_ms))
                ;
        closed = p->closed;
        pthread_mutex_unlock(&p->lock);
        return closed;
}

bool
kit_wait_paused(struct kit_peer *p, bool paused)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + WAIT_MS;
        bool is;

        pthread_mutex_lock(&p->lock);
        while (p->paused != paused && ls_cond_wait_until(&p->changed, &p->lock, deadline_ms))
                ;
        is = p->paused == paused;
        pthread_mutex_unlock(&p->lock);
        return is;
}
