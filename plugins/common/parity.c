/* See parity.h. */
#include "common/parity.h"

#include <stdlib.h>

const char *const PARITY_MODES[] = {"off", "warn", "error", NULL};

struct parity_plan {
    const struct parity *parity;
    coord_request *request;
    uint64_t expected;
    bool checks;        /* compare at the end */
    bool drops;         /* the usage frame is there because of us */
    bool ids_forwarded; /* decode got the ids */
};

static const coord_metric_type MISMATCHES = {
    .size = sizeof MISMATCHES,
    .kind = COORD_METRIC_COUNTER,
    .name = "prompt_token_mismatch_total",
    .help = "[ALPHA] Requests whose decode worker counted other prompt tokens than were rendered.",
    .labels = (const char *const[]){"model_name", "api_type", "ids_forwarded", NULL},
};

/* The core's own family: the same shape gives the same one. */
static const coord_metric_type STEP_ERRORS = {
    .size = sizeof STEP_ERRORS,
    .kind = COORD_METRIC_COUNTER,
    .name = "step_errors_total",
    .help = "[ALPHA] Steps that failed, by the kind of error.",
    .labels = (const char *const[]){"step", "error_code", NULL},
};

coord_status parity_create(struct parity *parity, const coord_config *config, coord_error *error)
{
    coord_slice id = coord_config_step_id(config);
    int32_t mode = 0;

    if (coord_config_choice(config, "prompt_token_parity", &mode) != COORD_OK)
        return coord_error_set(error, "prompt_token_parity could not be read");
    parity->mode = (enum parity_mode)mode;
    parity->step = strndup(id.data, id.size);
    parity->mismatches = coord_metric_declare(&MISMATCHES);
    parity->step_errors = coord_metric_declare(&STEP_ERRORS);
    if (!parity->step || !parity->mismatches || !parity->step_errors)
        return coord_error_set(error, "memory is short");
    return COORD_OK;
}

void parity_destroy(struct parity *parity) { free((char *)(uintptr_t)parity->step); }

/* ---- Before the leg ---- */

enum flag { FLAG_UNSET, FLAG_TRUE, FLAG_MALFORMED };

/* absent, null and false count as unset; what engines might coerce is left to them. */
static enum flag flag_at(coord_document *leg, const char *pointer)
{
    int32_t type = coord_document_type(leg, pointer);
    bool value = false;

    if (type == COORD_JSON_ABSENT || type == COORD_JSON_NULL)
        return FLAG_UNSET;
    if (coord_document_get_bool(leg, pointer, &value) != COORD_OK)
        return FLAG_MALFORMED;
    return value ? FLAG_TRUE : FLAG_UNSET;
}

/* What a client's stream_options mean for us: the table of docs/api.md, "Asking for usage". */
static coord_status plan_stream(struct parity_plan *plan, coord_document *leg)
{
    static const char options[] = "/stream_options";
    int32_t type = coord_document_type(leg, options);
    enum flag include, continuous;
    coord_status status;

    if (type == COORD_JSON_ABSENT || type == COORD_JSON_NULL) {
        plan->drops = true;
        return coord_document_set(leg, options, (coord_slice)COORD_SLICE("{\"include_usage\":true}"));
    }
    include = flag_at(leg, "/stream_options/include_usage");
    continuous = flag_at(leg, "/stream_options/continuous_usage_stats");
    if (type != COORD_JSON_OBJECT || include == FLAG_MALFORMED || continuous == FLAG_MALFORMED ||
        (continuous == FLAG_TRUE && include != FLAG_TRUE)) {
        plan->checks = false; /* the worker's own answer, and no other usage than the client asked for */
        return COORD_OK;
    }
    if (include == FLAG_TRUE)
        return COORD_OK;
    status = coord_document_set(leg, "/stream_options/include_usage", (coord_slice)COORD_SLICE("true"));
    plan->drops = status == COORD_OK;
    return status;
}

