/* lake/shape.c - see shape.h. */
#include "lake/shape.h"

#include "base/assert.h"
#include "base/mem.h"
#include "lake/lake.h"
#include "lake/rows.h"
#include "lake/split.h"

#define SHAPE_ARENA_BYTES_MAX ((size_t)1 << 20)

/* --- columns --- */

static const struct ls_iceberg_field header_fields[] = {
        { .id = LS_ROWS_FIELD_HEADER_KEY,
          .name = LS_STR("key"),
          .required = true,
          .type = { .kind = LS_ICEBERG_STRING } },
        { .id = LS_ROWS_FIELD_HEADER_VALUE,
          .name = LS_STR("value"),
          .type = { .kind = LS_ICEBERG_BINARY } },
};
static const struct ls_iceberg_field header_element[] = {
        { .id = LS_ROWS_FIELD_HEADER,
          .name = LS_STR("element"),
          .required = true,
          .type = { .kind = LS_ICEBERG_STRUCT, .field_count = 2, .fields = header_fields } },
};
static const struct ls_iceberg_field column_fields[] = {
        { .id = LS_ROWS_FIELD_VALUE,
          .name = LS_STR("value"),
          .type = { .kind = LS_ICEBERG_BINARY },
          .doc = LS_STR("the record's value, as it was produced") },
        { .id = LS_ROWS_FIELD_PARTITION,
          .name = LS_STR("__partition"),
          .required = true,
          .type = { .kind = LS_ICEBERG_INT } },
        { .id = LS_ROWS_FIELD_OFFSET,
          .name = LS_STR("__offset"),
          .required = true,
          .type = { .kind = LS_ICEBERG_LONG } },
        { .id = LS_ROWS_FIELD_TIMESTAMP,
          .name = LS_STR("__timestamp"),
          .required = true,
          .type = { .kind = LS_ICEBERG_TIMESTAMPTZ } },
        { .id = LS_ROWS_FIELD_KEY, .name = LS_STR("__key"), .type = { .kind = LS_ICEBERG_BINARY } },
        { .id = LS_ROWS_FIELD_HEADERS,
          .name = LS_STR("__headers"),
          .type = { .kind = LS_ICEBERG_LIST, .field_count = 1, .fields = header_element } },
};
const struct ls_iceberg_schema lake_columns = { .schema_id = 0,
                                                .field_count = LS_COUNT(column_fields),
                                                .fields = column_fields };

static const struct ls_iceberg_sort_field sort_fields[] = {
        { .source_id = LS_ROWS_FIELD_PARTITION, .transform = { .kind = LS_ICEBERG_IDENTITY } },
        { .source_id = LS_ROWS_FIELD_OFFSET, .transform = { .kind = LS_ICEBERG_IDENTITY } },
};
const struct ls_iceberg_sort_order lake_sort_order = { .order_id = 1,
                                                       .field_count = LS_COUNT(sort_fields),
                                                       .fields = sort_fields };

/* --- table.partition.by --- */

static ls_str
trim(ls_str s)
{
        while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t')) {
                s.ptr++;
                s.len--;
        }
        while (s.len > 0 && (s.ptr[s.len - 1] == ' ' || s.ptr[s.len - 1] == '\t'))
                s.len--;
        return s;
}

/* The next item of a list, split at commas outside brackets. */
static bool
next_item(ls_str *rest, ls_str *ret_item)
{
        int depth = 0;
        size_t at = 0;

        if (rest->ptr == NULL)
                return false;
        for (; at < rest->len && (rest->ptr[at] != ',' || depth > 0); at++)
                depth += (rest->ptr[at] == '(') - (rest->ptr[at] == ')');
        *ret_item = trim(ls_str_make(rest->ptr, at));
        if (at == rest->len)
                *rest = LS_STR_NULL;
        else
                *rest = ls_str_make(rest->ptr + at + 1, rest->len - at - 1);
        return true;
}

/* "bucket(16, c)", "bucket[16](c)" -> "bucket[16]", "c"; "hour(c)" -> "hour", "c"; "c" ->
 * "identity", "c". */
