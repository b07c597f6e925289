/*
 * A worker: everything that one reactor owns. And the service: all workers, what they share, and the life of the process.
 *
 * Generations: the main thread makes them and frees them; each worker enters one, takes it for new requests, and leaves it
 * when another has taken its place and nothing that began with it is left. Whatever outlives the call in which it looked at
 * worker->generation holds that generation.
 * Thread: a worker's members belong to its reactor's thread; the service's to the main thread, atomics apart.
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
    _Atomic int system_thread; /* its number for the system, once it runs */
    bool running;              /* its thread is to be joined */
    struct reactor *reactor;
    struct resolver *resolver;
    struct client *client;
    struct fiber_pool *fibers;
    struct server *server;
    struct server *metrics_server; /* on the first worker only */
    struct server_app app, metrics_app;
    int listen_fd, metrics_fd;        /* taken over by the servers */
    struct generation *generation;    /* for new requests */
    struct generation_local *entered; /* every generation that it has not left */
    struct coord_request *live;       /* every request that is not finished */
    struct coord_request *kept;       /* finished ones, their memory kept for the next */
    size_t kept_count, live_count, background_count;
    struct hook lines;  /* sends what the log has gathered */
    struct hook ending; /* stops the reactor once nothing is left to do */
    struct task announce_task, close_task, stop_task, abort_task, name_task;
    struct task over_task; /* to the worker with the metrics server, once this one has ended */
    bool closing;          /* its listener is closed: it ends with its last request; see `left` */
    _Atomic bool over;     /* its thread has ended: what still comes in its mailbox finds nothing to do */
    bool asked;            /* [main thread] to say which steps do not return (lingering.h) … */
    _Atomic bool named;    /* … and it has */
};

struct service {
    struct generation *generation; /* for new requests, and the first of those that are not freed */
    struct worker *workers;
    unsigned worker_count;
    struct server_budget budget;
    struct offload *offload;
    struct watchdog *watchdog;
    struct reactor *reactors[MAX_REACTORS]; /* what the watchdog looks at */
    struct tls_identity *identity, *metrics_identity;
    uint16_t port, metrics_port;
    _Atomic bool ready;   /* loaded, and not draining */
    _Atomic unsigned cut; /* answers cut at shutdown */
    /* Workers that have not ended. The one with the metrics server ends last: until then it says what the others do. */
    _Atomic unsigned left;
    bool hurried; /* a second signal came: the process ends without waiting for its threads */
    bool drained; /* service_drain was called: the workers end by themselves */
    /* Who is told of the steps that do not return, while that is asked (lingering.h). */
    void (*name)(void *context, const struct owner *owner, coord_slice request, bool holds_reactor);
    void *name_context;
    int ended; /* eventfd: a worker's thread has ended */
    int news;  /* eventfd: a worker has answered in a swap, or left a generation (service_tend) */

    pthread_mutex_t lock; /* of what follows: starting up; and of a generation's `refusal` */
    pthread_cond_t changed;
    unsigned started, failed;
    struct buffer reason;
};

/*
 * Binds, starts the workers and waits until each of them serves. COORD_OK, or COORD_FAIL with `reason`; service_release in both cases.
 * `generation` is taken over.
 */
coord_status service_start(struct service *service, struct generation *generation_take, struct buffer *reason);

/*
 * Decision 63: readiness off, drain delay, listeners closed, streams finish, what is left after shutdown_timeout is cut. `again` becomes
 * readable on a second signal: then it returns at once (`hurried`). True: nothing was cut.
 */
bool service_drain(struct service *service, int again);

/* Joins what still runs, stopping it first when it was not drained, and frees everything. */
void service_release(struct service *service);

/*
 * Puts another generation, already started, in the place of the present one: every worker enters it, and only when all have, each
 * takes it for its new requests; returns when the last one does. What began with the old one goes on with it.
 * `ending` becomes readable when the process is to end. COORD_OK; COORD_FAIL with `reason`: a worker could not enter it, or did
 * not in time; COORD_CANCELLED: the process is to end, and the new one is not in use. Unless COORD_OK the old one serves on.
 * `generation` is taken over in any case. [main thread]
 */
coord_status service_swap(struct service *service, struct generation *generation_take, int ending,
                          struct buffer *reason);

/* Takes over the limits that all workers share. */
void service_limit(struct service *service, const struct settings *settings);
/* Gives it its number and shows that in the metrics. */
void service_count_generation(const struct service *service, struct generation *generation, unsigned number);
/* Frees them all; no worker runs any more. */
void service_free_generations(struct service *service);
/* When `news` is readable: frees the generations that no worker is in any more. [main thread] */
void service_tend(struct service *service);

/* A worker's thread: opens, tells of it, runs, closes. `argument` is the worker. */
void *worker_main(void *argument);
/* Tells whoever starts the workers that one of them has opened, or why it could not. */
void worker_report(struct service *service, bool opened, const struct buffer *reason);
/* Sets the tasks that are posted to it. */
void worker_init(struct worker *worker, struct service *service, unsigned index);

/* Prepares the generation's parts for the workers, before any of them enters it. [main thread] */
void worker_prepare(struct service *service, struct generation *generation);

/* Whoever goes on using a generation after the present call holds it, and lets it go when over. [reactor] */
static inline void worker_hold(const struct worker *worker, struct generation *generation)
{
    generation->local[worker->index].users++;
}
void worker_let_go(struct worker *worker, struct generation *generation);

/* What the worker's servers call (front.c, status.c). */
struct server_app front_app(struct worker *worker);
struct server_app status_app(struct worker *worker);

/* Ends the requests that are left on this worker: 503, or decision 53 where bytes were sent. */
void front_stop(struct worker *worker);

#endif
