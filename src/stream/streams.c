/* stream/streams.c - the catalog of live streams in memory: finding, listing, making, changing,
 * deleting. */
#include <stdlib.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/names.h"
#include "stream/stream_int.h"

/* --- one stream --- */

static void
version_free(struct stream_version *v)
{
        ls_settings_done(&v->info.settings);
        ls_meta_stream_free(v->row);
        ls_free(v);
}

static struct stream_version *
version_new(struct ls_streams *s, struct ls_meta_stream *row)
{
        struct stream_version *v = ls_calloc(1, sizeof *v);

        v->row = row;
        v->info.id = row->id;
        v->info.topic_id = row->topic_id;
        v->info.kafka_name = row->kafka_name;
        v->info.catalog = row->catalog;
        v->info.ns = row->ns;
        v->info.name = row->name;
        v->info.partitions = row->partitions;
        v->info.leader_epoch = row->leader_epoch;
        v->info.version = row->version;
        v->info.created_ms = row->created_ms;
        ls_settings_init(&v->info.settings, s->options);
        for (size_t i = 0; i < row->config_count; i++) {
                struct ls_errinfo info;

                if (ls_settings_set(&v->info.settings, ls_str_of(row->configs[i].name),
                                    ls_str_of(row->configs[i].value), &info) != LS_OK)
                        ls_log_warn("stream", "event=setting_ignored topic=%s %s", row->kafka_name,
                                    info.text);
        }
        return v;
}

static struct ls_lake_spec
version_spec(const struct stream_version *v)
{
        return (struct ls_lake_spec){ .stream_id = v->info.id,
                                      .topic_id = v->info.topic_id,
                                      .kafka_name = v->info.kafka_name,
                                      .catalog = v->info.catalog,
                                      .ns = v->info.ns,
                                      .name = v->info.name,
                                      .partitions = v->info.partitions,
                                      .leader_epoch = v->info.leader_epoch,
                                      .created_ms = v->info.created_ms,
                                      .settings = &v->info.settings };
}

ls_err
stream_load(struct ls_streams *s, struct ls_meta_stream *row, struct ls_stream **ret)
{
        struct ls_stream *stream = ls_calloc(1, sizeof *stream);
        struct stream_version *v = version_new(s, row);
        struct ls_lake_spec spec = version_spec(v);
        ls_err e;

        stream->streams = s;
        stream->refs = 1;
        atomic_init(&stream->version, v);
        e = ls_wal_stream_open(s->wal, row->id, row->partitions, row->leader_epoch, &stream->wal);
        if (e != LS_OK) {
                ls_stream_unref(stream);
                return e;
        }
        stream->lake = ls_lake_stream_open(s->lake, &spec, stream->wal);
        *ret = stream;
        return LS_OK;
}

void
stream_set_row(struct ls_stream *stream, struct ls_meta_stream *row)
{
        struct stream_version *v = version_new(stream->streams, row);
        struct ls_lake_spec spec = version_spec(v);

        v->older = stream_version(stream);
        ls_wal_stream_grow(stream->wal, row->partitions);
        atomic_store_explicit(&stream->version, v, memory_order_release);
        ls_lake_stream_update(stream->lake, &spec);
}

struct ls_stream *
ls_stream_ref(struct ls_stream *stream)
{
        atomic_fetch_add_explicit(&stream->refs, 1, memory_order_relaxed);
        return stream;
}

static void
versions_free(void *newest)
{
        struct stream_version *v, *older;

        for (v = newest; v != NULL; v = older) {
                older = v->older;
                version_free(v);
        }
}

void
ls_stream_unref(struct ls_stream *stream)
{
        if (stream == NULL ||
            atomic_fetch_sub_explicit(&stream->refs, 1, memory_order_acq_rel) != 1)
                return;
        ls_wal_stream_unref(stream->wal);
        /* The lake may still be at work on it, with the settings of some version. */
        if (stream->lake != NULL)
                ls_lake_stream_leave(stream->lake, versions_free, stream_version(stream));
        else
                versions_free(stream_version(stream));
        ls_free(stream);
}

