/* formats/batch/limits.h - bounds of record batches. */
#pragma once

/* The smallest record: a length, attributes, two deltas, null key, null value, no headers. */
#define BATCH_RECORD_BYTES_MIN 7
/* Records section of one batch, decompressed: what compaction and readers must hold at once. */
#define BATCH_UNPACKED_BYTES_MAX ((uint64_t)256 << 20)
/* Pieces in which a compressed batch is walked; a record below this is parsed in one go. */
#define BATCH_WALK_BYTES ((size_t)128 << 10)
/* The smallest room kept in front of a record that is parsed field by field: its length, fixed
 * fields and one key or value length. */
#define BATCH_FIELDS_BYTES_MAX 32
/* Default of ls_batch_build.records_bytes_max. */
#define BATCH_BUILD_BYTES_DEFAULT ((uint64_t)1 << 20)
