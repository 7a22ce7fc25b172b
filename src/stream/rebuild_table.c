/* stream/rebuild_table.c - tables of a rebuilt database.
 *
 * The store is newer than the backup: tables went on, files were merged. Metadata files carry their
 * version in their names; the newest one whose manifests and data files are all there becomes the
 * table, be it that the crash came before its commit: what it names was durable before, and is what
 * that commit would have made of the same records. Extents come from the footers of the data files
 * (docs/formats/parquet.md); the metadata store checks their sums against the log's. What is
 * refused stays as the backup has it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/arena.h"
#include "base/assert.h"
#include "base/mem.h"
#include "formats/iceberg/metadata.h"
#include "lake/rows.h"
#include "stream/doctor_int.h"
#include "stream/rebuild_int.h"

#define KEYS_MAX        SIZE_MAX
#define ARENA_BYTES_MAX ((size_t)1 << 30)
#define FILE_GRACE_MS   ((int64_t)24 * 3600 * 1000)
#define UUID_CHARS      36

/* --- metadata files --- */

struct candidate {
        char *key;
        ls_uuid topic_id;
        uint64_t version, epoch;
};
struct candidates {
        struct candidate *items;
        size_t count, cap;
};

/* "tables/<topic id>/metadata/<version>-<epoch>-<random>.metadata.json" */
static ls_err
candidate_add(void *ctx, const char *key, const struct ls_store_info *info)
{
        static const char folder[] = "/metadata/", ending[] = ".metadata.json";
        struct candidates *all = ctx;
        struct candidate c = { .key = NULL };
        const char *at = key + strlen("tables/");
        size_t len = strlen(at);
        int64_t version, epoch;
        const char *dash;

        if (len < UUID_CHARS + sizeof folder + sizeof ending ||
            !ls_uuid_parse(ls_str_make(at, UUID_CHARS), &c.topic_id) ||
            strncmp(at + UUID_CHARS, folder, strlen(folder)) != 0 ||
            strcmp(at + len - strlen(ending), ending) != 0)
                return LS_OK;
        at += UUID_CHARS + strlen(folder);
        dash = strchr(at, '-');
        if (dash == NULL ||
            !ls_str_to_i64(ls_str_make(at, (size_t)(dash - at)), 1, INT64_MAX, &version))
                return LS_OK;
        at = dash + 1;
        dash = strchr(at, '-');
        if (dash == NULL ||
            !ls_str_to_i64(ls_str_make(at, (size_t)(dash - at)), 0, INT64_MAX, &epoch))
                return LS_OK;
        c.version = (uint64_t)version;
        c.epoch = (uint64_t)epoch;
        c.key = ls_strdup(key);
        LS_PUSH(all->items, all->count, all->cap, c);
        return LS_OK;
}

/* By topic, the newest first. */
static int
candidate_order(const void *a, const void *b)
{
        const struct candidate *x = a, *y = b;
        int topic = memcmp(x->topic_id.bytes, y->topic_id.bytes, sizeof x->topic_id.bytes);

        if (topic != 0)
                return topic;
        if (x->version != y->version)
                return x->version > y->version ? -1 : 1;
        return x->epoch > y->epoch ? -1 : x->epoch < y->epoch;
}

static ls_err
candidates_list(struct rebuild *r, struct candidates *ret)
{
        LS_TRY(ls_store_list(r->store, "tables/", NULL, KEYS_MAX, candidate_add, ret));
        if (ret->count > 1)
                qsort(ret->items, ret->count, sizeof *ret->items, candidate_order);
        return LS_OK;
}

static void
candidates_done(struct candidates *all)
{
        for (size_t i = 0; i < all->count; i++)
                ls_free(all->items[i].key);
        ls_free(all->items);
}

/* --- a snapshot and its files --- */

struct snapshot_file {
        char *key;
        uint64_t bytes;
        int64_t rows;
        uint64_t id; /* in the metadata store; 0: not there */
};
struct snapshot {
        struct rebuild *r;
        const struct candidate *from;
        struct ls_arena arena;
        struct ls_slice *text;
        struct ls_iceberg_metadata m;
        struct snapshot_file *files; /* by key */
        size_t file_count, file_cap;
};

