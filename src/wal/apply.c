/* wal/apply.c - the way to the metadata store and back: what happens once an object is committed,
 * or refused. On the meta thread; with a store, views and answers are a thread's of their own. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "wal/wal_int.h"

static LS_METRIC(metric_failures, COUNTER, "lakestream_wal_failures_total",
                 "WAL flushes that failed.");

void
wal_flush_failed(void)
{
        ls_metric_add(&metric_failures, 1);
}

/* --- answers --- */

static void
appends_finish(struct ls_wal_append *a)
{
        while (a != NULL) {
                struct ls_wal_append *next = a->next;

                a->done(a);
                a = next;
        }
}

void
wal_appends_fail(struct ls_wal_append *first, ls_err why)
{
        LS_ASSERT(why != LS_OK);
        for (struct ls_wal_append *a = first; a != NULL; a = a->next) {
                for (size_t i = 0; i < a->count; i++) {
                        a->items[i].outcome = why;
                        a->items[i].base_offset = -1;
                }
        }
        appends_finish(first);
}

/* --- the tail cache: of the thread that applies --- */

static void
cache_pop(struct ls_wal *wal)
{
        struct wal_cached *c = &wal->cache[wal->cache_head];

        wal_log_uncache(c->stream, c->partition, c->base);
        ls_wal_stream_unref(c->stream);
        wal->cache_bytes -= (int64_t)c->bytes;
        wal->cache_head = (wal->cache_head + 1) & (wal->cache_cap - 1);
        wal->cache_count--;
}

static void
cache_push(struct ls_wal *wal, struct ls_wal_item *item)
{
        if (wal->cache_count == wal->cache_cap) {
                size_t cap = wal->cache_cap ? wal->cache_cap * 2 : 256;
                struct wal_cached *cache = ls_malloc(cap * sizeof *cache);

                for (size_t i = 0; i < wal->cache_count; i++)
                        cache[i] = wal->cache[(wal->cache_head + i) & (wal->cache_cap - 1)];
                ls_free(wal->cache);
                wal->cache = cache;
                wal->cache_head = 0;
                wal->cache_cap = cap;
        }
        wal->cache[(wal->cache_head + wal->cache_count++) & (wal->cache_cap - 1)] =
                (struct wal_cached){
                        .stream = ls_wal_stream_ref(item->stream),
                        .partition = item->partition,
                        .base = item->base_offset,
                        .bytes = item->batch->len,
                };
        wal->cache_bytes += (int64_t)item->batch->len;
}

/* --- after the commit --- */

/* The batch becomes the end of its view; stream lock held. */
static void
view_push(struct ls_wal_stream *s, struct wal_log *log, const struct wal_entry *e)
{
        wal_log_push(log, e);
        log->end = log->stable = e->base + e->records;
        log->hash += (2 * (uint64_t)e->base + 1) * e->s0 + 2 * e->s1;
        s->backlog_bytes += e->bytes;
        s->backlog_entries++;
        s->backlog_records += e->records;
        if (s->oldest_ms == 0)
                s->oldest_ms = e->append_ms;
        wal_log_fire(log, e->bytes);
}

/* Other brokers have committed in between, or a refresh has seen our commit before: the view holds
 * the entry, or gets it, by a refresh, and the entry gets its bytes. -> whether it has them. */
static bool
view_meet(struct ls_wal_stream *s, int32_t partition, struct wal_entry *e)
{
        bool attached = false;
        struct wal_log *log;
        bool behind;
        ls_err failed;

        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        behind = !s->gone && (log == NULL || log->end < e->base + e->records);
        pthread_mutex_unlock(&s->lock);
        if (behind) {
                failed = ls_wal_stream_refresh(s);
                if (failed != LS_OK && failed != LS_ABSENT) /* the next refresh brings it */
                        ls_log_warn("wal", "event=view_behind stream=%llu error=%s",
                                    (unsigned long long)s->id, ls_err_name(failed));
        }
        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        if (log != NULL && e->cached != NULL) {
                uint32_t i = wal_log_find(log, e->base);
                struct wal_entry *there = i < log->count ? wal_entry_at(log, i) : NULL;

                attached = there != NULL && there->base == e->base && there->cached == NULL;
                if (attached)
                        there->cached = ls_slice_ref(e->cached);
        }
        pthread_mutex_unlock(&s->lock);
        return attached;
}

