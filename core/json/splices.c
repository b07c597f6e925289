/*
 * See splices.h. A node lists what its container holds now; what of its text lies in no item was removed.
 *
 * Goes down with a stack of its own, so that depth costs no stack of the machine's.
 */
#include "json/splices.h"

#include "document_internal.h"

#include <stdio.h>
#include <stdlib.h>

/* A container on the way down. */
struct frame {
    const struct json_node *node;
    size_t item;         /* the next one */
    size_t at;           /* where the next member of the text begins, 0: there is none */
    size_t ordinal;      /* of the next one, as the container is now */
    size_t original;     /* of the member at `at`, in the text */
    size_t pointer_size; /* of the container's own pointer */
};

struct walk {
    splice_fn *each;
    void *context;
    struct frame *frames;
    size_t depth, room;
    struct buffer pointer;
};

static bool is_object(const struct json_node *node) { return node->text->bytes.data[node->span.begin] == '{'; }

static bool enter(struct walk *walk, const struct json_node *node)
{
    if (walk->depth == walk->room) {
        size_t room = walk->room ? 2 * walk->room : 8;
        struct frame *frames = realloc(walk->frames, room * sizeof *frames);

        if (!frames)
            return false;
        walk->frames = frames;
        walk->room = room;
    }
    walk->frames[walk->depth++] = (struct frame){
        .node = node, .at = json_text_first(node->text, node->span.begin), .pointer_size = walk->pointer.size};
    return true;
}

static bool append_token(struct buffer *pointer, coord_slice token)
{
    if (!buffer_append(pointer, "/", 1))
        return false;
    for (size_t i = 0; i < token.size; i++) {
        char c = token.data[i];

        if (c == '~' || c == '/' ? !buffer_append(pointer, c == '~' ? "~0" : "~1", 2) : !buffer_append(pointer, &c, 1))
            return false;
    }
    return true;
}

/* The container's pointer and one token more; `key` is quoted, and empty in an array. */
static bool point_at(struct walk *walk, const struct frame *frame, struct json_text *text, struct json_span key,
                     size_t index)
{
    coord_slice token;
    char digits[24];

    walk->pointer.size = frame->pointer_size;
    if (key.begin < key.end)
        return json_text_unescaped(text, key, &token) && append_token(&walk->pointer, token);
    snprintf(digits, sizeof digits, "%zu", index);
    return append_token(&walk->pointer, coord_slice_of(digits));
}

static void tell(struct walk *walk) { walk->each(walk->context, buffer_slice(&walk->pointer)); }

/* The members of the text before `begin` (0: all that are left) are in no item. */
static bool tell_removed(struct walk *walk, struct frame *frame, size_t begin)
{
    struct json_text *text = frame->node->text;

    while (frame->at != 0 && frame->at != begin) {
        struct json_member member = json_member_at(text->bytes, is_object(frame->node), frame->at);

        if (!point_at(walk, frame, text, member.key, frame->original++))
            return false;
        tell(walk);
        frame->at = json_after_member(text->bytes, member.value.end);
    }
    return true;
}

static bool tell_added(struct walk *walk, struct frame *frame, const struct json_item *item)
{
    struct json_span key = {0};

    if (item->key)
        key = (struct json_span){1, item->value_begin - 1};
    if (!point_at(walk, frame, item->key, key, frame->ordinal++))
        return false;
    tell(walk);
    return true;
}

/* A member that has an item of its own: its value was replaced, or something in it was edited, or neither. */
static bool tell_member(struct walk *walk, struct frame *frame, const struct json_item *item)
{
    struct json_text *text = frame->node->text;
    struct json_span key = {0};

    if (is_object(frame->node))
        key = (struct json_span){item->base.begin, json_skip_value(text->bytes, item->base.begin)};
    if (!point_at(walk, frame, text, key, frame->ordinal))
        return false;
    frame->ordinal++;
    if (item->value.text != text)
        tell(walk);
    else if (item->value.node)
        return enter(walk, item->value.node); /* `frame` may have moved */
    return true;
}

/* One item of the innermost container, or its end. */
static bool step(struct walk *walk)
{
    struct frame *frame = &walk->frames[walk->depth - 1];
    const struct json_node *node = frame->node;
    const struct json_item *item;

    if (frame->item == node->count) {
        if (!tell_removed(walk, frame, 0))
            return false;
        walk->depth--;
        return true;
    }
    item = &node->items[frame->item++];
    if (item->base.end == 0)
        return tell_added(walk, frame, item);
    if (!tell_removed(walk, frame, item->base.begin))
        return false;
    frame->at = json_after_member(node->text->bytes, item->base.end);
    frame->original += item->count;
    if (item->value.text)
        return tell_member(walk, frame, item);
    frame->ordinal += item->count;
    return true;
}

bool document_shares_text(const coord_document *document, const coord_document *received)
{
    return document->received == received->received;
}

bool document_splices(const coord_document *document, const coord_document *received, splice_fn *each, void *context)
{
    struct walk walk = {.each = each, .context = context};
    bool good = true;

    if (document->root.text != received->received)
        tell(&walk);
    else if (document->root.node)
        good = enter(&walk, document->root.node);
    while (good && walk.depth > 0)
        good = step(&walk);
    free(walk.frames);
    buffer_release(&walk.pointer);
    return good;
}
