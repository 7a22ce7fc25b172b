/* servers/http/iceberg.c - the Iceberg REST catalog: configuration and tables.
 *
 * Names, status codes and shapes are those of the Iceberg REST catalog specification (OpenAPI).
 * What a load does besides reading: docs/protocols/iceberg_rest.md.
 */
#include <stdio.h>

#include "base/metric.h"
#include "catalog/names.h"
#include "servers/http/http_int.h"

#define ICEBERG_ROOT "/iceberg"

static LS_METRIC_BY(table_loads, COUNTER, "lakestream_iceberg_loads_total",
                    "tables loaded through the Iceberg catalog, by outcome");
static LS_METRIC_BY(table_reports, COUNTER, "lakestream_table_reports_total",
                    "reports that engines sent, by kind");

/* --- configuration --- */

/* What routes.c serves under a prefix, as the specification writes it. */
static json_t *
config_endpoints(void)
{
        json_t *list = json_array();
        size_t root = strlen(ICEBERG_ROOT);

        for (size_t i = 0; i < http_route_count; i++) {
                const struct ls_http_route *route = &http_routes[i];

                if (strncmp(route->pattern, ICEBERG_ROOT "/v1/{prefix}/", root + 13) == 0 &&
                    http_route_is_served(route))
                        json_array_append_new(
                                list, json_sprintf("%s %s", route->method, route->pattern + root));
        }
        return list;
}

void
iceberg_config(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        ls_str warehouse = ls_http_query(r, "warehouse");
        json_t *endpoints;

        if (warehouse.len == 0)
                warehouse = LS_STR(LS_CATALOG_DEFAULT);
        if (memchr(warehouse.ptr, '@', warehouse.len) != NULL) {
                http_answer_error(a, 400, "BadRequestException",
                                  "Pinned warehouses (%.*s) are not there yet; use warehouse=%s",
                                  (int)LS_MIN(warehouse.len, 200), warehouse.ptr,
                                  LS_CATALOG_DEFAULT);
                return;
        }
        if (!http_catalog_known(warehouse, a))
                return;
        endpoints = config_endpoints();
        http_answer_json(a, 200,
                         json_pack("{s:{},s:{s:o},s:o}", "defaults", "overrides", "prefix",
                                   http_json_str(warehouse), "endpoints", endpoints));
}

/* --- listing --- */

static void
tables_collect(struct ls_http_server *server, struct ls_http_request *r, ls_str catalog, ls_str ns,
               struct http_names *names)
{
        struct ls_stream **streams;
        size_t count;

        ls_stream_list(server->streams, &streams, &count);
        for (size_t i = 0; i < count; i++) {
                const struct ls_stream_info *info = ls_stream_info(streams[i]);

                if (ls_str_is(ns, info->ns) && ls_str_is(catalog, info->catalog) &&
                    http_is_table(info))
                        http_names_add(names, r, ls_str_of(info->name));
        }
        ls_stream_list_free(streams, count);
        http_names_sort(names);
}

static void
tables_answer(struct ls_http_request *r, ls_str ns, const struct http_names *names,
              struct ls_http_answer *a)
{
        json_t *list, *levels;
        size_t first, count;
        ls_str token;

        if (!http_names_page(names, r, a, &first, &count, &token))
                return;
        list = json_array();
        levels = http_namespace_json(ns);
        for (size_t i = first; i < first + count; i++)
                json_array_append_new(list, json_pack("{s:O,s:o}", "namespace", levels, "name",
                                                      http_json_str(names->items[i])));
        json_decref(levels);
        http_answer_json(a, 200,
                         json_pack("{s:o,s:o}", "identifiers", list, "next-page-token",
                                   token.ptr ? http_json_str(token) : json_null()));
}

void
iceberg_table_list(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        struct http_names namespaces = { 0 }, names = { 0 };
        ls_err e;
        ls_str ns;

        if (!http_catalog_known(r->params[0], a))
                return;
        e = http_namespaces(server, r, r->params[0], &namespaces);
        if (e != LS_OK) {
                http_answer_failure(a, e, "listing namespaces", NULL);
        } else if (http_namespace_parse(r, r->params[1], &ns) != LS_OK ||
                   !http_names_have(&namespaces, ns)) {
                http_answer_error(a, 404, "NoSuchNamespaceException",
                                  "Namespace does not exist: %.*s",
                                  (int)LS_MIN(r->params[1].len, 300), r->params[1].ptr);
        } else {
                tables_collect(server, r, r->params[0], ns, &names);
                if (names.failed)
                        http_answer_failure(a, LS_ELIMIT, "listing tables", NULL);
                else
                        tables_answer(r, ns, &names, a);
        }
        http_names_done(&names);
        http_names_done(&namespaces);
}

