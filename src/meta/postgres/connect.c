/* meta/postgres/connect.c - a session with the server: opening it, its settings, answers.
 *
 * Every wait is bounded: connecting by connect_timeout, data the server does not acknowledge by
 * tcp_user_timeout, a server that is gone by keepalives, statements and locks by the server's own
 * time-outs, and an answer that does not come at all by `wait_ms` here. A transaction that its
 * broker leaves idle is ended by the server, since other writers wait for it.
 *
 * A session that ended is dropped (s->conn NULL) and opened anew at the next begin. */
#include <poll.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "meta/limits.h"
#include "meta/postgres/postgres_int.h"

#define SCHEMA_DEFAULT "lakestream"

/* --- failures --- */

/* A class, or a whole code, of SQLSTATE. */
static const struct {
        const char *state;
        ls_err e;
        const char *words;
} states[] = {
        { "25006", LS_EREADONLY, " (the server became a standby?)" },
        { "28", LS_EACCESS, "" },
        { "3D000", LS_EACCESS, "" },
        { "40001", LS_EDB, " (another transaction came first: a later try may succeed)" },
        { "40P01", LS_EDB, " (two transactions waited for each other: a later try may succeed)" },
        { "42501", LS_EACCESS, "" },
        { "53100", LS_ENOSPC, "" },
        { "55P03", LS_EDB, " (another transaction holds the lock: a later try may succeed)" },
        { "58", LS_EIO, "" },
        { "XX001", LS_EBROKEN, "" },
        { "XX002", LS_EBROKEN, "" },
};

static void
keep_words(struct postgres_db *s, const char *what, const char *text, const char *more)
{
        size_t len = strcspn(text, "\n"); /* libpq's own end in a newline, and may go on */

        snprintf(s->error, sizeof s->error, "%s: %.*s%s", what, (int)len, text, more);
}

/* Keeps the words of a result that is an error, and gives the failure. */
static ls_err
fail_result(struct postgres_db *s, const PGresult *r, const char *what)
{
        const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
        const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
        const char *text = PQresultErrorField(r, PG_DIAG_MESSAGE_PRIMARY);
        const char *more = "";
        ls_err e = LS_EDB;

        for (size_t i = 0; state != NULL && i < LS_COUNT(states); i++)
                if (strncmp(state, states[i].state, strlen(states[i].state)) == 0) {
                        e = states[i].e;
                        more = states[i].words;
                }
        if (text == NULL)
                text = PQresultErrorMessage(r);
        keep_words(s, what, text[0] != '\0' ? text : "the connection was lost", more);
        if (PQstatus(s->conn) != CONNECTION_OK ||
            (severity != NULL && strcmp(severity, "ERROR") != 0)) {
                postgres_drop(s);
                return LS_EDB;
        }
        return e;
}

void
postgres_drop(struct postgres_db *s)
{
        PQfinish(s->conn);
        s->conn = NULL;
        s->queued = 0;
        for (size_t i = 0; i < LS_SQL_COUNT; i++)
                s->stmts[i].prepared = false;
}

/* --- answers --- */

/* NULL: there is no more, or the session was dropped because nothing came. */
static PGresult *
answer_next(struct postgres_db *s, int64_t until_ms, const char *what)
{
        while (PQisBusy(s->conn)) {
                struct pollfd fd = { .fd = PQsocket(s->conn), .events = POLLIN };
                int left = (int)LS_MIN(until_ms - ls_clock_monotonic_ms(), s->wait_ms);

                if (left <= 0) {
                        keep_words(s, what, "no answer in time", "");
                        postgres_drop(s);
                        return NULL;
                }
                (void)poll(&fd, 1, left); /* banned: libpq has no bounded wait of its own */
                if (!PQconsumeInput(s->conn))
                        break;
        }
        return PQgetResult(s->conn);
}

