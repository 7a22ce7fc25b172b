/* wal/wal_test.c - proves: what is acknowledged is readable at its offset, in order, from cache and
 * from disk and after a restart; a torn tail is cut and never an acknowledged record; objects that
 * are damaged at any byte are noticed; a database that went back in time is refused; a failed flush
 * fails what queued behind it; retries give the first answer; watchers wake. Runs on a real SQLite
 * database in a fresh folder. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "base/mem.h"
#include "sys/file.h"
#include "sys/jobs.h"
#include "wal/segment.h"
#include "wal/wal.h"

struct world {
        char dir[64];
        struct ls_meta *meta;
        struct ls_wal *wal;
        struct ls_meta_stream *row;
        struct ls_wal_stream *stream;
        int64_t cache_bytes;
};

static void
on_lost(void *ctx, const char *why)
{
        fail_msg("metadata lost: %s", why);
}

static ls_err
first_stream(void *ctx, const struct ls_meta_stream *s)
{
        *(uint64_t *)ctx = s->id;
        return LS_OK;
}

static ls_err
world_open(struct world *w, struct ls_errinfo *info)
{
        char db[128], wal[128];
        struct ls_meta_options meta = { .sqlite_path = db,
                                        .broker_id = 1,
                                        .on_lost = on_lost,
                                        .producer_expiry_ms = 86400000 };
        struct ls_wal_options options = { .dir = wal,
                                          .broker_id = 1,
                                          .sync = true,
                                          .segment_bytes = 1 << 20,
                                          .flush_bytes = 1 << 20,
                                          .cache_bytes = w->cache_bytes };
        uint64_t id = 0;

        snprintf(db, sizeof db, "%s/meta.db", w->dir);
        snprintf(wal, sizeof wal, "%s/wal", w->dir);
        LS_TRY(ls_meta_open(&meta, &w->meta, info));
        options.meta = w->meta;
        LS_TRY(ls_wal_open(&options, &w->wal, info));
        LS_TRY(ls_meta_stream_list(w->meta, first_stream, &id));
        if (id == 0) {
                struct ls_meta_stream spec = { .kafka_name = (char[]){ "t" },
                                               .catalog = (char[]){ "main" },
                                               .ns = (char[]){ "default" },
                                               .name = (char[]){ "t" },
                                               .partitions = 3 };

                LS_TRY(ls_meta_stream_create(w->meta, &spec, &w->row));
                id = w->row->id;
        }
        return ls_wal_stream_open(w->wal, id, 3, 0, &w->stream);
}

static void
world_close(struct world *w)
{
        ls_wal_stream_unref(w->stream);
        ls_wal_close(w->wal);
        if (w->meta != NULL)
                ls_meta_close(w->meta);
        ls_meta_stream_free(w->row);
        w->stream = NULL;
        w->wal = NULL;
        w->meta = NULL;
        w->row = NULL;
}

static int
setup(void **state)
{
        struct world *w = ls_calloc(1, sizeof *w);

        strncpy(w->dir, "/tmp/ls-wal-test-XXXXXX", sizeof w->dir - 1);
        assert_non_null(mkdtemp(w->dir));
        w->cache_bytes = 1 << 20;
        assert_int_equal(world_open(w, NULL), LS_OK);
        *state = w;
        return 0;
}

static int
teardown(void **state)
{
        struct world *w = *state;
        char command[128];

        world_close(w);
        snprintf(command, sizeof command, "rm -rf %s", w->dir);
        assert_int_equal(system(command), 0);
        ls_free(w);
        return 0;
}

/* A batch by hand: the WAL asks only for length, magic, checksum and the fields of the item. */
static struct ls_slice *
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

struct sync_append {
        struct ls_wal_append append;
        struct ls_wal_item item;
        pthread_mutex_t lock;
        struct ls_cond cond;
        bool done;
};

static void
sync_done(struct ls_wal_append *append)
{
        struct sync_append *a = LS_CONTAINER(append, struct sync_append, append);

        pthread_mutex_lock(&a->lock);
        a->done = true;
        ls_cond_signal(&a->cond);
        pthread_mutex_unlock(&a->lock);
}

static void
append_start(struct world *w, struct sync_append *a, int32_t partition, struct ls_slice *batch,
             int32_t records, int64_t producer, int32_t sequence)
{
        *a = (struct sync_append){ .append = { .items = &a->item, .count = 1, .done = sync_done },
                                   .item = { .stream = w->stream,
                                             .partition = partition,
                                             .batch = batch,
                                             .records = records,
                                             .base_timestamp = 1000,
                                             .max_timestamp = 1000 + sequence,
                                             .producer_id = producer,
                                             .base_sequence = sequence,
                                             .s0 = 3,
                                             .s1 = 5 } };
        pthread_mutex_init(&a->lock, NULL);
        ls_cond_init(&a->cond);
        ls_wal_append(w->wal, &a->append);
}

