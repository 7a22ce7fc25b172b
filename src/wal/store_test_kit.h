/* wal/store_test_kit.h - what the tests of a WAL in a store share: a store in memory with a script
 * of what it holds up and fails, brokers on one database, appends, reads.
 *
 * The database is SQLite in a fresh folder, or, when the environment has LAKESTREAM_TEST_POSTGRES
 * (a URL), a fresh schema of that server. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>
#include <libpq-fe.h>
#include <sqlite3.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "store/store.h"
#include "sys/jobs.h"
#include "wal/segment.h"
#include "wal/wal.h"

#define assert_ok(expr) assert_int_equal((expr), LS_OK)

#define SEQUENCES_MAX 64

/* What the store does with objects of the first broker, by their sequence. */
struct script {
        pthread_mutex_t lock;
        struct ls_cond changed;
        int started; /* puts of objects */
        int gets, gets_wanted;
        bool hold[SEQUENCES_MAX];
        enum ls_fault_action put[SEQUENCES_MAX];
        ls_err put_err[SEQUENCES_MAX];
        enum ls_fault_action get;
        ls_err get_err;
};

struct broker {
        struct ls_meta *meta;
        struct ls_wal *wal;
        struct ls_wal_stream *stream;
        uint64_t epoch;
        int lost;
};

struct world {
        char dir[64];
        char schema[32], url[512]; /* on PostgreSQL */
        struct ls_store *mem, *store;
        struct script script;
        struct broker a, b; /* ids 1 and 2; b is opened by tests that need it */
        uint64_t stream_id;
        int64_t flush_ms, cache_bytes;
        size_t flush_bytes;
        int puts_max;
};

/* --- the store's script --- */

static inline enum ls_fault_action
decide_put(struct script *s, const char *key, ls_err *err)
{
        const char *name = strrchr(key, '/');
        enum ls_fault_action action = LS_FAULT_PASS;
        int64_t sequence;

        if (name == NULL || strlen(name) != 17 ||
            !ls_str_to_i64(ls_str_make(name + 1, 12), 0, SEQUENCES_MAX - 1, &sequence))
                return LS_FAULT_PASS;
        pthread_mutex_lock(&s->lock);
        s->started++;
        ls_cond_broadcast(&s->changed);
        while (s->hold[sequence])
                ls_cond_wait(&s->changed, &s->lock);
        action = s->put[sequence];
        *err = s->put_err[sequence];
        pthread_mutex_unlock(&s->lock);
        return action;
}

static inline enum ls_fault_action
decide(void *ctx, const char *op, const char *key, uint64_t number, ls_err *err)
{
        struct script *s = ctx;
        enum ls_fault_action action;

        if (strcmp(op, "put_if_absent") == 0)
                return decide_put(s, key, err);
        if (strcmp(op, "get") != 0)
                return LS_FAULT_PASS;
        pthread_mutex_lock(&s->lock);
        s->gets++;
        ls_cond_broadcast(&s->changed);
        while (s->gets < s->gets_wanted) /* so many must come at once */
                ls_cond_wait(&s->changed, &s->lock);
        action = s->get;
        *err = s->get_err;
        pthread_mutex_unlock(&s->lock);
        return action;
}

static inline void
script_hold(struct world *w, int sequence, bool hold)
{
        pthread_mutex_lock(&w->script.lock);
        w->script.hold[sequence] = hold;
        ls_cond_broadcast(&w->script.changed);
        pthread_mutex_unlock(&w->script.lock);
}

static inline void
script_started(struct world *w, int count)
{
        pthread_mutex_lock(&w->script.lock);
        while (w->script.started < count)
                ls_cond_wait(&w->script.changed, &w->script.lock);
        pthread_mutex_unlock(&w->script.lock);
}

/* --- the world --- */

/* NULL: on SQLite. */
static const char *
postgres(void)
{
        return getenv("LAKESTREAM_TEST_POSTGRES");
}

static inline void
sql_postgres(const char *url, const char *text)
{
        PGconn *conn = PQconnectdb(url);
        PGresult *r;

        PQclear(PQexec(conn, "SET client_min_messages TO warning"));
        r = PQexec(conn, text);
        if (PQresultStatus(r) != PGRES_COMMAND_OK)
                fail_msg("%s: %s", text, PQresultErrorMessage(r));
        PQclear(r);
        PQfinish(conn);
}

/* Behind the store's back. */
static inline void
sql(struct world *w, const char *text)
{
        char path[128];
        sqlite3 *db;

        if (postgres() != NULL) {
                sql_postgres(w->url, text);
                return;
        }
        snprintf(path, sizeof path, "%s/meta.db", w->dir);
        assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
        sqlite3_busy_timeout(db, 10000);
        assert_int_equal(sqlite3_exec(db, text, NULL, NULL, NULL), SQLITE_OK);
        sqlite3_close(db);
}

static inline void
meta_lost(void *ctx, const char *why)
{
        fail_msg("metadata lost: %s", why);
}

