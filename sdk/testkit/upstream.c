/* The scripted upstreams: see kit.h. A connection's thread reads a request, keeps it, and plays the rule that it matches. */
#include "kit.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

struct upstream *kit_upstreams_add(struct coord_kit *kit, const char *name, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    struct upstream *upstream;

    for (size_t i = 0; i < kit->upstream_count; i++)
        if (strlen(kit->upstreams[i].name) == size && memcmp(kit->upstreams[i].name, name, size) == 0)
            return &kit->upstreams[i];
    if (kit->upstream_count == MAX_UPSTREAMS)
        return NULL;
    upstream = &kit->upstreams[kit->upstream_count];
    upstream->name = strndup(name, size);
    upstream->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (!upstream->name || upstream->fd < 0 || bind(upstream->fd, (struct sockaddr *)&address, length) != 0 ||
        listen(upstream->fd, 128) != 0 || getsockname(upstream->fd, (struct sockaddr *)&address, &length) != 0)
        return NULL;
    upstream->port = ntohs(address.sin_port);
    kit->upstream_count++;
    return upstream;
}

/* ---- Which rule ---- */

static bool is_or_any(coord_slice value, const char *wanted) { return !wanted || coord_slice_is(value, wanted); }

static bool matches(const coord_kit_rule *rule, const coord_kit_message *request)
{
    const char *query = request->target.size ? memchr(request->target.data, '?', request->target.size) : NULL;
    coord_slice path = {request->target.data, query ? (size_t)(query - request->target.data) : request->target.size};
    coord_slice value = {0};

    if (rule->header && coord_kit_header(request, rule->header, &value) != COORD_OK)
        return false;
    return is_or_any(coord_slice_of(request->upstream), rule->upstream) && is_or_any(request->phase, rule->phase) &&
           is_or_any(path, rule->path) && (!rule->header || is_or_any(value, rule->value));
}

static coord_kit_rule choose(struct coord_kit *kit, const coord_kit_message *request)
{
    static const coord_kit_rule none = {.status = 501,
                                        .body = COORD_SLICE("{\"error\":\"testkit: no rule matches this request\"}")};

    for (struct rule *entry = kit->rules; entry; entry = entry->next)
        if ((entry->rule.times == 0 || entry->used < entry->rule.times) && matches(&entry->rule, request)) {
            entry->used++;
            return entry->rule;
        }
    return none;
}

/* ---- Playing it ---- */

static bool gate_is_open(struct coord_kit *kit, const char *gate)
{
    bool open = !gate;

    pthread_mutex_lock(&kit->lock);
    for (size_t at = 0; !open && at < kit->gates.size; at += strlen(kit->gates.data + at) + 1)
        open = strcmp(kit->gates.data + at, gate) == 0;
    pthread_mutex_unlock(&kit->lock);
    return open;
}

static bool is_stopping(struct coord_kit *kit)
{
    bool stopping;

    pthread_mutex_lock(&kit->lock);
    stopping = kit->stopping;
    pthread_mutex_unlock(&kit->lock);
    return stopping;
}

/* Waits for time and gate. False: the coordinator has left meanwhile, or the kit stops. */
static bool wait_for(const struct connection *connection, int64_t delay_ns, const char *gate)
{
    struct pollfd peer = {.fd = connection->fd, .events = POLLRDHUP};
    int64_t until = kit_now() + delay_ns;

    for (;;) {
        int64_t left_ms = (until - kit_now() + COORD_KIT_MS - 1) / COORD_KIT_MS;
        bool due = delay_ns >= 0 && left_ms <= 0 && gate_is_open(connection->kit, gate);

        if (poll(&peer, 1, due ? 0 : left_ms > 0 && left_ms < 2 ? (int)left_ms : 2) > 0 || is_stopping(connection->kit))
            return false;
        if (due)
            return true;
    }
}

static bool send_head(const struct connection *connection, const coord_kit_rule *rule)
{
    struct text head = {0};
    bool sent;

    kit_text_format(&head, "HTTP/1.1 %d Scripted\r\n", rule->status ? rule->status : 200);
    if (!kit_wire_has_field(rule->headers, "Content-Type"))
        kit_text_format(&head, "Content-Type: application/json\r\n");
    kit_wire_fields(&head, rule->headers);
    if (rule->close)
        kit_text_format(&head, "Connection: close\r\n\r\n");
    else if (rule->pieces)
        kit_text_format(&head, "Transfer-Encoding: chunked\r\n\r\n");
    else if (rule->status == 204)
        kit_text_format(&head, "\r\n");
    else
        kit_text_format(&head, "Content-Length: %zu\r\n\r\n", rule->body.size + (rule->ending != COORD_KIT_WHOLE));
    sent = kit_wire_send(connection->fd, text_slice(&head));
    free(head.data);
    return sent;
}

static bool send_piece(const struct connection *connection, const coord_kit_rule *rule, const coord_kit_piece *piece)
{
    struct text chunk = {0};
    bool sent;

    if (!wait_for(connection, piece->delay_ns, piece->gate))
        return false;
    if (piece->bytes.size == 0)
        return true;
    if (!rule->close)
        kit_text_format(&chunk, "%zx\r\n", piece->bytes.size);
    kit_text_append(&chunk, piece->bytes.data, piece->bytes.size);
    if (!rule->close)
        kit_text_append(&chunk, "\r\n", 2);
    sent = kit_wire_send(connection->fd, text_slice(&chunk));
    free(chunk.data);
    return sent;
}

