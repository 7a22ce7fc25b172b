/* cli/cli_test.c - proves flags, the partitioner, and that the Kafka and HTTP clients end with
 * words, whatever a server sends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include <cmocka.h>

#include "cli/cli.h"
#include "cli/http_client.h"
#include "cli/kafka_client.h"
#include "sys/loop.h"

/* --- flags --- */

struct values {
        const char *text;
        int64_t number;
        bool yes;
        struct cli_list list;
};

static bool
parse(struct values *v, struct cli_args *args, int argc, const char *const *argv)
{
        const struct cli_flag flags[] = {
                { "text", CLI_TEXT, &v->text, "T", "", 0, 0 },
                { "number", CLI_INT, &v->number, "N", "", 1, 10 },
                { "yes", CLI_BOOL, &v->yes, NULL, "", 0, 0 },
                { "list", CLI_LIST, &v->list, "L", "", 0, 0 },
        };

        return cli_args_parse(argc, (char **)argv, flags, LS_COUNT(flags), "usage", args);
}

#define PARSE(...)                                                         \
        parse(&v, &args, (int)LS_COUNT(((const char *[]){ __VA_ARGS__ })), \
              (const char *[]){ __VA_ARGS__ })

static void
test_flags(void **state)
{
        struct values v = { 0 };
        struct cli_args args;

        assert_true(PARSE("one", "--text", "a b", "--number=7", "--yes", "--list", "x",
                          "--list=y=z", "two", "--", "--text"));
        assert_string_equal(v.text, "a b");
        assert_int_equal(v.number, 7);
        assert_true(v.yes);
        assert_int_equal(v.list.count, 2);
        assert_string_equal(v.list.items[1], "y=z");
        assert_int_equal(args.words.count, 3);
        assert_string_equal(args.words.items[2], "--text");
        cli_args_done(&args);
        assert_true(PARSE("--yes=false", "--text="));
        assert_false(v.yes);
        assert_string_equal(v.text, "");
        cli_args_done(&args);
        cli_list_done(&v.list);
}

static const struct cli_verb verbs[] = { { "list", NULL, "" }, { "describe", NULL, "" } };

/* What goes to standard error while `argv` is dispatched. */
static void
dispatch_errors(const char *word, char *ret, size_t bytes)
{
        FILE *file = tmpfile(), *before = stderr;
        size_t len;

        assert_non_null(file);
        stderr = file;
        assert_int_equal(cli_dispatch("topic", verbs, LS_COUNT(verbs), 1,
                                      (char *[]){ (char *)(uintptr_t)word, NULL }),
                         CLI_USAGE);
        stderr = before;
        rewind(file);
        len = fread(ret, 1, bytes - 1, file);
        ret[len] = '\0';
        fclose(file);
}

static void
test_unknown_command_names_the_nearest(void **state)
{
        char text[1024];

        dispatch_errors("lsit", text, sizeof text);
        assert_non_null(strstr(text, "no command 'topic lsit'; did you mean 'topic list'?"));
        dispatch_errors("desc", text, sizeof text);
        assert_non_null(strstr(text, "did you mean 'topic describe'?"));
        dispatch_errors("rename", text, sizeof text);
        assert_null(strstr(text, "did you mean"));
}

static void
test_flag_refusals(void **state)
{
        struct values v = { 0 };
        struct cli_args args;

        assert_false(PARSE("--none"));
        cli_args_done(&args);
        assert_false(PARSE("--number", "0"));
        cli_args_done(&args);
        assert_false(PARSE("--number", "11"));
        cli_args_done(&args);
        assert_false(PARSE("--number", "1x"));
        cli_args_done(&args);
        assert_false(PARSE("word", "--text"));
        cli_args_done(&args);
        assert_false(PARSE("--yes=maybe"));
        cli_args_done(&args);
        assert_false(PARSE("--tex", "a"));
        cli_args_done(&args);
}

/* --- the partitioner --- */

