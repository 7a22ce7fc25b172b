/* sys/jobs_test.c - proves: each job runs once, first in first out on one thread, its `done`
 * once and on its loop; a stop runs what is queued; a job may submit jobs, and free itself;
 * waits end at their deadline by the test's clock; threads have names and no signals. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sys/jobs.h"

enum { JOBS = 2000 };
struct counted {
        struct ls_job job;
        struct all *all;
        unsigned number;
        atomic_uint runs, dones;
};
struct all {
        struct ls_jobs *pool;
        struct ls_loop *loop;
        struct counted jobs[JOBS];
        unsigned next; /* with one thread */
        bool ordered;
        atomic_uint extra;
};

static void
counted_run(struct ls_job *job)
{
        struct counted *c = LS_CONTAINER(job, struct counted, job);

        if (c->all->ordered && c->number != c->all->next++)
                atomic_fetch_add(&c->runs, 100);
        atomic_fetch_add(&c->runs, 1);
}

static void
counted_done(struct ls_job *job)
{
        struct counted *c = LS_CONTAINER(job, struct counted, job);

        if (ls_loop_is_current(c->all->loop) && atomic_load(&c->runs) == 1)
                atomic_fetch_add(&c->dones, 1);
}

static void
run_all(size_t threads, bool ordered)
{
        static struct all all;

        memset(&all, 0, sizeof all);
        all.ordered = ordered;
        assert_int_equal(ls_loop_start("loop", &all.loop), LS_OK);
        assert_int_equal(ls_jobs_start("pool", threads, &all.pool), LS_OK);
        for (unsigned i = 0; i < JOBS; i++) {
                struct counted *c = &all.jobs[i];

                c->all = &all;
                c->number = i;
                c->job.run = counted_run;
                c->job.done = i % 2 ? counted_done : NULL;
                c->job.loop = i % 2 ? all.loop : NULL;
                ls_jobs_submit(all.pool, &c->job);
        }
        ls_jobs_stop(all.pool);
        ls_loop_stop(all.loop);
        for (unsigned i = 0; i < JOBS; i++) {
                assert_int_equal(all.jobs[i].runs, 1);
                assert_int_equal(all.jobs[i].dones, i % 2);
        }
}

static void
test_in_order(void **state)
{
        run_all(1, true);
}

static void
test_many_threads(void **state)
{
        run_all(4, false);
}

/* A job that submits the next and frees itself; the stop runs the whole chain. */
struct chain {
        struct ls_job job;
        struct ls_jobs *pool;
        atomic_uint *count;
        unsigned left;
};

static void
chain_run(struct ls_job *job)
{
        struct chain *c = LS_CONTAINER(job, struct chain, job), *next;

        atomic_fetch_add(c->count, 1);
        if (c->left > 0) {
                next = ls_malloc(sizeof *next);
                *next = *c;
                next->left--;
                ls_jobs_submit(next->pool, &next->job);
        }
        ls_free(c);
}

static void
test_chain_through_stop(void **state)
{
        atomic_uint count = 0;
        struct chain *c = ls_calloc(1, sizeof *c);

        assert_int_equal(ls_jobs_start("a-name-that-is-too-long", 3, &c->pool), LS_OK);
        c->job.run = chain_run;
        c->count = &count;
        c->left = 99;
        {
                struct ls_jobs *pool = c->pool;

                ls_jobs_submit(pool, &c->job);
                ls_jobs_stop(pool);
        }
        assert_int_equal(count, 100);
        ls_jobs_stop(NULL);
        ls_thread_join(NULL);
}

static void
thread_look(void *arg)
{
        char *name = arg;
        sigset_t set;

        pthread_getname_np(pthread_self(), name, 16);
        pthread_sigmask(SIG_SETMASK, NULL, &set);
        name[16] = sigismember(&set, SIGTERM) && sigismember(&set, SIGPIPE) &&
                   !sigismember(&set, SIGSEGV);
}

static void
test_thread_name_and_signals(void **state)
{
        char name[17] = { 0 };
        struct ls_thread *thread;
        sigset_t set;

        assert_int_equal(ls_thread_start("0123456789abcdefgh", thread_look, name, &thread), LS_OK);
        ls_thread_join(thread);
        assert_string_equal(name, "0123456789abcde\0");
        assert_int_equal(name[16], 1);
        pthread_sigmask(SIG_SETMASK, NULL, &set);
        assert_false(sigismember(&set, SIGTERM)); /* ours is as it was */
        assert_true(ls_cpu_count() >= 1);
}

static void
yield_look(void *arg)
{
        int *nice_step = arg, before = getpriority(PRIO_PROCESS, 0);

        ls_thread_yield_to_others();
        *nice_step = getpriority(PRIO_PROCESS, 0) - before;
}

static void
test_yield_to_others(void **state)
{
        int before = getpriority(PRIO_PROCESS, 0), step = 0;
        struct ls_thread *thread;

        assert_int_equal(ls_thread_start("yield", yield_look, &step, &thread), LS_OK);
        ls_thread_join(thread);
        if (before < 19)
                assert_true(step > 0); /* of that thread */
        assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
}

/* ---- deadlines ---- */

static int64_t fake_ns;
static int64_t
fake_monotonic_ns(void *ctx)
{
        return fake_ns += 1000000;
}
static int64_t
fake_wall_ms(void *ctx)
{
        return 0;
}
static void
fake_random(void *ctx, void *ret_bytes, size_t bytes)
{
        memset(ret_bytes, 0, bytes);
}

static void
test_wait_until(void **state)
{
        static const struct ls_clock clock = { .wall_ms = fake_wall_ms,
                                               .monotonic_ns = fake_monotonic_ns,
                                               .random = fake_random };
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        struct ls_cond cond;

        ls_cond_init(&cond);
        pthread_mutex_lock(&lock);
        fake_ns = 5000000000; /* 5 s; each look takes a millisecond */
        ls_clock_install(&clock);
        assert_false(ls_cond_wait_until(&cond, &lock, 5000));
        assert_false(ls_cond_wait_until(&cond, &lock, -1));
        /* A wait of a millisecond ends; by this clock the deadline is then over. */
        assert_false(ls_cond_wait_until(&cond, &lock, fake_ns / 1000000 + 2));
        /* It ends early by this clock: true, and the caller waits again. */
        assert_true(ls_cond_wait_until(&cond, &lock, fake_ns / 1000000 + 5));
        ls_clock_install(NULL);
        pthread_mutex_unlock(&lock);
        ls_cond_done(&cond);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_in_order),
                cmocka_unit_test(test_many_threads),
                cmocka_unit_test(test_chain_through_stop),
                cmocka_unit_test(test_thread_name_and_signals),
                cmocka_unit_test(test_yield_to_others),
                cmocka_unit_test(test_wait_until),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
