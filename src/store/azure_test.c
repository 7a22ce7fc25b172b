/* store/azure_test.c - what only the Azure back end has. It proves: the text that is signed is the
 * one that the service publishes; a lost answer to a conditional write is settled by looking, and
 * the two meanings of 409 are told apart; blocks that another writer's commit swept away are no
 * success; a list from the middle does not read all that is before it, and misses no write; a SAS
 * goes as it is; tokens are found in each place and never sent without TLS. The server is
 * remote_test_kit.h; store_test.c has a real one. */
#include "store/remote_test_kit.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/azure/credentials.h"

#define KEY "a2V5" /* "key" */

static size_t list_max = 1000; /* entries of a page that the server gives */

static int
name_order(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The value of a name of the query, decoded as far as the tests need it. */
static bool
query_value(const struct fake_request *q, const char *name, char *ret, size_t bytes)
{
        const char *at = strstr(q->query, name);
        size_t len = 0;

        ret[0] = '\0';
        if (at == NULL)
                return false;
        for (at += strlen(name); *at != '\0' && *at != '&' && len + 1 < bytes; at++) {
                if (strncmp(at, "%2F", 3) == 0) {
                        ret[len++] = '/';
                        at += 2;
                } else {
                        ret[len++] = *at;
                }
        }
        ret[len] = '\0';
        return true;
}

/* A page of names: as the service does, a marker is the next name. */
static void
serve_list(struct fake *f, int socket, const struct fake_request *q)
{
        char marker[128], number[16], prefix[128];
        const char *names[FAKE_OBJECTS_MAX];
        size_t count = 0, given = 0, most;
        struct ls_buf out;

        query_value(q, "marker=", marker, sizeof marker);
        query_value(q, "maxresults=", number, sizeof number);
        query_value(q, "prefix=", prefix, sizeof prefix);
        most = LS_MIN((size_t)strtoul(number, NULL, 10), list_max);
        for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++)
                if (f->objects[i].used)
                        names[count++] = f->objects[i].key + strlen("/account/lake/");
        qsort(names, count, sizeof *names, name_order);
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&out, "<EnumerationResults><Blobs>");
        for (size_t i = 0; i < count; i++) {
                if (strncmp(names[i], prefix, strlen(prefix)) != 0 || strcmp(names[i], marker) < 0)
                        continue;
                if (given++ == most) {
                        ls_buf_printf(&out, "</Blobs><NextMarker>%s</NextMarker>", names[i]);
                        break;
                }
                ls_buf_printf(&out, "<Blob><Name>%s</Name><Properties></Properties></Blob>",
                              names[i]);
        }
        if (given <= most)
                ls_buf_put_text(&out, "</Blobs><NextMarker/>");
        ls_buf_put_text(&out, "</EnumerationResults>");
        fake_answer(socket, 200, "", ls_buf_span(&out), false, false);
        ls_buf_done(&out);
}

static bool
serve_special(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        if (strstr(q->query, "comp=list") != NULL && f->fixed == NULL) {
                serve_list(f, socket, q);
                return true;
        }
        if (strstr(q->query, "comp=blocklist") != NULL) {
                bool exists = fake_find(f, q->key, false) != NULL;

                if (!exists && f->upload.used) {
                        fake_header(q, f->token_header, f->upload.token, sizeof f->upload.token);
                        fake_set(fake_find(f, q->key, true), f->upload.token,
                                 ls_buf_span(&f->upload.bytes));
                        f->upload.used = false;
                        ls_buf_clear(&f->upload.bytes);
                        if (!quiet)
                                fake_answer(socket, 201, "", LS_SPAN_NULL, false, false);
                } else if (!quiet) {
                        fake_words(socket, exists ? 409 : 400,
                                   exists ? "BlobAlreadyExists" : "InvalidBlockList");
                }
                return true;
        }
        if (strstr(q->query, "comp=block") != NULL) {
                f->upload.used = true;
                ls_buf_put_span(&f->upload.bytes, ls_buf_span(&q->body));
                if (!quiet)
                        fake_answer(socket, 201, "", LS_SPAN_NULL, false, false);
                return true;
        }
        return false;
}

