/* servers/kafka/topics.c - CreateTopics, DeleteTopics, CreatePartitions, DescribeLogDirs.
 *
 * Each topic of a request stands for itself: one that is refused stops no other. There are no
 * replicas, so any replication factor from 1 up is accepted; what is reported is the server's
 * default.replication.factor, the same everywhere (B032).
 */
#include "servers/kafka/server_int.h"

/* ---- CreateTopics ---- */

typedef struct ls_kafka_create_topics_request_topic create_in;
typedef struct ls_kafka_create_topics_response_topic create_out;

static int16_t
create_check_assignment(const create_in *in, struct ls_errinfo *info)
{
        uint8_t seen[KAFKA_ASSIGNMENTS_MAX / 8 + 1] = { 0 };
        uint32_t count = in->assignments.count;

        if (in->num_partitions != -1 || in->replication_factor != -1) {
                ls_fail(info, LS_INVALID,
                        "With a manual assignment partitions and replication factor must be -1.");
                return LS_KAFKA_ERR_INVALID_REQUEST;
        }
        if (count > KAFKA_ASSIGNMENTS_MAX) {
                ls_fail(info, LS_INVALID, "At most %d partitions can be assigned by hand.",
                        KAFKA_ASSIGNMENTS_MAX);
                return LS_KAFKA_ERR_INVALID_REPLICA_ASSIGNMENT;
        }
        for (uint32_t i = 0; i < count; i++) {
                int32_t index = in->assignments.items[i].partition_index;
                bool known = index >= 0 && (uint32_t)index < count;

                if (!known || seen[index / 8] & 1 << index % 8 ||
                    in->assignments.items[i].broker_ids.count == 0) {
                        ls_fail(info, LS_INVALID,
                                "A manual assignment names each partition from 0 on once, and a "
                                "broker for it.");
                        return LS_KAFKA_ERR_INVALID_REPLICA_ASSIGNMENT;
                }
                seen[index / 8] |= (uint8_t)(1 << index % 8);
        }
        return LS_KAFKA_ERR_NONE;
}

static int16_t
create_check(const create_in *in, struct ls_errinfo *info)
{
        if (!kafka_topic_name_ok(in->name, info))
                return LS_KAFKA_ERR_INVALID_TOPIC;
        if (in->assignments.count > 0)
                return create_check_assignment(in, info);
        /* -1 asks for the default (KIP-464); of versions below 4 too, as Apache Kafka takes it. */
        if (in->num_partitions != -1 && in->num_partitions <= 0) {
                ls_fail(info, LS_INVALID,
                        "Number of partitions must be larger than 0, or -1 for the default.");
                return LS_KAFKA_ERR_INVALID_PARTITIONS;
        }
        if (in->replication_factor != -1 && in->replication_factor <= 0) {
                ls_fail(info, LS_INVALID,
                        "Replication factor must be larger than 0, or -1 for the default.");
                return LS_KAFKA_ERR_INVALID_REPLICATION_FACTOR;
        }
        return LS_KAFKA_ERR_NONE;
}

/* Which of the two was wrong: the partition count, or a setting? */
static int16_t
create_invalid(struct kafka_request *r, const create_in *in, const struct ls_stream_config *configs)
{
        ls_err e = ls_stream_create(kafka_server_of(r)->streams, in->name, 1, configs,
                                    in->configs.count, true, NULL, NULL);

        return e == LS_INVALID || e == LS_ABSENT ? LS_KAFKA_ERR_INVALID_CONFIG
                                                 : LS_KAFKA_ERR_INVALID_PARTITIONS;
}

/* A stream that is there, or (validate_only) the settings it would have. */
static void
create_describe(struct kafka_request *r, const struct ls_settings *settings, create_out *out)
{
        struct ls_kafka_create_topics_response_config *items =
                ls_kafka_create_topics_response_config_array(&r->arena, LS_SET_COUNT);

        for (size_t i = 0; items != NULL && i < LS_SET_COUNT; i++) {
                items[i].name = ls_str_of(ls_setting_defs[i].name);
                items[i].value = kafka_setting_value(r, settings, (enum ls_setting_id)i);
                items[i].config_source =
                        (int8_t)kafka_setting_source(r, settings, (enum ls_setting_id)i);
        }
        out->configs.items = items;
        out->configs.count = items != NULL ? LS_SET_COUNT : 0;
}

