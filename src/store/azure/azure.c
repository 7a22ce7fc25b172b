/* store/azure/azure.c - block blobs in a container of Azure Blob Storage, under objects.h.
 *
 * The service lists from the start or from a marker that it gave, never from a name. Markers are
 * remembered with the first name that came from them, so that a list from the middle begins near
 * it. A marker is used only for names from that first one on: what was written since, between the
 * place of the marker and its first name, is then not asked for, and a list sees every write before
 * it.
 *
 * Source: the Azure Storage REST API reference, "Blob service REST API" (Put Blob, Get Blob, Get
 * Blob Properties, List Blobs, Delete Blob, Put Block, Put Block List; "Specifying conditional
 * headers for Blob service operations"; "Blob service error codes").
 */
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/azure/credentials.h"
#include "store/identity.h"
#include "store/objects.h"
#include "store/xml.h"
#include "sys/process.h"

#define AZURE_TOKEN_HEADER     "x-ms-meta-lakestreamwrite" /* '-' stands in no name of metadata */
#define AZURE_LIST_MAX         5000
#define AZURE_PART_BYTES       ((size_t)8 << 20)
#define AZURE_PARTS_MAX        50000
#define AZURE_ANSWER_BYTES_MAX ((size_t)32 << 20) /* of a list; a page of ours is below 10 MiB */
#define AZURE_MARKS_MAX        16
#define AZURE_BLOCK_TEXT       (STORE_WRITE_TOKEN_TEXT + 5) /* the token, five digits, a NUL */
#define AZURE_BLOCK_BASE64     53                           /* of them, and a NUL */
#define AZURE_HOST_DEFAULT     "blob.core.windows.net"

/* What is kept of an answer's headers. */
enum { KEPT_TOKEN, KEPT_CODE };

/* From `marker` on come all names with `prefix` from `first` on. */
struct azure_mark {
        char *prefix, *first, *marker;
};

struct azure {
        struct store_objects o;
        struct azure_credentials *credentials;
        char *account;
        char *endpoint;       /* NULL: Azure's own */
        char *root;           /* path before a key: "/container/" */
        pthread_mutex_t lock; /* leaf */
        struct azure_mark marks[AZURE_MARKS_MAX];
        size_t mark_next;
};

/* One call: what it is signed with. */
struct azure_call {
        struct store_call c;
        struct azure *s;
        char date[STORE_HTTP_TIME_TEXT];
        char condition[STORE_ETAG_TEXT_MAX + 2];
        struct ls_buf params; /* the query as it is signed */
};

static struct azure *
azure_of(struct store_objects *o)
{
        return LS_CONTAINER(o, struct azure, o);
}

/* ---- calls ---- */

static ls_err
call_sign(void *ctx, struct store_request *r, struct ls_buf *scratch)
{
        struct azure_call *call = ctx;

        store_http_time(ls_clock_wall_ms(), call->date);
        LS_ASSERT(r->header_count < STORE_HEADERS_MAX);
        r->headers[r->header_count++] = (struct store_header){ "x-ms-date", call->date };
        return azure_credentials_sign(call->s->credentials, r, ls_buf_cstr(&call->params), scratch);
}

/* `key` NULL: the container. */
static void
call_init(struct azure_call *call, struct azure *s, const char *method, const char *key)
{
        memset(call, 0, sizeof *call);
        call->s = s;
        store_call_init(&call->c, method);
        ls_buf_init(&call->params, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&call->c.path, s->root);
        if (key != NULL) {
                store_encode(&call->c.path, s->o.prefix, true);
                store_encode(&call->c.path, key, true);
        } else {
                call->c.path.len--; /* without its '/' */
        }
        store_call_header(&call->c, "x-ms-version", AZURE_VERSION);
        call->c.r.answer_bytes_max = AZURE_ANSWER_BYTES_MAX;
        call->c.r.sign = call_sign;
        call->c.r.ctx = call;
}

/* Names in ascending order: the query is signed as it stands. */
static void
call_query(struct azure_call *call, const char *name, const char *value)
{
        store_call_query(&call->c, name, value);
        ls_buf_printf(&call->params, "\n%s:%s", name, value);
}

static void
call_done(struct azure_call *call)
{
        store_call_done(&call->c);
        ls_buf_done(&call->params);
}

