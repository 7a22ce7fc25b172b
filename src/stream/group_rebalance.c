/* stream/group_rebalance.c - the state machine of Kafka's classic group protocol.
 *
 *              first join              all joined, or time is up       leader's assignment stored
 *      Empty ---------------> Preparing -------------------> Completing -------------------> Stable
 *        ^                     |  ^  ^                           |                             |
 *        +---------------------+  |  +---------------------------+                             |
 *           nobody is left        +------------------------------------------------------------+
 *                                  a member joins anew, leaves, or its session ends
 *
 * Everything runs under the coordinator's lock, and never waits: see group_int.h. A request that
 * waits is held by its member (join, sync) and is answered exactly once: a later request of the
 * same member answers the earlier one first, and whoever takes a member out answers what it holds.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/metric.h"
#include "base/uuid.h"
#include "stream/group_int.h"

static LS_METRIC(rebalances_total, COUNTER, "lakestream_group_rebalances_total",
                 "Generations of consumer groups that were completed.");

static void group_prepare(struct ls_groups *g, struct ls_group *grp);
static void group_maybe_complete(struct ls_groups *g, struct ls_group *grp);

/* --- answers ---------------------------------------------------- */

static void
join_posted(struct ls_loop_msg *msg)
{
        struct ls_group_join *join = LS_CONTAINER(msg, struct ls_group_join, msg);

        join->done(join);
}

static void
sync_posted(struct ls_loop_msg *msg)
{
        struct ls_group_sync *sync = LS_CONTAINER(msg, struct ls_group_sync, msg);

        sync->done(sync);
}

static void
join_answer(struct ls_groups *g, struct ls_group_join *join, enum ls_group_err error)
{
        join->error = error;
        join->msg.fn = join_posted;
        g->ops.post(g->ops_ctx, join->loop, &join->msg);
}

static void
join_answer_error(struct ls_groups *g, struct ls_group_join *join, enum ls_group_err error,
                  ls_str member_id)
{
        join->generation = -1;
        join->ret_member_id = ls_arena_str(&join->arena, member_id.ptr ? member_id : LS_STR(""));
        join_answer(g, join, error);
}

static void
sync_answer(struct ls_groups *g, struct ls_group_sync *sync, enum ls_group_err error)
{
        sync->error = error;
        sync->msg.fn = sync_posted;
        g->ops.post(g->ops_ctx, sync->loop, &sync->msg);
}

static ls_span
arena_span(struct ls_arena *a, ls_span s)
{
        ls_str copy = ls_arena_str(a, ls_str_make(s.ptr ? (const char *)s.ptr : "", s.len));

        return ls_span_of(copy.ptr, copy.len);
}

/* The leader's list. False: larger than an answer may be. */
static bool
join_fill_members(struct ls_group_join *join, const struct ls_group *grp)
{
        struct ls_group_joined *list =
                ls_arena_array(&join->arena, grp->member_count, sizeof *list);
        size_t i = 0;

        if (list == NULL)
                return false;
        for (const struct group_member *m = grp->first; m != NULL; m = m->next, i++) {
                list[i].member_id = ls_arena_str(&join->arena, ls_str_of(m->id));
                list[i].instance_id = ls_arena_str(&join->arena, ls_str_of(m->instance_id));
                list[i].metadata =
                        arena_span(&join->arena, group_member_metadata(m, grp->protocol_name));
                if (list[i].member_id.ptr == NULL || list[i].metadata.ptr == NULL)
                        return false;
        }
        join->members = list;
        join->member_count = i;
        return true;
}

/* Answers with the group's present generation. `leader` is the id to be told. */
static void
join_answer_ok(struct ls_groups *g, struct ls_group_join *join, const struct group_member *m,
               ls_str leader, bool with_members)
{
        const struct ls_group *grp = m->group;

        if (with_members && !join_fill_members(join, grp)) {
                join_answer_error(g, join, LS_GROUP_UNKNOWN_SERVER_ERROR, ls_str_of(m->id));
                return;
        }
        join->generation = grp->generation;
        join->ret_protocol_type = ls_arena_str(&join->arena, ls_str_of(grp->protocol_type));
        join->ret_protocol_name = ls_arena_str(&join->arena, ls_str_of(grp->protocol_name));
        join->ret_leader = ls_arena_str(&join->arena, leader);
        join->ret_member_id = ls_arena_str(&join->arena, ls_str_of(m->id));
        join_answer(g, join, LS_GROUP_OK);
}

