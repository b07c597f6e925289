/*
 * The step `usage-audit`: one line of JSON a request in a file: who asked for what, and how many tokens it was.
 *
 * The answer is only looked at (coordinator/usage.h), so the client gets it as without this step. The reactor never waits for
 * the disk: it puts the line into a bounded queue, and a thread of the step's own writes what has gathered there in one go.
 * `stop` writes the rest. A line that finds the queue full, or that the disk does not take, is lost and counted.
 */
#define _POSIX_C_SOURCE 200809L /* clock_gettime, strndup, O_CLOEXEC beside plain C11 */
#include <coordinator/metric.h>
#include <coordinator/plugin.h>
#include <coordinator/usage.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 1000, TICK_MS = 50 };

struct line {
    struct line *next;
    size_t size;
    char text[];
};

struct audit {
    char *path;
    int64_t limit; /* of lines in the queue */
    coord_metric *lost;
    int fd; /* -1: not open */
    pthread_t writer;
    int patience_ms; /* the writer's: how long a pipe that nobody empties is waited for once it is to stop */
    bool torn;       /* the writer's: a part of a line stands at the file's end */

    /* The queue. Reactors hold the lock for as long as it takes to link one line. */
    pthread_mutex_t lock;
    pthread_cond_t some; /* lines, or the end */
    struct line *first, **last;
    int64_t count;
    bool stopping;
};

static const coord_param params[] = {
    {COORD_PARAM(STRING, "file", "Lines are added at its end; it is made if it is not there."),
     .flags = COORD_PARAM_REQUIRED},
    {COORD_PARAM(INT, "queue", "Lines that may wait for the disk."), .fallback = "10000", .minimum = 1,
     .maximum = 1000000},
};

/* ---- The thread that writes ---- */

/* Waits for lines and takes all; NULL: none will come any more. */
static struct line *take_lines(struct audit *audit)
{
    struct line *lines;

    pthread_mutex_lock(&audit->lock);
    while (!audit->first && !audit->stopping)
        pthread_cond_wait(&audit->some, &audit->lock);
    lines = audit->first;
    audit->first = NULL;
    audit->last = &audit->first;
    audit->count = 0;
    pthread_mutex_unlock(&audit->lock);
    return lines;
}

static bool is_stopping(struct audit *audit)
{
    bool stopping;

    pthread_mutex_lock(&audit->lock);
    stopping = audit->stopping;
    pthread_mutex_unlock(&audit->lock);
    return stopping;
}

/* A pipe is full: waits, but the process' end does not wait for whoever should empty it. */
static bool wait_for_room(struct audit *audit)
{
    struct pollfd room = {.fd = audit->fd, .events = POLLOUT};

    while (audit->patience_ms > 0) {
        if (poll(&room, 1, TICK_MS) > 0)
            return true;
        if (is_stopping(audit))
            audit->patience_ms -= TICK_MS;
    }
    return false;
}

/* `torn` tells whether the last byte that was written is in the middle of a line. */
static bool write_all(struct audit *audit, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t wrote = write(audit->fd, text, size);

        if (wrote < 0 && errno != EINTR && (errno != EAGAIN || !wait_for_room(audit)))
            return false;
        if (wrote > 0) {
            text += wrote;
            size -= (size_t)wrote;
            audit->torn = text[-1] != '\n';
        }
    }
    return true;
}

/* What a full disk has left of a line must not spoil the next one. */
static bool write_line(struct audit *audit, const struct line *line)
{
    return (!audit->torn || write_all(audit, "\n", 1)) && write_all(audit, line->text, line->size);
}

static void *write_lines(void *argument)
{
    struct audit *audit = argument;

    for (struct line *line, *next; (line = take_lines(audit)) != NULL;)
        for (; line; line = next) {
            next = line->next;
            if (!write_line(audit, line))
                coord_metric_add(audit->lost, 1, (const coord_slice[]){COORD_SLICE("write_failed")});
            free(line);
        }
    return NULL;
}

/* ---- One request ---- */

static void push_line(struct audit *audit, struct line *line)
{
    bool full;

    pthread_mutex_lock(&audit->lock);
    full = audit->count >= audit->limit;
    if (!full) {
        *audit->last = line;
        audit->last = &line->next;
        audit->count++;
        pthread_cond_signal(&audit->some);
    }
    pthread_mutex_unlock(&audit->lock);
    if (full) {
        free(line);
        coord_metric_add(audit->lost, 1, (const coord_slice[]){COORD_SLICE("queue_full")});
    }
}

static void add_text(coord_json *json, const char *name, coord_slice text)
{
    coord_json_key(json, name);
    coord_json_string(json, text);
}

/* A count that no one has said is no member. */
static void add_count(coord_json *json, const char *name, bool said, uint64_t count)
{
    if (said) {
        coord_json_key(json, name);
        coord_json_int(json, (int64_t)count);
    }
}

