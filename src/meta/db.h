/* meta/db.h - what a relational database must do for the metadata store.
 *
 * One ops struct; sqlite/ and postgres/ (libpq) implement it. Statements are known by number: the
 * texts stand once in sql.def, with $1, $2 … in order of first use, so that both databases take
 * them; a back end may replace a text by one of its own where speed or locks ask for it. Statements
 * are prepared at first use and kept with the connection.
 *
 * The checks of the commit protocol rely on this: one writer at a time, from `begin` on (SQLite's
 * write lock; PostgreSQL: an advisory lock of the schema). Besides, a write transaction holds what
 * it has read with a statement marked LOCKED, and what it has updated, until its end (PostgreSQL:
 * FOR SHARE / FOR NO KEY UPDATE). What needs the first, and not only the second: README.md.
 *
 * Threads: a connection is used by one thread at a time. Values given to a call are borrowed until
 * the statement is ended. */
#pragma once
#include "base/err.h"
#include "base/mem.h"
#include "base/span.h"

enum ls_sql {
#define LS_SQL(name, locked, text) LS_SQL_##name,
#include "meta/sql.def"
#undef LS_SQL
        LS_SQL_COUNT
};
#define LS_SQL_PLAIN  0
#define LS_SQL_LOCKED 1 /* rows read stay as they are until the transaction ends */

enum ls_db_type { LS_DB_NULL, LS_DB_INT, LS_DB_TEXT, LS_DB_BLOB };
struct ls_db_value {
        enum ls_db_type type;
        int64_t i;
        ls_span bytes;
};
static inline struct ls_db_value
ls_db_int(int64_t i)
{
        return (struct ls_db_value){ .type = LS_DB_INT, .i = i };
}
/* 64-bit unsigned numbers are stored as the signed number of the same bits. */
static inline struct ls_db_value
ls_db_u64(uint64_t u)
{
        return (struct ls_db_value){ .type = LS_DB_INT, .i = (int64_t)u };
}
static inline struct ls_db_value
ls_db_str(ls_str s)
{
        return (struct ls_db_value){ .type = s.ptr ? LS_DB_TEXT : LS_DB_NULL,
                                     .bytes = { (const uint8_t *)s.ptr, s.len } };
}
/* NULL gives null. */
static inline struct ls_db_value
ls_db_text(const char *s)
{
        return ls_db_str(ls_str_of(s));
}
static inline struct ls_db_value
ls_db_blob(ls_span s)
{
        return (struct ls_db_value){ .type = s.ptr ? LS_DB_BLOB : LS_DB_NULL, .bytes = s };
}

struct ls_db;
struct ls_db_stmt;

struct ls_db_ops {
        const char *name;
        /* `write`: from here to the end other writers wait. LS_EDB when the lock did not come in
         * time. */
        ls_err (*begin)(struct ls_db *db, bool write);
        /* A failure with *ret_unknown false: nothing is written. True: it may be, or become so
         * after a crash. The transaction has ended in any case. */
        ls_err (*commit)(struct ls_db *db, bool *ret_unknown);
        void (*rollback)(struct ls_db *db);
        /* One level inside a transaction. rollback_to undoes back to it and ends it. */
        ls_err (*savepoint)(struct ls_db *db);
        ls_err (*release)(struct ls_db *db);
        ls_err (*rollback_to)(struct ls_db *db);
        /* Runs to the end; *ret_changes: rows inserted, updated, deleted. NULL: nobody asks, and a
         * failure may come with a later call of the transaction. LS_INVALID: a text that
         * the database cannot hold (PostgreSQL: not UTF-8, or too long for an index); the
         * transaction goes on. */
        ls_err (*exec)(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args,
                       size_t count, int64_t *ret_changes);
        /* Starts; rows come by step, and `end` must follow. One statement runs once at a time.
         * LS_INVALID as above. */
        ls_err (*query)(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args,
                        size_t count, struct ls_db_stmt **ret_stmt);
        ls_err (*step)(struct ls_db *db, struct ls_db_stmt *stmt); /* LS_OK: a row; LS_END */
        int64_t (*column_int)(struct ls_db *db, struct ls_db_stmt *stmt, int column);
        /* Text or blob; valid until the next step or end; ptr NULL for null. */
        ls_span (*column_bytes)(struct ls_db *db, struct ls_db_stmt *stmt, int column);
        void (*end)(struct ls_db *db, struct ls_db_stmt *stmt);
        /* The database's clock; in a write transaction as of its begin, or later. */
        ls_err (*now_ms)(struct ls_db *db, int64_t *ret_ms);
        /* Brings an empty or older database to format level `level` from `from` by one step. */
        ls_err (*migrate)(struct ls_db *db, int from);
        /* The level of a database; 0: empty. Before any statement is used. */
        ls_err (*level)(struct ls_db *db, int *ret_level);
        /* A consistent copy as a file at `path`. LS_UNSUPPORTED, LS_EXISTS. */
        ls_err (*backup)(struct ls_db *db, const char *path);
        /* The database's own integrity check; fn gets each finding. */
        ls_err (*verify)(struct ls_db *db, bool quick, void (*fn)(void *ctx, const char *finding),
                         void *ctx);
        /* Size of the database, bytes. */
        ls_err (*size)(struct ls_db *db, uint64_t *ret_bytes);
        /* Words of the last failure; valid until the next call. */
        const char *(*error)(struct ls_db *db);
        void (*close)(struct ls_db *db);
};
/* Back ends embed this first. */
struct ls_db {
        const struct ls_db_ops *ops;
};
/* Opens connections. */
struct ls_db_driver {
        ls_err (*open)(void *ctx, bool write, struct ls_db **ret_db, struct ls_errinfo *reterr);
        void *ctx;
};

