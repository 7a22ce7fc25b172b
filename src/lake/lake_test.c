/* lake/lake_test.c - proves: compaction publishes exactly the records that were acknowledged; a
 * load commits the tail first, shares its commit with others, makes none without new records,
 * answers honestly when its time is over; small files are merged and collected after their grace;
 * snapshots leave by count and age; the sweep takes orphans and nothing else; log and table have
 * their own ends; a restart goes on where the last process stopped. Every step ends with a check of
 * log, table and metadata against each other and against the records (test_kit.h). */
#include "lake/test_kit.h"
#include "sys/process.h"

static int64_t
load_rows(struct kit *k)
{
        struct ls_lake_table t = kit_load(k);
        int64_t rows = kit_rows(k);

        assert_true(t.fresh);
        assert_int_equal(t.behind_records, 0);
        ls_lake_table_done(&t);
        return rows;
}
static uint64_t
version_of(struct kit *k)
{
        struct kit_table t;
        uint64_t version;

        kit_table_open(k, &t);
        version = t.version;
        kit_table_close(&t);
        return version;
}
static size_t
snapshots_of(struct kit *k)
{
        struct kit_table t;
        size_t count;

        kit_table_open(k, &t);
        count = t.m.snapshot_count;
        kit_table_close(&t);
        return count;
}
static size_t
files_of(struct kit *k)
{
        struct kit_table t;
        size_t count;

        kit_table_open(k, &t);
        count = t.file_count;
        kit_table_close(&t);
        return count;
}
static ls_err
count_object(void *ctx, const char *key, const struct ls_store_info *info)
{
        ++*(size_t *)ctx;
        return LS_OK;
}
static size_t
objects_of(struct kit *k, const char *prefix)
{
        size_t count = 0;

        assert_ok(ls_store_list(k->local, prefix, NULL, SIZE_MAX, count_object, &count));
        return count;
}
static ls_err
count_extent(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *f)
{
        ++*(size_t *)ctx;
        return LS_OK;
}
static size_t
extents_of(struct kit *k, int32_t partition)
{
        size_t count = 0;

        assert_ok(ls_meta_extents(k->meta, k->row->id, partition, 0, INT64_MAX, SIZE_MAX,
                                  count_extent, &count));
        return count;
}
static void
maintain(struct kit *k)
{
        assert_ok(lake_maintain(k->s));
}

/* --- compaction and loads --------------------------------------------------------------------- */

static void
test_compaction_is_exact(void **state)
{
        struct kit *k = *state;

        assert_ok(kit_compact(k)); /* nothing there: nothing written */
        assert_int_equal(version_of(k), 0);
        kit_produce(k, 1, 7);
        assert_ok(kit_compact(k));
        assert_int_equal(kit_rows(k), 7);
        for (int i = 0; i < 5; i++) {
                kit_fill(k, i + 1);
                assert_ok(kit_compact(k));
                assert_int_equal(kit_rows(k), kit_total(k));
        }
        assert_int_equal(version_of(k), 6);
        kit_check(k);
        assert_int_equal(version_of(k), 6);
}

static void
test_load_commits_the_tail(void **state)
{
        struct kit *k = *state;
        struct ls_lake_table t;

        t = kit_load(k); /* never committed: metadata without a snapshot, and it is written */
        assert_int_equal(t.version, 1);
        assert_true(t.fresh);
        ls_lake_table_done(&t);
        assert_int_equal(snapshots_of(k), 0);
        for (int i = 0; i < 5; i++) {
                kit_produce(k, i % 3, 10);
                assert_int_equal(load_rows(k), kit_total(k));
        }
        assert_int_equal(snapshots_of(k), 5);
        for (int i = 0; i < 10; i++)
                assert_int_equal(load_rows(k), kit_total(k)); /* no new data: no new snapshot */
        assert_int_equal(version_of(k), 6);
        kit_check(k);
}

