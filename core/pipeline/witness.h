/*
 * Who looks on while requests are served: a dry run. A generation has one or, as nearly always, none; it changes nothing of what is
 * done but for answering the legs in the workers' place.
 *
 * Thread: the request's reactor; all members are set.
 */
#ifndef PIPELINE_WITNESS_H
#define PIPELINE_WITNESS_H

#include "http/stand_in.h"
#include "response/chain.h"

struct coord_request;
struct pipeline;
struct step;

struct witness {
    void *context;
    stand_in_fn *answer; /* every leg; its owner is the struct coord_call */
    /* A pipeline was tried: `key` of its match does not hold, or is NULL, and it serves the request. */
    void (*tried)(void *context, const struct coord_request *request, const struct pipeline *pipeline, const char *key);
    /* `key` of the step's `when` does not hold. */
    void (*skipped)(void *context, const struct coord_request *request, const struct step *step, const char *key);
    void (*began)(void *context, const struct step *step);
    /* It returned `status`. `message` is why it failed, empty: it did not. `undone`: the pipeline goes on as if it had not run. */
    void (*ended)(void *context, const struct step *step, coord_status status, coord_slice message, bool undone);
    struct chain_watch writers;
};

#endif
