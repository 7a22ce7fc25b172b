/* meta/sqlite/sqlite.c - meta/db.h on SQLite.
 *
 * Journal mode WAL: readers see a snapshot and never wait for the writer. `synchronous` FULL syncs
 * the log at every commit, so that what was answered survives power loss; NORMAL syncs at
 * checkpoints only: consistent, but the newest commits may go. The whole of a write transaction
 * runs under BEGIN IMMEDIATE, so that a read inside is a locked read.
 *
 * A commit that fails with SQLITE_FULL could not write its last frame, and that frame is what makes
 * a transaction valid: nothing is written. Any other failure of COMMIT may have come after that
 * frame (the sync failed): unknown.
 *
 * Checkpoints. What SQLite does by itself, a checkpoint at the end of a commit, keeps that commit
 * waiting for two syncs (20 ms of each second at 1,000 commits). So a thread of its own copies the
 * log into the database file while commits go on. The log begins anew only when nothing of it is
 * left to copy: that rest is done by a commit, when the log is large, and is small then. A
 * checkpoint that failed ends the process as a failed commit does: after a failed sync the kernel
 * may have dropped pages, and only the next start copies them again.
 *
 * Threads: NOMUTEX, a connection belongs to one thread at a time; the checkpointer has its own. */
#include "meta/sqlite/sqlite.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "meta/limits.h"
#include "meta/meta.h"
#include "sys/jobs.h"

/* Pages of the log. */
#define CHECKPOINT_STEP      4000  /* the checkpointer is asked after so many */
#define CHECKPOINT_STEP_LAST 250   /* and after so many when the log is nearly full, */
#define CHECKPOINT_NEAR      15000 /* from here on */
#define CHECKPOINT_FULL      16000 /* 64 MB: a commit does the rest */

/* The thread that copies the log into the database file. */
struct checkpointer {
        sqlite3 *handle;
        struct ls_thread *thread;
        pthread_mutex_t lock;
        struct ls_cond asked;
        bool wanted, stop;
        atomic_int failed; /* a code of SQLite */
};

struct sqlite_db {
        struct ls_db db;
        sqlite3 *handle;
        const struct ls_sqlite_options *options;
        sqlite3_stmt *stmts[LS_SQL_COUNT];
        sqlite3_stmt *begin_write, *begin_read, *commit, *rollback;
        sqlite3_stmt *savepoint, *release, *rollback_to;
        bool in_savepoint;
        struct checkpointer *checkpointer; /* the writer's */
        int log_pages, log_pages_asked; /* after the last commit; when a checkpoint was asked for */
        char error[256];
};

static struct sqlite_db *
sqlite_of(struct ls_db *db)
{
        return LS_CONTAINER(db, struct sqlite_db, db);
}

static ls_err
sqlite_map(int code)
{
        switch (code & 0xff) {
        case SQLITE_OK:
        case SQLITE_ROW:
        case SQLITE_DONE: return LS_OK;
        case SQLITE_FULL: return LS_ENOSPC;
        case SQLITE_READONLY: return LS_EREADONLY;
        case SQLITE_PERM:
        case SQLITE_AUTH:
        case SQLITE_CANTOPEN: return LS_EACCESS;
        case SQLITE_IOERR: return LS_EIO;
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB: return LS_EBROKEN;
        default: return LS_EDB;
        }
}

/* Keeps the words and gives the failure. */
static ls_err
sqlite_fail(struct sqlite_db *s, int code)
{
        snprintf(s->error, sizeof s->error, "%s (%d): %s", sqlite3_errstr(code), code,
                 s->handle ? sqlite3_errmsg(s->handle) : "not open");
        return sqlite_map(code);
}

static ls_err
sqlite_script(struct sqlite_db *s, const char *sql)
{
        int code = sqlite3_exec(s->handle, sql, NULL, NULL, NULL);

        return code == SQLITE_OK ? LS_OK : sqlite_fail(s, code);
}

