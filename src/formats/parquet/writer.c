/* formats/parquet/writer.c - see writer.h.
 *
 *      "PAR1"
 *      row group: chunk of leaf 0 (dictionary page, data pages), chunk of leaf 1, ...
 *                 bloom filters of the row group
 *      ...
 *      column indexes, offset indexes
 *      footer (FileMetaData), its length (le32), "PAR1"
 */
#include "formats/parquet/writer.h"

#include "base/assert.h"
#include "formats/parquet/bloom.h"
#include "formats/parquet/writer_int.h"

#define WRITER_MAGIC "PAR1"

ls_err
ls_pq_writer_append(struct ls_parquet_writer *w, ls_span bytes)
{
        LS_TRY(w->sink.append(w->sink.ctx, bytes));
        w->pos += bytes.len;
        return LS_OK;
}

/* Takes over the options, with every default filled in. */
static void
writer_set_options(struct ls_parquet_writer *w, const struct ls_parquet_writer_options *o)
{
        struct ls_parquet_writer_options *to = &w->options;
        uint32_t leaves = w->schema->leaf_count;

        *to = o ? *o : (struct ls_parquet_writer_options){ .codec = LS_PARQUET_ZSTD };
        to->level = to->level ? to->level : LS_PARQUET_ZSTD_LEVEL;
        to->encodings = to->encodings ? to->encodings : LS_PARQUET_ENCODINGS_COMMON;
        to->page_bytes = to->page_bytes ? to->page_bytes : LS_PARQUET_PAGE_BYTES;
        to->page_rows = to->page_rows ? to->page_rows : LS_PARQUET_PAGE_ROWS;
        to->bound_bytes = to->bound_bytes ? to->bound_bytes : LS_PARQUET_BOUND_BYTES;
        LS_ASSERT(to->bound_bytes <= LS_STATS_BYTES_MAX);
        w->columns = ls_calloc(leaves, sizeof *w->columns);
        for (uint32_t i = 0; i < leaves; i++) {
                struct ls_parquet_column_options *c = &w->columns[i];

                if (o != NULL && o->columns != NULL)
                        *c = o->columns[i];
                c->encodings = c->encodings ? c->encodings : to->encodings;
                c->page_bytes = c->page_bytes ? c->page_bytes : to->page_bytes;
                c->bloom_bytes_max =
                        c->bloom_bytes_max ? c->bloom_bytes_max : LS_PARQUET_BLOOM_BYTES;
        }
        w->sorted_leaves = ls_calloc(to->sorted_count, sizeof *w->sorted_leaves);
        if (to->sorted_count > 0)
                memcpy(w->sorted_leaves, to->sorted_leaves,
                       to->sorted_count * sizeof *w->sorted_leaves);
        to->sorted_leaves = w->sorted_leaves;
        to->columns = w->columns;
}

ls_err
ls_parquet_writer_new(const struct ls_schema *schema,
                      const struct ls_parquet_writer_options *options, struct ls_parquet_sink sink,
                      struct ls_parquet_writer **ret_writer)
{
        struct ls_parquet_writer *w;
        ls_err e;

        LS_ASSERT(schema->sealed);
        w = ls_calloc(1, sizeof *w);
        w->schema = schema;
        w->sink = sink;
        writer_set_options(w, options);
        ls_buf_init(&w->body, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&w->packed, LS_BUF_MAX_DEFAULT * 2);
        ls_buf_init(&w->header, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&w->sample_plain, LS_BUF_MAX_DEFAULT);
        ls_buf_init(&w->sample_packed, LS_BUF_MAX_DEFAULT);
        ls_arena_init(&w->arena, SIZE_MAX / 2);
        w->totals = ls_calloc(schema->leaf_count, sizeof *w->totals);
        w->column_infos = ls_calloc(schema->leaf_count, sizeof *w->column_infos);
        for (uint32_t i = 0; i < schema->leaf_count; i++)
                w->column_infos[i].field_id = ls_schema_leaf(schema, i)->field_id;
        e = ls_pq_writer_append(w, ls_span_of(WRITER_MAGIC, 4));
        if (e != LS_OK) {
                ls_parquet_writer_free(w);
                return e;
        }
        *ret_writer = w;
        return LS_OK;
}

