/* store/s3/credentials.c - see credentials.h. */
#include "store/s3/credentials.h"

#include <jansson.h>
#include <stdio.h>

#include "base/mem.h"
#include "store/identity.h"
#include "store/xml.h"
#include "sys/file.h"
#include "sys/process.h"

#define CREDENTIALS_FILE_BYTES_MAX ((size_t)1 << 20)
#define KEYS_WHAT                  "keys for S3"
#define INSTANCE_DEFAULT           "http://169.254.169.254"
#define CONTAINER_DEFAULT          "http://169.254.170.2"

struct s3_credentials {
        struct store_renewal renewal;
        char *region, *ca_file;
        struct s3_keys keys;
};

static void
keys_set(struct s3_keys *to, const char *access, const char *secret, const char *session)
{
        struct s3_keys fresh = { .access = ls_strdup(access), .secret = ls_strdup(secret) };

        if (store_text_there(session))
                fresh.session = ls_strdup(session);
        s3_keys_done(to);
        *to = fresh;
}

void
s3_keys_done(struct s3_keys *keys)
{
        ls_free(keys->access);
        ls_free(keys->secret);
        ls_free(keys->session);
        memset(keys, 0, sizeof *keys);
}

/* { "AccessKeyId", "SecretAccessKey", "Token", "Expiration" } of containers and instances. */
static ls_err
keys_of_json(struct s3_credentials *c, const char *body, struct ls_errinfo *reterr)
{
        json_t *json = json_loads(body, 0, NULL);
        const char *access = json_string_value(json_object_get(json, "AccessKeyId")),
                   *secret = json_string_value(json_object_get(json, "SecretAccessKey")),
                   *session = json_string_value(json_object_get(json, "Token"));
        int64_t ends = store_time_of(json_string_value(json_object_get(json, "Expiration")));
        ls_err e = LS_OK;

        if (store_text_there(access) && store_text_there(secret)) {
                keys_set(&c->keys, access, secret, session);
                c->renewal.ends_ms = ends > 0 ? ends : INT64_MAX;
        } else {
                e = ls_fail(reterr, LS_DENIED, "what was answered for keys of S3 holds none");
        }
        json_decref(json);
        return e;
}

/* ---- an instance ---- */

static ls_err
instance_get(struct s3_credentials *c, const char *token, const char *path, char **ret_body,
             struct ls_errinfo *reterr)
{
        const char *base = ls_process_env("AWS_EC2_METADATA_SERVICE_ENDPOINT");
        struct store_request r = { .method = token != NULL ? "GET" : "PUT", .path = path };

        if (token != NULL)
                r.headers[r.header_count++] =
                        (struct store_header){ "x-aws-ec2-metadata-token", token };
        else
                r.headers[r.header_count++] =
                        (struct store_header){ "x-aws-ec2-metadata-token-ttl-seconds", "21600" };
        return store_ask(store_text_there(base) ? base : INSTANCE_DEFAULT, c->ca_file, KEYS_WHAT,
                         &r, ret_body, reterr);
}

static ls_err
instance_fetch(void *ctx, struct ls_errinfo *reterr)
{
        struct s3_credentials *c = ctx;
        static const char roles[] = "/latest/meta-data/iam/security-credentials/";
        LS_AUTO(ls_free) char *token = NULL;
        LS_AUTO(ls_free) char *role = NULL;
        LS_AUTO(ls_free) char *path = NULL;
        LS_AUTO(ls_free) char *body = NULL;

        LS_TRY(instance_get(c, NULL, "/latest/api/token", &token, reterr));
        LS_TRY(instance_get(c, token, roles, &role, reterr));
        role[strcspn(role, "\r\n")] = '\0';
        path = ls_format("%s%s", roles, role);
        LS_TRY(instance_get(c, token, path, &body, reterr));
        return keys_of_json(c, body, reterr);
}

/* ---- a container ---- */

