/* See idle.h. */
#include "idle.h"

#include "account.h"
#include "load.h"
#include "process.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SETTLE_S = 5, WINDOW_S = 10, START_AT_MOST_S = 10, LOOK_AGAIN_US = 200 };

static const int64_t second = 1000000000;

static void wait_ns(int64_t ns)
{
    struct timespec wait = {.tv_sec = ns / second, .tv_nsec = ns % second};

    nanosleep(&wait, NULL);
}

static bool becomes_ready(const struct fleet *fleet, int64_t until_ns)
{
    while (!process_answers(fleet->port, "/readyz")) {
        if (now_ns() > until_ns)
            return false;
        wait_ns(LOOK_AGAIN_US * 1000);
    }
    return true;
}

static bool answers_a_request(const struct fleet *fleet, const struct bodies *bodies)
{
    struct load_plan plan = {.port = fleet->port,
                             .connections = 1,
                             .requests = 1,
                             .answer_length = (int64_t)bodies->answered[DECODE].length,
                             .deadline_ns = now_ns() + START_AT_MOST_S * second};
    struct load_result result;
    char *request =
        load_request_new(bodies->path, NULL, bodies->client.bytes, bodies->client.length, &plan.request_length);
    bool whole;

    plan.request = request;
    whole = load_run(&plan, &result) && result.errors == 0;
    samples_release(&result.latency);
    free(request);
    return whole;
}

static void watch_idle(const struct fleet *fleet, struct idle_result *result)
{
    int64_t began_ns, sleeps;

    wait_ns(SETTLE_S * second);
    began_ns = now_ns();
    sleeps = account_sleeps(fleet->target);
    wait_ns(WINDOW_S * second);
    result->wakes = (double)(account_sleeps(fleet->target) - sleeps) / ((double)(now_ns() - began_ns) / 1e9);
    result->resident_mib = (double)account_resident(fleet->target) / (1 << 20);
}

bool idle_run(struct fleet *fleet, const struct fleet_plan *plan, const struct bodies *bodies,
              struct idle_result *result)
{
    int64_t began_ns;

    if (!fleet_start_worker(fleet, plan))
        return false;
    began_ns = now_ns();
    if (!fleet_start_target(fleet, plan) || !becomes_ready(fleet, began_ns + START_AT_MOST_S * second)) {
        fprintf(stderr, "bench: %s did not come up, see the logs in %s\n", target_names[plan->target],
                plan->places->out);
        return false;
    }
    result->ready_ms = (double)(now_ns() - began_ns) / 1e6;
    if (!answers_a_request(fleet, bodies)) {
        fprintf(stderr, "bench: %s gives no good first answer\n", target_names[plan->target]);
        return false;
    }
    result->first_ms = (double)(now_ns() - began_ns) / 1e6;
    watch_idle(fleet, result);
    return true;
}
