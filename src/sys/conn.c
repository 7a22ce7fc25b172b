/* sys/conn.c - TCP connections of a loop. See loop.h.
 *
 * Writing: ls_conn_write only queues; what a callback of the user wrote goes out in one writev
 * when the callback ends (loop_leave): answers that belong together travel together, and no
 * write runs user code. What the kernel does not take goes into the one uv_write a connection
 * has, and the next starts when it has ended. Closing: OPEN -> FLUSHING -> LINGERING -> CLOSING,
 * any of them -> CLOSING. A close with unread input makes the kernel send a reset, which can
 * destroy the answer on its way: hence the lingering.
 */
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "sys/loop_int.h"

static void conn_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf);
static void conn_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf);

/* ---- end ---- */

static void
queue_drop(struct ls_conn *conn)
{
        while (conn->queue_count > 0) {
                ls_slice_unref(conn->queue[conn->queue_head++]);
                conn->queue_count--;
        }
        conn->queue_bytes = 0;
}

static void
conn_on_closed(uv_handle_t *handle)
{
        struct ls_conn *conn = handle->data;
        struct ls_loop *loop = conn->loop;

        LS_ASSERT(!conn->writing && !conn->dirty);
        queue_drop(conn);
        if (conn->prev != NULL)
                conn->prev->next = conn->next;
        else
                loop->conns = conn->next;
        if (conn->next != NULL)
                conn->next->prev = conn->prev;
        if (conn->ctx != NULL)
                conn->ops->on_close(conn->ctx, conn, conn->why);
        ls_free(conn->queue);
        ls_free(conn);
        loop_leave(loop);
        loop_check_end(loop);
}

static void
conn_undirty(struct ls_conn *conn)
{
        struct ls_conn **at = &conn->loop->dirty;

        if (!conn->dirty)
                return;
        while (*at != conn)
                at = &(*at)->dirty_next;
        *at = conn->dirty_next;
        conn->dirty = false;
}

void
conn_abort(struct ls_conn *conn, ls_err why)
{
        if (conn->state == CONN_CLOSING)
                return;
        if (conn->state == CONN_OPEN)
                conn->why = why;
        conn->state = CONN_CLOSING;
        conn_undirty(conn);
        ls_timer_clear(&conn->deadline);
        uv_close((uv_handle_t *)&conn->tcp, conn_on_closed);
}

static void
conn_on_deadline(struct ls_timer *timer)
{
        conn_abort(LS_CONTAINER(timer, struct ls_conn, deadline), LS_TIMEOUT);
}

static void
conn_on_shutdown(uv_shutdown_t *req, int status)
{
}

/* All is sent: says so to the peer, then waits for its end. */
static void
conn_linger(struct ls_conn *conn)
{
        conn->state = CONN_LINGERING;
        if (uv_shutdown(&conn->shutdown_req, (uv_stream_t *)&conn->tcp, conn_on_shutdown) != 0 ||
            conn->why == LS_END ||
            uv_read_start((uv_stream_t *)&conn->tcp, conn_on_alloc, conn_on_read) != 0)
                conn_abort(conn, LS_OK);
}

static void
conn_start_flush(struct ls_conn *conn, ls_err why)
{
        if (conn->state != CONN_OPEN)
                return;
        conn->why = why;
        conn->state = CONN_FLUSHING;
        if (conn->reading)
                uv_read_stop((uv_stream_t *)&conn->tcp);
        conn->reading = false;
        ls_timer_set(conn->loop, &conn->deadline, CONN_FLUSH_MS, conn_on_deadline);
        if (!conn->dirty) {
                conn->dirty = true;
                conn->dirty_next = conn->loop->dirty;
                conn->loop->dirty = conn;
        }
}

void
ls_conn_close(struct ls_conn *conn, bool flush)
{
        LS_ASSERT(ls_loop_is_current(conn->loop));
        if (flush && !conn->loop->stopping)
                conn_start_flush(conn, LS_OK);
        else
                conn_abort(conn, LS_OK);
}

/* ---- write ---- */

static void
queue_push(struct ls_conn *conn, struct ls_slice *slice)
{
        if (conn->queue_head + conn->queue_count == conn->queue_cap && conn->queue_head > 0) {
                /* Only when half is free, so that pushing stays O(1). */
                if (conn->queue_head >= conn->queue_count) {
                        memcpy(conn->queue, conn->queue + conn->queue_head,
                               conn->queue_count * sizeof *conn->queue);
                        conn->queue_head = 0;
                }
        }
        conn->queue = ls_grow(conn->queue, conn->queue_head + conn->queue_count, &conn->queue_cap,
                              sizeof *conn->queue);
        conn->queue[conn->queue_head + conn->queue_count++] = slice;
        conn->queue_bytes += slice->len;
}

