/* iceberg/json.c - schemas, partition specs and sort orders as JSON (Appendix C). */
#include "base/assert.h"
#include "base/map.h"
#include "base/mem.h"
#include "formats/iceberg/json_int.h"
#include "formats/iceberg/limits.h"

/* ---- members -------------------------------------------------------------------------------- */

ls_err
ls_ice_json_load(ls_str text, struct ls_errinfo *reterr, json_t **ret_json)
{
        json_error_t error;

        if (text.len > LS_ICEBERG_METADATA_BYTES_MAX)
                return ls_fail(reterr, LS_TOO_LARGE, "JSON text of %zu bytes", text.len);
        *ret_json =
                json_loadb(text.ptr, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
        if (*ret_json == NULL)
                return ls_fail(reterr, LS_INVALID, "no JSON: %s, line %d", error.text, error.line);
        return LS_OK;
}

static ls_err
wrong(struct ls_ice_json *j, const char *key)
{
        ls_fail(j->reterr, LS_INVALID, "Iceberg JSON: \"%s\" is missing or wrong", key);
        return LS_INVALID; /* spelled out, so that the compiler sees that it is not LS_OK */
}

static ls_err
full(struct ls_ice_json *j)
{
        ls_fail(j->reterr, LS_TOO_LARGE, "Iceberg JSON is too large or nested too deep");
        return LS_TOO_LARGE;
}

static bool
is_absent(const json_t *v)
{
        return v == NULL || json_is_null(v);
}

ls_err
ls_ice_json_int(struct ls_ice_json *j, const json_t *object, const char *key, bool required,
                int64_t min, int64_t max, int64_t absent, int64_t *ret)
{
        const json_t *v = json_object_get(object, key);

        if (!required && is_absent(v)) {
                *ret = absent;
                return LS_OK;
        }
        if (!json_is_integer(v) || json_integer_value(v) < min || json_integer_value(v) > max)
                return wrong(j, key);
        *ret = json_integer_value(v);
        return LS_OK;
}

ls_err
ls_ice_json_id(struct ls_ice_json *j, const json_t *object, const char *key, int32_t *ret)
{
        int64_t id = 0;

        LS_TRY(ls_ice_json_int(j, object, key, true, INT32_MIN, INT32_MAX, 0, &id));
        *ret = (int32_t)id;
        return LS_OK;
}

ls_err
ls_ice_json_str(struct ls_ice_json *j, const json_t *object, const char *key, bool required,
                ls_str *ret)
{
        const json_t *v = json_object_get(object, key);

        if (!required && is_absent(v)) {
                *ret = LS_STR_NULL;
                return LS_OK;
        }
        if (!json_is_string(v))
                return wrong(j, key);
        *ret = ls_arena_str(j->arena, ls_str_make(json_string_value(v), json_string_length(v)));
        return ret->ptr != NULL ? LS_OK : full(j);
}

ls_err
ls_ice_json_bool(struct ls_ice_json *j, const json_t *object, const char *key, bool required,
                 bool *ret)
{
        const json_t *v = json_object_get(object, key);

        if (!json_is_boolean(v) && (required || !is_absent(v)))
                return wrong(j, key);
        *ret = json_is_true(v);
        return LS_OK;
}

ls_err
ls_ice_json_list(struct ls_ice_json *j, const json_t *object, const char *key, bool required,
                 const json_t **ret, size_t *ret_count)
{
        const json_t *v = json_object_get(object, key);

        if (!json_is_array(v) && (required || !is_absent(v)))
                return wrong(j, key);
        *ret = v;
        *ret_count = json_array_size(v);
        return *ret_count <= LS_ICEBERG_LIST_MAX ? LS_OK : full(j);
}

ls_err
ls_ice_json_alloc(struct ls_ice_json *j, size_t count, size_t bytes, void *ret)
{
        void *p = ls_arena_array(j->arena, count > 0 ? count : 1, bytes);

        if (p == NULL)
                return full(j);
        memcpy(ret, &p, sizeof p);
        return LS_OK;
}

static int
dump_part(const char *part, size_t len, void *out)
{
        ls_buf_put(out, part, len);
        return 0;
}

ls_err
ls_ice_json_text(struct ls_ice_json *j, const json_t *json, ls_str *ret)
{
        struct ls_buf text;

        *ret = LS_STR_NULL;
        if (json == NULL)
                return LS_OK;
        ls_buf_init(&text, LS_ICEBERG_METADATA_BYTES_MAX);
        if (json_dump_callback(json, dump_part, &text, JSON_COMPACT | JSON_ENCODE_ANY) == 0 &&
            !ls_buf_failed(&text))
                *ret = ls_arena_str(j->arena, ls_str_make((char *)text.ptr, text.len));
        ls_buf_done(&text);
        return ret->ptr != NULL ? LS_OK : full(j);
}

void
ls_ice_json_set_str(json_t *object, const char *key, ls_str value)
{
        json_t *v = json_stringn(value.ptr != NULL ? value.ptr : "", value.len);

        /* Text that is no UTF-8 cannot stand in JSON; names are checked where they enter. */
        LS_ASSERT(v != NULL);
        json_object_set_new(object, key, v);
}

void
ls_ice_json_dump(json_t *json, struct ls_buf *out)
{
        LS_ASSERT(json_dump_callback(json, dump_part, out, JSON_COMPACT | JSON_ENCODE_ANY) == 0);
        json_decref(json);
}

/* ---- schemas: reading ----------------------------------------------------------------------- */

static ls_err type_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_type *ret);

