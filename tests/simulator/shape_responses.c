/* The shapes of /v1/responses; see shape.h. W6: `response` stands before `type`, the stream ends with response.completed. */
#include "shape_parts.h"

static void add_item_id(struct buf *out, const struct reply *r)
{
    buf_printf(out, "msg_%016llx", (unsigned long long)r->item);
}

/* {"annotations":[],"text":"…","type":"output_text","logprobs":…} */
static void add_part(struct buf *out, struct text content, const char *logprobs)
{
    buf_text(out, "{\"annotations\":[],\"text\":\"");
    buf_add(out, content.at, content.len);
    buf_printf(out, "\",\"type\":\"output_text\",\"logprobs\":%s}", logprobs);
}

/* The output item; `content` .at NULL: not begun. */
static void add_item(struct buf *out, const struct reply *r, struct text content)
{
    buf_text(out, "{\"id\":\"");
    add_item_id(out, r);
    buf_text(out, "\",\"content\":[");
    if (content.at)
        add_part(out, content, "null");
    buf_printf(out, "],\"role\":\"assistant\",\"status\":\"%s\",\"type\":\"message\",\"phase\":null}",
               content.at ? "completed" : "in_progress");
}

static void add_responses_usage(struct buf *out, const struct reply *r)
{
    if (r->traits.no_usage)
        return;
    if (r->usage_null) {
        buf_text(out, ",\"usage\":null");
        return;
    }
    bool known = !r->traits.no_details;
    buf_printf(out,
               ",\"usage\":{\"input_tokens\":%llu,\"input_tokens_details\":{\"cached_tokens\":%llu,"
               "\"cache_write_tokens\":%llu,\"input_tokens_per_turn\":[],\"cached_tokens_per_turn\":[]},"
               "\"output_tokens\":%llu,\"output_tokens_details\":{\"reasoning_tokens\":0,\"tool_output_tokens\":0,"
               "\"output_tokens_per_turn\":[],\"tool_output_tokens_per_turn\":[]},\"total_tokens\":%llu}",
               (unsigned long long)r->prompt_tokens, (unsigned long long)(known ? r->cached_tokens : 0),
               (unsigned long long)(known ? r->created_cached : 0), (unsigned long long)r->output_tokens,
               (unsigned long long)(r->prompt_tokens + r->output_tokens));
}

/* The response object; `content` .at NULL: still in progress. */
static void add_response(struct buf *out, const struct reply *r, struct text content)
{
    bool over = content.at != NULL, tools = buf_left(&r->tools) > 2; /* more than [] */
    buf_text(out, "{\"id\":\"");
    add_buf(out, &r->id);
    buf_printf(out, "\",\"created_at\":%lld,\"incomplete_details\":%s,\"instructions\":", (long long)r->created,
               over && r->cut_short ? "{\"reason\":\"max_output_tokens\"}" : "null");
    add_or_null(out, &r->instructions);
    buf_text(out, ",\"metadata\":null,\"model\":\"");
    add_buf(out, &r->model);
    buf_text(out, "\",\"object\":\"response\",\"output\":[");
    if (over)
        add_item(out, r, content);
    buf_printf(out, "],\"parallel_tool_calls\":true,\"temperature\":1.0,\"tool_choice\":\"%s\",\"tools\":",
               tools ? "auto" : "none");
    if (tools)
        add_buf(out, &r->tools);
    else
        buf_text(out, "[]");
    buf_printf(out,
               ",\"top_p\":1.0,\"background\":false,\"max_output_tokens\":%llu,\"max_tool_calls\":null,"
               "\"previous_response_id\":null,\"prompt\":null,\"reasoning\":null,\"service_tier\":\"auto\","
               "\"status\":\"%s\",\"text\":null,\"top_logprobs\":null,\"truncation\":\"disabled\"",
               (unsigned long long)r->cap,
               !over          ? "in_progress"
               : r->cut_short ? "incomplete"
                              : "completed");
    if (over)
        add_responses_usage(out, r);
    else
        buf_text(out, ",\"usage\":null");
    buf_text(out, ",\"user\":null,\"presence_penalty\":0.0,\"frequency_penalty\":0.0,\"kv_transfer_params\":");
    add_or_null(out, &r->kv);
    buf_text(out, ",\"ec_transfer_params\":");
    add_or_null(out, &r->ec);
    buf_text(out, ",\"input_messages\":null,\"output_messages\":null}");
}

