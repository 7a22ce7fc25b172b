/* wal/view.c - partitions as readers see them: see wal.h, "Views". */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "wal/wal_int.h"

/* --- one log; the stream's lock is held --- */

void
wal_log_check(const struct wal_log *log)
{
        LS_ASSERT(log->start <= log->end);
        LS_ASSERT(log->floor <= log->end);
        LS_ASSERT(log->stable <= log->end);
        LS_ASSERT(log->count <= log->cap);
}

uint32_t
wal_log_find(const struct wal_log *log, int64_t offset)
{
        uint32_t low = 0, high = log->count;

        while (low < high) {
                uint32_t mid = low + (high - low) / 2;
                const struct wal_entry *e = wal_entry_at(log, mid);

                if (e->base + e->records <= offset)
                        low = mid + 1;
                else
                        high = mid;
        }
        return low;
}

void
wal_log_push(struct wal_log *log, const struct wal_entry *e)
{
        if (log->count == log->cap) {
                uint32_t cap = log->cap ? log->cap * 2 : 8;
                struct wal_entry *entries = ls_malloc(cap * sizeof *entries);

                for (uint32_t i = 0; i < log->count; i++)
                        entries[i] = *wal_entry_at(log, i);
                ls_free(log->entries);
                log->entries = entries;
                log->head = 0;
                log->cap = cap;
        }
        log->count++;
        *wal_entry_at(log, log->count - 1) = *e;
        LS_ASSERT(log->count < 2 || wal_entry_at(log, log->count - 2)->base < e->base);
}

void
wal_log_trim(struct wal_log *log)
{
        /* From the floor on all is kept, also what the log hides: the table is still to get it. */
        while (log->count > 0) {
                struct wal_entry *e = wal_entry_at(log, 0);
                int64_t end = e->base + e->records;

                if (end > log->floor || (e->cached != NULL && end > log->start))
                        break;
                ls_slice_unref(e->cached);
                log->head = (log->head + 1) & (log->cap - 1);
                log->count--;
        }
        if (log->count == 0 && log->cap > 64) {
                ls_free(log->entries);
                log->entries = NULL;
                log->head = log->cap = 0;
        }
}

void
wal_log_fire(struct wal_log *log, size_t bytes)
{
        struct ls_wal_waiter *next;

        for (struct ls_wal_waiter *w = log->waiters; w != NULL; w = next) {
                next = w->next;
                w->on_change(w, bytes);
        }
}

struct wal_log *
wal_stream_log(struct ls_wal_stream *s, int32_t partition)
{
        if (s->gone || partition < 0 || partition >= s->partitions)
                return NULL;
        return &s->logs[partition];
}

void
wal_log_uncache(struct ls_wal_stream *s, int32_t partition, int64_t base)
{
        struct ls_slice *bytes = NULL;
        struct wal_log *log;

        pthread_mutex_lock(&s->lock);
        log = partition < s->partitions ? &s->logs[partition] : NULL;
        if (log != NULL) {
                uint32_t i = wal_log_find(log, base);

                if (i < log->count && wal_entry_at(log, i)->base == base) {
                        bytes = LS_STEAL(wal_entry_at(log, i)->cached);
                        wal_log_trim(log);
                }
        }
        pthread_mutex_unlock(&s->lock);
        ls_slice_unref(bytes);
}

/* --- streams --- */

void
wal_entry_of(const struct ls_meta_entry *m, struct wal_entry *ret)
{
        *ret = (struct wal_entry){ .base = m->base_offset,
                                   .base_timestamp = m->base_timestamp,
                                   .max_timestamp = m->max_timestamp,
                                   .segment = m->segment,
                                   .pos = m->pos,
                                   .s0 = m->s0,
                                   .s1 = m->s1,
                                   .append_ms = m->committed_ms,
                                   .records = m->records,
                                   .bytes = m->bytes,
                                   .flags = m->flags };
}

