/* sys/loop_test.c - proves: bytes come back in order whatever their sizes; a slow reader holds
 * the writer back and loses nothing; closing during a write, from either side, ends in exactly
 * one on_close with the right reason; a close with unread input still delivers the answer; a
 * refused connection is never heard of; 1,000 connections; messages of four threads arrive once
 * and in the order of each; timers fire in order, not after clear, and never in their own turn
 * again; a port in use is refused; a stop with everything open leaves nothing behind. Real
 * sockets on 127.0.0.1. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sys/jobs.h"
#include "sys/loop.h"

/* ---- the server side: echoes, or does what a test sets ---- */

struct server {
        pthread_mutex_t lock;
        struct ls_cond changed;
        size_t accepted, closed, drained; /* under lock */
        ls_err why;                       /* of the last on_close; under lock */
        size_t queued_max;                /* under lock */
        /* what to do, set before it listens */
        size_t accept_max;   /* 0: any */
        size_t pause_above;  /* queued bytes; 0: never */
        size_t answer_bytes; /* to the first byte: this much, then close when close_flush */
        bool close_flush, close_at_once, pause_for_ever;
        bool use_room;
        uint8_t room[37];
        struct ls_conn *last;
};

struct client_ctx {
        struct server *server;
        struct ls_conn *conn;
        size_t rooms, reads;
};

static void
server_init(struct server *s)
{
        memset(s, 0, sizeof *s);
        pthread_mutex_init(&s->lock, NULL);
        ls_cond_init(&s->changed);
}

static void
server_done(struct server *s)
{
        pthread_mutex_destroy(&s->lock);
        ls_cond_done(&s->changed);
}

static void *
server_accept(void *server, struct ls_conn *conn)
{
        struct server *s = server;
        struct client_ctx *c;
        bool refuse;

        pthread_mutex_lock(&s->lock);
        refuse = s->accept_max > 0 && s->accepted - s->closed >= s->accept_max;
        if (!refuse)
                s->accepted++;
        s->last = conn;
        ls_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        assert_true(strncmp(ls_conn_peer(conn), "127.0.0.1:", 10) == 0);
        assert_true(ls_loop_is_current(ls_conn_loop(conn)));
        if (refuse)
                return NULL;
        c = ls_calloc(1, sizeof *c);
        c->server = s;
        c->conn = conn;
        if (s->pause_for_ever)
                ls_conn_pause(conn);
        if (s->close_at_once)
                ls_conn_close(conn, s->close_flush);
        return c;
}

static void
server_answer(struct server *s, struct ls_conn *conn)
{
        struct ls_slice *out = ls_slice_new(s->answer_bytes);

        for (size_t i = 0; i < out->len; i++)
                out->ptr[i] = (uint8_t)(i * 7 + i / 251);
        ls_conn_write(conn, &out, 1);
        if (s->close_flush)
                ls_conn_close(conn, true);
        else if (s->close_at_once)
                ls_conn_close(conn, false);
}

static void
server_on_bytes(void *ctx, struct ls_conn *conn, const uint8_t *bytes, size_t len)
{
        struct client_ctx *c = ctx;
        struct server *s = c->server;
        struct ls_slice *out[3];
        size_t third = len / 3;

        c->reads++;
        if (s->use_room)
                assert_true(bytes == s->room && len <= sizeof s->room && c->rooms > 0);
        if (s->answer_bytes > 0) {
                server_answer(s, conn);
                return;
        }
        out[0] = ls_slice_copy(ls_span_of(bytes, third));
        out[1] = ls_slice_copy(ls_span_of(bytes + third, 0));
        out[2] = ls_slice_copy(ls_span_of(bytes + third, len - third));
        ls_conn_write(conn, out, 3);
        pthread_mutex_lock(&s->lock);
        s->queued_max = LS_MAX(s->queued_max, ls_conn_queued(conn));
        pthread_mutex_unlock(&s->lock);
        if (s->pause_above > 0 && ls_conn_queued(conn) > s->pause_above)
                ls_conn_pause(conn);
}

static void
server_on_room(void *ctx, struct ls_conn *conn, uint8_t **ret_ptr, size_t *ret_len)
{
        struct client_ctx *c = ctx;

        if (!c->server->use_room)
                return; /* the loop's own buffer is fine too */
        c->rooms++;
        *ret_ptr = c->server->room;
        *ret_len = sizeof c->server->room;
}

