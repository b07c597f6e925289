/*
 * What upstream.c and the transports below it share.
 *
 * upstream.c owns everything that does not depend on how bytes travel: options, names, deadlines, the order of events and the
 * result. A transport moves one attempt at a time over a connection and reports what it sees by the attempt_… functions.
 * `struct attempt` is the half of a leg that belongs to the transport: it may outlive the caller's struct leg (a transport
 * that is inside its library cannot let go at once), and has leg == NULL then.
 * Thread: [reactor].
 */
#ifndef HTTP_UPSTREAM_PRIVATE_H
#define HTTP_UPSTREAM_PRIVATE_H

#include "http/stand_in.h"
#include "http/upstream.h"
#include "http/upstream_head.h"
#include "runtime/buffer.h"

#define OWNER_OF(pointer, type, member) ((type *)((char *)(pointer) - offsetof(type, member)))

struct attempt;
struct transport;
struct curl_client;
struct direct_client;

struct client {
    struct reactor *reactor;
    struct resolver *resolver;
    struct upstream *upstreams;
    struct attempt *queue; /* what is to be done outside of anybody's callback, first in, first out */
    struct attempt **queue_end;
    size_t queued;
    struct task task; /* works on the queue, then lets libcurl flush */
    size_t legs;
    struct curl_client *curl;     /* the two transports, */
    struct direct_client *direct; /* both always there */
    stand_in_fn *stand_in;        /* answers every leg in place of the two; NULL: it does not */
    void *stand_in_context;
    struct arena fields; /* memory for the fields of the next answer: heads are read one after another */
    char detail[512];    /* of the result that is being delivered */
    char reason[256];    /* of the upstream that could not be opened */
};

struct upstream {
    struct client *client;
    struct upstream *next;
    const struct transport *transport;
    const struct transport *chosen;  /* by the options; a stand-in takes its place */
    struct upstream_options options; /* its strings are `text` */
    struct buffer text;
    coord_slice authority, prefix;
    char *origin;                                       /* scheme://authority/ */
    char *host;                                         /* without brackets; "" when it needs no lookup */
    char *host_port;                                    /* for messages */
    char *ca_file, *client_cert_file, *client_key_file; /* NULL: none */
    int port;
    bool secure;
    unsigned references;
    size_t attempts;           /* taken and not given back */
    struct resolved addresses; /* of the last lookup that succeeded */
    size_t preferred;          /* the one of them that took the last connection */
    void *transport_state;
};

enum phase { PHASE_NAME, PHASE_CONNECT, PHASE_HEAD, PHASE_BODY };

struct attempt {
    struct leg *leg; /* NULL: cancelled or over, nobody listens any more */
    struct upstream *upstream;
    struct leg_events events;
    struct leg_request request; /* what it points at is gone when leg is NULL */
    struct lookup lookup;
    struct answer_head head;
    const char *refusal; /* why the answer is not acceptable */
    enum phase phase;
    bool to_head; /* the method is HEAD */
    bool reused;
    bool connected;
    bool paused; /* what the owner wants; the transport follows in `flow` */
    int64_t started_ns, connect_ns;
    size_t address, tried;                  /* which one it connects to; how many were given up */
    int64_t connect_deadline_ns;            /* these three: INT64_MAX: none */
    int64_t deadline_ns, total_deadline_ns; /* of the phase, and in all */
    struct timer timer;                     /* due at the earlier of the two or before: it looks and is armed again */
    struct attempt *next;
    unsigned todo; /* what the queue is for */
    enum leg_outcome failure;
};

enum { TODO_BEGIN = 1, TODO_FLOW = 2, TODO_FAIL = 4 };

/* How bytes travel. */
struct transport {
    bool (*open)(struct client *client);  /* false: memory or the library failed */
    void (*close)(struct client *client); /* no attempt runs */
    bool (*open_upstream)(struct upstream *upstream);
    void (*close_upstream)(struct upstream *upstream); /* no attempt runs */
    /* A free attempt of this upstream, all zero but for what the transport keeps. NULL: memory. */
    struct attempt *(*take)(struct upstream *upstream);
    /* The request is in attempt->request, the addresses in its upstream. Events come later, never from inside. False: memory or the library failed. */
    bool (*begin)(struct attempt *attempt);
    /* The present address took too long: ends what it began and begins anew. Outside of callbacks. */
    void (*reconnect)(struct attempt *attempt);
    /* `paused` has changed or more can be uploaded: outside of callbacks, may report data and the end. */
    void (*flow)(struct attempt *attempt);
    void (*upload_more)(struct attempt *attempt);
    /* Nothing that the request points at is read again; NULL: it does not know. */
    bool (*sent)(const struct attempt *attempt);
    /* The transport gets it back: it closes the connection of one that has not ended, at once or, when called from one of its own events, right after. */
    void (*give_back)(struct attempt *attempt, bool ended);
    void (*flush)(struct client *client); /* outside of callbacks; NULL: it has nothing to flush */
    size_t (*connections)(const struct client *client);
};

extern const struct transport curl_transport;
extern const struct transport direct_transport;
extern const struct transport stand_in_transport; /* not from the options: see stand_in.h */

/* What a request sends. False: the field is invalid, or one that the client decides about (see struct leg_request). */
bool request_field_goes_out(const struct header *field);
/* Nothing but spaces: such a value is sent as an empty one. */
bool request_value_blank(coord_slice value);
bool attempt_sends_body(const struct attempt *attempt);
/* Host of an upstream whose leg names none: with the port, unless that is the scheme's own. */
coord_slice upstream_host_field(const struct upstream *upstream);
/* Appends the head that a leg sends: request line, fields, blank line. False when memory is short. */
bool request_head_build(struct buffer *out, const struct attempt *attempt, coord_slice host) COORD_MUST_CHECK;

/* From the transports. Each may call the owner, who may do anything but free the client; attempt->leg may be NULL afterwards. */

/* Where to connect to, port 0; NULL: the upstream's host is a literal. */
const struct sockaddr_storage *attempt_address(const struct attempt *attempt);
/* The same host, whatever their ports. */
bool same_address(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
/* That address took no connection. True: attempt_address is another one now, begin anew. */
bool attempt_unreachable(struct attempt *attempt) COORD_MUST_CHECK;
/* There is a connection and the request is about to be sent. */
void attempt_connected(struct attempt *attempt, bool reused);
/* A part of the body was taken, or could not be: `waiting` for the owner. The time to the head counts from the last of these. */
void attempt_uploading(struct attempt *attempt, bool waiting);
/* False: the answer is refused or nobody listens; end it. */
bool attempt_head_line(struct attempt *attempt, coord_slice line) COORD_MUST_CHECK;
bool attempt_data(struct attempt *attempt, coord_slice bytes) COORD_MUST_CHECK;
/* Outside of the transport's own callbacks. Gives the attempt back, then tells the owner. */
void attempt_over(struct attempt *attempt, enum leg_outcome outcome, const char *detail);
/* The same a little later, for where the owner must not be called. `detail` lives as long as the attempt. */
void attempt_over_soon(struct attempt *attempt, enum leg_outcome outcome, const char *detail);
/* Has `flow` called soon. */
void attempt_flow_soon(struct attempt *attempt);
/* The transport is done with an attempt that was given back. May free the upstream, and with it everything that the transport keeps there. */
void upstream_returned(struct upstream *upstream);

/* No reference and no attempt is left, or the client goes. */
void upstream_free(struct upstream *upstream);

/* Has upstream.c call the transport's flush soon. */
void client_flush_soon(struct client *client);

#endif
