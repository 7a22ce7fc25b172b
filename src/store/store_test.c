/* store/store_test.c - the contract of store.h, the same tests against every back end: local,
 * mem, cache over mem, fault over each of them with a script that lets all pass, and, with "s3",
 * "azure" or "gcs" and an address as arguments, a real server there (tests/conform/s3, azure, gcs).
 * It proves: what is put is read back whole and in ranges, and no byte past the end; conditional
 * writes refuse with the right outcome, also when eight threads race; lists are in byte order,
 * paged, and complete; deletes may be repeated; uploads in parts are invisible until they end; bad
 * keys are refused by every call; the probe leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/store.h"
#include "sys/jobs.h"
#include "sys/tree.h"

struct world {
        struct ls_store *s;     /* under test */
        struct ls_store *inner; /* below fault, or NULL */
        char dir[64];
};

static bool with_local, with_fault, with_cache; /* which back end this run is for */
#define CACHE_BYTES ((uint64_t)4 << 20)

/* A service that speaks HTTP. */
struct service {
        const char *name;
        ls_err (*open)(const char *prefix, struct ls_store **ret_store, struct ls_errinfo *reterr);
        size_t tests_not; /* of those at the end */
};
static const struct service *with_service;
static const char *with_address;

static ls_err
s3_open(const char *prefix, struct ls_store **ret_store, struct ls_errinfo *reterr)
{
        struct ls_store_s3_options options = { LS_STORE_S3_DEFAULTS };

        options.bucket = "lake";
        options.prefix = prefix;
        options.endpoint = with_address;
        options.region = "us-east-1";
        options.access = "testak";
        options.secret = "testsk";
        return ls_store_s3_open(&options, ret_store, reterr);
}

/* Account and key of the emulator, known to all (docs of Azurite). */
static ls_err
azure_open(const char *prefix, struct ls_store **ret_store, struct ls_errinfo *reterr)
{
        struct ls_store_azure_options options = { LS_STORE_AZURE_DEFAULTS };

        options.container = "lake";
        options.prefix = prefix;
        options.endpoint = with_address;
        options.account = "devstoreaccount1";
        options.key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/"
                      "KBHBeksoGMGw==";
        return ls_store_azure_open(&options, ret_store, reterr);
}

static ls_err
gcs_open(const char *prefix, struct ls_store **ret_store, struct ls_errinfo *reterr)
{
        struct ls_store_gcs_options options = { LS_STORE_GCS_DEFAULTS };

        options.bucket = "lake";
        options.prefix = prefix;
        options.endpoint = with_address;
        return ls_store_gcs_open(&options, ret_store, reterr);
}

static ls_err
service_open(struct ls_store **ret_store, struct ls_errinfo *reterr)
{
        char prefix[64];
        uint64_t random;

        ls_random(&random, sizeof random);
        snprintf(prefix, sizeof prefix, "test/%llx", (unsigned long long)random);
        return with_service->open(prefix, ret_store, reterr);
}

/* Thousands of syncs: in memory where there is such a file system, unless TMPDIR says where. */
static const char *
test_folder(void)
{
        if (getenv("TMPDIR") != NULL)
                return getenv("TMPDIR");
        return access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
}

static int
world_setup(void **state)
{
        struct world *w = ls_calloc(1, sizeof *w);
        struct ls_errinfo words;

        snprintf(w->dir, sizeof w->dir, "%s/ls-store-XXXXXX", test_folder());
        assert_non_null(mkdtemp(w->dir));
        if (with_service != NULL)
                assert_int_equal(service_open(&w->s, &words), LS_OK);
        else if (with_local)
                assert_int_equal(ls_store_local_open(w->dir, &w->s, &words), LS_OK);
        else
                w->s = ls_store_mem_new();
        if (with_fault) {
                w->inner = w->s;
                w->s = ls_store_fault_new(w->inner, NULL, NULL);
        }
        if (with_cache)
                assert_int_equal(ls_store_cache_new(w->s, CACHE_BYTES, &w->s, &words), LS_OK);
        *state = w;
        return 0;
}

static ls_err
remove_on_entry(void *ctx, const struct ls_dir_entry *e)
{
        char *path = ls_format("%s/%s", (const char *)ctx, e->name);

        if (e->is_dir) {
                assert_int_equal(ls_dir_walk(path, remove_on_entry, path), LS_OK);
                assert_int_equal(ls_dir_delete(path), LS_OK);
        } else {
                assert_int_equal(ls_file_delete(path), LS_OK);
        }
        ls_free(path);
        return LS_OK;
}

