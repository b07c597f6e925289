/*
 * Closed-loop load: N keep-alive connections, each sends the same request again as soon as the answer to the last one is
 * complete. A number of requests warms up, the next are counted: wall time, latency of each, CPU time of the target.
 *
 * Thread: one; load_run returns when the last counted request is answered or the deadline has passed.
 */
#ifndef BENCH_LOAD_H
#define BENCH_LOAD_H

#include "samples.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct load_plan {
    uint16_t port;       /* on 127.0.0.1 */
    const char *request; /* head and body */
    size_t request_length;
    size_t connections;
    uint64_t warm_up, requests;
    int64_t answer_length; /* of each body; -1: any */
    pid_t target;          /* whose CPU time is taken; 0: nobody's */
    int64_t deadline_ns;   /* CLOCK_MONOTONIC */
};

struct load_result {
    uint64_t requests, errors; /* an error: no answer, a status other than 200, another length */
    int64_t wall_ns;
    int64_t cpu_ns;         /* of the target over the counted requests; -1 unknown */
    struct samples latency; /* microseconds, counted requests only; release it */
    char first_error[160];  /* empty: none */
};

/* False when the deadline passed or no connection could be made; the result holds what was counted until then. */
bool load_run(const struct load_plan *plan, struct load_result *result);

/* Head and body of a POST with JSON, NUL-terminated; malloc. `phase` may be NULL. */
char *load_request_new(const char *path, const char *phase, const char *body, size_t body_length, size_t *length);

/* A connected, non-blocking socket to 127.0.0.1:port, or -1. */
int load_connect(uint16_t port);

#endif
