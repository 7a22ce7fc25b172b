/* meta/brokers_test.c - proves, of several brokers on one database: an epoch is given out once;
 * rows say who is open, where, and when it was last heard, and one who is fenced is not; versions
 * move exactly with what they stand for; who follows a stream gets each entry once and none too
 * few, in one snapshot, also while others commit, raise floors and purge; objects of the store that
 * nothing names any more go on the garbage list, with their grace. */
#include "meta/rebuild.h"
#include "meta/test_kit.h"

#define GRACE_MS 60000

/* The database of `k`, opened by another broker too. */
static void
broker_open(const struct kit *k, int32_t id, const char *rack, struct kit *ret_other)
{
        struct ls_meta_options o;

        *ret_other = *k;
        ret_other->sequence = 0;
        o = kit_options(ret_other);
        o.broker_id = id;
        o.rack = rack;
        assert_ok(ls_meta_open(&o, &ret_other->m, NULL));
}

/* --- epochs --- */

static bool
epoch_open(struct ls_meta *m, uint64_t epoch)
{
        bool open = !epoch;

        assert_ok(ls_meta_epoch_open(m, epoch, &open));
        return open;
}

static void
test_epochs(void **state)
{
        struct kit k, others[3];
        uint64_t last, first;

        kit_new(&k);
        first = last = ls_meta_broker_epoch(k.m);
        assert_int_equal(first, 1);
        for (int i = 0; i < 3; i++) {
                broker_open(&k, 2 + i, NULL, &others[i]);
                assert_int_equal(ls_meta_broker_epoch(others[i].m), ++last);
                assert_true(epoch_open(k.m, last));
        }
        assert_true(epoch_open(others[0].m, first));
        assert_false(epoch_open(k.m, last + 1));
        kit_reopen(&k); /* its own epoch was 1: the next one is that of all */
        assert_int_equal(ls_meta_broker_epoch(k.m), ++last);
        assert_false(epoch_open(k.m, first));
        ls_meta_close(others[1].m);
        assert_false(epoch_open(k.m, 3));
        broker_open(&k, 3, NULL, &others[1]);
        assert_int_equal(ls_meta_broker_epoch(others[1].m), ++last);
        for (int i = 0; i < 3; i++)
                ls_meta_close(others[i].m);
        /* above all that stand at a broker, whoever wrote them */
        kit_sql(&k, "UPDATE broker SET epoch = 100 WHERE id = 4");
        broker_open(&k, 2, NULL, &others[0]);
        assert_int_equal(ls_meta_broker_epoch(others[0].m), 101);
        ls_meta_close(others[0].m);
        kit_done(&k);
}

/* What this broker had committed before, when others opened and committed in between. */
static void
test_watermark(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k, other;
        uint64_t id, epoch, sequence;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        broker_open(&k, 2, NULL, &other);
        for (int i = 0; i < 3; i++) {
                b = kit_batch(id, 0, 1);
                assert_int_equal(kit_one(&k, &b), LS_OK);
                b = kit_batch(id, 0, 1);
                assert_int_equal(kit_one(&other, &b), LS_OK);
        }
        b = kit_batch(id, 0, 1);
        assert_int_equal(kit_one(&other, &b), LS_OK);
        for (int i = 0; i < 2; i++) { /* the second time nothing was committed in between */
                kit_reopen(&k);
                ls_meta_watermark(k.m, &epoch, &sequence);
                assert_int_equal(epoch, 1);
                assert_int_equal(sequence, 3);
        }
        ls_meta_close(other.m);
        broker_open(&k, 2, NULL, &other);
        ls_meta_watermark(other.m, &epoch, &sequence);
        assert_int_equal(epoch, 2);
        assert_int_equal(sequence, 4);
        ls_meta_close(other.m);
        kit_done(&k);
}

/* --- rows --- */

struct rows {
        struct ls_meta_broker list[8];
        char texts[8][3][32];
        size_t count;
};
static const char *
rows_text(char *copy, size_t bytes, const char *text)
{
        if (text == NULL)
                return NULL;
        snprintf(copy, bytes, "%s", text);
        return copy;
}
static ls_err
rows_fn(void *ctx, const struct ls_meta_broker *b)
{
        struct rows *rows = ctx;
        char(*texts)[32] = rows->texts[rows->count];
        struct ls_meta_broker *copy = &rows->list[rows->count++];

        assert_true(rows->count < LS_COUNT(rows->list));
        *copy = *b;
        copy->rack = rows_text(texts[0], sizeof texts[0], b->rack);
        copy->kafka = rows_text(texts[1], sizeof texts[1], b->kafka);
        copy->http = rows_text(texts[2], sizeof texts[2], b->http);
        return LS_OK;
}
static void
rows_get(struct ls_meta *m, struct rows *rows)
{
        rows->count = 0;
        assert_ok(ls_meta_brokers(m, rows_fn, rows));
}