static void
world_open(struct world *w, int64_t deadline_ms, int64_t hedge_ms)
{
        struct ls_store_azure_options o = { LS_STORE_AZURE_DEFAULTS };
        struct ls_errinfo words = { "" };
        char endpoint[80];

        snprintf(endpoint, sizeof endpoint, "%s/account", w->f->address);
        o.container = "lake";
        o.prefix = "a";
        o.endpoint = endpoint;
        o.account = "account";
        o.key = KEY;
        o.deadline_ms = deadline_ms;
        o.hedge_ms = hedge_ms;
        assert_int_equal(ls_store_azure_open(&o, &w->s, &words), LS_OK);
}

static int
world_setup(void **state)
{
        struct world *w = ls_calloc(1, sizeof *w);

        ls_log_setup(LS_LOG_ERROR + 1, NULL, NULL);
        w->f = fake_start();
        w->f->special = serve_special;
        w->f->token_header = "x-ms-meta-lakestreamwrite";
        w->f->exists_status = 409;
        w->f->exists_code = "BlobAlreadyExists";
        list_max = 1000;
        world_open(w, 60000, 0);
        *state = w;
        return 0;
}

/* ---- signatures ---- */

/* "Authorize with Shared Key", the string of Get Container Metadata. */
static void
test_text_to_sign(void **state)
{
        struct store_request r = {
                .method = "GET",
                .path = "/mycontainer",
                .query = "comp=metadata&restype=container&timeout=20",
                .headers = { { "x-ms-version", "2015-02-21" },
                             { "x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT" } },
                .header_count = 2,
        };
        struct ls_buf text;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        azure_text_to_sign(&r, "myaccount", "\ncomp:metadata\nrestype:container\ntimeout:20",
                           &text);
        assert_string_equal(ls_buf_cstr(&text),
                            "GET\n\n\n\n\n\n\n\n\n\n\n\n"
                            "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
                            "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");
        ls_buf_done(&text);
}

/* A write: its length, type and condition are signed at their places. */
static void
test_signature_of_a_write(void **state)
{
        ls_span spans[2] = { span_of("hello "), span_of("world") };
        struct store_request r = {
                .method = "PUT",
                .path = "/c/k%251",
                .query = "",
                .body = spans,
                .body_count = 2,
                .headers = { { "x-ms-version", "2015-02-21" },
                             { "if-none-match", "*" },
                             { "content-type", "text/plain" },
                             { "x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT" } },
                .header_count = 4,
        };
        struct azure_key key;
        struct ls_buf text;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        azure_text_to_sign(&r, "me", "", &text);
        assert_string_equal(ls_buf_cstr(&text),
                            "PUT\n\n\n11\n\ntext/plain\n\n\n\n*\n\n\n"
                            "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
                            "/me/c/k%251");
        ls_buf_clear(&text);
        assert_int_equal(azure_key_of(KEY, &key), LS_OK);
        azure_sign(&r, "me", &key, "", &text);
        assert_string_equal(r.headers[4].name, "authorization");
        /* By another implementation of HMAC-SHA256 (Python's). */
        assert_string_equal(r.headers[4].value,
                            "SharedKey me:l2RNj2bbqoTtWBhdK9tLblHtZyAigekzbkufa+fqKnc=");
        ls_buf_done(&text);
}

