/* See headers.h. The list grows in the arena, so an outgrown one stays there until the arena is reset. */
#include "headers.h"

enum { FIRST_CAPACITY = 8 }; /* as many as a leg has of the client and of ours, most often */

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

/* One in each byte of a word. */
#define EACH UINT64_C(0x0101010101010101)

static uint64_t eight_at(const char *text)
{
    uint64_t bytes;

    memcpy(&bytes, text, sizeof bytes);
    return bytes;
}

bool header_name_valid(coord_slice name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!token_bytes[(unsigned char)name.data[i]])
            return false;
    return name.size > 0;
}

/*
 * What may not stand in a value lies below 0x0e, like little else: eight bytes at a time are asked for that (the carry of a
 * subtraction shows in the highest bit of a byte), the last of them perhaps twice.
 */
static bool has_low_byte(coord_slice value)
{
    uint64_t found = 0;

    if (value.size < sizeof found) {
        for (size_t at = 0; at < value.size; at++)
            if ((unsigned char)value.data[at] < 0x0e)
                return true;
        return false;
    }
    for (size_t at = 0; at < value.size; at += sizeof found) {
        size_t last = value.size - sizeof found;
        uint64_t bytes = eight_at(value.data + (at < last ? at : last));

        found |= (bytes - 0x0e * EACH) & ~bytes;
    }
    return (found & 0x80 * EACH) != 0;
}

bool header_value_valid(coord_slice value)
{
    return !has_low_byte(value) || (!memchr(value.data, '\r', value.size) && !memchr(value.data, '\n', value.size) &&
                                    !memchr(value.data, '\0', value.size));
}

/* A name that has a kind is a token. */
bool header_field_valid(const struct header *field)
{
    return field->checked ||
           ((field->kind != HEADER_OTHER || header_name_valid(field->name)) && header_value_valid(field->value));
}

/* Names in order of enum header_kind. */
static const coord_slice NAMES[HEADER_KINDS] = {
    [HEADER_TE] = COORD_SLICE("te"),
    [HEADER_HOST] = COORD_SLICE("host"),
    [HEADER_COOKIE] = COORD_SLICE("cookie"),
    [HEADER_EXPECT] = COORD_SLICE("expect"),
    [HEADER_PREFER] = COORD_SLICE("prefer"),
    [HEADER_TRAILER] = COORD_SLICE("trailer"),
    [HEADER_UPGRADE] = COORD_SLICE("upgrade"),
    [HEADER_CONNECTION] = COORD_SLICE("connection"),
    [HEADER_KEEP_ALIVE] = COORD_SLICE("keep-alive"),
    [HEADER_TRACE_STATE] = COORD_SLICE("tracestate"),
    [HEADER_TRACE_PARENT] = COORD_SLICE("traceparent"),
    [HEADER_CONTENT_TYPE] = COORD_SLICE("content-type"),
    [HEADER_REQUEST_ID] = COORD_SLICE("x-request-id"),
    [HEADER_AUTHORIZATION] = COORD_SLICE("authorization"),
    [HEADER_CONTENT_LENGTH] = COORD_SLICE("content-length"),
    [HEADER_ACCEPT_ENCODING] = COORD_SLICE("accept-encoding"),
    [HEADER_PEER_TOPOLOGY] = COORD_SLICE("x-peer-topology"),
    [HEADER_CONTENT_ENCODING] = COORD_SLICE("content-encoding"),
    [HEADER_PROXY_CONNECTION] = COORD_SLICE("proxy-connection"),
    [HEADER_TRANSFER_ENCODING] = COORD_SLICE("transfer-encoding"),
    [HEADER_PROXY_AUTHENTICATE] = COORD_SLICE("proxy-authenticate"),
    [HEADER_PROXY_AUTHORIZATION] = COORD_SLICE("proxy-authorization"),
    [HEADER_PIN_HOST_PORT] = COORD_SLICE("x-llm-d-pin-host-port"),
    [HEADER_PREFILL_PIN_HOST_PORT] = COORD_SLICE("x-prefill-pin-host-port"),
    [HEADER_PARENT_REQUEST_ID] = COORD_SLICE("x-llm-d-parent-request-id"),
    [HEADER_DECISION_ID] = COORD_SLICE("x-llm-d-revision-decision-id"),
};

/*
 * True when the name is that of the kind, which is as long. Eight bytes at a time, the last of them perhaps looked at twice:
 * names of kinds hold small letters and hyphens, and nothing but a letter becomes one when the bit that tells capital
 * letters from small ones is set where the bit that all letters have is.
 */
