/* store/s3/s3.c - objects in a bucket of S3, or of what speaks S3, under objects.h.
 *
 * Source: the Amazon S3 API Reference (PutObject, GetObject, HeadObject, ListObjectsV2,
 * DeleteObjects, CreateMultipartUpload and its kin; conditional writes).
 */
#include <openssl/evp.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/objects.h"
#include "store/s3/credentials.h"
#include "store/xml.h"

#define S3_TOKEN_HEADER     "x-amz-meta-lakestream-write"
#define S3_LIST_MAX         1000
#define S3_DELETE_MAX       1000
#define S3_PART_BYTES       ((size_t)8 << 20) /* all alike, as some stores demand */
#define S3_PARTS_MAX        10000
#define S3_ANSWER_BYTES_MAX ((size_t)8 << 20) /* of a list; a page of ours is below 2 MiB */

struct s3 {
        struct store_objects o;
        struct s3_credentials *credentials;
        char *region;
        char *endpoint; /* NULL: AWS */
        char *host;     /* of requests, with its port */
        char *root;     /* path before a key: "/" or "/bucket/" */
        /* A store that wants the etag of a condition without quotes (Ceph) was met. */
        atomic_bool etag_plain;
};

/* One call: what it is signed with. */
struct s3_call {
        struct store_call c;
        struct s3 *s;
        char payload[S3_SHA256_TEXT];
        char condition[STORE_ETAG_TEXT_MAX + 2];
};

static struct s3 *
s3_of(struct store_objects *o)
{
        return LS_CONTAINER(o, struct s3, o);
}

static struct s3 *
s3_of_store(struct ls_store *store)
{
        return LS_CONTAINER(store, struct s3, o.store);
}

/* ---- calls ---- */

static ls_err
call_sign(void *ctx, struct store_request *r, struct ls_buf *scratch)
{
        struct s3_call *c = ctx;
        struct s3_keys keys;

        LS_TRY(s3_credentials_get(c->s->credentials, &keys));
        s3_sign(r, c->s->host, &keys, c->s->region, "s3", ls_clock_wall_ms(), c->payload, scratch);
        s3_keys_done(&keys);
        return LS_OK;
}

static bool
is_conflict(const struct store_answer *a)
{
        return a->status == 409;
}

/* `key` NULL: the bucket. Names of the query in ascending order: it is signed as it stands. */
static void
call_init(struct s3_call *call, struct s3 *s, const char *method, const char *key)
{
        memset(call, 0, sizeof *call);
        call->s = s;
        store_call_init(&call->c, method);
        ls_buf_put_text(&call->c.path, s->root);
        if (key != NULL) {
                store_encode(&call->c.path, s->o.prefix, true);
                store_encode(&call->c.path, key, true);
        }
        call->c.r.host = s->host;
        call->c.r.answer_bytes_max = S3_ANSWER_BYTES_MAX;
        call->c.r.sign = call_sign;
        call->c.r.ctx = call;
}

static ls_err
call_send(struct s3_call *call, const ls_span *body, size_t count)
{
        s3_sha256(body, count, call->payload);
        return store_call_send(&call->c, call->s->o.remote, body, count);
}

/* What a status means; what nobody above expects is logged with the store's words. */
static ls_err
call_outcome(const struct store_call *c)
{
        struct store_xml_error words = { "" };
        ls_err e = LS_EIO;

        if (c->answer.status >= 300)
                store_xml_error_read(ls_buf_span(&c->answer.body), &words);
        switch (c->answer.status) {
        case 200:
        case 204:
        case 206: return LS_OK;
        case 409: return LS_CONFLICT;
        case 412: return LS_EXISTS;
        case 416: return LS_OUT_OF_RANGE;
        case 404:
                if (strcmp(words.code, "NoSuchBucket") != 0)
                        return LS_ABSENT;
                break;
        case 401:
        case 403: e = LS_DENIED; break;
        case 507: e = LS_ENOSPC; break;
        default: break;
        }
        ls_log_warn("store", "event=s3_refused method=%s path=%s status=%d code=%s message=\"%s\"",
                    c->r.method, c->r.path, c->answer.status, words.code, words.message);
        return e;
}

