/*
 * A single YAML value that need not be a map: the defaults of lists and maps in param tables.
 *
 * Thread: [load].
 */
#ifndef CONFIG_TREE_VALUE_H
#define CONFIG_TREE_VALUE_H

#include "config/tree.h"

/* As tree_parse, with any node on top and nothing substituted. */
struct node *tree_parse_value(struct arena *arena, const char *name, coord_slice text, struct complaints *complaints);

#endif
