/* wal/flush_store.c - flushes to an object store: each is an object of its own.
 *
 * The flush thread gathers what is queued for flush_ms, or until there are flush_bytes, seals it
 * under the next sequence, and hands it to a thread that writes it; up to puts_max are written at
 * once, and while they all are, the queue gathers on. Whatever order the writes end in, objects go
 * to the metadata store in the order in which they were sealed: `sealed` is that order, and one
 * thread at a time hands on what has ended at its front.
 *
 * When a write or a commit fails, nothing is sealed any more (`halted`). What was sealed before it
 * goes on. It, and all that was sealed after it, is refused when its turn comes; the bytes of
 * batches are read until then. When nothing is under way, those and all that has queued since are
 * answered with the failure, in their order, and sealing goes on. So nothing of a producer
 * overtakes what it will send again, and what it sends again comes after. The objects of what was
 * refused may be there, or come still: nothing names them, and their sequences are not used again.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "store/store.h"
#include "wal/wal_int.h"

static LS_METRIC_SECONDS(metric_put, "lakestream_wal_put_seconds",
                         "Time to write a WAL object to the object store.");
static LS_METRIC(metric_under_way, GAUGE, "lakestream_wal_puts",
                 "WAL objects being written to the object store.");

struct wal_put {
        struct ls_job job;
        struct wal_put *next; /* wal->puts.sealed */
        struct wal_flush *flush;
        struct wal_layout layout;
        struct ls_object_header header;
        char key[LS_META_WAL_KEY_BYTES];
        bool ended; /* under wal->lock, as is: */
        ls_err result;
};

/* --- failures --- */

void
wal_store_refuse(struct wal_flush *flush, ls_err why)
{
        struct ls_wal *wal = flush->wal;
        struct ls_wal_append *a = flush->first;

        LS_ASSERT(why < 0);
        pthread_mutex_lock(&wal->lock);
        wal->puts.halted = true;
        if (wal->puts.error == LS_OK)
                wal->puts.error = why;
        *wal->puts.failed_tail = a;
        while (a != NULL) {
                wal->puts.failed_tail = &a->next;
                a = a->next;
        }
        pthread_mutex_unlock(&wal->lock);
}

void
wal_store_leave(struct ls_wal *wal)
{
        struct ls_wal_append *failed = NULL, *behind = NULL;
        ls_err why = LS_OK;

        pthread_mutex_lock(&wal->lock);
        if (wal->flushes == 1 && wal->puts.halted) {
                why = wal->puts.error;
                failed = wal->puts.failed;
                wal->puts.failed = NULL;
                wal->puts.failed_tail = &wal->puts.failed;
                wal->puts.halted = false;
                wal->puts.error = LS_OK;
                behind = wal_queue_take_all(wal);
        }
        pthread_mutex_unlock(&wal->lock);
        LS_ASSERT(failed == NULL || why != LS_OK);
        /* this flush counts until they are answered: the WAL is not closed before */
        if (why != LS_OK) {
                wal_appends_fail(failed, why);
                wal_appends_fail(behind, why);
        }
        wal_flush_leave(wal);
}

/* --- committed --- */

void
wal_store_accept(struct wal_flush *flush)
{
        struct ls_wal *wal = flush->wal;

        pthread_mutex_lock(&wal->lock);
        *wal->puts.accepted_tail = flush;
        wal->puts.accepted_tail = &flush->next;
        ls_cond_signal(&wal->puts.accepted_wake);
        pthread_mutex_unlock(&wal->lock);
}

struct wal_flush *
wal_store_accepted(struct ls_wal *wal)
{
        struct wal_puts *puts = &wal->puts;
        struct wal_flush *flush;

        pthread_mutex_lock(&wal->lock);
        while (puts->accepted == NULL && !puts->apply_ends)
                ls_cond_wait(&puts->accepted_wake, &wal->lock);
        flush = puts->accepted;
        if (flush != NULL)
                puts->accepted = flush->next;
        if (puts->accepted == NULL)
                puts->accepted_tail = &puts->accepted;
        pthread_mutex_unlock(&wal->lock);
        return flush;
}

