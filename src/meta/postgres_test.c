/* meta/postgres_test.c - proves what only PostgreSQL can get wrong: of two brokers whose commits
 * meet on a stream, a chunk or a group, the second waits and comes out as if it had begun after the
 * first; brokers at once do not wait for each other in a ring; a session that is ended before
 * COMMIT has written nothing, one that is ended after COMMIT was sent is an unknown outcome, and
 * both are recovered from; a server that restarts, or a broker that stands still, stops nobody for
 * good; servers that would lose answered commits are refused; a client's text cannot fail the
 * operations of others.
 *
 * Needs LAKESTREAM_TEST_POSTGRES, except for the first tests: a server for these tests alone, whose
 * settings they change, as superuser. LAKESTREAM_TEST_POSTGRES_RESTART is a command that restarts
 * it. */
#include <unistd.h>

#include "meta/postgres/postgres_int.h"
#include "meta/test_kit.h"

/* --- without a server --- */

static void
test_refused_servers(void **state)
{
        static const struct postgres_facts good = { 140000, "on", "on", "on", "UTF8", false };
        static const struct {
                struct postgres_facts facts;
                ls_err e;
                const char *words;
        } bad[] = {
                { { 130014, "on", "on", "on", "UTF8", false }, LS_EDB, "14 or later" },
                { { 150000, "off", "on", "on", "UTF8", false }, LS_EDB, "synchronous_commit" },
                { { 150000, "on", "off", "on", "UTF8", false }, LS_EDB, "fsync" },
                { { 150000, "on", "on", "off", "UTF8", false }, LS_EDB, "full_page_writes" },
                { { 150000, "on", "on", "on", "LATIN1", false }, LS_EDB, "LATIN1" },
                { { 150000, "on", "on", "on", "UTF8", true }, LS_EREADONLY, "standby" },
        };
        static const char *const durable[] = { "local", "remote_write", "on", "remote_apply" };
        struct ls_errinfo info;

        for (size_t i = 0; i < LS_COUNT(durable); i++) {
                struct postgres_facts facts = good;

                facts.synchronous_commit = durable[i];
                assert_ok(postgres_check_facts(&facts, &info));
        }
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                assert_int_equal(postgres_check_facts(&bad[i].facts, &info), bad[i].e);
                assert_non_null(strstr(info.text, bad[i].words));
        }
}

static void
test_no_server(void **state)
{
        struct ls_meta_options o = {
                .broker_id = 1,
                .postgres_url = "postgres://u:secret@127.0.0.1:1/d?connect_timeout=2"
        };
        struct ls_errinfo info = { "" };
        struct ls_meta *m;

        assert_int_equal(ls_meta_open(&o, &m, &info), LS_EDB);
        assert_non_null(strstr(info.text, "PostgreSQL"));
        assert_null(strstr(info.text, "secret"));
        o.postgres_url = "postgres://h/d?no_such_key=1";
        assert_int_equal(ls_meta_open(&o, &m, &info), LS_EDB);
        assert_non_null(strstr(info.text, "no_such_key"));
}

/* --- beside the store: a session of our own --- */

static PGconn *admin;

static int
admin_open(void **state)
{
        admin = PQconnectdb(kit_postgres());
        return PQstatus(admin) == CONNECTION_OK ? 0 : -1;
}

static int
admin_close(void **state)
{
        PQfinish(admin);
        return 0;
}

static int64_t LS_PRINTF(1, 2) admin_number(const char *format, ...)
{
        int64_t value = 0;
        char sql[512];
        PGresult *r;
        va_list args;

        va_start(args, format);
        vsnprintf(sql, sizeof sql, format, args);
        va_end(args);
        r = PQexec(admin, sql);
        if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK)
                fail_msg("%s: %s", sql, PQresultErrorMessage(r));
        if (PQntuples(r) > 0)
                ls_str_to_i64(ls_str_of(PQgetvalue(r, 0, 0)), INT64_MIN, INT64_MAX, &value);
        PQclear(r);
        return value;
}

/* A minute at most; asks again every 2 ms. */
#define WAIT_UNTIL(condition)                            \
        do {                                             \
                int wait_left_ = 30000;                  \
                while (!(condition) && --wait_left_ > 0) \
                        usleep(2000);                    \
                assert_true(wait_left_ > 0);             \
        } while (0)

