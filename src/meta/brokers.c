/* meta/brokers.c - rows of brokers: what each tells clients of itself, and when it was last heard.
 *
 * They say where clients are sent, and nothing else: who may commit is decided by the epoch, which
 * every transaction checks (writer.c), so that one who is fenced cannot be heard either. */
#include "meta/meta_int.h"

struct broker_call {
        struct meta_call call;
        const char *kafka, *http;
};

static ls_err
announce_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct broker_call *c = LS_CONTAINER(op, struct broker_call, call.op);

        txn->quiet++;
        return ls_db_exec(txn->db, BROKER_ANNOUNCE, NULL, ls_db_text(c->kafka), ls_db_text(c->http),
                          ls_db_int(txn->now_ms), ls_db_int(txn->m->options.broker_id),
                          ls_db_u64(txn->m->epoch));
}

static bool
address_ok(const char *s)
{
        return s == NULL || strnlen(s, LS_META_TEXT_BYTES_MAX + 1) <= LS_META_TEXT_BYTES_MAX;
}

ls_err
ls_meta_announce(struct ls_meta *m, const char *kafka, const char *http)
{
        struct broker_call c = { .call.op.apply = announce_apply, .kafka = kafka, .http = http };

        return address_ok(kafka) && address_ok(http) ? meta_call_run(m, &c.call) : LS_INVALID;
}

static ls_err
heartbeat_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        txn->quiet++;
        return ls_db_exec(txn->db, BROKER_HEARTBEAT, NULL, ls_db_int(txn->now_ms),
                          ls_db_int(txn->m->options.broker_id), ls_db_u64(txn->m->epoch));
}

ls_err
ls_meta_heartbeat(struct ls_meta *m)
{
        struct meta_call call = { .op.apply = heartbeat_apply };

        return meta_call_run(m, &call);
}

/* --- reading --- */

static ls_err
broker_row(struct ls_db *db, struct ls_db_stmt *stmt, int64_t now_ms,
           ls_err (*fn)(void *ctx, const struct ls_meta_broker *b), void *ctx)
{
        LS_AUTO(ls_free) char *rack = ls_db_col_dup(db, stmt, 3);
        LS_AUTO(ls_free) char *kafka = ls_db_col_dup(db, stmt, 4);
        LS_AUTO(ls_free) char *http = ls_db_col_dup(db, stmt, 5);
        struct ls_meta_broker b = { .id = ls_db_col_i32(db, stmt, 0),
                                    .epoch = ls_db_col_u64(db, stmt, 1),
                                    .open = ls_db_col_i64(db, stmt, 2) != 0,
                                    .rack = rack,
                                    .kafka = kafka,
                                    .http = http,
                                    .opened_ms = ls_db_col_i64(db, stmt, 6),
                                    .heartbeat_ms = ls_db_col_i64(db, stmt, 7) };

        b.heartbeat_age_ms = LS_MAX(now_ms - b.heartbeat_ms, 0); /* the clock may have been set */
        return fn(ctx, &b);
}

ls_err
ls_meta_brokers(struct ls_meta *m, ls_err (*fn)(void *ctx, const struct ls_meta_broker *b),
                void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        int64_t now_ms = 0;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query0(db, BROKER_LIST, &stmt);
        if (e == LS_OK)
                e = db->ops->now_ms(db, &now_ms);
        while (e == LS_OK) {
                e = ls_db_step(db, stmt);
                if (e == LS_OK)
                        e = broker_row(db, stmt, now_ms, fn, ctx);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

ls_err
ls_meta_epoch_open(struct ls_meta *m, uint64_t epoch, bool *ret_open)
{
        struct ls_db *db;
        int64_t one;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_get_i64(db, LS_SQL_BROKER_EPOCH_OPEN, LS_DB_ARGS(ls_db_u64(epoch)), &one);
        meta_read_end(m, db);
        if (e != LS_OK && e != LS_ABSENT)
                return e;
        *ret_open = e == LS_OK;
        return LS_OK;
}
