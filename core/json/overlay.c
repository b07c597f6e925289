/* See overlay.h: the tree and its edits. How it reads is in emission.c. */
#include "overlay.h"

#include "runtime/blocks.h"

#include <coordinator/document.h>

#include <assert.h>
#include <stdlib.h>

static bool is_run(const struct json_item *item) { return !item->value.text; }

static bool is_object(const struct json_text *text, size_t at) { return text->bytes.data[at] == '{'; }

int32_t json_value_type(const struct json_value *value) { return json_type_at(value->text->bytes, value->span.begin); }

size_t json_value_count(const struct json_value *value)
{
    int32_t type = json_value_type(value);
    size_t count = 0;

    if (type != COORD_JSON_OBJECT && type != COORD_JSON_ARRAY)
        return 0;
    if (!value->node)
        return json_text_count(value->text, value->span.begin);
    for (size_t i = 0; i < value->node->count; i++)
        count += value->node->items[i].count;
    return count;
}

/* Of a key with its quotes, as an item has it. */
static size_t name_size_of(coord_slice key)
{
    return key.size > 0 && memchr(key.data, '\\', key.size) ? JSON_ESCAPED : key.size - 2;
}

static void place_in_text(struct json_place *place, struct json_text *text, const struct json_member *member)
{
    place->key_text = text;
    place->key = member->key;
    place->value = (struct json_value){text, member->value, NULL};
}

static void place_in_run(struct json_place *place, struct json_text *text, size_t item, const struct json_found *found)
{
    place->item = item;
    place->within = found->ordinal;
    place_in_text(place, text, &found->member);
}

/* The only member of an item that is no run. */
static void place_item(struct json_place *place, const struct json_node *node, const struct json_item *item)
{
    bool object = is_object(node->text, node->span.begin);

    place->value = item->value;
    place->key_text = node->text;
    place->key = (struct json_span){item->base.begin, item->base.begin};
    if (item->key) {
        place->key_text = item->key;
        place->key = (struct json_span){1, item->value_begin - 1};
    } else if (object) {
        place->key.end = item->name_size == JSON_ESCAPED ? json_skip_value(node->text->bytes, item->base.begin)
                                                         : item->base.begin + item->name_size + 2;
    }
}

/* False for nearly all that do not: a look at the name's size. */
static bool may_hold(const struct json_item *item, coord_slice name)
{
    return is_run(item) || item->name_size == name.size || item->name_size == JSON_ESCAPED;
}

/* Whether the only member of an item that is no run goes by that name. */
static bool item_is(const struct json_node *node, const struct json_item *item, coord_slice name)
{
    coord_slice text = item->key ? item->key->bytes : node->text->bytes;
    size_t at = item->key ? 1 : item->base.begin;

    if (item->name_size == JSON_ESCAPED)
        return json_key_at_is(text, at, name);
    return item->name_size == name.size && memcmp(text.data + at + 1, name.data, name.size) == 0;
}

static size_t find_in_item(const struct json_node *node, size_t i, coord_slice name, struct json_place *place)
{
    const struct json_item *item = &node->items[i];
    struct json_found found;
    size_t matches;

    if (!is_run(item)) {
        if (!item_is(node, item, name))
            return 0;
        place->item = i;
        place->within = 0;
        place_item(place, node, item);
        return 1;
    }
    matches = json_text_find(node->text, item->base.begin, item->count, name, &found);
    if (matches > 0)
        place_in_run(place, node->text, i, &found);
    return matches;
}

size_t json_value_find(const struct json_value *value, coord_slice name, struct json_place *place)
{
    const struct json_node *node = value->node;
    struct json_place later;
    size_t matches = 0;

    if (!node) {
        size_t first = json_text_first(value->text, value->span.begin);
        struct json_found found;

        if (first != 0)
            matches = json_text_find(value->text, first, SIZE_MAX, name, &found);
        if (matches > 0)
            place_in_run(place, value->text, 0, &found);
        return matches;
    }
    for (size_t i = 0; i < node->count; i++)
        if (may_hold(&node->items[i], name))
            matches += find_in_item(node, i, name, matches ? &later : place);
    return matches;
}