static void
test_keys(void **state)
{
        static const char *const bad[] = {
                "", "a", "abc", "a=bc", "====", "a b=", "\x80\x80\x80="
        };
        struct azure_key key;
        char *text = ls_malloc(1025);

        assert_int_equal(azure_key_of("a2V5", &key), LS_OK);
        assert_int_equal(key.len, 3);
        assert_memory_equal(key.bytes, "key", 3);
        assert_int_equal(azure_key_of("a2U=", &key), LS_OK);
        assert_int_equal(key.len, 2);
        assert_int_equal(azure_key_of("aw==", &key), LS_OK);
        assert_int_equal(key.len, 1);
        for (size_t i = 0; i < LS_COUNT(bad); i++)
                assert_int_equal(azure_key_of(bad[i], &key), LS_INVALID);
        memset(text, 'A', 1024);
        text[1024] = '\0';
        assert_int_equal(azure_key_of(text, &key), LS_INVALID);
        ls_free(text);
}

static void
test_times(void **state)
{
        char text[STORE_HTTP_TIME_TEXT];
        const int64_t times[] = { 0, 1369353600000, 1709208000000, 1709294399000, 1796120430000 };

        for (size_t i = 0; i < LS_COUNT(times); i++) {
                store_http_time(times[i], text);
                assert_int_equal(store_http_time_of(text), times[i]);
        }
        assert_string_equal(text, "Tue, 01 Dec 2026 10:20:30 GMT");
        assert_int_equal(store_http_time_of("yesterday"), 0);
}

/* ---- conditional writes ---- */

static void
test_if_absent_answer_lost_and_overwritten(void **state)
{
        struct world *w = *state;

        fake_script(w->f, FAKE_PASS, 1, FAKE_OVERWRITE);
        assert_int_equal(ls_store_put_if_absent(w->s, "o", span_of("mine")), LS_UNKNOWN_OUTCOME);
}

/* 409 is final when the blob is there, and asked again when another operation is under way. */
static void
test_exists_and_conflict(void **state)
{
        struct world *w = *state;

        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("first")), LS_OK);
        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("second")), LS_EXISTS);
        assert_int_equal(w->f->requests, 2); /* the write, and the look whose it is */
        fake_script(w->f, FAKE_PASS, 3, FAKE_CONFLICT, FAKE_THROTTLE, FAKE_CONFLICT);
        assert_int_equal(ls_store_put_if_absent(w->s, "l", span_of("mine")), LS_OK);
        deadline_short(w);
        fake_script(w->f, FAKE_CONFLICT, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "m", span_of("mine")), LS_CONFLICT);
        fake_script(w->f, FAKE_THROTTLE, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "m", span_of("mine")), LS_THROTTLED);
        fake_script(w->f, FAKE_DENY, 0);
        assert_int_equal(ls_store_put(w->s, "m", span_of("mine")), LS_DENIED);
        fake_script(w->f, FAKE_CLOSE_BEFORE, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "m", span_of("mine")), LS_UNKNOWN_OUTCOME);
}

/* ---- uploads in parts ---- */

/* Requests: block, block, list of blocks. */
static void
test_upload_answer_lost(void **state)
{
        static const enum fake_action lost[] = { FAKE_CLOSE_AFTER, FAKE_ERROR_AFTER };
        struct world *w = *state;
        struct ls_store_info info;

        for (size_t i = 0; i < LS_COUNT(lost); i++) {
                char key[32];

                snprintf(key, sizeof key, "k%zu", i);
                fake_script(w->f, FAKE_PASS, 3, FAKE_PASS, FAKE_PASS, lost[i]);
                assert_int_equal(upload(w, key), LS_OK);
                assert_int_equal(ls_store_head(w->s, key, &info), LS_OK);
                assert_int_equal(info.bytes, 9 << 20);
        }
        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(upload(w, "k0"), LS_EXISTS);
        fake_script(w->f, FAKE_PASS, 1, FAKE_DENY);
        assert_int_equal(upload(w, "l"), LS_DENIED);
        fake_script(w->f, FAKE_PASS, 2, FAKE_PASS, FAKE_DENY);
        assert_int_equal(upload(w, "l"), LS_DENIED);
}

