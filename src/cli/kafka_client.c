/* cli/kafka_client.c - see kafka_client.h. */
#include "cli/kafka_client.h"

#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/mem.h"
#include "sys/dial.h"
#include "sys/process.h"

#define CONNECT_MS      5000
#define ANSWER_MS       60000 /* above the longest wait that a request of ours asks for */
#define FRAME_BYTES_MAX ((uint32_t)256 << 20)
#define APIS_MAX        128
#define TOPIC_WAIT_MS   10000 /* for leaders of a topic that was just made */
#define TOPIC_TRIES_MAX 100

struct kafka_api_range {
        int16_t key, min, max;
};

/* A broker and, once used, a connection to it. */
struct kafka_node {
        int32_t id;
        char *host;
        uint16_t port;
        struct ls_dial *dial;
};

struct kafka_client {
        struct kafka_node *nodes; /* the first is the one that answered first, id KAFKA_ANY_NODE */
        size_t node_count, node_cap;
        struct kafka_api_range apis[APIS_MAX];
        size_t api_count;
        int32_t correlation_id;
        struct ls_wire_out out;
};

/* --- frames --- */

static ls_err
node_failed(struct kafka_node *node, ls_err e, const char *what, struct ls_errinfo *reterr)
{
        ls_dial_close(node->dial);
        node->dial = NULL;
        return ls_fail(reterr, e, "%s %s:%u: %s", what, node->host, (unsigned)node->port,
                       e == LS_END ? "the server closed the connection" : ls_err_text(e));
}

static ls_err
node_read(struct kafka_node *node, struct ls_arena *arena, ls_span *ret_frame,
          struct ls_errinfo *reterr)
{
        uint8_t head[4], *frame;
        uint32_t bytes;
        ls_err e = ls_dial_read(node->dial, head, sizeof head, ANSWER_MS);

        if (e != LS_OK)
                return node_failed(node, e, "no answer from", reterr);
        bytes = ls_get_be32(head);
        frame = bytes <= FRAME_BYTES_MAX ? ls_arena_alloc(arena, bytes + 1) : NULL;
        if (frame == NULL)
                return node_failed(node, LS_TOO_LARGE, "the answer of", reterr);
        e = ls_dial_read(node->dial, frame, bytes, ANSWER_MS);
        if (e != LS_OK)
                return node_failed(node, e, "no whole answer from", reterr);
        *ret_frame = ls_span_of(frame, bytes);
        return LS_OK;
}

static ls_err
node_call(struct kafka_client *c, struct kafka_node *node, const struct ls_kafka_api *api,
          int16_t version, const void *request, struct ls_arena *arena, void *ret_response,
          struct ls_errinfo *reterr)
{
        int32_t id = ++c->correlation_id, got;
        ls_span frame;
        ls_err e;

        if (node->dial == NULL)
                LS_TRY(ls_dial_open(node->host, node->port, CONNECT_MS, &node->dial, reterr));
        ls_wire_out_clear(&c->out);
        e = ls_kafka_request_encode(api, version, id, LS_STR("lakestream-cli"), request, &c->out);
        if (e != LS_OK)
                return ls_fail(reterr, e, "the request is too large");
        frame = ls_buf_span(&c->out.buf);
        e = ls_dial_send(node->dial, &frame, 1, ANSWER_MS);
        if (e != LS_OK)
                return node_failed(node, e, "cannot send to", reterr);
        LS_TRY(node_read(node, arena, &frame, reterr));
        e = ls_kafka_response_decode(api, version, frame, arena, &got, ret_response);
        if (e == LS_OK && got != id)
                e = LS_CORRUPT;
        if (e != LS_OK)
                return node_failed(node, e, "not a Kafka answer from", reterr);
        return LS_OK;
}

/* --- life --- */

static struct kafka_node *
node_add(struct kafka_client *c, int32_t id, ls_str host, uint16_t port)
{
        struct kafka_node node = { .id = id, .host = ls_str_dup(host), .port = port };

        LS_PUSH(c->nodes, c->node_count, c->node_cap, node);
        return &c->nodes[c->node_count - 1];
}

