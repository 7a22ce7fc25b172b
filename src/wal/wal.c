/* wal/wal.c - segment files: opening, recovery, deletion. */
#include "wal/wal.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "wal/segment.h"
#include "wal/wal_int.h"

/* --- segments --- */

char *
wal_segment_path(const struct ls_wal *wal, uint64_t number)
{
        return ls_format("%s/%020llu.wal", wal->dir, (unsigned long long)number);
}

void
wal_segment_unref(struct wal_segment *s)
{
        if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
                return;
        ls_file_close(s->file);
        ls_free(s->path);
        ls_free(s);
}

struct wal_segment *
wal_segment_ref(struct ls_wal *wal, uint64_t number)
{
        struct wal_segment *s;

        pthread_mutex_lock(&wal->lock);
        for (s = wal->segments; s != NULL && s->number != number; s = s->next)
                ;
        if (s != NULL)
                atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
        pthread_mutex_unlock(&wal->lock);
        return s;
}

static struct wal_segment *
segment_add(struct ls_wal *wal, uint64_t number, char *path, struct ls_file *file, uint64_t end)
{
        struct wal_segment *s = ls_calloc(1, sizeof *s), **link;

        s->refs = 1; /* the list's */
        s->number = number;
        s->path = path;
        s->file = file;
        s->end = end;
        pthread_mutex_lock(&wal->lock);
        for (link = &wal->segments; *link != NULL && (*link)->number < number;
             link = &(*link)->next)
                ;
        s->next = *link;
        *link = s;
        if (number >= wal->segment_next)
                wal->segment_next = number + 1;
        pthread_mutex_unlock(&wal->lock);
        return s;
}

/* Makes the next file. A name that is taken was left behind by a failure: it is not used again. */
static ls_err
segment_create(struct ls_wal *wal, char **ret_path, struct ls_file **ret_file)
{
        ls_err e = LS_EXISTS;

        for (int i = 0; i < LS_WAL_NAMES_TRIED && e == LS_EXISTS; i++) {
                char *path = wal_segment_path(wal, wal->segment_next);

                e = ls_file_open(path, LS_FILE_CREATE_NEW, ret_file);
                if (e == LS_OK)
                        *ret_path = LS_STEAL(path);
                else if (e == LS_EXISTS)
                        wal->segment_next++;
                ls_free(path);
        }
        return e;
}

static ls_err
segment_begin(struct ls_wal *wal, struct ls_file *file, uint64_t number)
{
        struct ls_segment_header header = { .cluster = wal->cluster,
                                            .broker = wal->options.broker_id,
                                            .epoch = wal->epoch,
                                            .number = number,
                                            .created_ms = ls_clock_wall_ms() };
        struct ls_buf bytes;
        ls_span span;
        ls_err e;

        ls_buf_init(&bytes, LS_SEGMENT_HEADER_BYTES);
        ls_segment_header_put(&bytes, &header);
        LS_ASSERT(!ls_buf_failed(&bytes));
        span = ls_buf_span(&bytes);
        e = ls_file_write(file, 0, &span, 1);
        ls_buf_done(&bytes);
        if (e == LS_OK && wal->options.sync)
                e = ls_file_sync(file);
        if (e == LS_OK && wal->options.sync)
                e = ls_dir_sync(wal->dir);
        return e;
}

ls_err
wal_segment_new(struct ls_wal *wal, struct wal_segment **ret)
{
        LS_AUTO(ls_free) char *path = NULL;
        struct ls_file *file = NULL;
        struct wal_segment *s;
        uint64_t number;
        ls_err e;

        LS_TRY(segment_create(wal, &path, &file));
        number = wal->segment_next; /* only the flush thread makes segments after open */
        e = segment_begin(wal, file, number);
        if (e != LS_OK) {
                ls_file_close(file);
                if (ls_file_delete(path) != LS_OK)
                        wal->segment_next++; /* never try that name again */
                return e;
        }
        s = segment_add(wal, number, LS_STEAL(path), file, LS_SEGMENT_HEADER_BYTES);
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
        *ret = s;
        return LS_OK;
}

/* --- recovery --- */