/* Takes the join a member holds, so that it can be answered. */
static struct ls_group_join *
member_take_join(struct group_member *m)
{
        if (m->join != NULL)
                m->group->joining_count--;
        return LS_STEAL(m->join);
}

static void
member_answer(struct ls_groups *g, struct group_member *m, enum ls_group_err error)
{
        struct ls_group_join *join = member_take_join(m);
        struct ls_group_sync *sync = LS_STEAL(m->sync);

        if (join != NULL)
                join_answer_error(g, join, error, ls_str_of(m->id));
        if (sync != NULL)
                sync_answer(g, sync, error);
}

static void
member_hold_join(struct ls_groups *g, struct group_member *m, struct ls_group_join *join)
{
        struct ls_group_join *before = member_take_join(m);

        if (before != NULL) /* its connection broke, most likely */
                join_answer_error(g, before, LS_GROUP_REBALANCE_IN_PROGRESS, ls_str_of(m->id));
        m->join = join;
        m->group->joining_count++;
}

/* --- sessions ---------------------------------------------------- */

/* A timer that fires too early is set again, so that a heartbeat only writes a number. */
static void
member_set_deadline(struct ls_groups *g, struct group_member *m, int64_t deadline_ms)
{
        m->deadline_ms = deadline_ms;
        if (m->timer.place == 0 || m->timer.due_ms > deadline_ms)
                group_timer_set(g, &m->timer, deadline_ms);
}

void
group_member_touch(struct ls_groups *g, struct group_member *m)
{
        member_set_deadline(g, m, ls_clock_monotonic_ms() + m->session_ms);
}

/* What follows when a member has gone, or an id will not come. */
static void
group_shrunk(struct ls_groups *g, struct ls_group *grp)
{
        switch (grp->state) {
        case GROUP_EMPTY: group_forget_if_blank(g, grp); break;
        case GROUP_PREPARING: group_maybe_complete(g, grp); break;
        case GROUP_COMPLETING:
        case GROUP_STABLE: group_prepare(g, grp); break;
        case GROUP_DEAD: break;
        }
}

static void
member_expired(struct ls_groups *g, struct group_timer *timer)
{
        struct group_member *m = LS_CONTAINER(timer, struct group_member, timer);
        struct ls_group *grp = m->group;
        int64_t now = ls_clock_monotonic_ms();

        if (!m->is_new && (m->join != NULL || m->sync != NULL)) {
                /* It waits for us: that is no silence of its own. */
                group_member_touch(g, m);
                return;
        }
        if (m->deadline_ms > now) {
                group_timer_set(g, timer, m->deadline_ms);
                return;
        }
        member_answer(g, m, LS_GROUP_UNKNOWN_MEMBER_ID);
        group_member_remove(g, m);
        group_shrunk(g, grp);
}

static void
pending_expired(struct ls_groups *g, struct group_timer *timer)
{
        struct group_pending *p = LS_CONTAINER(timer, struct group_pending, timer);
        struct ls_group *grp = p->group;

        group_pending_remove(g, p);
        if (grp->state == GROUP_PREPARING || grp->state == GROUP_EMPTY)
                group_shrunk(g, grp);
}

/* --- the rebalance ---------------------------------------------------- */

static void group_timer_fired(struct ls_groups *g, struct group_timer *timer);

static void
group_set_timer(struct ls_groups *g, struct ls_group *grp, enum group_timer_kind kind,
                int64_t delay_ms)
{
        grp->timer_kind = kind;
        grp->timer.fire = group_timer_fired;
        group_timer_set(g, &grp->timer, ls_clock_monotonic_ms() + delay_ms);
}

static void
syncs_fail(struct ls_groups *g, struct ls_group *grp, enum ls_group_err error)
{
        for (struct group_member *m = grp->first; m != NULL; m = m->next) {
                struct ls_group_sync *sync = LS_STEAL(m->sync);

                group_member_set_assignment(m, LS_SPAN_NULL);
                if (sync != NULL)
                        sync_answer(g, sync, error);
        }
}

static void
group_set_protocol(struct ls_group *grp, ls_str name)
{
        char *copy = ls_str_dup(name);

        ls_free(grp->protocol_name);
        grp->protocol_name = copy;
}