static void
node_done(struct kafka_node *node)
{
        ls_dial_close(node->dial);
        ls_free(node->host);
}

/* ApiVersions at version 0, which every broker since 0.10 answers. */
static ls_err
client_hello(struct kafka_client *c, struct kafka_node *node, struct ls_errinfo *reterr)
{
        struct ls_kafka_api_versions_request request;
        struct ls_kafka_api_versions_response response;
        struct ls_arena arena;
        ls_err e;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_kafka_api_versions_request_init(&request);
        e = node_call(c, node, ls_kafka_api_find(LS_KAFKA_API_API_VERSIONS), 0, &request, &arena,
                      &response, reterr);
        if (e == LS_OK && response.error_code != 0)
                e = kafka_refusal(reterr, "asking for the server's versions", response.error_code,
                                  LS_STR_NULL);
        for (uint32_t i = 0; e == LS_OK && i < response.api_keys.count && c->api_count < APIS_MAX;
             i++)
                c->apis[c->api_count++] =
                        (struct kafka_api_range){ response.api_keys.items[i].api_key,
                                                  response.api_keys.items[i].min_version,
                                                  response.api_keys.items[i].max_version };
        ls_arena_done(&arena);
        return e;
}

static ls_err
client_bootstrap(struct kafka_client *c, const char *bootstrap, struct ls_errinfo *reterr)
{
        const char *at = bootstrap;
        ls_err e;

        do {
                size_t len = strcspn(at, ",");
                struct kafka_node *node;
                uint16_t port;
                ls_str host;

                LS_TRY(ls_host_port_split(ls_str_make(at, len), &host, &port, reterr));
                node = node_add(c, KAFKA_ANY_NODE, host, port);
                e = client_hello(c, node, reterr);
                if (e == LS_OK)
                        return LS_OK;
                node_done(node);
                c->node_count--;
                at += len + (at[len] == ',');
        } while (*at != '\0');
        return e;
}

ls_err
kafka_open(const char *bootstrap, struct kafka_client **ret_client, struct ls_errinfo *reterr)
{
        struct kafka_client *c = ls_calloc(1, sizeof *c);
        struct ls_errinfo info = { "" };
        ls_err e;

        ls_wire_out_init(&c->out, FRAME_BYTES_MAX);
        e = client_bootstrap(c, bootstrap, &info);
        if (e != LS_OK) {
                kafka_close(c);
                return ls_fail(
                        reterr, e,
                        "%.400s\nIs a server running there? Give its address with --bootstrap "
                        "HOST:PORT",
                        info.text);
        }
        *ret_client = c;
        return LS_OK;
}

void
kafka_close(struct kafka_client *c)
{
        if (c == NULL)
                return;
        for (size_t i = 0; i < c->node_count; i++)
                node_done(&c->nodes[i]);
        ls_free(c->nodes);
        ls_wire_out_done(&c->out);
        ls_free(c);
}

bool
kafka_session_begin(struct kafka_session *s, int argc, char **argv, const char *usage,
                    const struct cli_flag *more, size_t more_count, size_t words_min,
                    size_t words_max, int *ret_code)
{
        struct cli_flag flags[8] = { { "bootstrap", CLI_TEXT, &s->bootstrap, "HOST:PORT",
                                       "a server's Kafka address (127.0.0.1:9092)", 0, 0 },
                                     CLI_OUTPUT_FLAG(s->output) };
        struct ls_errinfo info = { "" };

        LS_ASSERT(2 + more_count <= LS_COUNT(flags));
        for (size_t i = 0; i < more_count; i++)
                flags[2 + i] = more[i];
        ls_arena_init(&s->arena, LS_ARENA_MAX_DEFAULT);
        s->bootstrap = KAFKA_BOOTSTRAP_DEFAULT;
        *ret_code = CLI_USAGE;
        if (!cli_args_parse(argc, argv, flags, 2 + more_count, usage, &s->args))
                return false;
        *ret_code = CLI_OK;
        if (s->args.help)
                return false;
        *ret_code = CLI_USAGE;
        if (!cli_output_parse(s->output, &s->json))
                return false;
        if (s->args.words.count < words_min || s->args.words.count > words_max) {
                cli_misuse("%s", usage);
                return false;
        }
        *ret_code = CLI_FAILED;
        if (kafka_open(s->bootstrap, &s->client, &info) != LS_OK) {
                cli_fail("%s", info.text);
                return false;
        }
        *ret_code = CLI_OK;
        return true;
}

