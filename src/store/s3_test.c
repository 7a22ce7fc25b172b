/* store/s3_test.c - what only the S3 back end has. It proves: signatures are those that AWS
 * publishes; keys are found in each place and renewed before they end; a lost answer to a
 * conditional write is settled by looking, and never told as what it is not; what can be tried
 * again is, what cannot ends with its outcome; slow reads are asked twice; a store in trouble is
 * not hit harder; answers that are none are refused. The server is remote_test_kit.h; store_test.c
 * has a real one. */
#include "store/remote_test_kit.h"

#include "base/clock.h"
#include "base/log.h"
#include "store/s3/credentials.h"
#include "store/xml.h"

static void
world_open(struct world *w, int64_t deadline_ms, int64_t hedge_ms)
{
        struct ls_store_s3_options o = { LS_STORE_S3_DEFAULTS };
        struct ls_errinfo words = { "" };

        o.bucket = "lake";
        o.prefix = "a";
        o.endpoint = w->f->address;
        o.access = "k";
        o.secret = "s";
        o.region = "r-1";
        o.deadline_ms = deadline_ms;
        o.hedge_ms = hedge_ms;
        assert_int_equal(ls_store_s3_open(&o, &w->s, &words), LS_OK);
}

static int
world_setup(void **state)
{
        struct world *w = ls_calloc(1, sizeof *w);

        ls_log_setup(LS_LOG_ERROR + 1, NULL, NULL);
        w->f = fake_start();
        world_open(w, 60000, 0);
        *state = w;
        return 0;
}

/* ---- signatures ---- */

/* The examples of the Amazon S3 API Reference, "Signature calculations: examples". */
static void
want_signature(const char *method, const char *path, const char *query, const char *extra,
               const char *value, const char *body, const char *want)
{
        struct s3_keys keys = { .access = "AKIAIOSFODNN7EXAMPLE",
                                .secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY" };
        struct store_request r = { .method = method, .path = path, .query = query };
        char payload[S3_SHA256_TEXT];
        ls_span span = span_of(body);
        struct ls_buf text;
        const char *authorization;

        if (extra != NULL)
                r.headers[r.header_count++] = (struct store_header){ extra, value };
        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        s3_sha256(&span, 1, payload);
        /* 2013-05-24T00:00:00Z */
        s3_sign(&r, "examplebucket.s3.amazonaws.com", &keys, "us-east-1", "s3", 1369353600000,
                payload, &text);
        assert_string_equal(r.headers[r.header_count - 1].name, "authorization");
        authorization = r.headers[r.header_count - 1].value;
        assert_string_equal(strstr(authorization, "Signature=") + 10, want);
        ls_buf_done(&text);
}

static void
test_signatures(void **state)
{
        want_signature("GET", "/test.txt", "", "range", "bytes=0-9", "",
                       "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
        want_signature("GET", "/", "lifecycle=", NULL, NULL, "",
                       "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
        want_signature("GET", "/", "max-keys=2&prefix=J", NULL, NULL, "",
                       "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}

static void
test_times(void **state)
{
        char date[S3_DATE_TEXT];

        s3_date(1369353600000 + 3723000, date);
        assert_string_equal(date, "20130524T010203Z");
        assert_int_equal(store_time_of("1970-01-01T00:00:00Z"), 0);
        assert_int_equal(store_time_of("2013-05-24T01:02:03.999Z"), 1369353600000 + 3723000);
        assert_int_equal(store_time_of("2024-02-29T12:00:00Z"), 1709208000000);
        assert_int_equal(store_time_of("2024-03-01T12:00:00Z"), 1709294400000);
        assert_int_equal(store_time_of("2100-03-01T00:00:00Z"), 4107542400000);
        assert_int_equal(store_time_of("2024-13-01T12:00:00Z"), 0);
        assert_int_equal(store_time_of("yesterday"), 0);
        assert_int_equal(store_time_of(NULL), 0);
}

/* ---- conditional writes with lost answers ---- */

/* A second writer came between: nobody can say any more whose was first. */
static void
test_if_absent_answer_lost_and_overwritten(void **state)
{
        struct world *w = *state;

        fake_script(w->f, FAKE_PASS, 1, FAKE_OVERWRITE);
        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("mine")), LS_UNKNOWN_OUTCOME);
}

static void
test_if_absent_exists(void **state)
{
        struct world *w = *state;

        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("first")), LS_OK);
        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("first")), LS_EXISTS);
        /* The look that would tell fails to the end: not known. */
        deadline_short(w);
        fake_script(w->f, FAKE_CLOSE_BEFORE, 1, FAKE_PASS);
        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("second")), LS_UNKNOWN_OUTCOME);
        want_content(w, "k", "first");
}

