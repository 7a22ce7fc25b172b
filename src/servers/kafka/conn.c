/* servers/kafka/conn.c - a connection: frames in, requests in order, answers in order.
 *
 *     bytes -> [head] -> frame -> request QUEUED -> RUNNING -> DONE -> bytes
 *
 * Requests are pipelined: the peer may send many, they are answered in the order they came. Produce
 * requests run side by side with each other; every other request runs alone.
 *
 * Memory: a frame is charged to a budget as a whole before memory is taken for it, so whoever got
 * its charge can always finish. A connection that finds no room is not read until there is; what
 * was read of it already stands in its stash. A peer that sends its frame too
 * slowly while others wait is closed. Answers that a peer does not take stop its next requests; all
 * of them together are bounded too: above that only Produce is started, and peers that take nothing
 * are closed.
 *
 * Threads: everything here on the connection's loop.
 */
#include "base/rd.h"
#include "servers/kafka/server_int.h"

static LS_METRIC(metric_connections, GAUGE, "lakestream_kafka_connections",
                 "Kafka connections that are open");
static LS_METRIC(metric_bytes_in, COUNTER, "lakestream_kafka_received_bytes_total",
                 "bytes that Kafka clients sent");

static void conn_pump(struct kafka_conn *c);
static void loop_retry(struct ls_timer *timer);

static void
conn_check(const struct kafka_conn *c)
{
        LS_ASSERT(c->head_len <= KAFKA_HEAD_BYTES);
        LS_ASSERT(c->frame == NULL || c->frame_len <= c->frame->len);
        LS_ASSERT(c->running_count <= c->request_count);
        LS_ASSERT((c->first == NULL) == (c->request_count == 0));
        LS_ASSERT(c->stash_pos <= c->stash_len);
}

/* ---- life ---- */

struct kafka_conn *
kafka_conn_new(struct kafka_loop *kl, const struct kafka_transport *transport, void *peer)
{
        struct kafka_conn *c = ls_calloc(1, sizeof *c);

        c->kl = kl;
        c->transport = transport;
        c->peer = peer;
        c->active_ms = ls_clock_monotonic_ms();
        c->next = kl->conns;
        if (c->next != NULL)
                c->next->prev = c;
        kl->conns = c;
        if (kl->tick.due_ns == 0)
                ls_timer_set(kl->loop, &kl->tick, KAFKA_TICK_MS, kafka_loop_tick);
        ls_metric_add(&metric_connections, 1);
        return c;
}

static void
conn_waiting_remove(struct kafka_conn *c)
{
        struct kafka_conn **at = &c->kl->waiting, *hungry = c;

        if (!c->waiting)
                return;
        while (*at != c)
                at = &(*at)->waiting_next;
        *at = c->waiting_next;
        c->waiting_next = NULL;
        c->waiting = false;
        atomic_fetch_sub(&c->kl->server->waiting_count, 1);
        atomic_compare_exchange_strong(&c->kl->server->hungry, &hungry, NULL);
}

static void
conn_drop_frame(struct kafka_conn *c)
{
        if (c->frame == NULL)
                return;
        ls_budget_uncharge(c->frame_budget, (int64_t)c->frame->len);
        ls_slice_unref(c->frame);
        c->frame = NULL;
        c->frame_len = 0;
}

static void
conn_drop_stash(struct kafka_conn *c)
{
        ls_free(c->stash);
        c->stash = NULL;
        c->stash_pos = c->stash_len = 0;
}

static void
conn_close(struct kafka_conn *c, bool flush)
{
        if (c->closing)
                return;
        c->closing = true;
        conn_waiting_remove(c);
        conn_drop_frame(c);
        conn_drop_stash(c);
        if (c->peer != NULL)
                c->transport->close(c->peer, flush);
}

static void
conn_maybe_free(struct kafka_conn *c)
{
        struct kafka_loop *kl = c->kl;
        struct ls_kafka_server *server = kl->server;

        if (c->peer != NULL || c->request_count > 0 || c->pumping)
                return;
        LS_ASSERT(c->frame == NULL && c->stash == NULL && !c->waiting);
        if (c->prev != NULL)
                c->prev->next = c->next;
        else
                kl->conns = c->next;
        if (c->next != NULL)
                c->next->prev = c->prev;
        ls_budget_uncharge(&server->answers, c->answers_charged);
        ls_free(c);
        ls_metric_add(&metric_connections, -1);
        if (kl->conns == NULL)
                ls_timer_clear(&kl->tick);
        pthread_mutex_lock(&server->lock);
        atomic_fetch_sub(&server->conn_count, 1);
        ls_cond_broadcast(&server->gone);
        pthread_mutex_unlock(&server->lock);
}

