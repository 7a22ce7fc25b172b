/* cli/topic.c - `lakestream topic`: topics of a running server, over the Kafka protocol. */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/kafka_client.h"

#define CONFIG_RESOURCE_TOPIC 2
#define CONFIG_OP_SET         0
#define CONFIG_OP_DELETE      1
#define CONFIG_SOURCE_TOPIC   1 /* set on the topic itself */
#define TIMEOUT_MS            30000

/* What every verb here has. */
struct topic_flags {
        struct kafka_session s;
        int64_t partitions; /* -1: not given */
        struct cli_list config, delete_config;
        bool if_exists, if_absent;
};

static int
topic_end(struct topic_flags *f, int code)
{
        kafka_session_end(&f->s);
        cli_list_done(&f->config);
        cli_list_done(&f->delete_config);
        return code;
}

/* "name=value" into its parts. */
static bool
config_split(const char *text, ls_str *ret_name, ls_str *ret_value)
{
        const char *equals = strchr(text, '=');

        if (equals == NULL || equals == text) {
                cli_misuse("--config %s: write --config name=value", text);
                return false;
        }
        *ret_name = ls_str_make(text, (size_t)(equals - text));
        *ret_value = ls_str_of(equals + 1);
        return true;
}

/* --- create --- */

static int
create_print(const struct topic_flags *f, bool created, int32_t partitions)
{
        const char *name = f->s.args.words.items[0];
        json_t *json = json_pack("{s:s,s:b}", "name", name, "created", (int)created);

        if (created)
                json_object_set_new(json, "partitions", json_integer(partitions));
        if (f->s.json)
                cli_print_json(json_incref(json));
        else if (created)
                printf("created topic %s with %d partitions\n", name, (int)partitions);
        else
                printf("topic %s is there already\n", name);
        json_decref(json);
        return CLI_OK;
}

static int
create_send(struct topic_flags *f)
{
        struct ls_kafka_create_topics_response response;
        struct ls_kafka_create_topics_request request;
        struct ls_kafka_create_topics_request_topic topic;
        struct ls_kafka_create_topics_response_topic *made;
        struct ls_errinfo info = { "" };

        ls_kafka_create_topics_request_init(&request);
        ls_kafka_create_topics_request_topic_init(&topic);
        topic.name = ls_str_of(f->s.args.words.items[0]);
        topic.num_partitions = (int32_t)f->partitions;
        topic.replication_factor = -1;
        topic.configs.items =
                ls_kafka_create_topics_request_config_array(&f->s.arena, f->config.count);
        for (size_t i = 0; i < f->config.count; i++, topic.configs.count++)
                if (!config_split(f->config.items[i], &topic.configs.items[i].name,
                                  &topic.configs.items[i].value))
                        return CLI_USAGE;
        request.topics.items = &topic;
        request.topics.count = 1;
        request.timeout_ms = TIMEOUT_MS;
        if (kafka_call(f->s.client, KAFKA_ANY_NODE, LS_KAFKA_API_CREATE_TOPICS, -1, &request,
                       &f->s.arena, &response, &info) != LS_OK ||
            response.topics.count != 1)
                return cli_fail("%s", info.text);
        made = &response.topics.items[0];
        if (made->error_code == LS_KAFKA_ERR_TOPIC_ALREADY_EXISTS && f->if_absent)
                return create_print(f, false, 0);
        if (made->error_code != 0) {
                kafka_refusal(&info, "creating the topic", made->error_code, made->error_message);
                return cli_fail("%s", info.text);
        }
        return create_print(f, true, made->num_partitions);
}

static int
topic_create(int argc, char **argv)
{
        struct topic_flags f = { .partitions = -1 };
        const struct cli_flag flags[] = {
                { "partitions", CLI_INT, &f.partitions, "N",
                  "default: num.partitions of the server", 1, INT32_MAX },
                { "config", CLI_LIST, &f.config, "NAME=VALUE", "a setting of the topic", 0, 0 },
                { "if-absent", CLI_BOOL, &f.if_absent, NULL, "do nothing when it is there", 0, 0 },
        };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, "lakestream topic create NAME [flags]", flags,
                                LS_COUNT(flags), 1, 1, &code))
                code = create_send(&f);
        return topic_end(&f, code);
}

/* --- list --- */

static int
by_name(const void *left, const void *right)
{
        const struct ls_kafka_metadata_response_topic *a = left, *b = right;

        return ls_span_cmp(ls_span_of(a->name.ptr, a->name.len),
                           ls_span_of(b->name.ptr, b->name.len));
}