struct recovery {
        struct ls_wal *wal;
        struct ls_errinfo *reterr;
        uint64_t epoch, sequence; /* the watermark: objects from here on were never committed */
        uint64_t damaged;         /* objects */
        uint64_t witness;         /* largest commit number that an object on disk knew of */
};

static ls_err
open_segment(void *ctx, const struct ls_dir_entry *entry)
{
        struct recovery *rec = ctx;
        struct ls_wal *wal = rec->wal;
        uint8_t bytes[LS_SEGMENT_HEADER_BYTES];
        struct ls_segment_header header;
        LS_AUTO(ls_free) char *path = NULL;
        struct ls_file *file = NULL;
        int64_t number;
        ls_err e;

        if (entry->is_dir || strlen(entry->name) != 24 || strcmp(entry->name + 20, ".wal") != 0 ||
            !ls_str_to_i64(ls_str_make(entry->name, 20), 0, INT64_MAX, &number))
                return LS_OK;
        path = wal_segment_path(wal, (uint64_t)number);
        LS_TRY(ls_file_open(path, LS_FILE_WRITE, &file));
        e = ls_file_read(file, 0, bytes, sizeof bytes);
        if (e == LS_OK)
                e = ls_segment_header_get(ls_span_of(bytes, sizeof bytes), &header);
        if (e == LS_OK && !ls_uuid_eq(header.cluster, wal->cluster)) {
                ls_file_close(file);
                return ls_fail(rec->reterr, LS_EBROKEN,
                               "%s belongs to another installation than the metadata database: put "
                               "the right database back, or run `lakestream doctor rebuild`",
                               path);
        }
        if (e == LS_OK && header.number != (uint64_t)number)
                e = LS_CORRUPT;
        if (e == LS_NEWER_FORMAT) {
                ls_file_close(file);
                return ls_fail(rec->reterr, LS_EBROKEN,
                               "%s was written by a newer version: use that", path);
        }
        if (e != LS_OK)
                /* power was lost while it was made (then nothing names it), or it is damaged: its
                 * objects are checked below */
                ls_log_warn("wal", "event=segment_header_damaged file=%s", path);
        segment_add(wal, (uint64_t)number, LS_STEAL(path), file, LS_SEGMENT_HEADER_BYTES);
        return LS_OK;
}

/* Reads one object's header at `pos`. LS_END, LS_CORRUPT: there is none; a failure. */
static ls_err
object_header_at(struct wal_segment *s, uint64_t pos, struct ls_object_header *ret)
{
        uint8_t bytes[LS_OBJECT_HEADER_BYTES];

        LS_TRY(ls_file_read(s->file, pos, bytes, sizeof bytes));
        return ls_object_header_get(ls_span_of(bytes, sizeof bytes), ret);
}

/* NULL: it is there; else what is wrong. */
static const char *
named_damage(struct wal_segment *s, const struct ls_meta_wal_object *o)
{
        struct ls_object_header h;
        uint64_t size = 0;
        ls_err e;

        if (s == NULL)
                return "its segment file is gone";
        e = ls_file_size(s->file, &size);
        if (e == LS_OK && size < o->pos + o->bytes)
                return "its segment file is too short";
        if (e == LS_OK)
                e = object_header_at(s, o->pos, &h);
        if (e < 0)
                return "its segment file cannot be read";
        if (e != LS_OK || h.epoch != o->epoch || h.sequence != o->sequence ||
            ls_object_bytes(&h) != o->bytes)
                return "its header is damaged";
        return NULL;
}

static ls_err
check_named(void *ctx, const struct ls_meta_wal_object *o)
{
        struct recovery *rec = ctx;
        struct wal_segment *s = wal_segment_ref(rec->wal, o->segment);
        const char *damage = named_damage(s, o);

        if (o->segment >= rec->wal->segment_next) /* its file is gone: the name must stay unused */
                rec->wal->segment_next = o->segment + 1;
        if (damage != NULL) {
                rec->damaged++;
                ls_log_error(
                        "wal",
                        "event=damaged_object segment=%llu pos=%llu bytes=%llu commit=%llu: %s",
                        (unsigned long long)o->segment, (unsigned long long)o->pos,
                        (unsigned long long)o->bytes, (unsigned long long)o->commit, damage);
        }
        if (s != NULL && o->pos + o->bytes > s->end)
                s->end = o->pos + o->bytes;
        wal_segment_unref(s);
        return LS_OK;
}

