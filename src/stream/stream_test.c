/* stream/stream_test.c - proves: streams are made, found, listed, changed, deleted and survive a
 * restart; appends are validated part by part and answered on their loop; reads see what was
 * answered; watches fire once; times are found inside batches; log starts move; many topics are
 * made together; the metadata is backed up when it changed; a deleted topic leaves nothing in the
 * store; a server that could not write is ready again when it can; an idle one writes nothing. On a
 * real data folder. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/crc32c.h"
#include "base/metric.h"
#include "formats/batch/batch.h"
#include "meta/meta.h"
#include "stream/stream.h"
#include "stream/table.h"
#include "sys/file.h"

struct world {
        char dir[64];
        struct ls_options options;
        struct ls_streams *streams;
        struct ls_loop *loop;
};

static void
world_open(struct world *w)
{
        struct ls_errinfo info = { { 0 } };
        ls_err e = ls_streams_open(&w->options, &w->streams, &info);

        if (e != LS_OK)
                fail_msg("open: %s", info.text);
}

static int
setup(void **state)
{
        struct world *w = ls_calloc(1, sizeof *w);

        strncpy(w->dir, "/tmp/ls-stream-test-XXXXXX", sizeof w->dir - 1);
        assert_non_null(mkdtemp(w->dir));
        ls_options_init(&w->options);
        assert_int_equal(ls_options_set(&w->options, LS_STR("data.dir"), ls_str_of(w->dir),
                                        LS_OPTION_FLAG, NULL),
                         LS_OK);
        assert_int_equal(ls_loop_start("ls-test", &w->loop), LS_OK);
        world_open(w);
        *state = w;
        return 0;
}

static int
teardown(void **state)
{
        struct world *w = *state;
        char command[128];

        ls_streams_close(w->streams);
        ls_loop_stop(w->loop);
        ls_options_done(&w->options);
        snprintf(command, sizeof command, "rm -rf %s", w->dir);
        assert_int_equal(system(command), 0);
        ls_free(w);
        return 0;
}

/* One batch with records at the given timestamps, value "v<i>". */
static struct ls_slice *
batch_of(const int64_t *timestamps, size_t count)
{
        struct ls_batch_build cfg = { .codec = LS_CODEC_NONE };
        struct ls_batch_builder b;
        struct ls_slice *s;
        struct ls_buf out;

        ls_buf_init(&out, 1 << 20);
        ls_batch_builder_init(&b, &cfg);
        ls_batch_builder_begin(&b, &out, 0);
        for (size_t i = 0; i < count; i++) {
                char value[16];
                struct ls_record r = { .offset = (int64_t)i, .timestamp = timestamps[i] };

                snprintf(value, sizeof value, "v%zu", i);
                r.value = ls_span_of(value, strlen(value));
                assert_int_equal(ls_batch_builder_add(&b, &r), LS_OK);
        }
        assert_int_equal(ls_batch_builder_end(&b, -1, NULL), LS_OK);
        s = ls_slice_copy(ls_buf_span(&out));
        ls_batch_builder_done(&b);
        ls_buf_done(&out);
        return s;
}

struct wait {
        struct ls_append append;
        pthread_mutex_t lock;
        struct ls_cond cond;
        int done;
        struct ls_loop *loop;
};

static void
wait_signal(struct wait *w)
{
        pthread_mutex_lock(&w->lock);
        w->done++;
        ls_cond_signal(&w->cond);
        pthread_mutex_unlock(&w->lock);
}

static void
append_answered(struct ls_append *append)
{
        struct wait *w = LS_CONTAINER(append, struct wait, append);

        assert_true(ls_loop_is_current(w->loop));
        wait_signal(w);
}

static void
wait_init(struct wait *w, struct ls_loop *loop)
{
        *w = (struct wait){ .loop = loop };
        pthread_mutex_init(&w->lock, NULL);
        ls_cond_init(&w->cond);
}

static void
wait_for(struct wait *w)
{
        pthread_mutex_lock(&w->lock);
        while (w->done == 0)
                ls_cond_wait(&w->cond, &w->lock);
        w->done--;
        pthread_mutex_unlock(&w->lock);
}

