/* meta/producers.c - see producers.h. */
#include "meta/producers.h"

#include <stdlib.h>

#include "base/assert.h"
#include "base/crc32c.h"
#include "meta/index_blob.h"

#define PRODUCERS_MAGIC     0xAD
#define PRODUCERS_VERSION   1
#define PRODUCERS_SWEEP_MIN 256
#define PRODUCER_BYTES_MIN  8   /* of one producer in the blob, at least: bounds a count */
#define PRODUCER_BYTES_MAX  140 /* and at most */

_Static_assert((size_t)LS_META_PRODUCERS_MAX *PRODUCER_BYTES_MAX < LS_META_BLOB_BYTES_MAX,
               "a checkpoint must be writable, or compaction stops");

struct producer_key {
        int64_t id;
        uint64_t partition;
};

struct meta_producers *
meta_producers_new(void)
{
        struct meta_producers *p = ls_calloc(1, sizeof *p);

        ls_map_init(&p->by_key);
        p->sweep_at = PRODUCERS_SWEEP_MIN;
        return p;
}

void
meta_producers_free(struct meta_producers *p)
{
        struct ls_map_entry *entry;
        size_t pos = 0;

        if (p == NULL)
                return;
        while ((entry = ls_map_next(&p->by_key, &pos)) != NULL)
                ls_free(entry->value);
        ls_map_done(&p->by_key);
        ls_free(p);
}

static struct meta_producer *
producer_find(const struct meta_producers *p, uint32_t partition, int64_t id)
{
        struct producer_key key = { .id = id, .partition = partition };

        return ls_map_get(&p->by_key, ls_span_of(&key, sizeof key));
}

static void
producer_forget(struct meta_producers *p, struct meta_producer *producer)
{
        struct producer_key key = { .id = producer->id, .partition = producer->partition };

        ls_map_remove(&p->by_key, ls_span_of(&key, sizeof key));
        ls_free(producer);
        p->changed = true;
}

static bool
producer_expired(const struct meta_producer *producer, int64_t now_ms, int64_t expiry_ms)
{
        return expiry_ms > 0 && now_ms - producer->last_ms >= expiry_ms;
}

void
meta_producers_sweep(struct meta_producers *p, int64_t now_ms, int64_t expiry_ms)
{
        struct meta_producer **old = NULL;
        size_t count = 0, cap = 0, pos = 0;
        struct ls_map_entry *entry;

        while ((entry = ls_map_next(&p->by_key, &pos)) != NULL)
                if (producer_expired(entry->value, now_ms, expiry_ms))
                        LS_PUSH(old, count, cap, entry->value);
        for (size_t i = 0; i < count; i++)
                producer_forget(p, old[i]);
        ls_free(old);
        p->sweep_at = LS_MIN(LS_MAX((size_t)PRODUCERS_SWEEP_MIN, p->by_key.count * 2),
                             (size_t)LS_META_PRODUCERS_MAX);
}

static int
producer_age_order(const void *a, const void *b)
{
        const struct meta_producer *x = *(struct meta_producer *const *)a;
        const struct meta_producer *y = *(struct meta_producer *const *)b;

        return (x->last_ms > y->last_ms) - (x->last_ms < y->last_ms);
}

void
meta_producers_trim(struct meta_producers *p, size_t keep)
{
        struct meta_producer **all;
        struct ls_map_entry *entry;
        size_t count = 0, pos = 0;

        if (p->by_key.count <= keep)
                return;
        all = ls_calloc(p->by_key.count, sizeof(struct meta_producer *));
        while ((entry = ls_map_next(&p->by_key, &pos)) != NULL)
                all[count++] = entry->value;
        qsort(all, count, sizeof *all, producer_age_order);
        for (size_t i = 0; i < count - keep; i++)
                producer_forget(p, all[i]);
        ls_free(all);
}

/* --- the rules --- */

/* Sequences go 0 … 2^31 - 1, 0 … */
static int32_t
sequence_add(int32_t sequence, int32_t n)
{
        return (int32_t)(((int64_t)sequence + n) & INT32_MAX);
}