static int
topic_list(int argc, char **argv)
{
        struct ls_kafka_metadata_response metadata;
        struct topic_flags f = { 0 };
        struct ls_errinfo info = { "" };
        struct cli_table table;
        json_t *list;
        int code;

        if (!kafka_session_begin(&f.s, argc, argv, "lakestream topic list [flags]", NULL, 0, 0, 0,
                                 &code))
                return topic_end(&f, code);
        if (kafka_metadata(f.s.client, NULL, 0, false, &f.s.arena, &metadata, &info) != LS_OK)
                return topic_end(&f, cli_fail("%s", info.text));
        list = json_array();
        cli_table_init(&table, 3, "TOPIC", "PARTITIONS", "ID");
        if (metadata.topics.count > 1)
                qsort(metadata.topics.items, metadata.topics.count, sizeof *metadata.topics.items,
                      by_name);
        for (uint32_t i = 0; i < metadata.topics.count; i++) {
                const struct ls_kafka_metadata_response_topic *t = &metadata.topics.items[i];
                char id[LS_UUID_TEXT_BYTES];

                ls_uuid_text(t->topic_id, id);
                cli_table_cell(&table, "%.*s", LS_STR_ARG(t->name));
                cli_table_cell(&table, "%u", t->partitions.count);
                cli_table_cell(&table, "%s", id);
                json_array_append_new(list,
                                      json_pack("{s:s%,s:i,s:s}", "name", t->name.ptr, t->name.len,
                                                "partitions", (int)t->partitions.count, "id", id));
        }
        if (f.s.json)
                cli_print_json(json_incref(list));
        else
                cli_table_print(&table);
        cli_table_done(&table);
        json_decref(list);
        return topic_end(&f, CLI_OK);
}

/* --- describe --- */

/* Settings that were set on the topic itself. NULL: said why. */
static json_t *
describe_settings(struct topic_flags *f, ls_str name)
{
        struct ls_kafka_describe_configs_request_resource resource;
        struct ls_kafka_describe_configs_response response;
        struct ls_kafka_describe_configs_request request;
        struct ls_errinfo info = { "" };
        json_t *settings;

        ls_kafka_describe_configs_request_init(&request);
        ls_kafka_describe_configs_request_resource_init(&resource);
        resource.resource_type = CONFIG_RESOURCE_TOPIC;
        resource.resource_name = name;
        resource.configuration_keys.items = NULL;
        request.resources.items = &resource;
        request.resources.count = 1;
        if (kafka_call(f->s.client, KAFKA_ANY_NODE, LS_KAFKA_API_DESCRIBE_CONFIGS, -1, &request,
                       &f->s.arena, &response, &info) != LS_OK) {
                cli_fail("%s", info.text);
                return NULL;
        }
        if (response.results.count != 1 || response.results.items[0].error_code != 0) {
                cli_fail("the server gives no settings of the topic");
                return NULL;
        }
        settings = json_object();
        for (uint32_t i = 0; i < response.results.items[0].configs.count; i++) {
                const struct ls_kafka_describe_configs_response_config *c =
                        &response.results.items[0].configs.items[i];

                if (c->config_source == CONFIG_SOURCE_TOPIC)
                        json_object_setn_new(
                                settings, c->name.ptr, c->name.len,
                                json_stringn(c->value.ptr ? c->value.ptr : "", c->value.len));
        }
        return settings;
}

static json_t *
describe_partitions(struct topic_flags *f, const struct ls_kafka_metadata_response_topic *t)
{
        size_t count = t->partitions.count;
        int32_t *numbers = ls_calloc(count, sizeof *numbers);
        int64_t *starts = ls_calloc(count, sizeof *starts), *ends = ls_calloc(count, sizeof *ends);
        struct ls_errinfo info = { "" };
        json_t *list = NULL;

        for (size_t i = 0; i < count; i++)
                numbers[i] = (int32_t)i;
        if (kafka_list_offsets(f->s.client, t, numbers, count, -2, starts, &info) == LS_OK &&
            kafka_list_offsets(f->s.client, t, numbers, count, -1, ends, &info) == LS_OK) {
                list = json_array();
                for (size_t i = 0; i < count; i++)
                        json_array_append_new(
                                list, json_pack("{s:i,s:i,s:I,s:I,s:I}", "partition", (int)i,
                                                "leader", (int)kafka_leader(t, (int32_t)i), "start",
                                                (json_int_t)starts[i], "end", (json_int_t)ends[i],
                                                "records", (json_int_t)(ends[i] - starts[i])));
        } else {
                cli_fail("%s", info.text);
        }
        ls_free(numbers);
        ls_free(starts);
        ls_free(ends);
        return list;
}

