/* sys/loop.h - event loops: one thread each, connections and timers that belong to it.
 *
 * The only user of libuv. Everything here is called on the loop's own thread unless it says "any
 * thread". Callbacks run on the loop's thread. A loop never blocks: blocking work goes to
 * sys/jobs.h.
 */
#pragma once
#include "base/err.h"
#include "base/slice.h"
#include "base/span.h"

struct ls_loop;
struct ls_conn;
struct ls_listener;

/* Starts a thread with a loop; `name` is the thread's name (15 bytes). */
LS_MUST_USE ls_err ls_loop_start(const char *name, struct ls_loop **ret_loop);
/* Closes listeners, connections and timers (on_close runs; timers don't), stops and joins. Any
 * thread but its own. Accepts NULL. Nobody may post once it has returned. */
void ls_loop_stop(struct ls_loop *loop);
bool ls_loop_is_current(const struct ls_loop *loop);

/* A message for a loop: embedded in the poster's struct, owned by the loop until fn runs. */
struct ls_loop_msg {
        struct ls_loop_msg *next;
        void (*fn)(struct ls_loop_msg *msg);
};
/* Runs msg->fn(msg) once on the loop, in order of posting. Any thread. After ls_loop_stop has
 * begun, messages that are already posted still run. */
void ls_loop_post(struct ls_loop *loop, struct ls_loop_msg *msg);

struct ls_timer {
        struct ls_loop *loop;
        void (*fn)(struct ls_timer *timer);
        int64_t due_ns;  /* monotonic; 0: not set */
        size_t heap_pos; /* inner */
};
/* Sets (or moves) a one-shot timer; embedded in the caller's struct. */
void ls_timer_set(struct ls_loop *loop, struct ls_timer *timer, int64_t delay_ms,
                  void (*fn)(struct ls_timer *timer));
/* After this fn does not run; may be called for one that is not set. */
void ls_timer_clear(struct ls_timer *timer);

/* A TCP server socket on each of `loops` (SO_REUSEPORT: the kernel spreads connections; another
 * process that wants the port is refused all the same). `host` is an address, a name, or "" or
 * "*" for all. `port` 0 takes a free one. Call it from a thread that is no loop's; it blocks.
 * LS_EXISTS: the port is taken; LS_INVALID: no such host; LS_DENIED: not allowed (ports below
 * 1024). `accept` runs on the loop that got the connection and returns the user's context for it
 * (NULL: refuse and close). */
struct ls_conn_ops {
        void *(*accept)(void *server, struct ls_conn *conn);
        /* `bytes` (owned by the connection) are valid until return. */
        void (*on_bytes)(void *ctx, struct ls_conn *conn, const uint8_t *bytes, size_t len);
        /* Optional zero-copy reading: gives where the next bytes go (at least 1 byte room). When
         * set, on_bytes is called with ptr inside that room. It may be asked again without bytes
         * in between. */
        void (*on_room)(void *ctx, struct ls_conn *conn, uint8_t **ret_ptr, size_t *ret_len);
        /* All that was written has been handed to the kernel; after each group of writes that got
         * there, never from inside of ls_conn_write. May be NULL. */
        void (*on_drained)(void *ctx, struct ls_conn *conn);
        /* Exactly once, last: the connection is gone, ctx may be freed. `why`: LS_OK
         * ls_conn_close or ls_loop_stop, LS_END the peer closed, LS_ENET the connection broke. */
        void (*on_close)(void *ctx, struct ls_conn *conn, ls_err why);
};
LS_MUST_USE ls_err ls_listen(struct ls_loop **loops, size_t loop_count, const char *host,
                             uint16_t port, const struct ls_conn_ops *ops, void *server,
                             struct ls_listener **ret_listener, uint16_t *ret_port,
                             struct ls_errinfo *reterr);
/* Stops accepting. Connections live on. Any thread; blocks until done. Also after its loops have
 * stopped. Accepts NULL. */
void ls_listener_close(struct ls_listener *listener);

/* Writes; takes one reference of each slice (released once written or failed). Never blocks. It
 * goes out in order, all that one callback wrote in one writev when the callback ends; what the
 * kernel doesn't take then is queued: see ls_conn_queued. Ignored once the connection is
 * closing. */
void ls_conn_write(struct ls_conn *conn, struct ls_slice **slices, size_t count);
/* Bytes not yet taken by the kernel. */
size_t ls_conn_queued(const struct ls_conn *conn);
/* Stops and restarts reading (backpressure). */
void ls_conn_pause(struct ls_conn *conn);
void ls_conn_resume(struct ls_conn *conn);
/* Closes; queued writes are dropped unless `flush`, which sends them first and waits for the
 * peer to have got them (bounded by 5 s). No more on_bytes; on_close runs later, never before
 * this returns. */
void ls_conn_close(struct ls_conn *conn, bool flush);
struct ls_loop *ls_conn_loop(const struct ls_conn *conn);
/* "127.0.0.1:5123"; valid while the connection lives. */
const char *ls_conn_peer(const struct ls_conn *conn);
