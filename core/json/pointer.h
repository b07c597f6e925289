/*
 * JSON Pointers (RFC 6901), taken apart token by token. Thread: any; no state outside the arguments.
 */
#ifndef JSON_POINTER_H
#define JSON_POINTER_H

#include "runtime/buffer.h"

/* A walk over the tokens. {.rest = pointer} stands before the first; json_pointer_release when done. */
struct json_pointer {
    const char *rest;
    struct buffer unescaped;
};

/* True when `pointer` is one: empty, or each token begins with '/' and '~' is followed by 0 or 1. NULL is none. */
bool json_pointer_valid(const char *pointer);

/* Number of tokens of a valid pointer: how deep its place lies. */
size_t json_pointer_depth(const char *pointer);

/*
 * The next token, unescaped, valid until the next call. COORD_OK, COORD_END after the last, COORD_NO_MEMORY. The pointer must
 * be valid.
 */
coord_status json_pointer_next(struct json_pointer *pointer, coord_slice *token) COORD_MUST_CHECK;

/* True when another token follows. */
static inline bool json_pointer_more(const struct json_pointer *pointer) { return *pointer->rest != '\0'; }

static inline void json_pointer_release(struct json_pointer *pointer) { buffer_release(&pointer->unescaped); }

/* The token as an array index; false when it is none (a sign, a leading zero, "-", too large). */
bool json_pointer_index(coord_slice token, size_t *index);

#endif
