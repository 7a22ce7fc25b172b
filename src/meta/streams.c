/* meta/streams.c - stream rows: create, delete, grow, configure, list.
 *
 * A live stream is unique by its Kafka name and by catalog, namespace and name. A deleted one
 * leaves its number and topic id in stream_gone, until purging (gc.c) has removed, in slices, what
 * can be large, and the lake has emptied its folder in the store. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "meta/meta_int.h"
#include "meta/rebuild.h"

void
ls_meta_stream_free(struct ls_meta_stream *s)
{
        if (s == NULL)
                return;
        for (size_t i = 0; i < s->config_count; i++) {
                ls_free((void *)(uintptr_t)s->configs[i].name);
                ls_free((void *)(uintptr_t)s->configs[i].value);
        }
        ls_free(s->configs);
        ls_free(s->kafka_name);
        ls_free(s->catalog);
        ls_free(s->ns);
        ls_free(s->name);
        ls_free(s);
}

/* --- reading --- */

static ls_err
stream_from_row(struct ls_db *db, struct ls_db_stmt *stmt, struct ls_meta_stream **ret_stream)
{
        ls_span topic_id = ls_db_col_span(db, stmt, 1);
        struct ls_meta_stream *s;

        if (topic_id.len != sizeof s->topic_id.bytes)
                return LS_EBROKEN;
        s = ls_calloc(1, sizeof *s);
        s->id = ls_db_col_u64(db, stmt, 0);
        memcpy(s->topic_id.bytes, topic_id.ptr, topic_id.len);
        s->kafka_name = ls_db_col_dup(db, stmt, 2);
        s->catalog = ls_db_col_dup(db, stmt, 3);
        s->ns = ls_db_col_dup(db, stmt, 4);
        s->name = ls_db_col_dup(db, stmt, 5);
        s->partitions = ls_db_col_i32(db, stmt, 6);
        s->leader_epoch = ls_db_col_i32(db, stmt, 7);
        s->version = ls_db_col_u64(db, stmt, 8);
        s->created_ms = ls_db_col_i64(db, stmt, 9);
        *ret_stream = s;
        return LS_OK;
}

static void
stream_add_config(struct ls_meta_stream *s, size_t *cap, char *name, char *value)
{
        struct ls_meta_config config = { .name = name, .value = value };

        LS_PUSH(s->configs, s->config_count, *cap, config);
}

/* The stream with its settings. LS_ABSENT. */
static ls_err
stream_get(struct ls_db *db, uint64_t id, struct ls_meta_stream **ret_stream)
{
        struct ls_meta_stream *s = NULL;
        struct ls_db_stmt *stmt;
        size_t cap = 0;
        ls_err e;

        LS_TRY(ls_db_query(db, STREAM_GET, &stmt, ls_db_u64(id)));
        e = ls_db_step(db, stmt);
        if (e == LS_OK)
                e = stream_from_row(db, stmt, &s);
        else if (e == LS_END)
                e = LS_ABSENT;
        ls_db_end(db, stmt);
        LS_TRY(e);
        e = ls_db_query(db, CONFIG_LIST, &stmt, ls_db_u64(id));
        if (e == LS_OK) {
                while ((e = ls_db_step(db, stmt)) == LS_OK)
                        stream_add_config(s, &cap, ls_db_col_dup(db, stmt, 0),
                                          ls_db_col_dup(db, stmt, 1));
                ls_db_end(db, stmt);
        }
        if (e != LS_END) {
                ls_meta_stream_free(s);
                return e;
        }
        *ret_stream = s;
        return LS_OK;
}

ls_err
meta_stream_exists(struct ls_db *db, uint64_t stream_id)
{
        int64_t one;

        return ls_db_get_i64(db, LS_SQL_STREAM_EXISTS, LS_DB_ARGS(ls_db_u64(stream_id)), &one);
}

