/* stream/doctor_table.c - the doctor's look at a table's metadata: the newest metadata file against
 * what the metadata store holds, the manifest list of every kept snapshot, each manifest once, and
 * the files of the current snapshot against those of the metadata store. */
#include <stdio.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/mem.h"
#include "formats/iceberg/metadata.h"
#include "stream/doctor_int.h"

#define ARENA_BYTES_MAX ((size_t)1 << 30)

struct table_check {
        struct ls_store *store;
        const struct ls_meta_stream *stream;
        void (*fn)(void *ctx, const char *line);
        void *ctx;
        struct ls_arena arena;
        struct ls_map seen; /* manifests that were looked at, by path */
        bool damaged;
        int64_t files, rows;             /* of the current snapshot */
        int64_t known_files, known_rows; /* of the metadata store */
};

char *
doctor_uri_key(ls_uuid topic_id, ls_str uri)
{
        char uuid[LS_UUID_TEXT_BYTES], folder[LS_UUID_TEXT_BYTES + 16];
        size_t len;

        ls_uuid_text(topic_id, uuid);
        len = (size_t)snprintf(folder, sizeof folder, "tables/%s/", uuid);
        for (size_t i = uri.len; i >= len; i--) {
                if (memcmp(uri.ptr + i - len, folder, len) == 0)
                        return ls_str_dup(ls_str_make(uri.ptr + i - len, uri.len - (i - len)));
        }
        return NULL;
}

static void
table_problem(struct table_check *t, const char *what, ls_str name, ls_err e)
{
        char line[768];

        t->damaged = true;
        snprintf(line, sizeof line,
                 "topic %s: %s %.*s of its table %s. The log is served all the same, engines can't "
                 "read the snapshots that need it; restore it from a copy",
                 t->stream->kafka_name, what, (int)LS_MIN(name.len, (size_t)300), name.ptr,
                 e == LS_ABSENT ? "is gone"
                 : e > 0        ? "is damaged"
                                : "cannot be read");
        t->fn(t->ctx, line);
}

static ls_err
object_get(struct table_check *t, ls_str uri, struct ls_slice **ret_bytes)
{
        LS_AUTO(ls_free) char *key = doctor_uri_key(t->stream->topic_id, uri);

        return key != NULL ? ls_store_get(t->store, key, 0, 0, ret_bytes) : LS_CORRUPT;
}

/* `current`: its entries count. A manifest of an older snapshot may be of the current one too. */
static void
check_manifest(struct table_check *t, const struct ls_iceberg_manifest_file *line, bool current)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        struct ls_iceberg_manifest manifest;
        ls_err e;

        if (ls_map_get(&t->seen, ls_map_key_str(line->path)) != NULL)
                return;
        ls_map_set(&t->seen, ls_map_key_str(line->path), t);
        e = object_get(t, line->path, &bytes);
        if (e == LS_OK)
                e = ls_iceberg_manifest_read(ls_slice_span(bytes), line, &t->arena, &manifest,
                                             NULL);
        if (e != LS_OK) {
                table_problem(t, "manifest", line->path, e);
                return;
        }
        for (size_t i = 0; current && i < manifest.count; i++) {
                if (manifest.entries[i].status == LS_ICEBERG_DELETED)
                        continue;
                t->files++;
                t->rows += manifest.entries[i].file.record_count;
        }
}

static void
check_snapshot(struct table_check *t, const struct ls_iceberg_snapshot *s, bool current)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        const struct ls_iceberg_manifest_file *lines;
        size_t count;
        ls_err e = object_get(t, s->manifest_list, &bytes);

        if (e == LS_OK)
                e = ls_iceberg_list_read(ls_slice_span(bytes), &t->arena, &lines, &count, NULL);
        if (e != LS_OK) {
                table_problem(t, "manifest list", s->manifest_list, e);
                return;
        }
        for (size_t i = 0; i < count; i++)
                check_manifest(t, &lines[i], current);
}

/* The metadata store has a copy of the newest metadata file. */
static void
check_metadata(struct table_check *t, const struct ls_meta_table *row)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        ls_span text = ls_slice_span(row->metadata);
        const struct ls_iceberg_snapshot *current;
        struct ls_iceberg_metadata m;
        ls_err e = ls_store_get(t->store, row->metadata_key, 0, 0, &bytes);

        if (e == LS_OK && (bytes->len != text.len || memcmp(bytes->ptr, text.ptr, text.len) != 0))
                e = LS_CORRUPT;
        if (e != LS_OK)
                table_problem(t, "metadata file", ls_str_of(row->metadata_key), e);
        e = ls_iceberg_metadata_parse(ls_str_make((const char *)text.ptr, text.len), &t->arena, &m,
                                      NULL);
        if (e != LS_OK) {
                table_problem(t, "the database's copy of", ls_str_of(row->metadata_key), e);
                return;
        }
        current = ls_iceberg_metadata_snapshot(&m, m.current_snapshot_id);
        if (current != NULL)
                check_snapshot(t, current, true);
        for (size_t i = 0; i < m.snapshot_count; i++) {
                if (&m.snapshots[i] != current)
                        check_snapshot(t, &m.snapshots[i], false);
        }
}

static ls_err
known_file(void *ctx, const struct ls_meta_file *f)
{
        struct table_check *t = ctx;

        t->known_files++;
        t->known_rows += f->rows;
        return LS_OK;
}

static void
check_files(struct table_check *t)
{
        char line[512];

        if (t->damaged || (t->files == t->known_files && t->rows == t->known_rows))
                return;
        snprintf(line, sizeof line,
                 "topic %s: its table has %lld files with %lld rows, the metadata store knows %lld "
                 "with %lld",
                 t->stream->kafka_name, (long long)t->files, (long long)t->rows,
                 (long long)t->known_files, (long long)t->known_rows);
        t->fn(t->ctx, line);
}

ls_err
doctor_table(struct ls_meta *meta, struct ls_store *store, const struct ls_meta_stream *stream,
             void (*fn)(void *ctx, const char *line), void *ctx)
{
        struct table_check t = { .store = store, .stream = stream, .fn = fn, .ctx = ctx };
        struct ls_meta_table row;
        ls_err e;

        LS_TRY(ls_meta_table(meta, stream->id, &row));
        if (row.version == 0) {
                ls_meta_table_done(&row);
                return LS_OK;
        }
        ls_arena_init(&t.arena, ARENA_BYTES_MAX);
        ls_map_init(&t.seen);
        check_metadata(&t, &row);
        e = ls_meta_files(meta, stream->id, false, known_file, &t);
        if (e == LS_OK)
                check_files(&t);
        ls_map_done(&t.seen);
        ls_arena_done(&t.arena);
        ls_meta_table_done(&row);
        return e;
}
