/* store/cache_test.c - what only the cache has. It proves: no byte is fetched twice by a reader
 * that goes through an object, nor by many that want the same at once; requests are few and large
 * then; the bound holds; an error reaches all who wait and is not kept; what was replaced or
 * deleted is not served; any range at any time is what the object holds. The store below is in
 * memory and counts, waits or fails as the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/metric.h"
#include "store/store.h"
#include "sys/jobs.h"

#define MIB ((size_t)1 << 20)

struct world {
        struct ls_store *mem, *fault, *s;
        pthread_mutex_t lock;
        struct ls_cond changed;
        unsigned gets, heads, fail; /* fail: this many gets from now on */
        unsigned hold;              /* gets wait while this is above 0 */
        unsigned held;              /* that wait */
};

static enum ls_fault_action
decide(void *ctx, const char *op, const char *key, uint64_t number, ls_err *err)
{
        struct world *w = ctx;
        enum ls_fault_action action = LS_FAULT_PASS;

        pthread_mutex_lock(&w->lock);
        if (strcmp(op, "head") == 0)
                w->heads++;
        if (strcmp(op, "get") == 0) {
                w->gets++;
                w->held++;
                ls_cond_broadcast(&w->changed);
                while (w->hold > 0)
                        ls_cond_wait(&w->changed, &w->lock);
                w->held--;
                if (w->fail > 0) {
                        w->fail--;
                        *err = LS_ENET;
                        action = LS_FAULT_FAIL_BEFORE;
                }
        }
        pthread_mutex_unlock(&w->lock);
        return action;
}

static int
setup_bytes(void **state, uint64_t bytes)
{
        struct world *w = ls_calloc(1, sizeof *w);
        struct ls_errinfo words;

        pthread_mutex_init(&w->lock, NULL);
        ls_cond_init(&w->changed);
        w->mem = ls_store_mem_new();
        w->fault = ls_store_fault_new(w->mem, decide, w);
        assert_int_equal(ls_store_cache_new(w->fault, bytes, &w->s, &words), LS_OK);
        *state = w;
        return 0;
}
static int
setup(void **state)
{
        return setup_bytes(state, 64 * MIB);
}
static int
setup_small(void **state)
{
        return setup_bytes(state, 3 * MIB);
}

static int
teardown(void **state)
{
        struct world *w = *state;

        ls_store_close(w->s); /* and the one below */
        ls_store_close(w->mem);
        pthread_mutex_destroy(&w->lock);
        ls_cond_done(&w->changed);
        ls_free(w);
        return 0;
}

static uint8_t
byte_at(size_t i, uint8_t kind)
{
        return (uint8_t)((i * 2654435761u >> 13) + kind);
}

static void
put(struct world *w, const char *key, size_t bytes, uint8_t kind)
{
        struct ls_slice *s = ls_slice_new(bytes);

        for (size_t i = 0; i < bytes; i++)
                s->ptr[i] = byte_at(i, kind);
        assert_int_equal(ls_store_put(w->s, key, ls_slice_span(s)), LS_OK);
        ls_slice_unref(s);
}

static void
want(struct world *w, const char *key, uint64_t pos, size_t len, uint8_t kind)
{
        struct ls_slice *got = NULL;

        assert_int_equal(ls_store_get(w->s, key, pos, len, &got), LS_OK);
        assert_int_equal(got->len, len);
        for (size_t i = 0; i < len; i += 1 + len / 500)
                assert_int_equal(got->ptr[i], byte_at(pos + i, kind));
        assert_int_equal(got->ptr[len - 1], byte_at(pos + len - 1, kind));
        ls_slice_unref(got);
}

static int64_t
metric(const char *name)
{
        struct ls_buf out;
        const char *at;
        int64_t value = 0;

        ls_buf_init(&out, LS_BUF_MAX_DEFAULT);
        ls_metric_print(&out);
        at = strstr(ls_buf_cstr(&out), name);
        while (at != NULL && (at == (char *)out.ptr || at[-1] != '\n'))
                at = strstr(at + 1, name);
        assert_non_null(at);
        at += strlen(name) + 1;
        assert_true(ls_str_to_i64(ls_str_make(at, strcspn(at, "\n")), 0, INT64_MAX, &value));
        ls_buf_done(&out);
        return value;
}

