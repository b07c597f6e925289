/* See streams.h. A stream is idle, short or long; one timer descriptor wakes the ramp and the borders of the window. */
#include "streams.h"

#include "account.h"
#include "answer.h"
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

enum { READ_AT_ONCE = 64 * 1024, EVENTS_AT_ONCE = 256, LINE_AT_MOST = 1024, TICK_NS = 1000000 };

enum { SHORT_AT_ONCE = 256 }; /* short streams that run at the same time */

struct run;

struct stream {
    struct run *run;
    int descriptor;
    uint64_t events;
    bool done_seen;
    struct answer answer;
    size_t line_length;
    char line[LINE_AT_MOST];
};

enum window { BEFORE, WITHIN, MEMORY_TAKEN, AFTER };

struct run {
    const struct streams_plan *plan;
    struct streams_result *result;
    struct stream *streams;
    int epoll, ticks;
    bool is_long; /* the long streams have begun */
    size_t started, ended;
    int64_t now_ns; /* when the bytes at hand were read */
    int64_t began_ns;
    enum window window;
    int64_t cpu_from_ns;
    bool broken;
    char scratch[READ_AT_ONCE];
};

static void complain(struct run *run, const char *what, int number)
{
    run->broken = true;
    if (!run->result->first_error[0])
        snprintf(run->result->first_error, sizeof run->result->first_error, "%s (%d)", what, number);
}

static void line_complete(struct stream *stream)
{
    struct run *run = stream->run;
    const char *stamp;

    stream->line[stream->line_length] = '\0';
    if (strcmp(stream->line, "data: [DONE]") == 0)
        stream->done_seen = true;
    stamp = strstr(stream->line, "\"ns\":");
    if (!stamp)
        return;
    stream->events++;
    if (run->window == BEFORE || run->window == AFTER)
        return;
    run->result->events++;
    samples_add(&run->result->delay, (double)(run->now_ns - strtoll(stamp + 5, NULL, 10)) / 1e3);
}

static void take_body(void *context, const char *bytes, size_t length)
{
    struct stream *stream = context;

    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '\n') {
            line_complete(stream);
            stream->line_length = 0;
        } else if (bytes[i] != '\r' && stream->line_length + 1 < LINE_AT_MOST) {
            stream->line[stream->line_length++] = bytes[i];
        }
    }
}

static void start_stream(struct run *run, struct stream *stream)
{
    const char *request = run->is_long ? run->plan->long_request : run->plan->short_request;
    size_t length = run->is_long ? run->plan->long_length : run->plan->short_length;

    answer_begin(&stream->answer);
    stream->events = 0;
    stream->done_seen = false;
    stream->line_length = 0;
    run->started++;
    /* A request of a few hundred bytes always fits into an empty socket buffer. */
    if (send(stream->descriptor, request, length, MSG_NOSIGNAL) != (ssize_t)length)
        complain(run, "cannot send a request", errno);
}

static void stream_ended(struct run *run, struct stream *stream, enum answer_progress progress)
{
    uint64_t wanted = run->is_long ? run->plan->long_events : run->plan->short_events;

    run->ended++;
    if (progress == ANSWER_BROKEN)
        complain(run, "a stream was cut or is no HTTP", (int)stream->events);
    else if (stream->answer.status != 200)
        complain(run, "status", stream->answer.status);
    else if (stream->events != wanted || !stream->done_seen)
        complain(run, "events of a stream", (int)stream->events);
    else
        run->result->complete += run->is_long;
    if (!run->is_long && run->started < run->plan->streams)
        start_stream(run, &run->streams[run->started]);
}

static void readable(struct run *run, struct stream *stream)
{
    ssize_t got = recv(stream->descriptor, run->scratch, sizeof run->scratch, 0);
    enum answer_progress progress;

    if (got < 0 && errno == EAGAIN)
        return;
    run->now_ns = now_ns();
    progress = got > 0 ? answer_feed(&stream->answer, run->scratch, (size_t)got, take_body, stream)
                       : answer_closed(&stream->answer);
    if (got <= 0)
        epoll_ctl(run->epoll, EPOLL_CTL_DEL, stream->descriptor, NULL);
    if (progress != ANSWER_MORE)
        stream_ended(run, stream, progress);
}

