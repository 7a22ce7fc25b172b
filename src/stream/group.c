/* stream/group.c - the coordinator: life, its thread, storing a group's state, describe, list,
 * delete.
 *
 * A group's row is written by ops that are queued in order; each expects the version that the one
 * before leaves. When one fails, those queued behind it fail too; once none is in flight the
 * version is set back to the last that was confirmed, and the next write carries the whole state
 * again. Of many brokers, a version that is not the expected one means that another coordinator has
 * written the row: the group is dropped, and read again when it is asked for.
 */
#include "stream/group.h"

#include <strings.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "stream/group_int.h"
#include "stream/stream.h"

/* --- errors ---------------------------------------------------- */

enum ls_group_err
group_err_of(ls_err e)
{
        if (e == LS_OK)
                return LS_GROUP_OK;
        if (e == LS_STALE_EPOCH)
                return LS_GROUP_ILLEGAL_GENERATION;
        if (e == LS_ESHUTDOWN || e == LS_EFENCED || e == LS_CONFLICT)
                return LS_GROUP_NOT_COORDINATOR;
        return LS_GROUP_NOT_AVAILABLE; /* the client tries again */
}

/* --- storing ---------------------------------------------------- */

struct group_write {
        struct ls_meta_group_op op;
        struct ls_groups *groups;
        struct ls_group *group;
        enum group_store_why why;
        struct ls_group_join *join;
        int32_t generation;
        struct ls_buf blob;
        char *id;
};

void
group_write_done(struct ls_groups *g, struct ls_group *grp, ls_err result)
{
        LS_ASSERT(grp->writes > 0 && g->writes > 0);
        g->writes--;
        grp->writes--;
        if (result != LS_OK)
                grp->failed_write = true;
        if (grp->writes == 0 && grp->failed_write) {
                grp->version = grp->version_done;
                grp->failed_write = false;
        }
        if (g->writes == 0)
                ls_cond_broadcast(&g->wake);
        if (grp->writes == 0 && grp->state == GROUP_DEAD && !grp->locked)
                group_release(grp);
}

static void
group_stored(struct ls_meta_op *op, ls_err result)
{
        struct group_write *w = LS_CONTAINER(op, struct group_write, op.op);
        struct ls_groups *g = w->groups;
        struct ls_group *grp = w->group;

        pthread_mutex_lock(&g->lock);
        if (result == LS_OK)
                grp->version_done = w->op.group.version + 1;
        else
                ls_log_warn("stream", "cannot store the state of a group group=%s error=%s", w->id,
                            ls_err_name(result));
        if (w->why == GROUP_STORE_STATIC)
                group_static_stored(g, grp, w->join, result);
        if (g->config.shared && result == LS_CONFLICT)
                group_lose(g, grp);
        if (w->why == GROUP_STORE_ASSIGNMENT && grp->state != GROUP_DEAD)
                group_assignment_stored(g, grp, w->generation, result);
        group_write_done(g, grp, result);
        pthread_mutex_unlock(&g->lock);
        ls_buf_done(&w->blob);
        ls_free(w->id);
        ls_free(w);
}

void
group_store(struct ls_groups *g, struct ls_group *grp, enum group_store_why why,
            struct ls_group_join *join)
{
        struct group_write *w = ls_calloc(1, sizeof *w);

        LS_ASSERT(grp->state != GROUP_DEAD);
        LS_ASSERT((why == GROUP_STORE_STATIC) == (join != NULL));
        w->groups = g;
        w->group = grp;
        w->why = why;
        w->join = join;
        w->generation = grp->generation;
        w->id = ls_strdup(grp->id);
        ls_buf_init(&w->blob, LS_BUF_MAX_DEFAULT);
        group_blob_write(grp, &w->blob);
        w->op.op.done = group_stored;
        w->op.group = (struct ls_meta_group){
                .group_id = w->id,
                .version = grp->version++,
                .generation = grp->generation,
                .state = ls_buf_span(&w->blob),
        };
        g->writes++;
        grp->writes++;
        g->ops.group_submit(g->ops_ctx, &w->op);
}

