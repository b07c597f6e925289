/* See registry.h. */
#include "pipeline/registry.h"

#include <stddef.h>

/* The smallest accepted size of each struct ends at the last member of ABI 1.0 that must be there. */
#define END_OF(type, member) (offsetof(type, member) + sizeof(((type *)0)->member))
enum {
    STEP_MINIMUM = END_OF(coord_step_type, execute),
    CONNECTOR_MINIMUM = END_OF(coord_connector_type, abort),
    PARAM_MINIMUM = END_OF(coord_param, choices),
};

enum { COMPARED_NAMES = 256 };

void registry_init(struct registry *registry) { *registry = (struct registry){0}; }

void registry_release(struct registry *registry)
{
    arena_release(&registry->arena);
    registry_init(registry);
}

const struct step_kind *registry_step(const struct registry *registry, coord_slice name)
{
    for (const struct step_kind *kind = registry->steps; kind; kind = kind->next)
        if (coord_slice_is(name, kind->type.name))
            return kind;
    return NULL;
}

const struct connector_kind *registry_connector(const struct registry *registry, int32_t kind_of, coord_slice name)
{
    for (const struct connector_kind *kind = registry->connectors; kind; kind = kind->next)
        if (kind->type.kind == kind_of && coord_slice_is(name, kind->type.name))
            return kind;
    return NULL;
}

const char *registry_nearest_step(const struct registry *registry, coord_slice name)
{
    const char *names[COMPARED_NAMES];
    size_t count = 0;

    for (const struct step_kind *kind = registry->steps; kind && count < COMPARED_NAMES; kind = kind->next)
        names[count++] = kind->type.name;
    return nearest_name(name, names, count);
}

const char *registry_nearest_connector(const struct registry *registry, int32_t kind_of, coord_slice name)
{
    const char *names[COMPARED_NAMES];
    size_t count = 0;

    for (const struct connector_kind *kind = registry->connectors; kind && count < COMPARED_NAMES; kind = kind->next)
        if (kind->type.kind == kind_of)
            names[count++] = kind->type.name;
    return nearest_name(name, names, count);
}

static bool valid_type_name(const char *name)
{
    if (!name || name[0] < 'a' || name[0] > 'z')
        return false;
    for (const char *at = name; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '-'))
            return false;
    return true;
}