void
ls_parquet_writer_free(struct ls_parquet_writer *w)
{
        if (w == NULL)
                return;
        ls_pq_codec_done(&w->codec);
        ls_pq_dict_done(&w->dict);
        ls_vec_done(&w->sample);
        ls_buf_done(&w->body);
        ls_buf_done(&w->packed);
        ls_buf_done(&w->header);
        ls_buf_done(&w->sample_plain);
        ls_buf_done(&w->sample_packed);
        for (size_t i = 0; i < w->row_group_count; i++)
                ls_free(w->row_groups[i].chunks);
        for (size_t i = 0; i < w->index_count; i++)
                ls_free(w->indexes[i].pages);
        for (size_t i = 0; i < w->kv_count; i++) {
                ls_free((char *)w->kvs[i].key.ptr);
                ls_free((char *)w->kvs[i].value.ptr);
        }
        ls_arena_done(&w->arena);
        ls_free(w->row_groups);
        ls_free(w->indexes);
        ls_free(w->kvs);
        ls_free(w->columns);
        ls_free(w->sorted_leaves);
        ls_free(w->totals);
        ls_free(w->column_infos);
        ls_free(w->row_group_infos);
        ls_free(w);
}

/* A bloom filter over all values of a chunk, behind the row group's pages. */
static ls_err
writer_bloom(struct ls_parquet_writer *w, uint32_t leaf, const struct ls_vec *v,
             struct ls_pq_chunk *chunk)
{
        uint32_t bytes = ls_bloom_bytes(v->count, w->columns[leaf].bloom_bytes_max);
        uint8_t *bits;

        if (v->count == 0 || v->type.physical == LS_COL_BOOL)
                return LS_OK;
        ls_buf_clear(&w->header);
        ls_pq_put_bloom_header(&w->header, bytes);
        bits = ls_buf_add(&w->header, bytes);
        LS_ASSERT(bits != NULL);
        memset(bits, 0, bytes);
        for (size_t i = 0; i < v->count; i++)
                ls_bloom_add(bits, bytes, ls_bloom_hash_value(v, i));
        chunk->bloom_pos = (int64_t)w->pos;
        chunk->bloom_bytes = (int64_t)w->header.len;
        return ls_pq_writer_append(w, ls_buf_span(&w->header));
}

static void
writer_count_chunk(struct ls_parquet_writer *w, uint32_t leaf, const struct ls_vec *v,
                   struct ls_pq_row_group *g)
{
        const struct ls_pq_chunk *c = &g->chunks[leaf];
        struct ls_parquet_column_info *info = &w->column_infos[leaf];

        g->bytes += c->uncompressed_bytes;
        g->compressed_bytes += c->compressed_bytes;
        info->compressed_bytes += (uint64_t)c->compressed_bytes;
        info->plain_bytes += ls_vec_plain_bytes(v);
        info->slots += v->slots;
}

