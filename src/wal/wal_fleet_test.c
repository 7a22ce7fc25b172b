/* wal/wal_fleet_test.c - proves, of brokers with one store and one database: the views of two on
 * one partition converge, offsets are dense, waiters wake; what others compacted, grew or deleted
 * arrives; a reader never skips over records; a database that went back in time, by its epochs or
 * by its commits, is refused. */
#include "wal/store_test_kit.h"

/* --- two brokers --- */

struct wake {
        struct ls_wal_waiter waiter;
        atomic_int bytes, calls;
};

static void
woken(struct ls_wal_waiter *waiter, size_t bytes)
{
        struct wake *wake = LS_CONTAINER(waiter, struct wake, waiter);

        atomic_fetch_add(&wake->bytes, (int)bytes);
        atomic_fetch_add(&wake->calls, 1);
}

static ls_err
entry_push(void *ctx, const struct ls_meta_entry *e)
{
        struct ls_buf *out = ctx;

        ls_buf_put_le32(out, (uint32_t)e->records);
        ls_buf_put_le64(out, (uint64_t)e->base_offset);
        ls_buf_put_le64(out, e->segment);
        ls_buf_put_le64(out, e->pos);
        ls_buf_put_le32(out, e->bytes);
        ls_buf_put_le64(out, (uint64_t)e->max_timestamp);
        ls_buf_put_le64(out, e->s0);
        ls_buf_put_le64(out, e->s1);
        return LS_OK;
}

/* The same entries and states in both views. */
static void
assert_same(struct world *w, int32_t partition)
{
        struct ls_wal_backlog backlog_a, backlog_b;
        struct ls_wal_view a, b;
        struct ls_buf ea, eb;

        ls_buf_init(&ea, 1 << 20);
        ls_buf_init(&eb, 1 << 20);
        assert_ok(ls_wal_view(w->a.stream, partition, &a));
        assert_ok(ls_wal_view(w->b.stream, partition, &b));
        assert_int_equal(a.end, b.end);
        assert_int_equal(a.stable, b.stable);
        assert_int_equal(a.floor, b.floor);
        assert_int_equal(a.start, b.start);
        assert_int_equal(a.hash, b.hash);
        assert_int_equal(a.floor_hash, b.floor_hash);
        assert_int_equal(a.wal_bytes, b.wal_bytes);
        assert_int_equal(a.wal_entries, b.wal_entries);
        assert_ok(ls_wal_entries(w->a.stream, partition, a.floor, INT64_MAX, entry_push, &ea));
        assert_ok(ls_wal_entries(w->b.stream, partition, a.floor, INT64_MAX, entry_push, &eb));
        assert_int_equal(ea.len, eb.len);
        assert_memory_equal(ea.ptr, eb.ptr, ea.len);
        ls_wal_backlog(w->a.stream, &backlog_a);
        ls_wal_backlog(w->b.stream, &backlog_b);
        assert_int_equal(backlog_a.bytes, backlog_b.bytes);
        assert_int_equal(backlog_a.entries, backlog_b.entries);
        assert_int_equal(backlog_a.records, backlog_b.records);
        ls_buf_done(&ea);
        ls_buf_done(&eb);
}

