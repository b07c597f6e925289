/*
 * A request's life: what the library's callbacks and the turn-end hook do with it. The application's calls are in calls.c.
 * See exchange.h and the states there.
 *
 * Invariant: whoever leaves the library's handler without an answer and without having taken data has suspended the
 * connection; otherwise the library would call again at once, for ever.
 */
#include "exchange.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>

enum { SPARE_EXCHANGES = 256 };

/* Opening and freeing */

static struct exchange *take_spare(struct server *server)
{
    struct exchange *exchange = server->spare;
    struct arena arena;

    if (!exchange)
        return calloc(1, sizeof *exchange);
    server->spare = exchange->work_next;
    server->spare_count--;
    arena = exchange->arena;
    memset(exchange, 0, sizeof *exchange);
    exchange->arena = arena;
    return exchange;
}

/* The library has read a request line. What this returns comes back in the handler and at completion. */
void *exchange_open(void *context, const char *target, struct MHD_Connection *mhd)
{
    struct server *server = context;
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct connection *connection = info ? info->socket_context : NULL;
    struct exchange *exchange;

    if (!connection || connection->exchange)
        return NULL;
    exchange = take_spare(server);
    if (!exchange)
        return NULL;
    exchange->magic = EXCHANGE_MAGIC;
    exchange->server = server;
    exchange->connection = connection;
    exchange->began_ns = reactor_now(server->reactor);
    exchange->target = arena_copy(&exchange->arena, coord_slice_of(target));
    exchange->peer = (coord_slice){connection->peer, connection->peer_size};
    headers_init(&exchange->headers, &exchange->arena);
    headers_init(&exchange->out_headers, &exchange->arena);
    exchange->link = &server->exchanges;
    exchange->next = server->exchanges;
    if (exchange->next)
        exchange->next->link = &exchange->next;
    server->exchanges = exchange;
    connection->exchange = exchange;
    connection->served = true;
    connection_wait(connection, WAIT_HEAD, server->options.read_timeout_ns);
    return exchange;
}

void exchange_free(struct exchange *exchange)
{
    struct server *server = exchange->server;

    assert(exchange->magic == EXCHANGE_MAGIC && !exchange->in_work);
    exchange->magic = 0;
    buffer_release(&exchange->body);
    buffer_release(&exchange->out);
    if (server->spare_count >= SPARE_EXCHANGES) {
        arena_release(&exchange->arena);
        free(exchange);
        return;
    }
    arena_reset(&exchange->arena);
    exchange->work_next = server->spare;
    server->spare = exchange;
    server->spare_count++;
}

/* Admission */

static bool admit(struct exchange *exchange)
{
    struct server_budget *budget = exchange->server->options.budget;

    if (!budget || exchange->in_budget)
        return true;
    if (atomic_fetch_add(&budget->requests, 1) >= budget->max_requests && budget->max_requests > 0) {
        atomic_fetch_sub(&budget->requests, 1);
        return false;
    }
    exchange->in_budget = true;
    return true;
}

static bool admit_bytes(struct exchange *exchange, uint64_t size)
{
    struct server_budget *budget = exchange->server->options.budget;

    if (!budget || exchange->budget_bytes >= size)
        return true;
    size -= exchange->budget_bytes;
    if (atomic_fetch_add(&budget->bytes, size) + size > budget->max_bytes && budget->max_bytes > 0) {
        atomic_fetch_sub(&budget->bytes, size);
        return false;
    }
    exchange->budget_bytes += size;
    return true;
}

static void leave_budget(struct exchange *exchange)
{
    struct server_budget *budget = exchange->server->options.budget;

    if (!budget)
        return;
    if (exchange->in_budget)
        atomic_fetch_sub(&budget->requests, 1);
    atomic_fetch_sub(&budget->bytes, exchange->budget_bytes);
    exchange->in_budget = false;
    exchange->budget_bytes = 0;
}

/* Ends */

void exchange_finish(struct exchange *exchange, bool complete)
{
    struct server *server = exchange->server;

    if (exchange->finished)
        return;
    exchange->finished = true;
    *exchange->link = exchange->next;
    if (exchange->next)
        exchange->next->link = exchange->link;
    leave_budget(exchange);
    if (!exchange->headed)
        return;
    server->exchange_count--;
    server->app.on_done(server->app.context, exchange, complete && !exchange->gone);
}

