/* meta/groups_test.c - proves: streams are unique by both names, grow, change settings with a
 * version; offsets are stored only with the group's generation; a lease is one broker's, and void
 * once its epoch is closed; namespaces exist by row or by stream; a backup opens as the database it
 * was; a newer format level is refused; names are never confused. */
#include "meta/test_kit.h"

/* --- streams --- */

static ls_err
create(struct ls_meta *m, const char *kafka_name, const char *ns, const char *name,
       int32_t partitions)
{
        struct ls_meta_stream spec = { .kafka_name = (char *)(uintptr_t)kafka_name,
                                       .catalog = (char *)(uintptr_t) "main",
                                       .ns = (char *)(uintptr_t)ns,
                                       .name = (char *)(uintptr_t)name,
                                       .partitions = partitions };
        struct ls_meta_stream *s = NULL;
        ls_err e = ls_meta_stream_create(m, &spec, &s);

        ls_meta_stream_free(s);
        return e;
}

struct list {
        size_t count;
        struct ls_meta_stream last;
        char value[64];
};
static ls_err
list_fn(void *ctx, const struct ls_meta_stream *s)
{
        struct list *l = ctx;

        l->count++;
        l->last = *s;
        if (s->config_count > 0)
                snprintf(l->value, sizeof l->value, "%s=%s", s->configs[0].name,
                         s->configs[0].value);
        return LS_OK;
}
static ls_err
stop_fn(void *ctx, const struct ls_meta_stream *s)
{
        return LS_CANCELED;
}

static void
test_stream_names(void **state)
{
        char longest[LS_META_NAME_BYTES_MAX + 2];
        struct list l = { .count = 0 };
        struct kit k;

        kit_new(&k);
        assert_ok(create(k.m, "sales.orders", "sales", "orders", 1));
        assert_int_equal(create(k.m, "sales.orders", "x", "y", 1), LS_EXISTS);
        assert_int_equal(create(k.m, "other", "sales", "orders", 1), LS_EXISTS);
        assert_ok(create(k.m, "orders", "default", "orders", 1));
        assert_int_equal(create(k.m, "", "d", "n", 1), LS_INVALID);
        assert_int_equal(create(k.m, "a", "", "n", 1), LS_INVALID);
        assert_int_equal(create(k.m, NULL, "d", "n", 1), LS_INVALID);
        assert_int_equal(create(k.m, "a", "d", "n", 0), LS_INVALID);
        assert_int_equal(create(k.m, "a", "d", "n", LS_META_PARTITIONS_MAX + 1), LS_INVALID);
        memset(longest, 'x', sizeof longest);
        longest[LS_META_NAME_BYTES_MAX + 1] = '\0';
        assert_int_equal(create(k.m, longest, "d", "n", 1), LS_INVALID);
        longest[LS_META_NAME_BYTES_MAX] = '\0';
        assert_ok(create(k.m, longest, "d", "n", 1));
        assert_ok(create(k.m, "wide", "d", "wide", LS_META_PARTITIONS_MAX));
        kit_reopen(&k);
        assert_ok(ls_meta_stream_list(k.m, list_fn, &l));
        assert_int_equal(l.count, 4);
        assert_int_equal(l.last.partitions, LS_META_PARTITIONS_MAX);
        assert_int_equal(ls_meta_stream_list(k.m, stop_fn, NULL), LS_CANCELED);
        kit_done(&k);
}

static void
test_stream_configure(void **state)
{
        const struct ls_meta_config set[] = { { "retention.ms", "1000" },
                                              { "b", "x'\"; DROP TABLE stream" } };
        const struct ls_meta_config unset[] = { { "b", NULL }, { "absent", NULL } };
        struct ls_meta_stream *s, *after;
        struct list l = { .count = 0 };
        struct kit k;

        kit_new(&k);
        s = kit_stream(k.m, "t", 1);
        assert_int_equal(s->config_count, 0);
        assert_ok(ls_meta_stream_configure(k.m, s->id, s->version, set, 2, &after));
        assert_int_equal(after->config_count, 2);
        assert_string_equal(after->configs[0].name, "b"); /* sorted */
        assert_string_equal(after->configs[0].value, set[1].value);
        assert_true(after->version > s->version);
        ls_meta_stream_free(after);
        assert_int_equal(ls_meta_stream_configure(k.m, s->id, s->version, set, 2, &after),
                         LS_CONFLICT);
        assert_int_equal(ls_meta_stream_configure(k.m, s->id + 1, 0, set, 2, &after), LS_ABSENT);
        assert_ok(ls_meta_stream_configure(k.m, s->id, 0, unset, 2, &after));
        assert_int_equal(after->config_count, 1);
        assert_string_equal(after->configs[0].value, "1000");
        ls_meta_stream_free(after);
        assert_ok(ls_meta_stream_list(k.m, list_fn, &l));
        assert_string_equal(l.value, "retention.ms=1000");
        ls_meta_stream_free(s);
        kit_done(&k);
}

