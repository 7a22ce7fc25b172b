/* stream/rebuild.c - `lakestream doctor rebuild`: a lost or damaged metadata database made again.
 *
 *   1  the newest backup in the store that opens, or nothing, as meta/rebuild.db
 *   2  every whole object in the WAL: what numbers were given out; which of them the backup lacks
 *   3  streams that the backup lacks: from their table's folder, else under a name made up
 *   4  the objects that it lacks, committed again in their order: the same offsets, since a segment
 *      holds what was committed and nothing else (docs/formats/wal_segment.md)
 *   5  tables: the newest metadata file whose files are all there (rebuild_table.c)
 *   6  checked, and put in the place of the old database, which is kept beside it
 *
 * Until the last step nothing that was there is changed: a run that is interrupted begins anew.
 * What comes back and what does not: docs/rebuild.md. Threads: one.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "catalog/names.h"
#include "formats/batch/batch.h"
#include "stream/rebuild_int.h"
#include "sys/file.h"
#include "wal/segment.h"

#define BACKUPS_MAX       10000
#define COPY_BYTES        ((size_t)1 << 20)
#define OBJECT_BYTES_MAX  ((uint64_t)1 << 30) /* a flush is far smaller */
#define NAME_FORMAT_BYTES 32

void
rebuild_say(struct rebuild *r, enum ls_doctor_level level, const char *format, ...)
{
        char line[1024];
        va_list ap;

        va_start(ap, format);
        vsnprintf(line, sizeof line, format, ap);
        va_end(ap);
        if (level == LS_DOCTOR_PROBLEM)
                r->report.problems++;
        r->fn(r->ctx, level, line);
}

/* --- files --- */

static ls_err
file_delete(const char *path, const char *suffix)
{
        LS_AUTO(ls_free) char *whole = ls_format("%s%s", path, suffix);
        ls_err e = ls_file_delete(whole);

        return e == LS_ABSENT ? LS_OK : e;
}

static ls_err
database_delete(const char *path)
{
        LS_TRY(file_delete(path, ""));
        LS_TRY(file_delete(path, "-wal"));
        return file_delete(path, "-shm");
}

/* --- the backup --- */

struct keys {
        char **items;
        size_t count, cap;
};

static ls_err
keys_add(void *ctx, const char *key, const struct ls_store_info *info)
{
        struct keys *keys = ctx;
        char *copy = ls_strdup(key);

        LS_PUSH(keys->items, keys->count, keys->cap, copy);
        return LS_OK;
}

/* The object `key` of the store as the file r->path. */
static ls_err
backup_fetch(struct rebuild *r, const char *key)
{
        struct ls_store_info info;
        struct ls_file *file;
        ls_err e;

        LS_TRY(ls_store_head(r->store, key, &info));
        LS_TRY(ls_file_open(r->path, LS_FILE_CREATE_NEW, &file));
        e = LS_OK;
        for (uint64_t pos = 0; pos < info.bytes && e == LS_OK;) {
                size_t len = (size_t)LS_MIN(info.bytes - pos, COPY_BYTES);
                struct ls_slice *piece = NULL;

                e = ls_store_get(r->store, key, pos, len, &piece);
                if (e == LS_OK) {
                        ls_span bytes = ls_slice_span(piece);

                        e = ls_file_write(file, pos, &bytes, 1);
                        pos += len;
                }
                ls_slice_unref(piece);
        }
        if (e == LS_OK)
                e = ls_file_sync(file);
        ls_file_close(file);
        return e;
}

static void
on_lost(void *ctx, const char *why)
{
        rebuild_say(ctx, LS_DOCTOR_PROBLEM, "a database failed: %s", why);
}

