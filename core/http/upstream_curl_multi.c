/*
 * See upstream_curl.h. libcurl's multi interface on a reactor.
 *
 * What keeps a leg cheap: a descriptor stays in epoll when the library loses interest in it (the connection goes back to the
 * pool and is wanted again soon), and an unchanged interest costs no system call. When such a descriptor becomes ready all
 * the same, it is taken out until the next interest, so that nothing spins. Only closing forgets it.
 *
 * The library (7.88) closes a descriptor that was still connecting without telling, and may open the next one under the same
 * number without saying again what it wants of it: see unused_again and open_socket.
 *
 * The library (8.14) asks to be called at once, and again, and again, while a transfer is paused whose answer has come whole.
 * After a few such calls in which nothing happened it is called at intervals only, until something happens.
 */
#include "upstream_curl.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

static const int64_t NS_PER_MS = 1000000;

enum { FUTILE_CALLS = 3, DOZE_MS = 20 };

struct socket_watch {
    struct watch watch;
    struct curl_client *curl;
    uint32_t interest; /* the library's; 0: none, though the watch may be added */
    bool read;         /* it was wanted for reading, so it has been connected, and its closing will be told */
};

/* The library says that all transfers are in an unknown state after such a failure: there is no going on. */
static void die(const char *what, const char *why)
{
    fprintf(stderr, "HTTP client: %s: %s\n", what, why);
    abort();
}

/* Calling the library */

void curl_client_enter(struct curl_client *curl) { curl->inside++; }

static void settle(struct curl_client *curl);

void curl_client_leave(struct curl_client *curl)
{
    assert(curl->inside > 0);
    if (--curl->inside == 0)
        settle(curl);
}

static void act(struct curl_client *curl, curl_socket_t fd, int mask)
{
    int running = 0;
    CURLMcode code;

    curl_client_enter(curl);
    code = curl_multi_socket_action(curl->multi, fd, mask, &running);
    if (code != CURLM_OK)
        die("curl_multi_socket_action", curl_multi_strerror(code));
    curl_client_leave(curl);
}

static void update_limit(struct curl_client *curl)
{
    curl_multi_setopt(curl->multi, CURLMOPT_MAXCONNECTS, (long)(curl->idle_connections + curl->running + 1));
}

void curl_client_take_out(struct carrier *carrier)
{
    struct curl_client *curl = carrier->curl;
    CURLMcode code = curl_multi_remove_handle(curl->multi, carrier->easy);

    if (code != CURLM_OK)
        die("curl_multi_remove_handle", curl_multi_strerror(code));
    carrier->added = false;
    curl->running--;
    update_limit(curl);
}

static void remove_now(struct carrier *carrier)
{
    curl_client_take_out(carrier);
    carrier_removed(carrier);
}

/* What had to wait until the library was off the stack: removals first, since a cancelled leg must not end. */
static void settle(struct curl_client *curl)
{
    struct carrier *carrier;
    CURLMsg *message;
    int left;

    while ((carrier = curl->doomed)) {
        curl->doomed = carrier->next;
        remove_now(carrier);
    }
    while ((message = curl_multi_info_read(curl->multi, &left))) {
        char *private = NULL;

        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &private);
        carrier_done((struct carrier *)private, message->data.result);
    }
}

bool curl_client_add(struct carrier *carrier)
{
    struct curl_client *curl = carrier->curl;

    assert(curl->inside == 0);
    curl_client_moved(curl);
    curl->running++;
    update_limit(curl);
    carrier->added = curl_multi_add_handle(curl->multi, carrier->easy) == CURLM_OK;
    if (!carrier->added)
        curl->running--;
    return carrier->added;
}

void curl_client_remove(struct carrier *carrier)
{
    struct curl_client *curl = carrier->curl;

    if (!carrier->added) {
        carrier_removed(carrier);
        return;
    }
    if (curl->inside == 0) {
        remove_now(carrier);
        return;
    }
    carrier->next = curl->doomed;
    curl->doomed = carrier;
}

void curl_client_flush(struct curl_client *curl)
{
    if (!curl->kicked)
        return;
    curl->kicked = false;
    curl->futile++;
    act(curl, CURL_SOCKET_TIMEOUT, 0);
}

void curl_client_moved(struct curl_client *curl)
{
    curl->futile = 0;
    if (!curl->dozing)
        return;
    curl->dozing = false;
    curl->kicked = true;
    reactor_disarm(curl->client->reactor, &curl->timer);
    client_flush_soon(curl->client);
}

/* The library's timer */

static int timer_wanted(CURLM *multi, long wait_ms, void *user)
{
    struct curl_client *curl = user;

    (void)multi;
    curl->kicked = wait_ms == 0 && curl->futile < FUTILE_CALLS;
    curl->dozing = wait_ms == 0 && !curl->kicked;
    if (curl->dozing)
        wait_ms = DOZE_MS;
    if (wait_ms > 0) {
        reactor_arm(curl->client->reactor, &curl->timer, wait_ms * NS_PER_MS);
        return 0;
    }
    reactor_disarm(curl->client->reactor, &curl->timer);
    if (curl->kicked)
        client_flush_soon(curl->client);
    return 0;
}

static void timer_due(struct timer *timer)
{
    struct curl_client *curl = OWNER_OF(timer, struct curl_client, timer);

    if (!curl->dozing)
        curl->futile = 0;
    act(curl, CURL_SOCKET_TIMEOUT, 0);
}

/* Descriptors */

