/* meta/rebuild_test.c - proves: from a backup, the WAL objects after it and the data files, the
 * database comes out with the same ids, offsets, sums and producers; from data files alone, the log
 * is what the tables say; numbers that were witnessed are not given out again. */
#include "meta/rebuild.h"
#include "meta/test_kit.h"

static void
fail_finding(void *ctx, const char *finding)
{
        fail_msg("%s", finding);
}

static void
same_partition(struct ls_meta_partition a, struct ls_meta_partition b)
{
        assert_int_equal(a.start, b.start);
        assert_int_equal(a.end, b.end);
        assert_int_equal(a.floor, b.floor);
        assert_true(a.hash == b.hash && a.floor_hash == b.floor_hash);
        assert_int_equal(a.max_timestamp, b.max_timestamp);
}

static ls_err
sum_fn(void *ctx, const struct ls_meta_entry *e)
{
        struct ls_meta_extent *x = ctx;

        if (e->partition == x->partition && e->base_offset + e->records <= x->end_offset) {
                x->hash += ls_meta_entry_hash(e);
                x->log_bytes += e->bytes;
                x->max_timestamp = LS_MAX(x->max_timestamp, e->max_timestamp);
        }
        return LS_OK;
}

/* Publishes [floor, to) of partition 0 as the file `key`; *ret_extent is what was added. */
static void
publish(struct ls_meta *m, uint64_t id, uint64_t version, const char *key, int64_t from, int64_t to,
        struct ls_meta_extent *ret_extent)
{
        struct ls_meta_file file = { .key = key, .rows = to - from };
        struct ls_meta_extent x = { .kind = LS_META_EXTENT_PARQUET,
                                    .base_offset = from,
                                    .end_offset = to,
                                    .file_id = 1,
                                    .rows = to - from };
        struct ls_meta_floor floor = { .floor = to };
        struct ls_errinfo info;
        bool is_new = true;
        struct ls_meta_table_commit c = { .stream_id = id,
                                          .version = version,
                                          .metadata_key = "m",
                                          .metadata = ls_span_of("{}", 2),
                                          .add_files = &file,
                                          .add_file_count = 1,
                                          .add_extents = &x,
                                          .file_is_new = &is_new,
                                          .add_extent_count = 1,
                                          .floors = &floor,
                                          .floor_count = 1 };

        assert_ok(ls_meta_entries(m, id, sum_fn, &x));
        if (ls_meta_table_publish(m, &c, &info) != LS_OK)
                fail_msg("%s", info.text);
        *ret_extent = x;
}

static struct ls_meta_wal_batch
nth_batch(uint64_t id, int32_t n)
{
        struct ls_meta_wal_batch b = kit_batch_of(id, 0, 4, 3, 0, n * 4);

        b.entry.s0 += (uint64_t)n * 1000003;
        return b;
}

static void
test_backup_and_replay(void **state)
{
        struct ls_meta_wal_batch b;
        struct ls_meta_extent x[2];
        struct ls_meta_options o;
        struct ls_meta_partition want;
        struct ls_meta *m;
        struct kit k, k2;
        uint64_t id, epoch, sequence, version, commit, witnessed;
        char path[160];

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        for (int32_t n = 0; n < 6; n++) {
                b = nth_batch(id, n);
                assert_int_equal(kit_one(&k, &b), LS_OK);
        }
        publish(k.m, id, 0, "f1", 0, 12, &x[0]);
        snprintf(path, sizeof path, "%s/backup.db", k.dir);
        assert_ok(ls_meta_backup(k.m, path, NULL));
        for (int32_t n = 6; n < 10; n++) {
                b = nth_batch(id, n);
                assert_int_equal(kit_one(&k, &b), LS_OK);
        }
        publish(k.m, id, 1, "f2", 12, 32, &x[1]);
        assert_ok(ls_meta_commit_number(k.m, &witnessed));
        want = kit_partition(k.m, id, 0);
        version = ls_meta_broker_epoch(k.m);

        o = kit_options(&k);
        o.sqlite_path = path;
        assert_ok(ls_meta_open(&o, &m, NULL));
        ls_meta_watermark(m, &epoch, &sequence);
        assert_int_equal(epoch, version);
        assert_int_equal(sequence, 6);
        {
                struct ls_meta_witness w = {
                        .commit = witnessed, .broker = 1, .epoch = 7, .producer_id = 4999
                };
                int64_t producer;

                assert_ok(ls_meta_rebuild_witness(m, &w));
                assert_int_equal(ls_meta_broker_epoch(m), 8);
                assert_ok(ls_meta_producer_new(m, &producer));
                assert_true(producer >= 5000);
        }
        for (int32_t n = 6; n < 10; n++) {
                struct ls_meta_wal_commit c = { .sequence = (uint64_t)n,
                                                .segment = 7,
                                                .pos = 1000,
                                                .batches = &b,
                                                .batch_count = 1 };

                b = nth_batch(id, n);
                b.entry.bytes = 100;
                b.entry.pos = 1010;
                assert_ok(ls_meta_rebuild_wal(m, 1, epoch, &c));
                assert_int_equal(b.outcome, LS_OK);
                assert_int_equal(b.entry.base_offset, n * 4);
        }
        {
                struct ls_meta_file file = { .key = "f2", .rows = 20 };
                struct ls_meta_floor floor = { .floor = 32 };
                bool is_new = true;
                struct ls_meta_table_commit c = { .stream_id = id,
                                                  .version = 1,
                                                  .metadata_key = "m2",
                                                  .metadata = ls_span_of("{}", 2),
                                                  .add_files = &file,
                                                  .add_file_count = 1,
                                                  .add_extents = &x[1],
                                                  .file_is_new = &is_new,
                                                  .add_extent_count = 1,
                                                  .floors = &floor,
                                                  .floor_count = 1 };
                struct ls_meta_table t;

                x[1].hash++; /* a file of other records is refused while the WAL can tell */
                assert_int_equal(ls_meta_rebuild_publish(m, &c, 5, NULL), LS_CORRUPT);
                x[1].hash--;
                assert_int_equal(ls_meta_rebuild_publish(m, &c, 1, NULL), LS_INVALID);
                assert_ok(ls_meta_rebuild_publish(m, &c, 5, NULL));
                assert_ok(ls_meta_table(m, id, &t));
                assert_int_equal(t.version, 5);
                ls_meta_table_done(&t);
        }
        same_partition(kit_partition(m, id, 0), want);
        assert_ok(ls_meta_commit_number(m, &commit));
        assert_true(commit > witnessed);
        assert_ok(ls_meta_check(m, fail_finding, NULL));
        k2 = k;
        k2.m = m;
        k2.sequence = 0;
        b = nth_batch(id, 9); /* the producer's retry is still known */
        assert_int_equal(kit_one(&k2, &b), LS_DUPLICATE);
        assert_int_equal(b.entry.base_offset, 36);
        b = nth_batch(id, 10);
        assert_int_equal(kit_one(&k2, &b), LS_OK);
        ls_meta_close(m);
        kit_done(&k);
}

