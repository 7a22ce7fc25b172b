/* meta/meta_int.h - what the files of this folder share.
 *
 * Threads: the writing connection, the chunk cache and what hangs on it belong to the meta thread.
 * The queue and the pool of read connections have a lock each; neither is held across a statement.
 * */
#pragma once
#include <stdatomic.h>

#include "base/buf.h"
#include "base/map.h"
#include "meta/db.h"
#include "meta/limits.h"
#include "meta/meta.h"
#include "sys/jobs.h"

/* Rows of `counter`. */
enum meta_counter {
        META_COUNTER_COMMIT = 1,
        META_COUNTER_STREAM = 2,
        META_COUNTER_PRODUCER = 3,
        META_COUNTER_FILE = 4,
        META_COUNTER_EPOCH = 5,     /* epochs, of all brokers together */
        META_COUNTER_BROKER = 1000, /* + broker id: 1 + sequence of its last committed WAL object
                                     * in the present epoch */
};
/* The same of the last epoch before in which the broker committed one: that epoch, and 1 + the
 * sequence. */
#define META_COUNTER_BEFORE_EPOCH(broker)    (-1 - 2 * (int64_t)(broker))
#define META_COUNTER_BEFORE_SEQUENCE(broker) (-2 - 2 * (int64_t)(broker))

struct meta_producers;

/* The state of up to 64 partitions as of `version` of its row. */
struct meta_chunk {
        uint64_t id;
        uint64_t version;
        uint64_t op;    /* number of the op that touched it last */
        bool dirty;     /* changed by the present op, not written */
        bool refused;   /* the present op refused something because of what stands here */
        uint32_t count; /* partitions */
        struct meta_producers *producers; /* NULL: not loaded. producers.c */
        struct ls_meta_partition *parts;  /* `count` of them: most topics have few */
};

struct meta_chunks {
        struct ls_map by_id;
        uint64_t op;       /* number of the present op */
        uint64_t *touched; /* ids of the chunks touched in the transaction, in order */
        size_t touched_count, touched_cap;
        size_t op_mark; /* those of the present op begin here */
};

struct ls_meta {
        struct ls_meta_options options;
        char *path, *rack;
        void *driver_options; /* ls_free */
        struct ls_db_driver driver;
        ls_uuid cluster_id;
        uint64_t epoch;
        uint64_t epoch_before, sequence_before; /* ls_meta_watermark */
        _Atomic uint64_t changes;               /* transactions committed by the meta thread */

        /* the queue */
        pthread_mutex_t lock;
        struct ls_cond work;
        struct ls_meta_op *head, *tail;
        bool stop;
        struct ls_thread *thread;

        /* the meta thread's */
        struct ls_db *db;
        struct meta_chunks chunks;
        struct ls_buf scratch, scratch2;
        ls_err dead;                         /* fenced or lost: what every further op fails with */
        uint64_t purge_stream, purge_object; /* where the next slice goes on */

        /* read connections not in use */
        pthread_mutex_t read_lock;
        struct ls_db *readers[LS_META_READERS_IDLE_MAX];
        size_t reader_count;

        pthread_mutex_t id_lock;
        int64_t producer_next, producer_end; /* of the block in use */
};

struct ls_meta_txn {
        struct ls_meta *m;
        struct ls_db *db;
        int64_t now_ms; /* the database's clock at the begin */
        bool single;    /* one op only: no savepoint, undoing it is undoing all */
        size_t quiet;   /* ops that ls_meta_changes does not count: nobody would restore them */
};

/* Opens on connections of `driver` (tests wrap them). `driver_options` is freed at close. */
LS_MUST_USE ls_err meta_open_with(const struct ls_meta_options *options, struct ls_db_driver driver,
                                  void *driver_options, struct ls_meta **ret_meta,
                                  struct ls_errinfo *reterr);

/* --- writer.c --- */

LS_MUST_USE ls_err meta_writer_start(struct ls_meta *m);
/* Runs what is queued, joins. */
void meta_writer_stop(struct ls_meta *m);
/* Undoes what the present op has written, with the chunks it touched, so that it can be done again.
 */
LS_MUST_USE ls_err meta_txn_redo(struct ls_meta_txn *txn);
/* Adds `step` to a counter; *ret_value: what stands now. */
LS_MUST_USE ls_err meta_txn_count(struct ls_meta_txn *txn, enum meta_counter counter, int64_t step,
                                  uint64_t *ret_value);

/* An op whose submitter waits. */
struct meta_call {
        struct ls_meta_op op; /* apply is set by the caller */
        pthread_mutex_t lock;
        struct ls_cond cond;
        bool finished;
        ls_err result;
};
LS_MUST_USE ls_err meta_call_run(struct ls_meta *m, struct meta_call *call);
/* The same in two steps, so that many calls share a transaction. */
void meta_call_begin(struct ls_meta *m, struct meta_call *call);
LS_MUST_USE ls_err meta_call_wait(struct meta_call *call);

/* --- reader.c --- */

