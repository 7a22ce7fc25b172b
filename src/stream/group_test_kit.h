/* stream/group_test_kit.h - a coordinator with a clock, a store and loops that the test drives.
 *
 * Nothing happens by itself: kit_settle answers what the coordinator queued (in order) and runs
 * what it posted; kit_wait moves the clock in steps and settles after each. The store is a list of
 * rows that outlives the coordinator, so that kit_restart is a restarted broker.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/clock.h"
#include "stream/group_int.h"

struct kit_row { /* a group */
        char id[64];
        uint64_t version;
        int32_t generation;
        struct ls_buf state;
        bool live;
};
struct kit_offset {
        char group[64], topic[64];
        uint64_t stream_id;
        int32_t partition, leader_epoch;
        int64_t offset, commit_ms, expire_ms;
        char *metadata; /* NULL: null */
        bool live;
};
#define KIT_ROWS_MAX 64

struct kit {
        struct ls_groups *groups;
        struct group_config config;
        int64_t now_ms; /* monotonic; the wall clock is KIT_WALL later */
        struct kit_row rows[KIT_ROWS_MAX];
        struct kit_offset offsets[KIT_ROWS_MAX];
        struct ls_meta_op *head, *tail; /* queued */
        bool is_group[4096];            /* inner: kind of each queued op, by number */
        size_t op_first, op_next;
        ls_err fail; /* what ops are answered with, LS_OK: applied */
        struct ls_loop_msg *msgs[4096];
        size_t msg_count;
        int streams_gone; /* streams "t<i>" with i below are deleted */
        uint64_t random;
        /* one of many brokers: config.shared */
        bool theirs;                   /* the list of brokers gives all groups to another */
        bool owners_changed;           /* … since this coordinator looked */
        size_t gets;                   /* groups that were read */
        ls_err get_fail;               /* what reading is answered with, LS_OK: read */
        void (*on_get)(struct kit *k); /* between the read and its answer; once */
};

#define KIT_WALL       ((int64_t)1700000000000)
#define KIT_PARTITIONS 10

/* --- what the coordinator sees ---------------------------------------------------- */

static inline void
kit_post(void *ctx, struct ls_loop *loop, struct ls_loop_msg *msg)
{
        struct kit *k = ctx;

        assert_true(k->msg_count < LS_COUNT(k->msgs));
        k->msgs[k->msg_count++] = msg;
}

static inline void
kit_queue(struct kit *k, struct ls_meta_op *op, bool is_group)
{
        op->next = NULL;
        if (k->tail != NULL)
                k->tail->next = op;
        else
                k->head = op;
        k->tail = op;
        k->is_group[k->op_next++ % LS_COUNT(k->is_group)] = is_group;
}

static inline void
kit_group_submit(void *ctx, struct ls_meta_group_op *op)
{
        kit_queue(ctx, &op->op, true);
}

static inline void
kit_offsets_submit(void *ctx, struct ls_meta_offsets_op *op)
{
        kit_queue(ctx, &op->op, false);
}

static inline struct kit_row *
kit_row(struct kit *k, const char *id)
{
        for (size_t i = 0; i < KIT_ROWS_MAX; i++)
                if (k->rows[i].live && strcmp(k->rows[i].id, id) == 0)
                        return &k->rows[i];
        return NULL;
}

static inline ls_err
kit_apply_group(struct kit *k, const struct ls_meta_group *g)
{
        struct kit_row *row = kit_row(k, g->group_id);

        if ((row ? row->version : 0) != g->version)
                return LS_CONFLICT;
        for (size_t i = 0; row == NULL; i++) {
                assert_true(i < KIT_ROWS_MAX);
                if (!k->rows[i].live) {
                        row = &k->rows[i];
                        row->live = true;
                        row->version = 0;
                        snprintf(row->id, sizeof row->id, "%s", g->group_id);
                        ls_buf_init(&row->state, LS_BUF_MAX_DEFAULT);
                }
        }
        row->version++;
        row->generation = g->generation;
        ls_buf_clear(&row->state);
        ls_buf_put_span(&row->state, g->state);
        return LS_OK;
}

