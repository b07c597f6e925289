/* See listen.h. */
#include "listen.h"

#include <assert.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOST_SIZE = 256, BACKLOG = 4096 };

/* The text, taken apart; an empty host means every address. */
struct listen_text {
    char host[HOST_SIZE];
    unsigned port;
};

struct listen_address {
    struct sockaddr_storage address;
    socklen_t size;
};

static coord_status explain(struct buffer *reason, coord_status status, coord_slice address, const char *what)
{
    if (reason && !buffer_printf(reason, "listen address \"%.*s\": %s", COORD_FMT(address), what))
        return COORD_NO_MEMORY;
    return status;
}

static bool parse_port(coord_slice digits, unsigned *port)
{
    *port = 0;
    for (size_t i = 0; i < digits.size; i++) {
        if (digits.data[i] < '0' || digits.data[i] > '9')
            return false;
        *port = 10 * *port + (unsigned)(digits.data[i] - '0');
        if (*port > 65535)
            return false;
    }
    return digits.size > 0;
}

/* NULL when it is well-formed, else what is wrong. */
static const char *parse(coord_slice text, struct listen_text *parsed)
{
    const char *colon = text.size ? memrchr(text.data, ':', text.size) : NULL;
    coord_slice host;

    if (!colon)
        return "a port is missing (\":8080\", \"127.0.0.1:8080\", \"[::1]:8080\")";
    host = (coord_slice){text.data, (size_t)(colon - text.data)};
    if (!parse_port((coord_slice){colon + 1, text.size - host.size - 1}, &parsed->port))
        return "the port is not a number from 0 to 65535";
    if (host.size > 0 && host.data[0] == '[') {
        if (host.size < 3 || host.data[host.size - 1] != ']')
            return "the brackets are not closed";
        host = (coord_slice){host.data + 1, host.size - 2};
    } else if (host.size > 0 && memchr(host.data, ':', host.size)) {
        return "an IPv6 address must stand in brackets";
    }
    if (host.size >= HOST_SIZE || (host.size > 0 && memchr(host.data, '\0', host.size)))
        return "the host is no name or address";
    if (host.size > 0)
        memcpy(parsed->host, host.data, host.size);
    parsed->host[host.size] = '\0';
    return NULL;
}

static void every_address(unsigned port, int family, struct listen_address *address)
{
    memset(address, 0, sizeof *address);
    if (family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&address->address;

        in6->sin6_family = AF_INET6;
        in6->sin6_addr = in6addr_any;
        in6->sin6_port = htons((uint16_t)port);
        address->size = sizeof *in6;
    } else {
        struct sockaddr_in *in = (struct sockaddr_in *)&address->address;

        in->sin_family = AF_INET;
        in->sin_port = htons((uint16_t)port);
        address->size = sizeof *in;
    }
}

/* A name that has both kinds of addresses gives the IPv4 one, as Go does. */
static const char *look_up(const struct listen_text *text, struct listen_address *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *found = NULL, *best;
    char port[8];
    int error;

    snprintf(port, sizeof port, "%u", text->port);
    error = getaddrinfo(text->host, port, &hints, &found);
    if (error)
        return gai_strerror(error);
    for (best = found; best && best->ai_family != AF_INET; best = best->ai_next)
        continue;
    if (!best)
        best = found;
    assert(best);
    memcpy(&address->address, best->ai_addr, best->ai_addrlen);
    address->size = best->ai_addrlen;
    freeaddrinfo(found);
    return NULL;
}

static bool set_flag(int fd, int level, int option, int value)
{
    return setsockopt(fd, level, option, &value, sizeof value) == 0;
}

/* -1 with errno set. */
static int open_bound(const struct listen_address *address, bool shared)
{
    int family = address->address.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int saved;

    if (fd < 0)
        return -1;
    if (set_flag(fd, SOL_SOCKET, SO_REUSEADDR, 1) && (!shared || set_flag(fd, SOL_SOCKET, SO_REUSEPORT, 1)) &&
        (family != AF_INET6 || set_flag(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0)) &&
        bind(fd, (const struct sockaddr *)&address->address, address->size) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static int open_listening(const struct listen_address *address, bool shared)
{
    int fd = open_bound(address, shared);
    int saved;

    if (fd < 0 || listen(fd, BACKLOG) == 0)
        return fd;
    saved = errno;
    close(fd);
    errno = saved;
    return -1;
}

static void set_port(struct listen_address *address, uint16_t port)
{
    if (address->address.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->address)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&address->address)->sin_port = htons(port);
}

/* Sharing a port would hide that somebody else has it already: one bind without sharing tells. */
static bool is_free(const struct listen_address *address)
{
    int fd = open_listening(address, false);

    if (fd < 0)
        return false;
    close(fd);
    return true;
}

static bool open_all(struct listen_address *address, unsigned port, unsigned count, int *fds)
{
    unsigned opened = 0;
    int saved;

    if (count > 1 && port != 0 && !is_free(address))
        return false;
    for (; opened < count; opened++) {
        fds[opened] = open_listening(address, count > 1);
        if (fds[opened] < 0)
            break;
        if (opened == 0 && port == 0)
            set_port(address, listen_port(fds[0]));
    }
    if (opened == count)
        return true;
    saved = errno;
    while (opened-- > 0)
        close(fds[opened]);
    errno = saved;
    return false;
}

coord_status listen_open(coord_slice text, unsigned count, int *fds, struct buffer *reason)
{
    struct listen_text parsed;
    struct listen_address address = {0};
    const char *problem = parse(text, &parsed);

    if (problem)
        return explain(reason, COORD_INVALID, text, problem);
    if (parsed.host[0]) {
        problem = look_up(&parsed, &address);
        if (problem)
            return explain(reason, COORD_FAIL, text, problem);
        return open_all(&address, parsed.port, count, fds) ? COORD_OK
                                                           : explain(reason, COORD_FAIL, text, strerror(errno));
    }
    every_address(parsed.port, AF_INET6, &address);
    if (open_all(&address, parsed.port, count, fds))
        return COORD_OK;
    if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL && errno != EINVAL)
        return explain(reason, COORD_FAIL, text, strerror(errno));
    every_address(parsed.port, AF_INET, &address); /* a kernel without IPv6 */
    return open_all(&address, parsed.port, count, fds) ? COORD_OK : explain(reason, COORD_FAIL, text, strerror(errno));
}

uint16_t listen_port(int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t size = sizeof address;

    if (getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

uint64_t listen_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return 0;
    if (limit.rlim_cur < limit.rlim_max) {
        struct rlimit raised = {limit.rlim_max, limit.rlim_max};

        if (setrlimit(RLIMIT_NOFILE, &raised) == 0)
            limit = raised;
    }
    return limit.rlim_cur;
}
