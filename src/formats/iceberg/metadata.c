/* iceberg/metadata.c - table metadata as JSON ("Table Metadata Fields", Appendix C). */
#include "formats/iceberg/metadata.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/mem.h"
#include "base/uuid.h"
#include "formats/iceberg/json_int.h"
#include "formats/iceberg/limits.h"

#define VERSION_MAX 2

void
ls_iceberg_metadata_init(struct ls_iceberg_metadata *m)
{
        *m = (struct ls_iceberg_metadata){ .format_version = 2,
                                           .last_partition_id = LS_ICEBERG_PARTITION_ID_FIRST - 1,
                                           .current_snapshot_id = LS_ICEBERG_NONE,
                                           .next_row_id = LS_ICEBERG_NONE };
}

/* ---- lookup --------------------------------------------------------------------------------- */

const struct ls_iceberg_schema *
ls_iceberg_metadata_schema(const struct ls_iceberg_metadata *m, int64_t schema_id)
{
        for (size_t i = 0; i < m->schema_count; i++)
                if (m->schemas[i].schema_id == schema_id)
                        return &m->schemas[i];
        return NULL;
}

const struct ls_iceberg_spec *
ls_iceberg_metadata_spec(const struct ls_iceberg_metadata *m, int64_t spec_id)
{
        for (size_t i = 0; i < m->spec_count; i++)
                if (m->specs[i].spec_id == spec_id)
                        return &m->specs[i];
        return NULL;
}

static const struct ls_iceberg_sort_order *
sort_order_of(const struct ls_iceberg_metadata *m, int64_t order_id)
{
        for (size_t i = 0; i < m->sort_order_count; i++)
                if (m->sort_orders[i].order_id == order_id)
                        return &m->sort_orders[i];
        return NULL;
}

const struct ls_iceberg_snapshot *
ls_iceberg_metadata_snapshot(const struct ls_iceberg_metadata *m, int64_t snapshot_id)
{
        for (size_t i = 0; i < m->snapshot_count; i++)
                if (m->snapshots[i].snapshot_id == snapshot_id)
                        return &m->snapshots[i];
        return NULL;
}

ls_str
ls_iceberg_prop_get(const struct ls_iceberg_prop *props, size_t count, const char *key)
{
        for (size_t i = 0; i < count; i++)
                if (ls_str_is(props[i].key, key))
                        return props[i].value;
        return LS_STR_NULL;
}

/* ---- reading -------------------------------------------------------------------------------- */

static ls_err
bad(struct ls_ice_json *j, const char *what)
{
        return ls_fail(j->reterr, LS_INVALID, "table metadata: %s", what);
}

static ls_err
props_read(struct ls_ice_json *j, const json_t *object, const char *skip,
           const struct ls_iceberg_prop **ret, size_t *ret_count)
{
        struct ls_iceberg_prop *props;
        const char *key;
        json_t *value;
        size_t count = 0;

        *ret = NULL;
        *ret_count = 0;
        if (object == NULL || json_is_null(object))
                return LS_OK;
        if (!json_is_object(object))
                return bad(j, "properties are no object");
        LS_TRY(ls_ice_json_alloc(j, json_object_size(object), sizeof *props, &props));
        json_object_foreach((json_t *)object, key, value)
        {
                struct ls_iceberg_prop *p = &props[count];

                if (skip != NULL && strcmp(key, skip) == 0)
                        continue;
                if (!json_is_string(value))
                        return bad(j, "a property is no string");
                p->key = ls_arena_str(j->arena, ls_str_of(key));
                LS_TRY(ls_ice_json_str(j, object, key, true, &p->value));
                if (p->key.ptr == NULL)
                        return LS_TOO_LARGE;
                count++;
        }
        *ret = props;
        *ret_count = count;
        return LS_OK;
}

