/*
 * Edits laid over texts that never change: a tree of nodes, one for each container that was edited or has one inside.
 *
 * A value is a span of a text. While it has no node, it reads as those bytes. A node lists what the container holds now as
 * items, in order: runs of members as they stand in the text, single members whose value was edited, and added ones; what is
 * in no item was removed. A value put in by an edit is a text of its own and is edited in the same way.
 *
 * Invariants: the runs and members of a node lie in its text in the order of the items; a node without edits reads as the
 * bytes that it covers. Nothing here recurses, so depth costs no stack.
 * Ownership: a value holds a reference to its text and owns its node; a node owns its items. A cloned value shares the node
 * with the one it was made from until either is edited, which copies it first. Thread: one, see text.h.
 */
#ifndef JSON_OVERLAY_H
#define JSON_OVERLAY_H

#include "json/text.h"

struct json_node;

enum { JSON_FEW_ITEMS = 4 };

struct json_value {
    struct json_text *text;
    struct json_span span;
    struct json_node *node; /* NULL: as it stands in the text */
};

/*
 * run:    base covers `count` members; value.text is NULL
 * member: base covers one member, value_begin tells where its value stood; `value` is what it is now
 * added:  base is empty; `key` begins with `,"name":` in objects, up to value_begin, and is NULL in arrays
 */
struct json_item {
    struct json_span base;
    size_t count;
    size_t value_begin;
    struct json_value value;
    struct json_text *key;
    size_t name_size; /* of one that is no run: as json_entry has it */
};

struct json_node {
    struct json_text *text; /* that of the value to which the node belongs */
    struct json_span span;
    size_t first;    /* where the first member of the text begins; behind the bracket when there is none */
    size_t last_end; /* where the last one ends; the same */
    struct json_node *parent;
    struct json_item *items;
    size_t count;
    size_t capacity;
    struct {
        size_t item;
        size_t ordinal; /* of the first member of that item */
    } finger;
    struct {
        size_t item;
        size_t base_end; /* where the last item that stands in the text ended; 0: there was none */
        bool any;
    } walk;                   /* of whoever goes through the tree at the moment */
    size_t sharers;           /* values that have this node beyond the first; only roots are shared */
    struct json_text *joined; /* what the container reads as, cached; a copy of the node holds it as well */
    struct json_item few[JSON_FEW_ITEMS];
};

/* A member or element of a container, found. */
struct json_place {
    size_t item;   /* in the node; 0 when there is no node yet */
    size_t within; /* ordinal inside that item */
    struct json_text *key_text;
    struct json_span key;    /* with quotes, in key_text; empty in arrays */
    struct json_value value; /* borrowed: no reference is held */
};

/* COORD_JSON_… */
int32_t json_value_type(const struct json_value *value);

/* Members or elements; 0 when it is no container. */
size_t json_value_count(const struct json_value *value);

/* How often the object `value` has the member `name`; `place` is the first, and not touched when there is none. */
size_t json_value_find(const struct json_value *value, coord_slice name, struct json_place *place);

/* Member or element `ordinal` of the container; false when there are not so many. */
bool json_value_element(const struct json_value *value, size_t ordinal, struct json_place *place);

/* Gives back what the value holds. */
void json_value_release(struct json_value *value);

/* Makes `copy` the same value, which costs nothing until one of the two is edited. `value` is no part of another. */
void json_value_clone(const struct json_value *value, struct json_value *copy);

/* Makes sure that the container has a node of its own, which changes nothing that reads. NULL when memory is short. */
struct json_node *json_value_open(struct json_value *value, struct json_node *parent);

/* Makes room for `more` items; each call below that makes items needs up to two more. False when memory is short. */
bool json_node_reserve(struct json_node *node, size_t more);

/* Makes what is at `place` an item of its own, which changes nothing that reads. The place then names that item. */
struct json_item *json_node_isolate(struct json_node *node, struct json_place *place);

/*
 * Puts a new item in before `place` (NULL: at the end), taking the references to `text` and `key` over. Of `key` (NULL in
 * arrays) the first `key_size` bytes are `,"name":`.
 */
void json_node_insert(struct json_node *node, const struct json_place *place, struct json_text *key, size_t key_size,
                      struct json_text *text);

/* Takes an isolated item out. */
void json_node_remove(struct json_node *node, size_t item);

/* Takes every member `name` out of an object; false, and nothing done, when memory is short. */
bool json_node_remove_all(struct json_node *node, coord_slice name);

/* Takes those out whose ordinal is marked, in one pass. `marked` is for all members of the container. The same. */
bool json_node_remove_marked(struct json_node *node, const bool *marked);

/* The node reads differently from now on: forgets what was cached of it and of all around it. */
void json_node_changed(struct json_node *node);

/* Called for each piece in order. `text` is where the bytes are from, NULL for a comma of ours. */
typedef void json_emit_fn(void *context, const struct json_text *text, coord_slice bytes);

/* Goes through the bytes that the value reads as. */
void json_value_emit(const struct json_value *value, json_emit_fn *emit, void *context);

/* The value as one piece, valid until it is changed; false when memory is short. */
bool json_value_joined(const struct json_value *value, coord_slice *joined);

#endif
