/* See answer.h. */
#include "answer.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char head_end[] = "\r\n\r\n";

void answer_begin(struct answer *answer)
{
    answer->place = AT_HEAD;
    answer->status = 0;
    answer->closes = false;
    answer->left = answer->body_bytes = 0;
    answer->head_length = 0;
}

/* The value of a header line, or NULL; the head is NUL-terminated. */
static const char *header(const struct answer *answer, const char *name)
{
    size_t length = strlen(name);

    for (const char *line = strstr(answer->head, "\r\n"); line && line[2]; line = strstr(line + 2, "\r\n")) {
        if (strncasecmp(line + 2, name, length) == 0 && line[2 + length] == ':') {
            line += 2 + length + 1;
            return line + strspn(line, " \t");
        }
    }
    return NULL;
}

static enum answer_progress head_complete(struct answer *answer)
{
    const char *length, *coding, *connection;

    answer->head[answer->head_length] = '\0';
    if (strncmp(answer->head, "HTTP/1.", 7) != 0 || answer->head_length < 12)
        return ANSWER_BROKEN;
    answer->status = (int)strtol(answer->head + 9, NULL, 10);
    connection = header(answer, "connection");
    answer->closes = connection && strncasecmp(connection, "close", 5) == 0;
    coding = header(answer, "transfer-encoding");
    length = header(answer, "content-length");
    if (coding && strncasecmp(coding, "chunked", 7) == 0) {
        answer->place = AT_CHUNK_SIZE;
        return ANSWER_MORE;
    }
    if (!length) {
        answer->place = AT_UNTIL_CLOSE;
        return ANSWER_MORE;
    }
    answer->place = AT_BODY;
    answer->left = strtoull(length, NULL, 10);
    return answer->left ? ANSWER_MORE : ANSWER_DONE;
}

/* How many of the bytes belong to the head. */
static size_t take_head(struct answer *answer, const char *bytes, size_t length, enum answer_progress *progress)
{
    for (size_t i = 0; i < length; i++) {
        if (answer->head_length + 1 == ANSWER_HEAD_AT_MOST) {
            *progress = ANSWER_BROKEN;
            return i;
        }
        answer->head[answer->head_length++] = bytes[i];
        if (bytes[i] == '\n' && answer->head_length >= 4 &&
            memcmp(answer->head + answer->head_length - 4, head_end, 4) == 0) {
            *progress = head_complete(answer);
            return i + 1;
        }
    }
    return length;
}

/* One byte of a line of the chunk framing. */
static enum answer_progress take_framing(struct answer *answer, char byte)
{
    const char *digits = "0123456789abcdef", *digit;

    switch (answer->place) {
    case AT_CHUNK_SIZE:
        if (byte == '\n') {
            answer->place = answer->left ? AT_CHUNK_DATA : AT_LAST_LINE;
            answer->head_length = 0; /* bytes seen of the last line */
            return ANSWER_MORE;
        }
        digit = byte ? strchr(digits, byte | 0x20) : NULL;
        if (digit)
            answer->left = answer->left * 16 + (uint64_t)(digit - digits);
        return digit || byte == '\r' ? ANSWER_MORE : ANSWER_BROKEN;
    case AT_CHUNK_END:
        if (byte == '\n')
            answer->place = AT_CHUNK_SIZE;
        return byte == '\n' || byte == '\r' ? ANSWER_MORE : ANSWER_BROKEN;
    default: /* AT_LAST_LINE: trailers, then an empty line */
        if (byte == '\n') {
            if (answer->head_length == 0)
                return ANSWER_DONE;
            answer->head_length = 0;
        } else if (byte != '\r') {
            answer->head_length++;
        }
        return ANSWER_MORE;
    }
}

enum answer_progress answer_feed(struct answer *answer, const char *bytes, size_t length,
                                 void (*body)(void *context, const char *bytes, size_t length), void *context)
{
    enum answer_progress progress = ANSWER_MORE;

    while (length && progress == ANSWER_MORE) {
        size_t taken = 1;

        switch (answer->place) {
        case AT_HEAD:
            taken = take_head(answer, bytes, length, &progress);
            break;
        case AT_BODY:
        case AT_CHUNK_DATA:
        case AT_UNTIL_CLOSE:
            taken = answer->place == AT_UNTIL_CLOSE || length < answer->left ? length : (size_t)answer->left;
            if (body)
                body(context, bytes, taken);
            answer->body_bytes += taken;
            if (answer->place == AT_UNTIL_CLOSE)
                break;
            answer->left -= taken;
            if (answer->left)
                break;
            if (answer->place == AT_BODY)
                progress = ANSWER_DONE;
            answer->place = AT_CHUNK_END;
            break;
        case AT_CHUNK_SIZE:
        case AT_CHUNK_END:
        case AT_LAST_LINE:
            progress = take_framing(answer, *bytes);
            break;
        }
        bytes += taken;
        length -= taken;
    }
    return progress;
}

enum answer_progress answer_closed(const struct answer *answer)
{
    return answer->place == AT_UNTIL_CLOSE ? ANSWER_DONE : ANSWER_BROKEN;
}
