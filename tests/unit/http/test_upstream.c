/*
 * Unit test of the HTTP client, through its seam only and over both transports: a raw-socket peer on a thread of its own plays
 * the upstream by script, and what went over the wire is asserted to the byte.
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
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
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
static enum upstream_transport transport; /* under test */
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
    size_t uploaded;
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
        .transport = transport, .max_idle_connections = 8, .idle_age_ns = 4000 * MS, .connect_timeout_ns = 5000 * MS};
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

static void fields_that_would_break_the_request_are_left_out(void **state)
{
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    const struct header fields[] = {{COORD_SLICE("X-A"), COORD_SLICE("a\r\nX-Evil: 1")},
                                    {COORD_SLICE("X B"), COORD_SLICE("b")},
                                    {COORD_SLICE("X-C:"), COORD_SLICE("c")},
                                    {COORD_SLICE(""), COORD_SLICE("d")},
                                    {COORD_SLICE("X-E"), COORD_SLICE("e\0e")},
                                    {COORD_SLICE("Host"), COORD_SLICE("evil")},
                                    {COORD_SLICE("content-length"), COORD_SLICE("77")},
                                    {COORD_SLICE("Transfer-Encoding"), COORD_SLICE("chunked")},
                                    {COORD_SLICE("Connection"), COORD_SLICE("close")},
                                    {COORD_SLICE("Expect"), COORD_SLICE("100-continue")},
                                    {COORD_SLICE("Accept"), COORD_SLICE("text/event-stream")},
                                    {COORD_SLICE("User-Agent"), COORD_SLICE("u")}};
    struct leg_request request = get("/");
    struct probe probe = {0};

    request.headers = fields;
    request.header_count = sizeof fields / sizeof *fields;
    request.host = (coord_slice)COORD_SLICE("h:1");
    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    close_client(state);
    assert_wire(peer, "GET / HTTP/1.1\r\nHost: h:1\r\nAccept: text/event-stream\r\nUser-Agent: u\r\n\r\n");
    probe_clear(&probe);
    peer_free(peer);
}

static void an_invalid_target_or_method_ends_the_leg_without_a_request(void **state)
{
    static const char *const rows[][2] = {
        {"GET", ""}, {"GET", "/a b"}, {"GET", "/a\r\nX: y"}, {"GE T", "/"}, {"", "/"}};
    struct upstream *upstream = open_named(*state, "127.0.0.1", 1);

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct leg_request request = get(rows[r][1]);
        struct probe probe = {0};

        request.method = coord_slice_of(rows[r][0]);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_INTERNAL);
        probe_clear(&probe);
    }
}

static char *pattern_new(size_t size)
{
    char *data = malloc(size + 1);
    unsigned seed = 7;

    for (size_t i = 0; i < size; i++)
        data[i] = (char)('a' + ((seed = seed * 1103515245 + 12345) >> 16) % 26);
    data[size] = 0;
    return data;
}

static void large_bodies_arrive_whole_from_their_pieces(void **state)
{
    static const size_t sizes[] = {65535, 65536, 65537, 300000, 3 << 20};

    for (size_t r = 0; r < sizeof sizes / sizeof *sizes; r++) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        char *data = pattern_new(sizes[r]), head[128];
        const coord_slice pieces[] = {
            {data, 1}, {data + 1, sizes[r] / 2}, {NULL, 0}, {data + 1 + sizes[r] / 2, sizes[r] - 1 - sizes[r] / 2}};
        struct leg_request request = {.method = COORD_SLICE("POST"),
                                      .target = COORD_SLICE("/"),
                                      .host = COORD_SLICE("h"),
                                      .pieces = pieces,
                                      .piece_count = 4,
                                      .body_size = sizes[r],
                                      .has_body = true};
        struct probe probe = {0};
        size_t head_size =
            (size_t)snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n", sizes[r]);

        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        peer_join(peer);
        assert_int_equal(peer->logged, head_size + sizes[r]);
        assert_memory_equal(peer->log, head, head_size);
        assert_memory_equal(peer->log + head_size, data, sizes[r]);
        probe_clear(&probe);
        peer_free(peer);
        free(data);
    }
}

static void a_body_of_many_pieces_arrives_whole(void **state)
{
    enum { PIECES = 300 };
    char *data = pattern_new(1 << 20), head[128];
    coord_slice pieces[PIECES];
    size_t at = 0;

    for (size_t i = 0; i < PIECES; i++) {
        pieces[i] = (coord_slice){data + at, i % 7 == 0 ? 0 : i % 50 == 1 ? 100000 : i};
        at += pieces[i].size;
    }
    for (size_t count = 63; count <= PIECES; count += count < 65 ? 1 : 47) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = {.method = COORD_SLICE("POST"),
                                      .target = COORD_SLICE("/"),
                                      .host = COORD_SLICE("h"),
                                      .pieces = pieces,
                                      .piece_count = count,
                                      .has_body = true};
        struct probe probe = {0};
        size_t head_size;

        for (size_t i = 0; i < count; i++)
            request.body_size += pieces[i].size;
        head_size = (size_t)snprintf(head, sizeof head, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: %zu\r\n\r\n",
                                     request.body_size);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        peer_join(peer);
        assert_int_equal(peer->logged, head_size + request.body_size);
        assert_memory_equal(peer->log, head, head_size);
        assert_memory_equal(peer->log + head_size, data, request.body_size);
        probe_clear(&probe);
        peer_free(peer);
    }
    free(data);
}

/* Streamed uploads */

/* Gives "ab" a call, has nothing every second time, and ends after six letters. */
static size_t upload_haltingly(struct probe *probe, char *room, size_t size)
{
    if (probe->uploads % 2 == 0)
        return 0;
    if (probe->uploads > 6)
        return LEG_UPLOAD_END;
    assert_true(size >= 2);
    memcpy(room, "ab", 2);
    return 2;
}

static void finish_uploading(struct probe *probe)
{
    for (int64_t end = now_ns() + PATIENCE_MS * MS; !probe->ends; turn(probe->world, 2)) {
        assert_true(now_ns() < end);
        probe->inside = true;
        leg_upload_more(probe->leg);
        probe->inside = false;
    }
}

