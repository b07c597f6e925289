/*
 * What a dry run must not show: secret params, and what came from the environment, by `${NAME}` or by a variable of a key's own.
 *
 * Of a URL the part behind the host is hidden, and of one that is not a gateway's the host, too. A text from the environment of
 * fewer than four bytes is none: it would stand everywhere. Thread: gather [load]; hide [any thread].
 */
#ifndef PIPELINE_SECRETS_H
#define PIPELINE_SECRETS_H

#include "pipeline/generation.h"

/* Zeroed is none; everything lives in the arena. */
struct secrets {
    struct arena *arena;
    coord_slice *list;
    size_t count, capacity;
};

/* False when memory is short. */
bool secrets_gather(struct secrets *secrets, struct arena *arena, const struct generation *generation) COORD_MUST_CHECK;

/* Appends `text` with each of them replaced by [secret]. False when memory is short. */
bool secrets_hide(const struct secrets *secrets, coord_slice text, struct buffer *out) COORD_MUST_CHECK;

#endif
