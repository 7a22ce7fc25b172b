/* stream/open.c - opening and closing everything under a data folder. */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "stream/doctor.h"
#include "stream/group.h"
#include "stream/stream_int.h"

static void
meta_lost(void *ctx, const char *why)
{
        /* Nothing in memory can be trusted to match the database: end, and recover from what is on
         * disk. */
        ls_log_error("stream",
                     "event=metadata_lost the process ends and recovers at the next start: %s",
                     why);
        ls_process_exit(70);
}

/* What SQLite and PostgreSQL are told alike. */
static struct ls_meta_options
meta_options(struct ls_streams *s)
{
        const char *rack = ls_option_text(s->options, LS_OPT_BROKER_RACK);

        return (struct ls_meta_options){
                .broker_id = (int32_t)ls_option_int(s->options, LS_OPT_BROKER_ID),
                .rack = rack[0] ? rack : NULL,
                .on_lost = meta_lost,
                .producer_expiry_ms = ls_option_int(s->options, LS_OPT_PRODUCER_EXPIRY),
        };
}

static ls_err
open_meta(struct ls_streams *s, const char *dir, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *folder = ls_format("%s/meta", dir);
        LS_AUTO(ls_free) char *path = ls_format("%s/meta/lakestream.db", dir);
        struct ls_meta_options options = meta_options(s);
        struct ls_file *probe = NULL;
        ls_err e = ls_file_open(path, LS_FILE_READ, &probe);

        options.sqlite_path = path;
        options.sync_full = strcmp(ls_option_text(s->options, LS_OPT_WAL_SYNC), "always") == 0;
        ls_file_close(probe);
        if (e == LS_ABSENT && ls_doctor_has_data(dir))
                return ls_fail(reterr, LS_EBROKEN,
                               "the metadata database %s is gone, the records are still there: run "
                               "`lakestream doctor rebuild %s`",
                               path, dir);
        LS_TRY(ls_dir_make(folder));
        e = ls_meta_open(&options, &s->meta, reterr);
        ls_doctor_hint(dir, e, reterr);
        LS_TRY(e);
        return ls_dir_sync(folder);
}

/* Many brokers: the metadata in PostgreSQL, WAL objects in the store. */
static ls_err
open_meta_shared(struct ls_streams *s, struct ls_errinfo *reterr)
{
        struct ls_meta_options options = meta_options(s);

        options.postgres_url = ls_option_text(s->options, LS_OPT_META_URL);
        options.wal_key = ls_wal_key;
        options.wal_grace_ms = ls_option_int(s->options, LS_OPT_WAL_RETAIN_GRACE);
        return ls_meta_open(&options, &s->meta, reterr);
}

static ls_err
open_wal_shared(struct ls_streams *s, struct ls_errinfo *reterr)
{
        struct ls_wal_options options = {
                .meta = s->meta,
                .broker_id = (int32_t)ls_option_int(s->options, LS_OPT_BROKER_ID),
                .sync = true,
                .flush_bytes = (size_t)ls_option_int(s->options, LS_OPT_WAL_FLUSH_BYTES),
                .cache_bytes = ls_option_int(s->options, LS_OPT_TAIL_CACHE_BYTES),
                .store = s->store,
                .flush_ms = ls_option_int(s->options, LS_OPT_WAL_FLUSH_MS),
                .puts_max = (int)ls_option_int(s->options, LS_OPT_WAL_PUTS_MAX),
                .on_lost = meta_lost,
        };

        return ls_wal_open(&options, &s->wal, reterr);
}

static ls_err
open_wal(struct ls_streams *s, const char *dir, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *folder = ls_format("%s/wal", dir);
        struct ls_wal_options options = {
                .dir = folder,
                .meta = s->meta,
                .broker_id = (int32_t)ls_option_int(s->options, LS_OPT_BROKER_ID),
                .sync = strcmp(ls_option_text(s->options, LS_OPT_WAL_SYNC), "always") == 0,
                .segment_bytes = (uint64_t)ls_option_int(s->options, LS_OPT_WAL_SEGMENT_BYTES),
                .flush_bytes = (size_t)ls_option_int(s->options, LS_OPT_WAL_FLUSH_BYTES),
                .cache_bytes = ls_option_int(s->options, LS_OPT_TAIL_CACHE_BYTES),
        };

        return ls_wal_open(&options, &s->wal, reterr);
}