static void
append_parts(struct world *w, struct ls_append_part *parts, size_t count)
{
        struct wait wait;

        wait_init(&wait, w->loop);
        wait.append = (struct ls_append){
                .parts = parts, .part_count = count, .loop = w->loop, .done = append_answered
        };
        ls_stream_append(w->streams, &wait.append);
        wait_for(&wait);
        ls_cond_done(&wait.cond);
        for (size_t i = 0; i < count; i++)
                ls_slice_unref(parts[i].records);
}

static struct ls_stream *
make(struct world *w, const char *name, int32_t partitions)
{
        struct ls_stream *stream = NULL;
        struct ls_errinfo info = { { 0 } };

        if (ls_stream_create(w->streams, ls_str_of(name), partitions, NULL, 0, false, &stream,
                             &info) != LS_OK)
                fail_msg("create: %s", info.text);
        return stream;
}

static int64_t
append_at(struct world *w, struct ls_stream *stream, int32_t partition, const int64_t *timestamps,
          size_t count)
{
        struct ls_append_part part = { .stream = stream,
                                       .partition = partition,
                                       .records = batch_of(timestamps, count) };

        append_parts(w, &part, 1);
        assert_int_equal(part.outcome, LS_OK);
        return part.base_offset;
}

static void
test_streams_live_through_restart(void **state)
{
        const struct ls_stream_config config = { LS_STR("retention.ms"), LS_STR("1234") };
        struct world *w = *state;
        struct ls_stream *stream, *again = NULL;
        ls_uuid id;

        assert_int_equal(
                ls_stream_create(w->streams, LS_STR("a.b"), 2, &config, 1, false, &stream, NULL),
                LS_OK);
        id = ls_stream_info(stream)->topic_id;
        assert_int_equal(
                ls_stream_create(w->streams, LS_STR("a.b"), 2, NULL, 0, false, &again, NULL),
                LS_EXISTS);
        assert_ptr_equal(stream, again);
        ls_stream_unref(again);
        assert_int_equal(ls_stream_grow(w->streams, stream, 5, false, NULL), LS_OK);
        assert_int_equal(ls_stream_grow(w->streams, stream, 5, false, NULL), LS_INVALID);
        ls_stream_unref(stream);
        ls_streams_close(w->streams);
        world_open(w);
        stream = ls_stream_find_table(w->streams, LS_STR("main"), LS_STR("a"), LS_STR("b"));
        assert_non_null(stream);
        assert_true(ls_uuid_eq(id, ls_stream_info(stream)->topic_id));
        assert_int_equal(ls_stream_info(stream)->partitions, 5);
        assert_int_equal(ls_stream_info(stream)->settings.ints[LS_SET_RETENTION_MS], 1234);
        assert_int_equal(ls_stream_delete(w->streams, stream), LS_OK);
        assert_int_equal(ls_stream_delete(w->streams, stream), LS_ABSENT);
        assert_null(ls_stream_find(w->streams, LS_STR("a.b")));
        ls_stream_unref(stream);
}

static void
test_settings_change_whole_or_not(void **state)
{
        const struct ls_stream_config bad[] = { { LS_STR("retention.ms"), LS_STR("5") },
                                                { LS_STR("retention.bytes"), LS_STR("x") } };
        const struct ls_stream_config unset = { LS_STR("retention.ms"), LS_STR_NULL };
        struct world *w = *state;
        struct ls_stream *stream = make(w, "t", 1);

        assert_int_equal(ls_stream_configure(w->streams, stream, 0, bad, 2, false, NULL),
                         LS_INVALID);
        assert_int_equal(ls_stream_info(stream)->settings.ints[LS_SET_RETENTION_MS], 604800000);
        assert_int_equal(ls_stream_configure(w->streams, stream, 0, bad, 1, true, NULL), LS_OK);
        assert_null(ls_stream_config_get(stream, "retention.ms").ptr);
        assert_int_equal(ls_stream_configure(w->streams, stream, 0, bad, 1, false, NULL), LS_OK);
        assert_true(ls_str_is(ls_stream_config_get(stream, "retention.ms"), "5"));
        assert_int_equal(ls_stream_configure(w->streams, stream, 0, &unset, 1, false, NULL), LS_OK);
        assert_int_equal(ls_stream_info(stream)->settings.ints[LS_SET_RETENTION_MS], 604800000);
        ls_stream_unref(stream);
}

