/* See turn.h. One function a kind of case. */
#include "turn.h"

#include "account.h"
#include "idle.h"
#include "load.h"
#include "streams.h"

#include <stdlib.h>

enum { CONNECTIONS = 32, WINDOW_S = 5, SHORT_EVENTS = 2, DEADLINE_S = 120 };

static const int64_t second = 1000000000;

struct turn {
    const struct settings *settings;
    const struct bench_case *a_case;
    const struct bodies *bodies;
    const struct fleet_plan *plan;
    struct fleet fleet;
    double *values;
};

static void add(struct turn *turn, enum metric metric, double value)
{
    turn->values[metric] = value + (turn->values[metric] > 0 ? turn->values[metric] : 0);
}

/* `body` over and over, to `path`. */
static bool run_load(const struct turn *turn, struct load_plan *plan, const char *path, const char *phase,
                     const struct text *body, struct load_result *result)
{
    char *request = load_request_new(path, phase, body->bytes, body->length, &plan->request_length);
    bool whole;

    plan->port = turn->fleet.port;
    plan->target = turn->fleet.target;
    plan->deadline_ns = now_ns() + DEADLINE_S * second;
    plan->request = request;
    whole = load_run(plan, result);
    free(request);
    if (!whole || result->errors)
        fprintf(stderr, "bench: %s, %s: %llu errors, first: %s\n", turn->a_case->name, path,
                (unsigned long long)result->errors, result->first_error);
    return whole && !result->errors;
}

/* One hop, or the one request that makes the coordinator do its legs: adds CPU and latency to what is there. */
static bool load_hop(struct turn *turn, const char *path, const char *phase, const struct text *body,
                     int64_t answer_length)
{
    const struct bench_case *a_case = turn->a_case;
    struct load_plan plan = {.connections = a_case->connections ? a_case->connections : CONNECTIONS,
                             .requests = 1 + (uint64_t)((double)a_case->requests * turn->settings->share),
                             .answer_length = answer_length};
    struct load_result result;
    bool whole;

    plan.warm_up = plan.requests / 5 + plan.connections;
    whole = run_load(turn, &plan, path, phase, body, &result);
    if (whole && result.cpu_ns >= 0) {
        add(turn, CPU, (double)result.cpu_ns / 1e3 / (double)result.requests);
        add(turn, P50, samples_percentile(&result.latency, 50));
        add(turn, P99, samples_percentile(&result.latency, 99));
        turn->values[RATE] = (double)result.requests * 1e9 / (double)result.wall_ns;
    }
    samples_release(&result.latency);
    return whole;
}

static bool measure_load(struct turn *turn)
{
    const struct bodies *bodies = turn->bodies;
    bool whole = true;

    if (turn->plan->target != NGINX || turn->a_case->beside == BESIDE_ONE_HOP)
        return load_hop(turn, bodies->path, NULL, &bodies->client, (int64_t)bodies->answered[DECODE].length);
    for (int leg = 0; whole && leg < LEGS; leg++)
        whole =
            load_hop(turn, leg == RENDER ? "/v1/chat/completions/render" : bodies->path,
                     leg == RENDER ? NULL : leg_names[leg], &bodies->sent[leg], (int64_t)bodies->answered[leg].length);
    return whole;
}

static char *stream_request(uint64_t events, size_t *length)
{
    struct shape shape = {.prompt = 400, .tokens = 120, .stream = (size_t)events};
    struct bodies bodies;
    char *request;

    bodies_make(&bodies, &shape);
    request = load_request_new(bodies.path, NULL, bodies.client.bytes, bodies.client.length, length);
    bodies_release(&bodies);
    return request;
}

static void take_streams(struct turn *turn, const struct streams_plan *plan, struct streams_result *result,
                         int64_t idle)
{
    if (plan->target) {
        add(turn, CPU, (double)result->cpu_ns / 1e3 / (double)result->events);
        add(turn, MEMORY, (double)(result->memory - idle) / 1024 / (double)plan->streams);
    }
    add(turn, P50, samples_percentile(&result->delay, 50));
    add(turn, P99, samples_percentile(&result->delay, 99));
}

static bool measure_streams(struct turn *turn)
{
    const struct bench_case *a_case = turn->a_case;
    struct streams_plan plan = {.port = turn->fleet.port,
                                .streams = a_case->streams,
                                .short_events = SHORT_EVENTS,
                                .ramp_ns = (int64_t)a_case->streams * 1000000,
                                .window_after_ns = second / 2,
                                .window_ns = WINDOW_S * second,
                                .target = turn->fleet.target};
    int64_t idle = plan.target ? account_memory(plan.target) : 0;
    int64_t long_ns = plan.ramp_ns + plan.window_after_ns + plan.window_ns + second / 2;
    struct streams_result result;
    char *few = stream_request(plan.short_events, &plan.short_length), *many;
    bool whole;

    plan.long_events = (uint64_t)(long_ns / 1000 / a_case->interval_us);
    plan.deadline_ns = now_ns() + 2 * long_ns + 60 * second;
    many = stream_request(plan.long_events, &plan.long_length);
    plan.short_request = few;
    plan.long_request = many;
    whole = streams_run(&plan, &result);
    free(few);
    free(many);
    if (whole)
        take_streams(turn, &plan, &result, idle);
    else
        fprintf(stderr, "bench: %s, %s: %llu streams complete, first error: %s\n", a_case->name,
                target_names[turn->plan->target], (unsigned long long)result.complete, result.first_error);
    samples_release(&result.delay);
    return whole;
}

/* What is long in the body: the client's, or what render made of it. */
static size_t long_body(const struct bodies *bodies)
{
    size_t client = bodies->client.length, rendered = bodies->answered[RENDER].length;

    return client > rendered ? client : rendered;
}

/* The process is fresh and has only been asked whether it is ready, so that the most it ever held is what these requests took. */
static bool measure_peak(struct turn *turn)
{
    const struct bodies *bodies = turn->bodies;
    struct load_plan plan = {.connections = 1,
                             .requests = turn->a_case->requests,
                             .answer_length = (int64_t)bodies->answered[DECODE].length};
    struct load_result result;
    int64_t idle = account_resident(turn->fleet.target), peak;
    bool whole;

    whole = run_load(turn, &plan, bodies->path, NULL, &bodies->client, &result);
    samples_release(&result.latency);
    peak = account_peak(turn->fleet.target);
    if (whole && idle >= 0 && peak >= 0)
        add(turn, PEAK_TIMES, (double)(peak - idle) / (double)long_body(bodies));
    return whole;
}

static bool measure_idle(struct turn *turn)
{
    struct idle_result result;

    if (!idle_run(&turn->fleet, turn->plan, turn->bodies, &result))
        return false;
    add(turn, READY, result.ready_ms);
    add(turn, FIRST, result.first_ms);
    add(turn, RESIDENT, result.resident_mib);
    add(turn, WAKES, result.wakes);
    return true;
}

bool turn_run(const struct settings *settings, const struct bench_case *a_case, const struct bodies *bodies,
              const struct fleet_plan *plan, double values[METRICS])
{
    static bool (*const measure[])(struct turn *) = {
        [LOAD] = measure_load, [STREAMS] = measure_streams, [IDLE] = measure_idle, [PEAK] = measure_peak};
    struct turn turn = {.settings = settings, .a_case = a_case, .bodies = bodies, .plan = plan, .values = values};
    bool whole = a_case->kind == IDLE || fleet_start(&turn.fleet, plan);

    whole = whole && measure[a_case->kind](&turn);
    fleet_stop(&turn.fleet);
    return whole;
}
