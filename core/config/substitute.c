/* See substitute.h. */
#include "config/substitute.h"

#include "runtime/buffer.h"

static const char no_memory[] = "memory is short";

coord_slice environment_get(char *const *environment, coord_slice name)
{
    for (; environment && *environment; environment++) {
        if (strncmp(*environment, name.data, name.size) == 0 && (*environment)[name.size] == '=')
            return coord_slice_of(*environment + name.size + 1);
    }
    return (coord_slice){0};
}

static bool starts_name(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_'; }

static size_t name_size(const char *at, const char *end)
{
    const char *c = at;

    if (c < end && starts_name(*c)) {
        while (c < end && (starts_name(*c) || (*c >= '0' && *c <= '9')))
            c++;
    }
    return (size_t)(c - at);
}

/* What one text becomes. */
struct replacing {
    struct substitution *substitution;
    struct arena *arena;
    struct buffer out, origin;
    struct substituted *result;
};

static bool fail(const struct replacing *replacing, const char *problem)
{
    replacing->result->problem = problem ? problem : no_memory;
    return false;
}

static bool note_origin(struct replacing *replacing, coord_slice name, bool is_set)
{
    return buffer_printf(&replacing->origin, "%s${%.*s} is %s", replacing->origin.size > 0 ? ", " : "", COORD_FMT(name),
                         is_set ? "set" : "not: default") ||
           fail(replacing, no_memory);
}

/* The inside of `${…}`: finds the value that stands for it. */
static bool look_up(struct replacing *replacing, coord_slice inside, coord_slice *value)
{
    const char *end = inside.data + inside.size;
    coord_slice name = {inside.data, name_size(inside.data, end)};
    bool has_default = inside.size >= name.size + 2 && memcmp(inside.data + name.size, ":-", 2) == 0;
    bool is_set;

    if (name.size == 0 || name.size > 256 || (!has_default && name.size != inside.size))
        return fail(replacing, "malformed substitution: write ${NAME} or ${NAME:-default}, and $$ for a dollar sign");
    *value = environment_get(replacing->substitution->environment, name);
    is_set = has_default ? value->size > 0 : value->data != NULL;
    if (!is_set && has_default)
        *value = (coord_slice){name.data + name.size + 2, inside.size - name.size - 2};
    if (value->data)
        return note_origin(replacing, name, is_set);
    return fail(replacing, arena_printf(replacing->arena,
                                        "environment variable %.*s is not set: set it, or write ${%.*s:-default}",
                                        COORD_FMT(name), COORD_FMT(name)));
}

/* Replaces what begins with the dollar sign at `*at` and moves `*at` behind it. */
static bool replace(struct replacing *replacing, const char **at, const char *end)
{
    const char *dollar = *at, *close;
    coord_slice value;

    if (dollar + 1 == end || (dollar[1] != '$' && dollar[1] != '{')) {
        *at = dollar + 1;
        return buffer_append(&replacing->out, "$", 1) || fail(replacing, no_memory);
    }
    if (dollar[1] == '$') {
        *at = dollar + 2;
        return buffer_append(&replacing->out, "$", 1) || fail(replacing, no_memory);
    }
    close = memchr(dollar, '}', (size_t)(end - dollar));
    if (!close)
        return fail(replacing, "\"${\" without \"}\": write $$ for a dollar sign");
    if (!look_up(replacing, (coord_slice){dollar + 2, (size_t)(close - dollar) - 2}, &value))
        return false;
    if (value.size > replacing->substitution->budget)
        return fail(replacing, "substituted values are larger than 4 MiB together");
    replacing->substitution->budget -= value.size;
    replacing->result->happened = true;
    *at = close + 1;
    return buffer_append_slice(&replacing->out, value) || fail(replacing, no_memory);
}

static bool replace_all(struct replacing *replacing, coord_slice raw)
{
    const char *at = raw.data, *end = raw.data + raw.size;
    struct substituted *result = replacing->result;

    while (at < end) {
        const char *dollar = memchr(at, '$', (size_t)(end - at));
        size_t plain = (size_t)((dollar ? dollar : end) - at);

        if (!buffer_append(&replacing->out, at, plain))
            return fail(replacing, no_memory);
        at += plain;
        if (dollar && !replace(replacing, &at, end))
            return false;
    }
    result->text = arena_copy(replacing->arena, buffer_slice(&replacing->out));
    result->origin = arena_copy(replacing->arena, buffer_slice(&replacing->origin));
    return (result->text.data && result->origin.data) || fail(replacing, no_memory);
}

bool substitute(struct substitution *substitution, struct arena *arena, coord_slice raw, struct substituted *result)
{
    struct replacing replacing = {.substitution = substitution, .arena = arena, .result = result};
    bool done;

    *result = (struct substituted){.text = raw};
    if (!substitution->environment || raw.size == 0 || !memchr(raw.data, '$', raw.size))
        return true;
    done = replace_all(&replacing, raw);
    buffer_release(&replacing.out);
    buffer_release(&replacing.origin);
    return done;
}