static ls_err
field_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_field *f)
{
        if (!json_is_object(json))
                return wrong(j, "fields");
        LS_TRY(ls_ice_json_id(j, json, "id", &f->id));
        LS_TRY(ls_ice_json_str(j, json, "name", true, &f->name));
        LS_TRY(ls_ice_json_bool(j, json, "required", true, &f->required));
        LS_TRY(ls_ice_json_str(j, json, "doc", false, &f->doc));
        LS_TRY(ls_ice_json_text(j, json_object_get(json, "initial-default"), &f->initial_default));
        LS_TRY(ls_ice_json_text(j, json_object_get(json, "write-default"), &f->write_default));
        return type_read(j, json_object_get(json, "type"), &f->type);
}

static ls_err
struct_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_type *ret)
{
        struct ls_iceberg_field *fields;
        struct ls_map names;
        const json_t *list;
        size_t count;
        ls_err e = LS_OK;

        LS_TRY(ls_ice_json_list(j, json, "fields", true, &list, &count));
        if (count > LS_ICEBERG_FIELDS_MAX - j->fields)
                return full(j);
        j->fields += (uint32_t)count;
        LS_TRY(ls_ice_json_alloc(j, count, sizeof *fields, &fields));
        ls_map_init(&names);
        for (size_t i = 0; i < count && e == LS_OK; i++) {
                e = field_read(j, json_array_get(list, i), &fields[i]);
                if (e == LS_OK &&
                    ls_map_set(&names, ls_map_key_str(fields[i].name), fields) != NULL)
                        e = ls_fail(j->reterr, LS_INVALID, "column %.*s stands twice",
                                    LS_STR_ARG(fields[i].name));
        }
        ls_map_done(&names);
        *ret = (struct ls_iceberg_type){ .kind = LS_ICEBERG_STRUCT,
                                         .field_count = (uint32_t)count,
                                         .fields = fields };
        return e;
}

static ls_err
list_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_type *ret)
{
        struct ls_iceberg_field *f;

        LS_TRY(ls_ice_json_alloc(j, 1, sizeof *f, &f));
        f->name = LS_STR("element");
        LS_TRY(ls_ice_json_id(j, json, "element-id", &f->id));
        LS_TRY(ls_ice_json_bool(j, json, "element-required", true, &f->required));
        *ret = (struct ls_iceberg_type){ .kind = LS_ICEBERG_LIST, .field_count = 1, .fields = f };
        return type_read(j, json_object_get(json, "element"), &f->type);
}

