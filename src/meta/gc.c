/* meta/gc.c - what is dead goes in slices: index rows, WAL objects, deleted streams; and the list
 * of objects of the store that wait for their deletion.
 *
 * Death is for good: floors only rise, numbers of streams are not used again. So the dead are found
 * on a read connection, on the caller's thread, and the meta thread only deletes what it is told.
 */
#include "base/assert.h"
#include "meta/index_blob.h"
#include "meta/meta_int.h"
#include "meta/rebuild.h"

/* --- purging --- */

struct purge_row {
        uint64_t stream_id, object_id;
        uint64_t segment; /* of the object */
        bool has_key;     /* the object is one of the store, of that segment */
};
struct purge_call {
        struct meta_call call;
        struct purge_row *rows;
        size_t count, cap;
        size_t extents_max;                    /* of gone streams, to delete besides */
        uint64_t gone[LS_META_PURGE_GONE_MAX]; /* deleted streams without index rows */
        size_t gone_count;
        size_t deleted; /* out */
};

/* Extents in slices; a stream is done when its last ones went. */
static ls_err
purge_gone(struct purge_call *c, struct ls_meta_txn *txn)
{
        size_t left = c->extents_max;

        for (size_t i = 0; i < c->gone_count && left > 0; i++) {
                int64_t extents = 0, done = 0;

                LS_TRY(ls_db_exec(txn->db, EXTENTS_PURGE, &extents, ls_db_u64(c->gone[i]),
                                  ls_db_u64(left)));
                if ((size_t)extents < left)
                        LS_TRY(ls_db_exec(txn->db, GONE_PURGED, &done, ls_db_u64(c->gone[i])));
                left -= (size_t)extents;
                c->deleted += (size_t)(extents + done);
        }
        return LS_OK;
}

/* An object of the store that no row names any more: nobody would find it but a sweep. */
static ls_err
purge_to_garbage(struct ls_meta_txn *txn, const struct purge_row *row)
{
        const struct ls_meta_options *o = &txn->m->options;
        char key[LS_META_WAL_KEY_BYTES];

        if (!row->has_key)
                return LS_OK;
        o->wal_key(row->segment, key);
        return ls_db_exec(txn->db, OBJECT_TO_GARBAGE, NULL, ls_db_text(key),
                          ls_db_int(txn->now_ms + o->wal_grace_ms), ls_db_u64(row->object_id));
}

/* Nobody waits for an answer in here: other brokers wait for the end of the transaction. So a row
 * that another purge deleted first counts as deleted, too. */
static ls_err
purge_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct purge_call *c = LS_CONTAINER(op, struct purge_call, call.op);

        for (size_t i = 0; i < c->count; i++) {
                struct ls_db_value object = ls_db_u64(c->rows[i].object_id);
                struct ls_db_value stream = ls_db_u64(c->rows[i].stream_id);

                LS_TRY(ls_db_exec(txn->db, OBJECT_RELEASE, NULL, object, stream));
                LS_TRY(ls_db_exec(txn->db, INDEX_DELETE, NULL, stream, object));
                LS_TRY(purge_to_garbage(txn, &c->rows[i]));
                LS_TRY(ls_db_exec(txn->db, OBJECT_DELETE, NULL, object));
        }
        c->deleted = c->count;
        return purge_gone(c, txn);
}

static ls_err
purge_push(struct ls_meta *m, struct ls_db *db, struct purge_call *c, uint64_t stream_id,
           uint64_t object_id)
{
        struct purge_row row = { .stream_id = stream_id, .object_id = object_id };

        if (m->options.wal_key != NULL) {
                int64_t segment = 0;
                ls_err e = ls_db_get_i64(db, LS_SQL_OBJECT_SEGMENT,
                                         LS_DB_ARGS(ls_db_u64(object_id)), &segment);

                if (e != LS_OK && e != LS_ABSENT)
                        return e;
                row.segment = (uint64_t)segment;
                row.has_key = e == LS_OK;
        }
        LS_PUSH(c->rows, c->count, c->cap, row);
        return LS_OK;
}

