/* See cli.h. The subcommands are one table. */
#include "cli/cli.h"

#include "cli/load.h"

#include <stdio.h>
#include <string.h>

static int cli_help(const struct arguments *arguments);

static const struct cli_command COMMANDS[] = {
    {"serve", "serve --config FILE [--pid-file FILE] [--allow-unknown-keys] [flags]",
     "runs the service; also without the word `serve`", cli_serve},
    {"reload", "reload --pid-file FILE [--timeout DURATION]",
     "makes a running coordinator load its configuration anew; exit 0: applied, 2: it has errors, 1: anything else",
     cli_reload},
    {"check", "check --config FILE [--explain] [--allow-unknown-keys]",
     "loads plugins and pipelines and prints every error; --explain: the pipelines as composed, and where each value "
     "came from; exit 0 or 2",
     cli_check},
    {"explain",
     "explain --config FILE --request FILE [--path PATH] [--header 'NAME: VALUE']... [--answers FILE] [--json]",
     "serves one request with answers that stand in for the workers' and shows what would be sent; exit 0, 1 (no "
     "pipeline, or refused) or 2",
     cli_explain},
    {"steps", "steps [NAME] [--json] [--config FILE] [--allow-unknown-keys]",
     "lists the loaded step and connector types, or one with its params", cli_steps},
    {"schema", "schema [--config FILE]",
     "prints the JSON Schema of the configuration, with the params of all types that are loaded", cli_schema},
    {"new-step", "new-step NAME [--kind step|writer|kv-connector|ec-connector] [--dir FOLDER]",
     "makes a folder NAME in FOLDER (here) with a plugin that builds, tests and runs, to begin with", cli_new_step},
    {"version", "version", "prints the version of the program, its plugin ABI and its libraries", cli_version},
    {"help", "help", "prints this", cli_help},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof *COMMANDS };

static int cli_help(const struct arguments *arguments)
{
    (void)arguments;
    printf("coordinator: drives inference requests through a pipeline of steps\n\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        printf("  coordinator %s\n      %s\n", COMMANDS[i].usage, COMMANDS[i].help);
    printf("\nflags (each beats the environment and the file):\n");
    for (const struct settings_flag *flag = settings_flags(); flag->flag; flag++)
        printf("  %s%s  sets %s\n", flag->flag, flag->takes_value ? " VALUE" : "", flag->key);
    return 0;
}

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(COMMANDS[i].name, name) == 0)
            return &COMMANDS[i];
    return NULL;
}

int cli_lacks(const char *name, const char *flag)
{
    fprintf(stderr, "coordinator %s: %s is missing\n", name, flag);
    return cli_misused(name);
}

int cli_misused(const char *name)
{
    fprintf(stderr, "usage: coordinator %s\n", find(name)->usage);
    return 2;
}

int coord_main(int argc, char **argv)
{
    const struct cli_command *command;
    struct arguments arguments;
    bool named = argc > 1 && argv[1][0] != '-';

    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return cli_help(NULL), argc < 2 ? 2 : 0;
    command = find(named ? argv[1] : strcmp(argv[1], "--version") == 0 ? "version" : "serve");
    if (!command) {
        fprintf(stderr, "coordinator: no subcommand \"%s\"; `coordinator help` lists them\n", argv[1]);
        return 2;
    }
    if (command->run == cli_version)
        return cli_version(NULL);
    if (named && argc == 3 && strcmp(argv[2], "--help") == 0) {
        printf("usage: coordinator %s\n  %s\n", command->usage, command->help);
        return 0;
    }
    if (!arguments_parse(&arguments, argc - (named ? 2 : 1), argv + (named ? 2 : 1)))
        return 2;
    return command->run(&arguments);
}
