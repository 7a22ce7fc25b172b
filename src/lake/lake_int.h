/* lake/lake_int.h - what the files of this folder share. */
#pragma once
#include <pthread.h>
#include <stdatomic.h>

#include "lake/lake.h"
#include "sys/jobs.h"

/* A lease as this process knows it (lease.c); monotonic times, 0: never. */
struct lake_lease {
        int64_t until_ms; /* held until then */
        int64_t used_ms;  /* when there was work under it */
        int64_t again_ms; /* another broker has it: not asked for before */
};

/* One run of table work on a stream at a time: compaction, merging, expiry, a first metadata file.
 * Whoever wants one while it runs waits for it and, when it began before he asked, for the next
 * (which all who wait share). */
struct ls_lake_stream {
        struct ls_lake *lake;
        struct ls_lake_stream *next; /* lake->streams; guarded by lake->lock */
        atomic_int refs;
        struct ls_wal_stream *wal; /* a reference */
        atomic_bool gone;
        void (*release)(void *ctx); /* set by the owner as it leaves: frees what specs borrow */
        void *release_ctx;

        pthread_mutex_t lock;     /* all below; never held across I/O */
        struct ls_lake_spec spec; /* copied; its strings and settings live as long as the stream */
        struct ls_cond changed;
        bool running; /* a run is under way */
        uint64_t runs_begun, runs_ended;
        ls_err run_error;       /* of the last run */
        int64_t last_commit_ms; /* monotonic, of the last table commit */
        bool maintained;        /* there was nothing more to do, last_commit_ms was maintained_ms */
        int64_t maintained_ms;
        int64_t maintained_floor; /* shared: the sum of the floors then */
        int64_t next_expire_ms;   /* wall: when a snapshot will be too old */
        int64_t first_look_ms;    /* monotonic: when a table that nobody writes to is looked at */
        int64_t used_ms;          /* monotonic: when the cached state was last used */
        int64_t next_upkeep_ms;   /* monotonic */
        int64_t next_metrics_ms;  /* monotonic */
        int64_t next_sweep_ms;    /* monotonic; 0: at the first upkeep after the start */
        int64_t failed_until_ms;  /* monotonic: a failed run is not tried again before */
        int64_t failures;         /* in a row */
        struct lake_lease lease;
        atomic_bool maintaining;      /* merge.c: one at a time */
        void *table;                  /* table.c's cache of the table's state; NULL: not loaded */
        struct lake_history *history; /* a reference: streams may outlive the lake */
};

struct ls_lake {
        struct ls_lake_options o;
        pthread_mutex_t lock; /* streams, stopping, round */
        struct ls_cond wake;
        struct ls_lake_stream *streams; /* each a reference of its own */
        bool stopping;
        struct ls_thread **threads;
        size_t thread_count;
        struct ls_thread *upkeep_thread;
        struct lake_history *history;
        struct lake_lease lease; /* of what is not one stream's; guarded by lock */
        /* shared: by how much the database's clock is ahead of this one */
        _Atomic int64_t clock_ahead_ms;
        atomic_bool purge_wanted; /* shared: index rows may have died since the last purge */
        bool collecting;          /* guarded by lock; whoever set it has what follows */
        int64_t next_clock_ms, next_wal_sweep_ms; /* monotonic */
        /* when each is due (monotonic), and what the last backup holds */
        int64_t next_purge_ms, next_backup_ms;
        uint64_t backup_changes;            /* ls_meta_changes before it was made */
        int64_t backup_tried_ms, backup_ms; /* of the last one (monotonic): tried; held all */
        int64_t backup_took_ms;
        bool segments_wait;          /* for a backup that names them no more */
        atomic_bool catalog_changed; /* since the last one */
        int64_t opened_ms;           /* wall: streams made later are new */
};

/* A copy of the spec: pointers in it stay good as long as the stream does. */
struct ls_lake_spec lake_spec(struct ls_lake_stream *s);
bool lake_stopping(struct ls_lake *lake);
/* For the metrics: a commit made records visible so long after the oldest was acknowledged. */
void lake_fresh_note(struct ls_lake_stream *s, int64_t ms);
/* The setting table.compression. */
static inline const char *
lake_compression(const struct ls_lake_spec *spec)
{
        return spec->settings->texts[LS_SET_TABLE_COMPRESSION];
}
/* "tables/<topic id>/<rest>", to be freed with ls_free. */
char *lake_key(const struct ls_lake_spec *spec, const char *format, ...) LS_PRINTF(2, 3);

