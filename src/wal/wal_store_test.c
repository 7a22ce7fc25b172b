/* wal/wal_store_test.c - proves, of a WAL in an object store: what is acknowledged is read back;
 * objects whose writes end out of order are committed in order; when a write or a commit fails, all
 * that came after it fails, and a retry of all is taken, with no number used twice; appends gather;
 * objects that are gone, damaged or out of reach are told apart. */
#include "wal/store_test_kit.h"

/* --- append and read --- */

static void
object_check(struct world *w, uint64_t epoch, uint64_t sequence)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        char key[LS_META_WAL_KEY_BYTES];
        struct ls_segment_header segment;
        struct ls_object_header header;
        struct ls_object_batch *rows;
        ls_span body, object;
        size_t count;

        key_of(epoch, sequence, key);
        assert_ok(ls_store_get(w->mem, key, 0, 0, &bytes));
        assert_ok(ls_segment_header_get(ls_slice_span(bytes), &segment));
        assert_int_equal(segment.number, ls_wal_segment_number(epoch, sequence));
        assert_int_equal(segment.epoch, epoch);
        assert_int_equal(segment.broker, 1);
        object = ls_span_of(bytes->ptr + LS_SEGMENT_HEADER_BYTES,
                            bytes->len - LS_SEGMENT_HEADER_BYTES);
        assert_ok(ls_object_check(object, &header, &body, &rows, &count));
        assert_int_equal(header.sequence, sequence);
        assert_int_equal(ls_object_bytes(&header), object.len);
        assert_int_equal(count, 1);
        assert_int_equal(rows[0].bytes, BATCH_BYTES);
        ls_free(rows);
}

static void
test_append_then_read(void **state)
{
        struct world *w = *state;
        int64_t offset;

        for (int i = 0; i < 20; i++) {
                assert_ok(append_one(&w->a, 1, (uint8_t)i, &offset));
                assert_int_equal(offset, 2 * i);
        }
        read_all(&w->a, 1, 20);
        assert_int_equal(w->script.gets, 0);
        assert_int_equal(objects_count(w), 20);
        object_check(w, w->a.epoch, 20);
        assert_ok(ls_wal_ready(w->a.wal, NULL));
        w->cache_bytes = 0;
        broker_reopen(w, &w->a, 1);
        read_all(&w->a, 1, 20);
        assert_int_equal(w->script.gets, 20);
        assert_ok(append_one(&w->a, 1, 20, &offset));
        assert_int_equal(offset, 40);
        read_all(&w->a, 1, 21);
        read_all(&w->a, 0, 0);
}

static void
test_names(void **state)
{
        char key[LS_META_WAL_KEY_BYTES];

        ls_wal_key(ls_wal_segment_number(7, 123), key);
        assert_string_equal(key, "wal/0000000007/000000000123.wal");
        assert_true(ls_wal_segment_number(8, 0) > ls_wal_segment_number(7, 1 << 30));
}

/* --- several under way --- */

/* Batches 0, 1 … in objects 1, 2 …, all of them held. */
static void
start_held(struct world *w, struct sync_append *a, int count)
{
        for (int i = 0; i < count; i++)
                script_hold(w, i + 1, true);
        for (int i = 0; i < count; i++) {
                append_start(&w->a, &a[i], 0, (uint8_t)i, 2 * i);
                script_started(w, i + 1);
        }
}

static void
object_wait(struct world *w, uint64_t sequence)
{
        while (!object_there(w, w->a.epoch, sequence))
                usleep(1000);
}

static void
test_commits_in_order(void **state)
{
        struct world *w = *state;
        struct sync_append a[3];
        int64_t offset;

        start_held(w, a, 3);
        for (int i = 3; i > 1; i--) {
                script_hold(w, i, false);
                object_wait(w, (uint64_t)i);
        }
        usleep(20000); /* time enough to do it wrong */
        for (int i = 0; i < 3; i++)
                assert_false(append_is_done(&a[i]));
        assert_int_equal(end_of(&w->a, 0), 0);
        script_hold(w, 1, false);
        for (int i = 0; i < 3; i++) {
                assert_ok(append_wait(&a[i], &offset));
                assert_int_equal(offset, 2 * i);
        }
        read_all(&w->a, 0, 3);
}

