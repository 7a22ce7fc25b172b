/* servers/http/fake_streams.c - see fake_streams.h. */
#include "servers/http/fake_streams.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"

#define FAKE_MAX 20000

struct ls_stream {
        struct ls_stream_info info;
        atomic_int refs;
        int64_t end, table_end;
        int version;
        char *names[3];
};

struct fake_namespace {
        char *name, *properties;
};

struct ls_streams {
        struct ls_options options;
        struct ls_stream *streams[FAKE_MAX];
        size_t stream_count;
        struct fake_namespace namespaces[FAKE_MAX];
        size_t namespace_count;
        struct fake_knobs knobs;
        pthread_mutex_t lock;
};

ls_err
ls_streams_refresh(struct ls_streams *s)
{
        return LS_OK;
}

/* --- for tests --- */

struct ls_streams *
fake_streams_new(void)
{
        struct ls_streams *s = ls_calloc(1, sizeof *s);

        ls_options_init(&s->options);
        pthread_mutex_init(&s->lock, NULL);
        return s;
}

void
fake_streams_free(struct ls_streams *s)
{
        for (size_t i = 0; i < s->stream_count; i++)
                ls_stream_unref(s->streams[i]);
        for (size_t i = 0; i < s->namespace_count; i++) {
                ls_free(s->namespaces[i].name);
                ls_free(s->namespaces[i].properties);
        }
        ls_options_done(&s->options);
        pthread_mutex_destroy(&s->lock);
        ls_free(s);
}

void
fake_stream_add(struct ls_streams *s, const char *kafka_name, const char *ns, const char *name,
                int32_t partitions)
{
        struct ls_stream *stream = ls_calloc(1, sizeof *stream);

        stream->refs = 1;
        stream->names[0] = ls_strdup(kafka_name);
        stream->names[1] = ls_strdup(ns);
        stream->names[2] = ls_strdup(name);
        stream->info = (struct ls_stream_info){ .id = s->stream_count + 1,
                                                .kafka_name = stream->names[0],
                                                .catalog = "main",
                                                .ns = stream->names[1],
                                                .name = stream->names[2],
                                                .partitions = partitions };
        stream->info.topic_id.bytes[15] = (uint8_t)(s->stream_count + 1);
        stream->info.settings.ints[LS_SET_TABLE_ENABLED] = 1;
        s->streams[s->stream_count++] = stream;
}

static struct ls_stream *
fake_find(struct ls_streams *s, ls_str kafka_name)
{
        for (size_t i = 0; i < s->stream_count; i++)
                if (ls_str_is(kafka_name, s->streams[i]->info.kafka_name))
                        return s->streams[i];
        return NULL;
}

void
fake_append(struct ls_streams *s, const char *kafka_name, int64_t records)
{
        fake_find(s, ls_str_of(kafka_name))->end += records;
}

void
fake_set_table_enabled(struct ls_streams *s, const char *kafka_name, bool enabled)
{
        fake_find(s, ls_str_of(kafka_name))->info.settings.ints[LS_SET_TABLE_ENABLED] = enabled;
}

struct fake_knobs *
fake_knobs(struct ls_streams *s)
{
        return &s->knobs;
}

/* --- stream/stream.h --- */

const struct ls_options *
ls_streams_options(const struct ls_streams *s)
{
        return &s->options;
}

ls_uuid
ls_streams_cluster_id(const struct ls_streams *s)
{
        return (ls_uuid){ { 1, 2, 3 } };
}

int32_t
ls_streams_broker_id(const struct ls_streams *s)
{
        return 7;
}

ls_err
ls_streams_ready(struct ls_streams *s, struct ls_errinfo *reterr)
{
        if (s->knobs.fail_ready == LS_OK)
                return LS_OK;
        return ls_fail(reterr, s->knobs.fail_ready, "the disk is full");
}

struct ls_stream *
ls_stream_find(struct ls_streams *s, ls_str kafka_name)
{
        struct ls_stream *stream = fake_find(s, kafka_name);

        return stream ? ls_stream_ref(stream) : NULL;
}

struct ls_stream *
ls_stream_find_table(struct ls_streams *s, ls_str catalog, ls_str ns, ls_str name)
{
        for (size_t i = 0; i < s->stream_count; i++) {
                const struct ls_stream_info *info = &s->streams[i]->info;

                if (ls_str_is(catalog, info->catalog) && ls_str_is(ns, info->ns) &&
                    ls_str_is(name, info->name))
                        return ls_stream_ref(s->streams[i]);
        }
        return NULL;
}

