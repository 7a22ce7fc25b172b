/* iceberg/table_test.c - proves: schemas, specs and table metadata round-trip as JSON and wrong
 * ones are refused; manifests and lists have the ids, names, types and nullability of the
 * specification's tables (B039); partition tuples are typed by the transform's result (B041);
 * numbers are inherited as specified; every damaged byte is noticed or harmless. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

#include "base/mem.h"
#include "formats/iceberg/limits.h"
#include "formats/iceberg/metadata.h"

/* JSON is written with ' for ", to be readable in C. The caller frees. */
static char *
json(const char *quoted)
{
        char *s = ls_strdup(quoted);

        for (char *at = s; *at != 0; at++)
                if (*at == '\'')
                        *at = '"';
        return s;
}

/* ---- schemas, specs, orders ----------------------------------------------------------------- */

static const char nested_schema[] =
        "{'type':'struct','schema-id':3,'identifier-field-ids':[1],'fields':["
        "{'id':1,'name':'id','required':true,'type':'long','doc':'the key'},"
        "{'id':2,'name':'tags','required':false,'type':{'type':'list','element-id':5,"
        "'element':{'type':'struct','fields':["
        "{'id':6,'name':'k','required':true,'type':'string'}]},'element-required':true}},"
        "{'id':3,'name':'m','required':false,'type':{'type':'map','key-id':7,'key':'string',"
        "'value-id':8,'value':'decimal(9, 2)','value-required':false}},"
        "{'id':4,'name':'ts','required':false,'type':'timestamptz','initial-default':null,"
        "'write-default':'2020-01-01T00:00:00+00:00'}]}";

static void
test_schema_round_trip(void **state)
{
        LS_AUTO(ls_free) char *text = json(nested_schema);
        struct ls_iceberg_schema s, again;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        assert_int_equal(ls_iceberg_schema_parse(ls_str_of(text), &a, &s, NULL), LS_OK);
        assert_int_equal(s.schema_id, 3);
        assert_int_equal(ls_iceberg_schema_last_id(&s), 8);
        assert_true(ls_str_is(ls_iceberg_field_by_id(&s, 6)->name, "k"));
        assert_int_equal(ls_iceberg_field_by_id(&s, 8)->type.scale, 2);
        assert_true(ls_iceberg_field_by_id(&s, 7)->required);
        assert_null(ls_iceberg_field_by_id(&s, 9));
        assert_int_equal(ls_iceberg_field_by_name(&s, LS_STR("ts"))->id, 4);
        assert_null(ls_iceberg_field_by_name(&s, LS_STR("k")));
        ls_iceberg_schema_print(&s, &b);
        assert_string_equal(ls_buf_cstr(&b), text);
        assert_int_equal(ls_iceberg_schema_parse(ls_str_of(ls_buf_cstr(&b)), &a, &again, NULL),
                         LS_OK);
        assert_true(ls_iceberg_schema_same(&s, &again));
        ls_buf_clear(&b);
        ls_iceberg_name_mapping_print(&s, &b);
        assert_non_null(strstr(ls_buf_cstr(&b), "{\"field-id\":5,\"names\":[\"element\"]"));
        ls_buf_done(&b);
        ls_arena_done(&a);
}

static void
test_schema_refusals(void **state)
{
        static const char *const bad[] = {
                "",
                "[]",
                "{",
                "{'type':'struct'}",
                "{'fields':[3]}",
                "{'fields':[{'id':1,'name':'a','required':true}]}",
                "{'fields':[{'id':1,'name':'a','type':'int'}]}",
                "{'fields':[{'name':'a','required':true,'type':'int'}]}",
                "{'fields':[{'id':1,'required':true,'type':'int'}]}",
                "{'fields':[{'id':1,'name':'a','required':true,'type':'integer'}]}",
                "{'fields':[{'id':4294967297,'name':'a','required':true,'type':'int'}]}",
                ("{'fields':[{'id':1,'name':'a','required':true,'type':'int'},"
                 "{'id':1,'name':'b','required':true,'type':'int'}]}"),
                ("{'fields':[{'id':1,'name':'a','required':true,'type':'int'},"
                 "{'id':2,'name':'a','required':true,'type':'int'}]}"),
                "{'fields':[],'identifier-field-ids':[1]}",
                ("{'fields':[{'id':1,'name':'a','required':true,"
                 "'type':{'type':'list','element-id':1,'element':'int','element-required':true}}]"
                 "}"),
                "{'fields':[{'id':1,'name':'a','required':true,'type':{'type':'list'}}]}",
                "{'fields':[{'id':1,'name':'a','required':true,'type':{'type':'map'}}]}",
        };
        struct ls_iceberg_schema s;
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                LS_AUTO(ls_free) char *text = json(bad[i]);
                struct ls_errinfo info = { "" };

                assert_int_equal(ls_iceberg_schema_parse(ls_str_of(text), &a, &s, &info),
                                 LS_INVALID);
                assert_true(info.text[0] != 0);
        }
        ls_arena_done(&a);
}