static void
terminate(int pid)
{
        admin_number("SELECT pg_terminate_backend(%d)", pid);
        WAIT_UNTIL(admin_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d", pid) == 0);
}

/* --- a store that can be stopped before its COMMIT, and whose session can be ended --- */

static struct {
        const struct ls_db_ops *inner;
        struct ls_db_ops ops;
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool gate;
        atomic_bool reached;
        _Atomic long terminate_at, seen; /* statements */
        atomic_int pid;                  /* of the last write transaction's session */
} hook = { .lock = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER };

static int
session_pid(struct ls_db *db)
{
        return PQbackendPID(LS_CONTAINER(db, struct postgres_db, db)->conn);
}

static ls_err
hook_begin(struct ls_db *db, bool write)
{
        ls_err e = hook.inner->begin(db, write);

        if (e == LS_OK)
                hook.pid = session_pid(db);
        return e;
}

static void
hook_statement(struct ls_db *db)
{
        if (++hook.seen == hook.terminate_at)
                terminate(session_pid(db));
}

static ls_err
hook_exec(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
          int64_t *ret_changes)
{
        hook_statement(db);
        return hook.inner->exec(db, id, args, count, ret_changes);
}

static ls_err
hook_query(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
           struct ls_db_stmt **ret_stmt)
{
        hook_statement(db);
        return hook.inner->query(db, id, args, count, ret_stmt);
}

static ls_err
hook_commit(struct ls_db *db, bool *ret_unknown)
{
        hook_statement(db);
        pthread_mutex_lock(&hook.lock);
        while (hook.gate) {
                hook.reached = true;
                pthread_cond_broadcast(&hook.cond);
                pthread_cond_wait(&hook.cond, &hook.lock);
        }
        pthread_mutex_unlock(&hook.lock);
        return hook.inner->commit(db, ret_unknown);
}

static ls_err
hook_open(void *ctx, bool write, struct ls_db **ret_db, struct ls_errinfo *reterr)
{
        struct ls_db_driver inner = ls_postgres_driver(ctx);

        LS_TRY(inner.open(inner.ctx, write, ret_db, reterr));
        if (!write)
                return LS_OK;
        hook.inner = (*ret_db)->ops;
        hook.ops = *hook.inner;
        hook.ops.begin = hook_begin;
        hook.ops.exec = hook_exec;
        hook.ops.query = hook_query;
        hook.ops.commit = hook_commit;
        (*ret_db)->ops = &hook.ops;
        return LS_OK;
}

static void
hook_kit_open(struct kit *k)
{
        void *url = kit_driver_options(k);
        struct ls_meta_options o = kit_options(k);
        struct ls_errinfo info = { "" };

        hook.gate = false;
        hook.reached = false;
        hook.terminate_at = 0;
        k->sequence = 0;
        if (meta_open_with(&o, (struct ls_db_driver){ .open = hook_open, .ctx = url }, url, &k->m,
                           &info) != LS_OK)
                fail_msg("open: %s", info.text);
}

static void
gate_close(void)
{
        pthread_mutex_lock(&hook.lock);
        hook.gate = true;
        hook.reached = false;
        pthread_mutex_unlock(&hook.lock);
}
static void
gate_wait(void)
{
        pthread_mutex_lock(&hook.lock);
        while (!hook.reached)
                pthread_cond_wait(&hook.cond, &hook.lock);
        pthread_mutex_unlock(&hook.lock);
}
static void
gate_open(void)
{
        pthread_mutex_lock(&hook.lock);
        hook.gate = false;
        pthread_cond_broadcast(&hook.cond);
        pthread_mutex_unlock(&hook.lock);
}

/* A second broker on the database of `k`. */
static void
second_open(const struct kit *k, struct kit *ret_second)
{
        struct ls_meta_options o;

        *ret_second = *k;
        ret_second->sequence = 0;
        o = kit_options(ret_second);
        o.broker_id = 2;
        assert_ok(ls_meta_open(&o, &ret_second->m, NULL));
}

static void
fail_finding(void *ctx, const char *finding)
{
        fail_msg("%s", finding);
}

/* --- kinds of commits, all on one stream, group and key --- */

struct scene {
        uint64_t id;
        char topic[16], group[16], key[16], lease[16];
};

static ls_err
do_produce(struct kit *k, const struct scene *s)
{
        struct ls_meta_wal_batch b[2] = { kit_batch_of(s->id, 0, 5, 9, 0, 5),
                                          kit_batch(s->id, 1, 3) };
        ls_err e = kit_commit(k, b, 2, NULL);

        return e != LS_OK ? e : b[0].outcome;
}
static ls_err
do_produce_other(struct kit *k, const struct scene *s)
{
        struct ls_meta_wal_batch b = kit_batch(s->id, 1, 2);
        ls_err e = kit_commit(k, &b, 1, NULL);

        return e != LS_OK ? e : b.outcome;
}
static ls_err
sum_fn(void *ctx, const struct ls_meta_entry *e)
{
        struct ls_meta_extent *x = ctx;

        if (e->partition == 0) {
                x->hash += ls_meta_entry_hash(e);
                x->end_offset = e->base_offset + e->records;
        }
        return LS_OK;
}
static ls_err
do_publish(struct kit *k, const struct scene *s)
{
        struct ls_meta_file file = { .key = s->key, .bytes = 1 };
        struct ls_meta_extent x = { .kind = LS_META_EXTENT_PARQUET, .file_id = 1 };
        struct ls_meta_floor floor = { .partition = 0 };
        bool is_new = true;
        struct ls_meta_table_commit c = { .stream_id = s->id,
                                          .metadata_key = s->topic,
                                          .metadata = ls_span_of("{}", 2),
                                          .add_files = &file,
                                          .add_file_count = 1,
                                          .add_extents = &x,
                                          .file_is_new = &is_new,
                                          .add_extent_count = 1,
                                          .floors = &floor,
                                          .floor_count = 1 };

        LS_TRY(ls_meta_entries(k->m, s->id, sum_fn, &x));
        if (x.end_offset == 0)
                return LS_CONFLICT; /* published already */
        x.rows = file.rows = floor.floor = x.end_offset;
        return ls_meta_table_publish(k->m, &c, NULL);
}
static ls_err
do_log_start(struct kit *k, const struct scene *s)
{
        int64_t start;

        return ls_meta_log_start(k->m, s->id, 0, 2, &start);
}
static ls_err
do_grow(struct kit *k, const struct scene *s)
{
        struct ls_meta_stream *grown = NULL;
        ls_err e = ls_meta_stream_grow(k->m, s->id, 70, &grown);

        ls_meta_stream_free(grown);
        return e;
}
static ls_err
do_configure(struct kit *k, const struct scene *s)
{
        const struct ls_meta_config set = { "a", "b" };
        struct ls_meta_stream *after = NULL;
        ls_err e = ls_meta_stream_configure(k->m, s->id, 1, &set, 1, &after);

        ls_meta_stream_free(after);
        return e;
}
static ls_err
do_delete(struct kit *k, const struct scene *s)
{
        return ls_meta_stream_delete(k->m, s->id, 0);
}
static ls_err
do_create(struct kit *k, const struct scene *s)
{
        char name[32];
        struct ls_meta_stream spec = { .kafka_name = name,
                                       .catalog = (char *)(uintptr_t) "main",
                                       .ns = (char *)(uintptr_t)s->lease,
                                       .name = name,
                                       .partitions = 1 };
        struct ls_meta_stream *made = NULL;
        ls_err e;

        snprintf(name, sizeof name, "new-%s", s->topic);
        e = ls_meta_stream_create(k->m, &spec, &made);
        ls_meta_stream_free(made);
        return e;
}
static ls_err
do_namespace_create(struct kit *k, const struct scene *s)
{
        return ls_meta_namespace_create(k->m, "main", s->lease, "{}");
}
static ls_err
do_namespace_drop(struct kit *k, const struct scene *s)
{
        return ls_meta_namespace_drop(k->m, "main", s->lease);
}
static ls_err
do_group(struct kit *k, const struct scene *s)
{
        struct ls_meta_group g = { .group_id = s->group, .version = 1, .generation = 2 };

        return ls_meta_group_store(k->m, &g);
}
static ls_err
do_group_delete(struct kit *k, const struct scene *s)
{
        return ls_meta_group_delete(k->m, s->group);
}
static ls_err
do_offsets(struct kit *k, const struct scene *s)
{
        struct ls_meta_offset o = { .stream_id = s->id, .offset = 3 };
        ls_err e = ls_meta_offsets_store(k->m, s->group, 1, &o, 1);

        return e != LS_OK ? e : o.stream_id == 0 ? LS_ABSENT : LS_OK;
}
static ls_err
do_garbage(struct kit *k, const struct scene *s)
{
        const char *key = s->key;

        return ls_meta_garbage_add(k->m, &key, 1, 1);
}
static ls_err
do_lease(struct kit *k, const struct scene *s)
{
        return ls_meta_lease(k->m, s->lease, 60000);
}
static ls_err
do_purge(struct kit *k, const struct scene *s)
{
        size_t deleted;

        return ls_meta_wal_purge(k->m, 10, &deleted);
}

static const struct kind {
        const char *name;
        ls_err (*run)(struct kit *k, const struct scene *s);
} kinds[] = {
        { "produce", do_produce },
        { "produce other", do_produce_other },
        { "publish", do_publish },
        { "log start", do_log_start },
        { "grow", do_grow },
        { "configure", do_configure },
        { "delete", do_delete },
        { "create", do_create },
        { "namespace create", do_namespace_create },
        { "namespace drop", do_namespace_drop },
        { "group", do_group },
        { "group delete", do_group_delete },
        { "offsets", do_offsets },
        { "garbage", do_garbage },
        { "lease", do_lease },
        { "purge", do_purge },
};

static void
scene_make(struct kit *k, struct scene *s)
{
        struct ls_meta_group g = { .group_id = s->group, .generation = 1 };
        static int number;
        struct ls_meta_wal_batch b;

        snprintf(s->topic, sizeof s->topic, "t%d", ++number);
        snprintf(s->group, sizeof s->group, "g%d", number);
        snprintf(s->key, sizeof s->key, "f%d", number);
        snprintf(s->lease, sizeof s->lease, "l%d", number);
        s->id = kit_stream_id(k->m, s->topic, 2);
        b = kit_batch_of(s->id, 0, 5, 9, 0, 0);
        assert_int_equal(kit_one(k, &b), LS_OK);
        assert_ok(ls_meta_group_store(k->m, &g));
}

/* Ends what a scene would leave for the next: purging must find something of its own. */
static void
scene_done(struct kit *k, const struct scene *s)
{
        ls_err e = ls_meta_lease_release(k->m, s->lease);

        assert_ok(e);
}

struct runner {
        pthread_t thread;
        struct kit *k;
        const struct kind *kind;
        const struct scene *scene;
        ls_err result;
        atomic_bool done;
};

static void *
runner_main(void *arg)
{
        struct runner *r = arg;

        r->result = r->kind->run(r->k, r->scene);
        atomic_store(&r->done, true);
        return NULL;
}
static void
runner_start(struct runner *r, struct kit *k, const struct kind *kind, const struct scene *scene)
{
        *r = (struct runner){ .k = k, .kind = kind, .scene = scene };
        assert_int_equal(pthread_create(&r->thread, NULL, runner_main, r), 0);
}

static bool
writer_waits(const struct kit *k)
{
        return admin_number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
                            " AND query LIKE '%%writer %s''%%'",
                            k->schema) > 0;
}