static void
test_one_bad_part_leaves_the_others(void **state)
{
        const int64_t now = ls_clock_wall_ms();
        struct world *w = *state;
        struct ls_stream *stream = make(w, "t", 2);
        struct ls_append_part parts[3] = {
                { .stream = stream, .partition = 0, .records = batch_of(&now, 1) },
                { .stream = stream, .partition = 1, .records = batch_of(&now, 1) },
                { .stream = stream, .partition = 7, .records = batch_of(&now, 1) }
        };

        parts[0].records->ptr[65] ^= 1;
        append_parts(w, parts, 3);
        assert_int_equal(parts[0].outcome, LS_CORRUPT);
        assert_int_equal(parts[0].base_offset, -1);
        assert_int_equal(parts[1].outcome, LS_OK);
        assert_int_equal(parts[1].base_offset, 0);
        assert_int_equal(parts[2].outcome, LS_ABSENT);
        ls_stream_unref(stream);
}

static void
test_read_what_was_answered(void **state)
{
        const int64_t times[3] = { 1000, 1005, 1010 };
        struct world *w = *state;
        struct ls_stream *stream = make(w, "t", 1);
        struct ls_read_part part = { .stream = stream, .offset = 4, .bytes_max = 1 << 20 };
        struct ls_read read = { .parts = &part, .part_count = 1, .bytes_max = 1 << 20 };
        struct ls_batch_iter it;
        struct ls_record r;

        assert_int_equal(append_at(w, stream, 0, times, 3), 0);
        assert_int_equal(append_at(w, stream, 0, times, 3), 3);
        ls_stream_read(w->streams, &read);
        assert_int_equal(part.outcome, LS_OK);
        assert_int_equal(part.high_watermark, 6);
        assert_int_equal(part.slice_count, 1); /* the batch that holds offset 4, whole */
        ls_batch_iter_init(&it, 0);
        assert_int_equal(ls_batch_iter_open(&it, ls_slice_span(part.slices[0]), true), LS_OK);
        for (int64_t offset = 3; offset < 6; offset++) {
                assert_int_equal(ls_batch_iter_next(&it, &r), LS_OK);
                assert_int_equal(r.offset, offset);
        }
        ls_batch_iter_done(&it);
        ls_read_done(&read);
        part.offset = 7;
        ls_stream_read(w->streams, &read);
        assert_int_equal(part.outcome, LS_OUT_OF_RANGE);
        ls_read_done(&read);
        ls_stream_unref(stream);
}

static void
test_times_are_exact(void **state)
{
        const int64_t times[3] = { 5000, 3000, 9000 };
        struct world *w = *state;
        struct ls_stream *stream = make(w, "t", 1);
        int64_t offset, timestamp;

        append_at(w, stream, 0, times, 3);
        append_at(w, stream, 0, (const int64_t[]){ 9000 }, 1);
        assert_int_equal(ls_stream_find_time(stream, 0, 4000, &offset, &timestamp), LS_OK);
        assert_int_equal(offset, 0);
        assert_int_equal(ls_stream_find_time(stream, 0, 6000, &offset, &timestamp), LS_OK);
        assert_int_equal(offset, 2);
        assert_int_equal(timestamp, 9000);
        assert_int_equal(ls_stream_find_time(stream, 0, 9001, &offset, &timestamp), LS_ABSENT);
        assert_int_equal(ls_stream_find_max_time(stream, 0, &offset, &timestamp), LS_OK);
        assert_int_equal(offset, 2);
        ls_stream_unref(stream);
}

