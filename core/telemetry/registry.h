/*
 * What the parts of the registry share: the shape of a family and a series, and the lines of the page.
 *
 * Invariant: families and series are only ever added and live as long as the process; whatever is reachable from an atomic
 * pointer here does not change any more, so that looking up takes no lock. registry.c adds them, metrics.c moves them,
 * page.c shows them. Thread: any.
 */
#ifndef TELEMETRY_REGISTRY_H
#define TELEMETRY_REGISTRY_H

#include "telemetry/metrics.h"

#include <stdatomic.h>

#define METRIC_PREFIX "llm_d_coordinator_"

enum { METRIC_MAX_BUCKETS = 64 };

struct metric_series {
    coord_metric *metric;
    size_t index; /* its place in every shard */
    uint64_t hash;
    struct metric_series *chained; /* next in the same place of the family's table */
    struct metric_series *older;   /* next of all in the family */
    _Atomic bool moved;            /* shown on the page */
    double retired_sum;            /* what threads that ended had moved; under the lock of metrics.c */
    uint64_t *retired_counts;      /* of a histogram: bucket_count + 1 */
    coord_slice labels[COORD_METRIC_MAX_LABELS];
};

struct coord_metric {
    uint32_t magic;
    int32_t kind;
    char *name; /* with the prefix */
    char *help;
    size_t label_count;
    char *labels[COORD_METRIC_MAX_LABELS];
    size_t bucket_count; /* without +Inf */
    double *buckets;
    uint32_t max_series;
    atomic_uint series_count; /* those that count against max_series */
    _Atomic(struct metric_series *) newest;
    _Atomic(struct metric_series *) other; /* where combinations beyond max_series go */
    size_t table_mask;
    _Atomic(struct metric_series *) *table;
    coord_metric *older; /* next of all families */
};

/* The newest family; the others through `older`. */
coord_metric *registry_families(void);

/* Counts of a series: a histogram's buckets and +Inf, else none. */
static inline size_t registry_counts(const coord_metric *metric)
{
    return metric->kind == COORD_METRIC_HISTOGRAM ? metric->bucket_count + 1 : 0;
}

/* Adds up a series over all threads: the value of a counter or gauge, or the sum of a histogram with bucket_count + 1 counts (not cumulative). */
void registry_read(struct metric_series *series, double *sum, uint64_t counts[METRIC_MAX_BUCKETS + 1]);

/* Appends # HELP and # TYPE; false when memory is short. */
bool page_head(struct buffer *page, const char *name, const char *help, int32_t kind, bool openmetrics)
    __attribute__((warn_unused_result));
/* Appends a sample's value: whole numbers without an exponent, others with the fewest digits that read back the same. */
bool page_number(struct buffer *page, double value) __attribute__((warn_unused_result));
/* Appends the process metrics; what the system does not tell is left out. False when memory is short. */
bool process_render(struct buffer *page, bool openmetrics) __attribute__((warn_unused_result));

#endif