static void
create_describe_planned(struct kafka_request *r, const create_in *in, int32_t partitions,
                        create_out *out)
{
        const struct ls_options *options = kafka_server_of(r)->options;
        struct ls_settings settings;

        out->num_partitions = partitions != -1
                                      ? partitions
                                      : (int32_t)ls_option_int(options, LS_OPT_NUM_PARTITIONS);
        ls_settings_init(&settings, options);
        for (uint32_t i = 0; i < in->configs.count; i++)
                if (in->configs.items[i].value.ptr != NULL &&
                    ls_settings_set(&settings, in->configs.items[i].name,
                                    in->configs.items[i].value, NULL) != LS_OK)
                        break; /* it was checked: does not happen */
        create_describe(r, &settings, out);
        ls_settings_done(&settings);
}

/* What is asked for, as a plan of the stream layer; false: too much for the request's arena. */
static bool
create_plan(struct kafka_request *r, const create_in *in, struct ls_stream_plan *plan)
{
        struct ls_stream_config *configs =
                ls_arena_array(&r->arena, in->configs.count + 1, sizeof *configs);

        if (configs == NULL)
                return false;
        for (uint32_t i = 0; i < in->configs.count; i++)
                configs[i] = (struct ls_stream_config){ in->configs.items[i].name,
                                                        in->configs.items[i].value };
        *plan = (struct ls_stream_plan){
                .kafka_name = in->name,
                .partitions = in->assignments.count > 0 ? (int32_t)in->assignments.count
                                                        : in->num_partitions,
                .configs = configs,
                .config_count = in->configs.count,
        };
        return true;
}

/* Makes the planned streams, or with validate_only says what would become of them. */
static void
create_run(struct kafka_request *r, struct ls_stream_plan *plans, size_t count)
{
        const struct ls_kafka_create_topics_request *q = r->req.body;
        struct ls_streams *streams = kafka_server_of(r)->streams;

        if (!q->validate_only) {
                ls_streams_create(streams, plans, count);
                return;
        }
        for (size_t i = 0; i < count; i++) {
                struct ls_stream_plan *p = &plans[i];

                p->result = ls_stream_create(streams, p->kafka_name, p->partitions, p->configs,
                                             p->config_count, true, &p->stream, &p->info);
        }
}

/* The answer for one plan that was run; releases its stream. */
static int16_t
create_outcome(struct kafka_request *r, const create_in *in, struct ls_stream_plan *plan,
               create_out *out)
{
        ls_err e = plan->result;

        if (e == LS_INVALID)
                return create_invalid(r, in, plan->configs);
        if (e == LS_ABSENT) /* a setting that does not exist */
                return LS_KAFKA_ERR_INVALID_CONFIG;
        if (e == LS_OK && plan->stream != NULL) {
                out->topic_id = ls_stream_info(plan->stream)->topic_id;
                out->num_partitions = ls_stream_info(plan->stream)->partitions;
                create_describe(r, &ls_stream_info(plan->stream)->settings, out);
        } else if (e == LS_OK) {
                create_describe_planned(r, in, plan->partitions, out);
        }
        if (e == LS_OK)
                out->replication_factor = (int16_t)ls_option_int(kafka_server_of(r)->options,
                                                                 LS_OPT_DEFAULT_REPLICATION);
        ls_stream_unref(plan->stream);
        return kafka_error_of(e);
}

/* True when the name stands in the request more than once. */
static bool
create_twice(const struct ls_kafka_create_topics_request *q, struct ls_map *seen, uint32_t at)
{
        return ls_map_get(seen, ls_map_key_str(q->topics.items[at].name)) != &q->topics.items[at];
}

/* Topics made or deleted together: bounds what a request of millions holds besides its answer. */
#define TOPICS_SLICE 1000

