/* formats/parquet/parquet_test.c - proves, for whole files: what is written comes back, for every
 * type, nesting, codec and encoding (B045); field ids are on every node (B040); ranges of rows read
 * only the pages they need; statistics, page index, bloom filters and totals are right; files of
 * other writers (golden/) are read; damaged and lying files are refused without harm. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>

#include "base/buf.h"
#include "formats/column/shred.h"
#include "formats/parquet/reader.h"
#include "formats/parquet/writer.h"

static const char *golden_dir;
static uint64_t seed = 88172645463325252ULL;

static uint64_t
next_random(void)
{
        seed ^= seed << 13;
        seed ^= seed >> 7;
        return seed ^= seed << 17;
}

/* --- a file in memory ------------------------------------------------------------------------- */

struct memory {
        struct ls_buf bytes;
        uint64_t reads, read_bytes;
        size_t fail_after; /* appends until the sink fails; 0: never */
};

static ls_err
memory_append(void *ctx, ls_span bytes)
{
        struct memory *m = ctx;

        if (m->fail_after > 0 && --m->fail_after == 0)
                return LS_ENOSPC;
        ls_buf_put_span(&m->bytes, bytes);
        return LS_OK;
}

static ls_err
memory_read(void *ctx, uint64_t pos, size_t bytes, struct ls_slice **ret_bytes)
{
        struct memory *m = ctx;

        assert_true(pos + bytes <= m->bytes.len);
        m->reads++;
        m->read_bytes += bytes;
        *ret_bytes = ls_slice_copy(ls_span_of(m->bytes.ptr + pos, bytes));
        return LS_OK;
}

static struct ls_parquet_source
memory_source(struct memory *m)
{
        return (struct ls_parquet_source){ memory_read, m, m->bytes.len };
}

static struct ls_parquet_file *
memory_open(struct memory *m)
{
        struct ls_parquet_source source = memory_source(m);
        struct ls_parquet_file *f = NULL;
        struct ls_errinfo info = { "" };
        ls_err e = ls_parquet_file_open(&source, NULL, &info, &f);

        if (e != LS_OK)
                print_error("%s: %s\n", ls_err_name(e), info.text);
        assert_int_equal(e, LS_OK);
        return f;
}

/* --- every type and nesting ------------------------------------------------------------------- */

static void
add_leaves(struct ls_schema *s, uint32_t parent, int32_t *id)
{
        static const struct {
                const char *name;
                struct ls_col_type type;
        } kinds[] = {
                { "bool", { .physical = LS_COL_BOOL } },
                { "int", { .physical = LS_COL_INT32 } },
                { "u8", { .physical = LS_COL_INT32, .logical = LS_COL_INT, .bits = 8 } },
                { "long", { .physical = LS_COL_INT64 } },
                { "i64",
                  { .physical = LS_COL_INT64,
                    .logical = LS_COL_INT,
                    .bits = 64,
                    .is_signed = true } },
                { "float", { .physical = LS_COL_FLOAT } },
                { "double", { .physical = LS_COL_DOUBLE } },
                { "binary", { .physical = LS_COL_BYTES } },
                { "string", { .physical = LS_COL_BYTES, .logical = LS_COL_STRING } },
                { "json", { .physical = LS_COL_BYTES, .logical = LS_COL_JSON } },
                { "fixed", { .physical = LS_COL_FIXED, .fixed_bytes = 9 } },
                { "uuid", { .physical = LS_COL_FIXED, .logical = LS_COL_UUID, .fixed_bytes = 16 } },
                { "dec9",
                  { .physical = LS_COL_INT32,
                    .logical = LS_COL_DECIMAL,
                    .precision = 9,
                    .scale = 2 } },
                { "dec38",
                  { .physical = LS_COL_FIXED,
                    .logical = LS_COL_DECIMAL,
                    .precision = 38,
                    .scale = 10,
                    .fixed_bytes = 16 } },
                { "date", { .physical = LS_COL_INT32, .logical = LS_COL_DATE } },
                { "time",
                  { .physical = LS_COL_INT64, .logical = LS_COL_TIME, .unit = LS_COL_MICROS } },
                { "ts",
                  { .physical = LS_COL_INT64,
                    .logical = LS_COL_TIMESTAMP,
                    .unit = LS_COL_MICROS } },
                { "tstz",
                  { .physical = LS_COL_INT64,
                    .logical = LS_COL_TIMESTAMP,
                    .unit = LS_COL_MICROS,
                    .utc = true } },
                { "tsns",
                  { .physical = LS_COL_INT64,
                    .logical = LS_COL_TIMESTAMP,
                    .unit = LS_COL_NANOS,
                    .utc = true } },
                { "half",
                  { .physical = LS_COL_FIXED, .logical = LS_COL_FLOAT16, .fixed_bytes = 2 } },
        };

        for (size_t i = 0; i < LS_COUNT(kinds); i++)
                ls_schema_add_leaf(s, parent, ls_str_of(kinds[i].name),
                                   i % 2 ? LS_COL_OPTIONAL : LS_COL_REQUIRED, kinds[i].type,
                                   (*id)++);
}

/* All kinds at the top, in an optional struct, in a list of structs, in a list of lists, in a map.
 * */
