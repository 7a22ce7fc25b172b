/* store/gcs/gcs.c - objects in a bucket of Google Cloud Storage, under objects.h, by its JSON API.
 *
 * The etag of our interface is the object's generation, a number that never comes back; conditions
 * are on it (0: there is no object). Small objects go in one request, of which a part is the
 * metadata ("multipart"); large ones in a session ("resumable"), whose condition holds at its end.
 *
 * Source: the Cloud Storage JSON API reference (Objects: insert, get, list, delete), "Resumable
 * uploads", "Request preconditions", "HTTP status and error codes for JSON".
 */
#include <jansson.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/gcs/credentials.h"
#include "store/objects.h"
#include "sys/process.h"

#define GCS_TOKEN_NAME       "lakestream-write"
#define GCS_BASE_DEFAULT     "https://storage.googleapis.com"
#define GCS_LIST_MAX         999               /* and the name that was the last before */
#define GCS_PART_BYTES       ((size_t)8 << 20) /* a multiple of 256 KiB */
#define GCS_ANSWER_BYTES_MAX ((size_t)8 << 20) /* of a list; a page of ours is below 2 MiB */
#define GCS_BOUNDARY_TEXT    33

/* What is kept of an answer's headers. */
enum { KEPT_LOCATION, KEPT_RANGE };

struct gcs {
        struct store_objects o;
        struct gcs_credentials *credentials; /* NULL: none are sent */
        char *endpoint;                      /* NULL: Google's */
        char *bucket;
};

struct gcs_call {
        struct store_call c;
        struct gcs *s;
};

static struct gcs *
gcs_of(struct store_objects *o)
{
        return LS_CONTAINER(o, struct gcs, o);
}

/* ---- calls ---- */

static ls_err
call_sign(void *ctx, struct store_request *r, struct ls_buf *scratch)
{
        struct gcs_call *call = ctx;
        struct gcs *s = call->s;

        return s->credentials != NULL ? gcs_credentials_sign(s->credentials, r, scratch) : LS_OK;
}

static void
call_init(struct gcs_call *call, struct gcs *s, const char *method)
{
        memset(call, 0, sizeof *call);
        call->s = s;
        store_call_init(&call->c, method);
        call->c.r.answer_bytes_max = GCS_ANSWER_BYTES_MAX;
        call->c.r.sign = call_sign;
        call->c.r.ctx = call;
}

/* Of an object; `key` NULL: of all objects. */
static void
call_init_object(struct gcs_call *call, struct gcs *s, const char *method, const char *key)
{
        call_init(call, s, method);
        ls_buf_printf(&call->c.path, "/storage/v1/b/%s/o", s->bucket);
        if (key != NULL) {
                ls_buf_put_u8(&call->c.path, '/');
                store_encode(&call->c.path, s->o.prefix, false);
                store_encode(&call->c.path, key, false);
        }
}

/* Of a new object; `etag` NULL: there is to be none before. */
static void
call_init_upload(struct gcs_call *call, struct gcs *s, const char *type, bool conditional,
                 const char *etag)
{
        call_init(call, s, "POST");
        ls_buf_printf(&call->c.path, "/upload/storage/v1/b/%s/o", s->bucket);
        if (conditional)
                store_call_query(&call->c, "ifGenerationMatch", etag != NULL ? etag : "0");
        store_call_query(&call->c, "uploadType", type);
}

static bool
is_conflict(const struct store_answer *a)
{
        return a->status == 409;
}

/* Whether the words of an answer tell that the bucket is not there; else the object is not. */
static bool
is_bucket_lost(const struct store_answer *a)
{
        static const char words[] = "bucket does not exist";

        return a->body.len > 0 && memmem(a->body.ptr, a->body.len, words, sizeof words - 1) != NULL;
}

