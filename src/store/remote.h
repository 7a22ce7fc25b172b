/* store/remote.h - requests to an object store over HTTP, for the back ends that speak it
 * (s3/, azure/, gcs/).
 *
 * What all of them share: connections kept open, a bound on those in use, tries with growing random
 * pauses, a budget of tries so that a store in trouble is not hit harder, deadlines, hedged reads,
 * and the one distinction that everything above relies on: whether a request that failed may have
 * happened all the same.
 *
 * Threads: any; a call blocks its caller.
 */
#pragma once
#include "base/buf.h"
#include "base/slice.h"
#include "store/limits.h"

struct store_remote;

struct store_remote_options {
        const char *base;       /* "https://host[:port]", no '/' at the end */
        const char *name;       /* of metrics: "s3" */
        const char *ca_file;    /* PEM of who is trusted; NULL or "": the system's */
        size_t connections_max; /* in use at once; calls above it wait */
        int64_t deadline_ms;    /* of a call with all its tries */
        int64_t hedge_ms;       /* least wait before a read is asked a second time; 0: never */
        const char *keep[STORE_KEPT_MAX]; /* headers of answers that are kept; NULL: none */
};

struct store_answer;

/* A header that is sent. Names in lower case. */
struct store_header {
        const char *name;
        const char *value;
};

struct store_request {
        const char *method; /* "GET", "PUT", "POST", "HEAD", "DELETE" */
        const char *host;   /* as it is signed and sent; NULL: that of the base */
        const char *path;   /* encoded, from '/' */
        const char *query;  /* encoded, sorted by name; "" for none */
        struct store_header headers[STORE_HEADERS_MAX];
        size_t header_count;
        const ls_span *body; /* borrowed until the call ends */
        size_t body_count;
        size_t answer_bytes_max; /* of a body that is kept */
        bool read_only;          /* changes nothing: it may be hedged */
        /* Whether this answer says that another operation on the key is under way: try again. NULL:
         * none does. */
        bool (*conflict)(const struct store_answer *answer);
        /* Called before each try with what is about to be sent; adds headers (their text must live
         * until the call ends: `scratch` is for it). */
        ls_err (*sign)(void *ctx, struct store_request *r, struct ls_buf *scratch);
        void *ctx;
};

/* An answer: any status but those that are tried again. */
struct store_answer {
        int status;
        bool repeated;                  /* an earlier try of the same call may have happened */
        uint64_t object_bytes;          /* Content-Length, or the whole that Content-Range tells */
        int64_t modified_ms;            /* Last-Modified; 0: not told */
        char etag[STORE_ETAG_TEXT_MAX]; /* without quotes */
        char *kept[STORE_KEPT_MAX];     /* the headers that `keep` names; NULL: not there */
        struct ls_buf body;
};

/* Texts of the options are copied. LS_INVALID with words: what `base` is. */
LS_MUST_USE ls_err store_remote_new(const struct store_remote_options *options,
                                    struct store_remote **ret_remote, struct ls_errinfo *reterr);
/* No call may be under way. Accepts NULL. */
void store_remote_free(struct store_remote *remote);

/* Sends and waits; tries again what got no answer, or one that says so (429, 5xx). LS_OK: the store
 * answered, whatever the status; *ret_answer is to be released with store_answer_done.
 * LS_THROTTLED: it asked to slow down until the end. LS_CONFLICT: `conflict` held until the end.
 * LS_UNKNOWN_OUTCOME: no answer came, and the request, which changes something, may have happened.
 * LS_ENET: no answer, and nothing happened. LS_TOO_LARGE: the answer. What `sign` returned. */
LS_MUST_USE ls_err store_remote_call(struct store_remote *remote, struct store_request *r,
                                     struct store_answer *ret_answer);
void store_answer_done(struct store_answer *answer);

/* A request that is put together piece by piece, and its answer. */
struct store_call {
        struct store_request r;
        struct store_answer answer;
        struct ls_buf path, query;
};
void store_call_init(struct store_call *c, const char *method);
/* `value` must live until the call is done. */
void store_call_header(struct store_call *c, const char *name, const char *value);
/* Adds "name=value", the value encoded. */
void store_call_query(struct store_call *c, const char *name, const char *value);
/* store_remote_call, with what is there as path and query. */
LS_MUST_USE ls_err store_call_send(struct store_call *c, struct store_remote *remote,
                                   const ls_span *body, size_t count);
void store_call_done(struct store_call *c);

/* A kept header, "" where there was none. */
static inline const char *
store_kept(const struct store_answer *answer, size_t index)
{
        return answer->kept[index] != NULL ? answer->kept[index] : "";
}

/* Appends the URL encoding of `text`; '/' stays when `path`. RFC 3986 unreserved characters stay.
 */
void store_encode(struct ls_buf *out, const char *text, bool path);
/* "2026-12-01T10:20:30Z" (a fraction is dropped) as milliseconds since 1970; 0: no such text. */
int64_t store_time_of(const char *text);
/* "Tue, 01 Dec 2026 10:20:30 GMT" of HTTP, likewise. */
int64_t store_http_time_of(const char *text);
#define STORE_HTTP_TIME_TEXT 30 /* with its NUL */
void store_http_time(int64_t wall_ms, char ret_text[STORE_HTTP_TIME_TEXT]);
