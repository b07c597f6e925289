/*
 * A JSON reader that works on the raw text: it validates strictly (RFC 8259, UTF-8, no duplicates check), and finds
 * members and elements as borrowed pieces of that text, never as converted values, so that bytes can be compared.
 *
 * Everything but json_check takes text that json_check accepted, or a value found in such text.
 */
#ifndef SIM_JSON_H
#define SIM_JSON_H

#include "buf.h"

/* True if `text` is one JSON value with white space around it. Otherwise *at is the offset of the first wrong byte. */
bool json_check(struct text text, size_t *at);

/* The first character of a value tells its kind: { [ " t f n or, for a number, 0 (also for text that is absent). */
char json_kind(struct text value);
static inline bool json_absent(struct text value) { return !value.at || json_kind(value) == 'n'; }

/* Walks the members of an object (key is the raw key, quotes included) or the elements of an array (key is empty). */
struct json_walk {
    const char *at;
    const char *end;
    bool object;
};
/* `value` must be an object or an array; of any other value nothing is found. */
struct json_walk json_walk(struct text value);
bool json_next(struct json_walk *walk, struct text *key, struct text *value);

/* The value of a member, the last one of that name; .at is NULL if there is none or `object` is no object. */
struct text json_member(struct text object, const char *name);
/* Same for `count` names in one pass. */
void json_members(struct text object, const char *const *names, struct text *values, size_t count);

/* Whether a raw JSON string, quotes and escapes included, spells `words`. */
bool json_string_is(struct text raw, const char *words);
/* Adds the decoded string to `out` (UTF-8; a lone surrogate becomes U+FFFD). */
void json_string(struct text raw, struct buf *out);
/* A number without sign, fraction and exponent, at most UINT64_MAX. */
bool json_uint(struct text value, uint64_t *number);

#endif
