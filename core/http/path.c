/* See path.h. */
#include "path.h"

static const char *find_any(const char *at, const char *end, const char *bytes)
{
    while (at < end && !(*at && strchr(bytes, *at)))
        at++;
    return at;
}

/* "http://host:1/x" → "/x"; what is not in absolute form stays. */
static coord_slice without_authority(coord_slice target)
{
    const char *end = target.data + target.size;
    const char *at;

    if (target.data[0] == '/')
        return target;
    at = find_any(target.data, end, ":/?#");
    if (end - at < 3 || memcmp(at, "://", 3) != 0)
        return target;
    at = find_any(at + 3, end, "/?#");
    return (coord_slice){at, (size_t)(end - at)};
}

static const char *find(const char *at, const char *end, char byte)
{
    const char *found = memchr(at, byte, (size_t)(end - at));

    return found ? found : end;
}

coord_slice path_of_target(coord_slice target, coord_slice *query)
{
    const char *fragment, *stop;

    if (query)
        *query = (coord_slice){NULL, 0};
    if (target.size == 0)
        return target;
    target = without_authority(target);
    fragment = find(target.data, target.data + target.size, '#');
    stop = find(target.data, fragment, '?');
    if (query && stop < fragment)
        *query = (coord_slice){stop + 1, (size_t)(fragment - stop - 1)};
    return (coord_slice){target.data, (size_t)(stop - target.data)};
}

static char *drop_last_segment(char *begin, char *at)
{
    while (at > begin && *--at != '/')
        continue;
    return at;
}

coord_slice path_clean(struct arena *arena, coord_slice path)
{
    char *begin = arena_alloc(arena, path.size + 2);
    char *at = begin;
    size_t i = 0;

    if (!begin)
        return (coord_slice){NULL, 0};
    while (i < path.size) {
        size_t first = i;
        size_t size;

        while (i < path.size && path.data[i] != '/')
            i++;
        size = i - first;
        i++;
        if (size == 0 || (size == 1 && path.data[first] == '.'))
            continue;
        if (size == 2 && path.data[first] == '.' && path.data[first + 1] == '.') {
            at = drop_last_segment(begin, at);
            continue;
        }
        *at++ = '/';
        memcpy(at, path.data + first, size);
        at += size;
    }
    if (at == begin)
        *at++ = '/';
    return (coord_slice){begin, (size_t)(at - begin)};
}

bool path_target_valid(coord_slice target)
{
    for (size_t i = 0; i < target.size; i++) {
        unsigned char c = (unsigned char)target.data[i];

        if (c < 0x21 || c == 0x7f)
            return false;
    }
    return target.size > 0;
}
