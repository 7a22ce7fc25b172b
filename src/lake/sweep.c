/* lake/sweep.c - orphans: objects that a process wrote and died before any commit named them.
 *
 * Names carry the epoch of the broker that wrote. What was written in an epoch that is closed, is
 * old, and is named by nothing (no data file, no kept snapshot's list or manifest, no metadata file
 * in the log, and not waiting on the garbage list), nobody will name any more: its writer is
 * fenced. It goes on the garbage list, due at once.
 *
 * Several brokers. An epoch is of one opening of one broker; which are open is looked at *before*
 * the names: a writer that is closed by then has named all that it ever will. Objects of the WAL in
 * the store (wal/<epoch>/<sequence>.wal) are swept by the same rule; other objects there (what
 * witnesses an epoch) stay. The epoch of a broker that died and does not come back under its number
 * stays open, and with it its garbage.
 */
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/map.h"
#include "base/metric.h"
#include "lake/table_int.h"

#define SWEEP_PAGE 1000

static LS_METRIC(metric_orphans, COUNTER, "lakestream_orphans_total",
                 "Objects found that no commit names.");

struct sweep {
        struct ls_lake_stream *s;
        struct ls_lake_spec spec;
        struct ls_map named; /* keys */
        struct lake_epochs epochs;
        int64_t before_ms;
        struct lake_keys orphans;
        char *last; /* of the page */
        size_t seen;
};

static void
name(struct sweep *w, ls_str key)
{
        ls_map_set(&w->named, ls_map_key_str(key), w);
}

static void
name_uri(struct sweep *w, ls_str uri)
{
        LS_AUTO(ls_free) char *key = lake_uri_key(&w->spec, uri);

        if (key != NULL)
                name(w, ls_str_of(key));
}

static ls_err
name_garbage(void *ctx, const char *key)
{
        name(ctx, ls_str_of(key));
        return LS_OK;
}

static ls_err
name_file(void *ctx, const struct ls_meta_file *f)
{
        name(ctx, ls_str_of(f->key));
        return LS_OK;
}

/* All that the table names now. Within a run, so that no commit comes between. A damaged list ends
 * the sweep: what it would name is not known. */
static ls_err
name_table(struct sweep *w)
{
        const struct lake_table *t;

        LS_TRY(lake_table_get(w->s, &t));
        if (t->metadata_key != NULL)
                name(w, ls_str_of(t->metadata_key));
        for (size_t i = 0; i < t->m.metadata_log_count; i++)
                name_uri(w, t->m.metadata_log[i].metadata_file);
        for (size_t i = 0; i < t->m.snapshot_count; i++) {
                const struct ls_iceberg_manifest_file *lines;
                struct ls_arena arena;
                size_t count;
                ls_err e;

                ls_arena_init(&arena, (size_t)256 << 20);
                e = lake_list_get(w->s, &t->m.snapshots[i], &arena, &lines, &count);
                for (size_t k = 0; e == LS_OK && k < count; k++)
                        name_uri(w, lines[k].path);
                ls_arena_done(&arena);
                LS_TRY(e);
                name_uri(w, t->m.snapshots[i].manifest_list);
        }
        LS_TRY(ls_meta_files(w->s->lake->o.meta, w->spec.stream_id, true, name_file, w));
        LS_TRY(ls_meta_files(w->s->lake->o.meta, w->spec.stream_id, false, name_file, w));
        return ls_meta_garbage_all(w->s->lake->o.meta, name_garbage, w);
}

/* The epoch in "…/data/<epoch>-…" and "…/metadata/[<version>-]<epoch>-…"; false: a name that is
 * none of ours. */
