/*
 * JSON Pointers (RFC 6901), taken apart token by token. Thread: any; no state outside the arguments.
 */
#ifndef JSON_POINTER_H
#define JSON_POINTER_H

#include "runtime/buffer.h"

/* A walk over the tokens of a pointer. */
struct json_pointer {
    const char *rest, *end;
    bool escaped; /* a '~' stands in it */
    struct buffer unescaped;
};

/*
 * Stands before the first token. False: `pointer` is none, which is empty, or each token begins with '/' and '~' is followed by 0 or 1.
 * NULL is none. json_pointer_release when done.
 */
bool json_pointer_open(struct json_pointer *walk, const char *pointer);

/* Number of tokens that are left: how deep the place lies below. */
size_t json_pointer_depth(const struct json_pointer *walk);

/* The next token, unescaped, valid until the next call. COORD_OK, COORD_END after the last, COORD_NO_MEMORY. */
coord_status json_pointer_next(struct json_pointer *walk, coord_slice *token) COORD_MUST_CHECK;

/* True when another token follows. */
static inline bool json_pointer_more(const struct json_pointer *walk) { return walk->rest < walk->end; }

static inline void json_pointer_release(struct json_pointer *walk)
{
    if (walk->unescaped.data)
        buffer_release(&walk->unescaped);
}

/* The token as an array index; false when it is none (a sign, a leading zero, "-", too large). */
bool json_pointer_index(coord_slice token, size_t *index);

#endif