static ls_err
database_open(struct rebuild *r, const char *path, struct ls_errinfo *reterr)
{
        struct ls_meta_options o = { .sqlite_path = path,
                                     .sync_full = false, /* it counts when it is in its place */
                                     .broker_id = r->broker,
                                     .on_lost = on_lost,
                                     .on_lost_ctx = r,
                                     .producer_expiry_ms =
                                             ls_option_int(r->options, LS_OPT_PRODUCER_EXPIRY) };

        return ls_meta_open(&o, &r->meta, reterr);
}

/* LS_ABSENT: no backup can be used. */
static ls_err
backup_open(struct rebuild *r)
{
        struct keys keys = { 0 };
        ls_err e = ls_store_list(r->store, "meta/backup-", NULL, BACKUPS_MAX, keys_add, &keys);
        bool found = false;

        for (size_t i = keys.count; i-- > 0 && e == LS_OK && !found;) {
                struct ls_errinfo info = { "" };

                e = database_delete(r->path);
                if (e != LS_OK)
                        break;
                if (backup_fetch(r, keys.items[i]) == LS_OK &&
                    database_open(r, r->path, &info) == LS_OK) {
                        rebuild_say(r, LS_DOCTOR_INFO, "begins from the backup %s", keys.items[i]);
                        found = true;
                } else {
                        rebuild_say(r, LS_DOCTOR_PROBLEM, "the backup %s cannot be used: %s",
                                    keys.items[i], info.text[0] ? info.text : "it cannot be read");
                }
        }
        for (size_t i = 0; i < keys.count; i++)
                ls_free(keys.items[i]);
        ls_free(keys.items);
        LS_TRY(e);
        return found ? LS_OK : LS_ABSENT;
}

static void
count_finding(void *ctx, const char *finding)
{
        ++*(size_t *)ctx;
}

/* Whether the present database needs none of this: then it is better than a backup. */
static bool
database_is_whole(struct rebuild *r)
{
        LS_AUTO(ls_free) char *db = ls_format("%s/meta/lakestream.db", r->dir);
        struct ls_errinfo info = { "" };
        struct ls_file *probe = NULL;
        uint64_t commit = 0;
        size_t findings = 0;
        bool whole;

        if (ls_file_open(db, LS_FILE_READ, &probe) != LS_OK)
                return false;
        ls_file_close(probe);
        if (database_open(r, db, &info) != LS_OK)
                return false;
        whole = ls_meta_commit_number(r->meta, &commit) == LS_OK && commit >= r->witness.commit &&
                ls_meta_check(r->meta, count_finding, &findings) == LS_OK && findings == 0 &&
                (!r->cluster_known || ls_uuid_eq(ls_meta_cluster_id(r->meta), r->cluster));
        ls_meta_close(r->meta);
        r->meta = NULL;
        return whole;
}

static ls_err
begin(struct rebuild *r, struct ls_errinfo *reterr)
{
        ls_err e = backup_open(r);

        if (e != LS_ABSENT)
                return e == LS_OK ? e : ls_fail(reterr, e, "backups: %s", ls_err_text(e));
        rebuild_say(r, LS_DOCTOR_PROBLEM,
                    "there is no backup of the metadata: names and settings of topics come from "
                    "their tables, group offsets are lost");
        LS_TRY(database_delete(r->path));
        LS_TRY(database_open(r, r->path, reterr));
        if (r->cluster_known)
                LS_TRY(ls_meta_rebuild_cluster(r->meta, r->cluster));
        return LS_OK;
}

/* --- streams --- */

static ls_err
stream_note(void *ctx, const struct ls_meta_stream *s)
{
        struct rebuild *r = ctx;
        struct rebuild_stream entry = { s->id, s->topic_id, s->partitions, false };

        LS_PUSH(r->streams, r->stream_count, r->stream_cap, entry);
        return LS_OK;
}

struct rebuild_stream *
rebuild_stream_by_id(struct rebuild *r, uint64_t id)
{
        for (size_t i = 0; i < r->stream_count; i++) {
                if (r->streams[i].id == id)
                        return &r->streams[i];
        }
        return NULL;
}