static ls_err
map_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_type *ret)
{
        struct ls_iceberg_field *f;

        LS_TRY(ls_ice_json_alloc(j, 2, sizeof *f, &f));
        f[0].name = LS_STR("key");
        f[0].required = true;
        f[1].name = LS_STR("value");
        LS_TRY(ls_ice_json_id(j, json, "key-id", &f[0].id));
        LS_TRY(ls_ice_json_id(j, json, "value-id", &f[1].id));
        LS_TRY(ls_ice_json_bool(j, json, "value-required", true, &f[1].required));
        *ret = (struct ls_iceberg_type){ .kind = LS_ICEBERG_MAP, .field_count = 2, .fields = f };
        LS_TRY(type_read(j, json_object_get(json, "key"), &f[0].type));
        return type_read(j, json_object_get(json, "value"), &f[1].type);
}

static ls_err
type_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_type *ret)
{
        const char *kind = json_string_value(json_object_get(json, "type"));
        ls_err e;

        if (json_is_string(json)) {
                ls_str text = ls_str_make(json_string_value(json), json_string_length(json));

                if (ls_iceberg_type_parse(text, ret) != LS_OK)
                        return ls_fail(j->reterr, LS_INVALID, "type \"%.*s\" is not known",
                                       LS_STR_ARG(text));
                return LS_OK;
        }
        if (kind == NULL)
                return wrong(j, "type");
        if (++j->depth > LS_ICEBERG_DEPTH_MAX)
                return full(j);
        if (strcmp(kind, "struct") == 0)
                e = struct_read(j, json, ret);
        else if (strcmp(kind, "list") == 0)
                e = list_read(j, json, ret);
        else if (strcmp(kind, "map") == 0)
                e = map_read(j, json, ret);
        else
                e = wrong(j, "type");
        j->depth--;
        return e;
}

static ls_err
ids_unique(struct ls_ice_json *j, struct ls_map *seen, const struct ls_iceberg_field *fields,
           uint32_t count)
{
        for (uint32_t i = 0; i < count; i++) {
                const struct ls_iceberg_field *f = &fields[i];

                if (ls_map_set(seen, ls_span_of(&f->id, sizeof f->id), seen) != NULL)
                        return ls_fail(j->reterr, LS_INVALID, "field id %d stands twice", f->id);
                LS_TRY(ids_unique(j, seen, f->type.fields, f->type.field_count));
        }
        return LS_OK;
}

static ls_err
identifiers_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_schema *s)
{
        const json_t *list;
        size_t count;
        int32_t *ids;

        LS_TRY(ls_ice_json_list(j, json, "identifier-field-ids", false, &list, &count));
        if (count == 0)
                return LS_OK;
        LS_TRY(ls_ice_json_alloc(j, count, sizeof *ids, &ids));
        for (size_t i = 0; i < count; i++) {
                const json_t *id = json_array_get(list, i);

                if (!json_is_integer(id) ||
                    json_integer_value(id) != (int32_t)json_integer_value(id) ||
                    ls_iceberg_field_by_id(s, (int32_t)json_integer_value(id)) == NULL)
                        return wrong(j, "identifier-field-ids");
                ids[i] = (int32_t)json_integer_value(id);
        }
        s->identifier_ids = ids;
        s->identifier_count = (uint32_t)count;
        return LS_OK;
}

ls_err
ls_ice_schema_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_schema *ret)
{
        struct ls_iceberg_schema s = { .schema_id = 0 };
        struct ls_iceberg_type root;
        struct ls_map seen;
        int64_t id;
        ls_err e;

        j->depth = j->fields = 0;
        LS_TRY(ls_ice_json_int(j, json, "schema-id", false, 0, INT32_MAX, 0, &id));
        LS_TRY(struct_read(j, json, &root));
        s.schema_id = (int32_t)id;
        s.fields = root.fields;
        s.field_count = root.field_count;
        ls_map_init(&seen);
        e = ids_unique(j, &seen, s.fields, s.field_count);
        ls_map_done(&seen);
        LS_TRY(e);
        LS_TRY(identifiers_read(j, json, &s));
        *ret = s;
        return LS_OK;
}

/* ---- schemas: writing ----------------------------------------------------------------------- */

static json_t *type_json(const struct ls_iceberg_type *t);

