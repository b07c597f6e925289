/*
 * What answers look like: JSON bodies and event-stream frames with names, order and nulls of the engine.
 * Source of every shape: vLLM 0.32.0 on the wire, transcripts of the paths named at the functions.
 */
#ifndef SIM_SHAPE_H
#define SIM_SHAPE_H

#include "buf.h"

/* All that an answer tells. Owned by whoever makes it; the functions here borrow. */
struct reply {
    struct buf id;    /* JSON-escaped */
    struct buf model; /* JSON-escaped */
    int64_t created;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;
    uint64_t output_tokens; /* to be generated in all */
    const char *finish;     /* finish_reason */
    bool include_usage;
    bool continuous_usage;
    bool usage_null; /* a fault: null wherever usage would stand */
    struct buf kv;   /* a JSON object; empty: null */
    struct buf ec;
    struct buf head; /* the unchanging start of a token frame, made by `opening` */
};

void reply_free(struct reply *reply);

/* How one API words its answers. Frames are whole events with LF line ends, blank line included. */
struct shape {
    const char *id_prefix;
    void (*whole)(struct buf *out, const struct reply *reply, struct text content);
    void (*opening)(struct buf *out, struct reply *reply);
    void (*token)(struct buf *out, const struct reply *reply, uint64_t index, struct text content); /* index from 0 */
    void (*closing)(struct buf *out, const struct reply *reply);
    /* An error inside a 200 stream, and what follows it. */
    void (*broken)(struct buf *out);
};

extern const struct shape shape_chat, shape_completions;

/* {"error":{…}}; param NULL: null. */
void shape_error(struct buf *out, struct text message, const char *type, const char *param, int code);

/* One generate request, as the render paths answer it. `max_tokens` < 0: absent. */
struct rendered {
    struct text ids;      /* with commas, without brackets */
    struct text features; /* JSON */
    int64_t max_tokens;
    bool stream;
};
void shape_rendered(struct buf *out, const struct reply *reply, const struct rendered *rendered);

#endif