struct rebuild_stream *
rebuild_stream_by_topic(struct rebuild *r, ls_uuid topic_id)
{
        for (size_t i = 0; i < r->stream_count; i++) {
                if (ls_uuid_eq(r->streams[i].topic_id, topic_id))
                        return &r->streams[i];
        }
        return NULL;
}

ls_err
rebuild_stream_make(struct rebuild *r, uint64_t id, const ls_uuid *topic_id, const char *kafka_name,
                    int32_t partitions)
{
        char made_up[NAME_FORMAT_BYTES];
        ls_str ns, name;
        uint8_t random[16];
        ls_err e;

        ls_random(random, sizeof random);
        snprintf(made_up, sizeof made_up, "recovered-%llu", (unsigned long long)id);
        ls_topic_name_split(ls_str_of(kafka_name ? kafka_name : made_up), &ns, &name);
        {
                LS_AUTO(ls_free) char *ns_text = ls_str_dup(ns);
                LS_AUTO(ls_free) char *name_text = ls_str_dup(name);
                LS_AUTO(ls_free) char *kafka_text = ls_strdup(kafka_name ? kafka_name : made_up);
                LS_AUTO(ls_free) char *catalog = ls_strdup(LS_CATALOG_DEFAULT);
                struct ls_meta_stream spec = { .id = id,
                                               .topic_id =
                                                       topic_id ? *topic_id : ls_uuid_v4(random),
                                               .kafka_name = kafka_text,
                                               .catalog = catalog,
                                               .ns = ns_text,
                                               .name = name_text,
                                               .partitions = partitions,
                                               .created_ms = ls_clock_wall_ms() };

                e = ls_meta_rebuild_stream(r->meta, &spec);
                if (e == LS_OK)
                        e = stream_note(r, &spec);
        }
        if (e == LS_OK) {
                r->streams[r->stream_count - 1].renamed = kafka_name == NULL;
                r->report.streams++;
        }
        return e;
}

ls_err
rebuild_stream_grow(struct rebuild *r, struct rebuild_stream *s, int32_t partitions)
{
        struct ls_meta_stream *row = NULL;
        ls_err e;

        if (partitions <= s->partitions)
                return LS_OK;
        e = ls_meta_stream_grow(r->meta, s->id, partitions, &row);
        if (e == LS_OK)
                s->partitions = partitions;
        ls_meta_stream_free(row);
        return e;
}

/* --- the WAL: what is there --- */

static void
witness_object(struct rebuild *r, const struct ls_object_header *h)
{
        r->witness.commit = LS_MAX(r->witness.commit, h->last_commit);
        if (h->broker == r->broker)
                r->witness.epoch = LS_MAX(r->witness.epoch, h->epoch);
}

/* The first whole header behind `pos`: objects are 8-aligned. */
static uint64_t
next_object(ls_span file, uint64_t pos)
{
        struct ls_object_header h;

        for (pos += LS_OBJECT_ALIGN; pos < file.len; pos += LS_OBJECT_ALIGN) {
                if (ls_object_header_get(ls_span_of(file.ptr + pos, file.len - pos), &h) == LS_OK)
                        return pos;
        }
        return file.len;
}

static void
walk_object(struct rebuild *r, uint64_t segment, uint64_t pos, const struct ls_object_header *h)
{
        struct rebuild_object o = { .segment = segment,
                                    .pos = pos,
                                    .bytes = ls_object_bytes(h),
                                    .epoch = h->epoch,
                                    .sequence = h->sequence,
                                    .last_commit = h->last_commit,
                                    .broker = h->broker };

        witness_object(r, h);
        LS_PUSH(r->objects, r->object_count, r->object_cap, o);
        r->report.objects++;
}