static ls_err
snapshot_read(struct ls_ice_json *j, const json_t *json, int version, struct ls_iceberg_snapshot *s)
{
        const json_t *summary = json_object_get(json, "summary");

        LS_TRY(ls_ice_json_int(j, json, "snapshot-id", true, 0, INT64_MAX, 0, &s->snapshot_id));
        LS_TRY(ls_ice_json_int(j, json, "parent-snapshot-id", false, -1, INT64_MAX, LS_ICEBERG_NONE,
                               &s->parent_id));
        if (s->parent_id == -1)
                s->parent_id = LS_ICEBERG_NONE;
        LS_TRY(ls_ice_json_int(j, json, "sequence-number", version > 1, 0, INT64_MAX, 0,
                               &s->sequence_number));
        LS_TRY(ls_ice_json_int(j, json, "timestamp-ms", true, INT64_MIN, INT64_MAX, 0,
                               &s->timestamp_ms));
        LS_TRY(ls_ice_json_str(j, json, "manifest-list", version > 1, &s->manifest_list));
        LS_TRY(ls_ice_json_int(j, json, "schema-id", false, 0, INT32_MAX, LS_ICEBERG_NONE,
                               &s->schema_id));
        s->first_row_id = s->added_rows = LS_ICEBERG_NONE;
        if (s->manifest_list.ptr == NULL)
                return ls_fail(j->reterr, LS_UNSUPPORTED,
                               "table metadata: a snapshot of version 1 without manifest list");
        if (summary == NULL && version == 1)
                return LS_OK;
        LS_TRY(ls_ice_json_str(j, summary, "operation", version > 1, &s->operation));
        return props_read(j, summary, "operation", &s->summary, &s->summary_count);
}

static ls_err
ref_read(struct ls_ice_json *j, const char *name, const json_t *json, struct ls_iceberg_ref *r)
{
        ls_str type;

        r->name = ls_arena_str(j->arena, ls_str_of(name));
        if (r->name.ptr == NULL)
                return LS_TOO_LARGE;
        LS_TRY(ls_ice_json_int(j, json, "snapshot-id", true, 0, INT64_MAX, 0, &r->snapshot_id));
        LS_TRY(ls_ice_json_str(j, json, "type", true, &type));
        r->tag = ls_str_is(type, "tag");
        if (!r->tag && !ls_str_is(type, "branch"))
                return bad(j, "a ref is neither branch nor tag");
        LS_TRY(ls_ice_json_int(j, json, "min-snapshots-to-keep", false, 1, INT32_MAX,
                               LS_ICEBERG_NONE, &r->snapshots_min));
        LS_TRY(ls_ice_json_int(j, json, "max-snapshot-age-ms", false, 1, INT64_MAX, LS_ICEBERG_NONE,
                               &r->snapshot_age_ms_max));
        return ls_ice_json_int(j, json, "max-ref-age-ms", false, 1, INT64_MAX, LS_ICEBERG_NONE,
                               &r->ref_age_ms_max);
}

static ls_err
refs_read(struct ls_ice_json *j, const json_t *object, struct ls_iceberg_metadata *m)
{
        struct ls_iceberg_ref *refs;
        const char *name;
        json_t *value;

        LS_TRY(ls_ice_json_alloc(j, json_object_size(object) + 1, sizeof *refs, &refs));
        m->refs = refs;
        json_object_foreach((json_t *)object, name, value)
                LS_TRY(ref_read(j, name, value, &refs[m->ref_count++]));
        if (object == NULL && m->current_snapshot_id != LS_ICEBERG_NONE) /* as of old writers */
                refs[m->ref_count++] =
                        (struct ls_iceberg_ref){ .name = LS_STR("main"),
                                                 .snapshot_id = m->current_snapshot_id,
                                                 .snapshots_min = LS_ICEBERG_NONE,
                                                 .snapshot_age_ms_max = LS_ICEBERG_NONE,
                                                 .ref_age_ms_max = LS_ICEBERG_NONE };
        return LS_OK;
}