/* Asks what runs to finish soon. */
static void
conn_hurry(struct kafka_conn *c)
{
        struct kafka_request *r, *next;

        LS_ASSERT(c->pumping); /* so that none is freed meanwhile */
        for (r = c->first; r != NULL && r != c->first_queued; r = next) {
                next = r->next;
                if (r->state == KAFKA_RUNNING && r->hurry != NULL)
                        r->hurry(r);
        }
}

void
kafka_conn_closed(struct kafka_conn *c)
{
        bool outer = c->pumping;

        conn_check(c);
        c->peer = NULL;
        c->closing = true;
        conn_waiting_remove(c);
        conn_drop_frame(c);
        conn_drop_stash(c);
        c->pumping = true;
        conn_hurry(c);
        c->pumping = outer;
        conn_pump(c);
}

void
kafka_conn_drain(struct kafka_conn *c)
{
        if (c->peer == NULL || c->closing)
                return;
        if (!c->paused) {
                c->paused = true;
                c->transport->pause(c->peer);
        }
        conn_waiting_remove(c);
        conn_drop_frame(c);
        conn_drop_stash(c);
        c->pumping = true;
        conn_hurry(c);
        c->pumping = false;
        conn_pump(c);
}

/* ---- bytes in ---- */

/* From here on the peer can send the rest of its frame. */
static void
conn_frame_flows(struct kafka_conn *c)
{
        c->frame_since_ms = ls_clock_monotonic_ms();
        c->frame_since_len = c->frame_len;
}

static bool
conn_blocked(const struct kafka_conn *c)
{
        return c->waiting || c->request_count >= KAFKA_REQUESTS_MAX || c->kl->draining;
}

/* A large frame finds no room while small ones come and go, so after a while others wait for it. */
static bool
conn_charge_produce(struct kafka_conn *c, uint32_t bytes)
{
        struct ls_kafka_server *server = c->kl->server;
        struct kafka_conn *hungry = atomic_load(&server->hungry);

        if ((hungry == NULL || hungry == c) && ls_budget_charge(&server->produce_frames, bytes))
                return true;
        if (hungry == NULL && c->waiting &&
            ls_clock_monotonic_ms() - c->waiting_since_ms > KAFKA_HUNGRY_MS)
                atomic_compare_exchange_strong(&server->hungry, &hungry, c);
        return false;
}

/* Size and key are there: takes memory for the frame, or waits for it. */
static bool
conn_begin_frame(struct kafka_conn *c)
{
        struct ls_kafka_server *server = c->kl->server;
        uint32_t bytes = ls_get_be32(c->head);
        int16_t key = (int16_t)ls_get_be16(c->head + 4);
        struct ls_budget *budget =
                key == LS_KAFKA_API_PRODUCE ? &server->produce_frames : &server->other_frames;

        LS_ASSERT(c->frame == NULL && c->head_len == KAFKA_HEAD_BYTES);
        if (key == LS_KAFKA_API_PRODUCE ? !conn_charge_produce(c, bytes)
                                        : !ls_budget_charge(budget, bytes))
                return false;
        c->frame = ls_slice_new(bytes);
        if (c->frame == NULL) {
                ls_budget_uncharge(budget, bytes);
                return false;
        }
        c->frame_budget = budget;
        memcpy(c->frame->ptr, c->head + 4, 2);
        c->frame_len = 2;
        c->head_len = 0;
        conn_frame_flows(c);
        return true;
}

static void
conn_wait_for_budget(struct kafka_conn *c)
{
        struct kafka_loop *kl = c->kl;
        struct kafka_conn **at = &kl->waiting;

        while (*at != NULL)
                at = &(*at)->waiting_next;
        *at = c;
        c->waiting = true;
        c->waiting_since_ms = ls_clock_monotonic_ms();
        atomic_fetch_add(&kl->server->waiting_count, 1);
        if (kl->retry.due_ns == 0)
                ls_timer_set(kl->loop, &kl->retry, KAFKA_BUDGET_RETRY_MS, loop_retry);
}

