/* See front.h. */
#include "pipeline/front.h"

#include "http/path.h"
#include "pipeline/cors.h"
#include "pipeline/ids.h"
#include "pipeline/models.h"
#include "pipeline/worker.h"
#include "telemetry/log.h"

#include <stdio.h>

void front_answer_error(struct visit *visit, int32_t status, const char *code, const char *allow, const char *message)
{
    struct api_error error = {
        .status = status, .code = code, .message = coord_slice_of(message), .request_id = visit->id};
    struct headers headers = {.arena = exchange_arena(visit->exchange)};
    struct buffer body = {.limit = 65536};

    if (!headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("Content-Type"),
                              (coord_slice)COORD_SLICE("application/json")) ||
        !headers_add_known(&headers, HEADER_REQUEST_ID, visit->id) ||
        !cors_allow(&headers, exchange_headers(visit->exchange), visit->generation->settings) ||
        (allow && !headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("Allow"), coord_slice_of(allow))) ||
        (status == 503 &&
         !headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("Retry-After"), (coord_slice)COORD_SLICE("1"))) ||
        !api_error_body(visit->api, &error, &body) ||
        exchange_answer(visit->exchange, status, &headers, buffer_slice(&body)) != COORD_OK)
        exchange_abort(visit->exchange);
    buffer_release(&body);
}

struct visit *front_visit(struct worker *worker, struct exchange *exchange)
{
    struct arena *arena = exchange_arena(exchange);
    struct visit *visit = arena_alloc(arena, sizeof *visit);
    size_t rejected = 0;
    const struct api *api;

    if (!visit)
        return NULL;
    visit->worker = worker;
    visit->generation = worker->generation;
    visit->exchange = exchange;
    visit->path = path_clean(arena, path_of_target(exchange_target(exchange), &visit->query));
    visit->id = id_of_request(exchange_headers(exchange), arena, &rejected);
    api = api_for_path(visit->path);
    visit->api = api ? api : api_none();
    if (!visit->path.data || !visit->id.data)
        return NULL;
    if (rejected > 0)
        coord_logf(NULL, COORD_LOG_INFO, "replaced an invalid client request id of %zu bytes by %.*s", rejected,
                   COORD_FMT(visit->id));
    exchange_set_app(exchange, visit);
    return visit;
}

struct visit *front_begin(struct worker *worker, struct exchange *exchange)
{
    struct visit *visit = front_visit(worker, exchange);

    if (!visit) {
        exchange_abort(exchange);
        return NULL;
    }
    worker_hold(worker, visit->generation);
    visit->held = true;
    return visit;
}

/* 415 unless the body is as it is. */
static bool is_compressed(const struct exchange *exchange)
{
    const struct header *field = headers_first(exchange_headers(exchange), HEADER_CONTENT_ENCODING);

    return field && field->value.size > 0 && !header_name_is(field->value, "identity");
}

static void begin_request(struct visit *visit)
{
    struct exchange *exchange = visit->exchange;
    struct headers preflight = {.arena = exchange_arena(exchange)};

    if (cors_preflight(&preflight, exchange_method(exchange), exchange_headers(exchange),
                       visit->generation->settings)) {
        if (exchange_answer(exchange, 204, &preflight, (coord_slice){0}) != COORD_OK)
            exchange_abort(exchange);
        return;
    }
    if (!coord_slice_is(exchange_method(exchange), "POST")) {
        front_answer_error(visit, 405, NULL, "POST", "this path takes POST requests only");
        return;
    }
    visit->request = request_new(visit->worker, visit->generation, exchange, visit->api, visit->id);
    if (!visit->request) {
        front_answer_error(visit, 503, "overloaded", NULL, "no memory for another request");
        return;
    }
    visit->request->query = arena_copy(&visit->request->arena, visit->query);
    if (is_compressed(exchange)) {
        request_fail(visit->request, ERROR_BAD_REQUEST, 415, NULL,
                     "a compressed request body is not supported: send it without Content-Encoding");
        request_answer_failure(visit->request);
        return;
    }
    exchange_read_body(exchange);
}

static void front_head(void *context, struct exchange *exchange)
{
    struct visit *visit = front_begin(context, exchange);

    if (!visit || status_answer(visit))
        return;
    if (visit->api->id != 0)
        begin_request(visit);
    else
        passthrough_start(visit);
}

static void front_body(void *context, struct exchange *exchange)
{
    struct visit *visit = exchange_app(exchange);
    struct coord_request *request = visit->request;

    (void)context;
    if (!request_open(request) || !request_run(request))
        request_answer_failure(request);
}

static size_t front_upload(void *context, struct exchange *exchange, coord_slice piece, bool last)
{
    struct visit *visit = exchange_app(exchange);

    (void)context;
    return visit->passthrough ? passthrough_upload(visit->passthrough, piece, last) : piece.size;
}

