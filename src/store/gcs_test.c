/* store/gcs_test.c - what only the back end of Google Cloud Storage has. It proves: a lost answer
 * to a conditional write is settled by looking; a large object goes in a session whose condition
 * holds at its end, and what the service did not keep of a part is sent again; lists go on where a
 * page brought nothing; the token of a service account is asked for with a JWT that its key
 * verifies; tokens are found in each place and none is sent without TLS unasked. The server is
 * remote_test_kit.h; store_test.c has a real one. */
#include "store/remote_test_kit.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>

#include "base/clock.h"
#include "base/log.h"
#include "store/gcs/credentials.h"

#define OBJECTS "/storage/v1/b/lake/o"

/* ---- the server ---- */

static bool overwrite;     /* another writer replaces what is made */
static bool told_at_begin; /* that there is an object, when a session begins */
static size_t keep_max;    /* of a part; 0: all */
static size_t parts_got;

/* The text behind `name` up to '"'. */
static void
json_text(const struct fake_request *q, const char *name, char *ret, size_t bytes)
{
        const uint8_t *at = memmem(q->body.ptr, q->body.len, name, strlen(name));

        ret[0] = '\0';
        if (at == NULL)
                return;
        at += strlen(name);
        snprintf(ret, bytes, "%.*s", (int)strcspn((const char *)at, "\""), (const char *)at);
}

/* The path of the object that the body names. */
static void
body_path(const struct fake_request *q, char *ret, size_t bytes)
{
        struct ls_buf path;
        char name[128];

        json_text(q, "\"name\":\"", name, sizeof name);
        ls_buf_init(&path, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&path, OBJECTS "/");
        store_encode(&path, name, false);
        snprintf(ret, bytes, "%s", ls_buf_cstr(&path));
        ls_buf_done(&path);
}

static void
serve_text(int socket, int status, const char *headers, const char *text, bool quiet)
{
        if (!quiet)
                fake_answer(socket, status, headers, ls_span_of(text, strlen(text)), false, false);
}

/* Makes the object, if the condition holds. */
static void
serve_make(struct fake *f, int socket, const char *path, const char *token, ls_span bytes,
           bool conditional, bool quiet)
{
        if (conditional && fake_find(f, path, false) != NULL) {
                serve_text(socket, 412, "", "{\"error\":{\"message\":\"a condition\"}}", quiet);
                return;
        }
        fake_set(fake_find(f, path, true), token, bytes);
        if (overwrite)
                fake_set(fake_find(f, path, true), "another", ls_span_of("another's", 9));
        serve_text(socket, 200, "", "{}", quiet);
}

static void
serve_multipart(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        static const char gap[] = "\r\n\r\n";
        const uint8_t *data, *end = q->body.ptr + q->body.len;
        char path[128], token[64];

        body_path(q, path, sizeof path);
        json_text(q, "\"lakestream-write\":\"", token, sizeof token);
        data = memmem(q->body.ptr, q->body.len, gap, 4);
        data = memmem(data + 4, (size_t)(end - data - 4), gap, 4);
        assert_non_null(data);
        data += 4;
        end -= strlen("\r\n--") + 32 + strlen("--\r\n");
        serve_make(f, socket, path, token, ls_span_of(data, (size_t)(end - data)),
                   strstr(q->query, "ifGenerationMatch=0") != NULL, quiet);
}

static void
serve_begin(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        assert_non_null(strstr(q->query, "ifGenerationMatch=0"));
        body_path(q, f->upload.key, sizeof f->upload.key);
        json_text(q, "\"lakestream-write\":\"", f->upload.token, sizeof f->upload.token);
        if (told_at_begin) {
                serve_text(socket, 412, "", "{}", quiet);
                return;
        }
        f->upload.used = true;
        ls_buf_clear(&f->upload.bytes);
        serve_text(socket, 200,
                   "location: http://elsewhere.example/upload/storage/v1/b/lake/o?uploadType="
                   "resumable&upload_id=u1\r\n",
                   "{}", quiet);
}

