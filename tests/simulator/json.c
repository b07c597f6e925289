/* The raw JSON reader; see json.h. */
#include "json.h"

#include <string.h>

enum { DEEPEST = 512 };

struct check {
    const unsigned char *at;
    const unsigned char *end;
};

static void skip_space(struct check *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t'))
        c->at++;
}

/* Length of the well-formed UTF-8 sequence at `at`, 0 if it is malformed (RFC 3629 table). */
static size_t utf8_length(const unsigned char *at, const unsigned char *end)
{
    unsigned char lead = at[0];
    size_t len = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
    if (!len || (size_t)(end - at) < len)
        return 0;
    unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    if (at[1] < low || at[1] > high)
        return 0;
    for (size_t i = 2; i < len; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

static int hex_digit(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Skips bytes that need no look, eight at a time: no control, no quote, no backslash, nothing above ASCII. */
static void skip_plain(struct check *c)
{
    const uint64_t ones = 0x0101010101010101u, highs = 0x8080808080808080u;
    uint64_t word;
    while (c->end - c->at >= (ptrdiff_t)sizeof word) {
        memcpy(&word, c->at, sizeof word);
        uint64_t quote = word ^ ones * '"', slash = word ^ ones * '\\';
        if ((word | (word - ones * 0x20) | (quote - ones) | (slash - ones)) & highs)
            return;
        c->at += sizeof word;
    }
}

static bool check_string(struct check *c)
{
    c->at++; /* the quote */
    while (c->at < c->end) {
        unsigned char b = *c->at;
        if (b == '"') {
            c->at++;
            return true;
        }
        if (b < 0x20)
            return false;
        if (b < 0x80 && b != '\\') {
            c->at++;
            skip_plain(c);
        } else if (b != '\\') {
            size_t len = utf8_length(c->at, c->end);
            if (!len)
                return false;
            c->at += len;
        } else {
            if (c->end - c->at < 2 || !c->at[1] || !strchr("\"\\/bfnrtu", c->at[1]))
                return false;
            size_t len = c->at[1] == 'u' ? 6 : 2;
            if ((size_t)(c->end - c->at) < len)
                return false;
            for (size_t i = 2; i < len; i++)
                if (hex_digit(c->at[i]) < 0)
                    return false;
            c->at += len;
        }
    }
    return false;
}

static bool check_digits(struct check *c)
{
    const unsigned char *start = c->at;
    while (c->at < c->end && *c->at >= '0' && *c->at <= '9')
        c->at++;
    return c->at > start;
}

static bool check_number(struct check *c)
{
    if (*c->at == '-')
        c->at++;
    if (c->at < c->end && *c->at == '0')
        c->at++;
    else if (!check_digits(c))
        return false;
    if (c->at < c->end && *c->at == '.') {
        c->at++;
        if (!check_digits(c))
            return false;
    }
    if (c->at < c->end && (*c->at | 0x20) == 'e') {
        c->at++;
        if (c->at < c->end && (*c->at == '+' || *c->at == '-'))
            c->at++;
        return check_digits(c);
    }
    return true;
}

static bool check_word(struct check *c, const char *word)
{
    for (; *word; word++, c->at++)
        if (c->at == c->end || *c->at != (unsigned char)*word)
            return false;
    return true;
}

static bool check_value(struct check *c, int depth);

static bool check_list(struct check *c, int depth, bool object)
{
    unsigned char close = object ? '}' : ']';
    c->at++;
    skip_space(c);
    if (c->at < c->end && *c->at == close) {
        c->at++;
        return true;
    }
    for (;;) {
        if (object) {
            if (c->at == c->end || *c->at != '"' || !check_string(c))
                return false;
            skip_space(c);
            if (c->at == c->end || *c->at != ':')
                return false;
            c->at++;
            skip_space(c);
        }
        if (!check_value(c, depth + 1))
            return false;
        skip_space(c);
        if (c->at == c->end || (*c->at != ',' && *c->at != close))
            return false;
        if (*c->at++ == close)
            return true;
        skip_space(c);
    }
}

static bool check_value(struct check *c, int depth)
{
    if (c->at == c->end || depth > DEEPEST)
        return false;
    switch (*c->at) {
    case '{':
        return check_list(c, depth, true);
    case '[':
        return check_list(c, depth, false);
    case '"':
        return check_string(c);
    case 't':
        return check_word(c, "true");
    case 'f':
        return check_word(c, "false");
    case 'n':
        return check_word(c, "null");
    default:
        return (*c->at == '-' || (*c->at >= '0' && *c->at <= '9')) && check_number(c);
    }
}

bool json_check(struct text text, size_t *at)
{
    const unsigned char *start = (const unsigned char *)text.at;
    struct check c = {start, start + text.len};
    skip_space(&c);
    bool valid = check_value(&c, 0);
    if (valid)
        skip_space(&c);
    *at = (size_t)(c.at - start);
    return valid && c.at == c.end;
}

/* ---- reading what was checked ---- */

static const char *after_space(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\n' || *at == '\r' || *at == '\t'))
        at++;
    return at;
}

static const char *after_string(const char *at, const char *end)
{
    const char *start = ++at;
    while ((at = memchr(at, '"', (size_t)(end - at))) != NULL) {
        const char *slash = at;
        while (slash > start && slash[-1] == '\\')
            slash--;
        at++;
        if ((at - 1 - slash) % 2 == 0)
            return at; /* escaped quotes have an odd number of backslashes before them */
    }
    return end;
}

static const char *after_value(const char *at, const char *end)
{
    if (*at == '"')
        return after_string(at, end);
    if (*at != '{' && *at != '[') {
        while (at < end && *at != ',' && *at != ']' && *at != '}' && (unsigned char)*at > ' ')
            at++;
        return at;
    }
    int depth = 0;
    while (at < end) {
        if (*at == '"') {
            at = after_string(at, end);
            continue;
        }
        if (*at == '{' || *at == '[')
            depth++;
        else if ((*at == '}' || *at == ']') && --depth == 0)
            return at + 1;
        at++;
    }
    return end;
}

char json_kind(struct text value)
{
    if (!value.at || !value.len)
        return 0;
    const char *at = after_space(value.at, value.at + value.len);
    return at < value.at + value.len && strchr("{[\"tfn", *at) ? *at : 0;
}

struct json_walk json_walk(struct text value)
{
    char kind = json_kind(value);
    if (kind != '{' && kind != '[')
        return (struct json_walk){NULL, NULL, false};
    const char *end = value.at + value.len;
    return (struct json_walk){after_space(value.at, end) + 1, end, kind == '{'};
}

bool json_next(struct json_walk *walk, struct text *key, struct text *value)
{
    if (!walk->at)
        return false;
    const char *at = after_space(walk->at, walk->end);
    if (at < walk->end && *at == ',')
        at = after_space(at + 1, walk->end);
    if (at >= walk->end || *at == '}' || *at == ']')
        return false;
    *key = (struct text){"", 0};
    if (walk->object) {
        const char *stop = after_string(at, walk->end);
        *key = (struct text){at, (size_t)(stop - at)};
        at = after_space(stop, walk->end);
        at = after_space(at + 1, walk->end); /* the colon */
    }
    walk->at = after_value(at, walk->end);
    *value = (struct text){at, (size_t)(walk->at - at)};
    return true;
}

void json_members(struct text object, const char *const *names, struct text *values, size_t count)
{
    memset(values, 0, count * sizeof *values);
    if (json_kind(object) != '{')
        return;
    struct json_walk walk = json_walk(object);
    struct text key, value;
    while (json_next(&walk, &key, &value))
        for (size_t i = 0; i < count; i++)
            if (json_string_is(key, names[i])) {
                values[i] = value;
                break;
            }
}

struct text json_member(struct text object, const char *name)
{
    struct text value;
    json_members(object, &name, &value, 1);
    return value;
}

bool json_string_is(struct text raw, const char *words)
{
    if (!raw.at || raw.len < 2 || raw.at[0] != '"')
        return false;
    struct text inside = {raw.at + 1, raw.len - 2};
    if (!memchr(inside.at, '\\', inside.len))
        return text_is(inside, words);
    struct buf decoded = {0};
    json_string(raw, &decoded);
    bool same = text_is(buf_view(&decoded), words);
    buf_free(&decoded);
    return same;
}

static uint32_t unicode_escape(const char *digits)
{
    uint32_t code = 0;
    for (int i = 0; i < 4; i++)
        code = code << 4 | (uint32_t)hex_digit((unsigned char)digits[i]);
    return code;
}

static void add_utf8(struct buf *out, uint32_t code)
{
    char b[4];
    if (code < 0x80) {
        b[0] = (char)code;
        buf_add(out, b, 1);
    } else if (code < 0x800) {
        b[0] = (char)(0xc0 | code >> 6);
        b[1] = (char)(0x80 | (code & 0x3f));
        buf_add(out, b, 2);
    } else if (code < 0x10000) {
        b[0] = (char)(0xe0 | code >> 12);
        b[1] = (char)(0x80 | (code >> 6 & 0x3f));
        b[2] = (char)(0x80 | (code & 0x3f));
        buf_add(out, b, 3);
    } else {
        b[0] = (char)(0xf0 | code >> 18);
        b[1] = (char)(0x80 | (code >> 12 & 0x3f));
        b[2] = (char)(0x80 | (code >> 6 & 0x3f));
        b[3] = (char)(0x80 | (code & 0x3f));
        buf_add(out, b, 4);
    }
}

void json_string(struct text raw, struct buf *out)
{
    static const char letters[] = "bfnrt", controls[] = "\b\f\n\r\t";
    const char *end = raw.at + raw.len - 1;
    for (const char *at = raw.at + 1; at < end;) {
        const char *slash = memchr(at, '\\', (size_t)(end - at));
        const char *stop = slash ? slash : end;
        buf_add(out, at, (size_t)(stop - at));
        if (!slash)
            return;
        at = slash + 2;
        const char *letter = strchr(letters, slash[1]);
        if (slash[1] != 'u') {
            buf_add(out, letter ? &controls[letter - letters] : &slash[1], 1);
            continue;
        }
        uint32_t code = unicode_escape(at);
        at += 4;
        if (code >= 0xd800 && code < 0xdc00 && end - at >= 6 && at[0] == '\\' && at[1] == 'u') {
            uint32_t low = unicode_escape(at + 2);
            if (low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                at += 6;
            }
        }
        add_utf8(out, code >= 0xd800 && code < 0xe000 ? 0xfffd : code);
    }
}

bool json_uint(struct text value, uint64_t *number) { return text_uint(value, number); }
