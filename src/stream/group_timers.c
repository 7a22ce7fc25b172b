/* stream/group_timers.c - a binary heap of deadlines, with each timer knowing its place. */
#include "base/assert.h"
#include "base/clock.h"
#include "stream/group_int.h"

static void
heap_put(struct ls_groups *g, size_t place, struct group_timer *t)
{
        g->heap[place - 1] = t;
        t->place = place;
}

static void
heap_up(struct ls_groups *g, struct group_timer *t)
{
        size_t place = t->place;

        while (place > 1 && g->heap[place / 2 - 1]->due_ms > t->due_ms) {
                heap_put(g, place, g->heap[place / 2 - 1]);
                place /= 2;
        }
        heap_put(g, place, t);
}

static void
heap_down(struct ls_groups *g, struct group_timer *t)
{
        size_t place = t->place;

        for (;;) {
                size_t child = place * 2;

                if (child > g->heap_count)
                        break;
                if (child < g->heap_count && g->heap[child]->due_ms < g->heap[child - 1]->due_ms)
                        child++;
                if (g->heap[child - 1]->due_ms >= t->due_ms)
                        break;
                heap_put(g, place, g->heap[child - 1]);
                place = child;
        }
        heap_put(g, place, t);
}

void
group_timer_set(struct ls_groups *g, struct group_timer *t, int64_t due_ms)
{
        int64_t next = group_timers_next(g);

        LS_ASSERT(t->fire != NULL);
        if (t->place == 0) {
                LS_PUSH(g->heap, g->heap_count, g->heap_cap, t);
                t->place = g->heap_count;
        }
        t->due_ms = due_ms;
        heap_up(g, t);
        heap_down(g, t);
        if (due_ms < next)
                groups_wake(g);
}

void
group_timer_clear(struct ls_groups *g, struct group_timer *t)
{
        struct group_timer *last;

        if (t->place == 0)
                return;
        LS_ASSERT(g->heap[t->place - 1] == t);
        last = g->heap[--g->heap_count];
        if (last != t) {
                heap_put(g, t->place, last);
                heap_up(g, last);
                heap_down(g, last);
        }
        t->place = 0;
}

void
group_timers_run(struct ls_groups *g, int64_t now_ms)
{
        while (g->heap_count > 0 && g->heap[0]->due_ms <= now_ms) {
                struct group_timer *t = g->heap[0];

                group_timer_clear(g, t);
                t->fire(g, t);
        }
}

int64_t
group_timers_next(const struct ls_groups *g)
{
        return g->heap_count > 0 ? g->heap[0]->due_ms : INT64_MAX;
}