static void
serve_part(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        size_t from, to, all = 0, there = f->upload.bytes.len, take;
        char range[96], header[64];

        parts_got++;
        if (!f->upload.used) {
                serve_text(socket, 404, "", "{}", quiet);
                return;
        }
        assert_true(fake_header(q, "content-range", range, sizeof range));
        assert_true(sscanf(range, "bytes %zu-%zu/%zu", &from, &to, &all) >= 2);
        assert_int_equal(to + 1 - from, q->body.len);
        assert_true(from <= there);
        /* What is there already is overlooked. */
        take = q->body.len - LS_MIN(there - from, q->body.len);
        if (keep_max > 0)
                take = LS_MIN(take, keep_max);
        ls_buf_put(&f->upload.bytes, q->body.ptr + (there - from), take);
        if (all > 0 && f->upload.bytes.len == all) {
                f->upload.used = false;
                serve_make(f, socket, f->upload.key, f->upload.token, ls_buf_span(&f->upload.bytes),
                           true, quiet);
                return;
        }
        snprintf(header, sizeof header, "range: bytes=0-%zu\r\n", f->upload.bytes.len - 1);
        serve_text(socket, 308, header, "", quiet);
}

static bool
serve_special(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        struct fake_object *o;
        char text[256];

        if (strstr(q->query, "upload_id=u1") != NULL) {
                if (strcmp(q->method, "PUT") == 0) {
                        serve_part(f, socket, q, quiet);
                } else {
                        f->upload.used = false;
                        serve_text(socket, 499, "", "", quiet);
                }
        } else if (strstr(q->query, "uploadType=multipart") != NULL) {
                serve_multipart(f, socket, q, quiet);
        } else if (strstr(q->query, "uploadType=resumable") != NULL) {
                serve_begin(f, socket, q, quiet);
        } else if (strstr(q->query, "?fields=generation") != NULL) {
                o = fake_find(f, q->key, false);
                if (o == NULL) {
                        serve_text(socket, 404, "", "{}", quiet);
                        return true;
                }
                snprintf(text, sizeof text,
                         "{\"generation\":\"%s\",\"size\":\"%zu\",\"metadata\":{"
                         "\"lakestream-write\":\"%s\"},\"updated\":\"2026-12-01T10:20:30.1Z\"}",
                         o->etag + 1, o->bytes.len, o->token);
                serve_text(socket, 200, "", text, quiet);
        } else {
                return false;
        }
        return true;
}

/* ---- the world ---- */

static void
world_open(struct world *w, int64_t deadline_ms, int64_t hedge_ms)
{
        struct ls_store_gcs_options o = { LS_STORE_GCS_DEFAULTS };
        struct ls_errinfo words = { "" };

        o.bucket = "lake";
        o.prefix = "a";
        o.endpoint = w->f->address;
        o.deadline_ms = deadline_ms;
        o.hedge_ms = hedge_ms;
        assert_int_equal(ls_store_gcs_open(&o, &w->s, &words), LS_OK);
}

static int
world_setup(void **state)
{
        struct world *w = ls_calloc(1, sizeof *w);

        ls_log_setup(LS_LOG_ERROR + 1, NULL, NULL);
        w->f = fake_start();
        w->f->special = serve_special;
        overwrite = told_at_begin = false;
        keep_max = parts_got = 0;
        world_open(w, 60000, 0);
        *state = w;
        return 0;
}

/* ---- conditional writes ---- */

static void
test_if_absent_answer_lost_and_overwritten(void **state)
{
        struct world *w = *state;

        overwrite = true;
        fake_script(w->f, FAKE_PASS, 1, FAKE_CLOSE_AFTER);
        assert_int_equal(ls_store_put_if_absent(w->s, "o", span_of("mine")), LS_UNKNOWN_OUTCOME);
}

static void
test_exists_and_conflict(void **state)
{
        struct world *w = *state;

        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("first")), LS_OK);
        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("second")), LS_EXISTS);
        assert_int_equal(w->f->requests, 2); /* the write, and the look whose it is */
        want_content(w, "k", "first");
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

/* What is no generation is never the current one, and is not sent. */
static void
test_etags(void **state)
{
        static const char *const bad[] = { "0", "-1", "abc", "1&x=y", "99999999999999999999" };
        struct world *w = *state;
        struct ls_store_info info;

        for (size_t i = 0; i < LS_COUNT(bad); i++)
                assert_int_equal(ls_store_put_if_match(w->s, "k", bad[i], span_of("x")), LS_ABSENT);
        assert_int_equal(ls_store_put(w->s, "k", span_of("x")), LS_OK);
        for (size_t i = 0; i < LS_COUNT(bad); i++)
                assert_int_equal(ls_store_put_if_match(w->s, "k", bad[i], span_of("y")), LS_EXISTS);
        assert_int_equal(ls_store_head(w->s, "k", &info), LS_OK);
        assert_int_equal(info.bytes, 1);
        assert_true(info.modified_ms == 1796120430000);
        assert_int_equal(ls_store_put_if_match(w->s, "k", info.etag, span_of("y")), LS_OK);
        want_content(w, "k", "y");
}

