/* `coordinator steps [NAME] [--json]`: what is loaded, and what it can be configured with. */
#include "cli/load.h"
#include "config/convert.h"

#include <coordinator/document.h>

#include <stdio.h>

/* A step or connector type, for printing. */
struct listed {
    const char *kind; /* "step", "kv-connector", "ec-connector" */
    const char *name;
    const char *help;
    const struct param_table *params;
    const char *const *needs, *const *provides;
    const struct plugin *plugin;
};

static struct listed of_step(const struct step_kind *kind)
{
    return (struct listed){"step",           kind->type.name,     kind->type.help, &kind->params,
                           kind->type.needs, kind->type.provides, kind->plugin};
}

static struct listed of_connector(const struct connector_kind *kind)
{
    return (struct listed){kind->type.kind == COORD_CONNECTOR_KV ? "kv-connector" : "ec-connector",
                           kind->type.name,
                           kind->type.help,
                           &kind->params,
                           NULL,
                           NULL,
                           kind->plugin};
}

static const char *or_empty(const char *text) { return text ? text : ""; }

static void json_text(coord_json *json, const char *key, const char *text)
{
    coord_json_key(json, key);
    if (text)
        coord_json_string(json, coord_slice_of(text));
    else
        coord_json_null(json);
}

static void json_names(coord_json *json, const char *key, const char *const *names)
{
    coord_json_key(json, key);
    coord_json_array(json);
    for (size_t i = 0; names && names[i]; i++)
        coord_json_string(json, coord_slice_of(names[i]));
    coord_json_close(json);
}

static void json_param(coord_json *json, const coord_param *param)
{
    coord_json_object(json);
    json_text(json, "name", param->name);
    json_text(json, "type", param_type_name(param->type));
    coord_json_key(json, "required");
    coord_json_bool(json, (param->flags & COORD_PARAM_REQUIRED) != 0);
    json_text(json, "default", param->fallback);
    json_text(json, "inherited_from", param->inherits);
    if (has_limits(param)) {
        coord_json_key(json, "minimum");
        coord_json_int(json, param->minimum);
        coord_json_key(json, "maximum");
        coord_json_int(json, param->maximum);
    }
    if (param->choices)
        json_names(json, "choices", param->choices);
    json_text(json, "help", param->help);
    coord_json_close(json);
}

static void json_type(coord_json *json, const struct listed *listed)
{
    coord_json_object(json);
    json_text(json, "kind", listed->kind);
    json_text(json, "name", listed->name);
    json_text(json, "help", or_empty(listed->help));
    json_text(json, "plugin", listed->plugin->name);
    json_text(json, "version", listed->plugin->version);
    json_text(json, "licence", listed->plugin->licence);
    json_text(json, "file", listed->plugin->file);
    json_names(json, "needs", listed->needs);
    json_names(json, "provides", listed->provides);
    coord_json_key(json, "params");
    coord_json_array(json);
    for (size_t i = 0; i < listed->params->count; i++) {
        coord_param param = param_at(listed->params, i);

        json_param(json, &param);
    }
    coord_json_close(json);
    coord_json_close(json);
}

/* The largest and the smallest number are no limit. */
static void print_limits(const coord_param *param)
{
    struct limit_text least = print_limit(param, param->minimum), most = print_limit(param, param->maximum);
    bool below = param->minimum != INT64_MIN, above = param->maximum != INT64_MAX;

    if (below && above)
        printf(", %s to %s", least.text, most.text);
    else if (below)
        printf(", at least %s", least.text);
    else if (above)
        printf(", at most %s", most.text);
}

static void print_range(const coord_param *param)
{
    if (has_limits(param))
        print_limits(param);
    for (size_t i = 0; param->choices && param->choices[i]; i++)
        printf("%s%s", i ? " | " : ": ", param->choices[i]);
}

static void print_type(const struct listed *listed)
{
    const struct plugin *plugin = listed->plugin;

    printf("%s %s: %s\n  from %s %s%s%s (%s)\n", listed->kind, listed->name, or_empty(listed->help), plugin->name,
           plugin->version, *plugin->licence ? ", licence " : "", plugin->licence, plugin->file);
    for (size_t i = 0; i < listed->params->count; i++) {
        coord_param param = param_at(listed->params, i);

        printf("  %s (%s", param.name, param_type_name(param.type));
        print_range(&param);
        printf(")%s\n      %s", param.flags & COORD_PARAM_REQUIRED ? " required" : "", param.help);
        if (param.fallback)
            printf(" Default: %s.", *param.fallback ? param.fallback : "\"\"");
        if (param.inherits)
            printf(" Inherited from pipeline.%s.", param.inherits);
        printf("\n");
    }
}

/* Calls `each` for all types, or for those called `name`; the number of calls. */
static size_t for_each(const struct registry *registry, const char *name,
                       void (*each)(void *context, const struct listed *listed), void *context)
{
    size_t count = 0;

    for (const struct step_kind *kind = registry->steps; kind; kind = kind->next)
        if (!name || strcmp(kind->type.name, name) == 0) {
            struct listed listed = of_step(kind);

            each(context, &listed);
            count++;
        }
    for (const struct connector_kind *kind = registry->connectors; kind; kind = kind->next)
        if (!name || strcmp(kind->type.name, name) == 0) {
            struct listed listed = of_connector(kind);

            each(context, &listed);
            count++;
        }
    return count;
}

static void each_line(void *context, const struct listed *listed)
{
    (void)context;
    printf("%-14s %-22s %s\n", listed->kind, listed->name, or_empty(listed->help));
}

static void each_whole(void *context, const struct listed *listed)
{
    (void)context;
    print_type(listed);
}

static void each_json(void *context, const struct listed *listed) { json_type(context, listed); }

static size_t print_json(const struct registry *registry, const char *name)
{
    coord_json *json = coord_json_new();
    coord_slice text;
    size_t count;

    coord_json_array(json);
    count = for_each(registry, name, each_json, json);
    coord_json_close(json);
    if (json && coord_json_end(json, &text) == COORD_OK)
        printf("%.*s\n", COORD_FMT(text));
    coord_json_free(json);
    return count;
}

static void say_unknown(const struct registry *registry, const char *name)
{
    const char *near = registry_nearest_step(registry, coord_slice_of(name));

    if (!near)
        near = registry_nearest_connector(registry, COORD_CONNECTOR_KV, coord_slice_of(name));
    if (!near)
        near = registry_nearest_connector(registry, COORD_CONNECTOR_EC, coord_slice_of(name));
    fprintf(stderr, "coordinator: no step or connector type \"%s\" is loaded%s%s%s\n", name,
            near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

int cli_steps(const struct arguments *arguments)
{
    const char *name = arguments->rest_count > 0 ? arguments->rest[0] : NULL;
    struct complaints complaints = {0};
    struct registry registry;
    size_t count = 0;
    bool good;

    if (arguments->rest_count > 1)
        return cli_misused("steps");
    good = load_types(&registry, arguments, true, &complaints);
    if (good)
        count = arguments->json ? print_json(&registry, name)
                                : for_each(&registry, name, name ? each_whole : each_line, NULL);
    fprintf(stderr, "%.*s", COORD_FMT(buffer_slice(&complaints.text)));
    if (name && count == 0 && good)
        say_unknown(&registry, name);
    registry_release(&registry);
    complaints_release(&complaints);
    return good && count > 0 ? 0 : 2;
}
