/* See scanner.h: the walkers of validated text. They trust its grammar and still never read past its end. */
#include "json/scanner.h"
#include "json/block.h"

#include <coordinator/document.h>

#include <assert.h>

static json_bytes bytes(coord_slice text) { return (json_bytes)text.data; }

int32_t json_type_at(coord_slice text, size_t at)
{
    if (at >= text.size)
        return COORD_JSON_ABSENT;
    switch (text.data[at]) {
    case '{':
        return COORD_JSON_OBJECT;
    case '[':
        return COORD_JSON_ARRAY;
    case '"':
        return COORD_JSON_STRING;
    case 't':
    case 'f':
        return COORD_JSON_BOOL;
    case 'n':
        return COORD_JSON_NULL;
    default:
        return COORD_JSON_NUMBER;
    }
}

size_t json_skip_space(coord_slice text, size_t at)
{
    while (at < text.size && json_is_space((unsigned char)text.data[at]))
        at++;
    return at;
}

/* Behind the closing quote of the string whose opening quote is at `at`. */
static json_bytes skip_string(json_bytes at, json_bytes end)
{
    at = json_find_quote(at + 1, end);
    while (at < end && *at == '\\') {
        at += 2;
        if (at >= end)
            return end;
        at = json_find_quote(at, end);
    }
    return at < end ? at + 1 : end;
}

/*
 * Behind the bracket that brings `*depth` to 0, or where the block ends, or behind the first string that begins in it. Brackets
 * match in a validated text, so their kinds need no look.
 */
static json_bytes skip_block(json_bytes at, json_bytes end, size_t *depth)
{
    for (json_mask hits = json_structure_mask(at); hits; hits = json_mask_rest(hits)) {
        json_bytes hit = at + json_mask_first(hits);

        if (*hit == '"')
            return skip_string(hit, end);
        *depth += (*hit | 0x20) == '{' ? (size_t)1 : SIZE_MAX;
        if (*depth == 0)
            return hit + 1;
    }
    return at + JSON_BLOCK;
}

/* Behind the closing bracket of the container whose opening one is at `at`. */
static json_bytes skip_container(json_bytes at, json_bytes end)
{
    size_t depth = 1;

    at++;
    while (depth > 0 && end - at >= JSON_BLOCK)
        at = skip_block(at, end, &depth);
    while (depth > 0) {
        at = json_find_structure(at, end);
        if (at == end)
            break;
        if (*at == '"') {
            at = skip_string(at, end);
            continue;
        }
        depth += (*at++ | 0x20) == '{' ? (size_t)1 : SIZE_MAX;
    }
    return at;
}

size_t json_skip_value(coord_slice text, size_t at)
{
    json_bytes begin = bytes(text);
    json_bytes end = begin + text.size;

    assert(at < text.size);
    if (begin[at] == '"')
        return (size_t)(skip_string(begin + at, end) - begin);
    if ((begin[at] | 0x20) == '{')
        return (size_t)(skip_container(begin + at, end) - begin);
    while (at < text.size && !json_is_space(begin[at]) && begin[at] != ',' && begin[at] != ']' && begin[at] != '}')
        at++;
    return at;
}

struct json_member json_member_at(coord_slice text, bool object, size_t at)
{
    struct json_member member = {.key = {at, at}, .value = {at, at}};

    if (object) {
        member.key.end = json_skip_value(text, at);
        member.value.begin = json_skip_space(text, json_skip_space(text, member.key.end) + 1);
    }
    member.value.end = json_skip_value(text, member.value.begin);
    return member;
}

size_t json_after_member(coord_slice text, size_t end)
{
    size_t at = json_skip_space(text, end);

    return at < text.size && text.data[at] == ',' ? json_skip_space(text, at + 1) : 0;
}

bool json_next_member(coord_slice text, size_t container, size_t *cursor, struct json_member *member)
{
    size_t at;

    if (*cursor == 0) {
        at = json_skip_space(text, container + 1);
        if (at >= text.size || text.data[at] == ']' || text.data[at] == '}')
            return false;
    } else {
        at = json_after_member(text, *cursor);
        if (at == 0)
            return false;
    }
    *member = json_member_at(text, text.data[container] == '{', at);
    *cursor = member->value.end;
    return true;
}

