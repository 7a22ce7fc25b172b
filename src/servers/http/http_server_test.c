/* servers/http/http_server_test.c - proves the paths of the HTTP server over a fake stream layer:
 * statuses, error types, pages, entity tags, what causes a commit and what does not, and that
 * nothing from outside breaks it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/metric.h"
#include "servers/http/fake_streams.h"
#include "servers/http/http_int.h"
#include "sys/dial.h"

#define M "/iceberg/v1/main"

struct fixture {
        struct ls_streams *streams;
        struct ls_http_server server;
        struct ls_http_options options;
        struct ls_arena arena;
        /* of the last request */
        struct ls_http_answer answer;
        json_t *json;
};

static int
setup(void **state)
{
        struct fixture *f = ls_calloc(1, sizeof *f);

        f->streams = fake_streams_new();
        f->server.streams = f->streams;
        f->server.kafka_address = "127.0.0.1:9092";
        f->server.address = "127.0.0.1:8181";
        pthread_mutex_init(&f->server.properties, NULL);
        f->options = (struct ls_http_options){ .routes = http_routes,
                                               .route_count = http_route_count,
                                               .server = &f->server,
                                               .on_error = http_on_error };
        ls_arena_init(&f->arena, LS_HTTP_ARENA_BYTES_MAX);
        *state = f;
        return 0;
}

static void
forget(struct fixture *f)
{
        ls_http_answer_done(&f->answer);
        json_decref(f->json);
        f->json = NULL;
        ls_arena_reset(&f->arena);
}

static int
teardown(void **state)
{
        struct fixture *f = *state;

        forget(f);
        ls_arena_done(&f->arena);
        fake_streams_free(f->streams);
        pthread_mutex_destroy(&f->server.properties);
        ls_free(f);
        return 0;
}

/* Sends a request without a connection; keeps answer and JSON in the fixture; returns the status.
 * */
static int
ask_with(struct fixture *f, const char *method, const char *target, const char *body,
         const char *header, const char *value)
{
        struct ls_http_pair headers[] = { { ls_str_of(header), ls_str_of(value) } };
        struct ls_http_request r = { .method = method,
                                     .headers = headers,
                                     .header_count = header ? 1 : 0,
                                     .body = ls_span_of(body ? body : "", body ? strlen(body) : 0),
                                     .arena = &f->arena };
        ls_span s;

        forget(f);
        ls_http_dispatch(&f->options, ls_str_of(target), &r, &f->answer);
        s = ls_slice_span(f->answer.body);
        f->json = s.len > 0 ? json_loadb((const char *)s.ptr, s.len, JSON_DECODE_ANY, NULL) : NULL;
        return f->answer.status;
}

static int
ask(struct fixture *f, const char *method, const char *target, const char *body)
{
        return ask_with(f, method, target, body, NULL, NULL);
}

static const char *
error_type(const struct fixture *f)
{
        const json_t *error = json_object_get(f->json, "error");
        const char *type = json_string_value(json_object_get(error, "type"));

        assert_int_equal(json_integer_value(json_object_get(error, "code")), f->answer.status);
        assert_non_null(json_string_value(json_object_get(error, "message")));
        return type ? type : "";
}

static const char *
header_of(const struct fixture *f, const char *name)
{
        for (size_t i = 0; i < f->answer.header_count; i++)
                if (ls_str_is(f->answer.headers[i].name, name))
                        return f->answer.headers[i].value.ptr;
        return NULL;
}

/* The answer's JSON member, compact. Freed with the test's arena. */
static const char *
member(struct fixture *f, const char *name)
{
        char *text = json_dumps(json_object_get(f->json, name), JSON_COMPACT | JSON_ENCODE_ANY);
        const char *copy = text ? ls_arena_str(&f->arena, ls_str_of(text)).ptr : "";

        free(text);
        return copy;
}

#define EXPECT(status, ...) assert_int_equal(ask(f, __VA_ARGS__), (status))
#define EXPECT_ERROR(status, type, ...)                   \
        do {                                              \
                EXPECT(status, __VA_ARGS__);              \
                assert_string_equal(error_type(f), type); \
        } while (0)

/* --- the catalog --- */

