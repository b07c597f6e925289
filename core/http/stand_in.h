/*
 * A transport without a wire: legs that somebody in this process answers. For dry runs, which put legs together as always and
 * must reach no worker.
 *
 * Everything above the transport is the real thing: deadlines, the order of events, pauses, the check of an answer's head. No name
 * is looked up, no file of a certificate read, no connection made. Thread: [reactor].
 */
#ifndef HTTP_STAND_IN_H
#define HTTP_STAND_IN_H

#include "runtime/buffer.h"

struct client;
struct upstream;

/* What a leg would have sent. */
struct stand_in_leg {
    void *owner; /* of the leg */
    const struct upstream *upstream;
    coord_slice head;          /* request line, fields and the blank line, as on the wire */
    const coord_slice *pieces; /* the body */
    size_t piece_count;
};

/* The answer, as from the wire, but for framing: `body` is all of it, and no chunk sizes are in it. */
struct stand_in_answer {
    struct buffer head; /* status line, fields, each ending with CRLF; the blank line is not in it */
    struct buffer body;
};

/* Fills `answer`, whose buffers are empty and not its own. False: nobody takes the connection. */
typedef bool stand_in_fn(void *context, const struct stand_in_leg *leg, struct stand_in_answer *answer);

/* From now on every upstream that `client` opens is answered by `stand_in`. Before the first is opened. */
void client_stand_in(struct client *client, stand_in_fn *stand_in, void *context);

/* How the upstream's legs would really travel: "direct" or "libcurl". */
const char *upstream_transport_name(const struct upstream *upstream);
/* By https. */
bool upstream_is_secure(const struct upstream *upstream);

#endif
