/* formats/parquet/meta_put.c - metadata to Thrift, see meta.h. Field numbers are parquet.thrift's.
 * */
#include "base/assert.h"
#include "formats/parquet/meta.h"
#include "formats/parquet/thrift.h"

/* ConvertedType: what readers know that are older than LogicalType; -1: none. */
static int32_t
put_converted_type(const struct ls_col_type *t)
{
        switch (t->logical) {
        case LS_COL_STRING: return 0;
        case LS_COL_MAP: return 1;
        case LS_COL_LIST: return 3;
        case LS_COL_ENUM: return 4;
        case LS_COL_DECIMAL: return 5;
        case LS_COL_DATE: return 6;
        /* The old TIME and TIMESTAMP mean "adjusted to UTC": local ones have none (B048). */
        case LS_COL_TIME:
                return !t->utc || t->unit == LS_COL_NANOS ? -1 : t->unit == LS_COL_MILLIS ? 7 : 8;
        case LS_COL_TIMESTAMP:
                return !t->utc || t->unit == LS_COL_NANOS ? -1 : t->unit == LS_COL_MILLIS ? 9 : 10;
        case LS_COL_INT: {
                int32_t step = t->bits == 8 ? 0 : t->bits == 16 ? 1 : t->bits == 32 ? 2 : 3;

                return (t->is_signed ? 15 : 11) + step;
        }
        case LS_COL_JSON: return 19;
        case LS_COL_BSON: return 20;
        case LS_COL_ANY:
        case LS_COL_UUID:
        case LS_COL_FLOAT16: return -1;
        }
        return -1;
}

static void
put_time_type(struct ls_thrift_wr *w, int16_t id, const struct ls_col_type *t)
{
        ls_thrift_begin_struct(w, id);
        ls_thrift_put_bool(w, 1, t->utc);
        ls_thrift_begin_struct(w, 2);
        ls_thrift_put_empty(w, (int16_t)(t->unit == LS_COL_MILLIS   ? 1
                                         : t->unit == LS_COL_MICROS ? 2
                                                                    : 3));
        ls_thrift_end_struct(w);
        ls_thrift_end_struct(w);
}

static void
put_logical_type(struct ls_thrift_wr *w, const struct ls_col_type *t)
{
        if (t->logical == LS_COL_ANY)
                return;
        ls_thrift_begin_struct(w, 10);
        switch (t->logical) {
        case LS_COL_ANY: break;
        case LS_COL_STRING: ls_thrift_put_empty(w, 1); break;
        case LS_COL_MAP: ls_thrift_put_empty(w, 2); break;
        case LS_COL_LIST: ls_thrift_put_empty(w, 3); break;
        case LS_COL_ENUM: ls_thrift_put_empty(w, 4); break;
        case LS_COL_DECIMAL:
                ls_thrift_begin_struct(w, 5);
                ls_thrift_put_i32(w, 1, t->scale);
                ls_thrift_put_i32(w, 2, t->precision);
                ls_thrift_end_struct(w);
                break;
        case LS_COL_DATE: ls_thrift_put_empty(w, 6); break;
        case LS_COL_TIME: put_time_type(w, 7, t); break;
        case LS_COL_TIMESTAMP: put_time_type(w, 8, t); break;
        case LS_COL_INT:
                ls_thrift_begin_struct(w, 10);
                ls_thrift_put_i8(w, 1, (int8_t)t->bits);
                ls_thrift_put_bool(w, 2, t->is_signed);
                ls_thrift_end_struct(w);
                break;
        case LS_COL_JSON: ls_thrift_put_empty(w, 12); break;
        case LS_COL_BSON: ls_thrift_put_empty(w, 13); break;
        case LS_COL_UUID: ls_thrift_put_empty(w, 14); break;
        case LS_COL_FLOAT16: ls_thrift_put_empty(w, 15); break;
        }
        ls_thrift_end_struct(w);
}

