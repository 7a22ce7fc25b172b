/* store/objects.h - the store that services over HTTP have in common (s3/, azure/, gcs/).
 *
 * A back end says how its service is asked for one thing: a look, a read, a write of a whole
 * object, a page of a list, the steps of an upload in parts. What follows from the answers is the
 * same for all and is here. Every write carries a token of its own in the object's metadata. When
 * the answer to a conditional write is lost, or a repeated one meets an object, a look at that
 * token tells whether it is ours: nothing is assumed (design, invariant 3; store.h, outcomes).
 *
 * Threads: any; nothing here changes after the store is open.
 */
#pragma once
#include "store/remote.h"
#include "store/store_int.h"
#include "store/upload.h"

#define STORE_WRITE_TOKEN_TEXT 33 /* 32 hex digits and a NUL */

struct store_objects;

/* One write of a whole object. */
struct store_write {
        const char *key;
        const ls_span *spans;
        size_t count;
        bool if_absent;
        const char *etag; /* NULL, or what must be the current one */
        bool etag_plain;  /* written without quotes: for a store that wants it so (s3.c) */
        char token[STORE_WRITE_TOKEN_TEXT];
};

struct store_entry {
        char *key; /* the whole name, with the store's prefix */
        struct ls_store_info info;
};

/* A part of a list. */
struct store_page {
        struct store_entry *entries; /* in byte order of their names: checked here */
        size_t count, cap;
        struct store_entry next; /* being read */
        char *marker;            /* where the next page begins, if the service says so; or NULL */
        bool more;               /* another page may hold more */
};

/* An upload in parts: nothing is visible before its end. */
struct store_large {
        struct ls_store_writer writer;
        struct store_objects *o;
        char *key;
        char token[STORE_WRITE_TOKEN_TEXT];
        char *id; /* what the service calls it; NULL: nothing was sent yet */
        struct ls_buf part;
        size_t part_count;          /* sent, or on their way */
        uint64_t sent_bytes;        /* in them */
        struct store_upload *parts; /* they; NULL: none, or they go in order */
};

/* All return outcomes of store.h, and tell what was never answered as it is. */
struct store_objects_ops {
        size_t page_max;   /* entries of a page */
        size_t part_bytes; /* of all parts but the last */
        size_t parts_max;
        /* Parts go one after another, the last of them with the end; else several at once. */
        bool in_order;
        /* *ret_token: that of the write that made it, or "". */
        ls_err (*look)(struct store_objects *o, const char *key, struct ls_store_info *ret_info,
                       char ret_token[STORE_TOKEN_TEXT_MAX]);
        /* `range` as HTTP has it; NULL: all. LS_TOO_LARGE: more than bytes_max. */
        ls_err (*read)(struct store_objects *o, const char *key, const char *range,
                       size_t bytes_max, struct store_answer *ret_answer);
        /* LS_EXISTS: a condition is not met. *ret_repeated: an earlier try may have happened. */
        ls_err (*write)(struct store_objects *o, const struct store_write *w, bool *ret_repeated);
        /* About `count` entries with `prefix`, from the first behind `after` (NULL: all) or from
         * `marker` on (NULL: none is known). Entries up to `after` may be among them. */
        ls_err (*page)(struct store_objects *o, const char *prefix, const char *after,
                       const char *marker, size_t count, struct store_page *ret_page);
        /* Sets u->id. */
        ls_err (*upload_begin)(struct store_large *u);
        /* Sends part `number`, from 1; any thread, unless in_order. *ret_etag: what the service
         * wants to have back. */
        ls_err (*upload_part)(struct store_large *u, size_t number, ls_span part,
                              char ret_etag[STORE_ETAG_TEXT_MAX]);
        /* Makes the object, if there is none. All parts are there; in_order: but u->part, which is
         * at least a byte. */
        ls_err (*upload_end)(struct store_large *u, bool *ret_repeated);
        /* Drops what was sent, if that can be done. */
        void (*upload_drop)(struct store_large *u);
};

/* Back ends embed this first. */
struct store_objects {
        struct ls_store store;
        const struct store_objects_ops *how;
        struct store_remote *remote;
        struct ls_jobs *jobs; /* send parts; NULL: in_order */
        char *uri;
        char *prefix; /* "" or "a/b/" */
};

/* `root`: "s3://bucket", what stands before the prefix in the uri. `prefix`: without '/' at its
 * ends; NULL or "": none. LS_INVALID with words. */
LS_MUST_USE ls_err store_objects_init(struct store_objects *o, const struct ls_store_ops *ops,
                                      const struct store_objects_ops *how, const char *root,
                                      const char *prefix, struct ls_errinfo *reterr);
/* Accepts one that was not begun (all zero). */
void store_objects_done(struct store_objects *o);

/* For the table of ls_store_ops. */
ls_err store_objects_put(struct ls_store *s, const char *key, const ls_span *spans, size_t count);
ls_err store_objects_put_if_absent(struct ls_store *s, const char *key, const ls_span *spans,
                                   size_t count);
ls_err store_objects_put_if_match(struct ls_store *s, const char *key, const char *etag,
                                  ls_span bytes);
ls_err store_objects_get(struct ls_store *s, const char *key, uint64_t pos, size_t len,
                         struct ls_slice **ret_bytes);
ls_err store_objects_head(struct ls_store *s, const char *key, struct ls_store_info *ret_info);
ls_err
store_objects_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
                   ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info),
                   void *ctx);
ls_err store_objects_writer_open(struct ls_store *s, const char *key,
                                 struct ls_store_writer **ret_writer);

/* One conditional write. *ret_same (on LS_EXISTS): the object is unchanged all the same. */
LS_MUST_USE ls_err store_objects_match(struct store_objects *o, const char *key, const char *etag,
                                       bool etag_plain, ls_span bytes, bool *ret_same);
/* Fills from the headers of an answer. */
void store_info_of(const struct store_answer *a, struct ls_store_info *ret_info);
/* Takes page->next among the entries. LS_CORRUPT: it has no key. */
LS_MUST_USE ls_err store_page_add(struct store_page *page);
