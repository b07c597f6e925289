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

/* Keys of the section that are read elsewhere. */
struct keys section_other_keys(enum section section);

/* What a text, or each item of a list of texts, looks like beyond what its type says. */
struct text_rule {
    const char *pattern; /* a regular expression (POSIX extended and ECMA alike) without anchors */
    bool filled;         /* a list with nothing in it is wrong */
};
/* The rule for that key; NULL: as it likes. */
const struct text_rule *section_text_rule(enum section section, const char *name);

/*
 * True when an unknown key of the map was meant as `name`, by what is near: that has been said, and nobody need miss `name`.
 * `others`: the keys beside the section's own params. `map` may be NULL.
 */
bool section_key_is_misspelt(enum section section, struct keys others, const struct node *map, const char *name);

/* False: no COORDINATOR_… variable reaches into it (decision 78). */
bool section_has_environment(enum section section);

#endif
