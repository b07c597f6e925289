/* See request.h. Making, opening, failing and finishing a request; running it is the executor's. */
#include "pipeline/request.h"

#include "json/members.h"
#include "pipeline/call.h"
#include "pipeline/composition.h"
#include "pipeline/cors.h"
#include "pipeline/executor.h"
#include "pipeline/ids.h"
#include "pipeline/leg_headers.h"
#include "pipeline/stateful.h"
#include "pipeline/witness.h"
#include "pipeline/worker.h"
#include "response/usage_writer.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const CLASS_NAMES[] = {
    [ERROR_NONE] = "",
    [ERROR_BAD_REQUEST] = "bad_request",
    [ERROR_UPSTREAM_4XX] = "upstream_4xx",
    [ERROR_UPSTREAM_5XX] = "upstream_5xx",
    [ERROR_UPSTREAM_TRANSPORT] = "upstream_transport",
    [ERROR_CANCELLED] = "internal", /* the label set of the reference has no word of its own */
    [ERROR_INTERNAL] = "internal",
};

const char *error_class_name(enum error_class class) { return CLASS_NAMES[class]; }

/* ---- Making ---- */

static struct coord_request *take_memory(struct worker *worker)
{
    struct coord_request *request = worker->kept;

    if (!request)
        return calloc(1, sizeof *request);
    worker->kept = request->next;
    worker->kept_count--;
    memset(request, 0, sizeof *request);
    return request;
}

static void give_memory(struct coord_request *request)
{
    struct worker *worker = request->worker;

    if (fiber_current()) /* its own: what a crash would name is about to go */
        fiber_set_subject(fiber_current(), NULL);
    arena_release(&request->arena);
    if (request->lender)
        fiber_release(request->lender);
    request->magic = 0;
    if (worker->kept_count >= KEPT_REQUESTS) {
        free(request);
        return;
    }
    request->next = worker->kept;
    worker->kept = request;
    worker->kept_count++;
}

static void link_request(struct coord_request *request)
{
    struct worker *worker = request->worker;

    request->previous = NULL;
    request->next = worker->live;
    if (worker->live)
        worker->live->previous = request;
    worker->live = request;
    worker->live_count++;
}

static void unlink_request(struct coord_request *request)
{
    struct worker *worker = request->worker;

    if (request->next)
        request->next->previous = request->previous;
    if (request->previous)
        request->previous->next = request->next;
    else
        worker->live = request->next;
    worker->live_count--;
}

static struct coord_request *make(struct worker *worker, struct generation *generation, const struct api *api)
{
    struct coord_request *request = take_memory(worker);

    if (!request)
        return NULL;
    request->magic = REQUEST_MAGIC;
    request->worker = worker;
    request->generation = generation;
    worker_hold(worker, generation);
    request->api = api;
    request->legs_end = &request->legs;
    headers_init(&request->headers, &request->arena);
    headers_init(&request->relayed, &request->arena);
    headers_init(&request->failure.headers, &request->arena);
    chain_init(&request->chain, request, &request->arena, &client_sink, request);
    if (request->generation->witness)
        request->chain.watch = &request->generation->witness->writers;
    link_request(request);
    return request;
}

void request_count_running(const struct coord_request *request, double change)
{
    metric_handle_add(&request->model_metrics->handles[MODEL_RUNNING], families()->request_running,
                      &request->model_label, change);
}

static void count_running(struct coord_request *request, struct metric_model *model)
{
    request->model_metrics = model;
    request->model_label = model->label;
    request_count_running(request, 1);
}

struct coord_request *request_new(struct worker *worker, struct generation *generation, struct exchange *exchange,
                                  const struct api *api, coord_slice id)
{
    struct coord_request *request = make(worker, generation, api);

    if (!request)
        return NULL;
    request->exchange = exchange;
    if (!exchange_hand_over(exchange, &request->arena, &request->headers))
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
    request->id = arena_copy(&request->arena, id);
    request->began_ns = exchange_began_ns(exchange);
    request->path = coord_slice_of(api->path);
    request->peer = arena_copy(&request->arena, exchange_peer(exchange));
    id_fresh(request->decision_id);
    request->trace = leg_headers_read_trace(&request->headers, &request->tracestate);
    count_running(request, metrics_model((coord_slice){0}));
    return request;
}