static void
conn_frame_complete(struct kafka_conn *c)
{
        struct kafka_request *r =
                kafka_request_new(c, c->frame, c->frame_budget, (int64_t)c->frame->len);

        c->frame = NULL;
        c->frame_len = 0;
        if (c->last != NULL)
                c->last->next = r;
        else
                c->first = r;
        c->last = r;
        if (c->first_queued == NULL)
                c->first_queued = r;
        c->request_count++;
}

/* Takes bytes of a head; true when the frame could not begin, for now or at all. */
static bool
conn_take_head(struct kafka_conn *c, const uint8_t *bytes, size_t len, size_t *ret_taken)
{
        size_t n = LS_MIN(len, (size_t)KAFKA_HEAD_BYTES - c->head_len);

        memcpy(c->head + c->head_len, bytes, n);
        c->head_len += n;
        *ret_taken = n;
        if (c->head_len >= 4) {
                uint32_t size = ls_get_be32(c->head);

                if (size < KAFKA_FRAME_BYTES_MIN || size > c->kl->server->frame_bytes_max) {
                        ls_log_warn("kafka", "frame of an impossible size peer=%s bytes=%u",
                                    c->transport->name(c->peer), size);
                        conn_close(c, false);
                        return true;
                }
        }
        if (c->head_len < KAFKA_HEAD_BYTES || conn_begin_frame(c))
                return false;
        conn_wait_for_budget(c);
        return true;
}

/* Takes bytes until it is blocked; gives how many were taken. */
static size_t
conn_take(struct kafka_conn *c, const uint8_t *bytes, size_t len)
{
        size_t pos = 0;

        while (pos < len && !c->closing && !conn_blocked(c)) {
                size_t n = 0;

                if (c->frame == NULL) {
                        if (conn_take_head(c, bytes + pos, len - pos, &n))
                                return pos + n;
                        pos += n;
                        continue;
                }
                n = LS_MIN(len - pos, c->frame->len - c->frame_len);
                memcpy(c->frame->ptr + c->frame_len, bytes + pos, n);
                c->frame_len += n;
                pos += n;
                if (c->frame_len == c->frame->len)
                        conn_frame_complete(c);
        }
        return pos;
}

/* Stops reading and keeps what was read and not taken. */
static void
conn_block(struct kafka_conn *c, const uint8_t *rest, size_t len)
{
        LS_ASSERT(c->stash == NULL);
        if (len > 0) {
                c->stash = ls_malloc(len);
                memcpy(c->stash, rest, len);
                c->stash_len = len;
        }
        if (!c->paused) {
                c->paused = true;
                c->transport->pause(c->peer);
        }
}

/* Goes on with what was kept, and reads again when nothing stands against it. */
static void
conn_unblock(struct kafka_conn *c)
{
        if (!c->paused || c->closing || conn_blocked(c))
                return;
        if (c->stash != NULL) {
                size_t n = conn_take(c, c->stash + c->stash_pos, c->stash_len - c->stash_pos);

                if (c->closing)
                        return; /* the stash is gone */
                c->stash_pos += n;
                c->pump_again = true;
                if (c->stash_pos < c->stash_len || conn_blocked(c)) {
                        return;
                }
                conn_drop_stash(c);
        }
        c->paused = false;
        conn_frame_flows(c);
        c->transport->resume(c->peer);
}

void
kafka_conn_room(struct kafka_conn *c, uint8_t **ret_ptr, size_t *ret_len)
{
        size_t left = c->frame != NULL ? c->frame->len - c->frame_len : 0;

        /* A large rest is read in place; for a small one the scratch takes what follows as well. */
        if (left >= KAFKA_SCRATCH_BYTES / 4) {
                *ret_ptr = c->frame->ptr + c->frame_len;
                *ret_len = left;
                return;
        }
        *ret_ptr = c->kl->scratch;
        *ret_len = KAFKA_SCRATCH_BYTES;
}

