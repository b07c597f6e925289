/* What each API calls a prompt, read into tokens; refused where the engine refuses it. */
#ifndef SIM_PROMPT_H
#define SIM_PROMPT_H

#include "refusal.h"
#include "template.h"

/* What the reading of a request depends on. */
struct api_setting {
    const char *model; /* the only model served; NULL: any */
    enum template template;
    uint64_t max_model_len;
    struct buf *ids;   /* NULL, or where the prompt's ids go (see struct token_sink) */
    struct buf *media; /* NULL, or where media slots go */
};

/* What a request wants. The texts are raw JSON inside its body. */
struct ask {
    bool stream;
    bool include_usage;
    bool continuous_usage;
    bool ignore_end; /* ignore_eos: generate up to the cap */
    bool capped;
    uint64_t cap;
    uint64_t at_least; /* min_tokens */
    struct text model; /* .at NULL: absent */
    struct text kv;
    struct text id;           /* the request's own request_id */
    struct text instructions; /* these two only where an answer repeats them */
    struct text tools;
    struct token_sink prompt;
};

/* Adds the prompt's tokens to ask->prompt. False if refused. */
typedef bool prompt_reader(const struct api_setting *setting, struct text body, struct ask *ask,
                           struct refusal *refusal);
prompt_reader prompt_chat, prompt_completions, prompt_responses, prompt_messages, prompt_generate;

#endif
