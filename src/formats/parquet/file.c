/* formats/parquet/file.c - footer, statistics, page index and bloom filters of a file; see
 * reader.h.
 *
 * Open reads the last FILE_TAIL_BYTES in one request, which holds the whole footer, and often the
 * page index, of all but large files. What scans rely on later is checked here once: each chunk
 * lies inside the file, types match the schema, row counts add up.
 */
#include "base/assert.h"
#include "formats/parquet/bloom.h"
#include "formats/parquet/file_int.h"
#include "formats/parquet/stats.h"

#define FILE_TAIL_BYTES         ((uint64_t)64 << 10)
#define FILE_END_BYTES          8 /* footer length and magic */
#define FILE_LEAST_BYTES        12
#define FILE_INDEX_BYTES_MAX    ((uint64_t)64 << 20) /* one chunk's index */
#define FILE_BLOOM_BYTES_MAX    ((uint64_t)128 << 20)
#define FILE_BLOOM_HEADER_BYTES 64

ls_err
ls_pq_file_read(const struct ls_parquet_file *f, uint64_t pos, uint64_t bytes,
                struct ls_slice **ret_bytes)
{
        struct ls_slice *got = NULL;

        if (bytes > f->source.bytes || pos > f->source.bytes - bytes)
                return LS_CORRUPT;
        if (bytes == 0) { /* not worth asking for, and stores may read 0 as "all" */
                *ret_bytes = ls_slice_new(1);
                if (*ret_bytes == NULL)
                        return LS_ELIMIT;
                (*ret_bytes)->len = 0;
                return LS_OK;
        }
        if (f->tail != NULL && pos >= f->tail_pos) {
                *ret_bytes = ls_slice_view(f->tail, pos - f->tail_pos, bytes);
                return LS_OK;
        }
        LS_TRY(f->source.read(f->source.ctx, pos, bytes, &got));
        LS_ASSERT(got != NULL && got->len == bytes);
        *ret_bytes = got;
        return LS_OK;
}

uint64_t
ls_pq_chunk_start(const struct ls_pq_chunk *c)
{
        if (c->dictionary_page_pos > 0 && c->dictionary_page_pos < c->data_page_pos)
                return (uint64_t)c->dictionary_page_pos;
        return (uint64_t)c->data_page_pos;
}

static bool
file_chunk_inside(const struct ls_parquet_file *f, const struct ls_pq_chunk *c)
{
        uint64_t start;

        if (c->data_page_pos < 4 || c->compressed_bytes < 0 || c->uncompressed_bytes < 0)
                return false;
        start = ls_pq_chunk_start(c);
        return start < f->source.bytes && (uint64_t)c->compressed_bytes <= f->source.bytes - start;
}

static ls_err
file_check_chunk(const struct ls_parquet_file *f, const struct ls_pq_row_group *g, uint32_t leaf,
                 struct ls_errinfo *reterr)
{
        const struct ls_pq_chunk *c = &g->chunks[leaf];
        const struct ls_schema_node *n = ls_schema_leaf(&f->schema, leaf);

        if (c->encrypted)
                return ls_fail(reterr, LS_UNSUPPORTED, "parquet: column \"%.*s\" is encrypted",
                               LS_STR_ARG(n->name));
        if (c->foreign_file)
                return ls_fail(reterr, LS_UNSUPPORTED,
                               "parquet: column \"%.*s\" is in another file", LS_STR_ARG(n->name));
        if (c->physical != (int32_t)n->type.physical || c->values < g->rows ||
            (n->max_rep == 0 && c->values != g->rows))
                return ls_fail(reterr, LS_CORRUPT,
                               "parquet: column \"%.*s\" contradicts the schema",
                               LS_STR_ARG(n->name));
        if (!file_chunk_inside(f, c))
                return ls_fail(reterr, LS_CORRUPT,
                               "parquet: column \"%.*s\" lies outside of the file",
                               LS_STR_ARG(n->name));
        return LS_OK;
}