void
group_forget_if_blank(struct ls_groups *g, struct ls_group *grp)
{
        if (grp->state == GROUP_EMPTY && grp->pending == NULL && grp->version == 0 &&
            grp->writes == 0 && !grp->locked) {
                if (g->config.shared)
                        group_become_nowhere(g, grp);
                else
                        group_drop(g, grp);
        }
}

/* --- life ---------------------------------------------------- */

ls_err
group_fill(struct ls_groups *g, struct ls_group *grp, const struct ls_meta_group *row)
{
        ls_err e;

        grp->version = grp->version_done = row->version;
        e = row->state.len > 0 ? group_blob_read(grp, row->state) : LS_OK;
        if (e == LS_NEWER_FORMAT)
                return e;
        if (e != LS_OK) {
                /* Its offsets are rows of their own and stay; members join anew, after any
                 * generation that was ever given out. */
                ls_log_error("stream", "the stored state of a group is damaged group=%s",
                             row->group_id);
                while (grp->first != NULL)
                        group_member_remove(g, grp->first);
                grp->state = GROUP_EMPTY;
        }
        grp->generation = LS_MAX(grp->generation, row->generation);
        return LS_OK;
}

static ls_err
load_one(void *ctx, const struct ls_meta_group *row)
{
        struct ls_groups *g = ctx;
        struct ls_group *grp = group_make(g, ls_str_of(row->group_id));

        return grp != NULL ? group_fill(g, grp, row) : LS_ELIMIT;
}

static void
load_done(struct ls_groups *g)
{
        struct ls_map_entry *e;
        size_t pos = 0;

        while ((e = ls_map_next(&g->groups, &pos)) != NULL)
                group_loaded(g, e->value);
}

ls_err
groups_new(const struct group_ops *ops, void *ops_ctx, const struct group_config *config,
           struct ls_groups **ret_groups, struct ls_errinfo *reterr)
{
        struct ls_groups *g = ls_calloc(1, sizeof *g);
        ls_err e;

        g->ops = *ops;
        g->ops_ctx = ops_ctx;
        g->config = *config;
        pthread_mutex_init(&g->lock, NULL);
        ls_cond_init(&g->wake);
        ls_map_init(&g->groups);
        g->expiry_ms = ls_clock_monotonic_ms() + GROUP_EXPIRY_INTERVAL_MS;
        e = config->shared ? LS_OK : g->ops.group_list(g->ops_ctx, load_one, g);
        if (e != LS_OK) {
                groups_free(g);
                return ls_fail(reterr, e, "cannot load the consumer groups: %s", ls_err_text(e));
        }
        load_done(g);
        *ret_groups = g;
        return LS_OK;
}

void
groups_free(struct ls_groups *g)
{
        struct ls_map_entry *e;
        size_t pos;

        LS_ASSERT(g->writes == 0);
        for (pos = 0; (e = ls_map_next(&g->groups, &pos)) != NULL; pos = 0)
                group_drop(g, e->value);
        LS_ASSERT(g->heap_count == 0);
        ls_map_done(&g->groups);
        ls_free(g->heap);
        ls_cond_done(&g->wake);
        pthread_mutex_destroy(&g->lock);
        ls_free(g);
}

void
groups_stop(struct ls_groups *g)
{
        struct ls_map_entry *e;
        size_t pos = 0;

        pthread_mutex_lock(&g->lock);
        g->stop = true;
        while ((e = ls_map_next(&g->groups, &pos)) != NULL)
                group_abandon(g, e->value, LS_GROUP_NOT_COORDINATOR);
        while (g->writes > 0)
                ls_cond_wait(&g->wake, &g->lock);
        pthread_mutex_unlock(&g->lock);
}

void
groups_wake(struct ls_groups *g)
{
        ls_cond_broadcast(&g->wake);
}