void
kafka_session_end(struct kafka_session *s)
{
        kafka_close(s->client);
        ls_arena_done(&s->arena);
        cli_args_done(&s->args);
}

/* --- calls --- */

static struct kafka_node *
node_find(struct kafka_client *c, int32_t id)
{
        for (size_t i = 0; i < c->node_count; i++)
                if (c->nodes[i].id == id)
                        return &c->nodes[i];
        return NULL;
}

/* The newest version that everyone has. */
static ls_err
version_choose(const struct kafka_client *c, const struct ls_kafka_api *api, int16_t version_max,
               int16_t *ret_version, struct ls_errinfo *reterr)
{
        for (size_t i = 0; i < c->api_count; i++) {
                int16_t version = LS_MIN(c->apis[i].max, (int16_t)api->version_max);

                if (c->apis[i].key != api->key)
                        continue;
                if (version_max >= 0)
                        version = LS_MIN(version, version_max);
                if (version < api->version_min || version < c->apis[i].min)
                        break;
                *ret_version = version;
                return LS_OK;
        }
        return ls_fail(reterr, LS_UNSUPPORTED,
                       "the server does not offer %s in a version that this program knows",
                       api->name);
}

ls_err
kafka_call(struct kafka_client *c, int32_t node_id, enum ls_kafka_api_key key, int16_t version_max,
           const void *request, struct ls_arena *arena, void *ret_response,
           struct ls_errinfo *reterr)
{
        const struct ls_kafka_api *api = ls_kafka_api_find((int16_t)key);
        struct kafka_node *node = node_find(c, node_id);
        int16_t version = 0;

        if (node == NULL)
                return ls_fail(reterr, LS_ENET, "broker %d is not in the server's metadata",
                               (int)node_id);
        LS_TRY(version_choose(c, api, version_max, &version, reterr));
        return node_call(c, node, api, version, request, arena, ret_response, reterr);
}

static void
nodes_learn(struct kafka_client *c, const struct ls_kafka_metadata_response *metadata)
{
        for (uint32_t i = 0; i < metadata->brokers.count; i++) {
                const struct ls_kafka_metadata_response_broker *b = &metadata->brokers.items[i];
                struct kafka_node *node = node_find(c, b->node_id);

                if (node != NULL && ls_str_is(b->host, node->host) &&
                    node->port == (uint16_t)b->port)
                        continue;
                if (node != NULL) {
                        node_done(node);
                        *node = c->nodes[--c->node_count];
                }
                node_add(c, b->node_id, b->host, (uint16_t)b->port);
        }
}

ls_err
kafka_metadata(struct kafka_client *c, const ls_str *topics, size_t count, bool create,
               struct ls_arena *arena, struct ls_kafka_metadata_response *ret_metadata,
               struct ls_errinfo *reterr)
{
        struct ls_kafka_metadata_request request;

        ls_kafka_metadata_request_init(&request);
        request.allow_auto_topic_creation = create;
        if (count > 0) {
                request.topics.items = ls_kafka_metadata_request_topic_array(arena, count);
                if (request.topics.items == NULL)
                        return ls_fail(reterr, LS_TOO_LARGE, "too many topics at once");
                request.topics.count = (uint32_t)count;
                for (size_t i = 0; i < count; i++)
                        request.topics.items[i].name = topics[i];
        } else {
                request.topics.items = NULL;
        }
        LS_TRY(kafka_call(c, KAFKA_ANY_NODE, LS_KAFKA_API_METADATA, -1, &request, arena,
                          ret_metadata, reterr));
        nodes_learn(c, ret_metadata);
        return LS_OK;
}

