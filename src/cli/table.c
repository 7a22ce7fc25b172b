/* cli/table.c - `lakestream table`: streams as tables, asked of a running server over HTTP. */
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/http_client.h"

#define API_STREAMS    "/api/v1/streams/"
#define TYPE_DEPTH_MAX 8

struct table_flags {
        const char *http, *output;
        bool deep;
        bool json;
        struct cli_args args;
};

/* Parses flags; then asks `path` (with {stream} filled in when `words` is 1). NULL: *ret_code says
 * why. */
static json_t *
table_ask(int argc, char **argv, const char *usage, const struct cli_flag *more, size_t more_count,
          size_t words, const char *method, const char *(*after)(const struct table_flags *f),
          struct table_flags *f, int *ret_code)
{
        struct cli_flag flags[8] = { { "http", CLI_TEXT, &f->http, "HOST:PORT",
                                       "a server's HTTP address (127.0.0.1:8181)", 0, 0 },
                                     CLI_OUTPUT_FLAG(f->output) };
        struct ls_errinfo info = { "" };
        json_t *answer = NULL;

        for (size_t i = 0; i < more_count; i++)
                flags[2 + i] = more[i];
        f->http = HTTP_ADDRESS_DEFAULT;
        *ret_code = CLI_USAGE;
        if (!cli_args_parse(argc, argv, flags, 2 + more_count, usage, &f->args))
                return NULL;
        if (f->args.help) {
                *ret_code = CLI_OK;
                return NULL;
        }
        if (!cli_output_parse(f->output, &f->json))
                return NULL;
        if (f->args.words.count != words) {
                cli_misuse("%s", usage);
                return NULL;
        }
        LS_AUTO(ls_free)
        char *path = words == 0 ? ls_strdup("/api/v1/streams")
                                : http_path(API_STREAMS, f->args.words.items[0], after(f));
        ls_err e = http_ask(f->http, method, path, &answer, &info);

        *ret_code = CLI_OK;
        if (e == LS_ABSENT)
                *ret_code = cli_fail("%s; `lakestream table list` shows those that are", info.text);
        else if (e != LS_OK)
                *ret_code = cli_fail("%s", info.text);
        return answer;
}

static int
table_end(struct table_flags *f, json_t *answer, int code)
{
        json_decref(answer);
        cli_args_done(&f->args);
        return code;
}

static long long
number_of(const json_t *object, const char *name)
{
        return (long long)json_integer_value(json_object_get(object, name));
}

static const char *
text_of(const json_t *object, const char *name)
{
        const char *text = json_string_value(json_object_get(object, name));

        return text != NULL ? text : "-";
}

/* --- list --- */

static void
list_print(const json_t *list)
{
        struct cli_table table;
        json_t *stream;
        size_t i;

        cli_table_init(&table, 4, "TABLE", "TOPIC", "PARTITIONS", "LOG RECORDS");
        json_array_foreach(list, i, stream)
        {
                const json_t *t = json_object_get(stream, "table");

                cli_table_cell(&table, "%s.%s.%s", text_of(t, "catalog"), text_of(t, "namespace"),
                               text_of(t, "name"));
                cli_table_cell(&table, "%s", text_of(stream, "name"));
                cli_table_cell(&table, "%lld", number_of(stream, "partitions"));
                cli_table_cell(&table, "%lld", number_of(stream, "log_records"));
        }
        cli_table_print(&table);
}

static int
table_list(int argc, char **argv)
{
        struct table_flags f = { 0 };
        json_t *answer, *stream, *list;
        size_t i;
        int code;

        answer = table_ask(argc, argv, "lakestream table list [flags]", NULL, 0, 0, "GET", NULL, &f,
                           &code);
        if (answer == NULL)
                return table_end(&f, answer, code);
        list = json_array();
        json_array_foreach(
                json_object_get(answer, "streams"), i,
                stream) if (json_is_true(json_object_get(json_object_get(stream, "table"),
                                                         "enabled")))
                json_array_append(list, stream);
        if (f.json)
                cli_print_json(json_incref(list));
        else
                list_print(list);
        json_decref(list);
        return table_end(&f, answer, code);
}

/* --- describe --- */

static const char *
after_table(const struct table_flags *f)
{
        return "/table";
}

/* An Iceberg type as its specification writes it: list<struct<key: string, value: binary>>. What
 * the server nests deeper than any table of ours stays JSON. */