static void
test_refusals(void **state)
{
        struct world *w = *state;
        struct ls_slice *got = NULL;
        struct ls_store_info info;

        assert_int_equal(ls_store_get(w->s, "k", 0, 0, &got), LS_ABSENT);
        w->f->fixed = "{\"generation\":\"x\"}";
        assert_int_equal(ls_store_get(w->s, "k", 1, 5, &got), LS_EIO);
        w->f->fixed = NULL;
        w->f->special = NULL;
        fake_script(w->f, FAKE_NOT_XML, 0);
        assert_int_equal(ls_store_head(w->s, "k", &info), LS_EIO);
        assert_null(got);
}

/* ---- sessions ---- */

static void
want_large(struct world *w, const char *key)
{
        struct ls_slice *got = NULL;

        assert_int_equal(ls_store_get(w->s, key, 0, 0, &got), LS_OK);
        assert_int_equal(got->len, 9 << 20);
        for (size_t i = 0; i < got->len; i++)
                if (got->ptr[i] != 'u')
                        fail();
        ls_slice_unref(got);
}

/* Requests: begin, part, last part. */
static void
test_upload_answer_lost(void **state)
{
        static const enum fake_action lost[] = { FAKE_CLOSE_AFTER, FAKE_ERROR_AFTER };
        struct world *w = *state;

        for (size_t i = 0; i < LS_COUNT(lost); i++) {
                char key[32];

                /* The session is gone when it is asked again, and the object is ours. */
                snprintf(key, sizeof key, "k%zu", i);
                fake_script(w->f, FAKE_PASS, 3, FAKE_PASS, FAKE_PASS, lost[i]);
                assert_int_equal(upload(w, key), LS_OK);
                want_large(w, key);
                /* A part that was kept is sent again, and overlooked. */
                snprintf(key, sizeof key, "l%zu", i);
                fake_script(w->f, FAKE_PASS, 2, FAKE_PASS, lost[i]);
                assert_int_equal(upload(w, key), LS_OK);
                want_large(w, key);
        }
        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(upload(w, "k0"), LS_EXISTS);
        told_at_begin = true;
        assert_int_equal(upload(w, "k0"), LS_EXISTS);
        told_at_begin = false;
        fake_script(w->f, FAKE_PASS, 1, FAKE_DENY);
        assert_int_equal(upload(w, "m"), LS_DENIED);
        fake_script(w->f, FAKE_PASS, 2, FAKE_PASS, FAKE_DENY);
        assert_int_equal(upload(w, "m"), LS_DENIED);
        assert_false(w->f->upload.used);               /* dropped */
        fake_script(w->f, FAKE_PASS, 1, FAKE_NOT_XML); /* no address */
        assert_int_equal(upload(w, "m"), LS_EIO);
}

/* The service keeps three mebibytes of each part. */
static void
test_parts_kept_in_part(void **state)
{
        struct world *w = *state;

        keep_max = 3 << 20;
        assert_int_equal(upload(w, "k"), LS_OK);
        assert_int_equal(parts_got, 4); /* 3, 3, 2 and 1 */
        want_large(w, "k");
}

/* ---- lists ---- */

#define ITEM(name) \
        "{\"name\":\"" name "\",\"generation\":\"7\",\"updated\":\"2026-12-01T10:20:30.5Z\"}"

static size_t pages_got;

/* A page of nothing new, one of one name, one without an end of its own. */
static bool
serve_pages(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        pages_got++;
        if (strstr(q->query, "pageToken=t1") != NULL)
                serve_text(socket, 200, "",
                           "{\"items\":[" ITEM("a/c") "],\"nextPageToken\":\"t2\"}", quiet);
        else if (strstr(q->query, "startOffset=a%2Fc&") != NULL ||
                 strstr(q->query, "startOffset=a%2Fc") != NULL)
                serve_text(socket, 200, "", "{\"items\":[" ITEM("a/c") "," ITEM("a/d") "]}", quiet);
        else
                serve_text(socket, 200, "",
                           "{\"items\":[" ITEM("a/b") "],\"nextPageToken\":\"t1\"}", quiet);
        return true;
}

