/*
 * Header fields between client and workers: what a leg carries of the client's, and what the client gets of an answer's.
 *
 * Tables, because who may see what is a matter of policy (decisions 5, 11, 37, 40, 42). Thread: [reactor].
 */
#ifndef PIPELINE_LEG_HEADERS_H
#define PIPELINE_LEG_HEADERS_H

#include "pipeline/request.h"

/*
 * The client's fields that every gateway leg of this request carries (request->base, made once): without hop-by-hop fields,
 * those that the leg sets itself, credentials that are never forwarded, and names that only the coordinator may set.
 */
bool leg_headers_base(struct coord_request *request);

/* For passthrough: everything but hop-by-hop fields, owned names and Proxy-Authorization; `from` is the client's list. */
bool leg_headers_passthrough(struct headers *to, const struct headers *from, const struct settings *settings);

/*
 * The trace context that a client sent: valid only if it sent one traceparent, and that is well-formed. `*tracestate`
 * (borrowed from `from`) then goes with it, else it is empty.
 */
struct trace_context leg_headers_read_trace(const struct headers *from, coord_slice *tracestate);

/* Adds it to a leg, as a child of its own; nothing when it is not valid. */
bool leg_headers_add_trace(struct headers *to, const struct trace_context *trace, coord_slice tracestate);

/* Adds x-request-id, trace context, the revision id, and the phase header(s) (`phase` NULL: none). `id` is the leg's own id, `parent` the request's when they differ, else empty. */
bool leg_headers_owned(struct headers *to, const struct coord_request *request, const char *phase, coord_slice id,
                       coord_slice parent);

/*
 * An answer's fields as the client gets them: hop-by-hop, framing and coordinator-owned fields out, x-request-id ours, and for
 * event streams the no-buffering pair (decision 56). Names and values are borrowed, from `from` and from `request_id`.
 */
bool client_headers(struct headers *to, const struct headers *from, coord_slice request_id);

/* The client's credentials that a leg to an upstream of the step's own does not get unless the step adds them. */
bool leg_header_is_credential(coord_slice name);

/* Fields that the core sets on every leg: a step cannot. */
bool leg_header_is_the_cores(coord_slice name);

#endif
