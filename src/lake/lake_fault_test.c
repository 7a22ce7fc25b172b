/* lake/lake_fault_test.c - proves: whichever call to the object store fails, before or after it
 * took effect, once or for good (a crash), no record is lost or doubled in log or table, the next
 * run succeeds, and what was uploaded for nothing is collected. Each call of a scenario fails in
 * turn. */
#include "lake/test_kit.h"

#define FAULT_CALLS_MAX 400

struct mode {
        const char *name;
        enum ls_fault_action action;
        ls_err error;
        bool for_good; /* every call after it fails too, and the process starts again */
        bool partitioned;
};
static const struct mode modes[] = {
        { "refused", LS_FAULT_FAIL_BEFORE, LS_EIO, false, false },
        { "throttled", LS_FAULT_FAIL_BEFORE, LS_THROTTLED, false, true },
        { "reply lost", LS_FAULT_FAIL_AFTER, LS_UNKNOWN_OUTCOME, false, false },
        { "reply lost, partitioned", LS_FAULT_FAIL_AFTER, LS_UNKNOWN_OUTCOME, false, true },
        { "half done", LS_FAULT_TRUNCATE, LS_EIO, false, false },
        { "crash before", LS_FAULT_FAIL_BEFORE, LS_EIO, true, false },
        { "crash after", LS_FAULT_FAIL_AFTER, LS_EIO, true, true },
};
static const struct mode *mode;
static bool write_failed; /* the call that failed was one that writes data or metadata */

static enum ls_fault_action
fail_at(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if (k->dead && mode->for_good) {
                *err = LS_EIO;
                return LS_FAULT_FAIL_BEFORE;
        }
        if ((int64_t)number != k->hit)
                return LS_FAULT_PASS;
        k->dead = true;
        write_failed = strncmp(op, "put", 3) == 0 || strncmp(op, "writer", 6) == 0;
        *err = mode->error;
        return mode->action;
}

/* --- what the store holds --------------------------------------------------------------------- */

static void
name_uri(struct kit *k, struct ls_map *named, ls_str uri)
{
        struct ls_lake_spec spec = kit_spec(k);
        LS_AUTO(ls_free) char *key = lake_uri_key(&spec, uri);

        ls_map_set(named, ls_map_key_str(ls_str_of(key)), named);
}
static ls_err
name_file(void *ctx, const struct ls_meta_file *f)
{
        ls_map_set(ctx, ls_map_key_str(ls_str_of(f->key)), ctx);
        return LS_OK;
}
static void
name_all(struct kit *k, struct ls_map *named)
{
        struct ls_meta_table row;
        struct kit_table t;

        kit_table_open(k, &t);
        for (size_t i = 0; i < t.m.metadata_log_count; i++)
                name_uri(k, named, t.m.metadata_log[i].metadata_file);
        for (size_t i = 0; i < t.m.snapshot_count; i++) {
                const struct ls_iceberg_manifest_file *lines;
                struct ls_slice *bytes = kit_object(k, t.m.snapshots[i].manifest_list);
                size_t count;

                name_uri(k, named, t.m.snapshots[i].manifest_list);
                assert_ok(
                        ls_iceberg_list_read(ls_slice_span(bytes), &t.arena, &lines, &count, NULL));
                for (size_t n = 0; n < count; n++)
                        name_uri(k, named, lines[n].path);
                ls_slice_unref(bytes);
        }
        kit_table_close(&t);
        assert_ok(ls_meta_table(k->meta, k->row->id, &row));
        if (row.metadata_key != NULL)
                ls_map_set(named, ls_map_key_str(ls_str_of(row.metadata_key)), named);
        ls_meta_table_done(&row);
        assert_ok(ls_meta_files(k->meta, k->row->id, false, name_file, named));
}
static ls_err
must_be_named(void *ctx, const char *key, const struct ls_store_info *info)
{
        if (ls_map_get(ctx, ls_map_key_str(ls_str_of(key))) == NULL)
                fail_msg("%s is left over (%s)", key, mode->name);
        return LS_OK;
}
/* A new process, long after: nothing is in the store that nothing names. */
static void
no_leftovers(struct kit *k)
{
        struct ls_map named;

        kit_reopen(k);
        kit_check(k);
        kit_clock_move(k, INT64_C(10) * 86400000);
        assert_ok(lake_maintain(k->s));
        assert_ok(lake_sweep(k->s, 1000));
        kit_clock_move(k, INT64_C(10) * 86400000);
        for (int i = 0; i < 3; i++)
                assert_ok(lake_collect(k->lake, true));
        kit_check(k);
        ls_map_init(&named);
        name_all(k, &named);
        assert_ok(ls_store_list(k->local, "tables/", NULL, SIZE_MAX, must_be_named, &named));
        ls_map_done(&named);
}

