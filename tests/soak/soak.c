/*
 * Soaking: many clients at a time against one coordinator and one worker-sim, with clients that leave at random and workers
 * that fail at random, for a bounded time. Every client must get its whole answer or a well-formed error, and at the end
 * the coordinator must hold no more memory and descriptors than after its warm-up.
 *
 *     soak --coordinator PATH --worker-sim PATH [--seconds N] [--streams N] [--reactors N] [--kind load|slow-client|reload]
 *          [--reloads N]
 *
 * With kind `reload` nothing fails, and the configuration changes all the time (reloads.h): every answer must come whole, and
 * from the configuration that its request met.
 *
 * Clients are state machines on one epoll, so that thousands cost nothing. Prints one line of figures; exit 0 when all holds.
 */
#include "reloads.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ROOM = 32768,
    TAIL = 512,
    LONGEST_MS = 60000,
    MAX_MESSAGES = 20,
    WARM_RELOADS = 20,
    IDLE_EACH = 10 + 10 /* connections that a reactor keeps to gateway and render */
};

enum kind { KIND_LOAD, KIND_SLOW, KIND_RELOAD, KIND_COUNT };
static const char *const KINDS[KIND_COUNT] = {"load", "slow-client", "reload"};

static struct {
    const char *coordinator, *sim;
    long seconds, streams, reactors, reloads;
    enum kind kind;
} options = {.seconds = 20, .streams = 500, .reactors = 2, .reloads = 200};

/* What a request asks the worker to do, and what the client may see then. */
enum ending { WHOLE = 1, ERROR_STATUS = 2, ERROR_EVENT = 4, CUT = 8 };
static const struct play {
    const char *fields;
    int endings;
    bool stream;
    unsigned weight;
    bool ordinary; /* also where configurations change: nothing else may go wrong there, nor take long */
} PLAYS[] = {
    {"", WHOLE, true, 40, true},
    {"", WHOLE, false, 15, true},
    /* A piece is a turn of the worker's loop, and those last here: 16 bytes each. */
    {"X-Sim-Fault-Decode: split=16,tokens=4\r\n", WHOLE, true, 4, true},
    {"X-Sim-Fault-Decode: crlf\r\n", WHOLE, true, 3, true},
    {"X-Sim-Fault-Decode: reset-after=300\r\n", ERROR_EVENT | CUT, true, 5},
    {"X-Sim-Fault-Decode: fin-after=300\r\n", ERROR_EVENT | CUT, true, 5},
    {"X-Sim-Fault-Decode: reset-after=50\r\n", ERROR_STATUS | CUT, false, 3},
    {"X-Sim-Fault-Decode: reset-after=0\r\n", ERROR_STATUS | ERROR_EVENT | CUT, true, 3},
    {"X-Sim-Fault-Decode: status=503;busy;retry-after=1\r\n", ERROR_STATUS, true, 3},
    {"X-Sim-Fault-Prefill: status=500\r\n", ERROR_STATUS, true, 3},
    {"X-Sim-Fault-Prefill: reset-after=0\r\n", ERROR_STATUS, true, 3},
    {"X-Sim-Fault-Render: status=429;slow;retry-after=2\r\n", ERROR_STATUS, false, 3},
    {"X-Sim-Fault-Render: fin-after=10\r\n", ERROR_STATUS, true, 3},
    {"X-Sim-Fault-Decode: huge-event=200000\r\n", WHOLE, true, 3},
    {"X-Sim-Fault-Decode: blob=2000000\r\n", WHOLE, true, 1},
};
static const char *const BODIES[] = {
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hello soak\"}]}",
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hello soak\"}],\"stream\":true}",
};

enum state { IDLE, WRITING, READING };