static bool
split_item(struct ls_arena *arena, ls_str item, ls_str *ret_transform, ls_str *ret_column)
{
        const char *open = item.len > 0 ? memchr(item.ptr, '(', item.len) : NULL;
        const char *comma;
        ls_str name, args;

        if (open == NULL) {
                *ret_transform = LS_STR("identity");
                *ret_column = item;
                return item.len > 0;
        }
        if (item.ptr[item.len - 1] != ')')
                return false;
        name = trim(ls_str_make(item.ptr, (size_t)(open - item.ptr)));
        args = ls_str_make(open + 1, (size_t)(item.ptr + item.len - 1 - (open + 1)));
        comma = args.len > 0 ? memchr(args.ptr, ',', args.len) : NULL;
        if (comma == NULL) {
                *ret_transform = name;
                *ret_column = trim(args);
        } else {
                ls_str number = trim(ls_str_make(args.ptr, (size_t)(comma - args.ptr)));

                *ret_transform =
                        ls_arena_printf(arena, "%.*s[%.*s]", LS_STR_ARG(name), LS_STR_ARG(number));
                *ret_column =
                        trim(ls_str_make(comma + 1, (size_t)(args.ptr + args.len - comma - 1)));
        }
        return ret_transform->len > 0 && ret_column->len > 0;
}

static const char *
name_suffix(enum ls_iceberg_transform_kind kind)
{
        switch (kind) {
        case LS_ICEBERG_BUCKET: return "_bucket";
        case LS_ICEBERG_TRUNCATE: return "_trunc";
        case LS_ICEBERG_YEAR: return "_year";
        case LS_ICEBERG_MONTH: return "_month";
        case LS_ICEBERG_DAY: return "_day";
        case LS_ICEBERG_HOUR: return "_hour";
        case LS_ICEBERG_VOID: return "_null";
        case LS_ICEBERG_IDENTITY:
        case LS_ICEBERG_OTHER: break;
        }
        return "";
}

static ls_err
parse_item(ls_str item, struct ls_arena *arena, struct ls_iceberg_partition_field *f,
           struct ls_errinfo *reterr)
{
        const struct ls_iceberg_field *column;
        ls_str transform, name;

        if (!split_item(arena, item, &transform, &name))
                return ls_fail(reterr, LS_INVALID,
                               "table.partition.by: \"%.*s\" is not transform(column)",
                               LS_STR_ARG(item));
        if (ls_iceberg_transform_parse(transform, &f->transform) != LS_OK ||
            f->transform.kind == LS_ICEBERG_OTHER)
                return ls_fail(reterr, LS_INVALID,
                               "table.partition.by: \"%.*s\" is not a transform; there are "
                               "identity, bucket(N, column), "
                               "truncate(W, column), year, month, day, hour, void",
                               LS_STR_ARG(transform));
        column = ls_iceberg_field_by_name(&lake_columns, name);
        if (column == NULL)
                return ls_fail(reterr, LS_INVALID,
                               "table.partition.by: there is no column \"%.*s\"", LS_STR_ARG(name));
        if (!ls_iceberg_transform_takes(&f->transform, &column->type))
                return ls_fail(reterr, LS_INVALID,
                               "table.partition.by: %.*s does not take column %.*s",
                               LS_STR_ARG(transform), LS_STR_ARG(name));
        f->source_id = column->id;
        f->name =
                ls_arena_printf(arena, "%.*s%s", LS_STR_ARG(name), name_suffix(f->transform.kind));
        return LS_OK;
}

/* Every bucket is a file in every commit. */
static ls_err
check_buckets(const struct ls_iceberg_spec *spec, struct ls_errinfo *reterr)
{
        uint64_t buckets = 1;

        for (uint32_t i = 0; i < spec->field_count && buckets <= LAKE_TUPLES_MAX; i++)
                if (spec->fields[i].transform.kind == LS_ICEBERG_BUCKET)
                        buckets *= (uint64_t)spec->fields[i].transform.param;
        if (buckets > LAKE_TUPLES_MAX)
                return ls_fail(
                        reterr, LS_INVALID,
                        "table.partition.by: more than %d buckets; each needs a file in every "
                        "commit",
                        LAKE_TUPLES_MAX);
        return LS_OK;
}

