/* See kit_host.h. The same life as `coordinator serve`, without signals and files. */
#include "pipeline/kit_host.h"

#include "pipeline/loader.h"
#include "pipeline/worker.h"
#include "telemetry/log.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_FLAGS = 16 };

struct coord_kit_host {
    struct registry registry;
    struct service service;
};

static void say(struct complaints *complaints, const struct buffer *reason)
{
    static const struct position at = {"testkit", 0, 0};

    complain(complaints, COMPLAINT_ERROR, at, "%.*s", COORD_FMT(buffer_slice(reason)));
}

static void load_plugins(coord_kit_host *host, const struct coord_kit_host_options *options,
                         const struct settings *settings, struct complaints *complaints)
{
    struct buffer reason = {.limit = 4096};

    loader_load_all(&host->registry, settings, NULL, complaints);
    for (size_t i = 0; options->plugins && options->plugins[i]; i++) {
        buffer_clear(&reason, 0);
        if (registry_add(&host->registry, "", options->plugins[i], &reason) != COORD_OK)
            say(complaints, &reason);
    }
    for (size_t i = 0; options->plugin_files && options->plugin_files[i]; i++) {
        buffer_clear(&reason, 0);
        if (loader_load(&host->registry, options->plugin_files[i], &reason) != COORD_OK)
            say(complaints, &reason);
    }
    buffer_release(&reason);
}

static struct generation *build(coord_kit_host *host, const struct coord_kit_host_options *options,
                                struct complaints *complaints)
{
    struct flag_value flags[MAX_FLAGS];
    struct settings_input input = {
        .path = "testkit.yaml", .flags = flags, .environment = (char **)(uintptr_t)options->environment};
    struct arena arena = {0};
    struct settings *settings;
    struct generation *generation;

    for (const char *const *flag = options->flags; flag && *flag && input.flag_count < MAX_FLAGS; flag += 2)
        flags[input.flag_count++] = (struct flag_value){flag[0], flag[1], "testkit"};
    settings = settings_parse(&arena, coord_slice_of(options->yaml), &input, complaints);
    if (!settings) {
        arena_release(&arena);
        return NULL;
    }
    log_configure((int32_t)settings->log_level, settings->log_format ? LOG_JSON : LOG_TEXT);
    load_plugins(host, options, settings, complaints);
    generation = generation_build(&arena, settings, &host->registry, complaints);
    if (generation && (complaints->errors > 0 || !generation_start(generation, complaints))) {
        generation_free(generation);
        return NULL;
    }
    return generation;
}

static bool start(coord_kit_host *host, const struct coord_kit_host_options *options, struct complaints *complaints)
{
    struct generation *generation = build(host, options, complaints);
    struct buffer reason = {.limit = 4096};
    bool started = generation && service_start(&host->service, generation, &reason) == COORD_OK;

    if (generation && !started) {
        say(complaints, &reason);
        service_release(&host->service);
    }
    buffer_release(&reason);
    return started;
}

static void release(coord_kit_host *host)
{
    log_flush();
    log_set_sink(NULL, NULL);
    registry_release(&host->registry);
    free(host);
    curl_global_cleanup();
}

coord_kit_host *coord_kit_host_start(const struct coord_kit_host_options *options, char *problem, size_t room)
{
    coord_kit_host *host = calloc(1, sizeof *host);
    struct complaints complaints = {0};
    bool started;

    snprintf(problem, room, "memory is short");
    if (!host)
        return NULL;
    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    registry_init(&host->registry);
    log_set_sink(options->log, options->log_context);
    started = start(host, options, &complaints);
    snprintf(problem, room, "%.*s", COORD_FMT(buffer_slice(&complaints.text)));
    complaints_release(&complaints);
    if (started)
        return host;
    release(host);
    return NULL;
}

uint16_t coord_kit_host_port(const coord_kit_host *host) { return host->service.port; }

bool coord_kit_host_stop(coord_kit_host *host)
{
    bool whole = service_drain(&host->service, -1);

    service_release(&host->service);
    release(host);
    return whole;
}

double coord_kit_host_metric(const char *name, const coord_slice *labels) { return metric_value(name, labels); }
