/*
 * Lists of header names in the configuration: lower case, tokens, none twice, none that may not be used there.
 *
 * Thread: [load].
 */
#ifndef CONFIG_HEADER_NAMES_H
#define CONFIG_HEADER_NAMES_H

#include "config/values.h"

struct header_names {
    const coord_slice *names;
    size_t count;
};

/* Names that the coordinator owns or that belong to one connection: never carried from one leg to another. */
bool header_is_forwardable(coord_slice lower_case_name, const struct header_names *phase_headers);

/*
 * The names of a STRING_LIST value, trimmed and in lower case. `node` is where it stands in the file, or NULL; `label` as in
 * "pipeline.forward_response_headers". With `phase_headers` the names must be forwardable beside those.
 */
struct header_names header_names_read(struct arena *arena, const struct value *value, const struct node *node,
                                      const char *label, const struct header_names *phase_headers,
                                      struct complaints *complaints);

#endif
