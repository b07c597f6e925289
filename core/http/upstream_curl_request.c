/*
 * See upstream_curl.h. What differs from leg to leg is told the library here: target, method, fields, body, address.
 *
 * Options are set only when they differ from what the handle has. The library keeps pointers to fields and body, so both stay
 * with the handle or the caller until the transfer is over.
 */
#include "upstream_curl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    SMALL_BODY = 64 * 1024 - 1, /* the library sends up to this much together with the head */
    LARGE_BODY = 256 * 1024,    /* from here on a larger upload buffer pays, and is no larger than the body */
    LARGE_UPLOAD_BUFFER = 256 * 1024,
    NORMAL_UPLOAD_BUFFER = 64 * 1024 /* the library's own */
};

static bool reserve_fields(struct carrier *carrier, size_t count, size_t bytes)
{
    buffer_clear(&carrier->text, SIZE_MAX);
    if (!buffer_reserve(&carrier->text, bytes))
        return false;
    if (count > carrier->field_capacity) {
        struct curl_slist *fields = realloc(carrier->fields, count * sizeof *fields);

        if (!fields)
            return false;
        carrier->fields = fields;
        carrier->field_capacity = count;
    }
    return true;
}

static char *put(char *at, const char *data, size_t size)
{
    memcpy(at, data, size);
    return at + size;
}

/* There is room for it. A blank value needs a form of its own, or the library would drop the field. */
static void put_field(struct carrier *carrier, size_t place, coord_slice name, coord_slice value)
{
    char *start = carrier->text.data + carrier->text.size;
    char *at = put(start, name.data, name.size);

    if (request_value_blank(value)) {
        at = put(at, ";", 1);
    } else {
        at = put(at, ": ", 2);
        at = put(at, value.data, value.size);
    }
    *at++ = 0;
    carrier->text.size += (size_t)(at - start);
    carrier->fields[place].data = start;
}

/* Fields that the library would add of its own accord: a name with a colon only stops it. */
static size_t put_suppressions(struct carrier *carrier, size_t place, bool has_accept, bool has_type)
{
    static char no_expect[] = "Expect:", no_accept[] = "Accept:", no_type[] = "Content-Type:";

    carrier->fields[place++].data = no_expect;
    if (!has_accept)
        carrier->fields[place++].data = no_accept;
    if (!has_type)
        carrier->fields[place++].data = no_type;
    return place;
}

static bool set_fields(struct carrier *carrier)
{
    const struct leg_request *request = &carrier->attempt.request;
    size_t bytes = request->host.size + sizeof "Host: ", count = 0;
    bool has_accept = false, has_type = false;

    for (size_t i = 0; i < request->header_count; i++)
        bytes += request->headers[i].name.size + request->headers[i].value.size + sizeof ": ";
    if (!reserve_fields(carrier, request->header_count + 4, bytes))
        return false;
    if (request->host.size > 0 && header_value_valid(request->host))
        put_field(carrier, count++, (coord_slice)COORD_SLICE("Host"), request->host);
    for (size_t i = 0; i < request->header_count; i++) {
        const struct header *field = &request->headers[i];

        if (!request_field_goes_out(field))
            continue;
        has_accept = has_accept || header_name_is(field->name, "accept");
        has_type = has_type || header_name_is(field->name, "content-type");
        put_field(carrier, count++, field->name, field->value);
    }
    count = put_suppressions(carrier, count, has_accept, has_type);
    for (size_t i = 0; i < count; i++)
        carrier->fields[i].next = i + 1 < count ? &carrier->fields[i + 1] : NULL;
    return curl_easy_setopt(carrier->easy, CURLOPT_HTTPHEADER, carrier->fields) == CURLE_OK;
}

/* Sets a string option only when it differs from what the handle has. */
static bool set_text(struct carrier *carrier, CURLoption option, struct buffer *known, coord_slice text)
{
    if (known->size == text.size + 1 && memcmp(known->data, text.data, text.size) == 0)
        return true;
    buffer_clear(known, SIZE_MAX);
    if (!buffer_append_slice(known, text) || !buffer_append(known, "", 1))
        return false;
    return curl_easy_setopt(carrier->easy, option, known->data) == CURLE_OK;
}

static enum carrier_mode mode_of(const struct attempt *attempt)
{
    const struct leg_request *request = &attempt->request;

