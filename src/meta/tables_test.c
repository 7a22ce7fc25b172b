/* meta/tables_test.c - proves: snapshot, files, extents and floors change together or not at all; a
 * commit whose records are not those of the log, or do not cover what they replace, is refused;
 * concurrent commits exclude each other; dead index rows and WAL objects are purged, producers
 * remembered; what left the table becomes garbage after its grace time and never while something
 * names it. */
#include "meta/test_kit.h"

static const char json[] = "{\"format-version\":2}";

/* A stream with `count` batches of 10 records in each of its partitions, idempotent producer 5. */
static uint64_t
fill(struct kit *k, const char *name, int32_t partitions, int32_t count)
{
        uint64_t id = kit_stream_id(k->m, name, partitions);

        for (int32_t i = 0; i < count; i++) {
                struct ls_meta_wal_batch b[8];

                assert_true(partitions <= 8);
                for (int32_t p = 0; p < partitions; p++) {
                        b[p] = kit_batch_of(id, p, 10, 5, 0, i * 10);
                        b[p].entry.s0 += (uint64_t)i * 12345;
                }
                assert_ok(kit_commit(k, b, (size_t)partitions, NULL));
                for (int32_t p = 0; p < partitions; p++)
                        assert_int_equal(b[p].outcome, LS_OK);
        }
        return id;
}

/* The sum of a partition's records in [from, to), from the index (batches of 10). */
struct sum {
        int32_t partition;
        int64_t from, to;
        uint64_t hash;
};
static ls_err
sum_fn(void *ctx, const struct ls_meta_entry *e)
{
        struct sum *s = ctx;

        if (e->partition == s->partition && e->base_offset >= s->from &&
            e->base_offset + e->records <= s->to)
                s->hash += ls_meta_entry_hash(e);
        return LS_OK;
}
static uint64_t
sum_of(struct kit *k, uint64_t id, int32_t partition, int64_t from, int64_t to)
{
        struct sum s = { .partition = partition, .from = from, .to = to };

        assert_ok(ls_meta_entries(k->m, id, sum_fn, &s));
        return s.hash;
}

/* A commit that adds one file with [from, to) of partition 0. */
struct append {
        struct ls_meta_table_commit commit;
        struct ls_meta_file file;
        struct ls_meta_extent extent;
        bool is_new;
        struct ls_meta_floor floor;
};
static struct ls_meta_table_commit *
append_init(struct kit *k, struct append *a, uint64_t id, uint64_t version, const char *key,
            int64_t from, int64_t to)
{
        *a = (struct append){
                .file = { .key = key, .bytes = 999, .rows = to - from },
                .extent = { .partition = 0,
                            .kind = LS_META_EXTENT_PARQUET,
                            .base_offset = from,
                            .end_offset = to,
                            .file_id = 1,
                            .rows = to - from,
                            .min_timestamp = 1000,
                            .max_timestamp = 2000,
                            .hash = sum_of(k, id, 0, from, to),
                            .log_bytes = 100 },
                .is_new = true,
                .floor = { .partition = 0, .floor = to },
        };
        a->commit = (struct ls_meta_table_commit){
                .stream_id = id,
                .version = version,
                .metadata_key = key[0] == 'f' ? key + 1 : "m",
                .metadata = ls_span_of(json, sizeof json - 1),
                .add_files = &a->file,
                .add_file_count = 1,
                .add_extents = &a->extent,
                .file_is_new = &a->is_new,
                .add_extent_count = 1,
                .floors = &a->floor,
                .floor_count = 1,
                .garbage_grace_ms = 1000,
        };
        return &a->commit;
}

static void
fail_finding(void *ctx, const char *finding)
{
        fail_msg("%s", finding);
}