static ls_err
delete_on_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        return ls_store_delete(ctx, key);
}

static int
world_teardown(void **state)
{
        struct world *w = *state;

        if (with_service != NULL)
                assert_int_equal(ls_store_list(w->s, "", NULL, SIZE_MAX, delete_on_key, w->s),
                                 LS_OK);

        ls_store_close(w->s);
        ls_store_close(w->inner);
        assert_int_equal(ls_dir_walk(w->dir, remove_on_entry, w->dir), LS_OK);
        assert_int_equal(ls_dir_delete(w->dir), LS_OK);
        ls_free(w);
        return 0;
}

static ls_span
span_of(const char *text)
{
        return ls_span_of(text, strlen(text));
}

static void
want_content(struct ls_store *s, const char *key, const char *want)
{
        struct ls_slice *got = NULL;

        assert_int_equal(ls_store_get(s, key, 0, 0, &got), LS_OK);
        assert_int_equal(got->len, strlen(want));
        assert_memory_equal(got->ptr, want, got->len);
        ls_slice_unref(got);
}

/* Lists into text: "a b/c ". */
struct listing {
        char text[8192];
        size_t count;
        size_t stop_after;
        struct ls_store *delete_from;
};

static ls_err
listing_on_key(void *ctx, const char *key, const struct ls_store_info *info)
{
        struct listing *l = ctx;
        size_t len = strlen(l->text);
        struct ls_store_info head;

        if (l->delete_from != NULL) {
                assert_int_equal(ls_store_head(l->delete_from, key, &head), LS_OK);
                assert_int_equal(head.bytes, info->bytes);
                assert_string_equal(head.etag, info->etag);
                assert_true(head.modified_ms == info->modified_ms);
                assert_int_equal(ls_store_delete(l->delete_from, key), LS_OK);
        }
        snprintf(l->text + len, sizeof l->text - len, "%s ", key);
        return ++l->count == l->stop_after ? LS_CANCELED : LS_OK;
}

static void
want_list(struct ls_store *s, const char *prefix, const char *after, size_t count_max,
          const char *want)
{
        struct listing l = { 0 };

        assert_int_equal(ls_store_list(s, prefix, after, count_max, listing_on_key, &l), LS_OK);
        assert_string_equal(l.text, want);
}

/* ---- read and write ---- */

static void
test_put_get(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        struct ls_slice *got = NULL;
        struct ls_store_info info;

        assert_int_equal(ls_store_get(s, "a/b", 0, 0, &got), LS_ABSENT);
        assert_int_equal(ls_store_head(s, "a/b", &info), LS_ABSENT);
        assert_null(got);
        assert_int_equal(ls_store_put(s, "a/b", span_of("hello")), LS_OK);
        want_content(s, "a/b", "hello");
        assert_int_equal(ls_store_head(s, "a/b", &info), LS_OK);
        assert_int_equal(info.bytes, 5);
        assert_true(llabs(info.modified_ms - ls_clock_wall_ms()) < 60000);
        assert_int_equal(ls_store_put(s, "a/b", span_of("other bytes")), LS_OK); /* replaces */
        want_content(s, "a/b", "other bytes");
        assert_int_equal(ls_store_put(s, "empty", LS_SPAN_NULL), LS_OK);
        want_content(s, "empty", "");
        assert_int_equal(ls_store_get(s, "a", 0, 0, &got), LS_ABSENT); /* a folder is none */
        assert_int_equal(ls_store_head(s, "a", &info), LS_ABSENT);
        assert_int_equal(ls_store_get(s, "a/b/c", 0, 0, &got), LS_ABSENT);
}

static void
test_get_ranges(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        struct ls_slice *got = NULL;

        assert_int_equal(ls_store_put(s, "k", span_of("0123456789")), LS_OK);
        for (uint64_t pos = 0; pos <= 12; pos++) {
                for (size_t len = 0; len <= 12; len++) {
                        ls_err e = ls_store_get(s, "k", pos, len, &got);
                        size_t want = len == 0 ? (size_t)(10 - pos) : len;

                        if (pos > 10 || pos + len > 10) {
                                assert_int_equal(e, LS_OUT_OF_RANGE);
                                assert_null(got);
                                continue;
                        }
                        assert_int_equal(e, LS_OK);
                        assert_int_equal(got->len, want);
                        assert_memory_equal(got->ptr, &"0123456789"[pos], want);
                        ls_slice_unref(got);
                        got = NULL;
                }
        }
        assert_int_equal(ls_store_get(s, "k", UINT64_MAX, 1, &got), LS_OUT_OF_RANGE);
        assert_int_equal(ls_store_get(s, "k", 1, SIZE_MAX, &got), LS_OUT_OF_RANGE);
        assert_int_equal(ls_store_get(s, "k", UINT64_MAX, SIZE_MAX, &got), LS_OUT_OF_RANGE);
}

