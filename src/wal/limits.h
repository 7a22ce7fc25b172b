/* wal/limits.h - bounds of the write-ahead log. */
#pragma once

/* Flushes written but not yet committed: one is being written while one commits. More would only
 * make objects smaller, since what queues meanwhile merges into the next flush. */
#define LS_WAL_FLUSHES_MAX 2

/* One read from a segment: large enough that replay is sequential, small against the fetch budget.
 */
#define LS_WAL_READ_BYTES_MAX ((size_t)1 << 20)
/* Bytes between two wanted batches that are read and thrown away instead of reading twice. */
#define LS_WAL_READ_GAP_BYTES ((uint64_t)32 << 10)
/* Entries that one read plans at most. */
#define LS_WAL_READ_ENTRIES_MAX 512
/* Names tried for a new segment, when files that a failure left behind have them. */
#define LS_WAL_NAMES_TRIED 16

/* Zeros are written this far ahead of small flushes: a sync of bytes that are allocated and written
 * already needs no commit of the file system's journal, which costs several times the data (ext4
 * on a virtual disk: 0.2 ms against 1.7 ms). Larger flushes are worth their own. */
#define LS_WAL_ZERO_BYTES      ((uint64_t)1 << 20)
#define LS_WAL_ZERO_FLUSH_MAX  ((uint64_t)256 << 10)
#define LS_WAL_ZERO_SPAN_BYTES ((size_t)64 << 10)