static bool
topic_has_leaders(const struct ls_kafka_metadata_response_topic *topic)
{
        for (uint32_t i = 0; i < topic->partitions.count; i++)
                if (topic->partitions.items[i].leader_id < 0)
                        return false;
        return topic->partitions.count > 0;
}

ls_err
kafka_topic(struct kafka_client *c, ls_str topic, bool create, struct ls_arena *arena,
            struct ls_kafka_metadata_response_topic **ret_topic, struct ls_errinfo *reterr)
{
        int64_t deadline_ms = ls_clock_monotonic_ms() + TOPIC_WAIT_MS;

        for (int tries = 0; tries < TOPIC_TRIES_MAX; tries++) {
                struct ls_kafka_metadata_response metadata;
                struct ls_kafka_metadata_response_topic *t;
                bool late = ls_clock_monotonic_ms() >= deadline_ms || tries == TOPIC_TRIES_MAX - 1;

                LS_TRY(kafka_metadata(c, &topic, 1, create, arena, &metadata, reterr));
                if (metadata.topics.count != 1)
                        return ls_fail(reterr, LS_CORRUPT, "metadata without the topic asked for");
                t = &metadata.topics.items[0];
                if (t->error_code == 0 && topic_has_leaders(t)) {
                        *ret_topic = t;
                        return LS_OK;
                }
                if (t->error_code == LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION && (!create || late))
                        return ls_fail(
                                reterr, LS_ABSENT,
                                "there is no topic '%.*s'; `lakestream topic list` shows those "
                                "that are, `lakestream topic create` makes one",
                                LS_STR_ARG(topic));
                if (late || (t->error_code != 0 && !ls_kafka_error_find(t->error_code)->retriable))
                        return kafka_refusal(reterr, "looking up the topic", t->error_code,
                                             LS_STR_NULL);
                ls_pause_ms(100);
        }
        return LS_TIMEOUT;
}

int32_t
kafka_leader(const struct ls_kafka_metadata_response_topic *topic, int32_t partition)
{
        for (uint32_t i = 0; i < topic->partitions.count; i++)
                if (topic->partitions.items[i].partition_index == partition)
                        return topic->partitions.items[i].leader_id;
        return KAFKA_ANY_NODE;
}

ls_err
kafka_coordinator(struct kafka_client *c, ls_str group, int32_t *ret_node,
                  struct ls_errinfo *reterr)
{
        struct ls_kafka_find_coordinator_response response;
        struct ls_kafka_find_coordinator_request request;
        struct ls_kafka_metadata_response metadata;
        struct ls_arena arena;
        ls_err e;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        ls_kafka_find_coordinator_request_init(&request);
        request.key = group;
        /* Versions to 3 have the one key's answer at the top. */
        e = kafka_call(c, KAFKA_ANY_NODE, LS_KAFKA_API_FIND_COORDINATOR, 3, &request, &arena,
                       &response, reterr);
        if (e == LS_OK && response.error_code != 0)
                e = kafka_refusal(reterr, "finding the group's coordinator", response.error_code,
                                  response.error_message);
        if (e == LS_OK) {
                *ret_node = response.node_id;
                if (node_find(c, response.node_id) == NULL)
                        e = kafka_metadata(c, NULL, 0, false, &arena, &metadata, reterr);
        }
        ls_arena_done(&arena);
        return e;
}

/* --- offsets --- */

