/* wal/read.c - reading batches by offset: from the tail cache, else from segment files. */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "wal/wal_int.h"

/* What one entry contributes: cached bytes, or a place in a segment. */
struct plan_step {
        struct ls_slice *cached; /* a reference */
        int64_t base;
        uint64_t segment, pos;
        uint32_t bytes;
        int32_t records;
};

static void
read_push(struct ls_wal_read *r, struct ls_slice *slice, const struct plan_step *step)
{
        LS_PUSH(r->slices, r->slice_count, r->slice_cap, slice);
        r->bytes += step->bytes;
        r->next_offset = step->base + step->records;
}

/* Under the lock: which entries, and the view that goes with them. */
static ls_err
read_plan(struct ls_wal_stream *s, int32_t partition, struct ls_wal_read *r,
          struct plan_step *steps, size_t *ret_count)
{
        struct wal_log *log;
        size_t count = 0, bytes = r->bytes;
        uint32_t i;

        if (s->gone || partition < 0 || partition >= s->partitions)
                return LS_ABSENT;
        log = &s->logs[partition];
        r->view = (struct ls_wal_view){ .start = log->start,
                                        .end = log->end,
                                        .stable = log->stable,
                                        .floor = log->floor,
                                        .hash = log->hash,
                                        .floor_hash = log->floor_hash };
        if ((r->offset < log->start && r->below_floor) || r->offset > log->end)
                return LS_OUT_OF_RANGE; /* compaction also takes what the log start hides */
        r->next_offset = r->offset;
        i = wal_log_find(log, r->offset);
        if (i == log->count || wal_entry_at(log, i)->base > r->offset ||
            (!r->below_floor && r->offset < log->floor))
                return r->offset == log->end ? LS_OK : LS_END;
        for (; i < log->count && count < LS_WAL_READ_ENTRIES_MAX; i++) {
                struct wal_entry *e = wal_entry_at(log, i);

                if (e->base >= r->offset_end)
                        break;
                if (bytes + e->bytes > r->bytes_max && !(r->min_one && bytes == 0))
                        break;
                if (e->cached == NULL && !r->may_block)
                        break;
                steps[count++] = (struct plan_step){
                        .cached = e->cached ? ls_slice_ref(e->cached) : NULL,
                        .base = e->base,
                        .segment = e->segment,
                        .pos = e->pos,
                        .bytes = e->bytes,
                        .records = e->records,
                };
                bytes += e->bytes;
        }
        *ret_count = count;
        if (count == 0 && i < log->count && wal_entry_at(log, i)->cached == NULL && !r->may_block)
                return LS_BUSY;
        return LS_OK;
}

/* A batch from disk must be the one that the index means, whole and undamaged. */
static bool
batch_intact(const uint8_t *p, const struct plan_step *step)
{
        if (step->bytes < 61 || (uint64_t)ls_get_be32(p + 8) + 12 != step->bytes || p[16] != 2)
                return false;
        return ls_get_be32(p + 17) == ls_crc32c(0, ls_span_of(p + 21, step->bytes - 21));
}

/* How many of the steps lie close together in one segment: they are read at once. */
static size_t
run_length(const struct plan_step *steps, size_t count)
{
        size_t n = 1;

        while (n < count && steps[n].cached == NULL && steps[n].segment == steps[0].segment) {
                uint64_t end = steps[n - 1].pos + steps[n - 1].bytes;

                if (steps[n].pos < end || steps[n].pos - end > LS_WAL_READ_GAP_BYTES ||
                    steps[n].pos + steps[n].bytes - steps[0].pos > LS_WAL_READ_BYTES_MAX)
                        break;
                n++;
        }
        return n;
}

/* Reads steps that lie close together; *io_count: those that were read, from the front. What is
 * intact before a damaged one is given. */
static ls_err
read_run(struct ls_wal_stream *s, struct ls_wal_read *r, const struct plan_step *steps,
         size_t *io_count)
{
        size_t count = *io_count;
        LS_AUTO(ls_slice_unref) struct ls_slice *whole = NULL;
        struct wal_segment *segment = wal_segment_ref(s->wal, steps[0].segment);
        uint64_t bytes = steps[count - 1].pos + steps[count - 1].bytes - steps[0].pos;
        size_t view_start = 0, i = 0;
        ls_err e;

        if (segment == NULL)
                return LS_END; /* compacted and purged since the plan: it is in the table's files
                                  now */
        whole = ls_slice_new((size_t)bytes);
        if (whole == NULL) {
                wal_segment_unref(segment);
                return LS_ELIMIT;
        }
        e = ls_file_read(segment->file, steps[0].pos, whole->ptr, (size_t)bytes);
        wal_segment_unref(segment);
        if (e != LS_OK && count > 1) { /* one of them: the others may be had */
                *io_count = 1;
                return read_run(s, r, steps, io_count);
        }
        if (e != LS_OK)
                return e == LS_END ? LS_EBROKEN : e;
        for (i = 0; i < count; i++) {
                uint8_t *p = whole->ptr + (steps[i].pos - steps[0].pos);

                if (!batch_intact(p, &steps[i])) {
                        ls_log_error("wal",
                                     "event=damaged segment=%llu pos=%llu bytes=%u stream=%llu "
                                     "offset=%lld",
                                     (unsigned long long)steps[i].segment,
                                     (unsigned long long)steps[i].pos, steps[i].bytes,
                                     (unsigned long long)s->id, (long long)steps[i].base);
                        if (i == 0)
                                return LS_EBROKEN;
                        *io_count = count = i;
                        break;
                }
                ls_set_be64(p, (uint64_t)steps[i].base);
                ls_set_be32(p + 12, (uint32_t)s->leader_epoch);
        }
        /* neighbours without a gap become one slice */
        for (i = 0; i < count; i++) {
                size_t pos = (size_t)(steps[i].pos - steps[0].pos), end = pos + steps[i].bytes;
                bool last = i + 1 == count || steps[i + 1].pos - steps[0].pos != end;

                if (!last) {
                        r->bytes += steps[i].bytes;
                        continue;
                }
                read_push(r, ls_slice_view(whole, view_start, end - view_start), &steps[i]);
                if (i + 1 < count)
                        view_start = (size_t)(steps[i + 1].pos - steps[0].pos);
        }
        return LS_OK;
}

ls_err
ls_wal_read(struct ls_wal_stream *s, int32_t partition, struct ls_wal_read *r)
{
        struct plan_step steps[LS_WAL_READ_ENTRIES_MAX];
        size_t count = 0, i = 0;
        ls_err e;

        pthread_mutex_lock(&s->lock);
        e = read_plan(s, partition, r, steps, &count);
        pthread_mutex_unlock(&s->lock);
        while (e == LS_OK && i < count) {
                size_t n = 1;

                if (steps[i].cached != NULL) {
                        read_push(r, LS_STEAL(steps[i].cached), &steps[i]);
                } else {
                        n = run_length(steps + i, count - i);
                        e = read_run(s, r, steps + i, &n);
                }
                i += n;
        }
        for (i = 0; i < count; i++)
                ls_slice_unref(steps[i].cached);
        /* what was read before a failure is good: give it, the failure comes back with the next
         * read */
        if (e != LS_OK && r->slice_count > 0 && e != LS_OUT_OF_RANGE)
                return LS_OK;
        return e;
}

void
ls_wal_read_done(struct ls_wal_read *r)
{
        for (size_t i = 0; i < r->slice_count; i++)
                ls_slice_unref(r->slices[i]);
        ls_free(r->slices);
        r->slices = NULL;
        r->slice_count = r->slice_cap = 0;
        r->bytes = 0;
}
