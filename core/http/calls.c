/* The application's calls: they note what it wants; the turn-end hook and the library's callbacks do it. See exchange.h. */
#include "exchange.h"

#include <assert.h>

static void check(const struct exchange *exchange) { assert(exchange && exchange->magic == EXCHANGE_MAGIC); }

void exchange_set_app(struct exchange *exchange, void *app) { exchange->app = app; }

void *exchange_app(const struct exchange *exchange) { return exchange->app; }

struct reactor *exchange_reactor(const struct exchange *exchange) { return exchange->server->reactor; }

struct arena *exchange_arena(struct exchange *exchange) { return &exchange->arena; }

bool exchange_hand_over(struct exchange *exchange, struct arena *arena, struct headers *headers)
{
    check(exchange);
    assert(!arena->first && !arena->large);
    *arena = exchange->arena;
    exchange->arena = (struct arena){0};
    headers_init(headers, arena);
    exchange->headers.arena = arena;
    if (!headers_own(&exchange->headers))
        return false;
    *headers = exchange->headers;
    return true;
}

coord_slice exchange_method(const struct exchange *exchange) { return exchange->method; }

coord_slice exchange_target(const struct exchange *exchange) { return exchange->target; }

bool exchange_is_http10(const struct exchange *exchange) { return exchange->http10; }

const struct headers *exchange_headers(const struct exchange *exchange) { return &exchange->headers; }

coord_slice exchange_peer(const struct exchange *exchange) { return exchange->peer; }

int64_t exchange_began_ns(const struct exchange *exchange) { return exchange->began_ns; }

int64_t exchange_declared_length(const struct exchange *exchange) { return exchange->declared; }

uint64_t exchange_received(const struct exchange *exchange) { return exchange->received; }

uint64_t exchange_sent(const struct exchange *exchange) { return exchange->sent; }

bool exchange_answered(const struct exchange *exchange) { return exchange->answered; }

bool exchange_is_gone(const struct exchange *exchange) { return exchange->gone; }

size_t exchange_queued(const struct exchange *exchange) { return exchange_unsent(exchange); }

static void choose(struct exchange *exchange, enum exchange_choice choice)
{
    check(exchange);
    assert(exchange->choice == CHOICE_NONE);
    exchange->choice = choice;
}

void exchange_read_body(struct exchange *exchange) { choose(exchange, CHOICE_READ); }

void exchange_stream_body(struct exchange *exchange) { choose(exchange, CHOICE_STREAM); }

void exchange_hold(struct exchange *exchange) { choose(exchange, CHOICE_HOLD); }

coord_slice exchange_body(const struct exchange *exchange) { return buffer_slice(&exchange->body); }

struct buffer exchange_take_body(struct exchange *exchange)
{
    struct buffer body = exchange->body;

    check(exchange);
    exchange->body = (struct buffer){0};
    return body;
}

void exchange_upload_more(struct exchange *exchange)
{
    check(exchange);
    exchange->more = true;
    server_work(exchange);
}

/* What all answers share. `headers` may be NULL; otherwise they live as long as the exchange. */
static coord_status begin(struct exchange *exchange, int32_t status, const struct headers *headers)
{
    check(exchange);
    assert(status >= 200 && status <= 599);
    if (exchange->answered || exchange->gone || exchange->cut || exchange->finished)
        return COORD_STATE;
    if (headers && !reply_head_fits(exchange, headers)) {
        exchange->too_large = exchange->answered = exchange->ended = true;
        server_work(exchange);
        return COORD_LIMIT;
    }
    if (headers)
        exchange->out_headers = *headers;
    exchange->status = status;
    exchange->answered = true;
    server_work(exchange);
    return COORD_OK;
}

coord_status exchange_answer(struct exchange *exchange, int32_t status, const struct headers *headers, coord_slice body)
{
    struct headers own;
    coord_status result;

    check(exchange);
    if (exchange->answered || exchange->gone)
        return COORD_STATE;
    headers_init(&own, &exchange->arena);
    if ((headers && !headers_copy(&own, headers)) || !buffer_append_slice(&exchange->out, body))
        return COORD_NO_MEMORY;
    result = begin(exchange, status, &own);
    if (result != COORD_OK) {
        buffer_release(&exchange->out);
        return result;
    }
    exchange->length = (int64_t)body.size;
    exchange->written = body.size;
    exchange->ended = true;
    return COORD_OK;
}

coord_status exchange_begin(struct exchange *exchange, int32_t status, const struct headers *headers, int64_t length)
{
    coord_status result = begin(exchange, status, headers);

    if (result == COORD_OK)
        exchange->length = length < 0 ? -1 : length;
    return result;
}

/* What was written is moved down before the buffer would grow over what has been taken. */
static bool queue(struct exchange *exchange, coord_slice bytes)
{
    struct buffer *out = &exchange->out;

    if (exchange->out_start > 0 && bytes.size > out->capacity - out->size) {
        buffer_drop(out, exchange->out_start);
        exchange->out_start = 0;
    }
    return buffer_append_slice(out, bytes);
}

size_t exchange_write(struct exchange *exchange, coord_slice bytes)
{
    uint64_t left;

    check(exchange);
    if (!exchange->answered || exchange->ended || exchange->cut || exchange->finished)
        return 0;
    left = exchange->length < 0 ? UINT64_MAX : (uint64_t)exchange->length - exchange->written;
    if (bytes.size > left)
        bytes.size = (size_t)left; /* more than was announced would be another answer's head */
    if (bytes.size == 0)
        return exchange_unsent(exchange);
    exchange->written += bytes.size;
    if (exchange->head_request || exchange->status == 204 || exchange->status == 304 || exchange->phase == PHASE_SENT)
        return 0;
    if (!queue(exchange, bytes)) {
        exchange->cut = true; /* a gap in the answer must show */
        server_work(exchange);
        return 0;
    }
    if (exchange_unsent(exchange) >= exchange->output_high)
        exchange->high = true;
    if (!exchange->connection || exchange->connection->suspended || exchange->phase != PHASE_REPLY)
        server_work(exchange);
    return exchange_unsent(exchange);
}

void exchange_end(struct exchange *exchange)
{
    check(exchange);
    if (!exchange->answered || exchange->ended || exchange->cut || exchange->finished)
        return;
    exchange->ended = true;
    if (exchange->length >= 0 && exchange->written < (uint64_t)exchange->length && !exchange->head_request &&
        exchange->status != 204 && exchange->status != 304)
        exchange->truncated = exchange->aborted = true;
    server_work(exchange);
}

void exchange_abort(struct exchange *exchange)
{
    check(exchange);
    if (exchange->finished || exchange->gone || exchange->cut)
        return;
    exchange->aborted = true;
    if (!exchange->answered || exchange->phase == PHASE_SENT)
        exchange->cut = true;
    exchange->ended = exchange->truncated = true;
    server_work(exchange);
}