struct ls_stream *
ls_stream_ref(struct ls_stream *stream)
{
        stream->refs++;
        return stream;
}

void
ls_stream_unref(struct ls_stream *stream)
{
        if (stream == NULL || --stream->refs > 0)
                return;
        for (size_t i = 0; i < LS_COUNT(stream->names); i++)
                ls_free(stream->names[i]);
        ls_free(stream);
}

const struct ls_stream_info *
ls_stream_info(const struct ls_stream *stream)
{
        return &stream->info;
}

static int
by_name(const void *left, const void *right)
{
        return strcmp((*(struct ls_stream *const *)left)->info.kafka_name,
                      (*(struct ls_stream *const *)right)->info.kafka_name);
}

void
ls_stream_list(struct ls_streams *s, struct ls_stream ***ret_streams, size_t *ret_count)
{
        *ret_count = s->stream_count;
        *ret_streams = ls_calloc(s->stream_count + 1, sizeof **ret_streams);
        for (size_t i = 0; i < s->stream_count; i++)
                (*ret_streams)[i] = ls_stream_ref(s->streams[i]);
        qsort(*ret_streams, *ret_count, sizeof **ret_streams, by_name);
}

void
ls_stream_list_free(struct ls_stream **streams, size_t count)
{
        for (size_t i = 0; i < count; i++)
                ls_stream_unref(streams[i]);
        ls_free(streams);
}

ls_err
ls_stream_offsets(struct ls_stream *stream, int32_t partition, struct ls_offsets *ret)
{
        if (partition < 0 || partition >= stream->info.partitions)
                return LS_ABSENT;
        *ret = (struct ls_offsets){ 0, partition == 0 ? stream->end : 0,
                                    partition == 0 ? stream->end : 0 };
        return LS_OK;
}

ls_err
ls_stream_log_bytes(struct ls_stream *stream, int32_t partition, int64_t *ret_bytes)
{
        *ret_bytes = partition == 0 ? stream->end * 100 : 0;
        return LS_OK;
}

void
ls_setting_print(const struct ls_settings *s, enum ls_setting_id id, struct ls_buf *ret)
{
        ls_buf_printf(ret, "%lld", (long long)s->ints[id]);
}

const struct ls_setting_def ls_setting_defs[LS_SET_COUNT];

/* --- stream/table.h --- */

void
ls_table_done(struct ls_table *t)
{
        ls_free(t->metadata_uri);
        ls_slice_unref(t->metadata);
        *t = (struct ls_table){ 0 };
}

static struct ls_slice *
fake_metadata(const struct ls_stream *stream)
{
        struct ls_buf text;
        struct ls_slice *slice;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        ls_buf_printf(&text,
                      "{\"format-version\":2,\"table-uuid\":\"u\",\"current-schema-id\":0,"
                      "\"schemas\":[{\"schema-id\":0,\"fields\":[{\"id\":1,\"name\":\"value\","
                      "\"type\":\"binary\",\"required\":false}]}],\"snapshots\":[");
        for (int i = 1; i <= stream->version; i++)
                ls_buf_printf(
                        &text,
                        "%s{\"snapshot-id\":%d,\"timestamp-ms\":%d,\"summary\":{\"operation\":"
                        "\"append\",\"total-records\":\"%lld\"}}",
                        i > 1 ? "," : "", 1000 + i, i, (long long)stream->table_end);
        ls_buf_printf(&text, "]");
        if (stream->version > 0)
                ls_buf_printf(&text,
                              ",\"current-snapshot-id\":%d,\"refs\":{\"main\":{\"snapshot-id\":%d,"
                              "\"type\":\"branch\"}}",
                              1000 + stream->version, 1000 + stream->version);
        ls_buf_printf(&text, "}");
        slice = ls_slice_copy(ls_buf_span(&text));
        ls_buf_done(&text);
        return slice;
}

void
ls_table_engine_config(struct ls_streams *s,
                       void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
        fn(ctx, "s3.endpoint", "http://\"host\"");
}

ls_err
ls_table_load(struct ls_streams *s, struct ls_stream *stream, int64_t deadline_ms,
              struct ls_table *ret_table, struct ls_errinfo *reterr)
{
        if (s->knobs.fail_loads != LS_OK)
                return ls_fail(reterr, s->knobs.fail_loads, "fake failure");
        pthread_mutex_lock(&s->lock);
        s->knobs.loads++;
        if (deadline_ms != 0 && s->knobs.behind == 0 && stream->end > stream->table_end) {
                stream->table_end = stream->end;
                stream->version++;
                s->knobs.commits++;
        }
        /* A folder's name need not be UTF-8. */
        *ret_table = (struct ls_table){ .metadata_uri = ls_format("file:///d\xff/%d.metadata.json",
                                                                  stream->version),
                                        .metadata = fake_metadata(stream),
                                        .fresh = stream->end == stream->table_end,
                                        .behind_records = stream->end - stream->table_end };
        snprintf(ret_table->etag, sizeof ret_table->etag, "t%d-%d", (int)stream->info.id,
                 stream->version);
        pthread_mutex_unlock(&s->lock);
        return LS_OK;
}

