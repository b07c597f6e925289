/* See known.h. The first row that fits wins. */
#include "config/known.h"

static const struct {
    const char *where; /* beginning of the place */
    const char *key;
    const char *reason;
} rows[] = {
    {"step type", "async-broker",
     "is a step of the Go coordinator that this one does not have yet: see docs/differences-from-llm-d.md"},
    {"step type", "prefill-decode",
     "is a step of the Go coordinator that this one does not have yet: see docs/differences-from-llm-d.md"},
    {"step ", "force_stream",
     "is a param of the Go coordinator that this one does not have yet: see docs/differences-from-llm-d.md"},
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
