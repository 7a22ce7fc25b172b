/* cli/group.c - `lakestream group`: consumer groups of a running server, over the Kafka protocol.
 * */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "cli/kafka_client.h"

#define BROKERS_MAX 10000

struct group_flags {
        struct kafka_session s;
        const char *to;
        struct cli_list topics;
        bool dry_run;
};

static int
group_end(struct group_flags *f, int code)
{
        kafka_session_end(&f->s);
        cli_list_done(&f->topics);
        return code;
}

/* --- list --- */

/* Groups that one broker coordinates. */
static ls_err
list_node(struct group_flags *f, int32_t node, json_t *list, struct ls_errinfo *reterr)
{
        struct ls_kafka_list_groups_response response;
        struct ls_kafka_list_groups_request request;

        ls_kafka_list_groups_request_init(&request);
        LS_TRY(kafka_call(f->s.client, node, LS_KAFKA_API_LIST_GROUPS, -1, &request, &f->s.arena,
                          &response, reterr));
        if (response.error_code != 0)
                return kafka_refusal(reterr, "listing groups", response.error_code, LS_STR_NULL);
        for (uint32_t i = 0; i < response.groups.count; i++) {
                const struct ls_kafka_list_groups_response_group *g = &response.groups.items[i];

                json_array_append_new(list, json_pack("{s:s%,s:s%,s:s%}", "group", g->group_id.ptr,
                                                      g->group_id.len, "state",
                                                      g->group_state.ptr ? g->group_state.ptr : "",
                                                      g->group_state.len, "protocol",
                                                      g->protocol_type.ptr, g->protocol_type.len));
        }
        return LS_OK;
}

static int
list_run(struct group_flags *f)
{
        struct ls_kafka_metadata_response metadata;
        json_t *list = json_array(), *group;
        struct ls_errinfo info = { "" };
        struct cli_table table;
        size_t i;
        ls_err e = kafka_metadata(f->s.client, NULL, 0, false, &f->s.arena, &metadata, &info);

        for (uint32_t b = 0; e == LS_OK && b < LS_MIN(metadata.brokers.count, BROKERS_MAX); b++)
                e = list_node(f, metadata.brokers.items[b].node_id, list, &info);
        if (e != LS_OK) {
                json_decref(list);
                return cli_fail("%s", info.text);
        }
        if (f->s.json) {
                cli_print_json(list);
                return CLI_OK;
        }
        cli_table_init(&table, 3, "GROUP", "STATE", "PROTOCOL");
        json_array_foreach(list, i, group)
        {
                cli_table_cell(&table, "%s", json_string_value(json_object_get(group, "group")));
                cli_table_cell(&table, "%s", json_string_value(json_object_get(group, "state")));
                cli_table_cell(&table, "%s", json_string_value(json_object_get(group, "protocol")));
        }
        cli_table_print(&table);
        json_decref(list);
        return CLI_OK;
}

static int
group_list(int argc, char **argv)
{
        struct group_flags f = { 0 };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, "lakestream group list [flags]", NULL, 0, 0, 0,
                                &code))
                code = list_run(&f);
        return group_end(&f, code);
}

/* --- describe --- */

/* Partitions that a member has, of its assignment's bytes. */
static json_t *
member_partitions(struct group_flags *f, ls_span assignment)
{
        struct ls_kafka_consumer_assignment a;
        json_t *list = json_array();
        int16_t version;

        if (assignment.len == 0 ||
            ls_kafka_data_decode(&ls_kafka_consumer_assignment_message, assignment, &f->s.arena,
                                 &version, &a) != LS_OK)
                return list;
        for (uint32_t t = 0; t < a.assigned_partitions.count; t++)
                for (uint32_t i = 0; i < a.assigned_partitions.items[t].partitions.count; i++)
                        json_array_append_new(
                                list,
                                json_sprintf(
                                        "%.*s:%d", LS_STR_ARG(a.assigned_partitions.items[t].topic),
                                        (int)a.assigned_partitions.items[t].partitions.items[i]));
        return list;
}

