/*
 * `GET /debug/pipelines`: the generation that serves, as JSON.
 *
 * Counts and times of a step are those of the metrics: of the process, over all generations, added up over pipelines by the step's
 * id. Writers are those that were wrapped since the generation came into use, in the order in which they see the bytes.
 * Conditions stand there as the file has them; substituted values and params are not shown. Thread: any.
 */
#ifndef PIPELINE_DESCRIBE_H
#define PIPELINE_DESCRIBE_H

#include "pipeline/generation.h"

#include <coordinator/document.h>

void describe_generation(const struct generation *generation, coord_json *json);

#endif
