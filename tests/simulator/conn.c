/* Connections; see conn.h. */
#include "conn.h"

#include "serve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SCRATCH = 256 * 1024, AHEAD_AT_MOST = 1024 * 1024, ACCEPTS_A_TURN = 256, PORTS = 64 };
static const int64_t drain_limit = 2000000000, split_pause = 5000000;

static struct {
    struct watch ports[PORTS];
    size_t port_count;
    uint64_t serial;
    uint64_t open;
    int64_t close_idle;
    struct conn **all; /* by descriptor, for conn_close_all */
    size_t all_cap;
} conns = {.close_idle = -1};

static void read_input(struct conn *conn);

uint64_t conn_open_count(void) { return conns.open; }

void conn_set_close_idle(int64_t nanos) { conns.close_idle = nanos; }

size_t conn_backlog(const struct conn *conn) { return buf_left(&conn->out) + buf_left(&conn->pending); }

void conn_arm(struct conn *conn, int64_t at) { timer_arm(&conn->timer, at); }

static struct conn *of_timer(struct timer *timer)
{
    return (struct conn *)((char *)timer - offsetof(struct conn, timer));
}
static struct conn *of_pump(struct timer *timer)
{
    return (struct conn *)((char *)timer - offsetof(struct conn, pump));
}
static struct conn *of_watch(struct watch *watch)
{
    return (struct conn *)((char *)watch - offsetof(struct conn, watch));
}

/* ---- closing ---- */

static void release(struct grave *grave)
{
    struct conn *conn = (struct conn *)grave;
    http_clear(&conn->request);
    buf_free(&conn->in);
    buf_free(&conn->out);
    buf_free(&conn->pending);
    free(conn);
}

static bool in_hand(const struct conn *conn)
{
    return conn->place == CONN_BUSY || conn->place == CONN_ANSWERING || conn->place == CONN_STALLED;
}

static void close_now(struct conn *conn, bool reset)
{
    if (conn->place == CONN_CLOSED)
        return;
    conn->place = CONN_CLOSED;
    serve_over(conn, false); /* of an upload that was never whole */
    timer_disarm(&conn->timer);
    timer_disarm(&conn->pump);
    watch_remove(&conn->watch);
    if (reset)
        setsockopt(conn->watch.fd, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger));
    conns.all[conn->watch.fd] = NULL;
    close(conn->watch.fd);
    conn->watch.fd = -1;
    conns.open--;
    loop_bury(&conn->grave);
}

/* Ends our side and lets the peer read the answer in peace: closing with unread input would reset the connection. */
static void drain(struct conn *conn)
{
    conn->place = CONN_DRAINING;
    serve_over(conn, false);
    shutdown(conn->watch.fd, SHUT_WR);
    buf_free(&conn->in);
    buf_free(&conn->out);
    buf_free(&conn->pending);
    watch_change(&conn->watch, EPOLLIN | EPOLLRDHUP);
    timer_disarm(&conn->pump);
    timer_arm(&conn->timer, loop_now() + drain_limit);
}

static void peer_gone(struct conn *conn)
{
    if (in_hand(conn))
        serve_over(conn, true);
    close_now(conn, false);
}

/* ---- the end of an answer ---- */

static void finish(struct conn *conn)
{
    timer_disarm(&conn->timer);
    serve_over(conn, false);
    conn->fault = NULL;
    conn->served++;
    if (conn->close_after) {
        drain(conn);
        return;
    }
    http_clear(&conn->request);
    conn->gzip = (struct gzip){0};
    conn->body_sent = 0;
    conn->chunked = conn->no_body = conn->shaped = conn->gzipped = conn->ended = conn->end_added = false;
    conn->place = CONN_READING;
    watch_change(&conn->watch, EPOLLIN | EPOLLRDHUP);
    if (conn->close_idle >= 0)
        timer_arm(&conn->timer, loop_now() + conn->close_idle);
    if (!conn->feeding && buf_left(&conn->in))
        read_input(conn);
}