/* Read from the body that is sent, so that a step that begins to forward ids needs no change here. */
static bool forwards_ids(const struct leg_row *row, coord_document *leg)
{
    switch (row->ids_in) {
    case IDS_IN_TOKEN_IDS:
        return true;
    case IDS_IN_PROMPT:
        return coord_document_type(leg, "/prompt") == COORD_JSON_ARRAY;
    case IDS_IN_KV_PARAMS:
        break;
    }
    return coord_document_type(leg, "/kv_transfer_params/prompt_token_ids") != COORD_JSON_ABSENT;
}

struct parity_plan *parity_prepare(const struct parity *parity, coord_request *request, const struct leg_row *row,
                                   coord_document *leg)
{
    struct parity_plan *plan = coord_request_alloc(request, sizeof *plan);
    coord_slice ids;
    coord_status status = COORD_OK;

    if (!plan) {
        coord_fail(request, 500, NULL, "memory is short");
        return NULL;
    }
    plan->parity = parity;
    plan->request = request;
    plan->checks = parity->mode != PARITY_OFF && coord_request_token_ids(request, &ids, &plan->expected) == COORD_OK &&
                   plan->expected > 0;
    if (plan->checks && row->usage_on_request && coord_request_stream(request))
        status = plan_stream(plan, leg);
    if (coord_fail_member(request, status, "/stream_options", NULL) != COORD_OK)
        return NULL;
    plan->ids_forwarded = forwards_ids(row, leg);
    return plan;
}

/* ---- After the answer ---- */

static void report(const struct parity_plan *plan, uint64_t reported)
{
    const struct parity *parity = plan->parity;
    coord_request *request = plan->request;
    coord_slice api = coord_request_api_label(request), step = coord_slice_of(parity->step);
    coord_slice forwarded = coord_slice_of(plan->ids_forwarded ? "true" : "false");
    const char *why = plan->ids_forwarded
                          ? "decode ignored the token ids that it was given (echo, or content that is no text)"
                          : "the render tier and decode render differently: compare tokenizer, chat template, engine "
                            "version and template kwargs";

    coord_metric_add(parity->mismatches, 1, (coord_slice[]){coord_request_model_label(request), api, forwarded});
    if (parity->mode == PARITY_ERROR)
        coord_metric_add(parity->step_errors, 1, (coord_slice[]){step, coord_slice_of("prompt_token_mismatch")});
    coord_log(
        request, COORD_LOG_WARNING, "prompt token mismatch",
        (coord_field[]){{.name = "model", .type = COORD_FIELD_TEXT, .text = coord_request_model(request)},
                        {.name = "api", .type = COORD_FIELD_TEXT, .text = api},
                        {.name = "step", .type = COORD_FIELD_TEXT, .text = step},
                        {.name = "mode", .type = COORD_FIELD_TEXT, .text = coord_slice_of(PARITY_MODES[parity->mode])},
                        {.name = "expected", .type = COORD_FIELD_INT, .number = (int64_t)plan->expected},
                        {.name = "reported", .type = COORD_FIELD_INT, .number = (int64_t)reported},
                        {.name = "ids_forwarded", .type = COORD_FIELD_TEXT, .text = forwarded},
                        {.name = "why", .type = COORD_FIELD_TEXT, .text = coord_slice_of(why)}},
        8);
}

static void seen(coord_request *request, const coord_usage *usage, void *argument)
{
    const struct parity_plan *plan = argument;

    coord_request_note_usage(request, COORD_PHASE_DECODE, usage);
    if (plan->checks && (usage->said & COORD_USAGE_PROMPT) && usage->prompt != plan->expected)
        report(plan, usage->prompt);
}

/* The observer is wrapped last: it sees the worker's numbers, before the editor. */
coord_status parity_wrap(struct parity_plan *plan)
{
    coord_usage prefill = {.size = sizeof prefill};
    bool cached = coord_request_usage(plan->request, COORD_PHASE_PREFILL, &prefill) == COORD_OK &&
                  (prefill.said & COORD_USAGE_CACHED);
    coord_status status = coord_usage_edit(plan->request, cached ? &prefill.cached : NULL, plan->drops);

    if (status == COORD_OK && plan->parity->mode != PARITY_OFF)
        status = coord_usage_observe(plan->request, seen, plan);
    return status == COORD_OK ? COORD_OK : coord_fail(plan->request, 500, NULL, "the answer could not be prepared");
}
