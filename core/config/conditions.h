/*
 * The keys of `match` and `when`: what must hold for a pipeline to serve a request, or for a step to run (decisions 71, 72).
 *
 * Thread: [load].
 */
#ifndef CONFIG_CONDITIONS_H
#define CONFIG_CONDITIONS_H

#include "config/settings.h"

/* The keys of `when` (`of_step`) or `match`; and of the map that prompt_tokens takes. */
struct keys conditions_keys(bool of_step);
struct keys conditions_bounds(void);

/*
 * Reads a map of conditions; `where` is "match" or "when". `of_step` allows the keys that only steps have. NULL or null gives no
 * conditions. What is wrong is complained about.
 */
struct conditions conditions_read(struct arena *arena, const struct node *node, const char *where, bool of_step,
                                  struct complaints *complaints);

/* Appends them as flow YAML, without what was substituted. False when memory is short. */
bool conditions_print(const struct conditions *conditions, struct buffer *out) COORD_MUST_CHECK;

/* True when every request for which `narrow` holds is one for which `wide` does (by what is written, not by thought). */
bool conditions_imply(const struct conditions *narrow, const struct conditions *wide);

#endif
