/* tests/fault/wal_fault_test.c - proves: whichever file call of an append, a flush, a new segment,
 * an opening or a purge fails, once or for good, with EIO or ENOSPC: the append is answered with a
 * retriable failure, what was answered well stays and comes back in order and once, appends work
 * again when the fault is gone, and a file whose write or sync failed is never written again. */
#include "tests/fault/kit.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>

static const int errnums[] = { EIO, ENOSPC };

static int
setup(void **state)
{
        struct kit *k = ls_calloc(1, sizeof *k);

        ls_fault_reset();
        kit_init(k);
        kit_open(k);
        *state = k;
        return 0;
}

static int
teardown(void **state)
{
        struct kit *k = *state;

        ls_fault_reset();
        if (k->wal != NULL)
                kit_close(k);
        assert_int_equal(k->lost, 0);
        kit_remove(k->dir);
        ls_free(k);
        return 0;
}

static void
expect_failure(ls_err e, int errnum)
{
        assert_int_equal(e, errnum == ENOSPC ? LS_ENOSPC : LS_EIO);
        assert_true(ls_err_retriable(e));
}

static void
appends(struct kit *k, int count)
{
        for (int i = 0; i < count; i++)
                assert_ok(kit_append(k, i % KIT_PARTITIONS));
}

static void
restart(struct kit *k)
{
        kit_close(k);
        kit_open(k);
        kit_check(k);
}

/* Twelve appends fill several segments; call number nth of them fails. False: there were fewer. */
static bool
fail_append(struct kit *k, uint64_t nth, int errnum, bool for_good)
{
        struct ls_errinfo info = { "" };
        int failures = 0;
        bool hit;

        ls_fault_reset();
        ls_fault_fail(NULL, nth, errnum, for_good);
        for (int i = 0; i < 12; i++) {
                ls_err e = kit_append(k, i % KIT_PARTITIONS);

                if (e != LS_OK) {
                        expect_failure(e, errnum);
                        failures++;
                        /* not ready, until an append has worked again; with words */
                        assert_int_equal(ls_wal_ready(k->wal, &info), e);
                        assert_int_not_equal(info.text[0], '\0');
                }
        }
        hit = ls_fault_failed() != NULL;
        ls_fault_reset();
        if (!hit)
                return false;
        if (!for_good)
                assert_true(failures <= 1);
        appends(k, 2);
        assert_ok(ls_wal_ready(k->wal, NULL));
        kit_check(k);
        return true;
}

static void
test_each_call_of_appends(void **state)
{
        struct kit *k = *state;

        for (size_t e = 0; e < LS_COUNT(errnums); e++) {
                for (int for_good = 0; for_good < 2; for_good++) {
                        uint64_t nth = 0;

                        while (fail_append(k, nth, errnums[e], for_good)) {
                                nth++;
                                if (nth % 8 == 0) {
                                        restart(k);
                                        memset(k->good_count, 0, sizeof k->good_count);
                                        kit_close(k);
                                        kit_remove(k->dir);
                                        kit_init(k);
                                        kit_open(k);
                                }
                        }
                        assert_true(nth >= 24); /* a write and a sync each, and the segments */
                        restart(k);
                }
        }
}

/* The segment file with the largest number, and what is in it. */
struct newest {
        char path[192];
        uint8_t *bytes;
        size_t len;
};

static void
file_read(struct newest *n)
{
        FILE *file = fopen(n->path, "rb");
        struct stat st;

        assert_non_null(file);
        assert_int_equal(stat(n->path, &st), 0);
        n->len = (size_t)st.st_size;
        n->bytes = ls_malloc(n->len + 1);
        assert_int_equal(fread(n->bytes, 1, n->len, file), n->len);
        fclose(file);
}

static void
newest_read(const struct kit *k, struct newest *n)
{
        DIR *dir = opendir(k->wal_dir);
        struct dirent *d;

        *n = (struct newest){ "" };
        assert_non_null(dir);
        while ((d = readdir(dir)) != NULL) {
                char path[192];

                snprintf(path, sizeof path, "%s/%.32s", k->wal_dir, d->d_name);
                if (d->d_name[0] != '.' && strcmp(path, n->path) > 0)
                        memcpy(n->path, path, sizeof path);
        }
        closedir(dir);
        file_read(n);
}

