/*
 * Response writers: decorators around the answer on its way to the client.
 *
 * The last one wrapped sees the worker's bytes first and passes on to the one wrapped before it; the innermost is the client.
 * An observer (no COORD_WRITER_REWRITES) only looks: the core passes everything on by itself, framing and timing unchanged, and
 * ignores what it passes. A rewriter passes on what it wants to by coord_writer_pass_*; Content-Length and entity digests are
 * dropped and the body is chunked.
 * Order of calls for each writer: head once → data, any number → end or abort once → free once. `abort` may come at any point
 * before `end`, also before `head`. After a writer ended the answer early (finish, pass_abort) it gets nothing more but `free`. A
 * writer that ends the answer without having passed its head leaves none: the client gets a 500.
 * Everything here is [reactor]: no parking, no blocking.
 */
#ifndef COORDINATOR_RESPONSE_H
#define COORDINATOR_RESPONSE_H

#include <coordinator/request.h>

COORD_BEGIN_DECLS

typedef struct coord_writer coord_writer; /* a writer around one answer */
typedef struct coord_head coord_head;     /* its status and headers */

enum {
    COORD_WRITER_REWRITES = 1 << 0, /* it may change, hold, add or drop bytes */
    COORD_WRITER_READS_BODY =
        1
        << 1 /* it wants to read the body: legs are sent with Accept-Encoding: identity; it is skipped when the worker compresses all the same */
};

/* What a writer does; it lives on. */
typedef struct coord_writer_type {
    uint32_t size;  /* sizeof(coord_writer_type) */
    uint32_t flags; /* COORD_WRITER_… */
    const char *name;
    /* Any may be NULL: pass on (rewriters), ignore (observers). */
    void (*head)(coord_writer *writer, coord_head *head);
    void (*data)(coord_writer *writer, coord_slice bytes);
    void (*end)(coord_writer *writer);
    /* The answer broke or the client left. A rewriter may pass what it still holds by coord_writer_pass, and nothing else. */
    void (*abort)(coord_writer *writer);
    void (*free)(coord_writer *writer); /* frees the state */
} coord_writer_type;

/* Wraps the answer. Before the answer's head only, else COORD_STATE. `type` lives on; `state` is the writer's. COORD_OK, COORD_NO_MEMORY. [fiber] */
COORD_API coord_status coord_request_wrap(coord_request *request, const coord_writer_type *type,
                                          void *state) COORD_MUST_CHECK;

/* What it was wrapped with, and the request whose answer it is. */
COORD_API void *coord_writer_state(const coord_writer *writer);
COORD_API coord_request *coord_writer_request(const coord_writer *writer);

/* The head: what the worker said, or what the writer before has made of it. Setters work in
   `head` of a rewriter only (COORD_STATE otherwise); COORD_INVALID: a status below 200 or above 599, a bad name or value. */
COORD_API int32_t coord_head_status(const coord_head *head);
COORD_API coord_status coord_head_header(const coord_head *head, const char *name,
                                         coord_slice *value); /* first value; COORD_OK, COORD_ABSENT */
COORD_API bool coord_head_is_event_stream(const coord_head *head);
COORD_API bool coord_head_is_json(const coord_head *head);
COORD_API coord_status coord_head_set_status(coord_head *head, int32_t status);
COORD_API coord_status coord_head_set_header(coord_head *head, const char *name, coord_slice value);
COORD_API coord_status coord_head_remove_header(coord_head *head, const char *name);
/* How many body bytes will leave this rewriter, if it knows before it passes the head on: the client then gets a
   Content-Length. It must keep its word. */
COORD_API void coord_head_set_length(coord_head *head, uint64_t bytes);
/* In `head`: this writer leaves the body of this answer alone; what it has set in the head stays. It gets no more calls but `free`.
   Content-Length stays if all rewriters say so. */
COORD_API void coord_writer_skip(coord_writer *writer);

/* Passing on (rewriters). The head must be passed before data; if `head` returns without passing it, the writer holds it and passes it later. */
COORD_API void coord_writer_pass_head(coord_writer *writer, coord_head *head);
COORD_API void coord_writer_pass(coord_writer *writer,
                                 coord_slice bytes); /* copied where needed; ready for reuse on return */
COORD_API void coord_writer_pass_end(coord_writer *writer);
/* Cuts the answer: the client sees a truncation. */
COORD_API void coord_writer_pass_abort(coord_writer *writer);
/* Ends the answer here with what was passed so far: the leg is cancelled, writers further in get `end`. */
COORD_API void coord_writer_finish(coord_writer *writer);

COORD_END_DECLS
#endif