static ls_err
schemas_read(struct ls_ice_json *j, const json_t *root, struct ls_iceberg_metadata *m)
{
        struct ls_iceberg_schema *schemas;
        const json_t *list;
        int64_t current;
        size_t count;

        LS_TRY(ls_ice_json_list(j, root, "schemas", m->format_version > 1, &list, &count));
        LS_TRY(ls_ice_json_alloc(j, count + 1, sizeof *schemas, &schemas));
        for (size_t i = 0; i < count; i++)
                LS_TRY(ls_ice_schema_read(j, json_array_get(list, i), &schemas[i]));
        if (list == NULL) { /* version 1 */
                LS_TRY(ls_ice_schema_read(j, json_object_get(root, "schema"), &schemas[0]));
                count = 1;
        }
        LS_TRY(ls_ice_json_int(j, root, "current-schema-id", m->format_version > 1, 0, INT32_MAX,
                               schemas[0].schema_id, &current));
        m->schemas = schemas;
        m->schema_count = count;
        m->current_schema_id = (int32_t)current;
        return LS_OK;
}

static int32_t
specs_last_id(const struct ls_iceberg_metadata *m)
{
        int32_t last = LS_ICEBERG_PARTITION_ID_FIRST - 1;

        for (size_t i = 0; i < m->spec_count; i++)
                for (uint32_t f = 0; f < m->specs[i].field_count; f++)
                        last = LS_MAX(last, m->specs[i].fields[f].field_id);
        return last;
}

static ls_err
specs_read(struct ls_ice_json *j, const json_t *root, struct ls_iceberg_metadata *m)
{
        struct ls_iceberg_spec *specs;
        const json_t *list;
        int64_t spec_id, last;
        size_t count;

        LS_TRY(ls_ice_json_list(j, root, "partition-specs", m->format_version > 1, &list, &count));
        LS_TRY(ls_ice_json_alloc(j, count + 1, sizeof *specs, &specs));
        for (size_t i = 0; i < count; i++)
                LS_TRY(ls_ice_spec_read(j, json_array_get(list, i), &specs[i]));
        if (list == NULL) { /* version 1 */
                LS_TRY(ls_ice_spec_fields_read(j, json_object_get(root, "partition-spec"),
                                               &specs[0]));
                count = 1;
        }
        m->specs = specs;
        m->spec_count = count;
        LS_TRY(ls_ice_json_int(j, root, "default-spec-id", m->format_version > 1, 0, INT32_MAX, 0,
                               &spec_id));
        LS_TRY(ls_ice_json_int(j, root, "last-partition-id", m->format_version > 1, 0, INT32_MAX,
                               specs_last_id(m), &last));
        m->default_spec_id = (int32_t)spec_id;
        m->last_partition_id = (int32_t)last;
        return LS_OK;
}

static ls_err
sort_orders_read(struct ls_ice_json *j, const json_t *root, struct ls_iceberg_metadata *m)
{
        struct ls_iceberg_sort_order *orders;
        const json_t *list;
        int64_t id;
        size_t count;

        LS_TRY(ls_ice_json_list(j, root, "sort-orders", m->format_version > 1, &list, &count));
        LS_TRY(ls_ice_json_alloc(j, count + 1, sizeof *orders,
                                 &orders)); /* one cleared: unsorted */
        for (size_t i = 0; i < count; i++)
                LS_TRY(ls_ice_sort_order_read(j, json_array_get(list, i), &orders[i]));
        LS_TRY(ls_ice_json_int(j, root, "default-sort-order-id", m->format_version > 1, 0,
                               INT32_MAX, 0, &id));
        m->sort_orders = orders;
        m->sort_order_count = list != NULL ? count : 1;
        m->default_sort_order_id = (int32_t)id;
        return LS_OK;
}

static ls_err
snapshots_read(struct ls_ice_json *j, const json_t *root, struct ls_iceberg_metadata *m)
{
        struct ls_iceberg_snapshot *snapshots;
        const json_t *list;
        size_t count;

        LS_TRY(ls_ice_json_int(j, root, "current-snapshot-id", false, -1, INT64_MAX,
                               LS_ICEBERG_NONE, &m->current_snapshot_id));
        if (m->current_snapshot_id == -1) /* as some writers say none */
                m->current_snapshot_id = LS_ICEBERG_NONE;
        LS_TRY(ls_ice_json_list(j, root, "snapshots", false, &list, &count));
        LS_TRY(ls_ice_json_alloc(j, count, sizeof *snapshots, &snapshots));
        for (size_t i = 0; i < count; i++)
                LS_TRY(snapshot_read(j, json_array_get(list, i), m->format_version, &snapshots[i]));
        m->snapshots = snapshots;
        m->snapshot_count = count;
        return refs_read(j, json_object_get(root, "refs"), m);
}