/* ---- Opening ---- */

static coord_status fail_json(struct coord_request *request, size_t offset, const char *reason)
{
    return request_fail(request, ERROR_BAD_REQUEST, 400, "invalid_json",
                        "the request body is not valid JSON: %s at byte %zu", reason, offset);
}

/* Objects in which engine-owned members may stand, too, and the top-level member in which each lies. */
static const struct {
    const char *pointer;
    coord_slice member;
} NESTED[] = {{"/vllm_xargs", COORD_SLICE("vllm_xargs")},
              {"/sampling_params/extra_args", COORD_SLICE("sampling_params")}};
enum { NESTED_COUNT = sizeof NESTED / sizeof *NESTED };

/* What a pass over the top-level members has found. */
struct members {
    bool owned;                /* engine-owned ones */
    bool nested[NESTED_COUNT]; /* what may hold more of them */
    coord_slice model;         /* as it stands there; empty: it does not */
    bool streams, wrong_stream;
};

static void note_member(struct members *members, coord_slice key, coord_slice value)
{
    if (coord_slice_equal(key, (coord_slice)COORD_SLICE("model"))) {
        members->model = value;
    } else if (coord_slice_equal(key, (coord_slice)COORD_SLICE("stream"))) {
        members->streams = coord_slice_is(value, "true");
        members->wrong_stream = !members->streams && !coord_slice_is(value, "false") && !coord_slice_is(value, "null");
    }
    for (size_t i = 0; i < NESTED_COUNT; i++)
        members->nested[i] |= coord_slice_equal(key, NESTED[i].member);
}

/* One pass over the top-level members: repeats of guarded ones are refused, others noted. */
static bool check_members(struct coord_request *request, struct members *members)
{
    bool seen[64] = {false};
    coord_slice key, value;
    size_t cursor = 0;
    const struct guarded_member *first = guarded_member_find((coord_slice)COORD_SLICE("model"));

    while (coord_document_next(request->body, "", &cursor, &key, &value) == COORD_OK) {
        const struct guarded_member *member = guarded_member_find(key);

        note_member(members, key, value);
        if (!member)
            continue;
        assert((size_t)(member - first) < sizeof seen);
        if (seen[member - first] && !member->prefix) {
            request_fail(request, ERROR_BAD_REQUEST, 400, NULL,
                         "the member \"%.*s\" stands in the request more than once", COORD_FMT(key));
            request->failure.param = arena_printf(&request->arena, "/%.*s", COORD_FMT(key));
            return false;
        }
        seen[member - first] = true;
        members->owned |= member->engine_owned;
    }
    return true;
}

static bool is_owned(void *context, coord_slice name)
{
    const struct guarded_member *member = guarded_member_find(name);

    if (!member || !member->engine_owned)
        return false;
    coord_logf(context, COORD_LOG_DEBUG, "engine-owned member %.*s of the client's body removed", COORD_FMT(name));
    return true;
}

/* Removes engine-owned members of the object at `at` (decision 31). Where that stands twice, a worker may read the other one. */
static bool remove_owned(struct coord_request *request, const char *at)
{
    coord_status status = document_remove_where(request->body, at, is_owned, request);

    if (status == COORD_OK)
        return true;
    if (status == COORD_REPEATED) {
        request_fail(request, ERROR_BAD_REQUEST, 400, NULL, "%s stands in the request more than once", at);
        request->failure.param = at;
    } else {
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
    }
    return false;
}

/* Nearly every model's name stands there as it is. */
static void read_model(struct coord_request *request, coord_slice json)
{
    coord_slice model;

    if (json.size < 2 || *json.data != '"')
        return;
    model = (coord_slice){json.data + 1, json.size - 2};
    if (memchr(model.data, '\\', model.size) && coord_document_get_string(request->body, "/model", &model) != COORD_OK)
        return;
    request->model = arena_copy(&request->arena, model);
}