static void
test_rows(void **state)
{
        struct rows rows;
        struct kit k, other;
        uint64_t changes;

        kit_new(&k);
        broker_open(&k, 7, NULL, &other);
        rows_get(k.m, &rows);
        assert_int_equal(rows.count, 2);
        for (int i = 0; i < 2; i++) {
                assert_true(rows.list[i].open);
                assert_null(rows.list[i].kafka);
                assert_null(rows.list[i].http);
                assert_true(rows.list[i].opened_ms > 0);
                assert_int_equal(rows.list[i].heartbeat_ms, rows.list[i].opened_ms);
                assert_in_range(rows.list[i].heartbeat_age_ms, 0, 30000);
        }
        assert_int_equal(rows.list[0].id, 1);
        assert_int_equal(rows.list[0].epoch, ls_meta_broker_epoch(k.m));
        assert_string_equal(rows.list[0].rack, "a");
        assert_int_equal(rows.list[1].id, 7);
        assert_int_equal(rows.list[1].epoch, ls_meta_broker_epoch(other.m));
        assert_null(rows.list[1].rack);

        changes = ls_meta_changes(other.m);
        kit_sql(&k, "UPDATE broker SET heartbeat_ms = heartbeat_ms - 60000");
        assert_ok(ls_meta_announce(other.m, "b7.internal:9092", NULL));
        rows_get(k.m, &rows);
        assert_string_equal(rows.list[1].kafka, "b7.internal:9092");
        assert_null(rows.list[1].http);
        assert_null(rows.list[0].kafka);
        assert_in_range(rows.list[0].heartbeat_age_ms, 60000, 90000);
        assert_in_range(rows.list[1].heartbeat_age_ms, 0, 30000);

        kit_sql(&k, "UPDATE broker SET heartbeat_ms = heartbeat_ms - 60000");
        assert_ok(ls_meta_heartbeat(other.m));
        rows_get(other.m, &rows);
        assert_in_range(rows.list[0].heartbeat_age_ms, 120000, 150000);
        assert_in_range(rows.list[1].heartbeat_age_ms, 0, 30000);
        assert_true(rows.list[1].opened_ms <= rows.list[1].heartbeat_ms);
        assert_ok(ls_meta_announce(other.m, "b7:9092", "b7:8080"));
        rows_get(k.m, &rows);
        assert_string_equal(rows.list[1].kafka, "b7:9092");
        assert_string_equal(rows.list[1].http, "b7:8080");
        /* nothing that a backup would have to keep */
        assert_int_equal(ls_meta_changes(other.m), changes);
        kit_stream_id(other.m, "t", 1);
        assert_int_equal(ls_meta_changes(other.m), changes + 1);

        ls_meta_close(other.m);
        rows_get(k.m, &rows);
        assert_false(rows.list[1].open);
        broker_open(&k, 7, "b", &other); /* what it was told of before is not so any more */
        rows_get(k.m, &rows);
        assert_int_equal(rows.count, 2);
        assert_true(rows.list[1].open);
        assert_string_equal(rows.list[1].rack, "b");
        assert_null(rows.list[1].kafka);
        assert_null(rows.list[1].http);
        ls_meta_close(other.m);
        kit_done(&k);
}

static void
test_fenced(void **state)
{
        struct kit k, old, young;
        struct rows rows;

        kit_new(&k);
        broker_open(&k, 2, NULL, &old);
        broker_open(&k, 2, NULL, &young);
        assert_int_equal(ls_meta_heartbeat(old.m), LS_EFENCED);
        assert_int_equal(ls_meta_announce(old.m, "old:1", "old:2"), LS_EFENCED);
        ls_meta_close(old.m);
        rows_get(k.m, &rows);
        assert_int_equal(rows.count, 2);
        assert_true(rows.list[1].open);
        assert_int_equal(rows.list[1].epoch, ls_meta_broker_epoch(young.m));
        assert_null(rows.list[1].kafka);
        assert_ok(ls_meta_heartbeat(young.m));
        ls_meta_close(young.m);
        kit_done(&k);
}

static void
test_long_address(void **state)
{
        char *text = ls_calloc(1, LS_META_TEXT_BYTES_MAX + 2);
        struct kit k;

        kit_new(&k);
        memset(text, 'a', LS_META_TEXT_BYTES_MAX + 1);
        assert_int_equal(ls_meta_announce(k.m, text, NULL), LS_INVALID);
        assert_int_equal(ls_meta_announce(k.m, NULL, text), LS_INVALID);
        ls_free(text);
        kit_done(&k);
}

/* What a rebuild has seen is not given out again, whoever's it is. */
static void
test_witness(void **state)
{
        struct ls_meta_witness w = { .producer_id = -1, .broker = 9, .epoch = 20 };
        struct ls_meta_wal_batch b;
        uint64_t id, epoch, sequence;
        struct kit k, other;
        struct rows rows;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        assert_ok(ls_meta_rebuild_witness(k.m, &w));
        assert_int_equal(ls_meta_broker_epoch(k.m), 21);
        rows_get(k.m, &rows);
        assert_int_equal(rows.count, 2);
        assert_int_equal(rows.list[0].epoch, 21);
        assert_int_equal(rows.list[1].id, 9);
        assert_int_equal(rows.list[1].epoch, 20);
        assert_false(rows.list[1].open);
        w.epoch = 5; /* nothing falls */
        assert_ok(ls_meta_rebuild_witness(k.m, &w));
        w.broker = 1;
        assert_ok(ls_meta_rebuild_witness(k.m, &w));
        assert_int_equal(ls_meta_broker_epoch(k.m), 21);
        b = kit_batch(id, 0, 1); /* it is not fenced by that */
        assert_int_equal(kit_one(&k, &b), LS_OK);
        broker_open(&k, 9, NULL, &other);
        assert_int_equal(ls_meta_broker_epoch(other.m), 22);
        w.epoch = 30;
        assert_ok(ls_meta_rebuild_witness(k.m, &w));
        assert_int_equal(ls_meta_broker_epoch(k.m), 31);
        ls_meta_close(other.m);
        broker_open(&k, 9, NULL, &other);
        assert_int_equal(ls_meta_broker_epoch(other.m), 32);
        { /* an object that is committed again witnesses its epoch */
                struct ls_meta_wal_commit c = {
                        .segment = 7, .bytes = 500, .batches = &b, .batch_count = 1
                };

                b = kit_batch(id, 0, 1);
                b.entry.pos = 10;
                assert_ok(ls_meta_rebuild_wal(k.m, 3, 40, &c));
                assert_int_equal(b.outcome, LS_OK);
        }
        kit_reopen(&k);
        assert_int_equal(ls_meta_broker_epoch(k.m), 41);
        ls_meta_watermark(k.m, &epoch, &sequence);
        assert_int_equal(epoch, 31);
        ls_meta_close(other.m);
        kit_done(&k);
}