struct create_slice {
        struct ls_map first, last; /* by name: where it stands first and last in the request */
        struct ls_stream_plan plans[TOPICS_SLICE];
        uint32_t at[TOPICS_SLICE]; /* of the plans' topics in the request */
        size_t count;
};

static void
create_names(struct create_slice *slice, const struct ls_kafka_create_topics_request *q)
{
        ls_map_init(&slice->first);
        ls_map_init(&slice->last);
        for (uint32_t i = 0; i < q->topics.count; i++) {
                ls_span key = ls_map_key_str(q->topics.items[i].name);

                ls_map_set(&slice->last, key, &q->topics.items[i]);
                if (ls_map_get(&slice->first, key) == NULL)
                        ls_map_set(&slice->first, key, &q->topics.items[i]);
        }
}

/* A topic that can be planned gets a plan, another its error. */
static void
create_plan_one(struct kafka_request *r, struct create_slice *slice, uint32_t i, create_out *out)
{
        const struct ls_kafka_create_topics_request *q = r->req.body;
        struct ls_errinfo info = { 0 };

        out->name = q->topics.items[i].name;
        if (create_twice(q, &slice->first, i) || create_twice(q, &slice->last, i)) {
                out->error_code = LS_KAFKA_ERR_INVALID_REQUEST;
                ls_fail(&info, LS_INVALID, "Duplicate topic name.");
        } else {
                out->error_code = create_check(&q->topics.items[i], &info);
        }
        if (out->error_code == LS_KAFKA_ERR_NONE) {
                if (create_plan(r, &q->topics.items[i], &slice->plans[slice->count]))
                        slice->at[slice->count++] = i;
                else
                        out->error_code = LS_KAFKA_ERR_INVALID_REQUEST;
        }
        out->error_message = kafka_words(r, out->error_code, &info);
}

void
kafka_serve_create_topics(struct kafka_request *r)
{
        const struct ls_kafka_create_topics_request *q = r->req.body;
        struct ls_kafka_create_topics_response *answer = r->answer;
        create_out *out = ls_kafka_create_topics_response_topic_array(&r->arena, q->topics.count);
        struct create_slice *slice = ls_calloc(1, sizeof *slice);

        create_names(slice, q);
        for (uint32_t i = 0; out != NULL && i < q->topics.count;) {
                slice->count = 0;
                for (; i < q->topics.count && slice->count < TOPICS_SLICE; i++)
                        create_plan_one(r, slice, i, &out[i]);
                create_run(r, slice->plans, slice->count);
                for (size_t k = 0; k < slice->count; k++) {
                        uint32_t at = slice->at[k];

                        out[at].error_code =
                                create_outcome(r, &q->topics.items[at], &slice->plans[k], &out[at]);
                        out[at].error_message =
                                kafka_words(r, out[at].error_code, &slice->plans[k].info);
                }
        }
        ls_map_done(&slice->first);
        ls_map_done(&slice->last);
        ls_free(slice);
        answer->topics.items = out;
        answer->topics.count = q->topics.count;
        r->close_after |= out == NULL;
}

/* ---- DeleteTopics ---- */

typedef struct ls_kafka_delete_topics_response_topic delete_out;

/* Topics that are deleted together. */
struct delete_slice {
        struct ls_stream *streams[TOPICS_SLICE]; /* references */
        ls_err results[TOPICS_SLICE];
        uint32_t at[TOPICS_SLICE];
        size_t count;
};

/* A topic that is there goes into the slice, another gets its error. */
static void
delete_find(struct kafka_request *r, struct delete_slice *slice, uint32_t i, ls_str name,
            ls_uuid id, delete_out *out)
{
        bool by_id = name.ptr == NULL;
        struct ls_stream *stream = NULL;

        out->name = name;
        out->topic_id = id;
        if (!by_id && !ls_uuid_is_zero(id)) {
                out->error_code = LS_KAFKA_ERR_INVALID_REQUEST;
                out->error_message = LS_STR("a topic is named by name or by id, not by both");
                return;
        }
        stream = kafka_find_stream(r, by_id, name, id);
        if (stream == NULL) {
                out->error_code = kafka_unknown(r, by_id);
                out->error_message = kafka_words(r, out->error_code, NULL);
                return;
        }
        out->name = ls_arena_str(&r->arena, ls_str_of(ls_stream_info(stream)->kafka_name));
        out->topic_id = ls_stream_info(stream)->topic_id;
        slice->at[slice->count] = i;
        slice->streams[slice->count++] = stream;
}