static void
test_large_object(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        size_t bytes = 5 * 1000 * 1000 + 1;
        struct ls_slice *sent = ls_slice_new(bytes), *got = NULL;

        for (size_t i = 0; i < bytes; i++)
                sent->ptr[i] = (uint8_t)(i * 2654435761u >> 13);
        assert_int_equal(ls_store_put(s, "large", ls_slice_span(sent)), LS_OK);
        assert_int_equal(ls_store_get(s, "large", 0, 0, &got), LS_OK);
        assert_true(ls_span_eq(ls_slice_span(sent), ls_slice_span(got)));
        ls_slice_unref(got);
        assert_int_equal(ls_store_get(s, "large", bytes - 1, 1, &got), LS_OK);
        assert_int_equal(got->ptr[0], sent->ptr[bytes - 1]);
        ls_slice_unref(got);
        ls_slice_unref(sent);
}

static void
test_gather(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        ls_span spans[200];
        char want[201] = { 0 };

        for (size_t i = 0; i < 200; i++) {
                want[i] = (char)('a' + i % 26);
                spans[i] = ls_span_of(&want[i], i % 3 == 1 ? 0 : i % 3 == 0 ? 1 : 2);
        }
        /* 0 and 2, 3 and 5 …: each third span is empty, the one after it covers two. */
        spans[199].len = 1;
        assert_int_equal(s->ops->put(s, "gathered", spans, 200), LS_OK);
        {
                struct ls_slice *got = NULL;
                size_t at = 0;

                assert_int_equal(ls_store_get(s, "gathered", 0, 0, &got), LS_OK);
                for (size_t i = 0; i < 200; i++) {
                        assert_true(at + spans[i].len <= got->len);
                        assert_memory_equal(got->ptr + at, spans[i].ptr, spans[i].len);
                        at += spans[i].len;
                }
                assert_int_equal(at, got->len);
                ls_slice_unref(got);
        }
}

/* ---- conditions ---- */

static void
test_put_if_absent(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;

        assert_int_equal(ls_store_put_if_absent(s, "x/y", span_of("1")), LS_OK);
        assert_int_equal(ls_store_put_if_absent(s, "x/y", span_of("2")), LS_EXISTS);
        want_content(s, "x/y", "1");
        assert_int_equal(ls_store_delete(s, "x/y"), LS_OK);
        assert_int_equal(ls_store_put_if_absent(s, "x/y", span_of("3")), LS_OK);
        want_content(s, "x/y", "3");
        want_list(s, "", NULL, 10, "x/y ");
}

static void
test_put_if_match(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        struct ls_store_info first;

        assert_int_equal(ls_store_put_if_match(s, "m", "nothing", span_of("0")), LS_ABSENT);
        assert_int_equal(ls_store_put(s, "m", span_of("same")), LS_OK);
        assert_int_equal(ls_store_head(s, "m", &first), LS_OK);
        assert_int_equal(ls_store_put_if_match(s, "m", "", span_of("0")), LS_EXISTS);
        assert_int_equal(ls_store_put_if_match(s, "m", first.etag, span_of("next")), LS_OK);
        want_content(s, "m", "next");
        assert_int_equal(ls_store_put_if_match(s, "m", first.etag, span_of("0")), LS_EXISTS);
        want_content(s, "m", "next");
        assert_int_equal(ls_store_delete(s, "m"), LS_OK);
        assert_int_equal(ls_store_put_if_match(s, "m", first.etag, span_of("0")), LS_ABSENT);
        want_list(s, "", NULL, 10, "");
}

/* The old content again is another version: no A-B-A. */
static void
test_put_if_match_returns(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        struct ls_store_info first, second;

        assert_int_equal(ls_store_put(s, "m", span_of("same")), LS_OK);
        assert_int_equal(ls_store_head(s, "m", &first), LS_OK);
        assert_int_equal(ls_store_put(s, "m", span_of("next")), LS_OK);
        assert_int_equal(ls_store_put(s, "m", span_of("same")), LS_OK);
        assert_int_equal(ls_store_head(s, "m", &second), LS_OK);
        assert_string_not_equal(first.etag, second.etag);
        assert_int_equal(ls_store_put_if_match(s, "m", first.etag, span_of("0")), LS_EXISTS);
        /* Also when it was away meanwhile. */
        assert_int_equal(ls_store_delete(s, "m"), LS_OK);
        assert_int_equal(ls_store_put_if_match(s, "m", second.etag, span_of("0")), LS_ABSENT);
        assert_int_equal(ls_store_put(s, "m", span_of("same")), LS_OK);
        assert_int_equal(ls_store_put_if_match(s, "m", second.etag, span_of("0")), LS_EXISTS);
        want_content(s, "m", "same");
}