struct extents {
        struct ls_meta_extent list[64];
        char keys[64][32];
        size_t count;
};
static ls_err
extent_fn(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        struct extents *x = ctx;

        x->list[x->count] = *e;
        snprintf(x->keys[x->count], sizeof x->keys[0], "%s", file ? file->key : "-");
        x->count++;
        return LS_OK;
}
static ls_err
count_fn(void *ctx, const struct ls_meta_file *f)
{
        ++*(size_t *)ctx;
        return LS_OK;
}
static ls_err
count_key_fn(void *ctx, const char *key)
{
        ++*(size_t *)ctx;
        return LS_OK;
}
static ls_err
count_segment_fn(void *ctx, uint64_t segment)
{
        ++*(size_t *)ctx;
        return LS_OK;
}
static ls_err
count_object_fn(void *ctx, const struct ls_meta_wal_object *o)
{
        ++*(size_t *)ctx;
        return LS_OK;
}
static size_t
purge_all(struct kit *k)
{
        size_t total = 0, deleted;

        do {
                assert_ok(ls_meta_wal_purge(k->m, 3, &deleted));
                total += deleted;
        } while (deleted > 0);
        return total;
}

static void
test_append(void **state)
{
        struct ls_meta_table t;
        struct extents x = { .count = 0 };
        struct kit_entries es = { .count = 0 };
        struct append a;
        struct kit k;
        size_t files = 0;
        uint64_t id;

        kit_new(&k);
        id = fill(&k, "t", 1, 5);
        assert_ok(ls_meta_table(k.m, id, &t));
        assert_int_equal(t.version, 0);
        assert_null(t.metadata_key);
        assert_null(t.metadata);
        ls_meta_table_done(&t);
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 0, "f1", 0, 30), NULL));
        assert_true(a.commit.commit > 0 && a.file.id > 0 && a.file.added_commit == a.commit.commit);
        assert_int_equal(kit_partition(k.m, id, 0).floor, 30);
        assert_int_equal(kit_partition(k.m, id, 0).floor_hash, a.extent.hash);
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 1, "f2", 30, 50), NULL));
        assert_true(kit_partition(k.m, id, 0).floor_hash == kit_partition(k.m, id, 0).hash);

        assert_ok(ls_meta_table(k.m, id, &t));
        assert_int_equal(t.version, 2);
        assert_string_equal(t.metadata_key, "2");
        assert_int_equal(t.metadata->len, sizeof json - 1);
        assert_int_equal(t.commit, a.commit.commit);
        ls_meta_table_done(&t);
        assert_ok(ls_meta_entries(k.m, id, kit_entry_fn, &es));
        assert_int_equal(es.count, 0);

        assert_ok(ls_meta_extents(k.m, id, 0, 29, 31, 10, extent_fn, &x));
        assert_int_equal(x.count, 2);
        assert_int_equal(x.list[1].base_offset, 30);
        assert_string_equal(x.keys[0], "f1");
        assert_string_equal(x.keys[1], "f2");
        x.count = 0;
        assert_ok(ls_meta_extents(k.m, id, 0, 30, 31, 10, extent_fn, &x));
        assert_int_equal(x.count, 1);
        x.count = 0;
        assert_ok(ls_meta_extents(k.m, id, 0, 0, INT64_MAX, 1, extent_fn, &x));
        assert_int_equal(x.count, 1);
        x.count = 0;
        assert_ok(ls_meta_extents(k.m, id, 0, 50, INT64_MAX, 9, extent_fn, &x));
        assert_int_equal(x.count, 0);
        assert_ok(ls_meta_files(k.m, id, false, count_fn, &files));
        assert_int_equal(files, 2);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