static int64_t target_cpu_ns(const struct run *run)
{
    return run->plan->target ? account_cpu_ns(run->plan->target) : -1;
}

static void move_window(struct run *run, int64_t passed_ns)
{
    const struct streams_plan *plan = run->plan;
    int64_t from_ns = plan->ramp_ns + plan->window_after_ns;

    if (run->window == BEFORE && passed_ns >= from_ns) {
        run->window = WITHIN;
        run->cpu_from_ns = target_cpu_ns(run);
    }
    if (run->window == WITHIN && passed_ns >= from_ns + plan->window_ns / 2) {
        run->window = MEMORY_TAKEN;
        if (plan->target)
            run->result->memory = account_memory(plan->target);
    }
    if (run->window == MEMORY_TAKEN && passed_ns >= from_ns + plan->window_ns) {
        int64_t cpu_ns = target_cpu_ns(run);

        run->window = AFTER;
        run->result->cpu_ns = cpu_ns < 0 ? -1 : cpu_ns - run->cpu_from_ns;
    }
}

static void tick(struct run *run)
{
    uint64_t expired;
    int64_t passed_ns = now_ns() - run->began_ns;

    if (read(run->ticks, &expired, sizeof expired) < 0 || !run->is_long)
        return;
    while (run->started < run->plan->streams &&
           passed_ns >= run->plan->ramp_ns / (int64_t)run->plan->streams * (int64_t)run->started)
        start_stream(run, &run->streams[run->started]);
    move_window(run, passed_ns);
}

/* Until all streams have ended. */
static bool loop(struct run *run)
{
    struct epoll_event events[EVENTS_AT_ONCE];

    while (run->ended < run->plan->streams) {
        int count = epoll_wait(run->epoll, events, EVENTS_AT_ONCE, 1000);

        for (int i = 0; i < count; i++) {
            if (events[i].data.ptr)
                readable(run, events[i].data.ptr);
            else
                tick(run);
        }
        if (now_ns() > run->plan->deadline_ns) {
            complain(run, "deadline passed, streams ended", (int)run->ended);
            return false;
        }
    }
    return true;
}

static bool connect_all(struct run *run)
{
    for (size_t i = 0; i < run->plan->streams; i++) {
        struct stream *stream = &run->streams[i];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = stream};

        stream->run = run;
        stream->descriptor = load_connect(run->plan->port);
        if (stream->descriptor < 0 || epoll_ctl(run->epoll, EPOLL_CTL_ADD, stream->descriptor, &event) < 0) {
            complain(run, "cannot connect", errno);
            return false;
        }
    }
    return true;
}

static bool short_round(struct run *run)
{
    for (size_t i = 0; i < SHORT_AT_ONCE && i < run->plan->streams; i++)
        start_stream(run, &run->streams[i]);
    return loop(run) && !run->broken;
}

static bool long_round(struct run *run)
{
    run->is_long = true;
    run->started = run->ended = 0;
    run->began_ns = now_ns();
    return loop(run);
}

bool streams_run(const struct streams_plan *plan, struct streams_result *result)
{
    struct itimerspec period = {.it_interval.tv_nsec = TICK_NS, .it_value.tv_nsec = TICK_NS};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
    struct run *run = calloc(1, sizeof *run);
    bool whole;

    if (!run || !(run->streams = calloc(plan->streams, sizeof *run->streams)))
        abort();
    *result = (struct streams_result){.cpu_ns = -1, .memory = -1};
    run->plan = plan;
    run->result = result;
    for (size_t i = 0; i < plan->streams; i++)
        run->streams[i].descriptor = -1;
    run->epoll = epoll_create1(EPOLL_CLOEXEC);
    run->ticks = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    timerfd_settime(run->ticks, 0, &period, NULL);
    epoll_ctl(run->epoll, EPOLL_CTL_ADD, run->ticks, &event);
    whole = connect_all(run) && short_round(run) && long_round(run) && !run->broken;
    for (size_t i = 0; i < plan->streams; i++)
        if (run->streams[i].descriptor >= 0)
            close(run->streams[i].descriptor);
    close(run->ticks);
    close(run->epoll);
    free(run->streams);
    free(run);
    return whole;
}