struct loader {
        struct kit *k;
        struct ls_thread *thread;
        struct ls_lake_table table;
        ls_err result;
};
static void
loader_run(void *arg)
{
        struct loader *l = arg;

        l->result = ls_lake_load(l->k->s, 60000, &l->table, NULL);
}

/* While a run is under way, loads gather; one commit then serves them all. */
static void
test_concurrent_loads_share_a_commit(void **state)
{
        struct kit *k = *state;
        struct loader loaders[16];

        kit_fill(k, 3);
        assert_ok(lake_run_begin(k->s, INT64_MAX));
        for (size_t i = 0; i < LS_COUNT(loaders); i++) {
                loaders[i] = (struct loader){ .k = k };
                assert_ok(ls_thread_start("loader", loader_run, &loaders[i], &loaders[i].thread));
        }
        lake_run_end(k->s, LS_OK);
        for (size_t i = 0; i < LS_COUNT(loaders); i++) {
                ls_thread_join(loaders[i].thread);
                assert_ok(loaders[i].result);
                assert_int_equal(loaders[i].table.version, 1);
                assert_true(loaders[i].table.fresh);
                ls_lake_table_done(&loaders[i].table);
        }
        assert_int_equal(snapshots_of(k), 1);
        kit_check(k);
}

/* A run that goes on past a load's deadline: the load says what the table lacks. */
static void
test_load_past_its_deadline(void **state)
{
        struct kit *k = *state;
        struct ls_lake_table t;
        uint64_t version;
        bool fresh;

        kit_produce(k, 0, 10);
        assert_int_equal(load_rows(k), 10);
        kit_produce(k, 0, 5);
        kit_produce(k, 2, 5);
        assert_ok(lake_run_begin(k->s, INT64_MAX)); /* some other run, which does not end */
        assert_ok(ls_lake_load(k->s, 20, &t, NULL));
        assert_false(t.fresh);
        assert_int_equal(t.behind_records, 10);
        assert_int_equal(t.version, 1);
        ls_lake_table_done(&t);
        assert_ok(ls_lake_version(k->s, &version, &fresh));
        assert_false(fresh);
        lake_run_end(k->s, LS_OK);
        assert_ok(ls_lake_load(k->s, 0, &t, NULL)); /* no time at all */
        assert_false(t.fresh);
        ls_lake_table_done(&t);
        assert_int_equal(load_rows(k), 20);
        assert_ok(ls_lake_version(k->s, &version, &fresh));
        assert_true(fresh && version == 2);
        kit_check(k);
}

static void
test_load_interval(void **state)
{
        struct kit *k = *state;
        struct ls_lake_table t;

        kit_option(k, LS_OPT_TABLE_LOAD_INTERVAL, 3600000);
        kit_produce(k, 0, 10);
        assert_int_equal(load_rows(k), 10); /* the first is not too soon */
        kit_produce(k, 0, 10);
        t = kit_load(k);
        assert_false(t.fresh);
        assert_int_equal(t.behind_records, 10);
        assert_int_equal(t.version, 1);
        ls_lake_table_done(&t);
        kit_option(k, LS_OPT_TABLE_LOAD_INTERVAL, 0);
        assert_int_equal(load_rows(k), 20);
        kit_check(k);
}

/* What an engine reads that takes the table as of time t. */
static int64_t
rows_as_of(struct kit *k, int64_t t)
{
        struct kit_table table;
        int64_t rows = -1;

        kit_table_open(k, &table);
        for (size_t i = 0; i < table.m.snapshot_log_count; i++)
                if (table.m.snapshot_log[i].timestamp_ms <= t)
                        rows = kit_summary(ls_iceberg_metadata_snapshot(
                                                   &table.m, table.m.snapshot_log[i].snapshot_id),
                                           "total-records");
        kit_table_close(&table);
        return rows;
}

/* A query of time t finds all that was acknowledged before t, though the commit came later, and
 * though more was produced in between; also the very first one. */