/* Sends `out`; false when some of it has to wait, or the connection is gone. */
static bool push(struct conn *conn)
{
    while (buf_left(&conn->out)) {
        struct text view = buf_view(&conn->out);
        ssize_t sent = send(conn->watch.fd, view.at, view.len, MSG_NOSIGNAL);
        if (sent < 0) {
            if (errno == EINTR)
                continue;
            if (errno == EAGAIN)
                watch_change(&conn->watch, conn->watch.interest | EPOLLOUT);
            else
                peer_gone(conn);
            return false;
        }
        buf_drop(&conn->out, (size_t)sent);
    }
    watch_change(&conn->watch, conn->watch.interest & ~(uint32_t)EPOLLOUT);
    return true;
}

static void add_framed(struct conn *conn, struct text body)
{
    if (!body.len)
        return;
    if (!conn->chunked) {
        buf_add(&conn->out, body.at, body.len);
    } else {
        static const char hex[] = "0123456789abcdef";
        char size[20];
        size_t at = sizeof size - 2;
        memcpy(size + at, "\r\n", 2);
        for (size_t n = body.len; n; n >>= 4)
            size[--at] = hex[n & 15];
        char *room = buf_room(&conn->out, body.len + sizeof size + 2);
        memcpy(room, size + at, sizeof size - at);
        room += sizeof size - at;
        memcpy(room, body.at, body.len);
        memcpy(room + body.len, "\r\n", 2);
        conn->out.len += sizeof size - at + body.len + 2;
    }
    conn->body_sent += body.len;
}

static void add_end(struct conn *conn)
{
    if (conn->end_added)
        return;
    conn->end_added = true;
    if (conn->chunked && !conn->no_body)
        buf_text(&conn->out, "0\r\n\r\n");
}

/* At the offset of a fault: plays it. True if the answer ends here. */
static bool play_stop(struct conn *conn)
{
    const struct fault *f = conn->fault;
    int64_t at = (int64_t)conn->body_sent;
    if (at != f->silence_after && at != f->reset_after && at != f->fin_after)
        return false;
    if (!push(conn))
        return true; /* on_ready comes back to it */
    if (at == f->silence_after) {
        conn->place = CONN_STALLED;
        timer_disarm(&conn->timer);
        return true;
    }
    bool reset = at == f->reset_after; /* the fault goes with the request */
    serve_over(conn, false);
    conn->fault = NULL;
    if (reset)
        close_now(conn, true);
    else
        drain(conn);
    return true;
}

static uint64_t up_to(uint64_t n, uint64_t sent, int64_t stop)
{
    return stop >= 0 && (uint64_t)stop > sent && (uint64_t)stop - sent < n ? (uint64_t)stop - sent : n;
}

/* Frames and sends pending body bytes as the faults want them, one write a piece. */
static void pump(struct conn *conn)
{
    if (conn->place != CONN_ANSWERING || conn->pump.place)
        return;
    for (;;) {
        const struct fault *f = conn->fault;
        if (!push(conn) || play_stop(conn))
            return;
        uint64_t n = buf_left(&conn->pending);
        if (!n)
            break;
        n = up_to(n, conn->body_sent, f->silence_after);
        n = up_to(n, conn->body_sent, f->reset_after);
        n = up_to(n, conn->body_sent, f->fin_after);
        if (f->split > 0 && (uint64_t)f->split < n)
            n = (uint64_t)f->split;
        bool cut = false;
        for (size_t i = 0; i < f->split_count; i++) {
            uint64_t before = n;
            n = up_to(n, conn->body_sent, (int64_t)f->split_at[i]);
            cut = cut || n < before || f->split_at[i] == conn->body_sent + n;
        }
        add_framed(conn, (struct text){buf_view(&conn->pending).at, (size_t)n});
        buf_drop(&conn->pending, (size_t)n);
        if (buf_left(&conn->pending) && (f->split > 0 || cut)) {
            if (push(conn))
                timer_arm(&conn->pump, cut ? loop_now() + split_pause : 0);
            return;
        }
    }
    if (conn->ended) {
        add_end(conn);
        if (push(conn))
            finish(conn);
    } else {
        serve_writable(conn);
    }
}

static void on_pump(struct timer *timer) { pump(of_pump(timer)); }

void conn_flush(struct conn *conn)
{
    if (conn->place != CONN_ANSWERING)
        return;
    if (conn->shaped) {
        /* serve_writable would come back here: let the loop do it */
        if (!conn->pump.place)
            timer_arm(&conn->pump, 0);
        return;
    }
    if (push(conn) && conn->ended)
        finish(conn);
}

/* ---- giving an answer ---- */

