/* See worker.h. The main thread's part: it starts the workers, drains them and frees what is left; swap.c has the rest. */
#include "pipeline/worker.h"

#include "http/listen.h"
#include "pipeline/lingering.h"
#include "pipeline/preflight.h"
#include "pipeline/request.h"
#include "runtime/clock.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000, OFFLOAD_QUEUE = 1024, LAST_WORDS_MS = 1000, UNWINDING_MS = 3000 };

/* ---- Starting ---- */

static unsigned count_cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return 1;
    return CPU_COUNT(&set) > 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

static unsigned count_workers(const struct settings *settings)
{
    unsigned wanted = settings->runtime.reactors > 0 ? (unsigned)settings->runtime.reactors : count_cores();

    return wanted < MAX_REACTORS ? wanted : MAX_REACTORS;
}

static bool make_workers(struct service *service)
{
    service->workers = calloc(service->worker_count, sizeof *service->workers);
    if (!service->workers)
        return false;
    for (unsigned i = 0; i < service->worker_count; i++) {
        struct worker *worker = &service->workers[i];

        worker_init(worker, service, i);
        worker->reactor = reactor_new(i);
        if (!worker->reactor)
            return false;
    }
    return true;
}

static bool listen_all(struct service *service, struct buffer *reason)
{
    const struct settings *settings = service->generation->settings;
    int fds[MAX_REACTORS];
    char address[24];

    if (listen_open(settings->server.listen_addr, service->worker_count, fds, reason) != COORD_OK)
        return false;
    for (unsigned i = 0; i < service->worker_count; i++)
        service->workers[i].listen_fd = fds[i];
    service->port = listen_port(fds[0]);
    if (settings->server.metrics_port <= 0) {
        coord_logf(NULL, COORD_LOG_INFO, "metrics endpoint disabled: server.metrics_port is %lld",
                   (long long)settings->server.metrics_port);
        return true;
    }
    snprintf(address, sizeof address, ":%lld", (long long)settings->server.metrics_port);
    if (!buffer_append_text(reason, "metrics server: ") ||
        listen_open(coord_slice_of(address), 1, fds, reason) != COORD_OK)
        return false;
    buffer_clear(reason, SIZE_MAX);
    service->workers[0].metrics_fd = fds[0];
    service->metrics_port = listen_port(fds[0]);
    return true;
}

static void report_reload(void *context, const char *problem)
{
    const char *which = context;

    if (problem)
        coord_logf(NULL, COORD_LOG_ERROR, "certificate of the %s listener not reloaded, the old one stays: %s", which,
                   problem);
    else
        coord_logf(NULL, COORD_LOG_INFO, "certificate of the %s listener reloaded", which);
}

static bool open_tls(struct service *service, struct buffer *reason)
{
    const struct settings *settings = service->generation->settings;
    bool secure = serves_tls(settings);
    struct tls_options options = serving_identity(settings);

    options.reloaded = report_reload;
    options.context = "serving";
    if (tls_check_names(&options, reason) != COORD_OK)
        return false;
    if (secure && options.directory.size == 0)
        coord_logf(NULL, COORD_LOG_WARNING,
                   "server.secure_serving without server.cert_path: serving with a self-signed certificate made at "
                   "start; set server.cert_path");
    if (secure && tls_identity_new(&options, &service->identity, reason) != COORD_OK)
        return false;
    options = metrics_identity(settings);
    options.reloaded = report_reload;
    options.context = "metrics";
    return options.directory.size == 0 || settings->server.metrics_port <= 0 ||
           tls_identity_new(&options, &service->metrics_identity, reason) == COORD_OK;
}

static bool start_thread(struct worker *worker)
{
    struct buffer reason = {.limit = 256};
    int error = pthread_create(&worker->thread, NULL, worker_main, worker);

    worker->running = error == 0;
    if (worker->running)
        return true;
    buffer_explain(&reason, "a worker's thread does not start: %s", strerror(error));
    worker_report(worker->service, false, &reason);
    buffer_release(&reason);
    return false;
}

static bool start_threads(struct service *service)
{
    bool all = true;

    for (unsigned i = 0; i < service->worker_count && all; i++)
        all = start_thread(&service->workers[i]);
    pthread_mutex_lock(&service->lock);
    while (service->failed == 0 && service->started < service->worker_count)
        pthread_cond_wait(&service->changed, &service->lock);
    all = service->failed == 0;
    pthread_mutex_unlock(&service->lock);
    return all;
}