/* A row is dead when all its batches are below the floor; one that does not decode stays. */
static bool
purge_is_dead(ls_span blob, const struct ls_meta_partition *parts, size_t count)
{
        struct ls_index_reader reader;
        struct ls_meta_entry e;
        ls_err result;

        if (ls_index_blob_open(&reader, blob) != LS_OK)
                return false;
        while ((result = ls_index_blob_next(&reader, &e)) == LS_OK)
                if ((size_t)e.partition >= count ||
                    e.base_offset + e.records > parts[e.partition].floor)
                        return false;
        return result == LS_END;
}

/* The dead rows of one stream, oldest first. */
static ls_err
purge_scan_stream(struct ls_meta *m, struct ls_db *db, uint64_t stream_id, size_t count_max,
                  struct purge_call *c, size_t *looked)
{
        struct ls_meta_partition *parts = NULL;
        struct ls_db_stmt *stmt = NULL;
        size_t count = 0, alive = 0;
        ls_err e;

        e = meta_partitions_read(db, stream_id, &parts, &count);
        if (e == LS_ABSENT)
                e = LS_OK; /* gone: all rows are dead, see below */
        if (e == LS_OK)
                e = ls_db_query(db, INDEX_AFTER, &stmt, ls_db_u64(stream_id), ls_db_int(0));
        while (e == LS_OK && c->count < count_max && alive < LS_META_PURGE_ALIVE_MAX) {
                e = ls_db_step(db, stmt);
                if (e != LS_OK)
                        break;
                ++*looked;
                if (parts == NULL || purge_is_dead(ls_db_col_span(db, stmt, 1), parts, count))
                        e = purge_push(m, db, c, stream_id, ls_db_col_u64(db, stmt, 0));
                else
                        alive++;
        }
        ls_db_end(db, stmt);
        ls_free(parts);
        return e == LS_END || e == LS_CORRUPT ? LS_OK : e; /* a damaged chunk keeps its rows */
}

/* From the cursor through all streams that have rows, once around. */
static ls_err
purge_scan(struct ls_meta *m, struct ls_db *db, size_t count_max, struct purge_call *c)
{
        uint64_t begin, at;
        size_t looked = 0;
        bool wrapped = false;
        ls_err e;

        pthread_mutex_lock(&m->id_lock);
        begin = at = m->purge_stream;
        pthread_mutex_unlock(&m->id_lock);
        while (c->count < count_max && looked < count_max * LS_META_PURGE_SCAN) {
                int64_t next;

                e = ls_db_get_i64(db, LS_SQL_INDEX_NEXT_STREAM, LS_DB_ARGS(ls_db_u64(at)), &next);
                if (e == LS_ABSENT) {
                        if (wrapped)
                                break;
                        wrapped = true;
                        at = 0;
                        continue;
                }
                LS_TRY(e);
                at = (uint64_t)next;
                if (wrapped && at > begin)
                        break;
                looked++;
                LS_TRY(purge_scan_stream(m, db, at, count_max, c, &looked));
        }
        pthread_mutex_lock(&m->id_lock);
        /* A stream that was not finished is looked at again first. */
        m->purge_stream = c->count >= count_max ? at - 1 : at;
        pthread_mutex_unlock(&m->id_lock);
        return LS_OK;
}

/* Streams whose index rows, which the scan meets, are gone already. */
static ls_err
purge_find_gone(struct ls_db *db, struct purge_call *c)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query(db, GONE_UNPURGED, &stmt, ls_db_int(LS_META_PURGE_GONE_MAX)));
        while ((e = ls_db_step(db, stmt)) == LS_OK)
                c->gone[c->gone_count++] = ls_db_col_u64(db, stmt, 0);
        ls_db_end(db, stmt);
        return e == LS_END ? LS_OK : e;
}

ls_err
ls_meta_wal_purge(struct ls_meta *m, size_t count_max, size_t *ret_deleted)
{
        struct purge_call c = { .call.op.apply = purge_apply, .extents_max = count_max };
        struct ls_db *db;
        ls_err e;

        *ret_deleted = 0;
        if (count_max == 0)
                return LS_OK;
        LS_TRY(meta_read_begin(m, &db));
        e = purge_scan(m, db, count_max, &c);
        if (e == LS_OK)
                e = purge_find_gone(db, &c);
        meta_read_end(m, db);
        if (e == LS_OK && (c.count > 0 || c.gone_count > 0)) {
                e = meta_call_run(m, &c.call);
                if (e == LS_OK)
                        *ret_deleted = c.deleted;
        }
        ls_free(c.rows);
        return e;
}