static bool
result_ok(const PGresult *r)
{
        ExecStatusType status = PQresultStatus(r);

        return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

ls_err
postgres_answer(struct postgres_db *s, bool sent, const char *what, PGresult **ret_result)
{
        int64_t until_ms = ls_clock_monotonic_ms() + s->wait_ms;
        PGresult *kept = NULL, *r;
        ls_err e = LS_OK;

        if (!sent) {
                keep_words(s, what, PQerrorMessage(s->conn), "");
                if (PQstatus(s->conn) != CONNECTION_OK)
                        postgres_drop(s);
                return LS_EDB;
        }
        while (s->conn != NULL && (r = answer_next(s, until_ms, what)) != NULL) {
                if (kept == NULL || result_ok(kept)) {
                        PQclear(kept);
                        kept = r;
                } else {
                        PQclear(r); /* the first error is the cause */
                }
        }
        if (s->conn == NULL)
                e = LS_EDB;
        else if (kept == NULL)
                e = LS_EINTERNAL;
        else if (!result_ok(kept))
                e = fail_result(s, kept, what);
        if (e == LS_OK && ret_result != NULL)
                *ret_result = kept;
        else
                PQclear(kept);
        return e;
}

ls_err
postgres_queue(struct postgres_db *s, const char *what)
{
        if (s->queued == POSTGRES_QUEUE_MAX)
                LS_TRY(postgres_settle(s, NULL));
        if (s->queued == 0 && PQenterPipelineMode(s->conn) != 1) {
                keep_words(s, what, PQerrorMessage(s->conn), "");
                postgres_drop(s);
                return LS_EDB;
        }
        s->queue[s->queued++] = what;
        return LS_OK;
}

/* The answers up to the mark that ends them: a result a command, and NULL behind each. After one
 * that is an error the server skips the rest. */
static ls_err
settle_answers(struct postgres_db *s, PGresult **ret_last)
{
        int64_t until_ms = ls_clock_monotonic_ms() + s->wait_ms;
        ls_err e = LS_OK;

        for (size_t at = 0, nulls = 0; nulls < 2;) {
                PGresult *r = answer_next(s, until_ms, s->queue[LS_MIN(at, s->queued - 1)]);
                ExecStatusType status = PQresultStatus(r);

                if (s->conn == NULL)
                        return LS_EDB;
                nulls = r == NULL ? nulls + 1 : 0;
                if (status == PGRES_PIPELINE_SYNC) {
                        PQclear(r);
                        return e;
                }
                if (r != NULL && result_ok(r)) {
                        PQclear(*ret_last);
                        *ret_last = r;
                        at++;
                } else if (r != NULL) {
                        if (e == LS_OK)
                                e = fail_result(s, r, s->queue[LS_MIN(at, s->queued - 1)]);
                        PQclear(r);
                        if (s->conn == NULL)
                                return e;
                }
        }
        keep_words(s, s->queue[0], "libpq lost count of its answers", "");
        postgres_drop(s);
        return LS_EDB;
}

ls_err
postgres_settle(struct postgres_db *s, PGresult **ret_result)
{
        PGresult *last = NULL;
        ls_err e = LS_EDB;

        if (s->queued == 0)
                return LS_OK;
        if (PQpipelineSync(s->conn) == 1) {
                e = settle_answers(s, &last);
        } else {
                keep_words(s, s->queue[0], PQerrorMessage(s->conn), "");
                postgres_drop(s);
        }
        if (s->conn != NULL && PQexitPipelineMode(s->conn) != 1) {
                keep_words(s, s->queue[0], PQerrorMessage(s->conn), "");
                postgres_drop(s);
                e = LS_EDB;
        }
        s->queued = 0;
        if (e == LS_OK && ret_result != NULL)
                *ret_result = last;
        else
                PQclear(last);
        return e;
}

ls_err
postgres_script(struct postgres_db *s, const char *sql, PGresult **ret_result)
{
        char what[32];

        LS_TRY(postgres_settle(s, NULL));
        snprintf(what, sizeof what, "%s", sql);
        return postgres_answer(s, PQsendQuery(s->conn, sql) == 1, what, ret_result);
}

ls_err
postgres_number(struct postgres_db *s, const char *sql, int64_t *ret_value)
{
        PGresult *r = NULL;
        bool ok;

        LS_TRY(postgres_script(s, sql, &r));
        ok = PQntuples(r) == 1 &&
             ls_str_to_i64(ls_str_of(PQgetvalue(r, 0, 0)), INT64_MIN, INT64_MAX, ret_value);
        PQclear(r);
        return ok ? LS_OK : LS_EBROKEN;
}

/* --- what a server must be --- */

ls_err
postgres_check_facts(const struct postgres_facts *f, struct ls_errinfo *reterr)
{
        if (f->version < 140000)
                return ls_fail(reterr, LS_EDB,
                               "the server is PostgreSQL %lld, 14 or later is needed",
                               (long long)f->version / 10000);
        if (f->standby)
                return ls_fail(reterr, LS_EREADONLY,
                               "the server is a standby: name the primary (target_session_attrs="
                               "primary picks it among several hosts)");
        if (strcmp(f->synchronous_commit, "off") == 0)
                return ls_fail(reterr, LS_EDB,
                               "synchronous_commit is off: a crash of the server would lose "
                               "commits that were answered; set it to on");
        if (strcmp(f->fsync, "on") != 0)
                return ls_fail(reterr, LS_EDB,
                               "fsync is off: a crash of its machine would damage the database");
        if (strcmp(f->full_page_writes, "on") != 0)
                return ls_fail(reterr, LS_EDB,
                               "full_page_writes is off: a crash of its machine would damage the "
                               "database");
        if (strcmp(f->encoding, "UTF8") != 0)
                return ls_fail(reterr, LS_EDB, "the database's encoding is %s, it must be UTF8",
                               f->encoding);
        return LS_OK;
}

/* The schema that the URL names, else ours. It stands in statements, so it must be a plain name. */
static ls_err
session_schema(struct postgres_db *s, const char *from_url)
{
        const char *name = from_url != NULL ? from_url : SCHEMA_DEFAULT;
        size_t len = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_");

        if (len == 0 || len >= sizeof s->schema || name[len] != '\0' || name[0] <= '9') {
                snprintf(s->error, sizeof s->error,
                         "the search_path of the URL must be one schema: lower-case letters, "
                         "digits and _, not \"%.60s\"",
                         name);
                return LS_EDB;
        }
        snprintf(s->schema, sizeof s->schema, "%s", name);
        return LS_OK;
}

static ls_err
session_check(struct postgres_db *s)
{
        struct postgres_facts facts = { .version = PQserverVersion(s->conn) };
        struct ls_errinfo info;
        PGresult *r = NULL;
        ls_err e;

        LS_TRY(postgres_script(s,
                               "SELECT current_setting('synchronous_commit'),"
                               " current_setting('fsync'), current_setting('full_page_writes'),"
                               " current_setting('server_encoding'), pg_is_in_recovery()::int,"
                               " (SELECT setting FROM pg_settings WHERE name = 'search_path'"
                               " AND source = 'client')",
                               &r));
        facts.synchronous_commit = PQgetvalue(r, 0, 0);
        facts.fsync = PQgetvalue(r, 0, 1);
        facts.full_page_writes = PQgetvalue(r, 0, 2);
        facts.encoding = PQgetvalue(r, 0, 3);
        facts.standby = strcmp(PQgetvalue(r, 0, 4), "0") != 0;
        e = postgres_check_facts(&facts, &info);
        if (e != LS_OK)
                snprintf(s->error, sizeof s->error, "%s", info.text);
        else
                e = session_schema(s, PQgetisnull(r, 0, 5) ? NULL : PQgetvalue(r, 0, 5));
        PQclear(r);
        return e;
}

/* Settings of the session, each with its reason. */
static ls_err
session_setup(struct postgres_db *s)
{
        int statement_ms = s->write ? LS_META_STATEMENT_MS : LS_META_READ_STATEMENT_MS;
        int idle_ms = s->write ? LS_META_TXN_IDLE_MS : LS_META_READ_STATEMENT_MS;
        LS_AUTO(ls_free) char *sql = NULL;

        LS_TRY(session_check(s));
        /* synchronous_commit stays what it was found to be, whatever a reload brings. Warnings: a
         * commit that did not reach its standbys says so by one. */
        sql = ls_format("SET search_path TO \"%s\"; SET statement_timeout TO %d;"
                        " SET lock_timeout TO %d;"
                        " SET idle_in_transaction_session_timeout TO %d;"
                        " SET client_min_messages TO warning;"
                        " SELECT set_config('synchronous_commit',"
                        " current_setting('synchronous_commit'), false)",
                        s->schema, statement_ms, LS_META_BUSY_MS, idle_ms);
        LS_TRY(postgres_script(s, sql, NULL));
        s->wait_ms = (int64_t)statement_ms + LS_META_ANSWER_MS;
        if (s->begin_write_sql != NULL)
                return LS_OK;
        /* One writer at a time, see postgres.c; the clock is read once it has the lock. */
        s->begin_write_sql = ls_format(
                "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;"
                " SELECT pg_advisory_xact_lock(hashtextextended('lakestream writer %s', 0));"
                " SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint",
                s->schema);
        return LS_OK;
}

/* A warning, or the last words of a session between two answers. */
static void
session_notice(void *ctx, const PGresult *r)
{
        const char *severity = PQresultErrorField(r, PG_DIAG_SEVERITY_NONLOCALIZED);
        struct postgres_db *s = ctx;

        if (severity != NULL && strcmp(severity, "WARNING") == 0)
                s->warned = true;
        if (severity != NULL && (strcmp(severity, "FATAL") == 0 || strcmp(severity, "PANIC") == 0))
                s->ended = true;
}

ls_err
postgres_connect(struct postgres_db *s)
{
        char connect_s[16], user_ms[16], idle_s[16];
        /* Those before the URL it may set otherwise; those behind it not. */
        const char *const names[] = { "connect_timeout",
                                      "tcp_user_timeout",
                                      "keepalives_idle",
                                      "keepalives_interval",
                                      "keepalives_count",
                                      "fallback_application_name",
                                      "dbname",
                                      "client_encoding",
                                      NULL };
        const char *const values[] = { connect_s,    user_ms, idle_s, "5", "3",
                                       "lakestream", s->url,  "UTF8", NULL };
        ls_err e;

        LS_ASSERT(s->conn == NULL && !s->in_txn);
        snprintf(connect_s, sizeof connect_s, "%d", LS_META_CONNECT_MS / 1000);
        snprintf(user_ms, sizeof user_ms, "%d", LS_META_CONNECT_MS);
        snprintf(idle_s, sizeof idle_s, "%d", LS_META_CONNECT_MS / 1000);
        s->ended = s->warned = false;
        s->wait_ms = LS_META_CONNECT_MS;
        s->conn = PQconnectdbParams(names, values, 1);
        if (s->conn == NULL) {
                snprintf(s->error, sizeof s->error, "no memory for a connection");
                return LS_EDB;
        }
        if (PQstatus(s->conn) != CONNECTION_OK) {
                keep_words(s, "connect", PQerrorMessage(s->conn), "");
                postgres_drop(s);
                return LS_EDB;
        }
        (void)PQsetNoticeReceiver(s->conn, session_notice, s);
        e = session_setup(s);
        if (e != LS_OK && s->conn != NULL)
                postgres_drop(s);
        return e;
}