/* --- loading --- */

/* Keeps the snapshots that a branch or tag names (snapshots=refs). The metadata is ours: when it
 * does not read as expected that is an internal error. NULL then. */
static json_t *
metadata_refs_only(ls_span metadata)
{
        json_t *root = json_loadb((const char *)metadata.ptr, metadata.len, 0, NULL);
        json_t *kept = json_array(), *snapshots, *refs, *snapshot, *ref;
        const char *name;
        size_t i;

        snapshots = json_object_get(root, "snapshots");
        refs = json_object_get(root, "refs");
        json_array_foreach(snapshots, i, snapshot)
        {
                json_int_t id = json_integer_value(json_object_get(snapshot, "snapshot-id"));
                bool named = id == json_integer_value(json_object_get(root, "current-snapshot-id"));

                json_object_foreach(refs, name, ref) named |=
                        id == json_integer_value(json_object_get(ref, "snapshot-id"));
                if (named)
                        json_array_append(kept, snapshot);
        }
        if (root != NULL)
                json_object_set(root, "snapshots", kept);
        json_decref(kept);
        return root;
}

static int
dump_more(const char *bytes, size_t len, void *ctx)
{
        ls_buf_put(ctx, bytes, len);
        return ls_buf_failed(ctx) ? -1 : 0;
}

static void
config_add(void *ctx, const char *name, const char *value)
{
        json_object_set_new(ctx, name, json_string(value));
}

/* {"metadata-location": …, "metadata": …, "config": {…}}. The metadata's bytes go out as they are
 * stored. The config says where the files' store is, no keys of it: engines have their own. */
static void
load_answer_body(struct ls_http_server *server, const struct ls_table *table, bool refs_only,
                 struct ls_http_answer *a)
{
        json_t *config = json_object();
        ls_span metadata = ls_slice_span(table->metadata);
        json_t *location = http_json_str(ls_str_of(table->metadata_uri)), *fewer = NULL;
        struct ls_buf body;

        ls_buf_init(&body, LS_BUF_MAX_DEFAULT);
        ls_buf_reserve(&body, metadata.len + strlen(table->metadata_uri) + 128);
        ls_buf_put_text(&body, "{\"metadata-location\":");
        json_dump_callback(location, dump_more, &body, JSON_ENCODE_ANY);
        json_decref(location);
        ls_buf_put_text(&body, ",\"metadata\":");
        if (refs_only) {
                fewer = metadata_refs_only(metadata);
                if (fewer == NULL) {
                        json_decref(config);
                        ls_buf_done(&body);
                        http_answer_failure(a, LS_EBROKEN, "reading table metadata", NULL);
                        return;
                }
                json_dump_callback(fewer, dump_more, &body, JSON_COMPACT);
                json_decref(fewer);
        } else {
                ls_buf_put_span(&body, metadata);
        }
        ls_buf_put_text(&body, ",\"config\":");
        ls_table_engine_config(server->streams, config_add, config);
        json_dump_callback(config, dump_more, &body, JSON_COMPACT);
        json_decref(config);
        ls_buf_put_text(&body, "}");
        http_answer_buf(a, "application/json", &body);
}

/* The n-th entity tag of an If-None-Match, without quotes and W/; null at the end. Tags match
 * weakly (RFC 9110 13.1.2). */
static ls_str
etag_next(ls_str *rest)
{
        const char *open, *close;
        ls_str tag;

        if (rest->len == 0 || (open = memchr(rest->ptr, '"', rest->len)) == NULL)
                return LS_STR_NULL;
        open++;
        close = memchr(open, '"', rest->len - (size_t)(open - rest->ptr));
        if (close == NULL)
                return LS_STR_NULL;
        tag = ls_str_make(open, (size_t)(close - open));
        *rest = ls_str_make(close + 1, rest->len - (size_t)(close + 1 - rest->ptr));
        return tag;
}

/* Tags of the two forms differ, since their bytes do. */
#define REFS_SUFFIX "-refs"

/* The tag of the table behind an answer's tag of the wanted form; "" when it is of the other form.
 * */
static const char *
etag_of_table(struct ls_http_request *r, ls_str tag, bool refs_only)
{
        size_t suffix = strlen(REFS_SUFFIX);
        bool has_suffix =
                tag.len > suffix && memcmp(tag.ptr + tag.len - suffix, REFS_SUFFIX, suffix) == 0;

        if (has_suffix != refs_only)
                return "";
        return ls_arena_printf(r->arena, "%.*s", (int)(tag.len - (has_suffix ? suffix : 0)),
                               tag.ptr)
                .ptr;
}

