/* See leg_headers.h. */
#include "pipeline/leg_headers.h"

/* Why a client's field does not go into a leg. */
enum {
    PIPELINE = 1 << 0,    /* not on pipeline legs */
    PASSTHROUGH = 1 << 1, /* not on passthrough */
    ANSWER = 1 << 2,      /* not from an answer to the client */
    CREDENTIAL = 1 << 3,  /* not to an upstream of the step's own */
    STEP = 1 << 4,        /* no step sets it on a leg */
};

static const unsigned char OWNED[HEADER_KINDS] = {
    [HEADER_HOST] = PIPELINE | PASSTHROUGH | STEP,
    [HEADER_CONTENT_LENGTH] = PIPELINE | PASSTHROUGH | ANSWER | STEP,
    [HEADER_TRANSFER_ENCODING] = PIPELINE | PASSTHROUGH | ANSWER | STEP,
    [HEADER_TRAILER] = PIPELINE | PASSTHROUGH | ANSWER | STEP,
    [HEADER_EXPECT] = PIPELINE | PASSTHROUGH | STEP,
    [HEADER_CONNECTION] = STEP,
    [HEADER_CONTENT_TYPE] = PIPELINE,
    [HEADER_ACCEPT_ENCODING] = PIPELINE,
    [HEADER_PREFER] = PIPELINE,
    [HEADER_COOKIE] = PIPELINE | CREDENTIAL,
    [HEADER_AUTHORIZATION] = CREDENTIAL,
    [HEADER_PROXY_AUTHORIZATION] = PIPELINE | PASSTHROUGH | CREDENTIAL,
    [HEADER_REQUEST_ID] = PIPELINE | PASSTHROUGH | ANSWER | STEP,
    [HEADER_PARENT_REQUEST_ID] = PIPELINE | PASSTHROUGH | ANSWER | STEP,
    [HEADER_TRACE_PARENT] = PIPELINE | PASSTHROUGH | STEP,
    [HEADER_TRACE_STATE] = PIPELINE | PASSTHROUGH | STEP,
    [HEADER_DECISION_ID] = PIPELINE | PASSTHROUGH | ANSWER | STEP,
    [HEADER_PIN_HOST_PORT] = PIPELINE | PASSTHROUGH,
    [HEADER_PREFILL_PIN_HOST_PORT] = PIPELINE | PASSTHROUGH,
    [HEADER_PEER_TOPOLOGY] = PIPELINE | PASSTHROUGH | ANSWER,
};

static bool listed(coord_slice name, const coord_slice *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (header_name_equal(name, list[i]))
            return true;
    return false;
}

bool leg_header_is_credential(coord_slice name) { return (OWNED[header_kind_of(name)] & CREDENTIAL) != 0; }

bool leg_header_is_the_cores(coord_slice name) { return (OWNED[header_kind_of(name)] & STEP) != 0; }

/* Of any gateway: a client may name the phase of none. */
static bool is_phase_header(coord_slice name, const struct settings *settings)
{
    for (size_t i = 0; i < settings->gateway_count; i++)
        if (listed(name, settings->gateways[i]->phase_headers, settings->gateways[i]->phase_header_count))
            return true;
    return false;
}

/* Copies the list without fields owned `where`, phase headers and `also`; the slices are borrowed from `from`. */
static bool copy_without(struct headers *to, const struct headers *from, unsigned where,
                         const struct settings *settings, const coord_slice *also, size_t also_count)
{
    if (!headers_reserve(to, from->count))
        return false;
    for (size_t i = 0; i < from->count; i++) {
        const struct header *field = &from->list[i];

        if ((OWNED[field->kind] & where) || is_phase_header(field->name, settings) ||
            listed(field->name, also, also_count))
            continue;
        if (!headers_add_field(to, field))
            return false;
    }
    headers_drop_hop_by_hop(to);
    return true;
}

bool leg_headers_base(struct coord_request *request)
{
    const struct settings *settings = request->generation->settings;
    const struct pipeline_settings *pipeline = request->pipeline->settings;

    if (request->base_made)
        return true;
    headers_init(&request->base, &request->arena);
    request->base_made = copy_without(&request->base, &request->headers, PIPELINE, settings,
                                      pipeline->forward_response_headers, pipeline->forward_response_header_count);
    return request->base_made;
}

bool leg_headers_passthrough(struct headers *to, const struct headers *from, const struct settings *settings)
{
    return copy_without(to, from, PASSTHROUGH, settings, NULL, 0);
}

struct trace_context leg_headers_read_trace(const struct headers *from, coord_slice *tracestate)
{
    const struct header *parent = headers_first(from, HEADER_TRACE_PARENT);
    const struct header *state = headers_first(from, HEADER_TRACE_STATE);
    struct trace_context trace = {0};

    if (parent && headers_count(from, parent->name) == 1)
        trace = trace_parse(parent->value);
    *tracestate = trace.valid && state ? state->value : (coord_slice){0};
    return trace;
}

bool leg_headers_add_trace(struct headers *to, const struct trace_context *trace, coord_slice tracestate)
{
    char parent[56];

    if (!trace->valid)
        return true;
    trace_format_child(trace, parent);
    return headers_add(to, (coord_slice)COORD_SLICE("traceparent"), (coord_slice){parent, sizeof parent - 1}) &&
           (tracestate.size == 0 || headers_add_known(to, HEADER_TRACE_STATE, tracestate));
}

bool leg_headers_owned(struct headers *to, const struct coord_request *request, const char *phase, coord_slice id,
                       coord_slice parent)
{
    const struct gateway_settings *gateway = request->pipeline->settings->gateway;

    for (size_t i = 0; phase && i < gateway->phase_header_count; i++)
        if (!headers_add_borrowed(to, gateway->phase_headers[i], coord_slice_of(phase)))
            return false;
    if (parent.size > 0 && !headers_add_known(to, HEADER_PARENT_REQUEST_ID, parent))
        return false;
    if (request->decision_id[0] && !headers_add_known(to, HEADER_DECISION_ID, coord_slice_of(request->decision_id)))
        return false;
    return headers_add_known(to, HEADER_REQUEST_ID, id) &&
           leg_headers_add_trace(to, &request->trace, request->tracestate);
}

static bool add_unless_set(struct headers *headers, coord_slice name, coord_slice value)
{
    return headers_find(headers, name) || headers_add_borrowed(headers, name, value);
}

bool client_headers(struct headers *to, const struct headers *from, coord_slice request_id)
{
    struct coord_head probe;

    if (!headers_reserve(to, from->count + 3)) /* some go; up to three come */
        return false;
    for (size_t i = 0; i < from->count; i++)
        if (!(OWNED[from->list[i].kind] & ANSWER) && !headers_add_field(to, &from->list[i]))
            return false;
    headers_drop_hop_by_hop(to);
    if (!headers_add_known(to, HEADER_REQUEST_ID, request_id))
        return false;
    probe = (struct coord_head){.headers = *to};
    if (!head_has_type(&probe, "text/event-stream"))
        return true;
    return add_unless_set(to, (coord_slice)COORD_SLICE("Cache-Control"), (coord_slice)COORD_SLICE("no-cache")) &&
           add_unless_set(to, (coord_slice)COORD_SLICE("X-Accel-Buffering"), (coord_slice)COORD_SLICE("no"));
}
