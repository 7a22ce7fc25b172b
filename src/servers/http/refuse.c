/* servers/http/refuse.c - what the Iceberg catalog does not do, with words that say what to do
 * instead.
 *
 * Status 406 and UnsupportedOperationException: PyIceberg, Spark's and DuckDB's clients show the
 * message and do not try again; 5xx would be tried again, or be taken for a commit of unknown
 * outcome. What is asked for is looked up first, so that a table or namespace that is not there is
 * the 404 that the specification has, and CREATE TABLE IF NOT EXISTS of a topic succeeds.
 */
#include "servers/http/http_int.h"

static void
refuse(struct ls_http_answer *a, const char *text)
{
        http_answer_error(a, 406, "UnsupportedOperationException", "%s", text);
}

/* --- tables --- */

static const char *
topic_of(struct ls_http_request *r, const struct ls_stream *stream)
{
        return ls_arena_str(r->arena, ls_str_of(ls_stream_info(stream)->kafka_name)).ptr;
}

/* A table that would be made as `body`'s "name" in {namespace}: false when it is answered. */
static bool
new_table_check(struct ls_http_server *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        const char *name;
        json_t *body;
        ls_str ns;
        bool ok = false;

        if (!http_namespace_find(server, r, a, &ns))
                return false;
        body = http_body_object(r, a);
        if (body == NULL)
                return false;
        name = json_string_value(json_object_get(body, "name"));
        if (name == NULL || *name == '\0') {
                http_answer_error(a, 400, "BadRequestException", "the request has no name");
        } else {
                LS_AUTO(ls_stream_unref)
                struct ls_stream *stream =
                        ls_stream_find_table(server->streams, r->params[0], ns, ls_str_of(name));

                ok = stream == NULL || !http_is_table(ls_stream_info(stream));
                if (!ok)
                        http_answer_error(a, 409, "AlreadyExistsException",
                                          "Table already exists: %.*s.%.300s", LS_STR_ARG(ns),
                                          name);
        }
        json_decref(body);
        return ok;
}

void
iceberg_refuse_create(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        if (new_table_check(ctx, r, a))
                refuse(a, "A table here is a stream: create the topic instead, for example with "
                          "`lakestream topic create NAME`, and it is a table at once");
}

void
iceberg_refuse_register(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        if (new_table_check(ctx, r, a))
                refuse(a, "Foreign tables cannot be registered: every table here is a stream, made "
                          "as a topic");
}

/* {"namespace": ["sales", "eu"], "name": "orders"} as params 1 and 2 of `r`; false: malformed. */
static bool
identifier_params(const json_t *identifier, struct ls_http_request *r)
{
        const json_t *levels = json_object_get(identifier, "namespace");
        const char *name = json_string_value(json_object_get(identifier, "name"));
        ls_str ns = LS_STR("");
        json_t *level;
        size_t i;

        if (name == NULL || json_array_size(levels) == 0)
                return false;
        json_array_foreach(levels, i, level)
        {
                if (!json_is_string(level))
                        return false;
                ns = ls_arena_printf(r->arena, "%.*s%s%s", LS_STR_ARG(ns), i ? "\x1f" : "",
                                     json_string_value(level));
        }
        r->params[1] = ns;
        r->params[2] = ls_arena_str(r->arena, ls_str_of(name));
        return ns.ptr != NULL && r->params[2].ptr != NULL;
}

void
iceberg_refuse_rename(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        json_t *body = http_body_object(r, a);

        if (body == NULL)
                return;
        if (!identifier_params(json_object_get(body, "source"), r)) {
                http_answer_error(a, 400, "BadRequestException",
                                  "source must have a namespace and a name");
        } else {
                LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(ctx, r, a);

                if (stream != NULL)
                        refuse(a, "A table has the name of its topic, and a topic cannot be "
                                  "renamed");
        }
        json_decref(body);
}

void
iceberg_refuse_transaction(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        refuse(a, "Tables are written by producing to their topics; commits of engines are not "
                  "taken yet");
}

void
iceberg_refuse_commit(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(ctx, r, a);

        if (stream != NULL)
                http_answer_error(
                        a, 406, "UnsupportedOperationException",
                        "This table is written by producing to the topic '%s'; commits of engines "
                        "are not taken yet",
                        topic_of(r, stream));
}

void
iceberg_refuse_drop(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(ctx, r, a);

        if (stream != NULL)
                http_answer_error(a, 406, "UnsupportedOperationException",
                                  "This table is the topic '%s': delete the topic, for example "
                                  "with `lakestream topic delete %s`",
                                  topic_of(r, stream), topic_of(r, stream));
}

/* Refuses what is asked of a table that is there. */
static void
refuse_of_table(struct ls_http_server *server, struct ls_http_request *r, struct ls_http_answer *a,
                const char *text)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(server, r, a);

        if (stream != NULL)
                refuse(a, text);
}

void
iceberg_refuse_plan(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        refuse_of_table(ctx, r, a,
                        "Scans are planned by the engine: load the table and read its manifests");
}

/* No plan was ever begun. */
void
iceberg_no_plan(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = http_table_find(ctx, r, a);

        if (stream != NULL)
                http_answer_error(a, 404, "NoSuchPlanIdException",
                                  "There is no plan '%.*s': scans are planned by the engine",
                                  (int)LS_MIN(r->params[3].len, 200), r->params[3].ptr);
}

void
iceberg_refuse_credentials(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        refuse_of_table(ctx, r, a,
                        "There are no credentials to vend: files are read where the server keeps "
                        "them");
}

/* --- views --- */

static const char no_views[] = "Views are not there yet; keep them in the engine's own catalog";

void
iceberg_refuse_view(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        ls_str ns;

        if (http_namespace_find(ctx, r, a, &ns))
                refuse(a, no_views);
}

void
iceberg_refuse_view_rename(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        refuse(a, no_views);
}

void
iceberg_no_view(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        http_answer_error(a, 404, "NoSuchViewException", "There are no views in this catalog yet");
}

/* --- tokens --- */

/* RFC 6749 5.2: this path has an error model of its own. */
void
iceberg_refuse_token(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        http_answer_json(
                a, 400,
                json_pack(
                        "{s:s,s:s}", "error", "unsupported_grant_type", "error_description",
                        "This server has no authentication yet: leave credential and token out of "
                        "the catalog's configuration"));
}
