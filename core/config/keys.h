/*
 * The keys of the configuration that are no params of a table: what else stands in which map. Each reader keeps its own rows;
 * it finds misspelt keys by them, and the JSON Schema is made from them.
 *
 * Thread: any; constants.
 */
#ifndef CONFIG_KEYS_H
#define CONFIG_KEYS_H

#include <coordinator/base.h>

/* What a key takes. */
enum key_kind {
    KEY_SECTION = 1, /* the section of that name */
    KEY_GATEWAYS,    /* a map: name to the keys of a gateway */
    KEY_PIPELINES,   /* a list of pipelines */
    KEY_STEPS,       /* a list of steps */
    KEY_STEP_TYPE,   /* the name of a step type */
    KEY_PARAMS,      /* the params of that type */
    KEY_MATCH,       /* a map of conditions on requests */
    KEY_WHEN,        /* the same with those that only steps have */
    KEY_TEXT,        /* a text that is not empty */
    KEY_DURATION,    /* longer than nothing */
    KEY_CHOICE,      /* one of `choices` */
    KEY_CHOICES,     /* one of them, or a list */
    KEY_TEXTS,       /* a text or a list of texts, none of them empty */
    KEY_TEXTS_MAP,   /* a map: name to such texts */
    KEY_FLAG,        /* true or false */
    KEY_COUNT,       /* a whole number of at least 0 */
    KEY_BOUNDS       /* a map with `min`, `max` or both */
};

struct key {
    const char *name;
    const char *help; /* one sentence */
    enum key_kind kind;
    bool required;
    const char *const *choices; /* KEY_CHOICE, KEY_CHOICES: NULL-terminated */
    const char *pattern; /* KEY_TEXT: what a text looks like; KEY_TEXTS_MAP: what a name does; NULL: as it likes */
};

struct keys {
    const struct key *rows;
    size_t count;
};

#define KEYS_OF(table) ((struct keys){table, sizeof(table) / sizeof *(table)})

#endif
