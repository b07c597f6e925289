/*
 * The library's handler: a request's head, its body whole or streamed, and the moment when its answer is handed over. See
 * exchange.h.
 *
 * Invariant: whoever leaves the handler without an answer and without having taken data has suspended the connection (or is
 * asked once more); otherwise the library would call again at once, for ever.
 */
#include "exchange.h"

#include <assert.h>
#include <stdatomic.h>

/* Admission */

static bool admit(struct exchange *exchange)
{
    struct server_budget *budget = exchange->server->options.budget;
    uint64_t most;

    if (!budget || exchange->in_budget)
        return true;
    most = atomic_load(&budget->max_requests);
    if (atomic_fetch_add(&budget->requests, 1) >= most && most > 0) {
        atomic_fetch_sub(&budget->requests, 1);
        return false;
    }
    exchange->in_budget = true;
    return true;
}

static bool admit_bytes(struct exchange *exchange, uint64_t size)
{
    struct server_budget *budget = exchange->server->options.budget;
    uint64_t most;

    if (!budget || exchange->budget_bytes >= size)
        return true;
    most = atomic_load(&budget->max_bytes);
    size -= exchange->budget_bytes;
    if (atomic_fetch_add(&budget->bytes, size) + size > most && most > 0) {
        atomic_fetch_sub(&budget->bytes, size);
        return false;
    }
    exchange->budget_bytes += size;
    return true;
}

/* The handler */

static enum MHD_Result hold(struct exchange *exchange)
{
    connection_wait(exchange->connection, WAIT_NOTHING, 0);
    connection_suspend(exchange->connection);
    return MHD_YES;
}

/* The request is whole: answers if an answer is there. */
static enum MHD_Result reply_or_hold(struct exchange *exchange)
{
    if (exchange->too_large)
        exchange_refuse(exchange, EXCHANGE_HEAD_TOO_LARGE, "the answer's head does not fit the connection's memory");
    if (exchange->cut || (exchange->truncated && exchange_waits_for_end(exchange)))
        return MHD_NO;
    if (exchange->answered && exchange_can_reply(exchange))
        return reply_queue(exchange);
    /*
     * The library asks again in its next run, and only then is it suspended: an answer of the same turn needs no
     * suspending at all, and a connection that was suspended while reading would be read again when it is resumed, and
     * closed if the client had half-closed it.
     */
    if (!exchange->asked) {
        exchange->asked = true;
        return MHD_YES;
    }
    return hold(exchange);
}

/* What goes on after the application has seen the head or a piece, while more of the request is to come. */
static enum MHD_Result go_on_reading(struct exchange *exchange)
{
    if (exchange->too_large)
        exchange_refuse(exchange, EXCHANGE_HEAD_TOO_LARGE, "the answer's head does not fit the connection's memory");
    if (exchange->truncated)
        exchange->cut = true; /* nothing of it was sent yet */
    if (!exchange->cut && exchange_answers_early(exchange))
        exchange_answer_directly(exchange);
    return exchange->cut ? MHD_NO : MHD_YES;
}

/*
 * The library (0.9.75) joins a folded line to the name of its field: "A: 1", " B" becomes "AB: 1", which whoever stands in
 * front of us has read as another field. The name is copied elsewhere for it; that of every other field lies where it came,
 * with the colon and blanks between it and its value.
 */
static bool is_folded(const char *name, size_t name_size, const char *value)
{
    const char *at = name + name_size + 1; /* behind the colon */

    if (!value)
        return false;
    while (at < value && (*at == ' ' || *at == '\t'))
        at++;
    return at != value;
}

static enum MHD_Result collect(void *context, enum MHD_ValueKind kind, const char *name, size_t name_size,
                               const char *value, size_t value_size)
{
    struct exchange *exchange = context;
    coord_slice borrowed = {value, value ? value_size : 0};

    (void)kind;
    exchange->folded = exchange->folded || is_folded(name, name_size, value);
    if (headers_add_borrowed(&exchange->headers, (coord_slice){name, name_size}, borrowed))
        return MHD_YES;
    exchange->cut = true;
    return MHD_NO;
}