static void
set_json_text(json_t *object, const char *key, ls_str text)
{
        json_t *v = text.ptr ? json_loadb(text.ptr, text.len, JSON_DECODE_ANY, NULL) : NULL;

        if (v != NULL)
                json_object_set_new(object, key, v);
}

static json_t *
fields_json(const struct ls_iceberg_field *fields, uint32_t count)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < count; i++) {
                const struct ls_iceberg_field *f = &fields[i];
                json_t *o = json_object();

                json_object_set_new(o, "id", json_integer(f->id));
                ls_ice_json_set_str(o, "name", f->name);
                json_object_set_new(o, "required", json_boolean(f->required));
                json_object_set_new(o, "type", type_json(&f->type));
                if (f->doc.ptr != NULL)
                        ls_ice_json_set_str(o, "doc", f->doc);
                set_json_text(o, "initial-default", f->initial_default);
                set_json_text(o, "write-default", f->write_default);
                json_array_append_new(list, o);
        }
        return list;
}

static json_t *
type_json(const struct ls_iceberg_type *t)
{
        json_t *o;

        if (t->kind == LS_ICEBERG_STRUCT) {
                o = json_object();
                json_object_set_new(o, "type", json_string("struct"));
                json_object_set_new(o, "fields", fields_json(t->fields, t->field_count));
        } else if (t->kind == LS_ICEBERG_LIST) {
                o = json_object();
                json_object_set_new(o, "type", json_string("list"));
                json_object_set_new(o, "element-id", json_integer(t->fields[0].id));
                json_object_set_new(o, "element", type_json(&t->fields[0].type));
                json_object_set_new(o, "element-required", json_boolean(t->fields[0].required));
        } else if (t->kind == LS_ICEBERG_MAP) {
                o = json_object();
                json_object_set_new(o, "type", json_string("map"));
                json_object_set_new(o, "key-id", json_integer(t->fields[0].id));
                json_object_set_new(o, "key", type_json(&t->fields[0].type));
                json_object_set_new(o, "value-id", json_integer(t->fields[1].id));
                json_object_set_new(o, "value", type_json(&t->fields[1].type));
                json_object_set_new(o, "value-required", json_boolean(t->fields[1].required));
        } else {
                struct ls_buf b;

                ls_buf_init(&b, 64);
                ls_iceberg_type_print(t, &b);
                o = json_stringn((const char *)b.ptr, b.len);
                ls_buf_done(&b);
        }
        return o;
}

json_t *
ls_ice_schema_json(const struct ls_iceberg_schema *s)
{
        json_t *o = json_object();

        json_object_set_new(o, "type", json_string("struct"));
        json_object_set_new(o, "schema-id", json_integer(s->schema_id));
        if (s->identifier_count > 0) {
                json_t *ids = json_array();

                for (uint32_t i = 0; i < s->identifier_count; i++)
                        json_array_append_new(ids, json_integer(s->identifier_ids[i]));
                json_object_set_new(o, "identifier-field-ids", ids);
        }
        json_object_set_new(o, "fields", fields_json(s->fields, s->field_count));
        return o;
}

/* ---- partition specs and sort orders -------------------------------------------------------- */

static ls_err
transform_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_transform *ret)
{
        ls_str text;

        LS_TRY(ls_ice_json_str(j, json, "transform", true, &text));
        return ls_iceberg_transform_parse(text, ret) == LS_OK ? LS_OK : wrong(j, "transform");
}

/* "source-id", or version 3's "source-ids" of one. */
static ls_err
source_read(struct ls_ice_json *j, const json_t *json, int32_t *ret)
{
        const json_t *ids = json_object_get(json, "source-ids");
        const json_t *id = json_array_get(ids, 0);

        if (json_object_get(json, "source-id") != NULL || json_array_size(ids) != 1)
                return ls_ice_json_id(j, json, "source-id", ret);
        if (!json_is_integer(id) || json_integer_value(id) != (int32_t)json_integer_value(id))
                return wrong(j, "source-ids");
        *ret = (int32_t)json_integer_value(id);
        return LS_OK;
}

