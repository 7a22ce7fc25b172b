/* meta/meta.h - the metadata store: the one place where things become visible.
 *
 * Streams, partition state, the index of WAL objects, extents, tables, groups, producers, leases
 * and brokers stand in a relational database: SQLite (sqlite/, embedded) or PostgreSQL (postgres/)
 * behind meta/db.h; the commit protocol and all its checks are written once, above that interface.
 *
 * Writes. Every write is an *op*, handed over with ls_meta_submit. One thread takes all that is
 * queued, runs it in one transaction in the order of submission (each op in a savepoint), commits,
 * then calls every op's `done`. An op that meets an outcome (> 0) leaves nothing behind and does
 * not disturb the others. Each transaction checks under lock that this broker's epoch is still the
 * open one: LS_EFENCED else, for all. When the database says that it is full, all ops of the
 * transaction fail with LS_ENOSPC and nothing was written; when a commit fails in a way that leaves
 * its outcome unknown, `on_lost` is called (the process must end and recover). The ls_meta_<verb>
 * functions below are blocking wrappers around ops, except where they say otherwise.
 *
 * Reads run on their own connections from the caller's thread and see everything committed before.
 * Threads: any, unless noted. Stored formats: docs/formats/metadata.md (tables), index_blob.md.
 */
#pragma once
#include "base/err.h"
#include "base/slice.h"
#include "base/uuid.h"

#define LS_META_CHUNK_PARTITIONS 64
#define LS_META_PARTITIONS_MAX   100000 /* per stream */
#define LS_META_NAME_BYTES_MAX   249    /* Kafka's limit of a topic name */
#define LS_META_FORMAT_LEVEL     1
#define LS_META_WAL_KEY_BYTES    64

struct ls_meta;

struct ls_meta_options {
        const char *sqlite_path;
        /* "postgres://…" or libpq's "host=… dbname=…": PostgreSQL, and sqlite_path is not used;
         * NULL: SQLite */
        const char *postgres_url;
        bool sync_full; /* SQLite: synchronous=FULL, else NORMAL (wal.sync=off): consistent, may
                           lose the newest */
        int32_t broker_id;
        const char *rack; /* may be NULL */
        /* The process must end: a commit's outcome is unknown, or it is fenced. Once. */
        void (*on_lost)(void *ctx, const char *why);
        void *on_lost_ctx;
        int64_t producer_expiry_ms; /* producer.id.expiration.ms */
        /* Many brokers: WAL objects lie in the object store. What ls_meta_wal_purge forgets goes on
         * the garbage list by this name, in the same transaction, to be deleted wal_grace_ms later.
         * NULL: they are pieces of segment files. */
        void (*wal_key)(uint64_t segment, char ret_key[LS_META_WAL_KEY_BYTES]);
        int64_t wal_grace_ms;
};

/* Opens (and makes, when absent) the database, checks the format level (LS_NEWER_FORMAT) and
 * integrity, registers this broker by raising its epoch: whatever ran before under this id is
 * fenced from then on. */
LS_MUST_USE ls_err ls_meta_open(const struct ls_meta_options *options, struct ls_meta **ret_meta,
                                struct ls_errinfo *reterr);
/* Runs what is queued, closes the broker's epoch cleanly. */
void ls_meta_close(struct ls_meta *m);
ls_uuid ls_meta_cluster_id(const struct ls_meta *m);
uint64_t ls_meta_broker_epoch(const struct ls_meta *m);
/* How far this broker had come before this opening: the last epoch in which it committed a WAL
 * object (0: none), and 1 + the sequence of the last one. What is above, in the order of (epoch,
 * sequence), was never committed. */
void ls_meta_watermark(const struct ls_meta *m, uint64_t *ret_epoch, uint64_t *ret_sequence);
/* The largest commit number given out. After a restore it is smaller than what WAL objects
 * witnessed. */
LS_MUST_USE ls_err ls_meta_commit_number(struct ls_meta *m, uint64_t *ret_commit);

/* How many transactions this opening has committed, those of heartbeats and announcements alone not
 * counted: whether something changed since a backup. */
uint64_t ls_meta_changes(struct ls_meta *m);

/* --- brokers --- */

/* A row a broker id. *Listed* is who is open and whose heartbeat is young, which only says where
 * clients are sent; who may commit is decided by the epoch alone. Epochs come from one counter: no
 * two openings of any broker have the same. */
