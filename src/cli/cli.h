/* cli/cli.h - what the commands share: flags, errors, output.
 *
 * Only for this folder. Exit codes: 0 done, 1 failed, 2 not understood. Messages for people go to
 * standard error and say what to do; results go to standard output, as text or (--output json) as
 * one JSON document. Threads: the main thread.
 */
#pragma once
#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/mem.h"
#include "base/span.h"

#define CLI_OK     0
#define CLI_FAILED 1
#define CLI_USAGE  2

/* --- flags --- */

enum cli_flag_kind {
        CLI_TEXT, /* const char **; borrowed from argv */
        CLI_INT,  /* int64_t *, within [min, max] */
        CLI_BOOL, /* bool *; takes no value */
        CLI_LIST, /* struct cli_list *; may be repeated */
};
struct cli_list {
        const char **items;
        size_t count, cap;
};
struct cli_flag {
        const char *name; /* "data-dir", given as --data-dir VALUE or --data-dir=VALUE */
        enum cli_flag_kind kind;
        void *value;
        const char *hint; /* "DIR"; NULL for BOOL */
        const char *doc;
        int64_t min, max;
};
struct cli_args {
        struct cli_list words; /* what is no flag, in order */
        bool help;
};
/* Reads argv into the flags. False: said why; exit with CLI_USAGE. "--" ends flags. */
bool cli_args_parse(int argc, char **argv, const struct cli_flag *flags, size_t count,
                    const char *usage, struct cli_args *ret_args);
/* Prints usage and flags. */
void cli_help(const char *usage, const struct cli_flag *flags, size_t count);
void cli_args_done(struct cli_args *args);
void cli_list_done(struct cli_list *list);

/* --- settings of commands that open a data folder --- */

struct ls_options;
/* Reads the file `config` (NULL: none), the environment, and each "name=value" of `set`. With
 * words. */
LS_MUST_USE ls_err cli_options_read(struct ls_options *o, const char *config,
                                    const struct cli_list *set, struct ls_errinfo *reterr);
/* Sets what a flag gave; NULL: it was not given. */
LS_MUST_USE ls_err cli_option_flag(struct ls_options *o, const char *name, const char *value,
                                   struct ls_errinfo *reterr);

/* --- messages --- */

/* "lakestream: …" on standard error. Returns CLI_FAILED. */
int cli_fail(const char *format, ...) LS_PRINTF(1, 2);
/* The same with a hint at --help; returns CLI_USAGE. */
int cli_misuse(const char *format, ...) LS_PRINTF(1, 2);

/* --- output --- */

/* "text" or "json" to *ret_json; false: said why. NULL is text. */
bool cli_output_parse(const char *value, bool *ret_json);
/* Prints (taken) as indented JSON. */
void cli_print_json(json_t *json);

/* A table of texts with columns padded to their widest. */
struct cli_table {
        size_t columns;
        char **cells;
        size_t count, cap;
};
/* The names of the columns, as further arguments. */
void cli_table_init(struct cli_table *t, size_t columns, ...);
/* One cell, row by row, left to right. */
void cli_table_cell(struct cli_table *t, const char *format, ...) LS_PRINTF(2, 3);
/* Prints and frees. Columns whose cells are all numbers stand to the right. */
void cli_table_print(struct cli_table *t);
/* Frees one that is not printed. */
void cli_table_done(struct cli_table *t);

/* --- commands: argv[0] is the word after the command --- */

int cli_serve(int argc, char **argv);
int cli_topic(int argc, char **argv);
int cli_produce(int argc, char **argv);
int cli_consume(int argc, char **argv);
int cli_group(int argc, char **argv);
int cli_table_command(int argc, char **argv);
int cli_doctor(int argc, char **argv);

/* One of the commands of a group (`topic list`): looks argv[0] up and runs it. */
struct cli_verb {
        const char *name;
        int (*fn)(int argc, char **argv);
        const char *doc;
};
/* Says on standard error that there is no such command (of a group; "": of the program), and which
 * one is close. */
void cli_no_command(const char *group, const char *word, const struct cli_verb *verbs,
                    size_t count);
int cli_dispatch(const char *group, const struct cli_verb *verbs, size_t count, int argc,
                 char **argv);

#define CLI_OUTPUT_FLAG(var)                                                        \
        {                                                                           \
                "output", CLI_TEXT, &(var), "text|json", "form of the result", 0, 0 \
        }
