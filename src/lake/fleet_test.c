/* lake/fleet_test.c - proves, of two brokers on one store and one metadata store: whatever one does
 * in the middle of what the other does (tried at every call to the store), both go on without an
 * alarm, and log and table stay equal; a merge is not lost to an append elsewhere; loads, versions
 * and reads of history see what the other has committed; leases keep them apart, and without work
 * nothing is written; the sweeps leave what an open epoch may still name, and take it when the
 * epoch is closed.
 *
 * The brokers have their own metadata connections, epochs, WALs (in the store), views, lakes and
 * cached states. Nobody tells one of what the other does: their views are as stale as can be. The
 * metadata is in SQLite, or in the PostgreSQL that LAKESTREAM_TEST_POSTGRES names (in a schema of
 * its own). */
#include <libpq-fe.h>

#include "lake/test_kit.h"
#include "sys/process.h"

struct fleet {
        struct kit *a, *b;
        char schema[32], url[512]; /* with PostgreSQL */
        int turn;                  /* of producing */
        int64_t age_ms;            /* of what is swept */
        int alarms;                /* lines of warnings and errors */
};

/* The one that is running: for the hooks. */
static struct fleet *at_hand;

static void
count_alarm(void *ctx, const char *line, size_t len)
{
        __atomic_fetch_add(&((struct fleet *)ctx)->alarms, 1, __ATOMIC_RELAXED);
        fprintf(stderr, "%.*s", (int)len, line);
}

static void
other_open(struct fleet *f)
{
        struct kit *a = f->a, *b = ls_calloc(1, sizeof *b);

        memcpy(b->dir, a->dir, sizeof b->dir);
        b->host = a;
        b->broker_id = 2;
        b->wal_grace_ms = a->wal_grace_ms;
        b->shared = true;
        b->postgres_url = a->postgres_url;
        b->partitions = a->partitions;
        b->time_step = a->time_step;
        b->options = a->options; /* borrowed */
        b->settings = a->settings;
        kit_open(b);
        f->b = b;
}

static void
other_close(struct fleet *f)
{
        if (f->b != NULL)
                kit_close(f->b);
        ls_free(f->b);
        f->b = NULL;
}

static const char *
postgres(void)
{
        return getenv("LAKESTREAM_TEST_POSTGRES");
}

static void
schema_name(struct fleet *f)
{
        static int number;

        snprintf(f->schema, sizeof f->schema, "lake%d_%d", (int)getpid(), ++number);
        snprintf(f->url, sizeof f->url, "%s%coptions=-csearch_path%%3D%s", postgres(),
                 strchr(postgres(), '?') ? '&' : '?', f->schema);
}

static void
schema_drop(struct fleet *f)
{
        LS_AUTO(ls_free) char *text = ls_format("DROP SCHEMA IF EXISTS %s CASCADE", f->schema);
        PGconn *conn = PQconnectdb(f->url);

        PQclear(PQexec(conn, "SET client_min_messages TO warning"));
        PQclear(PQexec(conn, text));
        PQfinish(conn);
}

static int
fleet_setup(void **state)
{
        struct fleet *f = ls_calloc(1, sizeof *f);
        void *kit = NULL;

        assert_int_equal(kit_setup(&kit), 0);
        f->a = kit;
        f->a->shared = true;
        kit_set(f->a, "table.snapshot.retention.count", "3"); /* all are looked at each time */
        if (postgres() != NULL) {                             /* the stream is made there */
                schema_name(f);
                f->a->postgres_url = f->url;
                ls_meta_stream_free(f->a->row);
                f->a->row = NULL;
        }
        kit_reopen(f->a);
        other_open(f);
        f->age_ms = 3600000;
        ls_log_setup(LS_LOG_WARN, count_alarm, f);
        at_hand = f;
        *state = f;
        return 0;
}

static int
fleet_teardown(void **state)
{
        struct fleet *f = *state;
        void *kit = f->a;

        other_close(f);
        ls_log_setup(LS_LOG_ERROR + 1, NULL, NULL);
        assert_int_equal(kit_teardown(&kit), 0);
        if (postgres() != NULL)
                schema_drop(f);
        ls_free(f);
        return 0;
}

/* By both, in turns. */
static void
produce(struct fleet *f, int32_t batches)
{
        for (int32_t i = 0; i < batches; i++) {
                bool first = (f->turn++ & 1) == 0;
                struct kit *k = first ? f->a : f->b, *other = first ? f->b : f->a;

                kit_fill(k, 1);
                memcpy(other->end, k->end, sizeof other->end);
        }
}

