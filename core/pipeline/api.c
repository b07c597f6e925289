/* See api.h. */
#include "pipeline/api.h"

#include <coordinator/document.h>

#define NAMES(...) ((const char *const[]){__VA_ARGS__, NULL})
#define CHAT_PROMPT                                                                                                    \
    NAMES("/messages", "/tools", "/tool_choice", "/documents", "/chat_template", "/chat_template_kwargs",              \
          "/mm_processor_kwargs", "/add_generation_prompt", "/continue_final_message", "/add_special_tokens",          \
          "/reasoning_effort", "/response_format")

static const struct api APIS[] = {
    {COORD_API_CHAT_COMPLETIONS, "/v1/chat/completions", "chat_completions", "chat_completions", SHAPE_OPENAI, "[DONE]",
     CHAT_PROMPT},
    {COORD_API_COMPLETIONS, "/v1/completions", "completions", "completions", SHAPE_OPENAI, "[DONE]", NAMES("/prompt")},
    {COORD_API_RESPONSES, "/v1/responses", "responses", "unknown", SHAPE_RESPONSES, NULL,
     NAMES("/input", "/instructions", "/tools", "/tool_choice", "/chat_template", "/chat_template_kwargs",
           "/mm_processor_kwargs", "/text", "/reasoning")},
    {COORD_API_MESSAGES, "/v1/messages", "messages", "unknown", SHAPE_ANTHROPIC, "message_stop",
     NAMES("/system", "/messages", "/tools", "/tool_choice", "/chat_template", "/chat_template_kwargs",
           "/mm_processor_kwargs", "/thinking")},
    {COORD_API_GENERATE, "/inference/v1/generate", "vllm_generate", "generate", SHAPE_OPENAI, "[DONE]",
     NAMES("/token_ids", "/features")},
};

static const struct api NONE = {0, "", "unknown", "unknown", SHAPE_OPENAI, NULL, NULL};

/* The table of docs/api.md, "Errors"; the code is the one of a status whose failure names no other. */
static const struct {
    int32_t status;
    const char *openai;
    const char *anthropic;
    const char *code;
} ANSWERS[] = {
    {400, "invalid_request_error", "invalid_request_error", "invalid_value"},
    {401, "authentication_error", "authentication_error", "unauthorized"},
    {403, "permission_error", "permission_error", "forbidden"},
    {404, "invalid_request_error", "not_found_error", "not_found"},
    {405, "invalid_request_error", "invalid_request_error", "method_not_allowed"},
    {408, "timeout_error", "timeout_error", "request_timeout"},
    {413, "invalid_request_error", "request_too_large", "request_too_large"},
    {415, "invalid_request_error", "invalid_request_error", "unsupported_media_type"},
    {422, "invalid_request_error", "invalid_request_error", "invalid_value"},
    {429, "rate_limit_error", "rate_limit_error", "rate_limited"},
    {500, "server_error", "api_error", "internal"},
    {501, "server_error", "api_error", "not_implemented"},
    {502, "server_error", "api_error", "upstream_error"},
    {503, "server_error", "overloaded_error", "upstream_unavailable"},
    {504, "timeout_error", "timeout_error", "upstream_timeout"},
};

static const struct guarded_member GUARDED[] = {
    {COORD_SLICE("model"), false, false},
    {COORD_SLICE("stream"), false, false},
    {COORD_SLICE("stream_options"), false, false},
    {COORD_SLICE("messages"), false, false},
    {COORD_SLICE("prompt"), false, false},
    {COORD_SLICE("input"), false, false},
    {COORD_SLICE("token_ids"), false, false},
    {COORD_SLICE("max_tokens"), false, false},
    {COORD_SLICE("max_completion_tokens"), false, false},
    {COORD_SLICE("max_output_tokens"), false, false},
    {COORD_SLICE("min_tokens"), false, false},
    {COORD_SLICE("n"), false, false},
    {COORD_SLICE("best_of"), false, false},
    {COORD_SLICE("logprobs"), false, false},
    {COORD_SLICE("top_logprobs"), false, false},
    {COORD_SLICE("prompt_logprobs"), false, false},
    {COORD_SLICE("echo"), false, false},
    {COORD_SLICE("store"), false, false},
    {COORD_SLICE("sampling_params"), false, false},
    {COORD_SLICE("vllm_xargs"), false, false},
    {COORD_SLICE("kv_transfer_params"), false, true},
    {COORD_SLICE("ec_transfer_params"), false, true},
    {COORD_SLICE("bootstrap_"), true, true},
    {COORD_SLICE("do_remote_"), true, true},
};

const struct api *api_for_path(coord_slice path)
{
    for (size_t i = 0; i < sizeof APIS / sizeof *APIS; i++)
        if (coord_slice_is(path, APIS[i].path))
            return &APIS[i];
    return NULL;
}