static void
test_delete_records(void **state)
{
        const int64_t times[3] = { 1, 2, 3 };
        struct world *w = *state;
        struct ls_stream *stream = make(w, "t", 1);
        struct ls_offsets offsets;
        int64_t start;

        append_at(w, stream, 0, times, 3);
        append_at(w, stream, 0, times, 3);
        assert_int_equal(ls_stream_delete_records(stream, 0, 7, &start), LS_OUT_OF_RANGE);
        assert_int_equal(ls_stream_delete_records(stream, 0, 4, &start), LS_OK);
        assert_int_equal(start, 4);
        assert_int_equal(ls_stream_delete_records(stream, 0, 2, &start), LS_OK);
        assert_int_equal(start, 4);
        assert_int_equal(ls_stream_delete_records(stream, 0, -1, &start), LS_OK);
        assert_int_equal(start, 6);
        ls_stream_unref(stream);
        ls_streams_close(w->streams);
        world_open(w);
        stream = ls_stream_find(w->streams, LS_STR("t"));
        assert_int_equal(ls_stream_offsets(stream, 0, &offsets), LS_OK);
        assert_int_equal(offsets.start, 6);
        assert_int_equal(offsets.end, 6);
        ls_stream_unref(stream);
}

static void
watch_woke(void *ctx)
{
        wait_signal(ctx);
}

struct on_loop {
        struct ls_loop_msg msg;
        struct world *world;
        struct ls_stream *stream;
        struct ls_watch *watch;
        struct wait *wait;
        int64_t end_seen, bytes;
};

static void
watch_start_on_loop(struct ls_loop_msg *msg)
{
        struct on_loop *o = LS_CONTAINER(msg, struct on_loop, msg);
        struct ls_watch_part part = { o->stream, 0, o->end_seen };

        o->watch = ls_watch_start(o->world->streams, &part, 1, o->bytes, o->world->loop, watch_woke,
                                  o->wait);
        wait_signal(o->wait);
}

static void
watch_cancel_on_loop(struct ls_loop_msg *msg)
{
        struct on_loop *o = LS_CONTAINER(msg, struct on_loop, msg);

        ls_watch_cancel(o->watch);
        wait_signal(o->wait);
}

static void
run_on_loop(struct on_loop *o, void (*fn)(struct ls_loop_msg *msg))
{
        o->msg.fn = fn;
        ls_loop_post(o->world->loop, &o->msg);
        wait_for(o->wait);
}

static void
test_watch_fires_once(void **state)
{
        const int64_t now = ls_clock_wall_ms();
        struct world *w = *state;
        struct ls_stream *stream = make(w, "t", 1);
        struct wait wait;
        struct on_loop o = { .world = w, .stream = stream, .wait = &wait, .bytes = 100 };

        wait_init(&wait, w->loop);
        run_on_loop(&o, watch_start_on_loop);
        append_at(w, stream, 0, &now, 1); /* one batch is 70 bytes: not yet */
        assert_int_equal(wait.done, 0);
        append_at(w, stream, 0, &now, 1);
        wait_for(&wait);
        append_at(w, stream, 0, &now, 1);
        run_on_loop(&o, watch_cancel_on_loop);
        assert_int_equal(wait.done, 0);
        /* it moved on before the watch began: fires at once */
        o.end_seen = 0;
        run_on_loop(&o, watch_start_on_loop);
        wait_for(&wait);
        run_on_loop(&o, watch_cancel_on_loop);
        /* deleted: fires */
        o.end_seen = 3;
        run_on_loop(&o, watch_start_on_loop);
        assert_int_equal(ls_stream_delete(w->streams, stream), LS_OK);
        wait_for(&wait);
        run_on_loop(&o, watch_cancel_on_loop);
        ls_cond_done(&wait.cond);
        ls_stream_unref(stream);
}

static void
test_a_folder_has_one_server(void **state)
{
        struct world *w = *state;
        struct ls_streams *second = NULL;
        struct ls_errinfo info;

        assert_int_equal(ls_streams_open(&w->options, &second, &info), LS_BUSY);
        assert_non_null(strstr(info.text, "in use"));
}

/* --- many at once, backups, idleness --- */

/* Metadata transactions of this process so far, as /metrics shows them. */
static long
transactions_so_far(void)
{
        static const char name[] = "\nlakestream_meta_transactions_total ";
        struct ls_buf page;
        const char *at;
        long n;

        ls_buf_init(&page, LS_BUF_MAX_DEFAULT);
        ls_metric_print(&page);
        at = strstr(ls_buf_cstr(&page), name);
        assert_non_null(at);
        n = strtol(at + strlen(name), NULL, 10);
        ls_buf_done(&page);
        return n;
}

