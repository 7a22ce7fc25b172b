/* parquet_samples.c - writes Parquet files of every type, nesting, encoding and codec, each beside
 * the rows as JSON lines, for readers of others to compare (test_parquet.py; B045, B046).
 *
 *      parquet_samples DIR
 *
 * In the JSON, bytes are hexadecimal, a double that JSON cannot say is its name, and a map is a
 * list of [key, value].
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/column/shred.h"
#include "formats/parquet/writer.h"

#define ROWS       1200
#define GROUP_ROWS 500

/* --- files --- */

static FILE *
file_open(const char *folder, const char *name, const char *end)
{
        char path[4096];
        FILE *f;

        snprintf(path, sizeof path, "%s/%s.%s", folder, name, end);
        f = fopen(path, "wb");
        if (f == NULL) {
                fprintf(stderr, "%s: %s\n", path, strerror(errno));
                exit(1);
        }
        return f;
}

static ls_err
file_append(void *ctx, ls_span bytes)
{
        return fwrite(bytes.ptr, 1, bytes.len, ctx) == bytes.len ? LS_OK : LS_EIO;
}

static void
must(ls_err e, const char *what)
{
        if (e != LS_OK) {
                fprintf(stderr, "%s: %s\n", what, ls_err_name(e));
                exit(1);
        }
}

/* --- values, of a seed --- */

static uint64_t seed;

static uint64_t
next_random(uint64_t below)
{
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        return (seed >> 11) % below;
}

static void
json_double(FILE *json, double x)
{
        if (isnan(x))
                fputs("\"NaN\"", json);
        else if (isinf(x))
                fputs(x > 0 ? "\"Infinity\"" : "\"-Infinity\"", json);
        else
                fprintf(json, "%.17g", x);
}

/* `key` above 0 makes the text another one than that of any other key. */
static void
push_bytes(struct ls_vec *v, unsigned key, FILE *json)
{
        static const char *const words[] = { "",     "a",   "grün", "\xf0\x9f\x8e\xb5 note",
                                             "same", "same" };
        char text[64];
        int n = snprintf(text, sizeof text, "%s%.*u", words[next_random(LS_COUNT(words))],
                         (int)next_random(2), key > 0 ? key : (unsigned)next_random(1000));

        ls_vec_value_copy(v, ls_span_of(text, (size_t)n));
        fputc('"', json);
        if (v->type.logical == LS_COL_STRING)
                fwrite(text, 1, (size_t)n, json);
        for (int i = 0; i < n && v->type.logical != LS_COL_STRING; i++)
                fprintf(json, "%02x", (unsigned)(uint8_t)text[i]);
        fputc('"', json);
}

static void
push_fixed(struct ls_vec *v, FILE *json)
{
        uint8_t bytes[16];

        fputc('"', json);
        for (size_t i = 0; i < v->value_bytes; i++) {
                bytes[i] = (uint8_t)next_random(i % 2 ? 3 : 256);
                fprintf(json, "%02x", (unsigned)bytes[i]);
        }
        fputc('"', json);
        ls_vec_value_fixed(v, bytes);
}

static double
some_double(void)
{
        static const double special[] = { NAN, INFINITY, -INFINITY, 0.0, -0.0, 1e300, -1e-300 };

        if (next_random(10) == 0)
                return special[next_random(LS_COUNT(special))];
        return (double)(int64_t)next_random(1 << 20) / 8 - 1000;
}

static void
push_value(struct ls_vec *v, unsigned key, FILE *json)
{
        int64_t n = (int64_t)next_random(3) == 0 ? (int64_t)next_random(7)
                                                 : (int64_t)next_random(1u << 31) - (1 << 30);
        double x;

        switch (v->type.physical) {
        case LS_COL_BOOL:
                ls_vec_value_bool(v, n & 1);
                fputs(n & 1 ? "true" : "false", json);
                break;
        case LS_COL_INT32:
                n = v->type.logical == LS_COL_ANY ? n : n % 99999; /* dates that others can show */
                ls_vec_value_i32(v, (int32_t)n);
                fprintf(json, "%lld", (long long)n);
                break;
        case LS_COL_INT64:
                n *= 1000003;
                ls_vec_value_i64(v, n);
                fprintf(json, "%lld", (long long)n);
                break;
        case LS_COL_FLOAT:
                x = (float)some_double();
                ls_vec_value_f32(v, (float)x);
                json_double(json, x);
                break;
        case LS_COL_DOUBLE:
                x = some_double();
                ls_vec_value_f64(v, x);
                json_double(json, x);
                break;
        case LS_COL_BYTES: push_bytes(v, key, json); break;
        case LS_COL_FIXED: push_fixed(v, json); break;
        case LS_COL_INT96: break; /* never written */
        }
}

/* --- rows --- */

static void push_node(struct ls_shred *s, uint32_t n, FILE *json);

/* The children of a group: a JSON object, or for a map's entry [key, value], or for an item of a
 * list its element alone. */
