/* See changes.h. Values are compared as they were read, after environment, flags and inheritance. */
#include "pipeline/changes.h"

#include "config/conditions.h"
#include "config/sections.h"

#include <stdio.h>

enum { NAME_MAX_SIZE = 512, NAMES_MOST = 4096 };

/* Keys that were read once, when sockets, threads and TLS identities were made. */
static const struct {
    enum section section;
    const char *name;
} FIXED[] = {
    {SECTION_SERVER, "listen_addr"},       {SECTION_SERVER, "metrics_port"},      {SECTION_SERVER, "metrics_cert_dir"},
    {SECTION_SERVER, "secure_serving"},    {SECTION_SERVER, "cert_path"},         {SECTION_SERVER, "tls_min_version"},
    {SECTION_SERVER, "tls_cipher_suites"}, {SECTION_SERVER, "connection_memory"}, {SECTION_SERVER, "max_connections"},
    {SECTION_RUNTIME, "reactors"},         {SECTION_RUNTIME, "fiber_stack"},      {SECTION_RUNTIME, "blocking_warning"},
    {SECTION_RUNTIME, "offload_threads"},  {SECTION_RUNTIME, "name_servers"},
};
enum { FIXED_COUNT = sizeof FIXED / sizeof *FIXED };

static bool is_fixed(enum section section, const char *name)
{
    for (size_t i = 0; i < FIXED_COUNT; i++)
        if (FIXED[i].section == section && strcmp(FIXED[i].name, name) == 0)
            return true;
    return false;
}

/* ---- Lists of names ---- */

/* A name that does not fit any more leaves a mark at the end; one for which memory is short is left out. */
static void add(struct buffer *names, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct buffer *names, const char *format, ...)
{
    static const char cut[] = ", …";
    const char *comma = names->size > 0 ? ", " : "";
    char name[NAME_MAX_SIZE];
    va_list arguments;
    bool full = names->size >= NAMES_MOST, put = false;

    va_start(arguments, format);
    vsnprintf(name, sizeof name, format, arguments);
    va_end(arguments);
    if (!full)
        put = buffer_printf(names, "%s%s", comma, name);
    else if (memcmp(names->data + names->size - strlen(cut), cut, strlen(cut)) != 0)
        put = buffer_append_text(names, cut);
    (void)put;
}

static const char *dot(const char *section) { return *section ? "." : ""; }

/* ---- Keys ---- */

/* The names of the values that differ, each behind `prefix`. */
static void compare_values(struct buffer *changed, const char *prefix, const struct coord_config *old,
                           const struct coord_config *new)
{
    for (size_t i = 0; i < new->count; i++) {
        const struct value *before = config_find(old, new->values[i].param->name);

        if (!before || !value_equal(before, &new->values[i]))
            add(changed, "%s%s", prefix, new->values[i].param->name);
    }
}

static void compare_sections(struct changes *changes, const struct settings *old, const struct settings *new)
{
    for (size_t i = 0; i < SECTION_COUNT; i++) {
        const struct coord_config *before = &old->sections[i], *after = &new->sections[i];
        const char *section = settings_section_name(i);

        if (i == SECTION_GATEWAY || i == SECTION_PIPELINE) /* of which there may be several */
            continue;
        for (size_t k = 0; k < after->count && k < before->count; k++)
            if (!value_equal(&before->values[k], &after->values[k]) &&
                !is_fixed((enum section)i, after->values[k].param->name))
                add(&changes->changed, "%s%s%s", section, dot(section), after->values[k].param->name);
    }
}

/* ---- Gateways ---- */

static const struct gateway_settings *gateway_of(const struct settings *settings, coord_slice name)
{
    for (size_t i = 0; i < settings->gateway_count; i++)
        if (coord_slice_equal(settings->gateways[i]->name, name))
            return settings->gateways[i];
    return NULL;
}

static void lacking_gateways(struct buffer *names, const struct settings *of, const struct settings *in)
{
    for (size_t i = 0; i < of->gateway_count; i++)
        if (!gateway_of(in, of->gateways[i]->name))
            add(names, "gateway %.*s", COORD_FMT(of->gateways[i]->name));
}