const struct api *api_none(void) { return &NONE; }

const struct guarded_member *guarded_member_find(coord_slice name)
{
    for (size_t i = 0; i < sizeof GUARDED / sizeof *GUARDED; i++) {
        size_t size = GUARDED[i].name.size;

        if (name.size < size || *name.data != *GUARDED[i].name.data) /* nearly all differ here */
            continue;
        if ((name.size == size || GUARDED[i].prefix) && memcmp(name.data, GUARDED[i].name.data, size) == 0)
            return &GUARDED[i];
    }
    return NULL;
}

/* The row of a status; of its class where it has none of its own. */
static size_t answer_of(int32_t status)
{
    size_t rows = sizeof ANSWERS / sizeof *ANSWERS;

    for (size_t i = 0; i < rows; i++)
        if (ANSWERS[i].status == status)
            return i;
    return status >= 400 && status < 500 ? 0 : answer_of(500);
}

const char *api_error_code(int32_t status) { return ANSWERS[answer_of(status)].code; }

static void openai_error(coord_json *json, const struct api_error *error)
{
    size_t row = answer_of(error->status);

    coord_json_object(json);
    coord_json_key(json, "error");
    coord_json_object(json);
    coord_json_key(json, "message");
    coord_json_string(json, error->message);
    coord_json_key(json, "type");
    coord_json_string(json, coord_slice_of(error->type ? error->type : ANSWERS[row].openai));
    coord_json_key(json, "param");
    if (error->param)
        coord_json_string(json, coord_slice_of(error->param));
    else
        coord_json_null(json);
    coord_json_key(json, "code");
    coord_json_string(json, coord_slice_of(error->code ? error->code : ANSWERS[row].code));
    coord_json_close(json);
    coord_json_close(json);
}

static void anthropic_error(coord_json *json, const struct api_error *error)
{
    size_t row = answer_of(error->status);

    coord_json_object(json);
    coord_json_key(json, "type");
    coord_json_string(json, coord_slice_of("error"));
    coord_json_key(json, "error");
    coord_json_object(json);
    coord_json_key(json, "type");
    coord_json_string(json, coord_slice_of(error->type ? error->type : ANSWERS[row].anthropic));
    coord_json_key(json, "message");
    coord_json_string(json, error->message);
    coord_json_close(json);
    coord_json_key(json, "request_id");
    coord_json_string(json, error->request_id);
    coord_json_close(json);
}

static bool append_error(const struct api *api, const struct api_error *error, struct buffer *out)
{
    coord_json *json = coord_json_new();
    coord_slice text;
    bool done;

    if (api->shape == SHAPE_ANTHROPIC)
        anthropic_error(json, error);
    else
        openai_error(json, error);
    done = json && coord_json_end(json, &text) == COORD_OK && buffer_append_slice(out, text);
    coord_json_free(json);
    return done;
}

bool api_error_body(const struct api *api, const struct api_error *error, struct buffer *out)
{
    return append_error(api, error, out);
}

/* The terminal event of a Responses stream that failed, with the next number of its sequence. */
static bool append_response_failed(const struct api_error *error, struct buffer *out)
{
    coord_json *json = coord_json_new();
    coord_slice text;
    bool done;

    coord_json_object(json);
    coord_json_key(json, "type");
    coord_json_string(json, coord_slice_of("response.failed"));
    coord_json_key(json, "sequence_number");
    coord_json_int(json, error->sequence);
    coord_json_key(json, "response");
    coord_json_object(json);
    coord_json_key(json, "id");
    coord_json_string(json, error->response_id.size ? error->response_id : error->request_id);
    coord_json_key(json, "object");
    coord_json_string(json, coord_slice_of("response"));
    coord_json_key(json, "status");
    coord_json_string(json, coord_slice_of("failed"));
    coord_json_key(json, "output");
    coord_json_array(json);
    coord_json_close(json);
    coord_json_key(json, "error");
    coord_json_object(json);
    coord_json_key(json, "code");
    coord_json_string(json, coord_slice_of("server_error"));
    coord_json_key(json, "message");
    coord_json_string(json, error->message);
    coord_json_close(json);
    coord_json_close(json);
    coord_json_close(json);
    done = json && coord_json_end(json, &text) == COORD_OK &&
           buffer_append_text(out, "event: response.failed\ndata: ") && buffer_append_slice(out, text) &&
           buffer_append_text(out, "\n\n");
    coord_json_free(json);
    return done;
}

bool api_error_event(const struct api *api, const struct api_error *error, struct buffer *out)
{
    if (api->shape == SHAPE_RESPONSES)
        return append_response_failed(error, out);
    if (api->shape == SHAPE_ANTHROPIC && !buffer_append_text(out, "event: error\n"))
        return false;
    return buffer_append_text(out, "data: ") && append_error(api, error, out) && buffer_append_text(out, "\n\n");
}
