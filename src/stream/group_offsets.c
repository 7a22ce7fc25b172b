/* stream/group_offsets.c - committed offsets: commit, fetch, delete, and their expiry.
 *
 * Offsets are rows of the metadata store; nothing of them is kept in memory. A commit is checked
 * against the state machine under the lock, then queued; the store checks the generation again, in
 * the transaction that writes the offsets.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "stream/group_int.h"

static LS_METRIC(commits_total, COUNTER, "lakestream_group_offset_commits_total",
                 "Offsets of consumer groups that were stored.");

/* --- commit ---------------------------------------------------- */

static void
commit_posted(struct ls_loop_msg *msg)
{
        struct ls_group_commit *c = LS_CONTAINER(msg, struct ls_group_commit, msg);

        ls_arena_done(&c->arena);
        c->done(c);
}

static void
commit_answer(struct ls_groups *g, struct ls_group_commit *c, enum ls_group_err error)
{
        c->error = error;
        for (size_t i = 0; error != LS_GROUP_OK && i < c->count; i++)
                c->offsets[i].error = error;
        c->msg.fn = commit_posted;
        g->ops.post(g->ops_ctx, c->loop, &c->msg);
}

static void
commit_stored(struct ls_meta_op *op, ls_err result)
{
        struct ls_group_commit *c = LS_CONTAINER(op, struct ls_group_commit, op.op);
        struct ls_groups *g = c->groups;
        struct ls_group *grp = c->group;
        int32_t generation = c->op.generation;
        size_t k = 0;

        if (result == LS_OK) { /* streams that went in between */
                ls_metric_add(&commits_total, (int64_t)c->op.count);
                for (size_t i = 0; i < c->count; i++) {
                        if (c->offsets[i].error != LS_GROUP_OK)
                                continue;
                        if (c->op.offsets[k++].stream_id == 0)
                                c->offsets[i].error = LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION;
                }
        }
        commit_answer(g, c, group_err_of(result)); /* c is the caller's from here on */
        pthread_mutex_lock(&g->lock);
        /* The row is not what we believe: another coordinator has written it. */
        if (g->config.shared &&
            (result == LS_CONFLICT || (result == LS_STALE_EPOCH && generation == grp->generation)))
                group_lose(g, grp);
        group_write_done(g, grp, result);
        pthread_mutex_unlock(&g->lock);
}

/* May this commit be stored? (Kafka: validateOffsetCommit) */
static enum ls_group_err
commit_check(struct ls_groups *g, const struct ls_group *grp, const struct ls_group_commit *c)
{
        bool member = c->generation >= 0 || c->member_id.len > 0 || c->instance_id.ptr != NULL;
        enum ls_group_err error;

        if (c->generation < 0 && grp->state == GROUP_EMPTY)
                return LS_GROUP_OK; /* a consumer that assigns partitions to itself, or a tool */
        if (!member)
                return LS_GROUP_UNKNOWN_MEMBER_ID; /* somebody else's group is running */
        error = group_check_member(grp, c->member_id, c->instance_id);
        if (error != LS_GROUP_OK)
                return error;
        if (c->generation != grp->generation)
                return LS_GROUP_ILLEGAL_GENERATION;
        if (grp->state == GROUP_COMPLETING)
                return LS_GROUP_REBALANCE_IN_PROGRESS; /* its partitions may be another's soon */
        group_member_touch(g, group_member_find(grp, c->member_id));
        return LS_GROUP_OK;
}

static enum ls_group_err
commit_group(struct ls_groups *g, struct ls_group_commit *c)
{
        enum ls_group_err error;
        struct ls_group *grp;

        if (g->stop)
                return LS_GROUP_NOT_COORDINATOR;
        error = group_gate(g, c->group_id, &grp);
        if (error != LS_GROUP_OK)
                return error;
        if (grp == NULL) {
                if (c->generation >= 0)
                        return LS_GROUP_ILLEGAL_GENERATION;
                grp = group_make(g, c->group_id);
                if (grp == NULL)
                        return LS_GROUP_NOT_AVAILABLE;
        }
        c->group = grp;
        if (grp->locked)
                return LS_GROUP_LOAD_IN_PROGRESS;
        return commit_check(g, grp, c);
}

