/* stream/group_owner_test.c - proves, for one of many brokers: a group is read when it is first
 * asked for, and meanwhile says so; that it is not stored is remembered, for a while; a group that
 * goes to another broker is given up, who waits in it is told, and nothing more is written; one
 * that comes back is read anew; a row that another coordinator wrote is never written over, neither
 * by a rebalance, nor by offsets from outside, nor by a deletion; expiry looks at its own groups
 * only. Two coordinators over one store: the second is the same kit with `groups` exchanged. */
#include "base/log.h"
#include "stream/group_test_kit.h"

/* The other broker's coordinator, over the same store. */
static struct ls_groups *
other_start(struct kit *k)
{
        struct ls_groups *mine = k->groups, *other;

        kit_start(k);
        other = k->groups;
        k->groups = mine;
        return other;
}

/* The calls that follow are made to the other one, which the list of brokers gives the groups. */
static void
exchange(struct kit *k, struct ls_groups **other)
{
        struct ls_groups *g = k->groups;

        k->groups = *other;
        *other = g;
}

static void
other_stop(struct kit *k, struct ls_groups *other)
{
        exchange(k, &other);
        kit_stop(k);
        k->groups = other;
}

/* The list of brokers has changed, and the coordinator's thread has seen it. */
static void
give(struct kit *k, bool theirs)
{
        k->theirs = theirs;
        k->owners_changed = true;
        groups_tick(k->groups);
        kit_settle(k);
}

static struct ls_group *
group_in_memory(struct kit *k)
{
        struct ls_group *grp = kit_group(k);

        return grp != NULL && grp->presence == GROUP_HERE ? grp : NULL;
}

static void
load_group(struct kit *k)
{
        assert_int_equal(ls_group_load(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_OK);
}

/* --- coming ---------------------------------------------------- */

static void
test_read_when_asked(void **state)
{
        struct kit *k = kit_new_with(true);
        struct client a;

        client_init(&a, NULL);
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_LOAD_IN_PROGRESS);
        assert_int_equal(k->gets, 0); /* never by the caller, which may be a loop */
        assert_int_equal(client_beat(k, &a), LS_GROUP_LOAD_IN_PROGRESS);
        groups_tick(k->groups);
        assert_int_equal(k->gets, 1);
        assert_int_equal(client_beat(k, &a), LS_GROUP_UNKNOWN_MEMBER_ID); /* not stored */
        assert_int_equal(k->gets, 1);
        clients_settle(k, (struct client *[]){ &a }, 1);
        assert_int_equal(a.generation, 1);
        assert_int_equal(client_beat(k, &a), LS_GROUP_OK);

        /* A new process: sessions and generation go on once it is read. */
        kit_restart(k);
        assert_int_equal(k->groups->groups.count, 0);
        assert_int_equal(client_beat(k, &a), LS_GROUP_LOAD_IN_PROGRESS);
        groups_tick(k->groups);
        assert_int_equal(k->gets, 2);
        assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 5, LS_STR("")), LS_GROUP_OK);
        kit_wait(k, a.join.session_timeout_ms + 200); /* its session runs since then */
        assert_int_equal(client_beat(k, &a), LS_GROUP_UNKNOWN_MEMBER_ID);
        kit_free(k);
}

static void
test_not_stored_is_remembered(void **state)
{
        struct kit *k = kit_new_with(true);
        struct ls_group_description d;
        struct ls_arena arena;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        load_group(k);
        for (int i = 0; i < 3; i++)
                assert_int_equal(ls_group_describe(k->groups, LS_STR(CLIENT_GROUP), &arena, &d),
                                 LS_GROUP_ID_NOT_FOUND);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_ID_NOT_FOUND);
        assert_int_equal(k->gets, 1);
        assert_int_equal(k->groups->groups.count, 1);
        kit_wait(k, GROUP_NOWHERE_MS + 200);
        assert_int_equal(k->groups->groups.count, 0); /* so that asking costs no memory */
        /* A commit from outside begins a group, as ever; the offsets that are fetched before it
         * have the group read meanwhile. */
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), -1);
        groups_tick(k->groups);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 9, LS_STR("")), LS_GROUP_OK);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 9);
        assert_non_null(group_in_memory(k));
        /* No row has such a name. */
        assert_int_equal(ls_group_load(k->groups, LS_STR("a\0b")), LS_GROUP_INVALID_GROUP_ID);
        ls_arena_done(&arena);
        kit_free(k);
}

