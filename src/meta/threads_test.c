/* meta/threads_test.c - proves: with writers, readers, table commits, purging and listings at once,
 * each reader sees a state in which offsets are dense and sums agree, each commit its own offsets,
 * and `done` comes in order of submission. Meant for the thread sanitizer too. */
#include "meta/test_kit.h"

#define WRITERS 3
#define READERS 3
#define COMMITS 150

struct shared {
        struct kit k;
        uint64_t ids[2];
        _Atomic uint64_t sequence;
        pthread_mutex_t order; /* submission order is the order of sequences */
        atomic_bool stop;
        atomic_int failures;
};

struct flight {
        struct ls_meta_wal_commit commit;
        struct ls_meta_wal_batch batches[2];
        struct shared *shared;
};
static uint64_t done_sequence; /* the meta thread's */
static _Atomic int64_t done_count;

static void
flight_done(struct ls_meta_op *op, ls_err result)
{
        struct flight *f = LS_CONTAINER(op, struct flight, commit.op);

        if (result != LS_OK || f->batches[0].outcome != LS_OK || f->batches[1].outcome != LS_OK ||
            (done_sequence != 0 && f->commit.sequence <= done_sequence))
                atomic_fetch_add(&f->shared->failures, 1);
        done_sequence = f->commit.sequence;
        ls_free(f);
        atomic_fetch_add(&done_count, 1);
}

static void *
writer(void *arg)
{
        struct shared *s = arg;

        for (int i = 0; i < COMMITS; i++) {
                struct flight *f = ls_calloc(1, sizeof *f);

                f->shared = s;
                f->batches[0] = kit_batch(s->ids[0], i % 3, 3);
                f->batches[1] = kit_batch(s->ids[1], 0, 2);
                f->batches[0].entry.pos = f->batches[1].entry.pos = 100;
                f->commit.batches = f->batches;
                f->commit.batch_count = 2;
                f->commit.op.done = flight_done;
                pthread_mutex_lock(&s->order);
                f->commit.sequence = ++s->sequence;
                ls_meta_wal_submit(s->k.m, &f->commit);
                pthread_mutex_unlock(&s->order);
        }
        return NULL;
}

struct seen {
        struct ls_meta_partition parts[3];
        int64_t next[3];
        uint64_t sum[3];
        size_t count;
};
static ls_err
seen_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct seen *s = ctx;

        s->parts[partition] = *p;
        s->next[partition] = p->floor;
        s->count++;
        return LS_OK;
}
static ls_err
seen_entry(void *ctx, const struct ls_meta_entry *e)
{
        struct seen *s = ctx;

        if (e->base_offset != s->next[e->partition])
                return LS_CORRUPT;
        s->next[e->partition] += e->records;
        s->sum[e->partition] += ls_meta_entry_hash(e);
        return LS_OK;
}
static ls_err
name_fn(void *ctx, const struct ls_meta_stream *s)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

static void *
reader(void *arg)
{
        struct shared *s = arg;

        while (!atomic_load(&s->stop)) {
                struct seen seen = { .count = 0 };
                size_t streams = 0;

                if (meta_entries_snapshot(s->k.m, s->ids[0], NULL, seen_partition, seen_entry,
                                          &seen) != LS_OK)
                        atomic_fetch_add(&s->failures, 1);
                for (size_t i = 0; i < seen.count; i++)
                        if (seen.next[i] != seen.parts[i].end ||
                            seen.sum[i] != seen.parts[i].hash - seen.parts[i].floor_hash)
                                atomic_fetch_add(&s->failures, 1);
                if (ls_meta_stream_list(s->k.m, name_fn, &streams) != LS_OK || streams < 2)
                        atomic_fetch_add(&s->failures, 1);
        }
        return NULL;
}

