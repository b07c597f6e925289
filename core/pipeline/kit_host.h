/*
 * What the test kit (sdk/testkit) needs of the library: the real service in the test's process. Exported for it alone, under a
 * version node of its own that promises nothing: kit and library come from the same build.
 *
 * Thread: [load], one host at a time in a process.
 */
#ifndef PIPELINE_KIT_HOST_H
#define PIPELINE_KIT_HOST_H

#include <coordinator/plugin.h>

COORD_BEGIN_DECLS

typedef struct coord_kit_host coord_kit_host;

struct coord_kit_host_options {
    const char *yaml;
    const char *const *flags; /* key, value, key, value, …, NULL: beat the YAML */
    char *const *environment;
    const coord_plugin_descriptor *const *plugins;
    const char *const *plugin_files;
    void (*log)(void *context, coord_slice line);
    void *log_context;
};

/* NULL with the reason in `problem` (`room` bytes, NUL-terminated). */
COORD_API coord_kit_host *coord_kit_host_start(const struct coord_kit_host_options *options, char *problem,
                                               size_t room);
COORD_API uint16_t coord_kit_host_port(const coord_kit_host *host);
/* Drains and frees. False: answers were cut. */
COORD_API bool coord_kit_host_stop(coord_kit_host *host);
COORD_API double coord_kit_host_metric(const char *name, const coord_slice *labels);

COORD_END_DECLS
#endif