static ls_err
any_stream(void *ctx, const struct ls_meta_stream *row)
{
        return LS_EXISTS;
}

/* The store says whose it is, so that two clusters never share one, and a data folder never goes on
 * with a store that lacks its tables. docs/object_store.md. */
static ls_err
claim_store(struct ls_streams *s, struct ls_errinfo *reterr)
{
        static const char key[] = "cluster.json";
        LS_AUTO(ls_slice_unref) struct ls_slice *there = NULL;
        char id[LS_UUID_TEXT_BYTES];
        LS_AUTO(ls_free) char *text = NULL;
        ls_err e;

        ls_uuid_text(s->cluster_id, id);
        text = ls_format("{\"format\":1,\"cluster-id\":\"%s\"}\n", id);
        e = ls_store_get(s->store, key, 0, 0, &there);
        if (e == LS_ABSENT && ls_meta_stream_list(s->meta, any_stream, NULL) == LS_EXISTS)
                return ls_fail(reterr, LS_INVALID,
                               "the tables that the metadata names are not in the store %s: start "
                               "with the store.url that it was begun with",
                               s->store->uri);
        if (e == LS_ABSENT) {
                e = ls_store_put_if_absent(s->store, key, ls_span_of(text, strlen(text)));
                if (e == LS_OK)
                        return LS_OK;
                if (e == LS_EXISTS) /* somebody else begins at this moment */
                        e = ls_store_get(s->store, key, 0, 0, &there);
        }
        if (e != LS_OK)
                return ls_fail(reterr, e, "the store %s: reading %s: %s", s->store->uri, key,
                               ls_err_text(e));
        if (ls_span_eq(ls_slice_span(there), ls_span_of(text, strlen(text))))
                return LS_OK;
        return ls_fail(reterr, LS_INVALID,
                       "the store %s belongs to another cluster (see %s in it): give another "
                       "prefix, or bring that cluster's metadata back%s",
                       s->store->uri, key, s->shared ? "" : " with `lakestream doctor rebuild`");
}

/* `dir` NULL: the settings name one. */
static ls_err
open_store(struct ls_streams *s, const char *dir, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *folder = dir != NULL ? ls_format("%s/store", dir) : NULL;

        LS_TRY(ls_store_open(s->options, folder, &s->store, reterr));
        return ls_store_probe(s->store, reterr);
}

static ls_err
open_lake(struct ls_streams *s, struct ls_errinfo *reterr)
{
        struct ls_lake_options options = { .options = s->options,
                                           .meta = s->meta,
                                           .store = s->store,
                                           .wal = s->wal,
                                           .shared = s->shared,
                                           .history_jobs = s->history_jobs };

        return ls_lake_open(&options, &s->lake, reterr);
}

struct load {
        struct ls_meta_stream **rows;
        size_t count, cap;
};

struct ls_meta_stream *
stream_row_copy(const struct ls_meta_stream *row)
{
        struct ls_meta_stream *copy = ls_malloc(sizeof *copy);

        *copy = *row;
        copy->kafka_name = ls_strdup(row->kafka_name);
        copy->catalog = ls_strdup(row->catalog);
        copy->ns = ls_strdup(row->ns);
        copy->name = ls_strdup(row->name);
        copy->configs = ls_calloc(row->config_count, sizeof *copy->configs);
        for (size_t i = 0; i < row->config_count; i++) {
                copy->configs[i].name = ls_strdup(row->configs[i].name);
                copy->configs[i].value = ls_strdup(row->configs[i].value);
        }
        return copy;
}

