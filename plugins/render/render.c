/*
 * The step `render`: asks the render tier for the token ids of the prompt, so that they are made once.
 *
 * It sends the body exactly as received (but for members that earlier steps have spliced), keeps the ids as the JSON text
 * that came back, and on completions puts them in the place of the prompt. Sources: vLLM 0.32.0 on the wire
 * (tests/data/vllm-0.32), decisions 42, 44, 59.
 */
#include "render.h"

#include <coordinator/plugin.h>

#include <stdlib.h>

static const coord_metric_type BODIES = {
    .size = sizeof BODIES,
    .kind = COORD_METRIC_COUNTER,
    .name = "render_body_total",
    .help = "[ALPHA] Bodies sent to the render tier: as received, or with members spliced.",
    .labels = (const char *const[]){"model_name", "body", NULL},
};

static const coord_param PARAMS[] = {
    {COORD_PARAM(URL, "address", "URL of the render tier."), .flags = COORD_PARAM_REQUIRED},
    {COORD_PARAM(DURATION, "timeout", "Time for a whole render call; 0s: none."), .fallback = "30s",
     .maximum = INT64_MAX},
    {COORD_PARAM(INT, "max_idle_conns_per_host", "Idle connections kept a reactor."), .fallback = "100",
     .maximum = 65536},
    {COORD_PARAM(DURATION, "idle_conn_timeout", "How long an idle connection is kept; never longer than 4s."),
     .fallback = "90s", .maximum = INT64_MAX},
    {COORD_PARAM(INT, "max_total_tokens", "Longest prompt in tokens, longer ones are a 400; 0: no limit."),
     .fallback = "0", .maximum = INT64_MAX},
    {COORD_PARAM(INT, "max_total_placeholder_tokens", "Most tokens of media placeholders; 0: no limit."),
     .fallback = "0", .maximum = INT64_MAX},
    {COORD_PARAM(BOOL, "forward_authorization", "Whether the render tier gets the client's Authorization header."),
     .fallback = "false"},
};

static coord_status render_create(const coord_config *config, void **state, coord_error *error)
{
    coord_upstream_options options = {.size = sizeof options};
    struct render *self = calloc(1, sizeof *self);
    int64_t idle = 0;

    if (!self)
        return coord_error_set(error, "memory is short");
    if (coord_config_duration(config, "timeout", &options.timeout_ns) != COORD_OK ||
        coord_config_int(config, "max_idle_conns_per_host", &idle) != COORD_OK ||
        coord_config_duration(config, "idle_conn_timeout", &options.idle_age_ns) != COORD_OK ||
        coord_config_int(config, "max_total_tokens", &self->max_tokens) != COORD_OK ||
        coord_config_int(config, "max_total_placeholder_tokens", &self->max_placeholder_tokens) != COORD_OK ||
        coord_config_bool(config, "forward_authorization", &self->forward_authorization) != COORD_OK) {
        free(self);
        return coord_error_set(error, "its params could not be read");
    }
    self->bodies = coord_metric_declare(&BODIES);
    options.max_idle_connections = (uint32_t)idle;
    if (coord_upstream_open(config, "address", &options, &self->tier, error) != COORD_OK) {
        free(self);
        return COORD_FAIL;
    }
    *state = self;
    return COORD_OK;
}

/* ---- What came back ---- */

/* Placeholders must lie inside the token list, whatever format uses them later (decision 44). */
static coord_status check_placeholders(const struct render *self, coord_request *request, coord_call *call,
                                       coord_document *answer, const char *features, uint64_t tokens)
{
    size_t modality = 0, item;
    coord_slice key, list;
    uint64_t sum = 0;

    while (coord_document_next(answer, features, &modality, &key, &list) == COORD_OK) {
        coord_document *entries = coord_document_parse_new(list, NULL, NULL);
        coord_slice text;

        for (item = 0; entries && coord_document_next(entries, "", &item, NULL, &text) == COORD_OK;) {
            coord_document *entry = coord_document_parse_new(text, NULL, NULL);
            uint64_t offset = 0, length = 0;
            bool good = entry && coord_document_get_count(entry, "/offset", &offset) == COORD_OK &&
                        coord_document_get_count(entry, "/length", &length) == COORD_OK && offset < tokens &&
                        length <= tokens - offset;

            coord_document_free(entry);
            if (!good) {
                coord_document_free(entries);
                return coord_call_fail_answer(call, "a media placeholder lies outside its %llu token ids",
                                              (unsigned long long)tokens);
            }
            sum += length;
        }
        coord_document_free(entries);
    }
    if (self->max_placeholder_tokens > 0 && sum > (uint64_t)self->max_placeholder_tokens)
        return coord_fail(request, 400, NULL, "the media of this request take %llu tokens, at most %lld are allowed",
                          (unsigned long long)sum, (long long)self->max_placeholder_tokens);
    return COORD_OK;
}

