/* What `coordinator check --explain` prints. Thread: [load]. */
#ifndef CLI_CHECK_EXPLAIN_H
#define CLI_CHECK_EXPLAIN_H

#include "pipeline/generation.h"

/* Appends every pipeline as composed, in the order in which they are tried. False when memory is short. */
bool check_explain(const struct generation *generation, struct buffer *out) COORD_MUST_CHECK;

#endif
