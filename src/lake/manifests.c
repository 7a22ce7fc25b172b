/* lake/manifests.c - the manifests of a commit.
 *
 * Added files stand as ADDED in a new manifest. A manifest that names a removed file is written
 * anew: what is live stays as EXISTING with its numbers, what goes is DELETED. Small manifests are
 * gathered into one when there are enough, so that a table of many commits is planned from few
 * objects. All entries that a commit writes are collected first and then written out by partition
 * spec.
 */
#include "base/assert.h"
#include "base/map.h"
#include "formats/iceberg/limits.h"
#include "lake/rows.h"
#include "lake/table_int.h"

#define MANIFEST_BYTES_MAX       ((size_t)8 << 20)  /* a new one is begun above */
#define MANIFEST_SMALL_BYTES     ((int64_t)1 << 20) /* below: gathered with others */
#define MANIFEST_SMALL_MAX       32                 /* so many small ones are gathered */
#define MANIFEST_ARENA_BYTES_MAX ((size_t)1 << 30)

struct pending {
        int32_t spec_id;
        struct ls_iceberg_entry entry;
};
struct build {
        struct lake_commit *c;
        struct ls_arena arena; /* what the entries point to */
        struct pending *entries;
        size_t count, cap;
        struct ls_map removed; /* keys of data files that go -> the change's old file */
        size_t removed_left;
};

static void
push(struct build *b, int32_t spec_id, const struct ls_iceberg_entry *e)
{
        struct pending p = { spec_id, *e };

        LS_PUSH(b->entries, b->count, b->cap, p);
}

/* --- what is there already --- */

/* Takes the live entries of a manifest; those of removed files are marked. */
static void
take_entries(struct build *b, const struct ls_iceberg_manifest *m, int32_t spec_id)
{
        struct lake_commit *c = b->c;

        for (size_t i = 0; i < m->count; i++) {
                struct ls_iceberg_entry e = m->entries[i];
                LS_AUTO(ls_free) char *key = lake_uri_key(&c->spec, e.file.path);

                if (e.status == LS_ICEBERG_DELETED)
                        continue;
                e.status = LS_ICEBERG_EXISTING;
                if (key != NULL &&
                    ls_map_remove(&b->removed, ls_map_key_str(ls_str_of(key))) != NULL) {
                        e.status = LS_ICEBERG_DELETED;
                        e.snapshot_id = c->snapshot_id;
                        c->delta.deleted_files++;
                        c->delta.deleted_rows += e.file.record_count;
                        c->delta.deleted_bytes += e.file.file_bytes;
                        b->removed_left--;
                }
                push(b, spec_id, &e);
        }
}

static bool
names_removed(struct build *b, const struct ls_iceberg_manifest *m)
{
        for (size_t i = 0; i < m->count; i++) {
                LS_AUTO(ls_free) char *key = lake_uri_key(&b->c->spec, m->entries[i].file.path);

                if (m->entries[i].status != LS_ICEBERG_DELETED && key != NULL &&
                    ls_map_get(&b->removed, ls_map_key_str(ls_str_of(key))) != NULL)
                        return true;
        }
        return false;
}

static void
keep_line(struct lake_commit *c, const struct ls_iceberg_manifest_file *line)
{
        LS_PUSH(c->lines, c->line_count, c->line_cap, *line);
}

/* From the newest manifest to the oldest, as long as removed files are not found. */
static ls_err
take_lines(struct build *b)
{
        struct lake_commit *c = b->c;
        size_t small = 0;
        bool gather;

        for (size_t i = 0; i < c->t->line_count; i++)
                small += c->t->lines[i].bytes < MANIFEST_SMALL_BYTES;
        gather = small >= MANIFEST_SMALL_MAX;
        for (size_t i = c->t->line_count; i > 0; i--) {
                const struct ls_iceberg_manifest_file *line = &c->t->lines[i - 1];
                bool wanted = gather && line->bytes < MANIFEST_SMALL_BYTES;
                struct ls_iceberg_manifest m;

                if (line->added_files + line->existing_files == 0)
                        continue; /* nothing live in it any more */
                if (!wanted && b->removed_left == 0) {
                        keep_line(c, line);
                        continue;
                }
                LS_TRY(lake_manifest_get(c->s, line, &b->arena, &m));
                if (wanted || names_removed(b, &m))
                        take_entries(b, &m, (int32_t)line->spec_id);
                else
                        keep_line(c, line);
        }
        if (b->removed_left > 0) /* another broker took a file out, or our own metadata is wrong */
                return c->s->lake->o.shared ? LS_CONFLICT : LS_EBROKEN;
        return LS_OK;
}

