/*
 * Loads plugins from files: reads the ELF note before any code of the file runs, then dlopen (RTLD_NOW | RTLD_LOCAL |
 * RTLD_NODELETE), then the descriptor.
 *
 * Every refusal names file, cause and remedy. Thread: [load].
 */
#ifndef PIPELINE_LOADER_H
#define PIPELINE_LOADER_H

#include "config/settings.h"
#include "pipeline/registry.h"

/* Loads one file. COORD_OK, or COORD_INVALID with `reason`: "FILE: cause; remedy". */
coord_status loader_load(struct registry *registry, const char *file, struct buffer *reason);

/*
 * Loads what decision 78 says: COORDINATOR_PLUGIN_PATH (`search`, colon-separated, may be NULL), plugins.path or the
 * installed folder, then plugins.load. Each failure is a complaint. False when there was one.
 */
bool loader_load_all(struct registry *registry, const struct settings *settings, const char *search,
                     struct complaints *complaints);

#endif