/* True: the answer ended as the rule says, without the coordinator leaving. */
static bool play(const struct connection *connection, const coord_kit_rule *rule)
{
    if (!wait_for(connection, rule->delay_ns, rule->gate))
        return false;
    if (rule->status != COORD_KIT_NO_HEAD) {
        if (!send_head(connection, rule) || !kit_wire_send(connection->fd, rule->body))
            return false;
        for (size_t i = 0; i < rule->piece_count; i++)
            if (!send_piece(connection, rule, &rule->pieces[i]))
                return false;
    }
    if (rule->ending == COORD_KIT_SILENT)
        return wait_for(connection, -1, NULL);
    return rule->ending == COORD_KIT_CUT || !rule->pieces || rule->close ||
           kit_wire_send(connection->fd, coord_slice_of("0\r\n\r\n"));
}

static coord_slice first_half(coord_slice bytes) { return (coord_slice){bytes.data, bytes.size / 2}; }

/* With the lock held: what the rule becomes for the leg that is held. */
static coord_kit_rule held(struct coord_kit *kit, coord_kit_rule rule)
{
    if (kit->leg_count++ != kit->held_leg || kit->hold == HOLD_NONE)
        return rule;
    if (kit->hold == HOLD_HEAD)
        rule.status = COORD_KIT_NO_HEAD;
    rule.body = first_half(rule.body);
    rule.piece_count /= 2;
    rule.ending = COORD_KIT_SILENT;
    return rule;
}

/* Hands the leg to the test; the rule is chosen in the order of arrival. */
static coord_kit_rule keep(struct coord_kit *kit, struct leg *leg)
{
    coord_kit_rule rule;

    pthread_mutex_lock(&kit->lock);
    rule = held(kit, choose(kit, &leg->wire.message));
    *kit->legs_end = leg;
    kit->legs_end = &leg->next;
    pthread_mutex_unlock(&kit->lock);
    return rule;
}

static void note_end(struct coord_kit *kit, struct leg *leg, bool played)
{
    pthread_mutex_lock(&kit->lock);
    leg->left = !played && !kit->stopping;
    leg->over = true;
    pthread_mutex_unlock(&kit->lock);
}

/* One request and its answer. False: the connection is over. */
static bool serve(const struct connection *connection)
{
    struct leg *leg = calloc(1, sizeof *leg);
    coord_kit_rule rule;
    bool played;

    if (!leg)
        abort();
    leg->wire.fd = connection->fd;
    leg->wire.message.size = sizeof leg->wire.message;
    leg->wire.message.upstream = connection->upstream;
    while (!leg->wire.message.whole && kit_wire_pump(&leg->wire, -1))
        ;
    leg->wire.fd = -1; /* the connection's */
    if (!leg->wire.message.whole) {
        kit_wire_free(&leg->wire);
        free(leg);
        return false;
    }
    rule = keep(connection->kit, leg);
    played = play(connection, &rule);
    note_end(connection->kit, leg, played);
    return played && rule.ending == COORD_KIT_WHOLE && !rule.close;
}

static void *connection_main(void *argument)
{
    struct connection *connection = argument;

    while (serve(connection))
        ;
    shutdown(connection->fd, SHUT_RDWR); /* closed when the kit stops: its number stays ours */
    return NULL;
}

static void accept_one(struct coord_kit *kit, const struct upstream *upstream)
{
    struct connection *connection = calloc(1, sizeof *connection);
    int at_once = 1;

    if (!connection)
        abort();
    connection->kit = kit;
    connection->upstream = upstream->name;
    connection->fd = accept4(upstream->fd, NULL, NULL, SOCK_CLOEXEC);
    setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
    if (connection->fd < 0 || pthread_create(&connection->thread, NULL, connection_main, connection) != 0) {
        if (connection->fd >= 0)
            close(connection->fd);
        free(connection);
        return;
    }
    connection->next = kit->connections; /* the acceptor's alone until it has ended */
    kit->connections = connection;
}

static void *accept_main(void *argument)
{
    struct coord_kit *kit = argument;
    struct pollfd fds[MAX_UPSTREAMS + 1];

    for (;;) {
        for (size_t i = 0; i < kit->upstream_count; i++)
            fds[i] = (struct pollfd){.fd = kit->upstreams[i].fd, .events = POLLIN};
        fds[kit->upstream_count] = (struct pollfd){.fd = kit->wake[0], .events = POLLIN};
        if (poll(fds, kit->upstream_count + 1, -1) < 0)
            continue;
        if (fds[kit->upstream_count].revents)
            return NULL;
        for (size_t i = 0; i < kit->upstream_count; i++)
            if (fds[i].revents)
                accept_one(kit, &kit->upstreams[i]);
    }
}

bool kit_upstreams_start(struct coord_kit *kit)
{
    if (pipe(kit->wake) != 0)
        return false;
    kit->accepting = pthread_create(&kit->acceptor, NULL, accept_main, kit) == 0;
    return kit->accepting;
}

void kit_upstreams_stop(struct coord_kit *kit)
{
    pthread_mutex_lock(&kit->lock);
    kit->stopping = true;
    pthread_mutex_unlock(&kit->lock);
    if (kit->accepting) {
        close(kit->wake[1]); /* the other end becomes readable */
        pthread_join(kit->acceptor, NULL);
        close(kit->wake[0]);
    }
    while (kit->connections) {
        struct connection *connection = kit->connections;

        kit->connections = connection->next;
        shutdown(connection->fd, SHUT_RDWR);
        pthread_join(connection->thread, NULL);
        close(connection->fd);
        free(connection);
    }
    for (size_t i = 0; i < kit->upstream_count; i++) {
        close(kit->upstreams[i].fd);
        free(kit->upstreams[i].name);
    }
}