static void compare_gateways(struct changes *changes, const struct settings *old, const struct settings *new)
{
    char prefix[NAME_MAX_SIZE];

    for (size_t i = 0; i < new->gateway_count; i++) {
        const struct gateway_settings *after = new->gateways[i], *before = gateway_of(old, after->name);

        snprintf(prefix, sizeof prefix, "gateway %.*s: ", COORD_FMT(after->name));
        if (before)
            compare_values(&changes->changed, prefix, &before->values, &after->values);
    }
    lacking_gateways(&changes->added, new, old);
    lacking_gateways(&changes->removed, old, new);
}

/* ---- Steps ---- */

static const struct step *step_of(const struct pipeline *pipeline, coord_slice id)
{
    for (size_t i = 0; i < pipeline->step_count; i++)
        if (coord_slice_equal(pipeline->steps[i].entry->id, id))
            return &pipeline->steps[i];
    return NULL;
}

static bool same_conditions(const struct conditions *a, const struct conditions *b)
{
    return a->given == b->given && conditions_imply(a, b) && conditions_imply(b, a);
}

static void compare_entries(struct buffer *changed, const char *prefix, const struct step_entry *old,
                            const struct step_entry *new)
{
    const struct {
        const char *key;
        bool same;
    } keys[] = {
        {"type", coord_slice_equal(old->type, new->type)},
        {"when", same_conditions(&old->when, &new->when)},
        {"timeout", old->timeout_ns == new->timeout_ns},
        {"on_error", old->continues == new->continues},
    };

    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (!keys[i].same)
            add(changed, "%s%s", prefix, keys[i].key);
}

static void compare_step(struct buffer *changed, coord_slice pipeline, const struct step *old, const struct step *new)
{
    static const struct coord_config nothing;
    char prefix[NAME_MAX_SIZE];

    snprintf(prefix, sizeof prefix, "pipeline %.*s: step %s: ", COORD_FMT(pipeline), new->id);
    compare_entries(changed, prefix, old->entry, new->entry);
    for (size_t i = 0; i < new->config_count; i++)
        compare_values(changed, prefix, i < old->config_count ? &old->configs[i] : &nothing, &new->configs[i]);
}

static void lacking_steps(struct buffer *names, const struct pipeline *of, const struct pipeline *in)
{
    for (size_t i = 0; i < of->step_count; i++)
        if (!step_of(in, of->steps[i].entry->id))
            add(names, "pipeline %.*s: step %s", COORD_FMT(of->settings->name), of->steps[i].id);
}

/* The steps that are in both stand in another order. */
static bool order_differs(const struct pipeline *old, const struct pipeline *new)
{
    const struct step *last = NULL;

    for (size_t i = 0; i < new->step_count; i++) {
        const struct step *before = step_of(old, new->steps[i].entry->id);

        if (before && last && before < last)
            return true;
        last = before ? before : last;
    }
    return false;
}

static void compare_steps(struct changes *changes, const struct pipeline *old, const struct pipeline *new)
{
    for (size_t i = 0; i < new->step_count; i++) {
        const struct step *before = step_of(old, new->steps[i].entry->id);

        if (before)
            compare_step(&changes->changed, new->settings->name, before, &new->steps[i]);
    }
    lacking_steps(&changes->added, new, old);
    lacking_steps(&changes->removed, old, new);
    if (order_differs(old, new))
        add(&changes->changed, "pipeline %.*s: order of steps", COORD_FMT(new->settings->name));
}

/* ---- Pipelines ---- */

static const struct pipeline *pipeline_of(const struct generation *generation, coord_slice name)
{
    for (size_t i = 0; i < generation->pipeline_count; i++)
        if (coord_slice_equal(generation->pipelines[i].settings->name, name))
            return &generation->pipelines[i];
    return NULL;
}

static void lacking_pipelines(struct buffer *names, const struct generation *of, const struct generation *in)
{
    for (size_t i = 0; i < of->pipeline_count; i++)
        if (!pipeline_of(in, of->pipelines[i].settings->name))
            add(names, "pipeline %.*s", COORD_FMT(of->pipelines[i].settings->name));
}