/* --- scenarios -------------------------------------------------------------------------------- */

static void
prepare_tail(struct kit *k)
{
        kit_produce(k, 0, 5);
        kit_produce(k, 1, 3);
}
static ls_err
run_load(struct kit *k)
{
        struct ls_lake_table t;
        ls_err e = ls_lake_load(k->s, 60000, &t, NULL);

        if (e == LS_OK) {
                e = t.fresh ? LS_OK : LS_EIO; /* told: not all is in it */
                ls_lake_table_done(&t);
        }
        return e;
}
static void
prepare_small_files(struct kit *k)
{
        for (int i = 0; i < 9; i++) {
                kit_produce(k, i % 3, 1);
                assert_ok(kit_compact(k));
        }
}
static ls_err
run_maintain(struct kit *k)
{
        return lake_maintain(k->s);
}
static void
prepare_garbage(struct kit *k)
{
        prepare_tail(k);
        assert_ok(kit_compact(k));
        kit_clock_move(k, 7200000);
}
static ls_err
run_collect(struct kit *k)
{
        return lake_collect(k->lake, true);
}
static ls_err
run_sweep(struct kit *k)
{
        return lake_sweep(k->s, 1000);
}

static const struct scenario {
        const char *name;
        void (*prepare)(struct kit *k);
        ls_err (*run)(struct kit *k);
        int64_t stride; /* every so manieth call fails, beginning with another in each mode */
} scenarios[] = {
        { "load", prepare_tail, run_load, 7 },
        { "compact", prepare_tail, kit_compact, 4 },
        { "maintain", prepare_small_files, run_maintain, 15 },
        { "collect", prepare_garbage, run_collect, 3 },
        { "sweep", prepare_garbage, run_sweep, 4 },
};

/* Fails call after call of a scenario until it has no more; the same table goes on. Reading what is
 * about to be thrown away may fail without being told, and deletes are repeated: not so a write. */
static void
run_scenario(struct kit *k, const struct scenario *s)
{
        int64_t hit = (mode - modes) % s->stride;

        for (;; hit += s->stride) {
                bool failed;
                ls_err e;

                assert_true(hit < FAULT_CALLS_MAX);
                s->prepare(k);
                write_failed = false;
                kit_decide_set(k, fail_at);
                k->hit = hit;
                e = s->run(k);
                failed = k->dead;
                if (write_failed && e == LS_OK && mode->error == LS_EIO)
                        fail_msg("%s, %s: call %d failed and nobody told", s->name, mode->name,
                                 (int)hit);
                if (!failed && e != LS_OK)
                        fail_msg("%s: %s", s->name, ls_err_name(e));
                kit_decide_set(k, NULL);
                if (mode->for_good && failed)
                        kit_reopen(k);
                assert_ok(kit_compact(k));
                assert_int_equal(kit_rows(k), kit_total(k));
                if (!failed)
                        break;
        }
        kit_check(k);
}

static void
test_mode(void **state)
{
        struct kit *k;

        mode = *state;
        kit_setup((void **)&k);
        kit_set(k, "table.snapshot.retention.count", "3");
        kit_set(k, "table.snapshot.retention.ms", "1000000");
        kit_set(k, "table.file.grace.ms", "3600000");
        if (mode->partitioned)
                kit_set(k, "table.partition.by", "bucket(2, __key)");
        for (size_t i = 0; i < LS_COUNT(scenarios); i++)
                run_scenario(k, &scenarios[i]);
        no_leftovers(k);
        kit_teardown((void **)&k);
}