static void
snapshot_done(struct snapshot *s)
{
        for (size_t i = 0; i < s->file_count; i++)
                ls_free(s->files[i].key);
        ls_free(s->files);
        ls_slice_unref(s->text);
        ls_arena_done(&s->arena);
}

static ls_err
object_get(struct snapshot *s, ls_str uri, struct ls_slice **ret_bytes)
{
        LS_AUTO(ls_free) char *key = doctor_uri_key(s->from->topic_id, uri);

        return key != NULL ? ls_store_get(s->r->store, key, 0, 0, ret_bytes) : LS_ABSENT;
}

static ls_err
snapshot_entry(struct snapshot *s, const struct ls_iceberg_data_file *f)
{
        struct snapshot_file file = { .key = doctor_uri_key(s->from->topic_id, f->path),
                                      .bytes = (uint64_t)f->file_bytes,
                                      .rows = f->record_count };
        struct ls_store_info info;
        ls_err e = LS_ABSENT;

        if (file.key != NULL)
                e = ls_store_head(s->r->store, file.key, &info);
        if (e == LS_OK && info.bytes != file.bytes)
                e = LS_CORRUPT;
        if (e != LS_OK) {
                ls_free(file.key);
                return e;
        }
        LS_PUSH(s->files, s->file_count, s->file_cap, file);
        return LS_OK;
}

static ls_err
snapshot_manifest(struct snapshot *s, const struct ls_iceberg_manifest_file *line)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        struct ls_iceberg_manifest manifest;

        LS_TRY(object_get(s, line->path, &bytes));
        LS_TRY(ls_iceberg_manifest_read(ls_slice_span(bytes), line, &s->arena, &manifest, NULL));
        for (size_t i = 0; i < manifest.count; i++) {
                if (manifest.entries[i].status != LS_ICEBERG_DELETED)
                        LS_TRY(snapshot_entry(s, &manifest.entries[i].file));
        }
        return LS_OK;
}

static int
file_order(const void *a, const void *b)
{
        const struct snapshot_file *x = a, *y = b;

        return strcmp(x->key, y->key);
}

/* Reads the metadata file and the current snapshot; every file is there. An outcome or a failure:
 * it is not usable. */
static ls_err
snapshot_read(struct snapshot *s)
{
        const struct ls_iceberg_snapshot *current;
        const struct ls_iceberg_manifest_file *lines;
        LS_AUTO(ls_slice_unref) struct ls_slice *list = NULL;
        ls_span text;
        size_t count;

        LS_TRY(ls_store_get(s->r->store, s->from->key, 0, 0, &s->text));
        text = ls_slice_span(s->text);
        LS_TRY(ls_iceberg_metadata_parse(ls_str_make((const char *)text.ptr, text.len), &s->arena,
                                         &s->m, NULL));
        current = ls_iceberg_metadata_snapshot(&s->m, s->m.current_snapshot_id);
        if (current == NULL)
                return LS_OK;
        LS_TRY(object_get(s, current->manifest_list, &list));
        LS_TRY(ls_iceberg_list_read(ls_slice_span(list), &s->arena, &lines, &count, NULL));
        for (size_t i = 0; i < count; i++)
                LS_TRY(snapshot_manifest(s, &lines[i]));
        if (s->file_count > 1)
                qsort(s->files, s->file_count, sizeof *s->files, file_order);
        return LS_OK;
}

/* --- topics that only their folder knows --- */

/* The stream's number and how many partitions its rows are of; LS_ABSENT: it has no rows. */
static ls_err
snapshot_origin(struct snapshot *s, uint64_t *ret_id, int32_t *ret_partitions)
{
        int32_t partitions = 0;

        for (size_t i = 0; i < s->file_count; i++) {
                struct ls_rows_reader *reader;
                const struct ls_rows_run *runs;
                size_t count = 0;
                ls_err e;

                LS_TRY(ls_rows_reader_open(s->r->store, s->files[i].key, s->files[i].bytes,
                                           &reader));
                *ret_id = ls_rows_stream_id(reader);
                e = ls_rows_runs(reader, &runs, &count);
                for (size_t k = 0; e == LS_OK && k < count; k++)
                        partitions = LS_MAX(partitions, runs[k].partition + 1);
                ls_rows_reader_close(reader);
                LS_TRY(e);
        }
        *ret_partitions = partitions;
        return partitions > 0 ? LS_OK : LS_ABSENT;
}

