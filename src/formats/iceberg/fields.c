/* iceberg/fields.c - the fields of manifests and manifest lists, and their walkers.
 *
 * Ids, names, types and nullability are those of the version 2 specification; a test compares the
 * schemas made here with the specification's table.
 */
#include "formats/iceberg/fields_int.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "formats/iceberg/limits.h"

/* ---- tables --------------------------------------------------------------------------------- */

#define OPTIONAL false, false, false
#define REQUIRED true, true, false
/* Required in version 2, absent from version 1. */
#define REQUIRED_V2                  true, false, false
#define DELETES_ONLY                 false, false, true
#define ENTRY(member)                offsetof(struct ls_iceberg_entry, member), 0, 0
#define DATA(member)                 offsetof(struct ls_iceberg_data_file, member), 0, 0
#define DATA_MAP(member, key, value) offsetof(struct ls_iceberg_data_file, member), key, value
#define LINE(member)                 offsetof(struct ls_iceberg_manifest_file, member), 0, 0
#define SUMMARY(member)              offsetof(struct ls_iceberg_summary, member), 0, 0

static const struct ls_ice_column entry_columns[] = {
        { 0, "status", LS_ICE_INT, REQUIRED, ENTRY(status) },
        { 1, "snapshot_id", LS_ICE_LONG, OPTIONAL, ENTRY(snapshot_id) },
        { 3, "sequence_number", LS_ICE_LONG, OPTIONAL, ENTRY(sequence_number) },
        { 4, "file_sequence_number", LS_ICE_LONG, OPTIONAL, ENTRY(file_sequence_number) },
        { 2, "data_file", LS_ICE_FILE, REQUIRED, ENTRY(file) },
};
static const struct ls_ice_column file_columns[] = {
        { 134, "content", LS_ICE_INT, REQUIRED_V2, DATA(content) },
        { 100, "file_path", LS_ICE_STR, REQUIRED, DATA(path) },
        { 101, "file_format", LS_ICE_STR, REQUIRED, DATA(format) },
        { 102, "partition", LS_ICE_PARTITION, REQUIRED, DATA(partition) },
        { 103, "record_count", LS_ICE_LONG, REQUIRED, DATA(record_count) },
        { 104, "file_size_in_bytes", LS_ICE_LONG, REQUIRED, DATA(file_bytes) },
        { 108, "column_sizes", LS_ICE_COUNTS, OPTIONAL, DATA_MAP(column_sizes, 117, 118) },
        { 109, "value_counts", LS_ICE_COUNTS, OPTIONAL, DATA_MAP(value_counts, 119, 120) },
        { 110, "null_value_counts", LS_ICE_COUNTS, OPTIONAL, DATA_MAP(null_counts, 121, 122) },
        { 137, "nan_value_counts", LS_ICE_COUNTS, OPTIONAL, DATA_MAP(nan_counts, 138, 139) },
        { 125, "lower_bounds", LS_ICE_BOUNDS, OPTIONAL, DATA_MAP(lower_bounds, 126, 127) },
        { 128, "upper_bounds", LS_ICE_BOUNDS, OPTIONAL, DATA_MAP(upper_bounds, 129, 130) },
        { 131, "key_metadata", LS_ICE_BYTES, OPTIONAL, DATA(key_metadata) },
        { 132, "split_offsets", LS_ICE_LONGS, OPTIONAL, DATA_MAP(split_offsets, 0, 133) },
        { 135, "equality_ids", LS_ICE_INTS, OPTIONAL, DATA_MAP(equality_ids, 0, 136) },
        { 140, "sort_order_id", LS_ICE_INT, OPTIONAL, DATA(sort_order_id) },
        { 143, "referenced_data_file", LS_ICE_STR, DELETES_ONLY, DATA(referenced_data_file) },
};
static const struct ls_ice_column line_columns[] = {
        { 500, "manifest_path", LS_ICE_STR, REQUIRED, LINE(path) },
        { 501, "manifest_length", LS_ICE_LONG, REQUIRED, LINE(bytes) },
        { 502, "partition_spec_id", LS_ICE_INT, REQUIRED, LINE(spec_id) },
        { 517, "content", LS_ICE_INT, REQUIRED_V2, LINE(content) },
        { 515, "sequence_number", LS_ICE_LONG, REQUIRED_V2, LINE(sequence_number) },
        { 516, "min_sequence_number", LS_ICE_LONG, REQUIRED_V2, LINE(min_sequence_number) },
        { 503, "added_snapshot_id", LS_ICE_LONG, REQUIRED, LINE(added_snapshot_id) },
        { 504, "added_files_count", LS_ICE_INT, REQUIRED_V2, LINE(added_files) },
        { 505, "existing_files_count", LS_ICE_INT, REQUIRED_V2, LINE(existing_files) },
        { 506, "deleted_files_count", LS_ICE_INT, REQUIRED_V2, LINE(deleted_files) },
        { 512, "added_rows_count", LS_ICE_LONG, REQUIRED_V2, LINE(added_rows) },
        { 513, "existing_rows_count", LS_ICE_LONG, REQUIRED_V2, LINE(existing_rows) },
        { 514, "deleted_rows_count", LS_ICE_LONG, REQUIRED_V2, LINE(deleted_rows) },
        { 507, "partitions", LS_ICE_SUMMARIES, OPTIONAL,
          offsetof(struct ls_iceberg_manifest_file, summaries), 0, 508 },
        { 519, "key_metadata", LS_ICE_BYTES, OPTIONAL, LINE(key_metadata) },
};
static const struct ls_ice_column summary_columns[] = {
        { 509, "contains_null", LS_ICE_BOOL, REQUIRED, SUMMARY(contains_null) },
        { 518, "contains_nan", LS_ICE_OPT_BOOL, OPTIONAL, SUMMARY(contains_nan) },
        { 510, "lower_bound", LS_ICE_BYTES, OPTIONAL, SUMMARY(lower) },
        { 511, "upper_bound", LS_ICE_BYTES, OPTIONAL, SUMMARY(upper) },
};
const struct ls_ice_table ls_ice_entry_table = { "manifest_entry", entry_columns,
                                                 LS_COUNT(entry_columns) };
