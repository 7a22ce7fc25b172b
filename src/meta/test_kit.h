/* meta/test_kit.h - what the tests of this folder share: a database of its own for each, WAL
 * commits that wait, streams in one line.
 *
 * The database is SQLite in a fresh folder, or, when the environment has LAKESTREAM_TEST_POSTGRES
 * (a URL or libpq's "host=… dbname=…"), a fresh schema of that server. Tests that are about
 * SQLite's files, or need a clock of their own, stand in a list `sqlite_tests` and run on SQLite
 * only. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/mem.h"
#include "meta/index_blob.h"
#include "meta/meta_int.h"
#include "meta/postgres/postgres.h"
#include "meta/sqlite/sqlite.h"

#define assert_ok(expr) assert_int_equal((expr), LS_OK)

struct kit {
        char dir[64], path[96];
        char schema[32], url[512]; /* on PostgreSQL */
        struct ls_meta *m;
        uint64_t sequence;
        bool sync_full;
        int lost; /* calls of on_lost */
};

/* NULL: on SQLite. */
static inline const char *
kit_postgres(void)
{
        return getenv("LAKESTREAM_TEST_POSTGRES");
}
static inline void
kit_lost(void *ctx, const char *why)
{
        ((struct kit *)ctx)->lost++;
}
static inline struct ls_meta_options
kit_options(struct kit *k)
{
        return (struct ls_meta_options){
                .sqlite_path = k->path,
                .postgres_url = kit_postgres() != NULL ? k->url : NULL,
                .broker_id = 1,
                .rack = "a",
                .sync_full = k->sync_full,
                .producer_expiry_ms = 86400000,
                .on_lost = kit_lost,
                .on_lost_ctx = k,
        };
}
/* The driver's options for meta_open_with, and the driver of such options. */
static inline void *
kit_driver_options(const struct kit *k)
{
        struct ls_sqlite_options *so;

        if (kit_postgres() != NULL)
                return ls_strdup(k->url);
        so = ls_calloc(1, sizeof *so);
        so->path = k->path;
        return so;
}
static inline struct ls_db_driver
kit_driver(void *options)
{
        return kit_postgres() != NULL ? ls_postgres_driver(options) : ls_sqlite_driver(options);
}
/* The server's URL with a fresh schema in it. */
static inline void
kit_init_postgres(struct kit *k, const char *server)
{
        static int number;
        bool is_url = strstr(server, "://") != NULL;

        snprintf(k->schema, sizeof k->schema, "t%d_%d", (int)getpid(), ++number);
        snprintf(k->url, sizeof k->url, "%s%soptions=-csearch_path%s%s", server,
                 !is_url               ? " "
                 : strchr(server, '?') ? "&"
                                       : "?",
                 is_url ? "%3D" : "=", k->schema);
}
static inline bool
kit_folder(struct kit *k, const char *under)
{
        char dir[sizeof k->dir];
        bool made;

        snprintf(dir, sizeof dir, "%s/ls-meta-test-XXXXXX", under);
        made = mkdtemp(dir) != NULL;
        memcpy(k->dir, dir, sizeof dir);
        return made;
}
static inline void
kit_init(struct kit *k)
{
        *k = (struct kit){ 0 };
        /* In memory where there is such a folder: hundreds of fresh databases, each synced. */
        if (!kit_folder(k, "/dev/shm"))
                assert_true(kit_folder(k, "/tmp"));
        snprintf(k->path, sizeof k->path, "%s/meta.db", k->dir);
        if (kit_postgres() != NULL)
                kit_init_postgres(k, kit_postgres());
}
/* Runs a statement behind the store's back. A blob is written as SQLite does: x'00'. */
static inline void
kit_sql(const struct kit *k, const char *sql)
{
        char text[512] = "";
        PGresult *r;
        PGconn *conn;

        if (kit_postgres() == NULL) {
                sqlite3 *handle;

                assert_int_equal(sqlite3_open(k->path, &handle), SQLITE_OK);
                assert_int_equal(sqlite3_exec(handle, sql, NULL, NULL, NULL), SQLITE_OK);
                sqlite3_close(handle);
                return;
        }
        for (size_t i = 0; i < sizeof text - 4 && *sql != '\0'; sql++) {
                bool blob = strncmp(sql, "x'", 2) == 0;

                text[i++] = blob ? '\'' : *sql;
                if (blob)
                        text[i++] = '\\', text[i++] = 'x', sql++;
        }
        conn = PQconnectdb(k->url);
        PQclear(PQexec(conn, "SET client_min_messages TO warning"));
        r = PQexec(conn, text);
        if (PQresultStatus(r) != PGRES_COMMAND_OK && PQresultStatus(r) != PGRES_TUPLES_OK)
                fail_msg("%s: %s", text, PQresultErrorMessage(r));
        PQclear(r);
        PQfinish(conn);
}
static inline void
kit_open(struct kit *k)
{
        struct ls_meta_options o = kit_options(k);
        struct ls_errinfo info = { "" };

        if (ls_meta_open(&o, &k->m, &info) != LS_OK)
                fail_msg("open: %s", info.text);
        k->sequence = 0;
}
static inline void
kit_new(struct kit *k)
{
        kit_init(k);
        kit_open(k);
}
static inline void
kit_reopen(struct kit *k)
{
        ls_meta_close(k->m);
        kit_open(k);
}
static inline void
kit_remove(struct kit *k)
{
        const char *const names[] = { "meta.db",     "meta.db-wal",   "meta.db-shm",
                                      "backup.db",   "copy.db",       "copy.db-wal",
                                      "copy.db-shm", "backup.db-wal", "backup.db-shm" };
        char path[160];

        for (size_t i = 0; i < LS_COUNT(names); i++) {
                snprintf(path, sizeof path, "%s/%s", k->dir, names[i]);
                unlink(path);
        }
        rmdir(k->dir);
        if (kit_postgres() != NULL) {
                snprintf(path, sizeof path, "DROP SCHEMA IF EXISTS %s CASCADE", k->schema);
                kit_sql(k, path);
        }
}
static inline void
kit_done(struct kit *k)
{
        ls_meta_close(k->m);
        kit_remove(k);
}

