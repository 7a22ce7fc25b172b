/* lake/compact.c - WAL entries become data files and extents: a change, committed by table.c.
 *
 * A run takes [floor, stable) of every partition as it stood when it began, partition after
 * partition, offsets ascending, into one open data file (a new one at table.target.file.bytes).
 * Each run of rows of a partition in a file becomes an extent. After COMPACT_COMMIT_BYTES it
 * commits and goes on, so that a large backlog does not need its size in memory or in one commit.
 *
 * A partitioned table's rows go to one file a partition tuple instead: split.h.
 *
 * Several brokers. A run begins with what all of them have committed; when another one compacts the
 * same offsets meanwhile, the floor has moved, and this run begins again from there.
 *
 * A partition whose WAL is damaged is compacted up to the damage and then left alone, so that it
 * does not stop the others; the log names the range.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "formats/batch/batch.h"
#include "lake/lake_int.h"
#include "lake/rows.h"
#include "lake/shape.h"
#include "lake/split.h"

#define COMPACT_COMMIT_BYTES ((uint64_t)1 << 30) /* record bytes of one commit */
#define COMPACT_RETRIES_MAX  4                   /* at once; then the run is tried again later */
#define COMPACT_RETRY_MS     ((int64_t)10)
#define COMPACT_READ_BYTES   ((size_t)4 << 20)

static LS_METRIC(metric_records, COUNTER, "lakestream_table_records_total",
                 "Records written to tables.");
static LS_METRIC(metric_bytes, COUNTER, "lakestream_table_bytes_total",
                 "Bytes of record batches compacted.");
static LS_METRIC(metric_files, COUNTER, "lakestream_table_files_total", "Data files written.");
static LS_METRIC_SECONDS(metric_run, "lakestream_table_compaction_seconds",
                         "Time of a compaction, commit included.");
static LS_METRIC_SECONDS(
        metric_fresh, "lakestream_table_freshness_seconds",
        "Time from acknowledgement of the oldest record of a table commit to the commit.");

struct target {
        int32_t partition;
        int64_t from, to;
        int64_t begun; /* where this change began */
};

struct compaction {
        struct ls_lake_stream *s;
        struct ls_lake_spec spec;
        struct target *targets; /* what is left to do */
        size_t target_count, target_cap, at;
        struct lake_change change;
        struct ls_arena arena; /* the partition spec */
        struct ls_iceberg_spec partitioning;
        struct lake_split *split;      /* NULL: unpartitioned */
        struct ls_rows_writer *writer; /* unpartitioned: of the open file, the change's last */
        bool full;                     /* partitioned: this change takes no more tuples */
        uint64_t record_bytes;         /* of this change */
        int64_t records, oldest_ms;
        int64_t deadline_ms; /* monotonic: then it commits what it has and ends */
        bool damaged;
};

static bool
is_late(const struct compaction *c)
{
        return c->deadline_ms != INT64_MAX && ls_clock_monotonic_ms() >= c->deadline_ms;
}

/* --- files --- */

/* Names carry the broker's epoch, so that a sweep knows whose garbage it may be; the rest is
 * random. */
ls_err
lake_file_open(struct ls_lake_stream *s, const struct ls_lake_spec *spec,
               struct lake_change *change, uint64_t group_bytes)
{
        struct lake_new_file file = { 0 };
        struct ls_rows_writer_options options = { .store = s->lake->o.store,
                                                  .stream_id = spec->stream_id,
                                                  .topic_id = spec->topic_id,
                                                  .row_group_bytes = group_bytes,
                                                  .compression = lake_compression(spec) };
        uint64_t random;
        ls_err e;

        ls_random(&random, sizeof random);
        file.key = lake_key(spec, "data/%llu-%016llx-%05zu.parquet",
                            (unsigned long long)ls_meta_broker_epoch(s->lake->o.meta),
                            (unsigned long long)random, change->file_count);
        options.key = file.key;
        e = ls_rows_writer_new(&options, &file.writer);
        if (e != LS_OK) {
                ls_free(file.key);
                return e;
        }
        LS_PUSH(change->files, change->file_count, change->file_cap, file);
        return LS_OK;
}

/* Makes the open files durable. */
static ls_err
files_finish(struct compaction *c)
{
        if (c->split != NULL)
                return lake_split_finish(c->split);
        if (c->writer == NULL)
                return LS_OK;
        LS_TRY(ls_rows_writer_finish(c->writer, &c->change.files[c->change.file_count - 1].info));
        c->writer = NULL;
        return LS_OK;
}

/* --- rows --- */

