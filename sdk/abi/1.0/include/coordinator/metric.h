/*
 * Counters, gauges and histograms of a step author's own, on the core's /metrics page under `llm_d_coordinator_`.
 *
 * Families are declared at load; a series is one combination of label values and appears with its first movement. Moving one
 * is cheap (a shard per reactor) and never blocks.
 */
#ifndef COORDINATOR_METRIC_H
#define COORDINATOR_METRIC_H

#include <coordinator/base.h>

COORD_BEGIN_DECLS

enum { COORD_METRIC_COUNTER = 1, COORD_METRIC_GAUGE = 2, COORD_METRIC_HISTOGRAM = 3 };
enum { COORD_METRIC_MAX_LABELS = 4 };

typedef struct coord_metric_type {
    uint32_t size; /* sizeof(coord_metric_type) */
    int32_t kind;
    const char *name; /* without the prefix; counters end in _total */
    const char *help;
    const char *const *labels; /* NULL-terminated names, at most COORD_METRIC_MAX_LABELS, or NULL */
    const double *buckets;     /* HISTOGRAM: `bucket_count` rising upper bounds */
    uint32_t bucket_count;
    uint32_t max_series; /* further combinations go to the series whose labels are all "other"; 0: 1000, with a label
                            model_name (coord_request_model_label limits that one by itself) 32768 */
} coord_metric_type;

typedef struct coord_metric coord_metric;

/*
 * Declares a family; the same name and shape again gives the same one. NULL: another shape exists, memory is short, or the
 * type is not well-formed: names of letters, digits and `_`, `_total` at the end of counters and of nothing else, 1 to 64
 * rising finite bounds. Lives as long as the process. A family without labels shows from now on, with 0. [load]
 */
COORD_API coord_metric *coord_metric_declare(const coord_metric_type *type);

/*
 * Adds to a counter or gauge, or observes into a histogram. `labels`: as many values as were declared. NULL metric, NULL
 * labels where some were declared, a value that is not finite, less than 0 for a counter: nothing. Label values that are not
 * UTF-8 go to the series whose labels are all "other". [any thread]
 */
COORD_API void coord_metric_add(coord_metric *metric, double value, const coord_slice *labels);

COORD_END_DECLS
#endif
