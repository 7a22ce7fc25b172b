/* lake/gc.c - deletes what nothing refers to any more.
 *
 * Garbage is a list in the metadata store: a key and when it may go. It is written by the same
 * transaction that made the object garbage, so a crash loses nothing; deletes are repeated until
 * the list says done. A missing object is deleted already. Errors are counted, not logged one by
 * one.
 *
 * Several brokers: the list is everybody's, WAL objects stand on it too, and whoever has the upkeep
 * lease works on it.
 */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "lake/lake_int.h"
#include "sys/file.h"

#define GC_KEYS_MAX     1000 /* of one round */
#define GC_GONE_MAX     64   /* deleted streams of one round */
#define GC_WAL_SWEEP_MS ((int64_t)6 * 3600 * 1000)
#define GC_BUSY_MS      60000 /* a sweep that another broker is at is looked at again later */

static LS_METRIC(metric_deleted, COUNTER, "lakestream_objects_deleted_total",
                 "Objects deleted as garbage.");
static LS_METRIC(metric_failed, COUNTER, "lakestream_objects_delete_failures_total",
                 "Deletions that failed; they are repeated.");

static LS_METRIC(metric_wal_segments, GAUGE, "lakestream_wal_segments",
                 "Segment files of the WAL.");
static LS_METRIC(metric_wal_bytes, GAUGE, "lakestream_wal_disk_bytes",
                 "Bytes of the WAL's segment files.");
static LS_METRIC(metric_disk_free, GAUGE, "lakestream_disk_free_bytes",
                 "Free bytes of the file system that holds the data folder.");
static LS_METRIC(metric_disk_bytes, GAUGE, "lakestream_disk_size_bytes",
                 "Size of the file system that holds the data folder.");

struct keys {
        char **items;
        size_t count, cap;
};

static ls_err
keys_add(void *ctx, const char *key)
{
        struct keys *keys = ctx;
        char *copy = ls_strdup(key);

        LS_PUSH(keys->items, keys->count, keys->cap, copy);
        return LS_OK;
}

static void
keys_free(struct keys *keys)
{
        for (size_t i = 0; i < keys->count; i++)
                ls_free(keys->items[i]);
        ls_free(keys->items);
}

static ls_err
collect_garbage(struct ls_lake *lake)
{
        struct keys keys = { 0 };
        size_t gone = 0;
        ls_err e = ls_meta_garbage(lake->o.meta, GC_KEYS_MAX, keys_add, &keys);

        for (size_t i = 0; i < keys.count && e == LS_OK && !lake_stopping(lake); i++) {
                char *key = keys.items[i];

                e = lake_lease_upkeep(lake);
                if (e != LS_OK)
                        break;
                if (ls_store_delete(lake->o.store, key) != LS_OK) {
                        ls_metric_add(&metric_failed, 1);
                        continue;
                }
                /* those that are gone stand in front */
                keys.items[i] = keys.items[gone];
                keys.items[gone++] = key;
        }
        if ((e == LS_OK || e == LS_BUSY) && gone > 0) {
                ls_metric_add(&metric_deleted, (int64_t)gone);
                e = ls_meta_garbage_done(lake->o.meta, (const char *const *)keys.items, gone);
        }
        keys_free(&keys);
        return e;
}

/* --- folders of deleted streams --- */

struct gone {
        uint64_t ids[GC_GONE_MAX];
        ls_uuid topic_ids[GC_GONE_MAX];
        size_t count;
};

static ls_err
gone_add(void *ctx, uint64_t stream_id, ls_uuid topic_id)
{
        struct gone *gone = ctx;

        gone->ids[gone->count] = stream_id;
        gone->topic_ids[gone->count++] = topic_id;
        return LS_OK;
}

static ls_err
folder_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        return keys_add(ctx, key);
}

/* Manifests, old metadata, whatever a process that died had written: no commit can name it any
 * more. *ret_empty: nothing is left. */
static ls_err
collect_folder(struct ls_lake *lake, ls_uuid topic_id, bool *ret_empty)
{
        char uuid[LS_UUID_TEXT_BYTES], prefix[LS_UUID_TEXT_BYTES + 16];
        struct keys keys = { 0 };
        size_t failed = 0;
        ls_err e;

        ls_uuid_text(topic_id, uuid);
        snprintf(prefix, sizeof prefix, "tables/%s/", uuid);
        e = ls_store_list(lake->o.store, prefix, NULL, GC_KEYS_MAX, folder_key, &keys);
        if (e == LS_OK && keys.count > 0) {
                e = ls_store_delete_many(lake->o.store, (const char *const *)keys.items, keys.count,
                                         &failed);
                ls_metric_add(&metric_deleted, (int64_t)(keys.count - failed));
                ls_metric_add(&metric_failed, (int64_t)failed);
        }
        *ret_empty = e == LS_OK && keys.count < GC_KEYS_MAX;
        keys_free(&keys);
        return e;
}