const struct ls_stream_info *
ls_stream_info(const struct ls_stream *stream)
{
        return &stream_version(stream)->info;
}

ls_str
ls_stream_config_get(const struct ls_stream *stream, const char *name)
{
        const struct ls_meta_stream *row = stream_version(stream)->row;

        for (size_t i = 0; i < row->config_count; i++) {
                if (strcmp(row->configs[i].name, name) == 0)
                        return ls_str_of(row->configs[i].value);
        }
        return LS_STR_NULL;
}

/* --- the maps --- */

static void
table_key(struct ls_buf *key, ls_str catalog, ls_str ns, ls_str name)
{
        ls_buf_init(key, 4096);
        ls_buf_put_str(key, catalog);
        ls_buf_put_u8(key, 0x1f);
        ls_buf_put_str(key, ns);
        ls_buf_put_u8(key, 0x1f);
        ls_buf_put_str(key, name);
}

void
streams_add(struct ls_streams *s, struct ls_stream *stream)
{
        const struct ls_stream_info *info = ls_stream_info(stream);
        struct ls_buf key;

        table_key(&key, ls_str_of(info->catalog), ls_str_of(info->ns), ls_str_of(info->name));
        ls_stream_ref(stream);
        pthread_rwlock_wrlock(&s->lock);
        ls_map_set(&s->by_name, ls_map_key_str(ls_str_of(info->kafka_name)), stream);
        ls_map_set(&s->by_id, ls_span_of(info->topic_id.bytes, 16), stream);
        ls_map_set(&s->by_table, ls_buf_span(&key), stream);
        pthread_rwlock_unlock(&s->lock);
        ls_buf_done(&key);
}

void
streams_remove(struct ls_streams *s, struct ls_stream *stream)
{
        const struct ls_stream_info *info = ls_stream_info(stream);
        struct ls_buf key;

        table_key(&key, ls_str_of(info->catalog), ls_str_of(info->ns), ls_str_of(info->name));
        pthread_rwlock_wrlock(&s->lock);
        ls_map_remove(&s->by_name, ls_map_key_str(ls_str_of(info->kafka_name)));
        ls_map_remove(&s->by_id, ls_span_of(info->topic_id.bytes, 16));
        ls_map_remove(&s->by_table, ls_buf_span(&key));
        pthread_rwlock_unlock(&s->lock);
        ls_buf_done(&key);
        ls_stream_unref(stream);
}

static struct ls_stream *
find_in(struct ls_streams *s, const struct ls_map *map, ls_span key)
{
        struct ls_stream *stream;

        if (key.ptr == NULL)
                return NULL;
        pthread_rwlock_rdlock(&s->lock);
        stream = ls_map_get(map, key);
        if (stream != NULL)
                ls_stream_ref(stream);
        pthread_rwlock_unlock(&s->lock);
        return stream;
}

struct ls_stream *
ls_stream_find(struct ls_streams *s, ls_str kafka_name)
{
        return find_in(s, &s->by_name, ls_map_key_str(kafka_name));
}

struct ls_stream *
ls_stream_find_id(struct ls_streams *s, ls_uuid topic_id)
{
        return find_in(s, &s->by_id, ls_span_of(topic_id.bytes, 16));
}

struct ls_stream *
ls_stream_find_table(struct ls_streams *s, ls_str catalog, ls_str ns, ls_str name)
{
        struct ls_stream *stream;
        struct ls_buf key;

        table_key(&key, catalog, ns, name);
        stream = ls_buf_failed(&key) ? NULL : find_in(s, &s->by_table, ls_buf_span(&key));
        ls_buf_done(&key);
        return stream;
}

static int
stream_order(const void *left, const void *right)
{
        const struct ls_stream *a = *(struct ls_stream *const *)left,
                               *b = *(struct ls_stream *const *)right;

        return strcmp(ls_stream_info(a)->kafka_name, ls_stream_info(b)->kafka_name);
}

