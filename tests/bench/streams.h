/*
 * Concurrent event streams: N connections, each first used for one short stream and then for one long one. The worker
 * writes its CLOCK_MONOTONIC time into each event (`"ns":…`); what an event was late when it arrived is its delay.
 *
 * The long streams start one after the other over `ramp_ns`. Everything is measured in a window in which all of them run:
 * events, delays, CPU time of the target; its memory in the middle of the window.
 *
 * Thread: one; streams_run returns when the last stream has ended or the deadline has passed.
 */
#ifndef BENCH_STREAMS_H
#define BENCH_STREAMS_H

#include "samples.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct streams_plan {
    uint16_t port; /* on 127.0.0.1 */
    const char *short_request, *long_request;
    size_t short_length, long_length;
    size_t streams;
    uint64_t short_events, long_events;          /* that each stream must bring */
    int64_t ramp_ns, window_after_ns, window_ns; /* the window begins so long after the end of the ramp */
    pid_t target;                                /* 0: none */
    int64_t deadline_ns;
};

struct streams_result {
    uint64_t complete;     /* long streams that brought all events and `[DONE]` and ended cleanly */
    uint64_t events;       /* in the window */
    int64_t cpu_ns;        /* of the target in the window; -1 unknown */
    int64_t memory;        /* of the target in the window, bytes; -1 unknown */
    struct samples delay;  /* microseconds; release it */
    char first_error[160]; /* empty: none */
};

/* True when every stream was complete. */
bool streams_run(const struct streams_plan *plan, struct streams_result *result);

#endif
