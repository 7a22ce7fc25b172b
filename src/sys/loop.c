/* sys/loop.c - the loop itself: messages from other threads and timers. See loop.h.
 *
 * Messages: a lock-free stack that posters push on and the loop takes whole and turns round,
 * which keeps the order of posting. Only the push on an empty stack wakes the loop. Timers: one
 * binary heap by due time and one uv_timer, armed for its top. The uv_timer is moved only to
 * earlier times: firing too early costs less than re-arming for each request's deadline.
 */
#include <sched.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sys/jobs.h"
#include "sys/loop_int.h"

#define LEAVE_ROUNDS_MAX 1024
#define DELAY_MS_MAX     ((int64_t)1000 * 3600 * 24 * 365 * 10)

static _Thread_local struct ls_loop *loop_current;

/* ---- messages ---- */

void
ls_loop_post(struct ls_loop *loop, struct ls_loop_msg *msg)
{
        struct ls_loop_msg *head;

        /* The message may be run, and the loop stopped, before this returns: `posters` keeps the
         * loop's memory until we are out. */
        atomic_fetch_add(&loop->posters, 1);
        head = atomic_load_explicit(&loop->posted, memory_order_relaxed);
        do {
                msg->next = head;
        } while (!atomic_compare_exchange_weak_explicit(
                &loop->posted, &head, msg, memory_order_release, memory_order_relaxed));
        if (head == NULL)
                uv_async_send(&loop->wake);
        atomic_fetch_sub(&loop->posters, 1);
}

/* Runs what is posted now; false when there was nothing. */
static bool
loop_run_posted(struct ls_loop *loop)
{
        struct ls_loop_msg *msg, *next, *ordered = NULL;

        msg = atomic_exchange_explicit(&loop->posted, NULL, memory_order_acquire);
        if (msg == NULL)
                return false;
        for (; msg != NULL; msg = next) {
                next = msg->next;
                msg->next = ordered;
                ordered = msg;
        }
        for (msg = ordered; msg != NULL; msg = next) {
                next = msg->next; /* fn may free msg */
                msg->fn(msg);
        }
        loop_leave(loop);
        return true;
}

static void
loop_on_wake(uv_async_t *wake)
{
        struct ls_loop *loop = wake->data;

        loop_run_posted(loop);
        loop_check_end(loop);
}

void
loop_leave(struct ls_loop *loop)
{
        for (unsigned round = 0; loop->dirty != NULL; round++) {
                struct ls_conn *conn = loop->dirty;

                loop->dirty = conn->dirty_next;
                conn->dirty = false;
                /* on_drained may write again, and a fast reader could hold us here for ever. */
                conn_flush(conn, round < LEAVE_ROUNDS_MAX);
        }
}

/* ---- timers ---- */

static void
heap_put(struct ls_loop *loop, size_t pos, struct ls_timer *timer)
{
        loop->heap[pos] = timer;
        timer->heap_pos = pos;
}

/* Moves the timer at `pos` to where it belongs. */
static void
heap_fix(struct ls_loop *loop, size_t pos)
{
        struct ls_timer *timer = loop->heap[pos];

        while (pos > 0 && timer->due_ns < loop->heap[(pos - 1) / 2]->due_ns) {
                heap_put(loop, pos, loop->heap[(pos - 1) / 2]);
                pos = (pos - 1) / 2;
        }
        for (;;) {
                size_t child = 2 * pos + 1;

                if (child + 1 < loop->heap_count &&
                    loop->heap[child + 1]->due_ns < loop->heap[child]->due_ns)
                        child++;
                if (child >= loop->heap_count || loop->heap[child]->due_ns >= timer->due_ns)
                        break;
                heap_put(loop, pos, loop->heap[child]);
                pos = child;
        }
        heap_put(loop, pos, timer);
}

static void
heap_remove(struct ls_loop *loop, struct ls_timer *timer)
{
        size_t pos = timer->heap_pos;

        LS_ASSERT(pos < loop->heap_count && loop->heap[pos] == timer);
        timer->due_ns = 0;
        loop->heap_count--;
        if (pos < loop->heap_count) {
                heap_put(loop, pos, loop->heap[loop->heap_count]);
                heap_fix(loop, pos);
        }
}

static void loop_on_clock(uv_timer_t *clock);

/* Makes sure that the clock fires at the time of the first timer or before. */
static void
loop_arm(struct ls_loop *loop)
{
        int64_t due_ns, wait_ns;

        if (loop->heap_count == 0 || loop->firing_ns != 0)
                return;
        due_ns = loop->heap[0]->due_ns;
        if (loop->armed_ns != 0 && loop->armed_ns <= due_ns)
                return;
        wait_ns = due_ns - ls_clock_monotonic_ns();
        if (wait_ns < 0)
                wait_ns = 0;
        uv_update_time(&loop->uv);
        uv_timer_start(&loop->clock, loop_on_clock, (uint64_t)(wait_ns + 999999) / 1000000, 0);
        loop->armed_ns = due_ns;
}

