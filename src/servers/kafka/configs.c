/* servers/kafka/configs.c - DescribeConfigs, AlterConfigs, IncrementalAlterConfigs,
 * ListConfigResources.
 *
 * Topics: every setting of catalog/settings.def, each with its source and synonyms (B031): its own
 * value, then the server option behind it, then the default. Brokers: every option of
 * base/options.def, read-only, since options change by restart.
 */
#include "servers/kafka/server_int.h"

enum {
        RESOURCE_TOPIC = 2,
        RESOURCE_BROKER = 4,
        RESOURCE_CLIENT_METRICS = 16,
};
enum {
        TYPE_BOOLEAN = 1,
        TYPE_STRING = 2,
        TYPE_INT = 3,
        TYPE_LONG = 5,
        TYPE_DOUBLE = 6,
        TYPE_LIST = 7,
        TYPE_PASSWORD = 9,
};

typedef struct ls_kafka_describe_configs_request_resource describe_in;
typedef struct ls_kafka_describe_configs_response_resource describe_out;
typedef struct ls_kafka_describe_configs_response_config config_out;
typedef struct ls_kafka_describe_configs_response_synonym synonym_out;

/* ---- values ---- */

static ls_str
arena_text(struct kafka_request *r, struct ls_buf *text)
{
        ls_str s = ls_buf_failed(text)
                           ? LS_STR_NULL
                           : ls_arena_str(&r->arena, ls_str_make(text->len ? (char *)text->ptr : "",
                                                                 text->len));

        ls_buf_done(text);
        return s;
}

ls_str
kafka_setting_value(struct kafka_request *r, const struct ls_settings *settings,
                    enum ls_setting_id id)
{
        struct ls_buf text;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        ls_setting_print(settings, id, &text);
        return arena_text(r, &text);
}

static bool
option_is_set(struct kafka_request *r, int option)
{
        return option >= 0 && kafka_server_of(r)->options->sources[option] != LS_OPTION_DEFAULT;
}

enum kafka_config_source
kafka_setting_source(struct kafka_request *r, const struct ls_settings *settings,
                     enum ls_setting_id id)
{
        if (settings->is_set[id])
                return KAFKA_CONFIG_OF_TOPIC;
        return option_is_set(r, ls_setting_defs[id].option) ? KAFKA_CONFIG_OF_BROKER
                                                            : KAFKA_CONFIG_DEFAULT;
}

static int8_t
setting_type(enum ls_setting_kind kind)
{
        switch (kind) {
        case LS_SETTING_BOOL: return TYPE_BOOLEAN;
        case LS_SETTING_INT: return TYPE_INT;
        case LS_SETTING_LONG: return TYPE_LONG;
        case LS_SETTING_DOUBLE_MILLI: return TYPE_DOUBLE;
        case LS_SETTING_TEXT: return TYPE_STRING;
        case LS_SETTING_LIST: return TYPE_LIST;
        }
        return TYPE_STRING;
}

static ls_str
option_value(struct kafka_request *r, const struct ls_options *options, enum ls_option_id id)
{
        struct ls_buf text;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        ls_option_print(options, id, &text);
        return arena_text(r, &text);
}

/* What the option is when nobody sets it. */
static ls_str
option_default(struct kafka_request *r, enum ls_option_id id)
{
        struct ls_options defaults;
        ls_str value;

        ls_options_init(&defaults);
        value = option_value(r, &defaults, id);
        ls_options_done(&defaults);
        return value;
}

/* Under which name Kafka's brokers have the default of a topic setting, where no option of ours
 * stands behind it. What is ours alone keeps its name. */
