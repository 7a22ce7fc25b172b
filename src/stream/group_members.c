/* stream/group_members.c - a group's members, protocols and pending ids: plain data, no decisions.
 * */
#include "base/assert.h"
#include "base/clock.h"
#include "base/rd.h"
#include "stream/group_int.h"

const char *
group_state_name(enum ls_group_state state)
{
        static const char *const names[GROUP_STATE_COUNT] = {
                "Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead",
        };

        LS_ASSERT((unsigned)state < GROUP_STATE_COUNT);
        return names[state];
}

/* --- groups ---------------------------------------------------- */

struct ls_group *
group_find(const struct ls_groups *g, ls_str group_id)
{
        return ls_map_get(&g->groups, group_key(group_id));
}

struct ls_group *
group_make(struct ls_groups *g, ls_str group_id)
{
        struct ls_group *grp = group_find(g, group_id);

        if (grp != NULL) {
                LS_ASSERT(grp->presence == GROUP_NOWHERE && grp->state == GROUP_EMPTY);
                group_timer_clear(g, &grp->timer);
                grp->presence = GROUP_HERE;
                grp->state_ms = ls_clock_wall_ms();
                return grp;
        }
        if (g->groups.count >= GROUP_COUNT_MAX)
                return NULL;
        grp = ls_calloc(1, sizeof *grp);
        grp->id = ls_str_dup(ls_str_make(group_id.ptr ? group_id.ptr : "", group_id.len));
        grp->state_ms = ls_clock_wall_ms();
        ls_map_init(&grp->by_id);
        ls_map_init(&grp->by_instance);
        ls_map_set(&g->groups, group_key(group_id), grp);
        return grp;
}

void
group_release(struct ls_group *grp)
{
        LS_ASSERT(grp->state == GROUP_DEAD && grp->writes == 0 && !grp->locked && !grp->queued);
        LS_ASSERT(grp->member_count == 0 && grp->pending == NULL);
        LS_ASSERT(grp->timer.place == 0);
        ls_map_done(&grp->by_id);
        ls_map_done(&grp->by_instance);
        ls_free(grp->protocol_type);
        ls_free(grp->protocol_name);
        ls_free(grp->id);
        ls_free(grp);
}

void
group_drop(struct ls_groups *g, struct ls_group *grp)
{
        LS_ASSERT(grp->state != GROUP_DEAD);
        ls_map_remove(&g->groups, group_key(ls_str_of(grp->id)));
        group_timer_clear(g, &grp->timer);
        group_unqueue(g, grp);
        while (grp->first != NULL)
                group_member_remove(g, grp->first);
        while (grp->pending != NULL)
                group_pending_remove(g, grp->pending);
        grp->state = GROUP_DEAD;
        if (grp->writes == 0 && !grp->locked)
                group_release(grp);
}

bool
group_unlock(struct ls_group *grp)
{
        LS_ASSERT(grp->locked);
        grp->locked = false;
        if (grp->state != GROUP_DEAD)
                return true;
        if (grp->writes == 0)
                group_release(grp);
        return false;
}

void
group_enter(struct ls_group *grp, enum ls_group_state state)
{
        /* from -> allowed to */
        static const unsigned allowed[GROUP_STATE_COUNT] = {
                [GROUP_EMPTY] = 1u << GROUP_PREPARING,
                [GROUP_PREPARING] = 1u << GROUP_COMPLETING | 1u << GROUP_EMPTY,
                [GROUP_COMPLETING] = 1u << GROUP_STABLE | 1u << GROUP_PREPARING,
                [GROUP_STABLE] = 1u << GROUP_PREPARING,
        };

        LS_ASSERT(allowed[grp->state] & 1u << state);
        grp->state = state;
        grp->state_ms = ls_clock_wall_ms();
}

/* --- members ---------------------------------------------------- */

struct group_member *
group_member_find(const struct ls_group *grp, ls_str member_id)
{
        return ls_map_get(&grp->by_id, group_key(member_id));
}