static uint64_t
version_of(struct kit *k)
{
        struct ls_meta_table row;
        uint64_t version;

        assert_ok(ls_meta_table(k->meta, k->row->id, &row));
        version = row.version;
        ls_meta_table_done(&row);
        return version;
}

static ls_err
count_file(void *ctx, const struct ls_meta_file *f)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

static size_t
files_of(struct kit *k)
{
        size_t count = 0;

        assert_ok(ls_meta_files(k->meta, k->row->id, false, count_file, &count));
        return count;
}

/* Both see all of it, in the log and in the table, and nothing was worth a warning. */
static void
check(struct fleet *f)
{
        assert_ok(ls_wal_stream_refresh(f->a->wal_stream));
        assert_ok(ls_wal_stream_refresh(f->b->wal_stream));
        kit_check(f->a);
        kit_check(f->b);
        assert_int_equal(kit_rows(f->b), kit_total(f->a));
        assert_int_equal(f->alarms, 0);
}

/* --- one in the middle of the other ----------------------------------------------------------- */

static bool entered;
static void (*between)(struct fleet *f);

/* At one call that the first makes to the store the second does its part, whole. */
static enum ls_fault_action
enter(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if ((int64_t)number == k->hit && !entered) {
                entered = true;
                between(at_hand);
        }
        return LS_FAULT_PASS;
}

static void
arm(struct fleet *f, int64_t hit, void (*what)(struct fleet *f))
{
        kit_decide_set(f->a, enter);
        f->a->hit = hit;
        between = what;
        entered = false;
}

static void
disarm(struct fleet *f)
{
        kit_decide_set(f->a, NULL);
}

static void
b_compacts(struct fleet *f)
{
        assert_ok(kit_compact(f->b));
}

/* The lease of A has run out, as it does in a broker that stands still for a while. */
static void
a_loses_its_lease(struct fleet *f)
{
        assert_ok(ls_meta_lease_release(f->a->meta, "table/1"));
        f->b->s->lease = (struct lake_lease){ 0 };
}

static void
b_merges(struct fleet *f)
{
        a_loses_its_lease(f);
        assert_ok(lake_maintain(f->b->s));
}

static void
b_maintains(struct fleet *f)
{
        ls_err e = lake_maintain(f->b->s);

        assert_true(e == LS_OK || e == LS_CONFLICT || e == LS_BUSY);
}

static void
b_loads(struct fleet *f)
{
        struct ls_lake_table t = kit_load(f->b);

        assert_true(t.fresh);
        ls_lake_table_done(&t);
}

static void
test_compaction_against_compaction(void **state)
{
        struct fleet *f = *state;

        for (int64_t hit = 0; hit < 100; hit++) {
                produce(f, 2);
                arm(f, hit, b_compacts);
                assert_ok(kit_compact(f->a));
                disarm(f);
                assert_int_equal(kit_rows(f->a), kit_total(f->a));
                if (!entered)
                        break;
                if (hit % 8 == 0)
                        check(f);
        }
        assert_false(entered); /* every call was one */
        check(f);
}

/* As b_compacts, and A's follower is quick. */
static void
b_compacts_and_a_hears(struct fleet *f)
{
        b_compacts(f);
        assert_ok(ls_wal_stream_refresh(f->a->wal_stream));
}

static void
test_floor_moves_under_a_run(void **state)
{
        struct fleet *f = *state;

        for (int64_t hit = 0; hit < 12; hit++) {
                produce(f, 2);
                arm(f, hit, b_compacts_and_a_hears);
                assert_ok(kit_compact(f->a));
                disarm(f);
                assert_true(entered || hit > 5);
                assert_int_equal(kit_rows(f->a), kit_total(f->a));
        }
        check(f);
}

struct compactor {
        struct kit *k;
        struct ls_thread *thread;
        ls_err result;
};

static void
compactor_run(void *arg)
{
        struct compactor *c = arg;

        c->result = kit_compact(c->k);
}

static void
test_both_compact_at_once(void **state)
{
        struct fleet *f = *state;

        for (int i = 0; i < 15; i++) {
                struct compactor both[2] = { { .k = f->a }, { .k = f->b } };

                produce(f, 1 + i % 3);
                for (size_t k = 0; k < LS_COUNT(both); k++)
                        assert_ok(ls_thread_start("compact", compactor_run, &both[k],
                                                  &both[k].thread));
                for (size_t k = 0; k < LS_COUNT(both); k++) {
                        ls_thread_join(both[k].thread);
                        assert_ok(both[k].result);
                }
                assert_int_equal(kit_rows(f->a), kit_total(f->a));
        }
        check(f);
}