/* What a status means; what nobody above expects is logged with the store's words. */
static ls_err
call_outcome(const struct store_call *c)
{
        json_t *json;
        const char *words;
        ls_err e = LS_EIO;

        switch (c->answer.status) {
        case 200:
        case 201:
        case 204:
        case 206: return LS_OK;
        case 409: return LS_CONFLICT;
        case 412: return LS_EXISTS;
        case 416: return LS_OUT_OF_RANGE;
        case 404:
                if (!is_bucket_lost(&c->answer))
                        return LS_ABSENT;
                break;
        case 401:
        case 403: e = LS_DENIED; break;
        default: break;
        }
        json = json_loadb((const char *)c->answer.body.ptr, c->answer.body.len, 0, NULL);
        words = json_string_value(json_object_get(json_object_get(json, "error"), "message"));
        ls_log_warn("store", "event=gcs_refused method=%s path=%s status=%d message=\"%.256s\"",
                    c->r.method, c->r.path, c->answer.status, words != NULL ? words : "");
        json_decref(json);
        return e;
}

static ls_err
call_send(struct gcs_call *call, const ls_span *body, size_t count)
{
        return store_call_send(&call->c, call->s->o.remote, body, count);
}

/* Sends; LS_OK: the answer is a good one. */
static ls_err
call_run(struct gcs_call *call, const ls_span *body, size_t count)
{
        LS_TRY(call_send(call, body, count));
        return call_outcome(&call->c);
}

/* ---- reading ---- */

/* { "generation", "size", "updated" }, numbers as texts. */
static ls_err
info_read(const json_t *json, struct ls_store_info *ret_info)
{
        const char *generation = json_string_value(json_object_get(json, "generation")),
                   *size = json_string_value(json_object_get(json, "size"));
        int64_t number, bytes = 0; /* an emulator leaves a size of 0 out */

        if (!ls_str_to_i64(ls_str_of(generation), 1, INT64_MAX, &number) ||
            (size != NULL && !ls_str_to_i64(ls_str_of(size), 0, INT64_MAX, &bytes)))
                return LS_EIO;
        *ret_info = (struct ls_store_info){
                .bytes = (uint64_t)bytes,
                .modified_ms = store_time_of(json_string_value(json_object_get(json, "updated"))),
        };
        snprintf(ret_info->etag, sizeof ret_info->etag, "%lld", (long long)number);
        return LS_OK;
}

static ls_err
gcs_look(struct store_objects *o, const char *key, struct ls_store_info *ret_info,
         char ret_token[STORE_TOKEN_TEXT_MAX])
{
        struct gcs_call call;
        const char *token;
        json_t *json;
        ls_err e;

        call_init_object(&call, gcs_of(o), "GET", key);
        call.c.r.read_only = true;
        store_call_query(&call.c, "fields", "generation,size,updated,metadata");
        e = call_run(&call, NULL, 0);
        if (e == LS_OK) {
                json = json_loadb((const char *)call.c.answer.body.ptr, call.c.answer.body.len, 0,
                                  NULL);
                e = info_read(json, ret_info);
                token = json_string_value(
                        json_object_get(json_object_get(json, "metadata"), GCS_TOKEN_NAME));
                snprintf(ret_token, STORE_TOKEN_TEXT_MAX, "%s", token != NULL ? token : "");
                json_decref(json);
        }
        store_call_done(&call.c);
        return e;
}

static ls_err
gcs_read(struct store_objects *o, const char *key, const char *range, size_t bytes_max,
         struct store_answer *ret_answer)
{
        struct gcs_call call;
        ls_err e;

        call_init_object(&call, gcs_of(o), "GET", key);
        call.c.r.read_only = true;
        call.c.r.answer_bytes_max = bytes_max;
        store_call_query(&call.c, "alt", "media");
        if (range != NULL)
                store_call_header(&call.c, "range", range);
        e = call_run(&call, NULL, 0);
        if (e == LS_OK) {
                *ret_answer = call.c.answer;
                memset(&call.c.answer, 0, sizeof call.c.answer);
        }
        store_call_done(&call.c);
        return e;
}

