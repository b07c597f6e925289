/*
 * The HTTP/1.1 server of one reactor, as the core sees it: exchanges (a request and its answer) and an application that is
 * called as they proceed. Nothing outside http/ sees a type of the library behind it.
 *
 * Life of an exchange:
 *   head → (the app chooses) read the body whole | stream it | answer at once → answer (whole | begun, written, ended) → done
 * Invariant: on_done comes exactly once for every on_head, whatever happens, and is the last call for that exchange.
 * The app's functions are called from the loop (never from inside an exchange_* call), and may call any exchange_* function.
 * Framing: what decision 64 asks for is checked before on_head; what fails is answered here with the app's error body.
 * Ownership: the exchange belongs to the server until on_done has returned. Thread: [reactor].
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include "http/headers.h"
#include "runtime/buffer.h"
#include "runtime/reactor.h"

struct server;
struct exchange;
struct tls_identity; /* see http/tls.h */

/* What all reactors share: admission (decision 61). Limits of 0 mean none. Bytes are those of request bodies held in memory. */
struct server_budget {
    _Atomic uint64_t max_requests;
    _Atomic uint64_t max_bytes;
    _Atomic uint64_t requests;
    _Atomic uint64_t bytes;
};

/* Why the client is no longer there. */
enum exchange_gone {
    EXCHANGE_CLIENT_CLOSED = 1, /* FIN (unless half-close is kept) or RST */
    EXCHANGE_WRITE_TIMEOUT,     /* it took nothing for write_timeout */
    EXCHANGE_SERVER_STOPPED,    /* server_abort_all */
    EXCHANGE_BROKEN             /* the library gave the connection up */
};

/* An error that the server itself has to answer; the app supplies the body in the API's shape. */
enum exchange_refusal {
    EXCHANGE_BAD_FRAMING = 1, /* 400: `detail` says which rule */
    EXCHANGE_BODY_TOO_LARGE,  /* 413 */
    EXCHANGE_BODY_TIMEOUT,    /* 408 */
    EXCHANGE_OVERLOADED,      /* 503: in-flight limits, with Retry-After: 1 */
    EXCHANGE_HEAD_TOO_LARGE,  /* 502: the answer's own head does not fit the connection's memory */
    EXCHANGE_UPLOAD_BROKEN    /* 400: body framing broke while reading */
};

struct server_app {
    void *context; /* first argument of each */
    /*
     * The head is there. Choose one before returning: exchange_read_body, exchange_stream_body, exchange_answer (refuses
     * before the body is read: it is not, and the connection closes), or, for a request without a body, exchange_hold and
     * answer later.
     */
    void (*on_head)(void *context, struct exchange *exchange);
    /* After exchange_read_body: the body is whole (exchange_body). Answer now or later. */
    void (*on_body)(void *context, struct exchange *exchange);
    /* After exchange_stream_body: a piece of the body; returns how many bytes were taken. Fewer than all: no more comes until
       exchange_upload_more. `last` (with an empty piece) tells the end. */
    size_t (*on_upload)(void *context, struct exchange *exchange, coord_slice piece, bool last);
    /* Output that was at or above the high-water mark has fallen to the low one. */
    void (*on_drained)(void *context, struct exchange *exchange);
    /* The client is gone: stop working for it. exchange_write and the like do nothing from now on. At most once; on_done follows. */
    void (*on_gone)(void *context, struct exchange *exchange, enum exchange_gone reason);
    /* The exchange is over. `complete`: the answer was ended by exchange_end or exchange_answer and handed to the system whole. */
    void (*on_done)(void *context, struct exchange *exchange, bool complete);
    /* Fills `body` with the JSON error and `headers` with its fields (content type, request id) for a refusal of the server's own;
       returns the status. The exchange's head is readable as far as it got. on_head may or may not have been called; if it was,
       this answer replaces whatever the app was doing for the exchange, and on_done follows. */
    int32_t (*on_refuse)(void *context, struct exchange *exchange, enum exchange_refusal why, const char *detail,
                         struct headers *headers, struct buffer *body);
};

struct server_options {
    int listen_fd;                  /* bound and listening, non-blocking; the server closes it */
    const struct tls_identity *tls; /* NULL: plain */
    size_t connection_memory;       /* decision 68: 16 KiB */
    unsigned connection_limit;      /* of this reactor */
    size_t max_body;                /* bytes, for exchange_read_body and exchange_stream_body */
    size_t output_high;             /* bytes queued at which exchange_write says so */
    size_t output_low;
    int64_t
        read_timeout_ns; /* 0: none. Head (close) and body (408), each from its first byte; idle keep-alive likewise */
    int64_t write_timeout_ns;     /* 0: none */
    bool keep_half_closed;        /* decision 55 */
    struct server_budget *budget; /* NULL: none */
};