/* A has compacted, B has not heard of it, of the records, nor of the table. */
static void
test_stale_view(void **state)
{
        struct fleet *f = *state;

        for (int i = 0; i < 4; i++) {
                produce(f, 2);
                assert_ok(kit_compact(f->a));
                produce(f, 1);
                assert_ok(kit_compact(f->b));
                assert_int_equal(kit_rows(f->a), kit_total(f->a));
                assert_ok(kit_compact(f->a)); /* its view is behind now: nothing to do */
        }
        assert_int_equal(version_of(f->a), 8);
        check(f);
}

/* What B remembers of the table is deleted by now. */
static void
test_stale_table(void **state)
{
        struct fleet *f = *state;

        kit_set(f->a, "table.file.grace.ms", "0");
        kit_set(f->a, "table.snapshot.retention.count", "1");
        f->b->settings = f->a->settings;
        produce(f, 1);
        assert_ok(kit_compact(f->b));
        for (int i = 0; i < 40; i++) { /* manifests are gathered, files merged */
                produce(f, 1);
                assert_ok(kit_compact(f->a));
        }
        while (lake_maintain(f->a->s) == LS_OK && files_of(f->a) > 8)
                ;
        kit_clock_move(f->a, 10 * INT64_C(86400000) * 365);
        assert_ok(lake_collect(f->a->lake, true));
        produce(f, 1);
        assert_ok(kit_compact(f->b));
        check(f);
}

/* --- merges ----------------------------------------------------------------------------------- */

static void
fill_tier(struct fleet *f)
{
        for (int i = 0; i < 8; i++) {
                produce(f, 1);
                assert_ok(kit_compact(f->a));
        }
}

static ls_err
count_merged(void *ctx, const char *key, const struct ls_store_info *info)
{
        *(size_t *)ctx += strstr(key, "-m.parquet") != NULL;
        return LS_OK;
}

static size_t
merged_objects(struct fleet *f)
{
        size_t count = 0;

        assert_ok(ls_store_list(f->a->local, "tables/", NULL, SIZE_MAX, count_merged, &count));
        return count;
}

static void
merge_amid(struct fleet *f, int64_t hit, void (*what)(struct fleet *f))
{
        size_t before = files_of(f->a), merged = merged_objects(f);

        fill_tier(f);
        produce(f, 1); /* for B */
        arm(f, hit, what);
        assert_ok(lake_maintain(f->a->s));
        disarm(f);
        assert_true(files_of(f->a) < before + 8);
        /* once written, and kept: not made again for the sake of a compaction elsewhere */
        assert_true(merged_objects(f) - merged <= 1 || before >= 7);
        assert_int_equal(kit_rows(f->b) + (entered ? 0 : 10 * f->a->partitions), kit_total(f->a));
        assert_int_equal(f->alarms, 0);
}

static void
test_merge_against_compaction(void **state)
{
        struct fleet *f = *state;
        int64_t hit;

        for (hit = 0; hit < 200; hit += hit < 8 ? 1 : 3) {
                merge_amid(f, hit, b_compacts);
                if (!entered)
                        break;
        }
        assert_true(hit > 10 && hit < 200);
        check(f);
}

static void
test_merge_against_load(void **state)
{
        struct fleet *f = *state;

        for (int64_t hit = 0; hit < 24; hit += 3)
                merge_amid(f, hit, b_loads);
        check(f);
}

/* The same files: one merge is published, the other's file is garbage. */
static void
test_merge_against_merge(void **state)
{
        struct fleet *f = *state;
        int clashes = 0;

        for (int64_t hit = 0; hit < 60; hit += hit < 8 ? 1 : 3) {
                ls_err e;

                fill_tier(f);
                assert_ok(ls_meta_lease_release(f->b->meta, "table/1"));
                f->a->s->lease = (struct lake_lease){ 0 };
                arm(f, hit, b_merges);
                e = lake_maintain(f->a->s);
                disarm(f);
                clashes += e == LS_CONFLICT;
                assert_true(e == LS_OK || e == LS_CONFLICT || e == LS_BUSY);
                assert_int_equal(kit_rows(f->a), kit_total(f->a));
                if (!entered)
                        break;
                if (hit % 16 == 0)
                        check(f);
        }
        assert_true(clashes > 3);
        check(f);
}

/* Rows move under a verification: that is no difference. */
static void
b_compacts_and_merges(struct fleet *f)
{
        produce(f, 1);
        b_compacts(f);
        b_merges(f);
}

