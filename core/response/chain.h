/*
 * The writer chain: an answer's head and bytes pass through the writers that steps have wrapped, the last one wrapped
 * first, to the sink (the client).
 *
 * Invariants: each writer sees head once, then data, then exactly one of end or abort, then free once. When no rewriter is
 * active, what enters leaves unchanged and at once, its length included. Nothing passes the chain after its end.
 * Public side: <coordinator/response.h>. Thread: [reactor].
 */
#ifndef RESPONSE_CHAIN_H
#define RESPONSE_CHAIN_H

#include "http/headers.h"

#include <coordinator/response.h>

/* = coord_head of the public API. */
struct coord_head {
    int32_t status;
    struct headers headers; /* no framing fields */
    int64_t length;         /* -1: unknown */
    int64_t promised;       /* by the rewriter that had the head last; -1: nothing */
    bool changeable;        /* inside `head` of a rewriter */
};

/* Where the answer goes in the end. */
struct chain_sink {
    void (*head)(void *context, struct coord_head *head);
    void (*data)(void *context, coord_slice bytes);
    void (*end)(void *context);
    void (*abort)(void *context);
    void (*finished)(void *context); /* a writer ended the answer early: whoever feeds the chain stops */
};

/* Who looks on as an answer passes; all members are set. */
struct chain_watch {
    void *context;
    void (*wrapped)(void *context, coord_request *request, const coord_writer *writer, const coord_writer_type *type);
    /* The head, or bytes, are about to reach `to`; NULL: the client. Those who take no part any more are passed over. */
    void (*head)(void *context, const coord_writer *to, const struct coord_head *head);
    void (*data)(void *context, const coord_writer *to, coord_slice bytes);
};

struct chain {
    coord_request *request;
    struct arena *arena;
    const struct chain_sink *sink;
    void *context;
    const struct chain_watch *watch; /* NULL: nobody looks on */
    struct coord_writer *outer;      /* sees the worker's bytes first */
    struct coord_writer *writers;    /* all, for freeing */
    bool reads_body;                 /* any writer does */
    bool head_entered;
    bool over; /* end, abort or an early finish has left the chain */
    bool finishing;
};

void chain_init(struct chain *chain, coord_request *request, struct arena *arena, const struct chain_sink *sink,
                void *context);
/* `type` is copied as far as its size goes. COORD_OK; COORD_STATE: too late; COORD_NO_MEMORY. */
coord_status chain_wrap(struct chain *chain, const coord_writer_type *type, void *state);
/* A place to come back to: chain_unwrap frees every writer that was wrapped since. Before the head only. */
struct coord_writer *chain_mark(const struct chain *chain);
void chain_unwrap(struct chain *chain, struct coord_writer *mark);
/* The answer passes it by: it is compressed, or the writer said so. */
bool chain_writer_skipped(const coord_writer *writer);
/* True while a writer wants to read the body: the leg asks for identity. */
bool chain_reads_body(const struct chain *chain);
/* Feeding it. `head` may be changed on the way; its memory must live until the chain is over. */
void chain_head(struct chain *chain, struct coord_head *head);
void chain_data(struct chain *chain, coord_slice bytes);
void chain_end(struct chain *chain);
/* Writers still waiting get `abort`; the sink gets it too unless the answer is over. */
void chain_abort(struct chain *chain);
/* Frees the writers (aborting first those that saw neither end nor abort). */
void chain_release(struct chain *chain);

/* The media type of a head, for the chain and others: does content-type begin with that type? */
bool head_has_type(const struct coord_head *head, const char *type);

#endif