static void
queue_pop(struct ls_conn *conn)
{
        LS_ASSERT(conn->queue_count > 0);
        ls_slice_unref(conn->queue[conn->queue_head++]);
        if (--conn->queue_count == 0)
                conn->queue_head = 0;
}

void
ls_conn_write(struct ls_conn *conn, struct ls_slice **slices, size_t count)
{
        LS_ASSERT(ls_loop_is_current(conn->loop));
        for (size_t i = 0; i < count; i++) {
                if (conn->state != CONN_OPEN || slices[i]->len == 0)
                        ls_slice_unref(slices[i]);
                else
                        queue_push(conn, slices[i]);
        }
        if (conn->state == CONN_OPEN && conn->queue_count > 0 && !conn->dirty) {
                conn->dirty = true;
                conn->dirty_next = conn->loop->dirty;
                conn->loop->dirty = conn;
        }
}

size_t
ls_conn_queued(const struct ls_conn *conn)
{
        return conn->queue_bytes + uv_stream_get_write_queue_size((const uv_stream_t *)&conn->tcp);
}

/* The first slices that are not being sent, as buffers. */
static unsigned
queue_bufs(const struct ls_conn *conn, uv_buf_t bufs[CONN_IOV_MAX])
{
        unsigned count = (unsigned)LS_MIN(conn->queue_count, (size_t)CONN_IOV_MAX);

        for (unsigned i = 0; i < count; i++) {
                const struct ls_slice *s = conn->queue[conn->queue_head + i];

                bufs[i] = uv_buf_init((char *)s->ptr, 0);
                bufs[i].len = s->len;
        }
        if (count > 0) {
                bufs[0].base += conn->queue_pos;
                bufs[0].len -= conn->queue_pos;
        }
        return count;
}

static void
queue_advance(struct ls_conn *conn, size_t bytes)
{
        conn->queue_bytes -= bytes;
        bytes += conn->queue_pos;
        while (conn->queue_count > 0 && bytes >= conn->queue[conn->queue_head]->len) {
                bytes -= conn->queue[conn->queue_head]->len;
                queue_pop(conn);
        }
        conn->queue_pos = bytes;
}

/* Nothing is queued any more. */
static void
conn_on_empty(struct ls_conn *conn)
{
        if (conn->state == CONN_FLUSHING)
                conn_linger(conn);
        else if (conn->state == CONN_OPEN && conn->ops->on_drained != NULL)
                conn->ops->on_drained(conn->ctx, conn);
}

static void
conn_on_written(uv_write_t *req, int status)
{
        struct ls_conn *conn = req->data;
        struct ls_loop *loop = conn->loop;

        conn->writing = false;
        while (conn->sending > 0) {
                queue_pop(conn);
                conn->sending--;
        }
        conn->queue_pos = 0;
        if (conn->state == CONN_CLOSING)
                return; /* conn_on_closed follows */
        if (status != 0) {
                conn_abort(conn, LS_ENET);
                return;
        }
        conn_flush(conn, true);
        loop_leave(loop);
}

/* Hands the rest to libuv, which waits until the socket is writable. */
static void
conn_send_later(struct ls_conn *conn)
{
        uv_buf_t bufs[CONN_IOV_MAX];
        unsigned count = queue_bufs(conn, bufs);

        conn->write_req.data = conn;
        if (uv_write(&conn->write_req, (uv_stream_t *)&conn->tcp, bufs, count, conn_on_written) !=
            0) {
                conn_abort(conn, LS_ENET);
                return;
        }
        conn->writing = true;
        conn->sending = count;
        for (unsigned i = 0; i < count; i++)
                conn->queue_bytes -= bufs[i].len;
}

void
conn_flush(struct ls_conn *conn, bool now)
{
        if (conn->writing || conn->state > CONN_FLUSHING)
                return;
        while (conn->queue_count > 0) {
                uv_buf_t bufs[CONN_IOV_MAX];
                unsigned count = queue_bufs(conn, bufs);
                int n = now ? uv_try_write((uv_stream_t *)&conn->tcp, bufs, count) : UV_EAGAIN;

                if (n == UV_EAGAIN) {
                        conn_send_later(conn);
                        return;
                }
                if (n < 0) {
                        conn_abort(conn, LS_ENET);
                        return;
                }
                queue_advance(conn, (size_t)n);
        }
        conn_on_empty(conn);
}

