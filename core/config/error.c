/* See error.h. */
#include "config/error.h"

#include <stdio.h>

enum { MESSAGE_MAX = 2048 };

coord_status coord_error_set(coord_error *error, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list arguments;

    if (!error || error->set)
        return COORD_FAIL;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    error->set = buffer_append_text(&error->message, message);
    return COORD_FAIL;
}

coord_slice error_message(const struct coord_error *error, const char *otherwise)
{
    return error->set ? buffer_slice(&error->message) : coord_slice_of(otherwise);
}

void error_release(struct coord_error *error)
{
    buffer_release(&error->message);
    *error = (struct coord_error){0};
}
