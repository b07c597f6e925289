/*
 * A single YAML value that need not be a map: the defaults of lists and maps in param tables, and the answers of a dry run.
 *
 * Thread: [load].
 */
#ifndef CONFIG_TREE_VALUE_H
#define CONFIG_TREE_VALUE_H

#include "config/tree.h"

/* As tree_parse, with any node on top and nothing substituted. */
struct node *tree_parse_value(struct arena *arena, const char *name, coord_slice text, struct complaints *complaints);
/* The same from a file ("-": standard input). */
struct node *tree_load_value(struct arena *arena, const char *path, struct complaints *complaints);

#endif
