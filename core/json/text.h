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
#include "runtime/buffer.h"

#include <stdlib.h>

enum { JSON_FINGERS = 8, JSON_FEW_ENTRIES = 16 };
#define JSON_ESCAPED UINT32_MAX

/* A member of the top-level object; only texts below 4 GiB have these. */
struct json_entry {
    uint32_t key;
    uint32_t name_size; /* of the key between its quotes; JSON_ESCAPED when escapes stand in it */
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
    size_t size; /* of the block that it is, with what stands behind it */
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
    struct buffer adopted;   /* the bytes, when they were taken over; else empty, and they stand behind `own` … */
    struct json_text *whole; /* … or, where that is not NULL, inside this one, of which a reference is held */
    struct json_entry own[]; /* the index of a text with few members; others have one apart */
};

/* Bytes that were found to be JSON, borrowed until a text is made of them. */
struct json_draft {
    coord_slice bytes;
    struct json_span root;
    struct json_entry *index;
    size_t indexed, room;
    struct json_entry few[JSON_FEW_ENTRIES];
};

/*
 * Validates one value that may nest `max_depth` levels; json_draft_release when done. False: `error` says where and why, and
 * nothing is to be released.
 */
bool json_draft_scan(struct json_draft *draft, coord_slice bytes, size_t max_depth, struct json_error *error);

static inline void json_draft_release(struct json_draft *draft)
{
    if (draft->index != draft->few)
        free(draft->index);
}

/* A copy of the value, without the white space around it, with one reference; NULL when memory is short. */
struct json_text *json_draft_text_new(struct json_draft *draft);

/* The same with `,"name":` before it, outside of its root. */
struct json_text *json_draft_member_new(struct json_draft *draft, coord_slice name);

/* A copy of `bytes`, which may nest JSON_MAX_DEPTH levels, with one reference, or NULL: `error` then says where and why. */
struct json_text *json_text_new(coord_slice bytes, struct json_error *error);

/* The same without a copy: the memory of `take` is the text's from then on, and that is empty, unless it returns NULL. */
struct json_text *json_text_adopt_new(struct buffer *take, struct json_error *error);

/* `,"name":` alone; NULL when memory is short. */
struct json_text *json_text_key_new(coord_slice name);

/* A copy of bytes that need no check (an array of ids), with one reference; NULL when memory is short. */
struct json_text *json_text_piece_new(coord_slice bytes);

/* The same without a copy for bytes that lie inside `whole`, of which the new text holds a reference. */
struct json_text *json_text_part_new(struct json_text *whole, coord_slice part);

/* As json_text_piece_new for `size` bytes that the caller writes to `*bytes` before anybody reads them. */
struct json_text *json_text_room_new(size_t size, char **bytes);

static inline struct json_text *json_text_ref(struct json_text *text)
{
    text->references++;
    return text;
}

/* Gives a reference back; NULL is allowed. */
void json_text_unref(struct json_text *text);

/* The first member of its name. */
struct json_found {
    struct json_member member;
    size_t ordinal; /* its place in the row, from 0 */
};

/* Where the first member or element of the container that begins at `container` begins; 0 when there is none. */
size_t json_text_first(const struct json_text *text, size_t container);

/*
 * How often `name` stands among the members of an object that follow each other from `first` on, `count` of them at most. `found`
 * is the first, and not touched when there is none.
 */
size_t json_text_find(struct json_text *text, size_t first, size_t count, coord_slice name, struct json_found *found);

/* Member or element `ordinal` of those that follow each other from `first` on; false when there are not so many. */
bool json_text_member(struct json_text *text, bool object, size_t first, size_t ordinal, struct json_member *member);

/* Members or elements of the container that begins at `container`. */
size_t json_text_count(const struct json_text *text, size_t container);

/* The string at `quoted` (with its quotes), unescaped; false when memory is short. Lives as long as the text. */
bool json_text_unescaped(struct json_text *text, struct json_span quoted, coord_slice *unescaped);

#endif
