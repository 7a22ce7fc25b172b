/* lake/merge.c - maintenance: small files become large ones, old rows (purge.c) and old snapshots
 * leave.
 *
 * Files are merged by tiers: each tier holds files up to eight times as large as those of the tier
 * below. Eight files of a tier make one of the next, so that a row is copied as often as there are
 * tiers, and no more than that. Files of a tier stand in order of age, so merged runs of a
 * partition mostly meet; where they do not, a run is cut, and the offsets between stay with the
 * file that has them.
 *
 * Rows are copied outside of a run, from files that nobody changes; only maintenance takes files
 * out of a table, and it runs once a stream (with other brokers about: under the stream's lease,
 * and should one merge the same files all the same, whoever commits second gives his file up). The
 * commit is made within a run like any other.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metric.h"
#include "lake/rows.h"
#include "lake/table_int.h"

#define MERGE_FAN_IN     8
#define MERGE_FILES_MAX  64                    /* of one merge: open readers */
#define MERGE_ROUNDS_MAX 16                    /* of one call */
#define MERGE_TIER_BYTES ((uint64_t)256 << 10) /* largest of the lowest tier */
#define MERGE_TIERS_MAX  12

static LS_METRIC(metric_merges, COUNTER, "lakestream_table_merges_total",
                 "Merges of small data files.");
static LS_METRIC(metric_merged, COUNTER, "lakestream_table_files_merged_total",
                 "Data files that were merged away.");
static LS_METRIC(metric_bytes, COUNTER, "lakestream_table_merged_bytes_total",
                 "Bytes of files that were merged.");

struct candidate {
        struct ls_meta_file file; /* its key is owned */
        int tier;                 /* -1: large enough */
        int32_t spec_id;
        const struct ls_iceberg_value *tuple; /* in the plan's arena */
};
struct plan {
        struct ls_lake_stream *s;
        struct ls_lake_spec spec;
        struct ls_arena arena;
        struct candidate *files;
        size_t count, cap;
        const struct ls_iceberg_spec *specs; /* of the table, in the arena */
        size_t spec_count;
        const struct ls_iceberg_type **types; /* of each spec's tuple */
        bool partitioned;
};

/* --- which files ----------------------------------------------------------------------------- */

static int
tier_of(uint64_t bytes, uint64_t target)
{
        uint64_t bound = MERGE_TIER_BYTES;
        int tier = 0;

        if (bytes >= target / 4 * 3)
                return -1;
        while (bytes > bound && tier < MERGE_TIERS_MAX - 1) {
                bound *= MERGE_FAN_IN;
                tier++;
        }
        return tier;
}

static ls_err
plan_file(void *ctx, const struct ls_meta_file *f)
{
        struct plan *p = ctx;
        struct candidate c = {
                .file = *f,
                .tier = tier_of(f->bytes,
                                (uint64_t)p->spec.settings->ints[LS_SET_TABLE_TARGET_FILE_BYTES])
        };

        c.file.key = ls_strdup(f->key);
        LS_PUSH(p->files, p->count, p->cap, c);
        return LS_OK;
}

static void
plan_done(struct plan *p)
{
        for (size_t i = 0; i < p->count; i++)
                ls_free((char *)(uintptr_t)p->files[i].file.key);
        ls_free(p->files);
        ls_arena_done(&p->arena);
}

/* True when some tier has files enough, as far as sizes tell. */
static bool
plan_worth(const struct plan *p)
{
        size_t of_tier[MERGE_TIERS_MAX] = { 0 };

        for (size_t i = 0; i < p->count; i++)
                if (p->files[i].tier >= 0 && ++of_tier[p->files[i].tier] >= MERGE_FAN_IN)
                        return true;
        return false;
}

/* Partition tuples stand in the manifests. Within a run. */
static ls_err
plan_tuples(struct plan *p, const struct lake_table *t)
{
        struct ls_map by_key;
        ls_err e = LS_OK;

        ls_map_init(&by_key);
        for (size_t i = 0; i < p->count; i++)
                ls_map_set(&by_key, ls_map_key_str(ls_str_of(p->files[i].file.key)), &p->files[i]);
        for (size_t i = 0; i < t->line_count && e == LS_OK; i++) {
                struct ls_iceberg_manifest m;

                e = lake_manifest_get(p->s, &t->lines[i], &p->arena, &m);
                for (size_t k = 0; k < m.count && e == LS_OK; k++) {
                        LS_AUTO(ls_free) char *key = lake_uri_key(&p->spec, m.entries[k].file.path);
                        struct candidate *c =
                                key ? ls_map_get(&by_key, ls_map_key_str(ls_str_of(key))) : NULL;

                        if (c == NULL || m.entries[k].status == LS_ICEBERG_DELETED)
                                continue;
                        c->spec_id = (int32_t)t->lines[i].spec_id;
                        c->tuple = m.entries[k].file.partition;
                }
        }
        ls_map_done(&by_key);
        return e;
}

