/*
 * A JSON document whose bytes are sacred: the text as received plus edits, never parsed into a tree and printed again.
 *
 * Everything that is not edited keeps its bytes: key order, number spelling, escapes, white space, duplicate members. An
 * edit replaces, inserts or removes exactly one value (with its key and one comma). Values go in and come out as JSON text.
 *
 * Places are named by JSON Pointer (RFC 6901): "" is the whole document, "/a/0/b~1c" descends; "-" names the end of an
 * array in coord_document_set. Member names are compared unescaped ("mod\u0065l" is "model"). A pointer that passes through
 * or ends at a member that stands more than once in its object gives COORD_REPEATED: what one parser reads first another
 * reads last, so we refuse to choose.
 *
 * A clone shares the text and starts with the same edits; from then on neither sees the other's. A document and all its clones
 * belong to one thread, because they share the text. Slices that a getter returns stay valid until that value or one around it
 * is edited, or the document is freed.
 */
#ifndef COORDINATOR_DOCUMENT_H
#define COORDINATOR_DOCUMENT_H

#include <coordinator/base.h>

COORD_BEGIN_DECLS

typedef struct coord_document coord_document; /* a text and its edits */

enum {
    COORD_JSON_ABSENT = 0, /* nothing there (or the way to it is repeated) */
    COORD_JSON_NULL = 1,
    COORD_JSON_BOOL = 2,
    COORD_JSON_NUMBER = 3,
    COORD_JSON_STRING = 4,
    COORD_JSON_ARRAY = 5,
    COORD_JSON_OBJECT = 6
};

/*
 * Validates `text` strictly (RFC 8259: one value, UTF-8, no control characters in strings, no trailing data, nesting at most
 * 512; white space around it is kept) and copies it. NULL when it is not JSON (`*offset`, unless NULL, tells the byte and
 * `*reason` a short text) or memory is short (`*reason` says so). Freed with coord_document_free. [any thread]
 */
COORD_API coord_document *coord_document_parse_new(coord_slice text, size_t *offset,
                                                   const char **reason) COORD_MUST_CHECK;

/* A copy that shares the text; NULL when memory is short. [the thread that owns `document`] */
COORD_API coord_document *coord_document_clone_new(const coord_document *document) COORD_MUST_CHECK;

/* Frees it; NULL is allowed. */
COORD_API void coord_document_free(coord_document *document);

/* The type of what stands at `pointer`, COORD_JSON_ABSENT if nothing does. */
COORD_API int32_t coord_document_type(coord_document *document, const char *pointer);

/* The JSON text of the value, edits inside it included. COORD_OK, COORD_ABSENT, COORD_REPEATED, COORD_INVALID (not a pointer), COORD_NO_MEMORY. */
COORD_API coord_status coord_document_get(coord_document *document, const char *pointer,
                                          coord_slice *json) COORD_MUST_CHECK;

/* A string value, unescaped. As coord_document_get, and COORD_MISTYPED if it is no string. A lone surrogate escape becomes U+FFFD here. */
COORD_API coord_status coord_document_get_string(coord_document *document, const char *pointer,
                                                 coord_slice *text) COORD_MUST_CHECK;

/* true or false, else COORD_MISTYPED. */
COORD_API coord_status coord_document_get_bool(coord_document *document, const char *pointer,
                                               bool *value) COORD_MUST_CHECK;

/* A count: digits only, 0 … 2^53 (1.0 and 1e0 are none), else COORD_MISTYPED. */
COORD_API coord_status coord_document_get_count(coord_document *document, const char *pointer,
                                                uint64_t *value) COORD_MUST_CHECK;

/*
 * Puts the JSON text `json` (copied) at `pointer`: replaces the value there, or adds a member to the object (an element for
 * "-" or the array's length) above it. COORD_OK; COORD_ABSENT: no container above it; COORD_MISTYPED: what is above is no
 * container; COORD_REPEATED; COORD_INVALID: `json` is not one JSON value, or would nest deeper than 512 there, or no pointer (in
 * an array also a token that is no index); COORD_NO_MEMORY. An index behind the end is COORD_ABSENT. White space around `json`
 * is left out. Unchanged unless COORD_OK.
 */
COORD_API coord_status coord_document_set(coord_document *document, const char *pointer,
                                          coord_slice json) COORD_MUST_CHECK;

/* Like coord_document_set with a string value, which is quoted and escaped here; `text` must be UTF-8, else COORD_INVALID. */
COORD_API coord_status coord_document_set_string(coord_document *document, const char *pointer,
                                                 coord_slice text) COORD_MUST_CHECK;