static void
test_wrong_commits_are_refused(void **state)
{
        struct ls_errinfo info;
        struct ls_meta_table t;
        struct append a;
        struct kit k;
        size_t files = 0;
        uint64_t id;

        kit_new(&k);
        id = fill(&k, "t", 1, 5);
        /* a record lost, or changed */
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.extent.hash++;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        assert_non_null(strstr(info.text, "not those that were appended"));
        append_init(&k, &a, id, 0, "f1", 0, 50);
        a.extent.hash--;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        /* a hole, an overlap, beyond the end, not from the floor */
        append_init(&k, &a, id, 0, "f1", 10, 30);
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.floor.floor = 40;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        append_init(&k, &a, id, 0, "f1", 0, 60);
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.commit.floor_count = 0;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.commit.add_extent_count = 0;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        /* malformed */
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.extent.first_row = 1;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_INVALID);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.extent.partition = 1;
        a.floor.partition = 1;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_INVALID);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.extent.kind = LS_META_EXTENT_WAL;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_INVALID);
        /* an older version of the table, a stream that is not there */
        append_init(&k, &a, id, 3, "f1", 0, 30);
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CONFLICT);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.commit.stream_id = id + 1;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_ABSENT);
        /* a file that is not in the table */
        append_init(&k, &a, id, 0, "f1", 0, 30);
        a.is_new = false;
        a.extent.file_id = 77;
        a.commit.add_file_count = 0;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CONFLICT);
        /* an object on the list of garbage */
        {
                const char *key = "f1";

                assert_ok(ls_meta_garbage_add(k.m, &key, 1, 5));
                append_init(&k, &a, id, 0, "f1", 0, 30);
                assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CONFLICT);
                assert_ok(ls_meta_garbage_done(k.m, &key, 1));
        }
        /* nothing of all this is there */
        assert_int_equal(kit_partition(k.m, id, 0).floor, 0);
        assert_ok(ls_meta_files(k.m, id, true, count_fn, &files));
        assert_int_equal(files, 0);
        assert_ok(ls_meta_table(k.m, id, &t));
        assert_int_equal(t.version, 0);
        ls_meta_table_done(&t);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        append_init(&k, &a, id, 0, "f1", 0, 30);
        assert_ok(ls_meta_table_publish(k.m, &a.commit, &info));
        /* the same again: its key is taken, its range is there */
        append_init(&k, &a, id, 1, "f1", 30, 40);
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CONFLICT);
        kit_done(&k);
}

/* f1 [0,30) and f2 [30,50) become f3 [0,50); then f1 and f2 are garbage, after their grace. */
static void
test_rewrite(void **state)
{
        struct ls_meta_extent removed[2];
        uint64_t remove_files[2];
        struct ls_errinfo info;
        struct extents x = { .count = 0 };
        struct append a;
        struct kit k;
        size_t files = 0, keys = 0;
        bool named;
        int64_t now_ms;
        uint64_t id, hash;

        kit_new(&k);
        id = fill(&k, "t", 1, 5);
        hash = sum_of(&k, id, 0, 0, 50);
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 0, "f1", 0, 30), NULL));
        removed[0] = a.extent;
        removed[0].file_id = remove_files[0] = a.file.id;
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 1, "f2", 30, 50), NULL));
        removed[1] = a.extent;
        removed[1].file_id = remove_files[1] = a.file.id;

        append_init(&k, &a, id, 2, "f3", 0, 50);
        a.extent.hash = hash;
        a.commit.floor_count = 0;
        a.commit.remove_extents = removed;
        a.commit.remove_extent_count = 2;
        a.commit.remove_files = remove_files;
        a.commit.remove_file_count = 2;
        a.extent.hash ^= 1;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        a.extent.hash = hash;
        removed[1].hash ^= 1; /* not as it stands there; the sums would agree */
        a.extent.hash = removed[0].hash + removed[1].hash;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CONFLICT);
        removed[1].hash ^= 1;
        a.extent.hash = hash;
        a.commit.remove_extent_count = 1; /* f2 still referred to, and covered twice */
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        a.commit.remove_extent_count = 2;
        now_ms = ls_clock_wall_ms();
        assert_ok(ls_meta_table_publish(k.m, &a.commit, &info));

        assert_ok(ls_meta_extents(k.m, id, 0, 0, INT64_MAX, 64, extent_fn, &x));
        assert_int_equal(x.count, 1);
        assert_string_equal(x.keys[0], "f3");
        assert_ok(ls_meta_files(k.m, id, false, count_fn, &files));
        assert_int_equal(files, 1);
        assert_ok(ls_meta_files(k.m, id, true, count_fn, &files));
        assert_int_equal(files, 4);
        assert_ok(ls_meta_names(k.m, "f1", &named));
        assert_true(named);
        assert_ok(meta_garbage_at(k.m, now_ms + 500, 10, count_key_fn, &keys));
        assert_int_equal(keys, 0);
        assert_ok(meta_garbage_at(k.m, now_ms + 100000, 10, count_key_fn, &keys));
        assert_int_equal(keys, 2);
        {
                const char *const done[] = { "f1", "f2", "f3" };

                assert_ok(ls_meta_garbage_done(k.m, done, 3)); /* f3 is live: not forgotten */
        }
        assert_ok(ls_meta_names(k.m, "f1", &named));
        assert_false(named);
        assert_ok(ls_meta_names(k.m, "f3", &named));
        assert_true(named);
        assert_ok(ls_meta_names(k.m, "3", &named)); /* its metadata file */
        assert_true(named);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

