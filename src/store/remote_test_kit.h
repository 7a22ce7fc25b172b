/* store/remote_test_kit.h - the server of a test of what speaks HTTP: a few objects in memory
 * behind real sockets, and a script that makes requests fail in the ways that networks and stores
 * do.
 *
 * It knows what the tests ask: PUT (if-none-match: *), GET with a range, HEAD, DELETE, and an
 * upload in parts as S3 has it. What another service does otherwise is told by `special`.
 * Signatures are not looked at: a real server does that (store_test.c s3). Threads: one a
 * connection; all is under one lock.
 */
#pragma once
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "store/store.h"
#include "sys/file.h"
#include "sys/jobs.h"

enum fake_action {
        FAKE_PASS,
        FAKE_THROTTLE,     /* 503, nothing done */
        FAKE_CONFLICT,     /* 409, nothing done */
        FAKE_ERROR_BEFORE, /* 500, nothing done */
        FAKE_ERROR_AFTER,  /* done, then 500 */
        FAKE_CLOSE_BEFORE, /* nothing done, no answer */
        FAKE_CLOSE_AFTER,  /* done, no answer */
        FAKE_CUT,          /* half of the answer's body */
        FAKE_GARBAGE,      /* an answer that is no HTTP */
        FAKE_WAIT,         /* until another request has come */
        FAKE_DENY,         /* 403 */
        FAKE_LOST_BUCKET,  /* 404 of the bucket */
        FAKE_ERROR_IN_200, /* nothing done; 200 whose body is an error */
        FAKE_NOT_XML,      /* 200 with a body that is none */
        FAKE_OVERWRITE,    /* done; then another writer replaces it; no answer */
};

#define FAKE_OBJECTS_MAX 16
#define FAKE_SCRIPT_MAX  64
struct fake_object {
        char key[128], token[64], etag[32];
        struct ls_buf bytes;
        bool used;
};
struct fake_request;
struct fake {
        int listener;
        char address[64];
        struct ls_thread *thread;
        pthread_mutex_t lock;
        struct ls_cond changed;
        struct fake_object objects[FAKE_OBJECTS_MAX], upload;
        enum fake_action script[FAKE_SCRIPT_MAX]; /* of the next requests; then `rest` */
        size_t script_count, script_at;
        enum fake_action rest;
        uint64_t requests;
        char last[8192]; /* head of the last request */
        /* Does what is not the same in all services; false: it is not that. */
        bool (*special)(struct fake *f, int socket, const struct fake_request *q, bool quiet);
        const char *token_header, *exists_code;
        int exists_status;
        const char *fixed; /* body that each GET and POST is answered with; NULL: the objects */
        size_t connections;
        int sockets[256];
        bool stopping;
};

static inline void
fake_script(struct fake *f, enum fake_action rest, size_t count, ...)
{
        va_list actions;

        pthread_mutex_lock(&f->lock);
        va_start(actions, count);
        for (size_t i = 0; i < count; i++)
                f->script[i] = va_arg(actions, int);
        va_end(actions);
        f->script_count = count;
        f->script_at = 0;
        f->rest = rest;
        f->requests = 0;
        pthread_mutex_unlock(&f->lock);
}

static inline struct fake_object *
fake_find(struct fake *f, const char *key, bool make)
{
        struct fake_object *free_one = NULL;

        for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++) {
                if (f->objects[i].used && strcmp(f->objects[i].key, key) == 0)
                        return &f->objects[i];
                if (!f->objects[i].used && free_one == NULL)
                        free_one = &f->objects[i];
        }
        if (!make || free_one == NULL)
                return NULL;
        snprintf(free_one->key, sizeof free_one->key, "%s", key);
        free_one->used = true;
        ls_buf_init(&free_one->bytes, LS_BUF_MAX_DEFAULT);
        return free_one;
}

static inline void
fake_set(struct fake_object *o, const char *token, ls_span bytes)
{
        static unsigned version;

        ls_buf_clear(&o->bytes);
        ls_buf_put_span(&o->bytes, bytes);
        snprintf(o->token, sizeof o->token, "%s", token);
        snprintf(o->etag, sizeof o->etag, "e%u", ++version);
}

/* A request as it came. */
struct fake_request {
        char head[8192], method[8], key[128], query[512];
        struct ls_buf body;
};

