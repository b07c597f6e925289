/* See schema.h: sections, pipelines, conditions and steps. One row of a table for each kind of key. */
#include "pipeline/schema.h"

#include "config/conditions.h"
#include "config/pipelines.h"
#include "config/sections.h"
#include "config/steps.h"
#include "pipeline/generation.h"

#include <stdio.h>

enum { NAME_MAX_SIZE = 256, NAMES_MAX = 256 };

struct writing {
    coord_json *json;
    const struct registry *registry;
};

/* ---- Maps ---- */

/* Opens a map that may be left empty (`null`) unless `filled`; its keys follow. */
static void open_map(coord_json *json, bool filled)
{
    if (filled)
        schema_text(json, "type", "object");
    else
        schema_texts(json, "type", (const char *const[]){"object", NULL}, "null");
    coord_json_key(json, "properties");
    coord_json_object(json);
}

/* Ends its keys: no others, but `<<` and what `others`, a regular expression, fits. */
static void close_map(coord_json *json, const char *others)
{
    coord_json_close(json);
    schema_open(json, "patternProperties", NULL);
    coord_json_key(json, "^<<$");
    coord_json_bool(json, true);
    if (others) {
        coord_json_key(json, others);
        coord_json_bool(json, true);
    }
    coord_json_close(json);
    coord_json_key(json, "additionalProperties");
    coord_json_bool(json, false);
}

/* Keys that must be there, unless a merge key may bring them. */
static void write_required(coord_json *json, const char *const *names)
{
    if (!names[0])
        return;
    schema_open(json, "if", NULL);
    schema_open(json, "not", NULL);
    schema_texts(json, "required", (const char *const[]){"<<", NULL}, NULL);
    coord_json_close(json);
    coord_json_close(json);
    schema_open(json, "then", NULL);
    schema_texts(json, "required", names, NULL);
    coord_json_close(json);
}

static void write_required_keys(coord_json *json, struct keys keys)
{
    const char *names[NAMES_MAX] = {NULL};
    size_t count = 0;

    for (size_t i = 0; i < keys.count; i++)
        if (keys.rows[i].required)
            names[count++] = keys.rows[i].name;
    write_required(json, names);
}

static void write_ref(coord_json *json, const char *definition)
{
    char ref[sizeof "#/$defs/" + NAME_MAX_SIZE];

    snprintf(ref, sizeof ref, "#/$defs/%s", definition);
    schema_text(json, "$ref", ref);
}

static void write_section_params(const struct writing *writing, enum section section)
{
    struct param_table table = settings_section_table(section);

    for (size_t i = 0; i < table.count; i++)
        schema_param(writing->json, &table.rows[i], section_text_rule(section, table.rows[i].name), writing->registry);
}

static void write_keys(const struct writing *writing, struct keys keys);

static void write_section(const struct writing *writing, enum section section)
{
    struct keys keys = section == SECTION_PIPELINE ? pipeline_keys(false) : section_other_keys(section);

    open_map(writing->json, false);
    write_section_params(writing, section);
    write_keys(writing, keys);
    close_map(writing->json, NULL);
    write_required_keys(writing->json, keys);
}

/* ---- One kind of key each ---- */

static void write_section_key(const struct writing *writing, const struct key *key)
{
    for (size_t i = 0; i < settings_section_count(); i++)
        if (strcmp(settings_section_name(i), key->name) == 0)
            write_section(writing, (enum section)i);
}

/* No variable and no flag reaches a gateway of several: it has an address. */
static void write_gateways(const struct writing *writing, const struct key *key)
{
    (void)key;
    schema_texts(writing->json, "type", (const char *const[]){"object", NULL}, "null");
    schema_open(writing->json, "additionalProperties", NULL);
    open_map(writing->json, true);
    write_section_params(writing, SECTION_GATEWAY);
    close_map(writing->json, NULL);
    write_required(writing->json, (const char *const[]){"address", NULL});
    coord_json_close(writing->json);
}

static void write_items(coord_json *json, size_t most)
{
    coord_json_key(json, "minItems");
    coord_json_int(json, 1);
    if (most > 0) {
        coord_json_key(json, "maxItems");
        coord_json_int(json, (int64_t)most);
    }
}

