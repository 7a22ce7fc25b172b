/* meta/chunks.c - partition state: one row a chunk of 64 partitions, cached on the meta thread.
 *
 * Every write is conditional on the version that was read, and its row count decides; a miss means
 * that another broker came first: the op is undone, the chunk read again, the op done again. What
 * an op *refuses* by cached state is made sure of in the same way (meta_chunks_flush).
 *
 * The cache is changed in place while an op runs. Whatever rolls back, an op or the transaction,
 * forgets the chunks that it touched; they are read again when next needed. So the cache never
 * holds what is not in the database.
 *
 * State blob: docs/formats/metadata.md. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/rd.h"
#include "meta/meta_int.h"
#include "meta/producers.h"

#define CHUNK_MAGIC           0xC7
#define CHUNK_VERSION         1
#define CHUNK_HEADER_BYTES    4
#define CHUNK_PARTITION_BYTES 64

_Static_assert(LS_META_CHUNKS_PER_STREAM *LS_META_CHUNK_PARTITIONS >= LS_META_PARTITIONS_MAX,
               "chunk ids of a stream must not run into the next stream's");

void
meta_chunk_encode(struct ls_buf *out, const struct ls_meta_partition *parts, uint32_t count)
{
        size_t begin = out->len;

        LS_ASSERT(count <= LS_META_CHUNK_PARTITIONS);
        ls_buf_put_u8(out, CHUNK_MAGIC);
        ls_buf_put_u8(out, CHUNK_VERSION);
        ls_buf_put_le16(out, (uint16_t)count);
        for (uint32_t i = 0; i < count; i++) {
                const struct ls_meta_partition *p = &parts[i];

                LS_ASSERT(p->start >= 0 && p->start <= p->end && p->floor <= p->end &&
                          p->stable <= p->end);
                ls_buf_put_le64(out, (uint64_t)p->start);
                ls_buf_put_le64(out, (uint64_t)p->end);
                ls_buf_put_le64(out, (uint64_t)p->stable);
                ls_buf_put_le64(out, (uint64_t)p->floor);
                ls_buf_put_le64(out, p->hash);
                ls_buf_put_le64(out, p->bytes);
                ls_buf_put_le64(out, p->floor_hash);
                ls_buf_put_le64(out, (uint64_t)p->max_timestamp);
        }
        if (!ls_buf_failed(out))
                ls_buf_put_le32(out, ls_crc32c(0, ls_span_of(out->ptr + begin, out->len - begin)));
}

ls_err
meta_chunk_decode(ls_span blob, struct ls_meta_partition *ret_parts, uint32_t *ret_count)
{
        struct ls_rd rd;
        uint32_t count;

        if (blob.len < CHUNK_HEADER_BYTES + 4 || blob.ptr[0] != CHUNK_MAGIC)
                return LS_CORRUPT;
        if (blob.ptr[1] > CHUNK_VERSION)
                return LS_NEWER_FORMAT;
        count = blob.ptr[2] | (uint32_t)blob.ptr[3] << 8;
        if (blob.ptr[1] != CHUNK_VERSION || count > LS_META_CHUNK_PARTITIONS ||
            blob.len != CHUNK_HEADER_BYTES + count * CHUNK_PARTITION_BYTES + 4 ||
            ls_get_le32(blob.ptr + blob.len - 4) !=
                    ls_crc32c(0, ls_span_of(blob.ptr, blob.len - 4)))
                return LS_CORRUPT;
        rd = ls_rd_of(ls_span_of(blob.ptr + CHUNK_HEADER_BYTES, blob.len - CHUNK_HEADER_BYTES));
        for (uint32_t i = 0; i < count; i++) {
                struct ls_meta_partition *p = &ret_parts[i];

                p->start = (int64_t)ls_rd_le64(&rd);
                p->end = (int64_t)ls_rd_le64(&rd);
                p->stable = (int64_t)ls_rd_le64(&rd);
                p->floor = (int64_t)ls_rd_le64(&rd);
                p->hash = ls_rd_le64(&rd);
                p->bytes = ls_rd_le64(&rd);
                p->floor_hash = ls_rd_le64(&rd);
                p->max_timestamp = (int64_t)ls_rd_le64(&rd);
                if (p->start < 0 || p->start > p->end || p->floor < 0 || p->floor > p->end ||
                    p->stable < 0 || p->stable > p->end)
                        return LS_CORRUPT;
        }
        *ret_count = count;
        return LS_OK;
}

/* --- the cache --- */

void
meta_chunk_free(struct meta_chunk *c)
{
        if (c == NULL)
                return;
        meta_producers_free(c->producers);
        ls_free(c->parts);
        ls_free(c);
}

static ls_err
chunk_load(struct ls_meta_txn *txn, uint64_t chunk_id, struct meta_chunk **ret_chunk)
{
        struct ls_db *db = txn->db;
        struct ls_meta_partition parts[LS_META_CHUNK_PARTITIONS];
        struct ls_db_stmt *stmt;
        struct meta_chunk *c;
        uint64_t version = 0;
        uint32_t count = 0;
        ls_err e;

        LS_TRY(ls_db_query(db, CHUNK_GET, &stmt, ls_db_u64(chunk_id)));
        e = ls_db_step(db, stmt);
        if (e == LS_OK) {
                version = ls_db_col_u64(db, stmt, 0);
                e = meta_chunk_decode(ls_db_col_span(db, stmt, 1), parts, &count);
        } else if (e == LS_END) {
                e = LS_ABSENT;
        }
        ls_db_end(db, stmt);
        LS_TRY(e);
        c = ls_calloc(1, sizeof *c);
        c->id = chunk_id;
        c->version = version;
        meta_chunk_resize(c, count);
        if (count > 0)
                memcpy(c->parts, parts, count * sizeof *parts);
        *ret_chunk = c;
        return LS_OK;
}