/* Sends; LS_OK: the answer is a good one. */
static ls_err
call_run(struct s3_call *call, const ls_span *body, size_t count)
{
        LS_TRY(call_send(call, body, count));
        return call_outcome(&call->c);
}

/* ---- reading ---- */

static ls_err
s3_look(struct store_objects *o, const char *key, struct ls_store_info *ret_info,
        char ret_token[STORE_TOKEN_TEXT_MAX])
{
        struct s3_call call;
        ls_err e;

        call_init(&call, s3_of(o), "HEAD", key);
        call.c.r.read_only = true;
        e = call_run(&call, NULL, 0);
        if (e == LS_OK) {
                store_info_of(&call.c.answer, ret_info);
                snprintf(ret_token, STORE_TOKEN_TEXT_MAX, "%s", store_kept(&call.c.answer, 0));
        }
        store_call_done(&call.c);
        return e;
}

static ls_err
s3_read(struct store_objects *o, const char *key, const char *range, size_t bytes_max,
        struct store_answer *ret_answer)
{
        struct s3_call call;
        ls_err e;

        call_init(&call, s3_of(o), "GET", key);
        call.c.r.read_only = true;
        call.c.r.answer_bytes_max = bytes_max;
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

static ls_err
s3_write(struct store_objects *o, const struct store_write *w, bool *ret_repeated)
{
        struct s3_call call;
        ls_err e;

        call_init(&call, s3_of(o), "PUT", w->key);
        store_call_header(&call.c, S3_TOKEN_HEADER, w->token);
        if (w->if_absent)
                store_call_header(&call.c, "if-none-match", "*");
        if (w->etag != NULL) {
                snprintf(call.condition, sizeof call.condition, w->etag_plain ? "%.*s" : "\"%.*s\"",
                         STORE_ETAG_TEXT_MAX - 1, w->etag);
                store_call_header(&call.c, "if-match", call.condition);
        }
        if (w->if_absent || w->etag != NULL)
                call.c.r.conflict = is_conflict;
        e = call_run(&call, w->spans, w->count);
        *ret_repeated = call.c.answer.repeated;
        store_call_done(&call.c);
        return e;
}

static ls_err
s3_put_if_match(struct ls_store *store, const char *key, const char *etag, ls_span bytes)
{
        struct s3 *s = s3_of_store(store);
        bool plain = atomic_load(&s->etag_plain), same = false;
        ls_err e;

        if (etag[0] == '\0' || strlen(etag) >= STORE_ETAG_TEXT_MAX)
                return store_objects_put_if_match(store, key, etag, bytes);
        e = store_objects_match(&s->o, key, etag, plain, bytes, &same);
        if (e == LS_EXISTS && same) {
                e = store_objects_match(&s->o, key, etag, !plain, bytes, &same);
                if (e == LS_OK)
                        atomic_store(&s->etag_plain, !plain);
        }
        return e;
}

/* ---- listing ---- */

/* %XX and '+' of encoding-type=url, in place. */
static void
url_decode(char *text)
{
        static const char digits[] = "0123456789abcdef";
        char *to = text;

        for (const char *c = text; *c != '\0'; c++) {
                const char *high, *low;

                if (*c == '%' && c[1] != '\0' && c[2] != '\0' &&
                    (high = memchr(digits, c[1] | (c[1] > '9' ? 0x20 : 0), 16)) != NULL &&
                    (low = memchr(digits, c[2] | (c[2] > '9' ? 0x20 : 0), 16)) != NULL) {
                        *to++ = (char)((high - digits) << 4 | (low - digits));
                        c += 2;
                } else {
                        *to++ = *c == '+' ? ' ' : *c;
                }
        }
        *to = '\0';
}

static ls_err
on_list(void *ctx, const char *parent, const char *name, ls_str text)
{
        struct store_page *p = ctx;

        if (strcmp(parent, "ListBucketResult") == 0) {
                if (strcmp(name, "IsTruncated") == 0)
                        p->more = ls_str_is(text, "true");
                return strcmp(name, "Contents") == 0 ? store_page_add(p) : LS_OK;
        }
        if (strcmp(parent, "Contents") != 0 || text.ptr == NULL)
                return LS_OK;
        if (strcmp(name, "Key") == 0) {
                ls_free(p->next.key);
                p->next.key = ls_str_dup(text);
                url_decode(p->next.key);
        } else if (strcmp(name, "Size") == 0) {
                int64_t bytes;

                if (!ls_str_to_i64(text, 0, INT64_MAX, &bytes))
                        return LS_CORRUPT;
                p->next.info.bytes = (uint64_t)bytes;
        } else if (strcmp(name, "LastModified") == 0) {
                p->next.info.modified_ms = store_time_of(text.ptr);
        } else if (strcmp(name, "ETag") == 0) {
                if (text.len >= 2 && text.ptr[0] == '"')
                        text = ls_str_make(text.ptr + 1, text.len - 2);
                snprintf(p->next.info.etag, sizeof p->next.info.etag, "%.*s", LS_STR_ARG(text));
        }
        return LS_OK;
}

static ls_err
s3_page(struct store_objects *o, const char *prefix, const char *after, const char *marker,
        size_t count, struct store_page *ret_page)
{
        char number[24];
        struct s3_call call;
        ls_err e;

        call_init(&call, s3_of(o), "GET", NULL);
        call.c.r.read_only = true;
        snprintf(number, sizeof number, "%zu", count);
        store_call_query(&call.c, "encoding-type", "url");
        store_call_query(&call.c, "list-type", "2");
        store_call_query(&call.c, "max-keys", number);
        store_call_query(&call.c, "prefix", prefix);
        if (after != NULL)
                store_call_query(&call.c, "start-after", after);
        e = call_run(&call, NULL, 0);
        if (e == LS_OK &&
            store_xml_read(ls_buf_span(&call.c.answer.body), on_list, ret_page) != LS_OK)
                e = LS_EIO;
        ret_page->more &= ret_page->count > 0;
        store_call_done(&call.c);
        return e == LS_ABSENT ? LS_EIO : e;
}

/* ---- deleting ---- */

static ls_err
s3_del(struct ls_store *store, const char *key)
{
        struct s3_call call;
        ls_err e;

        call_init(&call, s3_of_store(store), "DELETE", key);
        e = call_run(&call, NULL, 0);
        store_call_done(&call.c);
        return e;
}

struct s3_errors {
        size_t count;
        bool denied;
};

static ls_err
on_delete_error(void *ctx, const char *parent, const char *name, ls_str text)
{
        struct s3_errors *errors = ctx;

        if (strcmp(parent, "Error") != 0 || strcmp(name, "Code") != 0 ||
            ls_str_is(text, "NoSuchKey"))
                return LS_OK;
        errors->count++;
        errors->denied |= ls_str_is(text, "AccessDenied");
        return LS_OK;
}

/* Base64 of the MD5, which DeleteObjects wants. */
static void
md5_base64(ls_span bytes, char ret_text[32])
{
        uint8_t sum[EVP_MAX_MD_SIZE];
        unsigned len = 0;

        LS_ASSERT(EVP_Digest(bytes.ptr, bytes.len, sum, &len, EVP_md5(), NULL) && len == 16);
        EVP_EncodeBlock((uint8_t *)ret_text, sum, (int)len);
}

/* At most S3_DELETE_MAX. Keys hold nothing that XML would read (ls_store_key_ok). */
static ls_err
delete_page(struct s3 *s, const char *const *keys, size_t count, size_t *failed)
{
        struct s3_errors errors = { 0 };
        char sum[32];
        struct ls_buf body;
        struct s3_call call;
        ls_span span;
        ls_err e;

        ls_buf_init(&body, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&body, "<Delete><Quiet>true</Quiet>");
        for (size_t i = 0; i < count; i++)
                ls_buf_printf(&body, "<Object><Key>%s%s</Key></Object>", s->o.prefix, keys[i]);
        ls_buf_put_text(&body, "</Delete>");
        span = ls_buf_span(&body);
        md5_base64(span, sum);
        call_init(&call, s, "POST", NULL);
        store_call_query(&call.c, "delete", "");
        store_call_header(&call.c, "content-md5", sum);
        store_call_header(&call.c, "content-type", "application/xml");
        e = call_run(&call, &span, 1);
        if (e == LS_OK && call.c.answer.body.len > 0 &&
            store_xml_read(ls_buf_span(&call.c.answer.body), on_delete_error, &errors) != LS_OK)
                e = LS_EIO;
        store_call_done(&call.c);
        ls_buf_done(&body);
        *failed += e == LS_OK ? errors.count : count;
        if (e != LS_OK || errors.count == 0)
                return e;
        return errors.denied ? LS_DENIED : LS_EIO;
}

static ls_err
s3_del_many(struct ls_store *store, const char *const *keys, size_t count, size_t *ret_failed)
{
        ls_err first = LS_OK;

        *ret_failed = 0;
        for (size_t at = 0; at < count; at += S3_DELETE_MAX) {
                ls_err e = delete_page(s3_of_store(store), keys + at,
                                       LS_MIN(count - at, (size_t)S3_DELETE_MAX), ret_failed);

                if (first == LS_OK)
                        first = e;
        }
        return first;
}

/* ---- an upload in parts ---- */

static ls_err
on_upload(void *ctx, const char *parent, const char *name, ls_str text)
{
        char **upload = ctx;

        if (strcmp(name, "UploadId") == 0 && text.ptr != NULL && *upload == NULL)
                *upload = ls_str_dup(text);
        return LS_OK;
}

/* Begun twice is no harm: what lingers holds no part, and the bucket's rules end it. */
static ls_err
s3_upload_begin(struct store_large *u)
{
        struct s3_call call;
        ls_err e;

        call_init(&call, s3_of(u->o), "POST", u->key);
        store_call_query(&call.c, "uploads", "");
        store_call_header(&call.c, S3_TOKEN_HEADER, u->token);
        e = call_run(&call, NULL, 0);
        if (e == LS_OK)
                e = store_xml_read(ls_buf_span(&call.c.answer.body), on_upload, &u->id);
        if (e == LS_OK && u->id == NULL)
                e = LS_CORRUPT;
        store_call_done(&call.c);
        return e;
}

static ls_err
s3_upload_part(struct store_large *u, size_t number, ls_span part,
               char ret_etag[STORE_ETAG_TEXT_MAX])
{
        char text[24];
        struct s3_call call;
        ls_err e;

        snprintf(text, sizeof text, "%zu", number);
        call_init(&call, s3_of(u->o), "PUT", u->key);
        store_call_query(&call.c, "partNumber", text);
        store_call_query(&call.c, "uploadId", u->id);
        e = call_run(&call, &part, 1);
        if (e == LS_OK)
                memcpy(ret_etag, call.c.answer.etag, STORE_ETAG_TEXT_MAX);
        store_call_done(&call.c);
        return e;
}

/* A failure leaves the parts to the bucket's rules for unfinished uploads. */
static void
s3_upload_drop(struct store_large *u)
{
        struct s3_call call;

        call_init(&call, s3_of(u->o), "DELETE", u->key);
        store_call_query(&call.c, "uploadId", u->id);
        if (call_send(&call, NULL, 0) != LS_OK)
                ls_log_debug("store", "event=s3_upload_left key=%s", u->key);
        store_call_done(&call.c);
}

/* Puts the parts together. An answer of 200 may carry an error in its body; an upload that is gone
 * was put together by an earlier try, or nobody knows. */
static ls_err
upload_complete(struct store_large *u, bool *ret_repeated)
{
        struct store_xml_error words;
        struct ls_buf body;
        struct s3_call call;
        ls_span span;
        ls_err e;

        ls_buf_init(&body, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&body, "<CompleteMultipartUpload>");
        for (size_t i = 1; i <= u->part_count; i++)
                ls_buf_printf(&body, "<Part><PartNumber>%zu</PartNumber><ETag>\"%s\"</ETag></Part>",
                              i, store_upload_etag(u->parts, i));
        ls_buf_put_text(&body, "</CompleteMultipartUpload>");
        span = ls_buf_span(&body);
        call_init(&call, s3_of(u->o), "POST", u->key);
        store_call_query(&call.c, "uploadId", u->id);
        store_call_header(&call.c, "content-type", "application/xml");
        store_call_header(&call.c, "if-none-match", "*");
        call.c.r.conflict = is_conflict;
        e = call_run(&call, &span, 1);
        *ret_repeated = call.c.answer.repeated;
        if (e == LS_OK) {
                store_xml_error_read(ls_buf_span(&call.c.answer.body), &words);
                if (words.code[0] != '\0')
                        e = strcmp(words.code, "PreconditionFailed") == 0 ? LS_EXISTS
                                                                          : LS_UNKNOWN_OUTCOME;
        } else if (e == LS_ABSENT) {
                e = LS_UNKNOWN_OUTCOME;
        }
        store_call_done(&call.c);
        ls_buf_done(&body);
        return e;
}

static ls_err
s3_upload_end(struct store_large *u, bool *ret_repeated)
{
        char token[STORE_TOKEN_TEXT_MAX];
        struct ls_store_info info;

        /* Some stores overlook the condition of the call below: look as well. */
        if (s3_look(u->o, u->key, &info, token) == LS_OK)
                return LS_EXISTS;
        return upload_complete(u, ret_repeated);
}

/* ---- life ---- */

static void
s3_close(struct ls_store *store)
{
        struct s3 *s = s3_of_store(store);

        store_objects_done(&s->o);
        s3_credentials_free(s->credentials);
        ls_free(s->region);
        ls_free(s->endpoint);
        ls_free(s->host);
        ls_free(s->root);
        ls_free(s);
}

/* Names of Iceberg's S3FileIO, which PyIceberg and DuckDB know as well. */
static void
s3_engine_config(struct ls_store *store, void (*fn)(void *ctx, const char *name, const char *value),
                 void *ctx)
{
        struct s3 *s = s3_of_store(store);

        fn(ctx, "s3.region", s->region);
        fn(ctx, "client.region", s->region);
        if (s->endpoint != NULL)
                fn(ctx, "s3.endpoint", s->endpoint);
        fn(ctx, "s3.path-style-access", s->root[1] != '\0' ? "true" : "false");
}

static const struct ls_store_ops s3_ops = {
        .name = "s3",
        .put = store_objects_put,
        .put_if_absent = store_objects_put_if_absent,
        .put_if_match = s3_put_if_match,
        .get = store_objects_get,
        .head = store_objects_head,
        .list = store_objects_list,
        .del = s3_del,
        .del_many = s3_del_many,
        .writer_open = store_objects_writer_open,
        .engine_config = s3_engine_config,
        .close = s3_close,
};

static const struct store_objects_ops s3_how = {
        .page_max = S3_LIST_MAX,
        .part_bytes = S3_PART_BYTES,
        .parts_max = S3_PARTS_MAX,
        .look = s3_look,
        .read = s3_read,
        .write = s3_write,
        .page = s3_page,
        .upload_begin = s3_upload_begin,
        .upload_part = s3_upload_part,
        .upload_end = s3_upload_end,
        .upload_drop = s3_upload_drop,
};

/* Names of buckets: 3 to 63 of lower-case letters, digits, '-' and '.' (Amazon S3 User Guide). */
static bool
bucket_ok(const char *bucket)
{
        size_t len = strlen(bucket);

        return len >= 3 && len <= 63 &&
               strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-.") == len;
}

/* Scheme, host and path of requests. Where the endpoint is given, the bucket stands in the path
 * unless the style is "host"; at AWS it stands in the host unless it has dots, which no certificate
 * covers. */
static char *
base_make(struct s3 *s, const struct ls_store_s3_options *o)
{
        bool given = o->endpoint != NULL && o->endpoint[0] != '\0';
        LS_AUTO(ls_free)
        char *endpoint = given ? ls_strdup(o->endpoint)
                               : ls_format("https://s3.%s.amazonaws.com", s->region);
        bool in_path = o->style == LS_STORE_S3_PATH ||
                       (o->style == LS_STORE_S3_AUTO && (given || strchr(o->bucket, '.') != NULL));
        size_t len = strlen(endpoint);
        char *after = strstr(endpoint, "://");

        while (len > 0 && endpoint[len - 1] == '/')
                endpoint[--len] = '\0';
        if (after == NULL || strchr(after + 3, '/') != NULL)
                return NULL;
        if (given)
                s->endpoint = ls_strdup(endpoint);
        s->host = in_path ? ls_strdup(after + 3) : ls_format("%s.%s", o->bucket, after + 3);
        s->root = in_path ? ls_format("/%s/", o->bucket) : ls_strdup("/");
        return ls_format("%.*s://%s", (int)(after - endpoint), endpoint, s->host);
}

static ls_err
s3_connect(struct s3 *s, const struct ls_store_s3_options *o, struct ls_errinfo *reterr)
{
        struct s3_credentials_options keys = { .access = o->access,
                                               .secret = o->secret,
                                               .session = o->session,
                                               .region = s->region,
                                               .ca_file = o->ca_file };
        struct store_remote_options remote = { .name = "s3",
                                               .ca_file = o->ca_file,
                                               .connections_max = o->connections_max,
                                               .deadline_ms = o->deadline_ms,
                                               .hedge_ms = o->hedge_ms,
                                               .keep = { S3_TOKEN_HEADER } };
        LS_AUTO(ls_free) char *base = base_make(s, o);

        if (base == NULL)
                return ls_fail(reterr, LS_INVALID,
                               "store.s3.endpoint %.200s: write http://HOST:PORT or https://HOST",
                               o->endpoint);
        remote.base = base;
        LS_TRY(store_remote_new(&remote, &s->o.remote, reterr));
        return s3_credentials_new(&keys, &s->credentials, reterr);
}

ls_err
ls_store_s3_open(const struct ls_store_s3_options *o, struct ls_store **ret_store,
                 struct ls_errinfo *reterr)
{
        LS_AUTO(ls_free) char *root = ls_format("s3://%s", o->bucket);
        struct s3 *s;
        ls_err e;

        if (!bucket_ok(o->bucket))
                return ls_fail(reterr, LS_INVALID, "%.100s is no name of a bucket", o->bucket);
        s = ls_calloc(1, sizeof *s);
        s->region =
                o->region != NULL && o->region[0] != '\0' ? ls_strdup(o->region) : s3_region_find();
        if (s->region == NULL)
                s->region = ls_strdup("us-east-1");
        e = store_objects_init(&s->o, &s3_ops, &s3_how, root, o->prefix, reterr);
        if (e == LS_OK)
                e = s3_connect(s, o, reterr);
        if (e != LS_OK) {
                s3_close(&s->o.store);
                return e;
        }
        *ret_store = &s->o.store;
        return LS_OK;
}