static void
put_schema_element(struct ls_thrift_wr *w, const struct ls_schema_node *n, bool root)
{
        int32_t converted = put_converted_type(&n->type);

        ls_thrift_begin_item(w);
        if (!n->is_group) {
                ls_thrift_put_i32(w, 1, (int32_t)n->type.physical);
                if (n->type.physical == LS_COL_FIXED)
                        ls_thrift_put_i32(w, 2, (int32_t)n->type.fixed_bytes);
        }
        if (!root)
                ls_thrift_put_i32(w, 3, (int32_t)n->repetition);
        ls_thrift_put_str(w, 4, root ? LS_STR("table") : n->name);
        if (n->is_group)
                ls_thrift_put_i32(w, 5, (int32_t)n->child_count);
        if (converted >= 0)
                ls_thrift_put_i32(w, 6, converted);
        if (n->type.logical == LS_COL_DECIMAL) {
                ls_thrift_put_i32(w, 7, n->type.scale);
                ls_thrift_put_i32(w, 8, n->type.precision);
        }
        if (n->field_id != LS_FIELD_ID_NONE)
                ls_thrift_put_i32(w, 9, n->field_id);
        put_logical_type(w, &n->type);
        ls_thrift_end_item(w);
}

static void
put_statistics(struct ls_thrift_wr *w, int16_t id, const struct ls_pq_statistics *s)
{
        ls_thrift_begin_struct(w, id);
        if (s->null_count >= 0)
                ls_thrift_put_i64(w, 3, s->null_count);
        if (s->max.ptr != NULL)
                ls_thrift_put_binary(w, 5, s->max);
        if (s->min.ptr != NULL)
                ls_thrift_put_binary(w, 6, s->min);
        if (s->max.ptr != NULL && s->max_exact >= 0)
                ls_thrift_put_bool(w, 7, s->max_exact);
        if (s->min.ptr != NULL && s->min_exact >= 0)
                ls_thrift_put_bool(w, 8, s->min_exact);
        ls_thrift_end_struct(w);
}

static void
put_encodings(struct ls_thrift_wr *w, uint32_t encodings)
{
        ls_thrift_begin_list(w, 2, LS_THRIFT_I32, (uint32_t)__builtin_popcount(encodings));
        for (int i = 0; i < 32; i++) {
                if (encodings >> i & 1)
                        ls_thrift_item_int(w, i);
        }
}

/* The path of a leaf: names from below the root down. */
static void
put_path(struct ls_thrift_wr *w, const struct ls_schema *schema, uint32_t leaf)
{
        uint32_t path[LS_SCHEMA_DEPTH_MAX], depth = 0;

        for (uint32_t n = schema->leaves[leaf]; n != LS_SCHEMA_ROOT; n = schema->nodes[n].parent)
                path[depth++] = n;
        ls_thrift_begin_list(w, 3, LS_THRIFT_BINARY, depth);
        while (depth > 0) {
                ls_str name = schema->nodes[path[--depth]].name;

                ls_thrift_item_binary(w, (ls_span){ (const uint8_t *)name.ptr, name.len });
        }
}

static void
put_encoding_stats(struct ls_thrift_wr *w, const struct ls_pq_chunk *c)
{
        ls_thrift_begin_list(w, 13, LS_THRIFT_STRUCT, c->encoding_stats_count);
        for (uint32_t i = 0; i < c->encoding_stats_count; i++) {
                ls_thrift_begin_item(w);
                ls_thrift_put_i32(w, 1, c->encoding_stats[i].page_type);
                ls_thrift_put_i32(w, 2, c->encoding_stats[i].encoding);
                ls_thrift_put_i32(w, 3, c->encoding_stats[i].count);
                ls_thrift_end_item(w);
        }
}

static void
put_chunk_meta(struct ls_thrift_wr *w, const struct ls_schema *schema, uint32_t leaf,
               const struct ls_pq_chunk *c)
{
        ls_thrift_begin_struct(w, 3);
        ls_thrift_put_i32(w, 1, c->physical);
        put_encodings(w, c->encodings);
        put_path(w, schema, leaf);
        ls_thrift_put_i32(w, 4, c->codec);
        ls_thrift_put_i64(w, 5, c->values);
        ls_thrift_put_i64(w, 6, c->uncompressed_bytes);
        ls_thrift_put_i64(w, 7, c->compressed_bytes);
        ls_thrift_put_i64(w, 9, c->data_page_pos);
        if (c->dictionary_page_pos >= 0)
                ls_thrift_put_i64(w, 11, c->dictionary_page_pos);
        put_statistics(w, 12, &c->statistics);
        if (c->encoding_stats_count > 0)
                put_encoding_stats(w, c);
        if (c->bloom_pos >= 0) {
                ls_thrift_put_i64(w, 14, c->bloom_pos);
                ls_thrift_put_i32(w, 15, (int32_t)c->bloom_bytes);
        }
        ls_thrift_end_struct(w);
}

