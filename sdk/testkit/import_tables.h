/*
 * The import tables of the objects in this process: calls of functions by their names are led to others, and back. 64-bit ELF on
 * x86-64 and aarch64. Threads: the test's, while nothing else calls what is changed.
 */
#ifndef TESTKIT_IMPORT_TABLES_H
#define TESTKIT_IMPORT_TABLES_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

typedef void any_function(void);

/* Whoever imports `name` gets `ours`. */
struct import {
    const char *name;
    any_function *ours;
};

/* False: this machine's tables cannot be changed. */
bool kit_import_tables_known(void);
/* Leads the object's imports of these names elsewhere. What cannot be made writable stays as it was. */
void kit_import_tables_change(const struct dl_phdr_info *object, const struct import *imports, size_t count);
/* Something has been changed. */
bool kit_import_tables_changed(void);
/* All is as it was before the first change. */
void kit_import_tables_restore(void);

#endif