static void
server_on_drained(void *ctx, struct ls_conn *conn)
{
        struct client_ctx *c = ctx;
        struct server *s = c->server;

        assert_int_equal(ls_conn_queued(conn), 0);
        pthread_mutex_lock(&s->lock);
        s->drained++;
        ls_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        if (!s->pause_for_ever)
                ls_conn_resume(conn);
}

static void
server_on_close(void *ctx, struct ls_conn *conn, ls_err why)
{
        struct client_ctx *c = ctx;
        struct server *s = c->server;

        pthread_mutex_lock(&s->lock);
        s->closed++;
        s->why = why;
        ls_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        ls_free(c);
}

static const struct ls_conn_ops server_ops = {
        .accept = server_accept,
        .on_bytes = server_on_bytes,
        .on_room = server_on_room,
        .on_drained = server_on_drained,
        .on_close = server_on_close,
};

/* Waits (bounded, so that a bug is a failure and not a hang) until *value reaches `want`. */
static void
server_wait(struct server *s, const size_t *value, size_t want)
{
        int64_t until = ls_clock_monotonic_ms() + 60000;

        pthread_mutex_lock(&s->lock);
        while (*value < want)
                assert_true(ls_cond_wait_until(&s->changed, &s->lock, until));
        assert_int_equal(*value, want);
        pthread_mutex_unlock(&s->lock);
}

/* ---- the client side: plain blocking sockets ---- */

static void
client_connect_with(int fd, uint16_t port)
{
        struct sockaddr_in addr = { .sin_family = AF_INET, .sin_port = htons(port) };
        struct timeval limit = { .tv_sec = 60 };

        assert_true(fd >= 0);
        addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof addr), 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

static int
client_connect(uint16_t port)
{
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        client_connect_with(fd, port);
        return fd;
}

static void
client_send(int fd, const void *bytes, size_t len)
{
        const uint8_t *p = bytes;

        while (len > 0) {
                ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

                assert_true(n > 0);
                p += n;
                len -= (size_t)n;
        }
}

/* Reads until `len` bytes or the end; returns how many. */
static size_t
client_recv(int fd, uint8_t *bytes, size_t len)
{
        size_t got = 0;

        while (got < len) {
                ssize_t n = recv(fd, bytes + got, len - got, 0);

                if (n <= 0)
                        break;
                got += (size_t)n;
        }
        return got;
}

struct world {
        struct ls_loop *loops[2];
        struct ls_listener *listener;
        uint16_t port;
        struct server server;
};

static void
world_start(struct world *w, size_t loop_count)
{
        struct ls_errinfo words;

        memset(w->loops, 0, sizeof w->loops);
        for (size_t i = 0; i < loop_count; i++)
                assert_int_equal(ls_loop_start("test-loop", &w->loops[i]), LS_OK);
        assert_int_equal(ls_listen(w->loops, loop_count, "127.0.0.1", 0, &server_ops, &w->server,
                                   &w->listener, &w->port, &words),
                         LS_OK);
        assert_true(w->port != 0);
}

static void
world_stop(struct world *w)
{
        ls_listener_close(w->listener);
        for (size_t i = 0; i < LS_COUNT(w->loops); i++)
                ls_loop_stop(w->loops[i]);
        assert_int_equal(w->server.accepted, w->server.closed);
        server_done(&w->server);
}

/* ---- connections ---- */

static void
echo_all(bool use_room)
{
        struct world w;
        uint8_t *sent = ls_malloc(200000), *got = ls_malloc(200000);
        const size_t sizes[] = { 1, 2, 3, 100, 4096, 65536, 65537, 200000 };
        int fd;

        server_init(&w.server);
        w.server.use_room = use_room;
        world_start(&w, 1);
        fd = client_connect(w.port);
        for (size_t i = 0; i < LS_COUNT(sizes); i++) {
                for (size_t k = 0; k < sizes[i]; k++)
                        sent[k] = (uint8_t)(k * 31 + i + k / 255);
                client_send(fd, sent, sizes[i]);
                assert_int_equal(client_recv(fd, got, sizes[i]), sizes[i]);
                assert_memory_equal(sent, got, sizes[i]);
        }
        close(fd);
        server_wait(&w.server, &w.server.closed, 1);
        assert_int_equal(w.server.why, LS_END);
        world_stop(&w);
        ls_free(sent);
        ls_free(got);
}

