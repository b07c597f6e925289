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

/* The inside of `${…}`: finds the value that stands for it. */
static bool look_up(const struct substitution *substitution, struct arena *arena, coord_slice inside,
                    coord_slice *value, const char **problem)
{
    const char *end = inside.data + inside.size;
    coord_slice name = {inside.data, name_size(inside.data, end)};
    bool has_default = inside.size >= name.size + 2 && memcmp(inside.data + name.size, ":-", 2) == 0;

    if (name.size == 0 || name.size > 256 || (!has_default && name.size != inside.size)) {
        *problem = "malformed substitution: write ${NAME} or ${NAME:-default}, and $$ for a dollar sign";
        return false;
    }
    *value = environment_get(substitution->environment, name);
    if (has_default && value->size == 0)
        *value = (coord_slice){name.data + name.size + 2, inside.size - name.size - 2};
    if (value->data)
        return true;
    *problem = arena_printf(arena, "environment variable %.*s is not set: set it, or write ${%.*s:-default}",
                            COORD_FMT(name), COORD_FMT(name));
    if (!*problem)
        *problem = no_memory;
    return false;
}

/* Replaces what begins with the dollar sign at `*at` and moves `*at` behind it. */
static bool replace(struct substitution *substitution, struct arena *arena, const char **at, const char *end,
                    struct buffer *out, bool *substituted, const char **problem)
{
    const char *dollar = *at, *close;
    coord_slice value;

    *problem = no_memory;
    if (dollar + 1 == end || (dollar[1] != '$' && dollar[1] != '{')) {
        *at = dollar + 1;
        return buffer_append(out, "$", 1);
    }
    if (dollar[1] == '$') {
        *at = dollar + 2;
        return buffer_append(out, "$", 1);
    }
    close = memchr(dollar, '}', (size_t)(end - dollar));
    if (!close) {
        *problem = "\"${\" without \"}\": write $$ for a dollar sign";
        return false;
    }
    if (!look_up(substitution, arena, (coord_slice){dollar + 2, (size_t)(close - dollar) - 2}, &value, problem))
        return false;
    if (value.size > substitution->budget) {
        *problem = "substituted values are larger than 4 MiB together";
        return false;
    }
    substitution->budget -= value.size;
    *substituted = true;
    *at = close + 1;
    *problem = no_memory;
    return buffer_append_slice(out, value);
}

bool substitute(struct substitution *substitution, struct arena *arena, coord_slice raw, coord_slice *text,
                bool *substituted, const char **problem)
{
    const char *at = raw.data, *end = raw.data + raw.size;
    struct buffer out = {0};
    bool done = false;

    *text = raw;
    *substituted = false;
    if (!substitution->environment || raw.size == 0 || !memchr(raw.data, '$', raw.size))
        return true;
    while (at < end) {
        const char *dollar = memchr(at, '$', (size_t)(end - at));
        size_t plain = (size_t)((dollar ? dollar : end) - at);

        *problem = no_memory;
        if (!buffer_append(&out, at, plain))
            goto out;
        at += plain;
        if (dollar && !replace(substitution, arena, &at, end, &out, substituted, problem))
            goto out;
    }
    *problem = no_memory;
    *text = arena_copy(arena, buffer_slice(&out));
    done = text->data != NULL;
out:
    buffer_release(&out);
    return done;
}
