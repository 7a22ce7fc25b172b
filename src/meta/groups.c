/* meta/groups.c - consumer groups: the coordinator's state, and committed offsets.
 *
 * Offsets are stored only while the group's generation is the member's (invariant 9): a locked read
 * held to the commit. A group row of version 0 exists for its offsets only (a client that assigns
 * partitions by itself); the coordinator's first store makes it version 1. */
#include "meta/meta_int.h"

static bool
group_id_ok(const char *group_id)
{
        return group_id != NULL &&
               strnlen(group_id, LS_META_TEXT_BYTES_MAX + 1) <= LS_META_TEXT_BYTES_MAX;
}

/* --- groups --- */

struct group_call {
        struct meta_call call;
        const struct ls_meta_group *group;
        const char *group_id;
        uint64_t version;
};

static ls_err
group_write(struct ls_meta_txn *txn, const struct ls_meta_group *g)
{
        ls_span state = g->state.ptr != NULL ? g->state : ls_span_of("", 0);
        int64_t changes = 0;

        if (!group_id_ok(g->group_id) || state.len > LS_META_GROUP_BYTES_MAX)
                return LS_INVALID;
        if (g->version == 0)
                LS_TRY(ls_db_exec(txn->db, GROUP_ADD, &changes, ls_db_text(g->group_id),
                                  ls_db_int(g->generation), ls_db_blob(state)));
        else
                LS_TRY(ls_db_exec(txn->db, GROUP_SET, &changes, ls_db_int(g->generation),
                                  ls_db_blob(state), ls_db_text(g->group_id),
                                  ls_db_u64(g->version)));
        return changes == 1 ? LS_OK : LS_CONFLICT;
}

static ls_err
group_store_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        return group_write(txn, LS_CONTAINER(op, struct group_call, call.op)->group);
}

ls_err
ls_meta_group_store(struct ls_meta *m, const struct ls_meta_group *group)
{
        struct group_call c = { .call.op.apply = group_store_apply, .group = group };

        return meta_call_run(m, &c.call);
}

static ls_err
group_submit_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        return group_write(txn, &LS_CONTAINER(op, struct ls_meta_group_op, op)->group);
}

void
ls_meta_group_submit(struct ls_meta *m, struct ls_meta_group_op *op)
{
        op->op.apply = group_submit_apply;
        ls_meta_submit(m, &op->op);
}

ls_err
ls_meta_group_list(struct ls_meta *m, ls_err (*fn)(void *ctx, const struct ls_meta_group *g),
                   void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query0(db, GROUP_LIST, &stmt);
        while (e == LS_OK) {
                struct ls_meta_group g;
                char *id;

                e = ls_db_step(db, stmt);
                if (e != LS_OK)
                        break;
                id = ls_db_col_dup(db, stmt, 0);
                g = (struct ls_meta_group){ .group_id = id,
                                            .version = ls_db_col_u64(db, stmt, 1),
                                            .generation = ls_db_col_i32(db, stmt, 2),
                                            .state = ls_db_col_span(db, stmt, 3) };
                e = id != NULL ? fn(ctx, &g) : LS_CORRUPT;
                ls_free(id);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

ls_err
ls_meta_group_get(struct ls_meta *m, const char *group_id,
                  ls_err (*fn)(void *ctx, const struct ls_meta_group *g), void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, GROUP_GET, &stmt, ls_db_text(group_id));
        if (e == LS_INVALID)
                e = LS_END; /* no group can have that name */
        if (e == LS_OK)
                e = ls_db_step(db, stmt);
        if (e == LS_OK) {
                struct ls_meta_group g = { .group_id = group_id,
                                           .version = ls_db_col_u64(db, stmt, 0),
                                           .generation = ls_db_col_i32(db, stmt, 1),
                                           .state = ls_db_col_span(db, stmt, 2) };

                e = fn(ctx, &g);
        } else if (e == LS_END) {
                e = LS_ABSENT;
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e;
}

/* Another coordinator that wrote the row has raised its version: who believes in an older one has
 * lost the group. A locked read, held to the commit; version 0: no check. */
static ls_err
group_version_check(struct ls_meta_txn *txn, const char *group_id, uint64_t version)
{
        int64_t stored = 0;
        ls_err e;

        if (version == 0)
                return LS_OK;
        e = ls_db_get_i64(txn->db, LS_SQL_GROUP_VERSION, LS_DB_ARGS(ls_db_text(group_id)), &stored);
        if (e == LS_ABSENT || (e == LS_OK && (uint64_t)stored != version))
                return LS_CONFLICT;
        return e;
}

static ls_err
group_delete_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        const struct group_call *c = LS_CONTAINER(op, struct group_call, call.op);
        int64_t changes = 0, stored;

        if (c->version == 0)
                LS_TRY(ls_db_exec(txn->db, GROUP_DELETE, &changes, ls_db_text(c->group_id)));
        else
                LS_TRY(ls_db_exec(txn->db, GROUP_DELETE_AT, &changes, ls_db_text(c->group_id),
                                  ls_db_u64(c->version)));
        if (changes == 1)
                return ls_db_exec(txn->db, OFFSETS_DELETE, NULL, ls_db_text(c->group_id));
        if (c->version == 0)
                return LS_ABSENT;
        LS_TRY(ls_db_get_i64(txn->db, LS_SQL_GROUP_VERSION, LS_DB_ARGS(ls_db_text(c->group_id)),
                             &stored)); /* LS_ABSENT */
        return LS_CONFLICT;
}

ls_err
ls_meta_group_delete_at(struct ls_meta *m, const char *group_id, uint64_t version)
{
        struct group_call c = { .call.op.apply = group_delete_apply,
                                .group_id = group_id,
                                .version = version };

        return meta_call_run(m, &c.call);
}

ls_err
ls_meta_group_delete(struct ls_meta *m, const char *group_id)
{
        return ls_meta_group_delete_at(m, group_id, 0);
}

/* --- offsets --- */

static ls_err
offsets_check(struct ls_meta_txn *txn, const char *group_id, int32_t generation)
{
        int64_t stored;
        ls_err e;

        if (generation < 0)
                return ls_db_exec(txn->db, GROUP_MAKE, NULL, ls_db_text(group_id));
        e = ls_db_get_i64(txn->db, LS_SQL_GROUP_GENERATION, LS_DB_ARGS(ls_db_text(group_id)),
                          &stored);
        if (e == LS_ABSENT || (e == LS_OK && stored != generation))
                return LS_STALE_EPOCH;
        return e;
}

static ls_err
offsets_write(struct ls_meta_txn *txn, const char *group_id, int32_t generation,
              struct ls_meta_offset *offsets, size_t count)
{
        LS_TRY(offsets_check(txn, group_id, generation));
        for (size_t i = 0; i < count; i++) {
                struct ls_meta_offset *o = &offsets[i];
                int64_t changes = 0;

                LS_TRY(ls_db_exec(txn->db, OFFSET_PUT, &changes, ls_db_text(group_id),
                                  ls_db_int(o->partition), ls_db_int(o->offset),
                                  ls_db_int(o->leader_epoch), ls_db_str(o->metadata),
                                  ls_db_int(o->commit_ms), ls_db_int(o->expire_ms),
                                  ls_db_u64(o->stream_id)));
                if (changes != 1)
                        o->stream_id = 0;
        }
        return LS_OK;
}

static ls_err
offsets_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct ls_meta_offsets_op *o = LS_CONTAINER(op, struct ls_meta_offsets_op, op);

        LS_TRY(group_version_check(txn, o->group_id, o->version));
        return offsets_write(txn, o->group_id, o->generation, o->offsets, o->count);
}