static void
test_config(void **state)
{
        struct fixture *f = *state;
        json_t *endpoint;
        size_t i;

        EXPECT(200, "GET", "/iceberg/v1/config", NULL);
        assert_string_equal(member(f, "overrides"), "{\"prefix\":\"main\"}");
        assert_string_equal(member(f, "defaults"), "{}");
        EXPECT(200, "GET", "/iceberg/v1/config?warehouse=", NULL);
        EXPECT(200, "GET", "/iceberg/v1/config?warehouse=main", NULL);
        /* The list is exactly what answers something else than a refusal. */
        assert_int_equal(json_array_size(json_object_get(f->json, "endpoints")), 10);
        json_array_foreach(json_object_get(f->json, "endpoints"), i, endpoint)
        {
                const char *text = json_string_value(endpoint);

                assert_non_null(strstr(text, " /v1/{prefix}/namespaces"));
                assert_null(strstr(text, "view"));
        }
        EXPECT_ERROR(404, "NoSuchWarehouseException", "GET", "/iceberg/v1/config?warehouse=other",
                     NULL);
        EXPECT_ERROR(400, "BadRequestException", "GET",
                     "/iceberg/v1/config?warehouse=main%40latest", NULL);
        assert_non_null(strstr(member(f, "error"), "not there yet"));
}

static void
test_namespaces(void **state)
{
        struct fixture *f = *state;

        fake_stream_add(f->streams, "sales.eu.orders", "sales.eu", "orders", 1);
        EXPECT(200, "GET", M "/namespaces", NULL);
        assert_string_equal(member(f, "namespaces"), "[[\"default\"],[\"sales\"]]");
        assert_string_equal(member(f, "next-page-token"), "null");
        EXPECT(200, "GET", M "/namespaces?parent=sales", NULL);
        assert_string_equal(member(f, "namespaces"), "[[\"sales\",\"eu\"]]");
        EXPECT(200, "GET", M "/namespaces?parent=sales%1Feu", NULL);
        assert_string_equal(member(f, "namespaces"), "[]");
        EXPECT(204, "HEAD", M "/namespaces/sales%1Feu", NULL);
        EXPECT(204, "HEAD", M "/namespaces/sales", NULL);
        EXPECT(200, "GET", M "/namespaces/sales%1Feu", NULL);
        assert_string_equal(member(f, "namespace"), "[\"sales\",\"eu\"]");
        assert_string_equal(member(f, "properties"), "{}");
        EXPECT_ERROR(404, "NoSuchNamespaceException", "GET", M "/namespaces?parent=nothing", NULL);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "GET", M "/namespaces/sal", NULL);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "GET", M "/namespaces/sales.eu", NULL);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "HEAD", M "/namespaces/sales%1F", NULL);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "GET", M "/namespaces/%FF%1F", NULL);
        EXPECT_ERROR(404, "NoSuchWarehouseException", "GET", "/iceberg/v1/other/namespaces", NULL);
        fake_knobs(f->streams)->fail_namespaces = LS_EDB;
        EXPECT_ERROR(503, "ServiceUnavailableException", "GET", M "/namespaces", NULL);
        EXPECT_ERROR(503, "ServiceUnavailableException", "GET", M "/namespaces/sales", NULL);
        EXPECT_ERROR(503, "ServiceUnavailableException", "GET", M "/namespaces/sales/tables", NULL);
}

static void
test_namespace_create(void **state)
{
        struct fixture *f = *state;
        static const char *const bad[] = {
                "{}",
                "[]",
                "{\"namespace\":[]}",
                "{\"namespace\":\"a\"}",
                "{\"namespace\":[\"\"]}",
                "{\"namespace\":[\"a.b\"]}",
                "{\"namespace\":[1]}",
                "{\"namespace\":[\"a b\"]}",
                "{\"namespace\":[\"a\"],\"properties\":[]}",
                "{\"namespace\":[\"a\"],\"properties\":{\"k\":1}}",
                "{\"namespace\":[\"default\",\"x\"]}",
                "{\"namespace\":[\"\\u0000\"]}",
                "",
                "{",
                "null",
                "{\"namespace\":[\"a\"],\"namespace\":[\"b\"]}",
                "\xff",
                "{\"namespace\":{\"a\":1}}",
        };
        char long_name[600];

        EXPECT(200, "POST", M "/namespaces",
               "{\"namespace\":[\"a\",\"b\"],\"properties\":{\"k\":\"v\"}}");
        assert_string_equal(member(f, "namespace"), "[\"a\",\"b\"]");
        assert_string_equal(member(f, "properties"), "{\"k\":\"v\"}");
        EXPECT(200, "GET", M "/namespaces/a%1Fb", NULL);
        assert_string_equal(member(f, "properties"), "{\"k\":\"v\"}");
        EXPECT(204, "HEAD", M "/namespaces/a", NULL);
        EXPECT_ERROR(409, "AlreadyExistsException", "POST", M "/namespaces",
                     "{\"namespace\":[\"a\",\"b\"]}");
        EXPECT_ERROR(409, "AlreadyExistsException", "POST", M "/namespaces",
                     "{\"namespace\":[\"default\"]}");
        EXPECT(200, "POST", M "/namespaces", "{\"namespace\":[\"c\"],\"properties\":null}");
        for (size_t i = 0; i < LS_COUNT(bad); i++)
                EXPECT_ERROR(400, "BadRequestException", "POST", M "/namespaces", bad[i]);
        snprintf(long_name, sizeof long_name, "{\"namespace\":[\"%0250d\"]}", 0);
        EXPECT_ERROR(400, "BadRequestException", "POST", M "/namespaces", long_name);
        EXPECT_ERROR(404, "NoSuchWarehouseException", "POST", "/iceberg/v1/x/namespaces",
                     "{\"namespace\":[\"a\"]}");
}

