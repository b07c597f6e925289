/* See loopback.h. Sends and reads at once, since a server may answer before it has read everything. */
#include "http/loopback.h"

#include "http/direct_body.h"
#include "runtime/clock.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

struct talk {
    int fd;
    coord_slice unsent;
    struct buffer raw;
    size_t limit; /* of `raw` */
    bool ended;
};

static int connect_to(uint16_t port)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0) { /* a connection to oneself does not take long */
        close(fd);
        return -1;
    }
    return fd;
}

/* A server that takes no more may have answered: reading tells. */
static void send_some(struct talk *talk)
{
    ssize_t sent = send(talk->fd, talk->unsent.data, talk->unsent.size, MSG_NOSIGNAL);

    if (sent > 0) {
        talk->unsent.data += sent;
        talk->unsent.size -= (size_t)sent;
    } else if (sent < 0 && errno != EAGAIN && errno != EINTR) {
        talk->unsent.size = 0;
    }
}

/* LOOPBACK_DONE: so far. */
static enum loopback_outcome read_some(struct talk *talk)
{
    char piece[8192];
    ssize_t got = recv(talk->fd, piece, sizeof piece, 0);

    if (got <= 0)
        talk->ended = got == 0 || (errno != EAGAIN && errno != EINTR);
    else if ((size_t)got > talk->limit - talk->raw.size)
        return LOOPBACK_TOO_LONG;
    else if (!buffer_append(&talk->raw, piece, (size_t)got))
        return LOOPBACK_BROKEN;
    return LOOPBACK_DONE;
}

static enum loopback_outcome talk_until(struct talk *talk, int64_t deadline_ns)
{
    enum loopback_outcome outcome = LOOPBACK_DONE;

    while (!talk->ended && outcome == LOOPBACK_DONE) {
        struct pollfd ready = {.fd = talk->fd, .events = (short)(POLLIN | (talk->unsent.size > 0 ? POLLOUT : 0))};
        int64_t left = deadline_ns - clock_ns();

        if (left <= 0)
            return LOOPBACK_TIMEOUT;
        if (poll(&ready, 1, (int)(left / 1000000) + 1) < 0 && errno != EINTR)
            return LOOPBACK_BROKEN;
        if (ready.revents & POLLOUT)
            send_some(talk);
        if (ready.revents & (POLLIN | POLLHUP | POLLERR))
            outcome = read_some(talk);
    }
    return outcome;
}

static bool take_body(const struct answer_head *head, coord_slice bytes, struct loopback_answer *answer)
{
    struct direct_body body;
    coord_slice data;
    const char *reason;
    enum direct_body_step step;

    direct_body_begin(&body, head, false);
    while ((step = direct_body_next(&body, &bytes, &data, &reason)) == BODY_DATA)
        if (!buffer_append_slice(&answer->body, data))
            return false;
    answer->whole = step == BODY_WHOLE || (step == BODY_MORE && direct_body_end(&body, &reason) == BODY_WHOLE);
    return true;
}

/* False when memory is short. */
static bool take_apart(coord_slice raw, struct arena *arena, struct loopback_answer *answer)
{
    struct answer_head head = {0};
    enum answer_line line = ANSWER_MORE;
    const char *at = raw.data, *end = raw.data + raw.size, *stop, *reason;
    bool done = true;

    headers_init(&answer->headers, arena);
    answer_head_begin(&head);
    while (line == ANSWER_MORE && at < end && (stop = memchr(at, '\n', (size_t)(end - at)))) {
        line = answer_head_line(&head, (coord_slice){at, (size_t)(stop + 1 - at)}, &reason);
        at = stop + 1;
    }
    if (line == ANSWER_COMPLETE) {
        answer->status = head.status;
        done = headers_copy(&answer->headers, &head.headers) &&
               take_body(&head, (coord_slice){at, (size_t)(end - at)}, answer);
    }
    answer_head_release(&head);
    return done;
}

enum loopback_outcome loopback_run(uint16_t port, coord_slice request, const struct loopback_limits *limits,
                                   struct arena *arena, struct loopback_answer *answer)
{
    struct talk talk = {.fd = connect_to(port), .unsent = request, .limit = limits->bytes};
    enum loopback_outcome outcome;

    *answer = (struct loopback_answer){.fd = -1};
    if (talk.fd < 0)
        return LOOPBACK_BROKEN;
    outcome = talk_until(&talk, clock_ns() + limits->ns);
    if (outcome == LOOPBACK_TIMEOUT)
        answer->fd = talk.fd;
    else
        close(talk.fd);
    if (!take_apart(buffer_slice(&talk.raw), arena, answer))
        outcome = LOOPBACK_BROKEN;
    buffer_release(&talk.raw);
    return outcome;
}

void loopback_hang_up(struct loopback_answer *answer)
{
    if (answer->fd >= 0)
        close(answer->fd);
    answer->fd = -1;
}

void loopback_release(struct loopback_answer *answer)
{
    loopback_hang_up(answer);
    buffer_release(&answer->body);
}
