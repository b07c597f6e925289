/* What steps read of a request and hang on it: the public side of request.h, see <coordinator/request.h>. */
#include "pipeline/request.h"

#include "pipeline/worker.h"
#include "response/usage_writer.h"

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
    coord_status status = chain_wrap(&request->chain, type, state);

    if (status == COORD_OK && request->step && type->name)
        generation_note_writer(request->step, type->name);
    return status;
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
