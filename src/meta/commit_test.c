/* meta/commit_test.c - proves: offsets are dense per partition in commit order; index entries come
 * back as given; producers are checked as Kafka does (repeats, gaps, epochs, wrap-around, five in
 * flight) within a commit, across commits and across restarts; a restarted broker fences the one
 * before; an object is committed once; refusals leave no trace. */
#include "meta/producers.h"
#include "meta/test_kit.h"

static void
test_offsets_are_dense(void **state)
{
        struct kit k;
        uint64_t id, commit1, commit2;
        struct ls_meta_wal_batch b[4];
        struct ls_meta_partition p;
        struct kit_entries es = { .count = 0 };

        kit_new(&k);
        id = kit_stream_id(k.m, "orders", 70);
        b[0] = kit_batch(id, 0, 3);
        b[1] = kit_batch(id, 0, 2);
        b[2] = kit_batch(id, 69, 10);
        b[3] = kit_batch(id, 70, 10); /* no such partition */
        assert_ok(kit_commit(&k, b, 4, &commit1));
        assert_int_equal(b[0].outcome, LS_OK);
        assert_int_equal(b[0].entry.base_offset, 0);
        assert_int_equal(b[1].entry.base_offset, 3);
        assert_int_equal(b[2].entry.base_offset, 0);
        assert_int_equal(b[3].outcome, LS_ABSENT);
        b[0] = kit_batch(id, 0, 1);
        assert_ok(kit_commit(&k, b, 1, &commit2));
        assert_int_equal(b[0].entry.base_offset, 5);
        assert_true(commit2 > commit1 && commit1 > 0);
        p = kit_partition(k.m, id, 0);
        assert_int_equal(p.end, 6);
        assert_int_equal(p.stable, 6);
        assert_int_equal(p.bytes, 300);
        assert_int_equal(p.max_timestamp, 1003);
        assert_int_equal(kit_partition(k.m, id, 69).end, 10);

        assert_ok(ls_meta_entries(k.m, id, kit_entry_fn, &es));
        assert_int_equal(es.count, 4);
        assert_int_equal(es.entries[1].partition, 0);
        assert_int_equal(es.entries[1].base_offset, 3);
        assert_int_equal(es.entries[1].records, 2);
        assert_int_equal(es.entries[1].object_id, commit1);
        assert_int_equal(es.entries[1].segment, 7);
        assert_int_equal(es.entries[1].pos, 1110);
        assert_int_equal(es.entries[1].producer_id, -1);
        assert_int_equal(es.entries[2].partition, 69);
        assert_int_equal(es.entries[3].base_offset, 5);
        assert_int_equal(es.entries[3].commit, commit2);
        p.hash -= ls_meta_entry_hash(&es.entries[0]) + ls_meta_entry_hash(&es.entries[1]) +
                  ls_meta_entry_hash(&es.entries[3]);
        assert_int_equal(p.hash, 0);
        kit_done(&k);
}

static void
test_producer_rules(void **state)
{
        struct kit k;
        struct ls_meta_wal_batch b;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 2);
        /* no state: any first sequence */
        b = kit_batch_of(id, 0, 5, 100, 3, 40);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        b = kit_batch_of(id, 0, 5, 100, 3, 45);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 5);
        /* a repeat: the first answer's offset, nothing appended */
        b = kit_batch_of(id, 0, 5, 100, 3, 40);
        assert_int_equal(kit_one(&k, &b), LS_DUPLICATE);
        assert_int_equal(b.entry.base_offset, 0);
        /* same start, other length: not a repeat */
        b = kit_batch_of(id, 0, 4, 100, 3, 40);
        assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
        b = kit_batch_of(id, 0, 1, 100, 3, 51);
        assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
        b = kit_batch_of(id, 0, 1, 100, 2, 50);
        assert_int_equal(kit_one(&k, &b), LS_STALE_EPOCH);
        /* a new epoch begins at 0 */
        b = kit_batch_of(id, 0, 1, 100, 4, 50);
        assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
        b = kit_batch_of(id, 0, 1, 100, 4, 0);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        b = kit_batch_of(id, 0, 1, 100, 3, 50);
        assert_int_equal(kit_one(&k, &b), LS_STALE_EPOCH);
        /* another partition knows nothing of this */
        b = kit_batch_of(id, 1, 1, 100, 0, 9);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        b = kit_batch_of(id, 1, 1, 100, 0, -1);
        assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
        assert_int_equal(kit_partition(k.m, id, 0).end, 11);
        assert_int_equal(kit_partition(k.m, id, 1).end, 1);
        kit_done(&k);
}

