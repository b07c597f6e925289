/*
 * Unit test of the HTTP client, through its seam only: a raw-socket peer on a thread of its own plays the upstream by script,
 * and what went over the wire is asserted to the byte.
 */
#include "http/upstream.h"
#include "runtime/buffer.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000, LOG_SIZE = 4 << 20 };
static const int64_t MS = 1000000;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* The peer */

struct peer;
typedef void script_fn(struct peer *peer);

struct peer {
    pthread_t thread;
    script_fn *script;
    const char *text; /* for the script */
    size_t size;
    int listener, fd, port;
    _Atomic int connections;
    _Atomic int stage;      /* where the script is, or what the test tells it */
    _Atomic int64_t eof_ns; /* when the other side was seen to close */
    /* The script's, and the test's after peer_join. */
    char *log; /* what came, all connections one after the other */
    size_t logged;
    size_t request; /* where in the log the last request begins */
    int receives;   /* that it took */
    bool joined;
};

static int listen_on(const char *address, int port, int backlog)
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

static int port_of(int fd)
{
    struct sockaddr_in name;
    socklen_t size = sizeof name;

    assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &size), 0);
    return ntohs(name.sin_port);
}

static void *play(void *argument)
{
    struct peer *peer = argument;

    peer->script(peer);
    if (peer->fd >= 0)
        close(peer->fd);
    return NULL;
}

static struct peer *peer_new(script_fn *script)
{
    struct peer *peer = calloc(1, sizeof *peer);

    peer->script = script;
    peer->fd = -1;
    peer->listener = listen_on("127.0.0.1", 0, 64);
    peer->port = port_of(peer->listener);
    peer->log = malloc(LOG_SIZE);
    return peer;
}

static void peer_begin(struct peer *peer) { assert_int_equal(pthread_create(&peer->thread, NULL, play, peer), 0); }

static struct peer *peer_start(script_fn *script, const char *text)
{
    struct peer *peer = peer_new(script);

    peer->text = text;
    peer->size = text ? strlen(text) : 0;
    peer_begin(peer);
    return peer;
}

static void peer_join(struct peer *peer)
{
    if (!peer->joined)
        pthread_join(peer->thread, NULL);
    peer->joined = true;
}

static void peer_free(struct peer *peer)
{
    peer_join(peer);
    close(peer->listener);
    free(peer->log);
    free(peer);
}

/* For scripts. */

static bool readable(int fd, int ms)
{
    struct pollfd one = {.fd = fd, .events = POLLIN};

    return poll(&one, 1, ms) > 0;
}

static bool peer_accept(struct peer *peer)
{
    if (peer->fd >= 0)
        close(peer->fd);
    peer->fd = readable(peer->listener, PATIENCE_MS) ? accept4(peer->listener, NULL, NULL, SOCK_CLOEXEC) : -1;
    peer->connections++;
    return peer->fd >= 0;
}

static bool peer_receive(struct peer *peer)
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

/* One request, its body by length or chunks; false when the connection ended. */
static bool peer_request(struct peer *peer)
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

static void peer_send_bytes(struct peer *peer, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(peer->fd, data, size, MSG_NOSIGNAL);

        if (sent <= 0)
            return;
        data += sent;
        size -= (size_t)sent;
    }
}

static void peer_send(struct peer *peer, const char *text) { peer_send_bytes(peer, text, strlen(text)); }

