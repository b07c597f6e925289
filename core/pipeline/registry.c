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

static const struct step_kind *find_step(const struct step_kind *first, coord_slice name)
{
    while (first && !coord_slice_is(name, first->type.name))
        first = first->next;
    return first;
}

static const struct connector_kind *find_connector(const struct connector_kind *first, int32_t kind, coord_slice name)
{
    while (first && (first->type.kind != kind || !coord_slice_is(name, first->type.name)))
        first = first->next;
    return first;
}

static void append_step(struct step_kind **end, struct step_kind *kind)
{
    while (*end)
        end = &(*end)->next;
    *end = kind;
}

static void append_connector(struct connector_kind **end, struct connector_kind *kind)
{
    while (*end)
        end = &(*end)->next;
    *end = kind;
}

const struct step_kind *registry_step(const struct registry *registry, coord_slice name)
{
    return find_step(registry->steps, name);
}

const struct connector_kind *registry_connector(const struct registry *registry, int32_t kind, coord_slice name)
{
    return find_connector(registry->connectors, kind, name);
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

bool registry_name_is_valid(const char *name)
{
    if (!name || name[0] < 'a' || name[0] > 'z')
        return false;
    for (const char *at = name; *at; at++)
        if (!((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '-'))
            return false;
    return true;
}

coord_status registry_refuse(struct buffer *reason, const char *file, const char *format, ...)
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
        return registry_refuse(
            reason, file,
            "the param table of \"%s\" is malformed (rows of %zu bytes); rebuild the plugin with COORD_STEP_PARAMS",
            type, table->row_size);
    status = params_check(table, &what);
    if (status != COORD_OK)
        status = registry_refuse(reason, file, "the param table of \"%s\" is malformed: %.*s; fix the declaration",
                                 type, COORD_FMT(buffer_slice(&what)));
    buffer_release(&what);
    return status;
}

static const char *provider(const struct plugin *plugin) { return *plugin->file ? plugin->file : "a linked-in plugin"; }

/* A kind of `kind_size` bytes, whose first member is the type: of that as much as both sides know. NULL: memory is short. */
static void *copy_type(struct registry *registry, size_t kind_size, const void *type, size_t type_size,
                       size_t given_size)
{
    void *kind = arena_alloc(&registry->arena, kind_size);

    if (kind)
        memcpy(kind, type, given_size < type_size ? given_size : type_size);
    return kind;
}

static coord_status check_step(const struct registry *registry, const struct plugin *plugin,
                               const struct step_kind *added, const coord_step_type *type, struct buffer *reason)
{
    const struct step_kind *same;

    if (type->size < STEP_MINIMUM)
        return registry_refuse(
            reason, plugin->file,
            "a step type of %u bytes is smaller than ABI 1.0 allows (%d); set .size = sizeof(coord_step_type)",
            type->size, STEP_MINIMUM);
    if (!registry_name_is_valid(type->name))
        return registry_refuse(reason, plugin->file, "a step type is called \"%s\"; names are [a-z][a-z0-9-]*",
                               type->name ? type->name : "");
    if (!type->execute)
        return registry_refuse(reason, plugin->file, "step type \"%s\" has no execute; every step needs one",
                               type->name);
    if (find_step(added, coord_slice_of(type->name)))
        return registry_refuse(reason, plugin->file, "it brings step type \"%s\" twice; remove one of the two",
                               type->name);
    same = find_step(registry->steps, coord_slice_of(type->name));
    if (same)
        return registry_refuse(
            reason, plugin->file,
            "step type \"%s\" is already provided by %s: take one of the two files out of plugins.load, or remove it",
            type->name, provider(same->plugin));
    return COORD_OK;
}

static coord_status add_step(struct registry *registry, const struct plugin *plugin, const coord_step_type *type,
                             struct step_kind **added, struct buffer *reason)
{
    coord_status status = check_step(registry, plugin, *added, type, reason);
    struct step_kind *kind;

    if (status != COORD_OK)
        return status;
    kind = copy_type(registry, sizeof *kind, type, sizeof kind->type, type->size);
    if (!kind)
        return registry_refuse(reason, plugin->file, "memory is short");
    kind->plugin = plugin;
    kind->params = (struct param_table){type->params, type->param_count, type->param_size};
    append_step(added, kind);
    return check_params(&kind->params, type->name, plugin->file, reason);
}

static coord_status check_connector(const struct registry *registry, const struct plugin *plugin,
                                    const struct connector_kind *added, const coord_connector_type *type,
                                    struct buffer *reason)
{
    const struct connector_kind *same;

    if (type->size < CONNECTOR_MINIMUM)
        return registry_refuse(reason, plugin->file,
                               "a connector type of %u bytes is smaller than ABI 1.0 allows (%d); set .size = "
                               "sizeof(coord_connector_type)",
                               type->size, CONNECTOR_MINIMUM);
    if (!registry_name_is_valid(type->name))
        return registry_refuse(reason, plugin->file, "a connector is called \"%s\"; names are [a-z][a-z0-9-]*",
                               type->name ? type->name : "");
    if (type->kind != COORD_CONNECTOR_KV && type->kind != COORD_CONNECTOR_EC)
        return registry_refuse(reason, plugin->file,
                               "connector \"%s\" is of kind %d, which this core does not know; it needs a newer core",
                               type->name, type->kind);
    if (find_connector(added, type->kind, coord_slice_of(type->name)))
        return registry_refuse(reason, plugin->file, "it brings connector \"%s\" twice; remove one of the two",
                               type->name);
    same = find_connector(registry->connectors, type->kind, coord_slice_of(type->name));
    if (same)
        return registry_refuse(
            reason, plugin->file,
            "connector \"%s\" is already provided by %s: take one of the two files out of plugins.load, or remove it",
            type->name, provider(same->plugin));
    return COORD_OK;
}

static coord_status add_connector(struct registry *registry, const struct plugin *plugin,
                                  const coord_connector_type *type, struct connector_kind **added,
                                  struct buffer *reason)
{
    coord_status status = check_connector(registry, plugin, *added, type, reason);
    struct connector_kind *kind;

    if (status != COORD_OK)
        return status;
    kind = copy_type(registry, sizeof *kind, type, sizeof kind->type, type->size);
    if (!kind)
        return registry_refuse(reason, plugin->file, "memory is short");
    kind->plugin = plugin;
    kind->params = (struct param_table){type->params, type->param_count, type->param_size};
    append_connector(added, kind);
    return check_params(&kind->params, type->name, plugin->file, reason);
}

static const char *keep(struct registry *registry, const char *text)
{
    coord_slice copy = arena_copy(&registry->arena, coord_slice_of(text ? text : ""));

    return copy.data ? copy.data : "";
}

coord_status registry_add(struct registry *registry, const char *file, const coord_plugin_descriptor *descriptor,
                          struct buffer *reason)
{
    struct plugin *plugin = arena_alloc(&registry->arena, sizeof *plugin), **plugin_end = &registry->plugins;
    struct step_kind *steps = NULL;
    struct connector_kind *connectors = NULL;

    if (!plugin)
        return registry_refuse(reason, file, "memory is short");
    *plugin = (struct plugin){.file = keep(registry, file),
                              .name = keep(registry, descriptor->name),
                              .version = keep(registry, descriptor->version),
                              .licence = keep(registry, descriptor->licence)};
    if (!registry_name_is_valid(descriptor->name))
        return registry_refuse(reason, file, "the plugin is called \"%s\"; names are [a-z][a-z0-9-]*", plugin->name);
    for (size_t i = 0; descriptor->steps && descriptor->steps[i]; i++)
        if (add_step(registry, plugin, descriptor->steps[i], &steps, reason) != COORD_OK)
            return COORD_INVALID;
    for (size_t i = 0; descriptor->connectors && descriptor->connectors[i]; i++)
        if (add_connector(registry, plugin, descriptor->connectors[i], &connectors, reason) != COORD_OK)
            return COORD_INVALID;
    append_step(&registry->steps, steps);
    append_connector(&registry->connectors, connectors);
    while (*plugin_end)
        plugin_end = &(*plugin_end)->next;
    *plugin_end = plugin;
    return COORD_OK;
}