ls_err
meta_producer_check(struct meta_producers *p, uint32_t partition, const struct ls_meta_entry *e,
                    int64_t now_ms, int64_t expiry_ms, int64_t *ret_base_offset)
{
        struct meta_producer *producer = producer_find(p, partition, e->producer_id);
        int32_t last_sequence;

        if (e->base_sequence < 0 || e->producer_epoch < 0)
                return LS_SEQUENCE_GAP; /* only the markers of transactions go without */
        if (producer != NULL && producer_expired(producer, now_ms, expiry_ms)) {
                producer_forget(p, producer);
                producer = NULL;
        }
        /* State may be gone by expiry, with the producer going on: any sequence is right. */
        if (producer == NULL)
                return LS_OK;
        last_sequence = sequence_add(e->base_sequence, e->records - 1);
        for (size_t i = 0; i < producer->batch_count && e->producer_epoch == producer->epoch; i++)
                if (producer->batches[i].first_sequence == e->base_sequence &&
                    producer->batches[i].last_sequence == last_sequence) {
                        *ret_base_offset = producer->batches[i].base_offset;
                        return LS_DUPLICATE;
                }
        if (e->producer_epoch < producer->epoch)
                return LS_STALE_EPOCH;
        if (e->producer_epoch > producer->epoch)
                return e->base_sequence == 0 ? LS_OK : LS_SEQUENCE_GAP;
        last_sequence = producer->batches[producer->batch_count - 1].last_sequence;
        return e->base_sequence == sequence_add(last_sequence, 1) ? LS_OK : LS_SEQUENCE_GAP;
}

void
meta_producer_note(struct meta_producers *p, uint32_t partition, const struct ls_meta_entry *e,
                   int64_t now_ms, int64_t expiry_ms)
{
        struct producer_key key = { .id = e->producer_id, .partition = partition };
        struct meta_producer *producer = producer_find(p, partition, e->producer_id);

        if (producer == NULL) {
                if (p->by_key.count >= p->sweep_at)
                        meta_producers_sweep(p, now_ms, expiry_ms);
                if (p->by_key.count >= LS_META_PRODUCERS_MAX)
                        meta_producers_trim(p, LS_META_PRODUCERS_MAX / 4 * 3);
                producer = ls_calloc(1, sizeof *producer);
                producer->id = e->producer_id;
                producer->partition = partition;
                ls_map_set(&p->by_key, ls_span_of(&key, sizeof key), producer);
        }
        if (producer->epoch != e->producer_epoch)
                producer->batch_count = 0;
        if (producer->batch_count == LS_META_PRODUCER_BATCHES) {
                memmove(&producer->batches[0], &producer->batches[1],
                        (LS_META_PRODUCER_BATCHES - 1) * sizeof producer->batches[0]);
                producer->batch_count--;
        }
        producer->epoch = e->producer_epoch;
        producer->batches[producer->batch_count++] = (struct meta_producer_batch){
                .first_sequence = e->base_sequence,
                .last_sequence = sequence_add(e->base_sequence, e->records - 1),
                .base_offset = e->base_offset,
        };
        producer->last_timestamp = e->max_timestamp;
        producer->last_ms = now_ms;
        p->changed = true;
}

/* --- the checkpoint --- */

static int
producer_order(const void *a, const void *b)
{
        const struct meta_producer *x = *(struct meta_producer *const *)a;
        const struct meta_producer *y = *(struct meta_producer *const *)b;

        if (x->partition != y->partition)
                return x->partition < y->partition ? -1 : 1;
        return (x->id > y->id) - (x->id < y->id);
}

void
meta_producers_encode(struct ls_buf *out, const struct meta_producers *p)
{
        size_t begin = out->len, count = 0, pos = 0;
        struct meta_producer **all = ls_calloc(p->by_key.count + 1, sizeof *all);
        struct ls_map_entry *entry;

        while ((entry = ls_map_next(&p->by_key, &pos)) != NULL)
                all[count++] = entry->value;
        qsort(all, count, sizeof *all, producer_order);
        ls_buf_put_u8(out, PRODUCERS_MAGIC);
        ls_buf_put_u8(out, PRODUCERS_VERSION);
        ls_buf_put_uvarint(out, p->through);
        ls_buf_put_uvarint(out, count);
        for (size_t i = 0; i < count; i++) {
                const struct meta_producer *producer = all[i];

                ls_buf_put_u8(out, (uint8_t)producer->partition);
                ls_buf_put_uvarint(out, (uint64_t)producer->id);
                ls_buf_put_uvarint(out, (uint64_t)producer->epoch);
                ls_buf_put_varint(out, producer->last_timestamp);
                ls_buf_put_varint(out, producer->last_ms);
                ls_buf_put_u8(out, producer->batch_count);
                for (size_t k = 0; k < producer->batch_count; k++) {
                        ls_buf_put_uvarint(out, (uint64_t)producer->batches[k].first_sequence);
                        ls_buf_put_uvarint(out, (uint64_t)producer->batches[k].last_sequence);
                        ls_buf_put_uvarint(out, (uint64_t)producer->batches[k].base_offset);
                }
        }
        if (!ls_buf_failed(out))
                ls_buf_put_le32(out, ls_crc32c(0, ls_span_of(out->ptr + begin, out->len - begin)));
        ls_free(all);
}