static inline bool
fake_header(const struct fake_request *q, const char *name, char *ret, size_t bytes)
{
        char line[64];
        const char *at;
        size_t len;

        snprintf(line, sizeof line, "\r\n%s: ", name);
        at = strcasestr(q->head, line);
        ret[0] = '\0';
        if (at == NULL)
                return false;
        at += strlen(line);
        len = strcspn(at, "\r\n");
        snprintf(ret, bytes, "%.*s", (int)len, at);
        return true;
}

static inline bool
fake_read(int socket, struct fake_request *q)
{
        char length[32], *space, *query;
        size_t len = 0, want;
        char byte;

        while (len < sizeof q->head - 1 && recv(socket, &byte, 1, 0) == 1) {
                q->head[len++] = byte;
                q->head[len] = '\0';
                if (len >= 4 && memcmp(q->head + len - 4, "\r\n\r\n", 4) == 0)
                        break;
        }
        if (len < 4 || memcmp(q->head + len - 4, "\r\n\r\n", 4) != 0)
                return false;
        fake_header(q, "content-length", length, sizeof length);
        want = (size_t)strtoul(length, NULL, 10);
        ls_buf_clear(&q->body);
        while (want > 0) {
                char block[65536];
                ssize_t got = recv(socket, block, LS_MIN(want, sizeof block), 0);

                if (got <= 0)
                        return false;
                ls_buf_put(&q->body, block, (size_t)got);
                want -= (size_t)got;
        }
        space = strchr(q->head, ' ');
        snprintf(q->method, sizeof q->method, "%.*s", (int)(space - q->head), q->head);
        snprintf(q->key, sizeof q->key, "%.*s", (int)strcspn(space + 1, " ?"), space + 1);
        query = space + 1 + strlen(q->key);
        snprintf(q->query, sizeof q->query, "%.*s", *query == '?' ? (int)strcspn(query, " ") : 0,
                 query);
        return true;
}

static inline void
fake_answer(int socket, int status, const char *headers, ls_span body, bool cut, bool no_body)
{
        struct ls_buf out;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_buf_printf(&out, "HTTP/1.1 %d x\r\ncontent-length: %zu\r\n%s\r\n", status, body.len,
                      headers);
        if (!no_body)
                ls_buf_put(&out, body.ptr, cut ? body.len / 2 : body.len);
        send(socket, out.ptr, out.len, MSG_NOSIGNAL);
        ls_buf_done(&out);
}

static inline void
fake_words(int socket, int status, const char *code)
{
        char body[256], header[128];

        snprintf(
                body, sizeof body,
                "<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>of a test</Message></Error>",
                code);
        snprintf(header, sizeof header, "x-ms-error-code: %s\r\n", code);
        fake_answer(socket, status, header, ls_span_of(body, strlen(body)), false, false);
}

/* An upload in parts: its only one. */
static inline bool
fake_upload(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        static const char begun[] = "<InitiateMultipartUploadResult><UploadId>u1</UploadId>"
                                    "</InitiateMultipartUploadResult>",
                          done[] =
                                  "<CompleteMultipartUploadResult></CompleteMultipartUploadResult>";
        struct fake_object *o;

        if (strcmp(q->query, "?uploads=") == 0) {
                f->upload.used = true;
                ls_buf_clear(&f->upload.bytes);
                fake_header(q, "x-amz-meta-lakestream-write", f->upload.token,
                            sizeof f->upload.token);
                if (!quiet)
                        fake_answer(socket, 200, "", ls_span_of(begun, sizeof begun - 1), false,
                                    false);
                return true;
        }
        if (strstr(q->query, "uploadId=u1") == NULL)
                return false;
        if (!f->upload.used) {
                if (!quiet)
                        fake_words(socket, 404, "NoSuchUpload");
                return true;
        }
        if (strcmp(q->method, "PUT") == 0) {
                ls_buf_put_span(&f->upload.bytes, ls_buf_span(&q->body));
                if (!quiet)
                        fake_answer(socket, 200, "etag: \"p\"\r\n", LS_SPAN_NULL, false, false);
                return true;
        }
        f->upload.used = false;
        if (strcmp(q->method, "DELETE") == 0) {
                if (!quiet)
                        fake_answer(socket, 204, "", LS_SPAN_NULL, false, true);
                return true;
        }
        if (fake_find(f, q->key, false) != NULL) {
                if (!quiet)
                        fake_words(socket, 412, "PreconditionFailed");
                return true;
        }
        o = fake_find(f, q->key, true);
        fake_set(o, f->upload.token, ls_buf_span(&f->upload.bytes));
        if (!quiet)
                fake_answer(socket, 200, "", ls_span_of(done, sizeof done - 1), false, false);
        return true;
}

