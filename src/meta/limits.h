/* meta/limits.h - every bound of this folder, with its unit and reason. */
#pragma once

enum ls_meta_limits {
        LS_META_TXN_OPS_MAX = 1024, /* ops in one transaction: bounds what a failure takes along */
        LS_META_READERS_IDLE_MAX = 8, /* read connections kept open between reads */
        LS_META_REDO_MAX = 16,        /* tries of an op whose cached chunk was stale */
        LS_META_BUSY_MS = 10000,      /* wait for another process's write lock */
        /* PostgreSQL. A transaction left idle is ended before others give up waiting for it. */
        LS_META_TXN_IDLE_MS = 5000,
        LS_META_STATEMENT_MS = 30000, /* a statement of a writer, its wait for locks included */
        LS_META_READ_STATEMENT_MS = 300000, /* of a reader: doctor's checks go through all rows */
        LS_META_CONNECT_MS = 10000,         /* connecting; data that is not acknowledged; 1000s */
        LS_META_ANSWER_MS = 5000,           /* longer than the server's own time-outs */
        LS_META_INDEX_PAGE = 500,           /* index rows of a stream read at once */
        LS_META_INDEXED_BYTES_MAX = 2048,   /* texts in an index: a page's third is 2,704 bytes */
        LS_META_QUICK_CHECK_MB = 16, /* databases up to this size are checked whole at open */
        LS_META_CHUNKS_PER_STREAM =
                2048,                 /* 100,000 partitions / 64, rounded up to a power of two */
        LS_META_PRODUCER_BATCHES = 5, /* remembered per producer and partition (KIP-98) */
        LS_META_PRODUCER_ID_BLOCK = 1000,
        LS_META_PRODUCERS_MAX = 1000000,    /* (producer, partition) pairs of a chunk: 200 MB */
        LS_META_PURGE_SCAN = 8,             /* index rows looked at per row that may be deleted */
        LS_META_PURGE_GONE_MAX = 100,       /* deleted streams of one purge */
        LS_META_PURGE_ALIVE_MAX = 256,      /* live rows met in a stream before going to the next */
        LS_META_GROUP_BYTES_MAX = 32 << 20, /* a coordinator's blob */
        LS_META_TEXT_BYTES_MAX = 32768, /* config values, offset metadata, group ids, lease names */
        LS_META_INLINE_BYTES_MAX = 65536, /* of a marker extent */
};
/* A packed index row: a flush is at most some 10,000s of batches of about 40 bytes each. */
#define LS_META_BLOB_BYTES_MAX ((size_t)256 << 20)
/* Of a table's metadata JSON. */
#define LS_META_JSON_BYTES_MAX ((size_t)64 << 20)
