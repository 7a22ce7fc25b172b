/* lake/test_kit.h - what the lake's tests share: a real WAL, metadata store and local object store
 * (behind the fault store) in a folder of their own, records that follow from partition and offset,
 * and a check of everything that must always hold.
 *
 * Background work of the lake is put off for ever: a test runs what it wants to see. */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/mem.h"
#include "formats/batch/batch.h"
#include "formats/iceberg/metadata.h"
#include "lake/rows.h"
#include "lake/table_int.h"
#include "sys/file.h"

#define assert_ok(expr) assert_int_equal((expr), LS_OK)

#define KIT_PARTITIONS_MAX 8
#define KIT_TIME           INT64_C(1700000000000) /* of offset 0 */

struct kit;
/* A store call is about to be made: as decide of ls_store_fault_new. */
typedef enum ls_fault_action (*kit_decide)(struct kit *k, const char *op, const char *key,
                                           uint64_t number, ls_err *err);

struct kit {
        char dir[64];
        int32_t broker_id; /* 0: 1 */
        bool shared;       /* several brokers; the WAL is in the store */
        int64_t wal_grace_ms;
        const char *postgres_url; /* NULL: SQLite in the folder */
        struct kit *host;         /* the broker whose folder and stream these are; NULL: its own */
        struct ls_options options;
        struct ls_settings settings;
        struct ls_meta *meta;
        struct ls_wal *wal;
        struct ls_store *local, *store; /* store: the fault store */
        struct ls_lake *lake;
        struct ls_jobs *history_jobs; /* the test's; NULL: nothing is read ahead */
        struct ls_meta_stream *row;
        struct ls_wal_stream *wal_stream;
        struct ls_lake_stream *s;
        int32_t partitions;
        int64_t end[KIT_PARTITIONS_MAX]; /* acknowledged */
        int64_t time_step;               /* ms between records of a partition */
        int64_t clock_offset_ms;         /* of the wall clock */
        bool log_append_time;            /* of what is produced */
        kit_decide decide;               /* NULL: every store call passes */
        uint64_t calls;                  /* of the store since the decide was set */
        int64_t hit;                     /* the test's */
        bool dead;                       /* the test's */
};

/* --- clock ------------------------------------------------------------------------------------ */

static struct kit *kit_clocked;
static inline int64_t
kit_wall_ms(void *ctx)
{
        struct timespec t;

        clock_gettime(CLOCK_REALTIME, &t);
        return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000 +
               __atomic_load_n(&kit_clocked->clock_offset_ms, __ATOMIC_RELAXED);
}
static inline int64_t
kit_monotonic_ns(void *ctx)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
static inline void
kit_random(void *ctx, void *bytes, size_t count)
{
        assert_int_equal(getentropy(bytes, count), 0);
}
static const struct ls_clock kit_clock = { .wall_ms = kit_wall_ms,
                                           .monotonic_ns = kit_monotonic_ns,
                                           .random = kit_random };
static inline void
kit_clock_move(struct kit *k, int64_t ms)
{
        __atomic_fetch_add(&k->clock_offset_ms, ms, __ATOMIC_RELAXED);
}

static inline void
kit_clock_set(struct kit *k, int64_t wall_ms)
{
        kit_clock_move(k, wall_ms - ls_clock_wall_ms());
}

/* --- life ------------------------------------------------------------------------------------- */

