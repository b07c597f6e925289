/* See convert.h. One reader per type, in a table; what is printed in a message goes through `refuse`, which hides secrets. */
#include "config/convert.h"

#include "config/tree_value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { SHOWN_MAX = 80, MESSAGE_MAX = 512, NUMBER_MAX = 64 };

static bool hidden(const coord_param *param, const struct node *node)
{
    return param->type == COORD_PARAM_SECRET || node->substituted;
}

/* Complains `LABEL: "text" MESSAGE`; the text of secrets and of what came from the environment into the file is not shown. */
__attribute__((format(printf, 4, 5))) static bool refuse(const struct reading *reading, const coord_param *param,
                                                         const struct node *node, const char *format, ...)
{
    char message[MESSAGE_MAX];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    if (node->kind != NODE_SCALAR)
        complain(reading->complaints, COMPLAINT_ERROR, node->at, "%s: %s", reading->label, message);
    else if (hidden(param, node))
        complain(reading->complaints, COMPLAINT_ERROR, node->at, "%s: the value (not shown) %s", reading->label,
                 message);
    else
        complain(reading->complaints, COMPLAINT_ERROR, node->at, "%s: \"%.*s\"%s %s", reading->label,
                 node->text.size < SHOWN_MAX ? (int)node->text.size : SHOWN_MAX, node->text.data,
                 node->text.size < SHOWN_MAX ? "" : "…", message);
    return false;
}

struct limit_text print_limit(const coord_param *param, int64_t limit)
{
    static const struct {
        int32_t type;
        int64_t factor;
        const char *name;
    } units[] = {
        {COORD_PARAM_SIZE, 1 << 30, "GiB"},       {COORD_PARAM_SIZE, 1 << 20, "MiB"},
        {COORD_PARAM_SIZE, 1 << 10, "KiB"},       {COORD_PARAM_DURATION, 3600000000000, "h"},
        {COORD_PARAM_DURATION, 60000000000, "m"}, {COORD_PARAM_DURATION, 1000000000, "s"},
        {COORD_PARAM_DURATION, 1000000, "ms"},    {COORD_PARAM_DURATION, 1000, "us"},
        {COORD_PARAM_DURATION, 1, "ns"},
    };
    struct limit_text out;

    snprintf(out.text, sizeof out.text, "%lld%s", (long long)limit,
             param->type == COORD_PARAM_DURATION ? "s" : ""); /* 0, or a number without a unit */
    if (limit == 0)
        return out;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (units[i].type == param->type && limit % units[i].factor == 0) {
            snprintf(out.text, sizeof out.text, "%lld%s", (long long)(limit / units[i].factor), units[i].name);
            break;
        }
    }
    return out;
}

bool has_limits(const coord_param *param)
{
    return !(param->flags & COORD_PARAM_NO_LIMITS) &&
           (param->type == COORD_PARAM_INT || param->type == COORD_PARAM_NUMBER ||
            param->type == COORD_PARAM_DURATION || param->type == COORD_PARAM_SIZE);
}

/* `order`: below 0 the value is too small, above 0 too large. */
static bool check_limits(const struct reading *reading, const coord_param *param, const struct node *node, int order)
{
    if (order < 0)
        return refuse(reading, param, node, "is too small: the least is %s", print_limit(param, param->minimum).text);
    if (order > 0)
        return refuse(reading, param, node, "is too large: the most is %s", print_limit(param, param->maximum).text);
    return true;
}

static bool check_integer(const struct reading *reading, const coord_param *param, const struct node *node,
                          int64_t integer)
{
    if (!has_limits(param))
        return true;
    return check_limits(reading, param, node, integer < param->minimum ? -1 : integer > param->maximum);
}

/* Booleans and numbers must be written plainly; a substituted text takes the type of its key, quoted or not. */
static bool must_be_plain(const struct reading *reading, const coord_param *param, const struct node *node)
{
    if (node->plain || node->substituted)
        return true;
    return refuse(reading, param, node, "is a quoted text, but this takes %s: remove the quotes",
                  param->type == COORD_PARAM_BOOL ? "true or false" : "a number");
}

static bool read_text(const struct reading *reading, const coord_param *param, const struct node *node,
                      struct value *value)
{
    (void)reading, (void)param;
    value->text = node->text;
    return true;
}

static bool read_bool(const struct reading *reading, const coord_param *param, const struct node *node,
                      struct value *value)
{
    value->integer = coord_slice_is(node->text, "true");
    if (!value->integer && !coord_slice_is(node->text, "false"))
        return refuse(reading, param, node, "is no boolean: write true or false");
    return must_be_plain(reading, param, node);
}

static bool read_int(const struct reading *reading, const coord_param *param, const struct node *node,
                     struct value *value)
{
    if (!parse_integer(node->text, &value->integer))
        return refuse(reading, param, node, "is no integer");
    return must_be_plain(reading, param, node) && check_integer(reading, param, node, value->integer);
}