static void read_head(struct exchange *exchange, const char *method, const char *version)
{
    struct MHD_Connection *mhd = exchange->connection->mhd;
    int count = MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, NULL, NULL);
    const struct header *expect;

    exchange->method = coord_slice_of(method);
    exchange->head_request = coord_slice_is(exchange->method, "HEAD");
    exchange->http10 = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    if (count > 0 && !headers_reserve(&exchange->headers, (size_t)count))
        exchange->cut = true;
    MHD_get_connection_values_n(mhd, MHD_HEADER_KIND, collect, exchange);
    expect = headers_first(&exchange->headers, HEADER_EXPECT);
    exchange->expects_continue = expect && !exchange->http10 && header_name_is(expect->value, "100-continue");
}

/* The library leaves blanks at a value's end. They are trimmed after the framing was judged, as it judges with them. */
static void trim_values(struct headers *headers)
{
    for (size_t i = 0; i < headers->count; i++) {
        coord_slice *value = &headers->list[i].value;

        while (value->size > 0 && (value->data[value->size - 1] == ' ' || value->data[value->size - 1] == '\t'))
            value->size--;
    }
}

/*
 * The head is answered and the body unwanted. Who waits for 100 Continue gets the answer instead, from the library, which
 * then closes; others send already, and a close in the midst of it would be a reset that may take the answer with it.
 */
static enum MHD_Result answer_head(struct exchange *exchange)
{
    exchange->close_after = true;
    if (exchange->expects_continue)
        return reply_queue(exchange);
    return go_on_reading(exchange);
}

static void check_admission(struct exchange *exchange)
{
    bool reads = exchange->choice == CHOICE_READ;
    uint64_t declared = exchange->declared > 0 ? (uint64_t)exchange->declared : 0;

    if (exchange->answered || exchange->cut)
        return;
    assert(exchange->choice != CHOICE_NONE);
    if (exchange->choice != CHOICE_HOLD && declared > exchange->server->options.max_body)
        exchange_refuse(exchange, EXCHANGE_BODY_TOO_LARGE, "the request's body is too large");
    else if (!admit(exchange) || (reads && !admit_bytes(exchange, declared)))
        exchange_refuse(exchange, EXCHANGE_OVERLOADED, "too many requests are in flight");
}

/* The client had left before its request was read, which the watch told then and does not tell again. */
static void check_client(struct exchange *exchange)
{
    const struct connection *connection = exchange->connection;

    if (connection->broken ||
        (connection->fin && !exchange->server->options.keep_half_closed && !exchange->ended && !exchange->cut))
        exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
}

static enum MHD_Result first_call(struct exchange *exchange, const char *method, const char *version)
{
    struct server *server = exchange->server;
    const char *problem;

    read_head(exchange, method, version);
    if (exchange->cut || !exchange->target.data)
        return MHD_NO;
    problem = framing_check(exchange->http10, &exchange->headers, &exchange->declared);
    if (exchange->folded)
        problem = "a header line is folded";
    trim_values(&exchange->headers);
    exchange->phase = PHASE_UPLOAD;
    connection_wait(exchange->connection, WAIT_BODY, server->options.read_timeout_ns);
    if (problem) {
        exchange_refuse(exchange, EXCHANGE_BAD_FRAMING, problem);
        return answer_head(exchange);
    }
    exchange->headed = true;
    exchange->output_high = exchange->server->options.output_high;
    exchange->output_low = exchange->server->options.output_low;
    server->exchange_count++;
    server->app.on_head(server->app.context, exchange);
    check_admission(exchange);
    check_client(exchange);
    if (exchange->declared == 0)
        return exchange->cut ? MHD_NO : MHD_YES; /* the library calls again at once */
    if (exchange_answers_early(exchange) || (exchange->ended && exchange->expects_continue && !exchange->truncated))
        return answer_head(exchange);
    return go_on_reading(exchange);
}

/* Room for the first of a long body, and when that has come for all of it. */
static bool make_room(struct exchange *exchange, size_t size)
{
    struct buffer *body = &exchange->body;
    uint64_t declared = (uint64_t)exchange->declared;

    if (size <= body->capacity - body->size)
        return true;
    body->limit = (size_t)declared;
    if (!body->data && declared > BODY_FIRST)
        return buffer_reserve(body, BODY_FIRST);
    return buffer_reserve(body, (size_t)declared - body->size);
}