/* --- transactions --- */

static ls_err
sqlite_simple(struct sqlite_db *s, sqlite3_stmt **stmt, const char *sql)
{
        int code = SQLITE_OK;

        if (*stmt == NULL)
                code = sqlite3_prepare_v3(s->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, stmt,
                                          NULL);
        if (code == SQLITE_OK) {
                code = sqlite3_step(*stmt);
                sqlite3_reset(*stmt);
        }
        return code == SQLITE_DONE ? LS_OK : sqlite_fail(s, code);
}

static ls_err
sqlite_begin(struct ls_db *db, bool write)
{
        struct sqlite_db *s = sqlite_of(db);

        LS_ASSERT(sqlite3_get_autocommit(s->handle));
        s->in_savepoint = false;
        if (write)
                return sqlite_simple(s, &s->begin_write, "BEGIN IMMEDIATE");
        return sqlite_simple(s, &s->begin_read, "BEGIN");
}

static void
sqlite_rollback(struct ls_db *db)
{
        struct sqlite_db *s = sqlite_of(db);

        s->in_savepoint = false;
        /* SQLite ends the transaction by itself on some failures (full, out of memory, I/O). */
        if (!sqlite3_get_autocommit(s->handle))
                (void)sqlite_simple(s, &s->rollback, "ROLLBACK");
        LS_ASSERT(sqlite3_get_autocommit(s->handle));
}

static ls_err
sqlite_commit(struct ls_db *db, bool *ret_unknown)
{
        struct sqlite_db *s = sqlite_of(db);
        int failed = s->checkpointer != NULL ? atomic_load(&s->checkpointer->failed) : SQLITE_OK;
        char error[sizeof s->error];
        ls_err e;

        if (failed != SQLITE_OK) { /* this one is not written, but what others wrote is in doubt */
                sqlite_rollback(db);
                snprintf(s->error, sizeof s->error, "a checkpoint failed: %s (%d)",
                         sqlite3_errstr(failed), failed);
                *ret_unknown = true;
                return LS_EDB;
        }
        e = sqlite_simple(s, &s->commit, "COMMIT");
        *ret_unknown = false;
        if (e == LS_OK)
                return LS_OK;
        *ret_unknown = e != LS_ENOSPC && e != LS_EREADONLY;
        memcpy(error, s->error, sizeof error);
        sqlite_rollback(db);
        memcpy(s->error, error, sizeof error);
        return e;
}

static ls_err
sqlite_savepoint(struct ls_db *db)
{
        struct sqlite_db *s = sqlite_of(db);

        LS_ASSERT(!s->in_savepoint);
        LS_TRY(sqlite_simple(s, &s->savepoint, "SAVEPOINT op"));
        s->in_savepoint = true;
        return LS_OK;
}

static ls_err
sqlite_release(struct ls_db *db)
{
        struct sqlite_db *s = sqlite_of(db);

        LS_ASSERT(s->in_savepoint);
        LS_TRY(sqlite_simple(s, &s->release, "RELEASE op"));
        s->in_savepoint = false;
        return LS_OK;
}

static ls_err
sqlite_rollback_to(struct ls_db *db)
{
        struct sqlite_db *s = sqlite_of(db);

        LS_ASSERT(s->in_savepoint);
        LS_TRY(sqlite_simple(s, &s->rollback_to, "ROLLBACK TO op"));
        return sqlite_release(db);
}

/* --- statements --- */

static ls_err
sqlite_prepare(struct sqlite_db *s, enum ls_sql id, size_t count)
{
        int code = sqlite3_prepare_v3(s->handle, ls_sql_texts[id], -1, SQLITE_PREPARE_PERSISTENT,
                                      &s->stmts[id], NULL);

        if (code != SQLITE_OK)
                return sqlite_fail(s, code);
        /* $n must be the n-th parameter, as it is for PostgreSQL. */
        LS_ASSERT(sqlite3_bind_parameter_count(s->stmts[id]) == (int)count);
        for (size_t i = 1; i <= count; i++) {
                char name[16];

                snprintf(name, sizeof name, "$%zu", i);
                LS_ASSERT(sqlite3_bind_parameter_index(s->stmts[id], name) == (int)i);
        }
        return LS_OK;
}

