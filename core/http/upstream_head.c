/* See upstream_head.h. */
#include "upstream_head.h"

static bool is_space(char c) { return c == ' ' || c == '\t'; }

static coord_slice trim(coord_slice text)
{
    while (text.size > 0 && is_space(text.data[0]))
        text = (coord_slice){text.data + 1, text.size - 1};
    while (text.size > 0 && is_space(text.data[text.size - 1]))
        text.size--;
    return text;
}

static coord_slice without_line_end(coord_slice line)
{
    if (line.size > 0 && line.data[line.size - 1] == '\n')
        line.size--;
    if (line.size > 0 && line.data[line.size - 1] == '\r')
        line.size--;
    return line;
}

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

void answer_head_begin(struct answer_head *head)
{
    arena_reset(&head->arena);
    headers_init(&head->headers, &head->arena);
    head->bytes = 0;
    head->length = -1;
    head->status = 0;
    head->began = head->complete = head->encoded = head->chunked = false;
}

void answer_head_release(struct answer_head *head) { arena_release(&head->arena); }

/* "HTTP/1.1 200 reason" */
static bool read_status_line(struct answer_head *head, coord_slice line)
{
    const char *at = memchr(line.data, ' ', line.size);
    const char *end = line.data + line.size;

    if (!at)
        return false;
    while (at < end && *at == ' ')
        at++;
    if (end - at < 3 || !is_digit(at[0]) || !is_digit(at[1]) || !is_digit(at[2]) || (end - at > 3 && at[3] != ' '))
        return false;
    head->status = (at[0] - '0') * 100 + (at[1] - '0') * 10 + (at[2] - '0');
    return head->status >= 100;
}

/* Digits only, so that what is passed on and what was read are the same number; repeated only if equal. */
static bool read_length(struct answer_head *head, coord_slice value)
{
    int64_t length = 0;

    if (value.size == 0 || value.size > 18)
        return false;
    for (size_t i = 0; i < value.size; i++) {
        if (!is_digit(value.data[i]))
            return false;
        length = length * 10 + (value.data[i] - '0');
    }
    if (head->length >= 0 && head->length != length)
        return false;
    head->length = length;
    return true;
}

/* Only the last coding says how the body is framed. */
static void read_encoding(struct answer_head *head, coord_slice value)
{
    size_t start = value.size;

    while (start > 0 && value.data[start - 1] != ',')
        start--;
    head->encoded = true;
    head->chunked = header_name_is(trim((coord_slice){value.data + start, value.size - start}), "chunked");
}

static enum answer_line refuse(const char **reason, const char *why)
{
    *reason = why;
    return ANSWER_REFUSED;
}

static enum answer_line take_field(struct answer_head *head, coord_slice line, const char **reason)
{
    const char *colon = memchr(line.data, ':', line.size);
    coord_slice name, value;

    if (is_space(line.data[0]))
        return refuse(reason, "the answer has a folded header line");
    if (!colon)
        return refuse(reason, "the answer has a header line without a colon");
    name = (coord_slice){line.data, (size_t)(colon - line.data)};
    value = trim((coord_slice){colon + 1, line.size - name.size - 1});
    if (!header_name_valid(name) || !header_value_valid(value))
        return refuse(reason, "the answer has an invalid header line");
    if (header_name_is(name, "content-length") && !read_length(head, value))
        return refuse(reason, "the answer has an invalid Content-Length");
    if (header_name_is(name, "transfer-encoding"))
        read_encoding(head, value);
    if (!headers_add(&head->headers, name, value))
        return refuse(reason, "out of memory");
    return ANSWER_MORE;
}

static enum answer_line take_status_line(struct answer_head *head, coord_slice line, const char **reason)
{
    size_t bytes = head->bytes;

    answer_head_begin(head);
    head->began = true;
    head->bytes = bytes;
    if (line.size < 5 || memcmp(line.data, "HTTP/", 5) != 0 || !read_status_line(head, line))
        return refuse(reason, "the answer has an invalid status line");
    if (head->status == 101)
        return refuse(reason, "the upstream switched protocols unasked");
    return ANSWER_MORE;
}

enum answer_line answer_head_line(struct answer_head *head, coord_slice line, const char **reason)
{
    coord_slice text = without_line_end(line);

    if (head->complete)
        return ANSWER_MORE;
    head->bytes += line.size;
    if (head->bytes > ANSWER_HEAD_LIMIT)
        return refuse(reason, "the head of the answer is larger than 64 KiB");
    if (head->status == 0)
        return take_status_line(head, text, reason);
    if (text.size > 0)
        return take_field(head, text, reason);
    if (head->status < 200) {
        head->status = 0; /* the next line begins another head */
        head->bytes = 0;
        return ANSWER_MORE;
    }
    head->complete = true;
    return ANSWER_COMPLETE;
}

static bool has_body(const struct answer_head *head, bool to_head)
{
    return !to_head && head->status != 204 && head->status != 304;
}

bool answer_head_close_delimited(const struct answer_head *head, bool to_head)
{
    return has_body(head, to_head) && !head->chunked && (head->encoded || head->length < 0);
}

int64_t answer_head_length(const struct answer_head *head) { return head->encoded ? -1 : head->length; }