static inline void
wal_lost(void *ctx, const char *why)
{
        assert_non_null(strstr(why, "went back in time"));
        (*(int *)ctx)++;
}

static inline ls_err
broker_meta(struct world *w, struct broker *b, int32_t id, struct ls_errinfo *info)
{
        char db[128];
        struct ls_meta_options meta = { .sqlite_path = db,
                                        .postgres_url = postgres() != NULL ? w->url : NULL,
                                        .broker_id = id,
                                        .on_lost = meta_lost,
                                        .producer_expiry_ms = 86400000,
                                        .wal_key = ls_wal_key };

        snprintf(db, sizeof db, "%s/meta.db", w->dir);
        LS_TRY(ls_meta_open(&meta, &b->meta, info));
        b->epoch = ls_meta_broker_epoch(b->meta);
        return LS_OK;
}

static inline ls_err
broker_wal(struct world *w, struct broker *b, int32_t id, struct ls_errinfo *info)
{
        struct ls_wal_options options = { .meta = b->meta,
                                          .broker_id = id,
                                          .sync = true,
                                          .flush_bytes = w->flush_bytes,
                                          .cache_bytes = w->cache_bytes,
                                          .store = w->store,
                                          .flush_ms = w->flush_ms,
                                          .puts_max = w->puts_max,
                                          .on_lost = wal_lost,
                                          .on_lost_ctx = &b->lost };

        LS_TRY(ls_wal_open(&options, &b->wal, info));
        if (w->stream_id == 0) {
                struct ls_meta_stream spec = { .kafka_name = (char[]){ "t" },
                                               .catalog = (char[]){ "main" },
                                               .ns = (char[]){ "default" },
                                               .name = (char[]){ "t" },
                                               .partitions = 3 },
                                      *row;

                LS_TRY(ls_meta_stream_create(b->meta, &spec, &row));
                w->stream_id = row->id;
                ls_meta_stream_free(row);
        }
        return ls_wal_stream_open(b->wal, w->stream_id, 3, 0, &b->stream);
}

static inline ls_err
broker_open(struct world *w, struct broker *b, int32_t id, struct ls_errinfo *info)
{
        LS_TRY(broker_meta(w, b, id, info));
        return broker_wal(w, b, id, info);
}

static inline void
broker_close(struct broker *b)
{
        ls_wal_stream_unref(b->stream);
        ls_wal_close(b->wal);
        if (b->meta != NULL)
                ls_meta_close(b->meta);
        *b = (struct broker){ .lost = b->lost };
}

static inline void
broker_reopen(struct world *w, struct broker *b, int32_t id)
{
        broker_close(b);
        assert_ok(broker_open(w, b, id, NULL));
        w->script.gets = 0; /* opening looks, too */
}

static inline int
setup(void **state)
{
        struct world *w = ls_calloc(1, sizeof *w);

        strncpy(w->dir, "/tmp/ls-wal-store-test-XXXXXX", sizeof w->dir - 1);
        assert_non_null(mkdtemp(w->dir));
        if (postgres() != NULL) {
                static int number;

                snprintf(w->schema, sizeof w->schema, "w%d_%d", (int)getpid(), ++number);
                snprintf(w->url, sizeof w->url, "%s%coptions=-csearch_path%%3D%s", postgres(),
                         strchr(postgres(), '?') ? '&' : '?', w->schema);
        }
        pthread_mutex_init(&w->script.lock, NULL);
        ls_cond_init(&w->script.changed);
        w->mem = ls_store_mem_new();
        w->store = ls_store_fault_new(w->mem, decide, &w->script);
        w->cache_bytes = 1 << 20;
        w->flush_bytes = 1 << 20;
        w->puts_max = 4;
        assert_ok(broker_open(w, &w->a, 1, NULL));
        *state = w;
        return 0;
}

static inline int
teardown(void **state)
{
        struct world *w = *state;
        char command[128];

        broker_close(&w->a);
        broker_close(&w->b);
        ls_store_close(w->store);
        ls_store_close(w->mem);
        ls_cond_done(&w->script.changed);
        if (postgres() != NULL) {
                snprintf(command, sizeof command, "DROP SCHEMA IF EXISTS %s CASCADE", w->schema);
                sql(w, command);
        }
        snprintf(command, sizeof command, "rm -rf %s", w->dir);
        assert_int_equal(system(command), 0);
        ls_free(w);
        return 0;
}

static inline void
key_of(uint64_t epoch, uint64_t sequence, char ret_key[LS_META_WAL_KEY_BYTES])
{
        ls_wal_key(ls_wal_segment_number(epoch, sequence), ret_key);
}

static inline bool
object_there(struct world *w, uint64_t epoch, uint64_t sequence)
{
        char key[LS_META_WAL_KEY_BYTES];
        struct ls_store_info info;

        key_of(epoch, sequence, key);
        return ls_store_head(w->mem, key, &info) == LS_OK;
}

static inline ls_err
count_object(void *ctx, const char *key, const struct ls_store_info *info)
{
        *(int *)ctx += strcmp(key + strlen(key) - 4, ".wal") == 0;
        return LS_OK;
}

