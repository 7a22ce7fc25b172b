/* servers/http/routes.c - every path that is served, one line each.
 *
 * Parameter names under /iceberg are those of the specification, since GET config lists these
 * patterns. Inline handlers only look at memory.
 */
#include "servers/http/http_int.h"

#define I      "/iceberg/v1"
#define NS     I "/{prefix}/namespaces"
#define TABLES NS "/{namespace}/tables"
#define API    "/api/v1"
#define IN     LS_HTTP_INLINE
#define STREAM API "/streams/{stream}"

static const char not_served[] = ""; /* the doc of routes that explain a refusal */

/* clang-format off */
const struct ls_http_route http_routes[] = {
        { "GET", "/", page_root, IN, "this page" },
        { "GET", "/metrics", page_metrics, IN, "Prometheus metrics" },
        { "GET", "/healthz", page_healthz, IN, "the process answers" },
        { "HEAD", "/healthz", page_healthz, IN, NULL },
        { "GET", "/readyz", page_readyz, 0, "records can be acknowledged" },
        { "HEAD", "/readyz", page_readyz, 0, NULL },

        { "GET", I "/config", iceberg_config, IN, "Iceberg REST catalog: settings" },
        { "GET", NS, iceberg_namespace_list, 0, "list namespaces" },
        { "POST", NS, iceberg_namespace_create, 0, "create a namespace" },
        { "GET", NS "/{namespace}", iceberg_namespace_load, 0, "a namespace and its properties" },
        { "HEAD", NS "/{namespace}", iceberg_namespace_exists, 0, "whether a namespace exists" },
        { "DELETE", NS "/{namespace}", iceberg_namespace_drop, 0, "drop an empty namespace" },
        { "POST", NS "/{namespace}/properties", iceberg_namespace_properties, 0, "change them" },
        { "GET", TABLES, iceberg_table_list, 0, "list tables" },
        { "GET", TABLES "/{table}", iceberg_table_load, 0, "load a table, fresh" },
        { "HEAD", TABLES "/{table}", iceberg_table_exists, 0, "whether a table exists" },
        { "POST", TABLES "/{table}/metrics", iceberg_table_metrics, IN, "take an engine's report" },

        { "POST", TABLES, iceberg_refuse_create, 0, not_served },
        { "POST", TABLES "/{table}", iceberg_refuse_commit, IN, not_served },
        { "DELETE", TABLES "/{table}", iceberg_refuse_drop, IN, not_served },
        { "GET", TABLES "/{table}/credentials", iceberg_refuse_credentials, IN, not_served },
        { "POST", TABLES "/{table}/plan", iceberg_refuse_plan, IN, not_served },
        { "GET", TABLES "/{table}/plan/{plan-id}", iceberg_no_plan, IN, not_served },
        { "DELETE", TABLES "/{table}/plan/{plan-id}", iceberg_no_plan, IN, not_served },
        { "POST", TABLES "/{table}/tasks", iceberg_refuse_plan, IN, not_served },
        { "POST", NS "/{namespace}/register", iceberg_refuse_register, 0, not_served },
        { "POST", NS "/{namespace}/register-view", iceberg_refuse_view, 0, not_served },
        { "GET", NS "/{namespace}/views", iceberg_refuse_view, 0, not_served },
        { "POST", NS "/{namespace}/views", iceberg_refuse_view, 0, not_served },
        { "GET", NS "/{namespace}/views/{view}", iceberg_no_view, IN, not_served },
        { "HEAD", NS "/{namespace}/views/{view}", iceberg_no_view, IN, not_served },
        { "POST", NS "/{namespace}/views/{view}", iceberg_no_view, IN, not_served },
        { "DELETE", NS "/{namespace}/views/{view}", iceberg_no_view, IN, not_served },
        { "POST", I "/{prefix}/tables/rename", iceberg_refuse_rename, IN, not_served },
        { "POST", I "/{prefix}/views/rename", iceberg_refuse_view_rename, IN, not_served },
        { "POST", I "/{prefix}/transactions/commit", iceberg_refuse_transaction, IN, not_served },
        { "POST", I "/oauth/tokens", iceberg_refuse_token, IN, not_served },

        { "GET", API "/status", admin_status, 0, "version, ids, addresses, readiness" },
        { "GET", API "/settings", admin_settings, IN, "settings of the server and their sources" },
        { "GET", API "/streams", admin_stream_list, 0, "all streams" },
        { "GET", STREAM, admin_stream, 0, "a stream, its partitions and settings" },
        { "GET", STREAM "/table", admin_table, 0, "a stream's table, as last committed" },
        { "POST", STREAM "/table/commit", admin_table_commit, 0, "commit the newest records now" },
        { "GET", STREAM "/table/snapshots", admin_table_snapshots, 0, "snapshots of the table" },
        { "GET", STREAM "/table/files", admin_table_files, 0, "data files of the table" },
        { "GET", STREAM "/table/verify", admin_table_verify, 0, "log against table; ?deep=true" },
};
/* clang-format on */
const size_t http_route_count = LS_COUNT(http_routes);

bool
http_route_is_served(const struct ls_http_route *route)
{
        return route->doc != NULL && route->doc != not_served;
}
