/*
 * One client's socket beside the library: its FIN and RST (a suspended connection's library does not look at it), its
 * timeouts, and answers that go out past the library. See exchange.h.
 *
 * Invariant: a connection is suspended at most once, and the watch is gone before the library closes the descriptor.
 */
#include "exchange.h"

#include "http/tls_session.h"

#include <assert.h>
#include <errno.h>
#include <gnutls/gnutls.h>
#include <arpa/inet.h>
#include <linux/tcp.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

static const uint32_t WATCHED = EPOLLRDHUP | EPOLLET;

#define CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

static int descriptor(const struct connection *connection) { return connection->watch.fd; }

static void note_peer(struct connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const struct sockaddr *address = info ? info->client_addr : NULL;
    const void *from = NULL;
    int family = AF_INET;

    if (address && address->sa_family == AF_INET) {
        from = &((const struct sockaddr_in *)(const void *)address)->sin_addr;
    } else if (address && address->sa_family == AF_INET6) {
        const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;

        family = IN6_IS_ADDR_V4MAPPED(in6) ? AF_INET : AF_INET6;
        from = family == AF_INET ? (const void *)&in6->s6_addr[12] : (const void *)in6;
    }
    if (from && inet_ntop(family, from, connection->peer, sizeof connection->peer))
        connection->peer_size = (uint8_t)strlen(connection->peer);
}

/* Waiting */

static uint64_t acknowledged(const struct connection *connection)
{
    struct tcp_info info = {0};
    socklen_t size = sizeof info;

    if (getsockopt(descriptor(connection), IPPROTO_TCP, TCP_INFO, &info, &size) != 0)
        return 0;
    return info.tcpi_bytes_acked;
}

static void arm(struct connection *connection, int64_t delay_ns)
{
    reactor_arm(connection->server->reactor, &connection->timer, delay_ns > 0 ? delay_ns : 0);
}

void connection_wait(struct connection *connection, enum connection_wait wait, int64_t delay_ns)
{
    int64_t now = reactor_now(connection->server->reactor);

    connection->wait = delay_ns > 0 ? wait : WAIT_NOTHING;
    if (connection->wait == WAIT_NOTHING)
        return;
    connection->deadline_ns = now + delay_ns;
    if (wait == WAIT_OUTPUT)
        connection->progress_ns = now;
    if (!timer_armed(&connection->timer) || connection->timer.deadline_ns > connection->deadline_ns)
        arm(connection, wait == WAIT_OUTPUT ? delay_ns / 4 : delay_ns);
}

/* The library's own buffers hide whether the client takes anything, the system's count of acknowledged bytes does not. */
static void output_due(struct connection *connection, int64_t now)
{
    int64_t limit = connection->server->options.write_timeout_ns;
    uint64_t acked = acknowledged(connection);

    if (acked != connection->acknowledged)
        connection->progress_ns = now;
    connection->acknowledged = acked;
    if (now - connection->progress_ns < limit) {
        int64_t left = limit - (now - connection->progress_ns);

        connection->deadline_ns = now + left;
        arm(connection, left < limit / 4 ? left : limit / 4);
        return;
    }
    connection->wait = WAIT_NOTHING;
    if (connection->exchange)
        exchange_lose(connection->exchange, EXCHANGE_WRITE_TIMEOUT);
}

static void due(struct timer *timer)
{
    struct connection *connection = CONTAINER(timer, struct connection, timer);
    int64_t now = reactor_now(connection->server->reactor);
    enum connection_wait wait = connection->wait;

    if (wait == WAIT_NOTHING)
        return;
    if (wait == WAIT_OUTPUT) {
        output_due(connection, now);
        return;
    }
    if (now < connection->deadline_ns) {
        arm(connection, connection->deadline_ns - now);
        return;
    }
    connection->wait = WAIT_NOTHING;
    if (wait == WAIT_BODY)
        exchange_body_late(connection->exchange);
    else
        connection_shut(connection);
}

/* The library's hold on it */

void connection_suspend(struct connection *connection)
{
    assert(!connection->suspended);
    connection->suspended = true;
    connection->server->suspended_count++;
    MHD_suspend_connection(connection->mhd);
}

void connection_resume(struct connection *connection)
{
    assert(connection->suspended);
    connection->suspended = false;
    connection->server->suspended_count--;
    MHD_resume_connection(connection->mhd);
}

void connection_shut(struct connection *connection) { shutdown(descriptor(connection), SHUT_RDWR); }

/*
 * The library (0.9.75) forgets connections now and then, and their descriptors: when a reader fails after a write, or after
 * an error answer of its own. It ends the request and looks at the connection again only when something happens to it, which
 * may be never. Those with a timeout of their own it looks at in every run, and closes them then.
 */
void connection_forsaken(struct connection *connection)
{
    connection->forsaken = true;
    MHD_set_connection_option(connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 1U);
    connection->server->daemon_ready = true;
}

void connection_wanted(struct connection *connection)
{
    if (connection->forsaken)
        MHD_set_connection_option(connection->mhd, MHD_CONNECTION_OPTION_TIMEOUT, 0U);
    connection->forsaken = false;
}