static void
test_two_brokers_in_turns(void **state)
{
        struct world *w = *state;
        struct wake wake = { .waiter = { .on_change = woken } };
        struct ls_wal_view view;
        int64_t offset;

        assert_ok(broker_open(w, &w->b, 2, NULL));
        assert_true(w->b.epoch > w->a.epoch);
        for (int i = 0; i < 10; i++) {
                struct broker *b = i % 2 ? &w->b : &w->a;

                assert_ok(append_one(b, 0, (uint8_t)i, &offset));
                assert_int_equal(offset, 2 * i);
                assert_int_equal(end_of(b, 0), 2 * i + 2); /* it sees its own at once */
        }
        w->script.gets = 0;
        read_all(&w->b, 0, 10);
        assert_int_equal(w->script.gets, 5); /* what it wrote itself is cached */
        assert_int_equal(end_of(&w->a, 0), 18);
        assert_ok(ls_wal_wait(w->a.stream, 0, 18, &wake.waiter));
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        assert_int_equal(atomic_load(&wake.bytes), BATCH_BYTES);
        assert_int_equal(atomic_load(&wake.calls), 1);
        ls_wal_unwait(w->a.stream, &wake.waiter);
        read_all(&w->a, 0, 10);
        assert_same(w, 0);
        assert_ok(ls_wal_stream_refresh(w->a.stream)); /* nothing new changes nothing */
        assert_ok(ls_wal_stream_refresh(w->b.stream));
        assert_same(w, 0);
        assert_ok(ls_wal_view(w->a.stream, 0, &view));
        assert_int_equal(view.wal_entries, 10);
        broker_reopen(w, &w->b, 2);
        assert_same(w, 0);
        read_all(&w->b, 0, 10);
}

/* A waiter is told of what it waits for alone. */
static void
test_waiters_of_other_partitions_sleep(void **state)
{
        struct world *w = *state;
        struct wake wake = { .waiter = { .on_change = woken } };

        assert_ok(broker_open(w, &w->b, 2, NULL));
        assert_ok(ls_wal_wait(w->a.stream, 1, 0, &wake.waiter));
        assert_ok(append_one(&w->b, 0, 0, NULL));
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        assert_int_equal(atomic_load(&wake.calls), 0);
        assert_int_equal(end_of(&w->a, 0), 2);
        ls_wal_unwait(w->a.stream, &wake.waiter);
}

struct follower {
        struct ls_wal_stream *stream;
        atomic_bool stop;
        int64_t end; /* never backwards */
};

static void
follower_run(void *arg)
{
        struct follower *f = arg;

        while (!atomic_load(&f->stop)) {
                struct ls_wal_view view;

                assert_ok(ls_wal_stream_refresh(f->stream));
                assert_ok(ls_wal_view(f->stream, 0, &view));
                assert_true(view.end >= f->end);
                f->end = view.end;
        }
}

struct appender {
        struct broker *broker;
        int64_t offsets[100];
};

static void
appender_run(void *arg)
{
        struct appender *a = arg;

        for (size_t i = 0; i < LS_COUNT(a->offsets); i++)
                assert_ok(append_one(a->broker, 0, 0, &a->offsets[i]));
}

static void
test_refresh_while_both_commit(void **state)
{
        struct world *w = *state;
        struct follower f[3];
        struct appender a[2];
        struct ls_thread *followers[3], *appenders[2];
        bool seen[2 * LS_COUNT(a->offsets)] = { false };

        assert_ok(broker_open(w, &w->b, 2, NULL));
        for (int i = 0; i < 3; i++) { /* two on one view */
                f[i] = (struct follower){ .stream = i ? w->a.stream : w->b.stream };
                assert_ok(ls_thread_start("follower", follower_run, &f[i], &followers[i]));
        }
        for (int i = 0; i < 2; i++) {
                a[i].broker = i ? &w->b : &w->a;
                assert_ok(ls_thread_start("appender", appender_run, &a[i], &appenders[i]));
        }
        for (int i = 0; i < 2; i++)
                ls_thread_join(appenders[i]);
        for (int i = 0; i < 3; i++) {
                atomic_store(&f[i].stop, true);
                ls_thread_join(followers[i]);
        }
        for (size_t i = 0; i < LS_COUNT(seen); i++) {
                int64_t offset = a[i % 2].offsets[i / 2];

                assert_true(offset >= 0 && offset % 2 == 0);
                assert_true((size_t)offset / 2 < LS_COUNT(seen));
                assert_false(seen[offset / 2]);
                seen[offset / 2] = true;
        }
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        assert_ok(ls_wal_stream_refresh(w->b.stream));
        assert_int_equal(end_of(&w->a, 0), 2 * LS_COUNT(seen));
        assert_same(w, 0);
}