static json_t *
describe_members(struct group_flags *f, int32_t node, ls_str group, char **ret_state,
                 struct ls_errinfo *reterr)
{
        struct ls_kafka_describe_groups_response response;
        struct ls_kafka_describe_groups_request request;
        const struct ls_kafka_describe_groups_response_group *g;
        json_t *members;

        ls_kafka_describe_groups_request_init(&request);
        request.groups.items = &group;
        request.groups.count = 1;
        if (kafka_call(f->s.client, node, LS_KAFKA_API_DESCRIBE_GROUPS, -1, &request, &f->s.arena,
                       &response, reterr) != LS_OK)
                return NULL;
        if (response.groups.count != 1) {
                ls_fail(reterr, LS_CORRUPT, "the answer is for other groups");
                return NULL;
        }
        g = &response.groups.items[0];
        if (g->error_code != 0 || ls_str_is(g->group_state, "Dead")) {
                ls_fail(reterr, LS_ABSENT,
                        "there is no group '%.*s'; `lakestream group list` shows those that are",
                        LS_STR_ARG(group));
                return NULL;
        }
        *ret_state = ls_str_dup(g->group_state);
        members = json_array();
        for (uint32_t i = 0; i < g->members.count; i++) {
                const struct ls_kafka_describe_groups_response_member *m = &g->members.items[i];

                json_array_append_new(members,
                                      json_pack("{s:s%,s:s%,s:s%,s:o}", "member", m->member_id.ptr,
                                                m->member_id.len, "client", m->client_id.ptr,
                                                m->client_id.len, "host", m->client_host.ptr,
                                                m->client_host.len, "partitions",
                                                member_partitions(f, m->member_assignment)));
        }
        return members;
}

/* All committed offsets of a group, with the ends of the partitions. */
static ls_err
fetch_offsets(struct group_flags *f, int32_t node, ls_str group,
              struct ls_kafka_offset_fetch_response *ret, struct ls_errinfo *reterr)
{
        struct ls_kafka_offset_fetch_request request;

        ls_kafka_offset_fetch_request_init(&request);
        request.group_id = group;
        request.topics.items = NULL; /* all */
        /* Versions to 7 have the one group's answer at the top. */
        LS_TRY(kafka_call(f->s.client, node, LS_KAFKA_API_OFFSET_FETCH, 7, &request, &f->s.arena,
                          ret, reterr));
        if (ret->error_code != 0)
                return kafka_refusal(reterr, "asking for the group's offsets", ret->error_code,
                                     LS_STR_NULL);
        return LS_OK;
}

static ls_err
describe_topic_offsets(struct group_flags *f, const struct ls_kafka_offset_fetch_response_topic *t,
                       json_t *list, struct ls_errinfo *reterr)
{
        struct ls_kafka_metadata_response_topic *meta = NULL;
        ls_err found = kafka_topic(f->s.client, t->name, false, &f->s.arena, &meta, reterr);

        for (uint32_t i = 0; i < t->partitions.count; i++) {
                const struct ls_kafka_offset_fetch_response_partition *p = &t->partitions.items[i];
                int64_t end = -1;

                if (p->committed_offset < 0)
                        continue;
                if (found == LS_OK && p->partition_index < (int32_t)meta->partitions.count)
                        LS_TRY(kafka_list_offsets(f->s.client, meta, &p->partition_index, 1, -1,
                                                  &end, reterr));
                json_array_append_new(
                        list,
                        json_pack("{s:s%,s:i,s:I,s:o,s:o}", "topic", t->name.ptr, t->name.len,
                                  "partition", (int)p->partition_index, "offset",
                                  (json_int_t)p->committed_offset, "end",
                                  end < 0 ? json_null() : json_integer(end), "lag",
                                  end < 0 ? json_null()
                                          : json_integer(LS_MAX(end - p->committed_offset, 0))));
        }
        return LS_OK;
}

