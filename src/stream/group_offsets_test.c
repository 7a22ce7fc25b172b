/* stream/group_offsets_test.c - committed offsets: who may commit (B024), what is answered for what
 * does not exist (B023), deleted topics (B025), deletion and expiry; listing and deleting groups.
 * */
#include "base/log.h"
#include "stream/group_test_kit.h"

/* --- commit and fetch ---------------------------------------------------- */

/* The metadata string comes back; null and empty are not the same. */
static void
test_round_trip(void **state)
{
        struct kit *k = kit_new();
        struct ls_group_offset o[3] = { { .topic = LS_STR("t1"), .partition = 0 },
                                        { .topic = LS_STR("t2"), .partition = 3 },
                                        { .topic = LS_STR("t1"), .partition = 1 } };
        struct ls_group_offsets hold;

        assert_int_equal(commit_one(k, "g", NULL, "t1", 0, 10, LS_STR("abc")), LS_GROUP_OK);
        assert_int_equal(commit_one(k, "g", NULL, "t2", 3, 20, LS_STR_NULL), LS_GROUP_OK);
        assert_int_equal(commit_one(k, "g", NULL, "t1", 1, 0, LS_STR("")), LS_GROUP_OK);
        assert_int_equal(ls_group_fetch(k->groups, LS_STR("g"), o, 3, &hold), LS_GROUP_OK);
        assert_int_equal(o[0].offset, 10);
        assert_int_equal(o[0].leader_epoch, 5);
        assert_int_equal(o[0].commit_ms, KIT_WALL + 1000);
        assert_true(ls_str_is(o[0].metadata, "abc"));
        assert_int_equal(o[1].offset, 20);
        assert_null(o[1].metadata.ptr);
        assert_int_equal(o[2].offset, 0);
        assert_true(o[2].metadata.ptr != NULL && o[2].metadata.len == 0);
        ls_group_offsets_done(&hold);

        assert_int_equal(commit_one(k, "g", NULL, "t1", 0, 11, LS_STR("abd")), LS_GROUP_OK);
        assert_int_equal(ls_group_fetch_all(k->groups, LS_STR("g"), &hold), LS_GROUP_OK);
        assert_int_equal(hold.count, 3); /* sorted */
        assert_true(ls_str_is(hold.offsets[0].topic, "t1") && hold.offsets[0].partition == 0);
        assert_int_equal(hold.offsets[0].offset, 11);
        assert_true(ls_str_is(hold.offsets[1].topic, "t1") && hold.offsets[1].partition == 1);
        assert_true(ls_str_is(hold.offsets[2].topic, "t2"));
        ls_group_offsets_done(&hold);
        kit_restart(k);
        assert_int_equal(fetch_one(k, "g", "t1", 0), 11);
        kit_free(k);
}

static void
test_fetch_what_is_not_there(void **state)
{
        struct kit *k = kit_new();
        struct ls_group_offset o = { .topic = LS_STR("t1"), .partition = 7 };
        struct ls_group_offsets hold;

        assert_int_equal(fetch_one(k, "nobody", "t1", 0), -1); /* group */
        assert_int_equal(commit_one(k, "g", NULL, "t1", 0, 10, LS_STR("")), LS_GROUP_OK);
        assert_int_equal(fetch_one(k, "g", "absent", 0), -1); /* topic */
        assert_int_equal(fetch_one(k, "g", "t1", 99), -1);    /* partition */
        assert_int_equal(fetch_one(k, "g", "t1", -1), -1);
        assert_int_equal(ls_group_fetch(k->groups, LS_STR("g"), &o, 1, &hold),
                         LS_GROUP_OK); /* commit */
        assert_int_equal(o.offset, -1);
        assert_int_equal(o.leader_epoch, -1);
        assert_true(o.metadata.ptr != NULL && o.metadata.len == 0);
        assert_int_equal(o.error, LS_GROUP_OK);
        ls_group_offsets_done(&hold);
        assert_int_equal(ls_group_fetch_all(k->groups, LS_STR("nobody"), &hold), LS_GROUP_OK);
        assert_int_equal(hold.count, 0);
        ls_group_offsets_done(&hold);
        assert_int_equal(k->groups->groups.count, 1); /* asking makes no group */
        kit_free(k);
}