const struct ls_ice_table ls_ice_file_table = { "r2", file_columns, LS_COUNT(file_columns) };
const struct ls_ice_table ls_ice_line_table = { "manifest_file", line_columns,
                                                LS_COUNT(line_columns) };
const struct ls_ice_table ls_ice_summary_table = { "r508", summary_columns,
                                                   LS_COUNT(summary_columns) };

static bool
is_written(const struct ls_ice_walk *w, const struct ls_ice_column *c)
{
        return !c->deletes_only || w->deletes;
}

/* ---- schema --------------------------------------------------------------------------------- */

/* Bytes that hold a decimal of `precision` digits. */
static int
decimal_fixed_bytes(int32_t precision)
{
        unsigned __int128 most = 1, room = 128;
        int bytes = 1;

        for (int32_t i = 0; i < precision; i++)
                most *= 10;
        while (bytes < 16 && most - 1 >= room) {
                room <<= 8;
                bytes++;
        }
        return bytes;
}

/* `suffix` makes the names of fixed types differ. */
static void
primitive_put(const struct ls_iceberg_type *t, const char *suffix, struct ls_buf *out)
{
        switch (t->kind) {
        case LS_ICEBERG_BOOLEAN: ls_buf_put_text(out, "\"boolean\""); return;
        case LS_ICEBERG_UNKNOWN: /* of a source that is gone: only nulls */
        case LS_ICEBERG_INT: ls_buf_put_text(out, "\"int\""); return;
        case LS_ICEBERG_LONG: ls_buf_put_text(out, "\"long\""); return;
        case LS_ICEBERG_FLOAT: ls_buf_put_text(out, "\"float\""); return;
        case LS_ICEBERG_DOUBLE: ls_buf_put_text(out, "\"double\""); return;
        case LS_ICEBERG_STRING: ls_buf_put_text(out, "\"string\""); return;
        case LS_ICEBERG_BINARY: ls_buf_put_text(out, "\"bytes\""); return;
        case LS_ICEBERG_DATE:
                ls_buf_put_text(out, "{\"type\":\"int\",\"logicalType\":\"date\"}");
                return;
        case LS_ICEBERG_TIME:
                ls_buf_put_text(out, "{\"type\":\"long\",\"logicalType\":\"time-micros\"}");
                return;
        case LS_ICEBERG_TIMESTAMP:
        case LS_ICEBERG_TIMESTAMPTZ:
        case LS_ICEBERG_TIMESTAMP_NS:
        case LS_ICEBERG_TIMESTAMPTZ_NS: {
                bool nanos =
                        t->kind == LS_ICEBERG_TIMESTAMP_NS || t->kind == LS_ICEBERG_TIMESTAMPTZ_NS;
                bool zone =
                        t->kind == LS_ICEBERG_TIMESTAMPTZ || t->kind == LS_ICEBERG_TIMESTAMPTZ_NS;

                ls_buf_printf(out,
                              "{\"type\":\"long\",\"logicalType\":\"timestamp-%s\","
                              "\"adjust-to-utc\":%s}",
                              nanos ? "nanos" : "micros", zone ? "true" : "false");
                return;
        }
        case LS_ICEBERG_UUID:
                ls_buf_printf(out,
                              "{\"type\":\"fixed\",\"name\":\"uuid_fixed%s\",\"size\":16,"
                              "\"logicalType\":\"uuid\"}",
                              suffix);
                return;
        case LS_ICEBERG_FIXED:
                ls_buf_printf(out, "{\"type\":\"fixed\",\"name\":\"fixed_%d%s\",\"size\":%d}",
                              t->fixed_bytes, suffix, t->fixed_bytes);
                return;
        case LS_ICEBERG_DECIMAL:
                ls_buf_printf(out,
                              "{\"type\":\"fixed\",\"name\":\"decimal_%d_%d%s\",\"size\":%d,"
                              "\"logicalType\":\"decimal\",\"precision\":%d,\"scale\":%d}",
                              t->precision, t->scale, suffix, decimal_fixed_bytes(t->precision),
                              t->precision, t->scale);
                return;
        case LS_ICEBERG_VARIANT:
        case LS_ICEBERG_STRUCT:
        case LS_ICEBERG_LIST:
        case LS_ICEBERG_MAP: break;
        }
        LS_ASSERT(false); /* no partition value has this type */
}

