/* meta/commit.c - the WAL commit: a durable WAL object becomes visible.
 *
 * for each batch: partition there? producer right?  -> base offset, in the cached chunk
 *   chunks written on their version                   -> a miss: all of it again
 * sequence of the object, commit number, object row, an index row a stream
 *
 * The locks come first (chunk rows), then the commit number, so that numbers ascend along each
 * partition. A batch that is refused is an outcome of its own; the others go on. A commit of
 * refusals and repeats only writes nothing. */
#include "base/assert.h"
#include "meta/index_blob.h"
#include "meta/meta_int.h"
#include "meta/producers.h"

/* A commit while it is done. */
struct commit_run {
        struct ls_meta_wal_commit *commit;
        struct ls_meta_txn *txn;
        int32_t broker; /* whose object it is */
        uint64_t epoch;
        bool replay;
        size_t accepted;
};

static ls_err
commit_batch_producer(struct commit_run *run, struct meta_chunk *c, struct ls_meta_wal_batch *b)
{
        const struct ls_meta *m = run->txn->m;
        uint32_t at = (uint32_t)b->entry.partition % LS_META_CHUNK_PARTITIONS;
        ls_err e;

        LS_TRY(meta_producers_load(run->txn, c));
        e = meta_producer_check(c->producers, at, &b->entry, run->txn->now_ms,
                                m->options.producer_expiry_ms, &b->entry.base_offset);
        if (e != LS_OK)
                c->refused = true;
        return e;
}

/* Assigns offsets, or says why not. */
static ls_err
commit_batch(struct commit_run *run, struct ls_meta_wal_batch *b)
{
        struct ls_meta_entry *e = &b->entry;
        struct ls_meta_partition *p;
        struct meta_chunk *c;

        if (e->records < 1)
                return LS_INVALID;
        if (e->flags & (LS_META_BATCH_TRANSACTIONAL | LS_META_BATCH_CONTROL))
                return LS_UNSUPPORTED;
        LS_TRY(meta_partition_get(run->txn, b->stream_id, e->partition, &c, &p));
        b->log_start = p->start;
        if (p->end > INT64_MAX - e->records)
                return LS_OUT_OF_RANGE;
        if (e->producer_id >= 0)
                LS_TRY(commit_batch_producer(run, c, b));
        e->base_offset = p->end;
        if (e->producer_id >= 0)
                meta_producer_note(c->producers, (uint32_t)e->partition % LS_META_CHUNK_PARTITIONS,
                                   e, run->txn->now_ms, run->txn->m->options.producer_expiry_ms);
        if (p->stable == p->end)
                p->stable += e->records;
        p->end += e->records;
        p->hash += ls_meta_entry_hash(e);
        p->bytes += e->bytes;
        p->max_timestamp = LS_MAX(p->max_timestamp, e->max_timestamp);
        c->dirty = true;
        return LS_OK;
}

static ls_err
commit_assign(struct commit_run *run)
{
        struct ls_meta_wal_commit *commit = run->commit;

        run->accepted = 0;
        for (size_t i = 0; i < commit->batch_count; i++) {
                struct ls_meta_wal_batch *b = &commit->batches[i];
                ls_err e;

                b->log_start = 0;
                b->entry.base_offset = -1;
                b->entry.object_id = b->entry.commit = 0;
                b->entry.segment = commit->segment;
                e = commit_batch(run, b);
                if (e < 0)
                        return e;
                b->outcome = e;
                run->accepted += e == LS_OK;
        }
        return LS_OK;
}

static ls_err
commit_add_object(struct commit_run *run, uint64_t number, size_t streams)
{
        const struct ls_meta_wal_commit *commit = run->commit;

        return ls_db_exec(run->txn->db, OBJECT_ADD, NULL, ls_db_u64(number), ls_db_int(run->broker),
                          ls_db_u64(run->epoch), ls_db_u64(commit->sequence),
                          ls_db_u64(commit->segment), ls_db_u64(commit->pos),
                          ls_db_u64(commit->bytes), ls_db_u64(streams));
}

