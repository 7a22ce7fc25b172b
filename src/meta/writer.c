/* meta/writer.c - the meta thread: everything queued becomes one transaction.
 *
 * submit -> queue -> [ begin | epoch | savepoint apply release | savepoint apply release | … |
 * commit ] -> done …
 *
 * While a commit is being synced, the next ops gather, so that the number of syncs follows the disk
 * and not the number of producers.
 *
 * An op alone in its transaction needs no savepoint: rolling the transaction back is the same.
 *
 * Invariants: `done` runs for each op exactly once, in order of submission, after the transaction
 * has ended; the chunk cache holds only what is committed, plus what the running transaction has
 * written. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "meta/meta_int.h"

static LS_METRIC_SECONDS(meta_commit_seconds, "lakestream_meta_commit_seconds",
                         "Time of a metadata transaction, begin to end of commit.");
static LS_METRIC(meta_ops_total, COUNTER, "lakestream_meta_ops_total",
                 "Metadata operations that were committed.");
static LS_METRIC(meta_txns_total, COUNTER, "lakestream_meta_transactions_total",
                 "Metadata transactions.");
static LS_METRIC(meta_failures_total, COUNTER, "lakestream_meta_failures_total",
                 "Metadata transactions that failed.");

struct meta_batch {
        struct ls_meta_op *ops[LS_META_TXN_OPS_MAX];
        ls_err results[LS_META_TXN_OPS_MAX];
        size_t count;
};

/* --- inside the transaction --- */

/* Begins and makes sure of the epoch; not begun on failure. */
static ls_err
writer_begin(struct ls_meta_txn *txn)
{
        struct ls_meta *m = txn->m;
        int64_t one;
        ls_err e;

        LS_TRY(txn->db->ops->begin(txn->db, true));
        e = ls_db_get_i64(txn->db, LS_SQL_BROKER_CHECK,
                          LS_DB_ARGS(ls_db_int(m->options.broker_id), ls_db_u64(m->epoch)), &one);
        if (e == LS_OK)
                e = txn->db->ops->now_ms(txn->db, &txn->now_ms);
        if (e != LS_OK)
                txn->db->ops->rollback(txn->db);
        return e == LS_ABSENT ? LS_EFENCED : e;
}

ls_err
meta_txn_redo(struct ls_meta_txn *txn)
{
        struct ls_meta *m = txn->m;

        meta_chunks_drop_op(m);
        if (txn->single) {
                txn->db->ops->rollback(txn->db);
                LS_TRY(writer_begin(txn));
        } else {
                LS_TRY(txn->db->ops->rollback_to(txn->db));
                LS_TRY(txn->db->ops->savepoint(txn->db));
        }
        meta_chunks_begin_op(m);
        return LS_OK;
}

ls_err
meta_txn_count(struct ls_meta_txn *txn, enum meta_counter counter, int64_t step,
               uint64_t *ret_value)
{
        int64_t value;
        ls_err e = ls_db_get_i64(txn->db, LS_SQL_COUNTER_ADD,
                                 LS_DB_ARGS(ls_db_int(step), ls_db_int(counter)), &value);

        if (e == LS_ABSENT)
                return LS_EBROKEN; /* counters are made with the database */
        LS_TRY(e);
        *ret_value = (uint64_t)value;
        return LS_OK;
}

/* Runs one op; an outcome undoes it alone. A failure is returned. */
static ls_err
writer_apply(struct ls_meta_txn *txn, struct ls_meta_op *op, ls_err *ret_result)
{
        struct ls_db *db = txn->db;
        ls_err e;

        meta_chunks_begin_op(txn->m);
        if (!txn->single)
                LS_TRY(db->ops->savepoint(db));
        e = op->apply(op, txn);
        *ret_result = e;
        if (e < 0)
                return e;
        if (txn->single)
                return LS_OK; /* an outcome: the transaction is not committed */
        if (e == LS_OK)
                return db->ops->release(db);
        meta_chunks_drop_op(txn->m);
        return db->ops->rollback_to(db);
}

/* Runs and commits; a failure is that of all ops, and nothing is written. */
static ls_err
writer_transaction(struct ls_meta *m, struct meta_batch *b)
{
        struct ls_meta_txn txn = { .m = m, .db = m->db, .single = b->count == 1 };
        bool unknown = false;
        size_t written = 0;
        ls_err e;

        meta_chunks_begin_txn(m);
        LS_TRY(writer_begin(&txn));
        for (size_t i = 0; i < b->count; i++) {
                e = writer_apply(&txn, b->ops[i], &b->results[i]);
                if (e != LS_OK) {
                        m->db->ops->rollback(m->db);
                        meta_chunks_drop_txn(m);
                        return e;
                }
                written += b->results[i] == LS_OK;
        }
        if (written == 0) {
                m->db->ops->rollback(m->db);
                meta_chunks_drop_txn(m);
                return LS_OK;
        }
        e = m->db->ops->commit(m->db, &unknown);
        if (e == LS_OK) {
                if (written > txn.quiet)
                        atomic_fetch_add(&m->changes, 1);
                return LS_OK;
        }
        meta_chunks_drop_txn(m);
        if (unknown) {
                m->dead = LS_EDB;
                if (m->options.on_lost != NULL)
                        m->options.on_lost(m->options.on_lost_ctx, m->db->ops->error(m->db));
        }
        return e;
}