static bool is_named(const char *name, enum header_kind kind)
{
    const coord_slice own = NAMES[kind];

    if (own.size < sizeof(uint64_t))
        return header_names_alike(name, own.data, own.size);
    for (size_t at = 0; at < own.size; at += sizeof(uint64_t)) {
        size_t last = own.size - sizeof(uint64_t), from = at < last ? at : last;
        uint64_t bytes = eight_at(name + from);

        if ((bytes | (bytes & 0x40 * EACH) >> 1) != eight_at(own.data + from))
            return false;
    }
    return true;
}

enum header_kind header_kind_of(coord_slice name)
{
    /* The first and last kind whose name has so many bytes. */
    static const struct {
        unsigned char first, last;
    } of_size[] = {
        [2] = {HEADER_TE, HEADER_TE},
        [4] = {HEADER_HOST, HEADER_HOST},
        [6] = {HEADER_COOKIE, HEADER_PREFER},
        [7] = {HEADER_TRAILER, HEADER_UPGRADE},
        [10] = {HEADER_CONNECTION, HEADER_TRACE_STATE},
        [11] = {HEADER_TRACE_PARENT, HEADER_TRACE_PARENT},
        [12] = {HEADER_CONTENT_TYPE, HEADER_REQUEST_ID},
        [13] = {HEADER_AUTHORIZATION, HEADER_AUTHORIZATION},
        [14] = {HEADER_CONTENT_LENGTH, HEADER_CONTENT_LENGTH},
        [15] = {HEADER_ACCEPT_ENCODING, HEADER_PEER_TOPOLOGY},
        [16] = {HEADER_CONTENT_ENCODING, HEADER_PROXY_CONNECTION},
        [17] = {HEADER_TRANSFER_ENCODING, HEADER_TRANSFER_ENCODING},
        [18] = {HEADER_PROXY_AUTHENTICATE, HEADER_PROXY_AUTHENTICATE},
        [19] = {HEADER_PROXY_AUTHORIZATION, HEADER_PROXY_AUTHORIZATION},
        [21] = {HEADER_PIN_HOST_PORT, HEADER_PIN_HOST_PORT},
        [23] = {HEADER_PREFILL_PIN_HOST_PORT, HEADER_PREFILL_PIN_HOST_PORT},
        [25] = {HEADER_PARENT_REQUEST_ID, HEADER_PARENT_REQUEST_ID},
        [28] = {HEADER_DECISION_ID, HEADER_DECISION_ID},
    };
    unsigned first, last;

    if (name.size >= sizeof of_size / sizeof *of_size)
        return HEADER_OTHER;
    first = of_size[name.size].first;
    last = of_size[name.size].last;
    for (unsigned kind = first; kind <= last && kind != HEADER_OTHER; kind++)
        if (is_named(name.data, kind))
            return (enum header_kind)kind;
    return HEADER_OTHER;
}

void headers_init(struct headers *headers, struct arena *arena) { *headers = (struct headers){.arena = arena}; }

bool headers_reserve(struct headers *headers, size_t more)
{
    struct header *list;

    if (more <= headers->capacity - headers->count)
        return true;
    list = arena_alloc(headers->arena, (headers->count + more) * sizeof *list);
    if (!list)
        return false;
    if (headers->count > 0)
        memcpy(list, headers->list, headers->count * sizeof *list);
    headers->list = list;
    headers->capacity = headers->count + more;
    return true;
}

static bool make_room(struct headers *headers)
{
    return headers->count < headers->capacity ||
           headers_reserve(headers, headers->capacity ? headers->capacity : FIRST_CAPACITY);
}

bool headers_add_field(struct headers *headers, const struct header *field)
{
    if (!make_room(headers))
        return false;
    headers->list[headers->count++] = *field;
    return true;
}

bool headers_add_borrowed(struct headers *headers, coord_slice name, coord_slice value)
{
    const struct header field = {name, value, header_kind_of(name), false};

    return headers_add_field(headers, &field);
}

bool headers_add_known(struct headers *headers, enum header_kind kind, coord_slice value)
{
    const struct header field = {NAMES[kind], value, kind, false};

    return headers_add_field(headers, &field);
}

static size_t size_kept(const struct header *field) { return field->name.size + field->value.size + 2; }

/* What arena_copy does, in memory that is there. */
static coord_slice keep(char **at, coord_slice text)
{
    coord_slice kept = {*at, text.size};

    if (text.size > 0)
        memcpy(*at, text.data, text.size);
    (*at)[text.size] = '\0';
    *at += text.size + 1;
    return kept;
}