static void a_streamed_upload_is_chunked_or_has_the_declared_length(void **state)
{
    static const struct {
        int64_t length;
        const char *wire;
    } rows[] = {
        {-1,
         "PUT / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\nab\r\n2\r\nab\r\n0\r\n\r\n"},
        {6, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 6\r\n\r\nababab"},
        {0, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n"},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_upload = upload_haltingly};

        request.method = (coord_slice)COORD_SLICE("PUT");
        request.host = (coord_slice)COORD_SLICE("h");
        request.streamed = request.has_body = true;
        request.stream_length = rows[r].length;
        probe_start(&probe, *state, upstream, &request);
        turn_for(*state, 20);
        if (rows[r].length)
            assert_int_equal(probe.uploads, 2); /* held, not asked again and again */
        finish_uploading(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        assert_wire(peer, rows[r].wire);
        probe_clear(&probe);
        peer_free(peer);
    }
}

enum { UPLOAD_SIZE = 2000000 };
static const char *upload_pattern;

/* Parts of odd sizes, now and then none. */
static size_t upload_much(struct probe *probe, char *room, size_t size)
{
    size_t part = (size_t)probe->uploads * 7919 % 20011 + 1, left = UPLOAD_SIZE - probe->uploaded;

    if (probe->uploads % 5 == 0)
        return 0;
    if (left == 0)
        return LEG_UPLOAD_END;
    part = part < size ? part : size;
    part = part < left ? part : left;
    memcpy(room, upload_pattern + probe->uploaded, part);
    probe->uploaded += part;
    return part;
}

/* The data of the chunks in `wire`, put together at its beginning. */
static size_t unchunk(char *wire, size_t size)
{
    size_t filled = 0;

    for (char *at = wire, *end; at < wire + size;) {
        size_t part = strtoul(at, &end, 16);

        assert_memory_equal(end, "\r\n", 2);
        if (part == 0) {
            assert_int_equal(end + 4 - wire, size);
            break;
        }
        memmove(wire + filled, end + 2, part);
        filled += part;
        at = end + 2 + part + 2;
        assert_memory_equal(at - 2, "\r\n", 2);
    }
    return filled;
}

static void a_large_streamed_upload_arrives_whole_and_no_faster_than_it_is_read(void **state)
{
    char *data = pattern_new(UPLOAD_SIZE), *body;

    upload_pattern = data;
    for (int declared = 0; declared < 2; declared++) {
        struct peer *peer = peer_start(serve_one_connection, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_upload = upload_much};
        size_t size;

        request.method = (coord_slice)COORD_SLICE("PUT");
        request.streamed = request.has_body = true;
        request.stream_length = declared ? UPLOAD_SIZE : -1;
        probe_start(&probe, *state, upstream, &request);
        finish_uploading(&probe);
        assert_int_equal(probe.result.outcome, LEG_COMPLETE);
        close_client(state);
        peer_join(peer);
        peer->log[peer->logged] = 0;
        body = strstr(peer->log, "\r\n\r\n") + 4;
        size = peer->logged - (size_t)(body - peer->log);
        if (!declared)
            size = unchunk(body, size);
        assert_int_equal(size, UPLOAD_SIZE);
        assert_memory_equal(body, data, UPLOAD_SIZE);
        probe_clear(&probe);
        peer_free(peer);
    }
    free(data);
}

static size_t upload_abort(struct probe *probe, char *room, size_t size)
{
    (void)room;
    (void)size;
    return probe->uploads == 1 ? 0 : LEG_UPLOAD_ABORT;
}

static size_t upload_end_early(struct probe *probe, char *room, size_t size)
{
    (void)room;
    (void)size;
    return probe->uploads == 1 ? 0 : LEG_UPLOAD_END;
}

static void read_until_closed(struct peer *peer)
{
    if (peer_accept(peer))
        peer_await_eof(peer);
}

static void a_broken_off_upload_ends_the_leg_and_the_connection(void **state)
{
    static size_t (*const rows[])(struct probe *, char *, size_t) = {upload_abort, upload_end_early};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(read_until_closed, NULL);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_upload = rows[r]};

        request.method = (coord_slice)COORD_SLICE("PUT");
        request.streamed = request.has_body = true;
        request.stream_length = 100;
        probe_start(&probe, *state, upstream, &request);
        finish_uploading(&probe);
        assert_int_equal(probe.result.outcome, LEG_INTERNAL);
        assert_string_equal(probe.detail, "the upload was broken off");
        peer_join(peer); /* it saw the end */
        assert_true(peer->eof_ns > 0);
        probe_clear(&probe);
        peer_free(peer);
    }
}

static size_t upload_cancelling(struct probe *probe, char *room, size_t size)
{
    (void)room;
    (void)size;
    probe_cancel(probe);
    return 0;
}

static void a_leg_may_be_cancelled_from_its_upload(void **state)
{
    struct peer *peer = peer_start(read_until_closed, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_upload = upload_cancelling};

    request.method = (coord_slice)COORD_SLICE("PUT");
    request.streamed = request.has_body = true;
    request.stream_length = -1;
    probe_start(&probe, *state, upstream, &request);
    TURN_UNTIL((struct world *)*state, peer->eof_ns);
    assert_int_equal(probe.uploads, 1);
    assert_int_equal(client_legs(((struct world *)*state)->client), 0);
    probe_clear(&probe);
    peer_free(peer);
}

/* Answers */

static void an_answer_ends_as_its_framing_says(void **state)
{
    static const struct {
        const char *name, *answer;
        enum leg_outcome outcome;
        int status;
        bool close_delimited;
        int64_t length;
        const char *fields, *body, *detail, *library_detail; /* …: what newer versions of libcurl say first */
    } rows[] = {
        {"a declared length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nX: 1\r\nx:  2 \r\n\r\nabc", LEG_COMPLETE, 200,
         false, 3, "Content-Length=3;X=1;x=2;", "abc", ""},
        {"chunks, with trailers that are dropped",
         "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\nX-T: "
         "1\r\nContent-Length: 99\r\n\r\n",
         LEG_COMPLETE, 200, false, -1, "Transfer-Encoding=chunked;Trailer=X-T;", "abc", ""},
        {"neither: its own end mark decides", "HTTP/1.1 200 OK\r\nX: 1\r\n\r\nabc", LEG_COMPLETE, 200, true, -1, "X=1;",
         "abc", ""},
        {"neither, HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\nabc", LEG_COMPLETE, 200, true, -1, "", "abc", ""},
        {"a length, HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", LEG_COMPLETE, 200, false, 3,
         "Content-Length=3;", "abc", ""},
        {"no content", "HTTP/1.1 204 No Content\r\nX:\r\n\r\n", LEG_COMPLETE, 204, false, -1, "X=;", "", ""},
        {"not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", LEG_COMPLETE, 304, false, 9,
         "Content-Length=9;", "", ""},
        {"a redirect is an answer", "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 1\r\n\r\nx",
         LEG_COMPLETE, 302, false, 1, "Location=http://127.0.0.1:1/;Content-Length=1;", "x", ""},
        {"no reason phrase", "HTTP/1.1 503\r\nContent-Length: 0\r\n\r\n", LEG_COMPLETE, 503, false, 0,
         "Content-Length=0;", "", ""},
        {"interim heads are dropped",
         "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: l\r\nContent-Length: 7\r\n\r\nHTTP/1.1 200 "
         "OK\r\nContent-Length: 1\r\n\r\nx",
         LEG_COMPLETE, 200, false, 1, "Content-Length=1;", "x", ""},
        {"bare line feeds", "HTTP/1.1 200 OK\nContent-Length: 1\n\nx", LEG_BROKEN, 0, false, 0, NULL, "",
         "the answer has a header line that does not end with CR and LF"},
        {"a compressed body is passed on as it is",
         "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", LEG_COMPLETE, 200, false, 3,
         "Content-Encoding=gzip;Content-Length=3;", "abc", ""},
        {"short of its length", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", LEG_BROKEN, 200, false, 9,
         "Content-Length=9;", "abc", NULL},
        {"no last chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", LEG_BROKEN, 200, false,
         -1, "Transfer-Encoding=chunked;", "abc", NULL},
        {"a bad chunk head", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nxyz\r\n", LEG_BROKEN,
         200, false, -1, "Transfer-Encoding=chunked;", "abc", NULL},
        {"the head is cut", "HTTP/1.1 200 OK\r\nContent-Le", LEG_BROKEN, 0, false, 0, NULL, "", NULL},
        {"only an interim head", "HTTP/1.1 100 Continue\r\n\r\n", LEG_BROKEN, 0, false, 0, NULL, "", NULL},
        {"not HTTP", "SSH-2.0-OpenSSH_9.2\r\n", LEG_BROKEN, 0, false, 0, NULL, "", NULL},
        {"a folded line", "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 0\r\n\r\n", LEG_BROKEN, 0, false, 0, NULL,
         "", "the answer has a folded header line"},
        {"a space before the colon", "HTTP/1.1 200 OK\r\nX : a\r\nContent-Length: 0\r\n\r\n", LEG_BROKEN, 0, false, 0,
         NULL, "", "the answer has an invalid header line"},
        {"lengths that differ", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", LEG_BROKEN, 0,
         false, 0, NULL, "", "the answer has more than one Content-Length"},
        {"the same length twice", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab", LEG_BROKEN, 0,
         false, 0, NULL, "", "the answer has more than one Content-Length"},
        {"a length and chunks",
         "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n", LEG_BROKEN,
         0, false, 0, NULL, "", "the answer has both a Transfer-Encoding and a Content-Length"},
        {"a coding that nobody asked for", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
         LEG_BROKEN, 0, false, 0, NULL, "", "the answer has a Transfer-Encoding other than chunked",
         "Unsolicited Transfer-Encoding (gzip) found"},
        {"protocols are not switched", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", LEG_BROKEN, 0, false,
         0, NULL, "", "the upstream switched protocols unasked"},
        {"nothing", "", LEG_NO_ANSWER, 0, false, 0, NULL, "", NULL},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(answer_and_close, rows[r].answer);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        print_message("  %s\n", rows[r].name);
        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, rows[r].outcome);
        assert_int_equal(probe.heads, rows[r].status > 0);
        assert_int_equal(probe.result.head_seen, rows[r].status > 0);
        assert_int_equal(probe.status, rows[r].status);
        assert_int_equal(probe.result.close_delimited, rows[r].close_delimited);
        assert_body(&probe, rows[r].body);
        if (rows[r].fields) {
            assert_int_equal(probe.length, rows[r].length);
            assert_fields(&probe, rows[r].fields);
        }
        if (!rows[r].detail)
            assert_true(probe.detail[0]);
        else if (transport == UPSTREAM_DIRECT || !rows[r].library_detail ||
                 strcmp(probe.detail, rows[r].library_detail) != 0)
            assert_string_equal(probe.detail, rows[r].detail);
        upstream_close(upstream);
        probe_clear(&probe);
        peer_free(peer);
    }
}