static void
test_sequence_wraps(void **state)
{
        struct kit k;
        struct ls_meta_wal_batch b;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        b = kit_batch_of(id, 0, 4, 1, 0, INT32_MAX - 5);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        b = kit_batch_of(id, 0, 5, 1, 0, INT32_MAX - 1); /* MAX-1, MAX, 0, 1, 2 */
        assert_int_equal(kit_one(&k, &b), LS_OK);
        b = kit_batch_of(id, 0, 1, 1, 0, 4);
        assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
        kit_reopen(&k);
        b = kit_batch_of(id, 0, 5, 1, 0, INT32_MAX - 1);
        assert_int_equal(kit_one(&k, &b), LS_DUPLICATE);
        assert_int_equal(b.entry.base_offset, 4);
        b = kit_batch_of(id, 0, 1, 1, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        b = kit_batch_of(id, 0, 1, 2, 0, INT32_MAX);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        b = kit_batch_of(id, 0, 1, 2, 0, 0);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        kit_done(&k);
}

/* Five in flight, all answers lost, all sent again, across a restart: B012 of the case list. */
static void
test_five_in_flight(void **state)
{
        for (int32_t records = 1; records <= 7; records++) {
                struct ls_meta_wal_batch b[6];
                int64_t first[6];
                struct kit k;
                uint64_t id;

                kit_new(&k);
                id = kit_stream_id(k.m, "t", 1);
                for (int32_t i = 0; i < 6; i++)
                        b[i] = kit_batch_of(id, 0, records, 9, 0, i * records);
                assert_ok(kit_commit(&k, b, 3, NULL)); /* within one commit, then another */
                assert_ok(kit_commit(&k, b + 3, 3, NULL));
                for (int i = 0; i < 6; i++) {
                        assert_int_equal(b[i].outcome, LS_OK);
                        first[i] = b[i].entry.base_offset;
                }
                for (int round = 0; round < 2; round++) {
                        assert_ok(kit_commit(&k, b + 1, 5, NULL));
                        for (int i = 1; i < 6; i++) {
                                assert_int_equal(b[i].outcome, LS_DUPLICATE);
                                assert_int_equal(b[i].entry.base_offset, first[i]);
                        }
                        /* the sixth from the end is forgotten, and too old to be in sequence */
                        assert_int_equal(kit_one(&k, &b[0]), LS_SEQUENCE_GAP);
                        kit_reopen(&k);
                }
                b[0] = kit_batch_of(id, 0, records, 9, 0, 6 * records + 10);
                assert_int_equal(kit_one(&k, &b[0]), LS_SEQUENCE_GAP);
                assert_int_equal(kit_partition(k.m, id, 0).end, 6 * records);
                kit_done(&k);
        }
}

/* A batch and its repeat in one commit: the second answers with the first's offset. */
static void
test_repeat_within_commit(void **state)
{
        struct ls_meta_wal_batch b[3];
        uint64_t id, commit;
        struct kit k;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        b[0] = kit_batch_of(id, 0, 2, 5, 0, 0);
        b[1] = kit_batch_of(id, 0, 2, 5, 0, 0);
        b[2] = kit_batch_of(id, 0, 2, 5, 0, 2);
        assert_ok(kit_commit(&k, b, 3, NULL));
        assert_int_equal(b[1].outcome, LS_DUPLICATE);
        assert_int_equal(b[1].entry.base_offset, 0);
        assert_int_equal(b[2].entry.base_offset, 2);
        /* only repeats: nothing is written, no number is taken */
        assert_ok(kit_commit(&k, b, 3, &commit));
        assert_int_equal(commit, 0);
        assert_int_equal(b[0].outcome, LS_DUPLICATE);
        assert_int_equal(b[2].outcome, LS_DUPLICATE);
        assert_int_equal(b[2].entry.base_offset, 2);
        kit_done(&k);
}

static void
test_restart_fences(void **state)
{
        struct ls_meta_wal_batch b;
        struct ls_meta *old;
        struct kit k;
        uint64_t id;
        int64_t producer;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        old = k.m;
        kit_open(&k); /* the same broker again, while the first still runs */
        assert_int_equal(ls_meta_broker_epoch(k.m), ls_meta_broker_epoch(old) + 1);
        b = kit_batch(id, 0, 1);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        {
                struct kit o = k;

                o.m = old;
                o.sequence = 100;
                b = kit_batch(id, 0, 1);
                assert_int_equal(kit_commit(&o, &b, 1, NULL), LS_EFENCED);
                assert_int_equal(ls_meta_producer_new(old, &producer), LS_EFENCED);
                assert_int_equal(k.lost, 1); /* told once that it must end */
        }
        ls_meta_close(old);
        /* the old one's close did not close the new epoch */
        b = kit_batch(id, 0, 1);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 1);
        kit_done(&k);
}