/* The leader, or the first who came instead, leads. False: nobody has joined. */
static bool
group_elect(struct ls_group *grp)
{
        struct group_member *m;

        if (grp->leader != NULL && grp->leader->join != NULL)
                return true;
        for (m = grp->first; m != NULL; m = m->next) {
                if (m->join != NULL) {
                        grp->leader = m;
                        return true;
                }
        }
        return false;
}

/* All have joined, or the time for it is up. */
static void
group_complete(struct ls_groups *g, struct ls_group *grp)
{
        struct group_member *m, *next;

        LS_ASSERT(grp->state == GROUP_PREPARING);
        group_timer_clear(g, &grp->timer);
        grp->initial = false;
        /* Dynamic members that did not come are out; static ones stay until their session ends. */
        for (m = grp->first; m != NULL; m = next) {
                next = m->next;
                if (m->join == NULL && m->instance_id == NULL) {
                        member_answer(g, m, LS_GROUP_UNKNOWN_MEMBER_ID);
                        group_member_remove(g, m);
                }
        }
        if (grp->member_count > 0 && !group_elect(grp)) {
                /* Only static members, and none has come yet: wait for one or for their sessions.
                 * */
                group_set_timer(g, grp, GROUP_TIMER_JOIN, LS_MAX(group_rebalance_ms(grp), 1000));
                return;
        }
        grp->generation = grp->generation == INT32_MAX ? 1 : grp->generation + 1;
        if (grp->member_count == 0) {
                group_set_protocol(grp, LS_STR_NULL);
                group_enter(grp, GROUP_EMPTY);
                group_store(g, grp, GROUP_STORE_PLAIN, NULL);
                return;
        }
        ls_metric_add(&rebalances_total, 1);
        group_set_protocol(grp, group_select_protocol(grp));
        group_enter(grp, GROUP_COMPLETING);
        /* The new generation is stored before anyone is told of it, so that offsets of the old one
         * are refused by the store from here on, and those of the new one are not. */
        group_store(g, grp, GROUP_STORE_PLAIN, NULL);
        for (m = grp->first; m != NULL; m = m->next) {
                struct ls_group_join *join = member_take_join(m);

                m->is_new = false;
                m->pending_sync = true;
                group_member_touch(g, m);
                if (join != NULL)
                        join_answer_ok(g, join, m, ls_str_of(grp->leader->id), m == grp->leader);
        }
        group_set_timer(g, grp, GROUP_TIMER_SYNC, group_rebalance_ms(grp));
}

static void
group_maybe_complete(struct ls_groups *g, struct ls_group *grp)
{
        if (grp->state == GROUP_PREPARING && !grp->initial &&
            grp->joining_count == grp->member_count && grp->pending == NULL)
                group_complete(g, grp);
}

static void
group_prepare(struct ls_groups *g, struct ls_group *grp)
{
        bool initial = grp->state == GROUP_EMPTY;
        int64_t rebalance_ms = group_rebalance_ms(grp);

        if (grp->state == GROUP_COMPLETING)
                syncs_fail(g, grp, LS_GROUP_REBALANCE_IN_PROGRESS);
        for (struct group_member *m = grp->first; m != NULL; m = m->next)
                m->pending_sync = false;
        group_enter(grp, GROUP_PREPARING);
        if (initial && g->config.initial_delay_ms > 0) {
                /* More members are likely to come at once: one rebalance is better than many. */
                grp->initial = true;
                grp->new_member_added = false;
                grp->initial_left_ms = LS_MAX(rebalance_ms - g->config.initial_delay_ms, 0);
                group_set_timer(g, grp, GROUP_TIMER_INITIAL, g->config.initial_delay_ms);
                return;
        }
        group_set_timer(g, grp, GROUP_TIMER_JOIN, rebalance_ms);
        group_maybe_complete(g, grp);
}

static void
group_initial_over(struct ls_groups *g, struct ls_group *grp)
{
        int64_t delay_ms = LS_MIN(g->config.initial_delay_ms, grp->initial_left_ms);

        if (grp->new_member_added && grp->initial_left_ms > 0) {
                grp->new_member_added = false;
                grp->initial_left_ms -= delay_ms;
                group_set_timer(g, grp, GROUP_TIMER_INITIAL, delay_ms);
                return;
        }
        group_complete(g, grp);
}

