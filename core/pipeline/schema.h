/*
 * The JSON Schema (2020-12) of the whole configuration: from the tables that the configuration is read by, and the params of all
 * types that are loaded.
 *
 * It says of a file, as a YAML 1.2 reader sees it, what can be said of each value alone and of the keys beside it. A text that
 * holds `${NAME}` is taken everywhere; `<<` in each map, for tools that do not apply merge keys. What is beyond a schema
 * (order of steps, names that must be there elsewhere, limits of values with a unit) only `coordinator check` finds.
 * Thread: [load].
 */
#ifndef PIPELINE_SCHEMA_H
#define PIPELINE_SCHEMA_H

#include "config/sections.h"
#include "pipeline/registry.h"

#include <coordinator/document.h>

/* Writes the schema as one value into `json`; errors are the builder's. `version` is the program's, for the title. */
void schema_write(coord_json *json, const struct registry *registry, const char *version);

/* ---- What the two files of the schema share ---- */

/* A param as a member of the open object: its name and its schema. `rule`: what its texts look like beyond the type, or NULL. */
void schema_param(coord_json *json, const coord_param *param, const struct text_rule *rule,
                  const struct registry *registry);

/* The object `name` is opened, with its description (NULL: none); the caller closes it. */
void schema_open(coord_json *json, const char *name, const char *help);
/* A member with a text, or with a list of texts; those of `extra` (may be NULL) at the end. */
void schema_text(coord_json *json, const char *name, const char *text);
void schema_texts(coord_json *json, const char *name, const char *const *texts, const char *extra);
/* The member `pattern`: the text is what the expression `text` (without anchors; NULL: anything but nothing) says, or holds a substitution. */
void schema_pattern(coord_json *json, const char *text);
/* The member `pattern`: the text holds a substitution. */
void schema_substituted(coord_json *json);
/* The member `anyOf` is opened: one of `choices`, or a text with a substitution; the caller adds what else and closes it. */
void schema_choices(coord_json *json, const char *const *choices);

/* What a scalar of any kind is: a text that nobody quoted may look like a number. With "null" where nothing may stand. */
extern const char *const schema_scalar[], *const schema_scalar_or_null[];

#endif
