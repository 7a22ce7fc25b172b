/* meta/rebuild.c - see rebuild.h. */
#include "meta/rebuild.h"

#include "base/assert.h"
#include "meta/meta_int.h"

/* --- numbers --- */

struct witness_call {
        struct meta_call call;
        const struct ls_meta_witness *w;
        uint64_t epoch; /* out: this broker's */
};

static ls_err
witness_raise(struct ls_meta_txn *txn, enum meta_counter counter, uint64_t value)
{
        return value == 0 ? LS_OK
                          : ls_db_exec(txn->db, COUNTER_RAISE, NULL, ls_db_u64(value),
                                       ls_db_int(counter));
}

/* The epoch of `w` is not given out again, and this broker's is a fresh one above it. */
static ls_err
witness_epoch(struct ls_meta_txn *txn, const struct ls_meta_witness *w, uint64_t *ret_epoch)
{
        struct ls_db_value own = ls_db_int(txn->m->options.broker_id);

        LS_TRY(witness_raise(txn, META_COUNTER_EPOCH, w->epoch));
        *ret_epoch = txn->m->epoch;
        if (w->epoch >= txn->m->epoch) {
                LS_TRY(meta_txn_count(txn, META_COUNTER_EPOCH, 1, ret_epoch));
                LS_TRY(ls_db_exec(txn->db, BROKER_RAISE, NULL, ls_db_u64(*ret_epoch), own));
        }
        if (w->broker != txn->m->options.broker_id)
                return ls_db_exec(txn->db, BROKER_WITNESS, NULL, ls_db_int(w->broker),
                                  ls_db_u64(w->epoch));
        /* All that is there now counts as committed: the next server must not cut it. */
        LS_TRY(ls_db_exec(txn->db, COUNTER_PUT, NULL,
                          ls_db_int(META_COUNTER_BEFORE_EPOCH(w->broker)), ls_db_u64(*ret_epoch)));
        return ls_db_exec(txn->db, COUNTER_PUT, NULL,
                          ls_db_int(META_COUNTER_BEFORE_SEQUENCE(w->broker)), ls_db_int(0));
}

static ls_err
witness_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct witness_call *c = LS_CONTAINER(op, struct witness_call, call.op);
        const struct ls_meta_witness *w = c->w;

        c->epoch = txn->m->epoch;
        LS_TRY(witness_raise(txn, META_COUNTER_COMMIT, w->commit));
        LS_TRY(witness_raise(txn, META_COUNTER_STREAM, w->stream_id));
        LS_TRY(witness_raise(txn, META_COUNTER_FILE, w->file_id));
        if (w->producer_id >= 0)
                LS_TRY(witness_raise(txn, META_COUNTER_PRODUCER, (uint64_t)w->producer_id + 1));
        return w->epoch == 0 ? LS_OK : witness_epoch(txn, w, &c->epoch);
}

ls_err
ls_meta_rebuild_witness(struct ls_meta *m, const struct ls_meta_witness *w)
{
        struct witness_call c = { .call.op.apply = witness_apply, .w = w };

        LS_TRY(meta_call_run(m, &c.call));
        /* The meta thread is idle now; the next op's lock publishes this to it. */
        m->epoch = c.epoch;
        return LS_OK;
}

struct cluster_call {
        struct meta_call call;
        ls_uuid id;
};

static ls_err
cluster_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        const struct cluster_call *c = LS_CONTAINER(op, struct cluster_call, call.op);

        return ls_db_exec(txn->db, INSTALL_CLUSTER, NULL,
                          ls_db_blob(ls_span_of(c->id.bytes, sizeof c->id.bytes)));
}

ls_err
ls_meta_rebuild_cluster(struct ls_meta *m, ls_uuid cluster_id)
{
        struct cluster_call c = { .call.op.apply = cluster_apply, .id = cluster_id };

        LS_TRY(meta_call_run(m, &c.call));
        m->cluster_id = cluster_id; /* the meta thread is idle now */
        return LS_OK;
}

/* --- WAL objects --- */

