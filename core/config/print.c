/* Values as text that reads back as YAML; secrets never. See values.h. Thread: [load]. */
#include "config/values.h"

#include <inttypes.h>

/* True when a text may stand in YAML (flow lists included) as it is. */
static bool is_bare(coord_slice text)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+-";

    if (text.size == 0 || text.data[text.size - 1] == ':' || coord_slice_is(text, "null"))
        return false;
    if (memchr(":@%+-", text.data[0], 5))
        return false;
    for (size_t i = 0; i < text.size; i++) {
        if (!memchr(safe, text.data[i], sizeof safe - 1))
            return false;
    }
    return true;
}

static bool print_quoted(coord_slice text, struct buffer *out)
{
    bool done = buffer_append(out, "\"", 1);

    for (size_t i = 0; done && i < text.size; i++) {
        unsigned char c = (unsigned char)text.data[i];

        if (c == '"' || c == '\\')
            done = buffer_printf(out, "\\%c", c);
        else if (c < 0x20 || c == 0x7f)
            done = buffer_printf(out, "\\x%02X", c);
        else
            done = buffer_append(out, &text.data[i], 1);
    }
    return done && buffer_append(out, "\"", 1);
}

static bool print_text(coord_slice text, struct buffer *out)
{
    return is_bare(text) ? buffer_append_slice(out, text) : print_quoted(text, out);
}

static bool print_collection(const struct value *value, struct buffer *out)
{
    bool map = value->param->type == COORD_PARAM_STRING_MAP;
    bool done = buffer_append(out, map ? "{" : "[", 1);

    for (size_t i = 0; done && i < value->count; i++) {
        done = buffer_append_text(out, i ? ", " : "") &&
               (!map || (print_text(value->keys[i], out) && buffer_append_text(out, ": "))) &&
               print_text(value->items[i], out);
    }
    return done && buffer_append(out, map ? "}" : "]", 1);
}

bool value_print(const struct value *value, struct buffer *out)
{
    if (value->source == VALUE_ABSENT)
        return true;
    if (value->secret)
        return buffer_append_text(out, "[secret]");
    switch (value->param->type) {
    case COORD_PARAM_STRING_LIST:
    case COORD_PARAM_STRING_MAP:
        return print_collection(value, out);
    case COORD_PARAM_BOOL:
        return buffer_append_text(out, value->integer ? "true" : "false");
    case COORD_PARAM_INT:
        return buffer_printf(out, "%" PRId64, value->integer);
    case COORD_PARAM_NUMBER:
    case COORD_PARAM_DURATION:
    case COORD_PARAM_SIZE:
        return buffer_append_slice(out, value->text); /* its own syntax, all of it bare in YAML */
    default:
        return print_text(value->text, out);
    }
}