static void
loop_on_clock(uv_timer_t *clock)
{
        struct ls_loop *loop = clock->data;

        loop->armed_ns = 0;
        loop->firing_ns = ls_clock_monotonic_ns();
        while (loop->heap_count > 0 && loop->heap[0]->due_ns <= loop->firing_ns) {
                struct ls_timer *timer = loop->heap[0];

                heap_remove(loop, timer);
                timer->fn(timer); /* may free or set it */
        }
        loop->firing_ns = 0;
        loop_arm(loop);
        loop_leave(loop);
        loop_check_end(loop);
}

void
ls_timer_set(struct ls_loop *loop, struct ls_timer *timer, int64_t delay_ms,
             void (*fn)(struct ls_timer *timer))
{
        int64_t due_ns;

        LS_ASSERT(ls_loop_is_current(loop));
        delay_ms = delay_ms < 0 ? 0 : LS_MIN(delay_ms, DELAY_MS_MAX);
        due_ns = ls_clock_monotonic_ns() + delay_ms * 1000000;
        /* A timer that sets itself with no delay must not keep the loop in the firing. */
        due_ns = LS_MAX(due_ns, loop->firing_ns + 1);
        if (timer->due_ns != 0 && timer->loop != loop)
                ls_timer_clear(timer);
        timer->loop = loop;
        timer->fn = fn;
        if (loop->stopping)
                return;
        if (timer->due_ns == 0) {
                loop->heap =
                        ls_grow(loop->heap, loop->heap_count, &loop->heap_cap, sizeof *loop->heap);
                heap_put(loop, loop->heap_count++, timer);
        }
        timer->due_ns = due_ns;
        heap_fix(loop, timer->heap_pos);
        loop_arm(loop);
}

void
ls_timer_clear(struct ls_timer *timer)
{
        if (timer->due_ns == 0)
                return;
        LS_ASSERT(ls_loop_is_current(timer->loop));
        heap_remove(timer->loop, timer);
}

/* ---- start and stop ---- */

bool
ls_loop_is_current(const struct ls_loop *loop)
{
        return loop_current == loop;
}

/* The thread. Ends when every handle is closed. */
static void
loop_run(void *arg)
{
        struct ls_loop *loop = arg;

        loop_current = loop;
        uv_run(&loop->uv, UV_RUN_DEFAULT);
        LS_ASSERT(loop->wake_closed);
        for (;;) {
                bool busy = atomic_load(&loop->posters) != 0; /* asked before the last look */

                if (!loop_run_posted(loop) && !busy)
                        break;
                sched_yield();
        }
        loop_current = NULL;
}

static void
loop_on_wake_closed(uv_handle_t *handle)
{
}

void
loop_check_end(struct ls_loop *loop)
{
        if (!loop->stopping || loop->wake_closed || loop->conns != NULL || loop->listens != NULL)
                return;
        loop->wake_closed = true;
        uv_close((uv_handle_t *)&loop->wake, loop_on_wake_closed);
        uv_close((uv_handle_t *)&loop->clock, NULL);
}

static void
loop_on_stop(struct ls_loop_msg *msg)
{
        struct ls_loop *loop = LS_CONTAINER(msg, struct ls_loop, stop);

        loop->stopping = true;
        while (loop->heap_count > 0)
                heap_remove(loop, loop->heap[loop->heap_count - 1]);
        for (struct listen_part *part = loop->listens; part != NULL; part = part->next)
                listen_part_close(part);
        for (struct ls_conn *conn = loop->conns; conn != NULL; conn = conn->next)
                conn_abort(conn, LS_OK);
}

static void
loop_free(struct ls_loop *loop)
{
        ls_free(loop->heap);
        ls_free(loop->read_buf);
        ls_free(loop);
}

ls_err
ls_loop_start(const char *name, struct ls_loop **ret_loop)
{
        struct ls_loop *loop = ls_calloc(1, sizeof *loop);
        ls_err e;

        if (uv_loop_init(&loop->uv) != 0) {
                loop_free(loop);
                return LS_ELIMIT;
        }
        loop->read_buf = ls_malloc(LOOP_READ_BYTES);
        loop->uv.data = loop->wake.data = loop->clock.data = loop;
        uv_timer_init(&loop->uv, &loop->clock);
        if (uv_async_init(&loop->uv, &loop->wake, loop_on_wake) != 0) {
                e = LS_ELIMIT;
                loop->wake_closed = true;
        } else {
                e = ls_thread_start(name, loop_run, loop, &loop->thread);
        }
        if (e != LS_OK) {
                if (!loop->wake_closed)
                        uv_close((uv_handle_t *)&loop->wake, NULL);
                uv_close((uv_handle_t *)&loop->clock, NULL);
                uv_run(&loop->uv, UV_RUN_DEFAULT);
                uv_loop_close(&loop->uv);
                loop_free(loop);
                return e;
        }
        *ret_loop = loop;
        return LS_OK;
}

void
ls_loop_stop(struct ls_loop *loop)
{
        int busy;

        if (loop == NULL)
                return;
        LS_ASSERT(!ls_loop_is_current(loop));
        loop->stop.fn = loop_on_stop;
        ls_loop_post(loop, &loop->stop);
        ls_thread_join(loop->thread);
        busy = uv_loop_close(&loop->uv);
        LS_ASSERT(busy == 0);
        loop_free(loop);
}