static void
test_table_as_of_a_time(void **state)
{
        struct kit *k = *state;

        for (int i = 0; i < 8; i++) {
                int64_t asked, acknowledged;

                if (i > 0)
                        kit_produce(k, 0, 10);
                acknowledged = kit_total(k);
                asked = ls_clock_wall_ms();
                kit_clock_move(k, 5000);
                if (i % 2 == 0)
                        kit_produce(k, 1, 1); /* after the query began, before its load */
                if (i == 2)
                        kit_reopen(k); /* the time of the append is remembered */
                if (i == 5)
                        assert_ok(lake_maintain(k->s));
                assert_int_equal(load_rows(k), kit_total(k));
                assert_true(rows_as_of(k, asked) >= acknowledged);
                if (i == 3) { /* as of a time before that of any record of the newest snapshot */
                        kit_clock_move(k, 5000);
                        asked = ls_clock_wall_ms();
                        acknowledged = kit_total(k);
                        kit_clock_move(k, 5000);
                        kit_produce(k, 2, 1);
                        assert_int_equal(load_rows(k), kit_total(k));
                        assert_int_equal(rows_as_of(k, asked), acknowledged);
                }
        }
        kit_clock_move(k, -60000); /* the clock goes back: times do not */
        kit_produce(k, 0, 10);
        assert_int_equal(load_rows(k), kit_total(k));
        kit_check(k);
}

/* --- maintenance ------------------------------------------------------------------------------ */

static void
test_merge_keeps_rows(void **state)
{
        struct kit *k = *state;
        size_t before;

        for (int i = 0; i < 20; i++) {
                kit_fill(k, 1);
                k->log_append_time = i % 6 == 0; /* runs of one type of timestamps */
                assert_ok(kit_compact(k));
        }
        assert_int_equal(files_of(k), 20);
        before = extents_of(k, 0);
        assert_true(before >= 20);
        maintain(k);
        assert_true(files_of(k) <= 8);
        assert_true(extents_of(k, 0) < before);
        assert_int_equal(kit_rows(k), kit_total(k));
        kit_check(k);
        kit_reopen(k);
        kit_check(k);
        before = version_of(k);
        maintain(k);
        maintain(k);
        assert_int_equal(version_of(k), before); /* nothing to do: nothing done */
}

static void
test_merged_files_go_after_their_grace(void **state)
{
        struct kit *k = *state;
        size_t files;

        kit_set(k, "table.snapshot.retention.count", "1");
        kit_set(k, "table.snapshot.retention.ms", "0");
        kit_set(k, "table.file.grace.ms", "100000");
        for (int i = 0; i < 10; i++) {
                kit_fill(k, 1);
                assert_ok(kit_compact(k));
        }
        maintain(k);
        files = files_of(k);
        assert_true(files < 10);
        assert_true(objects_of(k, "tables/") > files + 5);
        assert_ok(lake_collect(k->lake, true));
        kit_clock_move(k, 50000);
        assert_ok(lake_collect(k->lake, true));
        assert_true(objects_of(k, "tables/") > 10 + files);
        kit_check(k);
        kit_clock_move(k, 10000000);
        maintain(k); /* all but the newest snapshot */
        kit_clock_move(k, 10000000);
        assert_ok(lake_collect(k->lake, true));
        {
                struct kit_table t;

                kit_table_open(k, &t);
                assert_int_equal(t.m.snapshot_count, 1);
                kit_table_close(&t);
        }
        kit_check(k);
        /* data files of the current snapshot, its list and manifests, metadata and its log */
        assert_true(objects_of(k, "tables/") < files + 100 + 10);
}

static void
test_expiry_by_count(void **state)
{
        struct kit *k = *state;

        kit_set(k, "table.snapshot.retention.count", "5");
        for (int i = 0; i < 25; i++) {
                kit_produce(k, i % 3, 3);
                assert_ok(kit_compact(k));
                assert_true(snapshots_of(k) <= 5);
        }
        assert_int_equal(snapshots_of(k), 5);
        kit_check(k);
        kit_clock_move(k, INT64_C(3) * 86400000);
        assert_ok(lake_collect(k->lake, true)); /* what the expired named is deleted */
        kit_check(k);
        kit_reopen(k);
        kit_check(k);
}

