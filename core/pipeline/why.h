/*
 * Why conditions do not hold for a request, in words. Thread: the request's.
 */
#ifndef PIPELINE_WHY_H
#define PIPELINE_WHY_H

#include "config/settings.h"

struct coord_request;

/* `where` is "match" or "when", `key` the one that does not hold. Of what was substituted nothing is shown. NULL when memory is short. */
char *why_not(struct arena *arena, const char *where, const struct conditions *conditions, const char *key,
              const struct coord_request *request);

#endif
