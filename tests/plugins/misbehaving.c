/* Steps that do what a step must not: hold their reactor, run over their stack, fail. For end-to-end tests. */
#include <coordinator/plugin.h>

#include <time.h>

static coord_status nothing_to_make(const coord_config *config, void **state, coord_error *error)
{
    (void)config;
    (void)error;
    *state = NULL;
    return COORD_OK;
}

/* Blocks only where the client asks for it, so that other requests can be served beside it. */
static coord_status block(void *state, coord_request *request)
{
    struct timespec time = {.tv_nsec = 400000000};
    coord_slice value;

    (void)state;
    if (coord_request_header(request, "x-block", &value) == COORD_OK)
        nanosleep(&time, NULL);
    return COORD_NEXT;
}

__attribute__((noinline)) static int use_much(int size)
{
    volatile char much[300 * 1024];

    for (int i = 0; i < size; i += 1024)
        much[i] = (char)i;
    return much[size / 2];
}

static coord_status overflow(void *state, coord_request *request)
{
    (void)state;
    (void)request;
    return use_much(300 * 1024) == 1234 ? COORD_FAIL : COORD_NEXT;
}

static coord_status fail_quietly(void *state, coord_request *request)
{
    (void)state;
    (void)request;
    return COORD_FAIL;
}

static coord_status end_unanswered(void *state, coord_request *request)
{
    (void)state;
    (void)request;
    return COORD_DONE;
}

#define STEP(type, what, function)                                                                                     \
    static const coord_step_type type = {.size = sizeof(coord_step_type),                                              \
                                         .name = what,                                                                 \
                                         .help = "For tests.",                                                         \
                                         .create = nothing_to_make,                                                    \
                                         .execute = function}
STEP(BLOCK, "test-block", block);
STEP(OVERFLOW, "test-overflow", overflow);
STEP(FAIL, "test-fail", fail_quietly);
STEP(UNANSWERED, "test-unanswered", end_unanswered);

static const coord_step_type *const steps[] = {&BLOCK, &OVERFLOW, &FAIL, &UNANSWERED, NULL};

COORD_PLUGIN(.name = "misbehaving", .version = "1", .licence = "Apache-2.0", .steps = steps)