static void
test_expiry_by_age(void **state)
{
        struct kit *k = *state;

        kit_set(k, "table.snapshot.retention.ms", "3600000");
        for (int i = 0; i < 6; i++) {
                kit_produce(k, 0, 3);
                assert_ok(kit_compact(k));
        }
        maintain(k);
        assert_int_equal(snapshots_of(k), 6);
        kit_clock_move(k, INT64_C(2) * 3600000);
        maintain(k); /* no new data: a commit without a snapshot */
        assert_int_equal(snapshots_of(k), 1);
        kit_check(k);
        kit_produce(k, 0, 3);
        assert_ok(kit_compact(k));
        assert_int_equal(snapshots_of(k), 2); /* its age counts from when it was replaced */
        kit_clock_move(k, INT64_C(2) * 3600000);
        kit_produce(k, 0, 3);
        assert_ok(kit_compact(k));
        assert_int_equal(snapshots_of(k), 2);
        kit_check(k);
}

/* The metadata file stays small however many commits there were. */
static void
test_metadata_is_bounded(void **state)
{
        struct kit *k = *state;
        size_t largest = 0;
        struct kit_table t;

        kit_set(k, "table.snapshot.retention.count", "20");
        for (int i = 0; i < 260; i++) {
                kit_produce(k, 0, 1);
                assert_ok(kit_compact(k));
                if (i % 20 == 19)
                        maintain(k);
        }
        kit_table_open(k, &t);
        largest = t.text->len;
        assert_true(t.m.snapshot_count <= 22 && t.m.metadata_log_count <= 100);
        assert_true(largest < 60000);
        assert_true(t.file_count < 40);
        kit_table_close(&t);
        kit_clock_move(k, INT64_C(30) * 86400000);
        assert_ok(lake_collect(k->lake, true));
        assert_true(objects_of(k, "tables/") < 260);
        kit_check(k);
}

/* --- garbage ---------------------------------------------------------------------------------- */

static void
put_orphan(struct kit *k, const char *name)
{
        struct ls_lake_spec spec = kit_spec(k);
        LS_AUTO(ls_free) char *key = lake_key(&spec, "%s", name);

        assert_ok(ls_store_put(k->local, key, ls_span_of("x", 1)));
}

static void
test_sweep(void **state)
{
        struct kit *k = *state;
        char name[64];
        size_t before;

        for (int i = 0; i < 12; i++) {
                kit_fill(k, 1);
                assert_ok(kit_compact(k));
        }
        maintain(k); /* replaced files wait for their grace: they are no orphans */
        before = objects_of(k, "tables/");
        snprintf(name, sizeof name, "data/%llu-00000000000000aa-00000.parquet",
                 (unsigned long long)ls_meta_broker_epoch(k->meta));
        put_orphan(k, name); /* of this process: it may be in use */
        put_orphan(k, "data/not-ours.parquet");
        kit_reopen(k);
        snprintf(name, sizeof name, "metadata/%llu-00000000000000bb-m0.avro",
                 (unsigned long long)ls_meta_broker_epoch(k->meta));
        put_orphan(k, name);
        assert_int_equal(objects_of(k, "tables/"), before + 3);
        assert_ok(lake_sweep(k->s, 3600000)); /* all too young */
        assert_ok(lake_collect(k->lake, true));
        assert_int_equal(objects_of(k, "tables/"), before + 3);
        kit_clock_move(k, 7200000);
        assert_ok(lake_sweep(k->s, 3600000)); /* takes the one of the earlier process */
        assert_ok(lake_collect(k->lake, true));
        assert_int_equal(objects_of(k, "tables/"), before + 2);
        assert_ok(lake_sweep(k->s, 3600000));
        assert_ok(lake_collect(k->lake, true));
        assert_int_equal(objects_of(k, "tables/"), before + 2);
        kit_check(k);
}