static void
test_etags_differ(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        char etags[100][LS_STORE_ETAG_BYTES];

        for (int i = 0; i < 100; i++) {
                struct ls_store_info info;

                assert_int_equal(ls_store_put(s, "e", span_of("same")), LS_OK);
                assert_int_equal(ls_store_head(s, "e", &info), LS_OK);
                memcpy(etags[i], info.etag, sizeof info.etag);
                for (int k = 0; k < i; k++)
                        assert_string_not_equal(etags[k], etags[i]);
        }
}

/* ---- races ---- */

enum { RACERS = 8, ROUNDS = 40 };
struct race {
        struct ls_store *s;
        unsigned won[ROUNDS][RACERS]; /* [round][racer] */
};
struct racer {
        struct race *race;
        unsigned index;
        struct ls_thread *thread;
        unsigned errors, done;
};

static void
race_run(struct ls_store *s, struct race *race, void (*fn)(void *arg))
{
        struct racer racers[RACERS];

        memset(race, 0, sizeof *race);
        race->s = s;
        for (unsigned i = 0; i < RACERS; i++) {
                racers[i] = (struct racer){ .race = race, .index = i };
                assert_int_equal(ls_thread_start("racer", fn, &racers[i], &racers[i].thread),
                                 LS_OK);
        }
        for (unsigned i = 0; i < RACERS; i++) {
                ls_thread_join(racers[i].thread);
                assert_int_equal(racers[i].errors, 0);
        }
}

static void
race_if_absent(void *arg)
{
        struct racer *r = arg;

        for (unsigned i = 0; i < ROUNDS; i++) {
                char key[32], value[32];
                ls_err e;

                snprintf(key, sizeof key, "race/%u/%u", i % 7, i);
                snprintf(value, sizeof value, "%u", r->index);
                e = ls_store_put_if_absent(r->race->s, key, span_of(value));
                if (e == LS_UNKNOWN_OUTCOME) {
                        struct ls_slice *got = NULL;

                        e = LS_EXISTS;
                        if (ls_store_get(r->race->s, key, 0, 0, &got) != LS_OK)
                                r->errors++;
                        else if (ls_span_eq(ls_slice_span(got), span_of(value)))
                                e = LS_OK;
                        ls_slice_unref(got);
                }
                r->race->won[i][r->index] = e == LS_OK;
                r->errors += e != LS_OK && e != LS_EXISTS;
        }
}

static void
test_race_if_absent(void **state)
{
        static struct race race;
        struct ls_store *s = ((struct world *)*state)->s;

        race_run(s, &race, race_if_absent);
        for (unsigned i = 0; i < ROUNDS; i++) {
                char key[32], value[32];
                unsigned winners = 0, winner = 0;

                for (unsigned k = 0; k < RACERS; k++) {
                        winners += race.won[i][k];
                        winner = race.won[i][k] ? k : winner;
                }
                assert_int_equal(winners, 1);
                snprintf(key, sizeof key, "race/%u/%u", i % 7, i);
                snprintf(value, sizeof value, "%u", winner);
                want_content(s, key, value);
        }
}

/* What is there now, into RACERS bytes. */
static bool
counts_read(struct ls_store *s, uint8_t *ret_counts)
{
        struct ls_slice *got = NULL;

        if (ls_store_get(s, "count", 0, RACERS, &got) != LS_OK)
                return false;
        memcpy(ret_counts, got->ptr, RACERS);
        ls_slice_unref(got);
        return true;
}

/* Each adds 1 to its own count, a byte of the same object, ROUNDS times with if-match; no addition
 * may be lost. An outcome that is not known is settled by looking: only the racer itself changes
 * its byte. */
static void
race_if_match(void *arg)
{
        struct racer *r = arg;

        while (r->done < ROUNDS && r->errors == 0) {
                uint8_t counts[RACERS] = { 0 };
                struct ls_store_info info;
                ls_err e;

                if (ls_store_head(r->race->s, "count", &info) != LS_OK ||
                    !counts_read(r->race->s, counts)) {
                        r->errors++;
                        return;
                }
                r->errors += counts[r->index] != r->done;
                counts[r->index]++;
                e = ls_store_put_if_match(r->race->s, "count", info.etag,
                                          ls_span_of(counts, RACERS));
                if (e == LS_UNKNOWN_OUTCOME && counts_read(r->race->s, counts))
                        e = counts[r->index] > r->done ? LS_OK : LS_EXISTS;
                r->done += e == LS_OK;
                r->errors += e != LS_OK && e != LS_EXISTS;
        }
}

