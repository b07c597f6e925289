/*
 * What comes out of a case: its medians as lines of the report, each beside what was promised of it.
 */
#ifndef BENCH_FINDINGS_H
#define BENCH_FINDINGS_H

#include "measure.h"

enum { FINDINGS_A_CASE = 4 };

/* Fills `findings`; the number of them. They point to what lives as long as the case. */
size_t findings_of(struct bench *bench, const struct bench_case *a_case, struct finding findings[FINDINGS_A_CASE]);

#endif
