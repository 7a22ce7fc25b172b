/* sys/file.c - see file.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sys/file_int.h"

#define WRITE_IOV_MAX 64

ls_err
file_err(int errnum)
{
        switch (errnum) {
        case ENOENT:
        case ENOTDIR: return LS_ABSENT;
        case EEXIST: return LS_EXISTS;
        case EACCES:
        case EPERM:
        case ELOOP: /* a symbolic link where none may be followed */ return LS_DENIED;
        case ENOTEMPTY: return LS_NOT_EMPTY;
        case EISDIR:
        case ENAMETOOLONG:
        case ENXIO: /* a fifo or socket */ return LS_INVALID;
        default: return ls_err_from_errno(errnum);
        }
}

int64_t
file_stat_ms(const struct stat *st)
{
        return (int64_t)st->st_mtim.tv_sec * 1000 + st->st_mtim.tv_nsec / 1000000;
}

/* ---- open files ---- */

ls_err
file_wrap(int fd, struct ls_file **ret_file)
{
        struct ls_file *f;
        struct stat st;
        ls_err e = LS_OK;

        if (fstat(fd, &st) != 0)
                e = file_err(errno);
        else if (!S_ISREG(st.st_mode))
                e = LS_INVALID;
        if (e != LS_OK) {
                close(fd);
                return e;
        }
        f = ls_malloc(sizeof *f);
        f->fd = fd;
        *ret_file = f;
        return LS_OK;
}

ls_err
ls_file_open(const char *path, enum ls_file_mode mode, struct ls_file **ret_file)
{
        int flags = O_CLOEXEC | O_NONBLOCK; /* a fifo must not hold us up */
        int fd;

        switch (mode) {
        case LS_FILE_READ: flags |= O_RDONLY; break;
        case LS_FILE_CREATE_NEW: flags |= O_RDWR | O_CREAT | O_EXCL; break;
        case LS_FILE_WRITE: flags |= O_RDWR; break;
        }
        fd = open(path, flags, FILE_MODE);
        if (fd < 0)
                return file_err(errno);
        return file_wrap(fd, ret_file);
}

void
ls_file_close(struct ls_file *f)
{
        if (f == NULL)
                return;
        close(f->fd);
        ls_free(f);
}

ls_err
file_read_some(int fd, uint64_t pos, uint8_t *ret_bytes, size_t bytes_max, size_t *ret_len)
{
        size_t len = 0;

        while (len < bytes_max) {
                ssize_t n = pread(fd, ret_bytes + len, bytes_max - len, (off_t)(pos + len));

                if (n == 0)
                        break;
                if (n > 0)
                        len += (size_t)n;
                else if (errno != EINTR)
                        return ls_err_from_errno(errno);
        }
        *ret_len = len;
        return LS_OK;
}

ls_err
ls_file_read(struct ls_file *f, uint64_t pos, void *ret_bytes, size_t len)
{
        size_t n;

        if (pos > INT64_MAX || len > INT64_MAX - pos)
                return LS_END;
        LS_TRY(file_read_some(f->fd, pos, ret_bytes, len, &n));
        return n == len ? LS_OK : LS_END;
}

ls_err
file_write_all(int fd, uint64_t pos, const ls_span *spans, size_t count)
{
        size_t done = 0; /* of spans[0] */

        for (;;) {
                struct iovec iov[WRITE_IOV_MAX];
                int iov_count = 0;
                ssize_t n;

                while (count > 0 && done == spans[0].len) {
                        spans++;
                        count--;
                        done = 0;
                }
                if (count == 0)
                        return LS_OK;
                for (size_t i = 0; i < count && iov_count < WRITE_IOV_MAX; i++) {
                        size_t skip = i == 0 ? done : 0;

                        iov[iov_count].iov_base = (void *)(spans[i].ptr + skip);
                        iov[iov_count++].iov_len = spans[i].len - skip;
                }
                n = pwritev(fd, iov, iov_count, (off_t)pos);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        return n == 0 ? LS_EIO : ls_err_from_errno(errno);
                pos += (uint64_t)n;
                done += (size_t)n;
                while (count > 0 && done > spans[0].len) {
                        done -= spans[0].len;
                        spans++;
                        count--;
                }
        }
}

ls_err
ls_file_write(struct ls_file *f, uint64_t pos, const ls_span *spans, size_t count)
{
        return file_write_all(f->fd, pos, spans, count);
}

