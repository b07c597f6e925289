/* Param tables themselves: rows of any ABI age, and whether a declaration makes sense. See values.h. Thread: [load]. */
#include "config/convert.h"

#include <stdlib.h>

/* Where v1's last member ends: no row may be shorter. */
static const size_t smallest_row = offsetof(coord_param, choices) + sizeof(const char *const *);

static const char *const type_names[] = {
    [COORD_PARAM_STRING] = "string",
    [COORD_PARAM_SECRET] = "secret",
    [COORD_PARAM_BOOL] = "bool",
    [COORD_PARAM_INT] = "int",
    [COORD_PARAM_NUMBER] = "number",
    [COORD_PARAM_DURATION] = "duration",
    [COORD_PARAM_SIZE] = "size",
    [COORD_PARAM_ENUM] = "enum",
    [COORD_PARAM_URL] = "url",
    [COORD_PARAM_STRING_LIST] = "string list",
    [COORD_PARAM_STRING_MAP] = "string map",
};

const char *param_type_name(int32_t type)
{
    bool known = type >= COORD_PARAM_STRING && type <= COORD_PARAM_STRING_MAP;

    return known ? type_names[type] : "unknown";
}

coord_param param_at(const struct param_table *table, size_t index)
{
    const char *row = (const char *)table->rows + index * table->row_size;
    size_t size = table->row_size < sizeof(coord_param) ? table->row_size : sizeof(coord_param);
    coord_param param;

    memset(&param, 0, sizeof param);
    memcpy(&param, row, size);
    return param;
}

static bool name_is_valid(const char *name)
{
    if (!name || name[0] < 'a' || name[0] > 'z')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(name);
}

static bool is_repeated(const struct param_table *table, size_t index, const char *name)
{
    for (size_t i = 0; i < index; i++) {
        if (strcmp(param_at(table, i).name, name) == 0)
            return true;
    }
    return false;
}

static bool choices_are_good(const coord_param *param)
{
    if (!param->choices || !param->choices[0])
        return false;
    for (size_t i = 0; param->choices[i]; i++) {
        if (!param->choices[i][0])
            return false;
    }
    return true;
}

/* What is wrong with a row, apart from its default; NULL: nothing. Its name is known to be good. */
static const char *row_problem(const coord_param *param)
{
    if (param->type < COORD_PARAM_STRING || param->type > COORD_PARAM_STRING_MAP)
        return "its type is unknown";
    if (!param->help || !param->help[0])
        return "it has no help text";
    if (param->type == COORD_PARAM_ENUM && !choices_are_good(param))
        return "an enum needs choices, none of them empty";
    if (param->type != COORD_PARAM_ENUM && param->choices)
        return "only an enum has choices";
    if (param->inherits && !name_is_valid(param->inherits))
        return "what it inherits is no key of the pipeline section";
    if ((param->flags & COORD_PARAM_REQUIRED) && param->fallback)
        return "it is required and has a default: one or the other";
    if (has_limits(param) && param->minimum == 0 && param->maximum == 0)
        return "minimum and maximum are both 0: set them, or the flag COORD_PARAM_NO_LIMITS";
    if (has_limits(param) && param->minimum > param->maximum)
        return "minimum is above maximum";
    return NULL;
}

/* Reads the default as if an operator had written it; what is wrong is appended to `reason`. */
static bool fallback_is_good(const coord_param *param, struct buffer *reason)
{
    struct arena arena = {0};
    struct complaints complaints = {0};
    struct reading reading = {&arena, &complaints, param->name};
    struct value value = {0};
    struct node *node = fallback_node(&arena, param, &complaints);
    bool good = node && convert(&reading, param, node, &value);

    if (!good) {
        coord_slice text = buffer_slice(&complaints.text);
        bool told = buffer_append_slice(reason, (coord_slice){text.data, text.size ? text.size - 1 : 0});

        (void)told;
    }
    complaints_release(&complaints);
    arena_release(&arena);
    return good;
}

__attribute__((format(printf, 2, 3))) static coord_status malformed(struct buffer *reason, const char *format, ...)
{
    va_list arguments;
    bool told;

    va_start(arguments, format);
    told = buffer_vprintf(reason, format, arguments);
    va_end(arguments);
    (void)told; /* the status says it too */
    return COORD_INVALID;
}

static coord_status row_check(const struct param_table *table, size_t index, struct buffer *reason)
{
    coord_param param = param_at(table, index);
    const char *problem;

    if (param.size < smallest_row || param.size > table->row_size)
        return malformed(reason, "row %zu: its size is %u, but rows are %zu bytes", index, param.size, table->row_size);
    if (!name_is_valid(param.name))
        return malformed(reason, "row %zu: the name \"%s\" is not of the form [a-z][a-z0-9_]*", index,
                         param.name ? param.name : "");
    if (is_repeated(table, index, param.name))
        return malformed(reason, "param \"%s\" is declared twice", param.name);
    problem = row_problem(&param);
    if (problem)
        return malformed(reason, "param \"%s\": %s", param.name, problem);
    if (param.fallback && !fallback_is_good(&param, reason))
        return COORD_INVALID;
    return COORD_OK;
}

coord_status params_check(const struct param_table *table, struct buffer *reason)
{
    if (table->count == 0)
        return COORD_OK;
    if (!table->rows)
        return malformed(reason, "%zu params are announced, but there are no rows", table->count);
    if (table->row_size < smallest_row)
        return malformed(reason, "rows are %zu bytes, but the smallest known are %zu", table->row_size, smallest_row);
    for (size_t i = 0; i < table->count; i++) {
        coord_status status = row_check(table, i, reason);

        if (status != COORD_OK)
            return status;
    }
    return COORD_OK;
}

const struct value *config_find(const struct coord_config *config, const char *name)
{
    for (size_t i = 0; config && name && i < config->count; i++) {
        if (strcmp(config->values[i].param->name, name) == 0)
            return &config->values[i];
    }
    return NULL;
}
