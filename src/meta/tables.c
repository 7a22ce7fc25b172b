/* meta/tables.c - tables, their files and extents: one transaction changes them together.
 *
 * A table commit is checked first (publish.c), then made:
 *
 *   version of the table   conditional, takes the lock
 *   extents removed        each must be there as stated
 *   files added, extents added, counts of extents per file
 *   files removed          conditional: in the snapshot, and no extent refers to them
 *   floors                 chunk rows on their version
 *   commit number, metadata, producer checkpoints, garbage
 *
 * Invariants: the extents of a partition are dense from offset 0 to its floor, disjoint or of the
 * same [base, end) (a group); data_file.extents
 * counts the rows of `extent` that name it. */
#include <stdlib.h>

#include "base/assert.h"
#include "meta/producers.h"
#include "meta/publish.h"

/* --- the transaction --- */

struct publish_call {
        struct meta_call call;
        struct ls_meta_table_commit *commit;
        struct meta_publish_plan plan;
};

static ls_err
publish_lock(struct publish_call *c, struct ls_meta_txn *txn)
{
        const struct ls_meta_table_commit *commit = c->commit;
        int64_t changes = 0, step = commit->metadata_key != NULL;
        ls_err e;

        LS_TRY(ls_db_exec(txn->db, TABLE_STEP, &changes, ls_db_int(step),
                          ls_db_u64(commit->stream_id), ls_db_u64(commit->version)));
        if (changes == 1)
                return LS_OK;
        e = meta_stream_exists(txn->db, commit->stream_id);
        if (e != LS_OK)
                return e;
        return ls_fail(&c->plan.info, LS_CONFLICT, "another table commit came first");
}

static ls_err
publish_remove_extents(struct publish_call *c, struct ls_meta_txn *txn)
{
        const struct ls_meta_table_commit *commit = c->commit;

        for (size_t i = 0; i < commit->remove_extent_count; i++) {
                const struct ls_meta_extent *x = &commit->remove_extents[i];
                int64_t changes = 0;

                LS_TRY(ls_db_exec(txn->db, EXTENT_REMOVE, &changes, ls_db_u64(commit->stream_id),
                                  ls_db_int(x->partition), ls_db_int(x->base_offset),
                                  ls_db_int(x->end_offset), ls_db_int(x->kind),
                                  ls_db_u64(x->file_id), ls_db_u64(x->hash)));
                if (changes != 1)
                        return ls_fail(&c->plan.info, LS_CONFLICT,
                                       "partition %d has no such extent at offset %lld",
                                       x->partition, (long long)x->base_offset);
        }
        return LS_OK;
}

/* An object on the list of garbage may be deleted at any moment: it cannot be published. */
static ls_err
publish_key_free(struct publish_call *c, struct ls_meta_txn *txn, const char *key)
{
        ls_err e = meta_garbage_free_of(txn->db, key);

        if (e == LS_EXISTS)
                return ls_fail(&c->plan.info, LS_CONFLICT, "%s is on the list of garbage", key);
        return e;
}

static ls_err
publish_add_files(struct publish_call *c, struct ls_meta_txn *txn)
{
        struct ls_meta_table_commit *commit = c->commit;
        uint64_t last = 0;

        if (commit->add_file_count == 0)
                return LS_OK;
        LS_TRY(meta_txn_count(txn, META_COUNTER_FILE, (int64_t)commit->add_file_count, &last));
        for (size_t i = 0; i < commit->add_file_count; i++) {
                struct ls_meta_file *f = &commit->add_files[i];
                int64_t changes = 0;

                LS_TRY(publish_key_free(c, txn, f->key));
                f->id = last - commit->add_file_count + 1 + i;
                LS_TRY(ls_db_exec(txn->db, FILE_ADD, &changes, ls_db_u64(f->id),
                                  ls_db_u64(commit->stream_id), ls_db_text(f->key),
                                  ls_db_u64(f->bytes), ls_db_int(f->rows)));
                if (changes != 1)
                        return ls_fail(&c->plan.info, LS_CONFLICT,
                                       "a data file with the key %s was added before", f->key);
        }
        return LS_OK;
}

