/* lake/history_test.c - proves: what was compacted is read back record by record from any offset
 * in any budget, by several consumers at once, with and without reading ahead, over files and
 * groups of files; budgets hold; files that merges delete under readers make them plan again; a
 * damaged byte is never served and costs what it damaged; times are found as a look at every record
 * finds them; verify tells when a file holds another record than was produced. */
#include <string.h>

#include "lake/history_int.h"
#include "lake/rows_int.h"
#include "lake/test_kit.h"

/* With jobs that read ahead. */
static int
setup_ahead(void **state)
{
        struct kit *k;

        kit_setup(state);
        k = *state;
        kit_close(k);
        assert_ok(ls_jobs_start("ls-history", 2, &k->history_jobs));
        kit_open(k);
        return 0;
}

static int
teardown_ahead(void **state)
{
        struct kit *k = *state;

        ls_jobs_stop(k->history_jobs);
        k->history_jobs = NULL;
        return kit_teardown(state);
}

/* --- reading, without asserts: threads use it ------------------------------------------------- */

static bool
same_record(const struct kit *k, int32_t partition, const struct ls_record *got)
{
        struct kit_text text;
        struct ls_record want = kit_record(k, partition, got->offset, &text);

        return got->timestamp == want.timestamp && ls_span_eq(got->key, want.key) &&
               ls_span_eq(got->value, want.value) && got->header_count == want.header_count &&
               (want.header_count == 0 || ls_span_eq(got->headers, want.headers));
}

/* True when `bytes` are whole batches whose records from *io_offset on are those produced. */
static bool
same_batches(const struct kit *k, int32_t partition, ls_span bytes, int64_t *io_offset)
{
        struct ls_batch_header header;
        struct ls_batch_iter it;
        struct ls_record got;
        ls_span batch;
        bool good = true;
        ls_err e;

        ls_batch_iter_init(&it, 0);
        while (good && (e = ls_batch_next(&bytes, &batch, &header)) == LS_OK) {
                good = ls_batch_iter_open(&it, batch, true) == LS_OK && header.producer_id == -1;
                while (good && (e = ls_batch_iter_next(&it, &got)) == LS_OK) {
                        if (got.offset < *io_offset)
                                continue;
                        good = got.offset == *io_offset && same_record(k, partition, &got);
                        ++*io_offset;
                }
                good = good && e == LS_END;
        }
        ls_batch_iter_done(&it);
        return good && e == LS_END;
}

/* One fetch from *io_offset on. LS_CORRUPT: it gave something else than was produced. */
static ls_err
fetch(struct kit *k, int32_t partition, size_t bytes_max, int64_t *io_offset)
{
        struct ls_lake_read r = { .offset = *io_offset, .bytes_max = bytes_max, .min_one = true };
        ls_err e = ls_lake_read(k->s, partition, &r);
        bool good = e != LS_OK || r.slice_count > 0;

        for (size_t i = 0; good && i < r.slice_count; i++)
                good = same_batches(k, partition, ls_slice_span(r.slices[i]), io_offset);
        if (e == LS_OK && r.next_offset != *io_offset)
                good = false;
        ls_lake_read_done(&r);
        return good ? e : LS_CORRUPT;
}

static ls_err
follow(struct kit *k, int32_t partition, int64_t from, int64_t to, size_t bytes_max)
{
        while (from < to)
                LS_TRY(fetch(k, partition, bytes_max, &from));
        return LS_OK;
}

/* --- reading ---------------------------------------------------------------------------------- */

static void
test_from_anywhere_in_any_budget(void **state)
{
        static const size_t budgets[] = { 1, 700, 5000, 20000, 1 << 20 };
        struct kit *k = *state;
        int64_t offset;

        for (int file = 0; file < 3; file++) {
                kit_fill(k, 40);
                assert_ok(kit_compact(k));
        }
        for (int32_t p = 0; p < k->partitions; p++) {
                for (size_t i = 0; i < LS_COUNT(budgets); i++) {
                        assert_ok(follow(k, p, 0, k->end[p], budgets[i]));
                        for (int64_t from = 1; from < k->end[p]; from += 101)
                                assert_ok(follow(k, p, from, LS_MIN(from + 50, k->end[p]),
                                                 budgets[i]));
                }
        }
        offset = k->end[0];
        assert_int_equal(fetch(k, 0, 100, &offset), LS_END);
}

/* A fetch that need not give anything, as for all but the first partition of a request. */
static void
offer(struct kit *k, int32_t partition, int64_t offset, size_t bytes_max)
{
        struct ls_lake_read r = { .offset = offset, .bytes_max = bytes_max };
        int64_t at = offset;

        assert_ok(ls_lake_read(k->s, partition, &r));
        assert_true(r.bytes <= bytes_max + 4096);
        for (size_t i = 0; i < r.slice_count; i++)
                assert_true(same_batches(k, partition, ls_slice_span(r.slices[i]), &at));
        assert_int_equal(r.next_offset, at);
        ls_lake_read_done(&r);
}

