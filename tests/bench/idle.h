/*
 * A start, and nothing to do: how long it takes to the first answers, and what a process that has served a request costs while
 * nobody asks it for anything.
 *
 * Thread: one; it waits, some fifteen seconds in all.
 */
#ifndef BENCH_IDLE_H
#define BENCH_IDLE_H

#include "bodies.h"
#include "targets.h"

struct idle_result {
    double ready_ms;     /* from exec to the first good answer of /readyz */
    double first_ms;     /* from exec to that of a request that went through a worker */
    double resident_mib; /* at the end */
    double wakes;        /* a second, of all threads, over ten seconds in which every kept connection has closed */
};

/* Starts the plan's worker and target itself; fleet_stop is due in any case. False, with a message on stderr: no good answer. */
bool idle_run(struct fleet *fleet, const struct fleet_plan *plan, const struct bodies *bodies,
              struct idle_result *result);

#endif
