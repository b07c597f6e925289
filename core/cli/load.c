/* See load.h. */
#include "cli/load.h"

#include "pipeline/loader.h"
#include "pipeline/preflight.h"
#include "telemetry/log.h"

#include <stdio.h>
#include <stdlib.h>

extern char **environ;

/* One too many is told by cli_explain. */
static void keep_header(struct arguments *arguments, const char *value)
{
    if (value && arguments->header_count < sizeof arguments->headers / sizeof *arguments->headers)
        arguments->headers[arguments->header_count] = value;
    arguments->header_count++;
}

/* Flags of ours that set no key. */
static bool own_flag(struct arguments *arguments, const char *name, const char *value, bool *takes_value)
{
    *takes_value = true;
    if (strcmp(name, "--config") == 0)
        arguments->config = value;
    else if (strcmp(name, "--pid-file") == 0)
        arguments->pid_file = value;
    else if (strcmp(name, "--timeout") == 0)
        arguments->timeout = value;
    else if (strcmp(name, "--kind") == 0)
        arguments->kind = value;
    else if (strcmp(name, "--dir") == 0)
        arguments->dir = value;
    else if (strcmp(name, "--request") == 0)
        arguments->request = value;
    else if (strcmp(name, "--path") == 0)
        arguments->path = value;
    else if (strcmp(name, "--answers") == 0)
        arguments->answers = value;
    else if (strcmp(name, "--header") == 0)
        keep_header(arguments, value);
    else
        *takes_value = false;
    if (*takes_value)
        return true;
    if (strcmp(name, "--allow-unknown-keys") == 0)
        arguments->allow_unknown = true;
    else if (strcmp(name, "--json") == 0)
        arguments->json = true;
    else if (strcmp(name, "--explain") == 0)
        arguments->explain = true;
    else
        return false;
    return true;
}

static const struct settings_flag *key_flag(const char *name)
{
    for (const struct settings_flag *flag = settings_flags(); flag->flag; flag++)
        if (strcmp(flag->flag, name) == 0)
            return flag;
    return NULL;
}

static bool wrong(const char *name, const char *what)
{
    fprintf(stderr, "coordinator: %s %s; `coordinator help` lists the flags\n", name, what);
    return false;
}

/* One flag, with its value from "=", or the next argument. `*used` tells whether the next one was taken. */
static bool parse_flag(struct arguments *arguments, const char *name, const char *inline_value, const char *next,
                       bool *used)
{
    const char *value = inline_value ? inline_value : next;
    const struct settings_flag *flag = key_flag(name);
    bool takes_value = false;

    *used = false;
    if (flag) {
        takes_value = flag->takes_value;
        if (!takes_value && !inline_value)
            value = "true";
        if (arguments->flag_count == sizeof arguments->flags / sizeof *arguments->flags)
            return wrong(name, "is one flag too many");
        if (value)
            arguments->flags[arguments->flag_count++] = (struct flag_value){flag->key, value, flag->flag};
    } else if (!own_flag(arguments, name, value, &takes_value)) {
        return wrong(name, "is not known");
    } else if (!takes_value && inline_value) {
        return wrong(name, "takes no value");
    }
    if (takes_value && !value)
        return wrong(name, "needs a value");
    *used = takes_value && !inline_value;
    return true;
}

bool arguments_parse(struct arguments *arguments, int argc, char **argv)
{
    *arguments = (struct arguments){0};
    for (int i = 0; i < argc; i++) {
        char *equals;
        bool used;

        if (argv[i][0] != '-' || strcmp(argv[i], "-") == 0) {
            if (arguments->rest_count == sizeof arguments->rest / sizeof *arguments->rest)
                return wrong(argv[i], "is one argument too many");
            arguments->rest[arguments->rest_count++] = argv[i];
            continue;
        }
        equals = strchr(argv[i], '=');
        if (equals)
            *equals = '\0';
        if (!parse_flag(arguments, argv[i], equals ? equals + 1 : NULL, i + 1 < argc ? argv[i + 1] : NULL, &used))
            return false;
        i += used;
    }
    return true;
}

static struct settings_input settings_input_of(const struct arguments *arguments)
{
    return (struct settings_input){.path = arguments->config,
                                   .flags = arguments->flags,
                                   .flag_count = arguments->flag_count,
                                   .allow_unknown = arguments->allow_unknown,
                                   .environment = environ};
}

bool load_types(struct registry *registry, const struct arguments *arguments, bool strict,
                struct complaints *complaints)
{
    struct settings_input input = settings_input_of(arguments);
    struct arena arena = {0};
    struct settings *settings = settings_load(&arena, &input, complaints);
    bool loaded;

    registry_init(registry);
    if (settings && !strict) {
        complaints_release(complaints);
        *complaints = (struct complaints){0};
    }
    loaded = settings && loader_load_all(registry, settings, getenv("COORDINATOR_PLUGIN_PATH"), complaints);
    arena_release(&arena);
    return loaded && complaints->errors == 0;
}

/*
 * `alone`: nothing serves yet, so that the log may be set up. `adjust` may be NULL; with it nothing is served to anybody, so that
 * files need not be there.
 */
static void load(struct loaded *loaded, const struct arguments *arguments, bool alone,
                 void (*adjust)(struct settings *settings))
{
    struct settings_input input = settings_input_of(arguments);
    struct arena arena = {0};
    struct settings *settings;

    *loaded = (struct loaded){0};
    registry_init(&loaded->registry);
    settings = settings_load(&arena, &input, &loaded->complaints);
    if (!settings) {
        arena_release(&arena);
        return;
    }
    if (adjust)
        adjust(settings);
    else
        preflight_check(settings, &loaded->complaints);
    if (alone)
        log_configure((int32_t)settings->log_level, settings->log_format ? LOG_JSON : LOG_TEXT);
    loader_load_all(&loaded->registry, settings, getenv("COORDINATOR_PLUGIN_PATH"), &loaded->complaints);
    loaded->generation = generation_build(&arena, settings, &loaded->registry, &loaded->complaints);
    if (loaded->complaints.errors > 0) {
        generation_free(loaded->generation);
        loaded->generation = NULL;
    }
}

void load_all(struct loaded *loaded, const struct arguments *arguments) { load(loaded, arguments, true, NULL); }

void load_beside(struct loaded *loaded, const struct arguments *arguments) { load(loaded, arguments, false, NULL); }

void load_adjusted(struct loaded *loaded, const struct arguments *arguments, void (*adjust)(struct settings *settings))
{
    load(loaded, arguments, true, adjust);
}

void load_release(struct loaded *loaded)
{
    generation_free(loaded->generation);
    registry_release(&loaded->registry);
    complaints_release(&loaded->complaints);
}
