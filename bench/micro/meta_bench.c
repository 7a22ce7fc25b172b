/* meta/meta_bench.c - what metadata commits and the start cost. Usage: meta_bench [DIR]
 *
 * Prints min/median/max over rounds, wall and CPU per commit (CPU of the whole process: submitting,
 * meta thread, SQLite). */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "meta/meta_int.h"

#define ROUNDS 5

static const char *bench_dir = "/tmp";

struct waiter {
        struct ls_meta_wal_commit commit;
        pthread_mutex_t lock;
        pthread_cond_t cond;
        bool finished;
};

static void
waiter_done(struct ls_meta_op *op, ls_err result)
{
        struct waiter *w = LS_CONTAINER(op, struct waiter, commit.op);

        if (result != LS_OK) {
                fprintf(stderr, "commit: %s\n", ls_err_name(result));
                exit(1);
        }
        pthread_mutex_lock(&w->lock);
        w->finished = true;
        pthread_cond_signal(&w->cond);
        pthread_mutex_unlock(&w->lock);
}

static int64_t
cpu_ns(void)
{
        struct timespec t;

        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
        return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static int
order(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

static void
report(const char *name, double *wall, double *cpu)
{
        qsort(wall, ROUNDS, sizeof *wall, order);
        qsort(cpu, ROUNDS, sizeof *cpu, order);
        printf("%-44s wall %8.1f %8.1f %8.1f us   cpu %8.1f %8.1f %8.1f us\n", name, wall[0],
               wall[ROUNDS / 2], wall[ROUNDS - 1], cpu[0], cpu[ROUNDS / 2], cpu[ROUNDS - 1]);
}

static struct ls_meta *
open_at(const char *path, bool sync_full)
{
        struct ls_meta_options o = { .sqlite_path = path,
                                     .sync_full = sync_full,
                                     .broker_id = 1,
                                     .producer_expiry_ms = 86400000 };
        struct ls_errinfo info;
        struct ls_meta *m;

        if (ls_meta_open(&o, &m, &info) != LS_OK) {
                fprintf(stderr, "%s\n", info.text);
                exit(1);
        }
        return m;
}

static uint64_t
make_stream(struct ls_meta *m, const char *name, int32_t partitions)
{
        struct ls_meta_stream spec = { .kafka_name = (char *)(uintptr_t)name,
                                       .catalog = (char *)(uintptr_t) "main",
                                       .ns = (char *)(uintptr_t) "default",
                                       .name = (char *)(uintptr_t)name,
                                       .partitions = partitions };
        struct ls_meta_stream *s;
        uint64_t id;

        if (ls_meta_stream_create(m, &spec, &s) != LS_OK)
                exit(1);
        id = s->id;
        ls_meta_stream_free(s);
        return id;
}

/* `depth` commits in flight, each of one batch in each of `partitions`. */
static void
bench_commits(const char *name, bool sync_full, int32_t partitions, bool idempotent, size_t depth,
              size_t count)
{
        struct ls_meta_wal_batch *b = ls_calloc((size_t)partitions * depth, sizeof *b);
        struct waiter *w = ls_calloc(depth, sizeof *w);
        double wall[ROUNDS], cpu[ROUNDS];
        uint64_t id, sequence = 0;
        struct ls_meta *m;
        char path[256];

        snprintf(path, sizeof path, "%s/meta-bench.db", bench_dir);
        m = open_at(path, sync_full);
        id = make_stream(m, "t", partitions);
        for (size_t i = 0; i < depth; i++) {
                pthread_mutex_init(&w[i].lock, NULL);
                pthread_cond_init(&w[i].cond, NULL);
                w[i].finished = true;
        }
        for (int round = 0; round < ROUNDS; round++) {
                int64_t wall0 = ls_clock_monotonic_ns(), cpu0 = cpu_ns();

                for (size_t n = 0; n < count + depth; n++) {
                        struct waiter *at = &w[n % depth];
                        struct ls_meta_wal_batch *batches = &b[(n % depth) * (size_t)partitions];

                        pthread_mutex_lock(&at->lock);
                        while (!at->finished)
                                pthread_cond_wait(&at->cond, &at->lock);
                        pthread_mutex_unlock(&at->lock);
                        if (n >= count)
                                continue;
                        for (int32_t p = 0; p < partitions; p++)
                                batches[p] = (struct ls_meta_wal_batch){
                                        .stream_id = id,
                                        .entry = { .partition = p,
                                                   .records = 10,
                                                   .pos = 64 + (uint64_t)p * 1000,
                                                   .bytes = 1000,
                                                   .base_timestamp = 1,
                                                   .max_timestamp = 2,
                                                   .producer_id = idempotent ? p : -1,
                                                   .base_sequence = (int32_t)(sequence * 10),
                                                   .s0 = sequence * 77777777777u,
                                                   .s1 = 5 }
                                };
                        at->finished = false;
                        at->commit =
                                (struct ls_meta_wal_commit){ .op.done = waiter_done,
                                                             .sequence = sequence++,
                                                             .batches = batches,
                                                             .batch_count = (size_t)partitions };
                        ls_meta_wal_submit(m, &at->commit);
                }
                wall[round] = (double)(ls_clock_monotonic_ns() - wall0) / 1e3 / (double)count;
                cpu[round] = (double)(cpu_ns() - cpu0) / 1e3 / (double)count;
        }
        report(name, wall, cpu);
        ls_meta_close(m);
        unlink(path);
        ls_free(b);
        ls_free(w);
}

static ls_err
ignore_stream(void *ctx, const struct ls_meta_stream *s)
{
        uint64_t **at = ctx;

        *(*at)++ = s->id;
        return LS_OK;
}
static ls_err
ignore_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        return LS_OK;
}
static ls_err
ignore_entry(void *ctx, const struct ls_meta_entry *e)
{
        return LS_OK;
}

/* Open, list all streams, read the partitions and entries of each: what a broker does at start. */
static void
bench_start(int32_t streams)
{
        double wall[ROUNDS], cpu[ROUNDS];
        uint64_t *ids = ls_calloc((size_t)streams, sizeof *ids);
        struct ls_meta *m;
        char path[256];

        snprintf(path, sizeof path, "%s/meta-bench.db", bench_dir);
        m = open_at(path, false);
        for (int32_t i = 0; i < streams; i++) {
                char name[32];

                snprintf(name, sizeof name, "topic-%d", i);
                make_stream(m, name, 1);
        }
        ls_meta_close(m);
        for (int round = 0; round < ROUNDS; round++) {
                int64_t wall0 = ls_clock_monotonic_ns(), cpu0 = cpu_ns();
                uint64_t *at = ids;

                m = open_at(path, true);
                if (ls_meta_stream_list(m, ignore_stream, &at) != LS_OK)
                        exit(1);
                for (int32_t i = 0; i < streams; i++)
                        if (ls_meta_partitions(m, ids[i], ignore_partition, NULL) != LS_OK ||
                            ls_meta_entries(m, ids[i], ignore_entry, NULL) != LS_OK)
                                exit(1);
                wall[round] = (double)(ls_clock_monotonic_ns() - wall0) / 1e3;
                cpu[round] = (double)(cpu_ns() - cpu0) / 1e3;
                ls_meta_close(m);
        }
        report("start with 10,000 streams", wall, cpu);
        unlink(path);
        ls_free(ids);
}

int
main(int argc, char **argv)
{
        if (argc > 1)
                bench_dir = argv[1];
        printf("%-44s      %8s %8s %8s          %8s %8s %8s\n", "per commit", "min", "median",
               "max", "min", "median", "max");
        bench_commits("1 batch, normal, 1 in flight", false, 1, false, 1, 5000);
        bench_commits("1 batch, normal, 64 in flight", false, 1, false, 64, 20000);
        bench_commits("1 batch, idempotent, normal, 1 in flight", false, 1, true, 1, 5000);
        bench_commits("1 batch, full, 1 in flight", true, 1, false, 1, 500);
        bench_commits("1 batch, full, 64 in flight", true, 1, false, 64, 5000);
        bench_commits("1,000 partitions, normal, 1 in flight", false, 1000, false, 1, 300);
        bench_commits("1,000 partitions, idempotent, normal", false, 1000, true, 1, 300);
        bench_commits("1,000 partitions, full, 1 in flight", true, 1000, false, 1, 100);
        bench_start(10000);
        return 0;
}
