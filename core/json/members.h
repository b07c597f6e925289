/*
 * What only the core needs of documents. Members of an object that go together go in one pass, however many there are. Clients choose how many
 * members a body has, so nothing may cost more than that for each of them.
 */
#ifndef JSON_MEMBERS_H
#define JSON_MEMBERS_H

#include <coordinator/document.h>

/* The reason of coord_document_parse_new, this very string, when the text may well be JSON. */
extern const char document_no_memory[];

/*
 * Removes every member of the object at `pointer` of which `goes` says so; `name` is unescaped. COORD_OK, also when there is no
 * object; COORD_REPEATED (the way to it), COORD_INVALID, COORD_NO_MEMORY.
 */
coord_status document_remove_where(coord_document *document, const char *pointer,
                                   bool (*goes)(void *context, coord_slice name), void *context) COORD_MUST_CHECK;

#endif
