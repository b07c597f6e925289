/* See call.h. Filling and running are here; what happens to the bytes by mode, too. */
#include "pipeline/call.h"

#include "pipeline/ids.h"
#include "pipeline/leg_headers.h"
#include "pipeline/worker.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <assert.h>
#include <stdio.h>

enum { HOLD_LIMIT = 65536, DISCARD_LIMIT = 65536, ERROR_BODY_LIMIT = 8192, MAX_PIECES = 64 };

/* ---- Filling ---- */

static struct coord_call *call_new(struct coord_request *request, const char *name)
{
    struct coord_call *call = arena_alloc(&request->arena, sizeof *call);

    if (!call) {
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
        return NULL;
    }
    call->request = request;
    call->name = name;
    call->method = coord_slice_of("POST");
    call->path = request->path;
    call->limit = 4 * request->generation->settings->response.inspect_limit;
    headers_init(&call->headers, &request->arena);
    headers_init(&call->answer_headers, &request->arena);
    call->next_of_request = request->calls;
    request->calls = call;
    return call;
}

static bool borrow_headers(struct coord_call *call, const struct headers *from, bool credentials)
{
    for (size_t i = 0; i < from->count; i++)
        if ((credentials || !leg_header_is_credential(from->list[i].name)) &&
            !headers_add_borrowed(&call->headers, from->list[i].name, from->list[i].value))
            return false;
    return true;
}

coord_call *coord_call_gateway_new(coord_request *request, const char *name, const char *phase)
{
    struct coord_call *call = call_new(request, name);

    if (!call)
        return NULL;
    call->gateway = true;
    call->phase = phase;
    call->upstream = request->generation->gateway;
    if (!leg_headers_base(request) || !borrow_headers(call, &request->base, true) ||
        !borrow_headers(call, &request->relayed, true)) {
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
        return NULL;
    }
    return call;
}

coord_call *coord_call_upstream_new(coord_request *request, const char *name, coord_upstream *upstream,
                                    bool forward_headers)
{
    struct coord_call *call = call_new(request, name);

    if (!call)
        return NULL;
    call->upstream = upstream;
    if (forward_headers && (!leg_headers_base(request) || !borrow_headers(call, &request->base, false))) {
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
        return NULL;
    }
    return call;
}

