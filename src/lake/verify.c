/* lake/verify.c - the log equals the table, by the sums that each commit recorded, or recomputed
 * from the files.
 *
 * Log side: the running sum of every record ever appended below the floor (kept by WAL commits from
 * S0 and S1, before anything was compacted). Table side: the sums of the extents, recomputed from
 * the Parquet rows when `deep`. The tail is compacted first, so that the table has all of the log.
 */
#include <stdio.h>

#include "base/assert.h"
#include "base/log.h"
#include "lake/rows.h"
#include "lake/table_int.h"

#define VERIFY_TRIES_MAX 5 /* while other brokers change the table */

struct check {
        struct ls_lake_stream *s;
        struct ls_lake_verify *v;
        bool deep;
        int32_t partition;
        int64_t rows, covered; /* of this partition */
        uint64_t hash;
        /* the reader of the file that the last extent was in */
        struct ls_rows_reader *reader;
        uint64_t file_id;
};

static void
differ(struct ls_lake_verify *v, const char *format, ...)
{
        va_list ap;

        v->equal = false;
        if (v->first_difference[0] != '\0')
                return;
        va_start(ap, format);
        vsnprintf(v->first_difference, sizeof v->first_difference, format, ap);
        va_end(ap);
}

static ls_err
check_rows(struct check *c, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        int64_t rows = 0;
        uint64_t hash = 0;
        ls_err err;

        if (c->reader == NULL || c->file_id != e->file_id) {
                ls_rows_reader_close(c->reader);
                c->reader = NULL;
                err = ls_rows_reader_open(c->s->lake->o.store, file->key, file->bytes, &c->reader);
                if (err != LS_OK) {
                        differ(c->v, "partition %d, offsets %lld to %lld: %s cannot be read: %s",
                               e->partition, (long long)e->base_offset,
                               (long long)e->end_offset - 1, file->key, ls_err_text(err));
                        return LS_OK;
                }
                c->file_id = e->file_id;
        }
        err = ls_rows_verify(c->reader, e, &rows, &hash);
        if (err != LS_OK)
                differ(c->v, "partition %d, offsets %lld to %lld: %s: %s", e->partition,
                       (long long)e->base_offset, (long long)e->end_offset - 1, file->key,
                       ls_err_text(err));
        else if (rows != e->rows || hash != e->hash)
                differ(c->v,
                       "partition %d, offsets %lld to %lld: %s holds %lld rows with sum %016llx, "
                       "the commit said "
                       "%lld with %016llx",
                       e->partition, (long long)e->base_offset, (long long)e->end_offset - 1,
                       file->key, (long long)rows, (unsigned long long)hash, (long long)e->rows,
                       (unsigned long long)e->hash);
        c->rows += rows;
        c->hash += hash;
        return LS_OK;
}

static ls_err
check_extent(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        struct check *c = ctx;

        if (lake_stopping(c->s->lake))
                return LS_ESHUTDOWN;
        if (e->base_offset > c->covered)
                differ(c->v, "partition %d: no extent covers offsets %lld to %lld", e->partition,
                       (long long)c->covered, (long long)e->base_offset - 1);
        c->covered = LS_MAX(c->covered, e->end_offset);
        if (c->deep && e->kind == LS_META_EXTENT_PARQUET && file != NULL)
                return check_rows(c, e, file);
        c->rows += e->rows;
        c->hash += e->hash;
        return LS_OK;
}

static ls_err
verify_partition(struct check *c, const struct ls_lake_spec *spec)
{
        struct ls_wal_view view;

        LS_TRY(ls_wal_view(c->s->wal, c->partition, &view));
        c->rows = c->covered = 0;
        c->hash = 0;
        LS_TRY(ls_meta_extents(c->s->lake->o.meta, spec->stream_id, c->partition, 0, view.floor,
                               SIZE_MAX, check_extent, c));
        if (c->covered < view.floor)
                differ(c->v, "partition %d: no extent covers offsets %lld to %lld", c->partition,
                       (long long)c->covered, (long long)view.floor - 1);
        if (c->hash != view.floor_hash)
                differ(c->v, "partition %d: the log's sum is %016llx, the table's %016llx",
                       c->partition, (unsigned long long)view.floor_hash,
                       (unsigned long long)c->hash);
        c->v->records_log += view.floor;
        c->v->records_table += c->rows;
        c->v->hash_log += view.floor_hash;
        c->v->hash_table += c->hash;
        return LS_OK;
}

static ls_err
count_file(void *ctx, const struct ls_meta_file *file)
{
        ((struct ls_lake_verify *)ctx)->files++;
        return LS_OK;
}

/* Within a run, so that no merge of this process moves rows meanwhile. */
static ls_err
verify_run(struct ls_lake_stream *s, bool deep, struct ls_lake_verify *v)
{
        struct ls_lake_spec spec = lake_spec(s);
        struct check c = { .s = s, .v = v, .deep = deep };
        ls_err e = lake_compact(s, INT64_MAX);

        for (c.partition = 0; c.partition < spec.partitions && e == LS_OK; c.partition++)
                e = verify_partition(&c, &spec);
        ls_rows_reader_close(c.reader);
        if (e == LS_OK)
                e = ls_meta_files(s->lake->o.meta, spec.stream_id, false, count_file, v);
        return e;
}

/* Other brokers do move rows meanwhile: a difference counts when the table stood still. *ret_again:
 * it did not. */
static ls_err
verify_try(struct ls_lake_stream *s, bool deep, struct ls_lake_verify *v, bool *ret_again)
{
        uint64_t before = 0, after = 0;
        ls_err e = LS_OK;

        *ret_again = false;
        *v = (struct ls_lake_verify){ .equal = true };
        if (!s->lake->o.shared)
                return verify_run(s, deep, v);
        e = lake_compact(s, INT64_MAX);
        if (e == LS_OK)
                e = lake_table_version(s, &before);
        if (e == LS_OK)
                e = verify_run(s, deep, v);
        if (e == LS_OK && v->equal)
                return LS_OK;
        *ret_again = lake_is_elsewhere(s->lake, e) ||
                     (lake_table_version(s, &after) == LS_OK && after != before);
        return e;
}

ls_err
ls_lake_verify(struct ls_lake_stream *s, bool deep, struct ls_lake_verify *ret,
               struct ls_errinfo *reterr)
{
        ls_err e = lake_run_begin(s, INT64_MAX);
        bool again = true;

        if (e != LS_OK)
                return ls_fail(reterr, e, "the table cannot be verified: %s", ls_err_text(e));
        for (int tries = 0; tries < VERIFY_TRIES_MAX && again; tries++)
                e = verify_try(s, deep, ret, &again);
        lake_run_end(s, LS_OK);
        if (e == LS_OK && again)
                e = LS_CONFLICT; /* what differs may only be two moments of it */
        if (e != LS_OK)
                return ls_fail(reterr, e, "the table cannot be verified: %s", ls_err_text(e));
        return LS_OK;
}

ls_err
ls_lake_files(struct ls_lake_stream *s, ls_err (*fn)(void *ctx, const struct ls_meta_file *file),
              void *ctx)
{
        struct ls_lake_spec spec = lake_spec(s);

        return ls_meta_files(s->lake->o.meta, spec.stream_id, false, fn, ctx);
}
