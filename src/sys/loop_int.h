/* sys/loop_int.h - what loop.c, conn.c and listen.c share. Only for this folder. */
#pragma once
#include <stdatomic.h>
#include <uv.h>

#include "sys/loop.h"

#define LOOP_READ_BYTES  ((size_t)64 << 10) /* shared by the connections of a loop */
#define LOOP_BACKLOG     1024               /* the kernel caps it at net.core.somaxconn */
#define CONN_IOV_MAX     64                 /* slices a writev */
#define CONN_FLUSH_MS    5000               /* bound of a close that sends first */
#define CONN_KEEPALIVE_S 60

struct ls_thread;

/* A listening socket of one loop. */
struct listen_part {
        uv_poll_t poll;                  /* of fd */
        uv_timer_t pause;                /* runs while there is nothing to accept with */
        int handles;                     /* of these two, that libuv holds */
        struct listen_part *prev, *next; /* in the loop's list */
        struct ls_listener *listener;
        struct ls_loop *loop; /* under listener->lock; NULL once closing */
        struct ls_loop_msg msg;
        int fd;
};

struct ls_loop {
        uv_loop_t uv;
        uv_async_t wake;
        uv_timer_t clock;
        struct ls_thread *thread;
        /* Posted messages, newest first; the loop takes all and turns them round. */
        _Atomic(struct ls_loop_msg *) posted;
        atomic_uint posters; /* threads inside ls_loop_post */
        struct ls_loop_msg stop;
        bool stopping, wake_closed;

        struct ls_timer **heap; /* by due_ns */
        size_t heap_count, heap_cap;
        int64_t armed_ns;  /* when `clock` will fire; 0: not armed */
        int64_t firing_ns; /* inside of firing: timers set now are due after this */

        struct ls_conn *conns;       /* all, closing ones too */
        struct ls_conn *dirty;       /* have something to write at the end of the callback */
        struct listen_part *listens; /* all, closing ones too */
        uint8_t *read_buf;
        int64_t accept_warned_ms;
};

enum conn_state {
        CONN_OPEN,
        CONN_FLUSHING,  /* no reading; sends what is queued */
        CONN_LINGERING, /* sent all and our FIN; discards until the peer's FIN */
        CONN_CLOSING,   /* uv_close was called */
};

struct ls_conn {
        uv_tcp_t tcp;
        uv_write_t write_req;
        uv_shutdown_t shutdown_req;
        struct ls_loop *loop;
        struct ls_conn *prev, *next; /* in the loop's list */
        struct ls_conn *dirty_next;
        const struct ls_conn_ops *ops;
        void *ctx; /* NULL: refused, the user does not know it */
        enum conn_state state;
        bool paused, reading, dirty, writing;
        ls_err why;
        struct ls_timer deadline; /* of FLUSHING and LINGERING */

        /* Slices to send: [queue_head, queue_head + queue_count). The first `sending` of them are
         * in write_req; of the first, queue_pos bytes are already sent (when not writing). */
        struct ls_slice **queue;
        size_t queue_head, queue_count, queue_cap, queue_pos, sending;
        size_t queue_bytes; /* not in write_req */
        char peer[64];
};

/* Every way into the user's code from libuv ends with this: sends what it wrote. */
void loop_leave(struct ls_loop *loop);
/* When stopping and nothing is left, lets the loop end. */
void loop_check_end(struct ls_loop *loop);

/* Makes a connection of a pending one of `server`. */
/* A connection of a fresh socket, which it takes over. */
void conn_accept(struct ls_loop *loop, int fd, const struct ls_conn_ops *ops, void *server);
/* Sends what is queued, or (`now` false) has the loop do it in its next turn. */
void conn_flush(struct ls_conn *conn, bool now);
/* Closes at once; the first reason stays. */
void conn_abort(struct ls_conn *conn, ls_err why);
void listen_part_close(struct listen_part *part);