/* Who joined and then never asked for its assignment holds up the others: out. */
static void
group_sync_over(struct ls_groups *g, struct ls_group *grp)
{
        struct group_member *m, *next;
        bool removed = false;

        if (grp->state != GROUP_COMPLETING && grp->state != GROUP_STABLE)
                return;
        for (m = grp->first; m != NULL; m = next) {
                next = m->next;
                if (!m->pending_sync)
                        continue;
                member_answer(g, m, LS_GROUP_UNKNOWN_MEMBER_ID);
                group_member_remove(g, m);
                removed = true;
        }
        if (removed)
                group_prepare(g, grp);
}

static void
group_timer_fired(struct ls_groups *g, struct group_timer *timer)
{
        struct ls_group *grp = LS_CONTAINER(timer, struct ls_group, timer);

        switch (grp->timer_kind) {
        case GROUP_TIMER_INITIAL: group_initial_over(g, grp); break;
        case GROUP_TIMER_JOIN: group_complete(g, grp); break;
        case GROUP_TIMER_SYNC: group_sync_over(g, grp); break;
        }
}

static void
group_rebalance(struct ls_groups *g, struct ls_group *grp)
{
        if (grp->state == GROUP_PREPARING)
                group_maybe_complete(g, grp);
        else
                group_prepare(g, grp);
}

/* --- join ---------------------------------------------------- */

static void
member_update(struct ls_groups *g, struct group_member *m, struct ls_group_join *join)
{
        group_member_set_protocols(m, join->protocols, join->protocol_count);
        m->session_ms = join->session_timeout_ms;
        m->rebalance_ms = join->rebalance_timeout_ms < 0 ? join->session_timeout_ms
                                                         : LS_MAX(join->rebalance_timeout_ms, 1);
        member_hold_join(g, m, join);
}

static void
join_rebalance(struct ls_groups *g, struct group_member *m, struct ls_group_join *join)
{
        member_update(g, m, join);
        group_rebalance(g, m->group);
}

static void
join_add(struct ls_groups *g, struct ls_group *grp, struct ls_group_join *join, ls_str member_id)
{
        struct group_member *m =
                group_member_add(grp, member_id, join->instance_id, join->client_id,
                                 join->client_host, join->protocol_type);

        m->timer.fire = member_expired;
        m->is_new = true;
        if (grp->initial)
                grp->new_member_added = true;
        member_update(g, m, join);
        /* Its session begins when the join is complete; until then it may wait, but not for ever.
         * */
        member_set_deadline(g, m, ls_clock_monotonic_ms() + GROUP_NEW_MEMBER_MS);
        group_rebalance(g, grp);
}

/* "client-uuid", or "instance-uuid". */
static ls_str
join_fresh_id(struct ls_group_join *join)
{
        ls_str prefix = join->instance_id.ptr != NULL ? join->instance_id : join->client_id;
        char text[LS_UUID_TEXT_BYTES];
        uint8_t random[16];

        ls_random(random, sizeof random);
        ls_uuid_text(ls_uuid_v4(random), text);
        return ls_arena_printf(&join->arena, "%.*s-%s", LS_STR_ARG(prefix), text);
}

/* A known instance comes back under no member id: it takes the place of the old member (KIP-345).
 * */
static void
join_static_again(struct ls_groups *g, struct group_member *m, struct ls_group_join *join)
{
        struct ls_group *grp = m->group;
        ls_str old_id = ls_arena_str(&join->arena, ls_str_of(m->id)), next;
        ls_span before = arena_span(&join->arena, group_member_metadata(m, grp->protocol_name)),
                after;
        bool led = grp->leader == m;

        member_answer(g, m, LS_GROUP_FENCED_INSTANCE_ID);
        group_member_rename(m, join_fresh_id(join));
        member_update(g, m, join);
        if (m->is_new)
                member_set_deadline(g, m, ls_clock_monotonic_ms() + GROUP_NEW_MEMBER_MS);
        else
                group_member_touch(g, m);
        if (grp->state != GROUP_STABLE) {
                group_rebalance(g, grp);
                return;
        }
        next = group_select_protocol(grp);
        after = group_member_metadata(m, grp->protocol_name);
        if (next.ptr == NULL || !ls_str_is(next, grp->protocol_name) ||
            (strcmp(grp->protocol_type, "consumer") == 0 &&
             !group_same_subscription(before, after))) {
                group_prepare(g, grp);
                return;
        }
        /* Nothing changes but the id: no rebalance. The assignment is handed back by the next sync.
         * */
        member_take_join(m);
        join->generation = grp->generation;
        join->skip_assignment = led && join->can_skip_assignment;
        if (join->skip_assignment && !join_fill_members(join, grp)) {
                join_answer_error(g, join, LS_GROUP_UNKNOWN_SERVER_ERROR, ls_str_of(m->id));
                return;
        }
        join->ret_protocol_type = ls_arena_str(&join->arena, ls_str_of(grp->protocol_type));
        join->ret_protocol_name = ls_arena_str(&join->arena, ls_str_of(grp->protocol_name));
        /* A leader that cannot be told to skip the assignment (before v9) must not think it leads.
         * */
        join->ret_leader = led && !join->can_skip_assignment
                                   ? old_id
                                   : ls_arena_str(&join->arena, ls_str_of(grp->leader->id));
        join->ret_member_id = ls_arena_str(&join->arena, ls_str_of(m->id));
        group_store(g, grp, GROUP_STORE_STATIC, join);
}

