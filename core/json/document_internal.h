/*
 * What the files of the document share: document.c (life and reading), edit.c, document_text.c (the text with its edits).
 *
 * A document is one value laid over the received text (overlay.h), found by JSON Pointer. Thread: one for a document and all
 * its clones, because they share texts (text.h).
 */
#ifndef JSON_DOCUMENT_INTERNAL_H
#define JSON_DOCUMENT_INTERNAL_H

#include <coordinator/document.h>

#include "json/overlay.h"
#include "json/pointer.h"

enum { DOCUMENT_MAGIC = 0x646f6375 };

struct coord_document {
    unsigned magic;
    struct json_text *received; /* its white space around the value stays, whatever becomes of the value */
    struct json_value root;
    size_t edits; /* counts them, so that others can tell quickly that nothing changed */
    char *joined; /* the whole text, cached by document_text.c until the next edit */
    size_t joined_size;
    size_t pieces, size;          /* of the text, likewise; 0: not counted, as no text is empty */
    struct buffer walked_pointer; /* what coord_document_next found last, until the next edit; empty: nothing */
    struct json_value walked;
};

/* What a token names in the container `value`. COORD_OK, COORD_ABSENT, COORD_REPEATED. */
coord_status document_child(const struct json_value *value, coord_slice token, struct json_place *place);

/* Goes down from `value` as far as the next `levels` tokens lead, or all that are left. As document_child, and COORD_NO_MEMORY. */
coord_status document_descend(struct json_pointer *walk, size_t levels, struct json_value *value);

/* The value at `pointer`, borrowed. As document_descend, and COORD_INVALID (no pointer). */
coord_status document_find(const coord_document *document, const char *pointer, struct json_value *value);

#endif