static void
test_verify_against_merge(void **state)
{
        struct fleet *f = *state;

        for (int64_t hit = 0; hit < 30; hit += hit < 12 ? 1 : 6) {
                struct ls_lake_verify v;
                struct ls_errinfo info = { "" };

                fill_tier(f);
                f->a->s->lease = (struct lake_lease){ 0 };
                arm(f, hit, b_compacts_and_merges);
                if (ls_lake_verify(f->a->s, true, &v, &info) != LS_OK)
                        fail_msg("%s", info.text);
                disarm(f);
                if (!v.equal)
                        fail_msg("at %d: %s", (int)hit, v.first_difference);
        }
        check(f);
}

/* --- all of it at once ------------------------------------------------------------------------ */

struct upkeep {
        struct kit *k;
        struct ls_thread *thread;
        ls_err result;
};

static void
upkeep_run(void *arg)
{
        struct upkeep *u = arg;

        for (int i = 0; i < 12 && u->result == LS_OK; i++) {
                struct ls_lake_table t;

                u->result = ls_lake_run(u->k->lake);
                if (u->result == LS_OK)
                        u->result = ls_lake_load(u->k->s, 60000, &t, NULL);
                if (u->result == LS_OK && !t.fresh)
                        u->result = LS_EINTERNAL;
                if (u->result == LS_OK)
                        ls_lake_table_done(&t);
                u->k->s->lease.again_ms = 0; /* it need not wait */
        }
}

static void
test_upkeep_of_both(void **state)
{
        struct fleet *f = *state;
        struct upkeep both[2] = { { .k = f->a }, { .k = f->b } };
        struct ls_lake_verify v;

        kit_set(f->a, "table.file.grace.ms", "1000");
        kit_set(f->a, "table.snapshot.retention.count", "5");
        f->b->settings = f->a->settings;
        for (size_t i = 0; i < LS_COUNT(both); i++)
                assert_ok(ls_thread_start("upkeep", upkeep_run, &both[i], &both[i].thread));
        for (int i = 0; i < 30; i++) {
                kit_produce(i & 1 ? f->a : f->b, i % f->a->partitions, 10);
                memcpy((i & 1 ? f->b : f->a)->end, (i & 1 ? f->a : f->b)->end, sizeof f->a->end);
                if (i % 10 == 0) {
                        assert_ok(ls_lake_verify(f->a->s, true, &v, NULL));
                        assert_true(v.equal);
                }
        }
        for (size_t i = 0; i < LS_COUNT(both); i++) {
                ls_thread_join(both[i].thread);
                assert_ok(both[i].result);
        }
        memcpy(f->b->end, f->a->end, sizeof f->b->end);
        check(f);
}

/* --- what the other has committed is seen ----------------------------------------------------- */

static void
test_load_sees_all(void **state)
{
        struct fleet *f = *state;
        struct ls_lake_table t;
        uint64_t version;
        bool fresh;

        produce(f, 2);
        t = kit_load(f->b); /* it has heard of no record */
        assert_true(t.fresh);
        assert_int_equal(t.behind_records, 0);
        assert_int_equal(t.version, version_of(f->a));
        ls_lake_table_done(&t);
        assert_int_equal(kit_rows(f->b), kit_total(f->a));
        version = version_of(f->a);
        t = kit_load(f->a); /* nothing new, whoever asks: nothing written */
        assert_int_equal(t.version, version);
        ls_lake_table_done(&t);
        produce(f, 1);
        assert_ok(ls_lake_version(f->b->s, &version, &fresh));
        assert_false(fresh);
        assert_ok(kit_compact(f->a));
        assert_ok(ls_lake_version(f->b->s, &version, &fresh));
        assert_true(fresh);
        assert_int_equal(version, version_of(f->a));
        t = kit_load(f->b); /* the newest, although nothing is missing */
        assert_int_equal(t.version, version);
        ls_lake_table_done(&t);
        check(f);
}

static void
test_load_against_everything(void **state)
{
        struct fleet *f = *state;
        static void (*const whats[])(struct fleet * f) = { b_compacts, b_loads, b_maintains };

        for (int64_t hit = 0; hit < 30; hit++) {
                struct ls_lake_table t;

                produce(f, 1);
                arm(f, hit, whats[hit % 3]);
                t = kit_load(f->a);
                disarm(f);
                assert_true(t.fresh);
                ls_lake_table_done(&t);
                assert_int_equal(kit_rows(f->a), kit_total(f->a));
        }
        check(f);
}

