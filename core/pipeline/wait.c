/* Parking for other things than legs (coordinator/wait.h). */
#include "pipeline/request.h"

#include "pipeline/worker.h"

#include <coordinator/wait.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

/* A timer that wakes a request's fiber. */
struct alarm {
    struct timer timer; /* first member */
    struct coord_request *request;
    bool rang;
};

static void ring(struct timer *timer)
{
    struct alarm *alarm = (struct alarm *)timer;

    alarm->rang = true;
    request_wake(alarm->request);
}

static void alarm_set(struct alarm *alarm, struct coord_request *request, int64_t delay_ns)
{
    *alarm = (struct alarm){.timer.due = ring, .request = request};
    if (delay_ns >= 0)
        reactor_arm(request->worker->reactor, &alarm->timer, delay_ns);
}

static void alarm_off(struct alarm *alarm) { reactor_disarm(alarm->request->worker->reactor, &alarm->timer); }

coord_status coord_sleep(coord_request *request, int64_t nanoseconds)
{
    struct alarm alarm;

    alarm_set(&alarm, request, nanoseconds > 0 ? nanoseconds : 0);
    while (!alarm.rang && !request_stopped(request))
        request_park(request);
    alarm_off(&alarm);
    return request_stopped(request) ? COORD_CANCELLED : COORD_OK;
}

struct descriptor_wait {
    struct watch watch; /* first member */
    struct coord_request *request;
    uint32_t ready;
    int copy; /* of a descriptor that another request waits for on this reactor; -1: none */
};

static void descriptor_ready(struct watch *watch, uint32_t events)
{
    struct descriptor_wait *wait = (struct descriptor_wait *)watch;

    wait->ready = events;
    reactor_unwatch(wait->request->worker->reactor, watch);
    request_wake(wait->request);
}

/* epoll takes a descriptor once; who comes second watches a copy, which stands for the same open file. */
static bool descriptor_watch(struct descriptor_wait *wait, int fd, uint32_t wanted)
{
    struct reactor *reactor = wait->request->worker->reactor;

    if (reactor_watch(reactor, &wait->watch, fd, wanted))
        return true;
    if (errno != EEXIST)
        return false;
    wait->copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    return wait->copy >= 0 && reactor_watch(reactor, &wait->watch, wait->copy, wanted);
}

static void descriptor_unwatch(struct descriptor_wait *wait)
{
    reactor_unwatch(wait->request->worker->reactor, &wait->watch);
    if (wait->copy >= 0)
        close(wait->copy);
}

static int32_t descriptor_events(uint32_t ready)
{
    return (ready & (EPOLLIN | EPOLLHUP | EPOLLERR | EPOLLRDHUP) ? COORD_READABLE : 0) |
           (ready & (EPOLLOUT | EPOLLERR | EPOLLHUP) ? COORD_WRITABLE : 0);
}

coord_status coord_wait_fd(coord_request *request, int fd, int32_t events, int64_t timeout_ns, int32_t *ready)
{
    struct descriptor_wait wait = {.watch.ready = descriptor_ready, .request = request, .copy = -1};
    uint32_t wanted = (events & COORD_READABLE ? EPOLLIN : 0u) | (events & COORD_WRITABLE ? EPOLLOUT : 0u);
    struct alarm alarm;

    if (wanted == 0 || !descriptor_watch(&wait, fd, wanted)) {
        descriptor_unwatch(&wait);
        return COORD_INVALID;
    }
    alarm_set(&alarm, request, timeout_ns);
    while (!wait.ready && !alarm.rang && !request_stopped(request))
        request_park(request);
    alarm_off(&alarm);
    descriptor_unwatch(&wait);
    if (request_stopped(request))
        return COORD_CANCELLED;
    if (!wait.ready)
        return COORD_END;
    if (ready)
        *ready = descriptor_events(wait.ready);
    return COORD_OK;
}

