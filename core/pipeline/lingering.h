/*
 * Who keeps a process from ending: the steps that did not return after their request was cancelled, one log line each with
 * step, plugin and request id. Parked ones are found by their worker, those that hold a reactor by looking at it from outside.
 */
#ifndef PIPELINE_LINGERING_H
#define PIPELINE_LINGERING_H

#include "pipeline/worker.h"

/* Names those that are still there on the workers whose threads have not ended. A worker has half a second to say. [main thread] */
void lingering_report(struct service *service);

/* The same, told to `say(context, owner, request, holds_reactor)`, which runs on any thread; `owner` NULL: nobody's code in particular. */
typedef void lingering_fn(void *context, const struct owner *owner, coord_slice request, bool holds_reactor);
void lingering_find(struct service *service, lingering_fn *say, void *context);

#endif
