/* lake/backup.c - copies of the metadata in the store.
 *
 * A backup is the database as one file, of one snapshot, under
 *
 *   meta/backup-<commit number>-<epoch>-<changes>.db     (20, 10 and 10 digits)
 *
 * so that names ascend with age. It becomes visible whole or not at all. `lakestream doctor
 * rebuild` begins from the newest one. Layout: docs/formats/metadata.md. A database that several
 * brokers share is backed up by its own tools: there are no copies here. */
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metric.h"
#include "lake/lake_int.h"
#include "sys/file.h"

#define BACKUP_PREFIX      "meta/backup-"
#define BACKUP_LIST_MAX    1000
#define BACKUP_PIECE_BYTES ((size_t)1 << 20)
#define BACKUP_RETRY_MS    ((int64_t)60000) /* after a failure */
#define BACKUP_SOON_MS     ((int64_t)5000)  /* when something waits for one */
#define BACKUP_REST        20               /* times as long as it took: a large one comes seldom */
#define BACKUP_BY_OTHERS   INT64_MAX        /* backup_ms: the database has its own tools for them */

static LS_METRIC(metric_backups, COUNTER, "lakestream_meta_backups_total",
                 "Backups of the metadata that were made.");
static LS_METRIC(metric_failures, COUNTER, "lakestream_meta_backup_failures_total",
                 "Backups of the metadata that failed; they are tried again.");
static LS_METRIC(metric_time, GAUGE, "lakestream_meta_backup_timestamp_seconds",
                 "When the last backup of the metadata was made, in seconds since 1970.");
static LS_METRIC(metric_bytes, GAUGE, "lakestream_meta_backup_bytes",
                 "Size of the last backup of the metadata.");

struct backup_keys {
        char **items;
        size_t count, cap;
};

static ls_err
keys_add(void *ctx, const char *key, const struct ls_store_info *info)
{
        struct backup_keys *keys = ctx;
        char *copy = ls_strdup(key);

        LS_PUSH(keys->items, keys->count, keys->cap, copy);
        return LS_OK;
}

static void
keys_done(struct backup_keys *keys)
{
        for (size_t i = 0; i < keys->count; i++)
                ls_free(keys->items[i]);
        ls_free(keys->items);
}

static ls_err
backup_list(struct ls_lake *lake, struct backup_keys *keys)
{
        return ls_store_list(lake->o.store, BACKUP_PREFIX, NULL, BACKUP_LIST_MAX, keys_add, keys);
}

static ls_err
backup_trim(struct ls_lake *lake)
{
        size_t kept = (size_t)ls_option_int(lake->o.options, LS_OPT_META_BACKUP_COUNT);
        struct backup_keys keys = { 0 };
        ls_err e = backup_list(lake, &keys);

        for (size_t i = 0; e == LS_OK && i + kept < keys.count; i++)
                e = ls_store_delete(lake->o.store, keys.items[i]);
        keys_done(&keys);
        return e;
}

/* True when no backup holds what the database holds: nothing of this process is known yet. */
static bool
backup_is_behind(struct ls_lake *lake, uint64_t commit)
{
        struct backup_keys keys = { 0 };
        ls_err e = backup_list(lake, &keys);
        char newest[sizeof BACKUP_PREFIX + 20];
        bool behind;

        snprintf(newest, sizeof newest, BACKUP_PREFIX "%020llu", (unsigned long long)commit);
        behind = commit > 0 && (e != LS_OK || keys.count == 0 ||
                                strncmp(keys.items[keys.count - 1], newest, strlen(newest)) < 0);
        keys_done(&keys);
        return behind;
}

/* The file at `path` into the store, in pieces. */
static ls_err
backup_upload(struct ls_lake *lake, const char *path, const char *key)
{
        uint8_t *piece = ls_malloc(BACKUP_PIECE_BYTES);
        struct ls_store_writer *w = NULL;
        struct ls_file *file = NULL;
        uint64_t size = 0, pos = 0;
        ls_err e = ls_file_open(path, LS_FILE_READ, &file);

        if (e == LS_OK)
                e = ls_file_size(file, &size);
        if (e == LS_OK)
                e = ls_store_writer_open(lake->o.store, key, &w);
        for (; e == LS_OK && pos < size; pos += LS_MIN(size - pos, BACKUP_PIECE_BYTES)) {
                size_t len = (size_t)LS_MIN(size - pos, BACKUP_PIECE_BYTES);

                e = ls_file_read(file, pos, piece, len);
                if (e == LS_OK)
                        e = w->write(w, ls_span_of(piece, len));
        }
        if (e == LS_OK)
                e = w->finish(w);
        else if (w != NULL)
                w->cancel(w);
        ls_file_close(file);
        ls_free(piece);
        if (e == LS_OK)
                ls_metric_set(&metric_bytes, (int64_t)size);
        return e;
}