static ls_err
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

static ls_err
append_one(struct world *w, int32_t partition, int32_t records, uint8_t fill, int64_t *ret_offset)
{
        struct sync_append a;

        append_start(w, &a, partition, batch_new(records, 100, fill), records, -1, 0);
        return append_wait(&a, ret_offset);
}

/* Reads all of a partition and checks fill bytes and offsets: batch i has 2 records and fill i. */
static void
read_all(struct world *w, int32_t partition, int64_t batches)
{
        struct ls_wal_read r = { .bytes_max = 1 << 30,
                                 .min_one = true,
                                 .may_block = true,
                                 .below_floor = true,
                                 .offset_end = INT64_MAX };
        int64_t seen = 0;

        assert_int_equal(ls_wal_read(w->stream, partition, &r), LS_OK);
        for (size_t i = 0; i < r.slice_count; i++) {
                size_t pos = 0;

                while (pos < r.slices[i]->len) {
                        const uint8_t *p = r.slices[i]->ptr + pos;

                        assert_int_equal(ls_get_be64(p), 2 * seen);
                        assert_int_equal(p[61], (uint8_t)seen);
                        pos += 12 + ls_get_be32(p + 8);
                        seen++;
                }
        }
        assert_int_equal(seen, batches);
        assert_int_equal(r.view.end, 2 * batches);
        ls_wal_read_done(&r);
}

static void
test_append_then_read(void **state)
{
        struct world *w = *state;
        int64_t offset;

        for (int i = 0; i < 20; i++) {
                assert_int_equal(append_one(w, 1, 2, (uint8_t)i, &offset), LS_OK);
                assert_int_equal(offset, 2 * i);
        }
        read_all(w, 1, 20);
        read_all(w, 0, 0);
}

static void
test_read_from_disk_and_after_restart(void **state)
{
        struct world *w = *state;

        world_close(w);
        w->cache_bytes = 0;
        assert_int_equal(world_open(w, NULL), LS_OK);
        for (int i = 0; i < 20; i++)
                assert_int_equal(append_one(w, 2, 2, (uint8_t)i, NULL), LS_OK);
        read_all(w, 2, 20);
        world_close(w);
        assert_int_equal(world_open(w, NULL), LS_OK);
        read_all(w, 2, 20);
        assert_int_equal(append_one(w, 2, 2, 20, NULL), LS_OK);
        read_all(w, 2, 21);
}

static void
test_nothing_blocks_when_told_so(void **state)
{
        struct world *w = *state;
        struct ls_wal_read r = { .bytes_max = 1000, .min_one = true, .offset_end = INT64_MAX };

        assert_int_equal(append_one(w, 0, 1, 1, NULL), LS_OK);
        world_close(w);
        assert_int_equal(world_open(w, NULL), LS_OK);
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_BUSY);
        r.may_block = true;
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_OK);
        assert_int_equal(r.slice_count, 1);
        ls_wal_read_done(&r);
}

static void
test_out_of_range(void **state)
{
        struct world *w = *state;
        struct ls_wal_read r = {
                .offset = 3, .bytes_max = 1000, .offset_end = INT64_MAX, .may_block = true
        };

        assert_int_equal(append_one(w, 0, 2, 0, NULL), LS_OK);
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_OUT_OF_RANGE);
        r.offset = 2;
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_OK);
        assert_int_equal(r.slice_count, 0);
        assert_int_equal(ls_wal_read(w->stream, 3, &r), LS_ABSENT);
        assert_int_equal(ls_wal_read(w->stream, -1, &r), LS_ABSENT);
}

static void
test_retries_give_the_first_answer(void **state)
{
        struct world *w = *state;
        struct sync_append a[5];
        int64_t first[5], again;

        for (int i = 0; i < 5; i++)
                append_start(w, &a[i], 0, batch_new(2, 50, (uint8_t)i), 2, 77, 2 * i);
        for (int i = 0; i < 5; i++)
                assert_int_equal(append_wait(&a[i], &first[i]), LS_OK);
        world_close(w); /* the memory of producers survives */
        assert_int_equal(world_open(w, NULL), LS_OK);
        for (int i = 0; i < 5; i++) {
                append_start(w, &a[0], 0, batch_new(2, 50, (uint8_t)i), 2, 77, 2 * i);
                assert_int_equal(append_wait(&a[0], &again), LS_DUPLICATE);
                assert_int_equal(again, first[i]);
        }
        append_start(w, &a[0], 0, batch_new(1, 50, 9), 1, 77, 20);
        assert_int_equal(append_wait(&a[0], NULL), LS_SEQUENCE_GAP);
        read_all(w, 0, 5);
}