/* The first has done all but its COMMIT when the second begins. */
static void
pair_run(struct kit *first, struct kit *second, const struct kind *a, const struct kind *b)
{
        struct scene apart, together;
        struct runner ra, rb;
        ls_err want_a, want_b;

        scene_make(first, &apart);
        scene_make(first, &together);
        want_a = a->run(first, &apart);
        want_b = b->run(second, &apart);
        gate_close();
        runner_start(&ra, first, a, &together);
        WAIT_UNTIL(hook.reached || atomic_load(&ra.done));
        runner_start(&rb, second, b, &together);
        WAIT_UNTIL(writer_waits(first) || atomic_load(&rb.done));
        /* Whoever is done did not write: it waited for nobody. */
        if (hook.reached && atomic_load(&rb.done))
                assert_true(rb.result == LS_OK || rb.result == LS_CONFLICT);
        gate_open();
        pthread_join(ra.thread, NULL);
        pthread_join(rb.thread, NULL);
        if (ra.result != want_a)
                fail_msg("%s: %s, apart %s", a->name, ls_err_name(ra.result), ls_err_name(want_a));
        /* A table commit is planned before it waits, so that it may have to be planned again. */
        if (rb.result != want_b && rb.result != LS_CONFLICT)
                fail_msg("%s, then %s: %s, apart %s", a->name, b->name, ls_err_name(rb.result),
                         ls_err_name(want_b));
        scene_done(first, &apart);
        scene_done(first, &together);
}

