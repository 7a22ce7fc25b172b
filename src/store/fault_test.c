/* store/fault_test.c - proves that the script of a fault store is asked for every call, with its
 * name and number, and that each action does what it says to the inner store; and that the probe
 * refuses a store that does not keep its promises, with words, and leaves nothing in it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/store.h"

struct script {
        const char *op; /* on which it acts; NULL: on all */
        enum ls_fault_action action;
        ls_err err;
        uint64_t asked;
        char log[2000];
};

static enum ls_fault_action
script_decide(void *ctx, const char *op, const char *key, uint64_t number, ls_err *err)
{
        struct script *s = ctx;
        size_t len = strlen(s->log);

        assert_int_equal(number, s->asked);
        s->asked++;
        snprintf(s->log + len, sizeof s->log - len, "%s:%s ", op, key);
        if (s->op != NULL && strcmp(s->op, op) != 0)
                return LS_FAULT_PASS;
        *err = s->err;
        return s->action;
}

static void
script_set(struct script *s, const char *op, enum ls_fault_action action, ls_err err)
{
        s->op = op;
        s->action = action;
        s->err = err;
        s->log[0] = '\0';
}

static ls_span
span_of(const char *text)
{
        return ls_span_of(text, strlen(text));
}

static bool
content_is(struct ls_store *s, const char *key, const char *want)
{
        struct ls_slice *got = NULL;
        bool same = ls_store_get(s, key, 0, 0, &got) == LS_OK &&
                    ls_span_eq(ls_slice_span(got), span_of(want));

        ls_slice_unref(got);
        return same;
}

static bool
is_absent(struct ls_store *s, const char *key)
{
        struct ls_store_info info;

        return ls_store_head(s, key, &info) == LS_ABSENT;
}

static ls_err
count_on_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        ++*(size_t *)ctx;
        return LS_OK;
}

static void
test_asked(void **state)
{
        struct script script = { .action = LS_FAULT_PASS };
        struct ls_store *inner = ls_store_mem_new();
        struct ls_store *s = ls_store_fault_new(inner, script_decide, &script);
        struct ls_store_writer *w;
        struct ls_store_info info;
        struct ls_slice *got;
        size_t count = 0;

        assert_int_equal(ls_store_put(s, "a", span_of("1")), LS_OK);
        assert_int_equal(ls_store_put_if_absent(s, "b", span_of("2")), LS_OK);
        assert_int_equal(ls_store_head(s, "b", &info), LS_OK);
        assert_int_equal(ls_store_put_if_match(s, "b", info.etag, span_of("3")), LS_OK);
        assert_int_equal(ls_store_get(s, "b", 0, 0, &got), LS_OK);
        ls_slice_unref(got);
        assert_int_equal(ls_store_list(s, "a", NULL, 9, count_on_key, &count), LS_OK);
        assert_int_equal(ls_store_delete_many(s, (const char *const[]){ "a", "b" }, 2, NULL),
                         LS_OK);
        assert_int_equal(ls_store_writer_open(s, "w", &w), LS_OK);
        assert_int_equal(w->write(w, span_of("x")), LS_OK);
        assert_int_equal(w->finish(w), LS_OK);
        assert_int_equal(ls_store_put(s, "bad key", span_of("1")), LS_INVALID); /* not asked */
        assert_string_equal(script.log,
                            "put:a put_if_absent:b head:b put_if_match:b get:b list:a delete:a "
                            "delete:b writer_open:w writer_write:w writer_finish:w ");
        ls_store_close(s);
        ls_store_close(inner);
}

static void
test_before_and_after(void **state)
{
        struct script script = { .err = LS_THROTTLED };
        struct ls_store *inner = ls_store_mem_new();
        struct ls_store *s = ls_store_fault_new(inner, script_decide, &script);
        struct ls_store_writer *w = NULL;
        struct ls_store_info info;
        struct ls_slice *got = NULL;
        size_t count = 0, failed = 0;

        script.action = LS_FAULT_FAIL_BEFORE;
        assert_int_equal(ls_store_put(s, "a", span_of("1")), LS_THROTTLED);
        assert_int_equal(ls_store_put_if_absent(s, "a", span_of("1")), LS_THROTTLED);
        assert_true(is_absent(inner, "a"));
        assert_int_equal(ls_store_put(inner, "a", span_of("1")), LS_OK);
        assert_int_equal(ls_store_head(inner, "a", &info), LS_OK);
        assert_int_equal(ls_store_put_if_match(s, "a", info.etag, span_of("2")), LS_THROTTLED);
        assert_int_equal(ls_store_get(s, "a", 0, 0, &got), LS_THROTTLED);
        assert_int_equal(ls_store_head(s, "a", &info), LS_THROTTLED);
        assert_int_equal(ls_store_list(s, "", NULL, 9, count_on_key, &count), LS_THROTTLED);
        assert_int_equal(ls_store_delete_many(s, (const char *const[]){ "a", "b" }, 2, &failed),
                         LS_THROTTLED);
        assert_int_equal(failed, 2);
        assert_int_equal(ls_store_writer_open(s, "w", &w), LS_THROTTLED);
        assert_true(content_is(inner, "a", "1"));
        assert_null(got);
        assert_null(w);
        assert_int_equal(count, 0);

        script.action = LS_FAULT_FAIL_AFTER;
        script.err = LS_UNKNOWN_OUTCOME;
        assert_int_equal(ls_store_put(s, "a", span_of("5")), LS_UNKNOWN_OUTCOME);
        assert_true(content_is(inner, "a", "5"));
        assert_int_equal(ls_store_put_if_absent(s, "b", span_of("6")), LS_UNKNOWN_OUTCOME);
        assert_true(content_is(inner, "b", "6"));
        assert_int_equal(ls_store_get(s, "a", 0, 0, &got), LS_UNKNOWN_OUTCOME);
        assert_null(got);
        assert_int_equal(ls_store_delete(s, "b"), LS_UNKNOWN_OUTCOME);
        assert_true(is_absent(inner, "b"));
        assert_int_equal(ls_store_writer_open(s, "w", &w), LS_UNKNOWN_OUTCOME);
        assert_null(w);
        script.op = "writer_finish";
        assert_int_equal(ls_store_writer_open(s, "w", &w), LS_OK);
        assert_int_equal(w->write(w, span_of("whole")), LS_OK);
        assert_int_equal(w->finish(w), LS_UNKNOWN_OUTCOME);
        assert_true(content_is(inner, "w", "whole"));
        script.action = LS_FAULT_FAIL_BEFORE;
        assert_int_equal(ls_store_writer_open(s, "w2", &w), LS_OK);
        assert_int_equal(w->finish(w), LS_UNKNOWN_OUTCOME);
        assert_true(is_absent(inner, "w2"));
        ls_store_close(s);
        ls_store_close(inner);
}