/* --- commits that fail --- */

/* The next commit fails for want of space, once `go` is set. */
static struct {
        pthread_mutex_t lock;
        struct ls_cond changed;
        bool armed, go;
        int submitted;
        struct ls_meta_op op;
        struct ls_meta_wal_commit *commit;
} failing = { .lock = PTHREAD_MUTEX_INITIALIZER };

static ls_err
failing_apply(struct ls_meta_op *op, struct ls_meta_txn *txn)
{
        pthread_mutex_lock(&failing.lock);
        while (!failing.go)
                ls_cond_wait(&failing.changed, &failing.lock);
        pthread_mutex_unlock(&failing.lock);
        return LS_ENOSPC;
}

static void
failing_done(struct ls_meta_op *op, ls_err result)
{
        failing.commit->op.done(&failing.commit->op, result);
}

void __real_ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit);
void __wrap_ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit);
void
__wrap_ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit)
{
        bool fails;

        pthread_mutex_lock(&failing.lock);
        fails = failing.armed;
        failing.armed = false;
        pthread_mutex_unlock(&failing.lock);
        if (fails) {
                failing.commit = commit;
                failing.op = (struct ls_meta_op){ .apply = failing_apply, .done = failing_done };
                ls_meta_submit(m, &failing.op);
        } else {
                __real_ls_meta_wal_submit(m, commit);
        }
        pthread_mutex_lock(&failing.lock);
        failing.submitted++;
        ls_cond_broadcast(&failing.changed);
        pthread_mutex_unlock(&failing.lock);
}

static void
submitted_wait(int count)
{
        pthread_mutex_lock(&failing.lock);
        while (failing.submitted < count)
                ls_cond_wait(&failing.changed, &failing.lock);
        pthread_mutex_unlock(&failing.lock);
}

/* Objects in all segment files. */
static size_t
objects_count(struct world *w)
{
        size_t count = 0;

        for (int number = 1; number < 10; number++) {
                LS_AUTO(ls_slice_unref) struct ls_slice *file = NULL;
                struct ls_object_header h;
                char path[128];

                snprintf(path, sizeof path, "%s/wal/%020d.wal", w->dir, number);
                if (ls_file_read_all(path, 1 << 24, &file) != LS_OK)
                        continue;
                for (size_t at = LS_SEGMENT_HEADER_BYTES;
                     file->len - at >= LS_OBJECT_HEADER_BYTES &&
                     ls_object_header_get(ls_span_of(file->ptr + at, file->len - at), &h) == LS_OK;
                     at += (size_t)ls_object_bytes(&h))
                        count++;
        }
        return count;
}

/* One flush waits for its commit, a second is written behind it, a third batch is queued. When the
 * first is refused, all three are: none overtakes what its producer will send again, and the log
 * keeps nothing of them. */
static void
test_refused_commit_takes_those_behind(void **state)
{
        struct world *w = *state;
        struct sync_append a[3];
        int64_t offset;

        ls_cond_init(&failing.changed);
        failing.submitted = 0;
        assert_int_equal(append_one(w, 0, 2, 0, NULL), LS_OK);
        submitted_wait(1); /* its thread counts after the answer */
        failing.submitted = 0;
        failing.armed = true;
        for (int i = 0; i < 3; i++) {
                append_start(w, &a[i], 0, batch_new(2, 100, (uint8_t)(9 + i)), 2, -1, 0);
                submitted_wait(i < 2 ? i + 1 : 2);
        }
        pthread_mutex_lock(&failing.lock);
        failing.go = true;
        ls_cond_broadcast(&failing.changed);
        pthread_mutex_unlock(&failing.lock);
        for (int i = 0; i < 3; i++)
                assert_int_equal(append_wait(&a[i], NULL), LS_ENOSPC);
        assert_int_equal(append_one(w, 0, 2, 1, &offset), LS_OK);
        assert_int_equal(offset, 2);
        read_all(w, 0, 2);
        assert_int_equal(objects_count(w), 2);
        world_close(w);
        assert_int_equal(world_open(w, NULL), LS_OK);
        read_all(w, 0, 2);
        ls_cond_done(&failing.changed);
}