static void
writer_run(struct ls_meta *m, struct meta_batch *b)
{
        int64_t begin_ns = ls_clock_monotonic_ns();
        ls_err e = m->dead != LS_OK ? m->dead : writer_transaction(m, b);

        ls_metric_observe(&meta_commit_seconds, ls_clock_monotonic_ns() - begin_ns);
        ls_metric_add(&meta_txns_total, 1);
        if (e == LS_OK) {
                ls_metric_add(&meta_ops_total, (int64_t)b->count);
        } else {
                ls_metric_add(&meta_failures_total, 1);
                if (m->dead == LS_OK || e != m->dead)
                        ls_log_error("meta", "transaction failed err=%s ops=%zu detail=\"%s\"",
                                     ls_err_name(e), b->count, m->db->ops->error(m->db));
        }
        for (size_t i = 0; i < b->count; i++)
                b->ops[i]->done(b->ops[i], e == LS_OK ? b->results[i] : e);
        if (e == LS_EFENCED && m->dead == LS_OK) {
                m->dead = e;
                if (m->options.on_lost != NULL)
                        m->options.on_lost(m->options.on_lost_ctx,
                                           "this process is fenced: another one was started on the "
                                           "same database with the same broker id");
        }
}

/* --- the queue --- */

/* False: nothing is queued and the end was asked for. */
static bool
writer_take(struct ls_meta *m, struct meta_batch *b)
{
        pthread_mutex_lock(&m->lock);
        while (m->head == NULL && !m->stop)
                ls_cond_wait(&m->work, &m->lock);
        b->count = 0;
        while (m->head != NULL && b->count < LS_META_TXN_OPS_MAX) {
                b->ops[b->count++] = m->head;
                m->head = m->head->next;
        }
        if (m->head == NULL)
                m->tail = NULL;
        pthread_mutex_unlock(&m->lock);
        return b->count > 0;
}

static void
writer_main(void *arg)
{
        struct ls_meta *m = arg;
        struct meta_batch *b = ls_calloc(1, sizeof *b);

        while (writer_take(m, b))
                writer_run(m, b);
        ls_free(b);
}

ls_err
meta_writer_start(struct ls_meta *m)
{
        return ls_thread_start("ls-meta", writer_main, m, &m->thread);
}

void
meta_writer_stop(struct ls_meta *m)
{
        if (m->thread == NULL)
                return;
        pthread_mutex_lock(&m->lock);
        m->stop = true;
        ls_cond_signal(&m->work);
        pthread_mutex_unlock(&m->lock);
        ls_thread_join(m->thread);
        m->thread = NULL;
}

void
ls_meta_submit(struct ls_meta *m, struct ls_meta_op *op)
{
        LS_ASSERT(op->apply != NULL && op->done != NULL);
        op->next = NULL;
        pthread_mutex_lock(&m->lock);
        LS_ASSERT(!m->stop);
        if (m->tail != NULL)
                m->tail->next = op;
        else
                m->head = op;
        m->tail = op;
        ls_cond_signal(&m->work);
        pthread_mutex_unlock(&m->lock);
}

/* --- calls that wait --- */

static void
call_done(struct ls_meta_op *op, ls_err result)
{
        struct meta_call *call = LS_CONTAINER(op, struct meta_call, op);

        pthread_mutex_lock(&call->lock);
        call->result = result;
        call->finished = true;
        ls_cond_signal(&call->cond);
        pthread_mutex_unlock(&call->lock);
}

void
meta_call_begin(struct ls_meta *m, struct meta_call *call)
{
        pthread_mutex_init(&call->lock, NULL);
        ls_cond_init(&call->cond);
        call->finished = false;
        call->op.done = call_done;
        ls_meta_submit(m, &call->op);
}

ls_err
meta_call_wait(struct meta_call *call)
{
        pthread_mutex_lock(&call->lock);
        while (!call->finished)
                ls_cond_wait(&call->cond, &call->lock);
        pthread_mutex_unlock(&call->lock);
        ls_cond_done(&call->cond);
        pthread_mutex_destroy(&call->lock);
        return call->result;
}

ls_err
meta_call_run(struct ls_meta *m, struct meta_call *call)
{
        meta_call_begin(m, call);
        return meta_call_wait(call);
}