/* B is faster, again and again: each time what A has written meets a floor that moved. */
static enum ls_fault_action
outrun(struct kit *k, const char *op, const char *key, uint64_t number, ls_err *err)
{
        if (k->hit > 0 && strstr(key, "/metadata/") != NULL && strncmp(op, "put", 3) == 0) {
                k->hit--;
                produce(at_hand, 1);
                b_compacts(at_hand);
        }
        return LS_FAULT_PASS;
}

static void
test_load_is_not_given_up(void **state)
{
        struct fleet *f = *state;
        struct ls_lake_table t;

        produce(f, 1);
        kit_decide_set(f->a, outrun);
        f->a->hit = 30; /* three puts an attempt */
        t = kit_load(f->a);
        assert_true(t.fresh);
        ls_lake_table_done(&t);
        check(f);
}

/* A log without a table is discarded: its floor moves, the table's version does not. */
static void
b_discards(struct fleet *f)
{
        int64_t start;
        size_t partitions;

        assert_ok(ls_meta_log_start(f->b->meta, f->b->row->id, 0, f->b->end[0], &start));
        assert_ok(ls_meta_log_discard(f->b->meta, f->b->row->id, &partitions));
        assert_int_equal(partitions, 1);
}

static void
test_floor_moves_without_a_version(void **state)
{
        struct fleet *f = *state;
        struct ls_lake_verify v;

        for (int64_t hit = 0; hit < 120; hit += 2) {
                produce(f, 1);
                arm(f, hit, b_discards);
                assert_ok(kit_compact(f->a));
                disarm(f);
                if (!entered)
                        break;
                assert_ok(ls_lake_verify(f->a->s, false, &v, NULL));
                assert_true(v.equal);
        }
        assert_false(entered); /* every call was one */
        assert_ok(ls_meta_check(f->a->meta, kit_finding, NULL));
        assert_int_equal(f->alarms, 0);
}

/* The first table load of both at once: one makes the metadata. */
static void
test_first_metadata(void **state)
{
        struct fleet *f = *state;
        struct ls_lake_table t;

        arm(f, 0, b_loads);
        t = kit_load(f->a);
        disarm(f);
        assert_true(entered);
        assert_int_equal(t.version, 1);
        ls_lake_table_done(&t);
        assert_int_equal(version_of(f->b), 1);
        check(f);
}

static void
test_history_is_found(void **state)
{
        struct fleet *f = *state;
        struct ls_lake_read r = { .offset = 0, .bytes_max = 100 };

        produce(f, 3);
        assert_ok(ls_wal_stream_refresh(f->b->wal_stream)); /* floor 0 */
        assert_ok(kit_compact(f->a));
        assert_ok(ls_lake_read(f->b->s, 0, &r)); /* not worth a batch, but not the WAL's either */
        r = (struct ls_lake_read){ .offset = 5, .bytes_max = 5000, .min_one = true };
        assert_ok(ls_lake_read(f->b->s, 1, &r));
        assert_true(r.next_offset > 5);
        ls_lake_read_done(&r);
        r = (struct ls_lake_read){ .offset = 30, .bytes_max = 5000, .min_one = true };
        assert_int_equal(ls_lake_read(f->b->s, 1, &r), LS_END);
        ls_lake_read_done(&r);
        check(f);
}

/* --- retention -------------------------------------------------------------------------------- */

static void
test_retention_moves_past_a_stale_view(void **state)
{
        struct fleet *f = *state;
        struct ls_wal_view view;

        produce(f, 1);
        assert_ok(ls_wal_stream_refresh(f->b->wal_stream));
        produce(f, 20);
        assert_ok(kit_compact(f->a));
        kit_set(f->a, "retention.bytes", "0");
        f->b->settings = f->a->settings;
        assert_ok(lake_retention(f->a->s)); /* above all that B knows */
        assert_ok(lake_retention(f->b->s)); /* A has the lease */
        assert_ok(ls_wal_view(f->b->wal_stream, 0, &view));
        assert_int_equal(view.start, 0);
        assert_ok(ls_meta_lease_release(f->a->meta, "table/1"));
        f->b->s->lease = (struct lake_lease){ 0 };
        assert_ok(lake_retention(f->b->s));
        assert_ok(ls_wal_view(f->b->wal_stream, 0, &view));
        assert_true(view.start > 0);
        assert_int_equal(f->alarms, 0);
}

/* --- leases ----------------------------------------------------------------------------------- */