static int
sqlite_bind(sqlite3_stmt *stmt, int at, const struct ls_db_value *v)
{
        switch (v->type) {
        case LS_DB_NULL: return sqlite3_bind_null(stmt, at);
        case LS_DB_INT: return sqlite3_bind_int64(stmt, at, v->i);
        case LS_DB_TEXT:
                return sqlite3_bind_text64(stmt, at, (const char *)v->bytes.ptr, v->bytes.len,
                                           SQLITE_STATIC, SQLITE_UTF8);
        case LS_DB_BLOB:
                if (v->bytes.len == 0) /* a NULL pointer would be null, not empty */
                        return sqlite3_bind_zeroblob(stmt, at, 0);
                return sqlite3_bind_blob64(stmt, at, v->bytes.ptr, v->bytes.len, SQLITE_STATIC);
        }
        return SQLITE_MISUSE;
}

static ls_err
sqlite_query(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
             struct ls_db_stmt **ret_stmt)
{
        struct sqlite_db *s = sqlite_of(db);

        if (s->stmts[id] == NULL)
                LS_TRY(sqlite_prepare(s, id, count));
        LS_ASSERT(!sqlite3_stmt_busy(s->stmts[id]));
        for (size_t i = 0; i < count; i++) {
                int code = sqlite_bind(s->stmts[id], (int)i + 1, &args[i]);

                if (code != SQLITE_OK)
                        return sqlite_fail(s, code);
        }
        *ret_stmt = (struct ls_db_stmt *)s->stmts[id];
        return LS_OK;
}

static ls_err
sqlite_step(struct ls_db *db, struct ls_db_stmt *stmt)
{
        int code = sqlite3_step((sqlite3_stmt *)stmt);

        if (code == SQLITE_ROW)
                return LS_OK;
        return code == SQLITE_DONE ? LS_END : sqlite_fail(sqlite_of(db), code);
}

static void
sqlite_end(struct ls_db *db, struct ls_db_stmt *stmt)
{
        (void)sqlite3_reset(
                (sqlite3_stmt *)stmt); /* all values are bound anew before the next use */
}

static ls_err
sqlite_exec(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
            int64_t *ret_changes)
{
        struct sqlite_db *s = sqlite_of(db);
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(sqlite_query(db, id, args, count, &stmt));
        do
                e = sqlite_step(db, stmt);
        while (e == LS_OK);
        if (e == LS_END && ret_changes != NULL)
                *ret_changes = sqlite3_changes64(s->handle);
        sqlite_end(db, stmt);
        return e == LS_END ? LS_OK : e;
}

static int64_t
sqlite_column_int(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return sqlite3_column_int64((sqlite3_stmt *)stmt, column);
}

static ls_span
sqlite_column_bytes(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        sqlite3_stmt *st = (sqlite3_stmt *)stmt;
        const void *p;

        if (sqlite3_column_type(st, column) == SQLITE_NULL)
                return LS_SPAN_NULL;
        p = sqlite3_column_blob(st, column);
        /* An empty blob comes as NULL, which for us would mean null. */
        return (ls_span){ p ? p : (const void *)"", (size_t)sqlite3_column_bytes(st, column) };
}

static ls_err
sqlite_now_ms(struct ls_db *db, int64_t *ret_ms)
{
        *ret_ms = ls_clock_wall_ms(); /* an embedded database has no other clock */
        return LS_OK;
}

/* --- the whole database --- */