static inline bool
kit_stream(void *ctx, ls_str topic, int32_t partition, uint64_t *ret_stream_id)
{
        struct kit *k = ctx;
        int number = topic.len == 2 && topic.ptr[0] == 't' ? topic.ptr[1] - '0' : -1;

        *ret_stream_id = (uint64_t)number + 1;
        return number >= k->streams_gone && number < 10 && partition >= 0 &&
               partition < KIT_PARTITIONS;
}

static inline void
kit_put_offset(struct kit *k, const char *group, struct ls_meta_offset *o)
{
        struct kit_offset *to = NULL;

        if ((int)o->stream_id - 1 < k->streams_gone) {
                o->stream_id = 0;
                return;
        }
        for (size_t i = 0; i < KIT_ROWS_MAX; i++) {
                struct kit_offset *at = &k->offsets[i];

                if (at->live && strcmp(at->group, group) == 0 && at->stream_id == o->stream_id &&
                    at->partition == o->partition)
                        to = at;
        }
        for (size_t i = 0; to == NULL; i++) {
                assert_true(i < KIT_ROWS_MAX);
                if (!k->offsets[i].live)
                        to = &k->offsets[i];
        }
        ls_free(to->metadata);
        *to = (struct kit_offset){
                .stream_id = o->stream_id,
                .partition = o->partition,
                .leader_epoch = o->leader_epoch,
                .offset = o->offset,
                .commit_ms = o->commit_ms,
                .expire_ms = o->expire_ms,
                .metadata = ls_str_dup(o->metadata),
                .live = true,
        };
        snprintf(to->group, sizeof to->group, "%s", group);
        snprintf(to->topic, sizeof to->topic, "%s", o->topic);
}

static inline ls_err
kit_apply_offsets(struct kit *k, const struct ls_meta_offsets_op *op)
{
        struct kit_row *row = kit_row(k, op->group_id);

        if (op->version != 0 && (row == NULL || row->version != op->version))
                return LS_CONFLICT;
        assert_non_null(row); /* the coordinator stores the group first */
        if (op->generation >= 0 && row->generation != op->generation)
                return LS_STALE_EPOCH;
        for (size_t i = 0; i < op->count; i++)
                kit_put_offset(k, op->group_id, &op->offsets[i]);
        return LS_OK;
}

static inline ls_err
kit_group_list(void *ctx, ls_err (*fn)(void *fn_ctx, const struct ls_meta_group *g), void *fn_ctx)
{
        struct kit *k = ctx;

        for (size_t i = 0; i < KIT_ROWS_MAX; i++) {
                struct ls_meta_group g = {
                        .group_id = k->rows[i].id,
                        .version = k->rows[i].version,
                        .generation = k->rows[i].generation,
                        .state = ls_buf_span(&k->rows[i].state),
                };

                if (k->rows[i].live)
                        LS_TRY(fn(fn_ctx, &g));
        }
        return LS_OK;
}

static inline void kit_settle(struct kit *k);

static inline void
kit_drop_offsets(struct kit *k, const char *group, uint64_t stream_id, int32_t partition)
{
        for (size_t i = 0; i < KIT_ROWS_MAX; i++) {
                struct kit_offset *o = &k->offsets[i];

                if (o->live && (group == NULL || strcmp(o->group, group) == 0) &&
                    (stream_id == 0 || o->stream_id == stream_id) &&
                    (partition < 0 || o->partition == partition)) {
                        ls_free(o->metadata);
                        *o = (struct kit_offset){ 0 };
                }
        }
}

static inline bool
kit_owns(void *ctx, ls_str group_id)
{
        return !((struct kit *)ctx)->theirs;
}

static inline bool
kit_owners_changed(void *ctx)
{
        return LS_STEAL(((struct kit *)ctx)->owners_changed);
}

static inline ls_err
kit_group_get(void *ctx, const char *group_id,
              ls_err (*fn)(void *fn_ctx, const struct ls_meta_group *g), void *fn_ctx)
{
        struct kit *k = ctx;
        const struct kit_row *row;
        ls_err e = LS_ABSENT;

        kit_settle(k);
        k->gets++;
        row = kit_row(k, group_id);
        if (k->get_fail != LS_OK)
                return k->get_fail;
        if (row != NULL) {
                struct ls_meta_group g = { .group_id = row->id,
                                           .version = row->version,
                                           .generation = row->generation,
                                           .state = ls_buf_span(&row->state) };

                e = fn(fn_ctx, &g);
        }
        if (k->on_get != NULL)
                LS_STEAL(k->on_get)(k);
        return e;
}