static ls_err
logs_read(struct ls_ice_json *j, const json_t *root, struct ls_iceberg_metadata *m)
{
        struct ls_iceberg_snapshot_log *snapshots;
        struct ls_iceberg_metadata_log *files;
        const json_t *list;
        size_t count;

        LS_TRY(ls_ice_json_list(j, root, "snapshot-log", false, &list, &count));
        LS_TRY(ls_ice_json_alloc(j, count, sizeof *snapshots, &snapshots));
        for (size_t i = 0; i < count; i++) {
                const json_t *o = json_array_get(list, i);

                LS_TRY(ls_ice_json_int(j, o, "timestamp-ms", true, INT64_MIN, INT64_MAX, 0,
                                       &snapshots[i].timestamp_ms));
                LS_TRY(ls_ice_json_int(j, o, "snapshot-id", true, 0, INT64_MAX, 0,
                                       &snapshots[i].snapshot_id));
        }
        m->snapshot_log = snapshots;
        m->snapshot_log_count = count;
        LS_TRY(ls_ice_json_list(j, root, "metadata-log", false, &list, &count));
        LS_TRY(ls_ice_json_alloc(j, count, sizeof *files, &files));
        for (size_t i = 0; i < count; i++) {
                const json_t *o = json_array_get(list, i);

                LS_TRY(ls_ice_json_int(j, o, "timestamp-ms", true, INT64_MIN, INT64_MAX, 0,
                                       &files[i].timestamp_ms));
                LS_TRY(ls_ice_json_str(j, o, "metadata-file", true, &files[i].metadata_file));
        }
        m->metadata_log = files;
        m->metadata_log_count = count;
        return LS_OK;
}

static ls_err
metadata_read(struct ls_ice_json *j, const json_t *root, struct ls_iceberg_metadata *m)
{
        int64_t version, last_column;

        LS_TRY(ls_ice_json_int(j, root, "format-version", true, 1, INT32_MAX, 0, &version));
        if (version > VERSION_MAX)
                return ls_fail(j->reterr, LS_UNSUPPORTED, "table metadata of format version %lld",
                               (long long)version);
        m->format_version = (int)version;
        LS_TRY(ls_ice_json_str(j, root, "table-uuid", version > 1, &m->table_uuid));
        LS_TRY(ls_ice_json_str(j, root, "location", true, &m->location));
        LS_TRY(ls_ice_json_int(j, root, "last-sequence-number", version > 1, 0, INT64_MAX, 0,
                               &m->last_sequence_number));
        LS_TRY(ls_ice_json_int(j, root, "last-updated-ms", true, INT64_MIN, INT64_MAX, 0,
                               &m->last_updated_ms));
        LS_TRY(ls_ice_json_int(j, root, "last-column-id", true, 0, INT32_MAX, 0, &last_column));
        m->last_column_id = (int32_t)last_column;
        LS_TRY(schemas_read(j, root, m));
        LS_TRY(specs_read(j, root, m));
        LS_TRY(sort_orders_read(j, root, m));
        LS_TRY(props_read(j, json_object_get(root, "properties"), NULL, &m->properties,
                          &m->property_count));
        LS_TRY(snapshots_read(j, root, m));
        LS_TRY(logs_read(j, root, m));
        LS_TRY(ls_ice_json_text(j, json_object_get(root, "statistics"), &m->statistics));
        return ls_ice_json_text(j, json_object_get(root, "partition-statistics"),
                                &m->partition_statistics);
}

ls_err
ls_iceberg_metadata_parse(ls_str json, struct ls_arena *arena,
                          struct ls_iceberg_metadata *ret_metadata, struct ls_errinfo *reterr)
{
        struct ls_ice_json j = { .arena = arena, .reterr = reterr };
        struct ls_iceberg_metadata m;
        json_t *root;
        ls_err e;