ls_err
ls_ice_spec_fields_read(struct ls_ice_json *j, const json_t *list, struct ls_iceberg_spec *ret)
{
        struct ls_iceberg_partition_field *fields;
        size_t count = json_array_size(list);

        if (!json_is_array(list))
                return wrong(j, "fields");
        if (count > LS_ICEBERG_PARTITION_FIELDS_MAX)
                return full(j);
        LS_TRY(ls_ice_json_alloc(j, count, sizeof *fields, &fields));
        for (size_t i = 0; i < count; i++) {
                const json_t *f = json_array_get(list, i);
                int64_t id;

                LS_TRY(source_read(j, f, &fields[i].source_id));
                LS_TRY(ls_ice_json_int(j, f, "field-id", false, INT32_MIN, INT32_MAX,
                                       LS_ICEBERG_PARTITION_ID_FIRST + (int64_t)i, &id));
                fields[i].field_id = (int32_t)id;
                LS_TRY(ls_ice_json_str(j, f, "name", true, &fields[i].name));
                LS_TRY(transform_read(j, f, &fields[i].transform));
        }
        ret->fields = fields;
        ret->field_count = (uint32_t)count;
        return LS_OK;
}

ls_err
ls_ice_spec_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_spec *ret)
{
        struct ls_iceberg_spec s = { .spec_id = 0 };

        LS_TRY(ls_ice_json_id(j, json, "spec-id", &s.spec_id));
        LS_TRY(ls_ice_spec_fields_read(j, json_object_get(json, "fields"), &s));
        *ret = s;
        return LS_OK;
}

static json_t *
transform_json(const struct ls_iceberg_transform *tr)
{
        struct ls_buf b;
        json_t *o;

        ls_buf_init(&b, 4096);
        ls_iceberg_transform_print(tr, &b);
        o = json_stringn((const char *)b.ptr, b.len);
        ls_buf_done(&b);
        return o;
}

static json_t *
spec_fields_json(const struct ls_iceberg_spec *s)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < s->field_count; i++) {
                const struct ls_iceberg_partition_field *f = &s->fields[i];
                json_t *o = json_object();

                json_object_set_new(o, "source-id", json_integer(f->source_id));
                json_object_set_new(o, "field-id", json_integer(f->field_id));
                ls_ice_json_set_str(o, "name", f->name);
                json_object_set_new(o, "transform", transform_json(&f->transform));
                json_array_append_new(list, o);
        }
        return list;
}

json_t *
ls_ice_spec_json(const struct ls_iceberg_spec *s)
{
        json_t *o = json_object();

        json_object_set_new(o, "spec-id", json_integer(s->spec_id));
        json_object_set_new(o, "fields", spec_fields_json(s));
        return o;
}

static ls_err
sort_field_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_sort_field *f)
{
        ls_str direction, nulls;

        LS_TRY(transform_read(j, json, &f->transform));
        LS_TRY(source_read(j, json, &f->source_id));
        LS_TRY(ls_ice_json_str(j, json, "direction", true, &direction));
        LS_TRY(ls_ice_json_str(j, json, "null-order", true, &nulls));
        f->descending = ls_str_is(direction, "desc");
        f->nulls_last = ls_str_is(nulls, "nulls-last");
        if (!f->descending && !ls_str_is(direction, "asc"))
                return wrong(j, "direction");
        if (!f->nulls_last && !ls_str_is(nulls, "nulls-first"))
                return wrong(j, "null-order");
        return LS_OK;
}

ls_err
ls_ice_sort_order_read(struct ls_ice_json *j, const json_t *json, struct ls_iceberg_sort_order *ret)
{
        struct ls_iceberg_sort_order s = { .order_id = 0 };
        struct ls_iceberg_sort_field *fields;
        const json_t *list;
        size_t count;

        LS_TRY(ls_ice_json_id(j, json, "order-id", &s.order_id));
        LS_TRY(ls_ice_json_list(j, json, "fields", true, &list, &count));
        if (count > LS_ICEBERG_PARTITION_FIELDS_MAX)
                return full(j);
        LS_TRY(ls_ice_json_alloc(j, count, sizeof *fields, &fields));
        for (size_t i = 0; i < count; i++)
                LS_TRY(sort_field_read(j, json_array_get(list, i), &fields[i]));
        s.fields = fields;
        s.field_count = (uint32_t)count;
        *ret = s;
        return LS_OK;
}

