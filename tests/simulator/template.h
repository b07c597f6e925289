/*
 * Two chat templates, A and B, that give different counts for the same messages, so that a renderer which drifted from
 * the worker is one flag away. A honours chat_template_kwargs.enable_thinking, B ignores it.
 *
 * What they render depends on the raw bytes of messages and tools, key order and white space included: real templates
 * keep the order of keys (vLLM 0.32.0 on the wire, W11); white space is on top, because a coordinator has no business
 * changing it. Media parts become placeholders that depend on their raw bytes.
 */
#ifndef SIM_TEMPLATE_H
#define SIM_TEMPLATE_H

#include "json.h"
#include "tokenizer.h"

enum template { TEMPLATE_A, TEMPLATE_B };

struct media_slot {
    const char *modality; /* image, audio, video */
    uint64_t offset;      /* first placeholder among the tokens */
    uint64_t length;
    uint64_t hash; /* of the part's raw bytes */
};

/* Whose types of content parts: those of chat and Responses, or those of Messages. */
enum part_dialect { PARTS_OPENAI = 1, PARTS_ANTHROPIC = 2 };

/* Whether the engine has such a type. */
bool part_known(struct text raw_type, enum part_dialect dialect);
/* Modality of a content part's type; NULL for text, and for types that it does not have. */
const char *part_modality(struct text raw_type);

/* Raw JSON values; tools and kwargs may be absent. `media` (may be NULL) gets a struct media_slot for each medium. */
void template_render(enum template kind, struct text messages, struct text tools, struct text kwargs,
                     struct token_sink *sink, struct buf *media);

#endif
