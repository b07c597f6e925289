/* See lingering.h. */
#include "pipeline/lingering.h"

#include "pipeline/request.h"
#include "telemetry/log.h"

#include <stdatomic.h>
#include <time.h>

enum { MOST = 16, ANSWER_MS = 500 };

static void log_it(void *context, const struct owner *owner, coord_slice request, bool holds_reactor)
{
    (void)context;
    coord_log(NULL, COORD_LOG_ERROR,
              holds_reactor ? "a step did not return after its request was cancelled and holds its reactor: let it use "
                              "coord_offload for what blocks, and return COORD_CANCELLED"
                            : "a step did not return after its request was cancelled: let what it waits for end, and "
                              "return COORD_CANCELLED",
              (coord_field[]){LOG_TEXT_FIELD("step", coord_slice_of(owner ? owner->step : "none")),
                              LOG_TEXT_FIELD("plugin", coord_slice_of(owner ? owner->plugin : "none")),
                              LOG_TEXT_FIELD("request_id", request)},
              3);
}

/* On the worker's thread. */
static void name_parked(struct task *task)
{
    struct worker *worker = (struct worker *)((char *)task - offsetof(struct worker, name_task));
    struct service *service = worker->service;
    size_t said = 0;

    for (const struct coord_request *request = worker->live; request; request = request->next) {
        struct running who = request->fiber ? fiber_running(request->fiber) : (struct running){0};

        if (who.owner && said++ < MOST)
            service->name(service->name_context, who.owner, request->id, false);
    }
    if (said > MOST)
        coord_logf(NULL, COORD_LOG_ERROR, "%zu more steps did not return", said - MOST);
    atomic_store(&worker->named, true);
}

static void name_holder(struct worker *worker)
{
    char subject[ACTIVITY_SUBJECT * sizeof(uint64_t)];
    const struct owner *owner;

    if (reactor_holder(worker->reactor, &owner, subject))
        worker->service->name(worker->service->name_context, owner, coord_slice_of(subject), true);
}

static bool has_said(const struct worker *worker) { return atomic_load(&worker->over) || atomic_load(&worker->named); }

void lingering_report(struct service *service) { lingering_find(service, log_it, NULL); }

void lingering_find(struct service *service, lingering_fn *say, void *context)
{
    static const struct timespec pause = {.tv_nsec = 5000000};
    int tries = ANSWER_MS / 5;

    service->name = say;
    service->name_context = context;
    for (unsigned i = 0; i < service->worker_count; i++) {
        struct worker *worker = &service->workers[i];

        if (atomic_load(&worker->over) || (worker->asked && !atomic_load(&worker->named)))
            continue; /* the task is still on its way */
        worker->asked = true;
        atomic_store(&worker->named, false);
        worker->name_task.run = name_parked;
        reactor_post(worker->reactor, &worker->name_task);
    }
    for (unsigned i = 0; i < service->worker_count; i++) {
        while (!has_said(&service->workers[i]) && tries-- > 0)
            nanosleep(&pause, NULL);
        if (!has_said(&service->workers[i]))
            name_holder(&service->workers[i]);
    }
}
