/*
 * The library's daemon inside a reactor: its epoll descriptor is one watch, the listening socket another (connections are
 * accepted here, so that running out of descriptors neither spins nor deafens, and a closing listener can be emptied), and
 * the turn-end hook runs it. See exchange.h.
 *
 * Invariant: after the hook the library has nothing left to do at once, or the hook says that it wants another round.
 */
#include "exchange.h"

#include "http/tls_session.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

static const int64_t ACCEPT_RETRY_NS = 100000000;

#define CONTAINER(pointer, type, member) ((type *)(void *)((char *)(pointer) - offsetof(type, member)))

/* Work */

static void nothing(struct task *task) { (void)task; }

static void nothing_due(struct timer *timer) { (void)timer; }

void server_work(struct exchange *exchange)
{
    struct server *server = exchange->server;

    if (exchange->in_work)
        return;
    exchange->in_work = true;
    exchange->work_next = NULL;
    *server->work_end = exchange;
    server->work_end = &exchange->work_next;
    reactor_defer(server->reactor, &server->kick);
}

static struct exchange *pop_work(struct server *server)
{
    struct exchange *exchange = server->work;

    server->work = exchange->work_next;
    if (!server->work)
        server->work_end = &server->work;
    exchange->in_work = false;
    return exchange;
}

/* Resuming makes the library walk all suspended connections: with very many of them not in every turn. */
static bool paced(struct server *server)
{
    int64_t interval = (int64_t)server->suspended_count * PACE_NS_EACH;
    int64_t since = reactor_now(server->reactor) - server->walked_ns;

    if (server->suspended_count <= PACED_FROM || since >= interval)
        return false;
    if (!timer_armed(&server->pace_timer))
        reactor_arm(server->reactor, &server->pace_timer, interval - since);
    return true;
}

static bool do_work(struct server *server)
{
    bool run = false;

    if (!server->work || paced(server))
        return false;
    while (server->work)
        run = exchange_proceed(pop_work(server)) || run;
    if (run)
        server->walked_ns = reactor_now(server->reactor);
    return run;
}

/* Ending */

static void shut_idle(struct server *server)
{
    for (struct connection *connection = server->connections; connection; connection = connection->next)
        if (!connection->exchange && connection->served)
            connection_shut(connection);
}

static void abort_all(struct server *server)
{
    server->abort_all = false;
    for (struct connection *connection = server->connections; connection; connection = connection->next) {
        if (!connection->exchange)
            connection_shut(connection);
        else if (connection->exchange->finished) { /* an early answer's rest */
            connection->exchange->cut = true;
            server_work(connection->exchange);
        }
    }
    for (struct exchange *exchange = server->exchanges, *next; exchange; exchange = next) {
        next = exchange->next;
        exchange_lose(exchange, EXCHANGE_SERVER_STOPPED);
    }
}

/* Running the library */

/* When it wants to run again: 0 at once, -1 not before something happens. */
static int64_t daemon_wants(struct server *server)
{
    MHD_UNSIGNED_LONG_LONG milliseconds;

    if (MHD_get_timeout(server->daemon, &milliseconds) != MHD_YES)
        return -1;
    return milliseconds > INT32_MAX ? INT64_MAX : (int64_t)milliseconds * 1000000;
}

static bool run_hook(struct hook *hook)
{
    struct server *server = CONTAINER(hook, struct server, hook);
    int64_t wait;
    bool resumed;

    if (server->abort_all)
        abort_all(server);
    resumed = do_work(server);
    wait = daemon_wants(server);
    if (resumed || server->daemon_ready || wait == 0) {
        server->daemon_ready = false;
        MHD_run(server->daemon);
        wait = daemon_wants(server);
    }
    if (wait > 0)
        reactor_arm(server->reactor, &server->daemon_timer, wait);
    return wait == 0 || server->daemon_ready; /* tasks first: they may have an answer by then */
}

static void daemon_ready(struct watch *watch, uint32_t events)
{
    (void)events;
    CONTAINER(watch, struct server, daemon_watch)->daemon_ready = true;
}

