/* See load.h. */
#include "load.h"

#include "account.h"
#include "answer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READ_AT_ONCE = 256 * 1024, EVENTS_AT_ONCE = 64 };

struct connection {
    int descriptor;
    bool wants_write;
    size_t sent;
    int64_t began_ns;
    struct answer answer;
};

struct run {
    const struct load_plan *plan;
    struct load_result *result;
    int epoll;
    uint64_t completed;
    int64_t counted_from_ns, cpu_from_ns;
    char *scratch;
};

int load_connect(uint16_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int one = 1, descriptor = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (descriptor < 0)
        return -1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0) {
        close(descriptor);
        return -1;
    }
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fcntl(descriptor, F_SETFL, O_NONBLOCK);
    return descriptor;
}

char *load_request_new(const char *path, const char *phase, const char *body, size_t body_length, size_t *length)
{
    char head[1024];
    int head_length =
        snprintf(head, sizeof head,
                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: */*\r\n"
                 "Content-Type: application/json\r\n%s%s%sContent-Length: %zu\r\n\r\n",
                 path, phase ? "x-llm-d-epp-profile: " : "", phase ? phase : "", phase ? "\r\n" : "", body_length);
    char *request = malloc((size_t)head_length + body_length + 1);

    if (!request)
        abort();
    memcpy(request, head, (size_t)head_length);
    memcpy(request + head_length, body, body_length);
    *length = (size_t)head_length + body_length;
    request[*length] = '\0';
    return request;
}

static void complain(struct run *run, const char *what, int number)
{
    run->result->errors++;
    if (!run->result->first_error[0])
        snprintf(run->result->first_error, sizeof run->result->first_error, "%s (%d)", what, number);
}

static void watch(struct run *run, struct connection *connection, bool write)
{
    struct epoll_event event = {.events = EPOLLIN | (write ? EPOLLOUT : 0u), .data.ptr = connection};

    if (connection->wants_write == write)
        return;
    connection->wants_write = write;
    epoll_ctl(run->epoll, EPOLL_CTL_MOD, connection->descriptor, &event);
}

static bool open_connection(struct run *run, struct connection *connection)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};

    connection->descriptor = load_connect(run->plan->port);
    connection->wants_write = false;
    if (connection->descriptor < 0) {
        complain(run, "cannot connect", errno);
        return false;
    }
    return epoll_ctl(run->epoll, EPOLL_CTL_ADD, connection->descriptor, &event) == 0;
}

/* False when the peer has gone. */
static bool send_rest(struct run *run, struct connection *connection)
{
    const struct load_plan *plan = run->plan;

    while (connection->sent < plan->request_length) {
        ssize_t sent = send(connection->descriptor, plan->request + connection->sent,
                            plan->request_length - connection->sent, MSG_NOSIGNAL);

        if (sent < 0) {
            watch(run, connection, errno == EAGAIN);
            return errno == EAGAIN;
        }
        connection->sent += (size_t)sent;
    }
    watch(run, connection, false);
    return true;
}

static bool begin_request(struct run *run, struct connection *connection)
{
    connection->sent = 0;
    connection->began_ns = now_ns();
    answer_begin(&connection->answer);
    return send_rest(run, connection);
}

static bool reconnect(struct run *run, struct connection *connection)
{
    close(connection->descriptor);
    return open_connection(run, connection) && begin_request(run, connection);
}

static void start_counting(struct run *run)
{
    run->result->errors = 0;
    run->counted_from_ns = now_ns();
    run->cpu_from_ns = run->plan->target ? account_cpu_ns(run->plan->target) : -1;
}

static void stop_counting(struct run *run)
{
    int64_t cpu_ns = run->plan->target ? account_cpu_ns(run->plan->target) : -1;

    run->result->wall_ns = now_ns() - run->counted_from_ns;
    run->result->cpu_ns = cpu_ns < 0 || run->cpu_from_ns < 0 ? -1 : cpu_ns - run->cpu_from_ns;
}

/* One answer is complete. False when that was the last one to count. */
static bool completed(struct run *run, struct connection *connection)
{
    const struct answer *answer = &connection->answer;

    if (answer->status != 200)
        complain(run, "status", answer->status);
    else if (run->plan->answer_length >= 0 && answer->body_bytes != (uint64_t)run->plan->answer_length)
        complain(run, "length of the answer", (int)answer->body_bytes);
    if (run->completed >= run->plan->warm_up) {
        run->result->requests++;
        samples_add(&run->result->latency, (double)(now_ns() - connection->began_ns) / 1e3);
    }
    if (++run->completed == run->plan->warm_up)
        start_counting(run);
    return run->completed < run->plan->warm_up + run->plan->requests;
}

/* False when the run is over. */
static bool readable(struct run *run, struct connection *connection)
{
    ssize_t got = recv(connection->descriptor, run->scratch, READ_AT_ONCE, 0);
    enum answer_progress progress;

    if (got < 0 && errno == EAGAIN)
        return true;
    progress = got > 0 ? answer_feed(&connection->answer, run->scratch, (size_t)got, NULL, NULL)
                       : answer_closed(&connection->answer);
    if (progress == ANSWER_MORE)
        return true;
    if (progress == ANSWER_BROKEN) {
        complain(run, got > 0 ? "no HTTP answer" : "connection closed within a request", (int)got);
        if (run->result->errors > 1000)
            return false;
        return reconnect(run, connection);
    }
    if (!completed(run, connection))
        return false;
    if (got <= 0 || connection->answer.closes || connection->sent < run->plan->request_length)
        return reconnect(run, connection);
    return begin_request(run, connection) || reconnect(run, connection);
}

static bool serve(struct run *run, const struct epoll_event *event)
{
    struct connection *connection = event->data.ptr;

    if ((event->events & EPOLLOUT) && !send_rest(run, connection))
        return reconnect(run, connection);
    if (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        return readable(run, connection);
    return true;
}

static bool loop(struct run *run)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    uint64_t all = run->plan->warm_up + run->plan->requests;

    while (now_ns() < run->plan->deadline_ns) {
        int count = epoll_wait(run->epoll, events, EVENTS_AT_ONCE, 1000);

        for (int i = 0; i < count; i++)
            if (!serve(run, &events[i]))
                return run->completed >= all;
    }
    complain(run, "deadline passed", 0);
    return false;
}

bool load_run(const struct load_plan *plan, struct load_result *result)
{
    struct connection *connections = calloc(plan->connections, sizeof *connections);
    struct run run = {.plan = plan, .result = result, .scratch = malloc(READ_AT_ONCE)};
    bool whole = true;
    size_t opened = 0;

    if (!connections || !run.scratch)
        abort();
    *result = (struct load_result){.cpu_ns = -1};
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (plan->warm_up == 0)
        start_counting(&run);
    while (whole && opened < plan->connections) {
        whole = open_connection(&run, &connections[opened]);
        opened += whole;
    }
    for (size_t i = 0; whole && i < opened; i++)
        whole = begin_request(&run, &connections[i]);
    whole = whole && loop(&run);
    stop_counting(&run);
    for (size_t i = 0; i < opened; i++)
        if (connections[i].descriptor >= 0)
            close(connections[i].descriptor);
    close(run.epoll);
    free(run.scratch);
    free(connections);
    return whole;
}
