/* stream/group_live_test.c - consumer groups on a real data folder, with real loops and threads:
 * eight members on two loops find one generation, commit, and go on after a restart; deleting a
 * topic takes the group's offsets along (B025). The state machine itself: group_test.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "stream/group.h"
#include "stream/stream.h"

#define MEMBERS 8
#define BEAT_MS 5

struct world {
        char dir[64];
        struct ls_options options;
        struct ls_streams *streams;
        struct ls_groups *groups;
        struct ls_loop *loops[2];
        pthread_mutex_t lock;
        struct ls_cond cond;
        int finished, quiet; /* members that have committed in a full group; that have stopped */
        bool stop;
};

struct member {
        struct world *w;
        struct ls_loop *loop;
        struct ls_loop_msg start;
        struct ls_timer timer;
        struct ls_group_join join;
        struct ls_group_sync sync;
        struct ls_group_commit commit;
        struct ls_group_offset offset;
        struct ls_group_protocol protocol;
        char id[128];
        const char *instance;
        int index, rounds;
        int32_t generation;
        bool finished;
};

static void member_join(struct member *m);

static void
world_count(struct world *w, int *count)
{
        pthread_mutex_lock(&w->lock);
        (*count)++;
        ls_cond_broadcast(&w->cond);
        pthread_mutex_unlock(&w->lock);
}

static void
world_wait(struct world *w, const int *count)
{
        pthread_mutex_lock(&w->lock);
        while (*count < MEMBERS)
                ls_cond_wait(&w->cond, &w->lock);
        pthread_mutex_unlock(&w->lock);
}

static void
member_beat(struct ls_timer *timer)
{
        struct member *m = LS_CONTAINER(timer, struct member, timer);
        enum ls_group_err e;
        bool stop;

        pthread_mutex_lock(&m->w->lock);
        stop = m->w->stop;
        pthread_mutex_unlock(&m->w->lock);
        if (stop) {
                world_count(m->w, &m->w->quiet);
                return;
        }
        e = ls_group_heartbeat(m->w->groups, LS_STR("live"), ls_str_of(m->id),
                               ls_str_of(m->instance), m->generation);
        if (e == LS_GROUP_OK) {
                ls_timer_set(m->loop, &m->timer, BEAT_MS, member_beat);
                return;
        }
        assert_int_equal(e, LS_GROUP_REBALANCE_IN_PROGRESS); /* never UNKNOWN_MEMBER_ID */
        member_join(m);
}

static void
member_committed(struct ls_group_commit *commit)
{
        struct member *m = LS_CONTAINER(commit, struct member, commit);

        assert_true(ls_loop_is_current(m->loop));
        if (commit->error == LS_GROUP_OK) {
                assert_int_equal(m->offset.error, LS_GROUP_OK);
                if (m->rounds == MEMBERS && !m->finished) {
                        m->finished = true;
                        world_count(m->w, &m->w->finished);
                }
        } else { /* a rebalance began meanwhile */
                assert_true(commit->error == LS_GROUP_ILLEGAL_GENERATION ||
                            commit->error == LS_GROUP_REBALANCE_IN_PROGRESS);
        }
        ls_timer_set(m->loop, &m->timer, BEAT_MS, member_beat);
}

static void
member_synced(struct ls_group_sync *sync)
{
        struct member *m = LS_CONTAINER(sync, struct member, sync);
        enum ls_group_err e = sync->error;

        assert_true(ls_loop_is_current(m->loop));
        m->rounds = e == LS_GROUP_OK ? sync->assignment.ptr[0] : 0; /* how many members there are */
        ls_group_sync_done(sync);
        if (e != LS_GROUP_OK) {
                assert_true(e == LS_GROUP_REBALANCE_IN_PROGRESS ||
                            e == LS_GROUP_ILLEGAL_GENERATION);
                member_join(m);
                return;
        }
        m->offset = (struct ls_group_offset){ .topic = LS_STR("events"),
                                              .partition = m->index,
                                              .leader_epoch = -1,
                                              .offset = 100 + m->index,
                                              .metadata = LS_STR("live") };
        m->commit = (struct ls_group_commit){ .group_id = LS_STR("live"),
                                              .member_id = ls_str_of(m->id),
                                              .instance_id = ls_str_of(m->instance),
                                              .generation = m->generation,
                                              .retention_ms = -1,
                                              .offsets = &m->offset,
                                              .count = 1,
                                              .loop = m->loop,
                                              .done = member_committed };
        ls_group_commit(m->w->groups, &m->commit);
}

static void
member_joined(struct ls_group_join *join)
{
        struct member *m = LS_CONTAINER(join, struct member, join);
        struct ls_group_assignment assignments[MEMBERS];
        uint8_t count = (uint8_t)join->member_count;
        enum ls_group_err e = join->error;

        assert_true(ls_loop_is_current(m->loop));
        assert_true(e == LS_GROUP_OK || e == LS_GROUP_MEMBER_ID_REQUIRED);
        assert_true(count <= MEMBERS);
        snprintf(m->id, sizeof m->id, "%.*s", LS_STR_ARG(join->ret_member_id));
        m->generation = join->generation;
        if (e == LS_GROUP_OK) {
                for (size_t i = 0; i < count; i++) {
                        assignments[i].member_id = join->members[i].member_id;
                        assignments[i].assignment = ls_span_of(&count, 1);
                }
                m->sync = (struct ls_group_sync){ .group_id = LS_STR("live"),
                                                  .generation = m->generation,
                                                  .member_id = ls_str_of(m->id),
                                                  .instance_id = ls_str_of(m->instance),
                                                  .assignments = assignments,
                                                  .assignment_count = count,
                                                  .loop = m->loop,
                                                  .done = member_synced };
                ls_group_sync(m->w->groups, &m->sync);
        }
        ls_group_join_done(join);
        if (e != LS_GROUP_OK)
                member_join(m);
}