/* Whether another operation on the blob is under way: any 409 but the one that is final. */
static bool
is_conflict(const struct store_answer *a)
{
        return a->status == 409 && strcmp(store_kept(a, KEPT_CODE), "BlobAlreadyExists") != 0;
}

/* What a status means; what nobody above expects is logged with the store's words. */
static ls_err
call_outcome(const struct store_call *c)
{
        const char *code = store_kept(&c->answer, KEPT_CODE);
        struct store_xml_error words = { "" };
        ls_err e = LS_EIO;

        switch (c->answer.status) {
        case 200:
        case 201:
        case 202:
        case 204:
        case 206: return LS_OK;
        case 409: return is_conflict(&c->answer) ? LS_CONFLICT : LS_EXISTS;
        case 412: /* else a lease that others hold */
                return code[0] == '\0' || strcmp(code, "ConditionNotMet") == 0 ? LS_EXISTS
                                                                               : LS_CONFLICT;
        case 416: return LS_OUT_OF_RANGE;
        case 404:
                if (strcmp(code, "ContainerNotFound") != 0)
                        return LS_ABSENT;
                break;
        case 401:
        case 403: e = LS_DENIED; break;
        default: break;
        }
        store_xml_error_read(ls_buf_span(&c->answer.body), &words);
        ls_log_warn("store",
                    "event=azure_refused method=%s path=%s status=%d code=%.64s message=\"%s\"",
                    c->r.method, c->r.path, c->answer.status, code, words.message);
        return e;
}

/* Sends; LS_OK: the answer is a good one. */
static ls_err
call_run(struct azure_call *call, const ls_span *body, size_t count)
{
        const char *sas = azure_credentials_query(call->s->credentials);

        if (sas[0] != '\0')
                ls_buf_printf(&call->c.query, "%s%s", call->c.query.len > 0 ? "&" : "", sas);
        LS_TRY(store_call_send(&call->c, call->s->o.remote, body, count));
        return call_outcome(&call->c);
}

/* ---- reading ---- */

static ls_err
azure_look(struct store_objects *o, const char *key, struct ls_store_info *ret_info,
           char ret_token[STORE_TOKEN_TEXT_MAX])
{
        struct azure_call call;
        ls_err e;

        call_init(&call, azure_of(o), "HEAD", key);
        call.c.r.read_only = true;
        e = call_run(&call, NULL, 0);
        if (e == LS_OK) {
                store_info_of(&call.c.answer, ret_info);
                snprintf(ret_token, STORE_TOKEN_TEXT_MAX, "%s",
                         store_kept(&call.c.answer, KEPT_TOKEN));
        }
        call_done(&call);
        return e;
}

static ls_err
azure_read(struct store_objects *o, const char *key, const char *range, size_t bytes_max,
           struct store_answer *ret_answer)
{
        struct azure_call call;
        ls_err e;

        call_init(&call, azure_of(o), "GET", key);
        call.c.r.read_only = true;
        call.c.r.answer_bytes_max = bytes_max;
        if (range != NULL)
                store_call_header(&call.c, "x-ms-range", range);
        e = call_run(&call, NULL, 0);
        if (e == LS_OK) {
                *ret_answer = call.c.answer;
                memset(&call.c.answer, 0, sizeof call.c.answer);
        }
        call_done(&call);
        return e;
}

/* ---- writing ---- */

static ls_err
azure_write(struct store_objects *o, const struct store_write *w, bool *ret_repeated)
{
        struct azure_call call;
        ls_err e;

        call_init(&call, azure_of(o), "PUT", w->key);
        store_call_header(&call.c, "x-ms-blob-type", "BlockBlob");
        store_call_header(&call.c, AZURE_TOKEN_HEADER, w->token);
        if (w->if_absent)
                store_call_header(&call.c, "if-none-match", "*");
        if (w->etag != NULL) {
                snprintf(call.condition, sizeof call.condition, "\"%.*s\"", STORE_ETAG_TEXT_MAX - 1,
                         w->etag);
                store_call_header(&call.c, "if-match", call.condition);
        }
        if (w->if_absent || w->etag != NULL)
                call.c.r.conflict = is_conflict;
        e = call_run(&call, w->spans, w->count);
        *ret_repeated = call.c.answer.repeated;
        call_done(&call);
        return e;
}

