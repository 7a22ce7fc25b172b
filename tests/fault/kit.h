/* tests/fault/kit.h - what the tests of this folder share: a WAL over a real SQLite database in a
 * fresh folder, batches that know their number, and a model of what was answered.
 *
 * Each batch carries its number in its first payload bytes. The model holds, per partition, the
 * numbers in the order in which they were sent; `answered` of them (a prefix, when nothing fails)
 * or those in `good` (when appends may fail) must be found again, in order, once.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/mem.h"
#include "base/rd.h"
#include "sys/fault.h"
#include "sys/file.h"
#include "sys/jobs.h"
#include "wal/wal.h"

#define assert_ok(expr) assert_int_equal((expr), LS_OK)

#define KIT_PARTITIONS    2
#define KIT_SEGMENT_BYTES 4096 /* a few objects: every run rolls */
#define KIT_BATCH_MAX     512

struct kit {
        char dir[64], db[96], wal_dir[96];
        struct ls_meta *meta;
        struct ls_wal *wal;
        struct ls_meta_stream *row;
        struct ls_wal_stream *stream;
        int lost; /* the metadata store gave up */
        uint32_t next;
        uint32_t good[KIT_PARTITIONS][KIT_BATCH_MAX];
        size_t good_count[KIT_PARTITIONS];
};

static inline void
kit_lost(void *ctx, const char *why)
{
        ((struct kit *)ctx)->lost++;
}

/* In memory where there is such a folder: hundreds of fresh databases. */
static inline void
kit_dir(char dir[64])
{
        static const char fast[] = "/dev/shm/ls-fault-test-XXXXXX", sure[] = "/tmp/ls-fault-XXXXXX";

        memcpy(dir, fast, sizeof fast);
        if (mkdtemp(dir) != NULL)
                return;
        memcpy(dir, sure, sizeof sure);
        assert_non_null(mkdtemp(dir));
}

static inline void
kit_remove(const char *dir)
{
        char command[160];

        snprintf(command, sizeof command, "rm -rf '%s'", dir);
        assert_int_equal(system(command), 0);
}

static inline void
kit_init(struct kit *k)
{
        *k = (struct kit){ 0 };
        kit_dir(k->dir);
        snprintf(k->db, sizeof k->db, "%s/meta.db", k->dir);
        snprintf(k->wal_dir, sizeof k->wal_dir, "%s/wal", k->dir);
}

static inline ls_err
kit_first_stream(void *ctx, const struct ls_meta_stream *s)
{
        *(uint64_t *)ctx = s->id;
        return LS_OK;
}

static inline void
kit_meta_open(struct kit *k)
{
        struct ls_meta_options options = { .sqlite_path = k->db,
                                           .sync_full = false, /* its syncs are not looked at */
                                           .broker_id = 1,
                                           .on_lost = kit_lost,
                                           .on_lost_ctx = k,
                                           .producer_expiry_ms = 86400000 };
        struct ls_errinfo info = { "" };

        if (ls_meta_open(&options, &k->meta, &info) != LS_OK)
                fail_msg("metadata: %s", info.text);
}

static inline ls_err
kit_wal_open(struct kit *k, struct ls_errinfo *info)
{
        struct ls_wal_options options = { .dir = k->wal_dir,
                                          .meta = k->meta,
                                          .broker_id = 1,
                                          .sync = true,
                                          .segment_bytes = KIT_SEGMENT_BYTES,
                                          .flush_bytes = 1 << 20,
                                          .cache_bytes = 0 };

        return ls_wal_open(&options, &k->wal, info);
}

static inline void
kit_stream_open(struct kit *k)
{
        uint64_t id = 0;

        assert_ok(ls_meta_stream_list(k->meta, kit_first_stream, &id));
        if (id == 0) {
                struct ls_meta_stream spec = { .kafka_name = (char[]){ "t" },
                                               .catalog = (char[]){ "main" },
                                               .ns = (char[]){ "default" },
                                               .name = (char[]){ "t" },
                                               .partitions = KIT_PARTITIONS };

                assert_ok(ls_meta_stream_create(k->meta, &spec, &k->row));
                id = k->row->id;
        }
        assert_ok(ls_wal_stream_open(k->wal, id, KIT_PARTITIONS, 0, &k->stream));
}

static inline void
kit_open(struct kit *k)
{
        struct ls_errinfo info = { "" };

        kit_meta_open(k);
        if (kit_wal_open(k, &info) != LS_OK)
                fail_msg("WAL: %s", info.text);
        kit_stream_open(k);
}

static inline void
kit_close(struct kit *k)
{
        ls_wal_stream_unref(k->stream);
        ls_wal_close(k->wal);
        ls_meta_close(k->meta);
        ls_meta_stream_free(k->row);
        k->stream = NULL;
        k->wal = NULL;
        k->meta = NULL;
        k->row = NULL;
}

/* The batch numbered `id`: its records, and its bytes. */
static inline int32_t
kit_records(uint32_t id)
{
        return (int32_t)(id % 3) + 1;
}

