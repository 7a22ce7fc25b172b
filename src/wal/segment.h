/* wal/segment.h - the segment file: WAL objects one after the other. docs/formats/wal_segment.md.
 *
 *   segment header | object | object | …         each object 8-aligned:
 *   object header | batches | footer             the footer makes the index rebuildable
 *
 * Pure: bytes in, bytes out; files are wal.c's. Threads: any.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/uuid.h"

#define LS_SEGMENT_VERSION      1
#define LS_SEGMENT_HEADER_BYTES 80
#define LS_OBJECT_HEADER_BYTES  72
#define LS_OBJECT_TRAILER_BYTES 24
#define LS_OBJECT_ALIGN         8

struct ls_segment_header {
        ls_uuid cluster;
        int32_t broker;
        uint64_t epoch;  /* the broker's, when the segment was made */
        uint64_t number; /* of the segment, ascending in the cluster */
        int64_t created_ms;
};
void ls_segment_header_put(struct ls_buf *out, const struct ls_segment_header *h);
/* LS_CORRUPT; LS_NEWER_FORMAT. `s` holds at least the first LS_SEGMENT_HEADER_BYTES. */
LS_MUST_USE ls_err ls_segment_header_get(ls_span s, struct ls_segment_header *ret);

struct ls_object_header {
        int32_t broker;
        uint32_t attempt;
        uint64_t epoch, sequence;
        uint64_t body_bytes, footer_bytes; /* footer without the trailer */
        uint64_t last_commit; /* largest commit number known when it was sealed: the witness by
                               * which a database that went back in time is noticed */
};
void ls_object_header_put(struct ls_buf *out, const struct ls_object_header *h);
LS_MUST_USE ls_err ls_object_header_get(ls_span s, struct ls_object_header *ret);
/* Header, body, footer, trailer and padding. */
uint64_t ls_object_bytes(const struct ls_object_header *h);

/* The footer: one row a batch, in the order of the body. */
struct ls_object_batch {
        uint64_t stream_id;
        int32_t partition;
        uint64_t bytes;
        uint64_t s0, s1;
};
void ls_object_footer_put(struct ls_buf *out, const struct ls_object_batch *batches, size_t count);
/* Trailer: body checksum, footer bytes, sequence, checksum of footer and trailer, magic; then
 * padding. */
void ls_object_trailer_put(struct ls_buf *out, const struct ls_object_header *h, uint32_t body_crc,
                           ls_span footer);
/* Checks a whole object (as ls_object_bytes says) against its header: LS_CORRUPT. Gives the body
 * and the footer's rows (the caller frees *ret_batches with ls_free). */
LS_MUST_USE ls_err ls_object_check(ls_span object, struct ls_object_header *ret_header,
                                   ls_span *ret_body, struct ls_object_batch **ret_batches,
                                   size_t *ret_count);
