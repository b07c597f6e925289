/* Whether some bytes are one JSON value in valid UTF-8 (RFC 8259): a reader of its own, for tests of what writes JSON. */
#ifndef TEST_JSON_CHECK_H
#define TEST_JSON_CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const char *json_value(const char *at, const char *end, int depth);

static inline const char *json_space(const char *at, const char *end)
{
    while (at && at < end && strchr(" \t\r\n", *at) && *at)
        at++;
    return at;
}

static inline const char *json_utf8(const char *at, const char *end)
{
    const unsigned char *b = (const unsigned char *)at;
    size_t size = b[0] < 0x80 ? 1 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
    unsigned point = b[0] & (size == 1 ? 0x7Fu : 0xFFu >> (size + 1));

    if ((size_t)(end - at) < size || (b[0] >= 0x80 && b[0] < 0xC2) || b[0] > 0xF4)
        return NULL;
    for (size_t i = 1; i < size; i++) {
        if ((b[i] & 0xC0) != 0x80)
            return NULL;
        point = point << 6 | (b[i] & 0x3Fu);
    }
    if ((size == 3 && point < 0x800) || (size == 4 && (point < 0x10000 || point > 0x10FFFF)) ||
        (point >= 0xD800 && point < 0xE000))
        return NULL;
    return at + size;
}

static inline const char *json_string(const char *at, const char *end)
{
    if (at == end || *at++ != '"')
        return NULL;
    while (at && at < end && *at != '"') {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at != '\\') {
            at = json_utf8(at, end);
            continue;
        }
        if (++at == end || !*at || !strchr("\"\\/bfnrtu", *at))
            return NULL;
        if (*at++ == 'u')
            for (int i = 0; i < 4; i++, at++)
                if (at == end || !*at || !strchr("0123456789abcdefABCDEF", *at))
                    return NULL;
    }
    return at && at < end ? at + 1 : NULL;
}

static inline const char *json_number(const char *at, const char *end)
{
    const char *begin;

    if (at < end && *at == '-')
        at++;
    for (begin = at; at < end && *at >= '0' && *at <= '9';)
        at++;
    if (at == begin || (*begin == '0' && at - begin > 1))
        return NULL;
    if (at < end && *at == '.') {
        for (begin = ++at; at < end && *at >= '0' && *at <= '9';)
            at++;
        if (at == begin)
            return NULL;
    }
    if (at < end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < end && (*at == '+' || *at == '-'))
            at++;
        for (begin = at; at < end && *at >= '0' && *at <= '9';)
            at++;
        if (at == begin)
            return NULL;
    }
    return at;
}

static inline const char *json_members(const char *at, const char *end, char close, int depth)
{
    at = json_space(at, end);
    if (at < end && *at == close)
        return at + 1;
    while (at && at < end) {
        if (close == '}') {
            at = json_space(json_string(json_space(at, end), end), end);
            if (!at || at == end || *at++ != ':')
                return NULL;
        }
        at = json_space(json_value(at, end, depth + 1), end);
        if (!at || at == end)
            return NULL;
        if (*at == close)
            return at + 1;
        if (*at++ != ',')
            return NULL;
    }
    return NULL;
}

static const char *json_value(const char *at, const char *end, int depth)
{
    static const char *const words[] = {"true", "false", "null"};

    at = json_space(at, end);
    if (!at || at == end || depth > 1000)
        return NULL;
    if (*at == '"')
        return json_string(at, end);
    if (*at == '{' || *at == '[')
        return json_members(at + 1, end, *at == '{' ? '}' : ']', depth);
    for (size_t i = 0; i < 3; i++)
        if ((size_t)(end - at) >= strlen(words[i]) && memcmp(at, words[i], strlen(words[i])) == 0)
            return at + strlen(words[i]);
    return json_number(at, end);
}

static inline bool json_is_valid(const char *text, size_t size)
{
    const char *end = size > 0 ? json_space(json_value(text, text + size, 0), text + size) : NULL;

    return end && end == text + size;
}

/* Valid UTF-8 throughout. */
static inline bool json_is_text(const char *text, size_t size)
{
    const char *at = text, *end = text + size;

    while (at && at < end)
        at = json_utf8(at, end);
    return at != NULL;
}

#endif