static ls_err
find_stream(struct rebuild *r, const struct candidate *c)
{
        struct snapshot s = { .r = r, .from = c };
        int32_t partitions;
        uint64_t id;
        ls_err e;

        ls_arena_init(&s.arena, ARENA_BYTES_MAX);
        e = snapshot_read(&s);
        if (e == LS_OK)
                e = snapshot_origin(&s, &id, &partitions);
        if (e == LS_OK) {
                ls_str topic =
                        ls_iceberg_prop_get(s.m.properties, s.m.property_count, "lakestream.topic");
                LS_AUTO(ls_free) char *name = topic.ptr != NULL ? ls_str_dup(topic) : NULL;

                e = rebuild_stream_make(r, id, &c->topic_id, name, partitions);
                if (e == LS_EXISTS) /* a topic of that name was made again */
                        e = rebuild_stream_make(r, id, &c->topic_id, NULL, partitions);
                if (e == LS_OK)
                        rebuild_say(r, LS_DOCTOR_PROBLEM,
                                    "topic %s is not in the backup: made again from its table, "
                                    "with default settings",
                                    name ? name : "(without a name)");
        }
        snapshot_done(&s);
        if (e > 0) /* no rows, or not usable: a deleted topic's, or never written to */
                rebuild_say(r, LS_DOCTOR_INFO, "%s is of no topic, left alone", c->key);
        return e < 0 ? e : LS_OK;
}

struct gone {
        struct rebuild *r;
        struct candidates *all;
};

static ls_err
gone_note(void *ctx, uint64_t stream_id, ls_uuid topic_id)
{
        struct gone *gone = ctx;

        LS_PUSH(gone->r->gone, gone->r->gone_count, gone->r->gone_cap, stream_id);
        for (size_t i = 0; i < gone->all->count; i++) {
                if (ls_uuid_eq(gone->all->items[i].topic_id, topic_id))
                        gone->all->items[i].version = 0;
        }
        return LS_OK;
}

ls_err
rebuild_tables_find(struct rebuild *r)
{
        struct candidates all = { 0 };
        struct gone gone = { r, &all };
        ls_err e = candidates_list(r, &all);

        if (e == LS_OK)
                e = ls_meta_gone_all(r->meta, gone_note, &gone);
        for (size_t i = 0; i < all.count && e == LS_OK; i++) {
                const struct candidate *c = &all.items[i];

                if (c->version > 0 && rebuild_stream_by_topic(r, c->topic_id) == NULL)
                        e = find_stream(r, c);
        }
        candidates_done(&all);
        return e;
}

/* --- adopting a snapshot --- */

struct adopt {
        struct snapshot *s;
        struct rebuild_stream *stream;
        struct ls_meta_table_commit commit;
        struct ls_meta_file *add;
        size_t add_count, add_cap;
        uint64_t *remove; /* ids of files, ascending */
        size_t remove_count, remove_cap;
        struct ls_meta_extent *extents;
        bool *is_new;
        size_t extent_count, extent_cap;
        struct ls_meta_extent *old;
        size_t old_count, old_cap;
        struct ls_meta_floor *floors;
        size_t floor_count, floor_cap;
};

static ls_err
note_file(void *ctx, const struct ls_meta_file *f)
{
        struct adopt *a = ctx;
        struct snapshot_file wanted = { .key = (char *)(uintptr_t)f->key };
        struct snapshot_file *found = a->s->file_count > 0
                                              ? bsearch(&wanted, a->s->files, a->s->file_count,
                                                        sizeof *a->s->files, file_order)
                                              : NULL;

        if (found != NULL)
                found->id = f->id;
        else
                LS_PUSH(a->remove, a->remove_count, a->remove_cap, f->id);
        return LS_OK;
}

