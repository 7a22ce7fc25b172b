/* servers/http/admin.c - /api/v1: what the command line and operators ask. Shapes:
 * docs/protocols/http.md. */
#include <stdio.h>

#include "base/clock.h"
#include "servers/http/http_int.h"

#define PARTITIONS_SHOWN_MAX 10000 /* of one stream, in one answer */

static json_t *
uuid_json(ls_uuid uuid)
{
        char text[LS_UUID_TEXT_BYTES];

        ls_uuid_text(uuid, text);
        return json_string(text);
}

static json_t *
hash_json(uint64_t hash)
{
        return json_sprintf("%016llx", (unsigned long long)hash);
}

/* --- the server --- */

void
admin_status(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        struct ls_errinfo info = { "" };
        ls_err ready = ls_streams_ready(server->streams, &info);
        int64_t uptime_ms = ls_clock_monotonic_ms() - server->started_ms;
        struct ls_stream **streams;
        size_t count;

        ls_stream_list(server->streams, &streams, &count);
        ls_stream_list_free(streams, count);
        http_answer_json(
                a, 200,
                json_pack("{s:s,s:o,s:i,s:I,s:b,s:o,s:o,s:o,s:I}", "version", LS_VERSION,
                          "cluster_id", uuid_json(ls_streams_cluster_id(server->streams)),
                          "broker_id", (int)ls_streams_broker_id(server->streams), "uptime_ms",
                          (json_int_t)uptime_ms, "ready", ready == LS_OK, "not_ready_because",
                          ready == LS_OK ? json_null() : http_json_text(info.text), "kafka",
                          http_json_text(server->kafka_address), "http",
                          http_json_text(http_address(server)), "streams", (json_int_t)count));
}

void
admin_settings(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        static const char *const sources[] = { [LS_OPTION_DEFAULT] = "default",
                                               [LS_OPTION_FILE] = "file",
                                               [LS_OPTION_ENV] = "environment",
                                               [LS_OPTION_FLAG] = "flag" };
        struct ls_http_server *server = ctx;
        const struct ls_options *options = ls_streams_options(server->streams);
        json_t *list = json_array();
        struct ls_buf value;

        ls_buf_init(&value, LS_BUF_MAX_DEFAULT);
        for (enum ls_option_id id = 0; id < LS_OPT_COUNT; id++) {
                ls_buf_clear(&value);
                ls_option_print(options, id, &value);
                json_array_append_new(
                        list,
                        json_pack("{s:s,s:o,s:s,s:s,s:s}", "name", ls_option_defs[id].name, "value",
                                  http_json_str(ls_str_make((const char *)value.ptr, value.len)),
                                  "source", sources[options->sources[id]], "unit",
                                  ls_option_defs[id].unit, "doc", ls_option_defs[id].doc));
        }
        ls_buf_done(&value);
        http_answer_json(a, 200, json_pack("{s:o}", "settings", list));
}

/* --- streams --- */

/* Sums over the partitions; `partitions` (may be NULL) gets one object each. */
static void
stream_sums(struct ls_stream *stream, int32_t count, json_t *object, json_t *partitions)
{
        int64_t records = 0, bytes = 0;

        for (int32_t p = 0; p < count; p++) {
                struct ls_offsets offsets;
                int64_t log_bytes = 0;

                if (ls_stream_offsets(stream, p, &offsets) != LS_OK)
                        continue;
                if (ls_stream_log_bytes(stream, p, &log_bytes) != LS_OK)
                        log_bytes = 0;
                records += offsets.end - offsets.start;
                bytes += log_bytes;
                if (partitions != NULL && p < PARTITIONS_SHOWN_MAX)
                        json_array_append_new(partitions,
                                              json_pack("{s:i,s:I,s:I,s:I,s:I}", "partition",
                                                        (int)p, "start", (json_int_t)offsets.start,
                                                        "end", (json_int_t)offsets.end, "stable",
                                                        (json_int_t)offsets.stable, "log_bytes",
                                                        (json_int_t)log_bytes));
        }
        json_object_set_new(object, "log_records", json_integer(records));
        json_object_set_new(object, "log_bytes", json_integer(bytes));
}

static json_t *
stream_json(const struct ls_stream_info *info)
{
        return json_pack("{s:s,s:o,s:{s:b,s:s,s:s,s:s},s:i,s:I}", "name", info->kafka_name,
                         "topic_id", uuid_json(info->topic_id), "table", "enabled",
                         (int)http_is_table(info), "catalog", info->catalog, "namespace", info->ns,
                         "name", info->name, "partitions", (int)info->partitions, "created_ms",
                         (json_int_t)info->created_ms);
}

