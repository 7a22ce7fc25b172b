/* servers/kafka/groups.c - membership: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and looking at
 * groups. See groups.h; the coordinator itself is stream/group.h.
 *
 * A join or sync may wait for minutes. When its connection goes away meanwhile, the wait is left to
 * itself: the request ends at once and the coordinator's answer is dropped when it comes. While
 * they wait their frames are gone: members that wait for each other must not wait for memory as
 * well.
 */
#include "servers/kafka/groups.h"

#include "stream/group.h"

static struct ls_groups *
groups_of(const struct kafka_request *r)
{
        return ls_streams_groups(kafka_server_of(r)->streams);
}

static void
refuse(struct kafka_request *r)
{
        r->close_after = true;
        kafka_request_done(r);
}

/* "/127.0.0.1" for "127.0.0.1:5123", as Kafka writes hosts of members. */
static ls_str
client_host(struct kafka_request *r)
{
        const char *name = r->conn->transport->name(r->conn->peer);
        const char *colon = strrchr(name, ':');
        size_t len = colon != NULL ? (size_t)(colon - name) : strlen(name);

        return ls_arena_printf(&r->arena, "/%.*s", (int)len, name);
}

/* ---- JoinGroup ---- */

/* Lives until the coordinator has answered, which may be after its request. */
struct join_wait {
        struct ls_group_join join;
        struct kafka_request *r; /* NULL: nobody waits for it any more */
};

static void
join_free(struct join_wait *w)
{
        ls_group_join_done(&w->join);
        ls_free(w);
}

static bool
join_answer_members(struct kafka_request *r, const struct ls_group_join *join)
{
        struct ls_kafka_join_group_response *answer = r->answer;
        struct ls_kafka_join_group_response_member *items =
                ls_kafka_join_group_response_member_array(&r->arena, join->member_count);

        for (size_t i = 0; items != NULL && i < join->member_count; i++) {
                items[i].member_id = join->members[i].member_id;
                items[i].group_instance_id = join->members[i].instance_id;
                items[i].metadata = join->members[i].metadata;
        }
        answer->members.items = items;
        answer->members.count = items != NULL ? (uint32_t)join->member_count : 0;
        return items != NULL;
}

static void
join_answered(struct ls_group_join *join)
{
        struct join_wait *w = LS_CONTAINER(join, struct join_wait, join);
        struct kafka_request *r = w->r;
        struct ls_kafka_join_group_response *answer;

        if (r == NULL) {
                join_free(w);
                return;
        }
        answer = r->answer;
        answer->error_code = (int16_t)join->error;
        answer->generation_id = join->generation;
        answer->protocol_type = join->ret_protocol_type;
        answer->protocol_name = join->ret_protocol_name;
        answer->leader = join->ret_leader;
        answer->member_id = join->ret_member_id;
        answer->skip_assignment = join->skip_assignment;
        r->close_after |= !join_answer_members(r, join);
        kafka_request_done(r);
}

static void
join_hurry(struct kafka_request *r)
{
        struct join_wait *w = r->state_of_handler;

        w->r = NULL;
        r->state_of_handler = NULL;
        refuse(r);
}

static void
join_release(struct kafka_request *r)
{
        if (r->state_of_handler != NULL)
                join_free(r->state_of_handler);
}

void
kafka_serve_join_group(struct kafka_request *r)
{
        enum { MEMBER_ID_VERSION_MIN = 4, SKIP_VERSION_MIN = 9 };
        const struct ls_kafka_join_group_request *q = r->req.body;
        struct ls_group_protocol *protocols =
                ls_arena_array(&r->arena, q->protocols.count + 1, sizeof *protocols);
        struct join_wait *w;

        if (protocols == NULL) {
                refuse(r);
                return;
        }
        for (uint32_t i = 0; i < q->protocols.count; i++)
                protocols[i] = (struct ls_group_protocol){ q->protocols.items[i].name,
                                                           q->protocols.items[i].metadata };
        w = ls_calloc(1, sizeof *w);
        w->r = r;
        w->join.group_id = q->group_id;
        w->join.member_id = q->member_id;
        w->join.instance_id = q->group_instance_id;
        w->join.client_id = r->req.client_id;
        w->join.client_host = client_host(r);
        w->join.protocol_type = q->protocol_type;
        w->join.protocols = protocols;
        w->join.protocol_count = q->protocols.count;
        w->join.session_timeout_ms = q->session_timeout_ms;
        w->join.rebalance_timeout_ms = q->rebalance_timeout_ms;
        w->join.require_member_id = r->req.version >= MEMBER_ID_VERSION_MIN;
        w->join.can_skip_assignment = r->req.version >= SKIP_VERSION_MIN;
        w->join.loop = kafka_loop_of(r);
        w->join.done = join_answered;
        r->state_of_handler = w;
        r->hurry = join_hurry;
        r->release = join_release;
        ls_group_join(groups_of(r), &w->join);
        kafka_request_drop_frame(r);
}

