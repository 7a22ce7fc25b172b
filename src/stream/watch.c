/* stream/watch.c - long polls: one watch over many partitions, fired once on its loop. */
#include "base/assert.h"
#include "stream/stream_int.h"

struct watch_link {
        struct ls_wal_waiter waiter;
        struct ls_watch *watch;
        struct ls_wal_stream *stream; /* a reference */
};

struct ls_watch {
        struct ls_loop_msg msg;
        struct ls_loop *loop;
        void (*fn)(void *ctx);
        void *ctx;
        _Atomic int64_t bytes_left;
        atomic_bool fired; /* the message is posted */
        bool delivered;    /* it has run: the loop's */
        bool canceled;     /* the loop's */
        size_t count;
        struct watch_link links[];
};

static void
watch_deliver(struct ls_loop_msg *msg)
{
        struct ls_watch *w = LS_CONTAINER(msg, struct ls_watch, msg);

        w->delivered = true;
        if (w->canceled)
                ls_free(w);
        else
                w->fn(w->ctx);
}

static void
watch_fire(struct ls_watch *w)
{
        if (!atomic_exchange(&w->fired, true))
                ls_loop_post(w->loop, &w->msg);
}

/* Under the stream's lock, on the thread that changed it. */
static void
watch_changed(struct ls_wal_waiter *waiter, size_t bytes)
{
        struct ls_watch *w = LS_CONTAINER(waiter, struct watch_link, waiter)->watch;

        if (bytes == 0 || atomic_fetch_sub(&w->bytes_left, (int64_t)bytes) <= (int64_t)bytes)
                watch_fire(w);
}

struct ls_watch *
ls_watch_start(struct ls_streams *s, const struct ls_watch_part *parts, size_t count,
               int64_t bytes_wanted, struct ls_loop *loop, void (*fn)(void *ctx), void *ctx)
{
        struct ls_watch *w = ls_calloc(1, sizeof *w + count * sizeof(struct watch_link));

        w->msg.fn = watch_deliver;
        w->loop = loop;
        w->fn = fn;
        w->ctx = ctx;
        w->count = count;
        atomic_init(&w->bytes_left, bytes_wanted > 0 ? bytes_wanted : 1);
        for (size_t i = 0; i < count; i++) {
                struct watch_link *link = &w->links[i];

                link->watch = w;
                link->waiter.on_change = watch_changed;
                link->stream = ls_wal_stream_ref(parts[i].stream->wal);
                if (ls_wal_wait(link->stream, parts[i].partition, parts[i].end_seen,
                                &link->waiter) != LS_OK)
                        watch_fire(w); /* moved on, or gone, since the caller looked */
        }
        return w;
}

void
ls_watch_cancel(struct ls_watch *w)
{
        if (w == NULL)
                return;
        LS_ASSERT(!w->canceled);
        for (size_t i = 0; i < w->count; i++) {
                ls_wal_unwait(w->links[i].stream, &w->links[i].waiter);
                ls_wal_stream_unref(w->links[i].stream);
        }
        w->count = 0;
        w->canceled = true;
        if (!atomic_load(&w->fired) || w->delivered)
                ls_free(w);
}