static int
id_order(const void *a, const void *b)
{
        const uint64_t *x = a, *y = b;

        return (*x > *y) - (*x < *y);
}

static ls_err
note_extent(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        struct adopt *a = ctx;
        struct ls_meta_extent copy = *e;

        copy.inline_bytes = (ls_span){ 0 };
        if (a->remove_count > 0 && e->file_id != 0 &&
            bsearch(&e->file_id, a->remove, a->remove_count, sizeof *a->remove, id_order) != NULL)
                LS_PUSH(a->old, a->old_count, a->old_cap, copy);
        return LS_OK;
}

static ls_err
add_runs(struct adopt *a, const struct snapshot_file *file)
{
        struct ls_meta_file row = { .key = file->key, .bytes = file->bytes, .rows = file->rows };
        struct ls_rows_reader *reader;
        const struct ls_rows_run *runs;
        size_t count = 0;
        ls_err e;

        LS_TRY(ls_rows_reader_open(a->s->r->store, file->key, file->bytes, &reader));
        LS_PUSH(a->add, a->add_count, a->add_cap, row);
        e = ls_rows_runs(reader, &runs, &count);
        for (size_t i = 0; e == LS_OK && i < count; i++) {
                struct ls_meta_extent x = {
                        .partition = runs[i].partition,
                        .kind = LS_META_EXTENT_PARQUET,
                        .base_offset = runs[i].base_offset,
                        .end_offset = runs[i].end_offset,
                        .file_id = a->add_count,
                        .first_row = runs[i].first_row,
                        .rows = runs[i].rows,
                        .min_timestamp = runs[i].min_timestamp,
                        .max_timestamp = runs[i].max_timestamp,
                        .hash = runs[i].hash,
                        .log_bytes = runs[i].log_bytes,
                        .flags = runs[i].log_append_time ? LS_META_BATCH_LOG_APPEND_TIME : 0,
                };

                LS_PUSH(a->extents, a->extent_count, a->extent_cap, x);
        }
        ls_rows_reader_close(reader);
        return e;
}

static int
extent_order(const void *a, const void *b)
{
        const struct ls_meta_extent *x = a, *y = b;

        if (x->partition != y->partition)
                return x->partition < y->partition ? -1 : 1;
        if (x->base_offset != y->base_offset)
                return x->base_offset < y->base_offset ? -1 : 1;
        return (x->end_offset > y->end_offset) - (x->end_offset < y->end_offset);
}

/* Rows of one range in several files (table.partition.by): their runs overlap, and all get the
 * range that they cover together. */
static void
group_extents(struct adopt *a)
{
        struct ls_meta_extent *x = a->extents;

        for (size_t from = 0, to; from < a->extent_count; from = to) {
                int64_t end = x[from].end_offset;

                for (to = from + 1; to < a->extent_count && x[to].partition == x[from].partition &&
                                    x[to].base_offset < end;
                     to++)
                        end = LS_MAX(end, x[to].end_offset);
                for (size_t i = from + 1; i < to; i++)
                        x[i].base_offset = x[from].base_offset;
                for (size_t i = from; i < to; i++)
                        x[i].end_offset = end;
        }
}

static ls_err
note_floor(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct adopt *a = ctx;
        struct ls_meta_floor floor = { partition, p->floor };

        for (size_t i = 0; i < a->extent_count; i++) {
                if (a->extents[i].partition == partition)
                        floor.floor = LS_MAX(floor.floor, a->extents[i].end_offset);
        }
        if (floor.floor > p->floor)
                LS_PUSH(a->floors, a->floor_count, a->floor_cap, floor);
        return LS_OK;
}