static bool
is_name_char(char c, bool first)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
               (!first && c >= '0' && c <= '9');
}

/* Avro names are letters, digits and _: others are written as _xHH, a leading digit after _, as the
 * reference does. True: the name had to be changed. */
static bool
name_put(ls_str name, struct ls_buf *out)
{
        bool changed = false;

        for (size_t i = 0; i < name.len; i++) {
                char c = name.ptr[i];

                if (is_name_char(c, i == 0)) {
                        ls_buf_put_u8(out, (uint8_t)c);
                        continue;
                }
                changed = true;
                if (c >= '0' && c <= '9')
                        ls_buf_printf(out, "_%c", c);
                else
                        ls_buf_printf(out, "_x%X", (uint8_t)c);
        }
        return changed;
}

/* A second field of one fixed type gets a type of its own name: a name may be defined only once,
 * and PyIceberg does not follow references by name. */
static void
partition_type_put(const struct ls_ice_walk *w, uint32_t at, struct ls_buf *out)
{
        char suffix[16] = "";

        for (uint32_t before = 0; before < at; before++)
                if (ls_iceberg_type_eq(&w->types[before], &w->types[at]))
                        snprintf(suffix, sizeof suffix, "_%d", w->spec->fields[at].field_id);
        primitive_put(&w->types[at], suffix, out);
}

static void
partition_put(const struct ls_ice_walk *w, struct ls_buf *out)
{
        ls_buf_put_text(out, "{\"type\":\"record\",\"name\":\"r102\",\"fields\":[");
        for (uint32_t i = 0; i < w->spec->field_count; i++) {
                const struct ls_iceberg_partition_field *f = &w->spec->fields[i];
                bool changed;

                ls_buf_put_text(out, i > 0 ? ",{\"name\":\"" : "{\"name\":\"");
                changed = name_put(f->name, out);
                ls_buf_put_text(out, "\",\"type\":[\"null\",");
                partition_type_put(w, i, out);
                ls_buf_put_text(out, "],\"default\":null");
                if (changed) {
                        ls_buf_put_text(out, ",\"iceberg-field-name\":");
                        ls_iceberg_value_json(
                                &(struct ls_iceberg_type){ .kind = LS_ICEBERG_STRING },
                                &(struct ls_iceberg_value){
                                        .bytes = ls_span_of(f->name.ptr, f->name.len) },
                                out);
                }
                ls_buf_printf(out, ",\"field-id\":%d}", f->field_id);
        }
        ls_buf_put_text(out, "]}");
}

static void
map_put(const struct ls_ice_column *c, const char *value, struct ls_buf *out)
{
        ls_buf_printf(out,
                      "{\"type\":\"array\",\"items\":{\"type\":\"record\",\"name\":\"k%d_v%d\","
                      "\"fields\":[{\"name\":\"key\",\"type\":\"int\",\"field-id\":%d},"
                      "{\"name\":\"value\",\"type\":\"%s\",\"field-id\":%d}]},"
                      "\"logicalType\":\"map\"}",
                      c->key_id, c->value_id, c->key_id, value, c->value_id);
}

