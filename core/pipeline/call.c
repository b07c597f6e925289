/* Running a call, on the fiber (coordinator/call.h). */
#include "pipeline/call.h"

#include "pipeline/worker.h"

enum { KEPT_BUFFER = 65536 };

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
    if (call->mode == CALL_RELAY && (call->request->cancelled || request_answered(call->request)))
        chain_abort(&call->request->chain);
    return COORD_CANCELLED;
}

/* The first answer wins: a worker's does not get into one that a step has begun. */
static coord_status begin(struct coord_call *call, enum call_mode mode)
{
    if (call->started || call->cancelled || (mode == CALL_RELAY && request_answered(call->request)))
        return COORD_STATE;
    if (request_stopped(call->request))
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
    return call_fail_transport(call);
}

coord_status coord_call_run(coord_call *call)
{
    coord_status status = begin(call, CALL_COLLECT);

    if (status != COORD_OK)
        return status;
    while (!call->ended && !request_stopped(call->request))
        request_park(call->request);
    return request_stopped(call->request) ? cancelled(call) : ended(call);
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
        if (bad || status != COORD_OK || running == 0 || request_stopped(request))
            break;
        request_park(request);
    } while (true);
    for (size_t i = 0; i < started; i++)
        if (!calls[i]->ended)
            coord_call_cancel(calls[i]);
    if (request && request_stopped(request))
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
    while (!call->head_seen && !call->ended && !request_stopped(call->request))
        request_park(call->request);
    if (request_stopped(call->request))
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

    if (request->stream && !call->relay_done)
        fiber_shed_stack();
    while (!call->relay_done && !request_stopped(request))
        request_park(request);
    request->relaying = NULL;
    if (request_stopped(request))
        return cancelled(call);
    if (!call->head_seen)
        return ended(call);
    return request->failure.class == ERROR_NONE ? COORD_DONE : COORD_FAIL;
}

coord_status coord_call_relay(coord_call *call)
{
    if (!call->head_seen || call->mode != CALL_HOLD)
        return COORD_STATE;
    if (request_stopped(call->request))
        return cancelled(call);
    if (request_answered(call->request)) {
        coord_call_cancel(call);
        return COORD_STATE;
    }
    call->mode = CALL_RELAY;
    call_relay_head(call);
    if (call->relay_done)
        return finish_relay(call);
    if (call->body.size > 0) {
        call_relay_data(call, buffer_slice(&call->body));
        buffer_release(&call->body);
    }
    if (call->ended)
        call_relay_end(call);
    else if (exchange_queued(call->request->exchange) < call->request->generation->settings->response.buffer_high)
        unpause(call);
    return finish_relay(call);
}

coord_status coord_call_proxy(coord_call *call)
{
    coord_status status = begin(call, CALL_RELAY);

    return status == COORD_OK ? finish_relay(call) : status;
}

/* What comes while the step works on it, perhaps parked, goes into the other buffer. */
static void give_out(struct coord_call *call, coord_slice *piece)
{
    struct buffer empty = call->given;

    buffer_clear(&empty, KEPT_BUFFER);
    call->given = call->body;
    call->body = empty;
    *piece = buffer_slice(&call->given);
}

coord_status coord_call_read(coord_call *call, coord_slice *piece)
{
    if (!call->head_seen || (call->mode != CALL_HOLD && call->mode != CALL_READ))
        return COORD_STATE;
    call->mode = CALL_READ;
    unpause(call);
    while (call->body.size == 0 && !call->ended && !request_stopped(call->request))
        request_park(call->request);
    if (request_stopped(call->request))
        return cancelled(call);
    if (call->body.size > 0) {
        give_out(call, piece);
        return COORD_OK;
    }
    return call->outcome == LEG_COMPLETE ? COORD_END : call_fail_transport(call);
}

coord_status coord_call_discard(coord_call *call)
{
    if (!call->head_seen || call->mode == CALL_RELAY)
        return COORD_STATE;
    buffer_release(&call->body);
    buffer_release(&call->given);
    call->mode = CALL_DISCARD;
    unpause(call);
    return request_stopped(call->request) ? cancelled(call) : COORD_OK;
}