static void read_stream(struct coord_request *request, const struct members *members)
{
    request->stream = members->streams;
    if (!members->wrong_stream)
        return;
    request_fail(request, ERROR_BAD_REQUEST, 400, NULL, "stream must be true or false");
    request->failure.param = "/stream";
}

static void find_pipeline(struct coord_request *request)
{
    request->pipeline = composition_pipeline(request->generation, request);
    if (request->pipeline)
        return;
    request_fail(request, ERROR_BAD_REQUEST, 404, "model_not_found", "no pipeline serves the model \"%.*s\" on %s",
                 COORD_FMT(request->model), request->api->path);
    request->failure.param = "/model";
}

static void read_members(struct coord_request *request)
{
    struct members members = {0};
    bool removed = true;

    if (!check_members(request, &members))
        return;
    read_model(request, members.model);
    if (members.owned)
        removed = remove_owned(request, "");
    for (size_t i = 0; i < NESTED_COUNT && removed; i++)
        removed = !members.nested[i] || remove_owned(request, NESTED[i].pointer);
    if (removed)
        read_stream(request, &members);
    if (request->failure.class == ERROR_NONE && request->api->id == COORD_API_RESPONSES)
        stateful_check(request);
    if (request->failure.class == ERROR_NONE)
        find_pipeline(request);
}

bool request_open(struct coord_request *request)
{
    const char *reason = "memory is short";
    size_t offset = 0;

    request->received_memory = exchange_take_body(request->exchange);
    request->received = buffer_slice(&request->received_memory);
    request->bytes_in = request->received.size;
    if (request->failure.class != ERROR_NONE)
        return false;
    request->body = document_adopt_new(&request->received_memory, &offset, &reason);
    if (!request->body && reason == document_no_memory)
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
    else if (!request->body)
        fail_json(request, offset, reason);
    else if (coord_document_type(request->body, "") != COORD_JSON_OBJECT)
        request_fail(request, ERROR_BAD_REQUEST, 400, "invalid_json", "the request body must be a JSON object");
    else
        read_members(request);
    request_count_running(request, -1);
    count_running(request, metrics_model(request->model));
    request->parsed_ns = reactor_now_fresh(request->worker->reactor);
    return request->failure.class == ERROR_NONE;
}

/* ---- Failing ---- */

coord_status request_fail(struct coord_request *request, enum error_class class, int32_t status, const char *code,
                          const char *format, ...)
{
    struct failure *failure = &request->failure;
    char text[MESSAGE_LIMIT]; /* what does not fit is cut */
    va_list arguments;
    int size;

    if (failure->class != ERROR_NONE)
        return COORD_FAIL;
    failure->class = class;
    failure->status = status >= 400 && status <= 599 ? status : 500;
    failure->code = code;
    va_start(arguments, format);
    size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    failure->message = size < 0 ? (coord_slice){0} : arena_copy(&request->arena, coord_slice_of(text));
    if (!failure->message.data)
        failure->message = coord_slice_of("the request failed");
    return COORD_FAIL;
}

void request_answer_failure(struct coord_request *request)
{
    struct failure *failure = &request->failure;
    struct buffer body = {.limit = 65536};
    struct headers headers = {.arena = &request->arena};
    coord_slice text = failure->body;
    struct api_error error = {.status = failure->status,
                              .code = failure->code,
                              .type = failure->type,
                              .message = failure->message,
                              .param = failure->param,
                              .request_id = request->id};

    if (request->answer_over || !request->exchange || exchange_is_gone(request->exchange))
        return;
    if (request->answer_begun) {
        chain_abort(&request->chain);
        return;
    }
    request->answer_begun = request->answer_over = true;
    request->answer_status = failure->status;
    if (text.size == 0 && api_error_body(request->api, &error, &body))
        text = buffer_slice(&body);
    if (cors_allow(&headers, &request->headers, request->generation->settings) &&
        headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("Content-Type"),
                             (coord_slice)COORD_SLICE("application/json")) &&
        headers_add_borrowed(&headers, (coord_slice)COORD_SLICE("x-request-id"), request->id) &&
        headers_copy(&headers, &failure->headers) &&
        exchange_answer(request->exchange, failure->status, &headers, text) == COORD_OK)
        request->chain.over = true;
    else
        exchange_abort(request->exchange);
    buffer_release(&body);
}