static void
test_commit_without_membership(void **state)
{
        struct kit *k = kit_new();
        struct client a, outside, *both[] = { &a };

        /* to a new group, and to an empty one */
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 1, LS_STR("")), LS_GROUP_OK);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 2, LS_STR("")), LS_GROUP_OK);
        client_init(&a, NULL);
        clients_settle(k, both, 1);
        client_leave(k, &a);
        assert_int_equal(kit_group(k)->state, GROUP_EMPTY);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 3, LS_STR("")), LS_GROUP_OK);
        /* to one with members: in every state it has then */
        a.id[0] = '\0';
        client_join(k, &a);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 4, LS_STR("")),
                         LS_GROUP_UNKNOWN_MEMBER_ID);
        kit_wait(k, 5000);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 4, LS_STR("")),
                         LS_GROUP_UNKNOWN_MEMBER_ID);
        client_sync(k, &a, both, 1);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 4, LS_STR("")),
                         LS_GROUP_UNKNOWN_MEMBER_ID);
        /* with generation 5 to an unknown group */
        client_init(&outside, NULL);
        outside.generation = 5;
        assert_int_equal(commit_one(k, "nobody", &outside, "t1", 0, 4, LS_STR("")),
                         LS_GROUP_ILLEGAL_GENERATION);
        assert_null(group_find(k->groups, LS_STR("nobody")));
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 3);
        kit_free(k);
}

static void
test_commit_of_members(void **state)
{
        struct kit *k = kit_new();
        struct client a, b, old, *both[] = { &a, &b };

        client_init(&a, NULL);
        client_init(&b, "host-b");
        client_join(k, &a);
        client_join(k, &b);
        kit_wait(k, 7000);
        /* while assignments are awaited */
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 1, LS_STR("")),
                         LS_GROUP_REBALANCE_IN_PROGRESS);
        client_sync(k, &a, both, 2);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 1, LS_STR("")), LS_GROUP_OK);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &b, "t1", 1, 1, LS_STR("")), LS_GROUP_OK);
        old = a;
        old.generation = 0;
        assert_int_equal(commit_one(k, CLIENT_GROUP, &old, "t1", 0, 2, LS_STR("")),
                         LS_GROUP_ILLEGAL_GENERATION);
        old.generation = -1;
        assert_int_equal(commit_one(k, CLIENT_GROUP, &old, "t1", 0, 2, LS_STR("")),
                         LS_GROUP_ILLEGAL_GENERATION);
        strcpy(old.id, "stranger");
        old.generation = 1;
        assert_int_equal(commit_one(k, CLIENT_GROUP, &old, "t1", 0, 2, LS_STR("")),
                         LS_GROUP_UNKNOWN_MEMBER_ID);
        old.instance = "host-b";
        assert_int_equal(commit_one(k, CLIENT_GROUP, &old, "t1", 0, 2, LS_STR("")),
                         LS_GROUP_FENCED_INSTANCE_ID);
        /* a rebalance begins: what was done before it may still be committed */
        client_join(k, &a);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &b, "t1", 1, 2, LS_STR("")), LS_GROUP_OK);
        /* and a commit is a sign of life */
        kit_wait(k, 9000);
        assert_int_equal(commit_one(k, CLIENT_GROUP, &b, "t1", 1, 3, LS_STR("")), LS_GROUP_OK);
        kit_wait(k, 9000);
        assert_int_equal(client_beat(k, &b), LS_GROUP_REBALANCE_IN_PROGRESS);
        client_join(k, &b);
        /* the new generation is complete: commits of the old one are refused by all */
        b.generation = 1;
        assert_int_equal(commit_one(k, CLIENT_GROUP, &b, "t1", 1, 9, LS_STR("")),
                         LS_GROUP_ILLEGAL_GENERATION);
        assert_int_equal(kit_row(k, CLIENT_GROUP)->generation, 2);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 1), 3);
        kit_free(k);
}

