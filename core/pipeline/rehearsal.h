/*
 * A rehearsal: one request through the real service and executor, with answers that stand in for the workers', and what was seen of it.
 *
 * The generation is served as always, but on a port of this machine that nobody is told, and its legs go nowhere (stand_in.h). What
 * is written down holds no secrets (secrets.h). Bounded: what has not ended within REHEARSAL_SECONDS is cut.
 * Ownership: everything that is seen lives in the rehearsal until rehearsal_release. Thread: run and release [load]; the rest is filled by
 * the service's reactor and may be read once run has returned.
 */
#ifndef PIPELINE_REHEARSAL_H
#define PIPELINE_REHEARSAL_H

#include "http/loopback.h"
#include "pipeline/secrets.h"
#include "pipeline/stand_ins.h"
#include "pipeline/witness.h"
#include "pipeline/worker.h"

enum { REHEARSAL_SECONDS = 10 };

struct rehearsed_piece {
    coord_slice text;
    bool spliced; /* not the client's bytes */
};

struct rehearsed_leg {
    struct rehearsed_leg *next;
    const char *name;
    coord_slice to;        /* scheme://host:port */
    const char *transport; /* by which it would really go */
    coord_slice method, target;
    struct headers headers; /* as on the wire */
    struct rehearsed_piece *pieces;
    size_t piece_count;
    coord_slice *spliced; /* JSON Pointers; one that is empty: the whole body is the step's own */
    size_t spliced_count, spliced_room;
    int32_t answered;   /* status of the answer that stood in */
    struct position at; /* of that answer; file NULL: the usual one */
};

struct rehearsed_step {
    const struct step *step;
    bool ran, ended, undone;
    coord_status status;
    const char *why; /* it was skipped or not reached, or how it failed; NULL: it just ran */
    struct rehearsed_leg *legs, **legs_end;
};

struct rehearsed_try { /* a pipeline that did not match */
    struct rehearsed_try *next;
    coord_slice name;
    const char *why;
};

/* What reached a writer, or, with `writer` NULL, the client. */
struct rehearsed_writer {
    struct rehearsed_writer *inner; /* to whom it passes on; NULL: this is the client */
    const coord_writer *writer;
    coord_slice name;
    const char *step; /* id of the one that wrapped it */
    bool rewrites, reads_body;
    bool reached; /* by an answer's head */
    bool skipped; /* it, or the chain, let the answer pass it by */
    int32_t status;
    struct headers headers;
    struct buffer body;
};

struct rehearsal_input {
    coord_slice path; /* with a query, if there is one */
    const struct header *headers;
    size_t header_count;
    coord_slice body;
};

struct rehearsal {
    struct arena arena;
    struct given_answers answers; /* set before run */
    struct secrets secrets;
    const struct generation *generation;
    struct witness witness;
    struct service service;
    bool served; /* `service` is to be released */

    pthread_mutex_t lock; /* of what follows, while the service runs */
    bool over;            /* nothing is written down any more */
    bool short_of_memory;
    const struct pipeline *pipeline; /* NULL: none */
    struct rehearsed_step *steps;    /* of that pipeline */
    const struct step *running;
    const struct step *stuck; /* the one that ran when the time was over */
    struct rehearsed_try *tries, **tries_end;
    struct rehearsed_leg *background, **background_end;
    struct rehearsed_writer *outermost; /* sees the worker's bytes first; the last one inward is `client` */
    struct rehearsed_writer client;

    struct loopback_answer answer; /* what the client got, by the server's framing */
    struct buffer answer_body;     /* with its secrets hidden */
    int32_t error_status;          /* 0: no answer came at all */
    const char *error;             /* why there is no good answer; NULL: there is one */
};

/* Changes what settings say about listening and draining; everything else is as it will be served. */
void rehearsal_adjust(struct settings *settings);

/*
 * Serves the request. `generation_take` is taken over, in any case. False, and complained about, when it could not be served at all: a step
 * does not start, no port, memory.
 */
bool rehearsal_run(struct rehearsal *rehearsal, struct generation *generation_take, const struct rehearsal_input *input,
                   struct complaints *complaints) COORD_MUST_CHECK;

/* Ends the process where a step does not let go of its reactor: print first. */
void rehearsal_release(struct rehearsal *rehearsal);

/* In rehearsal_record.c: a witness that writes down what it sees. */
void rehearsal_witness(struct rehearsal *rehearsal);
/* Copies fields into the rehearsal's arena, with their secrets hidden. `from` is another than `to`. */
void rehearsal_copy_fields(struct rehearsal *rehearsal, struct headers *to, const struct headers *from);

#endif
