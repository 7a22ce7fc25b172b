/* cli/main.c - the program: looks the command up and runs it. */
#include <stdio.h>

#include "cli/cli.h"

static int
main_version(int argc, char **argv)
{
        puts("lakestream " LS_VERSION);
        return CLI_OK;
}

static int main_help(int argc, char **argv);

static const struct cli_verb commands[] = {
        { "serve", cli_serve, "run a server" },
        { "topic", cli_topic, "create, list, describe, alter, delete topics" },
        { "produce", cli_produce, "write lines of standard input to a topic" },
        { "consume", cli_consume, "print records of a topic" },
        { "group", cli_group, "list, describe, reset consumer groups" },
        { "table", cli_table_command, "list, describe, verify tables; their snapshots and files" },
        { "doctor", cli_doctor, "check a data directory while no server uses it" },
        { "version", main_version, "print the version" },
        { "help", main_help, "print this" },
};

/* The commands in two parts, since the first one is what the others need. */
static void
help_list(void)
{
        puts("Lakestream: a streaming server in which a stream is a lakehouse table.\n\n"
             "Usage: lakestream COMMAND [flags]\n\n"
             "Server:");
        for (size_t i = 0; i < LS_COUNT(commands); i++) {
                if (commands[i].fn == cli_topic)
                        puts("\nClients of a running server:");
                if (commands[i].fn == cli_doctor)
                        puts("\nWithout a server:");
                printf("  %-8s %s\n", commands[i].name, commands[i].doc);
        }
        puts("\nTo begin:\n"
             "  lakestream serve --data-dir DIR\n"
             "  lakestream topic create orders --partitions 4\n"
             "  echo hello | lakestream produce orders\n"
             "  lakestream consume orders\n"
             "  lakestream table commit orders\n"
             "  lakestream table describe orders\n\n"
             "`lakestream COMMAND --help` lists what a command takes, `lakestream serve "
             "--help-config` all\n"
             "settings of a server. Exit codes: 0 done, 1 failed, 2 not understood.");
}

static const struct cli_verb *
command_find(const char *word)
{
        for (size_t i = 0; i < LS_COUNT(commands); i++)
                if (strcmp(word, commands[i].name) == 0)
                        return &commands[i];
        return NULL;
}

/* `help` alone lists the commands, `help topic` is `topic --help`. */
static int
main_help(int argc, char **argv)
{
        static char flag[] = "--help";
        char *args[] = { flag, NULL };
        const struct cli_verb *command = argc > 0 ? command_find(argv[0]) : NULL;

        if (argc == 0) {
                help_list();
                return CLI_OK;
        }
        if (command == NULL) {
                cli_no_command("", argv[0], commands, LS_COUNT(commands));
                return CLI_USAGE;
        }
        return command->fn == main_help || command->fn == main_version ? main_help(0, NULL)
                                                                       : command->fn(1, args);
}

/* As people also write them. */
static const char *
command_name(const char *word)
{
        if (strcmp(word, "--version") == 0 || strcmp(word, "-v") == 0)
                return "version";
        if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
                return "help";
        return word;
}

int
main(int argc, char **argv)
{
        const struct cli_verb *command;
        int result;

        json_set_alloc_funcs(ls_malloc, ls_free);
        if (argc < 2) {
                help_list();
                return CLI_USAGE;
        }
        command = command_find(command_name(argv[1]));
        if (command == NULL) {
                cli_no_command("", argv[1], commands, LS_COUNT(commands));
                fputs("`lakestream help` lists the commands.\n", stderr);
                return CLI_USAGE;
        }
        result = command->fn(argc - 2, argv + 2);
        if (fflush(stdout) != 0 && result == CLI_OK)
                return cli_fail("standard output cannot be written");
        return result;
}