/* The ids of all groups, to look at them one by one without holding the lock. */
static void
expire_all(struct ls_groups *g)
{
        struct ls_map_entry *e;
        size_t pos = 0, count = 0, cap = 0;
        char **ids = NULL;

        if (g->config.shared && ls_groups_load(g) != LS_GROUP_OK)
                return; /* the next round */
        pthread_mutex_lock(&g->lock);
        while ((e = ls_map_next(&g->groups, &pos)) != NULL)
                LS_PUSH(ids, count, cap, ls_strdup(((struct ls_group *)e->value)->id));
        pthread_mutex_unlock(&g->lock);
        for (size_t i = 0; i < count; i++) {
                pthread_mutex_lock(&g->lock); /* sessions do not wait for this */
                group_timers_run(g, ls_clock_monotonic_ms());
                bool stop = g->stop;
                pthread_mutex_unlock(&g->lock);
                if (!stop)
                        group_expire(g, ls_str_of(ids[i]));
                ls_free(ids[i]);
        }
        ls_free(ids);
}

void
groups_tick(struct ls_groups *g)
{
        int64_t now = ls_clock_monotonic_ms();

        if (g->config.shared)
                groups_own(g);
        pthread_mutex_lock(&g->lock);
        group_timers_run(g, now);
        pthread_mutex_unlock(&g->lock);
        if (now >= g->expiry_ms) {
                expire_all(g);
                g->expiry_ms = ls_clock_monotonic_ms() + GROUP_EXPIRY_INTERVAL_MS;
        }
}

/* Until when the thread may sleep; under the lock. */
static int64_t
groups_due(const struct ls_groups *g)
{
        int64_t due = LS_MIN(group_timers_next(g), g->expiry_ms);

        if (g->config.shared)
                due = LS_MIN(due, ls_clock_monotonic_ms() + GROUP_OWNERS_CHECK_MS);
        return due;
}

static void
groups_run(void *arg)
{
        struct ls_groups *g = arg;
        bool stop;

        do {
                groups_tick(g);
                pthread_mutex_lock(&g->lock);
                if (!g->stop && g->load_first == NULL &&
                    group_timers_next(g) > ls_clock_monotonic_ms())
                        ls_cond_wait_until(&g->wake, &g->lock, groups_due(g));
                stop = g->stop;
                pthread_mutex_unlock(&g->lock);
        } while (!stop);
}

/* --- what is behind us ---------------------------------------------------- */

struct real_ops {
        struct ls_streams *streams;
        struct ls_meta *meta;
        struct ls_brokers *seen; /* by real_owners_changed; NULL: not asked yet */
};

static void
real_post(void *ctx, struct ls_loop *loop, struct ls_loop_msg *msg)
{
        ls_loop_post(loop, msg);
}

static void
real_group_submit(void *ctx, struct ls_meta_group_op *op)
{
        ls_meta_group_submit(((struct real_ops *)ctx)->meta, op);
}

static void
real_offsets_submit(void *ctx, struct ls_meta_offsets_op *op)
{
        ls_meta_offsets_submit(((struct real_ops *)ctx)->meta, op);
}

static ls_err
real_group_list(void *ctx, ls_err (*fn)(void *fn_ctx, const struct ls_meta_group *g), void *fn_ctx)
{
        return ls_meta_group_list(((struct real_ops *)ctx)->meta, fn, fn_ctx);
}

static ls_err
real_group_get(void *ctx, const char *group_id,
               ls_err (*fn)(void *fn_ctx, const struct ls_meta_group *g), void *fn_ctx)
{
        return ls_meta_group_get(((struct real_ops *)ctx)->meta, group_id, fn, fn_ctx);
}

static ls_err
real_group_delete(void *ctx, const char *group_id, uint64_t version)
{
        return ls_meta_group_delete_at(((struct real_ops *)ctx)->meta, group_id, version);
}

static ls_err
real_offsets(void *ctx, const char *group_id,
             ls_err (*fn)(void *fn_ctx, const struct ls_meta_offset *o), void *fn_ctx)
{
        return ls_meta_offsets(((struct real_ops *)ctx)->meta, group_id, fn, fn_ctx);
}

