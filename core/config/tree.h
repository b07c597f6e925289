/*
 * A YAML file as a tree of nodes with positions. libyaml parses; typing is ours: quoted scalars are strings, plain ones are
 * typed by whoever reads them.
 *
 * Checked here, all at once where possible: one document, a mapping on top, no duplicate keys, known anchors, bounded alias
 * expansion (node visits ≤ 100,000, depth ≤ 64, file ≤ 4 MiB), merge keys (`<<`) applied, `${NAME}` / `${NAME:-default}` / `$$`
 * in scalars substituted (decision 75).
 * Ownership: nodes and their texts live in the arena of tree_load. Thread: [load].
 */
#ifndef CONFIG_TREE_H
#define CONFIG_TREE_H

#include "runtime/arena.h"
#include "runtime/buffer.h"

struct position {
    const char *file; /* as given; "<stdin>" for "-" */
    unsigned line;    /* from 1; 0: no place in a file (environment, flag): `file` then names the variable or flag */
    unsigned column;  /* from 1 */
};

enum node_kind { NODE_SCALAR = 1, NODE_LIST, NODE_MAP };

struct node;

struct entry {
    coord_slice key;
    struct position at; /* of the key */
    struct node *value;
};

struct node {
    enum node_kind kind;
    struct position at;
    coord_slice text;      /* NODE_SCALAR: its text, after substitution */
    bool plain;            /* unquoted: may be typed; `~`, `null` and empty plain are null */
    coord_slice origin;    /* of a substituted one: by which variables, never with what */
    bool substituted;      /* holds a substituted value: never printed in messages or by explain */
    bool broken;           /* what is wrong with it was already said: readers take it as absent, silently */
    struct node **items;   /* NODE_LIST */
    struct entry *entries; /* NODE_MAP, in file order, merged ones last */
    size_t count;
};

/* Everything that is wrong, in order: `file:line:column: message` lines. */
enum complaint_level { COMPLAINT_ERROR = 1, COMPLAINT_WARNING };
struct complaints {
    struct buffer text; /* lines ready to print; past the first hundred only counted */
    unsigned errors;
    unsigned warnings;
};

/* Adds `FILE:LINE:COLUMN: [warning: ]text\n`; control characters in the text come out as `?`. */
void complain(struct complaints *complaints, enum complaint_level level, struct position at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void complaints_release(struct complaints *complaints);

/* Reads a file ("-": standard input). NULL when the tree is unusable; what is wrong is in `complaints`. An empty file gives an empty map. */
struct node *tree_load(struct arena *arena, const char *path, struct complaints *complaints);
/* The same from memory; `name` stands for the file. */
struct node *tree_parse(struct arena *arena, const char *name, coord_slice text, struct complaints *complaints);
/* Both with `${NAME}` looked up in `environment` (as environ; NULL: empty) instead of the process's. */
struct node *tree_load_in(struct arena *arena, const char *path, char *const *environment,
                          struct complaints *complaints);
struct node *tree_parse_in(struct arena *arena, const char *name, coord_slice text, char *const *environment,
                           struct complaints *complaints);

/* The value of `key` in a map, NULL if absent (or `node` is NULL or no map). */
const struct node *node_get(const struct node *node, const char *key);
const struct entry *node_entry(const struct node *node, const char *key);
bool node_is_null(const struct node *node);

/*
 * Nearest of `names` to `word` by edit distance (case ignored, two letters swapped count once), NULL when none is near
 * (distance > 1 + length / 4). For "did you mean".
 */
const char *nearest_name(coord_slice word, const char *const *names, size_t count);

#endif