/* Moves the finger to the item that holds member `ordinal`; false when there are not so many. */
static bool point_at(struct json_node *node, size_t ordinal)
{
    if (node->finger.ordinal > ordinal) {
        node->finger.item = 0;
        node->finger.ordinal = 0;
    }
    while (node->finger.item < node->count && ordinal - node->finger.ordinal >= node->items[node->finger.item].count)
        node->finger.ordinal += node->items[node->finger.item++].count;
    return node->finger.item < node->count;
}

bool json_value_element(const struct json_value *value, size_t ordinal, struct json_place *place)
{
    struct json_node *node = value->node;
    bool object = is_object(value->text, value->span.begin);
    size_t first = node ? 0 : json_text_first(value->text, value->span.begin);
    struct json_member member;

    *place = (struct json_place){.within = ordinal};
    if (node) {
        if (!point_at(node, ordinal))
            return false;
        place->item = node->finger.item;
        place->within = ordinal - node->finger.ordinal;
        if (!is_run(&node->items[place->item])) {
            place_item(place, node, &node->items[place->item]);
            return true;
        }
        first = node->items[place->item].base.begin;
    }
    if (first == 0 || !json_text_member(value->text, object, first, place->within, &member))
        return false;
    place_in_text(place, value->text, &member);
    return true;
}

static void release_item(struct json_item *item)
{
    json_text_unref(item->key);
    json_text_unref(item->value.text);
}

static void free_items(struct json_node *node)
{
    if (node->items != node->few)
        block_give(node->items, node->capacity * sizeof *node->items);
}

static void free_node(struct json_node *node)
{
    json_text_unref(node->joined);
    free_items(node);
    block_give(node, sizeof *node);
}

/* Takes the tree apart from its leaves. */
static void free_tree(struct json_node *root)
{
    struct json_node *node = root;

    while (node) {
        struct json_item *last = node->count > 0 ? &node->items[node->count - 1] : NULL;
        struct json_node *inner = last ? last->value.node : NULL;

        if (inner) {
            last->value.node = NULL;
            inner->parent = node;
            node = inner;
        } else if (last) {
            release_item(last);
            node->count--;
        } else {
            inner = node;
            node = node == root ? NULL : node->parent;
            free_node(inner);
        }
    }
}

void json_value_release(struct json_value *value)
{
    if (value->node && value->node->sharers > 0)
        value->node->sharers--;
    else
        free_tree(value->node);
    json_text_unref(value->text);
    *value = (struct json_value){0};
}

/* A node without items. What is in `few` is nothing yet. */
static struct json_node *make_node(struct json_text *text, struct json_span span, struct json_node *parent)
{
    struct json_node *node = block_take(sizeof *node);

    if (!node)
        return NULL;
    memset(node, 0, offsetof(struct json_node, few));
    node->text = text;
    node->span = span;
    node->parent = parent;
    node->items = node->few;
    node->capacity = JSON_FEW_ITEMS;
    return node;
}

/* A copy whose items have no nodes yet. */
static struct json_node *copy_node(const struct json_node *node, struct json_node *parent)
{
    struct json_node *copy = make_node(node->text, node->span, parent);

    if (!copy)
        return NULL;
    copy->first = node->first;
    copy->last_end = node->last_end;
    copy->joined = node->joined ? json_text_ref(node->joined) : NULL;
    if (!json_node_reserve(copy, node->count + 2)) { /* it is to be edited */
        free_node(copy);
        return NULL;
    }
    for (size_t i = 0; i < node->count; i++) {
        struct json_item *item = &copy->items[copy->count++];

        *item = node->items[i];
        item->value.node = NULL;
        if (item->value.text)
            json_text_ref(item->value.text);
        if (item->key)
            json_text_ref(item->key);
    }
    return copy;
}

/* Goes through both trees in step. */
static struct json_node *copy_tree(const struct json_node *from)
{
    struct json_node *root = copy_node(from, NULL);
    struct json_node *to = root;

