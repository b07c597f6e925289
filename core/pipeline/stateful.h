/*
 * Members of a Responses request that need state which no replica keeps: refused before any step runs (decision 7).
 *
 * Thread: [reactor].
 */
#ifndef PIPELINE_STATEFUL_H
#define PIPELINE_STATEFUL_H

#include "pipeline/request.h"

/* Fails the request with a 400 that names the member, or leaves it as it is. */
void stateful_check(struct coord_request *request);

#endif
