/* formats/parquet/meta_get.c - Thrift to metadata, see meta.h. Everything here is suspect: counts
 * are bounded by the bytes they come in and by the arena, unknown fields are skipped, and what a
 * reader would rely on (types, shapes, positions) is checked here or in file.c. */
#include "base/assert.h"
#include "base/mem.h"
#include "formats/parquet/meta.h"
#include "formats/parquet/thrift.h"

/* An array in the arena for a list just begun; NULL also marks the reader failed. */
static void *
get_array(struct ls_thrift_rd *r, struct ls_arena *arena, uint32_t count, size_t bytes, bool *full)
{
        void *p = ls_arena_array(arena, count, bytes);

        if (p == NULL) {
                *full = true;
                r->rd.failed = true;
        }
        return p;
}

/* --- schema ----------------------------------------------------------------------------------- */

struct get_element {
        struct ls_col_type type;
        bool has_type, has_children, has_logical;
        int32_t repetition, children, converted, field_id;
        ls_span name;
};

static void
get_time_type(struct ls_thrift_rd *r, const struct ls_thrift_field *at, struct ls_col_type *t)
{
        if (!ls_thrift_in(r, at))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                if (f.id == 1) {
                        t->utc = ls_thrift_bool(r, &f);
                } else if (f.id == 2 && ls_thrift_in(r, &f)) {
                        for (struct ls_thrift_field u = { 0 }; ls_thrift_next(r, &u);) {
                                t->unit = u.id == 1   ? LS_COL_MILLIS
                                          : u.id == 2 ? LS_COL_MICROS
                                                      : LS_COL_NANOS;
                                ls_thrift_skip(r, &u);
                        }
                        ls_thrift_out(r);
                } else {
                        ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

/* Decimal (scale, precision) and int (bits, signed) types. */
static void
get_number_type(struct ls_thrift_rd *r, const struct ls_thrift_field *at, struct ls_col_type *t)
{
        if (!ls_thrift_in(r, at))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                if (t->logical == LS_COL_DECIMAL && f.id == 1)
                        t->scale = ls_thrift_i32(r, &f);
                else if (t->logical == LS_COL_DECIMAL && f.id == 2)
                        t->precision = ls_thrift_i32(r, &f);
                else if (t->logical == LS_COL_INT && f.id == 1)
                        t->bits = (uint8_t)ls_thrift_i32(r, &f);
                else if (t->logical == LS_COL_INT && f.id == 2)
                        t->is_signed = ls_thrift_bool(r, &f);
                else
                        ls_thrift_skip(r, &f);
        }
        ls_thrift_out(r);
}

static void
get_logical_type(struct ls_thrift_rd *r, const struct ls_thrift_field *at, struct get_element *e)
{
        static const enum ls_col_logical plain[] = {
                [1] = LS_COL_STRING, [2] = LS_COL_MAP,   [3] = LS_COL_LIST,
                [4] = LS_COL_ENUM,   [6] = LS_COL_DATE,  [12] = LS_COL_JSON,
                [13] = LS_COL_BSON,  [14] = LS_COL_UUID, [15] = LS_COL_FLOAT16,
        };

        if (!ls_thrift_in(r, at))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                e->has_logical = true;
                if (f.id == 7 || f.id == 8) {
                        e->type.logical = f.id == 7 ? LS_COL_TIME : LS_COL_TIMESTAMP;
                        get_time_type(r, &f, &e->type);
                } else if (f.id == 5 || f.id == 10) {
                        e->type.logical = f.id == 5 ? LS_COL_DECIMAL : LS_COL_INT;
                        get_number_type(r, &f, &e->type);
                } else {
                        if (f.id > 0 && (size_t)f.id < LS_COUNT(plain))
                                e->type.logical = plain[f.id];
                        ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

static void
get_element(struct ls_thrift_rd *r, struct get_element *e)
{
        *e = (struct get_element){ .converted = -1, .field_id = LS_FIELD_ID_NONE };
        if (!ls_thrift_in(r, NULL))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                switch (f.id) {
                case 1:
                        e->type.physical = (enum ls_col_physical)ls_thrift_i32(r, &f);
                        e->has_type = true;
                        break;
                case 2: e->type.fixed_bytes = (uint32_t)ls_thrift_i32(r, &f); break;
                case 3: e->repetition = ls_thrift_i32(r, &f); break;
                case 4: e->name = ls_thrift_binary(r, &f); break;
                case 5:
                        e->children = ls_thrift_i32(r, &f);
                        e->has_children = true;
                        break;
                case 6: e->converted = ls_thrift_i32(r, &f); break;
                case 7: e->type.scale = ls_thrift_i32(r, &f); break;
                case 8: e->type.precision = ls_thrift_i32(r, &f); break;
                case 9: e->field_id = ls_thrift_i32(r, &f); break;
                case 10: get_logical_type(r, &f, e); break;
                default: ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

/* The logical type of files that only have the older ConvertedType. */
static void
get_converted_type(struct get_element *e)
{
        static const enum ls_col_logical plain[] = {
                [0] = LS_COL_STRING,    [1] = LS_COL_MAP,        [2] = LS_COL_ANY,
                [3] = LS_COL_LIST,      [4] = LS_COL_ENUM,       [5] = LS_COL_DECIMAL,
                [6] = LS_COL_DATE,      [7] = LS_COL_TIME,       [8] = LS_COL_TIME,
                [9] = LS_COL_TIMESTAMP, [10] = LS_COL_TIMESTAMP, [11] = LS_COL_INT,
                [12] = LS_COL_INT,      [13] = LS_COL_INT,       [14] = LS_COL_INT,
                [15] = LS_COL_INT,      [16] = LS_COL_INT,       [17] = LS_COL_INT,
                [18] = LS_COL_INT,      [19] = LS_COL_JSON,      [20] = LS_COL_BSON,
        };
        int32_t c = e->converted;

        if (e->has_logical || c < 0 || (size_t)c >= LS_COUNT(plain))
                return;
        e->type.logical = plain[c];
        e->type.utc = c >= 7 && c <= 10;
        e->type.unit = c == 7 || c == 9 ? LS_COL_MILLIS : LS_COL_MICROS;
        if (e->type.logical == LS_COL_INT) {
                e->type.is_signed = c >= 15;
                e->type.bits = (uint8_t)(8u << (c - (c >= 15 ? 15 : 11)));
        }
}

/* Adds one element below `parent`; gives the node index. */
static ls_err
get_add_node(struct ls_schema *s, uint32_t parent, struct get_element *e, uint32_t *ret_node)
{
        ls_str name = { (const char *)e->name.ptr, e->name.len };

        if (e->repetition < 0 || e->repetition > 2)
                return LS_CORRUPT;
        get_converted_type(e);
        if (e->has_children && e->children > 0) {
                *ret_node =
                        ls_schema_add_group(s, parent, name, (enum ls_col_repetition)e->repetition,
                                            e->type.logical, e->field_id);
        } else {
                if (!e->has_type || (int)e->type.physical < 0 || e->type.physical > LS_COL_FIXED)
                        return LS_CORRUPT;
                if (e->type.physical == LS_COL_FIXED &&
                    (e->type.fixed_bytes == 0 || e->type.fixed_bytes > INT32_MAX))
                        return LS_CORRUPT;
                if (!ls_col_type_fits(&e->type)) /* a type we cannot make sense of: plain values */
                        e->type.logical = LS_COL_ANY;
                *ret_node =
                        ls_schema_add_leaf(s, parent, name, (enum ls_col_repetition)e->repetition,
                                           e->type, e->field_id);
        }
        return *ret_node == LS_NODE_NONE ? LS_TOO_LARGE : LS_OK;
}

static ls_err
get_schema(struct ls_thrift_rd *r, const struct ls_thrift_field *f, struct ls_schema *s)
{
        uint32_t count = ls_thrift_list(r, f, LS_THRIFT_STRUCT);
        struct {
                uint32_t node;
                int32_t left;
        } stack[LS_SCHEMA_DEPTH_MAX + 1];
        uint32_t depth = 0;
        struct get_element e;

        if (count == 0 || s->node_count != 1)
                return LS_CORRUPT;
        get_element(r, &e);
        if (!r->rd.failed && e.children <= 0)
                return LS_UNSUPPORTED; /* no columns */
        stack[0].node = LS_SCHEMA_ROOT;
        stack[0].left = e.children;
        for (uint32_t i = 1; i < count && !r->rd.failed; i++) {
                uint32_t node;

                get_element(r, &e);
                while (depth > 0 && stack[depth].left == 0)
                        depth--;
                if (r->rd.failed || stack[depth].left == 0)
                        return LS_CORRUPT;
                stack[depth].left--;
                LS_TRY(get_add_node(s, stack[depth].node, &e, &node));
                if (s->nodes[node].is_group) {
                        depth++;
                        stack[depth].node = node;
                        stack[depth].left = e.children;
                }
        }
        for (uint32_t i = 0; i <= depth; i++) {
                if (stack[i].left != 0)
                        return LS_CORRUPT;
        }
        return r->rd.failed || ls_schema_seal(s, NULL) != LS_OK ? LS_CORRUPT : LS_OK;
}

/* --- row groups ------------------------------------------------------------------------------- */

static void
get_statistics(struct ls_thrift_rd *r, const struct ls_thrift_field *at, struct ls_pq_statistics *s)
{
        if (!ls_thrift_in(r, at))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                switch (f.id) {
                case 1: s->old_max = ls_thrift_binary(r, &f); break;
                case 2: s->old_min = ls_thrift_binary(r, &f); break;
                case 3: s->null_count = ls_thrift_i64(r, &f); break;
                case 5: s->max = ls_thrift_binary(r, &f); break;
                case 6: s->min = ls_thrift_binary(r, &f); break;
                case 7: s->max_exact = ls_thrift_bool(r, &f); break;
                case 8: s->min_exact = ls_thrift_bool(r, &f); break;
                default: ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

static uint32_t
get_encodings(struct ls_thrift_rd *r, const struct ls_thrift_field *f)
{
        uint32_t count = ls_thrift_list(r, f, LS_THRIFT_I32), set = 0;

        for (uint32_t i = 0; i < count; i++) {
                int64_t e = ls_thrift_item_get_int(r);

                if (e >= 0 && e < 32)
                        set |= 1u << e;
        }
        return set;
}

static void
get_chunk_meta(struct ls_thrift_rd *r, const struct ls_thrift_field *at, struct ls_pq_chunk *c)
{
        if (!ls_thrift_in(r, at))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                switch (f.id) {
                case 1: c->physical = ls_thrift_i32(r, &f); break;
                case 2: c->encodings = get_encodings(r, &f); break;
                case 4: c->codec = ls_thrift_i32(r, &f); break;
                case 5: c->values = ls_thrift_i64(r, &f); break;
                case 6: c->uncompressed_bytes = ls_thrift_i64(r, &f); break;
                case 7: c->compressed_bytes = ls_thrift_i64(r, &f); break;
                case 9: c->data_page_pos = ls_thrift_i64(r, &f); break;
                case 10: c->index_page_pos = ls_thrift_i64(r, &f); break;
                case 11: c->dictionary_page_pos = ls_thrift_i64(r, &f); break;
                case 12: get_statistics(r, &f, &c->statistics); break;
                case 14: c->bloom_pos = ls_thrift_i64(r, &f); break;
                case 15: c->bloom_bytes = ls_thrift_i32(r, &f); break;
                default: ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

static void
get_chunk(struct ls_thrift_rd *r, struct ls_pq_chunk *c)
{
        *c = (struct ls_pq_chunk){
                .physical = -1,
                .codec = -1,
                .data_page_pos = -1,
                .index_page_pos = -1,
                .dictionary_page_pos = -1,
                .bloom_pos = -1,
                .bloom_bytes = -1,
                .offset_index_pos = -1,
                .column_index_pos = -1,
                .statistics = { .null_count = -1, .min_exact = -1, .max_exact = -1 },
        };
        if (!ls_thrift_in(r, NULL))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                switch (f.id) {
                case 1: c->foreign_file = ls_thrift_binary(r, &f).len > 0; break;
                case 3: get_chunk_meta(r, &f, c); break;
                case 4: c->offset_index_pos = ls_thrift_i64(r, &f); break;
                case 5: c->offset_index_bytes = ls_thrift_i32(r, &f); break;
                case 6: c->column_index_pos = ls_thrift_i64(r, &f); break;
                case 7: c->column_index_bytes = ls_thrift_i32(r, &f); break;
                case 8:
                case 9: c->encrypted = true; /* fall through */
                default: ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

static void
get_row_group(struct ls_thrift_rd *r, struct ls_arena *arena, struct ls_pq_row_group *g, bool *full)
{
        g->rows = -1;
        if (!ls_thrift_in(r, NULL))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                switch (f.id) {
                case 1:
                        g->chunk_count = ls_thrift_list(r, &f, LS_THRIFT_STRUCT);
                        g->chunks = get_array(r, arena, g->chunk_count, sizeof *g->chunks, full);
                        for (uint32_t i = 0; i < g->chunk_count && !r->rd.failed; i++)
                                get_chunk(r, &g->chunks[i]);
                        break;
                case 2: g->bytes = ls_thrift_i64(r, &f); break;
                case 3: g->rows = ls_thrift_i64(r, &f); break;
                case 5: g->pos = ls_thrift_i64(r, &f); break;
                case 6: g->compressed_bytes = ls_thrift_i64(r, &f); break;
                default: ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

static void
get_kv(struct ls_thrift_rd *r, struct ls_parquet_kv *kv)
{
        if (!ls_thrift_in(r, NULL))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                ls_span s = LS_SPAN_NULL;

                if (f.id != 1 && f.id != 2) {
                        ls_thrift_skip(r, &f);
                        continue;
                }
                s = ls_thrift_binary(r, &f);
                if (f.id == 1)
                        kv->key = (ls_str){ (const char *)s.ptr, s.len };
                else
                        kv->value = (ls_str){ (const char *)s.ptr, s.len };
        }
        ls_thrift_out(r);
}

/* True when all columns say TypeDefinedOrder. */
static bool
get_column_orders(struct ls_thrift_rd *r, const struct ls_thrift_field *at)
{
        uint32_t count = ls_thrift_list(r, at, LS_THRIFT_STRUCT);
        bool typed = count > 0;

        for (uint32_t i = 0; i < count && ls_thrift_in(r, NULL); i++) {
                bool one = false;

                for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                        one |= f.id == 1;
                        ls_thrift_skip(r, &f);
                }
                typed &= one;
                ls_thrift_out(r);
        }
        return typed;
}

static ls_err
get_meta_field(struct ls_thrift_rd *r, const struct ls_thrift_field *f, struct ls_arena *arena,
               struct ls_schema *schema, struct ls_pq_meta *m, bool *full)
{
        switch (f->id) {
        case 1: m->version = ls_thrift_i32(r, f); break;
        case 2: return get_schema(r, f, schema);
        case 3: m->rows = ls_thrift_i64(r, f); break;
        case 4:
                m->row_group_count = ls_thrift_list(r, f, LS_THRIFT_STRUCT);
                m->row_groups =
                        get_array(r, arena, m->row_group_count, sizeof *m->row_groups, full);
                for (uint32_t i = 0; i < m->row_group_count && !r->rd.failed; i++)
                        get_row_group(r, arena, &m->row_groups[i], full);
                break;
        case 5:
                m->kv_count = ls_thrift_list(r, f, LS_THRIFT_STRUCT);
                m->kvs = get_array(r, arena, m->kv_count, sizeof *m->kvs, full);
                for (uint32_t i = 0; i < m->kv_count && !r->rd.failed; i++)
                        get_kv(r, &m->kvs[i]);
                break;
        case 6: {
                ls_span s = ls_thrift_binary(r, f);

                m->created_by = (ls_str){ (const char *)s.ptr, s.len };
                break;
        }
        case 7: m->typed_order = get_column_orders(r, f); break;
        case 8: m->encrypted = true; /* fall through */
        default: ls_thrift_skip(r, f);
        }
        return LS_OK;
}

ls_err
ls_pq_get_meta(ls_span footer, struct ls_arena *arena, struct ls_schema *schema,
               struct ls_pq_meta *ret_meta, struct ls_errinfo *reterr)
{
        struct ls_thrift_rd r = ls_thrift_rd_of(footer);
        bool full = false;

        *ret_meta = (struct ls_pq_meta){ .rows = -1 };
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(&r, &f);) {
                ls_err e = get_meta_field(&r, &f, arena, schema, ret_meta, &full);

                if (e != LS_OK)
                        return ls_fail(reterr, e, "parquet: the schema cannot be read");
        }
        if (full)
                return ls_fail(reterr, LS_TOO_LARGE, "parquet: the footer is too large");
        if (r.rd.failed || !schema->sealed || ret_meta->rows < 0)
                return ls_fail(reterr, LS_CORRUPT, "parquet: the footer is malformed");
        if (ret_meta->encrypted)
                return ls_fail(reterr, LS_UNSUPPORTED, "parquet: encrypted columns");
        return LS_OK;
}

/* --- pages and indexes ------------------------------------------------------------------------ */

/* Of a data page (version 1), or of a dictionary page, whose field 3 is another one (is_sorted). */
static void
get_data_header(struct ls_thrift_rd *r, const struct ls_thrift_field *at,
                struct ls_pq_page_header *h)
{
        bool dictionary = at->id == 7;

        if (!ls_thrift_in(r, at))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                if (f.id == 1)
                        h->values = ls_thrift_i32(r, &f);
                else if (f.id == 2)
                        h->encoding = ls_thrift_i32(r, &f);
                else if (f.id == 3 && !dictionary)
                        h->def_encoding = ls_thrift_i32(r, &f);
                else if (f.id == 4 && !dictionary)
                        h->rep_encoding = ls_thrift_i32(r, &f);
                else
                        ls_thrift_skip(r, &f);
        }
        ls_thrift_out(r);
}

static void
get_data_header_v2(struct ls_thrift_rd *r, const struct ls_thrift_field *at,
                   struct ls_pq_page_header *h)
{
        h->is_compressed = true;
        if (!ls_thrift_in(r, at))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                switch (f.id) {
                case 1: h->values = ls_thrift_i32(r, &f); break;
                case 2: h->nulls = ls_thrift_i32(r, &f); break;
                case 3: h->rows = ls_thrift_i32(r, &f); break;
                case 4: h->encoding = ls_thrift_i32(r, &f); break;
                case 5: h->def_bytes = ls_thrift_i32(r, &f); break;
                case 6: h->rep_bytes = ls_thrift_i32(r, &f); break;
                case 7: h->is_compressed = ls_thrift_bool(r, &f); break;
                default: ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

ls_err
ls_pq_get_page_header(struct ls_rd *rd, struct ls_pq_page_header *h)
{
        struct ls_thrift_rd r = { .rd = *rd };

        *h = (struct ls_pq_page_header){ .type = -1, .values = -1 };
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(&r, &f);) {
                switch (f.id) {
                case 1: h->type = ls_thrift_i32(&r, &f); break;
                case 2: h->uncompressed_bytes = ls_thrift_i32(&r, &f); break;
                case 3: h->compressed_bytes = ls_thrift_i32(&r, &f); break;
                case 4:
                        h->crc = (uint32_t)ls_thrift_i32(&r, &f);
                        h->has_crc = true;
                        break;
                case 5:
                case 7: get_data_header(&r, &f, h); break;
                case 8: get_data_header_v2(&r, &f, h); break;
                default: ls_thrift_skip(&r, &f);
                }
        }
        *rd = r.rd;
        if (r.rd.failed || h->type < 0 || h->uncompressed_bytes < 0 || h->compressed_bytes < 0)
                return LS_CORRUPT;
        if (h->type != LS_PQ_INDEX_PAGE && h->values < 0)
                return LS_CORRUPT;
        if (h->type == LS_PQ_DATA_PAGE_V2 && (h->def_bytes < 0 || h->rep_bytes < 0 || h->nulls < 0))
                return LS_CORRUPT;
        return LS_OK;
}

static void
get_page_location(struct ls_thrift_rd *r, struct ls_pq_page_location *p)
{
        if (!ls_thrift_in(r, NULL))
                return;
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(r, &f);) {
                switch (f.id) {
                case 1: p->pos = ls_thrift_i64(r, &f); break;
                case 2: p->bytes = ls_thrift_i32(r, &f); break;
                case 3: p->first_row = ls_thrift_i64(r, &f); break;
                default: ls_thrift_skip(r, &f);
                }
        }
        ls_thrift_out(r);
}

ls_err
ls_pq_get_offset_index(ls_span bytes, struct ls_arena *arena, struct ls_pq_offset_index *ret_index)
{
        struct ls_thrift_rd r = ls_thrift_rd_of(bytes);
        bool full = false;

        *ret_index = (struct ls_pq_offset_index){ 0 };
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(&r, &f);) {
                if (f.id != 1) {
                        ls_thrift_skip(&r, &f);
                        continue;
                }
                ret_index->page_count = ls_thrift_list(&r, &f, LS_THRIFT_STRUCT);
                ret_index->pages = get_array(&r, arena, ret_index->page_count,
                                             sizeof *ret_index->pages, &full);
                for (uint32_t i = 0; i < ret_index->page_count && !r.rd.failed; i++)
                        get_page_location(&r, &ret_index->pages[i]);
        }
        return full ? LS_TOO_LARGE : r.rd.failed ? LS_CORRUPT : LS_OK;
}

/* A list of binaries as spans, which must have as many items as those before it. */
static ls_span *
get_spans(struct ls_thrift_rd *r, const struct ls_thrift_field *f, struct ls_arena *arena,
          uint32_t want, bool *full)
{
        uint32_t count = ls_thrift_list(r, f, LS_THRIFT_BINARY);
        ls_span *spans = get_array(r, arena, count, sizeof *spans, full);

        if (count != want)
                r->rd.failed = true;
        for (uint32_t i = 0; i < count && !r->rd.failed; i++)
                spans[i] = ls_thrift_item_get_binary(r);
        return spans;
}

static int64_t *
get_counts(struct ls_thrift_rd *r, const struct ls_thrift_field *f, struct ls_arena *arena,
           uint32_t want, bool *full)
{
        uint32_t count = ls_thrift_list(r, f, LS_THRIFT_I64);
        int64_t *counts = get_array(r, arena, count, sizeof *counts, full);

        if (count != want)
                r->rd.failed = true;
        for (uint32_t i = 0; i < count && !r->rd.failed; i++)
                counts[i] = ls_thrift_item_get_int(r);
        return counts;
}

ls_err
ls_pq_get_column_index(ls_span bytes, struct ls_arena *arena, struct ls_pq_column_index *x)
{
        struct ls_thrift_rd r = ls_thrift_rd_of(bytes);
        bool full = false;

        *x = (struct ls_pq_column_index){ 0 };
        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(&r, &f);) {
                switch (f.id) {
                case 1:
                        if (x->null_pages || x->min || x->max || x->null_counts) {
                                r.rd.failed = true; /* the others are checked against this one */
                                break;
                        }
                        x->page_count = ls_thrift_list(&r, &f, LS_THRIFT_TRUE);
                        x->null_pages = get_array(&r, arena, x->page_count, sizeof(bool), &full);
                        for (uint32_t i = 0; i < x->page_count && !r.rd.failed; i++)
                                x->null_pages[i] = ls_thrift_item_get_bool(&r);
                        break;
                case 2: x->min = get_spans(&r, &f, arena, x->page_count, &full); break;
                case 3: x->max = get_spans(&r, &f, arena, x->page_count, &full); break;
                case 4: x->boundary_order = ls_thrift_i32(&r, &f); break;
                case 5: x->null_counts = get_counts(&r, &f, arena, x->page_count, &full); break;
                default: ls_thrift_skip(&r, &f);
                }
        }
        if (full)
                return LS_TOO_LARGE;
        return r.rd.failed || !x->null_pages || !x->min || !x->max ? LS_CORRUPT : LS_OK;
}

ls_err
ls_pq_get_bloom_header(struct ls_rd *rd, uint32_t *ret_bytes)
{
        struct ls_thrift_rd r = { .rd = *rd };
        int32_t bytes = 0;
        bool known = true;

        for (struct ls_thrift_field f = { 0 }; ls_thrift_next(&r, &f);) {
                if (f.id == 1) {
                        bytes = ls_thrift_i32(&r, &f);
                } else if (f.id <= 4 && ls_thrift_in(&r, &f)) { /* unions whose member 1 is ours */
                        for (struct ls_thrift_field u = { 0 }; ls_thrift_next(&r, &u);) {
                                known &= u.id == 1;
                                ls_thrift_skip(&r, &u);
                        }
                        ls_thrift_out(&r);
                } else {
                        ls_thrift_skip(&r, &f);
                }
        }
        *rd = r.rd;
        if (r.rd.failed || bytes < 32 || bytes % 32 != 0)
                return LS_CORRUPT;
        *ret_bytes = (uint32_t)bytes;
        return known ? LS_OK : LS_UNSUPPORTED;
}