static void
test_list(void **state)
{
        struct world *w = *state;
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        w->f->fixed =
                "{\"kind\":\"storage#objects\",\"items\":[{\"name\":\"a/b+c%1\",\"generation\":"
                "\"1700000000000001\",\"size\":\"7\",\"updated\":\"2026-12-01T10:20:30.123Z\"},"
                "{\"name\":\"a/not ours\",\"generation\":\"1\"},{\"name\":\"elsewhere\","
                "\"generation\":\"1\"}]}";
        assert_int_equal(ls_store_list(w->s, "", NULL, 100, on_key, &out), LS_OK);
        assert_string_equal(ls_buf_cstr(&out), "b+c%1:7:1700000000000001:1796120430000 ");
        assert_non_null(strstr(w->f->last, "&maxResults=100&prefix=a%2F HTTP/1.1\r\n"));
        w->f->fixed = NULL;
        w->f->special = serve_pages;
        ls_buf_clear(&out);
        assert_int_equal(ls_store_list(w->s, "", "b", 100, on_key, &out), LS_OK);
        assert_string_equal(ls_buf_cstr(&out), "c:0:7:1796120430000 d:0:7:1796120430000 ");
        assert_int_equal(pages_got, 3);
        ls_buf_done(&out);
}

static void
test_bad_lists(void **state)
{
        static const char *const bad[] = {
                "",
                "nothing",
                "[]",
                "{\"items\":[{\"generation\":\"1\"}]}",
                "{\"items\":[{\"name\":\"a/k\"}]}",
                "{\"items\":[{\"name\":\"a/k\",\"generation\":\"1\",\"size\":\"-1\"}]}",
                "{\"items\":[{\"name\":\"a/k\",\"generation\":1}]}",
                "{\"items\":[" ITEM("a/l") "," ITEM("a/k") "]}",
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

/* ---- where requests go ---- */

static void
test_options_refused(void **state)
{
        static const struct ls_store_gcs_options bad[] = {
                { LS_STORE_GCS_DEFAULTS, .bucket = "no" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "Upper", .token = "t" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "a/bc", .token = "t" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "lake", .token = "t", .prefix = "../x" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "lake", .token = "two words" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "lake", .token = "t", .endpoint = "host:1" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "lake", .token = "t", .endpoint = "ftp://host" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "lake", .token = "t",
                  .endpoint = "http://host/path" },
                { LS_STORE_GCS_DEFAULTS, .bucket = "lake", .endpoint = "http://host",
                  .credentials_file = "/a/file" },
        };

        unsetenv("STORAGE_EMULATOR_HOST");
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                struct ls_errinfo words = { "" };
                struct ls_store *s = NULL;

                assert_int_equal(ls_store_gcs_open(&bad[i], &s, &words), LS_INVALID);
                assert_null(s);
                assert_true(words.text[0] != '\0');
        }
}

static void
on_config(void *ctx, const char *name, const char *value)
{
        ls_buf_printf(ctx, "%s=%s\n", name, value);
}

/* Only a token that was given goes to an emulator, whose address may come from the environment. */
static void
test_emulator(void **state)
{
        struct world *w = *state;
        struct ls_store_gcs_options o = { LS_STORE_GCS_DEFAULTS };
        struct ls_errinfo words;
        struct ls_store *s;
        struct ls_buf out;
        char want[128];

        assert_int_equal(ls_store_put(w->s, "k%1", span_of("x")), LS_OK);
        assert_null(strcasestr(w->f->last, "\r\nauthorization:"));
        assert_int_equal(ls_store_delete(w->s, "k%1"), LS_OK);
        assert_non_null(strstr(w->f->last, "DELETE " OBJECTS "/a%2Fk%251 HTTP/1.1\r\n"));
        setenv("STORAGE_EMULATOR_HOST", w->f->address + strlen("http://"), 1);
        o.bucket = "lake";
        o.token = "T.0";
        assert_int_equal(ls_store_gcs_open(&o, &s, &words), LS_OK);
        unsetenv("STORAGE_EMULATOR_HOST");
        assert_string_equal(s->uri, "gs://lake");
        assert_int_equal(ls_store_put(s, "k", span_of("x")), LS_OK);
        assert_non_null(strstr(w->f->last, "\r\nauthorization: Bearer T.0\r\n"));
        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_store_engine_config(s, on_config, &out);
        snprintf(want, sizeof want, "gcs.service.host=%s\n", w->f->address);
        assert_string_equal(ls_buf_cstr(&out), want);
        ls_buf_done(&out);
        ls_store_close(s);
}

/* ---- credentials ---- */

/* A private key in PEM, to be freed. */
static char *
key_make(EVP_PKEY **ret_key)
{
        EVP_PKEY *key = EVP_RSA_gen(2048);
        BIO *bio = BIO_new(BIO_s_mem());
        char *text, *pem;
        long len;

        assert_non_null(key);
        assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
        len = BIO_get_mem_data(bio, &text);
        pem = ls_str_dup(ls_str_make(text, (size_t)len));
        BIO_free(bio);
        *ret_key = key;
        return pem;
}

/* Bytes of base64url without padding. */
static size_t
base64url_read(const char *text, size_t len, uint8_t *ret_bytes)
{
        char copy[1024];
        size_t padding = (4 - len % 4) % 4;

        assert_true(len + 4 < sizeof copy);
        for (size_t i = 0; i < len; i++)
                copy[i] = text[i] == '-' ? '+' : text[i] == '_' ? '/' : text[i];
        memset(copy + len, '=', padding);
        return (size_t)EVP_DecodeBlock(ret_bytes, (uint8_t *)copy, (int)(len + padding)) - padding;
}

static void
test_jwt(void **state)
{
        struct ls_errinfo words = { "" };
        char *jwt = NULL, *pem, *dot, *last;
        uint8_t bytes[1024];
        EVP_MD_CTX *c;
        EVP_PKEY *key;
        size_t len;

        pem = key_make(&key);
        assert_int_equal(
                gcs_jwt_make("me@x", pem, "k1", "https://a/token", 1700000000, &jwt, &words),
                LS_OK);
        dot = strchr(jwt, '.');
        last = strrchr(jwt, '.');
        assert_ptr_not_equal(dot, last);
        assert_null(strpbrk(jwt, "+/= \n"));
        len = base64url_read(jwt, (size_t)(dot - jwt), bytes);
        bytes[len] = '\0';
        assert_string_equal((char *)bytes, "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k1\"}");
        len = base64url_read(dot + 1, (size_t)(last - dot - 1), bytes);
        bytes[len] = '\0';
        assert_string_equal(
                (char *)bytes,
                "{\"iss\":\"me@x\",\"scope\":\"https://www.googleapis.com/auth/"
                "devstorage.read_write\",\"aud\":\"https://a/token\",\"iat\":1700000000,"
                "\"exp\":1700003600}");
        len = base64url_read(last + 1, strlen(last + 1), bytes);
        c = EVP_MD_CTX_new();
        assert_int_equal(EVP_DigestVerifyInit(c, NULL, EVP_sha256(), NULL, key), 1);
        assert_int_equal(EVP_DigestVerify(c, bytes, len, (uint8_t *)jwt, (size_t)(last - jwt)), 1);
        EVP_MD_CTX_free(c);
        ls_free(jwt);
        assert_int_equal(gcs_jwt_make("me@x", "no key", NULL, "a", 1, &jwt, &words), LS_INVALID);
        EVP_PKEY_free(key);
        ls_free(pem);
}

static void
environment_clear(void)
{
        unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
        unsetenv("STORAGE_EMULATOR_HOST");
        setenv("CLOUDSDK_CONFIG", "/nowhere", 1);
        setenv("GCE_METADATA_HOST", "127.0.0.1:1", 1);
}

static void
want_authorization(const char *want)
{
        struct gcs_credentials_options o = { 0 };
        struct store_request r = { .method = "GET", .path = "/" };
        struct ls_errinfo words = { "" };
        struct gcs_credentials *c;
        struct ls_buf text;

        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        assert_int_equal(gcs_credentials_new(&o, &c, &words), LS_OK);
        assert_int_equal(gcs_credentials_sign(c, &r, &text), LS_OK);
        assert_string_equal(r.headers[0].name, "authorization");
        assert_string_equal(r.headers[0].value, want);
        ls_buf_done(&text);
        gcs_credentials_free(c);
}

static void
refused(const char *path, const char *text, const char *want)
{
        struct gcs_credentials_options o = { .file = path };
        struct ls_errinfo words = { "" };
        struct gcs_credentials *c;

        file_put(path, text);
        assert_int_equal(gcs_credentials_new(&o, &c, &words), LS_INVALID);
        assert_non_null(strstr(words.text, want));
}

static void
test_token_of_a_file(void **state)
{
        struct world *w = *state;
        char dir[] = "/tmp/ls-gcs-XXXXXX", path[64], text[4096], *pem;
        struct ls_buf escaped;
        EVP_PKEY *key;

        environment_clear();
        assert_non_null(mkdtemp(dir));
        snprintf(path, sizeof path, "%s/application_default_credentials.json", dir);
        pem = key_make(&key);
        ls_buf_init(&escaped, LS_BUF_MAX_DEFAULT);
        for (const char *c = pem; *c != '\0'; c++)
                ls_buf_printf(&escaped, *c == '\n' ? "\\n" : "%c", *c);
        snprintf(text, sizeof text,
                 "{\"type\":\"service_account\",\"client_email\":\"me@x\",\"private_key_id\":\"1\","
                 "\"private_key\":\"%s\",\"token_uri\":\"%s/token\"}",
                 ls_buf_cstr(&escaped), w->f->address);
        file_put(path, text);
        setenv("GOOGLE_APPLICATION_CREDENTIALS", path, 1);
        w->f->fixed = "{\"access_token\":\"T1\",\"expires_in\":3599}";
        want_authorization("Bearer T1");
        assert_non_null(strstr(w->f->last, "POST /token HTTP/1.1\r\n"));
        /* A user's login, where gcloud puts it. */
        unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
        setenv("CLOUDSDK_CONFIG", dir, 1);
        snprintf(text, sizeof text,
                 "{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"s\","
                 "\"refresh_token\":\"r\",\"token_uri\":\"%s/user\"}",
                 w->f->address);
        file_put(path, text);
        w->f->fixed = "{\"access_token\":\"T2\"}";
        want_authorization("Bearer T2");
        assert_non_null(strstr(w->f->last, "POST /user HTTP/1.1\r\n"));
        refused(path, "no json", "no JSON");
        refused(path, "{\"type\":\"external_account\"}", "service_account or authorized_user");
        refused(path, "{\"type\":\"service_account\"}", "client_email and private_key");
        refused(path, "{\"type\":\"authorized_user\"}", "refresh_token");
        refused(path, "{\"type\":\"service_account\",\"client_email\":\"a\",\"private_key\":\"b\"}",
                "no RSA key");
        unlink(path);
        rmdir(dir);
        EVP_PKEY_free(key);
        ls_buf_done(&escaped);
        ls_free(pem);
        environment_clear();
}

static void
test_token_of_a_machine(void **state)
{
        struct gcs_credentials_options o = { .file = "/nowhere/file" };
        struct ls_errinfo words = { "" };
        struct gcs_credentials *c;
        struct world *w = *state;

        environment_clear();
        assert_int_equal(gcs_credentials_new(&o, &c, &words), LS_EIO);
        o.file = NULL;
        setenv("GCE_METADATA_HOST", w->f->address + strlen("http://"), 1);
        w->f->fixed = "{\"access_token\":\"T3\",\"expires_in\":3599,\"token_type\":\"Bearer\"}";
        want_authorization("Bearer T3");
        assert_non_null(strstr(w->f->last, "GET /computeMetadata/v1/instance/service-accounts/"
                                           "default/token HTTP/1.1\r\n"));
        assert_non_null(strstr(w->f->last, "\r\nmetadata-flavor: Google\r\n"));
        w->f->fixed = "{}";
        assert_int_equal(gcs_credentials_new(&o, &c, &words), LS_ABSENT);
        assert_non_null(strstr(words.text, "GOOGLE_APPLICATION_CREDENTIALS"));
        environment_clear();
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_if_absent_answer_lost),
                TEST(test_if_absent_answer_lost_and_overwritten),
                TEST(test_exists_and_conflict),
                TEST(test_etags),
                TEST(test_refusals),
                TEST(test_upload_answer_lost),
                TEST(test_parts_kept_in_part),
                TEST(test_list),
                TEST(test_bad_lists),
                cmocka_unit_test(test_options_refused),
                TEST(test_emulator),
                cmocka_unit_test(test_jwt),
                TEST(test_token_of_a_file),
                TEST(test_token_of_a_machine),
        };

        return cmocka_run_group_tests_name("gcs", tests, NULL, NULL);
}