static void
type_print(struct ls_buf *out, const json_t *type, int depth)
{
        const json_t *fields = json_object_get(type, "fields"), *field;
        size_t i;

        if (json_is_string(type)) {
                ls_buf_printf(out, "%s", json_string_value(type));
        } else if (depth < TYPE_DEPTH_MAX && json_object_get(type, "element") != NULL) {
                ls_buf_printf(out, "list<");
                type_print(out, json_object_get(type, "element"), depth + 1);
                ls_buf_printf(out, ">");
        } else if (depth < TYPE_DEPTH_MAX && fields != NULL) {
                ls_buf_printf(out, "struct<");
                json_array_foreach(fields, i, field)
                {
                        ls_buf_printf(out, "%s%s: ", i > 0 ? ", " : "", text_of(field, "name"));
                        type_print(out, json_object_get(field, "type"), depth + 1);
                }
                ls_buf_printf(out, ">");
        } else {
                char *text = json_dumps(type, JSON_COMPACT | JSON_ENCODE_ANY);

                ls_buf_printf(out, "%s", text != NULL ? text : "-");
                ls_free(text);
        }
}

static void
describe_print(const char *topic, const json_t *t)
{
        struct cli_table columns;
        json_t *column;
        size_t i;

        printf("topic      %s\nuuid       %s\nlocation   %s\nmetadata   %s\n", topic,
               text_of(t, "table_uuid"), text_of(t, "location"), text_of(t, "metadata_location"));
        printf("rows       %lld\nfiles      %lld\nbytes      %lld\nsnapshots  %lld\n",
               number_of(t, "rows"), number_of(t, "data_files"), number_of(t, "data_bytes"),
               number_of(t, "snapshots"));
        if (json_is_true(json_object_get(t, "fresh")))
                puts("fresh      yes: every acknowledged record is in the table");
        else
                printf("fresh      no: %lld newer records are in the log; loading the table "
                       "commits them\n",
                       number_of(t, "behind_records"));
        putchar('\n');
        cli_table_init(&columns, 4, "ID", "COLUMN", "TYPE", "REQUIRED");
        json_array_foreach(json_object_get(t, "columns"), i, column)
        {
                struct ls_buf type;

                ls_buf_init(&type, LS_BUF_MAX_DEFAULT);
                type_print(&type, json_object_get(column, "type"), 0);
                cli_table_cell(&columns, "%lld", number_of(column, "id"));
                cli_table_cell(&columns, "%s", text_of(column, "name"));
                cli_table_cell(&columns, "%.*s", (int)type.len, (const char *)type.ptr);
                cli_table_cell(&columns, "%s",
                               json_is_true(json_object_get(column, "required")) ? "yes" : "no");
                ls_buf_done(&type);
        }
        cli_table_print(&columns);
}

static int
table_describe(int argc, char **argv)
{
        struct table_flags f = { 0 };
        json_t *answer;
        int code;

        answer = table_ask(argc, argv, "lakestream table describe TOPIC [flags]", NULL, 0, 1, "GET",
                           after_table, &f, &code);
        if (answer != NULL && f.json)
                cli_print_json(json_incref(answer));
        else if (answer != NULL)
                describe_print(f.args.words.items[0], answer);
        return table_end(&f, answer, code);
}

/* --- commit --- */

static const char *
after_commit(const struct table_flags *f)
{
        return "/table/commit";
}

static int
table_commit(int argc, char **argv)
{
        struct table_flags f = { 0 };
        json_t *answer;
        int code;

        answer = table_ask(argc, argv, "lakestream table commit TOPIC [flags]", NULL, 0, 1, "POST",
                           after_commit, &f, &code);
        if (answer != NULL && f.json)
                cli_print_json(json_incref(answer));
        else if (answer != NULL)
                printf("%lld rows, snapshot %lld%s\n", number_of(answer, "rows"),
                       number_of(answer, "snapshot_id"),
                       json_is_true(json_object_get(answer, "fresh"))
                               ? ""
                               : " (records are still missing)");
        return table_end(&f, answer, code);
}

/* What was never committed has nothing to list: says what to do. */
static void
say_how_to_commit(const struct table_flags *f, const json_t *list)
{
        if (json_array_size(list) == 0)
                fprintf(stderr,
                        "none yet; an engine's next query commits the newest records, and so does: "
                        "lakestream table commit %s\n",
                        f->args.words.items[0]);
}

/* --- snapshots --- */

static const char *
after_snapshots(const struct table_flags *f)
{
        return "/table/snapshots";
}

