/*
 * The pace of an event stream: opening, one event a token, closing; at once as far as the socket takes them, or one
 * event an interval; with the faults that concern events.
 *
 * Invariant: after any call here the connection may be over, and with it the stream: callers touch nothing afterwards.
 */
#ifndef SIM_STREAM_H
#define SIM_STREAM_H

#include "conn.h"
#include "shape.h"

struct stream {
    const struct shape *shape;
    struct reply *reply;       /* borrowed */
    const struct fault *fault; /* borrowed, never NULL */
    uint64_t words;            /* where the generated text starts */
    int64_t interval;          /* nanoseconds; 0: no pace */
    int64_t due;               /* of the next event */
    uint64_t index;            /* tokens sent */
    int64_t events;
    int64_t blob_left;
    bool opened;
    bool waiting; /* for the timer */
};

/* Sends the head of the answer and begins. Other members of `stream` have been filled in. */
void stream_begin(struct stream *stream, struct conn *conn, struct text headers);
/* The timer fired, or the backlog is gone: goes on. */
void stream_due(struct stream *stream, struct conn *conn);
void stream_writable(struct stream *stream, struct conn *conn);

/* The random number of token `index`: the same for the same start. */
uint64_t stream_random(uint64_t words, uint64_t index);

#endif
