/* stream/table.h - streams as tables, for servers: what the Iceberg REST catalog and the CLI need.
 * All calls block: make them from a job or an HTTP thread. */
#pragma once
#include "stream/stream.h"

/* A loaded table. */
struct ls_table {
        char *metadata_uri;                 /* "file:///…/metadata/00007-….metadata.json" */
        struct ls_slice *metadata;          /* its JSON */
        char etag[LS_UUID_TEXT_BYTES + 32]; /* changes with the metadata; without quotes */
        bool fresh;                         /* every record acknowledged before the call is in it */
        int64_t behind_records;             /* known to be missing when not fresh */
};
void ls_table_done(struct ls_table *t);
/* What an engine must be told to read tables' files: properties of Iceberg's FileIO. No secrets. */
void ls_table_engine_config(struct ls_streams *s,
                            void (*fn)(void *ctx, const char *name, const char *value), void *ctx);
/* Compacts and commits the tail first (concurrent loads share one commit; no new data: no commit),
 * for at most `deadline_ms` (-1: the setting table.load.max.ms), then gives the newest metadata;
 * `fresh` says whether the bound was met. A stream that never had a record gets metadata without a
 * snapshot. LS_ABSENT: deleted. */
LS_MUST_USE ls_err ls_table_load(struct ls_streams *s, struct ls_stream *stream,
                                 int64_t deadline_ms, struct ls_table *ret_table,
                                 struct ls_errinfo *reterr);
/* The etag that a load without new data would give, without committing: LS_OK and *ret_current when
 * `etag` is still that of a fresh table (then 304). */
LS_MUST_USE ls_err ls_table_unchanged(struct ls_streams *s, struct ls_stream *stream,
                                      const char *etag, bool *ret_current);

struct ls_table_verify {
        int64_t records_log, records_table;
        uint64_t hash_log,
                hash_table; /* sums of h x (2 offset + 1), docs/formats/record_batch.md */
        int64_t files;
        bool equal;
        char first_difference[256];
};
/* Recomputes from the files (`deep`), or compares the sums in the metadata. */
LS_MUST_USE ls_err ls_table_verify(struct ls_streams *s, struct ls_stream *stream, bool deep,
                                   struct ls_table_verify *ret, struct ls_errinfo *reterr);
struct ls_table_file {
        const char *uri;
        uint64_t bytes;
        int64_t rows;
};
LS_MUST_USE ls_err ls_table_files(struct ls_streams *s, struct ls_stream *stream,
                                  ls_err (*fn)(void *ctx, const struct ls_table_file *file),
                                  void *ctx);

/* Namespaces: those that streams imply and those made by hand. Levels joined by '.'. */
LS_MUST_USE ls_err ls_namespace_list(struct ls_streams *s, ls_str catalog,
                                     ls_err (*fn)(void *ctx, const char *ns), void *ctx);
/* LS_ABSENT. *ret_properties is JSON text (ls_free). */
LS_MUST_USE ls_err ls_namespace_get(struct ls_streams *s, ls_str catalog, ls_str ns,
                                    char **ret_properties);
LS_MUST_USE ls_err ls_namespace_create(struct ls_streams *s, ls_str catalog, ls_str ns,
                                       ls_str properties);
LS_MUST_USE ls_err ls_namespace_set(struct ls_streams *s, ls_str catalog, ls_str ns,
                                    ls_str properties);
/* LS_NOT_EMPTY when streams live in it. */
LS_MUST_USE ls_err ls_namespace_drop(struct ls_streams *s, ls_str catalog, ls_str ns);