static ls_err
sqlite_pragma_int(struct sqlite_db *s, const char *sql, int64_t *ret_value)
{
        sqlite3_stmt *stmt = NULL;
        int code = sqlite3_prepare_v2(s->handle, sql, -1, &stmt, NULL);

        if (code == SQLITE_OK)
                code = sqlite3_step(stmt);
        if (code == SQLITE_ROW)
                *ret_value = sqlite3_column_int64(stmt, 0);
        sqlite3_finalize(stmt);
        if (code == SQLITE_DONE)
                return LS_ABSENT;
        return code == SQLITE_ROW ? LS_OK : sqlite_fail(s, code);
}

static ls_err
sqlite_level(struct ls_db *db, int *ret_level)
{
        struct sqlite_db *s = sqlite_of(db);
        int64_t value = 0;

        LS_TRY(sqlite_pragma_int(
                s, "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'install'",
                &value));
        if (value != 0)
                LS_TRY(sqlite_pragma_int(s, "SELECT format_level FROM install WHERE id = 1",
                                         &value));
        *ret_level = (int)value;
        return LS_OK;
}

static ls_err
sqlite_migrate(struct ls_db *db, int from)
{
        struct sqlite_db *s = sqlite_of(db);

        LS_ASSERT(from >= 0 && from < LS_META_FORMAT_LEVEL);
        for (const char *const *sql = ls_sqlite_steps[from]; *sql != NULL; sql++)
                LS_TRY(sqlite_script(s, *sql));
        return LS_OK;
}

static ls_err
sqlite_backup(struct ls_db *db, const char *path)
{
        struct sqlite_db *s = sqlite_of(db);
        sqlite3_stmt *stmt = NULL;
        int code;

        /* VACUUM INTO reads one snapshot while the writer goes on. An existing file is refused. It
         * writes, if not here. */
        LS_TRY(sqlite_script(s, "PRAGMA query_only = OFF"));
        code = sqlite3_prepare_v2(s->handle, "VACUUM INTO $1", -1, &stmt, NULL);
        if (code == SQLITE_OK)
                code = sqlite3_bind_text(stmt, 1, path, -1, SQLITE_STATIC);
        if (code == SQLITE_OK)
                code = sqlite3_step(stmt);
        if (code != SQLITE_DONE)
                (void)sqlite_fail(s, code);
        sqlite3_finalize(stmt);
        return code == SQLITE_DONE ? LS_OK : sqlite_map(code);
}

static ls_err
sqlite_verify(struct ls_db *db, bool quick, void (*fn)(void *ctx, const char *finding), void *ctx)
{
        struct sqlite_db *s = sqlite_of(db);
        sqlite3_stmt *stmt = NULL;
        int code;

        code = sqlite3_prepare_v2(s->handle,
                                  quick ? "PRAGMA quick_check(10)" : "PRAGMA integrity_check(100)",
                                  -1, &stmt, NULL);
        while (code == SQLITE_OK || code == SQLITE_ROW) {
                const char *text;

                code = sqlite3_step(stmt);
                if (code != SQLITE_ROW)
                        break;
                text = (const char *)sqlite3_column_text(stmt, 0);
                if (text != NULL && strcmp(text, "ok") != 0)
                        fn(ctx, text);
        }
        if (code != SQLITE_DONE)
                (void)sqlite_fail(s, code);
        sqlite3_finalize(stmt);
        return code == SQLITE_DONE ? LS_OK : sqlite_map(code);
}

static ls_err
sqlite_size(struct ls_db *db, uint64_t *ret_bytes)
{
        struct sqlite_db *s = sqlite_of(db);
        int64_t pages = 0, bytes = 0;

        LS_TRY(sqlite_pragma_int(s, "PRAGMA page_count", &pages));
        LS_TRY(sqlite_pragma_int(s, "PRAGMA page_size", &bytes));
        *ret_bytes = (uint64_t)pages * (uint64_t)bytes;
        return LS_OK;
}

/* --- checkpoints --- */

/* Copies what can be copied. A full disk, and others that read or copy, are no failures: the log
 * keeps what it has. */
