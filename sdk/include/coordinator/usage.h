/*
 * Token usage: finding, reading and rewriting it in every API's shapes, in JSON answers and in event streams.
 *
 * A usage block is an object at `usage`, `response.usage` or `message.usage`; null is none. Blocks are snapshots: a stream may
 * hold several, and field by field the last one that says something wins. Counts are whole numbers 0 … 2^53, anything else is
 * no count.
 *
 * The writers here can be wrapped by any step. The observer never delays, changes or holds anything. The editor changes the
 * numbers that it was asked to change and drops the frame that it was asked to drop; every other byte stays. Whoever needs the
 * worker's own numbers wraps the observer after the editor (the last one wrapped sees the worker's bytes first).
 */
#ifndef COORDINATOR_USAGE_H
#define COORDINATOR_USAGE_H

#include <coordinator/response.h>

COORD_BEGIN_DECLS

/* Which counts were said. */
enum {
    COORD_USAGE_PROMPT = 1 << 0, /* the whole prompt, cached tokens included */
    COORD_USAGE_OUTPUT = 1 << 1,
    COORD_USAGE_CACHED = 1 << 2, /* of the prompt, found in a cache */
    COORD_USAGE_TOTAL = 1 << 3
};
/* Which addends of a Messages prompt were said (`parts`). */
enum { COORD_USAGE_INPUT = 1 << 0, COORD_USAGE_CACHE_READ = 1 << 1, COORD_USAGE_CACHE_CREATION = 1 << 2 };

/* The counts of a usage block, or of several on top of each other. */
typedef struct coord_usage {
    uint32_t size; /* sizeof(coord_usage), set by the caller */
    uint32_t said; /* COORD_USAGE_… */
    uint64_t prompt;
    uint64_t output;
    uint64_t cached;
    uint64_t total;
    /* The addends of a Messages prompt: a later block may say only some of them. */
    uint32_t parts;
    uint32_t reserved;
    uint64_t input;
    uint64_t cache_read;
    uint64_t cache_creation;
} coord_usage;

/*
 * Reads the usage block of `json` (a whole JSON answer, or the data of one event) into `usage`: counts that it says replace those
 * already there. `api`: COORD_API_…. COORD_OK; COORD_ABSENT: no block, or it says no count; COORD_INVALID: not JSON. [any thread]
 */
COORD_API coord_status coord_usage_read(int32_t api, coord_slice json, coord_usage *usage);

/*
 * The text of `json` with the cached-token count of its usage block set to `cached` as its API says (chat, completions, generate:
 * prompt_tokens_details.cached_tokens; Responses: input_tokens_details.cached_tokens; Messages: cache_read_input_tokens, with input_tokens
 * derived so that the sum stays). COORD_OK with `*edited` (freed with free()); COORD_END: nothing to change; COORD_INVALID: not JSON, or a member stands there
 * twice; COORD_NO_MEMORY. [any thread]
 */
COORD_API coord_status coord_usage_edit_cached(int32_t api, coord_slice json, uint64_t cached, char **edited,
                                               size_t *size);

/* True when `bytes` may hold a usage block: a search for the word, far cheaper than reading. */
COORD_API bool coord_usage_maybe(coord_slice bytes);

/* True when the event's data is a pure usage frame: a usage block, and `choices` an empty array. */
COORD_API bool coord_usage_is_frame(coord_slice json);

/*
 * Wraps an observer around the answer. `seen` is called once when the answer is over (whole, broken off, or left by the client), with what was
 * said; `usage->said` is 0 when nothing was. Answers with a status of 300 and above are not looked at (`seen` is called all the same). COORD_OK, COORD_STATE,
 * COORD_NO_MEMORY. [fiber]
 */
typedef void coord_usage_seen(coord_request *request, const coord_usage *usage, void *argument);
COORD_API coord_status coord_usage_observe(coord_request *request, coord_usage_seen *seen,
                                           void *argument) COORD_MUST_CHECK;

/*
 * Wraps an editor: `cached` (copied; NULL: leave it) is written into every block, and with `drop_frame` pure usage frames are
 * removed with their blank line. What vLLM tells on such a frame (`system_fingerprint`) is told on the event before it: that one, which ends the
 * last choice of a chat or completions stream, is kept until the next event with data, for 50 ms at most, and then goes out as it came. With
 * neither nothing is wrapped. Statuses as coord_usage_observe. [fiber]
 */
COORD_API coord_status coord_usage_edit(coord_request *request, const uint64_t *cached,
                                        bool drop_frame) COORD_MUST_CHECK;

/* What a phase (COORD_PHASE_PREFILL or COORD_PHASE_DECODE, others are ignored) said of this request, for the usage record and
   the metrics: the last call for a phase wins. [any callback of the request] */
COORD_API void coord_request_note_usage(coord_request *request, const char *phase, const coord_usage *usage);
/* What was noted: COORD_OK, or COORD_ABSENT with `*usage` untouched; its `size` is set by the caller. */
COORD_API coord_status coord_request_usage(const coord_request *request, const char *phase, coord_usage *usage);

COORD_END_DECLS
#endif
