/*
 * What only the core needs of documents. Members of an object that go together go in one pass, however many there are. Clients choose how many
 * members a body has, so nothing may cost more than that for each of them.
 */
#ifndef JSON_MEMBERS_H
#define JSON_MEMBERS_H

#include "json/text.h"

#include <coordinator/document.h>

/* The reason of coord_document_parse_new, this very string, when the text may well be JSON. */
extern const char document_no_memory[];

/*
 * As coord_document_parse_new without a copy: the memory of `take` belongs to the document and its clones from then on, and its bytes lie where they lay as
 * long as one of them lives; `take` is empty. When it returns NULL, all stays as it was.
 */
coord_document *document_adopt_new(struct buffer *take, size_t *offset, const char **reason);

/* The text that the document was made from, borrowed, where `part` lies inside its bytes; else NULL. */
struct json_text *document_text_around(const coord_document *document, coord_slice part);

/* As coord_document_set with a text that is known to nest one level and no more; its bytes are shared. The reference stays the caller's. */
coord_status document_set_flat(coord_document *document, const char *pointer, struct json_text *text) COORD_MUST_CHECK;

/*
 * Removes every member of the object at `pointer` of which `goes` says so; `name` is unescaped. COORD_OK, also when there is no
 * object; COORD_REPEATED (the way to it), COORD_INVALID, COORD_NO_MEMORY.
 */
coord_status document_remove_where(coord_document *document, const char *pointer,
                                   bool (*goes)(void *context, coord_slice name), void *context) COORD_MUST_CHECK;

#endif