static void take_piece(struct exchange *exchange, coord_slice piece)
{
    if (exchange->declared < 0 && !admit_bytes(exchange, exchange->received + piece.size)) {
        exchange_refuse(exchange, EXCHANGE_OVERLOADED, "too many bytes are in flight");
        return;
    }
    if ((exchange->declared > 0 && !make_room(exchange, piece.size)) || !buffer_append_slice(&exchange->body, piece)) {
        exchange_refuse(exchange, EXCHANGE_OVERLOADED, "memory is short");
        return;
    }
    exchange->received += piece.size;
}

/* Nothing more of the upload is to be offered. */
static bool upload_over(const struct exchange *exchange) { return exchange->cut || exchange->ended; }

/* How much was taken. */
static size_t offer(struct exchange *exchange, coord_slice piece)
{
    struct server *server = exchange->server;
    size_t all = piece.size;

    if (exchange->phase == PHASE_HELD) /* that time was ours */
        connection_wait(exchange->connection, WAIT_BODY, server->options.read_timeout_ns);
    exchange->phase = PHASE_UPLOAD;
    do {
        size_t taken;

        exchange->more = false;
        taken = server->app.on_upload(server->app.context, exchange, piece, false);
        assert(taken <= piece.size);
        exchange->received += taken;
        piece.data += taken;
        piece.size -= taken;
    } while (piece.size > 0 && exchange->more && !upload_over(exchange));
    return all - piece.size;
}

static enum MHD_Result upload(struct exchange *exchange, const char *data, size_t *size)
{
    coord_slice piece = {data, *size};

    if (exchange->choice == CHOICE_HOLD || exchange->choice == CHOICE_NONE || exchange->ended) {
        exchange->phase = PHASE_UPLOAD;
        *size = 0; /* nobody wants it */
        return go_on_reading(exchange);
    }
    if (exchange->received + piece.size > exchange->server->options.max_body) {
        exchange_refuse(exchange, EXCHANGE_BODY_TOO_LARGE, "the request's body is too large");
        *size = 0;
        return go_on_reading(exchange);
    }
    if (exchange->choice == CHOICE_READ) {
        take_piece(exchange, piece);
        *size = 0;
        return go_on_reading(exchange);
    }
    *size -= offer(exchange, piece);
    if (*size > 0 && !upload_over(exchange)) {
        exchange->phase = PHASE_HELD;
        return hold(exchange);
    }
    *size = 0;
    return go_on_reading(exchange);
}

static enum MHD_Result upload_end(struct exchange *exchange)
{
    struct server *server = exchange->server;

    exchange->phase = PHASE_READY;
    if (server->options.keep_half_closed)
        connection_wanted(exchange->connection);
    connection_wait(exchange->connection, WAIT_NOTHING, 0);
    if (exchange->choice == CHOICE_READ && !exchange->answered)
        server->app.on_body(server->app.context, exchange);
    else if (exchange->choice == CHOICE_STREAM && !exchange->ended)
        server->app.on_upload(server->app.context, exchange, (coord_slice){NULL, 0}, true);
    return reply_or_hold(exchange);
}

enum MHD_Result exchange_handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *data, size_t *size, void **state)
{
    struct exchange *exchange = *state;

    (void)context;
    (void)mhd;
    (void)url;
    if (!exchange)
        return MHD_NO;
    assert(exchange->magic == EXCHANGE_MAGIC);
    if (exchange->cut)
        return MHD_NO;
    switch (exchange->phase) {
    case PHASE_HEAD:
        return first_call(exchange, method, version);
    case PHASE_UPLOAD:
    case PHASE_HELD:
        return *size > 0 ? upload(exchange, data, size) : upload_end(exchange);
    case PHASE_READY:
        return reply_or_hold(exchange);
    case PHASE_DIRECT:
        if (*size == 0)
            return hold(exchange);
        *size = 0;
        return MHD_YES;
    case PHASE_LINGER:
        if (*size == 0)
            return MHD_NO;
        *size = 0;
        return MHD_YES;
    case PHASE_REPLY:
    case PHASE_SENT:
        break;
    }
    return MHD_NO;
}
