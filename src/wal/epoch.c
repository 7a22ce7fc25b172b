/* wal/epoch.c - with an object store: names, and a database that went back in time.
 *
 * A database that was restored from a copy, or lost writes, would give offsets twice. The store
 * shows it, in two ways. Each opening of the WAL leaves a mark under its epoch; epochs come from a
 * counter in the database: a mark that is there already, or one of an epoch that the database has
 * never given out, says so. And each object says which commit number was known when it was sealed:
 * the last object of each newer epoch is looked at, and none may know of a commit that the
 * database does not.
 *
 * Each try to start raises the counter of epochs, until it is past all marks, and new commits raise
 * the other: so who notices leaves a word that stops all, until an operator removes it. */
#include <assert.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "store/store.h"
#include "wal/wal_int.h"

#define SEQUENCE_BITS   36
#define EPOCH_MAX       (((uint64_t)1 << (63 - SEQUENCE_BITS)) - 1) /* numbers fit in an int64 */
#define EPOCH_DIGITS    10
#define SEQUENCE_DIGITS 12
#define WENT_BACK_KEY   "wal/went-back"

static_assert(EPOCH_MAX < 10000000000u, "an epoch has 10 digits in a name");
static_assert(((uint64_t)1 << SEQUENCE_BITS) < 1000000000000u, "a sequence has 12");

uint64_t
ls_wal_segment_number(uint64_t epoch, uint64_t sequence)
{
        LS_ASSERT(epoch <= EPOCH_MAX);
        LS_ASSERT(sequence >> SEQUENCE_BITS == 0);
        return epoch << SEQUENCE_BITS | sequence;
}

void
ls_wal_key(uint64_t segment, char ret_key[LS_META_WAL_KEY_BYTES])
{
        int n = snprintf(ret_key, LS_META_WAL_KEY_BYTES, "wal/%010llu/%012llu.wal",
                         (unsigned long long)(segment >> SEQUENCE_BITS),
                         (unsigned long long)(segment & (((uint64_t)1 << SEQUENCE_BITS) - 1)));

        LS_ASSERT(n > 0 && n < LS_META_WAL_KEY_BYTES);
}

static void
mark_key(uint64_t epoch, char ret_key[LS_META_WAL_KEY_BYTES])
{
        snprintf(ret_key, LS_META_WAL_KEY_BYTES, "wal/%010llu/open", (unsigned long long)epoch);
}

static ls_err
refuse(struct ls_wal *wal, struct ls_errinfo *reterr, const char *what, uint64_t epoch)
{
        char text[160];

        snprintf(text, sizeof text, "epoch %llu of broker %d: %s %llu\n",
                 (unsigned long long)wal->epoch, wal->options.broker_id, what,
                 (unsigned long long)epoch);
        if (ls_store_put_if_absent(wal->options.store, WENT_BACK_KEY,
                                   ls_span_of(text, strlen(text))) < 0)
                ls_log_warn("wal", "event=no_word_left object=%s", WENT_BACK_KEY);
        return ls_fail(reterr, LS_EBROKEN,
                       "the metadata database went back in time: %s %llu. It was restored from a "
                       "copy, or lost writes. Put the right database back, then delete the object "
                       "%s; starting would give "
                       "offsets twice",
                       what, (unsigned long long)epoch, WENT_BACK_KEY);
}

/* --- what was left before --- */

static ls_err
word_check(struct ls_wal *wal, struct ls_errinfo *reterr)
{
        struct ls_store_info info;
        ls_err e = ls_store_head(wal->options.store, WENT_BACK_KEY, &info);

        if (e == LS_ABSENT)
                return LS_OK;
        if (e != LS_OK)
                return ls_fail(reterr, e > 0 ? LS_EIO : e, "the object store cannot be read: %s",
                               ls_err_text(e));
        return ls_fail(reterr, LS_EBROKEN,
                       "a broker found that the metadata database went back in time, and left the "
                       "object %s. Put the right database back, then delete that object",
                       WENT_BACK_KEY);
}

/* What a list found. */
struct page {
        uint64_t epoch;    /* of the last name that has one */
        uint64_t sequence; /* of the last object */
        int names, objects;
};

static ls_err
page_name(void *ctx, const char *key, const struct ls_store_info *info)
{
        size_t len = strlen(key), name = 4 + EPOCH_DIGITS + 1;
        struct page *page = ctx;
        int64_t number;

        page->names++;
        if (len < name || !ls_str_to_i64(ls_str_make(key + 4, EPOCH_DIGITS), 0, INT64_MAX, &number))
                return LS_OK;
        page->epoch = (uint64_t)number;
        if (len != name + SEQUENCE_DIGITS + 4 ||
            !ls_str_to_i64(ls_str_make(key + name, SEQUENCE_DIGITS), 0, INT64_MAX, &number))
                return LS_OK;
        page->sequence = (uint64_t)number;
        page->objects++;
        return LS_OK;
}

