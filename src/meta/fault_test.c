/* meta/fault_test.c - proves: whichever call to the database fails, once or from then on, nothing
 * is half done, the caches hold what the database holds, and the next ops go on right; a commit
 * whose outcome is unknown stops the store, and what it made visible is there after a restart; a
 * copy of the database files taken at any moment opens as a consistent database that has everything
 * acknowledged before. */
#include <sys/wait.h>

#include "meta/test_kit.h"

/* --- a database that fails --- */

static struct {
        bool armed, for_good, after_commit;
        long at, seen;
        ls_err error;
} fault;

/* True: this call fails. */
static bool
fault_hits(void)
{
        if (!fault.armed)
                return false;
        fault.seen++;
        return fault.for_good ? fault.seen >= fault.at : fault.seen == fault.at;
}

struct fault_db {
        struct ls_db db;
        struct ls_db *inner;
        bool write;
};
static struct ls_db *
inner_of(struct ls_db *db)
{
        return LS_CONTAINER(db, struct fault_db, db)->inner;
}
static bool
hits(struct ls_db *db)
{
        return LS_CONTAINER(db, struct fault_db, db)->write && fault_hits();
}

static ls_err
fault_begin(struct ls_db *db, bool write)
{
        return hits(db) ? fault.error : inner_of(db)->ops->begin(inner_of(db), write);
}
static ls_err
fault_commit(struct ls_db *db, bool *ret_unknown)
{
        if (!hits(db))
                return inner_of(db)->ops->commit(inner_of(db), ret_unknown);
        *ret_unknown = fault.after_commit;
        if (fault.after_commit)
                assert_ok(inner_of(db)->ops->commit(inner_of(db), &(bool){ false }));
        else
                inner_of(db)->ops->rollback(inner_of(db));
        return fault.error;
}
static void
fault_rollback(struct ls_db *db)
{
        inner_of(db)->ops->rollback(inner_of(db));
}
static ls_err
fault_savepoint(struct ls_db *db)
{
        return hits(db) ? fault.error : inner_of(db)->ops->savepoint(inner_of(db));
}
static ls_err
fault_release(struct ls_db *db)
{
        return hits(db) ? fault.error : inner_of(db)->ops->release(inner_of(db));
}
static ls_err
fault_rollback_to(struct ls_db *db)
{
        return hits(db) ? fault.error : inner_of(db)->ops->rollback_to(inner_of(db));
}
static ls_err
fault_exec(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
           int64_t *ret_changes)
{
        return hits(db) ? fault.error
                        : inner_of(db)->ops->exec(inner_of(db), id, args, count, ret_changes);
}
static ls_err
fault_query(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
            struct ls_db_stmt **ret_stmt)
{
        return hits(db) ? fault.error
                        : inner_of(db)->ops->query(inner_of(db), id, args, count, ret_stmt);
}
static ls_err
fault_step(struct ls_db *db, struct ls_db_stmt *stmt)
{
        return hits(db) ? fault.error : inner_of(db)->ops->step(inner_of(db), stmt);
}
static int64_t
fault_column_int(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return inner_of(db)->ops->column_int(inner_of(db), stmt, column);
}
static ls_span
fault_column_bytes(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return inner_of(db)->ops->column_bytes(inner_of(db), stmt, column);
}
static void
fault_end(struct ls_db *db, struct ls_db_stmt *stmt)
{
        inner_of(db)->ops->end(inner_of(db), stmt);
}
static ls_err
fault_now_ms(struct ls_db *db, int64_t *ret_ms)
{
        return hits(db) ? fault.error : inner_of(db)->ops->now_ms(inner_of(db), ret_ms);
}
static ls_err
fault_migrate(struct ls_db *db, int from)
{
        return hits(db) ? fault.error : inner_of(db)->ops->migrate(inner_of(db), from);
}
static ls_err
fault_level(struct ls_db *db, int *ret_level)
{
        return hits(db) ? fault.error : inner_of(db)->ops->level(inner_of(db), ret_level);
}
static ls_err
fault_backup(struct ls_db *db, const char *path)
{
        return inner_of(db)->ops->backup(inner_of(db), path);
}
static ls_err
fault_verify(struct ls_db *db, bool quick, void (*fn)(void *ctx, const char *finding), void *ctx)
{
        return hits(db) ? fault.error : inner_of(db)->ops->verify(inner_of(db), quick, fn, ctx);
}
static ls_err
fault_size(struct ls_db *db, uint64_t *ret_bytes)
{
        return hits(db) ? fault.error : inner_of(db)->ops->size(inner_of(db), ret_bytes);
}
static const char *
fault_error(struct ls_db *db)
{
        return "injected";
}
static void
fault_close(struct ls_db *db)
{
        inner_of(db)->ops->close(inner_of(db));
        ls_free(LS_CONTAINER(db, struct fault_db, db));
}
static const struct ls_db_ops fault_ops = {
        "fault",          fault_begin,        fault_commit, fault_rollback, fault_savepoint,
        fault_release,    fault_rollback_to,  fault_exec,   fault_query,    fault_step,
        fault_column_int, fault_column_bytes, fault_end,    fault_now_ms,   fault_migrate,
        fault_level,      fault_backup,       fault_verify, fault_size,     fault_error,
        fault_close,
};

