/*
 * The HTTP client of one reactor, as the core sees it: legs to upstreams. A narrow seam (start, pause, resume, cancel; head,
 * data, end) above two transports: our own and libcurl. Nothing outside http/ sees a type of the library behind it.
 *
 * Life of a leg: leg_start → head (final head only, once) → data* → end (once, always, unless cancelled). No callback comes from inside leg_start,
 * leg_resume, leg_upload_more or leg_cancel. After leg_cancel returns no callback comes at all, and the connection is closed at once.
 * A leg is never sent twice here: a re-send is the caller's decision (decision 38).
 * Ownership: the caller owns `struct leg` memory from leg_start until end or leg_cancel, and all that its request points at
 * as long. Thread: [reactor].
 */
#ifndef HTTP_UPSTREAM_H
#define HTTP_UPSTREAM_H

#include "http/headers.h"
#include "runtime/reactor.h"
#include "runtime/resolver.h"

struct client;   /* all upstreams of one reactor */
struct upstream; /* one target: scheme, host, port; its pool of connections */
struct leg;

/* How bytes travel. Both keep the contract below; see upstream_head.h for what an answer must look like. */
enum upstream_transport {
    UPSTREAM_AUTO,   /* direct for http, libcurl for https */
    UPSTREAM_DIRECT, /* our own HTTP/1.1: no TLS */
    UPSTREAM_CURL
};

struct upstream_options {
    enum upstream_transport transport;
    coord_slice url; /* http(s)://host[:port][/prefix]; the prefix is kept for upstream_prefix */
    unsigned max_idle_connections;
    int64_t idle_age_ns;          /* decision 39: not used again after that; libcurl rounds it down to whole seconds */
    int64_t connect_timeout_ns;   /* names included; 0: none */
    coord_slice ca_file;          /* https: empty: the system's */
    coord_slice client_cert_file; /* https: empty: none */
    coord_slice client_key_file;
    bool insecure_skip_verify;
};

struct leg_head {
    int32_t status;
    struct headers headers; /* all fields of the final head, hop-by-hop and framing fields included */
    int64_t length;         /* declared body length, -1: unknown */
    bool reused;            /* on a pooled connection */
    bool sent; /* nothing that the request points at is read again; false may only mean that this is not known */
};

enum leg_outcome {
    LEG_COMPLETE = 0, /* whole, framing-wise; see `close_delimited` */
    LEG_UNRESOLVED,   /* the name has no address */
    LEG_REFUSED,      /* no address took the connection */
    LEG_CONNECT_TIMEOUT,
    LEG_HEAD_TIMEOUT, /* no final head in time */
    LEG_IDLE_TIMEOUT, /* a gap between bytes */
    LEG_TOTAL_TIMEOUT,
    LEG_NO_ANSWER, /* the connection ended before any byte of the answer: it may be repeated where that is safe */
    LEG_BROKEN,    /* reset, truncated or not HTTP, after the answer began */
    LEG_TLS,       /* handshake or certificate */
    LEG_INTERNAL   /* memory, or the library failed; or the owner broke off its upload */
};

struct leg_result {
    enum leg_outcome outcome;
    const char *detail;   /* what the library said; valid during the call */
    bool close_delimited; /* the body had neither length nor chunks: only its own end mark tells whether it is whole */
    bool head_seen;
    int64_t connect_ns; /* time to a connection; 0: reused */
};

struct leg_events {
    /* Everything in `head` is valid during the call only. */
    void (*head)(struct leg *leg, const struct leg_head *head);
    /* The bytes are consumed when it returns. leg_pause may be called inside; a bounded rest (64 KiB) may still come. */
    void (*data)(struct leg *leg, coord_slice bytes);
    void (*end)(struct leg *leg, const struct leg_result *result);
    /* For a streamed upload (request.streamed): fills `room` and returns the number of bytes, 0: none now (leg_upload_more
       later), or one of the words below. */
    size_t (*upload)(struct leg *leg, char *room, size_t size);
};
#define LEG_UPLOAD_END ((size_t) - 1)
#define LEG_UPLOAD_ABORT ((size_t) - 2)
/* After the head only: no more comes, and the worker is not to take what it has for the whole. The answer goes on; over libcurl
   only one of 300 and above, others end as after LEG_UPLOAD_ABORT. */
#define LEG_UPLOAD_TORN ((size_t) - 3)

struct leg_request {
    coord_slice method;
    coord_slice target; /* origin form, verbatim on the wire; bytes 0x21–0x7E and 0x80–0xFF only */
    const struct header
        *headers; /* in order; Host, Content-Length, Transfer-Encoding, Connection, Expect are the client's business */
    size_t header_count;
    coord_slice host;          /* Host field; empty: from the upstream's URL */
    const coord_slice *pieces; /* the body as pieces, never joined unless small */
    size_t piece_count;
    size_t body_size; /* sum of the pieces */
    bool has_body;    /* a Content-Length is sent, also for 0 bytes */
    bool streamed;    /* the body comes through events->upload instead; `stream_length` declares it, -1: chunked */
    int64_t stream_length;
    bool fresh;               /* not on a pooled connection */
    int64_t head_timeout_ns;  /* from the end of the upload to the final head; 0: none */
    int64_t idle_timeout_ns;  /* gap between bytes after the head; does not run while paused; 0: none */
    int64_t total_timeout_ns; /* 0: none */
};

/* `resolver` outlives the client. NULL: memory or the library failed. */
struct client *client_new(struct reactor *reactor, struct resolver *resolver);
/* No leg runs any more. NULL is allowed. */
void client_free(struct client *client);

/* The upstream with these options, shared by all that ask for the same ones; counted. NULL with `*reason`, valid until the next call, when the URL or a file is unusable. */
struct upstream *upstream_open(struct client *client, const struct upstream_options *options, const char **reason);
/* The last close frees it when its legs are over. NULL is allowed. */
void upstream_close(struct upstream *upstream);
coord_slice
upstream_prefix(const struct upstream *upstream); /* path prefix of the URL without a trailing slash, often empty */
coord_slice upstream_authority(const struct upstream *upstream); /* host[:port] as in the URL */

size_t leg_size(void); /* bytes of a struct leg, for whoever gives the memory */

/* Starts a leg in `memory` (leg_size() bytes, zeroed, aligned as by malloc). The request struct itself is read during the call only; what it points at lives on. Header fields that are no valid ones are left out. NULL: memory is short and nothing was started. */
struct leg *leg_start(void *memory, struct upstream *upstream, const struct leg_request *request,
                      const struct leg_events *events, void *owner);
void *leg_owner(const struct leg *leg);
/* No more data from the next event on; the end may still come when all of the answer had arrived before. */
void leg_pause(struct leg *leg);
void leg_resume(struct leg *leg);
void leg_upload_more(struct leg *leg);
void leg_cancel(struct leg *leg);

/* Numbers for tests and metrics. */
size_t client_legs(const struct client *client);
size_t client_connections(const struct client *client);

#endif