/* Objects of an epoch above `sequence`, a page of them. */
static ls_err
page_above(struct ls_wal *wal, uint64_t epoch, uint64_t sequence, struct page *ret)
{
        char prefix[LS_META_WAL_KEY_BYTES], after[LS_META_WAL_KEY_BYTES];

        *ret = (struct page){ 0 };
        snprintf(prefix, sizeof prefix, "wal/%010llu/", (unsigned long long)epoch);
        snprintf(after, sizeof after, "wal/%010llu/%012llu.wal", (unsigned long long)epoch,
                 (unsigned long long)sequence);
        return ls_store_list(wal->options.store, prefix, after, LS_WAL_LIST_NAMES, page_name, ret);
}

/* The sequence of the last object, 0 when there is none. Names are in order, so leaps find it, with
 * a few lists where there are many objects. */
static ls_err
last_find(struct ls_wal *wal, uint64_t epoch, uint64_t *ret_last)
{
        uint64_t last = 0, leap = 0;
        bool grows = true;
        struct page page;

        for (;;) {
                LS_TRY(page_above(wal, epoch, last + leap, &page));
                if (page.objects > 0)
                        last = page.sequence;
                if (page.objects > 0 ? page.names < LS_WAL_LIST_NAMES : leap == 0)
                        break;
                grows &= page.objects > 0;
                if (grows)
                        leap = leap == 0 ? LS_WAL_LIST_NAMES : leap * 2;
                else
                        leap = leap < LS_WAL_LIST_NAMES ? 0 : leap / 2;
        }
        *ret_last = last;
        return LS_OK;
}

/* The commit number that the last object of an epoch knew of. */
static ls_err
last_read(struct ls_wal *wal, uint64_t epoch, uint64_t *io_witness)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        char key[LS_META_WAL_KEY_BYTES];
        struct ls_object_header header;
        uint64_t last;
        ls_err e;

        LS_TRY(last_find(wal, epoch, &last));
        if (last == 0)
                return LS_OK;
        snprintf(key, sizeof key, "wal/%010llu/%012llu.wal", (unsigned long long)epoch,
                 (unsigned long long)last);
        e = ls_store_get(wal->options.store, key, LS_SEGMENT_HEADER_BYTES, LS_OBJECT_HEADER_BYTES,
                         &bytes);
        if (e == LS_ABSENT) /* collected in this moment */
                return LS_OK;
        if (e == LS_OK)
                e = ls_object_header_get(ls_slice_span(bytes), &header);
        if (e == LS_OUT_OF_RANGE || e == LS_CORRUPT || e == LS_NEWER_FORMAT) {
                ls_log_warn("wal", "event=no_witness object=%s error=%s", key, ls_err_name(e));
                return LS_OK;
        }
        if (e == LS_OK)
                *io_witness = LS_MAX(*io_witness, header.last_commit);
        return e;
}

/* The first epoch that is walked through: an opening must not take longer with each before it. */
static uint64_t
epochs_from(const struct ls_wal *wal)
{
        return wal->epoch > LS_WAL_EPOCHS_BACK ? wal->epoch - LS_WAL_EPOCHS_BACK : 0;
}

/* The newer epochs that have something: the newest, and the largest commit number. */
static ls_err
epochs_walk(struct ls_wal *wal, uint64_t *ret_newest, uint64_t *ret_witness)
{
        char after[32];

        *ret_newest = *ret_witness = 0;
        snprintf(after, sizeof after, "wal/%010llu", (unsigned long long)epochs_from(wal));
        for (int i = 0; i < LS_WAL_EPOCHS_MAX; i++) {
                struct page page = { 0 };

                LS_TRY(ls_store_list(wal->options.store, "wal/", after, 1, page_name, &page));
                if (page.epoch <= *ret_newest)
                        return LS_OK;
                *ret_newest = page.epoch;
                LS_TRY(last_read(wal, page.epoch, ret_witness));
                snprintf(after, sizeof after, "wal/%010llu", (unsigned long long)page.epoch + 1);
        }
        return LS_ELIMIT;
}