/* A batch to the one open file. */
static ls_err
add_whole(struct compaction *c, const struct target *t, ls_span batch, bool append_time)
{
        uint64_t target = (uint64_t)c->spec.settings->ints[LS_SET_TABLE_TARGET_FILE_BYTES];

        if (c->writer != NULL && ls_rows_writer_file_bytes(c->writer) >= target)
                LS_TRY(files_finish(c));
        if (c->writer == NULL) {
                LS_TRY(lake_file_open(c->s, &c->spec, &c->change, 0));
                c->writer = c->change.files[c->change.file_count - 1].writer;
        }
        return ls_rows_writer_add(c->writer, t->partition, batch, t->from, t->to, batch.len,
                                  append_time, NULL, NULL);
}

/* Adds batches; *io_next is behind what was added. LS_FULL: this change takes no more. LS_CORRUPT:
 * a batch does not decode, a part of it may be in a file. */
static ls_err
add_batches(struct compaction *c, const struct target *t, ls_span bytes, int64_t *io_next)
{
        struct ls_batch_header header;
        ls_span batch;
        ls_err e;

        while ((e = ls_batch_next(&bytes, &batch, &header)) == LS_OK) {
                bool append_time = (header.attributes & LS_BATCH_LOG_APPEND_TIME) != 0;

                if (c->split != NULL)
                        e = lake_split_add(c->split, batch, t->from, t->to, append_time, io_next);
                else
                        e = add_whole(c, t, batch, append_time);
                if (e != LS_OK)
                        return e > 0 && e != LS_FULL ? LS_CORRUPT : e;
                c->record_bytes += batch.len;
                *io_next = LS_MIN(header.base_offset + header.last_offset_delta + 1, t->to);
        }
        return e == LS_END ? LS_OK : LS_CORRUPT;
}

/* Takes a partition up to its target, or to where this commit is large enough: *ret_done is the
 * next offset. */
static ls_err
take_partition(struct compaction *c, const struct target *t, int64_t *ret_done)
{
        int64_t offset = t->from;
        ls_err e = LS_OK;

        while (offset < t->to && e == LS_OK && c->record_bytes < COMPACT_COMMIT_BYTES &&
               !is_late(c)) {
                struct ls_wal_read r = { .offset = offset,
                                         .bytes_max = COMPACT_READ_BYTES,
                                         .min_one = true,
                                         .may_block = true,
                                         .offset_end = t->to };

                if (lake_stopping(c->s->lake) || atomic_load(&c->s->gone))
                        return LS_ESHUTDOWN;
                lake_lease_keep(c->s);
                e = ls_wal_read(c->s->wal, t->partition, &r);
                for (size_t i = 0; i < r.slice_count && e == LS_OK; i++)
                        e = add_batches(c, t, ls_slice_span(r.slices[i]), &offset);
                if (e == LS_OK && (r.slice_count == 0 || offset != r.next_offset))
                        e = LS_EBROKEN; /* the index and the batches do not agree */
                ls_wal_read_done(&r);
        }
        *ret_done = offset;
        return e;
}

/* --- the change --- */

static void
add_floor(struct compaction *c, int32_t partition, int64_t from, int64_t floor)
{
        struct ls_meta_floor f = { partition, floor };

        LS_PUSH(c->change.floors, c->change.floor_count, c->change.floor_cap, f);
        LS_PUSH(c->change.floors_from, c->change.floor_from_count, c->change.floor_from_cap, from);
}

/* Runs of rows become extents; neighbours meet, so that every offset is covered. */
static void
add_extents(struct compaction *c)
{
        struct lake_change *change = &c->change;
        size_t total = 0, n = 0;

        for (size_t i = 0; i < change->file_count; i++)
                total += change->files[i].info->run_count;
        change->add_extents = ls_calloc(total, sizeof *change->add_extents);
        change->file_is_new = ls_calloc(total, sizeof *change->file_is_new);
        for (size_t i = 0; i < change->file_count; i++) {
                const struct ls_rows_file *file = change->files[i].info;

                for (size_t k = 0; k < file->run_count; k++) {
                        const struct ls_rows_run *run = &file->runs[k];

                        change->file_is_new[n] = true;
                        change->add_extents[n++] = (struct ls_meta_extent){
                                .partition = run->partition,
                                .kind = LS_META_EXTENT_PARQUET,
                                .base_offset = run->base_offset,
                                .end_offset = run->end_offset,
                                .file_id = i + 1,
                                .first_row = run->first_row,
                                .rows = run->rows,
                                .min_timestamp = run->min_timestamp,
                                .max_timestamp = run->max_timestamp,
                                .hash = run->hash,
                                .log_bytes = run->log_bytes,
                                .flags = run->log_append_time ? LS_META_BATCH_LOG_APPEND_TIME : 0,
                        };
                        c->records += run->rows;
                }
        }
        change->add_extent_count = n;
}