/* --- deleted streams whose folder may go --- */

static ls_err
gone_rows(struct ls_db *db, struct ls_db_stmt *stmt,
          ls_err (*fn)(void *ctx, uint64_t stream_id, ls_uuid topic_id), void *ctx)
{
        ls_err e;

        while ((e = ls_db_step(db, stmt)) == LS_OK) {
                ls_span bytes = ls_db_col_span(db, stmt, 1);
                ls_uuid topic_id;

                if (bytes.len != sizeof topic_id.bytes)
                        return LS_EBROKEN;
                memcpy(topic_id.bytes, bytes.ptr, bytes.len);
                LS_TRY(fn(ctx, ls_db_col_u64(db, stmt, 0), topic_id));
        }
        return e == LS_END ? LS_OK : e;
}

/* The time is the database's, as of who set the grace: a broker whose clock is ahead must not
 * delete what queries still read. */
static ls_err
gc_now_ms(struct ls_meta *m, int64_t *ret_now_ms)
{
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = db->ops->now_ms(db, ret_now_ms);
        meta_read_end(m, db);
        return e;
}

ls_err
ls_meta_gone(struct ls_meta *m, size_t count_max,
             ls_err (*fn)(void *ctx, uint64_t stream_id, ls_uuid topic_id), void *ctx)
{
        int64_t now_ms;

        LS_TRY(gc_now_ms(m, &now_ms));
        return meta_gone_at(m, now_ms, count_max, fn, ctx);
}

ls_err
meta_gone_at(struct ls_meta *m, int64_t now_ms, size_t count_max,
             ls_err (*fn)(void *ctx, uint64_t stream_id, ls_uuid topic_id), void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, GONE_DUE, &stmt, ls_db_int(now_ms),
                        ls_db_u64(LS_MIN(count_max, (size_t)INT64_MAX)));
        if (e == LS_OK)
                e = gone_rows(db, stmt, fn, ctx);
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e;
}

ls_err
ls_meta_gone_all(struct ls_meta *m, ls_err (*fn)(void *ctx, uint64_t stream_id, ls_uuid topic_id),
                 void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query0(db, GONE_LIST, &stmt);
        if (e == LS_OK)
                e = gone_rows(db, stmt, fn, ctx);
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e;
}

struct gone_call {
        struct meta_call call;
        uint64_t stream_id;
};

static ls_err
gone_done_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct gone_call *c = LS_CONTAINER(op, struct gone_call, call.op);

        return ls_db_exec(txn->db, GONE_DONE, NULL, ls_db_u64(c->stream_id));
}

ls_err
ls_meta_gone_done(struct ls_meta *m, uint64_t stream_id)
{
        struct gone_call c = { .call.op.apply = gone_done_apply, .stream_id = stream_id };

        return meta_call_run(m, &c.call);
}

/* --- WAL objects that are named --- */