/* All that were made, and the first of them twice. */
static void
delete_together(struct world *w, const struct ls_stream_plan *plans, size_t count)
{
        struct ls_stream **list = ls_calloc(count + 1, sizeof(struct ls_stream *)), **left;
        ls_err *results = ls_calloc(count + 1, sizeof *results);
        long transactions = transactions_so_far();
        size_t n = 0, left_count;

        for (size_t i = 0; i < count; i++)
                if (plans[i].stream != NULL)
                        list[n++] = plans[i].stream;
        list[n++] = list[0];
        ls_streams_delete(w->streams, list, n, results);
        for (size_t i = 0; i < n; i++)
                assert_int_equal(results[i], i == n - 1 ? LS_ABSENT : LS_OK);
        assert_in_range(transactions_so_far() - transactions, 1, 20);
        ls_stream_list(w->streams, &left, &left_count);
        assert_int_equal(left_count, 0);
        ls_stream_list_free(left, left_count);
        ls_free(list);
        ls_free(results);
}

/* Topics made together share transactions; what is wrong with one is its own. */
static void
test_many_are_made_together(void **state)
{
        enum { COUNT = 1500 };
        struct world *w = *state;
        struct ls_stream_plan *plans = ls_calloc(COUNT, sizeof *plans);
        char(*names)[16] = ls_calloc(COUNT, sizeof *names);
        struct ls_stream *before;
        long transactions;

        assert_int_equal(
                ls_stream_create(w->streams, LS_STR("topic-7"), 1, NULL, 0, false, &before, NULL),
                LS_OK);
        for (size_t i = 0; i < COUNT; i++) {
                snprintf(names[i], sizeof names[i], "topic-%zu", i);
                plans[i] = (struct ls_stream_plan){ .kafka_name = ls_str_of(names[i]),
                                                    .partitions = i == 9 ? 0 : -1 };
        }
        transactions = transactions_so_far();
        ls_streams_create(w->streams, plans, COUNT);
        assert_in_range(transactions_so_far() - transactions, 1, 20);
        for (size_t i = 0; i < COUNT; i++) {
                struct ls_stream *found = ls_stream_find(w->streams, plans[i].kafka_name);

                assert_int_equal(plans[i].result, i == 7 ? LS_EXISTS : i == 9 ? LS_INVALID : LS_OK);
                assert_ptr_equal(found, plans[i].stream);
                assert_int_equal(found == NULL, i == 9);
                ls_stream_unref(found);
        }
        delete_together(w, plans, COUNT);
        for (size_t i = 0; i < COUNT; i++)
                ls_stream_unref(plans[i].stream);
        ls_stream_unref(before);
        ls_free(plans);
        ls_free(names);
}

struct listing {
        int count;
        char first[80], last[80];
};

static ls_err
listing_add(void *ctx, const struct ls_dir_entry *entry)
{
        struct listing *l = ctx;

        if (strncmp(entry->name, "backup-", 7) != 0)
                return LS_OK;
        if (l->count == 0 || strcmp(entry->name, l->first) < 0)
                snprintf(l->first, sizeof l->first, "%s", entry->name);
        if (l->count == 0 || strcmp(entry->name, l->last) > 0)
                snprintf(l->last, sizeof l->last, "%s", entry->name);
        l->count++;
        return LS_OK;
}

static struct listing
backups(const struct world *w)
{
        LS_AUTO(ls_free) char *dir = ls_format("%s/store/meta", w->dir);
        struct listing l = { 0 };
        ls_err e = ls_dir_walk(dir, listing_add, &l);

        assert_true(e == LS_OK || e == LS_ABSENT);
        return l;
}

/* Waits for a backup newer than `than`. */
static struct listing
backup_after(const struct world *w, const char *than)
{
        struct listing l = backups(w);

        for (int i = 0; i < 3000 && (l.count == 0 || strcmp(l.last, than) <= 0); i++) {
                usleep(10000);
                l = backups(w);
        }
        assert_true(l.count > 0 && strcmp(l.last, than) > 0);
        return l;
}

static ls_err
count_stream(void *ctx, const struct ls_meta_stream *s)
{
        ++*(int *)ctx;
        return LS_OK;
}

