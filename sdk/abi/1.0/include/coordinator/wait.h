/*
 * Parking the fiber for something other than an upstream call. All return COORD_CANCELLED when the client leaves, the step's
 * time is over or the process stops. [fiber]
 */
#ifndef COORDINATOR_WAIT_H
#define COORDINATOR_WAIT_H

#include <coordinator/request.h>

COORD_BEGIN_DECLS

/* Parks for that long; 0 and less: for one turn of the reactor. COORD_OK or COORD_CANCELLED. */
COORD_API coord_status coord_sleep(coord_request *request, int64_t nanoseconds) COORD_MUST_CHECK;

enum { COORD_READABLE = 1, COORD_WRITABLE = 2 };
/*
 * Parks until `fd` is ready for any of `events`, or `timeout_ns` passed (negative: no limit). An end or an error of the other
 * side counts as ready for both. Any number of requests may wait for one descriptor: all of them are woken. It must stay open
 * meanwhile. COORD_OK with `*ready` (may be NULL), COORD_END (timeout), COORD_INVALID (no events, not pollable, or descriptors
 * are short), COORD_CANCELLED.
 */
COORD_API coord_status coord_wait_fd(coord_request *request, int fd, int32_t events, int64_t timeout_ns,
                                     int32_t *ready) COORD_MUST_CHECK;

/*
 * An event that another thread posts. It has request lifetime and may be posted at any time, also after the wait was given
 * up, as long as the poster holds a reference: coord_event_ref before handing it over, coord_event_unref after the last post.
 * The last post comes before `stop` of the step returns.
 */
typedef struct coord_event coord_event;
COORD_API coord_event *
coord_event_new(coord_request *request) COORD_MUST_CHECK; /* one reference, the request's; NULL: memory is short */
COORD_API void coord_event_ref(coord_event *event);       /* [any thread] */
COORD_API void coord_event_unref(coord_event *event);     /* [any thread] */
COORD_API void
coord_event_post(coord_event *event); /* [any thread]; posts before the wait are not lost, several count as one */
COORD_API coord_status coord_event_wait(coord_event *event, int64_t timeout_ns)
    COORD_MUST_CHECK; /* COORD_OK, COORD_END (timeout), COORD_CANCELLED */

/*
 * Runs `function(argument)` on a thread of the offload pool, so that it may block; the fiber is parked until it has returned,
 * also when the request is cancelled meanwhile (so that `argument` may lie on the stack). A job that has not begun by then
 * is taken back. COORD_OK: it ran; COORD_CANCELLED: it did not, or the request was cancelled while it did; COORD_LIMIT: the queue is full.
 */
COORD_API coord_status coord_offload(coord_request *request, void (*function)(void *argument),
                                     void *argument) COORD_MUST_CHECK;

COORD_END_DECLS
#endif
