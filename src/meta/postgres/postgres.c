/* meta/postgres/postgres.c - meta/db.h on PostgreSQL.
 *
 * One writer at a time. A write transaction begins with an advisory lock of the schema, held to its
 * end. Rows alone would not do: a transaction runs the operations that were queued, each with the
 * rows it needs, so that no order of rows is kept across them and two brokers would wait for each
 * other; and some checks are about rows that are not there (a key that is not garbage, an extent
 * that does not overlap), which no row lock holds. What the LOCKED statements read is locked all
 * the same (FOR SHARE, or FOR NO KEY UPDATE where an update follows), against whoever writes
 * without that lock, and so that the lock at the begin can be given up kind by kind. The list of
 * what relies on it: README.md of meta/.
 *
 * READ COMMITTED: each statement sees what was committed before it began, so all that comes after
 * the lock sees everything of the writer before. Readers: REPEATABLE READ, one snapshot.
 *
 * The outcome of a commit is unknown when COMMIT was sent and the session ended before the answer,
 * and when the server warns that it gave up waiting for its standbys. A session that has ended
 * already is noticed before COMMIT is sent: then nothing is written.
 *
 * What nobody asks the answer of (savepoints, statements without row counts) is sent along with the
 * next statement that has one, and before COMMIT at the latest: libpq's pipeline mode, only then.
 *
 * Results are taken whole at `query`: statements may run side by side on one connection. But the
 * index rows of a stream, which are many and of which a purge reads the first, come in pages.
 *
 * Threads: a connection belongs to one at a time. */
#include <stdio.h>

#include "base/assert.h"
#include "base/buf.h"
#include "base/mem.h"
#include "meta/limits.h"
#include "meta/meta.h"
#include "meta/postgres/postgres_int.h"

/* PostgreSQL's numbers of the types, and of its binary format. */
enum { OID_BYTEA = 17, OID_INT8 = 20, OID_TEXT = 25, FORMAT_BINARY = 1 };

#define ARGS_MAX 16

static struct postgres_db *
postgres_of(struct ls_db *db)
{
        return LS_CONTAINER(db, struct postgres_db, db);
}

/* Outside of a transaction a session that is not there is opened; inside, it was lost. */
static ls_err
postgres_ready(struct postgres_db *s)
{
        if (s->conn != NULL)
                return LS_OK;
        if (!s->in_txn)
                return postgres_connect(s);
        snprintf(s->error, sizeof s->error, "the connection was lost in the transaction");
        return LS_EDB;
}

/* libpq did not take a command that was to be queued: the session can do nothing more. */
static ls_err
postgres_unsent(struct postgres_db *s, const char *what)
{
        snprintf(s->error, sizeof s->error, "%s: %s", what, PQerrorMessage(s->conn));
        postgres_drop(s);
        return LS_EDB;
}

/* --- transactions --- */

/* Ends what is left of a transaction, without a word: s->error tells what came before. */
static void
postgres_abandon(struct postgres_db *s)
{
        char error[sizeof s->error];

        memcpy(error, s->error, sizeof error);
        s->in_txn = s->in_savepoint = s->release_due = false;
        if (postgres_settle(s, NULL) != LS_OK) {
                /* undone with the rest */
        }
        if (s->conn != NULL && PQtransactionStatus(s->conn) != PQTRANS_IDLE &&
            postgres_script(s, "ROLLBACK", NULL) != LS_OK && s->conn != NULL)
                postgres_drop(s);
        memcpy(s->error, error, sizeof error);
}

