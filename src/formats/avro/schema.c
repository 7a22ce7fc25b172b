/* avro/schema.c - parses the JSON text of a schema into types.
 *
 * Types are made depth first. A named type is registered before its fields are parsed, so that they
 * may name it; `bytes_min` is worked out when a type is finished, and one that is not finished yet
 * counts as 0, which is a lower bound too. Recursion is bounded by the nesting of the text.
 */
#include <jansson.h>

#include "base/assert.h"
#include "base/map.h"
#include "formats/avro/avro.h"
#include "formats/avro/limits.h"

struct ls_avro_schema {
        struct ls_arena arena;
        struct ls_map names; /* full name -> type */
        const struct ls_avro_type *root;
        uint32_t type_count;
        ls_str text;
};

struct parser {
        struct ls_avro_schema *schema;
        struct ls_errinfo *reterr;
        uint32_t depth;
};

static const struct {
        const char *name;
        enum ls_avro_kind kind;
        uint32_t bytes_min;
} primitives[] = {
        { "null", LS_AVRO_NULL, 0 },   { "boolean", LS_AVRO_BOOLEAN, 1 },
        { "int", LS_AVRO_INT, 1 },     { "long", LS_AVRO_LONG, 1 },
        { "float", LS_AVRO_FLOAT, 4 }, { "double", LS_AVRO_DOUBLE, 8 },
        { "bytes", LS_AVRO_BYTES, 1 }, { "string", LS_AVRO_STRING, 1 },
};

/* The logical types and what they annotate. */
static const struct {
        const char *name;
        enum ls_avro_logical logical;
        enum ls_avro_kind kind, kind2;
} logicals[] = {
        { "decimal", LS_AVRO_DECIMAL, LS_AVRO_BYTES, LS_AVRO_FIXED },
        { "big-decimal", LS_AVRO_BIG_DECIMAL, LS_AVRO_BYTES, LS_AVRO_BYTES },
        { "uuid", LS_AVRO_UUID, LS_AVRO_STRING, LS_AVRO_FIXED },
        { "date", LS_AVRO_DATE, LS_AVRO_INT, LS_AVRO_INT },
        { "time-millis", LS_AVRO_TIME_MILLIS, LS_AVRO_INT, LS_AVRO_INT },
        { "time-micros", LS_AVRO_TIME_MICROS, LS_AVRO_LONG, LS_AVRO_LONG },
        { "timestamp-millis", LS_AVRO_TIMESTAMP_MILLIS, LS_AVRO_LONG, LS_AVRO_LONG },
        { "timestamp-micros", LS_AVRO_TIMESTAMP_MICROS, LS_AVRO_LONG, LS_AVRO_LONG },
        { "timestamp-nanos", LS_AVRO_TIMESTAMP_NANOS, LS_AVRO_LONG, LS_AVRO_LONG },
        { "local-timestamp-millis", LS_AVRO_LOCAL_TIMESTAMP_MILLIS, LS_AVRO_LONG, LS_AVRO_LONG },
        { "local-timestamp-micros", LS_AVRO_LOCAL_TIMESTAMP_MICROS, LS_AVRO_LONG, LS_AVRO_LONG },
        { "local-timestamp-nanos", LS_AVRO_LOCAL_TIMESTAMP_NANOS, LS_AVRO_LONG, LS_AVRO_LONG },
        { "duration", LS_AVRO_DURATION, LS_AVRO_FIXED, LS_AVRO_FIXED },
        { "map", LS_AVRO_MAP_ARRAY, LS_AVRO_ARRAY, LS_AVRO_ARRAY },
};

static ls_err parse_type(struct parser *p, const json_t *json, ls_str space,
                         const struct ls_avro_type **ret_type);

/* ---- small helpers -------------------------------------------------------------------------- */

static ls_str
text_of(const json_t *json)
{
        if (!json_is_string(json))
                return LS_STR_NULL;
        return ls_str_make(json_string_value(json), json_string_length(json));
}

static uint32_t
add_saturated(uint32_t a, uint32_t b)
{
        uint32_t sum;

        return __builtin_add_overflow(a, b, &sum) ? UINT32_MAX : sum;
}

static ls_err
too_large(struct parser *p)
{
        ls_fail(p->reterr, LS_TOO_LARGE, "Avro schema is too large or nested too deep");
        return LS_TOO_LARGE; /* spelled out, so that the compiler sees that it is not LS_OK */
}