static ls_err
load_row(void *ctx, const struct ls_meta_stream *row)
{
        struct load *load = ctx;
        struct ls_meta_stream *copy = stream_row_copy(row);

        LS_PUSH(load->rows, load->count, load->cap, copy);
        return LS_OK;
}

/* What the database holds of a topic does not decode: no life of it can be begun. */
static ls_err
load_failed(const char *topic, ls_err e, struct ls_errinfo *reterr)
{
        if (e <= 0)
                return e;
        return ls_fail(reterr, LS_EBROKEN,
                       "what the metadata database holds of topic %s is damaged (%s): see "
                       "`lakestream doctor check`, then run `lakestream doctor rebuild`",
                       topic, ls_err_text(e));
}

static ls_err
load_streams(struct ls_streams *s, struct ls_errinfo *reterr)
{
        struct load load = { 0 };
        ls_err e = ls_meta_stream_list(s->meta, load_row, &load);

        for (size_t i = 0; i < load.count; i++) {
                struct ls_stream *stream = NULL;
                LS_AUTO(ls_free) char *topic = NULL;

                if (e != LS_OK) {
                        ls_meta_stream_free(load.rows[i]);
                        continue;
                }
                topic = ls_strdup(load.rows[i]->kafka_name);
                e = stream_load(s, load.rows[i], &stream);
                if (e == LS_ABSENT && s->shared) { /* another broker deleted it meanwhile */
                        e = LS_OK;
                        continue;
                }
                e = load_failed(topic, e, reterr);
                if (e == LS_OK) {
                        streams_add(s, stream);
                        ls_stream_unref(stream);
                }
        }
        ls_free(load.rows);
        return e;
}

/* The layers below, embedded: everything under `dir`, or tables in the store that is named. */
static ls_err
open_embedded(struct ls_streams *s, const char *dir, struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *lock = ls_format("%s/LOCK", dir);
        ls_err e;

        LS_TRY(ls_dir_make(dir));
        e = ls_file_lock(lock, &s->lock_file);
        if (e == LS_BUSY)
                return ls_fail(reterr, e,
                               "%s is in use by another lakestream process: stop that one first",
                               dir);
        LS_TRY(e);
        LS_TRY(open_meta(s, dir, reterr));
        s->cluster_id = ls_meta_cluster_id(s->meta);
        LS_TRY(open_wal(s, dir, reterr));
        LS_TRY(open_store(s, dir, reterr));
        return claim_store(s, reterr);
}

/* The same as one of many brokers: nothing is kept here. */
static ls_err
open_shared(struct ls_streams *s, struct ls_errinfo *reterr)
{
        if (ls_option_text(s->options, LS_OPT_STORE_URL)[0] == '\0')
                return ls_fail(reterr, LS_INVALID,
                               "with meta.url the records are kept in an object store: give "
                               "--store s3://BUCKET/PREFIX");
        LS_TRY(open_store(s, NULL, reterr));
        LS_TRY(open_meta_shared(s, reterr));
        s->cluster_id = ls_meta_cluster_id(s->meta);
        LS_TRY(claim_store(s, reterr));
        return open_wal_shared(s, reterr);
}

static ls_err
open_all(struct ls_streams *s, const char *dir, struct ls_errinfo *reterr)
{
        LS_TRY(s->shared ? open_shared(s, reterr) : open_embedded(s, dir, reterr));
        LS_TRY(ls_jobs_start("ls-history",
                             (size_t)ls_option_int(s->options, LS_OPT_HISTORY_THREADS),
                             &s->history_jobs));
        LS_TRY(open_lake(s, reterr));
        LS_TRY(load_streams(s, reterr));
        LS_TRY(ls_jobs_start("ls-job", (size_t)ls_option_int(s->options, LS_OPT_JOB_THREADS),
                             &s->jobs));
        brokers_alone(s, NULL, NULL);
        if (s->shared)
                LS_TRY(brokers_refresh(s));
        LS_TRY(ls_groups_open(s, s->meta, s->options, &s->groups, reterr));
        return s->shared ? follow_start(s) : LS_OK;
}

