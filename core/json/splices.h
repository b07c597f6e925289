/*
 * Where a document is not the bytes that were received: the places of its edits, told by the overlay and not by comparing.
 *
 * Thread: the one that owns the document.
 */
#ifndef JSON_SPLICES_H
#define JSON_SPLICES_H

#include <coordinator/document.h>

/* True when both are laid over the same received text. */
bool document_shares_text(const coord_document *document, const coord_document *received);

/* `pointer` (RFC 6901, valid during the call) names a member or element that was set, added or removed. */
typedef void splice_fn(void *context, coord_slice pointer);

/*
 * Calls `each` for every splice of `document` in the order of the text. A value that was put in whole is named once, whatever
 * was edited in it afterwards; a removed element of an array goes by its index in the received text, any other by the one it has now.
 * A document that is not laid over the same text as `received` gives one splice, "": all of it. False when memory is short.
 */
bool document_splices(const coord_document *document, const coord_document *received, splice_fn *each,
                      void *context) COORD_MUST_CHECK;

#endif