/* No answer ever comes: not known, though it did not happen (the request may still be on its way).
 */
static void
test_if_absent_never_answered(void **state)
{
        struct world *w = *state;

        deadline_short(w);
        fake_script(w->f, FAKE_CLOSE_BEFORE, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("mine")), LS_UNKNOWN_OUTCOME);
        fake_script(w->f, FAKE_ERROR_BEFORE, 0);
        assert_int_equal(ls_store_put(w->s, "k", span_of("mine")), LS_UNKNOWN_OUTCOME);
}

static void
test_conflict_and_throttle(void **state)
{
        struct world *w = *state;

        fake_script(w->f, FAKE_PASS, 3, FAKE_CONFLICT, FAKE_THROTTLE, FAKE_CONFLICT);
        assert_int_equal(ls_store_put_if_absent(w->s, "k", span_of("mine")), LS_OK);
        deadline_short(w);
        fake_script(w->f, FAKE_CONFLICT, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "l", span_of("mine")), LS_CONFLICT);
        fake_script(w->f, FAKE_THROTTLE, 0);
        assert_int_equal(ls_store_put_if_absent(w->s, "l", span_of("mine")), LS_THROTTLED);
        assert_int_equal(ls_store_put(w->s, "l", span_of("mine")), LS_THROTTLED);
        assert_true(w->f->requests > 2);
}

/* ---- uploads in parts ---- */

/* Requests: begin, part, part, look, complete. */
static void
test_upload_answer_lost(void **state)
{
        struct world *w = *state;
        struct ls_store_info info;

        fake_script(w->f, FAKE_PASS, 5, FAKE_PASS, FAKE_PASS, FAKE_PASS, FAKE_PASS,
                    FAKE_CLOSE_AFTER);
        assert_int_equal(upload(w, "k"), LS_OK);
        assert_int_equal(ls_store_head(w->s, "k", &info), LS_OK);
        assert_int_equal(info.bytes, 9 << 20);
        /* Done, and gone when it is asked again: 404 of the upload, and the object is ours. */
        fake_script(w->f, FAKE_PASS, 5, FAKE_PASS, FAKE_PASS, FAKE_PASS, FAKE_PASS,
                    FAKE_ERROR_AFTER);
        assert_int_equal(upload(w, "l"), LS_OK);
        /* An error in a good answer, and nothing there. */
        fake_script(w->f, FAKE_PASS, 5, FAKE_PASS, FAKE_PASS, FAKE_PASS, FAKE_PASS,
                    FAKE_ERROR_IN_200);
        assert_int_equal(upload(w, "m"), LS_UNKNOWN_OUTCOME);
        /* The object is there already: seen by the look, and nothing is left behind. */
        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(upload(w, "k"), LS_EXISTS);
        assert_false(w->f->upload.used);
}

/* The first part is answered only once there is another request. */
static void
test_parts_at_once(void **state)
{
        struct world *w = *state;

        fake_script(w->f, FAKE_PASS, 2, FAKE_PASS, FAKE_WAIT);
        assert_int_equal(upload(w, "k"), LS_OK);
}

static void
test_upload_fails(void **state)
{
        struct world *w = *state;

        fake_script(w->f, FAKE_PASS, 1, FAKE_DENY);
        assert_int_equal(upload(w, "k"), LS_DENIED);
        fake_script(w->f, FAKE_PASS, 2, FAKE_PASS, FAKE_DENY);
        assert_int_equal(upload(w, "k"), LS_DENIED);
        assert_false(w->f->upload.used); /* ended by cancel */
        fake_script(w->f, FAKE_PASS, 1, FAKE_NOT_XML);
        assert_int_equal(upload(w, "k"), LS_EIO);
}

/* ---- reads ---- */