/* Streams that the database at `path` holds. */
static int
streams_in(const char *path)
{
        struct ls_meta_options options = { .sqlite_path = path, .broker_id = 1 };
        struct ls_meta *m;
        int count = 0;

        assert_int_equal(ls_meta_open(&options, &m, NULL), LS_OK);
        assert_int_equal(ls_meta_stream_list(m, count_stream, &count), LS_OK);
        ls_meta_close(m);
        return count;
}

static void
make_topic(struct world *w, const char *name)
{
        assert_int_equal(
                ls_stream_create(w->streams, ls_str_of(name), 1, NULL, 0, false, NULL, NULL),
                LS_OK);
}

static void
set_option(struct world *w, const char *name, const char *value)
{
        assert_int_equal(ls_options_set(&w->options, ls_str_of(name), ls_str_of(value),
                                        LS_OPTION_FLAG, NULL),
                         LS_OK);
}

/* Backups come when something changed and not else, hold it, and the newest few stay. */
static void
test_backups_follow_changes(void **state)
{
        struct world *w = *state;
        struct listing one, l;
        LS_AUTO(ls_free) char *path = NULL;

        ls_streams_close(w->streams);
        set_option(w, "meta.backup.interval.ms", "20");
        set_option(w, "meta.backup.count", "2");
        set_option(w, "log.retention.check.interval.ms", "10");
        world_open(w);
        make_topic(w, "one");
        one = backup_after(w, "");
        usleep(300000); /* many intervals in which nothing changes */
        l = backups(w);
        assert_true(l.count <= 2); /* one may have been made while the topic was */
        one = l;
        usleep(300000);
        l = backups(w);
        assert_string_equal(l.last, one.last);
        make_topic(w, "two");
        l = backup_after(w, one.last);
        make_topic(w, "three");
        l = backup_after(w, l.last);
        for (int i = 0; i < 3000 && l.count > 2; i++) { /* the newest is there before old ones go */
                usleep(10000);
                l = backups(w);
        }
        assert_int_equal(l.count, 2);
        assert_string_not_equal(l.first, one.first);
        ls_streams_close(w->streams);
        w->streams = NULL;
        path = ls_format("%s/store/meta/%s", w->dir, l.last);
        assert_int_equal(streams_in(path), 3);
}

static ls_err
count_file(void *ctx, const struct ls_dir_entry *entry)
{
        *(int *)ctx += !entry->is_dir;
        return LS_OK;
}

static int
files_in(const struct world *w, ls_uuid topic_id, const char *folder)
{
        char uuid[LS_UUID_TEXT_BYTES];
        LS_AUTO(ls_free) char *dir = NULL;
        int count = 0;
        ls_err e;

        ls_uuid_text(topic_id, uuid);
        dir = ls_format("%s/store/tables/%s/%s", w->dir, uuid, folder);
        e = ls_dir_walk(dir, count_file, &count);
        assert_true(e == LS_OK || e == LS_ABSENT);
        return count;
}

/* A deleted topic leaves nothing in the store: data files, manifests, metadata, also old ones. */
static void
test_deleted_leaves_nothing(void **state)
{
        const struct ls_stream_config grace = { LS_STR("table.file.grace.ms"), LS_STR("0") };
        const int64_t times[1] = { 1000 };
        struct world *w = *state;
        struct ls_stream *stream;
        struct ls_table table;
        ls_uuid topic_id;
        int left = -1;

        ls_streams_close(w->streams);
        set_option(w, "table.upkeep.interval.ms", "100");
        set_option(w, "log.retention.check.interval.ms", "10");
        world_open(w);
        assert_int_equal(
                ls_stream_create(w->streams, LS_STR("t"), 1, &grace, 1, false, &stream, NULL),
                LS_OK);
        topic_id = ls_stream_info(stream)->topic_id;
        for (int i = 0; i < 2; i++) {
                append_at(w, stream, 0, times, 1);
                assert_int_equal(ls_table_load(w->streams, stream, -1, &table, NULL), LS_OK);
                ls_table_done(&table);
        }
        assert_true(files_in(w, topic_id, "data") > 0 && files_in(w, topic_id, "metadata") >= 4);
        assert_int_equal(ls_stream_delete(w->streams, stream), LS_OK);
        ls_stream_unref(stream);
        for (int i = 0; i < 3000 && left != 0; i++) {
                usleep(10000);
                left = files_in(w, topic_id, "data") + files_in(w, topic_id, "metadata");
        }
        assert_int_equal(left, 0);
}

