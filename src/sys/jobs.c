/* sys/jobs.c - threads and the pool of them. See jobs.h. */
#include "sys/jobs.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"

/* A third of the processor against one other thread: slower, but never starved, for it may hold a
 * lock that the others want. */
#define THREAD_NICE_STEP 5

/* ---- conditions ---- */

void
ls_cond_init(struct ls_cond *c)
{
        pthread_condattr_t attr;

        pthread_condattr_init(&attr);
        pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
        pthread_cond_init(&c->cond, &attr);
        pthread_condattr_destroy(&attr);
}

void
ls_cond_done(struct ls_cond *c)
{
        pthread_cond_destroy(&c->cond);
}

void
ls_cond_wait(struct ls_cond *c, pthread_mutex_t *lock)
{
        pthread_cond_wait(&c->cond, lock);
}

bool
ls_cond_wait_until(struct ls_cond *c, pthread_mutex_t *lock, int64_t deadline_ms)
{
        int64_t left_ms = deadline_ms - ls_clock_monotonic_ms();
        struct timespec until;

        if (left_ms <= 0)
                return false;
        /* The kernel's clock, which a test's clock need not be. */
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += left_ms / 1000;
        until.tv_nsec += (left_ms % 1000) * 1000000;
        if (until.tv_nsec >= 1000000000) {
                until.tv_nsec -= 1000000000;
                until.tv_sec++;
        }
        pthread_cond_timedwait(&c->cond, lock, &until);
        return ls_clock_monotonic_ms() < deadline_ms;
}

/* ---- threads ---- */

struct ls_thread {
        pthread_t id;
        void (*fn)(void *arg);
        void *arg;
        char name[16];
};

static void *
thread_main(void *arg)
{
        struct ls_thread *thread = arg;

        pthread_setname_np(pthread_self(), thread->name);
        thread->fn(thread->arg);
        return NULL;
}

ls_err
ls_thread_start(const char *name, void (*fn)(void *arg), void *arg, struct ls_thread **ret_thread)
{
        struct ls_thread *thread = ls_calloc(1, sizeof *thread);
        sigset_t all, before;
        int failed;

        thread->fn = fn;
        thread->arg = arg;
        snprintf(thread->name, sizeof thread->name, "%s", name);
        /* Signals are for the main thread; SIGPIPE is for nobody. Those of a fault stay. */
        sigfillset(&all);
        sigdelset(&all, SIGSEGV);
        sigdelset(&all, SIGBUS);
        sigdelset(&all, SIGFPE);
        sigdelset(&all, SIGILL);
        sigdelset(&all, SIGABRT);
        sigdelset(&all, SIGTRAP);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        failed = pthread_create(&thread->id, NULL, thread_main, thread);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (failed != 0) {
                ls_free(thread);
                return LS_ELIMIT;
        }
        *ret_thread = thread;
        return LS_OK;
}

void
ls_thread_yield_to_others(void)
{
        id_t thread = (id_t)gettid(); /* Linux: priorities are a thread's */
        int now = getpriority(PRIO_PROCESS, thread);

        (void)setpriority(PRIO_PROCESS, thread, now + THREAD_NICE_STEP);
}

void
ls_thread_join(struct ls_thread *thread)
{
        if (thread == NULL)
                return;
        LS_ASSERT(!pthread_equal(thread->id, pthread_self()));
        pthread_join(thread->id, NULL);
        ls_free(thread);
}

/* ---- pool ---- */

struct ls_jobs {
        pthread_mutex_t lock; /* of all but `threads` */
        struct ls_cond submitted;
        struct ls_job *first, **last;
        size_t idle;
        bool stopping;
        size_t thread_count;
        struct ls_thread *threads[];
};

static void
job_on_done(struct ls_loop_msg *msg)
{
        struct ls_job *job = LS_CONTAINER(msg, struct ls_job, msg);

        job->done(job);
}

/* The next job, or NULL when the pool stops and none is left. */
static struct ls_job *
jobs_take(struct ls_jobs *jobs)
{
        struct ls_job *job;

        pthread_mutex_lock(&jobs->lock);
        while (jobs->first == NULL && !jobs->stopping) {
                jobs->idle++;
                ls_cond_wait(&jobs->submitted, &jobs->lock);
                jobs->idle--;
        }
        job = jobs->first;
        if (job != NULL) {
                jobs->first = job->next;
                if (jobs->first == NULL)
                        jobs->last = &jobs->first;
        }
        pthread_mutex_unlock(&jobs->lock);
        return job;
}