static inline ls_err
kit_group_delete(void *ctx, const char *group_id, uint64_t version)
{
        struct kit *k = ctx;
        struct kit_row *row;

        kit_settle(k); /* what was queued before comes first */
        if (k->fail != LS_OK)
                return k->fail;
        row = kit_row(k, group_id);
        if (row == NULL)
                return LS_ABSENT;
        if (version != 0 && row->version != version)
                return LS_CONFLICT;
        kit_drop_offsets(k, group_id, 0, -1);
        ls_buf_done(&row->state);
        row->live = false;
        return LS_OK;
}

static inline ls_err
kit_offsets(void *ctx, const char *group_id,
            ls_err (*fn)(void *fn_ctx, const struct ls_meta_offset *o), void *fn_ctx)
{
        struct kit *k = ctx;

        for (size_t i = 0; i < KIT_ROWS_MAX; i++) {
                const struct kit_offset *o = &k->offsets[i];
                struct ls_meta_offset row = {
                        .topic = o->topic,
                        .stream_id = o->stream_id,
                        .partition = o->partition,
                        .leader_epoch = o->leader_epoch,
                        .offset = o->offset,
                        .metadata = ls_str_of(o->metadata),
                        .commit_ms = o->commit_ms,
                        .expire_ms = o->expire_ms,
                };

                if (o->live && strcmp(o->group, group_id) == 0)
                        LS_TRY(fn(fn_ctx, &row));
        }
        return LS_OK;
}

static inline ls_err
kit_offsets_delete(void *ctx, const char *group_id, uint64_t version,
                   const struct ls_meta_offset *offsets, size_t count)
{
        const struct kit_row *row = kit_row(ctx, group_id);

        if (version != 0 && (row == NULL || row->version != version))
                return LS_CONFLICT;
        for (size_t i = 0; i < count; i++)
                kit_drop_offsets(ctx, group_id, offsets[i].stream_id, offsets[i].partition);
        return LS_OK;
}

/* --- driving it ---------------------------------------------------- */

static inline int64_t
kit_wall_ms(void *ctx)
{
        return KIT_WALL + ((struct kit *)ctx)->now_ms;
}
static inline int64_t
kit_monotonic_ns(void *ctx)
{
        return ((struct kit *)ctx)->now_ms * 1000000;
}
static inline void
kit_random(void *ctx, void *ret_bytes, size_t bytes)
{
        struct kit *k = ctx;

        for (size_t i = 0; i < bytes; i++) {
                k->random = k->random * 6364136223846793005u + 1442695040888963407u;
                ((uint8_t *)ret_bytes)[i] = (uint8_t)(k->random >> 56);
        }
}

/* Answers what is queued, runs what is posted, until nothing is left. */
static inline void
kit_settle(struct kit *k)
{
        while (k->head != NULL || k->msg_count > 0) {
                while (k->head != NULL) {
                        struct ls_meta_op *op = k->head;
                        bool is_group = k->is_group[k->op_first++ % LS_COUNT(k->is_group)];
                        ls_err e = k->fail;

                        k->head = op->next;
                        if (k->head == NULL)
                                k->tail = NULL;
                        if (e == LS_OK && is_group)
                                e = kit_apply_group(
                                        k, &LS_CONTAINER(op, struct ls_meta_group_op, op)->group);
                        else if (e == LS_OK)
                                e = kit_apply_offsets(
                                        k, LS_CONTAINER(op, struct ls_meta_offsets_op, op));
                        op->done(op, e);
                }
                while (k->msg_count > 0) {
                        struct ls_loop_msg *msg = k->msgs[0];

                        memmove(k->msgs, k->msgs + 1, --k->msg_count * sizeof k->msgs[0]);
                        msg->fn(msg);
                }
        }
}