/* --- one row --- */

static ls_err
stream_fn(void *ctx, const struct ls_meta_stream *s)
{
        const struct ls_meta_stream *want = ctx;

        assert_int_equal(s->id, want->id);
        assert_memory_equal(s->topic_id.bytes, want->topic_id.bytes, sizeof s->topic_id.bytes);
        assert_string_equal(s->kafka_name, want->kafka_name);
        assert_int_equal(s->partitions, want->partitions);
        assert_int_equal(s->version, want->version);
        assert_int_equal(s->config_count, want->config_count);
        for (size_t i = 0; i < s->config_count; i++) {
                assert_string_equal(s->configs[i].name, want->configs[i].name);
                assert_string_equal(s->configs[i].value, want->configs[i].value);
        }
        return LS_END; /* passed on as it is */
}

static void
test_stream_get(void **state)
{
        const struct ls_meta_config configs[] = { { "a", "1" }, { "b", "2" } };
        struct ls_meta_stream *s, *configured;
        struct kit k, other;

        kit_new(&k);
        broker_open(&k, 2, NULL, &other);
        s = kit_stream(k.m, "t", 3);
        assert_int_equal(ls_meta_stream_get(other.m, s->id, stream_fn, s), LS_END);
        assert_ok(ls_meta_stream_configure(k.m, s->id, 0, configs, 2, &configured));
        assert_int_equal(configured->version, 2);
        assert_int_equal(configured->config_count, 2);
        assert_int_equal(ls_meta_stream_get(other.m, s->id, stream_fn, configured), LS_END);
        assert_int_equal(ls_meta_stream_get(other.m, s->id + 1, stream_fn, s), LS_ABSENT);
        assert_ok(ls_meta_stream_delete(k.m, s->id, 0));
        assert_int_equal(ls_meta_stream_get(other.m, s->id, stream_fn, s), LS_ABSENT);
        ls_meta_stream_free(configured);
        ls_meta_stream_free(s);
        ls_meta_close(other.m);
        kit_done(&k);
}

static ls_err
group_fn(void *ctx, const struct ls_meta_group *g)
{
        const struct ls_meta_group *want = ctx;

        assert_string_equal(g->group_id, want->group_id);
        assert_int_equal(g->version, want->version + 1);
        assert_int_equal(g->generation, want->generation);
        assert_int_equal(g->state.len, want->state.len);
        assert_memory_equal(g->state.ptr, want->state.ptr, want->state.len);
        return LS_OK;
}

static void
test_group_get(void **state)
{
        struct ls_meta_group g = { .group_id = "g",
                                   .generation = 4,
                                   .state = ls_span_of("\0state", 6) };
        struct ls_meta_offset o = { .metadata = LS_STR("") };
        struct kit k, other;

        kit_new(&k);
        broker_open(&k, 2, NULL, &other);
        assert_int_equal(ls_meta_group_get(other.m, "g", group_fn, &g), LS_ABSENT);
        o.stream_id = kit_stream_id(k.m, "t", 1);
        assert_ok(ls_meta_offsets_store(k.m, "g", -1, &o, 1)); /* a row for its offsets only */
        assert_int_equal(ls_meta_group_get(other.m, "g", group_fn, &g), LS_ABSENT);
        assert_ok(ls_meta_group_store(k.m, &g));
        assert_ok(ls_meta_group_get(other.m, "g", group_fn, &g));
        g.version++;
        g.generation++;
        g.state.len = 0;
        assert_ok(ls_meta_group_store(k.m, &g));
        assert_ok(ls_meta_group_get(other.m, "g", group_fn, &g));
        assert_int_equal(ls_meta_group_get(other.m, "h", group_fn, &g), LS_ABSENT);
        assert_int_equal(ls_meta_group_get(other.m, "\xff", group_fn, &g), LS_ABSENT);
        assert_ok(ls_meta_group_delete(k.m, "g"));
        assert_int_equal(ls_meta_group_get(other.m, "g", group_fn, &g), LS_ABSENT);
        ls_meta_close(other.m);
        kit_done(&k);
}

/* --- versions --- */

