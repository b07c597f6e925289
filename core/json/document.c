/* See document_internal.h: the life of a document, finding and reading. */
#include "document_internal.h"

#include "json/members.h"
#include "runtime/blocks.h"

#include <assert.h>
#include <stdlib.h>

static const uint64_t largest_count = UINT64_C(1) << 53;

enum { LARGEST_COUNT_DIGITS = 16 };

const char document_no_memory[] = "memory is short";

/* A document over `text`, whose reference it takes over; NULL, with `error` told, when there is no text or no memory. */
static coord_document *lay_over(struct json_text *text, const struct json_error *error, size_t *offset,
                                const char **reason)
{
    coord_document *document = text ? block_take(sizeof *document) : NULL;

    if (!document) {
        if (offset)
            *offset = error->offset;
        if (reason)
            *reason = text || error->memory ? document_no_memory : error->reason;
        return NULL;
    }
    *document = (coord_document){.magic = DOCUMENT_MAGIC, .received = text};
    document->root = (struct json_value){json_text_ref(text), text->root, NULL};
    return document;
}

coord_document *coord_document_parse_new(coord_slice text, size_t *offset, const char **reason)
{
    struct json_error error = {0};
    struct json_text *received = json_text_new(text, &error);
    coord_document *document = lay_over(received, &error, offset, reason);

    if (!document)
        json_text_unref(received);
    return document;
}

struct json_text *document_text_around(const coord_document *document, coord_slice part)
{
    coord_slice bytes = document->received->bytes;
    uintptr_t begin = (uintptr_t)bytes.data, at = (uintptr_t)part.data;

    assert(document->magic == DOCUMENT_MAGIC);
    return at >= begin && part.size <= bytes.size && at - begin <= bytes.size - part.size ? document->received : NULL;
}

coord_document *document_adopt_new(struct buffer *take, size_t *offset, const char **reason)
{
    struct json_error error = {0};
    struct json_text *received = json_text_adopt_new(take, &error);
    coord_document *document = lay_over(received, &error, offset, reason);

    if (!document && received) {
        *take = received->adopted;
        received->adopted = (struct buffer){0};
        json_text_unref(received);
    }
    return document;
}

coord_document *coord_document_clone_new(const coord_document *document)
{
    coord_document *clone = block_take(sizeof *clone);

    assert(document->magic == DOCUMENT_MAGIC);
    if (!clone)
        return NULL;
    *clone = (coord_document){.magic = DOCUMENT_MAGIC};
    json_value_clone(&document->root, &clone->root);
    clone->received = json_text_ref(document->received);
    return clone;
}

void coord_document_free(coord_document *document)
{
    if (!document)
        return;
    assert(document->magic == DOCUMENT_MAGIC);
    json_value_release(&document->root);
    json_text_unref(document->received);
    free(document->joined);
    buffer_release(&document->walked_pointer);
    document->magic = 0;
    block_give(document, sizeof *document);
}

coord_status document_child(const struct json_value *value, coord_slice token, struct json_place *place)
{
    size_t index;
    size_t matches;

    switch (json_value_type(value)) {
    case COORD_JSON_OBJECT:
        matches = json_value_find(value, token, place);
        return matches == 0 ? COORD_ABSENT : matches == 1 ? COORD_OK : COORD_REPEATED;
    case COORD_JSON_ARRAY:
        return json_pointer_index(token, &index) && json_value_element(value, index, place) ? COORD_OK : COORD_ABSENT;
    default:
        return COORD_ABSENT;
    }
}

coord_status document_descend(struct json_pointer *walk, size_t levels, struct json_value *value)
{
    coord_status status = COORD_OK;
    struct json_place place;
    coord_slice token;

    for (; levels > 0 && status == COORD_OK && json_pointer_more(walk); levels--) {
        status = json_pointer_next(walk, &token);
        if (status == COORD_OK)
            status = document_child(value, token, &place);
        if (status == COORD_OK)
            *value = place.value;
    }
    return status;
}

