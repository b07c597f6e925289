/*
 * What is measured: a worker, and before it nothing, nginx as a plain proxy, or the coordinator: over its own transport, over libcurl,
 * or without what the case is about. Their configuration files are written into the benchmark's folder, where a person can read
 * them and start the same by hand.
 */
#ifndef BENCH_TARGETS_H
#define BENCH_TARGETS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum target { NOTHING, NGINX, PLAIN, COORDINATOR, CURL, TARGETS };

extern const char *const target_names[TARGETS];

struct places {
    const char *coordinator, *worker; /* programs */
    const char *plugins;              /* the folders of the plugins, with a colon between them */
    const char *out;                  /* absolute: for everything that is written */
    const char *plots;                /* a folder that gets the plots as SVG, too; NULL: none does */
};

struct fleet {
    pid_t worker, target;       /* target: 0 for NOTHING */
    uint16_t worker_port, port; /* `port` is the one to send to */
};

struct fleet_plan {
    const struct places *places;
    enum target target;
    const char *answers; /* the folder of the worker's */
    /* The worker is nginx with the answers as static files, which may answer before it has read a long body; with `reads_bodies` it
       is bench-worker, which does not, and with an interval that sends events, too. */
    bool reads_bodies;
    int64_t interval_us;
    /* Of the coordinator: YAML with the worker's port as %u; 0 reactors: 1; `as_default` leaves all but addresses as a user gets it. */
    const char *steps;
    int reactors;
    bool as_default;
};

/*
 * Starts worker and target, and waits until both answer. False, with a message on stderr, when one of them does not come up; fleet_stop is
 * due in any case.
 */
bool fleet_start(struct fleet *fleet, const struct fleet_plan *plan);
/* The halves of that: a worker that answers, then a target that has only been started. */
bool fleet_start_worker(struct fleet *fleet, const struct fleet_plan *plan);
bool fleet_start_target(struct fleet *fleet, const struct fleet_plan *plan);
void fleet_stop(struct fleet *fleet);

#endif