static ls_err
fault_open(void *ctx, bool write, struct ls_db **ret_db, struct ls_errinfo *reterr)
{
        struct ls_db_driver inner = kit_driver(ctx);
        struct fault_db *f = ls_calloc(1, sizeof *f);
        ls_err e = inner.open(inner.ctx, write, &f->inner, reterr);

        if (e != LS_OK) {
                ls_free(f);
                return e;
        }
        f->db.ops = &fault_ops;
        f->write = write;
        *ret_db = &f->db;
        return LS_OK;
}

static void
fault_wal_key(uint64_t segment, char ret_key[LS_META_WAL_KEY_BYTES])
{
        snprintf(ret_key, LS_META_WAL_KEY_BYTES, "wal/%llu", (unsigned long long)segment);
}

static ls_err
fault_kit_open(struct kit *k)
{
        void *inner = kit_driver_options(k);
        struct ls_meta_options o = kit_options(k);
        struct ls_errinfo info = { "" };

        k->sequence = 0;
        o.wal_key = fault_wal_key;
        return meta_open_with(&o, (struct ls_db_driver){ .open = fault_open, .ctx = inner }, inner,
                              &k->m, &info);
}

/* --- a scenario that knows what must stand --- */

struct model {
        struct kit k;
        uint64_t id;
        int64_t end[2];
        int32_t sequence[2]; /* next of producer 9 */
        uint64_t table_version;
        int64_t floor;
        size_t failures;
};

static void
model_note(struct model *s, ls_err e)
{
        assert_true(e <= 0 || e == LS_EXISTS || e == LS_ABSENT);
        s->failures += e < 0;
}

static void
fail_finding(void *ctx, const char *finding)
{
        fail_msg("%s", finding);
}

static void
model_batches(struct model *s, struct ls_meta_wal_batch b[2])
{
        b[0] = kit_batch_of(s->id, 0, 5, 9, 0, s->sequence[0]);
        b[1] = kit_batch_of(s->id, 1, 3, 9, 0, s->sequence[1]);
        b[0].entry.pos = b[1].entry.pos = 100000;
        b[0].entry.bytes = b[1].entry.bytes = 100;
}

static void
model_accepted(struct model *s, const struct ls_meta_wal_batch b[2])
{
        for (int i = 0; i < 2; i++) {
                assert_int_equal(b[i].outcome, LS_OK);
                assert_int_equal(b[i].entry.base_offset, s->end[i]);
                s->end[i] += b[i].entry.records;
                s->sequence[i] += b[i].entry.records;
        }
}

static void
model_produce(struct model *s)
{
        struct ls_meta_wal_batch b[2];
        ls_err e;

        model_batches(s, b);
        e = kit_commit(&s->k, b, 2, NULL);
        model_note(s, e);
        if (e == LS_OK)
                model_accepted(s, b);
}