static void
segment_path(struct world *w, char *ret, size_t bytes)
{
        snprintf(ret, bytes, "%s/wal/%020d.wal", w->dir, 1);
}

static void
test_torn_tail_is_cut(void **state)
{
        static const char garbage[] = "half of an object that power loss left";
        struct world *w = *state;
        char path[128];
        struct stat before, after;
        FILE *f;

        for (int i = 0; i < 3; i++)
                assert_int_equal(append_one(w, 0, 2, (uint8_t)i, NULL), LS_OK);
        segment_path(w, path, sizeof path);
        world_close(w);
        assert_int_equal(stat(path, &before), 0);
        f = fopen(path, "ab");
        assert_int_equal(fwrite(garbage, sizeof garbage, 1, f), 1);
        fclose(f);
        assert_int_equal(world_open(w, NULL), LS_OK);
        assert_int_equal(stat(path, &after), 0);
        assert_int_equal(after.st_size, before.st_size);
        read_all(w, 0, 3);
}

static void
test_damage_is_noticed(void **state)
{
        struct world *w = *state;
        struct ls_wal_read r = {
                .bytes_max = 1000, .min_one = true, .offset_end = INT64_MAX, .may_block = true
        };
        char path[128];
        FILE *f;

        for (int i = 0; i < 2; i++)
                assert_int_equal(append_one(w, 0, 2, (uint8_t)i, NULL), LS_OK);
        segment_path(w, path, sizeof path);
        world_close(w);
        f = fopen(path, "r+b");
        fseek(f, LS_SEGMENT_HEADER_BYTES + LS_OBJECT_HEADER_BYTES + 100, SEEK_SET);
        fputc(0xee, f);
        fclose(f);
        assert_int_equal(world_open(w, NULL), LS_OK);
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_EBROKEN);
        r.offset = 2; /* what is intact is still served */
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_OK);
        assert_int_equal(r.slice_count, 1);
        ls_wal_read_done(&r);
        assert_int_equal(append_one(w, 0, 2, 2, NULL), LS_OK);
}

static void
test_database_that_went_back_is_refused(void **state)
{
        struct world *w = *state;
        struct ls_errinfo info;
        char command[300];

        assert_int_equal(append_one(w, 0, 2, 0, NULL), LS_OK);
        world_close(w);
        snprintf(command, sizeof command, "cp %s/meta.db %s/old.db", w->dir, w->dir);
        assert_int_equal(system(command), 0);
        assert_int_equal(world_open(w, NULL), LS_OK);
        for (int i = 1; i < 4; i++)
                assert_int_equal(append_one(w, 0, 2, (uint8_t)i, NULL), LS_OK);
        world_close(w);
        snprintf(command, sizeof command, "rm -f %s/meta.db-*; cp %s/old.db %s/meta.db", w->dir,
                 w->dir, w->dir);
        assert_int_equal(system(command), 0);
        assert_int_equal(world_open(w, &info), LS_EBROKEN);
        assert_non_null(strstr(info.text, "went back in time"));
}

struct wake {
        struct ls_wal_waiter waiter;
        atomic_int bytes;
};

static void
woken(struct ls_wal_waiter *waiter, size_t bytes)
{
        atomic_fetch_add(&LS_CONTAINER(waiter, struct wake, waiter)->bytes, (int)bytes);
}

static void
test_watchers_wake(void **state)
{
        struct world *w = *state;
        struct wake wake = { .waiter = { .on_change = woken } };

        assert_int_equal(ls_wal_wait(w->stream, 0, 0, &wake.waiter), LS_OK);
        assert_int_equal(append_one(w, 1, 1, 0, NULL), LS_OK);
        assert_int_equal(atomic_load(&wake.bytes), 0);
        assert_int_equal(append_one(w, 0, 1, 0, NULL), LS_OK);
        assert_int_equal(atomic_load(&wake.bytes), 161);
        ls_wal_unwait(w->stream, &wake.waiter);
        assert_int_equal(append_one(w, 0, 1, 0, NULL), LS_OK);
        assert_int_equal(atomic_load(&wake.bytes), 161);
        assert_int_equal(ls_wal_wait(w->stream, 0, 0, &wake.waiter), LS_EXISTS);
        assert_int_equal(ls_wal_wait(w->stream, 9, 0, &wake.waiter), LS_ABSENT);
}

