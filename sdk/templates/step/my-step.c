/*
 * The step `my-step`: answers requests for one model itself, and lets all others go on.
 *
 * One instance serves all requests, many at a time: what `create` made is only read.
 */
#include <coordinator/answer.h>
#include <coordinator/plugin.h>

#include <stdlib.h>

struct my_step_state {
    char model[128];
    char words[512];
};

/* What the step can be configured with: the core checks it, fills in what is left out, and prints it. */
static const coord_param params[] = {
    {COORD_PARAM(STRING, "model", "The model whose requests are answered here."), .fallback = "my-step"},
    {COORD_PARAM(STRING, "words", "What is answered."), .fallback = "Hello"},
};

/* The config lives until `create` returns, so its texts are copied. A NUL follows each. */
static bool copy_text(const coord_config *config, const char *param, char *out, size_t room)
{
    coord_slice text = {0};

    if (coord_config_string(config, param, &text) != COORD_OK || text.size >= room)
        return false;
    memcpy(out, text.data, text.size);
    out[text.size] = '\0';
    return true;
}

static coord_status my_step_create(const coord_config *config, void **state, coord_error *error)
{
    struct my_step_state *self = malloc(sizeof *self);

    if (!self || !copy_text(config, "model", self->model, sizeof self->model) ||
        !copy_text(config, "words", self->words, sizeof self->words)) {
        free(self);
        return coord_error_set(error, "a text is too long, or memory is short");
    }
    *state = self;
    return COORD_OK;
}

/* A chat completion that says the words. Errors of the builder show at its end. */
static coord_status answer(const struct my_step_state *self, coord_request *request)
{
    coord_json *json = coord_json_new();
    coord_status status = COORD_NO_MEMORY;
    coord_slice text;

    coord_json_object(json);
    coord_json_key(json, "object");
    coord_json_string(json, coord_slice_of("chat.completion"));
    coord_json_key(json, "model");
    coord_json_string(json, coord_request_model(request));
    coord_json_key(json, "choices");
    coord_json_array(json);
    coord_json_object(json);
    coord_json_key(json, "index");
    coord_json_int(json, 0);
    coord_json_key(json, "message");
    coord_json_object(json);
    coord_json_key(json, "role");
    coord_json_string(json, coord_slice_of("assistant"));
    coord_json_key(json, "content");
    coord_json_string(json, coord_slice_of(self->words));
    coord_json_close(json);
    coord_json_key(json, "finish_reason");
    coord_json_string(json, coord_slice_of("stop"));
    coord_json_close(json);
    coord_json_close(json);
    coord_json_close(json);
    if (json && coord_json_end(json, &text) == COORD_OK)
        status = coord_answer(request, 200, "application/json", text, NULL);
    coord_json_free(json);
    return status;
}

static coord_status my_step_execute(void *state, coord_request *request)
{
    const struct my_step_state *self = state;

    if (coord_request_api(request) != COORD_API_CHAT_COMPLETIONS ||
        !coord_slice_is(coord_request_model(request), self->model))
        return COORD_NEXT; /* the next step's turn */
    if (coord_request_stream(request))
        return coord_fail(request, 400, NULL, "the model %s does not stream", self->model);
    return answer(self, request); /* COORD_DONE: no further step runs */
}

static const coord_step_type my_step_type = {
    .size = sizeof my_step_type,
    .name = "my-step",
    .help = "Answers requests for one model itself.",
    COORD_STEP_PARAMS(params),
    .create = my_step_create,
    .execute = my_step_execute,
    .destroy = free,
};

static const coord_step_type *const steps[] = {&my_step_type, NULL};

COORD_PLUGIN(.name = "my-step", .version = "0.1.0", .licence = "Apache-2.0", .steps = steps)