static void
test_namespace_drop(void **state)
{
        struct fixture *f = *state;

        fake_stream_add(f->streams, "sales.eu.orders", "sales.eu", "orders", 1);
        EXPECT(200, "POST", M "/namespaces", "{\"namespace\":[\"a\",\"b\"]}");
        EXPECT_ERROR(409, "NamespaceNotEmptyException", "DELETE", M "/namespaces/a", NULL);
        EXPECT(204, "DELETE", M "/namespaces/a%1Fb", NULL);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "DELETE", M "/namespaces/a%1Fb", NULL);
        EXPECT_ERROR(409, "NamespaceNotEmptyException", "DELETE", M "/namespaces/sales%1Feu", NULL);
        EXPECT_ERROR(409, "NamespaceNotEmptyException", "DELETE", M "/namespaces/sales", NULL);
        EXPECT_ERROR(409, "NamespaceNotEmptyException", "DELETE", M "/namespaces/default", NULL);
}

static void
test_namespace_properties(void **state)
{
        struct fixture *f = *state;
        static const char *const path = M "/namespaces/a/properties";
        static const char *const bad[] = { "{\"removals\":{}}",
                                           "{\"removals\":[1]}",
                                           "{\"updates\":[]}",
                                           "{\"updates\":{\"a\":null}}",
                                           "[]",
                                           "" };

        EXPECT(200, "POST", M "/namespaces",
               "{\"namespace\":[\"a\"],\"properties\":{\"one\":\"1\",\"two\":\"2\"}}");
        EXPECT(200, "POST", path,
               "{\"removals\":[\"one\",\"none\"],\"updates\":{\"three\":\"3\"}}");
        assert_string_equal(member(f, "updated"), "[\"three\"]");
        assert_string_equal(member(f, "removed"), "[\"one\"]");
        assert_string_equal(member(f, "missing"), "[\"none\"]");
        EXPECT(200, "GET", M "/namespaces/a", NULL);
        assert_string_equal(member(f, "properties"), "{\"two\":\"2\",\"three\":\"3\"}");
        EXPECT_ERROR(422, "UnprocessableEntityException", "POST", path,
                     "{\"removals\":[\"two\"],\"updates\":{\"two\":\"3\"}}");
        for (size_t i = 0; i < LS_COUNT(bad); i++)
                EXPECT_ERROR(400, "BadRequestException", "POST", path, bad[i]);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "POST", M "/namespaces/b/properties", "{}");
        /* A namespace that only a stream implies gets properties of its own. */
        fake_stream_add(f->streams, "s.t", "s", "t", 1);
        EXPECT(200, "POST", M "/namespaces/s/properties", "{\"updates\":{\"x\":\"y\"}}");
        EXPECT(200, "GET", M "/namespaces/s", NULL);
        assert_string_equal(member(f, "properties"), "{\"x\":\"y\"}");
}

