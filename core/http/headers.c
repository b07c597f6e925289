/* See headers.h. The list grows in the arena, so an outgrown one stays there until the arena is reset. */
#include "headers.h"

enum { FIRST_CAPACITY = 8 };

static unsigned char lower(char c) { return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); }

bool header_names_alike(const char *a, const char *b, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (a[i] != b[i] && lower(a[i]) != lower(b[i]))
            return false;
    return true;
}

bool header_name_is(coord_slice name, const char *text) { return header_name_equal(name, coord_slice_of(text)); }

static const bool token_bytes[256] = {
    ['!'] = true, ['#'] = true, ['$'] = true, ['%'] = true, ['&'] = true, ['\''] = true, ['*'] = true, ['+'] = true,
    ['-'] = true, ['.'] = true, ['^'] = true, ['_'] = true, ['`'] = true, ['|'] = true,  ['~'] = true, ['0'] = true,
    ['1'] = true, ['2'] = true, ['3'] = true, ['4'] = true, ['5'] = true, ['6'] = true,  ['7'] = true, ['8'] = true,
    ['9'] = true, ['A'] = true, ['B'] = true, ['C'] = true, ['D'] = true, ['E'] = true,  ['F'] = true, ['G'] = true,
    ['H'] = true, ['I'] = true, ['J'] = true, ['K'] = true, ['L'] = true, ['M'] = true,  ['N'] = true, ['O'] = true,
    ['P'] = true, ['Q'] = true, ['R'] = true, ['S'] = true, ['T'] = true, ['U'] = true,  ['V'] = true, ['W'] = true,
    ['X'] = true, ['Y'] = true, ['Z'] = true, ['a'] = true, ['b'] = true, ['c'] = true,  ['d'] = true, ['e'] = true,
    ['f'] = true, ['g'] = true, ['h'] = true, ['i'] = true, ['j'] = true, ['k'] = true,  ['l'] = true, ['m'] = true,
    ['n'] = true, ['o'] = true, ['p'] = true, ['q'] = true, ['r'] = true, ['s'] = true,  ['t'] = true, ['u'] = true,
    ['v'] = true, ['w'] = true, ['x'] = true, ['y'] = true, ['z'] = true,
};

bool header_name_valid(coord_slice name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!token_bytes[(unsigned char)name.data[i]])
            return false;
    return name.size > 0;
}

bool header_value_valid(coord_slice value)
{
    return value.size == 0 || (!memchr(value.data, '\r', value.size) && !memchr(value.data, '\n', value.size) &&
                               !memchr(value.data, '\0', value.size));
}

void headers_init(struct headers *headers, struct arena *arena) { *headers = (struct headers){.arena = arena}; }

static bool make_room(struct headers *headers)
{
    size_t capacity = headers->capacity ? 2 * headers->capacity : FIRST_CAPACITY;
    struct header *list;

    if (headers->count < headers->capacity)
        return true;
    list = arena_alloc(headers->arena, capacity * sizeof *list);
    if (!list)
        return false;
    if (headers->count > 0)
        memcpy(list, headers->list, headers->count * sizeof *list);
    headers->list = list;
    headers->capacity = capacity;
    return true;
}

bool headers_add_borrowed(struct headers *headers, coord_slice name, coord_slice value)
{
    if (!make_room(headers))
        return false;
    headers->list[headers->count++] = (struct header){name, value};
    return true;
}

bool headers_add(struct headers *headers, coord_slice name, coord_slice value)
{
    coord_slice own_name = arena_copy(headers->arena, name);
    coord_slice own_value = arena_copy(headers->arena, value);

    return own_name.data && own_value.data && headers_add_borrowed(headers, own_name, own_value);
}

