/*
 * The list of steps as written: type, id and params of each. What a type means is the pipeline builder's business.
 *
 * Thread: [load].
 */
#ifndef CONFIG_STEPS_H
#define CONFIG_STEPS_H

#include "config/settings.h"

/* Reads `pipeline.steps` into `settings->pipeline`. `list` may be NULL (no steps). */
void steps_read(struct settings *settings, const struct node *list, bool allow_unknown, struct complaints *complaints);

#endif