static ls_err
producer_decode(struct ls_rd *rd, struct meta_producer *producer)
{
        uint64_t id, epoch;

        producer->partition = ls_rd_u8(rd);
        id = ls_rd_uvarint(rd);
        epoch = ls_rd_uvarint(rd);
        producer->last_timestamp = ls_rd_varint(rd);
        producer->last_ms = ls_rd_varint(rd);
        producer->batch_count = ls_rd_u8(rd);
        if (ls_rd_failed(rd) || producer->partition >= LS_META_CHUNK_PARTITIONS || id > INT64_MAX ||
            epoch > INT16_MAX || producer->batch_count == 0 ||
            producer->batch_count > LS_META_PRODUCER_BATCHES)
                return LS_CORRUPT;
        producer->id = (int64_t)id;
        producer->epoch = (int16_t)epoch;
        for (size_t k = 0; k < producer->batch_count; k++) {
                uint64_t first = ls_rd_uvarint(rd), last = ls_rd_uvarint(rd);
                uint64_t base = ls_rd_uvarint(rd);

                if (ls_rd_failed(rd) || first > INT32_MAX || last > INT32_MAX || base > INT64_MAX)
                        return LS_CORRUPT;
                producer->batches[k] = (struct meta_producer_batch){
                        .first_sequence = (int32_t)first,
                        .last_sequence = (int32_t)last,
                        .base_offset = (int64_t)base,
                };
        }
        return LS_OK;
}

ls_err
meta_producers_decode(ls_span blob, struct meta_producers *p)
{
        uint64_t count;
        struct ls_rd rd;

        if (blob.len < 6 || blob.ptr[0] != PRODUCERS_MAGIC)
                return LS_CORRUPT;
        if (blob.ptr[1] > PRODUCERS_VERSION)
                return LS_NEWER_FORMAT;
        if (blob.ptr[1] != PRODUCERS_VERSION ||
            ls_get_le32(blob.ptr + blob.len - 4) !=
                    ls_crc32c(0, ls_span_of(blob.ptr, blob.len - 4)))
                return LS_CORRUPT;
        rd = ls_rd_of(ls_span_of(blob.ptr + 2, blob.len - 6));
        p->through = ls_rd_uvarint(&rd);
        count = ls_rd_uvarint(&rd);
        if (ls_rd_failed(&rd) || count > ls_rd_left(&rd) / PRODUCER_BYTES_MIN)
                return LS_CORRUPT;
        for (uint64_t i = 0; i < count; i++) {
                struct meta_producer *producer = ls_calloc(1, sizeof *producer);
                ls_err e = producer_decode(&rd, producer);

                if (e == LS_OK) {
                        struct producer_key key = { .id = producer->id,
                                                    .partition = producer->partition };

                        ls_free(ls_map_set(&p->by_key, ls_span_of(&key, sizeof key), producer));
                } else {
                        ls_free(producer);
                        return e;
                }
        }
        return ls_rd_left(&rd) == 0 ? LS_OK : LS_CORRUPT;
}