struct stream {
    int fd;
    enum state state;
    const struct play *play;
    char request[1024];
    size_t size, written;
    int64_t began_ms, slow_until_ms;
    size_t leave_after; /* bytes of the answer after which the client leaves; SIZE_MAX: never */
    bool leave_by_reset;
    size_t got;
    char head[2048];
    size_t head_size;
    int status;
    bool head_done, chunked, saw_done, saw_error, saw_last;
    int64_t length, body;
    char tail[TAIL];
    size_t tail_size;
    bool waiting;       /* slow: not looked at for now */
    char size_line[32]; /* of a chunk, as far as it has come */
    size_t size_line_size, chunk_left;
    int chunk_end; /* bytes of the CRLF behind a chunk that are still to come */
    bool last_chunk;
    bool saw_mark[SIDES]; /* kind reload: of whose worker the answer is */
    long applied, asked;  /* and the reloads when it began, and when its head was there */
};

static struct {
    int epoll;
    struct stream *streams;
    unsigned seed, total_weight;
    uint64_t requests, whole, error_statuses, error_events, cuts, left;
    int64_t slowest_ms;
    unsigned messages;
    bool failed, stopping;
} soak;

static unsigned draw(unsigned below)
{
    soak.seed = soak.seed * 1103515245u + 12345u;
    return (soak.seed >> 8) % below;
}

__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...)
{
    va_list list;

    soak.failed = true;
    if (soak.messages++ >= MAX_MESSAGES)
        return;
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
}

/* ---- One client ---- */

static void close_stream(struct stream *stream, bool reset)
{
    struct linger now = {1, 0};

    if (reset)
        setsockopt(stream->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(stream->fd);
    stream->fd = -1;
    stream->state = IDLE;
}

static unsigned weight_of(const struct play *play)
{
    return options.kind == KIND_RELOAD && !play->ordinary ? 0 : play->weight;
}

static const struct play *choose(void)
{
    unsigned at = draw(soak.total_weight);

    for (size_t i = 0;; i++) {
        if (at < weight_of(&PLAYS[i]))
            return &PLAYS[i];
        at -= weight_of(&PLAYS[i]);
    }
}

static void watch(struct stream *stream, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = stream};

    if (epoll_ctl(soak.epoll, operation, stream->fd, &event) != 0)
        wrong("epoll_ctl: %s\n", strerror(errno));
}