static void
make_wide_schema(struct ls_schema *s)
{
        int32_t id = 1;
        uint32_t at;

        ls_schema_init(s);
        add_leaves(s, LS_SCHEMA_ROOT, &id);
        at = ls_schema_add_group(s, LS_SCHEMA_ROOT, LS_STR("struct"), LS_COL_OPTIONAL, LS_COL_ANY,
                                 id++);
        add_leaves(s, at, &id);
        at = ls_schema_add_list(s, LS_SCHEMA_ROOT, LS_STR("structs"), LS_COL_OPTIONAL, id++);
        at = ls_schema_add_group(s, at, LS_STR("element"), LS_COL_OPTIONAL, LS_COL_ANY, id++);
        add_leaves(s, at, &id);
        at = ls_schema_add_list(s, LS_SCHEMA_ROOT, LS_STR("lists"), LS_COL_REQUIRED, id++);
        at = ls_schema_add_list(s, at, LS_STR("element"), LS_COL_OPTIONAL, id++);
        ls_schema_add_leaf(s, at, LS_STR("element"), LS_COL_OPTIONAL, LS_TYPE_STRING, id++);
        at = ls_schema_add_map(s, LS_SCHEMA_ROOT, LS_STR("map"), LS_COL_OPTIONAL, id++);
        ls_schema_add_leaf(s, at, LS_STR("key"), LS_COL_REQUIRED, LS_TYPE_STRING, id++);
        at = ls_schema_add_list(s, at, LS_STR("value"), LS_COL_OPTIONAL, id++);
        ls_schema_add_leaf(s, at, LS_STR("element"), LS_COL_REQUIRED, LS_TYPE_LONG, id++);
        ls_schema_add_leaf(s, LS_SCHEMA_ROOT, LS_STR("repeated"), LS_COL_REPEATED, LS_TYPE_INT,
                           id++);
        assert_int_equal(ls_schema_seal(s, NULL), LS_OK);
}

/* `shape` 0: few distinct values, 1: sequences, 2: noise. */
static void
push_random(struct ls_vec *v, int shape)
{
        uint8_t bytes[64];
        uint64_t x = shape == 0 ? next_random() % 5 : shape == 1 ? v->count * 7 : next_random();

        for (size_t i = 0; i < sizeof bytes; i++)
                bytes[i] = (uint8_t)(x >> (i % 8 * 8));
        switch (v->type.physical) {
        case LS_COL_BOOL: ls_vec_value_bool(v, x % 3 == 0); break;
        case LS_COL_BYTES: { /* letters: also right for strings */
                char text[40];
                int n = snprintf(text, sizeof text, "%.*s%llu", (int)(x % 13), "prefix/prefix",
                                 (unsigned long long)x % 100000);

                ls_vec_value_copy(v, ls_span_of(text, x % 17 == 0 ? 0 : (size_t)n));
                break;
        }
        case LS_COL_FLOAT: ls_vec_value_f32(v, (float)(int64_t)x / 8); break;
        case LS_COL_DOUBLE: ls_vec_value_f64(v, (double)(int64_t)x / 8); break;
        default: ls_vec_value_fixed(v, bytes);
        }
}

/* Fills the children of `group` for the present context. */
static void
push_group(struct ls_shred *s, uint32_t group, int shape)
{
        const struct ls_schema *schema = s->columns->schema;

        for (uint32_t n = group + 1; n < schema->nodes[group].end; n = schema->nodes[n].end) {
                const struct ls_schema_node *node = &schema->nodes[n];
                uint64_t items = node->repetition == LS_COL_REPEATED ? next_random() % 4 : 1;

                if (node->repetition == LS_COL_OPTIONAL && next_random() % 4 == 0)
                        items = 0;
                if (items == 0)
                        ls_shred_null(s, n);
                for (uint64_t i = 0; i < items; i++) {
                        if (!node->is_group) {
                                push_random(ls_shred_value(s, n), shape);
                                continue;
                        }
                        if (node->repetition == LS_COL_REPEATED)
                                ls_shred_item(s, n);
                        else
                                ls_shred_enter(s, n);
                        push_group(s, n, shape);
                        ls_shred_leave(s);
                }
        }
}

static void
push_rows(struct ls_columns *c, size_t rows, int shape)
{
        struct ls_shred s;

        ls_shred_init(&s, c);
        for (size_t i = 0; i < rows; i++) {
                ls_shred_row(&s);
                push_group(&s, LS_SCHEMA_ROOT, shape);
        }
}

/* Adds the slots and values of `from` to `to`. */
static void
append_vec(struct ls_vec *to, const struct ls_vec *from)
{
        size_t value = 0;

        for (size_t i = 0; i < from->slots; i++) {
                uint8_t def = from->def ? from->def[i] : 0;

                ls_vec_slot(to, from->rep ? from->rep[i] : 0, def);
                if (def != from->max_def)
                        continue;
                if (from->type.physical == LS_COL_BYTES)
                        ls_vec_value_copy(to, from->span[value]);
                else
                        ls_vec_value_fixed(to, from->u8 + value * from->value_bytes);
                value++;
        }
        assert_int_equal(value, from->count);
}

static void
check_same_vec(const struct ls_vec *a, const struct ls_vec *b)
{
        ls_vec_check(b);
        assert_int_equal(a->slots, b->slots);
        assert_int_equal(a->rows, b->rows);
        assert_int_equal(a->count, b->count);
        assert_int_equal(a->span_bytes, b->span_bytes);
        if (a->max_def > 0)
                assert_memory_equal(a->def, b->def, a->slots);
        if (a->max_rep > 0)
                assert_memory_equal(a->rep, b->rep, a->slots);
        if (a->type.physical != LS_COL_BYTES) {
                if (a->count > 0)
                        assert_memory_equal(a->u8, b->u8, a->count * a->value_bytes);
                return;
        }
        for (size_t i = 0; i < a->count; i++)
                assert_true(ls_span_eq(a->span[i], b->span[i]));
}