static struct header field_kept(char **at, const struct header *field)
{
    coord_slice name = keep(at, field->name);

    return (struct header){name, keep(at, field->value), field->kind, field->checked};
}

bool headers_add(struct headers *headers, coord_slice name, coord_slice value)
{
    struct header field = {name, value, header_kind_of(name), false};
    char *own = arena_alloc(headers->arena, size_kept(&field));

    if (!own)
        return false;
    field = field_kept(&own, &field);
    return headers_add_field(headers, &field);
}

bool headers_set(struct headers *headers, coord_slice name, coord_slice value)
{
    struct header field = {name, value, header_kind_of(name), false};
    char *own = arena_alloc(headers->arena, size_kept(&field)); /* `name` may be one of those removed */

    if (!own || !make_room(headers))
        return false;
    field = field_kept(&own, &field);
    headers_remove(headers, field.name);
    return headers_add_field(headers, &field);
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

const struct header *headers_first(const struct headers *headers, enum header_kind kind)
{
    for (size_t i = 0; i < headers->count; i++)
        if (headers->list[i].kind == kind)
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

/* The next element of a comma-separated list without its parameters; false when there is none. Moves `*at` behind it. */
static bool next_token(const char **at, const char *end, coord_slice *token)
{
    const char *begin = *at, *stop;

    if (begin >= end)
        return false;
    stop = element_end(begin, end, ',');
    *token = trimmed(begin, element_end(begin, stop, ';'));
    *at = stop + (stop < end);
    return true;
}

static bool list_has(coord_slice list, coord_slice wanted)
{
    const char *at = list.data;
    const char *end = list.size ? list.data + list.size : at;
    coord_slice token;

    while (next_token(&at, end, &token))
        if (header_name_equal(token, wanted))
            return true;
    return false;
}

bool headers_has_token(const struct headers *headers, coord_slice name, coord_slice token)
{
    for (size_t i = 0; i < headers->count; i++)
        if (header_name_equal(headers->list[i].name, name) && list_has(headers->list[i].value, token))
            return true;
    return false;
}

static const bool HOP_BY_HOP[HEADER_KINDS] = {
    [HEADER_TE] = true,
    [HEADER_TRAILER] = true,
    [HEADER_UPGRADE] = true,
    [HEADER_CONNECTION] = true,
    [HEADER_KEEP_ALIVE] = true,
    [HEADER_PROXY_CONNECTION] = true,
    [HEADER_TRANSFER_ENCODING] = true,
    [HEADER_PROXY_AUTHENTICATE] = true,
    [HEADER_PROXY_AUTHORIZATION] = true,
};

/* Lets the fields that a Connection field names look hop-by-hop, too. */
static void mark_named(struct headers *headers, coord_slice connection)
{
    const char *at = connection.data;
    const char *end = connection.size ? connection.data + connection.size : at;
    coord_slice token;

    while (next_token(&at, end, &token))
        for (size_t i = 0; i < headers->count; i++)
            if (header_name_equal(headers->list[i].name, token) && !HOP_BY_HOP[headers->list[i].kind])
                headers->list[i].kind = HEADER_KEEP_ALIVE;
}

void headers_drop_hop_by_hop(struct headers *headers)
{
    size_t kept = 0;

    for (size_t i = 0; i < headers->count; i++)
        if (headers->list[i].kind == HEADER_CONNECTION)
            mark_named(headers, headers->list[i].value);
    for (size_t i = 0; i < headers->count; i++)
        if (!HOP_BY_HOP[headers->list[i].kind])
            headers->list[kept++] = headers->list[i];
    headers->count = kept;
}

/* Memory for what the fields of `from` point at. */
static char *room_for(struct arena *arena, const struct headers *from)
{
    size_t size = 0;

    for (size_t i = 0; i < from->count; i++)
        size += size_kept(&from->list[i]);
    return arena_alloc(arena, size);
}

bool headers_own(struct headers *headers)
{
    char *own = room_for(headers->arena, headers);

    if (!own)
        return false;
    for (size_t i = 0; i < headers->count; i++)
        headers->list[i] = field_kept(&own, &headers->list[i]);
    return true;
}

bool headers_copy(struct headers *headers, const struct headers *from)
{
    char *own;

    if (from->count == 0)
        return true;
    own = room_for(headers->arena, from);
    if (!own || !headers_reserve(headers, from->count))
        return false;
    for (size_t i = 0; i < from->count; i++)
        headers->list[headers->count++] = field_kept(&own, &from->list[i]);
    return true;
}
