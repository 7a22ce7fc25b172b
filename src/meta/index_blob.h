/* meta/index_blob.h - the packed row of the WAL index: the batches of one stream in one WAL object.
 *
 * Byte layout: docs/formats/index_blob.md. The reader trusts nothing: every number is bounded, and
 * the checksum is checked first. Threads: any.
 */
#pragma once
#include "base/buf.h"
#include "base/rd.h"
#include "meta/meta.h"

#define LS_INDEX_BLOB_MAGIC   0xB1
#define LS_INDEX_BLOB_VERSION 1

struct ls_index_header {
        uint64_t segment;     /* number of the segment file */
        uint64_t pos;         /* of the WAL object in it; no batch is before */
        int64_t committed_ms; /* when the commit was made */
};

/* Appends the blob of those of `batches` (of one stream, sorted by partition, of a partition in
 * order of offsets and dense) whose outcome is LS_OK. Returns how many those are; with none nothing
 * is appended. */
size_t ls_index_blob_write(struct ls_buf *out, const struct ls_index_header *header,
                           const struct ls_meta_wal_batch *batches, size_t count);

struct ls_index_reader {
        struct ls_rd rd;
        struct ls_index_header header;
        uint64_t left;             /* batches left in the current partition */
        bool started;              /* a partition has been read */
        int64_t next_offset;       /* base offset of the next batch */
        struct ls_meta_entry last; /* the batch read before */
};
/* `blob` is borrowed. LS_CORRUPT; LS_NEWER_FORMAT. */
LS_MUST_USE ls_err ls_index_blob_open(struct ls_index_reader *r, ls_span blob);
/* The next batch; object_id and commit are left 0. LS_END; LS_CORRUPT. */
LS_MUST_USE ls_err ls_index_blob_next(struct ls_index_reader *r, struct ls_meta_entry *ret_entry);

/* What a batch adds to the hash of its partition: (2 base + 1) s0 + 2 s1, mod 2^64. */
static inline uint64_t
ls_meta_entry_hash(const struct ls_meta_entry *e)
{
        return (2 * (uint64_t)e->base_offset + 1) * e->s0 + 2 * e->s1;
}
