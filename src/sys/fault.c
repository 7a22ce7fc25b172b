/* sys/fault.c - see fault.h. Each __wrap_x stands where our code calls x. */
#include "sys/fault.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/mem.h"

#define SECTOR_BYTES 512

/* What of a file or folder survives a power loss. */
struct entry {
        char *name;
        uint64_t inode;
        bool is_dir;
};
struct names {
        struct entry *items;
        size_t count, cap;
};
struct node {
        uint64_t inode;
        uint8_t *bytes; /* of a file */
        size_t len;
        struct names names; /* of a folder */
};

static struct {
        pthread_mutex_t lock;
        uint64_t calls;
        /* failing */
        char call[32];
        uint64_t before_fail;
        int errnum; /* 0: none is to fail */
        bool any, for_good;
        const char *failed;
        size_t bytes_max;
        /* recording */
        char *dir;
        struct node *nodes;
        size_t node_count, node_cap;
        void (*fn)(void *ctx, const char *call);
        void *ctx;
} fault = { .lock = PTHREAD_MUTEX_INITIALIZER };

static _Thread_local bool inside; /* our own calls pass */

/* ---- the record ---- */

static void
names_clear(struct names *n)
{
        for (size_t i = 0; i < n->count; i++)
                ls_free(n->items[i].name);
        ls_free(n->items);
        *n = (struct names){ 0 };
}

static struct entry *
names_find(const struct names *n, const char *name)
{
        for (size_t i = 0; i < n->count; i++) {
                if (strcmp(n->items[i].name, name) == 0)
                        return &n->items[i];
        }
        return NULL;
}

