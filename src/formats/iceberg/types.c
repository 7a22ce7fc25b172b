/* iceberg/types.c - types and transforms by their text, comparison, lookup and checks. */
#include "formats/iceberg/types.h"

#include "base/assert.h"
#include "base/mem.h"
#include "formats/iceberg/limits.h"
#include "formats/iceberg/value.h"

static const struct {
        const char *name;
        enum ls_iceberg_kind kind;
} type_names[] = {
        { "boolean", LS_ICEBERG_BOOLEAN },
        { "int", LS_ICEBERG_INT },
        { "long", LS_ICEBERG_LONG },
        { "float", LS_ICEBERG_FLOAT },
        { "double", LS_ICEBERG_DOUBLE },
        { "date", LS_ICEBERG_DATE },
        { "time", LS_ICEBERG_TIME },
        { "timestamp", LS_ICEBERG_TIMESTAMP },
        { "timestamptz", LS_ICEBERG_TIMESTAMPTZ },
        { "timestamp_ns", LS_ICEBERG_TIMESTAMP_NS },
        { "timestamptz_ns", LS_ICEBERG_TIMESTAMPTZ_NS },
        { "string", LS_ICEBERG_STRING },
        { "uuid", LS_ICEBERG_UUID },
        { "binary", LS_ICEBERG_BINARY },
        { "unknown", LS_ICEBERG_UNKNOWN },
        { "variant", LS_ICEBERG_VARIANT },
};

static const struct {
        const char *name;
        enum ls_iceberg_transform_kind kind;
} transform_names[] = {
        { "identity", LS_ICEBERG_IDENTITY }, { "year", LS_ICEBERG_YEAR },
        { "month", LS_ICEBERG_MONTH },       { "day", LS_ICEBERG_DAY },
        { "hour", LS_ICEBERG_HOUR },         { "void", LS_ICEBERG_VOID },
};

/* ---- texts ---------------------------------------------------------------------------------- */

static bool
starts_with(ls_str s, const char *prefix)
{
        size_t n = strlen(prefix);

        return s.len >= n && memcmp(s.ptr, prefix, n) == 0;
}

static ls_str
trim(ls_str s)
{
        while (s.len > 0 && s.ptr[0] == ' ') {
                s.ptr++;
                s.len--;
        }
        while (s.len > 0 && s.ptr[s.len - 1] == ' ')
                s.len--;
        return s;
}

/* The text between `open`, which ends in its bracket, and `close`, the last character. */
static bool
inside(ls_str s, const char *open, char close, ls_str *ret)
{
        size_t n = strlen(open);

        if (!starts_with(s, open) || s.len < n + 1 || s.ptr[s.len - 1] != close)
                return false;
        *ret = trim(ls_str_make(s.ptr + n, s.len - n - 1));
        return true;
}

static ls_err
decimal_parse(ls_str args, struct ls_iceberg_type *ret_type)
{
        const char *comma = memchr(args.ptr, ',', args.len);
        int64_t precision, scale;
        ls_str left, right;

        if (comma == NULL)
                return LS_INVALID;
        left = trim(ls_str_make(args.ptr, (size_t)(comma - args.ptr)));
        right = trim(ls_str_make(comma + 1, args.len - (size_t)(comma - args.ptr) - 1));
        if (!ls_str_to_i64(left, 1, LS_ICEBERG_PRECISION_MAX, &precision) ||
            !ls_str_to_i64(right, 0, precision, &scale))
                return LS_INVALID;
        *ret_type = (struct ls_iceberg_type){ .kind = LS_ICEBERG_DECIMAL,
                                              .precision = (int32_t)precision,
                                              .scale = (int32_t)scale };
        return LS_OK;
}

ls_err
ls_iceberg_type_parse(ls_str text, struct ls_iceberg_type *ret_type)
{
        int64_t bytes;
        ls_str args;

        for (size_t i = 0; i < LS_COUNT(type_names); i++) {
                if (!ls_str_is(text, type_names[i].name))
                        continue;
                *ret_type = (struct ls_iceberg_type){ .kind = type_names[i].kind };
                return LS_OK;
        }
        if (inside(text, "decimal(", ')', &args))
                return decimal_parse(args, ret_type);
        if (!inside(text, "fixed[", ']', &args) || !ls_str_to_i64(args, 0, INT32_MAX, &bytes))
                return LS_INVALID;
        *ret_type =
                (struct ls_iceberg_type){ .kind = LS_ICEBERG_FIXED, .fixed_bytes = (int32_t)bytes };
        return LS_OK;
}

void
ls_iceberg_type_print(const struct ls_iceberg_type *t, struct ls_buf *out)
{
        if (t->kind == LS_ICEBERG_DECIMAL) {
                ls_buf_printf(out, "decimal(%d, %d)", t->precision, t->scale);
                return;
        }
        if (t->kind == LS_ICEBERG_FIXED) {
                ls_buf_printf(out, "fixed[%d]", t->fixed_bytes);
                return;
        }
        for (size_t i = 0; i < LS_COUNT(type_names); i++)
                if (type_names[i].kind == t->kind)
                        ls_buf_put_text(out, type_names[i].name);
}