        LS_TRY(ls_ice_json_load(json, reterr, &root));
        ls_iceberg_metadata_init(&m);
        e = metadata_read(&j, root, &m);
        json_decref(root);
        LS_TRY(e);
        LS_TRY(ls_iceberg_metadata_check(&m, reterr));
        *ret_metadata = m;
        return LS_OK;
}

/* ---- checks --------------------------------------------------------------------------------- */

static ls_err
snapshots_check(const struct ls_iceberg_metadata *m, struct ls_ice_json *j)
{
        for (size_t i = 0; i < m->snapshot_count; i++) {
                const struct ls_iceberg_snapshot *s = &m->snapshots[i];

                if (s->sequence_number > m->last_sequence_number)
                        return bad(j, "a snapshot is above last-sequence-number");
                if (s->manifest_list.ptr == NULL)
                        return bad(j, "a snapshot has no manifest list");
                if (m->format_version > 1 && s->operation.ptr == NULL)
                        return bad(j, "a snapshot has no operation");
        }
        if (m->current_snapshot_id != LS_ICEBERG_NONE &&
            ls_iceberg_metadata_snapshot(m, m->current_snapshot_id) == NULL)
                return bad(j, "current-snapshot-id does not exist");
        for (size_t i = 0; i < m->ref_count; i++) {
                if (ls_iceberg_metadata_snapshot(m, m->refs[i].snapshot_id) == NULL)
                        return bad(j, "a ref names a snapshot that does not exist");
                if (ls_str_is(m->refs[i].name, "main") &&
                    m->refs[i].snapshot_id != m->current_snapshot_id)
                        return bad(j, "main is not the current snapshot");
        }
        return LS_OK;
}

ls_err
ls_iceberg_metadata_check(const struct ls_iceberg_metadata *m, struct ls_errinfo *reterr)
{
        struct ls_ice_json j = { .reterr = reterr };
        const struct ls_iceberg_schema *schema;
        ls_uuid uuid;

        if (m->format_version < 1 || m->format_version > VERSION_MAX)
                return ls_fail(reterr, LS_UNSUPPORTED, "format version %d", m->format_version);
        if (m->location.ptr == NULL)
                return bad(&j, "no location");
        if (m->table_uuid.ptr != NULL ? !ls_uuid_parse(m->table_uuid, &uuid)
                                      : m->format_version > 1)
                return bad(&j, "table-uuid is none");
        schema = ls_iceberg_metadata_schema(m, m->current_schema_id);
        if (schema == NULL)
                return bad(&j, "current-schema-id does not exist");
        if (ls_iceberg_schema_last_id(schema) > m->last_column_id)
                return bad(&j, "a column is above last-column-id");
        if (ls_iceberg_metadata_spec(m, m->default_spec_id) == NULL)
                return bad(&j, "default-spec-id does not exist");
        if (specs_last_id(m) > m->last_partition_id)
                return bad(&j, "a partition field is above last-partition-id");
        if (m->default_sort_order_id != 0 && sort_order_of(m, m->default_sort_order_id) == NULL)
                return bad(&j, "default-sort-order-id does not exist");
        return snapshots_check(m, &j);
}

/* ---- writing -------------------------------------------------------------------------------- */

static void
set_int(json_t *o, const char *key, int64_t v)
{
        if (v != LS_ICEBERG_NONE)
                json_object_set_new(o, key, json_integer(v));
}

/* Keys come from the caller's props and may be anything that is UTF-8. */
static json_t *
props_json(const struct ls_iceberg_prop *props, size_t count)
{
        json_t *o = json_object();

        for (size_t i = 0; i < count; i++) {
                LS_AUTO(ls_free) char *key = ls_str_dup(props[i].key);

                ls_ice_json_set_str(o, key, props[i].value);
        }
        return o;
}

