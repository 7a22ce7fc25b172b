/* sys/file_test.c - proves: each file call has its outcome told apart (absent, there, denied,
 * full, read-only, locked); writes are whole also when the kernel takes them in pieces; a
 * replacing write leaves the old or the new content at every failing call and at a power loss at
 * every call, and is there once it has returned; no name and no link leads out of a tree, also
 * when links are swapped in meanwhile; a file is published at most once by racing threads. Full
 * and read-only disks are real when the test may mount. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sys/fault.h"
#include "sys/file.h"
#include "sys/jobs.h"
#include "sys/tree.h"

static char base[256]; /* a folder of the test's own */

static const char *
path_of(const char *name)
{
        static char paths[8][512];
        static unsigned next;
        char *path = paths[next++ % 8];

        snprintf(path, sizeof paths[0], "%s/%s", base, name);
        return path;
}

static ls_err
remove_on_entry(void *ctx, const struct ls_dir_entry *e)
{
        char *path = ls_format("%s/%s", (const char *)ctx, e->name);

        if (e->is_dir) {
                assert_int_equal(ls_dir_walk(path, remove_on_entry, path), LS_OK);
                assert_int_equal(ls_dir_delete(path), LS_OK);
        } else {
                assert_int_equal(ls_file_delete(path), LS_OK);
        }
        ls_free(path);
        return LS_OK;
}

static void
remove_tree(const char *path)
{
        assert_int_equal(ls_dir_walk(path, remove_on_entry, (void *)path), LS_OK);
        assert_int_equal(ls_dir_delete(path), LS_OK);
}