static void
test_schema_too_deep(void **state)
{
        struct ls_iceberg_schema s;
        struct ls_arena a;
        struct ls_buf b;
        char *text;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        ls_buf_put_text(&b, "{'fields':[{'id':0,'name':'a','required':true,'type':");
        for (int i = 1; i < LS_ICEBERG_DEPTH_MAX + 2; i++)
                ls_buf_printf(&b,
                              "{'type':'list','element-required':true,'element-id':%d,"
                              "'element':",
                              i);
        ls_buf_put_text(&b, "'int'");
        for (int i = 1; i < LS_ICEBERG_DEPTH_MAX + 2; i++)
                ls_buf_put_text(&b, "}");
        ls_buf_put_text(&b, "}]}");
        text = json(ls_buf_cstr(&b));
        assert_int_equal(ls_iceberg_schema_parse(ls_str_of(text), &a, &s, NULL), LS_TOO_LARGE);
        ls_free(text);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

static void
test_spec_json(void **state)
{
        LS_AUTO(ls_free)
        char *text =
                json("{'spec-id':1,'fields':["
                     "{'source-id':4,'field-id':1000,'name':'ts_hour','transform':'hour'},"
                     "{'source-id':1,'field-id':1001,'name':'id_b','transform':'bucket[16]'}]}");
        LS_AUTO(ls_free)
        char *order = json("{'order-id':1,'fields':[{'transform':'identity','source-id':1,"
                           "'direction':'desc','null-order':'nulls-last'}]}");
        struct ls_iceberg_sort_order o;
        struct ls_iceberg_spec s, v3;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        assert_int_equal(ls_iceberg_spec_parse(ls_str_of(text), &a, &s, NULL), LS_OK);
        assert_int_equal(s.fields[1].transform.param, 16);
        ls_iceberg_spec_print(&s, &b);
        assert_string_equal(ls_buf_cstr(&b), text);
        {
                LS_AUTO(ls_free)
                char *ids = json("{'spec-id':1,'fields':[{'source-ids':[4],'field-id':1000,"
                                 "'name':'ts_hour','transform':'hour'}]}");

                assert_int_equal(ls_iceberg_spec_parse(ls_str_of(ids), &a, &v3, NULL), LS_OK);
                assert_int_equal(v3.fields[0].source_id, 4);
                assert_false(ls_iceberg_spec_same(&s, &v3));
        }
        assert_int_equal(ls_iceberg_spec_parse(LS_STR("{\"fields\":[]}"), &a, &s, NULL),
                         LS_INVALID);
        assert_int_equal(ls_iceberg_sort_order_parse(ls_str_of(order), &a, &o, NULL), LS_OK);
        assert_true(o.fields[0].descending && o.fields[0].nulls_last);
        ls_buf_clear(&b);
        ls_iceberg_sort_order_print(&o, &b);
        assert_string_equal(ls_buf_cstr(&b), order);
        assert_int_equal(ls_iceberg_sort_order_parse(
                                 LS_STR("{\"order-id\":1,\"fields\":[{\"transform\":\"identity\","
                                        "\"source-id\":1,\"direction\":\"up\","
                                        "\"null-order\":\"nulls-last\"}]}"),
                                 &a, &o, NULL),
                         LS_INVALID);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

static void
test_spec_check(void **state)
{
        LS_AUTO(ls_free) char *text = json(nested_schema);
        struct ls_iceberg_partition_field fields[2] = {
                { 4, 1000, LS_STR("h"), { .kind = LS_ICEBERG_HOUR } },
                { 1, 1001, LS_STR("b"), { .kind = LS_ICEBERG_BUCKET, .param = 4 } },
        };
        struct ls_iceberg_spec spec = { 1, 2, fields };
        struct ls_iceberg_schema s;
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        assert_int_equal(ls_iceberg_schema_parse(ls_str_of(text), &a, &s, NULL), LS_OK);
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_OK);
        fields[1].field_id = 1000;
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_INVALID);
        fields[1].field_id = 1001;
        fields[1].name = LS_STR("h");
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_INVALID);
        fields[1].name = LS_STR("b");
        fields[1].source_id = 6; /* inside a list */
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_INVALID);
        fields[1].source_id = 99;
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_INVALID);
        fields[1].transform.kind = LS_ICEBERG_VOID; /* of a dropped column: fine */
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_OK);
        fields[0].source_id = 1; /* the hour of a long */
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_INVALID);
        fields[0].transform.kind = LS_ICEBERG_OTHER;
        assert_int_equal(ls_iceberg_spec_check(&spec, &s, NULL), LS_UNSUPPORTED);
        ls_arena_done(&a);
}

/* ---- manifests ------------------------------------------------------------------------------ */

#define FIELD(i, n, ...)                                              \
        {                                                             \
                .id = (i), .name = LS_STR(n), .type = { __VA_ARGS__ } \
        }
static const struct ls_iceberg_field wide_fields[] = {
        FIELD(1, "b", .kind = LS_ICEBERG_BOOLEAN),
        FIELD(2, "i", .kind = LS_ICEBERG_INT),
        FIELD(3, "l", .kind = LS_ICEBERG_LONG),
        FIELD(4, "f", .kind = LS_ICEBERG_FLOAT),
        FIELD(5, "d", .kind = LS_ICEBERG_DOUBLE),
        FIELD(6, "dec", .kind = LS_ICEBERG_DECIMAL, .precision = 38, .scale = 2),
        FIELD(7, "date", .kind = LS_ICEBERG_DATE),
        FIELD(8, "time", .kind = LS_ICEBERG_TIME),
        FIELD(9, "ts", .kind = LS_ICEBERG_TIMESTAMP),
        FIELD(10, "tz", .kind = LS_ICEBERG_TIMESTAMPTZ),
        FIELD(11, "s", .kind = LS_ICEBERG_STRING),
        FIELD(12, "u", .kind = LS_ICEBERG_UUID),
        FIELD(13, "x", .kind = LS_ICEBERG_FIXED, .fixed_bytes = 3),
        FIELD(14, "bin", .kind = LS_ICEBERG_BINARY),
};
#define WIDE LS_COUNT(wide_fields)
static const struct ls_iceberg_schema wide_schema = { .field_count = WIDE, .fields = wide_fields };

/* identity of every type, and one of each transform */
static struct ls_iceberg_spec
wide_spec(struct ls_iceberg_partition_field fields[WIDE + 7])
{
        static const struct ls_iceberg_transform others[] = {
                { .kind = LS_ICEBERG_BUCKET, .param = 16 },
                { .kind = LS_ICEBERG_TRUNCATE, .param = 4 },
                { .kind = LS_ICEBERG_YEAR },
                { .kind = LS_ICEBERG_MONTH },
                { .kind = LS_ICEBERG_DAY },
                { .kind = LS_ICEBERG_HOUR },
                { .kind = LS_ICEBERG_VOID },
        };
        static const int32_t sources[] = { 3, 11, 10, 10, 10, 10, 12 };
        static const char *const names[] = { "l_bucket", "s_trunc", "y", "m", "day", "h", "v" };

        for (uint32_t i = 0; i < WIDE; i++)
                fields[i] = (struct ls_iceberg_partition_field){ wide_fields[i].id,
                                                                 (int32_t)(1000 + i),
                                                                 wide_fields[i].name,
                                                                 { .kind = LS_ICEBERG_IDENTITY } };
        for (uint32_t i = 0; i < LS_COUNT(others); i++)
                fields[WIDE + i] =
                        (struct ls_iceberg_partition_field){ sources[i], (int32_t)(1000 + WIDE + i),
                                                             ls_str_of(names[i]), others[i] };
        return (struct ls_iceberg_spec){ 5, WIDE + 7, fields };
}