static json_t *
snapshot_json(const struct ls_iceberg_snapshot *s)
{
        json_t *o = json_object(), *summary = json_object(), *rest;

        ls_ice_json_set_str(summary, "operation", s->operation);
        rest = props_json(s->summary, s->summary_count);
        json_object_update(summary, rest);
        json_decref(rest);
        set_int(o, "sequence-number", s->sequence_number);
        set_int(o, "snapshot-id", s->snapshot_id);
        set_int(o, "parent-snapshot-id", s->parent_id);
        set_int(o, "timestamp-ms", s->timestamp_ms);
        json_object_set_new(o, "summary", summary);
        ls_ice_json_set_str(o, "manifest-list", s->manifest_list);
        set_int(o, "schema-id", s->schema_id);
        return o;
}

static json_t *
refs_json(const struct ls_iceberg_metadata *m)
{
        json_t *refs = json_object();

        for (size_t i = 0; i < m->ref_count; i++) {
                const struct ls_iceberg_ref *r = &m->refs[i];
                LS_AUTO(ls_free) char *name = ls_str_dup(r->name);
                json_t *o = json_object();

                set_int(o, "snapshot-id", r->snapshot_id);
                json_object_set_new(o, "type", json_string(r->tag ? "tag" : "branch"));
                set_int(o, "min-snapshots-to-keep", r->snapshots_min);
                set_int(o, "max-snapshot-age-ms", r->snapshot_age_ms_max);
                set_int(o, "max-ref-age-ms", r->ref_age_ms_max);
                json_object_set_new(refs, name, o);
        }
        return refs;
}

static void
set_lists(json_t *o, const struct ls_iceberg_metadata *m)
{
        json_t *schemas = json_array(), *specs = json_array(), *orders = json_array();

        set_int(o, "current-schema-id", m->current_schema_id);
        for (size_t i = 0; i < m->schema_count; i++)
                json_array_append_new(schemas, ls_ice_schema_json(&m->schemas[i]));
        json_object_set_new(o, "schemas", schemas);
        set_int(o, "default-spec-id", m->default_spec_id);
        for (size_t i = 0; i < m->spec_count; i++)
                json_array_append_new(specs, ls_ice_spec_json(&m->specs[i]));
        json_object_set_new(o, "partition-specs", specs);
        set_int(o, "last-partition-id", m->last_partition_id);
        set_int(o, "default-sort-order-id", m->default_sort_order_id);
        for (size_t i = 0; i < m->sort_order_count; i++)
                json_array_append_new(orders, ls_ice_sort_order_json(&m->sort_orders[i]));
        json_object_set_new(o, "sort-orders", orders);
}

static void
set_logs(json_t *o, const struct ls_iceberg_metadata *m)
{
        json_t *snapshots = json_array(), *files = json_array();

        for (size_t i = 0; i < m->snapshot_log_count; i++) {
                json_t *line = json_object();

                set_int(line, "timestamp-ms", m->snapshot_log[i].timestamp_ms);
                set_int(line, "snapshot-id", m->snapshot_log[i].snapshot_id);
                json_array_append_new(snapshots, line);
        }
        json_object_set_new(o, "snapshot-log", snapshots);
        for (size_t i = 0; i < m->metadata_log_count; i++) {
                json_t *line = json_object();

                set_int(line, "timestamp-ms", m->metadata_log[i].timestamp_ms);
                ls_ice_json_set_str(line, "metadata-file", m->metadata_log[i].metadata_file);
                json_array_append_new(files, line);
        }
        json_object_set_new(o, "metadata-log", files);
}

static void
set_text(json_t *o, const char *key, ls_str text)
{
        json_t *v = text.ptr ? json_loadb(text.ptr, text.len, JSON_DECODE_ANY, NULL) : NULL;

        json_object_set_new(o, key, v != NULL ? v : json_array());
}

