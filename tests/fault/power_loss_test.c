/* tests/fault/power_loss_test.c - proves: when the power fails before any of the calls by which the
 * WAL changes its files, whatever part of the unsynced names and sectors the disk kept, each record
 * that was answered until then is there afterwards, in the order in which it was sent, once, with
 * nothing after what was sent; torn tails are cut; and appends go on from there.
 *
 * The database is copied at the same moment as it stands. It may be ahead of what a power loss
 * would leave of it, never ahead of the WAL: it names an object only after that was synced. What
 * SQLite keeps of its own files is its own, well tested promise.
 */
#include "tests/fault/kit.h"

#include <errno.h>
#include <sys/stat.h>

#define SEEDS      5
#define IMAGES_MAX 400
#define IN_FLIGHT  6

struct image {
        size_t answered[KIT_PARTITIONS];
        char call[16];
};

struct shooting {
        struct kit *k;
        char dir[64];
        struct image images[IMAGES_MAX];
        int count;
        size_t answered[KIT_PARTITIONS]; /* a prefix of what was sent */
        uint32_t sent[KIT_PARTITIONS][KIT_BATCH_MAX];
        size_t sent_count[KIT_PARTITIONS];
        pthread_mutex_t lock; /* answered */
};

static void
copy_file(const char *from, const char *to)
{
        FILE *in = fopen(from, "rb"), *out;
        static char bytes[65536];
        size_t n;

        if (in == NULL)
                return;
        out = fopen(to, "wb");
        LS_ASSERT(out != NULL);
        while ((n = fread(bytes, 1, sizeof bytes, in)) > 0)
                LS_ASSERT(fwrite(bytes, 1, n, out) == n);
        LS_ASSERT(fclose(out) == 0);
        fclose(in);
}

/* Before each call that changes something. */
static void
shoot(void *ctx, const char *call)
{
        struct shooting *s = ctx;
        struct image *image = &s->images[s->count];
        char to[192], from[192];

        LS_ASSERT(s->count < IMAGES_MAX);
        pthread_mutex_lock(&s->lock); /* before the image: answered by then */
        memcpy(image->answered, s->answered, sizeof s->answered);
        pthread_mutex_unlock(&s->lock);
        snprintf(image->call, sizeof image->call, "%s", call);
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
                snprintf(to, sizeof to, "%s/%d-%d", s->dir, s->count, (int)seed);
                LS_ASSERT(mkdir(to, 0700) == 0);
                snprintf(to, sizeof to, "%s/%d-%d/wal", s->dir, s->count, (int)seed);
                ls_fault_image(to, seed < 2 ? seed : seed + 31 * (uint64_t)s->count);
                snprintf(to, sizeof to, "%s/%d-%d/meta.db", s->dir, s->count, (int)seed);
                copy_file(s->k->db, to);
                snprintf(to, sizeof to, "%s/%d-%d/meta.db-wal", s->dir, s->count, (int)seed);
                snprintf(from, sizeof from, "%s-wal", s->k->db);
                copy_file(from, to);
        }
        s->count++;
}

static void
answered(struct kit_append *a)
{
        struct shooting *s = a->ctx;

        assert_int_equal(a->item.outcome, LS_OK);
        pthread_mutex_lock(&s->lock);
        assert_int_equal(s->sent[a->item.partition][s->answered[a->item.partition]], a->id);
        s->answered[a->item.partition]++;
        pthread_mutex_unlock(&s->lock);
}

/* Sends `rounds` times several appends at once. */
static void
send_all(struct shooting *s, int rounds)
{
        for (int round = 0; round < rounds; round++) {
                struct kit_append a[IN_FLIGHT] = { 0 };

                for (int i = 0; i < IN_FLIGHT; i++) {
                        int32_t p = i % KIT_PARTITIONS;

                        a[i].on_done = answered;
                        a[i].ctx = s;
                        s->sent[p][s->sent_count[p]++] = s->k->next;
                        kit_append_start(s->k, &a[i], p);
                }
                for (int i = 0; i < IN_FLIGHT; i++)
                        assert_ok(kit_append_wait(&a[i]));
        }
}

