/* See measure.h. */
#include "measure.h"

#include "turn.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/stat.h>

/* A larger body does not arrive at a worker in one piece: from here on the worker has to be one that reads before it answers. */
enum { SHORT_BODY = 16384 };

const struct metric_name metrics[METRICS] = {
    [CPU] = {"cpu", "us"},     [MEMORY] = {"memory", "KiB"}, [P50] = {"p50", "us"},
    [P99] = {"p99", "us"},     [RATE] = {"rate", "/s"},      [PEAK_TIMES] = {"peak", "x"},
    [READY] = {"ready", "ms"}, [FIRST] = {"first", "ms"},    [RESIDENT] = {"resident", "MiB"},
    [WAKES] = {"wakes", "/s"}};

static void record(struct bench *bench, const struct bench_case *a_case, enum target target, int round,
                   const double values[METRICS])
{
    for (int metric = 0; metric < METRICS; metric++) {
        if (values[metric] < 0)
            continue;
        samples_add(&bench->measured[target][metric], values[metric]);
        fprintf(bench->rounds_csv, "%s,%s,%d,%s,%.3f,%s\n", a_case->name, target_names[target], round,
                metrics[metric].name, values[metric], metrics[metric].unit);
    }
    fflush(bench->rounds_csv);
}

enum target measure_base(const struct bench_case *a_case)
{
    static const enum target bases[] = {
        [BESIDE_ALL_HOPS] = NGINX, [BESIDE_ONE_HOP] = NGINX, [BESIDE_PLAIN] = PLAIN, [BESIDE_NOTHING] = NOTHING};

    return bases[a_case->beside];
}

static bool wanted(const struct settings *settings, const struct bench_case *a_case, enum target target)
{
    if (target == NOTHING) /* the delay without any */
        return a_case->kind == STREAMS && !settings->growth;
    if (target == CURL && (a_case->beside == BESIDE_PLAIN || (settings->growth && !settings->only_targets)))
        return false;
    if (target != COORDINATOR && target != CURL && target != measure_base(a_case))
        return false;
    return is_picked(settings->only_targets, target_names[target]);
}

static bool run_round(struct bench *bench, const struct bench_case *a_case, const struct bodies *bodies,
                      const char *answers, int round)
{
    struct fleet_plan plan = {.places = &bench->settings.places,
                              .answers = answers,
                              .reads_bodies = bodies->sent[PREFILL].length > SHORT_BODY,
                              .interval_us = a_case->interval_us,
                              .reactors = a_case->reactors,
                              .as_default = a_case->kind == IDLE};
    bool whole = true;

    for (int target = 0; target < TARGETS; target++) {
        double values[METRICS];

        if (!wanted(&bench->settings, a_case, target))
            continue;
        for (int metric = 0; metric < METRICS; metric++)
            values[metric] = -1;
        plan.target = target;
        plan.steps = target == PLAIN ? a_case->plain_steps : a_case->steps;
        if (turn_run(&bench->settings, a_case, bodies, &plan, values))
            record(bench, a_case, target, round, values);
        else
            whole = false;
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
    double with = measure_median(bench, target, metric), without = measure_median(bench, NOTHING, metric);

    if (with < 0 || without < 0)
        return -1;
    return with > without ? with - without : 0;
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