static void
test_race_if_match(void **state)
{
        static struct race race;
        struct ls_store *s = ((struct world *)*state)->s;
        uint8_t counts[RACERS] = { 0 };

        assert_int_equal(ls_store_put(s, "count", ls_span_of(counts, RACERS)), LS_OK);
        race_run(s, &race, race_if_match);
        assert_true(counts_read(s, counts));
        for (int i = 0; i < RACERS; i++)
                assert_int_equal(counts[i], ROUNDS);
}

/* Puts and deletes in folders that come and go with their only file. */
static void
race_folders(void *arg)
{
        struct racer *r = arg;

        for (unsigned i = 0; i < ROUNDS; i++) {
                char key[32];
                struct ls_slice *got = NULL;
                ls_err e;

                snprintf(key, sizeof key, "f/%u/g/%u", i % 2, r->index);
                r->errors += ls_store_put(r->race->s, key, span_of("v")) != LS_OK;
                e = ls_store_get(r->race->s, key, 0, 0, &got);
                r->errors += e != LS_OK;
                ls_slice_unref(got);
                r->errors += ls_store_delete(r->race->s, key) != LS_OK;
                r->errors += ls_store_get(r->race->s, key, 0, 0, &got) != LS_ABSENT;
        }
}

static void
test_race_folders(void **state)
{
        static struct race race;
        struct ls_store *s = ((struct world *)*state)->s;

        race_run(s, &race, race_folders);
        want_list(s, "", NULL, 10, "");
        assert_int_equal(ls_store_put(s, "f", span_of("no folder is left")), LS_OK);
}

/* ---- list ---- */

static void
put_keys(struct ls_store *s, const char *const *keys, size_t count)
{
        for (size_t i = 0; i < count; i++)
                assert_int_equal(ls_store_put(s, keys[i], span_of("x")), LS_OK);
}

static void
test_list_order(void **state)
{
        /* '%' '+' '-' '.' sort before '/', letters and digits after. */
        static const char *const keys[] = {
                "b",    "a/z",  "a/b/c", "a/b.c", "a.x",  "a-/q", "a0",
                "a/b0", "a%/1", "a+",    "A",     "a/b-", "_",    "a=/1"
        };
        struct ls_store *s = ((struct world *)*state)->s;

        want_list(s, "", NULL, 100, "");
        put_keys(s, keys, LS_COUNT(keys));
        want_list(s, "", NULL, 100, "A _ a%/1 a+ a-/q a.x a/b- a/b.c a/b/c a/b0 a/z a0 a=/1 b ");
        want_list(s, "a/", NULL, 100, "a/b- a/b.c a/b/c a/b0 a/z ");
        want_list(s, "a/b", NULL, 100, "a/b- a/b.c a/b/c a/b0 ");
        want_list(s, "a/b/", NULL, 100, "a/b/c ");
        want_list(s, "a/b/c", NULL, 100, "a/b/c ");
        want_list(s, "a/b/cd", NULL, 100, "");
        want_list(s, "a.", NULL, 100, "a.x ");
        want_list(s, "zz/y", NULL, 100, "");
        want_list(s, "b/", NULL, 100, "");
        want_list(s, "a", "a-/q", 100, "a.x a/b- a/b.c a/b/c a/b0 a/z a0 a=/1 ");
        want_list(s, "a/", "a/b", 100, "a/b- a/b.c a/b/c a/b0 a/z ");
        want_list(s, "a/", "a/b/", 3, "a/b/c a/b0 a/z ");
        want_list(s, "a/", "a/b/c", 1, "a/b0 ");
        want_list(s, "a/", "0", 1, "a/b- ");
        want_list(s, "a/", "zzz", 100, "");
        want_list(s, "", NULL, 0, "");
}

