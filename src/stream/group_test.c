/* stream/group_test.c - membership and rebalance: each state of the protocol, what each request is
 * answered in each, static members (KIP-345, KIP-814), timeouts, restarts, failures of the store.
 * Time, store and loops are the test's: group_test_kit.h. */
#include "base/log.h"
#include "stream/group_test_kit.h"

static void
sync_all(struct kit *k, struct client **who, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (who[i]->leads)
                        client_sync(k, who[i], who, count);
        for (size_t i = 0; i < count; i++)
                if (!who[i]->leads)
                        client_sync(k, who[i], NULL, 0);
}

/* --- the usual course ---------------------------------------------------- */

static void
test_two_members(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a, &b };
        struct ls_group_description d;
        struct ls_arena arena;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        client_init(&a, NULL);
        client_init(&b, NULL);
        client_join(k, &a);
        assert_int_equal(a.joins, 1); /* the id, by MEMBER_ID_REQUIRED; then it waits */
        assert_true(a.joining);
        assert_memory_equal(a.id, "client-", 7);
        client_join(k, &b);
        kit_wait(k, 2900);
        assert_true(a.joining && b.joining);
        kit_wait(k, 3100); /* the delay was begun once more, since b came in it */
        assert_false(a.joining || b.joining);
        assert_int_equal(a.join.error, LS_GROUP_OK);
        assert_int_equal(a.generation, 1);
        assert_int_equal(b.generation, 1);
        assert_true(a.leads && !b.leads);
        assert_int_equal(a.members, 2);
        assert_int_equal(b.members, 0);

        client_sync(k, &b, NULL, 0); /* the follower waits for the leader */
        assert_true(b.syncing);
        assert_int_equal(client_beat(k, &b), LS_GROUP_OK);
        client_sync(k, &a, both, 2);
        assert_false(a.syncing || b.syncing);
        assert_string_equal(a.assignment, "a0");
        assert_string_equal(b.assignment, "a1");
        assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        client_sync(k, &b, NULL, 0); /* asked again: told again */
        assert_string_equal(b.assignment, "a1");

        assert_int_equal(ls_group_describe(k->groups, LS_STR(CLIENT_GROUP), &arena, &d),
                         LS_GROUP_OK);
        assert_string_equal(d.state, "Stable");
        assert_true(ls_str_is(d.protocol_type, "consumer") && ls_str_is(d.protocol_name, "range"));
        assert_int_equal(d.member_count, 2);
        assert_true(ls_str_is(d.members[1].member_id, b.id));
        assert_true(ls_str_is(d.members[1].client_host, "/127.0.0.1"));
        assert_null(d.members[1].instance_id.ptr);
        assert_memory_equal(d.members[1].assignment.ptr, "a1", 2);
        assert_true(group_subscribes(d.members[1].metadata, LS_STR("t1")));
        ls_arena_done(&arena);
        kit_free(k);
}

static void
test_initial_delay(void **state)
{
        struct kit *k = kit_new();
        struct client c[5];

        for (size_t i = 0; i < 5; i++) {
                client_init(&c[i], NULL);
                c[i].join.rebalance_timeout_ms = 7000;
        }
        /* Each comes in the delay of the one before: 3 + 3 + 1 seconds, the rebalance timeout, is
         * all. */
        for (size_t i = 0; i < 3; i++) {
                client_join(k, &c[i]);
                kit_wait(k, 2000);
        }
        kit_wait(k, 900);
        assert_true(c[0].joining);
        kit_wait(k, 200);
        for (size_t i = 0; i < 3; i++)
                assert_int_equal(c[i].generation, 1);
        kit_free(k);

        k = kit_new();
        k->groups->config.initial_delay_ms = 0; /* for tests, mostly */
        client_init(&c[0], NULL);
        client_join(k, &c[0]);
        assert_false(c[0].joining);
        assert_int_equal(c[0].generation, 1);
        kit_free(k);
}