static void
lose_now(struct kit *k)
{
        k->theirs = true;
        k->owners_changed = true;
        groups_tick(k->groups);
}

static void
test_reading_fails(void **state)
{
        struct kit *k = kit_new_with(true);
        struct client a;

        client_init(&a, NULL);
        k->get_fail = LS_EDB;
        assert_int_equal(client_beat(k, &a), LS_GROUP_LOAD_IN_PROGRESS);
        groups_tick(k->groups);
        assert_int_equal(client_beat(k, &a), LS_GROUP_LOAD_IN_PROGRESS);
        assert_int_equal(ls_group_load(k->groups, LS_STR(CLIENT_GROUP)),
                         LS_GROUP_LOAD_IN_PROGRESS); /* once, not for ever */
        assert_int_equal(k->gets, 2);
        assert_null(kit_group(k));
        k->get_fail = LS_OK;
        clients_settle(k, (load_group(k), (struct client *[]){ &a }), 1);

        /* Another's while it is read. */
        kit_restart(k);
        k->on_get = lose_now;
        assert_int_equal(client_beat(k, &a), LS_GROUP_LOAD_IN_PROGRESS);
        groups_tick(k->groups);
        assert_null(kit_group(k));
        assert_int_equal(client_beat(k, &a), LS_GROUP_NOT_COORDINATOR);
        kit_free(k);
}

/* --- going ---------------------------------------------------- */

static void
test_lost_in_a_rebalance(void **state)
{
        struct kit *k = kit_new_with(true);
        struct client a, b, *both[] = { &a, &b };
        struct ls_groups *other = other_start(k);
        uint64_t version;

        client_init(&a, NULL);
        client_init(&b, NULL);
        load_group(k);
        clients_settle(k, both, 2);
        version = kit_row(k, CLIENT_GROUP)->version;

        /* One of the two joins anew and waits for the other. */
        client_join(k, &a);
        assert_true(a.joining);
        assert_int_equal(client_beat(k, &b), LS_GROUP_REBALANCE_IN_PROGRESS);
        give(k, true);
        assert_false(a.joining);
        assert_int_equal(a.join.error, LS_GROUP_NOT_COORDINATOR);
        assert_null(kit_group(k));
        assert_int_equal(client_beat(k, &b), LS_GROUP_NOT_COORDINATOR);
        kit_wait(k, 120000); /* no timer of it is left */
        assert_int_equal(kit_row(k, CLIENT_GROUP)->version, version);

        /* The other broker knows what was stored: the generation before, stable. */
        exchange(k, &other);
        k->theirs = false;
        load_group(k);
        assert_int_equal(client_beat(k, &b), LS_GROUP_OK);
        clients_settle(k, both, 2);
        assert_int_equal(a.generation, 2);

        /* And back, read anew. */
        give(k, true);
        exchange(k, &other);
        k->theirs = false;
        load_group(k);
        assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        assert_int_equal(group_in_memory(k)->generation, 2);
        other_stop(k, other);
        kit_free(k);
}

