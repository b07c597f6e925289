/*
 * Detached work after the answer's end: audit, billing, cache fills.
 *
 * It runs on a fiber of its own once the answer has ended, owns copies of what it needs, and does not hold up the client. At
 * shutdown it has until server.shutdown_timeout; then its parked calls return COORD_CANCELLED.
 */
#ifndef COORDINATOR_BACKGROUND_H
#define COORDINATOR_BACKGROUND_H

#include <coordinator/call.h>

COORD_BEGIN_DECLS

/*
 * Calls `function(background, argument)` after the request has ended (also when it failed or was cancelled), then `release(argument)` (may
 * be NULL), which comes in any case once this returned COORD_OK. `background` stands for a request without client, body
 * (coord_request_body is NULL) and writers: id, model, api, alloc, slots, upstream calls and waits work on it, answering and
 * relaying are COORD_STATE. COORD_OK; COORD_LIMIT: 1,024 run on this reactor already; COORD_STATE: this is background work
 * itself; COORD_NO_MEMORY. What exceeds the limit only when the answer has ended is released without having run, with a
 * warning. [fiber]
 */
COORD_API coord_status coord_background(coord_request *request,
                                        void (*function)(coord_request *background, void *argument),
                                        void *argument_take, void (*release)(void *argument)) COORD_MUST_CHECK;

COORD_END_DECLS
#endif