static inline enum ls_fault_action
kit_fault(void *ctx, const char *op, const char *key, uint64_t number, ls_err *err)
{
        struct kit *k = ctx;
        uint64_t call = __atomic_fetch_add(&k->calls, 1, __ATOMIC_RELAXED);

        return k->decide != NULL ? k->decide(k, op, key, call, err) : LS_FAULT_PASS;
}
static inline void
kit_decide_set(struct kit *k, kit_decide decide)
{
        k->decide = decide;
        k->calls = 0;
        k->dead = false;
        k->hit = 0;
}
static inline void
kit_lost(void *ctx, const char *why)
{
        fail_msg("metadata lost: %s", why);
}
static inline ls_err
kit_first_stream(void *ctx, const struct ls_meta_stream *s)
{
        *(uint64_t *)ctx = s->id;
        return LS_OK;
}
static inline struct ls_lake_spec
kit_spec(struct kit *k)
{
        return (struct ls_lake_spec){ .stream_id = k->row->id,
                                      .topic_id = k->row->topic_id,
                                      .kafka_name = "t",
                                      .catalog = "main",
                                      .ns = "default",
                                      .name = "t",
                                      .partitions = k->partitions,
                                      .created_ms = k->row->created_ms,
                                      .settings = &k->settings };
}
static inline void
kit_stream_make(struct kit *k)
{
        struct ls_meta_stream spec = { .kafka_name = (char[]){ "t" },
                                       .catalog = (char[]){ "main" },
                                       .ns = (char[]){ "default" },
                                       .name = (char[]){ "t" },
                                       .partitions = k->partitions };

        assert_ok(ls_meta_stream_create(k->meta, &spec, &k->row));
}
static inline void
kit_stream_open(struct kit *k)
{
        struct ls_lake_spec spec = kit_spec(k);

        assert_ok(ls_wal_stream_open(k->wal, k->row->id, k->partitions, 0, &k->wal_stream));
        k->s = ls_lake_stream_open(k->lake, &spec, k->wal_stream);
}
static inline void
kit_open(struct kit *k)
{
        struct ls_errinfo info = { "" };
        char db[128], wal[128], store[128];
        struct ls_meta_options meta = { .sqlite_path = db,
                                        .postgres_url = k->postgres_url,
                                        .broker_id = LS_MAX(k->broker_id, 1),
                                        .on_lost = kit_lost,
                                        .producer_expiry_ms = 86400000,
                                        .wal_key = k->shared ? ls_wal_key : NULL,
                                        .wal_grace_ms = k->wal_grace_ms };
        struct ls_wal_options wal_options = { .dir = wal,
                                              .broker_id = LS_MAX(k->broker_id, 1),
                                              .puts_max = 2,
                                              .segment_bytes = 1 << 20,
                                              .flush_bytes = 1 << 20,
                                              .cache_bytes = 1 << 20 };
        struct ls_lake_options lake = { .options = &k->options,
                                        .history_jobs = k->history_jobs,
                                        .shared = k->shared };

        snprintf(db, sizeof db, "%s/meta", k->dir);
        assert_ok(ls_dir_make(db));
        snprintf(db, sizeof db, "%s/meta/lakestream.db", k->dir);
        snprintf(wal, sizeof wal, "%s/wal", k->dir);
        snprintf(store, sizeof store, "%s/store", k->dir);
        assert_ok(ls_meta_open(&meta, &k->meta, &info));
        wal_options.meta = k->meta;
        assert_ok(ls_store_local_open(store, &k->local, &info));
        k->store = ls_store_fault_new(k->local, kit_fault, k);
        wal_options.store = k->shared ? k->store : NULL;
        if (ls_wal_open(&wal_options, &k->wal, &info) != LS_OK)
                fail_msg("%s", info.text);
        lake.meta = k->meta;
        lake.store = k->store;
        lake.wal = k->wal;
        assert_ok(ls_lake_open(&lake, &k->lake, &info));
        if (k->row == NULL && k->host != NULL)
                k->row = k->host->row;
        if (k->row == NULL)
                kit_stream_make(k);
        kit_stream_open(k);
}
static inline void
kit_close(struct kit *k)
{
        ls_lake_stream_unref(k->s);
        ls_wal_stream_unref(k->wal_stream);
        ls_lake_close(k->lake);
        ls_wal_close(k->wal);
        ls_meta_close(k->meta);
        ls_store_close(k->store);
        ls_store_close(k->local);
        k->s = NULL;
}
/* As a process that ends and starts: another epoch, nothing cached. */
static inline void
kit_reopen(struct kit *k)
{
        kit_decide_set(k, NULL);
        kit_close(k);
        kit_open(k);
}
static inline void
kit_set(struct kit *k, const char *name, const char *value)
{
        struct ls_errinfo info = { "" };
        struct ls_lake_spec spec = kit_spec(k);

        if (ls_settings_set(&k->settings, ls_str_of(name), ls_str_of(value), &info) != LS_OK)
                fail_msg("%s", info.text);
        if (k->s != NULL)
                ls_lake_stream_update(k->s, &spec);
}
static inline void
kit_option(struct kit *k, enum ls_option_id id, int64_t value)
{
        k->options.ints[id] = value;
}
static inline int
kit_setup(void **state)
{
        static const char shm[] = "/dev/shm/ls-lake-test-XXXXXX",
                          tmp[] = "/tmp/ls-lake-test-XXXXXX";
        struct kit *k = ls_calloc(1, sizeof *k);

        /* In memory where there is such a folder: many small durable files. */
        memcpy(k->dir, shm, sizeof shm);
        if (mkdtemp(k->dir) == NULL) {
                memcpy(k->dir, tmp, sizeof tmp);
                assert_non_null(mkdtemp(k->dir));
        }
        kit_clocked = k;
        ls_clock_install(&kit_clock);
        ls_log_setup(LS_LOG_ERROR + 1, NULL, NULL);
        k->partitions = 3;
        k->time_step = 1000;
        ls_options_init(&k->options);
        assert_ok(ls_options_set(&k->options, LS_STR("data.dir"), ls_str_of(k->dir), LS_OPTION_FLAG,
                                 NULL));
        kit_option(k, LS_OPT_LAKE_THREADS, 0); /* all is done when the test says so */
        kit_option(k, LS_OPT_TABLE_COMMIT_INTERVAL, INT64_MAX);
        kit_option(k, LS_OPT_META_BACKUP_INTERVAL, 0);
        kit_option(k, LS_OPT_RETENTION_CHECK, INT64_C(3600000));
        ls_settings_init(&k->settings, &k->options);
        kit_open(k);
        *state = k;
        return 0;
}
static inline int
kit_teardown(void **state)
{
        struct kit *k = *state;
        char command[128];

        kit_decide_set(k, NULL);
        if (k->s != NULL)
                kit_close(k);
        ls_meta_stream_free(k->row);
        ls_settings_done(&k->settings);
        ls_options_done(&k->options);
        snprintf(command, sizeof command, "rm -rf %s", k->dir);
        assert_int_equal(system(command), 0);
        ls_clock_install(NULL);
        ls_free(k);
        return 0;
}