/* ---- SyncGroup ---- */

struct sync_wait {
        struct ls_group_sync sync;
        struct kafka_request *r;
};

static void
sync_free(struct sync_wait *w)
{
        ls_group_sync_done(&w->sync);
        ls_free(w);
}

static void
sync_answered(struct ls_group_sync *sync)
{
        struct sync_wait *w = LS_CONTAINER(sync, struct sync_wait, sync);
        struct ls_kafka_sync_group_response *answer;

        if (w->r == NULL) {
                sync_free(w);
                return;
        }
        answer = w->r->answer;
        answer->error_code = (int16_t)sync->error;
        answer->protocol_type = sync->ret_protocol_type;
        answer->protocol_name = sync->ret_protocol_name;
        answer->assignment = sync->assignment;
        kafka_request_done(w->r);
}

static void
sync_hurry(struct kafka_request *r)
{
        struct sync_wait *w = r->state_of_handler;

        w->r = NULL;
        r->state_of_handler = NULL;
        refuse(r);
}

static void
sync_release(struct kafka_request *r)
{
        if (r->state_of_handler != NULL)
                sync_free(r->state_of_handler);
}

void
kafka_serve_sync_group(struct kafka_request *r)
{
        const struct ls_kafka_sync_group_request *q = r->req.body;
        struct ls_group_assignment *assignments =
                ls_arena_array(&r->arena, q->assignments.count + 1, sizeof *assignments);
        struct sync_wait *w;

        if (assignments == NULL) {
                refuse(r);
                return;
        }
        for (uint32_t i = 0; i < q->assignments.count; i++)
                assignments[i] = (struct ls_group_assignment){ q->assignments.items[i].member_id,
                                                               q->assignments.items[i].assignment };
        w = ls_calloc(1, sizeof *w);
        w->r = r;
        w->sync.group_id = q->group_id;
        w->sync.generation = q->generation_id;
        w->sync.member_id = q->member_id;
        w->sync.instance_id = q->group_instance_id;
        w->sync.protocol_type = q->protocol_type;
        w->sync.protocol_name = q->protocol_name;
        w->sync.assignments = assignments;
        w->sync.assignment_count = q->assignments.count;
        w->sync.loop = kafka_loop_of(r);
        w->sync.done = sync_answered;
        r->state_of_handler = w;
        r->hurry = sync_hurry;
        r->release = sync_release;
        ls_group_sync(groups_of(r), &w->sync);
        kafka_request_drop_frame(r);
}

/* ---- Heartbeat, LeaveGroup ---- */

void
kafka_serve_heartbeat(struct kafka_request *r)
{
        const struct ls_kafka_heartbeat_request *q = r->req.body;
        struct ls_kafka_heartbeat_response *answer = r->answer;

        answer->error_code = (int16_t)ls_group_heartbeat(groups_of(r), q->group_id, q->member_id,
                                                         q->group_instance_id, q->generation_id);
}

void
kafka_serve_leave_group(struct kafka_request *r)
{
        const struct ls_kafka_leave_group_request *q = r->req.body;
        struct ls_kafka_leave_group_response *answer = r->answer;
        bool batched = r->req.version >= 3;
        uint32_t count = batched ? q->members.count : 1;
        struct ls_group_leaver *leavers = ls_arena_array(&r->arena, count + 1, sizeof *leavers);
        struct ls_kafka_leave_group_response_member *out =
                ls_kafka_leave_group_response_member_array(&r->arena, count);

        if (leavers == NULL || out == NULL) {
                r->close_after = true;
                return;
        }
        if (!batched)
                leavers[0].member_id = q->member_id;
        for (uint32_t i = 0; batched && i < count; i++) {
                leavers[i].member_id = q->members.items[i].member_id;
                leavers[i].instance_id = q->members.items[i].group_instance_id;
        }
        answer->error_code = (int16_t)ls_group_leave(groups_of(r), q->group_id, leavers, count);
        if (!batched) {
                if (answer->error_code == LS_KAFKA_ERR_NONE)
                        answer->error_code = (int16_t)leavers[0].error;
                return;
        }
        for (uint32_t i = 0; i < count; i++) {
                out[i].member_id = leavers[i].member_id;
                out[i].group_instance_id = leavers[i].instance_id;
                out[i].error_code = (int16_t)leavers[i].error;
        }
        answer->members.items = out;
        answer->members.count = answer->error_code == LS_KAFKA_ERR_NONE ? count : 0;
}

/* ---- DescribeGroups, ListGroups, DeleteGroups ---- */