static ls_err
azure_del(struct ls_store *store, const char *key)
{
        struct azure_call call;
        ls_err e;

        call_init(&call, LS_CONTAINER(store, struct azure, o.store), "DELETE", key);
        store_call_header(&call.c, "x-ms-delete-snapshots", "include");
        e = call_run(&call, NULL, 0);
        call_done(&call);
        return e;
}

/* ---- listing ---- */

static void
mark_done(struct azure_mark *m)
{
        ls_free(m->prefix);
        ls_free(m->first);
        ls_free(m->marker);
        memset(m, 0, sizeof *m);
}

static void
mark_put(struct azure *s, const char *prefix, const char *first, const char *marker)
{
        struct azure_mark *m = NULL;

        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < AZURE_MARKS_MAX && m == NULL; i++)
                if (s->marks[i].prefix != NULL && strcmp(s->marks[i].prefix, prefix) == 0 &&
                    strcmp(s->marks[i].first, first) == 0)
                        m = &s->marks[i];
        if (m == NULL)
                m = &s->marks[s->mark_next++ % AZURE_MARKS_MAX];
        mark_done(m);
        *m = (struct azure_mark){ ls_strdup(prefix), ls_strdup(first), ls_strdup(marker) };
        pthread_mutex_unlock(&s->lock);
}

/* The marker nearest before `after`, to be freed; NULL: none. */
static char *
mark_find(struct azure *s, const char *prefix, const char *after)
{
        const struct azure_mark *best = NULL;
        char *marker;

        pthread_mutex_lock(&s->lock);
        for (size_t i = 0; i < AZURE_MARKS_MAX; i++) {
                const struct azure_mark *m = &s->marks[i];

                if (m->prefix != NULL && strcmp(m->prefix, prefix) == 0 &&
                    strcmp(m->first, after) <= 0 &&
                    (best == NULL || strcmp(best->first, m->first) < 0))
                        best = m;
        }
        marker = best != NULL ? ls_strdup(best->marker) : NULL;
        pthread_mutex_unlock(&s->lock);
        return marker;
}

struct azure_reading {
        struct store_page *page;
        bool folder; /* the entry being read is one, of an account with folders */
};

static ls_err
on_list(void *ctx, const char *parent, const char *name, ls_str text)
{
        struct azure_reading *r = ctx;
        struct store_page *p = r->page;

        if (strcmp(name, "Blob") == 0) {
                bool folder = r->folder;

                r->folder = false;
                if (!folder)
                        return store_page_add(p);
                ls_free(p->next.key);
                memset(&p->next, 0, sizeof p->next);
                return LS_OK;
        }
        if (text.ptr == NULL)
                return LS_OK;
        if (strcmp(parent, "EnumerationResults") == 0 && strcmp(name, "NextMarker") == 0) {
                ls_free(p->marker);
                p->marker = text.len > 0 ? ls_str_dup(text) : NULL;
        } else if (strcmp(parent, "Blob") == 0 && strcmp(name, "Name") == 0) {
                ls_free(p->next.key);
                p->next.key = ls_str_dup(text);
        } else if (strcmp(parent, "Properties") != 0) {
                return LS_OK;
        } else if (strcmp(name, "Content-Length") == 0) {
                int64_t bytes;

                if (!ls_str_to_i64(text, 0, INT64_MAX, &bytes))
                        return LS_CORRUPT;
                p->next.info.bytes = (uint64_t)bytes;
        } else if (strcmp(name, "Last-Modified") == 0) {
                p->next.info.modified_ms = store_http_time_of(text.ptr);
        } else if (strcmp(name, "Etag") == 0) {
                if (text.len >= 2 && text.ptr[0] == '"')
                        text = ls_str_make(text.ptr + 1, text.len - 2);
                snprintf(p->next.info.etag, sizeof p->next.info.etag, "%.*s", LS_STR_ARG(text));
        } else if (strcmp(name, "ResourceType") == 0) {
                r->folder = ls_str_is(text, "directory");
        }
        return LS_OK;
}

/* One page as the service gives it; may be empty, and more to come. */
static ls_err
page_once(struct azure *s, const char *prefix, const char *marker, size_t count,
          struct store_page *ret_page)
{
        struct azure_reading reading = { .page = ret_page };
        struct azure_call call;
        char number[24];
        ls_err e;

