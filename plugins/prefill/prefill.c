/*
 * The step `prefill`: has the prefill workers compute the prompt's KV cache with a one-token leg, and keeps what decode needs
 * to fetch it.
 *
 * The leg is the client's own body with splices (decision 30), so that prefill and decode see the same bytes; only with
 * use_openai_format: false is a tokens-in body built. Sources: the Go coordinator, decisions 28, 30–33, 36.
 */
#include "common/kv.h"
#include "common/leg_rows.h"

#include <coordinator/metric.h>
#include <coordinator/plugin.h>
#include <coordinator/usage.h>

#include <stdio.h>
#include <stdlib.h>

struct prefill {
    coord_connector *kv, *ec;
    bool openai_format, require_transfer, in_extra_args;
    coord_metric *missing;
};

static const char *const PLACES[] = {"top_level", "extra_args", NULL};

static const coord_param PARAMS[] = {
    KV_CONNECTOR_PARAM,
    {COORD_PARAM(STRING, "ec_connector", "How encoder output gets to prefill."), .fallback = "ec-shared-storage",
     .inherits = "ec_connector"},
    {COORD_PARAM(BOOL, "use_openai_format",
                 "Whether the leg has the client's format (true) or is a tokens-in generate request (false)."),
     .fallback = "true", .inherits = "use_openai_format"},
    {COORD_PARAM(BOOL, "require_kv_transfer",
                 "Whether an answer without transfer params is a 502 instead of a recomputation by decode."),
     .fallback = "false"},
    {COORD_PARAM(ENUM, "transfer_params_in",
                 "Where transfer params stand in a generate request; extra_args is for older engines."),
     .fallback = "top_level", .choices = PLACES},
};

static const coord_metric_type MISSING = {
    .size = sizeof MISSING,
    .kind = COORD_METRIC_COUNTER,
    .name = "kv_transfer_missing_total",
    .help = "[ALPHA] Requests whose prefill handed out no KV transfer parameters.",
    .labels = (const char *const[]){"model_name", NULL},
};

static coord_status prefill_create(const coord_config *config, void **state, coord_error *error)
{
    struct prefill *self = calloc(1, sizeof *self);
    int32_t place = 0;

    if (!self)
        return coord_error_set(error, "memory is short");
    if (kv_open_sequential(config, &self->kv, error) != COORD_OK ||
        coord_connector_open(config, "ec_connector", COORD_CONNECTOR_EC, &self->ec, error) != COORD_OK)
        goto fail;
    if (coord_config_bool(config, "use_openai_format", &self->openai_format) != COORD_OK ||
        coord_config_bool(config, "require_kv_transfer", &self->require_transfer) != COORD_OK ||
        coord_config_choice(config, "transfer_params_in", &place) != COORD_OK) {
        coord_error_set(error, "its params could not be read");
        goto fail;
    }
    self->in_extra_args = place == 1;
    self->missing = coord_metric_declare(&MISSING);
    *state = self;
    return COORD_OK;
fail:
    free(self);
    return COORD_FAIL;
}

/* Decode cannot compute these for a prompt whose KV it pulls; some workers die of them (decision 28). */
static coord_status refuse_impossible(coord_request *request, coord_document *body)
{
    coord_failure failure = {.size = sizeof failure, .status = 400, .code = "unsupported_parameter"};
    int32_t logprobs = coord_document_type(body, "/prompt_logprobs");
    bool echo = false;

    if (coord_document_get_bool(body, "/echo", &echo) == COORD_OK && echo) {
        failure.param = "/echo";
        failure.message = "echo is not supported where prefill and decode run apart";
        return coord_fail_with(request, &failure);
    }
    if (logprobs != COORD_JSON_ABSENT && logprobs != COORD_JSON_NULL) {
        failure.param = "/prompt_logprobs";
        failure.message = "prompt_logprobs is not supported where prefill and decode run apart";
        return coord_fail_with(request, &failure);
    }
    return COORD_OK;
}

/* The tokens-in body: nothing of the client's but what shapes the cache (decision 30). */
static coord_document *build_generate(coord_request *request, coord_document *body)
{
    static const char *const KEPT[] = {"/cache_salt", "/priority"};
    coord_json *json = coord_json_new();
    coord_document *built = NULL;
    coord_slice ids = {0}, value;
    uint64_t count = 0;

    if (coord_request_token_ids(request, &ids, &count) != COORD_OK) {
        coord_json_free(json);
        coord_fail(request, 500, NULL, "use_openai_format: false needs token ids: put a render step before prefill");
        return NULL;
    }
    coord_json_object(json);
    coord_json_key(json, "request_id");
    coord_json_string(json, coord_request_id(request));
    coord_json_key(json, "model");
    coord_json_string(json, coord_request_model(request));
    coord_json_key(json, "token_ids");
    coord_json_raw(json, ids);
    coord_json_key(json, "sampling_params");
    coord_json_raw(json, (coord_slice)COORD_SLICE("{\"max_tokens\":1}"));
    coord_json_key(json, "stream");
    coord_json_bool(json, false);
    for (size_t i = 0; i < sizeof KEPT / sizeof *KEPT; i++)
        if (coord_document_get(body, KEPT[i], &value) == COORD_OK) {
            coord_json_key(json, KEPT[i] + 1);
            coord_json_raw(json, value);
        }
    coord_json_close(json);
    if (coord_json_end(json, &value) == COORD_OK)
        built = coord_document_parse_new(value, NULL, NULL);
    coord_json_free(json);
    if (!built)
        coord_fail(request, 500, NULL, "memory is short");
    return built;
}

