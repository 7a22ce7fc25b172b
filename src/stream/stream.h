/* stream/stream.h - THE interface that servers use: append, read, watch, streams, tables.
 *
 * A protocol server knows streams, partitions and offsets; what lies below (WAL, Parquet, metadata)
 * stays below. One `struct ls_streams` a process; one refcounted `struct ls_stream` a live stream.
 *
 * Threads: calls marked *loop* never block and may be made on any loop; calls marked *blocks* read
 * files or the metadata store: make them from a job.
 */
#pragma once
#include <stdatomic.h>

#include "base/budget.h"
#include "base/options.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "catalog/settings.h"
#include "sys/jobs.h"
#include "sys/loop.h"

struct ls_streams;
struct ls_stream;
struct ls_groups;

/* --- life --- */

/* Opens everything under the options' data dir (locked while in use), recovers, starts threads. */
LS_MUST_USE ls_err ls_streams_open(const struct ls_options *options,
                                   struct ls_streams **ret_streams, struct ls_errinfo *reterr);
/* Answers what is in flight, stops threads, closes. Appends after the start of it get LS_ESHUTDOWN.
 */
void ls_streams_close(struct ls_streams *s);
const struct ls_options *ls_streams_options(const struct ls_streams *s);
ls_uuid ls_streams_cluster_id(const struct ls_streams *s);
int32_t ls_streams_broker_id(const struct ls_streams *s);
/* Jobs of requests, and jobs that read old data. */
struct ls_jobs *ls_streams_jobs(struct ls_streams *s);
struct ls_jobs *ls_streams_history_jobs(struct ls_streams *s);
struct ls_groups *ls_streams_groups(struct ls_streams *s); /* stream/group.h */
/* LS_OK when appends can be acknowledged; words say what is wrong else (readiness). *blocks*: after
 * a failed flush it tries whether writing works again. */
ls_err ls_streams_ready(struct ls_streams *s, struct ls_errinfo *reterr);

/* --- brokers --- */

/* The brokers to send clients to: open ones whose heartbeat is young, sorted by id, this one always
 * among them. Immutable; release with ls_brokers_unref. Embedded: this broker alone. */
struct ls_broker {
        int32_t id;
        uint64_t epoch;
        char *rack; /* "": none */
        char *host; /* "": not announced yet */
        uint16_t port;
        char *http; /* "host:port"; "" */
};
struct ls_brokers {
        atomic_int refs; /* inner */
        size_t count;
        struct ls_broker *items;
};
/* The newest list. *loop* */
struct ls_brokers *ls_brokers_get(struct ls_streams *s);
void ls_brokers_unref(struct ls_brokers *b);
/* What clients are to be told of this broker ("host:port" each); from now on it is listed. NULL: it
 * is going away, others list it no more. *blocks* */
LS_MUST_USE ls_err ls_streams_announce(struct ls_streams *s, const char *kafka, const char *http,
                                       struct ls_errinfo *reterr);
/* Of the brokers in `rack` (null, or none there: of all), the one whom partition `partition` of the
 * stream is shown under; the same on all brokers that see the same list, and few move when it
 * changes. Index into items. *loop* */
size_t ls_brokers_leader(const struct ls_brokers *b, ls_uuid topic_id, int32_t partition,
                         ls_str rack);
/* The broker that coordinates the group: likewise over all. *loop* */
size_t ls_brokers_coordinator(const struct ls_brokers *b, ls_str group_id);
/* True: other brokers may be at work beside this one (--meta). *loop* */
bool ls_streams_shared(const struct ls_streams *s);
/* Streams as the metadata store has them now: those that other brokers made, changed or deleted.
 * Embedded: nothing to do. *blocks* */
LS_MUST_USE ls_err ls_streams_refresh(struct ls_streams *s);
/* The same of one stream's partitions: ends, log starts, records. LS_ABSENT: it is gone. *blocks*
 */
LS_MUST_USE ls_err ls_stream_refresh(struct ls_stream *stream);

/* --- streams --- */

/* An immutable view of a stream's row; lives as long as the reference to the stream it came from is
 * held and no longer than until the next ls_stream_info call may give a newer one: take it once a
 * request. */