struct ls_meta_broker {
        int32_t id;
        uint64_t epoch;
        bool open;
        const char *rack;         /* NULL: none */
        const char *kafka, *http; /* "host:port" as clients are told; NULL: not announced */
        int64_t opened_ms;        /* the database's clock */
        int64_t heartbeat_ms;     /* the same; of the opening when there was none */
        int64_t heartbeat_age_ms; /* by the database's clock, at this read */
};
/* What clients are told of this broker, from now on. */
LS_MUST_USE ls_err ls_meta_announce(struct ls_meta *m, const char *kafka, const char *http);
LS_MUST_USE ls_err ls_meta_heartbeat(struct ls_meta *m);
/* Sorted by id; texts are valid in the callback. */
LS_MUST_USE ls_err ls_meta_brokers(struct ls_meta *m,
                                   ls_err (*fn)(void *ctx, const struct ls_meta_broker *b),
                                   void *ctx);
/* Whether `epoch` is an open one, of whichever broker: what such a writer made is not garbage
 * yet. */
LS_MUST_USE ls_err ls_meta_epoch_open(struct ls_meta *m, uint64_t epoch, bool *ret_open);

/* --- following what other brokers do --- */

/* Versions of everything that brokers follow, in one snapshot: of each live stream's row (it rises
 * with configuration and partitions), ascending ids, then of each chunk (it rises with every change
 * of a partition of it), ascending. What is not named any more is gone. */
LS_MUST_USE ls_err ls_meta_versions(struct ls_meta *m,
                                    ls_err (*stream_fn)(void *ctx, uint64_t stream_id,
                                                        uint64_t version),
                                    ls_err (*chunk_fn)(void *ctx, uint64_t stream_id,
                                                       int32_t first_partition, uint64_t version),
                                    void *ctx);

/* --- ops --- */

struct ls_meta_txn; /* what an op's apply writes through: meta/db.h */
struct ls_meta_op {
        struct ls_meta_op *next;
        /* In the transaction, on the meta thread. Above 0: rolled back alone. Below 0: the whole
         * transaction. */
        ls_err (*apply)(struct ls_meta_op *op, struct ls_meta_txn *txn);
        /* After the commit, on the meta thread; short, must not block. `result`: apply's outcome,
         * or a failure. */
        void (*done)(struct ls_meta_op *op, ls_err result);
};
/* First in, first out: the order of submission is the order of commits. */
void ls_meta_submit(struct ls_meta *m, struct ls_meta_op *op);

/* --- streams --- */

struct ls_meta_config {
        const char *name, *value;
};
struct ls_meta_stream {
        uint64_t id;      /* never reused */
        ls_uuid topic_id; /* never reused: Kafka's topic id, and the table's uuid */
        char *kafka_name; /* round-trips */
        char *catalog;    /* "main" */
        char *ns;         /* "default", or levels joined by '.' : "sales.eu" */
        char *name;
        int32_t partitions;
        int32_t leader_epoch;
        uint64_t version; /* rises with each change of the row */
        int64_t created_ms;
        struct ls_meta_config *configs; /* only what was set; sorted by name */
        size_t config_count;
};
void ls_meta_stream_free(struct ls_meta_stream *s);
/* LS_EXISTS. Fills id, topic_id, … of a fresh copy. partitions 1..LS_META_PARTITIONS_MAX. */
LS_MUST_USE ls_err ls_meta_stream_create(struct ls_meta *m, const struct ls_meta_stream *spec,
                                         struct ls_meta_stream **ret_stream);
/* The same for many at once: they share transactions. Each has a result, and a stream or NULL. */
void ls_meta_streams_create(struct ls_meta *m, const struct ls_meta_stream *specs, size_t count,
                            struct ls_meta_stream **ret_streams, ls_err *ret_results);
/* LS_ABSENT. Removes its groups' offsets too; its files become garbage (grace as given). */
LS_MUST_USE ls_err ls_meta_stream_delete(struct ls_meta *m, uint64_t stream_id, int64_t grace_ms);
/* The same for many at once: they share transactions. */
void ls_meta_streams_delete(struct ls_meta *m, const uint64_t *stream_ids, const int64_t *grace_ms,
                            size_t count, ls_err *ret_results);