static const struct {
        enum ls_setting_id id;
        const char *name;
} broker_names[] = {
        { LS_SET_CLEANUP_POLICY, "log.cleanup.policy" },
        { LS_SET_DELETE_RETENTION_MS, "log.cleaner.delete.retention.ms" },
        { LS_SET_FILE_DELETE_DELAY_MS, "log.segment.delete.delay.ms" },
        { LS_SET_FLUSH_MESSAGES, "log.flush.interval.messages" },
        { LS_SET_FLUSH_MS, "log.flush.interval.ms" },
        { LS_SET_INDEX_INTERVAL_BYTES, "log.index.interval.bytes" },
        { LS_SET_MAX_COMPACTION_LAG_MS, "log.cleaner.max.compaction.lag.ms" },
        { LS_SET_MIN_CLEANABLE_RATIO, "log.cleaner.min.cleanable.ratio" },
        { LS_SET_MIN_COMPACTION_LAG_MS, "log.cleaner.min.compaction.lag.ms" },
        { LS_SET_PREALLOCATE, "log.preallocate" },
        { LS_SET_SEGMENT_BYTES, "log.segment.bytes" },
        { LS_SET_SEGMENT_INDEX_BYTES, "log.index.size.max.bytes" },
        { LS_SET_SEGMENT_JITTER_MS, "log.roll.jitter.ms" },
        { LS_SET_SEGMENT_MS, "log.roll.ms" },
};

static ls_str
broker_name(enum ls_setting_id id)
{
        int option = ls_setting_defs[id].option;

        if (option >= 0)
                return ls_str_of(ls_option_defs[option].name);
        for (size_t i = 0; i < LS_COUNT(broker_names); i++)
                if (broker_names[i].id == id)
                        return ls_str_of(broker_names[i].name);
        return ls_str_of(ls_setting_defs[id].name);
}

/* ---- DescribeConfigs ---- */

static void
add_synonym(config_out *out, ls_str name, ls_str value, enum kafka_config_source source)
{
        synonym_out *synonym = &out->synonyms.items[out->synonyms.count++];

        synonym->name = name;
        synonym->value = value;
        synonym->source = (int8_t)source;
}

static bool
describe_setting(struct kafka_request *r, const struct ls_settings *settings, enum ls_setting_id id,
                 config_out *out)
{
        enum { SYNONYMS_MAX = 3 };
        const struct ls_kafka_describe_configs_request *q = r->req.body;
        const struct ls_setting_def *def = &ls_setting_defs[id];
        const struct ls_options *options = kafka_server_of(r)->options;
        ls_str option_name = broker_name(id);

        out->name = ls_str_of(def->name);
        out->value = kafka_setting_value(r, settings, id);
        out->config_source = (int8_t)kafka_setting_source(r, settings, id);
        out->config_type = setting_type(def->kind);
        if (q->include_documentation)
                out->documentation = ls_str_of(def->doc);
        if (!q->include_synonyms)
                return true;
        out->synonyms.items =
                ls_kafka_describe_configs_response_synonym_array(&r->arena, SYNONYMS_MAX);
        if (out->synonyms.items == NULL)
                return false;
        if (settings->is_set[id])
                add_synonym(out, out->name, out->value, KAFKA_CONFIG_OF_TOPIC);
        if (option_is_set(r, def->option))
                add_synonym(out, option_name,
                            option_value(r, options, (enum ls_option_id)def->option),
                            KAFKA_CONFIG_OF_BROKER);
        add_synonym(out, option_name,
                    def->option >= 0 ? option_default(r, (enum ls_option_id)def->option)
                                     : ls_str_of(def->text_default),
                    KAFKA_CONFIG_DEFAULT);
        return true;
}

static bool
describe_option(struct kafka_request *r, enum ls_option_id id, config_out *out)
{
        enum { SYNONYMS_MAX = 2 };
        const struct ls_kafka_describe_configs_request *q = r->req.body;
        const struct ls_option_def *def = &ls_option_defs[id];

        out->name = ls_str_of(def->name);
        out->value = option_value(r, kafka_server_of(r)->options, id);
        out->read_only = true;
        out->config_source =
                option_is_set(r, (int)id) ? KAFKA_CONFIG_OF_BROKER : KAFKA_CONFIG_DEFAULT;
        out->is_sensitive = def->kind == LS_OPTION_SECRET;
        if (out->is_sensitive)
                out->value = LS_STR_NULL;
        out->config_type = def->kind == LS_OPTION_BOOL     ? TYPE_BOOLEAN
                           : def->kind == LS_OPTION_INT    ? TYPE_LONG
                           : def->kind == LS_OPTION_SECRET ? TYPE_PASSWORD
                                                           : TYPE_STRING;
        if (q->include_documentation)
                out->documentation = ls_str_of(def->doc);
        if (!q->include_synonyms)
                return true;
        out->synonyms.items =
                ls_kafka_describe_configs_response_synonym_array(&r->arena, SYNONYMS_MAX);
        if (out->synonyms.items == NULL)
                return false;
        if (option_is_set(r, (int)id))
                add_synonym(out, out->name, out->value, KAFKA_CONFIG_OF_BROKER);
        add_synonym(out, out->name, option_default(r, id), KAFKA_CONFIG_DEFAULT);
        return true;
}