struct versions {
        uint64_t stream[8], stream_version[8];
        uint64_t chunk_stream[8], chunk_version[8];
        int32_t first[8];
        size_t streams, chunks;
        struct kit *commits; /* from within, NULL: not */
};
static ls_err
versions_stream_fn(void *ctx, uint64_t stream_id, uint64_t version)
{
        struct versions *v = ctx;

        assert_true(v->streams == 0 || stream_id > v->stream[v->streams - 1]);
        assert_int_equal(v->chunks, 0);
        v->stream[v->streams] = stream_id;
        v->stream_version[v->streams++] = version;
        if (v->commits != NULL) {
                struct ls_meta_wal_batch b = kit_batch(stream_id, 0, 1);

                assert_int_equal(kit_one(v->commits, &b), LS_OK);
                v->commits = NULL;
        }
        return LS_OK;
}
static ls_err
versions_chunk_fn(void *ctx, uint64_t stream_id, int32_t first_partition, uint64_t version)
{
        struct versions *v = ctx;

        assert_true(v->chunks == 0 || stream_id > v->chunk_stream[v->chunks - 1] ||
                    first_partition > v->first[v->chunks - 1]);
        v->chunk_stream[v->chunks] = stream_id;
        v->first[v->chunks] = first_partition;
        v->chunk_version[v->chunks++] = version;
        return LS_OK;
}
static void
versions_get(struct ls_meta *m, struct versions *v)
{
        v->streams = v->chunks = 0;
        assert_ok(ls_meta_versions(m, versions_stream_fn, versions_chunk_fn, v));
}
/* Since the last look the versions moved by this much, of two streams of chunks 0, and 0 and 64. */
static void
versions_moved(struct ls_meta *m, struct versions *v, const uint64_t stream[2],
               const uint64_t chunk[3])
{
        struct versions was = *v;

        versions_get(m, v);
        assert_int_equal(v->streams, 2);
        assert_int_equal(v->chunks, 3);
        for (int i = 0; i < 2; i++) {
                assert_int_equal(v->stream[i], was.stream[i]);
                assert_int_equal(v->stream_version[i], was.stream_version[i] + stream[i]);
        }
        for (int i = 0; i < 3; i++) {
                assert_int_equal(v->chunk_stream[i], was.chunk_stream[i]);
                assert_int_equal(v->first[i], was.first[i]);
                assert_int_equal(v->chunk_version[i], was.chunk_version[i] + chunk[i]);
        }
}
#define MOVED(s0, s1, c0, c1, c2)                                  \
        versions_moved(other.m, &v, (const uint64_t[2]){ s0, s1 }, \
                       (const uint64_t[3]){ c0, c1, c2 })

static void
test_versions(void **state)
{
        const struct ls_meta_config config = { "retention.ms", "5" };
        struct ls_meta_wal_batch bs[2];
        struct ls_meta_offset o = { .offset = 1 };
        struct ls_meta_stream *s;
        struct versions v = { .streams = 0 };
        struct kit k, other;
        uint64_t a, b;
        size_t moved, deleted;
        int64_t start;

        kit_new(&k);
        broker_open(&k, 2, NULL, &other);
        versions_get(other.m, &v);
        assert_int_equal(v.streams + v.chunks, 0);
        a = kit_stream_id(k.m, "a", 3);
        b = kit_stream_id(k.m, "b", 64);
        assert_ok(ls_meta_stream_grow(k.m, b, 70, &s));
        ls_meta_stream_free(s);
        versions_get(other.m, &v);
        assert_int_equal(v.streams, 2);
        assert_true(v.stream[0] == a && v.stream[1] == b);
        assert_true(v.stream_version[0] == 1 && v.stream_version[1] == 2);
        assert_int_equal(v.chunks, 3);
        assert_true(v.chunk_stream[0] == a && v.chunk_stream[1] == b && v.chunk_stream[2] == b);
        assert_true(v.first[0] == 0 && v.first[1] == 0 && v.first[2] == 64);
        MOVED(0, 0, 0, 0, 0);

        assert_ok(ls_meta_stream_configure(k.m, a, 0, &config, 1, &s));
        ls_meta_stream_free(s);
        MOVED(1, 0, 0, 0, 0);
        assert_ok(ls_meta_stream_grow(k.m, b, 71, &s));
        ls_meta_stream_free(s);
        MOVED(0, 1, 0, 0, 1);
        bs[0] = kit_batch(a, 2, 5);
        assert_int_equal(kit_one(&k, bs), LS_OK);
        MOVED(0, 0, 1, 0, 0);
        bs[0] = kit_batch(a, 2, 5);
        bs[1] = kit_batch(b, 65, 5);
        assert_ok(kit_commit(&k, bs, 2, NULL));
        MOVED(0, 0, 1, 0, 1);
        bs[0] = kit_batch(b, 100, 5); /* refused: it is not there */
        assert_int_equal(kit_one(&k, bs), LS_ABSENT);
        MOVED(0, 0, 0, 0, 0);
        assert_ok(ls_meta_log_start(k.m, a, 2, 5, &start));
        MOVED(0, 0, 1, 0, 0);
        assert_ok(ls_meta_log_start(k.m, a, 2, 5, &start)); /* it stands there */
        MOVED(0, 0, 0, 0, 0);
        assert_ok(ls_meta_log_discard(k.m, a, &moved)); /* a table commit: the floor rises */
        assert_int_equal(moved, 1);
        MOVED(0, 0, 1, 0, 0);
        assert_ok(ls_meta_wal_purge(k.m, 100, &deleted));
        assert_int_equal(deleted, 1);
        o.stream_id = a;
        assert_ok(ls_meta_offsets_store(k.m, "g", -1, &o, 1));
        assert_ok(ls_meta_heartbeat(k.m));
        MOVED(0, 0, 0, 0, 0);

        /* one snapshot: what is committed after the first row is not in the last one */
        v.commits = &k;
        MOVED(0, 0, 0, 0, 0);
        MOVED(0, 0, 1, 0, 0);
        assert_ok(ls_meta_stream_delete(k.m, a, 0));
        versions_get(other.m, &v);
        assert_int_equal(v.streams, 1);
        assert_int_equal(v.stream[0], b);
        assert_int_equal(v.chunks, 2);
        assert_true(v.chunk_stream[0] == b && v.chunk_stream[1] == b);
        ls_meta_close(other.m);
        kit_done(&k);
}