/* ---- writing ---- */

/* What an object is besides its bytes. Names and tokens hold nothing that JSON escapes. */
static void
resource_put(struct ls_buf *out, const struct gcs *s, const char *key, const char *token)
{
        ls_buf_printf(out,
                      "{\"bucket\":\"%s\",\"name\":\"%s%s\","
                      "\"contentType\":\"application/octet-stream\","
                      "\"metadata\":{\"" GCS_TOKEN_NAME "\":\"%s\"}}",
                      s->bucket, s->o.prefix, key, token);
}

static ls_err
gcs_write(struct store_objects *o, const struct store_write *w, bool *ret_repeated)
{
        struct gcs *s = gcs_of(o);
        char boundary[GCS_BOUNDARY_TEXT], type[96], end[64];
        ls_span *spans = ls_calloc(w->count + 2, sizeof *spans);
        struct gcs_call call;
        struct ls_buf head;
        uint64_t random[2];
        ls_err e;

        ls_random(random, sizeof random); /* in no object's bytes but by a chance of 2^-128 */
        snprintf(boundary, sizeof boundary, "%016llx%016llx", (unsigned long long)random[0],
                 (unsigned long long)random[1]);
        snprintf(type, sizeof type, "multipart/related; boundary=%s", boundary);
        snprintf(end, sizeof end, "\r\n--%s--\r\n", boundary);
        ls_buf_init(&head, LS_BUF_MAX_DEFAULT);
        ls_buf_printf(&head, "--%s\r\ncontent-type: application/json\r\n\r\n", boundary);
        resource_put(&head, s, w->key, w->token);
        ls_buf_printf(&head, "\r\n--%s\r\ncontent-type: application/octet-stream\r\n\r\n",
                      boundary);
        spans[0] = ls_buf_span(&head);
        memcpy(spans + 1, w->spans, w->count * sizeof *spans);
        spans[w->count + 1] = ls_span_of(end, strlen(end));

        call_init_upload(&call, s, "multipart", w->if_absent || w->etag != NULL, w->etag);
        store_call_header(&call.c, "content-type", type);
        call.c.r.conflict = is_conflict;
        e = call_run(&call, spans, w->count + 2);
        *ret_repeated = call.c.answer.repeated;
        store_call_done(&call.c);
        ls_buf_done(&head);
        ls_free(spans);
        return e == LS_ABSENT && w->etag == NULL ? LS_EIO : e; /* there is no bucket */
}

/* Only a generation can be the current one: the service refuses what is no number. */
static ls_err
gcs_put_if_match(struct ls_store *store, const char *key, const char *etag, ls_span bytes)
{
        int64_t number;

        if (!ls_str_to_i64(ls_str_of(etag), 1, INT64_MAX, &number))
                etag = "";
        return store_objects_put_if_match(store, key, etag, bytes);
}

static ls_err
gcs_del(struct ls_store *store, const char *key)
{
        struct gcs_call call;
        ls_err e;

        call_init_object(&call, LS_CONTAINER(store, struct gcs, o.store), "DELETE", key);
        e = call_run(&call, NULL, 0);
        store_call_done(&call.c);
        return e;
}

/* ---- listing ---- */

static ls_err
page_read(const struct store_answer *a, struct store_page *page, char **ret_token)
{
        json_t *json = json_loadb((const char *)a->body.ptr, a->body.len, 0, NULL), *item;
        const char *token = json_string_value(json_object_get(json, "nextPageToken"));
        ls_err e = json_is_object(json) ? LS_OK : LS_EIO;
        size_t i;

        json_array_foreach(json_object_get(json, "items"), i, item)
        {
                const char *name = json_string_value(json_object_get(item, "name"));

                if (e != LS_OK)
                        break;
                e = name != NULL ? info_read(item, &page->next.info) : LS_EIO;
                if (e == LS_OK) {
                        page->next.key = ls_strdup(name);
                        e = store_page_add(page);
                }
        }
        *ret_token = store_text_there(token) ? ls_strdup(token) : NULL;
        json_decref(json);
        return e;
}