        call_init(&call, s, "GET", NULL);
        call.c.r.read_only = true;
        snprintf(number, sizeof number, "%zu", count);
        call_query(&call, "comp", "list");
        if (marker != NULL)
                call_query(&call, "marker", marker);
        call_query(&call, "maxresults", number);
        call_query(&call, "prefix", prefix);
        call_query(&call, "restype", "container");
        e = call_run(&call, NULL, 0);
        if (e == LS_OK &&
            store_xml_read(ls_buf_span(&call.c.answer.body), on_list, &reading) != LS_OK)
                e = LS_EIO;
        call_done(&call);
        ret_page->more = ret_page->marker != NULL;
        if (e == LS_OK && marker != NULL && ret_page->count > 0)
                mark_put(s, prefix, ret_page->entries[0].key, marker);
        return e == LS_ABSENT ? LS_EIO : e;
}

/* Drops the entries, of which none is asked for, and keeps the marker. */
static void
page_empty(struct store_page *page)
{
        for (size_t i = 0; i < page->count; i++)
                ls_free(page->entries[i].key);
        page->count = 0;
        ls_free(page->next.key);
        memset(&page->next, 0, sizeof page->next);
}

static ls_err
azure_page(struct store_objects *o, const char *prefix, const char *after, const char *marker,
           size_t count, struct store_page *ret_page)
{
        struct azure *s = azure_of(o);
        LS_AUTO(ls_free) char *from = marker != NULL ? ls_strdup(marker) : NULL;
        bool guessed = false;

        if (marker == NULL && after != NULL) {
                from = mark_find(s, prefix, after);
                guessed = from != NULL;
                count = AZURE_LIST_MAX; /* how much is to be skipped is not known */
        }
        for (;;) {
                ls_err e = page_once(s, prefix, from, count, ret_page);

                if (e == LS_EIO && guessed) { /* an old marker: from the start then */
                        page_empty(ret_page);
                        ls_free(ret_page->marker);
                        ret_page->marker = NULL;
                } else if (e != LS_OK || !ret_page->more ||
                           (ret_page->count > 0 &&
                            (after == NULL ||
                             strcmp(ret_page->entries[ret_page->count - 1].key, after) > 0))) {
                        return e;
                }
                guessed = false;
                page_empty(ret_page);
                ls_free(from);
                from = LS_STEAL(ret_page->marker);
        }
}

/* ---- an upload in parts ---- */

/* The blocks of all uploads to a blob are in one bag until one of them is committed: the token
 * keeps ours apart. */
static void
block_id(const struct store_large *u, size_t number, char ret_id[AZURE_BLOCK_BASE64])
{
        char text[AZURE_BLOCK_TEXT];

        snprintf(text, sizeof text, "%s%05zu", u->token, number % 100000);
        EVP_EncodeBlock((uint8_t *)ret_id, (const uint8_t *)text, AZURE_BLOCK_TEXT - 1);
}

/* Nothing is asked for: a block makes the upload. */
static ls_err
azure_upload_begin(struct store_large *u)
{
        u->id = ls_strdup(u->token);
        return LS_OK;
}

static ls_err
azure_upload_part(struct store_large *u, size_t number, ls_span part,
                  char ret_etag[STORE_ETAG_TEXT_MAX])
{
        char id[AZURE_BLOCK_BASE64];
        struct azure_call call;
        ls_err e;

        block_id(u, number, id);
        ret_etag[0] = '\0'; /* a block has none */
        call_init(&call, azure_of(u->o), "PUT", u->key);
        call_query(&call, "blockid", id);
        call_query(&call, "comp", "block");
        e = call_run(&call, &part, 1);
        call_done(&call);
        return e;
}