ls_err
ls_file_sync(struct ls_file *f)
{
        return fdatasync(f->fd) == 0 ? LS_OK : ls_err_from_errno(errno);
}

ls_err
ls_file_sync_all(struct ls_file *f)
{
        return fsync(f->fd) == 0 ? LS_OK : ls_err_from_errno(errno);
}

ls_err
ls_file_set_time(struct ls_file *f, int64_t modified_ns)
{
        struct timespec times[2] = { { .tv_nsec = UTIME_OMIT },
                                     { .tv_sec = modified_ns / 1000000000,
                                       .tv_nsec = modified_ns % 1000000000 } };

        return futimens(f->fd, times) == 0 ? LS_OK : ls_err_from_errno(errno);
}

ls_err
ls_file_allocate(struct ls_file *f, uint64_t bytes)
{
        if (fallocate(f->fd, 0, 0, (off_t)bytes) == 0)
                return LS_OK;
        if (errno == EOPNOTSUPP || errno == ENOSYS)
                return LS_UNSUPPORTED;
        return ls_err_from_errno(errno);
}

ls_err
ls_file_truncate(struct ls_file *f, uint64_t bytes)
{
        return ftruncate(f->fd, (off_t)bytes) == 0 ? LS_OK : ls_err_from_errno(errno);
}

ls_err
ls_file_size(struct ls_file *f, uint64_t *ret_bytes)
{
        struct stat st;

        if (fstat(f->fd, &st) != 0)
                return ls_err_from_errno(errno);
        *ret_bytes = (uint64_t)st.st_size;
        return LS_OK;
}

void
ls_file_drop_cache(struct ls_file *f, uint64_t pos, uint64_t len)
{
        posix_fadvise(f->fd, (off_t)pos, (off_t)len, POSIX_FADV_DONTNEED);
}

ls_err
ls_file_lock(const char *path, struct ls_file **ret_lock)
{
        struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, FILE_MODE);
        ls_err e;

        if (fd < 0)
                return file_err(errno);
        /* Of the open file, not of the process: a second open of ours is refused too. */
        if (fcntl(fd, F_OFD_SETLK, &whole) != 0) {
                e = errno == EAGAIN || errno == EACCES ? LS_BUSY : ls_err_from_errno(errno);
                close(fd);
                return e;
        }
        return file_wrap(fd, ret_lock);
}

/* ---- whole files ---- */

ls_err
ls_file_read_all(const char *path, size_t bytes_max, struct ls_slice **ret_bytes)
{
        struct ls_file *f;
        struct ls_slice *bytes = NULL;
        uint64_t size;
        size_t len;
        ls_err e;

        LS_TRY(ls_file_open(path, LS_FILE_READ, &f));
        e = ls_file_size(f, &size);
        if (e == LS_OK && size > bytes_max)
                e = LS_TOO_LARGE;
        if (e == LS_OK) {
                bytes = ls_slice_new((size_t)size);
                e = bytes != NULL ? file_read_some(f->fd, 0, bytes->ptr, bytes->len, &len)
                                  : LS_ELIMIT;
        }
        ls_file_close(f);
        if (e != LS_OK) {
                ls_slice_unref(bytes);
                return e;
        }
        bytes->len = len; /* it may have shrunk */
        *ret_bytes = bytes;
        return LS_OK;
}

/* The folder of `path`, for ls_free. */
static char *
path_folder(const char *path)
{
        const char *slash = strrchr(path, '/');

        if (slash == NULL)
                return ls_strdup(".");
        if (slash == path)
                return ls_strdup("/");
        return ls_str_dup(ls_str_make(path, (size_t)(slash - path)));
}

static ls_err
path_sync_folder(const char *path)
{
        char *folder = path_folder(path);
        ls_err e = ls_dir_sync(folder);

        ls_free(folder);
        return e;
}

/* Writes a synced file beside `path` and returns its name. */
static ls_err
write_beside(const char *path, ls_span bytes, char **ret_tmp)
{
        uint64_t random;
        char *tmp;
        int fd;
        ls_err e;

        ls_random(&random, sizeof random);
        tmp = ls_format("%s.tmp-%016llx", path, (unsigned long long)random);
        fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
        if (fd < 0) {
                e = file_err(errno);
                ls_free(tmp);
                return e;
        }
        e = file_write_all(fd, 0, &bytes, 1);
        if (e == LS_OK && fsync(fd) != 0)
                e = ls_err_from_errno(errno);
        if (close(fd) != 0 && e == LS_OK)
                e = ls_err_from_errno(errno);
        if (e != LS_OK) {
                unlink(tmp);
                ls_free(tmp);
                return e;
        }
        *ret_tmp = tmp;
        return LS_OK;
}