/* The folder of an embedded server, made if need be; *ret_path is absolute, to be freed. */
static ls_err
data_dir(const struct ls_options *options, char **ret_path, struct ls_errinfo *reterr)
{
        const char *dir = ls_option_text(options, LS_OPT_DATA_DIR);
        ls_err e;

        if (dir[0] == '\0')
                return ls_fail(reterr, LS_INVALID, "no data folder: give --data-dir DIR");
        e = ls_dir_make(dir);
        if (e == LS_OK)
                e = ls_path_absolute(dir, ret_path);
        if (e != LS_OK)
                return ls_fail(reterr, e, "the data folder %s cannot be made or opened: %s", dir,
                               e == LS_EXISTS ? "a file has that name" : ls_err_text(e));
        return LS_OK;
}

ls_err
ls_streams_open(const struct ls_options *options, struct ls_streams **ret_streams,
                struct ls_errinfo *reterr)
{
        bool shared = ls_option_text(options, LS_OPT_META_URL)[0] != '\0';
        struct ls_streams *s;
        LS_AUTO(ls_free) char *path = NULL;
        ls_err e;

        if (!shared)
                LS_TRY(data_dir(options, &path, reterr));
        s = ls_calloc(1, sizeof *s);
        s->options = options;
        s->shared = shared;
        pthread_mutex_init(&s->admin, NULL);
        pthread_mutex_init(&s->brokers_lock, NULL);
        pthread_rwlock_init(&s->lock, NULL);
        ls_map_init(&s->by_name);
        ls_map_init(&s->by_id);
        ls_map_init(&s->by_table);
        ls_fail(reterr, LS_OK, "%s", "");
        e = open_all(s, path, reterr);
        if (e != LS_OK) {
                if (reterr != NULL && reterr->text[0] == '\0')
                        ls_fail(reterr, e, "cannot open %s: %s",
                                shared ? ls_option_text(options, LS_OPT_STORE_URL) : path,
                                ls_err_text(e));
                ls_streams_close(s);
                return e;
        }
        *ret_streams = s;
        return LS_OK;
}

void
ls_streams_close(struct ls_streams *s)
{
        struct ls_stream **list;
        size_t count;

        if (s == NULL)
                return;
        atomic_store(&s->closing, true);
        follow_stop(s);
        ls_groups_close(s->groups);
        if (s->jobs != NULL)
                ls_jobs_stop(s->jobs);
        if (s->history_jobs != NULL)
                ls_jobs_stop(s->history_jobs);
        ls_stream_list(s, &list, &count);
        for (size_t i = 0; i < count; i++)
                streams_remove(s, list[i]);
        if (s->lake != NULL)
                ls_lake_close(s->lake);
        ls_stream_list_free(list, count);
        ls_wal_close(s->wal);
        if (s->meta != NULL)
                ls_meta_close(s->meta);
        if (s->store != NULL)
                ls_store_close(s->store);
        ls_map_done(&s->by_name);
        ls_map_done(&s->by_id);
        ls_map_done(&s->by_table);
        ls_brokers_unref(s->brokers);
        pthread_mutex_destroy(&s->brokers_lock);
        pthread_mutex_destroy(&s->admin);
        pthread_rwlock_destroy(&s->lock);
        ls_file_close(s->lock_file);
        ls_free(s);
}

const struct ls_options *
ls_streams_options(const struct ls_streams *s)
{
        return s->options;
}

ls_uuid
ls_streams_cluster_id(const struct ls_streams *s)
{
        return s->cluster_id;
}

int32_t
ls_streams_broker_id(const struct ls_streams *s)
{
        return (int32_t)ls_option_int(s->options, LS_OPT_BROKER_ID);
}

struct ls_jobs *
ls_streams_jobs(struct ls_streams *s)
{
        return s->jobs;
}

struct ls_jobs *
ls_streams_history_jobs(struct ls_streams *s)
{
        return s->history_jobs;
}

struct ls_groups *
ls_streams_groups(struct ls_streams *s)
{
        return s->groups;
}