ls_err
ls_parquet_writer_row_group(struct ls_parquet_writer *w, const struct ls_columns *columns)
{
        uint32_t leaves = w->schema->leaf_count;
        size_t rows = ls_columns_rows(columns), first_index = w->index_count;
        struct ls_pq_row_group *g;

        LS_ASSERT(!w->finished);
        LS_ASSERT(columns->schema == w->schema);
        if (rows == 0)
                return LS_OK;
        LS_PUSH(w->row_groups, w->row_group_count, w->row_group_cap,
                ((struct ls_pq_row_group){ .rows = (int64_t)rows,
                                           .pos = (int64_t)w->pos,
                                           .chunk_count = leaves,
                                           .sorted_leaves = w->sorted_leaves,
                                           .sorted_count = w->options.sorted_count }));
        g = &w->row_groups[w->row_group_count - 1];
        g->chunks = ls_calloc(leaves, sizeof *g->chunks);
        for (uint32_t i = 0; i < leaves; i++)
                LS_PUSH(w->indexes, w->index_count, w->index_cap, (struct ls_pq_index){ 0 });
        for (uint32_t i = 0; i < leaves; i++) {
                LS_TRY(ls_pq_chunk_write(w, i, &columns->vecs[i], &g->chunks[i],
                                         &w->indexes[first_index + i]));
                writer_count_chunk(w, i, &columns->vecs[i], g);
        }
        for (uint32_t i = 0; i < leaves; i++) {
                if (w->columns[i].bloom)
                        LS_TRY(writer_bloom(w, i, &columns->vecs[i], &g->chunks[i]));
        }
        LS_PUSH(w->row_group_infos, w->info.row_group_count, w->row_group_info_cap,
                ((struct ls_parquet_row_group_info){ .pos = (uint64_t)g->pos,
                                                     .rows = rows,
                                                     .bytes = (uint64_t)g->compressed_bytes }));
        w->info.rows += rows;
        return LS_OK;
}

void
ls_parquet_writer_kv(struct ls_parquet_writer *w, ls_str key, ls_str value)
{
        struct ls_parquet_kv kv = { { ls_str_dup(key), key.len },
                                    { ls_str_dup(value), value.len } };

        LS_ASSERT(!w->finished && key.ptr != NULL);
        LS_PUSH(w->kvs, w->kv_count, w->kv_cap, kv);
}

uint64_t
ls_parquet_writer_bytes(const struct ls_parquet_writer *w)
{
        return w->pos;
}

/* Ascending, descending or neither, over the pages that are not all null. */
static int32_t
writer_boundary_order(const struct ls_pq_index *x, enum ls_stats_order order)
{
        const struct ls_pq_index_page *before = NULL;
        bool up = true, down = true;

        for (size_t i = 0; i < x->count; i++) {
                const struct ls_pq_index_page *p = &x->pages[i];

                if (p->only_nulls)
                        continue;
                if (before != NULL) {
                        int min = ls_stats_compare(order, before->min, p->min);
                        int max = ls_stats_compare(order, before->max, p->max);

                        up &= min <= 0 && max <= 0;
                        down &= min >= 0 && max >= 0;
                }
                before = p;
        }
        return up ? LS_PQ_ASCENDING : down ? LS_PQ_DESCENDING : LS_PQ_UNORDERED;
}

/* A column index needs bounds for each page with values: else the chunk gets none, since a reader
 * would skip pages by bounds that are not there. */
static bool
writer_index_bounded(const struct ls_pq_index *x)
{
        for (size_t i = 0; i < x->count; i++) {
                if (!x->pages[i].only_nulls && (!x->pages[i].has_min || !x->pages[i].has_max))
                        return false;
        }
        return true;
}

static ls_err
writer_column_index(struct ls_parquet_writer *w, const struct ls_pq_index *x,
                    struct ls_pq_chunk *chunk, const struct ls_col_type *type)
{
        struct ls_pq_column_index out = { .page_count = (uint32_t)x->count };
        struct ls_arena arena;
        ls_err e;

        if (!writer_index_bounded(x))
                return LS_OK;
        ls_arena_init(&arena, SIZE_MAX / 2);
        out.null_pages = ls_arena_array(&arena, x->count, sizeof *out.null_pages);
        out.min = ls_arena_array(&arena, x->count, sizeof *out.min);
        out.max = ls_arena_array(&arena, x->count, sizeof *out.max);
        out.null_counts = ls_arena_array(&arena, x->count, sizeof *out.null_counts);
        for (size_t i = 0; i < x->count; i++) {
                out.null_pages[i] = x->pages[i].only_nulls;
                out.min[i] = x->pages[i].min;
                out.max[i] = x->pages[i].max;
                out.null_counts[i] = (int64_t)x->pages[i].nulls;
        }
        out.boundary_order = writer_boundary_order(x, ls_stats_order(type));
        ls_buf_clear(&w->header);
        ls_pq_put_column_index(&w->header, &out);
        ls_arena_done(&arena);
        chunk->column_index_pos = (int64_t)w->pos;
        chunk->column_index_bytes = (int32_t)w->header.len;
        e = ls_pq_writer_append(w, ls_buf_span(&w->header));
        return e;
}