static const char *http_date(void)
{
    static time_t last;
    static char date[40];
    time_t now = time(NULL);
    if (now != last) {
        struct tm tm;
        last = now;
        strftime(date, sizeof date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    }
    return date;
}

/* Order and spelling of headers: vLLM 0.32.0 on the wire, W12 (uvicorn). */
void conn_begin(struct conn *conn, int status, const char *type, struct text headers, int64_t length)
{
    const struct fault *f = conn->fault;
    conn->place = CONN_ANSWERING;
    conn->no_body = text_is(conn->request.method, "HEAD") || status == 204 || status == 304;
    conn->gzipped = f && f->gzip && !conn->no_body;
    conn->shaped =
        f && !conn->no_body &&
        (f->split > 0 || f->split_count || f->silence_after >= 0 || f->reset_after >= 0 || f->fin_after >= 0);
    if (conn->gzipped)
        length = -1;
    bool bare = (f && f->no_length) || (length < 0 && conn->request.http10);
    conn->chunked = length < 0 && !bare;
    conn->close_after = conn->close_after || bare || !conn->request.keep_alive;
    buf_printf(&conn->out, "HTTP/1.1 %d %s\r\ndate: %s\r\nserver: uvicorn\r\n", status, http_reason(status),
               http_date());
    if (length >= 0 && !bare && status != 204 && status != 304)
        buf_printf(&conn->out, "content-length: %lld\r\n", (long long)length);
    if (type)
        buf_printf(&conn->out, "content-type: %s\r\n", type);
    buf_text(&conn->out, "vary: Origin\r\n"); /* whether or not the request has an Origin */
    if (conn->gzipped)
        buf_text(&conn->out, "content-encoding: gzip\r\n");
    buf_add(&conn->out, headers.at, headers.len);
    if (conn->chunked && status != 204 && status != 304)
        buf_text(&conn->out, "transfer-encoding: chunked\r\n");
    if (conn->close_after)
        buf_text(&conn->out, "connection: close\r\n");
    buf_text(&conn->out, "\r\n");
}

void conn_send(struct conn *conn, struct text body)
{
    if (conn->place != CONN_ANSWERING || conn->no_body)
        return;
    if (conn->gzipped) {
        struct buf packed = {0};
        gzip_add(&conn->gzip, body, &packed);
        if (conn->shaped)
            buf_add(&conn->pending, packed.data, packed.len);
        else
            add_framed(conn, buf_view(&packed));
        buf_free(&packed);
    } else if (conn->shaped) {
        buf_add(&conn->pending, body.at, body.len);
    } else {
        add_framed(conn, body);
    }
}

void conn_end(struct conn *conn)
{
    if (conn->place != CONN_ANSWERING)
        return;
    if (conn->gzipped) {
        struct buf packed = {0};
        gzip_end(&conn->gzip, &packed);
        if (conn->shaped)
            buf_add(&conn->pending, packed.data, packed.len);
        else
            add_framed(conn, buf_view(&packed));
        buf_free(&packed);
    }
    conn->ended = true;
    if (!conn->shaped)
        add_end(conn);
    conn_flush(conn);
}

void conn_answer(struct conn *conn, int status, const char *type, struct text headers, struct text body)
{
    conn_begin(conn, status, type, headers, (int64_t)body.len);
    conn_send(conn, body);
    conn_end(conn);
}

/* What uvicorn says to a request that it cannot parse. */
static void answer_bad(struct conn *conn, const char *why)
{
    struct buf headers = {0};
    buf_printf(&headers, "x-sim-reason: %s\r\n", why);
    conn->close_after = true;
    conn_answer(conn, 400, "text/plain; charset=utf-8", buf_view(&headers), TEXT("Invalid HTTP request received."));
    buf_free(&headers);
}

/* ---- reading ---- */

static void on_head(struct conn *conn)
{
    serve_head(conn);
    if (conn->place == CONN_READING && conn->request.expects_continue && !buf_left(&conn->in)) {
        buf_text(&conn->out, "HTTP/1.1 100 Continue\r\n\r\n");
        push(conn);
    } else if (conn->place == CONN_ANSWERING || conn->place == CONN_DRAINING) {
        conn->close_after = true; /* answered early: the rest of the upload is dropped */
    }
}

static void read_input(struct conn *conn)
{
    conn->feeding = true;
    const char *why = NULL;
    while (conn->place == CONN_READING && (buf_left(&conn->in) || conn->request.place == HTTP_AT_END)) {
        switch (http_feed(&conn->request, &conn->in, &why)) {
        case HTTP_HEAD:
            timer_disarm(&conn->timer);
            on_head(conn);
            break;
        case HTTP_WHOLE:
            conn->place = CONN_BUSY;
            serve_request(conn);
            break;
        case HTTP_BAD:
            buf_free(&conn->in);
            conn->request.keep_alive = false;
            answer_bad(conn, why);
            break;
        case HTTP_MORE:
            conn->feeding = false;
            return;
        }
    }
    conn->feeding = false;
}

static void on_readable(struct conn *conn)
{
    static char scratch[SCRATCH];
    for (int turn = 0; turn < 4 && conn->place != CONN_CLOSED; turn++) {
        ssize_t got = recv(conn->watch.fd, scratch, sizeof scratch, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0 && errno == EAGAIN)
            return;
        if (got <= 0) {
            peer_gone(conn);
            return;
        }
        if (conn->place == CONN_DRAINING || (conn->close_after && in_hand(conn)))
            continue;
        buf_add(&conn->in, scratch, (size_t)got);
        if (conn->place == CONN_READING)
            read_input(conn);
        else if (buf_left(&conn->in) > AHEAD_AT_MOST)
            watch_change(&conn->watch, conn->watch.interest & ~(uint32_t)EPOLLIN);
        if ((size_t)got < sizeof scratch)
            return;
    }
}

static void on_ready(struct watch *watch, uint32_t events)
{
    struct conn *conn = of_watch(watch);
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        if (watch->interest & EPOLLIN)
            on_readable(conn);
        else
            peer_gone(conn);
    }
    if (!(events & EPOLLOUT) || conn->place != CONN_ANSWERING)
        return;
    if (conn->shaped)
        pump(conn);
    else if (push(conn)) {
        if (conn->ended)
            finish(conn);
        else
            serve_writable(conn);
    }
}

