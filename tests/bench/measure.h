/*
 * Measuring a case: rounds in which each target takes its turn, and what came out of them.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "cases.h"
#include "samples.h"
#include "targets.h"

#include <stdio.h>

enum metric { CPU, MEMORY, P50, P99, RATE, PEAK_TIMES, READY, FIRST, RESIDENT, WAKES, METRICS };

extern const struct metric_name {
    const char *name, *unit;
} metrics[METRICS];

struct settings {
    struct places places;
    int rounds;
    double share; /* of the requests of a case */
    /* Lists with commas between; NULL: all of them, but a growth series has no curl unless it is named. */
    const char *only_targets, *only_cases, *only_series;
    bool growth;
};

struct bench {
    struct settings settings;
    FILE *rounds_csv;
    struct samples measured[TARGETS][METRICS]; /* of the case at hand */
};

/* Runs all rounds of a case. False, with messages on stderr, when something was not whole; what was measured is there all the same. */
bool measure_case(struct bench *bench, const struct bench_case *a_case);
/* Forgets what was measured of the case. */
void measure_forget(struct bench *bench);

/* What the case compares the coordinator with; NOTHING: with nothing. */
enum target measure_base(const struct bench_case *a_case);
/* Over the rounds; -1: not measured. */
double measure_median(struct bench *bench, enum target target, enum metric metric);
/* What a target adds to the delay without one; -1 likewise. */
double measure_added(struct bench *bench, enum target target, enum metric metric);

#endif
