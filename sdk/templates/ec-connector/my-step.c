/*
 * The EC connector `my-step`: tells prefill in which pool it finds the output of encoders.
 *
 * The step prefill calls it, on the request's fiber, when its leg is put together.
 */
#include <coordinator/plugin.h>

#include <stdio.h>
#include <stdlib.h>

struct my_step_state {
    char pool[64];
};

/* They are set on the step that uses the connector. */
static const coord_param params[] = {
    {COORD_PARAM(STRING, "pool", "The pool of encoders that share their output."), .fallback = "default"},
};

/* The config lives until `create` returns, so its texts are copied. */
static coord_status my_step_create(const coord_config *config, void **state, coord_error *error)
{
    struct my_step_state *self = calloc(1, sizeof *self);
    coord_slice pool = {0};

    if (!self || coord_config_string(config, "pool", &pool) != COORD_OK || pool.size >= sizeof self->pool) {
        free(self);
        return coord_error_set(error, "pool is longer than %zu bytes, or memory is short", sizeof self->pool - 1);
    }
    memcpy(self->pool, pool.data, pool.size);
    *state = self;
    return COORD_OK;
}

static coord_status prepare_prefill(void *state, coord_request *request, coord_document *body, const char *params_at,
                                    coord_call *call)
{
    const struct my_step_state *self = state;
    coord_status status = coord_document_set(body, params_at, coord_slice_of("{}"));
    char at[128];

    (void)call; /* its headers could be set */
    snprintf(at, sizeof at, "%s/pool", params_at);
    if (status == COORD_OK)
        status = coord_document_set_string(body, at, coord_slice_of(self->pool));
    return coord_fail_member(request, status, params_at, NULL); /* COORD_OK passes through */
}

static const coord_connector_type my_step_type = {
    .size = sizeof my_step_type,
    .kind = COORD_CONNECTOR_EC,
    .name = "my-step",
    .help = "Prefill finds encoder output in a pool.",
    COORD_STEP_PARAMS(params),
    .create = my_step_create,
    .destroy = free,
    .prepare_prefill = prepare_prefill,
};

static const coord_connector_type *const connectors[] = {&my_step_type, NULL};

COORD_PLUGIN(.name = "my-step", .version = "0.1.0", .licence = "Apache-2.0", .connectors = connectors)