/* JSON's numbers, and a leading plus; strtod alone takes hexadecimal, "nan" and "inf" too. */
static bool parse_number(coord_slice text, double *number)
{
    char copy[NUMBER_MAX];
    char *end;

    if (text.size == 0 || text.size >= sizeof copy)
        return false;
    memcpy(copy, text.data, text.size);
    copy[text.size] = 0;
    if (strspn(copy, "+-.0123456789eE") != text.size)
        return false;
    *number = strtod(copy, &end);
    return end == copy + text.size && isfinite(*number);
}

static bool read_number(const struct reading *reading, const coord_param *param, const struct node *node,
                        struct value *value)
{
    if (!parse_number(node->text, &value->number))
        return refuse(reading, param, node, "is no number");
    if (!must_be_plain(reading, param, node))
        return false;
    return !has_limits(param) ||
           check_limits(reading, param, node,
                        value->number < (double)param->minimum ? -1 : value->number > (double)param->maximum);
}

static bool read_duration(const struct reading *reading, const coord_param *param, const struct node *node,
                          struct value *value)
{
    double number;

    if (parse_duration(node->text, &value->integer))
        return check_integer(reading, param, node, value->integer);
    if (!parse_number(node->text, &number))
        return refuse(reading, param, node, "is no duration: write 30s, 1m30s or 250ms");
    if (hidden(param, node))
        return refuse(reading, param, node, "has no unit: write it as in 30s");
    return refuse(reading, param, node, "has no unit: write %.*ss", COORD_FMT(node->text));
}

static bool read_size(const struct reading *reading, const coord_param *param, const struct node *node,
                      struct value *value)
{
    uint64_t bytes;

    if (!parse_size(node->text, &bytes))
        return refuse(reading, param, node, "is no size: write bytes, or 64KiB, 16MiB, 1GiB");
    if (bytes > INT64_MAX)
        return has_limits(param) ? check_limits(reading, param, node, 1) : refuse(reading, param, node, "is too large");
    value->integer = (int64_t)bytes;
    return check_integer(reading, param, node, value->integer);
}

static size_t choice_count(const coord_param *param)
{
    size_t count = 0;

    while (param->choices && param->choices[count])
        count++;
    return count;
}

