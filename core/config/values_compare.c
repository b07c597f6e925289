/* See values.h: values side by side, for whoever has two configurations. */
#include "config/values.h"

static bool equal_texts(const coord_slice *a, const coord_slice *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!coord_slice_equal(a[i], b[i]))
            return false;
    return true;
}

bool value_equal(const struct value *a, const struct value *b)
{
    bool absent = a->source == VALUE_ABSENT;

    if (absent || b->source == VALUE_ABSENT || a->param->type != b->param->type)
        return absent && b->source == VALUE_ABSENT;
    switch (a->param->type) {
    case COORD_PARAM_INT:
    case COORD_PARAM_DURATION:
    case COORD_PARAM_SIZE:
    case COORD_PARAM_BOOL:
    case COORD_PARAM_ENUM:
        return a->integer == b->integer;
    case COORD_PARAM_NUMBER:
        return a->number == b->number;
    case COORD_PARAM_STRING_LIST:
    case COORD_PARAM_STRING_MAP:
        return a->count == b->count && equal_texts(a->items, b->items, a->count) &&
               (!a->keys || equal_texts(a->keys, b->keys, a->count));
    default:
        return coord_slice_equal(a->text, b->text);
    }
}

static bool copy_texts(struct arena *arena, const coord_slice *texts, size_t count, coord_slice **copies)
{
    if (!texts)
        return true;
    *copies = arena_alloc(arena, (count + 1) * sizeof **copies);
    for (size_t i = 0; *copies && i < count; i++) {
        (*copies)[i] = arena_copy(arena, texts[i]);
        if (!(*copies)[i].data)
            return false;
    }
    return *copies != NULL;
}

bool value_copy(struct arena *arena, const struct value *value, struct value *copy)
{
    coord_param *param = arena_alloc(arena, sizeof *param);

    if (!param)
        return false;
    *param = *value->param;
    *copy = *value;
    copy->param = param;
    copy->at = (struct position){0};
    copy->origin = (coord_slice){0};
    copy->text = arena_copy(arena, value->text);
    copy->keys = copy->items = NULL;
    return copy->text.data && copy_texts(arena, value->keys, value->count, &copy->keys) &&
           copy_texts(arena, value->items, value->count, &copy->items);
}