/* --- records ---------------------------------------------------------------------------------- */

/* What stands at an offset. Its spans live in `buf`. */
struct kit_text {
        char key[32], value[64];
        uint8_t headers[16];
};
static inline struct ls_record
kit_record(const struct kit *k, int32_t partition, int64_t offset, struct kit_text *t)
{
        struct ls_record r = { .offset = offset, .timestamp = KIT_TIME + offset * k->time_step };

        if (offset % 5 != 4) {
                r.key.len = (size_t)snprintf(t->key, sizeof t->key, "key-%d",
                                             (int)((offset + partition) % 7));
                r.key.ptr = (uint8_t *)t->key;
        }
        if (offset % 11 != 10) {
                r.value.len = (size_t)snprintf(t->value, sizeof t->value, "value %d of %d",
                                               (int)offset, partition);
                r.value.ptr = (uint8_t *)t->value;
        }
        if (offset % 3 == 0) { /* a header "h" without value, as varints: 1, h, -1 */
                memcpy(t->headers, "\x02h\x01", 3);
                r.header_count = 1;
                r.headers = ls_span_of(t->headers, 3);
        }
        return r;
}

struct kit_append {
        struct ls_wal_append append;
        struct ls_wal_item item;
        pthread_mutex_t lock;
        struct ls_cond cond;
        bool done;
};
static inline void
kit_append_done(struct ls_wal_append *append)
{
        struct kit_append *a = LS_CONTAINER(append, struct kit_append, append);

        pthread_mutex_lock(&a->lock);
        a->done = true;
        ls_cond_signal(&a->cond);
        pthread_mutex_unlock(&a->lock);
}
static inline struct ls_slice *
kit_batch(struct kit *k, int32_t partition, int64_t base, int32_t count)
{
        struct ls_batch_build cfg = { .codec = base % 2 ? LS_CODEC_ZSTD : LS_CODEC_NONE };
        struct ls_batch_builder b;
        struct ls_slice *slice;
        struct kit_text text;
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, base);
        for (int32_t i = 0; i < count; i++) {
                struct ls_record r = kit_record(k, partition, base + i, &text);

                assert_ok(ls_batch_builder_add(&b, &r));
        }
        assert_ok(ls_batch_builder_end(&b, -1, NULL));
        ls_batch_builder_done(&b);
        ls_batch_set_base_offset(out.ptr, 0, 0);
        slice = ls_slice_copy(ls_buf_span(&out));
        ls_buf_done(&out);
        return slice;
}
/* Produces `count` records in one batch. */
static inline void
kit_produce(struct kit *k, int32_t partition, int32_t count)
{
        struct ls_batch_check check = LS_BATCH_CHECK_DEFAULT;
        struct ls_slice *batch = kit_batch(k, partition, k->end[partition], count);
        struct kit_append a = { .append = {
                                        .items = &a.item, .count = 1, .done = kit_append_done } };
        struct ls_batch_info info;

        check.log_append_time = k->log_append_time;
        check.now_ms = KIT_TIME + k->end[partition] * k->time_step;
        assert_ok(ls_batch_validate(NULL, ls_slice_span(batch), &check, &info, NULL));
        if (info.fix_timestamps)
                ls_batch_set_timestamps(batch->ptr, batch->len, k->log_append_time,
                                        info.max_timestamp);
        a.item = (struct ls_wal_item){ .stream = k->wal_stream,
                                       .partition = partition,
                                       .batch = batch,
                                       .records = count,
                                       .flags = k->log_append_time ? LS_META_BATCH_LOG_APPEND_TIME
                                                                   : 0,
                                       .base_timestamp = info.header.base_timestamp,
                                       .max_timestamp = info.max_timestamp,
                                       .producer_id = -1,
                                       .producer_epoch = -1,
                                       .base_sequence = -1,
                                       .s0 = info.sum0,
                                       .s1 = info.sum1 };
        pthread_mutex_init(&a.lock, NULL);
        ls_cond_init(&a.cond);
        ls_wal_append(k->wal, &a.append);
        pthread_mutex_lock(&a.lock);
        while (!a.done)
                ls_cond_wait(&a.cond, &a.lock);
        pthread_mutex_unlock(&a.lock);
        ls_cond_done(&a.cond);
        ls_slice_unref(batch);
        assert_ok(a.item.outcome);
        assert_int_equal(a.item.base_offset, k->end[partition]);
        k->end[partition] += count;
}
/* The same in every partition, in batches of ten. */
static inline void
kit_fill(struct kit *k, int32_t batches)
{
        for (int32_t i = 0; i < batches; i++)
                for (int32_t p = 0; p < k->partitions; p++)
                        kit_produce(k, p, 10);
}
static inline int64_t
kit_total(const struct kit *k)
{
        int64_t total = 0;

        for (int32_t p = 0; p < k->partitions; p++)
                total += k->end[p];
        return total;
}