/* NULL with `*reason` a static text when the library or memory refuses. `app` and what it points at outlive the server. */
struct server *server_new(struct reactor *reactor, const struct server_options *options, const struct server_app *app,
                          const char **reason);

/*
 * Takes over what may change while it runs: max_body, output_high and output_low, both timeouts and keep_half_closed; the rest of
 * `options` is not looked at. A wait that has begun keeps its time, and an exchange its marks of output.
 */
void server_adjust(struct server *server, const struct server_options *options);

/* Stops taking connections: accepts what is queued until EAGAIN, then closes the listener; answers carry Connection: close from now on (decision 63). */
void server_close_listener(struct server *server);
/* From now on every answer carries Connection: close, the listener stays (the drain delay). */
void server_announce_close(struct server *server);
/* Cuts every exchange (on_gone with EXCHANGE_SERVER_STOPPED) and idle connection. */
void server_abort_all(struct server *server);
/* Exchanges that are not done, and open connections. */
size_t server_exchanges(const struct server *server);
size_t server_connections(const struct server *server);
/* No exchange is open any more (server_abort_all and turns of the reactor see to that). NULL is allowed. */
void server_free(struct server *server);

/* The app's pointer, NULL at first. */
void exchange_set_app(struct exchange *exchange, void *app);
void *exchange_app(const struct exchange *exchange);

struct reactor *exchange_reactor(const struct exchange *exchange);
/* What it gives lives until after on_done, or as exchange_hand_over says. */
struct arena *exchange_arena(struct exchange *exchange);
/*
 * Moves all that is in its arena, its own head included, to `arena`, which is empty and not released before on_done. `*headers` is
 * then the exchange's list, not to be changed, with names and values of their own, as long as that arena lives. When memory is short
 * it is empty, and false is returned: all else has moved.
 */
bool exchange_hand_over(struct exchange *exchange, struct arena *arena, struct headers *headers) COORD_MUST_CHECK;
coord_slice exchange_method(const struct exchange *exchange);
coord_slice exchange_target(const struct exchange *exchange); /* raw, as on the request line */
bool exchange_is_http10(const struct exchange *exchange);
const struct headers *exchange_headers(const struct exchange *exchange);
coord_slice exchange_peer(const struct exchange *exchange); /* numeric address without port */
int64_t exchange_began_ns(const struct exchange *exchange);
/* Declared length; -1: chunked; 0: no body. */
int64_t exchange_declared_length(const struct exchange *exchange);
/* Body bytes received so far. */
uint64_t exchange_received(const struct exchange *exchange);
/* Body bytes of the answer that the connection took. */
uint64_t exchange_sent(const struct exchange *exchange);

void exchange_read_body(struct exchange *exchange);
/* The whole body, valid until on_done or exchange_take_body. */
coord_slice exchange_body(const struct exchange *exchange);
/* Hands the body's memory over; its bytes stay in the budget until on_done. */
struct buffer exchange_take_body(struct exchange *exchange);

void exchange_stream_body(struct exchange *exchange);
void exchange_upload_more(struct exchange *exchange);
void exchange_hold(struct exchange *exchange);

/*
 * Whole answer: copies everything. Content-Length is the server's business (also for HEAD, 204 and 304), Date and Connection
 * too. During an upload: decision 67. COORD_OK, COORD_STATE (answered already, gone), COORD_NO_MEMORY.
 */
coord_status exchange_answer(struct exchange *exchange, int32_t status, const struct headers *headers,
                             coord_slice body);

/*
 * Begins an answer whose body follows. `length`: -1 unknown (chunked, or close-delimited for HTTP/1.0), else exactly that many
 * bytes must follow. `headers` must hold no framing fields; fields whose value is empty are left out. They are not copied: the
 * list, names and values, each ended by a NUL, stay as they are until on_done. NULL: none. A head that does not fit is answered as
 * EXCHANGE_HEAD_TOO_LARGE, and COORD_LIMIT is returned.
 */
coord_status exchange_begin(struct exchange *exchange, int32_t status, const struct headers *headers, int64_t length);

/* Queues bytes (copied). Returns bytes now queued: at or above output_high the caller stops until on_drained. Nothing is lost above it. */
size_t exchange_write(struct exchange *exchange, coord_slice bytes);
/* Ends the body cleanly. With a known length that has not been reached: as exchange_abort. */
void exchange_end(struct exchange *exchange);
/* Cuts the connection, so that the client sees that the answer is truncated (no last chunk). */
void exchange_abort(struct exchange *exchange);
/* True once exchange_begin or exchange_answer was called. */
bool exchange_answered(const struct exchange *exchange);
bool exchange_is_gone(const struct exchange *exchange);
size_t exchange_queued(const struct exchange *exchange);

#endif