static void
given_up(struct kit *k, const char *call, int errnum)
{
        struct newest before, later, after;

        appends(k, 1);
        ls_fault_reset();
        ls_fault_fail(call, 0, errnum, false);
        expect_failure(kit_append(k, 0), errnum);
        assert_string_equal(ls_fault_failed(), call);
        ls_fault_reset();
        newest_read(k, &before);
        appends(k, 2); /* few bytes: they would have fitted */
        newest_read(k, &later);
        assert_string_not_equal(before.path, later.path);
        after = before;
        file_read(&after);
        assert_int_equal(after.len, before.len);
        assert_memory_equal(after.bytes, before.bytes, before.len);
        ls_free(before.bytes);
        ls_free(later.bytes);
        ls_free(after.bytes);
        kit_check(k);
}

static void
test_file_is_given_up(void **state)
{
        struct kit *k = *state;

        given_up(k, "fdatasync", EIO);
        given_up(k, "fdatasync", ENOSPC);
        given_up(k, "pwritev", EIO);
        given_up(k, "pwritev", ENOSPC);
        restart(k);
}

static void
test_short_writes(void **state)
{
        struct kit *k = *state;

        ls_fault_short(37); /* each pwritev takes 37 bytes at most, each pread gives 37 */
        appends(k, 8);
        kit_check(k);
        ls_fault_reset();
        restart(k);
        ls_fault_short(1);
        kit_check(k);
}

/* Nothing overtakes: what queued behind a failed flush fails with it. */
static void
test_queue_behind_a_failure(void **state)
{
        struct kit *k = *state;
        struct kit_append a[8] = { 0 };
        bool failed = false;

        appends(k, 2);
        for (uint64_t nth = 0; nth < 4; nth++) {
                ls_fault_reset();
                ls_fault_fail("fdatasync", nth, EIO, false);
                for (size_t i = 0; i < LS_COUNT(a); i++)
                        kit_append_start(k, &a[i], 0);
                for (size_t i = 0; i < LS_COUNT(a); i++) {
                        ls_err e = kit_append_wait(&a[i]);

                        if (e == LS_OK)
                                k->good[0][k->good_count[0]++] = a[i].id;
                        else
                                expect_failure(e, EIO);
                }
                failed = failed || ls_fault_failed() != NULL;
        }
        assert_true(failed);
        ls_fault_reset();
        appends(k, 2);
        restart(k);
}

static void
test_each_call_of_opening(void **state)
{
        struct kit *k = *state;

        for (size_t e = 0; e < LS_COUNT(errnums); e++) {
                for (int for_good = 0; for_good < 2; for_good++) {
                        bool more = true;

                        for (uint64_t nth = 0; more; nth++) {
                                struct ls_errinfo info = { "" };
                                ls_err err;

                                appends(k, 6);
                                kit_close(k);
                                kit_meta_open(k);
                                ls_fault_reset();
                                ls_fault_fail(NULL, nth, errnums[e], for_good);
                                err = kit_wal_open(k, &info);
                                more = ls_fault_failed() != NULL;
                                ls_fault_reset();
                                if (err != LS_OK) {
                                        expect_failure(err, errnums[e]);
                                        assert_int_not_equal(info.text[0], '\0');
                                        assert_ok(kit_wal_open(k, &info));
                                }
                                kit_stream_open(k);
                                kit_check(k);
                                if (nth % 8 != 7)
                                        continue;
                                memset(k->good_count, 0, sizeof k->good_count);
                                kit_close(k);
                                kit_remove(k->dir);
                                kit_init(k);
                                kit_open(k);
                        }
                }
        }
}

/* Segments that nothing names, since the floor has passed them: their deletion fails. */
static void
test_each_call_of_a_purge(void **state)
{
        struct kit *k = *state;
        struct ls_wal_purge purge = { .unnamed_since_ms = INT64_MAX };
        size_t deleted, count, left;
        uint64_t bytes;

        appends(k, 16);
        for (int32_t p = 0; p < KIT_PARTITIONS; p++) {
                int64_t start;

                assert_ok(ls_meta_log_start(k->meta, ls_wal_stream_id(k->stream), p, 14, &start));
        }
        assert_ok(ls_meta_log_discard(k->meta, ls_wal_stream_id(k->stream), &left));
        assert_true(left > 0);
        ls_fault_reset();
        ls_fault_fail("unlink", 0, EIO, false);
        ls_wal_disk(k->wal, &count, &bytes);
        purge.unnamed_since_ms = 0; /* no backup was made since */
        assert_ok(ls_wal_purge(k->wal, &purge, &deleted));
        assert_int_equal(deleted, 0);
        assert_true(purge.waiting > 0);
        purge.unnamed_since_ms = INT64_MAX;
        assert_ok(ls_wal_purge(k->wal, &purge, &deleted));
        assert_string_equal(ls_fault_failed(), "unlink");
        assert_true(deleted > 0); /* the rest went */
        ls_fault_reset();
        appends(k, 2);
        /* the file that stayed is found at the next start, and goes */
        kit_close(k);
        kit_open(k);
        assert_ok(ls_wal_purge(k->wal, &purge, &deleted));
        assert_true(deleted >= 1);
        appends(k, 2);
}

