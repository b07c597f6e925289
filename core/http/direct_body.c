/* See direct_body.h. Chunks are read by a machine that takes their lines byte by byte and their data in one piece. */
#include "direct_body.h"

enum state {
    SIZE_BEGIN,
    SIZE,
    SIZE_SPACE, /* only an extension may follow */
    EXTENSION,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_BEGIN,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,
    WHOLE
};

static const char bad_size[] = "the answer has an invalid chunk size";
static const char bad_line[] = "the answer has an invalid chunk line";
static const char bad_data[] = "the answer has a chunk that is not as long as it says";
static const char bad_trailer[] = "the answer has an invalid trailer";

void direct_body_begin(struct direct_body *body, const struct answer_head *head, bool to_head)
{
    *body = (struct direct_body){.kind = BODY_TO_THE_END, .state = SIZE_BEGIN};
    if (!answer_head_has_body(head, to_head)) {
        body->kind = BODY_NONE;
    } else if (head->chunked) {
        body->kind = BODY_CHUNKS;
    } else if (head->length >= 0) {
        body->kind = BODY_LENGTH;
        body->left = head->length;
    }
}

bool direct_body_whole(const struct direct_body *body)
{
    switch (body->kind) {
    case BODY_NONE:
        return true;
    case BODY_LENGTH:
        return body->left == 0;
    case BODY_CHUNKS:
        return body->state == WHOLE;
    case BODY_TO_THE_END:
        break;
    }
    return false;
}

/* Chunks. A step returns NULL, or why the byte may not stand there. */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const char *to(struct direct_body *body, enum state state)
{
    body->state = (int)state;
    return NULL;
}

static const char *expect(struct direct_body *body, char c, char wanted, enum state state, const char *otherwise)
{
    return c == wanted ? to(body, state) : otherwise;
}

static const char *after_size(struct direct_body *body, char c)
{
    switch (c) {
    case '\r':
        return body->state == SIZE ? to(body, SIZE_LF) : bad_line;
    case ';':
        return to(body, EXTENSION);
    case ' ':
    case '\t':
        return to(body, SIZE_SPACE);
    default:
        return body->state == SIZE ? bad_size : bad_line;
    }
}

static const char *in_size(struct direct_body *body, char c)
{
    int digit = hex_digit(c);

    if (digit < 0)
        return body->state == SIZE_BEGIN ? bad_size : after_size(body, c);
    if (body->left > INT64_MAX >> 4)
        return "the answer has a chunk that is too large";
    body->left = body->left << 4 | digit;
    return to(body, SIZE);
}

/* Text that is skipped up to its line end. */
static const char *in_text(struct direct_body *body, char c, enum state end, const char *otherwise)
{
    if (c == '\r')
        return to(body, end);
    return c == '\n' || c == '\0' ? otherwise : NULL;
}

static const char *after_size_line(struct direct_body *body, char c)
{
    body->skipped = 0;
    return expect(body, c, '\n', body->left > 0 ? DATA : TRAILER_BEGIN, bad_line);
}

static const char *in_trailer_name(struct direct_body *body, char c)
{
    if (header_name_valid((coord_slice){&c, 1}))
        return to(body, TRAILER_NAME);
    if (body->state == TRAILER_BEGIN)
        return expect(body, c, '\r', LAST_LF, bad_trailer);
    return expect(body, c, ':', TRAILER_VALUE, bad_trailer);
}

static const char *take_byte(struct direct_body *body, char c)
{
    switch ((enum state)body->state) {
    case SIZE_BEGIN:
    case SIZE:
        return in_size(body, c);
    case SIZE_SPACE:
        return after_size(body, c);
    case EXTENSION:
        return in_text(body, c, SIZE_LF, bad_line);
    case SIZE_LF:
        return after_size_line(body, c);
    case DATA_CR:
        return expect(body, c, '\r', DATA_LF, bad_data);
    case DATA_LF:
        return expect(body, c, '\n', SIZE_BEGIN, bad_data);
    case TRAILER_BEGIN:
    case TRAILER_NAME:
        return in_trailer_name(body, c);
    case TRAILER_VALUE:
        return in_text(body, c, TRAILER_LF, bad_trailer);
    case TRAILER_LF:
        return expect(body, c, '\n', TRAILER_BEGIN, bad_trailer);
    case LAST_LF:
        return expect(body, c, '\n', WHOLE, bad_trailer);
    case DATA:
    case WHOLE:
        break;
    }
    return bad_line;
}

static const char *over_limit(const struct direct_body *body)
{
    if (body->state < DATA)
        return body->skipped > CHUNK_LINE_LIMIT ? "the answer has a chunk line that is too long" : NULL;
    return body->skipped > TRAILER_LIMIT ? "the trailers of the answer are too large" : NULL;
}

static coord_slice cut(coord_slice *bytes, size_t size)
{
    coord_slice part = {bytes->data, size};

    bytes->data += size;
    bytes->size -= size;
    return part;
}

static enum direct_body_step take_data(struct direct_body *body, coord_slice *bytes, coord_slice *data)
{
    bool all = (uint64_t)body->left > bytes->size;

    *data = cut(bytes, all ? bytes->size : (size_t)body->left);
    body->left -= (int64_t)data->size;
    return BODY_DATA;
}

static enum direct_body_step next_of_chunks(struct direct_body *body, coord_slice *bytes, coord_slice *data,
                                            const char **reason)
{
    while (bytes->size > 0 && body->state != WHOLE) {
        if (body->state == DATA) {
            take_data(body, bytes, data);
            if (body->left == 0)
                body->state = DATA_CR;
            return BODY_DATA;
        }
        body->skipped++;
        *reason = take_byte(body, *cut(bytes, 1).data);
        if (!*reason)
            *reason = over_limit(body);
        if (*reason)
            return BODY_BAD;
    }
    return body->state == WHOLE ? BODY_WHOLE : BODY_MORE;
}

enum direct_body_step direct_body_next(struct direct_body *body, coord_slice *bytes, coord_slice *data,
                                       const char **reason)
{
    if (body->kind == BODY_CHUNKS)
        return next_of_chunks(body, bytes, data, reason);
    if (direct_body_whole(body))
        return BODY_WHOLE;
    if (bytes->size == 0)
        return BODY_MORE;
    if (body->kind == BODY_LENGTH)
        return take_data(body, bytes, data);
    *data = cut(bytes, bytes->size);
    return BODY_DATA;
}

enum direct_body_step direct_body_end(const struct direct_body *body, const char **reason)
{
    if (body->kind == BODY_TO_THE_END || direct_body_whole(body))
        return BODY_WHOLE;
    *reason = body->kind == BODY_LENGTH ? "the answer ended short of its length" : "the answer ended in its chunks";
    return BODY_BAD;
}