void
ls_iceberg_metadata_print(const struct ls_iceberg_metadata *m, struct ls_buf *out)
{
        json_t *o = json_object(), *snapshots = json_array();

        LS_ASSERT(m->format_version == 2);
        LS_ASSERT(ls_iceberg_metadata_check(m, NULL) == LS_OK);
        set_int(o, "format-version", m->format_version);
        ls_ice_json_set_str(o, "table-uuid", m->table_uuid);
        ls_ice_json_set_str(o, "location", m->location);
        set_int(o, "last-sequence-number", m->last_sequence_number);
        set_int(o, "last-updated-ms", m->last_updated_ms);
        set_int(o, "last-column-id", m->last_column_id);
        set_lists(o, m);
        json_object_set_new(o, "properties", props_json(m->properties, m->property_count));
        set_int(o, "current-snapshot-id", m->current_snapshot_id);
        json_object_set_new(o, "refs", refs_json(m));
        for (size_t i = 0; i < m->snapshot_count; i++)
                json_array_append_new(snapshots, snapshot_json(&m->snapshots[i]));
        json_object_set_new(o, "snapshots", snapshots);
        set_text(o, "statistics", m->statistics);
        set_text(o, "partition-statistics", m->partition_statistics);
        set_logs(o, m);
        ls_ice_json_dump(o, out);
}

/* ---- summaries ------------------------------------------------------------------------------ */

struct summary {
        struct ls_arena *arena;
        struct ls_iceberg_prop *props;
        size_t count;
        bool full;
};

static void
summary_add(struct summary *s, const char *key, int64_t v)
{
        ls_str text = ls_arena_printf(s->arena, "%lld", (long long)v);

        s->full |= text.len == 0;
        s->props[s->count++] = (struct ls_iceberg_prop){ ls_str_of(key), text };
}

/* A total is the parent's plus what came minus what went; without the parent's it is unknown and
 * left out, as the reference does. */
static void
summary_total(struct summary *s, const struct ls_iceberg_snapshot *parent, const char *key,
              int64_t added, int64_t deleted)
{
        int64_t before = 0;
        ls_str text;

        if (parent != NULL) {
                text = ls_iceberg_prop_get(parent->summary, parent->summary_count, key);
                if (text.ptr == NULL || !ls_str_to_i64(text, 0, INT64_MAX, &before))
                        return;
        }
        if (__builtin_add_overflow(before, added - deleted, &before) || before < 0)
                return;
        summary_add(s, key, before);
}

ls_err
ls_iceberg_summary_make(const struct ls_iceberg_delta *delta,
                        const struct ls_iceberg_snapshot *parent,
                        const struct ls_iceberg_prop *extra, size_t extra_count,
                        struct ls_arena *arena, struct ls_iceberg_snapshot *io_snapshot)
{
        static const size_t own_max = 16;
        struct summary s = { .arena = arena };
        const struct {
                const char *key;
                int64_t v;
        } changes[] = {
                { "added-data-files", delta->added_files },
                { "deleted-data-files", delta->deleted_files },
                { "added-records", delta->added_rows },
                { "deleted-records", delta->deleted_rows },
                { "added-files-size", delta->added_bytes },
                { "removed-files-size", delta->deleted_bytes },
                { "changed-partition-count", delta->changed_partitions },
        };

        s.props = ls_arena_array(arena, own_max + extra_count, sizeof *s.props);
        if (s.props == NULL)
                return LS_TOO_LARGE;
        for (size_t i = 0; i < LS_COUNT(changes); i++)
                if (changes[i].v > 0)
                        summary_add(&s, changes[i].key, changes[i].v);
        summary_total(&s, parent, "total-records", delta->added_rows, delta->deleted_rows);
        summary_total(&s, parent, "total-files-size", delta->added_bytes, delta->deleted_bytes);
        summary_total(&s, parent, "total-data-files", delta->added_files, delta->deleted_files);
        summary_total(&s, parent, "total-delete-files", 0, 0);
        summary_total(&s, parent, "total-position-deletes", 0, 0);
        summary_total(&s, parent, "total-equality-deletes", 0, 0);
        LS_ASSERT(s.count <= own_max);
        for (size_t i = 0; i < extra_count; i++)
                s.props[s.count++] = extra[i];
        if (s.full)
                return LS_TOO_LARGE;
        io_snapshot->summary = s.props;
        io_snapshot->summary_count = s.count;
        return LS_OK;
}
