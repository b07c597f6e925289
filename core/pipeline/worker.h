/*
 * A worker: everything that one reactor owns. And the service: all workers, what they share, and the life of the process.
 *
 * Thread: a worker's members belong to its reactor's thread; the service's are set at [load], atomics apart.
 */
#ifndef PIPELINE_WORKER_H
#define PIPELINE_WORKER_H

#include "http/server.h"
#include "http/tls.h"
#include "pipeline/generation.h"
#include "runtime/fiber.h"
#include "runtime/offload.h"
#include "runtime/watchdog.h"

#include <pthread.h>

struct coord_request;
struct service;

enum { BACKGROUND_LIMIT = 1024, KEPT_REQUESTS = 64 };

struct worker {
    struct service *service;
    unsigned index;
    pthread_t thread;
    struct reactor *reactor;
    struct resolver *resolver;
    struct client *client;
    struct fiber_pool *fibers;
    struct server *server;
    struct server *metrics_server; /* on the first worker only */
    struct server_app app, metrics_app;
    struct generation *generation; /* for new requests */
    struct coord_request *live;    /* every request that is not finished */
    struct coord_request *kept;    /* finished ones, their memory kept for the next */
    size_t kept_count, live_count, background_count, passthrough_count;
    struct task drain_task, abort_task, close_task, stop_task;
    struct timer drain_timer;
    bool draining, aborting;
};

struct service {
    struct registry registry;
    const struct settings *settings; /* of the first generation: listeners, reactors, limits */
    struct generation *generation;
    struct worker *workers;
    unsigned worker_count;
    struct server_budget budget;
    struct offload *offload;
    struct watchdog *watchdog;
    struct tls_identity *identity, *metrics_identity;
    uint16_t port, metrics_port;
    _Atomic bool ready;     /* loaded, and not draining */
    _Atomic bool draining;
    _Atomic bool stopping;  /* parked calls say COORD_CANCELLED */
    _Atomic unsigned cut;   /* answers cut at shutdown */
    int stop_event;         /* eventfd: a worker has something to say to the main thread */
};

/*
 * Loads everything and starts the workers. COORD_OK; COORD_INVALID: configuration errors (complaints); COORD_FAIL: it could not
 * start (complaints say why).
 */
coord_status service_start(struct service *service, struct generation *generation, struct complaints *complaints);

/* SIGTERM: readiness off, drain, then stop; returns when every worker has ended. `again`: descriptor that is readable on a second signal. True: nothing was cut. */
bool service_drain(struct service *service, int again);
void service_release(struct service *service);

/* The exchange's side: what the worker's servers call (front.c, status.c). */
struct server_app front_app(struct worker *worker);
struct server_app status_app(struct worker *worker);

/* Cuts or cancels everything that is left on this worker. */
void front_stop(struct worker *worker);

#endif