/* --- added files --- */

static bool
in_list(int32_t field_id)
{
        return field_id == LS_ROWS_FIELD_HEADER || field_id == LS_ROWS_FIELD_HEADER_KEY ||
               field_id == LS_ROWS_FIELD_HEADER_VALUE;
}

struct metrics {
        struct ls_iceberg_count *sizes, *values, *nulls;
        struct ls_iceberg_bound *lower, *upper;
        size_t count, lower_count, upper_count;
};

/* A bound as the file has it, cut to what manifests hold. Columns inside lists have none. */
static void
add_bounds(struct build *b, struct metrics *m, const struct ls_rows_column *column)
{
        const struct ls_iceberg_field *f = ls_iceberg_field_by_id(&lake_columns, column->field_id);
        struct ls_iceberg_value v;

        if (f == NULL || in_list(column->field_id))
                return;
        if (column->min.ptr != NULL && ls_iceberg_value_get(&f->type, column->min, &v) == LS_OK &&
            ls_iceberg_bound_lower(&f->type, &v, &b->arena, &m->lower[m->lower_count].value))
                m->lower[m->lower_count++].field_id = column->field_id;
        if (column->max.ptr != NULL && ls_iceberg_value_get(&f->type, column->max, &v) == LS_OK &&
            ls_iceberg_bound_upper(&f->type, &v, &b->arena, &m->upper[m->upper_count].value))
                m->upper[m->upper_count++].field_id = column->field_id;
}

static ls_err
add_metrics(struct build *b, const struct ls_rows_file *info, struct ls_iceberg_data_file *f)
{
        struct metrics m = {
                .sizes = ls_arena_array(&b->arena, info->column_count + 1, sizeof *m.sizes),
                .values = ls_arena_array(&b->arena, info->column_count + 1, sizeof *m.values),
                .nulls = ls_arena_array(&b->arena, info->column_count + 1, sizeof *m.nulls),
                .lower = ls_arena_array(&b->arena, info->column_count + 1, sizeof *m.lower),
                .upper = ls_arena_array(&b->arena, info->column_count + 1, sizeof *m.upper),
        };

        if (m.sizes == NULL || m.values == NULL || m.nulls == NULL || m.lower == NULL ||
            m.upper == NULL)
                return LS_ELIMIT;
        for (size_t i = 0; i < info->column_count; i++) {
                const struct ls_rows_column *column = &info->columns[i];

                m.sizes[m.count] =
                        (struct ls_iceberg_count){ column->field_id, column->column_bytes };
                m.values[m.count] = (struct ls_iceberg_count){ column->field_id, column->values };
                m.nulls[m.count] = (struct ls_iceberg_count){ column->field_id, column->nulls };
                m.count++;
                add_bounds(b, &m, column);
        }
        f->column_sizes = (struct ls_iceberg_counts){ m.sizes, m.count };
        f->value_counts = (struct ls_iceberg_counts){ m.values, m.count };
        f->null_counts = (struct ls_iceberg_counts){ m.nulls, m.count };
        f->lower_bounds = (struct ls_iceberg_bounds){ m.lower, m.lower_count };
        f->upper_bounds = (struct ls_iceberg_bounds){ m.upper, m.upper_count };
        if (info->split_count > 0)
                f->split_offsets =
                        (struct ls_iceberg_longs){ info->split_offsets, info->split_count };
        return LS_OK;
}

static ls_err
add_file(struct build *b, const struct lake_new_file *file)
{
        struct lake_commit *c = b->c;
        struct ls_iceberg_entry e = { .status = LS_ICEBERG_ADDED,
                                      .snapshot_id = c->snapshot_id,
                                      .sequence_number = LS_ICEBERG_NONE,
                                      .file_sequence_number = LS_ICEBERG_NONE };

        LS_ASSERT(file->info != NULL);
        ls_iceberg_data_file_init(&e.file);
        LS_TRY(lake_uri(c, file->key, &e.file.path));
        e.file.format = LS_STR("PARQUET");
        e.file.partition = file->tuple;
        e.file.record_count = file->info->rows;
        e.file.file_bytes = (int64_t)file->info->bytes;
        e.file.sort_order_id = lake_sort_order.order_id;
        LS_TRY(add_metrics(b, file->info, &e.file));
        c->delta.added_files++;
        c->delta.added_rows += e.file.record_count;
        c->delta.added_bytes += e.file.file_bytes;
        push(b, c->files_spec->spec_id, &e);
        return LS_OK;
}

