/*
 * How costs grow: every series of cases.h, point by point, into growth.csv, a table, and a plot a series (growth-NAME.png).
 */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

#include "measure.h"

/* False, with messages on stderr, when a point was not whole or a file could not be written. */
bool growth_run(struct bench *bench);

#endif
