/* The step `bench-noop`: what a step costs that does nothing. */
#include <coordinator/plugin.h>

static coord_status noop_execute(void *state, coord_request *request)
{
    (void)state, (void)request;
    return COORD_NEXT;
}

static const coord_step_type NOOP = {
    .size = sizeof NOOP, .name = "bench-noop", .help = "Does nothing.", .execute = noop_execute};

COORD_PLUGIN(.name = "bench-noop", .version = "0.1.0", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&NOOP, NULL})