/* A table commit of a broker that has not seen what the others appended, nor a partition that they
 * added: its cached chunk says that the floor would pass the end, or that there is no such
 * partition. */
static void
test_publish_on_stale_chunk(void **state)
{
        struct ls_meta_wal_batch b;
        struct ls_meta_stream *s;
        struct kit k, other;
        int64_t start;
        size_t moved;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        broker_open(&k, 2, NULL, &other);
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK); /* in its cache from here on */
        b = kit_batch(id, 0, 4);
        assert_int_equal(kit_one(&other, &b), LS_OK);
        assert_ok(ls_meta_log_start(other.m, id, 0, 7, &start));
        assert_ok(ls_meta_log_discard(k.m, id, &moved));
        assert_int_equal(kit_partition(other.m, id, 0).floor, 7);
        assert_ok(ls_meta_stream_grow(other.m, id, 2, &s));
        ls_meta_stream_free(s);
        b = kit_batch(id, 1, 4);
        assert_int_equal(kit_one(&other, &b), LS_OK);
        assert_ok(ls_meta_log_start(other.m, id, 1, 4, &start));
        assert_ok(ls_meta_log_discard(k.m, id, &moved));
        assert_int_equal(kit_partition(other.m, id, 1).floor, 4);
        ls_meta_close(other.m);
        kit_done(&k);
}

/* --- following --- */

/* What a follower knows of a stream of 3 partitions. Checks as it learns: each entry comes once,
 * nothing is missing between two. */
struct follower {
        struct ls_meta *m;
        uint64_t id, commit, last_object;
        struct ls_meta_partition parts[3];
        int64_t next[3];
        uint64_t sum[3]; /* of what came */
        bool whole[3];   /* no entry was compacted away before it came */
        size_t partitions, entries;
        struct kit *commits; /* from within, NULL: not */
        bool wrong;
};

static ls_err
follow_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct follower *f = ctx;
        struct ls_meta_partition *was = &f->parts[partition];

        f->wrong |= partition != (int32_t)(f->partitions++ % 3) || p->start < was->start ||
                    p->end < was->end || p->floor < was->floor;
        *was = *p;
        if (p->floor > f->next[partition]) {
                f->next[partition] = p->floor;
                f->whole[partition] = false;
        }
        if (f->commits != NULL) {
                struct ls_meta_wal_batch b = kit_batch(f->id, 2, 9);

                assert_int_equal(kit_one(f->commits, &b), LS_OK);
                f->commits = NULL;
        }
        return LS_OK;
}
static ls_err
follow_entry(void *ctx, const struct ls_meta_entry *e)
{
        struct follower *f = ctx;

        f->wrong |= e->base_offset != f->next[e->partition] || e->commit <= f->commit ||
                    e->commit < f->last_object || e->committed_ms <= 0;
        f->last_object = e->commit;
        f->next[e->partition] = e->base_offset + e->records;
        f->sum[e->partition] += ls_meta_entry_hash(e);
        f->entries++;
        return LS_OK;
}
/* False: something is wrong. */
static bool
follow(struct follower *f)
{
        uint64_t commit = f->commit;

        f->partitions = 0;
        if (ls_meta_follow(f->m, f->id, f->commit, follow_partition, follow_entry, f, &commit) !=
            LS_OK)
                return false;
        f->wrong |= f->partitions != 3 || commit < f->commit || f->last_object > commit;
        f->commit = commit;
        for (int i = 0; i < 3; i++)
                f->wrong |= f->next[i] != f->parts[i].end ||
                            (f->whole[i] && f->sum[i] != f->parts[i].hash);
        return !f->wrong;
}

static void
test_follow(void **state)
{
        struct ls_meta_wal_batch bs[3];
        struct follower f[3];
        struct kit k, other;
        uint64_t id, aside;
        size_t moved, deleted;
        int64_t start;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 3);
        aside = kit_stream_id(k.m, "u", 1);
        broker_open(&k, 2, NULL, &other);
        for (size_t i = 0; i < LS_COUNT(f); i++)
                f[i] = (struct follower){ .m = other.m, .id = id, .whole = { 1, 1, 1 } };
        for (int i = 0; i < 400; i++) {
                struct kit *by = i % 3 == 0 ? &other : &k;

                bs[0] = kit_batch(id, i % 3, 1 + i % 4);
                bs[1] = kit_batch(aside, 0, 1);
                assert_ok(
                        kit_commit(by, bs + (i % 7 == 0), i % 5 == 0 ? 2 - (i % 7 == 0) : 1, NULL));
                if (i % 10 == 9) {
                        struct ls_meta_partition p = kit_partition(k.m, id, i % 3);

                        assert_ok(ls_meta_log_start(k.m, id, i % 3, p.end - 2, &start));
                }
                if (i % 20 == 19) {
                        assert_ok(ls_meta_log_discard(i % 40 == 19 ? k.m : other.m, id, &moved));
                        assert_true(moved > 0);
                        assert_ok(ls_meta_wal_purge(k.m, 1000, &deleted));
                        assert_true(deleted > 0);
                }
                assert_true(follow(&f[0])); /* at every step; now and then; at last */
                if (i % 16 == 0)
                        assert_true(follow(&f[1]));
        }
        for (size_t i = 0; i < LS_COUNT(f); i++)
                assert_true(follow(&f[i]));
        assert_true(f[0].whole[0] && f[0].whole[1] && f[0].whole[2]);
        assert_false(f[2].whole[0]);
        assert_true(f[0].entries > f[1].entries && f[1].entries > f[2].entries);
        ls_meta_close(other.m);
        kit_done(&k);
}

