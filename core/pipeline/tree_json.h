/* A part of a YAML file as JSON. Thread: any. */
#ifndef PIPELINE_TREE_JSON_H
#define PIPELINE_TREE_JSON_H

#include "config/tree.h"

#include <coordinator/document.h>

/*
 * Writes `node` as one value: a plain scalar that is a JSON value is that value, any other a text, and what was substituted is not
 * shown. False: it has a key with a NUL inside, which nothing can stand for. Errors of memory are the builder's.
 */
bool tree_write_json(const struct node *node, coord_json *json) COORD_MUST_CHECK;

#endif