ls_err
ls_file_write_atomic(const char *path, ls_span bytes)
{
        char *tmp;
        ls_err e;

        LS_TRY(write_beside(path, bytes, &tmp));
        e = rename(tmp, path) == 0 ? LS_OK : file_err(errno);
        if (e != LS_OK)
                unlink(tmp);
        ls_free(tmp);
        LS_TRY(e);
        return path_sync_folder(path);
}

ls_err
ls_file_write_new(const char *path, ls_span bytes)
{
        char *tmp;
        ls_err e;

        LS_TRY(write_beside(path, bytes, &tmp));
        e = link(tmp, path) == 0 ? LS_OK : file_err(errno);
        unlink(tmp);
        ls_free(tmp);
        LS_TRY(e);
        return path_sync_folder(path);
}

ls_err
ls_file_rename(const char *from, const char *to)
{
        return rename(from, to) == 0 ? LS_OK : file_err(errno);
}

ls_err
ls_file_delete(const char *path)
{
        return unlink(path) == 0 ? LS_OK : file_err(errno);
}

/* ---- folders ---- */

static ls_err
dir_make_one(const char *path)
{
        struct stat st;

        if (mkdir(path, DIR_MODE) == 0)
                return path_sync_folder(path);
        if (errno != EEXIST)
                return file_err(errno);
        if (stat(path, &st) != 0)
                return file_err(errno);
        return S_ISDIR(st.st_mode) ? LS_OK : LS_EXISTS;
}

ls_err
ls_dir_make(const char *path)
{
        char *part = ls_strdup(path);
        ls_err e = LS_OK;

        for (size_t i = 1; part[i - 1] != '\0' && e == LS_OK; i++) {
                char c = part[i];

                if ((c != '/' && c != '\0') || part[i - 1] == '/')
                        continue;
                part[i] = '\0';
                e = dir_make_one(part);
                part[i] = c;
        }
        ls_free(part);
        return e;
}

ls_err
ls_dir_sync(const char *path)
{
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ls_err e;

        if (fd < 0)
                return file_err(errno);
        e = fsync(fd) == 0 ? LS_OK : ls_err_from_errno(errno);
        close(fd);
        return e;
}

ls_err
ls_dir_delete(const char *path)
{
        if (rmdir(path) == 0)
                return LS_OK;
        return errno == EEXIST ? LS_NOT_EMPTY : file_err(errno);
}

ls_err
ls_dir_walk(const char *path, ls_err (*fn)(void *ctx, const struct ls_dir_entry *e), void *ctx)
{
        DIR *dir = opendir(path);
        ls_err e = LS_OK;

        if (dir == NULL)
                return file_err(errno);
        while (e == LS_OK) {
                struct dirent *found;
                struct ls_dir_entry entry;
                struct stat st;

                errno = 0;
                found = readdir(dir);
                if (found == NULL) {
                        e = errno == 0 ? LS_OK : ls_err_from_errno(errno);
                        break;
                }
                if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)
                        continue;
                if (fstatat(dirfd(dir), found->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
                        if (errno != ENOENT) /* else it went meanwhile */
                                e = ls_err_from_errno(errno);
                        continue;
                }
                entry = (struct ls_dir_entry){ .name = found->d_name,
                                               .is_dir = S_ISDIR(st.st_mode),
                                               .bytes = (uint64_t)st.st_size,
                                               .modified_ms = file_stat_ms(&st) };
                e = fn(ctx, &entry);
        }
        closedir(dir);
        return e;
}

/* ---- the rest ---- */

ls_err
ls_path_absolute(const char *path, char **ret_path)
{
        char real[PATH_MAX];

        if (realpath(path, real) == NULL)
                return file_err(errno);
        *ret_path = ls_strdup(real);
        return LS_OK;
}

ls_err
ls_disk_space(const char *path, uint64_t *ret_free, uint64_t *ret_total)
{
        struct statvfs st;

        if (statvfs(path, &st) != 0)
                return file_err(errno);
        *ret_free = (uint64_t)st.f_bavail * st.f_frsize;
        *ret_total = (uint64_t)st.f_blocks * st.f_frsize;
        return LS_OK;
}