/* Two queries side by side, both ordered by stream: 10,000 streams cost two statements. */
static ls_err
stream_list_merge(struct ls_db *db, struct ls_db_stmt *rows, struct ls_db_stmt *configs,
                  ls_err (*fn)(void *ctx, const struct ls_meta_stream *s), void *ctx)
{
        ls_err config = ls_db_step(db, configs), e;

        while ((e = ls_db_step(db, rows)) == LS_OK) {
                struct ls_meta_stream *s;
                size_t cap = 0;

                LS_TRY(stream_from_row(db, rows, &s));
                while (config == LS_OK && ls_db_col_u64(db, configs, 0) <= s->id) {
                        if (ls_db_col_u64(db, configs, 0) == s->id)
                                stream_add_config(s, &cap, ls_db_col_dup(db, configs, 1),
                                                  ls_db_col_dup(db, configs, 2));
                        config = ls_db_step(db, configs);
                }
                e = config < 0 ? config : fn(ctx, s);
                ls_meta_stream_free(s);
                LS_TRY(e);
        }
        return e == LS_END ? LS_OK : e;
}

ls_err
ls_meta_stream_list(struct ls_meta *m, ls_err (*fn)(void *ctx, const struct ls_meta_stream *s),
                    void *ctx)
{
        struct ls_db_stmt *rows = NULL, *configs = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = ls_db_query0(db, STREAM_LIST, &rows);
        if (e == LS_OK)
                e = ls_db_query0(db, CONFIG_ALL, &configs);
        if (e == LS_OK)
                e = stream_list_merge(db, rows, configs, fn, ctx);
        ls_db_end(db, rows);
        ls_db_end(db, configs);
        meta_read_end(m, db);
        return e;
}

ls_err
ls_meta_stream_get(struct ls_meta *m, uint64_t stream_id,
                   ls_err (*fn)(void *ctx, const struct ls_meta_stream *s), void *ctx)
{
        struct ls_meta_stream *s = NULL;
        struct ls_db *db;
        ls_err e;

        LS_TRY(meta_read_begin(m, &db));
        e = stream_get(db, stream_id, &s);
        meta_read_end(m, db);
        if (e == LS_OK)
                e = fn(ctx, s);
        ls_meta_stream_free(s);
        return e;
}

/* --- writing --- */

struct stream_call {
        struct meta_call call;
        const struct ls_meta_stream *spec;
        bool again; /* with the spec's ids: rebuild.h */
        uint64_t id, version;
        int32_t partitions;
        int64_t grace_ms;
        const struct ls_meta_config *changes;
        size_t change_count;
        struct ls_meta_stream *stream; /* out */
};

/* Runs the call; its stream goes to the caller on success only. */
static ls_err
stream_call_run(struct ls_meta *m, struct stream_call *c, struct ls_meta_stream **ret_stream)
{
        ls_err e = meta_call_run(m, &c->call);

        if (e == LS_OK && ret_stream != NULL)
                *ret_stream = c->stream;
        else
                ls_meta_stream_free(c->stream);
        return e;
}

static bool
stream_name_ok(const char *name)
{
        return name != NULL && name[0] != '\0' &&
               strnlen(name, LS_META_NAME_BYTES_MAX + 1) <= LS_META_NAME_BYTES_MAX;
}

static bool
stream_configs_ok(const struct ls_meta_config *configs, size_t count)
{
        for (size_t i = 0; i < count; i++)
                if (!stream_name_ok(configs[i].name) ||
                    (configs[i].value != NULL &&
                     strnlen(configs[i].value, LS_META_TEXT_BYTES_MAX + 1) >
                             LS_META_TEXT_BYTES_MAX))
                        return false;
        return true;
}

static ls_err
stream_set_configs(struct ls_db *db, uint64_t id, const struct ls_meta_config *configs,
                   size_t count)
{
        for (size_t i = 0; i < count; i++) {
                if (configs[i].value == NULL)
                        LS_TRY(ls_db_exec(db, CONFIG_UNSET, NULL, ls_db_u64(id),
                                          ls_db_text(configs[i].name)));
                else
                        LS_TRY(ls_db_exec(db, CONFIG_PUT, NULL, ls_db_u64(id),
                                          ls_db_text(configs[i].name),
                                          ls_db_text(configs[i].value)));
        }
        return LS_OK;
}