static void
test_table_list(void **state)
{
        struct fixture *f = *state;
        char target[4096], token[1024];
        int seen = 0, pages = 0;

        for (int i = 0; i < 25; i++) {
                char name[32];

                snprintf(name, sizeof name, "t%02d", i);
                fake_stream_add(f->streams, name, "default", name, 1);
        }
        fake_stream_add(f->streams, "sales.x", "sales", "x", 1);
        fake_stream_add(f->streams, "..odd", "default", "..odd", 1);
        fake_set_table_enabled(f->streams, "t03", false);
        EXPECT(200, "GET", M "/namespaces/default/tables", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "identifiers")), 25);
        assert_non_null(strstr(member(f, "identifiers"),
                               "{\"namespace\":[\"default\"],\"name\":\"..odd\"}"));
        assert_string_equal(member(f, "next-page-token"), "null");
        /* Without a token everything comes, whatever the size says. */
        EXPECT(200, "GET", M "/namespaces/default/tables?pageSize=3", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "identifiers")), 25);
        token[0] = '\0';
        do {
                const char *next;

                snprintf(target, sizeof target,
                         M "/namespaces/default/tables?pageToken=%s&pageSize=10", token);
                EXPECT(200, "GET", target, NULL);
                seen += (int)json_array_size(json_object_get(f->json, "identifiers"));
                pages++;
                next = json_string_value(json_object_get(f->json, "next-page-token"));
                snprintf(token, sizeof token, "%s", next ? next : "");
        } while (token[0] != '\0');
        assert_int_equal(seen, 25);
        assert_int_equal(pages, 3);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "GET", M "/namespaces/none/tables", NULL);
        EXPECT_ERROR(400, "BadRequestException", "GET",
                     M "/namespaces/default/tables?pageToken=&pageSize=0", NULL);
        EXPECT_ERROR(400, "BadRequestException", "GET", M "/namespaces/default/tables?pageToken=zz",
                     NULL);
        EXPECT_ERROR(400, "BadRequestException", "GET", M "/namespaces/default/tables?pageToken=1f",
                     NULL);
        /* A token past the end, and one whose name is gone. */
        EXPECT(200, "GET", M "/namespaces/default/tables?pageToken=1ff", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "identifiers")), 0);
        assert_int_equal(fake_knobs(f->streams)->loads, 0);
}

/* Ten thousand tables are listed in pages of any size without a commit. */
static void
test_table_list_large(void **state)
{
        struct fixture *f = *state;

        for (int i = 0; i < 10000; i++) {
                char name[32];

                snprintf(name, sizeof name, "topic-%05d", i);
                fake_stream_add(f->streams, name, "default", name, 1);
        }
        EXPECT(200, "GET", M "/namespaces/default/tables", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "identifiers")), 10000);
        EXPECT(200, "GET", M "/namespaces/default/tables?pageToken=", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "identifiers")),
                         PAGE_ITEMS_DEFAULT);
        EXPECT(200, "GET", "/api/v1/streams", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "streams")), 10000);
        assert_int_equal(fake_knobs(f->streams)->commits, 0);
}

static void
test_table_load(void **state)
{
        struct fixture *f = *state;
        char etag[200];

        fake_stream_add(f->streams, "sales.eu.orders", "sales.eu", "orders", 2);
        /* No record yet: metadata without a snapshot. */
        EXPECT(200, "GET", M "/namespaces/sales%1Feu/tables/orders", NULL);
        assert_string_equal(member(f, "metadata-location"), "\"file:///d?/0.metadata.json\"");
        assert_string_equal(member(f, "config"), "{\"s3.endpoint\":\"http://\\\"host\\\"\"}");
        assert_string_equal(header_of(f, "x-lakestream-fresh"), "true");
        assert_int_equal(fake_knobs(f->streams)->commits, 0);

        fake_append(f->streams, "sales.eu.orders", 5);
        EXPECT(200, "GET", M "/namespaces/sales%1Feu/tables/orders?snapshots=all", NULL);
        assert_int_equal(fake_knobs(f->streams)->commits, 1);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(f->json, "metadata"),
                                                            "current-snapshot-id")),
                         1001);
        snprintf(etag, sizeof etag, "%s", header_of(f, "ETag"));
        assert_int_equal(etag[0], '"');

        /* The same again: 304, without a load. */
        assert_int_equal(ask_with(f, "GET", M "/namespaces/sales%1Feu/tables/orders", NULL,
                                  "if-none-match", etag),
                         304);
        assert_int_equal(fake_knobs(f->streams)->loads, 2);
        assert_null(f->answer.body);
        assert_string_equal(header_of(f, "ETag"), etag);
        /* In a list, weak. */
        char list[300];
        snprintf(list, sizeof list, "\"x\", W/%s", etag);
        assert_int_equal(ask_with(f, "GET", M "/namespaces/sales%1Feu/tables/orders", NULL,
                                  "If-None-Match", list),
                         304);
        /* Of another form: not the same bytes. */
        assert_int_equal(ask_with(f, "GET", M "/namespaces/sales%1Feu/tables/orders?snapshots=refs",
                                  NULL, "If-None-Match", etag),
                         200);
        assert_string_not_equal(header_of(f, "ETag"), etag);

        /* New data: a new version, although the client has the old one. */
        fake_append(f->streams, "sales.eu.orders", 1);
        assert_int_equal(ask_with(f, "GET", M "/namespaces/sales%1Feu/tables/orders", NULL,
                                  "If-None-Match", etag),
                         200);
        assert_int_equal(fake_knobs(f->streams)->commits, 2);
}

