/*
 * See values.h. In order: overrides, what the map says (in its order, so that complaints come in the file's), then what is
 * inherited, defaulted or missing.
 *
 * Invariant: a value whose `at.file` is set was given somewhere, well or not, and is not looked for again.
 */
#include "config/convert.h"
#include "config/known.h"

enum { SHOWN_MAX = 80 };

struct loading {
    const struct values_input *input;
    struct complaints *complaints;
    struct value **values; /* one array a table */
    const char **names;    /* of all params and other keys, for "did you mean" */
    size_t name_count;
};

static bool is_given(const struct value *value) { return value->at.file != NULL; }

/* "server" + "port" → `server.port`; "step render" + "timeout" → `param "timeout" of step render`. */
static const char *label_of(const struct loading *loading, const char *name)
{
    const char *where = loading->input->where;
    char *label = strchr(where, ' ') ? arena_printf(loading->input->arena, "param \"%s\" of %s", name, where)
                                     : arena_printf(loading->input->arena, "%s%s%s", where, *where ? "." : "", name);

    return label ? label : name;
}

/* Converts `node` for one param; what is absent stays so. */
static void take(const struct loading *loading, struct value *value, const struct node *node, enum value_source source)
{
    const coord_param *param = value->param;
    struct reading reading = {loading->input->arena, loading->complaints, label_of(loading, param->name)};

    if (counts_as_absent(param, node))
        return;
    if (convert(&reading, param, node, value)) {
        value->source = source;
        value->environment = source == VALUE_ENVIRONMENT;
    } else {
        *value = (struct value){.param = param, .at = node->at};
    }
    if (!value->at.file)
        value->at.file = "";
}

/* A text that did not stand in the map: typed like a plain one, but never null. */
static struct node text_node(coord_slice text, struct position at)
{
    struct node node = {.kind = NODE_SCALAR, .at = at, .text = text, .plain = true};

    node.plain = !node_is_null(&node);
    return node;
}

static void take_override(const struct loading *loading, struct value *value)
{
    const struct values_input *input = loading->input;
    struct override override;
    struct node node;

    if (!input->override || value->param->type == COORD_PARAM_STRING_MAP)
        return;
    override = input->override(input->override_context, value->param->name);
    if (!override.given)
        return;
    node = text_node(arena_copy(input->arena, override.text), override.at);
    if (node.text.data)
        take(loading, value, &node, override.source);
    else
        complain(loading->complaints, COMPLAINT_ERROR, override.at, "memory is short");
}

/* Whatever was misspelt need not be missed as well. */
static void take_as_given(const struct loading *loading, const char *name, struct position at)
{
    for (size_t t = 0; t < loading->input->table_count; t++) {
        for (size_t i = 0; i < loading->input->tables[t].count; i++) {
            struct value *value = &loading->values[t][i];

            if (strcmp(value->param->name, name) == 0 && (value->param->flags & COORD_PARAM_REQUIRED) &&
                !is_given(value))
                value->at = at;
        }
    }
}

