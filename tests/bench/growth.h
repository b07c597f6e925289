/*
 * How costs grow: every series of cases.h, point by point, into growth.csv and growth.md, a table, and a plot a series
 * (growth-NAME.png). Each says whether it is a straight line to its end.
 */
#ifndef BENCH_GROWTH_H
#define BENCH_GROWTH_H

#include "measure.h"

/* False, with messages on stderr, when a point was not whole or a file could not be written. */
bool growth_run(struct bench *bench);

#endif