/* The temporary file may be there from a process that was killed. */
static ls_err
backup_delete_file(const char *path)
{
        ls_err e = ls_file_delete(path);

        return e == LS_ABSENT ? LS_OK : e;
}

/* LS_UNSUPPORTED: the database makes no such file. */
static ls_err
backup_make(struct ls_lake *lake, uint64_t commit, uint64_t changes)
{
        const char *dir = ls_option_text(lake->o.options, LS_OPT_DATA_DIR);
        LS_AUTO(ls_free) char *path = ls_format("%s/meta/backup.tmp", dir);
        LS_AUTO(ls_free)
        char *key =
                ls_format(BACKUP_PREFIX "%020llu-%010llu-%010llu.db", (unsigned long long)commit,
                          (unsigned long long)ls_meta_broker_epoch(lake->o.meta),
                          (unsigned long long)changes);
        struct ls_errinfo info = { { 0 } };
        ls_err e = backup_delete_file(path), deleted;

        LS_TRY(e);
        e = ls_meta_backup(lake->o.meta, path, &info);
        if (e == LS_OK)
                e = backup_upload(lake, path, key);
        deleted = backup_delete_file(path);
        if (e == LS_EXISTS) /* made before, and not counted: its reply was lost */
                e = LS_OK;
        if (e == LS_UNSUPPORTED) {
                ls_log_info("lake", "event=no_backups %s", info.text);
                return e;
        }
        if (e != LS_OK) {
                ls_log_warn("lake", "event=backup_failed error=%s %s", ls_err_name(e), info.text);
                return e;
        }
        ls_log_info("lake", "event=backup key=%s", key);
        return deleted;
}

/* At its interval; soon when topics came, went or changed, which nothing else in the store tells,
 * and when WAL segments wait to be deleted. */
static bool
backup_due(struct ls_lake *lake, int64_t now_ms, int64_t interval)
{
        bool soon = lake->segments_wait || atomic_load(&lake->catalog_changed);
        int64_t rest = LS_MAX(BACKUP_SOON_MS, lake->backup_took_ms * BACKUP_REST);

        if (lake->next_backup_ms == 0)
                lake->next_backup_ms = now_ms + interval;
        return now_ms >= lake->next_backup_ms ||
               (soon && now_ms >= lake->backup_tried_ms + LS_MIN(interval, rest));
}

ls_err
lake_backup(struct ls_lake *lake, int64_t now_ms, bool force)
{
        int64_t interval = ls_option_int(lake->o.options, LS_OPT_META_BACKUP_INTERVAL), begun;
        uint64_t commit = 0, changes;
        ls_err e;

        if (lake->o.shared || interval == 0 || lake->backup_ms == BACKUP_BY_OTHERS ||
            (!backup_due(lake, now_ms, interval) && !force))
                return LS_OK;
        lake->next_backup_ms = now_ms + interval;
        lake->backup_tried_ms = now_ms;
        atomic_store(&lake->catalog_changed, false);
        changes = ls_meta_changes(lake->o.meta); /* first: what comes after is for the next one */
        LS_TRY(ls_meta_commit_number(lake->o.meta, &commit));
        if (changes == lake->backup_changes && (changes > 0 || !backup_is_behind(lake, commit))) {
                lake->backup_ms = now_ms; /* it would be the same */
                return LS_OK;             /* an idle server writes nothing */
        }
        begun = ls_clock_monotonic_ms();
        e = backup_make(lake, commit, changes);
        lake->backup_took_ms = ls_clock_monotonic_ms() - begun;
        if (e == LS_UNSUPPORTED) {
                lake->backup_ms = BACKUP_BY_OTHERS; /* as if they were off: WAL segments can go */
                return LS_OK;
        }
        if (e != LS_OK) {
                lake->next_backup_ms = now_ms + LS_MIN(interval, BACKUP_RETRY_MS);
                lake->backup_tried_ms = lake->next_backup_ms;
                ls_metric_add(&metric_failures, 1);
                return e;
        }
        lake->backup_changes = changes;
        lake->backup_ms = now_ms;
        ls_metric_add(&metric_backups, 1);
        ls_metric_set(&metric_time, ls_clock_wall_ms() / 1000);
        return backup_trim(lake);
}
