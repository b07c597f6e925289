/*
 * The step `guardrail`: asks a moderation service about the prompt before any worker sees it. What the service flags is refused with a
 * 400 in the shape of the API that was called. A service that does not answer in time, or not as it should, either stops the
 * request (`on_failure: closed`) or lets it go on, counted (`open`).
 */
#include <coordinator/call.h>
#include <coordinator/metric.h>
#include <coordinator/plugin.h>

#include <stdio.h>
#include <stdlib.h>

enum { CLOSED = 0, OPEN = 1 }; /* as in `choices` */

struct guardrail {
    coord_upstream *service;
    int64_t timeout;
    int32_t on_failure;
    coord_metric *let_go;
};

static const char *const choices[] = {"closed", "open", NULL};

static const coord_param params[] = {
    {COORD_PARAM(URL, "service", "The moderation service; asked at /v1/moderations."), .flags = COORD_PARAM_REQUIRED},
    {COORD_PARAM(DURATION, "timeout", "How long its answer is waited for."), .fallback = "2s", .minimum = 1000000,
     .maximum = INT64_MAX},
    {COORD_PARAM(ENUM, "on_failure", "Without a good answer: refuse (closed) or let the request go on (open)."),
     .fallback = "closed", .choices = choices},
};

/* Where each API has what the model will read: the prompt, and what stands in front of it. */
static const struct prompt {
    int32_t api;
    const char *input, *instructions; /* the second may be NULL */
} prompts[] = {
    {COORD_API_CHAT_COMPLETIONS, "/messages", NULL},  {COORD_API_COMPLETIONS, "/prompt", NULL},
    {COORD_API_RESPONSES, "/input", "/instructions"}, {COORD_API_MESSAGES, "/messages", "/system"},
    {COORD_API_GENERATE, "/token_ids", NULL},
};

static coord_status guardrail_create(const coord_config *config, void **state, coord_error *error)
{
    static const coord_metric_type let_go = {.size = sizeof let_go,
                                             .kind = COORD_METRIC_COUNTER,
                                             .name = "guardrail_failed_open_total",
                                             .help = "Requests that went on without the moderation service's word."};
    struct guardrail *guardrail = calloc(1, sizeof *guardrail);

    if (!guardrail)
        return coord_error_set(error, "memory is short");
    if (coord_upstream_open(config, "service", NULL, &guardrail->service, error) != COORD_OK ||
        coord_config_duration(config, "timeout", &guardrail->timeout) != COORD_OK ||
        coord_config_choice(config, "on_failure", &guardrail->on_failure) != COORD_OK ||
        !(guardrail->let_go = coord_metric_declare(&let_go))) {
        free(guardrail);
        return coord_error_set(error, "the params cannot be used");
    }
    *state = guardrail;
    return COORD_OK;
}

/* Adds a member with the client's own bytes, if the client sent one. COORD_REPEATED: which one the worker takes is not known. */
static coord_status add_part(coord_json *json, const char *name, coord_request *request, const char *pointer)
{
    coord_slice part;
    coord_status status = pointer ? coord_document_get(coord_request_body(request), pointer, &part) : COORD_ABSENT;

    if (status == COORD_OK) {
        coord_json_key(json, name);
        coord_json_raw(json, part);
    }
    return status == COORD_ABSENT ? COORD_OK : status;
}

static coord_status set_question(coord_call *call, coord_request *request, const struct prompt *prompt)
{
    coord_json *json = coord_json_new();
    coord_slice text;
    coord_status status;

    coord_json_object(json);
    coord_json_key(json, "model");
    coord_json_string(json, coord_request_model(request));
    status = add_part(json, "input", request, prompt->input);
    if (status == COORD_OK)
        status = add_part(json, "instructions", request, prompt->instructions);
    coord_json_close(json);
    if (status == COORD_OK)
        status = coord_json_end(json, &text);
    if (status == COORD_OK)
        status = coord_call_set_text(call, text, "application/json");
    coord_json_free(json);
    return status;
}

/* What the service said: COORD_OK with `*flagged`, or anything else when that cannot be told. Of a list it may judge each part. */
static coord_status read_verdict(coord_call *call, bool *flagged)
{
    coord_document *answer = coord_call_status(call) == 200 ? coord_call_document(call) : NULL;
    size_t count = answer ? coord_document_count(answer, "/results") : 0;
    coord_status status = count > 0 ? COORD_OK : COORD_ABSENT;
    char pointer[64];

    *flagged = false;
    for (size_t i = 0; i < count && status == COORD_OK && !*flagged; i++) {
        snprintf(pointer, sizeof pointer, "/results/%zu/flagged", i);
        status = coord_document_get_bool(answer, pointer, flagged);
    }
    return status;
}

static coord_status ask(struct guardrail *guardrail, coord_request *request, const struct prompt *prompt)
{
    coord_call *call = coord_call_upstream_new(request, "guardrail", guardrail->service, false);
    coord_status status;
    bool flagged;

    status = call ? set_question(call, request, prompt) : COORD_NO_MEMORY;
    if (status == COORD_REPEATED)
        return coord_fail(request, 400, "invalid_value", "what the model shall read stands there twice");
    /* keep_failure: a service that is away or late is our business here, not yet the client's error. */
    if (status != COORD_OK || coord_call_set_path(call, coord_slice_of("/v1/moderations")) != COORD_OK ||
        coord_call_set_timeout(call, guardrail->timeout) != COORD_OK || coord_call_keep_failure(call) != COORD_OK)
        return coord_fail(request, 500, NULL, "the moderation service could not be asked");
    status = coord_call_run(call); /* parks this request; others run meanwhile */
    if (status != COORD_OK)
        return status; /* the client left */
    if (read_verdict(call, &flagged) == COORD_OK)
        return flagged ? coord_fail(request, 400, "content_policy", "the prompt was refused by content policy")
                       : COORD_NEXT;
    if (guardrail->on_failure == CLOSED)
        return coord_fail(request, 503, "moderation_unavailable", "the prompt could not be checked, try again later");
    coord_logf(request, COORD_LOG_WARNING, "no verdict of the moderation service (status %d), let go",
               coord_call_status(call));
    coord_metric_add(guardrail->let_go, 1, NULL);
    return COORD_NEXT;
}

static coord_status guardrail_execute(void *state, coord_request *request)
{
    for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++)
        if (prompts[i].api == coord_request_api(request))
            return ask(state, request, &prompts[i]);
    return COORD_NEXT; /* an API of a later version */
}

static const coord_step_type guardrail_step = {
    .size = sizeof guardrail_step,
    .name = "guardrail",
    .help = "Asks a moderation service about the prompt and refuses what it flags.",
    COORD_STEP_PARAMS(params),
    .create = guardrail_create,
    .execute = guardrail_execute,
    .destroy = free,
};

static const coord_step_type *const steps[] = {&guardrail_step, NULL};

COORD_PLUGIN(.name = "guardrail", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