static void
test_get_tries_again(void **state)
{
        static const enum fake_action bad[] = { FAKE_CLOSE_BEFORE, FAKE_ERROR_BEFORE, FAKE_THROTTLE,
                                                FAKE_GARBAGE, FAKE_CUT };
        struct world *w = *state;
        struct ls_slice *got;

        assert_int_equal(ls_store_put(w->s, "k", span_of("0123456789")), LS_OK);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                got = NULL;
                fake_script(w->f, FAKE_PASS, 2, bad[i], bad[i]);
                assert_int_equal(ls_store_get(w->s, "k", 2, 5, &got), LS_OK);
                assert_true(ls_span_eq(ls_slice_span(got), span_of("23456")));
                ls_slice_unref(got);
                assert_true(w->f->requests >= 3);
        }
        deadline_short(w);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                fake_script(w->f, bad[i], 0);
                assert_int_equal(ls_store_get(w->s, "k", 2, 5, &got),
                                 bad[i] == FAKE_THROTTLE ? LS_THROTTLED : LS_ENET);
        }
}

static void
test_refusals(void **state)
{
        struct world *w = *state;
        struct ls_slice *got = NULL;

        fake_script(w->f, FAKE_DENY, 0);
        assert_int_equal(ls_store_get(w->s, "k", 0, 0, &got), LS_DENIED);
        assert_int_equal(ls_store_put(w->s, "k", span_of("x")), LS_DENIED);
        assert_int_equal(ls_store_delete(w->s, "k"), LS_DENIED);
        fake_script(w->f, FAKE_LOST_BUCKET, 0);
        assert_int_equal(ls_store_get(w->s, "k", 0, 0, &got), LS_EIO);
        assert_int_equal(ls_store_put(w->s, "k", span_of("x")), LS_EIO);
        assert_null(got);
}

/* A store that does not keep to the range asked for. */
static void
test_wrong_range(void **state)
{
        struct world *w = *state;
        struct ls_slice *got = NULL;

        w->f->fixed = "much more than what was asked for";
        assert_int_equal(ls_store_get(w->s, "k", 2, 5, &got), LS_EIO);
        w->f->fixed = "no";
        assert_int_equal(ls_store_get(w->s, "k", 2, 5, &got), LS_OUT_OF_RANGE);
        w->f->fixed = "0123456";
        assert_int_equal(ls_store_get(w->s, "k", 2, 5, &got), LS_EIO);
        assert_null(got);
}

/* The first request is answered only once there is a second one. */
static void
test_slow_read_is_asked_twice(void **state)
{
        struct world *w = *state;
        struct ls_slice *got = NULL;

        assert_int_equal(ls_store_put(w->s, "k", span_of("0123456789")), LS_OK);
        ls_store_close(w->s);
        world_open(w, 60000, 10);
        fake_script(w->f, FAKE_PASS, 1, FAKE_WAIT);
        assert_int_equal(ls_store_get(w->s, "k", 2, 5, &got), LS_OK);
        assert_true(ls_span_eq(ls_slice_span(got), span_of("23456")));
        ls_slice_unref(got);
        assert_int_equal(w->f->requests, 2);
        fake_script(w->f, FAKE_PASS, 1,
                    FAKE_WAIT); /* and again, on the connections that are left */
        assert_int_equal(ls_store_get(w->s, "k", 0, 1, &got), LS_OK);
        ls_slice_unref(got);
}

struct hammer {
        struct world *w;
        struct ls_thread *thread;
};

static void
hammer_run(void *arg)
{
        struct hammer *h = arg;

        for (int i = 0; i < 20; i++) {
                struct ls_slice *got;

                assert_int_equal(ls_store_get(h->w->s, "k", 0, 0, &got), LS_THROTTLED);
        }
}

/* Calls that all fail: after a while each is one request, until others succeed. */
static void
test_budget_of_tries(void **state)
{
        enum { THREADS = 16, CALLS = THREADS * 20 };
        struct world *w = *state;
        struct hammer h[THREADS];

        deadline_short(w);
        fake_script(w->f, FAKE_THROTTLE, 0);
        for (size_t i = 0; i < THREADS; i++) {
                h[i].w = w;
                assert_int_equal(ls_thread_start("hammer", hammer_run, &h[i], &h[i].thread), LS_OK);
        }
        for (size_t i = 0; i < THREADS; i++)
                ls_thread_join(h[i].thread);
        assert_true(w->f->requests >= CALLS);
        assert_true(w->f->requests <= CALLS + STORE_BUDGET_TRIES);
}

