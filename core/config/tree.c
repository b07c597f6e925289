/* See tree.h: reading files, what may stand on top, looking up. The tree itself is made in tree_build.c. Thread: [load]. */
#include "config/tree.h"

#include "config/tree_build.h"
#include "config/tree_value.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

struct node *tree_parse_in(struct arena *arena, const char *name, coord_slice text, char *const *environment,
                           struct complaints *complaints)
{
    static char *const empty_environment[] = {NULL};
    struct node *root;

    if (!tree_build(arena, name, text, environment ? environment : empty_environment, complaints, &root))
        return NULL;
    if (!root || node_is_null(root)) {
        struct node *empty = arena_alloc(arena, sizeof *empty);

        if (!empty) {
            complain(complaints, COMPLAINT_ERROR, (struct position){.file = name}, "memory is short");
            return NULL;
        }
        *empty = (struct node){.kind = NODE_MAP,
                               .at = root ? root->at : (struct position){arena_printf(arena, "%s", name), 1, 1}};
        return empty;
    }
    if (root->kind == NODE_MAP)
        return root;
    if (root->broken)
        return NULL;
    complain(complaints, COMPLAINT_ERROR, root->at, "expected keys and values, not %s%s",
             root->kind == NODE_LIST ? "a list" : "a text",
             root->kind == NODE_SCALAR && memchr(root->text.data, ':', root->text.size)
                 ? ": a space is missing behind the colon"
                 : "");
    return NULL;
}

struct node *tree_parse(struct arena *arena, const char *name, coord_slice text, struct complaints *complaints)
{
    return tree_parse_in(arena, name, text, environ, complaints);
}

struct node *tree_parse_value(struct arena *arena, const char *name, coord_slice text, struct complaints *complaints)
{
    struct node *root;

    if (!tree_build(arena, name, text, NULL, complaints, &root))
        return NULL;
    if (!root)
        complain(complaints, COMPLAINT_ERROR, (struct position){.file = name}, "empty");
    return root;
}

/* The whole file, but not more than one byte above the limit, which is enough to say so. */
static bool read_file(FILE *file, struct buffer *text)
{
    char chunk[8192];
    size_t got;

    text->limit = TREE_FILE_MAX + sizeof chunk;
    while (text->size <= TREE_FILE_MAX && (got = fread(chunk, 1, sizeof chunk, file)) > 0) {
        if (!buffer_append(text, chunk, got)) {
            errno = ENOMEM;
            return false;
        }
    }
    return !ferror(file);
}

static const char *name_of(const char *path) { return strcmp(path, "-") == 0 ? "<stdin>" : path; }

/* False when that was complained about. */
static bool read_path(const char *path, struct buffer *text, struct complaints *complaints)
{
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    bool done = file && read_file(file, text);

    if (!done)
        complain(complaints, COMPLAINT_ERROR, (struct position){.file = name_of(path)}, "cannot be read: %s",
                 strerror(errno));
    if (file && !standard)
        fclose(file);
    return done;
}

struct node *tree_load_in(struct arena *arena, const char *path, char *const *environment,
                          struct complaints *complaints)
{
    struct buffer text = {0};
    struct node *root = NULL;

    if (read_path(path, &text, complaints))
        root = tree_parse_in(arena, name_of(path), buffer_slice(&text), environment, complaints);
    buffer_release(&text);
    return root;
}

struct node *tree_load_value(struct arena *arena, const char *path, struct complaints *complaints)
{
    struct buffer text = {0};
    struct node *root = NULL;

    if (read_path(path, &text, complaints))
        root = tree_parse_value(arena, name_of(path), buffer_slice(&text), complaints);
    buffer_release(&text);
    return root;
}

struct node *tree_load(struct arena *arena, const char *path, struct complaints *complaints)
{
    return tree_load_in(arena, path, environ, complaints);
}

const struct entry *node_entry(const struct node *node, const char *key)
{
    for (size_t i = 0; node && node->kind == NODE_MAP && i < node->count; i++) {
        if (coord_slice_is(node->entries[i].key, key))
            return &node->entries[i];
    }
    return NULL;
}

const struct node *node_get(const struct node *node, const char *key)
{
    const struct entry *entry = node_entry(node, key);

    return entry ? entry->value : NULL;
}

bool node_is_null(const struct node *node)
{
    if (!node)
        return true;
    return node->kind == NODE_SCALAR && node->plain && !node->substituted && !node->broken &&
           (node->text.size == 0 || coord_slice_is(node->text, "~") || coord_slice_is(node->text, "null"));
}