/* Fills the op's offsets from those that can be stored. */
static bool
commit_prepare(struct ls_groups *g, struct ls_group_commit *c)
{
        struct ls_meta_offset *to = ls_arena_array(&c->arena, c->count, sizeof *to);
        int64_t now = ls_clock_wall_ms();
        ls_str topic_before = LS_STR_NULL;
        const char *topic = NULL;
        size_t count = 0;

        if (to == NULL && c->count > 0)
                return false;
        for (size_t i = 0; i < c->count; i++) {
                struct ls_group_offset *o = &c->offsets[i];
                struct ls_meta_offset *m = &to[count];

                o->error = LS_GROUP_OK;
                if (o->metadata.len > GROUP_OFFSET_METADATA_BYTES_MAX)
                        o->error = LS_GROUP_OFFSET_METADATA_TOO_LARGE;
                else if (!g->ops.stream(g->ops_ctx, o->topic, o->partition, &m->stream_id))
                        o->error = LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION;
                if (o->error != LS_GROUP_OK)
                        continue;
                if (topic == NULL || o->topic.ptr != topic_before.ptr ||
                    o->topic.len != topic_before.len)
                        topic = ls_arena_str(&c->arena, o->topic).ptr;
                topic_before = o->topic;
                if (topic == NULL)
                        return false;
                m->topic = topic;
                m->partition = o->partition;
                m->leader_epoch = o->leader_epoch;
                m->offset = o->offset;
                m->metadata = o->metadata;
                m->commit_ms = now;
                m->expire_ms =
                        c->retention_ms >= 0 ? now + LS_MIN(c->retention_ms, INT64_MAX / 2) : -1;
                count++;
        }
        c->op.offsets = to;
        c->op.count = count;
        return true;
}

void
ls_group_commit(struct ls_groups *g, struct ls_group_commit *c)
{
        enum ls_group_err error;
        bool prepared, queue;

        ls_arena_init(&c->arena, LS_ARENA_MAX_DEFAULT);
        c->groups = g;
        c->group = NULL;
        c->error = LS_GROUP_OK;
        c->op = (struct ls_meta_offsets_op){ .op = { .done = commit_stored }, .generation = -1 };
        prepared = commit_prepare(g, c);
        c->op.group_id = ls_arena_str(&c->arena, c->group_id.ptr ? c->group_id : LS_STR("")).ptr;
        prepared = prepared && c->op.group_id != NULL;

        pthread_mutex_lock(&g->lock);
        if (!prepared)
                error = LS_GROUP_INVALID_REQUEST;
        else if (c->group_id.len > 0 && memchr(c->group_id.ptr, '\0', c->group_id.len) != NULL)
                error = LS_GROUP_INVALID_GROUP_ID;
        else
                error = commit_group(g, c);
        queue = error == LS_GROUP_OK && c->op.count > 0;
        if (queue) {
                if (c->group->version == 0) /* the row that the offsets belong to comes first */
                        group_store(g, c->group, GROUP_STORE_PLAIN, NULL);
                if (c->group->state != GROUP_EMPTY)
                        c->op.generation = c->generation;
                else /* no generation: the version tells whether a member has come elsewhere */
                        c->op.version = group_version_expected(g, c->group);
                c->group->writes++;
                g->writes++;
                g->ops.offsets_submit(g->ops_ctx, &c->op);
        } else if (c->group != NULL) {
                group_forget_if_blank(g, c->group);
        }
        pthread_mutex_unlock(&g->lock);
        if (!queue)
                commit_answer(g, c, error);
}

/* --- read ---------------------------------------------------- */

static int
offset_compare(const void *a, const void *b)
{
        const struct ls_group_offset *x = a, *y = b;
        int c = ls_span_cmp(group_key(x->topic), group_key(y->topic));

        return c != 0 ? c : (x->partition > y->partition) - (x->partition < y->partition);
}

struct read_all {
        struct ls_group_offsets *to;
        size_t cap;
        struct ls_group_offset *offsets; /* grown outside of the arena, then copied in */
        size_t count;
};

static ls_err
read_one(void *ctx, const struct ls_meta_offset *o)
{
        struct read_all *all = ctx;
        struct ls_arena *arena = &all->to->arena;
        struct ls_group_offset offset = {
                .topic = ls_arena_str(arena, ls_str_of(o->topic)),
                .partition = o->partition,
                .leader_epoch = o->leader_epoch,
                .offset = o->offset,
                .metadata = ls_arena_str(arena, o->metadata),
                .commit_ms = o->commit_ms,
        };

        if (offset.topic.ptr == NULL || (o->metadata.ptr != NULL && offset.metadata.ptr == NULL))
                return LS_ELIMIT;
        LS_PUSH(all->offsets, all->count, all->cap, offset);
        return LS_OK;
}