static void
list_put(const struct ls_ice_column *c, const char *items, struct ls_buf *out)
{
        ls_buf_printf(out, "{\"type\":\"array\",\"items\":\"%s\",\"element-id\":%d}", items,
                      c->value_id);
}

static void
form_put(const struct ls_ice_walk *w, const struct ls_ice_column *c, struct ls_buf *out)
{
        switch (c->form) {
        case LS_ICE_INT: ls_buf_put_text(out, "\"int\""); return;
        case LS_ICE_LONG: ls_buf_put_text(out, "\"long\""); return;
        case LS_ICE_BOOL:
        case LS_ICE_OPT_BOOL: ls_buf_put_text(out, "\"boolean\""); return;
        case LS_ICE_STR: ls_buf_put_text(out, "\"string\""); return;
        case LS_ICE_BYTES: ls_buf_put_text(out, "\"bytes\""); return;
        case LS_ICE_COUNTS: map_put(c, "long", out); return;
        case LS_ICE_BOUNDS: map_put(c, "bytes", out); return;
        case LS_ICE_LONGS: list_put(c, "long", out); return;
        case LS_ICE_INTS: list_put(c, "int", out); return;
        case LS_ICE_PARTITION: partition_put(w, out); return;
        case LS_ICE_FILE: ls_ice_schema_put(w, &ls_ice_file_table, out); return;
        case LS_ICE_SUMMARIES:
                ls_buf_put_text(out, "{\"type\":\"array\",\"items\":");
                ls_ice_schema_put(w, &ls_ice_summary_table, out);
                ls_buf_printf(out, ",\"element-id\":%d}", c->value_id);
                return;
        }
}

void
ls_ice_schema_put(const struct ls_ice_walk *w, const struct ls_ice_table *t, struct ls_buf *out)
{
        bool first = true;

        ls_buf_printf(out, "{\"type\":\"record\",\"name\":\"%s\",\"fields\":[", t->name);
        for (size_t i = 0; i < t->count; i++) {
                const struct ls_ice_column *c = &t->columns[i];

                if (!is_written(w, c))
                        continue;
                ls_buf_printf(out, "%s{\"name\":\"%s\",\"type\":", first ? "" : ",", c->name);
                first = false;
                if (!c->required)
                        ls_buf_put_text(out, "[\"null\",");
                form_put(w, c, out);
                if (!c->required)
                        ls_buf_put_text(out, "],\"default\":null");
                ls_buf_printf(out, ",\"field-id\":%d}", c->id);
        }
        ls_buf_put_text(out, "]}");
}

/* ---- writing -------------------------------------------------------------------------------- */

/* The n-th element type of each array is fixed by its form. */
static void
counts_put(const struct ls_iceberg_counts *m, struct ls_buf *out)
{
        if (m->count > 0)
                ls_buf_put_varint(out, (int64_t)m->count);
        for (size_t i = 0; i < m->count; i++) {
                ls_buf_put_varint(out, m->items[i].field_id);
                ls_buf_put_varint(out, m->items[i].value);
        }
        ls_buf_put_varint(out, 0);
}

static void
bounds_put(const struct ls_iceberg_bounds *m, struct ls_buf *out)
{
        if (m->count > 0)
                ls_buf_put_varint(out, (int64_t)m->count);
        for (size_t i = 0; i < m->count; i++) {
                ls_buf_put_varint(out, m->items[i].field_id);
                ls_avro_put_bytes(out, m->items[i].value);
        }
        ls_buf_put_varint(out, 0);
}

static void
longs_put(const struct ls_iceberg_longs *l, struct ls_buf *out)
{
        if (l->count > 0)
                ls_buf_put_varint(out, (int64_t)l->count);
        for (size_t i = 0; i < l->count; i++)
                ls_buf_put_varint(out, l->items[i]);
        ls_buf_put_varint(out, 0);
}

static ls_err
summaries_put(const struct ls_ice_walk *w, const struct ls_iceberg_manifest_file *line,
              struct ls_buf *out)
{
        if (line->summary_count > 0)
                ls_buf_put_varint(out, (int64_t)line->summary_count);
        for (size_t i = 0; i < line->summary_count; i++)
                LS_TRY(ls_ice_record_put(w, &ls_ice_summary_table, &line->summaries[i], out));
        ls_buf_put_varint(out, 0);
        return LS_OK;
}