/* --- runs ------------------------------------------------------------------------------------- */

static inline ls_err
kit_compact(struct kit *k)
{
        ls_err e;

        assert_ok(lake_run_begin(k->s, INT64_MAX));
        e = lake_compact(k->s, INT64_MAX);
        lake_run_end(k->s, e);
        return e;
}
static inline struct ls_lake_table
kit_load(struct kit *k)
{
        struct ls_lake_table t;

        assert_ok(ls_lake_load(k->s, 60000, &t, NULL));
        return t;
}

/* --- reading ---------------------------------------------------------------------------------- */

static inline void
kit_check_batches(struct kit *k, int32_t partition, ls_span bytes, int64_t *io_offset)
{
        struct ls_batch_header header;
        struct ls_batch_iter it;
        struct ls_record got;
        ls_span batch;
        ls_err e;

        ls_batch_iter_init(&it, 0);
        while ((e = ls_batch_next(&bytes, &batch, &header)) == LS_OK) {
                assert_ok(ls_batch_iter_open(&it, batch, true));
                while ((e = ls_batch_iter_next(&it, &got)) == LS_OK) {
                        struct kit_text text;
                        struct ls_record want;

                        if (got.offset < *io_offset)
                                continue;
                        assert_int_equal(got.offset, *io_offset);
                        want = kit_record(k, partition, got.offset, &text);
                        if (!(header.attributes & LS_BATCH_LOG_APPEND_TIME))
                                assert_int_equal(got.timestamp, want.timestamp);
                        assert_int_equal(got.key.ptr == NULL, want.key.ptr == NULL);
                        assert_int_equal(got.key.len, want.key.len);
                        if (want.key.len > 0)
                                assert_memory_equal(got.key.ptr, want.key.ptr, want.key.len);
                        assert_int_equal(got.value.ptr == NULL, want.value.ptr == NULL);
                        assert_int_equal(got.value.len, want.value.len);
                        if (want.value.len > 0)
                                assert_memory_equal(got.value.ptr, want.value.ptr, want.value.len);
                        assert_int_equal(got.header_count, want.header_count);
                        ++*io_offset;
                }
                assert_int_equal(e, LS_END);
        }
        assert_int_equal(e, LS_END);
        ls_batch_iter_done(&it);
}
/* Every record of a partition from `from` on, out of files and WAL. */
static inline void
kit_check_log(struct kit *k, int32_t partition, int64_t from)
{
        int64_t offset = from;

        while (offset < k->end[partition]) {
                struct ls_lake_read h = { .offset = offset, .bytes_max = 5000, .min_one = true };
                struct ls_wal_read r = { .offset = offset,
                                         .bytes_max = 5000,
                                         .min_one = true,
                                         .may_block = true,
                                         .offset_end = INT64_MAX };
                int64_t before = offset;
                ls_err e = ls_lake_read(k->s, partition, &h);

                for (size_t i = 0; e == LS_OK && i < h.slice_count; i++)
                        kit_check_batches(k, partition, ls_slice_span(h.slices[i]), &offset);
                if (e == LS_END) {
                        e = ls_wal_read(k->wal_stream, partition, &r);
                        for (size_t i = 0; e == LS_OK && i < r.slice_count; i++)
                                kit_check_batches(k, partition, ls_slice_span(r.slices[i]),
                                                  &offset);
                }
                ls_lake_read_done(&h);
                ls_wal_read_done(&r);
                assert_ok(e);
                assert_true(offset > before);
        }
        assert_int_equal(offset, k->end[partition]);
}

