/* servers/kafka/metadata.c - Metadata and DescribeTopicPartitions: which topics there are and
 * where.
 *
 * Every partition is led by the broker that brokers.c chooses for the client (embedded: this one),
 * under the epoch of its stream (B026). A topic that exists is never told with fewer partitions or
 * as unknown (B027): both come from one view of the stream. Of many brokers, all topics are told
 * and unknown ones are refused after a look at what the others did.
 */
#include <stdlib.h>

#include "servers/kafka/server_int.h"

typedef struct ls_kafka_metadata_response_topic metadata_topic;

/* ---- Metadata ---- */

/* True when every topic is asked for: null, or an empty list in version 0. */
static bool
metadata_wants_all(const struct kafka_request *r)
{
        const struct ls_kafka_metadata_request *q = r->req.body;

        return r->req.version == 0 ? q->topics.count == 0 : q->topics.items == NULL;
}

static bool
metadata_by_id(const struct ls_kafka_metadata_request_topic *t)
{
        return t->name.ptr == NULL && !ls_uuid_is_zero(t->topic_id);
}

static bool
metadata_may_create(const struct kafka_request *r)
{
        const struct ls_kafka_metadata_request *q = r->req.body;

        return q->allow_auto_topic_creation &&
               ls_option_bool(kafka_server_of(r)->options, LS_OPT_AUTO_CREATE);
}

/* A topic that is not there and may be made needs a job; everything else is in memory. */
enum kafka_mode
kafka_serve_metadata_pick(struct kafka_request *r)
{
        const struct ls_kafka_metadata_request *q = r->req.body;

        if (metadata_wants_all(r))
                (void)kafka_doubt(r); /* others may have made some */
        if (metadata_wants_all(r) || !metadata_may_create(r))
                return KAFKA_ON_LOOP;
        for (uint32_t i = 0; i < q->topics.count; i++) {
                const struct ls_kafka_metadata_request_topic *t = &q->topics.items[i];
                struct ls_stream *stream =
                        kafka_find_stream(r, metadata_by_id(t), t->name, t->topic_id);

                if (stream == NULL)
                        return KAFKA_ON_JOB;
                ls_stream_unref(stream);
        }
        return KAFKA_ON_LOOP;
}

static bool
metadata_partitions(struct kafka_request *r, const struct ls_stream_info *info, metadata_topic *out)
{
        struct ls_kafka_metadata_response_partition *items =
                ls_kafka_metadata_response_partition_array(&r->arena, (size_t)info->partitions);

        if (items == NULL)
                return false;
        for (int32_t i = 0; i < info->partitions; i++) {
                int32_t *leader = kafka_leader_of(r, info->topic_id, i);

                items[i].partition_index = i;
                items[i].leader_id = *leader;
                items[i].leader_epoch = info->leader_epoch;
                items[i].replica_nodes.items = items[i].isr_nodes.items = leader;
                items[i].replica_nodes.count = items[i].isr_nodes.count = 1;
        }
        out->partitions.items = items;
        out->partitions.count = (uint32_t)info->partitions;
        return true;
}

static bool
metadata_fill(struct kafka_request *r, struct ls_stream *stream, metadata_topic *out)
{
        const struct ls_kafka_metadata_request *q = r->req.body;
        const struct ls_stream_info *info = ls_stream_info(stream);

        out->name = ls_arena_str(&r->arena, ls_str_of(info->kafka_name));
        out->topic_id = info->topic_id;
        if (q->include_topic_authorized_operations)
                out->topic_authorized_operations = KAFKA_TOPIC_OPERATIONS;
        return metadata_partitions(r, info, out);
}

/* Makes a topic that was asked for, with the defaults. Another may make it at the same time. */
static int16_t
metadata_create(struct kafka_request *r, ls_str name, struct ls_stream **ret_stream)
{
        struct ls_streams *streams = kafka_server_of(r)->streams;
        struct ls_errinfo info = { 0 };
        ls_err e;

        e = ls_stream_create(streams, name, -1, NULL, 0, false, ret_stream, &info);
        if (e == LS_EXISTS) {
                if (*ret_stream == NULL && kafka_server_of(r)->shared)
                        (void)kafka_look_now(kafka_server_of(r)); /* another broker's */
                if (*ret_stream == NULL)
                        *ret_stream = ls_stream_find(streams, name);
                return *ret_stream != NULL ? LS_KAFKA_ERR_NONE
                                           : LS_KAFKA_ERR_UNKNOWN_TOPIC_OR_PARTITION;
        }
        if (e == LS_OK)
                return LS_KAFKA_ERR_NONE;
        ls_log_warn("kafka", "topic could not be made topic=%.*s error=%s words=%s",
                    LS_STR_ARG(name), ls_err_name(e), info.text);
        return e == LS_INVALID ? LS_KAFKA_ERR_INVALID_TOPIC : kafka_error_of(e);
}

