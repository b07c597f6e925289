/* See document_internal.h: the text with its edits, in pieces and as one. */
#include "document_internal.h"

#include <assert.h>
#include <stdlib.h>

/* The bytes before and behind the value, which are always the received ones. */
static coord_slice before(const coord_document *document)
{
    return (coord_slice){document->received->bytes.data, document->received->root.begin};
}

static coord_slice behind(const coord_document *document)
{
    const struct json_text *received = document->received;

    return (coord_slice){received->bytes.data + received->root.end, received->bytes.size - received->root.end};
}

/* Pieces as the caller wants them: those that lie behind each other are one. */
struct collection {
    const struct json_text *received;
    coord_slice *pieces;
    bool *edited;
    size_t max;
    size_t count;
    coord_slice last;
    bool last_edited;
    size_t size;
};

static void store(struct collection *collection)
{
    size_t place = collection->count - 1;

    if (collection->count == 0 || place >= collection->max)
        return;
    collection->pieces[place] = collection->last;
    if (collection->edited)
        collection->edited[place] = collection->last_edited;
}

static void collect(void *context, const struct json_text *text, coord_slice bytes)
{
    struct collection *collection = context;
    bool edited = text != collection->received;

    if (bytes.size == 0)
        return;
    collection->size += bytes.size;
    if (collection->count > 0 && collection->last_edited == edited &&
        collection->last.data + collection->last.size == bytes.data) {
        collection->last.size += bytes.size;
        return;
    }
    store(collection);
    collection->count++;
    collection->last = bytes;
    collection->last_edited = edited;
}

static void collect_all(coord_document *document, struct collection *collection)
{
    assert(document->magic == DOCUMENT_MAGIC);
    collection->received = document->received;
    collect(collection, document->received, before(document));
    json_value_emit(&document->root, collect, collection);
    collect(collection, document->received, behind(document));
    store(collection);
    document->pieces = collection->count;
    document->size = collection->size;
}

/* Counts pieces and bytes, unless it was done since the last edit. */
static void count(coord_document *document)
{
    struct collection collection = {.max = 0};

    if (document->pieces == 0)
        collect_all(document, &collection);
}

size_t coord_document_size(coord_document *document)
{
    count(document);
    return document->size;
}

size_t coord_document_pieces(coord_document *document, coord_slice *pieces, bool *edited, size_t max)
{
    struct collection collection = {.pieces = pieces, .edited = edited, .max = pieces ? max : 0};

    if (collection.max == 0)
        count(document);
    else
        collect_all(document, &collection);
    return document->pieces;
}

static void append(void *context, const struct json_text *text, coord_slice bytes)
{
    char **to = context;

    (void)text;
    if (bytes.size > 0)
        memcpy(*to, bytes.data, bytes.size);
    *to += bytes.size;
}

coord_status coord_document_text(coord_document *document, coord_slice *text)
{
    struct collection collection = {.max = 0};
    char *to;

    if (!document->joined) {
        collect_all(document, &collection);
        if (collection.count == 1) {
            *text = collection.last;
            return COORD_OK;
        }
        to = document->joined = malloc(collection.size);
        if (!to)
            return COORD_NO_MEMORY;
        document->joined_size = collection.size;
        append(&to, NULL, before(document));
        json_value_emit(&document->root, append, &to);
        append(&to, NULL, behind(document));
    }
    *text = (coord_slice){document->joined, document->joined_size};
    return COORD_OK;
}
