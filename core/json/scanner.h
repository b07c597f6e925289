/*
 * A strict JSON scanner (RFC 8259) that validates and finds spans, and never builds anything.
 *
 * Two ways of use: json_validate walks untrusted bytes once, with an explicit stack (no recursion), and optionally notes the
 * members of the top-level object (scanner.c), as json_count_ids does for token ids (integers.c); the others go through text that was validated before and need
 * not check again (walker.c).
 * Thread: any; no state outside the arguments.
 */
#ifndef JSON_SCANNER_H
#define JSON_SCANNER_H

#include <coordinator/base.h>

enum { JSON_MAX_DEPTH = 512 };

/* A value inside a text: bytes [begin, end). */
struct json_span {
    size_t begin;
    size_t end;
};

/* Its bytes. */
static inline coord_slice json_slice(coord_slice text, struct json_span span)
{
    return (coord_slice){text.data + span.begin, span.end - span.begin};
}

struct json_member {
    struct json_span key; /* with its quotes; begin = end for array elements */
    struct json_span value;
    bool escaped; /* an escape stands in the key; only json_validate tells */
};

/* What was wrong, and at which byte. `reason` is a constant such as "control character in a string". */
struct json_error {
    size_t offset;
    const char *reason;
    bool memory; /* the text may be right, but memory is short */
};

/* Called for each member of the top-level object (or element of the top-level array) in order; false stops with "memory is short". */
typedef bool json_member_fn(void *context, const struct json_member *member);

/* True when `text` is exactly one JSON value with white space around it. `error` and `member` may be NULL. */
bool json_validate(coord_slice text, struct json_error *error, json_member_fn *member, void *context);

/* The same for a value that is to stand inside others: it may nest `max_depth` levels, and never more than JSON_MAX_DEPTH. */
bool json_validate_within(coord_slice text, size_t max_depth, struct json_error *error, json_member_fn *member,
                          void *context);

/* COORD_JSON_… of the value that begins at `text.data[at]` (a validated text). */
int32_t json_type_at(coord_slice text, size_t at);

static inline bool json_is_space(unsigned char byte)
{
    return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

/* First byte at or after `at` that is no white space. */
size_t json_skip_space(coord_slice text, size_t at);

/* End of the value that begins at `at` (validated text). Must go through long arrays of numbers and long strings quickly. */
size_t json_skip_value(coord_slice text, size_t at);

/*
 * Iterates the members of the object, or elements of the array, that begins at `container` (validated text). `*cursor`
 * starts at 0. False when there are no more.
 */
bool json_next_member(coord_slice text, size_t container, size_t *cursor, struct json_member *member);

/* The member (or element) that begins at `at`: at its key in an object, at its value in an array. */
struct json_member json_member_at(coord_slice text, bool object, size_t at);

/* Where the member after the one whose value ends at `end` begins; 0 when that was the last. */
size_t json_after_member(coord_slice text, size_t end);

/* Number of members or elements of the container that begins at `at`. */
size_t json_count_members(coord_slice text, size_t at);

/* True when the quoted string that begins at `at` (validated text) says `name` once unescaped. */
bool json_key_at_is(coord_slice text, size_t at, coord_slice name);

/* True when the quoted string `key` (with its quotes, validated) says `name` once unescaped. */
bool json_key_is(coord_slice key, coord_slice name);

/*
 * Unescapes the quoted string `quoted` into `out`, which has room for at least quoted.size bytes, and returns the length.
 * Lone surrogate escapes become U+FFFD. Without a backslash the caller may use the bytes between the quotes as they are.
 */
size_t json_unescape(coord_slice quoted, char *out);

/* True when `text` (which may be anything) is an array of integers 0 … 2^53 and nothing but white space behind it: counts them. */
bool json_count_ids(coord_slice text, uint64_t *count);

#endif
