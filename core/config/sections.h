/*
 * The coordinator's own sections, declared in the same way as the params of a step.
 *
 * Thread: any; constants.
 */
#ifndef CONFIG_SECTIONS_H
#define CONFIG_SECTIONS_H

#include "config/values.h"

enum section {
    SECTION_TOP,
    SECTION_LOG,
    SECTION_SERVER,
    SECTION_GATEWAY,
    SECTION_PIPELINE,
    SECTION_RESPONSE,
    SECTION_RUNTIME,
    SECTION_PLUGINS,
    SECTION_COUNT
};

/* Keys of the section that are read elsewhere; NULL-terminated, or NULL. */
const char *const *section_other_keys(enum section section);

/* False: no COORDINATOR_… variable reaches into it (decision 78). */
bool section_has_environment(enum section section);

#endif