static bool
key_epoch(const char *key, uint64_t *ret_epoch)
{
        const char *base = strrchr(key, '/'), *dash;
        size_t len = strlen(key);
        int64_t epoch;

        if (base == NULL)
                return false;
        base++;
        if (len > 14 && strcmp(key + len - 14, ".metadata.json") == 0) {
                base = strchr(base, '-');
                if (base == NULL)
                        return false;
                base++;
        }
        dash = strchr(base, '-');
        if (dash == NULL ||
            !ls_str_to_i64(ls_str_make(base, (size_t)(dash - base)), 0, INT64_MAX, &epoch))
                return false;
        *ret_epoch = (uint64_t)epoch;
        return true;
}

static ls_err
look_at(void *ctx, const char *key, const struct ls_store_info *info)
{
        struct sweep *w = ctx;
        uint64_t epoch;

        w->seen++;
        ls_free(w->last);
        w->last = ls_strdup(key);
        if (info->modified_ms >= w->before_ms || !key_epoch(key, &epoch) ||
            !lake_epoch_closed(&w->epochs, epoch))
                return LS_OK;
        if (ls_map_get(&w->named, ls_map_key_str(ls_str_of(key))) == NULL)
                lake_keys_add(&w->orphans, ls_strdup(key));
        return LS_OK;
}

static ls_err
sweep_folder(struct sweep *w)
{
        LS_AUTO(ls_free) char *folder = lake_key(&w->spec, "%s", "");

        for (;;) {
                LS_AUTO(ls_free) char *after = w->last ? ls_strdup(w->last) : NULL;

                if (lake_stopping(w->s->lake) || atomic_load(&w->s->gone))
                        return LS_OK;
                w->seen = 0;
                LS_TRY(ls_store_list(w->s->lake->o.store, folder, after, SWEEP_PAGE, look_at, w));
                if (w->seen < SWEEP_PAGE)
                        return LS_OK;
        }
}

ls_err
lake_sweep(struct ls_lake_stream *s, int64_t age_ms)
{
        struct sweep w = { .s = s,
                           .spec = lake_spec(s),
                           .before_ms = lake_now_ms(s->lake) - age_ms };
        ls_err e;

        LS_TRY(lake_run_begin(s, INT64_MAX));
        ls_map_init(&w.named);
        e = lake_epochs_read(s->lake, &w.epochs);
        if (e == LS_OK)
                e = name_table(&w);
        lake_run_end(s, LS_OK);
        if (e == LS_OK)
                e = sweep_folder(&w);
        if (e == LS_OK && w.orphans.count > 0) {
                e = ls_meta_garbage_add(s->lake->o.meta, (const char *const *)w.orphans.items,
                                        w.orphans.count, lake_now_ms(s->lake));
                ls_metric_add(&metric_orphans, (int64_t)w.orphans.count);
                ls_log_info("lake", "event=orphans topic=%s objects=%zu", w.spec.kafka_name,
                            w.orphans.count);
        }
        lake_keys_free(&w.orphans);
        lake_epochs_free(&w.epochs);
        ls_map_done(&w.named);
        ls_free(w.last);
        return e;
}

/* --- the WAL's objects --- */

#define WAL_PREFIX "wal/"

struct wal_sweep {
        struct ls_lake *lake;
        struct lake_epochs epochs;
        int64_t before_ms;
        struct ls_map orphans; /* keys: what nothing was found to name */
        char *last;            /* of the page */
        size_t seen;
};

/* "wal/<epoch>/<sequence>.wal", exactly as ls_wal_key writes it; else it is not an object of ours.
 */
static bool
wal_key_epoch(const char *key, uint64_t *ret_epoch)
{
        ls_str rest = ls_str_of(key + strlen(WAL_PREFIX)), number;
        char again[LS_META_WAL_KEY_BYTES];
        int64_t epoch, sequence;
        const char *slash = strchr(rest.ptr, '/'), *dot = strrchr(rest.ptr, '.');

        if (slash == NULL || dot == NULL || dot < slash)
                return false;
        number = ls_str_make(rest.ptr, (size_t)(slash - rest.ptr));
        if (!ls_str_to_i64(number, 0, INT64_MAX, &epoch))
                return false;
        number = ls_str_make(slash + 1, (size_t)(dot - slash - 1));
        if (!ls_str_to_i64(number, 0, INT64_MAX, &sequence))
                return false;
        ls_wal_key(ls_wal_segment_number((uint64_t)epoch, (uint64_t)sequence), again);
        *ret_epoch = (uint64_t)epoch;
        return strcmp(again, key) == 0;
}

