/* lake/sweep.c - orphans: objects that a process wrote and died before any commit named them.
 *
 * Names carry the epoch of the broker that wrote. What an earlier epoch wrote, is old, and is named
 * by nothing (no data file, no kept snapshot's list or manifest, no metadata file in the log, and
 * not waiting on the garbage list), nobody will name any more: its writer is fenced. It goes on the
 * garbage list, due at once.
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
        uint64_t epoch;
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
        return ls_meta_garbage(w->s->lake->o.meta, INT64_MAX, SIZE_MAX, name_garbage, w);
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
        if (info->modified_ms >= w->before_ms || !key_epoch(key, &epoch) || epoch >= w->epoch)
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
                           .epoch = ls_meta_broker_epoch(s->lake->o.meta),
                           .before_ms = ls_clock_wall_ms() - age_ms };
        ls_err e;

        LS_TRY(lake_run_begin(s, INT64_MAX));
        ls_map_init(&w.named);
        e = name_table(&w);
        lake_run_end(s, LS_OK);
        if (e == LS_OK)
                e = sweep_folder(&w);
        if (e == LS_OK && w.orphans.count > 0) {
                e = ls_meta_garbage_add(s->lake->o.meta, (const char *const *)w.orphans.items,
                                        w.orphans.count, ls_clock_wall_ms());
                ls_metric_add(&metric_orphans, (int64_t)w.orphans.count);
                ls_log_info("lake", "event=orphans topic=%s objects=%zu", w.spec.kafka_name,
                            w.orphans.count);
        }
        lake_keys_free(&w.orphans);
        ls_map_done(&w.named);
        ls_free(w.last);
        return e;
}
