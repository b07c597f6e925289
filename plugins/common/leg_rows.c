/* See leg_rows.h. */
#include "common/leg_rows.h"
#include "common/place.h"

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})

#define OUTPUT_SHAPE "/min_tokens", "/stream_options", "/logprobs", "/top_logprobs", "/prompt_logprobs"

static const struct leg_row ROWS[] = {
    {.api = COORD_API_CHAT_COMPLETIONS,
     .path = "/v1/chat/completions",
     .render_path = "/v1/chat/completions/render",
     .prompt = "/messages",
     .ids_in = IDS_IN_KV_PARAMS,
     .usage_on_request = true,
     .caps = NAMES("/max_tokens", "/max_completion_tokens"),
     .ones = NAMES("/n", "/best_of"),
     .removed = NAMES(OUTPUT_SHAPE),
     .falses = NAMES("/stream")},
    {.api = COORD_API_COMPLETIONS,
     .path = "/v1/completions",
     .render_path = "/v1/completions/render",
     .prompt = "/prompt",
     .ids_in = IDS_IN_PROMPT,
     .usage_on_request = true,
     .caps = NAMES("/max_tokens"),
     .ones = NAMES("/n", "/best_of"),
     .removed = NAMES(OUTPUT_SHAPE),
     .falses = NAMES("/stream")},
    {.api = COORD_API_RESPONSES,
     .path = "/v1/responses",
     .render_path = "/v1/responses/render",
     .prompt = "/input",
     .ids_in = IDS_IN_KV_PARAMS,
     .caps = NAMES("/max_output_tokens"),
     .ones = NAMES("/n"),
     .removed = NAMES(OUTPUT_SHAPE),
     .falses = NAMES("/stream", "/store")},
    {.api = COORD_API_MESSAGES,
     .path = "/v1/messages",
     .render_path = "/v1/messages/render",
     .prompt = "/messages",
     .ids_in = IDS_IN_KV_PARAMS,
     .caps = NAMES("/max_tokens"),
     .ones = NAMES("/n"),
     .removed = NAMES(OUTPUT_SHAPE),
     .falses = NAMES("/stream")},
    {.api = COORD_API_GENERATE,
     .path = "/inference/v1/generate",
     .prompt = "/token_ids",
     .ids_in = IDS_IN_TOKEN_IDS,
     .object = "/sampling_params",
     .caps = NAMES("/sampling_params/max_tokens"),
     .ones = NAMES("/sampling_params/n", "/sampling_params/best_of"),
     .removed = NAMES("/sampling_params/min_tokens", "/stream_options", "/sampling_params/logprobs",
                      "/sampling_params/prompt_logprobs"),
     .falses = NAMES("/stream")},
};

const struct leg_row *leg_row_of(int32_t api)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        if (ROWS[i].api == api)
            return &ROWS[i];
    return NULL;
}

const struct leg_row *leg_row_generate(void) { return leg_row_of(COORD_API_GENERATE); }

coord_status leg_cap(coord_request *request, const struct leg_row *row, coord_document *body)
{
    static const coord_slice one = COORD_SLICE("1"), no = COORD_SLICE("false");
    coord_status status = COORD_OK;
    const char *at = "";

    if (row->object && coord_document_type(body, row->object) != COORD_JSON_OBJECT)
        status = coord_document_set(body, at = row->object, (coord_slice)COORD_SLICE("{}"));
    for (size_t i = 0; row->caps[i] && status == COORD_OK; i++)
        status = coord_document_set(body, at = row->caps[i], one);
    for (size_t i = 0; row->ones[i] && status == COORD_OK; i++)
        if (coord_document_type(body, row->ones[i]) != COORD_JSON_ABSENT)
            status = coord_document_set(body, at = row->ones[i], one);
    for (size_t i = 0; row->removed[i] && status == COORD_OK; i++)
        status = coord_document_remove(body, at = row->removed[i]);
    for (size_t i = 0; row->falses[i] && status == COORD_OK; i++)
        status = coord_document_set(body, at = row->falses[i], no);
    return coord_fail_member(request, status, at, NULL);
}

coord_status leg_add_token_ids(coord_request *request, const struct leg_row *row, coord_document *body,
                               const char *params_at)
{
    coord_slice ids;
    uint64_t count;
    char inside[PLACE_SIZE];
    const char *at = row->prompt;

    if (coord_request_token_ids(request, &ids, &count) != COORD_OK || count == 0)
        return COORD_OK;
    if (row->ids_in == IDS_IN_KV_PARAMS && coord_document_type(body, params_at) != COORD_JSON_OBJECT)
        return COORD_OK;
    if (row->ids_in == IDS_IN_KV_PARAMS)
        at = place_of_member(inside, params_at, "/prompt_token_ids");
    return coord_fail_member(request, coord_request_put_token_ids(request, body, at), at, NULL);
}