/* Past the library */

static gnutls_session_t session(const struct connection *connection)
{
    const union MHD_ConnectionInfo *info;

    if (!connection->server->options.tls)
        return NULL;
    info = MHD_get_connection_info(connection->mhd, MHD_CONNECTION_INFO_GNUTLS_SESSION);
    return info ? (gnutls_session_t)info->tls_session : NULL;
}

/* Bytes taken, 0 when the socket is full, -1 when it is over. */
static ssize_t send_some(struct connection *connection, gnutls_session_t tls)
{
    ssize_t sent;

    if (!tls) {
        sent =
            send(descriptor(connection), connection->direct.data, connection->direct.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        return sent >= 0 ? sent : errno == EAGAIN || errno == EINTR ? 0 : -1;
    }
    sent = gnutls_record_send(tls, connection->direct.data, connection->direct.size);
    return sent >= 0 ? sent : sent == GNUTLS_E_AGAIN || sent == GNUTLS_E_INTERRUPTED ? 0 : -1;
}

static bool want_writable(struct connection *connection, bool want)
{
    uint32_t events = want ? WATCHED | EPOLLOUT : WATCHED;

    return connection->watch.events == events ||
           reactor_rewatch(connection->server->reactor, &connection->watch, events);
}

/* The client learns that nothing follows, and is listened to until it has closed as well. */
static void shut_writing(struct connection *connection, gnutls_session_t tls, bool failed)
{
    if (tls && !failed)
        gnutls_bye(tls, GNUTLS_SHUT_WR);
    shutdown(descriptor(connection), failed ? SHUT_RDWR : SHUT_WR);
}

void connection_send_direct(struct connection *connection)
{
    gnutls_session_t tls = session(connection);
    bool failed = false;

    while (connection->direct.size > 0 && !failed) {
        ssize_t sent = send_some(connection, tls);

        if (sent == 0 && want_writable(connection, true))
            return; /* edge-triggered: it tells when there is room again, also if that is now */
        if (sent <= 0)
            failed = true;
        else
            buffer_drop(&connection->direct, (size_t)sent);
    }
    buffer_release(&connection->direct);
    want_writable(connection, false);
    if (!connection->exchange)
        return;
    if (connection->exchange->phase == PHASE_DIRECT)
        shut_writing(connection, tls, failed);
    exchange_direct_done(connection->exchange, !failed);
}

/* Life */

static void ready(struct watch *watch, uint32_t events)
{
    struct connection *connection = CONTAINER(watch, struct connection, watch);
    struct exchange *exchange = connection->exchange;

    connection->fin = connection->fin || events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR);
    connection->broken = connection->broken || events & (EPOLLHUP | EPOLLERR);
    if (events & EPOLLOUT && connection->direct.size > 0 && !connection->broken) {
        connection_send_direct(connection);
        exchange = connection->exchange;
    }
    if (!connection->fin)
        return;
    if (!exchange || !exchange->headed || exchange->finished) { /* nobody to tell but the library */
        connection_forsaken(connection);
        return;
    }
    if (connection->broken || (connection->fin && !connection->server->options.keep_half_closed && !exchange->ended))
        exchange_lose(exchange, EXCHANGE_CLIENT_CLOSED);
    else if (exchange->phase == PHASE_UPLOAD || exchange->phase == PHASE_HELD)
        connection_forsaken(connection); /* until the request turns out to be whole */
}

static struct connection *open_connection(struct server *server, struct MHD_Connection *mhd)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD);
    struct connection *connection = info ? calloc(1, sizeof *connection) : NULL;

    if (!connection)
        return NULL;
    connection->server = server;
    connection->mhd = mhd;
    connection->timer.due = due;
    connection->watch.ready = ready;
    if (!reactor_watch(server->reactor, &connection->watch, info->connect_fd, WATCHED)) {
        free(connection);
        return NULL;
    }
    if (server->options.tls)
        tls_session_bind(server->options.tls, session(connection));
    note_peer(connection);
    connection->link = &server->connections;
    connection->next = server->connections;
    if (connection->next)
        connection->next->link = &connection->next;
    server->connections = connection;
    server->connection_count++;
    connection_wait(connection, WAIT_HEAD, server->options.read_timeout_ns);
    return connection;
}

static void close_connection(struct connection *connection)
{
    struct server *server = connection->server;

    assert(!connection->suspended && !connection->exchange);
    reactor_unwatch(server->reactor, &connection->watch);
    reactor_disarm(server->reactor, &connection->timer);
    buffer_release(&connection->direct);
    *connection->link = connection->next;
    if (connection->next)
        connection->next->link = connection->link;
    free(connection);
    server_connection_closed(server);
}

void connection_notify(void *context, struct MHD_Connection *mhd, void **socket_context,
                       enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = open_connection(context, mhd); /* NULL: exchange_open refuses its requests */
    } else if (*socket_context) {
        close_connection(*socket_context);
        *socket_context = NULL;
    }
}
