/*
 * The inside of the HTTP server, shared by its files only: server.c (daemon and reactor), connection.c (a client's socket),
 * exchange.c (a request's life), request.c (the library's handler), calls.c (the application's calls),
 * reply.c (what goes out), stream.c (streams go out past the library).
 *
 * Who drives whom: calls of the application only note what it wants and put the exchange on the server's work list; the
 * turn-end hook takes that list, resumes connections and runs the library, whose callbacks (in exchange.c and reply.c) do what
 * was noted. So an application is never called from inside its own call, and a turn costs one walk over suspended connections.
 * Thread: [reactor].
 */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "http/server.h"

#include "http/framing.h"

#include <microhttpd.h>
#include <netinet/in.h>

enum {
    OUTPUT_KEPT = 4096,   /* memory for answers that goes from one exchange to the next */
    DIRECT_LIMIT = 65536, /* decision 67: larger early answers wait for the end of the upload */
    BODY_FIRST = 2 << 20, /* no more than this is set aside because a Content-Length says so, before as much has come */
    CHUNK_MOST = 16384,   /* bytes in a chunk of a stream */
    READER_BLOCK = 16384, /* what the library takes at once of an answer of known length */
    PACED_FROM = 4000,    /* suspended connections from which on resumes are paced */
    PACE_NS_EACH = 250    /* at most one walk per this much a suspended connection */
};

static const int64_t LINGER_NS = INT64_C(2000000000); /* an early answer's client is listened to for so long */

enum connection_wait {
    WAIT_NOTHING,
    WAIT_HEAD,   /* for the next request, or the rest of its head: close */
    WAIT_BODY,   /* for the rest of its body: 408 */
    WAIT_OUTPUT, /* for the client to take something */
    WAIT_LINGER  /* for the client to read an early answer: close */
};

struct connection {
    struct server *server;
    struct MHD_Connection *mhd;
    struct exchange *exchange;
    struct watch watch;   /* for the client's FIN and RST, which the library does not see while it is suspended */
    struct buffer direct; /* an answer, or the rest of a chunk, that goes out past the library */
    bool fin;             /* the client will send nothing more */
    bool broken;          /* nor take anything */
    bool suspended;
    bool served; /* at least one request */
    bool forsaken;
    enum connection_wait wait;
    int64_t deadline_ns;
    int64_t progress_ns; /* when the client last acknowledged something, as far as was looked */
    uint64_t acknowledged;
    struct timer timer; /* fires no later than the deadline; a deadline that moved away is noticed then */
    struct connection *next, **link;
    uint8_t peer_size;
    char peer[INET6_ADDRSTRLEN];
};

enum exchange_phase {
    PHASE_HEAD,   /* until the library's first call */
    PHASE_UPLOAD, /* the body comes */
    PHASE_HELD,   /* the same, but the application takes no more for now: suspended */
    PHASE_READY,  /* the request is whole; suspended unless an answer is there */
    PHASE_REPLY,  /* the library has the answer */
    PHASE_DIRECT, /* it goes out past the library, what still comes is thrown away */
    PHASE_LINGER, /* it has gone out */
    PHASE_SENT    /* all bytes went out before exchange_end came: no connection any more */
};

enum exchange_choice { CHOICE_NONE, CHOICE_READ, CHOICE_STREAM, CHOICE_HOLD };

enum { EXCHANGE_MAGIC = 0x45584348 };

/* What an event of a stream touches comes first: with many streams each is cold when its event comes. */
struct exchange {
    unsigned magic;
    enum exchange_phase phase;
    int32_t status;
    bool answered;  /* an answer was begun or given whole */
    bool ended;     /* and no more comes */
    bool truncated; /* and it ended too early: cut after what is queued */
    bool cut;       /* close as soon as possible */
    bool gone;      /* on_gone was called */
    bool finished;  /* on_done was called */
    bool headed;    /* on_head was called, so on_done is due */
    bool high;      /* output reached output_high: on_drained is due */
    bool bypasses;  /* its body goes out past the library, see stream.c */
    bool in_work;
    bool http10, head_request;
    bool folded; /* a line of its head */
    struct server *server;
    struct connection *connection;
    struct exchange *work_next; /* on the work list; or spare */
    struct buffer out;          /* from out_start on: what the library has not taken */
    size_t out_start;
    struct buffer lent; /* a whole answer's body, the library's until it has completed the request */
    int64_t length;     /* of the answer's body, -1: unknown */
    uint64_t written, sent;
    size_t output_high, output_low; /* of its whole life: whoever writes goes by those of its beginning, too */

