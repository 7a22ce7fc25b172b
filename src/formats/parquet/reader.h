/* formats/parquet/reader.h - reads Parquet files of any writer through ranged reads.
 *
 * Open reads the footer. A scan then gives the rows of a range of one row group, the chosen leaves
 * only, in batches of columns; with a page index it reads only the pages that hold them. All bytes
 * are suspect: whatever they say ends in LS_CORRUPT (not a Parquet file, or damaged: checksums,
 * impossible counts), LS_UNSUPPORTED (encryption, LZO or Brotli, encodings we do not know) or
 * LS_TOO_LARGE (past the limits given at open), never in a crash or an allocation without bound.
 *
 * Threads: an open file is immutable and may be shared; the page index is loaded under a lock of
 * the file's owner (ls_parquet_file_load_index). A scan has one owner.
 */
#pragma once
#include "formats/column/vec.h"
#include "formats/parquet/parquet.h"

struct ls_parquet_file; /* opaque: defined in file.c */
struct ls_parquet_scan; /* opaque: defined in scan.c */

struct ls_parquet_source {
        /* Exactly `bytes` bytes at `pos` in a slice that the caller unrefs. Anything but LS_OK is
         * returned unchanged by the reader. */
        ls_err (*read)(void *ctx, uint64_t pos, size_t bytes, struct ls_slice **ret_bytes);
        void *ctx;
        uint64_t bytes; /* of the file */
};
struct ls_parquet_limits {
        size_t footer_bytes;   /* 0: LS_PARQUET_FOOTER_BYTES_MAX */
        size_t metadata_bytes; /* the parsed footer in memory; 0: LS_PARQUET_METADATA_BYTES_MAX */
        size_t page_bytes;     /* a page uncompressed; 0: LS_PARQUET_PAGE_BYTES_MAX */
};
#define LS_PARQUET_FOOTER_BYTES_MAX   ((size_t)64 << 20)
#define LS_PARQUET_METADATA_BYTES_MAX ((size_t)512 << 20)
#define LS_PARQUET_PAGE_BYTES_MAX     ((size_t)1 << 30)

/* Reads and checks the footer. `limits` and `reterr` may be NULL; `source` is copied, its ctx must
 * outlive the file. LS_CORRUPT, LS_UNSUPPORTED, LS_TOO_LARGE, or what the source gave. */
LS_MUST_USE ls_err ls_parquet_file_open(const struct ls_parquet_source *source,
                                        const struct ls_parquet_limits *limits,
                                        struct ls_errinfo *reterr,
                                        struct ls_parquet_file **ret_file);
/* Accepts NULL. No scan may be open. */
void ls_parquet_file_close(struct ls_parquet_file *f);

const struct ls_schema *ls_parquet_file_schema(const struct ls_parquet_file *f);
uint64_t ls_parquet_file_rows(const struct ls_parquet_file *f);
uint32_t ls_parquet_file_row_groups(const struct ls_parquet_file *f);
/* The application that wrote it; borrowed, may be null. */
ls_str ls_parquet_file_created_by(const struct ls_parquet_file *f);
/* The value of a footer key; false when it is not there. Borrowed. */
bool ls_parquet_file_kv(const struct ls_parquet_file *f, ls_str key, ls_str *ret_value);

/* Statistics of a chunk or a page; bounds are PLAIN bytes, borrowed, ptr NULL when unknown. */
struct ls_parquet_bounds {
        int64_t nulls; /* -1: unknown */
        ls_span min, max;
        bool min_exact, max_exact; /* known to be values of the column */
};
struct ls_parquet_row_group {
        uint64_t rows;
        uint64_t first_row; /* in the file */
        uint64_t pos;       /* first byte of its chunks */
        uint64_t bytes;     /* of its chunks */
};
void ls_parquet_file_row_group(const struct ls_parquet_file *f, uint32_t row_group,
                               struct ls_parquet_row_group *ret_info);
/* Statistics of a column chunk; all unknown when the file has none (or untrustworthy ones). */
void ls_parquet_file_bounds(const struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf,
                            struct ls_parquet_bounds *ret_bounds);

/* Loads the page index of a row group's leaf, once. LS_ABSENT: the file has none. Not thread-safe.
 * */
LS_MUST_USE ls_err ls_parquet_file_load_index(struct ls_parquet_file *f, uint32_t row_group,
                                              uint32_t leaf);
struct ls_parquet_page {
        uint64_t pos;
        uint32_t bytes;     /* header included */
        uint64_t first_row; /* within the row group */
        uint64_t rows;
        struct ls_parquet_bounds bounds;
        bool only_nulls;
};
/* Pages of a loaded index; 0 when none was loaded. */
uint32_t ls_parquet_file_pages(const struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf);
void ls_parquet_file_page(const struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf,
                          uint32_t page, struct ls_parquet_page *ret_page);
/* Asks the bloom filter of a chunk for a PLAIN value (a byte string without its length).
 * LS_ABSENT: there is no filter. */
LS_MUST_USE ls_err ls_parquet_file_bloom(struct ls_parquet_file *f, uint32_t row_group,
                                         uint32_t leaf, ls_span value, bool *ret_maybe);

/* Opens a scan over rows [first_row, first_row + rows) of a row group (clipped to its end) and the
 * given leaves; columns come in the order of `leaves`. `leaves` NULL: all. The file must outlive
 * the scan. Loads the offset indexes it needs. */
LS_MUST_USE ls_err ls_parquet_scan_open(struct ls_parquet_file *f, uint32_t row_group,
                                        uint64_t first_row, uint64_t rows, const uint32_t *leaves,
                                        uint32_t leaf_count, struct ls_parquet_scan **ret_scan);
/* Accepts NULL. */
void ls_parquet_scan_close(struct ls_parquet_scan *s);
/* Up to `rows_max` further rows: the vectors in the order of `leaves`, all with the same rows,
 * borrowed until the next call or close; spans point into pages the vectors hold. LS_END: no more.
 * */
LS_MUST_USE ls_err ls_parquet_scan_next(struct ls_parquet_scan *s, size_t rows_max,
                                        const struct ls_vec **ret_vecs, size_t *ret_rows);
/* What went wrong, for a person: valid after a refusal. */
const struct ls_errinfo *ls_parquet_scan_error(const struct ls_parquet_scan *s);