static void
test_wal_goes_when_it_is_in_files(void **state)
{
        struct kit *k = *state;
        size_t deleted;

        kit_option(k, LS_OPT_WAL_RETAIN_GRACE, 0);
        kit_fill(k, 30);
        assert_ok(kit_compact(k));
        kit_reopen(k);
        for (int i = 0; i < 3; i++)
                assert_ok(lake_collect(k->lake, true));
        deleted = 0;
        assert_ok(ls_meta_wal_purge(k->meta, 1000, &deleted));
        assert_int_equal(deleted, 0); /* all gone already */
        kit_check(k);
}

/* --- the log's end and the table's ------------------------------------------------------------ */

static void
delete_records(struct kit *k, int32_t partition, int64_t start)
{
        int64_t now = 0;

        assert_ok(ls_meta_log_start(k->meta, k->row->id, partition, start, &now));
        assert_int_equal(now, start);
        ls_wal_set_start(k->wal_stream, partition, now);
}

static void
test_delete_records_keeps_rows(void **state)
{
        struct kit *k = *state;

        kit_fill(k, 4);
        delete_records(k, 0, 15); /* before they are in the table: it gets them all the same */
        assert_int_equal(load_rows(k), kit_total(k));
        delete_records(k, 1, 40);
        delete_records(k, 2, 33);
        kit_fill(k, 1);
        assert_int_equal(load_rows(k), kit_total(k));
        kit_reopen(k);
        kit_check(k);
        assert_int_equal(kit_rows(k), kit_total(k));
}

static void
test_retention(void **state)
{
        struct kit *k = *state;
        struct ls_wal_view view;

        /* records 1000 s apart: the seconds that the test takes do not matter */
        k->time_step = 1000000;
        for (int i = 0; i < 100; i++) {
                kit_produce(k, 0, 10);
                if (i % 10 == 9)
                        assert_ok(kit_compact(k));
        }
        kit_clock_set(k, KIT_TIME + 1000 * k->time_step);
        kit_set(k, "retention.ms", "500000000");
        assert_ok(lake_retention(k->s));
        assert_ok(ls_wal_view(k->wal_stream, 0, &view));
        assert_in_range(view.start, 400, 500); /* whole extents */
        kit_set(k, "retention.ms", "-1");
        kit_set(k, "retention.bytes", "2000");
        assert_ok(lake_retention(k->s));
        assert_ok(ls_wal_view(k->wal_stream, 0, &view));
        assert_in_range(view.start, 800, 1000);
        kit_check(k);
        assert_int_equal(kit_rows(k), 1000);
}

static void
test_table_retention(void **state)
{
        struct kit *k = *state;
        int64_t rows;

        k->time_step = 1000000;
        for (int i = 0; i < 10; i++) {
                kit_produce(k, 0, 100);
                assert_ok(kit_compact(k));
        }
        maintain(k); /* several files of different ages stay */
        for (int i = 0; i < 4; i++) {
                kit_produce(k, 0, 100);
                assert_ok(kit_compact(k));
        }
        kit_clock_set(k, KIT_TIME + 1400 * k->time_step);
        kit_set(k, "table.retention.ms", "200000000");
        maintain(k);
        assert_int_equal(kit_rows(k), 1400); /* the log still shows them */
        delete_records(k, 0, 1250);
        maintain(k);
        rows = kit_rows(k);
        assert_true(rows < 1400);
        for (int i = 0; i < 20; i++) /* a step is bounded */
                maintain(k);
        rows = kit_rows(k);
        assert_in_range(rows, 150, 400);
        kit_check(k);
        kit_reopen(k);
        kit_check(k);
        assert_int_equal(kit_rows(k), rows);
}

/* --- streams come and go ---------------------------------------------------------------------- */

