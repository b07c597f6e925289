/* See families.h. Names, labels and buckets: docs/metrics.md; those that the Go coordinator has are its own (decision 4). */
#include "telemetry/families.h"

enum { MAX_LABELS = 2 };

const double metric_latency_buckets[35] = {.005, .025, .05, .1,  .2,  .4,  .6,  .8,   1,    1.25, 1.5, 2,
                                           3,    4,    5,   6,   8,   10,  15,  20,   30,   45,   60,  120,
                                           180,  240,  300, 360, 480, 600, 900, 1200, 1800, 2700, 3600};
const double metric_size_buckets[25] = {64,        128,       256,       512,       1024,     2048,     4096,
                                        8192,      16384,     32768,     65536,     131072,   262144,   524288,
                                        1048576,   2097152,   4194304,   8388608,   16777216, 33554432, 67108864,
                                        134217728, 268435456, 536870912, 1073741824};
const double metric_token_buckets[19] = {1,    8,    16,    32,    64,    128,    256,    512,    1024,   2048,
                                         4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576};
const double metric_count_buckets[10] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256};

static const double metric_first_buckets[] = {.005, .01, .025, .05, .1, .2, .3, .5, .75, 1,  1.5,
                                              2,    3,   5,    7.5, 10, 15, 20, 30, 60,  120};
static const double metric_gap_buckets[] = {.001, .0025, .005, .01, .015, .02, .03, .04, .05, .075,
                                            .1,   .15,   .2,   .3,  .5,   .75, 1,   2.5, 5};

static struct families all;

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define COUNTER(family, text, ...) {&all.family, COORD_METRIC_COUNTER, #family, "[ALPHA] " text, {__VA_ARGS__}, NULL, 0}
#define GAUGE(family, text, ...) {&all.family, COORD_METRIC_GAUGE, #family, "[ALPHA] " text, {__VA_ARGS__}, NULL, 0}
#define HISTOGRAM(family, ladder, text, ...)                                                                           \
    {&all.family,                                                                                                      \
     COORD_METRIC_HISTOGRAM,                                                                                           \
     #family,                                                                                                          \
     "[ALPHA] " text,                                                                                                  \
     {__VA_ARGS__},                                                                                                    \
     metric_##ladder##_buckets,                                                                                        \
     COUNT(metric_##ladder##_buckets)}

static const struct {
    coord_metric **place;
    int32_t kind;
    const char *name, *help;
    const char *labels[MAX_LABELS + 1];
    const double *buckets;
    size_t bucket_count;
} rows[] = {
    COUNTER(request_total, "Inference requests that ended.", "model_name"),
    COUNTER(request_error_total, "Inference requests that ended in an error, by its kind.", "model_name", "error_code"),
    HISTOGRAM(request_duration_seconds, latency, "Time from a request's arrival to the end of its answer.",
              "model_name"),
    HISTOGRAM(request_size_bytes, size, "Size of request bodies.", "model_name"),
    HISTOGRAM(request_input_tokens, token, "Prompt tokens of requests that were rendered.", "model_name"),
    GAUGE(request_running, "Inference requests in progress.", "model_name"),
    HISTOGRAM(response_size_bytes, size, "Body bytes that clients accepted.", "stream"),
    HISTOGRAM(orchestration_overhead_seconds, latency, "Time of a request spent neither in parsing nor in steps.",
              "route"),
    HISTOGRAM(step_duration_seconds, latency, "Time of steps that started.", "step"),
    COUNTER(step_errors_total, "Steps that failed, by the kind of error.", "step", "error_code"),
    GAUGE(step_running, "Steps in progress.", "step"),
    COUNTER(step_skipped_total, "Steps whose condition did not hold.", "step"),
    COUNTER(upstream_request_total, "Calls made to upstreams.", "upstream"),
    HISTOGRAM(upstream_request_duration_seconds, latency, "Time from an upstream call's start to its response headers.",
              "upstream"),
    COUNTER(execution_path_total, "Requests by the path that their execution took.", "model_name", "path"),
    HISTOGRAM(time_to_first_token_seconds, first,
              "Time from a request's arrival to the first event of its streamed answer.", "model_name", "api_type"),
    HISTOGRAM(inter_token_latency_seconds, gap, "Time between events of a streamed answer.", "model_name", "api_type"),
    HISTOGRAM(response_output_tokens, token, "Output tokens of answers, as their workers reported them.", "model_name",
              "api_type"),
    HISTOGRAM(response_cached_tokens, token, "Cached prompt tokens of answers, as clients were told.", "model_name",
              "api_type"),
    COUNTER(prompt_mutated_after_render_total, "Requests whose prompt a step changed after it had been rendered.",
            "model_name", "step"),
    COUNTER(config_reload_total, "Attempts to load the configuration again, by result.", "result"),
    GAUGE(config_generation, "Number of the configuration that new requests are served with, from 1.", NULL),
    COUNTER(reactor_blocked_total, "Times that a step held its reactor for longer than the limit.", "step"),
    COUNTER(log_lines_dropped_total, "Log lines dropped because standard error did not take them.", NULL),
};

bool families_declare(void)
{
    bool done = true;

    for (size_t r = 0; r < COUNT(rows); r++) {
        const coord_metric_type type = {.size = sizeof type,
                                        .kind = rows[r].kind,
                                        .name = rows[r].name,
                                        .help = rows[r].help,
                                        .labels = rows[r].labels,
                                        .buckets = rows[r].buckets,
                                        .bucket_count = (uint32_t)rows[r].bucket_count};

        if (!*rows[r].place)
            *rows[r].place = coord_metric_declare(&type);
        done = done && *rows[r].place;
    }
    return done;
}

const struct families *families(void) { return &all; }