static void
put_chunk(struct ls_thrift_wr *w, const struct ls_schema *schema, uint32_t leaf,
          const struct ls_pq_chunk *c)
{
        ls_thrift_begin_item(w);
        ls_thrift_put_i64(w, 2, 0); /* file_offset: deprecated, 0 by the specification */
        put_chunk_meta(w, schema, leaf, c);
        if (c->offset_index_pos >= 0) {
                ls_thrift_put_i64(w, 4, c->offset_index_pos);
                ls_thrift_put_i32(w, 5, c->offset_index_bytes);
        }
        if (c->column_index_pos >= 0) {
                ls_thrift_put_i64(w, 6, c->column_index_pos);
                ls_thrift_put_i32(w, 7, c->column_index_bytes);
        }
        ls_thrift_end_item(w);
}

static void
put_row_group(struct ls_thrift_wr *w, const struct ls_schema *schema,
              const struct ls_pq_row_group *g, uint32_t ordinal)
{
        ls_thrift_begin_item(w);
        ls_thrift_begin_list(w, 1, LS_THRIFT_STRUCT, g->chunk_count);
        for (uint32_t i = 0; i < g->chunk_count; i++)
                put_chunk(w, schema, i, &g->chunks[i]);
        ls_thrift_put_i64(w, 2, g->bytes);
        ls_thrift_put_i64(w, 3, g->rows);
        if (g->sorted_count > 0) {
                ls_thrift_begin_list(w, 4, LS_THRIFT_STRUCT, g->sorted_count);
                for (uint32_t i = 0; i < g->sorted_count; i++) {
                        ls_thrift_begin_item(w);
                        ls_thrift_put_i32(w, 1, (int32_t)g->sorted_leaves[i]);
                        ls_thrift_put_bool(w, 2, false); /* descending */
                        ls_thrift_put_bool(w, 3, true);  /* nulls first */
                        ls_thrift_end_item(w);
                }
        }
        ls_thrift_put_i64(w, 5, g->pos);
        ls_thrift_put_i64(w, 6, g->compressed_bytes);
        if (ordinal <= INT16_MAX)
                ls_thrift_put_i16(w, 7, (int16_t)ordinal);
        ls_thrift_end_item(w);
}

static void
put_kvs(struct ls_thrift_wr *w, const struct ls_pq_meta *meta)
{
        if (meta->kv_count == 0)
                return;
        ls_thrift_begin_list(w, 5, LS_THRIFT_STRUCT, meta->kv_count);
        for (uint32_t i = 0; i < meta->kv_count; i++) {
                ls_thrift_begin_item(w);
                ls_thrift_put_str(w, 1, meta->kvs[i].key);
                if (meta->kvs[i].value.ptr != NULL)
                        ls_thrift_put_str(w, 2, meta->kvs[i].value);
                ls_thrift_end_item(w);
        }
}

void
ls_pq_put_meta(struct ls_buf *out, const struct ls_schema *schema, const struct ls_pq_meta *meta)
{
        struct ls_thrift_wr w;

        ls_thrift_wr_init(&w, out);
        ls_thrift_put_i32(&w, 1, meta->version);
        ls_thrift_begin_list(&w, 2, LS_THRIFT_STRUCT, schema->node_count);
        for (uint32_t i = 0; i < schema->node_count; i++)
                put_schema_element(&w, &schema->nodes[i], i == LS_SCHEMA_ROOT);
        ls_thrift_put_i64(&w, 3, meta->rows);
        ls_thrift_begin_list(&w, 4, LS_THRIFT_STRUCT, meta->row_group_count);
        for (uint32_t i = 0; i < meta->row_group_count; i++)
                put_row_group(&w, schema, &meta->row_groups[i], i);
        put_kvs(&w, meta);
        ls_thrift_put_str(&w, 6, meta->created_by);
        ls_thrift_begin_list(&w, 7, LS_THRIFT_STRUCT, schema->leaf_count);
        for (uint32_t i = 0; i < schema->leaf_count; i++) {
                ls_thrift_begin_item(&w);
                ls_thrift_put_empty(&w, 1); /* TypeDefinedOrder */
                ls_thrift_end_item(&w);
        }
        ls_thrift_wr_stop(&w);
}

