/*
 * How the body of an answer is framed (RFC 9112, 6 and 7): where it ends, and which of the bytes are the body.
 *
 * A pure function over bytes, so that it can be fuzzed: the same bytes give the same body in whatever pieces they come.
 * What the grammar leaves open is refused rather than guessed at: bare line feeds, spaces after a size, sizes that do not
 * fit, trailers that are none. Owns nothing. Thread: whoever owns it.
 */
#ifndef HTTP_DIRECT_BODY_H
#define HTTP_DIRECT_BODY_H

#include "http/upstream_head.h"

enum {
    CHUNK_LINE_LIMIT = 4 * 1024, /* bytes of one chunk's size and extensions */
    TRAILER_LIMIT = 16 * 1024    /* bytes of all trailers */
};

enum direct_body_kind { BODY_NONE, BODY_LENGTH, BODY_CHUNKS, BODY_TO_THE_END };

struct direct_body {
    enum direct_body_kind kind;
    int state;
    int64_t left;   /* of the body, or of the chunk */
    size_t skipped; /* of a chunk's line or of the trailers, so far */
};

enum direct_body_step {
    BODY_MORE, /* all bytes are taken, and more must come */
    BODY_DATA, /* `*data` is the next part of the body, never empty */
    BODY_WHOLE,
    BODY_BAD /* `*reason` says why */
};

/* As the final head says. `to_head`: the request was a HEAD. */
void direct_body_begin(struct direct_body *body, const struct answer_head *head, bool to_head);
/* Takes from the front of `*bytes` until there is something to say. What is left after BODY_WHOLE is not the body's.
   `*reason` is a string that lives as long as the process. */
enum direct_body_step direct_body_next(struct direct_body *body, coord_slice *bytes, coord_slice *data,
                                       const char **reason) COORD_MUST_CHECK;
/* The connection has ended: BODY_WHOLE where that ends the body, BODY_BAD where something is missing. */
enum direct_body_step direct_body_end(const struct direct_body *body, const char **reason) COORD_MUST_CHECK;
bool direct_body_whole(const struct direct_body *body);

#endif