static void
test_table_load_refs(void **state)
{
        struct fixture *f = *state;
        json_t *metadata;

        fake_stream_add(f->streams, "t", "default", "t", 1);
        for (int i = 0; i < 3; i++) {
                fake_append(f->streams, "t", 1);
                EXPECT(200, "GET", M "/namespaces/default/tables/t", NULL);
        }
        assert_int_equal(
                json_array_size(json_object_get(json_object_get(f->json, "metadata"), "snapshots")),
                3);
        EXPECT(200, "GET", M "/namespaces/default/tables/t?snapshots=refs", NULL);
        metadata = json_object_get(f->json, "metadata");
        assert_int_equal(json_array_size(json_object_get(metadata, "snapshots")), 1);
        assert_int_equal(
                json_integer_value(json_object_get(
                        json_array_get(json_object_get(metadata, "snapshots"), 0), "snapshot-id")),
                1003);
        assert_int_equal(json_integer_value(json_object_get(metadata, "current-snapshot-id")),
                         1003);
        EXPECT_ERROR(400, "BadRequestException", "GET",
                     M "/namespaces/default/tables/t?snapshots=x", NULL);
}

/* When the bound was hit the answer says so, is no 304, and is not the etag of a fresh one. */
static void
test_table_load_behind(void **state)
{
        struct fixture *f = *state;

        fake_stream_add(f->streams, "t", "default", "t", 1);
        fake_append(f->streams, "t", 9);
        fake_knobs(f->streams)->behind = 1;
        assert_int_equal(ask_with(f, "GET", M "/namespaces/default/tables/t", NULL, "If-None-Match",
                                  "\"t1-0\""),
                         200);
        assert_string_equal(header_of(f, "x-lakestream-fresh"), "false");
        assert_string_equal(header_of(f, "x-lakestream-behind-records"), "9");
}