/* Reads rows of one row group into fresh columns. */
static void
read_rows(struct ls_parquet_file *f, uint32_t row_group, uint64_t first, uint64_t rows, size_t step,
          struct ls_columns *out)
{
        struct ls_parquet_scan *s = NULL;
        const struct ls_vec *vecs;
        size_t n;
        ls_err e;

        ls_columns_init(out, ls_parquet_file_schema(f));
        e = ls_parquet_scan_open(f, row_group, first, rows, NULL, 0, &s);
        assert_int_equal(e, LS_OK);
        while ((e = ls_parquet_scan_next(s, step, &vecs, &n)) == LS_OK) {
                assert_true(n > 0 && n <= step);
                for (uint32_t i = 0; i < out->count; i++)
                        append_vec(&out->vecs[i], &vecs[i]);
        }
        if (e != LS_END)
                print_error("%s\n", ls_parquet_scan_error(s)->text);
        assert_int_equal(e, LS_END);
        ls_parquet_scan_close(s);
}

/* The slots of rows [first, first + rows) of a vector, by brute force. */
static void
cut_rows(const struct ls_vec *v, size_t first, size_t rows, struct ls_vec *out)
{
        size_t value = 0, row = SIZE_MAX;

        for (size_t i = 0; i < v->slots; i++) {
                uint8_t def = v->def ? v->def[i] : 0;

                row += v->rep == NULL || v->rep[i] == 0;
                if (row >= first && row < first + rows) {
                        ls_vec_slot(out, v->rep ? v->rep[i] : 0, def);
                        if (def == v->max_def && v->type.physical == LS_COL_BYTES)
                                ls_vec_value_ref(out, v->span[value]);
                        else if (def == v->max_def)
                                ls_vec_value_fixed(out, v->u8 + value * v->value_bytes);
                }
                value += def == v->max_def;
        }
}

static void
check_range(struct ls_parquet_file *f, uint32_t row_group, const struct ls_columns *want,
            size_t first, size_t rows, size_t step)
{
        struct ls_columns cut, got;

        ls_columns_init(&cut, want->schema);
        for (uint32_t i = 0; i < want->count; i++)
                cut_rows(&want->vecs[i], first, rows, &cut.vecs[i]);
        read_rows(f, row_group, first, rows, step, &got);
        for (uint32_t i = 0; i < want->count; i++)
                check_same_vec(&cut.vecs[i], &got.vecs[i]);
        ls_columns_done(&cut);
        ls_columns_done(&got);
}

/* Two row groups of other shapes; whole and in part. */
static void
round_trip(const struct ls_schema *schema, const struct ls_parquet_writer_options *options,
           size_t rows)
{
        struct memory m = { 0 };
        struct ls_parquet_writer *w = NULL;
        struct ls_parquet_file *f;
        struct ls_columns groups[3];

        ls_buf_init(&m.bytes, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_parquet_writer_new(schema, options,
                                               (struct ls_parquet_sink){ memory_append, &m }, &w),
                         LS_OK);
        for (int g = 0; g < 3; g++) {
                ls_columns_init(&groups[g], schema);
                push_rows(&groups[g], rows, g);
                assert_int_equal(ls_parquet_writer_row_group(w, &groups[g]), LS_OK);
        }
        assert_int_equal(ls_parquet_writer_finish(w), LS_OK);
        assert_int_equal(ls_parquet_writer_info(w)->rows, rows * 3);
        assert_int_equal(ls_parquet_writer_info(w)->bytes, m.bytes.len);
        ls_parquet_writer_free(w);
        f = memory_open(&m);
        assert_true(ls_schema_equal(schema, ls_parquet_file_schema(f)));
        assert_int_equal(ls_parquet_file_rows(f), rows * 3);
        assert_int_equal(ls_parquet_file_row_groups(f), rows > 0 ? 3 : 0);
        for (uint32_t g = 0; rows > 0 && g < 3; g++) {
                check_range(f, g, &groups[g], 0, rows, 1 + next_random() % 200);
                for (int i = 0; i < 4; i++)
                        check_range(f, g, &groups[g], next_random() % rows, next_random() % rows,
                                    1 + next_random() % 50);
        }
        ls_parquet_file_close(f);
        for (int g = 0; g < 3; g++)
                ls_columns_done(&groups[g]);
        ls_buf_done(&m.bytes);
}

static void
test_round_trip_everything(void **state)
{
        static const enum ls_parquet_codec codecs[] = { LS_PARQUET_UNCOMPRESSED, LS_PARQUET_SNAPPY,
                                                        LS_PARQUET_GZIP, LS_PARQUET_ZSTD,
                                                        LS_PARQUET_LZ4_RAW };
        static const size_t counts[] = { 0, 1, 2, 9, 100, 500 };
        struct ls_schema schema;

        make_wide_schema(&schema);
        for (size_t c = 0; c < LS_COUNT(codecs); c++) {
                for (size_t n = 0; n < LS_COUNT(counts); n++) {
                        struct ls_parquet_writer_options o = { .codec = codecs[c] };

                        o.encodings = n % 2 ? LS_PARQUET_ENCODINGS_ALL : 0;
                        o.page_rows = n % 3 ? 37 : 0;
                        o.page_bytes = n % 4 == 3 ? 200 : 0;
                        round_trip(&schema, &o, counts[n]);
                }
        }
        ls_schema_done(&schema);
}