/* The text byte by byte. */
static void answer_slowly(struct peer *peer)
{
    int on = 1;

    if (!peer_accept(peer) || !peer_request(peer))
        return;
    setsockopt(peer->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    for (size_t i = 0; i < peer->size; i++) {
        peer_send_bytes(peer, peer->text + i, 1);
        usleep(100);
    }
}

static void an_answer_is_the_same_in_any_pieces(void **state)
{
    struct peer *peer = peer_start(
        answer_slowly, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
                       "5\r\nhello\r\n1;x=y\r\n!\r\n0\r\nT: 1\r\n\r\n");
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {0};

    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_fields(&probe, "A=b;Transfer-Encoding=chunked;");
    assert_body(&probe, "hello!");
    probe_clear(&probe);
    peer_free(peer);
}

static void a_head_is_refused_beyond_64_kib(void **state)
{
    for (int over = 0; over < 2; over++) {
        struct buffer answer = {0};
        size_t room = 65536 - strlen("HTTP/1.1 200 OK\r\n") - strlen("\r\n");

        assert_true(buffer_append_text(&answer, "HTTP/1.1 200 OK\r\n"));
        for (; room >= 2048; room -= 1024)
            assert_true(buffer_printf(&answer, "X: %01019d\r\n", 1));
        assert_true(buffer_printf(&answer, "Y: %0*d\r\n\r\n", (int)room - 5 + over, 1));
        assert_true(buffer_append(&answer, "", 1));
        assert_int_equal(answer.size - 1, 65536 + over);

        struct peer *peer = peer_start(answer_and_close, answer.data);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        probe_start(&probe, *state, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, over ? LEG_BROKEN : LEG_COMPLETE);
        if (over)
            assert_string_equal(probe.detail, "the head of the answer is larger than 64 KiB");
        probe_clear(&probe);
        peer_free(peer);
        buffer_release(&answer);
    }
}

static void reset_after_the_text(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, peer->text);
    peer_await_stage(peer, 1);
    peer_reset(peer);
}

static void a_reset_is_no_answer_before_the_first_byte_and_broken_after(void **state)
{
    static const char *const rows[] = {"", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab",
                                       "HTTP/1.1 200 OK\r\n\r\nab"};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(reset_after_the_text, rows[r]);
        struct upstream *upstream = open_peer(*state, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        probe_start(&probe, *state, upstream, &request);
        if (r > 0)
            TURN_UNTIL((struct world *)*state, probe.datas);
        peer->stage = 1;
        finish(&probe);
        assert_int_equal(probe.result.outcome, r == 0 ? LEG_NO_ANSWER : LEG_BROKEN);
        probe_clear(&probe);
        peer_free(peer);
    }
}

/* Answers when a little of the body has come. */
static void answer_early(struct peer *peer)
{
    if (!peer_accept(peer))
        return;
    do {
        if (!peer_receive(peer))
            return;
        peer->log[peer->logged] = 0;
    } while (!strstr(peer->log, "\r\n\r\nab"));
    peer_await_stage(peer, 1);
    peer_send(peer, peer->text);
    peer_await_stage(peer, 2); /* without reading on */
    peer_await_eof(peer);
}

static void an_early_answer_to_an_unfinished_upload_is_an_answer(void **state)
{
    static const char *const rows[] = {"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno",
                                       "HTTP/1.1 413 Too Large\r\nConnection: close\r\nContent-Length: 2\r\n\r\nno"};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int streamed = 0; streamed < 2; streamed++) {
            struct peer *peer = peer_start(answer_early, rows[r]);
            struct upstream *upstream = open_peer(*state, peer);
            char *data = pattern_new(20 << 20);
            coord_slice piece = {data, 20 << 20};
            struct leg_request request = {.method = COORD_SLICE("POST"),
                                          .target = COORD_SLICE("/"),
                                          .pieces = &piece,
                                          .piece_count = 1,
                                          .body_size = 20 << 20,
                                          .has_body = true};
            struct probe probe = {.on_upload = upload_haltingly};

            if (streamed) {
                request = get("/");
                request.method = (coord_slice)COORD_SLICE("PUT");
                request.streamed = request.has_body = true;
                request.stream_length = 1000;
            }
            memcpy(data, "ab", 2);
            probe_start(&probe, *state, upstream, &request);
            turn_for(*state, 20); /* the upload has come to a halt, one way or the other */
            peer->stage = 1;
            finish(&probe);
            peer->stage = 2;
            assert_int_equal(probe.status, 413);
            assert_body(&probe, "no");
            assert_int_equal(probe.result.outcome, LEG_COMPLETE);
            peer_join(peer); /* it saw the end: the connection is not kept */
            upstream_close(upstream);
            probe_clear(&probe);
            peer_free(peer);
            free(data);
        }
    }
}

/* Connections */

/* Answers the first request; reads the second and then ends the connection as `text` says; answers what comes on others. */
static void die_on_the_second_request(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
    if (!peer_request(peer))
        return;
    if (peer->text)
        peer_reset(peer);
    while (readable(peer->listener, 100) && peer_accept(peer))
        while (peer_request(peer))
            peer_send(peer, OK_ANSWER);
}

static void a_request_is_never_sent_twice(void **state)
{
    static const struct {
        const char *name, *how;
        size_t body;
    } rows[] = {{"closed", NULL, 0},
                {"reset", "reset", 0},
                {"closed, with a body", NULL, 1000},
                {"closed, with a large body", NULL, 200000}};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer = peer_start(die_on_the_second_request, rows[r].how);
        struct upstream *upstream = open_peer(*state, peer);
        char *data = pattern_new(rows[r].body);
        coord_slice piece = {data, rows[r].body};
        struct leg_request request = {.method = COORD_SLICE("POST"),
                                      .target = COORD_SLICE("/"),
                                      .pieces = &piece,
                                      .piece_count = rows[r].body > 0,
                                      .body_size = rows[r].body,
                                      .has_body = true};
        struct probe first = {0}, second = {0};
        size_t once;

        print_message("  %s\n", rows[r].name);
        probe_start(&first, *state, upstream, &request);
        finish(&first);
        assert_int_equal(first.result.outcome, LEG_COMPLETE);
        once = peer->logged; /* it waits for the next */
        if (r == 0 && !rows[r].how)
            peer->text = NULL;
        probe_start(&second, *state, upstream, &request);
        finish(&second);
        assert_int_equal(second.result.outcome, LEG_NO_ANSWER);
        assert_int_equal(second.heads, 0);
        assert_true(second.detail[0]);
        peer_join(peer);
        assert_int_equal(peer->logged, 2 * once);
        upstream_close(upstream);
        probe_clear(&first);
        probe_clear(&second);
        peer_free(peer);
        free(data);
    }
}

static void run_leg(struct world *world, struct upstream *upstream, bool fresh, bool reused)
{
    struct leg_request request = get("/");
    struct probe probe = {0};

    request.fresh = fresh;
    probe_start(&probe, world, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.reused, reused);
    probe_clear(&probe);
}

/* Serves many connections at once, one request after the other, until told to stop. */
static void serve_many(struct peer *peer)
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

static void stop_peer(struct peer *peer)
{
    peer->stage = 1;
    peer_free(peer);
}

static void a_fresh_leg_uses_no_kept_connection(void **state)
{
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(*state, peer);

    run_leg(*state, upstream, false, false);
    run_leg(*state, upstream, false, true);
    run_leg(*state, upstream, true, false);
    run_leg(*state, upstream, false, true);
    assert_int_equal(peer->connections, 2);
    stop_peer(peer);
}

