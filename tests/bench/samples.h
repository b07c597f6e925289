/*
 * A growing set of measured values, and what is asked of one: median and percentiles.
 *
 * Thread: one. The set owns its memory; a zeroed struct is an empty set.
 */
#ifndef BENCH_SAMPLES_H
#define BENCH_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

struct samples {
    double *values;
    size_t count, capacity;
};

/* Aborts the program when memory runs out: a benchmark has no use for the rest. */
void samples_add(struct samples *samples, double value);
/* The value below which `percent` of all lie (nearest rank); 0 for an empty set. Sorts the set. */
double samples_percentile(struct samples *samples, double percent);
/* The middle value, of an even count the mean of the two; 0 for an empty set. Sorts the set. */
double samples_median(struct samples *samples);
void samples_release(struct samples *samples);

/* CLOCK_MONOTONIC in nanoseconds. */
int64_t now_ns(void);
/* What the calling thread has used of a CPU, in microseconds. */
double thread_cpu_us(void);

#endif