/* Fixed-width decimals, as the schema says. */
static ls_err
decimal_put(const struct ls_iceberg_type *t, __int128 v, struct ls_buf *out)
{
        int bytes = decimal_fixed_bytes(t->precision);
        __int128 rest = bytes < 16 ? v >> (8 * bytes - 1) : v < 0 ? -1 : 0;

        if (rest != 0 && rest != -1)
                return LS_INVALID;
        for (int i = bytes - 1; i >= 0; i--)
                ls_buf_put_u8(out, (uint8_t)((unsigned __int128)v >> (8 * i)));
        return LS_OK;
}

static ls_err
partition_value_put(const struct ls_iceberg_type *t, const struct ls_iceberg_value *v,
                    struct ls_buf *out)
{
        if (v->null || t->kind == LS_ICEBERG_UNKNOWN) {
                ls_buf_put_varint(out, 0);
                return LS_OK;
        }
        ls_buf_put_varint(out, 1);
        switch (t->kind) {
        case LS_ICEBERG_INT:
        case LS_ICEBERG_DATE:
                if (v->i < INT32_MIN || v->i > INT32_MAX)
                        return LS_INVALID;
                ls_buf_put_varint(out, v->i);
                return LS_OK;
        case LS_ICEBERG_LONG:
        case LS_ICEBERG_TIME:
        case LS_ICEBERG_TIMESTAMP:
        case LS_ICEBERG_TIMESTAMPTZ:
        case LS_ICEBERG_TIMESTAMP_NS:
        case LS_ICEBERG_TIMESTAMPTZ_NS: ls_buf_put_varint(out, v->i); return LS_OK;
        case LS_ICEBERG_DECIMAL: return decimal_put(t, v->dec, out);
        case LS_ICEBERG_STRING:
        case LS_ICEBERG_BINARY: ls_avro_put_bytes(out, v->bytes); return LS_OK;
        case LS_ICEBERG_UUID:
        case LS_ICEBERG_FIXED:
                if (v->bytes.len != (t->kind == LS_ICEBERG_UUID ? 16 : (size_t)t->fixed_bytes))
                        return LS_INVALID;
                ls_buf_put_span(out, v->bytes);
                return LS_OK;
        case LS_ICEBERG_BOOLEAN:
        case LS_ICEBERG_FLOAT:
        case LS_ICEBERG_DOUBLE: ls_iceberg_value_put(t, v, out); return LS_OK; /* same bytes */
        case LS_ICEBERG_UNKNOWN:
        case LS_ICEBERG_VARIANT:
        case LS_ICEBERG_STRUCT:
        case LS_ICEBERG_LIST:
        case LS_ICEBERG_MAP: break;
        }
        return LS_INVALID;
}

static ls_err
tuple_put(const struct ls_ice_walk *w, const struct ls_iceberg_value *tuple, struct ls_buf *out)
{
        if (w->spec->field_count > 0 && tuple == NULL)
                return LS_INVALID;
        for (uint32_t i = 0; i < w->spec->field_count; i++)
                LS_TRY(partition_value_put(&w->types[i], &tuple[i], out));
        return LS_OK;
}

static bool
is_absent(const struct ls_ice_column *c, const void *p)
{
        switch (c->form) {
        case LS_ICE_INT:
        case LS_ICE_LONG:
        case LS_ICE_OPT_BOOL: return *(const int64_t *)p == LS_ICEBERG_NONE;
        case LS_ICE_STR: return ((const ls_str *)p)->ptr == NULL;
        case LS_ICE_BYTES: return ((const ls_span *)p)->ptr == NULL;
        case LS_ICE_COUNTS: return ((const struct ls_iceberg_counts *)p)->items == NULL;
        case LS_ICE_BOUNDS: return ((const struct ls_iceberg_bounds *)p)->items == NULL;
        case LS_ICE_LONGS:
        case LS_ICE_INTS: return ((const struct ls_iceberg_longs *)p)->items == NULL;
        case LS_ICE_SUMMARIES: return *(const struct ls_iceberg_summary *const *)p == NULL;
        case LS_ICE_BOOL:
        case LS_ICE_PARTITION:
        case LS_ICE_FILE: return false;
        }
        return false;
}

static ls_err
column_put(const struct ls_ice_walk *w, const struct ls_ice_column *c, const void *object,
           struct ls_buf *out)
{
        const void *p = (const char *)object + c->offset;

