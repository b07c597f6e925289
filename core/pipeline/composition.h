/*
 * Whether pipelines hold together as composed: order, conditions and what an error means (decisions 70, 72, 74, 79).
 *
 * And, for each request: which pipeline serves it, and which of its steps run. Thread: check [load]; the rest [fiber or reactor].
 */
#ifndef PIPELINE_COMPOSITION_H
#define PIPELINE_COMPOSITION_H

#include "pipeline/generation.h"

struct coord_request;

/* Adds what is wrong with the built pipelines to `complaints`: each names the step, what it lacks, and who could provide it. */
void composition_check(const struct generation *generation, struct complaints *complaints);

/* The first pipeline whose match holds, NULL: none. */
const struct pipeline *composition_pipeline(const struct generation *generation, const struct coord_request *request);

/* NULL when the step is to run; else the key of its `when` that does not hold. */
const char *composition_skips(const struct step *step, const struct coord_request *request);

/* True when `text` fits `pattern`, in which each * stands for any bytes. */
bool pattern_fits(coord_slice pattern, coord_slice text);

#endif