/* A copy of the table's specs: the table's state may change while rows are copied. */
static ls_err
plan_specs(struct plan *p, const struct lake_table *t)
{
        struct ls_iceberg_spec *specs =
                ls_arena_array(&p->arena, t->m.spec_count + 1, sizeof *specs);

        p->types = ls_arena_array(&p->arena, t->m.spec_count + 1, sizeof *p->types);
        if (specs == NULL || p->types == NULL)
                return LS_ELIMIT;
        p->specs = specs;
        p->spec_count = t->m.spec_count;
        for (size_t i = 0; i < t->m.spec_count; i++) {
                struct ls_iceberg_partition_field *fields =
                        ls_arena_array(&p->arena, t->m.specs[i].field_count + 1, sizeof *fields);

                if (fields == NULL)
                        return LS_ELIMIT;
                specs[i] = t->m.specs[i];
                for (uint32_t k = 0; k < specs[i].field_count; k++) {
                        fields[k] = t->m.specs[i].fields[k];
                        fields[k].name = ls_arena_str(&p->arena, fields[k].name);
                }
                specs[i].fields = fields;
                p->partitioned |= specs[i].field_count > 0;
                if (ls_iceberg_spec_types(&specs[i], &lake_columns, &p->arena, &p->types[i]) !=
                    LS_OK)
                        return LS_ELIMIT;
        }
        return LS_OK;
}

static ls_err
plan_make(struct plan *p)
{
        const struct lake_table *t;
        ls_err e;

        LS_TRY(ls_meta_files(p->s->lake->o.meta, p->spec.stream_id, false, plan_file, p));
        if (!plan_worth(p))
                return LS_OK;
        LS_TRY(lake_run_begin(p->s, INT64_MAX));
        e = lake_table_get(p->s, &t);
        if (e == LS_OK)
                e = plan_specs(p, t);
        if (e == LS_OK && p->partitioned)
                e = plan_tuples(p, t);
        lake_run_end(p->s, e);
        return e;
}

static size_t
spec_index(const struct plan *p, int32_t spec_id)
{
        for (size_t i = 0; i < p->spec_count; i++)
                if (p->specs[i].spec_id == spec_id)
                        return i;
        return SIZE_MAX;
}

/* By tier, spec and tuple: files that are equal in these may lie in one file. */
static int
candidate_cmp(const struct plan *p, const struct candidate *a, const struct candidate *b)
{
        size_t spec = spec_index(p, a->spec_id);

        if (a->tier != b->tier)
                return a->tier < b->tier ? -1 : 1;
        if (a->spec_id != b->spec_id)
                return a->spec_id < b->spec_id ? -1 : 1;
        if ((a->tuple == NULL) != (b->tuple == NULL))
                return a->tuple == NULL ? -1 : 1;
        if (spec == SIZE_MAX || a->tuple == NULL)
                return 0;
        for (uint32_t i = 0; i < p->specs[spec].field_count; i++) {
                int order = ls_iceberg_value_cmp(&p->types[spec][i], &a->tuple[i], &b->tuple[i]);

                if (order != 0)
                        return order;
        }
        return 0;
}

static int
candidate_order(const void *left, const void *right, void *ctx)
{
        const struct candidate *a = *(struct candidate *const *)left;
        const struct candidate *b = *(struct candidate *const *)right;
        int order = candidate_cmp(ctx, a, b);

        return order != 0 ? order : (a->file.id > b->file.id) - (a->file.id < b->file.id);
}

/* A file that must not be merged: large enough, or its tuple is not known. */
static bool
stays(const struct plan *p, const struct candidate *c)
{
        size_t spec = spec_index(p, c->spec_id);

        return c->tier < 0 || spec == SIZE_MAX ||
               (p->specs[spec].field_count > 0 && c->tuple == NULL);
}