/* LS_ABSENT, LS_INVALID when `partitions` is not above the present count. */
LS_MUST_USE ls_err ls_meta_stream_grow(struct ls_meta *m, uint64_t stream_id, int32_t partitions,
                                       struct ls_meta_stream **ret_stream);
/* Sets (value) or unsets (NULL value) names. LS_ABSENT, LS_CONFLICT when version is not 0 and
 * changed. */
LS_MUST_USE ls_err ls_meta_stream_configure(struct ls_meta *m, uint64_t stream_id, uint64_t version,
                                            const struct ls_meta_config *changes, size_t count,
                                            struct ls_meta_stream **ret_stream);
/* All live streams; the callback borrows. */
LS_MUST_USE ls_err ls_meta_stream_list(struct ls_meta *m,
                                       ls_err (*fn)(void *ctx, const struct ls_meta_stream *s),
                                       void *ctx);
/* One live stream, with its settings. LS_ABSENT. The callback borrows. */
LS_MUST_USE ls_err ls_meta_stream_get(struct ls_meta *m, uint64_t stream_id,
                                      ls_err (*fn)(void *ctx, const struct ls_meta_stream *s),
                                      void *ctx);

/* --- partitions and the index --- */

/* Fixed width in the chunk row. Offsets are of the next record: [start, end) is the log. */
struct ls_meta_partition {
        int64_t start;       /* log start */
        int64_t end;         /* offset of the next record */
        int64_t stable;      /* last stable offset; = end while there are no open transactions */
        int64_t floor;       /* below: in extents (parquet, …); from here: in WAL index entries */
        uint64_t hash;       /* sum of h x (2 offset + 1) of all records ever appended, mod 2^64 */
        uint64_t bytes;      /* of batches ever appended, as produced */
        uint64_t floor_hash; /* the part of `hash` below the floor */
        int64_t max_timestamp; /* ms; -1: none */
};
/* Calls fn for each partition in order. LS_ABSENT. */
LS_MUST_USE ls_err ls_meta_partitions(struct ls_meta *m, uint64_t stream_id,
                                      ls_err (*fn)(void *ctx, int32_t partition,
                                                   const struct ls_meta_partition *p),
                                      void *ctx);

/* One accepted batch in the WAL index. */
struct ls_meta_entry {
        int32_t partition;
        int32_t records; /* last offset delta + 1 */
        int64_t base_offset;
        uint64_t object_id; /* row id of the WAL object */
        uint64_t segment;   /* number of the segment file (see wal/segment.h) */
        uint64_t pos;       /* of the batch in the segment file, bytes */
        uint32_t bytes;
        uint8_t flags;                         /* LS_META_BATCH_… */
        int64_t base_timestamp, max_timestamp; /* ms */
        int64_t producer_id;                   /* -1: none */
        int16_t producer_epoch;
        int32_t base_sequence;
        uint64_t s0, s1; /* sums of hashes, docs/formats/record_batch.md */
        uint64_t commit;
        int64_t committed_ms; /* out: the database's time of that commit, wall */
};
enum {
        LS_META_BATCH_CODEC = 7,           /* mask: Kafka's codec number */
        LS_META_BATCH_LOG_APPEND_TIME = 8, /* timestamp type */
        LS_META_BATCH_TRANSACTIONAL = 16,
        LS_META_BATCH_CONTROL = 32,
};
/* Live entries of a stream: those that end above their partition's floor, in commit order, so that
 * offsets of a partition ascend. Entries below the log start but above the floor are among them:
 * the log hides them, the table still has to get them. LS_ABSENT: no such stream; LS_CORRUPT: a
 * damaged row. */
LS_MUST_USE ls_err ls_meta_entries(struct ls_meta *m, uint64_t stream_id,
                                   ls_err (*fn)(void *ctx, const struct ls_meta_entry *e),
                                   void *ctx);

/* In one snapshot: the state of all partitions (fn gets them in order), then the live entries that
 * were committed after commit number `after` (0: all), in commit order. *ret_commit: give that as
 * `after` the next time, and nothing is missed. LS_ABSENT, LS_CORRUPT as above. */
LS_MUST_USE ls_err ls_meta_follow(struct ls_meta *m, uint64_t stream_id, uint64_t after,
                                  ls_err (*partition_fn)(void *ctx, int32_t partition,
                                                         const struct ls_meta_partition *p),
                                  ls_err (*entry_fn)(void *ctx, const struct ls_meta_entry *e),
                                  void *ctx, uint64_t *ret_commit);

