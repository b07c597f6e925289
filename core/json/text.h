/*
 * A validated JSON text that several documents share, and what makes it quick to find things in it.
 *
 * Invariant: the bytes never change, so spans, the index and the fingers stay right as long as the text lives. The rest is
 * a cache of what was found.
 * Ownership: counted references, each held by a value or a document. Thread: one; the count is not atomic, so a document and
 * all its clones belong to the same thread.
 */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include "json/scanner.h"

enum { JSON_FINGERS = 8 };
#define JSON_ESCAPED UINT32_MAX

/* A member of the top-level object; only texts below 4 GiB have these. */
struct json_entry {
    uint32_t key;
    uint32_t name; /* bytes of the key between its quotes; JSON_ESCAPED when escapes stand in it */
    uint32_t value;
    uint32_t end;
};

/* Where member `ordinal` (from 0) of the members that begin at `first` begins: walking on from there beats starting again. */
struct json_finger {
    size_t first; /* 0: unused */
    size_t ordinal;
    size_t at;
};

struct json_unescaped {
    size_t at; /* of the opening quote */
    coord_slice text;
};

struct json_text {
    size_t references;
    coord_slice bytes;
    struct json_span root; /* the value without the white space around it */
    struct json_entry *index;
    size_t indexed;
    size_t index_hint;           /* where the next search begins */
    bool complete;               /* the index holds every top-level member */
    struct json_finger *fingers; /* JSON_FINGERS of them, made on first use; most texts never need one */
    unsigned next_finger;
    struct json_unescaped *strings; /* ordered by `at` */
    size_t string_count;
    size_t string_capacity;
    char *adopted; /* the bytes, when they were taken over; else NULL, and they stand in `data` */
    char data[];
};

/*
 * A copy of `bytes` with one reference, or NULL: `error` then says where and why. The value may nest `max_depth` levels.
 * `trim` leaves the white space around the value out.
 */
struct json_text *json_text_new(coord_slice bytes, size_t max_depth, bool trim, struct json_error *error);

/* The same without a copy: `take` (malloc) belongs to the text from then on, unless it returns NULL. */
struct json_text *json_text_adopt_new(char *take, size_t size, struct json_error *error);

/* A copy of bytes that need no check (an array of ids) or are no JSON value (`,"key":`), with one reference; NULL when memory is short. */
struct json_text *json_text_piece_new(coord_slice bytes);

static inline struct json_text *json_text_ref(struct json_text *text)
{
    text->references++;
    return text;
}

/* Gives a reference back; NULL is allowed. */
void json_text_unref(struct json_text *text);

/* The members in a row that were found by json_text_find. */
struct json_found {
    struct json_member member; /* the first of that name */
    size_t ordinal;            /* its place in the row, from 0 */
    size_t matches;
};

/* Where the first member or element of the container that begins at `container` begins; 0 when there is none. */
size_t json_text_first(const struct json_text *text, size_t container);

/* Finds `name` among the members of an object that follow each other from `first` on: at most `count`. */
struct json_found json_text_find(struct json_text *text, size_t first, size_t count, coord_slice name);

/* Member or element `ordinal` of those that follow each other from `first` on; false when there are not so many. */
bool json_text_member(struct json_text *text, bool object, size_t first, size_t ordinal, struct json_member *member);

/* Members or elements of the container that begins at `container`. */
size_t json_text_count(const struct json_text *text, size_t container);

/* The string at `quoted` (with its quotes), unescaped; false when memory is short. Lives as long as the text. */
bool json_text_unescaped(struct json_text *text, struct json_span quoted, coord_slice *unescaped);

#endif