static int
setup(void **state)
{
        snprintf(base, sizeof base, "%s/ls-file-XXXXXX",
                 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
        assert_non_null(mkdtemp(base));
        ls_fault_reset();
        return 0;
}

static int
teardown(void **state)
{
        ls_fault_reset();
        remove_tree(base);
        return 0;
}

static ls_span
span_of(const char *text)
{
        return ls_span_of(text, strlen(text));
}

static bool
content_is(const char *path, const char *want)
{
        struct ls_slice *got = NULL;
        bool same = ls_file_read_all(path, 100, &got) == LS_OK &&
                    ls_span_eq(ls_slice_span(got), span_of(want));

        ls_slice_unref(got);
        return same;
}

/* ---- open, read, write ---- */

static void
test_open(void **state)
{
        struct ls_file *f = NULL;

        assert_int_equal(ls_file_open(path_of("a"), LS_FILE_READ, &f), LS_ABSENT);
        assert_int_equal(ls_file_open(path_of("a"), LS_FILE_WRITE, &f), LS_ABSENT);
        assert_int_equal(ls_file_open(path_of("no/a"), LS_FILE_CREATE_NEW, &f), LS_ABSENT);
        assert_int_equal(ls_file_open(path_of("a"), LS_FILE_CREATE_NEW, &f), LS_OK);
        ls_file_close(f);
        f = NULL;
        assert_int_equal(ls_file_open(path_of("a"), LS_FILE_CREATE_NEW, &f), LS_EXISTS);
        assert_int_equal(ls_file_open(path_of("a/b"), LS_FILE_READ, &f), LS_ABSENT);
        assert_int_equal(ls_file_open(base, LS_FILE_READ, &f), LS_INVALID);
        assert_int_equal(ls_file_open(base, LS_FILE_WRITE, &f), LS_INVALID);
        assert_int_equal(mkfifo(path_of("fifo"), 0600), 0); /* must not wait for a writer */
        assert_int_equal(ls_file_open(path_of("fifo"), LS_FILE_READ, &f), LS_INVALID);
        assert_null(f);
        ls_file_close(NULL);
}

static void
test_read_write(void **state)
{
        struct ls_file *f;
        ls_span spans[300];
        char text[301], got[301];
        uint64_t bytes;

        for (size_t i = 0; i < 300; i++) {
                text[i] = (char)('a' + i % 26);
                spans[i] = ls_span_of(&text[i], 1);
        }
        text[300] = '\0';
        spans[7].len = 0;
        for (size_t short_bytes = 0; short_bytes < 4; short_bytes++) {
                assert_int_equal(ls_file_open(path_of("rw"), LS_FILE_CREATE_NEW, &f), LS_OK);
                ls_fault_short(short_bytes);
                assert_int_equal(ls_file_write(f, 10, spans, 300), LS_OK);
                assert_int_equal(ls_file_size(f, &bytes), LS_OK);
                assert_int_equal(bytes, 309);
                assert_int_equal(ls_file_read(f, 10, got, 299), LS_OK);
                assert_memory_equal(got, text, 7);
                assert_memory_equal(got + 7, text + 8, 292);
                assert_int_equal(ls_file_read(f, 0, got, 11), LS_OK);
                assert_memory_equal(got, "\0\0\0\0\0\0\0\0\0\0a", 11);
                assert_int_equal(ls_file_read(f, 10, got, 300), LS_END);
                assert_int_equal(ls_file_read(f, 309, got, 0), LS_OK);
                assert_int_equal(ls_file_read(f, 5000, got, 1), LS_END);
                assert_int_equal(ls_file_read(f, UINT64_MAX, got, 1), LS_END);
                assert_int_equal(ls_file_read(f, 1, got, SIZE_MAX), LS_END);
                assert_int_equal(ls_file_write(f, 0, NULL, 0), LS_OK);
                assert_int_equal(ls_file_sync(f), LS_OK);
                assert_int_equal(ls_file_truncate(f, 12), LS_OK);
                assert_int_equal(ls_file_allocate(f, 100000), LS_OK);
                assert_int_equal(ls_file_size(f, &bytes), LS_OK);
                assert_int_equal(bytes, 100000);
                ls_file_drop_cache(f, 0, 0);
                ls_file_close(f);
                ls_fault_short(0);
                assert_int_equal(ls_file_delete(path_of("rw")), LS_OK);
        }
        assert_int_equal(ls_file_delete(path_of("rw")), LS_ABSENT);
}

/* Every call on an open file passes its failure up, and EINTR is none for reads and writes. */
static void
test_failing_calls(void **state)
{
        static const struct {
                int errnum;
                ls_err want;
        } errors[] = { { EIO, LS_EIO },         { ENOSPC, LS_ENOSPC },  { EDQUOT, LS_ENOSPC },
                       { EROFS, LS_EREADONLY }, { EACCES, LS_EACCESS }, { ENOMEM, LS_ELIMIT },
                       { EFBIG, LS_ENOSPC } };
        ls_span one = span_of("one");
        struct ls_file *f;
        uint64_t bytes;
        char got[3];

        assert_int_equal(ls_file_open(path_of("f"), LS_FILE_CREATE_NEW, &f), LS_OK);
        for (size_t i = 0; i < LS_COUNT(errors); i++) {
                ls_fault_fail("pwritev", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_write(f, 0, &one, 1), errors[i].want);
                ls_fault_fail("fdatasync", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_sync(f), errors[i].want);
                ls_fault_fail("fsync", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_sync_all(f), errors[i].want);
                ls_fault_fail("ftruncate", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_truncate(f, 1), errors[i].want);
                ls_fault_fail("fallocate", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_allocate(f, 1), errors[i].want);
                ls_fault_fail("pread", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_read(f, 0, got, 1), errors[i].want);
                ls_fault_fail("fstat", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_size(f, &bytes), errors[i].want);
                ls_fault_fail("futimens", 0, errors[i].errnum, false);
                assert_int_equal(ls_file_set_time(f, 1), errors[i].want);
                assert_string_equal(ls_fault_failed(), "futimens");
        }
        ls_fault_fail("fallocate", 0, EOPNOTSUPP, false);
        assert_int_equal(ls_file_allocate(f, 1), LS_UNSUPPORTED);
        ls_fault_fail("pwritev", 0, EINTR, false);
        assert_int_equal(ls_file_write(f, 0, &one, 1), LS_OK);
        ls_fault_fail("pread", 0, EINTR, false);
        assert_int_equal(ls_file_read(f, 0, got, 3), LS_OK);
        assert_memory_equal(got, "one", 3);
        ls_file_close(f);
        ls_fault_fail("open", 0, EMFILE, false);
        assert_int_equal(ls_file_open(path_of("f"), LS_FILE_READ, &f), LS_ELIMIT);
        ls_fault_fail("open", 0, EACCES, false);
        assert_int_equal(ls_file_open(path_of("f"), LS_FILE_READ, &f), LS_DENIED);
        ls_fault_fail("fstat", 0, EIO, false);
        assert_int_equal(ls_file_open(path_of("f"), LS_FILE_READ, &f), LS_EIO);
}

static void
test_read_all(void **state)
{
        struct ls_slice *got = NULL;

        assert_int_equal(ls_file_read_all(path_of("x"), 10, &got), LS_ABSENT);
        assert_int_equal(ls_file_write_new(path_of("x"), span_of("0123456789")), LS_OK);
        assert_int_equal(ls_file_read_all(path_of("x"), 9, &got), LS_TOO_LARGE);
        assert_null(got);
        ls_fault_fail("pread", 0, EIO, false);
        assert_int_equal(ls_file_read_all(path_of("x"), 10, &got), LS_EIO);
        assert_null(got);
        assert_int_equal(ls_file_read_all(path_of("x"), 10, &got), LS_OK);
        assert_int_equal(got->len, 10);
        ls_slice_unref(got);
}

/* ---- whole files ---- */

static ls_err
count_on_entry(void *ctx, const struct ls_dir_entry *e)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

static size_t
entry_count(const char *path)
{
        size_t count = 0;

        assert_int_equal(ls_dir_walk(path, count_on_entry, &count), LS_OK);
        return count;
}

static void
test_write_new(void **state)
{
        assert_int_equal(ls_file_write_new(path_of("n"), span_of("1")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("n"), span_of("2")), LS_EXISTS);
        assert_true(content_is(path_of("n"), "1"));
        assert_int_equal(ls_file_write_new(path_of("no/n"), span_of("2")), LS_ABSENT);
        assert_int_equal(entry_count(base), 1);
}

/* At each failing call: the old content or the new, and LS_OK only with the new. */
static void
test_write_atomic_failing(void **state)
{
        size_t failures = 0;

        for (uint64_t n = 0; n < 100; n++) {
                ls_err e;

                assert_int_equal(ls_file_write_atomic(path_of("w"), span_of("old")), LS_OK);
                ls_fault_fail(NULL, n, EIO, false);
                e = ls_file_write_atomic(path_of("w"), span_of("new"));
                ls_fault_fail(NULL, 1000000, EIO, false);
                if (e == LS_OK)
                        assert_true(content_is(path_of("w"), "new"));
                else
                        assert_true(content_is(path_of("w"), "old") ||
                                    content_is(path_of("w"), "new"));
                failures += e != LS_OK;
                assert_int_equal(entry_count(base), 1); /* nothing is left beside it */
        }
        assert_true(failures >= 5);
}

struct power {
        const char *old, *new;
        size_t images, news;
};

static void
power_on_call(void *ctx, const char *call)
{
        struct power *p = ctx;

        for (uint64_t seed = 0; seed < 6; seed++) {
                char image[300], file[320];
                bool is_new;

                snprintf(image, sizeof image, "%s-image", base);
                snprintf(file, sizeof file, "%s/w", image);
                ls_fault_image(image, seed);
                is_new = content_is(file, p->new);
                assert_true(is_new || content_is(file, p->old));
                p->news += is_new;
                p->images++;
                remove_tree(image);
        }
}

static void
test_write_atomic_power_loss(void **state)
{
        struct power p = { .old = "old", .new = "new and longer" };
        char image[300], file[320];

        assert_int_equal(ls_file_write_atomic(path_of("w"), span_of(p.old)), LS_OK);
        ls_fault_record(base);
        ls_fault_on_call(power_on_call, &p);
        assert_int_equal(ls_file_write_atomic(path_of("w"), span_of(p.new)), LS_OK);
        ls_fault_on_call(NULL, NULL);
        assert_true(p.images > 20);
        assert_true(p.news > 0 && p.news < p.images);
        for (uint64_t seed = 0; seed < 20; seed++) { /* it has returned: always the new one */
                snprintf(image, sizeof image, "%s-image", base);
                snprintf(file, sizeof file, "%s/w", image);
                ls_fault_image(image, seed);
                assert_true(content_is(file, p.new));
                remove_tree(image);
        }
}

/* The instrument itself: what was never synced is lost, and torn in between. */
static void
test_power_loss_is_felt(void **state)
{
        char image[300], file[320];
        uint8_t block[8192], *got;
        struct ls_slice *bytes;
        ls_span span = ls_span_of(block, sizeof block);
        struct ls_file *f;
        bool torn = false;

        memset(block, 'n', sizeof block);
        assert_int_equal(ls_file_open(path_of("w"), LS_FILE_CREATE_NEW, &f), LS_OK);
        ls_fault_record(base);
        assert_int_equal(ls_file_write(f, 0, &span, 1), LS_OK);
        snprintf(image, sizeof image, "%s-image", base);
        snprintf(file, sizeof file, "%s/w", image);
        for (uint64_t seed = 0; seed < 20; seed++) {
                ls_fault_image(image, seed);
                assert_int_equal(ls_file_read_all(file, sizeof block, &bytes), LS_OK);
                got = bytes->ptr;
                if (seed == 0)
                        assert_int_equal(bytes->len, 0);
                if (seed == 1)
                        assert_int_equal(bytes->len, sizeof block);
                torn = torn || (bytes->len == sizeof block && memcmp(got, block, 512) != 0 &&
                                memchr(got, 'n', sizeof block) != NULL);
                ls_slice_unref(bytes);
                remove_tree(image);
        }
        assert_true(torn);
        ls_file_close(f);
}

/* ---- folders ---- */

static ls_err
stop_on_entry(void *ctx, const struct ls_dir_entry *e)
{
        return LS_CANCELED;
}

static ls_err
check_on_entry(void *ctx, const struct ls_dir_entry *e)
{
        size_t *seen = ctx;

        if (strcmp(e->name, "d") == 0) {
                assert_true(e->is_dir);
                *seen |= 1;
        } else {
                assert_string_equal(e->name, "f");
                assert_false(e->is_dir);
                assert_int_equal(e->bytes, 3);
                assert_true(llabs(e->modified_ms - ls_clock_wall_ms()) < 60000);
                *seen |= 2;
        }
        return LS_OK;
}

static void
test_folders(void **state)
{
        size_t seen = 0;
        char *absolute;
        uint64_t free_bytes = 0, total = 0;

        assert_int_equal(ls_dir_make(path_of("a/b//c/d/")), LS_OK);
        assert_int_equal(ls_dir_make(path_of("a/b/c/d")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("a/b/c/f"), span_of("abc")), LS_OK);
        assert_int_equal(ls_dir_make(path_of("a/b/c/f")), LS_EXISTS);
        assert_int_equal(ls_dir_make(path_of("a/b/c/f/g")), LS_EXISTS);
        assert_int_equal(ls_dir_walk(path_of("a/b/c"), check_on_entry, &seen), LS_OK);
        assert_int_equal(seen, 3);
        assert_int_equal(ls_dir_walk(path_of("a"), stop_on_entry, NULL), LS_CANCELED);
        assert_int_equal(ls_dir_walk(path_of("none"), stop_on_entry, NULL), LS_ABSENT);
        assert_int_equal(ls_dir_walk(path_of("a/b/c/f"), stop_on_entry, NULL), LS_ABSENT);
        ls_fault_fail("readdir", 1, EIO, false);
        assert_int_equal(ls_dir_walk(path_of("a/b/c"), check_on_entry, &seen), LS_EIO);
        assert_int_equal(ls_dir_delete(path_of("a")), LS_NOT_EMPTY);
        assert_int_equal(ls_dir_delete(path_of("none")), LS_ABSENT);
        assert_int_equal(ls_dir_delete(path_of("a/b/c/d")), LS_OK);
        assert_int_equal(ls_dir_sync(path_of("a/b/c/d")), LS_ABSENT);
        assert_int_equal(ls_file_rename(path_of("a/b/c/f"), path_of("g")), LS_OK);
        assert_int_equal(ls_file_rename(path_of("a/b/c/f"), path_of("g")), LS_ABSENT);

        assert_int_equal(symlink("a/b", path_of("link")), 0);
        assert_int_equal(ls_path_absolute(path_of("link/../b/c"), &absolute), LS_OK);
        assert_true(absolute[0] == '/');
        assert_non_null(strstr(absolute, "/a/b/c"));
        ls_free(absolute);
        assert_int_equal(ls_path_absolute(path_of("none"), &absolute), LS_ABSENT);
        assert_int_equal(ls_disk_space(base, &free_bytes, &total), LS_OK);
        assert_true(total > 0 && free_bytes <= total);
        assert_int_equal(ls_disk_space(path_of("none"), &free_bytes, &total), LS_ABSENT);
}

static void
test_folders_survive_power_loss(void **state)
{
        char image[300], file[320];

        ls_fault_record(base);
        assert_int_equal(ls_dir_make(path_of("a/b/c")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("a/b/c/w"), span_of("x")), LS_OK);
        snprintf(image, sizeof image, "%s-image", base);
        snprintf(file, sizeof file, "%s/a/b/c/w", image);
        for (uint64_t seed = 0; seed < 5; seed++) {
                ls_fault_image(image, seed);
                assert_true(content_is(file, "x"));
                remove_tree(image);
        }
}

static int
lock_in_child(const char *path)
{
        struct ls_file *lock;
        int status;
        pid_t pid = fork();

        assert_true(pid >= 0);
        if (pid == 0)
                _exit(ls_file_lock(path, &lock));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        return WEXITSTATUS(status);
}

static void
test_lock(void **state)
{
        struct ls_file *lock, *second = NULL;

        assert_int_equal(ls_file_lock(path_of("l"), &lock), LS_OK);
        assert_int_equal(ls_file_lock(path_of("l"), &second), LS_BUSY);
        assert_int_equal(lock_in_child(path_of("l")), LS_BUSY);
        ls_file_close(lock);
        assert_int_equal(lock_in_child(path_of("l")), LS_OK);
        assert_int_equal(ls_file_lock(path_of("l"), &lock), LS_OK);
        ls_file_close(lock);
        assert_int_equal(symlink("l", path_of("link")), 0);
        assert_int_equal(ls_file_lock(path_of("link"), &lock), LS_DENIED);
        assert_int_equal(ls_file_lock(path_of("no/l"), &lock), LS_ABSENT);
}

/* ---- full and read-only disks ---- */

static void
test_full_and_read_only(void **state)
{
        uint8_t *block = ls_calloc(1, 1 << 20);
        struct ls_file *f;

        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", base, "tmpfs", 0, "size=65536") != 0) {
                print_message("may not mount: not run\n");
                ls_free(block);
                skip();
        }
        assert_int_equal(ls_file_write_new(path_of("small"), span_of("kept")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("large"), ls_span_of(block, 1 << 20)),
                         LS_ENOSPC);
        assert_int_equal(ls_file_write_atomic(path_of("small"), ls_span_of(block, 1 << 20)),
                         LS_ENOSPC);
        assert_true(content_is(path_of("small"), "kept"));
        assert_int_equal(entry_count(base), 1);
        assert_int_equal(ls_file_open(path_of("small"), LS_FILE_WRITE, &f), LS_OK);
        assert_int_equal(ls_file_allocate(f, 1 << 20), LS_ENOSPC);
        ls_file_close(f);
        assert_int_equal(mount(NULL, base, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
        assert_int_equal(ls_file_write_new(path_of("new"), span_of("x")), LS_EREADONLY);
        assert_int_equal(ls_file_write_atomic(path_of("small"), span_of("x")), LS_EREADONLY);
        assert_int_equal(ls_file_open(path_of("small"), LS_FILE_WRITE, &f), LS_EREADONLY);
        assert_int_equal(ls_file_delete(path_of("small")), LS_EREADONLY);
        assert_int_equal(ls_dir_make(path_of("d")), LS_EREADONLY);
        assert_int_equal(ls_file_lock(path_of("l"), &f), LS_EREADONLY);
        assert_true(content_is(path_of("small"), "kept"));
        assert_int_equal(umount(base), 0);
        ls_free(block);
}

/* ---- trees ---- */

static void
test_tree_names(void **state)
{
        static const char *const bad[] = { "",   "/",   "/a",   "a/",   "a//b", ".",
                                           "..", "./a", "../a", "a/..", "a/.",  "a/../../b" };
        struct ls_tree *tree;
        struct ls_tree_info info;
        struct ls_file *f = NULL;
        char wide[300];

        memset(wide, 'w', sizeof wide);
        wide[256] = '\0';
        assert_int_equal(ls_tree_open(path_of("tree/in"), &tree), LS_OK);
        for (size_t i = 0; i <= LS_COUNT(bad); i++) {
                const char *name = i < LS_COUNT(bad) ? bad[i] : wide;

                assert_int_equal(ls_tree_open_file(tree, name, &f), LS_INVALID);
                assert_int_equal(ls_tree_create(tree, name, &f), LS_INVALID);
                assert_int_equal(ls_tree_stat(tree, name, &info), LS_INVALID);
                assert_int_equal(ls_tree_make_dir(tree, name), LS_INVALID);
                assert_int_equal(ls_tree_publish(tree, name, "x", true), LS_INVALID);
                assert_int_equal(ls_tree_publish(tree, "x", name, true), LS_INVALID);
                assert_int_equal(ls_tree_sync_folder(tree, name), LS_INVALID);
                assert_int_equal(ls_tree_delete(tree, name), LS_INVALID);
                assert_int_equal(ls_tree_lock(tree, name, LS_TREE_SHARED, &f), LS_INVALID);
        }
        assert_null(f);
        ls_tree_close(tree);
        ls_tree_close(NULL);
        assert_int_equal(ls_file_write_new(path_of("plain"), span_of("x")), LS_OK);
        assert_int_equal(ls_tree_open(path_of("plain"), &tree), LS_EXISTS);
}

static ls_err
count_on_name(void *ctx, const char *name, bool is_dir)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

static void
put_in_tree(struct ls_tree *tree, const char *name, const char *text)
{
        ls_span span = span_of(text);
        struct ls_file *f;

        assert_int_equal(ls_tree_create(tree, name, &f), LS_OK);
        assert_int_equal(ls_file_write(f, 0, &span, 1), LS_OK);
        assert_int_equal(ls_file_sync_all(f), LS_OK);
        ls_file_close(f);
}

static void
test_tree_links(void **state)
{
        struct ls_tree *tree;
        struct ls_tree_info info;
        struct ls_file *f = NULL;
        size_t count = 0;

        assert_int_equal(ls_dir_make(path_of("out/deep")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("out/secret"), span_of("secret")), LS_OK);
        assert_int_equal(ls_tree_open(path_of("in"), &tree), LS_OK);
        assert_int_equal(symlink("../out", path_of("in/dir")), 0);
        assert_int_equal(symlink("../out/secret", path_of("in/file")), 0);
        assert_int_equal(symlink("nowhere", path_of("in/dangling")), 0);
        assert_int_equal(mkfifo(path_of("in/fifo"), 0600), 0);
        put_in_tree(tree, "tmp", "x");

        assert_int_equal(ls_tree_open_file(tree, "file", &f), LS_DENIED);
        assert_int_equal(ls_tree_open_file(tree, "dangling", &f), LS_DENIED);
        assert_int_equal(ls_tree_open_file(tree, "dir/secret", &f), LS_DENIED);
        assert_int_equal(ls_tree_open_file(tree, "fifo", &f), LS_ABSENT);
        assert_int_equal(ls_tree_create(tree, "dir/new", &f), LS_DENIED);
        assert_int_equal(ls_tree_create(tree, "dangling", &f), LS_EXISTS);
        assert_int_equal(ls_tree_lock(tree, "dir/lock", LS_TREE_SHARED, &f), LS_DENIED);
        assert_int_equal(ls_tree_lock(tree, "file", LS_TREE_SHARED, &f), LS_DENIED);
        assert_int_equal(ls_tree_stat(tree, "file", &info), LS_DENIED);
        assert_int_equal(ls_tree_stat(tree, "dir/secret", &info), LS_DENIED);
        assert_int_equal(ls_tree_stat(tree, "fifo", &info), LS_ABSENT);
        assert_int_equal(ls_tree_make_dir(tree, "dir/new"), LS_DENIED);
        assert_int_equal(ls_tree_publish(tree, "tmp", "dir/new", true), LS_DENIED);
        assert_int_equal(ls_tree_publish(tree, "tmp", "dir/deep/new", false), LS_DENIED);
        assert_int_equal(ls_tree_publish(tree, "dir/secret", "stolen", true), LS_DENIED);
        assert_int_equal(ls_tree_delete(tree, "dir/secret"), LS_DENIED);
        assert_int_equal(ls_tree_sync_folder(tree, "dir/secret"), LS_DENIED);
        assert_int_equal(ls_tree_walk(tree, "dir", count_on_name, &count), LS_DENIED);
        assert_int_equal(count, 0);
        assert_int_equal(ls_tree_walk(tree, "", count_on_name, &count), LS_OK);
        assert_int_equal(count, 1); /* tmp: links and the fifo are left out */
        assert_null(f);
        /* Replacing and deleting a link is about the link. */
        assert_int_equal(ls_tree_publish(tree, "tmp", "file", false), LS_EXISTS);
        assert_int_equal(ls_tree_publish(tree, "tmp", "file", true), LS_OK);
        assert_int_equal(ls_tree_open_file(tree, "file", &f), LS_OK);
        ls_file_close(f);
        assert_int_equal(ls_tree_delete(tree, "dir"), LS_OK);
        assert_true(content_is(path_of("out/secret"), "secret"));
        assert_int_equal(entry_count(path_of("out")), 2);
        assert_int_equal(entry_count(path_of("out/deep")), 0);
        ls_tree_close(tree);
}

/* Somebody swaps a folder and a link to the outside while files are published: none lands
 * outside. */
struct swapper {
        char in[300], link[300];
        _Atomic bool stop;
        size_t swaps;
};

static void
swapper_run(void *arg)
{
        struct swapper *s = arg;

        while (!s->stop) {
                if (renameat2(AT_FDCWD, s->in, AT_FDCWD, s->link, RENAME_EXCHANGE) == 0)
                        s->swaps++;
        }
}

static void
test_tree_link_swapped_in(void **state)
{
        struct swapper s = { .stop = false };
        struct ls_thread *thread;
        struct ls_tree *tree;
        size_t done = 0;

        assert_int_equal(ls_dir_make(path_of("out")), LS_OK);
        assert_int_equal(ls_dir_make(path_of("in/folder")), LS_OK);
        assert_int_equal(symlink("../out", path_of("in/link")), 0);
        assert_int_equal(ls_tree_open(path_of("in"), &tree), LS_OK);
        snprintf(s.in, sizeof s.in, "%s/in/folder", base);
        snprintf(s.link, sizeof s.link, "%s/in/link", base);
        assert_int_equal(ls_thread_start("swapper", swapper_run, &s, &thread), LS_OK);
        for (int i = 0; i < 500; i++) {
                char tmp[32], name[32];
                ls_err e;

                snprintf(tmp, sizeof tmp, "tmp-%d", i);
                snprintf(name, sizeof name, "folder/%d", i);
                put_in_tree(tree, tmp, "x");
                e = ls_tree_publish(tree, tmp, name, i % 2);
                assert_true(e == LS_OK || e == LS_DENIED || e == LS_ABSENT || e == LS_INVALID);
                done += e == LS_OK;
                if (e != LS_OK)
                        assert_int_equal(ls_tree_delete(tree, tmp), LS_OK);
        }
        s.stop = true;
        ls_thread_join(thread);
        assert_true(s.swaps > 0 && done > 0);
        assert_int_equal(entry_count(path_of("out")), 0);
        ls_tree_close(tree);
}

static void
test_tree_publish(void **state)
{
        struct ls_tree *tree;
        struct ls_tree_info info;
        struct ls_file *f, *lock;

        assert_int_equal(ls_tree_open(base, &tree), LS_OK);
        put_in_tree(tree, "t1", "1");
        put_in_tree(tree, "t2", "2");
        assert_int_equal(ls_tree_publish(tree, "t1", "a/b/c", false), LS_OK);
        assert_int_equal(ls_tree_publish(tree, "t1", "a/b/d", false), LS_ABSENT);
        assert_int_equal(ls_tree_publish(tree, "t2", "a/b/c", false), LS_EXISTS);
        assert_int_equal(ls_tree_publish(tree, "t2", "a/b/c/d", false), LS_INVALID);
        assert_int_equal(ls_tree_publish(tree, "t2", "a/b", false), LS_INVALID);
        assert_int_equal(ls_tree_publish(tree, "t2", "a", true), LS_INVALID);
        assert_true(content_is(path_of("a/b/c"), "1"));
        assert_int_equal(ls_tree_publish(tree, "t2", "a/b/c", true), LS_OK);
        assert_true(content_is(path_of("a/b/c"), "2"));
        assert_int_equal(ls_tree_stat(tree, "a/b/c", &info), LS_OK);
        assert_int_equal(info.bytes, 1);
        assert_false(info.is_dir);
        assert_int_equal(ls_tree_stat(tree, "a/b", &info), LS_OK);
        assert_true(info.is_dir);
        assert_int_equal(ls_tree_open_file(tree, "a/b", &f), LS_ABSENT);
        assert_int_equal(ls_tree_delete(tree, "a/b"), LS_ABSENT);
        assert_int_equal(ls_tree_delete(tree, "a/b/c"), LS_OK); /* a and a/b go with it */
        assert_int_equal(ls_tree_stat(tree, "a", &info), LS_ABSENT);
        assert_int_equal(ls_tree_sync_folder(tree, "a/b/c"), LS_OK);
        /* What a crash has left of a folder is no obstacle. */
        put_in_tree(tree, "t3", "3");
        assert_int_equal(ls_dir_make(path_of("x/y")), LS_OK);
        assert_int_equal(ls_tree_publish(tree, "t3", "x/y", false), LS_OK);
        assert_true(content_is(path_of("x/y"), "3"));
        /* A file system without links. */
        put_in_tree(tree, "t4", "4");
        ls_fault_fail("linkat", 0, EPERM, true);
        assert_int_equal(ls_tree_publish(tree, "t4", "x/y", false), LS_EXISTS);
        assert_int_equal(ls_tree_publish(tree, "t4", "x/z", false), LS_OK);
        assert_true(content_is(path_of("x/z"), "4"));
        ls_fault_reset();

        assert_int_equal(ls_tree_lock(tree, "l", LS_TREE_SHARED, &f), LS_OK);
        assert_int_equal(ls_tree_lock(tree, "l", LS_TREE_SHARED, &lock), LS_OK);
        ls_file_close(lock);
        assert_int_equal(ls_tree_lock(tree, "l", LS_TREE_EXCLUSIVE_TRY, &lock), LS_BUSY);
        ls_file_close(f);
        assert_int_equal(ls_tree_lock(tree, "l", LS_TREE_EXCLUSIVE_TRY, &lock), LS_OK);
        ls_file_close(lock);
        assert_int_equal(ls_tree_lock(tree, "no/l", LS_TREE_SHARED, &lock), LS_ABSENT);
        ls_tree_close(tree);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_open),
                TEST(test_read_write),
                TEST(test_failing_calls),
                TEST(test_read_all),
                TEST(test_write_new),
                TEST(test_write_atomic_failing),
                TEST(test_write_atomic_power_loss),
                TEST(test_power_loss_is_felt),
                TEST(test_folders),
                TEST(test_folders_survive_power_loss),
                TEST(test_lock),
                TEST(test_tree_names),
                TEST(test_tree_links),
                TEST(test_tree_link_swapped_in),
                TEST(test_tree_publish),
                TEST(test_full_and_read_only),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