static void
test_from_files_alone(void **state)
{
        struct ls_meta_stream spec = { .id = 41,
                                       .kafka_name = (char *)(uintptr_t) "a.t",
                                       .catalog = (char *)(uintptr_t) "main",
                                       .ns = (char *)(uintptr_t) "a",
                                       .name = (char *)(uintptr_t) "t",
                                       .partitions = 2,
                                       .leader_epoch = 3,
                                       .created_ms = 1234 };
        struct ls_meta_file file = { .key = "f", .rows = 30 };
        struct ls_meta_extent x[2] = { { .partition = 0,
                                         .kind = LS_META_EXTENT_PARQUET,
                                         .end_offset = 10,
                                         .file_id = 1,
                                         .rows = 10,
                                         .hash = 111,
                                         .log_bytes = 500,
                                         .max_timestamp = 9 },
                                       { .partition = 1,
                                         .kind = LS_META_EXTENT_PARQUET,
                                         .end_offset = 20,
                                         .file_id = 1,
                                         .first_row = 10,
                                         .rows = 20,
                                         .hash = 222,
                                         .log_bytes = 900,
                                         .max_timestamp = 8 } };
        struct ls_meta_floor floors[2] = { { 0, 10 }, { 1, 20 } };
        const bool is_new[2] = { true, true };
        struct ls_meta_table_commit c = { .metadata_key = "m",
                                          .metadata = ls_span_of("{}", 2),
                                          .add_files = &file,
                                          .add_file_count = 1,
                                          .add_extents = x,
                                          .file_is_new = is_new,
                                          .add_extent_count = 2,
                                          .floors = floors,
                                          .floor_count = 2,
                                          .stream_id = 41 };
        struct ls_meta_wal_batch b;
        struct ls_meta_partition p;
        struct kit k;
        uint64_t next;

        kit_new(&k);
        assert_int_equal(ls_meta_rebuild_stream(k.m, &spec), LS_INVALID); /* no topic id */
        memset(spec.topic_id.bytes, 7, sizeof spec.topic_id.bytes);
        assert_ok(ls_meta_rebuild_stream(k.m, &spec));
        assert_int_equal(ls_meta_rebuild_stream(k.m, &spec), LS_EXISTS);
        assert_ok(ls_meta_rebuild_publish(k.m, &c, 12, NULL));
        p = kit_partition(k.m, 41, 1);
        assert_int_equal(p.end, 20);
        assert_int_equal(p.stable, 20);
        assert_int_equal(p.floor, 20);
        assert_int_equal(p.hash, 222);
        assert_int_equal(p.bytes, 900);
        assert_int_equal(p.max_timestamp, 8);
        b = kit_batch(41, 1, 1);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 20);
        next = kit_stream_id(k.m, "later", 1);
        assert_true(next > 41);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_from_files_alone),
        };
        const struct CMUnitTest sqlite_tests[] = {
                cmocka_unit_test(test_backup_and_replay),
        };

        return cmocka_run_group_tests(tests, NULL, NULL) +
               (kit_postgres() ? 0 : cmocka_run_group_tests(sqlite_tests, NULL, NULL));
}