void
kafka_conn_bytes(struct kafka_conn *c, const uint8_t *bytes, size_t len)
{
        size_t n = len;

        conn_check(c);
        if (c->closing || c->kl->draining)
                return;
        ls_metric_add(&metric_bytes_in, (int64_t)len);
        c->active_ms = ls_clock_monotonic_ms();
        if (c->frame != NULL && bytes == c->frame->ptr + c->frame_len) {
                LS_ASSERT(len <= c->frame->len - c->frame_len);
                c->frame_len += len;
                if (c->frame_len == c->frame->len)
                        conn_frame_complete(c);
        } else if (c->stash != NULL) {
                /* A read that was under way when we stopped reading. */
                c->stash = ls_realloc(c->stash, c->stash_len + len, 1);
                memcpy(c->stash + c->stash_len, bytes, len);
                c->stash_len += len;
                return;
        } else {
                n = conn_take(c, bytes, len);
        }
        if (!c->closing && (n < len || conn_blocked(c)))
                conn_block(c, bytes + n, len - n);
        conn_pump(c);
}

/* ---- requests and answers ---- */

static void
conn_pop(struct kafka_conn *c)
{
        struct kafka_request *r = c->first;

        LS_ASSERT(r != NULL && r->state == KAFKA_DONE);
        c->first = r->next;
        if (c->first == NULL)
                c->last = NULL;
        c->request_count--;
        kafka_request_free(r);
}

static void
conn_write(struct kafka_conn *c, struct kafka_request *r)
{
        struct ls_slice **slices = NULL;
        int64_t bytes = (int64_t)r->out.buf.len;
        size_t count = 0;

        ls_budget_force(&c->kl->server->answers, bytes);
        c->answers_charged += bytes;
        kafka_request_slices(r, &slices, &count);
        if (count > 0)
                c->transport->write(c->peer, slices, count);
        ls_free(slices);
        c->answers_charged += r->answer_charged;
        r->answer_charged = 0;
        c->active_ms = ls_clock_monotonic_ms();
}

/* Sends the answers whose turn it is. */
static void
conn_send_done(struct kafka_conn *c)
{
        while (c->first != NULL && c->first->state == KAFKA_DONE) {
                if (!c->closing && c->first->close_after)
                        conn_close(c, true);
                else if (!c->closing && !c->first->no_answer)
                        conn_write(c, c->first);
                conn_pop(c);
        }
}

/* True when peers take so few of their answers that no more are made for now. */
static bool
answers_overflow(struct ls_kafka_server *server)
{
        return ls_budget_used(&server->answers) / KAFKA_ANSWERS_HARD_FACTOR > server->answers.max;
}

static bool
conn_may_start(const struct kafka_conn *c)
{
        const struct kafka_request *r = c->first_queued;

        if (r == NULL || c->closing || c->transport->queued(c->peer) > KAFKA_WRITE_QUEUE_BYTES)
                return false;
        if (r->key != LS_KAFKA_API_PRODUCE && answers_overflow(c->kl->server))
                return false; /* the tick tries again */
        return c->running_count == 0 || (c->running_produce && r->key == LS_KAFKA_API_PRODUCE);
}

void
kafka_conn_hold(struct kafka_conn *c, const struct kafka_request *r, bool hold)
{
        /* What has begun before it goes on, what came after it waits for it. */
        LS_ASSERT(r->state == KAFKA_RUNNING && c->running_count > 0);
        c->running_produce = !hold && r->key == LS_KAFKA_API_PRODUCE;
}

/* Drops requests that have not started, since there is nobody to answer. */
static void
conn_drop_queued(struct kafka_conn *c)
{
        for (struct kafka_request *r = c->first_queued; r != NULL; r = r->next)
                r->state = KAFKA_DONE;
        c->first_queued = NULL;
}

static void
conn_start_queued(struct kafka_conn *c)
{
        if (c->closing)
                conn_drop_queued(c);
        while (conn_may_start(c)) {
                struct kafka_request *r = c->first_queued;

                c->first_queued = r->next;
                c->running_count++;
                c->running_produce = r->key == LS_KAFKA_API_PRODUCE;
                r->state = KAFKA_RUNNING;
                kafka_request_start(r);
                if (r->state == KAFKA_RUNNING && r->hurry != NULL && c->kl->draining)
                        r->hurry(r);
        }
}

/* Moves everything on that can move. Not entered twice: handlers may be done at once. */
static void
conn_pump(struct kafka_conn *c)
{
        if (c->pumping) {
                c->pump_again = true;
                return;
        }
        c->pumping = true;
        do {
                c->pump_again = false;
                conn_send_done(c);
                conn_start_queued(c);
                conn_unblock(c);
        } while (c->pump_again || (c->first != NULL && c->first->state == KAFKA_DONE));
        if (c->kl->draining && c->request_count == 0)
                conn_close(c, true);
        c->pumping = false;
        conn_check(c);
        conn_maybe_free(c);
}

