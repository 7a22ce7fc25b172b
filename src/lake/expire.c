/* lake/expire.c - snapshots that are too many or too old leave the metadata.
 *
 * The history is a line: each snapshot is made from the one before. So a manifest of an expired
 * snapshot that the oldest kept one does not have is in no later one either, and only that one list
 * must be read beside the lists of the expired.
 */
#include "base/assert.h"
#include "base/log.h"
#include "base/map.h"
#include "lake/table_int.h"

#define EXPIRE_MS_MAX \
        ((int64_t)10 * 365 * 24 * 3600 * 1000) /* longer is for ever, and would overflow sums */
#define EXPIRE_LAG_MS_MAX ((int64_t)600000)

/* How far above the bound the number of snapshots may grow, so that not every commit expires one.
 */
static size_t
slack(size_t keep)
{
        return keep / 10;
}

static int64_t
age_bound(const struct ls_lake_spec *spec)
{
        return LS_MIN(spec->settings->ints[LS_SET_TABLE_SNAPSHOT_MS], EXPIRE_MS_MAX);
}

/* When a snapshot was replaced by the next one: from then on its age counts. */
static int64_t
replaced_ms(const struct ls_iceberg_metadata *m, size_t i)
{
        return m->snapshots[i + 1].timestamp_ms;
}

/* Snapshots at the front of the list (oldest first) that go; the last always stays. */
static size_t
expired_count(const struct ls_iceberg_metadata *m, const struct ls_lake_spec *spec, int64_t now_ms)
{
        size_t keep = (size_t)spec->settings->ints[LS_SET_TABLE_SNAPSHOT_COUNT], drop = 0;

        if (m->snapshot_count > keep + slack(keep))
                drop = m->snapshot_count - keep;
        while (drop + 1 < m->snapshot_count && replaced_ms(m, drop) < now_ms - age_bound(spec))
                drop++;
        return m->snapshot_count > 0 ? LS_MIN(drop, m->snapshot_count - 1) : 0;
}

int64_t
lake_expire_at(const struct lake_table *t, const struct ls_lake_spec *spec)
{
        int64_t bound = age_bound(spec), lag = LS_MIN(bound / 10, EXPIRE_LAG_MS_MAX);

        return t->m.snapshot_count > 1 ? replaced_ms(&t->m, 0) + bound + lag + 1 : INT64_MAX;
}

int64_t
lake_file_grace_ms(const struct lake_commit *c)
{
        int64_t grace = LS_MIN(c->spec.settings->ints[LS_SET_TABLE_FILE_GRACE], EXPIRE_MS_MAX);

        /* A data file that leaves the current snapshot is still read by those who query an older
         * one that is kept; those are gone when their age is over. */
        if (c->change != NULL && c->change->old_file_count > 0 && c->m.snapshot_count > 1)
                grace = LS_MAX(grace, age_bound(&c->spec) + 2 * EXPIRE_LAG_MS_MAX);
        return grace;
}

/* The manifests of the oldest snapshot that stays. */
static ls_err
kept_manifests(struct lake_commit *c, const struct ls_iceberg_snapshot *oldest, struct ls_map *kept)
{
        const struct ls_iceberg_manifest_file *lines = c->lines;
        size_t count = c->line_count;

        if (oldest->snapshot_id != c->m.current_snapshot_id)
                LS_TRY(lake_list_get(c->s, oldest, &c->arena, &lines, &count));
        for (size_t i = 0; i < count; i++)
                ls_map_set(kept, ls_map_key_str(lines[i].path), kept);
        return LS_OK;
}

static void
add_garbage(struct lake_commit *c, ls_str uri)
{
        char *key = lake_uri_key(&c->spec, uri);

        if (key != NULL)
                lake_keys_add(&c->garbage, key);
}

/* The list of one expired snapshot, and what only it has. A list that cannot be read leaves its
 * manifests to the sweep: a damaged old snapshot must not stop new ones. */
static void
expire_one(struct lake_commit *c, const struct ls_iceberg_snapshot *snapshot, struct ls_map *kept)
{
        const struct ls_iceberg_manifest_file *lines = NULL;
        size_t count = 0;

        if (lake_list_get(c->s, snapshot, &c->arena, &lines, &count) != LS_OK)
                count = 0;
        for (size_t i = 0; i < count; i++)
                if (ls_map_set(kept, ls_map_key_str(lines[i].path), kept) == NULL)
                        add_garbage(c, lines[i].path);
        add_garbage(c, snapshot->manifest_list);
}

/* Lines of the log whose snapshot is gone leave it. */
static ls_err
trim_log(struct lake_commit *c)
{
        struct ls_iceberg_snapshot_log *log =
                ls_arena_array(&c->arena, c->m.snapshot_log_count + 1, sizeof *log);
        size_t count = 0;

        if (log == NULL)
                return LS_ELIMIT;
        for (size_t i = 0; i < c->m.snapshot_log_count; i++)
                if (ls_iceberg_metadata_snapshot(&c->m, c->m.snapshot_log[i].snapshot_id) != NULL)
                        log[count++] = c->m.snapshot_log[i];
        c->m.snapshot_log = log;
        c->m.snapshot_log_count = count;
        return LS_OK;
}

ls_err
lake_expire(struct lake_commit *c)
{
        size_t drop = expired_count(&c->m, &c->spec, c->now_ms);
        const struct ls_iceberg_snapshot *all = c->m.snapshots;
        struct ls_map kept;
        ls_err e;

        if (drop == 0)
                return LS_OK;
        LS_ASSERT(drop < c->m.snapshot_count);
        ls_map_init(&kept);
        e = kept_manifests(c, &all[drop], &kept);
        for (size_t i = 0; i < drop && e == LS_OK; i++)
                expire_one(c, &all[i], &kept);
        ls_map_done(&kept);
        LS_TRY(e);
        c->m.snapshots = all + drop;
        c->m.snapshot_count -= drop;
        return trim_log(c);
}