/* Accepting */

/* Until a descriptor may be free again; a level-triggered listener would spin. */
static void pause_accepting(struct server *server)
{
    reactor_unwatch(server->reactor, &server->listen_watch);
    reactor_arm(server->reactor, &server->accept_timer, ACCEPT_RETRY_NS);
}

static bool full(const struct server *server) { return server->connection_count >= server->options.connection_limit; }

/* False when there is no more to accept. */
static bool accept_one(struct server *server)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    int fd = accept4(server->options.listen_fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd >= 0) /* the library closes it when it refuses it */
        return MHD_add_connection(server->daemon, fd, (struct sockaddr *)&address, size) == MHD_YES || !full(server);
    if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
        pause_accepting(server);
    return errno == ECONNABORTED || errno == EINTR || errno == EPROTO;
}

static void listen_ready(struct watch *watch, uint32_t events)
{
    struct server *server = CONTAINER(watch, struct server, listen_watch);

    (void)events;
    while (!full(server) && accept_one(server))
        continue;
    if (full(server))
        reactor_unwatch(server->reactor, &server->listen_watch); /* until one closes */
}

static void watch_listener(struct server *server)
{
    if (!reactor_watch(server->reactor, &server->listen_watch, server->options.listen_fd, EPOLLIN))
        reactor_arm(server->reactor, &server->accept_timer, ACCEPT_RETRY_NS);
}

void server_connection_closed(struct server *server)
{
    server->connection_count--;
    if (!server->closed && !server->listen_watch.added && !timer_armed(&server->accept_timer))
        watch_listener(server);
}

static void accept_again(struct timer *timer)
{
    struct server *server = CONTAINER(timer, struct server, accept_timer);

    if (!full(server))
        watch_listener(server);
}

/* Life */

static void log_nothing(void *context, const char *format, va_list arguments)
{
    (void)context;
    (void)format;
    (void)arguments;
}

/* The application sees the target as it came; the library decodes its own copy in place, for nothing. */
static size_t unescape_nothing(void *context, struct MHD_Connection *mhd, char *text)
{
    (void)context;
    (void)mhd;
    return strlen(text);
}

static struct MHD_Daemon *start_daemon(struct server *server)
{
    const struct server_options *options = &server->options;
    const struct MHD_OptionItem plain[] = {{MHD_OPTION_END, 0, NULL}};
    struct MHD_OptionItem secure[] = {
        {MHD_OPTION_HTTPS_PRIORITIES, 0, NULL}, {MHD_OPTION_HTTPS_CERT_CALLBACK, 0, NULL}, {MHD_OPTION_END, 0, NULL}};
    /* Suspending without the library's own wake-up channel: everything happens on this thread. */
    unsigned flags = MHD_USE_EPOLL | MHD_USE_TURBO | MHD_USE_NO_LISTEN_SOCKET |
                     ((unsigned)MHD_ALLOW_SUSPEND_RESUME & ~(unsigned)MHD_USE_ITC);

    if (options->tls) {
        flags |= MHD_USE_TLS;
        secure[0].ptr_value = (void *)(uintptr_t)tls_session_priorities(options->tls);
        secure[1].ptr_value = (void *)(uintptr_t)tls_session_certificate;
    }
    return MHD_start_daemon(
        flags, 0, NULL, NULL, exchange_handle, server, MHD_OPTION_EXTERNAL_LOGGER, log_nothing, NULL,
        MHD_OPTION_CONNECTION_LIMIT, options->connection_limit, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
        options->connection_memory, MHD_OPTION_CONNECTION_TIMEOUT, 0U, MHD_OPTION_STRICT_FOR_CLIENT, 0,
        MHD_OPTION_NOTIFY_COMPLETED, exchange_completed, server, MHD_OPTION_NOTIFY_CONNECTION, connection_notify,
        server, MHD_OPTION_URI_LOG_CALLBACK, exchange_open, server, MHD_OPTION_UNESCAPE_CALLBACK, unescape_nothing,
        NULL, MHD_OPTION_ARRAY, options->tls ? secure : plain, MHD_OPTION_END);
}