void
group_static_stored(struct ls_groups *g, struct ls_group *grp, struct ls_group_join *join,
                    ls_err result)
{
        if (result == LS_OK)
                join_answer(g, join, LS_GROUP_OK);
        else
                join_answer_error(g, join, group_err_of(result), LS_STR(""));
}

static void
join_new(struct ls_groups *g, struct ls_group *grp, struct ls_group_join *join)
{
        struct group_member *old = join->instance_id.ptr != NULL
                                           ? group_member_find_static(grp, join->instance_id)
                                           : NULL;
        ls_str member_id;

        if (!group_supports(grp, join->protocol_type, join->protocols, join->protocol_count)) {
                join_answer_error(g, join, LS_GROUP_INCONSISTENT_PROTOCOL, LS_STR(""));
                group_forget_if_blank(g, grp);
                return;
        }
        if (old != NULL) {
                join_static_again(g, old, join);
                return;
        }
        member_id = join_fresh_id(join);
        if (join->instance_id.ptr == NULL && join->require_member_id) {
                struct group_pending *p = group_pending_add(grp, member_id);

                p->timer.fire = pending_expired;
                group_timer_set(g, &p->timer, ls_clock_monotonic_ms() + join->session_timeout_ms);
                join_answer_error(g, join, LS_GROUP_MEMBER_ID_REQUIRED, member_id);
                return;
        }
        join_add(g, grp, join, member_id);
}

enum ls_group_err
group_check_member(const struct ls_group *grp, ls_str member_id, ls_str instance_id)
{
        const struct group_member *m;

        if (instance_id.ptr != NULL) {
                m = group_member_find_static(grp, instance_id);
                if (m == NULL)
                        return LS_GROUP_UNKNOWN_MEMBER_ID;
                return ls_str_is(member_id, m->id) ? LS_GROUP_OK : LS_GROUP_FENCED_INSTANCE_ID;
        }
        return group_member_find(grp, member_id) != NULL ? LS_GROUP_OK : LS_GROUP_UNKNOWN_MEMBER_ID;
}

/* A member that is in the group already. */
static void
join_known(struct ls_groups *g, struct group_member *m, struct ls_group_join *join)
{
        struct ls_group *grp = m->group;
        bool same = group_member_matches(m, join->protocols, join->protocol_count);

        switch (grp->state) {
        case GROUP_PREPARING: join_rebalance(g, m, join); return;
        case GROUP_COMPLETING:
                /* It did not get our answer, and asks again. */
                if (same) {
                        group_member_touch(g, m);
                        join_answer_ok(g, join, m, ls_str_of(grp->leader->id), m == grp->leader);
                } else {
                        join_rebalance(g, m, join);
                }
                return;
        case GROUP_STABLE:
                /* The leader asks when it has seen a change of topics; a follower when it lost our
                 * answer. */
                if (m == grp->leader || !same) {
                        join_rebalance(g, m, join);
                } else {
                        group_member_touch(g, m);
                        join_answer_ok(g, join, m, ls_str_of(grp->leader->id), false);
                }
                return;
        case GROUP_EMPTY:
        case GROUP_DEAD: break;
        }
        join_answer_error(g, join, LS_GROUP_UNKNOWN_MEMBER_ID, join->member_id);
}