ls_err
lake_shape_parse(const char *text, struct ls_arena *arena, struct ls_iceberg_spec *ret_spec,
                 struct ls_errinfo *reterr)
{
        ls_str rest = trim(ls_str_of(text)), item;
        struct ls_iceberg_partition_field *fields;
        uint32_t count = 0;

        *ret_spec = (struct ls_iceberg_spec){ .spec_id = 0 };
        if (rest.len == 0)
                return LS_OK;
        fields = ls_arena_array(arena, LAKE_PARTITION_FIELDS_MAX, sizeof *fields);
        if (fields == NULL)
                return LS_ELIMIT;
        while (next_item(&rest, &item)) {
                if (count == LAKE_PARTITION_FIELDS_MAX)
                        return ls_fail(reterr, LS_INVALID,
                                       "table.partition.by: more than %d fields",
                                       LAKE_PARTITION_FIELDS_MAX);
                fields[count].field_id = LS_ICEBERG_PARTITION_ID_FIRST + (int32_t)count;
                LS_TRY(parse_item(item, arena, &fields[count], reterr));
                count++;
        }
        ret_spec->fields = fields;
        ret_spec->field_count = count;
        if (ls_iceberg_spec_check(ret_spec, &lake_columns, reterr) != LS_OK)
                return LS_INVALID;
        return check_buckets(ret_spec, reterr);
}

ls_err
ls_lake_settings_check(const struct ls_settings *settings, struct ls_errinfo *reterr)
{
        struct ls_iceberg_spec spec;
        struct ls_arena arena;
        ls_err e;

        ls_arena_init(&arena, SHAPE_ARENA_BYTES_MAX);
        e = lake_shape_parse(settings->texts[LS_SET_TABLE_PARTITION_BY], &arena, &spec, reterr);
        ls_arena_done(&arena);
        return e;
}

/* --- evolution --- */

static bool
field_same(const struct ls_iceberg_partition_field *a, const struct ls_iceberg_partition_field *b)
{
        return a->source_id == b->source_id && a->transform.kind == b->transform.kind &&
               a->transform.param == b->transform.param && ls_str_eq(a->name, b->name);
}

static bool
spec_equal(const struct ls_iceberg_spec *a, const struct ls_iceberg_spec *b)
{
        if (a->field_count != b->field_count)
                return false;
        for (uint32_t i = 0; i < a->field_count; i++)
                if (!field_same(&a->fields[i], &b->fields[i]))
                        return false;
        return true;
}

/* The id that this field had in an earlier spec, or 0. */
static int32_t
earlier_id(const struct ls_iceberg_metadata *m, const struct ls_iceberg_partition_field *f)
{
        for (size_t i = 0; i < m->spec_count; i++)
                for (uint32_t k = 0; k < m->specs[i].field_count; k++)
                        if (field_same(&m->specs[i].fields[k], f))
                                return m->specs[i].fields[k].field_id;
        return 0;
}

ls_err
lake_shape_place(const struct ls_iceberg_metadata *m, struct ls_arena *arena,
                 struct ls_iceberg_spec *io_spec)
{
        struct ls_iceberg_partition_field *fields;
        int32_t next_field = m->last_partition_id + 1, next_spec = 0;

        for (size_t i = 0; i < m->spec_count; i++) {
                if (spec_equal(&m->specs[i], io_spec)) {
                        *io_spec = m->specs[i];
                        return LS_OK;
                }
                next_spec = LS_MAX(next_spec, m->specs[i].spec_id + 1);
        }
        fields = ls_arena_array(arena, io_spec->field_count + 1, sizeof *fields);
        if (fields == NULL)
                return LS_ELIMIT;
        for (uint32_t i = 0; i < io_spec->field_count; i++) {
                fields[i] = io_spec->fields[i];
                fields[i].field_id = earlier_id(m, &fields[i]);
                if (fields[i].field_id == 0)
                        fields[i].field_id = next_field++;
        }
        io_spec->fields = fields;
        io_spec->spec_id = next_spec;
        return LS_OK;
}
