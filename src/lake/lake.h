/* lake/lake.h - streams as tables: compaction of the WAL into Parquet, Iceberg snapshots, reading
 * history back into record batches, retention, merging, expiry, garbage collection.
 *
 * One `struct ls_lake` a process with its own background threads (none with threads.lake 0, which
 * only tests set: ls_lake_run does all then); one refcounted `struct ls_lake_stream` a live stream.
 * Compaction reads WAL entries from the floor to the last stable offset, writes Parquet (rows.h)
 * sorted by partition and offset, then manifest, manifest list and metadata file, and publishes
 * with one metadata transaction (ls_meta_table_publish), then raises the floors of the WAL's views
 * (ls_wal_set_floor). Everything that a commit names is durable before it is named; whatever a
 * crash leaves behind is garbage that the sweep finds (invariants 3, 4, 8).
 *
 * Threads: any; all calls block unless noted. Keys in the store: tables/<topic id>/data/…,
 * …/metadata/….
 */
#pragma once
#include "base/options.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "catalog/settings.h"
#include "meta/meta.h"
#include "store/store.h"
#include "wal/wal.h"

struct ls_lake;
struct ls_lake_stream;

struct ls_lake_options {
        const struct ls_options *options; /* borrowed for life */
        struct ls_meta *meta;
        struct ls_store *store;
        struct ls_wal *wal;
        struct ls_jobs *history_jobs; /* read ahead of consumers of history; NULL: none does */
        /* Other brokers use this store and this metadata store too. Then background work is done
         * under leases, what others committed is looked up before it is built upon (loads,
         * versions, verification and history see it), objects that nothing names are deleted only
         * when no open epoch may still name them, and the WAL's objects are swept as well. false:
         * nobody else does. */
        bool shared;
};
LS_MUST_USE ls_err ls_lake_open(const struct ls_lake_options *options, struct ls_lake **ret_lake,
                                struct ls_errinfo *reterr);
/* Ends what runs at the next safe point and joins the threads. */
void ls_lake_close(struct ls_lake *lake);

/* What the lake knows of a stream; strings and settings are borrowed until the next
 * ls_lake_stream_update or the end of the stream (the stream layer keeps every version of its info
 * as long as the stream lives). */
struct ls_lake_spec {
        uint64_t stream_id;
        ls_uuid topic_id;
        const char *kafka_name, *catalog, *ns, *name;
        int32_t partitions;
        int32_t leader_epoch;
        int64_t created_ms;
        const struct ls_settings *settings;
};
/* Cheap: loads nothing yet. Takes its own reference of `wal`. The background threads see it from
 * now on. */
struct ls_lake_stream *ls_lake_stream_open(struct ls_lake *lake, const struct ls_lake_spec *spec,
                                           struct ls_wal_stream *wal);
struct ls_lake_stream *ls_lake_stream_ref(struct ls_lake_stream *s);
void ls_lake_stream_unref(struct ls_lake_stream *s);
/* The owner's unref: `release` is called with `ctx`, now or later and on any thread, when nothing
 * uses the strings and settings of any spec any more. */
void ls_lake_stream_leave(struct ls_lake_stream *s, void (*release)(void *ctx), void *ctx);
/* What settings.def cannot say of a stream's settings (table.partition.by). LS_INVALID with words.
 */
LS_MUST_USE ls_err ls_lake_settings_check(const struct ls_settings *settings,
                                          struct ls_errinfo *reterr);
/* Settings or partitions changed. Never blocks. */
void ls_lake_stream_update(struct ls_lake_stream *s, const struct ls_lake_spec *spec);
/* It was deleted: the background threads leave it alone. Never blocks. */
void ls_lake_stream_gone(struct ls_lake_stream *s);

/* --- tables --- */

struct ls_lake_table {
        char *metadata_key;
        struct ls_slice *metadata; /* JSON */
        uint64_t version;          /* of the table: the etag's base */
        bool fresh;
        int64_t behind_records;
};
void ls_lake_table_done(struct ls_lake_table *t);
/* The freshness barrier: see stream/table.h, ls_table_load. A table that was never committed is
 * given metadata without a snapshot (written once, so that metadata_key is real). */
LS_MUST_USE ls_err ls_lake_load(struct ls_lake_stream *s, int64_t deadline_ms,
                                struct ls_lake_table *ret, struct ls_errinfo *reterr);
/* The present version, without committing, and whether the tail is empty. */
LS_MUST_USE ls_err ls_lake_version(struct ls_lake_stream *s, uint64_t *ret_version,
                                   bool *ret_fresh);
/* As struct ls_table_verify in stream/table.h. */
struct ls_lake_verify {
        int64_t records_log, records_table;
        uint64_t hash_log, hash_table;
        int64_t files;
        bool equal;
        char first_difference[256];
};
LS_MUST_USE ls_err ls_lake_verify(struct ls_lake_stream *s, bool deep, struct ls_lake_verify *ret,
                                  struct ls_errinfo *reterr);
LS_MUST_USE ls_err ls_lake_files(struct ls_lake_stream *s,
                                 ls_err (*fn)(void *ctx, const struct ls_meta_file *file),
                                 void *ctx);

/* --- history --- */

struct ls_lake_read {
        int64_t offset;
        size_t bytes_max; /* of batches as served */
        bool min_one;     /* at least one record, whatever its size */
        /* results: the caller's to unref; whole batches, base offsets and leader epoch set */
        struct ls_slice **slices;
        size_t slice_count, slice_cap;
        size_t bytes;
        int64_t next_offset; /* where to go on; a hole before it is covered by the batches' last
                                offsets */
};
/* LS_OK (nothing, when even one record is above the budget and not min_one); LS_END: the offset is
 * at or above the floor (read the WAL); LS_EBROKEN: the offset lies in a damaged part of a file,
 * which is named in the log. Reading on where the last read of a partition ended is the fast path:
 * open readers are kept, bounded, and what comes next is read ahead. */
LS_MUST_USE ls_err ls_lake_read(struct ls_lake_stream *s, int32_t partition,
                                struct ls_lake_read *r);
void ls_lake_read_done(struct ls_lake_read *r);
/* In [from, floor): first offset with timestamp >= t; first offset with the greatest timestamp.
 * LS_ABSENT: none. */
LS_MUST_USE ls_err ls_lake_find_time(struct ls_lake_stream *s, int32_t partition, int64_t from,
                                     int64_t timestamp_ms, int64_t *ret_offset,
                                     int64_t *ret_timestamp_ms);
LS_MUST_USE ls_err ls_lake_find_max_time(struct ls_lake_stream *s, int32_t partition, int64_t from,
                                         int64_t *ret_offset, int64_t *ret_timestamp_ms);
/* Bytes as produced of [from, floor). */
LS_MUST_USE ls_err ls_lake_log_bytes(struct ls_lake_stream *s, int32_t partition, int64_t from,
                                     int64_t *ret_bytes);

/* Runs one round of all upkeep for all streams now (tests, admin). */
LS_MUST_USE ls_err ls_lake_run(struct ls_lake *lake);
