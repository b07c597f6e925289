/*
 * The inside of the HTTP server, shared by its files only: server.c (daemon and reactor), connection.c (a client's socket),
 * exchange.c (a request's life and the calls of the application), reply.c (what goes out).
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
    OUTPUT_KEPT = 4096,   /* memory that a stream with nothing queued keeps */
    DIRECT_LIMIT = 65536, /* decision 67: larger early answers wait for the end of the upload */
    BODY_FIRST = 1 << 20, /* no more than this is set aside because a Content-Length says so */
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
    struct connection *next, **link;
    struct watch watch; /* for the client's FIN and RST, which the library does not see while it is suspended */
    struct timer fin_timer; /* see connection.c, `nudge` */
    struct timer timer; /* fires no later than the deadline; a deadline that moved away is noticed then */
    int64_t deadline_ns;
    int64_t progress_ns; /* when the client last acknowledged something, as far as was looked */
    uint64_t acknowledged;
    enum connection_wait wait;
    struct exchange *exchange;
    struct buffer direct; /* an answer that goes out past the library */
    bool fin;             /* the client will send nothing more */
    bool broken;          /* nor take anything */
    bool suspended;
    bool served; /* at least one request */
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

struct exchange {
    unsigned magic;
    struct server *server;
    struct connection *connection;
    void *app;
    struct exchange *work_next; /* on the work list; or free */
    struct exchange *next, **link;

    struct arena arena;
    coord_slice method, target, peer;
    struct headers headers;
    int64_t began_ns;
    int64_t declared;
    uint64_t received;
    struct buffer body;
    uint64_t budget_bytes;

    enum exchange_phase phase;
    enum exchange_choice choice;
    int32_t status;
    int64_t length; /* of the answer's body, -1: unknown */
    struct headers out_headers;
    struct buffer out; /* from out_start on: what the library has not taken */
    size_t out_start;
    uint64_t written, sent;

    bool http10, head_request, expects_continue;
    bool headed; /* on_head was called, so on_done is due */
    bool in_work;
    bool in_budget;
    bool more;      /* exchange_upload_more */
    bool asked;     /* the library, once, for the answer to a whole request */
    bool answered;  /* an answer was begun or given whole */
    bool ended;     /* and no more comes */
    bool truncated; /* and it ended too early: cut after what is queued */
    bool too_large; /* its head is */
    bool cut;       /* close as soon as possible */
    bool gone;      /* on_gone was called */
    bool aborted;   /* by the application: no on_gone */
    bool close_after;
    bool finished; /* on_done was called */
    bool high;     /* output reached output_high: on_drained is due */
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
/* The library gave the connection up: sees to it that it closes it, too. */
void connection_forsaken(struct connection *connection);
/* Sends connection->direct as far as it goes; goes on when the socket takes more; then shuts the write side. */
void connection_send_direct(struct connection *connection);

/* exchange.c */
void *exchange_open(void *context, const char *target, struct MHD_Connection *mhd);
enum MHD_Result exchange_handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *size, void **state);
void exchange_completed(void *context, struct MHD_Connection *mhd, void **state, enum MHD_RequestTerminationCode code);
/* The hook's part: does what was noted. True when the library has to run for it. */
bool exchange_proceed(struct exchange *exchange);
/* The client is gone: tells the application and cuts. */
void exchange_lose(struct exchange *exchange, enum exchange_gone reason);
/* Answers with the application's error body. */
void exchange_refuse(struct exchange *exchange, enum exchange_refusal why, const char *detail);
void exchange_body_late(struct exchange *exchange);
void exchange_direct_done(struct exchange *exchange, bool whole);
void exchange_finish(struct exchange *exchange, bool complete);
void exchange_free(struct exchange *exchange);

/* reply.c: hands the answer to the library, in its handler. */
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

#endif