static void write_pipelines(const struct writing *writing, const struct key *key)
{
    struct keys keys = pipeline_keys(true);

    (void)key;
    schema_texts(writing->json, "type", (const char *const[]){"array", NULL}, "null");
    write_items(writing->json, PIPELINES_MAX);
    schema_open(writing->json, "items", NULL);
    open_map(writing->json, true);
    write_keys(writing, keys);
    write_section_params(writing, SECTION_PIPELINE);
    close_map(writing->json, NULL);
    write_required_keys(writing->json, keys);
    coord_json_close(writing->json);
}

static void write_steps(const struct writing *writing, const struct key *key)
{
    (void)key;
    schema_text(writing->json, "type", "array");
    write_items(writing->json, MAX_STEPS);
    schema_open(writing->json, "items", NULL);
    write_ref(writing->json, "step");
    coord_json_close(writing->json);
}

static void write_step_type(const struct writing *writing, const struct key *key)
{
    const char *names[NAMES_MAX + 1] = {NULL};
    size_t count = 0;

    (void)key;
    for (const struct step_kind *kind = writing->registry->steps; kind && count < NAMES_MAX; kind = kind->next)
        names[count++] = kind->type.name;
    schema_choices(writing->json, names);
    coord_json_close(writing->json);
}

/* Which they are depends on the type: see write_step. */
static void write_params_key(const struct writing *writing, const struct key *key)
{
    (void)key;
    schema_texts(writing->json, "type", (const char *const[]){"object", NULL}, "null");
}

static void write_match(const struct writing *writing, const struct key *key)
{
    (void)key;
    write_ref(writing->json, "match");
}

static void write_when(const struct writing *writing, const struct key *key)
{
    (void)key;
    write_ref(writing->json, "when");
}

static void write_text(const struct writing *writing, const struct key *key)
{
    if (key->required)
        schema_texts(writing->json, "type", schema_scalar, NULL);
    else
        schema_texts(writing->json, "type", schema_scalar_or_null, NULL);
    schema_pattern(writing->json, key->pattern);
}

/* Longer than nothing: a digit that is not 0 is somewhere in it. */
static void write_duration(const struct writing *writing, const struct key *key)
{
    char pattern[NAME_MAX_SIZE];

    (void)key;
    schema_texts(writing->json, "type", (const char *const[]){"string", NULL}, "null");
    schema_pattern(writing->json, "[+]?[0.a-z]*[1-9].*");
    coord_json_key(writing->json, "allOf");
    coord_json_array(writing->json);
    coord_json_object(writing->json);
    snprintf(pattern, sizeof pattern, "[+]?%.*s", (int)(strlen(duration_pattern + strlen("^[-+]?")) - 1),
             duration_pattern + strlen("^[-+]?"));
    schema_pattern(writing->json, pattern);
    coord_json_close(writing->json);
    coord_json_close(writing->json);
}

static void write_choice(const struct writing *writing, const struct key *key)
{
    schema_choices(writing->json, key->choices);
    coord_json_object(writing->json);
    schema_text(writing->json, "type", "null");
    coord_json_close(writing->json);
    coord_json_close(writing->json);
}

static void write_choices(const struct writing *writing, const struct key *key)
{
    coord_json *json = writing->json;

    schema_choices(json, key->choices);
    coord_json_object(json);
    schema_text(json, "type", "array");
    write_items(json, 0);
    schema_open(json, "items", NULL);
    schema_choices(json, key->choices);
    coord_json_close(json);
    coord_json_close(json);
    coord_json_close(json);
    coord_json_close(json);
}

static void write_texts(const struct writing *writing, const struct key *key)
{
    coord_json *json = writing->json;

    (void)key;
    schema_texts(json, "type", schema_scalar, "array");
    coord_json_key(json, "minLength");
    coord_json_int(json, 1);
    write_items(json, 0);
    schema_open(json, "items", NULL);
    schema_texts(json, "type", schema_scalar, NULL);
    coord_json_key(json, "minLength");
    coord_json_int(json, 1);
    coord_json_close(json);
}

static void write_texts_map(const struct writing *writing, const struct key *key)
{
    coord_json *json = writing->json;
    char pattern[NAME_MAX_SIZE];

    snprintf(pattern, sizeof pattern, "^(%s)$", key->pattern);
    schema_text(json, "type", "object");
    coord_json_key(json, "minProperties");
    coord_json_int(json, 1);
    schema_open(json, "patternProperties", NULL);
    schema_open(json, pattern, NULL);
    write_texts(writing, key);
    coord_json_close(json);
    coord_json_key(json, "^<<$");
    coord_json_bool(json, true);
    coord_json_close(json);
    coord_json_key(json, "additionalProperties");
    coord_json_bool(json, false);
}

