/* The step `bench-pass`: wraps the answer with a writer that passes every byte on, which is what a writer costs that does nothing. */
#include <coordinator/plugin.h>
#include <coordinator/response.h>

static void pass_data(coord_writer *writer, coord_slice bytes) { coord_writer_pass(writer, bytes); }

static const coord_writer_type PASSING = {
    .size = sizeof PASSING, .flags = COORD_WRITER_REWRITES, .name = "bench-pass", .data = pass_data};

static coord_status pass_execute(void *state, coord_request *request)
{
    coord_status status = coord_request_wrap(request, &PASSING, NULL);

    (void)state;
    return status == COORD_OK ? COORD_NEXT : status;
}

static const coord_step_type PASS = {
    .size = sizeof PASS, .name = "bench-pass", .help = "Passes the answer on.", .execute = pass_execute};

COORD_PLUGIN(.name = "bench-pass", .version = "0.1.0", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&PASS, NULL})