static void
test_stream_grow(void **state)
{
        static const int32_t steps[] = { 2, 63, 64, 65, 128, 200 };
        struct ls_meta_wal_batch b;
        struct ls_meta_stream *s;
        int32_t before = 1;
        struct kit k;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        b = kit_batch(id, 0, 5);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        for (size_t i = 0; i < LS_COUNT(steps); i++) {
                b = kit_batch(id, steps[i] - 1, 1);
                assert_int_equal(kit_one(&k, &b), LS_ABSENT);
                assert_int_equal(ls_meta_stream_grow(k.m, id, before, &s), LS_INVALID);
                assert_ok(ls_meta_stream_grow(k.m, id, steps[i], &s));
                assert_int_equal(s->partitions, steps[i]);
                ls_meta_stream_free(s);
                for (int32_t p = before; p < steps[i]; p++) {
                        b = kit_batch(id, p, 1);
                        assert_int_equal(kit_one(&k, &b), LS_OK);
                        assert_int_equal(b.entry.base_offset, 0);
                }
                before = steps[i];
        }
        assert_int_equal(kit_partition(k.m, id, 0).end, 5);
        assert_int_equal(kit_partition(k.m, id, 199).end, 1);
        assert_int_equal(ls_meta_stream_grow(k.m, id + 1, 5, &s), LS_ABSENT);
        assert_int_equal(ls_meta_stream_grow(k.m, id, LS_META_PARTITIONS_MAX + 1, &s), LS_INVALID);
        kit_done(&k);
}

/* --- groups --- */

struct offsets {
        struct ls_meta_offset list[16];
        char text[16][64];
        size_t count;
};
static ls_err
offset_fn(void *ctx, const struct ls_meta_offset *o)
{
        struct offsets *os = ctx;

        os->list[os->count] = *o;
        snprintf(os->text[os->count], sizeof os->text[0], "%s/%s", o->topic,
                 o->metadata.ptr ? "" : "(null)");
        if (o->metadata.ptr != NULL)
                snprintf(os->text[os->count], sizeof os->text[0], "%s/%.*s", o->topic,
                         (int)o->metadata.len, o->metadata.ptr);
        os->count++;
        return LS_OK;
}
struct groups {
        size_t count;
        uint64_t version;
        int32_t generation;
        char state[32];
};
static ls_err
group_fn(void *ctx, const struct ls_meta_group *g)
{
        struct groups *gs = ctx;

        gs->count++;
        gs->version = g->version;
        gs->generation = g->generation;
        snprintf(gs->state, sizeof gs->state, "%.*s", (int)g->state.len,
                 (const char *)g->state.ptr);
        return LS_OK;
}