/* Several ops queued together, so that they may share a transaction. */
static void
model_produce_many(struct model *s)
{
        struct kit_commit c[3];
        struct ls_meta_wal_batch b[3][2];

        for (int i = 0; i < 3; i++) {
                model_batches(s, b[i]);
                b[i][0].entry.producer_id = b[i][1].entry.producer_id = -1;
                c[i] = (struct kit_commit){ .commit = { .sequence = s->k.sequence++,
                                                        .segment = 7,
                                                        .batches = b[i],
                                                        .batch_count = 2 } };
                kit_commit_submit(s->k.m, &c[i]);
        }
        for (int i = 0; i < 3; i++) {
                ls_err e = kit_commit_wait(&c[i]);

                model_note(s, e);
                for (int p = 0; p < 2 && e == LS_OK; p++) {
                        assert_int_equal(b[i][p].outcome, LS_OK);
                        assert_int_equal(b[i][p].entry.base_offset, s->end[p]);
                        s->end[p] += b[i][p].entry.records;
                }
        }
}

struct model_sum {
        int64_t from;
        uint64_t hash;
};
static ls_err
model_sum_fn(void *ctx, const struct ls_meta_entry *e)
{
        struct model_sum *sum = ctx;

        if (e->partition == 0 && e->base_offset >= sum->from)
                sum->hash += ls_meta_entry_hash(e);
        return LS_OK;
}

static void
model_publish(struct model *s)
{
        struct model_sum sum = { .from = s->floor };
        char key[32];
        struct ls_meta_file file = { .bytes = 1, .rows = s->end[0] - s->floor, .key = key };
        struct ls_meta_extent extent = { .kind = LS_META_EXTENT_PARQUET,
                                         .base_offset = s->floor,
                                         .end_offset = s->end[0],
                                         .file_id = 1,
                                         .rows = file.rows };
        struct ls_meta_floor floor = { .partition = 0, .floor = s->end[0] };
        const char *garbage = "old-metadata";
        bool is_new = true;
        struct ls_meta_table_commit c = { .stream_id = s->id,
                                          .version = s->table_version,
                                          .metadata_key = "m",
                                          .metadata = ls_span_of("{}", 2),
                                          .add_files = &file,
                                          .add_file_count = 1,
                                          .add_extents = &extent,
                                          .file_is_new = &is_new,
                                          .add_extent_count = 1,
                                          .floors = &floor,
                                          .floor_count = 1,
                                          .garbage = &garbage,
                                          .garbage_count = 1 };
        ls_err e;

        if (s->end[0] == s->floor)
                return;
        assert_ok(ls_meta_entries(s->k.m, s->id, model_sum_fn, &sum));
        extent.hash = sum.hash;
        snprintf(key, sizeof key, "f%lld", (long long)s->floor);
        e = ls_meta_table_publish(s->k.m, &c, NULL);
        model_note(s, e);
        if (e == LS_OK) {
                s->table_version++;
                s->floor = s->end[0];
        }
}

struct model_gone {
        uint64_t ids[8];
        size_t count;
};
static ls_err
model_gone_fn(void *ctx, uint64_t stream_id, ls_uuid topic_id)
{
        struct model_gone *gone = ctx;

        assert_true(gone->count < LS_COUNT(gone->ids));
        gone->ids[gone->count++] = stream_id;
        return LS_OK;
}