static ls_err
new_type(struct parser *p, enum ls_avro_kind kind, struct ls_avro_type **ret_type)
{
        struct ls_avro_type *t = ls_arena_array(&p->schema->arena, 1, sizeof *t);

        if (t == NULL || p->schema->type_count >= LS_AVRO_TYPES_MAX)
                return too_large(p);
        t->kind = kind;
        t->element_id = t->key_id = t->value_id = LS_AVRO_NO_ID;
        t->index = p->schema->type_count++;
        *ret_type = t;
        return LS_OK;
}

static ls_err
copy_text(struct parser *p, ls_str s, ls_str *ret)
{
        *ret = ls_arena_str(&p->schema->arena, s);
        return s.ptr != NULL && ret->ptr == NULL ? too_large(p) : LS_OK;
}

static int32_t
id_of(const json_t *json, const char *key)
{
        const json_t *v = json_object_get(json, key);
        json_int_t id = json_integer_value(v);

        return json_is_integer(v) && id >= 0 && id <= INT32_MAX ? (int32_t)id : LS_AVRO_NO_ID;
}

/* A name without a dot stands in `space`; "" is the null namespace. */
static ls_err
full_name(struct parser *p, ls_str name, ls_str space, ls_str *ret)
{
        if (name.len == 0 || memchr(name.ptr, 0, name.len) != NULL)
                return ls_fail(p->reterr, LS_INVALID, "Avro name is empty or has a NUL");
        if (space.len == 0 || memchr(name.ptr, '.', name.len) != NULL) {
                if (name.ptr[0] == '.') { /* ".x": an explicit null namespace */
                        name.ptr++;
                        name.len--;
                }
                return copy_text(p, name, ret);
        }
        *ret = ls_arena_printf(&p->schema->arena, "%.*s.%.*s", LS_STR_ARG(space), LS_STR_ARG(name));
        return ret->len == 0 ? too_large(p) : LS_OK;
}

static ls_str
namespace_of(ls_str name)
{
        for (size_t i = name.len; i > 0; i--)
                if (name.ptr[i - 1] == '.')
                        return ls_str_make(name.ptr, i - 1);
        return LS_STR("");
}

static ls_err
parse_aliases(struct parser *p, const json_t *json, const ls_str *space, const ls_str **ret,
              uint32_t *ret_count)
{
        const json_t *list = json_object_get(json, "aliases");
        size_t n = json_array_size(list);
        ls_str *out;

        *ret = NULL;
        *ret_count = 0;
        if (list == NULL)
                return LS_OK;
        if (!json_is_array(list))
                return ls_fail(p->reterr, LS_INVALID, "Avro \"aliases\" is not an array");
        if (n > LS_AVRO_CHILDREN_MAX)
                return too_large(p);
        out = ls_arena_array(&p->schema->arena, n, sizeof *out);
        if (out == NULL)
                return too_large(p);
        for (size_t i = 0; i < n; i++) {
                ls_str s = text_of(json_array_get(list, i));

                if (s.ptr == NULL)
                        return ls_fail(p->reterr, LS_INVALID, "Avro alias is not a string");
                LS_TRY(space != NULL ? full_name(p, s, *space, &out[i]) : copy_text(p, s, &out[i]));
        }
        *ret = out;
        *ret_count = (uint32_t)n;
        return LS_OK;
}

static bool
contains(struct ls_map *seen, ls_str name)
{
        return ls_map_set(seen, ls_map_key_str(name), seen) != NULL;
}

/* ---- named types ---------------------------------------------------------------------------- */

/* Makes the type, gives it its name and registers it. */
static ls_err
named_type(struct parser *p, const json_t *json, ls_str space, enum ls_avro_kind kind,
           struct ls_avro_type **ret_type)
{
        ls_str name = text_of(json_object_get(json, "name"));
        ls_str own = text_of(json_object_get(json, "namespace"));
        struct ls_avro_type *t;
        ls_str scope;

