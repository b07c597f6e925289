/*
 * The files of sdk/templates, as the build has put them into the program: what `coordinator new-step` makes a folder of.
 *
 * They are a plugin of the name `my-step` that works as it is; `my_step` stands where C wants an identifier.
 */
#ifndef CLI_TEMPLATES_H
#define CLI_TEMPLATES_H

#include <stddef.h>

struct template_file {
    const char *folder; /* a kind, or "common": of all kinds; NULL ends the list */
    const char *name;
    const unsigned char *bytes;
    size_t size;
};

extern const struct template_file template_files[];

#endif