        switch (c->form) {
        case LS_ICE_INT:
                if (*(const int64_t *)p < INT32_MIN || *(const int64_t *)p > INT32_MAX)
                        return LS_INVALID;
                ls_buf_put_varint(out, *(const int64_t *)p);
                return LS_OK;
        case LS_ICE_LONG: ls_buf_put_varint(out, *(const int64_t *)p); return LS_OK;
        case LS_ICE_BOOL: ls_buf_put_u8(out, *(const bool *)p); return LS_OK;
        case LS_ICE_OPT_BOOL: ls_buf_put_u8(out, *(const int64_t *)p != 0); return LS_OK;
        case LS_ICE_STR: ls_avro_put_str(out, *(const ls_str *)p); return LS_OK;
        case LS_ICE_BYTES: ls_avro_put_bytes(out, *(const ls_span *)p); return LS_OK;
        case LS_ICE_COUNTS: counts_put(p, out); return LS_OK;
        case LS_ICE_BOUNDS: bounds_put(p, out); return LS_OK;
        case LS_ICE_LONGS:
        case LS_ICE_INTS: longs_put(p, out); return LS_OK;
        case LS_ICE_PARTITION: return tuple_put(w, *(const struct ls_iceberg_value *const *)p, out);
        case LS_ICE_FILE: return ls_ice_record_put(w, &ls_ice_file_table, p, out);
        case LS_ICE_SUMMARIES: return summaries_put(w, object, out);
        }
        return LS_INVALID;
}

ls_err
ls_ice_record_put(const struct ls_ice_walk *w, const struct ls_ice_table *t, const void *object,
                  struct ls_buf *out)
{
        for (size_t i = 0; i < t->count; i++) {
                const struct ls_ice_column *c = &t->columns[i];
                bool absent = is_absent(c, (const char *)object + c->offset);

                if (!is_written(w, c))
                        continue;
                if (c->required && absent)
                        return LS_INVALID;
                if (!c->required)
                        ls_buf_put_varint(out, absent ? 0 : 1);
                if (!absent)
                        LS_TRY(column_put(w, c, object, out));
        }
        return LS_OK;
}

/* ---- reading -------------------------------------------------------------------------------- */

static bool
get_long(const struct ls_avro_type *t, const struct ls_avro_value *v, int64_t *ret)
{
        if (t->kind != LS_AVRO_INT && t->kind != LS_AVRO_LONG)
                return false;
        *ret = v->i;
        return true;
}

static ls_err
copy_bytes(const struct ls_ice_walk *w, const struct ls_avro_value *v, ls_span *ret)
{
        uint8_t *copy = ls_arena_alloc(w->arena, v->n + 1);

        if (copy == NULL)
                return LS_TOO_LARGE;
        if (v->n > 0)
                memcpy(copy, v->bytes, v->n);
        copy[v->n] = 0;
        *ret = ls_span_of(copy, v->n);
        return LS_OK;
}

static bool
is_bytes(const struct ls_avro_type *t)
{
        return t->kind == LS_AVRO_BYTES || t->kind == LS_AVRO_STRING || t->kind == LS_AVRO_FIXED;
}

/* The key and value fields of an array of pairs; false when it is none. */
static bool
pair_fields(const struct ls_avro_type *t, const struct ls_ice_column *c, uint32_t *ret_key,
            uint32_t *ret_value)
{
        const struct ls_avro_field *key, *value;

        if (t->kind != LS_AVRO_ARRAY || t->items->kind != LS_AVRO_RECORD)
                return false;
        key = ls_avro_field_by_id(t->items, c->key_id);
        value = ls_avro_field_by_id(t->items, c->value_id);
        if (key == NULL || value == NULL || key->type->kind != LS_AVRO_INT)
                return false;
        *ret_key = (uint32_t)(key - t->items->fields);
        *ret_value = (uint32_t)(value - t->items->fields);
        return true;
}

static ls_err
counts_get(const struct ls_ice_walk *w, const struct ls_ice_column *c, const struct ls_avro_type *t,
           const struct ls_avro_value *v, struct ls_iceberg_counts *ret)
{
        struct ls_iceberg_count *items;
        uint32_t key, value;

        if (!pair_fields(t, c, &key, &value))
                return LS_CORRUPT;
        items = ls_arena_array(w->arena, v->n + 1, sizeof *items);
        if (items == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < v->n; i++) {
                items[i].field_id = (int32_t)v->items[i].items[key].i;
                if (!get_long(t->items->fields[value].type, &v->items[i].items[value],
                              &items[i].value))
                        return LS_CORRUPT;
        }
        *ret = (struct ls_iceberg_counts){ items, v->n };
        return LS_OK;
}