/* Like coord_document_set with an integer. */
COORD_API coord_status coord_document_set_int(coord_document *document, const char *pointer,
                                              int64_t value) COORD_MUST_CHECK;

/* Inserts before element `index` of the array at `pointer` (index = length: at the end). Statuses as coord_document_set. */
COORD_API coord_status coord_document_insert(coord_document *document, const char *pointer, size_t index,
                                             coord_slice json) COORD_MUST_CHECK;

/* Removes the member or element. COORD_OK, also when nothing was there; COORD_REPEATED, COORD_INVALID (also for ""), COORD_NO_MEMORY. */
COORD_API coord_status coord_document_remove(coord_document *document, const char *pointer) COORD_MUST_CHECK;

/*
 * Removes every member of that name from the object at `pointer`, however often it stands there; `*removed` (may be NULL) counts
 * them. COORD_OK, also when nothing was there; COORD_REPEATED (the way to it), COORD_INVALID, COORD_NO_MEMORY.
 */
COORD_API coord_status coord_document_remove_all(coord_document *document, const char *pointer, coord_slice name,
                                                 size_t *removed) COORD_MUST_CHECK;

/*
 * Walks the members or elements of the container at `pointer` in order. `*cursor` starts at 0. COORD_OK with the next one
 * (`key`: unescaped, empty in arrays; may be NULL; repeated members each come), COORD_END after the last, COORD_ABSENT,
 * COORD_MISTYPED (no container), COORD_REPEATED (the way to it), COORD_NO_MEMORY. Between calls what is inside a member may be
 * edited, but none may be added or removed.
 */
COORD_API coord_status coord_document_next(coord_document *document, const char *pointer, size_t *cursor,
                                           coord_slice *key, coord_slice *json) COORD_MUST_CHECK;

/* Number of members or elements; 0 for anything else. */
COORD_API size_t coord_document_count(coord_document *document, const char *pointer);

/* Size in bytes of the text with all edits. */
COORD_API size_t coord_document_size(coord_document *document);

/* The whole text with all edits as one piece (made when needed, valid until the next edit). COORD_OK, COORD_NO_MEMORY. */
COORD_API coord_status coord_document_text(coord_document *document, coord_slice *text) COORD_MUST_CHECK;

/*
 * The text as pieces, without joining them: fills `pieces[0 … max)` and returns how many there are in all (call again with
 * more room if it is more). `edited[i]`, unless `edited` is NULL, tells that piece i is not the received bytes.
 */
COORD_API size_t coord_document_pieces(coord_document *document, coord_slice *pieces, bool *edited, size_t max);

/*
 * A builder for small JSON values. Errors are sticky: check once at coord_json_end. Commas and colons are its business.
 *     coord_json *json = coord_json_new();
 *     coord_json_object(json); coord_json_key(json, "do_remote_decode"); coord_json_bool(json, true); coord_json_close(json);
 *     coord_slice text; if (coord_json_end(json, &text) == COORD_OK) …; coord_json_free(json);
 */
typedef struct coord_json coord_json;
COORD_API coord_json *
coord_json_new(void) COORD_MUST_CHECK; /* NULL when memory is short; every call below accepts NULL */
COORD_API void coord_json_free(coord_json *json);
COORD_API void coord_json_object(coord_json *json);
COORD_API void coord_json_array(coord_json *json);
COORD_API void coord_json_close(coord_json *json); /* the innermost open object or array */
COORD_API void coord_json_key(coord_json *json, const char *name);
COORD_API void coord_json_string(coord_json *json, coord_slice text); /* invalid UTF-8 becomes U+FFFD */
COORD_API void coord_json_int(coord_json *json, int64_t value);
COORD_API void coord_json_number(coord_json *json,
                                 double value); /* the fewest digits that read back the same; not finite: null */
COORD_API void coord_json_bool(coord_json *json, bool value);
COORD_API void coord_json_null(coord_json *json);
COORD_API void coord_json_raw(coord_json *json, coord_slice value); /* one JSON value, trusted to be one */
/*
 * COORD_OK and the text (valid until coord_json_free); COORD_STATE: something is still open, nothing was written, or a call did
 * not fit its place (more than 512 levels too); COORD_NO_MEMORY.
 */
COORD_API coord_status coord_json_end(coord_json *json, coord_slice *text) COORD_MUST_CHECK;

COORD_END_DECLS
#endif
