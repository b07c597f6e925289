/*
 * An ordered list of header fields, as they came or will go out.
 *
 * Names keep their spelling and compare without case; repeated names stay, in order. The slices point into the arena given
 * at headers_init, or are borrowed from the caller for headers_add_borrowed. Thread: whoever owns the arena.
 */
#ifndef HTTP_HEADERS_H
#define HTTP_HEADERS_H

#include "runtime/arena.h"

struct header {
    coord_slice name;
    coord_slice value;
};

struct headers {
    struct arena *arena;
    struct header *list;
    size_t count;
    size_t capacity;
};

void headers_init(struct headers *headers, struct arena *arena);

/* Appends; copies name and value into the arena. False when memory is short. */
bool headers_add(struct headers *headers, coord_slice name, coord_slice value) __attribute__((warn_unused_result));
/* Appends without copying: both live as long as the list. */
bool headers_add_borrowed(struct headers *headers, coord_slice name, coord_slice value)
    __attribute__((warn_unused_result));
/* Removes every field of that name, then appends one. */
bool headers_set(struct headers *headers, coord_slice name, coord_slice value) __attribute__((warn_unused_result));
/* Removes every field of that name; the number removed. */
size_t headers_remove(struct headers *headers, coord_slice name);
/* The first field of that name, or NULL. */
const struct header *headers_find(const struct headers *headers, coord_slice name);
/* How many fields have that name. */
size_t headers_count(const struct headers *headers, coord_slice name);
/* True when the comma-separated list in any field `name` holds `token` (no case, parameters after ';' ignored). */
bool headers_has_token(const struct headers *headers, coord_slice name, coord_slice token);
/* Removes hop-by-hop fields: those of RFC 9110 7.6.1 and each that a Connection field names. Keeps the rest in order. */
void headers_drop_hop_by_hop(struct headers *headers);
/* Copies all fields of `from`. */
bool headers_copy(struct headers *headers, const struct headers *from) __attribute__((warn_unused_result));

/* ASCII case-insensitive comparison. */
bool header_names_alike(const char *a, const char *b,
                        size_t size); /* the part of header_name_equal that looks at the bytes */
static inline bool header_name_equal(coord_slice a, coord_slice b)
{
    return a.size == b.size && header_names_alike(a.data, b.data, a.size);
}
bool header_name_is(coord_slice name, const char *text);
/* RFC 9110: a token; and a value without CR, LF, NUL (other bytes as they are). */
bool header_name_valid(coord_slice name);
bool header_value_valid(coord_slice value);

#endif
