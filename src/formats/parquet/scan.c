/* formats/parquet/scan.c - rows of a range of a row group as vectors; see reader.h.
 *
 * Every column goes at its own pace through its own pages. A batch ends where a page of a flat byte
 * string column ends, so that the memory a batch holds on to is about a page a column, whatever
 * number of rows the caller would take.
 */
#include "base/assert.h"
#include "formats/parquet/file_int.h"

struct ls_parquet_scan {
        struct ls_parquet_file *file;
        struct ls_pq_codec codec;
        struct ls_pq_column *columns;
        struct ls_vec *vecs;
        uint32_t count;
        uint64_t rows_left;
        ls_err failed; /* what every later call gives, once something went wrong */
        struct ls_errinfo error;
};

static ls_err
scan_fail(struct ls_parquet_scan *s, const struct ls_pq_column *c, ls_err e)
{
        s->failed = e;
        return ls_fail(&s->error, e, "parquet: column \"%.*s\": %s", LS_STR_ARG(c->node->name),
                       c->error ? c->error : ls_err_text(e));
}

static ls_err
scan_open_column(struct ls_parquet_scan *s, struct ls_pq_column *c, struct ls_vec *v,
                 uint32_t row_group, uint32_t leaf, uint64_t first_row)
{
        uint64_t skip;
        ls_err e = ls_parquet_file_load_index(s->file, row_group, leaf);

        ls_vec_init(v, ls_schema_leaf(&s->file->schema, leaf));
        if (e != LS_OK && e != LS_ABSENT)
                return e;
        LS_TRY(ls_pq_column_open(c, s->file, row_group, leaf, &s->codec, first_row, s->rows_left,
                                 &skip));
        while (skip > 0) {
                size_t n = LS_MIN(skip, (uint64_t)1 << 30);

                LS_TRY(ls_pq_column_take(c, n, NULL));
                skip -= n;
        }
        return LS_OK;
}

ls_err
ls_parquet_scan_open(struct ls_parquet_file *f, uint32_t row_group, uint64_t first_row,
                     uint64_t rows, const uint32_t *leaves, uint32_t leaf_count,
                     struct ls_parquet_scan **ret_scan)
{
        struct ls_parquet_scan *s;
        uint64_t all;

        LS_ASSERT(row_group < f->meta.row_group_count);
        all = (uint64_t)f->meta.row_groups[row_group].rows;
        first_row = LS_MIN(first_row, all);
        s = ls_calloc(1, sizeof *s);
        s->file = f;
        s->count = leaves ? leaf_count : f->schema.leaf_count;
        s->rows_left = LS_MIN(rows, all - first_row);
        s->columns = ls_calloc(s->count, sizeof *s->columns);
        s->vecs = ls_calloc(s->count, sizeof *s->vecs);
        LS_ASSERT(s->count > 0);
        for (uint32_t i = 0; i < s->count; i++) {
                uint32_t leaf = leaves ? leaves[i] : i;
                ls_err e;

                LS_ASSERT(leaf < f->schema.leaf_count);
                e = scan_open_column(s, &s->columns[i], &s->vecs[i], row_group, leaf, first_row);
                if (e != LS_OK) {
                        ls_parquet_scan_close(s);
                        return e;
                }
        }
        *ret_scan = s;
        return LS_OK;
}

void
ls_parquet_scan_close(struct ls_parquet_scan *s)
{
        if (s == NULL)
                return;
        for (uint32_t i = 0; i < s->count; i++) {
                ls_pq_column_done(&s->columns[i]);
                ls_vec_done(&s->vecs[i]);
        }
        ls_pq_codec_done(&s->codec);
        ls_free(s->columns);
        ls_free(s->vecs);
        ls_free(s);
}

/* Cuts `rows` to what the pages at hand of flat byte strings hold. */
static ls_err
scan_bound_rows(struct ls_parquet_scan *s, size_t *rows)
{
        for (uint32_t i = 0; i < s->count; i++) {
                struct ls_pq_column *c = &s->columns[i];
                ls_err e;

                if (c->node->max_rep > 0 || c->node->type.physical != LS_COL_BYTES)
                        continue;
                e = ls_pq_column_fill(c);
                if (e == LS_END) {
                        c->error = "a column has too few rows";
                        e = LS_CORRUPT;
                }
                if (e != LS_OK)
                        return scan_fail(s, c, e);
                *rows = LS_MIN(*rows, c->page.slots - c->page.slot);
        }
        return LS_OK;
}

ls_err
ls_parquet_scan_next(struct ls_parquet_scan *s, size_t rows_max, const struct ls_vec **ret_vecs,
                     size_t *ret_rows)
{
        size_t rows = LS_MIN(rows_max, LS_MIN(s->rows_left, LS_VEC_SLOTS_MAX / 2));

        LS_ASSERT(rows_max > 0);
        if (s->failed != LS_OK)
                return s->failed;
        if (s->rows_left == 0)
                return LS_END;
        for (uint32_t i = 0; i < s->count; i++)
                ls_vec_clear(&s->vecs[i]);
        LS_TRY(scan_bound_rows(s, &rows));
        for (uint32_t i = 0; i < s->count; i++) {
                ls_err e = ls_pq_column_take(&s->columns[i], rows, &s->vecs[i]);

                if (e != LS_OK)
                        return scan_fail(s, &s->columns[i], e);
                LS_ASSERT(s->vecs[i].rows == rows);
        }
        s->rows_left -= rows;
        *ret_vecs = s->vecs;
        *ret_rows = rows;
        return LS_OK;
}

const struct ls_errinfo *
ls_parquet_scan_error(const struct ls_parquet_scan *s)
{
        return &s->error;
}