static coord_slice gateway_name(const struct pipeline *pipeline)
{
    return pipeline->settings->gateway ? pipeline->settings->gateway->name : (coord_slice){0};
}

static void compare_pipeline(struct changes *changes, const struct pipeline *old, const struct pipeline *new)
{
    char prefix[NAME_MAX_SIZE];

    snprintf(prefix, sizeof prefix, "pipeline %.*s: ", COORD_FMT(new->settings->name));
    if (!same_conditions(&old->settings->match, &new->settings->match))
        add(&changes->changed, "%smatch", prefix);
    if (!coord_slice_equal(gateway_name(old), gateway_name(new)))
        add(&changes->changed, "%sgateway", prefix);
    compare_values(&changes->changed, prefix, &old->settings->values, &new->settings->values);
    compare_steps(changes, old, new);
}

static bool pipelines_moved(const struct generation *old, const struct generation *new)
{
    const struct pipeline *last = NULL;

    for (size_t i = 0; i < new->pipeline_count; i++) {
        const struct pipeline *before = pipeline_of(old, new->pipelines[i].settings->name);

        if (before && last && before < last)
            return true;
        last = before ? before : last;
    }
    return false;
}

static void compare_pipelines(struct changes *changes, const struct generation *old, const struct generation *new)
{
    for (size_t i = 0; i < new->pipeline_count; i++) {
        const struct pipeline *before = pipeline_of(old, new->pipelines[i].settings->name);

        if (before)
            compare_pipeline(changes, before, &new->pipelines[i]);
    }
    lacking_pipelines(&changes->added, new, old);
    lacking_pipelines(&changes->removed, old, new);
    if (pipelines_moved(old, new))
        add(&changes->changed, "order of pipelines");
}

/* ---- Plugins ---- */

static bool has_plugin(const struct registry *registry, const struct plugin *wanted)
{
    for (const struct plugin *plugin = registry->plugins; plugin; plugin = plugin->next)
        if (strcmp(plugin->file, wanted->file) == 0 && strcmp(plugin->name, wanted->name) == 0)
            return true;
    return false;
}

static void lacking_plugins(struct buffer *names, const struct registry *of, const struct registry *in)
{
    for (const struct plugin *plugin = of->plugins; plugin; plugin = plugin->next)
        if (!has_plugin(in, plugin))
            add(names, "plugin %s", plugin->name);
}

void changes_find(struct changes *changes, const struct generation *old, const struct generation *new)
{
    compare_sections(changes, old->settings, new->settings);
    compare_gateways(changes, old->settings, new->settings);
    compare_pipelines(changes, old, new);
    lacking_plugins(&changes->added, new->registry, old->registry);
    lacking_plugins(&changes->removed, old->registry, new->registry);
}

void changes_release(struct changes *changes)
{
    buffer_release(&changes->added);
    buffer_release(&changes->removed);
    buffer_release(&changes->changed);
}

/* ---- What waits for a restart ---- */

static const struct value *fixed_value(const struct settings *settings, size_t index)
{
    return config_find(&settings->sections[FIXED[index].section], FIXED[index].name);
}

bool fixed_keys_keep(struct fixed_keys *fixed, const struct settings *settings)
{
    fixed->values = arena_alloc(&fixed->arena, FIXED_COUNT * sizeof *fixed->values);
    if (!fixed->values)
        return false;
    for (size_t i = 0; i < FIXED_COUNT; i++)
        if (!value_copy(&fixed->arena, fixed_value(settings, i), &fixed->values[i]))
            return false;
    return true;
}

void fixed_keys_compare(const struct fixed_keys *fixed, const struct settings *settings, struct buffer *names)
{
    for (size_t i = 0; fixed->values && i < FIXED_COUNT; i++)
        if (!value_equal(&fixed->values[i], fixed_value(settings, i)))
            add(names, "%s.%s", settings_section_name(FIXED[i].section), FIXED[i].name);
}

void fixed_keys_release(struct fixed_keys *fixed)
{
    arena_release(&fixed->arena);
    *fixed = (struct fixed_keys){0};
}