/* The store checks the generation once more: a commit that was queued behind a new generation. */
static void
test_commit_checked_by_the_store(void **state)
{
        struct kit *k = kit_new();
        struct client a, *both[] = { &a };

        client_init(&a, NULL);
        clients_settle(k, both, 1);
        kit_row(k, CLIENT_GROUP)->generation = 9; /* another coordinator */
        assert_int_equal(commit_one(k, CLIENT_GROUP, &a, "t1", 0, 1, LS_STR("")),
                         LS_GROUP_ILLEGAL_GENERATION);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), -1);
        kit_free(k);
}

static void
test_commit_parts(void **state)
{
        static char large[GROUP_OFFSET_METADATA_BYTES_MAX + 1];
        struct kit *k = kit_new();
        struct committer x = { 0 };

        memset(large, 'x', sizeof large);
        for (size_t i = 0; i < 4; i++)
                x.offsets[i] = (struct ls_group_offset){ .topic = LS_STR("t1"),
                                                         .partition = (int32_t)i,
                                                         .offset = (int64_t)i,
                                                         .metadata = LS_STR("") };
        x.offsets[0].metadata = ls_str_make(large, sizeof large);
        x.offsets[1].topic = LS_STR("absent");
        x.offsets[2].partition = KIT_PARTITIONS;
        x.commit = (struct ls_group_commit){ .group_id = LS_STR("g"),
                                             .member_id = LS_STR(""),
                                             .generation = -1,
                                             .retention_ms = -1,
                                             .offsets = x.offsets,
                                             .count = 4,
                                             .done = committer_done };
        ls_group_commit(k->groups, &x.commit);
        kit_settle(k);
        assert_int_equal(x.answers, 1);
        assert_int_equal(x.commit.error, LS_GROUP_OK);
        assert_int_equal(x.offsets[0].error, LS_GROUP_OFFSET_METADATA_TOO_LARGE);
        assert_int_equal(x.offsets[1].error, LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(x.offsets[2].error, LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(x.offsets[3].error, LS_GROUP_OK);
        assert_int_equal(fetch_one(k, "g", "t1", 0), -1);
        assert_int_equal(fetch_one(k, "g", "t1", 3), 3);
        assert_int_equal(commit_one(k, "g", NULL, "t1", 0, 1, ls_str_make(large, sizeof large - 1)),
                         LS_GROUP_OK);
        /* nothing at all, and nothing that can be stored: no group is made for it */
        x.commit.count = 0;
        x.commit.group_id = LS_STR("h");
        ls_group_commit(k->groups, &x.commit);
        kit_settle(k);
        assert_int_equal(x.answers, 2);
        assert_int_equal(x.commit.error, LS_GROUP_OK);
        assert_int_equal(commit_one(k, "h", NULL, "absent", 0, 1, LS_STR("")),
                         LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION);
        assert_null(group_find(k->groups, LS_STR("h")));
        kit_free(k);
}

/* B025: the topic goes while a commit is on its way: that offset is refused, the others are stored.
 * */
static void
test_topic_deleted(void **state)
{
        struct kit *k = kit_new();
        struct committer x = { 0 };

        for (size_t i = 0; i < 3; i++)
                x.offsets[i] =
                        (struct ls_group_offset){ .topic = i == 1 ? LS_STR("t0") : LS_STR("t1"),
                                                  .partition = (int32_t)i,
                                                  .offset = 10 };
        x.commit = (struct ls_group_commit){ .group_id = LS_STR("g"),
                                             .member_id = LS_STR(""),
                                             .generation = -1,
                                             .retention_ms = -1,
                                             .offsets = x.offsets,
                                             .count = 3,
                                             .done = committer_done };
        ls_group_commit(k->groups, &x.commit);
        k->streams_gone = 1; /* t0 is deleted before the transaction */
        kit_settle(k);
        assert_int_equal(x.commit.error, LS_GROUP_OK);
        assert_int_equal(x.offsets[0].error, LS_GROUP_OK);
        assert_int_equal(x.offsets[1].error, LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(x.offsets[2].error, LS_GROUP_OK);
        assert_int_equal(fetch_one(k, "g", "t1", 2), 10);
        assert_int_equal(fetch_one(k, "g", "t0", 1), -1);
        kit_free(k);
}

/* --- delete ---------------------------------------------------- */

static void
test_offsets_delete(void **state)
{
        struct kit *k = kit_new();
        struct client a, *both[] = { &a };
        struct ls_group_offset o[3] = { { .topic = LS_STR("t1"), .partition = 0 },
                                        { .topic = LS_STR("t2"), .partition = 0 },
                                        { .topic = LS_STR("absent"), .partition = 0 } };

        assert_int_equal(ls_group_offsets_delete(k->groups, LS_STR(CLIENT_GROUP), o, 3),
                         LS_GROUP_ID_NOT_FOUND);
        assert_int_equal(o[2].error, LS_GROUP_ID_NOT_FOUND);
        commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 1, LS_STR(""));
        commit_one(k, CLIENT_GROUP, NULL, "t2", 0, 2, LS_STR(""));
        client_init(&a, NULL); /* subscribes to t1 */
        clients_settle(k, both, 1);
        assert_int_equal(ls_group_offsets_delete(k->groups, LS_STR(CLIENT_GROUP), o, 3),
                         LS_GROUP_OK);
        assert_int_equal(o[0].error, LS_GROUP_SUBSCRIBED_TO_TOPIC);
        assert_int_equal(o[1].error, LS_GROUP_OK);
        assert_int_equal(o[2].error, LS_GROUP_UNKNOWN_TOPIC_OR_PARTITION);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 1);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t2", 0), -1);
        client_leave(k, &a);
        assert_int_equal(ls_group_offsets_delete(k->groups, LS_STR(CLIENT_GROUP), o, 1),
                         LS_GROUP_OK);
        assert_int_equal(o[0].error, LS_GROUP_OK);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), -1);
        /* members whose subscriptions we cannot read */
        client_init(&a, NULL);
        a.join.protocol_type = LS_STR("connect");
        clients_settle(k, both, 0);
        client_join(k, &a);
        kit_wait(k, 4000);
        assert_int_equal(ls_group_offsets_delete(k->groups, LS_STR(CLIENT_GROUP), o, 1),
                         LS_GROUP_NON_EMPTY);
        kit_free(k);
}

