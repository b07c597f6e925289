/* The shapes of /v1/messages; see shape.h. */
#include "shape_parts.h"

#define EVENT(name) "event: " name "\ndata: {\"type\":\"" name "\""

static const char *stop_reason(const struct reply *r) { return r->cut_short ? "max_tokens" : "end_turn"; }

/* ,"usage":{…}; with the split, input_tokens are those that no cache had a part in. */
static void add_messages_usage(struct buf *out, const struct reply *r, uint64_t input, uint64_t output, bool split)
{
    if (r->traits.no_usage)
        return;
    if (r->usage_null) {
        buf_text(out, ",\"usage\":null");
        return;
    }
    split = split && !r->traits.no_details;
    buf_printf(out, ",\"usage\":{\"input_tokens\":%llu,\"output_tokens\":%llu",
               (unsigned long long)(input - (split ? r->cached_tokens + r->created_cached : 0)),
               (unsigned long long)output);
    if (split)
        buf_printf(out, ",\"cache_creation_input_tokens\":%llu,\"cache_read_input_tokens\":%llu",
                   (unsigned long long)r->created_cached, (unsigned long long)r->cached_tokens);
    buf_text(out, "}");
}

static void add_start(struct buf *out, const struct reply *r)
{
    buf_text(out, "{\"id\":\"");
    add_buf(out, &r->id);
    buf_text(out, "\",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
}

static void messages_whole(struct buf *out, const struct reply *r, struct text content)
{
    add_start(out, r);
    buf_text(out, "{\"type\":\"text\",\"text\":\"");
    buf_add(out, content.at, content.len);
    buf_text(out, "\"}],\"model\":\"");
    add_buf(out, &r->model);
    buf_printf(out, "\",\"stop_reason\":\"%s\"", stop_reason(r));
    add_messages_usage(out, r, r->prompt_tokens, r->output_tokens, true);
    if (buf_left(&r->kv)) { /* no null otherwise */
        buf_text(out, ",\"kv_transfer_params\":");
        add_buf(out, &r->kv);
    }
    buf_text(out, "}");
}

/* W7: no cache members here yet, so the whole prompt is input. */
static void messages_opening(struct buf *out, struct reply *r)
{
    buf_text(out, EVENT("message_start") ",\"message\":");
    add_start(out, r);
    buf_text(out, "],\"model\":\"");
    add_buf(out, &r->model);
    buf_text(out, "\",\"stop_reason\":null,\"stop_sequence\":null");
    add_messages_usage(out, r, r->traits.early_zero ? 0 : r->prompt_tokens, 0, false);
    buf_text(out, "}}\n\n" EVENT("content_block_start") ",\"content_block\":{\"type\":\"text\",\"text\":\"\"},"
                                                        "\"index\":0}\n\n");
}

static void messages_token(struct buf *out, struct reply *r, uint64_t index, struct text content)
{
    (void)r;
    (void)index;
    buf_text(out, EVENT("content_block_delta") ",\"delta\":{\"type\":\"text_delta\",\"text\":\"");
    buf_add(out, content.at, content.len);
    buf_text(out, "\"},\"index\":0}\n\n");
}

static void messages_closing(struct buf *out, struct reply *r)
{
    buf_text(out, EVENT("content_block_stop") ",\"index\":0}\n\n");
    buf_printf(out, EVENT("message_delta") ",\"delta\":{\"stop_reason\":\"%s\",\"stop_sequence\":null}",
               stop_reason(r));
    add_messages_usage(out, r, r->prompt_tokens, r->output_tokens, true);
    buf_text(out, "}\n\n" EVENT("message_stop") "}\n\n");
}

void shape_messages_error(struct buf *out, struct text message, const char *type, const char *param, int code)
{
    (void)param;
    (void)code;
    buf_printf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":\"", type);
    buf_json(out, message);
    buf_text(out, "\"}}");
}

/* As vLLM's converter of message streams words it, not recorded; versions differ in whether [DONE] follows. */
static void messages_broken(struct buf *out, struct reply *r)
{
    (void)r;
    buf_text(out, "event: error\ndata: ");
    shape_messages_error(out, TEXT(BROKEN_WORDS), "internal_error", NULL, 500);
    buf_text(out, "\n\n");
}

const struct shape shape_messages = {"chatcmpl-",      false,          messages_whole, messages_opening, messages_token,
                                     messages_closing, messages_broken};
