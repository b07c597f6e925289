/* What a call's answer says, and what it means for the request (coordinator/call.h). */
#include "pipeline/call.h"

#include "json/members.h"
#include "pipeline/worker.h"

#include <stdio.h>

enum { ERROR_BODY_LIMIT = 8192 };

coord_status call_fail_transport(struct coord_call *call)
{
    struct coord_request *request = call->request;
    int32_t status = leg_outcome_status(call->outcome);
    enum error_class class = status == 500 ? ERROR_INTERNAL : ERROR_UPSTREAM_TRANSPORT;

    request_fail(request, class, status, NULL, "%s: %s", call->name, leg_outcome_words(call->outcome));
    if (!request->failure.cause)
        request->failure.cause = call->detail;
    if (status == 503 && request->failure.headers.count == 0 &&
        !headers_add_borrowed(&request->failure.headers, (coord_slice)COORD_SLICE("Retry-After"),
                              (coord_slice)COORD_SLICE("1")))
        return COORD_FAIL;
    return COORD_FAIL;
}

int32_t coord_call_status(const coord_call *call) { return call->status; }

coord_slice coord_call_body(const coord_call *call) { return buffer_slice(&call->body); }

coord_status coord_call_header(const coord_call *call, const char *name, coord_slice *value)
{
    const struct header *field = headers_find(&call->answer_headers, coord_slice_of(name));

    if (!field)
        return COORD_ABSENT;
    *value = field->value;
    return COORD_OK;
}

coord_document *coord_call_document(coord_call *call)
{
    bool over =
        call->mode == CALL_COLLECT && call->ended; /* nothing comes any more, so that the memory may change hands */
    struct buffer body = call->body;

    if (call->answer_tried)
        return call->answer;
    call->answer_tried = true;
    call->answer =
        over ? document_adopt_new(&body, NULL, NULL) : coord_document_parse_new(buffer_slice(&call->body), NULL, NULL);
    call->answer_has_body = over && call->answer;
    return call->answer;
}

coord_status coord_call_fail_answer(coord_call *call, const char *format, ...)
{
    char what[MESSAGE_LIMIT];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(what, sizeof what, format, arguments) < 0)
        what[0] = '\0';
    va_end(arguments);
    return request_fail(call->request, ERROR_UPSTREAM_5XX, 502, NULL, "%s answered with something unusable: %s",
                        call->name, what);
}

/* A worker's error body goes to the client when it is a JSON object with an error in it and small. */
static bool is_error_object(struct coord_call *call)
{
    coord_document *answer = call->body.size <= ERROR_BODY_LIMIT ? coord_call_document(call) : NULL;

    return answer && (coord_document_type(answer, "/error") == COORD_JSON_OBJECT ||
                      coord_document_type(answer, "/error") == COORD_JSON_STRING ||
                      coord_document_type(answer, "/message") == COORD_JSON_STRING ||
                      coord_document_type(answer, "/detail") != COORD_JSON_ABSENT);
}

/*
 * What a worker's error body becomes for the client: itself, but for Messages, whose render path answers in OpenAI's shape
 * (vLLM 0.32.0). There its words are put into Anthropic's shape, as the engine does it on the path itself.
 */
static coord_slice error_body(struct coord_call *call)
{
    static const char *const WORDS[] = {"/error/message", "/error", "/message", "/detail"};
    static const char format[] = "{\"type\":\"error\",\"error\":{\"type\":%.*s,\"message\":%.*s}}";
    coord_slice body = buffer_slice(&call->body), message = {0}, type = COORD_SLICE("\"invalid_request_error\"");
    coord_document *answer = coord_call_document(call);
    coord_status found = COORD_ABSENT;
    size_t size;
    char *made;

    if (coord_request_api(call->request) != COORD_API_MESSAGES ||
        coord_document_type(answer, "/type") == COORD_JSON_STRING)
        return body;
    for (size_t i = 0; i < sizeof WORDS / sizeof *WORDS && found != COORD_OK; i++)
        if (coord_document_type(answer, WORDS[i]) == COORD_JSON_STRING)
            found = coord_document_get(answer, WORDS[i], &message);
    if (found != COORD_OK || (coord_document_type(answer, "/error/type") == COORD_JSON_STRING &&
                              coord_document_get(answer, "/error/type", &type) != COORD_OK))
        return body;
    size = sizeof format + type.size + message.size;
    made = coord_request_alloc(call->request, size);
    if (!made)
        return body;
    size = (size_t)snprintf(made, size, format, COORD_FMT(type), COORD_FMT(message));
    return (coord_slice){made, size};
}

static bool pass_header(struct coord_call *call, const char *name)
{
    coord_slice value;

    return coord_call_header(call, name, &value) != COORD_OK ||
           headers_add(&call->request->failure.headers, coord_slice_of(name), value);
}

/* Captures the first value of each listed name (pipeline.forward_response_headers) for the legs to come. */
static bool capture_headers(struct coord_call *call)
{
    struct coord_request *request = call->request;
    const struct pipeline_settings *pipeline = request->pipeline->settings;
    const struct header *peer =
        call_has_phase(call, COORD_PHASE_PREFILL) ? headers_first(&call->answer_headers, HEADER_PEER_TOPOLOGY) : NULL;

    if (peer && peer->value.size > 0)
        request->peer_topology = peer->value;

    for (size_t i = 0; i < pipeline->forward_response_header_count; i++) {
        const struct header *field = headers_find(&call->answer_headers, pipeline->forward_response_headers[i]);

        if (field && field->value.size > 0 &&
            !headers_set(&request->relayed, pipeline->forward_response_headers[i], field->value))
            return false;
    }
    return true;
}

coord_status coord_call_require_ok(coord_call *call)
{
    struct coord_request *request = call->request;
    int32_t status = call->status;
    bool passed = (status >= 400 && status < 500) || status == 503;

    if (status == 0)
        return call_fail_transport(call);
    if (status == 200) {
        if (call->capture && !capture_headers(call))
            return request_fail(request, ERROR_INTERNAL, 500, NULL, "memory is short");
        return COORD_OK;
    }
    if (request->failure.class != ERROR_NONE)
        return COORD_FAIL;
    request_fail(request,
                 status >= 400 && status < 500 ? ERROR_UPSTREAM_4XX
                 : status >= 500               ? ERROR_UPSTREAM_5XX
                                               : ERROR_INTERNAL,
                 passed ? status : 502, NULL, "%s %s HTTP %d", call->name,
                 status >= 400 && status < 500 ? "rejected the request:" : "answered", status);
    if (passed && (!pass_header(call, "Retry-After") || !pass_header(call, "WWW-Authenticate")))
        return COORD_FAIL;
    if (passed && status != 503 && is_error_object(call))
        request->failure.body = error_body(call);
    return COORD_FAIL;
}

static void drop_answer(struct coord_call *call)
{
    coord_document_free(call->answer);
    if (call->answer_has_body)
        call->body = (struct buffer){0};
    buffer_release(&call->body);
    call->answer = NULL;
    call->answer_has_body = false;
    call->answer_tried = true;
}

void coord_call_forget_answer(coord_call *call)
{
    if (call->ended && call->request->failure.class == ERROR_NONE) /* the failure may be the worker's own words */
        drop_answer(call);
}

void call_release(struct coord_call *call)
{
    coord_call_cancel(call);
    call_forget_outgoing(call);
    drop_answer(call);
    buffer_release(&call->given);
}