static ls_err
file_check(struct ls_parquet_file *f, struct ls_errinfo *reterr)
{
        uint64_t rows = 0, chunks;

        f->first_rows = ls_arena_array(&f->arena, f->meta.row_group_count, sizeof *f->first_rows);
        chunks = (uint64_t)f->meta.row_group_count * f->schema.leaf_count;
        f->indexes = ls_arena_array(&f->arena, chunks, sizeof *f->indexes);
        if (f->first_rows == NULL || f->indexes == NULL)
                return ls_fail(reterr, LS_TOO_LARGE, "parquet: the footer is too large");
        for (uint32_t i = 0; i < f->meta.row_group_count; i++) {
                const struct ls_pq_row_group *g = &f->meta.row_groups[i];

                if (g->rows < 0 || g->chunk_count != f->schema.leaf_count)
                        return ls_fail(reterr, LS_CORRUPT,
                                       "parquet: row group %u contradicts the schema", i);
                f->first_rows[i] = rows;
                if (__builtin_add_overflow(rows, (uint64_t)g->rows, &rows))
                        return ls_fail(reterr, LS_CORRUPT, "parquet: row counts overflow");
                for (uint32_t leaf = 0; leaf < g->chunk_count; leaf++)
                        LS_TRY(file_check_chunk(f, g, leaf, reterr));
        }
        if (rows != (uint64_t)f->meta.rows)
                return ls_fail(reterr, LS_CORRUPT, "parquet: row counts do not add up");
        return LS_OK;
}

/* Reads the tail and finds the footer in it. */
static ls_err
file_read_footer(struct ls_parquet_file *f, ls_span *ret_footer, struct ls_errinfo *reterr)
{
        uint64_t tail = LS_MIN(f->source.bytes, FILE_TAIL_BYTES), footer;
        struct ls_slice *got = NULL;
        const uint8_t *end;

        if (f->source.bytes < FILE_LEAST_BYTES)
                return ls_fail(reterr, LS_CORRUPT, "parquet: the file is too short");
        LS_TRY(ls_pq_file_read(f, f->source.bytes - tail, tail, &got));
        f->tail = got;
        f->tail_pos = f->source.bytes - tail;
        end = got->ptr + got->len;
        if (memcmp(end - 4, "PARE", 4) == 0)
                return ls_fail(reterr, LS_UNSUPPORTED, "parquet: the footer is encrypted");
        if (memcmp(end - 4, "PAR1", 4) != 0)
                return ls_fail(reterr, LS_CORRUPT, "parquet: not a Parquet file");
        footer = ls_get_le32(end - FILE_END_BYTES);
        if (footer > f->source.bytes - FILE_LEAST_BYTES)
                return ls_fail(reterr, LS_CORRUPT, "parquet: the footer is longer than the file");
        if (footer > f->limits.footer_bytes)
                return ls_fail(reterr, LS_TOO_LARGE, "parquet: the footer is too large");
        if (footer + FILE_END_BYTES > tail) {
                tail = footer + FILE_END_BYTES;
                ls_slice_unref(f->tail);
                f->tail = NULL;
                LS_TRY(ls_pq_file_read(f, f->source.bytes - tail, tail, &got));
                f->tail = got;
                f->tail_pos = f->source.bytes - tail;
        }
        *ret_footer = ls_span_of(f->tail->ptr + f->tail->len - FILE_END_BYTES - footer, footer);
        return LS_OK;
}

static ls_err
file_load(struct ls_parquet_file *f, struct ls_errinfo *reterr)
{
        ls_span footer;

        LS_TRY(file_read_footer(f, &footer, reterr));
        LS_TRY(ls_pq_get_meta(footer, &f->arena, &f->schema, &f->meta, reterr));
        return file_check(f, reterr);
}

ls_err
ls_parquet_file_open(const struct ls_parquet_source *source, const struct ls_parquet_limits *limits,
                     struct ls_errinfo *reterr, struct ls_parquet_file **ret_file)
{
        struct ls_parquet_file *f = ls_calloc(1, sizeof *f);
        ls_err e;