/* One page as the service gives it. `token` NULL: the first. */
static ls_err
page_once(struct gcs *s, const char *prefix, const char *after, const char *token, size_t count,
          struct store_page *page, char **ret_token)
{
        char number[24];
        struct gcs_call call;
        ls_err e;

        call_init_object(&call, s, "GET", NULL);
        call.c.r.read_only = true;
        snprintf(number, sizeof number, "%zu", count);
        store_call_query(&call.c, "fields", "items(name,generation,size,updated),nextPageToken");
        store_call_query(&call.c, "maxResults", number);
        if (token != NULL)
                store_call_query(&call.c, "pageToken", token);
        store_call_query(&call.c, "prefix", prefix);
        if (after != NULL)
                store_call_query(&call.c, "startOffset", after);
        e = call_run(&call, NULL, 0);
        if (e == LS_OK)
                e = page_read(&call.c.answer, page, ret_token);
        store_call_done(&call.c);
        return e == LS_ABSENT ? LS_EIO : e;
}

/* A page begins with `after` itself, if it is still there; one that brings nothing more is followed
 * by its token. */
static ls_err
gcs_page(struct store_objects *o, const char *prefix, const char *after, const char *marker,
         size_t count, struct store_page *ret_page)
{
        LS_AUTO(ls_free) char *token = NULL;

        for (;;) {
                char *next = NULL;
                ls_err e = page_once(gcs_of(o), prefix, after, token, count + (after != NULL),
                                     ret_page, &next);

                ls_free(token);
                token = next;
                ret_page->more = token != NULL;
                if (e != LS_OK || token == NULL ||
                    (ret_page->count > 0 &&
                     (after == NULL ||
                      strcmp(ret_page->entries[ret_page->count - 1].key, after) > 0)))
                        return e;
        }
}

/* ---- an upload in parts ---- */

/* The session's address, on the host that we know. That there is an object already may be told at
 * once: then the id is "", and the end says so. */
static ls_err
gcs_upload_begin(struct store_large *u)
{
        struct gcs *s = gcs_of(u->o);
        LS_AUTO(ls_free) char *base = NULL;
        struct gcs_call call;
        struct ls_buf body;
        ls_span span;
        ls_err e;

        ls_buf_init(&body, LS_BUF_MAX_DEFAULT);
        resource_put(&body, s, u->key, u->token);
        span = ls_buf_span(&body);
        call_init_upload(&call, s, "resumable", true, NULL);
        store_call_header(&call.c, "content-type", "application/json");
        e = call_run(&call, &span, 1);
        if (e == LS_OK)
                store_address_split(store_kept(&call.c.answer, KEPT_LOCATION), &base, &u->id);
        else if (e == LS_EXISTS)
                u->id = ls_strdup("");
        if (e == LS_OK && strcmp(u->id, "/") == 0)
                e = LS_EIO; /* it tells no address */
        store_call_done(&call.c);
        ls_buf_done(&body);
        return e == LS_EXISTS ? LS_OK : e;
}

/* "bytes=0-41": 42 bytes are there; none without it. */
static uint64_t
range_read(const char *range)
{
        static const char begin[] = "bytes=0-";
        int64_t last;

        if (strncmp(range, begin, sizeof begin - 1) != 0 ||
            !ls_str_to_i64(ls_str_of(range + sizeof begin - 1), 0, INT64_MAX - 1, &last))
                return 0;
        return (uint64_t)last + 1;
}