/* The second of three fails, in some way; the first is taken, the third and what queued are not,
 * though its object is there. All that failed is sent again, and taken. */
static void
fail_the_second(struct world *w, enum ls_fault_action action, ls_err err, ls_err expected)
{
        struct sync_append a[4];
        int64_t offset;

        w->script.put[2] = action;
        w->script.put_err[2] = err;
        start_held(w, a, 3);
        script_hold(w, 2, false);
        while (ls_wal_ready(w->a.wal, NULL) == LS_OK && action == LS_FAULT_PASS)
                usleep(1000);
        script_hold(w, 3, false);
        object_wait(w, 3);
        usleep(20000); /* the failure of 2 is known, 1 is not there yet: nothing is sealed */
        append_start(&w->a, &a[3], 0, 3, 6);
        usleep(20000);
        assert_int_equal(w->script.started, 3);
        for (int i = 0; i < 4; i++)
                assert_false(append_is_done(&a[i]));
        script_hold(w, 1, false);
        assert_ok(append_wait(&a[0], &offset));
        assert_int_equal(offset, 0);
        for (int i = 1; i < 4; i++)
                assert_int_equal(append_wait(&a[i], NULL), expected);
        assert_int_equal(ls_wal_ready(w->a.wal, NULL), expected);
        read_all(&w->a, 0, 1);
        for (int i = 1; i < 4; i++) {
                append_start(&w->a, &a[i], 0, (uint8_t)i, 2 * i);
                assert_ok(append_wait(&a[i], &offset));
                assert_int_equal(offset, 2 * i);
        }
        assert_ok(ls_wal_ready(w->a.wal, NULL));
        assert_true(object_there(w, w->a.epoch, 6));
        assert_false(object_there(w, w->a.epoch, 7));
        w->cache_bytes = 0;
        broker_reopen(w, &w->a, 1);
        read_all(&w->a, 0, 4);
}

static void
test_failed_put(void **state)
{
        struct world *w = *state;
        uint64_t epoch = w->a.epoch;

        fail_the_second(w, LS_FAULT_FAIL_BEFORE, LS_THROTTLED, LS_EIO);
        assert_false(object_there(w, epoch, 2));
}

static void
test_unknown_outcome(void **state)
{
        struct world *w = *state;
        uint64_t epoch = w->a.epoch;

        fail_the_second(w, LS_FAULT_FAIL_AFTER, LS_UNKNOWN_OUTCOME, LS_EIO);
        assert_true(object_there(w, epoch, 2)); /* garbage */
}

static void
test_denied_put(void **state)
{
        fail_the_second(*state, LS_FAULT_FAIL_BEFORE, LS_DENIED, LS_EACCESS);
}

/* Who has our name is not us. */
static void
test_name_is_taken(void **state)
{
        struct world *w = *state;
        char key[LS_META_WAL_KEY_BYTES];
        int64_t offset;

        key_of(w->a.epoch, 1, key);
        assert_ok(ls_store_put(w->mem, key, ls_span_of("x", 1)));
        assert_int_equal(append_one(&w->a, 0, 0, NULL), LS_EIO);
        assert_ok(append_one(&w->a, 0, 0, &offset));
        assert_int_equal(offset, 0);
        read_all(&w->a, 0, 1);
}

/* --- commits that fail --- */

static struct {
        pthread_mutex_t lock;
        struct ls_cond changed;
        bool armed, go;
        int submitted;
        struct ls_meta_op op;
        struct ls_meta_wal_commit *commit;
} failing = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ls_err
failing_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        pthread_mutex_lock(&failing.lock);
        while (!failing.go)
                ls_cond_wait(&failing.changed, &failing.lock);
        pthread_mutex_unlock(&failing.lock);
        return LS_ENOSPC;
}

static void
failing_done(struct ls_meta_op *op, ls_err result)
{
        failing.commit->op.done(&failing.commit->op, result);
}