static void
describe_print(const char *group, const char *state, const json_t *members, const json_t *offsets)
{
        struct cli_table table;
        json_t *item;
        size_t i;

        printf("group   %s\nstate   %s\n\n", group, state);
        cli_table_init(&table, 5, "TOPIC", "PARTITION", "OFFSET", "END", "LAG");
        json_array_foreach(offsets, i, item)
        {
                static const char *const numbers[] = { "partition", "offset", "end", "lag" };

                cli_table_cell(&table, "%s", json_string_value(json_object_get(item, "topic")));
                for (size_t k = 0; k < LS_COUNT(numbers); k++) {
                        const json_t *n = json_object_get(item, numbers[k]);

                        if (json_is_integer(n))
                                cli_table_cell(&table, "%lld", (long long)json_integer_value(n));
                        else
                                cli_table_cell(&table, "-");
                }
        }
        cli_table_print(&table);
        if (json_array_size(members) == 0)
                return;
        putchar('\n');
        cli_table_init(&table, 4, "MEMBER", "CLIENT", "HOST", "PARTITIONS");
        json_array_foreach(members, i, item)
        {
                cli_table_cell(&table, "%s", json_string_value(json_object_get(item, "member")));
                cli_table_cell(&table, "%s", json_string_value(json_object_get(item, "client")));
                cli_table_cell(&table, "%s", json_string_value(json_object_get(item, "host")));
                cli_table_cell(&table, "%zu", json_array_size(json_object_get(item, "partitions")));
        }
        cli_table_print(&table);
}

static int
describe_run(struct group_flags *f)
{
        ls_str group = ls_str_of(f->s.args.words.items[0]);
        struct ls_kafka_offset_fetch_response fetched;
        LS_AUTO(ls_free) char *state = NULL;
        json_t *members = NULL, *offsets = json_array();
        struct ls_errinfo info = { "" };
        int32_t node = KAFKA_ANY_NODE;
        ls_err e = kafka_coordinator(f->s.client, group, &node, &info);
        int code = CLI_OK;

        if (e == LS_OK) {
                members = describe_members(f, node, group, &state, &info);
                e = members == NULL ? LS_ABSENT : fetch_offsets(f, node, group, &fetched, &info);
        }
        for (uint32_t t = 0; e == LS_OK && t < fetched.topics.count; t++)
                e = describe_topic_offsets(f, &fetched.topics.items[t], offsets, &info);
        if (e != LS_OK)
                code = cli_fail("%s", info.text);
        else if (f->s.json)
                cli_print_json(json_pack("{s:s,s:s,s:O,s:O}", "group", group.ptr, "state", state,
                                         "members", members, "offsets", offsets));
        else
                describe_print(group.ptr, state, members, offsets);
        json_decref(members);
        json_decref(offsets);
        return code;
}

static int
group_describe(int argc, char **argv)
{
        struct group_flags f = { 0 };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, "lakestream group describe GROUP [flags]", NULL,
                                0, 1, 1, &code))
                code = describe_run(&f);
        return group_end(&f, code);
}

/* --- reset --- */

/* Where --to leads in one topic: offsets[i] of partitions[i]. */
static ls_err
reset_targets(struct group_flags *f, const struct ls_kafka_metadata_response_topic *topic,
              const int32_t *partitions, size_t count, int64_t *ret_offsets,
              struct ls_errinfo *reterr)
{
        bool is_time = f->to[0] == '@';
        int64_t number;

        if (strcmp(f->to, "beginning") == 0)
                return kafka_list_offsets(f->s.client, topic, partitions, count, -2, ret_offsets,
                                          reterr);
        if (strcmp(f->to, "end") == 0)
                return kafka_list_offsets(f->s.client, topic, partitions, count, -1, ret_offsets,
                                          reterr);
        if (!ls_str_to_i64(ls_str_of(f->to + is_time), 0, INT64_MAX, &number))
                return ls_fail(reterr, LS_INVALID,
                               "--to takes beginning, end, an offset, or @MILLISECONDS, not '%s'",
                               f->to);
        if (!is_time) {
                for (size_t i = 0; i < count; i++)
                        ret_offsets[i] = number;
                return LS_OK;
        }
        LS_TRY(kafka_list_offsets(f->s.client, topic, partitions, count, number, ret_offsets,
                                  reterr));
        for (size_t i = 0; i < count; i++)
                if (ret_offsets[i] < 0) /* nothing as new as that: the end */
                        LS_TRY(kafka_list_offsets(f->s.client, topic, &partitions[i], 1, -1,
                                                  &ret_offsets[i], reterr));
        return LS_OK;
}