        f->source = *source;
        if (limits != NULL)
                f->limits = *limits;
        if (f->limits.footer_bytes == 0)
                f->limits.footer_bytes = LS_PARQUET_FOOTER_BYTES_MAX;
        if (f->limits.metadata_bytes == 0)
                f->limits.metadata_bytes = LS_PARQUET_METADATA_BYTES_MAX;
        if (f->limits.page_bytes == 0)
                f->limits.page_bytes = LS_PARQUET_PAGE_BYTES_MAX;
        ls_arena_init(&f->arena, f->limits.metadata_bytes);
        ls_schema_init(&f->schema);
        e = file_load(f, reterr);
        if (e != LS_OK) {
                ls_parquet_file_close(f);
                return e;
        }
        *ret_file = f;
        return LS_OK;
}

void
ls_parquet_file_close(struct ls_parquet_file *f)
{
        if (f == NULL)
                return;
        for (size_t i = 0; i < f->held_count; i++)
                ls_slice_unref(f->held[i]);
        ls_free(f->held);
        ls_slice_unref(f->tail);
        ls_schema_done(&f->schema);
        ls_arena_done(&f->arena);
        ls_free(f);
}

const struct ls_schema *
ls_parquet_file_schema(const struct ls_parquet_file *f)
{
        return &f->schema;
}

uint64_t
ls_parquet_file_rows(const struct ls_parquet_file *f)
{
        return (uint64_t)f->meta.rows;
}

uint32_t
ls_parquet_file_row_groups(const struct ls_parquet_file *f)
{
        return f->meta.row_group_count;
}

ls_str
ls_parquet_file_created_by(const struct ls_parquet_file *f)
{
        return f->meta.created_by;
}

bool
ls_parquet_file_kv(const struct ls_parquet_file *f, ls_str key, ls_str *ret_value)
{
        for (uint32_t i = 0; i < f->meta.kv_count; i++) {
                if (ls_str_eq(f->meta.kvs[i].key, key)) {
                        *ret_value = f->meta.kvs[i].value;
                        return true;
                }
        }
        return false;
}

void
ls_parquet_file_row_group(const struct ls_parquet_file *f, uint32_t row_group,
                          struct ls_parquet_row_group *ret_info)
{
        const struct ls_pq_row_group *g;

        LS_ASSERT(row_group < f->meta.row_group_count);
        g = &f->meta.row_groups[row_group];
        *ret_info = (struct ls_parquet_row_group){ .rows = (uint64_t)g->rows,
                                                   .first_row = f->first_rows[row_group],
                                                   .pos = UINT64_MAX };
        for (uint32_t i = 0; i < g->chunk_count; i++) {
                ret_info->pos = LS_MIN(ret_info->pos, ls_pq_chunk_start(&g->chunks[i]));
                ret_info->bytes += (uint64_t)g->chunks[i].compressed_bytes;
        }
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* A bound as it may be believed: right size; no NaN; zeros made the outer ones. */
static ls_span
file_bound(ls_span s, enum ls_stats_order order, uint32_t value_bytes, bool upper)
{
        static const uint8_t zeros[8] = { 0 };
        static const uint8_t negative_float[4] = { 0, 0, 0, 0x80 };
        static const uint8_t negative_double[8] = { 0, 0, 0, 0, 0, 0, 0, 0x80 };

        if (s.ptr == NULL || order == LS_STATS_NONE)
                return LS_SPAN_NULL;
        if (order == LS_STATS_BYTES || order == LS_STATS_BIG_ENDIAN)
                return s;
        if (s.len != value_bytes)
                return LS_SPAN_NULL;
        if (order == LS_STATS_FLOAT || order == LS_STATS_DOUBLE) {
                ls_span zero = { zeros, value_bytes };

                if (ls_stats_is_nan(order, s))
                        return LS_SPAN_NULL;
                if (ls_stats_compare(order, s, zero) == 0)
                        return upper ? zero
                                     : ls_span_of(order == LS_STATS_FLOAT ? negative_float
                                                                          : negative_double,
                                                  value_bytes);
        }
        return s;
}

void
ls_parquet_file_bounds(const struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf,
                       struct ls_parquet_bounds *b)
{
        const struct ls_col_type *type = &ls_schema_leaf(&f->schema, leaf)->type;
        enum ls_stats_order order = ls_stats_order(type);
        const struct ls_pq_statistics *s;
        bool is_signed = order == LS_STATS_SIGNED32 || order == LS_STATS_SIGNED64 ||
                         order == LS_STATS_FLOAT || order == LS_STATS_DOUBLE;
        ls_span min, max;

