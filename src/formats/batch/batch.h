/* formats/batch/batch.h - the Kafka record batch, version 2 (KIP-98): look, validate, change the
 * header in place, iterate records, build.
 *
 * Pure: bytes in, bytes out. Byte layout, the rules of validation and the record hash (a stored
 * format of version 1): docs/formats/record_batch.md. Limits: limits.h.
 * Null and empty are different everywhere: a null span has ptr NULL.
 * Threads: an object has one owner at a time; plain functions may be called from any thread.
 */
#pragma once
#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/rd.h"
#include "base/span.h"
#include "formats/compress/compress.h"

#define LS_BATCH_HEADER_BYTES 61
/* Offset and length: what batch_length does not count. */
#define LS_BATCH_PREFIX_BYTES 12
#define LS_NO_TIMESTAMP       (-1)
/* Largest distance from 1970 that a record may have: what microseconds of 64 bits can hold, since
 * the table's column is in microseconds. */
#define LS_TIMESTAMP_MS_MAX (INT64_MAX / 1000)

/* Bits of the attributes. */
#define LS_BATCH_CODEC_MASK      0x07
#define LS_BATCH_LOG_APPEND_TIME 0x08
#define LS_BATCH_TRANSACTIONAL   0x10
#define LS_BATCH_CONTROL         0x20
#define LS_BATCH_DELETE_HORIZON  0x40 /* base_timestamp is also a delete horizon (KIP-534) */

/* The header as it stands in the bytes; nothing but magic and length has been checked. */
struct ls_batch_header {
        int64_t base_offset;
        uint64_t bytes; /* of the whole batch */
        int32_t leader_epoch;
        uint32_t crc;
        uint16_t attributes;
        int32_t last_offset_delta;
        int64_t base_timestamp;
        int64_t max_timestamp;
        int64_t producer_id;
        int16_t producer_epoch;
        int32_t base_sequence;
        int32_t count; /* records */
};
static inline enum ls_codec
ls_batch_codec(const struct ls_batch_header *h)
{
        return (enum ls_codec)(h->attributes & LS_BATCH_CODEC_MASK);
}
static inline int64_t
ls_batch_last_offset(const struct ls_batch_header *h)
{
        return (int64_t)((uint64_t)h->base_offset + (uint64_t)(int64_t)h->last_offset_delta);
}

/* Reads the header of the batch at the start of `s`. LS_END: `s` is empty; LS_CORRUPT: a length
 * that cannot be true, or `s` ends inside the batch; LS_UNSUPPORTED: magic is not 2. */
LS_MUST_USE ls_err ls_batch_peek(ls_span s, struct ls_batch_header *ret_header);
/* Only the size of the batch, from its first 12 bytes; the batch may pass the end of `s`.
 * LS_END: fewer than 12 bytes; LS_CORRUPT: a length that cannot be true. */
LS_MUST_USE ls_err ls_batch_peek_bytes(ls_span s, uint64_t *ret_bytes);
/* Moves over several batches in one blob: reads the header at the front of *s, gives the batch's
 * bytes, and takes them from *s. Outcomes as ls_batch_peek; *s is unchanged on any of them. */
LS_MUST_USE ls_err ls_batch_next(ls_span *s, ls_span *ret_batch,
                                 struct ls_batch_header *ret_header);
/* LS_CORRUPT: the CRC-32C does not match. `batch` is one whole batch (ls_batch_peek said so). */
LS_MUST_USE ls_err ls_batch_check_crc(ls_span batch);

/* --- change in place ------------------------------------------------------------------------- */

/* Offset and leader epoch are not under the CRC. */
void ls_batch_set_base_offset(uint8_t *batch, int64_t base_offset, int32_t leader_epoch);
/* Sets the max timestamp and, when `log_append_time`, the timestamp type (then every record's
 * timestamp is max_timestamp), else clears it; computes the CRC anew. `batch` is a whole batch. */
void ls_batch_set_timestamps(uint8_t *batch, size_t batch_bytes, bool log_append_time,
                             int64_t max_timestamp);

/* --- validate -------------------------------------------------------------------------------- */

enum ls_batch_depth {
        LS_BATCH_FULL,        /* walk every record */
        LS_BATCH_HEADER_ONLY, /* CRC and header; no hash sums, timestamps as the header has them. A
                                 batch whose header has no max timestamp (it is below the base), or
                                 that needs keys, is walked all the same */
};