static ls_err
writer_offset_index(struct ls_parquet_writer *w, const struct ls_pq_index *x,
                    struct ls_pq_chunk *chunk)
{
        struct ls_pq_offset_index out = { .page_count = (uint32_t)x->count };

        out.pages = ls_calloc(x->count, sizeof *out.pages);
        for (size_t i = 0; i < x->count; i++)
                out.pages[i] = x->pages[i].location;
        ls_buf_clear(&w->header);
        ls_pq_put_offset_index(&w->header, &out);
        ls_free(out.pages);
        chunk->offset_index_pos = (int64_t)w->pos;
        chunk->offset_index_bytes = (int32_t)w->header.len;
        return ls_pq_writer_append(w, ls_buf_span(&w->header));
}

static ls_err
writer_indexes(struct ls_parquet_writer *w)
{
        uint32_t leaves = w->schema->leaf_count;

        for (size_t i = 0; i < w->index_count; i++)
                LS_TRY(writer_column_index(
                        w, &w->indexes[i], &w->row_groups[i / leaves].chunks[i % leaves],
                        &ls_schema_leaf(w->schema, (uint32_t)(i % leaves))->type));
        for (size_t i = 0; i < w->index_count; i++)
                LS_TRY(writer_offset_index(w, &w->indexes[i],
                                           &w->row_groups[i / leaves].chunks[i % leaves]));
        return LS_OK;
}

static void
writer_set_info(struct ls_parquet_writer *w)
{
        for (uint32_t i = 0; i < w->schema->leaf_count; i++) {
                struct ls_parquet_column_info *c = &w->column_infos[i];
                const struct ls_stats *s = &w->totals[i];

                c->nulls = s->nulls;
                c->nans = s->nans;
                c->min = s->has_min ? ls_span_of(s->min, s->min_len) : LS_SPAN_NULL;
                c->max = s->has_max ? ls_span_of(s->max, s->max_len) : LS_SPAN_NULL;
                c->min_exact = s->has_min && s->min_exact;
                c->max_exact = s->has_max && s->max_exact;
        }
        w->info.bytes = w->pos;
        w->info.row_groups = w->row_group_infos;
        w->info.columns = w->column_infos;
        w->info.column_count = w->schema->leaf_count;
}

ls_err
ls_parquet_writer_finish(struct ls_parquet_writer *w)
{
        bool common = (w->options.encodings & ~LS_PARQUET_ENCODINGS_COMMON) == 0;
        struct ls_pq_meta meta;

        LS_ASSERT(!w->finished);
        LS_TRY(writer_indexes(w));
        meta = (struct ls_pq_meta){
                .version = common ? 1 : 2,
                .rows = (int64_t)w->info.rows,
                .row_groups = w->row_groups,
                .row_group_count = (uint32_t)w->row_group_count,
                .kvs = w->kvs,
                .kv_count = (uint32_t)w->kv_count,
                .created_by = LS_STR("lakestream version " LS_VERSION),
        };
        ls_buf_clear(&w->header);
        ls_pq_put_meta(&w->header, w->schema, &meta);
        if (ls_buf_failed(&w->header) || w->header.len > INT32_MAX)
                return LS_TOO_LARGE;
        ls_buf_put_le32(&w->header, (uint32_t)w->header.len);
        ls_buf_put(&w->header, WRITER_MAGIC, 4);
        LS_TRY(ls_pq_writer_append(w, ls_buf_span(&w->header)));
        writer_set_info(w);
        w->finished = true;
        return LS_OK;
}

const struct ls_parquet_file_info *
ls_parquet_writer_info(const struct ls_parquet_writer *w)
{
        LS_ASSERT(w->finished);
        return &w->info;
}
