/*
 * See direct.h. The head is put together in one buffer; it and the body's pieces go out by one sendmsg from where they are.
 *
 * A peer that takes no more is no failure by itself: it may have answered early. Sending stops then, and what can be read
 * decides.
 */
#include "direct.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

enum {
    SEND_VECTORS = 64,
    KEPT_HEAD = 16 * 1024, /* a larger one is rare, and would be kept for good */
    TURN_BYTES = 1 << 20,  /* sent at once; the others have a turn then */
    UPLOAD_BYTES = 16 * 1024,
    CHUNK_HEAD = 16, /* room for the size of a chunk and its line end */
    CHUNK_TAIL = 2
};

/* The head */

bool direct_build_head(struct direct_attempt *direct)
{
    const struct direct_upstream *pool = direct->attempt.upstream->transport_state;
    struct direct_client *client = direct->attempt.upstream->client->direct;

    direct->head = client->head;
    client->head = (struct buffer){0};
    return request_head_build(&direct->head, &direct->attempt, pool->host);
}

void direct_forget_head(struct direct_attempt *direct)
{
    struct direct_client *client = direct->attempt.upstream->client->direct;

    buffer_clear(&direct->head, client->head.data ? 0 : KEPT_HEAD);
    if (direct->head.data)
        client->head = direct->head;
    direct->head = (struct buffer){0};
    direct->head_sent = 0;
}

/* Vectors */

struct batch {
    struct iovec vectors[SEND_VECTORS];
    size_t count;
    size_t bytes;
};

static void add(struct batch *batch, const char *data, size_t size)
{
    if (size == 0)
        return;
    batch->vectors[batch->count++] = (struct iovec){(void *)(uintptr_t)data, size};
    batch->bytes += size;
}

static void add_head(struct batch *batch, const struct direct_attempt *direct)
{
    add(batch, direct->head.data + direct->head_sent, direct->head.size - direct->head_sent);
}

static void add_pieces(struct batch *batch, const struct direct_attempt *direct)
{
    const struct leg_request *request = &direct->attempt.request;
    size_t offset = direct->offset;

    if (!attempt_sends_body(&direct->attempt))
        return;
    for (size_t i = direct->piece; i < request->piece_count && batch->count < SEND_VECTORS; i++) {
        add(batch, request->pieces[i].data + offset, request->pieces[i].size - offset);
        offset = 0;
    }
}

static size_t pass(size_t *place, size_t size, size_t sent)
{
    size_t part = sent < size - *place ? sent : size - *place;

    *place += part;
    return sent - part;
}

static void pass_pieces(struct direct_attempt *direct, size_t sent)
{
    const struct leg_request *request = &direct->attempt.request;

    while (sent > 0) {
        sent = pass(&direct->offset, request->pieces[direct->piece].size, sent);
        if (direct->offset == request->pieces[direct->piece].size) {
            direct->piece++;
            direct->offset = 0;
        }
    }
}