void __real_ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit);
void __wrap_ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit);
void
__wrap_ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit)
{
        bool fails;

        pthread_mutex_lock(&failing.lock);
        fails = failing.armed;
        failing.armed = false;
        pthread_mutex_unlock(&failing.lock);
        if (fails) {
                failing.commit = commit;
                failing.op = (struct ls_meta_op){ .apply = failing_apply, .done = failing_done };
                ls_meta_submit(m, &failing.op);
        } else {
                __real_ls_meta_wal_submit(m, commit);
        }
        pthread_mutex_lock(&failing.lock);
        failing.submitted++;
        ls_cond_broadcast(&failing.changed);
        pthread_mutex_unlock(&failing.lock);
}

/* The first object's commit fails: the second is handed on, the third is being written, the fourth
 * batch is queued. */
static void
test_refused_commit_takes_those_behind(void **state)
{
        struct world *w = *state;
        struct sync_append a[4];
        int64_t offset;

        ls_cond_init(&failing.changed);
        failing.submitted = 0;
        failing.go = false;
        failing.armed = true;
        w->script.hold[3] = true;
        for (int i = 0; i < 3; i++) {
                append_start(&w->a, &a[i], 0, (uint8_t)i, 2 * i);
                pthread_mutex_lock(&failing.lock);
                while (failing.submitted < LS_MIN(i + 1, 2))
                        ls_cond_wait(&failing.changed, &failing.lock);
                pthread_mutex_unlock(&failing.lock);
        }
        script_started(w, 3);
        pthread_mutex_lock(&failing.lock);
        failing.go = true;
        ls_cond_broadcast(&failing.changed);
        pthread_mutex_unlock(&failing.lock);
        while (ls_wal_ready(w->a.wal, NULL) == LS_OK)
                usleep(1000);
        append_start(&w->a, &a[3], 0, 3, 6);
        usleep(20000);
        assert_int_equal(w->script.started, 3);
        assert_false(append_is_done(&a[0]));
        script_hold(w, 3, false);
        for (int i = 0; i < 4; i++)
                assert_int_equal(append_wait(&a[i], NULL), LS_ENOSPC);
        for (int i = 0; i < 4; i++) {
                append_start(&w->a, &a[i], 0, (uint8_t)i, 2 * i);
                assert_ok(append_wait(&a[i], &offset));
                assert_int_equal(offset, 2 * i);
        }
        read_all(&w->a, 0, 4);
        ls_cond_done(&failing.changed);
}

/* --- gathering --- */

static void
test_gathers_by_bytes_and_at_the_end(void **state)
{
        struct world *w = *state;
        struct sync_append a[5];

        w->flush_ms = 3600 * 1000;
        w->flush_bytes = 3 * BATCH_BYTES;
        broker_reopen(w, &w->a, 1);
        for (int i = 0; i < 5; i++)
                append_start(&w->a, &a[i], 0, (uint8_t)i, -1);
        for (int i = 0; i < 3; i++)
                assert_ok(append_wait(&a[i], NULL));
        usleep(20000);
        assert_int_equal(objects_count(w), 1);
        assert_false(append_is_done(&a[3]));
        broker_reopen(w, &w->a, 1); /* closing answers what is queued */
        for (int i = 3; i < 5; i++)
                assert_ok(append_wait(&a[i], NULL));
        assert_int_equal(objects_count(w), 2);
        read_all(&w->a, 0, 5);
}

static void
test_gathers_by_time(void **state)
{
        struct world *w = *state;
        struct sync_append a[10];

        w->flush_ms = 300;
        broker_reopen(w, &w->a, 1);
        for (int i = 0; i < 10; i++)
                append_start(&w->a, &a[i], 0, (uint8_t)i, -1);
        for (int i = 0; i < 10; i++)
                assert_ok(append_wait(&a[i], NULL));
        assert_true(objects_count(w) <= 3); /* one, on a machine that is not stalled */
        read_all(&w->a, 0, 10);
}

static void
test_gathers_while_all_are_under_way(void **state)
{
        struct world *w = *state;
        struct sync_append a[9];

        w->puts_max = 2;
        broker_reopen(w, &w->a, 1);
        start_held(w, a, 2);
        for (int i = 2; i < 9; i++)
                append_start(&w->a, &a[i], 0, (uint8_t)i, 2 * i);
        usleep(20000);
        assert_int_equal(w->script.started, 2);
        script_hold(w, 1, false);
        script_hold(w, 2, false);
        for (int i = 0; i < 9; i++)
                assert_ok(append_wait(&a[i], NULL));
        assert_int_equal(objects_count(w), 3);
        read_all(&w->a, 0, 9);
}