static void report_blocked(void *context, unsigned reactor, const struct owner *owner, int64_t held_ns, bool ended)
{
    coord_slice step = coord_slice_of(owner ? owner->step : "none");
    coord_slice plugin = coord_slice_of(owner ? owner->plugin : "none");

    (void)context;
    if (!ended)
        coord_metric_add(families()->reactor_blocked_total, 1, &step);
    coord_log(NULL, COORD_LOG_WARNING,
              ended ? "the reactor is free again"
                    : "a step blocks its reactor: let it use coord_offload for what blocks",
              (coord_field[]){LOG_TEXT_FIELD("step", step), LOG_TEXT_FIELD("plugin", plugin),
                              LOG_INT_FIELD("reactor", reactor), LOG_SECONDS_FIELD("seconds", held_ns)},
              4);
}

static bool start_watchdog(struct service *service)
{
    if (service->generation->settings->runtime.blocking_warning_ns <= 0)
        return true;
    for (unsigned i = 0; i < service->worker_count; i++)
        service->reactors[i] = service->workers[i].reactor;
    service->watchdog = watchdog_new(service->reactors, service->worker_count,
                                     service->generation->settings->runtime.blocking_warning_ns, report_blocked, NULL);
    return service->watchdog != NULL;
}

static void log_start(const struct service *service)
{
    coord_log(NULL, COORD_LOG_INFO, "started",
              (coord_field[]){LOG_TEXT_FIELD("version", coord_slice_of(COORD_VERSION)),
                              LOG_TEXT_FIELD("address", service->generation->settings->server.listen_addr),
                              LOG_INT_FIELD("port", service->port),
                              LOG_INT_FIELD("metrics_port", service->metrics_port),
                              LOG_INT_FIELD("reactors", service->worker_count),
                              LOG_INT_FIELD("steps", service->generation->step_count),
                              LOG_BOOL_FIELD("tls", service->identity != NULL)},
              7);
}

coord_status service_start(struct service *service, struct generation *generation_take, struct buffer *reason)
{
    const struct settings *settings = generation_take->settings;

    *service = (struct service){.generation = generation_take, .ended = -1, .news = -1, .reason.limit = 4096};
    log_set_request_id(coord_request_id);
    pthread_mutex_init(&service->lock, NULL);
    pthread_cond_init(&service->changed, NULL);
    service->worker_count = count_workers(settings);
    atomic_store(&service->left, service->worker_count);
    service_limit(service, settings);
    service->ended = eventfd(0, EFD_CLOEXEC);
    service->news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listen_raise_descriptors();
    fiber_crash_install();
    service->offload = offload_new((unsigned)settings->runtime.offload_threads, OFFLOAD_QUEUE);
    if (service->ended < 0 || service->news < 0 || !service->offload || !make_workers(service))
        return buffer_explain(reason, "the service does not start: memory or descriptors are short"), COORD_FAIL;
    worker_prepare(service, generation_take);
    if (!open_tls(service, reason) || !listen_all(service, reason))
        return COORD_FAIL;
    service_count_generation(service, generation_take, 1);
    if (!start_threads(service))
        return buffer_explain(reason, "%.*s", COORD_FMT(buffer_slice(&service->reason))), COORD_FAIL;
    if (!start_watchdog(service))
        return buffer_explain(reason, "the watchdog does not start: no thread or memory for it"), COORD_FAIL;
    atomic_store(&service->ready, true);
    log_start(service);
    return COORD_OK;
}

/* ---- Ending ---- */

/* What poll(2) takes of the time that is left; of a very long time it has to be asked again. */
static int left_ms(int64_t since_ns, int64_t timeout_ns)
{
    int64_t left = timeout_ns - (clock_ns() - since_ns);

    return left <= 0 ? 0 : left / MS >= INT_MAX ? INT_MAX : (int)((left + MS - 1) / MS);
}

/* Waits until all workers' threads have ended. False: `again` became readable, or the time is over (`*timed_out`). */
static bool wait_ended(struct service *service, unsigned *ended, int again, int64_t timeout_ns, bool *timed_out)
{
    struct pollfd fds[] = {{.fd = service->ended, .events = POLLIN}, {.fd = again, .events = POLLIN}};
    int64_t since = clock_ns();

    *timed_out = false;
    while (*ended < service->worker_count) {
        uint64_t count;
        int ready = poll(fds, 2, left_ms(since, timeout_ns));

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0) {
            *timed_out = true;
            return false;
        }
        if (fds[1].revents)
            return false;
        if (read(service->ended, &count, sizeof count) == (ssize_t)sizeof count)
            *ended += (unsigned)count;
    }
    return true;
}