/* A fenced broker changes nothing, whatever it tries (invariant 5). */
static void
test_fenced_changes_nothing(void **state)
{
        struct ls_meta_config config = { .name = "retention.ms", .value = "1" };
        struct ls_meta_offset offset = { .partition = 0, .offset = 1 };
        struct ls_meta_group group = { .group_id = "g", .generation = 1 };
        const char *key = "k";
        struct ls_meta *old;
        struct ls_meta_stream spec = { .kafka_name = (char *)"u",
                                       .catalog = (char *)"main",
                                       .ns = (char *)"default",
                                       .name = (char *)"u",
                                       .partitions = 1 },
                              *stream, *made[1];
        struct ls_meta_table_commit publish = { .garbage = &key, .garbage_count = 1 };
        uint64_t commit, after, id;
        struct kit k;
        int64_t n;
        size_t deleted;
        bool named;
        ls_err e[1];

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        offset.stream_id = publish.stream_id = id;
        old = k.m;
        kit_open(&k);
        assert_ok(ls_meta_commit_number(k.m, &commit));
#define FENCED(expr) assert_int_equal((expr), LS_EFENCED)
        FENCED(ls_meta_stream_create(old, &spec, &stream));
        ls_meta_streams_create(old, &spec, 1, made, e);
        FENCED(e[0]);
        assert_null(made[0]);
        FENCED(ls_meta_stream_grow(old, id, 2, &stream));
        FENCED(ls_meta_stream_configure(old, id, 0, &config, 1, &stream));
        FENCED(ls_meta_stream_delete(old, id, 0));
        FENCED(ls_meta_log_start(old, id, 0, 0, &n));
        FENCED(ls_meta_table_publish(old, &publish, NULL));
        FENCED(ls_meta_garbage_add(old, &key, 1, 0));
        FENCED(ls_meta_garbage_done(old, &key, 1));
        FENCED(ls_meta_gone_done(old, id));
        FENCED(ls_meta_lease(old, "l", 1000));
        FENCED(ls_meta_lease_release(old, "l"));
        FENCED(ls_meta_group_store(old, &group));
        FENCED(ls_meta_group_delete(old, "g"));
        FENCED(ls_meta_offsets_store(old, "g", -1, &offset, 1));
        FENCED(ls_meta_offsets_delete(old, "g", &offset, 1));
        FENCED(ls_meta_namespace_create(old, "main", "n", "{}"));
        FENCED(ls_meta_namespace_set(old, "main", "default", "{}"));
        FENCED(ls_meta_namespace_drop(old, "main", "n"));
        FENCED(ls_meta_producer_new(old, &n));
#undef FENCED
        assert_int_equal(ls_meta_changes(old), 1); /* the stream, before */
        ls_meta_close(old);
        assert_ok(ls_meta_commit_number(k.m, &after));
        assert_int_equal(after, commit);
        assert_ok(ls_meta_names(k.m, key, &named));
        assert_false(named);
        assert_int_equal(ls_meta_group_delete(k.m, "g"), LS_ABSENT);
        assert_int_equal(ls_meta_namespace_drop(k.m, "main", "n"), LS_ABSENT);
        assert_ok(ls_meta_lease(k.m, "l", 1000));
        assert_ok(ls_meta_wal_purge(k.m, 10, &deleted));
        assert_int_equal(kit_partition(k.m, id, 0).end, 0);
        kit_done(&k);
}

/* Commit numbers are unique, ascend along each partition, and are taken by commits only: WAL and
 * table. */
