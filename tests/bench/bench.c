/*
 * bench: the cases of the benchmark, each measured for nginx as a plain proxy and for the coordinator in turns.
 *
 * For each round of a case a fresh worker and a fresh target are started, warmed up, measured and stopped. A case of three
 * legs is compared with nginx moving the bodies of those three legs one after the other, its CPU time added up. Medians over
 * the rounds are reported. The targets log and are configured as a user would have it, save for one reactor.
 */
#include "account.h"
#include "bodies.h"
#include "load.h"
#include "report.h"
#include "streams.h"
#include "targets.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define DECODE_STEP "    - type: decode\n"
#define NOOP(id) "    - {type: bench-noop, id: noop-" #id "}\n"
#define FIVE_NOOPS(id) NOOP(id##a) NOOP(id##b) NOOP(id##c) NOOP(id##d) NOOP(id##e)

static const char one_leg[] = DECODE_STEP;
static const char three_legs[] =
    "    - {type: render, params: {address: \"http://127.0.0.1:%u\"}}\n    - type: prefill\n" DECODE_STEP;
static const char noops[] = FIVE_NOOPS(a) FIVE_NOOPS(b) FIVE_NOOPS(c) FIVE_NOOPS(d) DECODE_STEP;

enum { NOOPS = 20 };

struct bench_case {
    const char *name, *title;
    const char *steps,
        *plain_steps; /* plain_steps: it is compared with the coordinator that has those; NULL: with nginx */
    struct shape shape;
    uint64_t requests; /* counted in a round */
    size_t streams;    /* not 0: a case of streams */
    int64_t interval_us;
    double bound; /* of CPU */
    enum bound_on bound_on;
    int each;
};

static const struct bench_case cases[] = {
    {"1-leg", "1 leg, small chat", one_leg, NULL, {400, 0, 120, 0}, 30000, 0, 0, 2.2, RATIO, 0},
    {"3-legs", "3 legs, small chat", three_legs, NULL, {400, 0, 120, 0}, 20000, 0, 0, 1.7, RATIO, 0},
    {"long-prompt",
     "3 legs, 220 KB prompt, 37k ids",
     three_legs,
     NULL,
     {220000, 0, 37000, 0},
     2000,
     0,
     0,
     1.5,
     RATIO,
     0},
    {"image", "3 legs, 1 MB inline image", three_legs, NULL, {200, 1048576, 1200, 0}, 1000, 0, 0, 1.5, RATIO, 0},
    {"1000-streams",
     "1,000 streams, 20 events/s each",
     three_legs,
     NULL,
     {400, 0, 120, 1},
     0,
     1000,
     50000,
     1.5,
     RATIO,
     0},
    {"5000-streams",
     "5,000 streams, 4 events/s each",
     three_legs,
     NULL,
     {400, 0, 120, 1},
     0,
     5000,
     250000,
     0,
     RATIO,
     0},
    {"parity",
     "1,000 streams, parity and cached tokens",
     three_legs,
     one_leg,
     {400, 0, 120, 1},
     0,
     1000,
     50000,
     1.1,
     RATIO,
     0},
    {"steps",
     "1 leg, small chat, 20 steps that do nothing",
     noops,
     one_leg,
     {400, 0, 120, 0},
     30000,
     0,
     0,
     1,
     ADDED,
     NOOPS},
};

enum { CASES = sizeof cases / sizeof *cases, CONNECTIONS = 32, WINDOW_S = 5, SHORT_EVENTS = 2, FINDINGS_A_CASE = 4 };

enum metric { CPU, MEMORY, P50, P99, METRICS };

static const struct {
    const char *name, *unit;
} metrics[METRICS] = {{"cpu", "us"}, {"memory", "KiB"}, {"p50", "us"}, {"p99", "us"}};

struct settings {
    struct places places;
    int rounds;
    double share; /* of the requests of a case */
    const char *only_target;
    const char *only_case;
};