enum ls_group_err
ls_group_fetch_all(struct ls_groups *g, ls_str group_id, struct ls_group_offsets *ret)
{
        LS_AUTO(ls_free) char *id = ls_str_dup(group_id.ptr ? group_id : LS_STR(""));
        struct read_all all = { .to = ret };
        ls_err e;

        *ret = (struct ls_group_offsets){ 0 };
        ls_arena_init(&ret->arena, LS_ARENA_MAX_DEFAULT);
        if (g->config.shared) {
                enum ls_group_err error;
                struct ls_group *grp;

                /* Any broker could read them; but who asks the wrong one would also commit there.
                 * Who asks the right one will: the group begins to be read for it. */
                pthread_mutex_lock(&g->lock);
                error = group_gate(g, group_id, &grp);
                pthread_mutex_unlock(&g->lock);
                if (error == LS_GROUP_NOT_COORDINATOR)
                        return error;
        }
        e = g->ops.offsets(g->ops_ctx, id, read_one, &all);
        if (e == LS_ABSENT)
                e = LS_OK;
        if (e == LS_OK && all.count > 0) {
                qsort(all.offsets, all.count, sizeof *all.offsets, offset_compare);
                ret->offsets = ls_arena_array(&ret->arena, all.count, sizeof *ret->offsets);
                if (ret->offsets == NULL) {
                        e = LS_ELIMIT;
                } else {
                        memcpy(ret->offsets, all.offsets, all.count * sizeof *ret->offsets);
                        ret->count = all.count;
                }
        }
        ls_free(all.offsets);
        return group_err_of(e);
}

void
ls_group_offsets_done(struct ls_group_offsets *o)
{
        ls_arena_done(&o->arena);
        o->offsets = NULL;
        o->count = 0;
}

enum ls_group_err
ls_group_fetch(struct ls_groups *g, ls_str group_id, struct ls_group_offset *offsets, size_t count,
               struct ls_group_offsets *hold)
{
        enum ls_group_err error = ls_group_fetch_all(g, group_id, hold);

        for (size_t i = 0; i < count; i++) {
                const struct ls_group_offset *o = NULL;

                if (error == LS_GROUP_OK && hold->count > 0)
                        o = bsearch(&offsets[i], hold->offsets, hold->count, sizeof *offsets,
                                    offset_compare);
                offsets[i].offset = o ? o->offset : -1;
                offsets[i].leader_epoch = o ? o->leader_epoch : -1;
                offsets[i].metadata = o ? o->metadata : LS_STR("");
                offsets[i].commit_ms = o ? o->commit_ms : -1;
                offsets[i].error = error;
        }
        return error;
}

/* --- delete ---------------------------------------------------- */

enum ls_group_err
ls_group_offsets_delete(struct ls_groups *g, ls_str group_id, struct ls_group_offset *offsets,
                        size_t count)
{
        LS_AUTO(ls_free) struct ls_meta_offset *rows = ls_calloc(count + 1, sizeof *rows);
        LS_AUTO(ls_free) char *id = ls_str_dup(group_id.ptr ? group_id : LS_STR(""));
        enum ls_group_err error;
        struct ls_group *grp = NULL;
        struct ls_arena arena;
        size_t row_count = 0;
        uint64_t version = 0;
        ls_err e = LS_OK;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        pthread_mutex_lock(&g->lock);
        error = g->stop ? LS_GROUP_NOT_COORDINATOR : group_gate_wait(g, group_id, &grp);
        if (error == LS_GROUP_OK && grp == NULL)
                error = LS_GROUP_ID_NOT_FOUND;
        else if (error == LS_GROUP_OK && grp->state != GROUP_EMPTY &&
                 strcmp(grp->protocol_type, "consumer") != 0)
                error = LS_GROUP_NON_EMPTY; /* we cannot tell what its members use */
        if (error == LS_GROUP_OK)
                version = group_version_expected(g, grp);
        for (size_t i = 0; i < count; i++) {
                offsets[i].error = error;
                if (error == LS_GROUP_OK && grp->state != GROUP_EMPTY &&
                    group_consumes(grp, offsets[i].topic))
                        offsets[i].error = LS_GROUP_SUBSCRIBED_TO_TOPIC;
        }
        pthread_mutex_unlock(&g->lock);
        if (error != LS_GROUP_OK)
                return error;
        for (size_t i = 0; i < count; i++) {
                struct ls_meta_offset *row = &rows[row_count];

                if (offsets[i].error != LS_GROUP_OK)
                        continue;
                if (!g->ops.stream(g->ops_ctx, offsets[i].topic, offsets[i].partition,
                                   &row->stream_id)) {
                        offsets[i].error = LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION;
                        continue;
                }
                row->topic = ls_arena_str(&arena, offsets[i].topic).ptr;
                row->partition = offsets[i].partition;
                row_count++;
        }
        if (row_count > 0)
                e = g->ops.offsets_delete(g->ops_ctx, id, version, rows, row_count);
        ls_arena_done(&arena);
        for (size_t i = 0; e != LS_OK && i < count; i++)
                if (offsets[i].error == LS_GROUP_OK)
                        offsets[i].error = group_err_of(e);
        return LS_GROUP_OK;
}

/* --- expiry ---------------------------------------------------- */