/*
 * An event outlives its request when a poster still holds it. `posted` is set by any thread; the reactor's task carries it to
 * the waiter, if there still is one.
 */
struct coord_event {
    atomic_uint references;
    atomic_bool posted;
    atomic_bool on_its_way; /* the task is with the reactor */
    struct reactor *reactor;
    struct task task;
    struct coord_request *request; /* [reactor]; valid while `waiting` */
    bool waiting;
};

static void event_slot_destroy(void *value) { coord_event_unref(value); }

static void event_arrives(struct task *task)
{
    struct coord_event *event = (struct coord_event *)((char *)task - offsetof(struct coord_event, task));

    atomic_store(&event->on_its_way, false);
    if (event->waiting)
        request_wake(event->request);
    coord_event_unref(event);
}

coord_event *coord_event_new(coord_request *request)
{
    struct coord_event *event = calloc(1, sizeof *event);
    coord_slot_type *type = coord_request_alloc(request, sizeof *type);

    if (!event || !type)
        goto fail;
    *type = (coord_slot_type){.size = sizeof *type, .name = "event", .destroy = event_slot_destroy};
    atomic_init(&event->references, 1);
    event->reactor = request->worker->reactor;
    event->request = request;
    event->task.run = event_arrives;
    if (coord_request_set_slot(request, type, event) == COORD_OK)
        return event;
fail:
    free(event);
    return NULL;
}

void coord_event_ref(coord_event *event) { atomic_fetch_add(&event->references, 1); }

void coord_event_unref(coord_event *event)
{
    if (atomic_fetch_sub(&event->references, 1) == 1)
        free(event);
}

void coord_event_post(coord_event *event)
{
    atomic_store(&event->posted, true);
    if (atomic_exchange(&event->on_its_way, true))
        return;
    coord_event_ref(event); /* the task's */
    reactor_post(event->reactor, &event->task);
}

coord_status coord_event_wait(coord_event *event, int64_t timeout_ns)
{
    struct coord_request *request = event->request;
    struct alarm alarm;
    bool posted;

    alarm_set(&alarm, request, timeout_ns);
    event->waiting = true;
    while (!(posted = atomic_exchange(&event->posted, false)) && !alarm.rang && !request_stopped(request))
        request_park(request);
    event->waiting = false;
    alarm_off(&alarm);
    if (request_stopped(request))
        return COORD_CANCELLED;
    return posted ? COORD_OK : COORD_END;
}

/* Blocking work. The job lies on the fiber's stack, which stays: the fiber waits for it in any case. */
struct blocking {
    struct offload_job job; /* first member */
    struct coord_request *request;
    void (*function)(void *argument);
    void *argument;
    struct running owner; /* whose step asked for it */
    bool over;
};

static void blocking_run(struct offload_job *job)
{
    struct blocking *blocking = (struct blocking *)job;
    struct running before = running_set(blocking->owner);

    blocking->function(blocking->argument);
    running_set(before);
}

static void blocking_done(struct offload_job *job)
{
    struct blocking *blocking = (struct blocking *)job;

    blocking->over = true;
    request_wake(blocking->request);
}

coord_status coord_offload(coord_request *request, void (*function)(void *argument), void *argument)
{
    struct offload *pool = request->worker->service->offload;
    struct blocking blocking = {.job = {.run = blocking_run, .done = blocking_done},
                                .request = request,
                                .function = function,
                                .argument = argument,
                                .owner = running_now()};

    if (request_stopped(request))
        return COORD_CANCELLED;
    if (!offload_submit(pool, request->worker->reactor, &blocking.job))
        return COORD_LIMIT;
    while (!blocking.over) {
        if (request_stopped(request) && offload_cancel(pool, &blocking.job))
            return COORD_CANCELLED;
        request_park(request);
    }
    return request_stopped(request) || !blocking.job.ran ? COORD_CANCELLED : COORD_OK;
}