static void
push_children(struct ls_shred *s, uint32_t group, const char *open, const char *close, bool named,
              FILE *json)
{
        const struct ls_schema_node *nodes = s->columns->schema->nodes;
        const char *comma = "";

        fputs(open, json);
        for (uint32_t n = group + 1; n < nodes[group].end; n = nodes[n].end, comma = ",") {
                fputs(comma, json);
                if (named)
                        fprintf(json, "\"%.*s\":", (int)nodes[n].name.len, nodes[n].name.ptr);
                push_node(s, n, json);
        }
        fputs(close, json);
}

/* The one repeated child of a LIST or MAP group. */
static void
push_items(struct ls_shred *s, uint32_t repeated, bool is_map, FILE *json)
{
        uint64_t items = next_random(4);

        fputc('[', json);
        if (items == 0)
                ls_shred_null(s, repeated);
        for (uint64_t i = 0; i < items; i++) {
                fputs(i > 0 ? "," : "", json);
                ls_shred_item(s, repeated);
                push_children(s, repeated, is_map ? "[" : "", is_map ? "]" : "", false, json);
                ls_shred_leave(s);
        }
        fputc(']', json);
}

static void
push_node(struct ls_shred *s, uint32_t n, FILE *json)
{
        const struct ls_schema_node *node = &s->columns->schema->nodes[n];
        static unsigned keys;

        if (node->repetition == LS_COL_OPTIONAL && next_random(4) == 0) {
                ls_shred_null(s, n);
                fputs("null", json);
        } else if (!node->is_group) {
                push_value(ls_shred_value(s, n), ls_str_eq(node->name, LS_STR("key")) ? ++keys : 0,
                           json);
        } else {
                ls_shred_enter(s, n);
                if (node->type.logical == LS_COL_LIST || node->type.logical == LS_COL_MAP)
                        push_items(s, n + 1, node->type.logical == LS_COL_MAP, json);
                else
                        push_children(s, n, "{", "}", true, json);
                ls_shred_leave(s);
        }
}

static void
write_rows(const char *folder, const char *name, const struct ls_schema *schema,
           const struct ls_parquet_writer_options *options, size_t rows)
{
        FILE *file = file_open(folder, name, "parquet"), *json = file_open(folder, name, "jsonl");
        struct ls_parquet_writer *w;
        struct ls_columns columns;
        struct ls_shred s;

        must(ls_parquet_writer_new(schema, options,
                                   (struct ls_parquet_sink){ .append = file_append, .ctx = file },
                                   &w),
             name);
        ls_columns_init(&columns, schema);
        for (size_t done = 0; done < rows;) {
                size_t end = LS_MIN(done + GROUP_ROWS, rows);

                ls_columns_clear(&columns);
                ls_shred_init(&s, &columns);
                for (; done < end; done++) {
                        ls_shred_row(&s);
                        push_children(&s, LS_SCHEMA_ROOT, "{", "}\n", true, json);
                }
                must(ls_parquet_writer_row_group(w, &columns), name);
        }
        must(ls_parquet_writer_finish(w), name);
        ls_parquet_writer_free(w);
        ls_columns_done(&columns);
        if (fclose(file) != 0 || fclose(json) != 0)
                must(LS_EIO, name);
}

/* --- the samples --- */

static void
make_schema(struct ls_schema *s)
{
        static const struct ls_col_type decimal = {
                .physical = LS_COL_INT32, .logical = LS_COL_DECIMAL, .precision = 9, .scale = 2
        };
        const struct {
                const char *name;
                struct ls_col_type type;
        } leaves[] = { { "flag", LS_TYPE_BOOL },    { "i", LS_TYPE_INT },
                       { "l", LS_TYPE_LONG },       { "f", LS_TYPE_FLOAT },
                       { "d", LS_TYPE_DOUBLE },     { "s", LS_TYPE_STRING },
                       { "b", LS_TYPE_BINARY },     { "fixed", LS_TYPE_FIXED(5) },
                       { "uuid", LS_TYPE_UUID },    { "dec", decimal },
                       { "day", LS_TYPE_DATE },     { "time", LS_TYPE_LONG },
                       { "ts", LS_TYPE_TIMESTAMP }, { "tstz", LS_TYPE_TIMESTAMPTZ } };
        int32_t id = 1;
        uint32_t at;

        ls_schema_init(s);
        for (size_t i = 0; i < LS_COUNT(leaves); i++)
                ls_schema_add_leaf(s, LS_SCHEMA_ROOT, ls_str_of(leaves[i].name),
                                   i % 3 == 0 ? LS_COL_REQUIRED : LS_COL_OPTIONAL, leaves[i].type,
                                   id++);
        at = ls_schema_add_list(s, LS_SCHEMA_ROOT, LS_STR("structs"), LS_COL_OPTIONAL, id++);
        at = ls_schema_add_group(s, at, LS_STR("element"), LS_COL_OPTIONAL, LS_COL_ANY, id++);
        ls_schema_add_leaf(s, at, LS_STR("a"), LS_COL_OPTIONAL, LS_TYPE_INT, id++);
        ls_schema_add_leaf(s, at, LS_STR("s"), LS_COL_REQUIRED, LS_TYPE_STRING, id++);
        at = ls_schema_add_list(s, LS_SCHEMA_ROOT, LS_STR("lists"), LS_COL_REQUIRED, id++);
        at = ls_schema_add_list(s, at, LS_STR("element"), LS_COL_OPTIONAL, id++);
        ls_schema_add_leaf(s, at, LS_STR("element"), LS_COL_OPTIONAL, LS_TYPE_LONG, id++);
        at = ls_schema_add_map(s, LS_SCHEMA_ROOT, LS_STR("map"), LS_COL_OPTIONAL, id++);
        ls_schema_add_leaf(s, at, LS_STR("key"), LS_COL_REQUIRED, LS_TYPE_STRING, id++);
        at = ls_schema_add_list(s, at, LS_STR("value"), LS_COL_OPTIONAL, id++);
        ls_schema_add_leaf(s, at, LS_STR("element"), LS_COL_REQUIRED, LS_TYPE_INT, id++);
        must(ls_schema_seal(s, NULL), "schema");
}

