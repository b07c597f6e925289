/*
 * A plugin: a shared object with one exported symbol, `coord_plugin`, and an ELF note that says the same before any of its
 * code runs. COORD_PLUGIN(…) writes both.
 *
 *     static const coord_step_type *const steps[] = {&hello_step, NULL};
 *     COORD_PLUGIN(.name = "hello", .version = "1.0", .licence = "Apache-2.0", .steps = steps)
 *
 * Link against libcoordinator.so (CMake: coordinator::sdk, pkg-config: coordinator) with hidden visibility.
 */
#ifndef COORDINATOR_PLUGIN_H
#define COORDINATOR_PLUGIN_H

#include <coordinator/connector.h>
#include <coordinator/log.h>
#include <coordinator/step.h>

/*
 * The ABI version. A plugin runs on a core with the same major and the same or a newer minor. Within a major, symbols and
 * struct members are only added.
 */
#define COORD_ABI_MAJOR 1
#define COORD_ABI_MINOR 0

/* What the ELF note begins with. */
#define COORD_PLUGIN_MAGIC 0x434f5244u /* "CORD" */
#define COORD_NOTE_NAME "coordinator"
#define COORD_NOTE_TYPE 1

COORD_BEGIN_DECLS

/* What a plugin is and brings. */
typedef struct coord_plugin_descriptor {
    uint32_t size;  /* sizeof(coord_plugin_descriptor) */
    uint32_t magic; /* COORD_PLUGIN_MAGIC */
    uint32_t abi_major;
    uint32_t abi_minor;
    const char *name;                              /* [a-z][a-z0-9-]* */
    const char *version;                           /* free text */
    const char *licence;                           /* SPDX expression */
    const coord_step_type *const *steps;           /* NULL-terminated arrays of pointers, or NULL */
    const coord_connector_type *const *connectors; /* KV and EC connectors */
} coord_plugin_descriptor;

/* The contents of the ELF note `.note.coordinator`. */
typedef struct coord_plugin_note {
    uint32_t magic;
    uint32_t abi_major;
    uint32_t abi_minor;
    uint32_t descriptor_size;
} coord_plugin_note;

/* The note as the ELF format lays it out. */
typedef struct coord_elf_note {
    uint32_t name_size;
    uint32_t descriptor_size;
    uint32_t type;
    char name[sizeof(COORD_NOTE_NAME)]; /* 12 bytes with its NUL */
    coord_plugin_note note;
} coord_elf_note;

COORD_END_DECLS

/* COORD_PLUGIN needs it in C++. */
#ifdef __cplusplus
#define COORD_PLUGIN_LINKAGE extern "C"
#else
#define COORD_PLUGIN_LINKAGE extern
#endif

/* The note, and the declaration of `coord_plugin`: what both of the following begin with. */
#define COORD_PLUGIN_NOTE                                                                                              \
    __attribute__((section(".note.coordinator"), used,                                                                 \
                   aligned(4))) static const coord_elf_note coord_plugin_elf_note = {                                  \
        sizeof(COORD_NOTE_NAME),                                                                                       \
        sizeof(coord_plugin_note),                                                                                     \
        COORD_NOTE_TYPE,                                                                                               \
        COORD_NOTE_NAME,                                                                                               \
        {COORD_PLUGIN_MAGIC, COORD_ABI_MAJOR, COORD_ABI_MINOR, sizeof(coord_plugin_descriptor)}};                      \
    COORD_PLUGIN_LINKAGE COORD_API const coord_plugin_descriptor coord_plugin;

/* Defines `coord_plugin` and the note; the arguments are members of coord_plugin_descriptor from `name` on. */
#define COORD_PLUGIN(...)                                                                                              \
    COORD_PLUGIN_NOTE                                                                                                  \
    const coord_plugin_descriptor coord_plugin = {.size = sizeof(coord_plugin_descriptor),                             \
                                                  .magic = COORD_PLUGIN_MAGIC,                                         \
                                                  .abi_major = COORD_ABI_MAJOR,                                        \
                                                  .abi_minor = COORD_ABI_MINOR,                                        \
                                                  __VA_ARGS__};

/* The same for C++17, which has no designated initialisers. `steps` or `connectors` may be NULL. */
#define COORD_PLUGIN_OF(name, version, licence, steps, connectors)                                                     \
    COORD_PLUGIN_NOTE                                                                                                  \
    const coord_plugin_descriptor coord_plugin = {sizeof(coord_plugin_descriptor),                                     \
                                                  COORD_PLUGIN_MAGIC,                                                  \
                                                  COORD_ABI_MAJOR,                                                     \
                                                  COORD_ABI_MINOR,                                                     \
                                                  name,                                                                \
                                                  version,                                                             \
                                                  licence,                                                             \
                                                  steps,                                                               \
                                                  connectors};

#endif