void
meta_chunk_resize(struct meta_chunk *c, uint32_t count)
{
        static const struct ls_meta_partition fresh = META_PARTITION_FRESH;

        LS_ASSERT(count >= c->count && count <= LS_META_CHUNK_PARTITIONS);
        if (count > 0)
                c->parts = ls_realloc(c->parts, count, sizeof *c->parts);
        for (; c->count < count; c->count++)
                c->parts[c->count] = fresh;
}

ls_err
meta_chunk_get(struct ls_meta_txn *txn, uint64_t chunk_id, struct meta_chunk **ret_chunk)
{
        struct meta_chunks *cache = &txn->m->chunks;
        struct meta_chunk *c = ls_map_get(&cache->by_id, ls_map_key_u64(&chunk_id));

        if (c == NULL) {
                LS_TRY(chunk_load(txn, chunk_id, &c));
                ls_map_set(&cache->by_id, ls_map_key_u64(&chunk_id), c);
        }
        if (c->op != cache->op) {
                c->op = cache->op;
                c->dirty = c->refused = false;
                LS_PUSH(cache->touched, cache->touched_count, cache->touched_cap, chunk_id);
        }
        *ret_chunk = c;
        return LS_OK;
}

ls_err
meta_partition_get(struct ls_meta_txn *txn, uint64_t stream_id, int32_t partition,
                   struct meta_chunk **ret_chunk, struct ls_meta_partition **ret_p)
{
        struct meta_chunk *c;
        uint32_t at;

        if (partition < 0 || partition >= LS_META_PARTITIONS_MAX || stream_id == 0)
                return LS_ABSENT;
        at = (uint32_t)partition % LS_META_CHUNK_PARTITIONS;
        LS_TRY(meta_chunk_get(txn, meta_chunk_id(stream_id, partition), &c));
        if (at >= c->count) {
                c->refused = true;
                return LS_ABSENT;
        }
        *ret_chunk = c;
        *ret_p = &c->parts[at];
        return LS_OK;
}

ls_err
meta_chunk_write(struct ls_meta_txn *txn, struct meta_chunk *c)
{
        struct ls_buf *buf = &txn->m->scratch2;
        int64_t changes = 0;

        LS_ASSERT(c->op == txn->m->chunks.op);
        ls_buf_clear(buf);
        meta_chunk_encode(buf, c->parts, c->count);
        LS_ASSERT(!ls_buf_failed(buf));
        LS_TRY(ls_db_exec(txn->db, CHUNK_SET, &changes, ls_db_blob(ls_buf_span(buf)),
                          ls_db_u64(c->id), ls_db_u64(c->version)));
        if (changes != 1)
                return LS_CONFLICT;
        c->version++;
        c->dirty = c->refused = false;
        return LS_OK;
}

ls_err
meta_chunks_flush(struct ls_meta_txn *txn)
{
        struct meta_chunks *cache = &txn->m->chunks;

        for (size_t i = cache->op_mark; i < cache->touched_count; i++) {
                struct meta_chunk *c;
                int64_t one;
                ls_err e;

                c = ls_map_get(&cache->by_id, ls_map_key_u64(&cache->touched[i]));
                if (c == NULL)
                        continue;
                if (c->dirty) {
                        LS_TRY(meta_chunk_write(txn, c));
                } else if (c->refused) {
                        e = ls_db_get_i64(txn->db, LS_SQL_CHUNK_CHECK,
                                          LS_DB_ARGS(ls_db_u64(c->id), ls_db_u64(c->version)),
                                          &one);
                        if (e == LS_ABSENT)
                                return LS_CONFLICT;
                        LS_TRY(e);
                }
        }
        return LS_OK;
}

void
meta_chunks_begin_txn(struct ls_meta *m)
{
        m->chunks.touched_count = m->chunks.op_mark = 0;
}

void
meta_chunks_begin_op(struct ls_meta *m)
{
        m->chunks.op++;
        m->chunks.op_mark = m->chunks.touched_count;
}

static void
chunks_drop_from(struct ls_meta *m, size_t from)
{
        struct meta_chunks *cache = &m->chunks;

        for (size_t i = from; i < cache->touched_count; i++)
                meta_chunk_free(ls_map_remove(&cache->by_id, ls_map_key_u64(&cache->touched[i])));
        cache->touched_count = from;
}

void
meta_chunks_drop_op(struct ls_meta *m)
{
        chunks_drop_from(m, m->chunks.op_mark);
}

void
meta_chunks_drop_txn(struct ls_meta *m)
{
        chunks_drop_from(m, 0);
}

void
meta_chunks_drop_stream(struct ls_meta *m, uint64_t stream_id)
{
        for (uint64_t i = 0; i < LS_META_CHUNKS_PER_STREAM; i++) {
                uint64_t id = stream_id * LS_META_CHUNKS_PER_STREAM + i;
                struct meta_chunk *c = ls_map_remove(&m->chunks.by_id, ls_map_key_u64(&id));

                meta_chunk_free(c);
        }
}

void
meta_chunks_done(struct ls_meta *m)
{
        struct ls_map_entry *entry;
        size_t pos = 0;

        while ((entry = ls_map_next(&m->chunks.by_id, &pos)) != NULL)
                meta_chunk_free(entry->value);
        ls_map_done(&m->chunks.by_id);
        ls_free(m->chunks.touched);
}