struct ls_stream_info {
        uint64_t id;
        ls_uuid topic_id;
        const char *kafka_name;
        const char *catalog, *ns, *name;
        int32_t partitions;
        int32_t leader_epoch;
        uint64_t version;
        int64_t created_ms;
        struct ls_settings settings; /* effective values: catalog/settings.h */
};
/* A new reference, or NULL when there is no such stream. *loop* */
struct ls_stream *ls_stream_find(struct ls_streams *s, ls_str kafka_name);
struct ls_stream *ls_stream_find_id(struct ls_streams *s, ls_uuid topic_id);
struct ls_stream *ls_stream_find_table(struct ls_streams *s, ls_str catalog, ls_str ns,
                                       ls_str name);
struct ls_stream *ls_stream_ref(struct ls_stream *stream);
void ls_stream_unref(struct ls_stream *stream);
const struct ls_stream_info *ls_stream_info(const struct ls_stream *stream);
/* References to all, sorted by Kafka name: *ret_streams is an array to release with
 * ls_stream_list_free. */
void ls_stream_list(struct ls_streams *s, struct ls_stream ***ret_streams, size_t *ret_count);
void ls_stream_list_free(struct ls_stream **streams, size_t count);

struct ls_stream_config {
        ls_str name, value; /* value null: back to the default */
};
/* *blocks*. LS_EXISTS; LS_INVALID (name, partitions or settings; words); partitions -1: the
 * default. validate_only changes nothing. */
LS_MUST_USE ls_err ls_stream_create(struct ls_streams *s, ls_str kafka_name, int32_t partitions,
                                    const struct ls_stream_config *configs, size_t count,
                                    bool validate_only, struct ls_stream **ret_stream,
                                    struct ls_errinfo *reterr);
/* One of many to make. In: name to config_count. Out: the result as of ls_stream_create, its words,
 * and the stream (a reference, also with LS_EXISTS) or NULL. */
struct ls_stream_plan {
        ls_str kafka_name;
        int32_t partitions;
        const struct ls_stream_config *configs;
        size_t config_count;
        ls_err result;
        struct ls_errinfo info;
        struct ls_stream *stream;
};
/* *blocks*. All of them share metadata transactions: thousands of topics cost some syncs of the
 * disk, not thousands. No two may have one name. */
void ls_streams_create(struct ls_streams *s, struct ls_stream_plan *plans, size_t count);
/* *blocks*. LS_ABSENT. */
LS_MUST_USE ls_err ls_stream_delete(struct ls_streams *s, struct ls_stream *stream);
/* *blocks*. The same for many, which share metadata transactions. */
void ls_streams_delete(struct ls_streams *s, struct ls_stream *const *streams, size_t count,
                       ls_err *ret_results);
/* *blocks*. LS_INVALID when not above the present count. */
LS_MUST_USE ls_err ls_stream_grow(struct ls_streams *s, struct ls_stream *stream,
                                  int32_t partitions, bool validate_only,
                                  struct ls_errinfo *reterr);
/* *blocks*. Applies all changes or none. LS_INVALID with words; LS_CONFLICT when `version` (0: any)
 * is old. */
LS_MUST_USE ls_err ls_stream_configure(struct ls_streams *s, struct ls_stream *stream,
                                       uint64_t version, const struct ls_stream_config *changes,
                                       size_t count, bool validate_only, struct ls_errinfo *reterr);
/* The value that was set on the stream itself, or null (then the server's default counts). *loop*
 */
ls_str ls_stream_config_get(const struct ls_stream *stream, const char *name);

/* --- append --- */

struct ls_append_part {
        struct ls_stream *stream; /* a reference held by the caller until done */
        int32_t partition;
        struct ls_slice *records; /* one record batch v2; its bytes may be changed in place (offset,
                                   * timestamps); the append takes references of its own */
        /* results */
        ls_err outcome; /* LS_OK; LS_DUPLICATE (acknowledge with base_offset); LS_CORRUPT;
                         * LS_TOO_LARGE; LS_INVALID; LS_TIMESTAMP; LS_NO_KEY; LS_UNSUPPORTED
                         * (magic); LS_SEQUENCE_GAP; LS_STALE_EPOCH; LS_UNKNOWN_PRODUCER; LS_ABSENT
                         * (stream or partition gone); a failure */
        struct ls_errinfo error;
        int64_t base_offset; /* -1 when refused */
        int64_t append_ms;   /* LogAppendTime topics; -1 else */
        int64_t log_start;
};
struct ls_append {
        struct ls_append_part *parts;
        size_t part_count;
        struct ls_loop *loop;
        void (*done)(struct ls_append
                             *append); /* exactly once, on `loop`, never before the call returns */
        /* inner */
        struct ls_loop_msg msg;
        void *inner;
};
/* *loop*. Validates each part on the calling thread, queues what passed; answers come when it is
 * durable and visible. A loop may have any number in flight; per partition they take effect in the
 * order of the calls made from one thread. */