static ls_err
real_offsets_delete(void *ctx, const char *group_id, uint64_t version,
                    const struct ls_meta_offset *offsets, size_t count)
{
        return ls_meta_offsets_delete_at(((struct real_ops *)ctx)->meta, group_id, version, offsets,
                                         count);
}

static bool
real_stream(void *ctx, ls_str topic, int32_t partition, uint64_t *ret_stream_id)
{
        struct ls_stream *stream = ls_stream_find(((struct real_ops *)ctx)->streams, topic);
        const struct ls_stream_info *info;
        bool there;

        if (stream == NULL)
                return false;
        info = ls_stream_info(stream);
        there = partition >= 0 && partition < info->partitions;
        *ret_stream_id = info->id;
        ls_stream_unref(stream);
        return there;
}

static bool
real_owns(void *ctx, ls_str group_id)
{
        struct ls_streams *streams = ((struct real_ops *)ctx)->streams;
        struct ls_brokers *brokers = ls_brokers_get(streams);
        size_t at = ls_brokers_coordinator(brokers, group_id);
        bool owns = brokers->items[at].id == ls_streams_broker_id(streams);

        ls_brokers_unref(brokers);
        return owns;
}

static bool
real_owners_changed(void *ctx)
{
        struct real_ops *real = ctx;
        struct ls_brokers *brokers = ls_brokers_get(real->streams);
        bool changed = brokers != real->seen; /* which is held: no other has its address */

        ls_brokers_unref(real->seen);
        real->seen = brokers;
        return changed;
}

ls_err
ls_groups_open(struct ls_streams *s, struct ls_meta *m, const struct ls_options *options,
               struct ls_groups **ret_groups, struct ls_errinfo *reterr)
{
        static const struct group_ops ops = {
                .post = real_post,
                .group_submit = real_group_submit,
                .offsets_submit = real_offsets_submit,
                .group_list = real_group_list,
                .group_delete = real_group_delete,
                .offsets = real_offsets,
                .offsets_delete = real_offsets_delete,
                .stream = real_stream,
                .owns = real_owns,
                .owners_changed = real_owners_changed,
                .group_get = real_group_get,
        };
        struct group_config config = {
                .initial_delay_ms = ls_option_int(options, LS_OPT_GROUP_INITIAL_DELAY),
                .session_ms_min = ls_option_int(options, LS_OPT_GROUP_MIN_SESSION),
                .session_ms_max = ls_option_int(options, LS_OPT_GROUP_MAX_SESSION),
                .size_max = ls_option_int(options, LS_OPT_GROUP_MAX_SIZE),
                .retention_ms = ls_option_int(options, LS_OPT_OFFSETS_RETENTION) * 60 * 1000,
                .shared = s != NULL && ls_streams_shared(s),
        };
        struct real_ops *real = ls_calloc(1, sizeof *real);
        struct ls_groups *g;
        ls_err e;

        *real = (struct real_ops){ .streams = s, .meta = m };
        e = groups_new(&ops, real, &config, &g, reterr);
        if (e == LS_OK) {
                e = ls_thread_start("ls-groups", groups_run, g, &g->thread);
                if (e != LS_OK)
                        groups_free(g);
        }
        if (e != LS_OK) {
                ls_free(real);
                return e;
        }
        *ret_groups = g;
        return LS_OK;
}

void
ls_groups_close(struct ls_groups *g)
{
        struct real_ops *real;

        if (g == NULL)
                return;
        pthread_mutex_lock(&g->lock);
        g->stop = true;
        ls_cond_broadcast(&g->wake);
        pthread_mutex_unlock(&g->lock);
        ls_thread_join(g->thread); /* no timer fires from here on */
        groups_stop(g);
        real = g->ops_ctx;
        groups_free(g);
        ls_brokers_unref(real->seen);
        ls_free(real);
}

/* --- requests: the lock around the state machine ---------------------------------------------- */