/* --- by name ---------------------------------------------------------------------------------- */

static int64_t refusals; /* left */
static enum ls_fault_action
refuse_puts(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if ((strcmp(op, "put_if_absent") != 0 && strcmp(op, "writer_finish") != 0) || refusals == 0)
                return LS_FAULT_PASS;
        refusals--;
        *err = LS_CONFLICT;
        return LS_FAULT_FAIL_BEFORE;
}
static ls_err
count_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

/* B036: "an operation on the key is under way" is no "it exists": tried again, and told when it
 * does not end. */
static void
test_b036_conflict_is_tried_again(void **state)
{
        struct ls_lake_table t;
        struct kit *k;
        size_t objects = 0;

        kit_setup((void **)&k);
        kit_fill(k, 2);
        refusals = 2;
        kit_decide_set(k, refuse_puts);
        t = kit_load(k);
        assert_true(t.fresh && t.version == 1 && refusals == 0);
        ls_lake_table_done(&t);
        for (int i = 0; i < 3; i++)
                assert_ok(lake_collect(k->lake, true));
        /* data file, manifest, list, metadata: one each */
        assert_ok(ls_store_list(k->local, "tables/", NULL, SIZE_MAX, count_key, &objects));
        assert_int_equal(objects, 4);
        kit_fill(k, 1);
        refusals = INT64_MAX;
        assert_int_equal(kit_compact(k), LS_CONFLICT);
        assert_ok(ls_lake_load(k->s, 60000, &t, NULL)); /* of what there is, and honest */
        assert_true(!t.fresh && t.version == 1 && t.behind_records == 30);
        ls_lake_table_done(&t);
        assert_int_equal(kit_rows(k), 60);
        refusals = 0;
        kit_check(k);
        assert_int_equal(kit_rows(k), 90);
        kit_teardown((void **)&k);
}

static enum ls_fault_action
lose_replies(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if ((strcmp(op, "put_if_absent") != 0 && strcmp(op, "writer_finish") != 0) || refusals == 0)
                return LS_FAULT_PASS;
        refusals--;
        *err = LS_UNKNOWN_OUTCOME;
        return LS_FAULT_FAIL_AFTER;
}

/* B037, B038: what was put and its reply lost is never named and never in the way; what is named is
 * there; no file stands in two snapshots' additions. */
static void
test_b037_b038_lost_replies(void **state)
{
        struct kit *k;

        kit_setup((void **)&k);
        for (int i = 0; i < 12; i++) {
                struct kit_table t;
                int64_t added = 0;

                kit_fill(k, 1);
                refusals = i % 5;
                kit_decide_set(k, lose_replies);
                assert_ok(kit_compact(k));
                kit_decide_set(k, NULL);
                if (i % 4 == 3)
                        kit_reopen(k);
                for (int n = 0; n < 2; n++)
                        assert_ok(lake_collect(k->lake, true));
                kit_table_open(k, &t); /* every object that is named is read */
                for (size_t n = 0; n < t.m.snapshot_count; n++)
                        added += kit_summary(&t.m.snapshots[n], "added-records");
                assert_int_equal(added, kit_total(k));
                kit_table_close(&t);
        }
        kit_check(k);
        kit_teardown((void **)&k);
}

int
main(void)
{
        struct CMUnitTest tests[LS_COUNT(modes) + 2] = {
                [LS_COUNT(modes)] = cmocka_unit_test(test_b036_conflict_is_tried_again),
                [LS_COUNT(modes) + 1] = cmocka_unit_test(test_b037_b038_lost_replies),
        };

        for (size_t i = 0; i < LS_COUNT(modes); i++)
                tests[i] = (struct CMUnitTest){ .name = modes[i].name,
                                                .test_func = test_mode,
                                                .initial_state = (void *)(uintptr_t)&modes[i] };
        cmocka_set_test_filter(getenv("LS_TEST"));
        return cmocka_run_group_tests(tests, NULL, NULL);
}