/* Sends u->part, and again what the service has not kept of it. `end`: it is the last. */
static ls_err
part_send(struct store_large *u, bool end, bool *ret_repeated)
{
        uint64_t at = u->sent_bytes, all = u->sent_bytes + u->part.len;

        for (;;) {
                ls_span span = ls_span_of(u->part.ptr + (at - u->sent_bytes), (size_t)(all - at));
                char range[96], total[24] = "*";
                struct gcs_call call;
                uint64_t kept;
                int status;
                ls_err e;

                if (end)
                        snprintf(total, sizeof total, "%llu", (unsigned long long)all);
                snprintf(range, sizeof range, "bytes %llu-%llu/%s", (unsigned long long)at,
                         (unsigned long long)(all - 1), total);
                call_init(&call, gcs_of(u->o), "PUT");
                ls_buf_put_text(&call.c.path, u->id);
                store_call_header(&call.c, "content-range", range);
                e = call_send(&call, &span, 1);
                status = call.c.answer.status;
                kept = range_read(store_kept(&call.c.answer, KEPT_RANGE));
                *ret_repeated |= call.c.answer.repeated;
                if (e == LS_OK && status != 308)
                        e = call_outcome(&call.c);
                store_call_done(&call.c);
                if (e != LS_OK || status != 308)
                        return e;
                if (kept == all && !end)
                        return LS_OK;
                if (kept <= at || kept >= all)
                        return LS_EIO; /* it lost what it had, or does not end */
                at = kept;
        }
}

static ls_err
gcs_upload_part(struct store_large *u, size_t number, ls_span part,
                char ret_etag[STORE_ETAG_TEXT_MAX])
{
        bool repeated = false;

        ret_etag[0] = '\0'; /* a part has none */
        return u->id[0] != '\0' ? part_send(u, false, &repeated) : LS_OK;
}

/* A session that is gone was ended by an earlier try, or nobody knows. */
static ls_err
gcs_upload_end(struct store_large *u, bool *ret_repeated)
{
        ls_err e = u->id[0] != '\0' ? part_send(u, true, ret_repeated) : LS_EXISTS;

        return e == LS_ABSENT || (e == LS_EIO && *ret_repeated) ? LS_UNKNOWN_OUTCOME : e;
}

/* A failure leaves the session to the service, which ends it after a week. */
static void
gcs_upload_drop(struct store_large *u)
{
        struct gcs_call call;

        if (u->id[0] == '\0')
                return;
        call_init(&call, gcs_of(u->o), "DELETE");
        ls_buf_put_text(&call.c.path, u->id);
        if (call_send(&call, NULL, 0) != LS_OK)
                ls_log_debug("store", "event=gcs_upload_left key=%s", u->key);
        store_call_done(&call.c);
}

/* ---- life ---- */

static void
gcs_close(struct ls_store *store)
{
        struct gcs *s = LS_CONTAINER(store, struct gcs, o.store);

        store_objects_done(&s->o);
        gcs_credentials_free(s->credentials);
        ls_free(s->endpoint);
        ls_free(s->bucket);
        ls_free(s);
}

/* The name of Iceberg's GCSFileIO, which PyIceberg knows as well. */
static void
gcs_engine_config(struct ls_store *store,
                  void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
        struct gcs *s = LS_CONTAINER(store, struct gcs, o.store);

        if (s->endpoint != NULL)
                fn(ctx, "gcs.service.host", s->endpoint);
}

static const struct ls_store_ops gcs_ops = {
        .name = "gcs",
        .put = store_objects_put,
        .put_if_absent = store_objects_put_if_absent,
        .put_if_match = gcs_put_if_match,
        .get = store_objects_get,
        .head = store_objects_head,
        .list = store_objects_list,
        .del = gcs_del,
        .writer_open = store_objects_writer_open,
        .engine_config = gcs_engine_config,
        .close = gcs_close,
};