static void
test_echo(void **state)
{
        echo_all(false);
}

static void
test_echo_into_own_room(void **state)
{
        echo_all(true);
}

struct sender {
        int fd;
        size_t bytes;
};

static void
sender_run(void *arg)
{
        struct sender *s = arg;
        uint8_t block[8192];

        for (size_t at = 0; at < s->bytes; at += sizeof block) {
                for (size_t k = 0; k < sizeof block; k++)
                        block[k] = (uint8_t)((at + k) * 13 + (at + k) / 256);
                client_send(s->fd, block, sizeof block);
        }
        shutdown(s->fd, SHUT_WR);
}

/* The client sends 16 MiB and reads late: the server's queue stays near its bound, and after the
 * client's half-close all that was queued still arrives. */
static void
test_slow_reader(void **state)
{
        struct world w;
        struct sender sender = { .bytes = (size_t)16 << 20 };
        struct ls_thread *thread;
        uint8_t block[8192];
        size_t at = 0;

        server_init(&w.server);
        w.server.pause_above = (size_t)256 << 10;
        world_start(&w, 1);
        sender.fd = client_connect(w.port);
        assert_int_equal(ls_thread_start("test-sender", sender_run, &sender, &thread), LS_OK);
        pthread_mutex_lock(&w.server.lock); /* reads nothing before the server has held back */
        while (w.server.queued_max <= w.server.pause_above) {
                pthread_mutex_unlock(&w.server.lock);
                sched_yield();
                pthread_mutex_lock(&w.server.lock);
        }
        pthread_mutex_unlock(&w.server.lock);
        while (at < sender.bytes) {
                assert_int_equal(client_recv(sender.fd, block, sizeof block), sizeof block);
                for (size_t k = 0; k < sizeof block; k++)
                        assert_int_equal(block[k], (uint8_t)((at + k) * 13 + (at + k) / 256));
                at += sizeof block;
        }
        assert_int_equal(client_recv(sender.fd, block, 1), 0);
        ls_thread_join(thread);
        close(sender.fd);
        server_wait(&w.server, &w.server.closed, 1);
        assert_true(w.server.queued_max < w.server.pause_above + ((size_t)64 << 10) + 1);
        assert_true(w.server.drained > 0);
        assert_int_equal(w.server.why, LS_END);
        world_stop(&w);
}

/* An answer of 8 MiB and a close behind it: with flush it all arrives. */
static void
test_close_flush(void **state)
{
        struct world w;
        size_t bytes = (size_t)8 << 20;
        uint8_t *got = ls_malloc(bytes + 1);
        int fd;

        server_init(&w.server);
        w.server.answer_bytes = bytes;
        w.server.close_flush = true;
        world_start(&w, 1);
        fd = client_connect(w.port);
        /* More than it reads: a plain close would reset the connection and lose the answer. */
        client_send(fd, got, 100000);
        assert_int_equal(client_recv(fd, got, bytes + 1), bytes);
        for (size_t i = 0; i < bytes; i++)
                assert_int_equal(got[i], (uint8_t)(i * 7 + i / 251));
        close(fd);
        server_wait(&w.server, &w.server.closed, 1);
        assert_int_equal(w.server.why, LS_OK);
        world_stop(&w);
        ls_free(got);
}

static void
test_close_during_write(void **state)
{
        struct world w;
        uint8_t block[4096];
        size_t total = 0, n;
        int fd;

        server_init(&w.server);
        w.server.answer_bytes = (size_t)32 << 20;
        w.server.close_at_once = false;
        world_start(&w, 1);
        /* The server has written, the client goes away. */
        fd = client_connect(w.port);
        client_send(fd, "x", 1);
        assert_int_equal(client_recv(fd, block, sizeof block), sizeof block);
        close(fd);
        server_wait(&w.server, &w.server.closed, 1);
        assert_true(w.server.why == LS_ENET || w.server.why == LS_END);
        ls_listener_close(w.listener);
        w.listener = NULL;
        world_stop(&w);

        /* The server closes while its write is queued: the rest is dropped. */
        server_init(&w.server);
        w.server.answer_bytes = (size_t)32 << 20;
        world_start(&w, 1);
        fd = client_connect(w.port);
        client_send(fd, "x", 1);
        server_wait(&w.server, &w.server.accepted, 1);
        assert_int_equal(client_recv(fd, block, 1), 1);
        world_stop(&w); /* aborts it */
        do {
                n = client_recv(fd, block, sizeof block);
                total += n;
        } while (n > 0);
        assert_true(total < (size_t)32 << 20);
        close(fd);
}