static void
test_leases(void **state)
{
        struct fleet *f = *state;

        assert_true(!lake_leased(f->a->s));
        assert_ok(lake_lease(f->a->s));
        assert_ok(lake_lease(f->a->s));
        assert_true(lake_leased(f->a->s));
        assert_int_equal(lake_lease(f->b->s), LS_BUSY);
        assert_false(lake_leased(f->b->s));
        assert_ok(lake_lease_upkeep(f->b->lake));
        assert_int_equal(lake_lease_upkeep(f->a->lake), LS_BUSY);
        lake_lease_rest(f->a->s); /* used just now */
        assert_true(lake_leased(f->a->s));
        /* merging is left to who has it */
        fill_tier(f);
        assert_int_equal(lake_maintain(f->b->s), LS_BUSY);
        assert_true(files_of(f->a) >= 8);
        /* but loads are not */
        produce(f, 1);
        b_loads(f);
        f->a->s->lease.used_ms -= 60000;
        lake_lease_rest(f->a->s);
        assert_false(lake_leased(f->a->s));
        assert_int_equal(lake_lease(f->b->s), LS_BUSY); /* it looks again later */
        f->b->s->lease.again_ms = 0;
        assert_ok(lake_maintain(f->b->s));
        assert_true(files_of(f->a) < 8);
        check(f);
}