/* Two consumers of one partition, and one that jumps about, must not take each other's place. */
static void
test_consumers_of_one_partition(void **state)
{
        struct kit *k = *state;
        int64_t a = 0, b = 300, wild = 0;

        kit_fill(k, 100);
        assert_ok(kit_compact(k));
        while (a < k->end[1]) {
                assert_ok(fetch(k, 1, 9000, &a));
                if (a < k->end[1])
                        offer(k, 1, a, a % 3 * 4096);
                if (b < k->end[1])
                        assert_ok(fetch(k, 1, 1000, &b));
                wild = (wild + 617) % k->end[1];
                assert_ok(fetch(k, 1, 500, &wild));
                wild %= k->end[1];
        }
        assert_ok(kit_compact(k));
        kit_clock_move(k, 3600000);
        lake_history_trim(k->lake->history, INT64_MAX);
        assert_ok(follow(k, 1, 0, k->end[1], 3000));
}

/* Small fetches that follow each other ask the store for no more than one large one. */
static void
test_nothing_is_read_twice(void **state)
{
        struct kit *k = *state;
        uint64_t calls;

        kit_fill(k, 200);
        assert_ok(kit_compact(k));
        kit_decide_set(k, NULL);
        assert_ok(follow(k, 0, 0, k->end[0], 1 << 24));
        calls = k->calls;
        assert_true(calls > 0);
        lake_history_trim(k->lake->history, INT64_MAX);
        kit_decide_set(k, NULL);
        assert_ok(follow(k, 0, 0, k->end[0], 2000));
        assert_int_equal(k->calls, calls);
}

static void
test_budgets_hold(void **state)
{
        struct kit *k = *state;
        struct ls_lake_read r = { .offset = 0, .bytes_max = 100 };

        kit_fill(k, 100);
        assert_ok(kit_compact(k));
        assert_ok(ls_lake_read(k->s, 0, &r)); /* too little for a batch, and it need not be one */
        assert_int_equal(r.slice_count, 0);
        assert_int_equal(r.next_offset, 0);
        for (size_t budget = 4096; budget < 40000; budget += 3000) {
                r = (struct ls_lake_read){ .offset = 30, .bytes_max = budget };
                assert_ok(ls_lake_read(k->s, 0, &r));
                assert_in_range(r.bytes, budget / 2, budget + 4096);
                ls_lake_read_done(&r);
        }
}

/* A group of extents: as many files as buckets hold the rows of one range. */
static void
test_ranges_in_many_files(void **state)
{
        struct kit *k = *state;

        kit_set(k, "table.partition.by", "bucket(100, __offset)");
        kit_fill(k, 50);
        assert_ok(kit_compact(k));
        kit_fill(k, 20);
        assert_ok(kit_compact(k));
        for (int32_t p = 0; p < k->partitions; p++) {
                assert_ok(follow(k, p, 0, k->end[p], 100));
                assert_ok(follow(k, p, 333, k->end[p], 1 << 20));
        }
        kit_check(k);
}

/* --- merges under readers --------------------------------------------------------------------- */

struct consumer {
        struct kit *k;
        int32_t partition;
        atomic_bool *stop;
        int64_t end; /* what was compacted before it began */
        ls_err result;
        struct ls_thread *thread;
};

static void
consume(void *arg)
{
        struct consumer *c = arg;
        int64_t from = c->partition * 37;
        size_t budget = 1;

        while (c->result == LS_OK && !atomic_load(c->stop)) {
                c->result = follow(c->k, c->partition, from, LS_MIN(from + 400, c->end), budget);
                from = (from + 291) % c->end;
                budget = budget * 7 % 30011;
        }
}

static void
test_files_are_merged_and_deleted_under_readers(void **state)
{
        struct kit *k = *state;
        struct consumer c[4];
        atomic_bool stop = false;

        kit_set(k, "table.file.grace.ms", "0");
        kit_set(k, "table.snapshot.retention.count", "1");
        kit_set(k, "table.snapshot.retention.ms", "0");
        kit_fill(k, 60);
        assert_ok(kit_compact(k));
        for (size_t i = 0; i < LS_COUNT(c); i++) {
                c[i] = (struct consumer){ .k = k,
                                          .partition = (int32_t)i % k->partitions,
                                          .stop = &stop,
                                          .end = k->end[0] };
                assert_ok(ls_thread_start("consumer", consume, &c[i], &c[i].thread));
        }
        for (int round = 0; round < 30; round++) {
                kit_fill(k, 3);
                assert_ok(kit_compact(k));
                assert_ok(lake_maintain(k->s));
                assert_ok(lake_collect(k->lake, true));
        }
        atomic_store(&stop, true);
        for (size_t i = 0; i < LS_COUNT(c); i++) {
                ls_thread_join(c[i].thread);
                assert_ok(c[i].result);
        }
        kit_check(k);
}