static bool begin(struct stream *stream)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(deployed.port)};
    int small = 8192;
    const char *body;

    memset(stream, 0, sizeof *stream);
    stream->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (stream->fd < 0)
        return false;
    if (options.kind == KIND_SLOW)
        setsockopt(stream->fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
    stream->play = choose();
    body = BODIES[stream->play->stream];
    stream->size = (size_t)snprintf(
        stream->request, sizeof stream->request,
        "POST /v1/chat/completions HTTP/1.1\r\nHost: c\r\nConnection: close\r\n%sContent-Length: %zu\r\n\r\n%s",
        stream->play->fields, strlen(body), body);
    stream->leave_after = draw(100) < 15 ? draw(3000) : SIZE_MAX;
    stream->leave_by_reset = draw(2);
    stream->length = -1;
    stream->began_ms = now_ms();
    stream->applied = reloads_applied();
    stream->state = WRITING;
    if (connect(stream->fd, (struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS) {
        close_stream(stream, false);
        return false;
    }
    soak.requests++;
    watch(stream, EPOLL_CTL_ADD, EPOLLOUT);
    return true;
}

static void read_head(struct stream *stream)
{
    const char *value;

    stream->head_done = true;
    stream->asked = reloads_asked();
    if (sscanf(stream->head, "HTTP/1.1 %d", &stream->status) != 1)
        wrong("no status line: %.80s\n", stream->head);
    value = header_in(stream->head, "content-length", NULL);
    if (value)
        stream->length = strtoll(value, NULL, 10);
    stream->chunked = header_in(stream->head, "transfer-encoding", NULL) != NULL;
    if (!header_in(stream->head, "x-request-id", NULL))
        wrong("an answer without x-request-id: %s\n", stream->head);
}

static void note_body(struct stream *stream, const char *data, size_t size)
{
    char window[2 * TAIL + 1];
    size_t kept = stream->tail_size, more = size < TAIL ? size : TAIL;

    stream->body += (int64_t)size;
    memcpy(window, stream->tail, kept);
    memcpy(window + kept, data + size - more, more);
    window[kept + more] = '\0';
    stream->saw_done = stream->saw_done || memmem(window, kept + more, "data: [DONE]", 12);
    stream->saw_error = stream->saw_error || memmem(window, kept + more, "\"error\":{", 9);
    for (int i = 0; i < SIDES; i++)
        stream->saw_mark[i] |= memmem(window, kept + more, reload_marks[i], strlen(reload_marks[i])) != NULL;
    stream->tail_size = kept + more < TAIL ? kept + more : TAIL;
    memcpy(stream->tail, window + kept + more - stream->tail_size, stream->tail_size);
}

/* One byte that is no chunk's data. */
static void note_framing(struct stream *stream, char byte)
{
    if (stream->chunk_end > 0) {
        stream->chunk_end--;
        return;
    }
    if (stream->size_line_size < sizeof stream->size_line - 1)
        stream->size_line[stream->size_line_size++] = byte;
    if (byte != '\n')
        return;
    stream->size_line[stream->size_line_size] = '\0';
    if (stream->last_chunk) {
        stream->saw_last = stream->size_line_size == 2;
        stream->size_line_size = 0;
        return;
    }
    stream->chunk_left = strtoul(stream->size_line, NULL, 16);
    stream->last_chunk = stream->chunk_left == 0;
    stream->chunk_end = stream->last_chunk ? 0 : 2;
    stream->size_line_size = 0;
}

static void note_chunks(struct stream *stream, const char *data, size_t size)
{
    while (size > 0) {
        size_t take = stream->chunk_left < size ? stream->chunk_left : size;

        if (take == 0) {
            note_framing(stream, *data);
            take = 1;
        } else {
            note_body(stream, data, take);
            stream->chunk_left -= take;
        }
        data += take;
        size -= take;
    }
}

/* What the client saw when the connection ended. */
static enum ending ending_of(const struct stream *stream)
{
    bool whole = stream->chunked ? stream->saw_last : stream->length >= 0 && stream->body == stream->length;

    if (!stream->head_done || !whole)
        return CUT;
    if (stream->status != 200)
        return stream->saw_error || stream->body > 0 ? ERROR_STATUS : CUT;
    if (stream->play->stream && stream->saw_error)
        return stream->saw_done ? 0 : ERROR_EVENT;
    return stream->play->stream && !stream->saw_done ? 0 : WHOLE;
}

/* It comes from one configuration, one that was in use between the request and its answer. */
static void check_side(const struct stream *stream)
{
    if (stream->saw_mark[0] == stream->saw_mark[1])
        wrong("an answer of %s configuration: %.*s\n", stream->saw_mark[0] ? "more than one" : "no",
              (int)stream->tail_size, stream->tail);
    else if (stream->applied == stream->asked && !stream->saw_mark[stream->applied % SIDES])
        wrong("an answer of the other configuration than number %ld\n", stream->applied);
}

static void finish(struct stream *stream, bool reset)
{
    enum ending ending = ending_of(stream);
    int64_t took = now_ms() - stream->began_ms;

    if (took > soak.slowest_ms)
        soak.slowest_ms = took;
    soak.whole += ending == WHOLE;
    soak.error_statuses += ending == ERROR_STATUS;
    soak.error_events += ending == ERROR_EVENT;
    soak.cuts += ending == CUT;
    if (!soak.stopping && !(stream->play->endings & (int)ending))
        wrong("%s%s: ending %d is not one of %d; status %d, %lld bytes of %lld, %s; tail: %.*s\n",
              stream->play->stream ? "stream " : "", stream->play->fields, (int)ending, stream->play->endings,
              stream->status, (long long)stream->body, (long long)stream->length, reset ? "RST" : "FIN",
              (int)stream->tail_size, stream->tail);
    if (options.kind == KIND_RELOAD && ending == WHOLE)
        check_side(stream);
    close_stream(stream, false);
}

static void on_writable(struct stream *stream)
{
    ssize_t sent = send(stream->fd, stream->request + stream->written, stream->size - stream->written, MSG_NOSIGNAL);

    if (sent < 0 && errno != EAGAIN) {
        if (!soak.stopping)
            wrong("the request was not taken: %s\n", strerror(errno));
        close_stream(stream, false);
        return;
    }
    stream->written += sent > 0 ? (size_t)sent : 0;
    if (stream->written < stream->size)
        return;
    stream->state = READING;
    if (stream->leave_after < 100) { /* before there is an answer */
        soak.left++;
        close_stream(stream, stream->leave_by_reset);
        return;
    }
    watch(stream, EPOLL_CTL_MOD, EPOLLIN);
}

static void take(struct stream *stream, const char *data, size_t size)
{
    stream->got += size;
    while (size > 0 && !stream->head_done) {
        if (stream->head_size == sizeof stream->head - 1) {
            wrong("a head without end\n");
            return;
        }
        stream->head[stream->head_size++] = *data++;
        size--;
        if (stream->head_size >= 4 && memcmp(stream->head + stream->head_size - 4, "\r\n\r\n", 4) == 0)
            read_head(stream);
    }
    if (size > 0)
        (stream->chunked ? note_chunks : note_body)(stream, data, size);
}

static void on_readable(struct stream *stream)
{
    static char room[ROOM];
    size_t want = options.kind == KIND_SLOW ? 4096 : sizeof room;
    ssize_t got = recv(stream->fd, room, want, 0);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        finish(stream, got < 0);
        return;
    }
    /* Pieces of TAIL at most, so that nothing is missed between two windows. */
    for (ssize_t at = 0; at < got && !soak.failed; at += TAIL)
        take(stream, room + at, (size_t)(got - at < TAIL ? got - at : TAIL));
    if (stream->got >= stream->leave_after) {
        soak.left++;
        close_stream(stream, stream->leave_by_reset);
        return;
    }
    if (options.kind == KIND_SLOW && draw(4) == 0) {
        stream->waiting = true;
        stream->slow_until_ms = now_ms() + 50 + draw(200);
        watch(stream, EPOLL_CTL_MOD, 0);
    }
}

/* ---- All of them ---- */

static void turn(int timeout)
{
    struct epoll_event events[256];
    int count = epoll_wait(soak.epoll, events, 256, timeout);

    for (int i = 0; i < count; i++) {
        struct stream *stream = events[i].data.ptr;

        if (stream->state == WRITING)
            on_writable(stream);
        else if (stream->state == READING && !stream->waiting)
            on_readable(stream);
        else if (stream->waiting && events[i].events & (EPOLLERR | EPOLLHUP)) {
            stream->waiting = false;
            on_readable(stream);
        }
    }
}

/* Begins what is idle while `go_on`; wakes the slow; gives up on the stuck. The number of those that run. */
static size_t look(bool go_on, size_t most)
{
    size_t running = 0;
    int64_t now = now_ms();

    for (long i = 0; i < options.streams; i++) {
        struct stream *stream = &soak.streams[i];

        if (stream->state == IDLE && go_on && (size_t)i < most && !begin(stream))
            continue;
        if (stream->state == IDLE)
            continue;
        running++;
        if (stream->waiting && now >= stream->slow_until_ms) {
            stream->waiting = false;
            watch(stream, EPOLL_CTL_MOD, EPOLLIN);
        }
        if (now - stream->began_ms > LONGEST_MS) {
            wrong("a client waits for %d s: %s status %d, %lld bytes\n", LONGEST_MS / 1000, stream->play->fields,
                  stream->status, (long long)stream->body);
            close_stream(stream, false);
        }
    }
    return running;
}

static void drive(int64_t ms, size_t most)
{
    int64_t until = now_ms() + ms;

    while (now_ms() < until && soak.messages < MAX_MESSAGES) {
        look(true, most);
        reloads_turn();
        turn(5);
    }
    while (look(false, most) > 0 || !reloads_over()) {
        reloads_turn();
        turn(5);
    }
}

static bool parse_kind(const char *name)
{
    for (int i = 0; i < KIND_COUNT; i++)
        if (strcmp(name, KINDS[i]) == 0) {
            options.kind = (enum kind)i;
            return true;
        }
    return false;
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--coordinator") == 0)
            options.coordinator = argv[i + 1];
        else if (strcmp(argv[i], "--worker-sim") == 0)
            options.sim = argv[i + 1];
        else if (strcmp(argv[i], "--seconds") == 0)
            options.seconds = strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--streams") == 0)
            options.streams = strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--reactors") == 0)
            options.reactors = strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--reloads") == 0)
            options.reloads = strtol(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--kind") != 0 || !parse_kind(argv[i + 1]))
            return false;
    }
    return argc % 2 == 1 && options.seconds > 0 && options.seconds <= 86400 && options.streams > 0 &&
           options.streams <= 50000 && options.reactors >= 0 && options.reloads > 0;
}

static int64_t books(const char *member)
{
    return options.kind == KIND_RELOAD ? reloads_count(member) : sim_count(member);
}

/* A decode that was sent elsewhere than its prefill would be a miss. */
static void check_books(void)
{
    UNTIL(books("active_requests") <= 2); /* the question itself is one */
    if (books("altered") != 0 || books("misses") != 0 || books("token_drift") != 0 || books("bad_handshakes") != 0)
        wrong("worker-sim's books: altered %lld, misses %lld, drift %lld, bad handshakes %lld\n",
              (long long)books("altered"), (long long)books("misses"), (long long)books("token_drift"),
              (long long)books("bad_handshakes"));
}

/* Connections of the port that the coordinator has not closed. */
static size_t client_connections(void)
{
    struct text table = {0};
    char *rest, *line;
    size_t count = 0;

    file_read("/proc/net/tcp", &table);
    rest = table.data;
    while ((line = strsep(&rest, "\n")) != NULL) {
        unsigned port = 0, state = 0;

        if (sscanf(line, " %*d: %*8x:%4x %*8x:%*4x %2x", &port, &state) == 2 && port == deployed.port &&
            (state == 1 || state == 8))
            count++;
    }
    text_free(&table);
    return count;
}

/*
 * What the process may have at the end, by what it had in the warm-up: the most of that time, since how much of it the C library
 * has given back at its end is chance. A sanitizer keeps what was freed: there it goes by what was resident at the warm-up's end.
 */
static size_t most_memory(size_t rss_before, size_t peak_before)
{
    size_t margin = options.kind == KIND_RELOAD ? 4096 : 16384;

    return margin + (sanitized() ? 3 * rss_before + rss_before / 2 : peak_before + peak_before / 4);
}

static void check_what_is_left(size_t most, size_t descriptors_before, size_t *rss, size_t *descriptors)
{
    int64_t until = now_ms() + PATIENCE_MS;

    do {
        *descriptors = settled_descriptors();
    } while (*descriptors > descriptors_before && now_ms() < until);
    *rss = process_rss_kib(&deployed.coordinator);
    if (client_connections() != 0)
        wrong("%zu connections of clients are left\n", client_connections());
    if (*descriptors > descriptors_before)
        wrong("descriptors: %zu after the warm-up, %zu at the end\n", descriptors_before, *descriptors);
    if (*rss > most)
        wrong("memory: %zu KiB at the end, and at most %zu by the warm-up's\n", *rss, most);
    if (metric_sum("request_running") != 0 || metric_sum("step_running") != 0)
        wrong("the gauges of what runs: requests %g, steps %g\n", metric_sum("request_running"),
              metric_sum("step_running"));
}

static void start(void)
{
    char runtime[64];

    if (options.kind == KIND_RELOAD) {
        reloads_deploy(options.reactors);
        return;
    }
    snprintf(runtime, sizeof runtime, "  reactors: %ld", options.reactors);
    deploy(&(struct plan){.runtime = runtime,
                          .gateway = "  max_idle_conns_per_host: 10",
                          .steps = "    - type: render\n      params: {address: \"@\", max_idle_conns_per_host: 10}\n  "
                                   "  - type: prefill\n    - type: decode\n",
                          .top = "log_level: 2",
                          .sim_flags = options.kind == KIND_SLOW
                                           ? (const char *const[]){"--tokens", "300", NULL}
                                           : (const char *const[]){"--event-interval", "20", "--tokens", "40", NULL}});
}

static void run(void **state)
{
    size_t rss_before, most, rss, descriptors_before, descriptors;
    int64_t began, cpu;

    (void)state;
    start();
    /* The warm-up is as wide as the rest: what pools and arenas keep is then there. */
    if (options.kind == KIND_RELOAD)
        reloads_begin(WARM_RELOADS, 2000);
    drive(sanitized() ? 5000 : 3000, (size_t)options.streams);
    rss_before = process_rss_kib(&deployed.coordinator);
    most = most_memory(rss_before, process_peak_kib(&deployed.coordinator));
    pause_ms(4500); /* kept connections to workers are closed by then, or will be at the end, too */
    descriptors_before = settled_descriptors();
    soak.requests = soak.whole = soak.error_statuses = soak.error_events = soak.cuts = soak.left = 0;
    soak.slowest_ms = 0;
    began = now_ms();
    cpu = process_cpu_ms(&deployed.coordinator);
    if (options.kind == KIND_RELOAD)
        reloads_begin(options.reloads, options.seconds * 1000);
    drive(options.seconds * 1000, (size_t)options.streams);
    cpu = process_cpu_ms(&deployed.coordinator) - cpu;
    began = now_ms() - began;
    check_books();
    if (options.kind == KIND_RELOAD && reloads_problem())
        wrong("%s\n", reloads_problem());
    check_what_is_left(most, descriptors_before + (size_t)options.reactors * IDLE_EACH, &rss, &descriptors);
    assert_no_report(&deployed.coordinator);
    printf(
        "soak: %s, %ld streams, %ld reactors, %.1f s: %s%llu requests (%.0f/s), %llu whole, %llu error statuses, %llu "
        "error events, %llu cut, %llu clients left; "
        "slowest %lld ms; cpu %.0f us a request; rss %zu -> %zu KiB, descriptors %zu -> %zu: %s\n",
        KINDS[options.kind], options.streams, options.reactors, (double)began / 1000,
        options.kind == KIND_RELOAD ? reloads_summary() : "", (unsigned long long)soak.requests,
        (double)soak.requests * 1000 / (double)began, (unsigned long long)soak.whole,
        (unsigned long long)soak.error_statuses, (unsigned long long)soak.error_events, (unsigned long long)soak.cuts,
        (unsigned long long)soak.left, (long long)soak.slowest_ms,
        soak.requests ? (double)cpu * 1000 / (double)soak.requests : 0, rss_before, rss, descriptors_before,
        descriptors, soak.failed ? "FAILED" : "good");
    fflush(stdout);
    if (soak.failed)
        fail();
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {TEST(run)};
    struct rlimit limit;

    if (!parse(argc, argv)) {
        fprintf(stderr, "usage: soak [--coordinator PATH] [--worker-sim PATH] [--seconds N] [--streams N] [--reactors "
                        "N] [--kind load|slow-client|reload] [--reloads N]\n");
        return 2;
    }
    if (options.coordinator)
        setenv("COORDINATOR_BIN", options.coordinator, 1);
    if (options.sim)
        setenv("WORKER_SIM_BIN", options.sim, 1);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
    soak.seed = 1;
    for (size_t i = 0; i < sizeof PLAYS / sizeof *PLAYS; i++)
        soak.total_weight += weight_of(&PLAYS[i]);
    soak.streams = calloc((size_t)options.streams, sizeof *soak.streams);
    soak.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!soak.streams || soak.epoll < 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