ls_err
meta_producers_checkpoint(struct ls_meta_txn *txn, struct meta_chunk *c, uint64_t commit)
{
        struct ls_buf *buf = &txn->m->scratch2;

        LS_ASSERT(c->op == txn->m->chunks.op);
        LS_TRY(meta_producers_load(txn, c));
        meta_producers_sweep(c->producers, txn->now_ms, txn->m->options.producer_expiry_ms);
        if (!c->producers->changed)
                return LS_OK;
        c->producers->through = commit;
        ls_buf_clear(buf);
        meta_producers_encode(buf, c->producers);
        if (ls_buf_failed(buf))
                return LS_ELIMIT;
        LS_TRY(ls_db_exec(txn->db, CHUNK_PRODUCERS_PUT, NULL, ls_db_u64(c->id),
                          ls_db_blob(ls_buf_span(buf))));
        c->producers->changed = false;
        return LS_OK;
}

/* --- loading --- */

static ls_err
producers_load_checkpoint(struct ls_meta_txn *txn, struct meta_chunk *c)
{
        struct ls_db *db = txn->db;
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query(db, CHUNK_PRODUCERS_GET, &stmt, ls_db_u64(c->id)));
        e = ls_db_step(db, stmt);
        if (e == LS_OK)
                e = meta_producers_decode(ls_db_col_span(db, stmt, 0), c->producers);
        else if (e == LS_END)
                e = LS_OK;
        ls_db_end(db, stmt);
        c->producers->changed = false;
        return e;
}

/* The chunks that are being loaded, in order of id. */
struct producers_load {
        struct meta_chunk **chunks;
        size_t count, cap;
};

static struct meta_chunk *
load_find(const struct producers_load *load, uint64_t chunk_id)
{
        size_t low = 0, high = load->count;

        while (low < high) {
                size_t mid = (low + high) / 2;

                if (load->chunks[mid]->id < chunk_id)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low < load->count && load->chunks[low]->id == chunk_id ? load->chunks[low] : NULL;
}

/* Plays the batches of one index row into those chunks whose checkpoint does not know them. */
static ls_err
producers_replay_row(struct ls_meta_txn *txn, const struct producers_load *load, uint64_t stream_id,
                     uint64_t object_id, ls_span blob)
{
        int64_t expiry_ms = txn->m->options.producer_expiry_ms;
        struct ls_index_reader reader;
        struct ls_meta_entry entry;
        ls_err e;

        LS_TRY(ls_index_blob_open(&reader, blob));
        while ((e = ls_index_blob_next(&reader, &entry)) == LS_OK) {
                struct meta_chunk *c;

                if (entry.producer_id < 0 || entry.base_sequence < 0)
                        continue;
                c = load_find(load, meta_chunk_id(stream_id, entry.partition));
                if (c == NULL || object_id <= c->producers->through)
                        continue;
                meta_producer_note(c->producers,
                                   (uint32_t)entry.partition % LS_META_CHUNK_PARTITIONS, &entry,
                                   reader.header.committed_ms, expiry_ms);
        }
        return e == LS_END ? LS_OK : e;
}

static ls_err
producers_replay(struct ls_meta_txn *txn, struct producers_load *load, uint64_t stream_id)
{
        struct ls_db *db = txn->db;
        uint64_t after = UINT64_MAX >> 1;
        struct ls_db_stmt *stmt;
        ls_err e;

        for (size_t i = 0; i < load->count; i++)
                after = LS_MIN(after, load->chunks[i]->producers->through);
        LS_TRY(ls_db_query(db, INDEX_AFTER, &stmt, ls_db_u64(stream_id), ls_db_u64(after)));
        while ((e = ls_db_step(db, stmt)) == LS_OK) {
                e = producers_replay_row(txn, load, stream_id, ls_db_col_u64(db, stmt, 0),
                                         ls_db_col_span(db, stmt, 1));
                if (e != LS_OK)
                        break;
        }
        ls_db_end(db, stmt);
        return e == LS_END ? LS_OK : e;
}

/* All chunks of the stream at once: each alone would read the stream's whole index. */
static ls_err
producers_load_stream(struct ls_meta_txn *txn, struct producers_load *load, uint64_t stream_id)
{
        uint64_t first = meta_chunk_id(stream_id, 0);

        for (uint64_t id = first; id < first + LS_META_CHUNKS_PER_STREAM; id++) {
                struct meta_chunk *c;
                ls_err e = meta_chunk_get(txn, id, &c);

                if (e == LS_ABSENT)
                        break;
                if (e == LS_CORRUPT || e == LS_NEWER_FORMAT)
                        continue; /* its own batches meet that */
                LS_TRY(e);
                if (c->producers != NULL)
                        continue;
                c->producers = meta_producers_new();
                LS_PUSH(load->chunks, load->count, load->cap, c);
                LS_TRY(producers_load_checkpoint(txn, c));
        }
        return producers_replay(txn, load, stream_id);
}

ls_err
meta_producers_load(struct ls_meta_txn *txn, struct meta_chunk *c)
{
        struct producers_load load = { 0 };
        ls_err e;

        if (c->producers != NULL)
                return LS_OK;
        e = producers_load_stream(txn, &load, meta_chunk_stream(c->id));
        if (e == LS_OK && c->producers == NULL)
                e = LS_CORRUPT; /* a chunk before this one is missing */
        for (size_t i = 0; i < load.count && e != LS_OK; i++) {
                meta_producers_free(load.chunks[i]->producers);
                load.chunks[i]->producers = NULL;
        }
        ls_free(load.chunks);
        return e;
}

/* --- ids, and the list for DescribeProducers --- */

struct producer_block_call {
        struct meta_call call;
        uint64_t end; /* out */
};

static ls_err
producer_block_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct producer_block_call *c = LS_CONTAINER(op, struct producer_block_call, call.op);

        return meta_txn_count(txn, META_COUNTER_PRODUCER, LS_META_PRODUCER_ID_BLOCK, &c->end);
}