static void
test_third_member_and_leave(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, c, *all[] = { &a, &b, &c };

        client_init(&a, NULL);
        client_init(&b, NULL);
        client_init(&c, NULL);
        k->config.initial_delay_ms = 0;
        kit_restart(k);
        clients_settle(k, all, 1);
        client_join(k, &b);
        assert_true(b.joining);
        assert_int_equal(client_beat(k, &a), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_sync(k, &a, all, 1);
        assert_int_equal(a.sync.error, LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &a); /* the last one: complete */
        assert_false(a.joining || b.joining);
        assert_int_equal(b.generation, 2);
        assert_true(a.leads);
        sync_all(k, all, 2);
        client_join(k, &c);
        client_join(k, &b);
        client_join(k, &a);
        sync_all(k, all, 3);
        assert_string_equal(c.assignment, "a2");
        assert_int_equal(c.generation, 3);

        /* a, the leader, leaves: b leads the next generation */
        assert_int_equal(client_leave(k, &a), LS_GROUP_OK);
        assert_int_equal(client_beat(k, &a), LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(client_beat(k, &b), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &c);
        client_join(k, &b);
        assert_true(b.leads && !c.leads);
        assert_int_equal(b.members, 2);
        assert_int_equal(c.generation, 4);

        /* both at once (v3+), with one that is not there */
        struct ls_group_leaver leavers[] = { { .member_id = ls_str_of(b.id) },
                                             { .member_id = LS_STR("nobody") },
                                             { .member_id = ls_str_of(c.id) } };
        assert_int_equal(ls_group_leave(k->groups, LS_STR(CLIENT_GROUP), leavers, 3), LS_GROUP_OK);
        kit_settle(k);
        assert_int_equal(leavers[0].error, LS_GROUP_OK);
        assert_int_equal(leavers[1].error, LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(leavers[2].error, LS_GROUP_OK);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        assert_int_equal(kit_group(k)->generation, 5);
        assert_int_equal(kit_row(k, CLIENT_GROUP)->generation, 5);
        kit_check(k);
        kit_free(k);
}

/* --- timeouts ---------------------------------------------------- */

static void
test_session(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, NULL);
        clients_settle(k, both, 2);
        for (int i = 0; i < 10; i++) { /* beats keep it; time alone does not end a session */
                kit_wait(k, 9000);
                assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
                assert_int_equal(client_beat(k, &b), LS_GROUP_OK);
        }
        for (int i = 0; i < 2; i++) {
                kit_wait(k, 4900);
                assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        }
        kit_wait(k, 300); /* b has been silent for 10.1 s */
        assert_int_equal(client_beat(k, &b), LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(client_beat(k, &a), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &a);
        assert_int_equal(a.generation, 2);
        assert_int_equal(a.members, 1);
        kit_wait(k, 5000);
        client_sync(k, &a, both, 1);
        kit_wait(k, 10100);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        kit_free(k);
}

static void
test_rebalance_timeout(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, c, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, NULL);
        client_init(&c, NULL);
        b.join.session_timeout_ms = 300000; /* it beats, but never joins again */
        clients_settle(k, both, 2);
        client_join(k, &c);
        client_join(k, &a);
        kit_wait(k, 59000);
        assert_true(a.joining && c.joining); /* who waits for us does not lose its session */
        kit_wait(k, 2000);
        assert_false(a.joining || c.joining);
        assert_int_equal(c.generation, 2);
        assert_int_equal(a.members, 2);
        assert_int_equal(client_beat(k, &b), LS_GROUP_UNKNOWN_MEMBER_ID);
        kit_free(k);
}

/* A member joined and never asks for its assignment: the others do not wait for ever. */
static void
test_sync_timeout(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, NULL);
        for (size_t i = 0; i < 2; i++) {
                both[i]->join.session_timeout_ms = 300000;
                client_join(k, both[i]);
        }
        kit_wait(k, 10000);
        client_sync(k, &b, NULL, 0);
        kit_wait(k, 60000);
        assert_false(b.syncing); /* the leader was taken out */
        assert_int_equal(b.sync.error, LS_GROUP_REBALANCE_IN_PROGRESS);
        assert_int_equal(client_beat(k, &a), LS_GROUP_UNKNOWN_MEMBER_ID);
        client_join(k, &b);
        assert_true(b.leads);
        assert_int_equal(b.generation, 2);
        kit_free(k);
}

/* A member id that was given out and never used: gone after the session timeout, and it holds up a
 * rebalance until then. */
static void
test_pending_member(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, NULL);
        clients_settle(k, both, 1);
        b.join.protocols = b.protocols;
        b.join.done = client_joined;
        b.joining = true;
        ls_group_join(k->groups, &b.join);
        kit_settle(k);
        assert_int_equal(b.join.error, LS_GROUP_MEMBER_ID_REQUIRED);
        assert_int_equal(client_beat(k, &b), LS_GROUP_UNKNOWN_MEMBER_ID);
        client_join(k, &a); /* the leader joins again: a rebalance, which waits for b */
        assert_true(a.joining);
        kit_wait(k, 9000);
        assert_true(a.joining);
        kit_wait(k, 2000);
        assert_false(a.joining);
        client_join(k, &b); /* its id is no longer known */
        assert_int_equal(b.join.error, LS_GROUP_UNKNOWN_MEMBER_ID);

        client_sync(k, &a, both, 1);
        b.id[0] = '\0'; /* and one that leaves before it has joined */
        b.joining = true;
        b.join.member_id = LS_STR("");
        ls_group_join(k->groups, &b.join);
        kit_settle(k);
        client_join(k, &a);
        assert_true(a.joining);
        assert_int_equal(client_leave(k, &b), LS_GROUP_OK);
        assert_false(a.joining);
        kit_free(k);
}

