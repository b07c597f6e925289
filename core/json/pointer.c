/* See pointer.h. */
#include "json/pointer.h"

bool json_pointer_open(struct json_pointer *walk, const char *pointer)
{
    size_t size = pointer ? strlen(pointer) : 0;

    if (!pointer || (size > 0 && *pointer != '/'))
        return false;
    *walk = (struct json_pointer){
        .rest = pointer, .end = pointer + size, .escaped = size > 0 && memchr(pointer, '~', size)};
    if (!walk->escaped)
        return true;
    for (; *pointer; pointer++)
        if (*pointer == '~' && pointer[1] != '0' && pointer[1] != '1')
            return false;
    return true;
}

size_t json_pointer_depth(const struct json_pointer *walk)
{
    size_t depth = 0;

    for (const char *at = walk->rest; at && at < walk->end; depth++)
        at = memchr(at + 1, '/', (size_t)(walk->end - at - 1));
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

coord_status json_pointer_next(struct json_pointer *walk, coord_slice *token)
{
    const char *begin = walk->rest + 1, *end;

    if (!json_pointer_more(walk))
        return COORD_END;
    end = memchr(begin, '/', (size_t)(walk->end - begin));
    walk->rest = end ? end : walk->end;
    *token = (coord_slice){begin, (size_t)(walk->rest - begin)};
    if (!walk->escaped || token->size == 0 || !memchr(begin, '~', token->size))
        return COORD_OK;
    if (!unescape(&walk->unescaped, *token))
        return COORD_NO_MEMORY;
    *token = buffer_slice(&walk->unescaped);
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