/* Another writer committed, and the service swept our blocks away. */
static void
test_blocks_are_gone(void **state)
{
        struct world *w = *state;
        struct ls_slice *sent = ls_slice_new(9 << 20);
        struct ls_store_writer *writer;

        memset(sent->ptr, 'u', sent->len);
        assert_int_equal(ls_store_writer_open(w->s, "k", &writer), LS_OK);
        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(writer->write(writer, ls_slice_span(sent)), LS_OK);
        pthread_mutex_lock(&w->f->lock); /* the first block is on its way */
        while (w->f->requests == 0)
                ls_cond_wait(&w->f->changed, &w->f->lock);
        w->f->upload.used = false;
        pthread_mutex_unlock(&w->f->lock);
        /* The last block makes them "used" again: swept between it and the commit. */
        fake_script(w->f, FAKE_PASS, 1, FAKE_ERROR_IN_200);
        assert_int_equal(writer->finish(writer), LS_EIO);
        ls_slice_unref(sent);
}

/* ---- lists ---- */

static ls_err
on_name(void *ctx, const char *key, const struct ls_store_info *info)
{
        ls_buf_printf(ctx, "%s ", key);
        return LS_OK;
}

static void
test_list(void **state)
{
        struct world *w = *state;
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        w->f->fixed =
                "\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults "
                "ServiceEndpoint=\"http://x\" ContainerName=\"lake\"><Prefix>a/</Prefix><Blobs>"
                "<Blob><Name>a/b+c%1</Name><Properties><Last-Modified>Tue, 01 Dec 2026 10:20:30 GMT"
                "</Last-Modified><Etag>0x8D1</Etag><Content-Length>7</Content-Length>"
                "</Properties></Blob><Blob><Name>a/folder</Name><Properties><ResourceType>directory"
                "</ResourceType><Content-Length>0</Content-Length></Properties></Blob>"
                "<Blob><Name>a/not ours</Name><Properties/></Blob><Blob><Name>elsewhere</Name>"
                "<Properties/></Blob></Blobs><NextMarker/></EnumerationResults>";
        assert_int_equal(ls_store_list(w->s, "", NULL, 100, on_key, &out), LS_OK);
        assert_string_equal(ls_buf_cstr(&out), "b+c%1:7:0x8D1:1796120430000 ");
        assert_non_null(strstr(w->f->last,
                               "GET /account/lake?comp=list&maxresults=100&prefix=a%2F&restype="
                               "container HTTP/1.1\r\n"));
        ls_buf_done(&out);
}

static void
test_bad_lists(void **state)
{
        static const char *const bad[] = {
                "",
                "nothing",
                "<EnumerationResults><Blobs><Blob></Blobs>",
                "<EnumerationResults><Blobs><Blob><Properties/></Blob></Blobs></"
                "EnumerationResults>",
                "<EnumerationResults><Blobs><Blob><Name>a/k</Name><Properties><Content-Length>-1"
                "</Content-Length></Properties></Blob></Blobs></EnumerationResults>",
                /* Not in order, as an account with folders lists. */
                "<EnumerationResults><Blobs><Blob><Name>a/b/c</Name></Blob><Blob><Name>a/b-</Name>"
                "</Blob></Blobs></EnumerationResults>",
        };
        struct world *w = *state;
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                w->f->fixed = bad[i];
                assert_int_equal(ls_store_list(w->s, "", NULL, 100, on_key, &out), LS_EIO);
        }
        assert_int_equal(out.len, 0);
        ls_buf_done(&out);
}

static void
want_list(struct world *w, const char *after, size_t count, const char *want, uint64_t requests)
{
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(ls_store_list(w->s, "k", after, count, on_name, &out), LS_OK);
        assert_string_equal(ls_buf_cstr(&out), want);
        assert_int_equal(w->f->requests, requests);
        ls_buf_done(&out);
}