/* Publishes all of stream 1 again and again, and purges. */
static ls_err
sum_fn(void *ctx, const struct ls_meta_entry *e)
{
        struct ls_meta_extent *x = ctx;

        x->hash += ls_meta_entry_hash(e);
        x->end_offset = e->base_offset + e->records;
        return LS_OK;
}
static void *
publisher(void *arg)
{
        struct shared *s = arg;
        int64_t floor = 0;
        uint64_t version = 0;
        size_t deleted;
        int n = 0;

        while (!atomic_load(&s->stop)) {
                char key[32];
                struct ls_meta_file file = { .key = key, .bytes = 1 };
                struct ls_meta_extent x = { .kind = LS_META_EXTENT_PARQUET,
                                            .base_offset = floor,
                                            .file_id = 1 };
                struct ls_meta_floor to = { .partition = 0 };
                bool is_new = true;
                struct ls_meta_table_commit c = { .stream_id = s->ids[1],
                                                  .version = version,
                                                  .metadata_key = "m",
                                                  .metadata = ls_span_of("{}", 2),
                                                  .add_files = &file,
                                                  .add_file_count = 1,
                                                  .add_extents = &x,
                                                  .file_is_new = &is_new,
                                                  .add_extent_count = 1,
                                                  .floors = &to,
                                                  .floor_count = 1 };

                snprintf(key, sizeof key, "f%d", n++);
                if (ls_meta_entries(s->k.m, s->ids[1], sum_fn, &x) != LS_OK)
                        atomic_fetch_add(&s->failures, 1);
                if (x.end_offset > floor) {
                        x.rows = file.rows = x.end_offset - floor;
                        to.floor = x.end_offset;
                        if (ls_meta_table_publish(s->k.m, &c, NULL) != LS_OK)
                                atomic_fetch_add(&s->failures, 1);
                        floor = x.end_offset;
                        version++;
                }
                if (ls_meta_wal_purge(s->k.m, 5, &deleted) != LS_OK)
                        atomic_fetch_add(&s->failures, 1);
        }
        return NULL;
}

static void
fail_finding(void *ctx, const char *finding)
{
        fail_msg("%s", finding);
}

static void
test_all_at_once(void **state)
{
        pthread_t writers[WRITERS], readers[READERS], publish;
        struct shared s = { .sequence = 0 };
        int64_t total = 0, id, last = -1;

        kit_new(&s.k);
        pthread_mutex_init(&s.order, NULL);
        s.ids[0] = kit_stream_id(s.k.m, "a", 3);
        s.ids[1] = kit_stream_id(s.k.m, "b", 1);
        for (int i = 0; i < READERS; i++)
                assert_int_equal(pthread_create(&readers[i], NULL, reader, &s), 0);
        assert_int_equal(pthread_create(&publish, NULL, publisher, &s), 0);
        for (int i = 0; i < WRITERS; i++)
                assert_int_equal(pthread_create(&writers[i], NULL, writer, &s), 0);
        for (int i = 0; i < WRITERS; i++)
                pthread_join(writers[i], NULL);
        for (int i = 0; i < 1500; i++) { /* a blocking op behind them: all before it is done */
                assert_ok(ls_meta_producer_new(s.k.m, &id));
                assert_true(id > last);
                last = id;
        }
        assert_int_equal(atomic_load(&done_count), WRITERS * COMMITS);
        atomic_store(&s.stop, true);
        for (int i = 0; i < READERS; i++)
                pthread_join(readers[i], NULL);
        pthread_join(publish, NULL);
        assert_int_equal(atomic_load(&s.failures), 0);
        for (int p = 0; p < 3; p++)
                total += kit_partition(s.k.m, s.ids[0], p).end;
        assert_int_equal(total, WRITERS * COMMITS * 3);
        assert_int_equal(kit_partition(s.k.m, s.ids[1], 0).end, WRITERS * COMMITS * 2);
        assert_ok(ls_meta_check(s.k.m, fail_finding, NULL));
        pthread_mutex_destroy(&s.order);
        kit_done(&s.k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_all_at_once),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
