/*
 * Requests of HTTP/1.1 (RFC 9112), parsed strictly and incrementally.
 *
 * Anything doubtful about the framing is an error: both Content-Length and Transfer-Encoding, repeated or odd lengths,
 * codings other than chunked, bare LF, folded headers, space before a colon, no Host. Header bytes are kept as they
 * came.
 */
#ifndef SIM_HTTP_H
#define SIM_HTTP_H

#include "buf.h"

struct http_header {
    struct text name; /* point into request.head */
    struct text value;
};

enum http_place {
    HTTP_IN_HEAD,
    HTTP_IN_LENGTH,
    HTTP_IN_SIZE,
    HTTP_IN_CHUNK,
    HTTP_IN_CHUNK_END,
    HTTP_IN_TRAILER,
    HTTP_AT_END
};

struct http_request {
    struct buf head; /* request line and headers, raw */
    struct text method;
    struct text target;
    struct http_header *headers;
    size_t header_count;
    struct buf body;
    bool keep_alive;       /* the client wants, and its version allows, another request */
    bool http10;           /* no chunked answers */
    bool expects_continue; /* Expect: 100-continue, body not yet begun */
    enum http_place place;
    uint64_t remaining; /* of the body by length, or of the chunk */
    size_t scanned;     /* head bytes already searched for its end */
};

enum http_progress {
    HTTP_MORE,  /* all input used, or what is there is not enough */
    HTTP_HEAD,  /* the head has just become complete; call again for the body */
    HTTP_WHOLE, /* the request is complete; bytes after it stay in the input */
    HTTP_BAD,   /* no way to go on */
};

/* A zeroed request is ready for the first byte; http_clear readies it for the next. */
void http_clear(struct http_request *request);
/* Consumes from `in`. With HTTP_BAD, *why is a short reason. */
enum http_progress http_feed(struct http_request *request, struct buf *in, const char **why);

/* The first value of that name (ASCII case ignored); .at is NULL if there is none. */
struct text http_header(const struct http_request *request, const char *name);
/* The target without its query. */
struct text http_path(const struct http_request *request);

const char *http_reason(int status);

#endif