/* --- what is refused ---------------------------------------------------- */

static void
test_join_refusals(void **state)
{
        struct kit *k = kit_new();
        struct client a, b;

        client_init(&a, NULL);
        a.join.session_timeout_ms = 5999;
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_INVALID_SESSION_TIMEOUT);
        a.join.session_timeout_ms = 1800001;
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_INVALID_SESSION_TIMEOUT);
        a.join.session_timeout_ms = 10000;
        a.join.group_id = LS_STR("");
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_INVALID_GROUP_ID);
        a.join.group_id = LS_STR("a\0b");
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_INVALID_GROUP_ID);
        a.join.group_id = LS_STR(CLIENT_GROUP);
        strcpy(a.id, "made-up");
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_UNKNOWN_MEMBER_ID);
        a.id[0] = '\0';
        a.join.protocol_count = 0;
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_INCONSISTENT_PROTOCOL);
        a.join.protocol_count = 1;
        a.join.protocol_type = LS_STR("");
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_INCONSISTENT_PROTOCOL);
        assert_int_equal(k->groups->groups.count, 0); /* nothing was left behind */
        a.join.protocol_type = LS_STR("consumer");
        struct ls_group_protocol many[GROUP_PROTOCOLS_MAX + 1];
        for (size_t i = 0; i < LS_COUNT(many); i++)
                many[i] = a.protocols[0];
        a.join.protocols = many;
        a.join.protocol_count = LS_COUNT(many);
        a.join.done = client_joined;
        a.joining = true;
        ls_group_join(k->groups, &a.join);
        kit_settle(k);
        assert_int_equal(a.join.error, LS_GROUP_INVALID_REQUEST);
        a.join.protocol_count = 1;

        client_join(k, &a);
        kit_wait(k, 3100);
        client_init(&b, NULL);
        b.join.protocol_type = LS_STR("connect");
        client_join(k, &b);
        assert_int_equal(b.join.error, LS_GROUP_INCONSISTENT_PROTOCOL);
        b.join.protocol_type = LS_STR("consumer");
        client_subscribe(&b, 0, "roundrobin", "t1");
        client_join(k, &b);
        assert_int_equal(b.join.error, LS_GROUP_INCONSISTENT_PROTOCOL);
        kit_check(k);
        kit_free(k);
}