static ls_err
load_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct ls_wal_stream *s = ctx;
        struct wal_log *log;

        if (partition < 0)
                return LS_EBROKEN;
        wal_stream_grow(s, partition + 1); /* it was grown since the caller looked */
        log = &s->logs[partition];
        log->start = p->start;
        log->end = p->end;
        log->stable = p->stable;
        log->floor = p->floor;
        log->hash = p->hash;
        log->floor_hash = p->floor_hash;
        return LS_OK;
}

static ls_err
load_entry(void *ctx, const struct ls_meta_entry *m)
{
        struct ls_wal_stream *s = ctx;
        struct wal_log *log;
        struct wal_entry e;

        if (m->partition < 0 || m->partition >= s->partitions)
                return LS_OK;
        log = &s->logs[m->partition];
        if (m->base_offset + m->records <= log->floor)
                return LS_OK;
        if (log->count > 0 && wal_entry_at(log, log->count - 1)->base >= m->base_offset)
                return LS_EBROKEN;
        wal_entry_of(m, &e);
        wal_log_push(log, &e);
        return LS_OK;
}

void
wal_stream_recount(struct ls_wal_stream *s)
{
        s->backlog_bytes = s->backlog_entries = 0;
        s->backlog_records = 0;
        s->oldest_ms = 0;
        for (int32_t p = 0; p < s->partitions; p++) {
                const struct wal_log *log = &s->logs[p];
                uint32_t first = wal_log_find(log, log->floor);

                s->backlog_records += log->stable - log->floor;
                s->backlog_entries += log->count - first;
                for (uint32_t i = first; i < log->count; i++) {
                        const struct wal_entry *e = wal_entry_at(log, i);

                        s->backlog_bytes += e->bytes;
                        if (s->oldest_ms == 0 || e->append_ms < s->oldest_ms)
                                s->oldest_ms = e->append_ms;
                }
        }
}

ls_err
ls_wal_stream_open(struct ls_wal *wal, uint64_t stream_id, int32_t partitions, int32_t leader_epoch,
                   struct ls_wal_stream **ret_stream)
{
        struct ls_wal_stream *s = ls_calloc(1, sizeof *s);
        ls_err e;

        s->wal = wal;
        s->refs = 1;
        s->id = stream_id;
        s->leader_epoch = leader_epoch;
        s->partitions = partitions;
        s->logs = ls_calloc((size_t)partitions, sizeof *s->logs);
        pthread_mutex_init(&s->lock, NULL);
        pthread_mutex_init(&s->follow_lock, NULL);
        e = ls_meta_follow(wal->options.meta, stream_id, 0, load_partition, load_entry, s,
                           &s->followed);
        if (e != LS_OK) {
                ls_wal_stream_unref(s);
                return e;
        }
        for (int32_t p = 0; p < s->partitions; p++)
                wal_log_check(&s->logs[p]);
        wal_stream_recount(s);
        *ret_stream = s;
        return LS_OK;
}

struct ls_wal_stream *
ls_wal_stream_ref(struct ls_wal_stream *s)
{
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
        return s;
}

void
ls_wal_stream_unref(struct ls_wal_stream *s)
{
        if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
                return;
        for (int32_t p = 0; p < s->partitions; p++) {
                struct wal_log *log = &s->logs[p];

                for (uint32_t i = 0; i < log->count; i++)
                        ls_slice_unref(wal_entry_at(log, i)->cached);
                ls_free(log->entries);
        }
        ls_free(s->logs);
        pthread_mutex_destroy(&s->lock);
        pthread_mutex_destroy(&s->follow_lock);
        ls_free(s);
}

void
wal_stream_grow(struct ls_wal_stream *s, int32_t partitions)
{
        struct wal_log *logs;

        if (partitions <= s->partitions)
                return;
        logs = ls_calloc((size_t)partitions, sizeof *logs);
        memcpy(logs, s->logs, (size_t)s->partitions * sizeof *logs);
        for (int32_t p = 0; p < s->partitions; p++) {
                if (logs[p].waiters != NULL)
                        logs[p].waiters->link = &logs[p].waiters;
        }
        ls_free(s->logs);
        s->logs = logs;
        s->partitions = partitions;
}