static void
test_offsets_check_generation(void **state)
{
        struct ls_meta_group g = { .group_id = "g",
                                   .generation = 4,
                                   .state = ls_span_of("blob", 4) };
        struct ls_meta_offset o[3];
        struct offsets os = { .count = 0 };
        struct groups gs = { .count = 0 };
        struct kit k;
        uint64_t id;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 2);
        o[0] = (struct ls_meta_offset){ .stream_id = id,
                                        .partition = 1,
                                        .offset = 42,
                                        .leader_epoch = 3,
                                        .metadata = LS_STR("abc"),
                                        .commit_ms = 5,
                                        .expire_ms = -1 };
        o[1] = (struct ls_meta_offset){ .stream_id = id + 9, .partition = 0, .offset = 1 };
        o[2] = (struct ls_meta_offset){ .stream_id = id, .partition = 2, .offset = 1 };
        /* no such group */
        assert_int_equal(ls_meta_offsets_store(k.m, "g", 4, o, 1), LS_STALE_EPOCH);
        assert_ok(ls_meta_group_store(k.m, &g));
        assert_int_equal(ls_meta_offsets_store(k.m, "g", 3, o, 1), LS_STALE_EPOCH);
        assert_int_equal(ls_meta_offsets_store(k.m, "g", 5, o, 1), LS_STALE_EPOCH);
        assert_ok(ls_meta_offsets(k.m, "g", offset_fn, &os));
        assert_int_equal(os.count, 0);
        assert_ok(ls_meta_offsets_store(k.m, "g", 4, o, 3));
        assert_int_equal(o[0].stream_id, id);
        assert_int_equal(o[1].stream_id, 0);
        assert_int_equal(o[2].stream_id, 0);
        assert_int_equal(ls_meta_group_store(k.m, &g), LS_CONFLICT); /* version 0: must not exist */
        g.version = 1;
        g.generation = 5;
        g.state = ls_span_of("newer", 5);
        assert_ok(ls_meta_group_store(k.m, &g));
        assert_int_equal(ls_meta_group_store(k.m, &g), LS_CONFLICT);
        assert_int_equal(ls_meta_offsets_store(k.m, "g", 4, o, 1), LS_STALE_EPOCH);
        o[0].offset = 43;
        o[0].metadata = LS_STR_NULL;
        assert_ok(ls_meta_offsets_store(k.m, "g", 5, o, 1));
        kit_reopen(&k);
        os.count = 0;
        assert_ok(ls_meta_offsets(k.m, "g", offset_fn, &os));
        assert_int_equal(os.count, 1);
        assert_int_equal(os.list[0].offset, 43);
        assert_int_equal(os.list[0].partition, 1);
        assert_int_equal(os.list[0].leader_epoch, 3);
        assert_string_equal(os.text[0], "t/(null)");
        assert_ok(ls_meta_group_list(k.m, group_fn, &gs));
        assert_int_equal(gs.count, 1);
        assert_int_equal(gs.version, 2);
        assert_int_equal(gs.generation, 5);
        assert_string_equal(gs.state, "newer");
        assert_ok(ls_meta_group_delete(k.m, "g"));
        assert_int_equal(ls_meta_group_delete(k.m, "g"), LS_ABSENT);
        os.count = 0;
        assert_ok(ls_meta_offsets(k.m, "g", offset_fn, &os));
        assert_int_equal(os.count, 0);
        kit_done(&k);
}

/* Queued together: the offsets are checked against the generation stored just before. */
struct waiting {
        struct ls_meta_group_op group;
        struct ls_meta_offsets_op offsets;
        ls_err group_result, offsets_result;
};
static void
group_waited(struct ls_meta_op *op, ls_err result)
{
        LS_CONTAINER(op, struct waiting, group.op)->group_result = result;
}
static void
offsets_waited(struct ls_meta_op *op, ls_err result)
{
        LS_CONTAINER(op, struct waiting, offsets.op)->offsets_result = result;
}

static void
test_queued_group_then_offsets(void **state)
{
        struct ls_meta_offset o = { .offset = 7 };
        struct waiting w[2];
        struct groups gs = { .count = 0 };
        int64_t barrier;
        struct kit k;

        kit_new(&k);
        o.stream_id = kit_stream_id(k.m, "t", 1);
        for (int i = 0; i < 2; i++) {
                w[i] = (struct waiting){
                        .group = { .op.done = group_waited,
                                   .group = { .group_id = "g",
                                              .version = (uint64_t)i,
                                              .generation = i + 1,
                                              .state = ls_span_of("x", 1) } },
                        .offsets = { .op.done = offsets_waited,
                                     .group_id = "g",
                                     .generation = 1, /* stale the second time */
                                     .offsets = &o,
                                     .count = 1 },
                };
                ls_meta_group_submit(k.m, &w[i].group);
                ls_meta_offsets_submit(k.m, &w[i].offsets);
        }
        assert_ok(ls_meta_producer_new(k.m, &barrier));
        assert_ok(w[0].group_result);
        assert_ok(w[0].offsets_result);
        assert_ok(w[1].group_result);
        assert_int_equal(w[1].offsets_result, LS_STALE_EPOCH);
        assert_ok(ls_meta_group_list(k.m, group_fn, &gs));
        assert_int_equal(gs.version, 2);
        assert_int_equal(gs.generation, 2);
        kit_done(&k);
}