static void
test_truncate_and_flip(void **state)
{
        struct script script = { .action = LS_FAULT_TRUNCATE, .err = LS_EIO };
        struct ls_store *inner = ls_store_mem_new();
        struct ls_store *s = ls_store_fault_new(inner, script_decide, &script);
        ls_span spans[3] = { span_of("abc"), span_of(""), span_of("defgh") };
        struct ls_slice *got = NULL;
        struct ls_store_writer *w;
        unsigned different = 0;

        assert_int_equal(s->ops->put(s, "a", spans, 3), LS_EIO);
        assert_true(content_is(inner, "a", "abcd"));
        script.err = LS_OK; /* a store that lies */
        assert_int_equal(ls_store_put_if_absent(s, "a", span_of("x")), LS_EXISTS);
        assert_int_equal(ls_store_put(s, "a", span_of("12345678")), LS_OK);
        assert_true(content_is(inner, "a", "1234"));
        assert_true(content_is(s, "a", "12"));
        script.op = "writer_write";
        assert_int_equal(ls_store_writer_open(s, "w", &w), LS_OK);
        assert_int_equal(w->write(w, span_of("abcdef")), LS_OK);
        assert_int_equal(w->finish(w), LS_OK);
        assert_true(content_is(inner, "w", "abc"));

        script.op = NULL;
        script.action = LS_FAULT_FLIP;
        assert_int_equal(ls_store_get(s, "a", 0, 0, &got), LS_OK);
        assert_int_equal(got->len, 4);
        for (size_t i = 0; i < 4; i++)
                different += (unsigned)__builtin_popcount(got->ptr[i] ^ (unsigned)"1234"[i]);
        assert_int_equal(different, 1);
        ls_slice_unref(got);
        assert_true(content_is(inner, "a", "1234"));
        ls_store_close(s);
        ls_store_close(inner);
}

/* A store that ignores conditions: a conditional write just writes. */
static ls_err
careless_absent(struct ls_store *s, const char *key, const ls_span *spans, size_t count)
{
        return s->ops->put(s, key, spans, count);
}
static ls_err
careless_match(struct ls_store *s, const char *key, const char *etag, ls_span bytes)
{
        return s->ops->put(s, key, &bytes, 1);
}

static void
want_probe(struct ls_store *s, struct ls_store *inner, ls_err want, const char *word)
{
        struct ls_errinfo words = { { 0 } };
        size_t count = 0;

        assert_int_equal(ls_store_probe(s, &words), want);
        if (word != NULL && strstr(words.text, word) == NULL)
                fail_msg("%s", words.text);
        assert_int_equal(ls_store_list(inner, "", NULL, 9, count_on_key, &count), LS_OK);
        assert_int_equal(count, 0);
}

static void
test_probe(void **state)
{
        struct script script = { .action = LS_FAULT_PASS };
        struct ls_store *inner = ls_store_mem_new();
        struct ls_store *s = ls_store_fault_new(inner, script_decide, &script);
        const struct ls_store_ops *good = inner->ops;
        struct ls_store_ops bad = *good;

        want_probe(s, inner, LS_OK, NULL);
        inner->ops = &bad;
        bad.put_if_absent = careless_absent;
        want_probe(inner, inner, LS_UNSUPPORTED, "second conditional write");
        bad = *good;
        bad.put_if_match = careless_match;
        want_probe(inner, inner, LS_UNSUPPORTED, "old etag");
        inner->ops = good;

        script_set(&script, "get", LS_FAULT_FLIP, LS_OK);
        want_probe(s, inner, LS_UNSUPPORTED, "old or wrong bytes");
        script_set(&script, "put_if_match", LS_FAULT_FAIL_BEFORE, LS_UNSUPPORTED);
        want_probe(s, inner, LS_UNSUPPORTED, "current etag");
        script_set(&script, "put_if_absent", LS_FAULT_FAIL_BEFORE, LS_DENIED);
        want_probe(s, inner, LS_DENIED, "permission denied");
        script_set(&script, "list", LS_FAULT_FAIL_AFTER, LS_EIO);
        want_probe(s, inner, LS_EIO, "list");
        ls_store_close(s);
        ls_store_close(inner);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_asked),
                cmocka_unit_test(test_before_and_after),
                cmocka_unit_test(test_truncate_and_flip),
                cmocka_unit_test(test_probe),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
