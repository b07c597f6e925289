/*
 * An ordered list of header fields, as they came or will go out.
 *
 * Names keep their spelling and compare without case; repeated names stay, in order. The slices point into the arena given
 * at headers_init, or are borrowed from the caller for headers_add_borrowed. Thread: whoever owns the arena.
 */
#ifndef HTTP_HEADERS_H
#define HTTP_HEADERS_H

#include "runtime/arena.h"

/* The names that the core treats in a way of their own, in order of their sizes; any other is HEADER_OTHER. */
enum header_kind {
    HEADER_OTHER,
    HEADER_TE,
    HEADER_HOST,
    HEADER_COOKIE,
    HEADER_EXPECT,
    HEADER_PREFER,
    HEADER_TRAILER,
    HEADER_UPGRADE,
    HEADER_CONNECTION,
    HEADER_KEEP_ALIVE,
    HEADER_TRACE_STATE,
    HEADER_TRACE_PARENT,
    HEADER_CONTENT_TYPE,
    HEADER_REQUEST_ID,
    HEADER_AUTHORIZATION,
    HEADER_CONTENT_LENGTH,
    HEADER_ACCEPT_ENCODING,
    HEADER_PEER_TOPOLOGY,
    HEADER_CONTENT_ENCODING,
    HEADER_PROXY_CONNECTION,
    HEADER_TRANSFER_ENCODING,
    HEADER_PROXY_AUTHENTICATE,
    HEADER_PROXY_AUTHORIZATION,
    HEADER_PIN_HOST_PORT,
    HEADER_PREFILL_PIN_HOST_PORT,
    HEADER_PARENT_REQUEST_ID,
    HEADER_DECISION_ID,
    HEADER_KINDS
};

struct header {
    coord_slice name;
    coord_slice value;
    enum header_kind kind; /* of the name, told as the field is added to a list; outside of lists it may be missing */
    bool checked;          /* header_field_valid has found it good, and the kind is told */
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
/* The same for the name of a kind, which is written in small letters. */
bool headers_add_known(struct headers *headers, enum header_kind kind, coord_slice value)
    __attribute__((warn_unused_result));
/* The same with a field of another list, or one whose kind is set. */
bool headers_add_field(struct headers *headers, const struct header *field) __attribute__((warn_unused_result));
/* Makes room for `more` fields and no more; false when memory is short. Without it the list grows by doubling. */
bool headers_reserve(struct headers *headers, size_t more) __attribute__((warn_unused_result));
/* Removes every field of that name, then appends one. */
bool headers_set(struct headers *headers, coord_slice name, coord_slice value) __attribute__((warn_unused_result));
/* Removes every field of that name; the number removed. */
size_t headers_remove(struct headers *headers, coord_slice name);
/* The first field of that name, or NULL. */
const struct header *headers_find(const struct headers *headers, coord_slice name);
/* The first field of that kind, which is not HEADER_OTHER, or NULL. */
const struct header *headers_first(const struct headers *headers, enum header_kind kind);
/* How many fields have that name. */
size_t headers_count(const struct headers *headers, coord_slice name);
/* True when the comma-separated list in any field `name` holds `token` (no case, parameters after ';' ignored). */
bool headers_has_token(const struct headers *headers, coord_slice name, coord_slice token);
/* Removes hop-by-hop fields: those of RFC 9110 7.6.1 and each that a Connection field names. Keeps the rest in order. */
void headers_drop_hop_by_hop(struct headers *headers);
/* Gives all fields names and values of their own, in one piece of memory; false when it is short, and nothing has changed. */
bool headers_own(struct headers *headers) __attribute__((warn_unused_result));
/* Copies all fields of `from`, in one piece of memory. */
bool headers_copy(struct headers *headers, const struct headers *from) __attribute__((warn_unused_result));

/* The kind of a name, in letters of any case. */
enum header_kind header_kind_of(coord_slice name);

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
/* Both, for a field whose kind is told; a field that is `checked` is not looked at again. */
bool header_field_valid(const struct header *field);

#endif
