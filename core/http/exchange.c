/*
 * A request's life: how it begins, ends and is refused, and what the turn-end hook does for it. The library's handler is in
 * request.c, the application's calls in calls.c. See exchange.h and the states there.
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
    struct buffer out;

    if (!exchange)
        return calloc(1, sizeof *exchange);
    server->spare = exchange->work_next;
    server->spare_count--;
    arena = exchange->arena;
    out = exchange->out;
    memset(exchange, 0, sizeof *exchange);
    exchange->arena = arena;
    exchange->out = out;
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
    if (exchange->lent.data) {
        buffer_release(&exchange->out);
        exchange->out = exchange->lent;
    }
    if (server->spare_count >= SPARE_EXCHANGES) {
        buffer_release(&exchange->out);
        arena_release(&exchange->arena);
        free(exchange);
        return;
    }
    buffer_clear(&exchange->out, OUTPUT_KEPT);
    arena_reset(&exchange->arena);
    exchange->work_next = server->spare;
    server->spare = exchange;
    server->spare_count++;
}

/* Ends */

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
void exchange_answer_directly(struct exchange *exchange)
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
    if (exchange->phase != PHASE_DIRECT) { /* a stream that the socket had no room for */
        if (whole)
            server_work(exchange);
        else
            exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
        return;
    }
    exchange->phase = PHASE_LINGER;
    if (!whole && exchange->headed && !exchange->aborted && !exchange->gone)
        exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
    exchange_finish(exchange, whole);
    if (exchange->connection->suspended)
        server_work(exchange);
}

/* True when the answer has to go out although the request has not ended, and can. */
bool exchange_answers_early(const struct exchange *exchange)
{
    return exchange->answered && exchange->ended && !exchange->truncated && !exchange->cut &&
           exchange_pending(exchange) <= DIRECT_LIMIT;
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
    if (exchange->bypasses)
        buffer_release(&connection->direct);
    whole = exchange->phase == PHASE_REPLY && code == MHD_REQUEST_TERMINATED_COMPLETED_OK && !exchange->cut &&
            !exchange->truncated;
    connection->exchange = NULL;
    connection_wait(connection, WAIT_HEAD, server->options.read_timeout_ns);
    if (code != MHD_REQUEST_TERMINATED_COMPLETED_OK || connection->fin)
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
        return exchange->cut || exchange->too_large || exchange_can_reply(exchange);
    case PHASE_REPLY:
        if (exchange->bypasses)
            return exchange->cut || (exchange->ended && exchange->connection->direct.size == 0);
        return exchange->cut || exchange->ended || exchange_pending(exchange) > 0;
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

    if (!exchange->high || !exchange->headed || exchange->finished || exchange->gone || exchange->ended ||
        exchange_unsent(exchange) > exchange->output_low)
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
    if (exchange_answers_early(exchange))
        exchange_answer_directly(exchange);
}

bool exchange_proceed(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;

    tell_drained(exchange);
    if (!connection) {
        if (exchange->phase == PHASE_SENT && !exchange->finished) {
            if (!exchange->ended && !exchange->cut)
                return false;
            exchange_finish(exchange, !exchange->cut && !exchange->truncated);
        }
        exchange_free(exchange);
        return false;
    }
    if (exchange->phase == PHASE_UPLOAD || exchange->phase == PHASE_HELD)
        proceed_upload(exchange);
    if (!connection->suspended) {
        if (exchange->cut)
            connection_shut(connection);
        return false;
    }
    if (exchange->bypasses)
        stream_flush(exchange);
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
    else if (!exchange_answers_early(exchange))
        exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
    if (exchange_answers_early(exchange))
        exchange_answer_directly(exchange);
}
