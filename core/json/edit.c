/*
 * See document_internal.h: the edits.
 *
 * Each goes the same way: find the place without touching anything, get all memory that is needed, then change. What was
 * opened on the way when memory ran short reads as before, so it may stay.
 */
#include "document_internal.h"

#include "json/members.h"
#include "json/quote.h"
#include "json/utf8.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

/*
 * Opens the containers on the way down `levels` tokens, which lead somewhere, and the one there. NULL when memory is short:
 * nothing reads differently then.
 */
static struct json_node *open_way(coord_document *document, const char *pointer, size_t levels)
{
    struct json_node *node = json_value_open(&document->root, NULL);
    struct json_pointer walk;

    document->walked_pointer.size = 0; /* the tree may be another now */
    if (levels == 0 || !json_pointer_open(&walk, pointer))
        return node;
    for (; node && levels > 0; levels--) {
        struct json_value value = {node->text, node->span, node};
        struct json_place place;
        coord_slice token;

        if (json_pointer_next(&walk, &token) != COORD_OK || document_child(&value, token, &place) != COORD_OK ||
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
    document->edits++;
    free(document->joined);
    document->joined = NULL;
    document->pieces = 0;
    document->walked_pointer.size = 0;
}

static coord_status replace_root(coord_document *document, struct json_text *text)
{
    json_value_release(&document->root);
    document->root = (struct json_value){text, text->root, NULL};
    changed(document, NULL);
    return COORD_OK;
}

/* Where an edit goes: the container, and the last token. */
struct target {
    struct json_pointer walk;
    size_t depth; /* tokens in all */
    struct json_value above;
    coord_slice token;
};

/* Reads the pointer; nothing is looked for yet. COORD_OK, COORD_INVALID. */
static coord_status target_open(const coord_document *document, const char *pointer, struct target *target)
{
    assert(document->magic == DOCUMENT_MAGIC);
    if (!json_pointer_open(&target->walk, pointer))
        return COORD_INVALID;
    target->depth = json_pointer_depth(&target->walk);
    target->above = document->root;
    return COORD_OK;
}

/* Finds the container above the place, which is not the root. */
static coord_status target_find(struct target *target)
{
    coord_status status = document_descend(&target->walk, target->depth - 1, &target->above);

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

/* What is put somewhere: a value of which a text is to be made, or a text to be shared. */
struct source {
    struct json_draft *draft; /* NULL: `text` */
    struct json_text *text;
};

/*
 * The text of the value and, `with_key`, that of its key `name` (else NULL), for a value that is added to an object; each a
 * reference of its own. False, and nothing made, when memory is short.
 */
static bool make_texts(const struct source *source, bool with_key, coord_slice name, struct json_text **text,
                       struct json_text **key)
{
    *key = NULL;
    if (source->draft) {
        *text = with_key ? json_draft_member_new(source->draft, name) : json_draft_text_new(source->draft);
        if (*text && with_key)
            *key = json_text_ref(*text);
        return *text != NULL;
    }
    if (with_key)
        *key = json_text_key_new(name);
    if (with_key && !*key)
        return false;
    *text = json_text_ref(source->text);
    return true;
}

/* How much of `key` is the key: it may be the value's own text, which begins with it. */
static size_t key_size(const struct json_text *key, const struct json_text *text)
{
    if (!key)
        return 0;
    return key == text ? text->root.begin : key->bytes.size;
}

/* Puts it at the place that target_find has found. */
static coord_status put(coord_document *document, const char *pointer, const struct target *target,
                        const struct source *source)
{
    struct json_text *text, *key;
    struct json_place place;
    coord_status status = document_child(&target->above, target->token, &place);
    bool add = status == COORD_ABSENT;
    struct json_node *node;

    if (add)
        status = may_add(target);
    if (status != COORD_OK)
        return status;
    if (!make_texts(source, add && json_value_type(&target->above) == COORD_JSON_OBJECT, target->token, &text, &key))
        return COORD_NO_MEMORY;
    node = open_way(document, pointer, target->depth - 1);
    if (!node || !json_node_reserve(node, 2)) {
        json_text_unref(key);
        json_text_unref(text);
        return COORD_NO_MEMORY;
    }
    if (add) {
        json_node_insert(node, NULL, key, key_size(key, text), text);
    } else {
        struct json_item *item = json_node_isolate(node, &place);

        json_value_release(&item->value);
        item->value = (struct json_value){text, text->root, NULL};
    }
    changed(document, node);
    return COORD_OK;
}

/* `json` as a draft of a value that may stand `depth` levels down. */
static coord_status scan(struct json_draft *draft, coord_slice json, size_t depth)
{
    struct json_error error = {0};

    if (depth > JSON_MAX_DEPTH)
        return COORD_INVALID;
    if (json_draft_scan(draft, json, JSON_MAX_DEPTH - depth, &error))
        return COORD_OK;
    return error.memory ? COORD_NO_MEMORY : COORD_INVALID;
}

static coord_status set(coord_document *document, const char *pointer, struct target *target,
                        const struct source *source)
{
    struct json_text *text, *key;
    coord_status status;

    if (target->depth == 0)
        return make_texts(source, false, (coord_slice){0}, &text, &key) ? replace_root(document, text)
                                                                        : COORD_NO_MEMORY;
    status = target_find(target);
    if (status == COORD_OK)
        status = put(document, pointer, target, source);
    json_pointer_release(&target->walk);
    return status;
}

coord_status coord_document_set(coord_document *document, const char *pointer, coord_slice json)
{
    struct target target;
    struct json_draft draft;
    coord_status status = target_open(document, pointer, &target);

    if (status == COORD_OK)
        status = scan(&draft, json, target.depth);
    if (status != COORD_OK)
        return status;
    status = set(document, pointer, &target, &(struct source){.draft = &draft});
    json_draft_release(&draft);
    return status;
}

coord_status document_set_flat(coord_document *document, const char *pointer, struct json_text *text)
{
    struct target target;
    coord_status status = target_open(document, pointer, &target);

    if (status != COORD_OK || target.depth >= JSON_MAX_DEPTH)
        return COORD_INVALID;
    return set(document, pointer, &target, &(struct source){.text = text});
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

/* Tokens of a valid pointer. */
static size_t depth_of(const char *pointer)
{
    struct json_pointer walk;

    return json_pointer_open(&walk, pointer) ? json_pointer_depth(&walk) : 0;
}

coord_status coord_document_insert(coord_document *document, const char *pointer, size_t index, coord_slice json)
{
    struct json_value array;
    struct json_draft draft;
    struct json_text *text;
    struct json_place place;
    coord_status status = document_find(document, pointer, &array);
    size_t depth = status == COORD_OK ? depth_of(pointer) : 0;
    bool inside;
    struct json_node *node;

    if (status != COORD_OK)
        return status;
    if (json_value_type(&array) != COORD_JSON_ARRAY)
        return COORD_MISTYPED;
    inside = json_value_element(&array, index, &place);
    if (!inside && index != json_value_count(&array))
        return COORD_ABSENT;
    status = scan(&draft, json, depth + 1);
    if (status != COORD_OK)
        return status;
    text = json_draft_text_new(&draft);
    json_draft_release(&draft);
    if (!text)
        return COORD_NO_MEMORY;
    node = open_way(document, pointer, depth);
    if (!node || !json_node_reserve(node, 2)) {
        json_text_unref(text);
        return COORD_NO_MEMORY;
    }
    json_node_insert(node, inside ? &place : NULL, NULL, 0, text);
    changed(document, node);
    return COORD_OK;
}

coord_status coord_document_remove(coord_document *document, const char *pointer)
{
    struct target target;
    struct json_place place;
    struct json_node *node;
    coord_status status = target_open(document, pointer, &target);

    if (status != COORD_OK || target.depth == 0)
        return COORD_INVALID;
    status = target_find(&target);
    if (status == COORD_OK)
        status = document_child(&target.above, target.token, &place);
    json_pointer_release(&target.walk);
    if (status != COORD_OK)
        return status == COORD_ABSENT ? COORD_OK : status;
    node = open_way(document, pointer, target.depth - 1);
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
    coord_status status = document_find(document, pointer, &object);
    size_t matches = 0;
    struct json_node *node;

    if (status == COORD_OK && json_value_type(&object) == COORD_JSON_OBJECT)
        matches = json_value_find(&object, name, &place);
    if (removed)
        *removed = 0;
    if (matches == 0)
        return status == COORD_ABSENT ? COORD_OK : status;
    node = open_way(document, pointer, depth_of(pointer));
    if (!node || !json_node_remove_all(node, name))
        return COORD_NO_MEMORY;
    changed(document, node);
    if (removed)
        *removed = matches;
    return COORD_OK;
}

/* Marks who goes, by ordinal. COORD_OK, COORD_NO_MEMORY. */
static coord_status mark(coord_document *document, const char *pointer, bool (*goes)(void *context, coord_slice name),
                         void *context, bool *marked, size_t *count)
{
    coord_slice name, json;
    coord_status status;
    size_t cursor = 0;

    while ((status = coord_document_next(document, pointer, &cursor, &name, &json)) == COORD_OK) {
        marked[cursor - 1] = goes(context, name);
        *count += marked[cursor - 1];
    }
    return status == COORD_END ? COORD_OK : status;
}

coord_status document_remove_where(coord_document *document, const char *pointer,
                                   bool (*goes)(void *context, coord_slice name), void *context)
{
    struct json_value object;
    coord_status status = document_find(document, pointer, &object);
    size_t count = 0;
    struct json_node *node;
    bool *marked;

    if (status != COORD_OK)
        return status == COORD_ABSENT ? COORD_OK : status;
    if (json_value_type(&object) != COORD_JSON_OBJECT)
        return COORD_OK;
    marked = calloc(json_value_count(&object) + 1, sizeof *marked);
    if (!marked)
        return COORD_NO_MEMORY;
    status = mark(document, pointer, goes, context, marked, &count);
    if (status == COORD_OK && count > 0) {
        node = open_way(document, pointer, depth_of(pointer));
        if (!node || !json_node_remove_marked(node, marked))
            status = COORD_NO_MEMORY;
        else
            changed(document, node);
    }
    free(marked);
    return status;
}
