/* Strict incremental request parsing; see http.h. */
#include "http.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_AT_MOST = 256 * 1024, LINE_AT_MOST = 8 * 1024 };

void http_clear(struct http_request *request)
{
    buf_free(&request->head);
    buf_free(&request->body);
    free(request->headers);
    *request = (struct http_request){0};
}

struct text http_header(const struct http_request *request, const char *name)
{
    for (size_t i = 0; i < request->header_count; i++)
        if (text_is_nocase(request->headers[i].name, name))
            return request->headers[i].value;
    return (struct text){NULL, 0};
}

struct text http_path(const struct http_request *request)
{
    const char *query = memchr(request->target.at, '?', request->target.len);
    return (struct text){request->target.at, query ? (size_t)(query - request->target.at) : request->target.len};
}

static bool is_token(struct text text)
{
    static const char signs[] = "!#$%&'*+-.^_`|~";
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i], lower = (char)(c | 0x20);
        if (!(c >= '0' && c <= '9') && !(lower >= 'a' && lower <= 'z') && !(c && strchr(signs, c)))
            return false;
    }
    return text.len > 0;
}

static bool is_visible(struct text text, bool spaces)
{
    for (size_t i = 0; i < text.len; i++) {
        unsigned char c = (unsigned char)text.at[i];
        if (c == 0x7f || (c < 0x21 && !(spaces && (c == ' ' || c == '\t'))))
            return false;
    }
    return true;
}

static const char *read_request_line(struct http_request *r, struct text line)
{
    const char *first = memchr(line.at, ' ', line.len);
    const char *last = memrchr(line.at, ' ', line.len);
    if (!first || first == last)
        return "request line";
    const char *end = line.at + line.len;
    r->method = (struct text){line.at, (size_t)(first - line.at)};
    r->target = (struct text){first + 1, (size_t)(last - first - 1)};
    struct text version = {last + 1, (size_t)(end - last - 1)};
    r->http10 = text_is(version, "HTTP/1.0");
    if (!is_token(r->method) || !r->target.len || !is_visible(r->target, false))
        return "request line";
    return r->http10 || text_is(version, "HTTP/1.1") ? NULL : "version";
}

static const char *read_header(struct http_request *r, struct text line)
{
    const char *colon = memchr(line.at, ':', line.len);
    if (!colon)
        return "header without colon";
    struct http_header header = {{line.at, (size_t)(colon - line.at)},
                                 text_trim((struct text){colon + 1, (size_t)(line.at + line.len - colon - 1)})};
    if (!is_token(header.name))
        return "header name";
    if (!is_visible(header.value, true))
        return "header value";
    if (r->header_count % 16 == 0) {
        r->headers = realloc(r->headers, (r->header_count + 16) * sizeof *r->headers);
        if (!r->headers)
            abort();
    }
    r->headers[r->header_count++] = header;
    return NULL;
}

static const char *decide_framing(struct http_request *r)
{
    struct text length = {NULL, 0}, coding = {NULL, 0};
    size_t hosts = 0;
    r->keep_alive = !r->http10;
    for (size_t i = 0; i < r->header_count; i++) {
        struct http_header *h = &r->headers[i];
        if (text_is_nocase(h->name, "content-length")) {
            if (length.at)
                return "repeated Content-Length";
            length = h->value;
        } else if (text_is_nocase(h->name, "transfer-encoding")) {
            if (coding.at)
                return "repeated Transfer-Encoding";
            coding = h->value;
        } else if (text_is_nocase(h->name, "host")) {
            hosts++;
        } else if (text_is_nocase(h->name, "connection")) {
            if (text_has_nocase(h->value, "close"))
                r->keep_alive = false;
            else if (text_has_nocase(h->value, "keep-alive"))
                r->keep_alive = true;
        } else if (text_is_nocase(h->name, "expect")) {
            r->expects_continue = text_is_nocase(h->value, "100-continue");
        }
    }
    if (hosts != 1 && !(r->http10 && !hosts))
        return "Host";
    if (length.at && coding.at)
        return "Content-Length with Transfer-Encoding";
    if (coding.at && (r->http10 || !text_is_nocase(coding, "chunked")))
        return "Transfer-Encoding";
    if (length.at && !text_uint(length, &r->remaining))
        return "Content-Length";
    r->place = coding.at ? HTTP_IN_SIZE : r->remaining ? HTTP_IN_LENGTH : HTTP_AT_END;
    return NULL;
}

/* `head` is complete in r->head: lines end in CRLF, the last one is empty. */
static const char *read_head(struct http_request *r)
{
    struct text rest = buf_view(&r->head);
    for (bool first = true;; first = false) {
        const char *stop = memmem(rest.at, rest.len, "\r\n", 2);
        struct text line = {rest.at, (size_t)(stop - rest.at)};
        rest.at += line.len + 2;
        rest.len -= line.len + 2;
        if (!line.len && !first)
            return decide_framing(r);
        const char *why = first ? read_request_line(r, line) : read_header(r, line);
        if (why)
            return why;
    }
}