static ls_err
adopt_plan(struct adopt *a)
{
        struct rebuild *r = a->s->r;
        int32_t partitions = a->stream->partitions;

        LS_TRY(ls_meta_files(r->meta, a->stream->id, false, note_file, a));
        if (a->remove_count > 1)
                qsort(a->remove, a->remove_count, sizeof *a->remove, id_order);
        for (int32_t p = 0; p < partitions && a->remove_count > 0; p++)
                LS_TRY(ls_meta_extents(r->meta, a->stream->id, p, 0, INT64_MAX, SIZE_MAX,
                                       note_extent, a));
        for (size_t i = 0; i < a->s->file_count; i++) {
                if (a->s->files[i].id == 0)
                        LS_TRY(add_runs(a, &a->s->files[i]));
        }
        if (a->extent_count > 1)
                qsort(a->extents, a->extent_count, sizeof *a->extents, extent_order);
        group_extents(a);
        if (a->extent_count > 0)
                LS_TRY(rebuild_stream_grow(r, a->stream,
                                           a->extents[a->extent_count - 1].partition + 1));
        a->is_new = ls_malloc(a->extent_count + 1);
        memset(a->is_new, 1, a->extent_count + 1);
        return ls_meta_partitions(r->meta, a->stream->id, note_floor, a);
}

static ls_err
adopt_publish(struct adopt *a, uint64_t version, struct ls_errinfo *reterr)
{
        struct ls_meta_table_commit commit = {
                .stream_id = a->stream->id,
                .version = version,
                .metadata_key = a->s->from->key,
                .metadata = ls_slice_span(a->s->text),
                .add_files = a->add,
                .add_file_count = a->add_count,
                .remove_files = a->remove,
                .remove_file_count = a->remove_count,
                .add_extents = a->extents,
                .file_is_new = a->is_new,
                .add_extent_count = a->extent_count,
                .remove_extents = a->old,
                .remove_extent_count = a->old_count,
                .floors = a->floors,
                .floor_count = a->floor_count,
                .garbage_grace_ms = FILE_GRACE_MS,
        };

        return ls_meta_rebuild_publish(a->s->r->meta, &commit, a->s->from->version, reterr);
}

/* An outcome: this one can't be. */
static ls_err
adopt(struct rebuild *r, struct rebuild_stream *stream, const struct candidate *c, uint64_t version,
      struct ls_errinfo *reterr)
{
        struct snapshot s = { .r = r, .from = c };
        struct adopt a = { .s = &s, .stream = stream };
        ls_err e;

        ls_arena_init(&s.arena, ARENA_BYTES_MAX);
        e = snapshot_read(&s);
        if (e != LS_OK)
                ls_fail(reterr, e, "it is not whole: %s", ls_err_text(e));
        if (e == LS_OK)
                e = adopt_plan(&a);
        if (e == LS_OK)
                e = adopt_publish(&a, version, reterr);
        ls_free(a.add);
        ls_free(a.remove);
        ls_free(a.extents);
        ls_free(a.is_new);
        ls_free(a.old);
        ls_free(a.floors);
        snapshot_done(&s);
        return e;
}

/* Candidates [from, to) are of one topic, the newest first. */
static ls_err
adopt_newest(struct rebuild *r, const struct candidate *from, size_t count)
{
        struct rebuild_stream *stream = rebuild_stream_by_topic(r, from->topic_id);
        struct ls_meta_table table;
        uint64_t version;

        if (stream == NULL)
                return LS_OK;
        LS_TRY(ls_meta_table(r->meta, stream->id, &table));
        version = table.version;
        ls_meta_table_done(&table);
        for (size_t i = 0; i < count && from[i].version > version; i++) {
                struct ls_errinfo info = { "" };
                ls_err e = adopt(r, stream, &from[i], version, &info);

                if (e == LS_OK) {
                        r->report.tables++;
                        return LS_OK;
                }
                if (e < 0 && e != LS_EBROKEN)
                        return e;
                rebuild_say(r, LS_DOCTOR_INFO, "%s is not taken: %s", from[i].key,
                            info.text[0] ? info.text : ls_err_text(e));
        }
        return LS_OK;
}

ls_err
rebuild_tables_adopt(struct rebuild *r)
{
        struct candidates all = { 0 };
        ls_err e = candidates_list(r, &all);

        for (size_t from = 0, to; from < all.count && e == LS_OK; from = to) {
                for (to = from + 1;
                     to < all.count && ls_uuid_eq(all.items[to].topic_id, all.items[from].topic_id);
                     to++)
                        ;
                e = adopt_newest(r, &all.items[from], to - from);
        }
        candidates_done(&all);
        return e;
}