static ls_err
container_fetch(void *ctx, struct ls_errinfo *reterr)
{
        struct s3_credentials *c = ctx;
        const char *relative = ls_process_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
                   *full = ls_process_env("AWS_CONTAINER_CREDENTIALS_FULL_URI"),
                   *token = ls_process_env("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
                   *file = ls_process_env("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE");
        LS_AUTO(ls_free) char *read = NULL;
        LS_AUTO(ls_free) char *base = NULL;
        LS_AUTO(ls_free) char *path = NULL;
        LS_AUTO(ls_free) char *body = NULL;
        struct store_request r = { .method = "GET" };

        if (store_text_there(relative)) {
                base = ls_strdup(CONTAINER_DEFAULT);
                r.path = relative;
        } else {
                store_address_split(full, &base, &path);
                r.path = path;
        }
        if (store_text_there(file)) { /* it changes: read each time */
                LS_TRY(store_file_text(file, &read, reterr));
                read[strcspn(read, "\r\n")] = '\0';
                token = read;
        }
        if (store_text_there(token))
                r.headers[r.header_count++] = (struct store_header){ "authorization", token };
        LS_TRY(store_ask(base, c->ca_file, KEYS_WHAT, &r, &body, reterr));
        return keys_of_json(c, body, reterr);
}

/* ---- a web identity ---- */

struct assumed {
        char *access, *secret, *session;
        int64_t ends_ms;
};

static ls_err
on_assumed(void *ctx, const char *parent, const char *name, ls_str text)
{
        struct assumed *a = ctx;
        char **to = NULL;

        if (strcmp(parent, "Credentials") != 0 || text.ptr == NULL)
                return LS_OK;
        if (strcmp(name, "AccessKeyId") == 0)
                to = &a->access;
        else if (strcmp(name, "SecretAccessKey") == 0)
                to = &a->secret;
        else if (strcmp(name, "SessionToken") == 0)
                to = &a->session;
        else if (strcmp(name, "Expiration") == 0)
                a->ends_ms = store_time_of(text.ptr);
        if (to != NULL) {
                ls_free(*to);
                *to = ls_str_dup(text);
        }
        return LS_OK;
}

static ls_err
web_identity_read(struct s3_credentials *c, const char *body, struct ls_errinfo *reterr)
{
        struct assumed a = { 0 };
        ls_err e = store_xml_read(ls_span_of(body, strlen(body)), on_assumed, &a);

        if (e == LS_OK && store_text_there(a.access) && store_text_there(a.secret)) {
                keys_set(&c->keys, a.access, a.secret, a.session);
                c->renewal.ends_ms = a.ends_ms > 0 ? a.ends_ms : INT64_MAX;
        } else {
                e = ls_fail(reterr, LS_DENIED, "the token service's answer holds no keys");
        }
        ls_free(a.access);
        ls_free(a.secret);
        ls_free(a.session);
        return e;
}

static ls_err
web_identity_fetch(void *ctx, struct ls_errinfo *reterr)
{
        struct s3_credentials *c = ctx;
        const char *file = ls_process_env("AWS_WEB_IDENTITY_TOKEN_FILE"),
                   *role = ls_process_env("AWS_ROLE_ARN"),
                   *session = ls_process_env("AWS_ROLE_SESSION_NAME"),
                   *endpoint = ls_process_env("AWS_ENDPOINT_URL_STS");
        LS_AUTO(ls_free) char *token = NULL;
        LS_AUTO(ls_free) char *base = NULL;
        LS_AUTO(ls_free) char *body = NULL;
        struct ls_buf form;
        ls_err e;

        LS_TRY(store_file_text(file, &token, reterr));
        token[strcspn(token, "\r\n")] = '\0';
        base = store_text_there(endpoint) ? ls_strdup(endpoint)
                                          : ls_format("https://sts.%s.amazonaws.com", c->region);
        ls_buf_init(&form, LS_BUF_MAX_DEFAULT);
        ls_buf_put_text(&form, "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=");
        store_encode(&form, role, false);
        ls_buf_put_text(&form, "&RoleSessionName=");
        store_encode(&form, store_text_there(session) ? session : "lakestream", false);
        ls_buf_put_text(&form, "&WebIdentityToken=");
        store_encode(&form, token, false);
        e = store_ask_form(base, c->ca_file, KEYS_WHAT, ls_buf_span(&form), &body, reterr);
        ls_buf_done(&form);
        LS_TRY(e);
        return web_identity_read(c, body, reterr);
}

/* ---- the profile files ---- */

static ls_str
trim(ls_str s)
{
        while (s.len > 0 && (s.ptr[0] == ' ' || s.ptr[0] == '\t'))
                s = ls_str_make(s.ptr + 1, s.len - 1);
        while (s.len > 0 && strchr(" \t\r", s.ptr[s.len - 1]) != NULL)
                s.len--;
        return s;
}

/* The value of `name` in the section of `profile` of an ini file; NULL: none. "[profile x]" is how
 * the config file, and "[x]" how the credentials file writes it. */
static char *
ini_find(const char *path, const char *profile, const char *name)
{
        LS_AUTO(ls_slice_unref) struct ls_slice *bytes = NULL;
        bool inside = false;

        if (ls_file_read_all(path, CREDENTIALS_FILE_BYTES_MAX, &bytes) != LS_OK)
                return NULL;
        for (size_t at = 0; at < bytes->len;) {
                const char *line = (const char *)bytes->ptr + at;
                const char *end = memchr(line, '\n', bytes->len - at);
                size_t len = end != NULL ? (size_t)(end - line) : bytes->len - at;
                ls_str s = trim(ls_str_make(line, len));
                const char *equals = s.len > 0 ? memchr(s.ptr, '=', s.len) : NULL;

                at += len + 1;
                if (s.len > 1 && s.ptr[0] == '[' && s.ptr[s.len - 1] == ']') {
                        ls_str title = trim(ls_str_make(s.ptr + 1, s.len - 2));

                        if (title.len > 8 && memcmp(title.ptr, "profile ", 8) == 0)
                                title = trim(ls_str_make(title.ptr + 8, title.len - 8));
                        inside = ls_str_is(title, profile);
                } else if (inside && equals != NULL && s.ptr[0] != '#' && s.ptr[0] != ';' &&
                           ls_str_is(trim(ls_str_make(s.ptr, (size_t)(equals - s.ptr))), name)) {
                        return ls_str_dup(trim(
                                ls_str_make(equals + 1, s.len - (size_t)(equals - s.ptr) - 1)));
                }
        }
        return NULL;
}

static char *
profile_find(const char *name)
{
        const char *home = ls_process_env("HOME"), *profile = ls_process_env("AWS_PROFILE"),
                   *files[] = { ls_process_env("AWS_SHARED_CREDENTIALS_FILE"),
                                ls_process_env("AWS_CONFIG_FILE") };
        static const char *const defaults[] = { ".aws/credentials", ".aws/config" };
        char *value = NULL;

        for (size_t i = 0; i < LS_COUNT(files) && value == NULL; i++) {
                LS_AUTO(ls_free)
                char *path = store_text_there(files[i])
                                     ? ls_strdup(files[i])
                                     : ls_format("%s/%s", home != NULL ? home : "", defaults[i]);

                value = ini_find(path, store_text_there(profile) ? profile : "default", name);
        }
        return value;
}

char *
s3_region_find(void)
{
        const char *region = ls_process_env("AWS_REGION");

        if (!store_text_there(region))
                region = ls_process_env("AWS_DEFAULT_REGION");
        return store_text_there(region) ? ls_strdup(region) : profile_find("region");
}

/* ---- finding them ---- */

/* Sets keys that stay from a pair of texts, if both are there. */
static bool
keys_stay(struct s3_credentials *c, const char *access, const char *secret, const char *session)
{
        if (!store_text_there(access) || !store_text_there(secret))
                return false;
        keys_set(&c->keys, access, secret, session);
        return true;
}

static bool
keys_of_profile(struct s3_credentials *c)
{
        LS_AUTO(ls_free) char *access = profile_find("aws_access_key_id");
        LS_AUTO(ls_free) char *secret = profile_find("aws_secret_access_key");
        LS_AUTO(ls_free) char *session = profile_find("aws_session_token");

        return keys_stay(c, access, secret, session);
}

static ls_err
credentials_find(struct s3_credentials *c, const struct s3_credentials_options *o,
                 struct ls_errinfo *reterr)
{
        const char *off = ls_process_env("AWS_EC2_METADATA_DISABLED");

        if (keys_stay(c, o->access, o->secret, o->session) ||
            keys_stay(c, ls_process_env("AWS_ACCESS_KEY_ID"),
                      ls_process_env("AWS_SECRET_ACCESS_KEY"), ls_process_env("AWS_SESSION_TOKEN")))
                return LS_OK;
        if (store_text_there(ls_process_env("AWS_WEB_IDENTITY_TOKEN_FILE")) &&
            store_text_there(ls_process_env("AWS_ROLE_ARN"))) {
                c->renewal.fetch = web_identity_fetch;
                return web_identity_fetch(c, reterr);
        }
        if (keys_of_profile(c))
                return LS_OK;
        if (store_text_there(ls_process_env("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")) ||
            store_text_there(ls_process_env("AWS_CONTAINER_CREDENTIALS_FULL_URI"))) {
                c->renewal.fetch = container_fetch;
                return container_fetch(c, reterr);
        }
        if (off == NULL || strcmp(off, "true") != 0) {
                c->renewal.fetch = instance_fetch;
                if (instance_fetch(c, NULL) == LS_OK)
                        return LS_OK;
        }
        return ls_fail(reterr, LS_ABSENT,
                       "no keys for S3 were found: set store.s3.access.key and "
                       "store.s3.secret.key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or "
                       "a profile, or give this machine a role");
}

ls_err
s3_credentials_new(const struct s3_credentials_options *options,
                   struct s3_credentials **ret_credentials, struct ls_errinfo *reterr)
{
        struct s3_credentials *c = ls_calloc(1, sizeof *c);
        ls_err e;

        store_renewal_init(&c->renewal, KEYS_WHAT);
        c->renewal.ctx = c;
        c->region = ls_strdup(options->region);
        if (store_text_there(options->ca_file))
                c->ca_file = ls_strdup(options->ca_file);
        e = credentials_find(c, options, reterr);
        if (e != LS_OK) {
                s3_credentials_free(c);
                return e;
        }
        *ret_credentials = c;
        return LS_OK;
}

void
s3_credentials_free(struct s3_credentials *c)
{
        if (c == NULL)
                return;
        s3_keys_done(&c->keys);
        store_renewal_done(&c->renewal);
        ls_free(c->region);
        ls_free(c->ca_file);
        ls_free(c);
}

ls_err
s3_credentials_get(struct s3_credentials *c, struct s3_keys *ret_keys)
{
        memset(ret_keys, 0, sizeof *ret_keys);
        LS_TRY(store_renewal_begin(&c->renewal));
        keys_set(ret_keys, c->keys.access, c->keys.secret, c->keys.session);
        store_renewal_end(&c->renewal);
        return LS_OK;
}