static void
change_reset(struct compaction *c)
{
        struct lake_change *change = &c->change;

        for (size_t i = 0; i < change->file_count; i++) {
                ls_rows_writer_free(change->files[i].writer);
                ls_free(change->files[i].key);
        }
        ls_free(change->files);
        ls_free(change->add_extents);
        ls_free(change->file_is_new);
        ls_free(change->floors);
        ls_free(change->floors_from);
        *change = (struct lake_change){ .operation = "append" };
        c->writer = NULL;
        c->record_bytes = 0;
        c->records = 0;
        c->full = false;
        if (c->split != NULL)
                lake_split_reset(c->split);
}

/* What a run that fails before its commit has uploaded is garbage at once; if even that can't be
 * noted, the sweep of a later epoch finds it. */
static void
change_abandon(struct compaction *c)
{
        const char **keys = ls_calloc(c->change.file_count, sizeof *keys);
        size_t count = 0;

        for (size_t i = 0; i < c->change.file_count; i++) {
                if (c->change.files[i].info != NULL)
                        keys[count++] = c->change.files[i].key;
        }
        if (count > 0 &&
            ls_meta_garbage_add(c->s->lake->o.meta, keys, count, lake_now_ms(c->s->lake)) != LS_OK)
                ls_log_warn("lake", "event=garbage_not_noted topic=%s files=%zu",
                            c->spec.kafka_name, count);
        ls_free(keys);
}

/* The views follow the commit: what is below the floor is read from files from now on. */
static ls_err
apply_floor(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct ls_lake_stream *s = ctx;

        ls_wal_set_floor(s->wal, partition, p->floor, p->floor_hash);
        return LS_OK;
}

static ls_err
follow_commit(struct compaction *c)
{
        /* The views may not even know the records that others compacted. */
        if (c->s->lake->o.shared)
                return lake_refresh(c->s);
        return ls_meta_partitions(c->s->lake->o.meta, c->spec.stream_id, apply_floor, c->s);
}

static ls_err
change_commit(struct compaction *c)
{
        if (c->change.floor_count == 0)
                return LS_OK;
        add_extents(c);
        c->change.as_of_ms = c->oldest_ms;
        LS_TRY(lake_table_commit(c->s, &c->change));
        atomic_store(&c->s->lake->purge_wanted, true);
        LS_TRY(follow_commit(c));
        ls_metric_add(&metric_files, (int64_t)c->change.file_count);
        ls_metric_add(&metric_records, c->records);
        ls_metric_add(&metric_bytes, (int64_t)c->record_bytes);
        if (c->oldest_ms > 0) {
                int64_t ms = ls_clock_wall_ms() - c->oldest_ms;

                ls_metric_observe(&metric_fresh, LS_MAX(ms, 0) * 1000000);
                lake_fresh_note(c->s, ms);
        }
        return LS_OK;
}

/* --- a run --- */

static ls_err
plan_targets(struct compaction *c)
{
        for (int32_t p = 0; p < c->spec.partitions; p++) {
                struct ls_wal_view view;
                struct target t;
                ls_err e = ls_wal_view(c->s->wal, p, &view);

                if (e == LS_ABSENT)
                        return LS_CANCELED;
                LS_TRY(e);
                if (view.floor >= view.stable)
                        continue;
                t = (struct target){ p, view.floor, view.stable, view.floor };
                LS_PUSH(c->targets, c->target_count, c->target_cap, t);
                if (view.oldest_ms > 0 && (c->oldest_ms == 0 || view.oldest_ms < c->oldest_ms))
                        c->oldest_ms = view.oldest_ms;
        }
        return LS_OK;
}

/* A partition that cannot be taken further than `done`: the log says so, the others go on. */
static void
block_partition(struct compaction *c, struct target *t, int64_t done)
{
        ls_log_error(
                "lake",
                "event=compaction_blocked topic=%s partition=%d offset=%lld the WAL is damaged "
                "there; run `lakestream doctor`",
                c->spec.kafka_name, t->partition, (long long)done);
        c->damaged = true;
        t->to = done;
}

/* The WAL did not give what the plan was made for. LS_CONFLICT: another broker compacted it
 * meanwhile, and it may be deleted already; else as it was. */
static ls_err
overtaken(struct compaction *c, const struct target *t, ls_err e)
{
        struct ls_wal_view view;

        if (!c->s->lake->o.shared || (e != LS_EBROKEN && e != LS_END && e != LS_ABSENT))
                return e;
        LS_TRY(lake_refresh(c->s));
        if (ls_wal_view(c->s->wal, t->partition, &view) != LS_OK)
                return LS_CANCELED;
        return view.floor != t->begun ? LS_CONFLICT : LS_EBROKEN;
}

