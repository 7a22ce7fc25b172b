/* cli/doctor.c - `lakestream doctor`: checks a data directory that no server uses. */
#include <stdio.h>

#include "base/options.h"
#include "cli/cli.h"
#include "stream/doctor.h"

static const char usage[] =
        "lakestream doctor [check] DIR [flags]\n"
        "lakestream doctor rebuild DIR [flags]\n\n"
        "check: reads the metadata, every batch of the log and every file of the tables, and says "
        "what is\n"
        "damaged and what to do. Exits 1 when there are problems.\n"
        "rebuild: makes a lost or damaged metadata database again, from its newest backup, the log "
        "and the\n"
        "tables' files, and keeps the old one beside it. Exits 1 when something could not be had "
        "back.\n"
        "No server may use the directory meanwhile.";

struct doctor {
        const char *data_dir, *store, *config, *output;
        struct cli_list set;
        bool deep, json, rebuild, force;
        json_t *findings;
};

static void
on_finding(void *ctx, enum ls_doctor_level level, const char *line)
{
        struct doctor *d = ctx;
        const char *name = level == LS_DOCTOR_PROBLEM ? "problem" : "info";

        if (d->json)
                json_array_append_new(d->findings,
                                      json_pack("{s:s,s:s}", "level", name, "text", line));
        else
                printf("%-8s %s\n", name, line);
}

static void
report_print(struct doctor *d, const struct ls_doctor_report *r)
{
        if (d->json) {
                cli_print_json(json_pack(
                        "{s:b,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:O}", "healthy",
                        (int)(r->problems == 0), "problems", (json_int_t)r->problems, "streams",
                        (json_int_t)r->streams, "partitions", (json_int_t)r->partitions, "batches",
                        (json_int_t)r->batches, "batches_damaged", (json_int_t)r->batches_damaged,
                        "files", (json_int_t)r->files, "files_damaged",
                        (json_int_t)r->files_damaged, "segments", (json_int_t)r->segments,
                        "segments_unnamed", (json_int_t)r->segments_unnamed, "findings",
                        d->findings));
                return;
        }
        printf("%llu streams, %llu partitions: %llu batches (%llu damaged) in %llu segments, %llu "
               "table files "
               "(%llu damaged)\n",
               (unsigned long long)r->streams, (unsigned long long)r->partitions,
               (unsigned long long)r->batches, (unsigned long long)r->batches_damaged,
               (unsigned long long)r->segments, (unsigned long long)r->files,
               (unsigned long long)r->files_damaged);
        if (r->problems == 0)
                puts("healthy");
        else
                printf("%llu problems\n", (unsigned long long)r->problems);
}

static void
rebuilt_print(struct doctor *d, const struct ls_doctor_rebuilt *r)
{
        if (d->json) {
                cli_print_json(json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:O}", "problems",
                                         (json_int_t)r->problems, "objects", (json_int_t)r->objects,
                                         "objects_committed", (json_int_t)r->objects_committed,
                                         "records", (json_int_t)r->records, "batches_refused",
                                         (json_int_t)r->batches_refused, "streams",
                                         (json_int_t)r->streams, "tables", (json_int_t)r->tables,
                                         "findings", d->findings));
                return;
        }
        printf("rebuilt: %llu of %llu WAL objects were newer than the backup, with %llu records; "
               "%llu topics and %llu table states too\n",
               (unsigned long long)r->objects_committed, (unsigned long long)r->objects,
               (unsigned long long)r->records, (unsigned long long)r->streams,
               (unsigned long long)r->tables);
        puts("now run: lakestream doctor check");
}

/* Whether all is well, or what ls_doctor_… says. */
static ls_err
doctor_do(struct doctor *d, const struct ls_options *options, bool *ret_well,
          struct ls_errinfo *reterr)
{
        struct ls_doctor_report report = { 0 };
        struct ls_doctor_rebuilt rebuilt = { 0 };
        ls_err e;

        if (d->rebuild) {
                e = ls_doctor_rebuild(options, d->force, on_finding, d, &rebuilt, reterr);
                if (e == LS_OK)
                        rebuilt_print(d, &rebuilt);
        } else {
                e = ls_doctor_check(options, d->deep, on_finding, d, &report, reterr);
                if (e == LS_OK)
                        report_print(d, &report);
        }
        *ret_well = report.problems == 0 && rebuilt.problems == 0;
        return e;
}

static int
doctor_run(struct doctor *d)
{
        struct ls_errinfo info = { "" };
        struct ls_options options;
        bool well = false;
        ls_err e;

        ls_options_init(&options);
        d->findings = json_array();
        e = cli_options_read(&options, d->config, &d->set, &info);
        if (e == LS_OK)
                e = cli_option_flag(&options, "data.dir", d->data_dir, &info);
        if (e == LS_OK)
                e = cli_option_flag(&options, "store.url", d->store, &info);
        if (e == LS_OK)
                e = doctor_do(d, &options, &well, &info);
        if (e == LS_BUSY)
                cli_fail("a server uses %s; stop it first (or ask it: GET /readyz)", d->data_dir);
        else if (e != LS_OK)
                cli_fail("%s", info.text[0] ? info.text : ls_err_text(e));
        ls_options_done(&options);
        json_decref(d->findings);
        return e == LS_OK && well ? CLI_OK : CLI_FAILED;
}

/* The words: check or rebuild, then the directory, which may be a flag too. */
static bool
doctor_words(struct doctor *d, const struct cli_list *words)
{
        size_t at = 0;

        if (words->count > 0 &&
            (strcmp(words->items[0], "check") == 0 || strcmp(words->items[0], "rebuild") == 0)) {
                d->rebuild = strcmp(words->items[0], "rebuild") == 0;
                at++;
        }
        if (d->data_dir == NULL && at < words->count)
                d->data_dir = words->items[at++];
        return d->data_dir != NULL && at == words->count;
}

int
cli_doctor(int argc, char **argv)
{
        struct doctor d = { 0 };
        const struct cli_flag flags[] = {
                { "data-dir", CLI_TEXT, &d.data_dir, "DIR", "the directory, when no word names it",
                  0, 0 },
                { "store", CLI_TEXT, &d.store, "URL", "as given to the server", 0, 0 },
                { "config", CLI_TEXT, &d.config, "FILE", "as given to the server", 0, 0 },
                { "set", CLI_LIST, &d.set, "NAME=VALUE", "as given to the server", 0, 0 },
                { "deep", CLI_BOOL, &d.deep, NULL, "read every row of every data file too", 0, 0 },
                { "force", CLI_BOOL, &d.force, NULL, "rebuild what is whole too", 0, 0 },
                CLI_OUTPUT_FLAG(d.output),
        };
        struct cli_args args;
        int code = CLI_USAGE;

        if (cli_args_parse(argc, argv, flags, LS_COUNT(flags), usage, &args)) {
                if (args.help)
                        code = CLI_OK;
                else if (!cli_output_parse(d.output, &d.json))
                        code = CLI_USAGE;
                else if (!doctor_words(&d, &args.words))
                        code = cli_misuse("say which directory: lakestream doctor check DIR");
                else
                        code = doctor_run(&d);
        }
        cli_args_done(&args);
        cli_list_done(&d.set);
        return code;
}