static ls_err
offsets_of(const struct ls_kafka_list_offsets_response *response, int32_t partition,
           int64_t *ret_offset, struct ls_errinfo *reterr)
{
        for (uint32_t t = 0; t < response->topics.count; t++) {
                for (uint32_t i = 0; i < response->topics.items[t].partitions.count; i++) {
                        const struct ls_kafka_list_offsets_response_partition *p =
                                &response->topics.items[t].partitions.items[i];

                        if (p->partition_index != partition)
                                continue;
                        if (p->error_code != 0)
                                return kafka_refusal(reterr, "asking for offsets", p->error_code,
                                                     LS_STR_NULL);
                        *ret_offset = p->offset;
                        return LS_OK;
                }
        }
        return ls_fail(reterr, LS_CORRUPT, "an answer without partition %d", (int)partition);
}

ls_err
kafka_list_offsets(struct kafka_client *c, const struct ls_kafka_metadata_response_topic *topic,
                   const int32_t *partitions, size_t count, int64_t timestamp, int64_t *ret_offsets,
                   struct ls_errinfo *reterr)
{
        struct ls_arena arena;
        ls_err e = LS_OK;

        ls_arena_init(&arena, LS_ARENA_MAX_DEFAULT);
        for (size_t i = 0; e == LS_OK && i < count; i++)
                ret_offsets[i] = INT64_MIN;
        for (size_t i = 0; e == LS_OK && i < count; i++) {
                int32_t node = kafka_leader(topic, partitions[i]);
                struct ls_kafka_list_offsets_response response;
                struct ls_kafka_list_offsets_request request;
                struct ls_kafka_list_offsets_request_topic t;

                if (ret_offsets[i] != INT64_MIN)
                        continue;
                ls_kafka_list_offsets_request_init(&request);
                ls_kafka_list_offsets_request_topic_init(&t);
                t.name = topic->name;
                t.partitions.items = ls_kafka_list_offsets_request_partition_array(&arena, count);
                if (t.partitions.items == NULL) {
                        e = ls_fail(reterr, LS_TOO_LARGE, "too many partitions");
                        break;
                }
                request.topics.items = &t;
                request.topics.count = 1;
                for (size_t k = i; k < count; k++) {
                        if (kafka_leader(topic, partitions[k]) != node)
                                continue;
                        t.partitions.items[t.partitions.count].partition_index = partitions[k];
                        t.partitions.items[t.partitions.count++].timestamp = timestamp;
                }
                e = kafka_call(c, node, LS_KAFKA_API_LIST_OFFSETS, -1, &request, &arena, &response,
                               reterr);
                for (size_t k = i; e == LS_OK && k < count; k++)
                        if (kafka_leader(topic, partitions[k]) == node)
                                e = offsets_of(&response, partitions[k], &ret_offsets[k], reterr);
        }
        ls_arena_done(&arena);
        return e;
}

/* --- small things --- */

ls_err
kafka_refusal(struct ls_errinfo *reterr, const char *what, int16_t code, ls_str words)
{
        const struct ls_kafka_error_info *error = ls_kafka_error_find(code);

        if (words.ptr == NULL || words.len == 0)
                words = ls_str_of(error->text);
        return ls_fail(reterr, LS_DENIED, "%s: %.*s (%s)", what, (int)LS_MIN(words.len, 300),
                       words.ptr, error->name);
}

int32_t
kafka_partition_of_key(ls_span key, int32_t partitions)
{
        const uint32_t m = 0x5bd1e995;
        uint32_t hash = 0x9747b28c ^ (uint32_t)key.len;
        size_t i = 0;

        for (; i + 4 <= key.len; i += 4) {
                uint32_t k = ls_get_le32(key.ptr + i);

                k *= m;
                k ^= k >> 24;
                hash = (hash * m) ^ (k * m);
        }
        if (key.len - i >= 3)
                hash ^= (uint32_t)key.ptr[i + 2] << 16;
        if (key.len - i >= 2)
                hash ^= (uint32_t)key.ptr[i + 1] << 8;
        if (key.len - i >= 1)
                hash = (hash ^ key.ptr[i]) * m;
        hash ^= hash >> 13;
        hash *= m;
        hash ^= hash >> 15;
        return (int32_t)(hash & 0x7fffffff) % partitions;
}