/* The oldest files of the lowest tier that make a merge; 0: none is worth it. */
static size_t
pick(struct plan *p, struct candidate **ret)
{
        uint64_t target = (uint64_t)p->spec.settings->ints[LS_SET_TABLE_TARGET_FILE_BYTES];
        struct candidate **sorted = ls_calloc(p->count + 1, sizeof *sorted);
        size_t n = 0;

        for (size_t i = 0; i < p->count; i++)
                sorted[i] = &p->files[i];
        qsort_r(sorted, p->count, sizeof *sorted, candidate_order, p);
        for (size_t i = 0, k; i < p->count && n == 0; i = k) {
                uint64_t bytes = 0;
                bool full = false;

                for (k = i; k < p->count && n < MERGE_FILES_MAX && !full && !stays(p, sorted[k]) &&
                            candidate_cmp(p, sorted[i], sorted[k]) == 0;) {
                        full = n > 1 && bytes + sorted[k]->file.bytes > target;
                        if (full)
                                break;
                        bytes += sorted[k]->file.bytes;
                        ret[n++] = sorted[k++];
                }
                if (n >= MERGE_FAN_IN || (n > 1 && bytes >= target / 2))
                        break;
                n = 0;
                k = full || k == i ? i + 1 : k; /* else the whole row is too small */
        }
        ls_free(sorted);
        return n;
}

/* --- copying --------------------------------------------------------------------------------- */

struct piece {
        const struct ls_rows_run *run;
        size_t file;
        bool alone; /* the only extent of its range, not one of a group */
};
struct merge {
        struct plan *p;
        struct candidate **files;
        size_t count;
        struct ls_rows_reader **readers;
        struct piece *pieces;
        size_t piece_count, piece_cap;
        struct lake_new_file file;
        struct lake_change change;
};

static int
piece_order(const void *left, const void *right)
{
        const struct ls_rows_run *a = ((const struct piece *)left)->run,
                                 *b = ((const struct piece *)right)->run;

        if (a->partition != b->partition)
                return a->partition < b->partition ? -1 : 1;
        return (a->base_offset > b->base_offset) - (a->base_offset < b->base_offset);
}

static ls_err
open_readers(struct merge *m)
{
        m->readers = ls_calloc(m->count, sizeof *m->readers);
        for (size_t i = 0; i < m->count; i++) {
                const struct ls_meta_file *f = &m->files[i]->file;
                const struct ls_rows_run *runs;
                size_t count;

                LS_TRY(ls_rows_reader_open(m->p->s->lake->o.store, f->key, f->bytes,
                                           &m->readers[i]));
                LS_TRY(ls_rows_runs(m->readers[i], &runs, &count));
                for (size_t k = 0; k < count; k++) {
                        struct piece piece = { &runs[k], i };

                        LS_PUSH(m->pieces, m->piece_count, m->piece_cap, piece);
                }
        }
        qsort(m->pieces, m->piece_count, sizeof *m->pieces, piece_order);
        return LS_OK;
}

static struct ls_meta_extent
run_extent(const struct ls_rows_run *run, uint64_t file_id)
{
        return (struct ls_meta_extent){ .partition = run->partition,
                                        .kind = LS_META_EXTENT_PARQUET,
                                        .base_offset = run->base_offset,
                                        .end_offset = run->end_offset,
                                        .file_id = file_id,
                                        .first_row = run->first_row,
                                        .rows = run->rows,
                                        .min_timestamp = run->min_timestamp,
                                        .max_timestamp = run->max_timestamp,
                                        .hash = run->hash,
                                        .log_bytes = run->log_bytes,
                                        .flags = run->log_append_time
                                                         ? LS_META_BATCH_LOG_APPEND_TIME
                                                         : 0 };
}

static ls_err
count_extent(void *ctx, const struct ls_meta_extent *e, const struct ls_meta_file *file)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

/* Members of a group keep their range; what stands alone may grow together with its neighbour. */
static ls_err
look_up_groups(struct merge *m)
{
        size_t spec = spec_index(m->p, m->files[0]->spec_id);
        bool grouped = spec != SIZE_MAX && m->p->specs[spec].field_count > 0;

        for (size_t i = 0; i < m->piece_count; i++) {
                const struct ls_rows_run *run = m->pieces[i].run;
                size_t count = 0;

                if (grouped)
                        LS_TRY(ls_meta_extents(m->p->s->lake->o.meta, m->p->spec.stream_id,
                                               run->partition, run->base_offset,
                                               run->base_offset + 1, 2, count_extent, &count));
                m->pieces[i].alone = count < 2;
        }
        return LS_OK;
}

/* False: the piece begins a run of its own. */
static bool
goes_on(const struct piece *before, const struct piece *piece)
{
        return before->alone && piece->alone && before->run->partition == piece->run->partition &&
               before->run->end_offset == piece->run->base_offset;
}

