/* store/store.h - the object store: immutable bytes under a key.
 *
 * One ops struct, several back ends: local/ (a folder), s3/ (what speaks S3), azure/ (Azure Blob
 * Storage), gcs/ (Google Cloud Storage), mem/ and fault/ (tests). All calls block; call them from
 * jobs or own threads; any thread.
 *
 * Keys: 1 to LS_STORE_KEY_BYTES_MAX bytes of [A-Za-z0-9._=%+-] and '/', no empty, "." or ".."
 * level, none above LS_STORE_LEVEL_BYTES_MAX, no leading or trailing '/'. No key is a folder of
 * another ("a" beside "a/b"): where a back end notices (local and mem do), that is LS_INVALID,
 * as any bad key is.
 *
 * Outcomes, told apart because callers decide by them: LS_ABSENT, LS_EXISTS (put-if-absent lost:
 * final, HTTP 412), LS_CONFLICT (an operation on the key is under way: try again, HTTP 409),
 * LS_THROTTLED (slow down), LS_UNKNOWN_OUTCOME (the reply was lost: it may or may not have
 * happened; look before deciding), LS_DENIED, LS_OUT_OF_RANGE (range past the end). Failures:
 * LS_ENOSPC, LS_EREADONLY, LS_EIO.
 */
#pragma once
#include "base/options.h"
#include "base/slice.h"

#define LS_STORE_KEY_BYTES_MAX   900
#define LS_STORE_LEVEL_BYTES_MAX 255 /* what file systems take */
#define LS_STORE_ETAG_BYTES      64

struct ls_store_info {
        uint64_t bytes;
        int64_t modified_ms; /* the store's clock */
        char etag[LS_STORE_ETAG_BYTES];
};

struct ls_store;

/* An upload in parts of what is too large to hold: nothing is visible before finish. */
struct ls_store_writer;

struct ls_store_ops {
        const char *name;
        ls_err (*put)(struct ls_store *s, const char *key, const ls_span *spans, size_t count);
        ls_err (*put_if_absent)(struct ls_store *s, const char *key, const ls_span *spans,
                                size_t count);
        ls_err (*put_if_match)(struct ls_store *s, const char *key, const char *etag,
                               ls_span bytes);
        ls_err (*get)(struct ls_store *s, const char *key, uint64_t pos, size_t len,
                      struct ls_slice **ret_bytes);
        ls_err (*head)(struct ls_store *s, const char *key, struct ls_store_info *ret_info);
        ls_err (*list)(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
                       ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info),
                       void *ctx);
        ls_err (*del)(struct ls_store *s, const char *key);
        /* NULL: `del` is called for each. */
        ls_err (*del_many)(struct ls_store *s, const char *const *keys, size_t count,
                           size_t *ret_failed);
        ls_err (*writer_open)(struct ls_store *s, const char *key,
                              struct ls_store_writer **ret_writer);
        /* NULL: engines need to be told nothing. */
        void (*engine_config)(struct ls_store *s,
                              void (*fn)(void *ctx, const char *name, const char *value),
                              void *ctx);
        void (*close)(struct ls_store *s);
};
/* Back ends embed this first. */
struct ls_store {
        const struct ls_store_ops *ops;
        /* What engines prefix to a key: "file:///abs/dir" or "s3://bucket/prefix". */
        const char *uri;
};
struct ls_store_writer {
        ls_err (*write)(struct ls_store_writer *w, ls_span bytes);
        /* Makes it visible and durable (if absent: LS_EXISTS); frees the writer in any case. */
        ls_err (*finish)(struct ls_store_writer *w);
        /* Drops what was written; frees the writer. */
        void (*cancel)(struct ls_store_writer *w);
};

/* Durable when it returns LS_OK. Replaces. */
LS_MUST_USE ls_err ls_store_put(struct ls_store *s, const char *key, ls_span bytes);
LS_MUST_USE ls_err ls_store_put_if_absent(struct ls_store *s, const char *key, ls_span bytes);
/* LS_EXISTS: the etag is another one now; LS_ABSENT: gone. */
LS_MUST_USE ls_err ls_store_put_if_match(struct ls_store *s, const char *key, const char *etag,
                                         ls_span b);