static uint64_t
publish_file_id(const struct ls_meta_table_commit *commit, size_t i)
{
        const struct ls_meta_extent *x = &commit->add_extents[i];

        if (x->file_id == 0 || !commit->file_is_new[i])
                return x->file_id;
        return commit->add_files[x->file_id - 1].id;
}

/* Once it stands there: extents of a partition are disjoint, or of the same [base, end). */
static ls_err
publish_extent_clash(struct publish_call *c, struct ls_meta_txn *txn,
                     const struct ls_meta_extent *x)
{
        struct ls_db_stmt *stmt;
        ls_err e;

        LS_TRY(ls_db_query(txn->db, EXTENT_CLASH, &stmt, ls_db_u64(c->commit->stream_id),
                           ls_db_int(x->partition), ls_db_int(x->base_offset),
                           ls_db_int(x->end_offset)));
        e = ls_db_step(txn->db, stmt);
        ls_db_end(txn->db, stmt);
        if (e == LS_END)
                return LS_OK;
        LS_TRY(e);
        return ls_fail(&c->plan.info, LS_CORRUPT,
                       "partition %d has an extent that overlaps offsets %lld to %lld",
                       x->partition, (long long)x->base_offset, (long long)x->end_offset);
}

static ls_err
publish_add_extents(struct publish_call *c, struct ls_meta_txn *txn)
{
        const struct ls_meta_table_commit *commit = c->commit;

        for (size_t i = 0; i < commit->add_extent_count; i++) {
                const struct ls_meta_extent *x = &commit->add_extents[i];
                int64_t changes = 0;

                LS_TRY(ls_db_exec(txn->db, EXTENT_ADD, &changes, ls_db_u64(commit->stream_id),
                                  ls_db_int(x->partition), ls_db_int(x->base_offset),
                                  ls_db_int(x->end_offset), ls_db_int(x->kind),
                                  ls_db_u64(publish_file_id(commit, i)), ls_db_int(x->first_row),
                                  ls_db_int(x->rows), ls_db_int(x->min_timestamp),
                                  ls_db_int(x->max_timestamp), ls_db_u64(x->hash),
                                  ls_db_u64(x->log_bytes), ls_db_int(x->flags),
                                  ls_db_blob(x->inline_bytes)));
                if (changes != 1)
                        return ls_fail(&c->plan.info, LS_CORRUPT,
                                       "partition %d has an extent at offset %lld already",
                                       x->partition, (long long)x->base_offset);
                LS_TRY(publish_extent_clash(c, txn, x));
        }
        return LS_OK;
}

/* How the number of extents of a file changes, and the rows that it must have. */
struct file_change {
        uint64_t id;
        int64_t step, rows;
};

static int
file_change_order(const void *a, const void *b)
{
        const struct file_change *x = a, *y = b;

        return (x->id > y->id) - (x->id < y->id);
}

/* Summed up by file; the caller frees it. */
static struct file_change *
publish_file_changes(const struct ls_meta_table_commit *commit, size_t *ret_count)
{
        struct file_change *all =
                ls_calloc(commit->add_extent_count + commit->remove_extent_count + 1, sizeof *all);
        size_t count = 0, out = 0;

        for (size_t i = 0; i < commit->add_extent_count; i++)
                if (commit->add_extents[i].file_id != 0)
                        all[count++] = (struct file_change){
                                .id = publish_file_id(commit, i),
                                .step = 1,
                                .rows = commit->add_extents[i].first_row +
                                        commit->add_extents[i].rows,
                        };
        for (size_t i = 0; i < commit->remove_extent_count; i++)
                if (commit->remove_extents[i].file_id != 0)
                        all[count++] =
                                (struct file_change){ .id = commit->remove_extents[i].file_id,
                                                      .step = -1 };
        qsort(all, count, sizeof *all, file_change_order);
        for (size_t i = 0; i < count; i++) {
                if (out > 0 && all[out - 1].id == all[i].id) {
                        all[out - 1].step += all[i].step;
                        all[out - 1].rows = LS_MAX(all[out - 1].rows, all[i].rows);
                } else {
                        all[out++] = all[i];
                }
        }
        *ret_count = out;
        return all;
}