static ls_err
copy_pieces(struct merge *m)
{
        for (size_t i = 0; i < m->piece_count; i++) {
                const struct piece *piece = &m->pieces[i];
                struct ls_meta_extent x = run_extent(piece->run, m->files[piece->file]->file.id);

                if (lake_stopping(m->p->s->lake) || atomic_load(&m->p->s->gone))
                        return LS_ESHUTDOWN;
                lake_lease_keep(m->p->s);
                if (i > 0 && !goes_on(&m->pieces[i - 1], piece))
                        ls_rows_writer_cut(m->file.writer);
                LS_TRY(ls_rows_copy(m->readers[piece->file], &x, m->file.writer));
                if (!piece->alone)
                        ls_rows_writer_span(m->file.writer, x.base_offset, x.end_offset);
                LS_PUSH(m->change.remove_extents, m->change.remove_extent_count,
                        m->change.remove_extent_cap, x);
        }
        return LS_OK;
}

static ls_err
copy(struct merge *m)
{
        struct ls_rows_writer_options o = { .store = m->p->s->lake->o.store,
                                            .stream_id = m->p->spec.stream_id,
                                            .topic_id = m->p->spec.topic_id,
                                            .compression = lake_compression(&m->p->spec) };
        uint64_t random;

        ls_random(&random, sizeof random);
        m->file.key = lake_key(&m->p->spec, "data/%llu-%016llx-m.parquet",
                               (unsigned long long)ls_meta_broker_epoch(m->p->s->lake->o.meta),
                               (unsigned long long)random);
        o.key = m->file.key;
        LS_TRY(open_readers(m));
        LS_TRY(look_up_groups(m));
        LS_TRY(ls_rows_writer_new(&o, &m->file.writer));
        LS_TRY(copy_pieces(m));
        return ls_rows_writer_finish(m->file.writer, &m->file.info);
}

/* --- the commit ------------------------------------------------------------------------------ */

static void
fill_change(struct merge *m)
{
        struct lake_change *change = &m->change;
        const struct ls_rows_file *info = m->file.info;
        size_t spec = spec_index(m->p, m->files[0]->spec_id);

        change->operation = "replace";
        change->files = &m->file;
        change->file_count = 1;
        m->file.tuple = m->files[0]->tuple;
        if (spec != SIZE_MAX && m->p->specs[spec].field_count > 0)
                change->partitioning = &m->p->specs[spec];
        change->old_files = ls_calloc(m->count, sizeof *change->old_files);
        change->old_file_count = m->count;
        for (size_t i = 0; i < m->count; i++)
                change->old_files[i] =
                        (struct lake_old_file){ m->files[i]->file.id,
                                                (char *)(uintptr_t)m->files[i]->file.key };
        change->add_extents = ls_calloc(info->run_count + 1, sizeof *change->add_extents);
        change->file_is_new = ls_calloc(info->run_count + 1, sizeof *change->file_is_new);
        change->add_extent_count = info->run_count;
        for (size_t i = 0; i < info->run_count; i++) {
                change->add_extents[i] = run_extent(&info->runs[i], 1);
                change->file_is_new[i] = true;
        }
}

static ls_err
commit(struct merge *m)
{
        ls_err e;

        fill_change(m);
        LS_TRY(lake_run_begin(m->p->s, INT64_MAX));
        e = lake_table_commit(m->p->s, &m->change);
        lake_run_end(m->p->s, e);
        return e;
}

static void
merge_done(struct merge *m)
{
        for (size_t i = 0; m->readers != NULL && i < m->count; i++)
                ls_rows_reader_close(m->readers[i]);
        ls_free(m->readers);
        ls_rows_writer_free(m->file.writer);
        ls_free(m->file.key);
        ls_free(m->pieces);
        ls_free(m->change.old_files);
        ls_free(m->change.add_extents);
        ls_free(m->change.file_is_new);
        ls_free(m->change.remove_extents);
}

static ls_err
merge_once(struct plan *p, struct candidate **files, size_t count)
{
        struct merge m = { .p = p, .files = files, .count = count };
        const char *key;
        ls_err e = copy(&m);

        if (e == LS_OK) {
                e = commit(&m); /* on failure it sees to the file itself */
        } else if (m.file.info != NULL) {
                key = m.file.key;
                if (ls_meta_garbage_add(p->s->lake->o.meta, &key, 1, lake_now_ms(p->s->lake)) !=
                    LS_OK)
                        ls_log_warn("lake", "event=garbage_not_noted topic=%s files=1",
                                    p->spec.kafka_name);
        }
        if (e == LS_OK) {
                ls_metric_add(&metric_merges, 1);
                ls_metric_add(&metric_merged, (int64_t)count);
                ls_metric_add(&metric_bytes, (int64_t)m.file.info->bytes);
        }
        merge_done(&m);
        return e;
}