/* Makes the blob of the blocks. They are gone when another write to the blob came first. */
static ls_err
azure_upload_end(struct store_large *u, bool *ret_repeated)
{
        char token[STORE_TOKEN_TEXT_MAX], id[AZURE_BLOCK_BASE64];
        struct ls_store_info info;
        struct azure_call call;
        struct ls_buf body;
        ls_span span;
        bool gone;
        ls_err e;

        ls_buf_init(&body, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&body, "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>");
        for (size_t i = 1; i <= u->part_count; i++) {
                block_id(u, i, id);
                ls_buf_printf(&body, "<Uncommitted>%s</Uncommitted>", id);
        }
        ls_buf_put_text(&body, "</BlockList>");
        span = ls_buf_span(&body);
        call_init(&call, azure_of(u->o), "PUT", u->key);
        call_query(&call, "comp", "blocklist");
        store_call_header(&call.c, "content-type", "application/xml");
        store_call_header(&call.c, "if-none-match", "*");
        store_call_header(&call.c, AZURE_TOKEN_HEADER, u->token);
        call.c.r.conflict = is_conflict;
        e = call_run(&call, &span, 1);
        *ret_repeated = call.c.answer.repeated;
        gone = e == LS_EIO &&
               strcmp(store_kept(&call.c.answer, KEPT_CODE), "InvalidBlockList") == 0;
        call_done(&call);
        ls_buf_done(&body);
        if (!gone)
                return e;
        if (azure_look(u->o, u->key, &info, token) == LS_OK)
                return LS_EXISTS;
        return *ret_repeated ? LS_UNKNOWN_OUTCOME : LS_EIO;
}

/* Blocks cannot be dropped: the service does so after a week, or with the next write. */
static void
azure_upload_drop(struct store_large *u)
{
        ls_log_debug("store", "event=azure_blocks_left key=%s", u->key);
}

/* ---- life ---- */

static void
azure_close(struct ls_store *store)
{
        struct azure *s = LS_CONTAINER(store, struct azure, o.store);

        store_objects_done(&s->o);
        azure_credentials_free(s->credentials);
        for (size_t i = 0; i < AZURE_MARKS_MAX; i++)
                mark_done(&s->marks[i]);
        pthread_mutex_destroy(&s->lock);
        ls_free(s->account);
        ls_free(s->endpoint);
        ls_free(s->root);
        ls_free(s);
}

/* Names that PyIceberg knows; those of Iceberg's ADLSFileIO tell of keys only. */
static void
azure_engine_config(struct ls_store *store,
                    void (*fn)(void *ctx, const char *name, const char *value), void *ctx)
{
        struct azure *s = LS_CONTAINER(store, struct azure, o.store);
        const char *host, *slash;

        fn(ctx, "adls.account-name", s->account);
        if (s->endpoint == NULL)
                return;
        host = strstr(s->endpoint, "://") + 3;
        slash = strchr(host, '/');
        LS_AUTO(ls_free)
        char *authority = ls_str_dup(
                ls_str_make(host, slash != NULL ? (size_t)(slash - host) : strlen(host)));
        LS_AUTO(ls_free)
        char *scheme = ls_str_dup(ls_str_make(s->endpoint, (size_t)(host - 3 - s->endpoint)));

        if (slash == NULL)
                fn(ctx, "adls.account-host", authority);
        fn(ctx, "adls.blob-storage-authority", authority);
        fn(ctx, "adls.blob-storage-scheme", scheme);
        fn(ctx, "adls.dfs-storage-authority", authority);
        fn(ctx, "adls.dfs-storage-scheme", scheme);
}

static const struct ls_store_ops azure_ops = {
        .name = "azure",
        .put = store_objects_put,
        .put_if_absent = store_objects_put_if_absent,
        .put_if_match = store_objects_put_if_match,
        .get = store_objects_get,
        .head = store_objects_head,
        .list = store_objects_list,
        .del = azure_del,
        .writer_open = store_objects_writer_open,
        .engine_config = azure_engine_config,
        .close = azure_close,
};

static const struct store_objects_ops azure_how = {
        .page_max = AZURE_LIST_MAX,
        .part_bytes = AZURE_PART_BYTES,
        .parts_max = AZURE_PARTS_MAX,
        .look = azure_look,
        .read = azure_read,
        .write = azure_write,
        .page = azure_page,
        .upload_begin = azure_upload_begin,
        .upload_part = azure_upload_part,
        .upload_end = azure_upload_end,
        .upload_drop = azure_upload_drop,
};

#define LOWER_DIGITS "abcdefghijklmnopqrstuvwxyz0123456789"

/* 3 to `max` of `bytes` (Azure, "Naming and referencing containers", "Storage account overview").
 * */
static bool
name_ok(const char *name, size_t max, const char *bytes)
{
        size_t len = strlen(name);

        return len >= 3 && len <= max && strspn(name, bytes) == len;
}

/* Sets s->endpoint, s->root and the address of requests, which is returned; NULL: the endpoint is
 * none. It may have a path: that of emulators holds the account. */