static void on_timer(struct timer *timer)
{
    struct conn *conn = of_timer(timer);
    if (in_hand(conn))
        serve_due(conn);
    else if (conn->place == CONN_DRAINING || !buf_left(&conn->in))
        close_now(conn, false);
}

static void take(int fd)
{
    struct conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        abort();
    conn->grave.release = release;
    conn->watch = (struct watch){.ready = on_ready, .fd = fd};
    conn->timer.fire = on_timer;
    conn->pump.fire = on_pump;
    conn->id = ++conns.serial;
    conn->close_idle = conns.close_idle;
    if ((size_t)fd >= conns.all_cap) {
        size_t cap = conns.all_cap ? conns.all_cap : 256;
        while (cap <= (size_t)fd)
            cap *= 2;
        conns.all = realloc(conns.all, cap * sizeof *conns.all);
        if (!conns.all)
            abort();
        memset(conns.all + conns.all_cap, 0, (cap - conns.all_cap) * sizeof *conns.all);
        conns.all_cap = cap;
    }
    conns.all[fd] = conn;
    conns.open++;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    watch_add(&conn->watch, EPOLLIN | EPOLLRDHUP);
    if (conn->close_idle >= 0)
        timer_arm(&conn->timer, loop_now() + conn->close_idle);
}

static void on_accept(struct watch *watch, uint32_t events)
{
    (void)events;
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        take(fd);
    }
}

int conn_listen(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || conns.port_count == PORTS)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int));
    if (bind(fd, (struct sockaddr *)&address, len) < 0 || listen(fd, 4096) < 0 ||
        getsockname(fd, (struct sockaddr *)&address, &len) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    struct watch *watch = &conns.ports[conns.port_count++];
    *watch = (struct watch){.ready = on_accept, .fd = fd};
    watch_add(watch, EPOLLIN);
    return ntohs(address.sin_port);
}

void conn_close_all(void)
{
    for (size_t fd = 0; fd < conns.all_cap; fd++) {
        struct conn *conn = conns.all[fd];
        if (!conn)
            continue;
        if (in_hand(conn))
            serve_over(conn, false);
        close_now(conn, false);
    }
    for (size_t i = 0; i < conns.port_count; i++)
        close(conns.ports[i].fd);
    free(conns.all);
    conns.all = NULL;
    conns.all_cap = 0;
}
