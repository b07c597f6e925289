/* What the engine's shapes share; see shape.h and shape_parts.h. */
#include "shape_parts.h"
#include "tokenizer.h"

#include <string.h>

const char shape_done[] = "data: [DONE]\n\n";

void reply_free(struct reply *reply)
{
    buf_free(&reply->id);
    buf_free(&reply->model);
    buf_free(&reply->kv);
    buf_free(&reply->ec);
    buf_free(&reply->head);
    buf_free(&reply->instructions);
    buf_free(&reply->tools);
    buf_free(&reply->said);
}

void add_buf(struct buf *out, const struct buf *part)
{
    struct text view = buf_view(part);
    buf_add(out, view.at, view.len);
}

void add_or_null(struct buf *out, const struct buf *object)
{
    if (buf_left(object))
        add_buf(out, object);
    else
        buf_text(out, "null");
}

const char *finish_reason(const struct reply *r) { return r->cut_short ? "length" : "stop"; }

/* ---- usage ---- */

void add_usage(struct buf *out, const struct reply *r, uint64_t completion, enum details details, const char *rest)
{
    if (r->traits.no_usage)
        return;
    if (r->usage_null) {
        buf_text(out, ",\"usage\":null");
        return;
    }
    buf_printf(out, ",\"usage\":{\"prompt_tokens\":%llu,\"total_tokens\":%llu,\"completion_tokens\":%llu",
               (unsigned long long)r->prompt_tokens, (unsigned long long)(r->prompt_tokens + completion),
               (unsigned long long)completion);
    bool body = details == DETAILS_ALL || details == DETAILS_CREATED_NULL;
    if (r->traits.no_details) {
        buf_text(out, body ? ",\"prompt_tokens_details\":null" : "");
    } else if (details != DETAILS_NONE) {
        buf_printf(out, ",\"prompt_tokens_details\":{\"cached_tokens\":%llu", (unsigned long long)r->cached_tokens);
        if (details == DETAILS_CREATED_NULL)
            buf_text(out, ",\"created_cache_tokens\":null");
        else if (details != DETAILS_CACHED)
            buf_printf(out, ",\"created_cache_tokens\":%llu", (unsigned long long)r->created_cached);
        buf_text(out, body ? ",\"multimodal_tokens\":null}" : "}");
    }
    buf_printf(out, "%s}", rest);
}

bool usage_frame(const struct reply *r)
{
    return !r->traits.no_usage && (r->include_usage || r->traits.force_usage || r->traits.force_continuous);
}

/* W9: continuous_usage_stats puts usage on every chunk. */
void add_chunk_usage(struct buf *out, const struct reply *r, uint64_t completion, const char *rest)
{
    if (r->traits.no_usage)
        return;
    if (r->traits.force_continuous || (r->include_usage && r->continuous_usage))
        add_usage(out, r, completion, DETAILS_NONE, rest);
    else if (r->include_usage && (r->traits.null_chunks || r->usage_null))
        buf_text(out, ",\"usage\":null");
}

/* ---- content ---- */

struct text shape_word(const struct shape *shape, uint64_t random)
{
    static struct buf id;
    if (!shape->speaks_ids)
        return tokenizer_word(random);
    id.from = id.len = 0;
    buf_uint(&id, TOKEN_LETTERS + random % 32000);
    return buf_view(&id);
}

void shape_add_word(const struct shape *shape, struct buf *content, uint64_t random)
{
    struct text word = shape_word(shape, random);
    if (shape->speaks_ids && buf_left(content))
        buf_text(content, ",");
    buf_add(content, word.at, word.len);
}

/* Letters; or ids of one digit each, the first of two where the length wants that. */
void shape_add_filler(const struct shape *shape, struct buf *content, size_t len)
{
    if (!len)
        return;
    if (shape->speaks_ids && buf_left(content))
        buf_text(content, ",");
    char *at = buf_room(content, len);
    memset(at, shape->speaks_ids ? '1' : 'x', len);
    for (size_t i = 2; shape->speaks_ids && i < len; i += 2)
        at[len - i] = ',';
    content->len += len;
}

/* ---- errors and rendered prompts ---- */

void openai_broken(struct buf *out, struct reply *r)
{
    (void)r;
    buf_text(out, "data: ");
    shape_error(out, TEXT(BROKEN_WORDS), "InternalServerError", NULL, 500);
    buf_printf(out, "\n\n%s", shape_done);
}

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

/* W1: the render paths */
void shape_rendered(struct buf *out, const struct reply *r, const struct rendered *it)
{
    buf_text(out, "{\"request_id\":\"");
    add_buf(out, &r->id);
    buf_text(out, "\",\"token_ids\":[");
    buf_add(out, it->ids.at, it->ids.len);
    buf_text(out, "],\"token_offsets\":null,\"features\":");
    buf_add(out, it->features.at, it->features.len);
    buf_text(out, ",\"content_parts\":null,\"sampling_params\":{\"presence_penalty\":0.0,\"frequency_penalty\":0.0,"
                  "\"repetition_penalty\":1.0,\"temperature\":1.0,\"top_p\":1.0,\"min_p\":0.0,\"stop\":[],"
                  "\"stop_token_ids\":[],");
    if (it->max_tokens >= 0)
        buf_printf(out, "\"max_tokens\":%lld,", (long long)it->max_tokens);
    buf_printf(
        out,
        "\"output_kind\":2,\"skip_clone\":true,%s\"bad_words\":[],\"skip_reading_prefix_cache\":false},\"model\":\"",
        it->more ? it->more : "");
    add_buf(out, &r->model);
    buf_printf(out,
               "\",\"reasoning_ended\":null,\"reasoning_parser_kwargs\":null,\"return_token_ids\":null,"
               "\"output_mode\":\"tokens\",\"stream\":%s,\"stream_options\":null,\"cache_salt\":null,\"priority\":0,"
               "\"kv_transfer_params\":null,\"ec_transfer_params\":null}",
               it->stream ? "true" : "false");
}