void
ls_stream_list(struct ls_streams *s, struct ls_stream ***ret_streams, size_t *ret_count)
{
        struct ls_map_entry *entry;
        struct ls_stream **list;
        size_t pos = 0, count = 0;

        pthread_rwlock_rdlock(&s->lock);
        list = ls_malloc((s->by_name.count + 1) * sizeof *list);
        while ((entry = ls_map_next(&s->by_name, &pos)) != NULL)
                list[count++] = ls_stream_ref(entry->value);
        pthread_rwlock_unlock(&s->lock);
        if (count > 1)
                qsort(list, count, sizeof *list, stream_order);
        *ret_streams = list;
        *ret_count = count;
}

void
ls_stream_list_free(struct ls_stream **streams, size_t count)
{
        for (size_t i = 0; i < count; i++)
                ls_stream_unref(streams[i]);
        ls_free(streams);
}

/* --- changes --- */

/* A change is judged by what other brokers did, too. When that cannot be had, what is known here
 * has to do: the metadata store decides in any case. */
static void
catch_up(struct ls_streams *s)
{
        ls_err e = ls_streams_refresh(s);

        if (e != LS_OK)
                ls_log_warn("stream", "event=catalog_stale error=%s", ls_err_name(e));
}

/* Checks all of a change against the settings' table; `settings` is filled with the result. */
static ls_err
check_configs(struct ls_settings *settings, const struct ls_stream_config *configs, size_t count,
              struct ls_errinfo *reterr)
{
        for (size_t i = 0; i < count; i++) {
                ls_err e;

                if (configs[i].value.ptr == NULL) {
                        if (ls_setting_find(configs[i].name) < 0) {
                                (void)ls_setting_unknown(configs[i].name, reterr);
                                return LS_INVALID;
                        }
                        continue;
                }
                e = ls_settings_set(settings, configs[i].name, configs[i].value, reterr);
                if (e != LS_OK)
                        return e == LS_ABSENT ? LS_INVALID : e;
        }
        return ls_lake_settings_check(settings, reterr);
}

/* NUL-terminated copies; the caller frees them with configs_free. */
static struct ls_meta_config *
configs_copy(const struct ls_stream_config *configs, size_t count)
{
        struct ls_meta_config *copy = ls_calloc(count, sizeof *copy);

        for (size_t i = 0; i < count; i++) {
                copy[i].name = ls_str_dup(configs[i].name);
                copy[i].value = ls_str_dup(configs[i].value);
        }
        return copy;
}

static void
configs_free(struct ls_meta_config *configs, size_t count)
{
        for (size_t i = 0; i < count; i++) {
                ls_free((void *)(uintptr_t)configs[i].name);
                ls_free((void *)(uintptr_t)configs[i].value);
        }
        ls_free(configs);
}

/* Fills in `ret`; everything is the caller's to free with create_spec_free. */
static void
create_spec(const struct ls_stream_plan *plan, struct ls_meta_stream *ret)
{
        static char catalog[] = LS_CATALOG_DEFAULT;
        ls_str ns, name;

        ls_topic_name_split(plan->kafka_name, &ns, &name);
        *ret = (struct ls_meta_stream){ .kafka_name = ls_str_dup(plan->kafka_name),
                                        .catalog = catalog,
                                        .ns = ls_str_dup(ns),
                                        .name = ls_str_dup(name),
                                        .partitions = plan->partitions,
                                        .created_ms = ls_clock_wall_ms(),
                                        .configs = configs_copy(plan->configs, plan->config_count),
                                        .config_count = plan->config_count };
}

static void
create_spec_free(struct ls_meta_stream *spec)
{
        configs_free(spec->configs, spec->config_count);
        ls_free(spec->kafka_name);
        ls_free(spec->ns);
        ls_free(spec->name);
}

