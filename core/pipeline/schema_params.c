/* See schema.h: declared params as schemas. One row of a table for each type. */
#include "pipeline/schema.h"

#include "config/convert.h"
#include "pipeline/generation.h"

#include <coordinator/connector.h>

#include <stdio.h>

enum { PATTERN_MAX = 1024, HELP_MAX = 1024, NAMES_MAX = 256 };

/* `${NAME}` or `${NAME:-default}` somewhere (decision 75). */
#define SUBSTITUTION "[$][{][A-Za-z_][A-Za-z0-9_]*(:-[^}]*)?[}]"

const char *const schema_scalar[] = {"string", "number", "boolean", NULL};
const char *const schema_scalar_or_null[] = {"string", "number", "boolean", "null", NULL};

void schema_text(coord_json *json, const char *name, const char *text)
{
    coord_json_key(json, name);
    coord_json_string(json, coord_slice_of(text));
}

void schema_texts(coord_json *json, const char *name, const char *const *texts, const char *extra)
{
    coord_json_key(json, name);
    coord_json_array(json);
    for (size_t i = 0; texts && texts[i]; i++)
        coord_json_string(json, coord_slice_of(texts[i]));
    if (extra)
        coord_json_string(json, coord_slice_of(extra));
    coord_json_close(json);
}

void schema_open(coord_json *json, const char *name, const char *help)
{
    coord_json_key(json, name);
    coord_json_object(json);
    if (help)
        schema_text(json, "description", help);
}

void schema_pattern(coord_json *json, const char *text)
{
    char pattern[PATTERN_MAX];

    snprintf(pattern, sizeof pattern, "^(%s)$|%s", text ? text : ".+", SUBSTITUTION);
    schema_text(json, "pattern", pattern);
}

void schema_substituted(coord_json *json) { schema_text(json, "pattern", SUBSTITUTION); }

void schema_choices(coord_json *json, const char *const *choices)
{
    coord_json_key(json, "anyOf");
    coord_json_array(json);
    coord_json_object(json);
    schema_texts(json, "enum", choices, NULL);
    coord_json_close(json);
    coord_json_object(json);
    schema_text(json, "type", "string");
    schema_substituted(json);
    coord_json_close(json);
}

/* ---- One type each: what may stand there beside a substitution ---- */

/* What the writer of a type gets. */
struct writing {
    coord_json *json;
    const coord_param *param;
    const struct text_rule *rule;
};

static void write_types(const struct writing *writing, const char *const *types)
{
    schema_texts(writing->json, "type", types, "null");
}

static void write_limits(const struct writing *writing)
{
    coord_json *json = writing->json;

    if (!has_limits(writing->param))
        return;
    if (writing->param->minimum != INT64_MIN) {
        coord_json_key(json, "minimum");
        coord_json_int(json, writing->param->minimum);
    }
    if (writing->param->maximum != INT64_MAX) {
        coord_json_key(json, "maximum");
        coord_json_int(json, writing->param->maximum);
    }
}

static void write_string(const struct writing *writing)
{
    if (!writing->rule) {
        write_types(writing, schema_scalar);
        return;
    }
    write_types(writing, (const char *const[]){"string", NULL});
    schema_pattern(writing->json, writing->rule->pattern);
}

static void write_secret(const struct writing *writing)
{
    write_string(writing);
    coord_json_key(writing->json, "writeOnly");
    coord_json_bool(writing->json, true);
}

static void write_bool(const struct writing *writing)
{
    write_types(writing, (const char *const[]){"boolean", "string", NULL});
    schema_substituted(writing->json);
}

static void write_int(const struct writing *writing)
{
    write_types(writing, (const char *const[]){"integer", "string", NULL});
    write_limits(writing);
    schema_substituted(writing->json);
}

static void write_number(const struct writing *writing)
{
    write_types(writing, (const char *const[]){"number", "string", NULL});
    write_limits(writing);
    schema_substituted(writing->json);
}

/* Nothing below zero is written with a minus: then no minus is needed. 0 needs no unit. */
static void write_duration(const struct writing *writing)
{
    const coord_param *param = writing->param;
    bool zero = !has_limits(param) || (param->minimum <= 0 && param->maximum >= 0);
    bool negative = !has_limits(param) || param->minimum < 0;
    char pattern[PATTERN_MAX];

    snprintf(pattern, sizeof pattern, "%s%s|%s", negative ? "" : "^[+]?",
             duration_pattern + (negative ? 0 : strlen("^[-+]?")), SUBSTITUTION);
    coord_json_key(writing->json, "anyOf");
    coord_json_array(writing->json);
    coord_json_object(writing->json);
    write_types(writing, (const char *const[]){"string", NULL});
    schema_text(writing->json, "pattern", pattern);
    coord_json_close(writing->json);
    if (zero) {
        coord_json_object(writing->json);
        coord_json_key(writing->json, "const");
        coord_json_int(writing->json, 0);
        coord_json_close(writing->json);
    }
    coord_json_close(writing->json);
}

static void write_size(const struct writing *writing)
{
    char pattern[PATTERN_MAX];

    snprintf(pattern, sizeof pattern, "%s|%s", size_pattern, SUBSTITUTION);
    write_types(writing, (const char *const[]){"integer", "string", NULL});
    write_limits(writing);
    schema_text(writing->json, "pattern", pattern);
}

