/*
 * A plugin as it was written for the first release: a step with params, state, a slot and a writer. It is built from the headers
 * beside it, as they were then, and every later coordinator of this major has to load and run it.
 */
#include <coordinator/plugin.h>
#include <coordinator/response.h>

#include <stdlib.h>

struct first {
    char greeting[64];
    int64_t copies;
};

static const coord_param params[] = {
    {COORD_PARAM(STRING, "greeting", "What stands in front of the answer."), .fallback = "hello"},
    {COORD_PARAM(INT, "copies", "How often."), .fallback = "1", .minimum = 1, .maximum = 9},
};

static coord_status first_create(const coord_config *config, void **state, coord_error *error)
{
    struct first *first = calloc(1, sizeof *first);
    coord_slice greeting = COORD_SLICE("");

    if (!first || coord_config_string(config, "greeting", &greeting) != COORD_OK ||
        coord_config_int(config, "copies", &first->copies) != COORD_OK || greeting.size >= sizeof first->greeting) {
        free(first);
        return coord_error_set(error, "greeting is longer than %zu bytes, or memory is short",
                               sizeof first->greeting - 1);
    }
    memcpy(first->greeting, greeting.data, greeting.size);
    *state = first;
    return COORD_OK;
}

struct greeter {
    const struct first *first;
    bool greeted;
};

static const coord_slot_type greeter_slot = {.size = sizeof greeter_slot, .name = "first-greeter", .destroy = free};

static void greet(coord_writer *writer, coord_slice bytes)
{
    struct greeter *greeter = coord_writer_state(writer);

    for (int64_t i = 0; !greeter->greeted && i < greeter->first->copies; i++)
        coord_writer_pass(writer, coord_slice_of(greeter->first->greeting));
    greeter->greeted = true;
    coord_writer_pass(writer, bytes);
}

static const coord_writer_type greeting_writer = {.size = sizeof greeting_writer,
                                                  .flags = COORD_WRITER_REWRITES | COORD_WRITER_READS_BODY,
                                                  .name = "first",
                                                  .data = greet};

static coord_status first_execute(void *state, coord_request *request)
{
    struct greeter *greeter;

    if (coord_request_model(request).size == 0)
        return coord_fail(request, 400, "no_model", "a model is wanted");
    greeter = calloc(1, sizeof *greeter);
    if (!greeter)
        return coord_fail(request, 500, NULL, "memory is short");
    greeter->first = state;
    if (coord_request_set_slot(request, &greeter_slot, greeter) != COORD_OK) {
        free(greeter);
        return coord_fail(request, 500, NULL, "memory is short");
    }
    coord_logf(request, COORD_LOG_INFO, "first of the first release was here");
    return coord_request_wrap(request, &greeting_writer, greeter);
}

static const coord_step_type first_step = {.size = sizeof first_step,
                                           .name = "first",
                                           .help = "Greets in front of every answer.",
                                           COORD_STEP_PARAMS(params),
                                           .create = first_create,
                                           .execute = first_execute,
                                           .destroy = free};

static const coord_step_type *const steps[] = {&first_step, NULL};

COORD_PLUGIN(.name = "first-release", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
