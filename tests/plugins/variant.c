/*
 * One plugin in many shapes: note, descriptor and step type are written by hand, and each member that a loader must not take
 * on trust can be set from the build (tests/CMakeLists.txt). Its constructor leaves a marker, so that a test can tell whether
 * anything of it ran.
 */
#include <coordinator/plugin.h>

#include <stdlib.h>
#include <fcntl.h>
#include <unistd.h>

#ifndef NOTE_MAGIC
#define NOTE_MAGIC COORD_PLUGIN_MAGIC
#endif
#ifndef NOTE_MAJOR
#define NOTE_MAJOR COORD_ABI_MAJOR
#endif
#ifndef NOTE_MINOR
#define NOTE_MINOR COORD_ABI_MINOR
#endif
#ifndef NOTE_SIZE
#define NOTE_SIZE sizeof(coord_plugin_descriptor)
#endif
#ifndef DESCRIPTOR_MAJOR
#define DESCRIPTOR_MAJOR NOTE_MAJOR
#endif
#ifndef TYPE_SIZE
#define TYPE_SIZE sizeof(coord_step_type)
#endif
#ifndef ROW_SIZE
#define ROW_SIZE sizeof(coord_param)
#endif
#ifndef TYPE_NAME
#define TYPE_NAME "variant"
#endif
#ifndef PLUGIN_NAME
#define PLUGIN_NAME "variant"
#endif
#ifndef EXECUTE
#define EXECUTE variant_execute
#endif
#ifndef SYMBOL
#define SYMBOL coord_plugin
#endif
#ifndef PARAM_TYPE
#define PARAM_TYPE COORD_PARAM_STRING
#endif

#ifdef MISSING_SYMBOL
void coord_of_a_later_version(void);
#endif

#ifdef EXPORTS /* names that the host and its libraries use */
COORD_API void *malloc(size_t size) { abort(); }
COORD_API void log_error(const char *text);
COORD_API void log_error(const char *text) { abort(); }
COORD_API void *json_object_get(void *object);
COORD_API void *json_object_get(void *object) { abort(); }
COORD_API void registry_add(void);
COORD_API void registry_add(void) { abort(); }
#endif

__attribute__((constructor)) static void leave_marker(void)
{
    const char *path = getenv("VARIANT_MARKER");
    int fd = path ? open(path, O_CREAT | O_WRONLY, 0600) : -1;

    if (fd >= 0)
        close(fd);
}

#ifndef NOT_A_PLUGIN

static coord_status variant_create(const coord_config *config, void **state, coord_error *error)
{
#ifdef CREATE_FAILS
    return coord_error_set(error, "the moon is not full");
#else
    coord_slice text = COORD_SLICE("");

    (void)error;
    if (coord_config_string(config, "text", &text) == COORD_OK)
        *state = strndup(text.data, text.size);
    return *state ? COORD_OK : COORD_FAIL;
#endif
}

#ifdef MISSING_SYMBOL
static void variant_destroy(void *state)
{
    coord_of_a_later_version();
    free(state);
}
#else
static void variant_destroy(void *state) { free(state); }
#endif

__attribute__((unused)) static coord_status variant_execute(void *state, coord_request *request)
{
    if (strcmp(state, "next") == 0)
        return COORD_NEXT;
    return coord_fail(request, 418, "teapot", "variant %s", (const char *)state);
}

/* Rows and types of a later minor are longer; what lies behind is not ours to read. */
struct longer_row {
    coord_param row;
    const void *later;
};
struct longer_type {
    coord_step_type type;
    const void *later[4];
};

static const struct longer_row ROWS[] = {
    {{.size = ROW_SIZE, .type = PARAM_TYPE, .name = "text", .help = "A text.", .fallback = "none"}, "later"},
    {{.size = ROW_SIZE, .type = COORD_PARAM_STRING, .name = "more", .help = "Another.", .fallback = "none"}, "later"},
};

static const char *const PROVIDED[] = {COORD_THING_ANSWER, NULL};

static const struct longer_type TYPE = {{.size = (uint32_t)TYPE_SIZE,
                                         .name = TYPE_NAME,
                                         .help = "A step for the loader's tests.",
                                         .params = &ROWS[0].row,
#ifdef ONE_ROW
                                         .param_count = 1,
                                         .param_size = ROW_SIZE,
#else
                                         .param_count = 2,
                                         .param_size = sizeof(struct longer_row),
#endif
                                         .provides = PROVIDED,
                                         .create = variant_create,
                                         .execute = EXECUTE,
                                         .destroy = variant_destroy},
                                        {"later", "later", "later", "later"}};

static const coord_step_type *const STEPS[] = {&TYPE.type,
#ifdef TWICE
                                               &TYPE.type,
#endif
                                               NULL};

__attribute__((section(".note.coordinator"), used, aligned(4))) static const coord_elf_note note = {
    sizeof(COORD_NOTE_NAME),
    sizeof(coord_plugin_note),
    COORD_NOTE_TYPE,
    COORD_NOTE_NAME,
    {NOTE_MAGIC, NOTE_MAJOR, NOTE_MINOR, (uint32_t)(NOTE_SIZE)}};

extern COORD_API const coord_plugin_descriptor SYMBOL;
const coord_plugin_descriptor SYMBOL = {.size = (uint32_t)(NOTE_SIZE),
                                        .magic = NOTE_MAGIC,
                                        .abi_major = DESCRIPTOR_MAJOR,
                                        .abi_minor = NOTE_MINOR,
                                        .name = PLUGIN_NAME,
                                        .version = "1",
                                        .licence = "Apache-2.0",
                                        .steps = STEPS};
#endif
