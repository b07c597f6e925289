/*
 * What answers look like: JSON bodies and event-stream frames with names, order and nulls of the engine.
 * Source of every shape: vLLM 0.32.0 on the wire, transcripts of the paths named at the functions.
 */
#ifndef SIM_SHAPE_H
#define SIM_SHAPE_H

#include "traits.h"

/* All that an answer tells. Owned by whoever makes it; the functions here borrow. */
struct reply {
    struct buf id;    /* JSON-escaped */
    struct buf model; /* JSON-escaped */
    int64_t created;
    uint64_t prompt_tokens;
    uint64_t cached_tokens;  /* of the prompt: read from a cache, */
    uint64_t created_cached; /* and put into one; both together at most the prompt */
    uint64_t output_tokens;  /* to be generated in all */
    bool cut_short;          /* the request's cap ends the output */
    bool include_usage;
    bool continuous_usage;
    bool usage_null; /* a fault: null wherever usage would stand */
    struct traits traits;
    struct buf kv; /* a JSON object; empty: null */
    struct buf ec;
    struct buf head; /* the unchanging part of a token frame, made by `opening` */
    /* Responses repeats them: */
    struct buf instructions; /* raw JSON; empty: null */
    struct buf tools;        /* raw JSON; empty: none */
    uint64_t cap;            /* max_output_tokens */
    uint64_t item;           /* the id of its output item */
    uint64_t sequence;       /* of the next event */
    struct buf said;         /* the text of the tokens so far */
};

void reply_free(struct reply *reply);

/* How one API words its answers. Frames are whole events with LF line ends, blank line included. */
struct shape {
    const char *id_prefix;
    bool
        speaks_ids; /* `content` is a list of token ids, with commas and without brackets; otherwise JSON-escaped text */
    void (*whole)(struct buf *out, const struct reply *reply, struct text content);
    void (*opening)(struct buf *out, struct reply *reply);
    /* index from 0; reply->output_tokens is that of no token. */
    void (*token)(struct buf *out, struct reply *reply, uint64_t index, struct text content);
    void (*closing)(struct buf *out, struct reply *reply);
    /* An error inside a 200 stream, and what follows it. */
    void (*broken)(struct buf *out, struct reply *reply);
};

extern const struct shape shape_chat, shape_completions, shape_responses, shape_messages, shape_generate;

/* Adds one token, for any `random` number, to the content so far. */
void shape_add_word(const struct shape *shape, struct buf *content, uint64_t random);
/* One token by itself; valid until the next call. */
struct text shape_word(const struct shape *shape, uint64_t random);
/* Adds `len` bytes of content, more than one token. */
void shape_add_filler(const struct shape *shape, struct buf *content, size_t len);

/* {"error":{…}}; param NULL: null. */
void shape_error(struct buf *out, struct text message, const char *type, const char *param, int code);
/* {"type":"error","error":{…}} */
void shape_messages_error(struct buf *out, struct text message, const char *type, const char *param, int code);

/* One generate request, as the render paths answer it. `max_tokens` < 0: absent. */
struct rendered {
    struct text ids;      /* with commas, without brackets */
    struct text features; /* JSON */
    const char *more;     /* members of sampling_params after skip_clone, with a comma each; NULL: none */
    int64_t max_tokens;
    bool stream;
};
void shape_rendered(struct buf *out, const struct reply *reply, const struct rendered *rendered);

#endif