static void
wide_tuple(struct ls_iceberg_value t[WIDE + 7])
{
        static const struct ls_iceberg_value values[WIDE] = {
                { .i = 1 },
                { .i = INT32_MIN },
                { .i = INT64_MAX },
                { .d = 1.5 },
                { .d = -2.25 },
                { .dec = -12345 },
                { .i = -1 },
                { .i = 86399999999 },
                { .i = INT64_MIN },
                { .i = -1000000 },
                { .bytes = { (const uint8_t *)"h\xc3\xa9llo", 6 } },
                { .bytes = { (const uint8_t *)"0123456789abcdef", 16 } },
                { .bytes = { (const uint8_t *)"xyz", 3 } },
                { .bytes = { (const uint8_t *)"\0\xff", 2 } },
        };

        memcpy(t, values, sizeof values);
        t[WIDE + 0] = ls_iceberg_int(7);
        t[WIDE + 1] = ls_iceberg_bytes(ls_span_of("h\xc3\xa9ll", 5));
        t[WIDE + 2] = t[WIDE + 3] = t[WIDE + 4] = t[WIDE + 5] = ls_iceberg_int(-1);
        t[WIDE + 6] = LS_ICEBERG_NULL;
}

static struct ls_iceberg_entry
added_entry(const char *path, const struct ls_iceberg_value *tuple, int64_t rows)
{
        struct ls_iceberg_entry e = { .status = LS_ICEBERG_ADDED,
                                      .snapshot_id = LS_ICEBERG_NONE,
                                      .sequence_number = LS_ICEBERG_NONE,
                                      .file_sequence_number = LS_ICEBERG_NONE };

        ls_iceberg_data_file_init(&e.file);
        e.file.path = ls_str_of(path);
        e.file.format = LS_STR("PARQUET");
        e.file.partition = tuple;
        e.file.record_count = rows;
        e.file.file_bytes = 100 * rows;
        return e;
}

/* Name, id, Avro type and nullability of the version 2 tables, written down apart from the code. */
struct want {
        const char *name;
        int32_t id;
        enum ls_avro_kind kind;
        bool required;
        int32_t key_id, value_id;
};

static void
assert_columns(const struct ls_avro_type *record, const struct want *want, size_t count)
{
        assert_int_equal(record->kind, LS_AVRO_RECORD);
        assert_int_equal(record->count, count);
        for (size_t i = 0; i < count; i++) {
                const struct ls_avro_field *f = ls_avro_field_by_id(record, want[i].id);
                const struct ls_avro_type *t;
                int null;

                assert_non_null(f);
                assert_true(ls_str_is(f->name, want[i].name));
                t = ls_avro_unwrap(f->type, &null);
                assert_int_equal(null, want[i].required ? -1 : 0);
                assert_true(want[i].required || ls_str_is(f->default_json, "null"));
                assert_int_equal(t->kind, want[i].kind);
                if (want[i].key_id != 0) {
                        assert_int_equal(t->logical, LS_AVRO_MAP_ARRAY);
                        assert_int_equal(t->items->fields[0].field_id, want[i].key_id);
                        assert_int_equal(t->items->fields[1].field_id, want[i].value_id);
                } else if (want[i].value_id != 0) {
                        assert_int_equal(t->element_id, want[i].value_id);
                }
        }
}

static const struct want entry_want[] = {
        { "status", 0, LS_AVRO_INT, true, 0, 0 },
        { "snapshot_id", 1, LS_AVRO_LONG, false, 0, 0 },
        { "sequence_number", 3, LS_AVRO_LONG, false, 0, 0 },
        { "file_sequence_number", 4, LS_AVRO_LONG, false, 0, 0 },
        { "data_file", 2, LS_AVRO_RECORD, true, 0, 0 },
};
static const struct want file_want[] = {
        { "content", 134, LS_AVRO_INT, true, 0, 0 },
        { "file_path", 100, LS_AVRO_STRING, true, 0, 0 },
        { "file_format", 101, LS_AVRO_STRING, true, 0, 0 },
        { "partition", 102, LS_AVRO_RECORD, true, 0, 0 },
        { "record_count", 103, LS_AVRO_LONG, true, 0, 0 },
        { "file_size_in_bytes", 104, LS_AVRO_LONG, true, 0, 0 },
        { "column_sizes", 108, LS_AVRO_ARRAY, false, 117, 118 },
        { "value_counts", 109, LS_AVRO_ARRAY, false, 119, 120 },
        { "null_value_counts", 110, LS_AVRO_ARRAY, false, 121, 122 },
        { "nan_value_counts", 137, LS_AVRO_ARRAY, false, 138, 139 },
        { "lower_bounds", 125, LS_AVRO_ARRAY, false, 126, 127 },
        { "upper_bounds", 128, LS_AVRO_ARRAY, false, 129, 130 },
        { "key_metadata", 131, LS_AVRO_BYTES, false, 0, 0 },
        { "split_offsets", 132, LS_AVRO_ARRAY, false, 0, 133 },
        { "equality_ids", 135, LS_AVRO_ARRAY, false, 0, 136 },
        { "sort_order_id", 140, LS_AVRO_INT, false, 0, 0 },
};
static const struct want line_want[] = {
        { "manifest_path", 500, LS_AVRO_STRING, true, 0, 0 },
        { "manifest_length", 501, LS_AVRO_LONG, true, 0, 0 },
        { "partition_spec_id", 502, LS_AVRO_INT, true, 0, 0 },
        { "content", 517, LS_AVRO_INT, true, 0, 0 },
        { "sequence_number", 515, LS_AVRO_LONG, true, 0, 0 },
        { "min_sequence_number", 516, LS_AVRO_LONG, true, 0, 0 },
        { "added_snapshot_id", 503, LS_AVRO_LONG, true, 0, 0 },
        { "added_files_count", 504, LS_AVRO_INT, true, 0, 0 },
        { "existing_files_count", 505, LS_AVRO_INT, true, 0, 0 },
        { "deleted_files_count", 506, LS_AVRO_INT, true, 0, 0 },
        { "added_rows_count", 512, LS_AVRO_LONG, true, 0, 0 },
        { "existing_rows_count", 513, LS_AVRO_LONG, true, 0, 0 },
        { "deleted_rows_count", 514, LS_AVRO_LONG, true, 0, 0 },
        { "partitions", 507, LS_AVRO_ARRAY, false, 0, 508 },
        { "key_metadata", 519, LS_AVRO_BYTES, false, 0, 0 },
};
static const struct want summary_want[] = {
        { "contains_null", 509, LS_AVRO_BOOLEAN, true, 0, 0 },
        { "contains_nan", 518, LS_AVRO_BOOLEAN, false, 0, 0 },
        { "lower_bound", 510, LS_AVRO_BYTES, false, 0, 0 },
        { "upper_bound", 511, LS_AVRO_BYTES, false, 0, 0 },
};

