/*
 * One connection: reads requests, hands them to serve.h, frames and sends the answers, and plays the faults of the
 * transport (splits, silence, reset, FIN, compression, no length).
 *
 * Invariant: at most one request is in hand; bytes after it wait. A closed connection stays in memory until the turn of
 * the loop ends, so callers on the stack may still look at `place`.
 */
#ifndef SIM_CONN_H
#define SIM_CONN_H

#include "fault.h"
#include "gzip.h"
#include "http.h"
#include "loop.h"

enum conn_place {
    CONN_READING,   /* waits for a whole request */
    CONN_BUSY,      /* serve has the request; nothing sent yet */
    CONN_ANSWERING, /* head sent */
    CONN_STALLED,   /* silent for good */
    CONN_DRAINING,  /* our side is shut; what still comes is dropped */
    CONN_CLOSED,
};

struct conn {
    struct grave grave; /* first member */
    struct watch watch;
    struct timer timer; /* serve's while it has the request; otherwise the idle or drain limit */
    struct timer pump;  /* the next piece of a split answer */
    enum conn_place place;
    uint64_t id;
    uint64_t served; /* answers given before */
    struct buf in;
    struct http_request request;
    void *serving;             /* serve's */
    const struct fault *fault; /* serve's, NULL for none; must stay until serve_over */
    /* the answer */
    struct buf out;     /* framed bytes not yet sent */
    struct buf pending; /* body bytes not yet framed; only for answers that faults shape */
    struct gzip gzip;
    uint64_t body_sent;
    bool chunked;
    bool no_body; /* HEAD, 204, 304 */
    bool shaped;
    bool gzipped;
    bool ended;     /* serve gave the last byte */
    bool end_added; /* and its framing is in `out` */
    bool close_after;
    bool feeding;       /* guards against recursion */
    int64_t close_idle; /* nanoseconds; -1: never */
};

/* Listens on 127.0.0.1:port (0: any) and serves what connects; returns the port, or -1 with errno. */
int conn_listen(uint16_t port);
void conn_close_all(void);
uint64_t conn_open_count(void);
/* Default for how long an idle connection stays open; -1: for ever. */
void conn_set_close_idle(int64_t nanos);

/*
 * Begins an answer. `headers`: lines to add, each ending in CRLF. `length`: of the body, or -1 for a stream. With a
 * gzip fault the length must be that of the plain body: a gzipped answer is chunked.
 */
void conn_begin(struct conn *conn, int status, const char *type, struct text headers, int64_t length);
void conn_send(struct conn *conn, struct text body);
void conn_end(struct conn *conn);
/* The whole answer at once. */
void conn_answer(struct conn *conn, int status, const char *type, struct text headers, struct text body);
/* Sends what was given so far. May finish the answer and so call serve_over. */
void conn_flush(struct conn *conn);
/* Bytes given but not yet taken by the kernel. */
size_t conn_backlog(const struct conn *conn);

/* serve_due when that time has come; only while serve has the request. */
void conn_arm(struct conn *conn, int64_t at);

#endif