/* --- reads that fail --- */

static void
test_reads_that_fail(void **state)
{
        struct world *w = *state;
        char key[LS_META_WAL_KEY_BYTES];
        int64_t next;

        w->cache_bytes = 0;
        broker_reopen(w, &w->a, 1);
        for (int i = 0; i < 3; i++)
                assert_ok(append_one(&w->a, 0, (uint8_t)i, NULL));
        w->script.get = LS_FAULT_FAIL_BEFORE;
        w->script.get_err = LS_THROTTLED;
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_EIO);
        w->script.get_err = LS_DENIED;
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_EACCESS);
        w->script.get = LS_FAULT_FLIP;
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_EBROKEN);
        w->script.get = LS_FAULT_TRUNCATE;
        w->script.get_err = LS_OK;
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_EBROKEN);
        w->script.get = LS_FAULT_PASS;
        read_all(&w->a, 0, 3);
        key_of(w->a.epoch, 2, key);
        assert_ok(ls_store_delete(w->mem, key));
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_END); /* collected: look again */
        assert_int_equal(next, 2);
        assert_ok(ls_store_put(w->mem, key, ls_span_of("short", 5)));
        assert_int_equal(read_from(&w->a, 0, 2, &next), LS_EBROKEN);
        assert_ok(read_from(&w->a, 0, 4, &next));
        assert_int_equal(next, 6);
}

/* Batches of one object come by one request. */
static void
test_neighbours_are_read_at_once(void **state)
{
        struct world *w = *state;
        struct sync_append a[8];

        w->cache_bytes = 0;
        w->flush_ms = 3600 * 1000;
        w->flush_bytes = LS_COUNT(a) * BATCH_BYTES;
        broker_reopen(w, &w->a, 1);
        for (size_t i = 0; i < LS_COUNT(a); i++)
                append_start(&w->a, &a[i], 0, (uint8_t)i, -1);
        for (size_t i = 0; i < LS_COUNT(a); i++)
                assert_ok(append_wait(&a[i], NULL));
        read_all(&w->a, 0, LS_COUNT(a));
        assert_int_equal(w->script.gets, 1);
        broker_close(&w->a);
}

/* Batches of many objects: some in the cache, several asked for at once; what fails ends the read
 * behind what is good. */
static void
test_many_objects(void **state)
{
        struct world *w = *state;
        char key[LS_META_WAL_KEY_BYTES];
        uint64_t epoch = w->a.epoch;
        int64_t next;

        for (int i = 0; i < 50; i++)
                assert_ok(append_one(&w->a, 0, (uint8_t)i, NULL));
        broker_reopen(w, &w->a, 1);
        w->script.gets = 0;
        w->script.gets_wanted = 16;
        read_all(&w->a, 0, 50);
        w->script.gets_wanted = 0;
        assert_int_equal(w->script.gets, 50);
        for (int i = 50; i < 60; i++)
                assert_ok(append_one(&w->a, 0, (uint8_t)i, NULL));
        w->script.gets = 0;
        read_all(&w->a, 0, 60);
        assert_int_equal(w->script.gets, 50);
        key_of(epoch, 20, key);
        assert_ok(ls_store_delete(w->mem, key));
        assert_int_equal(read_from(&w->a, 0, 0, &next), LS_END);
        assert_int_equal(next, 38);
        assert_ok(read_from(&w->a, 0, 40, &next));
        assert_int_equal(next, 120);
}

int
main(void)
{
#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),
                WORLD_TEST(test_append_then_read),
                WORLD_TEST(test_commits_in_order),
                WORLD_TEST(test_failed_put),
                WORLD_TEST(test_unknown_outcome),
                WORLD_TEST(test_denied_put),
                WORLD_TEST(test_name_is_taken),
                WORLD_TEST(test_refused_commit_takes_those_behind),
                WORLD_TEST(test_gathers_by_bytes_and_at_the_end),
                WORLD_TEST(test_gathers_by_time),
                WORLD_TEST(test_gathers_while_all_are_under_way),
                WORLD_TEST(test_reads_that_fail),
                WORLD_TEST(test_neighbours_are_read_at_once),
                WORLD_TEST(test_many_objects),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
