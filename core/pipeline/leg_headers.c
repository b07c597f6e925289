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

static const struct {
    coord_slice name;
    unsigned where;
} OWNED[] = {
    {COORD_SLICE("host"), PIPELINE | PASSTHROUGH | STEP},
    {COORD_SLICE("content-length"), PIPELINE | PASSTHROUGH | ANSWER | STEP},
    {COORD_SLICE("transfer-encoding"), PIPELINE | PASSTHROUGH | ANSWER | STEP},
    {COORD_SLICE("trailer"), PIPELINE | PASSTHROUGH | ANSWER | STEP},
    {COORD_SLICE("expect"), PIPELINE | PASSTHROUGH | STEP},
    {COORD_SLICE("connection"), STEP},
    {COORD_SLICE("content-type"), PIPELINE},
    {COORD_SLICE("accept-encoding"), PIPELINE},
    {COORD_SLICE("prefer"), PIPELINE},
    {COORD_SLICE("cookie"), PIPELINE | CREDENTIAL},
    {COORD_SLICE("authorization"), CREDENTIAL},
    {COORD_SLICE("proxy-authorization"), PIPELINE | PASSTHROUGH | CREDENTIAL},
    {COORD_SLICE("x-request-id"), PIPELINE | PASSTHROUGH | ANSWER | STEP},
    {COORD_SLICE("x-llm-d-parent-request-id"), PIPELINE | PASSTHROUGH | ANSWER | STEP},
    {COORD_SLICE("traceparent"), PIPELINE | PASSTHROUGH | STEP},
    {COORD_SLICE("tracestate"), PIPELINE | PASSTHROUGH | STEP},
    {COORD_SLICE("x-llm-d-revision-decision-id"), PIPELINE | PASSTHROUGH | ANSWER | STEP},
    {COORD_SLICE("x-llm-d-pin-host-port"), PIPELINE | PASSTHROUGH},
    {COORD_SLICE("x-prefill-pin-host-port"), PIPELINE | PASSTHROUGH},
    {COORD_SLICE("x-peer-topology"), PIPELINE | PASSTHROUGH | ANSWER},
};

static unsigned owned(coord_slice name)
{
    for (size_t i = 0; i < sizeof OWNED / sizeof *OWNED; i++)
        if (header_name_equal(name, OWNED[i].name))
            return OWNED[i].where;
    return 0;
}

static bool listed(coord_slice name, const coord_slice *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (header_name_equal(name, list[i]))
            return true;
    return false;
}

bool leg_header_is_credential(coord_slice name) { return (owned(name) & CREDENTIAL) != 0; }

bool leg_header_is_the_cores(coord_slice name) { return (owned(name) & STEP) != 0; }

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
    for (size_t i = 0; i < from->count; i++) {
        const struct header *field = &from->list[i];

        if ((owned(field->name) & where) || is_phase_header(field->name, settings) ||
            listed(field->name, also, also_count))
            continue;
        if (!headers_add_borrowed(to, field->name, field->value))
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
    static const coord_slice name = COORD_SLICE("traceparent");
    const struct header *parent = headers_find(from, name);
    const struct header *state = headers_find(from, (coord_slice)COORD_SLICE("tracestate"));
    struct trace_context trace = {0};

    if (parent && headers_count(from, name) == 1)
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
           (tracestate.size == 0 || headers_add_borrowed(to, (coord_slice)COORD_SLICE("tracestate"), tracestate));
}

bool leg_headers_owned(struct headers *to, const struct coord_request *request, const char *phase, coord_slice id,
                       coord_slice parent)
{
    const struct gateway_settings *gateway = request->pipeline->settings->gateway;

    for (size_t i = 0; phase && i < gateway->phase_header_count; i++)
        if (!headers_add_borrowed(to, gateway->phase_headers[i], coord_slice_of(phase)))
            return false;
    if (parent.size > 0 && !headers_add_borrowed(to, (coord_slice)COORD_SLICE("x-llm-d-parent-request-id"), parent))
        return false;
    if (request->decision_id[0] && !headers_add_borrowed(to, (coord_slice)COORD_SLICE("x-llm-d-revision-decision-id"),
                                                         coord_slice_of(request->decision_id)))
        return false;
    return headers_add_borrowed(to, (coord_slice)COORD_SLICE("x-request-id"), id) &&
           leg_headers_add_trace(to, &request->trace, request->tracestate);
}

static bool add_unless_set(struct headers *headers, const char *name, const char *value)
{
    return headers_find(headers, coord_slice_of(name)) ||
           headers_add_borrowed(headers, coord_slice_of(name), coord_slice_of(value));
}

bool client_headers(struct headers *to, const struct headers *from, coord_slice request_id)
{
    struct coord_head probe;

    for (size_t i = 0; i < from->count; i++)
        if (!(owned(from->list[i].name) & ANSWER) && !headers_add(to, from->list[i].name, from->list[i].value))
            return false;
    headers_drop_hop_by_hop(to);
    if (!headers_add(to, (coord_slice)COORD_SLICE("x-request-id"), request_id))
        return false;
    probe = (struct coord_head){.headers = *to};
    if (!head_has_type(&probe, "text/event-stream"))
        return true;
    return add_unless_set(to, "Cache-Control", "no-cache") && add_unless_set(to, "X-Accel-Buffering", "no");
}
