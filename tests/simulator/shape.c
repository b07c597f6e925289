/* The engine's shapes; see shape.h. */
#include "shape.h"

#define FINGERPRINT "\"system_fingerprint\":\"vllm-0.32.0-91e86948\""

void reply_free(struct reply *reply)
{
    buf_free(&reply->id);
    buf_free(&reply->model);
    buf_free(&reply->kv);
    buf_free(&reply->ec);
    buf_free(&reply->head);
}

static void add(struct buf *out, const struct buf *part)
{
    struct text view = buf_view(part);
    buf_add(out, view.at, view.len);
}

static void add_or_null(struct buf *out, const struct buf *object)
{
    if (buf_left(object))
        add(out, object);
    else
        buf_text(out, "null");
}

/* {"id":"…","object":"…","created":…,"model":"…" */
static void add_start(struct buf *out, const struct reply *r, const char *object)
{
    buf_text(out, "{\"id\":\"");
    add(out, &r->id);
    buf_printf(out, "\",\"object\":\"%s\",\"created\":%lld,\"model\":\"", object, (long long)r->created);
    add(out, &r->model);
    buf_text(out, "\"");
}

/* `details`: what stands in prompt_tokens_details after cached_tokens; `rest`: after the details. */
static void add_usage(struct buf *out, const struct reply *r, uint64_t completion, const char *details,
                      const char *rest)
{
    if (r->usage_null) {
        buf_text(out, "\"usage\":null");
        return;
    }
    buf_printf(out, "\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu,\"completion_tokens\":%llu",
               (unsigned long long)r->prompt_tokens, (unsigned long long)(r->prompt_tokens + completion),
               (unsigned long long)completion);
    if (details)
        buf_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%llu%s}", (unsigned long long)r->cached_tokens,
                   details);
    buf_printf(out, "%s}", rest);
}

/* W9: continuous_usage_stats puts usage on every chunk. With the null fault a null stands there, as elsewhere. */
static void add_chunk_usage(struct buf *out, const struct reply *r, uint64_t completion)
{
    if (!r->include_usage || !(r->continuous_usage || r->usage_null))
        return;
    buf_text(out, ",");
    add_usage(out, r, completion, NULL, ",\"completion_tokens_details\":null");
}

static void add_tail(struct buf *out, const struct reply *r)
{
    buf_text(out, "\"kv_transfer_params\":");
    add_or_null(out, &r->kv);
    buf_text(out, ",\"ec_transfer_params\":");
    add_or_null(out, &r->ec);
    buf_text(out, ",\"metrics\":null}");
}

static const char done[] = "data: [DONE]\n\n";

/* The last frames: usage if asked for, then the end. */
static void add_final(struct buf *out, const struct reply *r, const char *object, const char *details)
{
    if (r->include_usage) {
        buf_text(out, "data: ");
        add_start(out, r, object);
        buf_text(out, ",\"choices\":[],");
        add_usage(out, r, r->output_tokens, details, "");
        buf_text(out, "," FINGERPRINT "}\n\n");
    }
    buf_text(out, done);
}

static void openai_broken(struct buf *out)
{
    buf_text(out,
             "data: {\"error\":{\"message\":\"EngineCore encountered an issue. See stack trace (above) for the root "
             "cause.\",\"type\":\"InternalServerError\",\"param\":null,\"code\":500}}\n\n");
    buf_text(out, done);
}

/* ---- /v1/chat/completions ---- */