/* --- in the order of sealing --- */

static void
put_free(struct wal_put *put)
{
        wal_layout_done(&put->layout);
        ls_free(put);
}

/* The first of `sealed`, out of it, when it has ended. *ret_why: what it is refused for. */
static struct wal_put *
sealed_take(struct ls_wal *wal, ls_err *ret_why)
{
        struct wal_puts *puts = &wal->puts;
        struct wal_put *put = puts->sealed;

        if (put == NULL || !put->ended)
                return NULL;
        puts->sealed = put->next;
        if (puts->sealed == NULL)
                puts->sealed_tail = &puts->sealed;
        *ret_why = puts->error != LS_OK ? puts->error : put->result;
        return put;
}

static void
put_refused(struct ls_wal *wal, struct wal_put *put, ls_err why)
{
        struct wal_flush *flush = put->flush;

        wal_flush_failed();
        wal_flush_result(wal, flush->commit.sequence, why, "writing the WAL failed");
        wal_store_refuse(flush, why);
        wal_flush_free(flush);
        put_free(put);
        wal_store_leave(wal);
}

static void
sealed_hand_on(struct ls_wal *wal)
{
        struct wal_put *put;
        ls_err why = LS_OK;

        pthread_mutex_lock(&wal->lock);
        if (wal->puts.handing) { /* that thread sees what has just ended */
                pthread_mutex_unlock(&wal->lock);
                return;
        }
        wal->puts.handing = true;
        while ((put = sealed_take(wal, &why)) != NULL) {
                pthread_mutex_unlock(&wal->lock);
                if (why != LS_OK) {
                        put_refused(wal, put, why);
                } else {
                        wal_flush_submit(put->flush);
                        put_free(put);
                }
                pthread_mutex_lock(&wal->lock);
        }
        wal->puts.handing = false;
        pthread_mutex_unlock(&wal->lock);
}

/* --- a write --- */

/* Outcomes of a put-if-absent are final for the flush, whichever: even LS_EXISTS, since only we
 * have this name, means that what stands there is not known to be ours. */
static ls_err
put_failure(ls_err e)
{
        if (e == LS_DENIED)
                return LS_EACCESS;
        return e > 0 ? LS_EIO : e;
}

static void
put_run(struct ls_job *job)
{
        struct wal_put *put = LS_CONTAINER(job, struct wal_put, job);
        struct ls_wal *wal = put->flush->wal;
        struct ls_store *store = wal->options.store;
        int64_t started = ls_clock_monotonic_ns();
        ls_err e;

        ls_metric_add(&metric_under_way, 1);
        e = store->ops->put_if_absent(store, put->key, put->layout.spans, put->layout.count);
        ls_metric_add(&metric_under_way, -1);
        if (e == LS_OK) {
                wal_flush_written(&put->header);
                ls_metric_observe(&metric_put, ls_clock_monotonic_ns() - started);
        } else {
                ls_log_error("wal", "event=put_failed object=%s error=%s records are refused",
                             put->key, ls_err_name(e));
        }
        pthread_mutex_lock(&wal->lock);
        put->result = put_failure(e);
        put->ended = true;
        wal->puts.under_way--;
        wal->puts.halted |= e != LS_OK;
        ls_cond_broadcast(&wal->wake);
        pthread_mutex_unlock(&wal->lock);
        sealed_hand_on(wal);
}