/* Asserts what always holds. */
static inline void
kit_check(const struct kit *k)
{
        struct ls_map_entry *e;
        size_t pos = 0;

        while ((e = ls_map_next(&k->groups->groups, &pos)) != NULL) {
                const struct ls_group *grp = e->value;
                size_t members = 0, joining = 0;
                bool leads = grp->leader == NULL;

                for (const struct group_member *m = grp->first; m != NULL; m = m->next) {
                        members++;
                        joining += m->join != NULL;
                        leads = leads || m == grp->leader;
                        assert_ptr_equal(group_member_find(grp, ls_str_of(m->id)), m);
                        assert_true(m->timer.place > 0); /* each session ends some time */
                        assert_true(m->join == NULL || m->sync == NULL);
                        assert_true(m->sync == NULL || grp->state == GROUP_COMPLETING);
                        assert_true(m->join == NULL || grp->state == GROUP_PREPARING);
                }
                assert_true(leads);
                assert_int_equal(members, grp->member_count);
                assert_int_equal(joining, grp->joining_count);
                assert_true(grp->state != GROUP_DEAD);
                assert_int_equal(grp->state == GROUP_EMPTY, members == 0);
                assert_true(grp->state != GROUP_PREPARING || grp->timer.place > 0);
                assert_int_equal(
                        grp->protocol_name != NULL,
                        grp->state == GROUP_COMPLETING || grp->state == GROUP_STABLE ||
                                (grp->state == GROUP_PREPARING && grp->protocol_name != NULL));
        }
        for (size_t i = 1; i < k->groups->heap_count; i++) {
                assert_true(k->groups->heap[i]->due_ms >= k->groups->heap[(i + 1) / 2 - 1]->due_ms);
                assert_int_equal(k->groups->heap[i]->place, i + 1);
        }
}

static inline void
kit_wait(struct kit *k, int64_t ms)
{
        int64_t end = k->now_ms + ms;

        while (k->now_ms < end) {
                k->now_ms = LS_MIN(end, k->now_ms + 100);
                groups_tick(k->groups);
                kit_settle(k);
        }
        kit_check(k);
}

static inline void
kit_start(struct kit *k)
{
        static const struct group_ops ops = {
                .post = kit_post,
                .group_submit = kit_group_submit,
                .offsets_submit = kit_offsets_submit,
                .group_list = kit_group_list,
                .group_delete = kit_group_delete,
                .offsets = kit_offsets,
                .offsets_delete = kit_offsets_delete,
                .stream = kit_stream,
                .owns = kit_owns,
                .owners_changed = kit_owners_changed,
                .group_get = kit_group_get,
        };

        assert_int_equal(groups_new(&ops, k, &k->config, &k->groups, NULL), LS_OK);
}

static inline void
kit_stop(struct kit *k)
{
        struct ls_map_entry *e;
        size_t pos = 0;

        /* groups_stop waits for the store, which is us: answer first. */
        kit_settle(k);
        while ((e = ls_map_next(&k->groups->groups, &pos)) != NULL)
                group_abandon(k->groups, e->value, LS_GROUP_NOT_COORDINATOR);
        kit_settle(k);
        groups_stop(k->groups);
        kit_settle(k);
        groups_free(k->groups);
        k->groups = NULL;
}

static inline void
kit_restart(struct kit *k)
{
        kit_stop(k);
        kit_start(k);
}

/* With shared: the coordinator of one of many brokers. */
static inline struct kit *
kit_new_with(bool shared)
{
        static struct ls_clock clock;
        struct kit *k = ls_calloc(1, sizeof *k);

        clock = (struct ls_clock){ kit_wall_ms, kit_monotonic_ns, kit_random, k };
        ls_clock_install(&clock);
        k->now_ms = 1000;
        k->random = 7;
        k->config = (struct group_config){
                .initial_delay_ms = 3000,
                .session_ms_min = 6000,
                .session_ms_max = 1800000,
                .size_max = 1000,
                .retention_ms = (int64_t)7 * 24 * 3600 * 1000,
                .shared = shared,
        };
        kit_start(k);
        return k;
}

static inline struct kit *
kit_new(void)
{
        return kit_new_with(false);
}

static inline void
kit_free(struct kit *k)
{
        kit_stop(k);
        for (size_t i = 0; i < KIT_ROWS_MAX; i++) {
                if (k->rows[i].live)
                        ls_buf_done(&k->rows[i].state);
                ls_free(k->offsets[i].metadata);
        }
        ls_clock_install(NULL);
        ls_free(k);
}

/* --- a client ---------------------------------------------------- */

#define CLIENT_GROUP "orders"

struct client {
        struct ls_group_join join;
        struct ls_group_sync sync;
        struct ls_group_protocol protocols[2];
        char subscription[2][64];
        int joins, syncs; /* answers got */
        bool joining, syncing;
        /* what it was told last */
        char id[128];
        const char *instance; /* NULL: dynamic */
        int32_t generation;
        bool leads;
        char assignment[64];
        char leader[128];
        size_t members;
};