static void
test_close_in_accept(void **state)
{
        uint8_t byte;

        for (int flush = 0; flush < 2; flush++) {
                struct world w;
                int fd;

                server_init(&w.server);
                w.server.close_at_once = true;
                w.server.close_flush = flush;
                world_start(&w, 1);
                fd = client_connect(w.port);
                assert_int_equal(client_recv(fd, &byte, 1), 0);
                close(fd);
                server_wait(&w.server, &w.server.closed, 1);
                assert_int_equal(w.server.why, LS_OK);
                world_stop(&w);
        }
}

static void
test_refused_over_limit(void **state)
{
        struct world w;
        uint8_t byte = 1;
        int fd[3];

        server_init(&w.server);
        w.server.accept_max = 2;
        world_start(&w, 1);
        for (int i = 0; i < 2; i++) {
                fd[i] = client_connect(w.port);
                server_wait(&w.server, &w.server.accepted, (size_t)i + 1);
        }
        fd[2] = client_connect(w.port);
        assert_int_equal(client_recv(fd[2], &byte, 1), 0);
        close(fd[2]);
        close(fd[0]);
        server_wait(&w.server, &w.server.closed, 1);
        fd[0] = client_connect(w.port); /* there is room again */
        client_send(fd[0], &byte, 1);
        assert_int_equal(client_recv(fd[0], &byte, 1), 1);
        close(fd[0]);
        close(fd[1]);
        server_wait(&w.server, &w.server.closed, 3);
        world_stop(&w);
}

