/*
 * From libyaml's events to nodes.
 *
 * Thread: [load].
 */
#ifndef CONFIG_TREE_BUILD_H
#define CONFIG_TREE_BUILD_H

#include "config/tree.h"

enum { TREE_FILE_MAX = 4 << 20 };

/*
 * Puts the node on top into `*root`: NULL for an empty text, which is no error. `environment` NULL: nothing is substituted. False
 * when the tree is unusable, said in `complaints`.
 */
bool tree_build(struct arena *arena, const char *name, coord_slice text, char *const *environment,
                struct complaints *complaints, struct node **root);

#endif
