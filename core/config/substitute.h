/*
 * `${NAME}`, `${NAME:-default}` and `$$` in one scalar (decision 75). Not recursive: what was put in is not looked at again.
 *
 * Thread: [load].
 */
#ifndef CONFIG_SUBSTITUTE_H
#define CONFIG_SUBSTITUTE_H

#include "runtime/arena.h"

struct substitution {
    char *const *environment; /* as environ; NULL: texts stay as they are */
    size_t budget;            /* bytes that substituted values may still bring in, for all scalars of a file together */
};

/* The value of `name` in `environment`; {NULL, 0} when it is not there. */
coord_slice environment_get(char *const *environment, coord_slice name);

/* What came of a text. */
struct substituted {
    coord_slice text;    /* arena, or what was given */
    bool happened;       /* a value came in */
    coord_slice origin;  /* by which variables, never with what: "${A} is set, ${B} is not: default" */
    const char *problem; /* when it went wrong; arena or constant */
};

/* Replaces everything in `raw`. False, with `problem`, when a name is unset, a brace is open, or the budget is spent. */
bool substitute(struct substitution *substitution, struct arena *arena, coord_slice raw, struct substituted *result);

#endif