/* Written in an epoch before, and not committed in it: nothing of it was acknowledged. The object
 * of another broker id cannot be judged. */
static bool
never_committed(const struct recovery *rec, const struct ls_object_header *h)
{
        if (h->broker != rec->wal->options.broker_id)
                return false;
        return h->epoch > rec->epoch || (h->epoch == rec->epoch && h->sequence >= rec->sequence);
}

/* What was committed stays until its file goes, named or not: `lakestream doctor rebuild` commits
 * it again, in its order. That is why what was never committed is cut: it would get offsets that
 * the records behind it have. What follows the last whole object is torn. All are witnesses of the
 * commit numbers that existed. */
static void
walk_tail(struct recovery *rec, struct wal_segment *s, uint64_t size)
{
        struct ls_object_header h;
        uint64_t pos = LS_SEGMENT_HEADER_BYTES, end = pos;
        bool committed = true;
        ls_err e;

        while ((e = object_header_at(s, pos, &h)) == LS_OK && ls_object_bytes(&h) <= size - pos) {
                if (h.last_commit > rec->witness)
                        rec->witness = h.last_commit;
                pos += ls_object_bytes(&h);
                committed &= !never_committed(rec, &h);
                if (committed)
                        end = pos;
        }
        if (e < 0) { /* a place that cannot be read: what follows is not known, so not cut */
                ls_log_error("wal", "event=segment_unreadable file=%s pos=%llu error=%s", s->path,
                             (unsigned long long)pos, ls_err_name(e));
                end = size;
        }
        if (end > s->end)
                s->end = end;
}

static ls_err
walk_tails(struct recovery *rec)
{
        for (struct wal_segment *s = rec->wal->segments; s != NULL; s = s->next) {
                uint64_t size = 0;

                LS_TRY(ls_file_size(s->file, &size));
                walk_tail(rec, s, size);
        }
        return LS_OK;
}

static ls_err
cut_tails(struct recovery *rec)
{
        for (struct wal_segment *s = rec->wal->segments; s != NULL; s = s->next) {
                uint64_t size = 0;

                LS_TRY(ls_file_size(s->file, &size));
                if (size <= s->end)
                        continue;
                ls_log_info("wal", "event=tail_cut segment=%llu bytes=%llu",
                            (unsigned long long)s->number, (unsigned long long)(size - s->end));
                LS_TRY(ls_file_truncate(s->file, s->end));
                if (rec->wal->options.sync) /* before an epoch begins in which it would count */
                        LS_TRY(ls_file_sync(s->file));
        }
        return LS_OK;
}

static ls_err
recover(struct ls_wal *wal, struct ls_errinfo *reterr)
{
        struct recovery rec = { .wal = wal, .reterr = reterr };
        uint64_t commit = 0;

        ls_meta_watermark(wal->options.meta, &rec.epoch, &rec.sequence);
        LS_TRY(ls_dir_walk(wal->dir, open_segment, &rec));
        LS_TRY(ls_meta_wal_objects(wal->options.meta, check_named, &rec));
        LS_TRY(walk_tails(&rec));
        LS_TRY(ls_meta_commit_number(wal->options.meta, &commit));
        if (rec.witness > commit && wal->options.sync)
                return ls_fail(reterr, LS_EBROKEN,
                               "the metadata database went back in time: its last commit is %llu, "
                               "the WAL has seen "
                               "%llu. It was restored from a copy, or lost writes. Put the right "
                               "database back, or "
                               "run `lakestream doctor rebuild`; starting would give offsets twice",
                               (unsigned long long)commit, (unsigned long long)rec.witness);
        if (rec.witness > commit)
                ls_log_warn(
                        "wal",
                        "event=lost_commits last=%llu seen=%llu: power was lost with wal.sync=off",
                        (unsigned long long)commit, (unsigned long long)rec.witness);
        LS_TRY(cut_tails(&rec));
        atomic_store(&wal->last_commit, commit);
        if (rec.damaged > 0)
                ls_log_error("wal",
                             "event=recovered damaged_objects=%llu: run `lakestream doctor` to see "
                             "which "
                             "offsets they held",
                             (unsigned long long)rec.damaged);
        return LS_OK;
}

