/*
 * What has been loaded: plugins, and the step and connector types that they bring.
 *
 * Filled at start by the loader (or by tests and the test kit with types that are linked in); read-only afterwards. Plugins
 * stay mapped for the life of the process. Thread: [load] for adding; any for reading.
 */
#ifndef PIPELINE_REGISTRY_H
#define PIPELINE_REGISTRY_H

#include "config/values.h"

#include <coordinator/plugin.h>

struct plugin {
    const char *file; /* as found; "" when linked in */
    const char *name;
    const char *version;
    const char *licence;
    struct plugin *next;
};

/* A type as we know it: members that an older plugin lacks are zero. `origin` is the descriptor the plugin gave. */
struct step_kind {
    coord_step_type type;
    struct param_table params;
    const struct plugin *plugin;
    struct step_kind *next;
};

struct connector_kind {
    coord_connector_type type;
    struct param_table params;
    const struct plugin *plugin;
    struct connector_kind *next;
};

struct registry {
    struct arena arena;
    struct plugin *plugins; /* in order of loading */
    struct step_kind *steps;
    struct connector_kind *connectors;
    bool incomplete; /* a file was not loaded, and that was said: a type that is not here may be in it */
};

void registry_init(struct registry *registry);
void registry_release(struct registry *registry);

/* Adds everything a descriptor brings, or nothing. COORD_OK; COORD_INVALID with `reason`: a duplicate type (names both files), no `execute`, a malformed param table, …. */
coord_status registry_add(struct registry *registry, const char *file, const coord_plugin_descriptor *descriptor,
                          struct buffer *reason);

/* Writes "FILE: cause; remedy" into `reason` (FILE "": a linked-in plugin); what does not fit is lost. Always COORD_INVALID. */
coord_status registry_refuse(struct buffer *reason, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What types and plugins may be called: [a-z][a-z0-9-]*. NULL is not. */
bool registry_name_is_valid(const char *name);

const struct step_kind *registry_step(const struct registry *registry, coord_slice name);
const struct connector_kind *registry_connector(const struct registry *registry, int32_t kind, coord_slice name);
/* Nearest name for "did you mean", or NULL. */
const char *registry_nearest_step(const struct registry *registry, coord_slice name);
const char *registry_nearest_connector(const struct registry *registry, int32_t kind, coord_slice name);

#endif
