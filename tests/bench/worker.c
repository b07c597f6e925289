/*
 * bench-worker: a paced worker for the streaming cases. A decode with `"stream":true` gets `max_tokens` events, one each
 * interval, each with the time of its sending in it (`"ns":…`, CLOCK_MONOTONIC); render, prefill and a decode without a
 * stream get a fixed answer each, when the whole request is there.
 *
 * Usage: bench-worker --port N --answers DIR --interval-us N      (DIR holds render.json, prefill.json, decode.json)
 *
 * One thread. Invariant: a connection is reading a request or writing one answer, never both; its timer is armed exactly
 * while it streams.
 */
#include "runtime/timer.h"
#include "samples.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { EVENTS_AT_ONCE = 256, READ_AT_ONCE = 64 * 1024, REQUEST_AT_MOST = 64 * 1024 * 1024, EVENT_AT_MOST = 1024 };

enum leg { RENDER, PREFILL, DECODE, LEGS };

struct answer_text {
    char *bytes; /* head and body */
    size_t length;
};

struct connection {
    struct timer timer; /* first member: the next event of its stream */
    int descriptor;
    char *request; /* NUL-terminated */
    size_t length, capacity;
    uint64_t events_left, events_sent;
    bool wants_usage;
};

static struct {
    int epoll, wake;
    struct timer_set timers;
    int64_t interval_ns;
    struct answer_text answers[LEGS];
    int64_t armed_ns; /* for when `wake` is set; 0: not */
} worker;