static void
test_nobody_there(void **state)
{
        struct world *w = *state;
        struct ls_store_s3_options o = { LS_STORE_S3_DEFAULTS };
        struct ls_errinfo words;
        struct ls_slice *got;
        struct ls_store *s;

        o.bucket = "lake";
        o.endpoint = "http://127.0.0.1:1";
        o.access = o.secret = "x";
        o.deadline_ms = DEADLINE_MS;
        assert_int_equal(ls_store_s3_open(&o, &s, &words), LS_OK);
        assert_int_equal(ls_store_get(s, "k", 0, 0, &got), LS_ENET);
        assert_int_equal(ls_store_put_if_absent(s, "k", span_of("x")), LS_ENET);
        ls_store_close(s);
        (void)w;
}

/* ---- lists ---- */

static void
test_list(void **state)
{
        struct world *w = *state;
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        w->f->fixed =
                "<?xml version=\"1.0\"?><ListBucketResult xmlns=\"http://x\"><IsTruncated>false"
                "</IsTruncated><Contents><Key>a/b%2Bc</Key><Size>7</Size><ETag>&quot;e&quot;"
                "</ETag><LastModified>2026-12-01T10:20:30.000Z</LastModified></Contents>"
                "<Contents><Key>a/not+ours%0A</Key><Size>1</Size></Contents>"
                "<Contents><Key>elsewhere</Key><Size>1</Size></Contents></ListBucketResult>";
        assert_int_equal(ls_store_list(w->s, "", NULL, 100, on_key, &out), LS_OK);
        assert_string_equal(ls_buf_cstr(&out), "b+c:7:e:1796120430000 ");
        assert_non_null(
                strstr(w->f->last, "?encoding-type=url&list-type=2&max-keys=100&prefix=a%2F "));
        ls_buf_done(&out);
}

static void
test_bad_lists(void **state)
{
        static const char *const bad[] = {
                "",
                "nothing",
                "<ListBucketResult>",
                "<ListBucketResult><Contents></ListBucketResult>",
                "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
                ("<ListBucketResult><Contents><Key>a/k</Key><Size>-1</Size></Contents>"
                 "</ListBucketResult>"),
                "<!DOCTYPE x [<!ENTITY e \"boom\">]><ListBucketResult>&e;</ListBucketResult>",
                "<a><b><c><d><e><f><g><h><i></i></h></g></f></e></d></c></b></a>",
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
        static const struct ls_store_s3_options bad[] = {
                { LS_STORE_S3_DEFAULTS, .bucket = "no", .access = "a", .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "Upper", .access = "a", .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "a/b", .access = "a", .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "lake", .prefix = "../x", .access = "a",
                  .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "lake", .endpoint = "host:1", .access = "a",
                  .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "lake", .endpoint = "ftp://host", .access = "a",
                  .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "lake", .endpoint = "http://host/path",
                  .access = "a", .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "lake", .endpoint = "http://host?x",
                  .access = "a", .secret = "s" },
                { LS_STORE_S3_DEFAULTS, .bucket = "lake", .endpoint = "https://", .access = "a",
                  .secret = "s" },
        };

        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                struct ls_errinfo words = { "" };
                struct ls_store *s = NULL;

                assert_int_equal(ls_store_s3_open(&bad[i], &s, &words), LS_INVALID);
                assert_null(s);
                assert_true(words.text[0] != '\0');
        }
}

