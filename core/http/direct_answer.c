/*
 * See direct.h. Bytes are handed on from where they were received. What a paused leg has not taken is kept with the
 * attempt, at most one receipt of it, since nothing is received while the leg is paused.
 */
#include "direct.h"

#include <errno.h>
#include <sys/socket.h>

static enum direct_verdict take_line(struct direct_attempt *direct, coord_slice line)
{
    struct attempt *attempt = &direct->attempt;

    attempt->head.borrowed = direct_reader_lent(&direct->reader);
    if (!attempt_head_line(attempt, line))
        return attempt->leg ? direct_over(direct, LEG_BROKEN, attempt->refusal) : DIRECT_GONE;
    if (attempt->head.complete)
        direct_reader_head_over(&direct->reader, &attempt->head, attempt->to_head);
    return DIRECT_GOING;
}

/* The bytes go; fields of a head that goes on lie in them. */
static enum direct_verdict await_more(struct direct_attempt *direct)
{
    struct answer_head *head = &direct->attempt.head;

    return head->complete || answer_head_own(head) ? DIRECT_GOING : direct_over(direct, LEG_INTERNAL, "out of memory");
}

/* `left` bytes came after the answer. */
static enum direct_verdict whole(struct direct_attempt *direct, size_t left)
{
    direct->reusable = left == 0 && !direct->sending && !direct->cut_short && !direct->peer_closed &&
                       answer_head_keeps_connection(&direct->attempt.head);
    return direct_over(direct, LEG_COMPLETE, "");
}

static enum direct_verdict set_aside(struct direct_attempt *direct, coord_slice bytes)
{
    if (direct->rest.size > 0) { /* it is the rest that `bytes` is the end of */
        direct->rest_at = direct->rest.size - bytes.size;
        return DIRECT_GOING;
    }
    direct->rest_at = 0;
    return buffer_append_slice(&direct->rest, bytes) ? DIRECT_GOING
                                                     : direct_over(direct, LEG_INTERNAL, "out of memory");
}

static enum direct_verdict take_bytes(struct direct_attempt *direct, coord_slice bytes)
{
    enum direct_verdict verdict = DIRECT_GOING;
    const char *reason = NULL;
    coord_slice piece;

    while (verdict == DIRECT_GOING) {
        if (direct_held(direct) && bytes.size > 0 && !direct_reader_whole(&direct->reader))
            return set_aside(direct, bytes);
        switch (direct_reader_next(&direct->reader, &bytes, &piece, &reason)) {
        case READING_MORE:
            return await_more(direct);
        case READING_LINE:
            verdict = take_line(direct, piece);
            break;
        case READING_DATA:
            if (!attempt_data(&direct->attempt, piece))
                return DIRECT_GONE;
            break;
        case READING_WHOLE:
            return whole(direct, bytes.size);
        case READING_BAD:
            return direct_over(direct, LEG_BROKEN, reason);
        }
    }
    return verdict;
}

enum direct_verdict direct_take_rest(struct direct_attempt *direct)
{
    struct buffer *rest = &direct->rest;
    size_t at = direct->rest_at;
    enum direct_verdict verdict;

    if (rest->size == 0)
        return DIRECT_GOING;
    direct->rest_at = rest->size; /* unless it is set aside again */
    verdict = take_bytes(direct, (coord_slice){rest->data + at, rest->size - at});
    if (verdict == DIRECT_GOING && direct->rest_at == rest->size)
        buffer_clear(rest, SIZE_MAX);
    return verdict;
}

/* The connection ended, properly or (`error`) not. */
static enum direct_verdict ended(struct direct_attempt *direct, int error)
{
    const char *reason = NULL;

    if (!direct->answered)
        return direct_over(direct, LEG_NO_ANSWER, error ? strerror(error) : "the connection ended before an answer");
    if (error)
        return direct_over(direct, LEG_BROKEN, strerror(error));
    if (direct_reader_end(&direct->reader, &reason) == READING_WHOLE)
        return direct_over(direct, LEG_COMPLETE, "");
    return direct_over(direct, LEG_BROKEN, reason);
}

enum direct_verdict direct_receive(struct direct_attempt *direct)
{
    char *room = direct->attempt.upstream->client->direct->room;
    ssize_t got;

    if (direct->rest.size > 0) /* resumed, but not told yet */
        return direct_take_rest(direct);
    got = recv(direct->connection->watch.fd, room, DIRECT_ROOM, 0);
    if (got > 0) {
        direct->answered = true;
        return take_bytes(direct, (coord_slice){room, (size_t)got});
    }
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return DIRECT_GOING;
    return ended(direct, got < 0 ? errno : 0);
}
