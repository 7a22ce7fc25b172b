/* catalog/catalog_test.c - proves: topic names split so that no two share a table and round-trip;
 * bad names are refused; settings take their defaults from the server, refuse what Kafka refuses,
 * print as Kafka does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "catalog/names.h"
#include "catalog/settings.h"

static void
split_is(const char *topic, const char *want_ns, const char *want_name)
{
        ls_str ns, name;

        ls_topic_name_split(ls_str_of(topic), &ns, &name);
        assert_true(ls_str_is(ns, want_ns));
        assert_true(ls_str_is(name, want_name));
}

static void
test_names_split(void **state)
{
        split_is("orders", "default", "orders");
        split_is("sales.eu.orders", "sales.eu", "orders");
        split_is(".orders", "default", ".orders");
        split_is("orders.", "default", "orders.");
        split_is("a..b", "default", "a..b");
        split_is("default.orders", "default", "default.orders");
        split_is("default.a.b", "default", "default.a.b");
        split_is("defaulted.b", "defaulted", "b");
        split_is("default", "default", "default");
}

static void
test_names_refused(void **state)
{
        char longest[251];

        memset(longest, 'x', sizeof longest);
        assert_int_equal(ls_topic_name_check(ls_str_make(longest, 249), NULL), LS_OK);
        assert_int_equal(ls_topic_name_check(ls_str_make(longest, 250), NULL), LS_INVALID);
        assert_int_equal(ls_topic_name_check(LS_STR(""), NULL), LS_INVALID);
        assert_int_equal(ls_topic_name_check(LS_STR("."), NULL), LS_INVALID);
        assert_int_equal(ls_topic_name_check(LS_STR(".."), NULL), LS_INVALID);
        assert_int_equal(ls_topic_name_check(LS_STR("a/b"), NULL), LS_INVALID);
        assert_int_equal(ls_topic_name_check(LS_STR("a b"), NULL), LS_INVALID);
        assert_int_equal(ls_topic_name_check(ls_str_make("a\0b", 3), NULL), LS_INVALID);
}

static void
test_settings_defaults_come_from_the_server(void **state)
{
        struct ls_options options;
        struct ls_settings s;
        struct ls_buf text;

        ls_options_init(&options);
        assert_int_equal(ls_options_set(&options, LS_STR("log.retention.ms"), LS_STR("1234"),
                                        LS_OPTION_FLAG, NULL),
                         LS_OK);
        ls_settings_init(&s, &options);
        assert_int_equal(s.ints[LS_SET_RETENTION_MS], 1234);
        assert_false(s.is_set[LS_SET_RETENTION_MS]);
        assert_int_equal(ls_settings_set(&s, LS_STR("retention.ms"), LS_STR("-1"), NULL), LS_OK);
        assert_int_equal(s.ints[LS_SET_RETENTION_MS], -1);
        assert_true(s.is_set[LS_SET_RETENTION_MS]);
        ls_buf_init(&text, 1000);
        ls_setting_print(&s, LS_SET_MIN_CLEANABLE_RATIO, &text);
        assert_string_equal(ls_buf_cstr(&text), "0.5");
        ls_buf_done(&text);
        ls_settings_done(&s);
        ls_options_done(&options);
}

/* Every extreme that a server option allows must be a proper default of its setting. */
static void
test_options_fit_settings(void **state)
{
        for (size_t i = 0; i < LS_SET_COUNT; i++) {
                const struct ls_setting_def *d = &ls_setting_defs[i];

                if (d->option < 0 || ls_option_defs[d->option].kind != LS_OPTION_INT)
                        continue;
                assert_true(ls_option_defs[d->option].min >= d->min);
                assert_true(ls_option_defs[d->option].max <= d->max);
        }
}

static void
test_settings_refused(void **state)
{
        struct ls_errinfo info;
        struct ls_settings s;

        ls_settings_init(&s, NULL);
        assert_int_equal(ls_settings_set(&s, LS_STR("no.such"), LS_STR("1"), NULL), LS_ABSENT);
        assert_int_equal(ls_settings_set(&s, LS_STR("retention.ms"), LS_STR("-2"), NULL),
                         LS_INVALID);
        assert_int_equal(ls_settings_set(&s, LS_STR("retention.ms"), LS_STR("x"), NULL),
                         LS_INVALID);
        assert_int_equal(ls_settings_set(&s, LS_STR("cleanup.policy"), LS_STR("compact"), &info),
                         LS_INVALID);
        assert_non_null(strstr(info.text, "not supported yet"));
        assert_int_equal(
                ls_settings_set(&s, LS_STR("cleanup.policy"), LS_STR("delete,compact"), NULL),
                LS_INVALID);
        assert_int_equal(ls_settings_set(&s, LS_STR("cleanup.policy"), LS_STR(" delete "), NULL),
                         LS_OK);
        assert_int_equal(ls_settings_set(&s, LS_STR("compression.type"), LS_STR("brotli"), NULL),
                         LS_INVALID);
        assert_int_equal(
                ls_settings_set(&s, LS_STR("min.cleanable.dirty.ratio"), LS_STR("1.5"), NULL),
                LS_INVALID);
        assert_int_equal(ls_settings_set(&s, LS_STR("preallocate"), LS_STR("yes"), NULL),
                         LS_INVALID);
        ls_settings_done(&s);
}

static void
test_unknown_settings_name_the_nearest(void **state)
{
        struct ls_options options;
        struct ls_settings settings;
        struct ls_errinfo info;

        ls_options_init(&options);
        ls_settings_init(&settings, &options);
        assert_int_equal(ls_settings_set(&settings, LS_STR("retension.ms"), LS_STR("1"), &info),
                         LS_ABSENT);
        assert_string_equal(info.text, "Unknown topic config name: retension.ms (did you mean "
                                       "retention.ms?)");
        assert_int_equal(ls_settings_set(&settings, LS_STR("foo"), LS_STR("1"), &info), LS_ABSENT);
        assert_string_equal(info.text, "Unknown topic config name: foo");
        ls_settings_done(&settings);
        ls_options_done(&options);
}

int
main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names_split),
                cmocka_unit_test(test_names_refused),
                cmocka_unit_test(test_settings_defaults_come_from_the_server),
                cmocka_unit_test(test_options_fit_settings),
                cmocka_unit_test(test_settings_refused),
                cmocka_unit_test(test_unknown_settings_name_the_nearest),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