/* Data files are not there for the first k->hit calls. */
static enum ls_fault_action
decide_absent(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if (strcmp(op, "get") != 0 || strstr(key, "/data/") == NULL || k->hit <= 0)
                return LS_FAULT_PASS;
        k->hit--;
        *err = LS_ABSENT;
        return LS_FAULT_FAIL_BEFORE;
}

static void
test_a_plan_is_made_again(void **state)
{
        struct kit *k = *state;
        int64_t offset, at, time;

        kit_fill(k, 20);
        assert_ok(kit_compact(k));
        for (int absent = 0; absent < HISTORY_PLANS_MAX + 2; absent++) {
                ls_err want = absent < HISTORY_PLANS_MAX ? LS_OK : LS_EBROKEN;

                kit_decide_set(k, decide_absent);
                k->hit = absent;
                offset = 0;
                assert_int_equal(fetch(k, 0, 100, &offset), want);
                lake_history_trim(k->lake->history, INT64_MAX);
                k->hit = absent;
                assert_int_equal(ls_lake_find_time(k->s, 0, 0, KIT_TIME, &at, &time), want);
                k->hit = absent;
                assert_int_equal(ls_lake_find_max_time(k->s, 0, 0, &at, &time), want);
        }
}

/* --- damage ----------------------------------------------------------------------------------- */

/* One bit of what call number k->hit reads of a data file is wrong. */
static enum ls_fault_action
decide_flip(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if (strcmp(op, "get") != 0 || strstr(key, "/data/") == NULL)
                return LS_FAULT_PASS;
        return __atomic_fetch_sub(&k->hit, 1, __ATOMIC_RELAXED) == 0 ? LS_FAULT_FLIP
                                                                     : LS_FAULT_PASS;
}

static void
test_what_is_damaged_is_not_served(void **state)
{
        struct kit *k = *state;
        int refused = 0;

        kit_fill(k, 60);
        assert_ok(kit_compact(k));
        for (int call = 0; call < 30; call++) {
                ls_err e;

                kit_decide_set(k, decide_flip);
                k->hit = call;
                lake_history_trim(k->lake->history, INT64_MAX);
                e = follow(k, 2, 0, k->end[2], 3000);
                assert_true(e == LS_OK || e == LS_EBROKEN);
                refused += e == LS_EBROKEN;
                kit_decide_set(k, NULL);
                assert_ok(follow(k, 2, 0, k->end[2], 3000)); /* nothing bad was kept */
        }
        assert_true(refused > 0);
}

/* --- times ------------------------------------------------------------------------------------ */

static void
check_times(struct kit *k, int32_t partition)
{
        int64_t offset, time, best = 0;
        struct kit_text text;

        for (int64_t i = 0; i < k->end[partition]; i += 97) {
                int64_t asked = kit_record(k, partition, i, &text).timestamp, first = 0;

                while (kit_record(k, partition, first, &text).timestamp < asked)
                        first++;
                assert_ok(ls_lake_find_time(k->s, partition, 0, asked, &offset, &time));
                assert_int_equal(offset, first);
                assert_int_equal(time, kit_record(k, partition, first, &text).timestamp);
        }
        for (int64_t i = 1; i < k->end[partition]; i++) {
                if (kit_record(k, partition, i, &text).timestamp >
                    kit_record(k, partition, best, &text).timestamp)
                        best = i;
        }
        assert_ok(ls_lake_find_max_time(k->s, partition, 0, &offset, &time));
        assert_int_equal(offset, best);
        assert_int_equal(time, kit_record(k, partition, best, &text).timestamp);
        assert_int_equal(ls_lake_find_time(k->s, partition, 0, time + 1, &offset, &time),
                         LS_ABSENT);
}

static void
test_times(void **state)
{
        static const int64_t steps[] = { 1000, 0, -700 };
        struct kit *k = *state;

        for (size_t i = 0; i < LS_COUNT(steps); i++) {
                if (i > 0) {
                        kit_teardown(state);
                        kit_setup(state);
                        k = *state;
                }
                k->time_step = steps[i];
                if (i == 2)
                        kit_set(k, "table.partition.by", "bucket(5, __offset)");
                for (int file = 0; file < 3; file++) {
                        kit_fill(k, 30);
                        assert_ok(kit_compact(k));
                }
                for (int32_t p = 0; p < k->partitions; p++)
                        check_times(k, p);
        }
}

