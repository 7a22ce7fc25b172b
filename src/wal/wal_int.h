/* wal/wal_int.h - what the files of this folder share. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "base/buf.h"
#include "sys/file.h"
#include "sys/jobs.h"
#include "wal/limits.h"
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

        /* the flush thread's */
        struct ls_thread *thread;
        struct wal_segment *open; /* a reference; NULL: make one */
        uint64_t sequence;
        struct ls_buf scratch; /* headers, footer */
        ls_span *spans;
        size_t span_cap;

        /* the meta thread's: first in, first out */
        struct wal_cached *cache;
        size_t cache_head, cache_count, cache_cap;
        int64_t cache_bytes;
        _Atomic uint64_t last_commit;
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
/* Backlog totals anew from the entries; stream lock held. */
void wal_stream_recount(struct ls_wal_stream *s);

struct wal_segment *wal_segment_ref(struct ls_wal *wal, uint64_t number);
void wal_segment_unref(struct wal_segment *s);
/* Makes the next segment file, durable in its folder; the reference is the caller's. */
LS_MUST_USE ls_err wal_segment_new(struct ls_wal *wal, struct wal_segment **ret);
char *wal_segment_path(const struct ls_wal *wal, uint64_t number);

/* The flush thread. */
void wal_flush_run(void *wal);
