/* stream/stream_int.h - what the files of this folder share. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "base/map.h"
#include "formats/batch/batch.h"
#include "lake/lake.h"
#include "meta/meta.h"
#include "store/store.h"
#include "stream/stream.h"
#include "sys/file.h"
#include "wal/wal.h"

/* One version of a stream's row. Versions are kept until the stream is freed, so that a borrowed
 * pointer stays good; configuration changes are rare. */
struct stream_version {
        struct stream_version *older;
        struct ls_meta_stream *row;
        struct ls_stream_info info;
};

struct ls_stream {
        struct ls_streams *streams;
        atomic_int refs;
        _Atomic(struct stream_version *) version;
        struct ls_wal_stream *wal;
        struct ls_lake_stream *lake;
};

struct ls_streams {
        const struct ls_options *options;
        struct ls_file *lock_file;
        struct ls_meta *meta;
        struct ls_store *store;
        struct ls_wal *wal;
        struct ls_lake *lake;
        struct ls_jobs *jobs, *history_jobs;
        struct ls_groups *groups;
        ls_uuid cluster_id;
        atomic_bool closing;
        atomic_int appends;           /* in flight */
        _Atomic int64_t probe_due_ms; /* monotonic; ready.c */
        atomic_bool probe_ok;

        /* Many brokers; brokers.c, follow.c */
        bool shared;
        pthread_mutex_t brokers_lock;
        struct ls_brokers *brokers; /* a reference */
        struct follow *follow;      /* NULL: embedded */

        pthread_mutex_t admin; /* one change of the catalog at a time; held across the metadata
                                  store's answer */
        pthread_rwlock_t lock; /* the maps; never held across I/O */
        struct ls_map by_name, by_id, by_table;
};

static inline struct stream_version *
stream_version(const struct ls_stream *s)
{
        return atomic_load_explicit(&((struct ls_stream *)(uintptr_t)s)->version,
                                    memory_order_acquire);
}
/* A stream object for a row (taken over), with its views loaded; the reference is the caller's. */
LS_MUST_USE ls_err stream_load(struct ls_streams *s, struct ls_meta_stream *row,
                               struct ls_stream **ret);
/* Makes `row` (taken over) the newest version, and tells the lake. */
void stream_set_row(struct ls_stream *stream, struct ls_meta_stream *row);
/* A copy for stream_load and stream_set_row. */
struct ls_meta_stream *stream_row_copy(const struct ls_meta_stream *row);
/* The list anew, from the metadata store; as if this broker were the only one. */
LS_MUST_USE ls_err brokers_refresh(struct ls_streams *s);
void brokers_alone(struct ls_streams *s, const char *kafka, const char *http);
/* The thread that follows other brokers; heartbeats. */
LS_MUST_USE ls_err follow_start(struct ls_streams *s);
void follow_stop(struct ls_streams *s);
/* Puts it in, or takes it out of the maps. The maps hold a reference. */
void streams_add(struct ls_streams *s, struct ls_stream *stream);
void streams_remove(struct ls_streams *s, struct ls_stream *stream);