/* No list, or an empty one, stands for all. */
static bool
describe_wants(const describe_in *in, const char *name)
{
        if (in->configuration_keys.count == 0)
                return true;
        for (uint32_t i = 0; i < in->configuration_keys.count; i++)
                if (ls_str_is(in->configuration_keys.items[i], name))
                        return true;
        return false;
}

static bool
describe_topic(struct kafka_request *r, const describe_in *in, describe_out *out)
{
        struct ls_stream *stream = kafka_find_topic(r, in->resource_name);
        bool ok = true;

        if (stream == NULL) {
                out->error_code = kafka_topic_name_ok(in->resource_name, NULL)
                                          ? kafka_unknown(r, false)
                                          : LS_KAFKA_ERR_INVALID_TOPIC;
                return true;
        }
        out->configs.items =
                ls_kafka_describe_configs_response_config_array(&r->arena, LS_SET_COUNT);
        ok = out->configs.items != NULL;
        for (size_t i = 0; ok && i < LS_SET_COUNT; i++)
                if (describe_wants(in, ls_setting_defs[i].name))
                        ok = describe_setting(r, &ls_stream_info(stream)->settings,
                                              (enum ls_setting_id)i,
                                              &out->configs.items[out->configs.count++]);
        ls_stream_unref(stream);
        return ok;
}

/* "" stands for defaults of all brokers, of which there are none of their own. */
static int16_t
broker_check(struct kafka_request *r, ls_str name, struct ls_errinfo *info)
{
        int32_t own = kafka_server_of(r)->broker_id;
        int64_t id = -1;

        if (name.len == 0)
                return LS_KAFKA_ERR_NONE;
        if (ls_str_to_i64(name, 0, INT32_MAX, &id) && id == own)
                return LS_KAFKA_ERR_NONE;
        ls_fail(info, LS_INVALID, "Unexpected broker id, expected %d, but received '%.*s'.", own,
                LS_STR_ARG(name));
        return LS_KAFKA_ERR_INVALID_REQUEST;
}

static bool
describe_broker(struct kafka_request *r, const describe_in *in, describe_out *out)
{
        struct ls_errinfo info = { 0 };
        bool ok;

        out->error_code = broker_check(r, in->resource_name, &info);
        out->error_message = kafka_words(r, out->error_code, &info);
        if (out->error_code != LS_KAFKA_ERR_NONE || in->resource_name.len == 0)
                return true;
        out->configs.items =
                ls_kafka_describe_configs_response_config_array(&r->arena, LS_OPT_COUNT);
        ok = out->configs.items != NULL;
        for (size_t i = 0; ok && i < LS_OPT_COUNT; i++)
                if (describe_wants(in, ls_option_defs[i].name))
                        ok = describe_option(r, (enum ls_option_id)i,
                                             &out->configs.items[out->configs.count++]);
        return ok;
}

void
kafka_serve_describe_configs(struct kafka_request *r)
{
        const struct ls_kafka_describe_configs_request *q = r->req.body;
        struct ls_kafka_describe_configs_response *answer = r->answer;
        describe_out *out =
                ls_kafka_describe_configs_response_resource_array(&r->arena, q->resources.count);
        bool ok = out != NULL;

        for (uint32_t i = 0; ok && i < q->resources.count; i++) {
                const describe_in *in = &q->resources.items[i];

                out[i].resource_type = in->resource_type;
                out[i].resource_name = in->resource_name;
                if (in->resource_type == RESOURCE_TOPIC) {
                        ok = describe_topic(r, in, &out[i]);
                } else if (in->resource_type == RESOURCE_BROKER) {
                        ok = describe_broker(r, in, &out[i]);
                } else {
                        out[i].error_code = LS_KAFKA_ERR_INVALID_REQUEST;
                        out[i].error_message = LS_STR("this server has configs of topics and "
                                                      "brokers only");
                }
                if (out[i].error_message.ptr == NULL)
                        out[i].error_message = kafka_words(r, out[i].error_code, NULL);
        }
        answer->results.items = out;
        answer->results.count = q->resources.count;
        r->close_after |= !ok;
}