void
ls_wal_stream_grow(struct ls_wal_stream *s, int32_t partitions)
{
        pthread_mutex_lock(&s->lock);
        wal_stream_grow(s, partitions);
        pthread_mutex_unlock(&s->lock);
}

void
ls_wal_stream_gone(struct ls_wal_stream *s)
{
        pthread_mutex_lock(&s->lock);
        s->gone = true;
        for (int32_t p = 0; p < s->partitions; p++)
                wal_log_fire(&s->logs[p], 0);
        s->backlog_bytes = s->backlog_entries = 0;
        s->backlog_records = 0;
        s->oldest_ms = 0;
        pthread_mutex_unlock(&s->lock);
}

uint64_t
ls_wal_stream_id(const struct ls_wal_stream *s)
{
        return s->id;
}

int32_t
ls_wal_stream_partitions(struct ls_wal_stream *s)
{
        int32_t partitions;

        pthread_mutex_lock(&s->lock);
        partitions = s->partitions;
        pthread_mutex_unlock(&s->lock);
        return partitions;
}

ls_err
ls_wal_view(struct ls_wal_stream *s, int32_t partition, struct ls_wal_view *ret)
{
        struct wal_log *log;
        ls_err e = LS_ABSENT;

        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        if (log != NULL) {
                uint32_t first = wal_log_find(log, log->floor);

                *ret = (struct ls_wal_view){ .start = log->start,
                                             .end = log->end,
                                             .stable = log->stable,
                                             .floor = log->floor,
                                             .hash = log->hash,
                                             .floor_hash = log->floor_hash,
                                             .wal_entries = log->count - first };
                for (uint32_t i = first; i < log->count; i++) {
                        const struct wal_entry *entry = wal_entry_at(log, i);

                        if (entry->base + entry->records > log->start)
                                ret->wal_bytes += entry->bytes;
                }
                if (first < log->count)
                        ret->oldest_ms = wal_entry_at(log, first)->append_ms;
                e = LS_OK;
        }
        pthread_mutex_unlock(&s->lock);
        return e;
}

void
ls_wal_backlog(struct ls_wal_stream *s, struct ls_wal_backlog *ret)
{
        pthread_mutex_lock(&s->lock);
        *ret = (struct ls_wal_backlog){ .bytes = s->backlog_bytes,
                                        .entries = s->backlog_entries,
                                        .records = s->backlog_records,
                                        .oldest_ms = s->oldest_ms };
        pthread_mutex_unlock(&s->lock);
}

/* Whether the view's end is there already. When others commit too it may be behind: the refresh
 * that brings the end brings floor and start with it. */
static bool
view_reaches(const struct ls_wal_stream *s, const struct wal_log *log, int64_t offset)
{
        LS_ASSERT(offset <= log->end || s->wal->options.store != NULL);
        return offset <= log->end;
}

void
ls_wal_set_floor(struct ls_wal_stream *s, int32_t partition, int64_t floor, uint64_t floor_hash)
{
        struct wal_log *log;

        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        if (log != NULL && floor > log->floor && view_reaches(s, log, floor)) {
                log->floor = floor;
                log->floor_hash = floor_hash;
                wal_log_trim(log);
                wal_stream_recount(s);
        }
        pthread_mutex_unlock(&s->lock);
}

void
ls_wal_set_start(struct ls_wal_stream *s, int32_t partition, int64_t start)
{
        struct wal_log *log;

        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        if (log != NULL && start > log->start && view_reaches(s, log, start)) {
                log->start = start;
                wal_log_trim(log);
                wal_log_fire(log, 0);
        }
        pthread_mutex_unlock(&s->lock);
}

/* --- lookups --- */

