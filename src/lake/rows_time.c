/* lake/rows_time.c - times in the rows of a file: the first record at or after a time, the first
 * with the greatest one; see rows.h.
 *
 * The page index of the timestamp column says which pages can matter; only those of three small
 * columns (partition, offset, timestamp) are read. Bounds of integers are exact, so a page that
 * lies inside the extent and behind `from` need not be read to know its greatest time.
 */
#include "base/assert.h"
#include "lake/rows_int.h"

#define TIME_ROWS 4096

/* Part of a row group's rows, with what is known about their times. */
struct time_page {
        uint32_t row_group;
        uint64_t first, rows; /* in the row group */
        bool bounded;         /* max is the greatest time, in microseconds */
        bool inside;          /* all rows belong to the extent */
        int64_t max;
        int64_t offset_max; /* no row has a higher offset */
};

/* Gets each record's offset and time, in order; false ends the walk. */
typedef bool (*time_fn)(void *ctx, int64_t offset, int64_t micros);

static ls_err
time_scan(struct ls_rows_reader *r, const struct ls_meta_extent *x, const struct time_page *p,
          time_fn fn, void *ctx, bool *ret_ended)
{
        const uint32_t leaves[] = { r->leaves[ROWS_PARTITION], r->leaves[ROWS_OFFSET],
                                    r->leaves[ROWS_TIMESTAMP] };
        struct ls_parquet_scan *scan;
        const struct ls_vec *vecs;
        size_t rows;
        ls_err e = ls_parquet_scan_open(r->file, p->row_group, p->first, p->rows, leaves,
                                        LS_COUNT(leaves), &scan);

        *ret_ended = false;
        if (e != LS_OK)
                return e;
        while (!*ret_ended && (e = ls_parquet_scan_next(scan, TIME_ROWS, &vecs, &rows)) == LS_OK) {
                for (size_t i = 0; i < rows && !*ret_ended; i++) {
                        if (vecs[0].i32[i] != x->partition)
                                e = LS_CORRUPT;
                        *ret_ended = e != LS_OK || !fn(ctx, vecs[1].i64[i], vecs[2].i64[i]);
                }
        }
        ls_parquet_scan_close(scan);
        return e == LS_END ? LS_OK : e;
}

/* Cuts page [first, first + rows) of a group to the extent; false: nothing is left. */
static bool
time_cut(const struct ls_meta_extent *x, const struct ls_parquet_row_group *g, struct time_page *p)
{
        uint64_t low = LS_MAX(g->first_row + p->first, (uint64_t)x->first_row);
        uint64_t high = LS_MIN(g->first_row + p->first + p->rows,
                               (uint64_t)x->first_row + (uint64_t)x->rows);

        if (low >= high)
                return false;
        p->inside = high - low == p->rows;
        p->first = low - g->first_row;
        p->rows = high - low;
        /* each row behind the page takes an offset of its own */
        p->offset_max = x->end_offset - 1 - (x->first_row + x->rows - (int64_t)high);
        return true;
}

/* Page number `i` of the walk over a group: its time pages, or all of it when it has no index. */
static bool
time_page_get(const struct ls_rows_reader *r, uint32_t row_group, bool indexed, uint32_t i,
              const struct ls_parquet_row_group *g, struct time_page *ret)
{
        uint32_t leaf = r->leaves[ROWS_TIMESTAMP];
        struct ls_parquet_page page;

        *ret = (struct time_page){ .row_group = row_group, .rows = g->rows };
        if (!indexed)
                return i == 0;
        if (i >= ls_parquet_file_pages(r->file, row_group, leaf))
                return false;
        ls_parquet_file_page(r->file, row_group, leaf, i, &page);
        ret->first = page.first_row;
        ret->rows = page.rows;
        ret->bounded = page.bounds.max.ptr != NULL;
        if (ret->bounded)
                ret->max = (int64_t)ls_get_le64(page.bounds.max.ptr);
        return true;
}