static void
test_sync_and_beat_refusals(void **state)
{
        struct kit *k = kit_new();
        struct client a, *all[] = { &a };
        struct client stranger;

        client_init(&a, NULL);
        client_init(&stranger, NULL);
        strcpy(stranger.id, "stranger");
        client_sync(k, &stranger, NULL, 0);
        assert_int_equal(stranger.sync.error, LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(client_beat(k, &stranger), LS_GROUP_UNKNOWN_MEMBER_ID);
        clients_settle(k, all, 1);
        client_sync(k, &stranger, NULL, 0);
        assert_int_equal(stranger.sync.error, LS_GROUP_UNKNOWN_MEMBER_ID);
        a.generation++;
        client_sync(k, &a, NULL, 0);
        assert_int_equal(a.sync.error, LS_GROUP_ILLEGAL_GENERATION);
        assert_int_equal(client_beat(k, &a), LS_GROUP_ILLEGAL_GENERATION);
        a.generation--;
        a.sync = (struct ls_group_sync){ .group_id = LS_STR(CLIENT_GROUP),
                                         .generation = a.generation,
                                         .member_id = ls_str_of(a.id),
                                         .protocol_name = LS_STR("other"),
                                         .done = client_synced };
        a.syncing = true;
        ls_group_sync(k->groups, &a.sync);
        kit_settle(k);
        assert_int_equal(a.sync.error, LS_GROUP_INCONSISTENT_PROTOCOL);
        a.sync.protocol_name = LS_STR("range");
        a.sync.protocol_type = LS_STR("connect");
        a.syncing = true;
        ls_group_sync(k->groups, &a.sync);
        kit_settle(k);
        assert_int_equal(a.sync.error, LS_GROUP_INCONSISTENT_PROTOCOL);
        assert_int_equal(ls_group_heartbeat(k->groups, LS_STR(""), LS_STR("x"), LS_STR_NULL, 1),
                         LS_GROUP_INVALID_GROUP_ID);
        struct ls_group_leaver leaver = { .member_id = LS_STR("x") };
        assert_int_equal(ls_group_leave(k->groups, LS_STR("absent"), &leaver, 1), LS_GROUP_OK);
        assert_int_equal(leaver.error, LS_GROUP_UNKNOWN_MEMBER_ID);
        kit_free(k);
}

static void
test_max_size(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, c, *both[] = { &a, &b };

        k->groups->config.size_max = 2;
        client_init(&a, NULL);
        client_init(&b, NULL);
        client_init(&c, NULL);
        clients_settle(k, both, 2);
        client_join(k, &c);
        assert_int_equal(c.join.error, LS_GROUP_MAX_SIZE_REACHED);
        client_join(k, &a);
        client_join(k, &c); /* b has not come yet, but it is still a member: joins count */
        client_join(k, &b);
        kit_wait(k, 61000);
        kit_check(k);
        kit_free(k);
}

/* --- protocols ---------------------------------------------------- */

static void
test_vote(void **state)
{
        struct kit *k = kit_new();
        struct client c[3], *all[] = { &c[0], &c[1], &c[2] };

        for (size_t i = 0; i < 3; i++)
                client_init(&c[i], NULL);
        client_subscribe(&c[0], 0, "range", "t1");
        client_subscribe(&c[0], 1, "sticky", "t1");
        client_subscribe(&c[1], 0, "sticky", "t1");
        client_subscribe(&c[1], 1, "range", "t1");
        client_subscribe(&c[2], 0, "sticky", "t1");
        client_subscribe(&c[2], 1, "range", "t1");
        clients_settle(k, all, 3);
        assert_string_equal(kit_group(k)->protocol_name, "sticky"); /* two votes to one */
        /* c[1] and c[2] support only range from now on */
        client_subscribe(&c[1], 0, "range", "t1");
        c[1].join.protocol_count = 1;
        client_subscribe(&c[2], 0, "range", "t1");
        c[2].join.protocol_count = 1;
        client_join(k, &c[1]);
        client_join(k, &c[2]);
        client_join(k, &c[0]);
        assert_int_equal(c[0].join.error, LS_GROUP_OK);
        assert_string_equal(kit_group(k)->protocol_name, "range");
        kit_free(k);
}

/* A follower that joins again with the same metadata in a stable group is told the generation, at
 * once; with other metadata, or if it leads, there is a rebalance. */
static void
test_join_again(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, NULL);
        client_join(k, &a);
        client_join(k, &b);
        kit_wait(k, 7000);
        client_join(k, &b); /* it lost our answer, and the group waits for assignments */
        assert_int_equal(b.join.error, LS_GROUP_OK);
        assert_int_equal(b.generation, 1);
        client_join(k, &a);
        assert_int_equal(a.generation, 1);
        assert_int_equal(a.members, 2);
        sync_all(k, both, 2);
        client_join(k, &b);
        assert_int_equal(b.generation, 1);
        assert_string_equal(b.leader, a.id);
        assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        client_subscribe(&b, 0, "range", "t2");
        client_join(k, &b);
        assert_true(b.joining);
        assert_int_equal(client_beat(k, &a), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &a);
        assert_int_equal(b.generation, 2);
        sync_all(k, both, 2);
        client_join(k, &a); /* the leader: it saw new partitions */
        assert_true(a.joining);
        client_join(k, &b);
        assert_int_equal(a.generation, 3);
        /* with another subscription while assignments are awaited */
        client_subscribe(&b, 0, "range", "t3");
        client_sync(k, &b, NULL, 0);
        assert_true(b.syncing);
        client_join(k, &b);
        assert_false(b.syncing);
        assert_int_equal(b.sync.error, LS_GROUP_REBALANCE_IN_PROGRESS);
        assert_true(b.joining);
        kit_free(k);
}

/* The same member joins and syncs twice while it waits: each request is answered once. */
static void
test_repeated_requests(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, copy, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, NULL);
        client_join(k, &a);
        copy = a;
        copy.joining = false;
        copy.joins = 0;
        client_join(k, &copy);
        assert_false(a.joining); /* the earlier one was answered */
        assert_int_equal(a.join.error, LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &b);
        kit_wait(k, 10000);
        assert_int_equal(copy.join.error, LS_GROUP_OK);
        client_sync(k, &b, NULL, 0);
        struct client again = b;
        again.syncing = false;
        client_sync(k, &again, NULL, 0);
        assert_false(b.syncing);
        assert_int_equal(b.sync.error, LS_GROUP_REBALANCE_IN_PROGRESS);
        a = copy;
        client_sync(k, &a, both, 2);
        assert_string_equal(again.assignment, "a1");
        kit_free(k);
}

/* --- static members: B029 --------------------------------------------------------------------- */