static bool
metadata_one(struct kafka_request *r, const struct ls_kafka_metadata_request_topic *t,
             metadata_topic *out)
{
        bool by_id = metadata_by_id(t), ok;
        struct ls_stream *stream = kafka_find_stream(r, by_id, t->name, t->topic_id);

        out->name = by_id ? LS_STR_NULL : t->name;
        out->topic_id = t->topic_id;
        if (stream == NULL && by_id) {
                out->error_code = kafka_unknown(r, true);
                return true;
        }
        if (stream == NULL && !kafka_topic_name_ok(t->name, NULL)) {
                out->error_code = LS_KAFKA_ERR_INVALID_TOPIC;
                return true;
        }
        if (stream == NULL) {
                out->error_code = metadata_may_create(r) ? metadata_create(r, t->name, &stream)
                                                         : kafka_unknown(r, false);
                if (out->error_code != LS_KAFKA_ERR_NONE)
                        return true;
        }
        ok = metadata_fill(r, stream, out);
        ls_stream_unref(stream);
        return ok;
}

static bool
metadata_all(struct kafka_request *r, struct ls_kafka_metadata_response *answer)
{
        struct ls_stream **streams = NULL;
        size_t count = 0;
        metadata_topic *items;
        bool ok;

        ls_stream_list(kafka_server_of(r)->streams, &streams, &count);
        items = ls_kafka_metadata_response_topic_array(&r->arena, count);
        ok = items != NULL;
        for (size_t i = 0; ok && i < count; i++)
                ok = metadata_fill(r, streams[i], &items[i]);
        ls_stream_list_free(streams, count);
        answer->topics.items = items;
        answer->topics.count = (uint32_t)count;
        return ok;
}

static bool
metadata_named(struct kafka_request *r, struct ls_kafka_metadata_response *answer)
{
        const struct ls_kafka_metadata_request *q = r->req.body;
        metadata_topic *items = ls_kafka_metadata_response_topic_array(&r->arena, q->topics.count);

        for (uint32_t i = 0; items != NULL && i < q->topics.count && !r->doubted; i++)
                if (!metadata_one(r, &q->topics.items[i], &items[i]))
                        return false;
        answer->topics.items = items;
        answer->topics.count = q->topics.count;
        return items != NULL;
}

static bool
metadata_brokers(struct kafka_request *r, struct ls_kafka_metadata_response *answer)
{
        const struct ls_brokers *brokers = kafka_brokers(r);
        struct ls_kafka_metadata_response_broker *items =
                ls_kafka_metadata_response_broker_array(&r->arena, brokers->count);
        uint32_t count = 0;

        for (size_t i = 0; items != NULL && i < brokers->count; i++) {
                struct kafka_node node = kafka_node_of(r, &brokers->items[i]);

                if (!kafka_broker_listed(r, &brokers->items[i]))
                        continue;
                items[count].node_id = node.id;
                items[count].host = node.host;
                items[count].port = node.port;
                items[count++].rack = node.rack;
        }
        answer->brokers.items = items;
        answer->brokers.count = count;
        return items != NULL;
}

void
kafka_serve_metadata(struct kafka_request *r)
{
        const struct ls_kafka_metadata_request *q = r->req.body;
        struct ls_kafka_metadata_response *answer = r->answer;
        bool ok = metadata_brokers(r, answer);

        if (ok)
                ok = metadata_wants_all(r) ? metadata_all(r, answer) : metadata_named(r, answer);
        answer->cluster_id = ls_str_of(kafka_server_of(r)->cluster_id);
        answer->controller_id = kafka_controller_of(r);
        if (q->include_cluster_authorized_operations)
                answer->cluster_authorized_operations = KAFKA_CLUSTER_OPERATIONS;
        r->close_after |= !ok; /* above the memory of one answer */
}

/* ---- DescribeTopicPartitions (KIP-966) ---- */

typedef struct ls_kafka_describe_topic_partitions_response_topic describe_topic;
typedef struct ls_kafka_describe_topic_partitions_response_next_cursor describe_cursor;

struct describe {
        struct kafka_request *r;
        describe_topic *topics;
        uint32_t topic_count;
        int32_t left; /* partitions that this answer may still hold */
        describe_cursor *cursor;
        bool failed;
};

static int
compare_names(const void *a, const void *b)
{
        ls_str x = *(const ls_str *)a, y = *(const ls_str *)b;

        return ls_span_cmp(ls_map_key_str(x), ls_map_key_str(y));
}

static void
describe_stop_at(struct describe *d, ls_str name, int32_t partition)
{
        d->cursor = ls_kafka_describe_topic_partitions_response_next_cursor_array(&d->r->arena, 1);
        d->failed |= d->cursor == NULL;
        if (d->cursor != NULL) {
                d->cursor->topic_name = name;
                d->cursor->partition_index = partition;
        }
}