/* ---- read ---- */

static void
conn_on_alloc(uv_handle_t *handle, size_t suggested, uv_buf_t *ret_buf)
{
        struct ls_conn *conn = handle->data;
        uint8_t *ptr = conn->loop->read_buf;
        size_t len = LOOP_READ_BYTES;

        if (conn->ops->on_room != NULL && conn->state == CONN_OPEN) {
                conn->ops->on_room(conn->ctx, conn, &ptr, &len);
                LS_ASSERT(len > 0);
        }
        *ret_buf = uv_buf_init((char *)ptr, 0);
        ret_buf->len = len;
}

static void
conn_on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
        struct ls_conn *conn = stream->data;
        struct ls_loop *loop = conn->loop;

        if (n == 0)
                return;
        if (conn->state == CONN_LINGERING) {
                if (n < 0)
                        conn_abort(conn, LS_OK);
                return;
        }
        if (n == UV_EOF) /* the peer may still read: what is queued goes out first */
                conn_start_flush(conn, LS_END);
        else if (n < 0)
                conn_abort(conn, LS_ENET);
        else
                conn->ops->on_bytes(conn->ctx, conn, (const uint8_t *)buf->base, (size_t)n);
        loop_leave(loop);
}

static void
conn_read(struct ls_conn *conn)
{
        if (conn->state != CONN_OPEN || conn->paused || conn->reading)
                return;
        if (uv_read_start((uv_stream_t *)&conn->tcp, conn_on_alloc, conn_on_read) != 0)
                conn_abort(conn, LS_ENET);
        else
                conn->reading = true;
}

void
ls_conn_pause(struct ls_conn *conn)
{
        LS_ASSERT(ls_loop_is_current(conn->loop));
        conn->paused = true;
        if (conn->reading)
                uv_read_stop((uv_stream_t *)&conn->tcp);
        conn->reading = false;
}

void
ls_conn_resume(struct ls_conn *conn)
{
        LS_ASSERT(ls_loop_is_current(conn->loop));
        conn->paused = false;
        conn_read(conn);
}

/* ---- begin ---- */

static void
conn_name_peer(struct ls_conn *conn)
{
        struct sockaddr_storage addr;
        int len = sizeof addr;
        char host[48] = "?";
        const struct sockaddr_in6 *in6 = (const void *)&addr;
        const struct sockaddr_in *in = (const void *)&addr;
        unsigned port;
        bool is_v6;

        memset(&addr, 0, sizeof addr);
        if (uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&addr, &len) != 0)
                addr.ss_family = AF_UNSPEC;
        is_v6 = addr.ss_family == AF_INET6;
        port = ntohs(is_v6 ? in6->sin6_port : in->sin_port);
        if (is_v6)
                uv_ip6_name(in6, host, sizeof host);
        else if (addr.ss_family == AF_INET)
                uv_ip4_name(in, host, sizeof host);
        if (is_v6 && strncmp(host, "::ffff:", 7) == 0 && strchr(host, '.') != NULL)
                snprintf(conn->peer, sizeof conn->peer, "%s:%u", host + 7, port);
        else
                snprintf(conn->peer, sizeof conn->peer, is_v6 ? "[%s]:%u" : "%s:%u", host, port);
}

void
conn_accept(struct ls_loop *loop, int fd, const struct ls_conn_ops *ops, void *server)
{
        struct ls_conn *conn = ls_calloc(1, sizeof *conn);

        conn->loop = loop;
        conn->ops = ops;
        conn->tcp.data = conn;
        uv_tcp_init(&loop->uv, &conn->tcp);
        conn->tcp.data = conn;
        conn->next = loop->conns;
        if (conn->next != NULL)
                conn->next->prev = conn;
        loop->conns = conn;
        if (uv_tcp_open(&conn->tcp, fd) != 0) {
                close(fd);
                conn_abort(conn, LS_ENET);
                return;
        }
        uv_tcp_nodelay(&conn->tcp, 1);
        uv_tcp_keepalive(&conn->tcp, 1, CONN_KEEPALIVE_S);
        conn_name_peer(conn);
        conn->ctx = ops->accept(server, conn);
        if (conn->ctx == NULL)
                conn_abort(conn, LS_ELIMIT);
        conn_read(conn);
        loop_leave(loop);
}

struct ls_loop *
ls_conn_loop(const struct ls_conn *conn)
{
        return conn->loop;
}

const char *
ls_conn_peer(const struct ls_conn *conn)
{
        return conn->peer;
}
