/* See worker.h. A worker's thread: its life, the generations that it enters and leaves, and what the main thread posts to it. */
#include "pipeline/worker.h"

#include "pipeline/request.h"
#include "telemetry/log.h"

#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

enum { CONNECTIONS_WITHOUT_LIMIT = 65536 };

/* Tasks that the main thread posts may come when the worker has ended by itself: its servers are NULL then. */

static bool idle(const struct worker *worker)
{
    return worker->live_count == 0 && server_exchanges(worker->server) == 0 &&
           (!worker->metrics_server || server_exchanges(worker->metrics_server) == 0);
}

/* Probes and metrics are answered until the last request of the whole process is over. */
static bool answers_for_others(const struct worker *worker)
{
    return worker->metrics_server && atomic_load(&worker->service->left) > 1;
}

static bool check_ending(struct hook *hook)
{
    struct worker *worker = (struct worker *)((char *)hook - offsetof(struct worker, ending));

    if (worker->closing && idle(worker) && !answers_for_others(worker))
        reactor_stop(worker->reactor);
    return false;
}

/* A turn of the reactor, in which check_ending looks again, is all that it takes. */
static void look_again(struct task *task) { (void)task; }

static void tell_over(struct worker *worker)
{
    struct worker *first = &worker->service->workers[0];

    atomic_fetch_sub(&worker->service->left, 1);
    if (worker != first)
        reactor_post(first->reactor, &worker->over_task);
}

/* Once a turn, after all that writes lines. */
static bool send_lines(struct hook *hook)
{
    (void)hook;
    log_send();
    return false;
}

static void announce(struct task *task)
{
    struct worker *worker = (struct worker *)((char *)task - offsetof(struct worker, announce_task));

    if (worker->server)
        server_announce_close(worker->server);
}

static void close_listener(struct task *task)
{
    struct worker *worker = (struct worker *)((char *)task - offsetof(struct worker, close_task));

    if (worker->server)
        server_close_listener(worker->server);
    worker->closing = true;
}

/* Requests get their last words (decision 53). */
static void stop_rest(struct task *task)
{
    struct worker *worker = (struct worker *)((char *)task - offsetof(struct worker, stop_task));

    if (!worker->server)
        return;
    atomic_fetch_add(&worker->service->cut, (unsigned)server_exchanges(worker->server));
    worker->closing = true;
    front_stop(worker);
}

/* What is left then: clients that do not take them, passthrough. */
static void abort_rest(struct task *task)
{
    struct worker *worker = (struct worker *)((char *)task - offsetof(struct worker, abort_task));

    if (worker->server)
        server_abort_all(worker->server);
    if (worker->metrics_server)
        server_abort_all(worker->metrics_server);
}

static struct server_options server_options(const struct worker *worker, bool metrics)
{
    const struct settings *settings = worker->generation->settings;
    unsigned workers = worker->service->worker_count;
    uint64_t connections =
        settings->server.max_connections ? settings->server.max_connections : CONNECTIONS_WITHOUT_LIMIT;

    return (struct server_options){
        .listen_fd = metrics ? worker->metrics_fd : worker->listen_fd,
        .tls = metrics ? worker->service->metrics_identity : worker->service->identity,
        .connection_memory = settings->server.connection_memory,
        .connection_limit = metrics ? 64 : (unsigned)((connections + workers - 1) / workers),
        .max_body = settings->server.max_request_body_size,
        .output_high = settings->response.buffer_high,
        .output_low = settings->response.buffer_low,
        .read_timeout_ns = settings->server.read_timeout_ns,
        .write_timeout_ns = settings->server.write_timeout_ns,
        .keep_half_closed = settings->server.keep_half_closed,
        .budget = metrics ? NULL : &worker->service->budget,
    };
}

/* ---- Generations ---- */

#define LOCAL_OF(task, member)                                                                                         \
    ((struct generation_local *)(void *)((char *)(task) - offsetof(struct generation_local, member)))

static void tell_news(const struct service *service)
{
    uint64_t one = 1;

    while (write(service->news, &one, sizeof one) < 0 && errno == EINTR)
        ;
}