    while (to) {
        const struct json_node *inner;

        if (to->walk.item == to->count) {
            to = to->parent;
            from = from->parent;
            continue;
        }
        inner = from->items[to->walk.item].value.node;
        if (inner) {
            struct json_node *copy = copy_node(inner, to);

            if (!copy) {
                free_tree(root);
                return NULL;
            }
            to->items[to->walk.item++].value.node = copy;
            to = copy;
            from = inner;
        } else {
            to->walk.item++;
        }
    }
    return root;
}

void json_value_clone(const struct json_value *value, struct json_value *copy)
{
    *copy = (struct json_value){json_text_ref(value->text), value->span, value->node};
    if (copy->node)
        copy->node->sharers++;
}

/* Gives the value a copy of the node that it shares. */
static struct json_node *unshare(struct json_value *value)
{
    struct json_node *own = copy_tree(value->node);

    if (!own)
        return NULL;
    value->node->sharers--;
    value->node = own;
    return own;
}

/* Where the last member of the container ends: what stands before the closing bracket, but white space. */
static size_t end_of_last(const struct json_text *text, struct json_span span)
{
    size_t at = span.end - 1;

    while (json_is_space((unsigned char)text->bytes.data[at - 1]))
        at--;
    return at;
}

struct json_node *json_value_open(struct json_value *value, struct json_node *parent)
{
    struct json_node *node = value->node;
    size_t first;

    if (node)
        return node->sharers > 0 ? unshare(value) : node;
    node = make_node(value->text, value->span, parent);
    if (!node)
        return NULL;
    first = json_text_first(value->text, value->span.begin);
    node->first = node->last_end = value->span.begin + 1;
    if (first != 0) {
        node->first = first;
        node->last_end = end_of_last(value->text, value->span);
        node->items[node->count++] = (struct json_item){.base = {node->first, node->last_end},
                                                        .count = json_text_count(value->text, value->span.begin)};
    }
    value->node = node;
    return node;
}

bool json_node_reserve(struct json_node *node, size_t more)
{
    size_t capacity = node->capacity;
    struct json_item *items;

    if (more <= node->capacity - node->count)
        return true;
    if (more > SIZE_MAX / sizeof *items / 4 - node->count)
        return false;
    capacity = 2 * node->capacity > node->count + more ? 2 * node->capacity : node->count + more;
    items = block_take(capacity * sizeof *items);
    if (!items)
        return false;
    memcpy(items, node->items, node->count * sizeof *items);
    free_items(node);
    node->items = items;
    node->capacity = capacity;
    return true;
}

/* Makes room for an item at `at`; the finger stays on what did not move. */
static struct json_item *make_room(struct json_node *node, size_t at)
{
    assert(node->count < node->capacity && at <= node->count);
    memmove(&node->items[at + 1], &node->items[at], (node->count - at) * sizeof *node->items);
    node->count++;
    if (node->finger.item > at) {
        node->finger.item = 0;
        node->finger.ordinal = 0;
    }
    return &node->items[at];
}

/* Cuts the run in two before its member `within`. */
static void cut(struct json_node *node, size_t i, size_t within)
{
    bool object = is_object(node->text, node->span.begin);
    struct json_member before;
    struct json_item *run;

    assert(within > 0 && within < node->items[i].count);
    if (!json_text_member(node->text, object, node->items[i].base.begin, within - 1, &before))
        abort(); /* the count was wrong */
    run = make_room(node, i);
    run[0] = run[1];
    run[0].base.end = before.value.end;
    run[0].count = within;
    run[1].base.begin = json_after_member(node->text->bytes, before.value.end);
    run[1].count -= within;
}

struct json_item *json_node_isolate(struct json_node *node, struct json_place *place)
{
    struct json_item *item = &node->items[place->item];
    struct json_span key = place->key;