coord_status document_find(const coord_document *document, const char *pointer, struct json_value *value)
{
    struct json_pointer walk;
    coord_status status;

    assert(document->magic == DOCUMENT_MAGIC);
    if (!json_pointer_open(&walk, pointer))
        return COORD_INVALID;
    *value = document->root;
    status = document_descend(&walk, SIZE_MAX, value);
    json_pointer_release(&walk);
    return status;
}

int32_t coord_document_type(coord_document *document, const char *pointer)
{
    struct json_value value;

    return document_find(document, pointer, &value) == COORD_OK ? json_value_type(&value) : COORD_JSON_ABSENT;
}

coord_status coord_document_get(coord_document *document, const char *pointer, coord_slice *json)
{
    struct json_value value;
    coord_status status = document_find(document, pointer, &value);

    if (status != COORD_OK)
        return status;
    return json_value_joined(&value, json) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_document_get_string(coord_document *document, const char *pointer, coord_slice *text)
{
    struct json_value value;
    coord_status status = document_find(document, pointer, &value);

    if (status != COORD_OK)
        return status;
    if (json_value_type(&value) != COORD_JSON_STRING)
        return COORD_MISTYPED;
    return json_text_unescaped(value.text, value.span, text) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_document_get_bool(coord_document *document, const char *pointer, bool *value)
{
    struct json_value found;
    coord_status status = document_find(document, pointer, &found);

    if (status != COORD_OK)
        return status;
    if (json_value_type(&found) != COORD_JSON_BOOL)
        return COORD_MISTYPED;
    *value = found.text->bytes.data[found.span.begin] == 't';
    return COORD_OK;
}

coord_status coord_document_get_count(coord_document *document, const char *pointer, uint64_t *value)
{
    struct json_value found;
    coord_status status = document_find(document, pointer, &found);
    uint64_t count = 0;

    if (status != COORD_OK)
        return status;
    if (json_value_type(&found) != COORD_JSON_NUMBER || found.span.end - found.span.begin > LARGEST_COUNT_DIGITS)
        return COORD_MISTYPED;
    for (size_t at = found.span.begin; at < found.span.end; at++) {
        unsigned digit = (unsigned char)found.text->bytes.data[at] - (unsigned)'0';

        if (digit > 9)
            return COORD_MISTYPED;
        count = count * 10 + digit;
    }
    if (count > largest_count)
        return COORD_MISTYPED;
    *value = count;
    return COORD_OK;
}

/* As document_find, but the same container as in the call before need not be searched again; the root needs no search. */
static coord_status find_walked(coord_document *document, const char *pointer, struct json_value *value)
{
    struct buffer *last = &document->walked_pointer;
    coord_status status;

    if (pointer && *pointer == '\0') {
        *value = document->root;
        return COORD_OK;
    }
    if (pointer && last->size > 0 && strcmp(pointer, last->data) == 0) {
        *value = document->walked;
        return COORD_OK;
    }
    status = document_find(document, pointer, value);
    if (status != COORD_OK)
        return status;
    document->walked = *value;
    last->size = 0;
    if (!buffer_append(last, pointer, strlen(pointer) + 1))
        last->size = 0; /* then it is searched again */
    return COORD_OK;
}

coord_status coord_document_next(coord_document *document, const char *pointer, size_t *cursor, coord_slice *key,
                                 coord_slice *json)
{
    struct json_value value;
    struct json_place place;
    coord_status status = find_walked(document, pointer, &value);
    coord_slice name = {NULL, 0};

    if (status != COORD_OK)
        return status;
    if (json_value_type(&value) < COORD_JSON_ARRAY)
        return COORD_MISTYPED;
    if (!json_value_element(&value, *cursor, &place)) {
        if (*pointer != '\0')
            buffer_release(&document->walked_pointer);
        return COORD_END;
    }
    if (key && place.key.begin < place.key.end && !json_text_unescaped(place.key_text, place.key, &name))
        return COORD_NO_MEMORY;
    if (!json_value_joined(&place.value, json))
        return COORD_NO_MEMORY;
    if (key)
        *key = name;
    ++*cursor;
    return COORD_OK;
}

size_t coord_document_count(coord_document *document, const char *pointer)
{
    struct json_value value;

    return document_find(document, pointer, &value) == COORD_OK ? json_value_count(&value) : 0;
}