/* A read connection inside a read transaction (one snapshot); give it back with meta_read_end. */
LS_MUST_USE ls_err meta_read_begin(struct ls_meta *m, struct ls_db **ret_db);
void meta_read_end(struct ls_meta *m, struct ls_db *db);
void meta_readers_close(struct ls_meta *m);

/* --- chunks.c --- */

static inline uint64_t
meta_chunk_id(uint64_t stream_id, int32_t partition)
{
        return stream_id * LS_META_CHUNKS_PER_STREAM +
               (uint64_t)partition / LS_META_CHUNK_PARTITIONS;
}
static inline uint64_t
meta_chunk_stream(uint64_t chunk_id)
{
        return chunk_id / LS_META_CHUNKS_PER_STREAM;
}
void meta_chunk_free(struct meta_chunk *c);
/* A partition without records. */
#define META_PARTITION_FRESH        \
        {                           \
                .max_timestamp = -1 \
        }
/* Adds fresh partitions up to `count`. */
void meta_chunk_resize(struct meta_chunk *c, uint32_t count);
/* State blobs. LS_CORRUPT; LS_NEWER_FORMAT. */
void meta_chunk_encode(struct ls_buf *out, const struct ls_meta_partition *parts, uint32_t count);
LS_MUST_USE ls_err meta_chunk_decode(ls_span blob, struct ls_meta_partition *ret_parts,
                                     uint32_t *ret_count);
/* The chunk, from the cache or the database, marked as touched by the present op. Borrowed until
 * the next op begins. LS_ABSENT; LS_CORRUPT. */
LS_MUST_USE ls_err meta_chunk_get(struct ls_meta_txn *txn, uint64_t chunk_id,
                                  struct meta_chunk **ret_chunk);
/* Writes the chunk on the version it was read at. LS_CONFLICT: another broker came first; redo. */
LS_MUST_USE ls_err meta_chunk_write(struct ls_meta_txn *txn, struct meta_chunk *c);
/* Writes all that the present op made dirty, and makes sure that what it refused by was up to date.
 * LS_CONFLICT: redo. */
LS_MUST_USE ls_err meta_chunks_flush(struct ls_meta_txn *txn);
/* The partition of a chunk. LS_ABSENT: the stream has no such partition. */
LS_MUST_USE ls_err meta_partition_get(struct ls_meta_txn *txn, uint64_t stream_id,
                                      int32_t partition, struct meta_chunk **ret_chunk,
                                      struct ls_meta_partition **ret_p);
void meta_chunks_begin_txn(struct ls_meta *m);
void meta_chunks_begin_op(struct ls_meta *m);
/* The present op, or the whole transaction, was rolled back: forget what it touched. */
void meta_chunks_drop_op(struct ls_meta *m);
void meta_chunks_drop_txn(struct ls_meta *m);
/* Forgets the chunks of a stream. */
void meta_chunks_drop_stream(struct ls_meta *m, uint64_t stream_id);
void meta_chunks_done(struct ls_meta *m);

/* --- commit.c --- */

/* Does a WAL commit inside an op. `epoch` 0: of this broker, and its sequence is checked; else it
 * is the replay of an object of (broker, epoch). */
LS_MUST_USE ls_err meta_commit_apply(struct ls_meta_wal_commit *commit, struct ls_meta_txn *txn,
                                     int32_t broker, uint64_t epoch);

/* --- partitions.c --- */

/* The table's version, the state of all partitions, then live entries, of one snapshot; each of
 * them may be NULL. LS_ABSENT. */
LS_MUST_USE ls_err meta_entries_snapshot(
        struct ls_meta *m, uint64_t stream_id, uint64_t *ret_version,
        ls_err (*partition_fn)(void *ctx, int32_t partition, const struct ls_meta_partition *p),
        ls_err (*entry_fn)(void *ctx, const struct ls_meta_entry *e), void *ctx);
/* The partitions of a stream on a connection; *ret_parts is the caller's (ls_free). LS_ABSENT;
 * LS_CORRUPT. */
LS_MUST_USE ls_err meta_partitions_read(struct ls_db *db, uint64_t stream_id,
                                        struct ls_meta_partition **ret_parts, size_t *ret_count);

/* --- streams.c --- */

/* Whether the stream lives. LS_ABSENT. */
LS_MUST_USE ls_err meta_stream_exists(struct ls_db *db, uint64_t stream_id);

/* --- gc.c --- */

/* ls_meta_garbage and ls_meta_gone as of a given time. */
LS_MUST_USE ls_err meta_garbage_at(struct ls_meta *m, int64_t now_ms, size_t count_max,
                                   ls_err (*fn)(void *ctx, const char *key), void *ctx);
LS_MUST_USE ls_err meta_gone_at(struct ls_meta *m, int64_t now_ms, size_t count_max,
                                ls_err (*fn)(void *ctx, uint64_t stream_id, ls_uuid topic_id),
                                void *ctx);

/* Puts a key on the list unless a live row names it. */
LS_MUST_USE ls_err meta_garbage_put(struct ls_db *db, const char *key, int64_t due_ms);
/* LS_OK; LS_EXISTS: the key is on the list, its object may go at any moment. */
LS_MUST_USE ls_err meta_garbage_free_of(struct ls_db *db, const char *key);