/* Two files share [0,30): a group. A member is replaced by one of the same range, or all of them by
 * whatever covers it; never a part of it by something of another range. */
static void
test_groups(void **state)
{
        struct ls_meta_file files[2] = { { .key = "f1", .bytes = 9, .rows = 12 },
                                         { .key = "f2", .bytes = 9, .rows = 18 } };
        struct ls_meta_extent both[2], add[2], removed[2];
        uint64_t remove_files[2];
        const bool is_new[2] = { true, true };
        struct ls_errinfo info;
        struct extents x = { .count = 0 };
        struct append a;
        struct kit k;
        uint64_t id, hash;

        kit_new(&k);
        id = fill(&k, "t", 1, 3);
        hash = sum_of(&k, id, 0, 0, 30);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        both[0] = both[1] = a.extent;
        both[0].rows = 12;
        both[0].hash = 1234567;
        both[1].rows = 18;
        both[1].hash = hash - 1234567;
        both[1].file_id = 2;
        a.commit.add_files = files;
        a.commit.add_file_count = 2;
        a.commit.add_extents = both;
        a.commit.add_extent_count = 2;
        a.commit.file_is_new = is_new;
        both[1].base_offset = 10; /* overlapping, but no group */
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        both[1].base_offset = 0;
        both[1].file_id = 1; /* one file cannot be two members */
        both[1].first_row = both[0].first_row = 0;
        both[1].rows = 12;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        both[1].file_id = 2;
        both[1].rows = 18;
        assert_ok(ls_meta_table_publish(k.m, &a.commit, &info));
        assert_ok(ls_meta_extents(k.m, id, 0, 5, 6, 10, extent_fn, &x));
        assert_int_equal(x.count, 2);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        for (int i = 0; i < 2; i++) {
                removed[i] = both[i];
                removed[i].file_id = remove_files[i] = files[i].id;
        }

        /* f1 becomes f3, of the same range */
        append_init(&k, &a, id, 1, "f3", 0, 30);
        a.file.rows = a.extent.rows = 12;
        a.extent.hash = both[0].hash;
        a.commit.floor_count = 0;
        a.commit.remove_extents = removed;
        a.commit.remove_extent_count = 1;
        a.commit.remove_files = remove_files;
        a.commit.remove_file_count = 1;
        assert_ok(ls_meta_table_publish(k.m, &a.commit, &info));
        removed[0].file_id = remove_files[0] = a.file.id;
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));

        /* f3 becomes f4, cut at 10: not as long as f2 has the whole range */
        append_init(&k, &a, id, 2, "f4", 0, 30);
        add[0] = add[1] = a.extent;
        add[0].end_offset = add[1].base_offset = add[1].first_row = add[0].rows = 10;
        add[1].rows = 20;
        add[0].hash = 99;
        add[1].hash = both[0].hash - 99;
        a.commit.floor_count = 0;
        a.commit.add_extents = add;
        a.commit.add_extent_count = 2;
        a.commit.file_is_new = is_new;
        a.commit.remove_extents = removed;
        a.commit.remove_extent_count = 1;
        a.commit.remove_files = remove_files;
        a.commit.remove_file_count = 1;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        assert_non_null(strstr(info.text, "overlaps"));
        a.commit.remove_extent_count = 0; /* nothing goes: an overlap too */
        a.commit.remove_file_count = 0;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, &info), LS_CORRUPT);
        a.commit.remove_extent_count = a.commit.remove_file_count = 2; /* the whole group */
        add[1].hash = hash - 99;
        assert_ok(ls_meta_table_publish(k.m, &a.commit, &info));
        x.count = 0;
        assert_ok(ls_meta_extents(k.m, id, 0, 0, INT64_MAX, 10, extent_fn, &x));
        assert_int_equal(x.count, 2);
        assert_string_equal(x.keys[1], "f4");
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