static void a_connection_that_was_idle_for_too_long_is_not_used_again(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    char url[64];
    const char *reason;
    struct upstream_options options = {.transport = transport, .max_idle_connections = 8, .idle_age_ns = 1000 * MS};
    struct upstream *upstream;

    snprintf(url, sizeof url, "http://127.0.0.1:%d", peer->port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    run_leg(world, upstream, false, false);
    turn_for(world, 1100);
    if (transport == UPSTREAM_DIRECT)
        assert_int_equal(client_connections(world->client), 0); /* … and closed when its time is over */
    run_leg(world, upstream, false, false);
    options.max_idle_connections = 0; /* none is kept at all */
    upstream = upstream_open(world->client, &options, &reason);
    turn_for(world, 1100);
    run_leg(world, upstream, false, false);
    run_leg(world, upstream, false, false);
    stop_peer(peer);
}

static void answer_then_close_idle(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
    peer_await_stage(peer, 1);
    close(peer->fd);
    peer->fd = -1;
    peer->stage = 2;
    if (peer_accept(peer) && peer_request(peer))
        peer_send(peer, OK_ANSWER);
}

static void a_kept_connection_that_the_peer_closes_neither_spins_nor_fails_the_next_leg(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(answer_then_close_idle, NULL);
    struct upstream *upstream = open_peer(world, peer);
    unsigned turns;

    run_leg(world, upstream, false, false);
    peer->stage = 1;
    TURN_UNTIL(world, peer->stage == 2);
    turns = world->turns;
    turn_for(world, 50);
    assert_in_range(world->turns - turns, 1, 10);
    run_leg(world, upstream, false, false);
    peer_free(peer);
}

static void answer_then_say_more(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
    peer_await_stage(peer, 1);
    peer_send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
    peer->stage = 2;
    if (peer_accept(peer) && peer_request(peer))
        peer_send(peer, OK_ANSWER);
}

/* Ours only: libcurl (7.88) takes such bytes for the next answer. */
static void a_kept_connection_on_which_the_peer_speaks_unasked_is_not_used_again(void **state)
{
    struct world *world = *state;
    struct peer *peer;
    struct upstream *upstream;
    struct leg_request request = get("/");
    struct probe probe = {0};

    if (transport != UPSTREAM_DIRECT) {
        print_message("SKIP: libcurl (7.88) takes such bytes for the next answer\n");
        skip();
    }
    peer = peer_start(answer_then_say_more, NULL);
    upstream = open_peer(world, peer);
    run_leg(world, upstream, false, false);
    peer->stage = 1;
    TURN_UNTIL(world, peer->stage == 2 && client_connections(world->client) == 0); /* noticed at once */
    probe_start(&probe, world, upstream, &request);
    finish(&probe);
    assert_false(probe.reused);
    assert_body(&probe, "ok");
    probe_clear(&probe);
    peer_free(peer);
}

static int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void freeing_the_client_closes_its_kept_connections(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probes[5] = {0};
    int before;

    client_free(world->client);
    before = open_descriptors();
    world->client = client_new(world->reactor, world->resolver);
    upstream = open_peer(world, peer);
    for (size_t i = 0; i < 5; i++)
        probe_start(&probes[i], world, upstream, &request);
    assert_int_equal(client_legs(world->client), 5);
    for (size_t i = 0; i < 5; i++)
        finish(&probes[i]);
    assert_int_equal(client_connections(world->client), 5);
    stop_peer(peer);
    client_free(world->client);
    assert_true(open_descriptors() <= before);
    world->client = NULL;
    for (size_t i = 0; i < 5; i++)
        probe_clear(&probes[i]);
    world->client = client_new(world->reactor, world->resolver);
}

static void idle_connections_are_kept_up_to_the_limit_while_more_are_busy(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probes[20] = {0};

    for (int round = 0; round < 2; round++) {
        for (size_t i = 0; i < 20; i++)
            probe_start(&probes[i], world, upstream, &request);
        for (size_t i = 0; i < 20; i++)
            finish(&probes[i]);
        for (size_t i = 0; i < 20; i++)
            probe_clear(&probes[i]);
        assert_in_range(client_connections(world->client), 8, 10);
    }
    stop_peer(peer);
}

/* Upstreams */

static void upstreams_are_shared_by_equal_options_and_refused_with_a_reason(void **state)
{
    static const struct {
        const char *url, *authority, *prefix; /* NULL: refused */
    } rows[] = {
        {"http://127.0.0.1:80", "127.0.0.1:80", ""},
        {"http://h", "h", ""},
        {"HTTP://h:1/", "h:1", ""},
        {"https://h:1/a/b/", "h:1", "/a/b"},
        {"http://[::1]:8000/v1", "[::1]:8000", "/v1"},
        {"http://h/a/../b", "h", "/a/../b"},
        {"", NULL, NULL},
        {"h:80", NULL, NULL},
        {"ftp://h", NULL, NULL},
        {"file:///etc/passwd", NULL, NULL},
        {"http://", NULL, NULL},
        {"http:///x", NULL, NULL},
        {"http://u:p@h", NULL, NULL},
        {"http://h?x", NULL, NULL},
        {"http://h/#x", NULL, NULL},
        {"http://h:99999", NULL, NULL},
        {"http://h h", NULL, NULL},
        {"http://h\r\nx", NULL, NULL},
        {"http://h\xc3\xa9", NULL, NULL},
    };
    struct world *world = *state;

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char *copy = strdup(rows[r].url); /* the options are not kept by reference */
        struct upstream_options options = {
            .url = coord_slice_of(copy), .max_idle_connections = 1, .idle_age_ns = 4000 * MS};
        const char *reason = NULL;
        struct upstream *one = upstream_open(world->client, &options, &reason), *two, *three;

        print_message("  %s: %s\n", rows[r].url, one ? "taken" : reason);
        if (!rows[r].authority) {
            assert_null(one);
            assert_non_null(reason);
            free(copy);
            continue;
        }
        two = upstream_open(world->client, &options, &reason);
        options.idle_age_ns = 3000 * MS;
        three = upstream_open(world->client, &options, &reason);
        memset(copy, 'x', strlen(copy));
        free(copy);
        assert_ptr_equal(one, two);
        assert_ptr_not_equal(one, three);
        upstream_close(two);
        assert_true(coord_slice_is(upstream_authority(one), rows[r].authority));
        assert_true(coord_slice_is(upstream_prefix(one), rows[r].prefix));
        upstream_close(one);
        upstream_close(three);
    }
    upstream_close(NULL);
    client_free(NULL);
}

static void the_direct_transport_is_refused_for_https(void **state)
{
    struct world *world = *state;
    struct upstream_options options = {.transport = UPSTREAM_DIRECT, .url = COORD_SLICE("https://h")};
    const char *reason = NULL;

    assert_null(upstream_open(world->client, &options, &reason));
    assert_string_equal(reason, "the direct transport speaks no TLS: an https URL needs libcurl");
    options.transport = UPSTREAM_AUTO;
    assert_non_null(upstream_open(world->client, &options, &reason));
}

static void an_unreadable_file_is_refused(void **state)
{
    struct world *world = *state;
    struct upstream_options options = {.url = COORD_SLICE("https://h"), .ca_file = COORD_SLICE("/nowhere/ca.pem")};
    const char *reason = NULL;

    assert_null(upstream_open(world->client, &options, &reason));
    assert_string_equal(reason, "cannot read /nowhere/ca.pem: No such file or directory");
}

/* Pausing */

/* Sends a head and then `size` bytes of pattern in chunks of odd sizes. */
static void stream_pattern(struct peer *peer)
{
    char *data = pattern_new(peer->size), head[32];
    size_t at = 0, part = 1;

    if (peer_accept(peer) && peer_request(peer)) {
        peer_send(peer, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        for (; at < peer->size; at += part, part = part * 7 % 30011 + 1) {
            if (part > peer->size - at)
                part = peer->size - at;
            snprintf(head, sizeof head, "%zx\r\n", part);
            peer_send(peer, head);
            peer_send_bytes(peer, data + at, part);
            peer_send(peer, "\r\n");
        }
        peer_send(peer, "0\r\n\r\n");
    }
    free(data);
}

static struct peer *peer_streaming(size_t size)
{
    struct peer *peer = peer_new(stream_pattern);

    peer->size = size;
    peer_begin(peer);
    return peer;
}

static void pause_sometimes(struct probe *probe)
{
    if (probe->datas % 3 == 0)
        leg_pause(probe->leg);
    if (probe->datas % 6 == 0)
        leg_resume(probe->leg);
    if (probe->datas % 12 == 0)
        leg_pause(probe->leg);
}

static void pausing_and_resuming_at_any_time_loses_and_repeats_nothing(void **state)
{
    enum { SIZE = 3000000 };
    char *want = pattern_new(SIZE);
    struct peer *peer = peer_streaming(SIZE);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_head = pause_sometimes, .on_data = pause_sometimes};
    unsigned seed = 3;

    probe_start(&probe, *state, upstream, &request);
    for (int64_t end = now_ns() + PATIENCE_MS * MS; !probe.ends;) {
        assert_true(now_ns() < end);
        turn(*state, 0);
        seed = seed * 1103515245 + 12345;
        if (!probe.ends && (seed >> 16) % 3 == 0)
            leg_pause(probe.leg);
        if (!probe.ends && (seed >> 16) % 4 > 0)
            probe_resume(&probe);
    }
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.body.size, SIZE);
    assert_memory_equal(probe.body.data, want, SIZE);
    assert_in_range(probe.largest, 1, 65536);
    free(want);
    probe_clear(&probe);
    peer_free(peer);
}

static void pause_now(struct probe *probe) { leg_pause(probe->leg); }

static void a_paused_leg_holds_its_peer_back_and_uses_no_time(void **state)
{
    enum { SIZE = 30000000 };
    struct world *world = *state;
    struct peer *peer = peer_streaming(SIZE);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_data = pause_now};
    unsigned turns;
    size_t held;

    request.idle_timeout_ns = 1000 * MS; /* does not count meanwhile */
    probe_start(&probe, world, upstream, &request);
    TURN_UNTIL(world, probe.datas);
    turn_for(world, 20);
    held = probe.body.size;
    assert_in_range(held, 1, 65536);
    turns = world->turns;
    turn_for(world, 1100);
    assert_in_range(world->turns - turns, 1, 10);
    assert_int_equal(probe.body.size, held);
    assert_int_equal(probe.ends, 0);
    probe.on_data = NULL;
    probe_resume(&probe);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.body.size, SIZE);
    probe_clear(&probe);
    peer_free(peer);
}