        if (name.ptr == NULL)
                return ls_fail(p->reterr, LS_INVALID, "Avro type without a name");
        LS_TRY(new_type(p, kind, &t));
        LS_TRY(full_name(p, name, own.ptr != NULL ? own : space, &t->name));
        scope = namespace_of(t->name);
        LS_TRY(copy_text(p, text_of(json_object_get(json, "doc")), &t->doc));
        LS_TRY(parse_aliases(p, json, &scope, &t->aliases, &t->alias_count));
        for (size_t i = 0; i < LS_COUNT(primitives); i++)
                if (ls_str_is(t->name, primitives[i].name))
                        return ls_fail(p->reterr, LS_INVALID, "Avro type named \"%s\"",
                                       primitives[i].name);
        if (ls_map_get(&p->schema->names, ls_map_key_str(t->name)) != NULL)
                return ls_fail(p->reterr, LS_INVALID, "Avro type \"%.*s\" is defined twice",
                               LS_STR_ARG(t->name));
        ls_map_set(&p->schema->names, ls_map_key_str(t->name), t);
        *ret_type = t;
        return LS_OK;
}

static int
dump_part(const char *part, size_t len, void *out)
{
        ls_buf_put(out, part, len);
        return ls_buf_failed(out) ? -1 : 0;
}

static ls_err
parse_field(struct parser *p, const json_t *json, ls_str scope, struct ls_avro_field *f)
{
        const json_t *def = json_object_get(json, "default");
        ls_str name = text_of(json_object_get(json, "name"));

        if (name.len == 0)
                return ls_fail(p->reterr, LS_INVALID, "Avro field without a name");
        LS_TRY(copy_text(p, name, &f->name));
        LS_TRY(copy_text(p, text_of(json_object_get(json, "doc")), &f->doc));
        LS_TRY(parse_aliases(p, json, NULL, &f->aliases, &f->alias_count));
        f->field_id = id_of(json, "field-id");
        if (def != NULL) {
                struct ls_buf text;
                ls_err e = LS_OK;

                ls_buf_init(&text, LS_AVRO_SCHEMA_BYTES_MAX);
                if (json_dump_callback(def, dump_part, &text, JSON_COMPACT | JSON_ENCODE_ANY) != 0)
                        e = too_large(p);
                if (e == LS_OK)
                        e = copy_text(p, ls_str_make((char *)text.ptr, text.len), &f->default_json);
                ls_buf_done(&text);
                LS_TRY(e);
        }
        return parse_type(p, json_object_get(json, "type"), scope, &f->type);
}

static ls_err
parse_fields(struct parser *p, const json_t *list, struct ls_avro_type *t, struct ls_map *seen)
{
        size_t n = json_array_size(list);
        struct ls_avro_field *fields;
        ls_str scope = namespace_of(t->name);

        if (!json_is_array(list))
                return ls_fail(p->reterr, LS_INVALID, "Avro record \"%.*s\" without fields",
                               LS_STR_ARG(t->name));
        if (n > LS_AVRO_CHILDREN_MAX)
                return too_large(p);
        fields = ls_arena_array(&p->schema->arena, n, sizeof *fields);
        if (fields == NULL)
                return too_large(p);
        for (size_t i = 0; i < n; i++) {
                LS_TRY(parse_field(p, json_array_get(list, i), scope, &fields[i]));
                if (contains(seen, fields[i].name))
                        return ls_fail(p->reterr, LS_INVALID,
                                       "Avro record \"%.*s\" has two fields \"%.*s\"",
                                       LS_STR_ARG(t->name), LS_STR_ARG(fields[i].name));
                t->bytes_min = add_saturated(t->bytes_min, fields[i].type->bytes_min);
        }
        t->fields = fields;
        t->count = (uint32_t)n;
        return LS_OK;
}

static ls_err
parse_record(struct parser *p, const json_t *json, ls_str space, struct ls_avro_type **ret_type)
{
        struct ls_map seen;
        ls_err e;

        LS_TRY(named_type(p, json, space, LS_AVRO_RECORD, ret_type));
        ls_map_init(&seen);
        e = parse_fields(p, json_object_get(json, "fields"), *ret_type, &seen);
        ls_map_done(&seen);
        if (e != LS_OK)
                (*ret_type)->bytes_min = 0;
        return e;
}

static ls_err
parse_symbols(struct parser *p, const json_t *list, struct ls_avro_type *t, struct ls_map *seen)
{
        size_t n = json_array_size(list);
        ls_str *symbols;

        if (n > LS_AVRO_CHILDREN_MAX)
                return too_large(p);
        if (n == 0)
                return ls_fail(p->reterr, LS_INVALID, "Avro enum without symbols");
        symbols = ls_arena_array(&p->schema->arena, n, sizeof *symbols);
        if (symbols == NULL)
                return too_large(p);
        for (size_t i = 0; i < n; i++) {
                ls_str s = text_of(json_array_get(list, i));

                if (s.len == 0)
                        return ls_fail(p->reterr, LS_INVALID, "Avro enum symbol is no name");
                if (contains(seen, s))
                        return ls_fail(p->reterr, LS_INVALID, "Avro enum symbol \"%.*s\" twice",
                                       LS_STR_ARG(s));
                LS_TRY(copy_text(p, s, &symbols[i]));
        }
        t->symbols = symbols;
        t->count = (uint32_t)n;
        return LS_OK;
}