static inline void
fake_put(struct fake *f, int socket, const struct fake_request *q, bool quiet)
{
        struct fake_object *o = fake_find(f, q->key, false);
        char text[64];

        if (o != NULL && fake_header(q, "if-none-match", text, sizeof text)) {
                if (!quiet)
                        fake_words(socket, f->exists_status, f->exists_code);
                return;
        }
        if (strncmp(q->key, "/latest/", 8) == 0) { /* an instance's metadata */
                fake_answer(socket, 200, "", ls_span_of("t0", 2), false, false);
                return;
        }
        fake_header(q, f->token_header, text, sizeof text);
        fake_set(fake_find(f, q->key, true), text, ls_buf_span(&q->body));
        if (!quiet)
                fake_answer(socket, 200, "", LS_SPAN_NULL, false, false);
}

static inline void
fake_get(struct fake *f, int socket, const struct fake_request *q, bool cut)
{
        bool head = strcmp(q->method, "HEAD") == 0;
        struct fake_object *o = fake_find(f, q->key, false);
        char range[64], headers[512];
        size_t from, to;
        ls_span bytes;

        if (f->fixed != NULL && !head) {
                fake_answer(socket, 200, "", ls_span_of(f->fixed, strlen(f->fixed)), false, false);
                return;
        }
        if (o == NULL) {
                if (head)
                        fake_answer(socket, 404, "", LS_SPAN_NULL, false, true);
                else
                        fake_words(socket, 404, "NoSuchKey");
                return;
        }
        bytes = ls_buf_span(&o->bytes);
        snprintf(headers, sizeof headers,
                 "etag: \"%s\"\r\n%s: %s\r\n"
                 "last-modified: Tue, 01 Dec 2026 10:20:30 GMT\r\n",
                 o->etag, f->token_header, o->token);
        if (fake_header(q, "range", range, sizeof range) &&
            sscanf(range, "bytes=%zu-%zu", &from, &to) == 2 && from < bytes.len) {
                char *end = headers + strlen(headers);

                to = LS_MIN(to + 1, bytes.len);
                snprintf(end, (size_t)(headers + sizeof headers - end),
                         "content-range: bytes %zu-%zu/%zu\r\n", from, to - 1, bytes.len);
                fake_answer(socket, 206, headers, ls_span_of(bytes.ptr + from, to - from), cut,
                            head);
                return;
        }
        fake_answer(socket, 200, headers, bytes, cut, head);
}

/* Does what is asked; `quiet`: without an answer. */
static inline void
fake_do(struct fake *f, int socket, const struct fake_request *q, bool quiet, bool cut)
{
        if (q->query[0] != '\0' && f->special(f, socket, q, quiet))
                return;
        if (strcmp(q->method, "PUT") == 0) {
                fake_put(f, socket, q, quiet);
        } else if (strcmp(q->method, "DELETE") == 0) {
                struct fake_object *o = fake_find(f, q->key, false);

                if (o != NULL) {
                        o->used = false;
                        ls_buf_done(&o->bytes);
                }
                if (!quiet)
                        fake_answer(socket, 204, "", LS_SPAN_NULL, false, true);
        } else if (strcmp(q->method, "POST") == 0 && f->fixed != NULL) {
                fake_answer(socket, 200, "", ls_span_of(f->fixed, strlen(f->fixed)), false, false);
        } else if (!quiet) {
                fake_get(f, socket, q, cut);
        }
}