static void
test_pairs(void **state)
{
        struct kit k, second;

        kit_init(&k);
        hook_kit_open(&k);
        second_open(&k, &second);
        for (size_t a = 0; a < LS_COUNT(kinds); a++) {
                for (size_t b = 0; b < LS_COUNT(kinds); b++)
                        pair_run(&k, &second, &kinds[a], &kinds[b]);
                assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        }
        ls_meta_close(second.m);
        kit_done(&k);
}

/* The same two producers' batches from both brokers, again and again: dense, each once. */
static void
test_pair_offsets(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k, second;
        struct runner ra, rb;
        struct scene s;

        kit_init(&k);
        hook_kit_open(&k);
        second_open(&k, &second);
        scene_make(&k, &s);
        gate_close();
        runner_start(&ra, &k, &kinds[0], &s);
        gate_wait();
        runner_start(&rb, &second, &kinds[0], &s);
        WAIT_UNTIL(writer_waits(&k));
        assert_false(atomic_load(&rb.done));
        assert_int_equal(kit_partition(second.m, s.id, 0).end, 5); /* readers wait for nobody */
        gate_open();
        pthread_join(ra.thread, NULL);
        pthread_join(rb.thread, NULL);
        assert_ok(ra.result);
        assert_int_equal(rb.result, LS_DUPLICATE);
        assert_int_equal(kit_partition(second.m, s.id, 0).end, 10);
        assert_int_equal(kit_partition(second.m, s.id, 1).end, 6);
        b = kit_batch(s.id, 1, 1);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 6);
        ls_meta_close(second.m);
        kit_done(&k);
}

/* --- brokers at once --- */

#define BROKERS 3
#define ROUNDS  40

struct broker {
        pthread_t thread;
        struct kit k;
        const uint64_t *ids;
        int number;
        int64_t accepted;
        ls_err failed;
};

/* Several commits are queued together, each on other chunks and in another order, with offsets of
 * one group between them. */
static void *
broker_main(void *arg)
{
        struct broker *b = arg;

        for (int round = 0; round < ROUNDS && b->failed == LS_OK; round++) {
                struct kit_commit c[4];
                struct ls_meta_wal_batch batches[4];
                struct ls_meta_offset o = { .stream_id = b->ids[0], .offset = round };
                ls_err e;

                for (int i = 0; i < 4; i++) {
                        int at = b->number % 2 == 0 ? i : 3 - i;

                        batches[i] = kit_batch(b->ids[at / 2], at % 2 * 64, 2);
                        batches[i].entry.pos = 100000;
                        c[i] = (struct kit_commit){ .commit = { .sequence = b->k.sequence++,
                                                                .segment = 7,
                                                                .batches = &batches[i],
                                                                .batch_count = 1 } };
                        kit_commit_submit(b->k.m, &c[i]);
                }
                e = ls_meta_offsets_store(b->k.m, "g", -1, &o, 1);
                if (e != LS_OK)
                        b->failed = e;
                for (int i = 0; i < 4; i++) {
                        e = kit_commit_wait(&c[i]);
                        if (e != LS_OK || batches[i].outcome != LS_OK)
                                b->failed = e != LS_OK ? e : batches[i].outcome;
                        else
                                b->accepted += 2;
                }
        }
        return NULL;
}