/* Streams that are made and deleted together, and forgotten. */
static void
model_many(struct model *s, const struct ls_meta_stream *like)
{
        struct ls_meta_stream specs[3], *made[3];
        struct model_gone gone = { .count = 0 };
        char names[3][4] = { "v", "w", "x" };
        int64_t grace_ms[3] = { 0 };
        ls_err results[3];
        uint64_t ids[3];
        size_t count = 0, deleted;
        ls_err e;

        for (int i = 0; i < 3; i++) {
                specs[i] = *like;
                specs[i].kafka_name = specs[i].name = names[i];
        }
        ls_meta_streams_create(s->k.m, specs, 3, made, results);
        for (int i = 0; i < 3; i++) {
                model_note(s, results[i]);
                assert_int_equal(made[i] != NULL, results[i] == LS_OK);
                if (made[i] != NULL)
                        ids[count++] = made[i]->id;
                ls_meta_stream_free(made[i]);
        }
        ls_meta_streams_delete(s->k.m, ids, grace_ms, count, results);
        for (size_t i = 0; i < count; i++)
                model_note(s, results[i]);
        model_note(s, ls_meta_wal_purge(s->k.m, 10, &deleted));
        e = meta_gone_at(s->k.m, INT64_MAX, LS_COUNT(gone.ids), model_gone_fn, &gone);
        model_note(s, e);
        for (size_t i = 0; i < gone.count; i++)
                model_note(s, ls_meta_gone_done(s->k.m, gone.ids[i]));
}

static void
model_others(struct model *s)
{
        struct ls_meta_offset offset = { .stream_id = s->id, .partition = 1, .offset = 3 };
        struct ls_meta_stream spec = { .kafka_name = (char *)(uintptr_t) "u",
                                       .catalog = (char *)(uintptr_t) "main",
                                       .ns = (char *)(uintptr_t) "n",
                                       .name = (char *)(uintptr_t) "u",
                                       .partitions = 65 };
        struct ls_meta_stream *made = NULL, *grown = NULL;
        int64_t start;
        size_t deleted;
        ls_err e;

        model_note(s, ls_meta_offsets_store(s->k.m, "g", -1, &offset, 1));
        model_note(s, ls_meta_log_start(s->k.m, s->id, 1, 1, &start));
        e = ls_meta_stream_create(s->k.m, &spec, &made);
        model_note(s, e);
        if (e == LS_OK) {
                e = ls_meta_stream_grow(s->k.m, made->id, 130, &grown);
                model_note(s, e);
                if (e == LS_OK)
                        ls_meta_stream_free(grown);
                model_note(s, ls_meta_stream_delete(s->k.m, made->id, 0));
                ls_meta_stream_free(made);
        }
        model_many(s, &spec);
        e = ls_meta_wal_purge(s->k.m, 2, &deleted);
        model_note(s, e);
        model_note(s, ls_meta_lease(s->k.m, "l", 1000) == LS_OK ? LS_OK : LS_EIO);
        model_note(s, ls_meta_announce(s->k.m, "h:1", NULL));
        model_note(s, ls_meta_heartbeat(s->k.m));
}

static void
model_check(struct model *s)
{
        for (int i = 0; i < 2; i++) {
                struct ls_meta_partition p = kit_partition(s->k.m, s->id, i);

                assert_int_equal(p.end, s->end[i]);
                assert_int_equal(p.floor, i == 0 ? s->floor : 0);
        }
        assert_ok(ls_meta_check(s->k.m, fail_finding, NULL));
}

static void
model_run(struct model *s)
{
        model_produce(s);
        model_produce_many(s);
        model_publish(s);
        model_produce(s);
        model_others(s);
        model_produce(s);
        model_publish(s);
        model_produce_many(s);
}

static void
model_begin(struct model *s)
{
        *s = (struct model){ 0 };
        kit_init(&s->k);
        fault.armed = false;
        assert_ok(fault_kit_open(&s->k));
        s->id = kit_stream_id(s->k.m, "t", 2);
        model_produce(s);
}

/* The number of calls of the scenario when nothing fails. */
static long
scenario_calls(void)
{
        struct model s;

        model_begin(&s);
        fault.for_good = false;
        fault.at = -1;
        fault.seen = 0;
        fault.armed = true;
        model_run(&s);
        fault.armed = false;
        assert_int_equal(s.failures, 0);
        model_check(&s);
        kit_done(&s.k);
        return fault.seen;
}

