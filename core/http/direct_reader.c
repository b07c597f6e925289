/* See direct_reader.h. A line that lies whole in the bytes is given out from there; only one that is cut is copied. */
#include "direct_reader.h"

enum { KEPT_LINE = 4 * 1024 };

static const char no_memory[] = "out of memory";

void direct_reader_begin(struct direct_reader *reader)
{
    buffer_clear(&reader->line, KEPT_LINE);
    reader->line_given = reader->in_body = false;
    reader->first_line = true;
}

void direct_reader_release(struct direct_reader *reader) { buffer_release(&reader->line); }

bool direct_reader_lent(const struct direct_reader *reader) { return !reader->line_given; }

bool direct_reader_whole(const struct direct_reader *reader)
{
    return reader->in_body && direct_body_whole(&reader->body);
}

void direct_reader_head_over(struct direct_reader *reader, const struct answer_head *head, bool to_head)
{
    reader->in_body = true;
    direct_body_begin(&reader->body, head, to_head);
}

static enum direct_reading bad(const char **reason, const char *why)
{
    *reason = why;
    return READING_BAD;
}

/* A peer that speaks another protocol may never send a line end. */
static bool may_become_http(coord_slice begun)
{
    static const char start[] = "HTTP/1.";
    size_t size = begun.size < sizeof start - 1 ? begun.size : sizeof start - 1;

    return memcmp(begun.data, start, size) == 0;
}

static enum direct_reading keep_line(struct direct_reader *reader, coord_slice *bytes, const char **reason)
{
    if (bytes->size == 0)
        return READING_MORE;
    if (reader->line.size + bytes->size > ANSWER_HEAD_LIMIT)
        return bad(reason, "the head of the answer is larger than 64 KiB");
    if (!buffer_append_slice(&reader->line, *bytes))
        return bad(reason, no_memory);
    *bytes = (coord_slice){bytes->data + bytes->size, 0};
    if (reader->first_line && !may_become_http(buffer_slice(&reader->line)))
        return bad(reason, "the answer is not HTTP/1");
    return READING_MORE;
}

static enum direct_reading next_line(struct direct_reader *reader, coord_slice *bytes, coord_slice *piece,
                                     const char **reason)
{
    const char *end = bytes->size > 0 ? memchr(bytes->data, '\n', bytes->size) : NULL;

    if (reader->line_given)
        buffer_clear(&reader->line, KEPT_LINE);
    reader->line_given = false;
    if (!end)
        return keep_line(reader, bytes, reason);
    *piece = (coord_slice){bytes->data, (size_t)(end + 1 - bytes->data)};
    bytes->size -= piece->size;
    bytes->data = end + 1;
    if (reader->line.size > 0) {
        if (!buffer_append_slice(&reader->line, *piece))
            return bad(reason, no_memory);
        *piece = buffer_slice(&reader->line);
        reader->line_given = true;
    }
    reader->first_line = false;
    return READING_LINE;
}

enum direct_reading direct_reader_next(struct direct_reader *reader, coord_slice *bytes, coord_slice *piece,
                                       const char **reason)
{
    if (!reader->in_body)
        return next_line(reader, bytes, piece, reason);
    switch (direct_body_next(&reader->body, bytes, piece, reason)) {
    case BODY_DATA:
        return READING_DATA;
    case BODY_WHOLE:
        return READING_WHOLE;
    case BODY_BAD:
        return READING_BAD;
    case BODY_MORE:
        break;
    }
    return READING_MORE;
}

enum direct_reading direct_reader_end(const struct direct_reader *reader, const char **reason)
{
    if (!reader->in_body)
        return bad(reason, "the answer ended in its head");
    return direct_body_end(&reader->body, reason) == BODY_WHOLE ? READING_WHOLE : READING_BAD;
}