static void a_leg_paused_in_its_head_gets_no_data(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_head = pause_now}, early = {0};

    probe_start(&probe, world, upstream, &request);
    TURN_UNTIL(world, probe.heads);
    turn_for(world, 20);
    assert_int_equal(probe.datas + probe.ends, 0);
    probe_resume(&probe);
    finish(&probe);
    assert_body(&probe, "ok");
    probe_start(&early, world, upstream, &request);
    leg_pause(early.leg); /* before anything was sent */
    turn_for(world, 20);
    assert_int_equal(early.heads, 1);
    assert_int_equal(early.datas + early.ends, 0);
    probe_resume(&early);
    finish(&early);
    assert_body(&early, "ok");
    close_client(state);
    probe_clear(&probe);
    probe_clear(&early);
    peer_free(peer);
}

/* Waits to be told, then answers with `text`. */
static void answer_when_told(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer->stage = 1;
    peer_await_stage(peer, 2);
    peer_send(peer, peer->text);
}

static void a_leg_paused_while_it_waits_gets_its_head_and_no_data(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(answer_when_told, "HTTP/1.1 200 OK\r\nA: 1\r\nB: 2\r\nContent-Length: 2\r\n\r\nok");
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {0};

    probe_start(&probe, world, upstream, &request);
    TURN_UNTIL(world, peer->stage == 1);
    leg_pause(probe.leg);
    turn(world, 0);
    peer->stage = 2;
    TURN_UNTIL(world, probe.heads);
    turn_for(world, 20);
    assert_int_equal(probe.datas + probe.ends, 0);
    probe_resume(&probe);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_fields(&probe, "A=1;B=2;Content-Length=2;");
    assert_body(&probe, "ok");
    probe_clear(&probe);
    peer_free(peer);
}

static void a_peer_that_ends_during_a_pause_is_noticed_on_resuming_without_a_spin(void **state)
{
    static const enum leg_outcome outcomes[] = {LEG_COMPLETE, LEG_BROKEN};
    static const char *const answers[] = {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nabcd",
                                          "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabcd"};

    for (size_t r = 0; r < 2; r++) {
        struct world *world = *state;
        struct peer *peer = peer_start(r ? reset_after_the_text : answer_and_close, answers[r]);
        struct upstream *upstream = open_peer(world, peer);
        struct leg_request request = get("/");
        struct probe probe = {.on_head = pause_now};
        unsigned turns;

        probe_start(&probe, world, upstream, &request);
        TURN_UNTIL(world, probe.heads);
        peer->stage = 1;
        peer_join(peer);
        turns = world->turns;
        turn_for(world, 50);
        assert_in_range(world->turns - turns, 0, 10);
        probe_resume(&probe);
        finish(&probe);
        assert_int_equal(probe.result.outcome, outcomes[r]);
        assert_body(&probe, "abcd");
        probe_clear(&probe);
        peer_free(peer);
    }
}

/* Cancelling, and what else an owner may do in an event */

/* Answers with `text`, then waits for the end. */
static void answer_and_await_eof(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer->stage = 1;
    peer_send(peer, peer->text);
    peer_await_eof(peer);
}

static const char ENDLESS[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n";

static void cancel_now(struct probe *probe) { probe_cancel(probe); }

static void cancel_other(struct probe *probe)
{
    if (probe->other->memory)
        probe_cancel(probe->other);
}

static void a_cancelled_leg_is_silent_and_its_peer_sees_the_end_at_once(void **state)
{
    static const struct {
        const char *name, *answer;
        int heads;
    } rows[] = {
        {"before the head", "", 0}, {"in mid-head", "HTTP/1.1 200 OK\r\nX: ", 0}, {"in mid-stream", ENDLESS, 1}};

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        for (int paused = 0; paused < 2; paused++) {
            struct world *world = *state;
            struct peer *peer = peer_start(answer_and_await_eof, rows[r].answer);
            struct upstream *upstream = open_peer(world, peer);
            struct leg_request request = get("/");
            struct probe probe = {0};
            int64_t cancelled;

            print_message("  %s%s\n", rows[r].name, paused ? ", paused" : "");
            probe_start(&probe, world, upstream, &request);
            TURN_UNTIL(world, peer->stage == 1 && probe.datas == rows[r].heads);
            if (paused)
                leg_pause(probe.leg);
            turn_for(world, 5);
            cancelled = now_ns();
            probe_cancel(&probe);
            peer_join(peer); /* with no turn of ours */
            assert_in_range(peer->eof_ns - cancelled, 0, 1000 * MS);
            assert_int_equal(client_legs(world->client), 0);
            assert_int_equal(client_connections(world->client), 0);
            turn_for(world, 5);
            probe_clear(&probe);
            peer_free(peer);
        }
    }
}

static void a_leg_that_was_only_started_can_be_cancelled(void **state)
{
    struct world *world = *state;
    struct upstream *upstream = open_named(world, "127.0.0.1", 1);
    struct leg_request request = get("/");
    struct probe probe = {0}, other = {0};

    probe_start(&probe, world, upstream, &request);
    probe_start(&other, world, upstream, &request);
    probe_cancel(&probe);
    upstream_close(upstream); /* it lives as long as its legs */
    finish(&other);
    assert_int_equal(other.result.outcome, LEG_REFUSED);
    probe_clear(&probe);
    probe_clear(&other);
}

static void a_leg_may_be_cancelled_in_its_own_events(void **state)
{
    for (int in_data = 0; in_data < 2; in_data++) {
        struct world *world = *state;
        struct peer *peer = peer_start(answer_and_await_eof, ENDLESS);
        struct upstream *upstream = open_peer(world, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};

        *(in_data ? &probe.on_data : &probe.on_head) = cancel_now;
        probe_start(&probe, world, upstream, &request);
        TURN_UNTIL(world, peer->eof_ns);
        assert_int_equal(probe.datas, in_data);
        assert_int_equal(client_connections(world->client), 0);
        upstream_close(upstream);
        probe_clear(&probe);
        peer_free(peer);
    }
}

static void a_leg_may_be_cancelled_in_the_events_of_another(void **state)
{
    struct world *world = *state;

    for (int when = 0; when < 3; when++) {
        struct peer *victim = peer_start(answer_and_await_eof, ENDLESS),
                    *killer = peer_start(answer_and_close, OK_ANSWER);
        struct upstream *upstreams[2] = {open_peer(world, victim), open_peer(world, killer)};
        struct leg_request request = get("/");
        struct probe probes[2] = {{0}, {0}};

        probes[1].other = &probes[0];
        *(when == 0 ? &probes[1].on_head : when == 1 ? &probes[1].on_data : &probes[1].on_end) = cancel_other;
        for (size_t i = 0; i < 2; i++)
            probe_start(&probes[i], world, upstreams[i], &request);
        finish(&probes[1]);
        assert_int_equal(probes[1].result.outcome, LEG_COMPLETE);
        assert_null(probes[0].memory);
        TURN_UNTIL(world, victim->eof_ns);
        probe_clear(&probes[0]);
        probe_clear(&probes[1]);
        peer_free(victim);
        peer_free(killer);
    }
}

static void start_other(struct probe *probe)
{
    struct leg_request request = get("/other");

    if (!probe->other->world)
        probe_start(probe->other, probe->world, probe->upstream, &request);
}

static void a_leg_may_be_started_in_the_events_of_another(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);

    for (int when = 0; when < 3; when++) {
        struct leg_request request = get("/");
        struct probe probe = {0}, other = {0};

        probe.other = &other;
        *(when == 0 ? &probe.on_head : when == 1 ? &probe.on_data : &probe.on_end) = start_other;
        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        finish(&other);
        assert_int_equal(other.result.outcome, LEG_COMPLETE);
        if (when == 2)
            assert_true(other.reused);
        probe_clear(&probe);
        probe_clear(&other);
    }
    stop_peer(peer);
}

static void many_legs_are_cancelled_and_ended_at_random_without_harm(void **state)
{
    enum { LEGS = 8, ROUNDS = 40 };
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    struct upstream *upstream = open_peer(world, peer);
    unsigned seed = 11;

    for (int round = 0; round < ROUNDS; round++) {
        struct leg_request request = get("/");
        struct probe probes[LEGS] = {0};

        for (size_t i = 0; i < LEGS; i++) {
            probe_start(&probes[i], world, upstream, &request);
            probes[i].other = &probes[(i * 5 + 1) % (LEGS)];
            seed = seed * 1103515245 + 12345;
            if ((seed >> 16) % 5 == 0)
                probes[i].on_data = cancel_other;
            if ((seed >> 16) % 7 == 0)
                probes[i].on_head = cancel_now;
        }
        TURN_UNTIL(world, client_legs(world->client) == 0);
        turn(world, 0);
        for (size_t i = 0; i < LEGS; i++)
            probe_clear(&probes[i]);
    }
    stop_peer(peer);
}

/* Deadlines */

static void say_nothing(struct peer *peer)
{
    if (peer_accept(peer))
        peer_await_eof(peer);
}