static void
each_call_fails(ls_err error, bool for_good)
{
        long calls = scenario_calls();
        /* a fresh schema costs more than a fresh file */
        long step = kit_postgres() != NULL ? 17 : for_good ? 7 : 1;

        assert_true(calls > 100);
        for (long at = 1; at <= calls; at += step) {
                struct model s;

                model_begin(&s);
                fault.at = at;
                fault.for_good = for_good;
                fault.error = error;
                fault.after_commit = false;
                fault.seen = 0;
                fault.armed = true;
                model_run(&s);
                fault.armed = false;
                assert_true(s.failures > 0 || fault.seen < at);
                assert_int_equal(s.k.lost, 0);
                model_check(&s);
                /* what is cached goes on right, and so does a restart */
                model_produce(&s);
                model_publish(&s);
                model_check(&s);
                ls_meta_close(s.k.m);
                assert_ok(fault_kit_open(&s.k));
                model_produce(&s);
                model_check(&s);
                kit_done(&s.k);
        }
}

static void
test_each_call_fails_once(void **state)
{
        each_call_fails(LS_EIO, false);
}

static void
test_disk_full_for_a_while(void **state)
{
        each_call_fails(LS_ENOSPC, true);
}

/* Opening: each call fails; then it opens. */
static void
test_open_fails(void **state)
{
        for (long at = 1;; at++) {
                struct kit k;
                ls_err e;

                kit_init(&k);
                fault.at = at;
                fault.for_good = false;
                fault.error = LS_EIO;
                fault.after_commit = false;
                fault.seen = 0;
                fault.armed = true;
                e = fault_kit_open(&k);
                fault.armed = false;
                if (e == LS_OK) {
                        kit_done(&k);
                        assert_true(at > 5);
                        return;
                }
                assert_int_equal(e, LS_EIO);
                assert_ok(fault_kit_open(&k));
                assert_int_equal(ls_meta_broker_epoch(k.m), 1);
                kit_done(&k);
        }
}

/* The commit took place, its answer did not come. */
static void
test_unknown_outcome_stops(void **state)
{
        struct ls_meta_wal_batch b[2], again[2];
        struct model s;
        bool met = false;

        for (long at = 1; !met; at++) {
                ls_err e;

                model_begin(&s);
                fault.at = at;
                fault.for_good = false;
                fault.error = LS_EIO;
                fault.after_commit = true;
                fault.seen = 0;
                model_batches(&s, b);
                fault.armed = true;
                e = kit_commit(&s.k, b, 2, NULL);
                fault.armed = false;
                assert_int_not_equal(e, LS_OK);
                if (s.k.lost > 0) {
                        met = true;
                        assert_int_equal(s.k.lost, 1);
                        model_batches(&s, again); /* everything after fails */
                        assert_int_equal(kit_commit(&s.k, again, 2, NULL), LS_EDB);
                        ls_meta_close(s.k.m);
                        assert_ok(fault_kit_open(&s.k));
                        model_batches(&s, again); /* the client tries again: the first answer */
                        assert_ok(kit_commit(&s.k, again, 2, NULL));
                        assert_int_equal(again[0].outcome, LS_DUPLICATE);
                        assert_int_equal(again[0].entry.base_offset, s.end[0]);
                        assert_int_equal(again[1].outcome, LS_DUPLICATE);
                        assert_ok(ls_meta_check(s.k.m, fail_finding, NULL));
                }
                kit_done(&s.k);
        }
}

/* --- copies of the files, as a crash leaves them --- */

static void
copy_file(const char *from, const char *to)
{
        char buf[65536];
        FILE *in = fopen(from, "rb"), *out;
        size_t n;

        unlink(to);
        if (in == NULL)
                return;
        out = fopen(to, "wb");
        assert_non_null(out);
        while ((n = fread(buf, 1, sizeof buf, in)) > 0)
                assert_int_equal(fwrite(buf, 1, n, out), n);
        fclose(in);
        fclose(out);
}