enum kafka_mode
kafka_serve_groups_pick(struct kafka_request *r)
{
        return kafka_server_of(r)->shared ? KAFKA_ON_JOB : KAFKA_ON_LOOP;
}

static bool
describe_fill(struct kafka_request *r, const struct ls_group_description *d,
              struct ls_kafka_describe_groups_response_group *out)
{
        struct ls_kafka_describe_groups_response_member *items =
                ls_kafka_describe_groups_response_member_array(&r->arena, d->member_count);

        out->group_state = ls_str_of(d->state);
        out->protocol_type = d->protocol_type;
        out->protocol_data = d->protocol_name;
        for (size_t i = 0; items != NULL && i < d->member_count; i++) {
                items[i].member_id = d->members[i].member_id;
                items[i].group_instance_id = d->members[i].instance_id;
                items[i].client_id = d->members[i].client_id;
                items[i].client_host = d->members[i].client_host;
                items[i].member_metadata = d->members[i].metadata;
                items[i].member_assignment = d->members[i].assignment;
        }
        out->members.items = items;
        out->members.count = items != NULL ? (uint32_t)d->member_count : 0;
        return items != NULL;
}

void
kafka_serve_describe_groups(struct kafka_request *r)
{
        enum { NOT_FOUND_VERSION_MIN = 6 }; /* KIP-1043; before, a missing group is a dead one */
        const struct ls_kafka_describe_groups_request *q = r->req.body;
        struct ls_kafka_describe_groups_response *answer = r->answer;
        struct ls_kafka_describe_groups_response_group *out =
                ls_kafka_describe_groups_response_group_array(&r->arena, q->groups.count);

        for (uint32_t i = 0; out != NULL && i < q->groups.count; i++) {
                struct ls_group_description d = { .state = "Dead" };
                enum ls_group_err e;

                if (r->on_job) /* then ask for it, and see what became of it */
                        (void)ls_group_load(groups_of(r), q->groups.items[i]);
                e = ls_group_describe(groups_of(r), q->groups.items[i], &r->arena, &d);
                out[i].group_id = q->groups.items[i];
                if (q->include_authorized_operations)
                        out[i].authorized_operations = KAFKA_GROUP_OPERATIONS;
                if (e == LS_GROUP_ID_NOT_FOUND && r->req.version < NOT_FOUND_VERSION_MIN)
                        e = LS_GROUP_OK;
                out[i].error_code = (int16_t)e;
                out[i].error_message = kafka_words(r, out[i].error_code, NULL);
                r->close_after |= !describe_fill(r, &d, &out[i]);
        }
        answer->groups.items = out;
        answer->groups.count = q->groups.count;
        r->close_after |= out == NULL;
}

void
kafka_serve_list_groups(struct kafka_request *r)
{
        const struct ls_kafka_list_groups_request *q = r->req.body;
        struct ls_kafka_list_groups_response *answer = r->answer;
        struct ls_kafka_list_groups_response_group *out;
        struct ls_group_listed *listed = NULL;
        size_t count = 0;

        if (r->on_job)
                answer->error_code = (int16_t)ls_groups_load(groups_of(r));
        if (answer->error_code != LS_KAFKA_ERR_NONE)
                return;
        if (!ls_group_list(groups_of(r), q->states_filter.items, q->states_filter.count,
                           q->types_filter.items, q->types_filter.count, &r->arena, &listed,
                           &count)) {
                r->close_after = true;
                return;
        }
        out = ls_kafka_list_groups_response_group_array(&r->arena, count);
        for (size_t i = 0; out != NULL && i < count; i++) {
                out[i].group_id = listed[i].group_id;
                out[i].protocol_type = listed[i].protocol_type;
                out[i].group_state = ls_str_of(listed[i].state);
                out[i].group_type = ls_str_of(listed[i].type);
        }
        answer->groups.items = out;
        answer->groups.count = (uint32_t)count;
        r->close_after |= out == NULL;
}

void
kafka_serve_delete_groups(struct kafka_request *r)
{
        const struct ls_kafka_delete_groups_request *q = r->req.body;
        struct ls_kafka_delete_groups_response *answer = r->answer;
        struct ls_kafka_delete_groups_response_group *out =
                ls_kafka_delete_groups_response_group_array(&r->arena, q->groups_names.count);

        for (uint32_t i = 0; out != NULL && i < q->groups_names.count; i++) {
                out[i].group_id = q->groups_names.items[i];
                out[i].error_code =
                        (int16_t)ls_group_delete(groups_of(r), q->groups_names.items[i]);
                out[i].error_message = kafka_words(r, out[i].error_code, NULL);
        }
        answer->results.items = out;
        answer->results.count = q->groups_names.count;
        r->close_after |= out == NULL;
}