static void
test_host_style(void **state)
{
        struct world *w = *state;
        struct ls_store_s3_options o = { LS_STORE_S3_DEFAULTS };
        struct ls_errinfo words;
        char endpoint[64];
        struct ls_store *s;

        /* Names below localhost are this machine's. */
        snprintf(endpoint, sizeof endpoint, "http://localhost%s/", strrchr(w->f->address, ':'));
        o.bucket = "lake";
        o.prefix = "p";
        o.endpoint = endpoint;
        o.access = "k";
        o.secret = "s";
        o.session = "the session";
        o.style = LS_STORE_S3_HOST;
        assert_int_equal(ls_store_s3_open(&o, &s, &words), LS_OK);
        assert_int_equal(ls_store_put(s, "k%1", span_of("x")), LS_OK);
        assert_non_null(strstr(w->f->last, "PUT /p/k%251 HTTP/1.1\r\n"));
        assert_non_null(strcasestr(w->f->last, "\r\nhost: lake.localhost:"));
        assert_non_null(strstr(w->f->last, "\r\nx-amz-security-token: the session\r\n"));
        assert_string_equal(s->uri, "s3://lake/p");
        ls_store_close(s);
}

/* ---- credentials ---- */

static const char *const variables[] = {
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_WEB_IDENTITY_TOKEN_FILE",
        "AWS_ROLE_ARN",
        "AWS_ROLE_SESSION_NAME",
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
        "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
        "AWS_CONTAINER_CREDENTIALS_FULL_URI",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN",
        "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
        "AWS_EC2_METADATA_DISABLED",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT",
        "AWS_ENDPOINT_URL_STS",
        "AWS_REGION",
        "AWS_DEFAULT_REGION",
};

static void
environment_clear(void)
{
        for (size_t i = 0; i < LS_COUNT(variables); i++)
                unsetenv(variables[i]);
        setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/credentials", 1);
        setenv("AWS_CONFIG_FILE", "/nowhere/config", 1);
        setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
}

static void
want_keys(const char *access, const char *secret, const char *session)
{
        struct s3_credentials_options o = { .region = "r-1" };
        struct ls_errinfo words = { "" };
        struct s3_credentials *c;
        struct s3_keys keys;

        assert_int_equal(s3_credentials_new(&o, &c, &words), LS_OK);
        assert_int_equal(s3_credentials_get(c, &keys), LS_OK);
        assert_string_equal(keys.access, access);
        assert_string_equal(keys.secret, secret);
        if (session != NULL)
                assert_string_equal(keys.session, session);
        else
                assert_null(keys.session);
        s3_keys_done(&keys);
        s3_credentials_free(c);
}

static void
test_keys_of_files(void **state)
{
        char dir[] = "/tmp/ls-s3-XXXXXX", credentials[64], config[64];
        struct s3_credentials_options o = { .region = "r-1" };
        struct ls_errinfo words = { "" };
        struct s3_credentials *c;
        char *region;

        environment_clear();
        assert_int_equal(s3_credentials_new(&o, &c, &words), LS_ABSENT);
        assert_non_null(strstr(words.text, "AWS_ACCESS_KEY_ID"));
        assert_null(s3_region_find());
        assert_non_null(mkdtemp(dir));
        snprintf(credentials, sizeof credentials, "%s/credentials", dir);
        snprintf(config, sizeof config, "%s/config", dir);
        file_put(credentials, "# comment\n[other]\naws_access_key_id = wrong\n\n[default]\r\n"
                              "aws_access_key_id=A1\r\naws_secret_access_key = S/1=\r\n");
        file_put(config, "[default]\nregion = eu-1\n[profile two]\nregion=eu-2\n"
                         "aws_access_key_id = A2\naws_secret_access_key = S2\n"
                         "aws_session_token = T2\n");
        setenv("AWS_SHARED_CREDENTIALS_FILE", credentials, 1);
        setenv("AWS_CONFIG_FILE", config, 1);
        want_keys("A1", "S/1=", NULL);
        region = s3_region_find();
        assert_string_equal(region, "eu-1");
        ls_free(region);
        setenv("AWS_PROFILE", "two", 1);
        want_keys("A2", "S2", "T2");
        region = s3_region_find();
        assert_string_equal(region, "eu-2");
        ls_free(region);
        setenv("AWS_ACCESS_KEY_ID", "A3", 1);
        setenv("AWS_SECRET_ACCESS_KEY", "S3", 1);
        want_keys("A3", "S3", NULL);
        unlink(credentials);
        unlink(config);
        rmdir(dir);
        environment_clear();
}