/* Begins a run for this stream (waits for one under way), or LS_CANCELED when the stream is gone or
 * the lake is stopping, LS_TIMEOUT past `deadline_ms` (monotonic; INT64_MAX: none). End each begun
 * run with lake_run_end. */
LS_MUST_USE ls_err lake_run_begin(struct ls_lake_stream *s, int64_t deadline_ms);
void lake_run_end(struct ls_lake_stream *s, ls_err result);

/* --- lease.c; without `shared` each is nothing, and LS_OK --- */

/* Before background work on the stream, or in it: takes the lease, or renews it when half of its
 * time is over. LS_BUSY: another broker has it. */
LS_MUST_USE ls_err lake_lease(struct ls_lake_stream *s);
/* Whether this broker has it. */
bool lake_leased(struct ls_lake_stream *s);
/* In the middle of long work: renews the lease if this broker has it. */
void lake_lease_keep(struct ls_lake_stream *s);
/* The same for what is not one stream's: garbage, sweeps, dead index rows, deleted streams. */
LS_MUST_USE ls_err lake_lease_upkeep(struct ls_lake *lake);
/* Give a lease back that was not used for a while. */
void lake_lease_rest(struct ls_lake_stream *s);
void lake_lease_upkeep_rest(struct ls_lake *lake);
/* The threads are joined. */
void lake_leases_close(struct ls_lake *lake);
/* Not a failure, but other brokers at the same work: it is looked at again later. */
static inline bool
lake_is_elsewhere(const struct ls_lake *lake, ls_err e)
{
        return lake->o.shared && (e == LS_BUSY || e == LS_CONFLICT);
}
/* Brings the views of the stream to what other brokers have committed. LS_CANCELED: it is gone. */
LS_MUST_USE ls_err lake_refresh(struct ls_lake_stream *s);
/* Wall clock, that of the database. */
int64_t lake_now_ms(struct ls_lake *lake);
/* Compares the clocks, now and then (`force`: now). One thread at a time. */
void lake_clock_set(struct ls_lake *lake, bool force);

/* The epochs that are open, at one moment. */
struct lake_epochs {
        uint64_t own, last; /* last: the highest that was given out */
        uint64_t *open;
        size_t count, cap;
};
/* To be read before the names of what is not garbage are: who is closed can name nothing any more,
 * and what it has named stands there. Free it, also after a failure. */
LS_MUST_USE ls_err lake_epochs_read(struct ls_lake *lake, struct lake_epochs *ret);
void lake_epochs_free(struct lake_epochs *epochs);
/* An object of this epoch that nothing names will never be named. */
bool lake_epoch_closed(const struct lake_epochs *epochs, uint64_t epoch);

/* --- compact.c, merge.c: within a run --- */

/* A data file that a run wrote. */
struct lake_new_file {
        char *key;
        struct ls_rows_writer *writer;   /* owns info */
        const struct ls_rows_file *info; /* rows.h */
        const struct ls_iceberg_value
                *tuple; /* of the partition spec, a value a field; NULL: unpartitioned */
};
/* A data file that leaves the current snapshot. */
struct lake_old_file {
        uint64_t id;
        char *key;
};
/* What a run wants to change: one table commit. */
struct lake_change {
        const char *operation; /* Iceberg's: "append", "replace", "delete" */
        int64_t as_of_ms;      /* when its oldest new record was appended (wall); 0: none */
        struct lake_new_file *files;
        size_t file_count, file_cap;
        const struct ls_iceberg_spec *partitioning; /* of the files' tuples; NULL: unpartitioned */
        struct lake_old_file *old_files;
        size_t old_file_count;
        struct ls_meta_extent *add_extents; /* file_id of a new file: index + 1 */
        bool *file_is_new;
        size_t add_extent_count, add_extent_cap;
        struct ls_meta_extent *remove_extents;
        size_t remove_extent_count, remove_extent_cap;
        struct ls_meta_floor *floors;
        size_t floor_count, floor_cap;
        int64_t *floors_from; /* where each stood when the change was made */
        size_t floor_from_count, floor_from_cap;
};
/* compact.c: adds an open data file to the change. group_bytes: of a row group, 0: the default. */
LS_MUST_USE ls_err lake_file_open(struct ls_lake_stream *s, const struct ls_lake_spec *spec,
                                  struct lake_change *change, uint64_t group_bytes);