static void
test_lost_in_a_sync(void **state)
{
        struct kit *k = kit_new_with(true);
        struct client a, b, *both[] = { &a, &b };
        struct ls_group_leaver leaver = { .member_id = LS_STR("m") };
        struct ls_group_description d;
        struct ls_group_offset o = { .topic = LS_STR("t1") };
        struct ls_group_offsets hold;
        struct ls_arena arena;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        client_init(&a, NULL);
        client_init(&b, NULL);
        load_group(k);
        client_join(k, &a);
        client_join(k, &b);
        kit_wait(k, 6500);
        assert_int_equal(b.generation, 1);
        client_sync(k, &b, NULL, 0);
        assert_true(b.syncing);
        /* Any request finds out, before the thread does. */
        k->theirs = true;
        client_sync(k, &a, both, 2);
        assert_int_equal(a.sync.error, LS_GROUP_NOT_COORDINATOR);
        assert_false(b.syncing);
        assert_int_equal(b.sync.error, LS_GROUP_NOT_COORDINATOR);

        client_join(k, &b);
        assert_int_equal(b.join.error, LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(ls_group_leave(k->groups, LS_STR(CLIENT_GROUP), &leaver, 1),
                         LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 5, LS_STR("")),
                         LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(ls_group_fetch(k->groups, LS_STR(CLIENT_GROUP), &o, 1, &hold),
                         LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(o.error, LS_GROUP_NOT_COORDINATOR);
        ls_group_offsets_done(&hold);
        assert_int_equal(ls_group_describe(k->groups, LS_STR(CLIENT_GROUP), &arena, &d),
                         LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)),
                         LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(ls_group_offsets_delete(k->groups, LS_STR(CLIENT_GROUP), &o, 1),
                         LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(k->gets, 1);
        assert_null(kit_group(k));
        ls_arena_done(&arena);
        kit_free(k);
}

/* --- two at once ---------------------------------------------------- */

/* Both take themselves for the coordinator; this one's memory is old. */
static struct ls_groups *
both_coordinate(struct kit *k, struct client *a)
{
        struct ls_groups *other = other_start(k);

        client_init(a, NULL);
        load_group(k);
        clients_settle(k, (struct client *[]){ a }, 1);
        return other;
}

static void
test_conflict_of_rebalances(void **state)
{
        struct kit *k = kit_new_with(true);
        struct client a, b, c;
        struct ls_groups *other = both_coordinate(k, &a);
        uint64_t version;

        /* The other completes generation 2, with b. */
        client_init(&b, NULL);
        exchange(k, &other);
        load_group(k);
        client_join(k, &b);
        client_join(k, &a);
        kit_wait(k, 200);
        assert_int_equal(b.generation, 2);
        client_sync(k, b.leads ? &b : &a, (struct client *[]){ &a, &b }, 2);
        version = kit_row(k, CLIENT_GROUP)->version;
        exchange(k, &other);

        /* This one takes a new member into a generation 2 of its own. */
        client_init(&c, NULL);
        client_join(k, &c);
        kit_wait(k, 10500); /* a does not come, it is elsewhere: its session ends */
        assert_int_equal(kit_row(k, CLIENT_GROUP)->version, version);
        assert_null(group_in_memory(k)); /* the conflict made it forget */
        assert_int_equal(client_beat(k, &c), LS_GROUP_LOAD_IN_PROGRESS);
        groups_tick(k->groups);
        assert_int_equal(client_beat(k, &c), LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(group_in_memory(k)->generation, 2);
        assert_int_equal(client_beat(k, &b), LS_GROUP_OK);
        other_stop(k, other);
        kit_free(k);
}

static void
test_conflict_of_commits(void **state)
{
        struct kit *k = kit_new_with(true);
        struct client a, b;
        struct ls_groups *other = other_start(k);

        /* Both have read an empty group. */
        load_group(k);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 5, LS_STR("")), LS_GROUP_OK);
        exchange(k, &other);
        client_init(&a, NULL);
        load_group(k);
        clients_settle(k, (struct client *[]){ &a }, 1);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 100, LS_STR("")), LS_GROUP_OK);
        exchange(k, &other);
        /* Point 29 of the model: from outside, over the member's. */
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 6, LS_STR("")),
                         LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 100);
        assert_null(group_in_memory(k));
        load_group(k);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 6, LS_STR("")),
                         LS_GROUP_UNKNOWN_MEMBER_ID);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 101, LS_STR("")), LS_GROUP_OK);

        /* A member of a generation that the other has ended. */
        exchange(k, &other);
        client_init(&b, NULL);
        client_join(k, &b);
        client_join(k, &a);
        kit_wait(k, 200);
        assert_int_equal(kit_row(k, CLIENT_GROUP)->generation, 2);
        exchange(k, &other);
        a.generation = 1;
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 102, LS_STR("")),
                         LS_GROUP_ILLEGAL_GENERATION);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 101);
        assert_null(group_in_memory(k));
        other_stop(k, other);
        kit_free(k);
}