static void
test_without_work_nothing_is_written(void **state)
{
        struct fleet *f = *state;
        uint64_t a, b;

        kit_set(f->a, "table.file.grace.ms", "3600000");
        f->b->settings = f->a->settings;
        fill_tier(f);
        produce(f, 1);
        for (int i = 0; i < 3; i++) {
                assert_ok(ls_lake_run(f->a->lake));
                f->b->lake->lease = f->b->s->lease = (struct lake_lease){ 0 };
                assert_ok(ls_lake_run(f->b->lake));
                f->a->lake->lease.again_ms = 0;
        }
        /* what is left of leases runs out; without work they are neither renewed nor given back
         * twice */
        f->a->lake->lease = f->a->s->lease = (struct lake_lease){ 0 };
        f->b->lake->lease = f->b->s->lease = (struct lake_lease){ 0 };
        atomic_store(&f->a->lake->purge_wanted, false);
        atomic_store(&f->b->lake->purge_wanted, false);
        a = ls_meta_changes(f->a->meta);
        b = ls_meta_changes(f->b->meta);
        for (int i = 0; i < 3; i++) {
                assert_ok(ls_lake_run(f->a->lake));
                assert_ok(ls_lake_run(f->b->lake));
        }
        assert_int_equal(ls_meta_changes(f->a->meta), a);
        assert_int_equal(ls_meta_changes(f->b->meta), b);
        check(f);
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

/* Until all records are in the table, by whoever's background threads. */
static void
wait_for_rows(struct fleet *f)
{
        int64_t until = ls_clock_monotonic_ms() + 30000;
        struct ls_wal_backlog backlog;

        for (;;) {
                assert_ok(ls_wal_stream_refresh(f->a->wal_stream)); /* as their followers do */
                if (f->b != NULL)
                        assert_ok(ls_wal_stream_refresh(f->b->wal_stream));
                ls_wal_backlog(f->a->wal_stream, &backlog);
                if (backlog.records == 0)
                        break;
                assert_true(ls_clock_monotonic_ms() < until);
                ls_pause_ms(20);
        }
}

static void
test_threads_share_the_work(void **state)
{
        struct fleet *f = *state;

        other_close(f);
        kit_set(f->a, "table.commit.interval.ms", "100");
        kit_option(f->a, LS_OPT_LAKE_THREADS, 1);
        kit_option(f->a, LS_OPT_TABLE_UPKEEP_INTERVAL, 100);
        kit_reopen(f->a);
        other_open(f);
        for (int i = 0; i < 20; i++) {
                produce(f, 1);
                wait_for_rows(f);
        }
        assert_true(lake_leased(f->a->s) != lake_leased(f->b->s)); /* one of them did it */
        assert_int_equal(f->alarms, 0);
        other_close(f); /* it gives back what it has: the other goes on when it looks again */
        pthread_mutex_lock(&f->a->s->lock);
        f->a->s->lease.again_ms = 0;
        pthread_mutex_unlock(&f->a->s->lock);
        kit_fill(f->a, 1);
        wait_for_rows(f);
        assert_true(lake_leased(f->a->s));
        other_open(f);
        memcpy(f->b->end, f->a->end, sizeof f->b->end);
        check(f);
}

/* --- garbage ---------------------------------------------------------------------------------- */

static void
test_garbage_is_everybodys(void **state)
{
        struct fleet *f = *state;
        const char *keys[] = { "wal/0000000001/000000000009.wal", "tables/x/data/1-y.parquet" };
        size_t before = objects_of(f->a, "wal/");

        for (size_t i = 0; i < LS_COUNT(keys); i++)
                assert_ok(ls_store_put(f->a->local, keys[i], ls_span_of("x", 1)));
        assert_ok(ls_meta_garbage_add(f->a->meta, keys, LS_COUNT(keys), 1));
        assert_ok(lake_lease_upkeep(f->a->lake));
        assert_ok(lake_collect(f->b->lake, true)); /* A is at it */
        assert_int_equal(objects_of(f->a, "wal/"), before + 1);
        assert_ok(ls_meta_lease_release(f->a->meta, "upkeep"));
        f->b->lake->lease = (struct lake_lease){ 0 };
        assert_ok(lake_collect(f->b->lake, true));
        assert_int_equal(objects_of(f->a, "wal/"), before);
        assert_int_equal(objects_of(f->a, "tables/"), 0);
        assert_int_equal(objects_of(f->a, "meta/"), 0); /* no backups here */
        check(f);
}

static void
put_data(struct kit *k, uint64_t epoch, const char *rest)
{
        struct ls_lake_spec spec = kit_spec(k);
        LS_AUTO(ls_free)
        char *key = lake_key(&spec, "data/%llu-00000000000000%s-00000.parquet",
                             (unsigned long long)epoch, rest);

        assert_ok(ls_store_put(k->local, key, ls_span_of("x", 1)));
}

static void
sweep(struct fleet *f)
{
        assert_ok(lake_sweep(f->a->s, f->age_ms));
        assert_ok(lake_sweep_wal(f->a->lake, f->age_ms));
        assert_ok(lake_collect(f->a->lake, true));
}

static void
test_sweep_leaves_open_epochs(void **state)
{
        struct fleet *f = *state;
        uint64_t epoch_b = ls_meta_broker_epoch(f->b->meta);
        size_t before;

        produce(f, 2);
        assert_ok(kit_compact(f->b));
        before = objects_of(f->a, "tables/");
        put_data(f->a, epoch_b, "aa");
        put_data(f->a, ls_meta_broker_epoch(f->a->meta), "bb");
        put_data(f->a, epoch_b + 1000, "cc"); /* given out since the look, for all A knows */
        sweep(f);
        assert_int_equal(objects_of(f->a, "tables/"), before + 3); /* too young */
        f->age_ms = -60000;                                        /* all is old now */
        sweep(f);
        assert_int_equal(objects_of(f->a, "tables/"), before + 3); /* old, but B may come with it */
        other_close(f);
        sweep(f);
        assert_int_equal(objects_of(f->a, "tables/"), before + 2);
        other_open(f);
        memcpy(f->b->end, f->a->end, sizeof f->b->end);
        sweep(f);
        assert_int_equal(objects_of(f->a, "tables/"), before + 2);
        check(f);
}

static void
put_wal(struct kit *k, uint64_t epoch, uint64_t sequence)
{
        char key[LS_META_WAL_KEY_BYTES];

        ls_wal_key(ls_wal_segment_number(epoch, sequence), key);
        assert_ok(ls_store_put(k->local, key, ls_span_of("x", 1)));
}

static void
test_wal_sweep(void **state)
{
        struct fleet *f = *state;
        uint64_t epoch_b = ls_meta_broker_epoch(f->b->meta);
        const char *waiting = "wal/0000000000/000000000777.wal";
        size_t before;

        produce(f, 2); /* rows name these, of both */
        before = objects_of(f->a, "wal/");
        assert_true(before >= 2 + 2); /* and the marks of epochs */
        assert_ok(ls_store_put(f->a->local, waiting, ls_span_of("x", 1)));
        assert_ok(ls_meta_garbage_add(f->a->meta, &waiting, 1, INT64_MAX));
        assert_ok(ls_store_put(f->a->local, "wal/0000000000/open", ls_span_of("x", 1)));
        assert_ok(ls_store_put(f->a->local, "wal/0/1.wal", ls_span_of("x", 1)));
        put_wal(f->a, epoch_b, 1001);
        put_wal(f->a, epoch_b, 1002);
        put_wal(f->a, ls_meta_broker_epoch(f->a->meta), 1001);
        put_wal(f->a, 0, 888); /* of an epoch that is closed */
        assert_int_equal(objects_of(f->a, "wal/"), before + 7);
        sweep(f);
        assert_int_equal(objects_of(f->a, "wal/"), before + 7); /* too young */
        f->age_ms = -60000;                                     /* all is old now */
        sweep(f);
        assert_int_equal(objects_of(f->a, "wal/"), before + 6);
        other_close(f);
        sweep(f);
        assert_int_equal(objects_of(f->a, "wal/"), before + 4);
        other_open(f);
        memcpy(f->b->end, f->a->end, sizeof f->b->end);
        check(f);
}

/* What is compacted leaves the store, whoever wrote it; who has not heard of it finds the records
 * in the table, as a consumer does: first the WAL, then history. */
static void
test_purged_objects(void **state)
{
        struct fleet *f = *state;
        struct ls_wal_read w = { .offset = 0,
                                 .bytes_max = 5000,
                                 .min_one = true,
                                 .may_block = true,
                                 .below_floor = true,
                                 .offset_end = INT64_MAX };
        struct ls_lake_read r = { .offset = 0, .bytes_max = 5000, .min_one = true };
        struct ls_wal_view view;
        size_t marks = objects_of(f->a, "wal/");

        produce(f, 4);
        assert_ok(ls_wal_stream_refresh(f->b->wal_stream));
        assert_int_equal(objects_of(f->a, "wal/"), marks + (size_t)(4 * f->a->partitions));
        assert_ok(kit_compact(f->a));
        kit_clock_move(f->a, 1000);
        for (int i = 0; i < 3; i++)
                assert_ok(lake_collect(f->a->lake, true));
        assert_int_equal(objects_of(f->a, "wal/"), marks);
        assert_ok(ls_wal_view(f->b->wal_stream, 0, &view));
        assert_int_equal(view.floor, 0); /* it knows nothing */
        assert_int_equal(ls_wal_read(f->b->wal_stream, 0, &w), LS_END);
        assert_ok(ls_lake_read(f->b->s, 0, &r));
        assert_true(r.next_offset > 0);
        ls_lake_read_done(&r);
        ls_wal_read_done(&w);
        /* nor does its compaction take the objects that are gone for damage */
        produce(f, 1);
        assert_ok(kit_compact(f->b));
        check(f);
}

/* A has planned, B compacts the same and purges, A reads: that is not damage. */
static void
b_compacts_and_purges(struct fleet *f)
{
        assert_ok(kit_compact(f->b));
        kit_clock_move(f->a, 1000);
        for (int i = 0; i < 3; i++)
                assert_ok(lake_collect(f->b->lake, true));
}

static void
test_objects_go_under_a_run(void **state)
{
        struct fleet *f = *state;

        for (int64_t hit = 0; hit < 14; hit++) {
                produce(f, 3);
                arm(f, hit, b_compacts_and_purges);
                assert_ok(kit_compact(f->a));
                disarm(f);
                assert_true(entered);
                assert_int_equal(kit_rows(f->a), kit_total(f->a));
        }
        check(f);
}

#define FLEET_TEST(f) cmocka_unit_test_setup_teardown(f, fleet_setup, fleet_teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                FLEET_TEST(test_compaction_against_compaction),
                FLEET_TEST(test_floor_moves_under_a_run),
                FLEET_TEST(test_both_compact_at_once),
                FLEET_TEST(test_stale_view),
                FLEET_TEST(test_stale_table),
                FLEET_TEST(test_merge_against_compaction),
                FLEET_TEST(test_merge_against_load),
                FLEET_TEST(test_merge_against_merge),
                FLEET_TEST(test_verify_against_merge),
                FLEET_TEST(test_floor_moves_without_a_version),
                FLEET_TEST(test_load_is_not_given_up),
                FLEET_TEST(test_upkeep_of_both),
                FLEET_TEST(test_load_sees_all),
                FLEET_TEST(test_load_against_everything),
                FLEET_TEST(test_first_metadata),
                FLEET_TEST(test_history_is_found),
                FLEET_TEST(test_retention_moves_past_a_stale_view),
                FLEET_TEST(test_leases),
                FLEET_TEST(test_threads_share_the_work),
                FLEET_TEST(test_without_work_nothing_is_written),
                FLEET_TEST(test_garbage_is_everybodys),
                FLEET_TEST(test_sweep_leaves_open_epochs),
                FLEET_TEST(test_wal_sweep),
                FLEET_TEST(test_purged_objects),
                FLEET_TEST(test_objects_go_under_a_run),
        };

        cmocka_set_test_filter(getenv("LS_TEST"));
        return cmocka_run_group_tests_name("fleet", tests, NULL, NULL);
}