static void
test_group_delete(void **state)
{
        struct kit *k = kit_new();
        struct client a, *both[] = { &a };

        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_ID_NOT_FOUND);
        commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 1, LS_STR(""));
        client_init(&a, NULL);
        clients_settle(k, both, 1);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_NON_EMPTY);
        client_leave(k, &a);
        k->fail = LS_ENOSPC;
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_NOT_AVAILABLE);
        k->fail = LS_OK;
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 1);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)), LS_GROUP_OK);
        assert_null(kit_group(k));
        assert_null(kit_row(k, CLIENT_GROUP));
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), -1);
        assert_int_equal(client_beat(k, &a), LS_GROUP_UNKNOWN_MEMBER_ID);
        /* and it can be made again */
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 4, LS_STR("")), LS_GROUP_OK);
        client_init(&a, NULL);
        clients_settle(k, both, 1);
        kit_free(k);
}

/* While a group is being deleted nobody gets in; afterwards it is a new one. */
static void
test_locked(void **state)
{
        struct kit *k = kit_new();
        struct client a;

        commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 1, LS_STR(""));
        kit_group(k)->locked = true;
        client_init(&a, NULL);
        client_join(k, &a);
        assert_int_equal(a.join.error, LS_GROUP_LOAD_IN_PROGRESS);
        assert_int_equal(commit_one(k, CLIENT_GROUP, NULL, "t1", 0, 2, LS_STR("")),
                         LS_GROUP_LOAD_IN_PROGRESS);
        assert_int_equal(ls_group_delete(k->groups, LS_STR(CLIENT_GROUP)),
                         LS_GROUP_LOAD_IN_PROGRESS);
        kit_group(k)->locked = false;
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 1);
        kit_free(k);
}