static void
test_removed_file_must_be_free(void **state)
{
        struct ls_errinfo info;
        struct append a, b;
        struct kit k;
        uint64_t id, file;

        kit_new(&k);
        id = fill(&k, "t", 1, 5);
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 0, "f1", 0, 30), NULL));
        file = a.file.id;
        append_init(&k, &b, id, 1, "f2", 30, 50);
        b.commit.remove_files = &file;
        b.commit.remove_file_count = 1;
        assert_int_equal(ls_meta_table_publish(k.m, &b.commit, &info), LS_CONFLICT);
        assert_non_null(strstr(info.text, "extents refer to it"));
        assert_int_equal(kit_partition(k.m, id, 0).floor, 30);
        kit_done(&k);
}

/* Two commits built on the same version: the second loses, whatever it adds. */
static void
test_concurrent_commits(void **state)
{
        struct ls_meta_options o;
        struct append a, b;
        struct kit k, k2;
        uint64_t id;

        kit_new(&k);
        id = fill(&k, "t", 1, 5);
        append_init(&k, &a, id, 0, "f1", 0, 30);
        append_init(&k, &b, id, 0, "f2", 0, 20);
        assert_ok(ls_meta_table_publish(k.m, &a.commit, NULL));
        assert_int_equal(ls_meta_table_publish(k.m, &b.commit, NULL), LS_CONFLICT);
        /* another broker, whose cached chunk is stale */
        k2 = k;
        o = kit_options(&k);
        o.broker_id = 2;
        assert_ok(ls_meta_open(&o, &k2.m, NULL));
        append_init(&k2, &b, id, 1, "f2", 30, 40);
        assert_ok(ls_meta_table_publish(k2.m, &b.commit, NULL));
        append_init(&k, &a, id, 1, "f3", 30, 40);
        a.extent.hash = b.extent.hash;
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, NULL), LS_CONFLICT);
        append_init(&k, &a, id, 2, "f3", 40, 50);
        assert_ok(ls_meta_table_publish(k.m, &a.commit, NULL));
        ls_meta_close(k2.m);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

static void
test_purge_keeps_producers(void **state)
{
        struct ls_meta_wal_batch b;
        struct append a;
        struct kit k;
        size_t objects = 0, segments = 0;
        uint64_t id;

        kit_new(&k);
        id = fill(&k, "t", 1, 7);
        assert_int_equal(purge_all(&k), 0);
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 0, "f1", 0, 50), NULL));
        assert_int_equal(purge_all(&k), 5);
        assert_ok(ls_meta_wal_objects(k.m, count_object_fn, &objects));
        assert_int_equal(objects, 2);
        assert_ok(ls_meta_wal_segments(k.m, count_segment_fn, &segments));
        assert_int_equal(segments, 1);
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 1, "f2", 50, 70), NULL));
        assert_int_equal(purge_all(&k), 2);
        segments = 0;
        assert_ok(ls_meta_wal_segments(k.m, count_segment_fn, &segments));
        assert_int_equal(segments, 0);
        /* the index is empty; repeats are still known, from the checkpoint */
        for (int round = 0; round < 2; round++) {
                for (int32_t i = 2; i < 7; i++) {
                        b = kit_batch_of(id, 0, 10, 5, 0, i * 10);
                        assert_int_equal(kit_one(&k, &b), LS_DUPLICATE);
                        assert_int_equal(b.entry.base_offset, i * 10);
                }
                b = kit_batch_of(id, 0, 10, 5, 0, 10);
                assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
                kit_reopen(&k);
        }
        /* checkpoint and entries after it */
        b = kit_batch_of(id, 0, 10, 5, 0, 70);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        kit_reopen(&k);
        b = kit_batch_of(id, 0, 10, 5, 0, 70);
        assert_int_equal(kit_one(&k, &b), LS_DUPLICATE);
        assert_int_equal(b.entry.base_offset, 70);
        b = kit_batch_of(id, 0, 10, 5, 0, 30);
        assert_int_equal(kit_one(&k, &b), LS_DUPLICATE);
        b = kit_batch_of(id, 0, 10, 5, 0, 20);
        assert_int_equal(kit_one(&k, &b), LS_SEQUENCE_GAP);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