static void answer_after_the_upload(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, OK_ANSWER);
}

static void each_deadline_has_an_outcome_of_its_own(void **state)
{
    static const struct {
        const char *name;
        script_fn *script;
        const char *text;
        int head_ms, idle_ms, total_ms;
        enum leg_outcome outcome;
        const char *detail;
    } rows[] = {
        {"no head", say_nothing, NULL, 40, 5000, 5000, LEG_HEAD_TIMEOUT, "no head of an answer within 0.04 s"},
        {"an interim head is no head", answer_and_await_eof, "HTTP/1.1 100 Continue\r\n\r\n", 40, 20, 5000,
         LEG_HEAD_TIMEOUT, "no head of an answer within 0.04 s"},
        {"a gap", answer_and_await_eof, ENDLESS, 5000, 40, 5000, LEG_IDLE_TIMEOUT,
         "nothing more of the answer within 0.04 s"},
        {"no first byte", answer_and_await_eof, "HTTP/1.1 200 OK\r\n\r\n", 5000, 40, 5000, LEG_IDLE_TIMEOUT,
         "nothing more of the answer within 0.04 s"},
        {"in all, before the head", say_nothing, NULL, 5000, 5000, 40, LEG_TOTAL_TIMEOUT,
         "the answer was not complete within 0.04 s"},
        {"in all, in mid-stream", answer_and_await_eof, ENDLESS, 5000, 5000, 40, LEG_TOTAL_TIMEOUT,
         "the answer was not complete within 0.04 s"},
    };

    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct world *world = *state;
        struct peer *peer = peer_start(rows[r].script, rows[r].text);
        struct upstream *upstream = open_peer(world, peer);
        struct leg_request request = get("/");
        struct probe probe = {0};
        int64_t begun = now_ns();

        print_message("  %s\n", rows[r].name);
        request.head_timeout_ns = rows[r].head_ms * MS;
        request.idle_timeout_ns = rows[r].idle_ms * MS;
        request.total_timeout_ns = rows[r].total_ms * MS;
        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, rows[r].outcome);
        assert_string_equal(probe.detail, rows[r].detail);
        assert_in_range(probe.ended_ns - begun, 39 * MS, 4000 * MS);
        peer_join(peer);
        assert_true(peer->eof_ns > 0); /* it saw the end */
        upstream_close(upstream);
        probe_clear(&probe);
        peer_free(peer);
    }
}

static void trickle(struct peer *peer)
{
    if (!peer_accept(peer) || !peer_request(peer))
        return;
    peer_send(peer, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n");
    for (int i = 0; i < 10; i++) {
        usleep(120000);
        peer_send(peer, "x");
    }
}

static void a_stream_that_moves_outlives_every_deadline_but_the_total(void **state)
{
    struct peer *peer = peer_start(trickle, NULL);
    struct upstream *upstream = open_peer(*state, peer);
    struct leg_request request = get("/");
    struct probe probe = {0};

    request.head_timeout_ns = request.idle_timeout_ns = 1000 * MS;
    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(probe.body.size, 10);
    probe_clear(&probe);
    peer_free(peer);
}

static size_t upload_one_letter(struct probe *probe, char *room, size_t size)
{
    (void)size;
    if (probe->uploads % 2 == 0)
        return 0;
    *room = 'a';
    return 1;
}

static void the_time_to_the_head_counts_from_the_end_of_the_upload(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(answer_after_the_upload, NULL);
    struct upstream *upstream = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {.on_upload = upload_one_letter};

    request.method = (coord_slice)COORD_SLICE("PUT");
    request.streamed = request.has_body = true;
    request.stream_length = 2;
    request.head_timeout_ns = 600 * MS;
    probe_start(&probe, world, upstream, &request);
    for (int i = 0; i < 2 && !probe.ends; i++) { /* each letter takes longer than the head may */
        turn_for(world, 650);
        if (!probe.ends)
            leg_upload_more(probe.leg);
    }
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    probe_clear(&probe);
    peer_free(peer);
}

/* A listener whose queue is full takes no connection and refuses none. */
static void a_connection_that_does_not_come_has_its_deadline(void **state)
{
    struct world *world = *state;
    int listener = listen_on("127.0.0.1", 0, 0), port = port_of(listener), fillers[8];
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    char url[64];
    const char *reason;
    struct upstream_options options = {.transport = transport, .connect_timeout_ns = 1000 * MS};
    struct leg_request request = get("/");
    struct probe probe = {0}, cancelled = {0};
    struct upstream *upstream;

    for (size_t i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(fillers[i], (struct sockaddr *)&name, sizeof name))
            assert_int_equal(errno, EINPROGRESS);
    }
    snprintf(url, sizeof url, "http://127.0.0.1:%d", port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    probe_start(&probe, world, upstream, &request);
    probe_start(&cancelled, world, upstream, &request);
    turn_for(world, 10);
    assert_int_equal(client_connections(world->client), 2);
    probe_cancel(&cancelled);
    assert_int_equal(client_connections(world->client), 1);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_CONNECT_TIMEOUT);
    assert_string_equal(probe.detail, "no connection within 1 s");
    assert_int_equal(client_connections(world->client), 0);
    for (size_t i = 0; i < 8; i++)
        close(fillers[i]);
    close(listener);
    probe_clear(&probe);
    probe_clear(&cancelled);
}

static void a_refused_connection_says_where(void **state)
{
    int listener = listen_on("127.0.0.1", 0, 1), port = port_of(listener);
    struct upstream *upstream = open_named(*state, "127.0.0.1", port);
    struct leg_request request = get("/");
    struct probe probe = {0};
    char want[64];

    close(listener);
    snprintf(want, sizeof want, "127.0.0.1:%d: Connection refused", port);
    probe_start(&probe, *state, upstream, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_REFUSED);
    assert_string_equal(probe.detail, want);
    probe_clear(&probe);
}

static void proxies_of_the_environment_are_ignored(void **state)
{
    static const char *const names[] = {"http_proxy",  "HTTP_PROXY", "https_proxy",
                                        "HTTPS_PROXY", "all_proxy",  "ALL_PROXY"};
    struct peer *peer = peer_start(serve_one_connection, NULL);
    struct upstream *upstream = open_peer(*state, peer);

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        setenv(names[i], "http://127.0.0.1:1", 1);
    run_leg(*state, upstream, false, false);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    close_client(state);
    peer_free(peer);
}

/* Names: a name server of one file's worth. */

struct names {
    pthread_t thread;
    int fd;
    _Atomic bool stop;
    _Atomic int move; /* the last byte of moving.test's address */
    _Atomic int asked;
};

static struct names names;

/* "silent…" gets no answer, "gone…" does not exist, the others have the addresses 127.0.0.x below. */
static size_t answer_name(const unsigned char *question, size_t size, unsigned char *answer)
{
    const char *first = (const char *)question + 13;
    unsigned char hosts[3] = {3, 2, 1}, count = 3;
    size_t at = 12;

    while (at < size && question[at])
        at += question[at] + 1u;
    if (at + 5 > size)
        return 0;
    at += 5;
    names.asked++;
    if (strncmp(first, "silent", 6) == 0)
        return 0;
    if (strncmp(first, "moving", 6) == 0) {
        hosts[0] = (unsigned char)names.move;
        count = 1;
    }
    if (strncmp(first, "pair", 4) == 0) {
        hosts[0] = 2;
        hosts[1] = 1;
        count = 2;
    }
    memcpy(answer, question, at);
    memcpy(answer + 2, "\x81\x80\0\1\0\0\0\0\0\0", 10);
    if (strncmp(first, "gone", 4) == 0) {
        answer[3] = 0x83;
        return at;
    }
    if (question[at - 3] != 1) /* not an A */
        return at;
    answer[7] = count;
    for (size_t i = 0; i < count; i++) {
        memcpy(answer + at, "\xc0\x0c\0\1\0\1\0\0\0\1\0\4\x7f\0\0", 15);
        answer[at + 15] = hosts[i];
        at += 16;
    }
    return at;
}

static void *serve_names(void *unused)
{
    unsigned char question[512], answer[1024];
    struct sockaddr_in from;

    (void)unused;
    while (!names.stop) {
        socklen_t size = sizeof from;
        ssize_t got;
        size_t filled;

        if (!readable(names.fd, 5))
            continue;
        got = recvfrom(names.fd, question, sizeof question, 0, (struct sockaddr *)&from, &size);
        filled = got > 17 ? answer_name(question, (size_t)got, answer) : 0;
        if (filled)
            sendto(names.fd, answer, filled, 0, (struct sockaddr *)&from, size);
    }
    return NULL;
}