/* Another installation's store is left as it is: no word, which would stop that. */
static ls_err
cluster_check(struct ls_wal *wal, uint64_t epoch, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        char key[LS_META_WAL_KEY_BYTES];
        struct ls_segment_header header;
        ls_err e;

        mark_key(epoch, key);
        e = ls_store_get(wal->options.store, key, 0, 0, &bytes);
        if (e == LS_ABSENT) /* a sweep was too eager */
                return LS_OK;
        if (e != LS_OK)
                return ls_fail(reterr, e > 0 ? LS_EIO : e, "cannot read %s: %s", key,
                               ls_err_text(e));
        if (ls_segment_header_get(ls_slice_span(bytes), &header) != LS_OK ||
            ls_uuid_eq(header.cluster, wal->cluster))
                return LS_OK;
        return ls_fail(reterr, LS_EBROKEN,
                       "the object store belongs to another installation than the metadata "
                       "database (%s says so): put the right database back, or use another prefix",
                       key);
}

struct known {
        struct ls_wal *wal;
        uint64_t epoch;   /* the newest */
        uint64_t witness; /* of brokers that are open since before the epochs walked through */
};

static ls_err
known_broker(void *ctx, const struct ls_meta_broker *b)
{
        struct known *known = ctx;

        known->epoch = LS_MAX(known->epoch, b->epoch);
        return b->open && b->epoch <= epochs_from(known->wal)
                       ? last_read(known->wal, b->epoch, &known->witness)
                       : LS_OK;
}

/* What is in the store was in the database before: so the store is asked first. */
static ls_err
database_check(struct ls_wal *wal, struct ls_errinfo *reterr)
{
        struct known known = { .wal = wal, .epoch = wal->epoch };
        uint64_t newest, witness, commit = 0;
        ls_err e = epochs_walk(wal, &newest, &witness);

        if (e == LS_OK)
                e = ls_meta_brokers(wal->options.meta, known_broker, &known);
        if (e == LS_OK)
                e = ls_meta_commit_number(wal->options.meta, &commit);
        if (e != LS_OK)
                return ls_fail(reterr, e > 0 ? LS_EIO : e,
                               "cannot compare the store with the metadata: %s", ls_err_text(e));
        if (newest > 0)
                LS_TRY(cluster_check(wal, newest, reterr));
        witness = LS_MAX(witness, known.witness);
        if (newest > known.epoch)
                return refuse(wal, reterr, "it does not know of epoch", newest);
        if (witness > commit)
                return refuse(wal, reterr, "it does not know of commit", witness);
        atomic_store(&wal->last_commit, commit);
        return LS_OK;
}

/* --- the mark --- */

ls_err
wal_epoch_claim(struct ls_wal *wal, struct ls_errinfo *reterr)
{
        struct ls_segment_header header = { .cluster = wal->cluster,
                                            .broker = wal->options.broker_id,
                                            .epoch = wal->epoch,
                                            .created_ms = ls_clock_wall_ms() };
        char key[LS_META_WAL_KEY_BYTES];
        struct ls_buf bytes;
        ls_err e;

        if (wal->epoch > EPOCH_MAX)
                return ls_fail(reterr, LS_EBROKEN, "epoch %llu has no place in a number",
                               (unsigned long long)wal->epoch);
        header.number = ls_wal_segment_number(wal->epoch, 0);
        LS_TRY(word_check(wal, reterr));
        LS_TRY(database_check(wal, reterr));
        ls_buf_init(&bytes, LS_SEGMENT_HEADER_BYTES);
        ls_segment_header_put(&bytes, &header);
        mark_key(wal->epoch, key);
        e = ls_store_put_if_absent(wal->options.store, key, ls_buf_span(&bytes));
        ls_buf_done(&bytes);
        if (e == LS_EXISTS)
                return refuse(wal, reterr, "it gave out again epoch", wal->epoch);
        if (e != LS_OK)
                return ls_fail(reterr, e > 0 ? LS_EIO : e, "cannot write %s: %s", key,
                               ls_err_text(e));
        return LS_OK;
}

void
wal_went_back(struct ls_wal *wal, uint64_t seen, uint64_t got)
{
        struct ls_errinfo info = { { 0 } };

        atomic_store(&wal->lost, true); /* first: nothing more is acknowledged */
        ls_log_error("wal", "event=database_went_back commit=%llu seen=%llu",
                     (unsigned long long)got, (unsigned long long)seen);
        refuse(wal, &info, "it has lost commits up to", seen);
        if (wal->options.on_lost == NULL)
                ls_process_exit(LS_WAL_EXIT_LOST);
        wal->options.on_lost(wal->options.on_lost_ctx, info.text);
}