/* Calls fn for each page with rows of the extent, in order. */
static ls_err
time_pages(struct ls_rows_reader *r, const struct ls_meta_extent *x,
           ls_err (*fn)(void *ctx, const struct time_page *page), void *ctx)
{
        uint32_t leaf = r->leaves[ROWS_TIMESTAMP];

        if (x->first_row < 0 || x->rows < 0)
                return LS_CORRUPT;
        for (uint32_t n = 0; n < ls_parquet_file_row_groups(r->file); n++) {
                struct ls_parquet_row_group g;
                struct time_page p;
                ls_err e;

                ls_parquet_file_row_group(r->file, n, &g);
                if (g.first_row + g.rows <= (uint64_t)x->first_row ||
                    g.first_row >= (uint64_t)x->first_row + (uint64_t)x->rows)
                        continue;
                e = ls_parquet_file_load_index(r->file, n, leaf);
                if (e != LS_OK && e != LS_ABSENT)
                        return e;
                for (uint32_t i = 0; time_page_get(r, n, e == LS_OK, i, &g, &p); i++) {
                        if (time_cut(x, &g, &p))
                                LS_TRY(fn(ctx, &p));
                }
        }
        return LS_OK;
}

struct time_find {
        struct ls_rows_reader *r;
        const struct ls_meta_extent *x;
        int64_t from, wanted; /* microseconds */
        int64_t best;         /* find_max_time: greatest so far */
        int64_t known;        /* find_max_time: the greatest of pages that need not be read */
        int64_t offset, micros;
        bool found;
};

static bool
time_first(void *ctx, int64_t offset, int64_t micros)
{
        struct time_find *f = ctx;

        if (offset < f->from || micros < f->wanted)
                return true;
        f->offset = offset;
        f->micros = micros;
        f->found = true;
        return false;
}

static ls_err
time_first_page(void *ctx, const struct time_page *p)
{
        struct time_find *f = ctx;
        bool ended;

        if (p->offset_max < f->from || (p->bounded && p->max < f->wanted))
                return LS_OK;
        LS_TRY(time_scan(f->r, f->x, p, time_first, f, &ended));
        return f->found ? LS_END : LS_OK;
}

ls_err
ls_rows_find_time(struct ls_rows_reader *r, const struct ls_meta_extent *extent, int64_t from,
                  int64_t timestamp_ms, int64_t *ret_offset, int64_t *ret_timestamp_ms)
{
        struct time_find f = { .r = r, .x = extent, .from = from };
        ls_err e;

        if (timestamp_ms > LS_TIMESTAMP_MS_MAX)
                return LS_END;
        f.wanted = LS_MAX(timestamp_ms, -LS_TIMESTAMP_MS_MAX) * 1000;
        e = time_pages(r, extent, time_first_page, &f);
        if (e != LS_OK && e != LS_END)
                return rows_reader_error(r, e, "its times cannot be read");
        if (!f.found)
                return LS_END;
        *ret_offset = f.offset;
        *ret_timestamp_ms = f.micros / 1000;
        return LS_OK;
}

/* First pass: the greatest time that is sure without reading rows. */
static ls_err
time_known_page(void *ctx, const struct time_page *p)
{
        struct time_find *f = ctx;

        if (p->bounded && p->inside && f->from <= f->x->base_offset)
                f->known = LS_MAX(f->known, p->max);
        return LS_OK;
}

static bool
time_greatest(void *ctx, int64_t offset, int64_t micros)
{
        struct time_find *f = ctx;

        if (offset >= f->from && (!f->found || micros > f->best)) {
                f->best = f->micros = micros;
                f->offset = offset;
                f->found = true;
        }
        return true;
}

/* Second pass: a page that stays below what is known, or does not pass the best, is not read. */
static ls_err
time_greatest_page(void *ctx, const struct time_page *p)
{
        struct time_find *f = ctx;
        bool ended;

        if (p->offset_max < f->from)
                return LS_OK;
        if (p->bounded && (p->max < f->known || (f->found && p->max <= f->best)))
                return LS_OK;
        return time_scan(f->r, f->x, p, time_greatest, f, &ended);
}

ls_err
ls_rows_find_max_time(struct ls_rows_reader *r, const struct ls_meta_extent *extent, int64_t from,
                      int64_t *ret_offset, int64_t *ret_timestamp_ms)
{
        struct time_find f = { .r = r, .x = extent, .from = from, .known = INT64_MIN };
        ls_err e = time_pages(r, extent, time_known_page, &f);

        if (e == LS_OK)
                e = time_pages(r, extent, time_greatest_page, &f);
        if (e != LS_OK)
                return rows_reader_error(r, e, "its times cannot be read");
        if (!f.found)
                return LS_END;
        *ret_offset = f.offset;
        *ret_timestamp_ms = f.micros / 1000;
        return LS_OK;
}