/* Texts, and whether rows must stay locked. */
extern const char *const ls_sql_texts[LS_SQL_COUNT];
extern const bool ls_sql_locked[LS_SQL_COUNT];

/* --- calls in short: ls_db_exec(db, ID, &changes, ls_db_int(1), …) --- */

#define LS_DB_ARGS(...)                                \
        ((const struct ls_db_value[]){ __VA_ARGS__ }), \
                sizeof((const struct ls_db_value[]){ __VA_ARGS__ }) / sizeof(struct ls_db_value)
#define ls_db_exec(db, id, ret_changes, ...) \
        (db)->ops->exec((db), LS_SQL_##id, LS_DB_ARGS(__VA_ARGS__), (ret_changes))
#define ls_db_exec0(db, id, ret_changes) (db)->ops->exec((db), LS_SQL_##id, NULL, 0, (ret_changes))
#define ls_db_query(db, id, ret_stmt, ...) \
        (db)->ops->query((db), LS_SQL_##id, LS_DB_ARGS(__VA_ARGS__), (ret_stmt))
#define ls_db_query0(db, id, ret_stmt) (db)->ops->query((db), LS_SQL_##id, NULL, 0, (ret_stmt))

static inline ls_err
ls_db_step(struct ls_db *db, struct ls_db_stmt *stmt)
{
        return db->ops->step(db, stmt);
}
static inline void
ls_db_end(struct ls_db *db, struct ls_db_stmt *stmt)
{
        if (stmt != NULL)
                db->ops->end(db, stmt);
}
static inline int64_t
ls_db_col_i64(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return db->ops->column_int(db, stmt, column);
}
static inline uint64_t
ls_db_col_u64(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return (uint64_t)db->ops->column_int(db, stmt, column);
}
static inline int32_t
ls_db_col_i32(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return (int32_t)db->ops->column_int(db, stmt, column);
}
static inline ls_span
ls_db_col_span(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return db->ops->column_bytes(db, stmt, column);
}
static inline ls_str
ls_db_col_str(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        ls_span s = db->ops->column_bytes(db, stmt, column);

        return (ls_str){ (const char *)s.ptr, s.len };
}
/* Fresh text with a NUL behind it; NULL for null. */
static inline char *
ls_db_col_dup(struct ls_db *db, struct ls_db_stmt *stmt, int column)
{
        return ls_str_dup(ls_db_col_str(db, stmt, column));
}
/* Runs a query for the first column of its first row: LS_ABSENT when there is no row. */
ls_err ls_db_get_i64(struct ls_db *db, enum ls_sql id, const struct ls_db_value *args, size_t count,
                     int64_t *ret_value);
