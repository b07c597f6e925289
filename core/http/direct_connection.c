/*
 * See direct.h. A descriptor is registered once, when it is opened, and stays so until it is closed; an attempt on a kept
 * connection finds it watched for what it needs. Only a write that did not fit, a streamed upload and a pause change that.
 */
#include "direct.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SPARE_CONNECTIONS = 256 };

static const uint32_t AT_REST = EPOLLIN | EPOLLRDHUP;
static const uint32_t ENDED = EPOLLRDHUP | EPOLLHUP | EPOLLERR;

static struct direct_client *client_of(const struct upstream *upstream) { return upstream->client->direct; }

static struct direct_upstream *pool_of(const struct direct_connection *connection)
{
    return connection->upstream->transport_state;
}

static struct reactor *reactor_of(const struct direct_connection *connection)
{
    return connection->upstream->client->reactor;
}

/* Life */

static struct direct_connection *spare_or_new(struct direct_client *client)
{
    struct direct_connection *connection = client->spare;

    if (!connection)
        return calloc(1, sizeof *connection);
    client->spare = connection->older;
    client->spare_count--;
    return connection;
}

/* Empties it for the next user. */
static void put_aside(struct direct_client *client, struct direct_connection *connection)
{
    if (client->spare_count == SPARE_CONNECTIONS) {
        free(connection);
        return;
    }
    *connection = (struct direct_connection){.older = client->spare};
    client->spare = connection;
    client->spare_count++;
}

void direct_connection_close(struct direct_connection *connection)
{
    struct direct_client *client = client_of(connection->upstream);

    reactor_unwatch(reactor_of(connection), &connection->watch);
    close(connection->watch.fd);
    client->connections--;
    put_aside(client, connection);
}

void direct_connections_free(struct direct_client *client)
{
    struct direct_connection *connection;

    while ((connection = client->spare)) {
        client->spare = connection->older;
        free(connection);
    }
}

/* Idle ones */

static void unlink_idle(struct direct_connection *connection)
{
    struct direct_upstream *pool = pool_of(connection);

    if (connection->newer)
        connection->newer->older = connection->older;
    else
        pool->newest = connection->older;
    if (connection->older)
        connection->older->newer = connection->newer;
    else
        pool->oldest = connection->newer;
    connection->newer = connection->older = NULL;
    pool->idle--;
}

static void drop_idle(struct direct_connection *connection)
{
    unlink_idle(connection);
    direct_connection_close(connection);
}

static int64_t time_left(const struct direct_upstream *pool, int64_t now_ns)
{
    return pool->oldest->idle_since_ns + pool->upstream->options.idle_age_ns - now_ns;
}

static void drop_old(struct direct_upstream *pool, int64_t now_ns)
{
    while (pool->oldest && time_left(pool, now_ns) <= 0)
        drop_idle(pool->oldest);
}

static void await_age(struct direct_upstream *pool, int64_t now_ns)
{
    if (pool->oldest && !timer_armed(&pool->timer))
        reactor_arm(pool->upstream->client->reactor, &pool->timer, time_left(pool, now_ns));
}

static void timer_due(struct timer *timer)
{
    struct direct_upstream *pool = OWNER_OF(timer, struct direct_upstream, timer);
    int64_t now = reactor_now_fresh(pool->upstream->client->reactor);

    drop_old(pool, now);
    await_age(pool, now);
}

static bool link_idle(struct direct_connection *connection)
{
    struct direct_upstream *pool = pool_of(connection);
    const struct upstream_options *options = &connection->upstream->options;

    if (options->max_idle_connections == 0 || options->idle_age_ns <= 0)
        return false;
    if (pool->idle == options->max_idle_connections)
        drop_idle(pool->oldest);
    connection->idle_since_ns = reactor_now(reactor_of(connection));
    connection->older = pool->newest;
    if (pool->newest)
        pool->newest->newer = connection;
    else
        pool->oldest = connection;
    pool->newest = connection;
    pool->idle++;
    await_age(pool, connection->idle_since_ns);
    return true;
}