static void
test_commit_numbers(void **state)
{
        struct ls_meta_offset offset = { .partition = 0, .offset = 1 };
        struct ls_meta_group group = { .group_id = "g", .generation = 1 };
        struct kit_entries entries = { .count = 0 };
        struct ls_meta_table_commit publish = { .version = 0 };
        struct ls_meta_wal_batch b[2];
        uint64_t first, second, third, now;
        struct kit k;
        uint64_t id;
        int64_t n;

        kit_new(&k);
        id = offset.stream_id = publish.stream_id = kit_stream_id(k.m, "t", 2);
        b[0] = kit_batch(id, 0, 1);
        b[1] = kit_batch(id, 1, 1);
        assert_ok(kit_commit(&k, b, 2, &first));
        assert_true(first > 0);
        assert_ok(ls_meta_lease(k.m, "l", 1000));
        assert_ok(ls_meta_group_store(k.m, &group));
        assert_ok(ls_meta_offsets_store(k.m, "g", 1, &offset, 1));
        assert_ok(ls_meta_producer_new(k.m, &n));
        assert_ok(ls_meta_log_start(k.m, id, 0, 1, &n));
        ls_meta_stream_free(kit_stream(k.m, "other", 1));
        assert_ok(ls_meta_commit_number(k.m, &now));
        assert_int_equal(now, first);
        b[0] = kit_batch(id, 0, 0); /* refused: no records */
        assert_ok(kit_commit(&k, b, 1, &second));
        assert_int_equal(second, 0);
        assert_int_equal(b[0].outcome, LS_INVALID);
        assert_ok(ls_meta_table_publish(k.m, &publish, NULL));
        assert_true(publish.commit > first);
        b[0] = kit_batch(id, 1, 1);
        assert_ok(kit_commit(&k, b, 1, &third));
        assert_true(third > publish.commit);
        kit_reopen(&k);
        assert_ok(ls_meta_commit_number(k.m, &now));
        assert_int_equal(now, third);
        assert_ok(ls_meta_entries(k.m, id, kit_entry_fn, &entries));
        assert_int_equal(entries.count, 3);
        assert_int_equal(entries.entries[0].commit, first);
        assert_int_equal(entries.entries[1].commit, first);
        assert_int_equal(entries.entries[2].commit, third);
        kit_done(&k);
}

static void
test_object_commits_once(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k;
        uint64_t id, before, after;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        b = kit_batch(id, 0, 1);
        assert_ok(kit_commit(&k, &b, 1, NULL));
        assert_ok(ls_meta_commit_number(k.m, &before));
        k.sequence = 0; /* the same object again */
        b = kit_batch(id, 0, 1);
        assert_int_equal(kit_commit(&k, &b, 1, NULL), LS_EXISTS);
        assert_ok(ls_meta_commit_number(k.m, &after));
        assert_int_equal(before, after);
        assert_int_equal(kit_partition(k.m, id, 0).end, 1);
        b = kit_batch(id, 0, 1);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 1);
        kit_done(&k);
}

static void
test_refusals(void **state)
{
        struct ls_meta_wal_batch b[5];
        struct kit k;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        b[0] = kit_batch(id, 0, 0);
        b[1] = kit_batch(id, 0, 1);
        b[1].entry.flags = LS_META_BATCH_TRANSACTIONAL;
        b[2] = kit_batch(id, 0, 1);
        b[3] = kit_batch(id, 64, 1);
        b[4] = kit_batch(id + 1, 0, 1);
        assert_ok(kit_commit(&k, b, 5, NULL));
        assert_int_equal(b[0].outcome, LS_INVALID);
        assert_int_equal(b[1].outcome, LS_UNSUPPORTED);
        assert_int_equal(b[2].outcome, LS_OK);
        assert_int_equal(b[2].entry.base_offset, 0);
        assert_int_equal(b[3].outcome, LS_ABSENT);
        assert_int_equal(b[4].outcome, LS_ABSENT);
        kit_done(&k);
}

/* Two brokers on one database: what one has cached is stale after the other's commit. */
static void
test_two_brokers(void **state)
{
        struct ls_meta_options o;
        struct ls_meta_wal_batch b;
        struct kit k, k2;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 2);
        k2 = k;
        k2.sequence = 0;
        o = kit_options(&k);
        o.broker_id = 2;
        assert_ok(ls_meta_open(&o, &k2.m, NULL));
        for (int32_t i = 0; i < 10; i++) {
                struct kit *at = i % 2 ? &k2 : &k, *other = i % 2 ? &k : &k2;

                b = kit_batch_of(id, 0, 2, 77, 0, i * 2);
                assert_int_equal(kit_one(at, &b), LS_OK);
                assert_int_equal(b.entry.base_offset, i * 2);
                /* the retry reaches the other broker */
                assert_int_equal(kit_one(other, &b), LS_DUPLICATE);
                assert_int_equal(b.entry.base_offset, i * 2);
        }
        /* a refusal by stale state is made sure of: k2 has seen all, k has not */
        b = kit_batch_of(id, 0, 1, 77, 0, 20);
        assert_int_equal(kit_one(&k2, &b), LS_OK);
        b = kit_batch_of(id, 0, 1, 77, 0, 21);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        ls_meta_close(k2.m);
        kit_done(&k);
}

static void
test_producer_ids_never_repeat(void **state)
{
        int64_t a, b, last = -1;
        struct kit k;

        kit_new(&k);
        for (int i = 0; i < 2500; i++) {
                assert_ok(ls_meta_producer_new(k.m, &a));
                assert_true(a > last);
                last = a;
        }
        kit_reopen(&k);
        assert_ok(ls_meta_producer_new(k.m, &b));
        assert_true(b > last);
        kit_done(&k);
}