static const char *start(struct server *server)
{
    const union MHD_DaemonInfo *info;

    server->daemon = start_daemon(server);
    if (!server->daemon)
        return "libmicrohttpd did not start";
    info = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    if (!info || !reactor_watch(server->reactor, &server->daemon_watch, info->epoll_fd, EPOLLIN))
        return "libmicrohttpd has no epoll descriptor";
    if (!reactor_watch(server->reactor, &server->listen_watch, server->options.listen_fd, EPOLLIN))
        return "the listening socket cannot be watched";
    return NULL;
}

static void release(struct server *server)
{
    while (server->spare) {
        struct exchange *exchange = server->spare;

        server->spare = exchange->work_next;
        buffer_release(&exchange->out);
        arena_release(&exchange->arena);
        free(exchange);
    }
    free(server);
}

struct server *server_new(struct reactor *reactor, const struct server_options *options, const struct server_app *app,
                          const char **reason)
{
    struct server *server = calloc(1, sizeof *server);

    *reason = "memory is short";
    if (!server)
        return NULL;
    server->reactor = reactor;
    server->options = *options;
    server->app = *app;
    server->work_end = &server->work;
    server->listen_watch.ready = listen_ready;
    server->daemon_watch.ready = daemon_ready;
    server->hook.run = run_hook;
    server->kick.run = nothing;
    server->daemon_timer.due = nothing_due; /* the hook of that turn sees to it */
    server->pace_timer.due = nothing_due;
    server->accept_timer.due = accept_again;
    server->reversed = reply_order_reversed();
    *reason = start(server);
    if (!*reason) {
        reactor_hook(reactor, &server->hook);
        return server;
    }
    reactor_unwatch(reactor, &server->daemon_watch);
    if (server->daemon)
        MHD_stop_daemon(server->daemon);
    release(server);
    return NULL;
}

void server_adjust(struct server *server, const struct server_options *options)
{
    server->options.max_body = options->max_body;
    server->options.output_high = options->output_high;
    server->options.output_low = options->output_low;
    server->options.read_timeout_ns = options->read_timeout_ns;
    server->options.write_timeout_ns = options->write_timeout_ns;
    server->options.keep_half_closed = options->keep_half_closed;
}

void server_announce_close(struct server *server) { server->announce = true; }

void server_close_listener(struct server *server)
{
    server->announce = true;
    if (server->closed)
        return;
    server->closed = true;
    while (accept_one(server))
        continue;
    reactor_unwatch(server->reactor, &server->listen_watch);
    reactor_disarm(server->reactor, &server->accept_timer);
    close(server->options.listen_fd);
    server->options.listen_fd = -1;
    shut_idle(server);
    reactor_defer(server->reactor, &server->kick);
}

void server_abort_all(struct server *server)
{
    server->abort_all = true;
    reactor_defer(server->reactor, &server->kick);
}

size_t server_exchanges(const struct server *server) { return server->exchange_count; }

size_t server_connections(const struct server *server) { return server->connection_count; }

/* The library must not be stopped with a suspended connection: an early answer's rest may be one. */
static void wake_all(struct server *server)
{
    for (struct connection *connection = server->connections; connection; connection = connection->next)
        if (connection->suspended) {
            connection->exchange->cut = true;
            connection_resume(connection);
        }
    if (server->daemon)
        MHD_run(server->daemon);
}

void server_free(struct server *server)
{
    if (!server)
        return;
    assert(server->exchange_count == 0);
    reactor_unhook(server->reactor, &server->hook);
    wake_all(server);
    assert(server->suspended_count == 0);
    server_close_listener(server);
    reactor_unwatch(server->reactor, &server->daemon_watch);
    MHD_stop_daemon(server->daemon);
    while (server->work)
        exchange_free(pop_work(server));
    assert(server->connection_count == 0);
    reactor_disarm(server->reactor, &server->daemon_timer);
    reactor_disarm(server->reactor, &server->pace_timer);
    reactor_undefer(server->reactor, &server->kick);
    release(server);
}