/* One partition into the change. LS_CORRUPT: begin the change again, without the batch that does
 * not decode. */
static ls_err
take_target(struct compaction *c, struct target *t)
{
        int64_t done = t->from;
        ls_err e;

        if (c->split != NULL)
                lake_split_begin(c->split, t->partition, t->from);
        e = overtaken(c, t, take_partition(c, t, &done));
        if (e == LS_EBROKEN || e == LS_CORRUPT)
                block_partition(c, t, done);
        else if (e == LS_FULL)
                c->full = true;
        else if (e != LS_OK)
                return e;
        if (e == LS_CORRUPT)
                return e;
        if (c->split != NULL)
                lake_split_end(c->split, done);
        if (done > t->from)
                add_floor(c, t->partition, t->begun, done);
        t->from = done;
        return LS_OK;
}

/* One change: as many partitions as fit. */
static ls_err
take_some(struct compaction *c)
{
        for (size_t i = c->at; i < c->target_count; i++)
                c->targets[i].begun = c->targets[i].from;
        while (c->at < c->target_count && !c->full && c->record_bytes < COMPACT_COMMIT_BYTES &&
               !is_late(c)) {
                struct target *t = &c->targets[c->at];

                LS_TRY(take_target(c, t));
                if (t->from == t->to)
                        c->at++;
        }
        return LS_OK;
}

/* Makes one change and commits it. */
static ls_err
compact_some(struct compaction *c)
{
        size_t first = c->at;
        ls_err e = take_some(c);

        if (e == LS_OK)
                e = files_finish(c);
        if (e == LS_OK)
                e = change_commit(c); /* on failure it sees to the files itself */
        else
                change_abandon(c);
        if (e == LS_CORRUPT) { /* a partition was blocked: the same again, with less of it */
                e = LS_OK;
                c->at = first;
                for (size_t i = first; i < c->target_count; i++)
                        c->targets[i].from = c->targets[i].begun;
                while (c->at < c->target_count && c->targets[c->at].from == c->targets[c->at].to)
                        c->at++;
        }
        change_reset(c);
        return e;
}

static ls_err
compact_open(struct compaction *c)
{
        LS_TRY(lake_refresh(c->s));
        LS_TRY(plan_targets(c));
        if (c->target_count == 0)
                return LS_OK;
        LS_TRY(lake_shape_parse(c->spec.settings->texts[LS_SET_TABLE_PARTITION_BY], &c->arena,
                                &c->partitioning, NULL));
        if (c->partitioning.field_count == 0)
                return LS_OK;
        return lake_split_new(c->s, &c->spec, &c->partitioning, &c->change, &c->split);
}

static ls_err
compact_once(struct ls_lake_stream *s, int64_t deadline_ms)
{
        struct compaction c = { .s = s,
                                .spec = lake_spec(s),
                                .change = { .operation = "append" },
                                .deadline_ms = deadline_ms };
        int64_t started = ls_clock_monotonic_ns();
        ls_err e;

        ls_arena_init(&c.arena, (size_t)1 << 20);
        e = compact_open(&c);
        while (e == LS_OK && c.at < c.target_count && !is_late(&c))
                e = compact_some(&c);
        if (e == LS_OK && c.target_count > 0)
                ls_metric_observe(&metric_run, ls_clock_monotonic_ns() - started);
        change_reset(&c);
        lake_split_free(c.split);
        ls_arena_done(&c.arena);
        ls_free(c.targets);
        return e == LS_OK && c.damaged ? LS_EBROKEN : e;
}

/* Answers of a store, or of another process, after which the same may well succeed. Nothing was
 * published; names are new each time, so what a lost reply left behind is garbage, not in the way.
 */
static bool
is_passing(ls_err e)
{
        return e == LS_CONFLICT || e == LS_THROTTLED || e == LS_UNKNOWN_OUTCOME || e == LS_BUSY;
}

ls_err
lake_compact(struct ls_lake_stream *s, int64_t deadline_ms)
{
        ls_err e = compact_once(s, deadline_ms);

        for (int tries = 0; is_passing(e) && tries < COMPACT_RETRIES_MAX; tries++) {
                int64_t until = ls_clock_monotonic_ms() + (COMPACT_RETRY_MS << tries);

                if (until >= deadline_ms || lake_stopping(s->lake))
                        break;
                pthread_mutex_lock(&s->lock);
                while (ls_cond_wait_until(&s->changed, &s->lock, until))
                        ;
                pthread_mutex_unlock(&s->lock);
                e = compact_once(s, deadline_ms);
        }
        return e;
}