/* One batch of a WAL object that is to become visible. Input, then result. */
struct ls_meta_wal_batch {
        uint64_t stream_id;
        struct ls_meta_entry entry; /* in: all but base_offset, object_id, commit. out: those */
        ls_err outcome; /* LS_OK; LS_DUPLICATE (base_offset is the first answer's); LS_SEQUENCE_GAP;
                         * LS_STALE_EPOCH (fenced producer, Kafka 47); LS_UNKNOWN_PRODUCER;
                         * LS_ABSENT (stream or partition gone). */
        int64_t log_start; /* out */
};
/* A durable WAL object. Its batches are sorted by stream and partition, batches of a partition
 * contiguous and in order of arrival. */
struct ls_meta_wal_commit {
        struct ls_meta_op op; /* set done before; op.apply is set by ls_meta_wal_submit */
        uint64_t sequence;    /* of the object within the broker's epoch; ascending */
        uint64_t segment;
        uint64_t pos, bytes; /* of the object in the segment */
        struct ls_meta_wal_batch *batches;
        size_t batch_count;
        uint64_t commit; /* out: the commit number; 0: nothing was accepted, nothing written */
        int64_t now_ms;  /* not used: times are the database's */
        /* NULL, or asked on the meta thread when its turn has come: false ends it with LS_CANCELED,
         * and nothing is written. */
        bool (*wanted)(const struct ls_meta_wal_commit *commit);
};
/* Asynchronous: op.done comes on the meta thread, in order of submission. Offsets are assigned,
 * producers checked (last five batches, wrap-around 2^31-1 -> 0), the index row and the chunks
 * written. The result is LS_OK also when batches are refused: each has its outcome; LS_EXISTS when
 * an object of this or a higher sequence was committed in this epoch. Further outcomes of a batch:
 * LS_INVALID (no records), LS_UNSUPPORTED (transactional), LS_CORRUPT (what the database holds of
 * its partition is damaged). */
void ls_meta_wal_submit(struct ls_meta *m, struct ls_meta_wal_commit *commit);

/* Raises the log start (DeleteRecords, retention): per partition `start` = max(old, min(start,
 * stable)). LS_OUT_OF_RANGE when start > end; *ret_start is what stands now. Entries and extents
 * wholly below become invisible for the log; the table keeps its rows. */
LS_MUST_USE ls_err ls_meta_log_start(struct ls_meta *m, uint64_t stream_id, int32_t partition,
                                     int64_t start, int64_t *ret_start);

/* For a stream whose records go to no table: what the log hides of its WAL entries (whole batches
 * below the log start, from the floor on) becomes a hole, so that the WAL behind it is purged. A
 * stream with a table must not do this: its table still gets those records. *ret_partitions: how
 * many moved. LS_ABSENT, LS_CONFLICT (another commit came first: later again). */
LS_MUST_USE ls_err ls_meta_log_discard(struct ls_meta *m, uint64_t stream_id,
                                       size_t *ret_partitions);

/* Deletes up to `count_max` index rows that are dead (all their batches below the floor, or their
 * stream gone), the WAL objects that have no row left, and extents of deleted streams, in one op;
 * it goes on where the last call ended. *ret_deleted: rows; 0: nothing was found (and nothing
 * written). */
LS_MUST_USE ls_err ls_meta_wal_purge(struct ls_meta *m, size_t count_max, size_t *ret_deleted);
/* Segment numbers that some live object names, ascending. */
LS_MUST_USE ls_err ls_meta_wal_segments(struct ls_meta *m,
                                        ls_err (*fn)(void *ctx, uint64_t segment), void *ctx);
/* WAL objects still named, in order (recovery and doctor check them). */
struct ls_meta_wal_object {
        uint64_t id, epoch, sequence, segment, pos, bytes, commit;
        int32_t broker;
};
LS_MUST_USE ls_err ls_meta_wal_objects(struct ls_meta *m,
                                       ls_err (*fn)(void *ctx, const struct ls_meta_wal_object *o),
                                       void *ctx);

/* --- producers --- */

/* A fresh producer id with epoch 0; ids are taken from the database in blocks of 1,000, never
 * reused. */
