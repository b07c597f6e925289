/*
 * Request targets: cleaning a path for route matching (decision 9), and splitting off the query.
 * Thread: any.
 */
#ifndef HTTP_PATH_H
#define HTTP_PATH_H

#include "runtime/arena.h"

/* The part before '?' (or '#'); `query`, may be NULL, gets what follows the '?' (without it), empty if there is none. Absolute form: from the path on. */
coord_slice path_of_target(coord_slice target, coord_slice *query);

/* Duplicate slashes, dot segments and a trailing slash removed; percent escapes stay as they are. "" and "/" give "/". Empty: memory is short. */
coord_slice path_clean(struct arena *arena, coord_slice path);

/* True when every byte may stand in a request target that we send (0x21–0x7E, 0x80–0xFF). */
bool path_target_valid(coord_slice target);

#endif
