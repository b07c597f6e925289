/*
 * A step that answers itself: whole, or as a stream. The bytes pass through the request's writers like a worker's. [fiber]
 */
#ifndef COORDINATOR_ANSWER_H
#define COORDINATOR_ANSWER_H

#include <coordinator/request.h>

COORD_BEGIN_DECLS

/*
 * `status`: 200 … 599. `content_type`: NULL for none. `headers`: name, value, name, value, …, NULL; or NULL. Those of the
 * framing and x-request-id are the core's business and left out.
 */

/*
 * Answers whole. COORD_DONE (return it); COORD_STATE: answered already, or background work; COORD_INVALID: a bad status or
 * header; COORD_CANCELLED; COORD_NO_MEMORY. Does not park.
 */
COORD_API coord_status coord_answer(coord_request *request, int32_t status, const char *content_type, coord_slice body,
                                    const char *const *headers);

/* Begins a streamed answer (chunked). COORD_OK, else as coord_answer. Does not park. */
COORD_API coord_status coord_answer_begin(coord_request *request, int32_t status, const char *content_type,
                                          const char *const *headers) COORD_MUST_CHECK;
/* Sends bytes (copied); parks while the client is slow. COORD_OK, COORD_CANCELLED, COORD_STATE (not begun, or over). */
COORD_API coord_status coord_answer_write(coord_request *request, coord_slice bytes) COORD_MUST_CHECK;
/* Ends it cleanly. COORD_DONE (return it), COORD_STATE (not begun). */
COORD_API coord_status coord_answer_end(coord_request *request);
/* Cuts it, so that the client sees that it is not whole; one that has not begun becomes a 500. COORD_FAIL (return it). */
COORD_API coord_status coord_answer_abort(coord_request *request);

COORD_END_DECLS
#endif
