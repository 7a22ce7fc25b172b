/* base/options_test.c - proves: where a setting comes from decides, in the order that options.h
 * says; what is not a setting or not a value of it is refused with words that help; the table is
 * consistent, and its help is itself a configuration file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "base/near.h"
#include "base/options.h"

static ls_err
set(struct ls_options *o, const char *name, const char *value, enum ls_option_source source,
    struct ls_errinfo *info)
{
        return ls_options_set(o, ls_str_of(name), ls_str_of(value), source, info);
}

static void
test_precedence(void **state)
{
        char variable[] = "LAKESTREAM_NUM_PARTITIONS=3", other[] = "LAKESTREAM_CACHE=/x",
             foreign[] = "PATH=/bin", none[] = "LAKESTREAM_NO_VALUE";
        char *environment[] = { foreign, other, none, variable, NULL };
        struct ls_options o;

        ls_options_init(&o);
        assert_int_equal(ls_option_int(&o, LS_OPT_NUM_PARTITIONS), 1);
        assert_int_equal(o.sources[LS_OPT_NUM_PARTITIONS], LS_OPTION_DEFAULT);
        assert_int_equal(ls_options_parse(&o, LS_STR("num.partitions = 2"), NULL), LS_OK);
        assert_int_equal(ls_option_int(&o, LS_OPT_NUM_PARTITIONS), 2);
        assert_int_equal(ls_options_env(&o, environment, NULL), LS_OK);
        assert_int_equal(ls_option_int(&o, LS_OPT_NUM_PARTITIONS), 3);
        assert_int_equal(set(&o, "num.partitions", "4", LS_OPTION_FLAG, NULL), LS_OK);
        assert_int_equal(ls_option_int(&o, LS_OPT_NUM_PARTITIONS), 4);
        /* a weaker source that comes later changes nothing */
        assert_int_equal(ls_options_env(&o, environment, NULL), LS_OK);
        assert_int_equal(ls_options_parse(&o, LS_STR("num.partitions = 2"), NULL), LS_OK);
        assert_int_equal(ls_option_int(&o, LS_OPT_NUM_PARTITIONS), 4);
        assert_int_equal(o.sources[LS_OPT_NUM_PARTITIONS], LS_OPTION_FLAG);
        assert_int_equal(set(&o, "num.partitions", "5", LS_OPTION_FLAG, NULL), LS_OK);
        assert_int_equal(ls_option_int(&o, LS_OPT_NUM_PARTITIONS), 5);
        ls_options_done(&o);
}

static void
test_file(void **state)
{
        static const char text[] = "# a comment\n"
                                   "\n"
                                   "\twal.sync=off  \r\n"
                                   "  broker.rack = a = b # not a comment\n"
                                   "num.partitions = 7\n"
                                   "num.partitions = 8\n"
                                   "advertise =\n"
                                   "auto.create.topics.enable = false";
        struct ls_errinfo info;
        struct ls_options o;

        ls_options_init(&o);
        assert_int_equal(ls_options_parse(&o, ls_str_of(text), &info), LS_OK);
        assert_string_equal(ls_option_text(&o, LS_OPT_WAL_SYNC), "off");
        assert_string_equal(ls_option_text(&o, LS_OPT_BROKER_RACK), "a = b # not a comment");
        assert_int_equal(ls_option_int(&o, LS_OPT_NUM_PARTITIONS), 8);
        assert_string_equal(ls_option_text(&o, LS_OPT_ADVERTISE), "");
        assert_false(ls_option_bool(&o, LS_OPT_AUTO_CREATE));
        assert_int_equal(ls_options_parse(&o, LS_STR("\n#\nwal.sync off"), &info), LS_INVALID);
        assert_string_equal(info.text, "line 3: expected `name = value`");
        assert_int_equal(ls_options_parse(&o, LS_STR("wal.sink = off\n"), &info), LS_ABSENT);
        assert_non_null(strstr(info.text, "line 1: there is no setting 'wal.sink'"));
        assert_non_null(strstr(info.text, "did you mean 'wal.sync'"));
        assert_int_equal(ls_options_parse(&o, LS_STR("wal.sync = of"), &info), LS_INVALID);
        assert_non_null(strstr(info.text, "line 1: wal.sync: 'of' is not one of always|off"));
        ls_options_done(&o);
}