static void
view_apply(struct wal_flush *flush, size_t i, int64_t now_ms)
{
        struct ls_wal_item *item = flush->items[i];
        const struct ls_meta_wal_batch *b = &flush->commit.batches[i];
        struct ls_wal_stream *s = item->stream;
        bool cache = flush->wal->options.cache_bytes > 0;
        bool alone = flush->wal->options.store == NULL; /* nobody else commits */
        bool there;
        struct wal_log *log;
        struct wal_entry e = { .base = item->base_offset,
                               .base_timestamp = item->base_timestamp,
                               .max_timestamp = item->max_timestamp,
                               .segment = flush->commit.segment,
                               .pos = b->entry.pos,
                               .s0 = item->s0,
                               .s1 = item->s1,
                               .cached = cache ? item->batch : NULL,
                               .append_ms = now_ms,
                               .records = item->records,
                               .bytes = (uint32_t)item->batch->len,
                               .flags = item->flags };

        /* The offset is under no checksum: set before readers can see the bytes. */
        ls_set_be64(item->batch->ptr, (uint64_t)item->base_offset);
        ls_set_be32(item->batch->ptr + 12, (uint32_t)s->leader_epoch);
        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, item->partition);
        there = log != NULL && log->end == item->base_offset;
        if (there) {
                if (cache)
                        ls_slice_ref(item->batch);
                view_push(s, log, &e);
        }
        LS_ASSERT(there || log == NULL || !alone);
        pthread_mutex_unlock(&s->lock);
        if (!there)
                cache = !alone && view_meet(s, item->partition, &e);
        if (cache)
                cache_push(flush->wal, item);
}

void
wal_flush_result(struct ls_wal *wal, uint64_t sequence, ls_err result, const char *what)
{
        pthread_mutex_lock(&wal->lock);
        if (sequence >= wal->error_sequence) {
                wal->error_sequence = sequence;
                wal->error = result;
                if (result != LS_OK)
                        ls_fail(&wal->error_info, result, "%s: %s", what, ls_err_text(result));
        }
        pthread_mutex_unlock(&wal->lock);
}

void
wal_flush_leave(struct ls_wal *wal)
{
        pthread_mutex_lock(&wal->lock);
        wal->flushes--;
        ls_cond_broadcast(&wal->wake);
        pthread_mutex_unlock(&wal->lock);
}

/* A segment file: where it is cut when it is given up. A commit that failed for want of space is
 * known not to be in the database; after others the process ends. What queued behind a failure is
 * taken, to fail with it. */
static struct ls_wal_append *
flush_note(struct ls_wal *wal, const struct wal_flush *flush, ls_err result)
{
        struct ls_wal_append *behind = NULL;

        pthread_mutex_lock(&wal->lock);
        if (result == LS_OK) {
                wal->committed_segment = flush->commit.segment;
                wal->committed_end = flush->commit.pos + flush->commit.bytes;
        } else {
                wal->refused |= result == LS_ENOSPC;
                wal->failures++;
                behind = wal_queue_take_all(wal);
        }
        pthread_mutex_unlock(&wal->lock);
        return behind;
}

/* Whether no commit failed since the flush was begun. On the meta thread, between commits. */
static bool
flush_wanted(const struct ls_meta_wal_commit *commit)
{
        const struct wal_flush *flush = LS_CONTAINER(commit, const struct wal_flush, commit);
        struct ls_wal *wal = flush->wal;
        bool wanted;

        pthread_mutex_lock(&wal->lock);
        wanted = flush->failures == wal->failures;
        pthread_mutex_unlock(&wal->lock);
        return wanted;
}

