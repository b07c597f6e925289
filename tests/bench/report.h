/*
 * What comes out of a benchmark: the table on the terminal, the same as results.csv and results.md, and a plot of it.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* What a bound is on: coordinator / base, the coordinator's own value, or (coordinator - base) / each. */
enum bound_on { RATIO, VALUE, ADDED };

/* One line: a median of the coordinator over both transports and of what it is compared with, and what was promised of it. */
struct finding {
    const char *title, *what, *unit;
    const char *base_name;          /* "nginx" */
    double base, coordinator, curl; /* negative: not measured */
    double bound;                   /* 0: none */
    enum bound_on bound_on;
    int each;
    bool is_plotted;
    const char *carried;  /* what a core carries 1e6 / coordinator of a second; NULL: the unit is no CPU time */
    double prompt_tokens; /* in each of them; 0: none */
};

void report_print(const struct finding *findings, size_t count);
/*
 * results.csv, results.md and ratios.png in `folder`, ratios.svg in `plots` unless NULL; false, with a message, if something
 * cannot be written.
 */
bool report_write(const struct finding *findings, size_t count, const char *folder, const char *plots);

/* FOLDER/NAME for writing; NULL, with a message, if that cannot be. */
FILE *report_open(const char *folder, const char *name);

/* Appends the tables as Markdown to the file at `path`; false, with a message, if it cannot be written. */
bool report_append(const struct finding *findings, size_t count, const char *path);

#endif