/* Bytes sent, perhaps 0; -1: the peer takes no more. */
static ssize_t send_batch(const struct direct_attempt *direct, struct batch *batch)
{
    struct msghdr message = {.msg_iov = batch->vectors, .msg_iovlen = batch->count};
    ssize_t sent;

    do
        sent = sendmsg(direct->connection->watch.fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 && (errno == EAGAIN || errno == ENOBUFS) ? 0 : sent;
}

static enum direct_verdict stop_sending(struct direct_attempt *direct, bool cut_short)
{
    direct->sending = false;
    direct->cut_short = cut_short;
    direct_forget_head(direct); /* an answer may take long to come, and then to stream */
    return direct_watch(direct);
}

/* Pieces */

static enum direct_verdict send_pieces(struct direct_attempt *direct)
{
    size_t left = TURN_BYTES;

    for (;;) {
        struct batch batch;
        ssize_t sent;

        batch.count = batch.bytes = 0;
        add_head(&batch, direct);
        add_pieces(&batch, direct);
        if (batch.count == 0)
            return stop_sending(direct, false);
        sent = send_batch(direct, &batch);
        if (sent < 0)
            return stop_sending(direct, true);
        if ((size_t)sent == batch.bytes && batch.count < SEND_VECTORS)
            return stop_sending(direct, false);
        pass_pieces(direct, pass(&direct->head_sent, direct->head.size, (size_t)sent));
        attempt_uploading(&direct->attempt, false);
        if ((size_t)sent < batch.bytes || (size_t)sent >= left)
            return direct_watch(direct);
        left -= (size_t)sent;
    }
}

/* Streamed uploads */

static bool out_is_empty(const struct direct_attempt *direct) { return direct->out_sent == direct->out.size; }

/* `size` bytes lie behind the room for the size of their chunk. */
static void frame(struct direct_attempt *direct, size_t size)
{
    char text[CHUNK_HEAD + 1];
    size_t head = 0;

    direct->out.size = CHUNK_HEAD + size;
    if (direct->attempt.request.stream_length < 0) {
        head = (size_t)snprintf(text, sizeof text, "%zx\r\n", size);
        memcpy(direct->out.data + CHUNK_HEAD - head, text, head);
        memcpy(direct->out.data + direct->out.size, "\r\n", CHUNK_TAIL);
        direct->out.size += CHUNK_TAIL;
    }
    direct->out_sent = CHUNK_HEAD - head;
}

static enum direct_verdict break_upload(struct direct_attempt *direct)
{
    return direct_over(direct, LEG_INTERNAL, "the upload was broken off");
}

static enum direct_verdict end_upload(struct direct_attempt *direct)
{
    if (direct->attempt.request.stream_length >= 0)
        return break_upload(direct);
    memcpy(direct->out.data, "0\r\n\r\n", 5);
    direct->out.size = 5;
    direct->out_sent = 0;
    direct->upload_over = true;
    return DIRECT_GOING;
}

/* Puts the next part into `out`, or finds that there is none now. */
static enum direct_verdict next_part(struct direct_attempt *direct)
{
    struct attempt *attempt = &direct->attempt;
    int64_t declared = attempt->request.stream_length;
    size_t size = UPLOAD_BYTES, filled;

    if (declared >= 0 && declared - direct->uploaded < UPLOAD_BYTES)
        size = (size_t)(declared - direct->uploaded);
    direct->upload_over = size == 0;
    if (size == 0)
        return DIRECT_GOING;
    buffer_clear(&direct->out, SIZE_MAX);
    direct->out_sent = 0;
    if (!buffer_reserve(&direct->out, CHUNK_HEAD + UPLOAD_BYTES + CHUNK_TAIL))
        return direct_over(direct, LEG_INTERNAL, "out of memory");
    direct->upload_more = false;
    filled = attempt->events.upload(attempt->leg, direct->out.data + CHUNK_HEAD, size);
    if (!attempt->leg)
        return DIRECT_GONE;
    if (filled == LEG_UPLOAD_ABORT)
        return break_upload(direct);
    direct->cut_short = filled == LEG_UPLOAD_TORN;
    if (direct->cut_short)
        return DIRECT_GOING;
    if (filled == LEG_UPLOAD_END)
        return end_upload(direct);
    assert(filled <= size);
    direct->upload_held = filled == 0;
    if (filled > 0)
        frame(direct, filled);
    direct->uploaded += (int64_t)filled;
    direct->upload_over = declared == direct->uploaded;
    return DIRECT_GOING;
}

/* False: the peer takes no more. */
static bool send_out(struct direct_attempt *direct)
{
    struct batch batch;
    ssize_t sent;

    batch.count = batch.bytes = 0;
    add_head(&batch, direct);
    add(&batch, direct->out.data + direct->out_sent, direct->out.size - direct->out_sent);
    if (batch.count == 0)
        return true;
    sent = send_batch(direct, &batch);
    if (sent < 0)
        return false;
    pass(&direct->out_sent, direct->out.size, pass(&direct->head_sent, direct->head.size, (size_t)sent));
    return true;
}

static enum direct_verdict send_stream(struct direct_attempt *direct)
{
    for (size_t left = TURN_BYTES / UPLOAD_BYTES; left > 0; left--) {
        enum direct_verdict verdict = DIRECT_GOING;

        if (out_is_empty(direct) && !direct->upload_over)
            verdict = next_part(direct);
        if (verdict != DIRECT_GOING)
            return verdict;
        if (direct->cut_short || !send_out(direct))
            return stop_sending(direct, true);
        attempt_uploading(&direct->attempt, direct->upload_held);
        if (!out_is_empty(direct) || direct->head_sent < direct->head.size)
            break;
        if (direct->upload_over)
            return stop_sending(direct, false);
        if (direct->upload_held)
            break;
    }
    return direct_watch(direct);
}

enum direct_verdict direct_send(struct direct_attempt *direct)
{
    if (!direct->sending)
        return DIRECT_GOING;
    return direct->attempt.request.streamed && !direct->attempt.to_head ? send_stream(direct) : send_pieces(direct);
}