static off_t
wal_bytes(const struct kit *k)
{
        DIR *dir = opendir(k->wal_dir);
        off_t sum = 0;

        assert_non_null(dir);
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
                struct stat st;

                assert_int_equal(fstatat(dirfd(dir), entry->d_name, &st, 0), 0);
                sum += S_ISREG(st.st_mode) ? st.st_size - 80 : 0; /* without the header */
        }
        closedir(dir);
        return sum;
}

/* An object that was written and synced, and whose commit did not come: as when the process is
 * killed in between. A rebuild would take it for committed. */
static void
test_never_committed_is_cut(void **state)
{
        struct kit *k = *state;
        char command[400];
        off_t bytes;

        appends(k, 5);
        kit_close(k);
        bytes = wal_bytes(k);
        snprintf(command, sizeof command, "cp '%s' '%s.old'", k->db, k->db);
        assert_int_equal(system(command), 0);
        kit_open(k);
        appends(k, 1);
        k->good_count[0]--; /* the database will not know of it */
        kit_close(k);
        assert_true(wal_bytes(k) > bytes);
        snprintf(command, sizeof command, "mv '%s.old' '%s'", k->db, k->db);
        assert_int_equal(system(command), 0);
        for (int i = 0; i < 3; i++) { /* the epochs in which nothing is committed change nothing */
                restart(k);
                assert_int_equal(wal_bytes(k), bytes);
        }
        appends(k, 3);
        kit_close(k);
        bytes = wal_bytes(k);
        kit_open(k);
        kit_check(k);
        assert_int_equal(wal_bytes(k), bytes);
}

/* A write that fails half way, or a sync: what it wrote is cut from the file that is given up. */
static void
test_refused_is_cut(void **state)
{
        static const char *const calls[] = { "pwritev", "fdatasync" };
        struct kit *k = *state;

        for (size_t i = 0; i < LS_COUNT(calls); i++) {
                off_t bytes;

                appends(k, 2);
                restart(k);
                bytes = wal_bytes(k);
                appends(k, 1); /* so that no zeros are written ahead of the one that fails */
                ls_fault_fail(calls[i], 0, EIO, false);
                assert_int_equal(kit_append(k, 0), LS_EIO);
                ls_fault_reset();
                appends(k, 1); /* in another file: that one is left */
                kit_close(k);
                assert_true(wal_bytes(k) > bytes);
                bytes = wal_bytes(k) - bytes;
                kit_open(k);
                kit_check(k);
                /* two objects of one batch of 300 to 900 bytes each, and no third */
                assert_true(bytes > 2 * (61 + 300) && bytes < 2 * (61 + 900 + 160));
        }
}

/* Zeros are written ahead of what is small; a segment that is left, and one that is closed, ends with
 * its last object; zeros that can't be had are done without. */
static void
test_zeros_ahead(void **state)
{
        struct kit *k = *state;
        off_t whole = KIT_SEGMENT_BYTES - 80, bytes;

        appends(k, 1);
        assert_int_equal(wal_bytes(k), whole);
        appends(k, 1);
        assert_int_equal(wal_bytes(k), whole);
        kit_close(k);
        bytes = wal_bytes(k);
        assert_true(bytes < whole);
        kit_open(k);
        kit_check(k);
        assert_int_equal(kit_append(k, 0), LS_OK);
        assert_int_equal(wal_bytes(k), bytes + whole);
        restart(k);
        bytes = wal_bytes(k);
        ls_fault_fail("pwritev", 1, ENOSPC, false); /* behind the new segment's header */
        assert_int_equal(kit_append(k, 0), LS_OK);
        assert_string_equal(ls_fault_failed(), "pwritev");
        ls_fault_reset();
        appends(k, 3);
        restart(k);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_each_call_of_appends, setup, teardown),
                cmocka_unit_test_setup_teardown(test_file_is_given_up, setup, teardown),
                cmocka_unit_test_setup_teardown(test_short_writes, setup, teardown),
                cmocka_unit_test_setup_teardown(test_queue_behind_a_failure, setup, teardown),
                cmocka_unit_test_setup_teardown(test_each_call_of_opening, setup, teardown),
                cmocka_unit_test_setup_teardown(test_each_call_of_a_purge, setup, teardown),
                cmocka_unit_test_setup_teardown(test_never_committed_is_cut, setup, teardown),
                cmocka_unit_test_setup_teardown(test_refused_is_cut, setup, teardown),
                cmocka_unit_test_setup_teardown(test_zeros_ahead, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