/* table.c: writes manifest, manifest list and metadata file (each durable before it is named),
 * publishes with one metadata transaction, and keeps the table's cached state up to date. On
 * anything but LS_OK nothing was published, and what was uploaded (the change's data files too) is
 * on the garbage list; LS_CONFLICT: another commit came first, the cached state was dropped, the
 * run may be made again. With other brokers about, the same change is first tried on what they
 * committed, as long as what it replaces and the floors it begins at stand there. */
LS_MUST_USE ls_err lake_table_commit(struct ls_lake_stream *s, struct lake_change *change);

/* Compacts all that is stable now into Parquet and publishes a snapshot; nothing to do is LS_OK and
 * no commit. Past `deadline_ms` (monotonic; INT64_MAX: none) it commits what it has and ends, LS_OK
 * too. On failure the uploaded objects are put on the garbage list. */
LS_MUST_USE ls_err lake_compact(struct ls_lake_stream *s, int64_t deadline_ms);
/* Outside of a run (it begins its own for the commits, so that loads and compaction go on while it
 * copies rows): rows older than table.retention.ms leave, small files are merged when there are
 * enough of them, old snapshots expire. Each is one table commit, or none. One at a time a stream:
 * LS_OK when another thread is at it. */
LS_MUST_USE ls_err lake_maintain(struct ls_lake_stream *s);
/* purge.c: the part of lake_maintain that drops old rows. A step is bounded. */
LS_MUST_USE ls_err lake_purge(struct ls_lake_stream *s);
/* Deletes objects under the stream's folder that nothing names: no file row, no metadata in the
 * current metadata file's log, no manifest list or manifest of a kept snapshot, nothing on the
 * garbage list; only what was written in an epoch that is closed (names carry it) and is older than
 * `age_ms`. Called now and then. */
LS_MUST_USE ls_err lake_sweep(struct ls_lake_stream *s, int64_t age_ms);
/* The same for the WAL's objects in the store; shared only. */
LS_MUST_USE ls_err lake_sweep_wal(struct ls_lake *lake, int64_t age_ms);
/* Drops the cached state (the stream is freed). */
void lake_table_free(void *table);
/* Drops it when nobody used it for a while (`now_ms` is monotonic). */
void lake_table_forget(struct ls_lake_stream *s, int64_t now_ms);

/* --- retention.c, gc.c --- */

/* retention.ms, retention.bytes: moves log starts, a bounded step at a time. */
LS_MUST_USE ls_err lake_retention(struct ls_lake_stream *s);
/* Deletes garbage whose grace is over, WAL segments that nothing names; calls lake_backup. For the
 * whole lake. `force`: now, whatever is due when. */
LS_MUST_USE ls_err lake_collect(struct ls_lake *lake, bool force);

/* --- backup.c --- */

/* A copy of the metadata into the store when it is time (`force`: now) and something changed since
 * the last one; keeps the newest few. `now_ms` is monotonic. The upkeep thread only. */
LS_MUST_USE ls_err lake_backup(struct ls_lake *lake, int64_t now_ms, bool force);

/* --- history_readers.c: open files of consumers that read history --- */
struct lake_history;
/* `jobs` is borrowed; NULL: nothing is read ahead. */
struct lake_history *lake_history_new(struct ls_jobs *jobs);
struct lake_history *lake_history_ref(struct lake_history *h);
/* Accepts NULL. */
void lake_history_unref(struct lake_history *h);
/* Closes all readers: no read may be under way any more. */
void lake_history_close(struct lake_history *h);
/* Closes those that were not used for a while. */
void lake_history_trim(struct lake_history *h, int64_t now_ms);
/* Closes those of a stream that is freed. */
void lake_history_forget(struct lake_history *h, const struct ls_lake_stream *s);