/* Each encoding alone, on a column that it suits. */
static void
test_round_trip_each_encoding(void **state)
{
        static const struct {
                enum ls_parquet_encoding encoding;
                struct ls_col_type type;
        } pairs[] = {
                { LS_PARQUET_RLE, { .physical = LS_COL_BOOL } },
                { LS_PARQUET_DELTA_BINARY_PACKED, { .physical = LS_COL_INT32 } },
                { LS_PARQUET_DELTA_BINARY_PACKED, { .physical = LS_COL_INT64 } },
                { LS_PARQUET_DELTA_LENGTH_BYTE_ARRAY, { .physical = LS_COL_BYTES } },
                { LS_PARQUET_DELTA_BYTE_ARRAY, { .physical = LS_COL_BYTES } },
                { LS_PARQUET_BYTE_STREAM_SPLIT, { .physical = LS_COL_DOUBLE } },
                { LS_PARQUET_RLE_DICTIONARY, { .physical = LS_COL_BYTES } },
                { LS_PARQUET_RLE_DICTIONARY, { .physical = LS_COL_FLOAT } },
        };

        for (size_t i = 0; i < LS_COUNT(pairs); i++) {
                struct ls_parquet_writer_options o = { .encodings =
                                                               LS_PARQUET_BIT(pairs[i].encoding),
                                                       .page_rows = 100 };
                struct ls_schema s;

                ls_schema_init(&s);
                ls_schema_add_leaf(&s, 0, LS_STR("x"), i % 2 ? LS_COL_OPTIONAL : LS_COL_REQUIRED,
                                   pairs[i].type, 1);
                assert_int_equal(ls_schema_seal(&s, NULL), LS_OK);
                round_trip(&s, &o, 3000);
                ls_schema_done(&s);
        }
}

/* --- records ---------------------------------------------------------------------------------- */

enum { LEAF_VALUE, LEAF_PARTITION, LEAF_OFFSET, LEAF_TIME, LEAF_KEY, LEAF_HKEY, LEAF_HVALUE };

static void
make_record_schema(struct ls_schema *s)
{
        uint32_t list;

        ls_schema_init(s);
        ls_schema_add_leaf(s, 0, LS_STR("value"), LS_COL_OPTIONAL, LS_TYPE_BINARY, 1);
        ls_schema_add_leaf(s, 0, LS_STR("__partition"), LS_COL_REQUIRED, LS_TYPE_INT, 2);
        ls_schema_add_leaf(s, 0, LS_STR("__offset"), LS_COL_REQUIRED, LS_TYPE_LONG, 3);
        ls_schema_add_leaf(s, 0, LS_STR("__timestamp"), LS_COL_REQUIRED, LS_TYPE_TIMESTAMPTZ, 4);
        ls_schema_add_leaf(s, 0, LS_STR("__key"), LS_COL_OPTIONAL, LS_TYPE_BINARY, 5);
        list = ls_schema_add_list(s, 0, LS_STR("__headers"), LS_COL_REQUIRED, 6);
        list = ls_schema_add_group(s, list, LS_STR("element"), LS_COL_REQUIRED, LS_COL_ANY, 7);
        ls_schema_add_leaf(s, list, LS_STR("key"), LS_COL_REQUIRED, LS_TYPE_STRING, 8);
        ls_schema_add_leaf(s, list, LS_STR("value"), LS_COL_OPTIONAL, LS_TYPE_BINARY, 9);
        assert_int_equal(ls_schema_seal(s, NULL), LS_OK);
}

static void
push_record(struct ls_columns *c, int64_t offset, size_t value_bytes)
{
        uint8_t value[4096];
        char key[20];

        assert_true(value_bytes <= sizeof value);
        for (size_t i = 0; i < value_bytes; i++)
                value[i] = (uint8_t)next_random();
        ls_vec_row_copy(&c->vecs[LEAF_VALUE],
                        offset % 10 == 3 ? LS_SPAN_NULL : ls_span_of(value, value_bytes));
        ls_vec_row_i32(&c->vecs[LEAF_PARTITION], 3);
        ls_vec_row_i64(&c->vecs[LEAF_OFFSET], offset);
        ls_vec_row_i64(&c->vecs[LEAF_TIME], 1700000000000000 + offset / 7 * 1000);
        snprintf(key, sizeof key, "key-%d", (int)(offset % 1000));
        ls_vec_row_copy(&c->vecs[LEAF_KEY],
                        offset % 4 ? ls_span_of(key, strlen(key)) : LS_SPAN_NULL);
        if (offset % 5 == 0) {
                ls_vec_slot(&c->vecs[LEAF_HKEY], 0, 1);
                ls_vec_value_copy(&c->vecs[LEAF_HKEY], ls_span_of("h", 1));
                ls_vec_slot(&c->vecs[LEAF_HVALUE], 0, 1);
                ls_vec_slot(&c->vecs[LEAF_HKEY], 1, 1);
                ls_vec_value_copy(&c->vecs[LEAF_HKEY], ls_span_of("i", 1));
                ls_vec_slot(&c->vecs[LEAF_HVALUE], 1, 2);
                ls_vec_value_copy(&c->vecs[LEAF_HVALUE], ls_span_of("v", 1));
        } else {
                ls_vec_slot(&c->vecs[LEAF_HKEY], 0, 0);
                ls_vec_slot(&c->vecs[LEAF_HVALUE], 0, 0);
        }
}

/* A file of `rows` records in row groups of 10,000, with a bloom filter on the key. */
static void
write_records(struct memory *m, struct ls_schema *schema, size_t rows,
              struct ls_parquet_writer **ret_writer)
{
        struct ls_parquet_column_options columns[7] = {
                [LEAF_VALUE] = { .no_dictionary = true, .no_bounds = true, .page_bytes = 65536 },
                [LEAF_KEY] = { .bloom = true },
        };
        static const uint32_t sorted[] = { LEAF_PARTITION, LEAF_OFFSET };
        struct ls_parquet_writer_options o = { .codec = LS_PARQUET_ZSTD,
                                               .columns = columns,
                                               .page_rows = 1000,
                                               .sorted_leaves = sorted,
                                               .sorted_count = 2 };
        struct ls_columns c;

