/* lake/table.c - the state of a table, and its commits.
 *
 * A commit is built on the cached state: manifests of what changes (manifests.c), the manifest list
 * of the new snapshot, expired snapshots dropped (expire.c), the metadata file; each is put and
 * durable before anything names it. One metadata transaction then makes all of it visible together
 * with files, extents and floors. What was written for a commit that failed is garbage at once; if
 * even that cannot be noted, the sweep of a later epoch finds it by the epoch in its name.
 *
 * A snapshot's time is not that of its commit but of the append of the oldest record that it adds.
 * Engines that read a table as of the start of their transaction (DuckDB does) look for the newest
 * snapshot that is not younger; the commit that a load makes is younger than the query that asked.
 * So as of a time T a table holds all that was acknowledged before T, also while others produce:
 * what the snapshot before does not hold is not older than this one's time.
 *
 * Several brokers. The state that a commit is built on is looked up before each; the version
 * decides in the end. When it has moved meanwhile, manifests are made anew over the same data
 * files, as long as the files that the change replaces are still in the table and the floors stand
 * where it begins: a merge that took minutes is not lost to an append elsewhere.
 *
 * The new state is read back from the bytes that were written, so that what cannot be read is never
 * published.
 */
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "formats/iceberg/limits.h"
#include "lake/rows.h"
#include "lake/table_int.h"

#define TABLE_ARENA_BYTES_MAX  ((size_t)256 << 20)
#define TABLE_OBJECT_BYTES_MAX ((size_t)64 << 20) /* manifests and lists stay far below */
#define TABLE_METADATA_LOG_MAX 100                /* older metadata files that stay */
#define TABLE_TRIES_MAX        8                  /* of one change, on the commits of others */
#define TABLE_KEEP_MS          ((int64_t)300000)  /* cached state that nobody uses */
/* Numbers that fit a double, since readers in JavaScript take them for one. */
#define TABLE_SNAPSHOT_ID_MASK (((uint64_t)1 << 52) - 1)

/* --- small things --- */

void
lake_keys_add(struct lake_keys *keys, char *key)
{
        LS_PUSH(keys->items, keys->count, keys->cap, key);
}

void
lake_keys_free(struct lake_keys *keys)
{
        for (size_t i = 0; i < keys->count; i++)
                ls_free(keys->items[i]);
        ls_free(keys->items);
        *keys = (struct lake_keys){ 0 };
}

char *
lake_uri_key(const struct ls_lake_spec *spec, ls_str uri)
{
        LS_AUTO(ls_free) char *folder = lake_key(spec, "%s", "");
        size_t len = strlen(folder);

        for (size_t i = uri.len; i >= len; i--)
                if (memcmp(uri.ptr + i - len, folder, len) == 0)
                        return ls_str_dup(ls_str_make(uri.ptr + i - len, uri.len - (i - len)));
        return NULL;
}

ls_err
lake_uri(struct lake_commit *c, const char *key, ls_str *ret_uri)
{
        LS_AUTO(ls_free) char *uri = ls_store_uri(c->s->lake->o.store, key);

        *ret_uri = ls_arena_str(&c->arena, ls_str_of(uri));
        return ret_uri->ptr != NULL ? LS_OK : LS_ELIMIT;
}

ls_err
lake_commit_put(struct lake_commit *c, char *key, const struct ls_buf *bytes)
{
        if (ls_buf_failed(bytes)) {
                ls_free(key);
                return LS_ELIMIT;
        }
        lake_keys_add(&c->written, key); /* also when the put fails: its outcome may be unknown */
        return ls_store_put_if_absent(c->s->lake->o.store, key, ls_buf_span(bytes));
}

/* Outcomes of reading our own files are damage. */
static ls_err
damaged(struct ls_lake_stream *s, ls_err e, const char *key, const char *words)
{
        if (e <= 0 && e != LS_EBROKEN)
                return e;
        ls_log_error("lake", "event=table_damaged stream=%llu object=%s error=%s %s",
                     (unsigned long long)lake_spec(s).stream_id, key, ls_err_name(e), words);
        return LS_EBROKEN;
}

ls_err
lake_get(struct ls_lake_stream *s, const char *key, struct ls_slice **ret_bytes)
{
        ls_err e = ls_store_get(s->lake->o.store, key, 0, 0, ret_bytes);

        return e == LS_OK ? e : damaged(s, e, key, "it cannot be read");
}

