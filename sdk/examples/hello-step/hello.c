/* The step `hello`: asks a policy service whether the model may be used, refuses with a 403, and signs the answer. */
#include <coordinator/call.h>
#include <coordinator/plugin.h>
#include <coordinator/response.h>

#include <stdlib.h>

struct hello {
    coord_upstream *policy;
    char signature[64];
};

static const coord_param params[] = {
    {COORD_PARAM(URL, "policy", "Who decides which models may be used."), .flags = COORD_PARAM_REQUIRED},
    {COORD_PARAM(STRING, "signature", "The answer's header x-hello."), .fallback = "hello"},
};

static coord_status hello_create(const coord_config *config, void **state, coord_error *error)
{
    struct hello *hello = calloc(1, sizeof *hello);
    coord_slice signature = {0};

    if (!hello || coord_upstream_open(config, "policy", NULL, &hello->policy, error) != COORD_OK ||
        coord_config_string(config, "signature", &signature) != COORD_OK || signature.size >= sizeof hello->signature) {
        free(hello);
        return coord_error_set(error, "signature is longer than %zu bytes, or memory is short",
                               sizeof hello->signature - 1);
    }
    memcpy(hello->signature, signature.data, signature.size); /* the config goes away, so copy */
    *state = hello;
    return COORD_OK;
}

/* Changes the head and leaves the body alone: a stream is not slowed down, Content-Length stays. */
static void sign(coord_writer *writer, coord_head *head)
{
    const struct hello *hello = coord_writer_state(writer);

    if (coord_head_set_header(head, "x-hello", coord_slice_of(hello->signature)) == COORD_OK)
        coord_writer_skip(writer);
}

static const coord_writer_type signer = {
    .size = sizeof signer, .flags = COORD_WRITER_REWRITES, .name = "hello", .head = sign};

static coord_status hello_execute(void *state, coord_request *request)
{
    struct hello *hello = state;
    coord_slice model = coord_request_model(request);
    coord_call *call = coord_call_upstream_new(request, "policy", hello->policy, false);
    coord_status status;

    if (!call || coord_call_set_method(call, "GET") != COORD_OK ||
        coord_call_set_path(call, coord_slice_of("/may-use")) != COORD_OK)
        return coord_fail(request, 500, NULL, "the policy call could not be made");
    if (coord_call_set_header(call, "x-model", model) != COORD_OK)
        return coord_fail(request, 400, NULL, "the model's name cannot stand in a header");
    status = coord_call_run(call); /* parks this request; others run meanwhile */
    if (status != COORD_OK)
        return status; /* the client left, or the service did not answer: the core says so */
    if (coord_call_status(call) != 200)
        return coord_fail(request, 403, "model_not_allowed", "the model %.*s is not for you", COORD_FMT(model));
    return coord_request_wrap(request, &signer, hello); /* COORD_OK is COORD_NEXT */
}

static const coord_step_type hello_step = {
    .size = sizeof hello_step,
    .name = "hello",
    .help = "Asks a policy service before the request goes on, and signs the answer.",
    COORD_STEP_PARAMS(params),
    .create = hello_create,
    .execute = hello_execute,
    .destroy = free,
};

static const coord_step_type *const steps[] = {&hello_step, NULL};

COORD_PLUGIN(.name = "hello", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