static enum http_progress feed_head(struct http_request *r, struct buf *in, const char **why)
{
    struct text seen = buf_view(in);
    while (!r->scanned && seen.len >= 2 &&
           memcmp(seen.at, "\r\n", 2) == 0) { /* RFC 9112 2.2: ignored before the line */
        buf_drop(in, 2);
        seen = buf_view(in);
    }
    size_t from = r->scanned > 3 ? r->scanned - 3 : 0;
    const char *end = memmem(seen.at + from, seen.len - from, "\r\n\r\n", 4);
    if (!end) {
        r->scanned = seen.len;
        *why = "head too long";
        const char *bare = memmem(seen.at + from, seen.len - from, "\n\n", 2);
        if (bare)
            *why = "bare LF";
        return bare || seen.len > HEAD_AT_MOST ? HTTP_BAD : HTTP_MORE;
    }
    size_t len = (size_t)(end - seen.at) + 4;
    buf_add(&r->head, seen.at, len);
    buf_drop(in, len);
    *why = read_head(r);
    return *why ? HTTP_BAD : HTTP_HEAD;
}

/* Takes one CRLF line from `in`. */
static enum http_progress take_line(struct buf *in, struct text *line)
{
    struct text seen = buf_view(in);
    const char *lf = memchr(seen.at, '\n', seen.len);
    if (!lf)
        return seen.len > LINE_AT_MOST ? HTTP_BAD : HTTP_MORE;
    if (lf == seen.at || lf[-1] != '\r')
        return HTTP_BAD;
    *line = (struct text){seen.at, (size_t)(lf - seen.at - 1)};
    return HTTP_WHOLE;
}

static bool read_size(struct text line, uint64_t *size)
{
    const char *extension = memchr(line.at, ';', line.len);
    struct text digits = {line.at, extension ? (size_t)(extension - line.at) : line.len};
    if (!digits.len || digits.len > 15)
        return false;
    *size = 0;
    for (size_t i = 0; i < digits.len; i++) {
        char c = digits.at[i], lower = (char)(c | 0x20);
        if (c >= '0' && c <= '9')
            *size = *size * 16 + (uint64_t)(c - '0');
        else if (lower >= 'a' && lower <= 'f')
            *size = *size * 16 + (uint64_t)(lower - 'a' + 10);
        else
            return false;
    }
    return true;
}

static bool feed_counted(struct http_request *r, struct buf *in)
{
    size_t n = buf_left(in) < r->remaining ? buf_left(in) : (size_t)r->remaining;
    buf_add(&r->body, buf_view(in).at, n);
    buf_drop(in, n);
    r->remaining -= n;
    return r->remaining == 0;
}

static enum http_progress feed_line(struct http_request *r, struct buf *in, const char **why)
{
    struct text line;
    enum http_progress got = take_line(in, &line);
    *why = "chunk framing";
    if (got != HTTP_WHOLE)
        return got;
    bool empty = !line.len;
    bool good = true;
    if (r->place == HTTP_IN_SIZE) {
        good = read_size(line, &r->remaining);
        r->place = r->remaining ? HTTP_IN_CHUNK : HTTP_IN_TRAILER;
    } else if (r->place == HTTP_IN_CHUNK_END) {
        good = empty;
        r->place = HTTP_IN_SIZE;
    } else if (empty) {
        r->place = HTTP_AT_END;
    }
    buf_drop(in, line.len + 2);
    return good ? HTTP_WHOLE : HTTP_BAD;
}

enum http_progress http_feed(struct http_request *r, struct buf *in, const char **why)
{
    if (r->place == HTTP_IN_HEAD)
        return feed_head(r, in, why);
    while (r->place != HTTP_AT_END) {
        if (!buf_left(in))
            return HTTP_MORE;
        r->expects_continue = false;
        if (r->place == HTTP_IN_LENGTH || r->place == HTTP_IN_CHUNK) {
            if (!feed_counted(r, in))
                return HTTP_MORE;
            r->place = r->place == HTTP_IN_LENGTH ? HTTP_AT_END : HTTP_IN_CHUNK_END;
        } else {
            enum http_progress got = feed_line(r, in, why);
            if (got != HTTP_WHOLE)
                return got;
        }
    }
    return HTTP_WHOLE;
}

const char *http_reason(int status)
{
    static const struct {
        int status;
        const char *reason;
    } reasons[] = {
        {200, "OK"},
        {201, "Created"},
        {202, "Accepted"},
        {204, "No Content"},
        {301, "Moved Permanently"},
        {302, "Found"},
        {304, "Not Modified"},
        {307, "Temporary Redirect"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {408, "Request Timeout"},
        {409, "Conflict"},
        {412, "Precondition Failed"},
        {413, "Request Entity Too Large"},
        {415, "Unsupported Media Type"},
        {422, "Unprocessable Entity"},
        {429, "Too Many Requests"},
        {500, "Internal Server Error"},
        {501, "Not Implemented"},
        {502, "Bad Gateway"},
        {503, "Service Unavailable"},
        {504, "Gateway Timeout"},
    };
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (reasons[i].status == status)
            return reasons[i].reason;
    return "Unknown";
}