/* ---- AlterConfigs and IncrementalAlterConfigs ---- */

enum alter_op { ALTER_SET = 0, ALTER_DELETE = 1, ALTER_APPEND = 2, ALTER_SUBTRACT = 3 };

/* Both requests in one form. */
struct alter_config {
        ls_str name, value;
        int8_t op;
};
struct alter_resource {
        struct kafka_request *r;
        int8_t type;
        ls_str name;
        struct alter_config *configs;
        uint32_t count;
        bool replace_all; /* what is not named goes back to its default */
        bool validate_only;
        struct ls_errinfo info;
};

static bool
list_has(ls_str list, ls_str item)
{
        size_t from = 0;

        for (size_t i = 0; i <= list.len; i++) {
                if (i < list.len && list.ptr[i] != ',')
                        continue;
                if (ls_str_eq(ls_str_make(list.ptr + from, i - from), item))
                        return true;
                from = i + 1;
        }
        return false;
}

/* `list` with the items of `change` added, or without them; items are joined by commas. */
static ls_str
list_change(struct kafka_request *r, ls_str list, ls_str change, bool add)
{
        ls_str from = add ? change : list, out_of = add ? list : change;
        struct ls_buf text;
        size_t start = 0;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        if (add)
                ls_buf_put_str(&text, list);
        for (size_t i = 0; i <= from.len; i++) {
                ls_str item;

                if (i < from.len && from.ptr[i] != ',')
                        continue;
                item = ls_str_make(from.ptr + start, i - start);
                start = i + 1;
                if (item.len == 0 || list_has(out_of, item))
                        continue;
                if (text.len > 0)
                        ls_buf_put_u8(&text, ',');
                ls_buf_put_str(&text, item);
        }
        return arena_text(r, &text);
}

/* What one change sets its setting to. */
static int16_t
alter_value(struct alter_resource *a, struct ls_stream *stream, const struct alter_config *c,
            struct ls_stream_config *ret)
{
        int id = ls_setting_find(c->name);

        ret->name = c->name;
        ret->value = LS_STR_NULL;
        if (id < 0) {
                (void)ls_setting_unknown(c->name, &a->info);
                return LS_KAFKA_ERR_INVALID_CONFIG;
        }
        switch (c->op) {
        case ALTER_DELETE: return LS_KAFKA_ERR_NONE;
        case ALTER_SET:
                if (c->value.ptr == NULL && !a->replace_all) {
                        ls_fail(&a->info, LS_INVALID, "Null value for the config '%.*s'.",
                                LS_STR_ARG(c->name));
                        return LS_KAFKA_ERR_INVALID_REQUEST;
                }
                ret->value = c->value;
                return LS_KAFKA_ERR_NONE;
        case ALTER_APPEND:
        case ALTER_SUBTRACT:
                if (ls_setting_defs[id].kind != LS_SETTING_LIST) {
                        ls_fail(&a->info, LS_INVALID,
                                "Can't %s to key %.*s because its type is not LIST.",
                                c->op == ALTER_APPEND ? "APPEND" : "SUBTRACT", LS_STR_ARG(c->name));
                        return LS_KAFKA_ERR_INVALID_CONFIG;
                }
                ret->value =
                        list_change(a->r,
                                    kafka_setting_value(a->r, &ls_stream_info(stream)->settings,
                                                        (enum ls_setting_id)id),
                                    c->value, c->op == ALTER_APPEND);
                return LS_KAFKA_ERR_NONE;
        default:
                ls_fail(&a->info, LS_INVALID, "Unknown operation %d.", c->op);
                return LS_KAFKA_ERR_INVALID_REQUEST;
        }
}

static bool
alter_names(const struct alter_resource *a, const char *name)
{
        for (uint32_t i = 0; i < a->count; i++)
                if (ls_str_is(a->configs[i].name, name))
                        return true;
        return false;
}