void
ls_group_join(struct ls_groups *g, struct ls_group_join *join)
{
        ls_arena_init(&join->arena, LS_ARENA_MAX_DEFAULT);
        join->error = LS_GROUP_OK;
        join->generation = -1;
        join->ret_protocol_type = join->ret_protocol_name = LS_STR_NULL;
        join->ret_leader = join->ret_member_id = LS_STR("");
        join->skip_assignment = false;
        join->members = NULL;
        join->member_count = 0;
        pthread_mutex_lock(&g->lock);
        group_join(g, join);
        pthread_mutex_unlock(&g->lock);
}

void
ls_group_join_done(struct ls_group_join *join)
{
        ls_arena_done(&join->arena);
}

void
ls_group_sync(struct ls_groups *g, struct ls_group_sync *sync)
{
        ls_arena_init(&sync->arena, LS_ARENA_MAX_DEFAULT);
        sync->error = LS_GROUP_OK;
        sync->ret_protocol_type = sync->ret_protocol_name = LS_STR_NULL;
        sync->assignment = ls_span_of("", 0);
        pthread_mutex_lock(&g->lock);
        group_sync(g, sync);
        pthread_mutex_unlock(&g->lock);
}

void
ls_group_sync_done(struct ls_group_sync *sync)
{
        ls_arena_done(&sync->arena);
}

enum ls_group_err
ls_group_heartbeat(struct ls_groups *g, ls_str group_id, ls_str member_id, ls_str instance_id,
                   int32_t generation)
{
        enum ls_group_err error;

        pthread_mutex_lock(&g->lock);
        error = group_heartbeat(g, group_id, member_id, instance_id, generation);
        pthread_mutex_unlock(&g->lock);
        return error;
}

enum ls_group_err
ls_group_leave(struct ls_groups *g, ls_str group_id, struct ls_group_leaver *leavers, size_t count)
{
        enum ls_group_err error;

        pthread_mutex_lock(&g->lock);
        error = group_leave(g, group_id, leavers, count);
        pthread_mutex_unlock(&g->lock);
        return error;
}

/* --- look and delete ---------------------------------------------------- */

static ls_span
copy_span(struct ls_arena *a, ls_span s)
{
        ls_str copy = ls_arena_str(a, ls_str_make(s.ptr ? (const char *)s.ptr : "", s.len));

        return ls_span_of(copy.ptr, copy.len);
}

static bool
describe_members(const struct ls_group *grp, struct ls_arena *arena, struct ls_group_description *d)
{
        size_t i = 0;

        d->members = ls_arena_array(arena, grp->member_count, sizeof *d->members);
        if (d->members == NULL)
                return grp->member_count == 0;
        for (const struct group_member *m = grp->first; m != NULL; m = m->next, i++) {
                struct ls_group_member *to = &d->members[i];
                bool stable = grp->state == GROUP_STABLE;

                to->member_id = ls_arena_str(arena, ls_str_of(m->id));
                to->instance_id = ls_arena_str(arena, ls_str_of(m->instance_id));
                to->client_id = ls_arena_str(arena, ls_str_of(m->client_id));
                to->client_host = ls_arena_str(arena, ls_str_of(m->client_host));
                to->metadata =
                        stable ? copy_span(arena, group_member_metadata(m, grp->protocol_name))
                               : ls_span_of("", 0);
                to->assignment = stable ? copy_span(arena, m->assignment) : ls_span_of("", 0);
                if (to->client_host.ptr == NULL || to->assignment.ptr == NULL)
                        return false;
        }
        d->member_count = i;
        return true;
}

enum ls_group_err
ls_group_describe(struct ls_groups *g, ls_str group_id, struct ls_arena *arena,
                  struct ls_group_description *ret)
{
        enum ls_group_err error;
        struct ls_group *grp;