static void
join_existing(struct ls_groups *g, struct ls_group *grp, struct ls_group_join *join)
{
        struct group_pending *pending = group_pending_find(grp, join->member_id);
        enum ls_group_err error;

        if (!group_supports(grp, join->protocol_type, join->protocols, join->protocol_count)) {
                join_answer_error(g, join, LS_GROUP_INCONSISTENT_PROTOCOL, join->member_id);
                return;
        }
        if (pending != NULL) {
                if (join->instance_id.ptr != NULL) { /* ids of static members are never pending */
                        join_answer_error(g, join, LS_GROUP_UNKNOWN_MEMBER_ID, join->member_id);
                        return;
                }
                group_pending_remove(g, pending);
                join_add(g, grp, join, join->member_id);
                return;
        }
        error = group_check_member(grp, join->member_id, join->instance_id);
        if (error != LS_GROUP_OK) {
                join_answer_error(g, join, error, join->member_id);
                return;
        }
        join_known(g, group_member_find(grp, join->member_id), join);
}

/* group.max.size */
static bool
group_has_room(const struct ls_groups *g, const struct ls_group *grp,
               const struct ls_group_join *join)
{
        const struct group_member *m =
                join->member_id.len > 0         ? group_member_find(grp, join->member_id)
                : join->instance_id.ptr != NULL ? group_member_find_static(grp, join->instance_id)
                                                : NULL;

        switch (grp->state) {
        case GROUP_PREPARING:
                return (m != NULL && m->join != NULL) ||
                       (int64_t)grp->joining_count < g->config.size_max;
        case GROUP_COMPLETING:
        case GROUP_STABLE: return m != NULL || (int64_t)grp->member_count < g->config.size_max;
        case GROUP_EMPTY:
        case GROUP_DEAD: break;
        }
        return true;
}

static bool
text_has_nul(ls_str s)
{
        return s.len > 0 && memchr(s.ptr, '\0', s.len) != NULL;
}

/* Things no client sends, and which we could not keep. */
static bool
join_is_sane(const struct ls_group_join *join)
{
        size_t bytes = 0;

        if (join->protocol_count > GROUP_PROTOCOLS_MAX || text_has_nul(join->instance_id) ||
            text_has_nul(join->client_id) || text_has_nul(join->client_host) ||
            text_has_nul(join->protocol_type))
                return false;
        for (size_t i = 0; i < join->protocol_count; i++) {
                if (text_has_nul(join->protocols[i].name))
                        return false;
                bytes += join->protocols[i].name.len + join->protocols[i].metadata.len;
        }
        return bytes <= GROUP_MEMBER_BYTES_MAX;
}

void
group_join(struct ls_groups *g, struct ls_group_join *join)
{
        struct ls_group *grp;
        enum ls_group_err error = LS_GROUP_OK;

        if (g->stop)
                error = LS_GROUP_NOT_COORDINATOR;
        else if (join->group_id.len == 0 || text_has_nul(join->group_id))
                error = LS_GROUP_INVALID_GROUP_ID;
        else if (!join_is_sane(join))
                error = LS_GROUP_INVALID_REQUEST;
        else if (join->session_timeout_ms < g->config.session_ms_min ||
                 join->session_timeout_ms > g->config.session_ms_max)
                error = LS_GROUP_INVALID_SESSION_TIMEOUT;
        if (error != LS_GROUP_OK) {
                join_answer_error(g, join, error, join->member_id);
                return;
        }
        error = group_gate(g, join->group_id, &grp);
        if (error != LS_GROUP_OK) {
                grp = NULL;
        } else if (grp == NULL && join->member_id.len == 0) {
                grp = group_make(g, join->group_id);
                error = LS_GROUP_NOT_AVAILABLE;
        } else if (grp == NULL) {
                error = LS_GROUP_UNKNOWN_MEMBER_ID;
        } else if (grp->locked) {
                error = LS_GROUP_LOAD_IN_PROGRESS;
                grp = NULL;
        } else if (!group_has_room(g, grp, join)) {
                error = LS_GROUP_MAX_SIZE_REACHED;
                grp = NULL;
        }
        if (grp == NULL)
                join_answer_error(g, join, error, join->member_id);
        else if (join->member_id.len == 0)
                join_new(g, grp, join);
        else
                join_existing(g, grp, join);
}

/* --- sync ---------------------------------------------------- */

