/* The chat templates; see template.h. */
#include "template.h"

enum { MEDIA_LENGTH = 8 };

/* The part types of vLLM's chat parser, and the content blocks of its Messages requests. */
static const struct {
    const char *type;
    const char *modality;
    int dialects;
} part_types[] = {
    {"text", NULL, PARTS_OPENAI | PARTS_ANTHROPIC},
    {"thinking", NULL, PARTS_OPENAI | PARTS_ANTHROPIC},
    {"input_text", NULL, PARTS_OPENAI},
    {"output_text", NULL, PARTS_OPENAI},
    {"refusal", NULL, PARTS_OPENAI},
    {"image_url", "image", PARTS_OPENAI},
    {"input_image", "image", PARTS_OPENAI},
    {"image_embeds", "image", PARTS_OPENAI},
    {"image_pil", "image", PARTS_OPENAI},
    {"audio_url", "audio", PARTS_OPENAI},
    {"input_audio", "audio", PARTS_OPENAI},
    {"audio_embeds", "audio", PARTS_OPENAI},
    {"video_url", "video", PARTS_OPENAI},
    {"image", "image", PARTS_ANTHROPIC},
    {"tool_use", NULL, PARTS_ANTHROPIC},
    {"tool_result", NULL, PARTS_ANTHROPIC},
    {"tool_reference", NULL, PARTS_ANTHROPIC},
    {"redacted_thinking", NULL, PARTS_ANTHROPIC},
};
enum { PART_TYPES = sizeof part_types / sizeof *part_types };

bool part_known(struct text raw_type, enum part_dialect dialect)
{
    for (size_t i = 0; i < PART_TYPES; i++)
        if ((part_types[i].dialects & (int)dialect) && json_string_is(raw_type, part_types[i].type))
            return true;
    return false;
}

const char *part_modality(struct text raw_type)
{
    for (size_t i = 0; i < PART_TYPES; i++)
        if (json_string_is(raw_type, part_types[i].type))
            return part_types[i].modality;
    return NULL;
}

static void add_media(struct text part, const char *modality, struct token_sink *sink, struct buf *media)
{
    struct media_slot slot = {modality, sink->count, MEDIA_LENGTH, fingerprint(part)};
    for (int i = 0; i < MEDIA_LENGTH; i++)
        token_add(sink, TOKEN_MEDIA);
    if (media)
        buf_add(media, &slot, sizeof slot);
}

/* The message's raw bytes, with a placeholder in the place of each media part. */
static void add_message(struct text message, struct token_sink *sink, struct buf *media)
{
    const char *from = message.at, *end = message.at + message.len;
    struct text content = json_member(message, "content"), key, part;
    struct json_walk walk = json_walk(json_kind(content) == '[' ? content : (struct text){NULL, 0});
    while (json_next(&walk, &key, &part)) {
        const char *modality = part_modality(json_member(part, "type"));
        if (!modality)
            continue;
        tokenize(sink, (struct text){from, (size_t)(part.at - from)});
        add_media(part, modality, sink, media);
        from = part.at + part.len;
    }
    tokenize(sink, (struct text){from, (size_t)(end - from)});
}

static void render_a(struct text messages, struct text tools, struct text kwargs, struct token_sink *sink,
                     struct buf *media)
{
    struct text key, message;
    if (!json_absent(tools)) {
        token_add(sink, TOKEN_TURN);
        tokenize(sink, TEXT("system\n# Tools\n"));
        tokenize(sink, tools);
        token_add(sink, TOKEN_TURN_END);
    }
    struct json_walk walk = json_walk(messages);
    while (json_next(&walk, &key, &message)) {
        token_add(sink, TOKEN_TURN);
        add_message(message, sink, media);
        token_add(sink, TOKEN_TURN_END);
    }
    token_add(sink, TOKEN_TURN);
    tokenize(sink, TEXT("assistant\n"));
    if (json_kind(json_member(kwargs, "enable_thinking")) == 'f')
        tokenize(sink, TEXT("<think>\n\n</think>\n\n"));
}

static void render_b(struct text messages, struct text tools, struct token_sink *sink, struct buf *media)
{
    struct text key, message;
    if (!json_absent(tools)) {
        tokenize(sink, TEXT("[AVAILABLE_TOOLS]"));
        tokenize(sink, tools);
        tokenize(sink, TEXT("[/AVAILABLE_TOOLS]"));
    }
    struct json_walk walk = json_walk(messages);
    while (json_next(&walk, &key, &message)) {
        tokenize(sink, TEXT("[INST] "));
        add_message(message, sink, media);
        tokenize(sink, TEXT(" [/INST]\n"));
    }
}

void template_render(enum template kind, struct text messages, struct text tools, struct text kwargs,
                     struct token_sink *sink, struct buf *media)
{
    token_add(sink, TOKEN_BEGIN);
    if (kind == TEMPLATE_A)
        render_a(messages, tools, kwargs, sink, media);
    else
        render_b(messages, tools, sink, media);
}
