/*
 * See overlay.h: what a value reads as.
 *
 * The rule that keeps bytes and gets commas right: the opening bracket and the white space behind it; then the items, where
 * one that stands in the text brings the bytes that followed the one before it there (exactly one comma is in them), and an
 * added one brings a comma of its own; at last the white space before the closing bracket, and that.
 */
#include "overlay.h"

struct emission {
    json_emit_fn *emit;
    void *context;
};

static void emit_span(const struct emission *emission, const struct json_text *text, size_t begin, size_t end)
{
    if (begin < end)
        emission->emit(emission->context, text, (coord_slice){text->bytes.data + begin, end - begin});
}

static void emit_comma(const struct emission *emission)
{
    emission->emit(emission->context, NULL, (coord_slice)COORD_SLICE(","));
}

static void enter(const struct emission *emission, struct json_node *node)
{
    node->walk.item = 0;
    node->walk.base_end = 0;
    node->walk.any = false;
    emit_span(emission, node->text, node->span.begin, node->first);
}

/* An item that stands in the text: what separates it from what was before, and its bytes up to the value. */
static void emit_base(const struct emission *emission, struct json_node *node, const struct json_item *item)
{
    const struct json_text *text = node->text;
    size_t before = node->walk.base_end;

    if (node->walk.any && before != 0)
        emit_span(emission, text, before, json_after_member(text->bytes, before));
    else if (node->walk.any)
        emit_comma(emission);
    emit_span(emission, text, item->base.begin, item->value.text ? item->value_begin : item->base.end);
    node->walk.base_end = item->base.end;
}

static void emit_added(const struct emission *emission, const struct json_node *node, const struct json_item *item)
{
    if (item->key)
        emit_span(emission, item->key, node->walk.any ? 0 : 1, item->value_begin);
    else if (node->walk.any)
        emit_comma(emission);
}

void json_value_emit(const struct json_value *value, json_emit_fn *emit, void *context)
{
    const struct emission emission = {emit, context};
    struct json_node *node = value->node;

    if (!node) {
        emit_span(&emission, value->text, value->span.begin, value->span.end);
        return;
    }
    enter(&emission, node);
    while (node) {
        const struct json_item *item;

        if (node->walk.item == node->count) {
            emit_span(&emission, node->text, node->last_end, node->span.end);
            node = node == value->node ? NULL : node->parent;
            continue;
        }
        item = &node->items[node->walk.item++];
        if (item->base.end != 0)
            emit_base(&emission, node, item);
        else
            emit_added(&emission, node, item);
        node->walk.any = true;
        if (item->value.node) {
            node = item->value.node;
            enter(&emission, node);
        } else if (item->value.text) {
            emit_span(&emission, item->value.text, item->value.span.begin, item->value.span.end);
        }
    }
}

/* Whether all pieces lie behind each other in memory, and how much they are. */
struct extent {
    const char *begin;
    size_t size;
    bool one;
};

static void measure(void *context, const struct json_text *text, coord_slice bytes)
{
    struct extent *extent = context;

    (void)text;
    if (!extent->begin)
        extent->begin = bytes.data;
    extent->one = extent->one && extent->begin + extent->size == bytes.data;
    extent->size += bytes.size;
}

static void append(void *context, const struct json_text *text, coord_slice bytes)
{
    char **to = context;

    (void)text;
    memcpy(*to, bytes.data, bytes.size);
    *to += bytes.size;
}

bool json_value_joined(const struct json_value *value, coord_slice *joined)
{
    struct extent extent = {.one = true};
    struct json_node *node = value->node;
    char *to;

    if (!node) {
        *joined = json_slice(value->text->bytes, value->span);
        return true;
    }
    if (node->joined) {
        *joined = node->joined->bytes;
        return true;
    }
    json_value_emit(value, measure, &extent);
    if (extent.one) {
        *joined = (coord_slice){extent.begin, extent.size};
        return true;
    }
    node->joined = json_text_room_new(extent.size, &to);
    if (!node->joined)
        return false;
    *joined = node->joined->bytes;
    json_value_emit(value, append, &to);
    return true;
}
