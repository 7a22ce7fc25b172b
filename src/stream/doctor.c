/* stream/doctor.c - see doctor.h. */
#include "stream/doctor.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "formats/batch/batch.h"
#include "lake/rows.h"
#include "meta/meta.h"
#include "store/store.h"
#include "stream/doctor_int.h"
#include "sys/file.h"
#include "wal/segment.h"

struct doctor {
        char *dir;
        bool deep;
        void (*fn)(void *ctx, enum ls_doctor_level level, const char *line);
        void *ctx;
        struct ls_doctor_report report;
        struct ls_file *lock;
        struct ls_meta *meta;
        struct ls_store *store;
        /* the segment that was read last */
        struct ls_file *segment;
        uint64_t segment_number;
        /* the stream that is looked at */
        const struct ls_meta_stream *stream;
        int32_t partition;
        /* a run of damaged offsets that is still growing */
        bool bad;
        int32_t bad_partition;
        int64_t bad_from, bad_to;
        char bad_why[160];
};

static void
say(struct doctor *d, enum ls_doctor_level level, const char *format, ...)
{
        char line[1024];
        va_list ap;

        va_start(ap, format);
        vsnprintf(line, sizeof line, format, ap);
        va_end(ap);
        if (level == LS_DOCTOR_PROBLEM)
                d->report.problems++;
        d->fn(d->ctx, level, line);
}

/* --- metadata --- */

static void
meta_finding(void *ctx, const char *finding)
{
        say(ctx, LS_DOCTOR_PROBLEM, "metadata: %s", finding);
}

/* --- WAL --- */

static ls_err
segment_open(struct doctor *d, uint64_t number)
{
        LS_AUTO(ls_free) char *path = NULL;

        if (d->segment != NULL && d->segment_number == number)
                return LS_OK;
        ls_file_close(d->segment);
        d->segment = NULL;
        path = ls_format("%s/wal/%020llu.wal", d->dir, (unsigned long long)number);
        LS_TRY(ls_file_open(path, LS_FILE_READ, &d->segment));
        d->segment_number = number;
        return LS_OK;
}

/* NULL: the batch is whole; else what is wrong with it. */
static const char *
entry_damage(struct doctor *d, const struct ls_meta_entry *e)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        struct ls_batch_header header;
        ls_err err = segment_open(d, e->segment);

        if (err == LS_ABSENT)
                return "its segment file is gone";
        if (err != LS_OK)
                return "its segment file cannot be opened";
        bytes = ls_slice_new(e->bytes);
        if (bytes == NULL)
                return "there is no memory to read it";
        err = ls_file_read(d->segment, e->pos, bytes->ptr, bytes->len);
        if (err == LS_END)
                return "its segment file is too short";
        if (err != LS_OK)
                return "its segment file cannot be read";
        if (ls_batch_peek(ls_slice_span(bytes), &header) != LS_OK || header.bytes != e->bytes ||
            ls_batch_check_crc(ls_slice_span(bytes)) != LS_OK)
                return "its checksum does not match";
        return NULL;
}

static void
bad_flush(struct doctor *d)
{
        if (!d->bad)
                return;
        say(d, LS_DOCTOR_PROBLEM,
            "topic %s partition %d offsets %lld to %lld are damaged in the WAL: %s. Everything "
            "else is served; restore "
            "the segment file from a copy, or move the log start past the range with Kafka's "
            "DeleteRecords",
            d->stream->kafka_name, d->bad_partition, (long long)d->bad_from,
            (long long)d->bad_to - 1, d->bad_why);
        d->bad = false;
}

static ls_err
check_entry(void *ctx, const struct ls_meta_entry *e)
{
        struct doctor *d = ctx;
        const char *damage = entry_damage(d, e);
        char why[sizeof d->bad_why];

        d->report.batches++;
        if (damage == NULL)
                return LS_OK;
        d->report.batches_damaged++;
        snprintf(why, sizeof why, "segment %llu, position %llu: %s", (unsigned long long)e->segment,
                 (unsigned long long)e->pos, damage);
        if (d->bad && d->bad_partition == e->partition && d->bad_to == e->base_offset) {
                d->bad_to = e->base_offset + e->records;
                return LS_OK;
        }
        bad_flush(d);
        d->bad = true;
        d->bad_partition = e->partition;
        d->bad_from = e->base_offset;
        d->bad_to = e->base_offset + e->records;
        memcpy(d->bad_why, why, sizeof why);
        return LS_OK;
}

struct named {
        uint64_t *numbers;
        size_t count, cap;
};

static ls_err
named_add(void *ctx, uint64_t segment)
{
        struct named *n = ctx;

        LS_PUSH(n->numbers, n->count, n->cap, segment);
        return LS_OK;
}

struct segment_walk {
        struct doctor *d;
        struct named named;
};