    if (attempt->to_head)
        return MODE_HEAD;
    if (request->streamed)
        return MODE_READ_BODY;
    if (!request->has_body && request->body_size == 0)
        return MODE_NO_BODY;
    return request->body_size <= SMALL_BODY ? MODE_SMALL_BODY : MODE_READ_BODY;
}

static void set_mode(struct carrier *carrier, enum carrier_mode mode)
{
    CURL *easy = carrier->easy;

    if (carrier->mode == mode)
        return;
    if (carrier->mode == MODE_HEAD)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 0L);
    if (mode == MODE_NO_BODY)
        curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    else if (mode == MODE_HEAD)
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    else
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
    if (mode == MODE_READ_BODY)
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, NULL);
    carrier->mode = mode;
}

/* One piece is sent from where it is; several are joined, since the library takes one. */
static bool set_small_body(struct carrier *carrier)
{
    const struct leg_request *request = &carrier->attempt.request;
    const char *data = "";

    if (request->piece_count == 1 && request->pieces[0].size > 0) {
        data = request->pieces[0].data;
    } else if (request->body_size > 0) {
        buffer_clear(&carrier->body, SIZE_MAX);
        for (size_t i = 0; i < request->piece_count; i++)
            if (!buffer_append_slice(&carrier->body, request->pieces[i]))
                return false;
        data = carrier->body.data;
    }
    curl_easy_setopt(carrier->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_size);
    curl_easy_setopt(carrier->easy, CURLOPT_POSTFIELDS, data);
    return true;
}

static void set_read_body(struct carrier *carrier)
{
    const struct leg_request *request = &carrier->attempt.request;
    curl_off_t size = request->streamed ? (curl_off_t)request->stream_length : (curl_off_t)request->body_size;
    bool large = size >= LARGE_BODY;

    curl_easy_setopt(carrier->easy, CURLOPT_POSTFIELDSIZE_LARGE, size < 0 ? (curl_off_t)-1 : size);
    if (large == carrier->large_upload)
        return;
    carrier->large_upload = large;
    curl_easy_setopt(carrier->easy, CURLOPT_UPLOAD_BUFFERSIZE,
                     large ? (long)LARGE_UPLOAD_BUFFER : (long)NORMAL_UPLOAD_BUFFER);
}

static bool set_body(struct carrier *carrier)
{
    set_mode(carrier, mode_of(&carrier->attempt));
    if (carrier->mode == MODE_SMALL_BODY)
        return set_small_body(carrier);
    if (carrier->mode == MODE_READ_BODY)
        set_read_body(carrier);
    return true;
}

bool carrier_set_request(struct carrier *carrier)
{
    const struct leg_request *request = &carrier->attempt.request;

    return set_text(carrier, CURLOPT_REQUEST_TARGET, &carrier->target, request->target) &&
           set_text(carrier, CURLOPT_CUSTOMREQUEST, &carrier->method, request->method) && set_fields(carrier) &&
           set_body(carrier);
}

/*
 * The library connects to a literal only: it looks up nothing, and a kept connection is found by that address. It gets one
 * address at a time, because with several (7.88, multi interface) it fails to go on from one that does not answer.
 */
bool carrier_set_address(struct carrier *carrier)
{
    const struct sockaddr_storage *address = attempt_address(&carrier->attempt);
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;
    char literal[INET6_ADDRSTRLEN], text[INET6_ADDRSTRLEN + 32];
    int size;

    if (!address)
        return true;
    if (address->ss_family == AF_INET6)
        inet_ntop(AF_INET6, &v6->sin6_addr, literal, sizeof literal);
    else
        inet_ntop(AF_INET, &v4->sin_addr, literal, sizeof literal);
    size = snprintf(text, sizeof text, address->ss_family == AF_INET6 ? "::[%s]:%d" : "::%s:%d", literal,
                    carrier->attempt.upstream->port);
    if (carrier->address.size == (size_t)size + 1 && memcmp(carrier->address.data, text, (size_t)size) == 0)
        return true;
    buffer_clear(&carrier->address, SIZE_MAX);
    if (!buffer_append(&carrier->address, text, (size_t)size + 1))
        return false;
    carrier->address_list = (struct curl_slist){.data = carrier->address.data};
    return curl_easy_setopt(carrier->easy, CURLOPT_CONNECT_TO, &carrier->address_list) == CURLE_OK;
}