/* Twelve names in pages of three. */
static void
test_list_from_the_middle(void **state)
{
        struct world *w = *state;
        char key[8];

        list_max = 3;
        for (int i = 10; i < 34; i += 2) {
                snprintf(key, sizeof key, "k%d", i);
                assert_int_equal(ls_store_put(w->s, key, span_of("x")), LS_OK);
        }
        want_list(w, "k28", 100, "k30 k32 ", 4); /* nothing is known yet: all is read */
        want_list(w, "k28", 100, "k30 k32 ", 1); /* now it is */
        want_list(w, "k20", 2, "k22 k24 ", 2);   /* its page, then the next */
        want_list(w, "k24", 100, "k26 k28 k30 k32 ", 2);
        /* What is written between a marker's place and the first name that came from it is seen. */
        assert_int_equal(ls_store_put(w->s, "k27", span_of("x")), LS_OK);
        want_list(w, "k26", 3, "k27 k28 k30 ", 2);
        assert_int_equal(ls_store_put(w->s, "k21", span_of("x")), LS_OK);
        want_list(w, "k20", 2, "k21 k22 ", 2);
        assert_int_equal(ls_store_delete(w->s, "k22"), LS_OK);
        want_list(w, "k20", 2, "k21 k24 ", 2);
        want_list(w, NULL, 100, "k10 k12 k14 k16 k18 k20 k21 k24 k26 k27 k28 k30 k32 ", 5);
}

/* A marker that the service does not take any more. */
static void
test_old_marker(void **state)
{
        struct world *w = *state;
        struct ls_buf out;

        list_max = 1;
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        assert_int_equal(ls_store_put(w->s, "k1", span_of("x")), LS_OK);
        assert_int_equal(ls_store_put(w->s, "k2", span_of("x")), LS_OK);
        assert_int_equal(ls_store_put(w->s, "k3", span_of("x")), LS_OK);
        want_list(w, "k2", 100, "k3 ", 3);
        fake_script(w->f, FAKE_PASS, 1, FAKE_NOT_XML);
        assert_int_equal(ls_store_list(w->s, "k", "k2", 100, on_name, &out), LS_OK);
        assert_string_equal(ls_buf_cstr(&out), "k3 ");
        ls_buf_done(&out);
}

/* ---- where requests go ---- */

static void
test_options_refused(void **state)
{
        static const struct ls_store_azure_options bad[] = {
                { LS_STORE_AZURE_DEFAULTS, .container = "no", .account = "acc", .key = KEY },
                { LS_STORE_AZURE_DEFAULTS, .container = "Upper", .account = "acc", .key = KEY },
                { LS_STORE_AZURE_DEFAULTS, .container = "a/bc", .account = "acc", .key = KEY },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .key = KEY },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "a-b", .key = KEY },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc", .key = "x" },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc", .sas = "x" },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc",
                  .sas = "sig=a b" },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc", .key = KEY,
                  .prefix = "../x" },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc", .key = KEY,
                  .endpoint = "host:1" },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc", .key = KEY,
                  .endpoint = "ftp://host" },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc", .key = KEY,
                  .endpoint = "http://host/a?b" },
                { LS_STORE_AZURE_DEFAULTS, .container = "lake", .account = "acc", .key = KEY,
                  .endpoint = "https://acc@host" },
        };

        unsetenv("AZURE_STORAGE_ACCOUNT");
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                struct ls_errinfo words = { "" };
                struct ls_store *s = NULL;

                assert_int_equal(ls_store_azure_open(&bad[i], &s, &words), LS_INVALID);
                assert_null(s);
                assert_true(words.text[0] != '\0');
        }
}

static void
on_config(void *ctx, const char *name, const char *value)
{
        ls_buf_printf(ctx, "%s=%s\n", name, value);
}

static void
want_named(const char *endpoint, const char *uri, const char *config)
{
        struct ls_store_azure_options o = { LS_STORE_AZURE_DEFAULTS };
        struct ls_errinfo words;
        struct ls_store *s;
        struct ls_buf out;

        o.container = "lake";
        o.prefix = "p/q";
        o.account = "acc";
        o.key = KEY;
        o.endpoint = endpoint;
        assert_int_equal(ls_store_azure_open(&o, &s, &words), LS_OK);
        assert_string_equal(s->uri, uri);
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_store_engine_config(s, on_config, &out);
        assert_string_equal(ls_buf_cstr(&out), config);
        assert_null(strstr(ls_buf_cstr(&out), KEY));
        ls_buf_done(&out);
        ls_store_close(s);
}

