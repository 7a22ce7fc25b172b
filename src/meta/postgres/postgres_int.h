/* meta/postgres/postgres_int.h - what the files of this folder share. */
#pragma once
#include <libpq-fe.h>

#include "meta/postgres/postgres.h"

#define POSTGRES_SCHEMA_BYTES 64 /* a name of 63 bytes, PostgreSQL's limit, and a NUL */
#define POSTGRES_QUEUE_MAX    64 /* commands sent whose answers are not waited for yet */

/* A statement of sql.def on one connection; its result stands between query and end. */
struct ls_db_stmt {
        PGresult *result;
        int row;
        bool prepared;
        int64_t of; /* INDEX_AFTER, which comes in pages: the stream */
};

struct postgres_db {
        struct ls_db db;
        const char *url;
        PGconn *conn; /* NULL: to be opened at the next begin, or statement outside of one */
        bool write;   /* what it was opened for */
        bool in_txn, in_savepoint;
        bool release_due; /* a savepoint is released with the next one, or by COMMIT */
        bool ended;       /* the server said that it ends the session */
        bool warned;      /* the server warned of something since this was cleared */
        int64_t begun_ms; /* the database's clock when the write transaction had its lock */
        int64_t wait_ms;  /* for an answer */
        size_t queued;    /* then libpq is in its pipeline mode */
        const char *queue[POSTGRES_QUEUE_MAX]; /* what they are, for the words */
        char *begin_write_sql;                 /* made at the first connection */
        char schema[POSTGRES_SCHEMA_BYTES];
        struct ls_db_stmt stmts[LS_SQL_COUNT];
        char error[512];
};

/* --- connect.c --- */

/* What a server says of itself and of this session. */
struct postgres_facts {
        int64_t version; /* 150004: 15.4 */
        const char *synchronous_commit, *fsync, *full_page_writes, *encoding;
        bool standby;
};
/* Refuses servers that would lose what they answered: LS_EDB, LS_EREADONLY, with words. */
LS_MUST_USE ls_err postgres_check_facts(const struct postgres_facts *f, struct ls_errinfo *reterr);

/* Opens s->conn and sets the session up. On a failure it is closed, and s->error says why. */
LS_MUST_USE ls_err postgres_connect(struct postgres_db *s);
/* Closes it: prepared statements and a transaction are gone with it. Results stay. */
void postgres_drop(struct postgres_db *s);

/* Waits for the answer to what was sent (`sent`: libpq took it). *ret_result, unless NULL, is the
 * last result; the caller clears it. A session that ended is dropped. `what` is for the words. */
LS_MUST_USE ls_err postgres_answer(struct postgres_db *s, bool sent, const char *what,
                                   PGresult **ret_result);
/* A command is about to be sent whose answer may come later: s->queued counts it. */
LS_MUST_USE ls_err postgres_queue(struct postgres_db *s, const char *what);
/* Waits for the answers to all that is queued. *ret_result, unless NULL, is the last one's. */
LS_MUST_USE ls_err postgres_settle(struct postgres_db *s, PGresult **ret_result);
/* Runs statements without parameters in one round trip, after what is queued. */
LS_MUST_USE ls_err postgres_script(struct postgres_db *s, const char *sql, PGresult **ret_result);
/* Runs a statement for one number. */
LS_MUST_USE ls_err postgres_number(struct postgres_db *s, const char *sql, int64_t *ret_value);

/* --- schema.c --- */

/* Statements that make format level n + 1 from n; ends with NULL. */
extern const char *const *const postgres_steps[];