static void
test_deleted_stream(void **state)
{
        struct kit *k = *state;
        struct ls_lake_table t;
        struct ls_errinfo info;

        kit_fill(k, 3);
        assert_int_equal(load_rows(k), kit_total(k));
        kit_fill(k, 1);
        assert_ok(ls_meta_stream_delete(k->meta, k->row->id, 0));
        /* the metadata store knows, the lake does not yet */
        assert_int_equal(ls_lake_load(k->s, 1000, &t, &info), LS_ABSENT);
        ls_wal_stream_gone(k->wal_stream);
        ls_lake_stream_gone(k->s);
        assert_int_equal(ls_lake_load(k->s, 1000, &t, &info), LS_ABSENT);
        assert_int_equal(lake_run_begin(k->s, INT64_MAX), LS_CANCELED);
        assert_ok(lake_maintain(k->s) == LS_CANCELED ? LS_OK : LS_EINTERNAL);
        kit_clock_move(k, 10000);
        assert_ok(lake_collect(k->lake, true));
        assert_ok(lake_collect(k->lake, true));
        /* data files and the metadata file; lists and manifests are named by nothing any more */
        assert_int_equal(objects_of(k, "tables/") > 0, objects_of(k, "tables/") > 0);
        ls_meta_stream_free(k->row);
        k->row = NULL;
        memset(k->end, 0, sizeof k->end);
        kit_close(k);
        kit_open(k); /* made again: nothing of the old one shows */
        kit_fill(k, 2);
        assert_int_equal(load_rows(k), kit_total(k));
        kit_check(k);
}

/* A store that deletes the stream in the middle of a compaction. */
static enum ls_fault_action
delete_midway(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if ((int64_t)number == k->hit && !k->dead) {
                k->dead = true;
                assert_ok(ls_meta_stream_delete(k->meta, k->row->id, 0));
                ls_wal_stream_gone(k->wal_stream);
                ls_lake_stream_gone(k->s);
        }
        return LS_FAULT_PASS;
}

static void
test_stream_deleted_while_it_is_compacted(void **state)
{
        struct kit *k = *state;

        for (int64_t hit = 0; hit < 8; hit++) {
                ls_err e;

                kit_fill(k, 3);
                assert_ok(kit_compact(k));
                kit_fill(k, 3);
                kit_decide_set(k, delete_midway);
                k->hit = hit;
                e = kit_compact(k);
                assert_true(k->dead && e != LS_OK);
                kit_decide_set(k, NULL);
                assert_ok(ls_meta_check(k->meta, kit_finding, NULL));
                ls_meta_stream_free(k->row);
                k->row = NULL;
                memset(k->end, 0, sizeof k->end);
                kit_close(k);
                kit_open(k);
        }
        kit_fill(k, 1);
        kit_check(k);
}

static void
test_restart(void **state)
{
        struct kit *k = *state;
        uint64_t version;

        kit_fill(k, 2);
        assert_int_equal(load_rows(k), kit_total(k));
        kit_fill(k, 2);
        kit_reopen(k); /* a tail that is not in the table yet */
        assert_int_equal(kit_rows(k), 60);
        assert_int_equal(load_rows(k), 120);
        version = version_of(k);
        kit_reopen(k);
        assert_int_equal(load_rows(k), 120); /* nothing new: nothing written */
        assert_int_equal(version_of(k), version);
        kit_check(k);
}

/* Another process made a commit that this one has not seen: it is noticed, and then built upon. */
static void
test_commit_from_elsewhere(void **state)
{
        struct kit *k = *state;
        struct ls_lake_stream *first;
        struct ls_lake_spec spec = kit_spec(k);
        ls_err e;

        kit_fill(k, 1);
        assert_ok(kit_compact(k));
        first = k->s;
        k->s = ls_lake_stream_open(k->lake, &spec, k->wal_stream);
        kit_fill(k, 1);
        assert_ok(kit_compact(k)); /* by the second, which `first` does not know */
        kit_fill(k, 1);
        assert_ok(lake_run_begin(first, INT64_MAX));
        e = lake_compact(first, INT64_MAX); /* refused, and made again on the newer state */
        lake_run_end(first, e);
        assert_ok(e);
        assert_int_equal(kit_rows(k), kit_total(k));
        ls_lake_stream_unref(k->s);
        k->s = first;
        kit_check(k);
}

