/*
 * What comes out of a benchmark: the table on the terminal, results.csv, and a plot of it.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* What a bound is on: coordinator / base, the coordinator's own value, or (coordinator - base) / each. */
enum bound_on { RATIO, VALUE, ADDED };

/* One line: a median of the coordinator and of what it is compared with, and what was promised of it. */
struct finding {
    const char *title, *what, *unit;
    const char *base_name;    /* "nginx" */
    double base, coordinator; /* negative: not measured */
    double bound;             /* 0: none */
    enum bound_on bound_on;
    int each;
};

void report_print(const struct finding *findings, size_t count);
/* results.csv and ratios.png in `folder`; false, with a message, if either cannot be written. */
bool report_write(const struct finding *findings, size_t count, const char *folder);

#endif