/* ---- Cancelling and waking ---- */

void request_cancel(struct coord_request *request, enum cancel_reason reason)
{
    assert(request->magic == REQUEST_MAGIC);
    if (request->cancelled)
        return;
    request->cancelled = reason;
    request_wake(request);
}

void request_park(struct coord_request *request)
{
    assert(request->fiber && request->fiber == fiber_current());
    fiber_park();
}

void request_wake(struct coord_request *request)
{
    if (request->fiber)
        fiber_wake(request->fiber);
}

void request_drained(struct coord_request *request)
{
    if (request->relaying)
        call_relay_drained(request->relaying);
    if (request->waiting_for_drain)
        request_wake(request);
}

struct leg_record *request_leg(struct coord_request *request, const char *name)
{
    struct leg_record *record = arena_alloc(&request->arena, sizeof *record);

    if (!record)
        return NULL;
    record->name = name;
    *request->legs_end = record;
    request->legs_end = &record->next;
    return record;
}

/* ---- Running and finishing ---- */

static void fiber_main(void *argument)
{
    struct coord_request *request = argument;

    executor_run(request);
    request_fiber_done(request);
}

bool request_spawn(struct coord_request *request, void (*function)(void *request))
{
    request->fiber = fiber_spawn(request->worker->fibers, function, request);
    if (!request->fiber)
        return false;
    if (request->stream) { /* it may last for minutes, for which the room is worth it */
        request->lender = request->fiber;
        arena_lend(&request->arena, fiber_hold(request->lender), FIBER_ROOM);
    }
    return true;
}

bool request_run(struct coord_request *request)
{
    if (!request_spawn(request, fiber_main))
        request_fail(request, ERROR_INTERNAL, 503, "overloaded", "no memory for another request");
    return request->fiber != NULL;
}

static void release(struct coord_request *request)
{
    struct detached *work = request->detached;
    struct worker *worker = request->worker;

    chain_release(&request->chain);
    stream_watch_release(&request->watch);
    for (struct coord_call *call = request->calls; call; call = call->next_of_request)
        call_release(call);
    request_release_slots(request);
    coord_document_free(request->rendered);
    coord_document_free(request->body);
    request->body = request->rendered = NULL;
    request_release_tokens(request);
    buffer_release(&request->received_memory);
    while (work) {
        struct detached *next = work->next;

        executor_detach(request, work);
        work = next;
    }
    unlink_request(request);
    if (request->background)
        worker->background_count--;
    worker_let_go(worker, request->generation);
    give_memory(request);
}

static void finish_if_over(struct coord_request *request)
{
    if (request->fiber || request->exchange)
        return;
    request->ended_ns = reactor_now_fresh(request->worker->reactor);
    if (!request->background)
        executor_report(request);
    release(request);
}

void request_exchange_done(struct coord_request *request, bool complete)
{
    assert(request->magic == REQUEST_MAGIC);
    request->bytes_out = exchange_sent(request->exchange);
    request->complete = complete;
    request->exchange = NULL;
    if (!complete)
        request_cancel(request, CANCEL_CLIENT_GONE);
    finish_if_over(request);
}

void request_fiber_done(struct coord_request *request)
{
    request->fiber = NULL;
    finish_if_over(request);
}

struct coord_request *request_background(struct coord_request *of)
{
    struct worker *worker = of->worker;
    struct coord_request *request;

    if (worker->background_count >= BACKGROUND_LIMIT)
        return NULL;
    request = make(worker, of->generation, of->api);
    if (!request)
        return NULL;
    request->id = arena_copy(&request->arena, of->id);
    worker->background_count++;
    request->pipeline = of->pipeline;
    request->background = true;
    request->path = of->path;
    request->model = arena_copy(&request->arena, of->model);
    request->model_metrics = of->model_metrics;
    request->model_label = of->model_label;
    request->trace = of->trace;
    return request;
}