static void
test_grown_elsewhere(void **state)
{
        struct world *w = *state;
        struct wake wake = { .waiter = { .on_change = woken } };
        struct ls_meta_stream *row;

        assert_ok(broker_open(w, &w->b, 2, NULL));
        assert_ok(ls_wal_wait(w->a.stream, 2, 0, &wake.waiter));
        assert_ok(ls_meta_stream_grow(w->b.meta, w->stream_id, 5, &row));
        ls_meta_stream_free(row);
        ls_wal_stream_grow(w->b.stream, 5);
        assert_ok(append_one(&w->b, 4, 0, NULL));
        assert_ok(append_one(&w->b, 2, 0, NULL));
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        assert_int_equal(ls_wal_stream_partitions(w->a.stream), 5);
        read_all(&w->a, 4, 1);
        assert_int_equal(atomic_load(&wake.calls), 1); /* it has moved with its log */
        ls_wal_unwait(w->a.stream, &wake.waiter);
        assert_ok(append_one(&w->a, 4, 1, NULL));
        read_all(&w->a, 4, 2);
}

static void
test_deleted_elsewhere(void **state)
{
        struct world *w = *state;
        struct wake wake = { .waiter = { .on_change = woken } };
        int64_t next;

        assert_ok(broker_open(w, &w->b, 2, NULL));
        assert_ok(append_one(&w->a, 0, 0, NULL));
        assert_ok(ls_wal_wait(w->a.stream, 0, 2, &wake.waiter));
        assert_ok(ls_meta_stream_delete(w->b.meta, w->stream_id, 1000));
        assert_int_equal(append_one(&w->a, 0, 1, NULL), LS_ABSENT);
        assert_int_equal(ls_wal_stream_refresh(w->a.stream), LS_ABSENT);
        assert_int_equal(atomic_load(&wake.calls), 1);
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_ABSENT);
        assert_int_equal(ls_wal_stream_refresh(w->a.stream), LS_ABSENT);
        ls_wal_unwait(w->a.stream, &wake.waiter);
}

/* --- what others compact --- */

static uint64_t
hash_of(int64_t from, int64_t to)
{
        uint64_t hash = 0;

        for (int64_t base = from; base < to; base += 2)
                hash += (2 * (uint64_t)base + 1) * 3 + 2 * 5;
        return hash;
}

/* [from, to) of partition 0 goes to a file, and what the WAL has of it is purged: by `b`. */
static void
compact(struct world *w, struct broker *b, uint64_t version, int64_t from, int64_t to)
{
        struct ls_meta_file file = { .key = version ? "f2" : "f1", .bytes = 9, .rows = to - from };
        struct ls_meta_extent extent = { .kind = LS_META_EXTENT_PARQUET,
                                         .base_offset = from,
                                         .end_offset = to,
                                         .file_id = 1,
                                         .rows = to - from,
                                         .min_timestamp = 1000,
                                         .max_timestamp = 2000,
                                         .hash = hash_of(from, to),
                                         .log_bytes = 100 };
        bool is_new = true;
        struct ls_meta_floor floor = { 0, to };
        struct ls_meta_table_commit commit = { .stream_id = w->stream_id,
                                               .version = version,
                                               .metadata_key = version ? "m2" : "m1",
                                               .metadata = ls_span_of("{}", 2),
                                               .add_files = &file,
                                               .add_file_count = 1,
                                               .add_extents = &extent,
                                               .file_is_new = &is_new,
                                               .add_extent_count = 1,
                                               .floors = &floor,
                                               .floor_count = 1 };
        struct ls_wal_purge purge = { .unnamed_since_ms = INT64_MAX };
        struct ls_errinfo info = { { 0 } };
        size_t deleted;

        if (ls_meta_table_publish(b->meta, &commit, &info) != LS_OK)
                fail_msg("publish: %s", info.text);
        ls_wal_set_floor(b->stream, 0, to, hash_of(0, to));
        assert_ok(ls_wal_purge(b->wal, &purge, &deleted));
        assert_int_equal(deleted, 0);
}

