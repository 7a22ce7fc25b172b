/* servers/kafka/cluster.c - ApiVersions, DescribeCluster, FindCoordinator, and what clients
 * probe for. */
#include "servers/kafka/server_int.h"

/* ---- ApiVersions ---- */

static void
list_apis(struct kafka_request *r, struct ls_kafka_api_versions_response *answer)
{
        struct ls_kafka_api_versions_response_api *items =
                ls_kafka_api_versions_response_api_array(&r->arena, LS_KAFKA_API_COUNT);
        uint32_t count = 0;

        for (size_t i = 0; items != NULL && i < LS_KAFKA_API_COUNT; i++) {
                const struct ls_kafka_api *api = &ls_kafka_apis[i];

                if (kafka_api_find(api->key) == NULL)
                        continue;
                items[count].api_key = api->key;
                items[count].min_version = api->advertised_min;
                items[count].max_version = api->version_max;
                count++;
        }
        answer->api_keys.items = items;
        answer->api_keys.count = count;
}

static bool
software_char_ok(char c, bool edge)
{
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
                return true;
        return !edge && (c == '-' || c == '.');
}

/* KIP-511: letters, digits, and between them '-' and '.'. */
static bool
software_ok(ls_str s)
{
        if (s.len == 0)
                return false;
        for (size_t i = 0; i < s.len; i++)
                if (!software_char_ok(s.ptr[i], i == 0 || i == s.len - 1))
                        return false;
        return true;
}

void
kafka_serve_api_versions(struct kafka_request *r)
{
        const struct ls_kafka_api_versions_request *q = r->req.body;
        struct ls_kafka_api_versions_response *answer = r->answer;

        if (r->req.version >= 3 &&
            (!software_ok(q->client_software_name) || !software_ok(q->client_software_version))) {
                answer->error_code = LS_KAFKA_ERR_INVALID_REQUEST;
                return;
        }
        list_apis(r, answer);
}

void
kafka_serve_api_versions_too_new(struct kafka_request *r)
{
        struct ls_kafka_api_versions_response *answer =
                ls_kafka_api_versions_response_array(&r->arena, 1);

        LS_ASSERT(answer != NULL); /* nothing of the request was decoded: the arena is empty */
        answer->error_code = LS_KAFKA_ERR_UNSUPPORTED_VERSION;
        list_apis(r, answer);
        r->answer = answer;
        r->req.version = 0;
}

/* ---- DescribeCluster ---- */

void
kafka_serve_describe_cluster(struct kafka_request *r)
{
        enum { ENDPOINT_BROKERS = 1, ENDPOINT_CONTROLLERS = 2 };
        const struct ls_kafka_describe_cluster_request *q = r->req.body;
        struct ls_kafka_describe_cluster_response *answer = r->answer;
        struct ls_kafka_server *s = kafka_server_of(r);
        const struct ls_brokers *brokers = kafka_brokers(r);
        struct ls_kafka_describe_cluster_response_broker *items;

        answer->endpoint_type = q->endpoint_type;
        if (q->endpoint_type != ENDPOINT_BROKERS) {
                answer->error_code = q->endpoint_type == ENDPOINT_CONTROLLERS
                                             ? LS_KAFKA_ERR_MISMATCHED_ENDPOINT_TYPE
                                             : LS_KAFKA_ERR_UNSUPPORTED_ENDPOINT_TYPE;
                answer->error_message = kafka_words(r, answer->error_code, NULL);
                return;
        }
        items = ls_kafka_describe_cluster_response_broker_array(&r->arena, brokers->count);
        r->close_after |= items == NULL;
        for (size_t i = 0; items != NULL && i < brokers->count; i++) {
                struct kafka_node node = kafka_node_of(r, &brokers->items[i]);
                struct ls_kafka_describe_cluster_response_broker *out =
                        &items[answer->brokers.count];

                if (!kafka_broker_listed(r, &brokers->items[i]))
                        continue;
                out->broker_id = node.id;
                out->host = node.host;
                out->port = node.port;
                out->rack = node.rack;
                answer->brokers.count++;
        }
        answer->brokers.items = items;
        answer->cluster_id = ls_str_of(s->cluster_id);
        answer->controller_id = kafka_controller_of(r);
        if (q->include_cluster_authorized_operations)
                answer->cluster_authorized_operations = KAFKA_CLUSTER_OPERATIONS;
}