coord_status render_check_length(const struct render *self, coord_request *request, uint64_t tokens)
{
    if (self->max_tokens == 0 || tokens <= (uint64_t)self->max_tokens)
        return COORD_OK;
    return coord_fail(request, 400, NULL, "the prompt has %llu tokens, at most %lld are allowed",
                      (unsigned long long)tokens, (long long)self->max_tokens);
}

/* Completions answers an array of exactly one, the others an object. */
static coord_status keep_ids(const struct render *self, coord_request *request, coord_call *call, bool in_array)
{
    coord_document *answer = coord_call_document(call);
    const char *at = in_array ? "/0/token_ids" : "/token_ids";
    const char *features = in_array ? "/0/features/mm_placeholders" : "/features/mm_placeholders";
    coord_slice ids;
    uint64_t count = 0;
    coord_status status;

    if (!answer)
        return coord_call_fail_answer(call, "not JSON");
    if (in_array && (coord_document_type(answer, "") != COORD_JSON_ARRAY || coord_document_count(answer, "") != 1))
        return coord_call_fail_answer(call, "an array of one object is due");
    if (coord_document_get(answer, at, &ids) != COORD_OK || coord_request_set_token_ids(request, ids) != COORD_OK)
        return coord_call_fail_answer(call, "%s is not a list of token ids", at);
    status = coord_request_token_ids(request, &ids, &count);
    if (status != COORD_OK || count == 0)
        return coord_call_fail_answer(call, "%s is empty", at);
    status = render_check_length(self, request, count);
    return status == COORD_OK ? check_placeholders(self, request, call, answer, features, count) : status;
}

/* ---- What is sent ---- */

static bool same_member(coord_document *a, coord_document *b, coord_slice key)
{
    char at[256];
    coord_slice left = {0}, right = {0};

    if (key.size + 2 > sizeof at || memchr(key.data, '/', key.size) || memchr(key.data, '~', key.size) ||
        memchr(key.data, 0, key.size))
        return true;
    at[0] = '/';
    memcpy(at + 1, key.data, key.size);
    at[key.size + 1] = '\0';
    return coord_document_get(a, at, &left) == coord_document_get(b, at, &right) && coord_slice_equal(left, right);
}

/* For a person: which members are not as the client sent them. Only looked for when it is logged. */
static void log_spliced(coord_request *request, coord_document *body)
{
    coord_document *received = coord_document_parse_new(coord_request_received(request), NULL, NULL);
    coord_document *sides[] = {body, received};
    coord_slice key, value;

    for (size_t side = 0; received && side < 2; side++)
        for (size_t cursor = 0; coord_document_next(sides[side], "", &cursor, &key, &value) == COORD_OK;)
            if (!same_member(body, received, key))
                coord_logf(request, COORD_LOG_DEBUG, "render body: member %.*s is spliced", COORD_FMT(key));
    coord_document_free(received);
}

/* Whether render sees the client's own bytes. */
static void count_body(const struct render *self, coord_request *request, coord_document *body)
{
    coord_slice piece;
    bool edited = true;
    bool verbatim = coord_document_pieces(body, &piece, &edited, 1) == 1 && !edited;

    coord_metric_add(
        self->bodies, 1,
        (coord_slice[]){coord_request_model_label(request), coord_slice_of(verbatim ? "verbatim" : "spliced")});
    if (!coord_log_enabled(COORD_LOG_DEBUG))
        return;
    coord_logf(request, COORD_LOG_DEBUG, "render body is %s", verbatim ? "verbatim" : "spliced");
    if (!verbatim)
        log_spliced(request, body);
}

