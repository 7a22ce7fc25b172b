/* store/fault/fault.c - fails by script what it passes on, for tests. See store.h. */
#include <stdatomic.h>

#include "base/assert.h"
#include "base/mem.h"
#include "store/store_int.h"

struct fault {
        struct ls_store base;
        struct ls_store *inner;
        enum ls_fault_action (*decide)(void *ctx, const char *op, const char *key, uint64_t number,
                                       ls_err *err);
        void *ctx;
        _Atomic uint64_t next;
};

/* What the script says about one call. */
struct verdict {
        enum ls_fault_action action;
        ls_err err;
        uint64_t number;
};

static struct fault *
fault_of(struct ls_store *s)
{
        return LS_CONTAINER(s, struct fault, base);
}

static struct verdict
fault_ask(struct fault *f, const char *op, const char *key)
{
        struct verdict v = { .number = atomic_fetch_add(&f->next, 1) };

        if (f->decide != NULL)
                v.action = f->decide(f->ctx, op, key, v.number, &v.err);
        if (v.action == LS_FAULT_FAIL_BEFORE || v.action == LS_FAULT_FAIL_AFTER)
                LS_ASSERT(v.err != LS_OK); /* the script forgot with what */
        return v;
}

/* What the caller sees of an inner result. An inner refusal is not covered up. */
static ls_err
verdict_result(const struct verdict *v, ls_err inner)
{
        switch (v->action) {
        case LS_FAULT_PASS:
        case LS_FAULT_FLIP: return inner;
        case LS_FAULT_FAIL_BEFORE:
        case LS_FAULT_FAIL_AFTER: return v->err;
        case LS_FAULT_TRUNCATE: return inner == LS_OK ? v->err : inner;
        }
        return inner;
}

/* The spans cut to half of their bytes; the caller frees. */
static ls_span *
spans_half(const ls_span *spans, size_t *count)
{
        ls_span *half = ls_calloc(*count + 1, sizeof *half);
        size_t bytes = 0, n = 0;

        for (size_t i = 0; i < *count; i++)
                bytes += spans[i].len;
        bytes /= 2;
        for (size_t i = 0; i < *count && bytes > 0; i++) {
                half[n] = ls_span_of(spans[i].ptr, LS_MIN(spans[i].len, bytes));
                bytes -= half[n++].len;
        }
        *count = n;
        return half;
}

typedef ls_err (*put_fn)(struct ls_store *s, const char *key, const ls_span *spans, size_t count);

static ls_err
fault_write(struct fault *f, const char *op, const char *key, const ls_span *spans, size_t count,
            put_fn put)
{
        struct verdict v = fault_ask(f, op, key);
        ls_span *half;
        ls_err e;

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        if (v.action != LS_FAULT_TRUNCATE)
                return verdict_result(&v, put(f->inner, key, spans, count));
        half = spans_half(spans, &count);
        e = put(f->inner, key, half, count);
        ls_free(half);
        return verdict_result(&v, e);
}

static ls_err
fault_put(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        struct fault *f = fault_of(s);

        return fault_write(f, "put", key, spans, count, f->inner->ops->put);
}

static ls_err
fault_put_if_absent(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        struct fault *f = fault_of(s);

        return fault_write(f, "put_if_absent", key, spans, count, f->inner->ops->put_if_absent);
}

static ls_err
fault_put_if_match(struct ls_store *s, const char *key, const char *etag, ls_span bytes)
{
        struct fault *f = fault_of(s);
        struct verdict v = fault_ask(f, "put_if_match", key);

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        if (v.action == LS_FAULT_TRUNCATE)
                bytes.len /= 2;
        return verdict_result(&v, f->inner->ops->put_if_match(f->inner, key, etag, bytes));
}

static ls_err
fault_get(struct ls_store *s, const char *key, uint64_t pos, size_t len,
          struct ls_slice **ret_bytes)
{
        struct fault *f = fault_of(s);
        struct verdict v = fault_ask(f, "get", key);
        struct ls_slice *bytes = NULL, *wrong;
        ls_err e;

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        e = verdict_result(&v, f->inner->ops->get(f->inner, key, pos, len, &bytes));
        if (e == LS_OK && v.action == LS_FAULT_TRUNCATE) {
                wrong = ls_slice_view(bytes, 0, bytes->len / 2);
                ls_slice_unref(bytes);
                bytes = wrong;
        }
        if (e == LS_OK && v.action == LS_FAULT_FLIP && bytes->len > 0) {
                wrong = ls_slice_copy(ls_slice_span(bytes));
                LS_ASSERT(wrong != NULL);
                wrong->ptr[(v.number * 7919) % wrong->len] ^= (uint8_t)(1 << v.number % 8);
                ls_slice_unref(bytes);
                bytes = wrong;
        }
        if (e == LS_OK)
                *ret_bytes = bytes;
        else
                ls_slice_unref(bytes);
        return e;
}

