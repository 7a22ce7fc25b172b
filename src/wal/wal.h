/* wal/wal.h - the write-ahead log: batches of all connections gather in the flush buffer, one WAL
 * object makes them durable, one metadata transaction makes them visible, then appends are answered
 * and readers woken.
 *
 *   appends -> queue -> [flush thread: write, fdatasync] -> [meta thread: commit]
 *                     -> views, tail cache, answers
 *
 * Group commit: what queues while a flush is written makes the next one; no timer. Objects are
 * committed in the order in which they were sealed. An append is in one object whole, so a Produce
 * request is atomic over its partitions. A failed write or sync fails its appends and all that are
 * queued behind them (so that nothing of the same producer overtakes), and a file whose sync failed
 * is never written again.
 *
 * Views. Each partition has a view in memory: log start, end, last stable offset, floor, and the
 * WAL entries at or above the floor (and below it as long as their bytes are cached), with the
 * newest batches' bytes in the tail cache. Views change on the meta thread, in commit order, under
 * the stream's lock.
 *
 * Many brokers. With options.store each flush is an object of its own in an object store. A flush
 * begins when the first of the queue has waited flush_ms, or there are flush_bytes; several are
 * written at once, and committed in the order of sealing, whichever ends first. Other brokers
 * commit to the same partitions: ls_wal_stream_refresh brings what they did into the views, and so
 * does a commit of our own that meets one of others in front of it. Views and answers are then a
 * thread's of their own, still in commit order, so that commits do not wait for it. A view is
 * always a prefix of what is committed, and has all that this process was answered for (unless the
 * database could not be read then: the next refresh brings it). A view below whose end others have
 * compacted and purged has a gap there, always below the floor: reads end at it with LS_END.
 *
 * Locks: wal->lock (queue, segments), stream->lock (views, watchers); never both, none held across
 * I/O. A refresh holds a lock of its stream that is for refreshes alone, across a read of the
 * metadata, and takes stream->lock inside it.
 */
#pragma once
#include "base/err.h"
#include "base/slice.h"
#include "base/uuid.h"
#include "meta/meta.h"
#include "sys/loop.h"

struct ls_wal;
struct ls_wal_stream;

struct ls_wal_options {
        const char *dir; /* of the segment files; made when absent */
        struct ls_meta *meta;
        int32_t broker_id;
        bool sync; /* fdatasync before the commit */
        uint64_t segment_bytes;
        size_t flush_bytes;
        int64_t cache_bytes;
        /* Many brokers: a flush is one object of this store (borrowed), written with put-if-absent
         * under ls_wal_key, and no file is made: dir and segment_bytes are not used. NULL: segment
         * files in `dir`. */
        struct ls_store *store;
        int64_t flush_ms; /* with a store: what comes first waits this long for company */
        int puts_max;     /* with a store: objects under way at once */
        /* With a store: the process must end, the metadata database went back in time under it. Any
         * thread, perhaps more than once. NULL: ls_process_exit(70). */
        void (*on_lost)(void *ctx, const char *why);
        void *on_lost_ctx;
};
/* The name of a WAL object in the store: "wal/<epoch>/<sequence>.wal", 10 and 12 digits. `segment`
 * is ls_wal_segment_number(epoch, sequence): epochs are unique over all brokers, so names are. */
void ls_wal_key(uint64_t segment, char ret_key[LS_META_WAL_KEY_BYTES]);
uint64_t ls_wal_segment_number(uint64_t epoch, uint64_t sequence);
/* Recovers: what the database names must be there whole (damage is logged and kept out of the way),
 * what it does not name is a torn tail and is cut. LS_EBROKEN with words when the database went
 * back in time.
 *
 * With a store there is nothing to recover. The object "wal/<epoch>/open" marks that this epoch was
 * given out; that it is there, that there is one of an epoch that the database has never given out,
 * or an object that knows of a commit that the database does not: then it went back in time. Who
 * notices leaves the object "wal/went-back", which stops all, until an operator deletes it. */
LS_MUST_USE ls_err ls_wal_open(const struct ls_wal_options *options, struct ls_wal **ret_wal,
                               struct ls_errinfo *reterr);
