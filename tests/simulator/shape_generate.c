/* The shapes of /inference/v1/generate, whose content is token ids; see shape.h. */
#include "shape_parts.h"

/* Its content frames have the nulls that chat's leave out. */
#define NULL_DETAILS ",\"prompt_tokens_details\":null,\"completion_tokens_details\":null"

/* weight_versions and logprobs of a choice whose output is whole, or of one that goes on. */
static void add_choice(struct buf *out, const struct reply *r, bool last, struct text ids)
{
    buf_text(out, "{\"index\":0,\"finish_reason\":");
    if (last)
        buf_printf(out, "\"%s\"", finish_reason(r));
    else
        buf_text(out, "null");
    buf_text(out, ",\"stop_reason\":null,\"token_ids\":[");
    buf_add(out, ids.at, ids.len);
    buf_text(out, "],\"routed_experts\":null,\"sampling_mask\":null,\"weight_versions\":");
    if (last)
        buf_printf(out, "[{\"version\":\"default\",\"start\":0,\"end\":%llu}]", (unsigned long long)r->output_tokens);
    else
        buf_text(out, "null");
    buf_text(out, ",\"logprobs\":null}");
}

static void generate_whole(struct buf *out, const struct reply *r, struct text content)
{
    buf_text(out, "{\"request_id\":\"");
    add_buf(out, &r->id);
    buf_text(out, "\",\"model\":\"");
    add_buf(out, &r->model);
    buf_printf(out, "\",\"created\":%lld", (long long)r->created);
    add_usage(out, r, r->output_tokens, DETAILS_CREATED_NULL, ",\"completion_tokens_details\":null");
    buf_text(out, ",\"prompt_logprobs\":null,\"prompt_token_id_logprobs\":null,\"prompt_token_ids\":null,"
                  "\"mm_placeholders\":null,\"metrics\":null,\"kv_transfer_params\":");
    add_or_null(out, &r->kv);
    buf_text(out, ",\"ec_transfer_params\":");
    add_or_null(out, &r->ec);
    buf_text(out, ",\"output_mode\":\"tokens\",\"choices\":[");
    add_choice(out, r, true, content);
    buf_text(out, "]}");
}

static void generate_opening(struct buf *out, struct reply *r)
{
    (void)out; /* the stream begins with the first token */
    buf_text(&r->head, "data: {\"request_id\":\"");
    add_buf(&r->head, &r->id);
    buf_text(&r->head, "\"");
}

/* W4: a content frame without usage has a null in its place, asked for or not. */
static void generate_token(struct buf *out, struct reply *r, uint64_t index, struct text content)
{
    add_buf(out, &r->head);
    if (r->traits.force_continuous || (r->include_usage && r->continuous_usage))
        add_chunk_usage(out, r, index + 1, NULL_DETAILS);
    else if (!r->traits.no_usage)
        buf_text(out, ",\"usage\":null");
    buf_text(out, ",\"output_mode\":\"tokens\",\"choices\":[");
    add_choice(out, r, index + 1 == r->output_tokens, content);
    buf_text(out, "]}\n\n");
}

static void generate_closing(struct buf *out, struct reply *r)
{
    if (usage_frame(r)) {
        add_buf(out, &r->head);
        add_usage(out, r, r->output_tokens, DETAILS_CACHED, "");
        buf_text(out, ",\"output_mode\":\"tokens\",\"choices\":[]}\n\n");
    }
    buf_text(out, shape_done);
}

const struct shape shape_generate = {"generate-tokens-", true,         generate_whole, generate_opening, generate_token,
                                     generate_closing,   openai_broken};
