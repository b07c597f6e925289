/*
 * Upstream calls: a leg to the gateway in a phase, or to an upstream of the step's own.
 *
 * A call is made, filled, then run in one of these ways; all park the fiber and end with COORD_CANCELLED when the client
 * leaves or the step's time is over (the connection is then closed at once):
 *   coord_call_run      the whole answer in memory
 *   coord_calls_run     many at a time, bounded; the first that fails cancels the rest
 *   coord_call_head     the head only; then coord_call_relay (the client gets it), coord_call_read (piece by piece) or coord_call_discard
 *   coord_call_proxy    head and relay in one
 * A transport failure is reported as COORD_FAIL, unless coord_call_keep_failure was set. The request has then failed already: with a 503
 * and `Retry-After: 1` where the connection was refused or the name has no address, a 504 where one of our time limits was over, a 502 where
 * no whole answer came. Which status an answer must have is the step's business: coord_call_require_ok.
 * A call has request lifetime; freeing is the core's.
 */
#ifndef COORDINATOR_CALL_H
#define COORDINATOR_CALL_H

#include <coordinator/param.h>
#include <coordinator/request.h>

COORD_BEGIN_DECLS

typedef struct coord_call coord_call;         /* one leg of a request */
typedef struct coord_upstream coord_upstream; /* where legs of a step of its own go */

/* Phases of gateway legs. */
#define COORD_PHASE_ENCODE "encode"
#define COORD_PHASE_PREFILL "prefill"
#define COORD_PHASE_DECODE "decode"

/*
 * An upstream of the step's own, from a `url` param: own pool, none of the gateway's credentials. Options may be NULL. The
 * core owns it as long as the step's instance lives. COORD_OK, COORD_ABSENT (the param is not set), COORD_FAIL with `error` set. [load]
 */
typedef struct coord_upstream_options {
    uint32_t size;                 /* sizeof(coord_upstream_options) */
    uint32_t max_idle_connections; /* 0: 100 */
    int64_t idle_age_ns;           /* 0, or more than 3 s: 3 s, because workers close after about five */
    int64_t connect_timeout_ns;    /* 0: gateway.connect_timeout */
    int64_t timeout_ns; /* whole call; 0: no limit but the gateway's for its parts, see coord_call_set_timeout */
} coord_upstream_options;
COORD_API coord_status coord_upstream_open(const coord_config *config, const char *param,
                                           const coord_upstream_options *options, coord_upstream **upstream,
                                           coord_error *error);

/*
 * A leg to the gateway in `phase` (a string that lives on). Default: POST to the client's path, without its query.
 * Of the client's headers it carries all, `authorization` and repeated ones too, in their order, but for
 *   - hop-by-hop ones (RFC 9110 7.6.1) and those that `connection` names; `cookie`, `proxy-authorization`, `expect`, `prefer`;
 *   - those that the core sets itself: `host`, the framing, `content-type` (of the body), `accept-encoding` (`identity` where somebody reads
 *     the answer, else the client's own), `x-request-id`, `x-llm-d-parent-request-id` (on a repeat), `x-llm-d-revision-decision-id`,
 *     `traceparent`, `tracestate`, and the phase header;
 *   - those that say which worker to use: `x-llm-d-pin-host-port`, `x-prefill-pin-host-port`, `x-peer-topology`, any gateway's phase header,
 *     and the names in pipeline.forward_response_headers, whose values come from answers to earlier legs (coord_call_capture_headers).
 * `name` labels it in metrics and log (lives as long as the process). NULL when memory is short (the request is failed). [fiber]
 */
COORD_API coord_call *coord_call_gateway_new(coord_request *request, const char *name,
                                             const char *phase) COORD_MUST_CHECK;

/*
 * A leg to an upstream of the step's own. `forward_headers`: the client's headers as above, but without `authorization`, which
 * coord_call_set_header may add. False: none of them. What the core sets itself is there in both cases, the phase header and headers
 * of earlier answers in neither. Otherwise as coord_call_gateway_new. [fiber]
 */
COORD_API coord_call *coord_call_upstream_new(coord_request *request, const char *name, coord_upstream *upstream,
                                              bool forward_headers) COORD_MUST_CHECK;

/*
 * Setters. All copy, and the last call of one counts. Each returns COORD_OK, COORD_INVALID when the value may not stand there,
 * COORD_NO_MEMORY, or COORD_STATE, changing nothing, once the run has begun. [fiber]
 */
COORD_API coord_status coord_call_set_method(coord_call *call, const char *method); /* a token */
/* The target, from its slash on, with a query of its own if it has one. COORD_INVALID: no slash, white space, control characters. */
COORD_API coord_status coord_call_set_path(coord_call *call, coord_slice path);
COORD_API coord_status coord_call_keep_query(coord_call *call); /* appends the client's query, where it has one */
/* Replaces all of that name. COORD_INVALID also for names that are the core's: those of the framing, Host, Expect, ids, trace context. */
COORD_API coord_status coord_call_set_header(coord_call *call, const char *name, coord_slice value);
COORD_API coord_status coord_call_remove_header(coord_call *call,
                                                const char *name); /* all of that name; COORD_OK without any */