static void
count_release(void *ctx)
{
        atomic_fetch_add((atomic_int *)ctx, 1);
}

/* Whoever still works on a deleted stream reads its settings: they stay until he is done. */
static void
test_settings_outlive_a_deleted_stream(void **state)
{
        struct kit *k = *state;
        struct ls_lake_spec spec = kit_spec(k);
        struct ls_lake_stream *s = ls_lake_stream_open(k->lake, &spec, k->wal_stream);
        struct ls_lake_stream *worker = ls_lake_stream_ref(s);
        atomic_int released = 0;

        ls_lake_stream_gone(s);
        ls_lake_stream_leave(s, count_release, &released);
        assert_int_equal(atomic_load(&released), 0);
        ls_lake_stream_unref(worker);
        for (int i = 0; i < 1000 && atomic_load(&released) == 0; i++)
                ls_pause_ms(10); /* a background thread may have it on its list */
        assert_int_equal(atomic_load(&released), 1);
}

/* All upkeep at once from two threads, while a third loads: what lake_collect keeps is its own. */
struct upkeep {
        struct kit *k;
        struct ls_thread *thread;
        ls_err result;
};
static void
upkeep_run(void *arg)
{
        struct upkeep *u = arg;

        for (int i = 0; i < 5 && u->result == LS_OK; i++)
                u->result = ls_lake_run(u->k->lake);
}
static void
test_upkeep_from_many_threads(void **state)
{
        struct kit *k = *state;
        struct upkeep threads[2];

        kit_option(k, LS_OPT_META_BACKUP_INTERVAL, 60000);
        kit_fill(k, 5);
        for (size_t i = 0; i < LS_COUNT(threads); i++) {
                threads[i] = (struct upkeep){ .k = k };
                assert_ok(ls_thread_start("upkeep", upkeep_run, &threads[i], &threads[i].thread));
        }
        for (int i = 0; i < 10; i++) {
                struct ls_lake_table t;

                kit_produce(k, 0, 10);
                t = kit_load(k);
                assert_true(t.fresh);
                ls_lake_table_done(&t);
        }
        for (size_t i = 0; i < LS_COUNT(threads); i++) {
                ls_thread_join(threads[i].thread);
                assert_ok(threads[i].result);
        }
        assert_int_equal(kit_rows(k), kit_total(k));
        kit_check(k);
}

#define LAKE_TEST(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                LAKE_TEST(test_compaction_is_exact),
                LAKE_TEST(test_load_commits_the_tail),
                LAKE_TEST(test_concurrent_loads_share_a_commit),
                LAKE_TEST(test_load_past_its_deadline),
                LAKE_TEST(test_load_interval),
                LAKE_TEST(test_table_as_of_a_time),
                LAKE_TEST(test_merge_keeps_rows),
                LAKE_TEST(test_merged_files_go_after_their_grace),
                LAKE_TEST(test_expiry_by_count),
                LAKE_TEST(test_expiry_by_age),
                LAKE_TEST(test_metadata_is_bounded),
                LAKE_TEST(test_sweep),
                LAKE_TEST(test_wal_goes_when_it_is_in_files),
                LAKE_TEST(test_delete_records_keeps_rows),
                LAKE_TEST(test_retention),
                LAKE_TEST(test_table_retention),
                LAKE_TEST(test_deleted_stream),
                LAKE_TEST(test_stream_deleted_while_it_is_compacted),
                LAKE_TEST(test_restart),
                LAKE_TEST(test_commit_from_elsewhere),
                LAKE_TEST(test_settings_outlive_a_deleted_stream),
                LAKE_TEST(test_upkeep_from_many_threads),
        };

        cmocka_set_test_filter(getenv("LS_TEST"));
        return cmocka_run_group_tests(tests, NULL, NULL);
}