static void
test_table_refusals(void **state)
{
        struct fixture *f = *state;
        const char *table = M "/namespaces/default/tables/t";

        fake_stream_add(f->streams, "t", "default", "t", 1);
        fake_stream_add(f->streams, "hidden", "default", "hidden", 1);
        fake_set_table_enabled(f->streams, "hidden", false);
        EXPECT(204, "HEAD", table, NULL);
        EXPECT_ERROR(404, "NoSuchTableException", "HEAD", M "/namespaces/default/tables/none",
                     NULL);
        EXPECT_ERROR(404, "NoSuchTableException", "GET", M "/namespaces/default/tables/hidden",
                     NULL);
        EXPECT_ERROR(404, "NoSuchTableException", "GET", M "/namespaces/none/tables/t", NULL);
        EXPECT_ERROR(404, "NoSuchTableException", "GET",
                     "/iceberg/v1/other/namespaces/default/tables/t", NULL);
        EXPECT_ERROR(404, "NoSuchTableException", "GET", M "/namespaces/default/tables/%ff%fe",
                     NULL);
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST", M "/namespaces/default/tables",
                     "{\"name\":\"new\"}");
        EXPECT_ERROR(409, "AlreadyExistsException", "POST", M "/namespaces/default/tables",
                     "{\"name\":\"t\"}");
        EXPECT_ERROR(400, "BadRequestException", "POST", M "/namespaces/default/tables", "{}");
        EXPECT_ERROR(404, "NoSuchNamespaceException", "POST", M "/namespaces/none/tables",
                     "{\"name\":\"new\"}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST", table, "{}");
        assert_non_null(strstr(member(f, "error"), "topic 't'"));
        EXPECT_ERROR(406, "UnsupportedOperationException", "DELETE", table, NULL);
        assert_non_null(strstr(member(f, "error"), "topic delete t"));
        EXPECT_ERROR(404, "NoSuchTableException", "POST", M "/namespaces/default/tables/none",
                     "{}");
        EXPECT_ERROR(404, "NoSuchTableException", "DELETE", M "/namespaces/default/tables/none",
                     NULL);
        EXPECT_ERROR(400, "BadRequestException", "POST", M "/tables/rename", "{}");
        EXPECT_ERROR(400, "BadRequestException", "POST", M "/tables/rename",
                     "{\"source\":{\"namespace\":[1],\"name\":\"t\"}}");
        EXPECT_ERROR(404, "NoSuchTableException", "POST", M "/tables/rename",
                     "{\"source\":{\"namespace\":[\"a\",\"b\"],\"name\":\"t\"}}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST", M "/tables/rename",
                     "{\"source\":{\"namespace\":[\"default\"],\"name\":\"t\"}}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST", M "/transactions/commit", "{}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST", M "/namespaces/default/register",
                     "{\"name\":\"new\",\"metadata-location\":\"file:/x\"}");
        EXPECT_ERROR(409, "AlreadyExistsException", "POST", M "/namespaces/default/register",
                     "{\"name\":\"t\",\"metadata-location\":\"file:/x\"}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "GET", M "/namespaces/default/views",
                     NULL);
        EXPECT_ERROR(404, "NoSuchNamespaceException", "GET", M "/namespaces/none/views", NULL);
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST", M "/namespaces/default/views",
                     "{}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST",
                     M "/namespaces/default/register-view", "{}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST", M "/views/rename", "{}");
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST",
                     M "/namespaces/default/tables/t/plan", "{}");
        EXPECT_ERROR(404, "NoSuchTableException", "POST", M "/namespaces/default/tables/x/plan",
                     "{}");
        EXPECT_ERROR(404, "NoSuchPlanIdException", "GET", M "/namespaces/default/tables/t/plan/1",
                     NULL);
        EXPECT_ERROR(404, "NoSuchPlanIdException", "DELETE",
                     M "/namespaces/default/tables/t/plan/1", NULL);
        EXPECT_ERROR(406, "UnsupportedOperationException", "POST",
                     M "/namespaces/default/tables/t/tasks", "{}");
        EXPECT_ERROR(404, "NoSuchTableException", "GET",
                     M "/namespaces/default/tables/x/credentials", NULL);
        EXPECT_ERROR(404, "NoSuchViewException", "GET", M "/namespaces/default/views/v", NULL);
        EXPECT_ERROR(406, "UnsupportedOperationException", "GET",
                     M "/namespaces/default/tables/t/credentials", NULL);
        EXPECT(400, "POST", "/iceberg/v1/oauth/tokens", "grant_type=client_credentials");
        assert_string_equal(member(f, "error"), "\"unsupported_grant_type\"");
        EXPECT_ERROR(405, "MethodNotAllowedException", "PUT", table, NULL);
        assert_string_equal(header_of(f, "Allow"), "GET, HEAD, POST, DELETE");
        EXPECT_ERROR(404, "NotFoundException", "GET", "/iceberg/v2/config", NULL);

        fake_knobs(f->streams)->fail_loads = LS_ABSENT;
        EXPECT_ERROR(404, "NoSuchTableException", "GET", table, NULL);
        fake_knobs(f->streams)->fail_loads = LS_ENOSPC;
        EXPECT_ERROR(503, "ServiceUnavailableException", "GET", table, NULL);
        assert_non_null(strstr(member(f, "error"), "fake failure"));
        fake_knobs(f->streams)->fail_loads = LS_EBROKEN;
        EXPECT_ERROR(500, "InternalServerError", "GET", table, NULL);
}

static void
test_table_reports(void **state)
{
        struct fixture *f = *state;
        const char *path = M "/namespaces/default/tables/t/metrics";

        fake_stream_add(f->streams, "t", "default", "t", 1);
        EXPECT(204, "POST", path, "{\"report-type\":\"scan-report\",\"table-name\":\"t\"}");
        EXPECT(204, "POST", path, "{\"report-type\":\"something-new\"}");
        EXPECT_ERROR(400, "BadRequestException", "POST", path, "{}");
        EXPECT_ERROR(400, "BadRequestException", "POST", path, "scan");
        EXPECT_ERROR(404, "NoSuchTableException", "POST", M "/namespaces/default/tables/x/metrics",
                     "{}");
        EXPECT(200, "GET", "/metrics", NULL);
        ls_span text = ls_slice_span(f->answer.body);
        assert_non_null(memmem(text.ptr, text.len,
                               "lakestream_table_reports_total{kind=\"scan-report\"} 1", 51));
        assert_non_null(
                memmem(text.ptr, text.len, "lakestream_table_reports_total{kind=\"other\"} 1", 45));
}