static void
walk_segment(struct rebuild *r, uint64_t segment, ls_span file)
{
        uint64_t pos = LS_SEGMENT_HEADER_BYTES;

        while (pos < file.len) {
                ls_span rest = ls_span_of(file.ptr + pos, file.len - pos), body;
                LS_AUTO(ls_free) struct ls_object_batch *batches = NULL;
                struct ls_object_header h;
                size_t count;

                if (ls_object_check(rest, &h, &body, &batches, &count) == LS_OK) {
                        walk_object(r, segment, pos, &h);
                        pos += ls_object_bytes(&h);
                } else {
                        uint64_t next = next_object(file, pos);

                        /* at the very end it is the torn tail of a crash */
                        if (next < file.len)
                                rebuild_say(r, LS_DOCTOR_PROBLEM,
                                            "WAL segment %llu is damaged from position %llu to "
                                            "%llu: what was in it and in no table is lost, and "
                                            "records behind it that the backup does not know get "
                                            "smaller offsets",
                                            (unsigned long long)segment, (unsigned long long)pos,
                                            (unsigned long long)next);
                        pos = next;
                }
        }
}

static ls_err
walk_file(void *ctx, const struct ls_dir_entry *entry)
{
        struct rebuild *r = ctx;
        struct ls_segment_header header;
        struct ls_slice *bytes = NULL;
        int64_t number;
        ls_err e;

        if (strlen(entry->name) != 24 || strcmp(entry->name + 20, ".wal") != 0 ||
            !ls_str_to_i64(ls_str_make(entry->name, 20), 0, INT64_MAX, &number))
                return LS_OK;
        {
                LS_AUTO(ls_free) char *path = ls_format("%s/wal/%s", r->dir, entry->name);

                e = ls_file_read_all(path, SIZE_MAX, &bytes);
        }
        if (e != LS_OK) {
                rebuild_say(r, LS_DOCTOR_PROBLEM, "WAL segment %lld cannot be read: %s",
                            (long long)number, ls_err_text(e));
                return LS_OK;
        }
        e = ls_segment_header_get(ls_slice_span(bytes), &header);
        if (e == LS_OK) {
                r->cluster = header.cluster;
                r->cluster_known = true;
                if (header.epoch >= r->witness.epoch)
                        r->broker = r->witness.broker = header.broker;
                r->witness.epoch = LS_MAX(r->witness.epoch, header.epoch);
        }
        if (e != LS_NEWER_FORMAT)
                walk_segment(r, (uint64_t)number, ls_slice_span(bytes));
        ls_slice_unref(bytes);
        return e == LS_NEWER_FORMAT ? e : LS_OK;
}

/* The order in which they were committed: an object is sealed knowing every commit before it but
 * the one or two under way, and those have its epoch. */
static int
object_order(const void *a, const void *b)
{
        const struct rebuild_object *x = a, *y = b;

        if (x->broker == y->broker && x->epoch == y->epoch)
                return (x->sequence > y->sequence) - (x->sequence < y->sequence);
        if (x->last_commit != y->last_commit)
                return x->last_commit < y->last_commit ? -1 : 1;
        return (x->epoch > y->epoch) - (x->epoch < y->epoch);
}

static ls_err
walk_wal(struct rebuild *r, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *wal = ls_format("%s/wal", r->dir);
        ls_err e = ls_dir_walk(wal, walk_file, r);

        if (e == LS_NEWER_FORMAT)
                return ls_fail(reterr, e, "the WAL was written by a newer version: use that");
        if (e != LS_OK && e != LS_ABSENT)
                return ls_fail(reterr, e, "%s: %s", wal, ls_err_text(e));
        if (r->object_count > 1)
                qsort(r->objects, r->object_count, sizeof *r->objects, object_order);
        return LS_OK;
}

/* --- the WAL: committed again --- */

/* The batches of an object as the flush thread gave them. */
static ls_err
object_batches(const struct rebuild_object *o, ls_span object,
               struct ls_meta_wal_batch **ret_batches, size_t *ret_count)
{
        LS_AUTO(ls_free) struct ls_object_batch *rows = NULL;
        LS_AUTO(ls_free) struct ls_meta_wal_batch *batches = NULL;
        struct ls_object_header header;
        uint64_t pos = o->pos + LS_OBJECT_HEADER_BYTES;
        size_t count;
        ls_span body;

