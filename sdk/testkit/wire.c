/* HTTP/1.1 messages over sockets, for upstreams and client alike: see kit.h. */
#include "kit.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHUNK_SIZE_LINE = 0, CHUNK_DATA, CHUNK_END_LINE, CHUNK_TRAILER };

void kit_text_append(struct text *text, const void *data, size_t size)
{
    if (text->size + size + 1 > text->room) {
        text->room = 2 * (text->size + size + 1);
        text->data = realloc(text->data, text->room);
        if (!text->data)
            abort();
    }
    if (size > 0)
        memcpy(text->data + text->size, data, size);
    text->size += size;
    text->data[text->size] = '\0';
}

void kit_text_format(struct text *text, const char *format, ...)
{
    char line[1024];
    va_list arguments;
    int size;

    va_start(arguments, format);
    size = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= sizeof line)
        abort();
    kit_text_append(text, line, (size_t)size);
}

static void text_drop(struct text *text, size_t size)
{
    text->size -= size;
    memmove(text->data, text->data + size, text->size);
}

bool kit_wire_send(int fd, coord_slice bytes)
{
    while (bytes.size > 0) {
        ssize_t sent = send(fd, bytes.data, bytes.size, MSG_NOSIGNAL);

        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        bytes.data += sent;
        bytes.size -= (size_t)sent;
    }
    return true;
}

bool kit_wire_has_field(const char *const *headers, const char *name)
{
    for (; headers && headers[0] && headers[1]; headers += 2)
        if (strcasecmp(headers[0], name) == 0)
            return true;
    return false;
}

void kit_wire_fields(struct text *out, const char *const *headers)
{
    for (; headers && headers[0] && headers[1]; headers += 2) {
        kit_text_append(out, headers[0], strlen(headers[0]));
        kit_text_append(out, ": ", 2);
        kit_text_append(out, headers[1], strlen(headers[1]));
        kit_text_append(out, "\r\n", 2);
    }
}

coord_status coord_kit_header(const coord_kit_message *message, const char *name, coord_slice *value)
{
    for (size_t i = 0; i < message->field_count; i++)
        if (message->fields[i].name.size == strlen(name) &&
            strncasecmp(message->fields[i].name.data, name, strlen(name)) == 0) {
            *value = message->fields[i].value;
            return COORD_OK;
        }
    return COORD_ABSENT;
}

bool coord_kit_header_is(const coord_kit_message *message, const char *name, const char *value)
{
    size_t count = 0;
    coord_slice found;

    for (size_t i = 0; i < message->field_count; i++)
        count += message->fields[i].name.size == strlen(name) &&
                 strncasecmp(message->fields[i].name.data, name, strlen(name)) == 0;
    return count == 1 && coord_kit_header(message, name, &found) == COORD_OK && coord_slice_is(found, value);
}

static coord_slice trim(const char *from, const char *to)
{
    while (from < to && (*from == ' ' || *from == '\t'))
        from++;
    while (to > from && (to[-1] == ' ' || to[-1] == '\t'))
        to--;
    return (coord_slice){from, (size_t)(to - from)};
}

/* "POST /path HTTP/1.1" or "HTTP/1.1 200 OK". */
static void parse_start(coord_kit_message *message, const char *line, const char *end)
{
    const char *first = memchr(line, ' ', (size_t)(end - line));
    const char *second = first ? memchr(first + 1, ' ', (size_t)(end - first - 1)) : NULL;

    if (first && strncmp(line, "HTTP/", 5) == 0) {
        message->status = (int32_t)strtol(first, NULL, 10);
    } else if (second) {
        message->method = (coord_slice){line, (size_t)(first - line)};
        message->target = (coord_slice){first + 1, (size_t)(second - first - 1)};
    }
}

