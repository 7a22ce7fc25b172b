/* sys/tree.c - see tree.h.
 *
 * A name is walked level by level with openat(O_NOFOLLOW), so that a link put into the tree
 * meanwhile can't lead out of it. A folder is used for a durable name only after its own name is
 * durable: `durable` holds the folders for which this process has seen that, and folders are
 * made and removed under `lock`, so that nobody puts a file into one that another thread has
 * made and not yet synced.
 */
#include "sys/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "sys/file_int.h"

#define PUBLISH_TRIES_MAX 16 /* others may remove the empty folder that we have just made */
#define LEVEL_BYTES_MAX   255

struct ls_tree {
        int fd;
        pthread_mutex_t lock;  /* of `durable`, and of making and removing folders */
        struct ls_map durable; /* names of folders -> tree, as long as they exist */
};

/* Where a name ends: an open folder and the last level. */
struct place {
        int fd;
        bool own; /* fd is to be closed */
        const char *leaf;
};

static void
place_done(struct place *place)
{
        if (place->own)
                close(place->fd);
}

static bool
tree_name_ok(const char *name)
{
        for (;;) {
                size_t len = strcspn(name, "/");

                if (len == 0 || len > LEVEL_BYTES_MAX || (len == 1 && name[0] == '.') ||
                    (len == 2 && name[0] == '.' && name[1] == '.'))
                        return false;
                if (name[len] == '\0')
                        return true;
                name += len + 1;
        }
}