void
admin_stream_list(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        json_t *list = json_array();
        struct ls_stream **streams;
        size_t count;

        http_catch_up(server);
        ls_stream_list(server->streams, &streams, &count);
        for (size_t i = 0; i < count; i++) {
                const struct ls_stream_info *info = ls_stream_info(streams[i]);
                json_t *object = stream_json(info);

                stream_sums(streams[i], info->partitions, object, NULL);
                json_array_append_new(list, object);
        }
        ls_stream_list_free(streams, count);
        http_answer_json(a, 200, json_pack("{s:o}", "streams", list));
}

/* The stream behind {stream}; NULL: answered. */
static struct ls_stream *
stream_find(struct ls_http_server *server, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_stream *stream;

        http_catch_up(server);
        stream = ls_stream_find(server->streams, r->params[0]);
        if (stream == NULL)
                http_answer_error(a, 404, "NoSuchStreamException", "There is no stream '%.*s'",
                                  (int)LS_MIN(r->params[0].len, 300), r->params[0].ptr);
        return stream;
}

void
admin_stream(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = stream_find(ctx, r, a);
        const struct ls_stream_info *info;
        json_t *object, *partitions, *settings;
        struct ls_buf value;

        if (stream == NULL)
                return;
        info = ls_stream_info(stream);
        object = stream_json(info);
        partitions = json_array();
        settings = json_object();
        stream_sums(stream, info->partitions, object, partitions);
        ls_buf_init(&value, LS_BUF_MAX_DEFAULT);
        for (enum ls_setting_id id = 0; id < LS_SET_COUNT; id++) {
                if (!info->settings.is_set[id])
                        continue;
                ls_buf_clear(&value);
                ls_setting_print(&info->settings, id, &value);
                json_object_set_new(settings, ls_setting_defs[id].name,
                                    http_json_str(ls_str_make((const char *)value.ptr, value.len)));
        }
        ls_buf_done(&value);
        json_object_set_new(object, "leader_epoch", json_integer(info->leader_epoch));
        json_object_set_new(object, "settings", settings);
        json_object_set_new(object, "partition_list", partitions);
        http_answer_json(a, 200, object);
}

/* --- tables --- */

/* Loads the table behind {stream}; `deadline_ms` as ls_table_load. NULL: answered. The caller owns
 * both. */
static json_t *
table_load(struct ls_http_server *server, struct ls_http_request *r, int64_t deadline_ms,
           struct ls_table *ret_table, struct ls_http_answer *a)
{
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = stream_find(server, r, a);
        struct ls_errinfo info = { "" };
        json_t *metadata;
        ls_err e;

        if (stream == NULL)
                return NULL;
        if (!http_is_table(ls_stream_info(stream))) {
                http_answer_error(a, 404, "NoSuchTableException",
                                  "This stream is not shown as a table: table.enabled is false");
                return NULL;
        }
        e = ls_table_load(server->streams, stream, deadline_ms, ret_table, &info);
        if (e == LS_ABSENT) {
                http_answer_error(a, 404, "NoSuchStreamException", "The stream was deleted");
                return NULL;
        }
        if (e != LS_OK) {
                http_answer_failure(a, e, "loading the table", &info);
                return NULL;
        }
        metadata = json_loadb((const char *)ret_table->metadata->ptr, ret_table->metadata->len, 0,
                              NULL);
        if (metadata == NULL) {
                http_answer_failure(a, LS_EBROKEN, "reading table metadata", NULL);
                ls_table_done(ret_table);
        }
        return metadata;
}

static json_t *
current_snapshot(const json_t *metadata)
{
        json_int_t id = json_integer_value(json_object_get(metadata, "current-snapshot-id"));
        json_t *snapshot;
        size_t i;

        json_array_foreach(
                json_object_get(metadata, "snapshots"), i,
                snapshot) if (json_integer_value(json_object_get(snapshot, "snapshot-id")) ==
                              id) return snapshot;
        return NULL;
}

/* A number that Iceberg keeps as text in a snapshot's summary; 0 when it is not there. */
static json_t *
summary_number(const json_t *snapshot, const char *name)
{
        const char *text =
                json_string_value(json_object_get(json_object_get(snapshot, "summary"), name));
        int64_t number = 0;

        if (text == NULL || !ls_str_to_i64(ls_str_of(text), INT64_MIN, INT64_MAX, &number))
                number = 0;
        return json_integer(number);
}

/* Columns of the current schema as {id, name, type, required}. */
static json_t *
current_columns(const json_t *metadata)
{
        json_int_t id = json_integer_value(json_object_get(metadata, "current-schema-id"));
        json_t *schema;
        size_t i;

        json_array_foreach(json_object_get(metadata, "schemas"), i,
                           schema) if (json_integer_value(json_object_get(schema, "schema-id")) ==
                                       id) return json_incref(json_object_get(schema, "fields"));
        return json_array();
}