static int start_with_names(void **state)
{
    struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct world *world = calloc(1, sizeof *world);
    char server[32];

    names.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(names.fd, (struct sockaddr *)&name, sizeof name), 0);
    names.stop = false;
    names.move = 1;
    assert_int_equal(pthread_create(&names.thread, NULL, serve_names, NULL), 0);
    snprintf(server, sizeof server, "127.0.0.1:%d", port_of(names.fd));
    world->reactor = reactor_new(0);
    world->resolver = resolver_new(world->reactor, server);
    world->client = client_new(world->reactor, world->resolver);
    assert_true(world->reactor && world->resolver && world->client);
    *state = world;
    return 0;
}

static int stop_with_names(void **state)
{
    names.stop = true;
    pthread_join(names.thread, NULL);
    close(names.fd);
    return stop(state);
}

static int thread_count(void)
{
    DIR *folder = opendir("/proc/self/task");
    int count = 0;

    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

static void all_addresses_of_a_name_are_tried_and_no_thread_is_started(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL); /* on the last of three addresses */
    struct upstream *upstream = open_named(world, "Three.test", peer->port),
                    *dotted = open_named(world, "three.test.", peer->port);
    int threads = thread_count();
    struct leg_request request = get("/");
    struct probe probe = {0};

    run_leg(world, upstream, false, false);
    assert_int_equal(thread_count(), threads);
    run_leg(world, upstream, false, true);
    run_leg(world, upstream, true, false);
    probe_start(&probe, world, dotted, &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_COMPLETE);
    assert_int_equal(thread_count(), threads);
    probe_clear(&probe);
    stop_peer(peer);
}

static void the_next_address_is_tried_when_the_first_does_not_answer(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    int silent = listen_on("127.0.0.2", peer->port, 0), fillers[8];
    struct sockaddr_in name = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)peer->port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1)};
    char url[64];
    const char *reason;
    struct upstream_options options = {
        .transport = transport, .max_idle_connections = 1, .idle_age_ns = 4000 * MS, .connect_timeout_ns = 1500 * MS};
    struct upstream *upstream;

    assert_true(silent >= 0);
    for (size_t i = 0; i < 8; i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        connect(fillers[i], (struct sockaddr *)&name, sizeof name);
    }
    snprintf(url, sizeof url, "http://pair.test:%d", peer->port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    run_leg(world, upstream, false, false);
    run_leg(world, upstream, false, true);
    assert_int_equal(client_connections(world->client), 1);
    for (size_t i = 0; i < 8; i++)
        close(fillers[i]);
    close(silent);
    stop_peer(peer);
}

static void a_name_without_an_address_is_unresolved(void **state)
{
    struct world *world = *state;
    struct upstream *upstream = open_named(world, "gone.test", 80);
    struct leg_request request = get("/");

    for (int known = 0; known < 2; known++) {
        struct probe probe = {0};

        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, LEG_UNRESOLVED);
        assert_true(probe.detail[0]);
        probe_clear(&probe);
    }
}

static void a_lookup_that_never_ends_troubles_nobody_else(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL);
    char url[64];
    const char *reason;
    struct upstream_options options = {.transport = transport, .connect_timeout_ns = 80 * MS};
    struct upstream *upstream, *other = open_peer(world, peer);
    struct leg_request request = get("/");
    struct probe probe = {0}, cancelled = {0};
    int64_t begun = now_ns();

    snprintf(url, sizeof url, "http://silent.test:%d", peer->port);
    options.url = coord_slice_of(url);
    upstream = upstream_open(world->client, &options, &reason);
    probe_start(&probe, world, upstream, &request);
    probe_start(&cancelled, world, upstream, &request);
    leg_pause(cancelled.leg);
    run_leg(world, other, false, false);
    probe_cancel(&cancelled);
    run_leg(world, other, false, true);
    assert_true(now_ns() - begun < 1000 * MS);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_CONNECT_TIMEOUT);
    assert_string_equal(probe.detail, "the name lookup did not end within 0.08 s");
    assert_true(names.asked > 0);
    probe_clear(&probe);
    probe_clear(&cancelled);
    stop_peer(peer);
}

static void legs_go_to_the_addresses_of_now(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(serve_many, NULL), *second = peer_new(serve_many);
    struct upstream *upstream = open_named(world, "moving.test", peer->port);

    close(second->listener);
    second->listener = listen_on("127.0.0.2", peer->port, 64);
    assert_true(second->listener >= 0);
    peer_begin(second);
    run_leg(world, upstream, false, false);
    assert_int_equal(peer->connections, 1);
    names.move = 2;
    run_leg(world, upstream, false, true);
    turn_for(world, 1100); /* until the answer is too old */
    run_leg(world, upstream, false, false);
    run_leg(world, upstream, false, true);
    assert_int_equal(peer->connections, 1);
    assert_int_equal(second->connections, 1);
    stop_peer(peer);
    stop_peer(second);
}

/* TLS */

struct identity {
    gnutls_x509_privkey_t key;
    gnutls_x509_crt_t certificate;
    char certificate_file[64], key_file[64];
};

static struct identity identity;
static bool ask_for_certificate;
static _Atomic int handshakes;

static void write_file(char *path, const gnutls_datum_t *text)
{
    int fd;

    strcpy(path, "/tmp/test_upstream_XXXXXX");
    fd = mkstemp(path);
    assert_int_equal(write(fd, text->data, text->size), text->size);
    close(fd);
}

/* A certificate for 127.0.0.1, signed by itself. */
static void make_identity(void)
{
    static const unsigned char address[4] = {127, 0, 0, 1}, serial = 1;
    gnutls_datum_t text;

    gnutls_x509_privkey_init(&identity.key);
    assert_int_equal(gnutls_x509_privkey_generate(identity.key, GNUTLS_PK_ECDSA,
                                                  GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0),
                     0);
    gnutls_x509_crt_init(&identity.certificate);
    gnutls_x509_crt_set_version(identity.certificate, 3);
    gnutls_x509_crt_set_serial(identity.certificate, &serial, 1);
    gnutls_x509_crt_set_activation_time(identity.certificate, time(NULL) - 3600);
    gnutls_x509_crt_set_expiration_time(identity.certificate, time(NULL) + 3600);
    gnutls_x509_crt_set_dn_by_oid(identity.certificate, GNUTLS_OID_X520_COMMON_NAME, 0, "test", 4);
    gnutls_x509_crt_set_subject_alt_name(identity.certificate, GNUTLS_SAN_IPADDRESS, address, 4, GNUTLS_FSAN_SET);
    gnutls_x509_crt_set_basic_constraints(identity.certificate, 1, -1);
    gnutls_x509_crt_set_key(identity.certificate, identity.key);
    assert_int_equal(
        gnutls_x509_crt_sign2(identity.certificate, identity.certificate, identity.key, GNUTLS_DIG_SHA256, 0), 0);
    gnutls_x509_crt_export2(identity.certificate, GNUTLS_X509_FMT_PEM, &text);
    write_file(identity.certificate_file, &text);
    gnutls_free(text.data);
    gnutls_x509_privkey_export2(identity.key, GNUTLS_X509_FMT_PEM, &text);
    write_file(identity.key_file, &text);
    gnutls_free(text.data);
}

static void drop_identity(void)
{
    unlink(identity.certificate_file);
    unlink(identity.key_file);
    gnutls_x509_crt_deinit(identity.certificate);
    gnutls_x509_privkey_deinit(identity.key);
}

static void serve_tls(struct peer *peer)
{
    gnutls_certificate_credentials_t credentials;
    gnutls_session_t session;
    char buffer[4096];

    gnutls_certificate_allocate_credentials(&credentials);
    gnutls_certificate_set_x509_key(credentials, &identity.certificate, 1, identity.key);
    gnutls_certificate_set_x509_trust(credentials, &identity.certificate, 1);
    if (peer_accept(peer)) {
        gnutls_init(&session, GNUTLS_SERVER);
        gnutls_set_default_priority(session);
        gnutls_credentials_set(session, GNUTLS_CRD_CERTIFICATE, credentials);
        if (ask_for_certificate)
            gnutls_certificate_server_set_request(session, GNUTLS_CERT_REQUIRE);
        gnutls_transport_set_int(session, peer->fd);
        if (gnutls_handshake(session) == 0) {
            handshakes++;
            while (gnutls_record_recv(session, buffer, sizeof buffer) > 0)
                gnutls_record_send(session, OK_ANSWER, sizeof OK_ANSWER - 1);
        }
        gnutls_deinit(session);
    }
    gnutls_certificate_free_credentials(credentials);
}