static bool refuse_choice(const struct reading *reading, const coord_param *param, const struct node *node)
{
    size_t count = choice_count(param);
    const char *near = hidden(param, node) ? NULL : nearest_name(node->text, param->choices, count);
    char list[MESSAGE_MAX / 2] = "";
    size_t used = 0;

    for (size_t i = 0; i < count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", param->choices[i]);
    if (near)
        return refuse(reading, param, node, "is none of %s: did you mean \"%s\"?", list, near);
    return refuse(reading, param, node, "is none of %s", list);
}

static bool read_enum(const struct reading *reading, const coord_param *param, const struct node *node,
                      struct value *value)
{
    for (size_t i = 0; i < choice_count(param); i++) {
        if (coord_slice_is(node->text, param->choices[i])) {
            value->text = node->text;
            value->integer = (int64_t)i;
            return true;
        }
    }
    return refuse_choice(reading, param, node);
}

static bool read_url(const struct reading *reading, const coord_param *param, const struct node *node,
                     struct value *value)
{
    const char *reason;

    return parse_url(reading->arena, node->text, &value->text, &reason) || refuse(reading, param, node, "%s", reason);
}

static bool out_of_memory(const struct reading *reading, const struct node *node)
{
    complain(reading->complaints, COMPLAINT_ERROR, node->at, "%s: memory is short", reading->label);
    return false;
}

static coord_slice trimmed(coord_slice text)
{
    while (text.size > 0 && (*text.data == ' ' || *text.data == '\t')) {
        text.data++;
        text.size--;
    }
    while (text.size > 0 && (text.data[text.size - 1] == ' ' || text.data[text.size - 1] == '\t'))
        text.size--;
    return text;
}

/* "a, b" as a list; an empty text is an empty list. */
static bool split_list(const struct reading *reading, const struct node *node, struct value *value)
{
    const char *at = node->text.data, *end = at + node->text.size;
    size_t count = 1;

    value->text = node->text;
    if (trimmed(node->text).size == 0)
        return true;
    for (const char *c = at; c < end; c++)
        count += *c == ',';
    value->items = arena_alloc(reading->arena, count * sizeof *value->items);
    if (!value->items)
        return out_of_memory(reading, node);
    for (; value->count < count; value->count++) {
        const char *comma = memchr(at, ',', (size_t)(end - at));
        coord_slice item = {at, (size_t)((comma ? comma : end) - at)};

        value->items[value->count] = arena_copy(reading->arena, trimmed(item));
        if (!value->items[value->count].data)
            return out_of_memory(reading, node);
        at = comma ? comma + 1 : end;
    }
    return true;
}

/* One item of a list or value of a map. */
static bool read_item(const struct reading *reading, const coord_param *param, const struct node *item, size_t index,
                      struct value *value)
{
    if (item->broken)
        return false;
    if (item->kind != NODE_SCALAR || node_is_null(item)) {
        complain(reading->complaints, COMPLAINT_ERROR, item->at, "%s: item %zu must be a text, not %s", reading->label,
                 index + 1,
                 item->kind == NODE_SCALAR ? "empty"
                 : item->kind == NODE_LIST ? "a list"
                                           : "a map");
        return false;
    }
    value->secret |= hidden(param, item);
    if (value->origin.size == 0)
        value->origin = item->origin;
    else if (item->origin.size > 0)
        value->origin = coord_slice_of(
            arena_printf(reading->arena, "%.*s, %.*s", COORD_FMT(value->origin), COORD_FMT(item->origin)));
    value->items[index] = item->text;
    return true;
}

static bool read_list(const struct reading *reading, const coord_param *param, const struct node *node,
                      struct value *value)
{
    bool good = true;

    if (node->kind == NODE_SCALAR)
        return split_list(reading, node, value);
    if (node->kind == NODE_MAP)
        return refuse(reading, param, node, "takes a list of texts, not a map");
    value->count = node->count;
    value->items = arena_alloc(reading->arena, node->count * sizeof *value->items);
    if (!value->items)
        return out_of_memory(reading, node);
    for (size_t i = 0; i < node->count; i++)
        good &= read_item(reading, param, node->items[i], i, value);
    return good;
}

static bool read_map(const struct reading *reading, const coord_param *param, const struct node *node,
                     struct value *value)
{
    bool good = true;

    if (node->kind != NODE_MAP)
        return refuse(reading, param, node,
                      node->kind == NODE_SCALAR ? "is no map of texts" : "takes a map of texts, not a list");
    value->count = node->count;
    value->items = arena_alloc(reading->arena, node->count * sizeof *value->items);
    value->keys = arena_alloc(reading->arena, node->count * sizeof *value->keys);
    if (!value->items || !value->keys)
        return out_of_memory(reading, node);
    for (size_t i = 0; i < node->count; i++) {
        value->keys[i] = node->entries[i].key;
        good &= read_item(reading, param, node->entries[i].value, i, value);
    }
    return good;
}

typedef bool reader(const struct reading *reading, const coord_param *param, const struct node *node,
                    struct value *value);

static reader *const readers[] = {
    [COORD_PARAM_STRING] = read_text,      [COORD_PARAM_SECRET] = read_text,    [COORD_PARAM_BOOL] = read_bool,
    [COORD_PARAM_INT] = read_int,          [COORD_PARAM_NUMBER] = read_number,  [COORD_PARAM_DURATION] = read_duration,
    [COORD_PARAM_SIZE] = read_size,        [COORD_PARAM_ENUM] = read_enum,      [COORD_PARAM_URL] = read_url,
    [COORD_PARAM_STRING_LIST] = read_list, [COORD_PARAM_STRING_MAP] = read_map,
};

bool convert(const struct reading *reading, const coord_param *param, const struct node *node, struct value *value)
{
    bool collection = param->type == COORD_PARAM_STRING_LIST || param->type == COORD_PARAM_STRING_MAP;
    const char *type_name = param_type_name(param->type);

    value->at = node->at;
    if (node->broken)
        return false;
    if (node->kind != NODE_SCALAR && !collection)
        return refuse(reading, param, node, "takes a%s %s, not a %s", strchr("aeiou", type_name[0]) ? "n" : "",
                      type_name, node->kind == NODE_LIST ? "list" : "map");
    value->secret = hidden(param, node);
    value->origin = node->origin;
    if (!collection)
        value->text = node->text; /* as written; readers of texts put theirs */
    return readers[param->type](reading, param, node, value);
}

bool counts_as_absent(const coord_param *param, const struct node *node)
{
    return node_is_null(node) || (node->kind == NODE_SCALAR && node->text.size == 0 && !node->broken &&
                                  (param->type == COORD_PARAM_ENUM || param->type == COORD_PARAM_URL));
}

struct node *fallback_node(struct arena *arena, const coord_param *param, struct complaints *complaints)
{
    coord_slice text = coord_slice_of(param->fallback);
    bool text_like = param->type == COORD_PARAM_STRING || param->type == COORD_PARAM_SECRET ||
                     param->type == COORD_PARAM_STRING_LIST;
    bool yaml = param->type == COORD_PARAM_STRING_LIST || param->type == COORD_PARAM_STRING_MAP ||
                (text.size > 0 && (*text.data == '"' || *text.data == '\''));
    struct node *node;

    if (yaml && text.size > 0)
        return tree_parse_value(arena, "default", text, complaints);
    node = arena_alloc(arena, sizeof *node);
    if (!node) {
        complain(complaints, COMPLAINT_ERROR, (struct position){.file = "default"}, "memory is short");
        return NULL;
    }
    *node = (struct node){.kind = NODE_SCALAR, .at.file = "default", .text = text};
    node->plain = !text_like; /* "" and "null" are defaults like any other there */
    return node;
}
