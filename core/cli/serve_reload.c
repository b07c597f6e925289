/* See serve_reload.h. */
#include "cli/serve_reload.h"

#include "pipeline/loader.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <sys/stat.h>

/* What came of it, and all that there is to say. */
struct attempt {
    struct serving *serving;
    struct loaded loaded;
    struct changes changes;
    struct reload_answer answer;
    struct buffer reason;
};

static void tell(struct attempt *attempt, enum reload_state state)
{
    attempt->answer.state = state;
    reload_answer_write(&attempt->serving->pid_file, &attempt->answer);
}

/* A line more for whoever asked for the reload. */
__attribute__((format(printf, 2, 3))) static void add_line(struct attempt *attempt, const char *format, ...)
{
    va_list arguments;
    bool added;

    va_start(arguments, format);
    added = buffer_vprintf(&attempt->answer.text, format, arguments) && buffer_append_text(&attempt->answer.text, "\n");
    va_end(arguments);
    (void)added; /* the log has it as well */
}

/* Every complaint is a line of its own in the log. */
static void log_complaints(const struct complaints *complaints, int32_t level)
{
    const char *at = complaints->text.data, *end = at + complaints->text.size;

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        size_t size = (size_t)((line_end ? line_end : end) - at);

        coord_logf(NULL, level, "configuration: %.*s", (int)size, at);
        at += size + 1;
    }
}

static void add_complaints(struct attempt *attempt)
{
    if (!buffer_append_slice(&attempt->answer.text, buffer_slice(&attempt->loaded.complaints.text)))
        add_line(attempt, "more is wrong than fits here: see the log");
}

/* The old one serves on. */
static void give_up(struct attempt *attempt, enum reload_state state, coord_slice why)
{
    coord_metric_add(families()->config_reload_total, 1, &(coord_slice)COORD_SLICE("failure"));
    log_complaints(&attempt->loaded.complaints, COORD_LOG_ERROR);
    coord_logf(NULL, COORD_LOG_ERROR, "configuration not reloaded, generation %u serves on: %.*s",
               attempt->serving->service.generation->number, COORD_FMT(why));
    add_complaints(attempt);
    add_line(attempt, "%.*s", COORD_FMT(why));
    tell(attempt, state);
}

static coord_slice list(const struct buffer *names)
{
    return names->size > 0 ? buffer_slice(names) : (coord_slice)COORD_SLICE("nothing");
}

/* Keys and plugin files that are taken over by a new process only. */
static void warn_of_restart(struct attempt *attempt, const struct generation *generation)
{
    struct buffer names = {0};

    fixed_keys_compare(&attempt->serving->fixed, generation->settings, &names);
    if (names.size > 0) {
        coord_logf(NULL, COORD_LOG_WARNING, "changed, but only a restart applies it: %.*s",
                   COORD_FMT(buffer_slice(&names)));
        add_line(attempt, "changed, but only a restart applies it: %.*s", COORD_FMT(buffer_slice(&names)));
    }
    for (const struct plugin *plugin = generation->registry->plugins; plugin; plugin = plugin->next) {
        if (!loader_file_changed(plugin->file))
            continue;
        coord_logf(NULL, COORD_LOG_WARNING, "%s has changed on disk; the code that is loaded runs on until a restart",
                   plugin->file);
        add_line(attempt, "%s has changed on disk; the code that is loaded runs on until a restart", plugin->file);
    }
    buffer_release(&names);
}

static void report_success(struct attempt *attempt)
{
    const struct generation *generation = attempt->serving->service.generation;
    const struct settings *settings = generation->settings;
    const struct changes *changes = &attempt->changes;

    log_configure((int32_t)settings->log_level, settings->log_format ? LOG_JSON : LOG_TEXT);
    coord_metric_add(families()->config_reload_total, 1, &(coord_slice)COORD_SLICE("success"));
    log_complaints(&attempt->loaded.complaints, COORD_LOG_WARNING);
    coord_log(NULL, COORD_LOG_INFO, "configuration reloaded",
              (coord_field[]){LOG_INT_FIELD("generation", generation->number),
                              LOG_TEXT_FIELD("added", list(&changes->added)),
                              LOG_TEXT_FIELD("removed", list(&changes->removed)),
                              LOG_TEXT_FIELD("changed", list(&changes->changed))},
              4);
    add_complaints(attempt);
    add_line(attempt, "generation %u: added: %.*s; removed: %.*s; changed: %.*s", generation->number,
             COORD_FMT(list(&changes->added)), COORD_FMT(list(&changes->removed)), COORD_FMT(list(&changes->changed)));
    warn_of_restart(attempt, generation);
    tell(attempt, RELOAD_APPLIED);
}

static void swap(struct attempt *attempt)
{
    struct serving *serving = attempt->serving;
    struct generation *generation = attempt->loaded.generation;

    changes_find(&attempt->changes, serving->service.generation, generation);
    attempt->loaded.generation = NULL;
    if (service_swap(&serving->service, generation, serving->ending, &attempt->reason) == COORD_OK)
        report_success(attempt);
    else
        give_up(attempt, RELOAD_FAILED, buffer_slice(&attempt->reason));
}

static void load(struct attempt *attempt)
{
    struct loaded *loaded = &attempt->loaded;

    load_beside(loaded, attempt->serving->arguments);
    if (!loaded->generation) {
        give_up(attempt, RELOAD_REFUSED, coord_slice_of("the configuration has errors"));
        return;
    }
    generation_take_registry(loaded->generation, &loaded->registry);
    if (generation_start(loaded->generation, &loaded->complaints))
        swap(attempt);
    else
        give_up(attempt, RELOAD_FAILED, coord_slice_of("a step did not start"));
}

/* A pipe was read to its end at the start; whoever opens it again may wait for ever, and here nobody else would look at signals. */
static bool is_pipe(const char *path)
{
    struct stat facts;

    return stat(path, &facts) == 0 && S_ISFIFO(facts.st_mode);
}

void serve_reload(struct serving *serving)
{
    struct attempt attempt = {
        .serving = serving, .reason.limit = 4096, .answer = {.number = ++serving->reloaded, .text.limit = 1 << 19}};

    coord_logf(NULL, COORD_LOG_INFO, "reloading %s", serving->arguments->config);
    tell(&attempt, RELOAD_BEGUN);
    if (strcmp(serving->arguments->config, "-") == 0)
        give_up(&attempt, RELOAD_FAILED,
                coord_slice_of(
                    "--config - was read from standard input, which cannot be read again: restart, or serve a file"));
    else if (is_pipe(serving->arguments->config))
        give_up(&attempt, RELOAD_FAILED,
                coord_slice_of("--config is a pipe, which cannot be read again: restart, or serve a file"));
    else
        load(&attempt);
    load_release(&attempt.loaded);
    changes_release(&attempt.changes);
    buffer_release(&attempt.answer.text);
    buffer_release(&attempt.reason);
}