/* Requests of the old process, whose place was taken. */
static void
check_fenced(struct kit *k, struct client *old)
{
        struct client ghost = *old;

        ghost.joining = ghost.syncing = false;
        assert_int_equal(client_beat(k, &ghost), LS_GROUP_FENCED_INSTANCE_ID);
        client_sync(k, &ghost, NULL, 0);
        assert_int_equal(ghost.sync.error, LS_GROUP_FENCED_INSTANCE_ID);
        client_join(k, &ghost);
        assert_int_equal(ghost.join.error, LS_GROUP_FENCED_INSTANCE_ID);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &ghost, "t1", 0, 1, LS_STR("")),
                         LS_GROUP_FENCED_INSTANCE_ID);
        assert_int_equal(client_leave(k, &ghost), LS_GROUP_FENCED_INSTANCE_ID);
}

static void
test_static_stable(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, c, again, *all[] = { &a, &b, &c };

        client_init(&a, "host-a");
        client_init(&b, "host-b");
        client_init(&c, "host-c");
        clients_settle(k, all, 3);
        assert_true(a.leads);
        assert_memory_equal(b.id, "host-b-", 7);
        /* b restarts: no rebalance, its assignment is handed back */
        client_init(&again, "host-b");
        client_join(k, &again);
        assert_int_equal(again.join.error, LS_GROUP_OK);
        assert_false(again.join.skip_assignment);
        assert_int_equal(again.generation, 1);
        assert_string_not_equal(again.id, b.id);
        assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        assert_int_equal(client_beat(k, &c), LS_GROUP_OK);
        check_fenced(k, &b);
        client_sync(k, &again, NULL, 0);
        assert_string_equal(again.assignment, "a1");
        assert_int_equal(commit_one(k, CLIENT_GROUP, &again, "t1", 0, 1, LS_STR("")), LS_GROUP_OK);
        /* a, the leader, restarts: told to skip the assignment (KIP-814) but knows the members */
        client_init(&b, "host-a");
        client_join(k, &b);
        assert_int_equal(b.join.error, LS_GROUP_OK);
        assert_true(b.join.skip_assignment && b.leads);
        assert_int_equal(b.members, 3);
        client_sync(k, &b, NULL, 0);
        assert_string_equal(b.assignment, "a0");
        /* before v9: it must not think that it leads, so it is told the old id */
        client_init(&a, "host-a");
        a.join.can_skip_assignment = false;
        client_join(k, &a);
        assert_false(a.join.skip_assignment || a.leads);
        assert_string_equal(a.leader, b.id);
        client_sync(k, &a, NULL, 0);
        assert_string_equal(a.assignment, "a0");
        assert_int_equal(client_beat(k, &c), LS_GROUP_OK);
        assert_int_equal(kit_group(k)->generation, 1);
        /* with another subscription there must be a rebalance */
        client_init(&again, "host-b");
        client_subscribe(&again, 0, "range", "t7");
        client_join(k, &again);
        assert_true(again.joining);
        assert_int_equal(client_beat(k, &c), LS_GROUP_REBALANCE_IN_PROGRESS);
        kit_free(k);
}

/* The old process waits in a join; in the delay of the first one, and in a later one. */
static void
test_static_preparing(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, again, third, *both[] = { &a, &b };

        client_init(&a, "host-a");
        client_init(&b, "host-b");
        client_init(&again, "host-b");
        client_join(k, &a);
        client_join(k, &b);
        client_join(k, &again);
        assert_false(b.joining);
        assert_int_equal(b.join.error, LS_GROUP_FENCED_INSTANCE_ID);
        kit_wait(k, 10000);
        assert_int_equal(again.generation, 1);
        assert_int_equal(a.members, 2);
        b = again;
        sync_all(k, both, 2);
        client_init(&third, NULL);
        client_join(k, &third); /* a rebalance; b has not come yet */
        client_init(&again, "host-b");
        client_join(k, &again);
        assert_true(again.joining);
        check_fenced(k, &b);
        client_join(k, &a);
        assert_int_equal(again.generation, 2);
        assert_int_equal(a.members, 3);
        kit_free(k);
}

static void
test_static_completing(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, again, *both[] = { &a, &again };

        client_init(&a, "host-a");
        client_init(&b, "host-b");
        client_init(&again, "host-b");
        client_join(k, &a);
        client_join(k, &b);
        kit_wait(k, 10000);
        client_sync(k, &b, NULL, 0);
        client_join(k, &again);
        assert_false(b.syncing);
        assert_int_equal(b.sync.error, LS_GROUP_FENCED_INSTANCE_ID);
        check_fenced(k, &b);
        assert_int_equal(client_beat(k, &a), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &a);
        assert_int_equal(again.generation, 2);
        sync_all(k, both, 2);
        assert_string_equal(again.assignment, "a1");
        kit_free(k);
}

/* The whole group has gone; a static member's place ends with its session, not with the rebalance.
 * */
