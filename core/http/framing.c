/* See framing.h. */
#include "framing.h"

struct framing_fields {
    const struct header *host, *length, *coding;
    unsigned hosts, lengths, codings;
};

static bool parse_length(coord_slice digits, int64_t *length)
{
    int64_t value = 0;

    for (size_t i = 0; i < digits.size; i++) {
        int digit = digits.data[i] - '0';

        if (digit < 0 || digit > 9 || value > (INT64_MAX - digit) / 10)
            return false;
        value = 10 * value + digit;
    }
    *length = value;
    return digits.size > 0;
}

/* False when a name is no token; those that have a kind are. */
static bool collect(struct headers *headers, struct framing_fields *fields)
{
    for (size_t i = 0; i < headers->count; i++) {
        struct header *header = &headers->list[i];

        header->checked = header_field_valid(header);
        switch (header->kind) {
        case HEADER_OTHER:
            if (!header->checked && !header_name_valid(header->name))
                return false;
            break;
        case HEADER_HOST:
            fields->host = header;
            fields->hosts++;
            break;
        case HEADER_CONTENT_LENGTH:
            fields->length = header;
            fields->lengths++;
            break;
        case HEADER_TRANSFER_ENCODING:
            fields->coding = header;
            fields->codings++;
            break;
        default:
            break;
        }
    }
    return true;
}

const char *framing_check(bool http10, struct headers *headers, int64_t *declared)
{
    struct framing_fields fields = {0};

    *declared = 0;
    if (!collect(headers, &fields))
        return "a header field name is not a token";
    if (fields.hosts > 1)
        return "Host is given more than once";
    if (fields.hosts == 0 && !http10)
        return "Host is missing";
    if (fields.lengths > 1)
        return "Content-Length is given more than once";
    if (fields.lengths && fields.codings)
        return "Content-Length and Transfer-Encoding exclude each other";
    if (fields.codings > 1)
        return "Transfer-Encoding is given more than once";
    if (fields.codings && http10)
        return "Transfer-Encoding does not exist in HTTP/1.0";
    if (fields.codings && !header_name_is(fields.coding->value, "chunked"))
        return "Transfer-Encoding is not exactly \"chunked\"";
    if (fields.lengths && !parse_length(fields.length->value, declared))
        return "Content-Length is not a number";
    if (fields.codings)
        *declared = -1;
    return NULL;
}