ls_err
lake_manifest_get(struct ls_lake_stream *s, const struct ls_iceberg_manifest_file *line,
                  struct ls_arena *arena, struct ls_iceberg_manifest *ret)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        struct ls_lake_spec spec = lake_spec(s);
        LS_AUTO(ls_free) char *key = lake_uri_key(&spec, line->path);
        struct ls_errinfo info = { "" };
        ls_err e;

        if (key == NULL)
                return damaged(s, LS_EBROKEN, "manifest", "it is not of this table");
        LS_TRY(lake_get(s, key, &bytes));
        e = ls_iceberg_manifest_read(ls_slice_span(bytes), line, arena, ret, &info);
        return e == LS_OK ? e : damaged(s, e, key, info.text);
}

ls_err
lake_list_get(struct ls_lake_stream *s, const struct ls_iceberg_snapshot *snapshot,
              struct ls_arena *arena, const struct ls_iceberg_manifest_file **ret_lines,
              size_t *ret_count)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        struct ls_lake_spec spec = lake_spec(s);
        LS_AUTO(ls_free) char *key = lake_uri_key(&spec, snapshot->manifest_list);
        struct ls_errinfo info = { "" };
        ls_err e;

        if (key == NULL)
                return damaged(s, LS_EBROKEN, "manifest list", "it is not of this table");
        LS_TRY(lake_get(s, key, &bytes));
        e = ls_iceberg_list_read(ls_slice_span(bytes), arena, ret_lines, ret_count, &info);
        return e == LS_OK ? e : damaged(s, e, key, info.text);
}

/* --- state --- */

void
lake_table_free(void *table)
{
        struct lake_table *t = table;

        if (t == NULL)
                return;
        ls_arena_done(&t->arena);
        ls_free(t->metadata_key);
        ls_slice_unref(t->metadata);
        ls_free(t);
}

/* Reads metadata text and the current snapshot's manifest list into `t`. */
static ls_err
table_parse(struct ls_lake_stream *s, struct lake_table *t)
{
        ls_span text = ls_slice_span(t->metadata);
        const struct ls_iceberg_snapshot *current;
        struct ls_errinfo info = { "" };
        ls_err e = ls_iceberg_metadata_parse(ls_str_make((const char *)text.ptr, text.len),
                                             &t->arena, &t->m, &info);

        if (e != LS_OK)
                return damaged(s, e, t->metadata_key, info.text);
        current = ls_iceberg_metadata_snapshot(&t->m, t->m.current_snapshot_id);
        if (current == NULL)
                return LS_OK;
        return lake_list_get(s, current, &t->arena, &t->lines, &t->line_count);
}

static struct lake_table *
table_new(uint64_t version)
{
        struct lake_table *t = ls_calloc(1, sizeof *t);

        ls_arena_init(&t->arena, TABLE_ARENA_BYTES_MAX);
        t->version = version;
        ls_iceberg_metadata_init(&t->m);
        return t;
}

/* *ret_table: NULL when `cached` (NULL: none) is what stands there. */
static ls_err
table_load(struct ls_lake_stream *s, const struct lake_table *cached, struct lake_table **ret_table)
{
        struct ls_lake_spec spec = lake_spec(s);
        struct ls_meta_table row;
        struct lake_table *t;
        ls_err e;

        *ret_table = NULL;
        e = ls_meta_table(s->lake->o.meta, spec.stream_id, &row);
        if (e == LS_ABSENT)
                return LS_CANCELED; /* the stream was deleted */
        LS_TRY(e);
        if (cached != NULL && cached->version == row.version) {
                ls_meta_table_done(&row);
                return LS_OK;
        }
        t = table_new(row.version);
        t->metadata_key = LS_STEAL(row.metadata_key);
        t->metadata = LS_STEAL(row.metadata);
        ls_meta_table_done(&row);
        if (t->version > 0)
                e = table_parse(s, t);
        if (e != LS_OK) {
                lake_table_free(t);
                return e;
        }
        *ret_table = t;
        return LS_OK;
}

ls_err
lake_table_version(struct ls_lake_stream *s, uint64_t *ret_version)
{
        struct ls_meta_table row;

        LS_TRY(ls_meta_table(s->lake->o.meta, lake_spec(s).stream_id, &row));
        *ret_version = row.version;
        ls_meta_table_done(&row);
        return LS_OK;
}