static ls_err
count_producer(void *ctx, const struct ls_meta_producer *p)
{
        *(struct ls_meta_producer *)ctx = *p;
        return LS_OK;
}

static int64_t fake_now_ms;
static int64_t
fake_wall_ms(void *ctx)
{
        return fake_now_ms;
}
static int64_t
fake_monotonic_ns(void *ctx)
{
        return fake_now_ms * 1000000;
}
static void
fake_random(void *ctx, void *ret_bytes, size_t bytes)
{
        static uint8_t n;

        memset(ret_bytes, ++n, bytes);
}

static void
test_producers_expire(void **state)
{
        const struct ls_clock clock = { fake_wall_ms, fake_monotonic_ns, fake_random, NULL };
        struct ls_meta_producer seen = { .id = -1 };
        struct ls_meta_wal_batch b;
        struct kit k;
        uint64_t id;

        fake_now_ms = 1700000000000;
        ls_clock_install(&clock);
        kit_new(&k);
        id = kit_stream_id(k.m, "t", 2);
        b = kit_batch_of(id, 1, 3, 11, 2, 7);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_ok(ls_meta_producers(k.m, id, 1, count_producer, &seen));
        assert_int_equal(seen.id, 11);
        assert_int_equal(seen.epoch, 2);
        assert_int_equal(seen.last_sequence, 9);
        assert_int_equal(seen.last_base_offset, 0);
        assert_int_equal(seen.last_timestamp, 1003);
        seen.id = -1;
        assert_ok(ls_meta_producers(k.m, id, 0, count_producer, &seen));
        assert_int_equal(seen.id, -1);
        assert_int_equal(ls_meta_producers(k.m, id, 2, count_producer, &seen), LS_ABSENT);
        b = kit_batch_of(id, 1, 3, 11, 2, 70);
        assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
        fake_now_ms += 86400000;
        kit_reopen(&k);
        assert_ok(ls_meta_producers(k.m, id, 1, count_producer, &seen));
        assert_int_equal(seen.id, -1);
        b = kit_batch_of(id, 1, 3, 11, 2, 70);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        kit_done(&k);
        ls_clock_install(NULL);
}

/* Those idle for longest are forgotten first, and whoever stays keeps its batches. */
static void
test_producers_are_bounded(void **state)
{
        struct meta_producers *p = meta_producers_new();
        struct ls_meta_entry e = { .records = 2, .producer_epoch = 0 };
        int64_t base = -1;

        for (int i = 0; i < 1000; i++) {
                e.producer_id = i * 7 % 1000; /* not in order of age */
                e.base_sequence = 0;
                e.base_offset = i;
                meta_producer_note(p, (uint32_t)i % 64, &e, 1000 + e.producer_id, 1 << 30);
        }
        assert_int_equal(p->by_key.count, 1000);
        meta_producers_trim(p, 1000);
        assert_int_equal(p->by_key.count, 1000);
        meta_producers_trim(p, 300);
        assert_int_equal(p->by_key.count, 300);
        for (int i = 0; i < 1000; i++) {
                ls_err result;

                e.producer_id = i * 7 % 1000;
                result = meta_producer_check(p, (uint32_t)i % 64, &e, 2000, 1 << 30, &base);
                assert_int_equal(result, e.producer_id >= 700 ? LS_DUPLICATE : LS_OK);
                if (result == LS_DUPLICATE)
                        assert_int_equal(base, i);
        }
        meta_producers_free(p);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_offsets_are_dense),
                cmocka_unit_test(test_producer_rules),
                cmocka_unit_test(test_sequence_wraps),
                cmocka_unit_test(test_five_in_flight),
                cmocka_unit_test(test_repeat_within_commit),
                cmocka_unit_test(test_restart_fences),
                cmocka_unit_test(test_fenced_changes_nothing),
                cmocka_unit_test(test_commit_numbers),
                cmocka_unit_test(test_object_commits_once),
                cmocka_unit_test(test_refusals),
                cmocka_unit_test(test_two_brokers),
                cmocka_unit_test(test_producer_ids_never_repeat),
                cmocka_unit_test(test_producers_are_bounded),
        };
        const struct CMUnitTest sqlite_tests[] = {
                cmocka_unit_test(test_producers_expire), /* SQLite's clock is the process's */
        };

        return cmocka_run_group_tests(tests, NULL, NULL) +
               (kit_postgres() ? 0 : cmocka_run_group_tests(sqlite_tests, NULL, NULL));
}