        LS_TRY(ls_object_check(object, &header, &body, &rows, &count));
        batches = ls_calloc(count + 1, sizeof *batches);
        for (size_t i = 0; i < count; i++) {
                ls_span bytes = ls_span_of(body.ptr, (size_t)rows[i].bytes);
                struct ls_batch_header h;

                LS_TRY(ls_batch_peek(bytes, &h));
                batches[i].stream_id = rows[i].stream_id;
                batches[i].entry = (struct ls_meta_entry){
                        .partition = rows[i].partition,
                        .records = h.last_offset_delta + 1,
                        .segment = o->segment,
                        .pos = pos,
                        .bytes = (uint32_t)rows[i].bytes,
                        .flags = (uint8_t)(h.attributes & 0x3f),
                        .base_timestamp = h.base_timestamp,
                        .max_timestamp = h.max_timestamp,
                        .producer_id = h.producer_id,
                        .producer_epoch = h.producer_epoch,
                        .base_sequence = h.base_sequence,
                        .s0 = rows[i].s0,
                        .s1 = rows[i].s1,
                };
                body = ls_span_of(body.ptr + rows[i].bytes, body.len - (size_t)rows[i].bytes);
                pos += rows[i].bytes;
        }
        *ret_batches = LS_STEAL(batches);
        *ret_count = count;
        return LS_OK;
}

static ls_err
object_read(struct rebuild *r, const struct rebuild_object *o, struct ls_slice **ret_bytes)
{
        LS_AUTO(ls_free)
        char *path = ls_format("%s/wal/%020llu.wal", r->dir, (unsigned long long)o->segment);
        struct ls_slice *bytes =
                o->bytes <= OBJECT_BYTES_MAX ? ls_slice_new((size_t)o->bytes) : NULL;
        struct ls_file *file = NULL;
        ls_err e;

        if (bytes == NULL)
                return LS_ELIMIT;
        e = ls_file_open(path, LS_FILE_READ, &file);
        if (e == LS_OK)
                e = ls_file_read(file, o->pos, bytes->ptr, bytes->len);
        ls_file_close(file);
        if (e != LS_OK) {
                ls_slice_unref(bytes);
                return e;
        }
        *ret_bytes = bytes;
        return LS_OK;
}

static bool
is_gone(const struct rebuild *r, uint64_t stream_id)
{
        for (size_t i = 0; i < r->gone_count; i++) {
                if (r->gone[i] == stream_id)
                        return true;
        }
        return false;
}

/* Streams and partitions that the backup does not have. */
static ls_err
object_streams(struct rebuild *r, const struct ls_meta_wal_batch *batches, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                uint64_t id = batches[i].stream_id;
                int32_t partitions = batches[i].entry.partition + 1;
                struct rebuild_stream *s = rebuild_stream_by_id(r, id);

                r->witness.stream_id = LS_MAX(r->witness.stream_id, id);
                r->witness.producer_id =
                        LS_MAX(r->witness.producer_id, batches[i].entry.producer_id);
                if (s != NULL) {
                        LS_TRY(rebuild_stream_grow(r, s, partitions));
                        continue;
                }
                if (is_gone(r, id)) /* its batches are refused, as they were */
                        continue;
                LS_TRY(rebuild_stream_make(r, id, NULL, NULL, partitions));
                rebuild_say(r, LS_DOCTOR_PROBLEM,
                            "the name of topic number %llu is lost (it was made after the last "
                            "backup): its records are in the topic recovered-%llu",
                            (unsigned long long)id, (unsigned long long)id);
        }
        return LS_OK;
}