        *ret = (struct ls_group_description){
                .group_id = group_id,
                .state = group_state_name(GROUP_DEAD),
                .protocol_type = LS_STR(""),
                .protocol_name = LS_STR(""),
        };
        pthread_mutex_lock(&g->lock);
        error = group_gate(g, group_id, &grp);
        if (error == LS_GROUP_OK && grp == NULL)
                error = LS_GROUP_ID_NOT_FOUND;
        if (error == LS_GROUP_OK) {
                ret->group_id = ls_arena_str(arena, ls_str_of(grp->id));
                ret->state = group_state_name(grp->state);
                ret->generation = grp->generation;
                if (grp->protocol_type != NULL)
                        ret->protocol_type = ls_arena_str(arena, ls_str_of(grp->protocol_type));
                if (grp->protocol_name != NULL && grp->state == GROUP_STABLE)
                        ret->protocol_name = ls_arena_str(arena, ls_str_of(grp->protocol_name));
                if (!describe_members(grp, arena, ret))
                        error = LS_GROUP_UNKNOWN_SERVER_ERROR;
        }
        pthread_mutex_unlock(&g->lock);
        return error;
}

static bool
filter_has(const ls_str *filter, size_t count, const char *name)
{
        for (size_t i = 0; i < count; i++)
                if (filter[i].len == strlen(name) &&
                    strncasecmp(filter[i].ptr, name, filter[i].len) == 0)
                        return true;
        return count == 0;
}

bool
ls_group_list(struct ls_groups *g, const ls_str *states, size_t state_count, const ls_str *types,
              size_t type_count, struct ls_arena *arena, struct ls_group_listed **ret,
              size_t *ret_count)
{
        struct ls_group_listed *list = NULL;
        struct ls_map_entry *e;
        size_t pos = 0, count = 0;
        bool ok = true;

        pthread_mutex_lock(&g->lock);
        if (filter_has(types, type_count, "classic") && g->groups.count > 0) {
                list = ls_arena_array(arena, g->groups.count, sizeof *list);
                ok = list != NULL;
        }
        while (list != NULL && ok && (e = ls_map_next(&g->groups, &pos)) != NULL) {
                const struct ls_group *grp = e->value;

                if (grp->presence != GROUP_HERE ||
                    !filter_has(states, state_count, group_state_name(grp->state)))
                        continue;
                list[count].group_id = ls_arena_str(arena, ls_str_of(grp->id));
                list[count].protocol_type = ls_arena_str(
                        arena, ls_str_of(grp->protocol_type ? grp->protocol_type : ""));
                list[count].state = group_state_name(grp->state);
                list[count].type = "classic";
                ok = list[count].group_id.ptr != NULL && list[count].protocol_type.ptr != NULL;
                count++;
        }
        pthread_mutex_unlock(&g->lock);
        *ret = list;
        *ret_count = count;
        return ok;
}

enum ls_group_err
ls_group_delete(struct ls_groups *g, ls_str group_id)
{
        struct ls_group *grp = NULL;
        enum ls_group_err error;
        uint64_t version = 0;
        bool here;
        ls_err e;

        pthread_mutex_lock(&g->lock);
        error = g->stop ? LS_GROUP_NOT_COORDINATOR : group_gate_wait(g, group_id, &grp);
        if (error == LS_GROUP_OK && grp == NULL) {
                error = LS_GROUP_ID_NOT_FOUND;
        } else if (error == LS_GROUP_OK && grp->state != GROUP_EMPTY) {
                error = LS_GROUP_NON_EMPTY;
        } else if (error == LS_GROUP_OK && (grp->locked || grp->pending != NULL)) {
                error = grp->locked ? LS_GROUP_LOAD_IN_PROGRESS : LS_GROUP_NON_EMPTY;
        } else if (error == LS_GROUP_OK) {
                grp->locked = true; /* nobody joins or commits until the store has answered */
                version = group_version_expected(g, grp);
        }
        pthread_mutex_unlock(&g->lock);
        if (error != LS_GROUP_OK)
                return error;
        e = g->ops.group_delete(g->ops_ctx, grp->id, version); /* behind all that is queued */
        pthread_mutex_lock(&g->lock);
        here = group_unlock(grp);
        if (e != LS_OK && e != LS_ABSENT)
                error = group_err_of(e);
        if (here && (e == LS_OK || e == LS_ABSENT))
                group_drop(g, grp);
        else if (here && e == LS_CONFLICT)
                group_lose(g, grp);
        pthread_mutex_unlock(&g->lock);
        return error;
}