void
kafka_conn_request_done(struct kafka_conn *c)
{
        LS_ASSERT(c->running_count > 0);
        c->running_count--;
        conn_pump(c);
}

void
kafka_conn_drained(struct kafka_conn *c)
{
        ls_budget_uncharge(&c->kl->server->answers, c->answers_charged);
        c->answers_charged = 0;
        c->active_ms = ls_clock_monotonic_ms();
        conn_pump(c);
}

/* ---- by the clock ---- */

/* Lets one waiting connection go on, if there is room for its frame. */
static void
loop_retry(struct ls_timer *timer)
{
        struct kafka_loop *kl = LS_CONTAINER(timer, struct kafka_loop, retry);
        struct kafka_conn *c, *next;

        for (c = kl->waiting; c != NULL; c = next) {
                next = c->waiting_next;
                if (!conn_begin_frame(c))
                        continue;
                conn_waiting_remove(c);
                conn_pump(c);
                /* The pump may have changed the list in any way: the rest has its turn soon. */
                break;
        }
        if (kl->waiting != NULL)
                ls_timer_set(kl->loop, &kl->retry, c != NULL ? 0 : KAFKA_BUDGET_RETRY_MS,
                             loop_retry);
}

/* Does the peer send a frame so slowly that others wait for the memory it holds? */
static bool
conn_sends_too_slowly(const struct kafka_conn *c, int64_t now)
{
        int64_t ms = now - c->frame_since_ms;
        uint64_t bytes = c->frame_len - c->frame_since_len;

        return c->frame != NULL && !c->paused && ms > KAFKA_STALL_MS &&
               atomic_load(&c->kl->server->waiting_count) > 0 &&
               bytes < (uint64_t)ms / 1000 * KAFKA_FRAME_RATE_MIN;
}

/* Has the peer taken nothing of its answers, while these are too many? */
static bool
conn_takes_nothing(struct kafka_conn *c, int64_t now)
{
        struct ls_budget *answers = &c->kl->server->answers;
        size_t untaken = c->transport->queued(c->peer);

        if (untaken == 0 || untaken != c->untaken) {
                c->untaken = untaken;
                c->untaken_ms = now;
        }
        if (answers_overflow(c->kl->server))
                return now - c->untaken_ms > KAFKA_STALL_SHORT_MS;
        return now - c->untaken_ms > KAFKA_STALL_MS &&
               ls_budget_used(answers) > answers->max - answers->max / 8;
}

void
kafka_loop_room(struct kafka_loop *kl)
{
        if (kl->waiting != NULL)
                ls_timer_set(kl->loop, &kl->retry, 0, loop_retry);
}

/* Closes connections that are idle for too long, and those that keep memory from others. Lets those
 * go on that found too many answers in memory. */
static void
loop_look_after(struct kafka_loop *kl)
{
        int64_t now = ls_clock_monotonic_ms();
        int64_t idle_ms = ls_option_int(kl->server->options, LS_OPT_CONNECTIONS_IDLE);
        struct kafka_conn *c, *next;

        for (c = kl->conns; c != NULL; c = next) {
                const char *why = NULL;

                next = c->next;
                if (c->closing)
                        continue;
                if (conn_sends_too_slowly(c, now))
                        why = "it sends half a frame";
                else if (conn_takes_nothing(c, now))
                        why = "it takes no answers";
                if (why != NULL)
                        ls_log_warn("kafka", "closing a connection: %s and memory is short peer=%s",
                                    why, c->transport->name(c->peer));
                if (why != NULL || (c->running_count == 0 && now - c->active_ms > idle_ms))
                        conn_close(c, false);
                else if (c->first_queued != NULL && c->running_count == 0)
                        conn_pump(c);
        }
}

void
kafka_loop_tick(struct ls_timer *timer)
{
        struct kafka_loop *kl = LS_CONTAINER(timer, struct kafka_loop, tick);

        loop_look_after(kl);
        if (kl->conns != NULL)
                ls_timer_set(kl->loop, &kl->tick, KAFKA_TICK_MS, kafka_loop_tick);
}