static coord_status refuse(struct buffer *reason, const char *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static coord_status refuse(struct buffer *reason, const char *file, const char *format, ...)
{
    va_list arguments;
    bool said;

    va_start(arguments, format);
    said =
        buffer_printf(reason, "%s: ", *file ? file : "linked-in plugin") && buffer_vprintf(reason, format, arguments);
    va_end(arguments);
    (void)said; /* a shorter message is all that is lost */
    return COORD_INVALID;
}

/* A malformed table is the author's mistake; say which type it belongs to. */
static coord_status check_params(const struct param_table *table, const char *type, const char *file,
                                 struct buffer *reason)
{
    struct buffer what = {.limit = 512};
    coord_status status;

    if (table->count > 0 && (table->row_size < PARAM_MINIMUM || !table->rows || table->count > 256))
        return refuse(
            reason, file,
            "the param table of \"%s\" is malformed (rows of %zu bytes); rebuild the plugin with COORD_STEP_PARAMS",
            type, table->row_size);
    status = params_check(table, &what);
    if (status != COORD_OK)
        status = refuse(reason, file, "the param table of \"%s\" is malformed: %.*s; fix the declaration", type,
                        COORD_FMT(buffer_slice(&what)));
    buffer_release(&what);
    return status;
}

static coord_status add_step(struct registry *registry, const struct plugin *plugin, const coord_step_type *type,
                             struct step_kind **added, struct buffer *reason)
{
    const struct step_kind *same;
    struct step_kind *kind;
    coord_status status;

    if (type->size < STEP_MINIMUM)
        return refuse(
            reason, plugin->file,
            "a step type of %u bytes is smaller than ABI 1.0 allows (%d); set .size = sizeof(coord_step_type)",
            type->size, STEP_MINIMUM);
    if (!valid_type_name(type->name))
        return refuse(reason, plugin->file, "a step type is called \"%s\"; names are [a-z][a-z0-9-]*",
                      type->name ? type->name : "");
    if (!type->execute)
        return refuse(reason, plugin->file, "step type \"%s\" has no execute; every step needs one", type->name);
    same = registry_step(registry, coord_slice_of(type->name));
    if (same)
        return refuse(reason, plugin->file, "step type \"%s\" is already provided by %s; remove one of the two files",
                      type->name, *same->plugin->file ? same->plugin->file : "a linked-in plugin");
    kind = arena_alloc(&registry->arena, sizeof *kind);
    if (!kind)
        return refuse(reason, plugin->file, "memory is short");
    memcpy(&kind->type, type, type->size < sizeof kind->type ? type->size : sizeof kind->type);
    kind->params = (struct param_table){type->params, type->param_count, type->param_size};
    kind->plugin = plugin;
    status = check_params(&kind->params, type->name, plugin->file, reason);
    if (status != COORD_OK)
        return status;
    while (*added)
        added = &(*added)->next;
    *added = kind;
    return COORD_OK;
}

static coord_status add_connector(struct registry *registry, const struct plugin *plugin,
                                  const coord_connector_type *type, struct connector_kind **added,
                                  struct buffer *reason)
{
    const struct connector_kind *same;
    struct connector_kind *kind;
    coord_status status;

    if (type->size < CONNECTOR_MINIMUM)
        return refuse(reason, plugin->file,
                      "a connector type of %u bytes is smaller than ABI 1.0 allows (%d); set .size = "
                      "sizeof(coord_connector_type)",
                      type->size, CONNECTOR_MINIMUM);
    if (!valid_type_name(type->name))
        return refuse(reason, plugin->file, "a connector is called \"%s\"; names are [a-z][a-z0-9-]*",
                      type->name ? type->name : "");
    if (type->kind != COORD_CONNECTOR_KV && type->kind != COORD_CONNECTOR_EC)
        return refuse(reason, plugin->file,
                      "connector \"%s\" is of kind %d, which this core does not know; it needs a newer core",
                      type->name, type->kind);
    same = registry_connector(registry, type->kind, coord_slice_of(type->name));
    if (same)
        return refuse(reason, plugin->file, "connector \"%s\" is already provided by %s; remove one of the two files",
                      type->name, *same->plugin->file ? same->plugin->file : "a linked-in plugin");
    kind = arena_alloc(&registry->arena, sizeof *kind);
    if (!kind)
        return refuse(reason, plugin->file, "memory is short");
    memcpy(&kind->type, type, type->size < sizeof kind->type ? type->size : sizeof kind->type);
    kind->params = (struct param_table){type->params, type->param_count, type->param_size};
    kind->plugin = plugin;
    status = check_params(&kind->params, type->name, plugin->file, reason);
    if (status != COORD_OK)
        return status;
    while (*added)
        added = &(*added)->next;
    *added = kind;
    return COORD_OK;
}

static const char *keep(struct registry *registry, const char *text)
{
    coord_slice copy = arena_copy(&registry->arena, coord_slice_of(text ? text : ""));

    return copy.data ? copy.data : "";
}

coord_status registry_add(struct registry *registry, const char *file, const coord_plugin_descriptor *descriptor,
                          struct buffer *reason)
{
    struct plugin *plugin = arena_alloc(&registry->arena, sizeof *plugin);
    struct step_kind *steps = NULL, **step_end = &registry->steps;
    struct connector_kind *connectors = NULL, **connector_end = &registry->connectors;
    struct plugin **plugin_end = &registry->plugins;

    if (!plugin)
        return refuse(reason, file, "memory is short");
    *plugin = (struct plugin){.file = keep(registry, file),
                              .name = keep(registry, descriptor->name),
                              .version = keep(registry, descriptor->version),
                              .licence = keep(registry, descriptor->licence)};
    if (!valid_type_name(descriptor->name))
        return refuse(reason, file, "the plugin is called \"%s\"; names are [a-z][a-z0-9-]*", plugin->name);
    for (size_t i = 0; descriptor->steps && descriptor->steps[i]; i++) {
        for (const struct step_kind *kind = steps; kind; kind = kind->next)
            if (descriptor->steps[i]->name && strcmp(kind->type.name, descriptor->steps[i]->name) == 0)
                return refuse(reason, file, "it brings step type \"%s\" twice; remove one of the two", kind->type.name);
        if (add_step(registry, plugin, descriptor->steps[i], &steps, reason) != COORD_OK)
            return COORD_INVALID;
    }
    for (size_t i = 0; descriptor->connectors && descriptor->connectors[i]; i++) {
        const coord_connector_type *type = descriptor->connectors[i];

        for (const struct connector_kind *kind = connectors; kind; kind = kind->next)
            if (type->name && type->kind == kind->type.kind && strcmp(kind->type.name, type->name) == 0)
                return refuse(reason, file, "it brings connector \"%s\" twice; remove one of the two", kind->type.name);
        if (add_connector(registry, plugin, type, &connectors, reason) != COORD_OK)
            return COORD_INVALID;
    }
    while (*step_end)
        step_end = &(*step_end)->next;
    *step_end = steps;
    while (*connector_end)
        connector_end = &(*connector_end)->next;
    *connector_end = connectors;
    while (*plugin_end)
        plugin_end = &(*plugin_end)->next;
    *plugin_end = plugin;
    return COORD_OK;
}
