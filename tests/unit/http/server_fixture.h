/*
 * A server on a reactor that the test turns itself, an application that notes what it is told, and raw client sockets that do
 * not block. One a process.
 */
#ifndef SERVER_FIXTURE_H
#define SERVER_FIXTURE_H

#include "http/listen.h"
#include "http/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#if defined(__GNUC__)
#define MAYBE_UNUSED __attribute__((unused))
#endif

enum { CLIENT_ROOM = 1 << 20, KEPT = 1024 };

static const int64_t MS = 1000000;
static const int64_t PATIENCE = INT64_C(10000000000);

struct client {
    int fd;
    size_t size;
    bool ended; /* FIN */
    bool reset;
    char data[CLIENT_ROOM + 1];
};

static struct {
    struct reactor *reactor;
    struct server *server;
    struct server_options options;
    uint16_t port;
    struct arena arena;
    /* What the application does; NULL: nothing. */
    void (*head)(struct exchange *exchange);
    void (*body)(struct exchange *exchange);
    size_t (*upload)(struct exchange *exchange, coord_slice piece, bool last);
    void (*drained)(struct exchange *exchange);
    /* What it saw. */
    char log[4096];              /* a word a call */
    struct exchange *kept[KEPT]; /* exchanges that are not done */
    size_t kept_count;
    unsigned heads, bodies, gones, dones, completes, refusals, drains;
    enum exchange_gone gone_reason;
    enum exchange_refusal refusal;
    bool in_call; /* of ours into the server: nothing may come back */
    /* A connection that does nothing: the library looks at its oldest one in every run, which would hide that it forgot another. */
    int decoy;
} fixture;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void turn(void) { reactor_turn(fixture.reactor, MS); }

#define UNTIL(condition)                                                                                               \
    do {                                                                                                               \
        int64_t until_deadline = now_ns() + PATIENCE;                                                                  \
        while (!(condition)) {                                                                                         \
            assert_true(now_ns() < until_deadline);                                                                    \
            turn();                                                                                                    \
        }                                                                                                              \
    } while (0)

/* The application */

static void note(const char *word)
{
    size_t size = strlen(fixture.log);

    assert_false(fixture.in_call);
    snprintf(fixture.log + size, sizeof fixture.log - size, "%s%s", size ? " " : "", word);
}

static struct headers text_headers(void)
{
    struct headers headers;

    headers_init(&headers, &fixture.arena);
    assert_true(headers_add(&headers, coord_slice_of("Content-Type"), coord_slice_of("text/plain")));
    return headers;
}

MAYBE_UNUSED static void answer_text(struct exchange *exchange, int32_t status, const char *text)
{
    struct headers headers = text_headers();

    fixture.in_call = true;
    assert_int_equal(exchange_answer(exchange, status, &headers, coord_slice_of(text)), COORD_OK);
    fixture.in_call = false;
}

MAYBE_UNUSED static void begin_text(struct exchange *exchange, int64_t length)
{
    struct headers headers = text_headers();

    fixture.in_call = true;
    assert_int_equal(exchange_begin(exchange, 200, &headers, length), COORD_OK);
    fixture.in_call = false;
}

MAYBE_UNUSED static size_t write_text(struct exchange *exchange, const char *text)
{
    size_t queued;

    fixture.in_call = true;
    queued = exchange_write(exchange, coord_slice_of(text));
    fixture.in_call = false;
    return queued;
}

static void app_head(void *context, struct exchange *exchange)
{
    (void)context;
    note("head");
    fixture.heads++;
    assert_true(fixture.kept_count < KEPT);
    fixture.kept[fixture.kept_count++] = exchange;
    fixture.head(exchange);
}

static void app_body(void *context, struct exchange *exchange)
{
    (void)context;
    note("body");
    fixture.bodies++;
    if (fixture.body)
        fixture.body(exchange);
}

static size_t app_upload(void *context, struct exchange *exchange, coord_slice piece, bool last)
{
    (void)context;
    if (last)
        note("last");
    return fixture.upload ? fixture.upload(exchange, piece, last) : piece.size;
}

static void app_drained(void *context, struct exchange *exchange)
{
    (void)context;
    fixture.drains++;
    if (fixture.drained)
        fixture.drained(exchange);
}

static void app_gone(void *context, struct exchange *exchange, enum exchange_gone reason)
{
    (void)context;
    note("gone");
    assert_true(exchange_is_gone(exchange));
    fixture.gones++;
    fixture.gone_reason = reason;
}

static void app_done(void *context, struct exchange *exchange, bool complete)
{
    (void)context;
    note(complete ? "done" : "undone");
    fixture.dones++;
    fixture.completes += complete;
    for (size_t i = 0; i < fixture.kept_count; i++)
        if (fixture.kept[i] == exchange) {
            fixture.kept[i] = fixture.kept[--fixture.kept_count];
            return;
        }
    fail_msg("done without head, or twice");
}

static int32_t app_refuse(void *context, struct exchange *exchange, enum exchange_refusal why, const char *detail,
                          struct headers *headers, struct buffer *body)
{
    static const int32_t statuses[] = {0, 400, 413, 408, 503, 502, 400};