struct bench {
    struct settings settings;
    FILE *rounds_csv;
    struct samples measured[TARGETS][METRICS]; /* of the case at hand */
};

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

    if (target != NGINX || a_case->steps == one_leg) {
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

/* What the case compares the coordinator with. */
static enum target base_of(const struct bench_case *a_case) { return a_case->plain_steps ? PLAIN : NGINX; }

static bool wanted(const struct bench *bench, const struct bench_case *a_case, enum target target)
{
    if (target == DIRECT)
        return a_case->streams > 0;
    if (target != COORDINATOR && target != base_of(a_case))
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
                         target == PLAIN ? a_case->plain_steps : a_case->steps, a_case->interval_us);
        if (up && a_case->streams)
            up = measure_streams(bench, a_case, &fleet, target, round);
        else if (up)
            up = measure_load(bench, a_case, bodies, &fleet, target, round);
        fleet_stop(&fleet);
        whole = whole && up;
    }
    return whole;
}

static double median(struct bench *bench, enum target target, enum metric metric)
{
    struct samples *samples = &bench->measured[target][metric];

    return samples->count ? samples_median(samples) : -1;
}

/* What a target adds to the direct delay. */
static double added(struct bench *bench, enum target target, enum metric metric)
{
    double with = median(bench, target, metric), direct = median(bench, DIRECT, metric);

    if (with < 0 || direct < 0)
        return -1;
    return with > direct ? with - direct : 0;
}

static const char *cpu_of_what(const struct bench_case *a_case)
{
    if (a_case->streams)
        return "CPU an event";
    return a_case->plain_steps || a_case->steps == one_leg ? "CPU a request" : "CPU a request (nginx: its three hops)";
}

/* `value`: how it is read of a target; the bound is on the coordinator's own. */
static struct finding compare(struct bench *bench, const struct bench_case *a_case, const char *what,
                              enum metric metric, double value(struct bench *, enum target, enum metric), double bound)
{
    enum target base = base_of(a_case);

    return (struct finding){.title = a_case->title,
                            .what = what,
                            .unit = metrics[metric].unit,
                            .base_name = base == NGINX ? "nginx" : "the same without",
                            .base = value(bench, base, metric),
                            .coordinator = value(bench, COORDINATOR, metric),
                            .bound = bound,
                            .bound_on = VALUE};
}

static size_t find(struct bench *bench, const struct bench_case *a_case, struct finding *findings)
{
    bool promised = a_case->streams && a_case->bound > 0 && base_of(a_case) == NGINX;
    size_t count = 0;

    findings[0] = compare(bench, a_case, cpu_of_what(a_case), CPU, median, a_case->bound);
    findings[0].bound_on = a_case->bound_on;
    findings[0].each = a_case->each;
    count++;
    if (!a_case->streams) {
        findings[count++] = compare(bench, a_case, "latency p50 under load", P50, median, 0);
        return count;
    }
    findings[count++] =
        compare(bench, a_case, "memory a stream, reused connections", MEMORY, median, promised ? 40 : 0);
    findings[count++] = compare(bench, a_case, "delay of an event over direct, p50", P50, added, 0);
    findings[count++] = compare(bench, a_case, "delay of an event over direct, p99", P99, added, promised ? 300 : 0);
    return count;
}

static bool run_case(struct bench *bench, const struct bench_case *a_case, struct finding *findings, size_t *count)
{
    char answers[PATH_MAX];
    struct bodies bodies;
    bool whole = true;

    snprintf(answers, sizeof answers, "%s/%s", bench->settings.places.out, a_case->name);
    mkdir(answers, 0755);
    bodies_make(&bodies, &a_case->shape);
    whole = bodies_write(&bodies, answers);
    for (int round = 1; whole && round <= bench->settings.rounds; round++) {
        fprintf(stderr, "%s: round %d of %d\n", a_case->title, round, bench->settings.rounds);
        whole = run_round(bench, a_case, &bodies, answers, round);
    }
    bodies_release(&bodies);
    *count = find(bench, a_case, findings);
    for (int target = 0; target < TARGETS; target++)
        for (int metric = 0; metric < METRICS; metric++)
            samples_release(&bench->measured[target][metric]);
    return whole;
}

