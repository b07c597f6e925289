/*
 * Whether a measured curve is a straight line to its end.
 */
#ifndef BENCH_BEND_H
#define BENCH_BEND_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The last value as a multiple of what the points before it foretell: of a flat curve, the value of the point in the middle; else
 * what lies on the line through the last two points before it. 1: no bend; larger: it bends upwards. -1: too few points for that (a flat curve needs
 * two, another three), or one that was not measured (negative).
 */
double bend_of(const double *x, const double *y, size_t count, bool is_flat);

#endif
