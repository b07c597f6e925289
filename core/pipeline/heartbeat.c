/* See heartbeat.h. */
#include "pipeline/heartbeat.h"

#include "pipeline/cors.h"
#include "pipeline/leg_headers.h"
#include "pipeline/worker.h"

static bool begin_early(struct coord_request *request)
{
    struct headers given, headers;

    headers_init(&given, &request->arena);
    headers_init(&headers, &request->arena);
    if (!headers_add_borrowed(&given, (coord_slice)COORD_SLICE("Content-Type"),
                              (coord_slice)COORD_SLICE("text/event-stream; charset=utf-8")) ||
        !client_headers(&headers, &given, request->id) ||
        !cors_allow(&headers, &request->headers, request->generation->settings))
        return false;
    if (exchange_begin(request->exchange, 200, &headers, -1) != COORD_OK)
        return false;
    request->early = request->answer_begun = request->answer_events = true;
    request->answer_status = 200;
    return true;
}

static void beat(struct timer *timer)
{
    struct coord_request *request = (struct coord_request *)((char *)timer - offsetof(struct coord_request, heartbeat));

    if (!request->exchange || request->cancelled || (request->answer_begun && !request->early))
        return;
    if (!request->early && !begin_early(request))
        return;
    exchange_write(request->exchange, (coord_slice)COORD_SLICE(": ping\n"));
    reactor_arm(request->worker->reactor, timer, request->generation->settings->response.heartbeat_ns);
}

void heartbeat_start(struct coord_request *request)
{
    int64_t interval = request->generation->settings->response.heartbeat_ns;

    if (interval <= 0 || !request->stream)
        return;
    request->heartbeat.due = beat;
    reactor_arm(request->worker->reactor, &request->heartbeat, interval);
}

void heartbeat_stop(struct coord_request *request) { reactor_disarm(request->worker->reactor, &request->heartbeat); }