static void
jobs_run(void *arg)
{
        struct ls_jobs *jobs = arg;
        struct ls_job *job;

        while ((job = jobs_take(jobs)) != NULL) {
                /* Without `done` the job is its owner's again once run returns: read first. */
                struct ls_loop *loop = job->done != NULL ? job->loop : NULL;

                job->run(job);
                if (loop != NULL) {
                        job->msg.fn = job_on_done;
                        ls_loop_post(loop, &job->msg);
                }
        }
}

ls_err
ls_jobs_start(const char *name, size_t thread_count, struct ls_jobs **ret_jobs)
{
        struct ls_jobs *jobs;

        LS_ASSERT(thread_count > 0);
        jobs = ls_calloc(1, sizeof *jobs + thread_count * sizeof jobs->threads[0]);
        pthread_mutex_init(&jobs->lock, NULL);
        ls_cond_init(&jobs->submitted);
        jobs->last = &jobs->first;
        for (; jobs->thread_count < thread_count; jobs->thread_count++) {
                ls_err e =
                        ls_thread_start(name, jobs_run, jobs, &jobs->threads[jobs->thread_count]);

                if (e != LS_OK) {
                        ls_jobs_stop(jobs);
                        return e;
                }
        }
        *ret_jobs = jobs;
        return LS_OK;
}

void
ls_jobs_stop(struct ls_jobs *jobs)
{
        if (jobs == NULL)
                return;
        pthread_mutex_lock(&jobs->lock);
        jobs->stopping = true;
        ls_cond_broadcast(&jobs->submitted);
        pthread_mutex_unlock(&jobs->lock);
        for (size_t i = 0; i < jobs->thread_count; i++)
                ls_thread_join(jobs->threads[i]);
        LS_ASSERT(jobs->first == NULL);
        pthread_mutex_destroy(&jobs->lock);
        ls_cond_done(&jobs->submitted);
        ls_free(jobs);
}

void
ls_jobs_submit(struct ls_jobs *jobs, struct ls_job *job)
{
        LS_ASSERT(job->done == NULL || job->loop != NULL);
        job->next = NULL;
        pthread_mutex_lock(&jobs->lock);
        *jobs->last = job;
        jobs->last = &job->next;
        if (jobs->idle > 0)
                ls_cond_signal(&jobs->submitted);
        pthread_mutex_unlock(&jobs->lock);
}

/* CPUs of the control group's quota ("QUOTA PERIOD" or "max PERIOD"), rounded up; 0: no quota. */
static size_t
cpu_quota(void)
{
        char text[64];
        int fd = open("/sys/fs/cgroup/cpu.max", O_RDONLY | O_CLOEXEC);
        ssize_t len = fd >= 0 ? read(fd, text, sizeof text) : -1;
        int64_t quota, period;
        const char *space;

        if (fd >= 0)
                close(fd);
        if (len < 2 || text[len - 1] != '\n' || (space = memchr(text, ' ', (size_t)len)) == NULL)
                return 0;
        if (!ls_str_to_i64(ls_str_make(text, (size_t)(space - text)), 1, INT32_MAX, &quota) ||
            !ls_str_to_i64(ls_str_make(space + 1, (size_t)(text + len - 1 - (space + 1))), 1,
                           INT32_MAX, &period))
                return 0;
        return (size_t)((quota + period - 1) / period);
}

size_t
ls_cpu_count(void)
{
        size_t quota = cpu_quota(), cpus = 1;
        cpu_set_t set;

        if (sched_getaffinity(0, sizeof set, &set) == 0)
                cpus = (size_t)CPU_COUNT(&set);
        else if (sysconf(_SC_NPROCESSORS_ONLN) > 0)
                cpus = (size_t)sysconf(_SC_NPROCESSORS_ONLN);
        if (quota > 0 && quota < cpus)
                cpus = quota;
        return cpus > 0 ? cpus : 1;
}

void
ls_process_exit(int status)
{
        _exit(status);
}