    enum exchange_choice choice;
    bool expects_continue;
    bool in_budget;
    bool more;      /* exchange_upload_more */
    bool asked;     /* the library, once, for the answer to a whole request */
    bool too_large; /* the answer's head is */
    bool aborted;   /* by the application: no on_gone */
    bool close_after;
    void *app;
    struct exchange *next, **link;
    struct arena arena;
    coord_slice method, target, peer;
    struct headers headers;
    int64_t began_ns;
    int64_t declared;
    uint64_t received;
    struct buffer body;
    uint64_t budget_bytes;
    struct headers out_headers; /* of a begun answer: the application's */
};

struct server {
    struct reactor *reactor;
    struct server_options options;
    struct server_app app;
    struct MHD_Daemon *daemon;
    struct watch listen_watch;
    struct watch daemon_watch;
    struct hook hook;
    struct task kick; /* makes sure that a hook runs */
    struct timer daemon_timer;
    struct timer pace_timer;
    struct timer accept_timer; /* descriptors were short */
    struct connection *connections;
    struct exchange *exchanges;
    struct exchange *work, **work_end;
    struct exchange *spare;
    size_t spare_count;
    size_t connection_count, exchange_count, suspended_count;
    int64_t walked_ns;
    bool daemon_ready;
    bool reversed; /* the library sends header fields in reverse order of adding */
    bool announce, closed, abort_all;
};

/* server.c: the hook will look at this exchange. */
void server_work(struct exchange *exchange);
void server_connection_closed(struct server *server);

/* connection.c */
void connection_notify(void *context, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code);
/* Sets what the connection waits for, and for how long (0: for ever). */
void connection_wait(struct connection *connection, enum connection_wait wait, int64_t delay_ns);
void connection_suspend(struct connection *connection); /* in a callback of the library only */
void connection_resume(struct connection *connection);
/* Makes the library see the end of the connection. */
void connection_shut(struct connection *connection);
/* The client or the library gave the connection up: sees to it that the library closes it. */
void connection_forsaken(struct connection *connection);
/* But a whole request had come before that. */
void connection_wanted(struct connection *connection);
/* Sends connection->direct as far as it goes; the rest, and exchange_direct_done, when the socket takes more. */
void connection_send_direct(struct connection *connection);

/* exchange.c */
void *exchange_open(void *context, const char *target, struct MHD_Connection *mhd);
void exchange_completed(void *context, struct MHD_Connection *mhd, void **state, enum MHD_RequestTerminationCode code);
/* The hook's part: does what was noted. True when the library has to run for it. */
bool exchange_proceed(struct exchange *exchange);
/* The client is gone: tells the application and cuts. */
void exchange_lose(struct exchange *exchange, enum exchange_gone reason);
/* Answers with the application's error body. */
void exchange_refuse(struct exchange *exchange, enum exchange_refusal why, const char *detail);
void exchange_body_late(struct exchange *exchange);
/* True when the answer has to go out although the request has not ended, and can. */
bool exchange_answers_early(const struct exchange *exchange);
/* Sends it, while the request still comes, past the library (decision 67). */
void exchange_answer_directly(struct exchange *exchange);
/* connection->direct has gone out, or never will. */
void exchange_direct_done(struct exchange *exchange, bool whole);
void exchange_finish(struct exchange *exchange, bool complete);
void exchange_free(struct exchange *exchange);

/* request.c */
enum MHD_Result exchange_handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *size, void **state);

/* stream.c: sends what is queued; the connection is suspended. */
void stream_flush(struct exchange *exchange);

/* reply.c: the library or the socket has taken so much of what is queued. */
void reply_taken(struct exchange *exchange, size_t size);
/* Hands the answer to the library, in its handler. */
enum MHD_Result reply_queue(struct exchange *exchange);
/* The answer as bytes, for sending it past the library. */
bool reply_serialize(struct exchange *exchange, struct buffer *into);
/* True when head and status fit what the library has for them. */
bool reply_head_fits(const struct exchange *exchange, const struct headers *headers);
bool reply_order_reversed(void);

static inline size_t exchange_pending(const struct exchange *exchange)
{
    return exchange->out.size - exchange->out_start;
}

/* Nothing of such an answer is sent before it is known that it ends well. */
static inline bool exchange_waits_for_end(const struct exchange *exchange)
{
    return exchange->length == 0 || exchange->head_request || exchange->status == 204 || exchange->status == 304;
}

static inline bool exchange_can_reply(const struct exchange *exchange)
{
    return exchange->answered && (exchange->ended || !exchange_waits_for_end(exchange));
}

/* With what the socket has not taken of a stream. */
static inline size_t exchange_unsent(const struct exchange *exchange)
{
    return exchange_pending(exchange) +
           (exchange->bypasses && exchange->connection ? exchange->connection->direct.size : 0);
}

#endif