static void
answer_etag(struct ls_http_request *r, const char *etag, bool refs_only, struct ls_http_answer *a)
{
        ls_http_answer_header(
                a, "ETag",
                ls_arena_printf(r->arena, "\"%s%s\"", etag, refs_only ? REFS_SUFFIX : "").ptr);
}

static void
answer_not_modified(struct ls_http_request *r, const char *etag, bool refs_only,
                    struct ls_http_answer *a)
{
        a->status = 304;
        answer_etag(r, etag, refs_only, a);
        ls_http_answer_header(a, "x-lakestream-fresh", "true");
        ls_metric_series_add(ls_metric_with(&table_loads, "outcome", LS_STR("not_modified")), 1);
}

/* True: the client has what a load would give, found out without a commit; answered 304. */
static bool
load_is_unchanged(struct ls_http_server *server, struct ls_stream *stream,
                  struct ls_http_request *r, bool refs_only, struct ls_http_answer *a)
{
        ls_str rest = ls_http_header(r, "If-None-Match"), tag;

        for (int i = 0; i < ETAGS_MAX && (tag = etag_next(&rest)).ptr != NULL; i++) {
                const char *etag = etag_of_table(r, tag, refs_only);
                bool current = false;

                if (*etag == '\0' ||
                    ls_table_unchanged(server->streams, stream, etag, &current) != LS_OK ||
                    !current)
                        continue;
                answer_not_modified(r, etag, refs_only, a);
                return true;
        }
        return false;
}

/* Adds the headers, and the body unless the client has it: new data may come and go (a commit of
 * another kind) between its load and ours without the table changing. */
static void
load_answer(struct ls_http_server *server, struct ls_http_request *r, const struct ls_table *table,
            bool refs_only, struct ls_http_answer *a)
{
        ls_str rest = ls_http_header(r, "If-None-Match"), tag;

        for (int i = 0; table->fresh && i < ETAGS_MAX && (tag = etag_next(&rest)).ptr != NULL;
             i++) {
                if (strcmp(etag_of_table(r, tag, refs_only), table->etag) == 0) {
                        answer_not_modified(r, table->etag, refs_only, a);
                        return;
                }
        }
        answer_etag(r, table->etag, refs_only, a);
        ls_http_answer_header(a, "x-lakestream-fresh", table->fresh ? "true" : "false");
        if (!table->fresh)
                ls_http_answer_header(
                        a, "x-lakestream-behind-records",
                        ls_arena_printf(r->arena, "%lld", (long long)table->behind_records).ptr);
        ls_metric_series_add(ls_metric_with(&table_loads, "outcome",
                                            table->fresh ? LS_STR("fresh") : LS_STR("behind")),
                             1);
        load_answer_body(server, table, refs_only, a);
}

void
iceberg_table_load(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        ls_str snapshots = ls_http_query(r, "snapshots");
        bool refs_only = ls_str_is(snapshots, "refs");
        struct ls_errinfo info = { "" };
        struct ls_table table = { 0 };
        ls_err e;

        if (snapshots.ptr != NULL && !refs_only && !ls_str_is(snapshots, "all")) {
                http_answer_error(a, 400, "BadRequestException", "snapshots must be all or refs");
                return;
        }
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(server, r, a);
        if (stream == NULL || load_is_unchanged(server, stream, r, refs_only, a))
                return;
        e = ls_table_load(server->streams, stream, -1, &table, &info);
        if (e == LS_OK)
                load_answer(server, r, &table, refs_only, a);
        else if (e == LS_ABSENT)
                http_answer_error(a, 404, "NoSuchTableException", "Table does not exist any more");
        else
                http_answer_failure(a, e, "loading the table", &info);
        ls_table_done(&table);
}

void
iceberg_table_exists(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(ctx, r, a);

        if (stream != NULL)
                a->status = 204;
}

void
iceberg_table_metrics(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(ctx, r, a);
        json_t *report = stream != NULL ? http_body_object(r, a) : NULL;
        const char *kind = json_string_value(json_object_get(report, "report-type"));

        if (report == NULL)
                return;
        if (kind == NULL) {
                http_answer_error(a, 400, "BadRequestException", "the report has no report-type");
        } else {
                bool known = strcmp(kind, "scan-report") == 0 || strcmp(kind, "commit-report") == 0;

                ls_metric_series_add(ls_metric_with(&table_reports, "kind",
                                                    known ? ls_str_of(kind) : LS_STR("other")),
                                     1);
                a->status = 204;
        }
        json_decref(report);
}