/* --- life --- */

static ls_err
open_files(struct ls_wal *wal, struct ls_errinfo *reterr)
{
        ls_err e = ls_dir_make(wal->dir);

        if (e != LS_OK)
                return ls_fail(reterr, e, "cannot make %s: %s", wal->dir, ls_err_text(e));
        ls_fail(reterr, LS_OK, "%s", "");
        e = recover(wal, reterr);
        if (e != LS_OK && reterr != NULL && reterr->text[0] == '\0')
                ls_fail(reterr, e, "recovery of %s failed: %s", wal->dir, ls_err_text(e));
        return e;
}

/* What is in the store needs no recovery: an object is whole or not there, and what nothing names
 * is garbage of an epoch that is over. */
static ls_err
open_store(struct ls_wal *wal, struct ls_errinfo *reterr)
{
        LS_TRY(wal_epoch_claim(wal, reterr));
        return wal_store_start(wal);
}

ls_err
ls_wal_open(const struct ls_wal_options *options, struct ls_wal **ret_wal,
            struct ls_errinfo *reterr)
{
        struct ls_wal *wal = ls_calloc(1, sizeof *wal);
        bool store = options->store != NULL;
        ls_err e;

        wal->options = *options;
        wal->dir = store ? NULL : ls_strdup(options->dir);
        wal->cluster = ls_meta_cluster_id(options->meta);
        wal->epoch = ls_meta_broker_epoch(options->meta);
        wal->segment_next = 1;
        wal->queue_tail = &wal->queue;
        wal->puts.sealed_tail = &wal->puts.sealed;
        wal->puts.failed_tail = &wal->puts.failed;
        wal->puts.accepted_tail = &wal->puts.accepted;
        pthread_mutex_init(&wal->lock, NULL);
        ls_cond_init(&wal->wake);
        ls_cond_init(&wal->puts.accepted_wake);
        wal_layout_init(&wal->layout);
        e = (store ? open_store : open_files)(wal, reterr);
        if (e == LS_OK)
                e = ls_thread_start("ls-wal", store ? wal_store_run : wal_file_run, wal,
                                    &wal->thread);
        if (e != LS_OK) {
                ls_wal_close(wal);
                return e > 0 ? LS_EIO : e;
        }
        *ret_wal = wal;
        return LS_OK;
}

static void
wait_for_flushes(struct ls_wal *wal)
{
        pthread_mutex_lock(&wal->lock);
        wal->stopping = true;
        ls_cond_broadcast(&wal->wake);
        pthread_mutex_unlock(&wal->lock);
        if (wal->thread != NULL)
                ls_thread_join(wal->thread);
        pthread_mutex_lock(&wal->lock);
        while (wal->flushes > 0)
                ls_cond_wait(&wal->wake, &wal->lock);
        pthread_mutex_unlock(&wal->lock);
        if (wal->options.store != NULL)
                wal_store_stop(wal);
}

void
ls_wal_close(struct ls_wal *wal)
{
        struct wal_segment *next;

        if (wal == NULL)
                return;
        wait_for_flushes(wal);
        LS_ASSERT(wal->queue == NULL);
        for (; wal->cache_count > 0; wal->cache_count--) {
                ls_wal_stream_unref(wal->cache[wal->cache_head].stream);
                wal->cache_head = (wal->cache_head + 1) & (wal->cache_cap - 1);
        }
        if (wal->open != NULL && wal->open->zeroed > wal->open->end &&
            ls_file_truncate(wal->open->file, wal->open->end) != LS_OK)
                ls_log_info("wal", "event=zeros_left file=%s", wal->open->path); /* harmless */
        wal_segment_unref(wal->open);
        for (struct wal_segment *s = wal->segments; s != NULL; s = next) {
                next = s->next;
                wal_segment_unref(s);
        }
        ls_free(wal->cache);
        wal_layout_done(&wal->layout);
        ls_cond_done(&wal->wake);
        ls_cond_done(&wal->puts.accepted_wake);
        pthread_mutex_destroy(&wal->lock);
        ls_free(wal->dir);
        ls_free(wal);
}

