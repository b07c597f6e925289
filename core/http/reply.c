/*
 * What goes out: an answer handed to the library as a buffer (head and body leave in one send) or as a reader (a chunk for
 * each time it is asked), or as plain bytes past the library. See exchange.h.
 */
#include "exchange.h"

#include <assert.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <time.h>

enum {
    HEAD_FIXED = 192,  /* status line, Date, Content-Length or Transfer-Encoding, Connection */
    REQUEST_FIELD = 64 /* what the library keeps in its pool for a field, an argument or a cookie of the request */
};

/* Fields that say how a message is framed are the server's own business. */
static const bool FRAMING[HEADER_KINDS] = {
    [HEADER_TE] = true,
    [HEADER_TRAILER] = true,
    [HEADER_UPGRADE] = true,
    [HEADER_CONNECTION] = true,
    [HEADER_KEEP_ALIVE] = true,
    [HEADER_CONTENT_LENGTH] = true,
    [HEADER_PROXY_CONNECTION] = true,
    [HEADER_TRANSFER_ENCODING] = true,
};

static bool goes_out(const struct header *header)
{
    return header->value.size > 0 && !FRAMING[header->kind] && header_field_valid(header);
}

static bool has_no_body(int32_t status) { return status == 204 || status == 304; }

static bool must_close(const struct exchange *exchange)
{
    return exchange->close_after || exchange->server->announce || exchange->connection->fin;
}

/* The library's order */

static enum MHD_Result first_name(void *context, enum MHD_ValueKind kind, const char *name, const char *value)
{
    (void)kind;
    (void)value;
    *(char *)context = name[0];
    return MHD_NO;
}

/* It sends them in the order in which it lists them. */
bool reply_order_reversed(void)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    char first = '\0';

    if (!response)
        return false;
    if (MHD_add_response_header(response, "A", "1") == MHD_YES &&
        MHD_add_response_header(response, "B", "2") == MHD_YES)
        MHD_get_response_headers(response, first_name, &first);
    MHD_destroy_response(response);
    return first == 'B';
}

/* Heads */

bool reply_head_fits(const struct exchange *exchange, const struct headers *headers)
{
    size_t memory = exchange->server->options.connection_memory;
    size_t used = HEAD_FIXED + exchange->target.size;
    size_t need = HEAD_FIXED;

    for (size_t i = 0; i < exchange->headers.count; i++) {
        const struct header *header = &exchange->headers.list[i];

        used += header->name.size + header->value.size + 4 + REQUEST_FIELD;
        if (header->kind == HEADER_COOKIE) /* copied and taken apart */
            used += 4 * header->value.size;
    }
    for (size_t i = 0; i < exchange->target.size; i++)
        if (exchange->target.data[i] == '&' || exchange->target.data[i] == '?')
            used += REQUEST_FIELD;
    for (size_t i = 0; i < headers->count; i++)
        need += headers->list[i].name.size + headers->list[i].value.size + 4;
    return used < memory && need <= memory - used;
}

/* Names and values end with a NUL: exchange_begin asks for that. */
static bool add_header(struct MHD_Response *response, const struct header *header)
{
    return !goes_out(header) || MHD_add_response_header(response, header->name.data, header->value.data) == MHD_YES;
}

static bool add_headers(const struct exchange *exchange, struct MHD_Response *response)
{
    const struct headers *headers = &exchange->out_headers;

    for (size_t i = 0; i < headers->count; i++) {
        size_t place = exchange->server->reversed ? headers->count - 1 - i : i;

        if (!add_header(response, &headers->list[place]))
            return false;
    }
    return !must_close(exchange) || MHD_add_response_header(response, "Connection", "close") == MHD_YES;
}

/* Bodies */

/* A stream that has nothing queued keeps no memory for it: the next event's is one of the thread's blocks. */
void reply_taken(struct exchange *exchange, size_t size)
{
    struct server *server = exchange->server;

    exchange->out_start += size;
    exchange->sent += size;
    if (exchange->out_start == exchange->out.size) {
        exchange->out_start = 0;
        buffer_clear(&exchange->out, exchange->bypasses ? 0 : OUTPUT_KEPT);
    }
    connection_wait(exchange->connection, WAIT_OUTPUT, server->options.write_timeout_ns);
    if (exchange->high && exchange_unsent(exchange) <= exchange->output_low)
        server_work(exchange);
}

