/* See known.h. The first row that fits wins. */
#include "config/known.h"

#define LISTED "stands in an entry of pipelines, not in pipeline: write pipelines, a list, in its place"
#define NOT_YET(what)                                                                                                  \
    "is a " what " of the Go coordinator that this one does not have yet: see docs/differences-from-llm-d.md"

static const struct {
    const char *where; /* beginning of the place */
    const char *key;
    const char *reason;
} rows[] = {
    {"step type", "async-broker", NOT_YET("step")},
    {"step type", "prefill-decode", NOT_YET("step")},
    {"step type", "encode", NOT_YET("step")},
    {"step type", "replace-media-urls", NOT_YET("step")},
    {"kv_connector", "kv-sglang", NOT_YET("connector")},
    {"ec_connector", "ec-nixl", NOT_YET("connector")},
    {"pipeline", "match", LISTED},
    {"pipeline", "name", LISTED},
    {"pipeline", "gateway", LISTED},
    {"step ", "force_stream", NOT_YET("param")},
    {"step decode", "use_openai_format", "has no effect on decode, which follows the path that the client called"},
    {"step conditional-decode", "use_openai_format",
     "has no effect on conditional-decode, which follows the path that the client called"},
};

const char *known_refusal(const char *where, coord_slice key)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strncmp(where, rows[i].where, strlen(rows[i].where)) == 0 && coord_slice_is(key, rows[i].key))
            return rows[i].reason;
    }
    return NULL;
}