static void peer_reset(struct peer *peer)
{
    struct linger now = {.l_onoff = 1};

    setsockopt(peer->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(peer->fd);
    peer->fd = -1;
}

static void peer_await_eof(struct peer *peer)
{
    while (peer_receive(peer))
        continue;
    peer->eof_ns = now_ns();
}

static void peer_await_stage(struct peer *peer, int stage)
{
    for (int64_t end = now_ns() + PATIENCE_MS * MS; peer->stage < stage && now_ns() < end;)
        usleep(200);
}

static const char OK_ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
static const char HEAD_ANSWER[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n";

/* Answers every request of one connection, until it ends. */
static void serve_one_connection(struct peer *peer)
{
    if (!peer_accept(peer))
        return;
    while (peer_request(peer))
        peer_send(peer, memcmp(peer->log + peer->request, "HEAD ", 5) == 0 ? HEAD_ANSWER : OK_ANSWER);
    peer->eof_ns = now_ns();
}

/* Answers one request with `text`, then closes. */
static void answer_and_close(struct peer *peer)
{
    if (peer_accept(peer) && peer_request(peer))
        peer_send(peer, peer->text);
}

/* The client's side */

struct world {
    struct reactor *reactor;
    struct resolver *resolver;
    struct client *client;
    unsigned turns;
};

struct probe {
    struct leg *leg;
    void *memory;
    struct world *world;
    struct buffer body, fields;
    struct leg_result result;
    char detail[512];
    int32_t status;
    int64_t length;
    bool reused;
    int heads, datas, ends, uploads;
    size_t largest;
    int64_t ended_ns;
    /* What to do when. */
    void (*on_head)(struct probe *probe);
    void (*on_data)(struct probe *probe);
    void (*on_end)(struct probe *probe);
    size_t (*on_upload)(struct probe *probe, char *room, size_t size);
    struct probe *other;
    struct upstream *upstream;
    bool inside; /* a call into the client is on the stack: no event may come */
};

static void head_came(struct leg *leg, const struct leg_head *head)
{
    struct probe *probe = leg_owner(leg);

    assert_false(probe->inside);
    assert_int_equal(probe->heads + probe->datas + probe->ends, 0);
    probe->heads++;
    probe->status = head->status;
    probe->length = head->length;
    probe->reused = head->reused;
    for (size_t i = 0; i < head->headers.count; i++)
        assert_true(buffer_printf(&probe->fields, "%.*s=%.*s;", COORD_FMT(head->headers.list[i].name),
                                  COORD_FMT(head->headers.list[i].value)));
    if (probe->on_head)
        probe->on_head(probe);
}

static void data_came(struct leg *leg, coord_slice bytes)
{
    struct probe *probe = leg_owner(leg);

    assert_false(probe->inside);
    assert_true(probe->heads == 1 && probe->ends == 0);
    probe->datas++;
    if (bytes.size > probe->largest)
        probe->largest = bytes.size;
    assert_true(buffer_append_slice(&probe->body, bytes));
    if (probe->on_data)
        probe->on_data(probe);
}

static void end_came(struct leg *leg, const struct leg_result *result)
{
    struct probe *probe = leg_owner(leg);

    assert_false(probe->inside);
    assert_int_equal(probe->ends, 0);
    probe->ends++;
    probe->result = *result;
    probe->ended_ns = now_ns();
    snprintf(probe->detail, sizeof probe->detail, "%s", result->detail);
    free(probe->memory);
    probe->memory = NULL;
    if (probe->on_end)
        probe->on_end(probe);
}

static size_t upload_wanted(struct leg *leg, char *room, size_t size)
{
    struct probe *probe = leg_owner(leg);

    assert_false(probe->inside);
    probe->uploads++;
    return probe->on_upload(probe, room, size);
}

static const struct leg_events events = {head_came, data_came, end_came, upload_wanted};

static void probe_start(struct probe *probe, struct world *world, struct upstream *upstream,
                        const struct leg_request *request)
{
    probe->world = world;
    probe->upstream = upstream;
    probe->memory = calloc(1, leg_size());
    probe->inside = true;
    probe->leg = leg_start(probe->memory, upstream, request, &events, probe);
    probe->inside = false;
    assert_non_null(probe->leg);
}

static void probe_cancel(struct probe *probe)
{
    probe->inside = true;
    leg_cancel(probe->leg);
    free(probe->memory);
    probe->memory = NULL;
    probe->inside = true; /* for ever: no event may come any more */
}

static void probe_resume(struct probe *probe)
{
    probe->inside = true;
    leg_resume(probe->leg);
    probe->inside = false;
}

static void probe_clear(struct probe *probe)
{
    buffer_release(&probe->body);
    buffer_release(&probe->fields);
    free(probe->memory);
    *probe = (struct probe){0};
}

static void turn(struct world *world, int ms)
{
    world->turns++;
    reactor_turn(world->reactor, ms * MS);
}

/* Turns until the probe has ended; fails when that takes too long. */
static void finish(struct probe *probe)
{
    for (int64_t end = now_ns() + PATIENCE_MS * MS; !probe->ends; turn(probe->world, 100))
        assert_true(now_ns() < end);
}

static void turn_for(struct world *world, int ms)
{
    for (int64_t end = now_ns() + ms * MS; now_ns() < end;)
        turn(world, (int)((end - now_ns()) / MS) + 1);
}

#define TURN_UNTIL(world, condition)                                                                                   \
    for (int64_t end_ = now_ns() + PATIENCE_MS * MS; !(condition); turn(world, 5))                                     \
    assert_true(now_ns() < end_)

static int start(void **state)
{
    struct world *world = calloc(1, sizeof *world);

    world->reactor = reactor_new(0);
    world->resolver = resolver_new(world->reactor, NULL);
    world->client = client_new(world->reactor, world->resolver);
    assert_true(world->reactor && world->resolver && world->client);
    *state = world;
    return 0;
}

static int stop(void **state)
{
    struct world *world = *state;

    assert_int_equal(client_legs(world->client), 0);
    client_free(world->client);
    resolver_free(world->resolver);
    reactor_free(world->reactor);
    free(world);
    return 0;
}

static struct upstream *open_named(struct world *world, const char *host, int port)
{
    char url[64];
    const char *reason = NULL;
    struct upstream_options options = {
        .max_idle_connections = 8, .idle_age_ns = 4000 * MS, .connect_timeout_ns = 5000 * MS};
    struct upstream *upstream;

    snprintf(url, sizeof url, "http://%s:%d", host, port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    assert_non_null(upstream);
    return upstream;
}

static struct upstream *open_peer(struct world *world, const struct peer *peer)
{
    return open_named(world, "127.0.0.1", peer->port);
}

static struct leg_request get(const char *target)
{
    return (struct leg_request){.method = COORD_SLICE("GET"), .target = coord_slice_of(target)};
}

/* What the peer's log must be; "%d" in `format` is the port. */
static void assert_wire(struct peer *peer, const char *format)
{
    char want[4096];

    peer_join(peer);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(want, sizeof want, format, peer->port, peer->port);
#pragma GCC diagnostic pop
    peer->log[peer->logged] = 0;
    assert_string_equal(peer->log, want);
}

static void assert_body(const struct probe *probe, const char *text)
{
    assert_int_equal(probe->body.size, strlen(text));
    assert_memory_equal(probe->body.data ? probe->body.data : "", text, strlen(text));
}

static void assert_fields(struct probe *probe, const char *text)
{
    assert_true(buffer_append(&probe->fields, "", 1));
    assert_string_equal(probe->fields.data, text);
}

/* Ends the world's connections, so that a peer that waits for more sees the end. */
static void close_client(void **state)
{
    struct world *world = *state;

    client_free(world->client);
    world->client = client_new(world->reactor, world->resolver);
}

/* Requests */

static void a_small_post_goes_out_as_given_and_in_one_piece(void **state)
{
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    const struct header fields[] = {{COORD_SLICE("Content-Type"), COORD_SLICE("application/json")},
                                    {COORD_SLICE("X-Empty"), COORD_SLICE("")},
                                    {COORD_SLICE("x-Two"), COORD_SLICE("a\tb \xc3\xa9")},
                                    {COORD_SLICE("X-Blank"), COORD_SLICE("  ")},
                                    {COORD_SLICE("x-two"), COORD_SLICE("c;d:e")}};
    const coord_slice pieces[] = {COORD_SLICE("{\"a\":"), COORD_SLICE(""), COORD_SLICE("1}")};
    struct leg_request request = {.method = COORD_SLICE("POST"),
                                  .target = COORD_SLICE("/v1/a/../b//c?d=%20&e=\xc3\xa9#"),
                                  .headers = fields,
                                  .header_count = 5,
                                  .pieces = pieces,
                                  .piece_count = 3,
                                  .body_size = 7,
                                  .has_body = true};
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_true(probe.result.head_seen && !probe.result.close_delimited && probe.result.connect_ns > 0);
    assert_int_equal(probe.status, 200);
    assert_int_equal(probe.length, 2);
    assert_false(probe.reused);
    assert_fields(&probe, "Content-Length=2;");
    assert_body(&probe, "ok");
    close_client(state);
    assert_wire(peer,
                "POST /v1/a/../b//c?d=%%20&e=\xc3\xa9# HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
                "Content-Type: application/json\r\nX-Empty:\r\nx-Two: a\tb \xc3\xa9\r\nX-Blank:\r\nx-two: c;d:e\r\n"
                "Content-Length: 7\r\n\r\n{\"a\":1}");
    probe_clear(&probe);
    peer_free(peer);
}

static void a_small_request_is_one_segment(void **state)
{
    struct peer *peer = peer_start(answer_and_close, OK_ANSWER);
    struct upstream *upstream = open_peer(*state, peer);
    const coord_slice pieces[] = {COORD_SLICE("{\"a\":"), COORD_SLICE("1}")};
    struct leg_request request = {.method = COORD_SLICE("POST"),
                                  .target = COORD_SLICE("/"),
                                  .pieces = pieces,
                                  .piece_count = 2,
                                  .body_size = 7,
                                  .has_body = true};
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    peer_join(peer);
    assert_int_equal(peer->receives, 1);
    probe_clear(&probe);
    peer_free(peer);
}

static void nothing_is_added_to_a_get(void **state)
{
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/p");
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    close_client(state);
    assert_wire(peer, "GET /p HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n\r\n");
    probe_clear(&probe);
    peer_free(peer);
}

static void every_method_goes_through_one_connection(void **state)
{
    static const struct {
        const char *name, *method, *body;
        bool has_body;
        const char *wire;
    } rows[] = {
        {"a GET", "GET", "", false, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a POST", "POST", "ab", true, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nab"},
        {"a HEAD has no body, whatever its answer declares", "HEAD", "", false, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a POST of nothing", "POST", "", true, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
        {"a POST without a body", "POST", "", false, "POST / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a GET with a body", "GET", "x", true, "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n\r\nx"},
        {"another HEAD", "HEAD", "", false, "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a DELETE", "DELETE", "", false, "DELETE / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a PUT", "PUT", "abc", true, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"},
        {"an OPTIONS", "OPTIONS", "", false, "OPTIONS / HTTP/1.1\r\nHost: h\r\n\r\n"},
        {"a method of nobody's", "BREW", "", false, "BREW / HTTP/1.1\r\nHost: h\r\n\r\n"},
    };
    enum { ROWS = sizeof rows / sizeof *rows };
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct buffer want = {0};

    for (size_t r = 0; r < ROWS; r++) {
        coord_slice piece = coord_slice_of(rows[r].body);
        struct leg_request request = {.method = coord_slice_of(rows[r].method),
                                      .target = COORD_SLICE("/"),
                                      .host = COORD_SLICE("h"),
                                      .pieces = &piece,
                                      .piece_count = piece.size > 0,
                                      .body_size = piece.size,
                                      .has_body = rows[r].has_body};
        struct probe probe = {0};

        print_message("  %s\n", rows[r].name);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        assert_int_equal(probe.reused, r > 0);
        assert_int_equal(probe.result.connect_ns == 0, r > 0);
        assert_true(buffer_append_text(&want, rows[r].wire));
        probe_clear(&probe);
    }
    close_client(state);
    peer_join(peer);
    assert_int_equal(peer->connections, 1);
    assert_int_equal(peer->logged, want.size);
    assert_memory_equal(peer->log, want.data, want.size);
    buffer_release(&want);
    peer_free(peer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_small_post_goes_out_as_given_and_in_one_piece, start, stop),
        cmocka_unit_test_setup_teardown(a_small_request_is_one_segment, start, stop),
        cmocka_unit_test_setup_teardown(nothing_is_added_to_a_get, start, stop),
        cmocka_unit_test_setup_teardown(every_method_goes_through_one_connection, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
