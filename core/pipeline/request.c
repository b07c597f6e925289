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
#include "pipeline/worker.h"
#include "response/usage_writer.h"
#include "telemetry/families.h"
#include "telemetry/log.h"

#include <assert.h>
#include <stdio.h>
#include <stdatomic.h>
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
    struct arena arena;

    if (!request)
        return calloc(1, sizeof *request);
    worker->kept = request->next;
    worker->kept_count--;
    arena = request->arena;
    memset(request, 0, sizeof *request);
    request->arena = arena;
    return request;
}

static void give_memory(struct coord_request *request)
{
    struct worker *worker = request->worker;

    arena_reset(&request->arena);
    request->magic = 0;
    if (worker->kept_count >= KEPT_REQUESTS) {
        arena_release(&request->arena);
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

static struct coord_request *make(struct worker *worker, const struct api *api, coord_slice id)
{
    struct coord_request *request = take_memory(worker);

    if (!request)
        return NULL;
    request->magic = REQUEST_MAGIC;
    request->worker = worker;
    request->generation = worker->generation;
    request->api = api;
    request->legs_end = &request->legs;
    request->sequence = -1;
    request->id = arena_copy(&request->arena, id);
    headers_init(&request->headers, &request->arena);
    headers_init(&request->relayed, &request->arena);
    headers_init(&request->failure.headers, &request->arena);
    chain_init(&request->chain, request, &request->arena, &client_sink, request);
    link_request(request);
    return request;
}

struct coord_request *request_new(struct worker *worker, struct exchange *exchange, const struct api *api,
                                  coord_slice id)
{
    struct coord_request *request = make(worker, api, id);

    if (!request)
        return NULL;
    request->exchange = exchange;
    request->began_ns = exchange_began_ns(exchange);
    request->path = coord_slice_of(api->path);
    request->peer = arena_copy(&request->arena, exchange_peer(exchange));
    id_fresh(request->decision_id);
    if (!headers_copy(&request->headers, exchange_headers(exchange)))
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
    request->trace = leg_headers_read_trace(&request->headers, &request->tracestate);
    request->model_label = metrics_model_label((coord_slice){0});
    coord_metric_add(families()->request_running, 1, &request->model_label);
    return request;
}

/* ---- Opening ---- */

static coord_status fail_json(struct coord_request *request, size_t offset, const char *reason)
{
    return request_fail(request, ERROR_BAD_REQUEST, 400, "invalid_json",
                        "the request body is not valid JSON: %s at byte %zu", reason, offset);
}

/* One pass over the top-level members: repeats of guarded ones are refused, engine-owned ones noted. */
static bool check_members(struct coord_request *request, bool *owned)
{
    bool seen[64] = {false};
    coord_slice key, value;
    size_t cursor = 0;
    const struct guarded_member *first = guarded_member_find((coord_slice)COORD_SLICE("model"));

    while (coord_document_next(request->body, "", &cursor, &key, &value) == COORD_OK) {
        const struct guarded_member *member = guarded_member_find(key);

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
        *owned |= member->engine_owned;
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

static void read_stream(struct coord_request *request)
{
    int32_t type = coord_document_type(request->body, "/stream");

    if (type == COORD_JSON_BOOL && coord_document_get_bool(request->body, "/stream", &request->stream) == COORD_OK)
        return;
    if (type == COORD_JSON_ABSENT || type == COORD_JSON_NULL)
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
    static const char *const NESTED[] = {"/vllm_xargs", "/sampling_params/extra_args"};
    bool owned = false, removed = true;
    coord_slice model;

    if (!check_members(request, &owned))
        return;
    if (coord_document_get_string(request->body, "/model", &model) == COORD_OK)
        request->model = arena_copy(&request->arena, model);
    if (owned)
        removed = remove_owned(request, "");
    for (size_t i = 0; i < sizeof NESTED / sizeof *NESTED && removed; i++)
        removed = remove_owned(request, NESTED[i]);
    if (removed)
        read_stream(request);
    if (request->failure.class == ERROR_NONE && request->api->id == COORD_API_RESPONSES)
        stateful_check(request);
    if (request->failure.class == ERROR_NONE)
        find_pipeline(request);
}

bool request_open(struct coord_request *request)
{
    const char *reason = "memory is short";
    size_t offset = 0, size = 0;

    request->received_memory = exchange_take_body(request->exchange, &size);
    request->received = (coord_slice){request->received_memory, size};
    request->bytes_in = size;
    if (request->failure.class != ERROR_NONE)
        return false;
    request->body = coord_document_parse_new(request->received, &offset, &reason);
    if (!request->body && reason == document_no_memory)
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
    else if (!request->body)
        fail_json(request, offset, reason);
    else if (coord_document_type(request->body, "") != COORD_JSON_OBJECT)
        request_fail(request, ERROR_BAD_REQUEST, 400, "invalid_json", "the request body must be a JSON object");
    else
        read_members(request);
    coord_metric_add(families()->request_running, -1, &request->model_label);
    request->model_label = metrics_model_label(request->model);
    coord_metric_add(families()->request_running, 1, &request->model_label);
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

bool request_run(struct coord_request *request)
{
    request->fiber = fiber_spawn(request->worker->fibers, fiber_main, request);
    if (!request->fiber)
        request_fail(request, ERROR_INTERNAL, 503, "overloaded", "no memory for another request");
    return request->fiber != NULL;
}

static void (*_Atomic slot_told)(void *context, const coord_slot_type *type, void *value, bool set);
static void *_Atomic slot_context;

void request_watch_slots(void (*told)(void *context, const coord_slot_type *type, void *value, bool set), void *context)
{
    atomic_store(&slot_context, context);
    atomic_store(&slot_told, told);
}

static void tell_of_slot(const coord_slot_type *type, void *value, bool set)
{
    void (*told)(void *context, const coord_slot_type *type, void *value, bool set) =
        atomic_load_explicit(&slot_told, memory_order_acquire);

    if (told)
        told(atomic_load_explicit(&slot_context, memory_order_relaxed), type, value, set);
}

static void release_slots(struct coord_request *request)
{
    while (request->slots) {
        struct slot *slot = request->slots;
        struct guest guest = running_enter((struct running){slot->owner, request->id.data});

        request->slots = slot->next;
        tell_of_slot(slot->type, slot->value, false);
        if (slot->type->destroy)
            slot->type->destroy(slot->value);
        running_leave(guest);
    }
}

static void release(struct coord_request *request)
{
    struct detached *work = request->detached;
    struct worker *worker = request->worker;

    chain_release(&request->chain);
    stream_watch_release(&request->watch);
    for (struct coord_call *call = request->calls; call; call = call->next_of_request)
        call_release(call);
    release_slots(request);
    coord_document_free(request->rendered);
    coord_document_free(request->body);
    request->body = request->rendered = NULL;
    free(request->received_memory);
    request->received_memory = NULL;
    while (work) {
        struct detached *next = work->next;

        executor_detach(request, work);
        work = next;
    }
    unlink_request(request);
    if (request->background)
        worker->background_count--;
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
    request = make(worker, of->api, of->id);
    if (!request)
        return NULL;
    worker->background_count++;
    request->generation = of->generation;
    request->pipeline = of->pipeline;
    request->background = true;
    request->path = of->path;
    request->model = arena_copy(&request->arena, of->model);
    request->model_label = of->model_label;
    request->trace = of->trace;
    return request;
}

/* ---- The public side: reading a request ---- */

coord_slice coord_request_id(const coord_request *request) { return request->id; }

coord_slice coord_request_model(const coord_request *request) { return request->model; }

coord_slice coord_request_model_label(const coord_request *request) { return request->model_label; }

bool coord_request_stream(const coord_request *request) { return request->stream; }

int32_t coord_request_api(const coord_request *request) { return request->api->id; }

coord_slice coord_request_api_label(const coord_request *request) { return coord_slice_of(request->api->name); }

coord_slice coord_request_path(const coord_request *request) { return request->path; }

coord_slice coord_request_query(const coord_request *request) { return request->query; }

coord_document *coord_request_body(coord_request *request) { return request->body; }

coord_slice coord_request_received(const coord_request *request) { return request->received; }

coord_status coord_request_header(const coord_request *request, const char *name, coord_slice *value)
{
    const struct header *field = headers_find(&request->headers, coord_slice_of(name));

    if (!field)
        return COORD_ABSENT;
    *value = field->value;
    return COORD_OK;
}

coord_status coord_request_header_at(const coord_request *request, size_t index, coord_slice *name, coord_slice *value)
{
    if (index >= request->headers.count)
        return COORD_END;
    *name = request->headers.list[index].name;
    *value = request->headers.list[index].value;
    return COORD_OK;
}

coord_status coord_request_token_ids(const coord_request *request, coord_slice *json, uint64_t *count)
{
    if (!request->has_token_ids)
        return COORD_ABSENT;
    *json = request->token_ids;
    *count = request->token_count;
    return COORD_OK;
}

coord_status coord_request_kv_params(const coord_request *request, coord_slice *json)
{
    if (!request->has_kv_params)
        return COORD_ABSENT;
    *json = request->kv_params;
    return COORD_OK;
}

coord_status coord_request_set_kv_params(coord_request *request, coord_slice json)
{
    request->has_kv_params = json.size > 0;
    request->kv_params = arena_copy(&request->arena, json);
    return request->kv_params.data ? COORD_OK : COORD_NO_MEMORY;
}

void *coord_request_slot(const coord_request *request, const coord_slot_type *type)
{
    for (const struct slot *slot = request->slots; slot; slot = slot->next)
        if (slot->type == type)
            return slot->value;
    return NULL;
}

coord_status coord_request_set_slot(coord_request *request, const coord_slot_type *type, void *value_take)
{
    struct slot *slot = request->slots;

    while (slot && slot->type != type)
        slot = slot->next;
    if (slot) {
        if (slot->value != value_take)
            tell_of_slot(type, slot->value, false);
        if (type->destroy && slot->value != value_take)
            type->destroy(slot->value);
        slot->value = value_take;
        tell_of_slot(type, value_take, true);
        return COORD_OK;
    }
    slot = arena_alloc(&request->arena, sizeof *slot);
    if (!slot)
        return COORD_NO_MEMORY;
    *slot = (struct slot){request->slots, type, value_take, running_now().owner};
    request->slots = slot;
    tell_of_slot(type, value_take, true);
    return COORD_OK;
}

void *coord_request_alloc(coord_request *request, size_t size) { return arena_alloc(&request->arena, size); }

coord_slice coord_request_copy(coord_request *request, coord_slice slice) { return arena_copy(&request->arena, slice); }

void *coord_request_local(const coord_request *request)
{
    const struct generation *generation = request->generation;

    if (!request->step)
        return NULL;
    return generation->local[request->worker->index].locals[request->step - generation->steps];
}

int64_t coord_request_time_left(const coord_request *request)
{
    if (request->deadline_ns == 0)
        return INT64_MAX;
    return request->deadline_ns - reactor_now_fresh(request->worker->reactor);
}

coord_status coord_request_check(const coord_request *request)
{
    return request_stopped(request) ? COORD_CANCELLED : COORD_OK;
}

coord_status coord_request_wrap(coord_request *request, const coord_writer_type *type, void *state)
{
    return chain_wrap(&request->chain, type, state);
}

static coord_usage *noted(const coord_request *request, const char *phase)
{
    coord_request *own = (coord_request *)(uintptr_t)request;

    if (strcmp(phase, COORD_PHASE_PREFILL) == 0)
        return &own->prefill_usage;
    return strcmp(phase, COORD_PHASE_DECODE) == 0 ? &own->decode_usage : NULL;
}

void coord_request_note_usage(coord_request *request, const char *phase, const coord_usage *usage)
{
    coord_usage *place = noted(request, phase);

    if (!place)
        return;
    *place = (coord_usage){0};
    memcpy(place, usage, usage->size < sizeof *place ? usage->size : sizeof *place);
    place->size = sizeof *place;
}

coord_status coord_request_usage(const coord_request *request, const char *phase, coord_usage *usage)
{
    const coord_usage *place = noted(request, phase);
    uint32_t size = usage->size;

    if (!place || !place->said)
        return COORD_ABSENT;
    memcpy(usage, place, size < sizeof *place ? size : sizeof *place);
    usage->size = size;
    return COORD_OK;
}

size_t usage_limit(const coord_request *request) { return request->generation->settings->response.inspect_limit; }