/* The changes for one version of the stream's row. */
static int16_t
alter_plan(struct alter_resource *a, struct ls_stream *stream, struct ls_stream_config *changes,
           size_t *ret_count)
{
        const struct ls_settings *settings = &ls_stream_info(stream)->settings;
        size_t count = 0;

        for (uint32_t i = 0; i < a->count; i++) {
                int16_t error = alter_value(a, stream, &a->configs[i], &changes[count]);

                if (error != LS_KAFKA_ERR_NONE)
                        return error;
                count++;
        }
        for (size_t i = 0; a->replace_all && i < LS_SET_COUNT; i++)
                if (settings->is_set[i] && !alter_names(a, ls_setting_defs[i].name))
                        changes[count++] =
                                (struct ls_stream_config){ ls_str_of(ls_setting_defs[i].name),
                                                           LS_STR_NULL };
        *ret_count = count;
        return LS_KAFKA_ERR_NONE;
}

/* Plans on what stands there and applies it; again if another change came between. */
static int16_t
alter_topic(struct alter_resource *a)
{
        struct ls_streams *streams = kafka_server_of(a->r)->streams;
        struct ls_stream *stream = kafka_find_topic(a->r, a->name);
        struct ls_stream_config *changes =
                ls_arena_array(&a->r->arena, a->count + LS_SET_COUNT, sizeof *changes);
        int16_t error = kafka_unknown(a->r, false);
        ls_err e = LS_CONFLICT;
        size_t count = 0;

        for (int i = 0;
             stream != NULL && changes != NULL && e == LS_CONFLICT && i < KAFKA_CONFIGURE_ATTEMPTS;
             i++) {
                uint64_t version = ls_stream_info(stream)->version;

                error = alter_plan(a, stream, changes, &count);
                if (error != LS_KAFKA_ERR_NONE)
                        break;
                e = ls_stream_configure(streams, stream, version, changes, count, a->validate_only,
                                        &a->info);
                if (e == LS_CONFLICT && kafka_server_of(a->r)->shared)
                        (void)kafka_look_now(kafka_server_of(a->r)); /* another broker's change */
                error = e == LS_INVALID    ? LS_KAFKA_ERR_INVALID_CONFIG
                        : e == LS_CONFLICT ? LS_KAFKA_ERR_REQUEST_TIMED_OUT
                                           : kafka_error_of(e);
        }
        ls_stream_unref(stream);
        return error;
}

static int16_t
alter_resource(struct alter_resource *a)
{
        struct kafka_seen seen;
        bool again = false;

        kafka_seen_init(&seen);
        for (uint32_t i = 0; i < a->count; i++)
                again |= !kafka_seen_add(&seen, ls_map_key_str(a->configs[i].name));
        kafka_seen_done(&seen);
        if (again) {
                ls_fail(&a->info, LS_INVALID, "A config is named twice.");
                return LS_KAFKA_ERR_INVALID_REQUEST;
        }
        if (a->type == RESOURCE_TOPIC)
                return alter_topic(a);
        ls_fail(&a->info, LS_INVALID,
                a->type == RESOURCE_BROKER
                        ? "Settings of a broker are changed in its configuration file or by its "
                          "flags, and take effect when it starts again."
                        : "This server has configs of topics and brokers only.");
        return LS_KAFKA_ERR_INVALID_REQUEST;
}

void
kafka_serve_alter_configs(struct kafka_request *r)
{
        const struct ls_kafka_alter_configs_request *q = r->req.body;
        struct ls_kafka_alter_configs_response *answer = r->answer;
        struct ls_kafka_alter_configs_response_resource *out =
                ls_kafka_alter_configs_response_resource_array(&r->arena, q->resources.count);

        for (uint32_t i = 0; out != NULL && i < q->resources.count; i++) {
                const struct ls_kafka_alter_configs_request_resource *in = &q->resources.items[i];
                struct alter_resource a = { .r = r,
                                            .type = in->resource_type,
                                            .name = in->resource_name,
                                            .count = in->configs.count,
                                            .replace_all = true,
                                            .validate_only = q->validate_only };

                a.configs = ls_arena_array(&r->arena, a.count + 1, sizeof *a.configs);
                r->close_after |= a.configs == NULL;
                for (uint32_t c = 0; a.configs != NULL && c < a.count; c++)
                        a.configs[c] =
                                (struct alter_config){ in->configs.items[c].name,
                                                       in->configs.items[c].value, ALTER_SET };
                out[i].resource_type = in->resource_type;
                out[i].resource_name = in->resource_name;
                if (a.configs != NULL)
                        out[i].error_code = alter_resource(&a);
                out[i].error_message = kafka_words(r, out[i].error_code, &a.info);
        }
        answer->responses.items = out;
        answer->responses.count = q->resources.count;
        r->close_after |= out == NULL;
}