struct ls_batch_check {
        enum ls_batch_depth depth;
        bool need_keys;              /* cleanup.policy=compact */
        bool log_append_time;        /* the topic's timestamp type */
        bool allow_control;          /* false for what clients send */
        int64_t now_ms;              /* the broker's time */
        int64_t before_ms_max;       /* message.timestamp.before.max.ms; INT64_MAX: any */
        int64_t after_ms_max;        /* message.timestamp.after.max.ms; INT64_MAX: any */
        uint64_t batch_bytes_max;    /* max.message.bytes, of the batch as sent; 0: any */
        uint64_t unpacked_bytes_max; /* of the records decompressed; 0: BATCH_UNPACKED_BYTES_MAX */
};
#define LS_BATCH_CHECK_DEFAULT                                        \
        (struct ls_batch_check)                                       \
        {                                                             \
                .before_ms_max = INT64_MAX, .after_ms_max = INT64_MAX \
        }

struct ls_batch_info {
        struct ls_batch_header header; /* as it stands in the bytes */
        bool transactional, control, has_sums;
        /* The max timestamp the batch must have: of the records; now_ms with log append time; the
         * header's own with LS_BATCH_HEADER_ONLY. When `fix_timestamps`, the header has another
         * one or another type: call ls_batch_set_timestamps(…, log_append_time, max_timestamp). */
        int64_t max_timestamp;
        int64_t min_timestamp;       /* of the records; == max_timestamp when not walked */
        int32_t max_timestamp_delta; /* offset delta of the first record that has it; the last
                                        record's when not walked */
        bool fix_timestamps;
        uint64_t unpacked_bytes; /* of the records section, decompressed; 0 when not walked */
        uint64_t sum0, sum1;     /* Σh and Σh·i (mod 2^64), i the record's index, from 0 */
};

/* Which record was at fault, and words for a person. */
struct ls_batch_fault {
        int32_t record; /* index in the batch; -1: the batch as a whole */
        struct ls_errinfo info;
};

struct ls_batch_walker; /* opaque: the scratch of a validation (128 KiB and codec contexts) */
struct ls_batch_walker *ls_batch_walker_new(void);
/* Accepts NULL. */
void ls_batch_walker_free(struct ls_batch_walker *w);
LS_DEFINE_AUTO(struct ls_batch_walker *, ls_batch_walker_free);

/* Validates one batch that is to be stored: a streaming walk over its records. Nothing is allocated
 * for an uncompressed batch; a compressed one is walked in pieces in `w` (NULL: made and freed
 * within the call). `batch` is borrowed and not changed; it must be exactly one batch.
 * Outcomes:
 *   LS_UNSUPPORTED  magic is not 2, or a codec that does not exist
 *   LS_TOO_LARGE    above batch_bytes_max (checked before the CRC), or above unpacked_bytes_max
 *   LS_CORRUPT      lengths or CRC are wrong, or the compressed bytes are damaged
 *   LS_INVALID      a CRC that matches over something that is no proper batch: counts, offset
 *                   deltas not 0..n-1, record lengths, control batch, producer fields
 *   LS_NO_KEY       a record without a key where need_keys
 *   LS_TIMESTAMP    a timestamp out of bounds, or a client that set log append time itself
 * reterr (may be NULL) is set with any of them. */
LS_MUST_USE ls_err ls_batch_validate(struct ls_batch_walker *w, ls_span batch,
                                     const struct ls_batch_check *check,
                                     struct ls_batch_info *ret_info, struct ls_batch_fault *reterr);

/* What a batch adds to its partition's hash once it stands at base_offset: Σ h·(2·offset+1). */
static inline uint64_t
ls_batch_hash_at(uint64_t sum0, uint64_t sum1, int64_t base_offset)
{
        return (2 * (uint64_t)base_offset + 1) * sum0 + 2 * sum1;
}

/* --- records --------------------------------------------------------------------------------- */

struct ls_record {
        int64_t offset;
        int64_t timestamp; /* the batch's max timestamp with log append time */
        ls_span key;
        ls_span value;
        uint32_t header_count;
        ls_span headers; /* as in the batch: (key length, key, value length, value)*, varints */
};

/* Walks a record's headers: start with ls_rd_of(record.headers); false at the end (or, for bytes
 * that no iterator has checked, at what is malformed: ls_rd_failed then). A header's key is never
 * null; its value may be. */
bool ls_record_header_next(struct ls_rd *cursor, ls_str *ret_key, ls_span *ret_value);
/* Appends one header in the form of ls_record.headers. */
void ls_record_header_put(struct ls_buf *headers, ls_str key, ls_span value);