static void fail(const char *what)
{
    fprintf(stderr, "bench-worker: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void load_answer(enum leg leg, const char *folder, const char *name)
{
    char path[1024], head[128];
    long size;
    int head_length;
    FILE *file;

    snprintf(path, sizeof path, "%s/%s.json", folder, name);
    file = fopen(path, "r");
    if (!file || fseek(file, 0, SEEK_END) < 0 || (size = ftell(file)) < 0)
        fail(path);
    rewind(file);
    head_length = snprintf(head, sizeof head,
                           "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %ld\r\n\r\n", size);
    worker.answers[leg].length = (size_t)head_length + (size_t)size;
    worker.answers[leg].bytes = malloc(worker.answers[leg].length);
    if (!worker.answers[leg].bytes)
        fail(path);
    memcpy(worker.answers[leg].bytes, head, (size_t)head_length);
    if (fread(worker.answers[leg].bytes + head_length, 1, (size_t)size, file) != (size_t)size)
        fail(path);
    fclose(file);
}

static void hang_up(struct connection *connection)
{
    timer_disarm(&worker.timers, &connection->timer);
    close(connection->descriptor);
    free(connection->request);
    free(connection);
}

/* False when the peer is gone, or takes nothing for ten seconds. */
static bool write_all(struct connection *connection, const char *bytes, size_t length)
{
    while (length) {
        ssize_t sent = send(connection->descriptor, bytes, length, MSG_NOSIGNAL);

        if (sent < 0 && errno == EAGAIN) { /* only a long fixed answer comes here */
            struct pollfd writable = {.fd = connection->descriptor, .events = POLLOUT};

            if (poll(&writable, 1, 10000) != 1)
                return false;
            continue;
        }
        if (sent < 0)
            return false;
        bytes += sent;
        length -= (size_t)sent;
    }
    return true;
}

static bool write_chunk(struct connection *connection, const char *data, int length)
{
    char chunk[EVENT_AT_MOST + 32];
    int size = snprintf(chunk, sizeof chunk, "%x\r\n%.*s\r\n", (unsigned)length, length, data);

    return write_all(connection, chunk, (size_t)size);
}

static const char chunk_head[] =
    "data: {\"id\":\"chatcmpl-bench\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\"model\":\"m\",";

static bool write_event(struct connection *connection)
{
    char event[EVENT_AT_MOST];
    const char *finish = connection->events_left == 1 ? "\"length\"" : "null";
    int length = snprintf(event, sizeof event,
                          "%s\"choices\":[{\"index\":0,\"delta\":{\"content\":\" token\"},\"logprobs\":null,"
                          "\"finish_reason\":%s,\"ns\":%lld}]}\n\n",
                          chunk_head, finish, (long long)now_ns());

    connection->events_left--;
    connection->events_sent++;
    return write_chunk(connection, event, length);
}

static bool write_end(struct connection *connection)
{
    static const char done[] = "data: [DONE]\n\n", last[] = "0\r\n\r\n";
    char usage[EVENT_AT_MOST];
    int length = snprintf(
        usage, sizeof usage,
        "%s\"choices\":[],\"usage\":{\"prompt_tokens\":120,\"total_tokens\":%llu,\"completion_tokens\":%llu,"
        "\"prompt_tokens_details\":{\"cached_tokens\":16}}}\n\n",
        chunk_head, 120 + (unsigned long long)connection->events_sent, (unsigned long long)connection->events_sent);

    if (connection->wants_usage && !write_chunk(connection, usage, length))
        return false;
    return write_chunk(connection, done, sizeof done - 1) && write_all(connection, last, sizeof last - 1);
}

static void event_due(struct timer *timer)
{
    struct connection *connection = (struct connection *)timer;
    int64_t next_ns = timer->deadline_ns + worker.interval_ns;
    bool alive = write_event(connection);

    if (alive && connection->events_left == 0)
        alive = write_end(connection);
    else if (alive)
        alive = timer_arm(&worker.timers, timer, next_ns);
    if (!alive)
        hang_up(connection);
}

/* The streams' first events are spread over the interval, so that they do not all fall on one moment. */
static bool begin_stream(struct connection *connection, const char *body)
{
    static const char head[] =
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";
    static uint32_t streams;
    int64_t phase_ns = (int64_t)((double)(++streams * 2654435769u) / 4294967296.0 * (double)worker.interval_ns);
    const char *events = strstr(body, "\"max_tokens\":");

    connection->events_left = events ? strtoull(events + strlen("\"max_tokens\":"), NULL, 10) : 1;
    connection->events_sent = 0;
    connection->wants_usage = strstr(body, "\"include_usage\":true") != NULL;
    return write_all(connection, head, sizeof head - 1) &&
           timer_arm(&worker.timers, &connection->timer, now_ns() + phase_ns);
}

/* The head ends with its last line end and a NUL: a long body is not searched for a header. */
static bool answer(struct connection *connection, const char *body)
{
    const char *line_end = strchr(connection->request, '\r');
    enum leg leg = DECODE;

    if (memmem(connection->request, (size_t)(line_end - connection->request), "/render ", 8))
        leg = RENDER;
    else if (strcasestr(connection->request, "\r\nx-llm-d-epp-profile: prefill\r\n"))
        leg = PREFILL;
    if (leg == DECODE && strstr(body, "\"stream\":true"))
        return begin_stream(connection, body);
    return write_all(connection, worker.answers[leg].bytes, worker.answers[leg].length);
}

/* Takes one whole request out of what has arrived, if there is one. */
static bool take_request(struct connection *connection)
{
    char *end, *length;
    size_t whole;
    bool alive;

    end = strstr(connection->request, "\r\n\r\n");
    if (!end)
        return true;
    length = strcasestr(connection->request, "\r\ncontent-length:");
    whole = (size_t)(end + 4 - connection->request);
    if (length && length < end)
        whole += strtoull(length + strlen("\r\ncontent-length:"), NULL, 10);
    if (connection->length < whole)
        return whole < REQUEST_AT_MOST;
    end[2] = '\0';
    alive = answer(connection, end + 4);
    connection->length = 0;
    connection->request[0] = '\0';
    return alive;
}

static bool make_room(struct connection *connection)
{
    size_t capacity = connection->capacity ? 2 * connection->capacity : 2048;
    char *request;

    if (connection->length + 1 < connection->capacity)
        return true;
    request = capacity <= REQUEST_AT_MOST ? realloc(connection->request, capacity) : NULL;
    if (!request)
        return false;
    connection->request = request;
    connection->capacity = capacity;
    return true;
}

static void readable(struct connection *connection)
{
    ssize_t got;

    do {
        if (!make_room(connection)) {
            hang_up(connection);
            return;
        }
        got = recv(connection->descriptor, connection->request + connection->length,
                   connection->capacity - connection->length - 1, 0);
        if (got > 0) {
            connection->length += (size_t)got;
            connection->request[connection->length] = '\0';
        }
    } while (got > 0 && connection->length + 1 == connection->capacity);
    if (got == 0 || (got < 0 && errno != EAGAIN) || (connection->length && !take_request(connection)))
        hang_up(connection);
}

static void accept_all(int listener)
{
    for (;;) {
        int one = 1, descriptor = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct connection *connection;
        struct epoll_event event = {.events = EPOLLIN};

        if (descriptor < 0)
            return;
        connection = calloc(1, sizeof *connection);
        if (!connection)
            fail("connection");
        setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        connection->descriptor = descriptor;
        connection->timer.due = event_due;
        event.data.ptr = connection;
        epoll_ctl(worker.epoll, EPOLL_CTL_ADD, descriptor, &event);
    }
}

static int listen_on(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) < 0 || listen(listener, 4096) < 0)
        fail("cannot listen");
    return listener;
}