static void
test_follow_one_snapshot(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k, other;
        struct follower f;
        uint64_t commit;

        kit_new(&k);
        broker_open(&k, 2, NULL, &other);
        f = (struct follower){ .m = other.m, .whole = { 1, 1, 1 } };
        f.id = kit_stream_id(k.m, "t", 3);
        b = kit_batch(f.id, 2, 4);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        f.commits = &k; /* at the first partition, before the others and the entries are read */
        assert_true(follow(&f));
        assert_int_equal(f.entries, 1);
        assert_int_equal(f.parts[2].end, 4);
        assert_true(follow(&f));
        assert_int_equal(f.entries, 2);
        assert_int_equal(f.parts[2].end, 13);
        /* to go on from the counter is to look at no old row again */
        assert_ok(ls_meta_commit_number(k.m, &commit));
        assert_int_equal(f.commit, commit);
        b = kit_batch(kit_stream_id(k.m, "u", 1), 0, 4);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_true(follow(&f));
        assert_int_equal(f.commit, commit + 1);
        assert_int_equal(f.entries, 2);
        ls_meta_close(other.m);
        kit_done(&k);
}

static ls_err
stop_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        return partition == 1 ? LS_BUSY : LS_OK;
}
static ls_err
stop_entry(void *ctx, const struct ls_meta_entry *e)
{
        return LS_BUSY;
}
static void
test_follow_refusals(void **state)
{
        struct ls_meta_wal_batch b;
        struct follower f = { .id = 0 };
        uint64_t id, commit = 77;
        struct kit k;

        kit_new(&k);
        f.m = k.m;
        id = kit_stream_id(k.m, "t", 3);
        b = kit_batch(id, 2, 4);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_int_equal(
                ls_meta_follow(k.m, id + 1, 0, follow_partition, follow_entry, &f, &commit),
                LS_ABSENT);
        assert_int_equal(ls_meta_follow(k.m, id, 0, stop_partition, follow_entry, &f, &commit),
                         LS_BUSY);
        assert_int_equal(ls_meta_follow(k.m, id, 0, follow_partition, stop_entry, &f, &commit),
                         LS_BUSY);
        /* a database that does not know what it has given already */
        assert_int_equal(ls_meta_follow(k.m, id, 2, follow_partition, follow_entry, &f, &commit),
                         LS_EBROKEN);
        assert_int_equal(commit, 77);
        kit_sql(&k, "UPDATE wal_index SET entries = x'00'");
        assert_int_equal(ls_meta_follow(k.m, id, 0, follow_partition, follow_entry, &f, &commit),
                         LS_CORRUPT);
        assert_ok(ls_meta_follow(k.m, id, 1, follow_partition, follow_entry, &f, &commit));
        assert_int_equal(commit, 1);
        assert_ok(ls_meta_stream_delete(k.m, id, 0));
        assert_int_equal(ls_meta_follow(k.m, id, 1, follow_partition, follow_entry, &f, &commit),
                         LS_ABSENT);
        kit_done(&k);
}

/* --- all at once --- */

#define WRITERS 3
#define COMMITS 120

struct at_once {
        struct kit k[WRITERS]; /* a broker each */
        uint64_t id;
        atomic_bool stop;
        atomic_int failures;
};
struct at_once_arg {
        struct at_once *all;
        int number;
        bool purges; /* what a writer does beside; a follower: falls behind */
};

static void *
at_once_writer(void *arg)
{
        const struct at_once_arg *a = arg;
        struct kit *k = &a->all->k[a->number];
        int64_t start;
        size_t count;

        for (int i = 0; i < COMMITS; i++) {
                struct ls_meta_wal_batch b = kit_batch(a->all->id, (a->number + i) % 3, 1 + i % 3);

                if (kit_one(k, &b) != LS_OK)
                        atomic_fetch_add(&a->all->failures, 1);
                if (!a->purges || i % 10 != 0)
                        continue;
                for (int p = 0; p < 3; p++)
                        if (ls_meta_log_start(k->m, a->all->id, p,
                                              kit_partition(k->m, a->all->id, p).end,
                                              &start) != LS_OK)
                                atomic_fetch_add(&a->all->failures, 1);
                if (ls_meta_log_discard(k->m, a->all->id, &count) != LS_OK ||
                    ls_meta_wal_purge(k->m, 1000, &count) != LS_OK)
                        atomic_fetch_add(&a->all->failures, 1);
        }
        return NULL;
}

static void *
at_once_follower(void *arg)
{
        const struct at_once_arg *a = arg;
        struct follower f = { .m = a->all->k[a->number].m, .id = a->all->id, .whole = { 1, 1, 1 } };
        bool stopped;

        do {
                stopped = atomic_load(&a->all->stop);
                if (!follow(&f))
                        atomic_fetch_add(&a->all->failures, 1);
                for (int i = 0; a->purges && !stopped && i < 20; i++) {
                        struct ls_meta_partition p = kit_partition(f.m, f.id, 0);

                        stopped = p.end < f.parts[0].end;
                        if (stopped)
                                atomic_fetch_add(&a->all->failures, 1);
                }
        } while (!stopped);
        for (int i = 0; i < 3; i++) /* all that was committed came, or was compacted away */
                if (f.next[i] != kit_partition(f.m, f.id, i).end)
                        atomic_fetch_add(&a->all->failures, 1);
        return NULL;
}

