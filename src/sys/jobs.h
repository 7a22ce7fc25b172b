/* sys/jobs.h - a pool of threads for work that blocks, and plain named threads. */
#pragma once
#include "base/err.h"
#include "sys/loop.h"

struct ls_jobs;

/* A job is embedded in the caller's struct, owned by the pool until `run` returns and, when `done`
 * is set, until done has run on `loop`. */
struct ls_job {
        struct ls_job *next;
        void (*run)(struct ls_job *job);  /* on a thread of the pool; may block */
        void (*done)(struct ls_job *job); /* then on `loop`; NULL: none */
        struct ls_loop *loop;
        struct ls_loop_msg msg; /* inner */
};
LS_MUST_USE ls_err ls_jobs_start(const char *name, size_t thread_count, struct ls_jobs **ret_jobs);
/* Runs what is queued, then joins. Any thread. */
void ls_jobs_stop(struct ls_jobs *jobs);
/* First in, first out. Any thread. */
void ls_jobs_submit(struct ls_jobs *jobs, struct ls_job *job);

struct ls_thread;
/* A thread named `name` (15 bytes) that runs fn(arg). */
LS_MUST_USE ls_err ls_thread_start(const char *name, void (*fn)(void *arg), void *arg,
                                   struct ls_thread **ret_thread);
/* The calling thread gives way to the others when processors are short: for work that nobody waits
 * for. No effect where the system refuses. */
void ls_thread_yield_to_others(void);
/* Waits for its end and frees it. */
void ls_thread_join(struct ls_thread *thread);

/* Mutex and condition with deadlines on the monotonic clock. */
#include <pthread.h>
struct ls_cond {
        pthread_cond_t cond;
};
void ls_cond_init(struct ls_cond *c);
void ls_cond_done(struct ls_cond *c);
void ls_cond_wait(struct ls_cond *c, pthread_mutex_t *lock);
/* False when `deadline_ms` (ls_clock_monotonic_ms) has passed. */
bool ls_cond_wait_until(struct ls_cond *c, pthread_mutex_t *lock, int64_t deadline_ms);
static inline void
ls_cond_signal(struct ls_cond *c)
{
        pthread_cond_signal(&c->cond);
}
static inline void
ls_cond_broadcast(struct ls_cond *c)
{
        pthread_cond_broadcast(&c->cond);
}

/* CPUs that this process may use: its affinity and its control group's quota; at least 1. */
size_t ls_cpu_count(void);

/* Ends the process at once, without cleaning up: when nothing in memory can be trusted any more. */
__attribute__((noreturn)) void ls_process_exit(int status);
