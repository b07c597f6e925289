/* Filling a call, before it runs (coordinator/call.h). */
#include "pipeline/call.h"

#include "pipeline/leg_headers.h"
#include "pipeline/worker.h"

enum { OWN_FIELDS = 5 }; /* content type and encoding, phase, ids */

struct outgoing *call_outgoing_new(coord_slice path)
{
    struct arena memory = {0};
    struct outgoing *out = arena_alloc(&memory, sizeof *out);

    if (!out)
        return NULL;
    out->memory = memory;
    out->method = (coord_slice)COORD_SLICE("POST");
    out->path = path;
    headers_init(&out->headers, &out->memory);
    return out;
}

void call_forget_outgoing(struct coord_call *call)
{
    struct arena memory;

    if (!call->out)
        return;
    coord_document_free(call->out->document);
    memory = call->out->memory;
    call->out = NULL;
    arena_release(&memory);
}

static struct coord_call *call_new(struct coord_request *request, const char *name)
{
    struct coord_call *call = arena_alloc(&request->arena, sizeof *call);

    if (!call || !(call->out = call_outgoing_new(request->path))) {
        request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
        return NULL;
    }
    call->request = request;
    call->name = name;
    call->limit = 4 * request->generation->settings->response.inspect_limit;
    headers_init(&call->answer_headers, &request->arena);
    call->next_of_request = request->calls;
    request->calls = call;
    return call;
}

static bool borrow_headers(struct coord_call *call, const struct headers *from, bool credentials)
{
    if (!headers_reserve(&call->out->headers, from->count + OWN_FIELDS))
        return false;
    for (size_t i = 0; i < from->count; i++)
        if ((credentials || !leg_header_is_credential(from->list[i].name)) &&
            !headers_add_field(&call->out->headers, &from->list[i]))
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
    call->upstream = request->pipeline->gateway;
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
    call->out->method = arena_copy(&call->out->memory, coord_slice_of(method));
    return call->out->method.data ? COORD_OK : COORD_NO_MEMORY;
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
    call->out->path = arena_copy(&call->out->memory, path);
    return call->out->path.data ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_call_set_header(coord_call *call, const char *name, coord_slice value)
{
    if (call->started)
        return COORD_STATE;
    if (!header_name_valid(coord_slice_of(name)) || !header_value_valid(value) ||
        leg_header_is_the_cores(coord_slice_of(name)))
        return COORD_INVALID;
    return headers_set(&call->out->headers, coord_slice_of(name), value) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_call_remove_header(coord_call *call, const char *name)
{
    if (call->started)
        return COORD_STATE;
    headers_remove(&call->out->headers, coord_slice_of(name));
    return COORD_OK;
}

/* `type` lives as long as the call. */
static coord_status set_content_type(coord_call *call, coord_slice type)
{
    headers_remove(&call->out->headers, (coord_slice)COORD_SLICE("content-type"));
    return headers_add_known(&call->out->headers, HEADER_CONTENT_TYPE, type) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_call_set_body(coord_call *call, coord_document *document)
{
    struct outgoing *out = call->out;

    if (call->started)
        return COORD_STATE;
    coord_document_free(out->document);
    out->document = coord_document_clone_new(document);
    out->has_body = true;
    return out->document ? set_content_type(call, (coord_slice)COORD_SLICE("application/json")) : COORD_NO_MEMORY;
}

coord_status coord_call_set_text(coord_call *call, coord_slice text, const char *content_type)
{
    struct outgoing *out = call->out;
    coord_slice type;

    if (call->started)
        return COORD_STATE;
    coord_document_free(out->document);
    out->document = NULL;
    out->text = arena_copy(&out->memory, text);
    out->has_body = true;
    type = arena_copy(&out->memory, coord_slice_of(content_type));
    return out->text.data && type.data ? set_content_type(call, type) : COORD_NO_MEMORY;
}

coord_status coord_call_set_timeout(coord_call *call, int64_t nanoseconds)
{
    if (call->started)
        return COORD_STATE;
    if (nanoseconds < 0)
        return COORD_INVALID;
    call->timeout_ns = nanoseconds;
    return COORD_OK;
}

coord_status coord_call_set_limit(coord_call *call, size_t bytes)
{
    if (call->started)
        return COORD_STATE;
    if (bytes == 0) /* a buffer would take it for no limit */
        return COORD_INVALID;
    call->limit = bytes;
    return COORD_OK;
}

coord_status coord_call_keep_query(coord_call *call)
{
    if (call->started)
        return COORD_STATE;
    call->out->keep_query = true;
    return COORD_OK;
}

static coord_status set_flag(const coord_call *call, bool *flag)
{
    if (call->started)
        return COORD_STATE;
    *flag = true;
    return COORD_OK;
}

coord_status coord_call_allow_repeat(coord_call *call) { return set_flag(call, &call->may_repeat); }

coord_status coord_call_keep_failure(coord_call *call) { return set_flag(call, &call->keep_failure); }

coord_status coord_call_capture_headers(coord_call *call) { return set_flag(call, &call->capture); }