LS_MUST_USE ls_err ls_meta_producer_new(struct ls_meta *m, int64_t *ret_id);
struct ls_meta_producer {
        int64_t id;
        int16_t epoch;
        int32_t last_sequence;
        int64_t last_timestamp; /* ms, of its last batch */
        int64_t last_base_offset;
};
/* Active producers of a partition (DescribeProducers). */
LS_MUST_USE ls_err ls_meta_producers(struct ls_meta *m, uint64_t stream_id, int32_t partition,
                                     ls_err (*fn)(void *ctx, const struct ls_meta_producer *p),
                                     void *ctx);

/* --- extents and tables --- */

enum ls_meta_extent_kind {
        LS_META_EXTENT_WAL = 0,     /* never a row: WAL extents are index entries */
        LS_META_EXTENT_PARQUET = 1, /* rows [first_row, first_row + rows) of a data file */
        LS_META_EXTENT_MARKER = 2,  /* a transaction's end, inline */
        LS_META_EXTENT_RAW = 3,     /* batches as they are, in an object */
        LS_META_EXTENT_HOLE = 4,    /* removed on purpose */
};
struct ls_meta_extent {
        int32_t partition;
        enum ls_meta_extent_kind kind;
        /* [base, end). Extents of one range in several files are a group: their rows are disjoint,
         * and they are served merged by offset (a table partitioned by something else than time) */
        int64_t base_offset, end_offset;
        uint64_t file_id;                     /* parquet, raw: a data file; 0 else */
        int64_t first_row, rows;              /* rows may be fewer than end - base: holes inside */
        int64_t min_timestamp, max_timestamp; /* ms */
        uint64_t hash;                        /* sum over its records */
        uint64_t log_bytes;                   /* of its batches as produced */
        uint8_t flags;        /* LS_META_BATCH_LOG_APPEND_TIME when all records are of that type */
        ls_span inline_bytes; /* marker */
};
struct ls_meta_file {
        uint64_t id;     /* 0 in an addition: out */
        const char *key; /* in the store */
        uint64_t bytes;
        int64_t rows;
        uint64_t added_commit; /* out */
        int64_t removed_ms;    /* out: 0 while in the current snapshot */
};
/* What stands of a stream's table. */
struct ls_meta_table {
        uint64_t version;          /* rises by one with each table commit; 0: no snapshot yet */
        char *metadata_key;        /* of the newest metadata file in the store; NULL at version 0 */
        struct ls_slice *metadata; /* its JSON; NULL at version 0 */
        uint64_t commit;           /* number of the last table commit */
        int64_t updated_ms;
};
void ls_meta_table_done(struct ls_meta_table *t);
/* LS_ABSENT: no such stream. */
LS_MUST_USE ls_err ls_meta_table(struct ls_meta *m, uint64_t stream_id,
                                 struct ls_meta_table *ret_table);

/* One transaction: publishes a snapshot, adds and removes files and extents, raises floors, writes
 * the producer checkpoints of the touched chunks, and turns what it replaces into garbage. Checks:
 * version, every removed extent and file is there as stated (row counts decide), extents stay dense
 * (each partition: the added extents begin at its floor and reach the new floor, or replace exactly
 * the removed range), hash sums agree with floor_hash / the removed extents' sums: LS_CORRUPT with
 * words if not. */
struct ls_meta_table_commit {
        uint64_t stream_id;
        uint64_t version;         /* the one it was built on: LS_CONFLICT when another came first */
        const char *metadata_key; /* NULL (and null metadata): no snapshot, the version stays */
        ls_span metadata;
        struct ls_meta_file *add_files;
        size_t add_file_count;
        const uint64_t *remove_files;
        size_t remove_file_count;
        /* file_id of an added extent: index into add_files + 1 when file_is_new[i], else an id */
        struct ls_meta_extent *add_extents;
        const bool *file_is_new;
        size_t add_extent_count;
        const struct ls_meta_extent *remove_extents; /* by partition, base_offset */
        size_t remove_extent_count;
        struct ls_meta_floor {
                int32_t partition;
                int64_t floor;
        } * floors; /* new floors, above the old ones */
        size_t floor_count;
        const char *const
                *garbage; /* keys to delete after garbage_grace_ms: old metadata, manifests */
        size_t garbage_count;
        int64_t garbage_grace_ms;
        int64_t now_ms;  /* not used: times are the database's */
        uint64_t commit; /* out */
};
/* LS_OK; LS_CONFLICT: another commit came first (load the table again), or what is removed or
 * referred to is not there; LS_CORRUPT: the records do not add up, or do not cover; LS_INVALID:
 * malformed; LS_ABSENT: no such stream. Floors may stand inside a batch; its sum is then checked at
 * the next floor that doesn't. */