static void write_flag(const struct writing *writing, const struct key *key)
{
    (void)key;
    coord_json_key(writing->json, "anyOf");
    coord_json_array(writing->json);
    coord_json_object(writing->json);
    schema_text(writing->json, "type", "boolean");
    coord_json_close(writing->json);
    coord_json_object(writing->json);
    schema_text(writing->json, "type", "string");
    schema_substituted(writing->json);
    coord_json_close(writing->json);
    coord_json_close(writing->json);
}

static void write_count(const struct writing *writing, const struct key *key)
{
    (void)key;
    schema_texts(writing->json, "type", (const char *const[]){"integer", "string", NULL}, NULL);
    coord_json_key(writing->json, "minimum");
    coord_json_int(writing->json, 0);
    schema_pattern(writing->json, "[0-9]+");
}

static void write_bounds(const struct writing *writing, const struct key *key)
{
    (void)key;
    open_map(writing->json, true);
    write_keys(writing, conditions_bounds());
    close_map(writing->json, NULL);
    coord_json_key(writing->json, "minProperties");
    coord_json_int(writing->json, 1);
}

static void (*const writers[])(const struct writing *writing, const struct key *key) = {
    [KEY_SECTION] = write_section_key, [KEY_GATEWAYS] = write_gateways,   [KEY_PIPELINES] = write_pipelines,
    [KEY_STEPS] = write_steps,         [KEY_STEP_TYPE] = write_step_type, [KEY_PARAMS] = write_params_key,
    [KEY_MATCH] = write_match,         [KEY_WHEN] = write_when,           [KEY_TEXT] = write_text,
    [KEY_DURATION] = write_duration,   [KEY_CHOICE] = write_choice,       [KEY_CHOICES] = write_choices,
    [KEY_TEXTS] = write_texts,         [KEY_TEXTS_MAP] = write_texts_map, [KEY_FLAG] = write_flag,
    [KEY_COUNT] = write_count,         [KEY_BOUNDS] = write_bounds,
};

static void write_keys(const struct writing *writing, struct keys keys)
{
    for (size_t i = 0; i < keys.count; i++) {
        const struct key *key = &keys.rows[i];

        schema_open(writing->json, key->name, key->help);
        writers[key->kind](writing, key);
        coord_json_close(writing->json);
    }
}

/* ---- Steps ---- */

/* What a type's params may hold is written: its own, and those of each connector that it may name; a name once. */
struct gathering {
    const struct writing *writing;
    const char *names[NAMES_MAX];
    size_t count;
};

static void gather(struct gathering *gathering, const struct param_table *table)
{
    for (size_t i = 0; i < table->count && gathering->count < NAMES_MAX; i++) {
        coord_param param = param_at(table, i);
        bool known = false;

        for (size_t k = 0; k < gathering->count; k++)
            known |= strcmp(gathering->names[k], param.name) == 0;
        if (known)
            continue;
        gathering->names[gathering->count++] = param.name;
        schema_param(gathering->writing->json, &param, NULL, gathering->writing->registry);
    }
}

/* Which connector it is may stand elsewhere: none of its params is required here. */
static void gather_connectors(struct gathering *gathering)
{
    const struct connector_kind *first = gathering->writing->registry->connectors;
    size_t own = gathering->count;

    for (size_t i = 0; i < own; i++)
        for (const struct connector_kind *kind = first; kind; kind = kind->next)
            if (kind->type.kind == connector_kind_named_by(gathering->names[i]))
                gather(gathering, &kind->params);
}

/* Params that the step itself must set. */
static size_t required_params(const struct param_table *table, const char **names)
{
    size_t count = 0;

    for (size_t i = 0; i < table->count && count + 1 < NAMES_MAX; i++) {
        coord_param param = param_at(table, i);

        if ((param.flags & COORD_PARAM_REQUIRED) && !param.inherits)
            names[count++] = param.name;
    }
    names[count] = NULL;
    return count;
}