json_t *
ls_ice_sort_order_json(const struct ls_iceberg_sort_order *s)
{
        json_t *o = json_object(), *list = json_array();

        for (uint32_t i = 0; i < s->field_count; i++) {
                const struct ls_iceberg_sort_field *f = &s->fields[i];
                json_t *field = json_object();

                json_object_set_new(field, "transform", transform_json(&f->transform));
                json_object_set_new(field, "source-id", json_integer(f->source_id));
                json_object_set_new(field, "direction",
                                    json_string(f->descending ? "desc" : "asc"));
                json_object_set_new(field, "null-order",
                                    json_string(f->nulls_last ? "nulls-last" : "nulls-first"));
                json_array_append_new(list, field);
        }
        json_object_set_new(o, "order-id", json_integer(s->order_id));
        json_object_set_new(o, "fields", list);
        return o;
}

/* ---- public --------------------------------------------------------------------------------- */

ls_err
ls_iceberg_schema_parse(ls_str json, struct ls_arena *arena, struct ls_iceberg_schema *ret_schema,
                        struct ls_errinfo *reterr)
{
        struct ls_ice_json j = { .arena = arena, .reterr = reterr };
        json_t *root;
        ls_err e;

        LS_TRY(ls_ice_json_load(json, reterr, &root));
        e = ls_ice_schema_read(&j, root, ret_schema);
        json_decref(root);
        return e;
}

void
ls_iceberg_schema_print(const struct ls_iceberg_schema *s, struct ls_buf *out)
{
        ls_ice_json_dump(ls_ice_schema_json(s), out);
}

ls_err
ls_iceberg_spec_parse(ls_str json, struct ls_arena *arena, struct ls_iceberg_spec *ret_spec,
                      struct ls_errinfo *reterr)
{
        struct ls_ice_json j = { .arena = arena, .reterr = reterr };
        json_t *root;
        ls_err e;

        LS_TRY(ls_ice_json_load(json, reterr, &root));
        e = ls_ice_spec_read(&j, root, ret_spec);
        json_decref(root);
        return e;
}

void
ls_iceberg_spec_print(const struct ls_iceberg_spec *s, struct ls_buf *out)
{
        ls_ice_json_dump(ls_ice_spec_json(s), out);
}

void
ls_iceberg_spec_fields_print(const struct ls_iceberg_spec *s, struct ls_buf *out)
{
        ls_ice_json_dump(spec_fields_json(s), out);
}

ls_err
ls_iceberg_sort_order_parse(ls_str json, struct ls_arena *arena,
                            struct ls_iceberg_sort_order *ret_order, struct ls_errinfo *reterr)
{
        struct ls_ice_json j = { .arena = arena, .reterr = reterr };
        json_t *root;
        ls_err e;

        LS_TRY(ls_ice_json_load(json, reterr, &root));
        e = ls_ice_sort_order_read(&j, root, ret_order);
        json_decref(root);
        return e;
}

void
ls_iceberg_sort_order_print(const struct ls_iceberg_sort_order *s, struct ls_buf *out)
{
        ls_ice_json_dump(ls_ice_sort_order_json(s), out);
}

static json_t *
mapping_json(const struct ls_iceberg_field *fields, uint32_t count)
{
        json_t *list = json_array();

        for (uint32_t i = 0; i < count; i++) {
                json_t *o = json_object(), *names = json_array();

                json_array_append_new(names, json_stringn(fields[i].name.ptr, fields[i].name.len));
                json_object_set_new(o, "field-id", json_integer(fields[i].id));
                json_object_set_new(o, "names", names);
                if (fields[i].type.field_count > 0)
                        json_object_set_new(
                                o, "fields",
                                mapping_json(fields[i].type.fields, fields[i].type.field_count));
                json_array_append_new(list, o);
        }
        return list;
}

void
ls_iceberg_name_mapping_print(const struct ls_iceberg_schema *s, struct ls_buf *out)
{
        ls_ice_json_dump(mapping_json(s->fields, s->field_count), out);
}