static void
all_at_once(bool purges)
{
        pthread_t writers[WRITERS], followers[4];
        struct at_once_arg args[WRITERS], follower_args[4];
        struct at_once all = { .failures = 0 };
        int64_t total = 0, want = 0;

        kit_new(&all.k[0]);
        for (int i = 1; i < WRITERS; i++)
                broker_open(&all.k[0], 1 + i, NULL, &all.k[i]);
        all.id = kit_stream_id(all.k[0].m, "t", 3);
        for (int i = 0; i < 4; i++) {
                follower_args[i] = (struct at_once_arg){ &all, i % WRITERS, i >= 2 };
                assert_int_equal(
                        pthread_create(&followers[i], NULL, at_once_follower, &follower_args[i]),
                        0);
        }
        for (int i = 0; i < WRITERS; i++) {
                args[i] = (struct at_once_arg){ &all, i, purges && i == 0 };
                assert_int_equal(pthread_create(&writers[i], NULL, at_once_writer, &args[i]), 0);
        }
        for (int i = 0; i < WRITERS; i++)
                pthread_join(writers[i], NULL);
        atomic_store(&all.stop, true);
        for (int i = 0; i < 4; i++)
                pthread_join(followers[i], NULL);
        assert_int_equal(atomic_load(&all.failures), 0);
        for (int p = 0; p < 3; p++)
                total += kit_partition(all.k[0].m, all.id, p).end;
        for (int i = 0; i < COMMITS; i++)
                want += WRITERS * (1 + i % 3);
        assert_int_equal(total, want);
        for (int i = 1; i < WRITERS; i++)
                ls_meta_close(all.k[i].m);
        kit_done(&all.k[0]);
}

static void
test_follow_while_others_commit(void **state)
{
        all_at_once(false);
}
static void
test_follow_while_others_purge(void **state)
{
        all_at_once(true);
}

/* --- WAL objects of the store --- */

static void
test_key(uint64_t segment, char ret_key[LS_META_WAL_KEY_BYTES])
{
        snprintf(ret_key, LS_META_WAL_KEY_BYTES, "wal/%llu", (unsigned long long)segment);
}

static void
keyed_open(struct kit *k, int32_t id)
{
        struct ls_meta_options o = kit_options(k);

        o.broker_id = id;
        o.wal_key = test_key;
        o.wal_grace_ms = GRACE_MS;
        assert_ok(ls_meta_open(&o, &k->m, NULL));
        k->sequence = 0;
}

/* An object of its own segment. */
static void
commit_segment(struct kit *k, uint64_t segment, struct ls_meta_wal_batch *batches, size_t count)
{
        struct kit_commit c = { .commit = { .sequence = k->sequence++,
                                            .segment = segment,
                                            .pos = 100,
                                            .bytes = 500,
                                            .batches = batches,
                                            .batch_count = count } };

        for (size_t i = 0; i < count; i++)
                batches[i].entry.pos = 110;
        kit_commit_submit(k->m, &c);
        assert_ok(kit_commit_wait(&c));
}

struct keys {
        char list[16][32];
        size_t count;
};
static ls_err
keys_fn(void *ctx, const char *key)
{
        struct keys *keys = ctx;

        assert_true(keys->count < LS_COUNT(keys->list));
        snprintf(keys->list[keys->count++], sizeof keys->list[0], "%s", key);
        return LS_OK;
}
/* All that stand on the list. */
static void
keys_get(struct ls_meta *m, struct keys *keys)
{
        keys->count = 0;
        assert_ok(ls_meta_garbage_all(m, keys_fn, keys));
}