static void
checkpoint_run(struct checkpointer *c, sqlite3 *handle)
{
        int code = sqlite3_wal_checkpoint_v2(handle, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL);

        if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY && (code & 0xff) != SQLITE_LOCKED &&
            (code & 0xff) != SQLITE_FULL)
                atomic_store(&c->failed, code);
}

static void
checkpointer_run(void *arg)
{
        struct checkpointer *c = arg;

        pthread_mutex_lock(&c->lock);
        while (!c->stop) {
                if (!c->wanted) {
                        ls_cond_wait(&c->asked, &c->lock);
                        continue;
                }
                c->wanted = false;
                pthread_mutex_unlock(&c->lock);
                checkpoint_run(c, c->handle);
                pthread_mutex_lock(&c->lock);
        }
        pthread_mutex_unlock(&c->lock);
}

/* After each commit, by its thread. */
static int
on_log(void *ctx, sqlite3 *handle, const char *name, int pages)
{
        struct sqlite_db *s = ctx;
        struct checkpointer *c = s->checkpointer;
        int step = pages >= CHECKPOINT_NEAR ? CHECKPOINT_STEP_LAST : CHECKPOINT_STEP;

        if (pages < s->log_pages) /* it began anew */
                s->log_pages_asked = 0;
        s->log_pages = pages;
        if (pages - s->log_pages_asked < step)
                return SQLITE_OK;
        s->log_pages_asked = pages;
        if (pages >= CHECKPOINT_FULL)
                checkpoint_run(c, handle);
        pthread_mutex_lock(&c->lock);
        c->wanted = true;
        ls_cond_signal(&c->asked);
        pthread_mutex_unlock(&c->lock);
        return SQLITE_OK;
}

static void
checkpointer_free(struct checkpointer *c)
{
        if (c == NULL)
                return;
        if (c->thread != NULL) {
                pthread_mutex_lock(&c->lock);
                c->stop = true;
                ls_cond_signal(&c->asked);
                pthread_mutex_unlock(&c->lock);
                ls_thread_join(c->thread);
        }
        sqlite3_close(c->handle);
        pthread_mutex_destroy(&c->lock);
        ls_cond_done(&c->asked);
        ls_free(c);
}

static ls_err
checkpointer_new(struct sqlite_db *s)
{
        struct checkpointer *c = ls_calloc(1, sizeof *c);
        int code = sqlite3_open_v2(s->options->path, &c->handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL);
        ls_err e = LS_OK;

        pthread_mutex_init(&c->lock, NULL);
        ls_cond_init(&c->asked);
        s->checkpointer = c;
        if (code == SQLITE_OK) /* NORMAL syncs the log before and the file after the copy */
                code = sqlite3_exec(c->handle, "PRAGMA synchronous = NORMAL", NULL, NULL, NULL);
        if (code == SQLITE_OK)
                e = ls_thread_start("ls-checkpoint", checkpointer_run, c, &c->thread);
        else
                e = sqlite_fail(s, code);
        if (e == LS_OK)
                sqlite3_wal_hook(s->handle, on_log, s);
        return e;
}

static const char *
sqlite_error(struct ls_db *db)
{
        return sqlite_of(db)->error;
}

static void
sqlite_close(struct ls_db *db)
{
        struct sqlite_db *s = sqlite_of(db);
        sqlite3_stmt *stmt;

        checkpointer_free(s->checkpointer);
        while (s->handle != NULL && (stmt = sqlite3_next_stmt(s->handle, NULL)) != NULL)
                sqlite3_finalize(stmt);
        sqlite3_close(s->handle);
        ls_free(s);
}