static void
put_seal(struct ls_wal *wal, struct wal_flush *flush)
{
        struct wal_put *put = ls_calloc(1, sizeof *put);
        uint64_t number = ls_wal_segment_number(wal->epoch, ++wal->sequence);
        struct ls_segment_header segment = { .cluster = wal->cluster,
                                             .broker = wal->options.broker_id,
                                             .epoch = wal->epoch,
                                             .number = number,
                                             .created_ms = ls_clock_wall_ms() };
        struct ls_buf prefix;

        put->job.run = put_run;
        put->flush = flush;
        put->header = (struct ls_object_header){ .broker = wal->options.broker_id,
                                                 .epoch = wal->epoch,
                                                 .sequence = wal->sequence,
                                                 .last_commit = atomic_load(&wal->last_commit) };
        flush->commit.sequence = wal->sequence;
        ls_wal_key(number, put->key);
        ls_buf_init(&prefix, LS_SEGMENT_HEADER_BYTES);
        ls_segment_header_put(&prefix, &segment);
        wal_layout_init(&put->layout);
        wal_flush_layout(flush, number, LS_SEGMENT_HEADER_BYTES, ls_buf_span(&prefix), &put->header,
                         &put->layout);
        ls_buf_done(&prefix);
        pthread_mutex_lock(&wal->lock);
        *wal->puts.sealed_tail = put;
        wal->puts.sealed_tail = &put->next;
        wal->puts.under_way++;
        pthread_mutex_unlock(&wal->lock);
        ls_jobs_submit(wal->puts.jobs, &put->job);
}

/* --- the flush thread --- */

/* Whether one more may be under way; wal->lock held. */
static bool
put_allowed(const struct ls_wal *wal)
{
        const struct wal_puts *puts = &wal->puts;

        return !puts->halted && puts->under_way < wal->options.puts_max &&
               wal->flushes < wal->options.puts_max * LS_WAL_FLUSHES_PER_PUT;
}

/* Waits until there is work, there is room for it, and it has gathered; takes it. NULL: stop. */
static struct ls_wal_append *
work_take(struct ls_wal *wal, size_t *ret_items, uint64_t *ret_failures)
{
        struct ls_wal_append *first;
        size_t bytes;

        pthread_mutex_lock(&wal->lock);
        while (wal->queue != NULL || !wal->stopping) {
                int64_t due = wal->puts.queued_ms + wal->options.flush_ms;

                if (wal->queue == NULL || !put_allowed(wal))
                        ls_cond_wait(&wal->wake, &wal->lock);
                else if (wal->stopping || wal->queue_bytes >= wal->options.flush_bytes ||
                         ls_clock_monotonic_ms() >= due)
                        break;
                else
                        ls_cond_wait_until(&wal->wake, &wal->lock, due);
        }
        first = wal_queue_take(wal, ret_items, &bytes); /* what is left has waited long enough */
        *ret_failures = wal->failures;
        if (first != NULL)
                wal->flushes++;
        pthread_mutex_unlock(&wal->lock);
        return first;
}

void
wal_store_run(void *arg)
{
        struct ls_wal *wal = arg;
        struct ls_wal_append *first;
        uint64_t failures;
        size_t items;

        while ((first = work_take(wal, &items, &failures)) != NULL)
                put_seal(wal, wal_flush_new(wal, first, items, failures));
}

/* --- threads --- */

ls_err
wal_store_start(struct ls_wal *wal)
{
        LS_ASSERT(wal->options.puts_max > 0);
        LS_TRY(ls_jobs_start("ls-wal-put", (size_t)wal->options.puts_max, &wal->puts.jobs));
        LS_TRY(ls_jobs_start("ls-wal-get", LS_WAL_READ_THREADS, &wal->puts.gets));
        return ls_thread_start("ls-wal-view", wal_apply_run, wal, &wal->puts.apply);
}

void
wal_store_stop(struct ls_wal *wal)
{
        LS_ASSERT(wal->puts.sealed == NULL && wal->puts.accepted == NULL);
        if (wal->puts.jobs != NULL)
                ls_jobs_stop(wal->puts.jobs);
        if (wal->puts.gets != NULL)
                ls_jobs_stop(wal->puts.gets);
        pthread_mutex_lock(&wal->lock);
        wal->puts.apply_ends = true;
        ls_cond_signal(&wal->puts.accepted_wake);
        pthread_mutex_unlock(&wal->lock);
        if (wal->puts.apply != NULL)
                ls_thread_join(wal->puts.apply);
}