/* One object, two streams: its rows go one by one, the object with the last. */
static void
test_purge_shared_object(void **state)
{
        struct ls_meta_wal_batch b[2];
        struct append a;
        struct kit k;
        size_t objects = 0;
        uint64_t one, two;

        kit_new(&k);
        one = kit_stream_id(k.m, "one", 1);
        two = kit_stream_id(k.m, "two", 1);
        b[0] = kit_batch(one, 0, 10);
        b[1] = kit_batch(two, 0, 10);
        assert_ok(kit_commit(&k, b, 2, NULL));
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, one, 0, "f1", 0, 10), NULL));
        assert_int_equal(purge_all(&k), 1);
        assert_ok(ls_meta_wal_objects(k.m, count_object_fn, &objects));
        assert_int_equal(objects, 1);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        assert_ok(ls_meta_stream_delete(k.m, two, 0));
        assert_true(purge_all(&k) >= 1);
        objects = 0;
        assert_ok(ls_meta_wal_objects(k.m, count_object_fn, &objects));
        assert_int_equal(objects, 0);
        kit_done(&k);
}

struct gone {
        int count;
        uint64_t id;
        ls_uuid topic_id;
};

static ls_err
gone_fn(void *ctx, uint64_t stream_id, ls_uuid topic_id)
{
        struct gone *g = ctx;

        *g = (struct gone){ g->count + 1, stream_id, topic_id };
        return LS_OK;
}

static ls_err
topic_id_fn(void *ctx, const struct ls_meta_stream *s)
{
        *(ls_uuid *)ctx = s->topic_id;
        return LS_OK;
}

