/*
 * What is measured: a worker, and before it nothing, nginx as a plain proxy, or the coordinator. Their configuration
 * files are written into the benchmark's folder, where a person can read them and start the same by hand.
 */
#ifndef BENCH_TARGETS_H
#define BENCH_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum target { DIRECT, NGINX, COORDINATOR, TARGETS };

extern const char *const target_names[TARGETS];

struct places {
    const char *coordinator, *plugins, *worker; /* programs, and the folder of the plugins */
    const char *out;                            /* absolute: for everything that is written */
};

struct fleet {
    pid_t worker, target;       /* target: 0 for DIRECT */
    uint16_t worker_port, port; /* `port` is the one to send to */
};

/*
 * Starts worker and target for a case whose answers lie in `answers`. The worker is nginx with those as static files, or,
 * where interval_us is not 0, bench-worker. `legs`: 1 (decode) or 3 (render, prefill, decode) for the coordinator.
 * False, with a message on stderr, when one of them does not come up; fleet_stop is due in any case.
 */
bool fleet_start(struct fleet *fleet, enum target target, const struct places *places, const char *answers, int legs,
                 int64_t interval_us);
void fleet_stop(struct fleet *fleet);

#endif