/* Adds chunk rows for partitions [from, to); `from` begins a chunk. */
static ls_err
stream_add_chunks(struct ls_meta_txn *txn, uint64_t id, int32_t from, int32_t to)
{
        static const struct ls_meta_partition fresh = META_PARTITION_FRESH;
        struct ls_meta_partition parts[LS_META_CHUNK_PARTITIONS];
        struct ls_buf *buf = &txn->m->scratch2;

        for (size_t i = 0; i < LS_COUNT(parts); i++)
                parts[i] = fresh;
        LS_ASSERT(from % LS_META_CHUNK_PARTITIONS == 0);
        for (int32_t at = from; at < to; at += LS_META_CHUNK_PARTITIONS) {
                ls_buf_clear(buf);
                meta_chunk_encode(buf, parts, (uint32_t)LS_MIN(to - at, LS_META_CHUNK_PARTITIONS));
                LS_ASSERT(!ls_buf_failed(buf));
                LS_TRY(ls_db_exec(txn->db, CHUNK_ADD, NULL, ls_db_u64(meta_chunk_id(id, at)),
                                  ls_db_blob(ls_buf_span(buf))));
        }
        return LS_OK;
}

static ls_err
stream_create_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct stream_call *c = LS_CONTAINER(op, struct stream_call, call.op);
        const struct ls_meta_stream *spec = c->spec;
        ls_uuid topic_id = spec->topic_id;
        uint64_t id = spec->id;
        uint8_t random[16];
        int64_t changes = 0;

        if (c->again) {
                LS_TRY(ls_db_exec(txn->db, COUNTER_RAISE, NULL, ls_db_u64(id),
                                  ls_db_int(META_COUNTER_STREAM)));
        } else {
                LS_TRY(meta_txn_count(txn, META_COUNTER_STREAM, 1, &id));
                ls_random(random, sizeof random);
                topic_id = ls_uuid_v4(random);
        }
        LS_TRY(ls_db_exec(txn->db, STREAM_ADD, &changes, ls_db_u64(id),
                          ls_db_blob(ls_span_of(topic_id.bytes, sizeof topic_id.bytes)),
                          ls_db_text(spec->kafka_name), ls_db_text(spec->catalog),
                          ls_db_text(spec->ns), ls_db_text(spec->name), ls_db_int(spec->partitions),
                          ls_db_int(spec->leader_epoch),
                          ls_db_int(c->again ? spec->created_ms : txn->now_ms)));
        if (changes != 1)
                return LS_EXISTS;
        LS_TRY(stream_set_configs(txn->db, id, spec->configs, spec->config_count));
        LS_TRY(stream_add_chunks(txn, id, 0, spec->partitions));
        LS_TRY(ls_db_exec(txn->db, TABLE_ADD, NULL, ls_db_u64(id)));
        return stream_get(txn->db, id, &c->stream);
}

static bool
stream_spec_ok(const struct ls_meta_stream *spec)
{
        return stream_name_ok(spec->kafka_name) && stream_name_ok(spec->catalog) &&
               stream_name_ok(spec->ns) && stream_name_ok(spec->name) && spec->partitions >= 1 &&
               spec->partitions <= LS_META_PARTITIONS_MAX &&
               stream_configs_ok(spec->configs, spec->config_count);
}

ls_err
ls_meta_stream_create(struct ls_meta *m, const struct ls_meta_stream *spec,
                      struct ls_meta_stream **ret_stream)
{
        struct stream_call c = { .call.op.apply = stream_create_apply, .spec = spec };

        return stream_spec_ok(spec) ? stream_call_run(m, &c, ret_stream) : LS_INVALID;
}