/* The lock is not held while a block is fetched: two that come at once take a block each, and the
 * rest of one is lost, which costs nothing. */
ls_err
ls_meta_producer_new(struct ls_meta *m, int64_t *ret_id)
{
        struct producer_block_call c = { .call.op.apply = producer_block_apply };
        int64_t id = -1;

        pthread_mutex_lock(&m->id_lock);
        if (m->producer_next < m->producer_end)
                id = m->producer_next++;
        pthread_mutex_unlock(&m->id_lock);
        if (id < 0) {
                LS_TRY(meta_call_run(m, &c.call));
                id = (int64_t)c.end - LS_META_PRODUCER_ID_BLOCK;
                pthread_mutex_lock(&m->id_lock);
                if (m->producer_next >= m->producer_end) {
                        m->producer_next = id + 1;
                        m->producer_end = (int64_t)c.end;
                }
                pthread_mutex_unlock(&m->id_lock);
        }
        *ret_id = id;
        return LS_OK;
}

struct producers_call {
        struct meta_call call;
        uint64_t stream_id;
        int32_t partition;
        struct ls_meta_producer *list; /* out */
        size_t count, cap;
};

static ls_err
producers_list_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct producers_call *c = LS_CONTAINER(op, struct producers_call, call.op);
        uint32_t at = (uint32_t)c->partition % LS_META_CHUNK_PARTITIONS;
        struct ls_map_entry *entry;
        struct ls_meta_partition *p;
        struct meta_chunk *chunk;
        size_t pos = 0;

        LS_TRY(meta_partition_get(txn, c->stream_id, c->partition, &chunk, &p));
        LS_TRY(meta_producers_load(txn, chunk));
        while ((entry = ls_map_next(&chunk->producers->by_key, &pos)) != NULL) {
                const struct meta_producer *producer = entry->value;
                struct ls_meta_producer out = {
                        .id = producer->id,
                        .epoch = producer->epoch,
                        .last_timestamp = producer->last_timestamp,
                };

                if (producer->partition != at ||
                    producer_expired(producer, txn->now_ms, txn->m->options.producer_expiry_ms))
                        continue;
                out.last_sequence = producer->batches[producer->batch_count - 1].last_sequence;
                out.last_base_offset = producer->batches[producer->batch_count - 1].base_offset;
                LS_PUSH(c->list, c->count, c->cap, out);
        }
        return LS_OK;
}

ls_err
ls_meta_producers(struct ls_meta *m, uint64_t stream_id, int32_t partition,
                  ls_err (*fn)(void *ctx, const struct ls_meta_producer *p), void *ctx)
{
        struct producers_call c = { .call.op.apply = producers_list_apply,
                                    .stream_id = stream_id,
                                    .partition = partition };
        ls_err e = meta_call_run(m, &c.call);

        for (size_t i = 0; i < c.count && e == LS_OK; i++)
                e = fn(ctx, &c.list[i]);
        ls_free(c.list);
        return e;
}