void ls_stream_append(struct ls_streams *s, struct ls_append *append);

/* --- read --- */

struct ls_read_part {
        struct ls_stream *stream;
        int32_t partition;
        int64_t offset; /* the batch that holds it comes first, whole */
        int32_t bytes_max;
        /* results */
        ls_err outcome; /* LS_OK; LS_OUT_OF_RANGE; LS_ABSENT; LS_BUSY (would block); LS_EBROKEN … */
        int64_t high_watermark; /* these three come from one view; -1 when unknown */
        int64_t stable;
        int64_t log_start;
        struct ls_slice *
                *slices; /* whole batches in order, base offsets set; owned: ls_read_done */
        size_t slice_count;
        size_t bytes;
};
struct ls_read {
        struct ls_read_part *parts; /* served in this order until the budget is used up */
        size_t part_count;
        int64_t bytes_max; /* the first batch is given whole even if it is larger */
        bool read_committed;
        bool may_block; /* false: only what is in memory; parts that need more get LS_BUSY */
        size_t bytes;   /* result */
};
/* may_block: *blocks*, else *loop*. */
void ls_stream_read(struct ls_streams *s, struct ls_read *read);
/* True when the part at `offset` lies in data that is compacted: read it on the history jobs.
 * *loop* */
bool ls_stream_is_history(struct ls_stream *stream, int32_t partition, int64_t offset);
/* Releases the slices of all parts. */
void ls_read_done(struct ls_read *read);

struct ls_offsets {
        int64_t start, end, stable;
};
/* *loop*. LS_ABSENT: no such partition. */
LS_MUST_USE ls_err ls_stream_offsets(struct ls_stream *stream, int32_t partition,
                                     struct ls_offsets *ret);
/* *blocks*. The first offset whose timestamp is at or above; LS_ABSENT: none. Exact, also inside
 * batches. */
LS_MUST_USE ls_err ls_stream_find_time(struct ls_stream *stream, int32_t partition,
                                       int64_t timestamp_ms, int64_t *ret_offset,
                                       int64_t *ret_timestamp_ms);
/* *blocks*. The first record with the greatest timestamp; LS_ABSENT: empty. */
LS_MUST_USE ls_err ls_stream_find_max_time(struct ls_stream *stream, int32_t partition,
                                           int64_t *ret_offset, int64_t *ret_timestamp_ms);
/* *blocks*. Moves the log start up to `offset` (-1: to the end). LS_OUT_OF_RANGE; LS_ABSENT. */
LS_MUST_USE ls_err ls_stream_delete_records(struct ls_stream *stream, int32_t partition,
                                            int64_t offset, int64_t *ret_start);
/* *loop*. Bytes of the log as produced, between log start and end. */
LS_MUST_USE ls_err ls_stream_log_bytes(struct ls_stream *stream, int32_t partition,
                                       int64_t *ret_bytes);

/* --- watch --- */

/* Wakes a long poll when `bytes_wanted` were appended to its partitions, or one of them changed
 * otherwise (deleted, log start moved). Embedded in the caller's struct. */
struct ls_watch;
struct ls_watch_part {
        struct ls_stream *stream;
        int32_t partition;
        int64_t end_seen; /* fires at once when the end is already above */
};
/* *loop*. `fn(ctx)` is called once on `loop` (never before return), or not at all after
 * ls_watch_cancel. */
struct ls_watch *ls_watch_start(struct ls_streams *s, const struct ls_watch_part *parts,
                                size_t count, int64_t bytes_wanted, struct ls_loop *loop,
                                void (*fn)(void *ctx), void *ctx);
/* *loop*: the one it was started on. Accepts one that has fired, and frees it: always call it once.
 */
void ls_watch_cancel(struct ls_watch *watch);

/* --- producers --- */

/* *blocks* now and then (ids come in blocks). */
LS_MUST_USE ls_err ls_producer_new(struct ls_streams *s, int64_t *ret_id, int16_t *ret_epoch);
struct ls_producer_state {
        int64_t id;
        int16_t epoch;
        int32_t last_sequence;
        int64_t last_timestamp;
};
/* *blocks*. The caller frees *ret_states with ls_free. */
LS_MUST_USE ls_err ls_stream_producers(struct ls_stream *stream, int32_t partition,
                                       struct ls_producer_state **ret_states, size_t *ret_count);