static void
member_join(struct member *m)
{
        m->protocol = (struct ls_group_protocol){ LS_STR("range"), ls_span_of("", 0) };
        m->join = (struct ls_group_join){ .group_id = LS_STR("live"),
                                          .member_id = ls_str_of(m->id),
                                          .instance_id = ls_str_of(m->instance),
                                          .client_id = LS_STR("test"),
                                          .client_host = LS_STR("here"),
                                          .protocol_type = LS_STR("consumer"),
                                          .protocols = &m->protocol,
                                          .protocol_count = 1,
                                          .session_timeout_ms = 600000,
                                          .rebalance_timeout_ms = 600000,
                                          .require_member_id = true,
                                          .can_skip_assignment = true,
                                          .loop = m->loop,
                                          .done = member_joined };
        ls_group_join(m->w->groups, &m->join);
}

static void
member_start(struct ls_loop_msg *msg)
{
        member_join(LS_CONTAINER(msg, struct member, start));
}

static void
world_open(struct world *w)
{
        struct ls_errinfo info = { { 0 } };

        if (ls_streams_open(&w->options, &w->streams, &info) != LS_OK)
                fail_msg("open: %s", info.text);
        w->groups = ls_streams_groups(w->streams);
}

static void
world_set(struct world *w, const char *name, const char *value)
{
        assert_int_equal(ls_options_set(&w->options, ls_str_of(name), ls_str_of(value),
                                        LS_OPTION_FLAG, NULL),
                         LS_OK);
}

static int64_t
fetch_one(struct world *w, int partition)
{
        struct ls_group_offset o = { .topic = LS_STR("events"), .partition = partition };
        struct ls_group_offsets hold;

        assert_int_equal(ls_group_fetch(w->groups, LS_STR("live"), &o, 1, &hold), LS_GROUP_OK);
        assert_true(o.offset < 0 || ls_str_is(o.metadata, "live"));
        ls_group_offsets_done(&hold);
        return o.offset;
}

static void
test_live(void **state)
{
        static struct member members[MEMBERS];
        struct world w = { .finished = 0 };
        struct ls_stream *topic = NULL;
        char command[128];

        strncpy(w.dir, "/tmp/ls-group-test-XXXXXX", sizeof w.dir - 1);
        assert_non_null(mkdtemp(w.dir));
        ls_options_init(&w.options);
        world_set(&w, "data.dir", w.dir);
        world_set(&w, "group.initial.rebalance.delay.ms", "0");
        pthread_mutex_init(&w.lock, NULL);
        ls_cond_init(&w.cond);
        assert_int_equal(ls_loop_start("ls-test-0", &w.loops[0]), LS_OK);
        assert_int_equal(ls_loop_start("ls-test-1", &w.loops[1]), LS_OK);
        world_open(&w);
        assert_int_equal(ls_stream_create(w.streams, LS_STR("events"), MEMBERS, NULL, 0, false,
                                          &topic, NULL),
                         LS_OK);
        ls_stream_unref(topic);
        for (int i = 0; i < MEMBERS; i++) {
                members[i] = (struct member){ .w = &w, .index = i, .loop = w.loops[i % 2] };
                members[i].instance = i == 3 ? "host-3" : NULL;
                members[i].start.fn = member_start;
                ls_loop_post(members[i].loop, &members[i].start);
        }
        world_wait(&w, &w.finished);
        pthread_mutex_lock(&w.lock);
        w.stop = true;
        pthread_mutex_unlock(&w.lock);
        world_wait(&w, &w.quiet);

        ls_streams_close(w.streams);
        world_open(&w);
        for (int i = 0; i < MEMBERS; i++) {
                assert_int_equal(
                        ls_group_heartbeat(w.groups, LS_STR("live"), ls_str_of(members[i].id),
                                           ls_str_of(members[i].instance), members[i].generation),
                        LS_GROUP_OK);
                assert_int_equal(fetch_one(&w, i), 100 + i);
        }
        topic = ls_stream_find(w.streams, LS_STR("events"));
        assert_non_null(topic);
        assert_int_equal(ls_stream_delete(w.streams, topic), LS_OK);
        ls_stream_unref(topic);
        assert_int_equal(ls_stream_create(w.streams, LS_STR("events"), MEMBERS, NULL, 0, false,
                                          &topic, NULL),
                         LS_OK);
        ls_stream_unref(topic);
        for (int i = 0; i < MEMBERS; i++)
                assert_int_equal(fetch_one(&w, i), -1);
        ls_streams_close(w.streams);
        ls_loop_stop(w.loops[0]);
        ls_loop_stop(w.loops[1]);
        ls_options_done(&w.options);
        ls_cond_done(&w.cond);
        pthread_mutex_destroy(&w.lock);
        snprintf(command, sizeof command, "rm -rf %s", w.dir);
        assert_int_equal(system(command), 0);
}

int
main(void)
{
        const struct CMUnitTest tests[] = { cmocka_unit_test(test_live) };

        ls_log_setup(LS_LOG_ERROR, NULL, NULL);
        return cmocka_run_group_tests_name("group-live", tests, NULL, NULL);
}
