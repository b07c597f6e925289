/*
 * A generation: one configuration, loaded and checked, with the step instances that it made. Requests keep the generation
 * they began with; the last one to leave frees it.
 *
 * Life: generation_build → generation_start → [generation_enter on each reactor] → requests → [generation_leave] →
 * generation_free. Read-only after build but for the per-reactor parts, which their reactor alone touches.
 * Thread: build, start, free [load]; enter, leave [reactor].
 */
#ifndef PIPELINE_GENERATION_H
#define PIPELINE_GENERATION_H

#include "config/settings.h"
#include "http/upstream.h"
#include "pipeline/registry.h"
#include "runtime/running.h"
#include "telemetry/metrics.h"

#include <coordinator/call.h>

enum { MAX_REACTORS = 256, MAX_STEPS = 64 /* of one pipeline */ };

/* = coord_upstream: where legs go, for all reactors; each has its own `struct upstream` at `index`. */
struct coord_upstream {
    struct coord_upstream *next;
    unsigned index;
    struct upstream_options options;
    int64_t timeout_ns; /* whole call; 0: none but the usual ones */
};

/* = coord_connector: an instance, owned by its step. */
struct coord_connector {
    struct coord_connector *next;
    const struct connector_kind *kind;
    const struct owner *owner;
    void *state;
};

struct step {
    const struct step_kind *kind;
    const struct step_entry *entry; /* as written: conditions, time limit, what an error means */
    const char *id;                 /* lives as long as the process */
    const struct owner *owner;      /* by which the watchdog and a crash name it; lives as long */
    void *state;
    bool created, started;
    struct coord_connector *connectors;
    struct coord_config config;
    struct metric_series *duration;
};

/* One way through steps, for the requests that its conditions let in. */
struct pipeline {
    const struct pipeline_settings *settings;
    struct coord_upstream *gateway;
    struct step *steps; /* a part of the generation's */
    size_t step_count;
};

/* A reactor's part of a generation. */
struct generation_local {
    struct upstream **upstreams; /* by coord_upstream.index */
    void **locals;               /* by step */
    bool entered;
};

struct generation {
    struct arena arena;
    const struct settings *settings;
    const struct registry *registry;
    struct step *steps; /* of all pipelines */
    size_t step_count;
    struct pipeline *pipelines; /* in the order in which they are tried */
    size_t pipeline_count;
    struct coord_upstream *upstreams;
    unsigned upstream_count;
    struct coord_upstream *gateway; /* the one called default, where passthrough goes; NULL: there is none */
    struct generation_local local[MAX_REACTORS];
};

/*
 * Builds the pipeline that `settings` (which lives in `arena`, taken over) describes: finds step types, validates params, makes instances. What is
 * wrong goes to `complaints`, all of it. NULL when there was an error; everything made is destroyed then.
 */
struct generation *generation_build(struct arena *arena_take, const struct settings *settings,
                                    const struct registry *registry, struct complaints *complaints);

/* Runs every step's `start`. False with a complaint when one fails (the others are stopped again). */
bool generation_start(struct generation *generation, struct complaints *complaints);
/* Stops and destroys the steps and frees it. NULL is allowed. */
void generation_free(struct generation *generation);

/* Opens the upstreams and runs thread_start on this reactor. False with `reason`. */
bool generation_enter(struct generation *generation, struct client *client, unsigned reactor, struct buffer *reason);
void generation_leave(struct generation *generation, unsigned reactor);

/* The upstream of this reactor. */
static inline struct upstream *generation_upstream(struct generation *generation, unsigned reactor,
                                                   const struct coord_upstream *upstream)
{
    return generation->local[reactor].upstreams[upstream->index];
}

/* A copy that lives as long as the process; equal texts give the same pointer. Aborts when memory is short. */
const char *intern(coord_slice text);

#endif
