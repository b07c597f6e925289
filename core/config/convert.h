/*
 * One node into one typed value, by its declaration. What values.c and the check of declarations share.
 *
 * Thread: [load].
 */
#ifndef CONFIG_CONVERT_H
#define CONFIG_CONVERT_H

#include "config/values.h"

struct reading {
    struct arena *arena;
    struct complaints *complaints;
    const char *label; /* `server.read_timeout`, `param "timeout" of step render` */
};

/*
 * Fills `*value`, its source excepted. False when that was said in `complaints`. A node that counts as absent (see values.h)
 * must be sorted out before by counts_as_absent.
 */
bool convert(const struct reading *reading, const coord_param *param, const struct node *node, struct value *value);

bool counts_as_absent(const coord_param *param, const struct node *node);

/*
 * The node that `param->fallback` stands for: lists and maps are flow YAML, anything else is the text itself, or a quoted YAML
 * text. NULL when malformed, said in `complaints`.
 */
struct node *fallback_node(struct arena *arena, const coord_param *param, struct complaints *complaints);

/* True for the types to which `minimum` and `maximum` apply. */
bool has_limits(const coord_param *param);

/* What a limit of the param looks like to people, with its unit: "30s", "1MiB". */
struct limit_text {
    char text[40];
};
struct limit_text print_limit(const coord_param *param, int64_t limit);

#endif
