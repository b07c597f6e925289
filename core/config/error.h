/*
 * The error object that `create`, `start` and `thread_start` of plugins fill through coord_error_set (base.h).
 *
 * A zeroed one is ready. Ownership: whoever calls the plugin; error_release afterwards. Thread: [load].
 */
#ifndef CONFIG_ERROR_H
#define CONFIG_ERROR_H

#include "config/tree.h"
#include "runtime/buffer.h"

struct coord_error {
    struct buffer message;
    bool set;
    struct position at; /* where the value at fault stands; no line: not known */
};

/* The message, or `otherwise` when none was set (or memory was short). Borrowed. */
coord_slice error_message(const struct coord_error *error, const char *otherwise);
void error_release(struct coord_error *error);

#endif
