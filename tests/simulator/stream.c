/* The pace of an event stream; see stream.h. */
#include "stream.h"

#include "tokenizer.h"

#include <string.h>

enum { BACKLOG_AT_MOST = 64 * 1024, BLOB_EVENT = 64 * 1024 };

struct text stream_word(uint64_t words, uint64_t index) { return tokenizer_word(mix(words + index)); }

static const char *filler(void)
{
    static char letters[BLOB_EVENT];
    if (!letters[0])
        memset(letters, 'x', sizeof letters);
    return letters;
}

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

/* Sends what `events` holds, each event by itself, and empties it. */
static void send_events(struct stream *s, struct conn *conn, struct buf *events, bool last)
{
    struct text rest = buf_view(events);
    if (!last) {
        send_event(s, conn, rest); /* one event: no need to look for its end */
        rest.len = 0;
    }
    while (rest.len) {
        const char *end = memmem(rest.at, rest.len, "\n\n", 2);
        size_t len = end ? (size_t)(end - rest.at) + 2 : rest.len;
        bool blank_missing = s->fault->no_final_blank && len == rest.len;
        send_event(s, conn, (struct text){rest.at, len - blank_missing});
        rest.at += len;
        rest.len -= len;
    }
    events->from = events->len = 0;
}

static void add_huge(struct stream *s, struct buf *frame)
{
    struct buf letters = {0};
    for (int64_t left = s->fault->huge_event; left > 0; left -= BLOB_EVENT)
        buf_add(&letters, filler(), left < BLOB_EVENT ? (size_t)left : BLOB_EVENT);
    s->shape->token(frame, s->reply, s->index, buf_view(&letters));
    buf_free(&letters);
}

/* An event of BLOB_EVENT bytes, the last one of what is left. Blobs are no tokens: the index stays. */
static void add_blob(struct stream *s, struct buf *frame)
{
    uint64_t index = s->reply->output_tokens; /* that of no token, so no finish_reason */
    s->shape->token(frame, s->reply, index, (struct text){"", 0});
    size_t around = buf_left(frame);
    frame->from = frame->len = 0;
    size_t want = s->blob_left < BLOB_EVENT ? (size_t)s->blob_left : BLOB_EVENT;
    size_t letters = want > around ? want - around : 0;
    s->shape->token(frame, s->reply, index, (struct text){filler(), letters});
    s->blob_left -= (int64_t)want;
}

/* Gives the next event to the connection; false after the last. */
static bool step(struct stream *s, struct conn *conn)
{
    static struct buf frame;
    if (s->fault->error_event_after >= 0 && s->events >= s->fault->error_event_after) {
        s->shape->broken(&frame);
        send_events(s, conn, &frame, true);
        return false;
    }
    if (!s->opened) {
        s->opened = true;
        s->shape->opening(&frame, s->reply);
        if (buf_left(&frame)) {
            send_events(s, conn, &frame, false);
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
            s->shape->token(&frame, s->reply, s->index, stream_word(s->words, s->index));
        s->index++;
    } else {
        s->shape->closing(&frame, s->reply);
    }
    send_events(s, conn, &frame, !more);
    return more;
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