static void
test_brokers_at_once(void **state)
{
        struct broker brokers[BROKERS];
        int64_t total = 0, accepted = 0;
        uint64_t ids[2];
        struct kit k;

        kit_new(&k);
        ids[0] = kit_stream_id(k.m, "a", 128);
        ids[1] = kit_stream_id(k.m, "b", 128);
        for (int i = 0; i < BROKERS; i++) {
                struct ls_meta_options o = kit_options(&k);

                brokers[i] = (struct broker){ .k = k, .ids = ids, .number = i };
                o.broker_id = 10 + i;
                assert_ok(ls_meta_open(&o, &brokers[i].k.m, NULL));
                brokers[i].k.sequence = 0;
                assert_int_equal(pthread_create(&brokers[i].thread, NULL, broker_main, &brokers[i]),
                                 0);
        }
        for (int i = 0; i < BROKERS; i++) {
                pthread_join(brokers[i].thread, NULL);
                assert_ok(brokers[i].failed);
                accepted += brokers[i].accepted;
                ls_meta_close(brokers[i].k.m);
        }
        for (int i = 0; i < 4; i++)
                total += kit_partition(k.m, ids[i / 2], i % 2 * 64).end;
        assert_int_equal(total, accepted);
        assert_int_equal(total, BROKERS * ROUNDS * 8);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

static void *
opener_main(void *arg)
{
        struct broker *b = arg;
        struct ls_meta_options o = kit_options(&b->k);

        o.broker_id = b->number;
        b->failed = ls_meta_open(&o, &b->k.m, NULL);
        return NULL;
}

/* On a database that has no tables yet. */
static void
test_first_opens_at_once(void **state)
{
        struct broker brokers[BROKERS];
        struct kit k;

        kit_init(&k);
        for (int i = 0; i < BROKERS; i++) {
                brokers[i] = (struct broker){ .k = k, .number = i };
                assert_int_equal(pthread_create(&brokers[i].thread, NULL, opener_main, &brokers[i]),
                                 0);
        }
        for (int i = 0; i < BROKERS; i++)
                pthread_join(brokers[i].thread, NULL);
        for (int i = 0; i < BROKERS; i++) {
                ls_uuid id, other;

                assert_ok(brokers[i].failed);
                id = ls_meta_cluster_id(brokers[i].k.m);
                other = ls_meta_cluster_id(brokers[0].k.m);
                assert_true(ls_uuid_eq(id, other));
                for (int n = 0; n < i; n++)
                        assert_true(ls_meta_broker_epoch(brokers[n].k.m) !=
                                    ls_meta_broker_epoch(brokers[i].k.m));
        }
        for (int i = 0; i < BROKERS; i++)
                ls_meta_close(brokers[i].k.m);
        kit_remove(&k);
}

/* --- sessions that end --- */

/* Whichever statement, or the moment before COMMIT: nothing is written, the next go on. */
static void
test_ended_before_commit(void **state)
{
        int64_t end = 0;
        bool all = false;
        struct kit k;
        uint64_t id;

        kit_init(&k);
        hook_kit_open(&k);
        id = kit_stream_id(k.m, "t", 1);
        for (long at = 1; !all; at++) {
                struct ls_meta_wal_batch b = kit_batch_of(id, 0, 2, 5, 0, (int32_t)end);
                ls_err e;

                hook.seen = 0;
                hook.terminate_at = at;
                e = kit_commit(&k, &b, 1, NULL);
                all = hook.seen < at;
                hook.terminate_at = 0;
                assert_int_equal(e, all ? LS_OK : LS_EDB);
                assert_int_equal(k.lost, 0);
                if (e != LS_OK) {
                        assert_int_equal(kit_partition(k.m, id, 0).end, end);
                        b = kit_batch_of(id, 0, 2, 5, 0, (int32_t)end);
                        assert_int_equal(kit_one(&k, &b), LS_OK);
                }
                assert_int_equal(b.entry.base_offset, end);
                end += 2;
        }
        assert_true(end > 10);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

/* The interface itself: a transaction whose session was lost stays lost, to its end. */
static void
test_lost_transaction(void **state)
{
        struct ls_db *db;
        int64_t value;
        struct kit k;

        kit_new(&k);
        assert_ok(ls_postgres_driver(k.url).open(k.url, true, &db, NULL));
        for (int savepoint = 0; savepoint < 2; savepoint++) {
                bool unknown = true;

                assert_ok(db->ops->begin(db, true));
                assert_ok(ls_db_exec(db, COUNTER_PUT, NULL, ls_db_int(7777), ls_db_int(1)));
                if (savepoint)
                        assert_ok(db->ops->savepoint(db));
                terminate(session_pid(db));
                for (int i = 0; i < 2; i++)
                        assert_int_equal(
                                ls_db_exec(db, COUNTER_PUT, &value, ls_db_int(7777), ls_db_int(2)),
                                LS_EDB);
                if (savepoint)
                        assert_int_equal(db->ops->rollback_to(db), LS_EDB);
                assert_int_equal(db->ops->now_ms(db, &value), LS_EDB);
                assert_int_equal(db->ops->commit(db, &unknown), LS_EDB);
                assert_false(unknown);
                assert_ok(db->ops->begin(db, true));
                assert_int_equal(
                        ls_db_get_i64(db, LS_SQL_COUNTER_GET, LS_DB_ARGS(ls_db_int(7777)), &value),
                        LS_ABSENT);
                db->ops->rollback(db);
        }
        db->ops->close(db);
        kit_done(&k);
}

/* What nobody asked the answer of: it takes place in order, and its failure is met by the next call
 * that has one, COMMIT at the latest. */
static void
test_queued(void **state)
{
        const struct ls_db_value state_blob = ls_db_blob(ls_span_of("x", 1));
        bool unknown = true;
        struct ls_db *db;
        int64_t value;
        struct kit k;

        kit_new(&k);
        assert_ok(ls_postgres_driver(k.url).open(k.url, true, &db, NULL));
        assert_ok(db->ops->begin(db, true));
        for (int64_t i = 1; i <= 3 * POSTGRES_QUEUE_MAX; i++)
                assert_ok(ls_db_exec(db, CHUNK_ADD, NULL, ls_db_int(i), state_blob));
        assert_ok(ls_db_exec(db, COUNTER_PUT, NULL, ls_db_int(7777), ls_db_int(5)));
        assert_ok(ls_db_get_i64(db, LS_SQL_COUNTER_GET, LS_DB_ARGS(ls_db_int(7777)), &value));
        assert_int_equal(value, 5);
        assert_ok(db->ops->savepoint(db));
        assert_ok(ls_db_exec(db, COUNTER_PUT, NULL, ls_db_int(7777), ls_db_int(6)));
        assert_ok(db->ops->rollback_to(db));
        assert_ok(db->ops->savepoint(db));
        assert_ok(ls_db_exec(db, COUNTER_PUT, NULL, ls_db_int(7778), ls_db_int(7)));
        assert_ok(db->ops->release(db));
        assert_ok(db->ops->commit(db, &unknown));
        for (int met_by = 0; met_by < 3; met_by++) {
                ls_err e = LS_OK;

                assert_ok(db->ops->begin(db, true));
                assert_ok(
                        ls_db_get_i64(db, LS_SQL_COUNTER_GET, LS_DB_ARGS(ls_db_int(7777)), &value));
                assert_int_equal(value, 5);
                assert_ok(ls_db_exec(db, COUNTER_PUT, NULL, ls_db_int(7777), ls_db_int(8)));
                assert_ok(ls_db_exec(db, CHUNK_ADD, NULL, ls_db_int(1), state_blob)); /* twice */
                assert_ok(ls_db_exec(db, COUNTER_PUT, NULL, ls_db_int(7778), ls_db_int(9)));
                if (met_by == 0)
                        e = ls_db_exec(db, COUNTER_PUT, &value, ls_db_int(7777), ls_db_int(9));
                if (met_by == 1)
                        e = db->ops->commit(db, &unknown);
                if (met_by < 2) {
                        assert_int_equal(e, LS_EDB);
                        assert_non_null(strstr(db->ops->error(db), "CHUNK_ADD"));
                        assert_false(unknown);
                }
                if (met_by != 1)
                        db->ops->rollback(db);
        }
        assert_ok(db->ops->begin(db, false));
        assert_ok(ls_db_get_i64(db, LS_SQL_COUNTER_GET, LS_DB_ARGS(ls_db_int(7778)), &value));
        assert_int_equal(value, 7);
        db->ops->rollback(db);
        db->ops->close(db);
        kit_done(&k);
}

struct committer {
        pthread_t thread;
        struct kit *k;
        struct ls_meta_wal_batch b;
        ls_err result;
};

/* Commits until it fails: a setting that was made may take a moment to be in force. `b` is then the
 * one that failed, the next of its producer each time. */
static void *
committer_main(void *arg)
{
        struct committer *c = arg;
        struct ls_meta_wal_batch next = c->b;

        for (;;) {
                c->b = next;
                c->result = kit_commit(c->k, &c->b, 1, NULL);
                if (c->result != LS_OK)
                        return NULL;
                next.entry.base_sequence += next.entry.records;
        }
}

/* Commits while the server's COMMIT waits for `event`, then runs `sql` on its session. */
static ls_err
commit_and_end(struct kit *k, struct ls_meta_wal_batch *b, const char *event, const char *sql)
{
        struct committer c = { .k = k, .b = *b };

        assert_int_equal(pthread_create(&c.thread, NULL, committer_main, &c), 0);
        WAIT_UNTIL(admin_number("SELECT count(*) FROM pg_stat_activity WHERE pid = %d"
                                " AND wait_event = '%s'",
                                hook.pid, event) > 0);
        admin_number("SELECT %s(%d)", sql, hook.pid);
        pthread_join(c.thread, NULL);
        *b = c.b;
        return c.result;
}

static void
set_standbys(const char *names)
{
        admin_number("SET synchronous_commit = local");
        admin_number("ALTER SYSTEM SET synchronous_standby_names = '%s'", names);
        admin_number("SELECT pg_reload_conf()");
        WAIT_UNTIL(admin_number("SELECT count(*) FROM pg_settings WHERE name ="
                                " 'synchronous_standby_names' AND setting = '%s'",
                                names) == 1);
}

static int
standbys_reset(void **state)
{
        set_standbys("");
        return 0;
}

/* It is written; its answer does not come, or says that it is on this server only. */
static void
unknown_and_written(const char *sql)
{
        struct ls_meta_wal_batch b;
        int32_t sequence;
        struct kit k;
        uint64_t id;
        ls_err e;

        kit_init(&k);
        hook_kit_open(&k);
        id = kit_stream_id(k.m, "t", 1);
        b = kit_batch_of(id, 0, 2, 5, 0, 0);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        set_standbys("nobody");
        b = kit_batch_of(id, 0, 3, 5, 0, 2);
        e = commit_and_end(&k, &b, "SyncRep", sql);
        set_standbys("");
        assert_int_equal(e, LS_EDB);
        assert_int_equal(k.lost, 1);
        sequence = b.entry.base_sequence; /* as the offset: one producer, from 0 */
        b = kit_batch_of(id, 0, 3, 5, 0, sequence);
        assert_int_equal(kit_commit(&k, &b, 1, NULL), LS_EDB); /* the store is dead */
        kit_reopen(&k);
        b = kit_batch_of(id, 0, 3, 5, 0, sequence);
        assert_int_equal(kit_one(&k, &b), LS_DUPLICATE);
        assert_int_equal(b.entry.base_offset, sequence);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

static void
test_ended_after_commit_was_written(void **state)
{
        unknown_and_written("pg_terminate_backend");
}

static void
test_standbys_not_waited_for(void **state)
{
        unknown_and_written("pg_cancel_backend");
}

/* COMMIT was sent, and is undone: what it would have run last had not ended. */
static void
test_ended_after_commit_was_sent(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k;
        uint64_t id;

        kit_init(&k);
        hook_kit_open(&k);
        id = kit_stream_id(k.m, "t", 1);
        admin_number("CREATE FUNCTION %s.nap() RETURNS trigger LANGUAGE plpgsql AS"
                     " 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END'",
                     k.schema);
        admin_number("CREATE CONSTRAINT TRIGGER nap AFTER INSERT ON %s.wal_object DEFERRABLE"
                     " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %s.nap()",
                     k.schema, k.schema);
        b = kit_batch_of(id, 0, 3, 5, 0, 0);
        assert_int_equal(commit_and_end(&k, &b, "PgSleep", "pg_terminate_backend"), LS_EDB);
        assert_int_equal(k.lost, 1);
        ls_meta_close(k.m);
        admin_number("DROP TRIGGER nap ON %s.wal_object", k.schema);
        kit_open(&k);
        assert_int_equal(kit_partition(k.m, id, 0).end, 0);
        b = kit_batch_of(id, 0, 3, 5, 0, 0);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 0);
        kit_done(&k);
}

/* COMMIT is refused by the server, which says so: nothing is written, and that is known. */
static void
test_refused_commit(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k;
        uint64_t id;

        kit_init(&k);
        hook_kit_open(&k);
        id = kit_stream_id(k.m, "t", 1);
        admin_number("CREATE FUNCTION %s.no() RETURNS trigger LANGUAGE plpgsql AS"
                     " 'BEGIN RAISE EXCEPTION ''no'' USING ERRCODE = ''disk_full''; END'",
                     k.schema);
        admin_number("CREATE CONSTRAINT TRIGGER no AFTER INSERT ON %s.wal_object DEFERRABLE"
                     " INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION %s.no()",
                     k.schema, k.schema);
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_commit(&k, &b, 1, NULL), LS_ENOSPC);
        assert_int_equal(k.lost, 0);
        admin_number("DROP TRIGGER no ON %s.wal_object", k.schema);
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 0);
        kit_done(&k);
}