static ls_err
check_segment_file(void *ctx, const struct ls_dir_entry *entry)
{
        struct segment_walk *walk = ctx;
        int64_t number;

        if (strlen(entry->name) != 24 || strcmp(entry->name + 20, ".wal") != 0 ||
            !ls_str_to_i64(ls_str_make(entry->name, 20), 0, INT64_MAX, &number))
                return LS_OK;
        walk->d->report.segments++;
        for (size_t i = 0; i < walk->named.count; i++) {
                if (walk->named.numbers[i] == (uint64_t)number)
                        return LS_OK;
        }
        walk->d->report.segments_unnamed++;
        return LS_OK;
}

static ls_err
check_segments(struct doctor *d)
{
        LS_AUTO(ls_free) char *wal = ls_format("%s/wal", d->dir);
        struct segment_walk walk = { .d = d };
        ls_err e = ls_meta_wal_segments(d->meta, named_add, &walk.named);

        if (e == LS_OK)
                e = ls_dir_walk(wal, check_segment_file, &walk);
        ls_free(walk.named.numbers);
        return e == LS_ABSENT ? LS_OK : e; /* no log was begun since a rebuild */
}

/* --- tables --- */

static void
file_problem(struct doctor *d, const struct ls_meta_extent *e, const char *key, const char *why)
{
        say(d, LS_DOCTOR_PROBLEM,
            "topic %s partition %d offsets %lld to %lld: table file %s %s. Consumers get an error "
            "for this range, "
            "engines for this file; restore it from a copy",
            d->stream->kafka_name, e->partition, (long long)e->base_offset,
            (long long)e->end_offset - 1, key, why);
}

static ls_err
check_extent(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        struct doctor *d = ctx;
        struct ls_rows_reader *reader = NULL;
        struct ls_store_info info;
        int64_t rows = 0;
        uint64_t hash = 0;
        ls_err err;

        if (e->kind != LS_META_EXTENT_PARQUET || file == NULL)
                return LS_OK;
        d->report.files++;
        err = ls_store_head(d->store, file->key, &info);
        if (err == LS_OK && info.bytes == file->bytes)
                err = ls_rows_reader_open(d->store, file->key, file->bytes, &reader);
        else if (err == LS_OK)
                err = LS_CORRUPT;
        if (err == LS_OK && d->deep) {
                err = ls_rows_verify(reader, e, &rows, &hash);
                if (err == LS_OK && (rows != e->rows || hash != e->hash))
                        err = LS_CORRUPT;
        }
        ls_rows_reader_close(reader);
        if (err != LS_OK) {
                d->report.files_damaged++;
                file_problem(d, e, file->key,
                             err == LS_ABSENT ? "is gone"
                             : err > 0        ? "is damaged"
                                              : "cannot be read");
        }
        return LS_OK;
}

/* --- all --- */

static void
table_finding(void *ctx, const char *line)
{
        say(ctx, LS_DOCTOR_PROBLEM, "%s", line);
}

/* Index rows that do not decode end the look at a topic's WAL, not at the others. */
static ls_err
check_entries(struct doctor *d)
{
        ls_err e = ls_meta_entries(d->meta, d->stream->id, check_entry, d);

        bad_flush(d);
        if (e <= 0)
                return e;
        say(d, LS_DOCTOR_PROBLEM,
            "topic %s: its index in the metadata database is damaged: run `lakestream doctor "
            "rebuild`",
            d->stream->kafka_name);
        return LS_OK;
}

static ls_err
check_stream(void *ctx, const struct ls_meta_stream *stream)
{
        struct doctor *d = ctx;

        d->stream = stream;
        d->report.streams++;
        d->report.partitions += (uint64_t)stream->partitions;
        LS_TRY(check_entries(d));
        for (d->partition = 0; d->partition < stream->partitions; d->partition++)
                LS_TRY(ls_meta_extents(d->meta, stream->id, d->partition, 0, INT64_MAX, SIZE_MAX,
                                       check_extent, d));
        return doctor_table(d->meta, d->store, stream, table_finding, d);
}

static ls_err
data_file(void *ctx, const struct ls_dir_entry *entry)
{
        /* more than a segment's header */
        if (strlen(entry->name) == 24 && strcmp(entry->name + 20, ".wal") == 0 &&
            entry->bytes > LS_SEGMENT_HEADER_BYTES)
                return LS_EXISTS;
        return LS_OK;
}

static ls_err
data_folder(void *ctx, const struct ls_dir_entry *entry)
{
        return LS_EXISTS;
}

bool
ls_doctor_has_data(const char *dir)
{
        LS_AUTO(ls_free) char *wal = ls_format("%s/wal", dir);
        LS_AUTO(ls_free) char *tables = ls_format("%s/store/tables", dir);

        return ls_dir_walk(wal, data_file, NULL) == LS_EXISTS ||
               ls_dir_walk(tables, data_folder, NULL) == LS_EXISTS;
}

void
ls_doctor_hint(const char *dir, ls_err e, struct ls_errinfo *io_info)
{
        struct ls_errinfo inner;

        if (io_info == NULL || (e != LS_EBROKEN && e != LS_EDB))
                return;
        inner = *io_info;
        ls_fail(io_info, e, "%.350s. A damaged database: run `lakestream doctor rebuild %.100s`",
                inner.text, dir);
}