/* B046: one column of doubles, rows as given. */
static void
write_doubles(const char *folder, const char *name, const double *values, size_t count,
              size_t nulls)
{
        FILE *file = file_open(folder, name, "parquet");
        struct ls_parquet_writer *w;
        struct ls_columns columns;
        struct ls_schema schema;

        ls_schema_init(&schema);
        ls_schema_add_leaf(&schema, LS_SCHEMA_ROOT, LS_STR("x"), LS_COL_OPTIONAL, LS_TYPE_DOUBLE,
                           1);
        must(ls_schema_seal(&schema, NULL), name);
        must(ls_parquet_writer_new(&schema, NULL,
                                   (struct ls_parquet_sink){ .append = file_append, .ctx = file },
                                   &w),
             name);
        ls_columns_init(&columns, &schema);
        for (size_t i = 0; i < count; i++) {
                ls_vec_slot(&columns.vecs[0], 0, 1);
                ls_vec_value_f64(&columns.vecs[0], values[i]);
        }
        for (size_t i = 0; i < nulls; i++)
                ls_vec_row_null(&columns.vecs[0]);
        must(ls_parquet_writer_row_group(w, &columns), name);
        must(ls_parquet_writer_finish(w), name);
        ls_parquet_writer_free(w);
        ls_columns_done(&columns);
        ls_schema_done(&schema);
        if (fclose(file) != 0)
                must(LS_EIO, name);
}

int
main(int argc, char **argv)
{
        static const struct {
                const char *name;
                enum ls_parquet_codec codec;
        } codecs[] = { { "none", LS_PARQUET_UNCOMPRESSED },
                       { "snappy", LS_PARQUET_SNAPPY },
                       { "gzip", LS_PARQUET_GZIP },
                       { "lz4", LS_PARQUET_LZ4_RAW },
                       { "zstd", LS_PARQUET_ZSTD } };
        static const struct {
                const char *name;
                uint32_t encodings;
        } encodings[] = { { "common", 0 },
                          { "all", LS_PARQUET_ENCODINGS_ALL },
                          { "deltas", LS_PARQUET_ENCODINGS_ALL &
                                              ~LS_PARQUET_BIT(LS_PARQUET_BYTE_STREAM_SPLIT) } };
        struct ls_schema schema;
        char name[64];

        if (argc != 2) {
                fputs("parquet_samples DIR\n", stderr);
                return 2;
        }
        make_schema(&schema);
        for (size_t c = 0; c < LS_COUNT(codecs); c++)
                for (size_t e = 0; e < LS_COUNT(encodings); e++) {
                        struct ls_parquet_writer_options options = { .codec = codecs[c].codec,
                                                                     .encodings =
                                                                             encodings[e].encodings,
                                                                     .page_bytes = 4096,
                                                                     .page_rows = 257 };

                        seed = 88172645463325252ULL + c * 1000 + e;
                        snprintf(name, sizeof name, "%s-%s", codecs[c].name, encodings[e].name);
                        write_rows(argv[1], name, &schema, &options, ROWS);
                }
        ls_schema_done(&schema);
        write_doubles(argv[1], "doubles-nan", (double[]){ NAN }, 1, 0);
        write_doubles(argv[1], "doubles-nan-1", (double[]){ NAN, 1.0 }, 2, 0);
        write_doubles(argv[1], "doubles-1-nan", (double[]){ 1.0, NAN }, 2, 0);
        write_doubles(argv[1], "doubles-zeros", (double[]){ -0.0, 0.0 }, 2, 0);
        write_doubles(argv[1], "doubles-nulls", NULL, 0, 3);
        return 0;
}
