/*
 * The step `hold-queue`: a request waits until somebody outside lets it in, by way of Redis.
 *
 * Its ticket is its id. It is put at the end of the list `queue`; whoever admits takes tickets from there and pushes anything
 * to the list `queue:TICKET`, which the request waits for (BLPOP). Without that it is refused once `timeout` is over.
 * Each waiting request has a connection of its own through hiredis' asynchronous interface. hiredis says which readiness it
 * wants next, and coord_wait_fd parks the request until it is there: straight-line code, and the reactor never blocks.
 * What a request leaves behind is tidied up after its end, however it ended.
 */
#define _POSIX_C_SOURCE 200809L /* getaddrinfo, clock_gettime, strndup beside plain C11 */
#include <coordinator/background.h>
#include <coordinator/plugin.h>
#include <coordinator/wait.h>

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include <netdb.h>
#include <stdlib.h>
#include <time.h>

enum { CLOSED = 0, OPEN = 1 }; /* as in `failure_choices` */
static const char *const failure_choices[] = {"closed", "open", NULL};
static const int64_t TIDY_NS = 2000000000;

struct hold {
    char *redis;      /* as configured: unix:/PATH or HOST:PORT */
    char address[64]; /* HOST in numbers */
    int port;
    char *queue, *password; /* the password may be NULL */
    int64_t timeout, status;
    int32_t on_failure;
};

static const coord_param params[] = {
    {COORD_PARAM(STRING, "redis", "host:port, or unix:/path of its socket. Names are looked up at the start."),
     .fallback = "127.0.0.1:6379"},
    {COORD_PARAM(SECRET, "password", "For Redis' AUTH.")},
    {COORD_PARAM(STRING, "queue", "The list that tickets are put on."), .fallback = "hold"},
    {COORD_PARAM(DURATION, "timeout", "How long a request may wait."), .fallback = "30s", .minimum = 1000000,
     .maximum = INT64_MAX},
    {COORD_PARAM(INT, "status", "What a request gets that was not let in: 429 or 503."), .fallback = "429",
     .minimum = 429, .maximum = 503},
    {COORD_PARAM(ENUM, "on_failure", "Without Redis: refuse with a 503 (closed) or let the request go on (open)."),
     .fallback = "closed", .choices = failure_choices},
};

/* ---- A connection to Redis, on a fiber ---- */

struct line {
    redisAsyncContext *redis; /* NULL: it is closed */
    int32_t wants;            /* COORD_READABLE, COORD_WRITABLE */
};

static void want_read(void *line) { ((struct line *)line)->wants |= COORD_READABLE; }
static void want_no_read(void *line) { ((struct line *)line)->wants &= ~COORD_READABLE; }
static void want_write(void *line) { ((struct line *)line)->wants |= COORD_WRITABLE; }
static void want_no_write(void *line) { ((struct line *)line)->wants &= ~COORD_WRITABLE; }
static void is_closed(void *line) { ((struct line *)line)->redis = NULL; } /* hiredis frees it right after */

/* Begins to connect. False: not possible. */
static bool line_open(struct line *line, const struct hold *hold)
{
    redisAsyncContext *redis = strncmp(hold->redis, "unix:", 5) == 0 ? redisAsyncConnectUnix(hold->redis + 5)
                                                                     : redisAsyncConnect(hold->address, hold->port);

    if (!redis || redis->err) {
        if (redis)
            redisAsyncFree(redis);
        return false;
    }
    *line = (struct line){.redis = redis};
    redis->ev.data = line;
    redis->ev.addRead = want_read;
    redis->ev.delRead = want_no_read;
    redis->ev.addWrite = want_write;
    redis->ev.delWrite = want_no_write;
    redis->ev.cleanup = is_closed;
    want_write(line); /* that is how the end of connecting shows */
    return !hold->password || redisAsyncCommand(redis, NULL, NULL, "AUTH %s", hold->password) == REDIS_OK;
}