/* False: the connection ends. Under the lock. */
static inline bool
fake_serve(struct fake *f, int socket, const struct fake_request *q)
{
        enum fake_action action =
                f->script_at < f->script_count ? f->script[f->script_at++] : f->rest;
        uint64_t number = ++f->requests;

        memcpy(f->last, q->head, sizeof f->last);
        ls_cond_broadcast(&f->changed);
        switch (action) {
        case FAKE_PASS: fake_do(f, socket, q, false, false); return true;
        case FAKE_THROTTLE: fake_words(socket, 503, "SlowDown"); return true;
        case FAKE_CONFLICT: fake_words(socket, 409, "ConditionalRequestConflict"); return true;
        case FAKE_ERROR_BEFORE: fake_words(socket, 500, "InternalError"); return true;
        case FAKE_ERROR_AFTER:
                fake_do(f, socket, q, true, false);
                fake_words(socket, 500, "InternalError");
                return true;
        case FAKE_CLOSE_BEFORE: return false;
        case FAKE_CLOSE_AFTER: fake_do(f, socket, q, true, false); return false;
        case FAKE_CUT: fake_do(f, socket, q, false, true); return false;
        case FAKE_GARBAGE: send(socket, "\x01\x02\x03\x04\r\n\r\n", 8, MSG_NOSIGNAL); return false;
        case FAKE_WAIT:
                while (f->requests == number && !f->stopping)
                        ls_cond_wait(&f->changed, &f->lock);
                fake_do(f, socket, q, false, false);
                return true;
        case FAKE_DENY: fake_words(socket, 403, "AccessDenied"); return true;
        case FAKE_LOST_BUCKET: fake_words(socket, 404, "NoSuchBucket"); return true;
        case FAKE_ERROR_IN_200: fake_words(socket, 200, "InternalError"); return true;
        case FAKE_NOT_XML:
                fake_answer(socket, 200, "", ls_span_of("<a><b></a>", 10), false, false);
                return true;
        case FAKE_OVERWRITE:
                fake_do(f, socket, q, true, false);
                fake_set(fake_find(f, q->key, true), "another", ls_span_of("another's", 9));
                return false;
        }
        return false;
}

struct fake_connection {
        struct fake *f;
        int socket;
        size_t index;
};

static void *
fake_connection_run(void *arg)
{
        struct fake_connection *c = arg;
        struct fake_request *q = ls_calloc(1, sizeof *q);
        bool open = true;

        ls_buf_init(&q->body, LS_BUF_MAX_DEFAULT);
        while (open && fake_read(c->socket, q)) {
                pthread_mutex_lock(&c->f->lock);
                open = fake_serve(c->f, c->socket, q);
                pthread_mutex_unlock(&c->f->lock);
        }
        ls_buf_done(&q->body);
        ls_free(q);
        pthread_mutex_lock(&c->f->lock);
        close(c->socket);
        c->f->sockets[c->index] = -1;
        c->f->connections--;
        ls_cond_broadcast(&c->f->changed);
        pthread_mutex_unlock(&c->f->lock);
        ls_free(c);
        return NULL;
}

static void
fake_accept(void *arg)
{
        struct fake *f = arg;
        int socket;

        while ((socket = accept(f->listener, NULL, NULL)) >= 0) {
                struct fake_connection *c = ls_calloc(1, sizeof *c);
                pthread_t thread;

                c->f = f;
                c->socket = socket;
                pthread_mutex_lock(&f->lock);
                while (f->sockets[c->index] >= 0)
                        c->index++;
                f->sockets[c->index] = socket;
                f->connections++;
                pthread_mutex_unlock(&f->lock);
                pthread_create(&thread, NULL, fake_connection_run, c);
                pthread_detach(thread);
        }
}