        make_record_schema(schema);
        ls_buf_init(&m->bytes, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_parquet_writer_new(schema, &o,
                                               (struct ls_parquet_sink){ memory_append, m },
                                               ret_writer),
                         LS_OK);
        ls_columns_init(&c, schema);
        for (size_t i = 0; i < rows; i++) {
                push_record(&c, (int64_t)i, 300);
                if (i % 10000 == 9999 || i + 1 == rows) {
                        assert_int_equal(ls_parquet_writer_row_group(*ret_writer, &c), LS_OK);
                        ls_columns_clear(&c);
                }
        }
        ls_parquet_writer_kv(*ret_writer, LS_STR("lakestream.kind"), LS_STR("test"));
        assert_int_equal(ls_parquet_writer_finish(*ret_writer), LS_OK);
        ls_columns_done(&c);
}

static void
test_file_info(void **state)
{
        struct memory m = { 0 };
        struct ls_schema schema;
        struct ls_parquet_writer *w;
        const struct ls_parquet_file_info *info;
        struct ls_parquet_file *f;
        struct ls_parquet_row_group g;
        ls_str value;

        write_records(&m, &schema, 25000, &w);
        info = ls_parquet_writer_info(w);
        assert_int_equal(info->rows, 25000);
        assert_int_equal(info->row_group_count, 3);
        assert_int_equal(info->row_groups[0].pos, 4);
        assert_int_equal(info->row_groups[2].rows, 5000);
        assert_int_equal(info->columns[LEAF_VALUE].nulls, 2500);
        assert_int_equal(info->columns[LEAF_VALUE].slots, 25000);
        assert_null(info->columns[LEAF_VALUE].min.ptr);
        assert_int_equal(info->columns[LEAF_VALUE].plain_bytes, 22500 * 304);
        assert_int_equal(info->columns[LEAF_OFFSET].field_id, 3);
        assert_int_equal(ls_get_le64(info->columns[LEAF_OFFSET].min.ptr), 0);
        assert_int_equal(ls_get_le64(info->columns[LEAF_OFFSET].max.ptr), 24999);
        assert_true(info->columns[LEAF_OFFSET].max_exact);
        assert_int_equal(info->columns[LEAF_HKEY].slots, 30000);
        assert_int_equal(info->columns[LEAF_HVALUE].nulls, 25000);
        assert_memory_equal(info->columns[LEAF_KEY].max.ptr, "key-999", 7);
        f = memory_open(&m);
        ls_parquet_file_row_group(f, 1, &g);
        assert_int_equal(g.first_row, 10000);
        assert_int_equal(g.pos, info->row_groups[1].pos);
        assert_true(ls_parquet_file_kv(f, LS_STR("lakestream.kind"), &value));
        assert_true(ls_str_is(value, "test"));
        assert_false(ls_parquet_file_kv(f, LS_STR("other"), &value));
        assert_memory_equal(ls_parquet_file_created_by(f).ptr, "lakestream version ", 19);
        ls_parquet_file_close(f);
        ls_parquet_writer_free(w);
        ls_buf_done(&m.bytes);
        ls_schema_done(&schema);
}

static void
test_statistics_and_index(void **state)
{
        struct memory m = { 0 };
        struct ls_schema schema;
        struct ls_parquet_writer *w;
        struct ls_parquet_file *f;
        struct ls_parquet_bounds b;
        uint64_t rows = 0;
        bool maybe;
        char key[20];
        unsigned wrong = 0;

        write_records(&m, &schema, 20000, &w);
        f = memory_open(&m);
        ls_parquet_file_bounds(f, 1, LEAF_OFFSET, &b);
        assert_int_equal(ls_get_le64(b.min.ptr), 10000);
        assert_int_equal(ls_get_le64(b.max.ptr), 19999);
        assert_true(b.min_exact && b.max_exact);
        assert_int_equal(b.nulls, 0);
        ls_parquet_file_bounds(f, 1, LEAF_VALUE, &b);
        assert_null(b.min.ptr);
        assert_int_equal(b.nulls, 1000);
        assert_int_equal(ls_parquet_file_pages(f, 1, LEAF_OFFSET), 0);
        assert_int_equal(ls_parquet_file_load_index(f, 1, LEAF_OFFSET), LS_OK);
        assert_int_equal(ls_parquet_file_pages(f, 1, LEAF_OFFSET), 10);
        for (uint32_t i = 0; i < 10; i++) {
                struct ls_parquet_page p;

                ls_parquet_file_page(f, 1, LEAF_OFFSET, i, &p);
                assert_int_equal(p.first_row, rows);
                assert_int_equal(p.rows, 1000);
                assert_int_equal(ls_get_le64(p.bounds.min.ptr), 10000 + rows);
                assert_int_equal(ls_get_le64(p.bounds.max.ptr), 10999 + rows);
                rows += p.rows;
        }
        assert_int_equal(ls_parquet_file_load_index(f, 1, LEAF_VALUE), LS_OK);
        assert_true(ls_parquet_file_pages(f, 1, LEAF_VALUE) > 30);
        for (int i = 0; i < 2000; i++) {
                snprintf(key, sizeof key, "key-%d", i);
                assert_int_equal(
                        ls_parquet_file_bloom(f, 0, LEAF_KEY, ls_span_of(key, strlen(key)), &maybe),
                        LS_OK);
                assert_true(maybe || i % 4 == 0 || i >= 1000);
                wrong += i >= 1000 && maybe;
        }
        assert_true(wrong < 50);
        assert_int_equal(ls_parquet_file_bloom(f, 0, LEAF_OFFSET, LS_SPAN_NULL, &maybe), LS_ABSENT);
        ls_parquet_file_close(f);
        ls_parquet_writer_free(w);
        ls_buf_done(&m.bytes);
        ls_schema_done(&schema);
}