static void
test_delete_stream(void **state)
{
        struct gone gone = { 0 };
        const char *file_key = "f1";
        ls_uuid gone_topic_id;
        struct ls_meta_offset offset = { .partition = 0, .offset = 3 };
        struct ls_meta_wal_batch b;
        struct append a;
        struct kit k;
        size_t keys = 0;
        uint64_t id, again;
        ls_uuid topic_id;
        struct ls_meta_stream *s;

        kit_new(&k);
        id = fill(&k, "t", 1, 5);
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 0, "f1", 0, 30), NULL));
        offset.stream_id = id;
        assert_ok(ls_meta_offsets_store(k.m, "g", -1, &offset, 1));
        assert_ok(ls_meta_stream_list(k.m, topic_id_fn, &gone_topic_id));
        assert_ok(ls_meta_stream_delete(k.m, id, 1000));
        assert_int_equal(ls_meta_stream_delete(k.m, id, 1000), LS_ABSENT);
        b = kit_batch(id, 0, 1);
        assert_int_equal(kit_one(&k, &b), LS_ABSENT);
        assert_int_equal(ls_meta_table_publish(k.m, &a.commit, NULL), LS_ABSENT);
        assert_ok(meta_garbage_at(k.m, ls_clock_wall_ms(), 10, count_key_fn, &keys));
        assert_int_equal(keys, 0);
        assert_ok(meta_garbage_at(k.m, ls_clock_wall_ms() + 2000, 10, count_key_fn, &keys));
        assert_int_equal(keys, 2);          /* the data file and the metadata file */
        assert_int_equal(purge_all(&k), 7); /* 5 index rows, 1 extent, the stream's number */
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        /* its folder may go when the grace is over and no data file waits on its own */
        assert_ok(meta_gone_at(k.m, ls_clock_wall_ms() + 2000, 10, gone_fn, &gone));
        assert_int_equal(gone.count, 0);
        assert_ok(ls_meta_garbage_done(k.m, &file_key, 1));
        assert_ok(meta_gone_at(k.m, ls_clock_wall_ms(), 10, gone_fn, &gone));
        assert_int_equal(gone.count, 0);
        assert_ok(meta_gone_at(k.m, ls_clock_wall_ms() + 2000, 10, gone_fn, &gone));
        assert_int_equal(gone.count, 1);
        assert_int_equal(gone.id, id);
        assert_true(ls_uuid_eq(gone.topic_id, gone_topic_id));
        assert_ok(ls_meta_gone_done(k.m, id));
        assert_ok(meta_gone_at(k.m, INT64_MAX, 10, gone_fn, &gone));
        assert_int_equal(gone.count, 1);
        /* the name is free; number and topic id are fresh */
        s = kit_stream(k.m, "t", 1);
        again = s->id;
        topic_id = s->topic_id;
        assert_true(again > id);
        assert_false(ls_uuid_is_zero(topic_id));
        ls_meta_stream_free(s);
        assert_int_equal(kit_partition(k.m, again, 0).end, 0);
        kit_done(&k);
}

/* Many deleted streams go in few slices, also when the first of them still has index rows. */
static void
test_delete_many_streams(void **state)
{
        enum { COUNT = 250 };
        struct gone gone = { 0 };
        struct ls_meta_wal_batch b;
        size_t deleted, calls = 0;
        uint64_t ids[COUNT];
        struct kit k;

        kit_new(&k);
        for (int i = 0; i < COUNT; i++) {
                char name[16];

                snprintf(name, sizeof name, "t%d", i);
                ids[i] = kit_stream_id(k.m, name, 1);
        }
        b = kit_batch(ids[0], 0, 1);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        for (int i = 0; i < COUNT; i++)
                assert_ok(ls_meta_stream_delete(k.m, ids[i], 0));
        do {
                assert_ok(ls_meta_wal_purge(k.m, 1000, &deleted));
                calls++;
        } while (deleted > 0);
        assert_in_range(calls, 3, 6);
        assert_ok(meta_gone_at(k.m, INT64_MAX, COUNT + 1, gone_fn, &gone));
        assert_int_equal(gone.count, COUNT);
        assert_int_equal(gone.id, ids[COUNT - 1]);
        kit_done(&k);
}