/* The server that finds this on its disk. */
static void
develop(const struct shooting *s, int number, int seed)
{
        static uint32_t ids[KIT_BATCH_MAX];
        const struct image *image = &s->images[number];
        struct kit k = { .next = 1000 };

        snprintf(k.dir, sizeof k.dir, "%.32s/%d-%d", s->dir, number, seed);
        snprintf(k.db, sizeof k.db, "%s/meta.db", k.dir);
        snprintf(k.wal_dir, sizeof k.wal_dir, "%s/wal", k.dir);
        kit_open(&k);
        for (int round = 0; round < 2; round++) {
                for (int32_t p = 0; p < KIT_PARTITIONS; p++) {
                        size_t count = kit_read(&k, p, ids), old = count;

                        if (round == 1) /* those that follow the restart */
                                old = k.good_count[p];
                        if (old < image->answered[p] || old > s->sent_count[p])
                                fail_msg("before %s (image %d-%d): %zu answered, %zu sent, %zu "
                                         "found",
                                         image->call, number, seed, image->answered[p],
                                         s->sent_count[p], old);
                        assert_memory_equal(ids, s->sent[p], old * sizeof *ids);
                        if (round == 1) {
                                assert_int_equal(count, old + 2);
                                assert_int_equal(ids[old], 1000 + (uint32_t)p);
                        }
                        k.good_count[p] = old;
                }
                if (round == 1)
                        break;
                for (int i = 0; i < 2 * KIT_PARTITIONS; i++) {
                        struct kit_append a = { 0 };

                        kit_append_start(&k, &a, i % KIT_PARTITIONS);
                        assert_ok(kit_append_wait(&a));
                }
                kit_close(&k);
                kit_open(&k);
        }
        kit_close(&k);
        assert_int_equal(k.lost, 0);
        kit_remove(k.dir);
}

static void
develop_all(struct shooting *s)
{
        ls_fault_on_call(NULL, NULL);
        ls_fault_reset();
        for (int i = 0; i < s->count; i++) {
                for (int seed = 0; seed < SEEDS; seed++)
                        develop(s, i, seed);
        }
}

static int
setup(void **state)
{
        struct shooting *s = ls_calloc(1, sizeof *s);

        s->k = ls_calloc(1, sizeof *s->k);
        pthread_mutex_init(&s->lock, NULL);
        kit_init(s->k);
        kit_dir(s->dir);
        *state = s;
        return 0;
}

static int
teardown(void **state)
{
        struct shooting *s = *state;

        ls_fault_reset();
        if (s->k->wal != NULL)
                kit_close(s->k);
        kit_remove(s->k->dir);
        kit_remove(s->dir);
        pthread_mutex_destroy(&s->lock);
        ls_free(s->k);
        ls_free(s);
        return 0;
}

static void
test_while_appending(void **state)
{
        struct shooting *s = *state;

        kit_open(s->k);
        ls_fault_record(s->k->wal_dir);
        ls_fault_on_call(shoot, s);
        send_all(s, 6);
        ls_fault_on_call(NULL, NULL);
        assert_true(s->count >= 18);
        kit_close(s->k);
        develop_all(s);
}

/* The first start of all: the folder itself is new. */
static void
test_while_beginning(void **state)
{
        struct shooting *s = *state;

        ls_fault_record(s->k->dir);
        kit_open(s->k);
        kit_close(s->k);
        ls_fault_record(s->k->wal_dir);
        ls_fault_on_call(shoot, s);
        kit_open(s->k);
        send_all(s, 1);
        kit_close(s->k);
        develop_all(s);
}

/* The power fails, comes back, and fails while the torn tail is cut. */
static void
test_while_recovering(void **state)
{
        struct shooting *s = *state;
        char path[192], tail[96];
        FILE *file;
        int i;

        kit_open(s->k);
        send_all(s, 2);
        kit_close(s->k);
        snprintf(path, sizeof path, "%s/%020d.wal", s->k->wal_dir, 1);
        file = fopen(path, "ab");
        assert_non_null(file);
        memset(tail, 'x', sizeof tail);
        assert_int_equal(fwrite(tail, 1, sizeof tail, file), sizeof tail);
        assert_int_equal(fclose(file), 0);
        ls_fault_record(s->k->wal_dir);
        ls_fault_on_call(shoot, s);
        kit_open(s->k);
        send_all(s, 2);
        kit_close(s->k);
        for (i = 0; i < s->count && strcmp(s->images[i].call, "ftruncate") != 0; i++)
                ;
        assert_true(i < s->count); /* the tail was cut, and the power failed before it */
        develop_all(s);
}

/* A flush fails, the next ones go to another file. */
static void
test_after_a_failed_sync(void **state)
{
        struct shooting *s = *state;
        struct kit_append a = { 0 };

        kit_open(s->k);
        send_all(s, 1);
        ls_fault_record(s->k->wal_dir);
        ls_fault_fail("fdatasync", 0, EIO, false);
        kit_append_start(s->k, &a, 0);
        assert_int_equal(kit_append_wait(&a), LS_EIO);
        ls_fault_on_call(shoot, s);
        send_all(s, 3);
        ls_fault_on_call(NULL, NULL);
        kit_close(s->k);
        develop_all(s);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_while_beginning, setup, teardown),
                cmocka_unit_test_setup_teardown(test_while_appending, setup, teardown),
                cmocka_unit_test_setup_teardown(test_while_recovering, setup, teardown),
                cmocka_unit_test_setup_teardown(test_after_a_failed_sync, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
