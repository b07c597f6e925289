/*
 * The inside of coord_call: one leg, its request as it is put together, and its answer as it comes in.
 *
 * States: FILLING → RUNNING → (HEAD) → ENDED. While it runs, what arrives goes by mode: COLLECT into a bounded buffer; HOLD
 * until the fiber has seen the head and chosen; RELAY through the request's writers to the client; READ piece by piece.
 * The fiber parks and is woken when what it waits for has come. Thread: [reactor].
 */
#ifndef PIPELINE_CALL_H
#define PIPELINE_CALL_H

#include "pipeline/outcome.h"
#include "pipeline/request.h"

/* What a leg sends, in memory of its own: it goes when it is out, since a stream that follows may last for minutes. */
struct outgoing {
    struct arena memory; /* of all this, itself included */
    coord_slice method, path;
    bool keep_query;
    struct headers headers;   /* what the step and the core set, over the base */
    coord_document *document; /* a clone of its own */
    coord_slice text;
    bool has_body;
};

enum call_mode { CALL_COLLECT = 1, CALL_HOLD, CALL_RELAY, CALL_READ, CALL_DISCARD };

struct coord_call {
    struct coord_request *request;
    const char *name;
    const char *phase;
    struct coord_upstream *upstream;
    bool gateway;

    struct outgoing *out; /* NULL: it is out, or will never be */
    int64_t timeout_ns;
    size_t limit;
    bool may_repeat, keep_failure, capture;

    enum call_mode mode;
    bool started, ended, cancelled, head_seen;
    bool relay_done; /* the answer went through the chain to its end, or was cut */
    unsigned attempts;
    struct leg *leg; /* running */
    coord_slice leg_id;
    struct leg_record *record;

    int32_t status;
    struct headers answer_headers;
    int64_t answer_length;
    struct buffer body;  /* COLLECT; HOLD and READ: what has come and was not taken */
    struct buffer given; /* READ: what was taken last */
    size_t discarded;
    bool too_large;
    bool paused;
    enum leg_outcome outcome;
    bool close_delimited;
    const char *detail;
    coord_document *answer;
    bool answer_tried;
    bool answer_has_body;               /* the body's memory has become the answer's, and lies where it lay */
    struct coord_call *next_of_request; /* all calls of a request, for freeing */
};

/* Between the files of the call. */
extern const struct leg_events call_events; /* call_events.c */
bool call_has_phase(const struct coord_call *call, const char *phase);
void call_relay_head(struct coord_call *call); /* the head in hand goes to the client */
void call_relay_data(struct coord_call *call, coord_slice bytes);
void call_relay_end(struct coord_call *call);              /* the answer is over: so is the client's */
coord_status call_fail_transport(struct coord_call *call); /* by its outcome; COORD_FAIL */

/* An empty POST to `path` (borrowed). NULL: memory is short. */
struct outgoing *call_outgoing_new(coord_slice path);
/* Gives back what it sends, if it has not yet: nobody sends it again. */
void call_forget_outgoing(struct coord_call *call);

/* Starts the leg. COORD_OK, or COORD_FAIL with the request failed. */
coord_status call_start(struct coord_call *call);

/* Frees what is not in the arena and cancels what still runs. */
void call_release(struct coord_call *call);

/* Feeds the client's side of a relay: the exchange can take more. */
void call_relay_drained(struct coord_call *call);

/* The client's side, used by relay and by coord_answer: chain → exchange (sink.c). */
extern const struct chain_sink client_sink;

/* Hands an answer's head to the request's writers. False: it had been answered before. */
bool answer_head(struct coord_request *request, int32_t status, struct headers *headers, int64_t length);
/* Decision 53: the worker, or the step, broke off in the middle. */
void answer_broken(struct coord_request *request, enum error_class class, int32_t status, const char *message);

#endif
