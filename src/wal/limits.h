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
/* Objects that one read asks a store for at once: batches of a partition lie in many, one from each
 * flush of each broker, and each takes a round trip. */
#define LS_WAL_READ_OBJECTS 16
/* Threads that do so for all reads; the reader's own takes a share. */
#define LS_WAL_READ_THREADS 16
/* Names tried for a new segment, when files that a failure left behind have them. */
#define LS_WAL_NAMES_TRIED 16

/* Zeros are written this far ahead of small flushes: a sync of bytes that are allocated and written
 * already needs no commit of the file system's journal, which costs several times the data (ext4
 * on a virtual disk: 0.2 ms against 1.7 ms). Larger flushes are worth their own. */
#define LS_WAL_ZERO_BYTES      ((uint64_t)1 << 20)
#define LS_WAL_ZERO_FLUSH_MAX  ((uint64_t)256 << 10)
#define LS_WAL_ZERO_SPAN_BYTES ((size_t)64 << 10)

/* Objects sealed but not yet committed, for each that may be written at once: behind a write that
 * takes long the others go on for so long, but not without end. */
#define LS_WAL_FLUSHES_PER_PUT 2
/* Names in one list, when an opening looks for what is in the store: a page of S3. */
#define LS_WAL_LIST_NAMES 1000
/* Epochs before its own that an opening looks at for such, and those of brokers that are open. */
#define LS_WAL_EPOCHS_BACK 64
/* Epochs with objects or a mark that one opening looks at. */
#define LS_WAL_EPOCHS_MAX 10000
/* The process ends with this when the database went back in time; so it does when a commit's
 * outcome is unknown. */
#define LS_WAL_EXIT_LOST 70
