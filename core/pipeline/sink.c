/* The client's side of an answer: from the end of the writer chain into the exchange, and how an answer that breaks off ends
 * (decision 53). */
#include "pipeline/call.h"

#include "pipeline/cors.h"
#include "pipeline/heartbeat.h"
#include "pipeline/worker.h"
#include "telemetry/families.h"

/* The client has had a 200 and comments: an event stream goes on from there, anything else is told in it. */
static void go_on_from_heartbeat(struct coord_request *request, const struct coord_head *head)
{
    request->early = false;
    if (head->status == 200 && coord_head_is_event_stream(head))
        return;
    request_fail(request, head->status < 500 ? ERROR_UPSTREAM_4XX : ERROR_UPSTREAM_5XX,
                 head->status >= 400 ? head->status : 502, NULL,
                 "the worker answered HTTP %d instead of an event stream", head->status);
    chain_abort(&request->chain);
    client_sink.finished(request);
}

/* The answer ends before anything of it went out. When the head was too large, the server has said 502 in our place. */
static void lose_head(struct coord_request *request, coord_status why)
{
    bool large = why == COORD_LIMIT;

    request_fail(request, ERROR_INTERNAL, large ? 502 : 500, NULL, "%s",
                 large ? "the answer's head does not fit server.connection_memory" : "memory is short");
    request->answer_status = large ? 502 : 0;
    request->answer_events = false;
    request->chain.over = true;
    request->answer_begun = request->answer_over = large;
    client_sink.finished(request);
}

static void sink_head(void *context, struct coord_head *head)
{
    struct coord_request *request = context;
    coord_status status;

    heartbeat_stop(request);
    if (request->early) {
        go_on_from_heartbeat(request, head);
        return;
    }
    request->answer_begun = true;
    request->answer_status = head->status;
    request->answer_events = coord_head_is_event_stream(head);
    if (!request->exchange)
        return;
    status = exchange_begin(request->exchange, head->status, &head->headers, head->length);
    if (status == COORD_LIMIT || status == COORD_NO_MEMORY)
        lose_head(request, status);
}

/* Times of the stream's events, as pieces: workers send one event a piece. */
static void time_events(struct coord_request *request)
{
    int64_t now = reactor_now(request->worker->reactor);
    coord_slice labels[] = {request->model_label, coord_slice_of(request->api->name)};

    if (request->gaps) {
        metric_series_add(request->gaps, (double)(now - request->last_data_ns) / 1e9);
    } else {
        coord_metric_add(families()->time_to_first_token_seconds, (double)(now - request->began_ns) / 1e9, labels);
        request->gaps = metric_series_of(families()->inter_token_latency_seconds, labels);
    }
    request->last_data_ns = now;
}

static void note_sequence(struct coord_request *request, coord_slice bytes)
{
    if (!request->sequence) {
        request->sequence = arena_alloc(&request->arena, sizeof *request->sequence);
        if (!request->sequence)
            return; /* memory is short: an end of ours begins to count anew */
        sequence_begin(request->sequence);
    }
    sequence_note(request->sequence, bytes);
}

static void note_events(struct coord_request *request, coord_slice bytes)
{
    tail_note(&request->answer_tail, bytes);
    if (request->answer_status == 200)
        time_events(request);
    if (request->api->shape == SHAPE_RESPONSES)
        note_sequence(request, bytes);
}

static void sink_data(void *context, coord_slice bytes)
{
    struct coord_request *request = context;
    size_t queued;

    if (!request->exchange || !request->answer_begun || request->answer_over)
        return;
    if (request->answer_events)
        note_events(request, bytes);
    if (request->first_byte_ns == 0)
        request->first_byte_ns = reactor_now(request->worker->reactor);
    queued = exchange_write(request->exchange, bytes);
    if (queued >= request->generation->settings->response.buffer_high && request->relaying &&
        !request->relaying->paused && request->relaying->leg) {
        request->relaying->paused = true;
        leg_pause(request->relaying->leg);
    }
}

static void sink_end(void *context)
{
    struct coord_request *request = context;

    if (request->answer_over)
        return;
    request->answer_over = true;
    if (request->exchange)
        exchange_end(request->exchange);
}

/* An event stream that stops at an event's end, for the worker and for the client, gets one error event and a clean end; anything else is cut. */
static void sink_abort(void *context)
{
    struct coord_request *request = context;
    struct buffer event = {.limit = 65536};
    struct api_error error = {.status = request->failure.status,
                              .code = request->failure.code,
                              .message = request->failure.message,
                              .request_id = request->id,
                              .response_id = coord_slice_of(request->sequence ? request->sequence->response_id : ""),
                              .sequence = request->sequence ? request->sequence->last + 1 : 0};

    if (!request->answer_begun && !request->cancelled && request->failure.class == ERROR_NONE) {
        request_fail(request, ERROR_INTERNAL, 500, NULL, "a response writer ended the answer without its head");
        request_answer_failure(request);
    }
    if (request->answer_over || !request->answer_begun)
        return;
    request->answer_over = true;
    if (!request->exchange)
        return;
    request->answer_aborted = !request->cancelled;
    if (request->answer_events && request->failure.class != ERROR_NONE &&
        request->generation->settings->response.stream_error_event && tail_at_boundary(&request->answer_tail) &&
        tail_at_boundary(&request->worker_tail) && api_error_event(request->api, &error, &event)) {
        exchange_write(request->exchange, buffer_slice(&event));
        exchange_end(request->exchange);
    } else {
        exchange_abort(request->exchange);
    }
    buffer_release(&event);
}

/* A writer ended the answer early: the leg that feeds it is cancelled, the fiber goes on. */
static void sink_finished(void *context)
{
    struct coord_request *request = context;
    struct coord_call *call = request->relaying;

    if (!call)
        return;
    call->relay_done = true;
    if (call->leg) {
        leg_cancel(call->leg);
        call->leg = NULL;
        call->ended = true;
    }
    request_wake(request);
}

const struct chain_sink client_sink = {sink_head, sink_data, sink_end, sink_abort, sink_finished};

bool answer_head(struct coord_request *request, int32_t status, struct headers *headers, int64_t length)
{
    struct coord_head *head;

    if (request_answered(request) || !cors_allow(headers, &request->headers, request->generation->settings))
        return false;
    head = arena_alloc(&request->arena, sizeof *head);
    if (!head)
        return false;
    *head = (struct coord_head){.status = status, .headers = *headers, .length = length};
    chain_head(&request->chain, head);
    return true;
}

void answer_broken(struct coord_request *request, enum error_class class, int32_t status, const char *message)
{
    request_fail(request, class, status, NULL, "%s", message);
    chain_abort(&request->chain);
}
