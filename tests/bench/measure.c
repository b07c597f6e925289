/* See measure.h. */
#include "measure.h"

#include "account.h"
#include "load.h"
#include "streams.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { CONNECTIONS = 32, WINDOW_S = 5, SHORT_EVENTS = 2 };

const struct metric_name metrics[METRICS] = {
    {"cpu", "us"}, {"memory", "KiB"}, {"p50", "us"}, {"p99", "us"}, {"rate", "/s"}};

static void record(struct bench *bench, const struct bench_case *a_case, enum target target, int round,
                   enum metric metric, double value)
{
    samples_add(&bench->measured[target][metric], value);
    fprintf(bench->rounds_csv, "%s,%s,%d,%s,%.3f,%s\n", a_case->name, target_names[target], round, metrics[metric].name,
            value, metrics[metric].unit);
}

/* One hop, or the one request that makes the coordinator do its legs: adds CPU and latency to the sums. */
static bool measure_hop(const struct bench *bench, const struct bench_case *a_case, const struct fleet *fleet,
                        const char *path, const char *phase, const struct text *body, int64_t answer_length,
                        double sums[METRICS])
{
    struct load_plan plan = {.port = fleet->port,
                             .connections = CONNECTIONS,
                             .requests = (uint64_t)((double)a_case->requests * bench->settings.share),
                             .answer_length = answer_length,
                             .target = fleet->target,
                             .deadline_ns = now_ns() + (int64_t)120 * 1000000000};
    struct load_result result;
    char *request = load_request_new(path, phase, body->bytes, body->length, &plan.request_length);
    bool whole;

    plan.request = request;
    plan.warm_up = plan.requests / 5 + CONNECTIONS;
    whole = load_run(&plan, &result);
    free(request);
    if (!whole || result.errors)
        fprintf(stderr, "bench: %s, %s: %llu errors, first: %s\n", a_case->name, path,
                (unsigned long long)result.errors, result.first_error);
    else if (result.cpu_ns >= 0) {
        sums[CPU] += (double)result.cpu_ns / 1e3 / (double)result.requests;
        sums[P50] += samples_percentile(&result.latency, 50);
        sums[P99] += samples_percentile(&result.latency, 99);
        sums[RATE] = (double)result.requests * 1e9 / (double)result.wall_ns;
    }
    samples_release(&result.latency);
    return whole && !result.errors;
}

static bool measure_load(struct bench *bench, const struct bench_case *a_case, const struct bodies *bodies,
                         const struct fleet *fleet, enum target target, int round)
{
    static const char chat[] = "/v1/chat/completions", render[] = "/v1/chat/completions/render";
    double sums[METRICS] = {0};
    bool whole = true;

    if (target != NGINX || case_has_one_leg(a_case)) {
        whole = measure_hop(bench, a_case, fleet, chat, NULL, &bodies->client, (int64_t)bodies->answered[DECODE].length,
                            sums);
    } else {
        for (int leg = 0; whole && leg < LEGS; leg++)
            whole =
                measure_hop(bench, a_case, fleet, leg == RENDER ? render : chat, leg == RENDER ? NULL : leg_names[leg],
                            &bodies->sent[leg], (int64_t)bodies->answered[leg].length, sums);
    }
    if (whole) {
        record(bench, a_case, target, round, CPU, sums[CPU]);
        record(bench, a_case, target, round, P50, sums[P50]);
        record(bench, a_case, target, round, P99, sums[P99]);
        record(bench, a_case, target, round, RATE, sums[RATE]);
    }
    return whole;
}

static char *stream_request(uint64_t events, size_t *length)
{
    struct shape shape = {.prompt = 400, .tokens = 120, .stream = (size_t)events};
    struct bodies bodies;
    char *request;

    bodies_make(&bodies, &shape);
    request = load_request_new("/v1/chat/completions", NULL, bodies.client.bytes, bodies.client.length, length);
    bodies_release(&bodies);
    return request;
}