static inline int
objects_count(struct world *w)
{
        int count = 0;

        assert_ok(ls_store_list(w->mem, "wal/", NULL, 1000, count_object, &count));
        return count;
}

/* --- appends --- */

/* A batch by hand: the WAL asks only for length, magic, checksum and the fields of the item. */
static inline struct ls_slice *
batch_new(int32_t records, size_t payload, uint8_t fill)
{
        struct ls_slice *s = ls_slice_new(61 + payload);

        memset(s->ptr, fill, s->len);
        memset(s->ptr, 0, 61);
        ls_set_be32(s->ptr + 8, (uint32_t)(s->len - 12));
        s->ptr[16] = 2;
        ls_set_be32(s->ptr + 23, (uint32_t)(records - 1));
        ls_set_be32(s->ptr + 57, (uint32_t)records);
        ls_set_be32(s->ptr + 17, ls_crc32c(0, ls_span_of(s->ptr + 21, s->len - 21)));
        return s;
}

#define BATCH_BYTES 161

struct sync_append {
        struct ls_wal_append append;
        struct ls_wal_item item;
        pthread_mutex_t lock;
        struct ls_cond cond;
        bool done;
};

static inline void
sync_done(struct ls_wal_append *append)
{
        struct sync_append *a = LS_CONTAINER(append, struct sync_append, append);

        pthread_mutex_lock(&a->lock);
        a->done = true;
        ls_cond_signal(&a->cond);
        pthread_mutex_unlock(&a->lock);
}

/* Two records, of producer 77 with its sequence when that is not negative. */
static inline void
append_start(struct broker *b, struct sync_append *a, int32_t partition, uint8_t fill,
             int32_t sequence)
{
        *a = (struct sync_append){ .append = { .items = &a->item, .count = 1, .done = sync_done },
                                   .item = { .stream = b->stream,
                                             .partition = partition,
                                             .batch = batch_new(2, 100, fill),
                                             .records = 2,
                                             .base_timestamp = 1000,
                                             .max_timestamp = 1000 + fill,
                                             .producer_id = sequence < 0 ? -1 : 77,
                                             .base_sequence = sequence < 0 ? -1 : sequence,
                                             .s0 = 3,
                                             .s1 = 5 } };
        pthread_mutex_init(&a->lock, NULL);
        ls_cond_init(&a->cond);
        ls_wal_append(b->wal, &a->append);
}

static inline bool
append_is_done(struct sync_append *a)
{
        bool done;

        pthread_mutex_lock(&a->lock);
        done = a->done;
        pthread_mutex_unlock(&a->lock);
        return done;
}

static inline ls_err
append_wait(struct sync_append *a, int64_t *ret_offset)
{
        pthread_mutex_lock(&a->lock);
        while (!a->done)
                ls_cond_wait(&a->cond, &a->lock);
        pthread_mutex_unlock(&a->lock);
        ls_cond_done(&a->cond);
        ls_slice_unref(a->item.batch);
        if (ret_offset != NULL)
                *ret_offset = a->item.base_offset;
        return a->item.outcome;
}

static inline ls_err
append_one(struct broker *b, int32_t partition, uint8_t fill, int64_t *ret_offset)
{
        struct sync_append a;

        append_start(b, &a, partition, fill, -1);
        return append_wait(&a, ret_offset);
}

static inline int64_t
end_of(struct broker *b, int32_t partition)
{
        struct ls_wal_view view;

        assert_ok(ls_wal_view(b->stream, partition, &view));
        return view.end;
}

/* Reads from `offset` to the end: batch i of the partition has 2 records and fill i. -> the outcome
 * of the last read. */
static inline ls_err
read_from(struct broker *b, int32_t partition, int64_t offset, int64_t *ret_next)
{
        ls_err e;

        do {
                struct ls_wal_read r = { .offset = offset,
                                         .bytes_max = 1 << 30,
                                         .min_one = true,
                                         .may_block = true,
                                         .below_floor = true,
                                         .offset_end = INT64_MAX };

                e = ls_wal_read(b->stream, partition, &r);
                *ret_next = offset;
                if (e != LS_OK || r.slice_count == 0)
                        return e;
                for (size_t i = 0; i < r.slice_count; i++) {
                        size_t pos = 0;

                        while (pos < r.slices[i]->len) {
                                const uint8_t *p = r.slices[i]->ptr + pos;

                                assert_int_equal(ls_get_be64(p), offset);
                                assert_int_equal(p[61], (uint8_t)(offset / 2));
                                pos += 12 + ls_get_be32(p + 8);
                                offset += 2;
                        }
                }
                assert_int_equal(r.next_offset, offset);
                ls_wal_read_done(&r);
        } while (e == LS_OK);
        return e;
}

static inline void
read_all(struct broker *b, int32_t partition, int64_t batches)
{
        int64_t next;

        assert_ok(read_from(b, partition, 0, &next));
        assert_int_equal(next, 2 * batches);
        assert_int_equal(end_of(b, partition), 2 * batches);
}