static ls_err
object_commit(struct rebuild *r, const struct rebuild_object *o, struct ls_meta_wal_batch *batches,
              size_t count)
{
        struct ls_meta_wal_commit commit = { .sequence = o->sequence,
                                             .segment = o->segment,
                                             .pos = o->pos,
                                             .bytes = o->bytes,
                                             .batches = batches,
                                             .batch_count = count };

        LS_TRY(object_streams(r, batches, count));
        LS_TRY(ls_meta_rebuild_wal(r->meta, o->broker, o->epoch, &commit));
        r->report.objects_committed++;
        for (size_t i = 0; i < count; i++) {
                if (batches[i].outcome == LS_OK)
                        r->report.records += (uint64_t)batches[i].entry.records;
                else if (batches[i].outcome != LS_DUPLICATE)
                        r->report.batches_refused++;
        }
        return LS_OK;
}

/* Whether the backup has it already. Of another broker id's only what was sealed after the backup
 * is sure to be missing. */
static bool
object_known(struct rebuild *r, const struct rebuild_object *o, uint64_t backup_commit)
{
        uint64_t epoch, sequence;

        if (o->broker != r->broker)
                return o->last_commit < backup_commit;
        ls_meta_watermark(r->meta, &epoch, &sequence);
        return o->epoch < epoch || (o->epoch == epoch && o->sequence < sequence);
}

static ls_err
commit_wal(struct rebuild *r, uint64_t backup_commit)
{
        for (size_t i = 0; i < r->object_count; i++) {
                const struct rebuild_object *o = &r->objects[i];
                struct ls_meta_wal_batch *batches = NULL;
                struct ls_slice *bytes = NULL;
                size_t count = 0;
                ls_err e;

                if (object_known(r, o, backup_commit))
                        continue;
                e = object_read(r, o, &bytes);
                if (e == LS_OK)
                        e = object_batches(o, ls_slice_span(bytes), &batches, &count);
                if (e == LS_OK)
                        e = object_commit(r, o, batches, count);
                ls_free(batches);
                ls_slice_unref(bytes);
                LS_TRY(e);
        }
        return LS_OK;
}

/* --- the end --- */

static void
check_finding(void *ctx, const char *finding)
{
        rebuild_say(ctx, LS_DOCTOR_PROBLEM, "metadata: %s", finding);
}

/* Index rows of what tables hold, so that the WAL files behind them may be missing. */
static ls_err
purge(struct rebuild *r)
{
        size_t deleted;

        do {
                LS_TRY(ls_meta_wal_purge(r->meta, 1000, &deleted));
        } while (deleted > 0);
        return LS_OK;
}

static ls_err
keep_old(const char *db, const char *suffix, int64_t now_ms)
{
        LS_AUTO(ls_free) char *from = ls_format("%s%s", db, suffix);
        LS_AUTO(ls_free) char *to = ls_format("%s.damaged-%lld%s", db, (long long)now_ms, suffix);
        ls_err e = ls_file_rename(from, to);

        return e == LS_ABSENT ? LS_OK : e;
}

/* The new database in its place. The old one's log goes first: SQLite would apply it to the new
 * one. */
static ls_err
put_in_place(struct rebuild *r)
{
        LS_AUTO(ls_free) char *folder = ls_format("%s/meta", r->dir);
        LS_AUTO(ls_free) char *db = ls_format("%s/lakestream.db", folder);
        int64_t now_ms = ls_clock_wall_ms();
        struct ls_file *file = NULL;

        LS_TRY(ls_file_open(r->path, LS_FILE_WRITE, &file));
        {
                ls_err e = ls_file_sync_all(file);

                ls_file_close(file);
                LS_TRY(e);
        }
        LS_TRY(keep_old(db, "-wal", now_ms));
        LS_TRY(keep_old(db, "-shm", now_ms));
        LS_TRY(keep_old(db, "", now_ms));
        LS_TRY(ls_dir_sync(folder));
        LS_TRY(ls_file_rename(r->path, db));
        return ls_dir_sync(folder);
}

