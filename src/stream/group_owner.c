/* stream/group_owner.c - many brokers: which groups are served here, and how they come and go.
 *
 *     asked for, ours            read, or not stored
 *     ---------------> LOADING ---------------------> HERE <--> NOWHERE
 *                         |                             |          |
 *                         +-----------------------------+----------+---> out of memory
 *                          another's by the list of brokers, or written by another
 *
 * The list of brokers says who coordinates a group; it reaches brokers at different times, so for a
 * moment two may take themselves for the coordinator, or none. What protects is the row: each write
 * expects the version that the last one left, and offsets expect the generation or the version. Who
 * finds another's hand there forgets the group and reads it anew when it is asked for.
 *
 * Reading takes place without the lock, by the coordinator's thread or by a job that waits for it;
 * the group is locked meanwhile. Embedded, all groups are here from the opening on, and nothing of
 * this is used.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "stream/group_int.h"

/* --- going ---------------------------------------------------- */

void
group_unqueue(struct ls_groups *g, struct ls_group *grp)
{
        if (!grp->queued)
                return;
        if (grp->load_prev != NULL)
                grp->load_prev->load_next = grp->load_next;
        else
                g->load_first = grp->load_next;
        if (grp->load_next != NULL)
                grp->load_next->load_prev = grp->load_prev;
        else
                g->load_last = grp->load_prev;
        grp->load_prev = grp->load_next = NULL;
        grp->queued = false;
}

static void
group_queue(struct ls_groups *g, struct ls_group *grp)
{
        LS_ASSERT(!grp->queued && grp->presence == GROUP_LOADING);
        grp->load_prev = g->load_last;
        if (g->load_last != NULL)
                g->load_last->load_next = grp;
        else
                g->load_first = grp;
        g->load_last = grp;
        grp->queued = true;
        groups_wake(g);
}

void
group_lose(struct ls_groups *g, struct ls_group *grp)
{
        LS_ASSERT(g->config.shared);
        if (grp->state == GROUP_DEAD)
                return;
        if (grp->presence == GROUP_HERE)
                ls_log_info("stream", "event=group_left group=%s generation=%d", grp->id,
                            grp->generation);
        group_abandon(g, grp, LS_GROUP_NOT_COORDINATOR);
        group_drop(g, grp);
}

static void
nowhere_over(struct ls_groups *g, struct group_timer *timer)
{
        struct ls_group *grp = LS_CONTAINER(timer, struct ls_group, timer);

        LS_ASSERT(grp->presence == GROUP_NOWHERE);
        group_drop(g, grp);
}

void
group_become_nowhere(struct ls_groups *g, struct ls_group *grp)
{
        LS_ASSERT(grp->state == GROUP_EMPTY && grp->version == 0 && grp->pending == NULL);
        grp->presence = GROUP_NOWHERE;
        grp->timer.fire = nowhere_over;
        group_timer_set(g, &grp->timer, ls_clock_monotonic_ms() + GROUP_NOWHERE_MS);
}

uint64_t
group_version_expected(const struct ls_groups *g, const struct ls_group *grp)
{
        return g->config.shared ? grp->version : 0;
}

/* --- coming ---------------------------------------------------- */

struct load {
        struct ls_groups *g;
        struct ls_group *grp;
};

static ls_err
load_row(void *ctx, const struct ls_meta_group *row)
{
        struct load *load = ctx;
        ls_err e = LS_OK;

        pthread_mutex_lock(&load->g->lock);
        if (load->grp->state != GROUP_DEAD)
                e = group_fill(load->g, load->grp, row);
        pthread_mutex_unlock(&load->g->lock);
        return e;
}

/* Under the lock, which it gives up while it reads. */
static void
load_now(struct ls_groups *g, struct ls_group *grp)
{
        struct load load = { g, grp };
        ls_err e;

        group_unqueue(g, grp);
        LS_ASSERT(grp->presence == GROUP_LOADING && !grp->locked);
        grp->locked = true;
        pthread_mutex_unlock(&g->lock);
        e = g->ops.group_get(g->ops_ctx, grp->id, load_row, &load);
        pthread_mutex_lock(&g->lock);
        if (e != LS_OK && e != LS_ABSENT) /* whoever asks again has it tried again */
                ls_log_warn("stream", "cannot read a group group=%s error=%s", grp->id,
                            ls_err_name(e));
        ls_cond_broadcast(&g->wake); /* who waits in group_gate_wait */
        if (!group_unlock(grp))
                return;
        if (e == LS_OK) {
                grp->presence = GROUP_HERE;
                ls_log_info("stream", "event=group_taken group=%s generation=%d members=%zu",
                            grp->id, grp->generation, grp->member_count);
                group_loaded(g, grp);
        } else if (e == LS_ABSENT) {
                group_become_nowhere(g, grp);
        } else {
                group_drop(g, grp);
        }
}

