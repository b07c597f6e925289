/*
 * Runs a request's steps on its fiber, one after another, and reports what happened: metrics and the log line.
 *
 * Thread: run and detached work [fiber]; report [reactor].
 */
#ifndef PIPELINE_EXECUTOR_H
#define PIPELINE_EXECUTOR_H

#include "pipeline/request.h"

/* Steps in order until one says it is done or fails; then the answer, if none was made. On the fiber. */
void executor_run(struct coord_request *request);
/* Once a request: its metrics and its line in the log. */
void executor_report(struct coord_request *request);
/* Starts a piece of background work of a request that has ended, or releases it when it cannot run. */
void executor_detach(struct coord_request *request, struct detached *work);

#endif
