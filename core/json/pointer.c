/* See pointer.h. */
#include "json/pointer.h"

bool json_pointer_valid(const char *pointer)
{
    if (!pointer || (*pointer != '\0' && *pointer != '/'))
        return false;
    for (; *pointer; pointer++)
        if (*pointer == '~' && pointer[1] != '0' && pointer[1] != '1')
            return false;
    return true;
}

size_t json_pointer_depth(const char *pointer)
{
    size_t depth = 0;

    for (; *pointer; pointer++)
        depth += *pointer == '/';
    return depth;
}

static bool unescape(struct buffer *buffer, coord_slice token)
{
    buffer->size = 0;
    if (!buffer_reserve(buffer, token.size))
        return false;
    for (size_t i = 0; i < token.size; i++) {
        char byte = token.data[i];

        if (byte == '~')
            byte = token.data[++i] == '0' ? '~' : '/';
        buffer->data[buffer->size++] = byte;
    }
    return true;
}

coord_status json_pointer_next(struct json_pointer *pointer, coord_slice *token)
{
    size_t size;

    if (!json_pointer_more(pointer))
        return COORD_END;
    size = strcspn(pointer->rest + 1, "/");
    *token = (coord_slice){pointer->rest + 1, size};
    pointer->rest += 1 + size;
    if (size == 0 || !memchr(token->data, '~', size))
        return COORD_OK;
    if (!unescape(&pointer->unescaped, *token))
        return COORD_NO_MEMORY;
    *token = buffer_slice(&pointer->unescaped);
    return COORD_OK;
}

bool json_pointer_index(coord_slice token, size_t *index)
{
    size_t value = 0;

    if (token.size == 0 || (token.size > 1 && token.data[0] == '0'))
        return false;
    for (size_t i = 0; i < token.size; i++) {
        unsigned digit = (unsigned char)token.data[i] - (unsigned)'0';

        if (digit > 9 || value > (SIZE_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *index = value;
    return true;
}
