/* The public side of failing a request (coordinator/request.h). */
#include "pipeline/request.h"

#include <stdio.h>

static enum error_class class_of(int32_t status)
{
    return status >= 400 && status < 500 ? ERROR_BAD_REQUEST : ERROR_INTERNAL;
}

coord_status coord_fail(coord_request *request, int32_t status, const char *code, const char *format, ...)
{
    char text[MESSAGE_LIMIT];
    va_list arguments;

    va_start(arguments, format);
    if (vsnprintf(text, sizeof text, format, arguments) < 0)
        text[0] = '\0';
    va_end(arguments);
    return request_fail(request, class_of(status), status, code ? arena_printf(&request->arena, "%s", code) : NULL,
                        "%s", text);
}

static const char *keep(coord_request *request, const char *text)
{
    return text ? arena_printf(&request->arena, "%s", text) : NULL;
}

coord_status coord_fail_with(coord_request *request, const coord_failure *given)
{
    struct failure *failure = &request->failure;
    coord_failure wanted = {0};

    memcpy(&wanted, given, given->size < sizeof wanted ? given->size : sizeof wanted);
    if (failure->class != ERROR_NONE)
        return COORD_FAIL;
    request_fail(request, class_of(wanted.status), wanted.status, keep(request, wanted.code), "%s",
                 wanted.message ? wanted.message : "the request failed");
    failure->type = keep(request, wanted.type);
    failure->param = keep(request, wanted.param);
    failure->cause = keep(request, wanted.cause);
    for (size_t i = 0; wanted.headers && wanted.headers[i] && wanted.headers[i + 1]; i += 2) {
        coord_slice name = coord_slice_of(wanted.headers[i]), value = coord_slice_of(wanted.headers[i + 1]);

        if (header_name_valid(name) && header_value_valid(value) && !headers_add(&failure->headers, name, value))
            break;
    }
    return COORD_FAIL;
}

coord_status coord_fail_member(coord_request *request, coord_status status, const char *pointer, const char *wanted)
{
    const char *what = status == COORD_ABSENT     ? "is missing"
                       : status == COORD_REPEATED ? "stands in the request more than once"
                       : status == COORD_MISTYPED ? "is of the wrong type"
                                                  : NULL;

    if (status >= 0)
        return status;
    if (!what)
        return request_fail(request, ERROR_INTERNAL, 500, NULL, "the request's member %s could not be processed",
                            pointer);
    request_fail(request, ERROR_BAD_REQUEST, 400, NULL, "%s %s%s%s", pointer, what, wanted ? ": it must be " : "",
                 wanted ? wanted : "");
    request->failure.param = keep(request, pointer);
    return COORD_FAIL;
}
