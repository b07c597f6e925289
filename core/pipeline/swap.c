/* See worker.h. One generation after another: the main thread posts, the workers answer (worker.c), and nothing waits but it.
 *
 * A generation that is not for new requests any more stays in the list until its last worker is done with it. */
#include "pipeline/worker.h"

#include "runtime/clock.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_S = 30 /* a reactor that a step blocks for so long is left out of account */ };

static int64_t clock_ms(void) { return clock_ns() / 1000000; }

void service_limit(struct service *service, const struct settings *settings)
{
    atomic_store(&service->budget.max_requests, settings->server.max_inflight_requests);
    atomic_store(&service->budget.max_bytes, settings->server.max_inflight_bytes);
}

void service_count_generation(const struct service *service, struct generation *generation, unsigned number)
{
    unsigned before = generation == service->generation ? 0 : service->generation->number;

    generation->number = number;
    generation->loaded_at = time(NULL);
    coord_metric_add(families()->config_generation, (double)number - before, NULL);
}

/* Everything behind `*link` that no worker is in. */
static void free_left(struct generation **link)
{
    while (*link) {
        struct generation *generation = *link;

        if (atomic_load(&generation->reactors) > 0) {
            link = &generation->older;
            continue;
        }
        *link = generation->older;
        generation_free(generation);
    }
}

void service_tend(struct service *service)
{
    uint64_t count;

    while (read(service->news, &count, sizeof count) < 0 && errno == EINTR)
        ;
    free_left(&service->generation->older);
}

void service_free_generations(struct service *service)
{
    if (service->generation)
        coord_metric_add(families()->config_generation, -(double)service->generation->number, NULL);
    while (service->generation) {
        struct generation *generation = service->generation;

        service->generation = generation->older;
        generation_free(generation);
    }
}

static void post_all(struct service *service, struct generation *generation, size_t task_offset)
{
    for (unsigned i = 0; i < service->worker_count; i++)
        reactor_post(service->workers[i].reactor, (struct task *)(void *)((char *)&generation->local[i] + task_offset));
}

enum waited { ANSWERED, ENDING, TIMED_OUT };

/* Until all workers have answered, by one of the counts. */
static enum waited wait_answers(struct service *service, const _Atomic unsigned *count, const _Atomic unsigned *other,
                                int ending)
{
    struct pollfd fds[] = {{.fd = service->news, .events = POLLIN}, {.fd = ending, .events = POLLIN}};
    int64_t until = clock_ms() + (int64_t)PATIENCE_S * 1000;

    while (atomic_load(count) + (other ? atomic_load(other) : 0) < service->worker_count) {
        int64_t left = until - clock_ms();
        int ready = left > 0 ? poll(fds, 2, (int)left) : 0;

        if (ready == 0)
            return TIMED_OUT;
        if (ready > 0 && fds[1].revents)
            return ENDING;
        if (ready > 0)
            service_tend(service);
    }
    return ANSWERED;
}

/* Behind the present one, so that it is freed once every worker is done with it. */
static void abandon(struct service *service, struct generation *generation)
{
    generation->older = service->generation->older;
    service->generation->older = generation;
    post_all(service, generation, offsetof(struct generation_local, abandon));
}

static coord_status explain(struct service *service, struct generation *generation, enum waited waited,
                            struct buffer *reason)
{
    pthread_mutex_lock(&service->lock);
    if (waited == ENDING)
        buffer_explain(reason, "the process is to end");
    else if (waited == TIMED_OUT)
        buffer_explain(reason, "a reactor did not take it within %d s: a step blocks it", PATIENCE_S);
    else
        buffer_explain(reason, "%.*s", COORD_FMT(buffer_slice(&generation->refusal)));
    pthread_mutex_unlock(&service->lock);
    return waited == ENDING ? COORD_CANCELLED : COORD_FAIL;
}

coord_status service_swap(struct service *service, struct generation *generation_take, int ending,
                          struct buffer *reason)
{
    struct generation *generation = generation_take;
    enum waited waited;

    worker_prepare(service, generation);
    post_all(service, generation, offsetof(struct generation_local, enter));
    waited = wait_answers(service, &generation->entered, &generation->refused, ending);
    if (waited != ANSWERED || atomic_load(&generation->refused) > 0) {
        coord_status status = explain(service, generation, waited, reason);

        abandon(service, generation);
        return status;
    }
    service_count_generation(service, generation, service->generation->number + 1);
    generation->older = service->generation;
    service->generation = generation;
    service_limit(service, generation->settings);
    post_all(service, generation, offsetof(struct generation_local, serve));
    if (wait_answers(service, &generation->serving, NULL, ending) == TIMED_OUT)
        coord_logf(NULL, COORD_LOG_WARNING, "a reactor that a step blocks still serves the old configuration");
    return COORD_OK;
}