static coord_document *build_body(coord_request *request, const struct leg_row *row, bool tokens_in)
{
    coord_document *body = coord_request_body(request);
    coord_document *leg = tokens_in ? build_generate(request, body) : coord_document_clone_new(body);

    if (!leg) {
        coord_fail(request, 500, NULL, "memory is short");
        return NULL;
    }
    if (!tokens_in && leg_cap(request, row, leg) != COORD_OK) {
        coord_document_free(leg);
        return NULL;
    }
    return leg;
}

/* Makes room for `extra_args` where transfer params stand there; the client's other ones stay. */
static const char *place_params(const struct prefill *self, coord_request *request, coord_document *leg,
                                const struct leg_row *row)
{
    static const char extra[] = "/sampling_params/extra_args";
    int32_t type;

    if (!self->in_extra_args || row->api != COORD_API_GENERATE)
        return "/kv_transfer_params";
    type = coord_document_type(leg, extra);
    if (type == COORD_JSON_ABSENT || type == COORD_JSON_NULL) {
        if (coord_fail_member(request, coord_document_set(leg, extra, (coord_slice)COORD_SLICE("{}")), extra, NULL) !=
            COORD_OK)
            return NULL;
    } else if (type != COORD_JSON_OBJECT) {
        coord_fail(request, 400, NULL, "%s must be an object", extra);
        return NULL;
    }
    return "/sampling_params/extra_args/kv_transfer_params";
}

/* Decision 36. */
static coord_status note_missing(const struct prefill *self, coord_request *request, coord_call *call)
{
    coord_slice model = coord_request_model_label(request), params;

    if (!(coord_connector_flags(self->kv) & COORD_CONNECTOR_READS_ANSWER) ||
        coord_request_kv_params(request, &params) == COORD_OK)
        return COORD_OK;
    coord_metric_add(self->missing, 1, &model);
    if (self->require_transfer)
        return coord_call_fail_answer(call, "no kv_transfer_params, and require_kv_transfer is set");
    coord_logf(request, COORD_LOG_WARNING,
               "prefill answered without usable kv_transfer_params: decode will compute the prompt again; check the "
               "prefill worker's KV connector");
    return COORD_OK;
}

/* The answer was found to be JSON, and may be long with blocks' ids: only its usage block is read again. */
static void note_usage(coord_request *request, const struct leg_row *row, coord_document *answer)
{
    static const char format[] = "{\"usage\":%.*s}";
    coord_usage usage = {.size = sizeof usage};
    coord_slice block;
    char *text;
    int size;

    if (coord_document_get(answer, "/usage", &block) != COORD_OK)
        return;
    text = malloc(sizeof format + block.size);
    if (!text)
        return;
    size = snprintf(text, sizeof format + block.size, format, COORD_FMT(block));
    if (size > 0 && coord_usage_read(row->api, (coord_slice){text, (size_t)size}, &usage) == COORD_OK)
        coord_request_note_usage(request, COORD_PHASE_PREFILL, &usage);
    free(text);
}

static coord_status read_answer(const struct prefill *self, coord_request *request, const struct leg_row *row,
                                coord_call *call)
{
    coord_status status = coord_call_require_ok(call);
    coord_document *answer;

    if (status != COORD_OK)
        return status;
    answer = coord_call_document(call);
    if (!answer ||
        (coord_document_type(answer, "") != COORD_JSON_OBJECT && coord_document_type(answer, "") != COORD_JSON_NULL))
        return coord_call_fail_answer(call, "a JSON object is due");
    note_usage(request, row, answer);
    status = coord_connector_read_prefill(self->kv, request, answer, call);
    return status == COORD_OK ? note_missing(self, request, call) : status;
}

static coord_status prefill_execute(void *state, coord_request *request)
{
    const struct prefill *self = state;
    const struct leg_row *own = leg_row_of(coord_request_api(request));
    bool tokens_in = own && !self->openai_format && own->ids_in == IDS_IN_KV_PARAMS;
    const struct leg_row *row = tokens_in ? leg_row_generate() : own;
    coord_document *leg;
    coord_call *call;
    const char *at;
    coord_status status;

    if (!row)
        return COORD_NEXT;
    status = refuse_impossible(request, coord_request_body(request));
    if (status != COORD_OK)
        return status;
    call = coord_call_gateway_new(request, "prefill", COORD_PHASE_PREFILL);
    leg = call ? build_body(request, row, tokens_in) : NULL;
    at = leg ? place_params(self, request, leg, row) : NULL;
    status = at ? coord_connector_prepare_prefill(self->kv, request, leg, at, call) : COORD_FAIL;
    if (status == COORD_OK)
        status = coord_connector_prepare_prefill(self->ec, request, leg, "/ec_transfer_params", call);
    if (status == COORD_OK)
        status = leg_add_token_ids(request, row, leg, at);
    if (status == COORD_OK &&
        (coord_call_set_path(call, coord_slice_of(row->path)) != COORD_OK ||
         coord_call_set_body(call, leg) != COORD_OK || coord_call_allow_repeat(call) != COORD_OK ||
         coord_call_capture_headers(call) != COORD_OK))
        status = coord_fail(request, 500, NULL, "the prefill call could not be made");
    coord_document_free(leg);
    if (status == COORD_OK)
        status = coord_call_run(call);
    if (status != COORD_OK)
        return status;
    status = read_answer(self, request, row, call);
    coord_call_forget_answer(call);
    return status;
}

static const coord_step_type PREFILL = {
    .size = sizeof PREFILL,
    .name = "prefill",
    .help = "Computes the prompt's KV cache on the prefill workers.",
    COORD_STEP_PARAMS(PARAMS),
    .provides = (const char *const[]){COORD_THING_KV_PARAMS, NULL},
    .create = prefill_create,
    .execute = prefill_execute,
    .destroy = free,
};

COORD_PLUGIN(.name = "prefill", .version = "0.1.0", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&PREFILL, NULL})