void
kafka_serve_incremental_alter_configs(struct kafka_request *r)
{
        const struct ls_kafka_incremental_alter_configs_request *q = r->req.body;
        struct ls_kafka_incremental_alter_configs_response *answer = r->answer;
        struct ls_kafka_incremental_alter_configs_response_resource *out =
                ls_kafka_incremental_alter_configs_response_resource_array(&r->arena,
                                                                           q->resources.count);

        for (uint32_t i = 0; out != NULL && i < q->resources.count; i++) {
                const struct ls_kafka_incremental_alter_configs_request_resource *in =
                        &q->resources.items[i];
                struct alter_resource a = { .r = r,
                                            .type = in->resource_type,
                                            .name = in->resource_name,
                                            .count = in->configs.count,
                                            .validate_only = q->validate_only };

                a.configs = ls_arena_array(&r->arena, a.count + 1, sizeof *a.configs);
                r->close_after |= a.configs == NULL;
                for (uint32_t c = 0; a.configs != NULL && c < a.count; c++)
                        a.configs[c] =
                                (struct alter_config){ in->configs.items[c].name,
                                                       in->configs.items[c].value,
                                                       in->configs.items[c].config_operation };
                out[i].resource_type = in->resource_type;
                out[i].resource_name = in->resource_name;
                if (a.configs != NULL)
                        out[i].error_code = alter_resource(&a);
                out[i].error_message = kafka_words(r, out[i].error_code, &a.info);
        }
        answer->responses.items = out;
        answer->responses.count = q->resources.count;
        r->close_after |= out == NULL;
}

/* ---- ListConfigResources (KIP-1142) ---- */

typedef struct ls_kafka_list_config_resources_response_config_resource resource_out;

static bool
list_wants(const struct kafka_request *r, int8_t type)
{
        const struct ls_kafka_list_config_resources_request *q = r->req.body;

        if (r->req.version == 0)
                return type == RESOURCE_CLIENT_METRICS;
        for (uint32_t i = 0; i < q->resource_types.count; i++)
                if (q->resource_types.items[i] == type)
                        return true;
        return q->resource_types.count == 0;
}

static bool
list_types_known(const struct kafka_request *r)
{
        static const int8_t known[] = { RESOURCE_TOPIC, RESOURCE_BROKER, 8, 16, 32 };
        const struct ls_kafka_list_config_resources_request *q = r->req.body;

        for (uint32_t i = 0; i < q->resource_types.count; i++)
                if (memchr(known, q->resource_types.items[i], sizeof known) == NULL)
                        return false;
        return true;
}

void
kafka_serve_list_config_resources(struct kafka_request *r)
{
        struct ls_kafka_list_config_resources_response *answer = r->answer;
        struct ls_stream **streams = NULL;
        const struct ls_brokers *brokers = kafka_brokers(r);
        size_t stream_count = 0, count = 0;
        resource_out *items;

        if (!list_types_known(r)) {
                answer->error_code = LS_KAFKA_ERR_UNSUPPORTED_VERSION;
                return;
        }
        if (list_wants(r, RESOURCE_TOPIC))
                ls_stream_list(kafka_server_of(r)->streams, &streams, &stream_count);
        items = ls_kafka_list_config_resources_response_config_resource_array(
                &r->arena, stream_count + brokers->count);
        for (size_t i = 0; items != NULL && i < stream_count; i++) {
                items[count].resource_name =
                        ls_arena_str(&r->arena, ls_str_of(ls_stream_info(streams[i])->kafka_name));
                items[count++].resource_type = RESOURCE_TOPIC;
        }
        for (size_t i = 0; items != NULL && list_wants(r, RESOURCE_BROKER) && i < brokers->count;
             i++) {
                if (!kafka_broker_listed(r, &brokers->items[i]))
                        continue;
                items[count].resource_name = ls_arena_printf(&r->arena, "%d", brokers->items[i].id);
                items[count++].resource_type = RESOURCE_BROKER;
        }
        if (streams != NULL)
                ls_stream_list_free(streams, stream_count);
        answer->config_resources.items = items;
        answer->config_resources.count = (uint32_t)count;
        r->close_after |= items == NULL;
}