static void
describe_print(const char *name, const char *id, const json_t *settings, const json_t *partitions)
{
        struct cli_table table;
        const char *key;
        json_t *value, *p;
        size_t i;

        printf("topic       %s\nid          %s\npartitions  %zu\n", name, id,
               json_array_size(partitions));
        json_object_foreach((json_t *)settings, key, value)
                printf("setting     %s = %s\n", key, json_string_value(value));
        putchar('\n');
        cli_table_init(&table, 5, "PARTITION", "LEADER", "START", "END", "RECORDS");
        json_array_foreach(partitions, i, p)
        {
                static const char *const columns[] = { "partition", "leader", "start", "end",
                                                       "records" };

                for (size_t k = 0; k < LS_COUNT(columns); k++)
                        cli_table_cell(
                                &table, "%lld",
                                (long long)json_integer_value(json_object_get(p, columns[k])));
        }
        cli_table_print(&table);
}

static int
describe_run(struct topic_flags *f)
{
        const char *name = f->s.args.words.items[0];
        struct ls_kafka_metadata_response_topic *t;
        struct ls_errinfo info = { "" };
        char id[LS_UUID_TEXT_BYTES];
        json_t *settings, *partitions = NULL;

        if (kafka_topic(f->s.client, ls_str_of(name), false, &f->s.arena, &t, &info) != LS_OK)
                return cli_fail("%s", info.text);
        ls_uuid_text(t->topic_id, id);
        settings = describe_settings(f, t->name);
        if (settings != NULL)
                partitions = describe_partitions(f, t);
        if (partitions == NULL) {
                json_decref(settings);
                return CLI_FAILED;
        }
        if (f->s.json)
                cli_print_json(json_pack("{s:s,s:s,s:O,s:O}", "name", name, "id", id, "settings",
                                         settings, "partitions", partitions));
        else
                describe_print(name, id, settings, partitions);
        json_decref(settings);
        json_decref(partitions);
        return CLI_OK;
}

static int
topic_describe(int argc, char **argv)
{
        struct topic_flags f = { 0 };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, "lakestream topic describe NAME [flags]", NULL, 0,
                                1, 1, &code))
                code = describe_run(&f);
        return topic_end(&f, code);
}

/* --- alter --- */

static int
alter_partitions(struct topic_flags *f, ls_str name)
{
        struct ls_kafka_create_partitions_response response;
        struct ls_kafka_create_partitions_request request;
        struct ls_kafka_create_partitions_request_topic topic;
        struct ls_errinfo info = { "" };

        ls_kafka_create_partitions_request_init(&request);
        ls_kafka_create_partitions_request_topic_init(&topic);
        topic.name = name;
        topic.count = (int32_t)f->partitions;
        topic.assignments.items = NULL;
        request.topics.items = &topic;
        request.topics.count = 1;
        request.timeout_ms = TIMEOUT_MS;
        if (kafka_call(f->s.client, KAFKA_ANY_NODE, LS_KAFKA_API_CREATE_PARTITIONS, -1, &request,
                       &f->s.arena, &response, &info) != LS_OK ||
            response.results.count != 1)
                return cli_fail("%s", info.text);
        if (response.results.items[0].error_code != 0) {
                kafka_refusal(&info, "adding partitions", response.results.items[0].error_code,
                              response.results.items[0].error_message);
                return cli_fail("%s", info.text);
        }
        return CLI_OK;
}

static int
alter_configs(struct topic_flags *f, ls_str name)
{
        struct ls_kafka_incremental_alter_configs_request_resource resource;
        struct ls_kafka_incremental_alter_configs_response response;
        struct ls_kafka_incremental_alter_configs_request request;
        struct ls_errinfo info = { "" };
        size_t count = f->config.count + f->delete_config.count;

        ls_kafka_incremental_alter_configs_request_init(&request);
        ls_kafka_incremental_alter_configs_request_resource_init(&resource);
        resource.resource_type = CONFIG_RESOURCE_TOPIC;
        resource.resource_name = name;
        resource.configs.items =
                ls_kafka_incremental_alter_configs_request_config_array(&f->s.arena, count);
        resource.configs.count = (uint32_t)count;
        for (size_t i = 0; i < f->config.count; i++) {
                resource.configs.items[i].config_operation = CONFIG_OP_SET;
                if (!config_split(f->config.items[i], &resource.configs.items[i].name,
                                  &resource.configs.items[i].value))
                        return CLI_USAGE;
        }
        for (size_t i = 0; i < f->delete_config.count; i++) {
                resource.configs.items[f->config.count + i].config_operation = CONFIG_OP_DELETE;
                resource.configs.items[f->config.count + i].name =
                        ls_str_of(f->delete_config.items[i]);
                resource.configs.items[f->config.count + i].value = LS_STR_NULL;
        }
        request.resources.items = &resource;
        request.resources.count = 1;
        if (kafka_call(f->s.client, KAFKA_ANY_NODE, LS_KAFKA_API_INCREMENTAL_ALTER_CONFIGS, -1,
                       &request, &f->s.arena, &response, &info) != LS_OK ||
            response.responses.count != 1)
                return cli_fail("%s", info.text);
        if (response.responses.items[0].error_code != 0) {
                kafka_refusal(&info, "changing settings", response.responses.items[0].error_code,
                              response.responses.items[0].error_message);
                return cli_fail("%s", info.text);
        }
        return CLI_OK;
}