static void
test_names_for_engines(void **state)
{
        want_named(NULL, "abfss://lake@acc.dfs.core.windows.net/p/q", "adls.account-name=acc\n");
        want_named("https://acc.blob.core.chinacloudapi.cn/",
                   "abfss://lake@acc.dfs.core.chinacloudapi.cn/p/q",
                   "adls.account-name=acc\nadls.account-host=acc.blob.core.chinacloudapi.cn\n"
                   "adls.blob-storage-authority=acc.blob.core.chinacloudapi.cn\n"
                   "adls.blob-storage-scheme=https\n"
                   "adls.dfs-storage-authority=acc.blob.core.chinacloudapi.cn\n"
                   "adls.dfs-storage-scheme=https\n");
        want_named("http://127.0.0.1:10000/acc", "abfss://lake@acc.dfs.core.windows.net/p/q",
                   "adls.account-name=acc\nadls.blob-storage-authority=127.0.0.1:10000\n"
                   "adls.blob-storage-scheme=http\nadls.dfs-storage-authority=127.0.0.1:10000\n"
                   "adls.dfs-storage-scheme=http\n");
}

static void
test_sas(void **state)
{
        struct world *w = *state;
        struct ls_store_azure_options o = { LS_STORE_AZURE_DEFAULTS };
        struct ls_errinfo words;
        struct ls_store *s;

        o.container = "lake";
        o.account = "account";
        o.endpoint = w->f->address;
        o.sas = "?sv=2020-12-06&sig=a%2Bb%3D";
        assert_int_equal(ls_store_azure_open(&o, &s, &words), LS_OK);
        assert_int_equal(ls_store_put(s, "k%1", span_of("x")), LS_OK);
        assert_non_null(
                strstr(w->f->last, "PUT /lake/k%251?sv=2020-12-06&sig=a%2Bb%3D HTTP/1.1\r\n"));
        assert_null(strcasestr(w->f->last, "\r\nauthorization:"));
        assert_non_null(strstr(w->f->last, "\r\nx-ms-blob-type: BlockBlob\r\n"));
        ls_store_close(s);
}

/* ---- credentials ---- */

static const char *const variables[] = {
        "AZURE_STORAGE_ACCOUNT",      "AZURE_STORAGE_KEY",    "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_FEDERATED_TOKEN_FILE", "AZURE_CLIENT_ID",      "AZURE_TENANT_ID",
        "AZURE_CLIENT_SECRET",        "AZURE_AUTHORITY_HOST", "AZURE_POD_IDENTITY_AUTHORITY_HOST",
        "IDENTITY_ENDPOINT",          "IDENTITY_HEADER",
};

static void
environment_clear(void)
{
        for (size_t i = 0; i < LS_COUNT(variables); i++)
                unsetenv(variables[i]);
}

static void
want_authorization(const char *want)
{
        struct azure_credentials_options o = { .account = "acc" };
        struct store_request r = { .method = "GET", .path = "/" };
        struct ls_errinfo words = { "" };
        struct azure_credentials *c;
        struct ls_buf text;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        assert_int_equal(azure_credentials_new(&o, &c, &words), LS_OK);
        assert_int_equal(azure_credentials_sign(c, &r, "", &text), LS_OK);
        assert_string_equal(r.headers[0].name, "authorization");
        assert_memory_equal(r.headers[0].value, want, strlen(want));
        ls_buf_done(&text);
        azure_credentials_free(c);
}