/* All idle sessions end: the next read and the next write do not notice. */
static void
test_idle_sessions_end(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        assert_int_equal(kit_partition(k.m, id, 0).end, 0);
        admin_number("SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                     " WHERE application_name = 'lakestream'");
        WAIT_UNTIL(admin_number("SELECT count(*) FROM pg_stat_activity"
                                " WHERE application_name = 'lakestream'") == 0);
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(kit_partition(k.m, id, 0).end, 3);
        kit_done(&k);
}

static void
restart(void)
{
        if (system(getenv("LAKESTREAM_TEST_POSTGRES_RESTART")) != 0) /* banned: a test */
                fail_msg("the server did not restart");
        PQreset(admin);
        assert_int_equal(PQstatus(admin), CONNECTION_OK);
}

static void
test_server_restarts(void **state)
{
        struct ls_meta_wal_batch b;
        struct committer c;
        struct kit k;
        uint64_t id;

        if (getenv("LAKESTREAM_TEST_POSTGRES_RESTART") == NULL)
                skip();
        kit_init(&k);
        hook_kit_open(&k);
        id = kit_stream_id(k.m, "t", 1);
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        restart(); /* between two transactions */
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(kit_partition(k.m, id, 0).end, 6);
        gate_close(); /* in one */
        c = (struct committer){ .k = &k, .b = kit_batch(id, 0, 3) };
        assert_int_equal(pthread_create(&c.thread, NULL, committer_main, &c), 0);
        gate_wait();
        restart();
        gate_open();
        pthread_join(c.thread, NULL);
        assert_int_equal(c.result, LS_EDB);
        assert_int_equal(k.lost, 0);
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 6);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        kit_done(&k);
}