        LS_ASSERT(row_group < f->meta.row_group_count);
        s = &f->meta.row_groups[row_group].chunks[leaf].statistics;
        min = s->min;
        max = s->max;
        if (!f->meta.typed_order) /* without an order, only the old pair and only signed is clear */
                min = max = LS_SPAN_NULL;
        if (min.ptr == NULL && max.ptr == NULL && is_signed) {
                min = s->old_min;
                max = s->old_max;
        }
        b->nulls = s->null_count;
        b->min = file_bound(min, order, ls_col_value_bytes(type), false);
        b->max = file_bound(max, order, ls_col_value_bytes(type), true);
        b->min_exact = b->min.ptr != NULL && s->min_exact == 1;
        b->max_exact = b->max.ptr != NULL && s->max_exact == 1;
}

/* --- page index ------------------------------------------------------------------------------- */

/* Pages must follow each other inside the chunk and name ascending rows from 0. */
static bool
file_offsets_sound(const struct ls_parquet_file *f, const struct ls_pq_row_group *g, uint32_t leaf,
                   const struct ls_pq_offset_index *x)
{
        const struct ls_pq_chunk *c = &g->chunks[leaf];
        uint64_t pos = ls_pq_chunk_start(c), end = pos + (uint64_t)c->compressed_bytes;
        int64_t row = -1;

        LS_ASSERT(end <= f->source.bytes);
        if (x->page_count == 0)
                return g->rows == 0;
        for (uint32_t i = 0; i < x->page_count; i++) {
                const struct ls_pq_page_location *p = &x->pages[i];

                if (p->bytes <= 0 || p->pos < 0 || (uint64_t)p->pos < pos ||
                    (uint64_t)p->pos > end || (uint64_t)p->bytes > end - (uint64_t)p->pos)
                        return false;
                if (p->first_row <= row || p->first_row >= g->rows || (i == 0 && p->first_row != 0))
                        return false;
                pos = (uint64_t)p->pos + (uint64_t)p->bytes;
                row = p->first_row;
        }
        return true;
}

/* Reads index bytes, which stay until the file is closed. */
static ls_err
file_read_index(struct ls_parquet_file *f, int64_t pos, int32_t bytes, ls_span *ret_bytes)
{
        struct ls_slice *got = NULL;

        if (pos < 0 || bytes <= 0 || (uint64_t)bytes > FILE_INDEX_BYTES_MAX)
                return LS_CORRUPT;
        LS_TRY(ls_pq_file_read(f, (uint64_t)pos, (uint64_t)bytes, &got));
        LS_PUSH(f->held, f->held_count, f->held_cap, got);
        *ret_bytes = ls_slice_span(got);
        return LS_OK;
}

ls_err
ls_parquet_file_load_index(struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf)
{
        const struct ls_pq_row_group *g = &f->meta.row_groups[row_group];
        const struct ls_pq_chunk *c = &g->chunks[leaf];
        struct ls_pq_chunk_index *x = ls_pq_file_index(f, row_group, leaf), fresh = { 0 };
        ls_span bytes;

        LS_ASSERT(row_group < f->meta.row_group_count && leaf < f->schema.leaf_count);
        if (x->loaded)
                return LS_OK;
        if (c->offset_index_pos < 0)
                return LS_ABSENT;
        LS_TRY(file_read_index(f, c->offset_index_pos, c->offset_index_bytes, &bytes));
        LS_TRY(ls_pq_get_offset_index(bytes, &f->arena, &fresh.offsets));
        if (!file_offsets_sound(f, g, leaf, &fresh.offsets))
                return LS_CORRUPT;
        if (c->column_index_pos >= 0) {
                LS_TRY(file_read_index(f, c->column_index_pos, c->column_index_bytes, &bytes));
                LS_TRY(ls_pq_get_column_index(bytes, &f->arena, &fresh.bounds));
                if (fresh.bounds.page_count != fresh.offsets.page_count)
                        return LS_CORRUPT;
        }
        *x = fresh;
        x->loaded = true;
        return LS_OK;
}

uint32_t
ls_parquet_file_pages(const struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf)
{
        return ls_pq_file_index(f, row_group, leaf)->offsets.page_count;
}

void
ls_parquet_file_page(const struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf,
                     uint32_t page, struct ls_parquet_page *p)
{
        const struct ls_pq_chunk_index *x = ls_pq_file_index(f, row_group, leaf);
        const struct ls_col_type *type = &ls_schema_leaf(&f->schema, leaf)->type;
        enum ls_stats_order order = ls_stats_order(type);
        uint32_t value_bytes = ls_col_value_bytes(type);
        int64_t end = f->meta.row_groups[row_group].rows;

        LS_ASSERT(x->loaded && page < x->offsets.page_count);
        if (page + 1 < x->offsets.page_count)
                end = x->offsets.pages[page + 1].first_row;
        *p = (struct ls_parquet_page){
                .pos = (uint64_t)x->offsets.pages[page].pos,
                .bytes = (uint32_t)x->offsets.pages[page].bytes,
                .first_row = (uint64_t)x->offsets.pages[page].first_row,
                .rows = (uint64_t)(end - x->offsets.pages[page].first_row),
                .bounds.nulls = -1,
        };
        if (x->bounds.page_count == 0)
                return;
        p->only_nulls = x->bounds.null_pages[page];
        if (x->bounds.null_counts != NULL)
                p->bounds.nulls = x->bounds.null_counts[page];
        if (p->only_nulls)
                return;
        p->bounds.min = file_bound(x->bounds.min[page], order, value_bytes, false);
        p->bounds.max = file_bound(x->bounds.max[page], order, value_bytes, true);
}

ls_err
ls_parquet_file_bloom(struct ls_parquet_file *f, uint32_t row_group, uint32_t leaf, ls_span value,
                      bool *ret_maybe)
{
        const struct ls_pq_chunk *c;
        LS_AUTO(ls_slice_unref) struct ls_slice *head = NULL;
        LS_AUTO(ls_slice_unref) struct ls_slice *bits = NULL;
        struct ls_rd r;
        uint32_t bytes;
        uint64_t pos, room;

        LS_ASSERT(row_group < f->meta.row_group_count && leaf < f->schema.leaf_count);
        c = &f->meta.row_groups[row_group].chunks[leaf];
        if (c->bloom_pos < 0)
                return LS_ABSENT;
        pos = (uint64_t)c->bloom_pos;
        if (pos >= f->source.bytes)
                return LS_CORRUPT;
        room = f->source.bytes - pos;
        LS_TRY(ls_pq_file_read(f, pos, LS_MIN(room, FILE_BLOOM_HEADER_BYTES), &head));
        r = ls_rd_of(ls_slice_span(head));
        LS_TRY(ls_pq_get_bloom_header(&r, &bytes));
        pos += (uint64_t)(r.pos - head->ptr);
        if (bytes > FILE_BLOOM_BYTES_MAX)
                return LS_TOO_LARGE;
        LS_TRY(ls_pq_file_read(f, pos, bytes, &bits));
        *ret_maybe = ls_bloom_maybe(bits->ptr, bytes, ls_bloom_hash(value));
        return LS_OK;
}