static void
test_range_reads_few_bytes(void **state)
{
        static const uint32_t leaves[] = { LEAF_OFFSET, LEAF_VALUE, LEAF_HVALUE };
        struct memory m = { 0 };
        struct ls_schema schema;
        struct ls_parquet_writer *w;
        struct ls_parquet_file *f;
        struct ls_parquet_scan *s;
        const struct ls_vec *vecs;
        int64_t offset = 14321;
        size_t n;

        write_records(&m, &schema, 30000, &w);
        f = memory_open(&m);
        m.reads = m.read_bytes = 0;
        assert_int_equal(ls_parquet_scan_open(f, 1, 4321, 500, leaves, 3, &s), LS_OK);
        while (ls_parquet_scan_next(s, 64, &vecs, &n) == LS_OK) {
                assert_int_equal(vecs[0].rows, n);
                assert_int_equal(vecs[1].rows, n);
                assert_int_equal(vecs[2].rows, n);
                for (size_t i = 0; i < n; i++, offset++) {
                        assert_int_equal(vecs[0].i64[i], offset);
                        assert_int_equal(vecs[1].def[i], offset % 10 != 3);
                }
        }
        assert_int_equal(offset, 14821);
        assert_true(m.bytes.len > 8000000);
        assert_true(m.read_bytes < 400000); /* three or four value pages, not the whole column */
        assert_true(m.reads < 12);
        ls_parquet_scan_close(s);
        /* past the end: clipped, then nothing */
        assert_int_equal(ls_parquet_scan_open(f, 2, 9999, 500, leaves, 3, &s), LS_OK);
        assert_int_equal(ls_parquet_scan_next(s, 64, &vecs, &n), LS_OK);
        assert_int_equal(n, 1);
        assert_int_equal(ls_parquet_scan_next(s, 64, &vecs, &n), LS_END);
        ls_parquet_scan_close(s);
        assert_int_equal(ls_parquet_scan_open(f, 2, 70000, 500, leaves, 3, &s), LS_OK);
        assert_int_equal(ls_parquet_scan_next(s, 64, &vecs, &n), LS_END);
        ls_parquet_scan_close(s);
        ls_parquet_file_close(f);
        ls_parquet_writer_free(w);
        ls_buf_done(&m.bytes);
        ls_schema_done(&schema);
}

/* NaN and null columns: no index, no bounds, but right counts (B046). */
static void
test_nan_column(void **state)
{
        struct memory m = { 0 };
        struct ls_schema schema;
        struct ls_columns c;
        struct ls_parquet_writer *w;
        struct ls_parquet_file *f;
        struct ls_parquet_bounds b;
        const struct ls_parquet_column_info *x;

        ls_schema_init(&schema);
        ls_schema_add_leaf(&schema, 0, LS_STR("d"), LS_COL_OPTIONAL, LS_TYPE_DOUBLE, 1);
        ls_schema_add_leaf(&schema, 0, LS_STR("n"), LS_COL_OPTIONAL, LS_TYPE_LONG, 2);
        assert_int_equal(ls_schema_seal(&schema, NULL), LS_OK);
        ls_columns_init(&c, &schema);
        for (int i = 0; i < 10; i++) {
                ls_vec_slot(&c.vecs[0], 0, 1);
                ls_vec_value_f64(&c.vecs[0], NAN);
                ls_vec_row_null(&c.vecs[1]);
        }
        ls_buf_init(&m.bytes, 1 << 20);
        assert_int_equal(ls_parquet_writer_new(&schema, NULL,
                                               (struct ls_parquet_sink){ memory_append, &m }, &w),
                         LS_OK);
        assert_int_equal(ls_parquet_writer_row_group(w, &c), LS_OK);
        assert_int_equal(ls_parquet_writer_finish(w), LS_OK);
        x = ls_parquet_writer_info(w)->columns;
        assert_int_equal(x[0].nans, 10);
        assert_null(x[0].min.ptr);
        assert_int_equal(x[1].nulls, 10);
        assert_null(x[1].max.ptr);
        f = memory_open(&m);
        ls_parquet_file_bounds(f, 0, 0, &b);
        assert_null(b.min.ptr);
        assert_int_equal(ls_parquet_file_load_index(f, 0, 0), LS_OK);
        ls_parquet_file_close(f);
        ls_parquet_writer_free(w);
        ls_columns_done(&c);
        ls_buf_done(&m.bytes);
        ls_schema_done(&schema);
}

/* --- refusals --------------------------------------------------------------------------------- */

/* Opens and reads everything there is; whatever happens must be an answer. */
static ls_err
read_all(struct memory *m)
{
        struct ls_parquet_limits limits = { .page_bytes = 1 << 22, .metadata_bytes = 1 << 22 };
        struct ls_parquet_source source = memory_source(m);
        struct ls_parquet_file *f = NULL;
        ls_err e = ls_parquet_file_open(&source, &limits, NULL, &f);

        for (uint32_t g = 0; e == LS_OK && g < ls_parquet_file_row_groups(f); g++) {
                struct ls_parquet_scan *s = NULL;
                const struct ls_vec *vecs;
                size_t n;

                e = ls_parquet_scan_open(f, g, 0, UINT64_MAX, NULL, 0, &s);
                while (e == LS_OK)
                        e = ls_parquet_scan_next(s, 1000, &vecs, &n);
                if (e == LS_END)
                        e = LS_OK;
                ls_parquet_scan_close(s);
        }
        ls_parquet_file_close(f);
        return e;
}