static const struct store_objects_ops gcs_how = {
        .page_max = GCS_LIST_MAX,
        .part_bytes = GCS_PART_BYTES,
        .parts_max = SIZE_MAX, /* of the object: 5 TiB */
        .in_order = true,
        .look = gcs_look,
        .read = gcs_read,
        .write = gcs_write,
        .page = gcs_page,
        .upload_begin = gcs_upload_begin,
        .upload_part = gcs_upload_part,
        .upload_end = gcs_upload_end,
        .upload_drop = gcs_upload_drop,
};

/* Names of buckets (Cloud Storage, "About buckets"): 3 to 222 bytes with dots. */
static bool
bucket_ok(const char *bucket)
{
        size_t len = strlen(bucket);

        return len >= 3 && len <= 222 && bucket[0] != '.' &&
               strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == len;
}

/* The endpoint that is given, or that of an emulator that Google's libraries know, "host:port" too;
 * to be freed. NULL: Google's. */
static char *
endpoint_find(const char *given)
{
        const char *emulator = ls_process_env("STORAGE_EMULATOR_HOST");
        char *endpoint;
        size_t len;

        if (store_text_there(given))
                endpoint = ls_strdup(given);
        else if (store_text_there(emulator))
                endpoint = strstr(emulator, "://") != NULL ? ls_strdup(emulator)
                                                           : ls_format("http://%s", emulator);
        else
                return NULL;
        len = strlen(endpoint);
        while (len > 0 && endpoint[len - 1] == '/')
                endpoint[--len] = '\0';
        return endpoint;
}

static ls_err
gcs_connect(struct gcs *s, const struct ls_store_gcs_options *o, struct ls_errinfo *reterr)
{
        struct gcs_credentials_options found = { .token = o->token,
                                                 .file = o->credentials_file,
                                                 .ca_file = o->ca_file };
        struct store_remote_options remote = {
                .base = s->endpoint != NULL ? s->endpoint : GCS_BASE_DEFAULT,
                .name = "gcs",
                .ca_file = o->ca_file,
                .connections_max = o->connections_max,
                .deadline_ms = o->deadline_ms,
                .hedge_ms = o->hedge_ms,
                .keep = { [KEPT_LOCATION] = "location", [KEPT_RANGE] = "range" },
        };
        const char *host = strstr(remote.base, "://");
        bool plain = strncmp(remote.base, "https://", 8) != 0;

        if (host == NULL || strchr(host + 3, '/') != NULL)
                return ls_fail(reterr, LS_INVALID,
                               "store.gcs.endpoint %.200s: write https://HOST, or "
                               "http://HOST:PORT of an emulator",
                               remote.base);
        LS_TRY(store_remote_new(&remote, &s->o.remote, reterr));
        if (plain && store_text_there(o->credentials_file))
                return ls_fail(reterr, LS_INVALID,
                               "store.gcs.credentials.file: its tokens are not sent to %.200s, "
                               "which is not https://",
                               remote.base);
        if (plain && !store_text_there(o->token))
                return LS_OK; /* an emulator */
        return gcs_credentials_new(&found, &s->credentials, reterr);
}

ls_err
ls_store_gcs_open(const struct ls_store_gcs_options *o, struct ls_store **ret_store,
                  struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *root = ls_format("gs://%s", o->bucket);
        struct gcs *s;
        ls_err e;

        if (!bucket_ok(o->bucket))
                return ls_fail(reterr, LS_INVALID, "%.100s is no name of a bucket", o->bucket);
        s = ls_calloc(1, sizeof *s);
        s->bucket = ls_strdup(o->bucket);
        s->endpoint = endpoint_find(o->endpoint);
        e = store_objects_init(&s->o, &gcs_ops, &gcs_how, root, o->prefix, reterr);
        if (e == LS_OK)
                e = gcs_connect(s, o, reterr);
        if (e != LS_OK) {
                gcs_close(&s->o.store);
                return e;
        }
        *ret_store = &s->o.store;
        return LS_OK;
}
