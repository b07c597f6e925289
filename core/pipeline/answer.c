/* A step that answers itself (coordinator/answer.h): through the writers, like a worker's answer. */
#include "pipeline/call.h"

#include "pipeline/leg_headers.h"
#include "pipeline/worker.h"

#include <coordinator/answer.h>

static coord_status own_head(coord_request *request, int32_t status, const char *content_type,
                             const char *const *headers, int64_t length)
{
    struct headers given, list;

    if (request_stopped(request))
        return COORD_CANCELLED;
    if (request_answered(request))
        return COORD_STATE;
    if (status < 200 || status > 599)
        return COORD_INVALID;
    headers_init(&given, &request->arena);
    headers_init(&list, &request->arena);
    if (content_type && !header_value_valid(coord_slice_of(content_type)))
        return COORD_INVALID;
    if (content_type && !headers_add(&given, (coord_slice)COORD_SLICE("Content-Type"), coord_slice_of(content_type)))
        return COORD_NO_MEMORY;
    for (size_t i = 0; headers && headers[i] && headers[i + 1]; i += 2) {
        coord_slice name = coord_slice_of(headers[i]), value = coord_slice_of(headers[i + 1]);

        if (!header_name_valid(name) || !header_value_valid(value))
            return COORD_INVALID;
        if (!headers_add(&given, name, value))
            return COORD_NO_MEMORY;
    }
    if (!client_headers(&list, &given, request->id))
        return COORD_NO_MEMORY;
    return answer_head(request, status, &list, length) ? COORD_OK : COORD_STATE;
}

coord_status coord_answer(coord_request *request, int32_t status, const char *content_type, coord_slice body,
                          const char *const *headers)
{
    coord_status done = own_head(request, status, content_type, headers, (int64_t)body.size);

    if (done != COORD_OK)
        return done;
    chain_data(&request->chain, body);
    chain_end(&request->chain);
    return COORD_DONE;
}

coord_status coord_answer_begin(coord_request *request, int32_t status, const char *content_type,
                                const char *const *headers)
{
    return own_head(request, status, content_type, headers, -1);
}

coord_status coord_answer_write(coord_request *request, coord_slice bytes)
{
    const struct settings *settings = request->generation->settings;

    if (request_stopped(request))
        return COORD_CANCELLED;
    if (!request->chain.head_entered || request->chain.over || request->chain.finishing)
        return COORD_STATE;
    chain_data(&request->chain, bytes);
    request->waiting_for_drain = true;
    while (!request_stopped(request) && request->exchange &&
           exchange_queued(request->exchange) >= settings->response.buffer_high)
        request_park(request);
    request->waiting_for_drain = false;
    return request_stopped(request) ? COORD_CANCELLED : COORD_OK;
}

coord_status coord_answer_end(coord_request *request)
{
    if (!request->chain.head_entered)
        return COORD_STATE;
    chain_end(&request->chain);
    return COORD_DONE;
}

coord_status coord_answer_abort(coord_request *request)
{
    request_fail(request, ERROR_INTERNAL, 500, NULL, "the step cut its answer");
    chain_abort(&request->chain);
    return COORD_FAIL;
}
