/* See variables.h. */
#include "config/variables.h"

#include "config/sections.h"
#include "config/settings.h"

enum { NAME_LIMIT = 128, KEYS_MOST = 64 };

static const char prefix[] = "COORDINATOR_";

char *variable_name(struct arena *arena, const char *section, const char *name)
{
    char *variable = arena_printf(arena, "%s%s%s%s", prefix, section, *section ? "_" : "", name);

    for (char *c = variable; c && *c; c++) {
        if (*c >= 'a' && *c <= 'z')
            *c = (char)(*c - 'a' + 'A');
    }
    return variable;
}

/* The part of `rest` (what stands behind the prefix) that would be the key, in lower case; NULL: it is of another section. */
static const char *key_of(coord_slice rest, const char *section, char lower[NAME_LIMIT])
{
    size_t size = strlen(section), behind = size > 0 ? size + 1 : 0;

    if (rest.size <= behind || rest.size >= NAME_LIMIT)
        return NULL;
    for (size_t i = 0; i < rest.size; i++)
        lower[i] = rest.data[i] >= 'A' && rest.data[i] <= 'Z' ? (char)(rest.data[i] - 'A' + 'a') : rest.data[i];
    lower[rest.size] = '\0';
    return behind == 0 || (strncmp(lower, section, size) == 0 && lower[size] == '_') ? lower + behind : NULL;
}

/* Kubernetes writes such names for services that are called after us. */
static bool is_of_a_service(const char *key) { return strncmp(key, "service_", strlen("service_")) == 0; }

/* The key of that section which it sets, or nearly does (`*exact` tells); NULL: none. */
static const char *nearest_key(enum section section, coord_slice rest, bool *exact)
{
    struct param_table table = settings_section_table(section);
    const char *names[KEYS_MOST];
    char lower[NAME_LIMIT];
    const char *key = section_has_environment(section) ? key_of(rest, settings_section_name(section), lower) : NULL;
    const char *near;

    if (!key || is_of_a_service(key))
        return NULL;
    for (size_t i = 0; i < table.count && i < KEYS_MOST; i++)
        names[i] = table.rows[i].name;
    near = nearest_name(coord_slice_of(key), names, table.count < KEYS_MOST ? table.count : KEYS_MOST);
    *exact |= near && strcmp(near, key) == 0;
    return near;
}

static void check_one(struct arena *arena, const char *variable, size_t size, struct complaints *complaints)
{
    coord_slice rest = {variable + sizeof prefix - 1, size - (sizeof prefix - 1)};
    char *meant = NULL, *name = arena_printf(arena, "%.*s", (int)size, variable);
    bool exact = false;

    for (size_t i = 0; i < SECTION_COUNT && !exact; i++) {
        const char *near = nearest_key((enum section)i, rest, &exact);

        if (near && !meant)
            meant = variable_name(arena, settings_section_name(i), near);
    }
    if (meant && name && !exact)
        complain(complaints, COMPLAINT_WARNING, (struct position){.file = name}, "sets no key: did you mean %s?",
                 meant);
}

void variables_check(struct arena *arena, char *const *environment, struct complaints *complaints)
{
    for (; environment && *environment; environment++) {
        const char *equals = strchr(*environment, '=');

        if (equals && equals[1] != '\0' && strncmp(*environment, prefix, sizeof prefix - 1) == 0)
            check_one(arena, *environment, (size_t)(equals - *environment), complaints);
    }
}