/* Puts `t` (NULL: nothing) in the place of the cached state. */
static void
table_swap(struct ls_lake_stream *s, struct lake_table *t)
{
        struct lake_table *old;

        pthread_mutex_lock(&s->lock);
        old = s->table;
        s->table = t;
        s->used_ms = ls_clock_monotonic_ms();
        pthread_mutex_unlock(&s->lock);
        lake_table_free(old);
}

/* Ten thousand tables that are looked at once a day must not all stay in memory. */
void
lake_table_forget(struct ls_lake_stream *s, int64_t now_ms)
{
        struct lake_table *old = NULL;

        pthread_mutex_lock(&s->lock);
        if (!s->running && s->table != NULL && now_ms - s->used_ms >= TABLE_KEEP_MS) {
                old = s->table;
                s->table = NULL;
        }
        pthread_mutex_unlock(&s->lock);
        lake_table_free(old);
}

ls_err
lake_table_get(struct ls_lake_stream *s, const struct lake_table **ret_table)
{
        struct lake_table *t, *newer = NULL;

        pthread_mutex_lock(&s->lock);
        t = s->table;
        LS_ASSERT(s->running);
        pthread_mutex_unlock(&s->lock);
        if (t == NULL || s->lake->o.shared)
                LS_TRY(table_load(s, t, &newer));
        if (newer != NULL) {
                table_swap(s, newer);
                t = newer;
        }
        *ret_table = t;
        return LS_OK;
}

/* --- metadata of a commit --- */

/* All that a table has: nobody else commits. */
static ls_err
meta_props(struct lake_commit *c)
{
        struct ls_iceberg_prop *props = ls_arena_array(&c->arena, 4, sizeof *props);
        ls_str topic = ls_arena_str(&c->arena, ls_str_of(c->spec.kafka_name));
        ls_str codec = ls_arena_str(&c->arena, ls_str_of(lake_compression(&c->spec)));

        if (props == NULL || topic.ptr == NULL || codec.ptr == NULL)
                return LS_ELIMIT;
        props[0] = (struct ls_iceberg_prop){ LS_STR("lakestream.topic"), topic };
        /* Engines must leave deletion to us: the stream's log lies in these files too. */
        props[1] = (struct ls_iceberg_prop){ LS_STR("gc.enabled"), LS_STR("false") };
        props[2] = (struct ls_iceberg_prop){ LS_STR("write.parquet.compression-codec"), codec };
        c->m.properties = props;
        c->m.property_count = 3;
        return LS_OK;
}

/* What a table has before its first commit. */
static ls_err
meta_first(struct lake_commit *c)
{
        LS_AUTO(ls_free) char *folder = lake_key(&c->spec, "%s", "x");
        struct ls_iceberg_spec *spec = ls_arena_array(&c->arena, 1, sizeof *spec);
        char uuid[LS_UUID_TEXT_BYTES];

        if (spec == NULL)
                return LS_ELIMIT;
        folder[strlen(folder) - 2] = '\0'; /* "tables/<topic id>" */
        ls_uuid_text(c->spec.topic_id, uuid);
        ls_iceberg_metadata_init(&c->m);
        c->m.table_uuid = ls_arena_str(&c->arena, ls_str_of(uuid));
        LS_TRY(lake_uri(c, folder, &c->m.location));
        c->m.schemas = &lake_columns;
        c->m.schema_count = 1;
        c->m.last_column_id = ls_iceberg_schema_last_id(&lake_columns);
        c->m.specs = spec;
        c->m.spec_count = 1;
        c->m.sort_orders = &lake_sort_order;
        c->m.sort_order_count = 1;
        c->m.default_sort_order_id = lake_sort_order.order_id;
        return LS_OK;
}

/* The place of `spec` in the table's list; a new one is added to it. */
static ls_err
meta_place(struct lake_commit *c, struct ls_iceberg_spec spec, const struct ls_iceberg_spec **ret)
{
        struct ls_iceberg_spec *specs;

        LS_TRY(lake_shape_place(&c->m, &c->arena, &spec));
        *ret = ls_iceberg_metadata_spec(&c->m, spec.spec_id);
        if (*ret != NULL)
                return LS_OK;
        specs = ls_arena_array(&c->arena, c->m.spec_count + 1, sizeof *specs);
        if (specs == NULL)
                return LS_ELIMIT;
        memcpy(specs, c->m.specs, c->m.spec_count * sizeof *specs);
        specs[c->m.spec_count] = spec;
        *ret = &specs[c->m.spec_count];
        c->m.specs = specs;
        c->m.spec_count++;
        for (uint32_t i = 0; i < spec.field_count; i++)
                c->m.last_partition_id = LS_MAX(c->m.last_partition_id, spec.fields[i].field_id);
        return LS_OK;
}