static ls_err
wal_look_at(void *ctx, const char *key, const struct ls_store_info *info)
{
        struct wal_sweep *w = ctx;
        uint64_t epoch;

        w->seen++;
        ls_free(w->last);
        w->last = ls_strdup(key);
        if (info->modified_ms < w->before_ms && wal_key_epoch(key, &epoch) &&
            lake_epoch_closed(&w->epochs, epoch))
                ls_map_set(&w->orphans, ls_map_key_str(ls_str_of(key)), w);
        return LS_OK;
}

static ls_err
wal_list(struct wal_sweep *w)
{
        do {
                LS_AUTO(ls_free) char *after = w->last ? ls_strdup(w->last) : NULL;
                ls_err e = lake_lease_upkeep(w->lake);

                if (e != LS_OK || lake_stopping(w->lake))
                        return e != LS_OK ? e : LS_ESHUTDOWN;
                w->seen = 0;
                LS_TRY(ls_store_list(w->lake->o.store, WAL_PREFIX, after, SWEEP_PAGE, wal_look_at,
                                     w));
        } while (w->seen >= SWEEP_PAGE);
        return LS_OK;
}

static ls_err
wal_named(void *ctx, uint64_t segment)
{
        struct wal_sweep *w = ctx;
        char key[LS_META_WAL_KEY_BYTES];

        ls_wal_key(segment, key);
        (void)ls_map_remove(&w->orphans, ls_map_key_str(ls_str_of(key)));
        return LS_OK;
}

static ls_err
wal_waits(void *ctx, const char *key)
{
        struct wal_sweep *w = ctx;

        (void)ls_map_remove(&w->orphans, ls_map_key_str(ls_str_of(key)));
        return LS_OK;
}

static ls_err
wal_abandon(struct wal_sweep *w)
{
        struct lake_keys keys = { 0 };
        struct ls_map_entry *entry;
        size_t pos = 0;
        ls_err e;

        while ((entry = ls_map_next(&w->orphans, &pos)) != NULL)
                lake_keys_add(&keys,
                              ls_str_dup(ls_str_make((const char *)entry->key, entry->key_len)));
        e = ls_meta_garbage_add(w->lake->o.meta, (const char *const *)keys.items, keys.count,
                                lake_now_ms(w->lake));
        if (e == LS_OK && keys.count > 0) {
                ls_metric_add(&metric_orphans, (int64_t)keys.count);
                ls_log_info("lake", "event=wal_orphans objects=%zu", keys.count);
        }
        lake_keys_free(&keys);
        return e;
}

ls_err
lake_sweep_wal(struct ls_lake *lake, int64_t age_ms)
{
        struct wal_sweep w = { .lake = lake, .before_ms = lake_now_ms(lake) - age_ms };
        ls_err e = lake_epochs_read(lake, &w.epochs);

        LS_ASSERT(lake->o.shared);
        ls_map_init(&w.orphans);
        if (e == LS_OK)
                e = wal_list(&w);
        if (e == LS_OK && w.orphans.count > 0)
                e = ls_meta_wal_segments(lake->o.meta, wal_named, &w);
        if (e == LS_OK && w.orphans.count > 0)
                e = ls_meta_garbage_all(lake->o.meta, wal_waits, &w);
        if (e == LS_OK && w.orphans.count > 0)
                e = wal_abandon(&w);
        ls_map_done(&w.orphans);
        lake_epochs_free(&w.epochs);
        ls_free(w.last);
        return e;
}
