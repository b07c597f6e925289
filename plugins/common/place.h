/*
 * Places of members of an object whose own place is known only when a request runs. Thread: any; no state.
 */
#ifndef COMMON_PLACE_H
#define COMMON_PLACE_H

#include <coordinator/base.h>

enum { PLACE_SIZE = 128 };

/*
 * Writes the JSON Pointer `above` with `member` ("/name") behind it to `at`, and returns that. NULL, which no document takes for
 * a pointer, where it has no room.
 */
static inline const char *place_of_member(char at[PLACE_SIZE], const char *above, const char *member)
{
    size_t before = strlen(above), size = strlen(member) + 1;

    if (before + size > PLACE_SIZE)
        return NULL;
    memcpy(at, above, before);
    memcpy(at + before, member, size);
    return at;
}

#endif