void
ls_meta_offsets_submit(struct ls_meta *m, struct ls_meta_offsets_op *op)
{
        op->op.apply = offsets_apply;
        ls_meta_submit(m, &op->op);
}

struct offsets_call {
        struct meta_call call;
        const char *group_id;
        int32_t generation;
        uint64_t version;
        struct ls_meta_offset *offsets;
        const struct ls_meta_offset *deletes;
        size_t count;
};

static ls_err
offsets_store_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct offsets_call *c = LS_CONTAINER(op, struct offsets_call, call.op);

        return offsets_write(txn, c->group_id, c->generation, c->offsets, c->count);
}

ls_err
ls_meta_offsets_store(struct ls_meta *m, const char *group_id, int32_t generation,
                      struct ls_meta_offset *offsets, size_t count)
{
        struct offsets_call c = { .call.op.apply = offsets_store_apply,
                                  .group_id = group_id,
                                  .generation = generation,
                                  .offsets = offsets,
                                  .count = count };

        if (!group_id_ok(group_id))
                return LS_INVALID;
        return meta_call_run(m, &c.call);
}

ls_err
ls_meta_offsets(struct ls_meta *m, const char *group_id,
                ls_err (*fn)(void *ctx, const struct ls_meta_offset *o), void *ctx)
{
        struct ls_db_stmt *stmt = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query(db, OFFSET_LIST, &stmt, ls_db_text(group_id));
        while (e == LS_OK) {
                struct ls_meta_offset o;
                char *topic;

                e = ls_db_step(db, stmt);
                if (e != LS_OK)
                        break;
                topic = ls_db_col_dup(db, stmt, 0);
                o = (struct ls_meta_offset){ .topic = topic,
                                             .stream_id = ls_db_col_u64(db, stmt, 1),
                                             .partition = ls_db_col_i32(db, stmt, 2),
                                             .offset = ls_db_col_i64(db, stmt, 3),
                                             .leader_epoch = ls_db_col_i32(db, stmt, 4),
                                             .metadata = ls_db_col_str(db, stmt, 5),
                                             .commit_ms = ls_db_col_i64(db, stmt, 6),
                                             .expire_ms = ls_db_col_i64(db, stmt, 7) };
                e = topic != NULL ? fn(ctx, &o) : LS_CORRUPT;
                ls_free(topic);
        }
        ls_db_end(db, stmt);
        meta_read_end(m, db);
        return e == LS_END ? LS_OK : e;
}

static ls_err
offsets_delete_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct offsets_call *c = LS_CONTAINER(op, struct offsets_call, call.op);

        LS_TRY(group_version_check(txn, c->group_id, c->version));
        for (size_t i = 0; i < c->count; i++)
                LS_TRY(ls_db_exec(txn->db, OFFSET_DELETE, NULL, ls_db_text(c->group_id),
                                  ls_db_u64(c->deletes[i].stream_id),
                                  ls_db_int(c->deletes[i].partition)));
        return LS_OK;
}

ls_err
ls_meta_offsets_delete(struct ls_meta *m, const char *group_id,
                       const struct ls_meta_offset *offsets, size_t count)
{
        return ls_meta_offsets_delete_at(m, group_id, 0, offsets, count);
}

ls_err
ls_meta_offsets_delete_at(struct ls_meta *m, const char *group_id, uint64_t version,
                          const struct ls_meta_offset *offsets, size_t count)
{
        struct offsets_call c = { .call.op.apply = offsets_delete_apply,
                                  .group_id = group_id,
                                  .version = version,
                                  .deletes = offsets,
                                  .count = count };

        return count == 0 ? LS_OK : meta_call_run(m, &c.call);
}
