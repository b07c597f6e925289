/*
 * The step `conditional-decode`: asks the decode workers whether one of them has the prompt's KV cache already, and if so lets
 * it answer at once.
 *
 * The probe goes out on a clone with `Prefer: if-available`. 412 leaves no trace, with the client or in the body; errors before
 * a byte went out fall through to the rest of the pipeline (decision 35). A hit streams through the same writers as decode.
 */
#include "common/parity.h"

#include <stdlib.h>

struct conditional {
    struct parity parity;
    coord_metric *probes;
};

static const coord_param PARAMS[] = {PARITY_PARAM};

static const coord_metric_type PROBES = {
    .size = sizeof PROBES,
    .kind = COORD_METRIC_COUNTER,
    .name = "conditional_decode_probes_total",
    .help = "[ALPHA] Probes for a decode worker that has the prompt's KV cache, by their result.",
    .labels = (const char *const[]){"result", NULL},
};

static coord_status conditional_create(const coord_config *config, void **state, coord_error *error)
{
    struct conditional *self = calloc(1, sizeof *self);

    if (!self)
        return coord_error_set(error, "memory is short");
    if (parity_create(&self->parity, config, error) != COORD_OK) {
        parity_destroy(&self->parity);
        free(self);
        return COORD_FAIL;
    }
    self->probes = coord_metric_declare(&PROBES);
    *state = self;
    return COORD_OK;
}

static void conditional_destroy(void *state)
{
    struct conditional *self = state;

    parity_destroy(&self->parity);
    free(self);
}

static void count(const struct conditional *self, const char *result)
{
    coord_slice label = coord_slice_of(result);

    coord_metric_add(self->probes, 1, &label);
}

/* The worker's head decides. */
static coord_status act_on_head(const struct conditional *self, coord_request *request, coord_call *call,
                                struct parity_plan *plan)
{
    int32_t status = coord_call_status(call);

    if (status == 412) {
        count(self, "deferred");
        return coord_call_discard(call);
    }
    if (status == 0 || status >= 500) {
        count(self, status == 0 ? "transport_error" : "error");
        coord_logf(request, COORD_LOG_INFO, "probe failed with status %d: the pipeline goes on without it", status);
        return status == 0 ? COORD_NEXT : coord_call_discard(call);
    }
    count(self, status >= 400 ? "error" : "served");
    if (parity_wrap(plan) != COORD_OK)
        return COORD_FAIL;
    return coord_call_relay(call);
}

static coord_status conditional_execute(void *state, coord_request *request)
{
    const struct conditional *self = state;
    const struct leg_row *row = leg_row_of(coord_request_api(request));
    coord_call *call = row ? coord_call_gateway_new(request, "conditional-decode", COORD_PHASE_DECODE) : NULL;
    coord_document *leg = call ? coord_document_clone_new(coord_request_body(request)) : NULL;
    struct parity_plan *plan = NULL;
    coord_status status = COORD_OK;

    if (!leg)
        return coord_fail(request, 500, NULL, row ? "memory is short" : "conditional-decode does not know this API");
    if (row->ids_in != IDS_IN_KV_PARAMS)
        status = leg_add_token_ids(request, row, leg, "/kv_transfer_params");
    if (status == COORD_OK)
        plan = parity_prepare(&self->parity, request, row, leg);
    if (plan && (coord_call_set_header(call, "prefer", (coord_slice)COORD_SLICE("if-available")) != COORD_OK ||
                 coord_call_set_header(call, "accept-encoding", (coord_slice)COORD_SLICE("identity")) != COORD_OK ||
                 coord_call_keep_query(call) != COORD_OK || coord_call_keep_failure(call) != COORD_OK ||
                 coord_call_set_body(call, leg) != COORD_OK))
        status = coord_fail(request, 500, NULL, "the probe could not be made");
    coord_document_free(leg);
    if (status != COORD_OK || !plan)
        return COORD_FAIL;
    status = coord_call_head(call);
    return status == COORD_OK ? act_on_head(self, request, call, plan) : status;
}

static const coord_step_type CONDITIONAL_DECODE = {
    .size = sizeof CONDITIONAL_DECODE,
    .name = "conditional-decode",
    .help = "Lets a decode worker answer at once if one has the prompt's KV cache.",
    COORD_STEP_PARAMS(PARAMS),
    .create = conditional_create,
    .execute = conditional_execute,
    .destroy = conditional_destroy,
};

COORD_PLUGIN(.name = "conditional-decode", .version = "0.1.0", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&CONDITIONAL_DECODE, NULL})