bool headers_set(struct headers *headers, coord_slice name, coord_slice value)
{
    coord_slice own_name = arena_copy(headers->arena, name); /* `name` may be one of those removed */
    coord_slice own_value = arena_copy(headers->arena, value);

    if (!own_name.data || !own_value.data || !make_room(headers))
        return false;
    headers_remove(headers, own_name);
    return headers_add_borrowed(headers, own_name, own_value);
}

size_t headers_remove(struct headers *headers, coord_slice name)
{
    size_t kept = 0;
    size_t before = headers->count;

    for (size_t i = 0; i < before; i++)
        if (!header_name_equal(headers->list[i].name, name))
            headers->list[kept++] = headers->list[i];
    headers->count = kept;
    return before - kept;
}

const struct header *headers_find(const struct headers *headers, coord_slice name)
{
    for (size_t i = 0; i < headers->count; i++)
        if (header_name_equal(headers->list[i].name, name))
            return &headers->list[i];
    return NULL;
}

size_t headers_count(const struct headers *headers, coord_slice name)
{
    size_t count = 0;

    for (size_t i = 0; i < headers->count; i++)
        count += header_name_equal(headers->list[i].name, name);
    return count;
}

static coord_slice trimmed(const char *begin, const char *end)
{
    while (begin < end && (*begin == ' ' || *begin == '\t'))
        begin++;
    while (begin < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return (coord_slice){begin, (size_t)(end - begin)};
}

/* A comma or a semicolon inside a quoted string separates nothing. */
static const char *element_end(const char *at, const char *end, char also)
{
    bool quoted = false;

    for (; at < end; at++) {
        if (quoted && *at == '\\' && at + 1 < end)
            at++;
        else if (*at == '"')
            quoted = !quoted;
        else if (!quoted && (*at == ',' || *at == also))
            break;
    }
    return at;
}

static bool list_has(coord_slice list, coord_slice token)
{
    const char *at = list.data;
    const char *end = list.size ? list.data + list.size : at;

    while (at < end) {
        const char *stop = element_end(at, end, ',');

        if (header_name_equal(trimmed(at, element_end(at, stop, ';')), token))
            return true;
        at = stop + (stop < end);
    }
    return false;
}

bool headers_has_token(const struct headers *headers, coord_slice name, coord_slice token)
{
    for (size_t i = 0; i < headers->count; i++)
        if (header_name_equal(headers->list[i].name, name) && list_has(headers->list[i].value, token))
            return true;
    return false;
}

static bool is_hop_by_hop(coord_slice name)
{
    static const coord_slice names[] = {COORD_SLICE("keep-alive"),
                                        COORD_SLICE("proxy-connection"),
                                        COORD_SLICE("proxy-authenticate"),
                                        COORD_SLICE("proxy-authorization"),
                                        COORD_SLICE("te"),
                                        COORD_SLICE("trailer"),
                                        COORD_SLICE("transfer-encoding"),
                                        COORD_SLICE("upgrade")};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (header_name_equal(name, names[i]))
            return true;
    return false;
}

void headers_drop_hop_by_hop(struct headers *headers)
{
    const coord_slice connection = COORD_SLICE("connection");
    size_t kept = 0;

    if (!headers_find(headers, connection)) {
        for (size_t i = 0; i < headers->count; i++)
            if (!is_hop_by_hop(headers->list[i].name))
                headers->list[kept++] = headers->list[i];
        headers->count = kept;
        return;
    }
    /* The Connection fields stay until all others were held against them. */
    for (size_t i = 0; i < headers->count; i++) {
        struct header header = headers->list[i];

        if (header_name_equal(header.name, connection) ||
            (!is_hop_by_hop(header.name) && !headers_has_token(headers, connection, header.name)))
            headers->list[kept++] = header;
    }
    headers->count = kept;
    headers_remove(headers, connection);
}

bool headers_copy(struct headers *headers, const struct headers *from)
{
    for (size_t i = 0; i < from->count; i++)
        if (!headers_add(headers, from->list[i].name, from->list[i].value))
            return false;
    return true;
}