static ls_err
reset_commit(struct group_flags *f, int32_t node, ls_str group, ls_str topic_name,
             const int32_t *partitions, size_t count, const int64_t *offsets,
             struct ls_errinfo *reterr)
{
        struct ls_kafka_offset_commit_response response;
        struct ls_kafka_offset_commit_request request;
        struct ls_kafka_offset_commit_request_topic topic;

        ls_kafka_offset_commit_request_init(&request);
        ls_kafka_offset_commit_request_topic_init(&topic);
        request.group_id = group;
        topic.name = topic_name;
        topic.partitions.items = ls_kafka_offset_commit_request_partition_array(&f->s.arena, count);
        if (topic.partitions.items == NULL)
                return ls_fail(reterr, LS_TOO_LARGE, "too many partitions");
        topic.partitions.count = (uint32_t)count;
        for (size_t i = 0; i < count; i++) {
                topic.partitions.items[i].partition_index = partitions[i];
                topic.partitions.items[i].committed_offset = offsets[i];
                topic.partitions.items[i].committed_metadata = LS_STR("");
        }
        request.topics.items = &topic;
        request.topics.count = 1;
        LS_TRY(kafka_call(f->s.client, node, LS_KAFKA_API_OFFSET_COMMIT, 9, &request, &f->s.arena,
                          &response, reterr));
        for (uint32_t t = 0; t < response.topics.count; t++) {
                for (uint32_t i = 0; i < response.topics.items[t].partitions.count; i++) {
                        int16_t code = response.topics.items[t].partitions.items[i].error_code;

                        if (code == LS_KAFKA_ERR_UNKNOWN_MEMBER_ID)
                                return ls_fail(
                                        reterr, LS_DENIED,
                                        "the group has running members: stop them, then reset");
                        if (code != 0)
                                return kafka_refusal(reterr, "storing offsets", code, LS_STR_NULL);
                }
        }
        return LS_OK;
}

/* "TOPIC" or "TOPIC:PARTITION". */
static ls_err
reset_topic(struct group_flags *f, int32_t node, ls_str group, const char *spec, json_t *done,
            struct ls_errinfo *reterr)
{
        const char *colon = strrchr(spec, ':');
        ls_str name = ls_str_make(spec, colon ? (size_t)(colon - spec) : strlen(spec));
        struct ls_kafka_metadata_response_topic *topic;
        int32_t *partitions;
        int64_t *offsets, one = -1;
        size_t count;

        LS_TRY(kafka_topic(f->s.client, name, false, &f->s.arena, &topic, reterr));
        count = topic->partitions.count;
        if (colon != NULL && !ls_str_to_i64(ls_str_of(colon + 1), 0, (int64_t)count - 1, &one))
                return ls_fail(reterr, LS_INVALID, "%s: the topic has the partitions 0 to %zu",
                               spec, count - 1);
        count = one >= 0 ? 1 : count;
        partitions = ls_arena_array(&f->s.arena, count, sizeof *partitions);
        offsets = ls_arena_array(&f->s.arena, count, sizeof *offsets);
        if (partitions == NULL || offsets == NULL)
                return ls_fail(reterr, LS_TOO_LARGE, "too many partitions");
        for (size_t i = 0; i < count; i++)
                partitions[i] = one >= 0 ? (int32_t)one : (int32_t)i;
        LS_TRY(reset_targets(f, topic, partitions, count, offsets, reterr));
        if (!f->dry_run)
                LS_TRY(reset_commit(f, node, group, name, partitions, count, offsets, reterr));
        for (size_t i = 0; i < count; i++)
                json_array_append_new(done, json_pack("{s:s%,s:i,s:I}", "topic", name.ptr, name.len,
                                                      "partition", (int)partitions[i], "offset",
                                                      (json_int_t)offsets[i]));
        return LS_OK;
}

