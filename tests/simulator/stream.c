/* The pace of an event stream; see stream.h. */
#include "stream.h"

#include "tokenizer.h"

#include <string.h>

enum { BACKLOG_AT_MOST = 64 * 1024, BLOB_EVENT = 64 * 1024 };

uint64_t stream_random(uint64_t words, uint64_t index) { return mix(words + index); }

/* Bends one event as the fault on line ends wants and sends it. */
static void send_event(struct stream *s, struct conn *conn, struct text event)
{
    s->events++;
    if (!s->fault->crlf) {
        conn_send(conn, event);
        return;
    }
    struct buf bent = {0};
    for (size_t i = 0; i < event.len; i++)
        buf_add(&bent, event.at[i] == '\n' ? "\r\n" : event.at + i, event.at[i] == '\n' ? 2 : 1);
    conn_send(conn, buf_view(&bent));
    buf_free(&bent);
}

/* An error event is due in the place of the next one. */
static bool error_due(const struct stream *s)
{
    return s->fault->error_event_after >= 0 && s->events >= s->fault->error_event_after;
}

static void send_one(struct stream *s, struct conn *conn, struct buf *event)
{
    send_event(s, conn, buf_view(event));
    event->from = event->len = 0;
}

/*
 * Sends what `events` holds, each event by itself, and empties it. If an error is `awaited` and due before the end, it
 * drops the rest and returns false.
 */
static bool send_events(struct stream *s, struct conn *conn, struct buf *events, bool last, bool awaited)
{
    struct text rest = buf_view(events);
    while (rest.len && !(awaited && error_due(s))) {
        const char *end = memmem(rest.at, rest.len, "\n\n", 2);
        size_t len = end ? (size_t)(end - rest.at) + 2 : rest.len;
        bool blank_missing = last && s->fault->no_final_blank && len == rest.len;
        send_event(s, conn, (struct text){rest.at, len - blank_missing});
        rest.at += len;
        rest.len -= len;
    }
    events->from = events->len = 0;
    return !rest.len;
}

static void add_huge(struct stream *s, struct buf *frame)
{
    struct buf content = {0};
    shape_add_filler(s->shape, &content, (size_t)s->fault->huge_event);
    s->shape->token(frame, s->reply, s->index, buf_view(&content));
    buf_free(&content);
}

/* An event of BLOB_EVENT bytes, the last one of what is left. Blobs are no tokens: the index stays. */
static void add_blob(struct stream *s, struct buf *frame)
{
    static struct buf content;
    uint64_t index = s->reply->output_tokens; /* that of no token, so no finish_reason */
    uint64_t sequence = s->reply->sequence;
    s->shape->token(frame, s->reply, index, (struct text){"", 0});
    s->reply->sequence = sequence;
    size_t around = buf_left(frame);
    frame->from = frame->len = 0;
    size_t want = s->blob_left < BLOB_EVENT ? (size_t)s->blob_left : BLOB_EVENT;
    content.from = content.len = 0;
    shape_add_filler(s->shape, &content, want > around ? want - around : 0);
    s->shape->token(frame, s->reply, index, buf_view(&content));
    s->blob_left -= (int64_t)want;
}

/* Gives the next event to the connection; false after the last. */
static bool step(struct stream *s, struct conn *conn)
{
    static struct buf frame;
    if (error_due(s)) {
        s->shape->broken(&frame, s->reply);
        send_events(s, conn, &frame, true, false);
        return false;
    }
    if (!s->opened) {
        s->opened = true;
        s->shape->opening(&frame, s->reply);
        if (buf_left(&frame)) {
            send_events(s, conn, &frame, false, true);
            return true;
        }
    }
    bool more = s->blob_left > 0 || s->index < s->reply->output_tokens;
    if (s->blob_left > 0) {
        add_blob(s, &frame);
    } else if (more) {
        if (s->index == 0 && s->fault->huge_event > 0)
            add_huge(s, &frame);
        else
            s->shape->token(&frame, s->reply, s->index, shape_word(s->shape, stream_random(s->words, s->index)));
        s->index++;
    } else {
        s->shape->closing(&frame, s->reply);
        return !send_events(s, conn, &frame, true, true);
    }
    send_one(s, conn, &frame); /* no need to look for its end */
    return true;
}

static void wait_for(struct stream *s, struct conn *conn, int64_t at)
{
    s->waiting = true;
    s->due = at;
    conn_arm(conn, at);
}

/* One event an interval. The opening goes with the first token, the closing with the last, as from the engine. */
static void run_paced(struct stream *s, struct conn *conn)
{
    uint64_t before = s->index;
    bool more = true;
    while (more && (s->index == before || s->index >= s->reply->output_tokens) && s->blob_left <= 0)
        more = step(s, conn);
    if (more && s->blob_left > 0)
        more = step(s, conn);
    if (!more) {
        conn_end(conn);
        return;
    }
    int64_t next = s->due + s->interval;
    wait_for(s, conn, next > loop_now() ? next : loop_now());
    conn_flush(conn);
}

/* As much as the socket takes. */
static void run_free(struct stream *s, struct conn *conn)
{
    for (int turn = 0; turn < 16 && conn->place == CONN_ANSWERING; turn++) {
        while (conn_backlog(conn) < BACKLOG_AT_MOST)
            if (!step(s, conn)) {
                conn_end(conn);
                return;
            }
        conn_flush(conn);
        if (conn->place != CONN_ANSWERING || conn_backlog(conn))
            return; /* serve_writable goes on */
    }
    if (conn->place == CONN_ANSWERING)
        wait_for(s, conn, 0); /* the others' turn */
}

static void run(struct stream *s, struct conn *conn)
{
    if (s->interval > 0)
        run_paced(s, conn);
    else
        run_free(s, conn);
}

void stream_begin(struct stream *s, struct conn *conn, struct text headers)
{
    s->due = loop_now();
    s->blob_left = s->fault->blob;
    conn_begin(conn, 200, "text/event-stream; charset=utf-8", headers, -1);
    if (s->fault->first_token_delay <= 0) {
        run(s, conn);
        return;
    }
    wait_for(s, conn, loop_now() + s->fault->first_token_delay);
    conn_flush(conn); /* the head goes ahead of the first token, as from the engine */
}

void stream_due(struct stream *s, struct conn *conn)
{
    if (!s->waiting)
        return;
    s->waiting = false;
    if (s->interval > 0 && conn_backlog(conn) > BACKLOG_AT_MOST)
        return; /* the reader is slow: stream_writable goes on */
    run(s, conn);
}

void stream_writable(struct stream *s, struct conn *conn)
{
    if (s->waiting)
        return;
    s->due = loop_now();
    run(s, conn);
}
