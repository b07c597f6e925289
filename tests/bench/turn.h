/*
 * One turn: one target in one round of a case, from its start to its end.
 */
#ifndef BENCH_TURN_H
#define BENCH_TURN_H

#include "measure.h"

/* Starts the plan's worker and target, measures as the case's kind says, stops both. Adds to `values`, which the caller has filled with -1, what was
   measured. False, with a message on stderr, when something was not whole. */
bool turn_run(const struct settings *settings, const struct bench_case *a_case, const struct bodies *bodies,
              const struct fleet_plan *plan, double values[METRICS]);

#endif