static void
assert_meta(const struct ls_avro_reader *r, const char *key, const char *want)
{
        assert_true(ls_span_eq(ls_avro_reader_meta(r, key), ls_span_of(want, strlen(want))));
}

/* Writes a manifest of one wide entry. */
static struct ls_iceberg_manifest_file
write_wide(struct ls_buf *b, struct ls_arena *a, enum ls_avro_codec codec)
{
        struct ls_iceberg_partition_field fields[WIDE + 7];
        struct ls_iceberg_spec spec = wide_spec(fields);
        struct ls_iceberg_manifest_options o = { .format_version = 2,
                                                 .schema = &wide_schema,
                                                 .spec = &spec,
                                                 .snapshot_id = 77,
                                                 .codec = codec };
        static const struct ls_iceberg_count counts[] = { { 1, 10 }, { 3, INT64_MAX } };
        static const struct ls_iceberg_bound bounds[] = {
                { 3, { (const uint8_t *)"\1\0\0\0\0\0\0\0", 8 } },
                { 11, { (const uint8_t *)"", 0 } }
        };
        static const int64_t offsets[] = { 4, 1000 };
        struct ls_iceberg_value tuple[WIDE + 7];
        struct ls_iceberg_manifest_writer *w;
        struct ls_iceberg_manifest_file line;
        struct ls_iceberg_entry e;

        wide_tuple(tuple);
        e = added_entry("file:///t/data/1.parquet", tuple, 10);
        e.file.column_sizes = e.file.value_counts = e.file.null_counts = e.file.nan_counts =
                (struct ls_iceberg_counts){ counts, 2 };
        e.file.lower_bounds = e.file.upper_bounds = (struct ls_iceberg_bounds){ bounds, 2 };
        e.file.split_offsets = (struct ls_iceberg_longs){ offsets, 2 };
        e.file.sort_order_id = 0;
        assert_int_equal(ls_iceberg_manifest_new(b, &o, &w), LS_OK);
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_OK);
        assert_int_equal(ls_iceberg_manifest_finish(w, a, &line), LS_OK);
        ls_iceberg_manifest_free(w);
        line.path = LS_STR("file:///t/metadata/m.avro");
        return line;
}