static char *
base_make(struct azure *s, const struct ls_store_azure_options *o)
{
        LS_AUTO(ls_free)
        char *endpoint = store_text_there(o->endpoint)
                                 ? ls_strdup(o->endpoint)
                                 : ls_format("https://%s." AZURE_HOST_DEFAULT, s->account);
        size_t len = strlen(endpoint);
        const char *host, *path;

        while (len > 0 && endpoint[len - 1] == '/')
                endpoint[--len] = '\0';
        host = strstr(endpoint, "://");
        if (host == NULL)
                return NULL;
        path = strchr(host + 3, '/');
        path = path != NULL ? path : endpoint + len;
        if (strspn(path, LOWER_DIGITS "/-") != strlen(path))
                return NULL;
        if (store_text_there(o->endpoint))
                s->endpoint = ls_strdup(endpoint);
        s->root = ls_format("%s/%s/", path, o->container);
        return ls_str_dup(ls_str_make(endpoint, (size_t)(path - endpoint)));
}

static ls_err
azure_connect(struct azure *s, const struct ls_store_azure_options *o, struct ls_errinfo *reterr)
{
        struct azure_credentials_options keys = {
                .account = s->account, .key = o->key, .sas = o->sas, .ca_file = o->ca_file
        };
        struct store_remote_options remote = {
                .name = "azure",
                .ca_file = o->ca_file,
                .connections_max = o->connections_max,
                .deadline_ms = o->deadline_ms,
                .hedge_ms = o->hedge_ms,
                .keep = { [KEPT_TOKEN] = AZURE_TOKEN_HEADER, [KEPT_CODE] = "x-ms-error-code" }
        };
        LS_AUTO(ls_free) char *base = base_make(s, o);

        if (base == NULL)
                return ls_fail(reterr, LS_INVALID,
                               "store.azure.endpoint %.200s: write https://HOST, or "
                               "http://HOST:PORT/ACCOUNT of an emulator",
                               o->endpoint);
        keys.plain = strncmp(base, "https://", 8) != 0;
        remote.base = base;
        LS_TRY(store_remote_new(&remote, &s->o.remote, reterr));
        return azure_credentials_new(&keys, &s->credentials, reterr);
}

/* "abfss://container@account.dfs.core.windows.net": how engines name what is in Azure. */
static char *
uri_root(const struct ls_store_azure_options *o, const char *account)
{
        const char *endpoint = store_text_there(o->endpoint) ? o->endpoint : "";
        const char *blob = strstr(endpoint, ".blob.");
        LS_AUTO(ls_free) char *host = NULL;

        if (blob == NULL)
                return ls_format("abfss://%s@%s.dfs.core.windows.net", o->container, account);
        blob += strlen(".blob.");
        host = ls_str_dup(ls_str_make(blob, strcspn(blob, "/")));
        return ls_format("abfss://%s@%s.dfs.%s", o->container, account, host);
}

ls_err
ls_store_azure_open(const struct ls_store_azure_options *o, struct ls_store **ret_store,
                    struct ls_errinfo *reterr)
{
        const char *account =
                store_text_there(o->account) ? o->account : ls_process_env("AZURE_STORAGE_ACCOUNT");
        LS_AUTO(ls_free) char *root = NULL;
        struct azure *s;
        ls_err e;

        if (!name_ok(o->container, 63, LOWER_DIGITS "-"))
                return ls_fail(reterr, LS_INVALID, "%.100s is no name of a container",
                               o->container);
        if (!store_text_there(account))
                return ls_fail(reterr, LS_INVALID,
                               "set store.azure.account, or AZURE_STORAGE_ACCOUNT");
        if (!name_ok(account, 24, LOWER_DIGITS))
                return ls_fail(reterr, LS_INVALID, "%.100s is no name of a storage account",
                               account);
        root = uri_root(o, account);
        s = ls_calloc(1, sizeof *s);
        pthread_mutex_init(&s->lock, NULL);
        s->account = ls_strdup(account);
        e = store_objects_init(&s->o, &azure_ops, &azure_how, root, o->prefix, reterr);
        if (e == LS_OK)
                e = azure_connect(s, o, reterr);
        if (e != LS_OK) {
                azure_close(&s->o.store);
                return e;
        }
        *ret_store = &s->o.store;
        return LS_OK;
}