static ls_err
parse_enum(struct parser *p, const json_t *json, ls_str space, struct ls_avro_type **ret_type)
{
        ls_str def = text_of(json_object_get(json, "default"));
        struct ls_map seen;
        ls_err e;

        LS_TRY(named_type(p, json, space, LS_AVRO_ENUM, ret_type));
        ls_map_init(&seen);
        e = parse_symbols(p, json_object_get(json, "symbols"), *ret_type, &seen);
        if (e == LS_OK && def.ptr != NULL && ls_map_get(&seen, ls_map_key_str(def)) == NULL)
                e = ls_fail(p->reterr, LS_INVALID, "Avro enum default is not a symbol");
        ls_map_done(&seen);
        LS_TRY(e);
        (*ret_type)->bytes_min = 1;
        return copy_text(p, def, &(*ret_type)->default_symbol);
}

static ls_err
parse_fixed(struct parser *p, const json_t *json, ls_str space, struct ls_avro_type **ret_type)
{
        const json_t *size = json_object_get(json, "size");

        LS_TRY(named_type(p, json, space, LS_AVRO_FIXED, ret_type));
        if (!json_is_integer(size) || json_integer_value(size) < 0 ||
            json_integer_value(size) > INT32_MAX)
                return ls_fail(p->reterr, LS_INVALID, "Avro fixed without a size");
        (*ret_type)->fixed_bytes = (uint32_t)json_integer_value(size);
        (*ret_type)->bytes_min = (*ret_type)->fixed_bytes;
        return LS_OK;
}

/* ---- unnamed types -------------------------------------------------------------------------- */

static ls_err
union_add(struct parser *p, struct ls_map *seen, const struct ls_avro_type *branch)
{
        static const char *const kinds[] = {
                [LS_AVRO_ARRAY] = "array",
                [LS_AVRO_MAP] = "map",
        };
        ls_str name = branch->name;

        if (branch->kind == LS_AVRO_UNION)
                return ls_fail(p->reterr, LS_INVALID, "Avro union directly in a union");
        if (branch->kind < LS_COUNT(primitives))
                name = ls_str_of(primitives[branch->kind].name);
        else if (name.ptr == NULL)
                name = ls_str_of(kinds[branch->kind]);
        if (contains(seen, name))
                return ls_fail(p->reterr, LS_INVALID, "Avro union has \"%.*s\" twice",
                               LS_STR_ARG(name));
        return LS_OK;
}

static ls_err
parse_branches(struct parser *p, const json_t *list, ls_str space, struct ls_avro_type *t,
               struct ls_map *seen)
{
        size_t n = json_array_size(list);

        if (n > LS_AVRO_CHILDREN_MAX)
                return too_large(p);
        if (n == 0)
                return ls_fail(p->reterr, LS_INVALID, "Avro union without branches");
        t->branches = ls_arena_array(&p->schema->arena, n, sizeof *t->branches);
        if (t->branches == NULL)
                return too_large(p);
        for (size_t i = 0; i < n; i++) {
                LS_TRY(parse_type(p, json_array_get(list, i), space, &t->branches[i]));
                LS_TRY(union_add(p, seen, t->branches[i]));
        }
        t->count = (uint32_t)n;
        t->bytes_min = 1;
        return LS_OK;
}

static ls_err
parse_union(struct parser *p, const json_t *list, ls_str space, struct ls_avro_type **ret_type)
{
        struct ls_map seen;
        ls_err e;

        LS_TRY(new_type(p, LS_AVRO_UNION, ret_type));
        ls_map_init(&seen);
        e = parse_branches(p, list, space, *ret_type, &seen);
        ls_map_done(&seen);
        return e;
}

static ls_err
parse_items(struct parser *p, const json_t *json, ls_str space, enum ls_avro_kind kind,
            struct ls_avro_type **ret_type)
{
        const char *key = kind == LS_AVRO_ARRAY ? "items" : "values";
        struct ls_avro_type *t;