static void parse_head(struct wire *wire)
{
    coord_kit_message *message = &wire->message;
    const char *line = wire->head.data, *end = wire->head.data + wire->head.size;
    coord_slice value;
    bool request;

    wire->fields = calloc(wire->head.size, sizeof *wire->fields);
    if (!wire->fields)
        abort();
    for (const char *next; line < end && (next = memchr(line, '\n', (size_t)(end - line))); line = next + 1) {
        const char *stop = next > line && next[-1] == '\r' ? next - 1 : next;
        const char *colon = memchr(line, ':', (size_t)(stop - line));

        if (line == wire->head.data)
            parse_start(message, line, stop);
        else if (colon)
            wire->fields[message->field_count++] =
                (coord_kit_field){{line, (size_t)(colon - line)}, trim(colon + 1, stop)};
    }
    message->head = text_slice(&wire->head);
    message->fields = wire->fields;
    if (coord_kit_header(message, "x-llm-d-epp-profile", &message->phase) != COORD_OK)
        message->phase = (coord_slice){"", 0};
    request = message->method.size > 0;
    wire->head_done = true;
    wire->chunked = coord_kit_header(message, "Transfer-Encoding", &value) == COORD_OK;
    if (!wire->chunked && coord_kit_header(message, "Content-Length", &value) == COORD_OK)
        wire->left = strtoul(value.data, NULL, 10);
    else
        wire->to_end = !wire->chunked && !request;
    if (wire->no_body || message->status == 204 || message->status == 304)
        wire->chunked = wire->to_end = false, wire->left = 0;
    message->whole = !wire->chunked && !wire->to_end && wire->left == 0;
}

static void take_body(struct wire *wire, size_t size)
{
    kit_text_append(&wire->body, wire->in.data, size);
    text_drop(&wire->in, size);
    wire->message.body = text_slice(&wire->body);
}

/* One step of a chunked body; false when more bytes are needed. */
static bool take_chunk(struct wire *wire)
{
    char *line_end = wire->in.size > 0 ? memchr(wire->in.data, '\n', wire->in.size) : NULL;
    size_t size;

    if (wire->chunk == CHUNK_DATA) {
        size = wire->in.size < wire->left ? wire->in.size : wire->left;
        take_body(wire, size);
        wire->left -= size;
        if (wire->left == 0)
            wire->chunk = CHUNK_END_LINE;
        return size > 0;
    }
    if (!line_end)
        return false;
    size = (size_t)(line_end - wire->in.data) + 1;
    if (wire->chunk == CHUNK_SIZE_LINE) {
        wire->left = strtoul(wire->in.data, NULL, 16);
        wire->chunk = wire->left > 0 ? CHUNK_DATA : CHUNK_TRAILER;
    } else if (wire->chunk == CHUNK_END_LINE) {
        wire->chunk = CHUNK_SIZE_LINE;
    } else {
        wire->message.whole = size <= 2; /* the empty line behind the trailer */
    }
    text_drop(&wire->in, size);
    return true;
}

/* Takes apart what has been read. */
static void use(struct wire *wire)
{
    const char *end;

    if (!wire->head_done) {
        end = wire->in.size > 0 ? memmem(wire->in.data, wire->in.size, "\r\n\r\n", 4) : NULL;
        if (!end)
            return;
        kit_text_append(&wire->head, wire->in.data, (size_t)(end - wire->in.data) + 4);
        text_drop(&wire->in, wire->head.size);
        if (strncmp(wire->head.data, "HTTP/1.1 100", 12) == 0) {
            wire->head.size = 0;
            use(wire);
            return;
        }
        parse_head(wire);
    }
    if (wire->message.whole)
        return;
    if (wire->chunked) {
        while (!wire->message.whole && take_chunk(wire))
            ;
        return;
    }
    if (wire->to_end) {
        take_body(wire, wire->in.size);
        return;
    }
    end = wire->in.data + (wire->in.size < wire->left ? wire->in.size : wire->left);
    wire->left -= (size_t)(end - wire->in.data);
    take_body(wire, (size_t)(end - wire->in.data));
    wire->message.whole = wire->left == 0;
}

bool kit_wire_pump(struct wire *wire, int wait_ms)
{
    struct pollfd ready = {.fd = wire->fd, .events = POLLIN};
    char piece[8192];
    ssize_t got;

    if (wire->message.whole || wire->broken || wire->fd < 0 || poll(&ready, 1, wait_ms) <= 0)
        return false;
    got = recv(wire->fd, piece, sizeof piece, 0);
    if (got > 0) {
        kit_text_append(&wire->in, piece, (size_t)got);
        use(wire);
        return true;
    }
    wire->message.whole = got == 0 && wire->head_done && wire->to_end;
    wire->broken = !wire->message.whole;
    return false;
}

void kit_wire_free(struct wire *wire)
{
    if (wire->fd >= 0)
        close(wire->fd);
    free(wire->in.data);
    free(wire->head.data);
    free(wire->body.data);
    free(wire->fields);
}
