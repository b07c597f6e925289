/* What comes in of a call's answer, by mode (see call.h). */
#include "pipeline/call.h"

#include "pipeline/cors.h"
#include "pipeline/leg_headers.h"
#include "pipeline/worker.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

enum { HOLD_LIMIT = 65536, DISCARD_LIMIT = 65536 };

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
void call_relay_head(struct coord_call *call)
{
    struct coord_request *request = call->request;
    struct headers headers;

    request->relaying = call;
    stream_watch_begin(&request->watch, call->status, &call->answer_headers,
                       request->generation->settings->response.inspect_limit);
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
    if (head->sent)
        call_forget_outgoing(call);
    if (!headers_copy(&call->answer_headers, &head->headers))
        call->answer_headers.count = 0;
    if (call->mode == CALL_RELAY)
        call_relay_head(call);
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

void call_relay_data(struct coord_call *call, coord_slice bytes)
{
    tail_note(&call->request->worker_tail, bytes);
    stream_watch_feed(&call->request->watch, bytes);
    chain_data(&call->request->chain, bytes);
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
        call_relay_data(call, bytes);
        break;
    }
}

/* True when the worker's stream shows its API's last event, or an error: what a body without length or chunks must end with. */
static bool saw_last_event(const struct coord_request *request)
{
    const char *done = request->api->done;

    return !done || request->watch.status != 0 ||
           memmem(request->worker_tail.bytes, request->worker_tail.size, done, strlen(done)) != NULL;
}

void call_relay_end(struct coord_call *call)
{
    struct coord_request *request = call->request;
    const char *words = leg_outcome_words(call->outcome);
    int32_t status = leg_outcome_status(call->outcome);

    call->relay_done = true;
    if (!call->head_seen) /* nothing was answered: the fiber makes the error */
        return;
    if (call->outcome == LEG_COMPLETE)
        stream_watch_end(&request->watch);
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
        request_answered(request) || request_stopped(request))
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
        call->record->problem = leg_outcome_words(result->outcome);
        if (!call->head_seen)
            observe_head(call);
    }
    if (repeat(call))
        return;
    call_forget_outgoing(call);
    if (call->mode == CALL_RELAY)
        call_relay_end(call);
    request_wake(request);
}

const struct leg_events call_events = {.head = on_head, .data = on_data, .end = on_end};

void call_relay_drained(struct coord_call *call)
{
    if (!call->paused)
        return;
    call->paused = false;
    if (call->leg)
        leg_resume(call->leg);
}