/* --- expiry ---------------------------------------------------- */

#define DAY ((int64_t)24 * 3600 * 1000)

/* Moves the clock without running every step of it. */
static void
jump(struct kit *k, int64_t ms)
{
        k->now_ms += ms;
        groups_tick(k->groups);
        kit_settle(k);
        kit_check(k);
}

static void
test_expiry_without_members(void **state)
{
        struct kit *k = kit_new();

        commit_one(k, "g", NULL, "t1", 0, 1, LS_STR(""));
        jump(k, 6 * DAY);
        commit_one(k, "g", NULL, "t1", 1, 1, LS_STR(""));
        jump(k, DAY + 60000); /* each by its own time */
        assert_int_equal(fetch_one(k, "g", "t1", 0), -1);
        assert_int_equal(fetch_one(k, "g", "t1", 1), 1);
        jump(k, 5 * DAY);
        assert_int_equal(fetch_one(k, "g", "t1", 1), 1);
        jump(k, DAY);
        assert_int_equal(fetch_one(k, "g", "t1", 1), -1);
        assert_null(group_find(k->groups, LS_STR("g"))); /* the last offset takes the group along */
        assert_null(kit_row(k, "g"));
        kit_free(k);
}

static void
test_expiry_of_a_group_with_members(void **state)
{
        struct kit *k = kit_new();
        struct client a, *both[] = { &a };

        client_init(&a, NULL); /* subscribes to t1 */
        a.join.session_timeout_ms = 1800000;
        clients_settle(k, both, 1);
        commit_one(k, CLIENT_GROUP, &a, "t1", 0, 1, LS_STR(""));
        commit_one(k, CLIENT_GROUP, &a, "t2", 0, 1, LS_STR("")); /* it once consumed that */
        for (int i = 0; i < 8 * 48 + 1; i++) {                   /* eight days of beats */
                jump(k, DAY / 48 - 1000);
                assert_int_equal(client_beat(k, &a), LS_GROUP_OK);
        }
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 1);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t2", 0), -1);
        /* counted from when the last member left, not from the commit */
        client_leave(k, &a);
        jump(k, 6 * DAY);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), 1);
        jump(k, DAY + 60000);
        assert_int_equal(fetch_one(k, CLIENT_GROUP, "t1", 0), -1);
        assert_null(kit_group(k));
        kit_free(k);
}

/* A time given with the commit (v2-v4) goes first; an empty group without offsets goes at the next
 * round. */
static void
test_expiry_given_and_empty(void **state)
{
        struct kit *k = kit_new();
        struct client a, *both[] = { &a };
        struct committer x = { 0 };

        x.offsets[0] = (struct ls_group_offset){ .topic = LS_STR("t1"), .offset = 1 };
        x.commit = (struct ls_group_commit){ .group_id = LS_STR("g"),
                                             .member_id = LS_STR(""),
                                             .generation = -1,
                                             .retention_ms = 3600 * 1000,
                                             .offsets = x.offsets,
                                             .count = 1,
                                             .done = committer_done };
        ls_group_commit(k->groups, &x.commit);
        kit_settle(k);
        jump(k, 3500 * 1000);
        assert_int_equal(fetch_one(k, "g", "t1", 0), 1);
        jump(k, 700 * 1000);
        assert_int_equal(fetch_one(k, "g", "t1", 0), -1);
        assert_null(group_find(k->groups, LS_STR("g")));

        client_init(&a, NULL);
        clients_settle(k, both, 1);
        client_leave(k, &a);
        assert_non_null(kit_group(k));
        jump(k, GROUP_EXPIRY_INTERVAL_MS + 1000);
        assert_null(kit_group(k));
        /* no writes to a store that has nothing to do: an idle coordinator leaves it alone */
        size_t ops = k->op_next;
        jump(k, 100 * DAY);
        assert_int_equal(k->op_next, ops);
        kit_free(k);
}