LS_MUST_USE ls_err ls_meta_table_publish(struct ls_meta *m, struct ls_meta_table_commit *commit,
                                         struct ls_errinfo *reterr);
/* Extents of a partition that overlap [from, to), in order. */
LS_MUST_USE ls_err ls_meta_extents(struct ls_meta *m, uint64_t stream_id, int32_t partition,
                                   int64_t from, int64_t to, size_t count_max,
                                   ls_err (*fn)(void *ctx, const struct ls_meta_extent *e,
                                                const struct ls_meta_file *file),
                                   void *ctx);
/* Data files of a stream: those in the current snapshot, and with `removed` those waiting for
 * deletion. */
LS_MUST_USE ls_err ls_meta_files(struct ls_meta *m, uint64_t stream_id, bool removed,
                                 ls_err (*fn)(void *ctx, const struct ls_meta_file *f), void *ctx);

/* --- garbage --- */

/* Keys whose grace is over by the database's clock, oldest first (data files that left the current
 * snapshot count from then). */
LS_MUST_USE ls_err ls_meta_garbage(struct ls_meta *m, size_t count_max,
                                   ls_err (*fn)(void *ctx, const char *key), void *ctx);
/* All of them, also those whose grace is not over. */
LS_MUST_USE ls_err ls_meta_garbage_all(struct ls_meta *m, ls_err (*fn)(void *ctx, const char *key),
                                       void *ctx);
/* Puts keys on the list (an upload that failed to be published). */
LS_MUST_USE ls_err ls_meta_garbage_add(struct ls_meta *m, const char *const *keys, size_t count,
                                       int64_t due_ms);
/* They are deleted from the store: forget them. */
LS_MUST_USE ls_err ls_meta_garbage_done(struct ls_meta *m, const char *const *keys, size_t count);
/* Deleted streams of which nothing is left but objects in the store, whose grace is over by the
 * database's clock: all under their folder may go. Oldest first. */
LS_MUST_USE ls_err ls_meta_gone(struct ls_meta *m, size_t count_max,
                                ls_err (*fn)(void *ctx, uint64_t stream_id, ls_uuid topic_id),
                                void *ctx);
/* The folder is empty: forget the stream. */
LS_MUST_USE ls_err ls_meta_gone_done(struct ls_meta *m, uint64_t stream_id);
/* True when a live row names the key (files, tables' metadata): for the orphan sweep. Manifests are
 * named by metadata JSON, so the sweep asks the lake for those. */
LS_MUST_USE ls_err ls_meta_names(struct ls_meta *m, const char *key, bool *ret_named);

/* --- leases --- */

/* LS_BUSY when another broker's (or another epoch's, not expired) stands. Renewing is acquiring
 * again. */
LS_MUST_USE ls_err ls_meta_lease(struct ls_meta *m, const char *resource, int64_t ttl_ms);
LS_MUST_USE ls_err ls_meta_lease_release(struct ls_meta *m, const char *resource);

/* --- groups --- */

struct ls_meta_offset {
        const char *topic; /* Kafka name; out: valid in the callback */
        uint64_t stream_id;
        int32_t partition;
        int32_t leader_epoch; /* -1: unknown */
        int64_t offset;
        ls_str metadata; /* null allowed */
        int64_t commit_ms;
        int64_t expire_ms; /* -1: by the group's retention */
};
struct ls_meta_group {
        const char *group_id;
        uint64_t version;   /* rises with each store */
        int32_t generation; /* checked by offset commits */
        ls_span state;      /* the coordinator's blob, versioned by it */
};
/* LS_CONFLICT when the stored version is not `group->version` (0: must not exist); stores version
 * + 1. */
LS_MUST_USE ls_err ls_meta_group_store(struct ls_meta *m, const struct ls_meta_group *group);
/* The same, asynchronous, for the coordinator (whose offset commits must come after it): all
 * pointers are borrowed until done. `group.version` in: the version expected; the row then has
 * version + 1. */