static void
test_purge_to_garbage(void **state)
{
        struct ls_meta_wal_batch bs[2];
        struct keys keys;
        struct rows rows;
        struct kit k, other;
        uint64_t a, b;
        size_t moved, deleted;
        int64_t start, now_ms;

        kit_init(&k);
        keyed_open(&k, 1);
        other = k;
        keyed_open(&other, 2);
        a = kit_stream_id(k.m, "a", 1);
        b = kit_stream_id(k.m, "b", 1);
        bs[0] = kit_batch(a, 0, 2);
        commit_segment(&k, 11, bs, 1);
        bs[0] = kit_batch(a, 0, 2);
        bs[1] = kit_batch(b, 0, 2);
        commit_segment(&other, 12, bs, 2);
        bs[0] = kit_batch(b, 0, 2);
        commit_segment(&k, 0, bs, 1);
        assert_ok(ls_meta_log_start(k.m, a, 0, 4, &start));
        assert_ok(ls_meta_log_discard(k.m, a, &moved));
        assert_ok(ls_meta_wal_purge(other.m, 100, &deleted));
        assert_int_equal(deleted, 2);
        keys_get(k.m, &keys);
        assert_int_equal(keys.count, 1); /* 12 is named by the other stream */
        assert_string_equal(keys.list[0], "wal/11");

        /* a deleted stream's */
        assert_ok(ls_meta_stream_delete(k.m, b, 0));
        keys_get(k.m, &keys);
        assert_int_equal(keys.count, 1);
        assert_ok(ls_meta_wal_purge(k.m, 100, &deleted));
        assert_true(deleted >= 2);
        keys_get(k.m, &keys);
        assert_int_equal(keys.count, 3);
        assert_ok(ls_meta_wal_purge(k.m, 100, &deleted));

        /* not due before the grace is over, by the clock of the database */
        assert_ok(ls_meta_heartbeat(k.m));
        rows_get(k.m, &rows);
        now_ms = rows.list[0].heartbeat_ms;
        keys.count = 0;
        assert_ok(ls_meta_garbage(k.m, 10, keys_fn, &keys));
        assert_ok(meta_garbage_at(k.m, now_ms + GRACE_MS - 30000, 10, keys_fn, &keys));
        assert_int_equal(keys.count, 0);
        assert_ok(meta_garbage_at(k.m, now_ms + GRACE_MS, 10, keys_fn, &keys));
        assert_int_equal(keys.count, 3);
        kit_sql(&k, "UPDATE garbage SET due_ms = due_ms - 60000 WHERE object_key = 'wal/12'");
        keys.count = 0;
        assert_ok(ls_meta_garbage(k.m, 10, keys_fn, &keys));
        assert_int_equal(keys.count, 1);
        assert_string_equal(keys.list[0], "wal/12");
        assert_ok(ls_meta_garbage_done(k.m, (const char *const[]){ "wal/12" }, 1));
        keys_get(k.m, &keys);
        assert_int_equal(keys.count, 2);
        ls_meta_close(other.m);
        kit_done(&k);
}

static void
fail_finding(void *ctx, const char *finding)
{
        fail_msg("%s", finding);
}
static void *
purger(void *arg)
{
        struct kit *k = arg;
        size_t deleted;

        do
                if (ls_meta_wal_purge(k->m, 20, &deleted) != LS_OK)
                        return k;
        while (deleted > 0);
        return NULL;
}
static ls_err
count_fn(void *ctx, const char *key)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

/* Brokers that find the same rows dead: each is counted once, and no object goes that is named. */
static void
test_purges_at_once(void **state)
{
        enum { OBJECTS = 100, PURGERS = 3 };
        struct ls_meta_wal_batch bs[2];
        struct kit k[PURGERS];
        pthread_t threads[PURGERS];
        size_t moved, keys;
        int64_t start;
        uint64_t ids[2];

        kit_init(&k[0]);
        keyed_open(&k[0], 1);
        ids[0] = kit_stream_id(k[0].m, "a", 1);
        ids[1] = kit_stream_id(k[0].m, "b", 1);
        for (uint64_t i = 0; i < OBJECTS; i++) {
                bs[0] = kit_batch(ids[0], 0, 1);
                bs[1] = kit_batch(ids[1], 0, 1);
                commit_segment(&k[0], i, bs, 2);
        }
        for (int i = 1; i < PURGERS; i++) {
                k[i] = k[0];
                keyed_open(&k[i], 1 + i);
        }
        for (int round = 0; round < 2; round++) {
                assert_ok(ls_meta_log_start(k[0].m, ids[round], 0, OBJECTS, &start));
                assert_ok(ls_meta_log_discard(k[0].m, ids[round], &moved));
                for (int i = 0; i < PURGERS; i++)
                        assert_int_equal(pthread_create(&threads[i], NULL, purger, &k[i]), 0);
                for (int i = 0; i < PURGERS; i++) {
                        void *failed;

                        pthread_join(threads[i], &failed);
                        assert_null(failed);
                }
                assert_ok(ls_meta_check(k[0].m, fail_finding, NULL));
                keys = 0;
                assert_ok(ls_meta_garbage_all(k[0].m, count_fn, &keys));
                assert_int_equal(keys, round == 0 ? 0 : OBJECTS);
        }
        for (int i = 1; i < PURGERS; i++)
                ls_meta_close(k[i].m);
        kit_done(&k[0]);
}

/* Pieces of segment files are nobody's garbage but their folder's. */
static void
test_purge_of_files(void **state)
{
        struct ls_meta_wal_batch b;
        struct keys keys;
        struct kit k;
        size_t moved, deleted;
        int64_t start;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        b = kit_batch(id, 0, 2);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        assert_ok(ls_meta_log_start(k.m, id, 0, 2, &start));
        assert_ok(ls_meta_log_discard(k.m, id, &moved));
        assert_ok(ls_meta_wal_purge(k.m, 100, &deleted));
        assert_int_equal(deleted, 1);
        keys_get(k.m, &keys);
        assert_int_equal(keys.count, 0);
        kit_done(&k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_epochs),
                cmocka_unit_test(test_watermark),
                cmocka_unit_test(test_rows),
                cmocka_unit_test(test_fenced),
                cmocka_unit_test(test_long_address),
                cmocka_unit_test(test_witness),
                cmocka_unit_test(test_stream_get),
                cmocka_unit_test(test_group_get),
                cmocka_unit_test(test_versions),
                cmocka_unit_test(test_publish_on_stale_chunk),
                cmocka_unit_test(test_follow),
                cmocka_unit_test(test_follow_one_snapshot),
                cmocka_unit_test(test_follow_refusals),
                cmocka_unit_test(test_follow_while_others_commit),
                cmocka_unit_test(test_follow_while_others_purge),
                cmocka_unit_test(test_purge_to_garbage),
                cmocka_unit_test(test_purges_at_once),
                cmocka_unit_test(test_purge_of_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