static void
test_static_empty_and_silent(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, again, *both[] = { &a, &b };

        client_init(&a, "host-a");
        client_init(&b, "host-b");
        b.join.session_timeout_ms = 120000;
        b.join.rebalance_timeout_ms = a.join.rebalance_timeout_ms = 20000;
        clients_settle(k, both, 2);
        client_beat(k, &b);
        client_join(k, &a);
        kit_wait(k, 21000); /* the rebalance is over without b, which stays: it is static */
        assert_false(a.joining);
        assert_int_equal(a.members, 2);
        client_leave(k, &a);
        kit_wait(k, 130000);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        client_init(&again, "host-b");
        client_join(k, &again);
        assert_true(again.joining);
        kit_wait(k, 10000);
        assert_int_equal(again.join.error, LS_GROUP_OK);
        assert_int_equal(client_beat(k, &b), LS_GROUP_FENCED_INSTANCE_ID);
        kit_free(k);
}

static void
test_static_refusals(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a };
        struct ls_group_leaver leavers[] = {
                { .member_id = LS_STR(""), .instance_id = LS_STR("host-x") },
                { .member_id = LS_STR(""), .instance_id = LS_STR_NULL },
                { .member_id = LS_STR(""), .instance_id = LS_STR("host-a") }
        };

        client_init(&a, "host-a");
        clients_settle(k, both, 1);
        client_init(&b, "host-x"); /* an id and an instance that do not belong together */
        strcpy(b.id, a.id);
        client_join(k, &b);
        assert_int_equal(b.join.error, LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(client_beat(k, &b), LS_GROUP_UNKNOWN_MEMBER_ID);
        /* an operator removes an instance by its name */
        assert_int_equal(ls_group_leave(k->groups, LS_STR(CLIENT_GROUP), leavers, 3), LS_GROUP_OK);
        kit_settle(k);
        assert_int_equal(leavers[0].error, LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(leavers[1].error, LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(leavers[2].error, LS_GROUP_OK);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        kit_free(k);
}

/* --- many at once ---------------------------------------------------- */

/* Three come at once, dynamic, then static; all get one generation, nobody is told
 * UNKNOWN_MEMBER_ID. */
static void
test_three_at_once(void **state)
{
        static const char *const instances[2][3] = { { NULL, NULL, NULL }, { "h0", "h1", "h2" } };

        for (int fixed = 0; fixed < 2; fixed++) {
                struct kit *k = kit_new();
                struct client c[3], *all[] = { &c[0], &c[1], &c[2] };

                for (size_t i = 0; i < 3; i++) {
                        client_init(&c[i], instances[fixed][i]);
                        c[i].join.protocols = c[i].protocols;
                        c[i].join.instance_id = ls_str_of(c[i].instance);
                        c[i].join.done = client_joined;
                        c[i].joining = true;
                }
                /* all first joins are on the wire before the first answer */
                for (size_t i = 0; i < 3; i++)
                        ls_group_join(k->groups, &c[i].join);
                kit_settle(k);
                for (size_t i = 0; i < 3 && !fixed; i++) {
                        assert_int_equal(c[i].join.error, LS_GROUP_MEMBER_ID_REQUIRED);
                        client_join(k, &c[i]);
                }
                kit_wait(k, 10000);
                sync_all(k, all, 3);
                for (size_t i = 0; i < 3; i++) {
                        assert_int_equal(c[i].join.error, LS_GROUP_OK);
                        assert_int_equal(c[i].generation, 1);
                        assert_int_equal(c[i].sync.error, LS_GROUP_OK);
                        assert_int_equal(client_beat(k, &c[i]), LS_GROUP_OK);
                        assert_int_equal(strlen(c[i].assignment), 2);
                }
                kit_free(k);
        }
}

/* --- restart and failures ---------------------------------------------------- */

static void
test_restart(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, c, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, "host-b");
        clients_settle(k, both, 2);
        kit_restart(k);
        /* members beat on, with their generation, and are told the same assignment */
        assert_int_equal(kit_group(k)->state, GROUP_STABLE);
        for (int i = 0; i < 3; i++) {
                kit_wait(k, 9000);
                assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
                assert_int_equal(client_beat(k, &b), LS_GROUP_OK);
        }
        client_sync(k, &b, NULL, 0);
        assert_string_equal(b.assignment, "a1");
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 7, LS_STR("")), LS_GROUP_OK);
        client_join(k, &b); /* static, its id known: the generation, at once */
        assert_int_equal(b.join.error, LS_GROUP_OK);
        assert_int_equal(b.generation, 1);
        client_init(&c, NULL);
        client_join(k, &c);
        client_join(k, &b);
        client_join(k, &a);
        assert_int_equal(c.generation, 2);
        /* a restart before the leader gave its assignment: all join again */
        kit_restart(k);
        assert_int_equal(kit_group(k)->state, GROUP_PREPARING);
        assert_int_equal(client_beat(k, &c), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &a);
        client_join(k, &b);
        client_join(k, &c);
        assert_int_equal(c.generation, 3);
        /* who does not come back within its session is out */
        sync_all(k, both, 2);
        client_sync(k, &c, NULL, 0);
        kit_restart(k);
        kit_wait(k, 10100);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        kit_restart(k);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        assert_int_equal(kit_group(k)->generation, 4);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 7);
        kit_free(k);
}

