/* Starting a call's leg: its target, headers, body and times (see call.h). */
#include "pipeline/call.h"

#include "pipeline/ids.h"
#include "pipeline/leg_headers.h"
#include "pipeline/worker.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

enum { FEW_PIECES = 16 };

bool call_has_phase(const struct coord_call *call, const char *phase)
{
    return call->phase && strcmp(call->phase, phase) == 0;
}

static bool relays(const struct coord_call *call) { return call->mode == CALL_RELAY || call->mode == CALL_HOLD; }

/* Decision 40. */
static bool add_accept_encoding(struct coord_call *call, struct headers *headers)
{
    const struct coord_request *request = call->request;

    if (headers_first(headers, HEADER_ACCEPT_ENCODING))
        return true;
    if (!relays(call) || chain_reads_body(&request->chain))
        return headers_add_known(headers, HEADER_ACCEPT_ENCODING, (coord_slice)COORD_SLICE("identity"));
    for (size_t i = 0; i < request->headers.count; i++) {
        const struct header *field = &request->headers.list[i];

        if (field->kind == HEADER_ACCEPT_ENCODING && !headers_add_known(headers, field->kind, field->value))
            return false;
    }
    return true;
}

/* What prefill said of its place goes with the decode leg. */
static bool add_topology(struct coord_call *call, struct headers *headers)
{
    coord_slice topology = call->request->peer_topology;

    return topology.size == 0 || !call_has_phase(call, COORD_PHASE_DECODE) ||
           headers_add_known(headers, HEADER_PEER_TOPOLOGY, topology);
}

/* A fresh id for a repeat or a fan-out part; the request's own otherwise. */
static coord_slice leg_id(struct coord_call *call)
{
    char text[ID_SIZE + 1];

    if (call->attempts == 1)
        return call->request->id;
    id_fresh(text);
    return coord_request_copy(call->request, (coord_slice){text, ID_SIZE});
}

static coord_slice leg_target(struct coord_call *call, const struct upstream *upstream)
{
    coord_slice prefix = upstream_prefix(upstream), path = call->out->path, query = call->request->query;
    bool with_query = call->out->keep_query && query.size > 0;
    size_t size = prefix.size + path.size + (with_query ? 1 + query.size : 0);
    char *target;

    if (size == path.size)
        return path;
    target = arena_alloc(&call->out->memory, size + 1);
    if (!target)
        return (coord_slice){0};
    if (prefix.size > 0)
        memcpy(target, prefix.data, prefix.size);
    memcpy(target + prefix.size, path.data, path.size);
    if (with_query) {
        target[prefix.size + path.size] = memchr(path.data, '?', path.size) ? '&' : '?';
        memcpy(target + prefix.size + path.size + 1, query.data, query.size);
    }
    return (coord_slice){target, size};
}

/* Most documents have few pieces: those are asked for once. */
static coord_slice *document_pieces(struct outgoing *out, size_t *count)
{
    coord_slice few[FEW_PIECES], *pieces;

    *count = coord_document_pieces(out->document, few, NULL, FEW_PIECES);
    pieces = arena_alloc(&out->memory, *count * sizeof *pieces);
    if (!pieces)
        return NULL;
    if (*count <= FEW_PIECES)
        memcpy(pieces, few, *count * sizeof *pieces);
    else
        coord_document_pieces(out->document, pieces, NULL, *count);
    return pieces;
}

static bool leg_body(struct outgoing *out, struct leg_request *leg)
{
    leg->has_body = out->has_body;
    if (out->document) {
        leg->pieces = document_pieces(out, &leg->piece_count);
    } else {
        leg->pieces = &out->text;
        leg->piece_count = out->text.size > 0;
    }
    for (size_t i = 0; leg->pieces && i < leg->piece_count; i++)
        leg->body_size += leg->pieces[i].size;
    return leg->pieces != NULL;
}

static void leg_timeouts(const struct coord_call *call, struct leg_request *leg)
{
    const struct gateway_settings *gateway = call->request->pipeline->settings->gateway;
    int64_t total = call->timeout_ns ? call->timeout_ns : call->upstream->timeout_ns;

    leg->total_timeout_ns = total > 0 ? total : call->gateway ? gateway->total_timeout_ns : 0;
    leg->idle_timeout_ns = gateway->idle_timeout_ns;
    if (relays(call) && !call->request->stream)
        leg->head_timeout_ns = gateway->response_timeout_ns;
    else if (call->gateway || total <= 0)
        leg->head_timeout_ns = gateway->timeout_ns;
}

static void note_phase(struct coord_call *call)
{
    struct coord_request *request = call->request;

    request->sent_prefill |= call_has_phase(call, COORD_PHASE_PREFILL);
    request->sent_encode |= call_has_phase(call, COORD_PHASE_ENCODE);
    request->sent_decode |= call_has_phase(call, COORD_PHASE_DECODE);
}

static coord_status short_of_memory(struct coord_call *call)
{
    call->ended = true;
    return request_fail(call->request, ERROR_INTERNAL, 500, NULL, "memory is short");
}

/* Not inlined: what it needs of the stack would stay there while the fiber waits for the answer. */
__attribute__((noinline)) coord_status call_start(struct coord_call *call)
{
    struct coord_request *request = call->request;
    struct worker *worker = request->worker;
    struct upstream *upstream = generation_upstream(request->generation, worker->index, call->upstream);
    struct leg_request leg = {.method = call->out->method, .fresh = call->attempts > 0};
    struct headers headers = call->out->headers; /* what is added below is this attempt's, and not the call's */
    coord_slice label = coord_slice_of(call->name);
    void *memory = arena_alloc(&request->arena, leg_size());

    call->started = true;
    call->attempts++;
    call->leg_id = leg_id(call);
    leg.target = leg_target(call, upstream);
    if (!call->record)
        call->record = request_leg(request, call->name);
    if (!memory || !call->record || !leg.target.data || !call->leg_id.data || !leg_body(call->out, &leg) ||
        !add_accept_encoding(call, &headers) || !add_topology(call, &headers) ||
        !leg_headers_owned(&headers, request, call->phase, call->leg_id,
                           call->attempts > 1 ? request->id : (coord_slice){0}))
        return short_of_memory(call);
    leg.headers = headers.list;
    leg.header_count = headers.count;
    leg_timeouts(call, &leg);
    note_phase(call);
    coord_metric_add(families()->upstream_request_total, 1, &label);
    call->record->began_ns = reactor_now_fresh(worker->reactor);
    if (coord_log_enabled(COORD_LOG_DEBUG))
        coord_log(request, COORD_LOG_DEBUG, "leg",
                  (coord_field[]){LOG_TEXT_FIELD("leg", label), LOG_TEXT_FIELD("target", leg.target),
                                  LOG_INT_FIELD("body_bytes", leg.body_size), LOG_INT_FIELD("attempt", call->attempts),
                                  LOG_TEXT_FIELD("id", call->leg_id)},
                  5);
    call->leg = leg_start(memory, upstream, &leg, &call_events, call);
    return call->leg ? COORD_OK : short_of_memory(call); /* a leg that never began tells nobody of its end */
}