/* A group of which nothing is known yet; NULL: there are too many. */
static struct ls_group *
load_begin(struct ls_groups *g, ls_str group_id)
{
        struct ls_group *grp = group_make(g, group_id);

        if (grp != NULL) {
                grp->presence = GROUP_LOADING;
                group_queue(g, grp);
        }
        return grp;
}

enum ls_group_err
group_gate(struct ls_groups *g, ls_str group_id, struct ls_group **ret)
{
        struct ls_group *grp = group_find(g, group_id);

        *ret = NULL;
        if (!g->config.shared) {
                *ret = grp;
                return LS_GROUP_OK;
        }
        if (g->stop)
                return LS_GROUP_NOT_COORDINATOR;
        if (group_id.len > 0 && memchr(group_id.ptr, '\0', group_id.len) != NULL)
                return LS_GROUP_INVALID_GROUP_ID; /* no row has such a name */
        if (!g->ops.owns(g->ops_ctx, group_id)) {
                if (grp != NULL)
                        group_lose(g, grp);
                return LS_GROUP_NOT_COORDINATOR;
        }
        if (grp == NULL)
                grp = load_begin(g, group_id);
        if (grp == NULL)
                return LS_GROUP_NOT_AVAILABLE;
        switch (grp->presence) {
        case GROUP_HERE: *ret = grp; break;
        case GROUP_LOADING: return LS_GROUP_LOAD_IN_PROGRESS;
        case GROUP_NOWHERE: break;
        }
        return LS_GROUP_OK;
}

enum ls_group_err
group_gate_wait(struct ls_groups *g, ls_str group_id, struct ls_group **ret)
{
        enum ls_group_err error;
        struct ls_group *grp;

        while ((error = group_gate(g, group_id, ret)) == LS_GROUP_LOAD_IN_PROGRESS) {
                grp = group_find(g, group_id);
                if (!grp->queued) { /* another reads it */
                        ls_cond_wait(&g->wake, &g->lock);
                        continue;
                }
                load_now(g, grp);
                if (group_find(g, group_id) == NULL)
                        break; /* it could not be read */
        }
        return error;
}

enum ls_group_err
ls_group_load(struct ls_groups *g, ls_str group_id)
{
        enum ls_group_err error;
        struct ls_group *grp;

        pthread_mutex_lock(&g->lock);
        error = group_gate_wait(g, group_id, &grp);
        pthread_mutex_unlock(&g->lock);
        return error;
}

/* --- all of them ---------------------------------------------------- */

static ls_err
load_listed(void *ctx, const struct ls_meta_group *row)
{
        struct ls_groups *g = ctx;
        ls_str id = ls_str_of(row->group_id);
        struct ls_group *grp;
        ls_err e = LS_OK;

        pthread_mutex_lock(&g->lock);
        grp = group_find(g, id);
        /* What is in memory, or is being read, is as new as this row. */
        if (g->stop || row->version == 0 || (grp != NULL && grp->presence != GROUP_NOWHERE) ||
            !g->ops.owns(g->ops_ctx, id))
                goto out;
        grp = group_make(g, id);
        e = grp != NULL ? group_fill(g, grp, row) : LS_ELIMIT;
        if (e == LS_OK) {
                group_loaded(g, grp);
        } else if (grp != NULL) {
                ls_log_warn("stream", "cannot read a group group=%s error=%s", row->group_id,
                            ls_err_name(e));
                group_drop(g, grp);
                e = LS_OK; /* the others are none the worse */
        }
out:
        pthread_mutex_unlock(&g->lock);
        return e;
}

enum ls_group_err
ls_groups_load(struct ls_groups *g)
{
        return g->config.shared ? group_err_of(g->ops.group_list(g->ops_ctx, load_listed, g))
                                : LS_GROUP_OK;
}

/* The list of brokers has changed: gives up what is another's. */
static void
groups_give_up(struct ls_groups *g)
{
        struct ls_group **all = ls_calloc(g->groups.count + 1, sizeof(struct ls_group *));
        struct ls_map_entry *e;
        size_t pos = 0, count = 0;

        while ((e = ls_map_next(&g->groups, &pos)) != NULL)
                all[count++] = e->value;
        for (size_t i = 0; i < count; i++)
                if (!g->ops.owns(g->ops_ctx, ls_str_of(all[i]->id)))
                        group_lose(g, all[i]);
        ls_free(all);
}

void
groups_own(struct ls_groups *g)
{
        bool changed = g->ops.owners_changed(g->ops_ctx);

        pthread_mutex_lock(&g->lock);
        if (changed)
                groups_give_up(g);
        while (g->load_first != NULL && !g->stop)
                load_now(g, g->load_first);
        pthread_mutex_unlock(&g->lock);
}