static ls_err
finish(struct rebuild *r)
{
        LS_TRY(purge(r));
        /* Last: it makes all that is there count as committed. */
        r->witness.epoch = LS_MAX(r->witness.epoch, ls_meta_broker_epoch(r->meta));
        r->witness.broker = r->broker;
        LS_TRY(ls_meta_rebuild_witness(r->meta, &r->witness));
        LS_TRY(ls_meta_check(r->meta, check_finding, r));
        ls_meta_close(r->meta);
        r->meta = NULL;
        return put_in_place(r);
}

static ls_err
run(struct rebuild *r, struct ls_errinfo *reterr)
{
        uint64_t backup_commit = 0;
        ls_err e;

        LS_TRY(walk_wal(r, reterr));
        if (!r->force && database_is_whole(r))
                return ls_fail(reterr, LS_EXISTS,
                               "the metadata database is whole: there is nothing to rebuild. "
                               "--force makes it again from its backup all the same, and group "
                               "offsets fall back to that");
        LS_TRY(begin(r, reterr));
        e = ls_meta_commit_number(r->meta, &backup_commit);
        if (e == LS_OK)
                e = ls_meta_stream_list(r->meta, stream_note, r);
        if (e == LS_OK)
                e = rebuild_tables_find(r);
        if (e == LS_OK)
                e = commit_wal(r, backup_commit);
        if (e == LS_OK)
                e = rebuild_tables_adopt(r);
        if (e == LS_OK)
                e = finish(r);
        if (e != LS_OK && reterr->text[0] == '\0')
                ls_fail(reterr, e, "the rebuild stopped, nothing was changed: %s", ls_err_text(e));
        return e;
}

static ls_err
open_all(struct rebuild *r, struct ls_file **ret_lock, struct ls_errinfo *reterr)
{
        const char *dir = ls_option_text(r->options, LS_OPT_DATA_DIR);
        ls_err e = ls_path_absolute(dir, &r->dir);

        if (e == LS_OK) {
                LS_AUTO(ls_free) char *lock = ls_format("%s/LOCK", r->dir);

                e = ls_file_lock(lock, ret_lock);
        }
        if (e != LS_OK)
                return ls_fail(reterr, e, "cannot open %s: %s", dir, ls_err_text(e));
        {
                LS_AUTO(ls_free) char *folder = ls_format("%s/meta", r->dir);
                LS_AUTO(ls_free) char *store = ls_format("%s/store", r->dir);

                r->path = ls_format("%s/rebuild.db", folder);
                e = ls_dir_make(folder);
                if (e != LS_OK)
                        return ls_fail(reterr, e, "%s: %s", folder, ls_err_text(e));
                return ls_store_open(r->options, store, &r->store, reterr);
        }
}

ls_err
ls_doctor_rebuild(const struct ls_options *options, bool force,
                  void (*fn)(void *ctx, enum ls_doctor_level level, const char *line), void *ctx,
                  struct ls_doctor_rebuilt *ret_report, struct ls_errinfo *reterr)
{
        struct rebuild r = { .options = options,
                             .force = force,
                             .fn = fn,
                             .ctx = ctx,
                             .broker = (int32_t)ls_option_int(options, LS_OPT_BROKER_ID),
                             .witness.producer_id = -1 };
        struct ls_file *lock = NULL;
        ls_err e;

        reterr->text[0] = '\0';
        e = open_all(&r, &lock, reterr);
        if (e == LS_OK)
                e = run(&r, reterr);
        if (r.meta != NULL)
                ls_meta_close(r.meta);
        if (r.store != NULL)
                ls_store_close(r.store);
        ls_file_close(lock);
        ls_free(r.objects);
        ls_free(r.streams);
        ls_free(r.gone);
        ls_free(r.path);
        ls_free(r.dir);
        *ret_report = r.report;
        return e;
}