        LS_TRY(new_type(p, kind, &t));
        t->bytes_min = 1;
        t->element_id = id_of(json, "element-id");
        t->key_id = id_of(json, "key-id");
        t->value_id = id_of(json, "value-id");
        *ret_type = t;
        return parse_type(p, json_object_get(json, key), space, &t->items);
}

/* A primitive by its name, or a named type met before. */
static ls_err
parse_name(struct parser *p, ls_str name, ls_str space, const struct ls_avro_type **ret_type)
{
        struct ls_avro_type *t = NULL;
        ls_str full;

        for (size_t i = 0; i < LS_COUNT(primitives); i++) {
                if (!ls_str_is(name, primitives[i].name))
                        continue;
                LS_TRY(new_type(p, primitives[i].kind, &t));
                t->bytes_min = primitives[i].bytes_min;
                *ret_type = t;
                return LS_OK;
        }
        LS_TRY(full_name(p, name, space, &full));
        *ret_type = ls_map_get(&p->schema->names, ls_map_key_str(full));
        if (*ret_type == NULL) /* lenient as the reference: a name of the null namespace */
                *ret_type = ls_map_get(&p->schema->names, ls_map_key_str(name));
        if (*ret_type == NULL)
                return ls_fail(p->reterr, LS_INVALID, "Avro type \"%.*s\" is not defined",
                               LS_STR_ARG(name));
        return LS_OK;
}

/* ---- logical types -------------------------------------------------------------------------- */

/* Digits that `bytes` bytes of two's complement can hold: floor(log10(2^(8n-1) - 1)). */
static int32_t
precision_max(uint32_t bytes)
{
        return bytes > 50 ? LS_AVRO_PRECISION_MAX : (int32_t)((bytes * 8 - 1) * 30103 / 100000);
}

static bool
decimal_fits(const json_t *json, struct ls_avro_type *t)
{
        json_int_t precision = json_integer_value(json_object_get(json, "precision"));
        json_int_t scale = json_integer_value(json_object_get(json, "scale"));

        if (precision < 1 || precision > LS_AVRO_PRECISION_MAX || scale < 0 || scale > precision)
                return false;
        if (t->kind == LS_AVRO_FIXED &&
            (t->fixed_bytes == 0 || precision > precision_max(t->fixed_bytes)))
                return false;
        t->precision = (int32_t)precision;
        t->scale = (int32_t)scale;
        return true;
}

static bool
map_array_fits(const struct ls_avro_type *t)
{
        return t->items->kind == LS_AVRO_RECORD && t->items->count == 2;
}

/* Ignored where it does not apply, as the specification wants. */
static void
parse_logical(const json_t *json, struct ls_avro_type *t)
{
        ls_str name = text_of(json_object_get(json, "logicalType"));

        t->adjust_to_utc = json_is_true(json_object_get(json, "adjust-to-utc"));
        for (size_t i = 0; name.ptr != NULL && i < LS_COUNT(logicals); i++) {
                enum ls_avro_logical logical = logicals[i].logical;

                if (!ls_str_is(name, logicals[i].name) ||
                    (t->kind != logicals[i].kind && t->kind != logicals[i].kind2))
                        continue;
                if ((logical == LS_AVRO_DECIMAL && !decimal_fits(json, t)) ||
                    (logical == LS_AVRO_DURATION && t->fixed_bytes != 12) ||
                    (logical == LS_AVRO_UUID && t->kind == LS_AVRO_FIXED && t->fixed_bytes != 16) ||
                    (logical == LS_AVRO_MAP_ARRAY && !map_array_fits(t)))
                        return;
                t->logical = logical;
                return;
        }
}

/* ---- any type ------------------------------------------------------------------------------- */

static ls_err
parse_object(struct parser *p, const json_t *json, ls_str space,
             const struct ls_avro_type **ret_type)
{
        ls_str kind = text_of(json_object_get(json, "type"));
        struct ls_avro_type *t = NULL;

        if (kind.ptr == NULL) /* {"type": {…}} is what it wraps */
                return parse_type(p, json_object_get(json, "type"), space, ret_type);
        if (ls_str_is(kind, "record") || ls_str_is(kind, "error"))
                LS_TRY(parse_record(p, json, space, &t));
        else if (ls_str_is(kind, "enum"))
                LS_TRY(parse_enum(p, json, space, &t));
        else if (ls_str_is(kind, "fixed"))
                LS_TRY(parse_fixed(p, json, space, &t));
        else if (ls_str_is(kind, "array"))
                LS_TRY(parse_items(p, json, space, LS_AVRO_ARRAY, &t));
        else if (ls_str_is(kind, "map"))
                LS_TRY(parse_items(p, json, space, LS_AVRO_MAP, &t));
        else {
                LS_TRY(parse_name(p, kind, space, ret_type));
                if ((*ret_type)->name.ptr != NULL)
                        return LS_OK; /* a reference: its definition has the attributes */
                t = (struct ls_avro_type *)*ret_type; /* fresh: parse_name just made it */
        }
        parse_logical(json, t);
        *ret_type = t;
        return LS_OK;
}

