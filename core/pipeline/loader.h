/*
 * Loads plugins from files: reads the ELF note before any code of the file runs, then dlopen (RTLD_NOW | RTLD_LOCAL |
 * RTLD_NODELETE), then the descriptor.
 *
 * A file whose code is mapped already is not read again: its descriptor is used as it is, also when the file has changed on disk
 * since (new code needs a new process); that is said in a warning.
 * Every refusal names file, cause and remedy. Thread: [load], one at a time.
 */
#ifndef PIPELINE_LOADER_H
#define PIPELINE_LOADER_H

#include "config/settings.h"
#include "pipeline/registry.h"

/* Loads one file. COORD_OK, or COORD_INVALID with `reason`: "FILE: cause; remedy". */
coord_status loader_load(struct registry *registry, const char *file, struct buffer *reason);

/* True when its code is mapped and the file (as struct plugin names it) is another one by now. */
bool loader_file_changed(const char *file);

/*
 * Loads what decision 78 says: COORDINATOR_PLUGIN_PATH (`search`, colon-separated, may be NULL), plugins.path or the
 * installed folder, then plugins.load. Each failure is a complaint. False when there was one.
 */
bool loader_load_all(struct registry *registry, const struct settings *settings, const char *search,
                     struct complaints *complaints);

#endif