    (void)context;
    (void)exchange;
    assert_false(fixture.in_call);
    fixture.refusals++;
    fixture.refusal = why;
    assert_true(headers_add(headers, coord_slice_of("Content-Type"), coord_slice_of("application/json")));
    assert_true(buffer_printf(body, "{\"error\":\"%s\"}", detail));
    return statuses[why];
}

/* The server */

static int connect_to_server(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(fixture.port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    return fd;
}

/* Besides the decoy. */
MAYBE_UNUSED static size_t connections(void) { return server_connections(fixture.server) - 1; }

static void start_server(void)
{
    const struct server_app app = {NULL, app_head, app_body, app_upload, app_drained, app_gone, app_done, app_refuse};
    const char *reason = NULL;

    fixture.server = server_new(fixture.reactor, &fixture.options, &app, &reason);
    assert_non_null(fixture.server);
    fixture.decoy = connect_to_server();
    UNTIL(server_connections(fixture.server) == 1);
}

static void stop_server(void)
{
    server_abort_all(fixture.server);
    UNTIL(server_exchanges(fixture.server) == 0);
    server_free(fixture.server);
    fixture.server = NULL;
    close(fixture.decoy);
}

/* With other options than the usual ones: change fixture.options, then this. */
MAYBE_UNUSED static void restart_server(void)
{
    stop_server();
    assert_int_equal(listen_open(coord_slice_of("127.0.0.1:0"), 1, &fixture.options.listen_fd, NULL), COORD_OK);
    fixture.port = listen_port(fixture.options.listen_fd);
    start_server();
}

static int start(void **state)
{
    (void)state;
    memset(&fixture, 0, sizeof fixture);
    fixture.reactor = reactor_new(0);
    fixture.options = (struct server_options){.connection_memory = 16384,
                                              .connection_limit = 1000,
                                              .max_body = 1 << 20,
                                              .output_high = 65536,
                                              .output_low = 16384};
    assert_int_equal(listen_open(coord_slice_of("127.0.0.1:0"), 1, &fixture.options.listen_fd, NULL), COORD_OK);
    fixture.port = listen_port(fixture.options.listen_fd);
    start_server();
    return 0;
}

static int finish(void **state)
{
    (void)state;
    if (fixture.server)
        stop_server();
    assert_int_equal(fixture.kept_count, 0);
    reactor_free(fixture.reactor);
    arena_release(&fixture.arena);
    return 0;
}

/* Clients */

static struct client *client_new(void)
{
    struct client *client = malloc(sizeof *client);

    assert_non_null(client);
    client->size = 0;
    client->ended = client->reset = false;
    client->data[0] = '\0';
    client->fd = connect_to_server();
    return client;
}

static void client_free(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    free(client);
}

/* Sends all, turning the reactor while the socket is full. False when the server has cut it. */
static bool client_send_bytes(struct client *client, const char *data, size_t size)
{
    int64_t deadline = now_ns() + PATIENCE;

    while (size > 0) {
        ssize_t sent = send(client->fd, data, size, MSG_DONTWAIT | MSG_NOSIGNAL);

        assert_true(now_ns() < deadline);
        if (sent < 0 && errno != EAGAIN)
            return false;
        if (sent < 0)
            turn();
        data += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

static void client_send(struct client *client, const char *text)
{
    assert_true(client_send_bytes(client, text, strlen(text)));
}

/* Reads what is there; true when something came or it ended. */
static bool client_read(struct client *client)
{
    ssize_t got = recv(client->fd, client->data + client->size, CLIENT_ROOM - client->size, MSG_DONTWAIT);

    if (got < 0 && errno == EAGAIN)
        return false;
    if (got > 0)
        client->size += (size_t)got;
    client->ended = client->ended || got == 0;
    client->reset = client->reset || got < 0;
    client->data[client->size] = '\0';
    return true;
}

static bool client_has(struct client *client, const char *text)
{
    client_read(client);
    return memmem(client->data, client->size, text, strlen(text)) != NULL;
}

static bool client_over(struct client *client)
{
    client_read(client);
    return client->ended || client->reset;
}

MAYBE_UNUSED static void client_forget(struct client *client)
{
    client->size = 0;
    client->data[0] = '\0';
}

/* Sends a request and waits until the answer holds `text`. */
MAYBE_UNUSED static struct client *client_ask(const char *request, const char *text)
{
    struct client *client = client_new();

    client_send(client, request);
    UNTIL(client_has(client, text));
    return client;
}

/* RST instead of FIN. */
MAYBE_UNUSED static void client_reset(struct client *client)
{
    struct linger linger = {1, 0};

    setsockopt(client->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(client->fd);
    client->fd = -1;
}

#define GET(target) "GET " target " HTTP/1.1\r\nHost: h\r\n\r\n"

/* Usual heads */

MAYBE_UNUSED static void head_answers(struct exchange *exchange) { answer_text(exchange, 200, "hello"); }

MAYBE_UNUSED static void head_holds(struct exchange *exchange) { exchange_hold(exchange); }

MAYBE_UNUSED static void head_reads(struct exchange *exchange) { exchange_read_body(exchange); }

MAYBE_UNUSED static void head_streams(struct exchange *exchange) { exchange_stream_body(exchange); }

MAYBE_UNUSED static void head_begins(struct exchange *exchange)
{
    exchange_hold(exchange);
    begin_text(exchange, -1);
}

#endif