void exchange_lose(struct exchange *exchange, enum exchange_gone reason)
{
    struct server *server = exchange->server;

    if (exchange->finished || exchange->gone)
        return;
    exchange->gone = true;
    exchange->cut = true;
    exchange->out_start = 0;
    buffer_clear(&exchange->out, 0);
    server_work(exchange);
    if (exchange->headed && !exchange->aborted)
        server->app.on_gone(server->app.context, exchange, reason);
}

void exchange_refuse(struct exchange *exchange, enum exchange_refusal why, const char *detail)
{
    struct server *server = exchange->server;
    const coord_slice retry_after = COORD_SLICE("Retry-After"), one = COORD_SLICE("1");

    if (exchange->finished || exchange->gone)
        return;
    headers_init(&exchange->out_headers, &exchange->arena);
    exchange->out_start = 0;
    buffer_clear(&exchange->out, OUTPUT_KEPT);
    exchange->status =
        server->app.on_refuse(server->app.context, exchange, why, detail, &exchange->out_headers, &exchange->out);
    if (why == EXCHANGE_OVERLOADED && !headers_find(&exchange->out_headers, retry_after) &&
        !headers_add(&exchange->out_headers, retry_after, one))
        exchange->cut = true;
    exchange->close_after = exchange->close_after || why != EXCHANGE_HEAD_TOO_LARGE;
    exchange->length = (int64_t)exchange->out.size;
    exchange->written = exchange->out.size;
    exchange->answered = exchange->ended = true;
    exchange->too_large = exchange->truncated = false;
}

/* An answer while the request still comes: past the library (decision 67). */
static void answer_directly(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;

    if (!reply_serialize(exchange, &connection->direct)) {
        exchange->cut = true;
        return;
    }
    exchange->phase = PHASE_DIRECT;
    exchange->sent = exchange_pending(exchange);
    buffer_release(&exchange->body);
    connection_wait(connection, WAIT_LINGER, LINGER_NS);
    connection_send_direct(connection);
}

void exchange_direct_done(struct exchange *exchange, bool whole)
{
    exchange->phase = PHASE_LINGER;
    if (!whole && exchange->headed && !exchange->aborted && !exchange->gone)
        exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
    exchange_finish(exchange, whole);
    if (exchange->connection->suspended)
        server_work(exchange);
}

/* True when the answer has to go out although the request has not ended, and can. */
static bool answers_early(const struct exchange *exchange)
{
    return exchange->answered && exchange->ended && !exchange->truncated && !exchange->cut &&
           exchange_pending(exchange) <= DIRECT_LIMIT;
}

/* The handler */

static enum MHD_Result hold(struct exchange *exchange)
{
    connection_wait(exchange->connection, WAIT_NOTHING, 0);
    connection_suspend(exchange->connection);
    return MHD_YES;
}

/* Nothing of such an answer is sent before it is known that it ends well. */
static bool waits_for_end(const struct exchange *exchange)
{
    return exchange->length == 0 || exchange->head_request || exchange->status == 204 || exchange->status == 304;
}

static bool can_reply(const struct exchange *exchange)
{
    return exchange->answered && (exchange->ended || !waits_for_end(exchange));
}

/* The request is whole: answers if an answer is there. */
static enum MHD_Result reply_or_hold(struct exchange *exchange)
{
    if (exchange->too_large)
        exchange_refuse(exchange, EXCHANGE_HEAD_TOO_LARGE, "the answer's head does not fit the connection's memory");
    if (exchange->cut || (exchange->truncated && waits_for_end(exchange)))
        return MHD_NO;
    if (exchange->answered && can_reply(exchange))
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
    if (!exchange->cut && answers_early(exchange))
        answer_directly(exchange);
    return exchange->cut ? MHD_NO : MHD_YES;
}