struct rebuild_wal {
        struct meta_call call;
        struct ls_meta_wal_commit *commit;
        int32_t broker;
        uint64_t epoch;
};

static ls_err
rebuild_wal_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct rebuild_wal *r = LS_CONTAINER(op, struct rebuild_wal, call.op);

        LS_TRY(witness_raise(txn, META_COUNTER_EPOCH, r->epoch));
        return meta_commit_apply(r->commit, txn, r->broker, r->epoch);
}

ls_err
ls_meta_rebuild_wal(struct ls_meta *m, int32_t broker, uint64_t epoch,
                    struct ls_meta_wal_commit *commit)
{
        struct rebuild_wal r = { .call.op.apply = rebuild_wal_apply,
                                 .commit = commit,
                                 .broker = broker,
                                 .epoch = epoch };

        LS_ASSERT(epoch != 0);
        return meta_call_run(m, &r.call);
}

/* --- tables --- */

struct extend_call {
        struct meta_call call;
        const struct ls_meta_table_commit *commit;
};

/* What the added extents of a partition sum up to. */
static void
extend_sums(const struct ls_meta_table_commit *c, int32_t partition, struct ls_meta_partition *p)
{
        p->hash = p->floor_hash;
        for (size_t i = 0; i < c->add_extent_count; i++) {
                const struct ls_meta_extent *x = &c->add_extents[i];

                if (x->partition != partition)
                        continue;
                p->hash += x->hash;
                p->bytes += x->base_offset >= p->end ? x->log_bytes : 0;
                p->max_timestamp = LS_MAX(p->max_timestamp, x->max_timestamp);
        }
        for (size_t i = 0; i < c->remove_extent_count; i++)
                if (c->remove_extents[i].partition == partition)
                        p->hash -= c->remove_extents[i].hash;
}

static ls_err
extend_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        const struct ls_meta_table_commit *c =
                LS_CONTAINER(op, struct extend_call, call.op)->commit;

        for (size_t i = 0; i < c->floor_count; i++) {
                struct ls_meta_partition *p;
                struct meta_chunk *chunk;

                LS_TRY(meta_partition_get(txn, c->stream_id, c->floors[i].partition, &chunk, &p));
                if (c->floors[i].floor <= p->end)
                        continue;
                extend_sums(c, c->floors[i].partition, p);
                p->end = p->stable = c->floors[i].floor;
                chunk->dirty = true;
        }
        return meta_chunks_flush(txn);
}

struct version_call {
        struct meta_call call;
        uint64_t stream_id, from, to;
};

static ls_err
version_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct version_call *c = LS_CONTAINER(op, struct version_call, call.op);
        int64_t changes = 0;

        LS_TRY(ls_db_exec(txn->db, TABLE_STEP, &changes, ls_db_int((int64_t)(c->to - c->from)),
                          ls_db_u64(c->stream_id), ls_db_u64(c->from)));
        return changes == 1 ? LS_OK : LS_CONFLICT;
}

ls_err
ls_meta_rebuild_publish(struct ls_meta *m, struct ls_meta_table_commit *commit, uint64_t version,
                        struct ls_errinfo *reterr)
{
        struct extend_call extend = { .call.op.apply = extend_apply, .commit = commit };
        struct version_call step = { .call.op.apply = version_apply,
                                     .stream_id = commit->stream_id,
                                     .from = commit->version + (commit->metadata_key != NULL),
                                     .to = version };
        ls_err e;

        if (step.to < step.from)
                return ls_fail(reterr, LS_INVALID, "the version of the table would fall");
        /* Not one transaction: a run that stops in between begins anew. */
        e = meta_call_run(m, &extend.call);
        if (e != LS_OK)
                return ls_fail(reterr, e, "rebuild: partitions: %s", ls_err_text(e));
        LS_TRY(ls_meta_table_publish(m, commit, reterr));
        if (step.to == step.from)
                return LS_OK;
        e = meta_call_run(m, &step.call);
        return e == LS_OK ? LS_OK : ls_fail(reterr, e, "rebuild: version: %s", ls_err_text(e));
}