/* --- admin, pages --- */

static void
test_admin(void **state)
{
        struct fixture *f = *state;

        fake_stream_add(f->streams, "t", "default", "t", 2);
        fake_append(f->streams, "t", 3);
        EXPECT(200, "GET", "/api/v1/status", NULL);
        assert_string_equal(member(f, "broker_id"), "7");
        assert_string_equal(member(f, "ready"), "true");
        assert_string_equal(member(f, "streams"), "1");
        EXPECT(200, "GET", "/api/v1/settings", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "settings")), LS_OPT_COUNT);
        EXPECT(200, "GET", "/api/v1/streams/t", NULL);
        assert_string_equal(member(f, "log_records"), "3");
        assert_int_equal(json_array_size(json_object_get(f->json, "partition_list")), 2);
        EXPECT(200, "GET", "/api/v1/streams/t/table", NULL);
        assert_string_equal(member(f, "fresh"), "false");
        assert_string_equal(member(f, "behind_records"), "3");
        assert_string_equal(member(f, "snapshot_id"), "null");
        EXPECT(200, "GET", "/api/v1/streams/t/table/verify", NULL);
        assert_string_equal(member(f, "equal"), "false");
        assert_string_equal(member(f, "first_difference"), "\"partition 0\"");
        EXPECT(200, "POST", "/api/v1/streams/t/table/commit", NULL);
        assert_string_equal(member(f, "fresh"), "true");
        assert_string_equal(member(f, "rows"), "3");
        EXPECT(200, "GET", "/api/v1/streams/t/table/snapshots", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "snapshots")), 1);
        EXPECT(200, "GET", "/api/v1/streams/t/table/files", NULL);
        assert_int_equal(json_array_size(json_object_get(f->json, "files")), 1);
        EXPECT(200, "GET", "/api/v1/streams/t/table/verify?deep=true", NULL);
        assert_string_equal(member(f, "equal"), "true");
        assert_string_equal(member(f, "deep"), "true");
        EXPECT_ERROR(404, "NoSuchStreamException", "GET", "/api/v1/streams/x", NULL);
        EXPECT_ERROR(404, "NoSuchStreamException", "GET", "/api/v1/streams/x/table", NULL);
        EXPECT_ERROR(404, "NoSuchStreamException", "GET", "/api/v1/streams/x/table/verify", NULL);
        fake_set_table_enabled(f->streams, "t", false);
        EXPECT_ERROR(404, "NoSuchTableException", "GET", "/api/v1/streams/t/table", NULL);
        EXPECT_ERROR(405, "MethodNotAllowedException", "GET", "/api/v1/streams/t/table/commit",
                     NULL);
}

static void
test_pages(void **state)
{
        struct fixture *f = *state;
        ls_span text;

        EXPECT(200, "GET", "/healthz", NULL);
        EXPECT(200, "HEAD", "/readyz", NULL);
        fake_knobs(f->streams)->fail_ready = LS_ENOSPC;
        EXPECT(503, "GET", "/readyz", NULL);
        assert_string_equal(member(f, "because"), "\"the disk is full\"");
        EXPECT(200, "GET", "/healthz", NULL);
        EXPECT(200, "GET", "/", NULL);
        text = ls_slice_span(f->answer.body);
        assert_non_null(memmem(text.ptr, text.len, "/metrics", 8));
        assert_null(
                memmem(text.ptr, text.len, "rename", 6)); /* what is refused is not advertised */
        EXPECT(200, "GET", "/metrics", NULL);
        text = ls_slice_span(f->answer.body);
        assert_non_null(memmem(text.ptr, text.len, "lakestream_uptime_seconds", 25));
}

/* Patterns are well formed, and no route hides another. */
static void
test_routes(void **state)
{
        for (size_t i = 0; i < http_route_count; i++) {
                const struct ls_http_route *route = &http_routes[i];
                size_t params = 0;

                assert_int_equal(route->pattern[0], '/');
                assert_non_null(route->fn);
                for (const char *c = route->pattern; *c != '\0'; c++)
                        params += *c == '{';
                assert_true(params <= LS_HTTP_PARAMS_MAX);
                for (size_t k = 0; k < i; k++)
                        assert_false(strcmp(route->method, http_routes[k].method) == 0 &&
                                     strcmp(route->pattern, http_routes[k].pattern) == 0);
        }
}

/* Random targets, bodies and headers on every route: an answer with a status, valid JSON where it
 * says so. */