static void front_drained(void *context, struct exchange *exchange)
{
    struct visit *visit = exchange_app(exchange);

    (void)context;
    if (visit->request)
        request_drained(visit->request);
    if (visit->passthrough)
        passthrough_drained(visit->passthrough);
}

static enum cancel_reason reason_of(enum exchange_gone gone)
{
    switch (gone) {
    case EXCHANGE_WRITE_TIMEOUT:
        return CANCEL_CLIENT_SLOW;
    case EXCHANGE_SERVER_STOPPED:
        return CANCEL_STOPPING;
    case EXCHANGE_CLIENT_CLOSED:
    case EXCHANGE_BROKEN:
        break;
    }
    return CANCEL_CLIENT_GONE;
}

static void front_gone(void *context, struct exchange *exchange, enum exchange_gone reason)
{
    struct visit *visit = exchange_app(exchange);

    (void)context;
    if (!visit)
        return;
    if (visit->request)
        request_cancel(visit->request, reason_of(reason));
    if (visit->passthrough)
        passthrough_stop(visit->passthrough);
    if (visit->models)
        models_stop(visit->models);
}

static void front_done(void *context, struct exchange *exchange, bool complete)
{
    struct visit *visit = exchange_app(exchange);

    (void)context;
    if (!visit)
        return;
    if (visit->passthrough)
        passthrough_stop(visit->passthrough);
    if (visit->models)
        models_stop(visit->models);
    if (visit->held)
        worker_let_go(visit->worker, visit->generation);
    visit->held = false;
    if (visit->request)
        request_exchange_done(visit->request, complete); /* the visit's memory goes with it */
}

static const struct {
    int32_t status;
    const char *code;
    const char *message;
} REFUSALS[] = {
    [EXCHANGE_BAD_FRAMING] = {400, "invalid_request", "the request's framing is ambiguous or malformed"},
    [EXCHANGE_BODY_TOO_LARGE] = {413, NULL, "the request body is larger than server.max_request_body_size"},
    [EXCHANGE_BODY_TIMEOUT] = {408, NULL, "the request body did not arrive within server.read_timeout"},
    [EXCHANGE_OVERLOADED] = {503, "overloaded", "too many requests are in flight; try again"},
    [EXCHANGE_HEAD_TOO_LARGE] = {502, NULL,
                                 "the worker's response head is larger than server.connection_memory allows"},
    [EXCHANGE_UPLOAD_BROKEN] = {400, "invalid_request", "the request body's framing broke off"},
};

static int32_t front_refuse(void *context, struct exchange *exchange, enum exchange_refusal why, const char *detail,
                            struct headers *headers, struct buffer *body)
{
    struct visit *visit = exchange_app(exchange);
    struct api_error error = {.status = REFUSALS[why].status, .code = REFUSALS[why].code};
    char message[256];

    if (!visit)
        visit = front_visit(context, exchange);
    snprintf(message, sizeof message, "%s%s%s", REFUSALS[why].message, detail ? ": " : "", detail ? detail : "");
    error.message = coord_slice_of(message);
    error.request_id = visit ? visit->id : (coord_slice){0};
    if (!headers_add(headers, (coord_slice)COORD_SLICE("Content-Type"), (coord_slice)COORD_SLICE("application/json")) ||
        (visit && !headers_add(headers, (coord_slice)COORD_SLICE("x-request-id"), visit->id)) ||
        (error.status == 503 &&
         !headers_add(headers, (coord_slice)COORD_SLICE("Retry-After"), (coord_slice)COORD_SLICE("1"))) ||
        !api_error_body(visit ? visit->api : api_none(), &error, body))
        body->size = 0;
    if (visit && visit->request) {
        request_fail(visit->request, error.status == 503 ? ERROR_INTERNAL : ERROR_BAD_REQUEST, error.status, error.code,
                     "%s", message);
        visit->request->answer_status = error.status;
        visit->request->bytes_in = exchange_received(exchange);
    }
    return error.status;
}

struct server_app front_app(struct worker *worker)
{
    return (struct server_app){.context = worker,
                               .on_head = front_head,
                               .on_body = front_body,
                               .on_upload = front_upload,
                               .on_drained = front_drained,
                               .on_gone = front_gone,
                               .on_done = front_done,
                               .on_refuse = front_refuse};
}

/* What the process still waits for is cut: background work and requests alike. */
void front_stop(struct worker *worker)
{
    for (struct coord_request *request = worker->live, *next; request; request = next) {
        next = request->next;
        if (!request->background) {
            request_fail(request, ERROR_INTERNAL, 503, "draining", "the coordinator is shutting down");
            request_answer_failure(request);
        }
        request_cancel(request, CANCEL_STOPPING);
    }
}