/* h(timestamp, key, value, headers), version 1: docs/formats/record_batch.md. */
uint64_t ls_record_hash(const struct ls_record *r);
/* What one record adds to its partition's hash. */
static inline uint64_t
ls_record_hash_at(uint64_t h, int64_t offset)
{
        return h * (2 * (uint64_t)offset + 1);
}

/* Iterates the records of one batch. All spans point into `batch` or, for a compressed one, into
 * the iterator's buffer: valid until the next open or done. */
struct ls_batch_iter {
        struct ls_batch_header header;
        struct ls_rd rd;
        int32_t index; /* of the next record */
        int64_t offset_last;
        struct ls_buf unpacked;
        struct ls_unpacker *unpacker;
        uint64_t unpacked_bytes_max;
};

/* unpacked_bytes_max 0: BATCH_UNPACKED_BYTES_MAX. */
void ls_batch_iter_init(struct ls_batch_iter *it, uint64_t unpacked_bytes_max);
void ls_batch_iter_done(struct ls_batch_iter *it);
/* Begins with one whole batch, borrowed; `check_crc` when the bytes come from outside.
 * LS_UNSUPPORTED, LS_CORRUPT, LS_TOO_LARGE: as ls_batch_validate. */
LS_MUST_USE ls_err ls_batch_iter_open(struct ls_batch_iter *it, ls_span batch, bool check_crc);
/* LS_END: no more records, and the batch ended well; LS_CORRUPT: malformed, or more or fewer
 * records than the header says, or offsets that do not rise or pass the header's last. */
LS_MUST_USE ls_err ls_batch_iter_next(struct ls_batch_iter *it, struct ls_record *ret_record);
/* Where the iterator's records section stands, decompressed: for a reader that keeps it. */
static inline ls_span
ls_batch_iter_rest(const struct ls_batch_iter *it)
{
        return (ls_span){ it->rd.pos, ls_rd_left(&it->rd) };
}

/* --- build ----------------------------------------------------------------------------------- */

struct ls_batch_build {
        enum ls_codec codec;
        int level;            /* LS_LEVEL_DEFAULT, or the codec's */
        bool log_append_time; /* all records of a batch then have one timestamp */
        int32_t leader_epoch;
        uint64_t records_bytes_max; /* a batch is full when its records (before compression) would
                                       pass this; one record always fits. 0: 1 MiB */
        int32_t count_max;          /* records a batch; 0: any */
};

/* Builds batches without producer id, of records with rising offsets, gaps allowed. */
struct ls_batch_builder {
        struct ls_batch_build cfg;
        struct ls_packer *packer;
        struct ls_buf body; /* records, when they are to be compressed */
        struct ls_buf *out; /* borrowed from begin to end; NULL: no batch is open */
        size_t out_start;   /* where the batch begins in out */
        int64_t base_offset, last_offset;
        int64_t base_timestamp, max_timestamp;
        int32_t count;
};

void ls_batch_builder_init(struct ls_batch_builder *b, const struct ls_batch_build *cfg);
void ls_batch_builder_done(struct ls_batch_builder *b);
/* Opens a batch that ls_batch_builder_end will have appended to `out` (borrowed until then, not to
 * be touched meanwhile). base_offset -1: the first record's. */
void ls_batch_builder_begin(struct ls_batch_builder *b, struct ls_buf *out, int64_t base_offset);
/* Copies the record in. LS_FULL: nothing was added, end this batch and begin the next one (size,
 * count, an offset more than 2^31-1 above the base, or timestamps that cannot stand in one batch);
 * for the first record only when its offset is too far above the base_offset given to begin.
 * LS_TOO_LARGE: a first record that does not fit under out's maximum or 2 GiB. Offsets must rise.
 * */
LS_MUST_USE ls_err ls_batch_builder_add(struct ls_batch_builder *b, const struct ls_record *r);
static inline int32_t
ls_batch_builder_count(const struct ls_batch_builder *b)
{
        return b->count;
}
/* Closes the batch. last_offset -1: the last record's; a larger one keeps a gap at the end (it must
 * be within 2^31-1 of the base). With no record it is an empty batch that covers base..last, as
 * Kafka's own cleaner leaves; with neither a record nor a last offset nothing is appended.
 * LS_TOO_LARGE: past out's maximum, nothing was appended. ret_bytes (may be NULL): of the batch. */
LS_MUST_USE ls_err ls_batch_builder_end(struct ls_batch_builder *b, int64_t last_offset,
                                        size_t *ret_bytes);
