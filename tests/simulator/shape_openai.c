/* The shapes of /v1/chat/completions and /v1/completions; see shape.h. */
#include "shape_parts.h"

#define NO_DETAILS ",\"completion_tokens_details\":null"

/* {"id":"…","object":"…","created":…,"model":"…" */
static void add_start(struct buf *out, const struct reply *r, const char *object)
{
    buf_text(out, "{\"id\":\"");
    add_buf(out, &r->id);
    buf_printf(out, "\",\"object\":\"%s\",\"created\":%lld,\"model\":\"", object, (long long)r->created);
    add_buf(out, &r->model);
    buf_text(out, "\"");
}

static void add_tail(struct buf *out, const struct reply *r)
{
    buf_text(out, ",\"kv_transfer_params\":");
    add_or_null(out, &r->kv);
    buf_text(out, ",\"ec_transfer_params\":");
    add_or_null(out, &r->ec);
    buf_text(out, ",\"metrics\":null}");
}

/* The last frames: usage if it is sent, then the end. */
static void add_final(struct buf *out, const struct reply *r, const char *object, enum details details)
{
    if (usage_frame(r)) {
        buf_text(out, "data: ");
        add_start(out, r, object);
        buf_text(out, ",\"choices\":[]");
        add_usage(out, r, r->output_tokens, details, "");
        buf_text(out, "," FINGERPRINT "}\n\n");
    }
    buf_text(out, shape_done);
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
        "\"service_tier\":null," FINGERPRINT,
        finish_reason(r));
    add_usage(out, r, r->output_tokens, DETAILS_ALL, NO_DETAILS);
    buf_text(out, ",\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"prompt_text\":null");
    add_tail(out, r);
}

static void chat_opening(struct buf *out, struct reply *r)
{
    buf_text(out, "data: ");
    add_start(out, r, "chat.completion.chunk");
    buf_text(out, ",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                  "\"finish_reason\":null}]");
    add_chunk_usage(out, r, 0, NO_DETAILS);
    buf_text(out, ",\"prompt_token_ids\":null,\"prompt_text\":null}\n\n");

    buf_text(&r->head, "data: ");
    add_start(&r->head, r, "chat.completion.chunk");
    buf_text(&r->head, ",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"");
}

static void chat_token(struct buf *out, struct reply *r, uint64_t index, struct text content)
{
    bool last = index + 1 == r->output_tokens;
    add_buf(out, &r->head);
    buf_add(out, content.at, content.len);
    if (last)
        buf_printf(out, "\"},\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null,\"token_ids\":null}]",
                   finish_reason(r));
    else
        buf_text(out, "\"},\"logprobs\":null,\"finish_reason\":null,\"token_ids\":null}]");
    add_chunk_usage(out, r, index + 1, NO_DETAILS);
    if (last && !usage_frame(r))
        buf_text(out, "," FINGERPRINT);
    buf_text(out, "}\n\n");
}

static void chat_closing(struct buf *out, struct reply *r)
{
    add_final(out, r, "chat.completion.chunk", DETAILS_CREATED);
}

const struct shape shape_chat = {"chatcmpl-", false, chat_whole, chat_opening, chat_token, chat_closing, openai_broken};

/* ---- /v1/completions ---- */

static void completions_whole(struct buf *out, const struct reply *r, struct text content)
{
    add_start(out, r, "text_completion");
    buf_text(out, ",\"choices\":[{\"index\":0,\"text\":\"");
    buf_add(out, content.at, content.len);
    buf_printf(out,
               "\",\"logprobs\":null,\"finish_reason\":\"%s\",\"stop_reason\":null,\"token_ids\":null,"
               "\"prompt_logprobs\":null,\"prompt_token_ids\":null,\"routed_experts\":null}],\"service_tier\":"
               "null," FINGERPRINT,
               finish_reason(r));
    add_usage(out, r, r->output_tokens, DETAILS_CREATED_NULL, NO_DETAILS);
    add_tail(out, r);
}

static void completions_opening(struct buf *out, struct reply *r)
{
    (void)out; /* the stream begins with the first token */
    buf_text(&r->head, "data: ");
    add_start(&r->head, r, "text_completion");
    buf_text(&r->head, ",\"choices\":[{\"index\":0,\"text\":\"");
}

static void completions_token(struct buf *out, struct reply *r, uint64_t index, struct text content)
{
    bool last = index + 1 == r->output_tokens;
    add_buf(out, &r->head);
    buf_add(out, content.at, content.len);
    buf_text(out, "\",\"logprobs\":null,\"finish_reason\":");
    if (last)
        buf_printf(out, "\"%s\"", finish_reason(r));
    else
        buf_text(out, "null");
    buf_text(out, ",\"stop_reason\":null,\"prompt_token_ids\":null,\"token_ids\":null}]");
    add_chunk_usage(out, r, index + 1, "");
    if (last && !usage_frame(r))
        buf_text(out, "," FINGERPRINT);
    buf_text(out, "}\n\n");
}

static void completions_closing(struct buf *out, struct reply *r)
{
    add_final(out, r, "text_completion", DETAILS_CACHED);
}

const struct shape shape_completions = {
    "cmpl-", false, completions_whole, completions_opening, completions_token, completions_closing, openai_broken};
