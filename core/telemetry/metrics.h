/*
 * The registry of metric families and the /metrics page. Public side: <coordinator/metric.h>.
 *
 * Each thread moves its own shard (plain stores by one writer, relaxed atomics), the page adds them up; what a thread moved
 * stays when it ends. Series appear with their first movement and stay; a family without labels shows from its declaration,
 * as in Go's client. Thread: moving any; rendering any.
 */
#ifndef TELEMETRY_METRICS_H
#define TELEMETRY_METRICS_H

#include "runtime/buffer.h"

#include <coordinator/metric.h>

#include <stdatomic.h>

/*
 * Appends the page. `openmetrics`: OpenMetrics 1.0 text (with # EOF), else Prometheus text 0.0.4. Process metrics
 * (process_cpu_seconds_total, process_resident_memory_bytes, process_open_fds, process_max_fds, process_start_time_seconds) come with it.
 */
bool metrics_render(struct buffer *page, bool openmetrics) __attribute__((warn_unused_result));
const char *metrics_content_type(bool openmetrics);
/* True when the Accept header asks for OpenMetrics. */
bool metrics_wants_openmetrics(coord_slice accept);

/* Calls to make a handle to one series, so that moving it does no lookup. */
struct metric_series;
struct metric_series *metric_series_of(coord_metric *metric,
                                       const coord_slice *labels); /* lives as long as the process; NULL: memory */
void metric_series_add(struct metric_series *series, double value);

/* A series that is looked up when it is moved for the first time; zeroed before. Threads may share it. */
struct metric_handle {
    _Atomic(struct metric_series *) series;
};
void metric_handle_find(struct metric_handle *handle, coord_metric *metric, const coord_slice *labels);
/* As coord_metric_add, always of the same series: `metric` and `labels` are those of every other call for the handle. */
static inline void metric_handle_add(struct metric_handle *handle, coord_metric *metric, const coord_slice *labels,
                                     double value)
{
    if (!atomic_load_explicit(&handle->series, memory_order_acquire))
        metric_handle_find(handle, metric, labels);
    metric_series_add(atomic_load_explicit(&handle->series, memory_order_acquire), value);
}

/* The model_name label: at most 1,000 distinct values per process, then "other"; empty is "unknown". Longer than 256 bytes or not UTF-8: "other" too. The result lives as long as the process. No lock for a value seen before. */
coord_slice metrics_model_label(coord_slice model);
enum { METRIC_MODEL_HANDLES = 24 };
struct metric_model {
    coord_slice label;
    struct metric_handle handles[METRIC_MODEL_HANDLES];
};
/* As metrics_model_label, with handles for the series of this label: whoever moves them says which is for which. Never NULL. */
struct metric_model *metrics_model(coord_slice model);

/* For tests and /debug: the current value of a series (counter, gauge, histogram's count), 0 if absent. `name` with or without the prefix. */
double metric_value(const char *name, const coord_slice *labels);

/* All series of the family whose first label is that, added up: values, or counts of a histogram. 0 for NULL. */
double metric_sum_of(coord_metric *metric, coord_slice first_label);

/*
 * Below which value the part `part` (0 … 1) of what a histogram has observed lies: estimated evenly within its bucket, the last
 * bound for what lies above it; NaN when nothing was observed.
 */
double metric_series_quantile(struct metric_series *series, double part);

/* Bucket ladders (docs/metrics.md). */
extern const double metric_latency_buckets[35];
extern const double metric_size_buckets[25];
extern const double metric_token_buckets[19];
extern const double metric_count_buckets[10];

#endif