/* Replies that have not come get NULL. */
static void line_close(struct line *line)
{
    if (line->redis)
        redisAsyncFree(line->redis);
}

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Parks until `*came`. COORD_OK; COORD_END: time is over; COORD_CANCELLED; COORD_ABSENT: the connection is no more. */
static coord_status line_wait(struct line *line, coord_request *request, const bool *came, int64_t timeout)
{
    int64_t deadline = now_ns() + timeout;

    while (!*came && line->redis && line->wants) {
        int64_t left = deadline - now_ns();
        int32_t ready;
        coord_status status =
            coord_wait_fd(request, line->redis->c.fd, line->wants, left > 0 ? left : 0, &ready); /* parks */

        if (status != COORD_OK)
            return status == COORD_INVALID ? COORD_ABSENT : status;
        if (ready & line->wants & COORD_READABLE)
            redisAsyncHandleRead(line->redis); /* may call back, or close */
        if (line->redis && (ready & line->wants & COORD_WRITABLE))
            redisAsyncHandleWrite(line->redis);
    }
    return *came ? COORD_OK : COORD_ABSENT;
}

/* A reply that somebody waits for. */
struct reply {
    bool came, good;
};

static void take_reply(redisAsyncContext *redis, void *got, void *argument)
{
    const redisReply *is = got;
    struct reply *reply = argument;

    (void)redis;
    reply->came = is != NULL; /* NULL: the connection went first */
    reply->good = is && is->type != REDIS_REPLY_ERROR;
}

/* ---- One request ---- */

/* What is done after a request's end. */
struct tidying {
    const struct hold *hold;
    char ticket[];
};

/* Takes the ticket off the queue, if it is still there, and an admission that came too late. On a fiber of its own. */
static void tidy_up(coord_request *background, void *argument)
{
    struct tidying *tidying = argument;
    const char *queue = tidying->hold->queue;
    struct reply reply = {0};
    struct line line;

    if (!line_open(&line, tidying->hold))
        return;
    if (redisAsyncCommand(line.redis, NULL, NULL, "LREM %s 1 %s", queue, tidying->ticket) == REDIS_OK &&
        redisAsyncCommand(line.redis, take_reply, &reply, "DEL %s:%s", queue, tidying->ticket) == REDIS_OK &&
        line_wait(&line, background, &reply.came, TIDY_NS) != COORD_OK)
        coord_logf(background, COORD_LOG_WARNING, "hold-queue: the ticket %s stays behind", tidying->ticket);
    line_close(&line);
}

/* COORD_OK: it is let in; else as line_wait. */
static coord_status wait_for_turn(const struct hold *hold, coord_request *request, const char *ticket)
{
    struct reply queued = {0}, admitted = {0};
    coord_status status = COORD_ABSENT;
    struct line line;

    if (!line_open(&line, hold))
        return COORD_ABSENT;
    if (redisAsyncCommand(line.redis, take_reply, &queued, "RPUSH %s %s", hold->queue, ticket) == REDIS_OK &&
        redisAsyncCommand(line.redis, take_reply, &admitted, "BLPOP %s:%s 0", hold->queue, ticket) == REDIS_OK)
        status = line_wait(&line, request, &admitted.came, hold->timeout);
    line_close(&line);
    return status == COORD_OK && !(queued.good && admitted.good) ? COORD_ABSENT : status;
}

static coord_status refuse(const struct hold *hold, coord_request *request)
{
    static const char *const headers[] = {"Retry-After", "5", NULL};
    const coord_failure failure = {.size = sizeof failure,
                                   .status = (int32_t)hold->status,
                                   .message = "the request was not let in in time, try again later",
                                   .headers = headers};

    return coord_fail_with(request, &failure);
}