/* The body: the document as it is now, and later edits of it change nothing, or a text. They replace each other; both set the content type. */
COORD_API coord_status coord_call_set_body(coord_call *call, coord_document *document);
COORD_API coord_status coord_call_set_text(coord_call *call, coord_slice text, const char *content_type);
/*
 * Of the whole call, from its start to the answer's end; a repeat has it anew. 0: the upstream's own (coord_upstream_options), else
 * gateway.total_timeout on gateway legs. COORD_INVALID: negative. No call hangs for ever, unless the gateway's keys say so: gateway.connect_timeout
 * holds until it is connected, gateway.idle_timeout between two pieces of the answer, and until its head gateway.timeout
 * (gateway.response_timeout where the client gets the answer and asked for no stream; on an upstream of the step's own gateway.timeout
 * only if the whole call has no limit).
 */
COORD_API coord_status coord_call_set_timeout(coord_call *call, int64_t nanoseconds);
/* Of an answer kept in memory (coord_call_run, coord_calls_run); a longer one is a 502. Default: 4 × response.inspect_limit. COORD_INVALID: 0. */
COORD_API coord_status coord_call_set_limit(coord_call *call, size_t bytes);
/*
 * The leg may be repeated once, on a fresh connection and with an id of its own: only when the worker closed the connection without a byte of
 * an answer, and nothing went to the client. Otherwise no leg is ever sent twice. Leave it out where a second run does harm.
 */
COORD_API coord_status coord_call_allow_repeat(coord_call *call);
/* Transport failures do not fail the request: the run returns COORD_OK and coord_call_status is 0. */
COORD_API coord_status coord_call_keep_failure(coord_call *call);
/* The answer's headers are relayed to later legs (pipeline.forward_response_headers) by coord_call_require_ok, if it is a 200. */
COORD_API coord_status coord_call_capture_headers(coord_call *call);

/* Runs it to the end of its answer. COORD_OK (any status), COORD_FAIL, COORD_CANCELLED. Parks. [fiber] */
COORD_API coord_status coord_call_run(coord_call *call) COORD_MUST_CHECK;
/* Runs `count` calls, at most `parallel` (0: 1) at a time. COORD_OK when each got an answer that is 200; else the first failure decides, the others are cancelled. Parks. */
COORD_API coord_status coord_calls_run(coord_call *const *calls, size_t count, uint32_t parallel) COORD_MUST_CHECK;

/* Starts it and parks until its head is there. COORD_OK, COORD_FAIL, COORD_CANCELLED. */
COORD_API coord_status coord_call_head(coord_call *call) COORD_MUST_CHECK;
/* After coord_call_head: the client gets status, headers and body through the request's writers. Parks until the end. COORD_DONE: the
   answer is out, whatever its status; COORD_FAIL: it broke (a stream that stopped between two events has ended with an error event for the
   client, unless response.stream_error_event is false; anything else was cut); COORD_CANCELLED; COORD_STATE: the request has an answer
   already, this one is dropped. */
COORD_API coord_status coord_call_relay(coord_call *call) COORD_MUST_CHECK;
/* head and relay; of a request that has an answer already, no leg is sent. */
COORD_API coord_status coord_call_proxy(coord_call *call) COORD_MUST_CHECK;
/* After coord_call_head: the next piece of the body; valid until the next call. COORD_OK, COORD_END, COORD_FAIL, COORD_CANCELLED. Parks. */
COORD_API coord_status coord_call_read(coord_call *call, coord_slice *piece) COORD_MUST_CHECK;
/*
 * After coord_call_head: the rest is read and forgotten while the request goes on (at most 64 KiB, and no longer than the request lasts), so that
 * the connection can be used again. Never parks.
 */
COORD_API coord_status coord_call_discard(coord_call *call) COORD_MUST_CHECK;
/* Closes its connection at once; one that has not begun never will (COORD_STATE). Never parks. */
COORD_API void coord_call_cancel(coord_call *call);

/* What came. Never parks. Status 0: no answer. */
COORD_API int32_t coord_call_status(const coord_call *call);
/* After coord_call_run; as long as the call, or until it is forgotten. */
COORD_API coord_slice coord_call_body(const coord_call *call);
COORD_API coord_status coord_call_header(const coord_call *call, const char *name,
                                         coord_slice *value); /* COORD_OK or COORD_ABSENT; first value */
/* The answer as a document (owned by the call); NULL when it is not JSON (`coord_call_fail_answer` then says so). */
COORD_API coord_document *coord_call_document(coord_call *call);
/*
 * Frees the body and the document, of which the slices go with them; status and headers stay. For a step that has read a large answer, since a
 * stream that follows may last for minutes. Does nothing while the call runs, or once the request has failed.
 */
COORD_API void coord_call_forget_answer(coord_call *call);

/*
 * COORD_OK when the answer is a 200. Else it fails the request: with the same status where that is a 4xx or 503 (with the worker's
 * `Retry-After` and `WWW-Authenticate`; of a 4xx also its body, if that is a JSON error object of at most 8 KiB, for Messages in that
 * API's shape), with a 502 for any other.
 */
COORD_API coord_status coord_call_require_ok(coord_call *call) COORD_MUST_CHECK;
/* Fails the request with a 502: "<name> answered …: <what>". Returns COORD_FAIL. */
COORD_API coord_status coord_call_fail_answer(coord_call *call, const char *format, ...) COORD_PRINTF(2, 3);

COORD_END_DECLS
#endif
