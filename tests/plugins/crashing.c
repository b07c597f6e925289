/* A step that crashes, or does not return once it is cancelled, in the way that the client's header x-do asks for. For end-to-end tests. */
#include <coordinator/background.h>
#include <coordinator/log.h>
#include <coordinator/plugin.h>
#include <coordinator/response.h>
#include <coordinator/wait.h>

#include <signal.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void write_nowhere(void *argument) { *(volatile int *)argument = 1; }

static void nap(void)
{
    struct timespec time = {.tv_nsec = 10000000};

    nanosleep(&time, NULL);
}

static void nap_for_ever(void *argument)
{
    (void)argument;
    for (;;)
        nap();
}

static void crash_in_data(coord_writer *writer, coord_slice bytes)
{
    (void)bytes;
    write_nowhere(coord_writer_state(writer));
}

static const coord_writer_type crasher = {.size = sizeof crasher, .name = "crasher", .data = crash_in_data};

static void block_in_data(coord_writer *writer, coord_slice bytes)
{
    (void)writer;
    (void)bytes;
    for (int i = 0; i < 40; i++)
        nap();
}

static const coord_writer_type blocker = {.size = sizeof blocker, .name = "blocker", .data = block_in_data};

static const coord_slot_type crashing_slot = {.size = sizeof crashing_slot, .name = "crash", .destroy = write_nowhere};
static void *const nowhere = (void *)8;

static void crash_later(coord_request *background, void *argument)
{
    (void)background;
    write_nowhere(argument);
}

static coord_status segv(coord_request *request)
{
    (void)request;
    write_nowhere(nowhere);
    return COORD_NEXT;
}

static coord_status call_abort(coord_request *request)
{
    (void)request;
    abort();
}

/* Endless, so that it ends in the guard of a stack of any size. */
__attribute__((noinline)) static int recurse(volatile int depth)
{
    volatile char frame[1024];

    frame[0] = (char)depth;
    return recurse(depth + 1) + frame[0];
}

static coord_status overflow(coord_request *request)
{
    (void)request;
    return recurse(0) == 7 ? COORD_NEXT : COORD_DONE;
}

static coord_status in_writer(coord_request *request) { return coord_request_wrap(request, &crasher, nowhere); }
static coord_status blocking_writer(coord_request *request) { return coord_request_wrap(request, &blocker, NULL); }
static coord_status in_slot(coord_request *request) { return coord_request_set_slot(request, &crashing_slot, nowhere); }
static coord_status in_background(coord_request *request)
{
    return coord_background(request, crash_later, nowhere, NULL);
}
static coord_status in_offload(coord_request *request) { return coord_offload(request, write_nowhere, nowhere); }

/* It sees that it is cancelled, and takes no notice. */
static coord_status hold_for_ever(coord_request *request)
{
    for (;;)
        if (coord_sleep(request, 1000000) != COORD_OK)
            nap();
    return COORD_NEXT;
}

static coord_status offload_for_ever(coord_request *request) { return coord_offload(request, nap_for_ever, NULL); }

static const struct {
    const char *name;
    coord_status (*run)(coord_request *request);
} WAYS[] = {
    {"segv", segv},
    {"abort", call_abort},
    {"overflow", overflow},
    {"writer", in_writer},
    {"blocking-writer", blocking_writer},
    {"slot", in_slot},
    {"background", in_background},
    {"offload", in_offload},
    {"hold", hold_for_ever},
    {"park", offload_for_ever},
};

static coord_status execute(void *state, coord_request *request)
{
    coord_slice way;

    (void)state;
    if (coord_request_header(request, "x-do", &way) != COORD_OK)
        return COORD_NEXT;
    coord_logf(request, COORD_LOG_INFO, "on the way to %.*s", COORD_FMT(way));
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++)
        if (coord_slice_is(way, WAYS[i].name))
            return WAYS[i].run(request);
    return coord_fail(request, 400, NULL, "x-do: no such way");
}

static coord_status create(const coord_config *config, void **state, coord_error *error)
{
    (void)config;
    (void)error;
    if (getenv("CRASH_IN_CREATE"))
        write_nowhere(nowhere);
    *state = NULL;
    return COORD_OK;
}

static const coord_step_type CRASH = {
    .size = sizeof CRASH, .name = "test-crash", .help = "For tests.", .create = create, .execute = execute};

static const coord_step_type *const steps[] = {&CRASH, NULL};

COORD_PLUGIN(.name = "crashing", .version = "1", .licence = "Apache-2.0", .steps = steps)
