/* wal/follow.c - views follow what other brokers commit: a snapshot of the metadata store, from the
 * commit number of the last one on, is laid over the views. See wal.h, "Many brokers".
 *
 * What a view has can be ahead of the snapshot (own commits are applied meanwhile) and behind it,
 * never beside it: both are prefixes of one order. So what the snapshot has more is appended, and
 * start and floor take the larger value. Entries that others have purged already are in no
 * snapshot: the end jumps over them, and the floor, which has passed them, says where they are. */
#include "base/assert.h"
#include "base/log.h"
#include "wal/wal_int.h"

struct follow_part {
        struct ls_meta_partition state;
        int64_t end_before;
        int64_t records; /* of entries that were appended */
        size_t bytes;    /* the same */
        bool start_rose, floor_rose;
};

struct follow {
        struct follow_part *parts;
        size_t part_count, part_cap;
        struct ls_meta_entry *entries;
        size_t entry_count, entry_cap;
};

/* --- the snapshot --- */

static ls_err
follow_partition(void *ctx, int32_t partition, const struct ls_meta_partition *p)
{
        struct follow *f = ctx;
        struct follow_part part = { .state = *p };

        if ((size_t)partition != f->part_count || p->start > p->end || p->floor > p->end ||
            p->stable > p->end)
                return LS_EBROKEN;
        LS_PUSH(f->parts, f->part_count, f->part_cap, part);
        return LS_OK;
}

static ls_err
follow_entry(void *ctx, const struct ls_meta_entry *e)
{
        struct follow *f = ctx;

        if (e->partition < 0 || (size_t)e->partition >= f->part_count || e->records <= 0 ||
            e->base_offset + e->records > f->parts[e->partition].state.end)
                return LS_EBROKEN;
        LS_PUSH(f->entries, f->entry_count, f->entry_cap, *e);
        return LS_OK;
}

/* --- laid over the views; the stream's lock is held --- */

static void
follow_bounds(struct wal_log *log, struct follow_part *part)
{
        const struct ls_meta_partition *p = &part->state;

        part->end_before = log->end;
        part->floor_rose = p->floor > log->floor;
        part->start_rose = p->start > log->start;
        if (part->floor_rose) {
                log->floor = p->floor;
                log->floor_hash = p->floor_hash;
        }
        if (part->start_rose)
                log->start = p->start;
}

static void
follow_push(struct ls_wal_stream *s, struct follow_part *part, const struct ls_meta_entry *m)
{
        struct wal_log *log = &s->logs[m->partition];
        struct wal_entry e;

        if (m->base_offset < log->end || m->base_offset + m->records <= log->floor)
                return;
        if (m->base_offset > LS_MAX(log->end, log->floor)) /* readers meet the hole, as damage */
                ls_log_error("wal", "event=hole stream=%llu partition=%d from=%lld to=%lld",
                             (unsigned long long)s->id, m->partition, (long long)log->end,
                             (long long)m->base_offset);
        wal_entry_of(m, &e);
        wal_log_push(log, &e);
        log->end = m->base_offset + m->records;
        part->records += m->records;
        part->bytes += m->bytes;
        s->backlog_bytes += e.bytes;
        s->backlog_entries++;
        if (s->oldest_ms == 0 || e.append_ms < s->oldest_ms)
                s->oldest_ms = e.append_ms;
}

/* The end, and waiters. -> whether the totals that follow_push counted along do not hold. */
static bool
follow_end(struct ls_wal_stream *s, struct wal_log *log, const struct follow_part *part)
{
        const struct ls_meta_partition *p = &part->state;
        bool more = p->end > part->end_before;
        bool jumped = more && p->end - part->end_before != part->records;

        if (more) {
                s->backlog_records += p->stable - log->stable;
                log->end = p->end;
                log->stable = p->stable;
                log->hash = p->hash;
        }
        wal_log_trim(log);
        wal_log_check(log);
        if (more || part->start_rose)
                wal_log_fire(log, jumped || part->start_rose ? 0 : part->bytes);
        return jumped || part->floor_rose;
}

static void
follow_apply(struct ls_wal_stream *s, struct follow *f)
{
        bool recount = false;

        pthread_mutex_lock(&s->lock);
        if (!s->gone) {
                wal_stream_grow(s, (int32_t)f->part_count);
                for (size_t p = 0; p < f->part_count; p++)
                        follow_bounds(&s->logs[p], &f->parts[p]);
                for (size_t i = 0; i < f->entry_count; i++)
                        follow_push(s, &f->parts[f->entries[i].partition], &f->entries[i]);
                for (size_t p = 0; p < f->part_count; p++)
                        recount |= follow_end(s, &s->logs[p], &f->parts[p]);
                if (recount)
                        wal_stream_recount(s);
        }
        pthread_mutex_unlock(&s->lock);
}

/* --- */

/* The metadata store refuses to go on from a number that it has not given out. */
static void
follow_failed(struct ls_wal_stream *s, uint64_t followed)
{
        uint64_t commit = 0;

        if (ls_meta_commit_number(s->wal->options.meta, &commit) == LS_OK && commit < followed)
                wal_went_back(s->wal, followed, commit);
}

ls_err
ls_wal_stream_refresh(struct ls_wal_stream *s)
{
        struct follow f = { 0 };
        uint64_t commit = 0;
        ls_err e;

        if (s->wal->options.store == NULL)
                return LS_OK; /* nobody else commits */
        pthread_mutex_lock(&s->follow_lock);
        e = ls_meta_follow(s->wal->options.meta, s->id, s->followed, follow_partition, follow_entry,
                           &f, &commit);
        if (e == LS_OK) {
                follow_apply(s, &f);
                s->followed = commit;
                if (f.entry_count > 0)
                        wal_last_commit_raise(s->wal, f.entries[f.entry_count - 1].commit);
        } else if (e == LS_EBROKEN) {
                follow_failed(s, s->followed);
        }
        pthread_mutex_unlock(&s->follow_lock);
        ls_free(f.parts);
        ls_free(f.entries);
        if (e == LS_ABSENT)
                ls_wal_stream_gone(s);
        return e > 0 && e != LS_ABSENT ? LS_EBROKEN : e;
}