static void
test_refusals(void **state)
{
        static const char *const bad[][2] = { { "num.partitions", "" },
                                              { "num.partitions", "0" },
                                              { "num.partitions", "1.5" },
                                              { "num.partitions", "100001" },
                                              { "num.partitions", "99999999999999999999" },
                                              { "auto.create.topics.enable", "yes" },
                                              { "compression.type", "zip" },
                                              { "log.level", "" } };
        struct ls_errinfo info;
        struct ls_options o;

        ls_options_init(&o);
        for (size_t i = 0; i < LS_COUNT(bad); i++) {
                assert_int_equal(set(&o, bad[i][0], bad[i][1], LS_OPTION_FLAG, &info), LS_INVALID);
                assert_memory_equal(info.text, bad[i][0], strlen(bad[i][0]));
        }
        assert_int_equal(set(&o, "num.partitions", "100001", LS_OPTION_FLAG, &info), LS_INVALID);
        assert_non_null(strstr(info.text, "1 to 100000"));
        for (int i = 0; i < LS_OPT_COUNT; i++)
                assert_int_equal(o.sources[i], LS_OPTION_DEFAULT); /* nothing was changed */
        ls_options_done(&o);
}

static void
test_unknown_names(void **state)
{
        char slip[] = "LAKESTREAM_WAL_SINC=off";
        char *environment[] = { slip, NULL };
        struct ls_errinfo info;
        struct ls_options o;

        ls_options_init(&o);
        assert_int_equal(set(&o, "cache.tail.byte", "1", LS_OPTION_FLAG, &info), LS_ABSENT);
        assert_non_null(strstr(info.text, "did you mean 'cache.tail.bytes'"));
        assert_int_equal(set(&o, "kafka.lsiten", "1", LS_OPTION_FLAG, &info), LS_ABSENT);
        assert_non_null(strstr(info.text, "did you mean 'kafka.listen'"));
        assert_int_equal(set(&o, "meta.backup", "1", LS_OPTION_FLAG, &info), LS_ABSENT);
        assert_non_null(strstr(info.text, "did you mean 'meta.backup."));
        assert_int_equal(set(&o, "zookeeper.connect", "1", LS_OPTION_FLAG, &info), LS_ABSENT);
        assert_null(strstr(info.text, "did you mean"));
        assert_non_null(strstr(info.text, "--help-config"));
        assert_int_equal(set(&o, "", "1", LS_OPTION_FLAG, &info), LS_ABSENT);
        assert_int_equal(ls_options_env(&o, environment, &info), LS_ABSENT);
        assert_non_null(strstr(info.text, "did you mean LAKESTREAM_WAL_SYNC"));
        ls_options_done(&o);
}

/* Each default is a value of its setting, names differ, and the help reads back as a file that
 * changes nothing. */
static void
test_help_is_a_file(void **state)
{
        struct ls_options defaults, read;
        struct ls_errinfo info = { "" };
        struct ls_buf help;

        ls_options_init(&defaults);
        ls_options_init(&read);
        ls_buf_init(&help, LS_BUF_MAX_DEFAULT);
        ls_options_help(&help);
        if (ls_options_parse(&read, ls_str_make((const char *)help.ptr, help.len), &info) != LS_OK)
                fail_msg("%s", info.text);
        for (int i = 0; i < LS_OPT_COUNT; i++) {
                assert_int_equal(read.sources[i], LS_OPTION_FILE);
                assert_int_equal(read.ints[i], defaults.ints[i]);
                if (read.texts[i] != NULL)
                        assert_string_equal(read.texts[i], defaults.texts[i]);
                assert_true(strlen(ls_option_defs[i].doc) > 10);
                for (int k = 0; k < i; k++)
                        assert_string_not_equal(ls_option_defs[i].name, ls_option_defs[k].name);
        }
        assert_non_null(strstr(ls_buf_cstr(&help), "\n# bytes, 1048576 to 4294967296\n"
                                                   "wal.segment.bytes = 134217728\n"));
        ls_buf_done(&help);
        ls_options_done(&defaults);
        ls_options_done(&read);
}

static void
test_distance(void **state)
{
        char long_name[LS_NEAR_BYTES_MAX + 2];

        assert_int_equal(ls_near_distance(LS_STR(""), LS_STR("")), 0);
        assert_int_equal(ls_near_distance(LS_STR("abc"), LS_STR("")), 3);
        assert_int_equal(ls_near_distance(LS_STR(""), LS_STR("ab")), 2);
        assert_int_equal(ls_near_distance(LS_STR("kitten"), LS_STR("sitting")), 3);
        assert_int_equal(ls_near_distance(LS_STR("abcd"), LS_STR("acbd")), 1);
        assert_int_equal(ls_near_distance(LS_STR("abcd"), LS_STR("abcd")), 0);
        memset(long_name, 'a', sizeof long_name);
        assert_int_equal(
                ls_near_distance(ls_str_make(long_name, LS_NEAR_BYTES_MAX + 1), LS_STR("a")),
                SIZE_MAX);
        assert_int_equal(ls_near_distance(ls_str_make(long_name, LS_NEAR_BYTES_MAX), LS_STR("a")),
                         LS_NEAR_BYTES_MAX - 1);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_precedence),     cmocka_unit_test(test_file),
                cmocka_unit_test(test_refusals),       cmocka_unit_test(test_unknown_names),
                cmocka_unit_test(test_help_is_a_file), cmocka_unit_test(test_distance),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