/* ---- FindCoordinator ---- */

enum { COORDINATOR_GROUP = 0, COORDINATOR_TRANSACTION = 1 };

static int16_t
coordinator_check(int8_t type, ls_str *ret_words)
{
        *ret_words = LS_STR_NULL;
        if (type == COORDINATOR_GROUP)
                return LS_KAFKA_ERR_NONE;
        *ret_words = type == COORDINATOR_TRANSACTION
                             ? LS_STR("this server has no transactions yet: use an idempotent "
                                      "producer without transactional.id")
                             : LS_STR("this server has no coordinator of this type");
        return LS_KAFKA_ERR_INVALID_REQUEST;
}

/* Where the group is coordinated, or why that can't be told. */
static int16_t
coordinator_find(struct kafka_request *r, ls_str key, int16_t error, struct kafka_node *ret)
{
        if (error == LS_KAFKA_ERR_NONE && !kafka_coordinator_of(r, key, ret))
                error = LS_KAFKA_ERR_COORDINATOR_NOT_AVAILABLE;
        if (error != LS_KAFKA_ERR_NONE)
                *ret = (struct kafka_node){ -1, LS_STR(""), -1, LS_STR_NULL };
        return error;
}

void
kafka_serve_find_coordinator(struct kafka_request *r)
{
        const struct ls_kafka_find_coordinator_request *q = r->req.body;
        struct ls_kafka_find_coordinator_response *answer = r->answer;
        struct ls_kafka_find_coordinator_response_coordinator *items;
        struct kafka_node node;
        ls_str words;
        int16_t error = coordinator_check(q->key_type, &words);

        if (r->req.version < 4) {
                answer->error_code = coordinator_find(r, q->key, error, &node);
                answer->error_message = words;
                answer->node_id = node.id;
                answer->host = node.host;
                answer->port = node.port;
                return;
        }
        items = ls_kafka_find_coordinator_response_coordinator_array(&r->arena,
                                                                     q->coordinator_keys.count);
        if (items == NULL) {
                r->close_after = true;
                return;
        }
        for (uint32_t i = 0; i < q->coordinator_keys.count; i++) {
                items[i].key = q->coordinator_keys.items[i];
                items[i].error_code = coordinator_find(r, items[i].key, error, &node);
                items[i].error_message = words;
                items[i].node_id = node.id;
                items[i].host = node.host;
                items[i].port = node.port;
        }
        answer->coordinators.items = items;
        answer->coordinators.count = q->coordinator_keys.count;
}

/* ---- client metrics (KIP-714): nobody subscribes to any ---- */

void
kafka_serve_get_telemetry_subscriptions(struct kafka_request *r)
{
        const struct ls_kafka_get_telemetry_subscriptions_request *q = r->req.body;
        struct ls_kafka_get_telemetry_subscriptions_response *answer = r->answer;
        uint8_t random[16];

        answer->client_instance_id = q->client_instance_id;
        if (ls_uuid_is_zero(q->client_instance_id)) {
                ls_random(random, sizeof random);
                answer->client_instance_id = ls_uuid_v4(random);
        }
        answer->push_interval_ms = KAFKA_TELEMETRY_INTERVAL_MS;
        answer->telemetry_max_bytes = KAFKA_TELEMETRY_BYTES_MAX;
        answer->delta_temporality = true;
}

void
kafka_serve_push_telemetry(struct kafka_request *r)
{
        const struct ls_kafka_push_telemetry_request *q = r->req.body;
        struct ls_kafka_push_telemetry_response *answer = r->answer;

        /* The only subscription there is has id 0 and asks for no metric. */
        if (q->metrics.len > KAFKA_TELEMETRY_BYTES_MAX)
                answer->error_code = LS_KAFKA_ERR_TELEMETRY_TOO_LARGE;
        else if (q->subscription_id != 0)
                answer->error_code = LS_KAFKA_ERR_UNKNOWN_SUBSCRIPTION_ID;
}