/* The default spec is what the settings ask for; the change's files have the one they were written
 * for. */
static ls_err
meta_shape(struct lake_commit *c)
{
        struct ls_iceberg_spec wanted, files = { .spec_id = 0 };
        const struct ls_iceberg_spec *placed;

        LS_TRY(lake_shape_parse(c->spec.settings->texts[LS_SET_TABLE_PARTITION_BY], &c->arena,
                                &wanted, NULL));
        if (c->t->version == 0 &&
            wanted.field_count > 0) { /* its first spec: no unpartitioned one before it */
                struct ls_iceberg_spec *specs = ls_arena_array(&c->arena, 1, sizeof *specs);

                if (specs == NULL)
                        return LS_ELIMIT;
                *specs = wanted;
                c->m.specs = specs;
                c->m.last_partition_id =
                        LS_ICEBERG_PARTITION_ID_FIRST - 1 + (int32_t)wanted.field_count;
        }
        LS_TRY(meta_place(c, wanted, &placed));
        c->m.default_spec_id = placed->spec_id;
        if (c->change == NULL || c->change->file_count == 0)
                return LS_OK;
        if (c->change->partitioning != NULL)
                files = *c->change->partitioning;
        return meta_place(c, files, &c->files_spec);
}

static ls_err
meta_snapshot(struct lake_commit *c, const char *list_key)
{
        const struct ls_iceberg_snapshot *parent =
                ls_iceberg_metadata_snapshot(&c->m, c->m.current_snapshot_id);
        struct ls_iceberg_snapshot *all,
                snapshot = { .snapshot_id = c->snapshot_id,
                             .parent_id = parent ? parent->snapshot_id : LS_ICEBERG_NONE,
                             .sequence_number = c->m.last_sequence_number + 1,
                             .timestamp_ms = c->as_of_ms,
                             .operation = ls_str_of(c->change->operation),
                             .schema_id = c->m.current_schema_id,
                             .first_row_id = LS_ICEBERG_NONE,
                             .added_rows = LS_ICEBERG_NONE };

        LS_TRY(lake_uri(c, list_key, &snapshot.manifest_list));
        if (ls_iceberg_summary_make(&c->delta, parent, NULL, 0, &c->arena, &snapshot) != LS_OK)
                return LS_ELIMIT;
        all = ls_arena_array(&c->arena, c->m.snapshot_count + 1, sizeof *all);
        if (all == NULL)
                return LS_ELIMIT;
        if (c->m.snapshot_count > 0)
                memcpy(all, c->m.snapshots, c->m.snapshot_count * sizeof *all);
        all[c->m.snapshot_count] = snapshot;
        c->m.snapshots = all;
        c->m.snapshot_count++;
        c->m.last_sequence_number++;
        c->m.current_snapshot_id = c->snapshot_id;
        return LS_OK;
}

/* main, and a line in the log of snapshots. */
static ls_err
meta_current(struct lake_commit *c)
{
        struct ls_iceberg_snapshot_log *log =
                ls_arena_array(&c->arena, c->m.snapshot_log_count + 1, sizeof *log);
        struct ls_iceberg_ref *ref = ls_arena_array(&c->arena, 1, sizeof *ref);

        if (log == NULL || ref == NULL)
                return LS_ELIMIT;
        if (c->m.snapshot_log_count > 0)
                memcpy(log, c->m.snapshot_log, c->m.snapshot_log_count * sizeof *log);
        log[c->m.snapshot_log_count] =
                (struct ls_iceberg_snapshot_log){ c->as_of_ms, c->snapshot_id };
        *ref = (struct ls_iceberg_ref){ .name = LS_STR("main"),
                                        .snapshot_id = c->snapshot_id,
                                        .snapshots_min = LS_ICEBERG_NONE,
                                        .snapshot_age_ms_max = LS_ICEBERG_NONE,
                                        .ref_age_ms_max = LS_ICEBERG_NONE };
        c->m.snapshot_log = log;
        c->m.snapshot_log_count++;
        c->m.refs = ref;
        c->m.ref_count = 1;
        return LS_OK;
}