/* --- writing --- */

/* Writes entries of one spec from *at on, until a manifest is full or they end. */
static ls_err
write_some(struct build *b, const struct ls_iceberg_spec *spec, size_t *at, struct ls_buf *bytes,
           struct ls_iceberg_manifest_file *ret_line)
{
        struct lake_commit *c = b->c;
        LS_AUTO(ls_iceberg_manifest_free) struct ls_iceberg_manifest_writer *w = NULL;
        struct ls_iceberg_manifest_options o = {
                .format_version = 2,
                .content = LS_ICEBERG_DATA,
                .schema = ls_iceberg_metadata_schema(&c->m, c->m.current_schema_id),
                .spec = spec,
                .snapshot_id = c->snapshot_id,
                .codec = LS_AVRO_CODEC_DEFLATE,
        };

        LS_TRY(ls_iceberg_manifest_new(bytes, &o, &w));
        for (; *at < b->count && bytes->len < MANIFEST_BYTES_MAX; ++*at)
                if (b->entries[*at].spec_id == spec->spec_id)
                        LS_TRY(ls_iceberg_manifest_add(w, &b->entries[*at].entry));
        return ls_iceberg_manifest_finish(w, &c->arena, ret_line);
}

static ls_err
write_spec(struct build *b, const struct ls_iceberg_spec *spec)
{
        struct lake_commit *c = b->c;
        size_t at = 0;

        for (;;) {
                struct ls_iceberg_manifest_file line;
                struct ls_buf bytes;
                char *key;
                ls_err e;

                while (at < b->count && b->entries[at].spec_id != spec->spec_id)
                        at++;
                if (at == b->count)
                        return LS_OK;
                ls_buf_init(&bytes, LS_BUF_MAX_DEFAULT);
                e = write_some(b, spec, &at, &bytes, &line);
                if (e > 0)
                        e = LS_EINTERNAL; /* what we made ourselves does not fit its own tables */
                if (e == LS_OK) {
                        key = lake_key(&c->spec, "metadata/%llu-%016llx-m%u.avro",
                                       (unsigned long long)ls_meta_broker_epoch(c->s->lake->o.meta),
                                       (unsigned long long)c->random, c->number++);
                        e = lake_uri(c, key, &line.path);
                        if (e == LS_OK)
                                e = lake_commit_put(c, key, &bytes);
                        else
                                ls_free(key);
                }
                ls_buf_done(&bytes);
                LS_TRY(e);
                keep_line(c, &line);
        }
}

static ls_err
build_all(struct build *b)
{
        struct lake_commit *c = b->c;

        for (size_t i = 0; i < c->change->old_file_count; i++) {
                struct lake_old_file *old = &c->change->old_files[i];

                ls_map_set(&b->removed, ls_map_key_str(ls_str_of(old->key)), old);
        }
        b->removed_left = b->removed.count;
        LS_TRY(take_lines(b));
        for (size_t i = 0; i < c->change->file_count; i++)
                LS_TRY(add_file(b, &c->change->files[i]));
        for (size_t i = 0; i < c->m.spec_count; i++)
                LS_TRY(write_spec(b, &c->m.specs[i]));
        return LS_OK;
}

/* Newest last, as they were; the new ones stand behind. */
static void
lines_in_order(struct lake_commit *c, size_t kept)
{
        for (size_t i = 0; i < kept / 2; i++) {
                struct ls_iceberg_manifest_file line = c->lines[i];

                c->lines[i] = c->lines[kept - 1 - i];
                c->lines[kept - 1 - i] = line;
        }
}

ls_err
lake_manifests_build(struct lake_commit *c)
{
        struct build b = { .c = c };
        ls_err e;

        ls_arena_init(&b.arena, MANIFEST_ARENA_BYTES_MAX);
        ls_map_init(&b.removed);
        e = build_all(&b);
        if (e == LS_OK)
                lines_in_order(c, c->line_count - c->number);
        ls_map_done(&b.removed);
        ls_free(b.entries);
        ls_arena_done(&b.arena);
        return e;
}