static void write_type_params(const struct writing *writing, const struct step_kind *kind)
{
    const char *required[NAMES_MAX];
    struct gathering gathering = {.writing = writing};
    char name[NAME_MAX_SIZE];
    size_t required_count = required_params(&kind->params, required);

    snprintf(name, sizeof name, "params.%s", kind->type.name);
    schema_open(writing->json, name, kind->type.help);
    open_map(writing->json, required_count > 0);
    gather(&gathering, &kind->params);
    gather_connectors(&gathering);
    close_map(writing->json, NULL);
    write_required(writing->json, required);
    coord_json_close(writing->json);
}

/* If the type is this one, its params are those. */
static void write_type_condition(const struct writing *writing, const struct step_kind *kind)
{
    coord_json *json = writing->json;
    const char *required[NAMES_MAX];
    char name[NAME_MAX_SIZE];

    coord_json_object(json);
    schema_open(json, "if", NULL);
    schema_open(json, "properties", NULL);
    schema_open(json, "type", NULL);
    schema_text(json, "const", kind->type.name);
    coord_json_close(json);
    coord_json_close(json);
    schema_texts(json, "required", (const char *const[]){"type", NULL}, NULL);
    coord_json_close(json);
    schema_open(json, "then", NULL);
    schema_open(json, "properties", NULL);
    schema_open(json, "params", NULL);
    snprintf(name, sizeof name, "params.%s", kind->type.name);
    write_ref(json, name);
    coord_json_close(json);
    coord_json_close(json);
    if (required_params(&kind->params, required) > 0)
        write_required(json, (const char *const[]){"params", NULL});
    coord_json_close(json);
    coord_json_close(json);
}

static void write_step(const struct writing *writing)
{
    schema_open(writing->json, "step", NULL);
    open_map(writing->json, true);
    write_keys(writing, step_keys());
    close_map(writing->json, NULL);
    write_required_keys(writing->json, step_keys());
    coord_json_key(writing->json, "allOf");
    coord_json_array(writing->json);
    for (const struct step_kind *kind = writing->registry->steps; kind; kind = kind->next)
        write_type_condition(writing, kind);
    coord_json_close(writing->json);
    coord_json_close(writing->json);
}

static void write_conditions(const struct writing *writing, const char *name, bool of_step)
{
    schema_open(writing->json, name, NULL);
    open_map(writing->json, false);
    write_keys(writing, conditions_keys(of_step));
    close_map(writing->json, NULL);
    coord_json_close(writing->json);
}

static void write_definitions(const struct writing *writing)
{
    schema_open(writing->json, "$defs", NULL);
    write_conditions(writing, "match", false);
    write_conditions(writing, "when", true);
    write_step(writing);
    for (const struct step_kind *kind = writing->registry->steps; kind; kind = kind->next)
        write_type_params(writing, kind);
    coord_json_close(writing->json);
}

/* ---- The whole ---- */

/* `pipeline` or `pipelines`, and not both; one that is null is not there. */
static void write_either_pipeline(coord_json *json)
{
    coord_json_key(json, "oneOf");
    coord_json_array(json);
    for (size_t i = 0; i < section_other_keys(SECTION_TOP).count; i++) {
        const struct key *key = &section_other_keys(SECTION_TOP).rows[i];

        if (key->kind != KEY_PIPELINES && strcmp(key->name, settings_section_name(SECTION_PIPELINE)) != 0)
            continue;
        coord_json_object(json);
        schema_texts(json, "required", (const char *const[]){key->name, NULL}, NULL);
        schema_open(json, "properties", NULL);
        schema_open(json, key->name, NULL);
        schema_texts(json, "type", (const char *const[]){"object", "array", NULL}, NULL);
        coord_json_close(json);
        coord_json_close(json);
        coord_json_close(json);
    }
    coord_json_close(json);
}

void schema_write(coord_json *json, const struct registry *registry, const char *version)
{
    struct writing writing = {json, registry};
    char title[NAME_MAX_SIZE];

    snprintf(title, sizeof title, "Configuration of the coordinator %s", version);
    coord_json_object(json);
    schema_text(json, "$schema", "https://json-schema.org/draft/2020-12/schema");
    schema_text(json, "title", title);
    open_map(json, true);
    write_section_params(&writing, SECTION_TOP);
    write_keys(&writing, section_other_keys(SECTION_TOP));
    close_map(json, "^x-");
    write_either_pipeline(json);
    write_definitions(&writing);
    coord_json_close(json);
}
