/* wal/wal_int.h - what the files of this folder share. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "sys/file.h"
#include "sys/jobs.h"
#include "wal/limits.h"
#include "wal/segment.h"
#include "wal/wal.h"

/* An open segment file; freed with the last reference, so that readers outlive its deletion. */
struct wal_segment {
        struct wal_segment *next; /* wal->segments, ascending numbers */
        atomic_int refs;
        uint64_t number;
        struct ls_file *file;
        uint64_t end;       /* where the next object goes (the open one) or the file's size */
        uint64_t zeroed;    /* the open one: up to here there are zeros, or its end is above */
        int64_t unnamed_ms; /* since when nothing names it (monotonic); 0: named */
        char *path;
};

struct wal_entry {
        int64_t base;
        int64_t base_timestamp, max_timestamp;
        uint64_t segment, pos;
        uint64_t s0, s1;
        struct ls_slice *cached;
        int64_t append_ms;
        int32_t records;
        uint32_t bytes;
        uint8_t flags;
};

/* Entries are a ring: [head, head + count) modulo cap (a power of two), base offsets ascending. */
struct wal_log {
        int64_t start, end, stable, floor;
        uint64_t hash, floor_hash;
        struct wal_entry *entries;
        uint32_t head, count, cap;
        struct ls_wal_waiter *waiters;
};

struct ls_wal_stream {
        struct ls_wal *wal;
        atomic_int refs;
        uint64_t id;
        int32_t leader_epoch;
        /* Held over one refresh, so across a read of the metadata; before `lock`, never inside it
         * or wal->lock. */
        pthread_mutex_t follow_lock;
        uint64_t followed;    /* under follow_lock: the commit number that was followed up to */
        pthread_mutex_t lock; /* everything below */
        bool gone;
        struct wal_log *logs;
        int32_t partitions;
        uint64_t backlog_bytes, backlog_entries; /* at or above the floors */
        int64_t backlog_records;
        int64_t oldest_ms;
};

struct wal_cached {
        struct ls_wal_stream *stream; /* a reference */
        int32_t partition;
        int64_t base;
        size_t bytes;
};

struct wal_flush {
        struct ls_meta_wal_commit commit;
        struct ls_wal *wal;
        struct ls_wal_append *first; /* in order of arrival */
        struct ls_wal_item **items;  /* sorted as commit.batches */
        uint64_t failures;           /* of the WAL when it was begun */
        struct wal_flush *next;      /* wal->puts.accepted */
};

/* An object as it is written: spans of the batches and of `scratch`, which holds the rest. */
struct wal_layout {
        struct ls_buf scratch; /* headers, footer */
        ls_span *spans;
        size_t count, cap;
};

/* Objects on their way to a store, under wal->lock. See flush_store.c. */
struct wal_puts {
        struct ls_jobs *jobs, *gets;           /* threads that write, and that read */
        struct wal_put *sealed, **sealed_tail; /* not yet handed on, in the order of sealing */
        int under_way;                         /* PUTs */
        bool handing;                          /* a thread hands on what has ended */
        bool halted;                           /* something failed: nothing is sealed */
        ls_err error;                          /* why; LS_OK: its turn has not come yet */
        struct ls_wal_append *failed, **failed_tail; /* answered when nothing is under way */
        int64_t queued_ms; /* when the first of the queue came (monotonic) */
        struct wal_flush *accepted, **accepted_tail; /* committed, not yet in the views */
        struct ls_cond accepted_wake;
        struct ls_thread *apply; /* the thread that puts them there */
        bool apply_ends;
};

struct ls_wal {
        struct ls_wal_options options;
        char *dir;
        ls_uuid cluster;
        uint64_t epoch;

        pthread_mutex_t lock; /* queue, in flight, segments, error */
        struct ls_cond wake;
        struct ls_wal_append *queue, **queue_tail;
        size_t queue_bytes;
        int flushes; /* submitted to the metadata store, not yet done */
        bool stopping;
        struct wal_segment *segments;
        uint64_t segment_next;
        uint64_t committed_segment, committed_end; /* where the last committed object ends */
        bool refused; /* a commit failed since the open segment was made */
        /* Commits that failed. A flush that was begun before the last of them fails as well: its
         * batches must not overtake those that will be sent again. */
        uint64_t failures;
        ls_err error; /* of the last flush that ended: number error_sequence */
        uint64_t error_sequence;
        struct ls_errinfo error_info;

        struct wal_puts puts;

        /* the flush thread's */
        struct ls_thread *thread;
        struct wal_segment *open; /* a reference; NULL: make one */
        uint64_t sequence;
        struct wal_layout layout; /* of segment files */

        /* of the thread that applies commits: first in, first out */
        struct wal_cached *cache;
        size_t cache_head, cache_count, cache_cap;
        int64_t cache_bytes;
        uint64_t own_commit; /* with a store: the last one of this process; the meta thread's */
        _Atomic uint64_t last_commit;
        atomic_bool lost; /* the database went back in time: the process ends */
};