static inline struct fake *
fake_start(void)
{
        struct sockaddr_in address = { .sin_family = AF_INET,
                                       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        struct fake *f = ls_calloc(1, sizeof *f);
        socklen_t len = sizeof address;

        f->listener = socket(AF_INET, SOCK_STREAM, 0);
        assert_int_equal(bind(f->listener, (struct sockaddr *)&address, len), 0);
        assert_int_equal(listen(f->listener, 64), 0);
        assert_int_equal(getsockname(f->listener, (struct sockaddr *)&address, &len), 0);
        snprintf(f->address, sizeof f->address, "http://127.0.0.1:%u", ntohs(address.sin_port));
        for (size_t i = 0; i < LS_COUNT(f->sockets); i++)
                f->sockets[i] = -1;
        f->special = fake_upload;
        f->token_header = "x-amz-meta-lakestream-write";
        f->exists_status = 412;
        f->exists_code = "PreconditionFailed";
        ls_buf_init(&f->upload.bytes, LS_BUF_MAX_DEFAULT);
        pthread_mutex_init(&f->lock, NULL);
        ls_cond_init(&f->changed);
        assert_int_equal(ls_thread_start("fake", fake_accept, f, &f->thread), LS_OK);
        return f;
}

static inline void
fake_stop(struct fake *f)
{
        shutdown(f->listener, SHUT_RDWR);
        ls_thread_join(f->thread);
        close(f->listener);
        pthread_mutex_lock(&f->lock);
        f->stopping = true;
        ls_cond_broadcast(&f->changed);
        for (size_t i = 0; i < LS_COUNT(f->sockets); i++)
                if (f->sockets[i] >= 0)
                        shutdown(f->sockets[i], SHUT_RDWR);
        while (f->connections > 0)
                ls_cond_wait(&f->changed, &f->lock);
        pthread_mutex_unlock(&f->lock);
        for (size_t i = 0; i < FAKE_OBJECTS_MAX; i++)
                ls_buf_done(&f->objects[i].bytes);
        ls_buf_done(&f->upload.bytes);
        pthread_mutex_destroy(&f->lock);
        ls_cond_done(&f->changed);
        ls_free(f);
}

/* ---- a store on it ---- */

#define DEADLINE_MS 1500 /* of calls that fail to the end */

struct world {
        struct fake *f;
        struct ls_store *s;
};

/* Each test's own: opens w->s on w->f, container or bucket "lake", prefix "a". */
static void world_open(struct world *w, int64_t deadline_ms, int64_t hedge_ms);

static inline int
world_teardown(void **state)
{
        struct world *w = *state;

        ls_store_close(w->s);
        fake_stop(w->f);
        ls_free(w);
        return 0;
}

static inline void
deadline_short(struct world *w)
{
        ls_store_close(w->s);
        world_open(w, DEADLINE_MS, 0);
}

static inline ls_span
span_of(const char *text)
{
        return ls_span_of(text, strlen(text));
}

static inline void
want_content(struct world *w, const char *key, const char *want)
{
        struct ls_slice *got = NULL;

        fake_script(w->f, FAKE_PASS, 0);
        assert_int_equal(ls_store_get(w->s, key, 0, 0, &got), LS_OK);
        assert_true(ls_span_eq(ls_slice_span(got), span_of(want)));
        ls_slice_unref(got);
}

/* 9 MiB: two parts. */
static inline ls_err
upload(struct world *w, const char *key)
{
        static const size_t bytes = 9 << 20;
        struct ls_slice *sent = ls_slice_new(bytes);
        struct ls_store_writer *writer;
        ls_err e;

        memset(sent->ptr, 'u', bytes);
        assert_int_equal(ls_store_writer_open(w->s, key, &writer), LS_OK);
        e = writer->write(writer, ls_slice_span(sent));
        ls_slice_unref(sent);
        if (e == LS_OK)
                return writer->finish(writer);
        writer->cancel(writer);
        return e;
}

static inline ls_err
on_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        ls_buf_printf(ctx, "%s:%llu:%s:%lld ", key, (unsigned long long)info->bytes, info->etag,
                      (long long)info->modified_ms);
        return LS_OK;
}

static inline void
file_put(const char *path, const char *text)
{
        assert_int_equal(ls_file_write_atomic(path, span_of(text)), LS_OK);
}

/* What is the same for all: a lost answer to a conditional write is settled by looking; when a
 * second writer came between, nobody can say any more whose was first. */
static inline void
test_if_absent_answer_lost(void **state)
{
        static const enum fake_action lost[] = { FAKE_CLOSE_AFTER, FAKE_ERROR_AFTER, FAKE_GARBAGE,
                                                 FAKE_CLOSE_BEFORE, FAKE_ERROR_BEFORE };
        struct world *w = *state;

        for (size_t i = 0; i < LS_COUNT(lost); i++) {
                char key[32];

                snprintf(key, sizeof key, "k%zu", i);
                fake_script(w->f, FAKE_PASS, 2, lost[i], lost[i]);
                assert_int_equal(ls_store_put_if_absent(w->s, key, span_of("mine")), LS_OK);
                want_content(w, key, "mine");
        }
}
