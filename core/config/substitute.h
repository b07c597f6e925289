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

/*
 * Puts `raw` with everything replaced into `*text` (arena, or `raw` itself) and says in `*substituted` whether a value came
 * in. False with `*problem` (arena or constant) when a name is unset, a brace is open, or the budget is spent.
 */
bool substitute(struct substitution *substitution, struct arena *arena, coord_slice raw, coord_slice *text,
                bool *substituted, const char **problem);

#endif