/* Name, partitions (the default is filled in), settings. */
static ls_err
create_check(struct ls_streams *s, struct ls_stream_plan *plan)
{
        struct ls_errinfo *info = &plan->info;
        struct ls_settings settings;
        ls_err e;

        LS_TRY(ls_topic_name_check(plan->kafka_name, info));
        if (plan->partitions == -1)
                plan->partitions = (int32_t)ls_option_int(s->options, LS_OPT_NUM_PARTITIONS);
        if (plan->partitions <= 0)
                return ls_fail(info, LS_INVALID, "Number of partitions must be larger than 0.");
        if (plan->partitions > LS_META_PARTITIONS_MAX)
                return ls_fail(info, LS_INVALID, "Number of partitions must be at most %d.",
                               LS_META_PARTITIONS_MAX);
        ls_settings_init(&settings, s->options);
        e = check_configs(&settings, plan->configs, plan->config_count, info);
        ls_settings_done(&settings);
        return e;
}

static ls_err
create_exists(struct ls_stream_plan *plan)
{
        return ls_fail(&plan->info, LS_EXISTS, "Topic '%.*s' already exists.",
                       LS_STR_ARG(plan->kafka_name));
}

/* The same, and that there is none of that name; the admin lock is held. */
static ls_err
create_check_free(struct ls_streams *s, struct ls_stream_plan *plan)
{
        LS_TRY(create_check(s, plan));
        plan->stream = ls_stream_find(s, plan->kafka_name);
        return plan->stream == NULL ? LS_OK : create_exists(plan);
}

/* The row (taken over) becomes a live stream. */
static void
create_finish(struct ls_streams *s, struct ls_stream_plan *plan, struct ls_meta_stream *row)
{
        if (plan->result == LS_OK)
                plan->result = stream_load(s, row, &plan->stream);
        if (plan->result == LS_EXISTS) { /* another broker was first */
                (void)create_exists(plan);
                return;
        }
        if (plan->result != LS_OK) {
                plan->result = ls_fail(&plan->info, plan->result, "The topic could not be made: %s",
                                       ls_err_text(plan->result));
                return;
        }
        streams_add(s, plan->stream);
        ls_log_info("stream", "event=created topic=%.*s partitions=%d",
                    LS_STR_ARG(plan->kafka_name), plan->partitions);
}

void
ls_streams_create(struct ls_streams *s, struct ls_stream_plan *plans, size_t count)
{
        struct ls_meta_stream *specs = ls_calloc(count + 1, sizeof *specs);
        struct ls_meta_stream **rows = ls_calloc(count + 1, sizeof(struct ls_meta_stream *));
        ls_err *results = ls_calloc(count + 1, sizeof *results);
        size_t made = 0;

        catch_up(s);
        pthread_mutex_lock(&s->admin);
        for (size_t i = 0; i < count; i++) {
                plans[i].stream = NULL;
                plans[i].result = create_check_free(s, &plans[i]);
                if (plans[i].result == LS_OK)
                        create_spec(&plans[i], &specs[made++]);
        }
        ls_meta_streams_create(s->meta, specs, made, rows, results);
        for (size_t i = 0, k = 0; i < count; i++) {
                if (plans[i].result != LS_OK)
                        continue;
                plans[i].result = results[k];
                create_finish(s, &plans[i], rows[k++]);
        }
        pthread_mutex_unlock(&s->admin);
        for (size_t i = 0; i < count; i++) {
                if (plans[i].result == LS_EXISTS && plans[i].stream == NULL) {
                        catch_up(s);
                        plans[i].stream = ls_stream_find(s, plans[i].kafka_name);
                }
        }
        for (size_t i = 0; i < made; i++)
                create_spec_free(&specs[i]);
        ls_free(specs);
        ls_free(rows);
        ls_free(results);
}

ls_err
ls_stream_create(struct ls_streams *s, ls_str kafka_name, int32_t partitions,
                 const struct ls_stream_config *configs, size_t count, bool validate_only,
                 struct ls_stream **ret_stream, struct ls_errinfo *reterr)
{
        struct ls_stream_plan plan = { .kafka_name = kafka_name,
                                       .partitions = partitions,
                                       .configs = configs,
                                       .config_count = count };