struct group_member *
group_member_find_static(const struct ls_group *grp, ls_str instance_id)
{
        return ls_map_get(&grp->by_instance, group_key(instance_id));
}

struct group_member *
group_member_add(struct ls_group *grp, ls_str member_id, ls_str instance_id, ls_str client_id,
                 ls_str client_host, ls_str protocol_type)
{
        struct group_member *m = ls_calloc(1, sizeof *m);

        LS_ASSERT(group_member_find(grp, member_id) == NULL);
        LS_ASSERT(instance_id.ptr == NULL || group_member_find_static(grp, instance_id) == NULL);
        m->group = grp;
        m->id = ls_str_dup(member_id);
        m->instance_id = ls_str_dup(instance_id);
        m->client_id = ls_str_dup(client_id.ptr ? client_id : LS_STR(""));
        m->client_host = ls_str_dup(client_host.ptr ? client_host : LS_STR(""));
        m->prev = grp->last;
        if (grp->last != NULL)
                grp->last->next = m;
        else
                grp->first = m;
        grp->last = m;
        if (grp->member_count++ == 0) {
                ls_free(grp->protocol_type);
                grp->protocol_type = ls_str_dup(protocol_type);
        }
        if (grp->leader == NULL)
                grp->leader = m;
        ls_map_set(&grp->by_id, group_key(member_id), m);
        if (instance_id.ptr != NULL)
                ls_map_set(&grp->by_instance, group_key(instance_id), m);
        return m;
}

void
group_member_remove(struct ls_groups *g, struct group_member *m)
{
        struct ls_group *grp = m->group;

        LS_ASSERT(m->join == NULL && m->sync == NULL);
        ls_map_remove(&grp->by_id, group_key(ls_str_of(m->id)));
        if (m->instance_id != NULL)
                ls_map_remove(&grp->by_instance, group_key(ls_str_of(m->instance_id)));
        if (m->prev != NULL)
                m->prev->next = m->next;
        else
                grp->first = m->next;
        if (m->next != NULL)
                m->next->prev = m->prev;
        else
                grp->last = m->prev;
        grp->member_count--;
        if (grp->leader == m)
                grp->leader = grp->first;
        group_timer_clear(g, &m->timer);
        ls_free((void *)(uintptr_t)m->assignment.ptr);
        ls_free(m->protocols);
        ls_free(m->bytes);
        ls_free(m->id);
        ls_free(m->instance_id);
        ls_free(m->client_id);
        ls_free(m->client_host);
        ls_free(m);
}

void
group_member_rename(struct group_member *m, ls_str member_id)
{
        ls_map_remove(&m->group->by_id, group_key(ls_str_of(m->id)));
        ls_free(m->id);
        m->id = ls_str_dup(member_id);
        ls_map_set(&m->group->by_id, group_key(member_id), m);
}

void
group_member_set_protocols(struct group_member *m, const struct ls_group_protocol *protocols,
                           size_t count)
{
        size_t bytes = 0, at = 0;
        struct ls_group_protocol *fresh = ls_calloc(count > 0 ? count : 1, sizeof *fresh);
        uint8_t *copy;

        for (size_t i = 0; i < count; i++)
                bytes += protocols[i].name.len + protocols[i].metadata.len;
        copy = ls_malloc(bytes > 0 ? bytes : 1);
        for (size_t i = 0; i < count; i++) {
                ls_str name = protocols[i].name;
                ls_span metadata = protocols[i].metadata;

                fresh[i].name = ls_str_make((char *)copy + at, name.len);
                if (name.len > 0)
                        memcpy(copy + at, name.ptr, name.len);
                at += name.len;
                fresh[i].metadata = ls_span_of(copy + at, metadata.len);
                if (metadata.len > 0)
                        memcpy(copy + at, metadata.ptr, metadata.len);
                at += metadata.len;
        }
        ls_free(m->protocols);
        ls_free(m->bytes);
        m->protocols = fresh;
        m->protocol_count = count;
        m->bytes = copy;
}

