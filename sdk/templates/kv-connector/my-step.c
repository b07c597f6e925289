/*
 * The KV connector `my-step`: tells prefill to keep the prompt's KV cache for a remote decode, and decode what prefill answered,
 * with the name of a pool in both legs.
 *
 * The steps prefill and decode call it, on the request's fiber; each has an instance of its own.
 */
#include <coordinator/plugin.h>

#include <stdio.h>
#include <stdlib.h>

struct my_step_state {
    char pool[64];
};

/* They are set on the steps that use the connector. */
static const coord_param params[] = {
    {COORD_PARAM(STRING, "pool", "The pool of workers that share a KV cache."), .fallback = "default"},
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

/* Sets `name` in the object at `params_at` to a JSON text; the first call makes the object. */
static coord_status set_member(coord_document *body, const char *params_at, const char *name, const char *json)
{
    char at[128];

    snprintf(at, sizeof at, "%s/%s", params_at, name);
    return coord_document_set(body, at, coord_slice_of(json));
}

static coord_status set_pool(const struct my_step_state *self, coord_document *body, const char *params_at)
{
    char at[128];

    snprintf(at, sizeof at, "%s/pool", params_at);
    return coord_document_set_string(body, at, coord_slice_of(self->pool));
}

static coord_status prepare_prefill(void *state, coord_request *request, coord_document *body, const char *params_at,
                                    coord_call *call)
{
    static const coord_slice handshake = COORD_SLICE("{\"do_remote_decode\":true,\"do_remote_prefill\":false}");
    coord_status status = coord_document_set(body, params_at, handshake);

    (void)call; /* its headers could be set */
    if (status == COORD_OK)
        status = set_pool(state, body, params_at);
    return coord_fail_member(request, status, params_at, NULL); /* COORD_OK passes through */
}

/* Without usable params nothing is kept: decode then computes the prompt itself. */
static coord_status read_prefill(void *state, coord_request *request, coord_document *answer, coord_call *call)
{
    coord_slice params_json;

    (void)state, (void)call;
    if (coord_document_type(answer, "/kv_transfer_params") != COORD_JSON_OBJECT ||
        coord_document_get(answer, "/kv_transfer_params", &params_json) != COORD_OK)
        return COORD_OK;
    if (coord_request_set_kv_params(request, params_json) != COORD_OK)
        return coord_fail(request, 500, NULL, "memory is short");
    return COORD_OK;
}

static coord_status prepare_decode(void *state, coord_request *request, coord_document *body, const char *params_at,
                                   coord_call *call)
{
    coord_slice kept;
    bool there = coord_request_kv_params(request, &kept) == COORD_OK;
    coord_status status = coord_document_set(body, params_at, there ? kept : coord_slice_of("{}"));

    (void)call;
    if (status == COORD_OK)
        status = set_member(body, params_at, "do_remote_decode", "false");
    if (status == COORD_OK)
        status = set_member(body, params_at, "do_remote_prefill", there ? "true" : "false");
    if (status == COORD_OK)
        status = set_pool(state, body, params_at);
    return coord_fail_member(request, status, params_at, NULL);
}

static const coord_connector_type my_step_type = {
    .size = sizeof my_step_type,
    .flags = COORD_CONNECTOR_READS_ANSWER,
    .kind = COORD_CONNECTOR_KV,
    .name = "my-step",
    .help = "Workers of one pool share the KV cache.",
    COORD_STEP_PARAMS(params),
    .create = my_step_create,
    .destroy = free,
    .prepare_prefill = prepare_prefill,
    .read_prefill = read_prefill,
    .prepare_decode = prepare_decode,
};

static const coord_connector_type *const connectors[] = {&my_step_type, NULL};

COORD_PLUGIN(.name = "my-step", .version = "0.1.0", .licence = "Apache-2.0", .connectors = connectors)