/* No descriptor is left: those that are connected are served, the others once there is room. */
static void
test_out_of_descriptors(void **state)
{
        enum { LOOPS = 4, THERE = 16, CROWD = 200 };
        struct world w;
        struct rlimit before, none;
        int there[THERE], crowd[CROWD], last;
        uint8_t byte = 1;

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        server_init(&w.server);
        world_start(&w, LOOPS);
        for (int i = 0; i < THERE; i++)
                there[i] = client_connect(w.port);
        server_wait(&w.server, &w.server.accepted, THERE);
        for (int i = 0; i < CROWD; i++)
                crowd[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        /* What the loops could still open lies above this one, but for a few. */
        last = dup(crowd[0]);
        close(last);
        none = before;
        none.rlim_cur = (rlim_t)last + 3;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
        for (int i = 0; i < CROWD; i++)
                client_connect_with(crowd[i], w.port);
        for (int round = 0; round < 50; round++) {
                for (int i = 0; i < THERE; i++)
                        client_send(there[i], &byte, 1);
                for (int i = 0; i < THERE; i++)
                        assert_int_equal(client_recv(there[i], &byte, 1), 1);
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        for (int i = 0; i < CROWD; i++) {
                client_send(crowd[i], &byte, 1);
                assert_int_equal(client_recv(crowd[i], &byte, 1), 1);
                close(crowd[i]);
        }
        for (int i = 0; i < THERE; i++)
                close(there[i]);
        server_wait(&w.server, &w.server.closed, THERE + CROWD);
        world_stop(&w);
}

static void
test_many_connections(void **state)
{
        enum { COUNT = 1000 };
        struct world w;
        int *fds = ls_calloc(COUNT, sizeof *fds);
        struct rlimit limit;
        uint8_t got[16];

        assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
        limit.rlim_cur = LS_MIN(limit.rlim_max, (rlim_t)4096);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        server_init(&w.server);
        world_start(&w, 2);
        for (int i = 0; i < COUNT; i++)
                fds[i] = client_connect(w.port);
        server_wait(&w.server, &w.server.accepted, COUNT);
        for (int i = 0; i < COUNT; i++) {
                char text[16] = { 0 };

                snprintf(text, sizeof text, "conn %d", i);
                client_send(fds[i], text, sizeof text);
        }
        for (int i = 0; i < COUNT; i++) {
                char text[16] = { 0 };

                snprintf(text, sizeof text, "conn %d", i);
                assert_int_equal(client_recv(fds[i], got, sizeof got), sizeof got);
                assert_memory_equal(got, text, sizeof got);
        }
        for (int i = 0; i < COUNT; i += 2)
                close(fds[i]);
        server_wait(&w.server, &w.server.closed, COUNT / 2);
        world_stop(&w); /* the other half is open */
        for (int i = 1; i < COUNT; i += 2) {
                assert_int_equal(client_recv(fds[i], got, 1), 0);
                close(fds[i]);
        }
        ls_free(fds);
}

/* Both loops of a listener get connections: the kernel spreads them. */
static struct ls_loop *spread_seen[2];
static void *
spread_accept(void *server, struct ls_conn *conn)
{
        struct server *s = server;

        pthread_mutex_lock(&s->lock);
        if (spread_seen[0] == NULL || spread_seen[0] == ls_conn_loop(conn))
                spread_seen[0] = ls_conn_loop(conn);
        else
                spread_seen[1] = ls_conn_loop(conn);
        s->accepted++;
        ls_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
        return NULL;
}

static void
test_listen_spread_and_refusals(void **state)
{
        static const struct ls_conn_ops ops = { .accept = spread_accept,
                                                .on_bytes = server_on_bytes,
                                                .on_close = server_on_close };
        struct ls_loop *loops[2];
        struct ls_listener *listener, *other;
        struct ls_errinfo words = { { 0 } };
        struct server s;
        uint16_t port, port2 = 7;
        uint8_t byte;

        server_init(&s);
        assert_int_equal(ls_loop_start("a", &loops[0]), LS_OK);
        assert_int_equal(ls_loop_start("b", &loops[1]), LS_OK);
        assert_int_equal(ls_listen(loops, 2, "localhost", 0, &ops, &s, &listener, &port, &words),
                         LS_OK);
        for (int i = 0; i < 64; i++) {
                int fd = client_connect(port);

                assert_int_equal(client_recv(fd, &byte, 1), 0);
                close(fd);
        }
        server_wait(&s, &s.accepted, 64);
        assert_non_null(spread_seen[0]);
        assert_non_null(spread_seen[1]);

        assert_int_equal(ls_listen(loops, 2, "127.0.0.1", port, &ops, &s, &other, &port2, &words),
                         LS_EXISTS);
        assert_non_null(strstr(words.text, "another program"));
        assert_int_equal(ls_listen(loops, 1, "*", port, &ops, &s, &other, &port2, &words),
                         LS_EXISTS);
        assert_int_equal(ls_listen(loops, 1, "192.0.2.1", 0, &ops, &s, &other, &port2, &words),
                         LS_INVALID);
        assert_int_equal(ls_listen(loops, 1, "no such host", 0, &ops, &s, &other, &port2, &words),
                         LS_INVALID);
        assert_int_equal(port2, 7);
        /* Closed, the port is free, also with connections in TIME_WAIT. */
        ls_listener_close(listener);
        assert_int_equal(ls_listen(loops, 2, "*", port, &ops, &s, &listener, &port2, &words),
                         LS_OK);
        assert_int_equal(port2, port);
        ls_loop_stop(loops[0]);
        ls_listener_close(listener); /* one of its loops is gone */
        ls_loop_stop(loops[1]);
        server_done(&s);
}

/* ---- messages ---- */

enum { STORM_THREADS = 4, STORM_POSTS = 20000 };
struct storm_msg {
        struct ls_loop_msg msg;
        struct storm *storm;
        unsigned thread, number;
};
struct storm {
        struct ls_loop *loop;
        struct storm_msg *msgs;
        unsigned next[STORM_THREADS]; /* on the loop */
        size_t seen;
        unsigned starter;
};

static void
storm_on_msg(struct ls_loop_msg *msg)
{
        struct storm_msg *m = LS_CONTAINER(msg, struct storm_msg, msg);

        assert_true(ls_loop_is_current(m->storm->loop));
        assert_int_equal(m->number, m->storm->next[m->thread]);
        m->storm->next[m->thread]++;
        m->storm->seen++;
}

struct storm_thread {
        struct storm *storm;
        unsigned index;
        struct ls_thread *thread;
};

static void
storm_run(void *arg)
{
        struct storm_thread *t = arg;

        for (unsigned i = 0; i < STORM_POSTS; i++) {
                struct storm_msg *m = &t->storm->msgs[t->index * STORM_POSTS + i];

                *m = (struct storm_msg){
                        .msg.fn = storm_on_msg, .storm = t->storm, .thread = t->index, .number = i
                };
                ls_loop_post(t->storm->loop, &m->msg);
        }
}

/* What was posted before the stop has run when it returns, and nothing twice. */
static void
test_post_storm(void **state)
{
        struct storm storm = { 0 };
        struct storm_thread threads[STORM_THREADS];

        storm.msgs = ls_calloc((size_t)STORM_THREADS * STORM_POSTS, sizeof *storm.msgs);
        assert_int_equal(ls_loop_start("test-loop-with-a-long-name", &storm.loop), LS_OK);
        assert_false(ls_loop_is_current(storm.loop));
        for (unsigned i = 0; i < STORM_THREADS; i++) {
                threads[i] = (struct storm_thread){ .storm = &storm, .index = i };
                assert_int_equal(
                        ls_thread_start("storm", storm_run, &threads[i], &threads[i].thread),
                        LS_OK);
        }
        for (unsigned i = 0; i < STORM_THREADS; i++)
                ls_thread_join(threads[i].thread);
        ls_loop_stop(storm.loop);
        assert_int_equal(storm.seen, STORM_THREADS * STORM_POSTS);
        ls_free(storm.msgs);
}

/* Two loops hand a message to and fro; each hop is on the right thread. */
struct ping {
        struct ls_loop_msg msg;
        struct ls_loop *loops[2];
        unsigned hops;
        pthread_mutex_t lock;
        struct ls_cond done;
};

static void
ping_on_msg(struct ls_loop_msg *msg)
{
        struct ping *p = LS_CONTAINER(msg, struct ping, msg);

        assert_true(ls_loop_is_current(p->loops[p->hops % 2]));
        if (++p->hops < 10000) {
                ls_loop_post(p->loops[p->hops % 2], msg);
                return;
        }
        pthread_mutex_lock(&p->lock);
        ls_cond_signal(&p->done);
        pthread_mutex_unlock(&p->lock);
}

static void
test_post_between_loops(void **state)
{
        struct ping p = { .msg.fn = ping_on_msg, .lock = PTHREAD_MUTEX_INITIALIZER };

        ls_cond_init(&p.done);
        assert_int_equal(ls_loop_start("a", &p.loops[0]), LS_OK);
        assert_int_equal(ls_loop_start("b", &p.loops[1]), LS_OK);
        pthread_mutex_lock(&p.lock);
        ls_loop_post(p.loops[0], &p.msg);
        ls_cond_wait(&p.done, &p.lock);
        pthread_mutex_unlock(&p.lock);
        assert_int_equal(p.hops, 10000);
        ls_loop_stop(p.loops[0]);
        ls_loop_stop(p.loops[1]);
        ls_cond_done(&p.done);
}

/* ---- timers ---- */

enum { TIMERS = 200 };
struct timers {
        struct ls_loop *loop;
        struct ls_loop_msg msg;
        struct timer_one {
                struct ls_timer timer;
                struct timers *all;
                int64_t delay_ms;
                bool cleared;
        } one[TIMERS];
        int64_t last_due_ns;
        size_t fired;
        struct ls_timer again, last;
        size_t again_count;
        pthread_mutex_t lock;
        struct ls_cond done;
        bool is_done;
};

static void
timers_on_fire(struct ls_timer *timer)
{
        struct timer_one *one = LS_CONTAINER(timer, struct timer_one, timer);

        assert_false(one->cleared);
        assert_int_equal(timer->due_ns, 0);
        one->all->fired++;
}

static void
timers_on_again(struct ls_timer *timer)
{
        struct timers *t = LS_CONTAINER(timer, struct timers, again);

        if (++t->again_count < 50)
                ls_timer_set(t->loop, timer, 0, timers_on_again);
}

static void
timers_on_last(struct ls_timer *timer)
{
        struct timers *t = LS_CONTAINER(timer, struct timers, last);

        pthread_mutex_lock(&t->lock);
        t->is_done = true;
        ls_cond_signal(&t->done);
        pthread_mutex_unlock(&t->lock);
}

/* Each timer remembers when it is due; firing must be in that order. */
static int64_t timers_due_ns[TIMERS];
static void
timers_on_ordered(struct ls_timer *timer)
{
        struct timer_one *one = LS_CONTAINER(timer, struct timer_one, timer);
        struct timers *t = one->all;
        int64_t due_ns = timers_due_ns[one - t->one];

        assert_true(due_ns >= t->last_due_ns);
        assert_true(ls_clock_monotonic_ns() >= due_ns);
        t->last_due_ns = due_ns;
        timers_on_fire(timer);
}

static void
timers_on_start(struct ls_loop_msg *msg)
{
        struct timers *t = LS_CONTAINER(msg, struct timers, msg);

        for (size_t i = 0; i < TIMERS; i++) {
                struct timer_one *one = &t->one[i];

                one->all = t;
                one->delay_ms = (int64_t)(i * 7919 % 61) - 1; /* one of them is below 0 */
                ls_timer_set(t->loop, &one->timer, 100000 - one->delay_ms, timers_on_ordered);
                ls_timer_set(t->loop, &one->timer, one->delay_ms, timers_on_ordered); /* moves */
                timers_due_ns[i] = one->timer.due_ns;
        }
        for (size_t i = 0; i < TIMERS; i += 5) {
                t->one[i].cleared = true;
                ls_timer_clear(&t->one[i].timer);
                ls_timer_clear(&t->one[i].timer);
        }
        ls_timer_set(t->loop, &t->again, 0, timers_on_again);
        ls_timer_set(t->loop, &t->last, 62, timers_on_last);
}

static void
test_timers(void **state)
{
        static struct timers t; /* large */

        memset(&t, 0, sizeof t);
        pthread_mutex_init(&t.lock, NULL);
        ls_cond_init(&t.done);
        t.msg.fn = timers_on_start;
        assert_int_equal(ls_loop_start("timers", &t.loop), LS_OK);
        ls_loop_post(t.loop, &t.msg);
        pthread_mutex_lock(&t.lock);
        while (!t.is_done)
                ls_cond_wait(&t.done, &t.lock);
        pthread_mutex_unlock(&t.lock);
        ls_loop_stop(t.loop);
        assert_int_equal(t.fired, TIMERS - TIMERS / 5);
        assert_int_equal(t.again_count, 50);
        pthread_mutex_destroy(&t.lock);
        ls_cond_done(&t.done);
}

/* A stop drops timers that are set, and one set while stopping never fires. */
struct stop_timer {
        struct ls_loop_msg msg;
        struct ls_loop *loop;
        struct ls_timer timer;
};
static void
stop_on_fire(struct ls_timer *timer)
{
        fail();
}
static void
stop_on_msg(struct ls_loop_msg *msg)
{
        struct stop_timer *s = LS_CONTAINER(msg, struct stop_timer, msg);

        ls_timer_set(s->loop, &s->timer, INT64_MAX, stop_on_fire);
}
static void
test_stop_with_timer(void **state)
{
        struct stop_timer s = { .msg.fn = stop_on_msg };

        assert_int_equal(ls_loop_start("stop", &s.loop), LS_OK);
        ls_loop_post(s.loop, &s.msg);
        ls_loop_stop(s.loop);
        assert_int_equal(s.timer.due_ns, 0);
        ls_loop_stop(NULL);
        ls_listener_close(NULL);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_echo),
                cmocka_unit_test(test_echo_into_own_room),
                cmocka_unit_test(test_slow_reader),
                cmocka_unit_test(test_close_flush),
                cmocka_unit_test(test_close_during_write),
                cmocka_unit_test(test_close_in_accept),
                cmocka_unit_test(test_refused_over_limit),
                cmocka_unit_test(test_out_of_descriptors),
                cmocka_unit_test(test_many_connections),
                cmocka_unit_test(test_listen_spread_and_refusals),
                cmocka_unit_test(test_post_storm),
                cmocka_unit_test(test_post_between_loops),
                cmocka_unit_test(test_timers),
                cmocka_unit_test(test_stop_with_timer),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
