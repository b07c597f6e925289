/* A step that tells of its life in a file, a line an event, and that fails or takes its time where it is told to. */
#include <coordinator/background.h>
#include <coordinator/plugin.h>
#include <coordinator/wait.h>

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct life {
    coord_slice name, events;
    int64_t start_ns, thread_ns, background_ns, failing_thread;
    bool failing_start;
    atomic_int threads;
};

static const coord_param PARAMS[] = {
    {COORD_PARAM(STRING, "name", "What its lines begin with."), .fallback = "life"},
    {COORD_PARAM(STRING, "events", "The file; empty: none."), .fallback = ""},
    {COORD_PARAM(SECRET, "password", "Never shown."), .fallback = "none"},
    {COORD_PARAM(DURATION, "start", "How long start takes."), .fallback = "0s", .maximum = INT64_MAX},
    {COORD_PARAM(DURATION, "thread", "How long thread_start takes."), .fallback = "0s", .maximum = INT64_MAX},
    {COORD_PARAM(DURATION, "background", "How long work goes on behind each request; 0s: there is none."),
     .fallback = "0s", .maximum = INT64_MAX},
    {COORD_PARAM(BOOL, "fail_start", "Whether start fails."), .fallback = "false"},
    {COORD_PARAM(INT, "fail_thread", "Which thread_start fails, from 1; 0: none."), .fallback = "0", .maximum = 256},
};

static void tell(const struct life *life, const char *event)
{
    char line[256];
    int size = snprintf(line, sizeof line, "%.*s %s\n", COORD_FMT(life->name), event);
    int fd = life->events.size > 0 ? open(life->events.data, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;

    if (fd < 0)
        return;
    if (write(fd, line, (size_t)size) != size)
        abort();
    close(fd);
}

static void take_time(int64_t ns)
{
    struct timespec time = {.tv_sec = (time_t)(ns / 1000000000), .tv_nsec = (long)(ns % 1000000000)};

    if (ns > 0)
        nanosleep(&time, NULL);
}

static coord_status create(const coord_config *config, void **state, coord_error *error)
{
    struct life *life = calloc(1, sizeof *life);

    if (!life)
        return coord_error_set(error, "memory is short");
    if (coord_config_string(config, "name", &life->name) != COORD_OK ||
        coord_config_string(config, "events", &life->events) != COORD_OK ||
        coord_config_duration(config, "start", &life->start_ns) != COORD_OK ||
        coord_config_duration(config, "thread", &life->thread_ns) != COORD_OK ||
        coord_config_duration(config, "background", &life->background_ns) != COORD_OK ||
        coord_config_bool(config, "fail_start", &life->failing_start) != COORD_OK ||
        coord_config_int(config, "fail_thread", &life->failing_thread) != COORD_OK) {
        free(life);
        return coord_error_set(error, "a param is not there");
    }
    *state = life;
    return COORD_OK;
}

static void destroy(void *state)
{
    tell(state, "destroy");
    free(state);
}

static coord_status start(void *state, coord_error *error)
{
    const struct life *life = state;

    tell(life, "starting");
    take_time(life->start_ns);
    if (life->failing_start)
        return coord_error_set(error, "it was told to fail");
    tell(life, "start");
    return COORD_OK;
}

static void stop(void *state) { tell(state, "stop"); }

static coord_status thread_start(void *state, void **local, coord_error *error)
{
    struct life *life = state;

    take_time(life->thread_ns);
    *local = life;
    if (atomic_fetch_add(&life->threads, 1) + 1 == life->failing_thread)
        return coord_error_set(error, "this thread was told to fail");
    tell(life, "thread_start");
    return COORD_OK;
}

static void thread_stop(void *state, void *local)
{
    if (local != state)
        abort();
    tell(state, "thread_stop");
}

static void work_on(coord_request *background, void *argument)
{
    const struct life *life = argument;

    if (coord_sleep(background, life->background_ns) == COORD_OK)
        tell(life, "background");
}

static coord_status execute(void *state, coord_request *request)
{
    if (coord_request_local(request) != state)
        abort();
    if (((const struct life *)state)->background_ns > 0)
        return coord_background(request, work_on, state, NULL);
    return COORD_NEXT;
}

static const coord_step_type TYPE = {.size = sizeof TYPE,
                                     .name = "test-life",
                                     .help = "For tests.",
                                     COORD_STEP_PARAMS(PARAMS),
                                     .create = create,
                                     .execute = execute,
                                     .destroy = destroy,
                                     .start = start,
                                     .stop = stop,
                                     .thread_start = thread_start,
                                     .thread_stop = thread_stop};
static const coord_step_type *const steps[] = {&TYPE, NULL};

COORD_PLUGIN(.name = "life", .version = "1", .licence = "Apache-2.0", .steps = steps)