struct expiry {
        struct ls_group *grp; /* under the lock when it is asked */
        struct ls_groups *g;
        uint64_t version;
        int64_t now_ms; /* wall clock */
        struct ls_arena arena;
        struct ls_meta_offset *expired;
        size_t expired_count, expired_cap;
        size_t kept;
};

/* Kafka's rules (KIP-211): what was committed by a group with members expires some time after the
 * last member left, or once no member subscribes to its topic; what was committed without
 * membership, some time after the commit; a time given with the commit (before v5) goes before
 * both. */
static bool
offset_expired(const struct expiry *x, const struct ls_meta_offset *o)
{
        int64_t since = o->commit_ms;

        if (o->expire_ms >= 0)
                return x->now_ms >= o->expire_ms;
        if (x->grp->state != GROUP_EMPTY &&
            (strcmp(x->grp->protocol_type, "consumer") != 0 || x->grp->state != GROUP_STABLE ||
             group_consumes(x->grp, ls_str_of(o->topic))))
                return false;
        if (x->grp->state == GROUP_EMPTY && x->grp->protocol_type != NULL)
                since = LS_MAX(since, x->grp->state_ms);
        return x->now_ms - since >= x->g->config.retention_ms;
}

static ls_err
expire_look(void *ctx, const struct ls_meta_offset *o)
{
        struct expiry *x = ctx;
        struct ls_meta_offset row = *o;
        bool expired;

        pthread_mutex_lock(&x->g->lock);
        expired = x->grp->state != GROUP_DEAD && offset_expired(x, o);
        pthread_mutex_unlock(&x->g->lock);
        row.topic = ls_arena_str(&x->arena, ls_str_of(o->topic)).ptr;
        row.metadata = LS_STR_NULL;
        if (!expired || row.topic == NULL)
                x->kept++;
        else
                LS_PUSH(x->expired, x->expired_count, x->expired_cap, row);
        return LS_OK;
}

/* Nobody joins or commits between the look and the deletion: the group is locked by the caller.
 * True: the group was deleted with them. */
static bool
expire_locked(struct expiry *x)
{
        struct ls_groups *g = x->g;
        const char *id = x->grp->id;
        bool empty, gone;
        ls_err e = g->ops.offsets(g->ops_ctx, id, expire_look, x);

        if (e != LS_OK && e != LS_ABSENT)
                return false;
        pthread_mutex_lock(&g->lock);
        gone = x->grp->state == GROUP_DEAD;
        empty = x->grp->state == GROUP_EMPTY && x->grp->pending == NULL && x->kept == 0;
        pthread_mutex_unlock(&g->lock);
        if (gone || (!empty && x->expired_count == 0))
                return false;
        if (empty)
                e = g->ops.group_delete(g->ops_ctx, id, x->version);
        else
                e = g->ops.offsets_delete(g->ops_ctx, id, x->version, x->expired, x->expired_count);
        if (e != LS_OK && e != LS_ABSENT) {
                ls_log_warn("stream", "cannot delete expired offsets group=%s error=%s", id,
                            ls_err_name(e));
                return false;
        }
        ls_log_info("stream", "expired offsets group=%s offsets=%zu deleted=%d", id,
                    x->expired_count, empty);
        return empty;
}

/* Could anything of it have expired? Cheap, so that live groups are not locked every round. */
static bool
expire_may(const struct ls_groups *g, const struct ls_group *grp, int64_t now_ms)
{
        if (grp->locked || grp->writes > 0 || grp->pending != NULL)
                return false;
        if (grp->state == GROUP_EMPTY)
                return true;
        return grp->state == GROUP_STABLE && strcmp(grp->protocol_type, "consumer") == 0 &&
               now_ms - grp->state_ms >= g->config.retention_ms;
}

void
group_expire(struct ls_groups *g, ls_str group_id)
{
        struct expiry x = { .g = g, .now_ms = ls_clock_wall_ms() };
        struct ls_group *grp = NULL;
        bool deleted;

        pthread_mutex_lock(&g->lock);
        if (group_gate(g, group_id, &grp) == LS_GROUP_OK && grp != NULL &&
            expire_may(g, grp, x.now_ms)) {
                grp->locked = true;
                x.grp = grp;
                x.version = group_version_expected(g, grp);
        }
        pthread_mutex_unlock(&g->lock);
        if (x.grp == NULL)
                return;
        ls_arena_init(&x.arena, LS_ARENA_MAX_DEFAULT);
        deleted = expire_locked(&x);
        ls_arena_done(&x.arena);
        ls_free(x.expired);
        pthread_mutex_lock(&g->lock);
        if (group_unlock(grp) && deleted)
                group_drop(g, grp);
        pthread_mutex_unlock(&g->lock);
}