/* The file before joins the log; what falls out of it is garbage. */
static ls_err
meta_log(struct lake_commit *c)
{
        struct ls_iceberg_metadata_log *log;
        size_t count = c->m.metadata_log_count;

        if (c->t->metadata_key == NULL)
                return LS_OK;
        log = ls_arena_array(&c->arena, count + 1, sizeof *log);
        if (log == NULL)
                return LS_ELIMIT;
        if (count > 0)
                memcpy(log, c->m.metadata_log, count * sizeof *log);
        LS_TRY(lake_uri(c, c->t->metadata_key, &log[count].metadata_file));
        log[count].timestamp_ms = c->t->m.last_updated_ms;
        for (count++; count > TABLE_METADATA_LOG_MAX; count--, log++) {
                char *key = lake_uri_key(&c->spec, log[0].metadata_file);

                if (key != NULL)
                        lake_keys_add(&c->garbage, key);
        }
        c->m.metadata_log = log;
        c->m.metadata_log_count = count;
        return LS_OK;
}

/* --- a commit --- */

static char *
commit_key(struct lake_commit *c, const char *rest)
{
        return lake_key(&c->spec, "metadata/%llu-%016llx-%s",
                        (unsigned long long)ls_meta_broker_epoch(c->s->lake->o.meta),
                        (unsigned long long)c->random, rest);
}

static ls_err
commit_begin(struct lake_commit *c, struct ls_lake_stream *s, struct lake_change *change)
{
        uint64_t id;

        *c = (struct lake_commit){ .s = s, .spec = lake_spec(s), .change = change };
        ls_arena_init(&c->arena, TABLE_ARENA_BYTES_MAX);
        ls_random(&c->random, sizeof c->random);
        ls_random(&id, sizeof id);
        c->snapshot_id = (int64_t)((id & TABLE_SNAPSHOT_ID_MASK) | 1);
        LS_TRY(lake_table_get(s, &c->t));
        c->m = c->t->m;
        if (c->t->version == 0)
                LS_TRY(meta_first(c));
        c->now_ms = lake_now_ms(s->lake);
        /* Times in the metadata never descend, also when the clock does. */
        c->as_of_ms = c->t->version > 0 ? c->t->m.last_updated_ms : c->spec.created_ms;
        if (change != NULL && c->m.snapshot_count > 0) /* the first is there from the beginning */
                c->as_of_ms = LS_MAX(c->as_of_ms, change->as_of_ms);
        c->m.last_updated_ms = c->as_of_ms;
        LS_TRY(meta_props(c)); /* settings change */
        return meta_shape(c);
}

static void
commit_done(struct lake_commit *c)
{
        lake_keys_free(&c->written);
        lake_keys_free(&c->garbage);
        ls_free(c->lines);
        ls_arena_done(&c->arena);
}

/* The manifest list of the new snapshot. */
static ls_err
commit_list(struct lake_commit *c, const char **ret_key)
{
        struct ls_iceberg_list_options o = { .format_version = 2,
                                             .snapshot_id = c->snapshot_id,
                                             .parent_snapshot_id = c->m.current_snapshot_id,
                                             .sequence_number = c->m.last_sequence_number + 1,
                                             .codec = LS_AVRO_CODEC_DEFLATE };
        struct ls_buf bytes;
        char name[64];
        ls_err e;

        ls_buf_init(&bytes, TABLE_OBJECT_BYTES_MAX);
        e = ls_iceberg_list_write(&bytes, &o, c->lines, c->line_count);
        if (e == LS_OK) {
                snprintf(name, sizeof name, "s%llu.avro", (unsigned long long)c->snapshot_id);
                e = lake_commit_put(c, commit_key(c, name), &bytes);
                *ret_key = c->written.items[c->written.count - 1];
        }
        ls_buf_done(&bytes);
        return e > 0 ? LS_EINTERNAL : e;
}

/* The new metadata file: what a reader of it will see becomes *ret_next, cached after the commit.
 */
