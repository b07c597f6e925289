#include "upstream_peer.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { LOG_SIZE = 4 << 20 };
static const char HEAD_ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";

int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

bool readable(int fd, int ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, ms) > 0;
}

int listen_on(const char *address, int port, int backlog)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    assert_true(fd >= 0);
    inet_pton(AF_INET, address, &name.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&name, sizeof name) || listen(fd, backlog)) {
        close(fd);
        return -1;
    }
    return fd;
}

int port_of(int fd)
{
    struct sockaddr_in name;
    socklen_t size = sizeof name;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    return ntohs(name.sin_port);
}

char *pattern_new(size_t size)
{
    char *data = malloc(size + 1);
    unsigned seed = 7;

    for (size_t i = 0; i < size; i++)
        data[i] = (char)('a' + ((seed = seed * 1103515245 + 12345) >> 16) % 26);
    data[size] = 0;
    return data;
}

static void *play(void *argument)
{
    struct peer *peer = argument;

    peer->script(peer);
    if (peer->fd >= 0)
        close(peer->fd);
    return NULL;
}

struct peer *peer_new(script_fn *script)
{
    struct peer *peer = calloc(1, sizeof *peer);

    peer->script = script;
    peer->fd = -1;
    peer->listener = listen_on("127.0.0.1", 0, 64);
    peer->port = port_of(peer->listener);
    peer->log = malloc(LOG_SIZE);
    return peer;
}

void peer_begin(struct peer *peer) { assert_int_equal(pthread_create(&peer->thread, NULL, play, peer), 0); }

struct peer *peer_start(script_fn *script, const char *text)
{
    struct peer *peer = peer_new(script);

    peer->text = text;
    peer->size = text ? strlen(text) : 0;
    peer_begin(peer);
    return peer;
}

void peer_join(struct peer *peer)
{
    if (!peer->joined)
        pthread_join(peer->thread, NULL);
    peer->joined = true;
}

void peer_free(struct peer *peer)
{
    peer_join(peer);
    close(peer->listener);
    free(peer->log);
    free(peer);
}

void stop_peer(struct peer *peer)
{
    peer->stage = 1;
    peer_free(peer);
}

bool peer_accept(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = readable(peer->listener, PATIENCE_MS) ? accept4(peer->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    peer->connections++;
    return peer->fd >= 0;
}

bool peer_receive(struct peer *peer)
{
    ssize_t got;

    if (!readable(peer->fd, PATIENCE_MS))
        return false;
    got = recv(peer->fd, peer->log + peer->logged, LOG_SIZE - peer->logged - 1, 0);
    peer->receives++;
    if (got <= 0)
        return false;
    peer->logged += (size_t)got;
    return true;
}

bool peer_request(struct peer *peer)
{
    size_t start = peer->request = peer->logged;

    peer->receives = 0;
    for (;;) {
        char *head = peer->log + start, *end, *field;
        size_t have = peer->logged - start;

        if (have > 0) {
            peer->log[peer->logged] = 0;
            end = strstr(head, "\r\n\r\n");
            field = end ? strcasestr(head, "\r\ncontent-length:") : NULL;
            if (field && field < end && have >= (size_t)(end + 4 - head) + strtoul(field + 17, NULL, 10))
                return true;
            if (end && !(field && field < end)) {
                field = strcasestr(head, "\r\ntransfer-encoding: chunked");
                if (!(field && field < end) ||
                    (have >= 7 && memcmp(peer->log + peer->logged - 7, "\r\n0\r\n\r\n", 7) == 0) ||
                    (have >= 5 && memcmp(end + 4, "0\r\n\r\n", 5) == 0))
                    return true;
            }
        }
        if (!peer_receive(peer))
            return false;
    }
}

void peer_send_bytes(struct peer *peer, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(peer->fd, data, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        data += sent;
        size -= (size_t)sent;
    }
}

void peer_send(struct peer *peer, const char *text) { peer_send_bytes(peer, text, strlen(text)); }

void peer_reset(struct peer *peer)
{
    struct linger now = {.l_onoff = 1};

    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(peer->fd);
    peer->fd = -1;
}

void peer_await_eof(struct peer *peer)
{
    while (peer_receive(peer))
        continue;
    peer->eof_ns = now_ns();
}

void peer_await_stage(struct peer *peer, int stage)
{
    for (int64_t end = now_ns() + PATIENCE_MS * MS; peer->stage < stage && now_ns() < end;)
        usleep(200);
}

void serve_one_connection(struct peer *peer)
{
    if (!peer_accept(peer))
        return;
    while (peer_request(peer))
        peer_send(peer, memcmp(peer->log + peer->request, "HEAD ", 5) == 0 ? HEAD_ANSWER : OK_ANSWER);
    peer->eof_ns = now_ns();
}

void serve_many(struct peer *peer)
{
    int fds[64];

    memset(fds, -1, sizeof fds);
    while (peer->stage == 0) {
        bool more = readable(peer->listener, 1);

        for (size_t i = 0; i < sizeof fds / sizeof *fds; i++) {
            if (fds[i] < 0 && more) {
                fds[i] = accept4(peer->listener, NULL, NULL, SOCK_CLOEXEC);
                peer->connections++;
                more = false;
            }
            if (fds[i] < 0 || !readable(fds[i], 0))
                continue;
            peer->fd = fds[i];
            peer->logged = 0;
            if (peer_request(peer)) {
                peer_send(peer, OK_ANSWER);
            } else {
                close(fds[i]);
                fds[i] = -1;
            }
        }
    }
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    peer->fd = -1;
}

void answer_and_close(struct peer *peer)
{
    if (peer_accept(peer) && peer_request(peer))
        peer_send(peer, peer->text);
}

void answer_and_await_eof(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer->stage = 1;
    peer_send(peer, peer->text);
    peer_await_eof(peer);
}

void reset_after_the_text(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, peer->text);
    peer_await_stage(peer, 1);
    peer_reset(peer);
}

void say_nothing(struct peer *peer)
{
    if (peer_accept(peer))
        peer_await_eof(peer);
}