/* Values of Apache Kafka's own unit test of its murmur2. */
static void
test_partition_of_key(void **state)
{
        static const struct {
                const char *key;
                int32_t hash;
        } known[] = { { "21", -973932308 },
                      { "foobar", -790332482 },
                      { "a-little-bit-long-string", -985981536 },
                      { "a-little-bit-longer-string", -1486304829 },
                      { "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971 },
                      { "abc", 479470107 } };

        for (size_t i = 0; i < LS_COUNT(known); i++) {
                int32_t positive = known[i].hash & 0x7fffffff;
                ls_span key = ls_span_of(known[i].key, strlen(known[i].key));

                assert_int_equal(kafka_partition_of_key(key, INT32_MAX), positive % INT32_MAX);
                assert_int_equal(kafka_partition_of_key(key, 7), positive % 7);
                assert_int_equal(kafka_partition_of_key(key, 1), 0);
        }
}

static void
test_http_path(void **state)
{
        char *path = http_path("/a/", "b c/%.~\xc3\xa9", "/d?e=f");

        assert_string_equal(path, "/a/b%20c%2F%25.~%C3%A9/d?e=f");
        ls_free(path);
}

/* --- servers that are none --- */

struct fake {
        struct ls_loop *loop;
        struct ls_listener *listener;
        uint16_t port;
        /* Written between requests, read by the loop. */
        _Atomic(const char *) answer; /* sent once the first bytes came; then it closes */
        atomic_size_t len;
};

static void *
fake_accept(void *server, struct ls_conn *conn)
{
        return server;
}

static void
fake_on_bytes(void *ctx, struct ls_conn *conn, const uint8_t *bytes, size_t len)
{
        struct fake *f = ctx;
        struct ls_slice *slice = ls_slice_copy(ls_span_of(f->answer, f->len));

        ls_conn_write(conn, &slice, 1);
        ls_conn_close(conn, true);
}

static void
fake_on_close(void *ctx, struct ls_conn *conn, ls_err why)
{
}

static const struct ls_conn_ops fake_ops = { .accept = fake_accept,
                                             .on_bytes = fake_on_bytes,
                                             .on_close = fake_on_close };

static int
setup(void **state)
{
        struct fake *f = ls_calloc(1, sizeof *f);

        *state = f;
        if (ls_loop_start("fake", &f->loop) != LS_OK)
                return -1;
        return ls_listen(&f->loop, 1, "127.0.0.1", 0, &fake_ops, f, &f->listener, &f->port, NULL);
}

static int
teardown(void **state)
{
        struct fake *f = *state;

        ls_listener_close(f->listener);
        ls_loop_stop(f->loop);
        ls_free(f);
        return 0;
}

static void
test_kafka_noise(void **state)
{
        static const struct {
                const char *bytes;
                size_t len;
        } answers[] = {
                { "", 0 },
                { "\0\0\0", 3 },                                    /* no whole length */
                { "\0\0\0\x10half", 8 },                            /* no whole frame */
                { "\xff\xff\xff\xff", 4 },                          /* longer than anything */
                { "\0\0\0\0", 4 },                                  /* no header */
                { "\0\0\0\x04\0\0\0\x01", 8 },                      /* no body */
                { "\0\0\0\x0a\0\0\0\x02\0\0\0\0\0\0", 14 },         /* another request's */
                { "\0\0\0\x0a\0\0\0\x01\0\0\x7f\xff\xff\xff", 14 }, /* a count that cannot be */
                { "\0\0\0\x0a\0\0\0\x01\0\x23\0\0\0\0", 14 }, /* refused: UNSUPPORTED_VERSION */
                { "HTTP/1.1 400 Bad Request\r\n\r\n", 28 },
        };
        struct fake *f = *state;
        char address[32];

        snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)f->port);
        for (size_t i = 0; i < LS_COUNT(answers); i++) {
                struct kafka_client *client = NULL;
                struct ls_errinfo info = { "" };

                f->answer = answers[i].bytes;
                f->len = answers[i].len;
                assert_int_not_equal(kafka_open(address, &client, &info), LS_OK);
                assert_null(client);
                assert_non_null(strstr(info.text, "--bootstrap"));
        }
}

static void
test_http_noise(void **state)
{
        static const char absent[] = "HTTP/1.1 404 X\r\nContent-Length: "
                                     "34\r\n\r\n{\"error\":{\"message\":\"words here\"}}";
        static const char refused[] = "HTTP/1.1 406 X\r\nContent-Length: "
                                      "34\r\n\r\n{\"error\":{\"message\":\"words here\"}}";
        static const char *const answers[] = {
                "",
                "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{}",
                "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{",
                "HTTP/1.1 500 X\r\nContent-Length: 2\r\n\r\n{}",
                "\x7f",
                "HTTP/1.1 404 X\r\nContent-Length: 0\r\n\r\n",
        };
        struct fake *f = *state;
        char address[32];

        snprintf(address, sizeof address, "127.0.0.1:%u", (unsigned)f->port);
        for (size_t i = 0; i < LS_COUNT(answers); i++) {
                struct ls_errinfo info = { "" };
                json_t *json = NULL;

                f->answer = answers[i];
                f->len = strlen(answers[i]);
                assert_int_not_equal(http_ask(address, "GET", "/x", &json, &info), LS_OK);
                assert_null(json);
                assert_int_not_equal(info.text[0], '\0');
        }
        f->answer = refused;
        f->len = strlen(f->answer);
        struct ls_errinfo info = { "" };
        json_t *json = NULL;
        assert_int_equal(http_ask(address, "GET", "/x", &json, &info), LS_DENIED);
        assert_string_equal(info.text, "words here");
        f->answer = absent;
        assert_int_equal(http_ask(address, "GET", "/x", &json, &info), LS_ABSENT);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_flags),
                cmocka_unit_test(test_flag_refusals),
                cmocka_unit_test(test_unknown_command_names_the_nearest),
                cmocka_unit_test(test_partition_of_key),
                cmocka_unit_test(test_http_path),
                cmocka_unit_test_setup_teardown(test_kafka_noise, setup, teardown),
                cmocka_unit_test_setup_teardown(test_http_noise, setup, teardown),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
