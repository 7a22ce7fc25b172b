/* meta/partitions.c - partition state and index entries as readers see them; the log start.
 *
 * What a read gives is of one snapshot: state and entries belong together.
 */
#include "base/assert.h"
#include "meta/index_blob.h"
#include "meta/meta_int.h"

/* --- reading --- */

struct entries_read {
        struct ls_meta_partition *parts;
        size_t count;
        ls_err (*fn)(void *ctx, const struct ls_meta_entry *e);
        void *ctx;
};

ls_err
meta_partitions_read(struct ls_db *db, uint64_t stream_id, struct ls_meta_partition **ret_parts,
                     size_t *ret_count)
{
        struct ls_meta_partition *parts = NULL;
        uint64_t next = stream_id * LS_META_CHUNKS_PER_STREAM;
        struct ls_db_stmt *stmt;
        size_t count = 0;
        ls_err e;

        LS_TRY(ls_db_query(db, CHUNK_LIST, &stmt, ls_db_u64(next),
                           ls_db_u64(next + LS_META_CHUNKS_PER_STREAM)));
        while ((e = ls_db_step(db, stmt)) == LS_OK) {
                uint32_t added;

                parts = ls_realloc(parts, count + LS_META_CHUNK_PARTITIONS, sizeof *parts);
                e = meta_chunk_decode(ls_db_col_span(db, stmt, 1), parts + count, &added);
                if (e == LS_OK &&
                    (ls_db_col_u64(db, stmt, 0) != next++ || count % LS_META_CHUNK_PARTITIONS != 0))
                        e = LS_CORRUPT; /* a chunk is missing or short */
                if (e != LS_OK)
                        break;
                count += added;
        }
        ls_db_end(db, stmt);
        if (e != LS_END || count == 0) {
                ls_free(parts);
                return e == LS_END ? LS_ABSENT : e;
        }
        *ret_parts = parts;
        *ret_count = count;
        return LS_OK;
}

ls_err
ls_meta_partitions(struct ls_meta *m, uint64_t stream_id,
                   ls_err (*fn)(void *ctx, int32_t partition, const struct ls_meta_partition *p),
                   void *ctx)
{
        struct ls_meta_partition *parts = NULL;
        struct ls_db *db;
        size_t count = 0;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = meta_partitions_read(db, stream_id, &parts, &count);
        meta_read_end(m, db);
        for (size_t i = 0; i < count && e == LS_OK; i++)
                e = fn(ctx, (int32_t)i, &parts[i]);
        ls_free(parts);
        return e;
}

static ls_err
entries_row(const struct entries_read *read, uint64_t object_id, ls_span blob)
{
        struct ls_index_reader reader;
        struct ls_meta_entry entry;
        ls_err e;

        LS_TRY(ls_index_blob_open(&reader, blob));
        while ((e = ls_index_blob_next(&reader, &entry)) == LS_OK) {
                if ((size_t)entry.partition >= read->count)
                        return LS_CORRUPT;
                if (entry.base_offset + entry.records <= read->parts[entry.partition].floor)
                        continue;
                entry.object_id = entry.commit = object_id;
                LS_TRY(read->fn(read->ctx, &entry));
        }
        return e == LS_END ? LS_OK : e;
}

/* The live entries of `stream_id` behind commit number `after`, of the snapshot that the partitions
 * in `read` are of. */
static ls_err
entries_after(struct ls_db *db, const struct entries_read *read, uint64_t stream_id, uint64_t after)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query(db, INDEX_AFTER, &stmt, ls_db_u64(stream_id), ls_db_u64(after)));
        while ((e = ls_db_step(db, stmt)) == LS_OK) {
                e = entries_row(read, ls_db_col_u64(db, stmt, 0), ls_db_col_span(db, stmt, 1));
                if (e != LS_OK)
                        break;
        }
        ls_db_end(db, stmt);
        return e == LS_END ? LS_OK : e;
}