static void refuse_unknown(const struct loading *loading, const struct entry *entry)
{
    const struct values_input *input = loading->input;
    int size = entry->key.size < SHOWN_MAX ? (int)entry->key.size : SHOWN_MAX;
    const char *known = known_refusal(input->where, entry->key);
    const char *near = nearest_name(entry->key, loading->names, loading->name_count);
    bool step = strchr(input->where, ' ') != NULL;
    enum complaint_level level = input->allow_unknown ? COMPLAINT_WARNING : COMPLAINT_ERROR;

    if (known)
        complain(loading->complaints, COMPLAINT_ERROR, entry->at, "\"%.*s\" %s", size, entry->key.data, known);
    else
        complain(loading->complaints, level, entry->at, "unknown %s \"%s%s%.*s\"%s%s%s%s%s", step ? "param" : "key",
                 step ? "" : input->where, !step && *input->where ? "." : "", size, entry->key.data, step ? " of " : "",
                 step ? input->where : "", near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    if (near && !known && level == COMPLAINT_ERROR)
        take_as_given(loading, near, entry->at);
}

static bool is_other_key(const struct values_input *input, coord_slice key)
{
    for (size_t i = 0; i < input->other_keys.count; i++) {
        if (coord_slice_is(key, input->other_keys.rows[i].name))
            return true;
    }
    return false;
}

/* Gives one entry of the map to every table that knows its name; what is wrong with it is said once. */
static void take_entry(const struct loading *loading, const struct entry *entry)
{
    const struct values_input *input = loading->input;
    bool known = false, failed = false;

    for (size_t t = 0; t < input->table_count; t++) {
        for (size_t i = 0; i < input->tables[t].count; i++) {
            struct value *value = &loading->values[t][i];

            if (!coord_slice_is(entry->key, value->param->name))
                continue;
            known = true;
            if (is_given(value))
                continue;
            if (failed)
                value->at = entry->value->at;
            else
                take(loading, value, entry->value, VALUE_FILE);
            failed = is_given(value) && value->source == VALUE_ABSENT;
        }
    }
    if (!known && !is_other_key(input, entry->key))
        refuse_unknown(loading, entry);
}

static void take_map(const struct loading *loading)
{
    const struct node *map = loading->input->map;

    if (!map || node_is_null(map) || map->broken)
        return;
    if (map->kind != NODE_MAP) {
        complain(loading->complaints, COMPLAINT_ERROR, map->at, "%s takes keys and values, not a %s",
                 loading->input->where, map->kind == NODE_LIST ? "list" : "text");
        return;
    }
    for (size_t i = 0; i < map->count; i++)
        take_entry(loading, &map->entries[i]);
}

static bool is_collection(const coord_param *param)
{
    return param->type == COORD_PARAM_STRING_LIST || param->type == COORD_PARAM_STRING_MAP;
}

static void inherit_collection(const struct loading *loading, struct value *value, const struct value *parent)
{
    const coord_param *param = value->param;

    if (param->type != parent->param->type) {
        complain(loading->complaints, COMPLAINT_ERROR, parent->at, "%s cannot inherit a %s",
                 label_of(loading, param->name), param_type_name(parent->param->type));
        value->at = parent->at;
        return;
    }
    *value = *parent;
    value->param = param;
    value->source = VALUE_INHERITED;
}

/* What the pipeline section says, when it says something; an empty text there means nothing. */
static void take_inherited(const struct loading *loading, struct value *value)
{
    const char *key = value->param->inherits;
    const struct value *parent = key ? config_find(loading->input->parent, key) : NULL;
    struct node node;

    if (!parent)
        return;
    if (parent->source == VALUE_ABSENT) {
        value->at = parent->at; /* set when it was wrong there: said, and no reason to miss it here */
        return;
    }
    if (is_collection(parent->param)) {
        inherit_collection(loading, value, parent);
        return;
    }
    if (parent->text.size == 0)
        return;
    node = text_node(parent->text, parent->at);
    node.substituted = parent->secret;
    node.origin = parent->origin;
    take(loading, value, &node, VALUE_INHERITED);
    value->environment = parent->environment;
}

static void take_fallback(const struct loading *loading, struct value *value)
{
    struct node *node = fallback_node(loading->input->arena, value->param, loading->complaints);

    if (!node)
        return;
    take(loading, value, node, VALUE_DEFAULT);
    if (value->source == VALUE_DEFAULT)
        value->at = (struct position){.file = "default"};
}

static void take_absent(const struct loading *loading, struct value *value)
{
    take_inherited(loading, value);
    if (is_given(value))
        return;
    if (value->param->fallback)
        take_fallback(loading, value);
    else if (value->param->flags & COORD_PARAM_REQUIRED)
        complain(loading->complaints, COMPLAINT_ERROR, loading->input->at, "%s is missing",
                 label_of(loading, value->param->name));
}

/* Makes the values, all absent, with copies of their declarations. */
static bool prepare(struct loading *loading, struct coord_config *configs)
{
    const struct values_input *input = loading->input;
    size_t names = input->other_keys.count;

    for (size_t t = 0; t < input->table_count; t++)
        names += input->tables[t].count;
    loading->names = arena_alloc(input->arena, names * sizeof *loading->names);
    loading->values = arena_alloc(input->arena, input->table_count * sizeof *loading->values);
    if (!loading->names || !loading->values)
        return false;
    for (size_t t = 0; t < input->table_count; t++) {
        const struct param_table *table = &input->tables[t];
        coord_param *params = arena_alloc(input->arena, table->count * sizeof *params);
        struct value *values = arena_alloc(input->arena, table->count * sizeof *values);

        if (!params || !values)
            return false;
        for (size_t i = 0; i < table->count; i++) {
            params[i] = param_at(table, i);
            values[i].param = &params[i];
            loading->names[loading->name_count++] = params[i].name;
        }
        loading->values[t] = values;
        configs[t].values = values;
        configs[t].count = table->count;
    }
    for (size_t i = 0; i < input->other_keys.count; i++)
        loading->names[loading->name_count++] = input->other_keys.rows[i].name;
    return true;
}

bool values_load(const struct values_input *input, struct coord_config *configs, struct complaints *complaints)
{
    struct loading loading = {.input = input, .complaints = complaints};
    unsigned before = complaints->errors;

    if (!prepare(&loading, configs)) {
        complain(complaints, COMPLAINT_ERROR, input->at, "memory is short");
        return false;
    }
    for (size_t t = 0; t < input->table_count; t++) {
        for (size_t i = 0; i < input->tables[t].count; i++)
            take_override(&loading, &loading.values[t][i]);
    }
    take_map(&loading);
    for (size_t t = 0; t < input->table_count; t++) {
        for (size_t i = 0; i < input->tables[t].count; i++) {
            if (!is_given(&loading.values[t][i]))
                take_absent(&loading, &loading.values[t][i]);
        }
    }
    return complaints->errors == before;
}