/* A has batches 0 and 1 in its cache. B appends 2 to 5, and compacts up to 4: what A has never seen
 * of that is not skipped by its readers, it is told to read the table's files. */
static void
test_compacted_elsewhere(void **state)
{
        struct world *w = *state;
        struct wake wake = { .waiter = { .on_change = woken } };
        struct ls_wal_view view;
        int64_t next, offset;

        for (int i = 0; i < 2; i++)
                assert_ok(append_one(&w->a, 0, (uint8_t)i, NULL));
        assert_ok(broker_open(w, &w->b, 2, NULL));
        for (int i = 2; i < 6; i++)
                assert_ok(append_one(&w->b, 0, (uint8_t)i, NULL));
        compact(w, &w->b, 0, 0, 8);
        ls_wal_set_floor(w->a.stream, 0, 8, hash_of(0, 8)); /* before it has seen the end */
        assert_int_equal(end_of(&w->a, 0), 4);
        assert_ok(ls_wal_wait(w->a.stream, 0, 4, &wake.waiter));
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        assert_int_equal(atomic_load(&wake.calls), 1);
        ls_wal_unwait(w->a.stream, &wake.waiter);
        assert_ok(ls_wal_view(w->a.stream, 0, &view));
        assert_int_equal(view.floor, 8);
        assert_int_equal(view.end, 12);
        assert_int_equal(view.wal_entries, 2);
        assert_int_equal(view.hash, hash_of(0, 12));
        assert_int_equal(view.floor_hash, hash_of(0, 8));
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_END);
        assert_int_equal(next, 4);
        assert_ok(read_from(&w->a, 0, 8, &next));
        assert_int_equal(next, 12);
        assert_same(w, 0);
        /* all is compacted behind A's back, then it appends */
        compact(w, &w->b, 1, 8, 12);
        assert_ok(append_one(&w->b, 0, 6, NULL));
        assert_ok(append_one(&w->a, 0, 7, &offset));
        assert_int_equal(offset, 14);
        assert_ok(ls_wal_stream_refresh(w->b.stream));
        assert_same(w, 0);
        assert_ok(read_from(&w->a, 0, 12, &next));
        assert_int_equal(next, 16);
}

static void
test_start_raised_elsewhere(void **state)
{
        struct world *w = *state;
        struct ls_wal_view view;
        int64_t start, next;

        assert_ok(broker_open(w, &w->b, 2, NULL));
        for (int i = 0; i < 3; i++)
                assert_ok(append_one(&w->b, 0, (uint8_t)i, NULL));
        assert_ok(ls_meta_log_start(w->b.meta, w->stream_id, 0, 4, &start));
        ls_wal_set_start(w->a.stream, 0, 4); /* not seen yet: nothing happens */
        assert_ok(ls_wal_view(w->a.stream, 0, &view));
        assert_int_equal(view.start, 0);
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        assert_ok(ls_wal_view(w->a.stream, 0, &view));
        assert_int_equal(view.start, 4);
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_OUT_OF_RANGE);
        assert_ok(read_from(&w->a, 0, 4, &next));
        assert_int_equal(next, 6);
}

/* --- a database that went back in time --- */

static void
mark_put(struct world *w, uint64_t epoch)
{
        char key[LS_META_WAL_KEY_BYTES];

        snprintf(key, sizeof key, "wal/%010llu/open", (unsigned long long)epoch);
        assert_ok(ls_store_put(w->mem, key, ls_span_of("x", 1)));
}

static void
refused(struct world *w, const char *words)
{
        struct ls_errinfo info = { { 0 } };

        assert_int_equal(broker_open(w, &w->a, 1, &info), LS_EBROKEN);
        if (strstr(info.text, words) == NULL)
                fail_msg("says: %s", info.text);
        broker_close(&w->a);
}

