/* lake/table_int.h - a table's cached state and a commit under way: shared by table.c, manifests.c,
 * expire.c. */
#pragma once
#include "formats/iceberg/metadata.h"
#include "lake/lake_int.h"
#include "lake/shape.h"

/* The state that the last commit left, read-only. Within a run the stream's `table` does not
 * change; outside of one it is looked at under the stream's lock only. */
struct lake_table {
        struct ls_arena arena;     /* what is parsed */
        uint64_t version;          /* 0: the table has no metadata yet */
        char *metadata_key;        /* NULL at version 0 */
        struct ls_slice *metadata; /* the same */
        struct ls_iceberg_metadata m;
        const struct ls_iceberg_manifest_file *lines; /* of the current snapshot */
        size_t line_count;
};

struct lake_keys {
        char **items;
        size_t count, cap;
};

/* A table commit under way. */
struct lake_commit {
        struct ls_lake_stream *s;
        struct ls_lake_spec spec;
        const struct lake_table *t; /* what it is built on */
        struct lake_change *change; /* NULL: only metadata changes */
        struct ls_arena arena;      /* what is made on the way */
        struct ls_iceberg_metadata m;
        const struct ls_iceberg_spec *files_spec; /* of the added files */
        int64_t now_ms, snapshot_id;
        int64_t as_of_ms;                       /* the time of the snapshot: see table.c */
        uint64_t random;                        /* in the names of this commit's files */
        struct ls_iceberg_manifest_file *lines; /* of the new snapshot */
        size_t line_count, line_cap;
        struct ls_iceberg_delta delta;
        struct lake_keys written; /* garbage if the commit fails */
        struct lake_keys garbage; /* garbage if it succeeds */
        uint32_t number;          /* of the next manifest */
        bool handed_over;         /* to the metadata store */
};

void lake_keys_add(struct lake_keys *keys, char *key); /* takes it over */
void lake_keys_free(struct lake_keys *keys);

/* The table's present version in the metadata store. LS_ABSENT. */
LS_MUST_USE ls_err lake_table_version(struct ls_lake_stream *s, uint64_t *ret_version);

/* The cached state, loaded when it is not there, or when another broker has made a newer one; only
 * within a run. Good until the next call, or the next commit. */
LS_MUST_USE ls_err lake_table_get(struct ls_lake_stream *s, const struct lake_table **ret_table);
/* The key of an object of this stream by its URI, as the manifests name it: what stands behind the
 * topic's folder, so that a moved store is still read. NULL: it is not of this stream. */
char *lake_uri_key(const struct ls_lake_spec *spec, ls_str uri);
/* "<uri of the store>/<key>" in the arena. */
LS_MUST_USE ls_err lake_uri(struct lake_commit *c, const char *key, ls_str *ret_uri);
/* Puts an object of a commit; its key is kept as written. */
LS_MUST_USE ls_err lake_commit_put(struct lake_commit *c, char *key, const struct ls_buf *bytes);
/* Reads an object whole. LS_EBROKEN, with a line in the log, when it is absent or not readable as
 * what it should be. */
LS_MUST_USE ls_err lake_get(struct ls_lake_stream *s, const char *key, struct ls_slice **ret_bytes);
/* Reads the manifest that a line names, into `arena`. */
LS_MUST_USE ls_err lake_manifest_get(struct ls_lake_stream *s,
                                     const struct ls_iceberg_manifest_file *line,
                                     struct ls_arena *arena, struct ls_iceberg_manifest *ret);
/* Reads the manifest list of a snapshot. */
LS_MUST_USE ls_err lake_list_get(struct ls_lake_stream *s,
                                 const struct ls_iceberg_snapshot *snapshot, struct ls_arena *arena,
                                 const struct ls_iceberg_manifest_file **ret_lines,
                                 size_t *ret_count);

/* manifests.c: writes the manifests of the change and fills c->lines and c->delta. */
LS_MUST_USE ls_err lake_manifests_build(struct lake_commit *c);

/* expire.c: drops snapshots from c->m (bounded history: by count and age), and puts what only they
 * refer to on c->garbage. The newest snapshot, whose manifests are c->lines, stays. */
LS_MUST_USE ls_err lake_expire(struct lake_commit *c);
/* How long a data file that leaves the current snapshot must be kept. */
int64_t lake_file_grace_ms(const struct lake_commit *c);
/* When (wall) snapshots will be so old that a commit of its own is worth while. */
int64_t lake_expire_at(const struct lake_table *t, const struct ls_lake_spec *spec);
/* Publishes metadata without a new snapshot (the first metadata file, expiry). */
LS_MUST_USE ls_err lake_table_touch(struct ls_lake_stream *s);