static void
test_conflict_of_deletion(void **state)
{
        struct kit *k = kit_new_with(true);
        struct client a;
        struct ls_groups *other = other_start(k);
        struct ls_group_offset o = { .topic = LS_STR("t1") };

        load_group(k);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 5, LS_STR("")), LS_GROUP_OK);
        exchange(k, &other);
        client_init(&a, NULL);
        load_group(k);
        clients_settle(k, (struct client *[]){ &a }, 1);
        exchange(k, &other);

        assert_int_equal(ls_group_offsets_delete(k->groups, LS_STR(CLIENT_GROUP), &o, 1),
                         LS_GROUP_OK);
        assert_int_equal(o.error, LS_GROUP_NOT_COORDINATOR);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)),
                         LS_GROUP_NOT_COORDINATOR);
        assert_null(group_in_memory(k));
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 5);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_NON_EMPTY);
        other_stop(k, other);
        kit_free(k);
}

/* --- expiry and lists ---------------------------------------------------- */

static void
test_expiry_of_own_groups(void **state)
{
        struct kit *k = kit_new_with(true);
        const int64_t week = k->config.retention_ms;

        load_group(k);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 5, LS_STR("")), LS_GROUP_OK);
        kit_restart(k);
        k->theirs = true;
        k->now_ms += week + GROUP_EXPIRY_INTERVAL_MS;
        groups_tick(k->groups);
        kit_settle(k);
        assert_non_null(kit_row(k, CLIENT_GROUP)); /* another's to look after */
        assert_int_equal(k->groups->groups.count, 0);
        k->theirs = false;
        k->now_ms += 2 * GROUP_EXPIRY_INTERVAL_MS;
        groups_tick(k->groups); /* nobody has asked for it: it is read for this */
        kit_settle(k);
        assert_null(kit_row(k, CLIENT_GROUP));
        assert_null(kit_group(k));
        kit_free(k);
}

static void
test_list_of_own_groups(void **state)
{
        struct kit *k = kit_new_with(true);
        struct ls_group_listed *listed = NULL;
        struct ls_arena arena;
        struct client a;
        size_t count = 0;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        client_init(&a, NULL);
        load_group(k);
        clients_settle(k, (struct client *[]){ &a }, 1);
        kit_restart(k);
        assert_int_equal(ls_group_load(k->groups, LS_STR("absent")), LS_GROUP_OK);
        assert_int_equal(ls_groups_load(k->groups), LS_GROUP_OK);
        assert_true(ls_group_list(k->groups, NULL, 0, NULL, 0, &arena, &listed, &count));
        assert_int_equal(count, 1);
        assert_true(ls_str_is(listed[0].group_id, CLIENT_GROUP));
        assert_string_equal(listed[0].state, "Stable");
        assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        give(k, true);
        assert_int_equal(ls_groups_load(k->groups), LS_GROUP_OK);
        assert_true(ls_group_list(k->groups, NULL, 0, NULL, 0, &arena, &listed, &count));
        assert_int_equal(count, 0);
        ls_arena_done(&arena);
        kit_free(k);
}

/* Expiry holds a group without the lock: it may be lost meanwhile. */
static void
test_lost_while_it_is_locked(void **state)
{
        struct kit *k = kit_new_with(true);
        struct ls_group *grp;

        load_group(k);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 5, LS_STR("")), LS_GROUP_OK);
        grp = kit_group(k);
        pthread_mutex_lock(&k->groups->lock);
        grp->locked = true;
        group_lose(k->groups, grp);
        assert_null(kit_group(k));
        assert_int_equal(grp->state, GROUP_DEAD); /* still there */
        assert_false(group_unlock(grp));
        pthread_mutex_unlock(&k->groups->lock);
        load_group(k);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_OK);
        kit_free(k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_read_when_asked),
                cmocka_unit_test(test_not_stored_is_remembered),
                cmocka_unit_test(test_reading_fails),
                cmocka_unit_test(test_lost_in_a_rebalance),
                cmocka_unit_test(test_lost_in_a_sync),
                cmocka_unit_test(test_conflict_of_rebalances),
                cmocka_unit_test(test_conflict_of_commits),
                cmocka_unit_test(test_conflict_of_deletion),
                cmocka_unit_test(test_expiry_of_own_groups),
                cmocka_unit_test(test_list_of_own_groups),
                cmocka_unit_test(test_lost_while_it_is_locked),
        };

        ls_log_setup(LS_LOG_ERROR, NULL, NULL);
        return cmocka_run_group_tests_name("group-owner", tests, NULL, NULL);
}
