/*
 * See scanner.h. This file validates; walker.c reads what was validated.
 *
 * One loop asks what is due next: a value, a member name, or what may follow a value. The way out of nested containers is a
 * bit a level (object or array), so a text of any depth costs the same few bytes of stack.
 */
#include "json/scanner.h"
#include "json/integers.h"
#include "json/utf8.h"

enum due { DUE_VALUE, DUE_KEY, DUE_AFTER, DUE_NOTHING, DUE_FAILED };

struct scan {
    json_bytes begin;
    json_bytes at;
    json_bytes end;
    size_t depth;
    size_t max_depth;
    uint64_t objects[JSON_MAX_DEPTH / 64]; /* bit d: level d is an object */
    struct json_member current;            /* of the top-level container */
    bool escaped;                          /* an escape was seen since this was cleared */
    json_member_fn *member;
    void *context;
    struct json_error error;
};

/* What may stand at the beginning of a value. */
enum kind { KIND_OTHER, KIND_OBJECT, KIND_ARRAY, KIND_STRING, KIND_NUMBER, KIND_WORD };

static const unsigned char kinds[256] = {
    ['{'] = KIND_OBJECT, ['['] = KIND_ARRAY,  ['"'] = KIND_STRING, ['-'] = KIND_NUMBER, ['0'] = KIND_NUMBER,
    ['1'] = KIND_NUMBER, ['2'] = KIND_NUMBER, ['3'] = KIND_NUMBER, ['4'] = KIND_NUMBER, ['5'] = KIND_NUMBER,
    ['6'] = KIND_NUMBER, ['7'] = KIND_NUMBER, ['8'] = KIND_NUMBER, ['9'] = KIND_NUMBER, ['t'] = KIND_WORD,
    ['f'] = KIND_WORD,   ['n'] = KIND_WORD,
};

/* What a client may have meant by a byte that begins no value. */
static const struct {
    char byte;
    const char *reason;
} misreadings[] = {
    {'N', "NaN is not JSON"},
    {'I', "Infinity is not JSON"},
    {'\'', "a string must stand in double quotes"},
    {'/', "JSON has no comments"},
    {'#', "JSON has no comments"},
    {'T', "true, false and null are written in small letters"},
    {'F', "true, false and null are written in small letters"},
    {'+', "a number does not begin with '+'"},
    {'.', "a number needs a digit before '.'"},
};

static enum due fail(struct scan *scan, json_bytes at, const char *reason)
{
    scan->error.offset = (size_t)(at - scan->begin);
    scan->error.reason = reason;
    return DUE_FAILED;
}

static bool refuse(struct scan *scan, json_bytes at, const char *reason)
{
    return fail(scan, at, reason) != DUE_FAILED;
}

static bool is_digit(unsigned char byte) { return byte >= '0' && byte <= '9'; }

static bool is_hex(unsigned char byte) { return is_digit(byte) || ((byte | 0x20) >= 'a' && (byte | 0x20) <= 'f'); }

static inline void skip_space(struct scan *scan)
{
    json_bytes at = scan->at;

    while (at < scan->end && *at <= ' ' && json_is_space(*at))
        at++;
    scan->at = at;
}

static bool in_object(const struct scan *scan)
{
    return scan->objects[(scan->depth - 1) / 64] >> (scan->depth - 1) % 64 & 1;
}

/* An escape whose backslash is at scan->at. */
static bool take_escape(struct scan *scan)
{
    json_bytes at = scan->at + 1;

    scan->escaped = true;
    if (at == scan->end)
        return refuse(scan, at, "the text ends inside a string");
    if (*at != 'u') {
        if (*at == 0 || !strchr("\"\\/bfnrt", *at))
            return refuse(scan, scan->at, "unknown escape in a string");
        scan->at = at + 1;
        return true;
    }
    at++;
    for (int digit = 0; digit < 4; digit++, at++) {
        if (at == scan->end)
            return refuse(scan, at, "the text ends inside a string");
        if (!is_hex(*at))
            return refuse(scan, scan->at, "\\u needs four hexadecimal digits");
    }
    scan->at = at;
    return true;
}