ls_err
ls_wal_find_time(struct ls_wal_stream *s, int32_t partition, int64_t timestamp,
                 struct ls_wal_entry_info *ret)
{
        struct wal_log *log;
        ls_err e = LS_ABSENT;

        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        for (uint32_t i = log ? wal_log_find(log, LS_MAX(log->floor, log->start)) : 0;
             log && i < log->count; i++) {
                const struct wal_entry *entry = wal_entry_at(log, i);

                if (entry->max_timestamp < timestamp)
                        continue;
                *ret = (struct ls_wal_entry_info){ entry->base, entry->max_timestamp,
                                                   entry->records,
                                                   (entry->flags & LS_META_BATCH_LOG_APPEND_TIME) !=
                                                           0 };
                e = LS_OK;
                break;
        }
        pthread_mutex_unlock(&s->lock);
        return e;
}

ls_err
ls_wal_find_max_time(struct ls_wal_stream *s, int32_t partition, struct ls_wal_entry_info *ret)
{
        const struct wal_entry *best = NULL;
        struct wal_log *log;

        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        for (uint32_t i = log ? wal_log_find(log, LS_MAX(log->floor, log->start)) : 0;
             log && i < log->count; i++) {
                const struct wal_entry *entry = wal_entry_at(log, i);

                if (best == NULL || entry->max_timestamp > best->max_timestamp)
                        best = entry;
        }
        if (best != NULL)
                *ret = (struct ls_wal_entry_info){ best->base, best->max_timestamp, best->records,
                                                   (best->flags & LS_META_BATCH_LOG_APPEND_TIME) !=
                                                           0 };
        pthread_mutex_unlock(&s->lock);
        return best ? LS_OK : LS_ABSENT;
}

ls_err
ls_wal_entries(struct ls_wal_stream *s, int32_t partition, int64_t from, int64_t to,
               ls_err (*fn)(void *ctx, const struct ls_meta_entry *e), void *ctx)
{
        struct ls_meta_entry *copy = NULL;
        size_t count = 0, cap = 0;
        struct wal_log *log;
        ls_err e = LS_OK;

        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        for (uint32_t i = log ? wal_log_find(log, from) : 0; log && i < log->count; i++) {
                const struct wal_entry *entry = wal_entry_at(log, i);
                struct ls_meta_entry m = { .partition = partition,
                                           .records = entry->records,
                                           .base_offset = entry->base,
                                           .segment = entry->segment,
                                           .pos = entry->pos,
                                           .bytes = entry->bytes,
                                           .flags = entry->flags,
                                           .base_timestamp = entry->base_timestamp,
                                           .max_timestamp = entry->max_timestamp,
                                           .producer_id = -1,
                                           .s0 = entry->s0,
                                           .s1 = entry->s1 };

                if (entry->base >= to)
                        break;
                LS_PUSH(copy, count, cap, m);
        }
        pthread_mutex_unlock(&s->lock);
        for (size_t i = 0; i < count && e == LS_OK; i++)
                e = fn(ctx, &copy[i]);
        ls_free(copy);
        return log ? e : LS_ABSENT;
}

/* --- watchers --- */

ls_err
ls_wal_wait(struct ls_wal_stream *s, int32_t partition, int64_t end_seen, struct ls_wal_waiter *w)
{
        struct wal_log *log;
        ls_err e = LS_OK;

        w->link = NULL;
        pthread_mutex_lock(&s->lock);
        log = wal_stream_log(s, partition);
        if (log == NULL) {
                e = LS_ABSENT;
        } else if (log->end > end_seen) {
                e = LS_EXISTS;
        } else {
                w->next = log->waiters;
                if (w->next != NULL)
                        w->next->link = &w->next;
                w->link = &log->waiters;
                log->waiters = w;
        }
        pthread_mutex_unlock(&s->lock);
        return e;
}

void
ls_wal_unwait(struct ls_wal_stream *s, struct ls_wal_waiter *w)
{
        pthread_mutex_lock(&s->lock);
        if (w->link != NULL) {
                *w->link = w->next;
                if (w->next != NULL)
                        w->next->link = w->link;
                w->link = NULL;
        }
        pthread_mutex_unlock(&s->lock);
}