static void
names_read(const char *path, struct names *ret_names)
{
        DIR *dir = opendir(path);
        struct dirent *d;

        *ret_names = (struct names){ 0 };
        while (dir != NULL && (d = readdir(dir)) != NULL) {
                struct stat st;
                struct entry entry = { 0 };

                if (strcmp(d->d_name, ".") == 0 || strcmp(d->d_name, "..") == 0 ||
                    fstatat(dirfd(dir), d->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
                        continue;
                entry.name = ls_strdup(d->d_name);
                entry.inode = st.st_ino;
                entry.is_dir = S_ISDIR(st.st_mode);
                LS_PUSH(ret_names->items, ret_names->count, ret_names->cap, entry);
        }
        if (dir != NULL)
                closedir(dir);
}

static void
file_read(const char *path, uint8_t **ret_bytes, size_t *ret_len)
{
        FILE *file = fopen(path, "re");
        struct stat st;

        *ret_bytes = NULL;
        *ret_len = 0;
        if (file == NULL || fstat(fileno(file), &st) != 0 || !S_ISREG(st.st_mode))
                st.st_size = 0;
        if (st.st_size > 0) {
                *ret_bytes = ls_malloc((size_t)st.st_size);
                *ret_len = fread(*ret_bytes, 1, (size_t)st.st_size, file);
        }
        if (file != NULL)
                fclose(file);
}

static struct node *
node_find(uint64_t inode)
{
        for (size_t i = 0; i < fault.node_count; i++) {
                if (fault.nodes[i].inode == inode)
                        return &fault.nodes[i];
        }
        return NULL;
}

/* An empty node: nothing of this file or folder is synced. */
static struct node *
node_reset(uint64_t inode)
{
        struct node *node = node_find(inode);

        if (node == NULL) {
                struct node fresh = { .inode = inode };

                LS_PUSH(fault.nodes, fault.node_count, fault.node_cap, fresh);
                return &fault.nodes[fault.node_count - 1];
        }
        ls_free(node->bytes);
        names_clear(&node->names);
        *node = (struct node){ .inode = inode };
        return node;
}

/* `path` is synced. */
static void
record_synced(const char *path)
{
        struct stat st;
        struct node *node;

        if (stat(path, &st) != 0)
                return;
        node = node_reset(st.st_ino);
        if (S_ISDIR(st.st_mode))
                names_read(path, &node->names);
        else
                file_read(path, &node->bytes, &node->len);
}

static void
record_fd(int fd)
{
        char path[64];

        if (fault.dir == NULL)
                return;
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        record_synced(path);
}

static void
record_tree(const char *path)
{
        struct names names;

        record_synced(path);
        names_read(path, &names);
        for (size_t i = 0; i < names.count; i++) {
                char *child = ls_format("%s/%s", path, names.items[i].name);

                if (names.items[i].is_dir)
                        record_tree(child);
                else
                        record_synced(child);
                ls_free(child);
        }
        names_clear(&names);
}

static void
record_new(int dir, const char *name)
{
        struct stat st;

        if (fault.dir != NULL && fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
                node_reset(st.st_ino);
}

/* ---- the image ---- */

static uint64_t
chance(uint64_t *rng)
{
        *rng ^= *rng << 13;
        *rng ^= *rng >> 7;
        *rng ^= *rng << 17;
        return *rng >> 20;
}

static void
image_file(const struct node *node, const char *real, const char *to, uint64_t seed, uint64_t *rng)
{
        size_t old_len = node != NULL ? node->len : 0, new_len = old_len, len;
        uint8_t *bytes, *now = NULL;
        FILE *file = fopen(to, "wbe");

        LS_ASSERT(file != NULL);
        if (real != NULL)
                file_read(real, &now, &new_len);
        len = seed == 0 ? old_len : seed == 1 || chance(rng) % 2 ? new_len : old_len;
        if (seed > 1 && new_len > old_len && chance(rng) % 2) /* grown in part */
                len = old_len + (size_t)chance(rng) % (new_len - old_len + 1);
        bytes = ls_calloc(1, len + 1);
        if (old_len > 0)
                memcpy(bytes, node->bytes, LS_MIN(len, old_len));
        for (size_t at = 0; at < LS_MIN(len, new_len); at += SECTOR_BYTES) {
                if (now != NULL && (seed == 1 || (seed > 1 && chance(rng) % 2)))
                        memcpy(bytes + at, now + at,
                               LS_MIN((size_t)SECTOR_BYTES, LS_MIN(len, new_len) - at));
        }
        LS_ASSERT(fwrite(bytes, 1, len, file) == len);
        LS_ASSERT(fclose(file) == 0);
        ls_free(bytes);
        ls_free(now);
}

static void
image_dir(const struct node *node, const char *real, const char *to, uint64_t seed, uint64_t *rng)
{
        static const struct names none;
        const struct names *old = node != NULL ? &node->names : &none;
        struct names now = { 0 }, *both[2] = { (struct names *)old, &now };

        LS_ASSERT(mkdir(to, 0700) == 0);
        if (real != NULL)
                names_read(real, &now);
        for (size_t k = 0; k < 2; k++) {
                for (size_t i = 0; i < both[k]->count; i++) {
                        const char *name = both[k]->items[i].name;
                        struct entry *was = names_find(old, name), *is = names_find(&now, name);
                        struct entry *pick = seed == 0         ? was
                                             : seed == 1       ? is
                                             : chance(rng) % 2 ? was
                                                               : is;
                        char *child, *child_real = NULL;

                        if (was != NULL && is != NULL && was->inode == is->inode)
                                pick = is;
                        if ((k == 1 && was != NULL) || pick == NULL)
                                continue; /* done before, or not there */
                        child = ls_format("%s/%s", to, name);
                        if (pick == is)
                                child_real = ls_format("%s/%s", real, name);
                        if (pick->is_dir)
                                image_dir(node_find(pick->inode), child_real, child, seed, rng);
                        else
                                image_file(node_find(pick->inode), child_real, child, seed, rng);
                        ls_free(child);
                        ls_free(child_real);
                }
        }
        names_clear(&now);
}

void
ls_fault_image(const char *to, uint64_t seed)
{
        uint64_t rng = seed * 0x9e3779b97f4a7c15u + 1;
        bool before = inside;
        struct stat st;

        LS_ASSERT(fault.dir != NULL);
        if (!before)
                pthread_mutex_lock(&fault.lock);
        inside = true;
        LS_ASSERT(stat(fault.dir, &st) == 0);
        image_dir(node_find(st.st_ino), fault.dir, to, seed, &rng);
        inside = before;
        if (!before)
                pthread_mutex_unlock(&fault.lock);
}

/* ---- control ---- */

/* The functions of the API may also be called from inside of a call's callback. */
static void
control_lock(void)
{
        if (!inside)
                pthread_mutex_lock(&fault.lock);
}

static void
control_unlock(void)
{
        if (!inside)
                pthread_mutex_unlock(&fault.lock);
}

void
ls_fault_reset(void)
{
        control_lock();
        for (size_t i = 0; i < fault.node_count; i++) {
                ls_free(fault.nodes[i].bytes);
                names_clear(&fault.nodes[i].names);
        }
        ls_free(fault.nodes);
        fault.nodes = NULL;
        fault.node_count = fault.node_cap = 0;
        ls_free(fault.dir);
        fault.dir = NULL;
        fault.calls = fault.bytes_max = 0;
        fault.errnum = 0;
        fault.failed = NULL;
        fault.fn = NULL;
        inside = false; /* a check that failed in the callback has jumped out of the call */
        control_unlock();
}

uint64_t
ls_fault_calls(void)
{
        uint64_t calls;

        control_lock();
        calls = fault.calls;
        control_unlock();
        return calls;
}

void
ls_fault_fail(const char *call, uint64_t nth, int errnum, bool for_good)
{
        control_lock();
        fault.any = call == NULL;
        snprintf(fault.call, sizeof fault.call, "%s", call != NULL ? call : "");
        fault.before_fail = nth;
        fault.errnum = errnum;
        fault.for_good = for_good;
        fault.failed = NULL;
        control_unlock();
}

const char *
ls_fault_failed(void)
{
        const char *failed;

        control_lock();
        failed = fault.failed;
        control_unlock();
        return failed;
}

void
ls_fault_short(size_t bytes_max)
{
        control_lock();
        fault.bytes_max = bytes_max;
        control_unlock();
}

void
ls_fault_record(const char *dir)
{
        LS_ASSERT(!inside);
        pthread_mutex_lock(&fault.lock);
        inside = true;
        ls_free(fault.dir);
        fault.dir = ls_strdup(dir);
        record_tree(dir);
        inside = false;
        pthread_mutex_unlock(&fault.lock);
}

void
ls_fault_on_call(void (*fn)(void *ctx, const char *call), void *ctx)
{
        control_lock();
        fault.fn = fn;
        fault.ctx = ctx;
        control_unlock();
}

/* ---- the calls ---- */

/* Before a call, which is then made under the lock; fault_leave follows. Gives the errno with
 * which it is to fail, or 0. */
static int
fault_enter(const char *call, bool changes)
{
        int errnum = 0;

        pthread_mutex_lock(&fault.lock);
        inside = true;
        fault.calls++;
        if (changes && fault.fn != NULL)
                fault.fn(fault.ctx, call);
        if (fault.errnum != 0 && (fault.any || strcmp(fault.call, call) == 0) &&
            fault.before_fail-- == 0) {
                errnum = fault.errnum;
                fault.failed = call;
                fault.before_fail = 0;
                if (!fault.for_good)
                        fault.errnum = 0;
        }
        return errnum;
}

/* After it: what errno is to be. */
static void
fault_leave(int errnum)
{
        inside = false;
        pthread_mutex_unlock(&fault.lock);
        errno = errnum;
}

/* A call without anything special: WRAP(result on failure, name, changes, (parameters),
 * (arguments)). */
#define WRAP(type, failure, symbol, name, changes, params, args) \
        type __real_##symbol params;                             \
        type __wrap_##symbol params;                             \
        type __wrap_##symbol params                              \
        {                                                        \
                int errnum;                                      \
                type result;                                     \
                                                                 \
                if (inside)                                      \
                        return __real_##symbol args;             \
                errnum = fault_enter(name, changes);             \
                if (errnum != 0) {                               \
                        fault_leave(errnum);                     \
                        return failure;                          \
                }                                                \
                result = __real_##symbol args;                   \
                fault_leave(errno);                              \
                return result;                                   \
        }

WRAP(int, -1, fallocate64, "fallocate", true, (int fd, int mode, off_t pos, off_t len),
     (fd, mode, pos, len))
WRAP(int, -1, ftruncate64, "ftruncate", true, (int fd, off_t len), (fd, len))
WRAP(int, -1, futimens, "futimens", true, (int fd, const struct timespec times[2]), (fd, times))
WRAP(int, -1, link, "link", true, (const char *from, const char *to), (from, to))
WRAP(int, -1, linkat, "linkat", true,
     (int from_dir, const char *from, int to_dir, const char *to, int flags),
     (from_dir, from, to_dir, to, flags))
WRAP(int, -1, rename, "rename", true, (const char *from, const char *to), (from, to))
WRAP(int, -1, renameat, "renameat", true,
     (int from_dir, const char *from, int to_dir, const char *to), (from_dir, from, to_dir, to))
WRAP(int, -1, renameat2, "renameat2", true,
     (int from_dir, const char *from, int to_dir, const char *to, unsigned flags),
     (from_dir, from, to_dir, to, flags))
WRAP(int, -1, rmdir, "rmdir", true, (const char *path), (path))
WRAP(int, -1, unlink, "unlink", true, (const char *path), (path))
WRAP(int, -1, unlinkat, "unlinkat", true, (int dir, const char *name, int flags),
     (dir, name, flags))
WRAP(int, -1, fstat64, "fstat", false, (int fd, struct stat *st), (fd, st))
WRAP(int, -1, stat64, "stat", false, (const char *path, struct stat *st), (path, st))
WRAP(int, -1, fstatat64, "fstatat", false, (int dir, const char *name, struct stat *st, int flags),
     (dir, name, st, flags))
WRAP(DIR *, NULL, opendir, "opendir", false, (const char *path), (path))
WRAP(DIR *, NULL, fdopendir, "fdopendir", false, (int fd), (fd))
WRAP(struct dirent *, NULL, readdir64, "readdir", false, (DIR * dir), (dir))

/* Opening: what is made new has nothing synced. */
static int
wrap_open(const char *call, int dir, const char *path, int flags, mode_t mode,
          int (*real)(int dir, const char *path, int flags, mode_t mode))
{
        int errnum, fd;
        struct stat st;
        bool made;

        if (inside)
                return real(dir, path, flags, mode);
        errnum = fault_enter(call, (flags & O_CREAT) != 0);
        if (errnum != 0) {
                fault_leave(errnum);
                return -1;
        }
        made = (flags & O_CREAT) && fstatat(dir, path, &st, AT_SYMLINK_NOFOLLOW) != 0;
        fd = real(dir, path, flags, mode);
        errnum = errno;
        if (fd >= 0 && made)
                record_new(dir, path);
        fault_leave(errnum);
        return fd;
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
int __real_openat64(int dir, const char *path, int flags, ...);
int __wrap_openat64(int dir, const char *path, int flags, ...);

static int
real_open(int dir, const char *path, int flags, mode_t mode)
{
        return __real_open64(path, flags, mode);
}

static int
real_openat(int dir, const char *path, int flags, mode_t mode)
{
        return __real_openat64(dir, path, flags, mode);
}

static mode_t
open_mode(int flags, va_list ap)
{
        return flags & O_CREAT ? va_arg(ap, mode_t) : 0;
}

int
__wrap_open64(const char *path, int flags, ...)
{
        va_list ap;
        mode_t mode;

        va_start(ap, flags);
        mode = open_mode(flags, ap);
        va_end(ap);
        return wrap_open("open", AT_FDCWD, path, flags, mode, real_open);
}

int
__wrap_openat64(int dir, const char *path, int flags, ...)
{
        va_list ap;
        mode_t mode;

        va_start(ap, flags);
        mode = open_mode(flags, ap);
        va_end(ap);
        return wrap_open("openat", dir, path, flags, mode, real_openat);
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode);
int __real_mkdirat(int dir, const char *name, mode_t mode);
int __wrap_mkdirat(int dir, const char *name, mode_t mode);

static int
wrap_mkdir(const char *call, int dir, const char *name, mode_t mode)
{
        int errnum = fault_enter(call, true), result;

        if (errnum != 0) {
                fault_leave(errnum);
                return -1;
        }
        result = __real_mkdirat(dir, name, mode);
        errnum = errno;
        if (result == 0)
                record_new(dir, name);
        fault_leave(errnum);
        return result;
}

int
__wrap_mkdir(const char *path, mode_t mode)
{
        return inside ? __real_mkdir(path, mode) : wrap_mkdir("mkdir", AT_FDCWD, path, mode);
}

int
__wrap_mkdirat(int dir, const char *name, mode_t mode)
{
        return inside ? __real_mkdirat(dir, name, mode) : wrap_mkdir("mkdirat", dir, name, mode);
}

static int
wrap_sync(const char *call, int fd, int (*real)(int fd))
{
        int errnum, result;

        if (inside)
                return real(fd);
        errnum = fault_enter(call, true);
        if (errnum != 0) {
                fault_leave(errnum);
                return -1;
        }
        result = real(fd);
        errnum = errno;
        if (result == 0)
                record_fd(fd);
        fault_leave(errnum);
        return result;
}

int __real_fsync(int fd);
int __wrap_fsync(int fd);
int
__wrap_fsync(int fd)
{
        return wrap_sync("fsync", fd, __real_fsync);
}

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);
int
__wrap_fdatasync(int fd)
{
        return wrap_sync("fdatasync", fd, __real_fdatasync);
}

ssize_t __real_pwritev64(int fd, const struct iovec *iov, int count, off_t pos);
ssize_t __wrap_pwritev64(int fd, const struct iovec *iov, int count, off_t pos);

/* Writes the first `bytes` of iov. */
static ssize_t
write_part(int fd, const struct iovec *iov, int count, off_t pos, size_t bytes)
{
        struct iovec part[64];
        int n = 0;

        for (; n < count && n < (int)LS_COUNT(part) && bytes > 0; n++) {
                part[n] = iov[n];
                part[n].iov_len = LS_MIN(iov[n].iov_len, bytes);
                bytes -= part[n].iov_len;
        }
        return __real_pwritev64(fd, part, n, pos);
}

ssize_t
__wrap_pwritev64(int fd, const struct iovec *iov, int count, off_t pos)
{
        size_t bytes = 0;
        ssize_t result;
        int errnum;

        if (inside)
                return __real_pwritev64(fd, iov, count, pos);
        for (int i = 0; i < count; i++)
                bytes += iov[i].iov_len;
        errnum = fault_enter("pwritev", true);
        if (errnum != 0) {
                result = write_part(fd, iov, count, pos, bytes / 2);
                fault_leave(errnum);
                return -1;
        }
        if (fault.bytes_max > 0)
                bytes = LS_MIN(bytes, fault.bytes_max);
        result = write_part(fd, iov, count, pos, bytes);
        fault_leave(errno);
        return result;
}

ssize_t __real_pread64(int fd, void *bytes, size_t len, off_t pos);
ssize_t __wrap_pread64(int fd, void *bytes, size_t len, off_t pos);
ssize_t
__wrap_pread64(int fd, void *bytes, size_t len, off_t pos)
{
        ssize_t result;
        int errnum;

        if (inside)
                return __real_pread64(fd, bytes, len, pos);
        errnum = fault_enter("pread", false);
        if (errnum != 0) {
                fault_leave(errnum);
                return -1;
        }
        if (fault.bytes_max > 0)
                len = LS_MIN(len, fault.bytes_max);
        result = __real_pread64(fd, bytes, len, pos);
        fault_leave(errno);
        return result;
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);

/* Our code only locks with it. Not under our lock: it may wait for another thread. */
int
__wrap_fcntl64(int fd, int command, ...)
{
        va_list ap;
        void *arg;
        int errnum = 0;

        va_start(ap, command);
        arg = va_arg(ap, void *);
        va_end(ap);
        if (!inside) {
                errnum = fault_enter("fcntl", false);
                fault_leave(errnum);
        }
        return errnum != 0 ? -1 : __real_fcntl64(fd, command, arg);
}
