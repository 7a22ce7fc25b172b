/* store/local_test.c - proves of the folder back end: at each failing file call, for each error,
 * an object is the old or the new one and an acknowledged write is there; the same at a power
 * loss at each call; what a crash leaves aside is removed when nobody has the store open, and
 * not before; no link leads out, and files that are not ours are left alone; two processes lose
 * no compare-and-replace; full, read-only and forbidden are told apart, on real file systems
 * when the test may. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/fsuid.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/store.h"
#include "sys/fault.h"
#include "sys/file.h"

static char base[256];

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

/* Thousands of syncs: in memory where there is such a file system, unless TMPDIR says where. */
static const char *
test_folder(void)
{
        if (getenv("TMPDIR") != NULL)
                return getenv("TMPDIR");
        return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

static int
setup(void **state)
{
        snprintf(base, sizeof base, "%s/ls-local-XXXXXX", test_folder());
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

static const char *
path_of(const char *name)
{
        static char paths[8][512];
        static unsigned next;
        char *path = paths[next++ % 8];

        snprintf(path, sizeof paths[0], "%s/%s", base, name);
        return path;
}

static ls_span
span_of(const char *text)
{
        return ls_span_of(text, strlen(text));
}

static struct ls_store *
store_open(const char *dir)
{
        struct ls_errinfo words = { { 0 } };
        struct ls_store *s = NULL;

        if (ls_store_local_open(dir, &s, &words) != LS_OK)
                fail_msg("%s", words.text);
        return s;
}

/* "" when absent; the caller frees. */
static char *
content_of(struct ls_store *s, const char *key)
{
        struct ls_slice *got = NULL;
        ls_err e = ls_store_get(s, key, 0, 0, &got);
        char *text;

        assert_true(e == LS_OK || e == LS_ABSENT);
        text = e == LS_OK ? ls_format("%.*s", (int)got->len, (char *)got->ptr) : ls_strdup("");
        ls_slice_unref(got);
        return text;
}

static bool
content_is(struct ls_store *s, const char *key, const char *want)
{
        char *text = content_of(s, key);
        bool same = strcmp(text, want) == 0;

        ls_free(text);
        return same;
}

static ls_err
count_on_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

static ls_err
left_on_entry(void *ctx, const struct ls_dir_entry *e)
{
        if (strncmp(e->name, "lock-", 5) != 0 && strcmp(e->name, "open") != 0)
                ++*(size_t *)ctx;
        return LS_OK;
}

/* Files aside that are no objects. */
static size_t
left_aside(const char *dir)
{
        char *tmp = ls_format("%s/.tmp~", dir);
        size_t count = 0;

        assert_int_equal(ls_dir_walk(tmp, left_on_entry, &count), LS_OK);
        ls_free(tmp);
        return count;
}

/* ---- a scenario of all writes, and what may be seen after each ---- */

enum { OPS = 9 };

/* One write of the scenario; `key` goes from `before` to `after` ("": absent). */
struct op {
        const char *key, *before, *after;
};
static const struct op ops[OPS] = {
        { "a/b/put", "", "1" },  { "a/b/put", "1", "2" }, { "a/absent", "", "1" },
        { "a/b/put", "2", "3" }, { "a/b/put", "3", "" },  { "up/load", "", "one two" },
        { "many/1", "", "x" },   { "many/1", "x", "" },   { "a/absent", "1", "4" },
};

static ls_err
op_upload(struct ls_store *s, const char *key)
{
        struct ls_store_writer *w;

        LS_TRY(ls_store_writer_open(s, key, &w));
        for (int i = 0; i < 2; i++) {
                ls_err e = w->write(w, span_of(i == 0 ? "one " : "two"));

                if (e != LS_OK) {
                        w->cancel(w);
                        return e;
                }
        }
        return w->finish(w);
}

static ls_err
op_match(struct ls_store *s, const char *key, const char *text)
{
        struct ls_store_info info;

        LS_TRY(ls_store_head(s, key, &info));
        return ls_store_put_if_match(s, key, info.etag, span_of(text));
}

static ls_err
op_run(struct ls_store *s, int i)
{
        switch (i) {
        case 2: return ls_store_put_if_absent(s, ops[i].key, span_of(ops[i].after));
        case 3:
        case 8: return op_match(s, ops[i].key, ops[i].after);
        case 4: return ls_store_delete(s, ops[i].key);
        case 5: return op_upload(s, ops[i].key);
        case 7:
                return ls_store_delete_many(s, (const char *const[]){ ops[i].key, "many/never" }, 2,
                                            NULL);
        default: return ls_store_put(s, ops[i].key, span_of(ops[i].after));
        }
}

/* After ops [0, done) and with op `done` under way (or failed): each key is what its last op
 * made it, the key of the one under way that or what it is to be. */
static void
want_state(struct ls_store *s, int done)
{
        for (int i = 0; i < OPS; i++) {
                const char *want = ops[i].before; /* of its first op */
                bool first = true;

                for (int k = 0; k < i; k++)
                        first = first && strcmp(ops[k].key, ops[i].key) != 0;
                if (!first)
                        continue;
                for (int k = 0; k < done; k++)
                        want = strcmp(ops[k].key, ops[i].key) == 0 ? ops[k].after : want;
                if (done < OPS && strcmp(ops[done].key, ops[i].key) == 0)
                        assert_true(content_is(s, ops[i].key, want) ||
                                    content_is(s, ops[i].key, ops[done].after));
                else
                        assert_true(content_is(s, ops[i].key, want));
        }
}

/* ---- failing calls ---- */

/* Each call of each op fails in turn; the op fails with an error that says why, or did not need
 * the call. */
static void
test_failing_calls(void **state)
{
        static const struct {
                int errnum;
                ls_err want, want2;
        } errors[] = { { EIO, LS_EIO, LS_EIO },
                       { ENOSPC, LS_ENOSPC, LS_ENOSPC },
                       { EROFS, LS_EREADONLY, LS_EREADONLY },
                       { EACCES, LS_DENIED, LS_EACCESS },
                       { EMFILE, LS_ELIMIT, LS_ELIMIT } };
        size_t failures = 0;

        for (size_t k = 0; k < LS_COUNT(errors); k++) {
                for (int i = 0; i < OPS; i++) {
                        bool hit = true;

                        for (uint64_t n = 0; hit; n++) {
                                struct ls_store *s = store_open(path_of("s"));
                                ls_err e;

                                for (int before = 0; before < i; before++)
                                        assert_int_equal(op_run(s, before), LS_OK);
                                ls_fault_fail(NULL, n, errors[k].errnum, false);
                                e = op_run(s, i);
                                hit = ls_fault_failed() != NULL;
                                ls_fault_fail(NULL, UINT64_MAX, EIO, false);
                                if (e != LS_OK && e != errors[k].want && e != errors[k].want2)
                                        fail_msg("op %d, %s: %s", i, ls_fault_failed(),
                                                 ls_err_name(e));
                                failures += e != LS_OK;
                                assert_true(hit || e == LS_OK);
                                want_state(s, e == LS_OK ? i + 1 : i);
                                /* It works again. */
                                if (e != LS_OK && i != 2 && i != 5) {
                                        want_state(s, i);
                                        if (i != 3 && i != 8)
                                                assert_int_equal(op_run(s, i), LS_OK);
                                }
                                ls_store_close(s);
                                remove_tree(path_of("s"));
                        }
                }
        }
        assert_true(failures > 200);
}

static void
test_failing_open_and_reads(void **state)
{
        struct ls_errinfo words;
        struct ls_slice *got = NULL;
        struct ls_store *s;
        bool hit = true;

        for (uint64_t n = 0; hit; n++) {
                ls_err e;

                s = NULL;
                words.text[0] = '\0';
                ls_fault_fail(NULL, n, EIO, false);
                e = ls_store_local_open(path_of("s"), &s, &words);
                hit = ls_fault_failed() != NULL;
                assert_true(e == LS_OK || (e == LS_EIO && hit && s == NULL && words.text[0] != 0));
                ls_store_close(s);
        }
        ls_fault_reset();
        s = store_open(path_of("s"));
        assert_int_equal(ls_store_put(s, "a/b", span_of("x")), LS_OK);
        hit = true;
        for (uint64_t n = 0; hit; n++) {
                struct ls_store_info info;
                size_t count = 0;
                ls_err e;

                ls_fault_fail(NULL, n, EIO, false);
                e = ls_store_get(s, "a/b", 0, 0, &got);
                assert_true(e == LS_EIO || got->len == 1);
                ls_slice_unref(got);
                got = NULL;
                if (e == LS_OK)
                        e = ls_store_head(s, "a/b", &info);
                if (e == LS_OK) {
                        e = ls_store_list(s, "", NULL, 10, count_on_key, &count);
                        assert_true(e != LS_OK || count == 1);
                }
                hit = ls_fault_failed() != NULL;
                assert_true(e == (hit ? LS_EIO : LS_OK));
        }
        ls_store_close(s);
}

/* A file that shrinks while it is read is an error, not bytes from nowhere. */
static void
test_short_reads_and_writes(void **state)
{
        struct ls_store *s = store_open(path_of("s"));
        struct ls_slice *got = NULL;
        char text[1001];

        memset(text, 'x', 1000);
        text[1000] = '\0';
        ls_fault_short(7);
        assert_int_equal(ls_store_put(s, "k", span_of(text)), LS_OK);
        assert_int_equal(ls_store_get(s, "k", 0, 0, &got), LS_OK);
        assert_int_equal(got->len, 1000);
        assert_memory_equal(got->ptr, text, 1000);
        ls_slice_unref(got);
        ls_store_close(s);
}

/* ---- power loss ---- */

struct power {
        int done; /* ops that were acknowledged */
        uint64_t seed;
        size_t images;
};

static void
power_look(struct power *p, uint64_t seed)
{
        char image[300];
        struct ls_store *s;

        snprintf(image, sizeof image, "%s-image", base);
        ls_fault_image(image, seed);
        s = store_open(image);
        want_state(s, p->done);
        assert_int_equal(left_aside(image), 0);
        ls_store_close(s);
        remove_tree(image);
        p->images++;
}

static void
power_on_call(void *ctx, const char *call)
{
        struct power *p = ctx;

        power_look(p, 0);
        power_look(p, 1);
        for (int i = 0; i < 4; i++)
                power_look(p, ++p->seed + 1);
}

static void
test_power_loss(void **state)
{
        struct power p = { .done = 0 };
        struct ls_store *s;

        assert_int_equal(ls_dir_make(path_of("s")), LS_OK);
        ls_fault_record(path_of("s"));
        ls_fault_on_call(power_on_call, &p);
        s = store_open(path_of("s"));
        for (; p.done < OPS; p.done++)
                assert_int_equal(op_run(s, p.done), LS_OK);
        ls_fault_on_call(NULL, NULL);
        power_on_call(&p, "end");
        ls_store_close(s);
        assert_true(p.images > 300);
}

/* LS_EXISTS is durable: what the other one has put is there after a power loss, although its own
 * put has not returned (its last call fails). */
static void
test_exists_is_durable(void **state)
{
        struct ls_store *s;
        char image[300];

        assert_int_equal(ls_dir_make(path_of("s")), LS_OK);
        s = store_open(path_of("s"));
        assert_int_equal(ls_store_put(s, "d/other", span_of("x")), LS_OK);
        ls_fault_record(path_of("s"));
        ls_fault_fail("fsync", 1, EIO, false); /* 0: the file, 1: its folder */
        assert_int_equal(ls_store_put_if_absent(s, "d/k", span_of("first")), LS_EIO);
        assert_int_equal(ls_store_put_if_absent(s, "d/k", span_of("second")), LS_EXISTS);
        snprintf(image, sizeof image, "%s-image", base);
        ls_fault_image(image, 0);
        ls_store_close(s);
        s = store_open(image);
        assert_true(content_is(s, "d/k", "first"));
        ls_store_close(s);
        remove_tree(image);
}

/* ---- leftovers, links, foreign files ---- */

static void
test_leftovers(void **state)
{
        struct ls_store *s = store_open(path_of("s")), *second;
        struct ls_store_writer *w;

        assert_int_equal(ls_store_writer_open(s, "k", &w), LS_OK);
        assert_int_equal(w->write(w, span_of("x")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("s/.tmp~/crashed"), span_of("x")), LS_OK);
        assert_int_equal(left_aside(path_of("s")), 2);
        second = store_open(path_of("s")); /* s has it open: nothing is removed */
        assert_int_equal(left_aside(path_of("s")), 2);
        assert_int_equal(w->finish(w), LS_OK);
        assert_true(content_is(second, "k", "x"));
        ls_store_close(s);
        ls_store_close(store_open(path_of("s")));
        assert_int_equal(left_aside(path_of("s")), 1);
        ls_store_close(second);
        s = store_open(path_of("s"));
        assert_int_equal(left_aside(path_of("s")), 0);
        assert_true(content_is(s, "k", "x"));
        ls_store_close(s);
}

static void
test_links(void **state)
{
        struct ls_slice *got = NULL;
        struct ls_store_writer *w;
        struct ls_store_info info;
        struct ls_store *s;
        size_t count = 0;

        assert_int_equal(ls_dir_make(path_of("out")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("out/secret"), span_of("secret")), LS_OK);
        s = store_open(path_of("s"));
        assert_int_equal(symlink("../out", path_of("s/dir")), 0);
        assert_int_equal(symlink("../out/secret", path_of("s/file")), 0);
        assert_int_equal(ls_store_get(s, "dir/secret", 0, 0, &got), LS_DENIED);
        assert_int_equal(ls_store_get(s, "file", 0, 0, &got), LS_DENIED);
        assert_int_equal(ls_store_head(s, "file", &info), LS_DENIED);
        assert_int_equal(ls_store_put(s, "dir/new", span_of("x")), LS_DENIED);
        assert_int_equal(ls_store_put_if_absent(s, "dir/new", span_of("x")), LS_DENIED);
        assert_int_equal(ls_store_put_if_absent(s, "file", span_of("x")), LS_EXISTS);
        assert_int_equal(ls_store_put_if_match(s, "file", "x", span_of("x")), LS_DENIED);
        assert_int_equal(ls_store_delete(s, "dir/secret"), LS_DENIED);
        assert_int_equal(ls_store_writer_open(s, "dir/up", &w), LS_OK);
        assert_int_equal(w->finish(w), LS_DENIED);
        assert_int_equal(ls_store_list(s, "", NULL, 10, count_on_key, &count), LS_OK);
        assert_int_equal(count, 0);
        assert_int_equal(ls_store_put(s, "file", span_of("mine")), LS_OK); /* the link goes */
        assert_true(content_is(s, "file", "mine"));
        ls_store_close(s);
        count = 0;
        assert_int_equal(ls_dir_walk(path_of("out"), left_on_entry, &count), LS_OK);
        assert_int_equal(count, 1);
        s = store_open(path_of("out"));
        assert_true(content_is(s, "secret", "secret"));
        ls_store_close(s);
}

/* Names that are no keys are not listed, and do no harm. */
static void
test_foreign_files(void **state)
{
        struct ls_store *s = store_open(path_of("s"));
        size_t count = 0;
        char name[256];

        assert_int_equal(ls_store_put(s, "d/k", span_of("x")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("s/has space"), span_of("x")), LS_OK);
        assert_int_equal(ls_file_write_new(path_of("s/d/caf\xc3\xa9"), span_of("x")), LS_OK);
        assert_int_equal(ls_dir_make(path_of("s/a folder/k")), LS_OK);
        assert_int_equal(ls_dir_make(path_of("s/empty/folder")), LS_OK);
        memset(name, 'n', 255);
        name[255] = '\0';
        assert_int_equal(chdir(path_of("s")), 0); /* deeper than a key can be */
        for (int i = 0; i < 5; i++) {
                assert_int_equal(mkdir(name, 0700), 0);
                assert_int_equal(chdir(name), 0);
        }
        assert_int_equal(ls_file_write_new("deep", span_of("x")), LS_OK);
        assert_int_equal(ls_store_list(s, "", NULL, 10, count_on_key, &count), LS_OK);
        assert_int_equal(count, 1);
        for (int i = 0; i < 5; i++) {
                assert_int_equal(remove(i == 0 ? "deep" : name), 0);
                assert_int_equal(chdir(".."), 0);
        }
        assert_int_equal(remove(name), 0);
        assert_int_equal(chdir("/"), 0);
        ls_store_close(s);
}

/* ---- processes ---- */

static void
count_up(const char *dir, int times)
{
        struct ls_store *s = store_open(dir);

        while (times > 0) {
                struct ls_store_info info;
                char *text, *next;
                int64_t value;
                ls_err e;

                assert_int_equal(ls_store_head(s, "count", &info), LS_OK);
                text = content_of(s, "count");
                assert_true(ls_str_to_i64(ls_str_of(text), 0, 1000, &value));
                next = ls_format("%lld", (long long)value + 1);
                e = ls_store_put_if_match(s, "count", info.etag, span_of(next));
                assert_true(e == LS_OK || e == LS_EXISTS);
                times -= e == LS_OK;
                ls_free(text);
                ls_free(next);
        }
        ls_store_close(s);
}

static void
test_processes(void **state)
{
        struct ls_store *s = store_open(path_of("s"));
        pid_t pids[4];

        assert_int_equal(ls_store_put(s, "count", span_of("0")), LS_OK);
        for (int i = 0; i < 4; i++) {
                pids[i] = fork();
                assert_true(pids[i] >= 0);
                if (pids[i] == 0) {
                        count_up(path_of("s"), 25);
                        _exit(0);
                }
        }
        for (int i = 0; i < 4; i++) {
                int status;

                assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        }
        assert_true(content_is(s, "count", "100"));
        ls_store_close(s);
}

/* Whoever replaces or deletes holds the lock of the key meanwhile: else a put between the look
 * and the rename of an if-match would be lost. Seen from inside of the call that does it. */
struct holders {
        const char *call;
        size_t looks, held;
};

static void
holders_on_call(void *ctx, const char *call)
{
        struct holders *h = ctx;

        if (strcmp(call, h->call) != 0)
                return;
        h->looks++;
        for (int i = 0; i < 64; i++) {
                struct ls_file *lock;
                char name[32];
                ls_err e;

                snprintf(name, sizeof name, "s/.tmp~/lock-%02d", i);
                e = ls_file_lock(path_of(name), &lock);
                if (e == LS_OK)
                        ls_file_close(lock);
                h->held += e == LS_BUSY;
        }
}

static void
test_lock_is_held(void **state)
{
        struct ls_store *s = store_open(path_of("s"));
        struct holders h = { .call = "renameat" };

        ls_fault_on_call(holders_on_call, &h);
        assert_int_equal(ls_store_put(s, "k", span_of("1")), LS_OK);
        assert_int_equal(h.looks, 1);
        assert_int_equal(h.held, 1);
        assert_int_equal(op_match(s, "k", "2"), LS_OK);
        assert_int_equal(h.looks, 2);
        assert_int_equal(h.held, 2);
        h = (struct holders){ .call = "unlinkat" };
        assert_int_equal(ls_store_delete(s, "k"), LS_OK);
        assert_int_equal(h.looks, 1);
        assert_int_equal(h.held, 1);
        assert_int_equal(ls_store_put(s, "k", span_of("1")), LS_OK);
        ls_fault_on_call(NULL, NULL);
        ls_store_close(s);
}

/* ---- etags ---- */

static int64_t frozen_ms;
static int64_t
frozen_wall_ms(void *ctx)
{
        return frozen_ms;
}
static int64_t
frozen_monotonic_ns(void *ctx)
{
        return 1;
}
static void
frozen_random(void *ctx, void *ret_bytes, size_t bytes)
{
        memset(ret_bytes, 1, bytes);
}

/* The time part alone tells versions apart, also when the clock stands or goes back: inodes come
 * again. */
static void
test_etag_times(void **state)
{
        static const struct ls_clock clock = { .wall_ms = frozen_wall_ms,
                                               .monotonic_ns = frozen_monotonic_ns,
                                               .random = frozen_random };
        unsigned long long last = 0;
        struct ls_store *s;

        frozen_ms = 1000000;
        ls_clock_install(&clock);
        s = store_open(path_of("s"));
        for (int i = 0; i < 20; i++) {
                unsigned long long inode, time, bytes;
                struct ls_store_info info;

                if (i == 10)
                        frozen_ms -= 5000;
                assert_int_equal(ls_store_put(s, "k", span_of("same")), LS_OK);
                assert_int_equal(ls_store_head(s, "k", &info), LS_OK);
                assert_int_equal(sscanf(info.etag, "%llx-%llx-%llx", &inode, &time, &bytes), 3);
                assert_true(time > last);
                assert_int_equal(info.modified_ms, 1000000);
                last = time;
        }
        ls_store_close(s);
        ls_clock_install(NULL);
}

/* ---- real disks ---- */

static void
test_denied(void **state)
{
        struct ls_store *s = store_open(path_of("s")), *other = NULL;
        struct ls_slice *got = NULL;
        struct ls_errinfo words;
        bool root = geteuid() == 0;

        assert_int_equal(ls_store_put(s, "d/k", span_of("x")), LS_OK);
        assert_int_equal(ls_store_put(s, "open", span_of("x")), LS_OK);
        assert_int_equal(chmod(path_of("s/d"), 0), 0);
        if (root) /* root may everything: become nobody for the file system */
                setfsuid(65534);
        assert_int_equal(ls_store_get(s, "d/k", 0, 0, &got), LS_DENIED);
        assert_int_equal(ls_store_put(s, "d/k", span_of("y")), LS_DENIED);
        assert_int_equal(ls_store_delete(s, "d/k"), LS_DENIED);
        assert_int_equal(ls_store_list(s, "d/", NULL, 10, count_on_key, NULL), LS_DENIED);
        assert_int_equal(ls_store_probe(s, &words), root ? LS_DENIED : LS_OK);
        assert_int_equal(ls_store_local_open(path_of("s/d/x"), &other, &words), LS_DENIED);
        assert_non_null(strstr(words.text, "s/d/x"));
        if (root)
                setfsuid(0);
        assert_int_equal(chmod(path_of("s/d"), 0700), 0);
        assert_true(content_is(s, "d/k", "x"));
        ls_store_close(s);
}

static void
test_full_and_read_only(void **state)
{
        uint8_t *block = ls_calloc(1, 1 << 20);
        struct ls_store_writer *w;
        struct ls_store *s, *other = NULL;
        struct ls_errinfo words;
        size_t count = 0;
        ls_err e = LS_OK;

        if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("tmpfs", base, "tmpfs", 0, "size=262144") != 0) {
                print_message("may not mount: not run\n");
                ls_free(block);
                skip();
        }
        s = store_open(path_of("s"));
        assert_int_equal(ls_store_put(s, "kept", span_of("kept")), LS_OK);
        assert_int_equal(ls_store_put(s, "kept", ls_span_of(block, 1 << 20)), LS_ENOSPC);
        assert_int_equal(ls_store_put_if_absent(s, "new", ls_span_of(block, 1 << 20)), LS_ENOSPC);
        assert_int_equal(ls_store_writer_open(s, "up", &w), LS_OK);
        for (int i = 0; i < 100 && e == LS_OK; i++)
                e = w->write(w, ls_span_of(block, 10000));
        assert_int_equal(e, LS_ENOSPC);
        assert_int_equal(w->write(w, ls_span_of(block, 1)), LS_ENOSPC); /* it stays failed */
        assert_int_equal(w->finish(w), LS_ENOSPC);
        assert_int_equal(left_aside(path_of("s")), 0);
        assert_true(content_is(s, "kept", "kept"));
        assert_int_equal(ls_store_put(s, "kept", span_of("there is room again")), LS_OK);
        ls_store_close(s);
        /* Read-only while it is open is what a file system does after errors of its own. */
        s = store_open(path_of("s"));
        ls_fault_fail("openat", 1, EROFS, true);
        assert_int_equal(ls_store_put(s, "kept", span_of("x")), LS_EREADONLY);
        ls_fault_reset();
        ls_store_close(s);
        assert_int_equal(mount(NULL, base, NULL, MS_REMOUNT | MS_RDONLY, NULL), 0);
        assert_int_equal(ls_store_local_open(path_of("s"), &other, &words), LS_EREADONLY);
        assert_non_null(strstr(words.text, "read-only"));
        assert_null(other);
        assert_int_equal(mount(NULL, base, NULL, MS_REMOUNT, NULL), 0);
        s = store_open(path_of("s"));
        assert_true(content_is(s, "kept", "there is room again"));
        assert_int_equal(ls_store_list(s, "", NULL, 10, count_on_key, &count), LS_OK);
        assert_int_equal(count, 1);
        ls_store_close(s);
        assert_int_equal(umount(base), 0);
        ls_free(block);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_failing_calls),
                TEST(test_failing_open_and_reads),
                TEST(test_short_reads_and_writes),
                TEST(test_power_loss),
                TEST(test_exists_is_durable),
                TEST(test_leftovers),
                TEST(test_links),
                TEST(test_foreign_files),
                TEST(test_processes),
                TEST(test_lock_is_held),
                TEST(test_etag_times),
                TEST(test_denied),
                TEST(test_full_and_read_only),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