/* The store refuses (disk full): members are told to try again, nothing is lost, later it works. */
static void
test_store_fails(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, NULL);
        client_join(k, &a);
        client_join(k, &b);
        kit_wait(k, 10000);
        k->fail = LS_ENOSPC;
        client_sync(k, &b, NULL, 0);
        client_sync(k, &a, both, 2);
        assert_int_equal(a.sync.error, LS_GROUP_NOT_AVAILABLE);
        assert_int_equal(b.sync.error, LS_GROUP_NOT_AVAILABLE);
        assert_int_equal(client_beat(k, &a), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &a);
        client_join(k, &b); /* the new generation is not stored either */
        assert_int_equal(a.generation, 2);
        k->fail = LS_OK;
        sync_all(k, both, 2);
        assert_string_equal(b.assignment, "a1");
        assert_int_equal(kit_row(k, CLIENT_GROUP)->generation, 2);
        k->fail = LS_ENOSPC;
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 7, LS_STR("")),
                         LS_GROUP_NOT_AVAILABLE);
        k->fail = LS_OK;
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), -1);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 7, LS_STR("")), LS_GROUP_OK);
        kit_check(k);
        kit_free(k);
}

static void
test_close_answers(void **state)
{
        struct kit *k = kit_new();
        struct client a, b;

        client_init(&a, NULL);
        client_init(&b, NULL);
        client_join(k, &a);
        kit_wait(k, 5000);
        client_join(k, &b);
        assert_true(b.joining);
        kit_free(k);
        assert_false(b.joining);
        assert_int_equal(b.join.error, LS_GROUP_NOT_COORDINATOR);
}

/* --- the stored state ---------------------------------------------------- */