static coord_status hold_execute(void *state, coord_request *request)
{
    const struct hold *hold = state;
    coord_slice id = coord_request_id(request);
    struct tidying *tidying = calloc(1, sizeof *tidying + id.size + 1);
    coord_status status;

    if (!tidying)
        return coord_fail(request, 500, NULL, "memory is short");
    tidying->hold = hold;
    memcpy(tidying->ticket, id.data, id.size);
    if (coord_background(request, tidy_up, tidying, free) != COORD_OK) {
        free(tidying);
        return coord_fail(request, 503, NULL, "too many requests wait");
    }
    status = wait_for_turn(hold, request, tidying->ticket);
    if (status == COORD_END)
        return refuse(hold, request);
    if (status != COORD_ABSENT)
        return status; /* COORD_OK is COORD_NEXT; COORD_CANCELLED: the client left */
    if (hold->on_failure == CLOSED)
        return coord_fail(request, 503, NULL, "the queue cannot be reached");
    coord_logf(request, COORD_LOG_WARNING, "hold-queue: %s cannot be reached, let in", hold->redis);
    return COORD_NEXT;
}

/* ---- Life ---- */

static void hold_destroy(void *state)
{
    struct hold *hold = state;

    free(hold->redis);
    free(hold->queue);
    free(hold->password);
    free(hold);
}

static coord_status hold_create(const coord_config *config, void **state, coord_error *error)
{
    struct hold *hold = calloc(1, sizeof *hold);
    coord_slice redis = {0}, queue = {0}, password = {0};
    bool has_password = coord_config_string(config, "password", &password) == COORD_OK;

    if (!hold)
        return coord_error_set(error, "memory is short");
    if (coord_config_string(config, "redis", &redis) != COORD_OK ||
        coord_config_string(config, "queue", &queue) != COORD_OK ||
        coord_config_duration(config, "timeout", &hold->timeout) != COORD_OK ||
        coord_config_int(config, "status", &hold->status) != COORD_OK ||
        coord_config_choice(config, "on_failure", &hold->on_failure) != COORD_OK ||
        !(hold->redis = strndup(redis.data, redis.size)) || !(hold->queue = strndup(queue.data, queue.size)) ||
        (has_password && !(hold->password = strndup(password.data, password.size)))) {
        hold_destroy(hold);
        return coord_error_set(error, "the params cannot be used");
    }
    if (hold->status != 429 && hold->status != 503)
        coord_error_set(error, "status is 429 or 503");
    else if (strncmp(hold->redis, "unix:", 5) != 0 && !strchr(hold->redis, ':'))
        coord_error_set(error, "redis is host:port or unix:/path");
    else
        return *state = hold, COORD_OK;
    hold_destroy(hold);
    return COORD_FAIL;
}

/* hiredis would look the name up with every connection, and block. Here that is allowed. */
static coord_status hold_start(void *state, coord_error *error)
{
    struct hold *hold = state;
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *found;
    char *host, *colon;
    int problem;

    if (strncmp(hold->redis, "unix:", 5) == 0)
        return COORD_OK;
    host = strdup(hold->redis);
    if (!host)
        return coord_error_set(error, "memory is short");
    colon = strrchr(host, ':');
    *colon = '\0';
    problem = getaddrinfo(host, colon + 1, &hints, &found); /* which takes nothing but digits for a port */
    hold->port = (int)strtol(colon + 1, NULL, 10);
    free(host);
    if (problem != 0)
        return coord_error_set(error, "redis: %s: %s", hold->redis, gai_strerror(problem));
    problem =
        getnameinfo(found->ai_addr, found->ai_addrlen, hold->address, sizeof hold->address, NULL, 0, NI_NUMERICHOST);
    freeaddrinfo(found);
    return problem == 0 ? COORD_OK : coord_error_set(error, "redis: %s: %s", hold->redis, gai_strerror(problem));
}

static const coord_step_type hold_step = {
    .size = sizeof hold_step,
    .name = "hold-queue",
    .help = "Lets a request wait until somebody outside lets it in, by way of Redis.",
    COORD_STEP_PARAMS(params),
    .create = hold_create,
    .execute = hold_execute,
    .destroy = hold_destroy,
    .start = hold_start,
};

static const coord_step_type *const steps[] = {&hold_step, NULL};

COORD_PLUGIN(.name = "hold-queue", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