static void
sync_answer_ok(struct ls_groups *g, struct ls_group_sync *sync, struct group_member *m)
{
        m->pending_sync = false;
        group_member_touch(g, m);
        sync->ret_protocol_type = ls_arena_str(&sync->arena, ls_str_of(m->group->protocol_type));
        sync->ret_protocol_name = ls_arena_str(&sync->arena, ls_str_of(m->group->protocol_name));
        sync->assignment = arena_span(&sync->arena, m->assignment);
        sync_answer(g, sync, LS_GROUP_OK);
}

static enum ls_group_err
sync_check(const struct ls_group *grp, const struct ls_group_sync *sync)
{
        enum ls_group_err error = group_check_member(grp, sync->member_id, sync->instance_id);

        if (error != LS_GROUP_OK)
                return error;
        if (sync->generation != grp->generation)
                return LS_GROUP_ILLEGAL_GENERATION;
        if (sync->protocol_type.ptr != NULL &&
            !ls_str_eq(sync->protocol_type, ls_str_of(grp->protocol_type)))
                return LS_GROUP_INCONSISTENT_PROTOCOL;
        if (sync->protocol_name.ptr != NULL &&
            !ls_str_eq(sync->protocol_name, ls_str_of(grp->protocol_name)))
                return LS_GROUP_INCONSISTENT_PROTOCOL;
        return LS_GROUP_OK;
}

static bool
sync_is_sane(const struct ls_group_sync *sync)
{
        for (size_t i = 0; i < sync->assignment_count; i++)
                if (sync->assignments[i].assignment.len > GROUP_MEMBER_BYTES_MAX)
                        return false;
        return true;
}

/* The leader's word: whoever it left out gets nothing. Ids it made up are passed over. */
static void
sync_lead(struct ls_groups *g, struct ls_group *grp, const struct ls_group_sync *sync)
{
        for (struct group_member *m = grp->first; m != NULL; m = m->next)
                group_member_set_assignment(m, ls_span_of("", 0));
        for (size_t i = 0; i < sync->assignment_count; i++) {
                struct group_member *m = group_member_find(grp, sync->assignments[i].member_id);

                if (m != NULL)
                        group_member_set_assignment(m, sync->assignments[i].assignment);
        }
        group_store(g, grp, GROUP_STORE_ASSIGNMENT, NULL);
}

void
group_assignment_stored(struct ls_groups *g, struct ls_group *grp, int32_t generation,
                        ls_err result)
{
        if (grp->state != GROUP_COMPLETING || grp->generation != generation)
                return; /* another rebalance has begun: all were told */
        if (result != LS_OK) {
                syncs_fail(g, grp, group_err_of(result));
                group_prepare(g, grp);
                return;
        }
        group_enter(grp, GROUP_STABLE);
        for (struct group_member *m = grp->first; m != NULL; m = m->next) {
                struct ls_group_sync *sync = LS_STEAL(m->sync);

                if (sync != NULL)
                        sync_answer_ok(g, sync, m);
        }
}

void
group_sync(struct ls_groups *g, struct ls_group_sync *sync)
{
        enum ls_group_err error = LS_GROUP_OK;
        struct ls_group *grp = NULL;
        struct group_member *m;
        struct ls_group_sync *before;

        if (g->stop)
                error = LS_GROUP_NOT_COORDINATOR;
        else if (sync->group_id.len == 0)
                error = LS_GROUP_INVALID_GROUP_ID;
        else
                error = group_gate(g, sync->group_id, &grp);
        if (error == LS_GROUP_OK && grp == NULL)
                error = LS_GROUP_UNKNOWN_MEMBER_ID;
        if (error == LS_GROUP_OK && !sync_is_sane(sync))
                error = LS_GROUP_INVALID_REQUEST;
        if (error == LS_GROUP_OK)
                error = sync_check(grp, sync);
        if (error == LS_GROUP_OK && grp->state == GROUP_PREPARING)
                error = LS_GROUP_REBALANCE_IN_PROGRESS;
        if (error == LS_GROUP_OK && (grp->state == GROUP_EMPTY || grp->state == GROUP_DEAD))
                error = LS_GROUP_UNKNOWN_MEMBER_ID;
        if (error != LS_GROUP_OK) {
                sync_answer(g, sync, error);
                return;
        }
        m = group_member_find(grp, sync->member_id);
        if (grp->state == GROUP_STABLE) {
                sync_answer_ok(g, sync, m);
                return;
        }
        LS_ASSERT(grp->state == GROUP_COMPLETING);
        before = m->sync;
        m->sync = sync;
        m->pending_sync = false;
        if (before != NULL)
                sync_answer(g, before, LS_GROUP_REBALANCE_IN_PROGRESS);
        if (m == grp->leader)
                sync_lead(g, grp, sync);
}