static void
delete_run(struct kafka_request *r, struct delete_slice *slice, delete_out *out)
{
        ls_streams_delete(kafka_server_of(r)->streams, slice->streams, slice->count,
                          slice->results);
        for (size_t i = 0; i < slice->count; i++) {
                delete_out *o = &out[slice->at[i]];

                o->error_code = kafka_error_of(slice->results[i]);
                o->error_message = kafka_words(r, o->error_code, NULL);
                ls_stream_unref(slice->streams[i]);
        }
        slice->count = 0;
}

void
kafka_serve_delete_topics(struct kafka_request *r)
{
        const struct ls_kafka_delete_topics_request *q = r->req.body;
        struct ls_kafka_delete_topics_response *answer = r->answer;
        bool named = r->req.version < 6;
        uint32_t count = named ? q->topic_names.count : q->topics.count;
        delete_out *out = ls_kafka_delete_topics_response_topic_array(&r->arena, count);
        struct delete_slice *slice = ls_calloc(1, sizeof *slice);

        for (uint32_t i = 0; out != NULL && i < count; i++) {
                if (named)
                        delete_find(r, slice, i, q->topic_names.items[i], (ls_uuid){ { 0 } },
                                    &out[i]);
                else
                        delete_find(r, slice, i, q->topics.items[i].name,
                                    q->topics.items[i].topic_id, &out[i]);
                if (slice->count == TOPICS_SLICE)
                        delete_run(r, slice, out);
        }
        if (out != NULL)
                delete_run(r, slice, out);
        ls_free(slice);
        answer->responses.items = out;
        answer->responses.count = count;
        r->close_after |= out == NULL;
}

/* ---- CreatePartitions ---- */

static int16_t
grow_one(struct kafka_request *r, const struct ls_kafka_create_partitions_request_topic *in,
         bool again, struct ls_errinfo *info)
{
        const struct ls_kafka_create_partitions_request *q = r->req.body;
        struct ls_stream *stream;
        int64_t added;
        ls_err e;

        if (again) {
                ls_fail(info, LS_INVALID, "Duplicate topic in request.");
                return LS_KAFKA_ERR_INVALID_REQUEST;
        }
        stream = kafka_find_topic(r, in->name);
        if (stream == NULL)
                return kafka_unknown(r, false);
        added = (int64_t)in->count - ls_stream_info(stream)->partitions;
        if (added > 0 && in->assignments.items != NULL && in->assignments.count != added) {
                ls_stream_unref(stream);
                ls_fail(info, LS_INVALID,
                        "Increasing the number of partitions by %lld but %u assignments provided.",
                        (long long)added, in->assignments.count);
                return LS_KAFKA_ERR_INVALID_REPLICA_ASSIGNMENT;
        }
        e = ls_stream_grow(kafka_server_of(r)->streams, stream, in->count, q->validate_only, info);
        ls_stream_unref(stream);
        return e == LS_INVALID ? LS_KAFKA_ERR_INVALID_PARTITIONS : kafka_error_of(e);
}

void
kafka_serve_create_partitions(struct kafka_request *r)
{
        const struct ls_kafka_create_partitions_request *q = r->req.body;
        struct ls_kafka_create_partitions_response *answer = r->answer;
        struct ls_kafka_create_partitions_response_topic *out =
                ls_kafka_create_partitions_response_topic_array(&r->arena, q->topics.count);
        struct kafka_seen seen;

        kafka_seen_init(&seen);
        for (uint32_t i = 0; out != NULL && i < q->topics.count; i++) {
                bool again = !kafka_seen_add(&seen, ls_map_key_str(q->topics.items[i].name));
                struct ls_errinfo info = { 0 };

                out[i].name = q->topics.items[i].name;
                out[i].error_code = grow_one(r, &q->topics.items[i], again, &info);
                out[i].error_message = kafka_words(r, out[i].error_code, &info);
        }
        kafka_seen_done(&seen);
        answer->results.items = out;
        answer->results.count = q->topics.count;
        r->close_after |= out == NULL;
}