static void
test_crash_copies(void **state)
{
        struct ls_meta_options o;
        struct model s;
        char wal[128], copy[128], copy_wal[136], copy_shm[136], alone[136];

        model_begin(&s);
        snprintf(wal, sizeof wal, "%s-wal", s.k.path);
        snprintf(copy, sizeof copy, "%s/copy.db", s.k.dir);
        snprintf(alone, sizeof alone, "%s/alone.db", s.k.dir);
        snprintf(copy_wal, sizeof copy_wal, "%s-wal", copy);
        snprintf(copy_shm, sizeof copy_shm, "%s-shm", copy);
        for (int round = 0; round < 40; round++) {
                struct ls_meta_wal_batch b[2];
                struct ls_meta *m, *m_alone;
                FILE *f;

                if (round % 5 == 4)
                        model_publish(&s);
                model_produce(&s);
                copy_file(s.k.path, copy);
                copy_file(wal, copy_wal);
                unlink(copy_shm);
                /* the next commit was under way: a part of its frames, or junk, is behind */
                f = fopen(copy_wal, "ab");
                assert_non_null(f);
                for (int i = 0; i < round * 111; i++)
                        fputc(i * 7, f);
                fclose(f);
                o = kit_options(&s.k);
                o.sqlite_path = copy;
                assert_ok(ls_meta_open(&o, &m, NULL));
                /* what was in the log is in the database file by now, which holds it alone */
                copy_file(copy, alone);
                o.sqlite_path = alone;
                assert_ok(ls_meta_open(&o, &m_alone, NULL));
                assert_int_equal(kit_partition(m_alone, s.id, 0).end, s.end[0]);
                ls_meta_close(m_alone);
                assert_int_equal(kit_partition(m, s.id, 0).end, s.end[0]);
                assert_ok(ls_meta_check(m, fail_finding, NULL));
                /* the last batch again: known */
                {
                        struct kit k2 = s.k;

                        k2.m = m;
                        k2.sequence = 0;
                        b[0] = kit_batch_of(s.id, 0, 5, 9, 0, s.sequence[0] - 5);
                        assert_int_equal(kit_one(&k2, &b[0]), LS_DUPLICATE);
                        assert_int_equal(b[0].entry.base_offset, s.end[0] - 5);
                }
                ls_meta_close(m);
        }
        kit_done(&s.k);
}

/* A process killed while it commits: what it reported is there, and the store is consistent. */
static void
test_killed_process(void **state)
{
        for (int round = 0; round < 6; round++) {
                int fds[2], status;
                int64_t acked = 0, n;
                struct kit k;
                uint64_t id;
                pid_t pid;

                kit_new(&k);
                id = kit_stream_id(k.m, "t", 1);
                ls_meta_close(k.m);
                assert_int_equal(pipe(fds), 0);
                pid = fork();
                if (pid == 0) {
                        kit_open(&k);
                        for (int64_t i = 0;; i++) {
                                struct ls_meta_wal_batch b = kit_batch(id, 0, 1);

                                if (kit_commit(&k, &b, 1, NULL) != LS_OK ||
                                    write(fds[1], &i, sizeof i) != sizeof i)
                                        _exit(1);
                        }
                }
                close(fds[1]);
                while (acked < 20 + round * 37) {
                        assert_int_equal(read(fds[0], &n, sizeof n), sizeof n);
                        acked = n + 1;
                }
                kill(pid, SIGKILL);
                waitpid(pid, &status, 0);
                while (read(fds[0], &n, sizeof n) == sizeof n)
                        acked = n + 1;
                close(fds[0]);
                kit_open(&k);
                assert_true(kit_partition(k.m, id, 0).end >= acked);
                assert_true(kit_partition(k.m, id, 0).end <= acked + 1);
                assert_ok(ls_meta_check(k.m, fail_finding, NULL));
                kit_done(&k);
        }
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_each_call_fails_once),
                cmocka_unit_test(test_disk_full_for_a_while),
                cmocka_unit_test(test_open_fails),
                cmocka_unit_test(test_unknown_outcome_stops),
                cmocka_unit_test(test_killed_process),
        };
        const struct CMUnitTest sqlite_tests[] = {
                cmocka_unit_test(test_crash_copies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL) +
               (kit_postgres() ? 0 : cmocka_run_group_tests(sqlite_tests, NULL, NULL));
}
