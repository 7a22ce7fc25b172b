/* servers/http/http_int.h - what the files of this folder share. Only for this folder. */
#pragma once
#include <jansson.h>
#include <stdatomic.h>

#include "base/log.h"
#include "base/mem.h"
#include "net/http.h"
#include "servers/http/http.h"
#include "servers/http/limits.h"
#include "stream/table.h"

struct ls_http_server {
        struct ls_streams *streams;
        struct ls_http *http;
        char *kafka_address;
        /* Known once the server listens, which is after the first requests may have come. */
        char *address_early;
        _Atomic(char *) address;
        int64_t started_ms;         /* monotonic */
        pthread_mutex_t properties; /* held from reading a namespace's properties to writing them */
};

/* The table of all routes, in the order in which they are tried. */
extern const struct ls_http_route http_routes[];
extern const size_t http_route_count;
/* True for a route that does something, as opposed to one that explains why it does not. */
bool http_route_is_served(const struct ls_http_route *route);

static inline const char *
http_address(struct ls_http_server *server)
{
        return atomic_load(&server->address);
}

/* --- answers (answer.c) --- */

/* Gives `json` (taken; NULL: it could not be made, answered 500) as the body. */
void http_answer_json(struct ls_http_answer *a, int status, json_t *json);
/* Takes the buffer's memory over. */
void http_answer_buf(struct ls_http_answer *a, const char *content_type, struct ls_buf *body);
/* The error model of the Iceberg REST specification, which all our paths use. */
void http_answer_error(struct ls_http_answer *a, int status, const char *type, const char *format,
                       ...) LS_PRINTF(4, 5);
/* For an outcome or failure that the handler has no own words for; logs failures. `what` was
 * tried. */
void http_answer_failure(struct ls_http_answer *a, ls_err e, const char *what,
                         const struct ls_errinfo *info);
/* For requests without a handler: struct ls_http_options.on_error. */
void http_on_error(void *server, const struct ls_http_request *r, int status, const char *text,
                   struct ls_http_answer *a);
/* The body as a JSON object (a new reference), or NULL and answered 400. */
json_t *http_body_object(const struct ls_http_request *r, struct ls_http_answer *a);
/* For texts that need not be UTF-8, which a plain json_string or json_pack would refuse. */
json_t *http_json_str(ls_str s);
static inline json_t *
http_json_text(const char *s)
{
        return http_json_str(ls_str_of(s));
}

/* --- names (names.c) --- */

/* A path parameter with levels joined by %1F into levels joined by dots, in the request's arena.
 * LS_ABSENT: no namespace can have that name. */
ls_err http_namespace_parse(struct ls_http_request *r, ls_str param, ls_str *ret_ns);
/* ["sales", "eu"] of "sales.eu". */
json_t *http_namespace_json(ls_str ns);
struct http_names {
        ls_str *items; /* in the request's arena, ascending, no two alike */
        size_t count, cap;
        bool failed; /* one did not fit into the arena: the list is not to be shown */
};
static inline void
http_names_done(struct http_names *names)
{
        ls_free(names->items);
}
/* All namespaces of the catalog, parents included. */
ls_err http_namespaces(struct ls_http_server *server, struct ls_http_request *r, ls_str catalog,
                       struct http_names *ret_names);
bool http_names_have(const struct http_names *names, ls_str name);
/* The namespace behind {prefix} and {namespace}, levels joined by dots; false: answered. Blocks. */
bool http_namespace_find(struct ls_http_server *server, struct ls_http_request *r,
                         struct ls_http_answer *a, ls_str *ret_ns);
void http_names_add(struct http_names *names, struct ls_http_request *r, ls_str name);
/* Sorts and removes doubles. */
void http_names_sort(struct http_names *names);
/* The page that the request asks for: items [*ret_first, *ret_first + *ret_count), and the token
 * of the next page, or null. False: answered 400. */
bool http_names_page(const struct http_names *names, struct ls_http_request *r,
                     struct ls_http_answer *a, size_t *ret_first, size_t *ret_count,
                     ls_str *ret_token);
/* Answers 404 and returns false when there is no such catalog. */
bool http_catalog_known(ls_str catalog, struct ls_http_answer *a);
/* Many brokers: takes up streams that others made, changed or deleted, before they are looked for.
 * Blocks. */
void http_catch_up(struct ls_http_server *server);
/* The stream behind {prefix}, {namespace}, {table} (params 0 to 2), a new reference; NULL:
 * answered 404. */
struct ls_stream *http_table_find(struct ls_http_server *server, struct ls_http_request *r,
                                  struct ls_http_answer *a);
static inline bool
http_is_table(const struct ls_stream_info *info)
{
        return info->settings.ints[LS_SET_TABLE_ENABLED] != 0;
}
static inline void
ls_auto_ls_stream_unref(struct ls_stream **stream)
{
        ls_stream_unref(*stream);
}

/* --- handlers --- */

#define HTTP_HANDLER(name) \
        void name(void *server, struct ls_http_request *r, struct ls_http_answer *a)
/* iceberg.c */
HTTP_HANDLER(iceberg_config);
HTTP_HANDLER(iceberg_table_list);
HTTP_HANDLER(iceberg_table_load);
HTTP_HANDLER(iceberg_table_exists);
HTTP_HANDLER(iceberg_table_metrics);
/* refuse.c: what this catalog does not do, said in words */
HTTP_HANDLER(iceberg_refuse_create);
HTTP_HANDLER(iceberg_refuse_commit);
HTTP_HANDLER(iceberg_refuse_drop);
HTTP_HANDLER(iceberg_refuse_rename);
HTTP_HANDLER(iceberg_refuse_register);
HTTP_HANDLER(iceberg_refuse_transaction);
HTTP_HANDLER(iceberg_refuse_view);
HTTP_HANDLER(iceberg_refuse_view_rename);
HTTP_HANDLER(iceberg_refuse_plan);
HTTP_HANDLER(iceberg_no_plan);
HTTP_HANDLER(iceberg_refuse_credentials);
HTTP_HANDLER(iceberg_refuse_token);
HTTP_HANDLER(iceberg_no_view);
/* namespaces.c */
HTTP_HANDLER(iceberg_namespace_list);
HTTP_HANDLER(iceberg_namespace_create);
HTTP_HANDLER(iceberg_namespace_load);
HTTP_HANDLER(iceberg_namespace_exists);
HTTP_HANDLER(iceberg_namespace_drop);
HTTP_HANDLER(iceberg_namespace_properties);
/* admin.c */
HTTP_HANDLER(admin_status);
HTTP_HANDLER(admin_settings);
HTTP_HANDLER(admin_stream_list);
HTTP_HANDLER(admin_stream);
HTTP_HANDLER(admin_table);
HTTP_HANDLER(admin_table_snapshots);
HTTP_HANDLER(admin_table_files);
HTTP_HANDLER(admin_table_verify);
HTTP_HANDLER(admin_table_commit);
/* pages.c */
HTTP_HANDLER(page_root);
HTTP_HANDLER(page_metrics);
HTTP_HANDLER(page_healthz);
HTTP_HANDLER(page_readyz);
