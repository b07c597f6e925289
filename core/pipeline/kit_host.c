/* See kit_host.h. The same life as `coordinator serve`, without signals and files. */
#include "pipeline/kit_host.h"

#include "pipeline/lingering.h"
#include "pipeline/loader.h"
#include "pipeline/request.h"
#include "runtime/blocks.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

#include <curl/curl.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
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

/* ---- Time ---- */

struct advance {
    struct task task;
    struct reactor *reactor;
    int64_t ns;
    sem_t done;
};

static void advance(struct task *task)
{
    struct advance *job = (struct advance *)((char *)task - offsetof(struct advance, task));

    reactor_advance(job->reactor, job->ns);
    sem_post(&job->done);
}

void coord_kit_host_advance(coord_kit_host *host, int64_t ns)
{
    for (unsigned i = 0; i < host->service.worker_count; i++) {
        struct advance job = {.task.run = advance, .reactor = host->service.workers[i].reactor, .ns = ns};

        sem_init(&job.done, 0, 0);
        reactor_post(job.reactor, &job.task);
        while (sem_wait(&job.done) != 0)
            ;
        sem_destroy(&job.done);
    }
}

/* ---- Who runs ---- */

static void describe(struct coord_kit_running *out, const struct owner *owner, const char *request)
{
    *out = (struct coord_kit_running){0};
    strncpy(out->step, owner->step, sizeof out->step - 1);
    strncpy(out->plugin, owner->plugin, sizeof out->plugin - 1);
    if (request)
        strncpy(out->request, request, sizeof out->request - 1);
}

bool coord_kit_host_running(struct coord_kit_running *running)
{
    struct running now = running_now();

    if (now.owner)
        describe(running, now.owner, now.subject);
    return now.owner != NULL;
}

bool coord_kit_host_holder(coord_kit_host *host, unsigned reactor, struct coord_kit_running *holder, int64_t *since_ns,
                           int *thread)
{
    struct worker *worker = reactor < host->service.worker_count ? &host->service.workers[reactor] : NULL;
    char subject[ACTIVITY_SUBJECT * sizeof(uint64_t)];
    const struct owner *owner;

    if (!worker)
        return false;
    *since_ns = atomic_load(&reactor_activity(worker->reactor)->since_ns);
    if (!reactor_holder(worker->reactor, &owner, subject) || !owner ||
        *since_ns != atomic_load(&reactor_activity(worker->reactor)->since_ns))
        return false;
    describe(holder, owner, subject);
    *thread = atomic_load(&worker->system_thread);
    return true;
}

struct search {
    pthread_mutex_t lock;
    const char *request;
    struct coord_kit_running *step;
    bool found;
};

static void note(void *context, const struct owner *owner, coord_slice request, bool holds_reactor)
{
    struct search *search = context;

    pthread_mutex_lock(&search->lock);
    if (owner && coord_slice_is(request, search->request)) {
        describe(search->step, owner, search->request);
        search->step->parked = !holds_reactor;
        search->found = true;
    }
    pthread_mutex_unlock(&search->lock);
}

bool coord_kit_host_unreturned(coord_kit_host *host, const char *request, struct coord_kit_running *step)
{
    static struct search search = {.lock = PTHREAD_MUTEX_INITIALIZER}; /* a late answer finds it, too */
    int64_t since_ns;
    bool found;
    int thread;

    for (unsigned i = 0; i < host->service.worker_count; i++)
        if (coord_kit_host_holder(host, i, step, &since_ns, &thread) && strcmp(step->request, request) == 0)
            return true;
    pthread_mutex_lock(&search.lock);
    search.request = request;
    search.step = step;
    search.found = false;
    pthread_mutex_unlock(&search.lock);
    lingering_find(&host->service, note, &search);
    pthread_mutex_lock(&search.lock);
    found = search.found;
    search.request = "";
    pthread_mutex_unlock(&search.lock);
    return found;
}

bool coord_kit_host_step(coord_kit_host *host, size_t index, struct coord_kit_running *step)
{
    if (index >= host->service.generation->step_count)
        return false;
    describe(step, host->service.generation->steps[index].owner, NULL);
    return true;
}

/* ---- What is refused, and what moved ---- */

void coord_kit_host_refuse(bool (*refuses)(void))
{
    arena_set_refusal(refuses);
    block_set_refusal(refuses);
}

void coord_kit_host_watch_slots(coord_kit_slot_fn *told, void *context) { request_watch_slots(told, context); }

char *coord_kit_host_metrics(void)
{
    struct buffer page = {0};

    if (metrics_render(&page, false) && buffer_append(&page, "", 1))
        return page.data; /* a buffer's memory is malloc's */
    buffer_release(&page);
    return NULL;
}

double coord_kit_host_metric(const char *name, const coord_slice *labels) { return metric_value(name, labels); }
