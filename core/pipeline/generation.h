/*
 * A generation: one configuration, loaded and checked, with the step instances that it made. Requests keep the generation
 * they began with; a reactor leaves one that was replaced when its last request with it is over (worker.h), and the main
 * thread frees it when the last reactor has left.
 *
 * Life: generation_build → generation_start → [generation_enter on each reactor] → requests → [generation_leave] →
 * generation_free. Read-only after build but for the per-reactor parts, which their reactor alone touches, and what is atomic.
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

struct worker;

enum { MAX_REACTORS = 256, MAX_STEPS = 64 /* of one pipeline */, MAX_WRITERS_SEEN = 8 /* of one step */ };

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
    const struct coord_config *configs; /* that one, then those of its connectors */
    size_t config_count;
    const struct connector_kind *kinds[2]; /* of those: KV, EC; NULL: it has none */
    struct metric_series *duration, *running;
    struct writers_seen *writers;
};

/* The writers that a step has wrapped so far, by name, in the order in which they first came. */
struct writers_seen {
    _Atomic(const char *) names[MAX_WRITERS_SEEN]; /* live as long as the process; NULL from the first free one on */
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

    /* Whose reactor it is, and how it comes and goes: worker.c's. */
    struct worker *worker;
    struct generation *generation;
    struct generation_local *next; /* of those that the worker has entered */
    size_t users;                  /* what began with it and is not over */
    struct task enter, serve, abandon, leave;
};

struct generation {
    struct arena arena;
    const struct settings *settings;
    const struct registry *registry;
    struct registry own; /* that one, when it was taken over */
    unsigned number;     /* from 1, counted by the service; 0: not in use yet */
    int64_t loaded_at;   /* when it came into use, in seconds since 1970 */

    /* Its coming and going (worker.c, swap.c). */
    struct generation *older;                   /* the service's: those that are not freed yet */
    _Atomic unsigned reactors;                  /* that are not done with it */
    _Atomic unsigned entered, refused, serving; /* what the reactors have answered */
    struct buffer refusal;                      /* of the first; under the service's lock */
    struct step *steps;                         /* of all pipelines */
    size_t step_count;
    struct pipeline *pipelines; /* in the order in which they are tried */
    size_t pipeline_count;
    struct coord_upstream *upstreams;
    unsigned upstream_count;
    struct coord_upstream *gateway;   /* the one called default, where passthrough goes; NULL: there is none */
    struct coord_upstream **gateways; /* of each of settings->gateways, in that order */
    const struct witness *witness;    /* of a dry run, set before anything enters; NULL: none */
    struct generation_local *local;   /* MAX_REACTORS of them */
};

/*
 * Builds the pipeline that `settings` (which lives in `arena`, taken over) describes: finds step types, validates params, makes instances. What is
 * wrong goes to `complaints`, all of it. NULL when there was an error; everything made is destroyed then.
 */
struct generation *generation_build(struct arena *arena_take, const struct settings *settings,
                                    const struct registry *registry, struct complaints *complaints);

/* Makes `registry`, which the generation was built with, the generation's own: it goes with it. */
void generation_take_registry(struct generation *generation, struct registry *registry_take);

/* Runs every step's `start`. False with a complaint when one fails (the others are stopped again). */
bool generation_start(struct generation *generation, struct complaints *complaints);
/* Stops and destroys the steps and frees it. NULL is allowed. */
void generation_free(struct generation *generation);

/* Opens the upstreams and runs thread_start on this reactor. False with `reason`. */
bool generation_enter(struct generation *generation, struct client *client, unsigned reactor, struct buffer *reason);
void generation_leave(struct generation *generation, unsigned reactor);

/* Notes that a step has wrapped a writer of this name, for whoever asks which there are. [reactor] */
void generation_note_writer(const struct step *step, const char *name);

/* The upstream of this reactor. */
static inline struct upstream *generation_upstream(struct generation *generation, unsigned reactor,
                                                   const struct coord_upstream *upstream)
{
    return generation->local[reactor].upstreams[upstream->index];
}

/* COORD_CONNECTOR_… when a STRING param of that name names a connector; else 0. */
int32_t connector_kind_named_by(const char *param);

/* A copy that lives as long as the process; equal texts give the same pointer. Aborts when memory is short. */
const char *intern(coord_slice text);

#endif
