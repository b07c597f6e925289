/*
 * See buffer.h. One byte more than `capacity` is allocated: formatting writes a NUL after the text, and the text may reach
 * the cap.
 */
#include "buffer.h"

#include "runtime/blocks.h"

#include <assert.h>
#include <stdio.h>

enum { STEP = 256 }; /* blocks are a multiple of it, or twice what was there */

static const size_t LARGEST = PTRDIFF_MAX - 1; /* no object is larger */

/* Nearly always, once a buffer has its memory. The limit may have been set after that. */
static inline bool has_room(const struct buffer *buffer, size_t more)
{
    return more <= buffer->capacity - buffer->size && (!buffer->limit || more <= buffer->limit - buffer->size);
}

bool buffer_reserve(struct buffer *buffer, size_t more)
{
    size_t limit = buffer->limit && buffer->limit < LARGEST ? buffer->limit : LARGEST;
    size_t capacity = 2 * buffer->capacity + 1;
    size_t need;
    char *data;

    if (more > limit - buffer->size)
        return false;
    need = buffer->size + more;
    if (need <= buffer->capacity)
        return true;
    if (capacity <= need)
        capacity = need | (STEP - 1);
    if (capacity > limit)
        capacity = limit;
    data = block_enlarge(buffer->data, buffer->data ? buffer->capacity + 1 : 0, buffer->size, capacity + 1);
    if (!data)
        return false;
    buffer->data = data;
    buffer->capacity = capacity;
    return true;
}

bool buffer_append(struct buffer *buffer, const void *data, size_t size)
{
    if (size == 0)
        return true;
    if (!has_room(buffer, size) && !buffer_reserve(buffer, size))
        return false;
    memcpy(buffer->data + buffer->size, data, size);
    buffer->size += size;
    return true;
}

bool buffer_append_slice(struct buffer *buffer, coord_slice slice)
{
    return buffer_append(buffer, slice.data, slice.size);
}

bool buffer_append_text(struct buffer *buffer, const char *text) { return buffer_append(buffer, text, strlen(text)); }

bool buffer_vprintf(struct buffer *buffer, const char *format, va_list arguments)
{
    va_list again;
    int size;

    va_copy(again, arguments);
    size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    if (size < 0 || !buffer_reserve(buffer, (size_t)size))
        return false;
    if (size == 0)
        return true; /* there may be no memory yet */
    vsnprintf(buffer->data + buffer->size, (size_t)size + 1, format, arguments);
    buffer->size += (size_t)size;
    return true;
}

bool buffer_printf(struct buffer *buffer, const char *format, ...)
{
    va_list arguments;
    bool done;

    va_start(arguments, format);
    done = buffer_vprintf(buffer, format, arguments);
    va_end(arguments);
    return done;
}

bool buffer_explain(struct buffer *reason, const char *format, ...)
{
    va_list arguments;

    reason->size = 0;
    va_start(arguments, format);
    if (!buffer_vprintf(reason, format, arguments))
        reason->size = 0;
    va_end(arguments);
    return false;
}

void buffer_drop(struct buffer *buffer, size_t size)
{
    assert(size <= buffer->size);
    buffer->size -= size;
    if (buffer->size > 0)
        memmove(buffer->data, buffer->data + size, buffer->size);
}

void buffer_clear(struct buffer *buffer, size_t keep)
{
    buffer->size = 0;
    if (buffer->capacity > keep)
        buffer_release(buffer);
}

void buffer_release(struct buffer *buffer)
{
    if (!buffer->data)
        return;
    block_give(buffer->data, buffer->capacity + 1);
    buffer->data = NULL;
    buffer->size = 0;
    buffer->capacity = 0;
}

char *buffer_take(struct buffer *buffer, size_t *size)
{
    char *data = buffer->data;

    *size = buffer->size;
    buffer->data = NULL;
    buffer->size = 0;
    buffer->capacity = 0;
    return data;
}