static bool watch_for(struct direct_connection *connection, uint32_t events)
{
    struct watch *watch = &connection->watch;

    if (!watch->added)
        return reactor_watch(reactor_of(connection), watch, watch->fd, events);
    return watch->events == events || reactor_rewatch(reactor_of(connection), watch, events);
}

void direct_connection_keep(struct direct_connection *connection)
{
    connection->attempt = NULL;
    if (!watch_for(connection, AT_REST) || !link_idle(connection))
        direct_connection_close(connection);
}

static const struct sockaddr_storage *address_of(const struct direct_attempt *direct)
{
    const struct sockaddr_storage *known = attempt_address(&direct->attempt);
    const struct direct_upstream *pool = direct->attempt.upstream->transport_state;

    return known ? known : &pool->literal;
}

bool direct_connection_reuse(struct direct_attempt *direct)
{
    struct direct_upstream *pool = direct->attempt.upstream->transport_state;
    const struct sockaddr_storage *address = address_of(direct);
    struct direct_connection *connection;

    drop_old(pool, reactor_now(pool->upstream->client->reactor));
    for (connection = pool->newest; connection; connection = connection->older) {
        if (!same_address(&connection->address, address))
            continue;
        unlink_idle(connection);
        connection->attempt = direct;
        direct->connection = connection;
        return true;
    }
    return false;
}

/* Events */

static enum direct_verdict no_connection(struct direct_attempt *direct, enum leg_outcome outcome, int error)
{
    const char *detail =
        arena_printf(&direct->attempt.head.arena, "%.100s: %s", direct->attempt.upstream->host_port, strerror(error));

    return direct_over(direct, outcome, detail ? detail : "memory is short");
}

static enum direct_verdict connected(struct direct_attempt *direct)
{
    struct direct_connection *connection = direct->connection;
    socklen_t size = sizeof(int);
    int error = 0;

    if (getsockopt(connection->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size))
        error = errno;
    connection->connecting = false;
    if (!error)
        return direct_start(direct, false);
    direct->connection = NULL;
    direct_connection_close(connection);
    if (attempt_unreachable(&direct->attempt))
        return direct_connect(direct);
    return no_connection(direct, error == ETIMEDOUT ? LEG_CONNECT_TIMEOUT : LEG_REFUSED, error);
}

/* What is there while the owner pauses stays in the kernel. An end cannot be switched off, so nothing is watched then. */
static enum direct_verdict hold(struct direct_attempt *direct, uint32_t events)
{
    direct->deaf = true;
    if (!(events & ENDED))
        return direct_watch(direct);
    reactor_unwatch(reactor_of(direct->connection), &direct->connection->watch);
    return DIRECT_GOING;
}

static enum direct_verdict ready_to_read(struct direct_attempt *direct, uint32_t events)
{
    if (events & ENDED)
        direct->peer_closed = true;
    return direct_held(direct) ? hold(direct, events) : direct_receive(direct);
}

static enum direct_verdict react(struct direct_attempt *direct, uint32_t events)
{
    enum direct_verdict verdict = DIRECT_GOING;

    if (direct->connection->connecting)
        return connected(direct);
    if (events & (EPOLLIN | ENDED))
        verdict = ready_to_read(direct, events);
    if (verdict == DIRECT_GOING && (events & EPOLLOUT))
        verdict = direct_send(direct);
    return verdict;
}

static void ready(struct watch *watch, uint32_t events)
{
    struct direct_connection *connection = OWNER_OF(watch, struct direct_connection, watch);
    struct direct_attempt *direct = connection->attempt;

    if (!direct) { /* idle: the peer has closed it, or says what nobody asked for */
        drop_idle(connection);
        return;
    }
    direct_enter(direct);
    direct_finish(direct, react(direct, events));
}

enum direct_verdict direct_watch(struct direct_attempt *direct)
{
    uint32_t events = EPOLLRDHUP;