static coord_status ask(const struct render *self, coord_request *request, const struct leg_row *row)
{
    coord_call *call = coord_call_upstream_new(request, "render", self->tier, true);
    coord_slice authorization;
    coord_status status;

    if (!call)
        return COORD_FAIL;
    if (coord_call_set_path(call, coord_slice_of(row->render_path)) != COORD_OK ||
        coord_call_set_body(call, coord_request_body(request)) != COORD_OK ||
        coord_call_allow_repeat(call) != COORD_OK || coord_call_capture_headers(call) != COORD_OK)
        return coord_fail(request, 500, NULL, "the render call could not be made");
    if (self->forward_authorization && coord_request_header(request, "authorization", &authorization) == COORD_OK &&
        coord_call_set_header(call, "authorization", authorization) != COORD_OK)
        return coord_fail(request, 500, NULL, "the render call could not be made");
    count_body(self, request, coord_request_body(request));
    status = coord_call_run(call);
    if (status == COORD_OK)
        status = coord_call_require_ok(call);
    if (status != COORD_OK)
        return status;
    status = keep_ids(self, request, call, row->ids_in == IDS_IN_PROMPT);
    coord_call_forget_answer(call);
    return status;
}

/* ---- Completions: the prompt may be ids already ---- */

static coord_status refuse_prompt(coord_request *request, const char *what)
{
    coord_failure failure = {.size = sizeof failure, .status = 400, .param = "/prompt", .message = what};

    return coord_fail_with(request, &failure);
}

/* Names the first element that is no id. */
static coord_status refuse_element(coord_request *request, coord_document *body)
{
    size_t cursor = 0, index = 0;
    coord_slice element;

    for (; coord_document_next(body, "/prompt", &cursor, NULL, &element) == COORD_OK; index++) {
        bool digits = element.size > 0 && element.size <= 16;

        for (size_t i = 0; digits && i < element.size; i++)
            digits = element.data[i] >= '0' && element.data[i] <= '9';
        if (!digits)
            return coord_fail(request, 400, NULL, "/prompt/%zu must be a token id: a whole number of at least 0",
                              index);
    }
    return refuse_prompt(request, "/prompt must be a list of token ids");
}

static coord_status take_given_ids(const struct render *self, coord_request *request, coord_document *body)
{
    coord_slice ids;
    uint64_t count = 0;
    int32_t first = coord_document_type(body, "/prompt/0");

    if (first == COORD_JSON_ABSENT)
        return COORD_NEXT; /* [] is the client's own affair */
    if (first == COORD_JSON_STRING || first == COORD_JSON_ARRAY)
        return refuse_prompt(request, "a batch of prompts is not supported: send one prompt a request");
    if (coord_document_get(body, "/prompt", &ids) != COORD_OK || coord_request_set_token_ids(request, ids) != COORD_OK)
        return refuse_element(request, body);
    if (coord_request_token_ids(request, &ids, &count) != COORD_OK)
        return COORD_NEXT;
    return render_check_length(self, request, count);
}

static coord_status render_completions(const struct render *self, coord_request *request, const struct leg_row *row)
{
    coord_document *body = coord_request_body(request);
    int32_t type = coord_document_type(body, "/prompt");
    coord_status status;

    if (type == COORD_JSON_ARRAY)
        return take_given_ids(self, request, body);
    if (type != COORD_JSON_STRING)
        return refuse_prompt(request, type == COORD_JSON_ABSENT ? "prompt is missing"
                                                                : "prompt must be a string or a list of token ids");
    status = ask(self, request, row);
    if (status != COORD_OK)
        return status;
    return coord_fail_member(request, coord_request_put_token_ids(request, body, "/prompt"), "/prompt", NULL);
}

static coord_status render_execute(void *state, coord_request *request)
{
    const struct leg_row *row = leg_row_of(coord_request_api(request));

    if (!row)
        return COORD_NEXT;
    if (row->ids_in == IDS_IN_TOKEN_IDS)
        return render_generate(state, request);
    return row->ids_in == IDS_IN_PROMPT ? render_completions(state, request, row) : ask(state, request, row);
}

static const coord_step_type RENDER = {
    .size = sizeof RENDER,
    .name = "render",
    .help = "Asks the render tier for the prompt's token ids.",
    COORD_STEP_PARAMS(PARAMS),
    .provides = (const char *const[]){COORD_THING_TOKEN_IDS, NULL},
    .create = render_create,
    .execute = render_execute,
    .destroy = free,
};

COORD_PLUGIN(.name = "render", .version = "0.1.0", .licence = "Apache-2.0",
             .steps = (const coord_step_type *const[]){&RENDER, NULL})