static void
test_offsets_without_group(void **state)
{
        struct ls_meta_group g = { .group_id = "g", .generation = 1 };
        struct ls_meta_offset o = { .offset = 7, .metadata = LS_STR("") };
        struct offsets os = { .count = 0 };
        struct groups gs = { .count = 0 };
        struct kit k;

        kit_new(&k);
        o.stream_id = kit_stream_id(k.m, "t", 1);
        assert_ok(ls_meta_offsets_store(k.m, "g", -1, &o, 1));
        assert_ok(ls_meta_group_list(k.m, group_fn, &gs));
        assert_int_equal(gs.count, 1);
        assert_int_equal(gs.version, 0);
        assert_int_equal(gs.generation, -1);
        assert_ok(ls_meta_group_store(k.m, &g)); /* the coordinator comes later */
        assert_ok(ls_meta_offsets_store(k.m, "g", 1, &o, 1));
        assert_ok(ls_meta_offsets_delete(k.m, "g", &o, 1));
        assert_ok(ls_meta_offsets_delete(k.m, "g", &o, 1));
        assert_ok(ls_meta_offsets(k.m, "g", offset_fn, &os));
        assert_int_equal(os.count, 0);
        /* offsets go with their stream */
        assert_ok(ls_meta_offsets_store(k.m, "g", 1, &o, 1));
        assert_ok(ls_meta_stream_delete(k.m, o.stream_id, 0));
        assert_ok(ls_meta_offsets(k.m, "g", offset_fn, &os));
        assert_int_equal(os.count, 0);
        kit_done(&k);
}

/* A coordinator that another has taken the group from neither stores nor deletes: the version tells
 * (tests/model, point 29). */
static void
test_version_of_another_coordinator(void **state)
{
        struct ls_meta_group g = { .group_id = "g", .generation = 1 };
        struct ls_meta_offset o = { .offset = 7, .metadata = LS_STR("") };
        struct offsets os = { .count = 0 };
        struct waiting w[3];
        int64_t barrier;
        struct kit k;

        kit_new(&k);
        o.stream_id = kit_stream_id(k.m, "t", 1);
        assert_ok(ls_meta_group_store(k.m, &g));
        g.version = 1; /* a member joins at the other one */
        g.generation = 2;
        assert_ok(ls_meta_group_store(k.m, &g));
        for (int i = 0; i < 3; i++) {
                w[i] = (struct waiting){ .offsets = { .op.done = offsets_waited,
                                                      .group_id = i == 2 ? "absent" : "g",
                                                      .generation = -1,
                                                      .version = i == 1 ? 2 : 1,
                                                      .offsets = &o,
                                                      .count = 1 } };
                ls_meta_offsets_submit(k.m, &w[i].offsets);
        }
        assert_ok(ls_meta_producer_new(k.m, &barrier));
        assert_int_equal(w[0].offsets_result, LS_CONFLICT);
        assert_ok(w[1].offsets_result);
        assert_int_equal(w[2].offsets_result, LS_CONFLICT);

        assert_int_equal(ls_meta_offsets_delete_at(k.m, "g", 1, &o, 1), LS_CONFLICT);
        assert_int_equal(ls_meta_group_delete_at(k.m, "g", 1), LS_CONFLICT);
        assert_int_equal(ls_meta_group_delete_at(k.m, "absent", 1), LS_ABSENT);
        assert_ok(ls_meta_offsets(k.m, "g", offset_fn, &os));
        assert_int_equal(os.count, 1);
        assert_ok(ls_meta_offsets_delete_at(k.m, "g", 2, &o, 1));
        assert_ok(ls_meta_group_delete_at(k.m, "g", 2));
        assert_int_equal(ls_meta_group_delete(k.m, "g"), LS_ABSENT);
        kit_done(&k);
}

/* --- leases --- */

static void
test_leases(void **state)
{
        struct ls_meta_options o;
        struct ls_meta *other;
        struct kit k;

        kit_new(&k);
        o = kit_options(&k);
        o.broker_id = 2;
        assert_ok(ls_meta_open(&o, &other, NULL));
        assert_ok(ls_meta_lease(k.m, "append/1", 60000));
        assert_ok(ls_meta_lease(k.m, "append/1", 60000));
        assert_int_equal(ls_meta_lease(other, "append/1", 60000), LS_BUSY);
        assert_ok(ls_meta_lease_release(other, "append/1")); /* not its own: stays */
        assert_int_equal(ls_meta_lease(other, "append/1", 60000), LS_BUSY);
        assert_ok(ls_meta_lease_release(k.m, "append/1"));
        assert_ok(ls_meta_lease(other, "append/1", 60000));
        assert_int_equal(ls_meta_lease(k.m, "append/1", 60000), LS_BUSY);
        ls_meta_close(other); /* its epoch is closed: the lease is void at once */
        assert_ok(ls_meta_lease(k.m, "append/1", 60000));
        assert_ok(ls_meta_lease(k.m, "rewrite/1", 60000));
        other = k.m;
        kit_open(&k); /* the same broker again, as after a crash */
        assert_ok(ls_meta_lease(k.m, "rewrite/1", 60000));
        assert_int_equal(ls_meta_lease(other, "append/1", 60000), LS_EFENCED);
        ls_meta_close(other);
        /* one that has run out is forgotten: the same row can be made again */
        kit_sql(&k, "INSERT INTO lease VALUES ('gone/1', 9, 9, 1)");
        assert_ok(ls_meta_lease(k.m, "append/1", 60000));
        kit_sql(&k, "INSERT INTO lease VALUES ('gone/1', 9, 9, 1)");
        assert_int_equal(ls_meta_lease(k.m, "", 60000), LS_INVALID);
        assert_int_equal(ls_meta_lease(k.m, "x", 0), LS_INVALID);
        kit_done(&k);
}

