/*
 * What a shared object takes from others, read from the file. Thread: [load].
 */
#ifndef PIPELINE_IMPORTS_H
#define PIPELINE_IMPORTS_H

#include <coordinator/base.h>

enum imports { IMPORTS_NONE = 0, IMPORTS_SOME, IMPORTS_UNKNOWN /* unreadable, or without section headers */ };

/* Whether `file` takes any of the NULL-terminated `symbols` from another object. "" (linked in) is unknown. */
enum imports imports_any(const char *file, const char *const *symbols);

#endif
