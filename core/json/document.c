/*
 * The document of coordinator/document.h: one value laid over the received text (overlay.h), found by JSON Pointer.
 *
 * Every edit goes the same way: find the place without touching anything, get all memory that is needed, then change. What
 * was opened on the way when memory ran short reads as before, so it may stay.
 * Thread: one for a document and all its clones, because they share texts (text.h).
 */
#include <coordinator/document.h>

#include "json/overlay.h"
#include "json/pointer.h"
#include "json/quote.h"
#include "json/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

static const uint64_t largest_count = UINT64_C(1) << 53;

enum { LARGEST_COUNT_DIGITS = 16, MAGIC = 0x646f6375 };

struct coord_document {
    unsigned magic;
    struct json_text *received; /* its white space around the value stays, whatever becomes of the value */
    struct json_value root;
    char *joined; /* the whole text, cached */
    size_t joined_size;
};

coord_document *coord_document_parse_new(coord_slice text, size_t *offset, const char **reason)
{
    struct json_error error = {.offset = 0, .reason = "memory is short"};
    coord_document *document = malloc(sizeof *document);
    struct json_text *received = document ? json_text_new(text, JSON_MAX_DEPTH, false, &error) : NULL;

    if (!received) {
        if (offset)
            *offset = error.offset;
        if (reason)
            *reason = error.reason;
        free(document);
        return NULL;
    }
    *document = (coord_document){.magic = MAGIC, .received = received};
    document->root = (struct json_value){json_text_ref(received), received->root, NULL};
    return document;
}

coord_document *coord_document_clone_new(const coord_document *document)
{
    coord_document *clone = malloc(sizeof *clone);

    assert(document->magic == MAGIC);
    if (!clone)
        return NULL;
    *clone = (coord_document){.magic = MAGIC};
    if (!json_value_clone(&document->root, &clone->root)) {
        free(clone);
        return NULL;
    }
    clone->received = json_text_ref(document->received);
    return clone;
}

void coord_document_free(coord_document *document)
{
    if (!document)
        return;
    assert(document->magic == MAGIC);
    json_value_release(&document->root);
    json_text_unref(document->received);
    free(document->joined);
    document->magic = 0;
    free(document);
}

/* What a token names in the container `value`. COORD_OK, COORD_ABSENT, COORD_REPEATED. */
static coord_status child(const struct json_value *value, coord_slice token, struct json_place *place)
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

/* Goes down from `value` as far as `levels` tokens lead. */
static coord_status descend(struct json_pointer *pointer, size_t levels, struct json_value *value)
{
    coord_status status = COORD_OK;
    struct json_place place;
    coord_slice token;

    for (; levels > 0 && status == COORD_OK; levels--) {
        status = json_pointer_next(pointer, &token);
        if (status == COORD_OK)
            status = child(value, token, &place);
        if (status == COORD_OK)
            *value = place.value;
    }
    return status;
}

/* The value at `pointer`, borrowed. */
static coord_status find(const coord_document *document, const char *pointer, struct json_value *value)
{
    struct json_pointer walk = {.rest = pointer};
    coord_status status;

    assert(document->magic == MAGIC);
    if (!json_pointer_valid(pointer))
        return COORD_INVALID;
    *value = document->root;
    status = descend(&walk, json_pointer_depth(pointer), value);
    json_pointer_release(&walk);
    return status;
}

int32_t coord_document_type(coord_document *document, const char *pointer)
{
    struct json_value value;

    return find(document, pointer, &value) == COORD_OK ? json_value_type(&value) : COORD_JSON_ABSENT;
}

