/* The typed getters of the public param.h. Contracts there. Thread: [load]. */
#include "config/values.h"

#define TYPE(kind) (1u << COORD_PARAM_##kind)

/* The value of `name` when it is of one of `types`. */
static coord_status get(const coord_config *config, const char *name, unsigned types, const struct value **value)
{
    *value = config_find(config, name);
    if (!*value)
        return COORD_INVALID;
    if (!(types & (1u << (*value)->param->type)))
        return COORD_MISTYPED;
    return (*value)->source == VALUE_ABSENT ? COORD_ABSENT : COORD_OK;
}

coord_status coord_config_string(const coord_config *config, const char *name, coord_slice *value)
{
    const struct value *found;
    coord_status status = get(config, name, TYPE(STRING) | TYPE(SECRET) | TYPE(ENUM) | TYPE(URL), &found);

    if (status == COORD_OK)
        *value = found->text;
    return status;
}

coord_status coord_config_bool(const coord_config *config, const char *name, bool *value)
{
    const struct value *found;
    coord_status status = get(config, name, TYPE(BOOL), &found);

    if (status == COORD_OK)
        *value = found->integer != 0;
    return status;
}

static coord_status get_integer(const coord_config *config, const char *name, unsigned types, int64_t *value)
{
    const struct value *found;
    coord_status status = get(config, name, types, &found);

    if (status == COORD_OK)
        *value = found->integer;
    return status;
}

coord_status coord_config_int(const coord_config *config, const char *name, int64_t *value)
{
    return get_integer(config, name, TYPE(INT), value);
}

coord_status coord_config_number(const coord_config *config, const char *name, double *value)
{
    const struct value *found;
    coord_status status = get(config, name, TYPE(NUMBER) | TYPE(INT), &found);

    if (status == COORD_OK)
        *value = found->param->type == COORD_PARAM_INT ? (double)found->integer : found->number;
    return status;
}

coord_status coord_config_duration(const coord_config *config, const char *name, int64_t *nanoseconds)
{
    return get_integer(config, name, TYPE(DURATION), nanoseconds);
}

coord_status coord_config_size(const coord_config *config, const char *name, uint64_t *bytes)
{
    int64_t value;
    coord_status status = get_integer(config, name, TYPE(SIZE), &value);

    if (status == COORD_OK)
        *bytes = (uint64_t)value;
    return status;
}

coord_status coord_config_choice(const coord_config *config, const char *name, int32_t *index)
{
    int64_t value;
    coord_status status = get_integer(config, name, TYPE(ENUM), &value);

    if (status == COORD_OK)
        *index = (int32_t)value;
    return status;
}

coord_status coord_config_entry(const coord_config *config, const char *name, size_t index, coord_slice *key,
                                coord_slice *value)
{
    const struct value *found;
    coord_status status = get(config, name, TYPE(STRING_LIST) | TYPE(STRING_MAP), &found);

    if (status != COORD_OK)
        return status;
    if (index >= found->count)
        return COORD_END;
    if (key)
        *key = found->keys ? found->keys[index] : (coord_slice){0};
    *value = found->items[index];
    return COORD_OK;
}

bool coord_config_is_set(const coord_config *config, const char *name)
{
    const struct value *value = config_find(config, name);

    return value && (value->source == VALUE_FILE || value->source == VALUE_ENVIRONMENT || value->source == VALUE_FLAG);
}

coord_slice coord_config_step_id(const coord_config *config) { return config->step_id; }