/* One index row a stream; *ret_streams: how many. */
static ls_err
commit_add_index(struct commit_run *run, uint64_t number, size_t *ret_streams)
{
        struct ls_meta_wal_commit *commit = run->commit;
        struct ls_buf *buf = &run->txn->m->scratch;
        struct ls_index_header header = { .segment = commit->segment,
                                          .pos = commit->pos,
                                          .committed_ms = run->txn->now_ms };
        size_t streams = 0;

        for (size_t at = 0, next; at < commit->batch_count; at = next) {
                uint64_t stream_id = commit->batches[at].stream_id;
                size_t accepted;

                for (next = at;
                     next < commit->batch_count && commit->batches[next].stream_id == stream_id;)
                        next++;
                ls_buf_clear(buf);
                accepted = ls_index_blob_write(buf, &header, &commit->batches[at], next - at);
                if (ls_buf_failed(buf))
                        return LS_ELIMIT;
                if (accepted == 0)
                        continue;
                LS_TRY(ls_db_exec(run->txn->db, INDEX_ADD, NULL, ls_db_u64(stream_id),
                                  ls_db_u64(number), ls_db_blob(ls_buf_span(buf))));
                streams++;
        }
        *ret_streams = streams;
        return LS_OK;
}

/* LS_CONFLICT: to be done again. */
static ls_err
commit_try(struct commit_run *run)
{
        struct ls_meta_wal_commit *commit = run->commit;
        struct ls_meta_txn *txn = run->txn;
        size_t streams = 0;
        int64_t changes = 0;

        LS_TRY(commit_assign(run));
        LS_TRY(meta_chunks_flush(txn));
        commit->commit = 0;
        if (run->accepted == 0)
                return LS_OK;
        /* Each object once: its sequence is above all that were committed in this epoch. */
        if (!run->replay) {
                LS_TRY(ls_db_exec(txn->db, COUNTER_RAISE, &changes, ls_db_u64(commit->sequence + 1),
                                  ls_db_int(META_COUNTER_BROKER + (int64_t)run->broker)));
                if (changes != 1)
                        return LS_EXISTS;
        }
        LS_TRY(meta_txn_count(txn, META_COUNTER_COMMIT, 1, &commit->commit));
        LS_TRY(commit_add_index(run, commit->commit, &streams));
        LS_TRY(commit_add_object(run, commit->commit, streams));
        for (size_t i = 0; i < commit->batch_count; i++)
                if (commit->batches[i].outcome == LS_OK)
                        commit->batches[i].entry.object_id = commit->batches[i].entry.commit =
                                commit->commit;
        return LS_OK;
}

ls_err
meta_commit_apply(struct ls_meta_wal_commit *commit, struct ls_meta_txn *txn, int32_t broker,
                  uint64_t epoch)
{
        struct commit_run run = { .commit = commit,
                                  .txn = txn,
                                  .broker = epoch != 0 ? broker : txn->m->options.broker_id,
                                  .epoch = epoch != 0 ? epoch : txn->m->epoch,
                                  .replay = epoch != 0 };

        for (int tries = 0; tries < LS_META_REDO_MAX; tries++) {
                ls_err e = commit_try(&run);

                if (e != LS_CONFLICT)
                        return e;
                LS_TRY(meta_txn_redo(txn));
        }
        return LS_EDB;
}

static ls_err
commit_op_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct ls_meta_wal_commit *commit = LS_CONTAINER(op, struct ls_meta_wal_commit, op);

        if (commit->wanted != NULL && !commit->wanted(commit))
                return LS_CANCELED;
        return meta_commit_apply(commit, txn, 0, 0);
}

void
ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit)
{
        for (size_t i = 0; i < commit->batch_count; i++) {
                const struct ls_meta_wal_batch *b = &commit->batches[i], *a = b - (i > 0);

                LS_ASSERT(b->entry.pos >= commit->pos);
                LS_ASSERT(
                        a->stream_id < b->stream_id ||
                        (a->stream_id == b->stream_id && a->entry.partition <= b->entry.partition));
        }
        commit->op.apply = commit_op_apply;
        ls_meta_submit(m, &commit->op);
}