struct ls_meta_group_op {
        struct ls_meta_op op; /* set done before; apply is set by the call */
        struct ls_meta_group group;
};
void ls_meta_group_submit(struct ls_meta *m, struct ls_meta_group_op *op);
LS_MUST_USE ls_err ls_meta_group_list(struct ls_meta *m,
                                      ls_err (*fn)(void *ctx, const struct ls_meta_group *g),
                                      void *ctx);
/* One group's row. LS_ABSENT (version 0 counts as absent). */
LS_MUST_USE ls_err ls_meta_group_get(struct ls_meta *m, const char *group_id,
                                     ls_err (*fn)(void *ctx, const struct ls_meta_group *g),
                                     void *ctx);
/* Removes the group and its offsets. LS_ABSENT. */
LS_MUST_USE ls_err ls_meta_group_delete(struct ls_meta *m, const char *group_id);
/* The same if the row's version is `version` (0: any), LS_CONFLICT else: another coordinator has
 * written it. */
LS_MUST_USE ls_err ls_meta_group_delete_at(struct ls_meta *m, const char *group_id,
                                           uint64_t version);
/* Stores offsets if the group's generation is `generation` (checked in the transaction; -1: no
 * check) else LS_STALE_EPOCH. A group row is made when absent and generation is -1. Offsets of
 * streams that are gone are skipped: their `stream_id` is set to 0. */
LS_MUST_USE ls_err ls_meta_offsets_store(struct ls_meta *m, const char *group_id,
                                         int32_t generation, struct ls_meta_offset *offsets,
                                         size_t count);
/* The same, asynchronous, for a loop: all pointers are borrowed until done. */
struct ls_meta_offsets_op {
        struct ls_meta_op op; /* set done before; apply is set by the call */
        const char *group_id;
        int32_t generation;
        /* Checked as well, in the transaction: of the group's row, LS_CONFLICT when it has another
         * or is not there. 0: no check. */
        uint64_t version;
        struct ls_meta_offset *offsets;
        size_t count;
};
void ls_meta_offsets_submit(struct ls_meta *m, struct ls_meta_offsets_op *op);
LS_MUST_USE ls_err ls_meta_offsets(struct ls_meta *m, const char *group_id,
                                   ls_err (*fn)(void *ctx, const struct ls_meta_offset *o),
                                   void *ctx);
/* LS_OK also for those that are not there. */
LS_MUST_USE ls_err ls_meta_offsets_delete(struct ls_meta *m, const char *group_id,
                                          const struct ls_meta_offset *offsets, size_t count);
/* The same if the version of the group's row is `version` (0: no check), LS_CONFLICT else. */
LS_MUST_USE ls_err ls_meta_offsets_delete_at(struct ls_meta *m, const char *group_id,
                                             uint64_t version, const struct ls_meta_offset *offsets,
                                             size_t count);

/* --- namespaces without streams, properties (Iceberg REST) --- */

/* LS_EXISTS. `properties` is JSON text. */
LS_MUST_USE ls_err ls_meta_namespace_create(struct ls_meta *m, const char *catalog, const char *ns,
                                            const char *properties);
/* LS_ABSENT, LS_NOT_EMPTY. */
LS_MUST_USE ls_err ls_meta_namespace_drop(struct ls_meta *m, const char *catalog, const char *ns);
LS_MUST_USE ls_err ls_meta_namespace_set(struct ls_meta *m, const char *catalog, const char *ns,
                                         const char *properties);
LS_MUST_USE ls_err ls_meta_namespaces(struct ls_meta *m, const char *catalog,
                                      ls_err (*fn)(void *ctx, const char *ns,
                                                   const char *properties),
                                      void *ctx);

/* --- backup --- */

/* A consistent copy of the database as one file at `path` (which must not exist: LS_EXISTS).
 * LS_UNSUPPORTED: on PostgreSQL. */
LS_MUST_USE ls_err ls_meta_backup(struct ls_meta *m, const char *path, struct ls_errinfo *reterr);
/* Structural check of the database: index rows decode, extents dense, sums agree. fn gets a line a
 * finding. */
LS_MUST_USE ls_err ls_meta_check(struct ls_meta *m, void (*fn)(void *ctx, const char *finding),
                                 void *ctx);
