/* The head of a request as it stands on the wire: see upstream_private.h. One measure, one allocation, one pass. */
#include "upstream_private.h"

#include <assert.h>

static char *put(char *at, coord_slice text)
{
    if (text.size > 0)
        memcpy(at, text.data, text.size);
    return at + text.size;
}

#define PUT(at, literal) put(at, (coord_slice)COORD_SLICE(literal))

static char *put_field(char *at, coord_slice name, coord_slice value)
{
    at = put(at, name);
    if (request_value_blank(value))
        return PUT(at, ":\r\n");
    at = put(PUT(at, ": "), value);
    return PUT(at, "\r\n");
}

static char *put_number(char *at, int64_t number)
{
    char digits[20];
    size_t begin = sizeof digits;

    do
        digits[--begin] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    return put(at, (coord_slice){digits + begin, sizeof digits - begin});
}

bool attempt_sends_body(const struct attempt *attempt)
{
    const struct leg_request *request = &attempt->request;

    return !attempt->to_head && (request->streamed || request->has_body || request->body_size > 0);
}

static char *put_framing(char *at, const struct attempt *attempt)
{
    const struct leg_request *request = &attempt->request;

    if (!attempt_sends_body(attempt))
        return at;
    if (request->streamed && request->stream_length < 0)
        return PUT(at, "Transfer-Encoding: chunked\r\n");
    at = PUT(at, "Content-Length: ");
    at = put_number(at, request->streamed ? request->stream_length : (int64_t)request->body_size);
    return PUT(at, "\r\n");
}

coord_slice upstream_host_field(const struct upstream *upstream)
{
    coord_slice host = coord_slice_of(upstream->host_port);
    const char *colon = memrchr(host.data, ':', host.size);

    if (upstream->port == (upstream->secure ? 443 : 80))
        host.size = (size_t)(colon - host.data);
    return host;
}

static size_t head_bound(const struct leg_request *request, coord_slice host)
{
    static const char fixed[] =
        "  HTTP/1.1\r\nHost: \r\nTransfer-Encoding: chunked\r\nContent-Length: 9223372036854775807\r\n\r\n";
    size_t bytes = sizeof fixed + request->method.size + request->target.size + host.size;

    for (size_t i = 0; i < request->header_count; i++)
        bytes += request->headers[i].name.size + request->headers[i].value.size + sizeof ": \r\n";
    return bytes;
}

bool request_head_build(struct buffer *out, const struct attempt *attempt, coord_slice host)
{
    const struct leg_request *request = &attempt->request;
    char *begin, *at;

    if (request->host.size > 0 && header_value_valid(request->host))
        host = request->host;
    if (!buffer_reserve(out, head_bound(request, host)))
        return false;
    begin = out->data + out->size;
    at = put(begin, request->method);
    at = put(PUT(at, " "), request->target);
    at = PUT(at, " HTTP/1.1\r\n");
    at = put_field(at, (coord_slice)COORD_SLICE("Host"), host);
    for (size_t i = 0; i < request->header_count; i++)
        if (request_field_goes_out(&request->headers[i]))
            at = put_field(at, request->headers[i].name, request->headers[i].value);
    at = PUT(put_framing(at, attempt), "\r\n");
    out->size += (size_t)(at - begin);
    assert(out->size <= out->capacity);
    return true;
}