/* --- list and describe ---------------------------------------------------- */

static size_t
list_count(struct kit *k, const char *group_state, const char *type)
{
        ls_str states[] = { ls_str_of(group_state) }, types[] = { ls_str_of(type) };
        struct ls_group_listed *list;
        struct ls_arena arena;
        size_t count;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_true(ls_group_list(k->groups, states, group_state != NULL, types, type != NULL,
                                  &arena, &list, &count));
        for (size_t i = 0; i < count; i++)
                assert_string_equal(list[i].type, "classic");
        ls_arena_done(&arena);
        return count;
}

static void
test_list_and_describe(void **state)
{
        struct kit *k = kit_new();
        struct client a, *both[] = { &a };
        struct ls_group_description d;
        struct ls_arena arena;

        assert_int_equal(list_count(k, NULL, NULL), 0);
        commit_one(k, "one", NULL, "t1", 0, 1, LS_STR(""));
        commit_one(k, "two", NULL, "t1", 0, 1, LS_STR(""));
        client_init(&a, NULL);
        clients_settle(k, both, 1);
        assert_int_equal(list_count(k, NULL, NULL), 3);
        assert_int_equal(list_count(k, "Stable", NULL), 1);
        assert_int_equal(list_count(k, "stable", "Classic"), 1);
        assert_int_equal(list_count(k, "Empty", NULL), 2);
        assert_int_equal(list_count(k, "PreparingRebalance", NULL), 0);
        assert_int_equal(list_count(k, "Nonsense", NULL), 0);
        assert_int_equal(list_count(k, NULL, "consumer"), 0);
        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        assert_int_equal(ls_group_describe(k->groups, LS_STR("absent"), &arena, &d),
                         LS_GROUP_ID_NOT_FOUND);
        assert_string_equal(d.state, "Dead");
        assert_int_equal(d.member_count, 0);
        assert_int_equal(ls_group_describe(k->groups, LS_STR("one"), &arena, &d), LS_GROUP_OK);
        assert_string_equal(d.state, "Empty");
        assert_true(d.protocol_type.ptr != NULL && d.protocol_type.len == 0);
        client_join(
                k, &a); /* it leads: a rebalance; while it lasts there are no assignments to tell */
        kit_group(k)->state = GROUP_COMPLETING;
        assert_int_equal(ls_group_describe(k->groups, LS_STR(CLIENT_GROUP), &arena, &d),
                         LS_GROUP_OK);
        assert_string_equal(d.state, "CompletingRebalance");
        assert_int_equal(d.member_count, 1);
        assert_int_equal(d.members[0].assignment.len, 0);
        assert_int_equal(d.protocol_name.len, 0);
        ls_arena_done(&arena);
        kit_free(k);
}

static void
no_log(void *ctx, const char *line, size_t len)
{
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip),
                cmocka_unit_test(test_fetch_what_is_not_there),
                cmocka_unit_test(test_commit_without_membership),
                cmocka_unit_test(test_commit_of_members),
                cmocka_unit_test(test_commit_checked_by_the_store),
                cmocka_unit_test(test_commit_parts),
                cmocka_unit_test(test_topic_deleted),
                cmocka_unit_test(test_offsets_delete),
                cmocka_unit_test(test_group_delete),
                cmocka_unit_test(test_locked),
                cmocka_unit_test(test_expiry_without_members),
                cmocka_unit_test(test_expiry_of_a_group_with_members),
                cmocka_unit_test(test_expiry_given_and_empty),
                cmocka_unit_test(test_list_and_describe),
        };

        ls_log_setup(LS_LOG_ERROR, no_log, NULL);
        return cmocka_run_group_tests_name("group-offsets", tests, NULL, NULL);
}