static bool wait_delay(int again, int64_t delay_ns)
{
    struct pollfd fd = {.fd = again, .events = POLLIN};
    int64_t since = clock_ns();
    int left, ready = 0;

    while (ready <= 0 && (left = left_ms(since, delay_ns)) > 0)
        ready = poll(&fd, 1, left);
    return ready <= 0;
}

static void post_all(struct service *service, size_t task_offset)
{
    for (unsigned i = 0; i < service->worker_count; i++)
        reactor_post(service->workers[i].reactor, (struct task *)((char *)&service->workers[i] + task_offset));
}

static bool hurry(struct service *service)
{
    service->hurried = true;
    coord_logf(NULL, COORD_LOG_WARNING, "ending at once: a second signal came");
    return false;
}

/* The last line: how it went. */
static bool drained(const struct service *service, int64_t since_ns)
{
    unsigned cut = atomic_load(&service->cut);

    coord_log(NULL, COORD_LOG_INFO, "drained",
              (coord_field[]){LOG_INT_FIELD("cut", cut), LOG_SECONDS_FIELD("seconds", clock_ns() - since_ns)}, 2);
    return cut == 0;
}

bool service_drain(struct service *service, int again)
{
    const struct settings *settings = service->generation->settings;
    int64_t since = clock_ns();
    unsigned ended = 0;
    bool timed_out;

    service->drained = true;
    atomic_store(&service->ready, false);
    coord_logf(NULL, COORD_LOG_INFO, "draining: streams have %lld ms to finish",
               (long long)(settings->server.shutdown_timeout_ns / MS));
    post_all(service, offsetof(struct worker, announce_task));
    if (!wait_delay(again, settings->server.drain_delay_ns))
        return hurry(service);
    post_all(service, offsetof(struct worker, close_task));
    if (wait_ended(service, &ended, again, settings->server.shutdown_timeout_ns, &timed_out))
        return drained(service, since);
    if (!timed_out)
        return hurry(service);
    post_all(service, offsetof(struct worker, stop_task));
    if (!wait_ended(service, &ended, again, (int64_t)LAST_WORDS_MS * MS, &timed_out) && timed_out) {
        post_all(service, offsetof(struct worker, abort_task));
        wait_ended(service, &ended, again, (int64_t)UNWINDING_MS * MS, &timed_out);
    }
    if (ended < service->worker_count && timed_out)
        lingering_report(service);
    coord_logf(NULL, COORD_LOG_WARNING, "%u answers were cut: they did not finish within server.shutdown_timeout",
               atomic_load(&service->cut));
    return drained(service, since);
}

/* Joins the threads that have said that they end; false when one does not within a second. */
static bool join_all(struct service *service)
{
    struct timespec deadline;

    clock_gettime(CLOCK_REALTIME, &deadline);
    deadline.tv_sec++;
    for (unsigned i = 0; i < service->worker_count; i++)
        if (service->workers[i].running) {
            if (pthread_timedjoin_np(service->workers[i].thread, NULL, &deadline) != 0)
                return false;
            service->workers[i].running = false;
        }
    return true;
}

void service_release(struct service *service)
{
    for (unsigned i = 0; !service->drained && service->workers && i < service->worker_count; i++)
        if (service->workers[i].running)
            reactor_stop(service->workers[i].reactor);
    watchdog_free(service->watchdog);
    if (service->workers && !join_all(service)) {
        log_flush();
        _exit(1); /* a thread is stuck in a step: nothing can be freed under it */
    }
    offload_free(service->offload);
    for (unsigned i = 0; service->workers && i < service->worker_count; i++)
        if (service->workers[i].reactor)
            reactor_turn(service->workers[i].reactor,
                         0);           /* what the main thread posted too late: it is a generation's */
    service_free_generations(service); /* before the reactors: threads of steps may post to them until `stop` */
    for (unsigned i = 0; service->workers && i < service->worker_count; i++) {
        struct worker *worker = &service->workers[i];

        if (worker->listen_fd >= 0)
            close(worker->listen_fd);
        if (worker->metrics_fd >= 0)
            close(worker->metrics_fd);
        if (worker->reactor)
            reactor_turn(worker->reactor, 0); /* what was posted after its thread had ended: events are freed there */
        reactor_free(worker->reactor);
    }
    free(service->workers);
    tls_identity_free(service->identity);
    tls_identity_free(service->metrics_identity);
    buffer_release(&service->reason);
    if (service->ended >= 0)
        close(service->ended);
    if (service->news >= 0)
        close(service->news);
    pthread_cond_destroy(&service->changed);
    pthread_mutex_destroy(&service->lock);
}