/* ---- DescribeLogDirs: one folder, and how much of each log is in it ----
 * Of many brokers it is the store that they share: each tells all of it. */

typedef struct ls_kafka_describe_log_dirs_response_topic dirs_topic;
typedef struct ls_kafka_describe_log_dirs_response_partition dirs_partition;

static bool
dirs_fill(struct kafka_request *r, struct ls_stream *stream, const int32_t *wanted, uint32_t count,
          dirs_topic *out)
{
        const struct ls_stream_info *info = ls_stream_info(stream);
        uint32_t max = wanted != NULL ? count : (uint32_t)info->partitions;
        dirs_partition *parts = ls_kafka_describe_log_dirs_response_partition_array(&r->arena, max);

        out->name = ls_arena_str(&r->arena, ls_str_of(info->kafka_name));
        out->partitions.items = parts;
        for (uint32_t i = 0; parts != NULL && i < max; i++) {
                int32_t index = wanted != NULL ? wanted[i] : (int32_t)i;
                dirs_partition *part = &parts[out->partitions.count];

                if (index < 0 || index >= info->partitions ||
                    ls_stream_log_bytes(stream, index, &part->partition_size) != LS_OK)
                        continue;
                part->partition_index = index;
                out->partitions.count++;
        }
        return parts != NULL;
}

static bool
dirs_all(struct kafka_request *r, struct ls_kafka_describe_log_dirs_response_dir *dir)
{
        struct ls_stream **streams = NULL;
        size_t count = 0;
        bool ok;

        ls_stream_list(kafka_server_of(r)->streams, &streams, &count);
        dir->topics.items = ls_kafka_describe_log_dirs_response_topic_array(&r->arena, count);
        ok = dir->topics.items != NULL;
        for (size_t i = 0; ok && i < count; i++)
                ok = dirs_fill(r, streams[i], NULL, 0, &dir->topics.items[dir->topics.count++]);
        ls_stream_list_free(streams, count);
        return ok;
}

static bool
dirs_named(struct kafka_request *r, struct ls_kafka_describe_log_dirs_response_dir *dir)
{
        const struct ls_kafka_describe_log_dirs_request *q = r->req.body;
        bool ok;

        dir->topics.items =
                ls_kafka_describe_log_dirs_response_topic_array(&r->arena, q->topics.count);
        ok = dir->topics.items != NULL;
        for (uint32_t i = 0; ok && i < q->topics.count; i++) {
                const struct ls_kafka_describe_log_dirs_request_topic *in = &q->topics.items[i];
                struct ls_stream *stream = kafka_find_topic(r, in->topic);

                if (stream == NULL)
                        continue;
                ok = dirs_fill(r, stream, in->partitions.items, in->partitions.count,
                               &dir->topics.items[dir->topics.count++]);
                ls_stream_unref(stream);
        }
        return ok;
}

void
kafka_serve_describe_log_dirs(struct kafka_request *r)
{
        const struct ls_kafka_describe_log_dirs_request *q = r->req.body;
        struct ls_kafka_describe_log_dirs_response *answer = r->answer;
        struct ls_kafka_describe_log_dirs_response_dir *dir =
                ls_kafka_describe_log_dirs_response_dir_array(&r->arena, 1);

        if (dir == NULL || !(q->topics.items == NULL ? dirs_all(r, dir) : dirs_named(r, dir))) {
                r->close_after = true;
                return;
        }
        dir->log_dir = ls_str_of(
                ls_option_text(kafka_server_of(r)->options,
                               kafka_server_of(r)->shared ? LS_OPT_STORE_URL : LS_OPT_DATA_DIR));
        answer->results.items = dir;
        answer->results.count = 1;
}
