/*
 * What several subcommands begin with: flags, configuration, plugins, pipeline. Thread: [load].
 */
#ifndef CLI_LOAD_H
#define CLI_LOAD_H

#include "config/settings.h"
#include "pipeline/generation.h"

/* The command line after the subcommand, taken apart. */
struct arguments {
    const char *config;      /* --config, NULL: not given */
    bool allow_unknown;      /* --allow-unknown-keys */
    bool json;               /* --json */
    const char *pid_file;    /* --pid-file */
    bool explain;            /* check --explain */
    const char *request;     /* explain --request FILE */
    const char *path;        /* explain --path, NULL: not given */
    const char *answers;     /* explain --answers FILE */
    const char *headers[64]; /* explain --header "NAME: VALUE", each */
    size_t header_count;
    const char *timeout; /* --timeout */
    const char *kind;    /* --kind */
    const char *dir;     /* --dir */
    struct flag_value flags[32];
    size_t flag_count;
    const char *rest[8]; /* what is no flag */
    size_t rest_count;
};

/* False with a message on standard error: wrong usage, exit 2. Flags are `--name value` or `--name=value`. */
bool arguments_parse(struct arguments *arguments, int argc, char **argv);

/* Everything that a configuration makes. */
struct loaded {
    struct registry registry;
    struct generation *generation; /* NULL: there were errors */
    struct complaints complaints;
};

/* Loads settings, plugins and pipeline; everything that is wrong is in `complaints`. Also sets the log's level and format. */
void load_all(struct loaded *loaded, const struct arguments *arguments);
/* The same beside what serves: the log stays as it is. */
void load_beside(struct loaded *loaded, const struct arguments *arguments);
/* The same for a dry run: settings are changed by `adjust` once they have been checked, and files that they name may be missing. */
void load_adjusted(struct loaded *loaded, const struct arguments *arguments, void (*adjust)(struct settings *settings));
/* `generation`, if still there, is freed too. */
void load_release(struct loaded *loaded);

/*
 * Loads the plugins that the configuration names, or without one those that are installed; no pipeline. False: that failed, as
 * `complaints` say. `strict`: anything wrong in the configuration is a failure; else only that of a plugin, or of a file that
 * cannot be read at all. The registry is initialised, and released by the caller, in either case.
 */
bool load_types(struct registry *registry, const struct arguments *arguments, bool strict,
                struct complaints *complaints);

/* One row of the subcommand table. */
struct cli_command {
    const char *name;
    const char *usage;
    const char *help;
    int (*run)(const struct arguments *arguments);
};

/* Prints how that subcommand is used to standard error. Returns the exit code of wrong usage, 2. */
int cli_misused(const char *name);
/* The same after a line that says which flag is missing. */
int cli_lacks(const char *name, const char *flag);

int cli_serve(const struct arguments *arguments);
int cli_reload(const struct arguments *arguments);
int cli_check(const struct arguments *arguments);
int cli_explain(const struct arguments *arguments);
int cli_steps(const struct arguments *arguments);
int cli_schema(const struct arguments *arguments);
int cli_new_step(const struct arguments *arguments);
int cli_version(const struct arguments *arguments);

#endif