static struct line *line_new(coord_request *request, const coord_usage *usage)
{
    coord_json *json = coord_json_new();
    struct line *line = NULL;
    coord_slice text;
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    coord_json_object(json);
    coord_json_key(json, "time");
    coord_json_int(json, now.tv_sec);
    add_text(json, "request", coord_request_id(request));
    add_text(json, "api", coord_request_api_label(request));
    add_text(json, "model", coord_request_model(request));
    add_count(json, "prompt_tokens", usage->said & COORD_USAGE_PROMPT, usage->prompt);
    add_count(json, "output_tokens", usage->said & COORD_USAGE_OUTPUT, usage->output);
    add_count(json, "cached_tokens", usage->said & COORD_USAGE_CACHED, usage->cached);
    coord_json_close(json);
    if (coord_json_end(json, &text) == COORD_OK && (line = malloc(sizeof *line + text.size + 1)) != NULL) {
        line->next = NULL;
        line->size = text.size + 1;
        memcpy(line->text, text.data, text.size);
        line->text[text.size] = '\n';
    }
    coord_json_free(json);
    return line;
}

/* The answer is over: whole, broken off, or left by the client. On the reactor: nothing here may block. */
static void seen(coord_request *request, const coord_usage *usage, void *argument)
{
    struct audit *audit = argument;
    struct line *line = line_new(request, usage);

    if (line)
        push_line(audit, line);
    else
        coord_metric_add(audit->lost, 1, (const coord_slice[]){COORD_SLICE("no_memory")});
}

static coord_status audit_execute(void *state, coord_request *request)
{
    return coord_usage_observe(request, seen, state); /* COORD_OK is COORD_NEXT */
}

/* ---- Life ---- */

static void audit_free(void *state)
{
    struct audit *audit = state;

    pthread_mutex_destroy(&audit->lock);
    pthread_cond_destroy(&audit->some);
    free(audit->path);
    free(audit);
}

static coord_status audit_create(const coord_config *config, void **state, coord_error *error)
{
    static const char *const labels[] = {"reason", NULL};
    static const coord_metric_type lost = {.size = sizeof lost,
                                           .kind = COORD_METRIC_COUNTER,
                                           .name = "usage_audit_lost_total",
                                           .help = "Requests that are missing in the audit file.",
                                           .labels = labels};
    struct audit *audit = calloc(1, sizeof *audit);
    coord_slice path;

    if (!audit)
        return coord_error_set(error, "memory is short");
    pthread_mutex_init(&audit->lock, NULL);
    pthread_cond_init(&audit->some, NULL);
    audit->fd = -1;
    audit->patience_ms = PATIENCE_MS;
    audit->last = &audit->first;
    if (coord_config_string(config, "file", &path) != COORD_OK ||
        coord_config_int(config, "queue", &audit->limit) != COORD_OK ||
        !(audit->path = strndup(path.data, path.size)) || !(audit->lost = coord_metric_declare(&lost))) {
        audit_free(audit);
        return coord_error_set(error, "the params cannot be used");
    }
    *state = audit;
    return COORD_OK;
}

/* Threads and files belong in `start`, not in `create`: `coordinator check` only creates. */
static coord_status audit_start(void *state, coord_error *error)
{
    struct audit *audit = state;

    /* O_NONBLOCK: a named pipe that nobody reads from is told, and does not hold up the start. */
    audit->fd = open(audit->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0640);
    if (audit->fd < 0)
        return coord_error_set(error, "cannot open %s: %s", audit->path, strerror(errno));
    if (pthread_create(&audit->writer, NULL, write_lines, audit) == 0)
        return COORD_OK;
    close(audit->fd);
    return coord_error_set(error, "the thread that writes cannot be started");
}

/* No request is left by now: what waits in the queue is all that there will be. */
static void audit_stop(void *state)
{
    struct audit *audit = state;

    pthread_mutex_lock(&audit->lock);
    audit->stopping = true;
    pthread_cond_signal(&audit->some);
    pthread_mutex_unlock(&audit->lock);
    pthread_join(audit->writer, NULL);
    if (fsync(audit->fd) != 0 && errno != EINVAL && errno != EROFS) /* a pipe or a device cannot be synced */
        coord_logf(NULL, COORD_LOG_WARNING, "usage-audit: %s may not be on the disk: %s", audit->path, strerror(errno));
    close(audit->fd);
}

static const coord_step_type audit_step = {
    .size = sizeof audit_step,
    .name = "usage-audit",
    .help = "Writes one line a request with its token usage to a file.",
    COORD_STEP_PARAMS(params),
    .create = audit_create,
    .execute = audit_execute,
    .destroy = audit_free,
    .start = audit_start,
    .stop = audit_stop,
};

static const coord_step_type *const steps[] = {&audit_step, NULL};

COORD_PLUGIN(.name = "usage-audit", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