/* A string whose opening quote is at scan->at. */
static bool take_string(struct scan *scan)
{
    scan->at++;
    for (;;) {
        json_bytes at = json_find_not_plain(scan->at, scan->end);

        scan->at = at;
        if (at == scan->end)
            return refuse(scan, at, "the text ends inside a string");
        if (*at == '"') {
            scan->at = at + 1;
            return true;
        }
        if (*at == '\\') {
            if (!take_escape(scan))
                return false;
            continue;
        }
        if (*at < 0x20)
            return refuse(scan, at, "control character in a string");
        while (at < scan->end && *at >= 0x80) {
            size_t size = json_utf8_size(at, scan->end);

            if (size == 0)
                return refuse(scan, at, "invalid UTF-8 in a string");
            at += size;
        }
        scan->at = at;
    }
}

static bool take_digits(struct scan *scan)
{
    json_bytes at = json_find_not_digit(scan->at, scan->end);

    if (at == scan->at)
        return refuse(scan, at, at == scan->end ? "the text ends inside a number" : "a number needs a digit here");
    scan->at = at;
    return true;
}

static bool take_number(struct scan *scan)
{
    bool leading_zero;

    if (*scan->at == '-')
        scan->at++;
    leading_zero = scan->end - scan->at > 1 && scan->at[0] == '0' && is_digit(scan->at[1]);
    if (leading_zero)
        return refuse(scan, scan->at, "a number does not begin with 0 and more digits");
    if (!take_digits(scan))
        return false;
    if (scan->at < scan->end && *scan->at == '.') {
        scan->at++;
        if (!take_digits(scan))
            return false;
    }
    if (scan->at < scan->end && (*scan->at | 0x20) == 'e') {
        scan->at++;
        if (scan->at < scan->end && (*scan->at == '+' || *scan->at == '-'))
            scan->at++;
        if (!take_digits(scan))
            return false;
    }
    return true;
}

static bool take_word(struct scan *scan)
{
    const char *word = *scan->at == 't' ? "true" : *scan->at == 'f' ? "false" : "null";
    size_t size = strlen(word);
    size_t left = (size_t)(scan->end - scan->at);

    if (left < size && memcmp(scan->at, word, left) == 0)
        return refuse(scan, scan->end, "the text ends inside a value");
    if (left < size || memcmp(scan->at, word, size) != 0)
        return refuse(scan, scan->at, "unknown word; JSON has true, false and null");
    scan->at += size;
    return true;
}

/* The integers of an array: far more frequent than anything else. Stops before the first element that is none. */
static void take_integers(struct scan *scan)
{
    for (;;) {
        json_bytes at = scan->at;
        json_bytes after;
        uint64_t count = 0;

        if (scan->end - at < 2 || at[0] != ',')
            return;
        at = json_pass_integers(at + 1, scan->end, &count);
        scan->at = at - 1; /* a comma */
        if (at < scan->end && *at == ' ')
            at++;
        after = json_find_not_digit(at, scan->end);
        if (after == at || after == scan->end || (*at == '0' && after - at > 1) || (*after != ',' && *after != ']'))
            return;
        scan->at = after;
    }
}

static enum due open_container(struct scan *scan, bool object)
{
    uint64_t bit = UINT64_C(1) << scan->depth % 64;

    if (scan->depth == scan->max_depth)
        return fail(scan, scan->at, "nested too deeply");
    if (object)
        scan->objects[scan->depth / 64] |= bit;
    else
        scan->objects[scan->depth / 64] &= ~bit;
    scan->depth++;
    scan->at++;
    skip_space(scan);
    if (scan->at < scan->end && *scan->at == (object ? '}' : ']')) {
        scan->at++;
        scan->depth--;
        return DUE_AFTER;
    }
    return object ? DUE_KEY : DUE_VALUE;
}

static enum due no_value(struct scan *scan)
{
    if (scan->at == scan->end)
        return fail(scan, scan->at,
                    scan->depth ? "the text ends where a value should stand" : "there is no JSON value");
    for (size_t row = 0; row < sizeof misreadings / sizeof *misreadings; row++)
        if (*scan->at == (unsigned char)misreadings[row].byte)
            return fail(scan, scan->at, misreadings[row].reason);
    if (*scan->at == ']' || *scan->at == '}')
        return fail(scan, scan->at, "a bracket closes where a value should stand");
    return fail(scan, scan->at, "this is not the beginning of a JSON value");
}