/* Flushes and answers what is queued, then closes. No append may be made any more. */
void ls_wal_close(struct ls_wal *wal);
/* LS_OK, or why appends fail at present. Any thread. */
ls_err ls_wal_ready(struct ls_wal *wal, struct ls_errinfo *reterr);

/* --- views --- */

/* Loads a stream's views from the metadata store, in one snapshot, with as many partitions as it
 * has there, at least `partitions`. Blocks. The reference is the caller's. */
LS_MUST_USE ls_err ls_wal_stream_open(struct ls_wal *wal, uint64_t stream_id, int32_t partitions,
                                      int32_t leader_epoch, struct ls_wal_stream **ret_stream);
struct ls_wal_stream *ls_wal_stream_ref(struct ls_wal_stream *s);
void ls_wal_stream_unref(struct ls_wal_stream *s);
/* More partitions (as the metadata store has them now). */
void ls_wal_stream_grow(struct ls_wal_stream *s, int32_t partitions);
/* The stream was deleted: its watchers fire, reads and appends get LS_ABSENT. */
void ls_wal_stream_gone(struct ls_wal_stream *s);
/* Brings the views to what the metadata store has now, whoever committed it: entries of other
 * brokers, floors, log starts, partitions. Waiters of partitions that changed fire. Never
 * backwards. Any thread, two at once too; blocks for a read of the metadata. LS_ABSENT: it was
 * deleted, and is gone as after ls_wal_stream_gone. Without a store nobody else commits: nothing
 * happens. */
LS_MUST_USE ls_err ls_wal_stream_refresh(struct ls_wal_stream *s);
uint64_t ls_wal_stream_id(const struct ls_wal_stream *s);
int32_t ls_wal_stream_partitions(struct ls_wal_stream *s);

struct ls_wal_view {
        int64_t start, end, stable, floor;
        uint64_t hash, floor_hash; /* as in struct ls_meta_partition */
        uint64_t wal_bytes;        /* of batches from max(start, floor) on */
        uint64_t wal_entries;      /* entries from the floor on */
        int64_t oldest_ms; /* wall: when the oldest record from the floor on came; 0: none */
};
/* LS_ABSENT. Any thread. */
LS_MUST_USE ls_err ls_wal_view(struct ls_wal_stream *s, int32_t partition, struct ls_wal_view *ret);
/* Totals over the partitions, for compaction: bytes, entries, oldest; records not yet in the table.
 */
struct ls_wal_backlog {
        uint64_t bytes, entries;
        int64_t records;
        int64_t oldest_ms;
};
void ls_wal_backlog(struct ls_wal_stream *s, struct ls_wal_backlog *ret);
/* After a table commit: the floor rose. After a log start was raised. Never backwards. With a
 * store, one above the view's end is not taken (others have appended what this view has not seen):
 * the refresh that brings the end brings it too. */
void ls_wal_set_floor(struct ls_wal_stream *s, int32_t partition, int64_t floor,
                      uint64_t floor_hash);
void ls_wal_set_start(struct ls_wal_stream *s, int32_t partition, int64_t start);

/* --- append --- */

struct ls_wal_item {
        struct ls_wal_stream *stream; /* held by the caller until done */
        int32_t partition;
        struct ls_slice
                *batch; /* validated; held by the caller until done; base offset set in place */
        int32_t records;
        uint8_t flags; /* LS_META_BATCH_… */
        int64_t base_timestamp, max_timestamp;
        int64_t producer_id;
        int16_t producer_epoch;
        int32_t base_sequence;
        uint64_t s0, s1;
        /* results */
        ls_err outcome; /* as struct ls_meta_wal_batch, or a failure */
        int64_t base_offset, log_start;
};
struct ls_wal_append {
        struct ls_wal_append *next; /* inner */
        struct ls_wal_item *items;
        size_t count;
        void (*done)(struct ls_wal_append *append); /* on a thread of the WAL or the meta thread;
                                                     * must not block */
};
/* Any thread; never blocks. done comes exactly once, never before return. */
void ls_wal_append(struct ls_wal *wal, struct ls_wal_append *append);

/* --- read --- */