static ls_err
parse_type(struct parser *p, const json_t *json, ls_str space, const struct ls_avro_type **ret_type)
{
        struct ls_avro_type *t = NULL;
        ls_err e;

        if (++p->depth > LS_AVRO_DEPTH_MAX)
                return too_large(p);
        if (json_is_string(json)) {
                e = parse_name(p, text_of(json), space, ret_type);
        } else if (json_is_array(json)) {
                e = parse_union(p, json, space, &t);
                *ret_type = e == LS_OK ? t : NULL;
        } else if (json_is_object(json)) {
                e = parse_object(p, json, space, ret_type);
        } else {
                e = ls_fail(p->reterr, LS_INVALID,
                            "Avro type is missing or no string, array, object");
        }
        p->depth--;
        return e;
}

ls_err
ls_avro_schema_parse(ls_str json, struct ls_avro_schema **ret_schema, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_avro_schema_free) struct ls_avro_schema *s = ls_calloc(1, sizeof *s);
        struct parser p = { .schema = s, .reterr = reterr };
        json_error_t error;
        json_t *root;
        ls_err e;

        ls_arena_init(&s->arena, 16 * LS_AVRO_SCHEMA_BYTES_MAX);
        ls_map_init(&s->names);
        if (json.len > LS_AVRO_SCHEMA_BYTES_MAX)
                return too_large(&p);
        LS_TRY(copy_text(&p, json, &s->text));
        root = json_loadb(json.ptr, json.len, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &error);
        if (root == NULL && json.len > 0 && json.ptr[0] != '{' && json.ptr[0] != '[' &&
            json.ptr[0] != '"') /* a bare name, as some writers put it: long */
                root = json_stringn(json.ptr, json.len);
        if (root == NULL)
                return ls_fail(reterr, LS_INVALID, "Avro schema is no JSON: %s, line %d",
                               error.text, error.line);
        e = parse_type(&p, root, LS_STR(""), &s->root);
        json_decref(root);
        LS_TRY(e);
        *ret_schema = LS_STEAL(s);
        return LS_OK;
}

void
ls_avro_schema_free(struct ls_avro_schema *s)
{
        if (s == NULL)
                return;
        ls_map_done(&s->names);
        ls_arena_done(&s->arena);
        ls_free(s);
}

const struct ls_avro_type *
ls_avro_schema_root(const struct ls_avro_schema *s)
{
        return s->root;
}

uint32_t
ls_avro_schema_type_count(const struct ls_avro_schema *s)
{
        return s->type_count;
}

ls_str
ls_avro_schema_text(const struct ls_avro_schema *s)
{
        return s->text;
}

const struct ls_avro_field *
ls_avro_field_by_name(const struct ls_avro_type *record, ls_str name)
{
        LS_ASSERT(record->kind == LS_AVRO_RECORD);
        for (uint32_t i = 0; i < record->count; i++)
                if (ls_str_eq(record->fields[i].name, name))
                        return &record->fields[i];
        return NULL;
}

const struct ls_avro_field *
ls_avro_field_by_id(const struct ls_avro_type *record, int32_t id)
{
        LS_ASSERT(record->kind == LS_AVRO_RECORD);
        for (uint32_t i = 0; id != LS_AVRO_NO_ID && i < record->count; i++)
                if (record->fields[i].field_id == id)
                        return &record->fields[i];
        return NULL;
}

const struct ls_avro_type *
ls_avro_unwrap(const struct ls_avro_type *t, int *ret_null)
{
        *ret_null = -1;
        if (t->kind != LS_AVRO_UNION)
                return t;
        if (t->count == 2 && t->branches[0]->kind == LS_AVRO_NULL) {
                *ret_null = 0;
                return t->branches[1];
        }
        if (t->count == 2 && t->branches[1]->kind == LS_AVRO_NULL) {
                *ret_null = 1;
                return t->branches[0];
        }
        return NULL;
}