static void
test_floor_and_start(void **state)
{
        struct world *w = *state;
        struct ls_wal_read r = { .bytes_max = 1 << 20, .offset_end = INT64_MAX, .may_block = true };
        struct ls_wal_backlog backlog;

        for (int i = 0; i < 4; i++)
                assert_int_equal(append_one(w, 0, 2, (uint8_t)i, NULL), LS_OK);
        ls_wal_backlog(w->stream, &backlog);
        assert_int_equal(backlog.records, 8);
        assert_int_equal(backlog.entries, 4);
        ls_wal_set_floor(w->stream, 0, 4, 0);
        ls_wal_backlog(w->stream, &backlog);
        assert_int_equal(backlog.records, 4);
        assert_int_equal(ls_wal_read(w->stream, 0, &r),
                         LS_END); /* compaction does not see it again */
        r.below_floor = true;     /* a consumer does, from memory */
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_OK);
        assert_int_equal(r.next_offset, 8);
        ls_wal_read_done(&r);
        ls_wal_set_start(w->stream, 0, 6);
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_OUT_OF_RANGE);
        r.below_floor = false; /* the table still gets what the log hides */
        r.offset = 4;
        assert_int_equal(ls_wal_read(w->stream, 0, &r), LS_OK);
        assert_int_equal(r.next_offset, 8);
        ls_wal_read_done(&r);
}

/* --- the object format --- */

static void
object_make(struct ls_buf *out)
{
        struct ls_object_batch rows[2] = { { 7, 1, 5, 11, 12 }, { 9, 0, 3, 13, 14 } };
        struct ls_object_header h = {
                .broker = 1, .epoch = 2, .sequence = 3, .body_bytes = 8, .last_commit = 4
        };
        struct ls_buf footer;

        ls_buf_init(&footer, 1000);
        ls_object_footer_put(&footer, rows, 2);
        h.footer_bytes = footer.len;
        ls_buf_init(out, 1000);
        ls_object_header_put(out, &h);
        ls_buf_put(out, "abcdefgh", 8);
        ls_buf_put_span(out, ls_buf_span(&footer));
        ls_object_trailer_put(out, &h, ls_crc32c(0, ls_span_of("abcdefgh", 8)),
                              ls_buf_span(&footer));
        assert_false(out->failed);
        assert_int_equal(out->len, ls_object_bytes(&h));
        assert_int_equal(out->len % LS_OBJECT_ALIGN, 0);
        ls_buf_done(&footer);
}

static ls_err
object_try(ls_span bytes)
{
        struct ls_object_header h;
        struct ls_object_batch *rows = NULL;
        size_t count = 0;
        ls_span body;
        ls_err e = ls_object_check(bytes, &h, &body, &rows, &count);

        if (e == LS_OK) {
                assert_int_equal(count, 2);
                assert_int_equal(rows[1].stream_id, 9);
                assert_int_equal(rows[1].s1, 14);
                assert_memory_equal(body.ptr, "abcdefgh", 8);
        }
        ls_free(rows);
        return e;
}

static void
test_object_damage_anywhere(void **state)
{
        struct ls_buf object;
        size_t plain;

        object_make(&object);
        assert_int_equal(object_try(ls_buf_span(&object)), LS_OK);
        plain = LS_OBJECT_HEADER_BYTES + 8 + 46 + LS_OBJECT_TRAILER_BYTES - 4;
        for (size_t i = 0; i < object.len; i++) {
                struct ls_slice *cut = ls_slice_copy(ls_span_of(object.ptr, i));

                assert_int_equal(object_try(ls_slice_span(cut)), LS_CORRUPT);
                ls_slice_unref(cut);
                if (i >= plain || (i >= LS_OBJECT_HEADER_BYTES - 4 && i < LS_OBJECT_HEADER_BYTES))
                        continue; /* padding is under no checksum */
                object.ptr[i] ^= 0x10;
                assert_int_not_equal(object_try(ls_buf_span(&object)), LS_OK);
                object.ptr[i] ^= 0x10;
        }
        ls_buf_done(&object);
}

int
main(void)
{
#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_append_then_read),
                WORLD_TEST(test_read_from_disk_and_after_restart),
                WORLD_TEST(test_nothing_blocks_when_told_so),
                WORLD_TEST(test_out_of_range),
                WORLD_TEST(test_retries_give_the_first_answer),
                WORLD_TEST(test_refused_commit_takes_those_behind),
                WORLD_TEST(test_torn_tail_is_cut),
                WORLD_TEST(test_damage_is_noticed),
                WORLD_TEST(test_database_that_went_back_is_refused),
                WORLD_TEST(test_watchers_wake),
                WORLD_TEST(test_floor_and_start),
                cmocka_unit_test(test_object_damage_anywhere),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
