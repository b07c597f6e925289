/*
 * Whose code a step's is, for crash lines and the watchdog (runtime/running.h). Thread: any.
 */
#ifndef PIPELINE_OWNERS_H
#define PIPELINE_OWNERS_H

#include "pipeline/registry.h"
#include "runtime/running.h"

/* One that lives as long as the process; equal ones are the same. Aborts when memory is short. */
const struct owner *owner_of(const char *step_id, const struct plugin *plugin);

#endif