ls_err
ls_table_unchanged(struct ls_streams *s, struct ls_stream *stream, const char *etag,
                   bool *ret_current)
{
        char now[64];

        snprintf(now, sizeof now, "t%d-%d", (int)stream->info.id, stream->version);
        *ret_current = stream->end == stream->table_end && strcmp(now, etag) == 0;
        return LS_OK;
}

ls_err
ls_table_verify(struct ls_streams *s, struct ls_stream *stream, bool deep,
                struct ls_table_verify *ret, struct ls_errinfo *reterr)
{
        *ret = (struct ls_table_verify){ .records_log = stream->end,
                                         .records_table = stream->table_end,
                                         .hash_log = 0xabc,
                                         .hash_table = 0xabc,
                                         .files = 1,
                                         .equal = stream->end == stream->table_end };
        if (!ret->equal)
                snprintf(ret->first_difference, sizeof ret->first_difference, "partition 0");
        return LS_OK;
}

ls_err
ls_table_files(struct ls_streams *s, struct ls_stream *stream,
               ls_err (*fn)(void *ctx, const struct ls_table_file *file), void *ctx)
{
        struct ls_table_file file = { "file:///d/1.parquet", 10, stream->table_end };

        return fn(ctx, &file);
}

/* --- namespaces --- */

static struct fake_namespace *
fake_namespace_find(struct ls_streams *s, ls_str ns)
{
        for (size_t i = 0; i < s->namespace_count; i++)
                if (ls_str_is(ns, s->namespaces[i].name))
                        return &s->namespaces[i];
        return NULL;
}

ls_err
ls_namespace_list(struct ls_streams *s, ls_str catalog, ls_err (*fn)(void *ctx, const char *ns),
                  void *ctx)
{
        if (s->knobs.fail_namespaces != LS_OK)
                return s->knobs.fail_namespaces;
        if (fn(ctx, "default") != LS_OK)
                return LS_EINTERNAL;
        for (size_t i = 0; i < s->stream_count; i++)
                if (fn(ctx, s->streams[i]->info.ns) != LS_OK)
                        return LS_EINTERNAL;
        for (size_t i = 0; i < s->namespace_count; i++)
                if (fn(ctx, s->namespaces[i].name) != LS_OK)
                        return LS_EINTERNAL;
        return LS_OK;
}

ls_err
ls_namespace_get(struct ls_streams *s, ls_str catalog, ls_str ns, char **ret_properties)
{
        struct fake_namespace *found = fake_namespace_find(s, ns);

        if (found == NULL)
                return LS_ABSENT;
        *ret_properties = ls_strdup(found->properties);
        return LS_OK;
}

ls_err
ls_namespace_create(struct ls_streams *s, ls_str catalog, ls_str ns, ls_str properties)
{
        if (fake_namespace_find(s, ns) != NULL)
                return LS_EXISTS;
        s->namespaces[s->namespace_count++] =
                (struct fake_namespace){ ls_str_dup(ns), ls_str_dup(properties) };
        return LS_OK;
}

ls_err
ls_namespace_set(struct ls_streams *s, ls_str catalog, ls_str ns, ls_str properties)
{
        struct fake_namespace *found = fake_namespace_find(s, ns);

        if (found == NULL)
                return LS_ABSENT;
        ls_free(found->properties);
        found->properties = ls_str_dup(properties);
        return LS_OK;
}

ls_err
ls_namespace_drop(struct ls_streams *s, ls_str catalog, ls_str ns)
{
        struct fake_namespace *found = fake_namespace_find(s, ns);

        for (size_t i = 0; i < s->stream_count; i++)
                if (ls_str_is(ns, s->streams[i]->info.ns))
                        return LS_NOT_EMPTY;
        if (ls_str_is(ns, "default"))
                return LS_NOT_EMPTY;
        if (found == NULL)
                return LS_ABSENT;
        ls_free(found->name);
        ls_free(found->properties);
        *found = s->namespaces[--s->namespace_count];
        return LS_OK;
}