static ls_err
fault_head(struct ls_store *s, const char *key, struct ls_store_info *ret_info)
{
        struct fault *f = fault_of(s);
        struct verdict v = fault_ask(f, "head", key);

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        return verdict_result(&v, f->inner->ops->head(f->inner, key, ret_info));
}

static ls_err
fault_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
           ls_err (*fn)(void *ctx, const char *key, const struct ls_store_info *info), void *ctx)
{
        struct fault *f = fault_of(s);
        struct verdict v = fault_ask(f, "list", prefix);

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        if (v.action == LS_FAULT_TRUNCATE)
                count_max = (count_max + 1) / 2;
        return verdict_result(&v, f->inner->ops->list(f->inner, prefix, after, count_max, fn, ctx));
}

static ls_err
fault_del(struct ls_store *s, const char *key)
{
        struct fault *f = fault_of(s);
        struct verdict v = fault_ask(f, "delete", key);

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        return verdict_result(&v, f->inner->ops->del(f->inner, key));
}

/* ---- upload in parts ---- */

struct fault_writer {
        struct ls_store_writer base;
        struct fault *f;
        struct ls_store_writer *inner;
        char key[LS_STORE_KEY_BYTES_MAX + 1];
};

static ls_err
fault_writer_write(struct ls_store_writer *base, ls_span bytes)
{
        struct fault_writer *w = LS_CONTAINER(base, struct fault_writer, base);
        struct verdict v = fault_ask(w->f, "writer_write", w->key);

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        if (v.action == LS_FAULT_TRUNCATE)
                bytes.len /= 2;
        return verdict_result(&v, w->inner->write(w->inner, bytes));
}

static void
fault_writer_cancel(struct ls_store_writer *base)
{
        struct fault_writer *w = LS_CONTAINER(base, struct fault_writer, base);

        w->inner->cancel(w->inner);
        ls_free(w);
}

static ls_err
fault_writer_finish(struct ls_store_writer *base)
{
        struct fault_writer *w = LS_CONTAINER(base, struct fault_writer, base);
        struct verdict v = fault_ask(w->f, "writer_finish", w->key);
        ls_err e;

        if (v.action == LS_FAULT_FAIL_BEFORE) {
                fault_writer_cancel(base);
                return v.err;
        }
        e = verdict_result(&v, w->inner->finish(w->inner));
        ls_free(w);
        return e;
}

static ls_err
fault_writer_open(struct ls_store *s, const char *key, struct ls_store_writer **ret_writer)
{
        struct fault *f = fault_of(s);
        struct verdict v = fault_ask(f, "writer_open", key);
        struct ls_store_writer *inner;
        struct fault_writer *w;
        ls_err e;

        if (v.action == LS_FAULT_FAIL_BEFORE)
                return v.err;
        LS_TRY(f->inner->ops->writer_open(f->inner, key, &inner));
        e = verdict_result(&v, LS_OK);
        if (e != LS_OK) {
                inner->cancel(inner);
                return e;
        }
        w = ls_calloc(1, sizeof *w);
        w->base = (struct ls_store_writer){ .write = fault_writer_write,
                                            .finish = fault_writer_finish,
                                            .cancel = fault_writer_cancel };
        w->f = f;
        w->inner = inner;
        memcpy(w->key, key, strlen(key) + 1);
        *ret_writer = &w->base;
        return LS_OK;
}

static void
fault_close(struct ls_store *s)
{
        ls_free(fault_of(s));
}

/* No del_many: the script is asked for each key. */
static const struct ls_store_ops fault_ops = {
        .name = "fault",
        .put = fault_put,
        .put_if_absent = fault_put_if_absent,
        .put_if_match = fault_put_if_match,
        .get = fault_get,
        .head = fault_head,
        .list = fault_list,
        .del = fault_del,
        .writer_open = fault_writer_open,
        .close = fault_close,
};

struct ls_store *
ls_store_fault_new(struct ls_store *inner,
                   enum ls_fault_action (*decide)(void *ctx, const char *op, const char *key,
                                                  uint64_t number, ls_err *err),
                   void *ctx)
{
        struct fault *f = ls_calloc(1, sizeof *f);

        f->base = (struct ls_store){ .ops = &fault_ops, .uri = inner->uri };
        f->inner = inner;
        f->decide = decide;
        f->ctx = ctx;
        return &f->base;
}