static bool measure_streams(struct bench *bench, const struct bench_case *a_case, const struct fleet *fleet,
                            enum target target, int round)
{
    const int64_t second = 1000000000;
    struct streams_plan plan = {.port = fleet->port,
                                .streams = a_case->streams,
                                .short_events = SHORT_EVENTS,
                                .ramp_ns = (int64_t)a_case->streams * 1000000,
                                .window_after_ns = second / 2,
                                .window_ns = WINDOW_S * second,
                                .target = fleet->target};
    int64_t idle = fleet->target ? account_memory(fleet->target) : 0;
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
    if (!whole)
        fprintf(stderr, "bench: %s, %s: %llu streams complete, first error: %s\n", a_case->name, target_names[target],
                (unsigned long long)result.complete, result.first_error);
    if (whole && fleet->target) {
        record(bench, a_case, target, round, CPU, (double)result.cpu_ns / 1e3 / (double)result.events);
        record(bench, a_case, target, round, MEMORY, (double)(result.memory - idle) / 1024 / (double)plan.streams);
    }
    if (whole) {
        record(bench, a_case, target, round, P50, samples_percentile(&result.delay, 50));
        record(bench, a_case, target, round, P99, samples_percentile(&result.delay, 99));
    }
    samples_release(&result.delay);
    return whole;
}

enum target measure_base(const struct bench_case *a_case)
{
    if (a_case->alone)
        return DIRECT;
    return a_case->plain_steps ? PLAIN : NGINX;
}

static bool wanted(const struct bench *bench, const struct bench_case *a_case, enum target target)
{
    if (target == DIRECT)
        return a_case->streams > 0;
    if (target != COORDINATOR && target != measure_base(a_case))
        return false;
    return !bench->settings.only_target || strcmp(bench->settings.only_target, target_names[target]) == 0;
}

static bool run_round(struct bench *bench, const struct bench_case *a_case, const struct bodies *bodies,
                      const char *answers, int round)
{
    bool whole = true;

    for (int target = 0; target < TARGETS; target++) {
        struct fleet fleet;
        bool up;

        if (!wanted(bench, a_case, target))
            continue;
        up = fleet_start(&fleet, target, &bench->settings.places, answers,
                         target == PLAIN ? a_case->plain_steps : a_case->steps, a_case->reactors, a_case->interval_us);
        if (up && a_case->streams)
            up = measure_streams(bench, a_case, &fleet, target, round);
        else if (up)
            up = measure_load(bench, a_case, bodies, &fleet, target, round);
        fleet_stop(&fleet);
        whole = whole && up;
    }
    return whole;
}

double measure_median(struct bench *bench, enum target target, enum metric metric)
{
    struct samples *samples = &bench->measured[target][metric];

    return samples->count ? samples_median(samples) : -1;
}

double measure_added(struct bench *bench, enum target target, enum metric metric)
{
    double with = measure_median(bench, target, metric), direct = measure_median(bench, DIRECT, metric);

    if (with < 0 || direct < 0)
        return -1;
    return with > direct ? with - direct : 0;
}

bool measure_case(struct bench *bench, const struct bench_case *a_case)
{
    char answers[PATH_MAX];
    struct bodies bodies;
    bool whole;

    snprintf(answers, sizeof answers, "%s/%s", bench->settings.places.out, a_case->name);
    mkdir(answers, 0755);
    bodies_make(&bodies, &a_case->shape);
    whole = bodies_write(&bodies, answers);
    for (int round = 1; whole && round <= bench->settings.rounds; round++) {
        fprintf(stderr, "%s: round %d of %d\n", a_case->title, round, bench->settings.rounds);
        whole = run_round(bench, a_case, &bodies, answers, round);
    }
    bodies_release(&bodies);
    return whole;
}

void measure_forget(struct bench *bench)
{
    for (int target = 0; target < TARGETS; target++)
        for (int metric = 0; metric < METRICS; metric++)
            samples_release(&bench->measured[target][metric]);
}