static ls_err
collect_gone(struct ls_lake *lake)
{
        struct gone gone = { .count = 0 };
        ls_err e = ls_meta_gone(lake->o.meta, GC_GONE_MAX, gone_add, &gone);

        for (size_t i = 0; i < gone.count && e == LS_OK && !lake_stopping(lake); i++) {
                bool empty = false;

                LS_TRY(lake_lease_upkeep(lake));
                e = collect_folder(lake, gone.topic_ids[i], &empty);
                if (e == LS_OK && empty)
                        e = ls_meta_gone_done(lake->o.meta, gone.ids[i]);
        }
        return e;
}

static ls_err
collect_segments(struct ls_lake *lake)
{
        bool backups =
                !lake->o.shared && ls_option_int(lake->o.options, LS_OPT_META_BACKUP_INTERVAL) > 0;
        struct ls_wal_purge purge = {
                .delay_ms = ls_option_int(lake->o.options, LS_OPT_WAL_RETAIN_GRACE),
                .unnamed_since_ms = backups ? lake->backup_ms : INT64_MAX,
        };
        size_t deleted = 0;
        ls_err e;

        if (lake->o.shared) { /* what has died since was compacted by somebody, who then looks */
                if (!atomic_load(&lake->purge_wanted))
                        return LS_OK;
                LS_TRY(lake_lease_upkeep(lake));
                atomic_store(&lake->purge_wanted, false);
        }
        e = ls_wal_purge(lake->o.wal, &purge, &deleted);
        if (e != LS_OK)
                atomic_store(&lake->purge_wanted, true);
        lake->segments_wait = purge.waiting > 0;

        if (deleted > 0)
                ls_log_info("lake", "event=wal_deleted segments=%zu", deleted);
        return e;
}

/* One thread collects at a time: the upkeep thread leaves it to another that is at it, who asks for
 * it now waits for his turn. */
static bool
collect_begin(struct ls_lake *lake, bool wait)
{
        bool begun;

        pthread_mutex_lock(&lake->lock);
        while (lake->collecting && wait)
                ls_cond_wait(&lake->wake, &lake->lock);
        begun = !lake->collecting;
        lake->collecting = true;
        pthread_mutex_unlock(&lake->lock);
        return begun;
}

static void
collect_end(struct ls_lake *lake)
{
        pthread_mutex_lock(&lake->lock);
        lake->collecting = false;
        ls_cond_broadcast(&lake->wake);
        pthread_mutex_unlock(&lake->lock);
}

/* What the log takes on the disk, and what is left of it. */
static void
disk_metrics(struct ls_lake *lake)
{
        uint64_t bytes, space_free, space;
        size_t segments;

        ls_wal_disk(lake->o.wal, &segments, &bytes);
        ls_metric_set(&metric_wal_segments, (int64_t)segments);
        ls_metric_set(&metric_wal_bytes, (int64_t)bytes);
        if (ls_disk_space(ls_option_text(lake->o.options, LS_OPT_DATA_DIR), &space_free, &space) !=
            LS_OK)
                return;
        ls_metric_set(&metric_disk_free, (int64_t)LS_MIN(space_free, (uint64_t)INT64_MAX));
        ls_metric_set(&metric_disk_bytes, (int64_t)LS_MIN(space, (uint64_t)INT64_MAX));
}

/* Objects of the WAL that a broker made and died before it committed them. */
static ls_err
collect_wal_orphans(struct ls_lake *lake, int64_t now)
{
        int64_t age_ms = ls_option_int(lake->o.options, LS_OPT_TABLE_ORPHAN_AGE);
        ls_err e;

        if (!lake->o.shared || now < lake->next_wal_sweep_ms)
                return LS_OK;
        lake->next_wal_sweep_ms = now + GC_BUSY_MS;
        LS_TRY(lake_lease_upkeep(lake));
        e = lake_sweep_wal(lake, age_ms);
        if (e == LS_OK)
                lake->next_wal_sweep_ms = now + LS_MIN(GC_WAL_SWEEP_MS, age_ms);
        return e;
}

/* The first failure; that another broker is at it is none. */
static void
note(const struct ls_lake *lake, ls_err e, ls_err *io_first)
{
        if (*io_first == LS_OK && !lake_is_elsewhere(lake, e))
                *io_first = e;
}

static ls_err
collect(struct ls_lake *lake, bool force)
{
        int64_t now = ls_clock_monotonic_ms();
        ls_err first = LS_OK;

        lake_clock_set(lake, force);
        note(lake, collect_garbage(lake), &first);
        if (force || now >= lake->next_purge_ms) {
                lake->next_purge_ms =
                        now + ls_option_int(lake->o.options, LS_OPT_TABLE_UPKEEP_INTERVAL);
                note(lake, collect_segments(lake), &first);
                note(lake, collect_gone(lake), &first);
                note(lake, collect_wal_orphans(lake, now), &first);
                disk_metrics(lake);
        }
        lake_lease_upkeep_rest(lake);
        note(lake, lake_backup(lake, now, force), &first);
        return first;
}

ls_err
lake_collect(struct ls_lake *lake, bool force)
{
        ls_err e;

        if (!collect_begin(lake, force))
                return LS_OK;
        e = collect(lake, force);
        collect_end(lake);
        return e;
}