void
ls_meta_streams_create(struct ls_meta *m, const struct ls_meta_stream *specs, size_t count,
                       struct ls_meta_stream **ret_streams, ls_err *ret_results)
{
        struct stream_call *calls = ls_calloc(count + 1, sizeof *calls);

        for (size_t i = 0; i < count; i++) {
                calls[i] = (struct stream_call){ .call.op.apply = stream_create_apply,
                                                 .spec = &specs[i] };
                ret_results[i] = stream_spec_ok(&specs[i]) ? LS_OK : LS_INVALID;
                if (ret_results[i] == LS_OK)
                        meta_call_begin(m, &calls[i].call);
        }
        for (size_t i = 0; i < count; i++) {
                ret_streams[i] = NULL;
                if (ret_results[i] != LS_OK)
                        continue;
                ret_results[i] = meta_call_wait(&calls[i].call);
                if (ret_results[i] == LS_OK)
                        ret_streams[i] = calls[i].stream;
                else
                        ls_meta_stream_free(calls[i].stream);
        }
        ls_free(calls);
}

ls_err
ls_meta_rebuild_stream(struct ls_meta *m, const struct ls_meta_stream *stream)
{
        struct stream_call c = { .call.op.apply = stream_create_apply,
                                 .spec = stream,
                                 .again = true };

        if (!stream_spec_ok(stream) || stream->id == 0 ||
            stream->id > INT64_MAX / LS_META_CHUNKS_PER_STREAM - 1 ||
            ls_uuid_is_zero(stream->topic_id))
                return LS_INVALID;
        return stream_call_run(m, &c, NULL);
}

static ls_err
stream_delete_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct stream_call *c = LS_CONTAINER(op, struct stream_call, call.op);
        struct ls_db *db = txn->db;
        struct ls_db_value id = ls_db_u64(c->id);
        struct ls_db_value first = ls_db_u64(c->id * LS_META_CHUNKS_PER_STREAM);
        struct ls_db_value end = ls_db_u64((c->id + 1) * LS_META_CHUNKS_PER_STREAM);
        int64_t due_ms = txn->now_ms + c->grace_ms, changes = 0;

        LS_TRY(ls_db_exec(db, GONE_ADD, &changes, ls_db_int(txn->now_ms), ls_db_int(due_ms), id));
        if (changes != 1)
                return LS_ABSENT;
        LS_TRY(ls_db_exec(db, STREAM_DELETE, NULL, id));
        LS_TRY(ls_db_exec(db, CONFIG_DELETE, NULL, id));
        LS_TRY(ls_db_exec(db, CHUNK_DELETE, NULL, first, end));
        LS_TRY(ls_db_exec(db, CHUNK_PRODUCERS_DELETE, NULL, first, end));
        LS_TRY(ls_db_exec(db, OFFSETS_OF_STREAM_DELETE, NULL, id));
        LS_TRY(ls_db_exec(db, TABLE_TO_GARBAGE, NULL, ls_db_int(due_ms), id));
        LS_TRY(ls_db_exec(db, TABLE_DELETE, NULL, id));
        LS_TRY(ls_db_exec(db, FILES_OF_STREAM_REMOVE, NULL, ls_db_int(LS_MAX(txn->now_ms, 1)),
                          ls_db_int(due_ms), id));
        meta_chunks_drop_stream(txn->m, c->id);
        return LS_OK;
}

ls_err
ls_meta_stream_delete(struct ls_meta *m, uint64_t stream_id, int64_t grace_ms)
{
        struct stream_call c = { .call.op.apply = stream_delete_apply,
                                 .id = stream_id,
                                 .grace_ms = grace_ms };

        return stream_call_run(m, &c, NULL);
}