static int
reset_run(struct group_flags *f)
{
        ls_str group = ls_str_of(f->s.args.words.items[0]);
        json_t *done = json_array(), *item;
        struct ls_errinfo info = { "" };
        int32_t node = KAFKA_ANY_NODE;
        struct cli_table table;
        ls_err e;
        size_t i;

        e = kafka_coordinator(f->s.client, group, &node, &info);
        for (i = 0; e == LS_OK && i < f->topics.count; i++)
                e = reset_topic(f, node, group, f->topics.items[i], done, &info);
        if (e != LS_OK) {
                json_decref(done);
                return cli_fail("%s", info.text);
        }
        if (f->s.json) {
                cli_print_json(json_pack("{s:s,s:b,s:o}", "group", group.ptr, "dry_run",
                                         (int)f->dry_run, "offsets", done));
                return CLI_OK;
        }
        printf("%s\n", f->dry_run ? "would be set (--dry-run):" : "set:");
        cli_table_init(&table, 3, "TOPIC", "PARTITION", "OFFSET");
        json_array_foreach(done, i, item)
        {
                cli_table_cell(&table, "%s", json_string_value(json_object_get(item, "topic")));
                cli_table_cell(&table, "%lld",
                               (long long)json_integer_value(json_object_get(item, "partition")));
                cli_table_cell(&table, "%lld",
                               (long long)json_integer_value(json_object_get(item, "offset")));
        }
        cli_table_print(&table);
        json_decref(done);
        return CLI_OK;
}

static int
group_reset(int argc, char **argv)
{
        static const char usage[] =
                "lakestream group reset GROUP --topic TOPIC[:PARTITION]... --to WHERE";
        struct group_flags f = { 0 };
        const struct cli_flag flags[] = {
                { "topic", CLI_LIST, &f.topics, "TOPIC[:P]", "what to reset", 0, 0 },
                { "to", CLI_TEXT, &f.to, "WHERE", "beginning, end, an offset, or @MS a time", 0,
                  0 },
                { "dry-run", CLI_BOOL, &f.dry_run, NULL, "only show the offsets", 0, 0 },
        };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, usage, flags, LS_COUNT(flags), 1, 1, &code))
                code = f.topics.count > 0 && f.to != NULL ? reset_run(&f) : cli_misuse("%s", usage);
        return group_end(&f, code);
}

/* --- delete --- */

static int
delete_run(struct group_flags *f)
{
        ls_str group = ls_str_of(f->s.args.words.items[0]);
        struct ls_kafka_delete_groups_response response;
        struct ls_kafka_delete_groups_request request;
        struct ls_errinfo info = { "" };
        int32_t node = KAFKA_ANY_NODE;

        ls_kafka_delete_groups_request_init(&request);
        request.groups_names.items = &group;
        request.groups_names.count = 1;
        if (kafka_coordinator(f->s.client, group, &node, &info) != LS_OK ||
            kafka_call(f->s.client, node, LS_KAFKA_API_DELETE_GROUPS, -1, &request, &f->s.arena,
                       &response, &info) != LS_OK ||
            response.results.count != 1)
                return cli_fail("%s", info.text);
        if (response.results.items[0].error_code != 0) {
                kafka_refusal(&info, "deleting the group", response.results.items[0].error_code,
                              response.results.items[0].error_message);
                return cli_fail("%s", info.text);
        }
        if (f->s.json)
                cli_print_json(json_pack("{s:s}", "deleted", group.ptr));
        else
                printf("deleted group %s\n", group.ptr);
        return CLI_OK;
}

static int
group_delete(int argc, char **argv)
{
        struct group_flags f = { 0 };
        int code;

        if (kafka_session_begin(&f.s, argc, argv, "lakestream group delete GROUP [flags]", NULL, 0,
                                1, 1, &code))
                code = delete_run(&f);
        return group_end(&f, code);
}

int
cli_group(int argc, char **argv)
{
        static const struct cli_verb verbs[] = {
                { "list", group_list, "all groups and their states" },
                { "describe", group_describe, "members, offsets and lag of a group" },
                { "reset", group_reset, "set the offsets of a group that is not running" },
                { "delete", group_delete, "delete a group that is not running" },
        };

        return cli_dispatch("group", verbs, LS_COUNT(verbs), argc, argv);
}
