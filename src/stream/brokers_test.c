/* stream/brokers_test.c - leaders and coordinators: spread, alike everywhere, few that move. */
#include <setjmp.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/mem.h"
#include "stream/stream.h"

#define BROKERS    5
#define PARTITIONS 5000

static char rack_a[] = "a", rack_b[] = "b", empty[] = "";

/* Ids 10, 20, … in racks a, b, a, b, …; without the one at `without`. */
static void
make(struct ls_brokers *b, struct ls_broker items[BROKERS], size_t without)
{
        *b = (struct ls_brokers){ .items = items };
        for (size_t i = 0; i < BROKERS; i++)
                if (i != without)
                        items[b->count++] =
                                (struct ls_broker){ .id = (int32_t)(i + 1) * 10,
                                                    .rack = i % 2 == 0 ? rack_a : rack_b,
                                                    .host = empty,
                                                    .http = empty };
}

static int32_t
leader(const struct ls_brokers *b, int32_t partition, ls_str rack)
{
        ls_uuid topic = { { 1, 2, 3 } };

        return b->items[ls_brokers_leader(b, topic, partition, rack)].id;
}

static void
test_leaders_are_spread(void **state)
{
        struct ls_broker items[BROKERS];
        struct ls_brokers b;
        int counts[BROKERS] = { 0 };

        make(&b, items, SIZE_MAX);
        for (int32_t p = 0; p < PARTITIONS; p++)
                counts[leader(&b, p, LS_STR_NULL) / 10 - 1]++;
        for (int i = 0; i < BROKERS; i++) {
                assert_true(counts[i] > PARTITIONS / BROKERS * 8 / 10);
                assert_true(counts[i] < PARTITIONS / BROKERS * 12 / 10);
        }
}

static void
test_only_what_a_broker_had_moves(void **state)
{
        struct ls_broker all_items[BROKERS], some_items[BROKERS];
        struct ls_brokers all, some;

        make(&all, all_items, SIZE_MAX);
        make(&some, some_items, 2);
        for (int32_t p = 0; p < PARTITIONS; p++) {
                int32_t before = leader(&all, p, LS_STR_NULL), now = leader(&some, p, LS_STR_NULL);

                assert_int_not_equal(now, 30);
                if (before != 30)
                        assert_int_equal(now, before);
        }
}

static void
test_a_zone_gets_its_own(void **state)
{
        struct ls_broker items[BROKERS];
        struct ls_brokers b;

        make(&b, items, SIZE_MAX);
        for (int32_t p = 0; p < PARTITIONS; p++) {
                int32_t id = leader(&b, p, LS_STR("b"));

                assert_true(id == 20 || id == 40);
                assert_int_equal(id, leader(&b, p, LS_STR("b")));
                assert_int_equal(leader(&b, p, LS_STR("nowhere")), leader(&b, p, LS_STR_NULL));
        }
}

static void
test_coordinators(void **state)
{
        struct ls_broker all_items[BROKERS], some_items[BROKERS];
        struct ls_brokers all, some;
        int counts[BROKERS] = { 0 };

        make(&all, all_items, SIZE_MAX);
        make(&some, some_items, 0);
        for (int i = 0; i < PARTITIONS; i++) {
                char name[32];
                int32_t id, now;

                snprintf(name, sizeof name, "group-%d", i);
                id = all.items[ls_brokers_coordinator(&all, ls_str_of(name))].id;
                now = some.items[ls_brokers_coordinator(&some, ls_str_of(name))].id;
                counts[id / 10 - 1]++;
                if (id != 10)
                        assert_int_equal(now, id);
        }
        for (int i = 0; i < BROKERS; i++)
                assert_true(counts[i] > PARTITIONS / BROKERS * 8 / 10);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_leaders_are_spread),
                cmocka_unit_test(test_only_what_a_broker_had_moves),
                cmocka_unit_test(test_a_zone_gets_its_own),
                cmocka_unit_test(test_coordinators),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