/* Not ready while nothing can be written, and ready again without an append, which nobody sends to
 * a server that is not ready. */
static void
test_ready_again(void **state)
{
        const int64_t times[1] = { 1000 };
        struct world *w = *state;
        struct ls_stream *stream = make(w, "t", 1);
        struct ls_append_part part = { .stream = stream, .records = batch_of(times, 1) };
        struct ls_errinfo info = { { 0 } };
        struct rlimit before, none;
        ls_err e = LS_EIO;

        assert_int_equal(ls_streams_ready(w->streams, &info), LS_OK);
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
        none = before;
        none.rlim_cur = 1;
        signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
        append_parts(w, &part, 1);
        assert_true(part.outcome < 0);
        assert_true(ls_streams_ready(w->streams, &info) < 0);
        assert_true(info.text[0] != '\0');
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        for (int i = 0; i < 3000 && e != LS_OK; i++) {
                usleep(10000);
                e = ls_streams_ready(w->streams, &info);
        }
        assert_int_equal(e, LS_OK);
        assert_int_equal(append_at(w, stream, 0, times, 1), 0);
        ls_stream_unref(stream);
}

/* --- what stands in a folder: names, sizes, times --- */

struct fingerprint {
        const char *path;
        uint64_t sum;
};

static uint64_t fingerprint_of(const char *path);

static ls_err
fingerprint_add(void *ctx, const struct ls_dir_entry *entry)
{
        struct fingerprint *f = ctx;
        LS_AUTO(ls_free) char *path = ls_format("%s/%s", f->path, entry->name);
        LS_AUTO(ls_free)
        char *line = ls_format("%s %llu %lld", path, (unsigned long long)entry->bytes,
                               (long long)entry->modified_ms);

        f->sum += ls_crc32c(0, ls_span_of(line, strlen(line))); /* in any order */
        if (entry->is_dir)
                f->sum += fingerprint_of(path);
        return LS_OK;
}

static uint64_t
fingerprint_of(const char *path)
{
        struct fingerprint f = { .path = path };

        assert_int_equal(ls_dir_walk(path, fingerprint_add, &f), LS_OK);
        return f.sum;
}

/* An idle server writes nothing, however much it holds; its upkeep is made to run all the time. */
static void
test_idle_writes_nothing(void **state)
{
        struct world *w = *state;
        long transactions;
        uint64_t found;

        ls_streams_close(w->streams);
        set_option(w, "meta.backup.interval.ms", "50");
        set_option(w, "log.retention.check.interval.ms", "10");
        world_open(w);
        for (int i = 0; i < 50; i++) {
                char name[16];

                snprintf(name, sizeof name, "topic-%d", i);
                assert_int_equal(ls_stream_create(w->streams, ls_str_of(name), 200, NULL, 0, false,
                                                  NULL, NULL),
                                 LS_OK);
        }
        backup_after(w, backups(w).last);
        do { /* until what was begun is done */
                found = fingerprint_of(w->dir);
                transactions = transactions_so_far();
                usleep(400000);
        } while (found != fingerprint_of(w->dir));
        usleep(500000);
        assert_true(found == fingerprint_of(w->dir));
        assert_int_equal(transactions_so_far(), transactions);
}

int
main(void)
{
#define WORLD_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
        const struct CMUnitTest tests[] = {
                WORLD_TEST(test_streams_live_through_restart),
                WORLD_TEST(test_settings_change_whole_or_not),
                WORLD_TEST(test_one_bad_part_leaves_the_others),
                WORLD_TEST(test_read_what_was_answered),
                WORLD_TEST(test_times_are_exact),
                WORLD_TEST(test_delete_records),
                WORLD_TEST(test_watch_fires_once),
                WORLD_TEST(test_a_folder_has_one_server),
                WORLD_TEST(test_many_are_made_together),
                WORLD_TEST(test_backups_follow_changes),
                WORLD_TEST(test_deleted_leaves_nothing),
                WORLD_TEST(test_ready_again),
                WORLD_TEST(test_idle_writes_nothing),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