/* [pos, pos+len): LS_OUT_OF_RANGE when the object is shorter. len 0: the whole from pos. */
LS_MUST_USE ls_err ls_store_get(struct ls_store *s, const char *key, uint64_t pos, size_t len,
                                struct ls_slice **ret_bytes);
LS_MUST_USE ls_err ls_store_head(struct ls_store *s, const char *key,
                                 struct ls_store_info *ret_info);
/* Keys with `prefix` ("": all), in byte order, greater than `after` (NULL: all), at most
 * count_max. fn may call the store. A result other than LS_OK of fn ends the list and is
 * returned. LS_INVALID: no key can have this prefix. */
LS_MUST_USE ls_err ls_store_list(
        struct ls_store *s, const char *prefix, const char *after, size_t count_max,
        ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info), void *ctx);
/* A missing object is LS_OK: deletes are repeated. */
LS_MUST_USE ls_err ls_store_delete(struct ls_store *s, const char *key);
/* Deletes all; *ret_failed (may be NULL) counts those that did not go; the first error is
 * returned. */
LS_MUST_USE ls_err ls_store_delete_many(struct ls_store *s, const char *const *keys, size_t count,
                                        size_t *ret_failed);
LS_MUST_USE ls_err ls_store_writer_open(struct ls_store *s, const char *key,
                                        struct ls_store_writer **ret_w);
/* Conditional writes honoured, read after write, list after write: LS_UNSUPPORTED with words else.
 * Leaves nothing behind. */
LS_MUST_USE ls_err ls_store_probe(struct ls_store *s, struct ls_errinfo *reterr);
/* "uri/key", to be freed with ls_free. */
char *ls_store_uri(const struct ls_store *s, const char *key);
/* What an engine must be told to read the objects by their uris, no secrets among it: properties of
 * Iceberg's FileIO ("s3.endpoint" …). */
void ls_store_engine_config(struct ls_store *s,
                            void (*fn)(void *ctx, const char *name, const char *value), void *ctx);
bool ls_store_key_ok(const char *key);
void ls_store_close(struct ls_store *s);

/* The one that the setting store.url names; without it the folder `dir`. With words. */
LS_MUST_USE ls_err ls_store_open(const struct ls_options *options, const char *dir,
                                 struct ls_store **ret_store, struct ls_errinfo *reterr);
/* Folder back end: durable (fsync of file and folder), atomic rename, safe names. */
LS_MUST_USE ls_err ls_store_local_open(const char *dir, struct ls_store **ret_store,
                                       struct ls_errinfo *reterr);

enum ls_store_s3_style {
        LS_STORE_S3_AUTO, /* the path where an endpoint is given, else the host */
        LS_STORE_S3_PATH, /* https://endpoint/bucket/key */
        LS_STORE_S3_HOST, /* https://bucket.endpoint/key */
};
/* Texts are borrowed until the call returns; NULL or "" where one may be missing. */
struct ls_store_s3_options {
        const char *bucket;
        const char *prefix;   /* of all keys, without '/' at its ends; may be missing */
        const char *endpoint; /* "http://host:port"; missing: AWS in `region` */
        const char *region;   /* missing: as the environment or the profile says, else us-east-1 */
        enum ls_store_s3_style style;
        const char *access, *secret, *session; /* missing: see s3/credentials.h */
        const char *ca_file;                   /* missing: the system's */
        size_t connections_max;                /* requests under way at once */
        int64_t deadline_ms;                   /* of a call with all its tries */
        int64_t hedge_ms; /* a read that waits this long, and long for this store, is asked twice */
};
#define LS_STORE_S3_DEFAULTS .connections_max = 64, .deadline_ms = 60000, .hedge_ms = 200
/* Bucket of S3 or of what speaks S3. Differs from the contract above in two points: an etag comes
 * back when the same bytes do, and a key may be a folder of another. Nothing is sent but what
 * finding credentials needs. With words: LS_INVALID, LS_ABSENT (no credentials), LS_DENIED,
 * LS_ENET. */
LS_MUST_USE ls_err ls_store_s3_open(const struct ls_store_s3_options *options,
                                    struct ls_store **ret_store, struct ls_errinfo *reterr);

