/*
 * The guard of the prompt: what render saw must be what decode sees. A step that changes a member from which the prompt is
 * made, after token ids were made of it, is counted and named: nothing else would show it.
 *
 * The reference is a clone of the body, which costs no copy; members that nobody touched are the same bytes in both.
 * Thread: [fiber] of the request.
 */
#ifndef PIPELINE_PROMPT_GUARD_H
#define PIPELINE_PROMPT_GUARD_H

#include "pipeline/request.h"

/* A step has run. `had_ids`: whether there were token ids before it. */
void prompt_guard_after(struct coord_request *request, const struct step *step, bool had_ids);

#endif