        if (validate_only) {
                catch_up(s);
                plan.result = create_check_free(s, &plan);
        } else {
                ls_streams_create(s, &plan, 1);
        }
        if (plan.result != LS_OK && reterr != NULL)
                *reterr = plan.info;
        if (ret_stream != NULL && (plan.result == LS_OK || plan.result == LS_EXISTS))
                *ret_stream = plan.stream;
        else
                ls_stream_unref(plan.stream);
        return plan.result;
}

void
ls_streams_delete(struct ls_streams *s, struct ls_stream *const *streams, size_t count,
                  ls_err *ret_results)
{
        uint64_t *ids = ls_calloc(count + 1, sizeof *ids);
        int64_t *grace_ms = ls_calloc(count + 1, sizeof *grace_ms);

        for (size_t i = 0; i < count; i++) {
                const struct ls_stream_info *info = ls_stream_info(streams[i]);

                ids[i] = info->id;
                grace_ms[i] = info->settings.ints[LS_SET_TABLE_FILE_GRACE];
        }
        pthread_mutex_lock(&s->admin);
        ls_meta_streams_delete(s->meta, ids, grace_ms, count, ret_results);
        for (size_t i = 0; i < count; i++) {
                if (ret_results[i] != LS_OK)
                        continue; /* one that is gone already was taken out by whoever deleted it */
                streams_remove(s, streams[i]);
                ls_wal_stream_gone(streams[i]->wal);
                ls_lake_stream_gone(streams[i]->lake);
                ls_log_info("stream", "event=deleted topic=%s",
                            ls_stream_info(streams[i])->kafka_name);
        }
        pthread_mutex_unlock(&s->admin);
        ls_free(ids);
        ls_free(grace_ms);
}

ls_err
ls_stream_delete(struct ls_streams *s, struct ls_stream *stream)
{
        ls_err result;

        ls_streams_delete(s, &stream, 1, &result);
        return result;
}

ls_err
ls_stream_grow(struct ls_streams *s, struct ls_stream *stream, int32_t partitions,
               bool validate_only, struct ls_errinfo *reterr)
{
        const struct ls_stream_info *info;
        struct ls_meta_stream *row = NULL;
        ls_err e = LS_OK;

        catch_up(s);
        pthread_mutex_lock(&s->admin);
        info = ls_stream_info(stream);
        if (partitions == info->partitions)
                e = ls_fail(reterr, LS_INVALID, "Topic already has %d partition(s).", partitions);
        else if (partitions < info->partitions)
                e = ls_fail(
                        reterr, LS_INVALID,
                        "The topic %s currently has %d partition(s); %d would not be an increase.",
                        info->kafka_name, info->partitions, partitions);
        else if (partitions > LS_META_PARTITIONS_MAX)
                e = ls_fail(reterr, LS_INVALID, "Number of partitions must be at most %d.",
                            LS_META_PARTITIONS_MAX);
        else if (!validate_only)
                e = ls_meta_stream_grow(s->meta, info->id, partitions, &row);
        if (e == LS_OK && row != NULL)
                stream_set_row(stream, row);
        pthread_mutex_unlock(&s->admin);
        return e;
}

ls_err
ls_stream_configure(struct ls_streams *s, struct ls_stream *stream, uint64_t version,
                    const struct ls_stream_config *changes, size_t count, bool validate_only,
                    struct ls_errinfo *reterr)
{
        struct ls_meta_config *copy;
        struct ls_meta_stream *row = NULL;
        struct ls_settings settings;
        ls_err e;

        ls_settings_init(&settings, s->options);
        e = check_configs(&settings, changes, count, reterr);
        ls_settings_done(&settings);
        if (e != LS_OK || validate_only)
                return e;
        copy = configs_copy(changes, count);
        pthread_mutex_lock(&s->admin);
        e = ls_meta_stream_configure(s->meta, ls_stream_info(stream)->id, version, copy, count,
                                     &row);
        if (e == LS_OK)
                stream_set_row(stream, row);
        pthread_mutex_unlock(&s->admin);
        configs_free(copy, count);
        if (e != LS_OK)
                return ls_fail(reterr, e, "The settings were not changed: %s", ls_err_text(e));
        return LS_OK;
}