static void
describe_partitions(struct describe *d, const struct ls_stream_info *info, int32_t from,
                    describe_topic *out)
{
        int32_t count = LS_MIN(LS_MAX(info->partitions - from, 0), d->left);
        struct ls_kafka_describe_topic_partitions_response_partition *items =
                ls_kafka_describe_topic_partitions_response_partition_array(&d->r->arena,
                                                                            (size_t)count);

        d->failed |= items == NULL;
        for (int32_t i = 0; items != NULL && i < count; i++) {
                int32_t *leader = kafka_leader_of(d->r, info->topic_id, from + i);

                items[i].partition_index = from + i;
                items[i].leader_id = *leader;
                items[i].leader_epoch = info->leader_epoch;
                items[i].replica_nodes.items = items[i].isr_nodes.items = leader;
                items[i].replica_nodes.count = items[i].isr_nodes.count = 1;
                /* Empty, not null: Java's admin client does not look. */
                items[i].eligible_leader_replicas.items = items[i].isr_nodes.items;
                items[i].last_known_elr.items = items[i].isr_nodes.items;
        }
        out->partitions.items = items;
        out->partitions.count = (uint32_t)count;
        d->left -= count;
        if (from + count < info->partitions)
                describe_stop_at(d, out->name, from + count);
}

/* One topic, from a partition on. */
static void
describe_one(struct describe *d, ls_str name, int32_t from)
{
        describe_topic *out = &d->topics[d->topic_count];
        struct ls_stream *stream = kafka_find_topic(d->r, name);

        out->name = name;
        d->topic_count++;
        if (stream == NULL) {
                out->error_code = kafka_topic_name_ok(name, NULL) ? kafka_unknown(d->r, false)
                                                                  : LS_KAFKA_ERR_INVALID_TOPIC;
                return;
        }
        out->topic_id = ls_stream_info(stream)->topic_id;
        out->topic_authorized_operations = KAFKA_TOPIC_OPERATIONS;
        describe_partitions(d, ls_stream_info(stream), from, out);
        ls_stream_unref(stream);
}

/* The names asked for, or all, in order and each once. */
static ls_str *
describe_names(struct kafka_request *r, size_t *ret_count)
{
        const struct ls_kafka_describe_topic_partitions_request *q = r->req.body;
        size_t count = q->topics.count, kept = 0;
        struct ls_stream **streams = NULL;
        ls_str *names;

        if (count == 0)
                (void)kafka_doubt(r); /* others may have made some */
        if (count == 0)
                ls_stream_list(kafka_server_of(r)->streams, &streams, &count);
        names = ls_arena_array(&r->arena, count + 1, sizeof *names);
        for (size_t i = 0; names != NULL && i < count; i++)
                names[i] = streams != NULL
                                   ? ls_arena_str(&r->arena,
                                                  ls_str_of(ls_stream_info(streams[i])->kafka_name))
                                   : q->topics.items[i].name;
        if (streams != NULL)
                ls_stream_list_free(streams, count);
        if (names == NULL)
                return NULL;
        if (count > 0)
                qsort(names, count, sizeof *names, compare_names);
        for (size_t i = 0; i < count; i++)
                if (i == 0 || !ls_str_eq(names[i], names[kept - 1]))
                        names[kept++] = names[i];
        *ret_count = kept;
        return names;
}

void
kafka_serve_describe_topic_partitions(struct kafka_request *r)
{
        const struct ls_kafka_describe_topic_partitions_request *q = r->req.body;
        struct ls_kafka_describe_topic_partitions_response *answer = r->answer;
        struct describe d = { .r = r, .left = KAFKA_DESCRIBE_PARTITIONS_MAX };
        size_t count = 0;
        ls_str *names = describe_names(r, &count);

        if (q->response_partition_limit > 0)
                d.left = LS_MIN(d.left, q->response_partition_limit);
        d.topics = ls_kafka_describe_topic_partitions_response_topic_array(&r->arena, count);
        d.failed = names == NULL || d.topics == NULL;
        for (size_t i = 0; !d.failed && i < count && d.cursor == NULL; i++) {
                int32_t from = 0;

                if (q->cursor != NULL) {
                        int c = compare_names(&names[i], &q->cursor->topic_name);

                        if (c < 0)
                                continue;
                        if (c == 0)
                                from = LS_MAX(q->cursor->partition_index, 0);
                }
                if (d.left == 0)
                        describe_stop_at(&d, names[i], from);
                else
                        describe_one(&d, names[i], from);
        }
        answer->topics.items = d.topics;
        answer->topics.count = d.topic_count;
        answer->next_cursor = d.cursor;
        r->close_after |= d.failed;
}