static ls_err
bounds_get(const struct ls_ice_walk *w, const struct ls_ice_column *c, const struct ls_avro_type *t,
           const struct ls_avro_value *v, struct ls_iceberg_bounds *ret)
{
        struct ls_iceberg_bound *items;
        uint32_t key, value;

        if (!pair_fields(t, c, &key, &value) || !is_bytes(t->items->fields[value].type))
                return LS_CORRUPT;
        items = ls_arena_array(w->arena, v->n + 1, sizeof *items);
        if (items == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < v->n; i++) {
                items[i].field_id = (int32_t)v->items[i].items[key].i;
                LS_TRY(copy_bytes(w, &v->items[i].items[value], &items[i].value));
        }
        *ret = (struct ls_iceberg_bounds){ items, v->n };
        return LS_OK;
}

static ls_err
longs_get(const struct ls_ice_walk *w, const struct ls_avro_type *t, const struct ls_avro_value *v,
          struct ls_iceberg_longs *ret)
{
        int64_t *items;

        if (t->kind != LS_AVRO_ARRAY)
                return LS_CORRUPT;
        items = ls_arena_array(w->arena, v->n + 1, sizeof *items);
        if (items == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < v->n; i++)
                if (!get_long(t->items, &v->items[i], &items[i]))
                        return LS_CORRUPT;
        *ret = (struct ls_iceberg_longs){ items, v->n };
        return LS_OK;
}

static ls_err
summaries_get(const struct ls_ice_walk *w, const struct ls_avro_type *t,
              const struct ls_avro_value *v, struct ls_iceberg_manifest_file *line)
{
        struct ls_iceberg_summary *items;

        if (t->kind != LS_AVRO_ARRAY || t->items->kind != LS_AVRO_RECORD)
                return LS_CORRUPT;
        items = ls_arena_array(w->arena, v->n + 1, sizeof *items);
        if (items == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < v->n; i++) {
                items[i].contains_nan = LS_ICEBERG_NONE;
                LS_TRY(ls_ice_record_get(w, &ls_ice_summary_table, t->items, &v->items[i],
                                         &items[i]));
        }
        line->summaries = items;
        line->summary_count = v->n;
        return LS_OK;
}

/* Takes only what the partition field's type can be. */
static ls_err
partition_value_get(const struct ls_ice_walk *w, const struct ls_iceberg_type *want,
                    const struct ls_avro_type *t, const struct ls_avro_value *v,
                    struct ls_iceberg_value *ret)
{
        ls_span bytes;

        *ret = LS_ICEBERG_NULL;
        if (t->kind == LS_AVRO_UNION) {
                t = t->branches[v->branch];
                v = v->items;
        }
        if (t->kind == LS_AVRO_NULL || want->kind == LS_ICEBERG_UNKNOWN)
                return LS_OK;
        switch (want->kind) {
        case LS_ICEBERG_BOOLEAN:
                *ret = ls_iceberg_int(v->i);
                return t->kind == LS_AVRO_BOOLEAN ? LS_OK : LS_CORRUPT;
        case LS_ICEBERG_FLOAT:
        case LS_ICEBERG_DOUBLE:
                *ret = ls_iceberg_double(v->d);
                return t->kind == LS_AVRO_FLOAT || t->kind == LS_AVRO_DOUBLE ? LS_OK : LS_CORRUPT;
        case LS_ICEBERG_DECIMAL:
                *ret = ls_iceberg_decimal(0);
                return is_bytes(t) && ls_avro_decimal(ls_span_of(v->bytes, v->n), &ret->dec)
                               ? LS_OK
                               : LS_CORRUPT;
        case LS_ICEBERG_STRING:
        case LS_ICEBERG_UUID:
        case LS_ICEBERG_FIXED:
        case LS_ICEBERG_BINARY:
                if (!is_bytes(t))
                        return LS_CORRUPT;
                LS_TRY(copy_bytes(w, v, &bytes));
                *ret = ls_iceberg_bytes(bytes);
                return want->kind != LS_ICEBERG_UUID || bytes.len == 16 ? LS_OK : LS_CORRUPT;
        default: /* all that are integers */
                *ret = ls_iceberg_int(0);
                return get_long(t, v, &ret->i) ? LS_OK : LS_CORRUPT;
        }
}

