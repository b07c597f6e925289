/*
 * The list of steps as written: type, id, conditions, time limit and params of each. What a type means is the pipeline builder's business.
 *
 * Thread: [load].
 */
#ifndef CONFIG_STEPS_H
#define CONFIG_STEPS_H

#include "config/settings.h"

/* The keys of a step. */
struct keys step_keys(void);

/* Reads a pipeline's `steps`. `list` may be NULL (no steps). */
void steps_read(struct arena *arena, struct pipeline_settings *pipeline, const struct node *list, bool allow_unknown,
                struct complaints *complaints);

#endif