static int
alter_run(struct topic_flags *f)
{
        struct ls_kafka_metadata_response_topic *there;
        ls_str name = ls_str_of(f->s.args.words.items[0]);
        struct ls_errinfo info = { "" };
        int code = CLI_OK;

        if (f->partitions < 0 && f->config.count + f->delete_config.count == 0)
                return cli_misuse("say what to change: --partitions, --config or --delete-config");
        if (kafka_topic(f->s.client, name, false, &f->s.arena, &there, &info) != LS_OK)
                return cli_fail("%s", info.text);
        if (f->config.count + f->delete_config.count > 0)
                code = alter_configs(f, name);
        if (code == CLI_OK && f->partitions >= 0)
                code = alter_partitions(f, name);
        if (code == CLI_OK && !f->s.json)
                printf("altered topic %.*s\n", LS_STR_ARG(name));
        else if (code == CLI_OK)
                cli_print_json(json_pack("{s:s}", "name", name.ptr));
        return code;
}

static int
topic_alter(int argc, char **argv)
{
        struct topic_flags f = { .partitions = -1 };
        const struct cli_flag flags[] = {
                { "partitions", CLI_INT, &f.partitions, "N", "the new, larger number of partitions",
                  1, INT32_MAX },
                { "config", CLI_LIST, &f.config, "NAME=VALUE", "a setting to set", 0, 0 },
                { "delete-config", CLI_LIST, &f.delete_config, "NAME", "a setting to reset", 0, 0 },
        };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, "lakestream topic alter NAME [flags]", flags,
                                LS_COUNT(flags), 1, 1, &code))
                code = alter_run(&f);
        return topic_end(&f, code);
}

/* --- delete --- */

static int
delete_run(struct topic_flags *f)
{
        struct ls_kafka_delete_topics_response response;
        struct ls_kafka_delete_topics_request request;
        struct ls_errinfo info = { "" };
        json_t *list = json_array();
        size_t count = f->s.args.words.count;
        int code = CLI_OK;

        ls_kafka_delete_topics_request_init(&request);
        request.timeout_ms = TIMEOUT_MS;
        request.topic_names.items = ls_arena_array(&f->s.arena, count, sizeof(ls_str));
        request.topic_names.count = (uint32_t)count;
        for (size_t i = 0; i < count; i++)
                request.topic_names.items[i] = ls_str_of(f->s.args.words.items[i]);
        if (kafka_call(f->s.client, KAFKA_ANY_NODE, LS_KAFKA_API_DELETE_TOPICS, 5, &request,
                       &f->s.arena, &response, &info) != LS_OK) {
                json_decref(list);
                return cli_fail("%s", info.text);
        }
        for (uint32_t i = 0; i < response.responses.count; i++) {
                const struct ls_kafka_delete_topics_response_topic *t =
                        &response.responses.items[i];
                bool gone =
                        t->error_code == LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION && f->if_exists;

                if (t->error_code != 0 && !gone) {
                        kafka_refusal(&info, "deleting the topic", t->error_code, t->error_message);
                        code = cli_fail("%.*s: %s", LS_STR_ARG(t->name), info.text);
                        continue;
                }
                if (!f->s.json && !gone)
                        printf("deleted topic %.*s\n", LS_STR_ARG(t->name));
                if (!gone)
                        json_array_append_new(list, json_stringn(t->name.ptr, t->name.len));
        }
        if (f->s.json)
                cli_print_json(json_pack("{s:O}", "deleted", list));
        json_decref(list);
        return code;
}

static int
topic_delete(int argc, char **argv)
{
        struct topic_flags f = { 0 };
        const struct cli_flag flags[] = {
                { "if-exists", CLI_BOOL, &f.if_exists, NULL, "do not mind when it is not there", 0,
                  0 },
        };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, "lakestream topic delete NAME... [flags]", flags,
                                LS_COUNT(flags), 1, 10000, &code))
                code = delete_run(&f);
        return topic_end(&f, code);
}

int
cli_topic(int argc, char **argv)
{
        static const struct cli_verb verbs[] = {
                { "create", topic_create, "make a topic" },
                { "list", topic_list, "all topics" },
                { "describe", topic_describe, "partitions, offsets and settings of a topic" },
                { "alter", topic_alter, "change settings, add partitions" },
                { "delete", topic_delete, "delete topics, their records and their tables" },
        };

        return cli_dispatch("topic", verbs, LS_COUNT(verbs), argc, argv);
}