/* From front to back in small pieces, twice: 40 blocks in few requests, none twice. */
static void
test_front_to_back(void **state)
{
        struct world *w = *state;
        size_t bytes = 40 * MIB - 12345;

        put(w, "k", bytes, 1);
        for (int round = 0; round < 2; round++)
                for (size_t at = 0; at < bytes; at += 100000)
                        want(w, "k", at, LS_MIN((size_t)100000, bytes - at), 1);
        assert_int_equal(w->heads, 1);
        assert_true(w->gets < 20);
        assert_int_equal(metric("lakestream_store_cache_bytes"), (int64_t)bytes);
}

/* Far from each other: no more than the blocks that are asked for. */
static void
test_here_and_there(void **state)
{
        struct world *w = *state;

        put(w, "k", 40 * MIB, 1);
        for (size_t i = 0; i < 10; i++)
                want(w, "k", (i * 7 % 10) * 4 * MIB + 77, 1000, 1);
        assert_int_equal(w->gets, 10);
        assert_int_equal(metric("lakestream_store_cache_bytes"), (int64_t)(10 * MIB));
        want(w, "k", 4 * MIB - 10, MIB + 20, 1); /* over three blocks, of which one is there */
        assert_int_equal(w->gets, 12);
}

struct racer {
        struct world *w;
        struct ls_thread *thread;
        ls_err result;
};

static void
racer_run(void *arg)
{
        struct racer *r = arg;
        struct ls_slice *got = NULL;

        r->result = ls_store_get(r->w->s, "k", 5000, 2 * MIB, &got);
        ls_slice_unref(got);
}

/* All ask while the one request waits. */
static void
race(struct world *w, struct racer *racers, size_t count, unsigned fail)
{
        pthread_mutex_lock(&w->lock);
        w->gets = 0;
        w->hold = 1;
        w->fail = fail;
        pthread_mutex_unlock(&w->lock);
        for (size_t i = 0; i < count; i++) {
                racers[i].w = w;
                assert_int_equal(ls_thread_start("racer", racer_run, &racers[i], &racers[i].thread),
                                 LS_OK);
        }
        pthread_mutex_lock(&w->lock);
        while (w->held == 0)
                ls_cond_wait(&w->changed, &w->lock);
        w->hold = 0;
        ls_cond_broadcast(&w->changed);
        pthread_mutex_unlock(&w->lock);
        for (size_t i = 0; i < count; i++)
                ls_thread_join(racers[i].thread);
}

static void
test_many_at_once(void **state)
{
        struct world *w = *state;
        struct racer racers[16];

        put(w, "k", 5 * MIB, 1);
        race(w, racers, 16, 0);
        for (size_t i = 0; i < 16; i++)
                assert_int_equal(racers[i].result, LS_OK);
        /* The three blocks asked for, and what was read ahead behind them. */
        assert_true(w->gets <= 2);
        want(w, "k", 5000, 2 * MIB, 1);
}

static void
test_errors_are_not_kept(void **state)
{
        struct world *w = *state;
        struct racer racers[16];
        size_t failed = 0;

        put(w, "k", 3 * MIB, 1);
        race(w, racers, 16, 1);
        for (size_t i = 0; i < 16; i++)
                failed += racers[i].result == LS_ENET;
        assert_true(failed >= 1);
        want(w, "k", 5000, 2 * MIB, 1);
        assert_int_equal(w->fail, 0);
}