static void
test_list_pages(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        char *keys[97];
        size_t total = 0;
        char after[64] = { 0 };

        for (size_t i = 0; i < LS_COUNT(keys); i++)
                keys[i] = ls_format("p%zu/%zu/%zu", i % 3, i % 5, i);
        put_keys(s, (const char *const *)keys, LS_COUNT(keys));
        for (;;) {
                struct listing l = { 0 };
                char *last, *previous = after;

                assert_int_equal(
                        ls_store_list(s, "p", total == 0 ? NULL : after, 10, listing_on_key, &l),
                        LS_OK);
                if (l.count == 0)
                        break;
                total += l.count;
                l.text[strlen(l.text) - 1] = '\0';
                for (char *rest = l.text; (last = strsep(&rest, " ")) != NULL; previous = last)
                        assert_true(strcmp(last, previous) > 0);
                snprintf(after, sizeof after, "%s", previous);
        }
        assert_int_equal(total, LS_COUNT(keys));
        for (size_t i = 0; i < LS_COUNT(keys); i++)
                ls_free(keys[i]);
}

static void
test_list_stop_and_delete_inside(void **state)
{
        static const char *const keys[] = { "d/1", "d/2", "d/3", "d/4/5", "e" };
        struct ls_store *s = ((struct world *)*state)->s;
        struct listing l = { .stop_after = 2 };

        put_keys(s, keys, LS_COUNT(keys));
        assert_int_equal(ls_store_list(s, "", NULL, 100, listing_on_key, &l), LS_CANCELED);
        assert_string_equal(l.text, "d/1 d/2 ");
        l = (struct listing){ .delete_from = s };
        assert_int_equal(ls_store_list(s, "d", NULL, 100, listing_on_key, &l), LS_OK);
        assert_string_equal(l.text, "d/1 d/2 d/3 d/4/5 ");
        want_list(s, "", NULL, 100, "e ");
}

/* ---- delete ---- */

static void
test_delete(void **state)
{
        static const char *const keys[] = { "a/1", "a/2", "b/1", "b/1/never", "none", "c" };
        struct ls_store *s = ((struct world *)*state)->s;
        size_t failed = 7;

        assert_int_equal(ls_store_delete(s, "never"), LS_OK);
        assert_int_equal(ls_store_delete(s, "never/was"), LS_OK);
        put_keys(s, (const char *const[]){ "a/1", "a/2", "a/3", "b/1", "c" }, 5);
        assert_int_equal(ls_store_delete(s, "a"), LS_OK); /* a folder is no object */
        assert_int_equal(ls_store_delete_many(s, keys, LS_COUNT(keys), &failed), LS_OK);
        assert_int_equal(failed, 0);
        want_list(s, "", NULL, 100, "a/3 ");
        assert_int_equal(ls_store_delete_many(s, keys, LS_COUNT(keys), NULL), LS_OK);
        assert_int_equal(ls_store_delete_many(s, NULL, 0, &failed), LS_OK);
        assert_int_equal(failed, 0);
        /* One bad key: none goes. */
        assert_int_equal(ls_store_delete_many(s, (const char *const[]){ "a/3", "../x" }, 2, NULL),
                         LS_INVALID);
        want_list(s, "", NULL, 100, "a/3 ");
}

/* ---- keys ---- */

static void
want_refused(struct ls_store *s, const char *key)
{
        struct ls_slice *got = NULL;
        struct ls_store_info info;
        struct ls_store_writer *writer = NULL;

        assert_false(ls_store_key_ok(key));
        assert_int_equal(ls_store_put(s, key, span_of("x")), LS_INVALID);
        assert_int_equal(ls_store_put_if_absent(s, key, span_of("x")), LS_INVALID);
        assert_int_equal(ls_store_put_if_match(s, key, "x", span_of("x")), LS_INVALID);
        assert_int_equal(ls_store_get(s, key, 0, 0, &got), LS_INVALID);
        assert_int_equal(ls_store_head(s, key, &info), LS_INVALID);
        assert_int_equal(ls_store_delete(s, key), LS_INVALID);
        assert_int_equal(ls_store_writer_open(s, key, &writer), LS_INVALID);
        assert_null(got);
        assert_null(writer);
}