/* --- namespaces --- */

struct names {
        char text[256];
};
static ls_err
name_fn(void *ctx, const char *ns, const char *properties)
{
        struct names *n = ctx;
        size_t len = strlen(n->text);

        snprintf(n->text + len, sizeof n->text - len, "%s%s ", ns, properties);
        return LS_OK;
}

static void
test_namespaces(void **state)
{
        struct names n = { "" };
        struct kit k;

        kit_new(&k);
        assert_ok(ls_meta_namespace_create(k.m, "main", "a", "{\"x\":1}"));
        assert_int_equal(ls_meta_namespace_create(k.m, "main", "a", "{}"), LS_EXISTS);
        assert_ok(ls_meta_namespace_create(k.m, "main", "a.b", "{}"));
        assert_ok(ls_meta_namespace_create(k.m, "other", "a", "{}"));
        assert_ok(create(k.m, "s.t", "s", "t", 1));
        assert_int_equal(ls_meta_namespace_create(k.m, "main", "s", "{}"), LS_EXISTS);
        assert_int_equal(ls_meta_namespace_create(k.m, "main", "", "{}"), LS_INVALID);
        assert_int_equal(ls_meta_namespace_drop(k.m, "main", "a"), LS_NOT_EMPTY); /* a.b */
        assert_int_equal(ls_meta_namespace_drop(k.m, "main", "s"), LS_NOT_EMPTY);
        assert_int_equal(ls_meta_namespace_drop(k.m, "main", "b"), LS_ABSENT);
        assert_ok(ls_meta_namespace_set(k.m, "main", "s", "{\"y\":2}"));
        assert_ok(ls_meta_namespace_set(k.m, "main", "a", "{\"x\":3}"));
        assert_int_equal(ls_meta_namespace_set(k.m, "main", "zz", "{}"), LS_ABSENT);
        assert_ok(ls_meta_namespaces(k.m, "main", name_fn, &n));
        assert_string_equal(n.text, "a{\"x\":3} a.b{} s{\"y\":2} ");
        assert_ok(ls_meta_namespace_drop(k.m, "main", "a.b"));
        assert_ok(ls_meta_namespace_drop(k.m, "main", "a"));
        kit_done(&k);
}

/* --- the database as a whole --- */

static void
test_backup(void **state)
{
        struct ls_meta_options o;
        struct ls_errinfo info;
        struct ls_meta_wal_batch b;
        struct ls_meta *copy;
        char path[160];
        struct kit k, k2;
        uint64_t id;
        ls_uuid cluster, again;

        kit_new(&k);
        id = kit_stream_id(k.m, "t", 1);
        b = kit_batch(id, 0, 3);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        cluster = ls_meta_cluster_id(k.m);
        snprintf(path, sizeof path, "%s/backup.db", k.dir);
        assert_ok(ls_meta_backup(k.m, path, &info));
        assert_int_equal(ls_meta_backup(k.m, path, &info), LS_EXISTS);
        assert_int_not_equal(ls_meta_backup(k.m, "/nonexistent/x.db", &info), LS_OK);
        b = kit_batch(id, 0, 4); /* after the copy */
        assert_int_equal(kit_one(&k, &b), LS_OK);
        o = kit_options(&k);
        o.sqlite_path = path;
        assert_ok(ls_meta_open(&o, &copy, &info));
        again = ls_meta_cluster_id(copy);
        assert_true(ls_uuid_eq(cluster, again));
        assert_int_equal(kit_partition(copy, id, 0).end, 3);
        k2 = k;
        k2.m = copy;
        k2.sequence = 0;
        b = kit_batch(id, 0, 1);
        assert_int_equal(kit_one(&k2, &b), LS_OK);
        assert_int_equal(b.entry.base_offset, 3);
        ls_meta_close(copy);
        kit_done(&k);
}

