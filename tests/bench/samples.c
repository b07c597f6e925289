/* See samples.h. */
#include "samples.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FIRST_CAPACITY = 1024 };

void samples_add(struct samples *samples, double value)
{
    if (samples->count == samples->capacity) {
        size_t capacity = samples->capacity ? 2 * samples->capacity : FIRST_CAPACITY;
        double *values = realloc(samples->values, capacity * sizeof *values);

        if (!values) {
            perror("samples");
            abort();
        }
        samples->values = values;
        samples->capacity = capacity;
    }
    samples->values[samples->count++] = value;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void sort(struct samples *samples)
{
    if (samples->count)
        qsort(samples->values, samples->count, sizeof *samples->values, compare);
}

double samples_percentile(struct samples *samples, double percent)
{
    size_t rank = (size_t)((double)samples->count * percent / 100.0);

    if (samples->count == 0)
        return 0;
    sort(samples);
    return samples->values[rank < samples->count ? rank : samples->count - 1];
}

double samples_median(struct samples *samples)
{
    size_t middle = samples->count / 2;

    if (samples->count == 0)
        return 0;
    sort(samples);
    return samples->count % 2 ? samples->values[middle] : (samples->values[middle - 1] + samples->values[middle]) / 2;
}

void samples_release(struct samples *samples)
{
    free(samples->values);
    *samples = (struct samples){0};
}

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

double thread_cpu_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}
