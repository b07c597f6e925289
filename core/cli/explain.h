/* What `coordinator explain` prints of a rehearsal. Thread: [load]. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include "pipeline/rehearsal.h"

/* Each appends; false when memory is short. For people, and as one JSON object. */
bool explain_text(const struct rehearsal *rehearsal, struct buffer *out) COORD_MUST_CHECK;
bool explain_json(const struct rehearsal *rehearsal, struct buffer *out) COORD_MUST_CHECK;

/* How a step went, in one line; never NULL. */
const char *explain_why(const struct rehearsal *rehearsal, const struct rehearsed_step *step);

/* What a writer made of what reached it. */
struct writer_changes {
    bool status, body;
    const char *headers[32]; /* names, set, changed or removed; NULL-terminated */
};
struct writer_changes explain_changes(const struct rehearsed_writer *writer);

#endif