static void
doctor_lost(void *ctx, const char *why)
{
        say(ctx, LS_DOCTOR_PROBLEM, "metadata: the database failed: %s", why);
}

static ls_err
doctor_open(struct doctor *d, const struct ls_options *options, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *lock = ls_format("%s/LOCK", d->dir);
        LS_AUTO(ls_free) char *db = ls_format("%s/meta/lakestream.db", d->dir);
        LS_AUTO(ls_free) char *store = ls_format("%s/store", d->dir);
        struct ls_meta_options meta = { .sqlite_path = db,
                                        .sync_full = true,
                                        .broker_id =
                                                (int32_t)ls_option_int(options, LS_OPT_BROKER_ID),
                                        .on_lost = doctor_lost,
                                        .on_lost_ctx = d,
                                        .producer_expiry_ms =
                                                ls_option_int(options, LS_OPT_PRODUCER_EXPIRY) };
        struct ls_file *probe = NULL;
        ls_err e = ls_file_open(db, LS_FILE_READ, &probe);

        ls_file_close(probe);
        if (e == LS_ABSENT && ls_doctor_has_data(d->dir))
                return ls_fail(reterr, LS_EBROKEN,
                               "the metadata database %s is gone, the records are still there: run "
                               "`lakestream doctor rebuild %s`",
                               db, d->dir);
        if (e == LS_ABSENT)
                return ls_fail(reterr, e,
                               "%s is not a data folder of lakestream: there is no "
                               "meta/lakestream.db in it",
                               d->dir);
        if (e == LS_OK)
                e = ls_file_lock(lock, &d->lock);
        if (e == LS_BUSY)
                return ls_fail(reterr, e,
                               "%s is in use by a running server: stop it first, or ask it with "
                               "`lakestream "
                               "table verify`",
                               d->dir);
        if (e != LS_OK)
                return ls_fail(reterr, e, "cannot open %s: %s", d->dir, ls_err_text(e));
        e = ls_meta_open(&meta, &d->meta, reterr);
        ls_doctor_hint(d->dir, e, reterr);
        LS_TRY(e);
        return ls_store_open(options, store, &d->store, reterr);
}

static ls_err
doctor_run(struct doctor *d, struct ls_errinfo *reterr)
{
        uint64_t space_free = 0, space_total = 0;
        ls_err e = ls_meta_check(d->meta, meta_finding, d);

        if (e == LS_OK)
                e = ls_meta_stream_list(d->meta, check_stream, d);
        if (e == LS_OK)
                e = check_segments(d);
        if (e != LS_OK)
                return ls_fail(reterr, e, "the check of %s stopped: %s", d->dir, ls_err_text(e));
        if (ls_disk_space(d->dir, &space_free, &space_total) == LS_OK &&
            space_free < space_total / 20)
                say(d, LS_DOCTOR_PROBLEM,
                    "the disk is nearly full: %llu MiB of %llu MiB are free; producers are refused "
                    "when it is full",
                    (unsigned long long)(space_free >> 20),
                    (unsigned long long)(space_total >> 20));
        say(d, LS_DOCTOR_INFO,
            "%llu topics with %llu partitions; %llu batches in the WAL, %llu of them damaged; %llu "
            "extents in table files, %llu of them damaged; %llu WAL segments, %llu of them named "
            "by "
            "nothing (deleted when no backup of the metadata needs them)",
            (unsigned long long)d->report.streams, (unsigned long long)d->report.partitions,
            (unsigned long long)d->report.batches, (unsigned long long)d->report.batches_damaged,
            (unsigned long long)d->report.files, (unsigned long long)d->report.files_damaged,
            (unsigned long long)d->report.segments, (unsigned long long)d->report.segments_unnamed);
        return LS_OK;
}

ls_err
ls_doctor_check(const struct ls_options *options, bool deep,
                void (*fn)(void *ctx, enum ls_doctor_level level, const char *line), void *ctx,
                struct ls_doctor_report *ret_report, struct ls_errinfo *reterr)
{
        struct doctor d = { .deep = deep, .fn = fn, .ctx = ctx };
        ls_err e = ls_path_absolute(ls_option_text(options, LS_OPT_DATA_DIR), &d.dir);

        if (e != LS_OK)
                ls_fail(reterr, e, "%s: %s", ls_option_text(options, LS_OPT_DATA_DIR),
                        ls_err_text(e));
        if (e == LS_OK)
                e = doctor_open(&d, options, reterr);
        if (e == LS_OK)
                e = doctor_run(&d, reterr);
        ls_file_close(d.segment);
        if (d.meta != NULL)
                ls_meta_close(d.meta);
        if (d.store != NULL)
                ls_store_close(d.store);
        ls_file_close(d.lock);
        ls_free(d.dir);
        *ret_report = d.report;
        return e;
}