ls_err
ls_iceberg_transform_parse(ls_str text, struct ls_iceberg_transform *ret)
{
        struct ls_iceberg_transform tr = { .kind = LS_ICEBERG_OTHER, .text = text };
        int64_t param;
        ls_str args;

        for (size_t i = 0; i < LS_COUNT(transform_names); i++) {
                if (!ls_str_is(text, transform_names[i].name))
                        continue;
                *ret = (struct ls_iceberg_transform){ .kind = transform_names[i].kind };
                return LS_OK;
        }
        if (inside(text, "bucket[", ']', &args))
                tr.kind = LS_ICEBERG_BUCKET;
        else if (inside(text, "truncate[", ']', &args))
                tr.kind = LS_ICEBERG_TRUNCATE;
        else if (text.len == 0)
                return LS_INVALID;
        if (tr.kind != LS_ICEBERG_OTHER) {
                if (!ls_str_to_i64(args, 1, LS_ICEBERG_TRANSFORM_PARAM_MAX, &param))
                        return LS_INVALID;
                tr = (struct ls_iceberg_transform){ .kind = tr.kind, .param = (int32_t)param };
        }
        *ret = tr;
        return LS_OK;
}

void
ls_iceberg_transform_print(const struct ls_iceberg_transform *t, struct ls_buf *out)
{
        if (t->kind == LS_ICEBERG_BUCKET)
                ls_buf_printf(out, "bucket[%d]", t->param);
        else if (t->kind == LS_ICEBERG_TRUNCATE)
                ls_buf_printf(out, "truncate[%d]", t->param);
        else if (t->kind == LS_ICEBERG_OTHER)
                ls_buf_put_str(out, t->text);
        for (size_t i = 0; i < LS_COUNT(transform_names); i++)
                if (transform_names[i].kind == t->kind)
                        ls_buf_put_text(out, transform_names[i].name);
}

int
ls_iceberg_type_version(const struct ls_iceberg_type *t)
{
        int version = 2;

        switch (t->kind) {
        case LS_ICEBERG_TIMESTAMP_NS:
        case LS_ICEBERG_TIMESTAMPTZ_NS:
        case LS_ICEBERG_UNKNOWN:
        case LS_ICEBERG_VARIANT: return 3;
        case LS_ICEBERG_STRUCT:
        case LS_ICEBERG_LIST:
        case LS_ICEBERG_MAP:
                for (uint32_t i = 0; i < t->field_count; i++)
                        version = LS_MAX(version, ls_iceberg_type_version(&t->fields[i].type));
                return version;
        case LS_ICEBERG_BOOLEAN:
        case LS_ICEBERG_INT:
        case LS_ICEBERG_LONG:
        case LS_ICEBERG_FLOAT:
        case LS_ICEBERG_DOUBLE:
        case LS_ICEBERG_DECIMAL:
        case LS_ICEBERG_DATE:
        case LS_ICEBERG_TIME:
        case LS_ICEBERG_TIMESTAMP:
        case LS_ICEBERG_TIMESTAMPTZ:
        case LS_ICEBERG_STRING:
        case LS_ICEBERG_UUID:
        case LS_ICEBERG_FIXED:
        case LS_ICEBERG_BINARY: return 2;
        }
        return version;
}

/* ---- comparison ----------------------------------------------------------------------------- */

static bool
fields_same(const struct ls_iceberg_field *a, const struct ls_iceberg_field *b, uint32_t count)
{
        for (uint32_t i = 0; i < count; i++)
                if (a[i].id != b[i].id || a[i].required != b[i].required ||
                    !ls_str_eq(a[i].name, b[i].name) || !ls_str_eq(a[i].doc, b[i].doc) ||
                    !ls_str_eq(a[i].initial_default, b[i].initial_default) ||
                    !ls_str_eq(a[i].write_default, b[i].write_default) ||
                    !ls_iceberg_type_eq(&a[i].type, &b[i].type))
                        return false;
        return true;
}

bool
ls_iceberg_type_eq(const struct ls_iceberg_type *a, const struct ls_iceberg_type *b)
{
        return a->kind == b->kind && a->precision == b->precision && a->scale == b->scale &&
               a->fixed_bytes == b->fixed_bytes && a->field_count == b->field_count &&
               fields_same(a->fields, b->fields, a->field_count);
}

bool
ls_iceberg_schema_same(const struct ls_iceberg_schema *a, const struct ls_iceberg_schema *b)
{
        if (a->field_count != b->field_count || a->identifier_count != b->identifier_count)
                return false;
        for (uint32_t i = 0; i < a->identifier_count; i++)
                if (a->identifier_ids[i] != b->identifier_ids[i])
                        return false;
        return fields_same(a->fields, b->fields, a->field_count);
}