/* Nothing of this reactor touches the generation after this. */
static void be_done_with(struct generation_local *local)
{
    const struct service *service = local->worker->service;

    if (atomic_fetch_sub(&local->generation->reactors, 1) == 1)
        tell_news(service);
}

static bool enter_generation(struct generation_local *local, struct buffer *reason)
{
    struct worker *worker = local->worker;

    if (!generation_enter(local->generation, worker->client, worker->index, reason))
        return false;
    local->next = worker->entered;
    worker->entered = local;
    return true;
}

static void leave_generation(struct generation_local *local)
{
    struct generation_local **link = &local->worker->entered;

    while (*link != local)
        link = &(*link)->next;
    *link = local->next;
    reactor_undefer(local->worker->reactor, &local->leave);
    generation_leave(local->generation, local->worker->index);
    be_done_with(local);
}

/* A task of its own: whoever let go last may still be inside of a leg's event or on a fiber. */
static void leave_later(struct generation_local *local) { reactor_defer(local->worker->reactor, &local->leave); }

void worker_let_go(struct worker *worker, struct generation *generation)
{
    struct generation_local *local = &generation->local[worker->index];

    assert(local->users > 0);
    if (--local->users == 0 && worker->generation != generation)
        leave_later(local);
}

static void keep_refusal(struct generation_local *local, const struct buffer *reason)
{
    struct service *service = local->worker->service;
    struct buffer *refusal = &local->generation->refusal;

    pthread_mutex_lock(&service->lock);
    if (refusal->size == 0)
        buffer_explain(refusal, "%.*s", COORD_FMT(buffer_slice(reason)));
    pthread_mutex_unlock(&service->lock);
}

static void on_enter(struct task *task)
{
    struct generation_local *local = LOCAL_OF(task, enter);
    struct worker *worker = local->worker;
    struct buffer reason = {.limit = 4096};

    if (!worker->over && enter_generation(local, &reason)) {
        atomic_fetch_add(&local->generation->entered, 1);
    } else {
        keep_refusal(local, &reason);
        atomic_fetch_add(&local->generation->refused, 1);
    }
    tell_news(worker->service);
    buffer_release(&reason);
}

static void on_serve(struct task *task)
{
    struct generation_local *local = LOCAL_OF(task, serve);
    struct worker *worker = local->worker;
    struct generation *old = worker->generation;
    struct server_options options;

    if (!worker->over) {
        worker->generation = local->generation;
        if (old->local[worker->index].users == 0)
            leave_later(&old->local[worker->index]);
        options = server_options(worker, false);
        server_adjust(worker->server, &options);
        if (worker->metrics_server)
            server_adjust(worker->metrics_server, &options);
    }
    atomic_fetch_add(&local->generation->serving, 1);
    tell_news(worker->service);
}

static void on_abandon(struct task *task)
{
    struct generation_local *local = LOCAL_OF(task, abandon);

    if (local->entered)
        leave_generation(local);
    else
        be_done_with(local);
}

static void on_leave(struct task *task) { leave_generation(LOCAL_OF(task, leave)); }

void worker_prepare(struct service *service, struct generation *generation)
{
    atomic_store(&generation->reactors, service->worker_count);
    for (unsigned i = 0; i < service->worker_count; i++) {
        struct generation_local *local = &generation->local[i];

        local->worker = &service->workers[i];
        local->generation = generation;
        local->enter.run = on_enter;
        local->serve.run = on_serve;
        local->abandon.run = on_abandon;
        local->leave.run = on_leave;
    }
}

/* ---- Opening and closing ---- */

static bool open_server(struct worker *worker, bool metrics, struct server **server, struct buffer *reason)
{
    struct server_options options = server_options(worker, metrics);
    struct server_app *app = metrics ? &worker->metrics_app : &worker->app;
    const char *why = "memory is short";

    *app = metrics ? status_app(worker) : front_app(worker);
    *server = server_new(worker->reactor, &options, app, &why);
    return *server || buffer_explain(reason, "the HTTP server does not start: %s", why);
}