static void responses_whole(struct buf *out, const struct reply *r, struct text content)
{
    add_response(out, r, content);
}

/* ---- events ---- */

static void begin_event(struct buf *out, const char *name) { buf_printf(out, "event: %s\ndata: {", name); }

static void end_event(struct buf *out, struct reply *r, const char *name)
{
    buf_printf(out, ",\"sequence_number\":%llu,\"type\":\"%s\"}\n\n", (unsigned long long)r->sequence++, name);
}

static void add_response_event(struct buf *out, struct reply *r, const char *name, struct text content)
{
    begin_event(out, name);
    buf_text(out, "\"response\":");
    add_response(out, r, content);
    end_event(out, r, name);
}

static void add_item_event(struct buf *out, struct reply *r, const char *name, struct text content)
{
    begin_event(out, name);
    buf_text(out, "\"item\":");
    add_item(out, r, content);
    buf_text(out, ",\"output_index\":0");
    end_event(out, r, name);
}

/* Where the part stands, as its events begin. */
static void begin_part_event(struct buf *out, struct reply *r, const char *name)
{
    begin_event(out, name);
    buf_text(out, "\"content_index\":0,\"item_id\":\"");
    add_item_id(out, r);
    buf_text(out, "\"");
}

static void add_part_event(struct buf *out, struct reply *r, const char *name, struct text content,
                           const char *logprobs)
{
    begin_part_event(out, r, name);
    buf_text(out, ",\"output_index\":0,\"part\":");
    add_part(out, content, logprobs);
    end_event(out, r, name);
}

static void responses_opening(struct buf *out, struct reply *r)
{
    struct text none = {NULL, 0};
    add_response_event(out, r, "response.created", none);
    add_response_event(out, r, "response.in_progress", none);
    add_item_event(out, r, "response.output_item.added", none);
    add_part_event(out, r, "response.content_part.added", TEXT(""), "[]");

    buf_text(&r->head, "\",\"item_id\":\"");
    add_item_id(&r->head, r);
    buf_text(&r->head, "\",\"logprobs\":[],\"output_index\":0,\"sequence_number\":");
}

static void responses_token(struct buf *out, struct reply *r, uint64_t index, struct text content)
{
    static const char start[] = "event: response.output_text.delta\ndata: {\"content_index\":0,\"delta\":\"";
    static const char end[] = ",\"type\":\"response.output_text.delta\"}\n\n";
    buf_add(out, start, sizeof start - 1);
    buf_add(out, content.at, content.len);
    add_buf(out, &r->head);
    buf_uint(out, r->sequence++);
    buf_add(out, end, sizeof end - 1);
    if (index < r->output_tokens)
        buf_add(&r->said, content.at, content.len);
}

static void responses_closing(struct buf *out, struct reply *r)
{
    static const char done[] = "response.output_text.done";
    struct text said = buf_view(&r->said);
    begin_part_event(out, r, done);
    buf_printf(out, ",\"logprobs\":[],\"output_index\":0,\"sequence_number\":%llu,\"text\":\"",
               (unsigned long long)r->sequence++);
    buf_add(out, said.at, said.len);
    buf_printf(out, "\",\"type\":\"%s\"}\n\n", done);
    add_part_event(out, r, "response.content_part.done", said, "null");
    add_item_event(out, r, "response.output_item.done", said);
    add_response_event(out, r, "response.completed", said);
}

/* Of OpenAI's API reference ("error" among the streaming events), not recorded from the engine. */
static void responses_broken(struct buf *out, struct reply *r)
{
    begin_event(out, "error");
    buf_text(out, "\"code\":\"server_error\",\"message\":\"" BROKEN_WORDS "\",\"param\":null");
    end_event(out, r, "error");
}

const struct shape shape_responses = {
    "resp_", false, responses_whole, responses_opening, responses_token, responses_closing, responses_broken};