void
ls_pq_put_page_header(struct ls_buf *out, const struct ls_pq_page_header *h)
{
        struct ls_thrift_wr w;

        LS_ASSERT(h->type == LS_PQ_DATA_PAGE || h->type == LS_PQ_DICTIONARY_PAGE);
        ls_thrift_wr_init(&w, out);
        ls_thrift_put_i32(&w, 1, h->type);
        ls_thrift_put_i32(&w, 2, h->uncompressed_bytes);
        ls_thrift_put_i32(&w, 3, h->compressed_bytes);
        if (h->has_crc)
                ls_thrift_put_i32(&w, 4, (int32_t)h->crc);
        ls_thrift_begin_struct(&w, h->type == LS_PQ_DATA_PAGE ? 5 : 7);
        ls_thrift_put_i32(&w, 1, h->values);
        ls_thrift_put_i32(&w, 2, h->encoding);
        if (h->type == LS_PQ_DATA_PAGE) {
                ls_thrift_put_i32(&w, 3, LS_PARQUET_RLE);
                ls_thrift_put_i32(&w, 4, LS_PARQUET_RLE);
        }
        ls_thrift_end_struct(&w);
        ls_thrift_wr_stop(&w);
}

void
ls_pq_put_offset_index(struct ls_buf *out, const struct ls_pq_offset_index *index)
{
        struct ls_thrift_wr w;

        ls_thrift_wr_init(&w, out);
        ls_thrift_begin_list(&w, 1, LS_THRIFT_STRUCT, index->page_count);
        for (uint32_t i = 0; i < index->page_count; i++) {
                ls_thrift_begin_item(&w);
                ls_thrift_put_i64(&w, 1, index->pages[i].pos);
                ls_thrift_put_i32(&w, 2, index->pages[i].bytes);
                ls_thrift_put_i64(&w, 3, index->pages[i].first_row);
                ls_thrift_end_item(&w);
        }
        ls_thrift_wr_stop(&w);
}

void
ls_pq_put_column_index(struct ls_buf *out, const struct ls_pq_column_index *index)
{
        struct ls_thrift_wr w;

        ls_thrift_wr_init(&w, out);
        ls_thrift_begin_list(&w, 1, LS_THRIFT_TRUE, index->page_count);
        for (uint32_t i = 0; i < index->page_count; i++)
                ls_thrift_item_bool(&w, index->null_pages[i]);
        ls_thrift_begin_list(&w, 2, LS_THRIFT_BINARY, index->page_count);
        for (uint32_t i = 0; i < index->page_count; i++)
                ls_thrift_item_binary(&w, index->min[i]);
        ls_thrift_begin_list(&w, 3, LS_THRIFT_BINARY, index->page_count);
        for (uint32_t i = 0; i < index->page_count; i++)
                ls_thrift_item_binary(&w, index->max[i]);
        ls_thrift_put_i32(&w, 4, index->boundary_order);
        ls_thrift_begin_list(&w, 5, LS_THRIFT_I64, index->page_count);
        for (uint32_t i = 0; i < index->page_count; i++)
                ls_thrift_item_int(&w, index->null_counts[i]);
        ls_thrift_wr_stop(&w);
}

void
ls_pq_put_bloom_header(struct ls_buf *out, uint32_t bytes)
{
        struct ls_thrift_wr w;

        ls_thrift_wr_init(&w, out);
        ls_thrift_put_i32(&w, 1, (int32_t)bytes);
        for (int16_t id = 2; id <= 4; id++) { /* algorithm BLOCK, hash XXHASH, UNCOMPRESSED */
                ls_thrift_begin_struct(&w, id);
                ls_thrift_put_empty(&w, 1);
                ls_thrift_end_struct(&w);
        }
        ls_thrift_wr_stop(&w);
}