void
group_member_set_assignment(struct group_member *m, ls_span assignment)
{
        uint8_t *copy = NULL;

        if (assignment.ptr != NULL) {
                copy = ls_malloc(assignment.len > 0 ? assignment.len : 1);
                if (assignment.len > 0)
                        memcpy(copy, assignment.ptr, assignment.len);
        }
        ls_free((void *)(uintptr_t)m->assignment.ptr);
        m->assignment = ls_span_of(copy, copy ? assignment.len : 0);
}

bool
group_member_matches(const struct group_member *m, const struct ls_group_protocol *protocols,
                     size_t count)
{
        if (m->protocol_count != count)
                return false;
        for (size_t i = 0; i < count; i++) {
                ls_span a = m->protocols[i].metadata, b = protocols[i].metadata;

                if (!ls_str_eq(m->protocols[i].name, protocols[i].name) || a.len != b.len ||
                    (a.len > 0 && memcmp(a.ptr, b.ptr, a.len) != 0))
                        return false;
        }
        return true;
}

static const struct ls_group_protocol *
member_protocol(const struct group_member *m, ls_str name)
{
        for (size_t i = 0; i < m->protocol_count; i++)
                if (ls_str_eq(m->protocols[i].name, name))
                        return &m->protocols[i];
        return NULL;
}

ls_span
group_member_metadata(const struct group_member *m, const char *protocol_name)
{
        const struct ls_group_protocol *p =
                protocol_name ? member_protocol(m, ls_str_of(protocol_name)) : NULL;

        return p ? p->metadata : ls_span_of("", 0);
}

/* --- protocols ---------------------------------------------------- */

static bool
all_support(const struct ls_group *grp, ls_str name)
{
        for (const struct group_member *m = grp->first; m != NULL; m = m->next)
                if (member_protocol(m, name) == NULL)
                        return false;
        return true;
}

bool
group_supports(const struct ls_group *grp, ls_str protocol_type,
               const struct ls_group_protocol *protocols, size_t count)
{
        if (group_is_null_or_empty(protocol_type) || count == 0)
                return false;
        if (grp->member_count == 0)
                return true;
        if (!ls_str_is(protocol_type, grp->protocol_type))
                return false;
        for (size_t i = 0; i < count; i++)
                if (all_support(grp, protocols[i].name))
                        return true;
        return false;
}

ls_str
group_select_protocol(const struct ls_group *grp)
{
        const struct group_member *leader = grp->leader;
        size_t votes[GROUP_PROTOCOLS_MAX] = { 0 }, best = 0;
        bool candidate[GROUP_PROTOCOLS_MAX] = { false }, any = false;

        if (leader == NULL)
                return LS_STR_NULL;
        /* What all support the leader supports: its list names all candidates. */
        LS_ASSERT(leader->protocol_count <= GROUP_PROTOCOLS_MAX);
        for (size_t i = 0; i < leader->protocol_count; i++) {
                candidate[i] = all_support(grp, leader->protocols[i].name);
                any = any || candidate[i];
        }
        if (!any)
                return LS_STR_NULL;
        for (const struct group_member *m = grp->first; m != NULL; m = m->next) {
                for (size_t i = 0; i < m->protocol_count;
                     i++) { /* its first candidate is its vote */
                        const struct ls_group_protocol *mine =
                                member_protocol(leader, m->protocols[i].name);

                        if (mine != NULL && candidate[mine - leader->protocols]) {
                                votes[mine - leader->protocols]++;
                                break;
                        }
                }
        }
        for (size_t i = 1; i < leader->protocol_count; i++)
                if (votes[i] > votes[best])
                        best = i;
        return leader->protocols[best].name;
}

int64_t
group_rebalance_ms(const struct ls_group *grp)
{
        int64_t ms = 0;

        for (const struct group_member *m = grp->first; m != NULL; m = m->next)
                ms = LS_MAX(ms, m->rebalance_ms);
        return ms;
}

/* --- subscriptions ---------------------------------------------------- */