static void socket_ready(struct watch *watch, uint32_t events)
{
    struct socket_watch *socket = OWNER_OF(watch, struct socket_watch, watch);
    int mask = 0;

    if (!socket->interest) {
        reactor_unwatch(socket->curl->client->reactor, watch);
        return;
    }
    curl_client_moved(socket->curl);
    if (events & (EPOLLIN | EPOLLHUP))
        mask |= CURL_CSELECT_IN;
    if (events & EPOLLOUT)
        mask |= CURL_CSELECT_OUT;
    if (events & EPOLLERR)
        mask |= CURL_CSELECT_ERR;
    act(socket->curl, watch->fd, mask);
}

static void make_room(struct curl_client *curl, size_t fd)
{
    size_t slots = curl->socket_slots ? curl->socket_slots : 64;
    struct socket_watch **sockets;

    if (fd < curl->socket_slots)
        return;
    while (slots <= fd)
        slots *= 2;
    sockets = realloc(curl->sockets, slots * sizeof *sockets);
    if (!sockets)
        die("descriptors", strerror(ENOMEM));
    memset(sockets + curl->socket_slots, 0, (slots - curl->socket_slots) * sizeof *sockets);
    curl->sockets = sockets;
    curl->socket_slots = slots;
}

static struct socket_watch *watch_of(struct curl_client *curl, curl_socket_t fd)
{
    struct socket_watch *socket;

    make_room(curl, (size_t)fd);
    socket = curl->sockets[fd];
    if (socket)
        return socket;
    socket = calloc(1, sizeof *socket);
    if (!socket)
        die("descriptors", strerror(ENOMEM));
    socket->watch.ready = socket_ready;
    socket->watch.fd = fd;
    socket->curl = curl;
    curl->sockets[fd] = socket;
    curl->connections++;
    return socket;
}

static void forget(struct socket_watch *socket)
{
    struct curl_client *curl = socket->curl;

    reactor_unwatch(curl->client->reactor, &socket->watch);
    curl->sockets[socket->watch.fd] = NULL;
    curl->connections--;
    free(socket);
}

/* A descriptor that never was read from and is not wanted any more has most likely been closed. */
static void unused_again(struct socket_watch *socket)
{
    reactor_unwatch(socket->curl->client->reactor, &socket->watch);
    if (fcntl(socket->watch.fd, F_GETFD) < 0)
        forget(socket);
}

/* Fewer events than wanted would hang, more would spin. */
static void follow_interest(struct socket_watch *socket)
{
    struct reactor *reactor = socket->curl->client->reactor;
    bool ok = true;

    if (!socket->watch.added)
        ok = reactor_watch(reactor, &socket->watch, socket->watch.fd, socket->interest);
    else if (socket->watch.events != socket->interest)
        ok = reactor_rewatch(reactor, &socket->watch, socket->interest);
    if (!ok)
        die("epoll_ctl", strerror(errno));
}

static uint32_t epoll_events(int what)
{
    uint32_t events = 0;

    if (what == CURL_POLL_IN || what == CURL_POLL_INOUT)
        events |= EPOLLIN;
    if (what == CURL_POLL_OUT || what == CURL_POLL_INOUT)
        events |= EPOLLOUT;
    return events;
}

static int socket_wanted(CURL *easy, curl_socket_t fd, int what, void *user, void *unused)
{
    struct socket_watch *socket = watch_of(user, fd);

    (void)easy;
    (void)unused;
    socket->interest = epoll_events(what);
    socket->read = socket->read || (socket->interest & EPOLLIN);
    if (socket->interest)
        follow_interest(socket);
    else if (!socket->read)
        unused_again(socket);
    return 0;
}

static curl_socket_t open_socket(void *user, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct carrier *carrier = user;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, address->protocol);
    struct socket_watch *socket;

    (void)purpose;
    if (fd < 0)
        return CURL_SOCKET_BAD;
    carrier->opened = true;
    socket = watch_of(carrier->curl, fd);
    socket->read = false;
    reactor_unwatch(carrier->curl->client->reactor, &socket->watch); /* of its predecessor with that number */
    if (socket->interest)
        follow_interest(socket);
    return fd;
}

/* The connection outlives the transfer that opened it, so this is told the client. */
static int close_socket(void *user, curl_socket_t fd)
{
    struct curl_client *curl = user;

    if ((size_t)fd < curl->socket_slots && curl->sockets[fd])
        forget(curl->sockets[fd]);
    return close(fd);
}

void curl_client_configure(struct curl_client *curl, CURL *easy, struct carrier *carrier)
{
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, carrier);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, curl);
}

/* Life */

void curl_client_allow_idle(struct curl_client *curl, long change)
{
    curl->idle_connections += (unsigned long)change;
    update_limit(curl);
}

static void initialise(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

struct curl_client *curl_client_new(struct client *client)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct curl_client *curl = calloc(1, sizeof *curl);

    pthread_once(&once, initialise);
    if (!curl)
        return NULL;
    curl->client = client;
    curl->timer.due = timer_due;
    curl->multi = curl_multi_init();
    if (!curl->multi) {
        free(curl);
        return NULL;
    }
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETFUNCTION, socket_wanted);
    curl_multi_setopt(curl->multi, CURLMOPT_SOCKETDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERFUNCTION, timer_wanted);
    curl_multi_setopt(curl->multi, CURLMOPT_TIMERDATA, curl);
    curl_multi_setopt(curl->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    update_limit(curl);
    return curl;
}

/* Closes the idle connections: close_socket still needs the table. */
void curl_client_free(struct curl_client *curl)
{
    assert(curl->running == 0 && !curl->doomed);
    curl_multi_cleanup(curl->multi);
    reactor_disarm(curl->client->reactor, &curl->timer);
    for (size_t fd = 0; fd < curl->socket_slots; fd++)
        if (curl->sockets[fd])
            forget(curl->sockets[fd]);
    free(curl->sockets);
    free(curl);
}