static inline void
client_joined(struct ls_group_join *join)
{
        struct client *c = LS_CONTAINER(join, struct client, join);

        c->joins++;
        assert_true(c->joining);
        c->joining = false;
        if (join->error == LS_GROUP_OK || join->error == LS_GROUP_MEMBER_ID_REQUIRED)
                snprintf(c->id, sizeof c->id, "%.*s", LS_STR_ARG(join->ret_member_id));
        if (join->error == LS_GROUP_OK) {
                c->generation = join->generation;
                snprintf(c->leader, sizeof c->leader, "%.*s", LS_STR_ARG(join->ret_leader));
                c->leads = strcmp(c->leader, c->id) == 0;
                c->members = join->member_count;
                assert_true(join->ret_protocol_name.ptr != NULL &&
                            join->ret_protocol_type.ptr != NULL);
                assert_int_equal(c->leads, join->member_count > 0);
        } else {
                assert_int_equal(join->generation, -1);
                assert_int_equal(join->member_count, 0);
        }
        ls_group_join_done(join);
}

static inline void
client_synced(struct ls_group_sync *sync)
{
        struct client *c = LS_CONTAINER(sync, struct client, sync);

        c->syncs++;
        assert_true(c->syncing);
        c->syncing = false;
        if (sync->error == LS_GROUP_OK)
                snprintf(c->assignment, sizeof c->assignment, "%.*s", (int)sync->assignment.len,
                         (const char *)sync->assignment.ptr);
        else
                assert_int_equal(sync->assignment.len, 0);
        ls_group_sync_done(sync);
}

/* A subscription to one topic, as the metadata of protocol `slot`. */
static inline void
client_subscribe(struct client *c, int slot, const char *protocol, const char *topic)
{
        struct ls_buf b;

        ls_buf_init(&b, sizeof c->subscription[0]);
        ls_buf_put_be16(&b, 3);
        ls_buf_put_be32(&b, 1);
        ls_buf_put_be16(&b, (uint16_t)strlen(topic));
        ls_buf_put_text(&b, topic);
        ls_buf_put_be32(&b, 0xffffffff);
        assert_false(ls_buf_failed(&b));
        memcpy(c->subscription[slot], b.ptr, b.len);
        c->protocols[slot] = (struct ls_group_protocol){ ls_str_of(protocol),
                                                         ls_span_of(c->subscription[slot], b.len) };
        ls_buf_done(&b);
        if (c->join.protocol_count < (size_t)slot + 1)
                c->join.protocol_count = (size_t)slot + 1;
}

static inline void
client_init(struct client *c, const char *instance)
{
        *c = (struct client){ .instance = instance, .generation = -1 };
        c->join = (struct ls_group_join){
                .group_id = LS_STR(CLIENT_GROUP),
                .client_id = LS_STR("client"),
                .client_host = LS_STR("/127.0.0.1"),
                .protocol_type = LS_STR("consumer"),
                .session_timeout_ms = 10000,
                .rebalance_timeout_ms = 60000,
                .require_member_id = true,
                .can_skip_assignment = true,
        };
        client_subscribe(c, 0, "range", "t1");
}

static inline void
client_join(struct kit *k, struct client *c)
{
        c->join.member_id = ls_str_of(c->id);
        c->join.instance_id = ls_str_of(c->instance);
        c->join.protocols = c->protocols;
        c->join.done = client_joined;
        assert_false(c->joining);
        c->joining = true;
        ls_group_join(k->groups, &c->join);
        kit_settle(k);
        /* A new dynamic member comes twice. */
        if (!c->joining && c->join.error == LS_GROUP_MEMBER_ID_REQUIRED)
                client_join(k, c);
}

