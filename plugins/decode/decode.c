/*
 * The step `decode`: sends the client's request to the decode workers and relays the answer.
 *
 * The body is the client's, byte for byte, but for what the KV connector documents and, where configured, the token ids.
 * Sources: the Go coordinator, decisions 10, 32, 38.
 */
#include "common/kv.h"
#include "common/parity.h"

#include <stdlib.h>

struct decode {
    coord_connector *kv;
    struct parity parity;
    bool forward_ids, retry;
};

static const coord_param PARAMS[] = {
    KV_CONNECTOR_PARAM,
    {COORD_PARAM(
         BOOL, "forward_token_ids",
         "Whether decode gets the rendered ids on chat-shaped requests, too (kv_transfer_params.prompt_token_ids)."),
     .fallback = "false"},
    {COORD_PARAM(BOOL, "retry_decode",
                 "Whether the leg is repeated once when the worker closed without a byte of an answer."),
     .fallback = "false"},
    PARITY_PARAM,
};

static coord_status decode_create(const coord_config *config, void **state, coord_error *error)
{
    struct decode *self = calloc(1, sizeof *self);

    if (!self)
        return coord_error_set(error, "memory is short");
    if (kv_open_sequential(config, &self->kv, error) != COORD_OK ||
        parity_create(&self->parity, config, error) != COORD_OK)
        goto fail;
    if (coord_config_bool(config, "forward_token_ids", &self->forward_ids) != COORD_OK ||
        coord_config_bool(config, "retry_decode", &self->retry) != COORD_OK) {
        coord_error_set(error, "its params could not be read");
        goto fail;
    }
    *state = self;
    return COORD_OK;
fail:
    parity_destroy(&self->parity);
    free(self);
    return COORD_FAIL;
}

static void decode_destroy(void *state)
{
    struct decode *self = state;

    parity_destroy(&self->parity);
    free(self);
}

static coord_status decode_execute(void *state, coord_request *request)
{
    static const char params_at[] = "/kv_transfer_params";
    const struct decode *self = state;
    const struct leg_row *row = leg_row_of(coord_request_api(request));
    coord_call *call = row ? coord_call_gateway_new(request, "decode", COORD_PHASE_DECODE) : NULL;
    coord_document *leg = call ? coord_document_clone_new(coord_request_body(request)) : NULL;
    struct parity_plan *plan;
    coord_status status;

    if (!leg)
        return coord_fail(request, 500, NULL, row ? "memory is short" : "decode does not know this API");
    status = coord_connector_prepare_decode(self->kv, request, leg, params_at, call);
    if (status == COORD_OK && (self->forward_ids || row->ids_in != IDS_IN_KV_PARAMS))
        status = leg_add_token_ids(request, row, leg, params_at);
    plan = status == COORD_OK ? parity_prepare(&self->parity, request, row, leg) : NULL;
    if (!plan || parity_wrap(plan) != COORD_OK)
        status = status == COORD_OK ? COORD_FAIL : status;
    if (status == COORD_OK && (coord_call_set_body(call, leg) != COORD_OK || coord_call_keep_query(call) != COORD_OK ||
                               (self->retry && coord_call_allow_repeat(call) != COORD_OK)))
        status = coord_fail(request, 500, NULL, "the decode call could not be made");
    coord_document_free(leg);
    return status == COORD_OK ? coord_call_proxy(call) : status;
}

static const coord_step_type DECODE = {
    .size = sizeof DECODE,
    .name = "decode",
    .help = "Has the decode workers answer, and relays the answer.",
    COORD_STEP_PARAMS(PARAMS),
    .provides = (const char *const[]){COORD_THING_ANSWER, NULL},
    .create = decode_create,
    .execute = decode_execute,
    .destroy = decode_destroy,
};

COORD_PLUGIN(.name = "decode", .version = "0.1.0", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&DECODE, NULL})