ls_err
meta_entries_snapshot(struct ls_meta *m, uint64_t stream_id, uint64_t *ret_version,
                      ls_err (*partition_fn)(void *ctx, int32_t partition,
                                             const struct ls_meta_partition *p),
                      ls_err (*entry_fn)(void *ctx, const struct ls_meta_entry *e), void *ctx)
{
        struct entries_read read = { .fn = entry_fn, .ctx = ctx };
        struct ls_db *db;
        int64_t version;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_get_i64(db, LS_SQL_TABLE_VERSION, LS_DB_ARGS(ls_db_u64(stream_id)), &version);
        if (e == LS_OK && ret_version != NULL)
                *ret_version = (uint64_t)version;
        if (e == LS_OK)
                e = meta_partitions_read(db, stream_id, &read.parts, &read.count);
        for (size_t i = 0; i < read.count && e == LS_OK && partition_fn != NULL; i++)
                e = partition_fn(ctx, (int32_t)i, &read.parts[i]);
        if (e == LS_OK && entry_fn != NULL)
                e = entries_after(db, &read, stream_id, 0);
        meta_read_end(m, db);
        ls_free(read.parts);
        return e;
}

ls_err
ls_meta_entries(struct ls_meta *m, uint64_t stream_id,
                ls_err (*fn)(void *ctx, const struct ls_meta_entry *e), void *ctx)
{
        return meta_entries_snapshot(m, stream_id, NULL, NULL, fn, ctx);
}

/* --- following --- */

/* The counter of commit numbers is read in the snapshot that the rows are read in. A transaction
 * raises it and adds its rows, and the next one that raises it waits for the end of that (one
 * writer at a time; on PostgreSQL the counter's row is held to the end besides). So whoever sees
 * the counter at n sees the rows of every number up to n, and no row above: to go on behind n
 * misses nothing and repeats nothing. And a stream that is idle, in an installation that is not,
 * does not look at its old rows again. */
ls_err
ls_meta_follow(struct ls_meta *m, uint64_t stream_id, uint64_t after,
               ls_err (*partition_fn)(void *ctx, int32_t partition,
                                      const struct ls_meta_partition *p),
               ls_err (*entry_fn)(void *ctx, const struct ls_meta_entry *e), void *ctx,
               uint64_t *ret_commit)
{
        struct entries_read read = { .fn = entry_fn, .ctx = ctx };
        int64_t commit = 0;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_get_i64(db, LS_SQL_COUNTER_GET, LS_DB_ARGS(ls_db_int(META_COUNTER_COMMIT)),
                          &commit);
        if (e == LS_ABSENT || (e == LS_OK && (uint64_t)commit < after))
                e = LS_EBROKEN; /* no counter; or the database went back in time */
        if (e == LS_OK)
                e = meta_partitions_read(db, stream_id, &read.parts, &read.count);
        for (size_t i = 0; i < read.count && e == LS_OK; i++)
                e = partition_fn(ctx, (int32_t)i, &read.parts[i]);
        if (e == LS_OK)
                e = entries_after(db, &read, stream_id, after);
        meta_read_end(m, db);
        ls_free(read.parts);
        if (e == LS_OK)
                *ret_commit = (uint64_t)commit;
        return e;
}

static ls_err
versions_streams(struct ls_db *db, ls_err (*fn)(void *ctx, uint64_t stream_id, uint64_t version),
                 void *ctx)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query0(db, STREAM_VERSIONS, &stmt));
        while ((e = ls_db_step(db, stmt)) == LS_OK) {
                e = fn(ctx, ls_db_col_u64(db, stmt, 0), ls_db_col_u64(db, stmt, 1));
                if (e != LS_OK)
                        break;
        }
        ls_db_end(db, stmt);
        return e == LS_END ? LS_OK : e;
}