static void
test_newer_level_is_refused(void **state)
{
        struct ls_meta_options o;
        struct ls_errinfo info;
        struct ls_meta *m;
        struct kit k;

        kit_new(&k);
        ls_meta_close(k.m);
        o = kit_options(&k);
        kit_sql(&k, "UPDATE install SET format_level = 2");
        assert_int_equal(ls_meta_open(&o, &m, &info), LS_NEWER_FORMAT);
        assert_non_null(strstr(info.text, "format level 2"));
        kit_sql(&k, "UPDATE install SET format_level = 1");
        assert_ok(ls_meta_open(&o, &m, &info));
        ls_meta_close(m);
        kit_remove(&k);
}

static void
test_refused_files(void **state)
{
        struct ls_meta_options o;
        struct ls_errinfo info;
        struct ls_meta *m;
        struct kit k;
        FILE *f;

        kit_init(&k);
        o = kit_options(&k);
        /* not a database */
        f = fopen(k.path, "wb");
        for (int i = 0; i < 5000; i++)
                fputc(i, f);
        fclose(f);
        assert_int_equal(ls_meta_open(&o, &m, &info), LS_EBROKEN);
        assert_true(info.text[0] != '\0');
        o.sqlite_path = "/nonexistent/folder/meta.db";
        assert_int_equal(ls_meta_open(&o, &m, &info), LS_EACCESS);
        kit_remove(&k);
}

/* Each page of a small database is damaged in turn: open or the first use says so, nothing crashes.
 */
static void
test_damaged_pages(void **state)
{
        struct kit k;
        long size;
        FILE *f;

        kit_new(&k);
        for (int i = 0; i < 20; i++) {
                char name[16];
                struct ls_meta_wal_batch b;

                snprintf(name, sizeof name, "t%d", i);
                b = kit_batch(kit_stream_id(k.m, name, 64), 0, 1);
                assert_int_equal(kit_one(&k, &b), LS_OK);
        }
        ls_meta_close(k.m);
        f = fopen(k.path, "r+b");
        fseek(f, 0, SEEK_END);
        size = ftell(f);
        for (long page = 0; page < size; page += 4096) {
                struct ls_meta_options o = kit_options(&k);
                struct ls_errinfo info = { "" };
                struct ls_meta *m = NULL;
                uint8_t saved[64], junk[64];
                ls_err e;

                fseek(f, page + 4, SEEK_SET);
                assert_int_equal(fread(saved, 1, sizeof saved, f), sizeof saved);
                memset(junk, 0xa5, sizeof junk);
                fseek(f, page + 4, SEEK_SET);
                fwrite(junk, 1, sizeof junk, f);
                fflush(f);
                e = ls_meta_open(&o, &m, &info);
                if (e == LS_OK) {
                        struct list l = { .count = 0 };

                        e = ls_meta_stream_list(m, list_fn, &l);
                        assert_true(e == LS_OK || e < 0);
                        ls_meta_close(m);
                } else {
                        assert_true(info.text[0] != '\0');
                }
                fseek(f, page + 4, SEEK_SET);
                fwrite(saved, 1, sizeof saved, f);
                fflush(f);
        }
        fclose(f);
        kit_remove(&k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_stream_names),
                cmocka_unit_test(test_stream_configure),
                cmocka_unit_test(test_stream_grow),
                cmocka_unit_test(test_offsets_check_generation),
                cmocka_unit_test(test_queued_group_then_offsets),
                cmocka_unit_test(test_offsets_without_group),
                cmocka_unit_test(test_version_of_another_coordinator),
                cmocka_unit_test(test_leases),
                cmocka_unit_test(test_namespaces),
                cmocka_unit_test(test_newer_level_is_refused),
        };
        const struct CMUnitTest sqlite_tests[] = {
                cmocka_unit_test(test_backup),
                cmocka_unit_test(test_refused_files),
                cmocka_unit_test(test_damaged_pages),
        };

        return cmocka_run_group_tests(tests, NULL, NULL) +
               (kit_postgres() ? 0 : cmocka_run_group_tests(sqlite_tests, NULL, NULL));
}
