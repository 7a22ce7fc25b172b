/* sys/file.h - files and folders: the only user of the system's file calls.
 *
 * All block: call from a job or an own thread. Paths are NUL-terminated. Errors: LS_ABSENT,
 * LS_EXISTS, LS_DENIED as outcomes; LS_ENOSPC, LS_EREADONLY, LS_EIO as failures.
 */
#pragma once
#include "base/err.h"
#include "base/slice.h"
#include "base/span.h"

struct ls_file; /* an open file; positional reads from any thread */

enum ls_file_mode {
        LS_FILE_READ,       /* must exist */
        LS_FILE_CREATE_NEW, /* must not exist; read and write */
        LS_FILE_WRITE,      /* must exist; read and write */
};
LS_MUST_USE ls_err ls_file_open(const char *path, enum ls_file_mode mode,
                                struct ls_file **ret_file);
/* Accepts NULL. */
void ls_file_close(struct ls_file *f);
/* Reads exactly `len` bytes; LS_END when the file is shorter. */
LS_MUST_USE ls_err ls_file_read(struct ls_file *f, uint64_t pos, void *ret_bytes, size_t len);
/* Writes all of `spans` at `pos` (pwritev, repeated for short writes). */
LS_MUST_USE ls_err ls_file_write(struct ls_file *f, uint64_t pos, const ls_span *spans,
                                 size_t count);
/* fdatasync. A failure must never be retried on the same file (the kernel forgets the dirty
 * pages): give the file up. */
LS_MUST_USE ls_err ls_file_sync(struct ls_file *f);
/* fsync: times and all; the same about failures. */
LS_MUST_USE ls_err ls_file_sync_all(struct ls_file *f);
/* Sets the time of modification, nanoseconds since 1970. */
LS_MUST_USE ls_err ls_file_set_time(struct ls_file *f, int64_t modified_ns);
/* Reserves space and makes the file this large, so that later writes inside neither fail for
 * space nor change its size; LS_UNSUPPORTED where the file system can't. */
LS_MUST_USE ls_err ls_file_allocate(struct ls_file *f, uint64_t bytes);
LS_MUST_USE ls_err ls_file_truncate(struct ls_file *f, uint64_t bytes);
LS_MUST_USE ls_err ls_file_size(struct ls_file *f, uint64_t *ret_bytes);
/* Drops the range (clean pages of it) from the page cache. */
void ls_file_drop_cache(struct ls_file *f, uint64_t pos, uint64_t len);

/* Reads a whole file of at most `bytes_max` (LS_TOO_LARGE). */
LS_MUST_USE ls_err ls_file_read_all(const char *path, size_t bytes_max,
                                    struct ls_slice **ret_bytes);
/* Writes path.tmp-…, syncs, renames to `path` (replacing), syncs the folder. */
LS_MUST_USE ls_err ls_file_write_atomic(const char *path, ls_span bytes);
/* The same, but LS_EXISTS (and nothing changed) when `path` exists: link(2), not a check. */
LS_MUST_USE ls_err ls_file_write_new(const char *path, ls_span bytes);
LS_MUST_USE ls_err ls_file_rename(const char *from, const char *to);
/* LS_ABSENT when it was not there. Does not sync the folder. */
LS_MUST_USE ls_err ls_file_delete(const char *path);
/* Makes the folder and its parents (mode 0750), syncing each parent; fine when it exists. */
LS_MUST_USE ls_err ls_dir_make(const char *path);
/* fsync of a folder, so that names in it survive power loss. */
LS_MUST_USE ls_err ls_dir_sync(const char *path);
/* Removes an empty folder; LS_NOT_EMPTY. */
LS_MUST_USE ls_err ls_dir_delete(const char *path);
struct ls_dir_entry {
        const char *name; /* valid until the callback returns */
        bool is_dir;
        uint64_t bytes;
        int64_t modified_ms;
};
/* Calls fn for each entry but . and ..; stops when fn returns non-LS_OK and returns that. */
LS_MUST_USE ls_err ls_dir_walk(const char *path,
                               ls_err (*fn)(void *ctx, const struct ls_dir_entry *e), void *ctx);
/* Takes an exclusive lock on `path` (made when absent), held until the file is closed;
 * LS_BUSY when another process has it. */
LS_MUST_USE ls_err ls_file_lock(const char *path, struct ls_file **ret_lock);
/* The absolute form of a path that exists, without links in it (ls_free). */
LS_MUST_USE ls_err ls_path_absolute(const char *path, char **ret_path);
/* Free and total bytes of the file system that holds `path`. */
LS_MUST_USE ls_err ls_disk_space(const char *path, uint64_t *ret_free, uint64_t *ret_total);