static ls_err
versions_chunks(struct ls_db *db,
                ls_err (*fn)(void *ctx, uint64_t stream_id, int32_t first_partition,
                             uint64_t version),
                void *ctx)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query0(db, CHUNK_VERSIONS, &stmt));
        while ((e = ls_db_step(db, stmt)) == LS_OK) {
                uint64_t id = ls_db_col_u64(db, stmt, 0);
                int32_t first =
                        (int32_t)(id % LS_META_CHUNKS_PER_STREAM) * LS_META_CHUNK_PARTITIONS;

                e = fn(ctx, meta_chunk_stream(id), first, ls_db_col_u64(db, stmt, 1));
                if (e != LS_OK)
                        break;
        }
        ls_db_end(db, stmt);
        return e == LS_END ? LS_OK : e;
}

ls_err
ls_meta_versions(struct ls_meta *m,
                 ls_err (*stream_fn)(void *ctx, uint64_t stream_id, uint64_t version),
                 ls_err (*chunk_fn)(void *ctx, uint64_t stream_id, int32_t first_partition,
                                    uint64_t version),
                 void *ctx)
{
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = versions_streams(db, stream_fn, ctx);
        if (e == LS_OK)
                e = versions_chunks(db, chunk_fn, ctx);
        meta_read_end(m, db);
        return e;
}

/* --- the log start --- */

struct log_start_call {
        struct meta_call call;
        uint64_t stream_id;
        int32_t partition;
        int64_t start; /* asked for, then what stands */
};

static ls_err
log_start_try(struct log_start_call *c, struct ls_meta_txn *txn)
{
        struct ls_meta_partition *p;
        struct meta_chunk *chunk;
        int64_t start;

        LS_TRY(meta_partition_get(txn, c->stream_id, c->partition, &chunk, &p));
        if (c->start > p->end) {
                chunk->refused = true; /* a stale end must not refuse */
                return LS_OUT_OF_RANGE;
        }
        start = LS_MAX(p->start, LS_MIN(c->start, p->stable));
        if (start > p->start) {
                p->start = start;
                chunk->dirty = true;
        } else {
                chunk->refused = true;
        }
        return LS_OK;
}

static ls_err
log_start_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct log_start_call *c = LS_CONTAINER(op, struct log_start_call, call.op);

        for (int tries = 0; tries < LS_META_REDO_MAX; tries++) {
                ls_err e = log_start_try(c, txn), flushed;

                if (e < 0)
                        return e;
                flushed = meta_chunks_flush(txn);
                if (flushed != LS_OK && flushed != LS_CONFLICT)
                        return flushed;
                if (flushed == LS_OK) {
                        struct ls_meta_partition *p;
                        struct meta_chunk *chunk;

                        if (e == LS_OK) {
                                LS_TRY(meta_partition_get(txn, c->stream_id, c->partition, &chunk,
                                                          &p));
                                c->start = p->start;
                        }
                        return e;
                }
                LS_TRY(meta_txn_redo(txn));
        }
        return LS_EDB;
}

ls_err
ls_meta_log_start(struct ls_meta *m, uint64_t stream_id, int32_t partition, int64_t start,
                  int64_t *ret_start)
{
        struct log_start_call c = { .call.op.apply = log_start_apply,
                                    .stream_id = stream_id,
                                    .partition = partition,
                                    .start = start };

        if (start < 0)
                return LS_OUT_OF_RANGE;
        LS_TRY(meta_call_run(m, &c.call));
        *ret_start = c.start;
        return LS_OK;
}

/* --- discarding what the log hides and no table will get --- */

struct discard_part {
        struct ls_meta_partition p;
        struct ls_meta_extent hole, old; /* old: a hole that ends at the floor; kind 0: none */
        bool stop;                       /* a batch that stays has been met */
};
struct discard {
        struct discard_part *parts;
        size_t count, cap;
};