/* B039, B041 */
static void
test_manifest_schema(void **state)
{
        static const enum ls_avro_kind partition_kinds[WIDE + 7] = {
                LS_AVRO_BOOLEAN, LS_AVRO_INT,   LS_AVRO_LONG,  LS_AVRO_FLOAT, LS_AVRO_DOUBLE,
                LS_AVRO_FIXED,   LS_AVRO_INT,   LS_AVRO_LONG,  LS_AVRO_LONG,  LS_AVRO_LONG,
                LS_AVRO_STRING,  LS_AVRO_FIXED, LS_AVRO_FIXED, LS_AVRO_BYTES, LS_AVRO_INT,
                LS_AVRO_STRING,  LS_AVRO_INT,   LS_AVRO_INT,   LS_AVRO_INT,   LS_AVRO_INT,
                LS_AVRO_FIXED,
        };
        const struct ls_avro_type *root, *file, *tuple;
        struct ls_avro_reader *r;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        write_wide(&b, &a, LS_AVRO_CODEC_DEFLATE);
        assert_int_equal(ls_avro_reader_open(ls_buf_span(&b), &r, NULL), LS_OK);
        assert_meta(r, "format-version", "2");
        assert_meta(r, "content", "data");
        assert_meta(r, "schema-id", "0");
        assert_meta(r, "partition-spec-id", "5");
        assert_non_null(ls_avro_reader_meta(r, "schema").ptr);
        assert_int_equal(ls_avro_reader_meta(r, "partition-spec").ptr[0], '[');
        root = ls_avro_schema_root(ls_avro_reader_schema(r));
        assert_columns(root, entry_want, LS_COUNT(entry_want));
        file = ls_avro_field_by_id(root, 2)->type;
        assert_columns(file, file_want, LS_COUNT(file_want));
        tuple = ls_avro_field_by_id(file, 102)->type;
        assert_int_equal(tuple->count, WIDE + 7);
        for (uint32_t i = 0; i < WIDE + 7; i++) {
                int null;

                assert_int_equal(tuple->fields[i].field_id, 1000 + i);
                assert_int_equal(ls_avro_unwrap(tuple->fields[i].type, &null)->kind,
                                 partition_kinds[i]);
                assert_int_equal(null, 0);
        }
        ls_avro_reader_close(r);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

static void
test_manifest_round_trip(void **state)
{
        struct ls_iceberg_partition_field fields[WIDE + 7];
        struct ls_iceberg_value tuple[WIDE + 7];
        struct ls_iceberg_spec spec = wide_spec(fields);
        const struct ls_iceberg_type *types;
        struct ls_iceberg_manifest_file line;
        struct ls_iceberg_manifest m;
        const struct ls_iceberg_data_file *f;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        wide_tuple(tuple);
        line = write_wide(&b, &a, LS_AVRO_CODEC_NULL);
        assert_int_equal(line.bytes, b.len);
        assert_int_equal(line.added_files, 1);
        assert_int_equal(line.added_rows, 10);
        assert_true(line.sequence_number == LS_ICEBERG_NONE);
        line.sequence_number = 9;
        assert_int_equal(ls_iceberg_manifest_read(ls_buf_span(&b), &line, &a, &m, NULL), LS_OK);
        memset(b.ptr, 0xee, b.len); /* nothing borrows from the file */
        assert_int_equal(m.count, 1);
        assert_int_equal(m.content, LS_ICEBERG_DATA);
        assert_true(ls_iceberg_schema_same(&m.schema, &wide_schema));
        assert_true(ls_iceberg_spec_same(&m.spec, &spec));
        assert_int_equal(m.spec.spec_id, 5);
        assert_int_equal(m.entries[0].snapshot_id, 77);
        assert_int_equal(m.entries[0].sequence_number, 9);
        assert_int_equal(m.entries[0].file_sequence_number, 9);
        f = &m.entries[0].file;
        assert_true(ls_str_is(f->path, "file:///t/data/1.parquet"));
        assert_true(ls_str_is(f->format, "PARQUET"));
        assert_int_equal(f->record_count, 10);
        assert_int_equal(f->file_bytes, 1000);
        assert_int_equal(f->nan_counts.count, 2);
        assert_true(f->nan_counts.items[1].field_id == 3 &&
                    f->nan_counts.items[1].value == INT64_MAX);
        assert_int_equal(f->upper_bounds.count, 2);
        assert_int_equal(f->upper_bounds.items[0].value.len, 8);
        assert_int_equal(f->upper_bounds.items[1].value.len, 0);
        assert_int_equal(f->split_offsets.items[1], 1000);
        assert_int_equal(f->sort_order_id, 0);
        assert_null(f->equality_ids.items);
        assert_null(f->key_metadata.ptr);
        assert_int_equal(ls_iceberg_spec_types(&spec, &wide_schema, &a, &types), LS_OK);
        for (uint32_t i = 0; i < WIDE + 7; i++)
                assert_int_equal(ls_iceberg_value_cmp(&types[i], &f->partition[i], &tuple[i]), 0);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

/* Two partition fields of one named Avro type: defined once. A name that Avro does not allow. */
static void
test_manifest_names(void **state)
{
        static const struct ls_iceberg_partition_field fields[] = {
                { 12, 1000, LS_STR("u1"), { .kind = LS_ICEBERG_IDENTITY } },
                { 12, 1001, LS_STR("2-u"), { .kind = LS_ICEBERG_IDENTITY } },
                { 6, 1002, LS_STR("d1"), { .kind = LS_ICEBERG_IDENTITY } },
                { 6, 1003, LS_STR("d2"), { .kind = LS_ICEBERG_TRUNCATE, .param = 10 } },
        };
        struct ls_iceberg_spec spec = { 0, 4, fields };
        struct ls_iceberg_manifest_options o = {
                .format_version = 2, .schema = &wide_schema, .spec = &spec, .snapshot_id = 1
        };
        struct ls_iceberg_value tuple[4] = {
                ls_iceberg_bytes(ls_span_of("0123456789abcdef", 16)),
                LS_ICEBERG_NULL,
                ls_iceberg_decimal(-1),
                ls_iceberg_decimal(((__int128)1 << 126)),
        };
        struct ls_iceberg_entry e = added_entry("p", tuple, 1);
        struct ls_iceberg_manifest_writer *w;
        struct ls_iceberg_manifest_file line;
        struct ls_iceberg_manifest m;
        struct ls_avro_reader *r;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        assert_int_equal(ls_iceberg_manifest_new(&b, &o, &w), LS_OK);
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_OK);
        assert_int_equal(ls_iceberg_manifest_finish(w, &a, &line), LS_OK);
        ls_iceberg_manifest_free(w);
        assert_int_equal(ls_avro_reader_open(ls_buf_span(&b), &r, NULL), LS_OK);
        assert_non_null(memmem(b.ptr, b.len, "\"name\":\"_2_x2Du\"", 16));
        assert_non_null(memmem(b.ptr, b.len, "\"iceberg-field-name\":\"2-u\"", 26));
        ls_avro_reader_close(r);
        assert_int_equal(ls_iceberg_manifest_read(ls_buf_span(&b), NULL, &a, &m, NULL), LS_OK);
        assert_true(ls_str_is(m.spec.fields[1].name, "2-u"));
        assert_true(m.entries[0].file.partition[1].null);
        assert_true(m.entries[0].file.partition[2].dec == -1);
        assert_true(m.entries[0].file.partition[3].dec == (__int128)1 << 126);
        assert_true(m.entries[0].sequence_number == LS_ICEBERG_NONE); /* no line: not inherited */
        ls_buf_done(&b);
        ls_arena_done(&a);
}

static const struct ls_iceberg_partition_field double_field = {
        5, 1000, LS_STR("d"), { .kind = LS_ICEBERG_IDENTITY }
};
static const struct ls_iceberg_spec double_spec = { 1, 1, &double_field };

static void
test_manifest_counts(void **state)
{
        struct ls_iceberg_manifest_options o = {
                .format_version = 2, .schema = &wide_schema, .spec = &double_spec, .snapshot_id = 5
        };
        struct ls_iceberg_value values[] = { ls_iceberg_double(0.0), ls_iceberg_double(NAN),
                                             LS_ICEBERG_NULL, ls_iceberg_double(-3) };
        struct ls_iceberg_manifest_writer *w;
        struct ls_iceberg_manifest_file line;
        struct ls_iceberg_manifest m;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        assert_int_equal(ls_iceberg_manifest_new(&b, &o, &w), LS_OK);
        for (int i = 0; i < 4; i++) {
                struct ls_iceberg_entry e = added_entry("p", &values[i], i + 1);

                if (i > 0) {
                        e.status = i == 3 ? LS_ICEBERG_DELETED : LS_ICEBERG_EXISTING;
                        e.snapshot_id = 4;
                        e.sequence_number = e.file_sequence_number = 5 - i;
                }
                assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_OK);
        }
        assert_int_equal(ls_iceberg_manifest_finish(w, &a, &line), LS_OK);
        ls_iceberg_manifest_free(w);
        assert_true(line.added_files == 1 && line.existing_files == 2 && line.deleted_files == 1);
        assert_true(line.added_rows == 1 && line.existing_rows == 5 && line.deleted_rows == 4);
        assert_int_equal(line.min_sequence_number, 3); /* of the live ones */
        assert_int_equal(line.summary_count, 1);
        assert_true(line.summaries[0].contains_null && line.summaries[0].contains_nan == 1);
        assert_true(ls_span_eq(line.summaries[0].lower, ls_span_of("\0\0\0\0\0\0\x08\xc0", 8)));
        assert_true(ls_span_eq(line.summaries[0].upper, ls_span_of("\0\0\0\0\0\0\0\0", 8)));
        line.sequence_number = 6;
        assert_int_equal(ls_iceberg_manifest_read(ls_buf_span(&b), &line, &a, &m, NULL), LS_OK);
        assert_int_equal(m.entries[0].sequence_number, 6); /* inherited */
        assert_int_equal(m.entries[0].snapshot_id, 5);
        assert_int_equal(m.entries[1].sequence_number, 4); /* its own */
        assert_int_equal(m.entries[1].snapshot_id, 4);
        assert_true(isnan(m.entries[1].file.partition[0].d));
        assert_true(m.entries[2].file.partition[0].null);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

static void
test_manifest_refusals(void **state)
{
        struct ls_iceberg_manifest_options o = {
                .format_version = 3, .schema = &wide_schema, .spec = &double_spec, .snapshot_id = 5
        };
        struct ls_iceberg_value v = ls_iceberg_double(1);
        static const struct ls_iceberg_count negative = { 1, -1 };
        struct ls_iceberg_manifest_writer *w;
        struct ls_iceberg_manifest m;
        struct ls_iceberg_entry e;
        struct ls_errinfo info;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        assert_int_equal(ls_iceberg_manifest_new(&b, &o, &w), LS_UNSUPPORTED);
        o.format_version = 2;
        assert_int_equal(ls_iceberg_manifest_new(&b, &o, &w), LS_OK);
        e = added_entry("p", &v, 1);
        e.status = LS_ICEBERG_EXISTING; /* without numbers */
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_INVALID);
        e = added_entry("p", &v, -1);
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_INVALID);
        e = added_entry("p", NULL, 1);
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_INVALID);
        e = added_entry("p\xff", &v, 1);
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_INVALID);
        e = added_entry(NULL, &v, 1);
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_INVALID);
        e = added_entry("p", &v, 1);
        e.file.content = LS_ICEBERG_POSITION_DELETES; /* in a manifest of data */
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_INVALID);
        e = added_entry("p", &v, 1);
        e.file.nan_counts = (struct ls_iceberg_counts){ &negative, 1 };
        assert_int_equal(ls_iceberg_manifest_add(w, &e), LS_INVALID);
        ls_iceberg_manifest_free(w);
        assert_int_equal(ls_iceberg_manifest_read(LS_SPAN_NULL, NULL, &a, &m, &info), LS_CORRUPT);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

