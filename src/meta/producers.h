/* meta/producers.h - what is remembered of idempotent producers (KIP-98), per chunk.
 *
 * Per producer and partition: epoch, and of the last five batches their sequences and base offsets.
 * In memory on the meta thread. It stands in the database twice over: in the index entries, and,
 * for those that compaction has made dead, in a checkpoint a chunk that is written in the
 * transaction which raises the floor. So checkpoint + entries after it = state, after a restart and
 * on any broker.
 *
 * Threads: the meta thread. */
#pragma once
#include "meta/meta_int.h"

struct meta_producer_batch {
        int32_t first_sequence, last_sequence;
        int64_t base_offset;
};
struct meta_producer {
        int64_t id;
        uint32_t partition; /* within the chunk */
        int16_t epoch;
        uint8_t batch_count;                                          /* 1..5 */
        struct meta_producer_batch batches[LS_META_PRODUCER_BATCHES]; /* oldest first */
        int64_t last_timestamp; /* max timestamp of its last batch */
        int64_t last_ms;        /* when its last batch was committed */
};
struct meta_producers {
        struct ls_map by_key; /* (partition, id) -> struct meta_producer */
        uint64_t through;     /* of the checkpoint: batches up to this commit number are in it */
        size_t sweep_at;      /* look for expired ones when there are so many */
        bool changed;         /* since the checkpoint that stands in the database */
};

struct meta_producers *meta_producers_new(void);
void meta_producers_free(struct meta_producers *p);

/* Loads the state of all chunks of a stream that are in the cache without it. Call it before the
 * first look at c->producers; `c` must be touched by the present op. */
LS_MUST_USE ls_err meta_producers_load(struct ls_meta_txn *txn, struct meta_chunk *c);

/* What becomes of a batch: LS_OK, LS_DUPLICATE (*ret_base_offset), LS_SEQUENCE_GAP, LS_STALE_EPOCH.
 * As Apache Kafka 4 (ProducerAppendInfo): without state any first sequence is right. */
LS_MUST_USE ls_err meta_producer_check(struct meta_producers *p, uint32_t partition,
                                       const struct ls_meta_entry *e, int64_t now_ms,
                                       int64_t expiry_ms, int64_t *ret_base_offset);
/* Remembers an accepted batch (base_offset is set). */
void meta_producer_note(struct meta_producers *p, uint32_t partition, const struct ls_meta_entry *e,
                        int64_t now_ms, int64_t expiry_ms);
/* Forgets those that were idle for longest, until `keep` are left: what bounds memory and the
 * checkpoint when producers come and go faster than they expire. */
void meta_producers_trim(struct meta_producers *p, size_t keep);
/* Forgets producers whose last batch is older than expiry_ms. */
void meta_producers_sweep(struct meta_producers *p, int64_t now_ms, int64_t expiry_ms);

/* The checkpoint blob (docs/formats/metadata.md). Decoding adds to `p`. LS_CORRUPT;
 * LS_NEWER_FORMAT. */
void meta_producers_encode(struct ls_buf *out, const struct meta_producers *p);
LS_MUST_USE ls_err meta_producers_decode(ls_span blob, struct meta_producers *p);
/* Writes the checkpoint of a chunk if it changed. `commit`: the number of the present commit, which
 * is above those of all batches noted. */
LS_MUST_USE ls_err meta_producers_checkpoint(struct ls_meta_txn *txn, struct meta_chunk *c,
                                             uint64_t commit);
