/*
 * The COORDINATOR_… variables that set keys: what they are called, and which of those that are set were misspelt.
 *
 * Thread: [load].
 */
#ifndef CONFIG_VARIABLES_H
#define CONFIG_VARIABLES_H

#include "config/tree.h"

/* "server" and "read_timeout" → COORDINATOR_SERVER_READ_TIMEOUT (arena). NULL when memory is short. */
char *variable_name(struct arena *arena, const char *section, const char *name);

/* Warns of each one that sets no key, but is near one that does. `environment`: as environ. */
void variables_check(struct arena *arena, char *const *environment, struct complaints *complaints);

#endif