static ls_err
publish_count_extents(struct publish_call *c, struct ls_meta_txn *txn)
{
        size_t count;
        struct file_change *changes = publish_file_changes(c->commit, &count);
        ls_err e = LS_OK;

        for (size_t i = 0; i < count && e == LS_OK; i++) {
                int64_t rows = 0;

                e = ls_db_exec(txn->db, FILE_COUNT, &rows, ls_db_int(changes[i].step),
                               ls_db_u64(changes[i].id), ls_db_u64(c->commit->stream_id),
                               ls_db_int(changes[i].rows));
                if (e == LS_OK && rows != 1)
                        e = ls_fail(&c->plan.info, LS_CONFLICT,
                                    "data file %llu is not in the table with these rows",
                                    (unsigned long long)changes[i].id);
        }
        ls_free(changes);
        return e;
}

static ls_err
publish_remove_files(struct publish_call *c, struct ls_meta_txn *txn)
{
        const struct ls_meta_table_commit *commit = c->commit;

        for (size_t i = 0; i < commit->remove_file_count; i++) {
                int64_t changes = 0;

                LS_TRY(ls_db_exec(txn->db, FILE_REMOVE, &changes, ls_db_int(LS_MAX(txn->now_ms, 1)),
                                  ls_db_int(txn->now_ms + commit->garbage_grace_ms),
                                  ls_db_u64(commit->remove_files[i]),
                                  ls_db_u64(commit->stream_id)));
                if (changes != 1)
                        return ls_fail(&c->plan.info, LS_CONFLICT,
                                       "data file %llu is not in the table, or extents refer to it",
                                       (unsigned long long)commit->remove_files[i]);
        }
        return LS_OK;
}

/* Moves floors in the cached chunks, if they stand where the plan saw them. A chunk may be older
 * than the plan: other brokers have appended since. */
static ls_err
publish_floors(struct publish_call *c, struct ls_meta_txn *txn)
{
        for (size_t i = 0; i < c->plan.part_count; i++) {
                const struct meta_publish_part *part = &c->plan.parts[i];
                struct ls_meta_partition *p;
                struct meta_chunk *chunk;

                LS_TRY(meta_partition_get(txn, c->commit->stream_id, part->partition, &chunk, &p));
                if (p->floor != part->p.floor || p->floor_hash != part->p.floor_hash) {
                        chunk->refused = true;
                        return ls_fail(&c->plan.info, LS_CONFLICT,
                                       "partition %d: another commit moved the floor",
                                       part->partition);
                }
                if (part->new_floor < 0)
                        continue;
                if (part->new_floor > p->stable) {
                        chunk->refused = true;
                        return ls_fail(&c->plan.info, LS_CONFLICT,
                                       "partition %d: the floor would pass the log's end",
                                       part->partition);
                }
                if (part->new_floor == p->end && part->floor_hash != p->hash)
                        return ls_fail(&c->plan.info, LS_CORRUPT,
                                       "partition %d: the table's sum is not the log's",
                                       part->partition);
                p->floor = part->new_floor;
                p->floor_hash = part->floor_hash;
                chunk->dirty = true;
        }
        return LS_OK;
}

static ls_err
publish_checkpoints(struct publish_call *c, struct ls_meta_txn *txn)
{
        uint64_t last = UINT64_MAX;

        for (size_t i = 0; i < c->plan.part_count; i++) {
                uint64_t id = meta_chunk_id(c->commit->stream_id, c->plan.parts[i].partition);
                struct meta_chunk *chunk;

                if (id == last || c->plan.parts[i].new_floor < 0)
                        continue;
                last = id;
                LS_TRY(meta_chunk_get(txn, id, &chunk));
                LS_TRY(meta_producers_checkpoint(txn, chunk, c->commit->commit));
        }
        return LS_OK;
}