static enum MHD_Result collect(void *context, enum MHD_ValueKind kind, const char *name, size_t name_size,
                               const char *value, size_t value_size)
{
    struct exchange *exchange = context;
    coord_slice borrowed = {value, value ? value_size : 0};

    (void)kind;
    if (headers_add_borrowed(&exchange->headers, (coord_slice){name, name_size}, borrowed))
        return MHD_YES;
    exchange->cut = true;
    return MHD_NO;
}

static void read_head(struct exchange *exchange, const char *method, const char *version)
{
    const struct header *expect;

    exchange->method = coord_slice_of(method);
    exchange->head_request = coord_slice_is(exchange->method, "HEAD");
    exchange->http10 = strcmp(version, MHD_HTTP_VERSION_1_0) == 0;
    MHD_get_connection_values_n(exchange->connection->mhd, MHD_HEADER_KIND, collect, exchange);
    expect = headers_find(&exchange->headers, coord_slice_of("expect"));
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

static enum MHD_Result first_call(struct exchange *exchange, const char *method, const char *version)
{
    struct server *server = exchange->server;
    const char *problem;

    read_head(exchange, method, version);
    if (exchange->cut || !exchange->target.data)
        return MHD_NO;
    problem = framing_check(exchange->http10, &exchange->headers, &exchange->declared);
    trim_values(&exchange->headers);
    exchange->phase = PHASE_UPLOAD;
    connection_wait(exchange->connection, WAIT_BODY, server->options.read_timeout_ns);
    if (problem) {
        exchange_refuse(exchange, EXCHANGE_BAD_FRAMING, problem);
        return answer_head(exchange);
    }
    exchange->headed = true;
    server->exchange_count++;
    server->app.on_head(server->app.context, exchange);
    check_admission(exchange);
    if (exchange->declared == 0)
        return exchange->cut ? MHD_NO : MHD_YES; /* the library calls again at once */
    if (answers_early(exchange) || (exchange->ended && exchange->expects_continue && !exchange->truncated))
        return answer_head(exchange);
    return go_on_reading(exchange);
}

static void take_piece(struct exchange *exchange, coord_slice piece)
{
    if (exchange->declared < 0 && !admit_bytes(exchange, exchange->received + piece.size)) {
        exchange_refuse(exchange, EXCHANGE_OVERLOADED, "too many bytes are in flight");
        return;
    }
    if (!exchange->body.data && exchange->declared > 0) {
        uint64_t declared = (uint64_t)exchange->declared;

        exchange->body.limit = (size_t)declared;
        if (!buffer_reserve(&exchange->body, declared < BODY_FIRST ? (size_t)declared : BODY_FIRST))
            exchange->cut = true;
    }
    if (exchange->cut || !buffer_append_slice(&exchange->body, piece)) {
        exchange_refuse(exchange, EXCHANGE_OVERLOADED, "memory is short");
        return;
    }
    exchange->received += piece.size;
}

static size_t offer_piece(struct exchange *exchange, coord_slice piece)
{
    struct server *server = exchange->server;
    size_t taken;

    if (exchange->phase == PHASE_HELD) /* that time was ours */
        connection_wait(exchange->connection, WAIT_BODY, server->options.read_timeout_ns);
    exchange->phase = PHASE_UPLOAD;
    exchange->more = false;
    taken = server->app.on_upload(server->app.context, exchange, piece, false);
    assert(taken <= piece.size);
    exchange->received += taken;
    return taken;
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
    *size -= offer_piece(exchange, piece);
    if (*size > 0 && !exchange->more && !exchange->cut && !answers_early(exchange) && !exchange->too_large) {
        exchange->phase = PHASE_HELD;
        return hold(exchange);
    }
    if (exchange->cut || answers_early(exchange) || exchange->too_large)
        *size = 0;
    return go_on_reading(exchange);
}

static enum MHD_Result upload_end(struct exchange *exchange)
{
    struct server *server = exchange->server;

    exchange->phase = PHASE_READY;
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

/* The library is done with the request. */

static bool keep_head(struct exchange *exchange)
{
    struct headers own;

    headers_init(&own, &exchange->arena);
    exchange->method = arena_copy(&exchange->arena, exchange->method);
    exchange->peer = arena_copy(&exchange->arena, exchange->peer);
    if (!exchange->method.data || !exchange->peer.data || !headers_copy(&own, &exchange->headers))
        return false;
    exchange->headers = own;
    return true;
}

static enum exchange_gone why_over(const struct connection *connection, enum MHD_RequestTerminationCode code)
{
    if (connection->fin || code == MHD_REQUEST_TERMINATED_CLIENT_ABORT || code == MHD_REQUEST_TERMINATED_READ_ERROR)
        return EXCHANGE_CLIENT_CLOSED;
    return EXCHANGE_BROKEN;
}

void exchange_completed(void *context, struct MHD_Connection *mhd, void **state, enum MHD_RequestTerminationCode code)
{
    struct server *server = context;
    struct exchange *exchange = *state;
    struct connection *connection;
    bool whole;

    (void)mhd;
    if (!exchange)
        return;
    *state = NULL;
    connection = exchange->connection;
    whole = exchange->phase == PHASE_REPLY && code == MHD_REQUEST_TERMINATED_COMPLETED_OK && !exchange->cut &&
            !exchange->truncated;
    connection->exchange = NULL;
    connection_wait(connection, WAIT_HEAD, server->options.read_timeout_ns);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
        connection_forsaken(connection);
    else if (server->closed && !connection->fin)
        connection_shut(connection);
    if (whole && !exchange->ended && keep_head(exchange)) {
        exchange->phase = PHASE_SENT; /* exchange_end is still to come */
        exchange->connection = NULL;
        return;
    }
    if (!whole && !exchange->aborted)
        exchange_lose(exchange, why_over(connection, code));
    exchange_finish(exchange, whole && exchange->ended);
    exchange->connection = NULL;
    server_work(exchange); /* freed there, when no list holds it any more */
}

/* The hook */

static bool resumes(const struct exchange *exchange)
{
    switch (exchange->phase) {
    case PHASE_HELD:
        return exchange->more || exchange->cut || exchange->ended;
    case PHASE_READY:
        return exchange->cut || exchange->too_large || can_reply(exchange);
    case PHASE_REPLY:
        return exchange->cut || exchange->ended || exchange->truncated || exchange_pending(exchange) > 0;
    case PHASE_DIRECT:
        return exchange->cut;
    case PHASE_HEAD:
    case PHASE_UPLOAD:
    case PHASE_LINGER:
    case PHASE_SENT:
        break;
    }
    return true;
}

static void tell_drained(struct exchange *exchange)
{
    struct server *server = exchange->server;

    if (!exchange->high || exchange->finished || exchange->gone || exchange->ended ||
        exchange_pending(exchange) > server->options.output_low)
        return;
    exchange->high = false;
    server->app.on_drained(server->app.context, exchange);
}

/* While the request still comes. */
static void proceed_upload(struct exchange *exchange)
{
    if (exchange->too_large)
        exchange_refuse(exchange, EXCHANGE_HEAD_TOO_LARGE, "the answer's head does not fit the connection's memory");
    if (exchange->truncated)
        exchange->cut = true;
    if (answers_early(exchange))
        answer_directly(exchange);
}

bool exchange_proceed(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;

    if (!connection) {
        if (exchange->phase == PHASE_SENT && !exchange->finished) {
            if (!exchange->ended && !exchange->cut)
                return false;
            exchange_finish(exchange, !exchange->cut && !exchange->truncated);
        }
        exchange_free(exchange);
        return false;
    }
    tell_drained(exchange);
    if (exchange->phase == PHASE_UPLOAD || exchange->phase == PHASE_HELD)
        proceed_upload(exchange);
    if (!connection->suspended) {
        if (exchange->cut)
            connection_shut(connection);
        return false;
    }
    if (!resumes(exchange))
        return false;
    connection_resume(connection);
    return true;
}

void exchange_body_late(struct exchange *exchange)
{
    if (exchange->phase != PHASE_UPLOAD)
        return;
    if (!exchange->answered)
        exchange_refuse(exchange, EXCHANGE_BODY_TIMEOUT, "the request's body did not come in time");
    else if (!answers_early(exchange))
        exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
    if (answers_early(exchange))
        answer_directly(exchange);
}