/* Texts are borrowed until the call returns; NULL or "" where one may be missing. */
struct ls_store_azure_options {
        const char *container;
        const char *prefix;  /* of all keys, without '/' at its ends; may be missing */
        const char *account; /* missing: AZURE_STORAGE_ACCOUNT */
        /* "https://host", or "http://host:port/account" of an emulator; missing: Azure's */
        const char *endpoint;
        const char *key, *sas;  /* missing: see azure/credentials.h */
        const char *ca_file;    /* missing: the system's */
        size_t connections_max; /* requests under way at once */
        int64_t deadline_ms;    /* of a call with all its tries */
        int64_t hedge_ms;       /* as of S3 */
};
#define LS_STORE_AZURE_DEFAULTS .connections_max = 64, .deadline_ms = 60000, .hedge_ms = 200
/* Container of Azure Blob Storage. Differs from the contract above in one point: a key may be a
 * folder of another. Its uri is how engines name it,
 * "abfss://container@account.dfs.core.windows.net/prefix". Nothing is sent but what finding
 * credentials needs. With words: LS_INVALID, LS_ABSENT (no credentials), LS_DENIED, LS_ENET. */
LS_MUST_USE ls_err ls_store_azure_open(const struct ls_store_azure_options *options,
                                       struct ls_store **ret_store, struct ls_errinfo *reterr);

/* Texts are borrowed until the call returns; NULL or "" where one may be missing. */
struct ls_store_gcs_options {
        const char *bucket;
        const char *prefix;           /* of all keys, without '/' at its ends; may be missing */
        const char *endpoint;         /* missing: STORAGE_EMULATOR_HOST, else Google's */
        const char *token;            /* of OAuth, that stays; may be missing */
        const char *credentials_file; /* missing: see gcs/credentials.h */
        const char *ca_file;          /* missing: the system's */
        size_t connections_max;       /* requests under way at once */
        int64_t deadline_ms;          /* of a call with all its tries */
        int64_t hedge_ms;             /* as of S3 */
};
#define LS_STORE_GCS_DEFAULTS .connections_max = 64, .deadline_ms = 60000, .hedge_ms = 200
/* Bucket of Google Cloud Storage. Differs from the contract above in one point: a key may be a
 * folder of another. To an endpoint of http:// no credentials go but a given token. Nothing is sent
 * but what finding credentials needs. With words: LS_INVALID, LS_ABSENT (no credentials),
 * LS_DENIED, LS_EIO (a file cannot be read), LS_ENET. */
LS_MUST_USE ls_err ls_store_gcs_open(const struct ls_store_gcs_options *options,
                                     struct ls_store **ret_store, struct ls_errinfo *reterr);

/* Keeps ranges of objects of `inner` (taken over; closed with it) in memory, at most bytes_max: for
 * stores that are far away and whose objects are never replaced by others. Reads that want the same
 * range share one request, and readers that go from front to back find it read ahead. */
LS_MUST_USE ls_err ls_store_cache_new(struct ls_store *inner, uint64_t bytes_max,
                                      struct ls_store **ret_store, struct ls_errinfo *reterr);
/* In memory, for tests. */
struct ls_store *ls_store_mem_new(void);

/* Wraps `inner` (borrowed) and fails by script, for tests. `decide` (NULL: all pass; from any
 * thread) is asked before each call with its name ("put", "put_if_absent", "put_if_match",
 * "get", "head", "list", "delete" for each key, "writer_open", "writer_write", "writer_finish"),
 * its key and its number from 0. */
enum ls_fault_action {
        LS_FAULT_PASS,
        LS_FAULT_FAIL_BEFORE, /* *err is returned, nothing happened */
        LS_FAULT_FAIL_AFTER,  /* it happened, *err is returned (lost reply) */
        LS_FAULT_TRUNCATE,    /* half of the bytes (keys) arrive, then *err, which may be LS_OK */
        LS_FAULT_FLIP,        /* one bit of what a get reads is wrong */
};
struct ls_store *ls_store_fault_new(struct ls_store *inner,
                                    enum ls_fault_action (*decide)(void *ctx, const char *op,
                                                                   const char *key, uint64_t number,
                                                                   ls_err *err),
                                    void *ctx);