    if (direct->deaf && !direct->connection->watch.added)
        return DIRECT_GOING;
    if (!direct->deaf)
        events |= EPOLLIN;
    if (direct->sending && !direct->upload_held)
        events |= EPOLLOUT;
    return watch_for(direct->connection, events) ? DIRECT_GOING : direct_over(direct, LEG_INTERNAL, strerror(errno));
}

/* Connecting */

static socklen_t put_port(struct sockaddr_storage *address, int port)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)address;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

    if (address->ss_family == AF_INET6) {
        v6->sin6_port = htons((uint16_t)port);
        return sizeof *v6;
    }
    v4->sin_port = htons((uint16_t)port);
    return sizeof *v4;
}

static void configure(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

/* 0, or what failed. */
static int open_connection(struct direct_connection *connection)
{
    socklen_t size = put_port(&connection->address, connection->upstream->port);
    int fd = socket(connection->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error;

    if (fd < 0)
        return errno;
    configure(fd);
    if ((connect(fd, (const struct sockaddr *)&connection->address, size) == 0 || errno == EINPROGRESS) &&
        reactor_watch(reactor_of(connection), &connection->watch, fd, AT_REST | EPOLLOUT)) {
        client_of(connection->upstream)->connections++;
        return 0;
    }
    error = errno;
    close(fd);
    return error;
}

static int connect_to_present(struct direct_attempt *direct)
{
    struct direct_client *client = client_of(direct->attempt.upstream);
    struct direct_connection *connection = spare_or_new(client);
    int error;

    if (!connection)
        return ENOMEM;
    connection->watch.ready = ready;
    connection->upstream = direct->attempt.upstream;
    connection->address = *address_of(direct);
    connection->attempt = direct;
    connection->connecting = true;
    error = open_connection(connection);
    if (error)
        put_aside(client, connection);
    else
        direct->connection = connection;
    return error;
}

/* Shortages are ours, not the peer's. */
static bool is_shortage(int error)
{
    return error == ENOMEM || error == ENOBUFS || error == EMFILE || error == ENFILE || error == ENOSPC;
}

enum direct_verdict direct_connect(struct direct_attempt *direct)
{
    int error;

    do {
        error = connect_to_present(direct);
        if (!error)
            return DIRECT_GOING;
    } while (!is_shortage(error) && attempt_unreachable(&direct->attempt));
    return no_connection(direct, is_shortage(error) ? LEG_INTERNAL : LEG_REFUSED, error);
}

/* Pools */

/* "[fe80::1%25eth0]:80": the zone stands in the authority only. */
static uint32_t scope_of(coord_slice authority)
{
    const char *percent = memchr(authority.data, '%', authority.size);
    const char *end = authority.data + authority.size;
    char zone[IF_NAMESIZE] = "";
    size_t size = 0;

    if (!percent)
        return 0;
    percent += end - percent > 3 && memcmp(percent, "%25", 3) == 0 ? 3 : 1;
    while (percent + size < end && percent[size] != ']' && size < sizeof zone - 1)
        size++;
    memcpy(zone, percent, size);
    return if_nametoindex(zone);
}

static void parse_literal(struct direct_upstream *pool)
{
    const char *text = pool->upstream->host_port;
    struct sockaddr_in *v4 = (struct sockaddr_in *)&pool->literal;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&pool->literal;
    char host[INET6_ADDRSTRLEN] = "";
    size_t size = text[0] == '[' ? strcspn(text + 1, "]") : strcspn(text, ":");

    if (size >= sizeof host)
        return;
    memcpy(host, text + (text[0] == '['), size);
    if (inet_pton(AF_INET, host, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
    } else if (inet_pton(AF_INET6, host, &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_scope_id = scope_of(pool->upstream->authority);
    }
}

void direct_pool_open(struct direct_upstream *pool)
{
    pool->timer.due = timer_due;
    pool->host = upstream_host_field(pool->upstream);
    if (pool->upstream->host[0] == 0)
        parse_literal(pool);
}

void direct_pool_close(struct direct_upstream *pool)
{
    while (pool->oldest)
        drop_idle(pool->oldest);
    reactor_disarm(pool->upstream->client->reactor, &pool->timer);
}