static void
test_epoch_given_twice(void **state)
{
        struct world *w = *state;
        uint64_t epoch = w->a.epoch;

        broker_close(&w->a);
        mark_put(w, epoch + 1);
        refused(w, "went back in time");
        refused(w, "left the object wal/went-back"); /* though epoch + 2 is new */
        assert_ok(ls_store_delete(w->mem, "wal/went-back"));
        assert_ok(broker_open(w, &w->a, 1, NULL));
        assert_ok(append_one(&w->a, 0, 0, NULL));
}

static void
test_epoch_that_nobody_knows(void **state)
{
        struct world *w = *state;
        uint64_t epoch = w->a.epoch;

        broker_close(&w->a);
        mark_put(w, epoch + 5);
        mark_put(w, epoch + 9);
        refused(w, "does not know of epoch");
}

/* A mistake in a setting does not stop the installation whose store it names. */
static void
test_store_of_another_installation(void **state)
{
        struct world *w = *state;
        struct ls_segment_header header = { .cluster = { { 1 } }, .epoch = 1000 };
        struct ls_store_info info;
        struct ls_buf bytes;

        broker_close(&w->a);
        ls_buf_init(&bytes, 1000);
        ls_segment_header_put(&bytes, &header);
        assert_ok(ls_store_put(w->mem, "wal/0000001000/open", ls_buf_span(&bytes)));
        ls_buf_done(&bytes);
        refused(w, "another installation");
        assert_int_equal(ls_store_head(w->mem, "wal/went-back", &info), LS_ABSENT);
}

/* One that opened in this moment is newer, and known. */
static void
test_newer_brokers_are_known(void **state)
{
        struct world *w = *state;

        broker_close(&w->a);
        assert_ok(broker_meta(w, &w->a, 1, NULL));
        assert_ok(broker_open(w, &w->b, 2, NULL));
        assert_true(w->b.epoch > w->a.epoch);
        assert_ok(broker_wal(w, &w->a, 1, NULL));
        assert_ok(append_one(&w->a, 0, 0, NULL));
}

/* Restored from a copy that was made in the present epoch: only the objects know. */
static void
test_database_that_was_restored(void **state)
{
        struct world *w = *state;
        char command[300];

        if (postgres() != NULL)
                skip(); /* its copies are not files */
        assert_ok(append_one(&w->a, 0, 0, NULL));
        snprintf(command, sizeof command, "VACUUM INTO '%s/old.db'", w->dir);
        sql(w, command);
        for (int i = 1; i < 4; i++)
                assert_ok(append_one(&w->a, 0, (uint8_t)i, NULL));
        broker_close(&w->a);
        snprintf(command, sizeof command, "rm -f %s/meta.db*; cp %s/old.db %s/meta.db", w->dir,
                 w->dir, w->dir);
        assert_int_equal(system(command), 0);
        refused(w, "does not know of commit 3");
        refused(w, "left the object wal/went-back");
}

/* An object that has seen commit `commit`. */
static void
witness_put(struct world *w, uint64_t epoch, uint64_t sequence, uint64_t commit)
{
        struct ls_object_header header = { .epoch = epoch,
                                           .sequence = sequence,
                                           .last_commit = commit };
        char key[LS_META_WAL_KEY_BYTES];
        struct ls_buf bytes;

        key_of(epoch, sequence, key);
        ls_buf_init(&bytes, 1000);
        memset(ls_buf_add(&bytes, LS_SEGMENT_HEADER_BYTES), 0, LS_SEGMENT_HEADER_BYTES);
        ls_object_header_put(&bytes, &header);
        assert_ok(ls_store_put(w->mem, key, ls_buf_span(&bytes)));
        ls_buf_done(&bytes);
}