ls_err
ls_meta_wal_segments(struct ls_meta *m, ls_err (*fn)(void *ctx, uint64_t segment), void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query0(db, OBJECT_SEGMENTS, &stmt);
        while (e == LS_OK) {
                e = ls_db_step(db, stmt);
                if (e == LS_OK)
                        e = fn(ctx, ls_db_col_u64(db, stmt, 0));
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

ls_err
ls_meta_wal_objects(struct ls_meta *m, ls_err (*fn)(void *ctx, const struct ls_meta_wal_object *o),
                    void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query0(db, OBJECT_LIST, &stmt);
        while (e == LS_OK) {
                struct ls_meta_wal_object o;

                e = ls_db_step(db, stmt);
                if (e != LS_OK)
                        break;
                o = (struct ls_meta_wal_object){ .id = ls_db_col_u64(db, stmt, 0),
                                                 .broker = ls_db_col_i32(db, stmt, 1),
                                                 .epoch = ls_db_col_u64(db, stmt, 2),
                                                 .sequence = ls_db_col_u64(db, stmt, 3),
                                                 .segment = ls_db_col_u64(db, stmt, 4),
                                                 .pos = ls_db_col_u64(db, stmt, 5),
                                                 .bytes = ls_db_col_u64(db, stmt, 6) };
                o.commit = o.id;
                e = fn(ctx, &o);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

/* --- garbage --- */

ls_err
meta_garbage_put(struct ls_db *db, const char *key, int64_t due_ms)
{
        return ls_db_exec(db, GARBAGE_PUT, NULL, ls_db_text(key), ls_db_int(due_ms));
}

ls_err
meta_garbage_free_of(struct ls_db *db, const char *key)
{
        int64_t one;
        ls_err e = ls_db_get_i64(db, LS_SQL_GARBAGE_HAS, LS_DB_ARGS(ls_db_text(key)), &one);

        return e == LS_OK ? LS_EXISTS : e == LS_ABSENT ? LS_OK : e;
}

ls_err
ls_meta_garbage(struct ls_meta *m, size_t count_max, ls_err (*fn)(void *ctx, const char *key),
                void *ctx)
{
        int64_t now_ms;

        LS_TRY(gc_now_ms(m, &now_ms));
        return meta_garbage_at(m, now_ms, count_max, fn, ctx);
}

ls_err
ls_meta_garbage_all(struct ls_meta *m, ls_err (*fn)(void *ctx, const char *key), void *ctx)
{
        return meta_garbage_at(m, INT64_MAX, SIZE_MAX, fn, ctx);
}

ls_err
meta_garbage_at(struct ls_meta *m, int64_t now_ms, size_t count_max,
                ls_err (*fn)(void *ctx, const char *key), void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, GARBAGE_DUE, &stmt, ls_db_int(now_ms),
                        ls_db_u64(LS_MIN(count_max, (size_t)INT64_MAX)));
        while (e == LS_OK) {
                char *key;

                e = ls_db_step(db, stmt);
                if (e != LS_OK)
                        break;
                key = ls_db_col_dup(db, stmt, 0);
                e = key != NULL ? fn(ctx, key) : LS_CORRUPT;
                ls_free(key);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

struct garbage_call {
        struct meta_call call;
        const char *const *keys;
        size_t count;
        int64_t due_ms;
};

static ls_err
garbage_add_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct garbage_call *c = LS_CONTAINER(op, struct garbage_call, call.op);

        for (size_t i = 0; i < c->count; i++)
                LS_TRY(meta_garbage_put(txn->db, c->keys[i], c->due_ms));
        return LS_OK;
}

ls_err
ls_meta_garbage_add(struct ls_meta *m, const char *const *keys, size_t count, int64_t due_ms)
{
        struct garbage_call c = {
                .call.op.apply = garbage_add_apply, .keys = keys, .count = count, .due_ms = due_ms
        };

        return count == 0 ? LS_OK : meta_call_run(m, &c.call);
}

static ls_err
garbage_done_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct garbage_call *c = LS_CONTAINER(op, struct garbage_call, call.op);

        for (size_t i = 0; i < c->count; i++) {
                LS_TRY(ls_db_exec(txn->db, GARBAGE_DELETE, NULL, ls_db_text(c->keys[i])));
                LS_TRY(ls_db_exec(txn->db, FILE_FORGET, NULL, ls_db_text(c->keys[i])));
        }
        return LS_OK;
}

ls_err
ls_meta_garbage_done(struct ls_meta *m, const char *const *keys, size_t count)
{
        struct garbage_call c = { .call.op.apply = garbage_done_apply,
                                  .keys = keys,
                                  .count = count };

        return count == 0 ? LS_OK : meta_call_run(m, &c.call);
}

ls_err
ls_meta_names(struct ls_meta *m, const char *key, bool *ret_named)
{
        struct ls_db *db;
        int64_t one;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_get_i64(db, LS_SQL_KEY_NAMED, LS_DB_ARGS(ls_db_text(key)), &one);
        meta_read_end(m, db);
        if (e != LS_OK && e != LS_ABSENT)
                return e;
        *ret_named = e == LS_OK;
        return LS_OK;
}