static void
test_bad_keys(void **state)
{
        static const char *const bad[] = {
                "",      "/",          "/a",   "a/",   "a//b",        ".",     "..",
                "a/..",  "a/.",        "./a",  "../a", "a/../b",      "a/./b", "a b",
                "a\tb",  "a\nb",       "a\\b", "a:b",  "a*",          "a?",    "~",
                ".tmp~", ".tmp~/open", "a\"b", "a'b",  "a<b",         "a|b",   "a#b",
                "a&b",   "a;b",        "a$b",  "\x80", "caf\xc3\xa9", "a\x01", "a\x7f",
                "a,b",   "a@b",        "a!b",  "a(b)", "a[b]",        "a{b}",
        };
        struct ls_store *s = ((struct world *)*state)->s;
        char *text = ls_malloc(2000);
        struct listing l = { 0 };

        for (size_t i = 0; i < LS_COUNT(bad); i++)
                want_refused(s, bad[i]);
        memset(text, 'a', 1999);
        text[256] = '\0';
        want_refused(s, text); /* one level of 256 */
        for (size_t i = 100; i < 1999; i += 100)
                text[i] = '/';
        text[256] = 'a';
        text[901] = '\0';
        want_refused(s, text);
        text[899] = 'a';
        text[900] = '\0'; /* 900 is the most: it is taken */
        assert_true(ls_store_key_ok(text));
        assert_int_equal(ls_store_put(s, text, span_of("long")), LS_OK);
        want_content(s, text, "long");
        assert_int_equal(ls_store_list(s, "", NULL, 10, listing_on_key, &l), LS_OK);
        assert_int_equal(l.count, 1);
        assert_int_equal(strlen(l.text), 901);
        memset(text, 'b', 255);
        text[255] = '\0'; /* 255 is the most for a level */
        assert_int_equal(ls_store_put(s, text, span_of("wide")), LS_OK);
        want_content(s, text, "wide");
        ls_free(text);

        assert_int_equal(ls_store_list(s, "../", NULL, 10, listing_on_key, &l), LS_INVALID);
        assert_int_equal(ls_store_list(s, "/", NULL, 10, listing_on_key, &l), LS_INVALID);
        assert_int_equal(ls_store_list(s, "a//", NULL, 10, listing_on_key, &l), LS_INVALID);
        assert_int_equal(ls_store_list(s, "a/../b", NULL, 10, listing_on_key, &l), LS_INVALID);
        assert_int_equal(ls_store_list(s, ".tmp~", NULL, 10, listing_on_key, &l), LS_INVALID);
        want_list(s, "..", NULL, 10, ""); /* "..a" would be a key */
}

static void
test_good_keys(void **state)
{
        static const char *const good[] = { "...",     "..a",    ".a",     "a..",     "-",   "%",
                                            "a=b/c+d", "_/-/.=", ".tmp/x", "lock-01", "open" };
        struct ls_store *s = ((struct world *)*state)->s;

        put_keys(s, good, LS_COUNT(good));
        for (size_t i = 0; i < LS_COUNT(good); i++)
                want_content(s, good[i], "x");
        want_list(s, "", NULL, 100, "% - ... ..a .a .tmp/x _/-/.= a.. a=b/c+d lock-01 open ");
}

/* A key that is a folder of another is refused and changes nothing. */
static void
test_key_and_folder(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;

        put_keys(s, (const char *const[]){ "a/b/c" }, 1);
        assert_int_equal(ls_store_put(s, "a/b", span_of("y")), LS_INVALID);
        assert_int_equal(ls_store_put(s, "a", span_of("y")), LS_INVALID);
        assert_int_equal(ls_store_put_if_absent(s, "a", span_of("y")), LS_INVALID);
        assert_int_equal(ls_store_put(s, "a/b/c/d", span_of("y")), LS_INVALID);
        assert_int_equal(ls_store_put_if_absent(s, "a/b/c/d/e", span_of("y")), LS_INVALID);
        want_list(s, "", NULL, 10, "a/b/c ");
        assert_int_equal(ls_store_delete(s, "a/b/c"), LS_OK);
        assert_int_equal(ls_store_put(s, "a", span_of("y")), LS_OK);
        want_list(s, "", NULL, 10, "a ");
}

/* ---- upload in parts ---- */

static void
test_writer(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        struct ls_store_writer *w, *w2;
        struct ls_store_info info;

        assert_int_equal(ls_store_writer_open(s, "u/v", &w), LS_OK);
        assert_int_equal(w->write(w, span_of("one ")), LS_OK);
        assert_int_equal(w->write(w, LS_SPAN_NULL), LS_OK);
        assert_int_equal(w->write(w, span_of("two")), LS_OK);
        assert_int_equal(ls_store_head(s, "u/v", &info), LS_ABSENT);
        want_list(s, "", NULL, 10, "");
        assert_int_equal(ls_store_writer_open(s, "u/v", &w2), LS_OK); /* at the same time */
        assert_int_equal(w2->write(w2, span_of("other")), LS_OK);
        assert_int_equal(w->finish(w), LS_OK);
        want_content(s, "u/v", "one two");
        assert_int_equal(w2->finish(w2), LS_EXISTS);
        want_content(s, "u/v", "one two");
        assert_int_equal(ls_store_writer_open(s, "dropped", &w), LS_OK);
        assert_int_equal(w->write(w, span_of("x")), LS_OK);
        w->cancel(w);
        assert_int_equal(ls_store_writer_open(s, "empty", &w), LS_OK);
        assert_int_equal(w->finish(w), LS_OK);
        want_content(s, "empty", "");
        want_list(s, "", NULL, 10, "empty u/v ");
}