/* A broker that stands still in its transaction: the server ends that, the others go on. */
static void
test_stopped_broker(void **state)
{
        struct kit k, second;
        struct ls_meta_wal_batch b;
        struct committer c;
        uint64_t id;

        kit_init(&k);
        hook_kit_open(&k);
        second_open(&k, &second);
        id = kit_stream_id(k.m, "t", 1);
        gate_close();
        c = (struct committer){ .k = &k, .b = kit_batch(id, 0, 3) };
        assert_int_equal(pthread_create(&c.thread, NULL, committer_main, &c), 0);
        gate_wait();
        b = kit_batch(id, 0, 2);
        assert_int_equal(kit_one(&second, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 0);
        gate_open();
        pthread_join(c.thread, NULL);
        assert_int_equal(c.result, LS_EDB);
        assert_int_equal(k.lost, 0);
        b = kit_batch(id, 0, 2);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 2);
        ls_meta_close(second.m);
        kit_done(&k);
}

/* --- settings and texts --- */

static void
test_refused_settings(void **state)
{
        static const char *const bad[][2] = {
                { "-csynchronous_commit%3Doff", "synchronous_commit" },
                { "-csearch_path%3Da,b", "search_path" },
                { "-csearch_path%3D%22A%22", "search_path" },
        };
        const char *server = kit_postgres();
        struct ls_meta_options o = { .broker_id = 1 };

        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                struct ls_errinfo info = { "" };
                struct ls_meta *m;
                char url[512];

                snprintf(url, sizeof url, "%s%soptions=%s", server, strchr(server, '?') ? "&" : "?",
                         bad[i][0]);
                o.postgres_url = url;
                assert_int_equal(ls_meta_open(&o, &m, &info), LS_EDB);
                assert_non_null(strstr(info.text, bad[i][1]));
        }
}

/* What a missing table or index is called. */
static void
test_missing_tables(void **state)
{
        struct ls_errinfo info = { "" };
        struct ls_meta_options o;
        struct ls_meta *m;
        struct kit k;

        kit_new(&k);
        assert_int_equal(ls_meta_backup(k.m, "/dev/shm/ls-no-such-backup", &info), LS_UNSUPPORTED);
        assert_ok(ls_meta_check(k.m, fail_finding, NULL));
        ls_meta_close(k.m);
        kit_sql(&k, "DROP INDEX garbage_due");
        o = kit_options(&k);
        assert_int_equal(ls_meta_open(&o, &m, &info), LS_EBROKEN);
        assert_non_null(strstr(info.text, "garbage_due"));
        kit_sql(&k, "DROP TABLE lease");
        assert_int_equal(ls_meta_open(&o, &m, &info), LS_EBROKEN);
        kit_remove(&k);
}

static ls_err
dense_fn(void *ctx, const struct ls_meta_entry *e)
{
        int64_t *next = ctx;

        assert_int_equal(e->base_offset, *next);
        *next += e->records;
        return LS_OK;
}

/* Index rows come in pages: all of them, each once, also where a page ends at the last one. */
static void
test_index_pages(void **state)
{
        static const int counts[] = { LS_META_INDEX_PAGE - 1, 1, 1, LS_META_INDEX_PAGE };
        int64_t end = 0, next, deleted;
        struct kit k;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        for (size_t i = 0; i < LS_COUNT(counts); i++) {
                for (int n = 0; n < counts[i]; n++) {
                        struct ls_meta_wal_batch b = kit_batch_of(id, 0, 1, 5, 0, (int32_t)end++);

                        assert_int_equal(kit_one(&k, &b), LS_OK);
                }
                next = 0;
                assert_ok(ls_meta_entries(k.m, id, dense_fn, &next));
                assert_int_equal(next, end);
        }
        kit_reopen(&k); /* what a producer did is read from them */
        {
                struct ls_meta_wal_batch b = kit_batch_of(id, 0, 1, 5, 0, (int32_t)end - 1);
                size_t count;

                assert_int_equal(kit_one(&k, &b), LS_DUPLICATE);
                assert_int_equal(b.entry.base_offset, end - 1);
                assert_ok(ls_meta_stream_delete(k.m, id, 0));
                for (deleted = 0; deleted < end; deleted += (int64_t)count) {
                        assert_ok(ls_meta_wal_purge(k.m, 400, &count));
                        assert_true(count > 0);
                }
        }
        kit_done(&k);
}