/* Sets the timer descriptor for the earliest event: epoll's own timeout counts milliseconds, which is too coarse. */
static void set_wake(void)
{
    int64_t now = now_ns(), wait_ns = timer_next_ns(&worker.timers, now), at_ns = wait_ns < 0 ? 0 : now + wait_ns;
    struct itimerspec spec = {.it_value = {.tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000}};

    if (at_ns == worker.armed_ns)
        return;
    worker.armed_ns = at_ns;
    timerfd_settime(worker.wake, TFD_TIMER_ABSTIME, &spec, NULL);
}

static void serve(int listener)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    uint64_t expired;

    for (;;) {
        int count;

        set_wake();
        count = epoll_wait(worker.epoll, events, EVENTS_AT_ONCE, -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr == &worker.wake)
                worker.armed_ns = read(worker.wake, &expired, sizeof expired) < 0 ? worker.armed_ns : 0;
            else if (events[i].data.ptr == NULL)
                accept_all(listener);
            else
                readable(events[i].data.ptr);
        }
        timer_run(&worker.timers, now_ns());
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"port", required_argument, NULL, 'p'},
                                            {"answers", required_argument, NULL, 'a'},
                                            {"interval-us", required_argument, NULL, 'i'},
                                            {0}};
    struct epoll_event on_listener = {.events = EPOLLIN, .data.ptr = NULL};
    struct epoll_event on_wake = {.events = EPOLLIN, .data.ptr = &worker.wake};
    struct rlimit files;
    const char *folder = NULL;
    unsigned long port = 0;
    int listener;

    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'p')
            port = strtoul(optarg, NULL, 10);
        else if (option == 'a')
            folder = optarg;
        else if (option == 'i')
            worker.interval_ns = strtoll(optarg, NULL, 10) * 1000;
        else
            return 2;
    }
    if (port == 0 || port > 65535 || !folder || worker.interval_ns <= 0) {
        fprintf(stderr, "usage: bench-worker --port N --answers DIR --interval-us N\n");
        return 2;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    load_answer(RENDER, folder, "render");
    load_answer(PREFILL, folder, "prefill");
    load_answer(DECODE, folder, "decode");
    worker.epoll = epoll_create1(EPOLL_CLOEXEC);
    worker.wake = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    listener = listen_on((uint16_t)port);
    epoll_ctl(worker.epoll, EPOLL_CTL_ADD, listener, &on_listener);
    epoll_ctl(worker.epoll, EPOLL_CTL_ADD, worker.wake, &on_wake);
    serve(listener);
    return 0;
}