/* A list of data is no manifest and a manifest no list: both are refused for what they lack. */
static void
test_files_swapped(void **state)
{
        const struct ls_iceberg_manifest_file *lines;
        struct ls_iceberg_list_options o = { .format_version = 2,
                                             .snapshot_id = 1,
                                             .parent_snapshot_id = LS_ICEBERG_NONE,
                                             .sequence_number = 1 };
        struct ls_iceberg_manifest_file line;
        struct ls_iceberg_manifest m;
        struct ls_arena a;
        struct ls_buf b, list;
        size_t count;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        ls_buf_init(&list, 1 << 20);
        line = write_wide(&b, &a, LS_AVRO_CODEC_NULL);
        assert_int_equal(ls_iceberg_list_write(&list, &o, &line, 1), LS_OK);
        assert_int_equal(ls_iceberg_list_read(ls_buf_span(&b), &a, &lines, &count, NULL),
                         LS_CORRUPT);
        assert_int_equal(ls_iceberg_manifest_read(ls_buf_span(&list), NULL, &a, &m, NULL),
                         LS_INVALID); /* no schema in its header */
        ls_buf_done(&b);
        ls_buf_done(&list);
        ls_arena_done(&a);
}

static void
test_manifest_damage(void **state)
{
        struct ls_iceberg_manifest m;
        struct ls_arena a, scratch;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_arena_init(&scratch, 8 << 20);
        ls_buf_init(&b, 1 << 20);
        write_wide(&b, &a, LS_AVRO_CODEC_NULL);
        for (size_t i = 0; i < b.len; i++) {
                ls_err e;

                ls_arena_reset(&scratch);
                b.ptr[i] ^= i % 2 ? 0x55 : 0x80;
                e = ls_iceberg_manifest_read(ls_buf_span(&b), NULL, &scratch, &m, NULL);
                assert_true(e >= LS_OK); /* an outcome */
                b.ptr[i] ^= i % 2 ? 0x55 : 0x80;
                assert_true(ls_iceberg_manifest_read(ls_span_of(b.ptr, i), NULL, &scratch, &m,
                                                     NULL) != LS_OK ||
                            m.count == 0);
        }
        ls_buf_done(&b);
        ls_arena_done(&scratch);
        ls_arena_done(&a);
}

/* ---- manifest lists ------------------------------------------------------------------------- */