static ls_err
commit_metadata(struct lake_commit *c, struct lake_table **ret_next)
{
        struct lake_table *next = table_new(c->t->version + 1);
        struct ls_errinfo info = { "" };
        struct ls_buf text;
        char *key;
        ls_err e;

        if (ls_iceberg_metadata_check(&c->m, &info) != LS_OK) {
                ls_log_error("lake", "event=metadata_wrong topic=%s %s", c->spec.kafka_name,
                             info.text);
                lake_table_free(next);
                return LS_EINTERNAL;
        }
        ls_buf_init(&text, LS_ICEBERG_METADATA_BYTES_MAX);
        ls_iceberg_metadata_print(&c->m, &text);
        key = lake_key(&c->spec, "metadata/%05llu-%llu-%016llx.metadata.json",
                       (unsigned long long)next->version,
                       (unsigned long long)ls_meta_broker_epoch(c->s->lake->o.meta),
                       (unsigned long long)c->random);
        next->metadata_key = ls_strdup(key);
        e = lake_commit_put(c, key, &text);
        if (e == LS_OK) {
                next->metadata = ls_slice_copy(ls_buf_span(&text));
                e = next->metadata != NULL ? table_parse(c->s, next) : LS_ELIMIT;
        }
        ls_buf_done(&text);
        if (e != LS_OK) {
                lake_table_free(next);
                return e;
        }
        *ret_next = next;
        return LS_OK;
}

/* LS_CONFLICT: another broker moved a floor that the change begins at. Looked at after the table's
 * state was: a floor that moves later raises the version. */
static ls_err
floors_stand(struct lake_commit *c)
{
        const struct lake_change *change = c->change;

        if (!c->s->lake->o.shared || change == NULL || change->floor_count == 0)
                return LS_OK;
        LS_ASSERT(change->floor_from_count == change->floor_count);
        LS_TRY(lake_refresh(c->s));
        for (size_t i = 0; i < change->floor_count; i++) {
                struct ls_wal_view view;

                if (ls_wal_view(c->s->wal, change->floors[i].partition, &view) != LS_OK)
                        return LS_CANCELED;
                if (view.floor != change->floors_from[i])
                        return LS_CONFLICT;
        }
        return LS_OK;
}

static ls_err
commit_publish(struct lake_commit *c, const struct lake_table *next)
{
        struct lake_change none = { .operation = NULL }, *change = c->change ? c->change : &none;
        struct ls_meta_file *files = ls_calloc(change->file_count + 1, sizeof *files);
        uint64_t *removed = ls_calloc(change->old_file_count + 1, sizeof *removed);
        struct ls_errinfo info = { "" };
        struct ls_meta_table_commit commit = {
                .stream_id = c->spec.stream_id,
                .version = c->t->version,
                .metadata_key = next->metadata_key,
                .metadata = ls_slice_span(next->metadata),
                .add_files = files,
                .add_file_count = change->file_count,
                .remove_files = removed,
                .remove_file_count = change->old_file_count,
                .add_extents = change->add_extents,
                .file_is_new = change->file_is_new,
                .add_extent_count = change->add_extent_count,
                .remove_extents = change->remove_extents,
                .remove_extent_count = change->remove_extent_count,
                .floors = change->floors,
                .floor_count = change->floor_count,
                .garbage = (const char *const *)c->garbage.items,
                .garbage_count = c->garbage.count,
                .garbage_grace_ms = lake_file_grace_ms(c),
        };
        ls_err e;

        for (size_t i = 0; i < change->file_count; i++)
                files[i] = (struct ls_meta_file){ .key = change->files[i].key,
                                                  .bytes = change->files[i].info->bytes,
                                                  .rows = change->files[i].info->rows };
        for (size_t i = 0; i < change->old_file_count; i++)
                removed[i] = change->old_files[i].id;
        c->handed_over = true;
        e = ls_meta_table_publish(c->s->lake->o.meta, &commit, &info);
        /* A floor can move without the version (a log that was discarded). */
        if (e == LS_CORRUPT && floors_stand(c) == LS_CONFLICT)
                e = LS_CONFLICT;
        if (e == LS_CONFLICT && c->s->lake->o.shared)
                ls_log_debug("lake", "event=table_commit_overtaken topic=%s %s", c->spec.kafka_name,
                             info.text);
        else if (e != LS_OK)
                ls_log_warn("lake", "event=table_commit_refused topic=%s error=%s %s",
                            c->spec.kafka_name, ls_err_name(e), info.text);
        ls_free(files);
        ls_free(removed);
        if (e == LS_ABSENT)
                return LS_CANCELED;
        /* A commit whose records are not the log's must never be tried again and again in silence.
         */
        return e == LS_CORRUPT || e == LS_INVALID ? LS_EBROKEN : e;
}