static enum due take_value(struct scan *scan)
{
    skip_space(scan);
    if (scan->depth == 1)
        scan->current.value.begin = (size_t)(scan->at - scan->begin);
    if (scan->at == scan->end)
        return no_value(scan);
    switch (kinds[*scan->at]) {
    case KIND_OBJECT:
        return open_container(scan, true);
    case KIND_ARRAY:
        return open_container(scan, false);
    case KIND_STRING:
        return take_string(scan) ? DUE_AFTER : DUE_FAILED;
    case KIND_NUMBER:
        if (!take_number(scan))
            return DUE_FAILED;
        if (scan->depth > 0 && !in_object(scan) && (scan->depth > 1 || !scan->member))
            take_integers(scan);
        return DUE_AFTER;
    case KIND_WORD:
        return take_word(scan) ? DUE_AFTER : DUE_FAILED;
    default:
        return no_value(scan);
    }
}

static enum due take_key(struct scan *scan)
{
    json_bytes begin;

    skip_space(scan);
    begin = scan->at;
    if (scan->at == scan->end)
        return fail(scan, scan->at, "the text ends inside an object");
    if (*scan->at != '"')
        return fail(scan, scan->at, "a member name in double quotes should stand here");
    scan->escaped = false;
    if (!take_string(scan))
        return DUE_FAILED;
    if (scan->depth == 1) {
        scan->current.key = (struct json_span){(size_t)(begin - scan->begin), (size_t)(scan->at - scan->begin)};
        scan->current.escaped = scan->escaped;
    }
    skip_space(scan);
    if (scan->at == scan->end)
        return fail(scan, scan->at, "the text ends inside an object");
    if (*scan->at != ':')
        return fail(scan, scan->at, "a ':' should follow the member name");
    scan->at++;
    return DUE_VALUE;
}

/* A value has just ended at scan->at. */
static enum due take_after(struct scan *scan)
{
    bool object;

    if (scan->depth == 0)
        return DUE_NOTHING;
    if (scan->depth == 1 && scan->member) {
        scan->current.value.end = (size_t)(scan->at - scan->begin);
        if (!scan->member(scan->context, &scan->current)) {
            scan->error.memory = true;
            return fail(scan, scan->at, "memory is short");
        }
    }
    object = in_object(scan);
    skip_space(scan);
    if (scan->at == scan->end)
        return fail(scan, scan->at, object ? "the text ends inside an object" : "the text ends inside an array");
    if (*scan->at == ',') {
        scan->at++;
        return object ? DUE_KEY : DUE_VALUE;
    }
    if (*scan->at != (object ? '}' : ']'))
        return fail(scan, scan->at, object ? "a ',' or '}' should stand here" : "a ',' or ']' should stand here");
    scan->at++;
    scan->depth--;
    return DUE_AFTER;
}

static bool scan_text(struct scan *scan)
{
    enum due due = DUE_VALUE;

    if (scan->end - scan->at >= 3 && memcmp(scan->at, "\xef\xbb\xbf", 3) == 0)
        return refuse(scan, scan->at, "byte order mark before the JSON text");
    while (due < DUE_NOTHING)
        due = due == DUE_VALUE ? take_value(scan) : due == DUE_KEY ? take_key(scan) : take_after(scan);
    if (due == DUE_FAILED)
        return false;
    skip_space(scan);
    if (scan->at < scan->end)
        return refuse(scan, scan->at, "there is more after the JSON value");
    return true;
}

bool json_validate_within(coord_slice text, size_t max_depth, struct json_error *error, json_member_fn *member,
                          void *context)
{
    static const unsigned char nothing[1];
    json_bytes begin = text.data ? (json_bytes)text.data : nothing;
    struct scan scan = {.begin = begin,
                        .at = begin,
                        .end = begin + text.size,
                        .max_depth = max_depth < JSON_MAX_DEPTH ? max_depth : JSON_MAX_DEPTH,
                        .member = member,
                        .context = context};

    if (scan_text(&scan))
        return true;
    if (error)
        *error = scan.error;
    return false;
}

bool json_validate(coord_slice text, struct json_error *error, json_member_fn *member, void *context)
{
    return json_validate_within(text, JSON_MAX_DEPTH, error, member, context);
}

bool json_utf8_valid(coord_slice text)
{
    json_bytes at = (json_bytes)text.data;
    json_bytes end = text.size ? at + text.size : at;

    while (at < end) {
        size_t size = json_utf8_size(at, end);

        if (size == 0)
            return false;
        at += size;
    }
    return true;
}