/* The last object is found among many, with gaps: it knows of more than the others. */
static void
test_last_object_is_found(void **state)
{
        static const uint64_t last[] = { 1, 999, 1000, 1001, 2000, 3456, 60000, 123456 };
        struct world *w = *state;
        uint64_t epoch = w->a.epoch, put = 0;

        for (size_t i = 0; i < LS_COUNT(last); i++) {
                char words[64];

                broker_close(&w->a);
                assert_ok(ls_store_delete(w->mem, "wal/went-back"));
                while (put < last[i] - 1) {
                        put += put < 2500 ? 1 : LS_MIN(50, last[i] - 1 - put);
                        witness_put(w, epoch, put, 0);
                }
                witness_put(w, epoch, last[i], 1000 + i);
                snprintf(words, sizeof words, "does not know of commit %zu", 1000 + i);
                refused(w, words);
                witness_put(w, epoch, last[i], 0);
                put = last[i];
        }
}

static void
test_commit_number_given_twice(void **state)
{
        struct world *w = *state;
        struct ls_store_info info;

        for (int i = 0; i < 3; i++)
                assert_ok(append_one(&w->a, 0, (uint8_t)i, NULL));
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        sql(w, "UPDATE counter SET value = value - 2 WHERE id = 1;"
               "DELETE FROM wal_index; DELETE FROM wal_object");
        assert_int_equal(append_one(&w->a, 1, 0, NULL), LS_EDB);
        assert_int_equal(w->a.lost, 1);
        assert_ok(ls_store_head(w->mem, "wal/went-back", &info));
        assert_int_equal(append_one(&w->a, 1, 0, NULL), LS_EDB); /* nothing is acknowledged */
}

static void
test_follows_a_database_that_went_back(void **state)
{
        struct world *w = *state;

        for (int i = 0; i < 3; i++)
                assert_ok(append_one(&w->a, 0, (uint8_t)i, NULL));
        assert_ok(ls_wal_stream_refresh(w->a.stream));
        sql(w, "UPDATE counter SET value = value - 2 WHERE id = 1");
        assert_int_equal(ls_wal_stream_refresh(w->a.stream), LS_EBROKEN);
        assert_int_equal(w->a.lost, 1);
        sql(w, "UPDATE counter SET value = 10 WHERE id = 1"); /* what is lost stays lost */
        assert_int_equal(append_one(&w->a, 1, 0, NULL), LS_EDB);
}

/* --- upkeep --- */

static void
test_purge_and_disk(void **state)
{
        struct world *w = *state;
        struct ls_wal_purge purge = { .unnamed_since_ms = INT64_MAX };
        uint64_t bytes = 1;
        size_t count = 1;

        assert_ok(append_one(&w->a, 0, 0, NULL));
        ls_wal_disk(w->a.wal, &count, &bytes);
        assert_int_equal(count, 0);
        assert_int_equal(bytes, 0);
        compact(w, &w->a, 0, 0, 2);
        assert_ok(ls_wal_purge(w->a.wal, &purge, &count));
        assert_int_equal(count, 0);
        assert_int_equal(objects_count(w), 1); /* the collector deletes it, after its grace */
}

int
main(void)
{
#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_two_brokers_in_turns),
                WORLD_TEST(test_waiters_of_other_partitions_sleep),
                WORLD_TEST(test_refresh_while_both_commit),
                WORLD_TEST(test_grown_elsewhere),
                WORLD_TEST(test_deleted_elsewhere),
                WORLD_TEST(test_compacted_elsewhere),
                WORLD_TEST(test_start_raised_elsewhere),
                WORLD_TEST(test_epoch_given_twice),
                WORLD_TEST(test_epoch_that_nobody_knows),
                WORLD_TEST(test_store_of_another_installation),
                WORLD_TEST(test_newer_brokers_are_known),
                WORLD_TEST(test_database_that_was_restored),
                WORLD_TEST(test_last_object_is_found),
                WORLD_TEST(test_commit_number_given_twice),
                WORLD_TEST(test_follows_a_database_that_went_back),
                WORLD_TEST(test_purge_and_disk),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
