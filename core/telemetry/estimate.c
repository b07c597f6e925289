/* See metrics.h: what series tell when they are taken together. */
#include "telemetry/registry.h"

#include <math.h>

double metric_sum_of(coord_metric *metric, coord_slice first_label)
{
    uint64_t counts[METRIC_MAX_BUCKETS + 1];
    double sum = 0, value;

    if (!metric || metric->label_count == 0)
        return 0;
    for (struct metric_series *series = atomic_load_explicit(&metric->newest, memory_order_acquire); series;
         series = series->older) {
        if (!coord_slice_equal(series->labels[0], first_label))
            continue;
        registry_read(series, &value, counts);
        for (size_t i = 0; i < registry_counts(metric); i++)
            value = i == 0 ? (double)counts[0] : value + (double)counts[i];
        sum += value;
    }
    return sum;
}

double metric_series_quantile(struct metric_series *series, double part)
{
    uint64_t counts[METRIC_MAX_BUCKETS + 1], total = 0;
    const coord_metric *metric = series->metric;
    double sum, rank, below = 0;

    registry_read(series, &sum, counts);
    for (size_t i = 0; i < registry_counts(metric); i++)
        total += counts[i];
    if (total == 0)
        return NAN;
    rank = part * (double)total;
    for (size_t i = 0; i < metric->bucket_count; i++) {
        double from = i > 0 ? metric->buckets[i - 1] : 0, in = (double)counts[i];

        if (in > 0 && below + in >= rank)
            return from + (metric->buckets[i] - from) * (rank - below) / in;
        below += in;
    }
    return metric->bucket_count > 0 ? metric->buckets[metric->bucket_count - 1] : NAN;
}
