/* cli/args.c - flags, messages and text tables of the command line. See cli.h. */
#include <stdarg.h>
#include <stdio.h>

#include "base/near.h"
#include "cli/cli.h"

/* --- messages --- */

static void
say(const char *format, va_list args)
{
        fputs("lakestream: ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
}

int
cli_fail(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        say(format, args);
        va_end(args);
        return CLI_FAILED;
}

int
cli_misuse(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        say(format, args);
        va_end(args);
        fputs("Add --help to a command to see what it takes.\n", stderr);
        return CLI_USAGE;
}

/* --- flags --- */

static const struct cli_flag *
flag_find(const struct cli_flag *flags, size_t count, ls_str name)
{
        for (size_t i = 0; i < count; i++)
                if (ls_str_is(name, flags[i].name))
                        return &flags[i];
        return NULL;
}

static bool
flag_set(const struct cli_flag *flag, const char *value)
{
        struct cli_list *list = flag->value;
        int64_t number;

        switch (flag->kind) {
        case CLI_BOOL:
                if (strcmp(value, "true") != 0 && strcmp(value, "false") != 0) {
                        cli_misuse("--%s takes true or false, not '%s'", flag->name, value);
                        return false;
                }
                *(bool *)flag->value = strcmp(value, "true") == 0;
                return true;
        case CLI_TEXT: *(const char **)flag->value = value; return true;
        case CLI_INT:
                if (!ls_str_to_i64(ls_str_of(value), flag->min, flag->max, &number)) {
                        cli_misuse("--%s takes a number from %lld to %lld, not '%s'", flag->name,
                                   (long long)flag->min, (long long)flag->max, value);
                        return false;
                }
                *(int64_t *)flag->value = number;
                return true;
        case CLI_LIST: LS_PUSH(list->items, list->count, list->cap, value); return true;
        }
        return false;
}

/* One argument that starts with "--"; *at moves over a value that stands apart. */
static bool
flag_take(int argc, char **argv, int *at, const struct cli_flag *flags, size_t count)
{
        const char *text = argv[*at] + 2, *equals = strchr(text, '=');
        ls_str name = ls_str_make(text, equals ? (size_t)(equals - text) : strlen(text));
        const struct cli_flag *flag = flag_find(flags, count, name);

        if (flag == NULL) {
                struct ls_near near = ls_near_of(name);

                for (size_t i = 0; i < count; i++)
                        ls_near_try(&near, flags[i].name);
                cli_misuse("there is no flag --%.*s%s%s", LS_STR_ARG(name),
                           near.name ? "; did you mean --" : "", near.name ? near.name : "");
                return false;
        }
        if (equals != NULL)
                return flag_set(flag, equals + 1);
        if (flag->kind == CLI_BOOL)
                return flag_set(flag, "true");
        if (*at + 1 == argc) {
                cli_misuse("--%s needs a value", flag->name);
                return false;
        }
        return flag_set(flag, argv[++*at]);
}

void
cli_help(const char *usage, const struct cli_flag *flags, size_t count)
{
        printf("%s\n", usage);
        if (count > 0)
                puts("\nFlags:");
        for (size_t i = 0; i < count; i++) {
                char left[64];

                snprintf(left, sizeof left, "--%s %s", flags[i].name,
                         flags[i].hint ? flags[i].hint : "");
                printf("  %-28s %s%s\n", left, flags[i].doc,
                       flags[i].kind == CLI_LIST ? " (may be repeated)" : "");
        }
}

bool
cli_args_parse(int argc, char **argv, const struct cli_flag *flags, size_t count, const char *usage,
               struct cli_args *ret_args)
{
        bool words_only = false;

        *ret_args = (struct cli_args){ 0 };
        for (int i = 0; i < argc; i++) {
                if (!words_only && strcmp(argv[i], "--") == 0) {
                        words_only = true;
                } else if (!words_only &&
                           (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)) {
                        ret_args->help = true;
                        cli_help(usage, flags, count);
                        return true;
                } else if (!words_only && strncmp(argv[i], "--", 2) == 0) {
                        if (!flag_take(argc, argv, &i, flags, count))
                                return false;
                } else {
                        LS_PUSH(ret_args->words.items, ret_args->words.count, ret_args->words.cap,
                                argv[i]);
                }
        }
        return true;
}

void
cli_list_done(struct cli_list *list)
{
        ls_free(list->items);
}

void
cli_args_done(struct cli_args *args)
{
        cli_list_done(&args->words);
}

void
cli_no_command(const char *group, const char *word, const struct cli_verb *verbs, size_t count)
{
        const char *space = *group != '\0' ? " " : "";
        struct ls_near near = ls_near_of(ls_str_of(word));

        for (size_t i = 0; i < count; i++)
                ls_near_try(&near, verbs[i].name);
        fprintf(stderr, "lakestream: there is no command '%s%s%s'", group, space, word);
        if (near.name != NULL)
                fprintf(stderr, "; did you mean '%s%s%s'?", group, space, near.name);
        fputc('\n', stderr);
}

int
cli_dispatch(const char *group, const struct cli_verb *verbs, size_t count, int argc, char **argv)
{
        bool help = argc == 0 || strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0 ||
                    strcmp(argv[0], "help") == 0;

        for (size_t i = 0; !help && i < count; i++)
                if (strcmp(argv[0], verbs[i].name) == 0)
                        return verbs[i].fn(argc - 1, argv + 1);
        if (!help)
                cli_no_command(group, argv[0], verbs, count);
        fprintf(help ? stdout : stderr, "Commands:\n");
        for (size_t i = 0; i < count; i++)
                fprintf(help ? stdout : stderr, "  lakestream %s %-10s %s\n", group, verbs[i].name,
                        verbs[i].doc);
        return help && argc > 0 ? CLI_OK : CLI_USAGE;
}

/* --- output --- */

bool
cli_output_parse(const char *value, bool *ret_json)
{
        *ret_json = value != NULL && strcmp(value, "json") == 0;
        if (*ret_json || value == NULL || strcmp(value, "text") == 0)
                return true;
        cli_misuse("--output takes text or json, not '%s'", value);
        return false;
}

void
cli_print_json(json_t *json)
{
        json_dumpf(json, stdout, JSON_INDENT(2) | JSON_ENCODE_ANY);
        putchar('\n');
        json_decref(json);
}

void
cli_table_init(struct cli_table *t, size_t columns, ...)
{
        va_list names;

        *t = (struct cli_table){ .columns = columns };
        va_start(names, columns);
        for (size_t i = 0; i < columns; i++)
                cli_table_cell(t, "%s", va_arg(names, const char *));
        va_end(names);
}

void
cli_table_cell(struct cli_table *t, const char *format, ...)
{
        struct ls_buf text;
        char small[256];
        va_list args;
        int len;

        va_start(args, format);
        len = vsnprintf(small, sizeof small, format, args);
        va_end(args);
        ls_buf_init(&text, LS_BUF_MAX_DEFAULT);
        if (len >= (int)sizeof small) {
                uint8_t *room = ls_buf_add(&text, (size_t)len + 1);

                va_start(args, format);
                vsnprintf((char *)room, (size_t)len + 1, format, args);
                va_end(args);
        }
        LS_PUSH(t->cells, t->count, t->cap,
                ls_strdup(len >= (int)sizeof small ? (const char *)text.ptr : small));
        ls_buf_done(&text);
}

static bool
column_is_numbers(const struct cli_table *t, size_t column)
{
        for (size_t i = t->columns + column; i < t->count; i += t->columns) {
                const char *cell = t->cells[i];

                if (*cell == '\0' || strspn(cell, "-0123456789.") != strlen(cell))
                        return false;
        }
        return t->count > t->columns;
}

void
cli_table_done(struct cli_table *t)
{
        for (size_t i = 0; i < t->count; i++)
                ls_free(t->cells[i]);
        ls_free(t->cells);
        *t = (struct cli_table){ 0 };
}

void
cli_table_print(struct cli_table *t)
{
        size_t *widths = ls_calloc(t->columns, sizeof *widths);

        for (size_t i = 0; i < t->count; i++)
                widths[i % t->columns] = LS_MAX(widths[i % t->columns], strlen(t->cells[i]));
        for (size_t i = 0; i < t->count; i++) {
                size_t column = i % t->columns;
                bool last = column == t->columns - 1;
                int width = (int)widths[column];

                if (column_is_numbers(t, column))
                        printf("%*s", width, t->cells[i]);
                else
                        printf("%-*s", last ? 0 : width, t->cells[i]);
                fputs(last ? "\n" : "  ", stdout);
        }
        ls_free(widths);
        cli_table_done(t);
}