/* Less room than one reader would like: the bound holds, all is read. */
static void
test_bound(void **state)
{
        struct world *w = *state;

        put(w, "a", 20 * MIB, 1);
        put(w, "b", 20 * MIB, 2);
        for (size_t at = 0; at < 20 * MIB; at += 300000) {
                size_t len = LS_MIN((size_t)300000, 20 * MIB - at);

                want(w, "a", at, len, 1);
                want(w, "b", at, len, 2);
                assert_true(metric("lakestream_store_cache_bytes") <= (int64_t)(4 * MIB));
        }
        want(w, "a", 0, 16 * MIB, 1); /* more than fits at once */
}

static void
test_replaced_and_deleted(void **state)
{
        struct world *w = *state;
        struct ls_slice *got = NULL;
        struct ls_store_info info;

        put(w, "k", 2 * MIB, 1);
        want(w, "k", 0, 1000, 1);
        put(w, "k", 3 * MIB, 2);
        want(w, "k", 0, 1000, 2);
        want(w, "k", 3 * MIB - 5, 5, 2);
        assert_int_equal(ls_store_head(w->s, "k", &info), LS_OK);
        assert_int_equal(ls_store_put_if_match(w->s, "k", info.etag, ls_span_of("new", 3)), LS_OK);
        assert_int_equal(ls_store_get(w->s, "k", 0, 1000, &got), LS_OUT_OF_RANGE);
        assert_int_equal(ls_store_delete(w->s, "k"), LS_OK);
        assert_int_equal(ls_store_get(w->s, "k", 0, 3, &got), LS_ABSENT);
        put(w, "l", MIB, 1);
        want(w, "l", 0, 10, 1);
        assert_int_equal(ls_store_delete_many(w->s, (const char *const[]){ "l" }, 1, NULL), LS_OK);
        assert_int_equal(ls_store_get(w->s, "l", 0, 10, &got), LS_ABSENT);
        assert_int_equal(metric("lakestream_store_cache_bytes"), 0);
}

struct roamer {
        struct world *w;
        struct ls_thread *thread;
        uint64_t seed;
};

static void
roamer_run(void *arg)
{
        struct roamer *r = arg;
        uint64_t x = r->seed;

        for (int i = 0; i < 400; i++) {
                char key[8];
                size_t pos, len;

                x = x * 6364136223846793005u + 1442695040888963407u;
                snprintf(key, sizeof key, "k%u", (unsigned)(x >> 60 & 3));
                pos = (size_t)(x >> 20 & 0x7fffff);
                len = 1 + (size_t)(x >> 40 & 0xfffff);
                want(r->w, key, pos, LS_MIN(len, 9 * MIB - pos), (uint8_t)(x >> 60 & 3));
                if (i % 50 == 7)
                        for (size_t at = 0; at < 9 * MIB; at += MIB / 2)
                                want(r->w, key, at, MIB / 2, (uint8_t)(x >> 60 & 3));
        }
}

/* Many readers everywhere in less room than they want. */
static void
test_roaming(void **state)
{
        struct world *w = *state;
        struct roamer r[6];

        for (uint8_t i = 0; i < 4; i++)
                put(w, (char[]){ 'k', (char)('0' + i), '\0' }, 9 * MIB, i);
        for (size_t i = 0; i < LS_COUNT(r); i++) {
                r[i] = (struct roamer){ .w = w, .seed = i + 1 };
                assert_int_equal(ls_thread_start("roamer", roamer_run, &r[i], &r[i].thread), LS_OK);
        }
        for (size_t i = 0; i < LS_COUNT(r); i++)
                ls_thread_join(r[i].thread);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test_setup_teardown(test_front_to_back, setup, teardown),
                cmocka_unit_test_setup_teardown(test_here_and_there, setup, teardown),
                cmocka_unit_test_setup_teardown(test_many_at_once, setup, teardown),
                cmocka_unit_test_setup_teardown(test_errors_are_not_kept, setup, teardown),
                cmocka_unit_test_setup_teardown(test_bound, setup_small, teardown),
                cmocka_unit_test_setup_teardown(test_replaced_and_deleted, setup, teardown),
                cmocka_unit_test_setup_teardown(test_roaming, setup_small, teardown),
        };

        return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
