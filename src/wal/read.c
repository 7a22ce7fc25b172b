/* wal/read.c - reading batches by offset: from the tail cache, else from segment files or objects.
 */
#include "base/assert.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "store/store.h"
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
                /* between them, others compacted and purged: that is in the table's files */
                if (count > 0 && e->base != steps[count - 1].base + steps[count - 1].records)
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

/* [pos, pos + bytes) of a segment. LS_END: it is gone, compacted and purged since the plan: in the
 * table's files now. The slice is the caller's alone. */
static ls_err
bytes_from_file(struct ls_wal *wal, uint64_t number, uint64_t pos, size_t bytes,
                struct ls_slice **ret)
{
        struct wal_segment *segment = wal_segment_ref(wal, number);
        struct ls_slice *whole;
        ls_err e;

        if (segment == NULL)
                return LS_END;
        whole = ls_slice_new(bytes);
        e = whole != NULL ? ls_file_read(segment->file, pos, whole->ptr, bytes) : LS_ELIMIT;
        wal_segment_unref(segment);
        if (e != LS_OK) {
                ls_slice_unref(whole);
                return e == LS_END ? LS_OUT_OF_RANGE : e;
        }
        *ret = whole;
        return LS_OK;
}

/* The same of an object. What a store gives may be another's too (its cache's): offsets are written
 * into a copy. */
static ls_err
bytes_from_store(struct ls_wal *wal, uint64_t number, uint64_t pos, size_t bytes,
                 struct ls_slice **ret)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *got = NULL;
        char key[LS_META_WAL_KEY_BYTES];
        ls_err e;

        ls_wal_key(number, key);
        e = ls_store_get(wal->options.store, key, pos, bytes, &got);
        if (e == LS_ABSENT)
                return LS_END;
        if (e == LS_OK && got->len != bytes)
                e = LS_OUT_OF_RANGE;
        if (e == LS_OUT_OF_RANGE)
                return e;
        if (e != LS_OK)
                ls_log_warn("wal", "event=read_failed object=%s error=%s", key, ls_err_name(e));
        if (e == LS_DENIED)
                return LS_EACCESS;
        if (e != LS_OK) /* throttled, say: worth another try, later */
                return e > 0 ? LS_EIO : e;
        *ret = ls_slice_copy(ls_slice_span(got));
        return *ret != NULL ? LS_OK : LS_ELIMIT;
}

static ls_err
run_bytes(struct ls_wal *wal, const struct plan_step *steps, size_t count, struct ls_slice **ret)
{
        uint64_t bytes = steps[count - 1].pos + steps[count - 1].bytes - steps[0].pos;

        return (wal->options.store != NULL ? bytes_from_store : bytes_from_file)(
                wal, steps[0].segment, steps[0].pos, (size_t)bytes, ret);
}

/* Takes the batches of steps whose bytes are there; *io_count: those that were taken, from the
 * front. What is intact before a damaged one is given. */
static ls_err
run_take(struct ls_wal_stream *s, struct ls_wal_read *r, const struct plan_step *steps,
         struct ls_slice *whole, size_t *io_count)
{
        size_t count = *io_count, view_start = 0, i = 0;

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

/* --- several objects at once: each takes a round trip --- */

struct get {
        struct ls_job job;
        struct gets *gets;
        const struct plan_step *steps;
        size_t count;
        struct ls_slice *whole;
        ls_err result;
};

struct gets {
        struct ls_wal *wal;
        pthread_mutex_t lock;
        struct ls_cond done;
        size_t left; /* under way */
        size_t count, next;
        struct get all[LS_WAL_READ_OBJECTS];
};

static void
get_run(struct ls_job *job)
{
        struct get *get = LS_CONTAINER(job, struct get, job);
        struct gets *gets = get->gets;

        get->result = run_bytes(gets->wal, get->steps, get->count, &get->whole);
        pthread_mutex_lock(&gets->lock);
        gets->left--;
        ls_cond_signal(&gets->done);
        pthread_mutex_unlock(&gets->lock);
}

/* Reads the next runs of steps, the first of them by itself. */
static void
gets_fill(struct gets *gets, const struct plan_step *steps, size_t count)
{
        size_t n;

        gets->count = gets->next = 0;
        for (size_t i = 0; i < count && gets->count < LS_COUNT(gets->all); i += n) {
                n = steps[i].cached != NULL ? 1 : run_length(steps + i, count - i);
                if (steps[i].cached == NULL)
                        gets->all[gets->count++] = (struct get){
                                .job.run = get_run, .gets = gets, .steps = steps + i, .count = n
                        };
        }
        gets->left = gets->count;
        for (size_t i = 1; i < gets->count; i++)
                ls_jobs_submit(gets->wal->puts.gets, &gets->all[i].job);
        if (gets->count > 0)
                get_run(&gets->all[0].job);
        pthread_mutex_lock(&gets->lock);
        while (gets->left > 0)
                ls_cond_wait(&gets->done, &gets->lock);
        pthread_mutex_unlock(&gets->lock);
}

/* The bytes of the run at `steps`, of *io_count steps. */
static ls_err
gets_take(struct gets *gets, const struct plan_step *steps, size_t left, size_t *io_count,
          struct ls_slice **ret)
{
        struct get *get;

        if (gets->next == gets->count)
                gets_fill(gets, steps, left);
        get = &gets->all[gets->next];
        if (gets->next == gets->count || get->steps != steps) /* a part of a run that failed */
                return run_bytes(gets->wal, steps, *io_count, ret);
        gets->next++;
        *io_count = get->count;
        *ret = LS_STEAL(get->whole);
        return get->result;
}

static void
gets_done(struct gets *gets)
{
        for (size_t i = gets->next; i < gets->count; i++)
                ls_slice_unref(gets->all[i].whole);
        ls_cond_done(&gets->done);
        pthread_mutex_destroy(&gets->lock);
        ls_free(gets);
}

static struct gets *
gets_new(struct ls_wal *wal)
{
        struct gets *gets = ls_calloc(1, sizeof *gets);

        gets->wal = wal;
        pthread_mutex_init(&gets->lock, NULL);
        ls_cond_init(&gets->done);
        return gets;
}

/* --- */

/* Reads steps that lie close together, of `left`; *ret_count: those that were read, from the front.
 * gets: with a store, else NULL. */
static ls_err
read_run(struct ls_wal_stream *s, struct ls_wal_read *r, const struct plan_step *steps, size_t left,
         struct gets *gets, size_t *ret_count)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *whole = NULL;
        size_t count = run_length(steps, left);
        ls_err e = gets != NULL ? gets_take(gets, steps, left, &count, &whole)
                                : run_bytes(s->wal, steps, count, &whole);

        if (count > 1 && e != LS_OK && e != LS_END && (gets == NULL || e == LS_OUT_OF_RANGE)) {
                count = 1; /* one of them: the others may be had */
                e = run_bytes(s->wal, steps, count, &whole);
        }
        if (e == LS_OK)
                e = run_take(s, r, steps, whole, &count);
        *ret_count = count;
        return e == LS_OUT_OF_RANGE ? LS_EBROKEN : e;
}

ls_err
ls_wal_read(struct ls_wal_stream *s, int32_t partition, struct ls_wal_read *r)
{
        struct plan_step steps[LS_WAL_READ_ENTRIES_MAX];
        struct gets *gets = NULL;
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
                        if (gets == NULL && s->wal->options.store != NULL)
                                gets = gets_new(s->wal);
                        e = read_run(s, r, steps + i, count - i, gets, &n);
                }
                i += n;
        }
        if (gets != NULL)
                gets_done(gets);
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