static void
flush_refused(struct wal_flush *flush, ls_err result)
{
        struct ls_wal *wal = flush->wal;
        struct ls_wal_append *behind;

        ls_log_error("wal", "event=commit_failed error=%s records are refused",
                     ls_err_name(result));
        wal_flush_failed();
        if (wal->options.store != NULL) {
                pthread_mutex_lock(&wal->lock);
                wal->failures++; /* what was handed on after it is not wanted */
                pthread_mutex_unlock(&wal->lock);
                wal_store_refuse(flush, result);
                return;
        }
        behind = flush_note(wal, flush, result);
        wal_appends_fail(flush->first, result);
        wal_appends_fail(behind, result);
}

/* The numbers of one process's commits ascend, unless the database lost some: then nothing is
 * acknowledged any more. */
static ls_err
commit_check(struct ls_wal *wal, uint64_t commit)
{
        if (wal->options.store == NULL || commit == 0)
                return LS_OK;
        if (atomic_load(&wal->lost))
                return LS_EDB;
        if (commit <= wal->own_commit) {
                wal_went_back(wal, wal->own_commit, commit);
                return LS_EDB;
        }
        wal->own_commit = commit;
        return LS_OK;
}

void
wal_last_commit_raise(struct ls_wal *wal, uint64_t commit)
{
        uint64_t last = atomic_load(&wal->last_commit);

        while (last < commit && !atomic_compare_exchange_weak(&wal->last_commit, &last, commit))
                ;
}

static void
flush_leave(struct wal_flush *flush)
{
        struct ls_wal *wal = flush->wal;

        wal_flush_free(flush);
        if (wal->options.store != NULL)
                wal_store_leave(wal);
        else
                wal_flush_leave(wal);
}

static void
flush_accepted(struct wal_flush *flush)
{
        struct ls_wal *wal = flush->wal;
        int64_t now_ms = ls_clock_wall_ms();

        wal_last_commit_raise(wal, flush->commit.commit); /* 0: every batch was refused */
        for (size_t i = 0; i < flush->commit.batch_count; i++) {
                const struct ls_meta_wal_batch *b = &flush->commit.batches[i];
                struct ls_wal_item *item = flush->items[i];

                item->outcome = b->outcome;
                item->base_offset = b->outcome == LS_OK || b->outcome == LS_DUPLICATE
                                            ? b->entry.base_offset
                                            : -1;
                item->log_start = b->log_start;
                if (b->outcome == LS_OK)
                        view_apply(flush, i, now_ms);
        }
        appends_finish(flush->first);
        while (wal->cache_bytes > wal->options.cache_bytes && wal->cache_count > 0)
                cache_pop(wal);
        flush_leave(flush);
}

static void
flush_committed(struct ls_meta_op *op, ls_err result)
{
        struct wal_flush *flush = LS_CONTAINER(op, struct wal_flush, commit.op);
        struct ls_wal *wal = flush->wal;

        if (result == LS_CANCELED) { /* with the one before it */
                pthread_mutex_lock(&wal->lock);
                result = wal->error != LS_OK ? wal->error : LS_EDB;
                pthread_mutex_unlock(&wal->lock);
        } else if (result > 0) {
                result = LS_EDB;
        } else if (result == LS_OK) {
                result = commit_check(wal, flush->commit.commit);
        }
        wal_flush_result(wal, flush->commit.sequence, result, "the metadata store did not commit");
        if (result != LS_OK) {
                flush_refused(flush, result);
                flush_leave(flush);
        } else if (wal->options.store != NULL) {
                wal_store_accept(flush);
        } else {
                flush_note(wal, flush, LS_OK);
                flush_accepted(flush);
        }
}

/* With a store: a view may have to be read anew, and commits do not wait for that. What has been
 * committed meanwhile comes with the same read, so under load there are few. */
void
wal_apply_run(void *arg)
{
        struct ls_wal *wal = arg;
        struct wal_flush *flush;

        while ((flush = wal_store_accepted(wal)) != NULL)
                flush_accepted(flush);
}

void
wal_flush_submit(struct wal_flush *flush)
{
        flush->commit.op.done = flush_committed;
        flush->commit.wanted = flush_wanted;
        ls_meta_wal_submit(flush->wal->options.meta, &flush->commit);
}
