/*
 * W3C trace context, passed on (no spans are exported): traceparent and tracestate, and baggage as it is.
 *
 * Every leg carries exactly one traceparent of the client's trace with a fresh parent id; an invalid or repeated one is dropped with its
 * tracestate. Without a client's none is made. Thread: any.
 */
#ifndef TELEMETRY_TRACE_H
#define TELEMETRY_TRACE_H

#include <coordinator/base.h>

struct trace_context {
    bool valid;
    char trace_id[33]; /* lower-case hex, NUL-terminated */
    char parent_id[17];
    char flags[3]; /* sampled and random; other bits are cleared, their meaning is not defined */
};

/* Parses a traceparent value (version 00; later versions by their known part). */
struct trace_context trace_parse(coord_slice traceparent);
/* Writes a traceparent (version 00) for a leg with a fresh random parent id: 55 characters and a NUL. Of an invalid context: the empty string. */
void trace_format_child(const struct trace_context *context, char out[56]);

#endif