coord_status coord_call_set_method(coord_call *call, const char *method)
{
    if (call->started)
        return COORD_STATE;
    if (!header_name_valid(coord_slice_of(method)))
        return COORD_INVALID;
    call->method = coord_request_copy(call->request, coord_slice_of(method));
    return call->method.data ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_call_set_path(coord_call *call, coord_slice path)
{
    if (call->started)
        return COORD_STATE;
    if (path.size == 0 || path.data[0] != '/')
        return COORD_INVALID;
    for (size_t i = 0; i < path.size; i++)
        if ((unsigned char)path.data[i] <= ' ' || path.data[i] == 0x7f)
            return COORD_INVALID;
    call->path = coord_request_copy(call->request, path);
    return call->path.data ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_call_keep_query(coord_call *call)
{
    if (call->started)
        return COORD_STATE;
    call->keep_query = true;
    return COORD_OK;
}

coord_status coord_call_set_header(coord_call *call, const char *name, coord_slice value)
{
    if (call->started)
        return COORD_STATE;
    if (!header_name_valid(coord_slice_of(name)) || !header_value_valid(value) ||
        leg_header_is_the_cores(coord_slice_of(name)))
        return COORD_INVALID;
    return headers_set(&call->headers, coord_slice_of(name), value) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_call_remove_header(coord_call *call, const char *name)
{
    if (call->started)
        return COORD_STATE;
    headers_remove(&call->headers, coord_slice_of(name));
    return COORD_OK;
}

static coord_status set_content_type(coord_call *call, const char *type)
{
    return headers_set(&call->headers, (coord_slice)COORD_SLICE("content-type"), coord_slice_of(type))
               ? COORD_OK
               : COORD_NO_MEMORY;
}

coord_status coord_call_set_body(coord_call *call, coord_document *document)
{
    if (call->started)
        return COORD_STATE;
    coord_document_free(call->document);
    call->document = coord_document_clone_new(document);
    call->has_body = true;
    return call->document ? set_content_type(call, "application/json") : COORD_NO_MEMORY;
}

coord_status coord_call_set_text(coord_call *call, coord_slice text, const char *content_type)
{
    if (call->started)
        return COORD_STATE;
    call->text = coord_request_copy(call->request, text);
    call->has_body = true;
    return call->text.data ? set_content_type(call, content_type) : COORD_NO_MEMORY;
}

coord_status coord_call_set_timeout(coord_call *call, int64_t nanoseconds)
{
    call->timeout_ns = nanoseconds;
    return call->started ? COORD_STATE : COORD_OK;
}

coord_status coord_call_set_limit(coord_call *call, size_t bytes)
{
    call->limit = bytes;
    return call->started ? COORD_STATE : COORD_OK;
}

coord_status coord_call_allow_repeat(coord_call *call)
{
    call->may_repeat = true;
    return COORD_OK;
}

coord_status coord_call_keep_failure(coord_call *call)
{
    call->keep_failure = true;
    return COORD_OK;
}

coord_status coord_call_capture_headers(coord_call *call)
{
    call->capture = true;
    return COORD_OK;
}

/* ---- Starting ---- */

/* What each way of not getting an answer means to the client (decision 66). */
static const struct {
    int32_t status;
    const char *words;
} OUTCOMES[] = {
    [LEG_COMPLETE] = {0, ""},
    [LEG_UNRESOLVED] = {503, "its name has no address"},
    [LEG_REFUSED] = {503, "it refused the connection"},
    [LEG_CONNECT_TIMEOUT] = {504, "no connection in time (gateway.connect_timeout)"},
    [LEG_HEAD_TIMEOUT] = {504, "no answer in time (gateway.timeout, gateway.response_timeout)"},
    [LEG_IDLE_TIMEOUT] = {504, "it fell silent in the middle of its answer (gateway.idle_timeout)"},
    [LEG_TOTAL_TIMEOUT] = {504, "the call took too long"},
    [LEG_NO_ANSWER] = {502, "it closed the connection without an answer"},
    [LEG_BROKEN] = {502, "its answer broke off or is not HTTP"},
    [LEG_TLS] = {502, "the TLS handshake failed"},
    [LEG_INTERNAL] = {500, "the call could not be made"},
};

static coord_status fail_transport(struct coord_call *call)
{
    struct coord_request *request = call->request;
    int32_t status = OUTCOMES[call->outcome].status;
    enum error_class class = status == 500 ? ERROR_INTERNAL : ERROR_UPSTREAM_TRANSPORT;

    request_fail(request, class, status, NULL, "%s: %s", call->name, OUTCOMES[call->outcome].words);
    if (!request->failure.cause)
        request->failure.cause = call->detail;
    if (status == 503 && request->failure.headers.count == 0 &&
        !headers_add_borrowed(&request->failure.headers, (coord_slice)COORD_SLICE("Retry-After"),
                              (coord_slice)COORD_SLICE("1")))
        return COORD_FAIL;
    return COORD_FAIL;
}

static bool is_phase(const struct coord_call *call, const char *phase)
{
    return call->phase && strcmp(call->phase, phase) == 0;
}

static bool relays(const struct coord_call *call) { return call->mode == CALL_RELAY || call->mode == CALL_HOLD; }

/* Decision 40. */
static bool add_accept_encoding(struct coord_call *call, struct headers *headers)
{
    static const coord_slice name = COORD_SLICE("accept-encoding");
    const struct coord_request *request = call->request;

    if (headers_find(headers, name))
        return true;
    if (!relays(call) || chain_reads_body(&request->chain))
        return headers_add_borrowed(headers, name, (coord_slice)COORD_SLICE("identity"));
    for (size_t i = 0; i < request->headers.count; i++)
        if (header_name_equal(request->headers.list[i].name, name) &&
            !headers_add_borrowed(headers, name, request->headers.list[i].value))
            return false;
    return true;
}

/* What prefill said of its place goes with the decode leg. */
static bool add_topology(struct coord_call *call, struct headers *headers)
{
    coord_slice topology = call->request->peer_topology;

    return topology.size == 0 || !is_phase(call, COORD_PHASE_DECODE) ||
           headers_add_borrowed(headers, (coord_slice)COORD_SLICE("x-peer-topology"), topology);
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

static coord_slice leg_target(const struct coord_call *call, const struct upstream *upstream)
{
    struct coord_request *request = call->request;
    coord_slice prefix = upstream_prefix(upstream);
    bool query = call->keep_query && request->query.size > 0;
    size_t size = prefix.size + call->path.size + (query ? 1 + request->query.size : 0);
    char *target;

    if (size == call->path.size)
        return call->path;
    target = arena_alloc(&request->arena, size + 1);
    if (!target)
        return (coord_slice){0};
    if (prefix.size > 0)
        memcpy(target, prefix.data, prefix.size);
    memcpy(target + prefix.size, call->path.data, call->path.size);
    if (query) {
        target[prefix.size + call->path.size] = '?';
        memcpy(target + prefix.size + call->path.size + 1, request->query.data, request->query.size);
    }
    return (coord_slice){target, size};
}

static bool leg_body(struct coord_call *call, struct leg_request *leg)
{
    struct arena *arena = &call->request->arena;
    coord_slice *pieces;

    leg->has_body = call->has_body;
    if (!call->document) {
        pieces = arena_alloc(arena, sizeof *pieces);
        if (!pieces)
            return false;
        *pieces = call->text;
        leg->piece_count = call->text.size > 0;
        leg->body_size = call->text.size;
        leg->pieces = pieces;
        return true;
    }
    leg->piece_count = coord_document_pieces(call->document, NULL, NULL, 0);
    pieces = arena_alloc(arena, leg->piece_count * sizeof *pieces);
    if (!pieces)
        return false;
    coord_document_pieces(call->document, pieces, NULL, leg->piece_count);
    leg->pieces = pieces;
    leg->body_size = coord_document_size(call->document);
    return true;
}

static void leg_timeouts(const struct coord_call *call, struct leg_request *leg)
{
    const struct settings *settings = call->request->generation->settings;
    int64_t total = call->timeout_ns ? call->timeout_ns : call->upstream->timeout_ns;

    leg->total_timeout_ns = total > 0 ? total : call->gateway ? settings->gateway.total_timeout_ns : 0;
    leg->idle_timeout_ns = settings->gateway.idle_timeout_ns;
    if (relays(call) && !call->request->stream)
        leg->head_timeout_ns = settings->gateway.response_timeout_ns;
    else if (call->gateway || total <= 0)
        leg->head_timeout_ns = settings->gateway.timeout_ns;
}

static void note_phase(struct coord_call *call)
{
    struct coord_request *request = call->request;

    request->sent_prefill |= is_phase(call, COORD_PHASE_PREFILL);
    request->sent_encode |= is_phase(call, COORD_PHASE_ENCODE);
    request->sent_decode |= is_phase(call, COORD_PHASE_DECODE);
}

static const struct leg_events EVENTS;

coord_status call_start(struct coord_call *call)
{
    struct coord_request *request = call->request;
    struct worker *worker = request->worker;
    struct upstream *upstream = generation_upstream(request->generation, worker->index, call->upstream);
    struct leg_request leg = {.method = call->method, .fresh = call->attempts > 0};
    struct headers headers;
    coord_slice label = coord_slice_of(call->name);
    void *memory = arena_alloc(&request->arena, leg_size());

    call->started = true;
    call->attempts++;
    call->leg_id = leg_id(call);
    leg.target = leg_target(call, upstream);
    headers_init(&headers, &request->arena);
    if (!call->record)
        call->record = request_leg(request, call->name);
    if (!memory || !call->record || !leg.target.data || !call->leg_id.data || !leg_body(call, &leg) ||
        !headers_copy(&headers, &call->headers) || !add_accept_encoding(call, &headers) ||
        !add_topology(call, &headers) ||
        !leg_headers_owned(&headers, request, call->phase, call->leg_id,
                           call->attempts > 1 ? request->id : (coord_slice){0})) {
        call->ended = true;
        return request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
    }
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
    call->leg = leg_start(memory, upstream, &leg, &EVENTS, call);
    return COORD_OK;
}

/* ---- What comes in ---- */

static void observe_head(struct coord_call *call)
{
    struct reactor *reactor = call->request->worker->reactor;
    coord_slice label = coord_slice_of(call->name);
    double seconds;

    call->record->head_ns = reactor_now(reactor);
    seconds = (double)(call->record->head_ns - call->record->began_ns) / 1e9;
    coord_metric_add(families()->upstream_request_duration_seconds, seconds > 0 ? seconds : 0, &label);
}

static void cut_leg(struct coord_call *call)
{
    if (call->leg)
        leg_cancel(call->leg);
    call->leg = NULL;
    call->ended = true;
    call->record->ended_ns = reactor_now(call->request->worker->reactor);
    request_wake(call->request);
}

/* The client's request is bound to this answer from now on. */
static void relay_head(struct coord_call *call)
{
    struct coord_request *request = call->request;
    struct headers headers;

    request->relaying = call;
    headers_init(&headers, &request->arena);
    if (client_headers(&headers, &call->answer_headers, request->id) &&
        answer_head(request, call->status, &headers, call->answer_length))
        return;
    request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
    call->relay_done = true;
    cut_leg(call);
}

static void on_head(struct leg *leg, const struct leg_head *head)
{
    struct coord_call *call = leg_owner(leg);

    call->head_seen = true;
    call->status = head->status;
    call->answer_length = head->length;
    call->record->status = head->status;
    observe_head(call);
    if (!headers_copy(&call->answer_headers, &head->headers))
        call->answer_headers.count = 0;
    if (call->mode == CALL_RELAY)
        relay_head(call);
    else if (call->mode == CALL_HOLD)
        request_wake(call->request);
}

static void collect(struct coord_call *call, coord_slice bytes)
{
    if (buffer_append_slice(&call->body, bytes))
        return;
    call->too_large = true;
    call->record->problem = "answer too large";
    cut_leg(call);
}

static void hold(struct coord_call *call, coord_slice bytes)
{
    call->body.limit = 0;
    if (!buffer_append_slice(&call->body, bytes)) {
        call->outcome = LEG_INTERNAL;
        cut_leg(call);
        return;
    }
    if (call->body.size >= HOLD_LIMIT && !call->paused && call->leg) {
        call->paused = true;
        leg_pause(call->leg);
    }
    if (call->mode == CALL_READ)
        request_wake(call->request);
}

static void discard(struct coord_call *call, coord_slice bytes)
{
    call->discarded += bytes.size;
    if (call->discarded > DISCARD_LIMIT)
        cut_leg(call);
}

static void on_data(struct leg *leg, coord_slice bytes)
{
    struct coord_call *call = leg_owner(leg);

    switch (call->mode) {
    case CALL_COLLECT:
        collect(call, bytes);
        break;
    case CALL_HOLD:
    case CALL_READ:
        hold(call, bytes);
        break;
    case CALL_DISCARD:
        discard(call, bytes);
        break;
    case CALL_RELAY:
        tail_note(&call->request->worker_tail, bytes);
        chain_data(&call->request->chain, bytes);
        break;
    }
}

/* True when the worker's stream shows its API's last event: what a body without length or chunks must end with. */
static bool saw_last_event(const struct coord_request *request)
{
    const char *done = request->api->done;

    return !done || memmem(request->worker_tail.bytes, request->worker_tail.size, done, strlen(done)) != NULL;
}

static void relay_end(struct coord_call *call)
{
    struct coord_request *request = call->request;
    const char *words = OUTCOMES[call->outcome].words;
    int32_t status = OUTCOMES[call->outcome].status;

    call->relay_done = true;
    if (!call->head_seen) /* nothing was answered: the fiber makes the error */
        return;
    if (call->outcome == LEG_COMPLETE && call->close_delimited && request->answer_events && call->status < 300 &&
        !saw_last_event(request)) {
        words = "the stream ended without its last event";
        status = 502;
    }
    if (status == 0) {
        chain_end(&request->chain);
        return;
    }
    call->record->problem = words;
    answer_broken(request, ERROR_UPSTREAM_TRANSPORT, status,
                  arena_printf(&request->arena, "%s: %s", call->name, words));
}

/* Decision 38. */
static bool repeat(struct coord_call *call)
{
    struct coord_request *request = call->request;

    if (!call->may_repeat || call->attempts > 1 || call->outcome != LEG_NO_ANSWER || call->head_seen ||
        request->answer_begun || request->cancelled)
        return false;
    coord_log(request, COORD_LOG_INFO, "leg repeated on a fresh connection: the worker closed without an answer",
              (coord_field[]){LOG_TEXT_FIELD("leg", coord_slice_of(call->name)),
                              LOG_TEXT_FIELD("detail", coord_slice_of(call->detail ? call->detail : ""))},
              2);
    call->ended = false;
    call->outcome = LEG_COMPLETE;
    return call_start(call) == COORD_OK;
}

static void on_end(struct leg *leg, const struct leg_result *result)
{
    struct coord_call *call = leg_owner(leg);
    struct coord_request *request = call->request;

    call->leg = NULL;
    call->ended = true;
    call->outcome = result->outcome;
    call->close_delimited = result->close_delimited;
    call->record->ended_ns = reactor_now(request->worker->reactor);
    if (result->outcome != LEG_COMPLETE) {
        call->detail = result->detail ? arena_printf(&request->arena, "%s", result->detail) : NULL;
        call->record->problem = OUTCOMES[result->outcome].words;
        if (!call->head_seen)
            observe_head(call);
    }
    if (repeat(call))
        return;
    if (call->mode == CALL_RELAY)
        relay_end(call);
    request_wake(request);
}

static const struct leg_events EVENTS = {.head = on_head, .data = on_data, .end = on_end};

void call_relay_drained(struct coord_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    if (call->leg)
        leg_resume(call->leg);
}

/* ---- Running, on the fiber ---- */

void coord_call_cancel(coord_call *call)
{
    if (call->cancelled)
        return;
    call->cancelled = true;
    if (call->leg) {
        leg_cancel(call->leg);
        call->leg = NULL;
        call->ended = true;
        call->record->ended_ns = reactor_now(call->request->worker->reactor);
        call->record->problem = "cancelled";
    }
}

static coord_status cancelled(struct coord_call *call)
{
    coord_call_cancel(call);
    if (call->mode == CALL_RELAY)
        chain_abort(&call->request->chain);
    return COORD_CANCELLED;
}

/* The first answer wins: a worker's does not get into one that a step has begun. */
static bool is_answered(const struct coord_request *request)
{
    return request->answer_begun || request->chain.head_entered;
}

static coord_status begin(struct coord_call *call, enum call_mode mode)
{
    if (call->started || (mode == CALL_RELAY && is_answered(call->request)))
        return COORD_STATE;
    if (call->request->cancelled)
        return COORD_CANCELLED;
    call->mode = mode;
    call->body.limit = call->limit;
    return call_start(call);
}

/* After the end of a leg whose answer is in memory. */
static coord_status ended(struct coord_call *call)
{
    if (call->too_large)
        return coord_call_fail_answer(call, "more than %zu bytes", call->limit);
    if (call->outcome == LEG_COMPLETE)
        return COORD_OK;
    if (call->keep_failure) {
        call->status = 0;
        return COORD_OK;
    }
    return fail_transport(call);
}

coord_status coord_call_run(coord_call *call)
{
    coord_status status = begin(call, CALL_COLLECT);

    if (status != COORD_OK)
        return status;
    while (!call->ended && !call->request->cancelled)
        request_park(call->request);
    return call->request->cancelled ? cancelled(call) : ended(call);
}

static bool finished_badly(struct coord_call *call)
{
    return call->ended && (call->outcome != LEG_COMPLETE || call->too_large || call->status != 200);
}

coord_status coord_calls_run(coord_call *const *calls, size_t count, uint32_t parallel)
{
    coord_request *request = count > 0 ? calls[0]->request : NULL;
    size_t started = 0, running;
    struct coord_call *bad = NULL;
    coord_status status = COORD_OK;

    do {
        running = 0;
        for (size_t i = 0; i < started; i++) {
            running += !calls[i]->ended;
            if (!bad && finished_badly(calls[i]))
                bad = calls[i];
        }
        while (!bad && status == COORD_OK && started < count && running < (parallel ? parallel : 1)) {
            status = begin(calls[started], CALL_COLLECT);
            running += status == COORD_OK;
            started++;
        }
        if (bad || status != COORD_OK || running == 0 || request->cancelled)
            break;
        request_park(request);
    } while (true);
    for (size_t i = 0; i < started; i++)
        if (!calls[i]->ended)
            coord_call_cancel(calls[i]);
    if (request && request->cancelled)
        return COORD_CANCELLED;
    if (status != COORD_OK || !bad)
        return status;
    status = ended(bad);
    return status == COORD_OK ? coord_call_require_ok(bad) : status;
}

coord_status coord_call_head(coord_call *call)
{
    coord_status status = begin(call, CALL_HOLD);

    if (status != COORD_OK)
        return status;
    while (!call->head_seen && !call->ended && !call->request->cancelled)
        request_park(call->request);
    if (call->request->cancelled)
        return cancelled(call);
    return call->head_seen ? COORD_OK : ended(call);
}

static void unpause(struct coord_call *call)
{
    if (call->paused && call->leg) {
        call->paused = false;
        leg_resume(call->leg);
    }
}

static coord_status finish_relay(struct coord_call *call)
{
    struct coord_request *request = call->request;

    while (!call->relay_done && !request->cancelled)
        request_park(request);
    request->relaying = NULL;
    if (request->cancelled)
        return cancelled(call);
    if (!call->head_seen)
        return ended(call);
    return request->failure.class == ERROR_NONE ? COORD_DONE : COORD_FAIL;
}

coord_status coord_call_relay(coord_call *call)
{
    if (!call->head_seen || call->mode != CALL_HOLD)
        return COORD_STATE;
    if (call->request->cancelled)
        return cancelled(call);
    if (is_answered(call->request)) {
        coord_call_cancel(call);
        return COORD_STATE;
    }
    call->mode = CALL_RELAY;
    relay_head(call);
    if (call->relay_done)
        return finish_relay(call);
    if (call->body.size > 0) {
        tail_note(&call->request->worker_tail, buffer_slice(&call->body));
        chain_data(&call->request->chain, buffer_slice(&call->body));
        buffer_release(&call->body);
    }
    if (call->ended)
        relay_end(call);
    else if (exchange_queued(call->request->exchange) < call->request->generation->settings->response.buffer_high)
        unpause(call);
    return finish_relay(call);
}

coord_status coord_call_proxy(coord_call *call)
{
    coord_status status = begin(call, CALL_RELAY);

    return status == COORD_OK ? finish_relay(call) : status;
}

coord_status coord_call_read(coord_call *call, coord_slice *piece)
{
    if (!call->head_seen || (call->mode != CALL_HOLD && call->mode != CALL_READ))
        return COORD_STATE;
    if (call->mode == CALL_READ) /* what was given out last time */
        buffer_clear(&call->body, HOLD_LIMIT);
    call->mode = CALL_READ;
    unpause(call);
    while (call->body.size == 0 && !call->ended && !call->request->cancelled)
        request_park(call->request);
    if (call->request->cancelled)
        return cancelled(call);
    *piece = buffer_slice(&call->body);
    if (piece->size > 0)
        return COORD_OK;
    return call->outcome == LEG_COMPLETE ? COORD_END : fail_transport(call);
}

coord_status coord_call_discard(coord_call *call)
{
    if (!call->head_seen || call->mode == CALL_RELAY)
        return COORD_STATE;
    buffer_release(&call->body);
    call->mode = CALL_DISCARD;
    unpause(call);
    while (!call->ended && !call->request->cancelled)
        request_park(call->request);
    return call->request->cancelled ? cancelled(call) : COORD_OK;
}

/* ---- What came ---- */

int32_t coord_call_status(const coord_call *call) { return call->status; }

coord_slice coord_call_body(const coord_call *call) { return buffer_slice(&call->body); }

coord_status coord_call_header(const coord_call *call, const char *name, coord_slice *value)
{
    const struct header *field = headers_find(&call->answer_headers, coord_slice_of(name));

    if (!field)
        return COORD_ABSENT;
    *value = field->value;
    return COORD_OK;
}

coord_document *coord_call_document(coord_call *call)
{
    if (!call->answer_tried) {
        call->answer_tried = true;
        call->answer = coord_document_parse_new(buffer_slice(&call->body), NULL, NULL);
    }
    return call->answer;
}

coord_status coord_call_fail_answer(coord_call *call, const char *format, ...)
{
    char what[MESSAGE_LIMIT];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(what, sizeof what, format, arguments) < 0)
        what[0] = '\0';
    va_end(arguments);
    return request_fail(call->request, ERROR_UPSTREAM_5XX, 502, NULL, "%s answered with something unusable: %s",
                        call->name, what);
}

/* A worker's error body goes to the client when it is a JSON object with an error in it and small. */
static bool is_error_object(struct coord_call *call)
{
    coord_document *answer = call->body.size <= ERROR_BODY_LIMIT ? coord_call_document(call) : NULL;

    return answer && (coord_document_type(answer, "/error") == COORD_JSON_OBJECT ||
                      coord_document_type(answer, "/error") == COORD_JSON_STRING ||
                      coord_document_type(answer, "/message") == COORD_JSON_STRING ||
                      coord_document_type(answer, "/detail") != COORD_JSON_ABSENT);
}

static bool pass_header(struct coord_call *call, const char *name)
{
    coord_slice value;

    return coord_call_header(call, name, &value) != COORD_OK ||
           headers_add(&call->request->failure.headers, coord_slice_of(name), value);
}

/* Captures the first value of each listed name (pipeline.forward_response_headers) for the legs to come. */
static bool capture_headers(struct coord_call *call)
{
    static const coord_slice topology = COORD_SLICE("x-peer-topology");
    struct coord_request *request = call->request;
    const struct settings *settings = request->generation->settings;
    const struct header *peer =
        is_phase(call, COORD_PHASE_PREFILL) ? headers_find(&call->answer_headers, topology) : NULL;

    if (peer && peer->value.size > 0)
        request->peer_topology = peer->value;

    for (size_t i = 0; i < settings->pipeline.forward_response_header_count; i++) {
        const struct header *field =
            headers_find(&call->answer_headers, settings->pipeline.forward_response_headers[i]);

        if (field && field->value.size > 0 &&
            !headers_set(&request->relayed, settings->pipeline.forward_response_headers[i], field->value))
            return false;
    }
    return true;
}

coord_status coord_call_require_ok(coord_call *call)
{
    struct coord_request *request = call->request;
    int32_t status = call->status;
    bool passed = (status >= 400 && status < 500) || status == 503;

    if (status == 0)
        return fail_transport(call);
    if (status == 200) {
        if (call->capture && !capture_headers(call))
            return request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
        return COORD_OK;
    }
    if (request->failure.class != ERROR_NONE)
        return COORD_FAIL;
    request_fail(request,
                 status >= 400 && status < 500 ? ERROR_UPSTREAM_4XX
                 : status >= 500               ? ERROR_UPSTREAM_5XX
                                               : ERROR_INTERNAL,
                 passed ? status : 502, NULL, "%s %s HTTP %d", call->name,
                 status >= 400 && status < 500 ? "rejected the request:" : "answered", status);
    if (passed && (!pass_header(call, "Retry-After") || !pass_header(call, "WWW-Authenticate")))
        return COORD_FAIL;
    if (passed && status != 503 && is_error_object(call))
        request->failure.body = buffer_slice(&call->body);
    return COORD_FAIL;
}

void call_release(struct coord_call *call)
{
    coord_call_cancel(call);
    coord_document_free(call->document);
    coord_document_free(call->answer);
    buffer_release(&call->body);
}