static inline struct ls_slice *
kit_batch(uint32_t id)
{
        size_t payload = 300 + id % 7 * 100;
        struct ls_slice *s = ls_slice_new(61 + payload);

        memset(s->ptr, 0, 61);
        memset(s->ptr + 61, (int)(id & 0xff), payload);
        ls_set_be32(s->ptr + 8, (uint32_t)(s->len - 12));
        s->ptr[16] = 2;
        ls_set_be32(s->ptr + 23, (uint32_t)(kit_records(id) - 1));
        ls_set_be32(s->ptr + 57, (uint32_t)kit_records(id));
        ls_set_be32(s->ptr + 61, id);
        ls_set_be32(s->ptr + 17, ls_crc32c(0, ls_span_of(s->ptr + 21, s->len - 21)));
        return s;
}

struct kit_append {
        struct ls_wal_append append;
        struct ls_wal_item item;
        pthread_mutex_t lock;
        struct ls_cond cond;
        bool done;
        void (*on_done)(struct kit_append *a); /* on the answering thread; may be NULL */
        void *ctx;
        uint32_t id;
};

static inline void
kit_append_done(struct ls_wal_append *append)
{
        struct kit_append *a = LS_CONTAINER(append, struct kit_append, append);

        if (a->on_done != NULL)
                a->on_done(a);
        pthread_mutex_lock(&a->lock);
        a->done = true;
        ls_cond_signal(&a->cond);
        pthread_mutex_unlock(&a->lock);
}

static inline void
kit_append_start(struct kit *k, struct kit_append *a, int32_t partition)
{
        a->id = k->next++;
        a->append =
                (struct ls_wal_append){ .items = &a->item, .count = 1, .done = kit_append_done };
        a->item = (struct ls_wal_item){ .stream = k->stream,
                                        .partition = partition,
                                        .batch = kit_batch(a->id),
                                        .records = kit_records(a->id),
                                        .base_timestamp = 1000,
                                        .max_timestamp = 1000,
                                        .producer_id = -1,
                                        .producer_epoch = -1,
                                        .base_sequence = -1,
                                        .s0 = 3 + a->id,
                                        .s1 = 5 };
        a->done = false;
        pthread_mutex_init(&a->lock, NULL);
        ls_cond_init(&a->cond);
        ls_wal_append(k->wal, &a->append);
}

static inline ls_err
kit_append_wait(struct kit_append *a)
{
        pthread_mutex_lock(&a->lock);
        while (!a->done)
                ls_cond_wait(&a->cond, &a->lock);
        pthread_mutex_unlock(&a->lock);
        ls_cond_done(&a->cond);
        pthread_mutex_destroy(&a->lock);
        ls_slice_unref(a->item.batch);
        return a->item.outcome;
}

/* One append; what is answered well enters the model. */
static inline ls_err
kit_append(struct kit *k, int32_t partition)
{
        struct kit_append a = { 0 };
        ls_err e;

        kit_append_start(k, &a, partition);
        e = kit_append_wait(&a);
        if (e == LS_OK) {
                assert_true(k->good_count[partition] < KIT_BATCH_MAX);
                k->good[partition][k->good_count[partition]++] = a.id;
        } else {
                assert_int_equal(a.item.base_offset, -1);
        }
        return e;
}

/* Reads a partition whole: the numbers of its batches, in order; offsets must be dense. */
static inline size_t
kit_read(struct kit *k, int32_t partition, uint32_t *ret_ids)
{
        struct ls_wal_read r = { .bytes_max = 1 << 20,
                                 .min_one = true,
                                 .may_block = true,
                                 .below_floor = true,
                                 .offset_end = INT64_MAX };
        int64_t offset = 0;
        size_t count = 0;

        do {
                r.offset = offset;
                r.bytes = 0;
                assert_ok(ls_wal_read(k->stream, partition, &r));
                for (size_t i = 0; i < r.slice_count; i++) {
                        const uint8_t *p = r.slices[i]->ptr, *end = p + r.slices[i]->len;

                        while (p < end) {
                                uint32_t id = ls_get_be32(p + 61);

                                assert_int_equal(ls_get_be64(p), offset);
                                assert_int_equal(ls_get_be32(p + 57), kit_records(id));
                                assert_true(count < KIT_BATCH_MAX);
                                ret_ids[count++] = id;
                                offset += kit_records(id);
                                p += 12 + ls_get_be32(p + 8);
                        }
                }
                assert_int_equal(r.next_offset, offset);
                ls_wal_read_done(&r);
                r.slices = NULL;
                r.slice_count = r.slice_cap = 0;
        } while (offset < r.view.end);
        assert_int_equal(offset, r.view.end);
        return count;
}

/* What is there is what was answered well, in order, once, and nothing else. */
static inline void
kit_check(struct kit *k)
{
        static uint32_t ids[KIT_BATCH_MAX];

        for (int32_t p = 0; p < KIT_PARTITIONS; p++) {
                size_t count = kit_read(k, p, ids);

                assert_int_equal(count, k->good_count[p]);
                assert_memory_equal(ids, k->good[p], count * sizeof *ids);
        }
}
