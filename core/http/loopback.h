/*
 * One request to a server on this machine, from a thread that is not the server's, and its whole answer. For dry runs.
 *
 * Thread: any; it blocks.
 */
#ifndef HTTP_LOOPBACK_H
#define HTTP_LOOPBACK_H

#include "http/headers.h"
#include "runtime/buffer.h"

struct loopback_answer {
    bool whole;     /* false: the connection ended in the middle of it */
    int32_t status; /* 0: there was none */
    struct headers headers;
    struct buffer body; /* without framing */
    int fd;             /* the connection, still open after LOOPBACK_TIMEOUT; else -1 */
};

enum loopback_outcome {
    LOOPBACK_DONE,
    LOOPBACK_TIMEOUT,
    LOOPBACK_TOO_LONG,
    LOOPBACK_BROKEN, /* no connection, or memory is short */
};

/* What the answer may take: with its framing, and from the request on. */
struct loopback_limits {
    int64_t ns;
    size_t bytes;
};

/*
 * Sends `request`, which asks for the connection to be closed, to 127.0.0.1:`port` and reads until the end or a limit. `answer`
 * gets what came, its fields in the arena; loopback_release frees the rest. When its time has passed, the connection stays, so that
 * the server goes on with what it is at, until loopback_hang_up.
 */
enum loopback_outcome loopback_run(uint16_t port, coord_slice request, const struct loopback_limits *limits,
                                   struct arena *arena, struct loopback_answer *answer);
void loopback_hang_up(struct loopback_answer *answer);
void loopback_release(struct loopback_answer *answer);

#endif