static ls_err
publish_rest(struct publish_call *c, struct ls_meta_txn *txn)
{
        struct ls_meta_table_commit *commit = c->commit;

        LS_TRY(meta_txn_count(txn, META_COUNTER_COMMIT, 1, &commit->commit));
        for (size_t i = 0; i < commit->add_file_count; i++) {
                commit->add_files[i].added_commit = commit->commit;
                LS_TRY(ls_db_exec(txn->db, FILE_ADDED, NULL, ls_db_u64(commit->commit),
                                  ls_db_u64(commit->add_files[i].id)));
        }
        if (commit->metadata_key != NULL) {
                LS_TRY(publish_key_free(c, txn, commit->metadata_key));
                LS_TRY(ls_db_exec(txn->db, TABLE_SET, NULL, ls_db_u64(commit->commit),
                                  ls_db_int(txn->now_ms), ls_db_text(commit->metadata_key),
                                  ls_db_blob(commit->metadata), ls_db_u64(commit->stream_id)));
        }
        for (size_t i = 0; i < commit->garbage_count; i++)
                LS_TRY(meta_garbage_put(txn->db, commit->garbage[i],
                                        txn->now_ms + commit->garbage_grace_ms));
        return publish_checkpoints(c, txn);
}

/* LS_BUSY: a cached chunk was stale, to be done again. */
static ls_err
publish_try(struct publish_call *c, struct ls_meta_txn *txn)
{
        ls_err e;

        LS_TRY(publish_lock(c, txn));
        e = publish_floors(c, txn);
        if (e >= 0) { /* also what is refused must not be so by a stale chunk */
                ls_err flushed = meta_chunks_flush(txn);

                if (flushed != LS_OK)
                        return flushed == LS_CONFLICT ? LS_BUSY : flushed;
        }
        LS_TRY(e);
        LS_TRY(publish_remove_extents(c, txn));
        LS_TRY(publish_add_files(c, txn));
        LS_TRY(publish_add_extents(c, txn));
        LS_TRY(publish_count_extents(c, txn));
        LS_TRY(publish_remove_files(c, txn));
        return publish_rest(c, txn);
}

static ls_err
publish_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct publish_call *c = LS_CONTAINER(op, struct publish_call, call.op);

        for (int tries = 0; tries < LS_META_REDO_MAX; tries++) {
                ls_err e = publish_try(c, txn);

                if (e != LS_BUSY)
                        return e;
                LS_TRY(meta_txn_redo(txn));
        }
        return LS_EDB;
}

ls_err
ls_meta_table_publish(struct ls_meta *m, struct ls_meta_table_commit *commit,
                      struct ls_errinfo *reterr)
{
        struct publish_call c = { .call.op.apply = publish_apply, .commit = commit };
        ls_err e;

        e = meta_publish_plan(m, commit, &c.plan);
        if (e == LS_OK)
                e = meta_call_run(m, &c.call);
        if (e != LS_OK && reterr != NULL) {
                *reterr = c.plan.info;
                if (reterr->text[0] == '\0')
                        ls_fail(reterr, e, "table commit: %s", ls_err_text(e));
        }
        meta_publish_done(&c.plan);
        return e;
}

/* --- reading --- */

void
ls_meta_table_done(struct ls_meta_table *t)
{
        ls_free(t->metadata_key);
        ls_slice_unref(t->metadata);
        *t = (struct ls_meta_table){ 0 };
}

static ls_err
table_from_row(struct ls_db *db, struct ls_db_stmt *stmt, struct ls_meta_table *ret_table)
{
        struct ls_meta_table t = { .version = ls_db_col_u64(db, stmt, 0),
                                   .commit = ls_db_col_u64(db, stmt, 1),
                                   .updated_ms = ls_db_col_i64(db, stmt, 2) };
        ls_span metadata = ls_db_col_span(db, stmt, 4);

        if (metadata.ptr != NULL) {
                t.metadata = ls_slice_copy(metadata);
                if (t.metadata == NULL)
                        return LS_ELIMIT;
        }
        t.metadata_key = ls_db_col_dup(db, stmt, 3);
        *ret_table = t;
        return LS_OK;
}

ls_err
ls_meta_table(struct ls_meta *m, uint64_t stream_id, struct ls_meta_table *ret_table)
{
        struct ls_db_stmt *stmt;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, TABLE_GET, &stmt, ls_db_u64(stream_id));
        if (e == LS_OK) {
                e = ls_db_step(db, stmt);
                if (e == LS_OK)
                        e = table_from_row(db, stmt, ret_table);
                else if (e == LS_END)
                        e = LS_ABSENT;
                ls_db_end(db, stmt);
        }
        meta_read_end(m, db);
        return e;
}

