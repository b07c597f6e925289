/*
 * Heartbeats (decision 57): while the steps of a streaming request run, an early 200 and comments keep load balancers from
 * closing a silent connection. It costs the real status: what fails afterwards is told in the stream.
 *
 * Off unless response.heartbeat is set; the first one comes after that time, so that fast errors keep their status.
 * Thread: [reactor].
 */
#ifndef PIPELINE_HEARTBEAT_H
#define PIPELINE_HEARTBEAT_H

#include "pipeline/request.h"

void heartbeat_start(struct coord_request *request);
void heartbeat_stop(struct coord_request *request); /* does nothing if it does not run */

#endif