static void
test_noise(void **state)
{
        static const char *const pieces[] = {
                "main", "default", "%1F", "%00",     "t",           "namespaces", "..",       "%",
                "%ff",  "iceberg", "v1",  "tables",  "?pageToken=", "&pageSize=", "?parent=", "1",
                "\"",   "%22",     "+",   "streams", "api",         "table"
        };
        static const char *const bodies[] = { "",
                                              "{}",
                                              "[]",
                                              "{\"namespace\":[\"q\"]}",
                                              "{\"namespace\":[[]]}",
                                              "{\"updates\":{\"\":\"\"}}",
                                              "\xff\xfe",
                                              "{\"removals\":[\"\"]}",
                                              "{\"report-type\":\"x\"}" };
        struct fixture *f = *state;
        uint64_t random = 7;

        fake_stream_add(f->streams, "t", "default", "t", 1);
        for (int round = 0; round < 20000; round++) {
                const struct ls_http_route *route = &http_routes[(size_t)round % http_route_count];
                char target[1024];
                size_t len = 0;

                for (const char *c = route->pattern; *c != '\0' && len < 900; c++) {
                        random = random * 6364136223846793005u + 1442695040888963407u;
                        if (*c == '{') {
                                len += (size_t)snprintf(target + len, sizeof target - len, "%s",
                                                        pieces[(random >> 33) % LS_COUNT(pieces)]);
                                c = strchr(c, '}');
                        } else {
                                target[len++] = *c;
                        }
                }
                len += (size_t)snprintf(target + len, sizeof target - len, "%s%s",
                                        pieces[(random >> 20) % LS_COUNT(pieces)],
                                        pieces[(random >> 27) % LS_COUNT(pieces)]);
                if (random >> 62 == 0)
                        target[len / 2] = '\0';
                int status = ask_with(f, route->method, target,
                                      bodies[(random >> 40) % LS_COUNT(bodies)], "If-None-Match",
                                      pieces[(random >> 50) % LS_COUNT(pieces)]);
                const char *type = header_of(f, "Content-Type");

                assert_true(status >= 200 && status < 600);
                if (type != NULL && strcmp(type, "application/json") == 0)
                        assert_non_null(f->json);
        }
}

/* The whole server, on a socket. */
static void
test_server(void **state)
{
        struct fixture *f = *state;
        static const char request[] =
                "GET /iceberg/v1/main/namespaces/default/tables/t HTTP/1.1\r\nHost: x\r\n"
                "Connection: close\r\n\r\n";
        ls_span s = ls_span_of(request, sizeof request - 1);
        struct ls_http_server *server = NULL;
        struct ls_dial *d = NULL;
        uint16_t port = 0;
        char text[8192];
        size_t len = 0, n;

        fake_stream_add(f->streams, "t", "default", "t", 1);
        fake_append(f->streams, "t", 4);
        assert_int_equal(
                ls_http_server_start(f->streams, "127.0.0.1", 0, "k:1", &server, &port, NULL),
                LS_OK);
        assert_int_equal(ls_dial_open("127.0.0.1", port, 30000, &d, NULL), LS_OK);
        assert_int_equal(ls_dial_send(d, &s, 1, 30000), LS_OK);
        while (len < sizeof text - 1 &&
               ls_dial_read_some(d, text + len, sizeof text - 1 - len, 30000, &n) == LS_OK)
                len += n;
        text[len] = '\0';
        ls_dial_close(d);
        assert_ptr_equal(strstr(text, "HTTP/1.1 200 OK"), text);
        assert_non_null(strstr(text, "x-lakestream-fresh: true"));
        assert_non_null(strstr(text, "\"current-snapshot-id\":1001"));
        ls_http_server_stop(server);
}

int
main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
        const struct CMUnitTest tests[] = {
                T(test_config),
                T(test_namespaces),
                T(test_namespace_create),
                T(test_namespace_drop),
                T(test_namespace_properties),
                T(test_table_list),
                T(test_table_list_large),
                T(test_table_load),
                T(test_table_load_refs),
                T(test_table_load_behind),
                T(test_table_refusals),
                T(test_table_reports),
                T(test_admin),
                T(test_pages),
                T(test_routes),
                T(test_noise),
                T(test_server),
        };

        ls_log_setup(LS_LOG_ERROR + 1, NULL,
                     NULL); /* failures are injected: no log lines of them */
        return cmocka_run_group_tests(tests, NULL, NULL);
}