    if (!is_run(item))
        return item;
    if (place->within + 1 < item->count)
        cut(node, place->item, place->within + 1);
    if (place->within > 0)
        cut(node, place->item++, place->within);
    place->within = 0;
    item = &node->items[place->item];
    item->value_begin = place->value.span.begin;
    item->value = (struct json_value){json_text_ref(node->text), place->value.span, NULL};
    item->name_size = name_size_of(json_slice(node->text->bytes, key));
    return item;
}

void json_node_insert(struct json_node *node, const struct json_place *place, struct json_text *key, size_t key_size,
                      struct json_text *text)
{
    size_t at = place ? place->item : node->count;
    struct json_item *item;

    if (place && place->within > 0) {
        cut(node, at, place->within);
        at++;
    }
    item = make_room(node, at);
    *item = (struct json_item){.count = 1, .value_begin = key_size, .value = {text, text->root, NULL}, .key = key};
    if (key)
        item->name_size = name_size_of((coord_slice){key->bytes.data + 1, key_size - 2});
}

void json_node_remove(struct json_node *node, size_t item)
{
    assert(item < node->count && node->items[item].count == 1);
    json_value_release(&node->items[item].value);
    json_text_unref(node->items[item].key);
    node->count--;
    memmove(&node->items[item], &node->items[item + 1], (node->count - item) * sizeof *node->items);
    if (node->finger.item > item) {
        node->finger.item = 0;
        node->finger.ordinal = 0;
    }
}

/* Which members go: those of that name, or the marked ones. */
struct removal {
    coord_slice name;
    const bool *marked; /* by ordinal; NULL: by name */
};

/* Copies what the run, whose first member is number `ordinal`, keeps to `kept`, as runs, and returns how many those are. */
static size_t thin_run(const struct json_node *node, const struct json_item *run, const struct removal *removal,
                       size_t ordinal, struct json_item *kept)
{
    bool object = is_object(node->text, node->span.begin);
    struct json_item *last = NULL;
    size_t count = 0;
    size_t at = run->base.begin;

    for (size_t i = 0; i < run->count; i++) {
        struct json_member member = json_member_at(node->text->bytes, object, at);

        if (removal->marked ? removal->marked[ordinal + i] : json_key_at_is(node->text->bytes, at, removal->name)) {
            last = NULL;
        } else if (last) {
            last->base.end = member.value.end;
            last->count++;
        } else {
            last = &kept[count++];
            *last = (struct json_item){.base = {at, member.value.end}, .count = 1};
        }
        at = json_after_member(node->text->bytes, member.value.end);
    }
    return count;
}

/* `most` members go. */
static bool thin(struct json_node *node, const struct removal *removal, size_t most)
{
    struct json_item *items = block_take((node->count + most + 1) * sizeof *items);
    struct json_place place;
    size_t count = 0, ordinal = 0;

    if (!items)
        return false;
    for (size_t i = 0; i < node->count; i++) {
        struct json_item *item = &node->items[i];
        size_t members = item->count;

        if (is_run(item)) {
            count += thin_run(node, item, removal, ordinal, items + count);
        } else if (removal->marked ? removal->marked[ordinal] : find_in_item(node, i, removal->name, &place) > 0) {
            json_value_release(&item->value);
            json_text_unref(item->key);
        } else {
            items[count++] = *item;
        }
        ordinal += members;
    }
    free_items(node);
    node->items = items;
    node->capacity = node->count + most + 1;
    node->count = count;
    node->finger.item = 0;
    node->finger.ordinal = 0;
    return true;
}

bool json_node_remove_all(struct json_node *node, coord_slice name)
{
    struct json_value value = {node->text, node->span, node};
    struct json_place place;

    return thin(node, &(struct removal){.name = name}, json_value_find(&value, name, &place));
}

bool json_node_remove_marked(struct json_node *node, const bool *marked)
{
    struct json_value value = {node->text, node->span, node};
    size_t count = json_value_count(&value), most = 0;

    for (size_t i = 0; i < count; i++)
        most += marked[i];
    return thin(node, &(struct removal){.marked = marked}, most);
}

void json_node_changed(struct json_node *node)
{
    for (; node; node = node->parent) {
        json_text_unref(node->joined);
        node->joined = NULL;
    }
}