static void
test_blob(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, *both[] = { &a, &b };
        struct ls_buf blob, again;
        struct ls_group *grp;

        client_init(&a, NULL);
        client_init(&b, "host-b");
        clients_settle(k, both, 2);
        ls_buf_init(&blob, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&again, LS_BUF_MAX_DEFAULT);
        group_blob_write(kit_group(k), &blob);
        grp = group_make(k->groups, LS_STR("copy"));
        assert_int_equal(group_blob_read(grp, ls_buf_span(&blob)), LS_OK);
        group_blob_write(grp, &again);
        assert_int_equal(again.len, blob.len);
        assert_memory_equal(again.ptr, blob.ptr, blob.len);
        group_drop(k->groups, grp);
        for (size_t cut = 0; cut < blob.len; cut++) {
                grp = group_make(k->groups, LS_STR("copy"));
                assert_int_equal(group_blob_read(grp, (ls_span){ blob.ptr, cut }), LS_EBROKEN);
                grp->state = GROUP_EMPTY;
                group_drop(k->groups, grp);
        }
        for (size_t bit = 0; bit < blob.len * 8; bit++) {
                ls_err e;

                blob.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
                grp = group_make(k->groups, LS_STR("copy"));
                e = group_blob_read(grp, ls_buf_span(&blob));
                assert_true(e == LS_EBROKEN || (bit < 8 && e == LS_NEWER_FORMAT));
                group_drop(k->groups, grp);
                blob.ptr[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
        /* A damaged row does not stop the broker; its group begins empty, above the stored
         * generation. */
        struct kit_row *row = kit_row(k, CLIENT_GROUP);
        row->state.ptr[20] ^= 1;
        kit_restart(k);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        assert_int_equal(kit_group(k)->generation, 1);
        assert_int_equal(client_beat(k, &a), LS_GROUP_UNKNOWN_MEMBER_ID);
        client_init(&a, NULL);
        clients_settle(k, both, 1);
        assert_int_equal(a.generation, 2);
        ls_buf_done(&blob);
        ls_buf_done(&again);
        kit_free(k);
}

/* --- everything at random ---------------------------------------------------- */

#define WALK_CLIENTS 8

static uint32_t
walk_random(struct kit *k, uint32_t below)
{
        uint32_t v;

        kit_random(k, &v, sizeof v);
        return v % below;
}

/* What a client does that follows the protocol, is impatient, or dies. */
static void
walk_step(struct kit *k, struct client *c, struct client **all)
{
        enum ls_group_err e;

        if (c->joining || c->syncing)
                return;
        switch (walk_random(k, 12)) {
        case 0: /* dies; static ones come back under their name */
                c->id[0] = '\0';
                c->generation = -1;
                break;
        case 1: client_leave(k, c); break;
        case 2: client_subscribe(c, 0, "range", walk_random(k, 2) ? "t1" : "t2"); break;
        case 3: commit_one(k, CLIENT_GROUP, c, "t1", 1, 5, LS_STR("m")); break;
        case 4: client_sync(k, c, all, WALK_CLIENTS); break;
        default:
                e = client_beat(k, c);
                if (e == LS_GROUP_UNKNOWN_MEMBER_ID || e == LS_GROUP_FENCED_INSTANCE_ID) {
                        c->id[0] = '\0';
                        c->generation = -1;
                }
                if (e != LS_GROUP_OK)
                        client_join(k, c);
                else if (!c->joining)
                        client_sync(k, c, all, WALK_CLIENTS);
        }
}

static void
test_random_walk(void **state)
{
        static const char *const instances[WALK_CLIENTS] = { [5] = "h5", [6] = "h6", [7] = "h7" };

        for (uint64_t seed = 1; seed <= 60; seed++) {
                struct kit *k = kit_new();
                struct client c[WALK_CLIENTS], *all[WALK_CLIENTS];
                int32_t generation = 0;

                k->random = seed;
                for (size_t i = 0; i < WALK_CLIENTS; i++) {
                        client_init(&c[i], instances[i]);
                        all[i] = &c[i];
                }
                for (int step = 0; step < 400; step++) {
                        struct ls_group *grp = kit_group(k);

                        k->fail = walk_random(k, 20) == 0 ? LS_ENOSPC : LS_OK;
                        walk_step(k, &c[walk_random(k, WALK_CLIENTS)], all);
                        kit_wait(k, walk_random(k, 40) == 0 ? 20000 : walk_random(k, 1500));
                        if (grp != NULL && kit_group(k) == grp) {
                                assert_true(grp->generation >= generation);
                                generation = grp->generation;
                        }
                        if (walk_random(k, 100) == 0) {
                                k->fail = LS_OK;
                                kit_restart(k);
                                generation = 0;
                        }
                }
                /* In the end everybody who follows the rules gets an assignment. */
                k->fail = LS_OK;
                for (int step = 0; step < 400; step++) {
                        for (size_t i = 0; i < WALK_CLIENTS; i++) {
                                enum ls_group_err e;

                                if (c[i].joining || c[i].syncing)
                                        continue;
                                e = client_beat(k, &c[i]);
                                if (e == LS_GROUP_UNKNOWN_MEMBER_ID ||
                                    e == LS_GROUP_FENCED_INSTANCE_ID)
                                        c[i].id[0] = '\0';
                                if (e != LS_GROUP_OK)
                                        client_join(k, &c[i]);
                                else
                                        client_sync(k, &c[i], all, WALK_CLIENTS);
                        }
                        kit_wait(k, 1000);
                }
                assert_int_equal(kit_group(k)->state, GROUP_STABLE);
                assert_int_equal(kit_group(k)->member_count, WALK_CLIENTS);
                for (size_t i = 0; i < WALK_CLIENTS; i++) {
                        assert_int_equal(c[i].generation, kit_group(k)->generation);
                        assert_int_equal(c[i].sync.error, LS_GROUP_OK);
                        assert_int_equal(c[i].assignment[1] - '0', i);
                }
                kit_free(k);
        }
}

static void
no_log(void *ctx, const char *line, size_t len)
{
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_two_members),
                cmocka_unit_test(test_initial_delay),
                cmocka_unit_test(test_third_member_and_leave),
                cmocka_unit_test(test_session),
                cmocka_unit_test(test_rebalance_timeout),
                cmocka_unit_test(test_sync_timeout),
                cmocka_unit_test(test_pending_member),
                cmocka_unit_test(test_join_refusals),
                cmocka_unit_test(test_sync_and_beat_refusals),
                cmocka_unit_test(test_max_size),
                cmocka_unit_test(test_vote),
                cmocka_unit_test(test_join_again),
                cmocka_unit_test(test_repeated_requests),
                cmocka_unit_test(test_static_stable),
                cmocka_unit_test(test_static_preparing),
                cmocka_unit_test(test_static_completing),
                cmocka_unit_test(test_static_empty_and_silent),
                cmocka_unit_test(test_static_refusals),
                cmocka_unit_test(test_three_at_once),
                cmocka_unit_test(test_restart),
                cmocka_unit_test(test_store_fails),
                cmocka_unit_test(test_close_answers),
                cmocka_unit_test(test_blob),
                cmocka_unit_test(test_random_walk),
        };

        ls_log_setup(LS_LOG_ERROR, no_log, NULL); /* failures are made on purpose here */
        return cmocka_run_group_tests_name("group", tests, NULL, NULL);
}