static ls_err
tuple_get(const struct ls_ice_walk *w, const struct ls_avro_type *t, const struct ls_avro_value *v,
          const struct ls_iceberg_value **ret)
{
        struct ls_iceberg_value *tuple;

        if (t->kind != LS_AVRO_RECORD)
                return LS_CORRUPT;
        tuple = ls_arena_array(w->arena, w->spec->field_count + 1, sizeof *tuple);
        if (tuple == NULL)
                return LS_TOO_LARGE;
        for (uint32_t i = 0; i < w->spec->field_count; i++) {
                const struct ls_avro_field *f = ls_avro_field_by_id(t, w->spec->fields[i].field_id);

                tuple[i] = LS_ICEBERG_NULL;
                if (f != NULL)
                        LS_TRY(partition_value_get(w, &w->types[i], f->type,
                                                   &v->items[f - t->fields], &tuple[i]));
        }
        *ret = tuple;
        return LS_OK;
}

static ls_err
bool_get(const struct ls_avro_type *t, const struct ls_avro_value *v, bool *ret)
{
        *ret = v->i != 0;
        return t->kind == LS_AVRO_BOOLEAN ? LS_OK : LS_CORRUPT;
}

static ls_err
column_get(const struct ls_ice_walk *w, const struct ls_ice_column *c, const struct ls_avro_type *t,
           const struct ls_avro_value *v, void *object)
{
        void *p = (char *)object + c->offset;
        bool flag;
        ls_span s;

        switch (c->form) {
        case LS_ICE_INT:
        case LS_ICE_LONG: return get_long(t, v, p) ? LS_OK : LS_CORRUPT;
        case LS_ICE_BOOL: return bool_get(t, v, p);
        case LS_ICE_OPT_BOOL:
                LS_TRY(bool_get(t, v, &flag));
                *(int64_t *)p = flag;
                return LS_OK;
        case LS_ICE_STR:
                if (!is_bytes(t))
                        return LS_CORRUPT;
                LS_TRY(copy_bytes(w, v, &s));
                *(ls_str *)p = ls_str_make((const char *)s.ptr, s.len);
                return ls_iceberg_utf8_valid(s) ? LS_OK : LS_CORRUPT;
        case LS_ICE_BYTES: return is_bytes(t) ? copy_bytes(w, v, p) : LS_CORRUPT;
        case LS_ICE_COUNTS: return counts_get(w, c, t, v, p);
        case LS_ICE_BOUNDS: return bounds_get(w, c, t, v, p);
        case LS_ICE_LONGS:
        case LS_ICE_INTS: return longs_get(w, t, v, p);
        case LS_ICE_PARTITION: return tuple_get(w, t, v, p);
        case LS_ICE_FILE: return ls_ice_record_get(w, &ls_ice_file_table, t, v, p);
        case LS_ICE_SUMMARIES: return summaries_get(w, t, v, object);
        }
        return LS_CORRUPT;
}

static const struct ls_ice_column *
column_by_id(const struct ls_ice_table *t, int32_t id, uint64_t *ret_bit)
{
        for (size_t i = 0; i < t->count; i++) {
                if (t->columns[i].id != id)
                        continue;
                *ret_bit = (uint64_t)1 << i;
                return &t->columns[i];
        }
        return NULL;
}

ls_err
ls_ice_record_get(const struct ls_ice_walk *w, const struct ls_ice_table *t,
                  const struct ls_avro_type *type, const struct ls_avro_value *v, void *object)
{
        uint64_t seen = 0, bit = 0;

        if (type->kind != LS_AVRO_RECORD)
                return LS_CORRUPT;
        for (uint32_t i = 0; i < type->count; i++) {
                const struct ls_avro_type *ft = type->fields[i].type;
                const struct ls_avro_value *fv = &v->items[i];
                const struct ls_ice_column *c = column_by_id(t, type->fields[i].field_id, &bit);

                if (c == NULL)
                        continue;
                if (ft->kind == LS_AVRO_UNION) {
                        ft = ft->branches[fv->branch];
                        fv = fv->items;
                }
                if (ft->kind == LS_AVRO_NULL)
                        continue;
                LS_TRY(column_get(w, c, ft, fv, object));
                seen |= bit;
        }
        for (size_t i = 0; i < t->count; i++)
                if (t->columns[i].must_read && (seen & (uint64_t)1 << i) == 0)
                        return LS_CORRUPT;
        return LS_OK;
}