static json_t *
table_json(const struct ls_table *table, const json_t *metadata)
{
        json_t *snapshot = current_snapshot(metadata);

        return json_pack("{s:o,s:s,s:b,s:I,s:O?,s:O?,s:O?,s:O?,s:o,s:o,s:o,s:I,s:o,s:O?}",
                         "metadata_location", http_json_text(table->metadata_uri), "etag",
                         table->etag, "fresh", (int)table->fresh, "behind_records",
                         (json_int_t)table->behind_records, "format_version",
                         json_object_get(metadata, "format-version"), "table_uuid",
                         json_object_get(metadata, "table-uuid"), "location",
                         json_object_get(metadata, "location"), "snapshot_id",
                         snapshot ? json_object_get(snapshot, "snapshot-id") : NULL, "rows",
                         summary_number(snapshot, "total-records"), "data_files",
                         summary_number(snapshot, "total-data-files"), "data_bytes",
                         summary_number(snapshot, "total-files-size"), "snapshots",
                         (json_int_t)json_array_size(json_object_get(metadata, "snapshots")),
                         "columns", current_columns(metadata), "partition_specs",
                         json_object_get(metadata, "partition-specs"));
}

static void
answer_table(struct ls_http_server *server, struct ls_http_request *r, int64_t deadline_ms,
             struct ls_http_answer *a)
{
        struct ls_table table = { 0 };
        json_t *metadata = table_load(server, r, deadline_ms, &table, a);

        if (metadata == NULL)
                return;
        http_answer_json(a, 200, table_json(&table, metadata));
        json_decref(metadata);
        ls_table_done(&table);
}

void
admin_table(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        answer_table(ctx, r, 0, a);
}

void
admin_table_commit(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        answer_table(ctx, r, -1, a);
}

void
admin_table_snapshots(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_table table = { 0 };
        json_t *metadata = table_load(ctx, r, 0, &table, a), *list, *snapshot, *current;
        size_t i;

        if (metadata == NULL)
                return;
        list = json_array();
        current = current_snapshot(metadata);
        json_array_foreach(json_object_get(metadata, "snapshots"), i, snapshot)
                json_array_append_new(
                        list,
                        json_pack("{s:O?,s:O?,s:O?,s:O?,s:b,s:O?,s:O?}", "snapshot_id",
                                  json_object_get(snapshot, "snapshot-id"), "parent_id",
                                  json_object_get(snapshot, "parent-snapshot-id"),
                                  "sequence_number", json_object_get(snapshot, "sequence-number"),
                                  "timestamp_ms", json_object_get(snapshot, "timestamp-ms"),
                                  "current", (int)(snapshot == current), "manifest_list",
                                  json_object_get(snapshot, "manifest-list"), "summary",
                                  json_object_get(snapshot, "summary")));
        http_answer_json(a, 200, json_pack("{s:o}", "snapshots", list));
        json_decref(metadata);
        ls_table_done(&table);
}

static ls_err
files_add(void *ctx, const struct ls_table_file *file)
{
        json_array_append_new(ctx,
                              json_pack("{s:o,s:I,s:I}", "uri", http_json_text(file->uri), "bytes",
                                        (json_int_t)file->bytes, "rows", (json_int_t)file->rows));
        return LS_OK;
}

void
admin_table_files(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = stream_find(server, r, a);
        json_t *list;
        ls_err e;

        if (stream == NULL)
                return;
        list = json_array();
        e = ls_table_files(server->streams, stream, files_add, list);
        if (e == LS_OK) {
                http_answer_json(a, 200, json_pack("{s:o}", "files", list));
                return;
        }
        json_decref(list);
        http_answer_failure(a, e, "listing the table's files", NULL);
}

void
admin_table_verify(void *ctx, struct ls_http_request *r, struct ls_http_answer *a)
{
        struct ls_http_server *server = ctx;
        bool deep = ls_str_is(ls_http_query(r, "deep"), "true");
        LS_AUTO(ls_stream_unref) struct ls_stream *stream = stream_find(server, r, a);
        struct ls_table_verify v = { 0 };
        struct ls_errinfo info = { "" };
        ls_err e;

        if (stream == NULL)
                return;
        e = ls_table_verify(server->streams, stream, deep, &v, &info);
        if (e != LS_OK) {
                http_answer_failure(a, e, "verifying the table", &info);
                return;
        }
        http_answer_json(a, 200,
                         json_pack("{s:b,s:b,s:I,s:I,s:o,s:o,s:I,s:o}", "equal", (int)v.equal,
                                   "deep", (int)deep, "records_log", (json_int_t)v.records_log,
                                   "records_table", (json_int_t)v.records_table, "hash_log",
                                   hash_json(v.hash_log), "hash_table", hash_json(v.hash_table),
                                   "files", (json_int_t)v.files, "first_difference",
                                   v.first_difference[0]
                                           ? http_json_str(ls_str_of(v.first_difference))
                                           : json_null()));
}