/* --- verify ----------------------------------------------------------------------------------- */

static ls_err
file_key(void *ctx, const struct ls_meta_file *f)
{
        *(char **)ctx = ls_strdup(f->key);
        return LS_OK;
}

/* Writes the table's one file anew, `count` values of partition 1 being empty, and puts it in the
 * place of the old one when it has the same size, else it could not pass for it. Gives the bytes it
 * lacks; the stream's number in the footer is there to fill it up. */
static int64_t
forge(struct kit *k, const char *key, int64_t count, uint64_t filler)
{
        struct ls_rows_writer_options o = { .store = k->local,
                                            .key = "forged",
                                            .stream_id = filler,
                                            .topic_id = k->row->topic_id };
        const struct ls_rows_run *runs;
        const struct ls_rows_file *info;
        struct ls_rows_reader *reader;
        struct ls_rows_writer *w;
        struct ls_store_info old;
        struct ls_slice *bytes = NULL;
        size_t run_count;
        int64_t lacks;

        assert_ok(ls_store_head(k->local, key, &old));
        assert_ok(ls_rows_reader_open(k->local, key, old.bytes, &reader));
        assert_ok(ls_rows_runs(reader, &runs, &run_count));
        assert_ok(ls_rows_writer_new(&o, &w));
        for (int32_t p = 0; p < k->partitions; p++) {
                for (int64_t i = 0; i < k->end[p]; i++) {
                        struct kit_text text;
                        struct ls_record r = kit_record(k, p, i, &text);

                        if (p == 1 && i >= 100 && i < 100 + count)
                                r.value.len = 0;
                        assert_ok(rows_writer_push(w, p, false, &r));
                }
                rows_writer_count(w, p, false, runs[p].log_bytes);
        }
        ls_rows_reader_close(reader);
        assert_ok(ls_rows_writer_finish(w, &info));
        lacks = (int64_t)(old.bytes - info->bytes);
        ls_rows_writer_free(w);
        assert_ok(ls_store_get(k->local, "forged", 0, 0, &bytes));
        if (lacks == 0)
                assert_ok(ls_store_put(k->local, key, ls_slice_span(bytes)));
        ls_slice_unref(bytes);
        assert_ok(ls_store_delete(k->local, "forged"));
        return lacks;
}

static void
test_verify_finds_another_record(void **state)
{
        struct kit *k = *state;
        struct ls_lake_verify v;
        int64_t count = 1, lacks;
        uint64_t filler = 1;
        char *key = NULL;

        kit_fill(k, 20);
        assert_ok(kit_compact(k));
        assert_ok(ls_meta_files(k->meta, k->row->id, false, file_key, &key));
        assert_ok(ls_lake_verify(k->s, true, &v, NULL));
        assert_true(v.equal);
        assert_int_equal(v.records_log, v.records_table);
        assert_int_equal(v.hash_log, v.hash_table);
        assert_int_equal(forge(k, key, 0, k->row->id), 0); /* the same records */
        assert_ok(ls_lake_verify(k->s, true, &v, NULL));
        assert_true(v.equal);
        while ((lacks = forge(k, key, count, 1)) < 1 || lacks > 17)
                assert_true(++count < 100);
        for (; lacks > 0; lacks--)
                filler *= 10;
        assert_int_equal(forge(k, key, count, filler), 0);
        assert_ok(ls_lake_verify(k->s, true, &v, NULL));
        assert_false(v.equal);
        assert_non_null(strstr(v.first_difference, key));
        assert_non_null(strstr(v.first_difference, "partition 1"));
        assert_ok(ls_lake_verify(k->s, false, &v, NULL)); /* what the commits said agrees */
        assert_true(v.equal);
        assert_ok(ls_store_delete(k->local, key));
        assert_ok(ls_lake_verify(k->s, true, &v, NULL));
        assert_false(v.equal);
        ls_free(key);
}

#define TEST(f)       cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
#define TEST_AHEAD(f) cmocka_unit_test_setup_teardown(f, setup_ahead, teardown_ahead)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_from_anywhere_in_any_budget),
                TEST_AHEAD(test_from_anywhere_in_any_budget),
                TEST(test_consumers_of_one_partition),
                TEST_AHEAD(test_consumers_of_one_partition),
                TEST(test_nothing_is_read_twice),
                TEST_AHEAD(test_nothing_is_read_twice),
                TEST(test_budgets_hold),
                TEST_AHEAD(test_ranges_in_many_files),
                TEST_AHEAD(test_files_are_merged_and_deleted_under_readers),
                TEST(test_a_plan_is_made_again),
                TEST(test_what_is_damaged_is_not_served),
                TEST_AHEAD(test_what_is_damaged_is_not_served),
                TEST(test_times),
                TEST(test_verify_finds_another_record),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