static ls_err
postgres_try_begin(struct postgres_db *s, bool write)
{
        PGresult *r = NULL;
        ls_err e;

        if (!write)
                return postgres_script(s, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", NULL);
        e = postgres_script(s, s->begin_write_sql, &r);
        if (e == LS_OK && (PQntuples(r) != 1 || !ls_str_to_i64(ls_str_of(PQgetvalue(r, 0, 0)), 0,
                                                               INT64_MAX, &s->begun_ms)))
                e = LS_EBROKEN;
        PQclear(r);
        if (e != LS_OK)
                postgres_abandon(s);
        return e;
}

static ls_err
postgres_begin(struct ls_db *db, bool write)
{
        struct postgres_db *s = postgres_of(db);
        ls_err e = LS_EDB;

        LS_ASSERT(!s->in_txn);
        if (s->conn != NULL)
                e = postgres_try_begin(s, write);
        if (s->conn == NULL) { /* the session ended while it was idle, or before */
                LS_TRY(postgres_connect(s));
                e = postgres_try_begin(s, write);
        }
        LS_TRY(e);
        s->in_txn = true;
        return LS_OK;
}

static void
postgres_rollback(struct ls_db *db)
{
        postgres_abandon(postgres_of(db));
}

/* Whether the session still stands, as far as can be known without asking. Twice: the last words of
 * a server come before the end of its stream. */
static bool
postgres_alive(struct postgres_db *s)
{
        for (int i = 0; i < 2 && s->conn != NULL; i++)
                if (!PQconsumeInput(s->conn) || PQisBusy(s->conn) || s->ended)
                        postgres_drop(s);
        return s->conn != NULL;
}

static ls_err
postgres_commit(struct ls_db *db, bool *ret_unknown)
{
        struct postgres_db *s = postgres_of(db);
        PGresult *r = NULL;
        bool sent;
        ls_err e;

        LS_ASSERT(s->in_txn);
        *ret_unknown = false;
        s->warned = false;
        e = postgres_ready(s);
        if (e == LS_OK)
                e = postgres_settle(s, NULL); /* so that nothing but COMMIT is under way below */
        if (e != LS_OK) {
                postgres_abandon(s);
                return e;
        }
        if (!postgres_alive(s)) {
                postgres_abandon(s);
                snprintf(s->error, sizeof s->error, "the connection was lost before the commit");
                return LS_EDB;
        }
        sent = PQsendQuery(s->conn, "COMMIT") == 1;
        e = postgres_answer(s, sent, "COMMIT", &r);
        if (e != LS_OK) {
                *ret_unknown = sent && s->conn == NULL;
        } else if (strcmp(PQcmdStatus(r), "COMMIT") != 0) {
                snprintf(s->error, sizeof s->error, "COMMIT: a statement before it had failed");
                e = LS_EDB;
        } else if (s->warned) {
                snprintf(s->error, sizeof s->error,
                         "COMMIT: the server did not wait for its standbys");
                *ret_unknown = true;
                e = LS_EDB;
        }
        PQclear(r);
        postgres_abandon(s);
        return e;
}

/* A command goes with the next statement that has an answer. */
static ls_err
postgres_later(struct postgres_db *s, const char *sql)
{
        LS_TRY(postgres_queue(s, sql));
        if (PQsendQueryParams(s->conn, sql, 0, NULL, NULL, NULL, NULL, FORMAT_BINARY) == 1)
                return LS_OK;
        return postgres_unsent(s, sql);
}

static ls_err
postgres_savepoint(struct ls_db *db)
{
        struct postgres_db *s = postgres_of(db);

        LS_ASSERT(s->in_txn && !s->in_savepoint);
        LS_TRY(postgres_ready(s));
        if (s->release_due)
                LS_TRY(postgres_later(s, "RELEASE op"));
        LS_TRY(postgres_later(s, "SAVEPOINT op"));
        s->in_savepoint = true;
        s->release_due = false;
        return LS_OK;
}

static ls_err
postgres_release(struct ls_db *db)
{
        struct postgres_db *s = postgres_of(db);

        LS_ASSERT(s->in_savepoint && !s->release_due);
        s->in_savepoint = false;
        s->release_due = true;
        return LS_OK;
}

static ls_err
postgres_rollback_to(struct ls_db *db)
{
        struct postgres_db *s = postgres_of(db);

        LS_ASSERT(s->in_savepoint);
        LS_TRY(postgres_ready(s));
        LS_TRY(postgres_script(s, "ROLLBACK TO op; RELEASE op", NULL));
        s->in_savepoint = false;
        return LS_OK;
}

/* --- statements --- */

/* How the rows of a LOCKED statement are locked: those that an update may follow in the same
 * transaction at once as strongly as that does, since two who share a row cannot both go on. */
static const char *
sql_lock(enum ls_sql id)
{
        switch ((int)id) {
        case LS_SQL_BROKER_EPOCH:
        case LS_SQL_STREAM_VERSION:
        case LS_SQL_STREAM_PARTITIONS:
        case LS_SQL_CHUNK_CHECK:
        case LS_SQL_GROUP_GENERATION: return " FOR NO KEY UPDATE";
        default: return ls_sql_locked[id] ? " FOR SHARE" : "";
        }
}

static const char *
sql_name(enum ls_sql id)
{
        static const char *const names[LS_SQL_COUNT] = {
#define LS_SQL(name, locked, text) [LS_SQL_##name] = #name,
#include "meta/sql.def"
#undef LS_SQL
        };

        return names[id];
}

/* Texts that stand in no index; all others do, or are compared with one that does. */
static bool
arg_is_plain(enum ls_sql id, size_t arg)
{
        switch ((int)id) {
        case LS_SQL_BROKER_OPEN: return arg == 2;   /* rack */
        case LS_SQL_BROKER_ANNOUNCE: return true;   /* addresses */
        case LS_SQL_CONFIG_PUT: return arg == 2;    /* value */
        case LS_SQL_OFFSET_PUT: return arg == 4;    /* metadata */
        case LS_SQL_NAMESPACE_ADD: return arg == 2; /* properties */
        case LS_SQL_NAMESPACE_SET: return arg == 0; /* properties */
        default: return false;
        }
}

/* The length of the character that begins at p, or 0: not UTF-8 (RFC 3629), or a NUL. */
static size_t
utf8_char(const uint8_t *p, size_t left)
{
        size_t len = p[0] < 0x80   ? 1
                     : p[0] < 0xc2 ? 0
                     : p[0] < 0xe0 ? 2
                     : p[0] < 0xf0 ? 3
                     : p[0] < 0xf5 ? 4
                                   : 0;

        if (len > left || p[0] == 0)
                return 0;
        for (size_t i = 1; i < len; i++)
                if ((p[i] & 0xc0) != 0x80)
                        return 0;
        if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
            (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
                return 0;
        return len;
}

static bool
text_is_utf8(ls_span text)
{
        size_t len;

        for (size_t at = 0; at < text.len; at += len) {
                len = utf8_char(text.ptr + at, text.len - at);
                if (len == 0)
                        return false;
        }
        return true;
}

/* Texts come from clients. The server would refuse such a one with an error, and an error ends the
 * transaction, with all other operations in it: it is an outcome before that. */
static bool
args_ok(const struct postgres_db *s, enum ls_sql id, const struct ls_db_value *args, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (args[i].type == LS_DB_TEXT &&
                    (!text_is_utf8(args[i].bytes) ||
                     (s->write && args[i].bytes.len > LS_META_INDEXED_BYTES_MAX &&
                      !arg_is_plain(id, i))))
                        return false;
        return true;
}

/* Arguments as libpq takes them, all in binary. */
struct postgres_args {
        const char *values[ARGS_MAX];
        int bytes[ARGS_MAX], formats[ARGS_MAX];
        Oid types[ARGS_MAX];
        uint8_t ints[ARGS_MAX][8];
};

static void
args_make(struct postgres_args *a, const struct ls_db_value *args, size_t count)
{
        LS_ASSERT(count <= ARGS_MAX);
        for (size_t i = 0; i < count; i++) {
                const struct ls_db_value *v = &args[i];

                a->formats[i] = FORMAT_BINARY;
                switch (v->type) {
                case LS_DB_NULL:
                        a->values[i] = NULL;
                        a->bytes[i] = 0;
                        a->types[i] = 0; /* what the statement makes of it */
                        break;
                case LS_DB_INT:
                        ls_set_be64(a->ints[i], (uint64_t)v->i);
                        a->values[i] = (const char *)a->ints[i];
                        a->bytes[i] = sizeof a->ints[i];
                        a->types[i] = OID_INT8;
                        break;
                case LS_DB_TEXT:
                case LS_DB_BLOB:
                        LS_ASSERT(v->bytes.len <= INT32_MAX);
                        a->values[i] = (const char *)v->bytes.ptr;
                        a->bytes[i] = (int)v->bytes.len;
                        a->types[i] = v->type == LS_DB_TEXT ? OID_TEXT : OID_BYTEA;
                        break;
                }
        }
}

static ls_err
postgres_prepare(struct postgres_db *s, enum ls_sql id, const char *name,
                 const struct postgres_args *a, size_t count)
{
        LS_AUTO(ls_free)
        char *sql = id == LS_SQL_INDEX_AFTER
                            ? ls_format("%s LIMIT %d", ls_sql_texts[id], LS_META_INDEX_PAGE)
                            : ls_format("%s%s", ls_sql_texts[id], s->write ? sql_lock(id) : "");

        LS_TRY(postgres_settle(s, NULL));
        LS_TRY(postgres_answer(s, PQsendPrepare(s->conn, name, sql, (int)count, a->types) == 1,
                               sql_name(id), NULL));
        s->stmts[id].prepared = true;
        return LS_OK;
}

/* `later`: nobody asks for the answer; inside a transaction it comes with that of a later one. */
static ls_err
postgres_run(struct postgres_db *s, enum ls_sql id, const struct ls_db_value *args, size_t count,
             bool later, PGresult **ret_result)
{
        bool queue = s->in_txn && (later || s->queued > 0);
        struct postgres_args a;
        char name[16];
        int sent;

        if (!args_ok(s, id, args, count)) {
                snprintf(s->error, sizeof s->error, "%s: a text that is not UTF-8, or too long",
                         sql_name(id));
                return LS_INVALID;
        }
        LS_TRY(postgres_ready(s));
        args_make(&a, args, count);
        snprintf(name, sizeof name, "s%d", (int)id);
        if (!s->stmts[id].prepared)
                LS_TRY(postgres_prepare(s, id, name, &a, count));
        if (queue)
                LS_TRY(postgres_queue(s, sql_name(id)));
        sent = PQsendQueryPrepared(s->conn, name, (int)count, a.values, a.bytes, a.formats,
                                   FORMAT_BINARY);
        if (!queue)
                return postgres_answer(s, sent == 1, sql_name(id), ret_result);
        if (sent != 1)
                return postgres_unsent(s, sql_name(id));
        return later ? LS_OK : postgres_settle(s, ret_result);
}

static ls_err
postgres_exec(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
              int64_t *ret_changes)
{
        PGresult *r = NULL;

        LS_TRY(postgres_run(postgres_of(db), id, args, count, ret_changes == NULL, &r));
        if (ret_changes != NULL &&
            !ls_str_to_i64(ls_str_of(PQcmdTuples(r)), 0, INT64_MAX, ret_changes))
                *ret_changes = 0;
        PQclear(r);
        return LS_OK;
}

static ls_err
postgres_query(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
               struct ls_db_stmt **ret_stmt)
{
        struct postgres_db *s = postgres_of(db);
        struct ls_db_stmt *stmt = &s->stmts[id];

        LS_ASSERT(stmt->result == NULL);
        LS_TRY(postgres_run(s, id, args, count, false, &stmt->result));
        stmt->row = -1;
        stmt->of = id == LS_SQL_INDEX_AFTER ? args[0].i : 0;
        *ret_stmt = stmt;
        return LS_OK;
}

/* The rows behind the last one of a full page. They are of the same snapshot, or of a time when
 * nobody else writes. */
static ls_err
postgres_next_page(struct ls_db *db, struct ls_db_stmt *stmt)
{
        struct postgres_db *s = postgres_of(db);
        struct ls_db_value args[2] = { ls_db_int(stmt->of), ls_db_int(ls_db_col_i64(db, stmt, 0)) };
        PGresult *page = NULL;

        if (stmt != &s->stmts[LS_SQL_INDEX_AFTER] || PQntuples(stmt->result) < LS_META_INDEX_PAGE)
                return LS_END;
        LS_TRY(postgres_run(s, LS_SQL_INDEX_AFTER, args, LS_COUNT(args), false, &page));
        PQclear(stmt->result);
        stmt->result = page;
        stmt->row = -1;
        return LS_OK;
}

static ls_err
postgres_step(struct ls_db *db, struct ls_db_stmt *stmt)
{
        LS_ASSERT(stmt->result != NULL);
        if (stmt->row + 1 >= PQntuples(stmt->result)) {
                if (stmt->row < 0)
                        return LS_END;
                LS_TRY(postgres_next_page(db, stmt));
                if (PQntuples(stmt->result) == 0)
                        return LS_END;
        }
        stmt->row++;
        return LS_OK;
}

static int64_t
postgres_column_int(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        const char *p = PQgetvalue(stmt->result, stmt->row, column);

        switch (PQgetlength(stmt->result, stmt->row, column)) {
        case 8: return (int64_t)ls_get_be64(p);
        case 4: return (int32_t)ls_get_be32(p); /* a number that stands in the statement */
        default: return 0;                      /* null */
        }
}

static ls_span
postgres_column_bytes(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        if (PQgetisnull(stmt->result, stmt->row, column))
                return LS_SPAN_NULL;
        return ls_span_of(PQgetvalue(stmt->result, stmt->row, column),
                          (size_t)PQgetlength(stmt->result, stmt->row, column));
}

static void
postgres_end(struct ls_db *db, struct ls_db_stmt *stmt)
{
        PQclear(stmt->result);
        stmt->result = NULL;
}

/* In a write transaction: of its begin, which has read it already. */
static ls_err
postgres_now_ms(struct ls_db *db, int64_t *ret_ms)
{
        struct postgres_db *s = postgres_of(db);

        LS_TRY(postgres_ready(s));
        if (s->in_txn && s->write) {
                *ret_ms = s->begun_ms;
                return LS_OK;
        }
        return postgres_number(
                s, "SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint", ret_ms);
}

/* --- the whole database --- */

static ls_err
postgres_level(struct ls_db *db, int *ret_level)
{
        struct postgres_db *s = postgres_of(db);
        int64_t value = 0;

        LS_TRY(postgres_ready(s));
        LS_TRY(postgres_number(s, "SELECT (to_regclass('install') IS NOT NULL)::int", &value));
        if (value != 0)
                LS_TRY(postgres_number(s, "SELECT format_level FROM install WHERE id = 1", &value));
        *ret_level = (int)value;
        return LS_OK;
}

/* In the transaction that opens. The schema may be there: who may not make one can be given one. */
static ls_err
postgres_migrate(struct ls_db *db, int from)
{
        struct postgres_db *s = postgres_of(db);
        LS_AUTO(ls_free)
        char *find = ls_format("SELECT count(*) FROM pg_namespace WHERE nspname = '%s'", s->schema);
        LS_AUTO(ls_free) char *make = ls_format("CREATE SCHEMA \"%s\"", s->schema);
        int64_t there = 0;

        LS_ASSERT(from >= 0 && from < LS_META_FORMAT_LEVEL && s->in_txn);
        LS_TRY(postgres_ready(s));
        LS_TRY(postgres_number(s, find, &there));
        if (there == 0)
                LS_TRY(postgres_script(s, make, NULL));
        for (const char *const *sql = postgres_steps[from]; *sql != NULL; sql++)
                LS_TRY(postgres_script(s, *sql, NULL));
        return LS_OK;
}

/* A file of one snapshot could be made of COPY, but not one that opens as a database: the server's
 * own tools (pg_dump, base backups with the archived log) are the operator's backup. */
static ls_err
postgres_backup(struct ls_db *db, const char *path)
{
        struct postgres_db *s = postgres_of(db);

        snprintf(s->error, sizeof s->error,
                 "PostgreSQL is backed up by its own tools (docs/postgresql.md)");
        return LS_UNSUPPORTED;
}

/* The name of the table or index that a statement of a step makes; false: of none. */
static bool
step_makes(const char *sql, char *ret_name, size_t bytes)
{
        static const char *const begins[] = { "CREATE TABLE ", "CREATE INDEX " };

        for (size_t i = 0; i < LS_COUNT(begins); i++) {
                size_t len = strlen(begins[i]);

                if (strncmp(sql, begins[i], len) == 0) {
                        snprintf(ret_name, bytes, "%.*s", (int)strcspn(sql + len, " "), sql + len);
                        return true;
                }
        }
        return false;
}

/* Whether what a statement of a step makes is there, and its index, if it has one, is whole. */
static ls_err
verify_step(struct postgres_db *s, const char *step, void (*fn)(void *ctx, const char *finding),
            void *ctx)
{
        LS_AUTO(ls_free) char *find = NULL, *finding = NULL;
        char name[64];
        int64_t ok = 0;

        if (!step_makes(step, name, sizeof name))
                return LS_OK;
        find = ls_format("SELECT count(*) FROM pg_class c LEFT JOIN pg_index i"
                         " ON i.indexrelid = c.oid OR (i.indrelid = c.oid AND i.indisprimary)"
                         " WHERE c.oid = to_regclass('%s') AND i.indisvalid",
                         name);
        LS_TRY(postgres_number(s, find, &ok));
        if (ok > 0)
                return LS_OK;
        finding = ls_format("%s.%s is missing, or its index is not whole", s->schema, name);
        fn(ctx, finding);
        return LS_OK;
}

/* Every table and index of the steps. The server's own checks of its pages (data_checksums,
 * amcheck) are the operator's. */
static ls_err
postgres_verify(struct ls_db *db, bool quick, void (*fn)(void *ctx, const char *finding), void *ctx)
{
        int level = 0;

        LS_TRY(postgres_level(db, &level));
        for (int i = 0; i < LS_MIN(level, LS_META_FORMAT_LEVEL); i++)
                for (const char *const *sql = postgres_steps[i]; *sql != NULL; sql++)
                        LS_TRY(verify_step(postgres_of(db), *sql, fn, ctx));
        return LS_OK;
}

static ls_err
postgres_size(struct ls_db *db, uint64_t *ret_bytes)
{
        struct postgres_db *s = postgres_of(db);
        int64_t bytes = 0;

        LS_TRY(postgres_ready(s));
        LS_TRY(postgres_number(s,
                               "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint"
                               " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
                               " WHERE n.nspname = current_schema() AND c.relkind = 'r'",
                               &bytes));
        *ret_bytes = (uint64_t)bytes;
        return LS_OK;
}

static const char *
postgres_error(struct ls_db *db)
{
        return postgres_of(db)->error;
}

static void
postgres_close(struct ls_db *db)
{
        struct postgres_db *s = postgres_of(db);

        postgres_drop(s);
        for (size_t i = 0; i < LS_SQL_COUNT; i++)
                PQclear(s->stmts[i].result);
        ls_free(s->begin_write_sql);
        ls_free(s);
}

static const struct ls_db_ops postgres_ops = {
        .name = "postgres",
        .begin = postgres_begin,
        .commit = postgres_commit,
        .rollback = postgres_rollback,
        .savepoint = postgres_savepoint,
        .release = postgres_release,
        .rollback_to = postgres_rollback_to,
        .exec = postgres_exec,
        .query = postgres_query,
        .step = postgres_step,
        .column_int = postgres_column_int,
        .column_bytes = postgres_column_bytes,
        .end = postgres_end,
        .now_ms = postgres_now_ms,
        .migrate = postgres_migrate,
        .level = postgres_level,
        .backup = postgres_backup,
        .verify = postgres_verify,
        .size = postgres_size,
        .error = postgres_error,
        .close = postgres_close,
};

static ls_err
postgres_open(void *ctx, bool write, struct ls_db **ret_db, struct ls_errinfo *reterr)
{
        struct postgres_db *s = ls_calloc(1, sizeof *s);
        ls_err e;

        s->db.ops = &postgres_ops;
        s->url = ctx;
        s->write = write;
        e = postgres_connect(s);
        if (e != LS_OK) {
                /* The URL may hold a password: it is not told. */
                ls_fail(reterr, e, "metadata database (PostgreSQL): %s", s->error);
                postgres_close(&s->db);
                return e;
        }
        *ret_db = &s->db;
        return LS_OK;
}

struct ls_db_driver
ls_postgres_driver(const char *url)
{
        return (struct ls_db_driver){ .open = postgres_open, .ctx = (void *)(uintptr_t)url };
}