ls_err
ls_wal_ready(struct ls_wal *wal, struct ls_errinfo *reterr)
{
        ls_err e;

        pthread_mutex_lock(&wal->lock);
        e = wal->error;
        if (e != LS_OK && reterr != NULL)
                *reterr = wal->error_info;
        pthread_mutex_unlock(&wal->lock);
        return e;
}

/* --- upkeep --- */

struct purge {
        uint64_t *numbers;
        size_t count, cap;
};

static ls_err
purge_named(void *ctx, uint64_t segment)
{
        struct purge *p = ctx;

        LS_PUSH(p->numbers, p->count, p->cap, segment);
        return LS_OK;
}

static bool
purge_names(const struct purge *p, uint64_t number)
{
        for (size_t i = 0; i < p->count; i++) {
                if (p->numbers[i] == number)
                        return true;
        }
        return false;
}

/* Takes out of the list what is unnamed for long enough. The newest segment may still be written
 * to. */
static struct wal_segment *
purge_take(struct ls_wal *wal, const struct purge *p, uint64_t below, struct ls_wal_purge *how)
{
        struct wal_segment *taken = NULL, **link;
        int64_t now = ls_clock_monotonic_ms();

        pthread_mutex_lock(&wal->lock);
        for (link = &wal->segments; *link != NULL;) {
                struct wal_segment *s = *link;

                if (s->number >= below || purge_names(p, s->number)) {
                        s->unnamed_ms = 0;
                        link = &s->next;
                        continue;
                }
                if (s->unnamed_ms == 0)
                        s->unnamed_ms = now > 0 ? now : 1;
                if (now - s->unnamed_ms < how->delay_ms || s->unnamed_ms >= how->unnamed_since_ms) {
                        how->waiting += now - s->unnamed_ms >= how->delay_ms;
                        link = &s->next;
                        continue;
                }
                *link = s->next;
                s->next = taken;
                taken = s;
        }
        pthread_mutex_unlock(&wal->lock);
        return taken;
}

ls_err
ls_wal_purge(struct ls_wal *wal, struct ls_wal_purge *how, size_t *ret_segments_deleted)
{
        struct purge p = { 0 };
        struct wal_segment *taken, *next;
        uint64_t below;
        size_t deleted = 0;
        ls_err e = LS_OK;

        *ret_segments_deleted = 0;
        how->waiting = 0;
        do {
                LS_TRY(ls_meta_wal_purge(wal->options.meta, 1000, &deleted));
        } while (deleted >= 1000);
        if (wal->options.store != NULL) /* their names went on the garbage list with the rows */
                return LS_OK;
        /* Fixed before the names are read: a segment made later is not judged by an older list. The
         * newest one of this process is written to; it is left alone even when nothing names it
         * yet. */
        pthread_mutex_lock(&wal->lock);
        below = wal->segment_next > 0 ? wal->segment_next - 1 : 0;
        pthread_mutex_unlock(&wal->lock);
        e = ls_meta_wal_segments(wal->options.meta, purge_named, &p);
        taken = e == LS_OK ? purge_take(wal, &p, below, how) : NULL;
        ls_free(p.numbers);
        for (struct wal_segment *s = taken; s != NULL; s = next) {
                ls_err failed = ls_file_delete(s->path);

                next = s->next;
                if (failed != LS_OK && failed != LS_ABSENT)
                        ls_log_warn("wal", "event=delete_failed file=%s error=%s", s->path,
                                    ls_err_name(failed));
                else
                        (*ret_segments_deleted)++;
                wal_segment_unref(s);
        }
        return e;
}

void
ls_wal_disk(struct ls_wal *wal, size_t *ret_count, uint64_t *ret_bytes)
{
        *ret_count = 0;
        *ret_bytes = 0;
        pthread_mutex_lock(&wal->lock);
        for (struct wal_segment *s = wal->segments; s != NULL; s = s->next) {
                uint64_t size = 0;

                if (ls_file_size(s->file, &size) == LS_OK)
                        *ret_bytes += size;
                (*ret_count)++;
        }
        pthread_mutex_unlock(&wal->lock);
}

uint64_t
ls_wal_last_commit(const struct ls_wal *wal)
{
        return atomic_load(&wal->last_commit);
}