static void
test_list(void **state)
{
        struct ls_iceberg_list_options o = { .format_version = 2,
                                             .snapshot_id = 123,
                                             .parent_snapshot_id = 122,
                                             .sequence_number = 8,
                                             .codec = LS_AVRO_CODEC_DEFLATE };
        const struct ls_iceberg_manifest_file *back;
        struct ls_iceberg_manifest_file lines[2];
        const struct ls_avro_type *root;
        struct ls_avro_reader *r;
        struct ls_arena a;
        struct ls_buf b;
        size_t count;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        lines[0] = write_wide(&b, &a, LS_AVRO_CODEC_NULL);
        lines[1] = (struct ls_iceberg_manifest_file){ .path = LS_STR("q"),
                                                      .bytes = 5,
                                                      .content = 1,
                                                      .sequence_number = 3,
                                                      .min_sequence_number = 2,
                                                      .added_snapshot_id = 9,
                                                      .existing_files = 4,
                                                      .existing_rows = 400 };
        ls_buf_clear(&b);
        assert_int_equal(ls_iceberg_list_write(&b, &o, lines, 2), LS_OK);
        assert_int_equal(ls_avro_reader_open(ls_buf_span(&b), &r, NULL), LS_OK);
        assert_meta(r, "snapshot-id", "123");
        assert_meta(r, "parent-snapshot-id", "122");
        assert_meta(r, "sequence-number", "8");
        assert_meta(r, "format-version", "2");
        root = ls_avro_schema_root(ls_avro_reader_schema(r));
        assert_columns(root, line_want, LS_COUNT(line_want));
        {
                int null;
                const struct ls_avro_type *t =
                        ls_avro_unwrap(ls_avro_field_by_id(root, 507)->type, &null);

                assert_columns(t->items, summary_want, LS_COUNT(summary_want));
        }
        ls_avro_reader_close(r);
        assert_int_equal(ls_iceberg_list_read(ls_buf_span(&b), &a, &back, &count, NULL), LS_OK);
        assert_int_equal(count, 2);
        assert_true(ls_str_eq(back[0].path, lines[0].path));
        assert_int_equal(back[0].sequence_number, 8); /* the snapshot's */
        assert_int_equal(back[0].min_sequence_number, 8);
        assert_int_equal(back[0].added_snapshot_id, 77);
        assert_int_equal(back[0].summary_count, WIDE + 7);
        assert_true(back[0].summaries[WIDE + 6].contains_null);
        assert_null(back[0].summaries[WIDE + 6].lower.ptr);
        assert_true(ls_span_eq(back[0].summaries[10].lower, ls_span_of("h\xc3\xa9llo", 6)));
        assert_true(back[1].content == 1 && back[1].sequence_number == 3 &&
                    back[1].min_sequence_number == 2 && back[1].existing_files == 4 &&
                    back[1].existing_rows == 400);
        assert_null(back[1].summaries);
        lines[1].path = LS_STR_NULL;
        assert_int_equal(ls_iceberg_list_write(&b, &o, lines, 2), LS_INVALID);
        o.format_version = 3;
        assert_int_equal(ls_iceberg_list_write(&b, &o, lines, 2), LS_UNSUPPORTED);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

/* ---- table metadata ------------------------------------------------------------------------- */

static const char metadata_text[] =
        "{'format-version':2,'table-uuid':'fb072c92-a02b-11e9-ae9c-1bb7bc9eca94',"
        "'location':'s3://b/wh/t','last-sequence-number':2,'last-updated-ms':1515100955770,"
        "'last-column-id':2,'current-schema-id':1,'schemas':["
        "{'type':'struct','schema-id':0,'fields':["
        "{'id':1,'name':'x','required':true,'type':'long'}]},"
        "{'type':'struct','schema-id':1,'identifier-field-ids':[1],'fields':["
        "{'id':1,'name':'x','required':true,'type':'long'},"
        "{'id':2,'name':'y','required':false,'type':'string','doc':'c'}]}],"
        "'default-spec-id':0,'partition-specs':[{'spec-id':0,'fields':["
        "{'source-id':1,'field-id':1000,'name':'x','transform':'identity'}]}],"
        "'last-partition-id':1000,'default-sort-order-id':3,'sort-orders':["
        "{'order-id':3,'fields':[{'transform':'identity','source-id':2,'direction':'asc',"
        "'null-order':'nulls-first'},{'transform':'bucket[4]','source-id':1,"
        "'direction':'desc','null-order':'nulls-last'}]}],"
        "'properties':{'write.format.default':'parquet'},"
        "'current-snapshot-id':3055729675574597004,"
        "'refs':{'main':{'snapshot-id':3055729675574597004,'type':'branch'},"
        "'t':{'snapshot-id':3051729675574597004,'type':'tag','max-ref-age-ms':10000000}},"
        "'snapshots':[{'sequence-number':1,'snapshot-id':3051729675574597004,"
        "'timestamp-ms':1515100955770,'summary':{'operation':'append'},"
        "'manifest-list':'s3://a/b/1.avro'},"
        "{'sequence-number':2,'snapshot-id':3055729675574597004,"
        "'parent-snapshot-id':3051729675574597004,'timestamp-ms':1555100955770,"
        "'summary':{'operation':'append','total-records':'5'},"
        "'manifest-list':'s3://a/b/2.avro','schema-id':1}],"
        "'statistics':[{'snapshot-id':3055729675574597004,'statistics-path':'s3://a/b/"
        "stats.puffin',"
        "'file-size-in-bytes':413,'file-footer-size-in-bytes':42,'blob-metadata':[]}],"
        "'partition-statistics':[],"
        "'snapshot-log':[{'timestamp-ms':1515100955770,'snapshot-id':3051729675574597004},"
        "{'timestamp-ms':1555100955770,'snapshot-id':3055729675574597004}],"
        "'metadata-log':[{'timestamp-ms':1515100,'metadata-file':'s3://b/.../v1.json'}]}";

static void
test_metadata_round_trip(void **state)
{
        LS_AUTO(ls_free) char *text = json(metadata_text);
        struct ls_iceberg_metadata m;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        assert_int_equal(ls_iceberg_metadata_parse(ls_str_of(text), &a, &m, NULL), LS_OK);
        assert_int_equal(m.snapshot_count, 2);
        assert_true(m.snapshots[0].parent_id == LS_ICEBERG_NONE);
        assert_true(m.snapshots[0].schema_id == LS_ICEBERG_NONE);
        assert_int_equal(m.snapshots[1].parent_id, 3051729675574597004);
        assert_true(
                ls_str_is(ls_iceberg_prop_get(m.snapshots[1].summary, 1, "total-records"), "5"));
        assert_null(ls_iceberg_prop_get(m.properties, m.property_count, "x").ptr);
        assert_int_equal(ls_iceberg_metadata_schema(&m, 1)->identifier_ids[0], 1);
        assert_null(ls_iceberg_metadata_schema(&m, 2));
        assert_int_equal(m.refs[1].ref_age_ms_max, 10000000);
        assert_true(m.refs[1].tag);
        ls_iceberg_metadata_print(&m, &b);
        assert_string_equal(ls_buf_cstr(&b), text);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

/* A new table: the least that engines take. */
static void
test_metadata_empty(void **state)
{
        struct ls_iceberg_schema schema = { .field_count = 0 };
        struct ls_iceberg_spec spec = { .spec_id = 0 };
        struct ls_iceberg_sort_order order = { .order_id = 0 };
        struct ls_iceberg_metadata m, back;
        struct ls_arena a;
        struct ls_buf b;

        ls_arena_init(&a, 1 << 20);
        ls_buf_init(&b, 1 << 20);
        ls_iceberg_metadata_init(&m);
        assert_int_equal(ls_iceberg_metadata_check(&m, NULL), LS_INVALID);
        m.table_uuid = LS_STR("fb072c92-a02b-11e9-ae9c-1bb7bc9eca94");
        m.location = LS_STR("file:///t");
        m.schemas = &schema;
        m.specs = &spec;
        m.sort_orders = &order;
        m.schema_count = m.spec_count = m.sort_order_count = 1;
        assert_int_equal(ls_iceberg_metadata_check(&m, NULL), LS_OK);
        ls_iceberg_metadata_print(&m, &b);
        assert_int_equal(ls_iceberg_metadata_parse(ls_str_of(ls_buf_cstr(&b)), &a, &back, NULL),
                         LS_OK);
        assert_int_equal(back.last_partition_id, 999);
        assert_true(back.current_snapshot_id == LS_ICEBERG_NONE);
        assert_int_equal(back.ref_count, 0);
        ls_buf_done(&b);
        ls_arena_done(&a);
}

/* Replaces the first `from` in the text; the caller frees. */
static char *
changed(const char *text, const char *from, const char *to)
{
        const char *at = strstr(text, from);

        assert_non_null(at);
        return ls_format("%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static void
test_metadata_refusals(void **state)
{
        static const struct {
                const char *from, *to;
                ls_err want;
        } bad[] = {
                { "'format-version':2", "'format-version':0", LS_INVALID },
                { "'format-version':2", "'format-version':4", LS_UNSUPPORTED },
                { "'format-version':2,", "", LS_INVALID },
                { "'table-uuid':'fb072c92", "'table-uuid':'zz072c92", LS_INVALID },
                { "'location':'s3://b/wh/t',", "", LS_INVALID },
                { "'last-sequence-number':2", "'last-sequence-number':1", LS_INVALID },
                { "'last-column-id':2", "'last-column-id':1", LS_INVALID },
                { "'last-column-id':2", "'last-column-id':'2'", LS_INVALID },
                { "'current-schema-id':1", "'current-schema-id':7", LS_INVALID },
                { "'default-spec-id':0", "'default-spec-id':7", LS_INVALID },
                { "'last-partition-id':1000", "'last-partition-id':999", LS_INVALID },
                { "'default-sort-order-id':3", "'default-sort-order-id':7", LS_INVALID },
                { "'current-snapshot-id':3055729675574597004", "'current-snapshot-id':5",
                  LS_INVALID },
                { "'main':{'snapshot-id':3055", "'main':{'snapshot-id':4055", LS_INVALID },
                { "'main':{'snapshot-id':3055", "'main':{'snapshot-id':3051", LS_INVALID },
                { "'type':'tag'", "'type':'twig'", LS_INVALID },
                { "'summary':{'operation':'append'},", "", LS_INVALID },
                { "'manifest-list':'s3://a/b/1.avro'", "'manifests':[]", LS_INVALID },
                { "'properties':{'write.format.default':'parquet'}", "'properties':{'a':1}",
                  LS_INVALID },
                { "'schemas':[", "'schemas':[3,", LS_INVALID },
                { "'snapshot-log':[{", "'snapshot-log':[{},{", LS_INVALID },
        };
        struct ls_iceberg_metadata m;
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                LS_AUTO(ls_free) char *quoted = changed(metadata_text, bad[i].from, bad[i].to);
                LS_AUTO(ls_free) char *text = json(quoted);
                struct ls_errinfo info = { "" };

                assert_int_equal(ls_iceberg_metadata_parse(ls_str_of(text), &a, &m, &info),
                                 bad[i].want);
                assert_true(info.text[0] != 0);
        }
        ls_arena_done(&a);
}

/* Version 1 without what version 2 added. */
static void
test_metadata_version_1(void **state)
{
        LS_AUTO(ls_free)
        char *text =
                json("{'format-version':1,'location':'s3://b/t','last-updated-ms':1602638573874,"
                     "'last-column-id':1,'schema':{'type':'struct','fields':["
                     "{'id':1,'name':'x','required':true,'type':'long'}]},"
                     "'partition-spec':[{'name':'x','transform':'identity','source-id':1}],"
                     "'properties':{},'current-snapshot-id':-1,'snapshots':[]}");
        struct ls_iceberg_metadata m;
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        assert_int_equal(ls_iceberg_metadata_parse(ls_str_of(text), &a, &m, NULL), LS_OK);
        assert_int_equal(m.schema_count, 1);
        assert_int_equal(m.specs[0].fields[0].field_id, 1000);
        assert_int_equal(m.last_partition_id, 1000);
        assert_int_equal(m.sort_order_count, 1);
        assert_true(m.current_snapshot_id == LS_ICEBERG_NONE);
        ls_arena_done(&a);
}

static void
assert_summary(const struct ls_iceberg_snapshot *s, const char *key, const char *want)
{
        ls_str v = ls_iceberg_prop_get(s->summary, s->summary_count, key);

        assert_true(want == NULL ? v.ptr == NULL : ls_str_is(v, want));
}

static void
test_summary(void **state)
{
        struct ls_iceberg_delta first = { .added_files = 2, .added_rows = 10, .added_bytes = 300 };
        struct ls_iceberg_delta second = { .added_files = 1,
                                           .added_rows = 10,
                                           .added_bytes = 250,
                                           .deleted_files = 2,
                                           .deleted_rows = 10,
                                           .deleted_bytes = 300 };
        struct ls_iceberg_prop extra = { LS_STR("who"), LS_STR("me") };
        struct ls_iceberg_snapshot a_snapshot = { 0 }, b_snapshot = { 0 };
        struct ls_arena a;

        ls_arena_init(&a, 1 << 20);
        assert_int_equal(ls_iceberg_summary_make(&first, NULL, NULL, 0, &a, &a_snapshot), LS_OK);
        assert_summary(&a_snapshot, "added-data-files", "2");
        assert_summary(&a_snapshot, "total-records", "10");
        assert_summary(&a_snapshot, "total-files-size", "300");
        assert_summary(&a_snapshot, "total-delete-files", "0");
        assert_summary(&a_snapshot, "deleted-records", NULL);
        assert_int_equal(ls_iceberg_summary_make(&second, &a_snapshot, &extra, 1, &a, &b_snapshot),
                         LS_OK);
        assert_summary(&b_snapshot, "total-records", "10");
        assert_summary(&b_snapshot, "total-data-files", "1");
        assert_summary(&b_snapshot, "total-files-size", "250");
        assert_summary(&b_snapshot, "removed-files-size", "300");
        assert_summary(&b_snapshot, "who", "me");
        ls_arena_done(&a);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_schema_round_trip),
                cmocka_unit_test(test_schema_refusals),
                cmocka_unit_test(test_schema_too_deep),
                cmocka_unit_test(test_spec_json),
                cmocka_unit_test(test_spec_check),
                cmocka_unit_test(test_manifest_schema),
                cmocka_unit_test(test_manifest_round_trip),
                cmocka_unit_test(test_manifest_names),
                cmocka_unit_test(test_manifest_counts),
                cmocka_unit_test(test_manifest_refusals),
                cmocka_unit_test(test_files_swapped),
                cmocka_unit_test(test_manifest_damage),
                cmocka_unit_test(test_list),
                cmocka_unit_test(test_metadata_round_trip),
                cmocka_unit_test(test_metadata_empty),
                cmocka_unit_test(test_metadata_refusals),
                cmocka_unit_test(test_metadata_version_1),
                cmocka_unit_test(test_summary),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