static void a_tls_peer_must_be_trusted_and_may_ask_who_we_are(void **state)
{
    static const struct {
        const char *name;
        bool trust, insecure, asked, identified;
        enum leg_outcome outcome;
    } rows[] = {
        {"unknown", false, false, false, false, LEG_TLS},
        {"trusted by its file", true, false, false, false, LEG_COMPLETE},
        {"not verified", false, true, false, false, LEG_COMPLETE},
        {"asks for a certificate and gets it", true, false, true, true, LEG_COMPLETE},
    };
    struct world *world = *state;

    make_identity();
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        struct peer *peer;
        char url[64];
        const char *reason;
        struct upstream_options options = {
            .max_idle_connections = 1, .idle_age_ns = 4000 * MS, .connect_timeout_ns = 5000 * MS};
        struct upstream *upstream;
        struct leg_request request = get("/");
        struct probe probe = {0}, again = {0};

        print_message("  %s\n", rows[r].name);
        ask_for_certificate = rows[r].asked;
        peer = peer_start(serve_tls, NULL);
        snprintf(url, sizeof url, "https://127.0.0.1:%d", peer->port);
        options.url = coord_slice_of(url);
        options.insecure_skip_verify = rows[r].insecure;
        if (rows[r].trust)
            options.ca_file = coord_slice_of(identity.certificate_file);
        if (rows[r].identified) {
            options.client_cert_file = coord_slice_of(identity.certificate_file);
            options.client_key_file = coord_slice_of(identity.key_file);
        }
        upstream = upstream_open(world->client, &options, &reason);
        assert_non_null(upstream);
        probe_start(&probe, world, upstream, &request);
        finish(&probe);
        assert_int_equal(probe.result.outcome, rows[r].outcome);
        if (rows[r].outcome == LEG_TLS)
            assert_true(probe.detail[0]);
        else {
            assert_body(&probe, "ok");
            probe_start(&again, world, upstream, &request);
            finish(&again);
            assert_true(again.reused);
        }
        close_client(state);
        peer_free(peer);
        probe_clear(&probe);
        probe_clear(&again);
    }
    drop_identity();
}

static void speak_no_tls(struct peer *peer)
{
    if (!peer_accept(peer))
        return;
    peer_receive(peer);
    peer_send(peer, OK_ANSWER);
}

static void a_peer_that_speaks_no_tls_is_a_tls_failure(void **state)
{
    struct world *world = *state;
    struct peer *peer = peer_start(speak_no_tls, NULL);
    char url[64];
    const char *reason;
    struct upstream_options options = {.connect_timeout_ns = 5000 * MS, .insecure_skip_verify = true};
    struct leg_request request = get("/");
    struct probe probe = {0};

    snprintf(url, sizeof url, "https://127.0.0.1:%d", peer->port);
    options.url = coord_slice_of(url);
    probe_start(&probe, world, upstream_open(world->client, &options, &reason), &request);
    finish(&probe);
    assert_int_equal(probe.result.outcome, LEG_TLS);
    probe_clear(&probe);
    peer_free(peer);
}

/* Over one transport. */
static int run_over(enum upstream_transport which, const char *name)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_small_post_goes_out_as_given_and_in_one_piece, start, stop),
        cmocka_unit_test_setup_teardown(a_small_request_is_one_segment, start, stop),
        cmocka_unit_test_setup_teardown(nothing_is_added_to_a_get, start, stop),
        cmocka_unit_test_setup_teardown(every_method_goes_through_one_connection, start, stop),
        cmocka_unit_test_setup_teardown(fields_that_would_break_the_request_are_left_out, start, stop),
        cmocka_unit_test_setup_teardown(an_invalid_target_or_method_ends_the_leg_without_a_request, start, stop),
        cmocka_unit_test_setup_teardown(large_bodies_arrive_whole_from_their_pieces, start, stop),
        cmocka_unit_test_setup_teardown(a_body_of_many_pieces_arrives_whole, start, stop),
        cmocka_unit_test_setup_teardown(a_large_streamed_upload_arrives_whole_and_no_faster_than_it_is_read, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_streamed_upload_is_chunked_or_has_the_declared_length, start, stop),
        cmocka_unit_test_setup_teardown(a_broken_off_upload_ends_the_leg_and_the_connection, start, stop),
        cmocka_unit_test_setup_teardown(a_leg_may_be_cancelled_from_its_upload, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_ends_as_its_framing_says, start, stop),
        cmocka_unit_test_setup_teardown(an_answer_is_the_same_in_any_pieces, start, stop),
        cmocka_unit_test_setup_teardown(a_head_is_refused_beyond_64_kib, start, stop),
        cmocka_unit_test_setup_teardown(a_reset_is_no_answer_before_the_first_byte_and_broken_after, start, stop),
        cmocka_unit_test_setup_teardown(an_early_answer_to_an_unfinished_upload_is_an_answer, start, stop),
        cmocka_unit_test_setup_teardown(a_request_is_never_sent_twice, start, stop),
        cmocka_unit_test_setup_teardown(a_fresh_leg_uses_no_kept_connection, start, stop),
        cmocka_unit_test_setup_teardown(a_connection_that_was_idle_for_too_long_is_not_used_again, start, stop),
        cmocka_unit_test_setup_teardown(a_kept_connection_that_the_peer_closes_neither_spins_nor_fails_the_next_leg,
                                        start, stop),
        cmocka_unit_test_setup_teardown(a_kept_connection_on_which_the_peer_speaks_unasked_is_not_used_again, start,
                                        stop),
        cmocka_unit_test_setup_teardown(freeing_the_client_closes_its_kept_connections, start, stop),
        cmocka_unit_test_setup_teardown(idle_connections_are_kept_up_to_the_limit_while_more_are_busy, start, stop),
        cmocka_unit_test_setup_teardown(upstreams_are_shared_by_equal_options_and_refused_with_a_reason, start, stop),
        cmocka_unit_test_setup_teardown(an_unreadable_file_is_refused, start, stop),
        cmocka_unit_test_setup_teardown(the_direct_transport_is_refused_for_https, start, stop),
        cmocka_unit_test_setup_teardown(pausing_and_resuming_at_any_time_loses_and_repeats_nothing, start, stop),
        cmocka_unit_test_setup_teardown(a_paused_leg_holds_its_peer_back_and_uses_no_time, start, stop),
        cmocka_unit_test_setup_teardown(a_leg_paused_in_its_head_gets_no_data, start, stop),
        cmocka_unit_test_setup_teardown(a_leg_paused_while_it_waits_gets_its_head_and_no_data, start, stop),
        cmocka_unit_test_setup_teardown(a_peer_that_ends_during_a_pause_is_noticed_on_resuming_without_a_spin, start,
                                        stop),
        cmocka_unit_test_setup_teardown(a_cancelled_leg_is_silent_and_its_peer_sees_the_end_at_once, start, stop),
        cmocka_unit_test_setup_teardown(a_leg_that_was_only_started_can_be_cancelled, start, stop),
        cmocka_unit_test_setup_teardown(a_leg_may_be_cancelled_in_its_own_events, start, stop),
        cmocka_unit_test_setup_teardown(a_leg_may_be_cancelled_in_the_events_of_another, start, stop),
        cmocka_unit_test_setup_teardown(a_leg_may_be_started_in_the_events_of_another, start, stop),
        cmocka_unit_test_setup_teardown(many_legs_are_cancelled_and_ended_at_random_without_harm, start, stop),
        cmocka_unit_test_setup_teardown(each_deadline_has_an_outcome_of_its_own, start, stop),
        cmocka_unit_test_setup_teardown(a_stream_that_moves_outlives_every_deadline_but_the_total, start, stop),
        cmocka_unit_test_setup_teardown(the_time_to_the_head_counts_from_the_end_of_the_upload, start, stop),
        cmocka_unit_test_setup_teardown(a_connection_that_does_not_come_has_its_deadline, start, stop),
        cmocka_unit_test_setup_teardown(a_refused_connection_says_where, start, stop),
        cmocka_unit_test_setup_teardown(proxies_of_the_environment_are_ignored, start, stop),
        cmocka_unit_test_setup_teardown(all_addresses_of_a_name_are_tried_and_no_thread_is_started, start_with_names,
                                        stop_with_names),
        cmocka_unit_test_setup_teardown(the_next_address_is_tried_when_the_first_does_not_answer, start_with_names,
                                        stop_with_names),
        cmocka_unit_test_setup_teardown(a_name_without_an_address_is_unresolved, start_with_names, stop_with_names),
        cmocka_unit_test_setup_teardown(a_lookup_that_never_ends_troubles_nobody_else, start_with_names,
                                        stop_with_names),
        cmocka_unit_test_setup_teardown(legs_go_to_the_addresses_of_now, start_with_names, stop_with_names),
    };

    transport = which;
    return cmocka_run_group_tests_name(name, tests, NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tls_tests[] = {
        cmocka_unit_test_setup_teardown(a_tls_peer_must_be_trusted_and_may_ask_who_we_are, start, stop),
        cmocka_unit_test_setup_teardown(a_peer_that_speaks_no_tls_is_a_tls_failure, start, stop),
    };
    int failed = run_over(UPSTREAM_DIRECT, "direct") + run_over(UPSTREAM_CURL, "libcurl");

    return failed + cmocka_run_group_tests_name("TLS", tls_tests, NULL, NULL);
}