static void
test_token_of_a_workload(void **state)
{
        struct azure_credentials_options o = { .account = "acc", .plain = true };
        char path[] = "/tmp/ls-token-XXXXXX";
        struct ls_errinfo words = { "" };
        struct azure_credentials *c;
        struct world *w = *state;
        int file = mkstemp(path);

        environment_clear();
        assert_true(file >= 0);
        assert_int_equal(write(file, "to.ken\n", 7), 7);
        close(file);
        setenv("AZURE_FEDERATED_TOKEN_FILE", path, 1);
        setenv("AZURE_CLIENT_ID", "me", 1);
        setenv("AZURE_TENANT_ID", "tenant", 1);
        setenv("AZURE_AUTHORITY_HOST", w->f->address, 1);
        w->f->fixed = "{\"token_type\":\"Bearer\",\"expires_in\":3599,\"access_token\":\"T.1\"}";
        want_authorization("Bearer T.1");
        assert_non_null(strstr(w->f->last, "POST /tenant/oauth2/v2.0/token HTTP/1.1\r\n"));
        /* Not over a line that others read. */
        assert_int_equal(azure_credentials_new(&o, &c, &words), LS_ABSENT);
        assert_non_null(strstr(words.text, "http://"));
        o.plain = false;
        w->f->fixed = "{\"access_token\":\"two words\"}";
        assert_int_equal(azure_credentials_new(&o, &c, &words), LS_DENIED);
        unlink(path);
        assert_int_equal(azure_credentials_new(&o, &c, &words), LS_EIO);
        environment_clear();
}

static void
test_token_of_a_machine(void **state)
{
        struct azure_credentials_options o = { .account = "acc" };
        struct ls_errinfo words = { "" };
        struct azure_credentials *c;
        char endpoint[128];
        struct world *w = *state;

        environment_clear();
        w->f->fixed = "{\"access_token\":\"T2\",\"expires_on\":\"4102444800\"}";
        setenv("AZURE_POD_IDENTITY_AUTHORITY_HOST", w->f->address, 1);
        want_authorization("Bearer T2");
        assert_non_null(strstr(w->f->last, "GET /metadata/identity/oauth2/token?api-version="
                                           "2018-02-01&resource=https%3A%2F%2Fstorage.azure.com"
                                           "%2F HTTP/1.1\r\n"));
        assert_non_null(strstr(w->f->last, "\r\nmetadata: true\r\n"));
        snprintf(endpoint, sizeof endpoint, "%s/msi/token", w->f->address);
        setenv("IDENTITY_ENDPOINT", endpoint, 1);
        setenv("IDENTITY_HEADER", "secret", 1);
        setenv("AZURE_CLIENT_ID", "me", 1);
        want_authorization("Bearer T2");
        assert_non_null(strstr(w->f->last, "GET /msi/token?api-version=2019-08-01&resource="));
        assert_non_null(strstr(w->f->last, "&client_id=me HTTP/1.1\r\n"));
        assert_non_null(strstr(w->f->last, "\r\nx-identity-header: secret\r\n"));
        w->f->fixed = "{}";
        assert_int_equal(azure_credentials_new(&o, &c, &words), LS_ABSENT);
        assert_non_null(strstr(words.text, "store.azure.key"));
        setenv("AZURE_STORAGE_KEY", KEY, 1);
        want_authorization("SharedKey acc:");
        environment_clear();
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_text_to_sign),
                cmocka_unit_test(test_signature_of_a_write),
                cmocka_unit_test(test_keys),
                cmocka_unit_test(test_times),
                TEST(test_if_absent_answer_lost),
                TEST(test_if_absent_answer_lost_and_overwritten),
                TEST(test_exists_and_conflict),
                TEST(test_upload_answer_lost),
                TEST(test_blocks_are_gone),
                TEST(test_list),
                TEST(test_bad_lists),
                TEST(test_list_from_the_middle),
                TEST(test_old_marker),
                cmocka_unit_test(test_options_refused),
                cmocka_unit_test(test_names_for_engines),
                TEST(test_sas),
                TEST(test_token_of_a_workload),
                TEST(test_token_of_a_machine),
        };

        return cmocka_run_group_tests_name("azure", tests, NULL, NULL);
}