static ls_err
extent_from_row(struct ls_db *db, struct ls_db_stmt *stmt, struct ls_meta_extent *ret)
{
        int64_t kind = ls_db_col_i64(db, stmt, 3);

        if (kind <= LS_META_EXTENT_WAL || kind > LS_META_EXTENT_HOLE)
                return LS_CORRUPT;
        *ret = (struct ls_meta_extent){
                .partition = ls_db_col_i32(db, stmt, 0),
                .base_offset = ls_db_col_i64(db, stmt, 1),
                .end_offset = ls_db_col_i64(db, stmt, 2),
                .kind = (enum ls_meta_extent_kind)kind,
                .file_id = ls_db_col_u64(db, stmt, 4),
                .first_row = ls_db_col_i64(db, stmt, 5),
                .rows = ls_db_col_i64(db, stmt, 6),
                .min_timestamp = ls_db_col_i64(db, stmt, 7),
                .max_timestamp = ls_db_col_i64(db, stmt, 8),
                .hash = ls_db_col_u64(db, stmt, 9),
                .log_bytes = ls_db_col_u64(db, stmt, 10),
                .flags = (uint8_t)ls_db_col_i64(db, stmt, 11),
                .inline_bytes = ls_db_col_span(db, stmt, 12),
        };
        return LS_OK;
}

/* A data file from columns `at` on: id, key, bytes, rows, added, removed; the key is borrowed, with
 * a NUL behind it, until the next step. */
static void
file_from_row(struct ls_db *db, struct ls_db_stmt *stmt, int at, char **ret_key,
              struct ls_meta_file *ret)
{
        *ret_key = ls_db_col_dup(db, stmt, at + 1);
        *ret = (struct ls_meta_file){
                .id = ls_db_col_u64(db, stmt, at),
                .key = *ret_key,
                .bytes = ls_db_col_u64(db, stmt, at + 2),
                .rows = ls_db_col_i64(db, stmt, at + 3),
                .added_commit = ls_db_col_u64(db, stmt, at + 4),
                .removed_ms = ls_db_col_i64(db, stmt, at + 5),
        };
}

static ls_err
extent_row(struct ls_db *db, struct ls_db_stmt *stmt,
           ls_err (*fn)(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file),
           void *ctx)
{
        struct ls_meta_extent extent;
        struct ls_meta_file file;
        char *key = NULL;
        ls_err e;

        LS_TRY(extent_from_row(db, stmt, &extent));
        if (extent.file_id == 0)
                return fn(ctx, &extent, NULL);
        file_from_row(db, stmt, 13, &key, &file);
        e = key != NULL ? fn(ctx, &extent, &file) : LS_CORRUPT;
        ls_free(key);
        return e;
}

ls_err
ls_meta_extents(struct ls_meta *m, uint64_t stream_id, int32_t partition, int64_t from, int64_t to,
                size_t count_max,
                ls_err (*fn)(void *ctx, const struct ls_meta_extent *e,
                             const struct ls_meta_file *file),
                void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, EXTENT_RANGE, &stmt, ls_db_u64(stream_id), ls_db_int(partition),
                        ls_db_int(from), ls_db_int(to),
                        ls_db_u64(LS_MIN(count_max, (size_t)INT64_MAX)));
        while (e == LS_OK) {
                e = ls_db_step(db, stmt);
                if (e == LS_OK && ls_db_col_i64(db, stmt, 2) > from)
                        e = extent_row(db, stmt, fn, ctx);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

ls_err
ls_meta_files(struct ls_meta *m, uint64_t stream_id, bool removed,
              ls_err (*fn)(void *ctx, const struct ls_meta_file *f), void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, FILE_LIST, &stmt, ls_db_u64(stream_id),
                        ls_db_int(removed ? INT64_MAX : 0));
        while (e == LS_OK) {
                struct ls_meta_file file;
                char *key = NULL;

                e = ls_db_step(db, stmt);
                if (e != LS_OK)
                        break;
                file_from_row(db, stmt, 0, &key, &file);
                e = fn(ctx, &file);
                ls_free(key);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}