/* --- what must always hold -------------------------------------------------------------------- */

static inline void
kit_finding(void *ctx, const char *finding)
{
        fail_msg("%s", finding);
}
/* The rows of the table's current snapshot, its files' rows and what the metadata says of them. */
struct kit_table {
        struct ls_arena arena;
        struct ls_iceberg_metadata m;
        struct ls_slice *text;
        uint64_t version;
        struct ls_map files; /* live: path -> data file */
        int64_t rows;
        size_t file_count;
};
static inline int64_t
kit_summary(const struct ls_iceberg_snapshot *s, const char *name)
{
        for (size_t i = 0; i < s->summary_count; i++) {
                int64_t value;

                if (!ls_str_eq(s->summary[i].key, ls_str_of(name)))
                        continue;
                assert_true(ls_str_to_i64(s->summary[i].value, 0, INT64_MAX, &value));
                return value;
        }
        fail_msg("the summary has no %s", name);
        return 0;
}
static inline struct ls_slice *
kit_object(struct kit *k, ls_str uri)
{
        struct ls_lake_spec spec = kit_spec(k);
        LS_AUTO(ls_free) char *key = lake_uri_key(&spec, uri);
        struct ls_slice *bytes = NULL;

        assert_non_null(key);
        if (ls_store_get(k->local, key, 0, 0, &bytes) != LS_OK)
                fail_msg("%s is not there", key);
        return bytes;
}
static inline void
kit_check_manifest(struct kit *k, struct kit_table *t, const struct ls_iceberg_manifest_file *line,
                   const struct ls_iceberg_snapshot *s)
{
        struct ls_slice *bytes = kit_object(k, line->path);
        int64_t files[3] = { 0 }, rows[3] = { 0 }, least = INT64_MAX;
        struct ls_iceberg_manifest m;

        assert_int_equal(bytes->len, line->bytes);
        assert_ok(ls_iceberg_manifest_read(ls_slice_span(bytes), line, &t->arena, &m, NULL));
        for (size_t i = 0; i < m.count; i++) {
                const struct ls_iceberg_entry *e = &m.entries[i];

                assert_in_range(e->status, 0, 2);
                files[e->status]++;
                rows[e->status] += e->file.record_count;
                assert_true(e->sequence_number <= s->sequence_number);
                assert_true(e->file_sequence_number <= s->sequence_number);
                if (e->status == LS_ICEBERG_DELETED)
                        continue;
                least = LS_MIN(least, e->sequence_number);
                assert_null(ls_map_set(&t->files, ls_map_key_str(e->file.path),
                                       (void *)(uintptr_t)&e->file));
                t->rows += e->file.record_count;
                t->file_count++;
        }
        assert_int_equal(files[LS_ICEBERG_EXISTING], line->existing_files);
        assert_int_equal(files[LS_ICEBERG_ADDED], line->added_files);
        assert_int_equal(files[LS_ICEBERG_DELETED], line->deleted_files);
        assert_int_equal(rows[LS_ICEBERG_EXISTING], line->existing_rows);
        assert_int_equal(rows[LS_ICEBERG_ADDED], line->added_rows);
        assert_int_equal(rows[LS_ICEBERG_DELETED], line->deleted_rows);
        assert_true(line->sequence_number <= s->sequence_number);
        if (least != INT64_MAX)
                assert_true(line->min_sequence_number <= least);
        ls_slice_unref(bytes);
}
/* Reads a snapshot whole; its live files are left in t->files. */
static inline void
kit_check_snapshot(struct kit *k, struct kit_table *t, const struct ls_iceberg_snapshot *s)
{
        const struct ls_iceberg_manifest_file *lines;
        struct ls_slice *bytes = kit_object(k, s->manifest_list);
        size_t count;

        ls_map_done(&t->files);
        ls_map_init(&t->files);
        t->rows = 0;
        t->file_count = 0;
        assert_ok(ls_iceberg_list_read(ls_slice_span(bytes), &t->arena, &lines, &count, NULL));
        for (size_t i = 0; i < count; i++)
                kit_check_manifest(k, t, &lines[i], s);
        assert_int_equal(t->rows, kit_summary(s, "total-records"));
        assert_int_equal(t->file_count, kit_summary(s, "total-data-files"));
        ls_slice_unref(bytes);
}
static inline void
kit_check_metadata(const struct ls_iceberg_metadata *m)
{
        struct ls_errinfo info = { "" };

        if (ls_iceberg_metadata_check(m, &info) != LS_OK)
                fail_msg("%s", info.text);
        for (size_t i = 0; i < m->snapshot_count; i++) {
                const struct ls_iceberg_snapshot *s = &m->snapshots[i];

                assert_true(s->sequence_number <= m->last_sequence_number);
                assert_true(s->timestamp_ms <= m->last_updated_ms);
                if (i > 0) {
                        assert_int_equal(s->parent_id, s[-1].snapshot_id);
                        assert_true(s->sequence_number > s[-1].sequence_number);
                        assert_true(s->timestamp_ms >= s[-1].timestamp_ms);
                }
        }
        for (size_t i = 0; i < m->snapshot_log_count; i++) {
                assert_non_null(ls_iceberg_metadata_snapshot(m, m->snapshot_log[i].snapshot_id));
                if (i > 0)
                        assert_true(m->snapshot_log[i].timestamp_ms >=
                                    m->snapshot_log[i - 1].timestamp_ms);
        }
        if (m->snapshot_count > 0)
                assert_int_equal(m->snapshot_log[m->snapshot_log_count - 1].snapshot_id,
                                 m->current_snapshot_id);
        assert_true(m->metadata_log_count <= 100);
}
struct kit_live {
        struct kit *k;
        struct kit_table *t;
        size_t count;
};
static inline ls_err
kit_live_file(void *ctx, const struct ls_meta_file *f)
{
        struct kit_live *w = ctx;
        LS_AUTO(ls_free) char *uri = ls_store_uri(w->k->local, f->key);
        const struct ls_iceberg_data_file *d =
                ls_map_get(&w->t->files, ls_map_key_str(ls_str_of(uri)));
        struct ls_store_info info;

        if (d == NULL)
                fail_msg("%s is in the metadata store, not in the snapshot", f->key);
        assert_int_equal(d->record_count, f->rows);
        assert_int_equal(d->file_bytes, f->bytes);
        assert_ok(ls_store_head(w->k->local, f->key, &info));
        assert_int_equal(info.bytes, f->bytes);
        w->count++;
        return LS_OK;
}
/* Loads the published table and checks it against itself, the files and the metadata store. */
static inline void
kit_table_open(struct kit *k, struct kit_table *t)
{
        struct kit_live live = { k, t, 0 };
        struct ls_meta_table row;

        *t = (struct kit_table){ 0 };
        ls_arena_init(&t->arena, (size_t)256 << 20);
        ls_map_init(&t->files);
        assert_ok(ls_meta_table(k->meta, k->row->id, &row));
        t->version = row.version;
        if (row.version > 0) {
                struct ls_slice *stored = NULL;

                t->text = LS_STEAL(row.metadata);
                assert_ok(ls_store_get(k->local, row.metadata_key, 0, 0, &stored));
                assert_int_equal(stored->len, t->text->len);
                assert_memory_equal(stored->ptr, t->text->ptr, stored->len);
                ls_slice_unref(stored);
                assert_ok(ls_iceberg_metadata_parse(
                        ls_str_make((const char *)t->text->ptr, t->text->len), &t->arena, &t->m,
                        NULL));
                kit_check_metadata(&t->m);
                for (size_t i = 0; i < t->m.snapshot_count; i++) /* the current one comes last */
                        kit_check_snapshot(k, t, &t->m.snapshots[i]);
                for (size_t i = 0; i < t->m.metadata_log_count; i++)
                        ls_slice_unref(kit_object(k, t->m.metadata_log[i].metadata_file));
                assert_ok(ls_meta_files(k->meta, k->row->id, false, kit_live_file, &live));
                assert_int_equal(live.count, t->file_count);
        }
        ls_meta_table_done(&row);
}
static inline void
kit_table_close(struct kit_table *t)
{
        ls_map_done(&t->files);
        ls_arena_done(&t->arena);
        ls_slice_unref(t->text);
}
static inline int64_t
kit_rows(struct kit *k)
{
        struct kit_table t;
        int64_t rows;

        kit_table_open(k, &t);
        rows = t.rows;
        kit_table_close(&t);
        return rows;
}
/* Log, table, metadata: all of it, with every record. Commits the tail. */
static inline void
kit_check(struct kit *k)
{
        struct ls_lake_verify v;
        struct ls_errinfo info = { "" };

        assert_ok(ls_meta_check(k->meta, kit_finding, NULL));
        for (int32_t p = 0; p < k->partitions; p++) {
                struct ls_wal_view view;

                assert_ok(ls_wal_view(k->wal_stream, p, &view));
                assert_int_equal(view.end, k->end[p]);
                kit_check_log(k, p, view.start);
        }
        if (ls_lake_verify(k->s, true, &v, &info) != LS_OK)
                fail_msg("%s", info.text);
        if (!v.equal)
                fail_msg("%s", v.first_difference);
        assert_int_equal(v.records_log, kit_total(k));
        assert_ok(ls_meta_check(k->meta, kit_finding, NULL));
        (void)kit_rows(k);
}