static bool run_all(struct bench *bench)
{
    struct finding findings[CASES * FINDINGS_A_CASE];
    size_t found = 0;
    bool whole = true;

    for (int i = 0; i < CASES; i++) {
        size_t count;

        if (bench->settings.only_case && strcmp(bench->settings.only_case, cases[i].name) != 0)
            continue;
        whole = run_case(bench, &cases[i], findings + found, &count) && whole;
        found += count;
    }
    report_print(findings, found);
    return report_write(findings, found, bench->settings.places.out) && whole;
}

static int usage(void)
{
    fprintf(stderr, "usage: bench --coordinator PROGRAM --plugins DIR --worker PROGRAM --out DIR\n"
                    "  --quick         two rounds with a quarter of the requests\n"
                    "  --rounds N      rounds of each case (5)\n"
                    "  --only TARGET   nginx, plain (the coordinator without what a case is about) or coordinator\n"
                    "  --case NAME     one of:");
    for (int i = 0; i < CASES; i++)
        fprintf(stderr, " %s", cases[i].name);
    fputc('\n', stderr);
    return 2;
}

static bool read_arguments(struct settings *settings, int argc, char **argv)
{
    enum { COORDINATOR_AT = 1, PLUGINS, WORKER, OUT, QUICK, ROUNDS, ONLY, CASE };
    static const struct option options[] = {{"coordinator", required_argument, NULL, COORDINATOR_AT},
                                            {"plugins", required_argument, NULL, PLUGINS},
                                            {"worker", required_argument, NULL, WORKER},
                                            {"out", required_argument, NULL, OUT},
                                            {"quick", no_argument, NULL, QUICK},
                                            {"rounds", required_argument, NULL, ROUNDS},
                                            {"only", required_argument, NULL, ONLY},
                                            {"case", required_argument, NULL, CASE},
                                            {"help", no_argument, NULL, 'h'},
                                            {0}};

    for (int option; (option = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (option) {
        case COORDINATOR_AT:
            settings->places.coordinator = optarg;
            break;
        case PLUGINS:
            settings->places.plugins = optarg;
            break;
        case WORKER:
            settings->places.worker = optarg;
            break;
        case OUT:
            settings->places.out = realpath(optarg, NULL);
            break; /* lives as long as the program */
        case ROUNDS:
            settings->rounds = (int)strtol(optarg, NULL, 10);
            break;
        case ONLY:
            settings->only_target = optarg;
            break;
        case CASE:
            settings->only_case = optarg;
            break;
        case QUICK:
            settings->rounds = 2;
            settings->share = 0.25;
            break;
        default:
            return false;
        }
    }
    return settings->places.worker && settings->places.out && settings->places.coordinator &&
           settings->places.plugins && settings->rounds > 0;
}

static void raise_file_limit(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) < 0)
        return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    if (files.rlim_max < 12000)
        fprintf(stderr, "bench: only %llu files may be open here; 5,000 streams want 12,000\n",
                (unsigned long long)files.rlim_max);
}

int main(int argc, char **argv)
{
    struct bench bench = {.settings = {.rounds = 5, .share = 1}};
    char path[PATH_MAX];
    bool whole;

    if (!read_arguments(&bench.settings, argc, argv))
        return usage();
    raise_file_limit();
    snprintf(path, sizeof path, "%s/temp", bench.settings.places.out);
    if (mkdir(path, 0755) < 0 && errno != EEXIST) {
        perror(path);
        return 1;
    }
    snprintf(path, sizeof path, "%s/rounds.csv", bench.settings.places.out);
    bench.rounds_csv = fopen(path, "w");
    if (!bench.rounds_csv) {
        perror(path);
        return 1;
    }
    fprintf(bench.rounds_csv, "case,target,round,metric,value,unit\n");
    whole = run_all(&bench);
    fclose(bench.rounds_csv);
    return whole ? 0 : 1;
}