struct ls_wal_read {
        int64_t offset;
        size_t bytes_max; /* the first batch comes whole when min_one */
        bool min_one;
        bool may_block;
        bool below_floor; /* a consumer: also cached batches below the floor, nothing below the log
                           * start; compaction (false): from the floor on, also what the log start
                           * hides */
        int64_t offset_end; /* only batches whose base offset is below; INT64_MAX: to the end */
        /* results: slices are the caller's to unref; whole batches, base offsets set */
        struct ls_slice **slices;
        size_t slice_count, slice_cap;
        size_t bytes;
        int64_t next_offset; /* after the last batch given */
        struct ls_wal_view view;
};
/* LS_OK (nothing at the end); LS_OUT_OF_RANGE: below log start or above the end; LS_END: the offset
 * is below what the WAL holds, read the table's files; LS_BUSY: may_block is false and the bytes
 * are on disk or in the store; LS_ABSENT: no such partition; LS_EBROKEN: the bytes there are
 * damaged. *r may hold slices already: they are kept.
 *
 * With a store LS_END can also mean that others have compacted, purged and collected what this view
 * still has: refresh before looking again. A store that is throttled or out of reach is a failure
 * (LS_EIO, LS_ENET, LS_EACCESS): later again. */
LS_MUST_USE ls_err ls_wal_read(struct ls_wal_stream *s, int32_t partition, struct ls_wal_read *r);
void ls_wal_read_done(struct ls_wal_read *r);

/* The entry whose max timestamp is the first at or above `timestamp` (from max(start, floor) on);
 * LS_ABSENT. */
struct ls_wal_entry_info {
        int64_t base_offset, max_timestamp;
        int32_t records;
        bool log_append_time;
};
LS_MUST_USE ls_err ls_wal_find_time(struct ls_wal_stream *s, int32_t partition, int64_t timestamp,
                                    struct ls_wal_entry_info *ret);
/* The first entry with the greatest max timestamp; LS_ABSENT when the WAL holds none. */
LS_MUST_USE ls_err ls_wal_find_max_time(struct ls_wal_stream *s, int32_t partition,
                                        struct ls_wal_entry_info *ret);
/* Walks entries of [from, to): base offset, bytes, flags, max timestamp, for retention and
 * compaction plans. */
LS_MUST_USE ls_err ls_wal_entries(struct ls_wal_stream *s, int32_t partition, int64_t from,
                                  int64_t to,
                                  ls_err (*fn)(void *ctx, const struct ls_meta_entry *e),
                                  void *ctx);

/* --- watch --- */

/* Embedded by the watcher; on_change runs on the thread that changed the view, under the stream's
 * lock: it must be short and must not call back. `bytes` were appended (0: something else changed).
 */
struct ls_wal_waiter {
        struct ls_wal_waiter *next, **link; /* inner; link NULL: not registered */
        void (*on_change)(struct ls_wal_waiter *w, size_t bytes);
};
/* LS_ABSENT: no such partition; LS_EXISTS: the end is already above end_seen (not registered). */
LS_MUST_USE ls_err ls_wal_wait(struct ls_wal_stream *s, int32_t partition, int64_t end_seen,
                               struct ls_wal_waiter *w);
/* After this on_change does not run. Fine when it is not registered. */
void ls_wal_unwait(struct ls_wal_stream *s, struct ls_wal_waiter *w);

/* --- upkeep --- */

/* Number of the newest WAL commit that this process knows: it moves when something was appended, or
 * a refresh found what others have. */
uint64_t ls_wal_last_commit(const struct ls_wal *wal);

/* Purges dead index rows in slices, then deletes segment files that nothing names for `delay_ms`,
 * and since before `unnamed_since_ms` (monotonic; INT64_MAX: whenever): what a backup of the
 * metadata may name has to stay. Blocks. */
struct ls_wal_purge {
        int64_t delay_ms, unnamed_since_ms;
        size_t waiting; /* out: files that would be deleted but for unnamed_since_ms */
};
/* With a store only the rows go: the names of objects that are left without one go on the metadata
 * store's list of garbage in the same transaction (ls_meta_options.wal_key), with a grace. */
LS_MUST_USE ls_err ls_wal_purge(struct ls_wal *wal, struct ls_wal_purge *how,
                                size_t *ret_segments_deleted);
/* Number and bytes of segment files; with a store, 0. */
void ls_wal_disk(struct ls_wal *wal, size_t *ret_count, uint64_t *ret_bytes);