coord_status coord_document_get(coord_document *document, const char *pointer, coord_slice *json)
{
    struct json_value value;
    coord_status status = find(document, pointer, &value);

    if (status != COORD_OK)
        return status;
    return json_value_joined(&value, json) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_document_get_string(coord_document *document, const char *pointer, coord_slice *text)
{
    struct json_value value;
    coord_status status = find(document, pointer, &value);

    if (status != COORD_OK)
        return status;
    if (json_value_type(&value) != COORD_JSON_STRING)
        return COORD_MISTYPED;
    return json_text_unescaped(value.text, value.span, text) ? COORD_OK : COORD_NO_MEMORY;
}

coord_status coord_document_get_bool(coord_document *document, const char *pointer, bool *value)
{
    struct json_value found;
    coord_status status = find(document, pointer, &found);

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
    coord_status status = find(document, pointer, &found);
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

coord_status coord_document_next(coord_document *document, const char *pointer, size_t *cursor, coord_slice *key,
                                 coord_slice *json)
{
    struct json_value value;
    struct json_place place;
    coord_status status = find(document, pointer, &value);
    coord_slice name = {NULL, 0};

    if (status != COORD_OK)
        return status;
    if (json_value_type(&value) < COORD_JSON_ARRAY)
        return COORD_MISTYPED;
    if (!json_value_element(&value, *cursor, &place))
        return COORD_END;
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

    return find(document, pointer, &value) == COORD_OK ? json_value_count(&value) : 0;
}

/*
 * Opens the containers on the way down `levels` tokens, which lead somewhere, and the one there. NULL when memory is short:
 * nothing reads differently then.
 */
static struct json_node *open_way(coord_document *document, const char *pointer, size_t levels)
{
    struct json_pointer walk = {.rest = pointer};
    struct json_node *node = json_value_open(&document->root, NULL);

    for (; node && levels > 0; levels--) {
        struct json_value value = {node->text, node->span, node};
        struct json_place place;
        coord_slice token;

        if (json_pointer_next(&walk, &token) != COORD_OK || child(&value, token, &place) != COORD_OK ||
            !json_node_reserve(node, 2))
            node = NULL;
        else
            node = json_value_open(&json_node_isolate(node, &place)->value, node);
    }
    json_pointer_release(&walk);
    return node;
}

static void changed(coord_document *document, struct json_node *node)
{
    json_node_changed(node);
    free(document->joined);
    document->joined = NULL;
}

static coord_status replace_root(coord_document *document, struct json_text *text)
{
    json_value_release(&document->root);
    document->root = (struct json_value){text, text->root, NULL};
    changed(document, NULL);
    return COORD_OK;
}

/* `,"name":` */
static struct json_text *key_piece(coord_slice name)
{
    struct buffer buffer = {0};
    struct json_text *piece = NULL;

    if (buffer_append(&buffer, ",", 1) && json_append_quoted(&buffer, name) && buffer_append(&buffer, ":", 1))
        piece = json_text_piece_new(buffer_slice(&buffer));
    buffer_release(&buffer);
    return piece;
}

/* Where an edit goes: the container, and the last token. */
struct target {
    struct json_pointer walk;
    size_t levels; /* tokens above the last one */
    struct json_value above;
    coord_slice token;
};

/* Finds the container above what `pointer` (not empty) names. */
static coord_status aim(const coord_document *document, const char *pointer, struct target *target)
{
    coord_status status;

    *target =
        (struct target){.walk = {.rest = pointer}, .levels = json_pointer_depth(pointer) - 1, .above = document->root};
    status = descend(&target->walk, target->levels, &target->above);
    return status == COORD_OK ? json_pointer_next(&target->walk, &target->token) : status;
}

/* Whether a new member or element may be put at the last token, where nothing is. */
static coord_status may_add(const struct target *target)
{
    size_t index;

    switch (json_value_type(&target->above)) {
    case COORD_JSON_OBJECT:
        return json_utf8_valid(target->token) ? COORD_OK : COORD_INVALID;
    case COORD_JSON_ARRAY:
        if (coord_slice_is(target->token, "-"))
            return COORD_OK;
        if (!json_pointer_index(target->token, &index))
            return COORD_INVALID;
        return index == json_value_count(&target->above) ? COORD_OK : COORD_ABSENT;
    default:
        return COORD_MISTYPED;
    }
}

/* Puts `text` there and takes it over if that goes well. */
static coord_status put(coord_document *document, const char *pointer, const struct target *target,
                        struct json_text *text)
{
    bool object = json_value_type(&target->above) == COORD_JSON_OBJECT;
    struct json_text *key = NULL;
    struct json_place place;
    coord_status status = child(&target->above, target->token, &place);
    bool add = status == COORD_ABSENT;
    struct json_node *node;

    if (add)
        status = may_add(target);
    if (status != COORD_OK)
        return status;
    if (add && object) {
        key = key_piece(target->token);
        if (!key)
            return COORD_NO_MEMORY;
    }
    node = open_way(document, pointer, target->levels);
    if (!node || !json_node_reserve(node, 2)) {
        json_text_unref(key);
        return COORD_NO_MEMORY;
    }
    if (add) {
        json_node_insert(node, NULL, key, text);
    } else {
        struct json_item *item = json_node_isolate(node, &place);

        json_value_release(&item->value);
        item->value = (struct json_value){text, text->root, NULL};
    }
    changed(document, node);
    return COORD_OK;
}

/* `json` as a text that may stand `depth` levels down. */
static coord_status make_text(coord_slice json, size_t depth, struct json_text **text)
{
    struct json_error error = {0};

    if (depth > JSON_MAX_DEPTH)
        return COORD_INVALID;
    *text = json_text_new(json, JSON_MAX_DEPTH - depth, true, &error);
    if (*text)
        return COORD_OK;
    return error.memory ? COORD_NO_MEMORY : COORD_INVALID;
}

coord_status coord_document_set(coord_document *document, const char *pointer, coord_slice json)
{
    struct json_text *text;
    struct target target;
    coord_status status;

    assert(document->magic == MAGIC);
    if (!json_pointer_valid(pointer))
        return COORD_INVALID;
    status = make_text(json, json_pointer_depth(pointer), &text);
    if (status != COORD_OK)
        return status;
    if (*pointer == '\0')
        return replace_root(document, text);
    status = aim(document, pointer, &target);
    if (status == COORD_OK)
        status = put(document, pointer, &target, text);
    json_pointer_release(&target.walk);
    if (status != COORD_OK)
        json_text_unref(text);
    return status;
}

coord_status coord_document_set_string(coord_document *document, const char *pointer, coord_slice text)
{
    struct buffer quoted = {0};
    coord_status status = COORD_NO_MEMORY;

    if (!json_utf8_valid(text))
        return COORD_INVALID;
    if (json_append_quoted(&quoted, text))
        status = coord_document_set(document, pointer, buffer_slice(&quoted));
    buffer_release(&quoted);
    return status;
}

coord_status coord_document_set_int(coord_document *document, const char *pointer, int64_t value)
{
    char text[24];

    snprintf(text, sizeof text, "%lld", (long long)value);
    return coord_document_set(document, pointer, coord_slice_of(text));
}

coord_status coord_document_insert(coord_document *document, const char *pointer, size_t index, coord_slice json)
{
    struct json_value array;
    struct json_text *text;
    struct json_place place;
    coord_status status = find(document, pointer, &array);
    bool inside;
    struct json_node *node;

    if (status != COORD_OK)
        return status;
    if (json_value_type(&array) != COORD_JSON_ARRAY)
        return COORD_MISTYPED;
    inside = json_value_element(&array, index, &place);
    if (!inside && index != json_value_count(&array))
        return COORD_ABSENT;
    status = make_text(json, json_pointer_depth(pointer) + 1, &text);
    if (status != COORD_OK)
        return status;
    node = open_way(document, pointer, json_pointer_depth(pointer));
    if (!node || !json_node_reserve(node, 2)) {
        json_text_unref(text);
        return COORD_NO_MEMORY;
    }
    json_node_insert(node, inside ? &place : NULL, NULL, text);
    changed(document, node);
    return COORD_OK;
}

coord_status coord_document_remove(coord_document *document, const char *pointer)
{
    struct target target;
    struct json_place place;
    struct json_node *node;
    coord_status status;

    assert(document->magic == MAGIC);
    if (!json_pointer_valid(pointer) || *pointer == '\0')
        return COORD_INVALID;
    status = aim(document, pointer, &target);
    if (status == COORD_OK)
        status = child(&target.above, target.token, &place);
    json_pointer_release(&target.walk);
    if (status != COORD_OK)
        return status == COORD_ABSENT ? COORD_OK : status;
    node = open_way(document, pointer, target.levels);
    if (!node || !json_node_reserve(node, 2))
        return COORD_NO_MEMORY;
    json_node_isolate(node, &place);
    json_node_remove(node, place.item);
    changed(document, node);
    return COORD_OK;
}

coord_status coord_document_remove_all(coord_document *document, const char *pointer, coord_slice name, size_t *removed)
{
    struct json_value object;
    struct json_place place;
    coord_status status = find(document, pointer, &object);
    size_t matches = 0;
    struct json_node *node;

    if (status == COORD_OK && json_value_type(&object) == COORD_JSON_OBJECT)
        matches = json_value_find(&object, name, &place);
    if (removed)
        *removed = 0;
    if (matches == 0)
        return status == COORD_ABSENT ? COORD_OK : status;
    node = open_way(document, pointer, json_pointer_depth(pointer));
    if (!node || !json_node_remove_all(node, name))
        return COORD_NO_MEMORY;
    changed(document, node);
    if (removed)
        *removed = matches;
    return COORD_OK;
}

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

static void collect_all(const coord_document *document, struct collection *collection)
{
    assert(document->magic == MAGIC);
    collection->received = document->received;
    collect(collection, document->received, before(document));
    json_value_emit(&document->root, collect, collection);
    collect(collection, document->received, behind(document));
    store(collection);
}

size_t coord_document_size(coord_document *document)
{
    struct collection collection = {.max = 0};

    collect_all(document, &collection);
    return collection.size;
}

size_t coord_document_pieces(coord_document *document, coord_slice *pieces, bool *edited, size_t max)
{
    struct collection collection = {.pieces = pieces, .edited = edited, .max = pieces ? max : 0};

    collect_all(document, &collection);
    return collection.count;
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