static void
test_refuses_what_is_no_parquet(void **state)
{
        struct memory m = { 0 };
        static const char *const inputs[] = {
                "",
                "PAR1",
                "PAR1PAR1PAR1",
                "this is not a Parquet file at all",
                "PAR1\xff\xff\xff\x7fPAR1",
                "PAR1\0\0\0\0PAR1",
        };

        ls_buf_init(&m.bytes, 1000);
        for (size_t i = 0; i < LS_COUNT(inputs); i++) {
                ls_buf_clear(&m.bytes);
                ls_buf_put(&m.bytes, inputs[i], i < 4 ? strlen(inputs[i]) : 12);
                assert_int_equal(read_all(&m), LS_CORRUPT);
        }
        ls_buf_clear(&m.bytes);
        ls_buf_put(&m.bytes, "PAR1\0\0\0\0PARE", 12);
        assert_int_equal(read_all(&m), LS_UNSUPPORTED);
        ls_buf_done(&m.bytes);
}

static void
test_damage_is_noticed(void **state)
{
        struct memory m = { 0 };
        struct ls_schema schema;
        struct ls_columns c;
        struct ls_parquet_writer *w;
        uint64_t body;
        unsigned refused = 0, tries = 0;

        make_wide_schema(&schema);
        ls_columns_init(&c, &schema);
        push_rows(&c, 40, 2);
        ls_buf_init(&m.bytes, 1 << 20);
        assert_int_equal(ls_parquet_writer_new(&schema, NULL,
                                               (struct ls_parquet_sink){ memory_append, &m }, &w),
                         LS_OK);
        assert_int_equal(ls_parquet_writer_row_group(w, &c), LS_OK);
        body = ls_parquet_writer_bytes(w);
        assert_int_equal(ls_parquet_writer_finish(w), LS_OK);
        ls_parquet_writer_free(w);
        assert_int_equal(read_all(&m), LS_OK);
        for (size_t at = 4; at < m.bytes.len; at += 1 + m.bytes.len / 4000) {
                uint8_t bit = (uint8_t)(1u << next_random() % 8);
                ls_err e;

                m.bytes.ptr[at] ^= bit;
                e = read_all(&m);
                m.bytes.ptr[at] ^= bit;
                if (at < body) {
                        tries++;
                        refused += e != LS_OK;
                }
        }
        /* checksums cover the pages; a header has bits that do not matter */
        assert_true(tries > 1000);
        assert_true(refused * 100 > tries * 95);
        for (size_t len = m.bytes.len - 1; len > 0; len -= 1 + len / 300) {
                struct memory cut = { .bytes = m.bytes };

                cut.bytes.len = len;
                assert_int_not_equal(read_all(&cut), LS_OK);
        }
        ls_columns_done(&c);
        ls_buf_done(&m.bytes);
        ls_schema_done(&schema);
}

static void
test_sink_failure_goes_up(void **state)
{
        struct ls_schema schema;
        struct ls_columns c;

        make_record_schema(&schema);
        ls_columns_init(&c, &schema);
        for (int i = 0; i < 100; i++)
                push_record(&c, i, 100);
        for (size_t fail_after = 1;; fail_after++) {
                struct memory m = { .fail_after = fail_after };
                struct ls_parquet_writer *w = NULL;
                ls_err e;

                ls_buf_init(&m.bytes, 1 << 20);
                e = ls_parquet_writer_new(&schema, NULL,
                                          (struct ls_parquet_sink){ memory_append, &m }, &w);
                if (e == LS_OK)
                        e = ls_parquet_writer_row_group(w, &c);
                if (e == LS_OK)
                        e = ls_parquet_writer_finish(w);
                ls_parquet_writer_free(w);
                ls_buf_done(&m.bytes);
                if (e == LS_OK) {
                        assert_true(fail_after > 20);
                        break;
                }
                assert_int_equal(e, LS_ENOSPC);
        }
        ls_columns_done(&c);
        ls_schema_done(&schema);
}

static void
test_limits(void **state)
{
        struct memory m = { 0 };
        struct ls_schema schema;
        struct ls_parquet_writer *w;
        struct ls_parquet_file *f = NULL;
        struct ls_parquet_limits limits = { .page_bytes = 10000 };
        struct ls_parquet_source source;
        struct ls_parquet_scan *s = NULL;
        const struct ls_vec *vecs;
        size_t n;
        ls_err e;

        write_records(&m, &schema, 2000, &w);
        source = memory_source(&m);
        assert_int_equal(ls_parquet_file_open(&source, &limits, NULL, &f), LS_OK);
        e = ls_parquet_scan_open(f, 0, 0, 100, NULL, 0, &s);
        if (e == LS_OK)
                e = ls_parquet_scan_next(s, 10, &vecs, &n);
        assert_int_equal(e, LS_TOO_LARGE);
        ls_parquet_scan_close(s);
        ls_parquet_file_close(f);
        limits = (struct ls_parquet_limits){ .footer_bytes = 100 };
        assert_int_equal(ls_parquet_file_open(&source, &limits, NULL, &f), LS_TOO_LARGE);
        limits = (struct ls_parquet_limits){ .metadata_bytes = 100 };
        assert_int_equal(ls_parquet_file_open(&source, &limits, NULL, &f), LS_TOO_LARGE);
        ls_parquet_writer_free(w);
        ls_buf_done(&m.bytes);
        ls_schema_done(&schema);
}

/* --- files of other writers ------------------------------------------------------------------- */

