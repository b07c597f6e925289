/*
 * What is measured: a worker, and before it nothing, nginx as a plain proxy, the coordinator, or the coordinator without what
 * the case is about. Their configuration
 * files are written into the benchmark's folder, where a person can read them and start the same by hand.
 */
#ifndef BENCH_TARGETS_H
#define BENCH_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum target { DIRECT, NGINX, PLAIN, COORDINATOR, TARGETS };

extern const char *const target_names[TARGETS];

struct places {
    const char *coordinator, *worker; /* programs */
    const char *plugins;              /* the folders of the plugins, with a colon between them */
    const char *out;                  /* absolute: for everything that is written */
};

struct fleet {
    pid_t worker, target;       /* target: 0 for DIRECT */
    uint16_t worker_port, port; /* `port` is the one to send to */
};

/*
 * Starts worker and target for a case whose answers lie in `answers`. The worker is nginx with those as static files, or,
 * where interval_us is not 0, bench-worker. `steps` (YAML, the worker's port as %u) and `reactors` (0: 1) are for the coordinator.
 * False, with a message on stderr, when one of them does not come up; fleet_stop is due in any case.
 */
bool fleet_start(struct fleet *fleet, enum target target, const struct places *places, const char *answers,
                 const char *steps, int reactors, int64_t interval_us);
void fleet_stop(struct fleet *fleet);

#endif