static ssize_t stop_reading(struct exchange *exchange)
{
    /* Without a length and without chunks only a reset shows that it is truncated. */
    if (exchange->http10 && exchange->length < 0) {
        struct linger linger = {1, 0};

        setsockopt(exchange->connection->watch.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    }
    return MHD_CONTENT_READER_END_WITH_ERROR;
}

/* The library may hold a head back until a body follows; that one may be long in coming. */
static void push_head(struct exchange *exchange)
{
    int on = 1;

    if (exchange->sent == 0)
        setsockopt(exchange->connection->watch.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static ssize_t read_out(void *context, uint64_t position, char *into, size_t room)
{
    struct exchange *exchange = context;
    size_t size = exchange_pending(exchange);

    (void)position;
    if (exchange->cut)
        return stop_reading(exchange);
    if (size == 0 && exchange->truncated)
        return stop_reading(exchange);
    if (size == 0 && exchange->ended)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (size == 0 || (exchange->bypasses && !exchange->ended)) {
        push_head(exchange);
        connection_wait(exchange->connection, WAIT_NOTHING, 0);
        connection_suspend(exchange->connection);
        if (size > 0)
            server_work(exchange);
        return 0;
    }
    if (size > room)
        size = room;
    memcpy(into, exchange->out.data + exchange->out_start, size);
    reply_taken(exchange, size);
    return (ssize_t)size;
}

static struct MHD_Response *from_buffer(struct exchange *exchange)
{
    assert(exchange->out_start == 0 && !exchange->lent.data);
    exchange->lent = exchange->out;
    exchange->out = (struct buffer){0};
    exchange->sent = exchange->lent.size;
    return MHD_create_response_from_buffer(exchange->lent.size, exchange->lent.data, MHD_RESPMEM_PERSISTENT);
}

static struct MHD_Response *from_reader(struct exchange *exchange, uint64_t size)
{
    uint64_t block = size < READER_BLOCK ? size + 1 : READER_BLOCK;

    if (exchange->head_request || exchange->status == 304 || (size == MHD_SIZE_UNKNOWN && !exchange->http10))
        block = 1; /* not read at all; or chunks are built in the connection's own memory */
    return MHD_create_response_from_callback(size, (size_t)block, read_out, exchange, NULL);
}

/*
 * For HEAD and 304 the length that GET would have is told, if it is known; the library would follow an unknown one by an
 * empty chunk, and call none at all zero, so that connection ends.
 */
static struct MHD_Response *without_body(struct exchange *exchange)
{
    struct MHD_Response *response;

    if (exchange->length > 0 || (exchange->length == 0 && exchange->head_request))
        return from_reader(exchange, (uint64_t)exchange->length);
    response = from_reader(exchange, MHD_SIZE_UNKNOWN);
    if (response)
        MHD_set_response_options(response, MHD_RF_HTTP_1_0_COMPATIBLE_STRICT, MHD_RO_END);
    return response;
}

static struct MHD_Response *make_response(struct exchange *exchange)
{
    if (exchange->status == 204)
        return MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (exchange->head_request || exchange->status == 304)
        return without_body(exchange);
    if (exchange->length >= 0 && exchange->ended && !exchange->truncated)
        return from_buffer(exchange);
    return from_reader(exchange, exchange->length < 0 ? MHD_SIZE_UNKNOWN : (uint64_t)exchange->length);
}

enum MHD_Result reply_queue(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;
    struct MHD_Response *response = make_response(exchange);
    enum MHD_Result result = MHD_NO;

    if (!response)
        return MHD_NO;
    if (add_headers(exchange, response))
        result = MHD_queue_response(connection->mhd, (unsigned)exchange->status, response);
    MHD_destroy_response(response);
    if (result != MHD_YES)
        return MHD_NO;
    exchange->phase = PHASE_REPLY;
    exchange->bypasses = exchange->length < 0 && !exchange->ended && !exchange->server->options.tls;
    connection_wait(connection, WAIT_OUTPUT, exchange->server->options.write_timeout_ns);
    return MHD_YES;
}

/* Past the library */

static bool put_date(struct buffer *into)
{
    time_t now = time(NULL);
    struct tm parts;
    char text[64];

    if (!gmtime_r(&now, &parts) || strftime(text, sizeof text, "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts) == 0)
        return true;
    return buffer_append_text(into, text);
}

static bool put_header(struct buffer *into, const struct header *header)
{
    return !goes_out(header) || (buffer_append_slice(into, header->name) && buffer_append_text(into, ": ") &&
                                 buffer_append_slice(into, header->value) && buffer_append_text(into, "\r\n"));
}

bool reply_serialize(struct exchange *exchange, struct buffer *into)
{
    const struct headers *headers = &exchange->out_headers;
    size_t size = exchange_pending(exchange);
    bool body = !has_no_body(exchange->status);

    if (!buffer_printf(into, "HTTP/1.1 %d %s\r\n", (int)exchange->status,
                       MHD_get_reason_phrase_for((unsigned)exchange->status)) ||
        (!headers_find(headers, coord_slice_of("date")) && !put_date(into)))
        return false;
    for (size_t i = 0; i < headers->count; i++)
        if (!put_header(into, &headers->list[i]))
            return false;
    if (!buffer_append_text(into, "Connection: close\r\n") ||
        (body && !buffer_printf(into, "Content-Length: %zu\r\n", size)) || !buffer_append_text(into, "\r\n"))
        return false;
    return !body || exchange->head_request ||
           buffer_append_slice(into, (coord_slice){exchange->out.data + exchange->out_start, size});
}