/* Everything that was uploaded for nothing. `files`: those of the change too, which will not be
 * tried again. */
static void
commit_abandon(struct lake_commit *c, bool files)
{
        for (size_t i = 0; files && c->change != NULL && i < c->change->file_count; i++)
                if (c->change->files[i].info != NULL)
                        lake_keys_add(&c->written, ls_strdup(c->change->files[i].key));
        if (c->written.count > 0 &&
            ls_meta_garbage_add(c->s->lake->o.meta, (const char *const *)c->written.items,
                                c->written.count, lake_now_ms(c->s->lake)) != LS_OK)
                ls_log_warn("lake", "event=garbage_not_noted topic=%s objects=%zu",
                            c->spec.kafka_name, c->written.count);
}

static ls_err
commit_run(struct lake_commit *c, struct lake_table **ret_next)
{
        const char *list_key = NULL;

        LS_TRY(floors_stand(c));
        if (c->change != NULL) {
                LS_TRY(lake_manifests_build(c));
                LS_TRY(commit_list(c, &list_key));
                LS_TRY(meta_snapshot(c, list_key));
                LS_TRY(meta_current(c));
        } else {
                c->lines = ls_calloc(c->t->line_count + 1, sizeof *c->lines);
                c->line_count = c->t->line_count;
                if (c->line_count > 0)
                        memcpy(c->lines, c->t->lines, c->line_count * sizeof *c->lines);
        }
        LS_TRY(lake_expire(c));
        LS_TRY(meta_log(c));
        LS_TRY(commit_metadata(c, ret_next));
        return commit_publish(c, *ret_next);
}

/* What was read of a table that another broker has changed since may be deleted by now: that is no
 * damage. */
static bool
table_moved(struct ls_lake_stream *s, uint64_t version)
{
        uint64_t now;

        return s->lake->o.shared && lake_table_version(s, &now) == LS_OK && now != version;
}

/* True when the change may fit what another broker committed: `e` came from the version alone. Not
 * the same state twice: then it is something else that is in the way. */
static bool
may_fit(const struct lake_commit *c, ls_err e, int tries, uint64_t *io_version)
{
        bool same = tries > 0 && c->t->version == *io_version;

        *io_version = c->t->version;
        return e == LS_CONFLICT && c->s->lake->o.shared && c->change != NULL && c->handed_over &&
               !same && tries < TABLE_TRIES_MAX && !lake_stopping(c->s->lake);
}

/* One attempt. *ret_again: what failed may be tried on the newer state. */
static ls_err
commit_try(struct ls_lake_stream *s, struct lake_change *change, int tries, uint64_t *io_version,
           bool *ret_again)
{
        struct lake_table *next = NULL;
        struct lake_commit c;
        ls_err e = commit_begin(&c, s, change);

        if (e == LS_OK)
                e = commit_run(&c, &next);
        if (e == LS_EBROKEN && !c.handed_over && c.t != NULL && table_moved(s, c.t->version)) {
                e = LS_CONFLICT;
                c.handed_over = true; /* it would have been refused */
        }
        *ret_again = e != LS_OK && c.t != NULL && may_fit(&c, e, tries, io_version);
        if (e == LS_OK) {
                table_swap(s, LS_STEAL(next));
                pthread_mutex_lock(&s->lock);
                s->last_commit_ms = ls_clock_monotonic_ms();
                pthread_mutex_unlock(&s->lock);
        } else {
                /* A failure, not an outcome, may have come after the commit. Then nothing of it is
                 * called garbage: the sweep knows. */
                if (!s->lake->o.shared || !c.handed_over || e > 0)
                        commit_abandon(&c, !*ret_again);
                lake_table_free(next);
                if (e == LS_CONFLICT)
                        table_swap(s, NULL);
        }
        commit_done(&c);
        return e;
}

static ls_err
table_commit(struct ls_lake_stream *s, struct lake_change *change)
{
        uint64_t version = 0;
        bool again;
        ls_err e;

        for (int tries = 0;; tries++) {
                e = commit_try(s, change, tries, &version, &again);
                if (!again)
                        return e;
        }
}

ls_err
lake_table_commit(struct ls_lake_stream *s, struct lake_change *change)
{
        LS_ASSERT(change != NULL);
        return table_commit(s, change);
}

ls_err
lake_table_touch(struct ls_lake_stream *s)
{
        return table_commit(s, NULL);
}
