/* What the shapes of several APIs share; only for shape*.c. */
#ifndef SIM_SHAPE_PARTS_H
#define SIM_SHAPE_PARTS_H

#include "shape.h"

#define FINGERPRINT "\"system_fingerprint\":\"vllm-0.32.0-91e86948\""
#define BROKEN_WORDS "EngineCore encountered an issue. See stack trace (above) for the root cause."

extern const char shape_done[]; /* data: [DONE] */

void add_buf(struct buf *out, const struct buf *part);
void add_or_null(struct buf *out, const struct buf *object);
/* "stop" or "length" */
const char *finish_reason(const struct reply *reply);

/* What stands in prompt_tokens_details after cached_tokens. */
enum details {
    DETAILS_NONE,         /* no details at all */
    DETAILS_CACHED,       /* cached_tokens alone */
    DETAILS_CREATED,      /* and created_cache_tokens */
    DETAILS_ALL,          /* and multimodal_tokens */
    DETAILS_CREATED_NULL, /* the same with created_cache_tokens null */
};

/* ,"usage":{…} in the order of chat, completions and generate; nothing if the worker has no usage. `rest`: after the
 * details. */
void add_usage(struct buf *out, const struct reply *reply, uint64_t completion, enum details details, const char *rest);
/* The same on a content chunk, if one stands there; `rest` as above. */
void add_chunk_usage(struct buf *out, const struct reply *reply, uint64_t completion, const char *rest);
/* Whether the final usage frame is sent. */
bool usage_frame(const struct reply *reply);
/* An error frame in OpenAI's shape, and the end. */
void openai_broken(struct buf *out, struct reply *reply);

#endif