static bool
transform_same(const struct ls_iceberg_transform *a, const struct ls_iceberg_transform *b)
{
        return a->kind == b->kind && a->param == b->param && ls_str_eq(a->text, b->text);
}

bool
ls_iceberg_spec_same(const struct ls_iceberg_spec *a, const struct ls_iceberg_spec *b)
{
        if (a->field_count != b->field_count)
                return false;
        for (uint32_t i = 0; i < a->field_count; i++)
                if (a->fields[i].source_id != b->fields[i].source_id ||
                    a->fields[i].field_id != b->fields[i].field_id ||
                    !ls_str_eq(a->fields[i].name, b->fields[i].name) ||
                    !transform_same(&a->fields[i].transform, &b->fields[i].transform))
                        return false;
        return true;
}

/* ---- lookup --------------------------------------------------------------------------------- */

static const struct ls_iceberg_field *
find_id(const struct ls_iceberg_field *fields, uint32_t count, int32_t id)
{
        for (uint32_t i = 0; i < count; i++) {
                const struct ls_iceberg_field *inner;

                if (fields[i].id == id)
                        return &fields[i];
                inner = find_id(fields[i].type.fields, fields[i].type.field_count, id);
                if (inner != NULL)
                        return inner;
        }
        return NULL;
}

const struct ls_iceberg_field *
ls_iceberg_field_by_id(const struct ls_iceberg_schema *s, int32_t id)
{
        return find_id(s->fields, s->field_count, id);
}

const struct ls_iceberg_field *
ls_iceberg_field_by_name(const struct ls_iceberg_schema *s, ls_str name)
{
        for (uint32_t i = 0; i < s->field_count; i++)
                if (ls_str_eq(s->fields[i].name, name))
                        return &s->fields[i];
        return NULL;
}

static int32_t
last_id(const struct ls_iceberg_field *fields, uint32_t count, int32_t last)
{
        for (uint32_t i = 0; i < count; i++) {
                last = LS_MAX(last, fields[i].id);
                last = last_id(fields[i].type.fields, fields[i].type.field_count, last);
        }
        return last;
}

int32_t
ls_iceberg_schema_last_id(const struct ls_iceberg_schema *s)
{
        return last_id(s->fields, s->field_count, 0);
}

/* A partition source: at the top or in structs, never in a list or map. */
static const struct ls_iceberg_field *
find_source(const struct ls_iceberg_field *fields, uint32_t count, int32_t id)
{
        for (uint32_t i = 0; i < count; i++) {
                const struct ls_iceberg_field *inner = NULL;

                if (fields[i].id == id)
                        return &fields[i];
                if (fields[i].type.kind == LS_ICEBERG_STRUCT)
                        inner = find_source(fields[i].type.fields, fields[i].type.field_count, id);
                if (inner != NULL)
                        return inner;
        }
        return NULL;
}

/* ---- checks --------------------------------------------------------------------------------- */

static ls_err
spec_field_check(const struct ls_iceberg_spec *spec, uint32_t at,
                 const struct ls_iceberg_schema *schema, struct ls_errinfo *reterr)
{
        const struct ls_iceberg_partition_field *f = &spec->fields[at];
        const struct ls_iceberg_field *source =
                find_source(schema->fields, schema->field_count, f->source_id);

        if (f->name.len == 0)
                return ls_fail(reterr, LS_INVALID, "partition field without a name");
        for (uint32_t i = 0; i < at; i++)
                if (ls_str_eq(spec->fields[i].name, f->name) ||
                    spec->fields[i].field_id == f->field_id)
                        return ls_fail(reterr, LS_INVALID, "partition field %.*s stands twice",
                                       LS_STR_ARG(f->name));
        if (f->transform.kind == LS_ICEBERG_OTHER)
                return ls_fail(reterr, LS_UNSUPPORTED, "transform %.*s is not known",
                               LS_STR_ARG(f->transform.text));
        if (f->transform.kind == LS_ICEBERG_VOID) /* its source may have been dropped */
                return LS_OK;
        if (source == NULL)
                return ls_fail(reterr, LS_INVALID,
                               "source column %d of partition field %.*s does not exist",
                               f->source_id, LS_STR_ARG(f->name));
        if (!ls_iceberg_transform_takes(&f->transform, &source->type))
                return ls_fail(reterr, LS_INVALID,
                               "the transform of partition field %.*s does not take its column",
                               LS_STR_ARG(f->name));
        return LS_OK;
}

ls_err
ls_iceberg_spec_check(const struct ls_iceberg_spec *spec, const struct ls_iceberg_schema *schema,
                      struct ls_errinfo *reterr)
{
        if (spec->field_count > LS_ICEBERG_PARTITION_FIELDS_MAX)
                return ls_fail(reterr, LS_INVALID, "more than %d partition fields",
                               LS_ICEBERG_PARTITION_FIELDS_MAX);
        for (uint32_t i = 0; i < spec->field_count; i++)
                LS_TRY(spec_field_check(spec, i, schema, reterr));
        return LS_OK;
}
