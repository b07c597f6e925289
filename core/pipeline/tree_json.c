/* See tree_json.h. Goes as deep as the tree, which whoever read it has bounded. */
#include "pipeline/tree_json.h"

static void write_scalar(const struct node *node, coord_json *json)
{
    bool plain = node->plain && !node->substituted;
    coord_document *value = plain ? coord_document_parse_new(node->text, NULL, NULL) : NULL;

    if (node->substituted)
        coord_json_string(json, (coord_slice)COORD_SLICE("[substituted]"));
    else if (value)
        coord_json_raw(json, node->text);
    else if (node_is_null(node))
        coord_json_null(json);
    else
        coord_json_string(json, node->text);
    coord_document_free(value);
}

static bool write_members(const struct node *node, coord_json *json)
{
    for (size_t i = 0; i < node->count; i++) {
        const struct entry *entry = &node->entries[i];

        if (memchr(entry->key.data, '\0', entry->key.size))
            return false;
        coord_json_key(json, entry->key.data);
        if (!tree_write_json(entry->value, json))
            return false;
    }
    return true;
}

bool tree_write_json(const struct node *node, coord_json *json)
{
    bool good = true;

    if (node->kind == NODE_SCALAR) {
        write_scalar(node, json);
        return true;
    }
    if (node->kind == NODE_MAP) {
        coord_json_object(json);
        good = write_members(node, json);
    } else {
        coord_json_array(json);
        for (size_t i = 0; i < node->count && good; i++)
            good = tree_write_json(node->items[i], json);
    }
    coord_json_close(json);
    return good;
}