static inline struct ls_meta_stream *
kit_stream(struct ls_meta *m, const char *name, int32_t partitions)
{
        struct ls_meta_stream spec = { .kafka_name = (char *)(uintptr_t)name,
                                       .catalog = (char *)(uintptr_t) "main",
                                       .ns = (char *)(uintptr_t) "default",
                                       .name = (char *)(uintptr_t)name,
                                       .partitions = partitions };
        struct ls_meta_stream *s = NULL;

        assert_ok(ls_meta_stream_create(m, &spec, &s));
        return s;
}
/* The id of a fresh stream. */
static inline uint64_t
kit_stream_id(struct ls_meta *m, const char *name, int32_t partitions)
{
        struct ls_meta_stream *s = kit_stream(m, name, partitions);
        uint64_t id = s->id;

        ls_meta_stream_free(s);
        return id;
}

/* --- WAL commits that wait --- */

struct kit_commit {
        struct ls_meta_wal_commit commit;
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool finished;
        ls_err result;
};
static inline void
kit_commit_done(struct ls_meta_op *op, ls_err result)
{
        struct kit_commit *c = LS_CONTAINER(op, struct kit_commit, commit.op);

        pthread_mutex_lock(&c->lock);
        c->result = result;
        c->finished = true;
        pthread_cond_signal(&c->cond);
        pthread_mutex_unlock(&c->lock);
}
static inline void
kit_commit_submit(struct ls_meta *m, struct kit_commit *c)
{
        pthread_mutex_init(&c->lock, NULL);
        pthread_cond_init(&c->cond, NULL);
        c->finished = false;
        c->commit.op.done = kit_commit_done;
        ls_meta_wal_submit(m, &c->commit);
}
static inline ls_err
kit_commit_wait(struct kit_commit *c)
{
        pthread_mutex_lock(&c->lock);
        while (!c->finished)
                pthread_cond_wait(&c->cond, &c->lock);
        pthread_mutex_unlock(&c->lock);
        pthread_cond_destroy(&c->cond);
        pthread_mutex_destroy(&c->lock);
        return c->result;
}
/* Commits `batches` as one object; positions before it are set. */
static inline ls_err
kit_commit(struct kit *k, struct ls_meta_wal_batch *batches, size_t count, uint64_t *ret_commit)
{
        struct kit_commit c = { .commit = { .sequence = k->sequence++,
                                            .segment = 7,
                                            .pos = 1000 * k->sequence,
                                            .bytes = 500,
                                            .batches = batches,
                                            .batch_count = count } };
        ls_err e;

        for (size_t i = 0; i < count; i++) {
                if (batches[i].entry.pos < c.commit.pos)
                        batches[i].entry.pos = c.commit.pos + 10 + i * 100;
                if (batches[i].entry.bytes == 0)
                        batches[i].entry.bytes = 100;
        }
        kit_commit_submit(k->m, &c);
        e = kit_commit_wait(&c);
        if (ret_commit != NULL)
                *ret_commit = c.commit.commit;
        return e;
}
static inline struct ls_meta_wal_batch
kit_batch(uint64_t stream_id, int32_t partition, int32_t records)
{
        return (struct ls_meta_wal_batch){
                .stream_id = stream_id,
                .entry = { .partition = partition,
                           .records = records,
                           .base_timestamp = 1000,
                           .max_timestamp = 1000 + records,
                           .producer_id = -1,
                           .producer_epoch = -1,
                           .base_sequence = -1,
                           .s0 = 0x9e3779b97f4a7c15u * (uint64_t)(records + partition + 1),
                           .s1 = records > 1 ? 0xc2b2ae3d27d4eb4fu * (uint64_t)records : 0 }
        };
}
static inline struct ls_meta_wal_batch
kit_batch_of(uint64_t stream_id, int32_t partition, int32_t records, int64_t producer,
             int16_t epoch, int32_t sequence)
{
        struct ls_meta_wal_batch b = kit_batch(stream_id, partition, records);

        b.entry.producer_id = producer;
        b.entry.producer_epoch = epoch;
        b.entry.base_sequence = sequence;
        return b;
}
/* Commits one batch and gives its outcome. */
static inline ls_err
kit_one(struct kit *k, struct ls_meta_wal_batch *b)
{
        assert_ok(kit_commit(k, b, 1, NULL));
        return b->outcome;
}

struct kit_partitions {
        struct ls_meta_partition parts[256];
        size_t count;
};
static inline ls_err
kit_partition_fn(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct kit_partitions *ps = ctx;

        assert_int_equal(partition, ps->count);
        assert_true(ps->count < LS_COUNT(ps->parts));
        ps->parts[ps->count++] = *p;
        return LS_OK;
}
static inline struct ls_meta_partition
kit_partition(struct ls_meta *m, uint64_t stream_id, int32_t partition)
{
        struct kit_partitions ps = { .count = 0 };

        assert_ok(ls_meta_partitions(m, stream_id, kit_partition_fn, &ps));
        assert_true((size_t)partition < ps.count);
        return ps.parts[partition];
}

struct kit_entries {
        struct ls_meta_entry entries[512];
        size_t count;
};
static inline ls_err
kit_entry_fn(void *ctx, const struct ls_meta_entry *e)
{
        struct kit_entries *es = ctx;

        assert_true(es->count < LS_COUNT(es->entries));
        es->entries[es->count++] = *e;
        return LS_OK;
}