/* Keys of a container end, are fetched anew before, and outlive a failure of their source. */
static void
test_keys_of_a_container(void **state)
{
        struct world *w = *state;
        struct s3_credentials_options o = { .region = "r-1" };
        struct ls_errinfo words = { "" };
        char uri[128], soon[LS_CLOCK_TEXT_BYTES], body[512];
        struct s3_credentials *c;
        struct s3_keys keys;

        environment_clear();
        snprintf(uri, sizeof uri, "%s/keys?x=1", w->f->address);
        setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", uri, 1);
        setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", "who I am", 1);
        ls_clock_text(ls_clock_wall_ms() + 60000, soon);
        snprintf(body, sizeof body,
                 "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T1\","
                 "\"Expiration\":\"%s\"}",
                 soon);
        w->f->fixed = body;
        assert_int_equal(s3_credentials_new(&o, &c, &words), LS_OK);
        assert_non_null(strstr(w->f->last, "\r\nauthorization: who I am\r\n"));
        assert_int_equal(s3_credentials_get(c, &keys), LS_OK); /* it ends soon: fetched again */
        assert_int_equal(w->f->requests, 2);
        s3_keys_done(&keys);
        assert_int_equal(s3_credentials_get(c, &keys), LS_OK); /* but not at each call */
        assert_int_equal(w->f->requests, 2);
        assert_string_equal(keys.session, "T1");
        s3_keys_done(&keys);
        s3_credentials_free(c);
        w->f->fixed = "{}";
        assert_int_equal(s3_credentials_new(&o, &c, &words), LS_DENIED);
        environment_clear();
}

static void
test_keys_of_an_instance(void **state)
{
        struct world *w = *state;

        environment_clear();
        unsetenv("AWS_EC2_METADATA_DISABLED");
        setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", w->f->address, 1);
        /* One body for role and keys: what matters is that each step is asked. */
        w->f->fixed = "{\"AccessKeyId\":\"A\",\"SecretAccessKey\":\"S\",\"Token\":\"T\"}";
        fake_script(w->f, FAKE_PASS, 0);
        want_keys("A", "S", "T");
        assert_int_equal(w->f->requests, 3);
        assert_non_null(strstr(w->f->last, "\r\nx-aws-ec2-metadata-token: t0\r\n"));
        environment_clear();
}

static void
test_keys_of_a_web_identity(void **state)
{
        char path[] = "/tmp/ls-token-XXXXXX";
        struct world *w = *state;
        int file = mkstemp(path);

        environment_clear();
        assert_true(file >= 0);
        assert_int_equal(write(file, "to ken\n", 7), 7);
        close(file);
        setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
        setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
        setenv("AWS_ENDPOINT_URL_STS", w->f->address, 1);
        w->f->fixed = "<AssumeRoleWithWebIdentityResponse xmlns=\"https://sts.amazonaws.com/doc/\">"
                      "<AssumeRoleWithWebIdentityResult><Credentials><SessionToken>T</SessionToken>"
                      "<SecretAccessKey>S</SecretAccessKey><Expiration>2126-12-01T00:00:00Z"
                      "</Expiration><AccessKeyId>A</AccessKeyId></Credentials>"
                      "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>";
        want_keys("A", "S", "T");
        assert_non_null(strstr(w->f->last, "POST / HTTP/1.1\r\n"));
        unlink(path);
        environment_clear();
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_signatures),
                cmocka_unit_test(test_times),
                TEST(test_if_absent_answer_lost),
                TEST(test_if_absent_answer_lost_and_overwritten),
                TEST(test_if_absent_exists),
                TEST(test_if_absent_never_answered),
                TEST(test_conflict_and_throttle),
                TEST(test_upload_answer_lost),
                TEST(test_parts_at_once),
                TEST(test_upload_fails),
                TEST(test_get_tries_again),
                TEST(test_refusals),
                TEST(test_wrong_range),
                TEST(test_slow_read_is_asked_twice),
                TEST(test_budget_of_tries),
                TEST(test_nobody_there),
                TEST(test_list),
                TEST(test_bad_lists),
                cmocka_unit_test(test_options_refused),
                TEST(test_host_style),
                cmocka_unit_test(test_keys_of_files),
                TEST(test_keys_of_a_container),
                TEST(test_keys_of_an_instance),
                TEST(test_keys_of_a_web_identity),
        };

        return cmocka_run_group_tests_name("s3", tests, NULL, NULL);
}