static void
test_log_start_and_discard(void **state)
{
        struct kit_entries es = { .count = 0 };
        struct extents x = { .count = 0 };
        struct append a;
        struct kit k;
        int64_t start;
        size_t moved;
        uint64_t id;

        kit_new(&k);
        id = fill(&k, "t", 2, 5);
        assert_ok(ls_meta_log_start(k.m, id, 0, 25, &start));
        assert_int_equal(start, 25);
        assert_ok(ls_meta_log_start(k.m, id, 0, 5, &start)); /* never back */
        assert_int_equal(start, 25);
        assert_int_equal(ls_meta_log_start(k.m, id, 0, 51, &start), LS_OUT_OF_RANGE);
        assert_int_equal(ls_meta_log_start(k.m, id, 0, -1, &start), LS_OUT_OF_RANGE);
        assert_int_equal(ls_meta_log_start(k.m, id, 2, 0, &start), LS_ABSENT);
        assert_int_equal(kit_partition(k.m, id, 0).start, 25);
        assert_int_equal(purge_all(&k), 0); /* the table still has to get them */
        assert_ok(ls_meta_entries(k.m, id, kit_entry_fn, &es));
        assert_int_equal(es.count, 10);
        /* without a table: whole batches below the start go */
        assert_ok(ls_meta_log_discard(k.m, id, &moved));
        assert_int_equal(moved, 1);
        assert_int_equal(kit_partition(k.m, id, 0).floor, 20);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        assert_ok(ls_meta_log_discard(k.m, id, &moved));
        assert_int_equal(moved, 0);
        assert_ok(ls_meta_log_start(k.m, id, 0, 50, &start));
        assert_ok(ls_meta_log_start(k.m, id, 1, 50, &start));
        assert_ok(ls_meta_log_discard(k.m, id, &moved));
        assert_int_equal(moved, 2);
        assert_ok(ls_meta_extents(k.m, id, 0, 0, INT64_MAX, 64, extent_fn, &x));
        assert_int_equal(x.count, 1); /* one hole, grown */
        assert_int_equal(x.list[0].kind, LS_META_EXTENT_HOLE);
        assert_int_equal(x.list[0].end_offset, 50);
        assert_int_equal(purge_all(&k), 5);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        /* a hole can stand before files */
        {
                struct ls_meta_wal_batch b = kit_batch(id, 0, 10);

                assert_int_equal(kit_one(&k, &b), LS_OK);
                assert_int_equal(b.entry.base_offset, 50);
        }
        assert_ok(ls_meta_table_publish(k.m, append_init(&k, &a, id, 0, "f1", 50, 60), NULL));
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

/* Whether a finding has the words. */
struct findings {
        const char *words;
        size_t count;
        bool found;
};
static void
count_finding(void *ctx, const char *finding)
{
        struct findings *f = ctx;

        f->count++;
        f->found |= strstr(finding, f->words) != NULL;
}

/* Damage of each kind is found and named. */
static void
test_check_finds(void **state)
{
        static const char *const damage[][2] = {
                { "UPDATE chunk SET state = x'00'", "partition state" },
                { "UPDATE wal_index SET entries = x'00' WHERE object_id = 5", "does not decode" },
                { "DELETE FROM wal_index WHERE object_id = 5", "not in the index" },
                { "DELETE FROM wal_index WHERE object_id = 7", "the index ends" },
                { "DELETE FROM extent", "no extents below the floor" },
                { "UPDATE extent SET hash = hash + 1", "the sum of its extents" },
                { "UPDATE extent SET end_offset = 29", "extents end at" },
                { "UPDATE extent SET file_id = 99", "not in the table" },
                { "DELETE FROM wal_object WHERE id = 5", "WAL object that is not there" },
                { "UPDATE counter SET value = 3 WHERE id = 1", "above the last commit" },
                { "UPDATE chunk_producers SET state = x'AD01'", "producer checkpoint" },
                { "DELETE FROM chunk", "missing" },
        };

        for (size_t i = 0; i < LS_COUNT(damage); i++) {
                struct findings f = { .words = damage[i][1] };
                struct append a;
                struct kit k;
                uint64_t id;

                kit_new(&k);
                id = fill(&k, "t", 1, 7);
                assert_ok(
                        ls_meta_table_publish(k.m, append_init(&k, &a, id, 0, "f1", 0, 30), NULL));
                ls_meta_close(k.m);
                kit_sql(&k, damage[i][0]);
                kit_open(&k);
                assert_ok(ls_meta_check(k.m, count_finding, &f));
                if (!f.found)
                        fail_msg("not found (%zu findings): %s", f.count, damage[i][0]);
                kit_done(&k);
        }
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_append),
                cmocka_unit_test(test_wrong_commits_are_refused),
                cmocka_unit_test(test_rewrite),
                cmocka_unit_test(test_groups),
                cmocka_unit_test(test_removed_file_must_be_free),
                cmocka_unit_test(test_concurrent_commits),
                cmocka_unit_test(test_purge_keeps_producers),
                cmocka_unit_test(test_purge_shared_object),
                cmocka_unit_test(test_delete_stream),
                cmocka_unit_test(test_delete_many_streams),
                cmocka_unit_test(test_log_start_and_discard),
                cmocka_unit_test(test_check_finds),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