static int
table_snapshots(int argc, char **argv)
{
        struct table_flags f = { 0 };
        struct cli_table table;
        json_t *answer, *s;
        size_t i;
        int code;

        answer = table_ask(argc, argv, "lakestream table snapshots TOPIC [flags]", NULL, 0, 1,
                           "GET", after_snapshots, &f, &code);
        if (answer != NULL && f.json)
                cli_print_json(json_incref(json_object_get(answer, "snapshots")));
        if (answer == NULL || f.json)
                return table_end(&f, answer, code);
        cli_table_init(&table, 5, "SNAPSHOT", "TIME", "OPERATION", "ADDED ROWS", "ROWS");
        json_array_foreach(json_object_get(answer, "snapshots"), i, s)
        {
                const json_t *summary = json_object_get(s, "summary");
                char time[LS_CLOCK_TEXT_BYTES];

                ls_clock_text(number_of(s, "timestamp_ms"), time);
                cli_table_cell(&table, "%lld%s", number_of(s, "snapshot_id"),
                               json_is_true(json_object_get(s, "current")) ? " *" : "");
                cli_table_cell(&table, "%s", time);
                cli_table_cell(&table, "%s", text_of(summary, "operation"));
                cli_table_cell(&table, "%s", text_of(summary, "added-records"));
                cli_table_cell(&table, "%s", text_of(summary, "total-records"));
        }
        cli_table_print(&table);
        say_how_to_commit(&f, json_object_get(answer, "snapshots"));
        return table_end(&f, answer, code);
}

/* --- files --- */

static const char *
after_files(const struct table_flags *f)
{
        return "/table/files";
}

static int
table_files(int argc, char **argv)
{
        struct table_flags f = { 0 };
        struct cli_table table;
        json_t *answer, *file;
        size_t i;
        int code;

        answer = table_ask(argc, argv, "lakestream table files TOPIC [flags]", NULL, 0, 1, "GET",
                           after_files, &f, &code);
        if (answer != NULL && f.json)
                cli_print_json(json_incref(json_object_get(answer, "files")));
        if (answer == NULL || f.json)
                return table_end(&f, answer, code);
        cli_table_init(&table, 3, "ROWS", "BYTES", "FILE");
        json_array_foreach(json_object_get(answer, "files"), i, file)
        {
                cli_table_cell(&table, "%lld", number_of(file, "rows"));
                cli_table_cell(&table, "%lld", number_of(file, "bytes"));
                cli_table_cell(&table, "%s", text_of(file, "uri"));
        }
        cli_table_print(&table);
        say_how_to_commit(&f, json_object_get(answer, "files"));
        return table_end(&f, answer, code);
}

/* --- verify --- */

static const char *
after_verify(const struct table_flags *f)
{
        return f->deep ? "/table/verify?deep=true" : "/table/verify";
}

static void
verify_print(const json_t *v)
{
        struct cli_table table;

        cli_table_init(&table, 3, "", "RECORDS", "SUM OF HASHES");
        cli_table_cell(&table, "log");
        cli_table_cell(&table, "%lld", number_of(v, "records_log"));
        cli_table_cell(&table, "%s", text_of(v, "hash_log"));
        cli_table_cell(&table, "table");
        cli_table_cell(&table, "%lld", number_of(v, "records_table"));
        cli_table_cell(&table, "%s", text_of(v, "hash_table"));
        cli_table_print(&table);
        printf("\n%lld files%s\n", number_of(v, "files"),
               json_is_true(json_object_get(v, "deep")) ? ", every record read"
                                                        : ", sums of the metadata compared");
        if (json_is_true(json_object_get(v, "equal")))
                puts("equal: log and table hold the same records");
        else
                printf("NOT EQUAL: %s\n", text_of(v, "first_difference"));
}

static int
table_verify(int argc, char **argv)
{
        struct table_flags f = { .deep = true };
        const struct cli_flag flags[] = {
                { "deep", CLI_BOOL, &f.deep, NULL,
                  "read every record (default); --deep=false compares the metadata's sums", 0, 0 },
        };
        json_t *answer;
        int code;

        answer = table_ask(argc, argv, "lakestream table verify TOPIC [flags]", flags,
                           LS_COUNT(flags), 1, "GET", after_verify, &f, &code);
        if (answer != NULL && f.json)
                cli_print_json(json_incref(answer));
        else if (answer != NULL)
                verify_print(answer);
        if (answer != NULL && !json_is_true(json_object_get(answer, "equal")))
                code = CLI_FAILED;
        return table_end(&f, answer, code);
}

int
cli_table_command(int argc, char **argv)
{
        static const struct cli_verb verbs[] = {
                { "list", table_list, "streams that are shown as tables" },
                { "describe", table_describe, "columns, sizes and freshness of a table" },
                { "commit", table_commit, "commit the newest records to the table now" },
                { "snapshots", table_snapshots, "snapshots of a table" },
                { "files", table_files, "data files of a table" },
                { "verify", table_verify, "prove that log and table hold the same records" },
        };

        return cli_dispatch("table", verbs, LS_COUNT(verbs), argc, argv);
}