struct offsets_op {
        struct ls_meta_offsets_op op;
        struct ls_meta_offset offset;
        ls_err result;
        atomic_bool done;
};
static void
offsets_done(struct ls_meta_op *op, ls_err result)
{
        struct offsets_op *o = LS_CONTAINER(op, struct offsets_op, op.op);

        o->result = result;
        atomic_store(&o->done, true);
}

/* Three operations in one transaction; the text of the second cannot be stored. */
static void
test_text_fails_alone(void **state)
{
        static const char *const groups[] = { "first", "a", "\xff", "b" };
        struct offsets_op ops[4];
        struct kit k;
        uint64_t id;

        kit_init(&k);
        hook_kit_open(&k);
        id = kit_stream_id(k.m, "t", 1);
        gate_close();
        for (int i = 0; i < 4; i++) {
                ops[i] = (struct offsets_op){ .offset = { .stream_id = id, .offset = 1 } };
                ops[i].op = (struct ls_meta_offsets_op){ .op.done = offsets_done,
                                                         .group_id = groups[i],
                                                         .generation = -1,
                                                         .offsets = &ops[i].offset,
                                                         .count = 1 };
                ls_meta_offsets_submit(k.m, &ops[i].op);
                if (i == 0)
                        gate_wait(); /* the others gather behind it */
        }
        gate_open();
        for (int i = 0; i < 4; i++) {
                WAIT_UNTIL(atomic_load(&ops[i].done));
                assert_int_equal(ops[i].result, i == 2 ? LS_INVALID : LS_OK);
        }
        kit_done(&k);
}

struct sorted {
        char text[256];
};
static ls_err
sorted_fn(void *ctx, const struct ls_meta_group *g)
{
        struct sorted *s = ctx;
        size_t len = strlen(s->text);

        snprintf(s->text + len, sizeof s->text - len, "%s ", g->group_id);
        return LS_OK;
}

static void
test_texts(void **state)
{
        static const char *const names[] = { "b", "\xc3\xa4", "B", "a", "A" };
        struct ls_meta_offset o = { .offset = 1 };
        struct sorted sorted = { "" };
        char longest[LS_META_INDEXED_BYTES_MAX + 2];
        struct kit k;

        kit_new(&k);
        o.stream_id = kit_stream_id(k.m, "t", 1);
        for (size_t i = 0; i < LS_COUNT(names); i++)
                assert_ok(ls_meta_offsets_store(k.m, names[i], -1, &o, 1));
        assert_ok(ls_meta_group_list(k.m, sorted_fn, &sorted));
        assert_string_equal(sorted.text, "A B a b \xc3\xa4 "); /* the order of bytes */
        assert_int_equal(ls_meta_offsets_store(k.m, "\xff", -1, &o, 1), LS_INVALID);
        assert_int_equal(ls_meta_offsets_store(k.m, "\xc3", -1, &o, 1), LS_INVALID);
        assert_int_equal(ls_meta_offsets_store(k.m, "\xed\xa0\x80", -1, &o, 1), LS_INVALID);
        o.metadata = LS_STR("a\0b");
        assert_int_equal(ls_meta_offsets_store(k.m, "a", -1, &o, 1), LS_INVALID);
        o.metadata = LS_STR("\xf0\x9f\x98\x80");
        assert_ok(ls_meta_offsets_store(k.m, "a", -1, &o, 1));
        for (size_t i = 0; i < sizeof longest; i++) /* does not shrink when compressed */
                longest[i] = (char)('!' + (i * i * 31 + i * 7 + i / 13) % 90);
        longest[sizeof longest - 1] = '\0';
        assert_int_equal(ls_meta_offsets_store(k.m, longest, -1, &o, 1), LS_INVALID);
        longest[LS_META_INDEXED_BYTES_MAX] = '\0';
        assert_ok(ls_meta_offsets_store(k.m, longest, -1, &o, 1));
        kit_done(&k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_refused_servers),
                cmocka_unit_test(test_no_server),
        };
        const struct CMUnitTest server_tests[] = {
                cmocka_unit_test(test_pairs),
                cmocka_unit_test(test_pair_offsets),
                cmocka_unit_test(test_brokers_at_once),
                cmocka_unit_test(test_first_opens_at_once),
                cmocka_unit_test(test_lost_transaction),
                cmocka_unit_test(test_queued),
                cmocka_unit_test(test_ended_before_commit),
                cmocka_unit_test_teardown(test_ended_after_commit_was_written, standbys_reset),
                cmocka_unit_test_teardown(test_standbys_not_waited_for, standbys_reset),
                cmocka_unit_test(test_ended_after_commit_was_sent),
                cmocka_unit_test(test_refused_commit),
                cmocka_unit_test(test_idle_sessions_end),
                cmocka_unit_test(test_server_restarts),
                cmocka_unit_test(test_stopped_broker),
                cmocka_unit_test(test_refused_settings),
                cmocka_unit_test(test_missing_tables),
                cmocka_unit_test(test_index_pages),
                cmocka_unit_test(test_texts),
                cmocka_unit_test(test_text_fails_alone),
        };

        return cmocka_run_group_tests(tests, NULL, NULL) +
               (kit_postgres() ? cmocka_run_group_tests(server_tests, admin_open, admin_close) : 0);
}