/* Other brokers see the same files: whoever gets the lease merges them. *io_again: the lease was
 * free just now, so what the plan was made from may have changed hands; once is enough. */
static ls_err
claim(struct ls_lake_stream *s, bool *io_again)
{
        bool had = *io_again || lake_leased(s);
        ls_err e = lake_lease(s);

        *io_again = e == LS_OK && !had;
        return e;
}

/* Merges once, what is most worth it; LS_END: nothing is. */
static ls_err
merge_some(struct ls_lake_stream *s)
{
        bool again = false;
        ls_err e;

        do {
                struct plan p = { .s = s, .spec = lake_spec(s) };
                struct candidate *files[MERGE_FILES_MAX];
                size_t count = 0;

                ls_arena_init(&p.arena, (size_t)1 << 30);
                e = plan_make(&p);
                if (e == LS_OK && p.specs != NULL)
                        count = pick(&p, files);
                if (e == LS_OK)
                        e = count > 0 ? claim(s, &again) : LS_END;
                if (e == LS_OK && !again)
                        e = merge_once(&p, files, count);
                plan_done(&p);
        } while (e == LS_OK && again);
        return e;
}

/* --- all of it ------------------------------------------------------------------------------- */

/* Drops snapshots that are too old, and notes when the next one will be. */
static ls_err
expire(struct ls_lake_stream *s)
{
        struct ls_lake_spec spec = lake_spec(s);
        const struct lake_table *t;
        ls_err e;

        LS_TRY(lake_run_begin(s, INT64_MAX));
        e = lake_table_get(s, &t);
        if (e == LS_OK && lake_now_ms(s->lake) >= lake_expire_at(t, &spec)) {
                e = lake_lease(s);
                if (e == LS_OK)
                        e = lake_table_touch(s);
                if (e == LS_OK)
                        e = lake_table_get(s, &t);
        }
        if (e == LS_OK) {
                pthread_mutex_lock(&s->lock);
                s->next_expire_ms = lake_expire_at(t, &spec);
                pthread_mutex_unlock(&s->lock);
        }
        lake_run_end(s, lake_is_elsewhere(s->lake, e) ? LS_OK : e);
        return e;
}

/* It rises with every compaction, whoever makes it. (The merges of others are no work for us.) */
static int64_t
floors_sum(struct ls_lake_stream *s)
{
        int32_t partitions = s->lake->o.shared ? ls_wal_stream_partitions(s->wal) : 0;
        int64_t sum = 0;

        for (int32_t p = 0; p < partitions; p++) {
                struct ls_wal_view view;

                if (ls_wal_view(s->wal, p, &view) == LS_OK)
                        sum += view.floor;
        }
        return sum;
}

/* Nothing was committed since the last time, and no snapshot has grown old. */
static bool
is_idle(struct ls_lake_stream *s)
{
        struct ls_lake_spec spec = lake_spec(s);
        int64_t floor = floors_sum(s), now_ms = lake_now_ms(s->lake);
        bool idle;

        pthread_mutex_lock(&s->lock);
        idle = s->maintained && s->maintained_ms == s->last_commit_ms &&
               s->maintained_floor == floor && now_ms < s->next_expire_ms;
        pthread_mutex_unlock(&s->lock);
        return idle && spec.settings->ints[LS_SET_TABLE_RETENTION_MS] < 0;
}

static ls_err
maintain(struct ls_lake_stream *s)
{
        int64_t floor = floors_sum(s);
        ls_err e = lake_purge(s);

        for (int i = 0; i < MERGE_ROUNDS_MAX && e == LS_OK; i++)
                e = merge_some(s);
        if (e != LS_OK && e != LS_END)
                return e;
        LS_TRY(expire(s));
        pthread_mutex_lock(&s->lock);
        s->maintained = e == LS_END; /* there was no more to merge */
        s->maintained_ms = s->last_commit_ms;
        s->maintained_floor = floor;
        pthread_mutex_unlock(&s->lock);
        return LS_OK;
}

ls_err
lake_maintain(struct ls_lake_stream *s)
{
        ls_err e = LS_OK;

        if (atomic_exchange(&s->maintaining, true))
                return LS_OK;
        if (!is_idle(s))
                e = maintain(s);
        atomic_store(&s->maintaining, false);
        return e;
}
