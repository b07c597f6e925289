/*
 * HTTP/1.1 of our own for upstreams without TLS: what its files share.
 *
 *   direct.c             attempts: their pool, the transport's table, what an attempt's events have led to
 *   direct_connection.c  descriptors: connecting, what epoll watches, the pool of idle connections
 *   direct_request.c     sending: head, pieces, streamed uploads
 *   direct_answer.c      receiving; direct_reader and direct_body say what the bytes mean
 *
 * A leg on a kept connection costs one sendmsg and one recv: the head and the document's pieces go out together from where
 * they are, and what comes is read in one buffer of the reactor's and handed on from there.
 *
 * Invariants: a connection has an attempt or is idle in its upstream's list. An idle one stays in epoll, so that whatever
 * happens to it ends it at once. Owner's code runs inside of our calls and may cancel its leg there: the connection is closed
 * then, but the attempt stays until `inside` is 0. So after an event that has returned with `leg == NULL`, and whenever a
 * function here says DIRECT_GONE, nothing but direct_leave may be called.
 * Thread: [reactor].
 */
#ifndef HTTP_DIRECT_H
#define HTTP_DIRECT_H

#include "http/direct_reader.h"
#include "http/upstream_private.h"

#include <netinet/in.h>

enum { DIRECT_ROOM = 64 * 1024 };

struct direct_connection {
    struct watch watch;
    struct upstream *upstream;
    struct direct_attempt *attempt;          /* NULL: idle, or spare */
    struct direct_connection *newer, *older; /* of the idle ones; `older` also chains the spare ones */
    int64_t idle_since_ns;
    struct sockaddr_storage address;
    bool connecting;
};

/* Of the reactor. */
struct direct_client {
    struct client *client;
    size_t connections;              /* with a descriptor */
    struct direct_connection *spare; /* without */
    size_t spare_count;
    struct buffer head;     /* memory for the next request's head: most are out before the next one is made */
    char room[DIRECT_ROOM]; /* what was received last */
};

struct direct_upstream {
    struct upstream *upstream;
    struct direct_attempt *free;
    size_t free_count;
    struct direct_connection *newest, *oldest; /* idle */
    size_t idle;
    struct timer timer;              /* the oldest one's age; armed whenever one is idle, but perhaps too early */
    struct sockaddr_storage literal; /* when the host needs no lookup */
    coord_slice host;                /* the Host field, unless the request has its own */
};

struct direct_attempt {
    struct attempt attempt;
    struct direct_connection *connection;
    struct direct_attempt *next; /* in the pool */
    struct direct_reader reader;
    struct buffer rest; /* what a paused leg has not taken, from `rest_at` on; whoever cancels may read on in it */
    size_t rest_at;
    struct buffer head; /* of the request */
    size_t head_sent;
    size_t piece, offset; /* the next byte of the body's pieces */
    struct buffer out;    /* of a streamed upload: what is on its way, frame included */
    size_t out_sent;
    int64_t uploaded;
    unsigned inside;          /* calls of ours on the stack that may run the owner's code */
    bool returned;            /* given back meanwhile */
    bool sending;             /* the request is not out yet */
    bool cut_short;           /* … and never will be: the peer takes no more */
    bool upload_held;         /* the owner has nothing to upload now */
    bool upload_more;         /* it has something again */
    bool upload_over;         /* what is in `out` ends the body */
    bool deaf;                /* paused, and there is something to be read: not watched for it */
    bool answered;            /* a byte has come */
    bool peer_closed;         /* after what can be read */
    bool reusable;            /* the answer is whole and leaves the connection as it was */
    enum leg_outcome outcome; /* of DIRECT_OVER */
    const char *detail;
};

/* How things stand with an attempt. */
enum direct_verdict {
    DIRECT_GOING,
    DIRECT_GONE, /* cancelled by its owner */
    DIRECT_OVER  /* direct_finish is to report its `outcome` */
};

static inline struct direct_attempt *direct_of(struct attempt *attempt)
{
    return OWNER_OF(attempt, struct direct_attempt, attempt);
}

/* direct.c */
void direct_enter(struct direct_attempt *direct);
void direct_leave(struct direct_attempt *direct);
/* direct_leave, then the report, if there is one to make. Outside of every other direct_enter. */
void direct_finish(struct direct_attempt *direct, enum direct_verdict verdict);
/* The verdict, with its reason: a string that lives as long as the attempt. */
enum direct_verdict direct_over(struct direct_attempt *direct, enum leg_outcome outcome, const char *detail);
/* There is a connection now. */
enum direct_verdict direct_start(struct direct_attempt *direct, bool reused);
/* A receiving leg is to be left alone. A head is not held back. */
static inline bool direct_held(const struct direct_attempt *direct)
{
    return direct->attempt.paused && direct->attempt.head.complete;
}

/* direct_connection.c. These call no owner; the reactor's events arrive there, too. */
void direct_pool_open(struct direct_upstream *pool);
void direct_pool_close(struct direct_upstream *pool);
/* Takes the connection that was used last, if there is one for the attempt's address. */
bool direct_connection_reuse(struct direct_attempt *direct);
/* Begins to connect to the attempt's address, or to the next ones while they refuse at once. */
enum direct_verdict direct_connect(struct direct_attempt *direct);
/* Watches for what the attempt waits for; no system call when it is watched already. */
enum direct_verdict direct_watch(struct direct_attempt *direct);
/* The attempt is done with it. */
void direct_connection_keep(struct direct_connection *connection);
void direct_connection_close(struct direct_connection *connection);
void direct_connections_free(struct direct_client *client);

/* direct_request.c */
bool direct_build_head(struct direct_attempt *direct) COORD_MUST_CHECK;
/* The request's head is out, or will never be: its memory serves the next one. Allowed when there is none. */
void direct_forget_head(struct direct_attempt *direct);
/* Sends what can be sent now. Runs the owner's upload, if it is a streamed one. */
enum direct_verdict direct_send(struct direct_attempt *direct);

/* direct_answer.c */
enum direct_verdict direct_receive(struct direct_attempt *direct);
/* Goes on with what a pause left. */
enum direct_verdict direct_take_rest(struct direct_attempt *direct);

#endif
