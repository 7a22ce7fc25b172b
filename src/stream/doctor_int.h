/* stream/doctor_int.h - what doctor.c, doctor_table.c and rebuild_table.c share. */
#pragma once
#include "meta/meta.h"
#include "store/store.h"

/* The key of an object of this topic by its URI: what stands from the topic's folder on, so that a
 * moved store is still read. NULL: it is not of this topic. ls_free. */
char *doctor_uri_key(ls_uuid topic_id, ls_str uri);

/* Looks at what a table consists of but its data files: metadata, lists, manifests; `fn` gets a
 * line for each that is gone or damaged. A failure: of the metadata store. */
LS_MUST_USE ls_err doctor_table(struct ls_meta *meta, struct ls_store *store,
                                const struct ls_meta_stream *stream,
                                void (*fn)(void *ctx, const char *line), void *ctx);
