/*
 * What comes out of a benchmark: the table on the terminal, results.csv, and a plot of it.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>

/* One line: a median per target, and what was promised of it. */
struct finding {
    const char *title, *what, *unit;
    double nginx, coordinator; /* negative: not measured */
    double bound;              /* 0: none */
    bool is_ratio;             /* the bound is on coordinator / nginx; else on the coordinator's own value */
};

void report_print(const struct finding *findings, size_t count);
/* results.csv and ratios.png in `folder`; false, with a message, if either cannot be written. */
bool report_write(const struct finding *findings, size_t count, const char *folder);

#endif