static bool open_worker(struct worker *worker, struct buffer *reason)
{
    struct generation *generation = worker->service->generation;
    const struct settings *settings = generation->settings;
    char *servers = settings->runtime.name_servers.size > 0
                        ? strndup(settings->runtime.name_servers.data, settings->runtime.name_servers.size)
                        : NULL;

    worker->resolver = resolver_new(worker->reactor, servers);
    free(servers);
    worker->client = worker->resolver ? client_new(worker->reactor, worker->resolver) : NULL;
    worker->fibers = fiber_pool_new(worker->reactor, settings->runtime.fiber_stack);
    if (!worker->client || !worker->fibers)
        return buffer_explain(reason, "a worker does not start: %s",
                              worker->resolver ? "memory is short" : "c-ares refuses runtime.name_servers");
    if (!enter_generation(&generation->local[worker->index], reason))
        return false;
    worker->generation = generation;
    if (!open_server(worker, false, &worker->server, reason))
        return false;
    worker->listen_fd = -1;
    if (worker->metrics_fd >= 0 && !open_server(worker, true, &worker->metrics_server, reason))
        return false;
    worker->metrics_fd = -1;
    worker->lines.run = send_lines;
    reactor_hook(worker->reactor, &worker->lines);
    worker->ending.run = check_ending;
    reactor_hook(worker->reactor, &worker->ending);
    return true;
}

static void free_kept(struct worker *worker)
{
    while (worker->kept) {
        struct coord_request *request = worker->kept;

        worker->kept = request->next;
        arena_release(&request->arena);
        free(request);
    }
}

static void close_worker(struct worker *worker)
{
    reactor_unhook(worker->reactor, &worker->lines);
    reactor_unhook(worker->reactor, &worker->ending);
    if (worker->index == 0 && worker->service->identity)
        tls_identity_unwatch(worker->service->identity);
    if (worker->index == 0 && worker->service->metrics_identity)
        tls_identity_unwatch(worker->service->metrics_identity);
    server_free(worker->server);
    server_free(worker->metrics_server);
    worker->server = worker->metrics_server = NULL;
    while (worker->entered)
        leave_generation(worker->entered);
    worker->generation = NULL;
    client_free(worker->client);
    resolver_free(worker->resolver);
    fiber_pool_free(worker->fibers);
    free_kept(worker);
    atomic_store(&worker->over, true);
}

void worker_report(struct service *service, bool opened, const struct buffer *reason)
{
    pthread_mutex_lock(&service->lock);
    if (opened)
        service->started++;
    else if (service->failed++ == 0)
        buffer_explain(&service->reason, "%.*s", COORD_FMT(buffer_slice(reason)));
    pthread_cond_signal(&service->changed);
    pthread_mutex_unlock(&service->lock);
}

void worker_init(struct worker *worker, struct service *service, unsigned index)
{
    *worker = (struct worker){.service = service, .index = index, .listen_fd = -1, .metrics_fd = -1};
    worker->announce_task.run = announce;
    worker->close_task.run = close_listener;
    worker->stop_task.run = stop_rest;
    worker->abort_task.run = abort_rest;
    worker->over_task.run = look_again;
}

void *worker_main(void *argument)
{
    struct worker *worker = argument;
    struct service *service = worker->service;
    struct buffer reason = {.limit = 4096};
    bool opened = fiber_crash_thread() && open_worker(worker, &reason);
    uint64_t one = 1;

    atomic_store(&worker->system_thread, gettid());
    if (opened && worker->index == 0) {
        if (service->identity)
            tls_identity_watch(service->identity, worker->reactor);
        if (service->metrics_identity)
            tls_identity_watch(service->metrics_identity, worker->reactor);
    }
    worker_report(service, opened, &reason);
    if (opened) {
        log_gather();
        reactor_run(worker->reactor);
        log_gather_end();
    }
    close_worker(worker);
    tell_over(worker);
    buffer_release(&reason);
    fiber_crash_thread_end();
    while (write(service->ended, &one, sizeof one) < 0 && errno == EINTR)
        ;
    return NULL;
}