size_t json_count_members(coord_slice text, size_t container)
{
    json_bytes begin = bytes(text);
    json_bytes end = begin + text.size;
    json_bytes at = begin + json_skip_space(text, container + 1);
    size_t count = 1;

    if (at == end || *at == ']' || *at == '}')
        return 0;
    for (;;) {
        json_bytes stop = json_find_structure(at, end);

        for (; at < stop; at++)
            count += *at == ',';
        if (at == end || *at == ']' || *at == '}')
            return count;
        at = *at == '"' ? skip_string(at, end) : skip_container(at, end);
    }
}

static unsigned hex(unsigned char digit) { return digit <= '9' ? digit - (unsigned)'0' : (digit | 0x20U) - 'a' + 10; }

static uint32_t unit(json_bytes at) { return hex(at[0]) << 12 | hex(at[1]) << 8 | hex(at[2]) << 4 | hex(at[3]); }

static size_t encode(uint32_t code, unsigned char *out)
{
    if (code < 0x80) {
        out[0] = (unsigned char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (unsigned char)(0xc0 | code >> 6);
        out[1] = (unsigned char)(0x80 | (code & 0x3f));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (unsigned char)(0xe0 | code >> 12);
        out[1] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
        out[2] = (unsigned char)(0x80 | (code & 0x3f));
        return 3;
    }
    out[0] = (unsigned char)(0xf0 | code >> 18);
    out[1] = (unsigned char)(0x80 | (code >> 12 & 0x3f));
    out[2] = (unsigned char)(0x80 | (code >> 6 & 0x3f));
    out[3] = (unsigned char)(0x80 | (code & 0x3f));
    return 4;
}

/* The escape whose backslash is at `*at`: moves `*at` behind it and returns the bytes of UTF-8 that it stands for. */
static size_t decode_escape(json_bytes *at, json_bytes end, unsigned char out[4])
{
    static const unsigned char meaning[256] = {
        ['"'] = '"', ['\\'] = '\\', ['/'] = '/', ['b'] = '\b', ['f'] = '\f', ['n'] = '\n', ['r'] = '\r', ['t'] = '\t'};
    json_bytes escape = *at;
    uint32_t code;

    if (escape[1] != 'u') {
        out[0] = meaning[escape[1]];
        *at = escape + 2;
        return 1;
    }
    code = unit(escape + 2);
    *at = escape + 6;
    if (code < 0xd800 || code > 0xdfff)
        return encode(code, out);
    if (code < 0xdc00 && end - *at >= 6 && (*at)[0] == '\\' && (*at)[1] == 'u') {
        uint32_t low = unit(*at + 2);

        if (low >= 0xdc00 && low <= 0xdfff) {
            *at += 6;
            return encode(0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00), out);
        }
    }
    return encode(0xfffd, out);
}

bool json_key_at_is(coord_slice text, size_t at, coord_slice name)
{
    json_bytes key = bytes(text) + at + 1;
    json_bytes end = bytes(text) + text.size;
    json_bytes wanted = (json_bytes)name.data;
    size_t left = name.size;

    for (;;) {
        unsigned char decoded[4];
        size_t size;

        if (*key == '"')
            return left == 0;
        if (*key != '\\') {
            if (left == 0 || *key != *wanted)
                return false;
            key++;
            wanted++;
            left--;
            continue;
        }
        size = decode_escape(&key, end, decoded);
        if (left < size || memcmp(decoded, wanted, size) != 0)
            return false;
        wanted += size;
        left -= size;
    }
}

bool json_key_is(coord_slice key, coord_slice name)
{
    const char *inside = key.data + 1;
    size_t size = key.size - 2;

    if (size == name.size) /* an escape is longer than what it stands for */
        return size == 0 || (memcmp(inside, name.data, size) == 0 && !memchr(inside, '\\', size));
    if (size < name.size || (name.size > 0 && *inside != *name.data && *inside != '\\'))
        return false;
    return memchr(inside, '\\', size) && json_key_at_is(key, 0, name);
}

size_t json_unescape(coord_slice quoted, char *out)
{
    json_bytes at = bytes(quoted) + 1;
    json_bytes end = bytes(quoted) + quoted.size - 1;
    char *to = out;

    while (at < end) {
        unsigned char decoded[4];
        json_bytes stop = memchr(at, '\\', (size_t)(end - at));
        size_t size = (size_t)((stop ? stop : end) - at);

        memcpy(to, at, size);
        to += size;
        at += size;
        if (!stop)
            break;
        size = decode_escape(&at, end, decoded);
        memcpy(to, decoded, size);
        to += size;
    }
    return (size_t)(to - out);
}