/* Longer lists are not searched for the same topics in another order: it is quadratic. */
#define SUBSCRIPTION_COMPARE_MAX 1000

/* The metadata of protocol type "consumer": version int16, count int32, that many topics. */
struct subscription {
        struct ls_rd rd;
        int32_t count;
};

static bool
subscription_open(struct subscription *s, ls_span metadata)
{
        s->rd = ls_rd_of(metadata);
        ls_rd_be16(&s->rd);
        s->count = (int32_t)ls_rd_be32(&s->rd);
        return !ls_rd_failed(&s->rd) && s->count >= 0 && (size_t)s->count <= ls_rd_left(&s->rd) / 2;
}

static bool
subscription_next(struct subscription *s, ls_str *ret_topic)
{
        ls_span topic;

        if (s->count-- <= 0)
                return false;
        topic = ls_rd_span(&s->rd, ls_rd_be16(&s->rd));
        *ret_topic = ls_str_make((const char *)topic.ptr, topic.len);
        return !ls_rd_failed(&s->rd);
}

bool
group_subscribes(ls_span metadata, ls_str topic)
{
        struct subscription s;
        ls_str at;

        if (!subscription_open(&s, metadata))
                return false;
        while (subscription_next(&s, &at))
                if (ls_str_eq(at, topic))
                        return true;
        return false;
}

/* *ret_topics: the bytes of its topics. */
static bool
subscription_readable(ls_span metadata, int32_t *ret_count, ls_span *ret_topics)
{
        struct subscription s;
        const uint8_t *start;
        ls_str topic;

        if (!subscription_open(&s, metadata))
                return false;
        *ret_count = s.count;
        start = s.rd.pos;
        while (subscription_next(&s, &topic))
                ;
        *ret_topics = ls_span_of(start, (size_t)(s.rd.pos - start));
        return !ls_rd_failed(&s.rd);
}

bool
group_same_subscription(ls_span a, ls_span b)
{
        int32_t a_count = 0, b_count = 0;
        ls_span a_topics, b_topics;
        struct subscription s;
        ls_str topic;

        if (!subscription_readable(a, &a_count, &a_topics) ||
            !subscription_readable(b, &b_count, &b_topics))
                return true;
        if (ls_span_eq(a_topics, b_topics))
                return true;
        if (a_count != b_count || a_count > SUBSCRIPTION_COMPARE_MAX || !subscription_open(&s, a))
                return false;
        while (subscription_next(&s, &topic)) /* the same in another order? */
                if (!group_subscribes(b, topic))
                        return false;
        return true;
}

bool
group_consumes(const struct ls_group *grp, ls_str topic)
{
        for (const struct group_member *m = grp->first; m != NULL; m = m->next) {
                for (size_t i = 0; i < m->protocol_count; i++) {
                        ls_span metadata = m->protocols[i].metadata, topics;
                        int32_t count_topics;

                        if (!subscription_readable(metadata, &count_topics, &topics) ||
                            group_subscribes(metadata, topic))
                                return true;
                }
        }
        return false;
}

/* --- pending ids ---------------------------------------------------- */

struct group_pending *
group_pending_find(const struct ls_group *grp, ls_str member_id)
{
        for (struct group_pending *p = grp->pending; p != NULL; p = p->next)
                if (ls_str_is(member_id, p->id))
                        return p;
        return NULL;
}

struct group_pending *
group_pending_add(struct ls_group *grp, ls_str member_id)
{
        struct group_pending *p = ls_calloc(1, sizeof *p);

        p->group = grp;
        p->id = ls_str_dup(member_id);
        p->next = grp->pending;
        grp->pending = p;
        return p;
}

void
group_pending_remove(struct ls_groups *g, struct group_pending *p)
{
        struct group_pending **at = &p->group->pending;

        while (*at != p)
                at = &(*at)->next;
        *at = p->next;
        group_timer_clear(g, &p->timer);
        ls_free(p->id);
        ls_free(p);
}