static inline struct wal_entry *
wal_entry_at(const struct wal_log *log, uint32_t i)
{
        return &log->entries[(log->head + i) & (log->cap - 1)];
}
/* Index of the entry that holds `offset`, or of the first one above it; count when none. */
uint32_t wal_log_find(const struct wal_log *log, int64_t offset);
/* Pushes at the end; stream lock held. */
void wal_log_push(struct wal_log *log, const struct wal_entry *e);
/* Pops entries below floor or start that are not cached; stream lock held. */
void wal_log_trim(struct wal_log *log);
/* Fires the waiters; stream lock held. */
void wal_log_fire(struct wal_log *log, size_t bytes);
/* Drops the bytes of one entry. Takes the stream lock. */
void wal_log_uncache(struct ls_wal_stream *s, int32_t partition, int64_t base);
/* Asserts what holds of a log. */
void wal_log_check(const struct wal_log *log);
/* The entry that the metadata store has so; not cached. */
void wal_entry_of(const struct ls_meta_entry *m, struct wal_entry *ret);
/* The log of a partition, NULL when there is none or the stream is gone; stream lock held. */
struct wal_log *wal_stream_log(struct ls_wal_stream *s, int32_t partition);
/* More logs; the stream lock is held, or nobody else knows the stream. */
void wal_stream_grow(struct ls_wal_stream *s, int32_t partitions);
/* Backlog totals anew from the entries; stream lock held. */
void wal_stream_recount(struct ls_wal_stream *s);

struct wal_segment *wal_segment_ref(struct ls_wal *wal, uint64_t number);
void wal_segment_unref(struct wal_segment *s);
/* Makes the next segment file, durable in its folder; the reference is the caller's. */
LS_MUST_USE ls_err wal_segment_new(struct ls_wal *wal, struct wal_segment **ret);
char *wal_segment_path(const struct ls_wal *wal, uint64_t number);

/* --- flush.c: the queue, and objects as bytes --- */

/* Takes from the queue, at most flush_bytes, one append at least when there is one; wal->lock held.
 */
struct ls_wal_append *wal_queue_take(struct ls_wal *wal, size_t *ret_items, size_t *ret_bytes);
/* All that is queued; wal->lock held. */
struct ls_wal_append *wal_queue_take_all(struct ls_wal *wal);
struct wal_flush *wal_flush_new(struct ls_wal *wal, struct ls_wal_append *first, size_t item_count,
                                uint64_t failures);
void wal_flush_free(struct wal_flush *flush);
void wal_layout_init(struct wal_layout *layout);
void wal_layout_done(struct wal_layout *layout);
/* Fills `layout` with `prefix` (may be empty) and the object that goes to `pos` of `segment` behind
 * it, and flush->commit with the places. Fills what `header` lacks. */
void wal_flush_layout(struct wal_flush *flush, uint64_t segment, uint64_t pos, ls_span prefix,
                      struct ls_object_header *header, struct wal_layout *layout);
/* An object was made durable: for the metrics. */
void wal_flush_written(const struct ls_object_header *header);

/* --- apply.c: after the commit, and answers --- */

/* Hands it to the metadata store. */
void wal_flush_submit(struct wal_flush *flush);
/* Answers all with a failure. */
void wal_appends_fail(struct ls_wal_append *first, ls_err why);
/* What ls_wal_ready says from now on, unless a later flush has told already. Before the answers, so
 * that whoever is refused finds the reason. */
void wal_flush_result(struct ls_wal *wal, uint64_t sequence, ls_err result, const char *what);
/* One flush less is under way. */
void wal_flush_leave(struct ls_wal *wal);
/* A flush failed: for the metrics. */
void wal_flush_failed(void);
/* What ls_wal_last_commit says, at least. */
void wal_last_commit_raise(struct ls_wal *wal, uint64_t commit);
/* With a store, the thread that applies commits and answers. */
void wal_apply_run(void *wal);

/* --- flush_file.c, flush_store.c: two ways of making a flush durable --- */

/* The flush thread. */
void wal_file_run(void *wal);
void wal_store_run(void *wal);
/* The flush failed: with it what was sealed later, and what is queued when none of that is under
 * way any more. */
void wal_store_refuse(struct wal_flush *flush, ls_err why);
/* It is committed: for the thread that applies. */
void wal_store_accept(struct wal_flush *flush);
/* Waits for the next of those, in their order. NULL: stop. */
struct wal_flush *wal_store_accepted(struct ls_wal *wal);
/* A flush that is done, or was refused, is under way no more. The last one behind a failure answers
 * all that failed. */
void wal_store_leave(struct ls_wal *wal);

/* Threads and what they share. stop: no flush is under way any more; accepts a half-started one. */
LS_MUST_USE ls_err wal_store_start(struct ls_wal *wal);
void wal_store_stop(struct ls_wal *wal);

/* --- epoch.c: a database that went back in time, noticed in a store --- */

/* Leaves the mark of this epoch in the store. LS_EBROKEN with words: the epoch was given out
 * before. */
LS_MUST_USE ls_err wal_epoch_claim(struct ls_wal *wal, struct ls_errinfo *reterr);
/* A commit number came twice: says so, leaves word in the store, and has the process end. */
void wal_went_back(struct ls_wal *wal, uint64_t seen, uint64_t got);