static const struct ls_db_ops sqlite_ops = {
        .name = "sqlite",
        .begin = sqlite_begin,
        .commit = sqlite_commit,
        .rollback = sqlite_rollback,
        .savepoint = sqlite_savepoint,
        .release = sqlite_release,
        .rollback_to = sqlite_rollback_to,
        .exec = sqlite_exec,
        .query = sqlite_query,
        .step = sqlite_step,
        .column_int = sqlite_column_int,
        .column_bytes = sqlite_column_bytes,
        .end = sqlite_end,
        .now_ms = sqlite_now_ms,
        .migrate = sqlite_migrate,
        .level = sqlite_level,
        .backup = sqlite_backup,
        .verify = sqlite_verify,
        .size = sqlite_size,
        .error = sqlite_error,
        .close = sqlite_close,
};

/* What the process before left in the log goes into the database file and is synced, before
 * anything is built on it. That process may have ended because a sync of the log failed: then the
 * log is in the page cache, and no later sync of it would bring it to the disk. Another process
 * that reads (a shell, say) may hold this up: it is not waited for, nor is a full disk an error. */
static ls_err
sqlite_settle(struct sqlite_db *s)
{
        int code;

        sqlite3_busy_timeout(s->handle, 0);
        code = sqlite3_wal_checkpoint_v2(s->handle, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        sqlite3_busy_timeout(s->handle, LS_META_BUSY_MS);
        if ((code & 0xff) == SQLITE_BUSY || (code & 0xff) == SQLITE_LOCKED ||
            (code & 0xff) == SQLITE_FULL || code == SQLITE_OK)
                return LS_OK;
        return sqlite_fail(s, code);
}

/* Settings of a connection, each with its reason. */
static ls_err
sqlite_setup(struct sqlite_db *s, bool write)
{
        sqlite3_extended_result_codes(s->handle, 1);
        sqlite3_busy_timeout(s->handle, LS_META_BUSY_MS);
        /* A damaged file must not make SQLite run what its schema says. */
        sqlite3_db_config(s->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        sqlite3_db_config(s->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        /* Find a damaged page when it is read, not when it has been written back. */
        LS_TRY(sqlite_script(s, "PRAGMA cell_size_check = ON"));
        LS_TRY(sqlite_script(s, "PRAGMA temp_store = MEMORY")); /* no files outside the folder */
        if (!write) {
                LS_TRY(sqlite_script(s, "PRAGMA cache_size = -4096"));
                return sqlite_script(s, "PRAGMA query_only = ON");
        }
        LS_TRY(sqlite_script(s, "PRAGMA journal_mode = WAL"));
        LS_TRY(sqlite_settle(s));
        LS_TRY(sqlite_script(s, s->options->sync_full ? "PRAGMA synchronous = FULL"
                                                      : "PRAGMA synchronous = NORMAL"));
        LS_TRY(sqlite_script(
                s, "PRAGMA cache_size = -65536")); /* chunks of 100,000 partitions: 6 MB */
        LS_TRY(sqlite_script(s, "PRAGMA journal_size_limit = 67108864"));
        return checkpointer_new(s);
}

static ls_err
sqlite_open(void *ctx, bool write, struct ls_db **ret_db, struct ls_errinfo *reterr)
{
        const struct ls_sqlite_options *options = ctx;
        struct sqlite_db *s = ls_calloc(1, sizeof *s);
        int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | (write ? SQLITE_OPEN_CREATE : 0);
        ls_err e;
        int code;

        s->db.ops = &sqlite_ops;
        s->options = options;
        code = sqlite3_open_v2(options->path, &s->handle, flags, NULL);
        e = code == SQLITE_OK ? sqlite_setup(s, write) : sqlite_fail(s, code);
        if (e != LS_OK) {
                ls_fail(reterr, e, "metadata database %s: %s", options->path, s->error);
                sqlite_close(&s->db);
                return e;
        }
        *ret_db = &s->db;
        return LS_OK;
}

struct ls_db_driver
ls_sqlite_driver(const struct ls_sqlite_options *options)
{
        return (struct ls_db_driver){ .open = sqlite_open, .ctx = (void *)(uintptr_t)options };
}