static bool
golden_value(struct ls_unshred *u, const char *name, ls_str column, size_t *ret_value,
             const struct ls_vec **ret_vec)
{
        const struct ls_schema *s = u->columns->schema;
        uint32_t node = ls_schema_child(s, LS_SCHEMA_ROOT, column);

        if (node == LS_NODE_NONE)
                fail_msg("%s: no column %.*s", name, LS_STR_ARG(column));
        *ret_vec = &u->columns->vecs[s->nodes[node].leaf];
        if (!ls_unshred_has(u, node)) {
                ls_unshred_skip(u, node);
                return false;
        }
        *ret_value = ls_unshred_value(u, node);
        return true;
}

static void
golden_tags(struct ls_unshred *u, int i)
{
        const struct ls_schema *s = u->columns->schema;
        uint32_t tags = ls_schema_child(s, LS_SCHEMA_ROOT, LS_STR("tags")), list = tags + 1;
        const struct ls_vec *v = &u->columns->vecs[s->nodes[tags].leaf];
        static const int counts[] = { 0, 0, 1, 2, 1, 3 };
        int items = 0;

        assert_int_equal(ls_unshred_has(u, tags), i % 6 != 0);
        assert_int_equal(ls_unshred_has(u, list), i % 6 > 1);
        if (i % 6 <= 1) {
                ls_unshred_skip(u, i % 6 == 0 ? tags : list);
                return;
        }
        do {
                if (ls_unshred_has(u, list + 1)) {
                        assert_int_equal(v->i32[ls_unshred_value(u, list + 1)], i + items);
                } else {
                        assert_true(i % 6 == 2 || (i % 6 == 5 && items == 1));
                        ls_unshred_skip(u, list + 1);
                }
                items++;
        } while (ls_unshred_more(u, list));
        assert_int_equal(items, counts[i % 6]);
}

/* The rows that golden/make.py gives by formula. */
static void
golden_row(struct ls_unshred *u, const char *name, int i)
{
        const struct ls_vec *v;
        char text[20];
        size_t at;

        assert_true(golden_value(u, name, LS_STR("id"), &at, &v));
        assert_int_equal(v->i64[at], i * 3);
        assert_int_equal(golden_value(u, name, LS_STR("num"), &at, &v), i % 5 != 2);
        if (i % 5 != 2)
                assert_int_equal(v->i32[at], i * i - 1000);
        assert_int_equal(golden_value(u, name, LS_STR("name"), &at, &v), i % 7 != 3);
        snprintf(text, sizeof text, "name-%d", i % 10);
        if (i % 7 == 4)
                text[0] = '\0';
        if (i % 7 != 3)
                assert_true(ls_span_eq(v->span[at], ls_span_of(text, strlen(text))));
        assert_true(golden_value(u, name, LS_STR("real"), &at, &v));
        assert_true(v->f64[at] == i * 0.5);
        assert_true(golden_value(u, name, LS_STR("flag"), &at, &v));
        assert_int_equal(v->u8[at], i % 3 == 0);
        golden_tags(u, i);
}

static void
check_golden(const char *name)
{
        struct memory m = { 0 };
        struct ls_parquet_file *f;
        char path[512];
        uint8_t chunk[4096];
        FILE *in;
        size_t n;
        int i = 0;

        snprintf(path, sizeof path, "%s/%s", golden_dir, name);
        in = fopen(path, "rb");
        assert_non_null(in);
        ls_buf_init(&m.bytes, 1 << 20);
        while ((n = fread(chunk, 1, sizeof chunk, in)) > 0)
                ls_buf_put(&m.bytes, chunk, n);
        fclose(in);
        f = memory_open(&m);
        assert_int_equal(ls_parquet_file_rows(f), 300);
        for (uint32_t g = 0; g < ls_parquet_file_row_groups(f); g++) {
                struct ls_parquet_row_group info;
                struct ls_columns c;
                struct ls_unshred u;

                ls_parquet_file_row_group(f, g, &info);
                read_rows(f, g, 0, info.rows, 64, &c);
                check_range(f, g, &c, info.rows / 3, info.rows / 3, 7);
                ls_unshred_init(&u, &c);
                for (; ls_unshred_row(&u); i++)
                        golden_row(&u, name, i);
                assert_false(u.failed);
                ls_unshred_done(&u);
                ls_columns_done(&c);
        }
        assert_int_equal(i, 300);
        ls_parquet_file_close(f);
        ls_buf_done(&m.bytes);
}

static void
test_golden_files(void **state)
{
        DIR *dir = opendir(golden_dir);
        struct dirent *entry;
        int files = 0;

        assert_non_null(dir);
        while ((entry = readdir(dir)) != NULL) {
                size_t len = strlen(entry->d_name);

                if (len > 8 && strcmp(entry->d_name + len - 8, ".parquet") == 0) {
                        check_golden(entry->d_name);
                        files++;
                }
        }
        closedir(dir);
        assert_true(files >= 9);
}

int
main(int argc, char **argv)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_round_trip_everything),
                cmocka_unit_test(test_round_trip_each_encoding),
                cmocka_unit_test(test_file_info),
                cmocka_unit_test(test_statistics_and_index),
                cmocka_unit_test(test_range_reads_few_bytes),
                cmocka_unit_test(test_nan_column),
                cmocka_unit_test(test_refuses_what_is_no_parquet),
                cmocka_unit_test(test_damage_is_noticed),
                cmocka_unit_test(test_sink_failure_goes_up),
                cmocka_unit_test(test_limits),
                cmocka_unit_test(test_golden_files),
        };

        golden_dir = argc > 1 ? argv[1] : "golden";
        return cmocka_run_group_tests(tests, NULL, NULL);
}