static void chat_whole(struct buf *out, const struct reply *r, struct text content)
{
    add_start(out, r, "chat.completion");
    buf_text(out, ",\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"");
    buf_add(out, content.at, content.len);
    buf_printf(
        out,
        "\",\"refusal\":null,\"annotations\":null,\"audio\":null,\"function_call\":null,\"reasoning\":null},"
        "\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null,\"token_ids\":null,\"routed_experts\":null}],"
        "\"service_tier\":null," FINGERPRINT ",",
        r->finish);
    add_usage(out, r, r->output_tokens, ",\"created_cache_tokens\":0,\"multimodal_tokens\":null",
              ",\"completion_tokens_details\":null");
    buf_text(out, ",\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"prompt_text\":null,");
    add_tail(out, r);
}

static void chat_opening(struct buf *out, struct reply *r)
{
    buf_text(out, "data: ");
    add_start(out, r, "chat.completion.chunk");
    buf_text(out, ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                  "\"finish_reason\":null}]");
    add_chunk_usage(out, r, 0);
    buf_text(out, ",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n");

    buf_text(&r->head, "data: ");
    add_start(&r->head, r, "chat.completion.chunk");
    buf_text(&r->head, ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
}

static void chat_token(struct buf *out, const struct reply *r, uint64_t index, struct text content)
{
    bool last = index + 1 == r->output_tokens;
    add(out, &r->head);
    buf_add(out, content.at, content.len);
    if (last)
        buf_printf(out, "\"},\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null,\"token_ids\":null}]",
                   r->finish);
    else
        buf_text(out, "\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]");
    add_chunk_usage(out, r, index + 1);
    if (last && !r->include_usage)
        buf_text(out, "," FINGERPRINT);
    buf_text(out, "}\n\n");
}

static void chat_closing(struct buf *out, const struct reply *r)
{
    add_final(out, r, "chat.completion.chunk", ",\"created_cache_tokens\":0");
}

const struct shape shape_chat = {"chatcmpl-", chat_whole, chat_opening, chat_token, chat_closing, openai_broken};

/* ---- /v1/completions ---- */

static void completions_whole(struct buf *out, const struct reply *r, struct text content)
{
    add_start(out, r, "text_completion");
    buf_text(out, ",\"choices\":[{\"index\":0,\"text\":\"");
    buf_add(out, content.at, content.len);
    buf_printf(out,
               "\",\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null,\"token_ids\":null,"
               "\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"routed_experts\":null}],\"service_tier\":"
               "null," FINGERPRINT ",",
               r->finish);
    add_usage(out, r, r->output_tokens, ",\"created_cache_tokens\":null,\"multimodal_tokens\":null",
              ",\"completion_tokens_details\":null");
    buf_text(out, ",");
    add_tail(out, r);
}

static void completions_opening(struct buf *out, struct reply *r)
{
    (void)out; /* the stream begins with the first token */
    buf_text(&r->head, "data: ");
    add_start(&r->head, r, "text_completion");
    buf_text(&r->head, ",\"choices\":[{\"index\":0,\"text\":\"");
}

static void completions_token(struct buf *out, const struct reply *r, uint64_t index, struct text content)
{
    bool last = index + 1 == r->output_tokens;
    add(out, &r->head);
    buf_add(out, content.at, content.len);
    buf_text(out, "\",\"logprobs\":null,\"finish_reason\":");
    if (last)
        buf_printf(out, "\"%s\"", r->finish);
    else
        buf_text(out, "null");
    buf_text(out, ",\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}]");
    add_chunk_usage(out, r, index + 1);
    if (last && !r->include_usage)
        buf_text(out, "," FINGERPRINT);
    buf_text(out, "}\n\n");
}

static void completions_closing(struct buf *out, const struct reply *r) { add_final(out, r, "text_completion", ""); }

const struct shape shape_completions = {"cmpl-",           completions_whole,   completions_opening,
                                        completions_token, completions_closing, openai_broken};

/* ---- errors and rendered prompts ---- */

void shape_error(struct buf *out, struct text message, const char *type, const char *param, int code)
{
    buf_text(out, "{\"error\":{\"message\":\"");
    buf_json(out, message);
    buf_printf(out, "\",\"type\":\"%s\",\"param\":", type);
    if (param)
        buf_printf(out, "\"%s\"", param);
    else
        buf_text(out, "null");
    buf_printf(out, ",\"code\":%d}}", code);
}

/* /v1/chat/completions/render and /v1/completions/render (W1) */
void shape_rendered(struct buf *out, const struct reply *r, const struct rendered *it)
{
    buf_text(out, "{\"request_id\":\"");
    add(out, &r->id);
    buf_text(out, "\",\"token_ids\":[");
    buf_add(out, it->ids.at, it->ids.len);
    buf_text(out, "],\"token_offsets\":null,\"features\":");
    buf_add(out, it->features.at, it->features.len);
    buf_text(out, ",\"content_parts\":null,\"sampling_params\":{\"presence_penalty\":0.0,\"frequency_penalty\":0.0,"
                  "\"repetition_penalty\":1.0,\"temperature\":1.0,\"top_p\":1.0,\"min_p\":0.0,\"stop\":[],"
                  "\"stop_token_ids\":[],");
    if (it->max_tokens >= 0)
        buf_printf(out, "\"max_tokens\":%lld,", (long long)it->max_tokens);
    buf_text(
        out,
        "\"output_kind\":2,\"skip_clone\":true,\"bad_words\":[],\"skip_reading_prefix_cache\":false},\"model\":\"");
    add(out, &r->model);
    buf_printf(out,
               "\",\"reasoning_ended\":null,\"reasoning_parser_kwargs\":null,\"return_token_ids\":null,"
               "\"output_mode\":\"tokens\",\"stream\":%s,\"stream_options\":null,\"cache_salt\":null,\"priority\":0,"
               "\"kv_transfer_params\":null,\"ec_transfer_params\":null}",
               it->stream ? "true" : "false");
}