/* --- heartbeat, leave ---------------------------------------------------- */

enum ls_group_err
group_heartbeat(struct ls_groups *g, ls_str group_id, ls_str member_id, ls_str instance_id,
                int32_t generation)
{
        enum ls_group_err error;
        struct ls_group *grp;

        if (g->stop)
                return LS_GROUP_NOT_COORDINATOR;
        if (group_id.len == 0)
                return LS_GROUP_INVALID_GROUP_ID;
        error = group_gate(g, group_id, &grp);
        if (error != LS_GROUP_OK)
                return error;
        if (grp == NULL)
                return LS_GROUP_UNKNOWN_MEMBER_ID;
        error = group_check_member(grp, member_id, instance_id);
        if (error != LS_GROUP_OK)
                return error;
        if (generation != grp->generation)
                return LS_GROUP_ILLEGAL_GENERATION;
        group_member_touch(g, group_member_find(grp, member_id));
        return grp->state == GROUP_PREPARING ? LS_GROUP_REBALANCE_IN_PROGRESS : LS_GROUP_OK;
}

static enum ls_group_err
leave_one(struct ls_groups *g, struct ls_group *grp, const struct ls_group_leaver *leaver)
{
        struct group_pending *pending;
        struct group_member *m;

        if (leaver->member_id.len == 0) { /* an operator names an instance */
                m = leaver->instance_id.ptr ? group_member_find_static(grp, leaver->instance_id)
                                            : NULL;
                if (m == NULL)
                        return LS_GROUP_UNKNOWN_MEMBER_ID;
        } else {
                pending = group_pending_find(grp, leaver->member_id);
                if (pending != NULL) {
                        if (leaver->instance_id.ptr != NULL)
                                return LS_GROUP_UNKNOWN_MEMBER_ID;
                        group_pending_remove(g, pending);
                        return LS_GROUP_OK;
                }
                enum ls_group_err error =
                        group_check_member(grp, leaver->member_id, leaver->instance_id);

                if (error != LS_GROUP_OK)
                        return error;
                m = group_member_find(grp, leaver->member_id);
        }
        member_answer(g, m, LS_GROUP_UNKNOWN_MEMBER_ID);
        group_member_remove(g, m);
        return LS_GROUP_OK;
}

enum ls_group_err
group_leave(struct ls_groups *g, ls_str group_id, struct ls_group_leaver *leavers, size_t count)
{
        struct ls_group *grp = NULL;
        enum ls_group_err error = g->stop             ? LS_GROUP_NOT_COORDINATOR
                                  : group_id.len == 0 ? LS_GROUP_INVALID_GROUP_ID
                                                      : group_gate(g, group_id, &grp);
        size_t members, left = 0;

        for (size_t i = 0; i < count; i++)
                leavers[i].error = error != LS_GROUP_OK ? error : LS_GROUP_UNKNOWN_MEMBER_ID;
        if (error != LS_GROUP_OK || grp == NULL)
                return error;
        members = grp->member_count;
        for (size_t i = 0; i < count; i++) {
                leavers[i].error = leave_one(g, grp, &leavers[i]);
                left += leavers[i].error == LS_GROUP_OK;
        }
        if (grp->member_count < members) /* one rebalance for all of them */
                group_shrunk(g, grp);
        else if (left > 0 && (grp->state == GROUP_PREPARING || grp->state == GROUP_EMPTY))
                group_shrunk(g, grp); /* only ids that were pending */
        return LS_GROUP_OK;
}

/* --- taken up again, end ---------------------------------------------------- */

void
group_loaded(struct ls_groups *g, struct ls_group *grp)
{
        for (struct group_member *m = grp->first; m != NULL; m = m->next) {
                m->timer.fire = member_expired;
                group_member_touch(g, m);
        }
        if (grp->state == GROUP_COMPLETING) /* who leads may not know it: all join again */
                group_prepare(g, grp);
}

void
group_abandon(struct ls_groups *g, struct ls_group *grp, enum ls_group_err error)
{
        for (struct group_member *m = grp->first; m != NULL; m = m->next)
                member_answer(g, m, error);
}
