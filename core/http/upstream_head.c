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

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

void answer_head_begin(struct answer_head *head)
{
    arena_reset(&head->arena);
    headers_init(&head->headers, &head->arena);
    head->bytes = head->owned = 0;
    head->length = -1;
    head->status = 0;
    head->began = head->complete = head->chunked = head->old = head->connection = head->closing = false;
}

void answer_head_release(struct answer_head *head)
{
    arena_release(&head->arena);
    headers_init(&head->headers, &head->arena);
    head->owned = 0;
}

/* "HTTP/1.1 200 reason", where the reason and the space before it may be missing. There are no statuses but 1xx to 5xx. */
static bool read_status_line(struct answer_head *head, coord_slice line)
{
    const char *at = line.data;

    if (line.size < 12 || memcmp(at, "HTTP/1.", 7) != 0 || (at[7] != '0' && at[7] != '1') || at[8] != ' ' ||
        !is_digit(at[9]) || !is_digit(at[10]) || !is_digit(at[11]) || (line.size > 12 && at[12] != ' ') ||
        !header_value_valid(line))
        return false;
    head->old = at[7] == '0';
    head->status = (at[9] - '0') * 100 + (at[10] - '0') * 10 + (at[11] - '0');
    return head->status >= 100 && head->status <= 599;
}

/* Digits only, so that what is passed on and what was read are the same number. */
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
    head->length = length;
    return true;
}

static enum answer_line refuse(const char **reason, const char *why)
{
    *reason = why;
    return ANSWER_REFUSED;
}

static const char *read_framing(struct answer_head *head, const struct header *field)
{
    static const coord_slice usual = COORD_SLICE("keep-alive");

    switch (field->kind) {
    case HEADER_CONNECTION:
        head->connection |= !header_name_equal(field->value, usual);
        break;
    case HEADER_CONTENT_LENGTH:
        if (head->length >= 0)
            return "the answer has more than one Content-Length";
        if (!read_length(head, field->value))
            return "the answer has an invalid Content-Length";
        break;
    case HEADER_TRANSFER_ENCODING:
        if (head->chunked || head->old || !header_name_is(field->value, "chunked"))
            return "the answer has a Transfer-Encoding other than chunked";
        head->chunked = true;
        break;
    default:
        return NULL;
    }
    return head->chunked && head->length >= 0 ? "the answer has both a Transfer-Encoding and a Content-Length" : NULL;
}

static bool keep_field(struct answer_head *head, const struct header *field)
{
    return head->borrowed ? headers_add_field(&head->headers, field)
                          : headers_add(&head->headers, field->name, field->value);
}

static enum answer_line take_field(struct answer_head *head, coord_slice line, const char **reason)
{
    const char *colon = memchr(line.data, ':', line.size);
    struct header field = {0};

    if (is_space(line.data[0]))
        return refuse(reason, "the answer has a folded header line");
    if (!colon)
        return refuse(reason, "the answer has a header line without a colon");
    field.name = (coord_slice){line.data, (size_t)(colon - line.data)};
    field.value = trim((coord_slice){colon + 1, line.size - field.name.size - 1});
    field.kind = header_kind_of(field.name);
    field.checked = header_field_valid(&field);
    if (!field.checked)
        return refuse(reason, "the answer has an invalid header line");
    if (head->headers.count == ANSWER_FIELD_LIMIT)
        return refuse(reason, "the answer has too many header lines");
    *reason = read_framing(head, &field);
    if (*reason)
        return ANSWER_REFUSED;
    return keep_field(head, &field) ? ANSWER_MORE : refuse(reason, "out of memory");
}

static enum answer_line take_status_line(struct answer_head *head, coord_slice line, const char **reason)
{
    size_t bytes = head->bytes;

    answer_head_begin(head);
    head->began = true;
    head->bytes = bytes;
    if (!read_status_line(head, line))
        return refuse(reason, "the answer has an invalid status line");
    if (head->status == 101)
        return refuse(reason, "the upstream switched protocols unasked");
    return ANSWER_MORE;
}

enum answer_line answer_head_line(struct answer_head *head, coord_slice line, const char **reason)
{
    static const coord_slice connection = COORD_SLICE("connection"), close = COORD_SLICE("close");
    coord_slice text;

    if (head->complete)
        return ANSWER_MORE;
    if (line.size < 2 || memcmp(line.data + line.size - 2, "\r\n", 2) != 0)
        return refuse(reason, "the answer has a header line that does not end with CR and LF");
    text = (coord_slice){line.data, line.size - 2};
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
    head->closing = head->connection && headers_has_token(&head->headers, connection, close);
    return ANSWER_COMPLETE;
}

bool answer_head_own(struct answer_head *head)
{
    for (; head->owned < head->headers.count; head->owned++) {
        struct header *field = &head->headers.list[head->owned];

        field->name = arena_copy(&head->arena, field->name);
        field->value = arena_copy(&head->arena, field->value);
        if (!field->name.data || !field->value.data)
            return false;
    }
    return true;
}

bool answer_head_has_body(const struct answer_head *head, bool to_head)
{
    return !to_head && head->status != 204 && head->status != 304;
}

bool answer_head_keeps_connection(const struct answer_head *head) { return !head->old && !head->closing; }

bool answer_head_close_delimited(const struct answer_head *head, bool to_head)
{
    return answer_head_has_body(head, to_head) && !head->chunked && head->length < 0;
}

int64_t answer_head_length(const struct answer_head *head) { return head->length; }