static ls_err
discard_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct discard *d = ctx;
        struct discard_part part = { .p = *p,
                                     .hole = { .partition = partition,
                                               .kind = LS_META_EXTENT_HOLE,
                                               .base_offset = p->floor,
                                               .end_offset = p->floor,
                                               .min_timestamp = INT64_MAX,
                                               .max_timestamp = INT64_MIN } };

        LS_PUSH(d->parts, d->count, d->cap, part);
        return LS_OK;
}

static ls_err
discard_entry(void *ctx, const struct ls_meta_entry *e)
{
        struct discard *d = ctx;
        struct discard_part *part = &d->parts[e->partition];

        part->stop |= e->base_offset != part->hole.end_offset ||
                      e->base_offset + e->records > part->p.start;
        if (part->stop)
                return LS_OK;
        part->hole.end_offset = e->base_offset + e->records;
        part->hole.hash += ls_meta_entry_hash(e);
        part->hole.log_bytes += e->bytes;
        part->hole.min_timestamp = LS_MIN(part->hole.min_timestamp, e->base_timestamp);
        part->hole.max_timestamp = LS_MAX(part->hole.max_timestamp, e->max_timestamp);
        return LS_OK;
}

static ls_err
discard_old_hole(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        struct discard_part *part = ctx;

        if (e->kind != LS_META_EXTENT_HOLE || e->end_offset != part->p.floor)
                return LS_OK;
        part->old = *e;
        part->hole.base_offset = e->base_offset;
        part->hole.hash += e->hash;
        part->hole.log_bytes += e->log_bytes;
        part->hole.min_timestamp = LS_MIN(part->hole.min_timestamp, e->min_timestamp);
        part->hole.max_timestamp = LS_MAX(part->hole.max_timestamp, e->max_timestamp);
        return LS_OK;
}

/* One table commit without a snapshot: holes in, old holes out, floors up. */
static ls_err
discard_publish(struct ls_meta *m, uint64_t stream_id, uint64_t version, struct discard *d,
                size_t *ret_partitions)
{
        struct ls_meta_extent *adds = ls_calloc(d->count + 1, sizeof *adds);
        struct ls_meta_extent *removes = ls_calloc(d->count + 1, sizeof *removes);
        struct ls_meta_floor *floors = ls_calloc(d->count + 1, sizeof *floors);
        bool *no_files = ls_calloc(d->count + 1, sizeof *no_files);
        struct ls_meta_table_commit commit = { .stream_id = stream_id,
                                               .version = version,
                                               .add_extents = adds,
                                               .file_is_new = no_files,
                                               .remove_extents = removes,
                                               .floors = floors };
        ls_err e = LS_OK;

        for (size_t i = 0; i < d->count && e == LS_OK; i++) {
                struct discard_part *part = &d->parts[i];

                if (part->hole.end_offset == part->p.floor)
                        continue;
                floors[commit.floor_count].partition = (int32_t)i;
                floors[commit.floor_count++].floor = part->hole.end_offset;
                if (part->p.floor > 0)
                        e = ls_meta_extents(m, stream_id, (int32_t)i, part->p.floor - 1,
                                            part->p.floor, 1, discard_old_hole, part);
                if (part->old.kind != LS_META_EXTENT_WAL)
                        removes[commit.remove_extent_count++] = part->old;
                adds[commit.add_extent_count++] = part->hole;
        }
        if (e == LS_OK && commit.floor_count > 0)
                e = ls_meta_table_publish(m, &commit, NULL);
        *ret_partitions = commit.floor_count;
        ls_free(adds);
        ls_free(removes);
        ls_free(floors);
        ls_free(no_files);
        return e;
}

ls_err
ls_meta_log_discard(struct ls_meta *m, uint64_t stream_id, size_t *ret_partitions)
{
        struct discard d = { 0 };
        uint64_t version;
        ls_err e;

        e = meta_entries_snapshot(m, stream_id, &version, discard_partition, discard_entry, &d);
        if (e == LS_OK)
                e = discard_publish(m, stream_id, version, &d, ret_partitions);
        ls_free(d.parts);
        return e;
}