void
ls_meta_streams_delete(struct ls_meta *m, const uint64_t *stream_ids, const int64_t *grace_ms,
                       size_t count, ls_err *ret_results)
{
        struct stream_call *calls = ls_calloc(count + 1, sizeof *calls);

        for (size_t i = 0; i < count; i++) {
                calls[i] = (struct stream_call){ .call.op.apply = stream_delete_apply,
                                                 .id = stream_ids[i],
                                                 .grace_ms = grace_ms[i] };
                meta_call_begin(m, &calls[i].call);
        }
        for (size_t i = 0; i < count; i++)
                ret_results[i] = meta_call_wait(&calls[i].call);
        ls_free(calls);
}

static ls_err
stream_grow_try(struct stream_call *c, struct ls_meta_txn *txn)
{
        struct ls_db_value id = ls_db_u64(c->id);
        int64_t before = 0, changes = 0;
        int32_t whole; /* the first partition of the first new chunk */

        LS_TRY(ls_db_get_i64(txn->db, LS_SQL_STREAM_PARTITIONS, LS_DB_ARGS(id), &before));
        LS_TRY(ls_db_exec(txn->db, STREAM_GROW, &changes, ls_db_int(c->partitions), id));
        if (changes != 1)
                return LS_INVALID;
        whole = (int32_t)(before + LS_META_CHUNK_PARTITIONS - 1) / LS_META_CHUNK_PARTITIONS *
                LS_META_CHUNK_PARTITIONS;
        if (before < whole) {
                uint32_t count = (uint32_t)(LS_MIN(whole, c->partitions) -
                                            (whole - LS_META_CHUNK_PARTITIONS));
                struct meta_chunk *chunk;

                LS_TRY(meta_chunk_get(txn, meta_chunk_id(c->id, (int32_t)before - 1), &chunk));
                meta_chunk_resize(chunk, count);
                LS_TRY(meta_chunk_write(txn, chunk));
        }
        if (c->partitions > whole)
                LS_TRY(stream_add_chunks(txn, c->id, whole, c->partitions));
        return stream_get(txn->db, c->id, &c->stream);
}

static ls_err
stream_grow_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct stream_call *c = LS_CONTAINER(op, struct stream_call, call.op);

        for (int tries = 0; tries < LS_META_REDO_MAX; tries++) {
                ls_err e = stream_grow_try(c, txn);

                if (e != LS_CONFLICT)
                        return e;
                LS_TRY(meta_txn_redo(txn));
        }
        return LS_EDB;
}

ls_err
ls_meta_stream_grow(struct ls_meta *m, uint64_t stream_id, int32_t partitions,
                    struct ls_meta_stream **ret_stream)
{
        struct stream_call c = { .call.op.apply = stream_grow_apply,
                                 .id = stream_id,
                                 .partitions = partitions };

        if (partitions < 1 || partitions > LS_META_PARTITIONS_MAX)
                return LS_INVALID;
        return stream_call_run(m, &c, ret_stream);
}

static ls_err
stream_configure_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        struct stream_call *c = LS_CONTAINER(op, struct stream_call, call.op);
        int64_t version = 0;

        LS_TRY(ls_db_get_i64(txn->db, LS_SQL_STREAM_VERSION, LS_DB_ARGS(ls_db_u64(c->id)),
                             &version));
        if (c->version != 0 && c->version != (uint64_t)version)
                return LS_CONFLICT;
        LS_TRY(ls_db_exec(txn->db, STREAM_TOUCH, NULL, ls_db_u64(c->id)));
        LS_TRY(stream_set_configs(txn->db, c->id, c->changes, c->change_count));
        return stream_get(txn->db, c->id, &c->stream);
}

ls_err
ls_meta_stream_configure(struct ls_meta *m, uint64_t stream_id, uint64_t version,
                         const struct ls_meta_config *changes, size_t count,
                         struct ls_meta_stream **ret_stream)
{
        struct stream_call c = { .call.op.apply = stream_configure_apply,
                                 .id = stream_id,
                                 .version = version,
                                 .changes = changes,
                                 .change_count = count };

        if (!stream_configs_ok(changes, count))
                return LS_INVALID;
        return stream_call_run(m, &c, ret_stream);
}
