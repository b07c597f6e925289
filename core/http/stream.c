/*
 * Streams of unknown length go out past the library: a chunk for each turn, by one sendmsg from the buffer that the
 * application filled. The library sends the head and, resumed at the end, the last chunk. In between the connection stays
 * suspended: resuming it for each event costs a walk over all suspended ones, which at a thousand streams is most of an
 * event's price. See exchange.h.
 *
 * Invariant: what connection->direct holds is the rest of a chunk that was begun, and goes out before anything else.
 */
#include "exchange.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* One chunk of the first `size` queued bytes, or the bare bytes for HTTP/1.0. */
struct stream_chunk {
    struct iovec parts[3];
    size_t part_count;
    size_t size;
    char head[24];
};

/* The size in hexadecimal digits, and a line's end, which ends `head`. Where it begins. */
static char *put_size(struct stream_chunk *chunk, size_t size)
{
    char *at = chunk->head + sizeof chunk->head - 2;

    memcpy(at, "\r\n", 2);
    do
        *--at = "0123456789abcdef"[size % 16];
    while ((size /= 16) > 0);
    return at;
}

static void frame(struct exchange *exchange, size_t size, struct stream_chunk *chunk)
{
    char *data = exchange->out.data + exchange->out_start;
    char *end = chunk->head + sizeof chunk->head, *head;

    if (exchange->http10) {
        chunk->parts[0] = (struct iovec){data, size};
        chunk->part_count = 1;
        chunk->size = size;
        return;
    }
    head = put_size(chunk, size);
    chunk->parts[0] = (struct iovec){head, (size_t)(end - head)};
    chunk->parts[1] = (struct iovec){data, size};
    chunk->parts[2] = (struct iovec){end - 2, 2}; /* its CR LF once more */
    chunk->part_count = 3;
    chunk->size = (size_t)(end - head) + size + 2;
}

/* -1: the connection is over. */
static ssize_t send_chunk(struct exchange *exchange, struct stream_chunk *chunk)
{
    struct msghdr message = {.msg_iov = chunk->parts, .msg_iovlen = chunk->part_count};
    ssize_t sent = sendmsg(exchange->connection->watch.fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);

    return sent >= 0 ? sent : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

static bool keep_rest(struct exchange *exchange, const struct stream_chunk *chunk, size_t sent)
{
    for (size_t i = 0; i < chunk->part_count; i++) {
        const struct iovec *part = &chunk->parts[i];
        size_t skip = sent < part->iov_len ? sent : part->iov_len;

        sent -= skip;
        if (!buffer_append(&exchange->connection->direct, (char *)part->iov_base + skip, part->iov_len - skip))
            return false;
    }
    return true;
}

void stream_flush(struct exchange *exchange)
{
    struct connection *connection = exchange->connection;

    while (exchange_pending(exchange) > 0 && connection->direct.size == 0 && !exchange->ended && !exchange->cut) {
        size_t size = exchange_pending(exchange) < CHUNK_MOST ? exchange_pending(exchange) : CHUNK_MOST;
        struct stream_chunk chunk;
        ssize_t sent;

        frame(exchange, size, &chunk);
        sent = send_chunk(exchange, &chunk);
        if (sent < 0 || ((size_t)sent < chunk.size && !keep_rest(exchange, &chunk, (size_t)sent))) {
            exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
            return;
        }
        reply_taken(exchange, size);
    }
    if (connection->direct.size == 0)
        connection_wait(connection, WAIT_NOTHING, 0);
    else
        connection_send_direct(connection);
}