/* Opens the folder `level` of `fd`. */
static ls_err
level_open(int fd, const char *level, int *ret_fd)
{
        struct stat st;
        int next = openat(fd, level, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

        if (next >= 0) {
                *ret_fd = next;
                return LS_OK;
        }
        if (errno != ENOTDIR)
                return file_err(errno);
        if (fstatat(fd, level, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
                return LS_DENIED;
        return LS_ABSENT;
}

/* Makes the folder `level` of `fd`, named `name` in the tree, and its name durable. */
static ls_err
level_make(struct ls_tree *tree, int fd, const char *level, ls_span name)
{
        bool made = mkdirat(fd, level, DIR_MODE) == 0;

        if (!made && errno != EEXIST)
                return file_err(errno);
        if (!made && ls_map_get(&tree->durable, name) != NULL)
                return LS_OK;
        if (fsync(fd) != 0)
                return ls_err_from_errno(errno);
        ls_map_set(&tree->durable, name, tree);
        return LS_OK;
}

/* Opens the folder in which `name` ends. With `make` (under the lock) folders are made. */
static ls_err
tree_enter(struct ls_tree *tree, const char *name, bool make, struct place *ret_place)
{
        struct place place = { .fd = tree->fd, .leaf = name };

        for (;;) {
                size_t len = strcspn(place.leaf, "/");
                char level[LEVEL_BYTES_MAX + 1];
                ls_err e = LS_OK;
                int next = -1;

                if (place.leaf[len] == '\0')
                        break;
                LS_ASSERT(len < sizeof level); /* tree_name_ok */
                memcpy(level, place.leaf, len);
                level[len] = '\0';
                if (make)
                        e = level_make(tree, place.fd, level,
                                       ls_span_of(name, (size_t)(place.leaf - name) + len));
                if (e == LS_OK)
                        e = level_open(place.fd, level, &next);
                if (e == LS_ABSENT && make)
                        e = LS_INVALID; /* a file where a folder has to be */
                place_done(&place);
                if (e != LS_OK)
                        return e;
                place = (struct place){ .fd = next, .own = true, .leaf = place.leaf + len + 1 };
        }
        *ret_place = place;
        return LS_OK;
}

/* The same for a name that is about to be made. */
static ls_err
tree_enter_durable(struct ls_tree *tree, const char *name, struct place *ret_place)
{
        const char *slash = strrchr(name, '/');
        ls_span folder = ls_span_of(name, slash ? (size_t)(slash - name) : 0);
        bool known;
        ls_err e;

        pthread_mutex_lock(&tree->lock);
        known = slash == NULL || ls_map_get(&tree->durable, folder) != NULL;
        pthread_mutex_unlock(&tree->lock);
        if (known) {
                e = tree_enter(tree, name, false, ret_place);
                if (e != LS_ABSENT)
                        return e;
        }
        pthread_mutex_lock(&tree->lock);
        e = tree_enter(tree, name, true, ret_place);
        pthread_mutex_unlock(&tree->lock);
        return e;
}

ls_err
ls_tree_open(const char *path, struct ls_tree **ret_tree)
{
        struct ls_tree *tree;
        int fd;

        LS_TRY(ls_dir_make(path));
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return file_err(errno);
        tree = ls_calloc(1, sizeof *tree);
        tree->fd = fd;
        pthread_mutex_init(&tree->lock, NULL);
        ls_map_init(&tree->durable);
        *ret_tree = tree;
        return LS_OK;
}

void
ls_tree_close(struct ls_tree *tree)
{
        if (tree == NULL)
                return;
        close(tree->fd);
        ls_map_done(&tree->durable);
        pthread_mutex_destroy(&tree->lock);
        ls_free(tree);
}

/* ---- files ---- */

static ls_err
tree_open_at(struct ls_tree *tree, const char *name, int flags, struct ls_file **ret_file)
{
        struct place place;
        int fd;
        ls_err e;

        if (!tree_name_ok(name))
                return LS_INVALID;
        LS_TRY(tree_enter(tree, name, false, &place));
        fd = openat(place.fd, place.leaf, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, FILE_MODE);
        e = fd < 0 ? file_err(errno) : LS_OK;
        place_done(&place);
        LS_TRY(e);
        return file_wrap(fd, ret_file);
}

ls_err
ls_tree_open_file(struct ls_tree *tree, const char *name, struct ls_file **ret_file)
{
        ls_err e = tree_open_at(tree, name, O_RDONLY, ret_file);

        return e == LS_INVALID && tree_name_ok(name) ? LS_ABSENT : e; /* no plain file */
}

ls_err
ls_tree_create(struct ls_tree *tree, const char *name, struct ls_file **ret_file)
{
        return tree_open_at(tree, name, O_RDWR | O_CREAT | O_EXCL, ret_file);
}

ls_err
ls_tree_stat(struct ls_tree *tree, const char *name, struct ls_tree_info *ret_info)
{
        struct place place;
        struct stat st;
        ls_err e;

        if (!tree_name_ok(name))
                return LS_INVALID;
        LS_TRY(tree_enter(tree, name, false, &place));
        e = fstatat(place.fd, place.leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 ? LS_OK : file_err(errno);
        place_done(&place);
        LS_TRY(e);
        if (S_ISLNK(st.st_mode))
                return LS_DENIED;
        if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
                return LS_ABSENT;
        *ret_info = (struct ls_tree_info){
                .bytes = (uint64_t)st.st_size,
                .inode = st.st_ino,
                .modified_ns = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec,
                .is_dir = S_ISDIR(st.st_mode),
        };
        return LS_OK;
}

ls_err
ls_tree_make_dir(struct ls_tree *tree, const char *name)
{
        struct place place;
        char *inside;
        ls_err e;

        if (!tree_name_ok(name))
                return LS_INVALID;
        inside = ls_format("%s/x", name);
        pthread_mutex_lock(&tree->lock);
        e = tree_enter(tree, inside, true, &place);
        pthread_mutex_unlock(&tree->lock);
        ls_free(inside);
        LS_TRY(e);
        place_done(&place);
        return LS_OK;
}

/* One try to name `from` as `to`; 0 or errno. */
static int
publish_once(const struct place *from, const struct place *to, bool replace)
{
        if (replace)
                return renameat(from->fd, from->leaf, to->fd, to->leaf) == 0 ? 0 : errno;
        if (linkat(from->fd, from->leaf, to->fd, to->leaf, 0) == 0) {
                unlinkat(from->fd, from->leaf, 0); /* if not: cleaned up when it is next opened */
                return 0;
        }
        if (errno != EPERM && errno != EOPNOTSUPP && errno != EMLINK)
                return errno;
        /* A file system without links. */
        return renameat2(from->fd, from->leaf, to->fd, to->leaf, RENAME_NOREPLACE) == 0 ? 0 : errno;
}

ls_err
ls_tree_publish(struct ls_tree *tree, const char *from, const char *to, bool replace)
{
        struct place source, target;
        int errnum = 0;
        ls_err e = LS_OK;

        if (!tree_name_ok(from) || !tree_name_ok(to))
                return LS_INVALID;
        LS_TRY(tree_enter(tree, from, false, &source));
        for (int i = 0; i < PUBLISH_TRIES_MAX; i++) {
                struct stat st;

                e = tree_enter_durable(tree, to, &target);
                if (e != LS_OK)
                        break;
                errnum = publish_once(&source, &target, replace);
                e = errnum == 0 ? LS_OK : file_err(errnum);
                if ((errnum == EISDIR || errnum == EEXIST) &&
                    fstatat(target.fd, target.leaf, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
                    S_ISDIR(st.st_mode)) {
                        /* An empty folder is what a crash has left: it goes, and we try again. */
                        e = LS_INVALID;
                        if (unlinkat(target.fd, target.leaf, AT_REMOVEDIR) == 0)
                                errnum = ENOENT;
                }
                place_done(&target);
                if (errnum != ENOENT)
                        break;
        }
        place_done(&source);
        return e;
}

ls_err
ls_tree_sync_folder(struct ls_tree *tree, const char *name)
{
        struct place place;
        char *at, *slash;
        ls_err e;

        if (!tree_name_ok(name))
                return LS_INVALID;
        at = ls_strdup(name);
        /* A folder that is gone: that it is stands in the deepest one that is not. */
        while ((e = tree_enter(tree, at, false, &place)) == LS_ABSENT &&
               (slash = strrchr(at, '/')) != NULL)
                *slash = '\0';
        ls_free(at);
        LS_TRY(e);
        e = fsync(place.fd) == 0 ? LS_OK : ls_err_from_errno(errno);
        place_done(&place);
        return e;
}

/* Removes the folders above `name` that are empty, from the deepest up. */
static void
tree_prune(struct ls_tree *tree, const char *name)
{
        char *folder = ls_strdup(name);
        char *slash;

        pthread_mutex_lock(&tree->lock);
        while ((slash = strrchr(folder, '/')) != NULL) {
                struct place place;
                bool gone;

                *slash = '\0';
                if (tree_enter(tree, folder, false, &place) != LS_OK)
                        break;
                gone = unlinkat(place.fd, place.leaf, AT_REMOVEDIR) == 0;
                place_done(&place);
                if (!gone)
                        break;
                ls_map_remove(&tree->durable, ls_span_of(folder, strlen(folder)));
        }
        pthread_mutex_unlock(&tree->lock);
        ls_free(folder);
}

ls_err
ls_tree_delete(struct ls_tree *tree, const char *name)
{
        struct place place;
        ls_err e;

        if (!tree_name_ok(name))
                return LS_INVALID;
        LS_TRY(tree_enter(tree, name, false, &place));
        e = unlinkat(place.fd, place.leaf, 0) == 0 ? LS_OK : file_err(errno);
        place_done(&place);
        if (e == LS_INVALID)
                return LS_ABSENT; /* a folder */
        LS_TRY(e);
        if (strchr(name, '/') != NULL)
                tree_prune(tree, name);
        return LS_OK;
}

/* ---- folders ---- */

static ls_err
walk_entry(DIR *dir, const struct dirent *found,
           ls_err (*fn)(void *ctx, const char *name, bool is_dir), void *ctx)
{
        struct stat st;
        unsigned char type = found->d_type;

        if (strcmp(found->d_name, ".") == 0 || strcmp(found->d_name, "..") == 0)
                return LS_OK;
        if (type == DT_UNKNOWN) {
                if (fstatat(dirfd(dir), found->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
                        return errno == ENOENT ? LS_OK : ls_err_from_errno(errno);
                type = S_ISDIR(st.st_mode) ? DT_DIR : S_ISREG(st.st_mode) ? DT_REG : DT_LNK;
        }
        if (type != DT_DIR && type != DT_REG)
                return LS_OK;
        return fn(ctx, found->d_name, type == DT_DIR);
}

static ls_err
walk_dir(DIR *dir, ls_err (*fn)(void *ctx, const char *name, bool is_dir), void *ctx)
{
        for (;;) {
                struct dirent *found;

                errno = 0;
                found = readdir(dir);
                if (found == NULL)
                        return errno == 0 ? LS_OK : ls_err_from_errno(errno);
                LS_TRY(walk_entry(dir, found, fn, ctx));
        }
}

ls_err
ls_tree_walk(struct ls_tree *tree, const char *folder,
             ls_err (*fn)(void *ctx, const char *name, bool is_dir), void *ctx)
{
        struct place place = { .fd = tree->fd, .leaf = "." };
        DIR *dir = NULL;
        ls_err e;
        int fd = -1;

        if (folder[0] != '\0') {
                if (!tree_name_ok(folder))
                        return LS_INVALID;
                LS_TRY(tree_enter(tree, folder, false, &place));
        }
        e = level_open(place.fd, place.leaf, &fd);
        place_done(&place);
        if (e == LS_OK && (dir = fdopendir(fd)) == NULL) {
                e = file_err(errno);
                close(fd);
        }
        LS_TRY(e);
        e = walk_dir(dir, fn, ctx);
        closedir(dir);
        return e;
}

ls_err
ls_tree_lock(struct ls_tree *tree, const char *name, enum ls_tree_lock mode,
             struct ls_file **ret_lock)
{
        struct flock whole = { .l_whence = SEEK_SET };
        struct ls_file *f;
        int done;

        LS_TRY(tree_open_at(tree, name, O_RDWR | O_CREAT, &f));
        whole.l_type = mode == LS_TREE_SHARED ? F_RDLCK : F_WRLCK;
        do {
                done = fcntl(f->fd, mode == LS_TREE_EXCLUSIVE_TRY ? F_OFD_SETLK : F_OFD_SETLKW,
                             &whole);
        } while (done != 0 && errno == EINTR);
        if (done == 0) {
                *ret_lock = f;
                return LS_OK;
        }
        done = errno;
        ls_file_close(f);
        if (mode == LS_TREE_EXCLUSIVE_TRY && (done == EAGAIN || done == EACCES))
                return LS_BUSY;
        return ls_err_from_errno(done);
}