/* More than a part: what a back end sends in pieces. */
static void
test_writer_large(void **state)
{
        enum { BYTES = 21 * 1000 * 1000 + 7, PIECE = 1234567 };
        struct ls_store *s = ((struct world *)*state)->s;
        struct ls_slice *sent = ls_slice_new(BYTES), *got = NULL;
        struct ls_store_writer *w, *late, *dropped;

        for (size_t i = 0; i < BYTES; i++)
                sent->ptr[i] = (uint8_t)(i * 2654435761u >> 13);
        assert_int_equal(ls_store_writer_open(s, "large", &w), LS_OK);
        assert_int_equal(ls_store_writer_open(s, "large", &late), LS_OK);
        assert_int_equal(ls_store_writer_open(s, "dropped", &dropped), LS_OK);
        for (size_t at = 0; at < BYTES; at += PIECE) {
                ls_span piece = ls_span_of(sent->ptr + at, LS_MIN((size_t)PIECE, BYTES - at));

                assert_int_equal(w->write(w, piece), LS_OK);
                assert_int_equal(late->write(late, piece), LS_OK);
                assert_int_equal(dropped->write(dropped, piece), LS_OK);
        }
        want_list(s, "", NULL, 10, "");
        assert_int_equal(w->finish(w), LS_OK);
        dropped->cancel(dropped);
        assert_int_equal(late->finish(late), LS_EXISTS);
        want_list(s, "", NULL, 10, "large ");
        assert_int_equal(ls_store_get(s, "large", 0, 0, &got), LS_OK);
        assert_true(ls_span_eq(ls_slice_span(sent), ls_slice_span(got)));
        ls_slice_unref(got);
        ls_slice_unref(sent);
}

static void
test_probe_and_uri(void **state)
{
        struct ls_store *s = ((struct world *)*state)->s;
        struct ls_errinfo words = { { 0 } };
        char *uri;

        assert_int_equal(ls_store_probe(s, &words), LS_OK);
        want_list(s, "", NULL, 10, "");
        uri = ls_store_uri(s, "a/b");
        assert_true(strncmp(uri, s->uri, strlen(s->uri)) == 0);
        assert_string_equal(uri + strlen(s->uri), "/a/b");
        ls_free(uri);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, world_setup, world_teardown)

int
main(int argc, char **argv)
{
        /* Those at the end are not true of all (store.h, ls_store_s3_open and its like). */
        static const struct service services[] = {
                { "s3", s3_open, 3 },
                { "azure", azure_open, 1 },
                { "gcs", gcs_open, 1 },
        };
        const struct CMUnitTest tests[] = {
                TEST(test_put_get),
                TEST(test_get_ranges),
                TEST(test_large_object),
                TEST(test_gather),
                TEST(test_put_if_absent),
                TEST(test_put_if_match),
                TEST(test_race_if_absent),
                TEST(test_race_if_match),
                TEST(test_race_folders),
                TEST(test_list_order),
                TEST(test_list_pages),
                TEST(test_list_stop_and_delete_inside),
                TEST(test_delete),
                TEST(test_bad_keys),
                TEST(test_good_keys),
                TEST(test_writer),
                TEST(test_writer_large),
                TEST(test_probe_and_uri),
                TEST(test_put_if_match_returns),
                TEST(test_etags_differ),
                TEST(test_key_and_folder),
        };
        int failed = 0;

        for (size_t i = 0; argc == 3 && i < LS_COUNT(services); i++) {
                with_service = &services[i];
                with_address = argv[2];
                with_cache = true; /* as a server has it */
                if (strcmp(argv[1], services[i].name) == 0)
                        return _cmocka_run_group_tests(services[i].name, tests,
                                                       LS_COUNT(tests) - services[i].tests_not,
                                                       NULL, NULL);
        }
        if (argc > 1)
                return 2;
        failed += cmocka_run_group_tests_name("mem", tests, NULL, NULL);
        with_cache = true;
        failed += cmocka_run_group_tests_name("cache over mem", tests, NULL, NULL);
        with_cache = false;
        with_fault = true;
        failed += cmocka_run_group_tests_name("fault over mem", tests, NULL, NULL);
        with_local = true;
        failed += cmocka_run_group_tests_name("fault over local", tests, NULL, NULL);
        with_fault = false;
        failed += cmocka_run_group_tests_name("local", tests, NULL, NULL);
        return failed;
}