/* The leader gives "a0", "a1" … in the order of `who`. */
static inline void
client_sync(struct kit *k, struct client *c, struct client **who, size_t count)
{
        struct ls_group_assignment assignments[16];
        char texts[16][8];

        assert_true(count <= 16);
        for (size_t i = 0; i < count; i++) {
                assignments[i].member_id = ls_str_of(who[i]->id);
                assignments[i].assignment = ls_span_of(
                        texts[i], (size_t)snprintf(texts[i], sizeof texts[i], "a%zu", i));
        }
        c->sync = (struct ls_group_sync){
                .group_id = LS_STR(CLIENT_GROUP),
                .generation = c->generation,
                .member_id = ls_str_of(c->id),
                .instance_id = ls_str_of(c->instance),
                .protocol_type = LS_STR("consumer"),
                .assignments = assignments,
                .assignment_count = c->leads ? count : 0,
                .done = client_synced,
        };
        assert_false(c->syncing);
        c->syncing = true;
        ls_group_sync(k->groups, &c->sync);
        kit_settle(k);
}

static inline enum ls_group_err
client_beat(struct kit *k, struct client *c)
{
        return ls_group_heartbeat(k->groups, LS_STR(CLIENT_GROUP), ls_str_of(c->id),
                                  ls_str_of(c->instance), c->generation);
}

static inline enum ls_group_err
client_leave(struct kit *k, struct client *c)
{
        struct ls_group_leaver leaver = { .member_id = ls_str_of(c->id),
                                          .instance_id = ls_str_of(c->instance) };

        assert_int_equal(ls_group_leave(k->groups, LS_STR(CLIENT_GROUP), &leaver, 1), LS_GROUP_OK);
        kit_settle(k);
        return leaver.error;
}

/* All join, and get their assignments. */
static inline void
clients_settle(struct kit *k, struct client **who, size_t count)
{
        bool joining = true;

        for (size_t i = 0; i < count; i++)
                client_join(k, who[i]);
        for (int steps = 0; joining && steps < 600; steps++) {
                kit_wait(k, 100);
                joining = false;
                for (size_t i = 0; i < count; i++)
                        joining = joining || who[i]->joining;
        }
        for (size_t i = 0; i < count; i++) {
                assert_false(who[i]->joining);
                assert_int_equal(who[i]->join.error, LS_GROUP_OK);
        }
        for (size_t i = 0; i < count; i++)
                if (who[i]->leads)
                        client_sync(k, who[i], who, count);
        for (size_t i = 0; i < count; i++) {
                if (!who[i]->leads)
                        client_sync(k, who[i], NULL, 0);
                assert_false(who[i]->syncing);
                assert_int_equal(who[i]->sync.error, LS_GROUP_OK);
        }
}

static inline struct ls_group *
kit_group(struct kit *k)
{
        return group_find(k->groups, LS_STR(CLIENT_GROUP));
}

/* --- commits ---------------------------------------------------- */

struct committer {
        struct ls_group_commit commit;
        struct ls_group_offset offsets[4];
        int answers;
};

static inline void
committer_done(struct ls_group_commit *commit)
{
        LS_CONTAINER(commit, struct committer, commit)->answers++;
}

/* One offset of topic/partition, by the member `c` or (NULL) from outside. */
static inline enum ls_group_err
commit_one(struct kit *k, const char *group, struct client *c, const char *topic, int32_t partition,
           int64_t offset, ls_str metadata)
{
        struct committer x = { 0 };

        x.offsets[0] = (struct ls_group_offset){ .topic = ls_str_of(topic),
                                                 .partition = partition,
                                                 .leader_epoch = 5,
                                                 .offset = offset,
                                                 .metadata = metadata };
        x.commit = (struct ls_group_commit){
                .group_id = ls_str_of(group),
                .member_id = c ? ls_str_of(c->id) : LS_STR(""),
                .instance_id = c ? ls_str_of(c->instance) : LS_STR_NULL,
                .generation = c ? c->generation : -1,
                .retention_ms = -1,
                .offsets = x.offsets,
                .count = 1,
                .done = committer_done,
        };
        ls_group_commit(k->groups, &x.commit);
        kit_settle(k);
        assert_int_equal(x.answers, 1);
        return x.offsets[0].error;
}

/* -1: none. */
static inline int64_t
fetch_one(struct kit *k, const char *group, const char *topic, int32_t partition)
{
        struct ls_group_offset o = { .topic = ls_str_of(topic), .partition = partition };
        struct ls_group_offsets hold;

        assert_int_equal(ls_group_fetch(k->groups, ls_str_of(group), &o, 1, &hold), LS_GROUP_OK);
        assert_int_equal(o.error, LS_GROUP_OK);
        ls_group_offsets_done(&hold);
        return o.offset;
}