/* An empty text counts as absent, here and for URLs. */
static void write_enum(const struct writing *writing)
{
    schema_choices(writing->json, writing->param->choices);
    coord_json_object(writing->json);
    coord_json_key(writing->json, "enum");
    coord_json_array(writing->json);
    coord_json_string(writing->json, (coord_slice){0});
    coord_json_null(writing->json);
    coord_json_close(writing->json);
    coord_json_close(writing->json);
    coord_json_close(writing->json);
}

static void write_url(const struct writing *writing)
{
    bool required = writing->param->flags & COORD_PARAM_REQUIRED;
    char pattern[PATTERN_MAX];

    snprintf(pattern, sizeof pattern, "%s%s|%s", required ? "" : "^$|", url_pattern, SUBSTITUTION);
    write_types(writing, (const char *const[]){"string", NULL});
    schema_text(writing->json, "pattern", pattern);
}

/* One text is a list, too, with commas. */
static void write_list(const struct writing *writing)
{
    const struct text_rule *rule = writing->rule;
    coord_json *json = writing->json;
    char texts[PATTERN_MAX];

    schema_texts(json, "type", schema_scalar_or_null, "array");
    if (rule) {
        snprintf(texts, sizeof texts, "(%s(,%s)*)%s", rule->pattern, rule->pattern, rule->filled ? "" : "?");
        schema_pattern(json, texts);
    }
    if (rule && rule->filled) {
        coord_json_key(json, "minItems");
        coord_json_int(json, 1);
    }
    schema_open(json, "items", NULL);
    schema_texts(json, "type", schema_scalar, NULL);
    if (rule)
        schema_pattern(json, rule->pattern);
    coord_json_close(json);
}

static void write_map(const struct writing *writing)
{
    write_types(writing, (const char *const[]){"object", NULL});
    schema_open(writing->json, "additionalProperties", NULL);
    schema_texts(writing->json, "type", schema_scalar, "object"); /* the map that `<<` merges */
    coord_json_close(writing->json);
}

static void (*const writers[])(const struct writing *writing) = {
    [COORD_PARAM_STRING] = write_string,  [COORD_PARAM_SECRET] = write_secret,
    [COORD_PARAM_BOOL] = write_bool,      [COORD_PARAM_INT] = write_int,
    [COORD_PARAM_NUMBER] = write_number,  [COORD_PARAM_DURATION] = write_duration,
    [COORD_PARAM_SIZE] = write_size,      [COORD_PARAM_ENUM] = write_enum,
    [COORD_PARAM_URL] = write_url,        [COORD_PARAM_STRING_LIST] = write_list,
    [COORD_PARAM_STRING_MAP] = write_map,
};

/* ---- Around the type ---- */

static void write_default_value(coord_json *json, const struct value *value)
{
    bool map = value->param->type == COORD_PARAM_STRING_MAP;

    switch (value->param->type) {
    case COORD_PARAM_BOOL:
        coord_json_bool(json, value->integer);
        break;
    case COORD_PARAM_INT:
        coord_json_int(json, value->integer);
        break;
    case COORD_PARAM_NUMBER:
        coord_json_number(json, value->number);
        break;
    case COORD_PARAM_STRING_LIST:
    case COORD_PARAM_STRING_MAP:
        (map ? coord_json_object : coord_json_array)(json);
        for (size_t i = 0; i < value->count; i++) {
            if (map)
                coord_json_key(json, value->keys[i].data);
            coord_json_string(json, value->items[i]);
        }
        coord_json_close(json);
        break;
    default:
        coord_json_string(json, value->text);
    }
}

/* As the reader takes it: a number is a number. A declaration that is loaded has a default that can be read. */
static void write_default(coord_json *json, const coord_param *param)
{
    struct arena arena = {0};
    struct complaints complaints = {0};
    struct reading reading = {&arena, &complaints, param->name};
    struct value value = {.param = param};
    struct node *node = param->fallback ? fallback_node(&arena, param, &complaints) : NULL;

    if (node && !counts_as_absent(param, node) && convert(&reading, param, node, &value)) {
        coord_json_key(json, "default");
        write_default_value(json, &value);
    }
    complaints_release(&complaints);
    arena_release(&arena);
}

/* The loaded connectors, of which one is named. */
static void write_connector(const struct writing *writing, const struct registry *registry, int32_t kind)
{
    const char *names[NAMES_MAX + 1] = {NULL};
    coord_param choice = *writing->param;
    size_t count = 0;

    for (const struct connector_kind *each = registry->connectors; each && count < NAMES_MAX; each = each->next)
        if (each->type.kind == kind)
            names[count++] = each->type.name;
    choice.choices = names;
    write_enum(&(struct writing){writing->json, &choice, NULL});
}

void schema_param(coord_json *json, const coord_param *param, const struct text_rule *rule,
                  const struct registry *registry)
{
    struct writing writing = {json, param, rule};
    int32_t kind = connector_kind_named_by(param->name);
    char help[HELP_MAX];

    snprintf(help, sizeof help, "%s%s%s%s", param->help, param->inherits ? " Left out: what the pipeline says as " : "",
             param->inherits ? param->inherits : "", param->inherits ? "." : "");
    schema_open(json, param->name, help);
    if (kind && param->type == COORD_PARAM_STRING)
        write_connector(&writing, registry, kind);
    else
        writers[param->type](&writing);
    write_default(json, param);
    if (param->inherits)
        schema_text(json, "x-inherited-from", param->inherits);
    coord_json_close(json);
}
