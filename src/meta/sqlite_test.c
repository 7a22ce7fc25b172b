/* meta/sqlite_test.c - what only SQLite has: checkpoints. It proves: the log is copied into the
 * database file while commits go on, and is bounded; what is acknowledged is there after a restart
 * at any such moment; a checkpoint that failed stops the store, and the next start copies the log
 * again. SQLite's calls to sync the database file go through this test. */
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/stat.h>

#include "meta/test_kit.h"

static const sqlite3_io_methods *real_io;
static sqlite3_io_methods test_io;
static sqlite3_vfs *real_vfs, test_vfs;
static atomic_int syncs, syncs_fail; /* of the database file */

static int
test_sync(sqlite3_file *file, int flags)
{
        atomic_fetch_add(&syncs, 1);
        return atomic_load(&syncs_fail) ? SQLITE_IOERR_FSYNC : real_io->xSync(file, flags);
}

static int
test_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *ret_flags)
{
        int code = real_vfs->xOpen(real_vfs, name, file, flags, ret_flags);

        if (code == SQLITE_OK && (flags & SQLITE_OPEN_MAIN_DB)) {
                if (real_io == NULL) {
                        real_io = file->pMethods;
                        test_io = *real_io;
                        test_io.xSync = test_sync;
                }
                file->pMethods = &test_io;
        }
        return code;
}

static void
vfs_install(void)
{
        real_vfs = sqlite3_vfs_find(NULL);
        test_vfs = *real_vfs;
        test_vfs.zName = "test";
        test_vfs.xOpen = test_open;
        assert_int_equal(sqlite3_vfs_register(&test_vfs, 1), SQLITE_OK);
}

static int64_t
file_bytes(const struct kit *k, const char *suffix)
{
        struct stat st;
        char path[128];

        snprintf(path, sizeof path, "%s%s", k->path, suffix);
        return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* Commits of a batch for each of `partitions`, until the log was begun anew. */
static void
commit_until_anew(struct kit *k, uint64_t stream, int32_t partitions, int64_t *ret_commits)
{
        struct ls_meta_wal_batch batches[64];
        int64_t last = 0, most = 0, commits = 0;

        /* A log that is begun anew keeps its file: the database file's syncs tell. */
        for (int before = atomic_load(&syncs); atomic_load(&syncs) < before + 12; commits++) {
                for (int32_t p = 0; p < partitions; p++)
                        batches[p] = kit_batch(stream, p, 1);
                assert_ok(kit_commit(k, batches, (size_t)partitions, NULL));
                last = file_bytes(k, "-wal");
                most = LS_MAX(most, last);
                assert_true(commits < 200000);
        }
        assert_true(most <= 72 << 20);
        *ret_commits = commits;
}

static void
test_log_is_copied_and_bounded(void **state)
{
        struct kit k;
        uint64_t stream;
        int64_t commits;

        kit_new(&k);
        stream = kit_stream_id(k.m, "s", 64);
        atomic_store(&syncs, 0);
        commit_until_anew(&k, stream, 64, &commits);
        assert_int_equal(k.lost, 0);
        for (int32_t p = 0; p < 64; p += 63)
                assert_int_equal(kit_partition(k.m, stream, p).end, commits);
        kit_reopen(&k);
        for (int32_t p = 0; p < 64; p += 63)
                assert_int_equal(kit_partition(k.m, stream, p).end, commits);
        kit_done(&k);
}

static void
test_failed_checkpoint_stops_the_store(void **state)
{
        struct ls_meta_wal_batch b;
        struct kit k;
        uint64_t stream;
        int64_t commits = 0;
        ls_err e = LS_OK;

        kit_new(&k);
        stream = kit_stream_id(k.m, "s", 1);
        atomic_store(&syncs_fail, 1);
        while (e == LS_OK && commits < 200000) {
                b = kit_batch(stream, 0, 1);
                e = kit_commit(&k, &b, 1, NULL);
                commits += e == LS_OK;
        }
        assert_int_equal(e, LS_EDB);
        assert_int_equal(k.lost, 1);
        b = kit_batch(stream, 0, 1);
        assert_int_equal(kit_commit(&k, &b, 1, NULL), LS_EDB); /* and stays so */
        atomic_store(&syncs_fail, 0);
        kit_reopen(&k);
        assert_int_equal(kit_partition(k.m, stream, 0).end, commits);
        b = kit_batch(stream, 0, 1);
        assert_int_equal(kit_one(&k, &b), LS_OK);
        kit_done(&k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_log_is_copied_and_bounded),
                cmocka_unit_test(test_failed_checkpoint_stops_the_store),
        };

        vfs_install();
        return cmocka_run_group_tests_name("sqlite", tests, NULL, NULL);
}
